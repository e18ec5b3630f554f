"""Confidence sequences: intervals that hold at every look at once, so that a run may stop whenever
it has seen enough.

An ordinary 95% interval is valid for one look that was fixed in advance. An analyst who looks
repeatedly and stops at the first good result errs in far more than 5% of cases. The sequences here
err in at most 5% over all looks together, however many there are and whatever the reason to stop.

The interval comes from bets: a player who bets against a supposed mean m with a share f of the
capital multiplies it by 1 - f + f x / m with every value x. If m is the mean, the capital ever
exceeds 40 with a chance of at most 1/40. The bets are spread over a fixed list of shares, so that
the order of the values changes nothing. This is valid for every n and every
distribution in the range, and therefore wider than Student's interval: with differences of scores
on -100..100, a margin of 1 is not reached before some 640 pairs.

Values may have weights w: the player then bets the share f w. Groups of different sizes count by
their means, weighted by the sizes as shares of the largest, which must be known before the run: the
baseline or the plan names the samples.

Each look takes all values so far. They enter in an order fixed before the run; whether to look must
not depend on values yet to come. Sources: Waudby-Smith and Ramdas, Estimating means of bounded
random variables by betting, 2024; Orabona and Jun, Tight concentrations and confidence sequences
from the regret of universal portfolio, 2024.
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


def anytime_mean(
    values: Iterable[float],
    range: Range,
    *,
    weights: Iterable[float] | None = None,
    level: float = 0.95,
) -> Interval:
    """The mean of all values so far, with its interval. The cost grows with the distinct values.
    With `weights` up to 1 it is the weighted mean: the means of groups, say, by their sizes as
    shares of the largest.

    >>> found = anytime_mean([1.0, 2.0] * 800, Range(-100.0, 100.0))
    >>> 1 < found.low < found.value < found.high < 2
    True
    """
    checked_values = checked(values, range)
    if weights is None:
        return anytime_counted_mean(Counter(checked_values), range, level=level)
    return _sequence(Counter(zip(checked_values, weights, strict=True)), range, level)


def anytime_counted_mean(counts: Counter[float], range: Range, *, level: float = 0.95) -> Interval:
    """Like `anytime_mean`, of counted values, each rounded to `DIGITS` and within the range."""
    return _sequence(Counter({(value, 1.0): n for value, n in counts.items()}), range, level)


def _sequence(counts: Counter[tuple[float, float]], range: Range, level: float) -> Interval:
    method, n = "betting sequence", counts.total()
    if n < 2:
        reason = "one sample has no spread to estimate from" if n else "no samples"
        return Interval.unknown(next((value for value, _ in counts), None), level, method, reason)
    lowest, width = range.lowest, range.highest - range.lowest
    placed: Counter[tuple[float, float]] = Counter()
    for (value, weight), count in counts.items():
        placed[round((value - lowest) / width, DIGITS + 2), weight] += count
    total = fsum(weight * count for (_, weight), count in placed.items())
    mean = fsum(value * weight * count for (value, weight), count in placed.items()) / total
    wanted = log(2 / (1 - level))
    bets = sorted((value, weight, count) for (value, weight), count in placed.items())
    low = _end(bets, mean, wanted)
    high = 1 - _end([(1 - value, weight, n) for value, weight, n in bets], 1 - mean, wanted)
    return Interval(
        lowest + mean * width, lowest + low * width, lowest + high * width, level, method
    )


def _end(bets: list[tuple[float, float, int]], mean: float, wanted: float) -> float:
    """The lowest mean, on 0..1, that the bets on higher values have not ruled out. Each value has
    its weight, and how often it occurs.
    """

    def kept(supposed: float) -> float:
        return wanted - _capital(bets, supposed)

    if mean <= 0 or kept(1e-12) >= 0:
        return 0.0
    return crossing(kept, 1e-12, mean)


def _capital(bets: list[tuple[float, float, int]], supposed: float) -> float:
    """The log of the total capital of all bets, which begin with equal parts of 1; it falls as the
    supposed mean rises. A value of weight w gets the share w of a bet.
    """
    grown = []
    for share in _SHARES:
        slope = share / supposed
        grown.append(
            fsum(
                [
                    count * log(1 - share * weight + slope * weight * value)
                    for value, weight, count in bets
                ]
            )
        )
    most = max(grown)
    return most + log(fsum(exp(capital - most) for capital in grown) / len(grown))
