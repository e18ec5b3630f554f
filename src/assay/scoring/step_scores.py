"""Per-step and per-agent scores: what each part of a run did.

A step's scores are normalised if the plan has the criterion, and shown raw otherwise. A sum over an
agent's steps is null if a step did not report its part: a total that leaves something out would
look cheaper than the run was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay import exact
from assay.errors import EvidenceError, Fault, FormulaError
from assay.formulas import normalise
from assay.grouping import grouped
from assay.records.evidence import Run, Step
from assay.records.scorecard import AgentScore, StepScore
from assay.scoring.profile import ScoringPlan


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
    specs = {planned.spec.id: planned.spec for planned in plan.criteria}
    shown: dict[str, Any] = {}
    for name, given in step.scores.items():
        spec = specs.get(name)
        entry: dict[str, Any] = {"raw": given.raw, "norm": None, "n": given.n}
        if spec is not None and given.raw is not None:
            try:
                entry["norm"] = exact.shown(
                    normalise(given.raw, spec.formula, spec.params), exact.NORM_DIGITS
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
