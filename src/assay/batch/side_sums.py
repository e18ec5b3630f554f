"""The summary of a batch, counted by an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import asdict

from assay.batch.engine import BatchEngine, ask
from assay.batch.quoting import text
from assay.batch.run_query import BatchRunQuery, BatchView, any_of, count_if, has_item, total
from assay.batch.side_checks import SideCheck, SideSampleCounts
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
from assay.release.summary import COVERAGE, NORMS, TOP
from assay.release.unscored import UnscoredRuns
from assay.stats.counts import QUANTILES, Counts
from assay.stats.estimate import SCORES, Range, on_scale
from assay.stats.flaky import FlakyItem
from assay.stats.intervals import Interval, student, wilson

_BINS = 10
_SHARED = "runs share groups, over which a batch's summary has no interval"


class SideSums(NamedTuple):
    """The summary of a batch, and its samples."""

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


class _NormCounts(NamedTuple):
    """The sums and counts of the norms of a criterion."""

    total: int
    squares: int
    missing: int
    floor_failures: int
    bins: list[int]


def side_sums(
    engine: BatchEngine,
    query: BatchRunQuery,
    side: BatchView,
    *,
    where: str,
    name: str,
    level: float = 0.95,
) -> SideSums:
    """The summary of a batch; refuses one that can't be trusted. `level` is for the pass rates of
    flaky samples.
    """
    samples = SideCheck(engine, query, side, where, name).check()
    return _BatchSums(engine, query, side, samples).sums(level)


def unscored_runs(
    engine: BatchEngine, query: BatchRunQuery, candidate: BatchView, baseline: BatchView
) -> dict[str, UnscoredRuns]:
    """For two batches what `release.unscored.unscored_runs` counts for two sides."""
    names = [criterion.name for criterion in query.plan.criteria]
    floors = {index for index, _ in query.floors}
    absent = [f"{has_item('missing', name)} AS a{index}" for index, name in enumerate(names)]
    theirs, ours = (query.runs(side, *absent) for side in (baseline, candidate))
    every = [f"MIN(a{index}) AS a{index}" for index in range(len(names))]
    every += [f"MAX(f{index}) AS f{index}" for index in floors]
    counts = []
    for index in range(len(names)):
        lacks = f"t.a{index} = 1 AND (COALESCE(o.a{index}, 0) = 0 OR s.a{index} = 0)"
        missed = f"{lacks} AND COALESCE(o.f{index}, 1) = 1" if index in floors else "FALSE"
        counts += [count_if(lacks), f"COUNT(DISTINCT CASE WHEN {missed} THEN t.sample END)"]
    (row,) = ask(
        engine,
        f"WITH t AS ({theirs}), o_runs AS ({ours}),"
        f" o AS (SELECT sample, {', '.join(every)} FROM o_runs GROUP BY sample),"
        f" s AS (SELECT sample, {', '.join(every)} FROM t GROUP BY sample)"
        f" SELECT {', '.join(counts)} FROM t JOIN s ON s.sample = t.sample"
        " LEFT JOIN o ON o.sample = t.sample",
    )
    found = map(int, row)
    return {name: UnscoredRuns(next(found), next(found)) for name in names}


def inconclusive_runs(query: BatchRunQuery) -> str:
    """The number of runs that lack a score or the evidence for a gate."""
    open_gates = any_of(f"u{index} = 1" for index, _ in query.gates)
    return count_if(f"ARRAY_LENGTH(absent) > 0 OR {open_gates}")


class _BatchSums:
    def __init__(
        self,
        engine: BatchEngine,
        query: BatchRunQuery,
        side: BatchView,
        samples: SideSampleCounts,
    ) -> None:
        self.engine, self.query, self.side = engine, query, side
        self.plan, self.samples = query.plan, samples

    def _rows(self, select: str) -> list[Any]:
        with_runs = f"WITH runs AS ({self.query.runs(self.side, 'grade', 'missing AS absent')})"
        return ask(self.engine, f"{with_runs} {select}")

    def sums(self, level: float) -> SideSums:
        gates = [count_if(f"g{index} = 1") for index, _ in self.query.gates]
        undetermined = [count_if(f"u{index} = 1") for index, _ in self.query.gates]
        has = [count_if(f"h{index} = 1") for index, _ in self.query.extra]
        reasons = self._reasons()
        columns = ["COUNT(*)", total("p"), inconclusive_runs(self.query)]
        columns += [count_if(f"grade = {text(letter)}") for letter in LETTERS]
        columns += [*gates, *undetermined, *has]
        for _, condition in reasons:
            columns += [count_if(condition), f"MIN(CASE WHEN {condition} THEN run END)"]
        norms = [self._norm_columns(index) for index in range(len(self.plan.criteria))]
        columns += [column for of_criterion in norms for column in of_criterion]
        (row,) = self._rows(f"SELECT {', '.join(columns)} FROM runs")
        values = iter(row)
        n, passed, inconclusive = (int(next(values) or 0) for _ in range(3))
        letters = {letter: int(next(values)) for letter in LETTERS}
        failed, unknown = ([int(next(values)) for _ in gates] for _ in range(2))
        sizes = [*[n] * len(self.plan.gates), *(int(next(values)) for _ in has)]
        why = [(reason, int(next(values)), next(values)) for reason, _ in reasons]
        counted = [_norm_counts([next(values) for _ in names]) for names in norms]
        shared = self.samples.groups + self.samples.single < n
        scores = Counts(0.01)
        scores.counts, norm_places = self._places(n)
        coverage = {"scored": n - inconclusive, "inconclusive": inconclusive}
        top = [
            FailureReason(reason=reason, count=count, example=example)
            for reason, count, example in why
            if count
        ]
        unreported: dict[str, float | None] = {"n": 0, "unreported": n}
        block = SummaryBlock(
            n=n,
            coverage={kind: coverage.get(kind, 0) for kind in COVERAGE},
            pass_rate=value_interval(wilson(passed, n)),
            weighted_score=distribution(scores, SCORES, shared=shared),
            gates={
                gate: GateSummary(
                    failed=times,
                    undetermined=lacking,
                    n=size,
                    rate=value_interval(wilson(times, size)),
                )
                for (_, gate), times, lacking, size in sorted(
                    zip(self.query.gates, failed, unknown, sizes, strict=True),
                    key=lambda item: item[0][1],
                )
                if size
            },
            criteria={
                criterion.name: self._criterion(n, sums, at, shared)
                for criterion, sums, at in sorted(
                    zip(self.plan.criteria, counted, norm_places, strict=True),
                    key=lambda item: item[0].name,
                )
            },
            slices={"family": {}, "tag": {}, "group": {}},
            grades=letters,
            top_failure_reasons=sorted(top, key=lambda reason: (-reason.count, reason.reason))[
                :TOP
            ],
            operations={
                "latency_ms": {"p50": None, "p95": None, **unreported},
                "cost_usd": {"total": None, "mean": None, **unreported},
            },
            policies=[self.plan.policy],
            profiles=[self.plan.profile],
            scoring_system=self.plan.scoring_system,
            grading_system=self.plan.grading_system,
        )
        return SideSums(n, self.samples.samples, block, self._flaky(level), self.samples.flaky)

    def _reasons(self) -> list[tuple[str, str]]:
        """Why runs fail, in words, and the condition of each."""
        named = [
            (f"gate {gate} {verdict}", condition)
            for index, gate in self.query.gates
            for verdict, condition in (
                ("failed", f"g{index} = 1 AND u{index} = 0"),
                ("is undetermined", f"u{index} = 1"),
            )
        ]
        named += [
            (f"{name} is below its critical floor", f"f{index} = 1")
            for index, name in self.query.floors
        ]
        named += [
            (f"{criterion.name} has no score", f"ARRAY_CONTAINS(absent, {text(criterion.name)})")
            for criterion in self.plan.criteria
        ]
        return [*named, ("the score is below the threshold", f"score < {self.plan.threshold}")]

    def _norm_columns(self, index: int) -> list[str]:
        """The columns that `_norm_counts` reads."""
        criterion, norm = self.plan.criteria[index], f"n{index}"
        bins = [
            count_if(
                f"{norm} >= {low * NORM_ONE // _BINS}"
                + ("" if low == _BINS - 1 else f" AND {norm} < {(low + 1) * NORM_ONE // _BINS}")
            )
            for low in range(_BINS)
        ]
        return [
            total(norm),
            total(f"{norm} * {norm}"),
            count_if(f"ARRAY_CONTAINS(absent, {text(criterion.name)})"),
            count_if(f"f{index} = 1") if criterion.floor is not None else "0",
            *bins,
        ]

    def _places(self, n: int) -> tuple[Counter[int], list[dict[int, int]]]:
        """Every score with its count, and of each criterion the norms at the places of quantiles.
        It is one query for all distributions: each value of each column with how many runs have it.
        """
        columns = [f"n{index}" for index in range(len(self.plan.criteria))]
        last = len(columns)
        places = sorted({place for percent in QUANTILES for place in _places(n, percent)})
        whens = " ".join(
            f"WHEN GROUPING({column}) = 0 THEN {item}" for item, column in enumerate(columns)
        )
        item = f"CASE {whens} ELSE {last} END" if columns else str(last)
        sets = ", ".join(f"({column})" for column in [*columns, "score"])
        counted = (
            f"SELECT {item} AS item, COALESCE({', '.join([*columns, 'score'])}) AS v,"
            f" COUNT(*) AS k FROM runs GROUP BY GROUPING SETS ({sets})"
        )
        within = "".join(f" OR (upto > {place} AND upto - k <= {place})" for place in places)
        rows = self._rows(
            "SELECT item, v, k, upto FROM (SELECT item, v, k, SUM(k) OVER (PARTITION BY item"
            f" ORDER BY v) AS upto FROM ({counted}) AS counted) AS ordered"
            f" WHERE item = {last}{within}"
        )
        scores, norms = Counter[int](), [dict[int, int]() for _ in columns]
        for row in rows:
            index, value, times, upto = map(int, row)
            if index == last:
                scores[value] = times
            else:
                norms[index] |= {place: value for place in places if upto - times <= place < upto}
        return scores, norms

    def _criterion(
        self, n: int, sums: _NormCounts, at: Mapping[int, int], shared: bool
    ) -> CriterionSummary:
        counts = _EngineCounts((n, sums.total, sums.squares), sums.bins, at)
        return CriterionSummary(
            n=n,
            **asdict(distribution(counts, NORMS, shared=shared)),
            histogram=counts.bins(),
            floor_failures=sums.floor_failures,
            missing=sums.missing,
        )

    def _flaky(self, level: float) -> list[FlakyItem]:
        if not self.samples.flaky:
            return []
        rows = self._rows(
            "SELECT sample, m, passes FROM (SELECT sample, COUNT(*) AS m, SUM(p) AS passes FROM"
            " runs GROUP BY sample) AS samples WHERE m > 1 AND passes > 0 AND passes < m"
            f" ORDER BY sample LIMIT {SHOWN}"
        )
        return [
            FlakyItem(sample, int(m), int(passes), wilson(int(passes), int(m), level=level))
            for sample, m, passes in rows
        ]


def distribution(counts: Counts, scale: Range, *, shared: bool) -> Distribution:
    """Mean with interval, standard deviation and quantiles. Over runs that share groups there is
    no interval.
    """
    mean, sd = counts.mean(), counts.sd()
    interval = (
        Interval.unknown(mean, 0.95, "cluster-robust t", _SHARED)
        if shared
        else student(mean, sd or 0.0, counts.n)
    )
    return Distribution(
        mean=value_interval(on_scale(interval, scale)),
        sd=sd,
        quantiles=counts.quantiles(),
    )


def _norm_counts(row: Sequence[Any]) -> _NormCounts:
    sums, squares, missing, floor, *bins = (int(value or 0) for value in row)
    return _NormCounts(sums, squares, missing, floor, bins)


def _places(n: int, percent: int) -> tuple[int, ...]:
    if not n:
        return ()
    place = (n - 1) * percent // 100
    return place, min(place + 1, n - 1)
