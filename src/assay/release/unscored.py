"""What nobody measured of the baseline: scores that no judge, person or script gave to runs that
succeeded, and undetermined gates.

A missing score counts as 0, and an undetermined gate as failed. On the baseline's side that would
help the candidate, so a rule that holds only because of it doesn't hold: forgetting evidence never
helps. A criterion that Assay measures lacks its evidence because of what the workflow did, so it
stays 0. A sample that the candidate has no score for either is left out, since the criterion may
not apply to it: both count as 0 there. A gate applies wherever either side has it, so one that the
candidate lacks evidence for fails there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from assay.errors import count, few
from assay.records.grade import Grade
from assay.records.summary import SummaryBlock
from assay.release.policy import ReleaseRules
from assay.release.promotion import Promotion, with_finding
from assay.release.promotion_rules import FLOOR_RULE, GATE_RULE, SCORE_RULE, SEVERE_RULE
from assay.release.required import held
from assay.release.sides import Side, Stratum
from assay.release.tally import CertainFailures

AGAIN = "Evaluate the baseline again with all of its evidence."


class UnscoredRuns(NamedTuple):
    """What the baseline lacks of a criterion that a side has a score of, or that the candidate lost
    with the sample.
    """

    runs: int = 0
    """Runs of the baseline without a score."""
    missed: int = 0
    """Samples of these runs in which the candidate misses the floor."""


def unscored_in(grade: Grade) -> Iterator[tuple[str, str]]:
    """The criteria that nobody scored, of a run that succeeded, each with the sample."""
    if grade.scorecard.status in (None, "success"):
        for item in grade.criteria:
            if item.criterion.raw_score is None and not item.was_measured:
                yield item.name, grade.sample


def unscored_runs(candidate: Side, baseline: Side) -> dict[str, UnscoredRuns]:
    """What the baseline lacks, by criterion."""
    counts: dict[str, UnscoredRuns] = {}
    for (name, sample), times in baseline.unscored.items():
        ours, theirs = candidate.rows.get(sample), baseline.rows[sample]
        if ours is None or name in ours.judges or name in theirs.judges:
            runs, missed = counts.get(name, UnscoredRuns())
            missed += name in (theirs.floors if ours is None else held(ours, theirs).missed)
            counts[name] = UnscoredRuns(runs + times, missed)
    return counts


def hold_unscored(
    promotion: Promotion,
    candidate: Side,
    baseline: Side,
    unscored: Mapping[str, UnscoredRuns],
    rules: ReleaseRules,
) -> Promotion:
    """The decision, with every rule that the missing evidence of the baseline leaves open.
    `unscored` is as `unscored_runs` counts it.
    """
    assert promotion.tally is not None
    tally = promotion.tally
    gates, severe = tally.gates, tally.severe
    reasons = unscored_baseline(
        candidate,
        baseline,
        unscored,
        promotion.comparison.difference.low,
        tally.compared.strata,
        rules,
        certain=gates.certain,
        severe=severe.certain,
        severe_criteria=severe.criteria,
        sizes=(gates.n, gates.n),
        new_misses=tally.floors.new.total,
        alone=candidate.summary.n - promotion.n_paired * min(_repeats(candidate)),
    )
    for rule, reason in reasons.items():
        promotion = with_finding(
            promotion, reason, {}, rules, violated=False, id=rule, names_lost=True
        )
    return promotion


def unscored_baseline(
    candidate: Side,
    baseline: Side,
    unscored: Mapping[str, UnscoredRuns],
    low: float | None,
    strata: Iterable[Stratum],
    rules: ReleaseRules,
    *,
    certain: CertainFailures,
    severe: CertainFailures,
    severe_criteria: frozenset[str],
    sizes: tuple[int, int],
    alone: int,
    new_misses: int = 0,
) -> dict[str, str]:
    """Why a rule doesn't hold though it does as counted, by its id. `sizes` are the samples of
    each side of which `certain` and `severe` count the failures, `low` the lower end of the
    difference, `new_misses` the floors that the baseline's scores show to be newly missed, and
    `alone` how many runs of the candidate may be of samples that are in no pair.
    """
    unscored = {
        name: lacks
        for name, lacks in sorted(unscored.items())
        if lacks.runs
        and (ours := candidate.summary.criteria.get(name)) is not None
        and ours.missing < ours.n
    }
    of_severe = {name: lacks for name, lacks in unscored.items() if name in severe_criteria}
    reasons = {
        SCORE_RULE: _scores(unscored, baseline, low, strata, rules),
        FLOOR_RULE: _floors(
            unscored, candidate, baseline, rules.new_floor_failures, new_misses=new_misses
        ),
        GATE_RULE: _gates(certain, sizes, baseline, rules),
        SEVERE_RULE: _floors(of_severe, candidate, baseline, rules.severe_increase)
        or _severe(severe, sum(lacks.runs for lacks in of_severe.values()), sizes, rules),
    }
    return {
        **{rule: f"{reason}. {AGAIN}" for rule, reason in reasons.items() if reason},
        **_nowhere(candidate, baseline.summary, rules, alone=alone),
        **_unchecked(candidate, baseline, rules.min_pairs),
    }


def _repeats(side: Side) -> list[int]:
    """How many runs each sample has; the rows of a batch stay in its file, one for each run."""
    return [len(row.runs) for row in side.rows.values()] or [1]


def _nowhere(
    candidate: Side, theirs: SummaryBlock, rules: ReleaseRules, *, alone: int
) -> dict[str, str]:
    """Gates and floors that no run of the baseline has evidence for, and too few of the candidate.
    Then about every run fails them, on both sides alike, and that shows nothing. Those that only
    some runs have are left out.
    """
    ours, least = candidate.summary, rules.min_pairs * max(_repeats(candidate))
    gates = {
        name: ours.gates[name].n - ours.gates[name].undetermined
        for name, one in theirs.gates.items()
        if one.undetermined == theirs.n and name in ours.gates
    }
    floors = {
        name: ours.criteria[name].n - ours.criteria[name].missing
        for name, one in theirs.criteria.items()
        if one.missing == one.floor_failures == theirs.n and name in ours.criteria
    }
    reasons = {}
    for rule, what, known in ((GATE_RULE, "evidence", gates), (FLOOR_RULE, "a score", floors)):
        few = {name: n for name, n in sorted(known.items()) if n - alone < least}
        names, most = ", ".join(few), max(few.values(), default=0)
        if most:
            reasons[rule] = (
                f"no run of the baseline has {what} for {names}, and only {most:,} of the"
                f" candidate's {ours.n:,}; the policy asks for at least {rules.min_pairs} paired"
                " samples. Evaluate both sides with it."
            )
        elif few:
            reasons[rule] = (
                f"no run of either side has {what} for {names}, so none can pass. Evaluate both"
                " sides with it."
            )
    return reasons


def _unchecked(candidate: Side, baseline: Side, least: int) -> dict[str, str]:
    """Samples that another tool passed because nothing was asserted of them show nothing. Whichever
    side says so: samples are only paired if the same is asserted of both.
    """
    sides = (candidate.rows, baseline.rows)
    unchecked = {
        name
        for rows in sides
        for name, row in rows.items()
        if row.declared is not None and row.declared.unchecked
    }
    n, checked = (min(len(rows.keys() - less) for rows in sides) for less in (set(), unchecked))
    if not unchecked or checked >= least:
        return {}
    reason = (
        f"{checked} of {count(n, 'sample')} were checked, and the policy asks for at least {least};"
        " the others passed because nothing is asserted of them. Add assertions, and evaluate both"
        " sides with them."
    )
    return {GATE_RULE: reason}


def _scores(
    unscored: Mapping[str, UnscoredRuns],
    baseline: Side,
    low: float | None,
    strata: Iterable[Stratum],
    rules: ReleaseRules,
) -> str:
    """Whether the missing scores could hide a drop of the margin."""
    shares: dict[str, Fraction] = {}
    for stratum in strata:
        for name, weight in zip(stratum.criteria, stratum.weights, strict=True):
            share = Fraction(weight, sum(stratum.weights))
            shares[name] = max(share, shares.get(name, share))
    runs = baseline.summary.n
    points = sum(
        (100 * shares.get(name, Fraction(0)) * lacks.runs for name, lacks in unscored.items()),
        Fraction(0),
    )
    off = float(points / runs)
    if not off or low is None or low - off > -rules.margin:
        return ""
    listed = ", ".join(f"{name} in {lacks.runs} of {runs}" for name, lacks in unscored.items())
    return (
        f"runs of the baseline have no score for {listed}; with one, the difference could be"
        f" {off:.2f} points lower, and as counted its lower end is {low:+.2f}"
    )


def _floors(
    unscored: Mapping[str, UnscoredRuns],
    candidate: Side,
    baseline: Side,
    allowed: int,
    *,
    new_misses: int = 0,
) -> str:
    """Whether the candidate misses a floor where the baseline may have kept it, next to
    `new_misses` where it did.
    """
    for name, (times, missed) in unscored.items():
        ours, theirs = (side.summary.criteria[name] for side in (candidate, baseline))
        misses, before = (
            max(0, summary.floor_failures - summary.missing) for summary in (ours, theirs)
        )
        if misses - before > allowed:
            return (
                f"{count(misses, 'score')} of the candidate for {name}"
                f" {'misses' if misses == 1 else 'miss'} its floor, {before:,} of the"
                f" baseline, which has no score in {times:,} of {baseline.summary.n:,} runs"
            )
        if missed > allowed:
            return (
                f"the candidate misses the floor of {name} in {count(missed, 'sample')} for which"
                " the baseline has no score"
            )
    missed = sum(lacks.missed for lacks in unscored.values())
    if missed and missed + new_misses > allowed:
        return (
            f"the candidate newly misses {count(new_misses, 'floor')}, and {missed:,} more for"
            f" which the baseline has no score; allowed: {allowed}"
        )
    return ""


def _gates(
    certain: CertainFailures, sizes: tuple[int, int], baseline: Side, rules: ReleaseRules
) -> str:
    """Whether more samples of the candidate fail a gate than the baseline's fail for certain."""
    n, before = sizes
    if not certain.undetermined:
        return ""
    rise = Fraction(certain.candidate, n) - Fraction(certain.baseline, before)
    if rise <= Fraction(*rules.gate_failure_increase):
        return ""
    of_before = "" if n == before else f" of {before:,}"
    gates = (name for name, one in baseline.summary.gates.items() if one.undetermined)
    return (
        f"the candidate fails a gate in {certain.candidate:,} of {n:,} samples, the baseline for"
        f" certain in {certain.baseline:,}{of_before}; in {certain.undetermined:,} it lacks"
        f" evidence for {few(sorted(gates))}"
    )


def _severe(
    severe: CertainFailures, unscored: int, sizes: tuple[int, int], rules: ReleaseRules
) -> str:
    """Whether the candidate has more severe failures than the baseline has for certain, without
    missed floors that may be among its `unscored` ones.
    """
    n, before = sizes
    sure, lacks = max(0, severe.baseline - unscored), severe.undetermined + unscored
    if not lacks:
        return ""
    rise = Fraction(severe.candidate, n) - Fraction(sure, before)
    if rise <= Fraction(rules.severe_increase, n):
        return ""
    scores = f"{count(unscored, 'score')} with a severe floor" if unscored else ""
    gates = count(severe.undetermined, "severe gate") if severe.undetermined else ""
    return (
        f"the candidate has {count(severe.candidate, 'severe failure')}, the baseline has {sure}"
        f" for certain and lacks evidence for {' and '.join(filter(None, (gates, scores)))}"
    )
