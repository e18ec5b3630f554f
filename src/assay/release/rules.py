"""The rules of a release: each a pure function of the pairs and the limits of the policy, none
changed after it was computed.

A rule holds, is violated, or is open. Violated means shown: the chance that a version is rejected
against itself is the sum of the rules' levels, 5% in all. Open means that the evidence decides
nothing yet, and the reason says what would. No rule turns against an improvement: see
`stats.monotone` and `stats.exchange`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from math import fsum, log
from types import MappingProxyType
from typing import Any, NamedTuple

from assay.errors import count, few
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
    Attempt,
    Check,
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
from assay.release.pass_rate import BarResult
from assay.release.policy import Errors as Errors
from assay.release.policy import Limits as Limits
from assay.stats.bounded import Mass, bounded
from assay.stats.clusters import Groups
from assay.stats.estimate import counted_sum
from assay.stats.exchange import exchange_test
from assay.stats.monotone import lower_end, upper_end, upper_rate_end

SEVERE_TURNS = 4
"""Fresh runs of each side that show a severe failure."""
SHOWN = 50
"""Items that a rule's evidence lists; all are counted."""
TINY = 1e-9
"""P-values below this are all alike."""
FEW = 100
"""Pairs below which the bound that assumes nothing may vouch for skewed differences."""


_ALONE = "fewer than two independent samples"


