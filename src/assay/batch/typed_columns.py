"""Columns of answers and marks as texts, decimals and moments. A value of another type becomes
NULL, and the text column next to it keeps the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.batch.layout import Cell, ColumnFinder, wrong_type
from assay.batch.quoting import identifier, text

_NUMBER = "^-?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$"
_SHORT = "^-?[0-9]{1,9}([.][0-9]{1,6}0*)?$"
_MOMENT = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?"
    "(Z|[+-][0-9]{2}:[0-9]{2})$"
)
MAX_NAME = 500
"""The longest id of a subject or a sitting."""
NO_TEXT = "CAST(NULL AS VARCHAR)"


class DecimalColumn(NamedTuple):
    """A column of numbers as SQL: the value as a DOUBLE, NULL where it isn't a number or has more
    than six decimals, and whether it has.
    """

    value: str
    is_long: str


def find_columns(
    finder: ColumnFinder, *, required: Sequence[str], optional: Sequence[str]
) -> dict[str, Cell]:
    """The columns of a source by what they mean."""
    columns = {role: finder.needed(role) for role in required}
    return columns | {role: cell for role in optional if (cell := finder.role(role)) is not None}


def is_text(column: Cell) -> bool:
    """Whether a column contains texts."""
    empty = column.type.strip('"') in ("NULL", "VOID")  # a column without any value
    return empty or column.type == "JSON" or column.kind == "text"


def text_of(column: Cell | None) -> str:
    """A column as text; NULL where the source has none."""
    return NO_TEXT if column is None else f"CAST({identifier(column.name)} AS VARCHAR)"


def decimal_of(column: Cell) -> DecimalColumn:
    """A column as decimals. A DECIMAL is read as text: a double might pass for a shorter number."""
    name = identifier(column.name)
    if column.kind in ("whole", "long"):
        return DecimalColumn(f"CAST({name} AS DOUBLE)", "FALSE")
    if column.kind == "float":
        finite = f"{name} - {name} = 0"
        return DecimalColumn(f"CASE WHEN {finite} THEN CAST({name} AS DOUBLE) END", "FALSE")
    if column.kind == "decimal" or is_text(column):
        written = text_of(column)
        short, number = _matches(written, _SHORT), _matches(written, _NUMBER)
        return DecimalColumn(
            f"CASE WHEN {short} THEN TRY_CAST({written} AS DOUBLE) END",
            f"COALESCE({number} AND NOT {short}, FALSE)",
        )
    raise wrong_type(column, "a number")


def moment_of(column: Cell | None) -> str:
    """A column as something that orders moments."""
    if column is None:
        return "CAST(NULL AS BIGINT)"
    if column.type.startswith(("TIMESTAMP", "DATE")) or column.kind in ("whole", "long"):
        return identifier(column.name)
    if is_text(column):
        written = text_of(column)
        return f"CASE WHEN {_matches(written, _MOMENT)} THEN TRY_CAST({written} AS TIMESTAMPTZ) END"
    raise wrong_type(column, "a time")


def listed(parts: Iterable[str]) -> str:
    """Parts of a query, with commas between them."""
    return ", ".join(parts)


def lookup(value: str, rows: Mapping[str, object], otherwise: str = "NULL") -> str:
    """A CASE over the values of an expression."""
    whens = " ".join(f"WHEN {key} THEN {made}" for key, made in rows.items())
    return f"CASE {value} {whens} ELSE {otherwise} END"


def no_id(column: str) -> str:
    """Whether a row has no id to group it by, or one that is too long."""
    return f"({column} IS NULL OR {column} = '' OR LENGTH({column}) > {MAX_NAME})"


def _matches(written: str, pattern: str) -> str:
    # in Java's patterns, which Spark uses, `$` also matches before a line break at the end
    return f"(REGEXP_MATCHES({written}, {text(pattern)}) AND NOT CONTAINS({written}, CHR(10)))"
