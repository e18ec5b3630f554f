"""Assertions that a dataset row makes about the outputs: `contains`, `equals`, `regex`, `number`,
`json_schema`, `refused`, on a whole output or on what a `json_path` finds in it.

They belong to the dataset. The workflow never sees them, an unknown one is refused before anything
runs, and what they come to is one gate or one criterion of the run. Patterns and schemas are
checked within the budget of `records.contract`: one beyond it is undetermined, which fails closed.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, field

from assay.canon import canonical
from assay.errors import AssayError, EvidenceError, Fault
from assay.files.json_files import Document, parse_json
from assay.records.contract import contract_of, encode
from assay.records.evidence import Number
from assay.records.plain import beyond_json
from assay.records.reading import read_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIELD = "assert"
GATE = "assertions_hold"
CRITERION = "assertions"
MAX_ASSERTIONS = 100
MAX_PATTERN = 2_000
_SHOWN = 80
_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\[(-?\d{1,9})\]|\[(?:'([^']*)'|"([^"]*)")\]""")
REFUSALS = (
    "i can't help",
    "i cannot help",
    "i can't assist",
    "i cannot assist",
    "i can't provide",
    "i cannot provide",
    "i can't answer",
    "i cannot answer",
    "i can't do that",
    "i cannot do that",
    "i can't comply",
    "i cannot comply",
    "i won't help",
    "i will not help",
    "i'm not able to",
    "i am not able to",
    "i'm unable to",
    "i am unable to",
    "i must decline",
    "i have to decline",
    "i'm sorry, but i can",
    "i am sorry, but i can",
)
"""How an answer in English begins that refuses. A workflow with an output `refused` says it itself.
"""
_BEGINNING = 160
"""Characters of an answer in which it refuses: one that goes on to answer did not."""


class AssertionWeight(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Assertions as a criterion that is added to the profile with this weight."""

    weight: Number


AssertionTerms = Literal["gate", "criterion"] | AssertionWeight
"""What assertions become: the gate `assertions_hold`; the criterion `assertions` of the profile,
the share that hold; or that criterion, added with a weight.
"""


class Assertion(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """One assertion. Exactly one of the conditions is given; `json_path` alone asks that there is
    something.
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


class Held(NamedTuple):
    """Whether an assertion holds; None where that could not be determined. And what was found."""

    holds: bool | None
    reason: str


def read_assertions(
    row: Mapping[str, Any], *, outputs: Sequence[str], where: str, place: str
) -> tuple[Assertion, ...]:
    """The assertions of a row, checked. Raises `EvidenceError` with every fault."""
    given = row.get(FIELD)
    if isinstance(given, str) and given.strip():  # a cell of a table
        try:
            given = parse_json(given.encode())
        except ValueError as error:
            raise _fault(where, place, f"is not JSON: {error}.") from None
    if given is None or given == "":
        return ()
    listed = given if isinstance(given, list) else [given]
    if len(listed) > MAX_ASSERTIONS:
        raise _fault(where, place, f"has {len(listed)} entries; {MAX_ASSERTIONS} is the limit.")
    found: list[Assertion] = []
    faults: list[Fault] = []
    for index, tree in enumerate(listed):
        at = f"{FIELD}[{index}]"
        try:
            one = read_record(Document(tree, where), Assertion, "RUN-002")
            problem = _problem(one, outputs)
            found.append(one)
        except EvidenceError as error:
            problem = "; ".join(_words(fault) for fault in error.faults)
        if problem:
            faults.append(Fault(f"{place}: {at}: {problem}", code="RUN-002", file=where))
    if faults:
        raise EvidenceError("RUN-002", faults[0].message, where=where, faults=faults)
    return tuple(found)


def _words(fault: Fault) -> str:
    is_named = not fault.path or fault.message.startswith("unknown key")
    return fault.message if is_named else f"{fault.path}: {fault.message}"


def _fault(where: str, place: str, message: str) -> EvidenceError:
    text = f"{place}: {FIELD} {message}"
    return EvidenceError(
        "RUN-002", text, where=where, faults=[Fault(text, code="RUN-002", file=where)]
    )


def _problem(one: Assertion, outputs: Sequence[str]) -> str:
    """What is wrong with an assertion; nothing where it can be checked."""
    given = [name for name in CONDITIONS if getattr(one, name) is not UNSET]
    if len(given) > 1:
        return f"has {' and '.join(given)}; write one assertion for each."
    if not given and one.json_path is UNSET:
        return f"says nothing to check. Add one of {', '.join(CONDITIONS)}."
    if one.tolerance != 0 and one.number is UNSET:
        return "has a tolerance, which only `number` uses."
    for name in ("number", "tolerance"):
        value = getattr(one, name)
        if value is not UNSET and _decimal(value, text=False) is None:
            return f"{name} is {value!r}; it must be a number."
    if _decimal(one.tolerance, text=False) < 0:  # type: ignore[operator]
        return "the tolerance is below zero."
    if one.json_path is not UNSET and _steps(one.json_path) is None:
        return (
            f"json_path is {one.json_path!r}; write it as $.items[0].name, without wildcards or"
            " filters."
        )
    if one.refused is not UNSET and one.json_path is not UNSET:
        return "refused looks at a whole output; leave out json_path."
    if one.output is not None and outputs and one.output not in outputs:
        from assay.registry import near_miss

        return f"no output is named {one.output!r}.{near_miss(one.output, list(outputs))}"
    is_whole = one.json_path is not UNSET or one.json_schema is not UNSET
    if one.output is None and len(outputs) > 1 and not is_whole and one.refused is UNSET:
        return f"doesn't say which output. Add `output:`, one of {', '.join(outputs)}."
    if isinstance(one.json_schema, dict) and (problem := _schema_problem(one.json_schema)):
        return f"json_schema is not a usable JSON Schema: {problem}."
    if isinstance(one.regex, str) and (problem := _schema_problem({"pattern": one.regex})):
        return f"the regex {one.regex!r} can't be used: {problem}."
    return ""


def _schema_problem(schema: dict[str, Any]) -> str:
    try:
        return beyond_json(schema) or contract_of(encode(schema)).problem
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)[:160]