class Judged(NamedTuple):
    """All rules, and the suspects with their verdicts."""

    rules: tuple[RuleResult, ...]
    suspects: tuple[Suspect, ...]
    turns: int
    """Fresh turns that a suspect needs."""
    criteria: Mapping[str, CriterionChange] = MappingProxyType({})
    """Every criterion on both sides."""


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
    incomparable: Mapping[str, str] = MappingProxyType({}),
    slices: Mapping[str, Sequence[Pair]] = MappingProxyType({}),
) -> Judged:
    """Every rule on these pairs. `floors` are the critical floors of the baseline's criteria, in
    billionths; `accepted` are failures that somebody may accept, and did. `incomparable` samples
    are not among the pairs, each with the reason.
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
    known = criterion_changes(pairs)
    rules = (
        complete(pairs, limits, fresh, incomparable),
        new_failures(pairs, limits, found, runs, accepted, turns),
        gate_failure_rate(pairs, limits),
        score_non_inferiority(pairs, limits),
        *criteria(known, limits, floors, slices),
        severe_failures(pairs, limits, runs),
        *operations(pairs, limits),
    )
    return Judged(rules, tuple(found), turns, known)


BLOCKING = ("complete", "severe_failures", "pass_rate")
"""The rules that hold up a candidate even if it only has to be not shown to be worse."""


def outcome_of(
    rules: Sequence[RuleResult], *, pairs: int, limits: Limits, too_weak: str = ""
) -> tuple[Outcome, str]:
    """The outcome of the rules, and its reason. `too_weak` says why these samples can't show what
    the policy asks; empty if they can.
    """
    shown = [rule for rule in rules if rule.violated]
    if shown and pairs:
        more = f" (and {count(len(shown) - 1, 'more rule')})" if len(shown) > 1 else ""
        return "reject", f"{shown[0].id}: {shown[0].reason}{more}"
    if pairs < limits.min_pairs:
        return (
            "not_enough_evidence",
            f"{count(pairs, 'paired sample')}; the policy asks for at least {limits.min_pairs}",
        )
    if too_weak:
        return "not_enough_evidence", too_weak
    for rule in rules:
        if rule.holds is not True and (not limits.lenient or rule.id in BLOCKING):
            return "hold", f"{rule.id}: {rule.reason}"
    if limits.lenient:
        return "promote", "no rule is shown to be violated"
    return "promote", "every rule holds"


# --- completeness


def complete(
    pairs: Sequence[Pair],
    limits: Limits,
    fresh: Fresh | None,
    incomparable: Mapping[str, str],
) -> RuleResult:
    """Nothing that was announced is missing. What is absent from every run is lost, once fresh runs
    were made or can't be.
    """
    absent: list[dict[str, str]] = []
    partly: list[dict[str, str]] = []
    for pair in pairs:
        lacking = _lacking(pair)
        if not lacking:
            continue
        again = () if fresh is None else fresh.get(pair.sample, ())
        runs = [turn.candidate for turn in again if turn.candidate is not None]
        final = bool(again) or limits.deterministic or not limits.confirm
        everything = [*pair.candidate.attempts, *runs]
        for what, is_there in lacking.items():
            gone = final and not any(map(is_there, everything))
            (absent if gone else partly).append({"sample": pair.sample, "what": what})
    if absent:
        reason = f"missing from every run of the candidate: {_listed(pairs, absent)}"
        return violated("complete", reason, lost=absent[:SHOWN], lost_count=len(absent))
    if partly:
        samples = len({item["sample"] for item in partly})
        lack = "lacks results, so run it" if samples == 1 else "lack results, so run them"
        reason = f"{count(samples, 'sample')} {lack} again: {_listed(pairs, partly)}"
        return undecided("complete", reason, missing=partly[:SHOWN], missing_count=len(partly))
    if incomparable:
        first, why = next(iter(sorted(incomparable.items())))
        reason = (
            f"{count(len(incomparable), 'sample')} can't be compared, such as {first}: {why}."
            " Evaluate the baseline again with what the candidate was checked for"
        )
        listed = [{"sample": name, "what": why} for name, why in sorted(incomparable.items())]
        return undecided(
            "complete", reason, incomparable=listed[:SHOWN], incomparable_count=len(listed)
        )
    return holds("complete", "nothing that was announced is missing")


def _listed(pairs: Sequence[Pair], items: Sequence[Mapping[str, str]]) -> str:
    titles = {pair.sample: pair.name for pair in pairs}
    return few([f"{item['what']} of {titles[item['sample']]}" for item in items], 3)


def _names(pairs: Sequence[Pair], samples: Sequence[str]) -> str:
    """Some samples, as people know them."""
    titles = {pair.sample: pair.name for pair in pairs}
    return few([titles[sample] for sample in samples], 3)


def _lacking(pair: Pair) -> dict[str, Callable[[Attempt], bool]]:
    """What the candidate lacks of what the baseline has, or was to have, in any of its runs; each
    with whether a run has it.
    """
    lacking: dict[str, Callable[[Attempt], bool]] = {}
    side = pair.candidate
    if _has_all(pair):
        return lacking
    if side.lost or not side.attempts:
        lacking["runs"] = lambda run: True
    ran = [run for run in side.attempts if not run.errored]
    for check in sorted({check for check in pair.checks if check.kind == "gate"}):
        if any(check not in run.judged for run in ran):
            lacking[str(check)] = partial(_judges, check)
    unjudged = {check for run in ran for check in run.unjudged}
    unjudged |= {
        check
        for other in pair.baseline.attempts
        for check in other.unjudged
        if any(check not in run.judged for run in ran)
    }
    for check in sorted(unjudged):
        # where the baseline has no verdict either, fresh runs may not bring one
        lacking.setdefault(str(check), lambda run: True)
    for name in sorted(pair.criteria):
        if any(run.norm(name) is None for run in ran):
            lacking[f"score {name}"] = partial(_scores, name)
    return lacking


def _has_all(pair: Pair) -> bool:
    """Whether every run of the candidate has what every run of the baseline has: most pairs need no
    closer look.
    """
    runs, bar = pair.candidate.attempts, pair.baseline.attempts
    return bool(
        runs
        and not pair.candidate.lost
        and all(
            not (run.errored or run.unjudged or run.gaps)
            and all(
                not known.unjudged and run.judged >= known.judged and run.criteria == known.criteria
                for known in bar
            )
            for run in runs
        )
    )


def _judges(check: Check, run: Attempt) -> bool:
    return check in run.judged


def _scores(name: str, run: Attempt) -> bool:
    return run.norm(name) is not None


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
        return violated(
            id,
            f"{float(rise.mean):.1%} more of the runs fail than in the baseline, which chance does"
            f" not explain ({_shown(p)})",
            **numbers,
        )
    if not limits.confirm and not limits.deterministic:
        high = upper_rate_end(rise_feared(pairs, fails_any()).groups, level=0.95)
        if high is not None and high <= limits.gate_margin:
            return holds(id, f"failures rose by {high:.1%} at most", high=high, **numbers)
        may = "these samples can't tell" if high is None else f"they may have risen by {high:.1%}"
        return undecided(
            id, f"failures may rise by {limits.gate_margin:.1%}, and {may}", high=high, **numbers
        )
    shipped = [suspect for suspect in suspects if (suspect.sample, suspect.check) in accepted]
    suspects = [suspect for suspect in suspects if (suspect.sample, suspect.check) not in accepted]
    confirmed = [suspect for suspect in suspects if suspect.verdict == "confirmed"]
    if len(confirmed) > limits.new_failures:
        names = list(dict.fromkeys(suspect.sample for suspect in confirmed))
        how = "" if limits.deterministic else ", confirmed by fresh runs"
        what = f"{count(len(names), 'sample')} newly fail{'s' * (len(names) == 1)}{how}"
        return violated(id, f"{what}: {_names(pairs, names)}", confirmed=len(confirmed), **numbers)
    unsettled = [suspect for suspect in suspects if suspect.verdict == "open"]
    if has_world_changed(suspects, fresh):
        reason = "the baseline fails in its fresh runs what it passed before: evaluate it again"
        return undecided(id, reason, **numbers)
    if unsettled:
        names = list(dict.fromkeys(suspect.sample for suspect in unsettled))
        reason = (
            f"{count(len(names), 'sample')} may newly fail, or this may be noise: run"
            f" {'it' if len(names) == 1 else 'each'} up to {turns} times on both sides"
            f" ({_names(pairs, names)})"
        )
        return undecided(id, reason, open=len(unsettled), **numbers)
    reason = "no sample newly fails" if not suspects else "every suspect was cleared by fresh runs"
    if shipped:
        names = list(dict.fromkeys(suspect.sample for suspect in shipped))
        reason = f"accepted all the same: {few(names, 3)}" + (f"; {reason}" if suspects else "")
    return holds(id, reason, **numbers)


def _shown(p: float) -> str:
    """A p-value in words."""
    return f"p = {p:.2g}" if p >= TINY else "p < 1e-9"


def gate_failure_rate(pairs: Sequence[Pair], limits: Limits) -> RuleResult:
    """The mean share of runs that fail a gate does not rise."""
    id, failing = "gate_failure_rate", fails_any(("gate",))
    rise = rise_seen(pairs, failing)
    p = exchange_test(rise.exchange)
    feared = rise_feared(pairs, failing)
    # a system that always gives the same result leaves nothing to chance
    high = (
        float(feared.mean)
        if limits.deterministic and pairs
        else upper_rate_end(feared.groups, level=0.95)
    )
    allowed = limits.gate_increase + limits.gate_margin
    numbers = {"mean_rise": float(rise.mean), "p": p, "high": high, "allowed": allowed}
    if p <= limits.errors.gates and rise.mean > limits.gate_increase:
        return violated(
            id, f"gates fail in {float(rise.mean):.1%} more of the runs ({_shown(p)})", **numbers
        )
    if high is None:
        return undecided(id, _ALONE, **numbers)
    if high <= allowed:
        return holds(
            id,
            f"gate failures rose by {max(high, 0):.1%} at most; {allowed:.1%} is allowed",
            **numbers,
        )
    reason = f"gate failures may have risen by {high:.1%}; {allowed:.1%} is allowed"
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
        return violated(
            id,
            f"severe failures in {float(rise.mean):.1%} more of the runs ({_shown(p)})",
            **numbers,
        )
    if more and limits.deterministic:
        return violated(id, f"newly severe in {_names(pairs, more)}", **numbers)
    unsettled = []
    for sample in more:
        turns = fresh.get(sample, ())
        if clean and _is_shown(turns):
            return violated(
                id, f"{_names(pairs, [sample])} fails severely in every fresh run", **numbers
            )
        if not _is_cleared(turns, limits.severe_turns):
            unsettled.append(sample)
    if unsettled:
        reason = (
            f"{count(len(unsettled), 'sample')} failed severely, which may be chance: run"
            f" {'it' if len(unsettled) == 1 else 'each'} {limits.severe_turns} times on both sides"
            f" ({_names(pairs, unsettled)})"
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
    level = limits.errors.score
    high = upper_end(groups_of(seen), level=1 - level) if seen and level else None
    mean = fsum(difference for _, difference in feared) / len(feared) if feared else None
    numbers = {"mean": mean, "low": low, "high": high, "margin": limits.margin}
    if low is None or (high is None and level):
        few_seen = "fewer than two samples ran on both sides without an error"
        return undecided(id, few_seen if low is not None else _ALONE, **numbers)
    margin = f"{limits.margin:g}"
    if low > -limits.margin:
        found = "did not fall" if low >= 0 else f"fell by {-low:.2f} points at most"
        return holds(id, f"the mean score {found}; {margin} are allowed", **numbers)
    if high is not None and high < 0:
        found = f"the mean score fell by {-high:.2f} points at least, {-(mean or 0):.2f} as seen"
        return violated(id, found, **numbers)
    reason = (
        f"the mean score may have fallen by {-low:.2f} points, and {margin} are allowed; these"
        " samples can't tell"
    )
    return undecided(id, reason, **numbers)


def _lower(differences: Sequence[tuple[Any, Any]], limits: Limits) -> float | None:
    """The end that must be above minus the margin: Student's with and without skew, or below `FEW`
    pairs the bound that assumes nothing in place of the one with skew.
    """
    if len(differences) < 2:
        return None
    groups = groups_of(differences)
    bound = _bound(groups, limits.level) if limits.bounded or len(differences) < FEW else None
    if limits.bounded:
        return bound
    level = 0.5 + limits.level / 2
    plain, leaning = (lower_end(groups, level=level, lean=lean) for lean in (False, True))
    if plain is None or leaning is None:
        return None
    return min(plain, leaning if bound is None else max(leaning, bound))


def _bound(groups: Groups, level: float) -> float | None:
    masses = [Mass(total / size, times, float(size)) for size, total, _, times in groups.rows()]
    return bounded(masses, lowest=-100.0, highest=100.0, level=level).low


class CriterionChange(NamedTuple):
    """A criterion on both sides, in points of 100."""

    groups: Groups
    """The differences, summed over groups."""
    n: int
    candidate: float
    baseline: float

    @property
    def difference(self) -> float:
        """The mean of candidate minus baseline."""
        return self.candidate - self.baseline


def criterion_changes(pairs: Sequence[Pair]) -> dict[str, CriterionChange]:
    """Every criterion that at least two samples have on both sides."""
    names = sorted(
        {name for pair in pairs for run in pair.baseline.attempts for name in run.criteria}
    )
    found = {name: _change(pairs, name) for name in names}
    return {name: change for name, change in found.items() if change is not None}


def _change(pairs: Sequence[Pair], name: str) -> CriterionChange | None:
    sides = [(pair.group, norms) for pair in pairs if (norms := norm_seen(pair, name)) is not None]
    if len(sides) < 2:
        return None
    n = len(sides)
    ours, theirs = (float(sum(norms[side] for _, norms in sides)) / n / 1e7 for side in (0, 1))
    differences = [(group, (norms[0] - norms[1]) / 10**7) for group, norms in sides]
    return CriterionChange(groups_of(differences), n, ours, theirs)


def criteria(
    known: Mapping[str, CriterionChange],
    limits: Limits,
    floors: Mapping[str, int],
    slices: Mapping[str, Sequence[Pair]] = MappingProxyType({}),
) -> list[RuleResult]:
    """No criterion got worse by its margin, none fell below its floor, and no slice got worse:
    Holm's step-down over all of them.
    """
    parts = _slice_changes(slices)
    tested = {("criterion", name): change.groups for name, change in known.items()}
    tested |= {("slice", name): groups for name, (groups, _) in parts.items()}
    worse = _shown_worse(tested, limits.errors.criteria)
    rules = [_criterion_rule(known, worse, limits), _floor_rule(known, worse, floors)]
    if slices:
        rules.append(_slice_rule(parts, worse, limits))
    return rules


_Tested = tuple[str, str]
"""A kind and a name of what is tested in Holm's family."""


