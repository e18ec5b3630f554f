"""Run -> Scorecard: every gate evaluated, every criterion given its raw score or the reason why
there is none.

Each criterion has one source, which the profile names: a measure reads it off the evidence, or its
score comes with the run. Were there two, leaving out the worse one would help. A criterion whose
source is silent stays on the card with a null raw score. Nothing here weighs or grades.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import EvidenceError, Fault, FormulaError
from assay.formulas import normalise
from assay.records.scorecard import SCORECARD_SCHEMA, Criterion, Scorecard
from assay.registry import near_miss
from assay.scoring.gates import GATES, evaluate
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.step_scores import agent_scores, step_scores

if TYPE_CHECKING:
    from assay.records.evidence import Disagreement, Run, Source
    from assay.scoring.profile import Plan, PlannedCriterion


class _Raw(NamedTuple):
    value: Any
    formula: str
    params: dict[str, Any]
    n: int
    source: Source | None
    missing: str | None
    disagreement: Disagreement | None = None


def score(run: Run, plan: Plan) -> Scorecard:
    """The scorecard of one run under a plan. Raises `EvidenceError` with every raw score that its
    formula refuses.
    """
    gates: dict[str, bool | None] = {}
    reasons: dict[str, str] = {}
    notes: list[str] = list(plan.notes)
    supplied = run.gates
    for planned in plan.gates:
        result = evaluate(planned.gate, run, planned.params, supplied.get(planned.id))
        gates[planned.id] = result.passed
        reasons[planned.id] = result.reason
    for name, verdict in supplied.items():
        if name not in gates:
            gate = GATES.get(name)
            result = evaluate(gate, run, gate.params if gate is not None else {}, verdict)
            gates[name] = result.passed
            hint = near_miss(name, [planned.id for planned in plan.gates]) if gate is None else ""
            reasons[name] = result.reason
            if hint:
                notes.append(f"the run brings a verdict for '{name}', a gate of its own.{hint}")
    criteria: list[Criterion] = []
    faults: list[Fault] | None = None
    for planned_criterion in plan.criteria:
        spec = planned_criterion.spec
        try:
            raw = _raw(run, planned_criterion, notes)
        except FormulaError as error:
            faults = faults or []
            faults.append(
                Fault(error.message, code=error.code, path=f"scores.{spec.id}", fix=error.fix)
            )
            continue
        criteria.append(
            Criterion(
                name=spec.id,
                raw_score=raw.value,
                formula_id=raw.formula,
                params=raw.params,
                weight=spec.weight,
                critical_floor=spec.critical_floor,
                floor_override=spec.floor_override,
                role=spec.role,
                layer=spec.layer,
                n=raw.n,
                label=spec.label,
                source=raw.source,
                disagreement=raw.disagreement,
                missing=raw.missing,
            )
        )
    if faults:
        raise EvidenceError(faults[0].code, faults[0].message, fix=faults[0].fix, faults=faults)
    if not run.scores.keys() <= plan.known:
        for name in run.scores:
            if name not in plan.known:
                notes.append(
                    f"the score '{name}' is no criterion of {plan.profile.id} and does not"
                    f" count.{near_miss(name, sorted(plan.known))}"
                )
    return Scorecard(
        schema=SCORECARD_SCHEMA,
        run_id=run.run_id,
        hard_gates=gates,
        criteria=criteria,
        sample_id=run.dataset.sample_id,
        group=run.group,
        tags=run.tags,
        gate_reasons=reasons,
        notes=notes,
        profile=plan.profile,
        rubric=plan.rubric,
        workflow=run.workflow,
        dataset=run.dataset,
        status=run.status,
        judge=run.judge,
        latency_ms=run.latency_ms,
        cost_usd=run.cost_usd,
        tokens=run.tokens,
        retries=run.retries,
        step_scores=step_scores(run, plan) if run.steps else [],
        agent_scores=agent_scores(run, plan) if run.steps else [],
        scoring_system=plan.scoring_system,
        digests=plan.digests,
    )


def _raw(run: Run, planned: PlannedCriterion, notes: list[str]) -> _Raw:
    """The raw score of one criterion, checked by its formula, or the reason why there is none."""
    spec = planned.spec
    given = run.scores.get(spec.id)
    if planned.measure is None:
        if given is None or given.raw is None:
            why = (
                "the run's score is null"
                if given is not None
                else f"the run carries no score '{spec.id}' (under `scores`, as {{\"raw\": ...}})"
            )
            return _Raw(None, spec.formula, spec.params, 0, None, why)
        normalise(given.raw, spec.formula, spec.params)
        return _Raw(
            given.raw, spec.formula, spec.params, given.n, given.source, None, given.disagreement
        )
    if given is not None:
        notes.append(
            f"'{spec.id}' is measured from the evidence ({planned.measure.evidence}); the score"
            " that came with the run does not count"
        )
    taken = planned.measure.take(run, planned.measure_params)
    if isinstance(taken, Undetermined):
        return _Raw(None, spec.formula, spec.params, 0, None, taken.reason)
    normalise(taken, spec.formula, spec.params)
    return _Raw(taken, spec.formula, spec.params, 1, None, None)
