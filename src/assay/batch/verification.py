"""Whether a batch is what its record says: the files by their digests, rows by the Python engine.

A verified row proves itself, not its neighbours: a caller says how many rows were made again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import file_digest
from typing import Any, NamedTuple

from assay.batch.engine import BatchEngine
from assay.batch.layout import find_layout
from assay.batch.plan import make_batch_plan
from assay.batch.quoting import identifier, in_dialect, text
from assay.batch.replay import replay_rows
from assay.canon import number_text
from assay.grading.policy import Rules
from assay.records.batch import BatchFile, BatchRecord
from assay.scoring.profile import ScoringPlan


class RowDifference(NamedTuple):
    """The first column in which a stored row isn't what Python makes of the evidence."""

    run: Any
    column: str
    stored: Any
    recomputed: Any


def changed_files(files: Sequence[BatchFile], folder: str = "") -> list[str]:
    """The names of the files that are gone, or whose bytes aren't those of the record. A file
    without a digest counts as changed: nothing shows that it is the same.
    """
    return [one.name for one in files if one.digest != _digest(os.path.join(folder, one.name))]


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            return f"sha256:{file_digest(stream, 'sha256').hexdigest()}"
    except OSError:
        return ""


def is_same_plan(record: BatchRecord, plan: ScoringPlan, rules: Rules) -> bool:
    """Whether a profile and a policy are those that the record was made with."""
    return make_batch_plan(plan, rules).digest == record.plan


def row_differences(
    engine: BatchEngine,
    evidence: str,
    grades: str,
    runs: Sequence[str],
    plan: ScoringPlan,
    rules: Rules,
    *,
    names: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
) -> list[RowDifference]:
    """Make the rows of some runs again by the Python engine, from the view of the evidence, and
    compare every column with the view of the grades. A run without exactly one row differs.
    """
    columns = engine.columns(evidence)
    layout = find_layout(make_batch_plan(plan, rules), columns, names=names, keep=keep)
    found = []
    for run in runs:
        given = _rows(engine, evidence, layout.run.name, run)
        stored = _rows(engine, grades, "run", run)
        if not given or len(stored) != 1:
            found.append(RowDifference(run, "run", len(stored), int(bool(given))))
            continue
        name = given[0][layout.run.name]
        made = replay_rows(name, given, layout, plan, rules).row
        for column in made | stored[0]:
            one, other = (_plain(row.get(column)) for row in (stored[0], made))
            if one != other:
                found.append(RowDifference(run, column, one, other))
                break
    return found


def _rows(engine: BatchEngine, view: str, column: str, run: str) -> list[dict[str, Any]]:
    names = [one.name for one in engine.columns(view)]
    sql = (
        f"SELECT {', '.join(map(identifier, names))} FROM {identifier(view)}"
        f" WHERE CAST({identifier(column)} AS VARCHAR) = {text(run)}"
    )
    rows = engine.rows(in_dialect(sql, engine.dialect))
    return [dict(zip(names, row, strict=True)) for row in rows]


def _plain(value: Any) -> Any:
    """A stored value and a computed one in one form: one text for each number."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return number_text(value)
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
