"""Simulations behind docs/statistical-methods.md: how often intervals cover, and how often claims
are false.

The tests run each part with few repeats; `python tests/campaign/campaign_statistics.py` runs all of them in
full and prints the tables of the document. Everything is seeded. `above` is how often the whole
interval lies above the truth: at a margin, that is how often a candidate that is exactly too bad is
promoted.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from assay.stats.clusters import estimate_clustered_mean
from assay.stats.correlation import kendall_tau_b, pearson, spearman
from assay.stats.estimate import DIFFERENCES, SCORES, Range
from assay.stats.intervals import Interval, rate_difference, wilson
from assay.stats.means import estimate_mean
from paired import compare_paired


class Kind(NamedTuple):
    """Values of one distribution: how to draw n of them, and their true mean."""

    draw: Callable[[Any, int], Any]
    mean: float
    range: Range = SCORES


class Cell(NamedTuple):
    """How often intervals of one method covered the truth, in one place of the grid."""

    method: str
    kind: str
    n: int
    coverage: float
    above: float
    below: float
    refused: float


def graded(shares: Sequence[float], values: Sequence[float], range: Range = SCORES) -> Kind:
    return Kind(
        lambda draw, n: draw.choice(np.array(values), n, p=shares),
        float(np.dot(shares, values)),
        range,
    )


KINDS: dict[str, Kind] = {
    "rate 0.01": graded([0.99, 0.01], [0.0, 100.0]),
    "rate 0.05": graded([0.95, 0.05], [0.0, 100.0]),
    "rate 0.5": graded([0.5, 0.5], [0.0, 100.0]),
    "rate 0.9": graded([0.1, 0.9], [0.0, 100.0]),
    "rate 0.99 (most 100, few 0)": graded([0.01, 0.99], [0.0, 100.0]),
    "most 100, some lower": Kind(
        lambda draw, n: np.where(draw.random(n) < 0.15, np.round(draw.uniform(0, 90, n), 1), 100.0),
        100 - 0.15 * 55,
    ),
    "five grades, skewed": graded([0.02, 0.03, 0.05, 0.2, 0.7], [0.0, 25.0, 50.0, 75.0, 100.0]),
    "normal, sd 15": Kind(lambda draw, n: draw.normal(0, 15, n).clip(-100, 100), 0.0, DIFFERENCES),
    "smooth and skewed": Kind(
        lambda draw, n: 100 - 100 * draw.beta(0.3, 3, n), 100 - 100 * 0.3 / 3.3
    ),
    "differences, 97% ties": graded([0.02, 0.97, 0.01], [-100.0, 0.0, 100.0], DIFFERENCES),
    "differences, 85% ties": graded([0.1, 0.85, 0.05], [-100.0, 0.0, 100.0], DIFFERENCES),
    "differences, 90% ties, drops": Kind(
        lambda draw, n: np.where(draw.random(n) < 0.1, np.round(draw.uniform(-60, 20, n), 1), 0.0),
        -2.0,
        DIFFERENCES,
    ),
    "differences, 70% ties, drops": Kind(
        lambda draw, n: np.where(draw.random(n) < 0.3, np.round(draw.uniform(-60, 20, n), 1), 0.0),
        -6.0,
        DIFFERENCES,
    ),
}
UNSEEN = Kind(
    lambda draw, n: (draw.normal(0, 2, n) - 90 * (draw.random(n) < 0.02)).clip(-100, 100),
    -1.8,
    DIFFERENCES,
)
"""Noise on every sample and a rare large drop: what was not in the sample, no interval that
believes its spread can know.
"""
SIZES = (5, 10, 20, 30, 100, 300)
SHAPES: dict[str, list[int]] = {
    "5 groups of 10": [10] * 5,
    "10 groups of 10": [10] * 10,
    "30 groups of 5": [5] * 30,
    "5 groups, 2 to 30": [2, 3, 5, 10, 30],
    "10 groups, 1 to 34": [1, 1, 2, 2, 3, 5, 8, 13, 21, 34],
    "30 groups, 2 to 60": [60 // place for place in range(1, 31)],
}


def seeded(*names: object) -> Any:
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


def tallied(method: str, kind: str, n: int, truth: float, intervals: Iterable[Interval]) -> Cell:
    covered = above = below = refused = total = 0
    for found in intervals:
        total += 1
        if found.low is None or found.high is None:
            refused += 1
        elif found.low > truth + 1e-9:
            above += 1
        elif found.high < truth - 1e-9:
            below += 1
        else:
            covered += 1
    given = max(1, total - refused)
    return Cell(
        method,
        kind,
        n,
        covered / given if total > refused else float("nan"),
        above / given,
        below / given,
        refused / total,
    )


def means(
    repeats: int,
    *,
    method: str = "auto",
    sizes: Sequence[int] = SIZES,
    kinds: dict[str, Kind] = KINDS,
) -> list[Cell]:
    """Intervals of a mean, by `estimate_mean` or its guaranteed form."""
    return [
        tallied(
            method,
            name,
            n,
            kind.mean,
            (
                estimate_mean(
                    kind.draw(draw, n).tolist(),
                    range=kind.range,
                    guaranteed=method == "guaranteed",
                ).interval
                for draw in [seeded("means", name, n)]
                for _ in range(repeats)
            ),
        )
        for name, kind in kinds.items()
        for n in sizes
    ]


def clustered(repeats: int) -> list[Cell]:
    """Samples of groups that are alike by 0, 0.3 or 0.9; normal scores, and failures that come by
    groups.
    """
    cells = []
    for shape, sizes in SHAPES.items():
        groups = [group for group, size in enumerate(sizes) for _ in range(size)]
        places = np.array(groups)
        for alike in (0.0, 0.3, 0.9):

            def normal(draw: Any, alike: float = alike, places: Any = places) -> list[float]:
                shared, own = (
                    draw.normal(0, alike**0.5, len(set(places.tolist()))),
                    draw.normal(0, (1 - alike) ** 0.5, len(places)),
                )
                return (10 * (shared[places] + own)).clip(-100, 100).tolist()

            def failures(draw: Any, alike: float = alike, places: Any = places) -> list[float]:
                spread = (1 - alike) / (alike + 1e-3)
                rates = draw.beta(0.85 * spread, 0.15 * spread, len(set(places.tolist())))
                return (100.0 * (draw.random(len(places)) < rates[places])).tolist()

            for name, make, truth, span in (
                ("normal", normal, 0.0, DIFFERENCES),
                ("rate 0.85", failures, 85.0, SCORES),
            ):
                draw = seeded("clusters", shape, alike, name)
                found = (
                    estimate_clustered_mean(make(draw), groups, range=span).interval
                    for _ in range(repeats)
                )
                cells.append(
                    tallied(
                        "clusters", f"{shape}, alike {alike}, {name}", len(groups), truth, found
                    )
                )
    return cells


def single_rates(repeats: int) -> list[Cell]:
    """Wilson's interval of one share, Newcombe's of two."""
    cells = []
    for rate in (0.001, 0.01, 0.05, 0.3, 0.5, 0.95, 0.99):
        for n in SIZES:
            counts = seeded("one rate", rate, n).binomial(n, rate, repeats).tolist()
            compared = cache(rate_difference)
            cells.append(
                tallied("wilson", f"rate {rate}", n, rate, map(cache(partial(wilson, n=n)), counts))
            )
            others = seeded("other rate", rate, n).binomial(n, rate / 2, repeats).tolist()
            pairs = zip(counts, others, strict=True)
            cells.append(
                tallied(
                    "newcombe",
                    f"rates {rate} and {rate / 2}",
                    n,
                    rate / 2,
                    (compared(one, n, other, n) for one, other in pairs),
                )
            )
    return cells


# --- claims at the margin


def _pairs(kind: str, draw: Any, n: int, drop: float) -> tuple[Any, Any]:
    """A candidate that is exactly `drop` points worse, and its baseline."""
    if kind == "noise":
        baseline = draw.uniform(20, 90, n)
        return (baseline - drop + draw.normal(0, 3, n)).clip(0, 100), baseline
    if kind == "crashes":  # most score 100, and the candidate fails altogether on a few more
        baseline = np.where(draw.random(n) < 0.01, 0.0, 100.0)
        return np.where(draw.random(n) < drop / 99, 0.0, baseline), baseline
    if kind == "pass or fail":
        sound = draw.random(n) < 0.9
        lost, won = draw.random(n) < (drop / 100 + 0.02) / 0.9, draw.random(n) < 0.2
        return 100.0 * np.where(sound, ~lost, won), 100.0 * sound
    if kind == "grades":
        baseline = draw.choice([25.0, 50.0, 75.0], n)
        return (
            baseline
            + draw.choice([-25.0, 0.0, 25.0], n, p=[0.1 + drop / 50, 0.8, 0.1 - drop / 50]),
            baseline,
        )
    baseline = np.full(n, 95.0)  # ever so slightly worse on most, much worse on some
    return baseline - drop / (0.3 / 3.3) * draw.beta(0.3, 3, n), baseline


PAIRS = ("noise", "crashes", "pass or fail", "grades", "leaning")


def false_claims(
    repeats: int,
    *,
    sizes: Sequence[int] = (30, 100, 500),
    margins: Sequence[float] = (1.0, 3.0),
    how: str = "paired",
) -> list[Cell]:
    """How often a candidate that is worse by exactly the margin is shown to be non-inferior:
    paired, guaranteed, or with the spread believed.
    """
    cells = []
    for kind in PAIRS:
        for margin in margins:
            for n in sizes:
                draw = seeded("claims", kind, margin, n)
                shown = refused = inferior = 0
                for _ in range(repeats):
                    candidate, baseline = _pairs(kind, draw, n, margin)
                    found = compare_paired(
                        candidate.tolist(),
                        baseline.tolist(),
                        margin=margin,
                        guaranteed=how == "guaranteed",
                        believed=how == "believed",
                    ).claims
                    shown += found.non_inferior is True
                    inferior += found.inferior is True
                    refused += found.non_inferior is None
                name = f"{kind}, margin {margin:g}"
                cells.append(
                    Cell(
                        how,
                        name,
                        n,
                        1 - (shown + inferior) / repeats,
                        shown / repeats,
                        inferior / repeats,
                        refused / repeats,
                    )
                )
    return cells


def false_grouped_claims(repeats: int) -> list[Cell]:
    """The same where pairs share groups whose differences are alike by a half."""
    cells = []
    for shape, sizes in SHAPES.items():
        groups = [group for group, size in enumerate(sizes) for _ in range(size)]
        draw, places, shown = seeded("grouped claims", shape), np.array(groups), 0
        for _ in range(repeats):
            differences = -2 + 3 * (
                draw.normal(0, 1, len(sizes))[places] + draw.normal(0, 1, len(groups))
            )
            shown += (
                compare_paired(
                    (50 + differences).tolist(), [50.0] * len(groups), margin=2.0, groups=groups
                ).claims.non_inferior
                is True
            )
        cells.append(
            Cell(
                "paired, groups", shape, len(groups), 1 - shown / repeats, shown / repeats, 0.0, 0.0
            )
        )
    return cells


CEILINGS = {
    "60% fives": (0.05, 0.05, 0.1, 0.2, 0.6),
    "70% fives": (0.1, 0.05, 0.05, 0.1, 0.7),
    "80% fives": (0.02, 0.03, 0.05, 0.1, 0.8),
    "90% fives": (0.01, 0.02, 0.03, 0.04, 0.9),
}
"""Shares of the ratings 1 to 5."""


def ratings(
    shares: Sequence[float], likeness: float, n: int, draw: Any
) -> tuple[list[int], list[int]]:
    """Two raters of n items with the same shares; the second repeats the first with the chance
    `likeness`, which is then their correlation.
    """
    first, other = draw.choice(5, n, p=shares), draw.choice(5, n, p=shares)
    return first.tolist(), np.where(draw.random(n) < likeness, first, other).tolist()


def correlations(
    repeats: int,
    *,
    sizes: Sequence[int] = (20, 40, 100),
    kinds: dict[str, tuple[float, ...]] = CEILINGS,
) -> list[Cell]:
    """Correlation of skewed ratings, each likeness by itself."""
    cells = []
    for method, find in {
        "pearson": pearson,
        "spearman": spearman,
        "kendall": kendall_tau_b,
    }.items():
        for kind, shares in kinds.items():
            for likeness in (0.0, 0.3, 0.5, 0.7, 0.9):
                draw = seeded(method, kind, likeness)
                truth = find(*ratings(shares, likeness, 200_000, draw)).value
                assert truth is not None
                for n in sizes:
                    intervals = (find(*ratings(shares, likeness, n, draw)) for _ in range(repeats))
                    cells.append(
                        tallied(method, f"{method}, {kind}, {likeness}", n, truth, intervals)
                    )
    return cells


def average(cells: Sequence[Cell]) -> float:
    """Over all intervals that were given: a cell where most were refused counts for what it
    gave.
    """
    given = [(cell.coverage, 1 - cell.refused) for cell in cells if cell.refused < 1]
    return sum(coverage * share for coverage, share in given) / sum(share for _, share in given)


def worst(cells: Sequence[Cell]) -> Cell:
    return min((cell for cell in cells if cell.refused <= 0.5), key=lambda cell: cell.coverage)


def printed(title: str, cells: Sequence[Cell], *, sizes: bool = True) -> None:
    """A table by kind and n, with the average and the worst cell."""
    bad, false = (
        worst(cells),
        max((cell for cell in cells if cell.refused <= 0.5), key=lambda cell: cell.above),
    )
    print(
        f"\n**{title}**: average coverage {average(cells):.3f}, worst"
        f" {bad.coverage:.3f} ({bad.kind}, n = {bad.n}); ",
        end="",
    )
    print(f"most often above the truth {false.above:.3f} ({false.kind}, n = {false.n})\n")
    if not sizes:
        print("| kind | n | coverage | above | below | refused |\n|---|---:|---:|---:|---:|---:|")
        for cell in cells:
            print(
                f"| {cell.kind} | {cell.n} | {cell.coverage:.3f} | {cell.above:.3f} |"
                f" {cell.below:.3f} | {cell.refused:.2f} |"
            )
        return
    columns = sorted({cell.n for cell in cells})
    print(
        "| kind | " + " | ".join(f"n = {n}" for n in columns) + " |\n|---|" + "---:|" * len(columns)
    )
    for kind in dict.fromkeys(cell.kind for cell in cells):
        row = {cell.n: cell for cell in cells if cell.kind == kind}
        shown = [
            (
                f"{row[n].coverage:.3f}"
                + (f" ({row[n].refused:.0%} refused)" if row[n].refused >= 0.005 else "")
                if row[n].refused < 1
                else "refused"
            )
            for n in columns
        ]
        print(f"| {kind} | " + " | ".join(shown) + " |")


def main(repeats: int = 2000) -> None:
    """Every table; about twenty minutes."""
    started = time.perf_counter()
    printed("Mean, `estimate_mean`", means(repeats))
    printed("Mean, `guaranteed`", means(repeats // 2, method="guaranteed", sizes=(5, 30, 100)))
    printed(
        "A rare large drop under noise, `estimate_mean`",
        means(repeats, kinds={"noise, 2% lose 90": UNSEEN}),
    )
    printed(
        "The same, `guaranteed`",
        means(
            repeats // 2,
            method="guaranteed",
            sizes=(5, 30, 100),
            kinds={"noise, 2% lose 90": UNSEEN},
        ),
    )
    printed("Mean of groups, `estimate_clustered_mean`", clustered(repeats), sizes=False)
    rates = single_rates(repeats * 5)
    for method in ("wilson", "newcombe"):
        printed(f"Rates, {method}", [cell for cell in rates if cell.method == method])
    printed(
        "Worse by exactly the margin, paired: `above` is promoted",
        false_claims(repeats),
        sizes=False,
    )
    printed(
        "Worse by exactly the margin, paired, `believed`: `above` is promoted",
        false_claims(repeats, how="believed"),
        sizes=False,
    )
    printed(
        "Worse by exactly the margin, paired, `guaranteed`: `above` is promoted",
        false_claims(repeats // 4, sizes=(30, 100), how="guaranteed"),
        sizes=False,
    )
    printed(
        "Worse by exactly the margin, groups: `above` is promoted",
        false_grouped_claims(repeats),
        sizes=False,
    )
    printed("Correlation of skewed ratings", correlations(repeats // 2))
    print(f"\n{repeats} repeats a cell; {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
