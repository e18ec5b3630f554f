"""How often a policy would reject, hold and promote a version against itself, and what it would
find of one that is worse.

For each simulated release two different repeats of each sample become the two sides, on the suite
as it is, and go through the rules that decide a release. Never the same repeat twice, and never
samples drawn with replacement: a release promoted in 83% of cases is shown as 82% this way, as 60%
with replacement, and as 59% over resampled samples. Confirmation uses further different repeats
where there are any, else runs that are modelled from the sample's own; the result says how many.
Nothing here prints or opens a file.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from statistics import NormalDist, fmean
from typing import Literal, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from assay.canon import digest
from assay.errors import InputError, NotEnoughEvidence, UsageError, count, few
from assay.records.decision import Expectation, Outcome, RuleResult
from assay.records.rehearsal import (
    FlakyGate,
    FreshCost,
    Outcomes,
    Planted,
    Recommendation,
    Rehearsal,
    RehearsedSide,
    RuleShare,
    RunsOption,
    Spread,
)
from assay.records.summary import value_interval
from assay.release.comparability import mismatch_error, mismatches, refuse_disagreeing
from assay.release.confirmation import Turn, turns_for
from assay.release.decision import systems
from assay.release.observations import FULL, PASS, Attempt, Check, Observed, Pair
from assay.release.pass_rate import PassBar, check_pass_rate, passed_share
from assay.release.plan import (
    MOST_REPEATS,
    WANTED,
    Noise,
    expectation_of,
    noise_of,
    shown_by,
    too_weak,
)
from assay.release.policy import Limits, ReleaseRules
from assay.release.rules import SEVERE_TURNS, Judged, judge, outcome_of, pass_rate
from assay.release.sides import Sample, Side, clustered, pair_up
from assay.stats.intervals import wilson

RELEASES = 400
MOST_RELEASES = 100_000
PART = 5
"""A planted regression is rehearsed in one release of so many, and in `FEWEST_PLANTED` at least."""
FEWEST_PLANTED = 50
FEW_SAMPLES = 30
BROKEN = (0.02, 0.05)
"""Shares of samples that are broken."""
DROPS = (1.0, 3.0, 5.0)
"""Points by which every score falls."""
SEVERE = 0.02
"""The share of samples that fail severely, besides a single one."""
HALVES = 200
MOST_MARGIN = 20
REGRESSION, RELEASE = "regression@1", "release@1"
UNSEEN = (
    "Drift between days: all repeats may have been run within one hour.",
    "A judge, a model behind an API, or a tool that changes between the two evaluations.",
    "A change of the dataset, and samples that the suite lacks.",
    "A regression that no check and no criterion of this suite measures.",
)
"""What no rehearsal can see."""
_normal = NormalDist()
_ASSUMED = Expectation(
    sd=None,
    source="one run of each sample",
    assumed=True,
    same_version_promoted=None,
    repeats_for={},
    smallest_loss=None,
)


class Rehearsing(NamedTuple):
    """What is rehearsed."""

    releases: int = RELEASES
    seed: int = 0
    recommend: bool = False
    wanted: float = WANTED


def rehearse(
    side: Side,
    rules: ReleaseRules,
    asked: Rehearsing = Rehearsing(),  # noqa: B008
    *,
    other: Side | None = None,
) -> Rehearsal:
    """The rehearsal of this policy on the repeats of one version; with `other`, also on that as the
    candidate.
    """
    if not 1 <= asked.releases <= MOST_RELEASES:
        raise UsageError(
            "CLI-001",
            f"--releases is {asked.releases:,}; it must be from 1 to {MOST_RELEASES:,}.",
        )
    suite = _suite(side, rules)
    releases = _Releases(suite, rules, asked.seed)
    same = releases.run("same version", suite.itself, asked.releases)
    candidate = None if other is None else _other(suite, side, other, rules)
    fewer = max(FEWEST_PLANTED, asked.releases // PART)
    planted = [
        Planted(
            kind=plan.kind,
            size=plan.size,
            samples=plan.samples,
            title=plan.title,
            outcomes=releases.run(plan.title, plan.make, min(fewer, asked.releases)),
        )
        for plan in _planned(suite, rules)
    ]
    named = systems(side, rules)
    record = Rehearsal(
        policy=rules.policy,
        margin=rules.margin,
        evaluation=_side_record(side, suite.samples),
        other=UNSET if other is None else _side_record(other, list(other.samples.values())),
        seed=asked.seed,
        same_version=same,
        other_version=UNSET
        if candidate is None
        else releases.run("other version", candidate, asked.releases),
        power=planted,
        spread=_spread(suite, rules, same, asked.seed),
        turns=releases.turns,
        severe_by_chance=_severe_by_chance(suite),
        warnings=_warnings(side, suite, rules, same, other),
        unseen=list(UNSEEN),
        recommendation=_recommended(releases, same, asked) if asked.recommend else UNSET,
        digests={},
        scoring_system=named["scoringSystem"],
        grading_system=named["gradingSystem"],
    )
    digests = {
        "policy": rules.digest,
        "evidence": side.digests["evidence"],
        **({} if other is None else {"other": other.digests["evidence"]}),
    }
    return replace(
        record, digests={**digests, "rehearsal": digest(replace(record, digests=digests))}
    )


# --- the suite


class Cell(NamedTuple):
    """The runs that a simulated release draws from, by sample."""

    candidate: Sequence[Sequence[Attempt]]
    baseline: Sequence[Sequence[Attempt]]
    aligned: bool = True
    """Whether a place is the same run on both sides, which a release draws once only."""


Making = Callable[[random.Random], Cell]
"""What one release draws from: a planted regression is in other samples each time."""


class Suite(NamedTuple):
    """The samples with two repeats or more."""

    samples: list[Sample]
    runs: list[tuple[Attempt, ...]]
    groups: list[str | None]
    floors: Mapping[str, int]
    left_out: list[str]
    noise: Noise

    def itself(self, drawn: random.Random) -> Cell:
        """The version against itself."""
        return Cell(self.runs, self.runs)

    @property
    def n(self) -> int:
        """How many samples."""
        return len(self.samples)

    @property
    def fewest(self) -> int:
        """The fewest repeats of a sample."""
        return min(map(len, self.runs))


_AGAIN = "Run the version again with repeats, such as `assay run --repeat 5`, and rehearse on that."


def _suite(side: Side, rules: ReleaseRules) -> Suite:
    _refuse_mixed(side)
    if rules.limits.deterministic:
        refuse_disagreeing(side)
    repeated = [side.samples[name] for name in sorted(side.samples)]
    samples = [sample for sample in repeated if len(sample.attempts) > 1]
    if not samples:
        raise NotEnoughEvidence(
            "REL-003",
            f"has one run of each of its {count(len(repeated), 'sample')}; a rehearsal draws two"
            " different repeats of a sample as the two sides.",
            where=side.name,
            fix=_AGAIN,
        )
    if len(samples) == 1:
        raise NotEnoughEvidence(
            "REL-003",
            f"has repeats of one sample only, {samples[0].sample}; a rehearsal needs two or more.",
            where=side.name,
            fix=_AGAIN,
        )
    noise = noise_of([Observed(sample.attempts) for sample in samples])
    if noise is None:  # never with two samples
        raise NotEnoughEvidence("REL-003", "has too few samples.", where=side.name, fix=_AGAIN)
    groups = clustered([sample.group for sample in samples])
    return Suite(
        samples,
        [sample.attempts for sample in samples],
        [None] * len(samples) if groups is None else groups,
        side.floors(),
        [sample.sample for sample in repeated if len(sample.attempts) < 2],
        noise,
    )


def _refuse_mixed(side: Side) -> None:
    """Refuse runs of several versions: their difference would be taken for noise."""
    for workflow, versions in sorted(side.versions.items()):
        if len(versions) > 1:
            raise InputError(
                "REL-002",
                f"has runs of {len(versions)} versions of {workflow}: {few(sorted(versions))}. A"
                " rehearsal needs repeats of one version.",
                where=side.name,
                fix="Rehearse on one, and name the other one after it: `assay rehearse ONE OTHER`.",
            )


def _other(suite: Suite, side: Side, other: Side, rules: ReleaseRules) -> Making:
    """The other version as the candidate."""
    _refuse_mixed(other)
    if rules.limits.deterministic:
        refuse_disagreeing(other)
    if different := mismatches(other, side):
        raise mismatch_error(different)
    names = {sample.sample for sample in suite.samples}
    if not names & other.samples.keys():
        raise NotEnoughEvidence(
            "REL-003",
            f"shares no sample with {side.name}.",
            where=other.name,
            fix="Evaluate both versions on the same samples.",
        )
    pair_up(other, side, planned=names)  # refuses other criteria, weights and judges
    runs = [
        other.samples[sample.sample].attempts if sample.sample in other.samples else ()
        for sample in suite.samples
    ]
    return lambda drawn: Cell(runs, suite.runs, aligned=False)


def _side_record(side: Side, samples: Sequence[Sample]) -> RehearsedSide:
    repeats = [len(sample.attempts) for sample in samples]
    return RehearsedSide(
        name=side.name,
        samples=len(samples),
        runs=sum(repeats),
        fewest_repeats=min(repeats),
        most_repeats=max(repeats),
        versions={name: sorted(versions) for name, versions in sorted(side.versions.items())},
    )


# --- releases


class _Further(Mapping[str, Sequence[Turn]]):
    """Fresh runs of the samples of one release, drawn when a rule asks for them."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        cell: Cell,
        used: Sequence[tuple[Sequence[int], Sequence[int]]],
        places: Mapping[str, int],
        limits: Limits,
        drawn: random.Random,
    ) -> None:
        self._pairs, self._cell, self._used, self._places = pairs, cell, used, places
        self._limits, self._drawn = limits, drawn
        self._needed = 0
        self._known: dict[str, Sequence[Turn]] = {}
        self.further: dict[str, int] = {}
        """How many turns of a sample are of runs that were really made."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, sample: str) -> Sequence[Turn]:
        if sample not in self._known:
            self._known[sample] = self._make(sample, self._places[sample])
        return self._known[sample]

    def _make(self, sample: str, place: int) -> Sequence[Turn]:
        ours, theirs = self._cell.candidate[place], self._cell.baseline[place]
        mine, other = self._used[place]
        if self._cell.aligned:
            rest = [at for at in range(len(ours)) if at not in mine and at not in other]
            self._drawn.shuffle(rest)
            left = rest[0::2], rest[1::2]
        else:
            left = (
                [at for at in range(len(ours)) if at not in mine],
                [at for at in range(len(theirs)) if at not in other],
            )
            for one in left:
                self._drawn.shuffle(one)
        if not self._needed:
            self._needed = turns_for(self._pairs, false_alarm=self._limits.errors.confirmed)
        severe = any(ours[at].severe for at in mine)
        needed = max(self._needed, self._limits.severe_turns if severe else 0)
        made = [Turn(ours[at], theirs[again]) for at, again in zip(*left, strict=False)][:needed]
        self.further[sample] = len(made)
        choice = self._drawn.choice
        return [
            *made,
            *(
                Turn(choice(ours) if ours else None, choice(theirs))
                for _ in range(needed - len(made))
            ),
        ]


class _Tally:
    """Counts the outcomes of releases."""

    def __init__(self, releases: int) -> None:
        self._releases = releases
        self._outcomes: Counter[Outcome] = Counter()
        self._violated: Counter[str] = Counter()
        self._open: Counter[str] = Counter()
        self._rules: dict[str, None] = {}
        self._costs: list[int] = []
        self._drawn = self._modelled = 0

    def add(
        self, outcome: Outcome, rules: Sequence[RuleResult], cost: int, turns: tuple[int, int]
    ) -> None:
        """Count one release."""
        self._outcomes[outcome] += 1
        for rule in rules:
            self._rules[rule.id] = None
            self._violated[rule.id] += rule.violated
            self._open[rule.id] += rule.holds is None
        self._costs.append(cost)
        self._drawn += turns[0]
        self._modelled += turns[1]

    def record(self) -> Outcomes:
        """The shares."""
        n = self._releases
        shares = {
            name: value_interval(wilson(self._outcomes[name], n))
            for name in ("promote", "hold", "reject", "not_enough_evidence")
        }
        ordered = sorted(self._costs)
        return Outcomes(
            releases=n,
            **shares,
            rules={
                rule: RuleShare(violated=self._violated[rule] / n, open=self._open[rule] / n)
                for rule in self._rules
            },
            fresh_runs=FreshCost(
                mean=sum(ordered) / n,
                p95=ordered[ceil(0.95 * n) - 1],
                drawn=self._drawn,
                modelled=self._modelled,
            ),
        )


class _Releases:
    """Simulates releases of a suite under one policy."""

    def __init__(self, suite: Suite, rules: ReleaseRules, seed: int) -> None:
        self.suite, self.rules, self.seed = suite, rules, seed
        self._places = {sample.sample: at for at, sample in enumerate(suite.samples)}
        self.turns = 0
        """Fresh turns that confirm a suspect, with one run of each side."""

    def run(
        self, name: str, making: Making, releases: int, *, runs: tuple[int, int] = (1, 1)
    ) -> Outcomes:
        """The outcomes of so many releases, with so many runs of each side."""
        tally = _Tally(releases)
        for number in range(releases):
            drawn = random.Random(f"{self.seed} {name} {runs} {number}")  # noqa: S311 - no secret
            self._release(making(drawn), runs, drawn, tally)
        return tally.record()

    def _release(
        self, cell: Cell, runs: tuple[int, int], drawn: random.Random, tally: _Tally
    ) -> None:
        limits, suite = self.rules.limits, self.suite
        used = [
            draw_repeats(len(ours), len(theirs), runs, drawn, aligned=cell.aligned)
            for ours, theirs in zip(cell.candidate, cell.baseline, strict=True)
        ]
        pairs = [
            Pair(
                sample.sample,
                Observed(tuple([ours[at] for at in mine]), runs[0] - len(mine)),
                Observed(tuple([theirs[at] for at in other])),
                group,
                sample.tags,
            )
            for sample, group, ours, theirs, (mine, other) in zip(
                suite.samples, suite.groups, cell.candidate, cell.baseline, used, strict=True
            )
        ]
        further = None
        if limits.confirm and not limits.deterministic:
            further = _Further(pairs, cell, used, self._places, limits, drawn)
        judged = judge(pairs, limits, floors=suite.floors, fresh=further)
        if runs == (1, 1):
            self.turns = judged.turns
        results = list(judged.rules)
        if self.rules.bar is not None:
            results.append(_pass_rate(pairs, self.rules, self.rules.bar))
        # what isn't read there isn't worked out
        score = next(rule for rule in results if rule.id == "score_non_inferiority")
        known = runs[1] > 1 and not score.holds
        expected = expectation_of(pairs, limits) if known else _ASSUMED
        n = sum(bool(pair.candidate.attempts) for pair in pairs)
        weak = too_weak(expected, results, n, limits) if n > 1 else ""
        outcome, _ = outcome_of(results, pairs=n, limits=limits, too_weak=weak)
        made = {} if further is None else confirmed_by(judged, limits)
        turns = sum(one.turns for one in made.values())
        drawn_turns = sum(
            min(one.turns, further.further.get(name, 0)) if further else 0
            for name, one in made.items()
        )
        cost = sum(one.runs for one in made.values())
        tally.add(outcome, results, cost, (drawn_turns, turns - drawn_turns))


def draw_repeats(
    ours: int, theirs: int, runs: tuple[int, int], drawn: random.Random, *, aligned: bool
) -> tuple[Sequence[int], Sequence[int]]:
    """Which runs of a sample are the candidate's and the baseline's: no run twice."""
    mine, other = runs
    if not aligned:
        return (
            drawn.sample(range(ours), min(mine, ours)),
            drawn.sample(range(theirs), min(other, theirs)),
        )
    if runs == (1, 1):  # by far the most common
        first = int(drawn.random() * ours)
        second = int(drawn.random() * (ours - 1))
        return (first,), (second + (second >= first),)
    chosen = drawn.sample(range(ours), mine + other)
    return chosen[:mine], chosen[mine:]


def _pass_rate(pairs: Sequence[Pair], rules: ReleaseRules, bar: PassBar) -> RuleResult:
    """The minimum pass rate on the candidate's runs."""
    rated = [
        passed_share(
            sum(PASS in run.judged and PASS not in run.failed for run in pair.candidate.attempts),
            pair.candidate.announced,
            rules.passed_by,
        )
        for pair in pairs
    ]
    passed = sum(rated, Fraction(0))
    whole = int(passed) if passed.denominator == 1 else passed
    return pass_rate(check_pass_rate(whole, len(rated), bar))


