"""The results of one exam over time, and its stored baseline: the result of the system in
production.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from assay.archive.compared import NamedBaseline, read_named_baseline
from assay.families.exams.document import read_result
from assay.files.json_files import Document
from assay.records.evidence import Number
from assay.records.exam import ExamDigests, ExamFileCount, ExamResult, ExamSet
from assay.server.state import Services
from assay.views.exam import ExamPoint, exam_name
from assay.views.exam_page import HistoryView

LOOKED_AT = 200
"""How many results are searched for those of the same exam."""
BASELINES = 50


class SameExam(NamedTuple):
    """What the results of one history share: the digest of the questions with their expectations,
    and the set.
    """

    exam: str
    set: str


class ExamBrief(msgspec.Struct):
    """The fields of a graded exam that its history shows."""

    rubric: str
    score: Number
    n: int
    digests: ExamDigests
    set: ExamSet = "capstone"
    exams: list[ExamFileCount] = []

    @property
    def same(self) -> SameExam:
        """The key of the exam's history."""
        return SameExam(self.digests.exam, self.set)

    @property
    def name(self) -> str:
        """The exam by its files."""
        return exam_name(self.exams)


brief = msgspec.json.Decoder(ExamBrief).decode


class StoredExam(NamedTuple):
    """The baseline of an exam: its name, and the result."""

    name: str
    digest: str
    result: ExamResult


def baseline_of(services: Services, project: str, exam: SameExam) -> StoredExam | None:
    """The newest baseline that is a result of this exam."""
    for item in services.ledger.find(
        "baseline", project=project, limit=BASELINES, newest_first=True
    ).items:
        kept = read_named_baseline(item.body) if item.body is not None else NamedBaseline()
        for digest in kept.evidence_digests[:1] if kept.kind == "exam" else ():
            stored = services.ledger.get(digest, project=project)
            if stored is not None and stored.body is not None and brief(stored.body).same == exam:
                return StoredExam(kept.name, digest, read_result(Document(stored.tree(), digest)))
    return None


def history_of(
    services: Services, project: str, exam: SameExam, stored: StoredExam | None, name: str = ""
) -> HistoryView:
    """The results of an exam among the newest of all exams; with the exam's `name`, also how many
    results of that name have other questions: an exam that was made easier keeps its name.
    """
    page = services.ledger.find("exam", project=project, limit=LOOKED_AT, newest_first=True)
    points, others = [], 0
    for item in reversed(page.items):
        result = brief(item.body) if item.body is not None else None
        if result is not None and result.same == exam:
            points.append(
                ExamPoint(item.created_at, result.score, result.n, result.rubric, item.digest)
            )
        elif result is not None and (result.name, result.set) == (name, exam.set):
            others += 1
    more = "" if page.next_cursor is None else f"Of the last {LOOKED_AT} results of all exams. "
    return HistoryView(
        points,
        stored.result.distribution if stored is not None else None,
        stored.name if stored is not None else "",
        f"{more}Identical results are stored once.",
        others,
    )
