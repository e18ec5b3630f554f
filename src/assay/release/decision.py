"""A decision from its pairs: the rules, the outcome that follows from them, and the record of both,
`assay.decision/1`.

The rules are judged on the baseline's contract. Where the candidate's own asks for something else,
they are judged on that too, which can only turn a promotion into a hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from math import exp
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import asdict, replace

from assay import exact
from assay.canon import digest
from assay.errors import count, few
from assay.records.decision import (
    SIDES,
    ComparisonRecord,
    Confirmation,
    ContractChange,
    Counted,
    CriterionDifference,
    Decision,
    Difference,
    ErrorBudget,
    Expectation,
    Fingerprint,
    FlakySample,
    MissingSamples,
    OperationDifference,
    Outcome,
    RuleResult,
    SampleOverlap,
    SidesCounted,
    SliceComparison,
    SuspectRecord,
    WorseSample,
)
from assay.records.summary import value_interval
from assay.release.confirmation import Fresh, Suspect
from assay.release.observations import PASS, USED, Attempt, Check, Pair, Share, fails, score_feared
from assay.release.pass_rate import check_pass_rate, passed_share
from assay.release.plan import WANTED, expectation_of, too_weak
from assay.release.policy import Limits, ReleaseRules
from assay.release.rules import (
    CriterionChange,
    Judged,
    judge,
    outcome_of,
    pass_rate,
    ratios_of,
)
from assay.release.sides import Side, slices_of
from assay.stats.clusters import Groups, estimate_grouped_mean
from assay.stats.comparison import Comparison, compare_differences
from assay.stats.confirmation import false_alarm
from assay.stats.estimate import DIFFERENCES, on_scale
from assay.stats.flaky import find_flaky
from assay.stats.intervals import Interval, mcnemar
from assay.stats.means import estimate_counted_mean

EXITS = {"promote": 0, "hold": 1, "reject": 1, "not_enough_evidence": 4}
"""The exit code of each outcome."""
MAX_LISTED = 1000
"""Samples of a kind that a decision lists; all are counted."""
MAX_WORSE = 10
"""Samples that are listed as the worst."""


class Terms(NamedTuple):
    """What a decision depends on besides the two sides and the policy."""

    left_out: Collection[str] = ()
    """Samples that the user excluded, by their full names."""
    slices: tuple[str, ...] = ()
    plan: Mapping[str, Any] | None = None
    """The declared plan, as the decision records it."""
    samples: tuple[str, ...] | None = None
    """The samples that the plan declares."""
    fresh: Fresh | None = None
    accepted: Mapping[tuple[str, Check], str] = {}
    """Failures that somebody accepted, and why."""
    shrinkage: exact.Pull | None = None
    """How the grading policy pulls norms towards its prior."""


class Paired(NamedTuple):
    """The pairs of two sides, as they are judged."""

    pairs: Sequence[Pair]
    own: Sequence[Pair] | None = None
    """The same under the candidate's own contract; None where it is the baseline's."""
    incomparable: Mapping[str, str] = {}
    """Samples that can't be compared, each with the reason."""
    changed: ContractChange | None = None
    overlap: SampleOverlap | None = None


class Notes(NamedTuple):
    """What decides nothing, and a reader should know."""

    all: Sequence[str] = ()
    loud: Sequence[str] = ()
    """Those of them that no reader may miss."""
    regraded: Sequence[str] = ()
    """What was graded by something else when it was stored."""


