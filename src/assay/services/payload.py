"""The document of a grade, a result of `assay.grades/1`, with everything that explains it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from assay import exact
from assay.formulas import FORMULAS, raw_of
from assay.grading.explain import explain
from assay.records.digests import scorecard_digest
from assay.records.grade import Grade, GradedCriterion, Payload


def payload(grade: Grade, run: str | None = None) -> Payload:
    """A grade as a JSON-ready document. `run` is the digest of the run, if there is one."""
    explanation = explain(grade)
    card = grade.scorecard
    layers: dict[str, float | None] = {"1": None, "2": None, "3": None}
    weights = grade.weights
    total = sum(weights)
    tops: dict[str, int] = {}
    for weight, item in zip(weights, grade.criteria, strict=True):
        layer = "none" if item.criterion.layer is None else str(item.criterion.layer)
        tops[layer] = tops.get(layer, 0) + weight * item.norm_units
    for layer, top in tops.items():
        layers[layer] = exact.shown(
            exact.quantise(100 * top, total * exact.NORM_ONE, exact.SCORE_DIGITS),
            exact.SCORE_DIGITS,
        )
    reasons = card.gate_reasons
    grade_reason = (
        "hard_gate_failure"
        if grade.hard_gate_failures
        else "floor_cap"
        if grade.grade != grade.provisional_grade
        else "band"
    )
    digests = {
        **card.digests,
        "scorecard": scorecard_digest(card),
        "policy": grade.policy_digest,
        **FORMULAS.fingerprints(item.criterion.formula_id for item in grade.criteria),
    }
    if run is not None:
        digests["run"] = run
    return {
        "run_id": grade.run_id,
        "passed": grade.passed,
        "grade": grade.grade,
        "provisional_grade": grade.provisional_grade,
        "weighted_score": grade.weighted_score,
        "weighted_score_adjusted": grade.weighted_score_adjusted,
        "pass_threshold": grade.pass_threshold,
        "reason": grade.reason,
        "grade_reason": grade_reason,
        "hard_gates": {
            name: {
                "status": "pass" if passed else "undetermined" if passed is None else "fail",
                "reason": reasons.get(name) or _gate_reason(passed),
            }
            for name, passed in card.hard_gates.items()
        },
        "hard_gate_failures": grade.hard_gate_failures,
        "criteria": [
            {
                "name": item.criterion.name,
                "label": item.criterion.label,
                "role": item.criterion.role,
                "layer": item.criterion.layer,
                "raw_score": item.criterion.raw_score,
                "formula_id": item.criterion.formula_id,
                "params": item.criterion.params,
                "norm": item.norm,
                "adjusted_norm": item.adjusted_norm,
                "n": item.criterion.n,
                "weight": item.criterion.weight,
                "contribution": item.contribution,
                "maximum": maximum,
                "critical_floor": (
                    None if item.floor_units is None else _floor(item, item.floor_units)
                ),
                "floor_failed": item.floor_failed,
                "missing": item.criterion.missing,
                **_judged(item),
            }
            for maximum, item in zip(_maxima(weights), grade.criteria, strict=True)
        ],
        "floor_failures": grade.floor_failures,
        "layers": layers,
        "placement": {
            "notes": explanation.notes,
            "margin_to_next_grade": explanation.margin_to_next_grade,
            "to_lose_grade": explanation.to_lose_grade,
            "smallest_gain": None if explanation.gain is None else explanation.gain.shown(),
            "smallest_loss": None if explanation.lose is None else explanation.lose.shown(),
        },
        "explanation": explanation.sentences,
        "findings": [
            {"rule": rule, "fired": fired, "subject": subject, "text": text}
            for rule, fired, subject, text in grade.findings
        ],
        "notes": card.notes,
        "bands": [
            {"grade": band.grade, "min": exact.shown(band.edge, exact.SCORE_DIGITS)}
            for band in grade.bands
        ],
        "policy": grade.policy,
        "profile": None if card.profile is None else card.profile.id,
        "rubric": None if card.rubric is None else card.rubric.id,
        "selection": {"profile": card.profile, "rubric": card.rubric},
        "workflow": card.workflow,
        "dataset": card.dataset,
        "sample_id": card.sample_id,
        "group": card.group,
        "tags": card.tags,
        "status": card.status,
        **({} if card.attempt is None else {"attempt": card.attempt}),
        **({} if card.attempts is None else {"attempts": card.attempts}),
        **({"cause": grade.cause} if grade.cause else {}),
        "judge": card.judge,
        "operations": {
            "latency_ms": card.latency_ms,
            "cost_usd": card.cost_usd,
            "tokens": card.tokens,
            "retries": card.retries,
        },
        "step_scores": card.step_scores,
        "agent_scores": card.agent_scores,
        "scoringSystem": grade.scoring_system,
        "gradingSystem": grade.grading_system,
        "digests": digests,
    }


@lru_cache(maxsize=256)
def _maxima(weights: tuple[int, ...]) -> tuple[float, ...]:
    """The maximum points of each criterion."""
    total = sum(weights)
    return tuple(
        exact.shown(exact.quantise(100 * weight, total, exact.SCORE_DIGITS), exact.SCORE_DIGITS)
        for weight in weights
    )


def _judged(item: GradedCriterion) -> dict[str, Any]:
    """Who gave a score, how far they disagreed, and why they may not gate, as far as known."""
    fields = {
        "source": item.criterion.source,
        "disagreement": item.criterion.disagreement,
        "judge_fault": item.judge_fault,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _gate_reason(passed: bool | None) -> str:
    return (
        "passed, according to the scorecard"
        if passed
        else "no evidence"
        if passed is None
        else "failed, according to the scorecard"
    )


def _floor(item: GradedCriterion, floor_units: int) -> dict[str, Any]:
    criterion = item.criterion
    raw = raw_of(floor_units, criterion.formula_id, criterion.raw_score, criterion.params)
    return {
        "raw": raw if not isinstance(raw, dict) else None,
        "norm": exact.shown(floor_units, exact.NORM_DIGITS),
        "from": item.floor_from,
    }
