"""The metrics of `retrieval` for many queries at once, in numpy: the same digits, in half the time.

Every sum runs in rank order (`add.accumulate` adds from left to right), so that each value is the
one the plain loop gives, to the last bit. What is not here (`HERE` says what is) is left to that
loop, and so is every run where numpy is not installed.
"""

from __future__ import annotations

import re
from itertools import chain, compress, repeat
from math import log2
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HERE = re.compile(
    r"num_ret|num_rel|num_rel_ret|map|recip_rank|ndcg|Rprec|(?:P|recall|success|map_cut|ndcg_cut)[_.][1-9][0-9]{0,6}"
)
LARGE = 2_000
"""Queries from which loading numpy pays."""
_GRADES = 1 << 16
"""Grades below this fit beside a rank in one integer."""
_NO_RANK = 1 << 62
_BLOCK = 64
"""Queries read at a time: few enough that what was just read is still in the cache when it is
looked up.
"""


class Table(NamedTuple):
    """The values of each metric, and how many relevant documents there are, both by query."""

    columns: list[list[float]]
    relevant: list[int]


def tabulate(
    judged: Sequence[Mapping[str, int]],
    scored: Sequence[Mapping[str, float]],
    metrics: Sequence[str],
    *,
    relevance_level: int,
) -> Table | None:
    """A column for each metric; None where this is a case for the plain loop.

    Such are a score that is not finite, a grade beyond all scales, and a query so much larger than
    the others that a table of all would be mostly blank. Raises ImportError where numpy is not
    installed.
    """
    import numpy as np  # an optional extra, and a tenth of a second to load: only for many queries

    count = len(judged)
    ends = np.cumsum(np.fromiter(map(len, scored), np.int64, count))
    lengths = np.diff(ends, prepend=0)
    sizes = np.fromiter(map(len, judged), np.int64, count)
    total = int(sizes.sum())
    if not total or count * int(sizes.max()) > 20 * total + 1_000_000:
        return None
    values, grades, found = _read(np, judged, scored)
    if not np.isfinite(values).all() or grades.max() >= _GRADES:
        return None
    query = np.repeat(np.arange(count), sizes)
    relevant = np.bincount(query[grades >= relevance_level], minlength=count)
    query, grades = query[grades != 0], grades[grades != 0]

    rising = values[1:] > values[:-1]
    rising[ends[(ends > 0) & (ends < len(values))] - 1] = False  # from one query to the next
    if rising.any():
        values = _falling(np, values, lengths)
    hit = np.flatnonzero((grades > 0) & (found == found))
    rank = _ranks(np, values, ends, lengths, query[hit], found[hit], judged, scored)
    gains = _rows(np, count, query[hit], rank * _GRADES + grades[hit], _NO_RANK)
    gains.sort(axis=1)
    best = _rows(np, count, query, -np.maximum(grades, 0), 0)
    best.sort(axis=1)
    table = _Hits(np, gains, -best, relevant, lengths, relevance_level)
    return Table([table.column(name).tolist() for name in metrics], relevant.tolist())


_values: Callable[[Mapping[str, Any]], Any] = dict.values  # type: ignore[assignment]


def _read(
    np: Any, judged: Sequence[Mapping[str, int]], scored: Sequence[Mapping[str, float]]
) -> tuple[Any, Any, Any]:
    """Every score, every grade, and the score of every document whose grade is not 0 (NaN where it
    was not retrieved): no line of Python for any of them.
    """
    values, grades, found = [], [], []
    for start in range(0, len(judged), _BLOCK):
        some, these = judged[start : start + _BLOCK], scored[start : start + _BLOCK]
        grades.append(np.fromiter(chain.from_iterable(map(_values, some)), np.int64))
        values.append(np.fromiter(chain.from_iterable(map(_values, these)), np.float64))
        graded = map(compress, some, map(_values, some))
        found.append(
            np.fromiter(
                chain.from_iterable(
                    map(map, [scores.get for scores in these], graded, repeat(repeat(np.nan)))
                ),
                np.float64,
            )
        )
    return np.concatenate(values), np.concatenate(grades), np.concatenate(found)


def _falling(np: Any, values: Any, lengths: Any) -> Any:
    """The scores of each query from high to low."""
    width = int(lengths.max())
    if (
        len(lengths) * width > 20 * len(values) + 1_000_000
    ):  # one query is much longer than the others: a matrix would be mostly blank
        return values[np.lexsort((-values, np.repeat(np.arange(len(lengths)), lengths)))]
    there = np.arange(width) < lengths[:, None]
    rows = np.full((len(lengths), width), np.inf)
    rows[there] = -values
    rows.sort(axis=1)
    return -rows[there]


