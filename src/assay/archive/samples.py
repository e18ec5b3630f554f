"""The samples of a stored evaluation as rows.

Records never change under their digests, so the rows of recently viewed evaluations are cached:
paging, filtering and searching read the same ones again. Forgetting a record invalidates them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from threading import Lock

from assay.archive.evaluations import StoredEvaluation
from assay.records.evaluation import EvaluatedRun
from assay.records.samples import (
    SampleRow,
    SampleRun,
    fold_samples,
    sample_evidence,
    sample_grade,
    sample_name,
    with_evidence,
)
from assay.store.drafts import Item
from assay.store.ledger import Ledger

_RUNS_AT_ONCE = 100  # a run may be megabytes
_REMEMBERED = 60_000
"""How many rows are cached; each 500 characters of text count as another row."""
_rows: OrderedDict[tuple[str, ...], tuple[list[SampleRow], int]] = OrderedDict()
_turn = Lock()


def sample_rows(
    ledger: Ledger, stored: StoredEvaluation, *, project: str, texts: bool = True
) -> list[SampleRow]:
    """Every sample of an evaluation, in its order, with its repeats folded into it. A run that was
    forgotten keeps its grade and has no texts. Without `texts` only grades are read, which is
    enough to count and to sort; `with_texts` adds those of the rows that are shown.
    """
    runs = stored.evaluation.runs
    if not texts:
        return run_rows(ledger, runs, project=project)
    key = (*_key(ledger, runs, project), "texts")
    known = _recall(key)
    if known is None:
        rows = run_rows(ledger, runs, project=project)
        known = _remember(key, with_texts(ledger, rows, project=project))
    return known


def run_rows(ledger: Ledger, runs: Sequence[EvaluatedRun], *, project: str) -> list[SampleRow]:
    """The samples of any runs, without texts."""
    key = _key(ledger, runs, project)
    known = _recall(key)
    if known is None:
        made = fold_samples((run, None) for run in _graded(ledger, runs, project))
        known = _remember(key, made)
    return known


def _key(ledger: Ledger, runs: Sequence[EvaluatedRun], project: str) -> tuple[str, ...]:
    """All that rows depend on: the ledger, the runs with their grades, and how much was
    forgotten.
    """
    of = sha256("".join(f"{run.run_id}\0{run.digest}{run.grade}\0" for run in runs).encode())
    forgotten = ledger.count("tombstone", project=project).n
    return ledger.database.where, project, of.hexdigest(), str(forgotten)


def _recall(key: tuple[str, ...]) -> list[SampleRow] | None:
    with _turn:
        known = _rows.get(key)
        if known is None:
            return None
        _rows.move_to_end(key)
        return [*known[0]]


def _remember(key: tuple[str, ...], rows: list[SampleRow]) -> list[SampleRow]:
    texts = sum(len(row.question) + len(row.answer) + len(row.expected) for row in rows)
    with _turn:
        _rows[key] = rows, len(rows) + texts // 500
        while sum(size for _, size in _rows.values()) > _REMEMBERED:
            _rows.popitem(last=False)
    return [*rows]


def with_texts(ledger: Ledger, rows: Sequence[SampleRow], *, project: str) -> list[SampleRow]:
    """The rows with what was asked, answered and expected in the worst run of each."""
    worst = (row.worst.digest for row in rows)
    bodies = map(_body, ledger.in_order(worst, project=project, at_once=_RUNS_AT_ONCE))
    return [
        with_evidence(row, None if body is None else sample_evidence(body))
        for row, body in zip(rows, bodies, strict=True)
    ]


def _graded(ledger: Ledger, runs: Sequence[EvaluatedRun], project: str) -> Iterator[SampleRun]:
    grades = ledger.in_order((run.grade for run in runs), project=project)
    for run, body in zip(runs, map(_body, grades), strict=True):
        if body is not None:
            yield SampleRun(run.run_id, run.digest, sample_grade(body))
        else:  # without a grade, only the run itself names its sample
            own = _body(ledger.get(run.digest, project=project))
            name = "" if own is None else sample_name(own)
            gone = run.grade is not None
            yield SampleRun(run.run_id, run.digest, sample=name, forgotten=gone)


def _body(item: Item | None) -> bytes | None:
    return None if item is None or item.body is None else item.checked()
