"""Score a run: evaluate every gate, give every criterion its raw score or the reason why it has
none, and list what each step and agent did.

Each criterion has one source, which the profile names: a measure computes it from the evidence, or
its score comes with the run. With two sources, leaving out the worse one would help. A criterion
without evidence stays on the card with a null raw score.

A step's scores are normalised if the plan has the criterion, and shown raw otherwise. A sum over an
agent's steps is null if a step did not report its part: a total that leaves something out would
look cheaper than the run was. Nothing here weighs or grades.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from assay import exact
from assay.errors import EvidenceError, Fault, FormulaError, raise_faults
from assay.formulas import evidence_norm_by
from assay.grouping import grouped
from assay.records.evidence import Run, Step
from assay.records.scorecard import (
    SCORECARD_SCHEMA,
    AgentScore,
    Criterion,
    Scorecard,
    StepScore,
)
from assay.registry import near_miss
from assay.scoring.extension import ADDED
from assay.scoring.gates import GATES, ended_by, evaluate
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.profile import PlannedCriterion, ScoringPlan


class Scored(NamedTuple):
    """A scorecard, and the norms that were computed to check its raw scores."""

    card: Scorecard
    norms: tuple[int, ...]
    """One for each criterion, in the card's order; 0 where there is no score."""


def score(run: Run, plan: ScoringPlan) -> Scorecard:
    """The scorecard of one run under a plan. Raises `EvidenceError` with every raw score that its
    formula refuses.
    """
    return scored(run, plan).card


def scored(run: Run, plan: ScoringPlan) -> Scored:
    """The same with the norms."""
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
                notes.append(
                    f"the run brings a verdict for '{name}', which the profile lacks.{hint}"
                )
    _has_added(run, plan)
    criteria: list[Criterion] = []
    norms: list[int] = []
    faults: list[Fault] = []
    for item in plan.criteria:
        try:
            criterion, norm = _scored(run, item, notes)
        except FormulaError as error:
            path = f"scores.{item.spec.id}"
            faults.append(Fault(error.message, code=error.code, path=path, fix=error.fix))
        else:
            criteria.append(criterion)
            norms.append(norm)
    raise_faults(faults, kind=EvidenceError)
    for name in run.scores:
        if name not in plan.known:
            notes.append(
                f"the score '{name}' is not a criterion of {plan.profile.id} and does not"
                f" count.{near_miss(name, sorted(plan.known))}"
            )
    card = Scorecard(
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
        attempt=run.attempt,
        attempts=run.attempts,
        ended_by=ended_by(run),
        judge=run.judge,
        latency_ms=run.latency_ms,
        cost_usd=run.cost_usd,
        tokens=run.tokens,
        retries=run.retries,
        step_scores=step_scores(run, plan) if run.steps else [],
        agent_scores=agent_scores(run, plan) if run.steps else [],
        scoring_system=plan.scoring_system,
        digests={
            **plan.digests,
            **GATES.fingerprints(name for name in supplied if name not in plan.digests),
        },
    )
    return Scored(card, tuple(norms))


def _has_added(run: Run, plan: ScoringPlan) -> None:
    """Refuse a profile that lacks a criterion which the team's scorers added when the run was made:
    dropping it could hide a bad score.
    """
    added = run.metadata.get(ADDED)
    if added is None:
        return
    for name in map(str, added if isinstance(added, list) else ()):
        if name not in plan.known:
            raise EvidenceError(
                "SCO-016",
                f"the run has the criterion '{name}', which a scorer or assertions added, and"
                f" {plan.profile.id} doesn't have it.",
                fix="Pass the profile that `assay run` wrote to `profiles/` in its work folder:"
                " --profile FILE.",
            )


class _Norm(NamedTuple):
    criterion: Criterion
    norm: int


def _scored(run: Run, planned: PlannedCriterion, notes: list[str]) -> _Norm:
    """One criterion with its raw score, checked by its formula, or the reason why there is none."""
    spec = planned.spec
    given = run.scores.get(spec.id)
    if planned.measure is None:
        if given is None:
            why = f"the run has no score '{spec.id}' (under `scores`, as {{\"raw\": ...}})"
            return _Norm(spec.scored(None, n=0, missing=why), 0)
        if given.raw is None:
            return _Norm(spec.scored(None, n=0, missing="the run's score is null"), 0)
        norm = planned.formula.apply(given.raw, spec.params)
        return _Norm(
            spec.scored(given.raw, n=given.n, source=given.source, disagreement=given.disagreement),
            norm,
        )
    if given is not None:
        notes.append(planned.not_given)
    taken = planned.measure.take(run, planned.measure_params)
    if isinstance(taken, Undetermined):
        return _Norm(spec.scored(None, n=0, missing=taken.reason), 0)
    return _Norm(spec.scored(taken, n=1), evidence_norm_by(taken, planned.formula, spec.params))


