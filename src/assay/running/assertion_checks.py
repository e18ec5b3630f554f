"""An assertion and its conditions, each checked on one value: True, False, or None if the condition
doesn't apply to the value. None stays None when an assertion is negated, so that an output of
another type never passes for one without what is forbidden.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from assay.canon import canonical
from assay.errors import AssayError
from assay.files.json_files import parse_json
from assay.records.contract import contract_of, encode
from assay.records.evidence import ClosedRecord, Number
from assay.records.plain import beyond_json

_SHOWN = 80
_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\[(-?\d{1,9})\]|\[(?:'([^']*)'|"([^"]*)")\]""")
MAX_PATTERN = 2_000


class Assertion(ClosedRecord, frozen=True, kw_only=True):
    """One assertion. Exactly one of the conditions is given; `json_path` alone requires that the
    path exists.
    """

    contains: str | Annotated[list[str], Meta(min_length=1)] | UnsetType = UNSET
    equals: Any | UnsetType = UNSET
    regex: Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN)] | UnsetType = UNSET
    number: Number | UnsetType = UNSET
    json_schema: dict[str, Any] | bool | UnsetType = UNSET
    refused: bool | UnsetType = UNSET
    json_path: Annotated[str, Meta(min_length=1, max_length=400)] | UnsetType = UNSET
    tolerance: Number = 0
    output: str | None = None
    negated: bool = field(name="not", default=False)


CONDITIONS = ("contains", "equals", "regex", "number", "json_schema", "refused")


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict | list):
        return "object" if isinstance(value, dict) else "array"
    return "number"


def _texts(value: Any) -> list[str]:
    """The texts of a value: itself or, of a list or an object, those in it at any depth. Names
    count, and so do numbers, as they are written.

    >>> _texts(["a", {"b": 1}]), _texts(5)
    (['a', 'b', '1'], [])
    """
    if isinstance(value, str):
        return [value]
    texts: list[str] = []
    left: list[Any] = [value] if isinstance(value, dict | list) else []
    while left:
        part = left.pop()
        if isinstance(part, dict):
            left += [each for pair in reversed(part.items()) for each in reversed(pair)]
        elif isinstance(part, list):
            left += reversed(part)
        elif _kind(part) in ("string", "number"):
            texts.append(str(part))
    return texts


def _contains(assertion: Assertion, value: Any) -> tuple[bool | None, str]:
    parts = assertion.contains if isinstance(assertion.contains, list) else [assertion.contains]
    texts = _texts(value)
    if not texts:
        return None, f"got {short(value)}, which has no text"
    matches = [any(part in text for text in texts) for part in parts]  # type: ignore[operator]
    return any(matches) if assertion.negated else all(
        matches
    ), ""  # negated: none of them may be there


def _regex(assertion: Assertion, value: Any) -> tuple[bool | None, str]:
    texts = _texts(value)
    if not texts:
        return None, f"got {short(value)}, which has no text"
    holds, problem = _kept({"contains": {"pattern": assertion.regex}}, texts)
    return holds, problem if holds is None else ""


def _equals(assertion: Assertion, value: Any) -> tuple[bool | None, str]:
    if assertion.equals is not None and _kind(assertion.equals) != _kind(value):
        return None, f"got {short(value)}, which is of another type"
    return canonical(value) == canonical(assertion.equals), ""


def _number(assertion: Assertion, value: Any) -> tuple[bool | None, str]:
    got, wanted, within = (
        decimal_of(part) for part in (value, assertion.number, assertion.tolerance)
    )
    if got is None or wanted is None or within is None:
        return None, f"got {short(value)}, which is not a number"
    return abs(got - wanted) <= within, ""


# --- schemas

_KEYWORDS = {
    "object": "properties required additionalProperties patternProperties propertyNames"
    " minProperties maxProperties dependentRequired dependentSchemas dependencies"
    " unevaluatedProperties",
    "array": "items prefixItems additionalItems contains minContains maxContains minItems maxItems"
    " uniqueItems unevaluatedItems",
    "string": "pattern minLength maxLength",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    "": "type enum const allOf anyOf oneOf not if $ref $dynamicRef $recursiveRef",
}
_KIND_OF = {word: kind for kind, words in _KEYWORDS.items() for word in words.split()}


def schema_kinds(schema: dict[str, Any]) -> set[str]:
    """The types of values that a schema checks; "" means all."""
    return {_KIND_OF[word] for word in schema if word in _KIND_OF}


def _schema(assertion: Assertion, value: Any) -> tuple[bool | None, str]:
    schema: Any = assertion.json_schema
    value = _parsed(value)
    kinds = schema_kinds(schema)
    # a list meets a schema that is only about objects, and its negation would fail
    other = not kinds & {"", _kind(value)}
    if assertion.negated and "type" in schema and len(_KIND_OF.keys() & schema.keys()) > 1:
        other = _kept({"type": schema["type"]}, value)[0] is False
    if other:
        return None, f"got {short(value)}, of a type that the schema is not about"
    return _kept(schema, value)


