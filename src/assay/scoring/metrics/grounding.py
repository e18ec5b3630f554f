"""Measures of retrieval-augmented answers without a model: was the right context found, does every
claim cite it, and do its words support the claim.

Citations are ids of retrieved passages, compared character by character. Words alone don't show
whether a passage entails a claim; each data sheet states what its measure can't see. A judge's
verdicts are in `claims[].supported`, which the gates read: nothing here replaces them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay import exact
from assay.exact import Ratio
from assay.records.evidence import Claim, Retrieved, Run
from assay.scoring.metrics import lexical
from assay.scoring.metrics.citations import cited_ids, is_cited, retrieved, sourced
from assay.scoring.metrics.measure import Measure, Undetermined, shown

_FINE: int = 10**30


# --- context


def average_precision(relevant: Sequence[bool]) -> Ratio:
    """The mean of precision@k over the ranks k of relevant passages, accurate to 10**-30; 0 if
    there are none.

    >>> precision = average_precision([True, False, True])
    >>> precision.num / precision.den
    0.8333333333333334
    """
    hits = total = 0
    for rank, is_relevant in enumerate(relevant, 1):
        if is_relevant:
            hits += 1
            # In units of 10**-30, finer than any digit shown: the exact sum over a hundred thousand
            # ranks is a fraction of a hundred thousand bits.
            total += (2 * hits * _FINE + rank) // (2 * rank)
    return Ratio(total, hits * _FINE) if hits else Ratio(0, 1)


def ranked(retrieval: Sequence[Retrieved]) -> list[Retrieved]:
    """Passages in order: by `rank` if each has a different one, as listed if none has one."""
    ranks = [passage.rank for passage in retrieval if passage.rank is not None]
    if not ranks:
        return list(retrieval)
    if len(ranks) < len(retrieval):
        raise Undetermined(
            f"{len(retrieval) - len(ranks)} of {len(retrieval)} passages have no `rank`"
        )
    if len(set(ranks)) < len(ranks):
        raise Undetermined("two passages have the same `rank`")
    return sorted(retrieval, key=lambda passage: passage.rank or 0)


def _relevant_ids(run: Run) -> frozenset[str] | None:
    """The ids in `expected.relevant_ids`; None if it is absent."""
    if not isinstance(run.expected, dict) or "relevant_ids" not in run.expected:
        return None
    listed = run.expected["relevant_ids"]
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        raise Undetermined("`expected.relevant_ids` is not a list of ids")
    if not listed:
        raise Undetermined("`expected.relevant_ids` is empty: no passage could have been right")
    return frozenset(listed)


def relevance(run: Run) -> list[bool]:
    """For each retrieved passage in rank order, whether it is relevant: by `expected.relevant_ids`,
    else by its `relevant`.

    A repeated passage is not relevant again: otherwise a run would gain by retrieving one good
    passage ten times.
    """
    listed = retrieved(run)
    if not listed:
        raise Undetermined("nothing was retrieved, so nothing can be precise")
    ordered, ids = ranked(listed), _relevant_ids(run)
    unjudged = sum(passage.relevant is None for passage in ordered) if ids is None else 0
    if unjudged:
        raise Undetermined(
            f"{unjudged} of {len(ordered)} passages were not judged (`relevant` is null), and"
            " there is no `expected.relevant_ids`"
        )
    seen: set[str] = set()
    relevant = []
    for passage in ordered:
        is_relevant = passage.relevant is True if ids is None else passage.id in ids
        relevant.append(is_relevant and passage.id not in seen)
        seen.add(passage.id)
    return relevant


def _context_precision(run: Run, _params: Mapping[str, Any]) -> Any:
    return shown(average_precision(relevance(run)))


def _context_share(run: Run, _params: Mapping[str, Any]) -> Any:
    relevant = relevance(run)
    return {"passed": sum(relevant), "total": len(relevant)}


def found_of_relevant(run: Run) -> Ratio | None:
    """The share of `expected.relevant_ids` that was retrieved; None without such ids."""
    ids = _relevant_ids(run)
    if ids is None:
        return None
    return Ratio(len(ids & {passage.id for passage in retrieved(run)}), len(ids))


def _context_recall(run: Run, _params: Mapping[str, Any]) -> Any:
    share_found = found_of_relevant(run)
    if share_found is None:
        raise Undetermined(
            "the run does not say which passages should have been found (`expected.relevant_ids`)"
        )
    return shown(share_found)


# --- citations


def _presence(run: Run, _params: Mapping[str, Any]) -> Any:
    claims, citable = sourced(run)
    return {"passed": sum(is_cited(claim, citable) for claim in claims), "total": len(claims)}


def _resolution(run: Run, _params: Mapping[str, Any]) -> Any:
    claims, citable = sourced(run)
    cited = [citation for claim in claims for citation in cited_ids(claim)]
    if not cited:
        raise Undetermined("no claim cites anything, so nothing can resolve")
    return {"passed": sum(citation in citable for citation in cited), "total": len(cited)}


def _cited_passages(run: Run) -> list[tuple[Claim, list[lexical.ReadPassage]]]:
    """Each claim with the retrieved passages that it cites. Raises `Undetermined` for an id with
    two texts: either could be the one that is cited.
    """
    claims, _ = sourced(run)
    texts: dict[str, str | None] = {}
    for passage in run.retrieval or ():
        if texts.setdefault(passage.id, passage.text) != passage.text:
            raise Undetermined(
                f"two retrieved passages have the id {passage.id!r} and different texts"
            )
    read: dict[str, lexical.ReadPassage] = {}
    pairs = []
    for claim in claims:
        cited = [citation for citation in cited_ids(claim) if citation in texts]
        for citation in cited:
            text = texts[citation]
            if text is None:
                raise Undetermined(f"the cited passage {citation!r} comes without its `text`")
            if citation not in read:
                read[citation] = lexical.read_passage(text)
        pairs.append((claim, [read[citation] for citation in cited]))
    return pairs


# --- support


def _quotes(run: Run, _params: Mapping[str, Any]) -> Any:
    passed = total = 0
    for claim, passages in _cited_passages(run):
        quotes = lexical.quotations(claim.text)
        total += len(quotes)
        passed += sum(
            any(lexical.occurs(quote, passage) for passage in passages) for quote in quotes
        )
    if not total:
        raise Undetermined("no claim quotes anything")
    return {"passed": passed, "total": total}


def lexical_support(run: Run, *, threshold: Any) -> list[lexical.Support]:
    """For each claim of a run, whether the words of the passages it cites support it; a claim that
    cites no retrieved passage is not supported.
    """
    limit = exact.ratio(threshold)
    return [
        lexical.support(claim.text, passages, threshold=limit)
        for claim, passages in _cited_passages(run)
    ]


def _lexical(run: Run, params: Mapping[str, Any]) -> Any:
    claims = lexical_support(run, threshold=params["threshold"])
    return shown(Ratio(sum(claim.is_supported for claim in claims), len(claims)))


_RAGAS = "Es et al. 2023, RAGAS"
_ALCE = "Gao et al. 2023, Enabling Large Language Models to Generate Text with Citations (ALCE)"

GROUNDING = (
    Measure(
        "context_precision",
        "1",
        "Average precision of the retrieved passages: relevant ones first",
        "share",
        "higher is better",
        "zero_one",
        (("retrieval[].rank", "expected.relevant_ids"), ("retrieval[].relevant",)),
        "undetermined, also where nothing was retrieved or a passage was not judged",
        _context_precision,
        citation=f"{_RAGAS} (context precision): the mean of precision@k over the relevant passages"
        " that were retrieved",
        limits=(
            "Relevance is yes or no. What was not retrieved does not count: see context_recall. A"
            " passage retrieved again is not relevant again."
        ),
    ),
    Measure(
        "context_precision_share",
        "1",
        "Retrieved passages that are relevant, whatever their rank",
        "share",
        "higher is better",
        "ratio",
        (("retrieval", "expected.relevant_ids"), ("retrieval[].relevant",)),
        "undetermined, also where nothing was retrieved or a passage was not judged",
        _context_share,
        citation=f"{_RAGAS}; precision of a set",
        limits="Blind to the order. A passage retrieved again is not relevant again.",
    ),
    Measure(
        "context_recall",
        "1",
        "Passages that should have been found and were",
        "share",
        "higher is better",
        "zero_one",
        (("retrieval[].id", "expected.relevant_ids"),),
        "undetermined; nothing retrieved is 0",
        _context_recall,
        citation=f"{_RAGAS} (ID-based context recall)",
        limits=(
            "Ids only: another passage that says the same is not found. Only as complete as the"
            " list of relevant ids."
        ),
    ),
    Measure(
        "citation_presence",
        "1",
        "Claims that cite a retrieved passage",
        "share",
        "higher is better",
        "ratio",
        (("claims[].citations", "retrieval"),),
        "undetermined, also where there are no claims",
        _presence,
        citation=f"{_ALCE}; Workflow Scoring & Evaluation Reference Guide, section 6, profile C",
        limits=(
            "Whether the passage supports the claim is not seen. A claim that was not listed is not"
            " missed."
        ),
    ),
    Measure(
        "citation_resolution",
        "1",
        "Citations that name a retrieved passage",
        "share",
        "higher is better",
        "ratio",
        (("claims[].citations", "retrieval"),),
        "undetermined, also where nothing is cited",
        _resolution,
        citation=_ALCE,
        limits=(
            "A citation of the wrong passage resolves as well. Ids compare character by character."
            " A claim that cites nothing does not count: see citation_presence."
        ),
    ),
    Measure(
        "quotes_grounded",
        "1",
        "Quotations found word for word in a cited passage",
        "share",
        "higher is better",
        "ratio",
        (("claims[].text", "claims[].citations", "retrieval[].text"),),
        "undetermined, also where no claim quotes anything",
        _quotes,
        citation=(
            "Menick et al. 2022, Teaching language models to support answers with verified quotes"
            " (GopherCite)"
        ),
        limits=(
            "Only what is in double quotation marks. A true quotation may be out of context;"
            " words around it, also a denial, are not seen."
        ),
    ),
    Measure(
        "lexical_support",
        "1",
        "Claims whose words, numbers and denials are in the passages they cite",
        "share",
        "higher is better",
        "zero_one",
        (("claims[].text", "claims[].citations", "retrieval[].text"),),
        "undetermined, also where there are no claims; a claim that cites nothing retrieved is"
        " unsupported",
        _lexical,
        params={"threshold": 0.6},
        citation=(
            "token recall after Rajpurkar et al. 2016 (SQuAD); knowledge precision in Adlakha et"
            " al. 2023, Evaluating correctness and faithfulness"
        ),
        limits=(
            "Compares words, not meaning: a paraphrase counts as unsupported; the same words in"
            " another order or about another subject count as supported; what a denial applies to,"
            " units, number words and entailment are not seen. Denials and empty words are English."
        ),
    ),
)
