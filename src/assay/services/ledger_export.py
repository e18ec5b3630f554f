"""Every grade of a ledger as Parquet rows that `assay batch` reads: one for each criterion and one
for each gate, in a new folder, partitioned by project, profile and day.

    lake/project=default/profile=rag%401/day=2026-11-16/data_0.parquet

Only ids, numbers and verdicts leave the ledger: no question, no answer, no reason. No number is
rounded: a grade with a number that no double represents exactly is left out and counted. Rows wait
on disk next to the folder, which takes its name only when it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from itertools import chain, islice
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.errors import InputError, UsageError
from assay.files.atomic import make_folder, refuse_links_out, sync_folder_of, sync_tree
from assay.files.tables import encode_row, load_duckdb, write_parquet
from assay.records.evidence import Source
from assay.release.sides import judge_text
from assay.store.drafts import Item
from assay.store.ledger import Ledger
from assay.store.reading import evidence_of

PAGE = 100
PARTITIONS = ("project", "profile", "day")

CELL = {
    "criterion": "VARCHAR",
    "raw": "DOUBLE",
    "n": "BIGINT",
    "wins": "BIGINT",
    "losses": "BIGINT",
    "ties": "BIGINT",
    "passed": "BIGINT",
    "total": "BIGINT",
    "gate": "VARCHAR",
    "verdict": "BOOLEAN",
}
"""The columns of a criterion or a gate, as `assay batch` names them."""
HEAD = {
    "run_id": "VARCHAR",
    "sample": "VARCHAR",
    "attempt": "BIGINT",
    "group": "VARCHAR",
    "workflow": "VARCHAR",
    "version": "VARCHAR",
    "dataset": "VARCHAR",
    "dataset_version": "VARCHAR",
    "rubric": "VARCHAR",
    "judge": "VARCHAR",
    "policy": "VARCHAR",
    "stored_grade": "VARCHAR",
    "stored_passed": "BOOLEAN",
    "stored_score": "DECIMAL(5,2)",
    "record": "VARCHAR",
    "project": "VARCHAR",
    "profile": "VARCHAR",
    "day": "DATE",
}
"""The columns that every row of a grade repeats."""
COLUMNS = {
    "run": "VARCHAR",
    "cells": f"STRUCT({', '.join(f'{name} {kind}' for name, kind in CELL.items())})[]",
    **HEAD,
}
"""A grade as one line, before it is spread over its rows."""
ROWS = ", ".join(("run", "unnest(cells, max_depth := 2)", *(f'"{name}"' for name in HEAD)))
"""The SQL that spreads it over its rows."""

FORGOTTEN, GONE, UNREADABLE, INEXACT = (
    "forgotten in the ledger",
    "without content, and no tombstone records who removed it; run `assay ledger verify`",
    "not a grade that this version reads",
    "a raw score that no double or 64-bit integer has exactly",
)
"""Why a grade is left out."""
_COUNTS = (frozenset(("wins", "losses", "ties")), frozenset(("passed", "total")))
_LARGEST = 2**63 - 1
_VERDICTS = {"pass": True, "fail": False, "undetermined": None}


class _VersionedId(Struct):
    id: str
    version: str
    sample_id: str | None = None


class _StoredGate(Struct):
    status: str


class _Criterion(Struct):
    name: str
    raw_score: Any
    n: int
    source: Source | None = None


class _GradeNumbers(Struct):
    """The fields of a grade that are exported."""

    run_id: str
    grade: str
    passed: bool
    weighted_score: Decimal
    hard_gates: dict[str, _StoredGate]
    criteria: list[_Criterion]
    policy: str
    profile: str | None = None
    rubric: str | None = None
    workflow: _VersionedId | None = None
    dataset: _VersionedId | None = None
    sample_id: str | None = None
    group: str | None = None


class _NumberedRun(Struct):
    attempt: int | None = None


_numbered = msgspec.json.Decoder(_NumberedRun).decode
_read = msgspec.json.Decoder(_GradeNumbers, float_hook=Decimal).decode


class _LeftOut(Exception):
    """The reason why a grade has no rows."""


class ProjectExport(NamedTuple):
    """What was exported of a project."""

    grades: int
    rows: int
    left_out: dict[str, int]
    """How many grades have no rows, by the reason."""


def export_ledger(
    ledger: Ledger,
    folder: str,
    projects: list[str],
    progress: Callable[[int], None] = lambda _: None,
) -> dict[str, ProjectExport]:
    """Write every grade of these projects to a new folder of Parquet files."""
    load_duckdb()
    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise UsageError("FIL-008", "already exists.", where=folder, fix="Export to a new folder.")
    refuse_links_out(folder)
    parent, name = os.path.split(os.path.abspath(folder))
    make_folder(parent)
    try:
        with TemporaryDirectory(prefix=f".{name}.", suffix=".part", dir=parent) as scratch:
            lines, made = (os.path.join(scratch, part) for part in ("rows.jsonl", "made"))
            with open(lines, "wb") as stream:
                exports = {
                    project: _export_project(ledger, project, stream.write, progress)
                    for project in projects
                }
            os.mkdir(made)
            write_parquet(lines, COLUMNS, made, projection=ROWS, partitions=PARTITIONS)
            sync_tree(made)
            os.rename(made, folder)
            sync_folder_of(folder)
    except OSError as error:
        raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=folder) from None
    return exports


def _export_project(
    ledger: Ledger,
    project: str,
    write: Callable[[bytes], object],
    progress: Callable[[int], None],
) -> ProjectExport:
    """Write one line for each grade that a project has now."""
    head, _ = ledger.head(project=project)
    grades = rows = 0
    left_out: dict[str, int] = {}
    forgotten: set[str] = set()
    for item, runs in _graded(ledger, project, to=head):
        line = _line(item, runs)
        if line == FORGOTTEN and item.digest not in forgotten:
            stones = _items(ledger, "tombstone", project, to=head)
            forgotten = {stone.tree()["digest"] for stone in stones}
            line = FORGOTTEN if item.digest in forgotten else GONE
        if isinstance(line, str):
            left_out[line] = left_out.get(line, 0) + 1
        else:
            write(encode_row(line))
            grades += 1
            rows += len(line["cells"])
        progress(1)
    return ProjectExport(grades, rows, left_out)


def _items(ledger: Ledger, kind: str, project: str, *, to: int) -> Iterator[Item]:
    cursor: int | None = 0
    while cursor is not None:
        page = ledger.find(kind, project=project, after=cursor, limit=PAGE)
        for item in page.items:
            if item.seq > to:  # stored while the export runs
                return
            yield item
        cursor = page.next_cursor


def _graded(ledger: Ledger, project: str, *, to: int) -> Iterator[tuple[Item, list[Item]]]:
    """Each grade with its run; with several if they share their scorecard."""
    grades = _items(ledger, "grade", project, to=to)
    while items := [*islice(grades, PAGE)]:
        named = evidence_of(ledger.database, project, [item.digest for item in items])
        found = ledger.get_many({*chain.from_iterable(named.values())}, project=project)
        for item in items:
            evidence = [found[name] for name in named.get(item.digest, ()) if name in found]
            yield item, [item for item in evidence if item.kind == "run" and item.body is not None]


def _line(item: Item, runs: Iterable[Item]) -> dict[str, Any] | str:
    """A stored grade on one line of `COLUMNS`; or the reason why it is left out. A record that
    doesn't match its digest is refused. `runs`, if they are stored, have the number of the attempt.
    """
    if item.body is None:
        return FORGOTTEN
    body = item.checked()
    try:
        grade = _read(body)
        attempts = {_numbered(run.checked()).attempt for run in runs}
        cells = [
            *map(_criterion, grade.criteria),
            *(
                {"gate": name, "verdict": _VERDICTS[gate.status]}
                for name, gate in grade.hard_gates.items()
            ),
        ]
    except _LeftOut as error:
        return str(error)
    except (msgspec.MsgspecError, KeyError, ArithmeticError):
        return UNREADABLE
    workflow, dataset = grade.workflow, grade.dataset
    return {
        # the same run may be graded twice, and two projects may share an id: each grade is a run
        "run": f"{item.project}:{item.seq}",
        "cells": cells,
        "run_id": grade.run_id,
        "sample": (
            f"{dataset.id}/{dataset.sample_id}" if dataset else grade.sample_id or grade.run_id
        ),
        "attempt": attempts.pop() if len(attempts) == 1 else None,
        "group": grade.group,
        "workflow": workflow and workflow.id,
        "version": workflow and workflow.version,
        "dataset": dataset and dataset.id,
        "dataset_version": dataset and dataset.version,
        "rubric": grade.rubric,
        "judge": _judges(grade.criteria),
        "policy": grade.policy,
        "stored_grade": grade.grade,
        "stored_passed": grade.passed,
        "stored_score": grade.weighted_score,
        "record": item.digest,
        "project": item.project,
        "profile": grade.profile,
        "day": _day(item),
    }


def _judges(criteria: Iterable[_Criterion]) -> str | None:
    """The judges that gave scores; None if none did."""
    scored = (item for item in criteria if item.raw_score is not None)
    return " and ".join(sorted({judge_text(item.source) for item in scored} - {""})) or None


def _criterion(item: _Criterion) -> dict[str, Any]:
    raw = item.raw_score
    cell = {"criterion": item.name, "n": _whole(item.n)}
    if isinstance(raw, dict) and raw.keys() in _COUNTS:
        return {**cell, **{name: _whole(count) for name, count in raw.items()}}
    return {**cell, "raw": None if raw is None else _double(raw)}


def _double(raw: Any) -> float:
    """A raw score as the double whose shortest form it is."""
    if isinstance(raw, bool) or not isinstance(raw, int | Decimal):
        raise _LeftOut(UNREADABLE)
    try:
        double = float(raw)
    except OverflowError:
        raise _LeftOut(INEXACT) from None
    if Decimal(repr(double)) != raw:
        raise _LeftOut(INEXACT)
    return double


def _whole(count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int | Decimal) or count != int(count):
        raise _LeftOut(UNREADABLE)
    if not 0 <= count <= _LARGEST:
        raise _LeftOut(INEXACT)
    return int(count)


def _day(item: Item) -> str:
    """The day, in UTC, on which a record was stored."""
    try:
        return datetime.fromisoformat(item.created_at).date().isoformat()
    except (TypeError, ValueError):
        raise InputError(
            "STO-007",
            "the time at which this record was stored can't be read.",
            where=item.digest,
            fix="`assay ledger verify` lists what was changed.",
        ) from None
