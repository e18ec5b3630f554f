"""Compare JSON values: where they differ, and whether two numbers are close. Numbers are compared
exactly.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NamedTuple

from assay import exact
from assay.exact import Ratio
from assay.files.json_files import Path, show_path

MAX_DIFFERENCES = 100
_PLAIN = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"


class JsonDifference(NamedTuple):
    """One place where two values differ."""

    path: str
    """Such as `items[2].name`; empty for the whole value."""
    kind: str
    """`missing`, `unexpected`, `kind` (another type) or `value`."""


def json_diff(actual: Any, expected: Any, *, limit: int = MAX_DIFFERENCES) -> list[JsonDifference]:
    """The paths that differ, in the order of the expected value; at most `limit` of them. Numbers
    compare by value, so that 1 equals 1.0; true is not a number.

    >>> [
    ...     tuple(difference)
    ...     for difference in json_diff({"a": [1, 2], "b": 1}, {"a": [1, 3], "c": None, "b": 1.0})
    ... ]
    [('a[1]', 'value'), ('c', 'missing')]
    """
    found: list[JsonDifference] = []
    todo: list[tuple[Path, Any, Any]] = [((), actual, expected)]
    while todo and len(found) < limit:
        path, left, right = todo.pop()
        if isinstance(right, dict) and isinstance(left, dict):
            found += [
                JsonDifference(show_path((*path, key)), "unexpected")
                for key in left
                if key not in right
            ]
            todo += [
                ((*path, key), left.get(key, ABSENT), value)
                for key, value in reversed(right.items())
            ]
        elif isinstance(right, list) and isinstance(left, list):
            found += [
                JsonDifference(show_path((*path, index)), "unexpected")
                for index in range(len(right), len(left))
            ][:limit]
            todo += [
                ((*path, index), left[index] if index < len(left) else ABSENT, right[index])
                for index in range(len(right) - 1, -1, -1)
            ]
        elif left is ABSENT:
            found.append(JsonDifference(show_path(path), "missing"))
        else:
            kind = _differ(left, right)
            if kind:
                found.append(JsonDifference(show_path(path), kind))
    return found[:limit]


ABSENT = object()
"""A value that is not there, which no expected value equals, not even null."""


def _differ(left: Any, right: Any) -> str:
    if exact.is_number(left) and exact.is_number(right):
        return "" if exact.ratio(left) == exact.ratio(right) else "value"
    if type(left) is not type(right):
        return "kind"
    return "" if left == right else "value"


def numeric(value: Any) -> Ratio | None:
    """The exact value of a number, or of a text that is only a plain number; None for anything
    else.

    >>> numeric(" 1.50 "), numeric("1,5"), numeric(True), numeric("1e999999999")
    (Ratio(num=3, den=2), None, None, None)
    """
    if isinstance(value, str):
        text = value.strip()
        if len(text) > exact.MAX_DIGITS or not re.fullmatch(_PLAIN, text, re.ASCII):
            return None
        value = Decimal(text)
    return exact.ratio(value) if exact.is_number(value) else None


def is_close(actual: Ratio, expected: Ratio, *, absolute: Any = 0, relative: Any = 0) -> bool:
    """Whether the two differ by no more than the wider tolerance; `relative` is a share of the
    expected value.

    >>> (
    ...     is_close(Ratio(1, 3), Ratio(33, 100), absolute=Decimal("0.01")),
    ...     is_close(Ratio(3, 1), Ratio(2, 1), relative=0.1),
    ... )
    (True, False)
    """
    allowed, share = exact.ratio(absolute), exact.ratio(relative)
    if allowed.num < 0 or share.num < 0:
        raise ValueError("a tolerance is below 0")
    apart = Ratio(
        abs(actual.num * expected.den - expected.num * actual.den), actual.den * expected.den
    )
    return (
        apart.num * allowed.den <= allowed.num * apart.den
        or apart.num * share.den * expected.den <= share.num * abs(expected.num) * apart.den
    )
