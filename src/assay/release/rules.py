"""The rules of a release: each a pure function of the pairs and the limits of the policy, none
changed after it was computed.

A rule holds, is violated, or is open. Violated means shown: the chance that a version is rejected
against itself is the sum of the rules' levels, 5% in all. Open means that the evidence decides
nothing yet, and the reason says what would. No rule turns against an improvement: see
`stats.monotone` and `stats.exchange`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any, NamedTuple

from assay.errors import count
from assay.records.decision import Outcome, RuleResult
from assay.release.confirmation import (
    Fresh,
    Suspect,
    Turn,
    has_world_changed,
    settled,
    suspects_of,
    turns_for,
)
from assay.release.observations import (
    Check,
    Observed,
    Pair,
    Share,
    fails_any,
    groups_of,
    is_severe,
    norm_seen,
    rise_feared,
    rise_seen,
    score_feared,
    score_seen,
)
from assay.stats.bounded import Mass, bounded
from assay.stats.clusters import Groups
from assay.stats.exchange import exchange_test
from assay.stats.monotone import lower_end, upper_end, upper_rate_end

SEVERE_TURNS = 4
"""Fresh runs of each side that show a severe failure."""
SHOWN = 50
"""Items that a rule's evidence lists; all are counted."""
FEW = 100
"""Pairs below which the bound that assumes nothing may vouch for skewed differences."""


class Errors(NamedTuple):
    """How often each rule may reject a version that is the same as its baseline."""

    confirmed: float = 0.01
    exchange: float = 0.01
    gates: float = 0.01
    score: float = 0.01
    criteria: float = 0.005
    """Criteria, floors and slices together."""
    severe_exchange: float = 0.004
    severe_confirmed: float = 0.001

    @property
    def total(self) -> float:
        """How often any of them may."""
        return sum(self)


class Limits(NamedTuple):
    """What a release policy allows."""

    margin: float = 3.0
    min_pairs: int = 30
    new_failures: int = 0
    gate_increase: float = 0.0
    gate_margin: float = 0.05
    criterion_margin: float = 5.0
    guardrails: frozenset[str] = frozenset()
    deterministic: bool = False
    confirm: bool = True
    """Whether suspects can be run again."""
    severe_turns: int = 20
    """Fresh runs of each side that settle what is severe and was not shown."""
    cost_increase: float | None = None
    latency_increase: float | None = None
    bounded: bool = False
    """Whether the score's interval assumes nothing but the range."""
    errors: Errors = Errors()


class Judged(NamedTuple):
    """All rules, and the suspects with their verdicts."""

    rules: tuple[RuleResult, ...]
    suspects: tuple[Suspect, ...]
    turns: int
    """Fresh turns that a suspect needs."""


def holds(id: str, reason: str, **evidence: Any) -> RuleResult:
    """A rule that holds."""
    return RuleResult(id=id, holds=True, violated=False, reason=reason, evidence=evidence)


def violated(id: str, reason: str, **evidence: Any) -> RuleResult:
    """A rule whose violation is shown."""
    return RuleResult(id=id, holds=False, violated=True, reason=reason, evidence=evidence)


def undecided(id: str, reason: str, **evidence: Any) -> RuleResult:
    """A rule that the evidence does not decide."""
    return RuleResult(id=id, holds=None, violated=False, reason=reason, evidence=evidence)


