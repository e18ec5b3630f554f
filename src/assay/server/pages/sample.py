"""A sample run to try an item of the library on: every gate has its evidence and every criterion a
good score.
"""

from __future__ import annotations

from typing import Any

from assay.errors import ShelfError
from assay.formulas import SCALES
from assay.library.shelf import Shelf
from assay.scoring.profile import Profile
from assay.scoring.rubric import Rubric
from assay.views.values import json_text

_PARTS: dict[str, Any] = {
    "patch_applies_cleanly": {"patch_applies": True},
    "tests_fail_to_pass_all_green": {
        "tests": {
            "fail_to_pass": {"passed": 2, "total": 2},
            "pass_to_pass": {"passed": 98, "total": 100},
        }
    },
    "citations_present_for_claims": {
        "retrieval": [
            {"id": "timetable", "text": "The train leaves at nine.", "rank": 1, "relevant": True}
        ],
        "claims": [
            {
                "text": "The train leaves at nine.",
                "citations": ["timetable"],
                "supported": True,
                "severity": "low",
            }
        ],
    },
    "no_forbidden_tool": {
        "tool_calls": [{"name": "search", "arguments": {"q": "trains"}, "valid": True}],
        "forbidden_tools": ["delete_all"],
    },
    "handoff_graph_respected": {
        "handoffs": [{"from": "planner", "to": "coder"}],
        "handoff_rules": [["planner", "coder"]],
    },
}
"""The evidence for gates that need more than the rest of the run."""
_PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-nine = 8\n+nine = 9\n"
_EXPECTED: dict[str, Any] = {
    "context_precision": {"relevant_ids": ["timetable"]},
    "context_recall": {"relevant_ids": ["timetable"]},
    "context_coverage": {"relevant_ids": ["timetable"]},
    "tool_selection_accuracy": {
        "tool_calls": [{"name": "search", "arguments": {"q": "trains"}}],
    },
    "handoff_accuracy": {"handoffs": [{"from": "planner", "to": "coder"}]},
    "contains_expected": {"answer": "nine"},
    "exact_match": {"answer": "At nine."},
    "patch_similarity": {"patch": _PATCH},
}
"""What is expected, for the measures that compare with it."""


def sample_for(shelf: Shelf, loaded: Any) -> str:
    """A run as JSON that this item can be tried on."""
    profile = loaded if isinstance(loaded, Profile) else _profile(shelf, loaded)
    family = profile.family if profile is not None else "rag"
    run: dict[str, Any] = {
        "schema": "assay.run/1",
        "run_id": "try-1",
        "workflow": {"id": "sample", "version": "1", "family": family},
        "dataset": {"id": "by-hand", "version": "1", "sample_id": "s-1"},
        "status": "success",
        "inputs": {"question": "When does the train leave?"},
        "required_inputs": ["question"],
        "outputs": {"answer": "At nine."},
        "required_outputs": ["answer"],
        "output_schema": {"type": "object", "required": ["answer"]},
        "steps": [{"name": "answer", "agent": "writer", "status": "success", "duration_ms": 900}],
        "latency_ms": 7000,
        "cost_usd": 0.002,
    }
    for ref in profile.gates if profile is not None else ():
        run.update(_PARTS.get(ref.id, {}))
        if ref.verdict or ref.id == "no_sandbox_violation":
            run.setdefault("gates", {})[ref.id] = {"passed": True, "reason": "seen by the sandbox"}
    measures = [item.measure for item in profile.criteria] if profile is not None else []
    expected: dict[str, Any] = {}
    for name in filter(None, measures):
        expected |= _EXPECTED.get(name, {})
    if expected:
        run["expected"] = expected
    if "patch" in expected:
        run["outputs"] = {**run["outputs"], "patch": _PATCH}
    scores = (
        {item.id: {"raw": _good(item.formula)} for item in profile.criteria if item.measure is None}
        if profile is not None
        else {}
    )
    if isinstance(loaded, Rubric):
        scores |= {item.name: {"raw": _good(item.formula_id)} for item in loaded.criteria}
    return json_text(
        {
            **run,
            "scores": {name: score for name, score in scores.items() if score["raw"] is not None},
        }
    )


def _profile(shelf: Shelf, loaded: Any) -> Profile | None:
    """The profile for a rubric: one that names it, else one with the same name."""
    own = getattr(loaded, "rubric_id", None)
    profiles = [shelf.profile(entry.id) for entry in shelf.entries("profiles")]
    named = [
        profile
        for profile in profiles
        if own is not None and profile.rubric == getattr(loaded, "id", None)
    ]
    if named:
        return named[-1]
    try:
        return shelf.profile(own or "rag")
    except ShelfError:
        return next((profile for profile in profiles if profile.family == "rag"), None)


def _good(formula: str) -> Any:
    """A good score, not the best, on the scale of a formula; None for a formula of measured
    values.
    """
    return next(
        (high - 1 for (_, high), name in SCALES.items() if name == formula and high > 1),
        {"zero_one": 0.85, "binary": 1}.get(formula),
    )
