"""Whether a batch is what its record says: the files by their digests, rows by the Python engine.

A verified row proves nothing about others: the caller reports how many rows were recomputed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from hashlib import file_digest
from typing import Any, NamedTuple

from msgspec import DecodeError, json

from assay.canon import number_text
from assay.families.batch.engine import BatchEngine, ask
from assay.families.batch.evidence import own_names
from assay.families.batch.layout import find_layout
from assay.families.batch.plan import make_batch_plan
from assay.families.batch.quoting import identifier, text
from assay.families.batch.records import BatchFile
from assay.families.batch.replay import replay_rows
from assay.grading.policy import Rules
from assay.grouping import grouped
from assay.scoring.profile import ScoringPlan

SHOWN = 5
"""Runs that are named where many are missing."""


class RowDifference(NamedTuple):
    """The first column in which a stored row differs from the one that Python computes."""

    run: str
    column: str
    """Empty if the run doesn't have exactly one row: then the values are numbers of rows."""
    stored: Any
    recomputed: Any


def changed_files(files: Sequence[BatchFile], folder: str = "") -> list[str]:
    """The names of the files that are gone, or whose bytes aren't those of the record. A file
    without a digest counts as changed: nothing shows that it is the same.
    """
    return [file.name for file in files if file.digest != _digest(os.path.join(folder, file.name))]


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            return f"sha256:{file_digest(stream, 'sha256').hexdigest()}"
    except OSError:
        return ""


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
    """Recompute the rows of some runs with the Python engine, from the view of the evidence, and
    compare every column with the view of the grades. A run without exactly one row differs.
    """
    columns = engine.columns(evidence)
    layout = find_layout(make_batch_plan(plan, rules), columns, names=names, keep=keep)
    evidence_rows = _rows(engine, evidence, layout.run.name, runs)
    stored = _rows(engine, grades, "run", runs)
    differences = []
    for run in runs:
        if run not in evidence_rows or len(stored.get(run, ())) != 1:
            differences.append(
                RowDifference(run, "", len(stored.get(run, ())), int(run in evidence_rows))
            )
            continue
        name = evidence_rows[run][0][layout.run.name]
        recomputed_row = replay_rows(name, evidence_rows[run], layout, plan, rules).row
        (row,) = stored[run]
        for column in recomputed_row | row:
            recomputed = _plain(recomputed_row.get(column))
            one = _plain(_typed(row.get(column), recomputed_row.get(column)))
            if one != recomputed or column not in row:
                differences.append(RowDifference(run, column, one, recomputed))
                break
    return differences


def sample_of_runs(engine: BatchEngine, view: str, column: str, size: int) -> list[str]:
    """The ids of some runs, always the same: those with the lowest MD5."""
    run = identifier(column)
    sql = (
        f"SELECT r FROM (SELECT DISTINCT CAST({run} AS VARCHAR) AS r FROM {identifier(view)}"
        f" WHERE NOT {run} IS NULL) AS runs ORDER BY MD5(r), r LIMIT {size}"
    )
    return [row[0] for row in ask(engine, sql)]


def runs_without(engine: BatchEngine, left: tuple[str, str], right: tuple[str, str]) -> list[str]:
    """Some runs of a view that another one lacks; each is given with its column of run ids."""
    sides = (
        f"SELECT COALESCE(CAST({identifier(column)} AS VARCHAR), '') AS r FROM {identifier(view)}"
        for view, column in (left, right)
    )
    sql = f"SELECT r FROM ({' EXCEPT '.join(sides)}) AS lost ORDER BY r LIMIT {SHOWN}"
    return [row[0] for row in ask(engine, sql)]


def _rows(
    engine: BatchEngine, view: str, column: str, runs: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """The rows of some runs, by the run's id as text: one pass over the view for all of them."""
    names = own_names(engine.columns(view))
    run = f"CAST({identifier(column)} AS VARCHAR)"
    sql = (
        f"SELECT {run}, {', '.join(map(identifier, names))} FROM {identifier(view)}"
        f" WHERE {run} IN ({', '.join(map(text, runs)) or 'NULL'})"
    )
    return grouped((name, dict(zip(names, row, strict=True))) for name, *row in ask(engine, sql))


def _typed(stored: Any, computed: Any) -> Any:
    """A text of a CSV or JSON Lines file as the type that the computed value has."""
    if not isinstance(stored, str) or computed is None or isinstance(computed, str):
        return stored
    try:
        if isinstance(computed, bool):
            return {"true": True, "false": False}.get(stored, stored)
        if isinstance(computed, int | float | Decimal):
            return Decimal(stored)
        if isinstance(computed, list):
            return json.decode(stored)
    except (ArithmeticError, DecodeError):
        return stored
    return computed if str(computed) == stored else stored


def _plain(value: Any) -> Any:
    """A stored value and a computed one in one form: one text for each number."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return number_text(value) if math.isfinite(value) else str(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
