"""Suspects, and what fresh runs say of them.

A (sample, check) that the candidate fails in at least half of its runs, and in at least half a run
more than the baseline, is suspect. In a noisy suite a version is suspect against itself, so nothing
follows from that alone: the verdict uses fresh runs only, and neither side's luck in the first
round counts. Each turn runs the candidate, then the baseline. A pass of the candidate clears the
suspect as flaky, a failure of the baseline clears it too, and as many turns as `stats.confirmation`
asks for, without either, confirm it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from assay.release.observations import Attempt, Check, Pair, Share, fails
from assay.stats.confirmation import FEWEST, is_suspect, turns_needed

Verdict = Literal["confirmed", "flaky", "baseline_fails_too", "open"]


class Turn(NamedTuple):
    """One fresh run of each side; None for one that failed for reasons of the infrastructure."""

    candidate: Attempt | None
    baseline: Attempt | None


Fresh = Mapping[str, Sequence[Turn]]
"""The fresh runs of each sample, in the order of their attempts, with none left out."""


class Suspect(NamedTuple):
    """A check that a sample seems to fail newly, and what came of it."""

    sample: str
    check: Check
    candidate: Share
    baseline: Share
    verdict: Verdict = "open"
    turns: int = 0
    """Fresh turns that were looked at."""


def suspects_of(pairs: Sequence[Pair]) -> list[Suspect]:
    """Every suspect, in the order of sample ids. A run that the candidate lost is suspected of a
    failure, and one that the baseline lost of none.
    """
    found = []
    for pair in sorted(pairs, key=lambda pair: pair.sample):
        if not _may_be_suspect(pair):
            continue
        for check in sorted(pair.checks):
            ours = Share.worst(pair.candidate, fails(check))
            theirs = Share.best(pair.baseline, fails(check))
            if is_suspect(*ours, *theirs):
                found.append(Suspect(pair.sample, check, ours, theirs))
    return found


def _may_be_suspect(pair: Pair) -> bool:
    """Whether some run of the candidate fails or lacks a check: most pairs need no closer look."""
    runs, checks = pair.candidate.attempts, pair.checks
    return bool(
        pair.candidate.lost
        or not runs
        or any(run.failed or not run.judged >= checks for run in runs)
    )


def turns_for(pairs: Sequence[Pair], *, false_alarm: float) -> int:
    """How many turns confirm a suspect of this suite. It depends on the announced runs, never on
    what is suspect.
    """
    if not pairs or _agrees_with_itself(pairs):
        return FEWEST
    checks = len(frozenset[Check]().union(*(pair.checks for pair in pairs))) or 1
    announced = {(pair.candidate.announced or 1, pair.baseline.announced or 1) for pair in pairs}
    return max(
        turns_needed(len(pairs), checks, mine, theirs, false_alarm=false_alarm)
        for mine, theirs in announced
    )


def _agrees_with_itself(pairs: Sequence[Pair]) -> bool:
    """Whether the baseline has two runs or more of each sample, and none of them disagrees."""
    return all(
        len(pair.baseline.attempts) >= 2
        and len({run.failed for run in pair.baseline.attempts}) == 1
        for pair in pairs
    )


def settled(suspect: Suspect, turns: Sequence[Turn], *, needed: int) -> Suspect:
    """The suspect with what its fresh runs say. A run of the candidate that was lost, or doesn't
    answer the check, counts as failed; one of the baseline voids the turn, whatever the candidate
    did.
    """
    failing, failed_again, void = fails(suspect.check), 0, 0
    for count, turn in enumerate(turns, 1):
        if turn.candidate is not None and failing(turn.candidate) is False:
            return suspect._replace(verdict="flaky", turns=count)
        answer = None if turn.baseline is None else failing(turn.baseline)
        if answer is None:
            void += 1
            if void > needed:
                break
            continue
        if answer:
            return suspect._replace(verdict="baseline_fails_too", turns=count)
        failed_again += 1
        if failed_again >= needed:
            return suspect._replace(verdict="confirmed", turns=count)
    return suspect._replace(turns=len(turns))


def has_world_changed(suspects: Sequence[Suspect], fresh: Fresh) -> bool:
    """Whether the baseline, which passed every suspect in all its stored runs, now fails in each of
    its fresh runs, and there are `FEWEST` of them: then something other than the candidate is
    different.
    """
    passed: dict[str, list[Suspect]] = {}
    for suspect in suspects:
        if not suspect.baseline.failing:
            passed.setdefault(suspect.sample, []).append(suspect)
    failed = 0
    for sample, checks in passed.items():
        looked_at = max(suspect.turns for suspect in checks)
        for turn in fresh.get(sample, ())[:looked_at]:
            if turn.baseline is None:
                continue
            if not any(fails(suspect.check)(turn.baseline) for suspect in checks):
                return False
            failed += 1
    return failed >= FEWEST
