"""Ranked retrieval with the order, names and digits of trec_eval.

Documents are ranked by score, highest first; equal scores by document id, highest first, whatever
rank a file claims. A document that nobody judged, or that is judged below 0, is not relevant and
has no gain. The gain in nDCG is the grade; in `ndcg_exp` it is 2**grade - 1. Per-query sums run in
rank order, so that they equal trec_eval's to the last digit; means are summed exactly, so that they
don't depend on the order of queries. Scores are compared in full precision, as in trec_eval 10;
pytrec_eval and trec_eval 9 first round them to single precision, and see more ties.

`files.trec_files` reads the files. `passages` measures what a single run of a workflow retrieved.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import islice
from math import fsum, isfinite, log2
from operator import add, truediv
from typing import NamedTuple

from assay.errors import InputError, UsageError
from assay.files.trec_files import ranking
from assay.registry import near_miss

Qrels = dict[str, dict[str, int]]
"""Grades by query and document."""
Scores = dict[str, dict[str, float]]
"""Scores by query and document."""

DEFAULT_METRICS = ("map", "recip_rank", "P_10", "recall_100", "ndcg", "ndcg_cut_10")
COUNTS = frozenset({"num_ret", "num_rel", "num_rel_ret"})
"""Names whose `mean` is the sum over queries, as trec_eval prints it."""
MAX_CUTOFF = 1_000_000
MAX_GRADE = 1_000


class RetrievalResult(NamedTuple):
    """The metrics of each query, their means, and what the means leave out."""

    mean: dict[str, float]
    queries: dict[str, dict[str, float]]
    """The metrics by query, in the order of their ids."""
    missing: tuple[str, ...]
    """Judged queries that the run does not answer: each counts as 0 with `complete`, and is left
    out otherwise.
    """
    unjudged: tuple[str, ...]
    """Queries of the run without judgements, which are always left out."""
    without_relevant: tuple[str, ...]
    """Queries with no relevant document, which count as 0, as in trec_eval."""


class _Ranking(NamedTuple):
    """One query's ranking and its judgements."""

    gains: Mapping[int, int]
    """The grade by rank, from 1, of each retrieved document with a grade above 0."""
    ranks: Sequence[int]
    """The ranks of the relevant documents, in order."""
    relevant: int
    """How many relevant documents there are, retrieved or not."""
    best: Sequence[int]
    """Every grade above 0, retrieved or not, from high to low."""
    retrieved: int
    judged: Mapping[str, int]
    scores: Mapping[str, float]
    ascending: Sequence[float]
    level: int


def _placed(
    scores: Mapping[str, float], judged: Mapping[str, int], ascending: Sequence[float], least: int
) -> dict[int, int]:
    """The grade by rank of each retrieved document with at least that grade, found in the sorted
    scores without sorting the documents.
    """
    grades = {}
    count = len(ascending)
    places: dict[str, int] | None = None
    for document in scores.keys() & judged.keys():
        grade = judged[document]
        if grade >= least:
            score = scores[document]
            at = bisect_left(ascending, score)
            rank = count - at
            if rank > 1 and ascending[at + 1] == score:
                # another document has the same score, so their ids decide
                places = places or {name: place for place, name in enumerate(ranking(scores), 1)}
                rank = places[document]
            grades[rank] = grade
    return grades


def _ascending(query: str, scores: Mapping[str, float]) -> list[float]:
    values = sorted(scores.values())
    # a sum is finite only where every score is; NaN would rank a document anywhere
    if not isfinite(sum(values)) and not all(map(isfinite, values)):
        document, score = next(
            (name, value) for name, value in scores.items() if not isfinite(value)
        )
        raise InputError(
            "SCO-031",
            f"query '{query}': the score of document '{document}' is {score}, not a finite number.",
        )
    return values


