"""What a run cost: time, money, tokens and retries, against a service level that the profile sets.

A skipped step doesn't count in the shares, unless it is critical, which makes them undetermined.
Otherwise a workflow that skips its hard steps would look the most stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from assay import exact
from assay.errors import FormulaError
from assay.exact import Ratio
from assay.formulas import normalise
from assay.records.evidence import Run, Step
from assay.scoring.metrics.measure import Measure, Undetermined, shown


def _carried(name: str) -> Callable[[Run, Mapping[str, Any]], Any]:
    """A measure that is a field of the run."""

    def read(run: Run, _params: Mapping[str, Any]) -> Any:
        value = getattr(run, name)
        if value is None:
            raise Undetermined(f"the run has no `{name}`")
        return value

    return read


def _summed(name: str) -> Callable[[Run, Mapping[str, Any]], int]:
    """A measure that is the run's count, or the sum over its steps if every step has one."""

    def read(run: Run, _params: Mapping[str, Any]) -> int:
        whole: int | None = getattr(run, name)
        if whole is not None:
            return whole
        counts: list[int | None] = [getattr(step, name) for step in run.steps or ()]
        known = [count for count in counts if count is not None]
        if not counts or len(known) < len(counts):
            raise Undetermined(
                f"the run has no `{name}`, and"
                f" {'has no steps' if not counts else 'not every step does'}"
            )
        return sum(known)

    return read


_retries = _summed("retries")


def _ran(run: Run) -> list[Step]:
    """The steps that ran."""
    if not run.steps:
        raise Undetermined("the run lists no `steps`")
    skipped = next(
        (step.name for step in run.steps if step.status == "skipped" and step.critical), None
    )
    if skipped is not None:
        raise Undetermined(f"the critical step '{skipped}' was skipped")
    ran = [step for step in run.steps if step.status != "skipped"]
    if not ran:
        raise Undetermined("every step was skipped")
    return ran


def _amplification(run: Run, params: Mapping[str, Any]) -> Any:
    ran = len(_ran(run))
    try:
        return (ran + _retries(run, params)) / ran
    except OverflowError:
        raise Undetermined("`retries` is too large") from None


def _failure_rate(run: Run, _params: Mapping[str, Any]) -> Any:
    ran = _ran(run)
    return sum(step.status != "success" for step in ran) / len(ran)


def _stability(run: Run, _params: Mapping[str, Any]) -> Any:
    ran = _ran(run)
    passed = sum(step.status not in ("timeout", "error") for step in ran)
    return {"passed": passed, "total": len(ran)}


