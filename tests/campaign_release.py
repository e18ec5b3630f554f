"""Simulations of the whole promotion: how often a candidate that is exactly too bad is promoted,
and how often one that is as good is.

The tests run it with few repeats; `python tests/campaign_release.py` runs it in full and prints the
tables. Everything is seeded. A candidate whose true difference is minus the margin may be promoted
in at most 5% (each end of the interval errs in 2.5%); one without a difference as often as was
planned.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from assay.release.looks import with_looks
from assay.release.promotion import promote

from assay.release.pairs import Pair
from assay.release.plan import needed_samples
from assay.release.policy import ReleaseRules
from assay.release.sides import Row, Stratum
from sides import RULES, SHRINKAGE, STRICT

STRATUM = Stratum("p@1", ("c0",), (1,), ("zero_one",))
NONE: frozenset[str] = frozenset()
BASE = 8000


class Kind(NamedTuple):
    """Differences of one shape, in points: how to draw n of them with mean 0, and their standard
    deviation.
    """

    draw: Callable[[Any, int], Any]
    sd: float


def normal(sd: float) -> Kind:
    return Kind(lambda draw, n: draw.normal(0, sd, n), sd)


KINDS = {
    "normal, sd 2": normal(2.0),
    "normal, sd 5": normal(5.0),
    "ties: 60% none, else 4 up or down": Kind(
        lambda draw, n: draw.choice([-4.0, 0.0, 4.0], n, p=[0.2, 0.6, 0.2]), (0.4 * 16) ** 0.5
    ),
    "two values, 3 down or up": Kind(lambda draw, n: draw.choice([-3.0, 3.0], n), 3.0),
    "skewed up": Kind(lambda draw, n: draw.exponential(3.0, n) - 3.0, 3.0),
    "skewed down": Kind(lambda draw, n: 3.0 - draw.exponential(3.0, n), 3.0),
}


class Seen(NamedTuple):
    """How often a promotion came to each outcome."""

    kind: str
    n: int
    effect: float
    promoted: float
    rejected: float


def row(sample: str, hundredths: int) -> Row:
    norms = (hundredths * 100_000,)
    return Row(
        sample,
        hundredths,
        True,
        frozenset({"open"}),
        NONE,
        NONE,
        NONE,
        norms,
        STRATUM,
        None,
        NONE,
        None,
        (sample,),
        {},
        {},
        norms,
        7000,
        {},
    )


def simulate(
    kind: str,
    n: int,
    *,
    effect: float,
    repeats: int,
    rules: ReleaseRules = RULES,
    looks: int = 1,
    margin: float | None = None,
) -> Seen:
    """The outcomes over many draws of n pairs. Scores are rounded to hundredths, as the product has
    them.
    """
    rules = rules if margin is None else rules._replace(margin=margin)
    draw = np.random.default_rng(zlib.crc32(f"{kind} {n} {effect}".encode()))
    names = [f"s{index:05}" for index in range(n)]
    baseline = [row(name, BASE) for name in names]
    promoted = rejected = 0
    for _ in range(repeats):
        differences = np.rint((KINDS[kind].draw(draw, n) + effect) * 100).astype(int)
        pairs = [
            Pair(name, row(name, int(min(10_000, max(0, BASE + difference)))), before)
            for name, difference, before in zip(names, differences, baseline, strict=True)
        ]
        found = promote(pairs, rules, shrinkage=SHRINKAGE)
        if looks > 1:
            found = with_looks(found, rules, looks=looks)
        promoted += found.outcome == "promote"
        rejected += found.outcome == "reject"
    return Seen(kind, n, effect, promoted / repeats, rejected / repeats)


class Planned(NamedTuple):
    """A plan, and how often it kept its word."""

    kind: str
    effect: float
    needed: int
    promised: float
    seen: float


def planned(
    repeats: int,
    *,
    kinds: tuple[str, ...] = ("normal, sd 2", "normal, sd 5"),
    effects: tuple[float, ...] = (0.0, 1.0),
) -> list[Planned]:
    """The power of promotion with the number of samples that a plan names; only where that is more
    than the policy's minimum.
    """
    found = []
    for kind in kinds:
        for effect in effects:
            for power in (0.8, 0.9):
                needed = needed_samples(RULES, effect=effect, power=power, sd=KINDS[kind].sd)
                if needed is not None and needed > RULES.min_pairs:
                    found.append(
                        Planned(
                            kind,
                            effect,
                            needed,
                            power,
                            simulate(kind, needed, effect=effect, repeats=repeats).promoted,
                        )
                    )
    return found


def main(repeats: int = 2000) -> None:
    """Every table; some ten minutes on two cores."""
    started = time.perf_counter()
    print(
        "**Worse by exactly the margin: promoted**\n\n| differences | "
        + " | ".join(f"n = {n}" for n in (30, 50, 100, 300))
        + " |\n|---|---:|---:|---:|---:|"
    )
    worst = 0.0
    for kind in KINDS:
        cells = [
            simulate(kind, n, effect=-RULES.margin, repeats=repeats).promoted
            for n in (30, 50, 100, 300)
        ]
        worst = max(worst, *cells)
        print(f"| {kind} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    print(
        f"\nworst cell {worst:.3f}\n\n**The same, `release-strict`, n = 300, and with looks, n ="
        " 1000**\n\n| differences | strict | looks |\n|---|---:|---:|"
    )
    for kind in KINDS:
        strict = simulate(kind, 300, effect=-1.0, repeats=repeats // 8, rules=STRICT).promoted
        looked = simulate(kind, 1000, effect=-1.0, repeats=repeats // 8, looks=3).promoted
        print(f"| {kind} | {strict:.3f} | {looked:.3f} |")
    print("\n**No difference: rejected, n = 100**\n\n| differences | rejected |\n|---|---:|")
    for kind in KINDS:
        print(f"| {kind} | {simulate(kind, 100, effect=0.0, repeats=repeats // 2).rejected:.3f} |")
    print(
        "\n**Power as planned**\n\n| differences | effect | pairs | promised | seen"
        " |\n|---|---:|---:|---:|---:|"
    )
    for plan in planned(repeats):
        print(
            f"| {plan.kind} | {plan.effect:+g} | {plan.needed} | {plan.promised:.2f} |"
            f" {plan.seen:.3f} |"
        )
    print(f"\n{repeats} repeats a cell; {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
