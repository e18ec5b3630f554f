"""Assertions that a dataset row makes about the outputs: `contains`, `equals`, `regex`, `number`,
`json_schema`, `refused`, on a whole output or on what a `json_path` finds in it.

They belong to the dataset. The workflow never sees them, and their result is one gate or one
criterion of the run. An assertion that is unknown or that always holds is refused before anything
runs. One that doesn't apply to the output is undetermined, with `not` or without, so that an output
of another type never passes for one without what is forbidden; so is one that goes beyond the
budget of `records.contract`: undetermined fails closed. How values compare is in `scoring.checks`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import UNSET, Meta, UnsetType, field

from assay import exact
from assay.canon import canonical
from assay.errors import AssayError, EvidenceError, Fault, raise_faults
from assay.files.json_files import Document, parse_json
from assay.records.evidence import ClosedRecord, Number
from assay.records.reading import read_record
from assay.registry import near_miss
from assay.scoring.checks import (
    MAX_PATTERN,
    contract,
    found,
    is_close,
    keeps,
    number_of,
    pattern_problem,
    same,
    schema_problem,
)

FIELD = "assert"
GATE = "assertions_hold"
CRITERION = "assertions"
MAX_ASSERTIONS = 100
_SHOWN = 80
_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\[(-?\d{1,9})\]|\[(?:'([^']*)'|"([^"]*)")\]""")


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
        if value is not UNSET and not exact.is_number(value):
            return f"{name} is {value!r}; it must be a number."
    if not exact.is_amount(assertion.tolerance):
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
        return (
            f"no output is named {assertion.output!r}.{near_miss(assertion.output, list(outputs))}"
        )
    is_whole = assertion.json_path is not UNSET or assertion.json_schema is not UNSET
    is_stated = assertion.refused is not UNSET and "refused" in outputs
    if assertion.output is None and len(outputs) > 1 and not is_whole and not is_stated:
        return f"doesn't say which output. Add `output:`, one of {', '.join(outputs)}."
    if isinstance(assertion.json_schema, dict) and (
        problem := schema_problem(assertion.json_schema)
    ):
        return f"json_schema is not a usable JSON Schema: {problem}."
    if isinstance(assertion.regex, str) and (problem := pattern_problem(assertion.regex)):
        return f"the regex {assertion.regex!r} can't be used: {problem}."
    return _vacuous(assertion)


_ALL_KINDS = "".join(map(chr, range(32, 127))) + "\n\t\u00e9\u2603"
_PROBES = ["", "a", "Z", "0", "!", " ", "\n", "\u2603", _ALL_KINDS * 30]


def _vacuous(assertion: Assertion) -> str:
    """Why an assertion checks nothing; empty if it checks something."""
    if "" in (assertion.contains if isinstance(assertion.contains, list) else [assertion.contains]):
        return "`contains` has an empty text, which every text contains."
    regex = assertion.regex if isinstance(assertion.regex, str) else ""
    # a negative lookaround may be found in very different texts, and still check something
    is_negative = "(?!" in regex or "(?<!" in regex
    if regex and not is_negative and found(regex, _PROBES, in_all=True).holds:
        return f"the regex {assertion.regex!r} is found in every text. Add what must be there."
    if isinstance(assertion.json_schema, bool):
        return "json_schema is true or false, which says nothing about the output."
    if isinstance(assertion.json_schema, dict) and not schema_kinds(assertion.json_schema):
        return "json_schema has no keyword that checks anything, such as `type` or `required`."
    return ""


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
    condition = next(
        (name for name in CONDITIONS if getattr(assertion, name) is not UNSET), "json_path"
    )
    words = f"{condition} {short(getattr(assertion, condition))}"
    if condition == "number" and assertion.tolerance:
        words += f" within {assertion.tolerance}"
    if assertion.json_path is not UNSET and condition != "json_path":
        words += f" at {assertion.json_path}"
    holds, reason = _held(condition, assertion, outputs, declared)
    if reason:
        words += f": {reason}"
    if assertion.negated:
        return AssertionResult(None if holds is None else not holds, f"not {words}")
    return AssertionResult(holds, words)


def _held(
    condition: str, assertion: Assertion, outputs: Mapping[str, Any], declared: Sequence[str]
) -> AssertionResult:
    """Whether an assertion without its `not` holds, and what speaks against it."""
    if condition == "refused" and "refused" in declared:
        stated = outputs.get("refused")
        if not isinstance(stated, bool):
            return AssertionResult(None, "the output 'refused' is neither true nor false")
        return AssertionResult(
            stated is assertion.refused, f"the output 'refused' is {short(stated)}"
        )
    output = declared[0] if assertion.output is None and len(declared) == 1 else assertion.output
    if output is not None:
        if output not in outputs:
            # an output that is not there neither has nor lacks anything
            return AssertionResult(None, f"there is no output {output!r}")
        value: Any = outputs[output]
    elif declared or len(outputs) != 1:
        value = dict(outputs)
        if not declared and assertion.negated and condition not in ("contains", "regex"):
            return AssertionResult(
                None, f"of {len(outputs)} outputs none is declared; add `output:`"
            )
    else:
        value = next(iter(outputs.values()))
    if condition == "refused":
        refused, problem = is_refusal(value)
        holds = None if refused is None else refused is assertion.refused
        return AssertionResult(holds, f"got {short(value)}{problem}")
    if assertion.json_path is not UNSET:
        is_there, value = at_path(value, assertion.json_path)
        if is_there is None:
            return AssertionResult(None, f"got {short(value)}, where the path doesn't apply")
        if not is_there:
            is_bare = condition == "json_path"
            return AssertionResult(False if is_bare else None, "nothing is there")
    holds, reason = _met(condition, assertion, value)
    return AssertionResult(holds, "" if holds else reason or f"got {short(value)}")


# --- the conditions


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


def _met(condition: str, assertion: Assertion, value: Any) -> tuple[bool | None, str]:
    """Whether a value meets a condition, None if the condition doesn't apply to it; and the reason,
    where it is more than the value.
    """
    if condition == "json_path":
        return True, ""
    if condition == "equals":
        if assertion.equals is not None and _kind(assertion.equals) != _kind(value):
            return None, f"got {short(value)}, which is of another type"
        return same(value, assertion.equals), ""
    if condition == "number":
        number, wanted = number_of(value), number_of(assertion.number)
        if number is None or wanted is None:
            return None, f"got {short(value)}, which is not a number"
        return is_close(number, wanted, absolute=assertion.tolerance), ""
    if condition == "json_schema":
        schema: Any = assertion.json_schema
        value = _parsed(value)
        # a list meets a schema that is only about objects, and its negation would fail
        other = not schema_kinds(schema) & {"", _kind(value)}
        if assertion.negated and "type" in schema and len(_KIND_OF.keys() & schema.keys()) > 1:
            other = keeps(contract({"type": schema["type"]}), value).holds is False
        if other:
            return None, f"got {short(value)}, of a type that the schema is not about"
        return keeps(contract(schema), value)
    texts = _texts(value)
    if not texts:
        return None, f"got {short(value)}, which has no text"
    if condition == "regex":
        holds, reason = found(str(assertion.regex), texts)
        return holds, reason if holds is None else ""
    parts: Any = assertion.contains
    matches = [
        any(part in text for text in texts)
        for part in (parts if isinstance(parts, list) else [parts])
    ]
    # negated: none of them may be there
    return any(matches) if assertion.negated else all(matches), ""


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
    try:
        text = repr(value) if isinstance(value, str) else canonical(value).decode()
    except (AssayError, TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


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
