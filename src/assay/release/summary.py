"""The reporting bundle over any number of grades: rates with intervals, distributions, and why runs
fail.

Every run is counted once in the coverage, whatever became of it. A missing score counts as 0 in its
criterion's distribution, as it did in the grade, and is counted apart. Scores are added up as whole
numbers, so the bundle does not depend on the order of the runs. Where runs share a group, the
interval of a mean is cluster-robust: they repeat each other, and counting them as independent would
make it too narrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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
from assay.stats.clusters import MINIMUM, estimate_clustered_mean
from assay.stats.counts import Counts
from assay.stats.estimate import SCORES, Range, on_scale
from assay.stats.intervals import Interval, student, wilson

TOP = 10
COVERAGE = ("scored", "failed", "inconclusive", "errored", "not_applicable")
NORMS = Range(0.0, 1.0)
UNGRADED = "no run was graded"


class _Values:
    """Whole numbers that were counted, and those of them that came with a group."""

    def __init__(self, unit: float, range: Range) -> None:
        self.counts = Counts(unit)
        self.range = range
        self.grouped: dict[str, list[int]] = {}

    def add(self, value: int, group: str | None) -> None:
        self.counts.add(value)
        if group is not None:
            self.grouped.setdefault(group, []).append(value)

    def distribution(self) -> Distribution:
        """Mean with interval, standard deviation and quantiles."""
        return Distribution(
            mean=value_interval(on_scale(self.interval(), self.range)),
            sd=self.counts.sd(),
            quantiles=self.counts.quantiles(),
        )

    def interval(self) -> Interval:
        """The mean with its interval: Student's t, cluster-robust where groups are shared."""
        shared = any(len(values) > 1 for values in self.grouped.values())
        clusters = len(self.grouped) + self.counts.n - sum(map(len, self.grouped.values()))
        few = shared and clusters < MINIMUM  # then no interval over groups reaches its level
        if few or not shared:
            interval = student(self.counts.mean(), self.counts.sd() or 0.0, self.counts.n)
            return (
                interval._replace(method=f"{interval.method}, too few groups to count as clusters")
                if few
                else interval
            )
        values, groups = self._spread_out()
        return estimate_clustered_mean(values, groups, range=self.range, believed=True).interval

    def _spread_out(self) -> tuple[list[float], list[str | None]]:
        """Each value with its group, in an order that does not depend on that of the runs."""
        alone = self.counts.counts.copy()
        values: list[float] = []
        groups: list[str | None] = []
        for group in sorted(self.grouped):
            for value in sorted(self.grouped[group]):
                alone[value] -= 1
                values.append(value / self.counts.scale)
                groups.append(group)
        for value in sorted(alone):
            values += [value / self.counts.scale] * alone[value]
            groups += [None] * alone[value]
        return values, groups


class _Slice:
    """Pass rate, coverage and score of some of the runs."""

    def __init__(self) -> None:
        self.n = 0
        self.passed = 0
        self.coverage: Counter[str] = Counter()
        self.scores = _Values(0.01, SCORES)

    def add(self, grade: Grade, group: str | None) -> None:
        self.n += 1
        self.passed += grade.passed
        self.coverage[_covered(grade)] += 1
        self.scores.add(grade.score_units, group)

    def summary(self) -> SliceSummary:
        return SliceSummary(
            n=self.n,
            coverage={name: self.coverage[name] for name in COVERAGE},
            pass_rate=value_interval(wilson(self.passed, self.n)),
            weighted_score=self.scores.distribution(),
        )


class _CriterionCounts:
    def __init__(self) -> None:
        self.norms = _Values(1 / exact.NORM_ONE, NORMS)
        self.floor_failures = 0
        self.missing = 0

    def add(self, item: GradedCriterion, group: str | None) -> None:
        self.norms.add(item.norm_units, group)
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


class Summary:
    """Adds up grades one by one, for a summary block at the end."""

    def __init__(self) -> None:
        self.all = _Slice()
        self.letters: Counter[str] = Counter()
        self.gates: dict[str, Counter[str]] = {}
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
        self.all.add(grade, group)
        self.letters[grade.grade] += 1
        for name, passed in card.hard_gates.items():
            counts = self.gates.setdefault(name, Counter())
            counts["n"] += 1
            counts["failed"] += passed is not True
            counts["undetermined"] += passed is None
        for item in grade.criteria:
            self.criteria.setdefault(item.name, _CriterionCounts()).add(item, group)
        if card.workflow is not None and card.workflow.family is not None:
            self.slices["family"].setdefault(card.workflow.family, _Slice()).add(grade, group)
        if group is not None:
            # within one group the runs are independent draws
            self.slices["group"].setdefault(group, _Slice()).add(grade, None)
        for tag in set(card.tags):
            self.slices["tag"].setdefault(tag, _Slice()).add(grade, group)
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
            gates={
                name: GateSummary(
                    failed=counts["failed"],
                    undetermined=counts["undetermined"],
                    n=counts["n"],
                    rate=value_interval(wilson(counts["failed"], counts["n"])),
                )
                for name, counts in sorted(self.gates.items())
            },
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
        self._n = self._passed = self._ungraded = 0
        self._scores = _Values(0.01, SCORES)
        self._gates: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()

    def add(self, payload: Mapping[str, Any]) -> None:
        """Count a run by its grade as `assay.grades/1` has it."""
        units = exact.scaled(payload["weighted_score"], exact.SCORE_DIGITS)
        self._count(payload["passed"] is True, units, payload["group"])
        for name, gate in payload["hard_gates"].items():
            self._gates[name] += gate["status"] != "pass"
        for item in payload["criteria"]:
            self._missing[item["name"]] += item["raw_score"] is None

    def add_ungraded(self) -> None:
        """Count a run that could not be graded: it has not passed, and its score is 0."""
        self._ungraded += 1
        self._count(False, 0, None)

    def _count(self, passed: bool, units: int, group: str | None) -> None:
        self._n += 1
        self._passed += passed
        self._scores.add(units, group)

    def totals(self) -> EvaluationTotals:
        """The totals so far; without a rate and a score if no run was graded."""
        if self._n == self._ungraded:
            rate = Interval.unknown(None, 0.95, "wilson", UNGRADED)
            score = Interval.unknown(None, 0.95, "student-t", UNGRADED)
        else:
            rate = wilson(self._passed, self._n)
            score = on_scale(self._scores.interval(), SCORES)
        return EvaluationTotals(
            n=self._n,
            passed=self._passed,
            pass_rate=value_interval(rate),
            score=value_interval(score),
            gate_failures=dict(sorted(self._gates.items())),
            missing=dict(sorted(self._missing.items())),
            ungraded=self._ungraded,
        )


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
