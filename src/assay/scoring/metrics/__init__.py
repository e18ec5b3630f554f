"""Measures: raw scores computed from the evidence, one file per family.

A measure declares the fields it reads and the formula for its raw value. Without enough evidence it
is `Undetermined` with the reason, never 0 and never NaN. It runs no code and calls no model. A
family is loaded when one of its measures is used: a profile with two measures needn't load forty.
"""

from __future__ import annotations

from assay.registry import Registry
from assay.scoring.metrics.measure import Measure

FAMILIES: dict[str, tuple[str, ...]] = {
    "operations.OPERATIONS": (
        "latency",
        "cost",
        "tokens",
        "retries",
        "retry_amplification",
        "step_failure_rate",
        "infrastructure_stability",
        "step_duration_p50",
        "step_duration_p95",
        "efficiency",
    ),
    "outcomes.OUTCOMES": ("tests_passed", "fail_to_pass", "pass_to_pass", "tests_resolved"),
    "passages.RETRIEVAL": (
        "retrieval_precision",
        "retrieval_success",
        "reciprocal_rank",
        "retrieval_coverage",
        "retrieval_recall",
        "retrieval_map",
        "retrieval_ndcg",
    ),
    "patches.PATCHES": ("patch_similarity",),
    "text.TEXT": (
        "exact_match",
        "contains_expected",
        "numeric_close",
        "json_schema_valid",
        "edit_similarity",
        "token_recall",
        "word_budget",
        "bleu",
        "rouge_l",
    ),
    "tool_use.TOOL_USE": (
        "tool_selection_accuracy",
        "argument_correctness",
        "tool_call_validity",
        "trajectory_match",
        "handoff_accuracy",
    ),
    "grounding.GROUNDING": (
        "context_precision",
        "context_precision_share",
        "context_recall",
        "citation_presence",
        "citation_resolution",
        "quotes_grounded",
        "lexical_support",
    ),
    "verdicts.VERDICTS": ("claims_supported", "context_coverage", "severity_weighted_support"),
}
"""Where each built-in measure is defined; a test checks it against the files."""


MEASURES: Registry[Measure] = Registry(
    "measure",
    homes={
        f"assay.scoring.metrics.{home.replace('.', ':')}": names for home, names in FAMILIES.items()
    },
    group="assay.measures",
)