class Confirming(NamedTuple):
    """What the confirmation of a sample took."""

    turns: int
    runs: int
    """On both sides."""


def confirmed_by(judged: Judged, limits: Limits) -> dict[str, Confirming]:
    """The fresh runs that confirmation took of each sample. It stops as soon as the release is
    rejected, and makes none where that needs no fresh run.
    """
    rules = {rule.id: rule for rule in judged.rules}
    severe = rules["severe_failures"]
    by_fresh = {
        "complete": True,
        "new_failures": "confirmed" in rules["new_failures"].evidence,
        "severe_failures": severe.evidence["p"] > limits.errors.severe_exchange,
    }
    if any(rule.violated and not by_fresh.get(rule.id, False) for rule in judged.rules):
        return {}
    found: dict[str, Confirming] = {}

    def add(sample: str, turns: int, runs: int) -> None:
        known = found.get(sample, Confirming(0, 0))
        found[sample] = Confirming(max(turns, known.turns), max(runs, known.runs))

    confirmed = 0
    for suspect in judged.suspects:
        if confirmed > limits.new_failures:
            return found
        add(suspect.sample, suspect.turns, 2 * suspect.turns - (suspect.verdict == "flaky"))
        confirmed += suspect.verdict == "confirmed"
    if confirmed > limits.new_failures:
        return found
    enough = SEVERE_TURNS if severe.violated else limits.severe_turns
    for sample in severe.evidence["samples"][: 1 if severe.violated else None]:
        add(sample, enough, 2 * enough)
    return found


