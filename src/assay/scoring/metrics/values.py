"""Numbers in texts and outputs, compared exactly: whether two are close."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from assay import exact
from assay.exact import Ratio

_PLAIN = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"


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