# --- what each part of a run did


def step_scores(run: Run, plan: ScoringPlan) -> list[StepScore]:
    """One entry for each step, in the order they ran."""
    return [
        StepScore(
            name=step.name,
            status=step.status,
            critical=step.critical,
            agent=step.agent,
            duration_ms=step.duration_ms,
            retries=step.retries,
            model=step.model,
            tier=step.tier,
            tokens=step.tokens,
            cost_usd=step.cost_usd,
            scores=_scores(step, plan) if step.scores else {},
        )
        for step in run.steps or ()
    ]


def _scores(step: Step, plan: ScoringPlan) -> dict[str, Any]:
    by_name = {planned.spec.id: planned for planned in plan.criteria}
    shown: dict[str, Any] = {}
    for name, given in step.scores.items():
        planned = by_name.get(name)
        entry: dict[str, Any] = {"raw": given.raw, "norm": None, "n": given.n}
        if planned is not None and given.raw is not None:
            try:
                entry["norm"] = exact.shown(
                    planned.formula.apply(given.raw, planned.spec.params), exact.NORM_DIGITS
                )
            except FormulaError as error:
                fault = Fault(
                    error.message,
                    code=error.code,
                    path=f"steps.{step.name}.scores.{name}",
                    fix=error.fix,
                )
                raise EvidenceError(
                    error.code, error.message, fix=error.fix, faults=[fault]
                ) from None
        shown[name] = entry
    return shown


def agent_scores(run: Run, plan: ScoringPlan) -> list[AgentScore]:
    """One entry for each agent, by name; steps without an agent don't count."""
    by_agent = grouped((step.agent, step) for step in run.steps or () if step.agent is not None)
    return [_agent(agent, by_agent[agent], plan) for agent in sorted(by_agent)]


_SUMMED = ("duration_ms", "retries", "tokens", "cost_usd")


def _agent(agent: str, steps: list[Step], plan: ScoringPlan) -> AgentScore:
    statuses = [step.status for step in steps]
    succeeded, skipped = statuses.count("success"), statuses.count("skipped")
    unreported: dict[str, int] = {}
    count = len(steps)
    if count == 1:
        only = steps[0]
        sums = [only.duration_ms, only.retries, only.tokens, only.cost_usd]
        if None in sums:
            unreported = {
                name: 1 for name, value in zip(_SUMMED, sums, strict=True) if value is None
            }
    else:
        sums = [_sum(name, steps, unreported) for name in _SUMMED]
    duration_ms, retries, tokens, cost_usd = sums
    return AgentScore(
        agent=agent,
        steps=count,
        succeeded=succeeded,
        failed=count - succeeded - skipped,
        skipped=skipped,
        success_rate=(
            1.0
            if succeeded == count
            else exact.shown(exact.norm_of(exact.Ratio(succeeded, count)), exact.NORM_DIGITS)
        ),
        duration_ms=duration_ms,
        retries=retries,
        tokens=tokens,
        cost_usd=cost_usd,
        unreported=unreported,
        scores=_means(steps, plan) if any(step.scores for step in steps) else {},
    )


def _sum(name: str, steps: list[Step], unreported: dict[str, int]) -> Any:
    values = [getattr(step, name) for step in steps]
    missing = values.count(None)
    if missing:
        unreported[name] = missing
        return None
    if all(type(value) is int for value in values):
        return sum(values)
    return exact.shown(exact.total(values, exact.NORM_DIGITS), exact.NORM_DIGITS)


def _means(steps: Iterable[Step], plan: ScoringPlan) -> dict[str, Any]:
    """The mean norm of each criterion over the agent's steps that have a score for it, and how many
    those are.
    """
    norms = grouped(
        (name, exact.scaled(entry["norm"], exact.NORM_DIGITS))
        for step in steps
        for name, entry in _scores(step, plan).items()
        if entry["norm"] is not None
    )
    return {
        name: {
            "norm": exact.shown(
                exact.quantise(sum(values), len(values) * exact.NORM_ONE, exact.NORM_DIGITS),
                exact.NORM_DIGITS,
            ),
            "steps": len(values),
        }
        for name, values in sorted(norms.items())
    }
