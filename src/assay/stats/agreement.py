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
from assay.stats.kappa import METHOD, distances, in_order, stretch

Level = Literal["nominal", "ordinal", "interval"]
"""Of measurement: categories, categories in an order, numbers whose distances mean something."""
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
SAME = "every rating is the same: chance leaves nothing to disagree on"
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
        return Interval.unknown(None, confidence, METHOD, SAME)
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
