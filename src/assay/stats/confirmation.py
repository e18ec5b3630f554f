"""How often a suspect must fail again before it counts as broken.

A (sample, check) that fails in the candidate and not in the baseline is a suspicion. The verdict
uses fresh runs only: in each turn the candidate must fail again and the baseline pass again, which
a sample that fails with chance p on both sides does with chance p (1 - p). The number of turns m
follows from the suite and the announced runs alone. If it followed from how many are suspect,
repairing one sample could confirm another.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

FEWEST = 3
"""Turns that every suspect needs, unless the policy says that runs are deterministic."""
FALSE_ALARM = 0.01
"""The chance that anything at all is confirmed where the two versions are the same."""
_GRID = 2000


def is_suspect(failing: int, runs: int, others_failing: int, others: int) -> bool:
    """Whether the candidate's share of failing runs is at least one half, and exceeds the
    baseline's by at least one half.

    >>> (
    ...     is_suspect(1, 1, 0, 1),
    ...     is_suspect(2, 3, 0, 1),
    ...     is_suspect(1, 3, 0, 3),
    ...     is_suspect(3, 3, 2, 3),
    ... )
    (True, True, False, False)
    """
    if not runs or not others:
        return False
    ahead = failing * others - others_failing * runs
    return 2 * failing >= runs and 2 * ahead >= runs * others


@lru_cache(maxsize=1024)
def turns_needed(
    samples: int, checks: int, runs: int, others: int, *, false_alarm: float = FALSE_ALARM
) -> int:
    """The fewest turns, and at least `FEWEST`, with which two runs of one version confirm anything
    with at most that chance, however flaky its samples are.

    >>> [turns_needed(n, 1, 1, 1) for n in (50, 200, 1000)]
    [6, 7, 8]
    """
    turns = FEWEST
    while _false_alarm(samples, checks, runs, others, turns) > false_alarm:
        turns += 1
    return turns


def false_alarm(samples: int, checks: int, runs: int, others: int, turns: int) -> float:
    """The chance, at most, that so many turns confirm anything of two runs of one version.

    >>> round(false_alarm(200, 1, 1, 1, 7), 4)
    0.0031
    """
    return min(1.0, _false_alarm(samples, checks, runs, others, turns))


@lru_cache(maxsize=4096)
def _false_alarm(samples: int, checks: int, runs: int, others: int, turns: int) -> float:
    return (
        samples
        * checks
        * max(
            chance * (place / _GRID * (1 - place / _GRID)) ** turns
            for place, chance in enumerate(_suspicions(runs, others))
        )
    )


@lru_cache(maxsize=256)
def _suspicions(runs: int, others: int) -> tuple[float, ...]:
    """The chance of being suspect for each chance of failing."""
    return tuple(_chance_of_suspect(place / _GRID, runs, others) for place in range(_GRID + 1))


def _chance_of_suspect(p: float, runs: int, others: int) -> float:
    """The chance that a sample which fails with chance p on both sides is suspect."""
    mine, theirs = (
        [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)] for n in (runs, others)
    )
    return sum(
        mine[failing] * theirs[others_failing]
        for failing in range(runs + 1)
        for others_failing in range(others + 1)
        if is_suspect(failing, runs, others_failing, others)
    )
