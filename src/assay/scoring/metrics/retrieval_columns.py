"""The metrics of `retrieval` for many queries at once, in numpy: the same digits, several times as fast.

Every sum runs in rank order (`add.accumulate` adds from left to right), so that each value is the one the plain loop gives, to the last bit.
What is not here (`HERE` says what is) is left to that loop, and so is every run where numpy is not installed.
"""

from __future__ import annotations

import re
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HERE = re.compile(r"num_ret|num_rel|num_rel_ret|map|recip_rank|ndcg|Rprec|(?:P|recall|success|map_cut|ndcg_cut)[_.][1-9][0-9]{0,6}")
LARGE = 2_000
"""Queries from which loading numpy pays."""


def tabulate(
    judged: Sequence[Mapping[str, int]], scored: Sequence[Mapping[str, float]], metrics: Sequence[str], *, relevance_level: int
) -> tuple[list[list[float]], list[int]] | None:
    """A row of values for each query, in the order of the metrics, and how many relevant documents each has; None where a score is not finite.

    Raises ImportError where numpy is not installed.
    """
    import numpy as np  # an optional extra, `pip install assay[fast]`, and a tenth of a second to load

    count = len(judged)
    lengths = np.fromiter(map(len, scored), np.int64, count)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    values = np.fromiter(chain.from_iterable(map(_values, scored)), np.float64, int(starts[-1]))
    if not np.isfinite(values).all():
        return None
    sizes = np.fromiter(map(len, judged), np.int64, count)
    total = int(sizes.sum())
    grades = np.fromiter(chain.from_iterable(map(_values, judged)), np.int64, total)
    found = np.fromiter(chain.from_iterable(map(scores.get, grade, repeat(np.nan)) for scores, grade in zip(scored, judged, strict=True)), np.float64, total)
    query = np.repeat(np.arange(count), sizes)
    relevant = np.bincount(query[grades >= relevance_level], minlength=count)

    inside = values[1:] > values[:-1]
    inside[starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < len(values))] - 1] = False  # from one query to the next
    if inside.any():
        order = np.lexsort((-values, np.repeat(np.arange(count), lengths)))
        values = values[order]

    hit = (grades > 0) & ~np.isnan(found)
    hits, gain, score = query[hit], grades[hit], found[hit]
    rank = _ranks(np, values, starts, hits, score)
    end = starts[hits + 1]
    after = starts[hits] + rank
    for index in np.flatnonzero((after < end) & (values[np.minimum(after, len(values) - 1)] == score)) if len(values) else ():
        # `rank` is the first of its equals; those with a higher id come before it
        scores, grade = scored[hits[index]], judged[hits[index]]
        document = _hit(grade, scores, int(np.count_nonzero(hits[:index] == hits[index])))
        rank[index] += sum(1 for other, value in scores.items() if value == score[index] and other > document)
    order = np.lexsort((rank, hits))
    hits, gain, rank = hits[order], gain[order], rank[order]
    table = _Table(np, count, lengths, relevant, hits, gain, rank, (query, grades), relevance_level)
    columns = [table.column(name) for name in metrics]
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)], relevant.tolist()


_values: Callable[[Mapping[str, Any]], Any] = dict.values  # type: ignore[assignment]


def _hit(grade: Mapping[str, int], scores: Mapping[str, float], place: int) -> str:
    """The document of a query's hit, by its place among them."""
    return [document for document, value in grade.items() if value > 0 and document in scores][place]


def _ranks(np: Any, values: Any, starts: Any, hits: Any, score: Any) -> Any:
    """One more than the number of the query's scores above each hit's: a binary search in every query's falling scores at once."""
    low, high = starts[hits], starts[hits + 1]
    if not len(hits):
        return low
    for _ in range(int((high - low).max()).bit_length()):
        middle = (low + high) >> 1
        above = values[np.minimum(middle, len(values) - 1)] > score
        above &= middle < high
        low = np.where(above, middle + 1, low)
        high = np.where(above, high, middle)
    return low - starts[hits] + 1


class _Table:
    """The hits of every query in rank order, as matrices with a row for each query."""

    def __init__(self, np: Any, count: int, lengths: Any, relevant: Any, hits: Any, gain: Any, rank: Any, judged: tuple[Any, Any], level: int) -> None:
        self.np, self.count, self.lengths, self.relevant = np, count, lengths, relevant
        self.gain = self._matrix(hits, gain, 0)
        self.gain_rank = self._matrix(hits, rank, 0)
        chosen = gain >= level
        self.rank = self._matrix(hits[chosen], rank[chosen], 0)
        self.found = np.bincount(hits[chosen], minlength=count)
        query, grades = judged
        order = np.lexsort((-grades, query))
        order = order[grades[order] > 0]
        self.best = self._matrix(query[order], grades[order], 0)

    def _matrix(self, rows: Any, cells: Any, blank: int) -> Any:
        np = self.np
        sizes = np.bincount(rows, minlength=self.count)
        made = np.full((self.count, max(1, int(sizes.max(initial=0)))), blank, np.int64)
        made[rows, np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)] = cells
        return made

    def column(self, name: str) -> Any:
        """The values of one metric, by query."""
        np = self.np
        if name in ("num_ret", "num_rel", "num_rel_ret"):
            return {"num_ret": self.lengths, "num_rel": self.relevant, "num_rel_ret": self.found}[name]
        family, cutoff = name, None
        if name[-1].isdigit():
            family, digits = re.split(r"[_.](?=\d+$)", name)
            cutoff = int(digits)
        if family in ("map", "map_cut"):
            kept = self._kept(self.rank, cutoff)
            terms = np.arange(1, self.rank.shape[1] + 1) / np.where(kept, self.rank, 1)
            return self._over_relevant(self._sum(np.where(kept, terms, 0.0)))
        if family in ("ndcg", "ndcg_cut"):
            return self._ndcg(cutoff)
        first = self.rank[:, 0]
        if family == "recip_rank":
            return np.where(first > 0, 1 / np.maximum(first, 1), 0.0)
        if family == "success":
            return np.where((first > 0) & (first <= cutoff), 1.0, 0.0)
        if family == "Rprec":
            return self._over_relevant(((self.rank > 0) & (self.rank <= self.relevant[:, None])).sum(axis=1))
        within = self._kept(self.rank, cutoff).sum(axis=1)
        return within / cutoff if family == "P" else self._over_relevant(within)

    def _kept(self, rank: Any, cutoff: int | None) -> Any:
        return rank > 0 if cutoff is None else (rank > 0) & (rank <= cutoff)

    def _sum(self, terms: Any) -> Any:
        return self.np.add.accumulate(terms, axis=1)[:, -1]

    def _over_relevant(self, values: Any) -> Any:
        return self.np.where(self.relevant > 0, values / self.np.maximum(self.relevant, 1), 0.0)

    def _ndcg(self, cutoff: int | None) -> Any:
        from math import log2  # the C library's, as in the plain loop; numpy's may differ in the last bit

        np = self.np
        best = self.best[:, :cutoff]
        discounts = np.array([1.0, *(log2(rank + 1) for rank in range(1, max(int(self.gain_rank.max(initial=1)), best.shape[1]) + 1))])
        kept = self._kept(self.gain_rank, cutoff)
        gained = self._sum(np.where(kept, self.gain / discounts[np.where(kept, self.gain_rank, 0)], 0.0))
        ideal = self._sum(best / discounts[1 : best.shape[1] + 1])
        return np.where(ideal > 0, gained / np.where(ideal > 0, ideal, 1.0), 0.0)
