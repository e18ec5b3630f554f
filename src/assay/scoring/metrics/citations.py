"""Which citations count: those of a passage that was retrieved and whose text is in the run.

Gates and measures share this rule. A claim's `supported` says what somebody concluded; the passage
is what they concluded it from. Without the passage nobody can check the verdict, so a `supported:
true` counts only for a claim that cites one. Ids are compared character by character.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assay.scoring.metrics.measure import Undetermined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.records.evidence import Claim, Retrieved, Run


class Sourced(NamedTuple):
    """The claims of a run, at least one, and the ids that they may cite."""

    claims: list[Claim]
    citable: frozenset[str]


def sourced(run: Run) -> Sourced:
    """What there is to check; raises `Undetermined` where nothing can be checked."""
    if run.claims is None:
        raise Undetermined("the run lists no `claims`")
    if not run.claims:
        raise Undetermined("`claims` is empty: at least one claim is needed")
    if run.retrieval is None:
        raise Undetermined(
            "the run lists no `retrieval` (an empty list says that nothing was found)"
        )
    return Sourced(run.claims, citable_ids(run.retrieval))


def cited_ids(claim: Claim) -> list[str]:
    """What a claim cites, each id once; blanks cite nothing."""
    return list(dict.fromkeys(citation for citation in claim.citations if citation.strip()))


def citable_ids(retrieval: Sequence[Retrieved] | None) -> frozenset[str]:
    """The ids that a citation may name. An id without text, or with two texts, names no passage
    that anybody could look up.

    >>> from assay.records.evidence import Retrieved
    >>> sorted(
    ...     citable_ids(
    ...         [
    ...             Retrieved(id="a", text="It rains."),
    ...             Retrieved(id="b"),
    ...             Retrieved(id="c", text=" "),
    ...         ]
    ...     )
    ... )
    ['a']
    """
    texts: dict[str, set[str]] = {}
    for passage in retrieval or ():
        if passage.id.strip() and passage.text is not None and any(map(str.isalnum, passage.text)):
            texts.setdefault(passage.id, set()).add(passage.text)
    return frozenset(passage_id for passage_id, found in texts.items() if len(found) == 1)


def is_cited(claim: Claim, citable: frozenset[str]) -> bool:
    """Whether a claim says something and cites at least one passage for it."""
    return bool(claim.text.strip()) and not citable.isdisjoint(claim.citations)


def is_supported(claim: Claim, citable: frozenset[str]) -> bool | None:
    """The verdict on a claim; a yes without a passage behind it is None, as if nobody had judged
    the claim.
    """
    return None if claim.supported and not is_cited(claim, citable) else claim.supported
