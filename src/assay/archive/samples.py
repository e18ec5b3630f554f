"""The samples of a stored evaluation as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.views.samples import (
    SampleRow,
    SampleRun,
    fold_samples,
    sample_evidence,
    sample_grade,
    sample_name,
    with_evidence,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.archive.evaluations import StoredEvaluation
    from assay.records.evaluation import EvaluatedRun
    from assay.store.drafts import Item
    from assay.store.ledger import Ledger

_GRADES_AT_ONCE = 400  # as many as one query takes
_RUNS_AT_ONCE = 100  # a run may be megabytes


def sample_rows(
    ledger: Ledger, stored: StoredEvaluation, *, project: str, texts: bool = True
) -> list[SampleRow]:
    """Every sample of an evaluation, in its order, with its repeats folded into it. A run that was
    forgotten keeps its grade and has no texts. Without `texts` only grades are read, which is
    enough to count and to sort; `with_texts` adds those of the rows that are shown.
    """
    rows = run_rows(ledger, stored.evaluation.runs, project=project)
    return with_texts(ledger, rows, project=project) if texts else rows


def run_rows(ledger: Ledger, runs: Sequence[EvaluatedRun], *, project: str) -> list[SampleRow]:
    """The samples of any runs, without texts."""
    return fold_samples((run, None) for run in _graded(ledger, runs, project))


def with_texts(ledger: Ledger, rows: Sequence[SampleRow], *, project: str) -> list[SampleRow]:
    """The rows with what was asked, answered and expected in the worst run of each."""
    found = []
    for start in range(0, len(rows), _RUNS_AT_ONCE):
        part = rows[start : start + _RUNS_AT_ONCE]
        items = ledger.get_many([row.worst.digest for row in part], project=project)
        for row in part:
            body = _body(items.get(row.worst.digest))
            found.append(with_evidence(row, None if body is None else sample_evidence(body)))
    return found


def _graded(ledger: Ledger, runs: Sequence[EvaluatedRun], project: str) -> Iterator[SampleRun]:
    for start in range(0, len(runs), _GRADES_AT_ONCE):
        part = runs[start : start + _GRADES_AT_ONCE]
        items = ledger.get_many([run.grade for run in part if run.grade], project=project)
        for run in part:
            body = _body(items.get(run.grade)) if run.grade else None
            if body is not None:
                yield SampleRun(run.run_id, run.digest, sample_grade(body))
            else:  # only the run itself says which sample it is of
                own = _body(ledger.get(run.digest, project=project))
                name = "" if own is None else sample_name(own)
                gone = run.grade is not None
                yield SampleRun(run.run_id, run.digest, sample=name, forgotten=gone)


def _body(item: Item | None) -> bytes | None:
    return None if item is None or item.body is None else item.checked()