def _criterion_rule(
    known: Mapping[str, CriterionChange], worse: frozenset[_Tested], limits: Limits
) -> RuleResult:
    id = "criterion_regression"
    numbers = {"differences": {name: round(one.difference, 4) for name, one in known.items()}}
    lost = [
        name
        for name, one in known.items()
        if ("criterion", name) in worse and -one.difference > limits.criterion_margin
    ]
    if lost:
        what = ", ".join(f"{name} fell by {-known[name].difference:.2f} points" for name in lost)
        return violated(id, f"{what}; {limits.criterion_margin:g} are allowed", **numbers)
    for name in sorted(limits.guardrails):
        low = lower_end(known[name].groups, level=0.95) if name in known else None
        if low is None or low <= -limits.criterion_margin:
            may = "has too few scores" if low is None else f"may have fallen by {-low:.2f} points"
            return undecided(id, f"the guardrail {name} {may}", low=low, **numbers)
    return holds(id, "no criterion is shown to be worse by more than allowed", **numbers)


def _floor_rule(
    known: Mapping[str, CriterionChange],
    worse: frozenset[_Tested],
    floors: Mapping[str, int],
) -> RuleResult:
    id = "floor_regression"
    below = [
        name
        for name, floor in sorted(floors.items())
        if name in known and known[name].candidate < floor / 1e7 <= known[name].baseline
    ]
    crossed = [name for name in below if ("criterion", name) in worse]
    if crossed:
        what = ", ".join(
            f"{name} fell from {known[name].baseline:.2f} to {known[name].candidate:.2f}, below its"
            f" floor of {floors[name] / 1e7:g}"
            for name in crossed
        )
        return violated(id, what, crossed=crossed)
    if below:
        return holds(id, f"{', '.join(below)} crossed a floor, as chance would", crossed=below)
    return holds(id, "no criterion fell below its floor", crossed=[])


