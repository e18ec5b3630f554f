"""The records that are stored with a grade, and how to find the evidence of a stored grade."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, structs

from assay.canon import in_order
from assay.errors import InputError, NotEnoughEvidence
from assay.files.json_files import Document
from assay.grouping import grouped
from assay.pipeline.grading import Graded
from assay.records.digests import run_digest
from assay.records.evidence import RUN_SCHEMA, Run
from assay.records.grade import Payload
from assay.records.reading import read_record, read_run
from assay.records.scorecard import SCORECARD_SCHEMA, Scorecard
from assay.store.drafts import (
    LINKS_SCHEMA,
    Body,
    Draft,
    Item,
    Link,
    body_of,
    draft,
    graded_drafts,
)
from assay.store.ledger import DEFAULT_PROJECT, Ledger
from assay.store.reading import GradeOf, evidence_of, grades_of

GRADING_SCHEMA = "assay.grading/1"
_READ_AS: dict[Any, tuple[type[Run] | type[Scorecard], str]] = {
    RUN_SCHEMA: (Run, "SCO-011"),
    SCORECARD_SCHEMA: (Scorecard, "GRD-101"),
}


class _RunDigest(Struct, frozen=True):
    run: str | None = None


class _GradedRun(Struct):
    digests: _RunDigest = _RunDigest()


_read_grade = msgspec.json.Decoder(_GradedRun).decode


class Basis(NamedTuple):
    """What grades depend on besides the evidence: the cards of judges and the moment from which
    their age was counted.
    """

    drafts: tuple[Draft, ...] = ()
    links: tuple[Link, ...] = ()


NO_BASIS = Basis()


def basis_of(cards: Sequence[Mapping[str, Any]], now: datetime | None) -> Basis:
    """The basis of a grading; empty without cards, because then only the evidence counts."""
    if not cards:
        return Basis()
    if now is None:
        raise InputError(
            "API-001",
            "cards were given without the moment from which their age is counted.",
            fix="Pass `now`.",
        )
    kept = [draft(dict(card), kind="card") for card in cards]
    body = {
        "schema": GRADING_SCHEMA,
        "now": now.astimezone(UTC).isoformat(),
        "cards": sorted(card.name for card in kept),
    }
    grading = draft(body, kind="event", links=[Link("graded_from", card.name) for card in kept])
    return Basis((*kept, grading), (Link("graded_from", grading.name),))


def drafts_of(
    graded: Graded,
    payload: Payload | None = None,
    *,
    basis: Basis = NO_BASIS,
    author: str | None = None,
) -> list[Draft]:
    """All that a ledger stores for a grade: evidence, scorecard and grade, dependencies first."""
    assert graded.evidence is not None, "a grade that came without its evidence is not stored"
    listed = graded_drafts(
        evidence_body(graded),
        graded.grade.scorecard,
        payload or graded.payload(),
        author=author,
        links=basis.links,
    )
    return [*basis.drafts, *listed]


def evidence_body(graded: Graded) -> Body:
    """The evidence of a grade as a ledger stores it."""
    return body_of(graded.evidence, None if graded.run is None else graded.run_text)


def settled(document: Document) -> Document:
    """A document as a replay will read it: keys in canonical order, numbers in canonical spelling.

    A grade names gates in the order of its evidence and numbers as they were written, so a stored
    grade must be made from the stored form. What is refused as it was written, such as a count of
    1.0, is refused here too: its canonical spelling is 1.
    """
    tree = document.tree
    known = _READ_AS.get(tree.get("schema")) if isinstance(tree, dict) else None
    if known is not None:
        read_record(document, *known)
    return structs.replace(document, tree=in_order(document.tree))


# --- what a stored grade was made from


class Traced(NamedTuple):
    """A stored grade with what it was made from. `evidence` is the original run or scorecard,
    `scorecard` the one that was graded.
    """

    grade: Item
    scorecard: Item | None
    evidence: Item | None
    basis: tuple[Item, ...]


def trace(
    ledger: Ledger, grades: Sequence[Item], *, project: str = DEFAULT_PROJECT
) -> list[Traced]:
    """What stored grades were made from, by their links."""
    near = ledger.links_of_many([grade.digest for grade in grades], project=project)
    targets = _graded_from(near)
    first = {target for grade in grades for target in targets.get(grade.digest, ())}
    far = ledger.links_of_many(first, project=project) if first else []
    sources = grouped(
        (link.target, link.source)
        for link in far
        if link.relation == "evidence_of" and link.source is not None
    )
    deeper = _graded_from(far)
    own = {
        grade.digest: own_run(ledger, grade, sources[card], project=project)
        for grade in grades
        for card in targets.get(grade.digest, ())
        if card in sources
    }
    items = ledger.get_many(
        {*first, *own.values(), *(digest for digests in deeper.values() for digest in digests)},
        project=project,
    )
    traced = []
    for grade in grades:
        near_items = [items[digest] for digest in targets.get(grade.digest, ()) if digest in items]
        card = next((item for item in near_items if item.kind == "scorecard"), None)
        evidence = items.get(own.get(grade.digest, ""), card)
        basis = [item for item in near_items if item.kind == "event"]
        basis += [
            items[digest]
            for item in list(basis)
            for digest in deeper.get(item.digest, ())
            if digest in items
        ]
        traced.append(Traced(grade, card, evidence, tuple(basis)))
    return traced


def own_run(ledger: Ledger, grade: Item, runs: Sequence[str], *, project: str) -> str:
    """The run that a grade was made from, among all runs with its scorecard, by their digests: runs
    that differ only in unscored parts share one.
    """
    if len(runs) > 1 and grade.body is not None:
        wanted = _read_grade(grade.checked()).digests.run
        if wanted is not None and wanted in runs:
            return wanted
        for item in ledger.get_many(runs, project=project).values():
            if item.kind == "run" and item.body is not None:
                run = read_run(Document(item.tree(), item.digest))
                if run_digest(run) == wanted:
                    return item.digest
    return runs[0]


def newest_own(
    ledger: Ledger, evidence: str, grades: Sequence[GradeOf], *, project: str
) -> Item | None:
    """The newest of these grades that was made from this evidence: runs that differ only in
    unscored parts share a scorecard, and so all grades of it. Without one, the newest of all.
    """
    names = [grade.digest for grade in reversed(grades)]
    behind = evidence_of(ledger.database, project, names)
    for name in names:
        grade, runs = ledger.get(name, project=project), behind.get(name, [])
        if len(runs) < 2 or (
            grade is not None and own_run(ledger, grade, runs, project=project) == evidence
        ):
            return grade
    return ledger.get(names[0], project=project)


def on_top(
    ledger: Ledger, evidence: str, grade: str, grades: Sequence[GradeOf], *, project: str
) -> list[Link]:
    """The link that puts a stored grade before newer ones of its evidence, because earlier rules
    apply again; none where it is the newest.
    """
    if not grades or grades[-1].digest == grade:
        return []
    last = newest_own(ledger, evidence, grades, project=project)
    return [] if last is None or last.digest == grade else [Link("supersedes", last.digest, grade)]


def links_draft(
    links: Sequence[Link], *, author: str | None, reason: str | None = None, **cause: str
) -> Draft:
    """The event that adds links between stored records. `cause` says what added them: without it,
    the same links would not be stored a second time.
    """
    event = {"schema": LINKS_SCHEMA, **cause, "links": [link._asdict() for link in links]}
    return draft(event, kind="event", author=author, reason=reason, links=links)


def grade_of_run(ledger: Ledger, run_id: str, *, project: str) -> Item | None:
    """The newest grade of a run, by the run's id."""
    page = ledger.find("grade", {"run_id": run_id}, project=project, limit=1, newest_first=True)
    if not page.items:
        return None
    (last,) = page.items
    runs = evidence_of(ledger.database, project, [last.digest]).get(last.digest)
    if not runs:
        return last
    own = own_run(ledger, last, runs, project=project)
    return newest_own(ledger, own, grades_of(ledger.database, project, [own])[own], project=project)


def _graded_from(links: Iterable[Link]) -> dict[str, list[str]]:
    return grouped(
        (link.source, link.target)
        for link in links
        if link.relation == "graded_from" and link.source is not None
    )


def cards_of(traced: Traced) -> tuple[list[Any], datetime | None]:
    """The cards of judges and the moment that a grade was made with."""
    grading = next((item.tree() for item in traced.basis if item.kind == "event"), None)
    if grading is None:
        return [], None
    return [item.tree() for item in traced.basis if item.kind == "card"], datetime.fromisoformat(
        grading["now"]
    )


def stored_evidence(item: Item | None, grade: Item) -> Item:
    """The evidence of a stored grade; an error if it is missing."""
    if item is None or item.body is None:
        state = "is not in the ledger" if item is None else "was forgotten"
        raise NotEnoughEvidence(
            "STO-008",
            f"the evidence of this grade {state}.",
            where=grade.digest,
            fix="Without it nothing can be recomputed.",
        )
    return item