def decide(
    paired: Paired,
    candidate: Side,
    baseline: Side,
    rules: ReleaseRules,
    terms: Terms,
    *,
    notes: Notes = Notes(),  # noqa: B008
) -> Decision:
    """The decision on two sides."""
    limits, pairs = rules.limits, paired.pairs
    slices = slices_of(pairs, baseline, terms.slices)
    floors = baseline.floors()
    judged = _judged(paired, pairs, floors, rules, terms, slices)
    results = list(judged.rules)
    if rules.bar is not None:
        passed = sum((_pass_share(pair, rules) for pair in pairs), Fraction(0))
        whole = int(passed) if passed.denominator == 1 else passed
        results.append(pass_rate(check_pass_rate(whole, len(pairs), rules.bar)))
    n = sum(bool(pair.candidate.attempts and pair.baseline.attempts) for pair in pairs)
    expected = expectation_of(pairs, limits)
    weak = too_weak(expected, results, n, limits) if n > 1 else ""
    outcome, reason = outcome_of(results, pairs=n, limits=limits, too_weak=weak)
    changed = paired.changed
    if changed is not None and paired.own is not None:
        own = _judged(paired, paired.own, floors, rules, terms, {})
        own_outcome, own_reason = outcome_of(own.rules, pairs=n, limits=limits)
        changed = replace(changed, own_outcome=own_outcome)
        if outcome == "promote" and own_outcome != "promote":
            outcome = "hold"
            reason = f"under what the candidate itself was asked: {own_reason}"
    if outcome == "promote" and limits.lenient is False:
        reason = _promoted(reason, results)
    comparison = _comparison(pairs, rules, results)
    named = systems(candidate, rules)
    worse = worst_of(pairs)
    missing = _missing(pairs, candidate, baseline, terms)
    flaky = flaky_samples(candidate, baseline, rules.level)
    record = Decision(
        outcome=outcome,
        reason=reason,
        rules=results,
        comparison=comparison_record(
            comparison,
            n_candidate=len(candidate.samples),
            n_baseline=len(baseline.samples),
            n_paired=n,
            mcnemar_p=_passes(pairs),
            adjusted=adjusted_difference(judged.criteria, pairs, baseline, terms.shrinkage),
        ),
        would_change=_advice(results, outcome, judged, expected, pairs, limits),
        missing=missing,
        worse=worse,
        confirmation=_confirmation(judged, pairs, rules, terms),
        errors=ErrorBudget(
            reject_at_most=rules.reject_at_most,
            by_rule={name: level for name, level in limits.errors._asdict().items() if level},
        ),
        criteria={
            name: CriterionDifference(
                n=change.n,
                candidate=round(change.candidate, 6),
                baseline=round(change.baseline, 6),
                difference=value_interval(_interval(change.groups, limits.level)),
                guardrail=name in limits.guardrails,
            )
            for name, change in judged.criteria.items()
        },
        operations=_operations(pairs),
        expectation=expected,
        candidate=replace(candidate.summary, name=candidate.name),
        baseline=replace(baseline.summary, name=baseline.name),
        fingerprint=Fingerprint(
            digest=candidate.fingerprint_digest, fields=dict(candidate.fingerprint)
        ),
        plan=dict(terms.plan or {}),
        policy=rules.policy,
        digests={},
        looks=rules.looks,
        titles=_titles(pairs, judged, worse, missing, flaky) or UNSET,
        contracts=UNSET if changed is None else changed,
        flaky=flaky,
        notes=list(notes.all) or UNSET,
        loud=list(notes.loud) or UNSET,
        regraded=list(notes.regraded) or UNSET,
        unplanned=UNSET
        if terms.samples is None
        else sorted((candidate.samples.keys() | baseline.samples.keys()) - set(terms.samples)),
        slices=UNSET if not terms.slices else _slices(slices, results, limits.level),
        overrides=list(rules.overrides) or UNSET,
        overlap=UNSET if paired.overlap is None else paired.overlap,
        scoring_system=named["scoringSystem"],
        grading_system=named["gradingSystem"],
    )
    content = {key: value for key, value in record.tree().items() if key != "digests"}
    return replace(
        record,
        digests={
            "policy": rules.digest,
            **{
                name: side.digests["evidence"]
                for name, side in zip(SIDES, (candidate, baseline), strict=True)
            },
            "decision": digest(content),
        },
    )


def _judged(
    paired: Paired,
    pairs: Sequence[Pair],
    floors: Mapping[str, int],
    rules: ReleaseRules,
    terms: Terms,
    slices: Mapping[str, Sequence[Pair]],
) -> Judged:
    return judge(
        pairs,
        rules.limits,
        floors=floors,
        fresh=terms.fresh,
        accepted=frozenset(terms.accepted),
        incomparable=paired.incomparable,
        slices=slices,
    )


def _pass_share(pair: Pair, rules: ReleaseRules) -> Fraction:
    """How much of a sample the candidate passed, under what its baseline was asked."""
    side, failing = pair.candidate, fails(PASS)
    passed = sum(failing(run) is False for run in side.attempts)
    return passed_share(passed, side.announced, rules.passed_by)