# --- checking


def check_assertion(one: Assertion, outputs: Mapping[str, Any]) -> Held:
    """Whether an assertion holds for these outputs.

    >>> check_assertion(Assertion(contains="nine"), {"answer": "At nine."}).holds
    True
    >>> check_assertion(Assertion(number=5, tolerance=1), {"answer": "6.5"})
    Held(holds=False, reason="number 5 within 1: got '6.5'")
    """
    found = _held(one, outputs)
    if one.negated:
        found = Held(None if found.holds is None else not found.holds, f"not {found.reason}")
    return found


def _held(one: Assertion, outputs: Mapping[str, Any]) -> Held:
    condition = next((name for name in CONDITIONS if getattr(one, name) is not UNSET), "json_path")
    wanted = getattr(one, condition)
    words = f"{condition} {_short(wanted)}"
    if condition == "number" and one.tolerance:
        words += f" within {one.tolerance}"
    if one.json_path is not UNSET and condition != "json_path":
        words += f" at {one.json_path}"
    if one.output is not None:
        if one.output not in outputs:
            # an output that is not there neither has nor lacks anything
            return Held(None, f"{words}: there is no output {one.output!r}")
        value: Any = outputs[one.output]
    else:
        value = next(iter(outputs.values())) if len(outputs) == 1 else dict(outputs)
    if condition == "refused":
        return Held(_is_refusal(value, outputs) is wanted, f"{words}: got {_short(value)}")
    if one.json_path is not UNSET:
        is_there, value = _at(value, one.json_path)
        if condition == "json_path":
            return Held(is_there, words if is_there else f"{words}: nothing is there")
        if not is_there:
            return Held(False, f"{words}: nothing is there")
    holds, problem = _CHECKS[condition](one, value)
    return Held(holds, words if holds else f"{words}: {problem or f'got {_short(value)}'}")


def _contains(one: Assertion, value: Any) -> tuple[bool | None, str]:
    parts = one.contains if isinstance(one.contains, list) else [one.contains]
    if isinstance(value, str | list):
        return all(part in value for part in parts), ""
    return False, f"got {_short(value)}, which is neither text nor a list"


def _equals(one: Assertion, value: Any) -> tuple[bool | None, str]:
    return canonical(value) == canonical(one.equals), ""


