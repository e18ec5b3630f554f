"""Small checks on what a workflow says of itself: texts, numbers, errors. What a workflow returns
is hostile.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from assay.canon import canonical
from assay.errors import AssayError, EvidenceError
from assay.files.json_files import parse_json

MAX_TEXT = 2000
"""Signs of an error message that are kept."""


def text_of(value: Any, what: str) -> str:
    """A text that is one, or an error that names it."""
    if not isinstance(value, str) or not value:
        raise EvidenceError(
            "RUN-006",
            f"{what} is {type(value).__name__ if not isinstance(value, str) else 'empty'}; it is a"
            " text.",
        )
    return value


def exact_number(value: Any) -> Decimal:
    """A number as the decimal it was written in."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise EvidenceError(
            "RUN-006", f"a duration or cost is {type(value).__name__}; it is a number."
        )
    made = value if isinstance(value, Decimal) else Decimal(repr(value))
    if not made.is_finite() or made < 0:
        raise EvidenceError(
            "RUN-006", f"a duration or cost is {value}; it is a finite number from 0."
        )
    return made


def json_of(value: Any, what: str) -> Any:
    """A value as JSON has it, and a copy: what a workflow changes later does not change the
    evidence.
    """
    if value is None or isinstance(value, bool | int):
        return value
    try:
        return parse_json(canonical(value))
    except (AssayError, TypeError, ValueError, RecursionError) as error:
        raise EvidenceError(
            "RUN-006", f"{what} is something that JSON cannot say: {said(error)}."
        ) from None


def said(error: BaseException) -> str:
    """What an exception says, in one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:MAX_TEXT] if words else type(error).__name__
