"""The reporting bundle over any number of grades: rates with intervals, distributions, and why runs
fail.

Every run is counted once in the coverage, whatever became of it. A missing score counts as 0 in its
criterion's distribution, as it did in the grade, and is counted apart. Scores are added up as whole
numbers, so the bundle does not depend on the order of the runs. Rates and means are over samples:
repeats of a sample are not independent, and count as one value, their mean. Where samples share a
group, the interval of a mean is cluster-robust: they repeat each other, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from assay import exact
from assay.records.evaluation import EvaluationTotals
from assay.records.grade import LETTERS, Grade, GradedCriterion
from assay.records.summary import (
    CriterionSummary,
    Distribution,
    FailureReason,
    GateSummary,
    HistogramBin,
    SliceSummary,
    SummaryBlock,
    value_interval,
)
from assay.stats.clusters import MINIMUM, estimate_clustered_mean, sampled_share
from assay.stats.estimate import SCORES, Range, on_scale
from assay.stats.intervals import Counts, Interval, student
from assay.stats.means import estimate_counted_mean

TOP = 10
COVERAGE = ("scored", "failed", "inconclusive", "errored", "not_applicable")
NORMS = Range(0.0, 1.0)
UNGRADED = "no run was graded"


class _Samples:
    """Numbers for the samples that were seen, and the group of each. A run that names no sample
    counts as a sample.
    """

    def __init__(self) -> None:
        self.groups: list[str | None] = []
        self._numbers: dict[str, int] = {}

    def number(self, sample: str | None, group: str | None) -> int:
        """The number of a sample; a new one where it was not seen yet."""
        number = len(self.groups)
        if sample is not None:
            number = self._numbers.setdefault(sample, number)
        if number == len(self.groups):
            self.groups.append(group)
        return number


class _Values:
    """Whole numbers that were counted, and their sums over each sample."""

    def __init__(self, unit: float, range: Range, groups: Sequence[str | None]) -> None:
        self.counts = Counts(unit)
        self.range = range
        self._groups = groups
        """The group of each sample; empty where it says nothing."""
        self._sums: dict[int, int] = {}
        self._repeats: dict[int, int] = {}
        """The runs of samples that have several."""

    def add(self, value: int, sample: int) -> None:
        """Count the value of one run of a sample."""
        self.counts.add(value)
        if sample in self._sums:
            self._repeats[sample] = self._repeats.get(sample, 1) + 1
            self._sums[sample] += value
        else:
            self._sums[sample] = value

    def distribution(self) -> Distribution:
        """Mean with interval, standard deviation and quantiles of the runs."""
        return Distribution(
            mean=value_interval(on_scale(self.interval(), self.range)),
            sd=self.counts.sd(),
            quantiles=self.counts.quantiles(),
        )

    def share(self) -> Interval:
        """The share of ones, over samples."""
        return sampled_share(
            Counter((ones, self._repeats.get(sample, 1)) for sample, ones in self._sums.items())
        )

    def interval(self) -> Interval:
        """The mean over samples with its interval: Student's t, cluster-robust where they share
        groups.
        """
        groups = [self._groups[sample] for sample in self._sums] if self._groups else []
        named = [group for group in groups if group is not None]
        shared = len(set(named)) < len(named)
        clusters = len(set(named)) + len(groups) - len(named)
        few = shared and clusters < MINIMUM  # then no interval over groups reaches its level
        if not self._repeats and (few or not shared):
            interval = student(self.counts.mean(), self.counts.sd() or 0.0, self.counts.n)
        elif few or not shared:
            means = Counter(self._means())
            interval = estimate_counted_mean(means, believed=True).interval
        else:
            return estimate_clustered_mean(
                list(self._means()), groups, range=self.range, believed=True
            ).interval
        if self._repeats:
            interval = interval._replace(method=f"{interval.method}, over samples")
        return (
            interval._replace(method=f"{interval.method}, too few groups to count as clusters")
            if few
            else interval
        )

    def _means(self) -> Iterator[float]:
        for sample, total in self._sums.items():
            yield total / (self._repeats.get(sample, 1) * self.counts.scale)


class _Slice:
    """Pass rate, coverage and score of some of the runs."""

    def __init__(self, groups: Sequence[str | None]) -> None:
        self.coverage: Counter[str] = Counter()
        self.passed = _Values(1, NORMS, groups)
        self.scores = _Values(0.01, SCORES, groups)

    def add(self, grade: Grade, sample: int) -> None:
        self.coverage[_covered(grade)] += 1
        self.passed.add(int(grade.passed), sample)
        self.scores.add(grade.score_units, sample)

    def summary(self) -> SliceSummary:
        return SliceSummary(
            n=self.passed.counts.n,
            coverage={name: self.coverage[name] for name in COVERAGE},
            pass_rate=value_interval(self.passed.share()),
            weighted_score=self.scores.distribution(),
        )


class _CriterionCounts:
    def __init__(self, groups: Sequence[str | None]) -> None:
        self.norms = _Values(1 / exact.NORM_ONE, NORMS, groups)
        self.floor_failures = 0
        self.missing = 0

    def add(self, item: GradedCriterion, sample: int) -> None:
        self.norms.add(item.norm_units, sample)
        self.floor_failures += item.floor_failed
        self.missing += item.criterion.raw_score is None

    def summary(self) -> CriterionSummary:
        return CriterionSummary(
            n=self.norms.counts.n,
            **asdict(self.norms.distribution()),
            histogram=[
                HistogramBin(low=each["low"], high=each["high"], count=int(each["count"]))
                for each in self.norms.counts.histogram(0, exact.NORM_ONE, 10)
            ],
            floor_failures=self.floor_failures,
            missing=self.missing,
        )


class _GateCounts:
    def __init__(self) -> None:
        self.failed = _Values(1, NORMS, ())
        self.undetermined = 0

    def add(self, passed: bool | None, sample: int) -> None:
        self.failed.add(int(passed is not True), sample)
        self.undetermined += passed is None

    def summary(self) -> GateSummary:
        return GateSummary(
            failed=self.failed.counts.total,
            undetermined=self.undetermined,
            n=self.failed.counts.n,
            rate=value_interval(self.failed.share()),
        )


class Summary:
    """Adds up grades one by one, for a summary block at the end."""

    def __init__(self) -> None:
        self.samples = _Samples()
        self.all = _Slice(self.samples.groups)
        self.letters: Counter[str] = Counter()
        self.gates: dict[str, _GateCounts] = {}
        self.criteria: dict[str, _CriterionCounts] = {}
        self.slices: dict[str, dict[str, _Slice]] = {"family": {}, "tag": {}, "group": {}}
        self.reasons: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.latency = Counts(0.001)
        self.cost = Counts(1 / exact.NORM_ONE)
        self.unreported: Counter[str] = Counter()
        self.versions: set[tuple[str, str, str, str]] = set()

    def add(self, grade: Grade) -> None:
        """Count one grade."""
        card = grade.scorecard
        group = card.group or None
        is_named = card.dataset is not None or card.sample_id is not None
        sample = self.samples.number(grade.sample if is_named else None, group)
        groups = self.samples.groups
        self.all.add(grade, sample)
        self.letters[grade.grade] += 1
        for name, passed in card.hard_gates.items():
            if (gate := self.gates.get(name)) is None:
                gate = self.gates[name] = _GateCounts()
            gate.add(passed, sample)
        for item in grade.criteria:
            if (counts := self.criteria.get(item.name)) is None:
                counts = self.criteria[item.name] = _CriterionCounts(groups)
            counts.add(item, sample)
        if card.workflow is not None and (family := card.workflow.family) is not None:
            if (part := self.slices["family"].get(family)) is None:
                part = self.slices["family"][family] = _Slice(groups)
            part.add(grade, sample)
        if group is not None:
            # within one group the samples are independent draws
            self.slices["group"].setdefault(group, _Slice(())).add(grade, sample)
        for tag in set(card.tags):
            self.slices["tag"].setdefault(tag, _Slice(groups)).add(grade, sample)
        for reason in _reasons(grade):
            self.reasons[reason] += 1
            # the example that comes first by name, so that it does not depend on the order of the
            # runs
            self.examples[reason] = min(grade.run_id, self.examples.get(reason, grade.run_id))
        for name, value, counted, digits in (
            ("latency_ms", card.latency_ms, self.latency, 3),
            ("cost_usd", card.cost_usd, self.cost, 9),
        ):
            if value is None:
                self.unreported[name] += 1
            else:
                counted.add(exact.scaled(value, digits))
        self.versions.add(
            (
                grade.policy,
                card.profile.id if card.profile is not None else "",
                grade.scoring_system,
                grade.grading_system,
            )
        )

    def block(self) -> SummaryBlock:
        """The summary block of the contract."""
        ordered = sorted(self.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        policies, profiles, scoring, grading = (
            sorted({version[place] for version in self.versions}) for place in range(4)
        )
        return SummaryBlock(
            **asdict(self.all.summary()),
            gates={name: counts.summary() for name, counts in sorted(self.gates.items())},
            criteria={name: counts.summary() for name, counts in sorted(self.criteria.items())},
            slices={
                kind: {name: tally.summary() for name, tally in sorted(slices.items())}
                for kind, slices in self.slices.items()
            },
            grades={letter: self.letters[letter] for letter in LETTERS},
            top_failure_reasons=[
                FailureReason(reason=reason, count=count, example=self.examples[reason])
                for reason, count in ordered[:TOP]
            ],
            operations=self._operations(),
            policies=policies,
            profiles=[profile for profile in profiles if profile],
            scoring_system=", ".join(scoring),
            grading_system=", ".join(grading),
        )

    def _operations(self) -> dict[str, dict[str, float | None]]:
        total = sum(value * count for value, count in self.cost.counts.items())
        return {
            "latency_ms": {
                "p50": self.latency.quantile(50),
                "p95": self.latency.quantile(95),
                "n": self.latency.n,
                "unreported": self.unreported["latency_ms"],
            },
            "cost_usd": {
                "total": exact.shown(total, 9) if self.cost.n else None,
                "mean": self.cost.mean(),
                "n": self.cost.n,
                "unreported": self.unreported["cost_usd"],
            },
        }


class EvaluationTally:
    """The totals of an evaluation, run by run, from the documents of its grades."""

    def __init__(self) -> None:
        self._ungraded = 0
        self._samples = _Samples()
        self._passed = _Values(1, NORMS, ())
        self._scores = _Values(0.01, SCORES, self._samples.groups)
        self._gates: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()

    def add(self, payload: Mapping[str, Any]) -> None:
        """Count a run by its grade as `assay.grades/1` has it."""
        units = exact.scaled(payload["weighted_score"], exact.SCORE_DIGITS)
        self._count(payload["passed"] is True, units, _sample_of(payload), payload["group"])
        for name, gate in payload["hard_gates"].items():
            self._gates[name] += gate["status"] != "pass"
        for item in payload["criteria"]:
            self._missing[item["name"]] += item["raw_score"] is None

    def add_ungraded(self) -> None:
        """Count a run that could not be graded: it has not passed, and its score is 0."""
        self._ungraded += 1
        self._count(False, 0, None, None)

    def _count(self, passed: bool, units: int, sample: str | None, group: str | None) -> None:
        number = self._samples.number(sample, group or None)
        self._passed.add(int(passed), number)
        self._scores.add(units, number)

    def totals(self) -> EvaluationTotals:
        """The totals so far; without a rate and a score if no run was graded."""
        n = self._passed.counts.n
        if n == self._ungraded:
            rate = Interval.unknown(None, 0.95, "wilson", UNGRADED)
            score = Interval.unknown(None, 0.95, "student-t", UNGRADED)
        else:
            rate = self._passed.share()
            score = on_scale(self._scores.interval(), SCORES)
        return EvaluationTotals(
            n=n,
            passed=self._passed.counts.total,
            pass_rate=value_interval(rate),
            score=value_interval(score),
            gate_failures=dict(sorted(self._gates.items())),
            missing=dict(sorted(self._missing.items())),
            ungraded=self._ungraded,
        )


def _sample_of(payload: Mapping[str, Any]) -> str | None:
    """The sample of a grade in `assay.grades/1`, which repeats share; None if it names none."""
    dataset = payload["dataset"]
    if dataset is None:
        sample: str | None = payload["sample_id"]
        return sample
    of = dataset if isinstance(dataset, dict) else asdict(dataset)
    return f"{of['id']}/{of['sample_id']}"


def _covered(grade: Grade) -> str:
    """The coverage class of a run: the worst that applies."""
    card = grade.scorecard
    if card.status in ("error", "timeout", "cancelled"):
        return "errored"
    if card.status == "failed":
        return "failed"
    if None in card.hard_gates.values() or any(
        item.criterion.raw_score is None for item in grade.criteria
    ):
        return "inconclusive"
    return "scored"


def _reasons(grade: Grade) -> list[str]:
    card = grade.scorecard
    reasons = [
        f"gate {name} {'failed' if card.hard_gates[name] is False else 'is undetermined'}"
        for name in grade.hard_gate_failures
    ]
    reasons += [f"{name} is below its critical floor" for name in grade.floor_failures]
    reasons += [
        f"{item.name} has no score" for item in grade.criteria if item.criterion.raw_score is None
    ]
    if grade.score_units < grade.threshold_units:
        reasons.append("the score is below the threshold")
    return reasons or ([grade.reason] if not grade.passed else [])