def _duration(percent: int) -> Callable[[Run, Mapping[str, Any]], Any]:
    def read(run: Run, _params: Mapping[str, Any]) -> Any:
        ran = _ran(run)
        unknown = next((step.name for step in ran if step.duration_ms is None), None)
        if unknown is not None:
            raise Undetermined(f"the step '{unknown}' has no `duration_ms`")
        ordered = sorted(step.duration_ms for step in ran)
        # the nearest rank: a duration that occurred, not one between two
        return ordered[-(-percent * len(ordered) // 100) - 1]

    return read


def _norm(raw: Any, name: str, params: Mapping[str, Any]) -> int:
    """The norm of a latency or cost against its service level, in billionths; 0 if it was not
    recorded.
    """
    if raw is None:
        return 0
    levels = {"slo_good": params[f"{name}_good"], "slo_bad": params[f"{name}_bad"]}
    return normalise(raw, "lower_is_better", levels)


def _efficiency(run: Run, params: Mapping[str, Any]) -> Any:
    if run.latency_ms is None and run.cost_usd is None:
        raise Undetermined("the run has neither `latency_ms` nor `cost_usd`")
    try:
        share = exact.ratio(params["cost_share"])
        latency = _norm(run.latency_ms, "latency_ms", params)
        cost = _norm(run.cost_usd, "cost_usd", params)
    except (FormulaError, ValueError) as error:
        raise Undetermined(str(error)) from None
    # A part that was not recorded counts as 0: otherwise a run would gain by hiding its cost.
    whole = Ratio(latency * (share.den - share.num) + cost * share.num, share.den * exact.NORM_ONE)
    return shown(whole)


_DOWN = "lower is better"
_RANK = "nearest-rank percentile"
OPERATIONS = (
    Measure(
        "latency",
        "1",
        "Wall time of the run",
        "ms",
        _DOWN,
        "lower_is_better",
        (("latency_ms",),),
        "undetermined",
        _carried("latency_ms"),
    ),
    Measure(
        "cost",
        "1",
        "Cost of the run",
        "usd",
        _DOWN,
        "lower_is_better",
        (("cost_usd",),),
        "undetermined",
        _carried("cost_usd"),
    ),
    Measure(
        "tokens",
        "1",
        "Tokens of the run",
        "tokens",
        _DOWN,
        "lower_is_better",
        (("tokens", "steps[].tokens"),),
        "undetermined",
        _summed("tokens"),
        range="0..",
        limits=(
            "Tokens of different models are not the same size. The run's own count holds where"
            " there is one."
        ),
    ),
    Measure(
        "retries",
        "1",
        "Repetitions in the run",
        "retries",
        _DOWN,
        "lower_is_better",
        (("retries", "steps[].retries"),),
        "undetermined",
        _retries,
        range="0..",
        limits="Sees what the workflow reports, not what a client repeats below it.",
    ),
    Measure(
        "retry_amplification",
        "1",
        "Attempts for each step that ran",
        "attempts per step",
        _DOWN,
        "lower_is_better",
        (("steps", "retries", "steps[].retries"),),
        "undetermined",
        _amplification,
        range="1..",
        limits=(
            "1 means no repetition. One step repeated ten times and ten repeated once look the"
            " same."
        ),
    ),
    Measure(
        "step_failure_rate",
        "1",
        "Steps that ran and did not succeed",
        "share",
        _DOWN,
        "lower_is_better",
        (("steps[].status",),),
        "undetermined",
        _failure_rate,
        limits="A step that failed and was repeated with success counts as it ended.",
    ),
    Measure(
        "infrastructure_stability",
        "1",
        "Steps that ended without a timeout or an error",
        "share",
        "higher is better",
        "ratio",
        (("steps[].status",),),
        "undetermined",
        _stability,
        limits=(
            "A step that ran and gave a bad answer is stable: `failed` is the workflow's fault,"
            " `error` the machine's."
        ),
    ),
    Measure(
        "step_duration_p50",
        "1",
        "Median time of a step",
        "ms",
        _DOWN,
        "lower_is_better",
        (("steps[].duration_ms",),),
        "undetermined",
        _duration(50),
        range="0..",
        citation=_RANK,
        limits="Of few steps it says little. Steps that run at the same time each count in full.",
    ),
    Measure(
        "step_duration_p95",
        "1",
        "Time of the slowest steps",
        "ms",
        _DOWN,
        "lower_is_better",
        (("steps[].duration_ms",),),
        "undetermined",
        _duration(95),
        range="0..",
        citation=_RANK,
        limits="Of fewer than 20 steps it is the slowest one.",
    ),
    Measure(
        "efficiency",
        "1",
        "Latency and cost against their service levels",
        "share",
        "higher is better",
        "zero_one",
        (("latency_ms", "cost_usd"),),
        "undetermined where neither is there; one that is missing counts as 0",
        _efficiency,
        params={
            "latency_ms_good": 8000,
            "latency_ms_bad": 30000,
            "cost_usd_good": 0.01,
            "cost_usd_bad": 0.1,
            "cost_share": 0.5,
        },
        citation="Workflow Scoring & Evaluation Reference Guide, sections 4.1 and 6",
        limits=(
            "The cost is what the workflow reports. A free run reports a cost of 0; a run that"
            " reports none loses the cost's share."
        ),
    ),
)
