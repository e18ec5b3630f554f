"""Assertions that a dataset row makes about the outputs: `contains`, `equals`, `regex`, `number`,
`json_schema`, `refused`, on a whole output or on what a `json_path` finds in it.

They belong to the dataset. The workflow never sees them, and their result is one gate or one
criterion of the run. An assertion that is unknown or that always holds is refused before anything
runs. One that doesn't apply to the output is undetermined, with `not` or without, and so is one
that goes beyond the budget of `records.contract`: undetermined fails closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, Struct

from assay.errors import EvidenceError, Fault
from assay.files.json_files import Document, parse_json
from assay.records.contract import contract_of, encode
from assay.records.evidence import Number
from assay.records.plain import beyond_json
from assay.records.reading import read_record
from assay.running.assertion_checks import (
    CHECKS,
    CONDITIONS,
    Assertion,
    at_path,
    decimal_of,
    is_refusal,
    path_steps,
    schema_kinds,
    short,
)

FIELD = "assert"
GATE = "assertions_hold"
CRITERION = "assertions"
MAX_ASSERTIONS = 100


class AssertionWeight(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """Assertions as a criterion that is added to the profile with this weight."""

    weight: Number
    """The weight of the criterion."""


AssertionTerms = Literal["gate", "criterion"] | AssertionWeight
"""What assertions become: the gate `assertions_hold`; the criterion `assertions` of the profile,
the share that hold; or that criterion, added with a weight.
"""


class Held(NamedTuple):
    """Whether an assertion holds; None if that could not be determined. And what was found."""

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
    """What is wrong with an assertion; nothing if it can be checked."""
    given = [name for name in CONDITIONS if getattr(one, name) is not UNSET]
    if len(given) > 1:
        return f"has {' and '.join(given)}; write one assertion for each."
    if not given and one.json_path is UNSET:
        return f"says nothing to check. Add one of {', '.join(CONDITIONS)}."
    if one.tolerance != 0 and one.number is UNSET:
        return "has a tolerance, which only `number` uses."
    for name in ("number", "tolerance"):
        value = getattr(one, name)
        if value is not UNSET and decimal_of(value, text=False) is None:
            return f"{name} is {value!r}; it must be a number."
    if decimal_of(one.tolerance, text=False) < 0:  # type: ignore[operator]
        return "the tolerance is below zero."
    if one.json_path is not UNSET and path_steps(one.json_path) is None:
        return (
            f"json_path is {one.json_path!r}; write it as $.items[0].name, without wildcards or"
            " filters."
        )
    if not given and one.json_path is not UNSET and not path_steps(one.json_path):
        return f"json_path {one.json_path!r} is the whole output, which is always there."
    if one.refused is not UNSET and one.json_path is not UNSET:
        return "refused looks at a whole output; leave out json_path."
    if one.output is not None and outputs and one.output not in outputs:
        from assay.registry import near_miss

        return f"no output is named {one.output!r}.{near_miss(one.output, list(outputs))}"
    is_whole = one.json_path is not UNSET or one.json_schema is not UNSET
    is_stated = one.refused is not UNSET and "refused" in outputs
    if one.output is None and len(outputs) > 1 and not is_whole and not is_stated:
        return f"doesn't say which output. Add `output:`, one of {', '.join(outputs)}."
    if isinstance(one.json_schema, dict) and (problem := _schema_problem(one.json_schema)):
        return f"json_schema is not a usable JSON Schema: {problem}."
    if isinstance(one.regex, str) and (problem := _schema_problem({"pattern": one.regex})):
        return f"the regex {one.regex!r} can't be used: {problem}."
    return _foregone(one)


def _foregone(one: Assertion) -> str:
    """Why an assertion holds whatever the output is; nothing if it checks something."""
    if "" in (one.contains if isinstance(one.contains, list) else [one.contains]):
        return "`contains` has an empty text, which every text contains."
    if isinstance(one.regex, str) and _is_in_all(one.regex):
        return f"the regex {one.regex!r} is found in every text. Add what must be there."
    if isinstance(one.json_schema, bool):
        return "json_schema is true or false, which says nothing about the output."
    if isinstance(one.json_schema, dict) and not schema_kinds(one.json_schema):
        return "json_schema has no keyword that checks anything, such as `type` or `required`."
    return ""


_ALL_KINDS = "".join(map(chr, range(32, 127))) + "\n\t\u00e9\u2603"
_PROBES = ["", "a", "Z", "0", "!", " ", "\n", "\u2603", _ALL_KINDS * 30]


def _is_in_all(pattern: str) -> bool:
    """Whether a pattern is found in each of some very different texts. One with a negative
    lookaround may be, and still check something.
    """
    if "(?!" in pattern or "(?<!" in pattern:
        return False
    return contract_of(encode({"items": {"pattern": pattern}})).check(_PROBES).valid is True


def _schema_problem(schema: dict[str, Any]) -> str:
    try:
        return beyond_json(schema) or contract_of(encode(schema)).problem
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)[:160]


# --- checking


def check_assertion(
    one: Assertion, outputs: Mapping[str, Any], *, declared: Sequence[str] = ()
) -> Held:
    """Whether an assertion holds for these outputs of a workflow that declares some.

    >>> check_assertion(Assertion(contains="nine"), {"answer": "At nine."}).holds
    True
    >>> check_assertion(Assertion(number=5, tolerance=1), {"answer": "6.5"})
    Held(holds=False, reason="number 5 within 1: got '6.5'")
    >>> check_assertion(Assertion(number=5, negated=True), {"answer": "five"})
    Held(holds=None, reason="not number 5: got 'five', which is not a number")
    """
    found = _held(one, outputs, declared)
    if one.negated:
        found = Held(None if found.holds is None else not found.holds, f"not {found.reason}")
    return found


def _held(one: Assertion, outputs: Mapping[str, Any], declared: Sequence[str]) -> Held:
    condition = next((name for name in CONDITIONS if getattr(one, name) is not UNSET), "json_path")
    wanted = getattr(one, condition)
    words = f"{condition} {short(wanted)}"
    if condition == "number" and one.tolerance:
        words += f" within {one.tolerance}"
    if one.json_path is not UNSET and condition != "json_path":
        words += f" at {one.json_path}"
    if condition == "refused" and "refused" in declared:
        stated = outputs.get("refused")
        if not isinstance(stated, bool):
            return Held(None, f"{words}: the output 'refused' is neither true nor false")
        return Held(stated is wanted, f"{words}: the output 'refused' is {short(stated)}")
    output = declared[0] if one.output is None and len(declared) == 1 else one.output
    if output is not None:
        if output not in outputs:
            # an output that is not there neither has nor lacks anything
            return Held(None, f"{words}: there is no output {output!r}")
        value: Any = outputs[output]
    elif declared or len(outputs) != 1:
        value = dict(outputs)
        if not declared and one.negated and condition not in ("contains", "regex"):
            return Held(None, f"{words}: of {len(outputs)} outputs none is declared; add `output:`")
    else:
        value = next(iter(outputs.values()))
    if condition == "refused":
        refused, problem = is_refusal(value)
        holds = None if refused is None else refused is wanted
        return Held(holds, f"{words}: got {short(value)}{problem}")
    if one.json_path is not UNSET:
        is_there, value = at_path(value, one.json_path)
        if is_there is None:
            return Held(None, f"{words}: got {short(value)}, where the path doesn't apply")
        if condition == "json_path":
            return Held(is_there, words if is_there else f"{words}: nothing is there")
        if not is_there:
            return Held(None, f"{words}: nothing is there")
    holds, problem = CHECKS[condition](one, value)
    return Held(holds, words if holds else f"{words}: {problem or f'got {short(value)}'}")


# --- what they come to


def outcome(
    assertions: Sequence[Assertion],
    outputs: Mapping[str, Any] | None,
    *,
    status: str,
    declared: Sequence[str] = (),
) -> tuple[list[Held], str]:
    """Each assertion with whether it holds, and all of them in words."""
    if outputs is None:
        why = f"the run has no outputs (status {status})"
        return [Held(None, why) for _ in assertions], why
    found = [check_assertion(one, outputs, declared=declared) for one in assertions]
    held = sum(one.holds is True for one in found)
    words = f"{held} of {len(found)} assertions hold"
    for name, holds in (("failed", False), ("undetermined", None)):
        if reasons := [one.reason for one in found if one.holds is holds]:
            words += f"; {name}: {'; '.join(reasons[:3])}"
    return found, words
