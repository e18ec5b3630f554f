"""The hard gates: conditions on evidence that no score can outweigh.

A gate passes, fails or is undetermined, each with a reason; grading treats undetermined as failed.
There are two kinds: a *computed* gate reads evidence in the run, and a verdict that comes with the
run can only worsen its result; a *verdict* gate takes the run's verdict as its evidence. So leaving
evidence out never opens a gate. No gate has a weight.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import category, normalize

from assay import exact
from assay.files.json_files import parse_json
from assay.records.evidence import Run, Verdict
from assay.registry import Registry
from assay.scoring.metrics.citations import cited_ids, is_cited, is_supported, sourced
from assay.scoring.metrics.measure import Undetermined, fields_text, some_tests


class GateResult(NamedTuple):
    """Whether a gate passed, None for undetermined, and why."""

    passed: bool | None
    reason: str


ABSENT = {
    "forbidden_tools": "the run has no list of `forbidden_tools` (an empty list means none)",
    "handoff_rules": "the run has no `handoff_rules`",
    "handoffs": "the run has no list of `handoffs` (an empty list means there were none)",
    "output_schema": "the run has no `output_schema` (an empty one accepts everything)",
    "outputs": "the run has no `outputs`",
    "patch_applies": "the run doesn't state whether its patch applies (`patch_applies`)",
    "required_inputs": "the run has no list of `required_inputs` (an empty list means none)",
    "required_outputs": "the run has no list of `required_outputs` (an empty list means none)",
    "steps": "the run has no list of `steps` (an empty list means there were none)",
    "tool_calls": "the run has no list of `tool_calls` (an empty list means there were none)",
}
"""Why a gate is undetermined, by the field that the run lacks."""

_GUIDE = "Workflow Scoring & Evaluation Reference Guide, sections 3 and 6"


class Gate(NamedTuple):
    """A hard gate with its data sheet."""

    id: str
    title: str
    group: str
    """`required` (every run), `optional` (if a profile or a run names it) or `profile`."""
    evidence: tuple[tuple[str, ...], ...]
    """The fields it reads; none for a verdict gate."""
    rule: Callable[[Run, Mapping[str, Any]], GateResult] | None
    """None for a verdict gate. It may raise `Undetermined`."""
    needs: tuple[str, ...] = ()
    """Fields of the run without which there is no evidence."""
    params: Mapping[str, Any] = {}
    source: str = _GUIDE

    @property
    def is_computed(self) -> bool:
        """Whether it reads evidence, unlike a verdict gate."""
        return self.rule is not None

    def check(self, run: Run, params: Mapping[str, Any]) -> GateResult:
        """The result for the evidence of a run; undetermined if it is missing."""
        assert self.rule is not None
        try:
            for name in self.needs:
                if getattr(run, name) is None:
                    raise Undetermined(ABSENT.get(name, f"the run has no `{name}`"))
            return self.rule(run, params)
        except Undetermined as error:
            return GateResult(None, f"no evidence: {error.reason}")

    def sheet(self) -> dict[str, Any]:
        """The data sheet, as `assay library show gate ID` prints it."""
        example = EXAMPLES.get(self.id)
        return {
            "id": self.id,
            "title": self.title,
            "group": self.group,
            "kind": "computed" if self.is_computed else "verdict",
            "evidence": fields_text(self.evidence) or "a verdict that comes with the run (`gates`)",
            "params": dict(self.params),
            # a plugin's gate, whose name has a dot, is not from the guide
            "source": "a plugin" if "." in self.id and self.source == _GUIDE else self.source,
            "example": None if example is None else example._asdict(),
        }


# --- the rules of the computed gates
#
# A rule may raise `Undetermined`. The fields that its gate `needs` are present when it runs.

_TEMPLATE = re.compile(
    r"(?:\s*(?:\$\{[^}]*\}|\{\{(?:(?!\}\}).)*\}\}|\{%(?:(?!%\}).)*%\}))+\s*", re.DOTALL
)
_UNSEEN = ("Cc", "Cf", "Mn", "Zl", "Zp", "Zs")
_BLANKS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and a symbol that are drawn as nothing: Hangul fillers and the blank of Braille."""
_REASON = 300
"""The longest stated reason that a gate repeats, in characters."""


