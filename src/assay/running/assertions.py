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

from msgspec import UNSET

from assay.errors import EvidenceError, Fault, raise_faults
from assay.files.json_files import Document, parse_json
from assay.records.contract import contract_of, encode
from assay.records.evidence import ClosedRecord, Number
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


class AssertionWeight(ClosedRecord, frozen=True, kw_only=True):
    """Assertions as a criterion that is added to the profile with this weight."""

    weight: Number
    """The weight of the criterion."""


AssertionTerms = Literal["gate", "criterion"] | AssertionWeight
"""What assertions become: the gate `assertions_hold`; the criterion `assertions` of the profile,
the share that hold; or that criterion, added with a weight.
"""


class AssertionResult(NamedTuple):
    """Whether an assertion holds, None if that can't be determined; and the reason."""

    holds: bool | None
    reason: str


def read_assertions(
    row: Mapping[str, Any], *, outputs: Sequence[str], where: str, place: str
) -> tuple[Assertion, ...]:
    """The assertions of a row, checked. Raises `EvidenceError` with every fault."""
    stated = row.get(FIELD)
    if isinstance(stated, str) and stated.strip():  # a cell of a table
        try:
            stated = parse_json(stated.encode())
        except ValueError as error:
            raise _fault(where, place, f"is not JSON: {error}.") from None
    if stated is None or stated == "":
        return ()
    listed = stated if isinstance(stated, list) else [stated]
    if len(listed) > MAX_ASSERTIONS:
        raise _fault(where, place, f"has {len(listed)} entries; {MAX_ASSERTIONS} is the limit.")
    assertions: list[Assertion] = []
    faults: list[Fault] = []
    for index, tree in enumerate(listed):
        at = f"{FIELD}[{index}]"
        try:
            assertion = read_record(Document(tree, where), Assertion, "RUN-002")
            problem = _problem(assertion, outputs)
            assertions.append(assertion)
        except EvidenceError as error:
            problem = "; ".join(_words(fault) for fault in error.faults)
        if problem:
            faults.append(Fault(f"{place}: {at}: {problem}", code="RUN-002", file=where))
    raise_faults(faults, where=where, kind=EvidenceError)
    return tuple(assertions)


def _words(fault: Fault) -> str:
    is_named = not fault.path or fault.unknown_key
    return fault.message if is_named else f"{fault.path}: {fault.message}"


def _fault(where: str, place: str, message: str) -> EvidenceError:
    text = f"{place}: {FIELD} {message}"
    return EvidenceError(
        "RUN-002", text, where=where, faults=[Fault(text, code="RUN-002", file=where)]
    )


def _problem(assertion: Assertion, outputs: Sequence[str]) -> str:
    """What is wrong with an assertion; empty if it can be checked."""
    given = [name for name in CONDITIONS if getattr(assertion, name) is not UNSET]
    if len(given) > 1:
        return f"has {' and '.join(given)}; write one assertion for each."
    if not given and assertion.json_path is UNSET:
        return f"has no condition. Add one of {', '.join(CONDITIONS)}."
    if assertion.tolerance != 0 and assertion.number is UNSET:
        return "has a tolerance, which only `number` uses."
    for name in ("number", "tolerance"):
        value = getattr(assertion, name)
        if value is not UNSET and decimal_of(value, text=False) is None:
            return f"{name} is {value!r}; it must be a number."
    if decimal_of(assertion.tolerance, text=False) < 0:  # type: ignore[operator]
        return "the tolerance is below zero."
    if assertion.json_path is not UNSET and path_steps(assertion.json_path) is None:
        return (
            f"json_path is {assertion.json_path!r}; write it as $.items[0].name, without wildcards"
            " or filters."
        )
    if not given and assertion.json_path is not UNSET and not path_steps(assertion.json_path):
        return f"json_path {assertion.json_path!r} is the whole output, which is always there."
    if assertion.refused is not UNSET and assertion.json_path is not UNSET:
        return "refused looks at a whole output; leave out json_path."
    if assertion.output is not None and outputs and assertion.output not in outputs:
        from assay.registry import near_miss

        return (
            f"no output is named {assertion.output!r}.{near_miss(assertion.output, list(outputs))}"
        )
    is_whole = assertion.json_path is not UNSET or assertion.json_schema is not UNSET
    is_stated = assertion.refused is not UNSET and "refused" in outputs
    if assertion.output is None and len(outputs) > 1 and not is_whole and not is_stated:
        return f"doesn't say which output. Add `output:`, one of {', '.join(outputs)}."
    if isinstance(assertion.json_schema, dict) and (
        problem := _schema_problem(assertion.json_schema)
    ):
        return f"json_schema is not a usable JSON Schema: {problem}."
    if isinstance(assertion.regex, str) and (
        problem := _schema_problem({"pattern": assertion.regex})
    ):
        return f"the regex {assertion.regex!r} can't be used: {problem}."
    return _vacuous(assertion)