def evaluate(
    qrels: Qrels,
    run: Scores,
    metrics: Iterable[str] = DEFAULT_METRICS,
    *,
    relevance_level: int = 1,
    complete: bool = False,
) -> RetrievalResult:
    """Every metric for every judged query of the run, and its mean.

    A query with judgements that the run lacks counts as 0 with `complete` (trec_eval's `-c`) and is
    left out otherwise; either way it is listed. If no query is left, the mean is empty.

    >>> found = evaluate({"q": {"a": 1, "b": 0}}, {"q": {"b": 2.0, "a": 1.0}}, ["map", "P_1"])
    >>> found.mean
    {'map': 0.5, 'P_1': 0.0}

    Source: trec_eval 10 (NIST).
    """
    if relevance_level < 1:
        raise UsageError("SCO-030", f"the relevance level is {relevance_level}; the lowest is 1.")
    plan = {name: metric(name) for name in metrics}
    names = sorted(qrels if complete else qrels.keys() & run.keys())
    queries: dict[str, dict[str, float]] = {}
    without = []
    for name in names:
        ranked = _ranked(name, qrels[name], run.get(name) or {}, relevance_level)
        queries[name] = {key: take(ranked) for key, take in plan.items()}
        if not ranked.relevant:
            without.append(name)
    mean = {key: _mean(key, [taken[key] for taken in queries.values()]) for key in plan if names}
    missing, unjudged = sorted(qrels.keys() - run.keys()), sorted(run.keys() - qrels.keys())
    return RetrievalResult(mean, queries, tuple(missing), tuple(unjudged), tuple(without))


def _ranked(
    query: str, judged: Mapping[str, int], scores: Mapping[str, float], level: int
) -> _Ranking:
    ascending = _ascending(query, scores)
    gains = _placed(scores, judged, ascending, 1)
    best = sorted([grade for grade in judged.values() if grade > 0], reverse=True)
    ranks = sorted(rank for rank, grade in gains.items() if grade >= level)
    relevant = sum(grade >= level for grade in best)
    return _Ranking(gains, ranks, relevant, best, len(ascending), judged, scores, ascending, level)


def _mean(name: str, values: list[float]) -> float:
    return sum(map(int, values)) if name in COUNTS else fsum(values) / len(values)


# --- the metrics


@lru_cache(maxsize=32)
def _discounts(bits: int) -> tuple[float, ...]:
    """log2(rank + 1) by rank, in tables whose sizes are powers of two, so that few are made."""
    return tuple(log2(rank + 1) for rank in range((1 << bits) + 1))


def _average_precision(ranked: _Ranking, cutoff: int | None = None) -> float:
    if not ranked.ranks:
        return 0.0
    ranks = ranked.ranks if cutoff is None else ranked.ranks[: _within(ranked, cutoff)]
    # not sum(): since Python 3.12 it compensates, and the last digit would depend on the version
    return reduce(add, map(truediv, range(1, len(ranks) + 1), ranks), 0.0) / ranked.relevant


def _recip_rank(ranked: _Ranking) -> float:
    return 1 / ranked.ranks[0] if ranked.ranks else 0.0


def _within(ranked: _Ranking, cutoff: int) -> int:
    return bisect_right(ranked.ranks, cutoff)


def _precision(ranked: _Ranking, cutoff: int) -> float:
    return _within(ranked, cutoff) / cutoff


def _recall(ranked: _Ranking, cutoff: int) -> float:
    return _within(ranked, cutoff) / ranked.relevant if ranked.relevant else 0.0


def _success(ranked: _Ranking, cutoff: int) -> float:
    return 1.0 if ranked.ranks and ranked.ranks[0] <= cutoff else 0.0


def _r_precision(ranked: _Ranking) -> float:
    return _recall(ranked, ranked.relevant)


def _ndcg(ranked: _Ranking, cutoff: int | None = None) -> float:
    gains = ranked.gains
    if not gains:
        return 0.0
    best = ranked.best
    discounts = _discounts(max(ranked.retrieved, len(best)).bit_length())
    gained = 0.0
    for rank in sorted(gains):
        if cutoff is not None and rank > cutoff:
            break
        gained += gains[rank] / discounts[rank]
    return gained / reduce(add, map(truediv, best[:cutoff], islice(discounts, 1, None)), 0.0)


