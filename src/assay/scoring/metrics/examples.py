"""An example of each measure: evidence of a run, and its raw score.

Data sheets show them, and a test runs every one. The numbers are worked out by hand, not taken from
the code.
"""

from __future__ import annotations

from math import log2
from typing import Any, NamedTuple


class MeasureExample(NamedTuple):
    """Evidence, the parameters that differ from the defaults, and the raw score."""

    evidence: dict[str, Any]
    value: Any
    params: dict[str, Any] = {}  # read only

    def document(self) -> dict[str, Any]:
        """As a data sheet shows it."""
        return {
            "evidence": self.evidence,
            **({"params": self.params} if self.params else {}),
            "value": self.value,
        }


_TESTS = {
    "tests": {"fail_to_pass": {"passed": 1, "total": 2}, "pass_to_pass": {"passed": 9, "total": 10}}
}
_STEPS = {
    "steps": [
        {"name": "plan", "status": "success", "duration_ms": 100, "retries": 0, "tokens": 40},
        {"name": "write", "status": "failed", "duration_ms": 900, "retries": 2, "tokens": 160},
        {"name": "send", "status": "timeout", "duration_ms": 300, "retries": 1, "tokens": 0},
        {"name": "log", "status": "skipped", "critical": False, "retries": 0, "tokens": 0},
    ]
}
_PASSAGES = [
    {
        "id": "ferry",
        "text": "The first ferry leaves the north pier at 9:30 on weekdays.",
        "rank": 1,
        "relevant": True,
    },
    {"id": "menu", "text": "The harbour cafe opens at noon.", "rank": 2, "relevant": False},
    {"id": "fares", "text": "A return ticket costs 12 euros.", "rank": 3, "relevant": True},
]
_RETRIEVED = {"retrieval": _PASSAGES}
_WANTED = {"retrieval": _PASSAGES, "expected": {"relevant_ids": ["ferry", "fares", "tides"]}}
_CLAIMS = {
    "retrieval": _PASSAGES,
    "claims": [
        {
            "text": "The first ferry leaves at 9:30 on weekdays.",
            "citations": ["ferry"],
            "supported": True,
            "severity": "none",
        },
        {
            "text": 'The cafe "opens at noon".',
            "citations": ["menu", "guide"],
            "supported": True,
            "severity": "none",
        },
        {
            "text": "A ticket costs 40 euros.",
            "citations": ["fares"],
            "supported": False,
            "severity": "high",
        },
        {"text": "Dogs travel free.", "citations": [], "supported": False, "severity": "low"},
    ],
}
_CALL = {"name": "search", "arguments": {"city": "Oslo", "day": 2}}
_TOOLS = [
    {
        "name": "search",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "day": {"type": "integer"}},
            "required": ["city"],
        },
    }
]
_PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"