def judge(
    pairs: Sequence[Pair],
    limits: Limits,
    *,
    floors: Mapping[str, int],
    fresh: Fresh | None = None,
    accepted: frozenset[tuple[str, Check]] = frozenset(),
) -> Judged:
    """Every rule on these pairs. `floors` are the critical floors of the baseline's criteria, in
    billionths; `accepted` are failures that somebody may accept, and did.
    """
    pairs = sorted(pairs, key=lambda pair: pair.sample)
    turns = 0 if limits.deterministic else turns_for(pairs, false_alarm=limits.errors.confirmed)
    runs = fresh or {}
    found = [
        suspect._replace(verdict="confirmed")
        if limits.deterministic
        else settled(suspect, runs.get(suspect.sample, ()), needed=turns)
        for suspect in suspects_of(pairs)
    ]
    rules = (
        complete(pairs, limits, fresh),
        new_failures(pairs, limits, found, runs, accepted, turns),
        gate_failure_rate(pairs, limits),
        score_non_inferiority(pairs, limits),
        *criteria(pairs, limits, floors),
        severe_failures(pairs, limits, runs),
        *operations(pairs, limits),
    )
    return Judged(rules, tuple(found), turns)


def outcome_of(rules: Sequence[RuleResult], *, pairs: int, limits: Limits) -> tuple[Outcome, str]:
    """The outcome of the rules, and its reason."""
    shown = [rule for rule in rules if rule.violated]
    if shown:
        more = f" (and {len(shown) - 1} more)" if len(shown) > 1 else ""
        return "reject", f"{shown[0].id}: {shown[0].reason}{more}"
    if pairs < limits.min_pairs:
        return (
            "not_enough_evidence",
            f"{count(pairs, 'paired sample')}; the policy asks for at least {limits.min_pairs}",
        )
    for rule in rules:
        if rule.holds is not True:
            return "hold", f"{rule.id}: {rule.reason}"
    return "promote", "every rule holds"


# --- completeness


def complete(pairs: Sequence[Pair], limits: Limits, fresh: Fresh | None) -> RuleResult:
    """Nothing that was announced is missing. What is absent from every run is lost, once fresh runs
    were made or can't be.
    """
    absent: list[dict[str, str]] = []
    partly: list[dict[str, str]] = []
    for pair in pairs:
        again = [] if fresh is None else [turn.candidate for turn in fresh.get(pair.sample, ())]
        runs = [*pair.candidate.attempts, *(run for run in again if run is not None)]
        final = bool(again) or limits.deterministic or not limits.confirm
        lacking = _lacking(pair, pair.candidate)
        entirely = _lacking(pair, Observed(tuple(runs), 0), of_all=True) if final else ()
        absent += [{"sample": pair.sample, "what": what} for what in entirely]
        partly += [
            {"sample": pair.sample, "what": what} for what in lacking if what not in entirely
        ]
    if absent:
        reason = f"{count(len(absent), 'announced result')} missing from every run of the candidate"
        return violated("complete", reason, lost=absent[:SHOWN], lost_count=len(absent))
    if partly:
        samples = len({item["sample"] for item in partly})
        reason = f"{count(samples, 'sample')} lack results: run them again"
        return undecided("complete", reason, missing=partly[:SHOWN], missing_count=len(partly))
    return holds("complete", "nothing that was announced is missing")


def _lacking(pair: Pair, side: Observed, *, of_all: bool = False) -> tuple[str, ...]:
    """What a side lacks of what the baseline has: in any of its runs, or in all of them."""
    if not side.attempts or (side.lost and not of_all):
        return ("runs",)
    quantify = all if of_all else any
    names = [
        str(check)
        for check in sorted(pair.checks)
        if quantify(check not in run.judged for run in side.attempts)
    ]
    names += [
        f"score {name}"
        for name in sorted(pair.criteria)
        if quantify(name not in run.norms for run in side.attempts)
    ]
    return tuple(names)


# --- failures


