"""The exchange test: whether the candidate's runs fail more often than chance would deal them.

If both sides are the same version, which of a sample's runs are the candidate's is chance: of all
its runs, any as many as the candidate has could be. Under that shuffle the candidate's number of
failing runs is hypergeometric, and the p-value is the chance that the sum over all samples is at
least the observed one. With one run a side this is the sign test. It is right for any numbers of
repeats, on either side and in each sample, and improving a run of the candidate never lowers it.

Samples of one group are shuffled together: the unit is one attempt at the whole group, with the
number of its samples that fail. The distribution is worked out by convolution in whole
numbers; what rounding adds, and the tails that are left out, are below 1e-17.

Source: Pitman, Significance tests which may be applied to samples from any populations, 1937.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import NamedTuple

from assay.stats.intervals import binomial_cdf

_BITS = 96
_ONE = 1 << _BITS
"""A chance of 1."""
_NEGLIGIBLE = _ONE >> 60
"""Of a distribution, how much of each tail may be left out."""
_SLOT = 2 * _BITS // 8 + 4
"""Bytes that hold a sum of products of chances."""


class Attempts(NamedTuple):
    """What can be exchanged: for each attempt at a sample or a group, how many of its checks fail.

    >>> Attempts.of_runs(failing=1, runs=1, others_failing=0, others=3)
    Attempts(candidate=(1,), baseline=(0, 0, 0))
    """

    candidate: tuple[int, ...]
    baseline: tuple[int, ...]

    @classmethod
    def of(cls, candidate: Iterable[int], baseline: Iterable[int]) -> Attempts:
        """The attempts of two sides, in an order that does not matter."""
        return cls(tuple(sorted(candidate, reverse=True)), tuple(sorted(baseline, reverse=True)))

    @classmethod
    def of_runs(cls, *, failing: int, runs: int, others_failing: int, others: int) -> Attempts:
        """A sample alone: of the candidate's runs and of the baseline's, those that fail."""
        return cls(
            (1,) * failing + (0,) * (runs - failing),
            (1,) * others_failing + (0,) * (others - others_failing),
        )

    @property
    def is_informative(self) -> bool:
        """Whether a shuffle could change the candidate's sum."""
        return bool(self.candidate and self.baseline) and len({*self.candidate, *self.baseline}) > 1


class _Spread(NamedTuple):
    """A distribution of whole numbers: the chance of each from `start` on, as a count of `_ONE`."""

    start: int
    chances: list[int]


def exchange_test(units: Mapping[Attempts, int]) -> float:
    """The one-sided p-value of "the candidate fails no more often"; `units` are counted.

    >>> worse = Attempts.of_runs(failing=1, runs=1, others_failing=0, others=1)
    >>> round(exchange_test({worse: 5}), 12)
    0.03125
    >>> exchange_test({Attempts.of_runs(failing=1, runs=1, others_failing=0, others=3): 2})
    0.0625
    """
    informative = {unit: times for unit, times in units.items() if unit.is_informative and times}
    if not informative:
        return 1.0
    signs = [unit for unit in informative if len(unit.candidate) == len(unit.baseline) == 1]
    steps = {abs(unit.candidate[0] - unit.baseline[0]) for unit in signs}
    if len(signs) == len(informative) and len(steps) == 1:  # the sign test, in closed form
        worse = sum(times for unit, times in informative.items() if unit.candidate > unit.baseline)
        n = sum(informative.values())
        return binomial_cdf(n - worse, n, 0.5)
    observed = sum(sum(unit.candidate) * times for unit, times in informative.items())
    pools: Counter[tuple[tuple[int, ...], int]] = Counter()
    for unit, times in informative.items():
        pool = tuple(sorted(unit.candidate + unit.baseline, reverse=True))
        pools[pool, len(unit.candidate)] += times
    spreads = [
        _power(_of_pool(pool, drawn), times) for (pool, drawn), times in sorted(pools.items())
    ]
    whole = _product(spreads)
    tail = whole.chances[max(0, observed - whole.start) :]
    return min(1.0, sum(tail) / _ONE) if observed > whole.start else 1.0


def _of_pool(pool: Sequence[int], drawn: int) -> _Spread:
    """The sum of attempts drawn from a pool without putting any back."""
    if set(pool) <= {0, 1}:
        failing, runs = sum(pool), len(pool)
        start, end = max(0, drawn - (runs - failing)), min(drawn, failing)
        ways = [
            comb(failing, hits) * comb(runs - failing, drawn - hits)
            for hits in range(start, end + 1)
        ]
    else:
        sums: list[Counter[int]] = [Counter({0: 1}), *(Counter() for _ in range(drawn))]
        for value in pool:
            for size in range(drawn, 0, -1):
                for total, count in sums[size - 1].items():
                    sums[size][total + value] += count
        start, end = min(sums[drawn]), max(sums[drawn])
        ways = [sums[drawn][total] for total in range(start, end + 1)]
    every = comb(len(pool), drawn)
    return _Spread(start, [-(-way * _ONE // every) for way in ways])


def _power(spread: _Spread, times: int) -> _Spread:
    """The sum of that many independent draws."""
    result = _Spread(0, [_ONE])
    while times:
        if times & 1:
            result = _convolved(result, spread)
        times >>= 1
        if times:
            spread = _convolved(spread, spread)
    return result


def _product(spreads: list[_Spread]) -> _Spread:
    """The sum of independent draws, the short ones first."""
    while len(spreads) > 1:
        spreads.sort(key=lambda spread: -len(spread.chances))
        spreads.append(_convolved(spreads.pop(), spreads.pop()))
    return spreads[0]


def _convolved(one: _Spread, other: _Spread) -> _Spread:
    """The sum of two independent draws: one product of two long integers, whose digits are the
    chances.
    """
    packed = [
        int.from_bytes(b"".join(chance.to_bytes(_SLOT, "little") for chance in chances), "little")
        for chances in (one.chances, other.chances)
    ]
    length = len(one.chances) + len(other.chances) - 1
    digits = (packed[0] * packed[1]).to_bytes(length * _SLOT, "little")
    chances = [
        -(-int.from_bytes(digits[at : at + _SLOT], "little") >> _BITS)
        for at in range(0, len(digits), _SLOT)
    ]
    return _trimmed(one.start + other.start, chances)


def _trimmed(start: int, chances: list[int]) -> _Spread:
    """Without what is negligible at either end."""
    low = below = 0
    while (below := below + chances[low]) < _NEGLIGIBLE:
        low += 1
    high, above = len(chances), 0
    while (above := above + chances[high - 1]) < _NEGLIGIBLE:
        high -= 1
    return _Spread(start + low, chances[low:high])
