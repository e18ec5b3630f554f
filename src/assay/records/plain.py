"""What JSON can say. Values come from strangers, and a validator must not see what is beyond it."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import Any

MAX_DEPTH = 200
"""As deep as JSON is read at all."""


def beyond_json(value: Any) -> str:
    """What a JSON Schema validator must not see, or nothing: it takes NaN for null, and nesting
    without end ends the process.

    >>> beyond_json({"a": [1.5, None]}), beyond_json([float("nan")])
    ('', 'contain NaN or an infinity, which is not JSON')
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for one in level:
            if isinstance(one, str | int):
                continue
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list | tuple):
                below += one
            elif (isinstance(one, float) and not isfinite(one)) or (
                isinstance(one, Decimal) and not one.is_finite()
            ):
                return "contain NaN or an infinity, which is not JSON"
        if not below:
            return ""
        level = below
    return f"nest more than {MAX_DEPTH} deep"