# --- planted regressions


class _Plan(NamedTuple):
    """A regression, and how a release gets it."""

    kind: Literal["broken", "drop", "severe"]
    size: float
    samples: int
    title: str
    make: Making


def _planned(suite: Suite, rules: ReleaseRules) -> list[_Plan]:
    """The regressions that are planted."""
    n = suite.n
    able = [
        at
        for at, runs in enumerate(suite.runs)
        if 2 * sum(not run.failed for run in runs) >= len(runs)
    ]
    found: list[_Plan] = []
    for share in BROKEN:
        many = min(max(1, round(share * n)), len(able))
        if many:
            title = f"{share:.0%} of samples broken for good"
            found.append(_Plan("broken", share, many, title, _broken(suite, able, many)))
    for points in DROPS:
        if (fallen := _fallen(suite, points)) is not None:
            title = f"every score lower, by {points:g} on average"
            found.append(_Plan("drop", points, n, title, _always(fallen, suite)))
    if check := _severe_check(suite, rules):
        clean = [
            at
            for at, runs in enumerate(suite.runs)
            if check in runs[0].judged and not any(run.severe for run in runs)
        ]
        for many in sorted({1, max(1, round(SEVERE * n))}):
            if many <= len(clean):
                title = f"{count(many, 'sample')} failing {check.name} severely, for good"
                make = _severe(suite, clean, many, check)
                found.append(_Plan("severe", many / n, many, title, make))
    return found


