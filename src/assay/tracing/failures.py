"""How a step or a run failed: its status, and its exception in one line, worded the same way
everywhere.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_ERROR = 2000
"""The longest error that is kept, in characters."""
_MAX_PRINTED = 20_000
_PRINTED = re.compile(r"""([A-Za-z_][\w.]*)\(((['"]).*\3)\)""", re.DOTALL)
"""An exception as Python prints it: its type, and its message as a literal."""


class CallFailed(Exception):  # caught by the runner and recorded in the run
    """A workflow returned no outputs. `again` is whether another try may help; `status` is the
    run's status otherwise.
    """

    def __init__(self, message: str, *, again: bool = True, status: str = "error") -> None:
        super().__init__(message)
        self.again = again
        self.status = status


def describe(error: BaseException) -> str:
    """An exception in one line.

    >>> describe(ValueError("no  luck")), describe(KeyError())
    ('ValueError: no luck', 'KeyError')
    """
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:MAX_ERROR] if words else type(error).__name__


def ending(error: Exception) -> tuple[str, str]:
    """The status of a call that raised, and why."""
    if isinstance(error, CallFailed):
        return error.status, str(error)
    return "error", describe(error)


def error_of(
    failed: bool,
    message: Any,
    events: Sequence[tuple[str, Mapping[str, Any]]],
    attributes: Mapping[str, Any],
) -> str | None:
    """The type and message of the error if the status is a failure or an exception left the span,
    else None.
    """
    exceptions = [more for name, more in events if name == "exception"]
    if not failed and not any(
        str(more.get("exception.escaped")).lower() == "true" for more in exceptions
    ):
        return None
    thrown: Mapping[str, Any] = exceptions[-1] if exceptions else {}
    kind = next(
        (
            text
            for text in (thrown.get("exception.type"), attributes.get("error.type"))
            if isinstance(text, str) and text.strip()
        ),
        "",
    )
    words, short = thrown.get("exception.message"), kind.rpartition(".")[2]
    if kind and isinstance(words, str) and words.strip():
        return (short if words in (short, f"{short}()") else f"{short}: {' '.join(words.split())}")[
            :MAX_ERROR
        ]
    stated = _unquoted(message) if isinstance(message, str) else ""
    if not stated or not kind or short in stated:
        return (stated or short or "the span's status is ERROR")[:MAX_ERROR]
    return f"{kind}: {stated}"[:MAX_ERROR]


def _unquoted(message: str) -> str:
    """A message without the traceback after it; the repr of an exception becomes its type and
    message.

    >>> (
    ...     _unquoted("TimeoutError('no answer')Traceback (most recent call last): ..."),
    ...     _unquoted("it broke"),
    ... )
    ('TimeoutError: no answer', 'it broke')
    """
    text = message.partition("Traceback (most recent call last)")[0].strip() or message.strip()
    printed = _PRINTED.fullmatch(text) if len(text) <= _MAX_PRINTED else None
    if printed is None:
        return text.removesuffix("()")
    try:
        words = ast.literal_eval(printed[2])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return (
        f"{printed[1].rpartition('.')[2]}: {' '.join(words.split())}"
        if isinstance(words, str)
        else text
    )


def failure(error: str) -> str:
    """The status for an error in a span, by the type of its exception: `cancelled` or `error`. Only
    the runner reports a timeout; spans don't.

    >>> [failure(x) for x in ("TimeoutError: 30 s", "CancelledError", "boom")]
    ['error', 'cancelled', 'error']
    """
    kind = error.lower().partition(":")[0]
    return "cancelled" if "cancelled" in kind or "canceled" in kind else "error"
