"""For each gate, evidence that passes it and evidence that doesn't. The data sheet of a gate shows
both; a test checks the verdicts.
"""

from __future__ import annotations

from typing import Any, NamedTuple


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
