"""Columns of answers and marks as texts, decimals and moments. A value of another type becomes
NULL, and the text column next to it keeps the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.batch.engine import SourceColumn
from assay.batch.layout import cell_of, mapped_columns
from assay.batch.quoting import identifier, text
from assay.errors import InputError
from assay.registry import near_miss

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
    columns: Sequence[SourceColumn],
    names: Mapping[str, str],
    *,
    required: Sequence[str],
    optional: Sequence[str],
) -> dict[str, SourceColumn]:
    """The columns of a source by what they mean. `names` says what the source calls one of them."""
    by_name = {column.name: column for column in columns}
    known = (*required, *optional)
    for role in names:
        if role not in known:
            raise InputError(
                "BAT-003",
                f"'{role}' is not a column that this batch reads.{near_miss(role, known)}",
                fix=f"It reads: {', '.join(known)}.",
            )
    by_role, mapped = {}, mapped_columns(known, names)
    for role in known:
        name = names.get(role, role)
        if role in mapped and name in by_name:
            by_role[role] = by_name[name]
        elif role in required or role in names:
            missing = f"is missing.{near_miss(name, list(by_name))}"
            why = missing if role in mapped else "is mapped to another name."
            raise InputError(
                "BAT-003",
                f"the column '{name}' {why}",
                fix=f"Found: {', '.join(by_name) or 'no columns'}. Name it with"
                f" `--map {role}=COLUMN`, or in Python with `columns={{'{role}': COLUMN}}`.",
            )
    for column in by_role.values():
        if cell_of(column).kind == "nested":
            raise _wrong_type(column, "a plain value")
    return by_role


def kept_columns(columns: Sequence[SourceColumn], keep: Sequence[str]) -> list[SourceColumn]:
    """The columns to carry through."""
    by_name = {column.name: column for column in columns}
    for name in keep:
        if name not in by_name:
            raise InputError(
                "BAT-003",
                f"there is no column '{name}' to keep.{near_miss(name, list(by_name))}",
                fix=f"Found: {', '.join(by_name)}.",
            )
        if cell_of(by_name[name]).kind == "nested":
            raise _wrong_type(by_name[name], "a plain value")
    return [by_name[name] for name in keep]


def unused_columns(
    columns: Sequence[SourceColumn], used: Mapping[str, SourceColumn], keep: Sequence[str]
) -> tuple[str, ...]:
    """The columns that are neither read nor kept."""
    known = {*keep, *(column.name for column in used.values())}
    return tuple(column.name for column in columns if column.name not in known)


def is_text(column: SourceColumn) -> bool:
    """Whether a column contains texts."""
    empty = column.type.strip('"') in ("NULL", "VOID")  # a column without any value
    return empty or column.type == "JSON" or cell_of(column).kind == "text"


def text_of(column: SourceColumn | None) -> str:
    """A column as text; NULL where the source has none."""
    return NO_TEXT if column is None else f"CAST({identifier(column.name)} AS VARCHAR)"


def decimal_of(column: SourceColumn) -> DecimalColumn:
    """A column as decimals. A DECIMAL is read as text: a double might pass for a shorter number."""
    kind = cell_of(column).kind
    if kind in ("whole", "long", "float"):
        return DecimalColumn(f"CAST({identifier(column.name)} AS DOUBLE)", "FALSE")
    if kind == "decimal" or is_text(column):
        written = text_of(column)
        short, number = _matches(written, _SHORT), _matches(written, _NUMBER)
        return DecimalColumn(
            f"CASE WHEN {short} THEN TRY_CAST({written} AS DOUBLE) END",
            f"COALESCE({number} AND NOT {short}, FALSE)",
        )
    raise _wrong_type(column, "a number")


def moment_of(column: SourceColumn | None) -> str:
    """A column as something that orders moments."""
    if column is None:
        return "CAST(NULL AS BIGINT)"
    if column.type.startswith(("TIMESTAMP", "DATE")) or cell_of(column).kind in ("whole", "long"):
        return identifier(column.name)
    if is_text(column):
        written = text_of(column)
        return f"CASE WHEN {_matches(written, _MOMENT)} THEN TRY_CAST({written} AS TIMESTAMPTZ) END"
    raise _wrong_type(column, "a time")


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


def _wrong_type(column: SourceColumn, expected: str) -> InputError:
    return InputError(
        "BAT-004",
        f"the column '{column.name}' has the type {column.type}; it must be {expected}.",
        fix="Convert it where the rows are made.",
    )
