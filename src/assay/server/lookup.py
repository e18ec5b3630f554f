"""Records by their digest or by the id of a run, always within one project. A record of another
project is a 404, never a 403.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Raw

from assay.errors import NotEnoughEvidence
from assay.release.baseline import StoredBaseline
from assay.server.problems import Problem
from assay.server.state import Services
from assay.services.evaluations import StoredEvaluation, find_evaluation, read_evaluation
from assay.services.named_baselines import as_stored
from assay.services.storing import newest_own, own_run
from assay.store.baselines import find_baseline
from assay.store.drafts import DIGEST as DIGEST
from assay.store.drafts import Item
from assay.store.reading import GradeOf, evidence_of, grades_of

MAX_SIDE = 20_000
"""How many records one side of a decision may have."""


def absent(what: str, name: str) -> Problem:
    """The 404 for something that this project doesn't have."""
    return Problem(404, f"there is no {what} {name[:100]!r} in this project.", where=name[:100])


def record(services: Services, project: str, kind: str | None, name: str) -> Item:
    """A record by its digest."""
    item = services.ledger.get(name, project=project) if DIGEST.fullmatch(name) else None
    if item is None or (kind is not None and item.kind != kind):
        raise absent(kind or "record", name)
    return item


def run(services: Services, project: str, name: str) -> Item:
    """A run by its digest, or the newest of that id."""
    if DIGEST.fullmatch(name):
        return record(services, project, "run", name)
    page = services.ledger.find(
        "run", {"run_id": name}, project=project, limit=1, newest_first=True
    )
    if not page.items:
        raise absent("run", name)
    return page.items[0]


class RunWithGrades(NamedTuple):
    """A run or scorecard, all its grades, and the one that is shown."""

    item: Item
    grades: list[GradeOf]
    grade: Item | None


def run_with_grades(services: Services, project: str, name: str) -> RunWithGrades:
    """The run of an address: by its id (the newest run with it) or by the digest of the run, of a
    scorecard, or of one of its grades, which is then the one shown.
    """
    if not DIGEST.fullmatch(name):
        item = run(services, project, name)
        grade = None
    else:
        item = record(services, project, None, name)
        grade = item if item.kind == "grade" else None
        if grade is not None:
            behind = evidence_of(services.ledger.database, project, [name]).get(name)
            if behind:
                own = own_run(services.ledger, grade, behind, project=project)
                item = record(services, project, None, own)
        if item.kind not in ("run", "scorecard", "grade"):
            raise absent("run", name)
    grades = grades_of(services.ledger.database, project, [item.digest]).get(item.digest, [])
    if grade is None and grades:
        grade = newest_own(services.ledger, item.digest, grades, project=project)
    return RunWithGrades(item, grades, grade)


def evaluation(services: Services, project: str, name: str) -> StoredEvaluation:
    """An evaluation by its digest, id or name, or as `latest` or `latest~1`; the newest of a
    name.
    """
    if DIGEST.fullmatch(name):
        item = record(services, project, "evaluation", name)
        if item.body is None:
            raise absent("evaluation", name)
        return read_evaluation(item)
    stored = find_evaluation(services.ledger, name, project=project)
    if stored is None:
        raise absent("evaluation", name)
    return stored


def baseline(services: Services, project: str, name: str) -> StoredBaseline:
    """The newest baseline of a name, or one by its digest."""
    kept = find_baseline(services.ledger, name, project=project)
    if kept is not None:
        return as_stored(kept, services.ledger.where)
    if DIGEST.fullmatch(name):
        raise absent("baseline", name)
    raise NotEnoughEvidence(
        "REL-005",
        f"there is no baseline {name[:80]!r} in this project.",
        where="baseline",
        fix="Store one with `assay baseline set NAME --store`, or post it to /api/v1/baselines.",
    )


def newest_grade(services: Services, project: str, evidence: Item) -> Item | None:
    """The newest grade of a run or scorecard."""
    grades = grades_of(services.ledger.database, project, [evidence.digest]).get(evidence.digest)
    if not grades:
        return None
    return newest_own(services.ledger, evidence.digest, grades, project=project)


def listed(item: Item) -> dict[str, Any]:
    """The metadata of a record."""
    return {
        "digest": item.digest,
        "seq": item.seq,
        "kind": item.kind,
        "schema": item.schema,
        "created_at": item.created_at,
        "author": item.author,
        "reason": item.reason,
        "forgotten": item.body is None,
    }


def shown(item: Item) -> dict[str, Any]:
    """A record with its metadata. The record itself is the stored bytes; one that doesn't match its
    digest is refused.
    """
    return {**listed(item), "record": None if item.body is None else Raw(item.checked())}


def cursor(text: str | None) -> int | None:
    """The place to continue from."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Problem(
            422,
            f"{text[:40]!r} is not a cursor.",
            where="after",
            fix="Use the `next` of the previous page.",
        )
    return int(text)
