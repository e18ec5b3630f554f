"""Runs and scorecards to start a test from: valid, and passing every gate of their family."""

from __future__ import annotations

import copy
from typing import Any

POLICY = """policy: team
version: {version}
title: Ours
family: workflow
pass_threshold: 70
bands: [{{grade: A, min: {best}}}, {{grade: B, min: 80}}, {{grade: F, min: 0}}]
role_floors: {{correctness: 0.1, safety: 0.1}}
floor_cap: F
shrinkage: {{prior: 0.5, k: 20}}
placement: {{comfortable_margin: 0.1}}
ranking: {{tie_window: 1.0}}
judge: {{inconsistency_warning: 0.1}}
"""
"""A policy of our own, to be given its version and the lowest score of an A."""


def run(family: str = "code-repair", **changes: Any) -> dict[str, Any]:
    """A run of a family that passes every gate and scores well; `changes` replace top-level keys,
    and None removes one.
    """
    made: dict[str, Any] = {
        "schema": "assay.run/1",
        "run_id": "r-1",
        "workflow": {"id": "w", "version": "1", "family": family},
        "dataset": {"id": "d", "version": "1", "sample_id": "s-1"},
        "status": "success",
        "inputs": {"question": "why"},
        "required_inputs": ["question"],
        "outputs": {"answer": "because"},
        "required_outputs": ["answer"],
        "output_schema": {
            "type": "object",
            "properties": {"answer": {"type": "string"}},
            "required": ["answer"],
        },
        "steps": [
            {"name": "think", "status": "success", "agent": "solver"},
            {"name": "check", "status": "success", "agent": "critic"},
        ],
        "latency_ms": 8000,
        "cost_usd": 0,
        **copy.deepcopy(_FAMILY[family]),
    }
    for key, value in changes.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = value
    return made


PATCH = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"

_FAMILY: dict[str, dict[str, Any]] = {
    "code-repair": {
        "patch_applies": True,
        "tests": {
            "fail_to_pass": {"passed": 2, "total": 2},
            "pass_to_pass": {"passed": 100, "total": 100},
        },
        "gates": {"no_sandbox_violation": {"passed": True, "reason": "the sandbox saw nothing"}},
        "outputs": {"answer": "because", "patch": PATCH},
        "expected": {"patch": PATCH},
        "scores": {"judge_quality": {"raw": 5}},
    },
    "dag-review": {
        "scores": {
            "correctness": {"raw": 5},
            "completeness": {"raw": 5},
            "tool_data_precision": {"raw": 1},
            "documentation": {"raw": 5},
            "safety": {"raw": 1},
        }
    },
    "rag": {
        "claims": [
            {"text": "It is so.", "citations": ["doc-1"], "supported": True, "severity": "low"}
        ],
        "retrieval": [{"id": "doc-1", "text": "It is so.", "rank": 1, "relevant": True}],
        "expected": {"relevant_ids": ["doc-1"]},
        "scores": {"response_relevance": {"raw": 1}, "safety": {"raw": 1}},
    },
    "tool-use": {
        "tool_calls": [{"name": "search", "arguments": {"q": "x"}, "valid": True}],
        "forbidden_tools": ["delete_all"],
        "handoffs": [{"from": "planner", "to": "coder", "expected": "coder"}],
        "handoff_rules": [["planner", "coder"]],
        "expected": {
            "tool_calls": [{"name": "search", "arguments": {"q": "x"}}],
            "handoffs": [{"from": "planner", "to": "coder"}],
        },
        "scores": {"final_task_correctness": {"raw": 1}},
    },
}

FAMILIES = tuple(_FAMILY)


def scorecard(*criteria: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A bare scorecard with one open gate; a criterion given as {"norm": x} becomes a zero_one
    criterion of weight 1.
    """
    listed = []
    for index, criterion in enumerate(criteria):
        filled = {"name": f"c{index}", "formula_id": "zero_one", "weight": 1, **criterion}
        if "norm" in filled:
            filled["raw_score"] = filled.pop("norm")
        listed.append(filled)
    return {
        "schema": "assay.scorecard/1",
        "run_id": "r-1",
        "hard_gates": {"schema_contract_valid": True},
        "criteria": listed,
        **changes,
    }
