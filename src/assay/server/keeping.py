"""What a ledger keeps of decisions, baselines and exams: the records, and the links to what they
rest on.

The routes and the commands make their drafts here, so that the same result is the same record
whichever way it came. Nothing of the web is imported, and nothing is stored: whoever calls stores
what comes first before what comes last, so that nothing rests on what is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from assay.archive.regrading import NO_BASIS, Basis, settled
from assay.exams.answers import Answer
from assay.exams.exam import Exam
from assay.files.json_files import Document, Unread
from assay.pipeline.deciding import side_of
from assay.pipeline.grading import Graded, Grader
from assay.records.decision import Decision
from assay.records.exam import ExamResult
from assay.records.reading import KINDS as EVIDENCE
from assay.records.reading import read_scorecard
from assay.release.baseline import BASELINE_SCHEMA
from assay.release.sides import Side
from assay.store.drafts import Body, Draft, Link, draft, graded_drafts

EXAM_EVIDENCE_SCHEMA = "assay.exam-evidence/1"

Take = Callable[[list[Draft]], None]


class KeptSide(NamedTuple):
    """One side of a comparison, and the digests of what it rests on, each once."""

    side: Side
    evidence: tuple[str, ...]
    grades: tuple[str, ...]
    bare: int
    """Grades that came without their evidence: nothing is stored of them."""


def keep_side(
    documents: Iterable[Document | Unread],
    grader: Grader,
    take: Take,
    *,
    name: str,
    where: str = "",
    basis: Basis = NO_BASIS,
    author: str | None = None,
    stored: Mapping[str, Body] | None = None,
) -> KeptSide:
    """One side as `side_of` makes it, from documents as a replay will read them. `take` gets the
    drafts of each grade with its evidence.

    `stored` has the bodies of evidence that comes from a ledger, by the digest that its document
    has for a file.
    """
    evidence: dict[str, None] = {}
    grades: dict[str, None] = {}
    bare = 0
    if basis.drafts:
        take(list(basis.drafts))

    def seen(document: Document, graded: Graded) -> None:
        nonlocal bare
        if document.tree.get("schema") not in EVIDENCE:
            bare += 1
            return
        given: Any = graded.run if graded.run is not None else read_scorecard(document)
        if stored is not None and document.file in stored:
            given = stored[document.file]
        made = graded_drafts(
            given, graded.grade.scorecard, graded.payload(), author=author, links=basis.links
        )
        evidence[made[0].name] = None
        grades[made[-1].name] = None
        take(made)

    read = (one if isinstance(one, Unread) else settled(one) for one in documents)
    side = side_of(read, grader, name=name, where=where, seen=seen)
    return KeptSide(side, tuple(evidence), tuple(grades), bare)


def decision_drafts(
    document: Decision,
    candidate: KeptSide,
    baseline: KeptSide,
    *,
    plan: Mapping[str, Any] | None = None,
    author: str | None = None,
) -> list[Draft]:
    """A decision with links to the evidence of both sides, to the grades it decides on, and to the
    plan that was declared for it.
    """
    made = draft(document.tree(), kind="decision", author=author)
    links = [
        Link(f"{name}_of", made.name, digest)
        for name, side in (("candidate", candidate), ("baseline", baseline))
        for digest in side.evidence
    ]
    links += [
        Link("decides", digest) for digest in dict.fromkeys((*candidate.grades, *baseline.grades))
    ]
    before = []
    if plan is not None:
        before = [draft(plan, kind="event", author=author)]
        links.append(Link("evidence_of", made.name, before[0].name))
    return [*before, made._replace(links=tuple(links))]


def baseline_record(name: str, kept: KeptSide, *, now: datetime) -> dict[str, Any]:
    """A baseline as a ledger keeps it: it names its evidence by digest."""
    side = kept.side
    return {
        "schema": BASELINE_SCHEMA,
        "name": name,
        "made_at": now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "evidence_digests": list(kept.evidence),
        "runs": side.runs,
        "samples": len(side.rows),
        "fingerprint": {"digest": side.fingerprint_digest, "fields": dict(side.fingerprint)},
        "summary": side.summary,
    }


def baseline_draft(record: Mapping[str, Any], *, author: str | None = None) -> Draft:
    """A baseline with links to its evidence."""
    made = draft(record, kind="baseline", author=author)
    return made._replace(
        links=tuple(Link("baseline_of", made.name, digest) for digest in record["evidence_digests"])
    )


def exam_record(document: Mapping[str, Any]) -> dict[str, Any]:
    """A graded exam without what a command says beside it: which files lay there, and what a broken
    step would have done.
    """
    return {**{key: value for key, value in document.items() if key != "broken"}, "notes": []}


def exam_drafts(
    result: ExamResult, exam: Exam, answers: Iterable[Answer], *, author: str | None = None
) -> list[Draft]:
    """A graded exam, after the questions and the answers that it was made of."""
    listed = sorted((one._asdict() for one in answers), key=lambda one: str(one["item"]))
    evidence = draft(
        {"schema": EXAM_EVIDENCE_SCHEMA, "exam": list(exam.files), "answers": listed},
        kind="event",
        author=author,
    )
    made = draft(replace(result, broken=UNSET, notes=[]), kind="exam", author=author)
    return [evidence, made._replace(links=(Link("evidence_of", made.name, evidence.name),))]
