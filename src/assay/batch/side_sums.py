"""One batch as a side of a decision: whether it can be one, and its summary, counted by an engine.

A row says which gates failed, not which of those had no verdict, so the two are counted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import asdict

from assay.batch.engine import BatchEngine
from assay.batch.pair_query import (
    MAX_REPEATS,
    BatchView,
    PairQuery,
    ask,
    count_if,
    has_item,
    literal,
    total,
)
from assay.batch.relational import weighted_score
from assay.errors import InputError
from assay.exact import NORM_ONE
from assay.records.grade import LETTERS
from assay.records.summary import (
    CriterionSummary,
    Distribution,
    FailureReason,
    GateSummary,
    HistogramBin,
    SummaryBlock,
    value_interval,
)
from assay.release.promotion_rules import SHOWN
from assay.release.summary import COVERAGE, TOP
from assay.stats.counts import QUANTILES, Counts
from assay.stats.flaky import FlakyItem
from assay.stats.intervals import Interval, student, wilson

_BINS = 10
_SHARED = "runs share groups, over which a batch's summary has no interval"
NEEDED = (
    "run",
    "passed",
    "score",
    "failed_gates",
    "extra_gates",
    "failed_floors",
    "missing",
    "grade",
)


class SideSums(NamedTuple):
    """What a batch comes to."""

    runs: int
    samples: int
    summary: SummaryBlock
    flaky: list[FlakyItem]
    flaky_total: int


class _EngineCounts(Counts):
    """Norms that an engine has counted."""

    def __init__(self, sums: tuple[int, int, int], bins: Sequence[int], at: Mapping[int, int]):
        super().__init__(1 / NORM_ONE)
        self._sums, self._bins, self._places = sums, bins, at

    @property
    def n(self) -> int:
        return self._sums[0]

    @property
    def total(self) -> int:
        return self._sums[1]

    @property
    def squares(self) -> int:
        return self._sums[2]

    def at(self, place: int) -> int:
        return self._places[place]

    def bins(self) -> list[HistogramBin]:
        """Counts in equal bins; the last one includes its upper end."""
        return [
            HistogramBin(low=place / _BINS, high=(place + 1) / _BINS, count=count)
            for place, count in enumerate(self._bins)
        ]


def side_sums(
    engine: BatchEngine, query: PairQuery, side: BatchView, *, where: str, name: str
) -> SideSums:
    """What a batch comes to; refuses one that can't be a side of a decision."""
    return _BatchSide(engine, query, side, where, name).made()