def _promoted(reason: str, results: Sequence[RuleResult]) -> str:
    score = next(rule for rule in results if rule.id == "score_non_inferiority")
    low = score.evidence.get("low")
    return f"{reason}; the candidate is better" if low is not None and low > 0 else reason


def systems(side: Side, rules: ReleaseRules) -> dict[str, str]:
    """The systems that a decision on this side is made under: those of its grades, and the release
    policy if it is not the published default.
    """
    scoring, grading = (
        ", ".join(side.fingerprint[name]) for name in ("scoringSystem", "gradingSystem")
    )
    return {"scoringSystem": scoring, "gradingSystem": rules.grading_system(grading)}


# --- the scores


def _comparison(
    pairs: Sequence[Pair], rules: ReleaseRules, results: Sequence[RuleResult]
) -> Comparison:
    """The ordinary paired comparison that is shown; the rules read ends that differ from it."""
    values = [(pair.group, round(score_feared(pair), 9)) for pair in pairs]
    shared = any(group is not None for group, _ in values)
    members: dict[Any, Counter[float]] = {}
    for place, (group, value) in enumerate(values):
        members.setdefault((place,) if group is None else group, Counter())[value] += 1
    found = compare_differences(
        Counter(value for _, value in values),
        margin=rules.margin,
        groups=Groups.of(members.values(), {}) if shared else None,
        level=rules.level,
        power=rules.limits.power,
        guaranteed=rules.limits.bounded,
        believed=not rules.limits.bounded,
    )
    score = next(rule for rule in results if rule.id == "score_non_inferiority")
    return found._replace(claims=found.claims._replace(non_inferior=score.holds is True))


def comparison_record(
    comparison: Comparison,
    *,
    n_candidate: int,
    n_baseline: int,
    n_paired: int,
    mcnemar_p: float | None,
    adjusted: float | None,
) -> ComparisonRecord:
    """The numbers of a comparison, on 0..100."""
    interval = asdict(value_interval(comparison.difference))
    return ComparisonRecord(
        n_candidate=n_candidate,
        n_baseline=n_baseline,
        n_paired=n_paired,
        difference=Difference(estimate=interval.pop("value"), **interval),
        adjusted_difference=adjusted,
        margin=comparison.margin,
        non_inferior=comparison.claims.non_inferior,
        superior=comparison.claims.superior,
        equivalent=comparison.claims.equivalent,
        p={
            "non_inferior": comparison.p_non_inferior,
            "superior": comparison.p_superior,
            "equivalent": comparison.p_equivalent,
        },
        mcnemar_p=mcnemar_p,
        minimum_detectable_effect=comparison.minimum_detectable_effect,
        wins=comparison.wins,
        losses=comparison.losses,
        ties=comparison.ties,
        sd=comparison.sd,
        clusters=comparison.clusters,
    )


def compared(pairs: Sequence[Pair], rules: ReleaseRules) -> ComparisonRecord:
    """The comparison of these pairs without a decision."""
    scored = [pair for pair in pairs if pair.candidate.attempts and pair.baseline.attempts]
    found = compare_differences(
        Counter(round(score_feared(pair), 9) for pair in scored),
        margin=rules.margin,
        level=rules.level,
        power=rules.limits.power,
        believed=True,
    )
    return comparison_record(
        found,
        n_candidate=sum(bool(pair.candidate.attempts) for pair in pairs),
        n_baseline=sum(bool(pair.baseline.attempts) for pair in pairs),
        n_paired=len(scored),
        mcnemar_p=_passes(scored),
        adjusted=None,
    )


def _passes(pairs: Sequence[Pair]) -> float | None:
    """The exact two-sided p-value of McNemar's test on which samples pass in all of their runs."""
    gained = lost = n = 0
    for pair in pairs:
        ours, theirs = (Share.seen(side, fails(PASS)) for side in (pair.candidate, pair.baseline))
        if ours.runs and theirs.runs:
            n += 1
            gained += ours.failing == 0 < theirs.failing
            lost += theirs.failing == 0 < ours.failing
    return mcnemar(gained, lost) if n else None


