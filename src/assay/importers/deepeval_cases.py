"""What a test case of deepeval shows: its answer, and the metrics that measured it.

The metrics of a case are in three places: in the case, in the spans of its trace, which are
measured on their own, and in its expectations, which count as one metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.importers.parts import is_number, objects, optional, refused, shaped
from assay.importers.samples import is_immense

EXPECTATIONS = "Expectations"
"""The name of the metric that the expectations of a case are."""


class CaseMetric(NamedTuple):
    """What one metric made of one case."""

    name: str
    score: Any
    threshold: Any
    success: bool | None
    error: str | None
    reason: str
    model: str
    """The model that it asks; empty if it asks none."""
    flaky: bool
    """Whether its failure doesn't fail the case."""

    @property
    def is_lower(self) -> bool | None:
        """Whether its verdict shows that lower is better; None if it doesn't show either."""
        known = is_number(self.score) and is_number(self.threshold) and self.success is not None
        if not known or self.error or self.score == self.threshold:
            return None
        return self.success is (self.score < self.threshold)


def measured_in(case: dict[str, Any], path: str) -> list[CaseMetric]:
    """The metrics of a case, checked."""
    return [_metric(shaped(entry, dict, "a metric", path), path) for entry in _entries(case, path)]


def is_uneven(case: dict[str, Any]) -> bool:
    """Whether a case has metrics that other cases needn't have: of its spans or expectations."""
    return bool(case.get("expectationsData")) or any(
        span.get("metricsData") for span in _spans(case)
    )


def answer_of(case: dict[str, Any]) -> Any:
    """The answer; of a case that only its spans show, the output of the first of them."""
    answer = case.get("actualOutput")
    if answer is None:
        (trace,) = objects([case.get("trace")]) or [{}]
        roots = (span for span in _spans(case) if span.get("parentUuid") is None)
        answer = next((span["output"] for span in (trace, *roots) if span.get("output")), None)
    return answer


def _spans(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for trace in objects([case.get("trace")]):
        for key, spans in trace.items():
            if key.endswith("Spans"):
                yield from objects(spans)


def _entries(case: dict[str, Any], path: str) -> Iterator[Any]:
    for place in (case, *_spans(case)):
        yield from optional(place.get("metricsData"), list, "`metricsData`", path) or []
    expected = optional(case.get("expectationsData"), dict, "`expectationsData`", path)
    if expected is not None:
        yield {**expected, "name": EXPECTATIONS}


def _metric(metric: dict[str, Any], path: str) -> CaseMetric:
    name = shaped(metric.get("name"), str, "the `name` of a metric", path)
    success = optional(metric.get("success"), bool, "`success`", path)
    error = metric.get("error")
    score, line = None if error else metric.get("score"), metric.get("threshold")
    for what, value in (("score", score), ("threshold", line)):
        if is_number(value) and is_immense(value):
            raise refused(f"the {what} of {name[:60]!r} is out of range.", path, "")
    if score is not None and not is_number(score):
        raise InputError(
            "SCO-011",
            f"a case has {score!r:.60} as its {name[:60]!r}; a score is a number.",
            where=path,
        )
    return CaseMetric(
        name,
        score,
        line,
        success,
        error=str(error) if error else None,
        reason=str(error or metric.get("reason") or ""),
        model=str(metric.get("evaluationModel") or "")[:100],
        flaky=metric.get("flaky") is True,
    )
