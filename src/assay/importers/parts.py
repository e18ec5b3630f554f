"""Parts of another tool's file, each checked for its type: an error names the place, the expected
type and the actual value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeGuard, TypeVar

from assay.errors import InputError
from assay.files.inputs import open_input
from assay.importers.head import HEAD, Head
from assay.importers.samples import NUMBERS, is_immense

T = TypeVar("T")
_JUDGE_KEYS = {"model", "model_name", "judge_model", "prompt_version", "evaluator_version"}
"""What the metadata of a score calls the judge."""
NEAR = Fraction(1, 10**6)
_KINDS: dict[Any, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a whole number",
    bool: "true or false",
}


def shaped(value: Any, kind: type[T], what: str, where: str) -> T:
    """The value, if it is of this type; otherwise an error.

    >>> shaped([1], list, "`results`", "log.json")
    [1]
    """
    if type(value) is kind:  # a bool is not an int here
        return value
    raise InputError(
        "SCO-011",
        f"{what} must be {_KINDS[kind]}; here it is {_shown(value)}.",
        where=where,
        fix="The file is damaged, or another version of the tool wrote it.",
    )


def optional(value: Any, kind: type[T], what: str, where: str) -> T | None:
    """The value, if it is of this type; None if there is none."""
    return None if value is None else shaped(value, kind, what, where)


def name_of(value: Any, what: str, where: str) -> str:
    """An id or a name: a text that isn't blank, or a whole number.

    >>> name_of(7, "`doc_id`", "x"), name_of("a/1", "`id`", "x")
    ('7', 'a/1')
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**40:
        return str(value)
    text = shaped(value, str, what, where)
    if not text.strip():
        raise InputError("SCO-011", f"{what} is blank.", where=where)
    return text


def is_number(value: Any) -> TypeGuard[int | Decimal]:
    """Whether this can be a score."""
    return isinstance(value, NUMBERS)


def amount(value: Any, factor: int = 1) -> Decimal | int | None:
    """A time, a cost or a count of at least 0, times `factor`; None for anything else."""
    is_amount = is_number(value) and not isinstance(value, bool) and 0 <= value < 10**12
    return value * factor if is_amount else None


def sum_of(*counts: Any) -> int | None:
    """The sum of counts, of tokens say; None if one is missing."""
    known = [amount(count) for count in counts]
    return None if None in known else int(sum(count or 0 for count in known))


def keyed(value: Any, name: str) -> dict[str, Any] | None:
    """A value as an object: itself if it is one, or else under this name; None if there is none."""
    if value is None:
        return None
    return value if isinstance(value, dict) else {name: value}


def exact(value: int | Decimal, what: str, where: str) -> Fraction:
    """A number as a fraction. One with hundreds of digits is refused: it could exhaust memory."""
    if is_immense(value):
        raise InputError("SCO-011", f"{what} is out of range.", where=where)
    return Fraction(value)


def is_near(value: Fraction, other: Fraction) -> bool:
    """Whether two numbers are equal apart from float rounding."""
    return abs(value - other) <= NEAR * max(Fraction(1), abs(other))


def refused(message: str, where: str, fix: str) -> InputError:
    """The error for a file that contradicts itself."""
    return InputError("SCO-011", message, where=where, fix=fix)


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; empty for anything but a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def judge_checks(label: str, kind: str, metadata: Any) -> dict[str, int]:
    """What a comparison requires of a metric that a model scored: a judge, and each thing that the
    metadata of the score names it by. More in the candidate's metadata does no harm.

    >>> list(judge_checks("good", "LLM", {"model": "m-1", "prompt_version": 2, "seconds": 3}))
    ['good by LLM', 'good by LLM (model m-1)', 'good by LLM (prompt_version 2)']
    """
    stated = metadata if isinstance(metadata, dict) else {}
    judge = f"{label[:100]} by {kind}"
    named = (f"{judge} ({key} {str(stated[key])[:60]})" for key in sorted(_JUDGE_KEYS & {*stated}))
    return dict.fromkeys((judge, *named), 0)


def head_of(path: str) -> Head:
    """The beginning of a file."""
    with open_input(path) as stream:
        return Head(path, stream.read(HEAD))


def kinds_of(
    paths: Sequence[str], kind: Callable[[Head], str | None], refusal: str
) -> dict[str, str]:
    """What each file of an export contains, by its beginning; unknown files are refused."""
    kinds = {path: kind(head_of(path)) for path in paths}
    unknown = next((path for path, known in kinds.items() if known is None), None)
    if unknown is not None:
        raise InputError("FIL-006", refusal, where=unknown)
    return {path: str(known) for path, known in kinds.items()}


def file_stem(path: str) -> str:
    """The name of a file without folder and extension.

    >>> file_stem("logs/run 1.results.json")
    'run 1.results'
    """
    stem = re.sub(r"\.[A-Za-z0-9]{1,8}$", "", os.path.basename(path))
    return "stdin" if path == "-" else stem or "file"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return _KINDS[type(value)]
    return repr(value)[:60]
