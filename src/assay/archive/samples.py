"""The samples of a stored evaluation as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.views.samples import (
    SampleEvidence,
    SampleRow,
    SampleRun,
    fold_samples,
    sample_evidence,
    sample_grade,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.archive.evaluations import StoredEvaluation
    from assay.store.ledger import Ledger

_AT_ONCE = 500


def sample_rows(ledger: Ledger, stored: StoredEvaluation, *, project: str) -> list[SampleRow]:
    """Every sample of an evaluation, in its order, with its repeats folded into it. A run that was
    forgotten keeps its grade and has no texts.
    """
    return fold_samples(_graded(ledger, stored, project))


def _graded(
    ledger: Ledger, stored: StoredEvaluation, project: str
) -> Iterator[tuple[SampleRun, SampleEvidence | None]]:
    runs = stored.evaluation.runs
    for start in range(0, len(runs), _AT_ONCE):
        part = runs[start : start + _AT_ONCE]
        wanted = [run.digest for run in part] + [run.grade for run in part if run.grade]
        items = ledger.get_many(wanted, project=project)
        for run in part:
            evidence = items.get(run.digest)
            graded = items.get(run.grade) if run.grade else None
            grade = (
                None if graded is None or graded.body is None else sample_grade(graded.checked())
            )
            yield (
                SampleRun(run.run_id, run.digest, grade),
                None
                if evidence is None or evidence.body is None
                else sample_evidence(evidence.checked()),
            )