def _ndcg_exp(ranked: _Ranking, cutoff: int | None = None) -> float:
    if ranked.best and ranked.best[0] > MAX_GRADE:
        raise InputError(
            "SCO-031",
            f"a grade is {ranked.best[0]}; beyond {MAX_GRADE} the exponential gain overflows.",
            fix="Take `ndcg`.",
        )
    raised = {rank: 2**grade - 1 for rank, grade in ranked.gains.items()}
    return _ndcg(
        ranked._replace(best=[2**grade - 1 for grade in ranked.best], gains=raised), cutoff
    )


def _bpref(ranked: _Ranking) -> float:
    wrong = sum(1 for grade in ranked.judged.values() if 0 <= grade < ranked.level)
    before = 0
    total = 0.0
    for _, grade in sorted(_placed(ranked.scores, ranked.judged, ranked.ascending, 0).items()):
        if grade < ranked.level:
            before += 1
        else:
            total += (
                1.0 - min(before, ranked.relevant) / min(wrong, ranked.relevant) if before else 1.0
            )
    return total / ranked.relevant if ranked.relevant else 0.0


def _set_precision(ranked: _Ranking) -> float:
    return len(ranked.ranks) / ranked.retrieved if ranked.retrieved else 0.0


def _set_recall(ranked: _Ranking) -> float:
    return _recall(ranked, ranked.retrieved)


def _set_f(ranked: _Ranking) -> float:
    precision, recall = _set_precision(ranked), _set_recall(ranked)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _judged(ranked: _Ranking, cutoff: int | None = None) -> float:
    """The share of the first documents that somebody judged, which shows how far the other metrics
    can be trusted.
    """
    first = ranked.retrieved if cutoff is None else min(cutoff, ranked.retrieved)
    return (
        sum(rank <= first for rank in _placed(ranked.scores, ranked.judged, ranked.ascending, 0))
        / first
        if first
        else 0.0
    )


_WHOLE: dict[str, Callable[[_Ranking], float]] = {
    "num_ret": lambda ranked: ranked.retrieved,
    "num_rel": lambda ranked: ranked.relevant,
    "num_rel_ret": lambda ranked: len(ranked.ranks),
    "map": _average_precision,
    "recip_rank": _recip_rank,
    "Rprec": _r_precision,
    "bpref": _bpref,
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg_exp,
    "set_P": _set_precision,
    "set_recall": _set_recall,
    "set_F": _set_f,
    "judged": _judged,
}
_CUT: dict[str, Callable[[_Ranking, int], float]] = {
    "P": _precision,
    "recall": _recall,
    "success": _success,
    "map_cut": _average_precision,
    "ndcg_cut": _ndcg,
    "ndcg_exp_cut": _ndcg_exp,
    "judged": _judged,
}
METRIC_NAMES = (*_WHOLE, *(f"{name}_K" for name in _CUT))
"""Every name, with K for a cutoff. trec_eval lacks `ndcg_exp` and `judged`."""
_NAME = re.compile(r"(\w+?)[_.]([1-9][0-9]{0,6})", re.ASCII)


def metric(name: str) -> Callable[[_Ranking], float]:
    """The metric with a name such as `ndcg_cut_10`. Raises for an unknown name, with the near miss.

    >>> metric("ndgc_cut_10")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    assay.errors.UsageError: no retrieval metric is named 'ndgc_cut_10'. Did you mean 'ndcg_cut_K'? ...
    """  # noqa: E501
    if name in _WHOLE:
        return _WHOLE[name]
    parts = _NAME.fullmatch(name)
    if parts is None or parts[1] not in _CUT or int(parts[2]) > MAX_CUTOFF:
        hint = near_miss(re.sub(r"\d+$", "K", name[:200]), METRIC_NAMES)
        raise UsageError(
            "SCO-030",
            f"no retrieval metric is named '{name[:200]}'.{hint}",
            fix=f"The names, with a cutoff for K: {', '.join(METRIC_NAMES)}.",
        )
    take, cutoff = _CUT[parts[1]], int(parts[2])
    return lambda ranked: take(ranked, cutoff)
