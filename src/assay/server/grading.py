"""Makes stored grades from documents, for the routes of runs and scorecards, live runs, traces
and executions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Raw

from assay.files.json_files import Document
from assay.services.grading import Grader
from assay.services.storing import NO_BASIS, Basis, drafts_of, settled
from assay.store.drafts import Draft, Stored


class BasedGrader(Grader):
    """A grader that knows what its grades depend on besides the evidence, so that they can be
    replayed.
    """

    basis: Basis = NO_BASIS


class DraftedGrade(NamedTuple):
    """A grade, and the records to store with it: judge cards, evidence, scorecard, grade."""

    payload: dict[str, Any]
    drafts: list[Draft]
    evidence: Draft

    @property
    def grade(self) -> Draft:
        """The grade as it will be stored."""
        return self.drafts[-1]


class StoredGrade(NamedTuple):
    """A grade that is stored, and where its records are."""

    made: DraftedGrade
    evidence: Stored
    grade: Stored

    def result(self, *, address: str = "/api/v1/runs") -> dict[str, Any]:
        """The answer to a client: where the evidence is, whether it is new, and the grade, byte for
        byte as stored.
        """
        return {
            "run_id": self.made.payload["run_id"],
            "digest": self.evidence.digest,
            "grade_digest": self.grade.digest,
            "seq": self.evidence.seq,
            "new": self.evidence.new,
            "location": f"{address}/{self.evidence.digest}",
            "grade": Raw(self.made.grade.body),
        }


def make(
    document: Document,
    grader: Grader,
    *,
    author: str | None,
) -> DraftedGrade:
    """Grade one document, storing nothing yet. Raises an error for a faulty document."""
    graded = grader.grade(settled(document))
    payload = graded.payload()
    basis = grader.basis if isinstance(grader, BasedGrader) else NO_BASIS
    drafts = drafts_of(graded, payload, basis=basis, author=author)
    return DraftedGrade(payload, drafts, drafts[len(basis.drafts)])