def _vacuous(assertion: Assertion) -> str:
    """Why an assertion checks nothing; empty if it checks something."""
    if "" in (assertion.contains if isinstance(assertion.contains, list) else [assertion.contains]):
        return "`contains` has an empty text, which every text contains."
    if isinstance(assertion.regex, str) and _is_in_all(assertion.regex):
        return f"the regex {assertion.regex!r} is found in every text. Add what must be there."
    if isinstance(assertion.json_schema, bool):
        return "json_schema is true or false, which says nothing about the output."
    if isinstance(assertion.json_schema, dict) and not schema_kinds(assertion.json_schema):
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
    assertion: Assertion, outputs: Mapping[str, Any], *, declared: Sequence[str] = ()
) -> AssertionResult:
    """Whether an assertion holds for these outputs of a workflow that declares some.

    >>> check_assertion(Assertion(contains="nine"), {"answer": "At nine."}).holds
    True
    >>> check_assertion(Assertion(number=5, tolerance=1), {"answer": "6.5"})
    AssertionResult(holds=False, reason="number 5 within 1: got '6.5'")
    >>> check_assertion(Assertion(number=5, negated=True), {"answer": "five"})
    AssertionResult(holds=None, reason="not number 5: got 'five', which is not a number")
    """
    result = _held(assertion, outputs, declared)
    if assertion.negated:
        result = AssertionResult(
            None if result.holds is None else not result.holds, f"not {result.reason}"
        )
    return result


def _held(
    assertion: Assertion, outputs: Mapping[str, Any], declared: Sequence[str]
) -> AssertionResult:
    condition = next(
        (name for name in CONDITIONS if getattr(assertion, name) is not UNSET), "json_path"
    )
    wanted = getattr(assertion, condition)
    words = f"{condition} {short(wanted)}"
    if condition == "number" and assertion.tolerance:
        words += f" within {assertion.tolerance}"
    if assertion.json_path is not UNSET and condition != "json_path":
        words += f" at {assertion.json_path}"
    if condition == "refused" and "refused" in declared:
        stated = outputs.get("refused")
        if not isinstance(stated, bool):
            return AssertionResult(None, f"{words}: the output 'refused' is neither true nor false")
        return AssertionResult(
            stated is wanted, f"{words}: the output 'refused' is {short(stated)}"
        )
    output = declared[0] if assertion.output is None and len(declared) == 1 else assertion.output
    if output is not None:
        if output not in outputs:
            # an output that is not there neither has nor lacks anything
            return AssertionResult(None, f"{words}: there is no output {output!r}")
        value: Any = outputs[output]
    elif declared or len(outputs) != 1:
        value = dict(outputs)
        if not declared and assertion.negated and condition not in ("contains", "regex"):
            return AssertionResult(
                None, f"{words}: of {len(outputs)} outputs none is declared; add `output:`"
            )
    else:
        value = next(iter(outputs.values()))
    if condition == "refused":
        refused, problem = is_refusal(value)
        holds = None if refused is None else refused is wanted
        return AssertionResult(holds, f"{words}: got {short(value)}{problem}")
    if assertion.json_path is not UNSET:
        is_there, value = at_path(value, assertion.json_path)
        if is_there is None:
            return AssertionResult(
                None, f"{words}: got {short(value)}, where the path doesn't apply"
            )
        if condition == "json_path":
            return AssertionResult(is_there, words if is_there else f"{words}: nothing is there")
        if not is_there:
            return AssertionResult(None, f"{words}: nothing is there")
    holds, problem = CHECKS[condition](assertion, value)
    return AssertionResult(
        holds, words if holds else f"{words}: {problem or f'got {short(value)}'}"
    )


# --- all assertions of a sample


def outcome(
    assertions: Sequence[Assertion],
    outputs: Mapping[str, Any] | None,
    *,
    status: str,
    declared: Sequence[str] = (),
) -> tuple[list[AssertionResult], str]:
    """The result of each assertion, and all of them in words."""
    if outputs is None:
        why = f"the run has no outputs (status {status})"
        return [AssertionResult(None, why) for _ in assertions], why
    results = [check_assertion(assertion, outputs, declared=declared) for assertion in assertions]
    held = sum(result.holds is True for result in results)
    words = f"{held} of {len(results)} assertions hold"
    for name, holds in (("failed", False), ("undetermined", None)):
        if reasons := [result.reason for result in results if result.holds is holds]:
            words += f"; {name}: {'; '.join(reasons[:3])}"
    return results, words
