"""What the numbers of a release policy cost, in samples and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from assay.records.descriptions import field_descriptions
from assay.release.plan import (
    WANTED,
    Noise,
    pairs_for_bound,
    pairs_for_gates,
    samples_for,
    samples_to_detect,
    shown_by,
)
from assay.release.policy import ReleasePolicy, make_release_rules
from assay.release.rules import SEVERE_TURNS
from assay.stats.confirmation import FEWEST, turns_needed
from assay.stats.exchange import Attempts, exchange_test
from generators.markdown import table

FLAKY, RIGHT = 0.3, 0.75
RUNS = (1, 3, 5)
SIZES = (50, 200, 1000)
SUITE = Noise(FLAKY * RIGHT * (1 - RIGHT) * 100**2, 0.0, assumed=False, samples=1)
"""Samples scored 0 or 100, of which some answer differently each time."""
SUITE_WORDS = (
    f"samples scored 0 or 100, of which {FLAKY:.0%} are flaky and pass {RIGHT:.0%} of their runs"
)
OPEN = "nothing: under this burden, an open rule doesn't block"
Cost = Callable[[ReleasePolicy], str]


def section(policy: ReleasePolicy) -> list[str]:
    """The numbers of a release policy, what each means, and what it costs."""
    rows = [
        (f"`{path}`", _shown(value), _meaning(policy, path), COSTS[path](policy))
        for path, value in numbers(policy)
    ]
    intro = (
        f"What its numbers cost. The example is a suite of {SUITE_WORDS}, run once, three or five"
        " times on each side. So many samples are needed to promote a version against itself in"
        f" {WANTED:.0%} of cases, once its suspects are cleared. `assay gate --plan` computes the"
        " same from your own runs."
    )
    return [intro, table(("number", "value", "meaning", "cost"), rows)]


def numbers(policy: ReleasePolicy) -> list[tuple[str, Any]]:
    """Each number of a policy by its path."""
    found: list[tuple[str, Any]] = []
    for name in policy.__struct_fields__:
        value = getattr(policy, name)
        if hasattr(value, "__struct_fields__"):
            parts = [(f"{name}.{part}", getattr(value, part)) for part in value.__struct_fields__]
        else:
            parts = [(name, value)]
        found += [part for part in parts if part[0] in COSTS]
    return [
        (path, policy.margin if path == "scores.margin" else value)
        for path, value in found
        if value is not None or path == "scores.margin"
    ]


def _meaning(policy: ReleasePolicy, path: str) -> str:
    kind: Any = type(policy)
    *outer, name = path.split(".")
    for part in outer:
        kind = type(getattr(policy, part))
    return field_descriptions(kind)[name].split(". ")[0].rstrip(".")


def _shown(value: Any) -> str:
    if value is True or value is False:
        return str(value).lower()
    return str(value) if isinstance(value, str) else f"{float(value):g}"


def _limits(policy: ReleasePolicy, **changes: Any) -> Any:
    return make_release_rules(policy).limits._replace(**changes)


def _count(n: int | None) -> str:
    return "more than 100,000" if n is None else f"{n:,}"


def _each(counts: Callable[[int], int | None]) -> str:
    *most, last = [_count(counts(runs)) for runs in RUNS]
    return f"{', '.join(most)} or {last}"


def _margin(policy: ReleasePolicy) -> str:
    if policy.burden == "not_shown_worse":
        return OPEN
    if policy.scores.interval == "bounded":
        return f"{_count(pairs_for_bound(_limits(policy)))} pairs if no pair differs"
    enough = _each(lambda runs: samples_for(SUITE, (runs, runs), _limits(policy)))
    return f"{enough} samples; one point less takes {_narrower(policy)}"


def _narrower(policy: ReleasePolicy) -> str:
    limits = _limits(policy, margin=float(policy.margin) - 1)
    if limits.margin <= 0:
        return "any number"
    return _each(lambda runs: samples_for(SUITE, (runs, runs), limits))


def _level(policy: ReleasePolicy) -> str:
    if policy.burden == "not_shown_worse":
        return "nothing: it is shown"
    if policy.scores.interval == "bounded":
        return f"at 0.99, {_count(pairs_for_bound(_limits(policy, level=0.99)))} pairs"
    enough = _each(lambda runs: samples_for(SUITE, (runs, runs), _limits(policy, level=0.99)))
    return f"at 0.99, {enough} samples"


def _gates(policy: ReleasePolicy) -> str:
    if policy.burden == "not_shown_worse":
        return OPEN
    if policy.deterministic:
        return "nothing: the rise is taken as observed"
    return f"{_count(pairs_for_gates(_limits(policy)))} pairs if no gate is flaky"


def _increase(policy: ReleasePolicy) -> str:
    return f"{_newly(_limits(policy).errors.gates)}, and a higher share than this"


def _newly(level: float) -> str:
    """How many samples must newly fail before the exchange test shows it, with one run a side."""
    worse = Attempts.of_runs(failing=1, runs=1, others_failing=0, others=1)
    n = next(n for n in range(1, 100) if exchange_test({worse: n}) <= level)
    return f"shown from {n} samples that newly fail and none that recovers"


def _loss(policy: ReleasePolicy) -> str:
    shown = shown_by(SUITE, 200, (1, 1), _limits(policy))
    return f"200 samples run once show a loss of {shown.smallest_loss:.1f} points"


def _detect(policy: ReleasePolicy) -> str:
    if policy.burden != "not_shown_worse":
        return "nothing under this burden"
    return f"{_each(lambda runs: samples_to_detect(SUITE, (runs, runs), _limits(policy)))} samples"


def _power(policy: ReleasePolicy) -> str:
    if policy.burden != "not_shown_worse":
        return "nothing: it is shown"
    limits = _limits(policy, power=0.9)
    return f"at 0.9, {_each(lambda runs: samples_to_detect(SUITE, (runs, runs), limits))} samples"


def _turns(policy: ReleasePolicy) -> str:
    if policy.deterministic:
        return "nothing: one new failure is a regression at once"
    level = _limits(policy).errors.confirmed
    needed = [turns_needed(n, 1, 1, 1, false_alarm=level) for n in SIZES]
    *most, last = [str(turns) for turns in needed]
    *sizes, largest = [f"{n:,}" for n in SIZES]
    return (
        f"at most {', '.join(most)} or {last} fresh runs of each side for a suspect of"
        f" {', '.join(sizes)} or {largest} samples; {FEWEST} where stored repeats always agree"
    )


def _guardrail(policy: ReleasePolicy) -> str:
    if policy.burden == "not_shown_worse":
        return OPEN
    limits = _limits(policy, margin=float(policy.criterion_margin), level=0.9)
    return (
        "nothing, except for `guardrails`:"
        f" {_each(lambda runs: samples_for(SUITE, (runs, runs), limits))} samples"
    )


def _looks(policy: ReleasePolicy) -> str:
    if policy.looks == 1:
        return "nothing"
    once = make_release_rules(replace(policy, looks=1)).limits
    shown = [shown_by(SUITE, 200, (1, 1), limits) for limits in (_limits(policy), once)]
    return (
        f"200 samples run once show a loss of {shown[0].smallest_loss:.1f} points instead of"
        f" {shown[1].smallest_loss:.1f}"
    )


COSTS: dict[str, Cost] = {
    "min_pairs": lambda policy: f"{policy.min_pairs} pairs",
    "scores.margin": _margin,
    "scores.level": _level,
    "scores.power": _power,
    "severe.fresh_runs": lambda policy: (
        f"up to {policy.severe.fresh_runs} fresh runs of each side for each of them"
    ),
    "baseline.max_age_days": lambda _: "an evaluation of the baseline that often",
    "looks": _looks,
    "new_failures": _turns,
    "gate_failure_increase": _increase,
    "gate_margin": _gates,
    "criterion_margin": _guardrail,
    "detect": _detect,
    "errors.reject_at_most": lambda policy: (
        f"the sum of the levels below is {sum(policy.errors.levels().values()):g}"
    ),
    "errors.confirmed": _turns,
    "errors.exchange": lambda policy: _newly(_limits(policy).errors.exchange),
    "errors.gates": lambda policy: _newly(_limits(policy).errors.gates),
    "errors.score": _loss,
    "errors.criteria": lambda _: "Holm's correction over criteria, floors and slices",
    "errors.severe_exchange": lambda policy: _newly(_limits(policy).errors.severe_exchange),
    "errors.severe_confirmed": lambda _: f"{SEVERE_TURNS} fresh runs of each side",
}
"""Each number of a release policy, with what it costs."""