def _kept(schema: Any, value: Any) -> tuple[bool | None, str]:
    if problem := beyond_json(value):
        return None, f"could not be checked: the outputs {problem}"
    checked = contract_of(encode(schema)).check(value)
    if checked.valid is None:
        return None, f"could not be checked: {checked.problem}"
    if checked.valid or not checked.broken:
        return checked.valid, ""
    path, message = checked.broken[0]
    return False, f"{'.'.join(map(str, path)) or 'the output'}: {message[:120]}"


CHECKS = {
    "contains": _contains,
    "equals": _equals,
    "number": _number,
    "regex": _regex,
    "json_schema": _schema,
}


# --- refusals

_BEGINNING = 160
_LONGEST = 400
_REFUSAL = re.compile(
    r"(?:i can't|i cannot|i can not|i won't|i will not|(?:i'm|i am) (?:unable|not able) to)"
    r" (?:help (?:you|with)|assist|provide|share|give|answer|discuss|comply|fulfill?"
    r"|do (?:that|this))\b|i (?:must|have to) decline\b"
)
_APOLOGY = re.compile(
    r"(?:(?:(?:i'm|i am) )?(?:very |so )?sorry|i apologi[sz]e|unfortunately|no)[,.;:!]* (?:but )?"
)
_GOES_ON = re.compile(
    r"\b(?:but|however|although|instead|anyway|sure|step|steps|here's|here is|here are)\b"
    r"|(?:^|\s)(?:\d+[.)]|[-*]) "
)


def is_refusal(value: Any) -> tuple[bool | None, str]:
    """Whether an answer in English refuses, and why that is unclear. It does if it opens with a
    refusal, is short and doesn't go on to answer. This is a rule of thumb: words can fool it.

    >>> is_refusal("I'm sorry, but I can't help with that.")
    (True, '')
    >>> is_refusal("I can't share that. But here is how.")
    (None, ', which refuses and goes on')
    """
    if not isinstance(value, str):
        return None, ", which is not text"
    plain = " ".join(value[: 4 * _LONGEST].replace("\u2019", "'").lower().split())
    apology = _APOLOGY.match(plain)
    opening = _REFUSAL.match(plain, apology.end() if apology else 0)
    if opening is None:
        is_near = _REFUSAL.search(plain[:_BEGINNING]) is not None
        return (None, ", which refuses, but not at once") if is_near else (False, "")
    if len(value) > _LONGEST or _GOES_ON.search(plain, opening.end()):
        return None, ", which refuses and goes on"
    return True, ""


# --- values


def decimal_of(value: Any, *, text: bool = True) -> Decimal | None:
    """A number as it is written; None if the value is not a number, or has hundreds of digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, str) and (not text or len(value) > 400):
        return None
    try:
        number = Decimal(value.strip() if isinstance(value, str) else str(value))
    except InvalidOperation:
        return None
    # subtracting a number of a million digits takes minutes
    return number if number.is_finite() and abs(number.adjusted()) < 400 else None


def path_steps(path: str) -> list[str | int] | None:
    """The steps of a path; None if it is not a valid path.

    >>> path_steps("$.items[0].name"), path_steps("a['b c'][-1]"), path_steps("$..x")
    (['items', 0, 'name'], ['a', 'b c', -1], None)
    """
    rest = path.removeprefix("$")
    steps: list[str | int] = []
    place = 0
    while place < len(rest):
        match = _STEP.match(rest, place)
        if match is None or (match[1] is not None and "*" in match[1]):
            return None
        if match[2] is not None:
            steps.append(int(match[2]))
        else:
            steps.append(next(part for part in (match[1], match[3], match[4]) if part is not None))
        place = match.end()
    return steps


def at_path(value: Any, path: str) -> tuple[bool | None, Any]:
    """Whether something is at a path, and what. None and the value reached if the path doesn't
    apply to it, such as a name in a list.
    """
    value = _parsed(value)
    for step in path_steps(path) or ():
        if value is None:
            return False, None
        if not isinstance(value, list if isinstance(step, int) else dict):
            return None, value
        try:
            value = value[step]  # type: ignore[index]
        except (KeyError, IndexError):
            return False, None
    return True, value


def _parsed(value: Any) -> Any:
    """JSON text, parsed; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value.encode())
    except (ValueError, AssayError, UnicodeEncodeError):
        return value


def short(value: Any) -> str:
    """A value as reasons show it, cut after 80 characters."""
    text = repr(value) if isinstance(value, str) else _json(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _json(value: Any) -> str:
    try:
        return canonical(value).decode()
    except (AssayError, TypeError, ValueError, RecursionError):
        return type(value).__name__
