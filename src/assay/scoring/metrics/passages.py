"""What one run retrieved: measures on its `retrieval` list.

The order is that of `rank`, which must run 0..n-1 or 1..n without a gap; `relevant` marks the
relevant passages. Measures over many queries, from TREC files, are in `retrieval`. A passage that
nobody judged makes a measure undetermined: counting it as right or wrong would be a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from math import log2
from operator import add
from typing import Any, NamedTuple

from assay.records.evidence import Retrieved, Run
from assay.scoring.metrics.measure import Measure, Undetermined

_TREC = (
    "trec_eval (NIST); Manning, Raghavan, Schütze: Introduction to Information Retrieval, chapter 8"
)
_NDCG = (
    "Järvelin, Kekäläinen: Cumulated gain-based evaluation of IR techniques, ACM TOIS 20(4), 2002"
)
_ALL = "relevant_ids"


def _ranked(run: Run) -> list[Retrieved]:
    """The passages in rank order."""
    if run.retrieval is None:
        raise Undetermined(
            "the run has no `retrieval` (an empty list means that nothing was retrieved)"
        )
    unranked = next((passage.id for passage in run.retrieval if passage.rank is None), None)
    if unranked is not None:
        raise Undetermined(f"the passage '{unranked}' of `retrieval` has no rank")
    # otherwise one good passage, repeated, could fill the whole list
    if len({passage.id for passage in run.retrieval}) < len(run.retrieval):
        raise Undetermined("a passage appears twice in `retrieval`")
    ordered = sorted(run.retrieval, key=lambda passage: passage.rank or 0)
    first = ordered[0].rank if ordered else 0
    if first not in (0, 1) or any(
        passage.rank != first + index for index, passage in enumerate(ordered)
    ):
        raise Undetermined("the ranks of `retrieval` do not run from 1 (or 0) without a gap")
    return ordered


def _precision(run: Run, params: Mapping[str, Any]) -> Any:
    ordered, k = _ranked(run), params["k"]
    passed = 0
    for passage in ordered[:k]:
        if passage.relevant is None:
            raise Undetermined(f"nobody judged whether the passage '{passage.id}' is relevant")
        passed += passage.relevant
    return {"passed": passed, "total": k}


def _success(run: Run, params: Mapping[str, Any]) -> Any:
    return int(_precision(run, params)["passed"] > 0)


def _reciprocal_rank(run: Run, _params: Mapping[str, Any]) -> Any:
    for rank, passage in enumerate(_ranked(run), 1):
        if passage.relevant is None:
            raise Undetermined(
                f"nobody judged whether the passage '{passage.id}' is relevant, and no relevant one"
                " comes before it"
            )
        if passage.relevant:
            return 1 / rank
    return 0


def _coverage(run: Run, _params: Mapping[str, Any]) -> Any:
    if not run.retrieval:
        raise Undetermined(
            "the run has no `retrieval`"
            if run.retrieval is None
            else "`retrieval` is empty: there is nothing to judge"
        )
    return {
        "passed": sum(passage.relevant is not None for passage in run.retrieval),
        "total": len(run.retrieval),
    }


def _wanted(run: Run, params: Mapping[str, Any]) -> set[str]:
    """The ids of every relevant document, retrieved or not."""
    name = params["relevant"]
    listed = run.expected.get(name) if isinstance(run.expected, dict) else None
    if listed is None:
        raise Undetermined(
            f"the run does not say which documents are relevant (`expected.{name}`, a list of ids):"
            " what was missed cannot be counted"
        )
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise Undetermined(f"`expected.{name}` is not a list of ids")
    if not listed:
        raise Undetermined(f"`expected.{name}` is empty: there is nothing to find")
    return set(listed)


class _Hits(NamedTuple):
    """The ranks within `k` of wanted documents, and how many are wanted."""

    ranks: list[int]
    wanted: int
    k: int


def _hits(run: Run, params: Mapping[str, Any]) -> _Hits:
    ordered, k, wanted = _ranked(run), params["k"], _wanted(run, params)
    ranks = [rank for rank, passage in enumerate(ordered[:k], 1) if passage.id in wanted]
    return _Hits(ranks, len(wanted), k)


def _recall(run: Run, params: Mapping[str, Any]) -> Any:
    hits = _hits(run, params)
    return {"passed": len(hits.ranks), "total": hits.wanted}


def _average_precision(run: Run, params: Mapping[str, Any]) -> Any:
    hits = _hits(run, params)
    # in rank order and uncompensated, as trec_eval adds
    total = reduce(add, (count / rank for count, rank in enumerate(hits.ranks, 1)), 0.0)
    return total / hits.wanted


def _ndcg(run: Run, params: Mapping[str, Any]) -> Any:
    hits = _hits(run, params)
    ideal = range(1, min(hits.wanted, hits.k) + 1)
    return _gain(hits.ranks) / _gain(ideal)


def _gain(ranks: Iterable[int]) -> float:
    return reduce(add, (1 / log2(rank + 1) for rank in ranks), 0.0)


_LIST = (("retrieval[].rank", "retrieval[].relevant"),)
_FULL = (("retrieval[].rank", "expected.relevant_ids"),)
_BLIND = "Sees what was retrieved, not what was missed."
RETRIEVAL = (
    Measure(
        "retrieval_precision",
        "1",
        "Relevant passages among the first k",
        "share",
        "higher is better",
        "ratio",
        _LIST,
        "undetermined",
        _precision,
        params={"k": 10},
        citation=_TREC,
        limits=_BLIND
        + " Fewer than k passages count as k, the absent ones as not relevant, as in trec_eval's"
        " P_k.",
    ),
    Measure(
        "retrieval_success",
        "1",
        "A relevant passage among the first k",
        "yes or no",
        "higher is better",
        "binary",
        _LIST,
        "undetermined",
        _success,
        range="0 or 1",
        params={"k": 10},
        citation=_TREC,
        limits=_BLIND,
    ),
    Measure(
        "reciprocal_rank",
        "1",
        "One over the rank of the first relevant passage",
        "1/rank",
        "higher is better",
        "zero_one",
        _LIST,
        "undetermined",
        _reciprocal_rank,
        citation=_TREC,
        limits=(
            "Looks no further than the first relevant passage. 0 where all are judged and none is"
            " relevant."
        ),
    ),
    Measure(
        "retrieval_coverage",
        "1",
        "Retrieved passages that somebody judged",
        "share",
        "higher is better",
        "ratio",
        (("retrieval[].relevant",),),
        "undetermined",
        _coverage,
        citation="ir_measures, Judged@k",
        limits="Says how far the other measures can be trusted, not whether the retrieval is good.",
    ),
    Measure(
        "retrieval_recall",
        "1",
        "Relevant documents found among the first k",
        "share",
        "higher is better",
        "ratio",
        _FULL,
        "undetermined",
        _recall,
        params={"k": 100, "relevant": _ALL},
        citation=_TREC,
        limits="As good as the list of relevant documents; `relevant` names it under `expected`.",
    ),
    Measure(
        "retrieval_map",
        "1",
        "Average precision over the first k",
        "1",
        "higher is better",
        "zero_one",
        _FULL,
        "undetermined",
        _average_precision,
        params={"k": 1000, "relevant": _ALL},
        citation=_TREC,
        limits="A document that is not on the list of relevant ones counts as not relevant.",
    ),
    Measure(
        "retrieval_ndcg",
        "1",
        "Normalised discounted cumulative gain of the first k",
        "1",
        "higher is better",
        "zero_one",
        _FULL,
        "undetermined",
        _ndcg,
        params={"k": 10, "relevant": _ALL},
        citation=_NDCG,
        limits="Relevance is yes or no here; graded judgements are read from TREC files.",
    ),
)
