"""The totals of a batch, counted by the engine over the written output, with the same queries on
Parquet, where columns have types, and on CSV and JSON Lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from assay.errors import InputError
from assay.families.batch.engine import BatchEngine, ask
from assay.families.batch.quoting import identifier
from assay.families.batch.run_query import LIST_TYPES

INVALID = "invalid_evidence"
MOST_LISTS = 1000
"""The number of different lists that are read; rarer ones don't change which gates fail most."""
EXAMPLES = 3
_LISTS = ("failed_gates", "failed_floors", "missing")


class RejectCount(NamedTuple):
    """Rows that were rejected for one reason."""

    code: str
    reason: str
    n: int
    examples: tuple[str, ...]


class OutputTally(NamedTuple):
    """The counts of an output."""

    runs: int
    passed: int
    invalid: int
    faults: int
    """Entries that were rejected."""
    grades: dict[str, int]
    reasons: dict[str, int]
    """Runs that failed, by reason."""
    gates: dict[str, int]
    """Failed gates, the most frequent first."""
    floors: dict[str, int]
    missing: dict[str, int]
    """Criteria without a score."""
    rejects: tuple[RejectCount, ...]


def count_output(
    engine: BatchEngine, outputs: Sequence[str], rejects: Sequence[str]
) -> OutputTally:
    """Count what was written."""
    attached = engine.attach(list(outputs))
    view, names = identifier(attached), dict(engine.columns(attached))
    lists = {name: _named(engine, view, name, names[name]) for name in _LISTS if name in names}
    groups = ask(
        engine,
        "SELECT CAST(grade AS VARCHAR), CAST(reason AS VARCHAR), CAST(passed AS BOOLEAN),"
        f" COUNT(*), CAST(SUM(CAST(faults AS BIGINT)) AS BIGINT) FROM {view} GROUP BY 1, 2, 3",
    )
    grades, reasons = Counter[str](), Counter[str]()
    for grade, reason, holds, count, _ in groups:
        if grade is not None:
            grades[grade] += count
        if holds is not True:
            reasons[reason] += count
    return OutputTally(
        runs=sum(count for *_, count, _ in groups),
        passed=sum(count for *_, holds, count, _ in groups if holds is True),
        invalid=reasons[INVALID],
        faults=sum(int(faults or 0) for *_, faults in groups),
        grades=dict(sorted(grades.items())),
        reasons=_by_count(reasons),
        gates=lists.get("failed_gates", {}),
        floors=lists.get("failed_floors", {}),
        missing=lists.get("missing", {}),
        rejects=_rejected(engine, rejects),
    )


def count_rows(engine: BatchEngine, view: str) -> int:
    """The rows of a view."""
    return int(ask(engine, f"SELECT COUNT(*) FROM {identifier(view)}")[0][0])


def count_faults(engine: BatchEngine, outputs: Sequence[str]) -> int:
    """The entries that were rejected, by the grades alone."""
    view = identifier(engine.attach(list(outputs)))
    ((faults,),) = ask(engine, f"SELECT SUM(CAST(faults AS BIGINT)) FROM {view}")
    return int(faults or 0)


def find_split_runs(engine: BatchEngine, outputs: Sequence[str]) -> list[str]:
    """Some runs that an output has more than once."""
    view = identifier(engine.attach(list(outputs)))
    query = (
        f"SELECT CAST(run AS VARCHAR) FROM {view} WHERE NOT run IS NULL GROUP BY 1"
        f" HAVING COUNT(*) > 1 ORDER BY 1 LIMIT {EXAMPLES}"
    )
    return [row[0] for row in ask(engine, query)]


def _named(engine: BatchEngine, view: str, column: str, type: str) -> dict[str, int]:
    """How often each name is in a column of lists, most of which are empty."""
    given = f"ARRAY_LENGTH({column}) > 0" if type in LIST_TYPES else f"NOT {column} IS NULL"
    lists = ask(
        engine,
        f"SELECT {column}, COUNT(*) AS n FROM {view} WHERE {given}"
        f" GROUP BY {column} ORDER BY n DESC, {column} LIMIT {MOST_LISTS}",
    )
    counted = Counter[str]()
    try:
        for names, count in lists:
            for name in json.loads(names) if isinstance(names, str) else names:
                counted[str(name)] += count
    except (TypeError, ValueError):
        raise InputError("BAT-060", f"the column '{column}' has values other than names.") from None
    return _by_count(counted)


def _by_count(counted: Counter[str]) -> dict[str, int]:
    """The most frequent first, equal ones by name: an engine returns groups in any order."""
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _rejected(engine: BatchEngine, rejects: Sequence[str]) -> tuple[RejectCount, ...]:
    if not rejects:
        return ()
    view, shown = identifier(engine.attach(list(rejects))), "run, criterion, gate, raw"
    counts = ask(
        engine,
        f"SELECT code, reason, COUNT(*) AS n FROM {view} GROUP BY code, reason"
        " ORDER BY n DESC, code, reason",
    )
    examples: dict[tuple[str, str], list[str]] = {}
    listed = ask(
        engine,
        f"SELECT code, reason, {shown} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY code, reason"
        f" ORDER BY {shown}) AS place FROM {view}) AS numbered WHERE place <= {EXAMPLES}"
        " ORDER BY code, reason, place",
    )
    for code, reason, run, *subject, written in listed:
        parts = ["(no run)" if run is None else str(run)[:80]]
        parts += [str(value)[:80] for value in subject if value is not None]
        parts += [] if written is None else [f"= {str(written)[:40]}"]
        examples.setdefault((code, reason), []).append(" ".join(parts))
    return tuple(RejectCount(c, why, n, tuple(examples[c, why])) for c, why, n in counts)
