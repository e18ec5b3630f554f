"""The hard gates: conditions on evidence that no score can outweigh.

A gate passes, fails or is undetermined, each with a reason; grading treats undetermined as failed.
There are two kinds: a *computed* gate reads evidence in the run, and a verdict that comes with the
run can only worsen its result; a *verdict* gate takes the run's verdict as its evidence. So leaving
evidence out never opens a gate. No gate has a weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.records.evidence import Run, Verdict
from assay.registry import Registry
from assay.scoring import gate_rules as rules
from assay.scoring.gate import Gate, GateResult

GATES: Registry[Gate] = Registry("gate", group="assay.gates")
for _gate in (
    Gate(
        "required_outputs_present",
        "Every required output is present",
        "required",
        (("outputs", "required_outputs"),),
        rules.required_outputs,
        needs=("required_outputs",),
    ),
    Gate(
        "overall_status_success",
        "The run ended successfully",
        "required",
        (("status",),),
        rules.status,
    ),
    Gate(
        "no_critical_step_failures",
        "No critical step failed",
        "required",
        (("steps",),),
        rules.critical_steps,
        needs=("steps",),
    ),
    Gate(
        "schema_contract_valid",
        "The outputs match their JSON Schema",
        "required",
        (("outputs", "output_schema"),),
        rules.schema_contract,
        needs=("output_schema", "outputs"),
    ),
    Gate(
        "dataset_workflow_compatible",
        "The sample fits the workflow",
        "required",
        (("inputs", "required_inputs"),),
        rules.compatible,
        needs=("required_inputs",),
    ),
    Gate(
        "tests_fail_to_pass_all_green",
        "Every broken test is fixed",
        "optional",
        (("tests.fail_to_pass",),),
        rules.fail_to_pass,
    ),
    Gate(
        "tests_pass_to_pass_threshold_met",
        "What worked still works",
        "optional",
        (("tests.pass_to_pass",),),
        rules.pass_to_pass,
        params={"minimum": 0.95},
    ),
    Gate(
        "citations_present_for_claims",
        "Every claim cites a retrieved passage",
        "optional",
        (("claims[].citations", "retrieval"),),
        rules.cited,
    ),
    Gate(
        "tool_call_schema_valid",
        "Every tool call matches its schema",
        "optional",
        (("tool_calls[].valid",),),
        rules.tool_calls_valid,
        needs=("tool_calls",),
    ),
    Gate(
        "patch_applies_cleanly",
        "The patch applies",
        "profile",
        (("patch_applies",),),
        rules.patch,
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
        rules.parseable,
        needs=("required_outputs",),
    ),
    Gate(
        "answer_grounded",
        "The answer is grounded in the retrieved context",
        "profile",
        (("claims[].supported", "claims[].citations", "retrieval"),),
        rules.grounded,
        params={"minimum": 1},
    ),
    Gate(
        "no_high_severity_hallucination",
        "No severe hallucination",
        "profile",
        (("claims[].supported", "claims[].citations", "retrieval"),),
        rules.hallucination,
    ),
    Gate(
        "no_contradicted_claim",
        "No claim contradicts the passages it cites",
        "profile",
        (("claims[].text", "claims[].citations", "retrieval[].text"),),
        rules.contradiction,
        source="docs/decisions/0016-profiles-with-sources.md",
    ),
    Gate(
        "no_forbidden_tool",
        "No forbidden tool was called",
        "profile",
        (("tool_calls", "forbidden_tools"),),
        rules.forbidden,
        needs=("forbidden_tools", "tool_calls"),
    ),
    Gate(
        "handoff_graph_respected",
        "Handoffs follow the rules",
        "profile",
        (("handoffs", "handoff_rules"),),
        rules.handoffs,
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
    if gate is None or not gate.is_computed:
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
