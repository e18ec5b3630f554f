"""Drafts of the sides of a comparison, and of the decisions and baselines made from them; and the
evidence of a stored decision.

Routes and commands both make their drafts here, so the same result is the same record. Nothing is
stored here: a caller stores the drafts in order, so that no record depends on a missing one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import time_text
from assay.files.json_files import Document, Unread
from assay.records.decision import Decision
from assay.release.baseline import BASELINE_SCHEMA, EvidenceAge
from assay.release.sides import SevereKinds, Side
from assay.services.choice import Choice
from assay.services.grading import Graded, Grader
from assay.services.sides import Documents, Seen, side_of
from assay.services.storing import NO_BASIS, Basis, Store, basis_of, own_profile_draft, settled
from assay.store.baselines import KeptBaseline, evidence_of_baseline, find_baseline
from assay.store.drafts import EVIDENCE, Body, Draft, Link, draft, graded_drafts
from assay.store.ledger import Ledger

if TYPE_CHECKING:
    from assay.services.evaluation_choice import ToolProfile


Take = Callable[[list[Draft]], None]
FRESH = ("fresh_candidate_of", "fresh_baseline_of")
"""How fresh runs of each side are linked to the decision that they confirm."""


class KeptSide(NamedTuple):
    """One side of a comparison, and the digests of what it depends on, each once."""

    side: Side
    evidence: tuple[str, ...]
    grades: tuple[str, ...]
    bare: int
    """Grades that came without their evidence: nothing can be stored of them."""
    age: EvidenceAge
    documents: Documents
    """Its documents, once more."""


def keep_side(
    documents: Documents,
    grader: Grader,
    take: Take | None,
    *,
    name: str,
    severe: SevereKinds | None = None,
    where: str = "",
    basis: Basis = NO_BASIS,
    author: str | None = None,
    stored: Mapping[str, Body] | None = None,
    seen: Seen | None = None,
    made_of: Callable[[Any], None] | None = None,
) -> KeptSide:
    """One side as `side_of` makes it, from documents as a replay will read them. `take` gets the
    drafts of each grade with its evidence; without it nothing is drafted.

    `stored` has the bodies of evidence from a ledger, by digest, which is also the `file` of its
    document. `seen` gets each grade as it is made, and `made_of` each piece of evidence.
    """
    evidence: dict[str, None] = {}
    grades: dict[str, None] = {}
    bare, age = 0, EvidenceAge()
    if take is not None and basis.drafts:
        take(list(basis.drafts))

    def each(document: Document, graded: Graded) -> None:
        nonlocal bare
        age.add(graded.run)
        if seen is not None:
            seen(document, graded)
        if graded.evidence is None:
            bare += 1
            return
        body = (stored or {}).get(document.file, graded.evidence)
        if made_of is not None:
            made_of(body)
        if take is None:
            return
        drafts = graded_drafts(
            body, graded.grade.scorecard, graded.payload(), author=author, links=basis.links
        )
        evidence[drafts[0].name] = None
        grades[drafts[-1].name] = None
        take(drafts)

    def read() -> Iterator[Document | Unread]:
        for document in documents():
            yield document if isinstance(document, Unread) else settled(document)

    side = side_of(read(), grader, name=name, severe=severe, where=where, seen=each)
    return KeptSide(side, tuple(evidence), tuple(grades), bare, age, read)


def decision_drafts(
    document: Decision,
    candidate: KeptSide,
    baseline: KeptSide,
    *,
    fresh: Sequence[KeptSide | None] = (),
    plan: Mapping[str, Any] | None = None,
    made: ToolProfile | None = None,
    author: str | None = None,
) -> list[Draft]:
    """A decision with links to the evidence of both sides, to the grades it decides on, to its
    declared plan, and to a profile that was made for it and is on no shelf. `fresh` are the fresh
    runs of the candidate and of the baseline.
    """
    decision = draft(document.tree(), kind="decision", author=author)
    decision = decision.linked("candidate_of", candidate.evidence)
    decision = decision.linked("baseline_of", baseline.evidence)
    again = [(name, side) for name, side in zip(FRESH, fresh, strict=False) if side is not None]
    for name, side in again:
        decision = decision.linked(name, side.evidence)
    sides = (candidate, baseline, *(side for _, side in again))
    grades = dict.fromkeys(grade for side in sides for grade in side.grades)
    decides = [Link("decides", digest) for digest in grades]
    decision = decision._replace(links=(*decision.links, *decides))
    before = []
    if plan is not None:
        before.append(draft(plan, kind="event", author=author))
    if made is not None:
        before.append(own_profile_draft(made.profile, author=author))
    return [*before, decision.linked("evidence_of", [draft.name for draft in before])]


class DecisionEvidence(NamedTuple):
    """The digests of what a decision is based on, in its order."""

    candidate: list[str]
    baseline: list[str]
    fresh_candidate: list[str]
    fresh_baseline: list[str]
    decided: list[str]
    """The grades that it uses."""


def evidence_of_decision(ledger: Ledger, digest: str, *, project: str) -> DecisionEvidence:
    """What a decision links to; empty lists if its evidence is not stored."""
    links = ledger.links_of_many([digest], project=project)
    candidate, baseline, fresh_candidate, fresh_baseline = (
        [
            link.source
            for link in links
            if link.relation == relation and link.target == digest and link.source is not None
        ]
        for relation in ("candidate_of", "baseline_of", *FRESH)
    )
    decided = [
        link.target for link in links if link.relation == "decides" and link.source == digest
    ]
    return DecisionEvidence(candidate, baseline, fresh_candidate, fresh_baseline, decided)


def baseline_record(
    name: str, kept: KeptSide, *, now: datetime, made: ToolProfile | None = None
) -> dict[str, Any]:
    """A baseline as a ledger keeps it: it names its evidence by digest, and has the profile that
    was made from its metrics, which no shelf has, and the columns that were read.
    """
    side = kept.side
    return {
        **({} if made is None else made.facts()),
        "schema": BASELINE_SCHEMA,
        "name": name,
        "made_at": time_text(kept.age.dated(now), "milliseconds"),
        "evidence_digests": list(kept.evidence),
        "runs": side.runs,
        "samples": len(side.samples),
        "fingerprint": {"digest": side.fingerprint_digest, "fields": dict(side.fingerprint)},
        "summary": side.summary,
    }


def replacing(ledger: Ledger, record: dict[str, Any], *, project: str) -> dict[str, Any]:
    """The record of a baseline as the newest of its name. One that was stored before and replaced
    since says what it replaces in turn: as the same record, it would stay where it was.
    """
    own = draft(record, kind="baseline").name
    if ledger.get(own, project=project) is None:
        return record
    newest = find_baseline(ledger, str(record["name"]), project=project)
    if newest is None:  # it was forgotten
        return {**record, "replaces": own}
    same = {key: value for key, value in newest.record.items() if key != "replaces"}
    is_newest = draft(same, kind="baseline").name == own
    return newest.record if is_newest else {**record, "replaces": newest.digest}


def baseline_draft(record: Mapping[str, Any], *, author: str | None = None) -> Draft:
    """A baseline with links to its evidence."""
    made = draft(record, kind="baseline", author=author)
    return made.linked("baseline_of", record["evidence_digests"])


class SideReader:
    """Reads the sides of a comparison, where the baseline may come from the ledger. With the choice
    that they are graded by, it stores them with everything they depend on; `made_of` is called with
    each piece of evidence.
    """

    def __init__(
        self,
        store: Store,
        choice: Choice | None = None,
        *,
        severe: SevereKinds | None = None,
        made_of: Callable[[Any], None] | None = None,
    ) -> None:
        self.store = store
        self._severe = severe
        self.kept: list[KeptSide] = []
        self._made_of = made_of
        self._take = None if choice is None else store.add
        self._basis = NO_BASIS if choice is None else basis_of(choice.read_cards(), choice.now)

    def read(
        self,
        documents: Documents,
        grader: Grader,
        *,
        name: str,
        where: str,
        stored: Mapping[str, Body] | None = None,
        seen: Seen | None = None,
    ) -> KeptSide:
        """One side, as `side_of` makes it. `stored` has the bodies of evidence from a ledger, by
        digest. `seen` gets each grade as it is made.
        """
        self.kept.append(
            keep_side(
                documents,
                grader,
                self._take,
                name=name,
                severe=self._severe,
                where=where,
                basis=self._basis,
                stored=stored,
                seen=seen,
                made_of=self._made_of,
            )
        )
        return self.kept[-1]

    def of(self, side: object) -> KeptSide | None:
        """A side that was read here; None for any other."""
        return next((kept for kept in self.kept if kept is side), None)

    def read_baseline(self, baseline: KeptBaseline, grader: Grader, *, name: str) -> KeptSide:
        """The side of a baseline in the ledger."""
        bodies: dict[str, Body] = {}
        documents = partial(self._documents, baseline, bodies)
        return self.read(documents, grader, name=name, where=baseline.digest, stored=bodies)

    def _documents(self, baseline: KeptBaseline, bodies: dict[str, Body]) -> Iterator[Document]:
        """The evidence of a baseline as documents. `bodies` has only the body of the last one: each
        document is processed before the next is read.
        """
        ledger = self.store.ledger
        for item in evidence_of_baseline(
            ledger, baseline, kinds=EVIDENCE, project=self.store.project
        ):
            bodies.clear()
            bodies[item.digest] = Body(item.body or b"")
            yield Document(item.tree(), item.digest)
        ledger.close()  # as it was before