def new_failures(
    pairs: Sequence[Pair],
    limits: Limits,
    suspects: Sequence[Suspect],
    fresh: Fresh,
    accepted: frozenset[tuple[str, Check]],
    turns: int,
) -> RuleResult:
    """No sample newly fails a check, and the samples together don't fail more often."""
    id = "new_failures"
    rise = rise_seen(pairs, fails_any())
    p = exchange_test(rise.exchange)
    level = limits.errors.exchange + (0 if limits.confirm else limits.errors.confirmed)
    numbers = {"mean_rise": float(rise.mean), "p": p, "suspects": len(suspects), "turns": turns}
    if p <= level and rise.mean > 0:
        return violated(id, f"runs fail more often than chance explains (p = {p:.2g})", **numbers)
    if not limits.confirm and not limits.deterministic:
        high = upper_rate_end(rise_feared(pairs, fails_any()).groups, level=0.95)
        if high is not None and high <= limits.gate_margin:
            return holds(id, f"failures rose by at most {high:.1%}", high=high, **numbers)
        return undecided(id, "a rise in failures is not excluded", high=high, **numbers)
    confirmed = [
        suspect
        for suspect in suspects
        if suspect.verdict == "confirmed" and (suspect.sample, suspect.check) not in accepted
    ]
    if len(confirmed) > limits.new_failures:
        names = ", ".join(dict.fromkeys(suspect.sample for suspect in confirmed[:3]))
        what = count(len(confirmed), "new failure")
        return violated(id, f"{what} confirmed: {names}", confirmed=len(confirmed), **numbers)
    unsettled = [suspect for suspect in suspects if suspect.verdict == "open"]
    if has_world_changed(suspects, pairs, fresh):
        return undecided(id, "the baseline fails now what it passed: evaluate it again", **numbers)
    if unsettled:
        what = count(len({suspect.sample for suspect in unsettled}), "sample")
        reason = f"{what} may newly fail: run each up to {turns} times on both sides"
        return undecided(id, reason, open=len(unsettled), **numbers)
    reason = "no sample newly fails" if not suspects else "every suspect was cleared by fresh runs"
    return holds(id, reason, **numbers)


def gate_failure_rate(pairs: Sequence[Pair], limits: Limits) -> RuleResult:
    """The mean share of runs that fail a gate does not rise."""
    id, failing = "gate_failure_rate", fails_any(("gate",))
    rise = rise_seen(pairs, failing)
    p = exchange_test(rise.exchange)
    high = upper_rate_end(rise_feared(pairs, failing).groups, level=0.95)
    allowed = limits.gate_increase + limits.gate_margin
    numbers = {"mean_rise": float(rise.mean), "p": p, "high": high, "allowed": allowed}
    if p <= limits.errors.gates and rise.mean > limits.gate_increase:
        return violated(id, f"gates fail in {float(rise.mean):.1%} more of the runs", **numbers)
    if high is None:
        return undecided(id, "fewer than two independent samples", **numbers)
    if high <= allowed:
        return holds(id, f"gate failures rose by at most {high:.1%}", **numbers)
    reason = f"gate failures may have risen by {high:.1%}; {allowed:.1%} are allowed"
    return undecided(id, reason, **numbers)


def severe_failures(pairs: Sequence[Pair], limits: Limits, fresh: Fresh) -> RuleResult:
    """No sample fails severely more often than in the baseline."""
    id = "severe_failures"
    rise = rise_seen(pairs, is_severe)
    p = exchange_test(rise.exchange)
    clean = not any(run.severe for pair in pairs for run in pair.baseline.attempts)
    more = []
    for pair in pairs:
        ours, theirs = Share.seen(pair.candidate, is_severe), Share.seen(pair.baseline, is_severe)
        if ours.failing and (not theirs.runs or ours.value > theirs.value):
            more.append(pair.sample)
    numbers = {"mean_rise": float(rise.mean), "p": p, "samples": more[:SHOWN], "n": len(more)}
    if p <= limits.errors.severe_exchange and rise.mean > 0:
        return violated(id, f"severe failures rose (p = {p:.2g})", **numbers)
    if more and limits.deterministic:
        return violated(id, f"{count(len(more), 'sample')} newly fail severely", **numbers)
    unsettled = []
    for sample in more:
        turns = fresh.get(sample, ())
        if clean and _is_shown(turns):
            return violated(id, f"{sample} fails severely in every fresh run", **numbers)
        if not _is_cleared(turns, limits.severe_turns):
            unsettled.append(sample)
    if unsettled:
        reason = (
            f"{count(len(unsettled), 'sample')} failed severely, which may be chance: run each"
            f" {limits.severe_turns} times on both sides"
        )
        return undecided(id, reason, open=unsettled[:SHOWN], **numbers)
    return holds(id, "no sample fails severely more often than before", **numbers)