def adjusted_difference(
    changes: Mapping[str, CriterionChange],
    pairs: Sequence[Pair],
    baseline: Side,
    shrinkage: exact.Pull | None,
) -> float | None:
    """The difference of the adjusted scores, formed once for each side and criterion, with n the
    samples that are paired. Formed for each run, the pull towards the prior would hide a drop of
    twenty points.
    """
    if shrinkage is None:
        return None
    weights: Counter[str] = Counter()
    for pair in pairs:
        if (sample := baseline.samples.get(pair.sample)) is not None:
            for name, weight in zip(sample.stratum.criteria, sample.stratum.weights, strict=True):
                weights[name] += weight
    total = sum(weights[name] for name in changes)
    if not total:
        return None
    difference = Fraction(0)
    for name, change in changes.items():
        mine, other = (
            exact.shrink(round(points * 10**7), change.n, shrinkage)
            for points in (change.candidate, change.baseline)
        )
        difference += Fraction(weights[name] * (mine - other), total)
    return float(difference * 100 / exact.NORM_ONE)


def _interval(groups: Groups, level: float) -> Interval:
    counts: Counter[float] = Counter()
    for size, value, _, times in groups.rows():
        counts[round(value / size, 9)] += size * times
    how: Any = {"range": DIFFERENCES, "level": level, "guaranteed": False, "believed": True}
    found = (
        estimate_counted_mean(counts, **how)
        if {*groups.sizes} == {1}
        else estimate_grouped_mean(counts, groups, **how)
    )
    return on_scale(found.interval, DIFFERENCES)


def _slices(
    slices: Mapping[str, Sequence[Pair]], results: Sequence[RuleResult], level: float
) -> list[SliceComparison]:
    rule = next((rule for rule in results if rule.id == "slices"), None)
    worse = [] if rule is None else rule.evidence.get("violated_slices", [])
    found = []
    for name, members in slices.items():
        differences = [(pair.group, score_feared(pair)) for pair in members]
        counts = Counter(round(value, 9) for _, value in differences)
        interval = compare_differences(counts, margin=0.0, level=level, believed=True).difference
        found.append(
            SliceComparison(
                slice=name,
                n=len(members),
                difference=value_interval(interval),
                worse=name in worse,
            )
        )
    return found


def _operations(pairs: Sequence[Pair]) -> dict[str, OperationDifference]:
    found = {}
    for name in USED:
        ratios = ratios_of(pairs, name)
        if not ratios:
            continue
        means = [_mean_use(pairs, side, name) for side in SIDES]
        found[name] = OperationDifference(
            n=len(ratios),
            candidate=means[0],
            baseline=means[1],
            ratio=exp(sum(ratio for _, ratio in ratios) / len(ratios)),
        )
    return found


def _mean_use(pairs: Sequence[Pair], side: str, name: str) -> float:
    """The mean over samples of the mean of their runs."""
    means: list[float] = []
    for pair in pairs:
        runs: Sequence[Attempt] = getattr(pair, side).attempts
        used = [value for run in runs if (value := run.use(name)) is not None]
        if used:
            means.append(sum(used) / len(used))
    return sum(means) / len(means)


# --- the samples


def worst_of(pairs: Sequence[Pair]) -> list[WorseSample]:
    """The samples on which the candidate lost the most points."""
    lost = []
    for pair in pairs:
        if not pair.candidate.attempts or not pair.baseline.attempts:
            continue
        difference = score_feared(pair)
        if difference < 0:
            lost.append((difference, pair))
    lost.sort(key=lambda item: (item[0], item[1].sample))
    return [
        WorseSample(
            sample=pair.sample,
            difference=round(float(difference), 4),
            candidate=_score(pair, "candidate"),
            baseline=_score(pair, "baseline"),
            newly_failed_gates=sorted(
                failed_names(pair, "candidate", "gate") - failed_names(pair, "baseline", "gate")
            ),
        )
        for difference, pair in lost[:MAX_WORSE]
    ]


def _score(pair: Pair, side: str) -> float:
    runs: Sequence[Attempt] = getattr(pair, side).attempts
    return float(Fraction(sum(run.score for run in runs), len(runs))) / 100