def is_absent(value: Any) -> bool:
    r"""Whether a value is empty: null, a text without a visible character, an empty list or object,
    an unresolved template, or a list of only such values.

    >>> texts = ("\u200b ", "\u3164\ufe0f", "${steps.plan.output}", "{{ answer }}")
    >>> [is_absent(x) for x in (None, [], [None], *texts)]
    [True, True, True, True, True, True, True]
    >>> [is_absent(x) for x in (0, False, "a {{b}} c")]
    [False, False, False]
    """
    if isinstance(value, str):
        first = value[:1]
        if first.isascii() and first.isalnum():
            return False  # what most texts begin with: no template does, and everybody sees it
        unseen = all(category(s) in _UNSEEN or s in _BLANKS for s in value)
        return unseen or bool(_TEMPLATE.fullmatch(value))
    if isinstance(value, list):
        return all(map(is_absent, value))
    return value is None or value == {}


def resolve(name: str, values: Mapping[str, Any]) -> Any:
    """The value of a name, or of a dotted path into nested objects; None if there is none."""
    if name in values:
        return values[name]
    value: Any = values
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def required_outputs(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether every required output is present."""
    outputs = run.outputs or {}
    absent = [name for name in run.required_outputs or () if is_absent(resolve(name, outputs))]
    if absent:
        return GateResult(
            False, f"required output absent, empty or an unresolved template: {', '.join(absent)}"
        )
    return GateResult(True, "every required output is present")


def status(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether the run succeeded, with the run's reason if it did not."""
    ended = f"the run ended with status '{run.status}'"
    if cause := _cause(run):
        ended += f": {cause}"
    return GateResult(run.status == "success", ended)


def _cause(run: Run) -> str:
    """Why a run did not succeed, as it states it; empty if it succeeded or states nothing."""
    if run.status == "success":
        return ""
    why = (run.metadata or {}).get("reason")
    if not isinstance(why, str):
        return ""
    return " ".join(why.split())[:_REASON]


def ended_by(run: Run) -> str | None:
    """What ended a run that did not succeed, with its status unless the cause begins with it; None
    if the run doesn't state it.
    """
    cause = _cause(run)
    if not cause:
        return None
    names_status = cause.lower().startswith(("skipped", run.status, "error"))
    return cause if names_status else f"{run.status}: {cause}"


def critical_steps(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether no critical step failed; a skipped one is undetermined."""
    critical = [step for step in run.steps or () if step.critical and step.status != "success"]
    failed = [f"{step.name} ({step.status})" for step in critical if step.status != "skipped"]
    if failed:
        return GateResult(False, f"critical step failed: {', '.join(failed)}")
    if critical:
        return GateResult(
            None,
            f"critical step skipped: {', '.join(step.name for step in critical)}; mark a step"
            " that may be skipped with `critical: false`",
        )
    return GateResult(True, "no critical step failed")


def schema_contract(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether the outputs keep their JSON Schema."""
    # imported late: the validator takes as long to load as all the rest, and many runs need none
    from assay.records.contract import check

    assert run.output_schema is not None
    assert run.outputs is not None
    return GateResult(*check(run.output_schema, run.outputs))


def compatible(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether the sample has every required input."""
    inputs = run.inputs or {}
    absent = {name for name in run.required_inputs or () if is_absent(resolve(name, inputs))}
    if absent:
        return GateResult(False, "; ".join(f"missing: {name}" for name in sorted(absent)))
    return GateResult(True, "the sample gives every required input")


@lru_cache(maxsize=64, typed=True)
def _minimum(value: Any) -> exact.Ratio:
    return exact.ratio(value)


def _all(n: int, singular: str, plural: str) -> str:
    """All of n things, in words.

    >>> _all(1, "claim cites", "claims cite"), _all(3, "claim cites", "claims cite")
    ('the only claim cites', 'all 3 claims cite')
    """
    return f"the only {singular}" if n == 1 else f"all {n} {plural}"


def fail_to_pass(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether every broken test passes now."""
    tally = some_tests(run, "fail_to_pass")
    if tally.passed == tally.total:
        return GateResult(
            True, _all(tally.total, "fail-to-pass test passes", "fail-to-pass tests pass")
        )
    return GateResult(
        False, f"{tally.total - tally.passed} of {tally.total} fail-to-pass tests still fail"
    )


def pass_to_pass(run: Run, params: Mapping[str, Any]) -> GateResult:
    """Whether enough of the tests that passed still pass."""
    tally = some_tests(run, "pass_to_pass")
    minimum = _minimum(params["minimum"])
    holds = tally.passed * minimum.den >= minimum.num * tally.total
    return GateResult(
        holds,
        f"{tally.passed} of {tally.total} pass-to-pass tests pass;"
        f" {'at least' if holds else 'the gate needs'} {params['minimum']} of them",
    )


def patch(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether the patch applies."""
    return GateResult(
        run.patch_applies,
        "the patch applies cleanly" if run.patch_applies else "the patch does not apply",
    )


_STRUCTURED: dict[str, Any] = {
    "object": dict,
    "array": list,
    "number": (int, Decimal),
    "integer": int,
    "boolean": bool,
}


def _parses(text: str, kinds: list[str]) -> bool:
    """Whether a text is JSON of one of these types. True is not a number."""
    try:
        value = parse_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _STRUCTURED[kind]) for kind in kinds)


def parseable(run: Run, params: Mapping[str, Any]) -> GateResult:
    """Whether required outputs are present and parse to their declared types."""
    present = required_outputs(run, params)
    if present.passed is not True:
        return present
    if not isinstance(run.output_schema, dict):
        raise Undetermined("the run has no `output_schema` with the types of its outputs")
    declared = run.output_schema.get("properties")
    bad = []
    for name in run.required_outputs or ():
        value = resolve(name, run.outputs or {})
        kinds = _declared_types(declared, name)
        if isinstance(value, str) and kinds and not _parses(value, kinds):
            bad.append(f"{name} (should parse to {' or '.join(kinds)})")
    if bad:
        return GateResult(False, f"output is text that does not parse: {', '.join(bad)}")
    return GateResult(True, "every required output is present and parses")


def _declared_types(properties: Any, name: str) -> list[str]:
    """The structured types that a schema declares for an output; none if it may be a text."""
    declared = properties.get(name) if isinstance(properties, dict) else None
    types = declared.get("type") if isinstance(declared, dict) else None
    kinds = types if isinstance(types, list) else [types]
    return (
        [kind for kind in kinds if isinstance(kind, str) and kind in _STRUCTURED]
        if "string" not in kinds
        else []
    )


def grounded(run: Run, params: Mapping[str, Any]) -> GateResult:
    """Whether enough claims are supported by the retrieved context."""
    claims, citable = sourced(run)
    supported = sum(is_supported(claim, citable) is True for claim in claims)
    unjudged = sum(claim.supported is None for claim in claims)
    unsourced = sum(claim.supported is True for claim in claims) - supported
    minimum, total = _minimum(params["minimum"]), len(claims)
    if supported * minimum.den >= minimum.num * total:
        return GateResult(
            True, f"{supported} of {total} claims are supported by the retrieved context"
        )
    if (supported + unjudged) * minimum.den >= minimum.num * total:
        return GateResult(
            None, f"{unjudged} of {total} claims were not judged (`supported` is null)"
        )
    needed = "every claim" if minimum.num == minimum.den else f"a share of {params['minimum']}"
    faults = {
        "are not supported by the retrieved context": total - supported - unjudged - unsourced,
        "cite no retrieved passage": unsourced,
    }
    return GateResult(
        False,
        f"{'; '.join(f'{count} of {total} claims {fault}' for fault, count in faults.items() if count)};"  # noqa: E501
        f" {needed} must be supported",
    )


def cited(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether every claim cites a retrieved passage."""
    claims, citable = sourced(run)
    bare = [claim for claim in claims if not is_cited(claim, citable)]
    if bare:
        cites = ", ".join(map(_quote, cited_ids(bare[0])[:3]))
        first = f"{_quote(bare[0].text)} {f'cites {cites}' if cites else 'cites nothing'}"
        return GateResult(
            False,
            f"{len(bare)} of {len(claims)} claims cite no retrieved passage that has text, first:"
            f" {first}",
        )
    return GateResult(
        True, _all(len(claims), "claim cites", "claims cite") + " a retrieved passage"
    )


_SEVERE = ("high", "critical")


def hallucination(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether no unsupported claim is severe."""
    claims, citable = sourced(run)
    severe = [claim for claim in claims if claim.supported is False and claim.severity in _SEVERE]
    if severe:
        return GateResult(
            False,
            f"unsupported claims of high severity: {len(severe)}, first {_quote(severe[0].text)}",
        )
    unknown = [
        claim
        for claim in claims
        if (verdict := is_supported(claim, citable)) is not True
        and (claim.severity is None or (verdict is None and claim.severity in _SEVERE))
    ]
    if unknown:
        return GateResult(
            None,
            "claims without `supported`, `severity` or a retrieved passage that they cite:"
            f" {len(unknown)}, first {_quote(unknown[0].text)}",
        )
    return GateResult(True, "no unsupported claim of high severity")


def contradiction(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether every claim keeps to the numbers and denials of the passages it cites."""
    # imported late: it takes a while to load, and only profiles without a judge need it
    from assay.scoring.metrics.grounding import lexical_support

    claims, _ = sourced(run)
    # any share of the words is enough: a paraphrase contradicts nothing
    read = zip(claims, lexical_support(run, threshold=0), strict=True)
    broken = [(claim, support) for claim, support in read if support.is_contradicted]
    if broken:
        claim, support = broken[0]
        return GateResult(
            False,
            f"{len(broken)} of {len(claims)} claims contradict the passages they cite, first:"
            f" {_quote(claim.text)} ({support.fault})",
        )
    return GateResult(True, "no claim contradicts the passages it cites")


def tool_calls_valid(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether every tool call keeps its schema."""
    calls = run.tool_calls or []
    bad = [call.name for call in calls if call.valid is False]
    if bad:
        return GateResult(
            False,
            f"{len(bad)} of {len(calls)} tool calls break their schema, first: {_quote(bad[0])}",
        )
    unchecked = [call.name for call in calls if call.valid is None]
    if unchecked:
        return GateResult(
            None,
            f"{len(unchecked)} of {len(calls)} tool calls were not checked (`valid` is"
            f" null: the tools' schemas are not declared), first: {_quote(unchecked[0])}",
        )
    return GateResult(True, _all(len(calls), "tool call is", "tool calls are") + " valid")


def _folded(name: str) -> str:
    return normalize("NFKC", name).casefold().strip()


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isprintable()


def _could_be(name: str, other: str) -> bool:
    """Whether two names may look alike: an unusual character in one of them may look like any
    character of the other, or like none. A call without a name may be of any tool.
    """
    if not any(character.isprintable() for character in name.strip()):
        return True
    if _is_plain(name) and _is_plain(other):
        return False  # they were compared as they are
    first, two = _folded(name)[:200], _folded(other)[:200]
    return _may_look_like(first, two) or _may_look_like(two, first)


def _may_look_like(name: str, other: str) -> bool:
    places = {0}
    """The lengths of the other name's beginning that the characters so far may look like."""
    for character in name:
        steps = {at + 1 for at in places if at < len(other)}
        if _is_plain(character):
            places = {at for at in steps if other[at - 1] == character}
        else:
            places |= steps
    return len(other) in places


def may_be_forbidden(name: str, barred: Iterable[str]) -> bool:
    """Whether a tool is a forbidden one, or its name may be that of one."""
    return any(_folded(name) == _folded(other) or _could_be(name, other) for other in barred)


def forbidden(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether no forbidden tool was called, however its name is written."""
    names, barred = sorted({call.name for call in run.tool_calls or ()}), run.forbidden_tools or []
    folded = {_folded(name) for name in barred}
    called = [name for name in names if _folded(name) in folded]
    if called:
        return GateResult(False, f"forbidden tool called: {', '.join(called)}")
    posing = [name for name in names if any(_could_be(name, other) for other in barred)]
    if posing:
        return GateResult(
            None,
            "a tool's name is empty or has characters that look like others or cannot be seen, and"
            f" may be a forbidden one: {', '.join(map(repr, posing))}",
        )
    return GateResult(True, "no forbidden tool was called")


def handoffs(run: Run, _params: Mapping[str, Any]) -> GateResult:
    """Whether every handoff follows the rules."""
    allowed = set(run.handoff_rules or ())
    broken = [
        f"{handoff.source} to {handoff.to}"
        for handoff in run.handoffs or ()
        if (handoff.source, handoff.to) not in allowed
    ]
    if broken:
        return GateResult(False, f"handoff outside the rules: {', '.join(sorted(set(broken)))}")
    return GateResult(True, "every handoff follows the rules")


def _quote(text: str) -> str:
    flat = " ".join(text.split())
    return f"'{flat[:77]}...'" if len(flat) > 80 else f"'{flat}'"


# --- the gates

GATES: Registry[Gate] = Registry("gate", group="assay.gates")
for _gate in (
    Gate(
        "required_outputs_present",
        "Every required output is present",
        "required",
        (("outputs", "required_outputs"),),
        required_outputs,
        needs=("required_outputs",),
    ),
    Gate(
        "overall_status_success",
        "The run ended successfully",
        "required",
        (("status",),),
        status,
    ),
    Gate(
        "no_critical_step_failures",
        "No critical step failed",
        "required",
        (("steps",),),
        critical_steps,
        needs=("steps",),
    ),
    Gate(
        "schema_contract_valid",
        "The outputs match their JSON Schema",
        "required",
        (("outputs", "output_schema"),),
        schema_contract,
        needs=("output_schema", "outputs"),
    ),
    Gate(
        "dataset_workflow_compatible",
        "The sample fits the workflow",
        "required",
        (("inputs", "required_inputs"),),
        compatible,
        needs=("required_inputs",),
    ),
    Gate(
        "tests_fail_to_pass_all_green",
        "Every broken test is fixed",
        "optional",
        (("tests.fail_to_pass",),),
        fail_to_pass,
    ),
    Gate(
        "tests_pass_to_pass_threshold_met",
        "What worked still works",
        "optional",
        (("tests.pass_to_pass",),),
        pass_to_pass,
        params={"minimum": 0.95},
    ),
    Gate(
        "citations_present_for_claims",
        "Every claim cites a retrieved passage",
        "optional",
        (("claims[].citations", "retrieval"),),
        cited,
    ),
    Gate(
        "tool_call_schema_valid",
        "Every tool call matches its schema",
        "optional",
        (("tool_calls[].valid",),),
        tool_calls_valid,
        needs=("tool_calls",),
    ),
    Gate(
        "patch_applies_cleanly",
        "The patch applies",
        "profile",
        (("patch_applies",),),
        patch,
        needs=("patch_applies",),
    ),
    Gate(
        "no_sandbox_violation",
        "Nothing broke out of the sandbox",
        "profile",
        (),
        None,
    ),
    Gate(
        "outputs_parseable",
        "Required outputs are present and parse",
        "profile",
        (("outputs", "required_outputs", "output_schema"),),
        parseable,
        needs=("required_outputs",),
    ),
    Gate(
        "answer_grounded",
        "The answer is grounded in the retrieved context",
        "profile",
        (("claims[].supported", "claims[].citations", "retrieval"),),
        grounded,
        params={"minimum": 1},
    ),
    Gate(
        "no_high_severity_hallucination",
        "No severe hallucination",
        "profile",
        (("claims[].supported", "claims[].citations", "retrieval"),),
        hallucination,
    ),
    Gate(
        "no_contradicted_claim",
        "No claim contradicts the passages it cites",
        "profile",
        (("claims[].text", "claims[].citations", "retrieval[].text"),),
        contradiction,
        source="docs/decisions/0016-profiles-with-sources.md",
    ),
    Gate(
        "no_forbidden_tool",
        "No forbidden tool was called",
        "profile",
        (("tool_calls", "forbidden_tools"),),
        forbidden,
        needs=("forbidden_tools", "tool_calls"),
    ),
    Gate(
        "handoff_graph_respected",
        "Handoffs follow the rules",
        "profile",
        (("handoffs", "handoff_rules"),),
        handoffs,
        needs=("handoff_rules", "handoffs"),
    ),
):
    GATES.add(_gate.id, _gate)

REQUIRED = tuple(name for name in GATES if GATES[name].group == "required")


def evaluate(
    gate: Gate | None, run: Run, params: Mapping[str, Any], verdict: Verdict | None
) -> GateResult:
    """The gate's result. A verdict that came with the run can worsen a computed result, never
    improve it. `gate` is None for a gate that only the run knows.
    """
    if gate is None or gate.rule is None:
        if verdict is None or verdict.passed is None:
            why = f": {verdict.reason}" if verdict is not None and verdict.reason else ""
            return GateResult(
                None, f"no evidence: the verdict must come with the run (`gates`){why}"
            )
        return GateResult(
            verdict.passed,
            f"reported with the run{': ' + verdict.reason if verdict.reason else ''}",
        )
    computed = gate.check(run, params)
    if verdict is None:
        return computed
    if verdict.passed is True:
        if computed.passed is True:
            return computed
        return GateResult(
            computed.passed,
            f"{computed.reason} (the run reports a pass; a reported verdict cannot improve a"
            " computed gate)",
        )
    why = verdict.reason or "no reason given"
    if verdict.passed is False:
        if computed.passed is False:
            return computed
        return GateResult(False, f"reported with the run: {why}")
    if computed.passed is not True:
        return computed
    return GateResult(None, f"reported as undetermined with the run: {why}")


# --- examples, which data sheets show


class GateExample(NamedTuple):
    """Fields of a run: one set that passes the gate and one that fails it."""

    passes: dict[str, Any]
    fails: dict[str, Any]


_PASSAGE = {"id": "ferry", "text": "The first ferry leaves the north pier at 9:30."}


def _claim(text: str = "The first ferry leaves at 9:30.", **more: Any) -> dict[str, Any]:
    claim = {"text": text, "citations": ["ferry"], "supported": True, "severity": "none", **more}
    return {"retrieval": [_PASSAGE], "claims": [claim]}


def _tests(kind: str, passed: int, total: int) -> dict[str, Any]:
    return {"tests": {kind: {"passed": passed, "total": total}}}


EXAMPLES: dict[str, GateExample] = {
    "required_outputs_present": GateExample(
        {"outputs": {"answer": "9:30"}, "required_outputs": ["answer"]},
        {"outputs": {}, "required_outputs": ["answer"]},
    ),
    "overall_status_success": GateExample({"status": "success"}, {"status": "timeout"}),
    "no_critical_step_failures": GateExample(
        {"steps": [{"name": "log", "status": "failed", "critical": False}]},
        {"steps": [{"name": "plan", "status": "failed"}]},
    ),
    "schema_contract_valid": GateExample(
        {"outputs": {"answer": "9:30"}, "output_schema": {"required": ["answer"]}},
        {"outputs": {"reply": "9:30"}, "output_schema": {"required": ["answer"]}},
    ),
    "dataset_workflow_compatible": GateExample(
        {"inputs": {"question": "When?"}, "required_inputs": ["question"]},
        {"inputs": {"text": "When?"}, "required_inputs": ["question"]},
    ),
    "tests_fail_to_pass_all_green": GateExample(
        _tests("fail_to_pass", 3, 3), _tests("fail_to_pass", 2, 3)
    ),
    "tests_pass_to_pass_threshold_met": GateExample(
        _tests("pass_to_pass", 95, 100), _tests("pass_to_pass", 94, 100)
    ),
    "citations_present_for_claims": GateExample(_claim(), _claim(citations=[])),
    "tool_call_schema_valid": GateExample(
        {"tool_calls": [{"name": "search", "arguments": {"q": "ferry"}, "valid": True}]},
        {"tool_calls": [{"name": "search", "arguments": {}, "valid": False}]},
    ),
    "patch_applies_cleanly": GateExample({"patch_applies": True}, {"patch_applies": False}),
    "no_sandbox_violation": GateExample(
        {"gates": {"no_sandbox_violation": {"passed": True}}},
        {"gates": {"no_sandbox_violation": {"passed": False, "reason": "wrote to /etc"}}},
    ),
    "outputs_parseable": GateExample(
        {
            "outputs": {"report": {"risk": "low"}},
            "required_outputs": ["report"],
            "output_schema": {"required": ["report"]},
        },
        {"outputs": {}, "required_outputs": ["report"]},
    ),
    "answer_grounded": GateExample(_claim(), _claim(supported=False)),
    "no_high_severity_hallucination": GateExample(
        _claim(), _claim(supported=False, severity="high")
    ),
    "no_contradicted_claim": GateExample(_claim(), _claim("The first ferry leaves at 8:15.")),
    "no_forbidden_tool": GateExample(
        {"tool_calls": [{"name": "search"}], "forbidden_tools": ["delete"]},
        {"tool_calls": [{"name": "delete"}], "forbidden_tools": ["delete"]},
    ),
    "handoff_graph_respected": GateExample(
        {
            "handoffs": [{"from": "planner", "to": "coder"}],
            "handoff_rules": [["planner", "coder"]],
        },
        {
            "handoffs": [{"from": "coder", "to": "planner"}],
            "handoff_rules": [["planner", "coder"]],
        },
    ),
}