def _is_shown(turns: Sequence[Turn]) -> bool:
    first = turns[:SEVERE_TURNS]
    return len(first) == SEVERE_TURNS and all(
        turn.candidate is not None
        and turn.candidate.severe
        and turn.baseline is not None
        and not turn.baseline.severe
        for turn in first
    )


def _is_cleared(turns: Sequence[Turn], needed: int) -> bool:
    if sum(turn.candidate is not None and turn.baseline is not None for turn in turns) < needed:
        return False
    ours = sum(turn.candidate is not None and bool(turn.candidate.severe) for turn in turns)
    theirs = sum(turn.baseline is not None and bool(turn.baseline.severe) for turn in turns)
    return not ours or ours <= theirs


# --- scores


def score_non_inferiority(pairs: Sequence[Pair], limits: Limits) -> RuleResult:
    """The mean score did not fall by the margin or more."""
    id = "score_non_inferiority"
    feared = [(pair.group, score_feared(pair)) for pair in pairs]
    seen = [
        (pair.group, difference) for pair in pairs if (difference := score_seen(pair)) is not None
    ]
    low = _lower(feared, limits)
    high = upper_end(groups_of(seen), level=1 - limits.errors.score) if seen else None
    mean = float(sum(difference for _, difference in feared)) / len(feared) if feared else None
    numbers = {"mean": mean, "low": low, "high": high, "margin": limits.margin}
    if low is None or high is None:
        return undecided(id, "fewer than two independent samples", **numbers)
    if low > -limits.margin:
        return holds(id, f"the score fell by less than {limits.margin:g} points", **numbers)
    if high < 0:
        return violated(id, f"the score fell: by at least {-high:.2g} points", **numbers)
    reason = f"the score may have fallen by {-low:.1f} points; {limits.margin:g} are allowed"
    return undecided(id, reason, **numbers)


def _lower(differences: Sequence[tuple[Any, Any]], limits: Limits) -> float | None:
    """The end that must be above minus the margin: Student's with and without skew, or below `FEW`
    pairs the bound that assumes nothing in place of the one with skew.
    """
    if len(differences) < 2:
        return None
    groups = groups_of(differences)
    bound = _bound(groups) if limits.bounded or len(differences) < FEW else None
    if limits.bounded:
        return bound
    plain, leaning = (lower_end(groups, level=0.975, lean=lean) for lean in (False, True))
    if plain is None or leaning is None:
        return None
    return min(plain, leaning if bound is None else max(leaning, bound))


def _bound(groups: Groups) -> float | None:
    masses = [Mass(total / size, times, float(size)) for size, total, _, times in groups.rows()]
    return bounded(masses, lowest=-100.0, highest=100.0, level=0.95).low