EXAMPLES: dict[str, MeasureExample] = {
    "tests_passed": MeasureExample(_TESTS, {"passed": 10, "total": 12}),
    "latency": MeasureExample({"latency_ms": 8120}, 8120),
    "cost": MeasureExample({"cost_usd": 0.031}, 0.031),
    "tokens": MeasureExample(_STEPS, 200),
    "retries": MeasureExample(_STEPS, 3),
    "retry_amplification": MeasureExample(_STEPS, 2.0),
    "step_failure_rate": MeasureExample(_STEPS, 2 / 3),
    "infrastructure_stability": MeasureExample(_STEPS, {"passed": 2, "total": 3}),
    "step_duration_p50": MeasureExample(_STEPS, 300),
    "step_duration_p95": MeasureExample(_STEPS, 900),
    "fail_to_pass": MeasureExample(_TESTS, {"passed": 1, "total": 2}),
    "pass_to_pass": MeasureExample(_TESTS, {"passed": 9, "total": 10}),
    "tests_resolved": MeasureExample({"patch_applies": True, **_TESTS}, 0),
    "retrieval_precision": MeasureExample(_RETRIEVED, {"passed": 1, "total": 2}, {"k": 2}),
    "retrieval_success": MeasureExample(_RETRIEVED, 1),
    "reciprocal_rank": MeasureExample(_RETRIEVED, 1.0),
    "retrieval_coverage": MeasureExample(_RETRIEVED, {"passed": 3, "total": 3}),
    "retrieval_recall": MeasureExample(_WANTED, {"passed": 2, "total": 3}),
    "retrieval_map": MeasureExample(_WANTED, (1 + 2 / 3) / 3),
    "retrieval_ndcg": MeasureExample(_WANTED, (1 + 1 / log2(4)) / (1 + 1 / log2(3) + 1 / log2(4))),
    "patch_similarity": MeasureExample(
        {"outputs": {"patch": _PATCH.replace("new", "other")}, "expected": {"patch": _PATCH}}, 0.5
    ),
    "exact_match": MeasureExample(
        {"outputs": {"city": "Oslo ", "day": 2}, "expected": {"city": "Oslo", "day": 3}},
        {"passed": 1, "total": 2},
    ),
    "contains_expected": MeasureExample(
        {"outputs": {"answer": "It is in Oslo."}, "expected": {"answer": ["Oslo", "Norway"]}},
        {"passed": 0, "total": 1},
    ),
    "numeric_close": MeasureExample(
        {"outputs": {"sum": "10.4"}, "expected": {"sum": 10}},
        {"passed": 1, "total": 1},
        {"absolute": 0.5},
    ),
    "json_schema_valid": MeasureExample(
        {"outputs": {"day": "two"}, "output_schema": {"properties": {"day": {"type": "integer"}}}},
        0,
    ),
    "edit_similarity": MeasureExample(
        {"outputs": {"word": "sitting"}, "expected": {"word": "kitten"}}, 1 - 3 / 7
    ),
    "token_recall": MeasureExample(
        {"outputs": {"answer": "the ferry leaves"}, "expected": {"answer": "the first ferry"}},
        2 / 3,
    ),
    "word_budget": MeasureExample(
        {"outputs": {"answer": "At half past nine."}}, 0, {"output": "answer", "words": 3}
    ),
    "bleu": MeasureExample(
        {
            "outputs": {"answer": "the ferry leaves at nine"},
            "expected": {"answer": "the ferry leaves at nine"},
        },
        1.0,
    ),
    "rouge_l": MeasureExample(
        {
            "outputs": {"answer": "the ferry leaves"},
            "expected": {"answer": "the first ferry leaves"},
        },
        6 / 7,
    ),
    "tool_selection_accuracy": MeasureExample(
        {
            "tool_calls": [_CALL, {"name": "wipe", "arguments": {}}],
            "expected": {"tool_calls": [_CALL]},
        },
        0.5,
    ),
    "argument_correctness": MeasureExample(
        {
            "tool_calls": [_CALL],
            "expected": {
                "tool_calls": [{"name": "search", "arguments": {"city": "Oslo", "day": 3}}]
            },
        },
        0.5,
    ),
    "tool_call_validity": MeasureExample(
        {
            "tool_calls": [_CALL, {"name": "search", "arguments": {"day": "two"}}],
            "expected": {"tools": _TOOLS},
        },
        {"passed": 1, "total": 2},
    ),
    "trajectory_match": MeasureExample(
        {
            "tool_calls": [_CALL, {"name": "book", "arguments": {}}],
            "expected": {"tool_calls": [{"name": "search", "arguments": {}}]},
        },
        1,
        {"mode": "superset"},
    ),
    "handoff_accuracy": MeasureExample(
        {
            "handoffs": [
                {"from": "plan", "to": "code", "expected": "code"},
                {"from": "code", "to": "plan", "expected": "test"},
            ]
        },
        0.5,
    ),
    "context_precision": MeasureExample(_RETRIEVED, 0.833333333),
    "context_precision_share": MeasureExample(_RETRIEVED, {"passed": 2, "total": 3}),
    "context_recall": MeasureExample(_WANTED, 0.666666667),
    "citation_presence": MeasureExample(_CLAIMS, {"passed": 3, "total": 4}),
    "citation_resolution": MeasureExample(_CLAIMS, {"passed": 3, "total": 4}),
    "quotes_grounded": MeasureExample(_CLAIMS, {"passed": 1, "total": 1}),
    "lexical_support": MeasureExample(_CLAIMS, 0.5),
    "severity_weighted_support": MeasureExample(_CLAIMS, 1 - (1 + 0.25) / 4),
    "efficiency": MeasureExample({"latency_ms": 19000, "cost_usd": 0.01}, 0.75),
    "claims_supported": MeasureExample(_CLAIMS, 0.5),
    "context_coverage": MeasureExample(
        {
            "retrieval": _PASSAGES,
            "expected_claims": [
                {"text": "The ferry leaves at 9:30.", "supported": True},
                {"text": "It leaves from the south pier.", "supported": False},
            ],
        },
        0.5,
    ),
}