def _number(one: Assertion, value: Any) -> tuple[bool | None, str]:
    got, wanted, within = (_decimal(part) for part in (value, one.number, one.tolerance))
    if got is None or wanted is None or within is None:
        return False, f"got {_short(value)}, which is no number"
    return abs(got - wanted) <= within, ""


def _regex(one: Assertion, value: Any) -> tuple[bool | None, str]:
    if not isinstance(value, str):
        return False, f"got {_short(value)}, which is not text"
    return _kept({"pattern": one.regex}, value)


def _schema(one: Assertion, value: Any) -> tuple[bool | None, str]:
    return _kept(one.json_schema, _parsed(value))


def _kept(schema: Any, value: Any) -> tuple[bool | None, str]:
    if problem := beyond_json(value):
        return False, f"the output {problem}"
    checked = contract_of(encode(schema)).check(value)
    if checked.valid is None:
        return None, f"could not be checked: {checked.problem}"
    if checked.valid or not checked.broken or "pattern" in schema:
        return checked.valid, ""
    path, message = checked.broken[0]
    return False, f"{'.'.join(map(str, path)) or 'the output'}: {message[:120]}"


_CHECKS = {
    "contains": _contains,
    "equals": _equals,
    "number": _number,
    "regex": _regex,
    "json_schema": _schema,
}


def _is_refusal(value: Any, outputs: Mapping[str, Any]) -> bool:
    """Whether the workflow refused: as it says itself in an output `refused`, else by the words of
    its answer.
    """
    stated = outputs.get("refused")
    if isinstance(stated, bool):
        return stated
    texts = [value] if isinstance(value, str) else list(outputs.values())
    spoken = " ".join(text for text in texts if isinstance(text, str))
    plain = " ".join(spoken[: 4 * _BEGINNING].replace("\u2019", "'").lower().split())
    return any(words in plain[:_BEGINNING] for words in REFUSALS)


def _decimal(value: Any, *, text: bool = True) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, str) and (not text or len(value) > 400):
        return None
    try:
        found = Decimal(value.strip() if isinstance(value, str) else str(value))
    except InvalidOperation:
        return None
    # a number of a million digits is no answer, and takes minutes to subtract
    return found if found.is_finite() and abs(found.adjusted()) < 400 else None


def _steps(path: str) -> list[str | int] | None:
    """The steps of a path; None where it is none.

    >>> _steps("$.items[0].name"), _steps("a['b c'][-1]"), _steps("$..x")
    (['items', 0, 'name'], ['a', 'b c', -1], None)
    """
    rest = path.removeprefix("$")
    steps: list[str | int] = []
    place = 0
    while place < len(rest):
        found = _STEP.match(rest, place)
        if found is None or (found[1] is not None and "*" in found[1]):
            return None
        if found[2] is not None:
            steps.append(int(found[2]))
        else:
            steps.append(next(part for part in (found[1], found[3], found[4]) if part is not None))
        place = found.end()
    return steps


def _at(value: Any, path: str) -> tuple[bool, Any]:
    value = _parsed(value)
    for step in _steps(path) or ():
        try:
            if isinstance(step, int) is not isinstance(value, list):
                return False, None
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return False, None
    return True, value


def _parsed(value: Any) -> Any:
    """A text that holds JSON, as what it holds."""
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value.encode())
    except (ValueError, AssayError, UnicodeEncodeError):
        return value


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else _json(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _json(value: Any) -> str:
    try:
        return canonical(value).decode()
    except (AssayError, TypeError, ValueError, RecursionError):
        return type(value).__name__


# --- what they come to


def outcome(
    assertions: Sequence[Assertion], outputs: Mapping[str, Any] | None, *, status: str
) -> tuple[list[Held], str]:
    """Each assertion with whether it holds, and all of them in words."""
    if outputs is None:
        why = f"the run has no outputs (status {status})"
        return [Held(None, why) for _ in assertions], why
    found = [check_assertion(one, outputs) for one in assertions]
    held = sum(one.holds is True for one in found)
    broken = [one.reason for one in found if one.holds is not True]
    words = f"{held} of {len(found)} assertions hold"
    return found, words + (f"; failed: {'; '.join(broken[:3])}" if broken else "")
