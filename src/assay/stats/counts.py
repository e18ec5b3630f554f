"""Exact moments and quantiles of counted whole numbers. Memory grows only with the distinct
values.
"""

from __future__ import annotations

from collections import Counter
from math import sqrt

QUANTILES = (5, 25, 50, 75, 95)


class Counts:
    """A multiset of integers, each standing for a value of `unit`.

    >>> scores = Counts(0.01)
    >>> for score in (9000, 8000, 7000):
    ...     scores.add(score)
    >>> scores.mean(), scores.sd(), scores.quantile(50)
    (80.0, 10.0, 80.0)
    """

    def __init__(self, unit: float) -> None:
        self.scale = round(1 / unit)
        self.counts: Counter[int] = Counter()

    def add(self, value: int) -> None:
        """Count one value."""
        self.counts[value] += 1

    @property
    def n(self) -> int:
        """How many were counted."""
        return self.counts.total()

    @property
    def total(self) -> int:
        """Their sum."""
        return sum(value * count for value, count in self.counts.items())

    @property
    def squares(self) -> int:
        """The sum of their squares."""
        return sum(value * value * count for value, count in self.counts.items())

    def mean(self) -> float | None:
        """The mean, rounded once."""
        n = self.n
        return self.total / (n * self.scale) if n else None

    def sd(self) -> float | None:
        """The standard deviation with n - 1; None for fewer than two values, because one value
        shows no spread.
        """
        n = self.n
        if n < 2:
            return None
        total, squares = self.total, self.squares
        return sqrt((n * squares - total * total) / (n * (n - 1))) / self.scale

    def quantile(self, percent: int) -> float | None:
        """A percentile, interpolated linearly between neighbours."""
        n = self.n
        if not n:
            return None
        place, part = divmod((n - 1) * percent, 100)
        low = self.at(place)
        high = self.at(min(place + 1, n - 1))
        return (low * 100 + (high - low) * part) / (100 * self.scale)

    def quantiles(self) -> dict[str, float | None]:
        """The percentiles of the reporting bundle."""
        return {f"p{percent}": self.quantile(percent) for percent in QUANTILES}

    def at(self, place: int) -> int:
        """The value at a place in their order, from 0."""
        for value in sorted(self.counts):
            place -= self.counts[value]
            if place < 0:
                return value
        raise IndexError(place)

    def histogram(self, low: int, high: int, bins: int) -> list[dict[str, float | int]]:
        """Counts in equal bins; the last one includes its upper end."""
        bin_counts = [0] * bins
        for value, count in self.counts.items():
            bin_counts[min(bins - 1, (value - low) * bins // (high - low))] += count
        width = (high - low) / bins
        return [
            {
                "low": (low + index * width) / self.scale,
                "high": (low + (index + 1) * width) / self.scale,
                "count": count,
            }
            for index, count in enumerate(bin_counts)
        ]
