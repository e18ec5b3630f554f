"""Simulations of whole decisions: how often a version is rejected against itself, how often a
broken one is found, and how often one that is worse by exactly the margin is promoted.

The tests run them with few repeats; `python tests/campaign/campaign_release.py` runs them in full and prints
the tables. Everything is seeded. See `deciding` for the simulated systems: `det` always gives the
same answer, of `mild` 5% of the samples are flaky, of `llm` 30%, and of `agent` 60%.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from assay.release.rules import Limits
from deciding import System, broken, outcomes

KINDS = ("det", "mild", "llm", "agent")
SIZES = (50, 200)
RUNS = ((1, 1), (3, 5), (1, 5), (3, 1))
"""Runs of the candidate and of the baseline; the third has a banked baseline."""


class Cell(NamedTuple):
    """How often each outcome came, of so many simulated releases."""

    kind: str
    n: int
    runs: tuple[int, int]
    times: int
    promoted: float
    rejected: float


def cell(
    kind: str, n: int, runs: tuple[int, int], times: int, *, broken_share: float = 0.0
) -> Cell:
    """The outcomes of one system, with this share of its samples broken for good."""

    def effect(old: System, drawn: random.Random) -> System:
        return broken(old, broken_share, drawn)

    found = outcomes(
        kind,
        n,
        times,
        seed=11,
        runs=runs,
        effect=effect if broken_share else None,
        limits=Limits(),
    )
    return Cell(kind, n, runs, times, found.get("promote", 0.0), found.get("reject", 0.0))


def same_version(times: int) -> Iterator[Cell]:
    """A version against itself."""
    for kind in KINDS:
        for n in SIZES:
            for runs in RUNS:
                yield cell(kind, n, runs, times)


def found_broken(times: int) -> Iterator[Cell]:
    """5% of 200 samples broken for good."""
    for kind in KINDS:
        for runs in RUNS:
            yield cell(kind, 200, runs, times, broken_share=0.05)


def most(times: int, rate: float) -> float:
    """The largest share of so many that is no sign of a rate above this one: three standard errors
    above it.
    """
    return float(rate + 3 * (rate * (1 - rate) / times) ** 0.5)


def main(times: int = 400) -> None:
    """Every table; about an hour on two cores."""
    started = time.perf_counter()
    for title, cells in (
        ("A version against itself", same_version(times)),
        ("5% of 200 samples broken for good", found_broken(times)),
    ):
        print(
            f"**{title}**\n\n| system | n | runs | promoted | rejected |\n|---|---:|---|---:|---:|"
        )
        for one in cells:
            runs = f"{one.runs[0]} against {one.runs[1]}"
            print(f"| {one.kind} | {one.n} | {runs} | {one.promoted:.3f} | {one.rejected:.3f} |")
        print()
    print(f"{times} releases a cell; {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