def _always(runs: Sequence[Sequence[Attempt]], suite: Suite) -> Making:
    return lambda drawn: Cell(runs, suite.runs)


def _changed(
    suite: Suite, places: Collection[int], change: Callable[[int], Sequence[Attempt]]
) -> Cell:
    runs: list[Sequence[Attempt]] = list(suite.runs)
    for at in places:
        runs[at] = change(at)
    return Cell(runs, suite.runs)


def _broken(suite: Suite, able: Sequence[int], many: int) -> Making:
    """Samples that fail in every run, as runs of this version fail; where none of a kind does, with
    a score of 0.
    """
    failing: dict[tuple[object, ...], list[Attempt]] = {}
    for runs in suite.runs:
        for run in runs:
            if PASS in run.failed and not run.severe and not run.errored and not run.unjudged:
                failing.setdefault((run.criteria, run.judged), []).append(run)

    def make(drawn: random.Random) -> Cell:
        def change(at: int) -> Sequence[Attempt]:
            run = suite.runs[at][0]
            known = failing.get((run.criteria, run.judged))
            broken = drawn.choice(known) if known else _worthless(run)
            return [broken._replace(used=each.used) for each in suite.runs[at]]

        return _changed(suite, drawn.sample(able, many), change)

    return make


def _worthless(run: Attempt) -> Attempt:
    return run._replace(
        judged=run.judged | {PASS},
        failed=frozenset((PASS,)),
        score=0,
        norms=tuple(None if norm is None else 0 for norm in run.norms),
    )


