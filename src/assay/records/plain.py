"""Find values that JSON can't represent, before a validator sees them."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Any

MAX_DEPTH = 200
"""The deepest nesting that is read."""


def beyond_json(value: Any) -> str:
    """Why a value is not JSON; empty if it is. A JSON Schema validator takes NaN for null, and
    unlimited nesting crashes it.

    >>> beyond_json({"a": [1.5, None]}), beyond_json([float("nan")])
    ('', 'contain NaN or an infinity, which is not JSON')
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for part in level:
            if isinstance(part, str | int):
                continue
            if isinstance(part, dict):
                below += part.values()
            elif isinstance(part, list | tuple):
                below += part
            elif (isinstance(part, float) and not isfinite(part)) or (
                isinstance(part, Decimal) and not part.is_finite()
            ):
                return "contain NaN or an infinity, which is not JSON"
        if not below:
            return ""
        level = below
    return f"nest more than {MAX_DEPTH} deep"