def failed_names(pair: Pair, side: str, kind: str) -> set[str]:
    """The gates, or the floors, that at least half of a side's runs fail."""
    runs = getattr(pair, side).attempts
    counts = Counter(check.name for run in runs for check in run.failed if check.kind == kind)
    return {name for name, times in counts.items() if 2 * times >= len(runs)}


def flaky_samples(candidate: Side, baseline: Side, level: float) -> list[FlakySample]:
    """The samples of either side that passed in some repeats and failed in others."""
    found = []
    for name, side in zip(SIDES, (candidate, baseline), strict=True):
        repeated = {
            sample.sample: [True] * sample.passed + [False] * (len(sample.attempts) - sample.passed)
            for sample in side.samples.values()
            if 0 < sample.passed < len(sample.attempts)
        }
        found += [
            FlakySample(
                sample=item.name,
                side=name,
                repeats=item.n,
                passed=item.passed,
                rate=value_interval(item.rate),
            )
            for item in find_flaky(repeated, level=level)
        ]
    return sorted(found, key=lambda item: (item.sample, item.side))[:MAX_LISTED]


def _missing(
    pairs: Sequence[Pair], candidate: Side, baseline: Side, terms: Terms
) -> MissingSamples:
    lost = {
        name: [
            pair.sample
            for pair in pairs
            if getattr(pair, name).lost or not getattr(pair, name).attempts
        ]
        for name in SIDES
    }
    paired = {pair.sample for pair in pairs}
    alone = sorted(candidate.samples.keys() - baseline.samples.keys() - paired)
    return MissingSamples(
        candidate=lost["candidate"][:MAX_LISTED],
        baseline=lost["baseline"][:MAX_LISTED],
        quarantined=sorted(terms.left_out),
        only_candidate=alone[:MAX_LISTED],
        candidate_total=_total(lost["candidate"]),
        baseline_total=_total(lost["baseline"]),
    )


def _titles(
    pairs: Sequence[Pair],
    judged: Judged,
    worse: Sequence[WorseSample],
    missing: MissingSamples,
    flaky: Sequence[FlakySample],
) -> dict[str, str]:
    """The titles of the samples that a decision names."""
    severe = next(rule for rule in judged.rules if rule.id == "severe_failures")
    named = {
        *(suspect.sample for suspect in judged.suspects),
        *severe.evidence["samples"],
        *(item.sample for item in worse),
        *(item.sample for item in flaky),
        *missing.candidate,
        *missing.baseline,
    }
    return {pair.sample: pair.title for pair in pairs if pair.title and pair.sample in named}


def _total(names: Sequence[str]) -> Any:
    return len(names) if len(names) > MAX_LISTED else UNSET


# --- confirmation


def _confirmation(
    judged: Judged, pairs: Sequence[Pair], rules: ReleaseRules, terms: Terms
) -> Confirmation:
    fresh = terms.fresh or {}
    alpha = rules.limits.errors.confirmed
    severe = next(rule for rule in judged.rules if rule.id == "severe_failures")
    waiting = [] if severe.holds or severe.violated else list(severe.evidence.get("open", ()))
    return Confirmation(
        needed=rules.limits.confirm
        and bool(waiting or any(suspect.verdict == "open" for suspect in judged.suspects)),
        repeats=judged.turns,
        alpha=alpha,
        false_alarm_at_most=0.0
        if not judged.turns
        else max(
            false_alarm(
                len(pairs),
                len(frozenset[Check]().union(*(pair.checks for pair in pairs))) or 1,
                pair_runs[0],
                pair_runs[1],
                judged.turns,
            )
            for pair_runs in {
                (pair.candidate.announced or 1, pair.baseline.announced or 1) for pair in pairs
            }
        )
        if pairs
        else 0.0,
        runs={
            "candidate": sum(
                turn.candidate is not None for turns in fresh.values() for turn in turns
            ),
            "baseline": sum(
                turn.baseline is not None for turns in fresh.values() for turn in turns
            ),
        },
        suspects=[_suspect_record(suspect, fresh, terms.accepted) for suspect in judged.suspects],
        severe=waiting,
    )


