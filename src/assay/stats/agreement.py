"""Agreement of any number of raters: the share that agrees, Fleiss' kappa, Krippendorff's alpha.

The last two are one minus the disagreement inside items over the disagreement that chance would
give. Alpha takes items with any two ratings or more and corrects for small samples; Fleiss' kappa
takes only items that all raters rated. The ordinal distance of Krippendorff is the square of the
distance of mid-ranks, so every level costs a sort and a pass. Where every rating is the same, both
are undefined: None with the reason, never 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from math import fsum, sqrt
from typing import Any, Literal, NamedTuple

from assay.stats.influence import IMAGINED, tails, thin, z_interval
from assay.stats.intervals import Interval, wilson

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


Level = Literal["nominal", "ordinal", "interval"]
"""Of measurement: categories, categories in an order, numbers whose distances mean something."""
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
SAME_CLASS = "every rating is the same: chance leaves nothing to disagree on"
INCOMPLETE = "no item was rated by all"


def agreement(items: Iterable[Sequence[Hashable]], *, confidence: float = 0.95) -> Interval:
    """The share of items on which all raters agree; an item that one of them did not rate (None) is
    left out.

    >>> agreement([(1, 1), (1, 2), (2, None)]).value
    0.5
    """
    counts = Counter(len(set(ratings)) == 1 for ratings in items if None not in ratings)
    interval = wilson(counts[True], counts.total(), level=confidence)
    return interval if counts else interval._replace(reason=INCOMPLETE)


def krippendorff_alpha(
    items: Iterable[Sequence[Hashable]], *, level: Level, confidence: float = 0.95
) -> Interval:
    """Krippendorff's alpha, for any number of raters and missing ratings (None). 1 is full
    agreement, 0 is chance.

    >>> found = krippendorff_alpha([(1, 1), (1, 2), (2, 2), (3, 3), (None, 3)], level="nominal")
    >>> round(found.value, 6), found.reason
    (0.666667, '4 items; an interval needs at least 5')

    Source: Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011. Its interval: see
    `influence`.
    """
    rated = (
        item if None not in item else [rating for rating in item if rating is not None]
        for item in items
    )
    return _ratio(
        Counter(tuple(item) for item in rated if len(item) > 1),
        level,
        corrected=True,
        confidence=confidence,
    )


def fleiss_kappa(items: Iterable[Sequence[Hashable]], *, confidence: float = 0.95) -> Interval:
    """Fleiss' kappa of nominal categories, over the items that all raters rated; of two raters it
    is Scott's pi.

    >>> round(fleiss_kappa([("a", "a", "b"), ("b", "b", "b"), ("a", "a", "a")]).value, 6)
    0.55

    Source: Fleiss, 1971. Its interval: see `influence`.
    """
    return _ratio(
        Counter(tuple(item) for item in items if None not in item and len(item) > 1),
        "nominal",
        corrected=False,
        confidence=confidence,
    )


class _Unit(NamedTuple):
    """Items with the same ratings: their places among the categories, how many such items, and how
    much each of them weighs.
    """

    places: tuple[int, ...]
    times: float
    weight: float


def _ratio(
    patterns: Counter[tuple[Any, ...]], metric: Level, *, corrected: bool, confidence: float
) -> Interval:
    n = patterns.total()
    if not n:
        return Interval.unknown(
            None,
            confidence,
            METHOD,
            "no item has two ratings" if corrected else INCOMPLETE,
        )
    categories = in_order({category for pattern in patterns for category in pattern})
    if len(categories) < 2:
        return Interval.unknown(None, confidence, METHOD, SAME_CLASS)
    place = {category: index for index, category in enumerate(categories)}
    units = [
        _Unit(tuple([place[category] for category in pattern]), times, len(pattern))
        for pattern, times in patterns.items()
    ]
    ratings = sum(len(pattern) * times for pattern, times in patterns.items())
    scale = (
        stretch([float(category) for category in categories])
        if metric == "interval"
        else [0.0] * len(categories)
    )
    factor = (ratings - 1) / ratings if corrected else 1.0
    seen = _Disagreement(units, metric, scale)
    if not seen.expected:
        return Interval.unknown(
            None,
            confidence,
            METHOD,
            "the ratings differ by less than numbers of this size can show",
        )
    eased = _Disagreement(
        [*units, *_imagined(seen, ratings / n, ordered=metric != "nominal")], metric, scale
    )
    variance = (
        fsum(
            unit.times * moved * moved
            for unit, moved in zip(eased.units, eased.influences(), strict=True)
        )
        * n
        / max(1, n - 1)
    )
    centre = 1 - factor * eased.observed / eased.expected
    return z_interval(
        1 - factor * seen.observed / seen.expected,
        centre,
        factor * sqrt(variance),
        n,
        level=confidence,
        method=METHOD,
    )


def _imagined(seen: _Disagreement, weight: float, *, ordered: bool) -> list[_Unit]:
    half = IMAGINED / 2
    points = thin(seen.margin, ordered=ordered)
    chance = [
        _Unit((i, j), half * point * other, weight) for i, point in points for j, other in points
    ]
    return [*chance, *(_Unit((i, i), half * point, weight) for i, point in points)]


class _Disagreement:
    """The disagreement inside units and by chance, and the influence of each unit on the ratio of
    the two.
    """

    def __init__(self, units: list[_Unit], metric: Level, scale: list[float]) -> None:
        self.units = units
        self.total = fsum(unit.times * unit.weight for unit in units)
        masses = [0.0] * len(scale)
        for places, times, weight in units:
            share = times * weight / len(places)
            for place in places:
                masses[place] += share
        self.margin = [mass / self.total for mass in masses]
        self.ordinal = metric == "ordinal"
        self.scale = _mid_ranks(self.margin) if self.ordinal else scale
        self.away = distances(
            self.margin, "nominal" if metric == "nominal" else "quadratic", self.scale
        )
        self.apart = (
            [_different(unit.places) for unit in units]
            if metric == "nominal"
            else [_distant(unit.places, self.scale) for unit in units]
        )
        self.observed = (
            fsum(
                unit.times * unit.weight * apart
                for unit, apart in zip(units, self.apart, strict=True)
            )
            / self.total
        )
        self.expected = fsum(mass * away for mass, away in zip(self.margin, self.away, strict=True))

    def influences(self) -> list[float]:
        """How the ratio of observed to expected moves with one more item like each unit."""
        ratio = self.observed / self.expected
        pulls = [-2 * ratio * away for away in self.away]
        if self.ordinal:
            pulls = [
                pull + moved for pull, moved in zip(pulls, self._rank_moves(ratio), strict=True)
            ]
        level = 2 * ratio * self.expected - self.observed
        whole = self.total * self.expected
        return [
            weight * (apart + level + sum([pulls[place] for place in places]) / len(places)) / whole
            for (places, _, weight), apart in zip(self.units, self.apart, strict=True)
        ]

    def _rank_moves(self, ratio: float) -> list[float]:
        """How one more rating of each category moves the ratio by moving the mid-ranks of all."""
        middle = fsum(mass * rank for mass, rank in zip(self.margin, self.scale, strict=True))
        pull = [
            -4 * ratio * mass * (rank - middle)
            for mass, rank in zip(self.margin, self.scale, strict=True)
        ]
        for places, times, weight in self.units:
            m = len(places)
            ranks = [self.scale[place] for place in places]
            total = sum(ranks)
            share = 4 * times * weight / (self.total * m * (m - 1))
            for place, rank in zip(places, ranks, strict=True):
                pull[place] += share * (m * rank - total)
        return tails(pull)


def _different(places: tuple[int, ...]) -> float:
    """The share of pairs of ratings of one unit that differ."""
    m = len(places)
    if m == 2:
        return float(places[0] != places[1])
    return (m * m - sum(times * times for times in Counter(places).values())) / (m * (m - 1))


def _distant(places: tuple[int, ...], scale: Sequence[float]) -> float:
    """The mean square of the distance of two ratings of one unit."""
    m = len(places)
    if m == 2:
        return (scale[places[0]] - scale[places[1]]) ** 2
    middle = sum([scale[place] for place in places]) / m
    return 2 * sum([(scale[place] - middle) ** 2 for place in places]) / (m - 1)


def _mid_ranks(margin: Sequence[float]) -> list[float]:
    made = []
    below = 0.0
    for mass in margin:
        made.append(below + mass / 2)
        below += mass
    return made