def _slice_changes(
    slices: Mapping[str, Sequence[Pair]],
) -> dict[str, tuple[Groups, float]]:
    found = {}
    for name, members in slices.items():
        seen = [
            (pair.group, difference)
            for pair in members
            if (difference := score_seen(pair)) is not None
        ]
        if len(seen) > 1:
            mean = fsum(difference for _, difference in seen) / len(seen)
            found[name] = (groups_of(seen), mean)
    return found


def _slice_rule(
    parts: Mapping[str, tuple[Groups, float]], worse: frozenset[_Tested], limits: Limits
) -> RuleResult:
    lost = [
        name
        for name, (_, mean) in parts.items()
        if ("slice", name) in worse and -mean > limits.margin
    ]
    numbers = {"differences": {name: round(mean, 4) for name, (_, mean) in parts.items()}}
    if lost:
        what = ", ".join(f"{name} fell by {-parts[name][1]:.2f} points" for name in lost)
        return violated("slices", what, violated_slices=lost, **numbers)
    return holds("slices", "no slice is shown to be worse by more than the margin", **numbers)


def _shown_worse(family: Mapping[_Tested, Groups], level: float) -> frozenset[_Tested]:
    """Those shown to be worse, by Holm's step-down over all of them."""
    # no upper end is below the mean
    lower = {
        name: groups
        for name, groups in family.items()
        if counted_sum(zip(groups.totals, groups.times, strict=True)) < 0
    }
    shown: set[_Tested] = set()
    while level and len(shown) < len(family):
        at = 1 - level / (len(family) - len(shown))
        more = {
            name
            for name, groups in lower.items()
            if name not in shown and (end := upper_end(groups, level=at)) is not None and end < 0
        }
        if not more:
            break
        shown |= more
    return frozenset(shown)


