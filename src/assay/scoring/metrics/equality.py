"""Equality of JSON values, and a hashable key that is equal for equal values.

Numbers compare by value (1 equals 1.0), `true` is not a number, the order of an object's keys
doesn't count, texts compare character by character. A value that is not JSON (NaN, infinities,
nesting beyond the limit) equals nothing, not even itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import Any

from assay.records.plain import MAX_DEPTH

_NUMBERS = frozenset((int, float, Decimal))


def _number(value: Any) -> int | Decimal | None:
    """The number as it was written; None if it is not finite."""
    if type(value) is int:
        return value
    if type(value) is float:
        value = Decimal(repr(value))
    assert isinstance(value, Decimal)
    return value if value.is_finite() else None


def same(mine: Any, other: Any, *, depth: int = 0) -> bool:
    """Whether two JSON values are equal.

    >>> (
    ...     same({"a": 1, "b": [0.1]}, {"b": [Decimal("0.10")], "a": 1.0}),
    ...     same(True, 1),
    ...     same(float("nan"), float("nan")),
    ... )
    (True, False, False)
    """
    kind, against = type(mine), type(other)
    if kind is str or against is str:
        return bool(kind is against and mine == other)
    if kind in _NUMBERS:
        if against not in _NUMBERS:
            return False
        if kind is int and against is int:
            return bool(mine == other)
        left, right = _number(mine), _number(other)
        return left is not None and right is not None and left == right
    if depth > MAX_DEPTH:
        return False
    if kind is dict:
        if against is not dict or len(mine) != len(other):
            return False
        return all(
            name in other and same(value, other[name], depth=depth + 1)
            for name, value in mine.items()
        )
    if kind is list or kind is tuple:
        if (against is not list and against is not tuple) or len(mine) != len(other):
            return False
        return all(
            same(left, right, depth=depth + 1) for left, right in zip(mine, other, strict=True)
        )
    return mine is other and (mine is None or kind is bool)


def is_among(value: Any, listed: Iterable[Any]) -> bool:
    """Whether a value equals one of a list.

    >>> is_among(1, [True, 1.0]), is_among(1, [True])
    (True, False)
    """
    for other in listed:  # noqa: SIM110 (a generator would cost as much as the comparison)
        if same(value, other):
            return True
    return False


def key(value: Any, *, typed: bool = False, depth: int = 0) -> Hashable:
    """A hashable key: two keys are equal exactly if the values are the `same`; `typed` keeps 1 and
    1.0 apart.

    >>> key({"a": [1, {"b": None}]}) == key({"a": [1.0, {"b": None}]}), key(True) == key(1)
    (True, False)
    """
    kind = type(value)
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return (bool, value)
    if kind in _NUMBERS:
        number = _number(value)
        if number is None:
            return object()
        return (kind is int, number) if typed else number
    if depth > MAX_DEPTH:
        return object()
    if kind is dict:
        return (
            dict,
            frozenset(
                (name, key(item, typed=typed, depth=depth + 1)) for name, item in value.items()
            ),
        )
    if kind is list or kind is tuple:
        return (list, tuple(key(item, typed=typed, depth=depth + 1) for item in value))
    return object()