def criteria(
    pairs: Sequence[Pair], limits: Limits, floors: Mapping[str, int]
) -> tuple[RuleResult, RuleResult]:
    """No criterion got worse by its margin, and none fell below its floor."""
    names = sorted(frozenset[str]().union(*(pair.criteria for pair in pairs)))
    found = {name: _criterion(pairs, name) for name in names}
    known = {name: one for name, one in found.items() if one is not None}
    guarded = {name: one for name, one in known.items() if name in limits.guardrails}
    worse = _shown_worse({name: one.groups for name, one in known.items()}, limits.errors.criteria)
    lost = {
        name: one.mean
        for name, one in known.items()
        if name in worse and -one.mean > limits.criterion_margin
    }
    numbers = {"differences": {name: round(one.mean, 4) for name, one in known.items()}}
    below = [name for name in floors if name in known and _fell_below(known[name], floors[name])]
    crossed = [name for name in below if name in worse]
    floor_rule = (
        violated("floor_regression", f"{', '.join(crossed)} fell below the floor", crossed=crossed)
        if crossed
        else holds(
            "floor_regression",
            f"{', '.join(below)} crossed the floor, which chance explains"
            if below
            else "no criterion fell below its floor",
            crossed=below,
        )
    )
    id = "criterion_regression"
    if lost:
        what = ", ".join(f"{name} fell by {-mean:.1f} points" for name, mean in lost.items())
        return violated(id, what, **numbers), floor_rule
    for name, one in guarded.items():
        low = lower_end(one.groups, level=0.95)
        if low is None or low <= -limits.criterion_margin:
            return undecided(id, f"the guardrail {name} may have fallen", low=low, **numbers), (
                floor_rule
            )
    return holds(id, "no criterion is shown to be worse", **numbers), floor_rule


class _Criterion(NamedTuple):
    """A criterion on both sides, in points of 100."""

    groups: Groups
    mean: float
    candidate: float
    baseline: float


def _criterion(pairs: Sequence[Pair], name: str) -> _Criterion | None:
    sides = [(pair.group, norms) for pair in pairs if (norms := norm_seen(pair, name)) is not None]
    if len(sides) < 2:
        return None
    n = len(sides)
    ours, theirs = (float(sum(norms[side] for _, norms in sides)) / n / 1e7 for side in (0, 1))
    differences = [(group, (norms[0] - norms[1]) / 10**7) for group, norms in sides]
    return _Criterion(groups_of(differences), ours - theirs, ours, theirs)


def _fell_below(one: _Criterion, floor: int) -> bool:
    return one.candidate < floor / 1e7 <= one.baseline


def _shown_worse(family: Mapping[str, Groups], level: float) -> frozenset[str]:
    """Those shown to be worse, by Holm's step-down over all of them."""
    shown: set[str] = set()
    while len(shown) < len(family):
        at = 1 - level / (len(family) - len(shown))
        more = {
            name
            for name, groups in family.items()
            if name not in shown and (end := upper_end(groups, level=at)) is not None and end < 0
        }
        if not more:
            break
        shown |= more
    return frozenset(shown)


# --- operations


def operations(pairs: Sequence[Pair], limits: Limits) -> list[RuleResult]:
    """Where the policy limits them: cost and latency rose by less than it allows."""
    allowed = {"cost_usd": limits.cost_increase, "latency_ms": limits.latency_increase}
    return [
        _operation(pairs, name, increase)
        for name, increase in allowed.items()
        if increase is not None
    ]


def _operation(pairs: Sequence[Pair], name: str, increase: float) -> RuleResult:
    ratios = []
    for pair in pairs:
        sides = [
            [run.used[name] for run in side.attempts if run.used.get(name, 0) > 0]
            for side in (pair.candidate, pair.baseline)
        ]
        if all(sides):
            ours, theirs = (sum(values) / len(values) for values in sides)
            ratios.append((pair.group, log(ours / theirs)))
    id, limit = "operations", log(1 + increase)
    low, high = (
        (None, None)
        if len(ratios) < 2
        else (
            lower_end(groups_of(ratios), level=0.995),
            upper_end(groups_of(ratios), level=0.95),
        )
    )
    numbers = {"what": name, "low": low, "high": high, "n": len(ratios)}
    if low is None or high is None:
        return undecided(id, f"{name} is not known on both sides", **numbers)
    if low > limit:
        return violated(id, f"{name} rose by more than {increase:.0%}", **numbers)
    if high <= limit:
        return holds(id, f"{name} rose by less than {increase:.0%}", **numbers)
    return undecided(id, f"{name} may have risen by more than {increase:.0%}", **numbers)
