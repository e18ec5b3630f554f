"""Measures: raw scores read off the evidence itself, one file per family.

A measure says what it looks at and which formula reads its raw value. What it cannot tell is
`Undetermined` with the reason, never 0 and never NaN. It runs no code and asks no model. A family
is loaded when one of its measures is asked for: a profile of two measures need not load forty.
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING

from assay.registry import Registry
from assay.scoring.metrics.measure import Measure

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        "severity_weighted_support",
    ),
}
"""Where each built-in measure is defined; a test holds it against the files."""


class _Measures(Registry[Measure]):
    """The measures by name; those that are built in are loaded with their family, when one of it is
    asked for.
    """

    def __init__(self) -> None:
        super().__init__("measure")
        self._unloaded = {name: family for family, names in FAMILIES.items() for name in names}
        self._lock = RLock()

    def _load(self, name: object) -> None:
        if not isinstance(name, str) or name not in self._unloaded:
            return
        with self._lock:  # two threads that ask at once must both find it, and a name is taken once
            family = self._unloaded.get(name)
            if family is None:
                return
            module, _, group = family.partition(".")
            for measure in getattr(import_module(f"assay.scoring.metrics.{module}"), group):
                self.add(measure.id, measure)
                self._unloaded.pop(
                    measure.id, None
                )  # only now: whoever does not find it here looks there

    def get(self, name: str) -> Measure | None:
        self._load(name)
        return super().get(name)

    def near(self, name: str) -> str:
        list(self)
        return super().near(name)

    def __getitem__(self, name: str) -> Measure:
        self._load(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return name in self._unloaded or super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        for name in list(self._unloaded):
            self._load(name)
        return super().__iter__()

    def __len__(self) -> int:
        return len(self._unloaded) + super().__len__()


MEASURES: Registry[Measure] = _Measures()