class _BatchSide:
    def __init__(
        self, engine: BatchEngine, query: PairQuery, side: BatchView, where: str, name: str
    ) -> None:
        self.engine, self.query, self.side, self.name = engine, query, side, name
        self.plan, self.where = query.plan, where
        needed = [*NEEDED, *(f"norm_{one.name}" for one in self.plan.criteria)]
        if absent := [column for column in needed if column not in side.columns]:
            raise self._refused(
                f"lacks the column {absent[0]!r}, so it isn't what `assay batch` writes for"
                f" {self.plan.profile}."
            )

    def _refused(self, message: str, fix: str = "") -> InputError:
        return InputError("BAT-060", message, where=self.where, fix=fix)

    def _rows(self, select: str) -> list[Any]:
        with_runs = f"WITH runs AS ({self.query.runs(self.side, 'grade', 'missing AS absent')})"
        return ask(self.engine, f"{with_runs} {select}")

    def made(self) -> SideSums:
        self._check_rows()
        samples = self._check_samples()
        gates = [count_if(f"g{index} = 1") for index, _ in self.query.gates]
        has = [count_if(f"h{index} = 1") for index, _ in self.query.extra]
        reasons = self._reasons()
        asked = [
            "COUNT(*)",
            total("p"),
            count_if("ARRAY_LENGTH(absent) > 0"),
            "COUNT(DISTINCT grp)",
            count_if("grp IS NULL"),
            *gates,
            *has,
        ]
        for _, condition in reasons:
            asked += [count_if(condition), f"MIN(CASE WHEN {condition} THEN run END)"]
        (row,) = self._rows(f"SELECT {', '.join(asked)} FROM runs")
        n, passed, inconclusive, groups, single = (int(value or 0) for value in row[:5])
        failed = [int(value) for value in row[5 : 5 + len(gates)]]
        rest = row[5 + len(gates) :]
        sizes = [*[n] * len(self.plan.gates), *(int(value) for value in rest[: len(has)])]
        found = list(zip(*[iter(rest[len(has) :])] * 2, strict=True))
        shared = groups + single < n
        scores = Counts(0.01)
        scores.counts = Counter(
            {
                int(u): int(k)
                for u, k in self._rows("SELECT score, COUNT(*) FROM runs GROUP BY score")
            }
        )
        letters = {
            grade: int(count)
            for grade, count in self._rows("SELECT grade, COUNT(*) FROM runs GROUP BY grade")
        }
        coverage = {"scored": n - inconclusive, "inconclusive": inconclusive}
        top = [
            FailureReason(reason=reason, count=int(count), example=example)
            for (reason, _), (count, example) in zip(reasons, found, strict=True)
            if count
        ]
        unreported: dict[str, float | None] = {"n": 0, "unreported": n}
        block = SummaryBlock(
            n=n,
            coverage={kind: coverage.get(kind, 0) for kind in COVERAGE},
            pass_rate=value_interval(wilson(passed, n)),
            weighted_score=_distribution(scores, shared),
            gates={
                gate: GateSummary(
                    failed=times, undetermined=0, n=size, rate=value_interval(wilson(times, size))
                )
                for (_, gate), times, size in sorted(
                    zip(self.query.gates, failed, sizes, strict=True), key=lambda item: item[0][1]
                )
                if size
            },
            criteria=self._criteria(n, shared),
            slices={"family": {}, "tag": {}, "group": {}},
            grades={letter: letters.get(letter, 0) for letter in LETTERS},
            top_failure_reasons=sorted(top, key=lambda one: (-one.count, one.reason))[:TOP],
            operations={
                "latency_ms": {"p50": None, "p95": None, **unreported},
                "cost_usd": {"total": None, "mean": None, **unreported},
            },
            policies=[self.plan.policy],
            profiles=[self.plan.profile],
            scoring_system=self.plan.scoring_system,
            grading_system=self.plan.grading_system,
        )
        flaky, flaky_total = self._flaky()
        return SideSums(n, samples, block, flaky, flaky_total)

    def _contradiction(self) -> str:
        """Whether a row says otherwise than its own norms and gates do under the plan: the side
        that is judged may not bring its verdict.
        """
        plan, found = self.plan, []
        for index, one in enumerate(plan.criteria):
            found.append(
                f"NOT n{index} BETWEEN 0 AND {NORM_ONE} OR (a{index} = 1 AND n{index} > 0)"
            )
            if one.floor is not None:
                scored = f" OR a{index} = 0" if one.distrusted else ""
                found.append(f"(f{index} = 1) <> (n{index} < {one.floor}{scored})")
        needed = max(plan.threshold, plan.bands[-2].edge)
        passes = f"(all_gates = 0 AND all_floors = 0 AND score >= {needed})"
        return " OR ".join(
            [*found, f"score <> {weighted_score(plan, 'n')}", f"(p = 1) <> {passes}"]
        )

    def _check_rows(self) -> None:
        plan, query = self.plan, self.query
        known = [
            " + ".join(f"{kind}{index}" for index, _ in numbered) or "0"
            for kind, numbered in (("g", query.gates), ("f", query.floors))
        ]
        named = {
            "profile": plan.profile,
            "policy": plan.policy,
            "scoring_system": plan.scoring_system,
            "grading_system": plan.grading_system,
        }
        other = " OR ".join(
            f"COALESCE({column}, '') <> {literal(value)}"
            for column, value in named.items()
            if column in self.side.columns
        )
        norms = "".join(f" OR n{index} IS NULL" for index in range(len(plan.criteria)))
        runs = query.runs(
            self.side,
            "COALESCE(ARRAY_LENGTH(failed_gates), 0) AS all_gates",
            "COALESCE(ARRAY_LENGTH(failed_floors), 0) AS all_floors",
            f"({other or 'FALSE'}) AS other",
            *(f"{has_item('missing', one.name)} AS a{i}" for i, one in enumerate(plan.criteria)),
        )
        checks = [
            "run IS NULL OR sample IS NULL",
            f"score IS NULL{norms}",
            f"all_gates > {known[0]}",
            f"all_floors > {known[1]}",
            "other",
            self._contradiction(),
        ]
        (row,) = ask(
            self.engine, f"SELECT {', '.join(map(count_if, checks))} FROM ({runs}) AS runs"
        )
        unnamed, invalid, gates, floors, others, contrary = (int(value) for value in row)  # type: ignore[call-overload]
        if unnamed or invalid:
            raise self._refused(
                f"runs of the {self.name} couldn't be graded, so what they came to isn't known:"
                f" {unnamed + invalid:,}.",
                "Fix what the rejects output lists, and grade again with `assay batch`.",
            )
        if contrary:
            raise self._refused(
                f"{contrary:,} rows of the {self.name} contradict their own norms and gates.",
                "Grade again with `assay batch`.",
            )
        if gates or floors:
            what = "gates" if gates else "floors"
            raise self._refused(
                f"{gates or floors:,} runs of the {self.name} fail {what} that neither"
                f" {plan.profile} nor the run has.",
                "Grade again with `assay batch`.",
            )
        if others:
            raise self._refused(
                f"{others:,} rows were graded by something else than the record says."
            )

    def _check_samples(self) -> int:
        (row,) = self._rows(
            f"SELECT COUNT(*), {count_if('m > 1 AND numbers < m')},"
            " MIN(CASE WHEN m > 1 AND numbers < m THEN sample END),"
            f" {count_if('g > 1 OR (grouped > 0 AND grouped < m)')}, MAX(m) FROM ("
            "SELECT sample, COUNT(*) AS m, COUNT(DISTINCT attempt) AS numbers,"
            " COUNT(DISTINCT grp) AS g, COUNT(grp) AS grouped FROM runs GROUP BY sample) AS samples"
        )
        samples, twice, example, regrouped, most = row
        if twice:
            more = f" and {twice - 1:,} more samples stand" if twice > 1 else " stands"
            raise InputError(
                "REL-004",
                f"the sample {example!r}{more} twice in the {self.name}.",
                where=self.where,
                fix="Keep one run for each sample, or number the repeats in a column `attempt` and"
                " carry it through with `--keep sample,attempt`.",
            )
        if regrouped:
            raise self._refused(f"the repeats of {regrouped:,} samples are in different groups.")
        if most is not None and most > MAX_REPEATS:
            raise self._refused(f"a sample has {most:,} repeats; at most {MAX_REPEATS} can be.")
        return int(samples)

    def _reasons(self) -> list[tuple[str, str]]:
        """Why runs fail, in words, and the condition of each."""
        found = [(f"gate {gate} failed", f"g{index} = 1") for index, gate in self.query.gates]
        found += [
            (f"{name} is below its critical floor", f"f{index} = 1")
            for index, name in self.query.floors
        ]
        found += [
            (f"{one.name} has no score", f"ARRAY_CONTAINS(absent, {literal(one.name)})")
            for one in self.plan.criteria
        ]
        return [*found, ("the score is below the threshold", f"score < {self.plan.threshold}")]

    def _criteria(self, n: int, shared: bool) -> dict[str, CriterionSummary]:
        floors = {name: index for index, name in self.query.floors}
        found = {}
        for index, one in enumerate(self.plan.criteria):
            norm, places = f"n{index}", sorted({p for q in QUANTILES for p in _places(n, q)})
            bins = [
                count_if(
                    f"{norm} >= {low * NORM_ONE // _BINS}"
                    + ("" if low == _BINS - 1 else f" AND {norm} < {(low + 1) * NORM_ONE // _BINS}")
                )
                for low in range(_BINS)
            ]
            asked = [
                total(norm),
                total(f"{norm} * {norm}"),
                count_if(f"ARRAY_CONTAINS(absent, {literal(one.name)})"),
                count_if(f"f{floors[one.name]} = 1") if one.name in floors else "0",
                *bins,
            ]
            (row,) = self._rows(f"SELECT {', '.join(asked)} FROM runs")
            at = [f"MIN(CASE WHEN upto > {place} THEN {norm} END)" for place in places]
            (values,) = self._rows(
                f"SELECT {', '.join(at) or 'NULL'} FROM (SELECT {norm}, SUM(k) OVER (ORDER BY"
                f" {norm}) AS upto FROM (SELECT {norm}, COUNT(*) AS k FROM runs GROUP BY {norm})"
                " AS counted) AS ordered"
            )
            counts = _EngineCounts(
                (n, int(row[0] or 0), int(row[1] or 0)),
                [int(value) for value in row[4:]],
                dict(
                    zip(places, (int(value) for value in values if value is not None), strict=False)
                ),
            )
            found[one.name] = CriterionSummary(
                n=n,
                **asdict(_distribution(counts, shared)),
                histogram=counts.bins(),
                floor_failures=int(row[3]),
                missing=int(row[2]),
            )
        return dict(sorted(found.items()))

    def _flaky(self) -> tuple[list[FlakyItem], int]:
        inner = (
            "(SELECT sample, COUNT(*) AS m, SUM(p) AS passes FROM runs GROUP BY sample) AS samples"
            " WHERE m > 1 AND passes > 0 AND passes < m"
        )
        (row,) = self._rows(f"SELECT COUNT(*) FROM {inner}")
        rows = (
            self._rows(f"SELECT sample, m, passes FROM {inner} ORDER BY sample LIMIT {SHOWN}")
            if row[0]
            else []
        )
        return [
            FlakyItem(sample, int(m), int(passes), wilson(int(passes), int(m)))
            for sample, m, passes in rows
        ], int(row[0])


def _distribution(counts: Counts, shared: bool) -> Distribution:
    mean, sd = counts.mean(), counts.sd()
    interval = (
        Interval.unknown(mean, 0.95, "cluster-robust t", _SHARED)
        if shared
        else student(mean, sd or 0.0, counts.n)
    )
    return Distribution(mean=value_interval(interval), sd=sd, quantiles=counts.quantiles())


def _places(n: int, percent: int) -> tuple[int, ...]:
    if not n:
        return ()
    place = (n - 1) * percent // 100
    return place, min(place + 1, n - 1)
