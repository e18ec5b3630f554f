"""The rows of a batch that were refused, each with its code and its reason."""

from __future__ import annotations

from assay.families.batch import row_faults as fault
from assay.families.batch.quoting import identifier, text
from assay.families.batch.source_rows import (
    IDENTIFIER,
    RowExpressions,
    cell_text,
    is_bad_verdict,
    raw_text,
)

_NONE = "CAST(NULL AS VARCHAR)"


def rejects_query(rows: RowExpressions) -> str:
    """One row for each entry that was refused: run, criterion, gate, raw as text, code, reason.

    If a run has something twice, each is listed, because nothing shows which one is right. All
    entries read `source`, so that DuckDB parses the text and the types of an input only once.
    """
    entries = [*_row_entries(rows), *_long_entries(rows), *_wide_entries(rows)]
    codes = " ".join(
        f"WHEN {fault_kind.number} THEN {text(fault_kind.code)}" for fault_kind in fault.ROW_FAULTS
    )
    reasons = " ".join(
        f"WHEN {fault_kind.number} THEN {text(fault_kind.reason)}"
        for fault_kind in fault.ROW_FAULTS
    )
    return (
        f"WITH source AS (SELECT * FROM {rows.view}),"
        f" entries AS ({' UNION ALL '.join(entries)}), counted AS (SELECT *,"
        f" COUNT(CASE WHEN number > {fault.UNKNOWN_CRITERION.number} THEN 1 END)"
        " OVER (PARTITION BY run, kind, criterion, gate) AS times FROM entries),"
        " refused AS (SELECT *, CASE WHEN number < -1 THEN number"
        f" WHEN times > 1 AND kind = 'scores' THEN {fault.WIDE_TWICE.number}"
        f" WHEN times > 1 THEN {fault.TWICE.number} END AS found FROM counted)"
        f" SELECT run, criterion, gate, raw, CASE found {codes} END AS code,"
        f" CASE found {reasons} END AS reason FROM refused WHERE NOT found IS NULL"
    )


def _entry(
    rows: RowExpressions,
    kind: str,
    number: str | int,
    where: str,
    *,
    criterion: str = _NONE,
    gate: str = _NONE,
    raw: str = _NONE,
) -> str:
    return (
        f"SELECT {rows.run} AS run, {text(kind)} AS kind, {criterion} AS criterion, {gate} AS gate,"
        f" {raw} AS raw, {number} AS number FROM source WHERE {where}"
    )


def _row_entries(rows: RowExpressions) -> list[str]:
    """What is wrong with whole rows."""
    no_run, stray = rows.no_run(rows.run), rows.stray()
    entries = [_entry(rows, "run", fault.NO_RUN.number, no_run)]
    if stray is not None:
        raw = rows.layout.score.raw
        shown = _NONE if raw is None else cell_text(raw)
        where = f"NOT {no_run} AND ({stray})"
        entries.append(_entry(rows, "row", fault.STRAY.number, where, raw=shown))
    for cell in rows.layout.keep:
        name = identifier(cell.name)
        entries.append(
            f"SELECT {rows.run} AS run, 'kept' AS kind, {_NONE} AS criterion, {_NONE} AS gate,"
            f" CAST(MIN({name}) AS VARCHAR) AS raw, {fault.TWO_VALUES.number} AS number"
            f" FROM source WHERE NOT {no_run} GROUP BY {rows.run}"
            f" HAVING MIN({name}) <> MAX({name})"
        )
    return entries


def _long_entries(rows: RowExpressions) -> list[str]:
    layout, entries = rows.layout, []
    valid = f"NOT {rows.no_run(rows.run)}"
    if layout.criterion is not None:
        name = identifier(layout.criterion.name)
        number = f"COALESCE({rows.long_code(name)}, {fault.UNKNOWN_CRITERION.number})"
        where = f"{valid} AND NOT {name} IS NULL"
        raw = raw_text(layout.score)
        entries.append(_entry(rows, "criterion", number, where, criterion=name, raw=raw))
    if layout.gate is not None and layout.verdict is not None:
        name = identifier(layout.gate.name)
        number = (
            f"CASE WHEN NOT REGEXP_MATCHES({name}, {text(IDENTIFIER)})"
            f" THEN {fault.BAD_GATE_NAME.number}"
            f" WHEN {is_bad_verdict(layout.verdict)} THEN {fault.BAD_VERDICT.number} ELSE 0 END"
        )
        raw = cell_text(layout.verdict)
        where = f"{valid} AND NOT {name} IS NULL"
        entries.append(_entry(rows, "gate", number, where, gate=name, raw=raw))
    return entries


def _wide_entries(rows: RowExpressions) -> list[str]:
    layout, entries = rows.layout, []
    valid = f"NOT {rows.no_run(rows.run)}"
    given = [rows.wide_given(index) for index in rows.wide]
    for index, is_given in zip(rows.wide, given, strict=True):
        name = rows.plan.criteria[index].name
        entries.append(
            _entry(
                rows,
                "criterion",
                rows.wide_code(index),
                f"{valid} AND {is_given}",
                criterion=text(name),
                raw=raw_text(layout.wide[name]),
            )
        )
    if given:
        entries.append(_entry(rows, "scores", 0, f"{valid} AND ({' OR '.join(given)})"))
    for gate, cell in layout.wide_gates.items():
        name = identifier(cell.name)
        where = f"{valid} AND NOT {name} IS NULL"
        raw = f"CAST({name} AS VARCHAR)"
        verdicts = _entry(rows, "gate", 0, where, gate=text(gate), raw=raw)
        # a verdict that rows repeat is one
        entries.append(f"SELECT DISTINCT * FROM ({verdicts}) AS verdicts")
        if cell.written:
            number, where = fault.BAD_VERDICT.number, f"{valid} AND {is_bad_verdict(cell)}"
            raw = cell_text(cell)
            entries.append(_entry(rows, "verdict", number, where, gate=text(gate), raw=raw))
    return entries