def _fallen(suite: Suite, points: float) -> list[Sequence[Attempt]] | None:
    """Every run with a lower score, so that the mean falls by this; None if it can't. What passes
    still passes.
    """
    scores = [run.score for runs in suite.runs for run in runs]
    goal = points * 100
    if fmean(scores) < goal:
        return None
    low, high = 0.0, float(FULL)
    for _ in range(40):
        step = (low + high) / 2
        low, high = (step, high) if fmean(min(one, step) for one in scores) < goal else (low, step)
    hundredths = round(high)

    def fall(run: Attempt) -> Attempt:
        less = min(run.score, hundredths)
        norms = tuple(
            None if norm is None else norm - min(norm, less * _NORMS) for norm in run.norms
        )
        return run._replace(score=run.score - less, norms=norms)

    return [[fall(run) for run in runs] for runs in suite.runs]


_NORMS = 10**5
"""Billionths of a norm in a hundredth of a point."""


def _severe_check(suite: Suite, rules: ReleaseRules) -> Check | None:
    """The severe gate that the most runs answer."""
    answered = Counter(
        check
        for runs in suite.runs
        for check in runs[0].judged
        if check.kind == "gate" and check.name in rules.severe_gates
    )
    return min(answered, key=lambda check: (-answered[check], check.name)) if answered else None


