"""Which citations count: those of a retrieved passage whose text is in the run.

Gates and measures share this rule. A claim's `supported` is somebody's verdict, and the passage is
its basis. Nobody can check the verdict without the passage, so `supported: true` counts only for a
claim that cites one. Ids are compared character by character.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.grouping import grouped
from assay.records.evidence import Claim, Retrieved, Run
from assay.scoring.metrics.measure import Undetermined


class Sourced(NamedTuple):
    """The claims of a run, at least one, and the ids that they may cite."""

    claims: list[Claim]
    citable: frozenset[str]


def sourced(run: Run) -> Sourced:
    """The claims and citable ids of a run. Raises `Undetermined` if nothing can be checked."""
    if run.claims is None:
        raise Undetermined("the run lists no `claims`")
    if not run.claims:
        raise Undetermined("`claims` is empty: at least one claim is needed")
    return Sourced(run.claims, citable_ids(retrieved(run)))


def retrieved(run: Run) -> list[Retrieved]:
    """The passages that a run retrieved, perhaps none."""
    if run.retrieval is None:
        raise Undetermined(
            "the run lists no `retrieval` (an empty list means that nothing was found)"
        )
    return run.retrieval


def cited_ids(claim: Claim) -> list[str]:
    """The ids that a claim cites, each once and without blank ones."""
    return list(dict.fromkeys(citation for citation in claim.citations if citation.strip()))


def citable_ids(retrieval: Sequence[Retrieved]) -> frozenset[str]:
    """The ids that a citation may name: those with exactly one text, which can be looked up. A
    missing text is another text, so that nobody makes an id citable by leaving one out.

    >>> from assay.records.evidence import Retrieved
    >>> sorted(
    ...     citable_ids(
    ...         [
    ...             Retrieved(id="a", text="It rains."),
    ...             Retrieved(id="b"),
    ...             Retrieved(id="c", text=" "),
    ...             Retrieved(id="d", text="It snows."),
    ...             Retrieved(id="d"),
    ...         ]
    ...     )
    ... )
    ['a']
    """
    texts = grouped((passage.id, passage.text) for passage in retrieval if passage.id.strip())
    return frozenset(
        passage_id
        for passage_id, (text, *others) in texts.items()
        if text is not None and any(map(str.isalnum, text)) and {*others} <= {text}
    )


def is_cited(claim: Claim, citable: frozenset[str]) -> bool:
    """Whether a claim has text and cites at least one passage."""
    return bool(claim.text.strip()) and not citable.isdisjoint(claim.citations)


def is_supported(claim: Claim, citable: frozenset[str]) -> bool | None:
    """The verdict on a claim; a yes without a cited passage is None, as if nobody had judged it."""
    return None if claim.supported and not is_cited(claim, citable) else claim.supported