def _ranks(
    np: Any,
    values: Any,
    ends: Any,
    lengths: Any,
    query: Any,
    score: Any,
    judged: Sequence[Mapping[str, int]],
    scored: Sequence[Mapping[str, float]],
) -> Any:
    """The rank of each hit: a binary search in every query's falling scores at once."""
    if not len(query):
        return query
    end = ends[query]
    start = end - lengths[query]
    place = start.copy()  # behind every score that is higher
    longest = int(lengths.max())
    last = len(values) - 1
    for bit in reversed(range(longest.bit_length())):
        further = place + (1 << bit)
        ahead = (values[np.minimum(further - 1, last)] > score) & (further <= end)
        place += ahead.astype(np.int64) << bit
    rank = place - start + 1
    tied = np.unique(query[(place + 1 < end) & (values[np.minimum(place + 1, last)] == score)])
    for index in tied.tolist():  # another document has the same score, so their ids decide
        scores, grades = scored[index], judged[index]
        places = {
            name: place
            for place, name in enumerate(
                sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True), 1
            )
        }
        hits = [places[name] for name, grade in grades.items() if grade > 0 and name in scores]
        rank[np.searchsorted(query, index) :][: len(hits)] = hits
    return rank


def _rows(np: Any, count: int, rows: Any, cells: Any, blank: int) -> Any:
    """A matrix with a row for each query, filled from the left; `rows` rises."""
    sizes = np.bincount(rows, minlength=count)
    made = np.full((count, max(1, int(sizes.max()))), blank, np.int64)
    made[rows, np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = cells
    return made


class _Hits:
    """The hits of every query in rank order, a row for each query; rank 0 is no hit."""

    def __init__(
        self, np: Any, gains: Any, best: Any, relevant: Any, retrieved: Any, level: int
    ) -> None:
        self.np, self.best, self.relevant, self.retrieved = np, best, relevant, retrieved
        self.gain = gains % _GRADES
        self.gain_rank = np.where(gains < _NO_RANK, gains // _GRADES, 0)
        if level == 1:
            self.rank = self.gain_rank
        else:
            kept = np.where((self.gain_rank > 0) & (self.gain >= level), self.gain_rank, _NO_RANK)
            kept.sort(axis=1)
            self.rank = np.where(kept < _NO_RANK, kept, 0)

    def column(self, name: str) -> Any:
        """The values of one metric, by query."""
        np = self.np
        family, cutoff = name, None
        if name[-1].isdigit():
            family, digits = re.split(r"[_.](?=\d+$)", name)
            cutoff = int(digits)
        first = self.rank[:, 0]
        if family == "num_ret":
            return self.retrieved
        if family == "num_rel":
            return self.relevant
        if family == "recip_rank":
            return np.where(first > 0, 1 / np.maximum(first, 1), 0.0)
        if family == "success":
            return np.where((first > 0) & (first <= cutoff), 1.0, 0.0)
        if family in ("ndcg", "ndcg_cut"):
            return self._ndcg(cutoff)
        if family == "Rprec":
            return self._over_relevant(
                ((self.rank > 0) & (self.rank <= self.relevant[:, None])).sum(axis=1)
            )
        kept = self._kept(self.rank, cutoff)
        if family in ("map", "map_cut"):
            terms = np.arange(1, kept.shape[1] + 1) / np.where(kept, self.rank, 1)
            return self._over_relevant(self._sum(np.where(kept, terms, 0.0)))
        within = kept.sum(axis=1)
        return (
            within
            if family == "num_rel_ret"
            else within / cutoff
            if family == "P"
            else self._over_relevant(within)
        )

    def _kept(self, rank: Any, cutoff: int | None) -> Any:
        return rank > 0 if cutoff is None else (rank > 0) & (rank <= cutoff)

    def _sum(self, terms: Any) -> Any:
        return self.np.add.accumulate(terms, axis=1)[:, -1]

    def _over_relevant(self, values: Any) -> Any:
        return self.np.where(self.relevant > 0, values / self.np.maximum(self.relevant, 1), 0.0)

    def _ndcg(self, cutoff: int | None) -> Any:
        np = self.np
        best = self.best[:, :cutoff]
        last = max(int(self.gain_rank.max()), best.shape[1])
        # the C library's logarithm, as in the plain loop: numpy's may differ in the last bit
        discounts = np.array([1.0, *(log2(rank + 1) for rank in range(1, last + 1))])
        kept = self._kept(self.gain_rank, cutoff)
        gained = self._sum(
            np.where(kept, self.gain / discounts[np.where(kept, self.gain_rank, 0)], 0.0)
        )
        ideal = self._sum(best / discounts[1 : best.shape[1] + 1])
        return np.where(ideal > 0, gained / np.where(ideal > 0, ideal, 1.0), 0.0)