def _severe(suite: Suite, clean: Sequence[int], many: int, check: Check) -> Making:
    """Samples that fail a severe gate in every run."""

    def change(at: int) -> Sequence[Attempt]:
        return [
            run._replace(
                judged=run.judged | {check, PASS},
                failed=run.failed | {check, PASS},
                severe=run.severe | {check},
            )
            for run in suite.runs[at]
        ]

    return lambda drawn: _changed(suite, drawn.sample(clean, many), change)


# --- what else is said


def _severe_by_chance(suite: Suite) -> list[FlakyGate]:
    """Severe checks that some repeats of a sample fail and others pass."""
    runs = [run for each in suite.runs for run in each]
    checks = sorted({check for run in runs for check in run.severe})
    found = []
    for check in checks:
        mixed = sum(0 < sum(check in run.severe for run in each) < len(each) for each in suite.runs)
        if mixed:
            failing = sum(check in run.severe for run in runs) / len(runs)
            found.append(FlakyGate(check=str(check), samples=mixed, failing_runs=failing))
    return found


def _spread(suite: Suite, rules: ReleaseRules, same: Outcomes, seed: int) -> Spread:
    """How much the promoted share differs between suites like this one. Halves of the samples,
    without replacement, differ from each other as whole suites do; each gives another noise.
    """
    drawn = random.Random(f"{seed} halves")  # noqa: S311 - no secret
    limits, n = rules.limits, suite.n
    each = [known for runs in suite.runs if (known := noise_of([Observed(runs)])) is not None]
    whole = _probit(shown_by(suite.noise, n, (1, 1), limits).same_version_promoted)
    shift = _probit(same.promote.value or 0.0) - whole
    shares, losses = [], []
    for _ in range(HALVES):
        half = drawn.sample(each, max(1, n // 2))
        noise = Noise(
            fmean(one.scores for one in half), fmean(one.gates for one in half), False, len(half)
        )
        shown = shown_by(noise, n, (1, 1), limits)
        shares.append(_normal.cdf(_probit(shown.same_version_promoted) + shift))
        losses.append(shown.smallest_loss)
    return Spread(
        promote=None if limits.lenient else _middle(shares),
        smallest_loss=_middle(losses),
        halves=HALVES,
        method="the noise of random halves of the samples, from the 5th to the 95th percentile",
    )


_SURE = 1e-6


def _probit(share: float) -> float:
    return _normal.inv_cdf(min(1 - _SURE, max(_SURE, share)))


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """From the 5th to the 95th percentile."""
    ordered = sorted(values)
    n = len(ordered)
    low, high = ordered[ceil(0.05 * n) - 1], ordered[ceil(0.95 * n) - 1]
    return round(low, 6), round(high, 6)


def _warnings(
    side: Side, suite: Suite, rules: ReleaseRules, same: Outcomes, other: Side | None
) -> list[str]:
    """What makes the numbers doubtful."""
    found = []
    if all(len({*sample.behaviours}) == 1 for sample in suite.samples):
        found.append(
            "Every repeat is equal to the others, byte for byte. Unless this system always answers"
            " the same, the answers come from a cache: run it again without one."
        )
    if suite.n < FEW_SAMPLES:
        found.append(
            f"{count(suite.n, 'sample')} say little about another suite; use {FEW_SAMPLES} or more."
        )
    if suite.left_out:
        found.append(
            f"{count(len(suite.left_out), 'sample')} with a single run"
            f" {'was' if len(suite.left_out) == 1 else 'were'} left out:"
            f" {few(suite.left_out, 3)}."
        )
    lost = sum(sample.announced - len(sample.attempts) for sample in suite.samples)
    if lost:
        found.append(
            f"{count(lost, 'announced run')} of {side.name} {'is' if lost == 1 else 'are'} missing."
            " A release in which runs are missing is held."
        )
    cost = same.fresh_runs
    if cost.modelled:
        share = cost.modelled / (cost.modelled + cost.drawn)
        found.append(
            f"{share:.0%} of the fresh runs that confirmation took are modelled from the failing"
            " share of the same sample, because its repeats were used up."
        )
    if _severe_check(suite, rules) is None:
        found.append(
            f"No severe failure was planted: {rules.policy} calls no gate of this suite severe."
        )
    if other is not None:
        differing = [
            sample.sample
            for sample in suite.samples
            if (one := other.samples.get(sample.sample)) and one.contracts != sample.contracts
        ]
        if differing:
            found.append(
                f"The two versions were asked something different in"
                f" {count(len(differing), 'sample')}, such as {differing[0]}; `assay gate` scores"
                " both by the same contract, and this rehearsal by each its own."
            )
    return found


# --- the recommendation


def _recommended(releases: _Releases, same: Outcomes, asked: Rehearsing) -> Recommendation:
    """What would promote the same version often enough."""
    suite, rules, wanted = releases.suite, releases.rules, asked.wanted
    limits, noise, n, has = rules.limits, suite.noise, suite.n, suite.fewest
    strict = limits._replace(lenient=False)

    def promoted(runs: tuple[int, int], tolerance: float | None = None) -> float:
        used = strict
        if tolerance is not None:  # as `--tolerance` sets them
            used = strict._replace(margin=tolerance, gate_margin=tolerance / 100)
        return shown_by(noise, n, runs, used).same_version_promoted

    def option(runs: tuple[int, int], *, banked: bool) -> RunsOption:
        fits = sum(runs) <= has
        fewer = max(FEWEST_PLANTED, asked.releases // PART)
        if runs == (1, 1):
            share = same.promote.value or 0.0
        elif fits:
            drawn = releases.run("same version", suite.itself, fewer, runs=runs)
            share = drawn.promote.value or 0.0
        else:
            share = promoted(runs)
        return RunsOption(
            candidate_runs=runs[0],
            baseline_runs=runs[1],
            banked=banked,
            runs=n * (runs[0] + (0 if banked else runs[1])),
            promoted=round(share, 6),
            rehearsed=fits,
            smallest_loss=round(shown_by(noise, n, runs, limits).smallest_loss, 4),
        )

    each = _fewest(lambda runs: promoted((runs, runs)), wanted)
    bank = _fewest(lambda runs: promoted((runs, has)), wanted)
    wishes = {(1, 1): False, (1, has): True, (2, 2): False}
    if each is not None:
        wishes.setdefault((each, each), False)
    if bank is not None:
        wishes.setdefault((bank, has), True)
    if has > 2:  # the rest of the repeats as the baseline: what can be drawn, not only modelled
        wishes.setdefault((1, has - 1), True)
    options = sorted(
        (option(runs, banked=banked) for runs, banked in wishes.items()),
        key=lambda one: (one.runs, one.baseline_runs),
    )
    margin = next(
        (
            float(points)
            for points in range(1, MOST_MARGIN + 1)
            if promoted((1, 1), float(points)) >= wanted
        ),
        None,
    )
    one = same.promote.value or 0.0
    loss = shown_by(noise, n, (1, 1), limits).smallest_loss
    is_enough = promoted((1, 1)) >= wanted if limits.lenient else one >= wanted
    can_repeat = is_enough or (bank is not None and bank <= has)
    return Recommendation(
        wanted=wanted,
        burden="not_worse" if can_repeat else "not_shown_worse",
        policy=RELEASE if can_repeat else REGRESSION,
        margin=margin,
        options=options,
        sentences=list(
            _sentences(rules, wanted, one, loss, each, bank, has, margin, enough=is_enough)
        ),
        commands=_commands(rules, bank, margin, enough=is_enough),
    )


def _fewest(promoted: Callable[[int], float], wanted: float) -> int | None:
    return next((runs for runs in range(1, MOST_REPEATS + 1) if promoted(runs) >= wanted), None)


def _sentences(
    rules: ReleaseRules,
    wanted: float,
    one: float,
    loss: float,
    each: int | None,
    bank: int | None,
    has: int,
    margin: float | None,
    *,
    enough: bool,
) -> Iterator[str]:
    limits = rules.limits
    yield (
        f"With one run of each sample, {rules.policy} promotes the same version in {one:.0%} of the"
        f" releases; {wanted:.0%} is wanted."
    )
    if enough:
        yield "That is enough: one run of each sample will do."
    elif each is None:
        yield (
            f"No number of repeats up to {MOST_REPEATS} reaches that within {limits.margin:g}"
            " points: add samples or widen the margin."
        )
    else:
        banked = (
            ""
            if bank is None
            else f" With the baseline's {has} runs kept, {count(bank, 'run')} of the candidate"
            f" {'is' if bank == 1 else 'are'} enough, and only samples whose baseline disagrees"
            " with itself need repeats."
        )
        yield (
            f"To show that nothing got worse takes {count(each, 'run')} of each sample on both"
            f" sides.{banked}"
        )
    if margin is not None and margin > limits.margin:
        yield (
            f"Or set the tolerance to {margin:g} points, with one run of each sample: then a loss"
            f" of up to {margin:g} points, or gate failures in up to {margin:g}% more of the runs,"
            " may ship."
        )
    verdict = (
        "which is what it asks for"
        if loss <= limits.detect
        else f"and it asks for {limits.detect:g}, so it would answer not enough evidence"
    )
    yield (
        f"For pull requests, {REGRESSION} promotes unless a loss is shown: with one run of each"
        f" sample this suite shows a loss of {loss:.1f} points in {limits.power:.0%} of cases,"
        f" {verdict}."
    )


def _commands(
    rules: ReleaseRules, bank: int | None, margin: float | None, *, enough: bool
) -> list[str]:
    gate = "assay gate CANDIDATE --baseline BASELINE"
    name = rules.policy.partition("+")[0]
    if enough:
        return [gate if name == RELEASE else f"{gate} --release-policy {name}"]
    found = []
    if bank is not None:
        found.append(f"assay run --repeat {bank}")
        found.append(gate)
    if margin is not None and margin > rules.margin:
        found.append(f"{gate} --tolerance {margin:g}")
    found.append(f"{gate} --release-policy {REGRESSION}")
    return found
