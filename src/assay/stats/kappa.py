"""Agreement of two raters: Cohen's kappa, plain and weighted, the table of their ratings, and one
of them as a classifier with the other as the truth.

Everything is computed from the pairs of ratings that occur and from the two margins; no table of
all categories by all categories is built, so ten thousand categories cost no more than ten thousand
items. Agreement of any number of raters is in `agreement`, correlation in `correlation`. If chance
leaves nothing to disagree on, kappa is undefined: it is None with the reason, never 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from math import fsum, sqrt
from typing import Any, Literal, NamedTuple

from assay.stats.influence import IMAGINED, thin, z_interval
from assay.stats.intervals import Interval

Weights = Literal["nominal", "linear", "quadratic"]
METHOD = "delta-z-t"
"""Delta method with imagined items, on Fisher's z, with Student's t."""
SAME = "both raters gave every item one and the same rating: chance leaves nothing to disagree on"
NO_ITEMS = "no item was rated by both"


def in_order(categories: Iterable[Any]) -> list[Any]:
    """Categories in their order: truth values, numbers by value, texts by letter.

    >>> in_order(["b", 10, 9.5, "a"])
    [9.5, 10, 'a', 'b']
    """
    kinds: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for category in categories:
        kinds[0 if isinstance(category, bool) else 2 if isinstance(category, str) else 1].append(
            category
        )
    return [category for kind in kinds for category in sorted(kind)]


def stretch(values: Sequence[float]) -> list[float]:
    """Numbers moved and scaled to 0..1: no ratio of their distances changes.

    >>> stretch([-1e50, 0, 1e50])
    [0.0, 0.5, 1.0]
    """
    low, high = min(values), max(values)
    width = high - low
    return [(value - low) / width for value in values] if width else [0.0] * len(values)


class RatingPairs(NamedTuple):
    """The ratings of two raters of the same items, counted: how often the first gave category i
    where the second gave category j.
    """

    categories: list[Any]
    cells: dict[tuple[int, int], int]
    n: int


def count_pairs(first: Sequence[Hashable], second: Sequence[Hashable]) -> RatingPairs:
    """Count the pairs of ratings; an item that either did not rate (None) is left out.

    >>> count_pairs([1, 2, None], [1, 1, 2])
    RatingPairs(categories=[1, 2], cells={(0, 0): 1, (1, 0): 1}, n=2)
    """
    counts = Counter(zip(first, second, strict=True))
    kept = {
        pair: times for pair, times in counts.items() if pair[0] is not None and pair[1] is not None
    }
    categories = in_order({category for pair in kept for category in pair})
    place = {category: index for index, category in enumerate(categories)}
    return RatingPairs(
        categories,
        {
            (place[first_rating], place[other]): times
            for (first_rating, other), times in kept.items()
        },
        sum(kept.values()),
    )


def cohen_kappa(pairs: RatingPairs, *, level: float = 0.95) -> Interval:
    """Cohen's kappa: how far two raters agree beyond chance. 1 is full agreement, 0 is chance,
    below 0 is worse than chance.

    >>> found = cohen_kappa(count_pairs([1, 1, 2, 2] * 5, [1, 1, 2, 1] * 5))
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.5, 0.05, 0.776)
    >>> cohen_kappa(count_pairs([1, 1], [1, 1])).value is None
    True

    Source: Cohen, 1960; the standard error of Fleiss, Cohen and Everitt, 1969, on the table with
    the imagined items.
    """
    return _kappa(pairs, "nominal", range(len(pairs.categories)), level=level)


def weighted_kappa(
    pairs: RatingPairs,
    weights: Literal["linear", "quadratic"],
    *,
    by_value: bool = False,
    level: float = 0.95,
) -> Interval:
    """Weighted kappa: a disagreement counts by how far apart the two ratings are, or by the square
    of that.

    The distance of two categories is that of their places in the order of those that occur, as in
    scikit-learn; with `by_value`, that of their numbers.

    >>> weighted_kappa(count_pairs([1, 2, 3, 4], [1, 2, 4, 3]), "quadratic").value
    0.8

    Source: Cohen, 1968; the standard error as for `cohen_kappa`.
    """
    places: Sequence[float] = (
        stretch([float(category) for category in pairs.categories])
        if by_value and pairs.n
        else range(len(pairs.categories))
    )
    return _kappa(pairs, weights, places, level=level)


class _Cells(NamedTuple):
    """Cells of a table as columns: places of the two ratings, and weights; a cell may be there
    more than once.
    """

    rows: list[int]
    columns: list[int]
    weights: list[float]

    def margins(self, size: int) -> tuple[list[float], list[float]]:
        first: list[float] = [0] * size
        second: list[float] = [0] * size
        for i, j, weight in zip(*self, strict=True):
            first[i] += weight
            second[j] += weight
        return first, second

    def apart(self, weights: Weights, places: Sequence[float]) -> list[float]:
        if weights == "nominal":
            return [i != j for i, j in zip(self.rows, self.columns, strict=True)]
        if weights == "linear":
            return [
                abs(places[i] - places[j]) for i, j in zip(self.rows, self.columns, strict=True)
            ]
        return [(places[i] - places[j]) ** 2 for i, j in zip(self.rows, self.columns, strict=True)]


def _kappa(
    pairs: RatingPairs, weights: Weights, places: Sequence[float], *, level: float
) -> Interval:
    if not pairs.n:
        return Interval.unknown(None, level, METHOD, NO_ITEMS)
    cells = _Cells(
        [i for i, _ in pairs.cells], [j for _, j in pairs.cells], list(pairs.cells.values())
    )
    first, second = cells.margins(len(places))
    # counts and places are whole numbers, so both sums are exact and only the quotient is rounded
    observed = sum(
        weight * apart
        for weight, apart in zip(cells.weights, cells.apart(weights, places), strict=True)
    )
    chance = sum(
        mass * away for mass, away in zip(first, distances(second, weights, places), strict=True)
    )
    if len(places) < 2 or not chance:
        return Interval.unknown(None, level, METHOD, SAME)
    centre, error = _spread(
        _with_imagined(cells, first, second, pairs.n, ordered=weights != "nominal"),
        weights,
        places,
        pairs.n,
    )
    return z_interval(
        (chance - pairs.n * observed) / chance, centre, error, pairs.n, level=level, method=METHOD
    )


def distances(masses: Sequence[float], weights: Weights, places: Sequence[float]) -> list[float]:
    """How far each place is from a margin: the sum over its masses of mass times distance. Places
    ascend.

    >>> distances([1, 0, 1], "linear", [0, 1, 2])
    [2, 2, 2]
    """
    total = sum(masses)
    if weights == "nominal":
        return [total - mass for mass in masses]
    first = sum(mass * place for mass, place in zip(masses, places, strict=True))
    if weights == "quadratic":
        second = sum(mass * place * place for mass, place in zip(masses, places, strict=True))
        return [max(0, total * place * place - 2 * place * first + second) for place in places]
    away = []
    below: float = 0
    moment: float = 0
    for mass, place in zip(masses, places, strict=True):
        below += mass
        moment += mass * place
        away.append(place * (2 * below - total) + first - 2 * moment)
    return away


def _with_imagined(
    cells: _Cells, first: Sequence[float], second: Sequence[float], n: int, *, ordered: bool
) -> _Cells:
    half = IMAGINED / 2
    rows, columns = thin(first, ordered=ordered), thin(second, ordered=ordered)
    chance = [(i, j, half * row * other / (n * n)) for i, row in rows for j, other in columns]
    both = [mine + other for mine, other in zip(first, second, strict=True)]
    added = [*chance, *((i, i, half * mass / (2 * n)) for i, mass in thin(both, ordered=ordered))]
    return _Cells(
        cells.rows + [i for i, _, _ in added],
        cells.columns + [j for _, j, _ in added],
        cells.weights + [weight for _, _, weight in added],
    )


def _spread(
    cells: _Cells, weights: Weights, places: Sequence[float], n: int
) -> tuple[float, float]:
    """Kappa of weighted cells, and its standard error for n items, by the influence of each
    cell.
    """
    total = fsum(cells.weights)
    first, second = cells.margins(len(places))
    from_second = [away / total for away in distances(second, weights, places)]
    from_first = [away / total for away in distances(first, weights, places)]
    apart = cells.apart(weights, places)
    observed = (
        fsum(weight * distance for weight, distance in zip(cells.weights, apart, strict=True))
        / total
    )
    expected = fsum(mass * away for mass, away in zip(first, from_second, strict=True)) / total
    ratio = observed / expected
    level = 2 * ratio * expected - observed
    squares = fsum(
        weight * (distance + level - ratio * (from_second[i] + from_first[j])) ** 2
        for i, j, weight, distance in zip(*cells, apart, strict=True)
    )
    return 1 - ratio, sqrt(squares / total / max(1, n - 1)) / expected


class Classification(NamedTuple):
    """The second rater as a classifier, the first as the truth: means over the categories that
    either gave, each category alike.
    """

    macro_precision: float
    macro_recall: float
    macro_f1: float


def classify(pairs: RatingPairs) -> Classification | None:
    """Macro precision, recall and F1, from 0 to 1; a category that one of them never gave counts 0
    there. None without items.

    >>> classify(count_pairs(["a", "a", "b"], ["a", "b", "b"])).macro_recall
    0.75
    """
    if not pairs.n:
        return None
    size = len(pairs.categories)
    true, given, right = [0] * size, [0] * size, [0] * size
    for (i, j), times in pairs.cells.items():
        true[i] += times
        given[j] += times
        right[i] += times if i == j else 0
    return Classification(
        fsum(hit / all_given for hit, all_given in zip(right, given, strict=True) if all_given)
        / size,
        fsum(hit / all_true for hit, all_true in zip(right, true, strict=True) if all_true) / size,
        fsum(
            2 * hit / (actual + other)
            for hit, actual, other in zip(right, true, given, strict=True)
        )
        / size,
    )
