"""Confidence sequences: intervals that hold at every look at once, so that a run may stop whenever
it has seen enough.

An ordinary 95% interval is valid for one look that was fixed in advance. An analyst who looks
repeatedly and stops at the first good result errs in far more than 5% of cases. The sequences here
err in at most 5% over all looks together, however many there are and whatever the reason to stop.

The interval comes from bets: a player who bets against a supposed mean m with a share f of the
capital multiplies it by 1 - f + f x / m with every value x. If m is the mean, the capital ever
exceeds 40 with a chance of at most 1/40. The bets are spread over a fixed list of shares, so that
the order of the values between two looks changes nothing. This is valid for every n and every
distribution in the range, and therefore wider than Student's interval: with differences of scores
on -100..100, a margin of 1 is not reached before some 640 pairs.

Each look keeps what earlier looks have excluded. Values enter in an order fixed before the run;
whether to look must not depend on values yet to come. Sources: Waudby-Smith and Ramdas, Estimating
means of bounded random variables by betting, 2024; Orabona and Jun, Tight concentrations and
confidence sequences from the regret of universal portfolio, 2024.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import exp, fsum, log

from assay.stats.bounded import crossing
from assay.stats.estimate import DIGITS, Range, checked
from assay.stats.intervals import Interval

_SHARES = tuple(0.97 * 0.62**step for step in range(14))
"""Shares of the capital, from nearly all of it, for few values, to 0.002, for a hundred
thousand.
"""


class MeanSequence:
    """The confidence sequence of a mean of values in a range.

    >>> looks = MeanSequence(Range(-100.0, 100.0))
    >>> looks.update([1.0, -1.0] * 400).reason is None
    True
    >>> found = looks.update([1.0, 2.0] * 400)
    >>> looks.looks, looks.n, -1 < found.low < found.value < found.high
    (2, 1600, True)
    """

    def __init__(self, range: Range, *, level: float = 0.95) -> None:
        self.range = range
        self.level = level
        self.looks = 0
        self.n = 0
        self._counts: Counter[float] = Counter()
        self._low, self._high = 0.0, 1.0

    def update(self, values: Iterable[float]) -> Interval:
        """Take the values that are new since the last look, and look. Its cost grows with the
        distinct values seen so far.
        """
        return self.update_counts(Counter(checked(values, self.range)))

    def update_counts(self, new: Counter[float]) -> Interval:
        """Like `update`, with counted values, each rounded to `DIGITS` and within the range."""
        width = self.range.highest - self.range.lowest
        for value, count in new.items():
            self._counts[round((value - self.range.lowest) / width, DIGITS + 2)] += count
        self.n += new.total()
        self.looks += 1
        if self.n < 2:
            reason = "one sample has no spread to estimate from" if self.n else "no samples"
            single = next(iter(new), None)
            return Interval.unknown(single, self.level, "betting sequence", reason)
        mean = fsum(value * count for value, count in self._counts.items()) / self.n
        wanted = log(2 / (1 - self.level))
        pairs = sorted(self._counts.items())
        low = _end(pairs, self._low, mean, wanted)
        high = 1 - _end(
            [(1 - value, count) for value, count in pairs], 1 - self._high, 1 - mean, wanted
        )
        self._low, self._high = max(self._low, low), min(self._high, high)
        lowest = self.range.lowest
        middle = lowest + mean * width
        if self._low > self._high:  # every mean is excluded: in at most 1 - level of all sequences
            reason = "the looks contradict each other: no mean fits them all"
            return Interval.unknown(middle, self.level, "betting sequence", reason)
        return Interval(
            middle,
            lowest + self._low * width,
            lowest + self._high * width,
            self.level,
            "betting sequence",
        )


def _end(pairs: list[tuple[float, int]], start: float, mean: float, wanted: float) -> float:
    """The lowest mean, on 0..1 and not below `start`, that the bets on higher values have not ruled
    out.
    """

    def kept(supposed: float) -> float:
        return wanted - _capital(pairs, supposed)

    if mean <= start or kept(start if start > 0 else 1e-12) >= 0:
        return start
    return crossing(kept, start if start > 0 else 1e-12, mean)


def _capital(pairs: list[tuple[float, int]], supposed: float) -> float:
    """The log of the total capital of all bets, which begin with equal parts of 1; it falls as the
    supposed mean rises.
    """
    grown = []
    for share in _SHARES:
        rest, slope = 1 - share, share / supposed
        grown.append(fsum([count * log(rest + slope * value) for value, count in pairs]))
    most = max(grown)
    return most + log(fsum(exp(one - most) for one in grown) / len(grown))
