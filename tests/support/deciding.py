"""Simulated systems that answer differently each time, and decisions on their runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from assay.release.confirmation import Turn, suspects_of, turns_for
from assay.release.observations import PASS, Attempt, Check, Observed, Pair, is_severe
from assay.release.rules import Judged, Limits, judge, outcome_of
from assay.release.sides import Sample, Side, Stratum
from assay.release.summary import Summary

GATE, SEVERE = Check("gate", "schema"), Check("gate", "sandbox")
CHECKS = frozenset((GATE, SEVERE, PASS))


class System(NamedTuple):
    """What each sample of a version does: how often it is correct, how a judge scores it, how often
    it fails a gate and how often a severe one.
    """

    right: list[float]
    quality: list[float]
    noise: float
    gates: float
    severe: list[float]
    weight: float
    """The share of correctness in the score."""


def system(kind: str, n: int, drawn: random.Random) -> System:
    """A suite: `det`, `mild` (5% of samples flaky), `llm` (30%) or `agent` (60%)."""
    flaky = {"det": 0.0, "mild": 0.05, "llm": 0.30, "agent": 0.60}[kind]
    shape = (2, 2) if kind == "agent" else (4, 1.5)
    return System(
        [
            drawn.betavariate(*shape) if drawn.random() < flaky else float(drawn.random() < 0.9)
            for _ in range(n)
        ],
        [drawn.uniform(3.5, 4.8) for _ in range(n)],
        {"det": 0.0, "mild": 0.15, "llm": 0.7, "agent": 0.0}[kind],
        0.01 if kind in ("llm", "agent") else 0.0,
        [0.0] * n,
        1.0 if kind == "agent" else 0.6,
    )


def broken(one: System, share: float, drawn: random.Random) -> System:
    """The same version with a share of its samples broken for good."""
    right = list(one.right)
    able = [place for place, p in enumerate(right) if p >= 0.5]
    for place in drawn.sample(able, min(round(share * len(right)), len(able))):
        right[place] = 0.0
    return one._replace(right=right)


def attempt(one: System, place: int, drawn: random.Random) -> Attempt:
    """One run of a sample."""
    correct = drawn.random() < one.right[place]
    judged = one.quality[place] + drawn.gauss(0, 1) * one.noise
    likert = (min(5, max(1, round(judged) if one.noise else judged)) - 1) / 4
    score = round(10_000 * (one.weight * correct + (1 - one.weight) * likert))
    failed = set() if correct and score >= 5000 else {PASS}
    if drawn.random() < one.gates:
        failed |= {GATE, PASS}
    severe = drawn.random() < one.severe[place]
    if severe:
        failed |= {SEVERE, PASS}
    return Attempt(
        CHECKS,
        frozenset(failed),
        frozenset({SEVERE} if severe else ()),
        score,
        ("correct", "quality"),
        (10**9 * correct, round(10**9 * likert)),
    )


def pairs_of(old: System, new: System, runs: tuple[int, int], drawn: random.Random) -> list[Pair]:
    """Both versions run: the candidate so often, the baseline so often."""
    return [
        Pair(
            f"s{place:04}",
            Observed(tuple(attempt(new, place, drawn) for _ in range(runs[0]))),
            Observed(tuple(attempt(old, place, drawn) for _ in range(runs[1]))),
        )
        for place in range(len(old.right))
    ]


def decided(
    old: System,
    new: System,
    runs: tuple[int, int],
    limits: Limits,
    drawn: random.Random,
) -> tuple[str, Judged]:
    """The outcome after confirmation, and what was judged."""
    pairs = pairs_of(old, new, runs, drawn)
    fresh: dict[str, Sequence[Turn]] = {}
    if not limits.deterministic:
        needed = turns_for(pairs, false_alarm=limits.errors.confirmed)
        severe = [
            pair.sample for pair in pairs if any(is_severe(run) for run in pair.candidate.attempts)
        ]
        for name in {suspect.sample for suspect in suspects_of(pairs)} | set(severe):
            place = int(name[1:])
            turns = max(needed, limits.severe_turns) if name in severe else needed
            fresh[name] = [
                Turn(attempt(new, place, drawn), attempt(old, place, drawn)) for _ in range(turns)
            ]
    judged = judge(pairs, limits, floors={}, fresh=fresh)
    return outcome_of(judged.rules, pairs=len(pairs), limits=limits)[0], judged


def outcomes(
    kind: str,
    n: int,
    times: int,
    *,
    seed: int,
    effect: Any = None,
    runs: tuple[int, int] = (1, 1),
    limits: Limits | None = None,
) -> dict[str, float]:
    """How often each outcome comes, over many simulated releases."""
    found: dict[str, float] = {}
    for number in range(times):
        drawn = random.Random(f"{kind} {n} {seed} {number}")
        old = system(kind, n, drawn)
        new = old if effect is None else effect(old, drawn)
        outcome, _ = decided(old, new, runs, limits or Limits(), drawn)
        found[outcome] = found.get(outcome, 0) + 1 / times
    return found


STRATUM = Stratum("bench@1", ("correct", "quality"), (6, 4), ("binary", "likert_1_5"))
SYSTEMS = {"scoringSystem": ["scoringSystem/1.0.0"], "gradingSystem": ["gradingSystem/1.0.0"]}


def side_of(one: System, repeats: int, drawn: random.Random, *, version: str = "1") -> Side:
    """So many runs of every sample of a version, as a command reads them."""
    samples = {}
    for place in range(len(one.right)):
        runs = tuple(attempt(one, place, drawn) for _ in range(repeats))
        name = f"s{place:04}"
        samples[name] = Sample(
            name,
            runs,
            tuple(range(1, repeats + 1)),
            repeats,
            sum(not run.failed for run in runs),
            STRATUM,
            None,
            frozenset(),
            None,
            tuple(f"{name}-{version}-{number}" for number in range(repeats)),
            {},
            {},
            frozenset((b"same",)),
            frozenset(),
            tuple(bytes([number]) for number in range(repeats)),
        )
    return Side(
        f"v{version}",
        samples,
        SYSTEMS,
        Summary().block(),
        {"evidence": f"sha256:{version}"},
        len(samples) * repeats,
        {"bot": frozenset((version,))},
    )
