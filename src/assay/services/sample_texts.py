"""The texts of the samples that a decision names, read from both sides once more.

A side is read as a stream, and which samples matter is known only once it is decided. So the
documents are read again, and only those of the named samples are graded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from assay.files.json_files import Document
from assay.records.grade import is_graded
from assay.services.given_grades import grades_of
from assay.services.grading import Graded, Grader
from assay.services.sides import Documents
from assay.views.decision_samples import SideName, TextCollector
from assay.views.documents import names_of, plain
from assay.views.samples import sample_evidence, sample_grade
from assay.views.worst_samples import gate_reason


def read_texts(
    documents: Documents,
    grader: Grader,
    side: SideName,
    names: Collection[str],
    into: TextCollector,
) -> Iterator[tuple[Graded, dict[str, Any]]]:
    """Collect the texts of these samples of a side, and yield each of their grades with its
    payload.
    """
    if not names:
        return
    for document in documents():
        if not isinstance(document, Document) or not _may_be_of(document.tree, names):
            continue
        for graded in grades_of(document, grader):
            if graded.grade.sample in names and graded.run is not None:
                payload = plain(graded.payload())
                grade = sample_grade({"weighted_score": 0, **payload})
                into.add(
                    side,
                    graded.grade.sample,
                    grade,
                    sample_evidence(graded.run),
                    reason=gate_reason(grade, payload, graded.run),
                )
                yield graded, payload


def _may_be_of(tree: Any, names: Collection[str]) -> bool:
    """Whether a document may be a run of one of these samples, by its keys alone."""
    if not isinstance(tree, dict) or is_graded(tree):
        return False  # grades have no texts
    return any(name in names for name in names_of(tree))