def pass_rate(result: BarResult) -> RuleResult:
    """The minimum pass rate of the candidate."""
    build = holds if result.holds else undecided if result.holds is None else violated
    return build("pass_rate", result.reason, **result.evidence)


# --- operations


LIMITED = {"cost_usd": "cost", "latency_ms": "latency"}
"""What a policy may limit of a run's operations, in words."""


def operations(pairs: Sequence[Pair], limits: Limits) -> list[RuleResult]:
    """Where the policy limits them: cost and latency rose by less than it allows."""
    allowed = {"cost_usd": limits.cost_increase, "latency_ms": limits.latency_increase}
    limited = {name: increase for name, increase in allowed.items() if increase is not None}
    if not limited:
        return []
    level = limits.errors.operations / len(limited)
    found = [_operation(pairs, name, increase, level) for name, increase in limited.items()]
    worst = min(found, key=lambda rule: (not rule.violated, rule.holds is True))
    evidence = {str(rule.evidence["what"]): rule.evidence for rule in found}
    return [
        RuleResult(
            id="operations",
            holds=worst.holds,
            violated=worst.violated,
            reason="; ".join(rule.reason for rule in found),
            evidence=evidence,
        )
    ]


def ratios_of(pairs: Sequence[Pair], name: str) -> list[tuple[Hashable | None, float]]:
    """The logarithm of candidate over baseline in each sample in which both are known."""
    ratios = []
    for pair in pairs:
        sides = [
            [used for run in side.attempts if (used := run.use(name) or 0.0) > 0]
            for side in (pair.candidate, pair.baseline)
        ]
        if all(sides):
            ours, theirs = (sum(values) / len(values) for values in sides)
            ratios.append((pair.group, log(ours / theirs)))
    return ratios


def _operation(pairs: Sequence[Pair], name: str, increase: float, level: float) -> RuleResult:
    ratios, what = ratios_of(pairs, name), LIMITED[name]
    id, limit = "operations", log(1 + increase)
    low = high = None
    if len(ratios) > 1:
        groups = groups_of(ratios)
        low = lower_end(groups, level=1 - level) if level else None
        high = upper_end(groups, level=0.95)
    numbers = {"what": name, "low": low, "high": high, "n": len(ratios), "allowed": increase}
    if high is None:
        return undecided(id, f"the {what} of a run is not known on both sides", **numbers)
    if low is not None and low > limit:
        return violated(id, f"{what} rose by more than {increase:.0%}", **numbers)
    if high <= limit:
        return holds(id, f"{what} did not rise by more than {increase:.0%}", **numbers)
    return undecided(id, f"{what} may have risen by more than {increase:.0%}", **numbers)
