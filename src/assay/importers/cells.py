"""Cells of a table, whose types its format may have lost: in CSV everything is text.

A blank cell, `nan`, `null` and `None` mean that there is no value. Python programs write lists
and objects into CSV the way Python prints them; such text is read as data and never run.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from assay.errors import InputError
from assay.importers.samples import amount
from assay.importers.tally import ImportTally

INDEXES = frozenset({"", "index", "Unnamed: 0", "__index_level_0__"})
"""The columns in which pandas numbers its rows."""
MAX_STRUCTURE = 1024 * 1024
"""Characters of a cell that are looked into for a list or an object."""
LOOKED_AT = 500
"""Rows that are examined to recognise a column."""
_read_json = json.JSONDecoder(parse_float=Decimal).decode
_ABSENT = frozenset({"", "nan", "none", "null", "na", "n/a", "<na>", "nat"})
_TRUTHS = {"true": True, "false": False}
_VERDICTS = {
    **dict.fromkeys(("yes", "pass", "passed", "correct", "true"), 1),
    **dict.fromkeys(("no", "fail", "failed", "incorrect", "false"), 0),
}
"""Words that are clearly good or bad for any metric."""


def present(value: Any) -> Any:
    """The value of a cell; None if it means that there is no value.

    >>> present("NaN"), present(" "), present("no")
    (None, None, 'no')
    """
    if isinstance(value, str):
        return None if len(value) < 8 and value.strip().lower() in _ABSENT else value
    return value if value == value else None  # NaN equals nothing


def number_in(value: Any, what: str, where: str) -> Decimal | int | bool | None:
    """The number in a cell, or an error that names the value and its place."""
    try:
        return number_of(value)
    except ValueError:
        raise InputError(
            "SCO-011", f"{what} is {value!r:.60}, not a number.", where=where
        ) from None


def number_of(value: Any) -> Decimal | int | bool | None:
    """The number in a cell; None if there is none. Raises ValueError for anything else.

    >>> number_of("0.50"), number_of("True"), number_of(""), number_of(0.1)
    (Decimal('0.50'), True, None, Decimal('0.1'))
    """
    if value is None or isinstance(value, int):  # or a bool
        return value
    value = present(value)
    if value is None:
        return None
    if isinstance(value, float):
        value = repr(value)
    if isinstance(value, str):
        text = value.strip().lower()
        if text in _TRUTHS:
            return _TRUTHS[text]
        try:
            value = Decimal(text) if len(text) < 400 and "_" not in text else None
        except InvalidOperation:
            value = None
    if not isinstance(value, Decimal) or not value.is_finite():
        raise ValueError("not a number")
    return value


def verdict_of(value: Any) -> int | None:
    """The verdict in a word, 1 or 0; None for any other.

    >>> verdict_of(" Correct"), verdict_of("fail"), verdict_of("friendly"), verdict_of(1)
    (1, 0, None, None)
    """
    is_word = isinstance(value, str) and len(value) < 20
    return _VERDICTS.get(value.strip().lower()) if is_word else None


def score_of(value: Any) -> Decimal | int | bool | None:
    """The number in a cell, or 1 or 0 for a verdict in a word. Raises ValueError for anything else.

    >>> score_of("Pass"), score_of("incorrect"), score_of("0.5"), score_of("")
    (1, 0, Decimal('0.5'), None)
    """
    verdict = verdict_of(value)
    return number_of(value) if verdict is None else verdict


def structure_of(value: Any) -> Any:
    """The list or object that a text contains, as JSON or as Python prints it; any other value
    unchanged.

    >>> structure_of("['it''s', 2]"), structure_of('{"a": null}'), structure_of("[sic]")
    (['its', 2], {'a': None}, '[sic]')
    """
    value = present(value)
    if not isinstance(value, str) or len(value) > MAX_STRUCTURE:
        return value
    text = value.strip()
    if text[:1] not in ("[", "{") or text[-1:] not in ("]", "}"):
        return value
    try:
        if text[1:2] != "'":
            return _plain(_read_json(text))
    except (ValueError, RecursionError, InvalidOperation):
        pass
    try:
        return _plain(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return value


def first_of(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The value of the first of these columns that the row has."""
    return next((present(row[name]) for name in names if name in row), None)


def amount_of(value: Any, factor: int = 1) -> Decimal | int | None:
    """A time, a cost or a count of at least 0, times `factor`; None for anything else."""
    try:
        number = number_of(value)
    except ValueError:
        return None
    return amount(number, factor)


def _plain(value: Any) -> Any:
    """A literal as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if value != value or value in (1e999, -1e999) else Decimal(repr(value))
    return value if value is None or isinstance(value, str | int | Decimal) else str(value)


class MetricColumns:
    """The metric columns of a table: those whose first values are numbers, and those without any
    value there, because a metric that could not be computed still counts as missing.
    """

    def __init__(
        self,
        rows: Generator[Any, None, None],
        tally: ImportTally,
        *,
        other: Collection[str],
        is_metric: Callable[[str], object] = lambda column: False,
    ) -> None:
        """Examine the first `rows`. `other` are columns known to be something else; `is_metric`
        recognises a metric by its name, whatever its values are.
        """
        self._tally = tally
        self._known = frozenset(other) | INDEXES
        self._texts: set[str] = set()
        numbers: set[str] = set()
        for row in islice(rows, LOOKED_AT):
            for column, value in row.items() if isinstance(row, dict) else ():
                try:
                    if score_of(value) is not None:
                        numbers.add(column)
                except ValueError:
                    self._texts.add(column)
        rows.close()  # and the file with it, before it is read again
        self._texts -= numbers | {column for column in self._texts if is_metric(column)}
        self._passed_over = self._known | self._texts

    def number(self, column: str, value: Any) -> Decimal | int | bool | None:
        """The value of a metric; None for text among numbers, which is counted."""
        try:
            return score_of(value)
        except ValueError:
            self._tally.dropped[f"values of {column} that are not numbers"] += 1
            return None

    def scores(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of a row; None for one without a value."""
        passed_over = self._passed_over
        return {
            column: self.number(column, value)
            for column, value in row.items()
            if column not in passed_over
        }

    def is_text(self, column: str) -> bool:
        """Whether a column contains words instead of numbers."""
        return column in self._texts

    def texts(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The text columns of a row that are neither metrics nor known columns."""
        return {
            column: value
            for column, value in row.items()
            if column in self._texts and column not in self._known and present(value) is not None
        }