def _suspect_record(
    suspect: Suspect, fresh: Fresh, accepted: Mapping[tuple[str, Check], str]
) -> SuspectRecord:
    failing = fails(suspect.check)
    turns = fresh.get(suspect.sample, ())[: suspect.turns] if suspect.turns else ()
    sides = [[run for turn in turns if (run := getattr(turn, side)) is not None] for side in SIDES]
    return SuspectRecord(
        sample=suspect.sample,
        check=str(suspect.check),
        first=SidesCounted(
            candidate=_passing(suspect.candidate), baseline=_passing(suspect.baseline)
        ),
        fresh=SidesCounted(
            **{
                name: Counted(passed=sum(failing(run) is False for run in runs), runs=len(runs))
                for name, runs in zip(SIDES, sides, strict=True)
            }
        )
        if turns
        else None,
        verdict=suspect.verdict,
        accepted=accepted.get((suspect.sample, suspect.check)),
    )


def _passing(share: Share) -> Counted:
    return Counted(passed=share.runs - share.failing, runs=share.runs)


# --- what to do


def _advice(
    results: Sequence[RuleResult],
    outcome: Outcome,
    judged: Judged,
    expected: Expectation,
    pairs: Sequence[Pair],
    limits: Limits,
) -> list[str]:
    """What would settle or change the outcome, each with what it costs in runs."""
    if outcome == "promote":
        return []
    known = {rule.id: rule for rule in results}
    titles = {pair.sample: pair.name for pair in pairs}

    def named(samples: Iterable[str]) -> str:
        return few([titles.get(name, name) for name in dict.fromkeys(samples)], 5)

    advice = []
    complete, failures = known["complete"], known["new_failures"]
    if missing := complete.evidence.get("missing") or complete.evidence.get("lost"):
        advice.append(
            f"Run the samples without results again: {named(item['sample'] for item in missing)}."
        )
    if failures.violated:
        by_verdict = [
            [suspect for suspect in judged.suspects if suspect.verdict == verdict]
            for verdict in ("confirmed", "open")
        ]
        if failing := by_verdict[0] or by_verdict[1]:
            advice.append(f"Fix what newly fails: {named(item.sample for item in failing)}.")
    severe = known["severe_failures"]
    if severe.violated:
        advice.append(f"Fix severe failures: {named(severe.evidence['samples'])}.")
    waiting = [] if severe.holds is not None else severe.evidence["open"]
    unsettled = (
        []
        if failures.violated
        else [suspect.sample for suspect in judged.suspects if suspect.verdict == "open"]
    )
    turns = dict.fromkeys(unsettled, judged.turns) | dict.fromkeys(waiting, limits.severe_turns)
    if turns and limits.confirm and not limits.deterministic:
        each = (
            f" ({next(iter(turns.values()))} of {'it' if len(turns) == 1 else 'each'})"
            if len(set(turns.values())) == 1
            else ""
        )
        advice.append(
            f"Run {count(len(turns), 'sample')} again on both sides with `--confirm`: at most"
            f" {count(sum(turns.values()), 'run')} of each side{each}, fewer once a sample passes."
            " For results of another tool, give the fresh runs with `--fresh FILE` and"
            " `--fresh-baseline FILE`."
        )
    score, n = known["score_non_inferiority"], len(pairs)
    if outcome != "reject" and score.holds is None and (low := score.evidence["low"]) is not None:
        mean, margin = score.evidence["mean"] or 0.0, score.evidence["margin"]
        if mean + margin > 0:
            times = ((mean - low) / (mean + margin)) ** 2
            advice.append(
                f"If the difference and its spread stay as they are, {times:.1f} times as many runs"
                f" or samples (about {round(times * n):,} of each side) would show that the loss is"
                f" below {margin:g} points."
            )
    promoted, each_side = expected.same_version_promoted, expected.repeats_for.get("each")
    if outcome != "reject" and promoted is not None and promoted < WANTED:
        more = (
            f"; with {count(each_side, 'run')} of each sample on both sides ({each_side * n:,} runs"
            f" of each) it would be at least {WANTED:.0%}"
            if each_side is not None
            else ""
        )
        advice.append(
            f"These samples would promote a version compared with itself in about {promoted:.0%} of"
            f" cases{more}. `assay gate --plan` shows what else would do."
        )
    return advice


def exit_code(made: Decision) -> int:
    """The exit code of a decision."""
    return EXITS[made.outcome]
