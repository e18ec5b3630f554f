"""The summary of a batch output, and of its slices, counted by an engine.

First the output is checked: its rows must be what the plan computes from their norms and gates, and
its samples must be distinguishable. A decision over two batches checks each of them in the same
way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec.structs import asdict

from assay.errors import InputError, UsageError, count
from assay.exact import NORM_ONE
from assay.families.batch.engine import BatchEngine, ask
from assay.families.batch.quoting import identifier, text
from assay.families.batch.relational import letter_cases, weighted_score
from assay.families.batch.run_query import (
    ATTEMPT,
    GROUP,
    LIST_TYPES,
    BatchRunQuery,
    BatchView,
    any_of,
    bad_attempt,
    count_if,
    has_item,
    total,
)
from assay.records.grade import LETTERS
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
from assay.release.summary import COVERAGE, NORMS, TOP
from assay.stats.clusters import sampled_share
from assay.stats.estimate import SCORES, Range, on_scale
from assay.stats.intervals import QUANTILES, Counts, Interval, student, wilson
from assay.stats.means import estimate_counted_mean

MAX_SLICES = 200
"""The most slices of one column: a longer table would be unreadable."""

GRADED_BY = ("profile", "policy", "scoring_system", "grading_system")
_TEXT = ("VARCHAR", "STRING")
_TYPES = {
    "run": (),
    "passed": ("BOOLEAN",),
    "score": ("DOUBLE",),
    **dict.fromkeys(("failed_gates", "undetermined_gates", "extra_gates"), LIST_TYPES),
    **dict.fromkeys(("failed_floors", "missing"), LIST_TYPES),
    **dict.fromkeys(("grade", *GRADED_BY), _TEXT),
}
"""The columns that a decision reads, and what the engines call their types; `run` has any."""
_BINS = 10
_SHARED = "runs share groups, over which a batch's summary has no interval"
_REPEATED = "samples have repeats, over which a batch's summary has no interval of a criterion"


# --- what makes an output trustworthy


class _Samples(NamedTuple):
    """The samples of a batch."""

    number: int
    clusters: int
    """Groups; a sample without one is its own."""

    @property
    def share_groups(self) -> bool:
        """Whether two samples are of one group."""
        return self.clusters < self.number


class _Check:
    """Checks one batch; `name` is what errors call it."""

    def __init__(
        self, engine: BatchEngine, query: BatchRunQuery, side: BatchView, where: str, name: str
    ) -> None:
        self.engine, self.query, self.side, self.name = engine, query, side, name
        self.plan, self.where = query.plan, where

    def check(self) -> _Samples:
        """Refuse a batch that can't be trusted, and count its samples."""
        norms = {f"norm_{criterion.name}": _TYPES["score"] for criterion in self.plan.criteria}
        for column, types in (_TYPES | norms).items():
            own = self.side.columns.get(column)
            if own is None or (types and own not in types):
                what = (
                    f"has the column {column!r} as {own}" if own else f"lacks the column {column!r}"
                )
                raise self._refused(
                    f"{what}, so it isn't what `assay batch` writes for {self.plan.profile}.",
                    "Grade the evidence again with `assay batch`.",
                )
        self._check_rows()
        return self._check_samples()

    def _refused(self, message: str, fix: str = "") -> InputError:
        return InputError("BAT-060", message, where=self.where, fix=fix)

    def _contradiction(self) -> str:
        """Whether a row contradicts what its norms and gates give under the plan: the judged side
        must not supply its own verdict.
        """
        plan, conditions = self.plan, []
        for index, criterion in enumerate(plan.criteria):
            conditions.append(
                f"NOT n{index} BETWEEN 0 AND {NORM_ONE} OR (a{index} = 1 AND n{index} > 0)"
            )
            if criterion.floor is not None:
                scored = f" OR a{index} = 0" if criterion.distrusted else ""
                conditions.append(f"(f{index} = 1) <> (n{index} < {criterion.floor}{scored})")
        conditions += [f"u{index} > g{index}" for index, _ in self.query.gates]
        needed = max(plan.threshold, plan.bands[-2].edge)
        passes = f"(all_gates = 0 AND all_floors = 0 AND score >= {needed})"
        letter = letter_cases(
            plan, score="score", gates="(all_gates = 0)", floor_missed="all_floors > 0"
        )
        conditions.append(f"COALESCE(grade, '') <> CASE {letter} END")
        return " OR ".join(
            [*conditions, f"score <> {weighted_score(plan, 'n')}", f"(p = 1) <> {passes}"]
        )

    def _check_rows(self) -> None:
        plan, query = self.plan, self.query
        known = [
            " + ".join(f"{kind}{index}" for index, _ in numbered) or "0"
            for kind, numbered in (("g", query.gates), ("f", query.floors))
        ]
        other = " OR ".join(
            f"COALESCE({column}, '') <> {text(getattr(plan, column))}" for column in GRADED_BY
        )
        norms = "".join(f" OR n{index} IS NULL" for index in range(len(plan.criteria)))
        runs = query.runs(
            self.side,
            "grade",
            "COALESCE(ARRAY_LENGTH(failed_gates), 0) AS all_gates",
            "COALESCE(ARRAY_LENGTH(failed_floors), 0) AS all_floors",
            f"({other}) AS other",
            f"({bad_attempt(self.side)}) AS bad_attempt",
            *(
                f"{has_item('missing', criterion.name)} AS a{i}"
                for i, criterion in enumerate(plan.criteria)
            ),
        )
        checks = [
            "run IS NULL OR sample IS NULL",
            f"score IS NULL{norms}",
            f"all_gates > {known[0]}",
            f"all_floors > {known[1]}",
            "other",
            "bad_attempt",
            self._contradiction(),
        ]
        (row,) = ask(
            self.engine, f"SELECT {', '.join(map(count_if, checks))} FROM ({runs}) AS runs"
        )
        unnamed, invalid, gates, floors, others, unnumbered, contrary = (
            int(value) for value in row
        )
        if unnamed or invalid:
            raise self._refused(
                f"runs of the {self.name} couldn't be graded, so their results are unknown:"
                f" {unnamed + invalid:,}.",
                "Fix what the rejects output lists, and grade again with `assay batch`.",
            )
        if contrary:
            raise self._refused(
                f"the {self.name} has {count(contrary, 'row')} whose verdict contradicts its norms"
                " and gates.",
                "Grade the evidence again with `assay batch`.",
            )
        if gates or floors:
            what = "gates" if gates else "floors"
            raise self._refused(
                f"{gates or floors:,} runs of the {self.name} fail {what} that neither"
                f" {plan.profile} nor the run has.",
                "Grade the evidence again with `assay batch`.",
            )
        if others:
            raise self._refused(
                f"{others:,} rows were graded by something other than the record names."
            )
        if unnumbered:
            raise self._refused(
                f"the {self.name} has {count(unnumbered, 'run')} whose `{ATTEMPT}` isn't a whole"
                " number from 1.",
                "Number the repeats of a sample 1, 2, 3 where the rows are made.",
            )

    def _check_samples(self) -> _Samples:
        # without a column `attempt` no repeat has a number
        numbers = "COUNT(DISTINCT attempt)" if ATTEMPT in self.side.columns else "0"
        rows = ask(
            self.engine,
            f"WITH runs AS ({self.query.runs(self.side)})"
            f" SELECT {count_if('m > 1 AND numbers < m')},"
            " MIN(CASE WHEN m > 1 AND numbers < m THEN sample END),"
            f" {count_if('low <> high OR (grouped > 0 AND grouped < m)')}, COUNT(*),"
            f" COUNT(DISTINCT low) + {count_if('low IS NULL')}"
            f" FROM (SELECT sample, COUNT(*) AS m, {numbers} AS numbers,"
            " MIN(grp) AS low, MAX(grp) AS high, COUNT(grp) AS grouped"
            " FROM runs GROUP BY sample) AS samples",
        )
        twice, example, regrouped, samples, clusters = rows[0]
        if twice:
            more = f" and {twice - 1:,} more samples appear" if twice > 1 else " appears"
            raise InputError(
                "REL-004",
                f"the sample {example!r}{more} twice in the {self.name}.",
                where=self.where,
                fix="Keep one run for each sample, or number the repeats in a column `attempt` and"
                " carry it through with `--keep sample,attempt`. If they are of several versions,"
                " grade each version into its own output.",
            )
        if regrouped:
            raise self._refused(f"the repeats of {regrouped:,} samples are in different groups.")
        return _Samples(int(samples), int(clusters))


# --- the summary


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


def summarise(
    engine: BatchEngine, query: BatchRunQuery, side: BatchView, *, where: str, name: str
) -> SummaryBlock:
    """The summary of a batch; refuses one that can't be trusted. `name` is what errors call it."""
    samples = _Check(engine, query, side, where, name).check()
    return _Sums(engine, query, side, samples).block()


def _inconclusive_runs(query: BatchRunQuery) -> str:
    """The number of runs that lack a score or the evidence for a gate."""
    open_gates = any_of(f"u{index} = 1" for index, _ in query.gates)
    return count_if(f"ARRAY_LENGTH(absent) > 0 OR {open_gates}")


class _Sums:
    def __init__(
        self, engine: BatchEngine, query: BatchRunQuery, side: BatchView, samples: _Samples
    ) -> None:
        self.engine, self.query, self.side = engine, query, side
        self.plan, self.samples = query.plan, samples

    def _rows(self, select: str) -> list[Any]:
        with_runs = f"WITH runs AS ({self.query.runs(self.side, 'grade', 'missing AS absent')})"
        return ask(self.engine, f"{with_runs} {select}")

    def block(self) -> SummaryBlock:
        """The summary."""
        gates = [count_if(f"g{index} = 1") for index, _ in self.query.gates]
        undetermined = [count_if(f"u{index} = 1") for index, _ in self.query.gates]
        has = [count_if(f"h{index} = 1") for index, _ in self.query.extra]
        reasons = self._reasons()
        columns = ["COUNT(*)", total("p"), _inconclusive_runs(self.query)]
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
        repeated = self.samples.number < n
        shared = self.samples.share_groups
        scores = Counts(0.01)
        scores.counts, norm_places = self._places(n)
        means = self._means() if repeated else [None] * len(counted)
        coverage = {"scored": n - inconclusive, "inconclusive": inconclusive}
        top = [
            FailureReason(reason=reason, count=count, example=example)
            for reason, count, example in why
            if count
        ]
        unreported: dict[str, float | None] = {"n": 0, "unreported": n}
        return SummaryBlock(
            n=n,
            coverage={kind: coverage.get(kind, 0) for kind in COVERAGE},
            pass_rate=value_interval(
                sampled_share(self._by_sample("p")) if repeated else wilson(passed, n)
            ),
            weighted_score=_distribution(
                scores,
                SCORES,
                shared=shared,
                sums=self._by_sample("score") if repeated else None,
            ),
            gates={
                gate: GateSummary(
                    failed=times,
                    undetermined=lacking,
                    n=size,
                    rate=value_interval(
                        sampled_share(
                            self._by_sample(
                                f"g{index}", "1" if index < len(self.plan.gates) else f"h{index}"
                            )
                        )
                        if repeated
                        else wilson(times, size)
                    ),
                )
                for (index, gate), times, lacking, size in sorted(
                    zip(self.query.gates, failed, unknown, sizes, strict=True),
                    key=lambda item: item[0][1],
                )
                if size
            },
            criteria={
                criterion.name: self._criterion(n, sums, at, mean)
                for criterion, sums, at, mean in sorted(
                    zip(self.plan.criteria, counted, norm_places, means, strict=True),
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

    def _by_sample(self, value: str, runs: str = "1") -> Counter[tuple[int, int]]:
        """Samples by their sum of a value and their number of runs."""
        rows = self._rows(
            f"SELECT v, m, COUNT(*) FROM (SELECT sample, SUM({value}) AS v, SUM({runs}) AS m"
            " FROM runs GROUP BY sample) AS samples WHERE m > 0 GROUP BY v, m"
        )
        return Counter({(int(v), int(m)): int(times) for v, m, times in rows})

    def _means(self) -> list[float | None]:
        """The mean of each criterion's norm over samples."""
        sums = [total(f"n{index}") for index in range(len(self.plan.criteria))]
        named = ", ".join(f"{each} AS n{index}" for index, each in enumerate(sums))
        rows = self._rows(
            f"SELECT m, {', '.join(sums)} FROM (SELECT sample, COUNT(*) AS m, {named}"
            " FROM runs GROUP BY sample) AS samples GROUP BY m"
        )
        whole = self.samples.number * NORM_ONE
        return [
            float(sum(Fraction(int(row[place]), int(row[0])) for row in rows) / whole)
            for place in range(1, len(sums) + 1)
        ]

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
        self, n: int, sums: _NormCounts, at: Mapping[int, int], mean: float | None
    ) -> CriterionSummary:
        counts = _EngineCounts((n, sums.total, sums.squares), sums.bins, at)
        return CriterionSummary(
            n=n,
            **asdict(_distribution(counts, NORMS, shared=self.samples.share_groups, mean=mean)),
            histogram=counts.bins(),
            floor_failures=sums.floor_failures,
            missing=sums.missing,
        )


def _distribution(
    counts: Counts,
    scale: Range,
    *,
    shared: bool,
    sums: Counter[tuple[int, int]] | None = None,
    mean: float | None = None,
) -> Distribution:
    """Mean with interval, standard deviation and quantiles. Over samples that share groups there is
    no interval. Where samples have repeats, either their `sums` and numbers of runs are known, or
    only the `mean` over samples, without an interval.
    """
    sd = counts.sd()
    if sums is not None:
        values = Counter[float]()
        for (value, runs), times in sums.items():
            values[value / (runs * counts.scale)] += times
        interval = estimate_counted_mean(values, believed=True).interval
        interval = interval._replace(method=f"{interval.method}, over samples")
        mean = interval.value
    else:
        interval = student(counts.mean(), sd or 0.0, counts.n)
    if shared or (mean is not None and sums is None):
        known = counts.mean() if mean is None else mean
        reason = _SHARED if shared else _REPEATED
        interval = Interval.unknown(known, 0.95, "cluster-robust t", reason)
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


# --- slices


def summarise_slices(
    engine: BatchEngine, query: BatchRunQuery, side: BatchView, column: str
) -> dict[str, SliceSummary]:
    """Pass rate, coverage and score of the runs with each value of a column, by that value. Runs
    without one are in no slice.
    """
    kept = f"NULLIF(CAST({identifier(column)} AS VARCHAR), '') AS slice"
    runs = f"WITH runs AS ({query.runs(side, kept, 'missing AS absent')})"
    valued = "FROM runs WHERE slice IS NOT NULL"
    sizes = ask(
        engine,
        f"{runs} SELECT slice, COUNT(*), COUNT(DISTINCT sample), COUNT(DISTINCT grp)"
        f" + COUNT(DISTINCT CASE WHEN grp IS NULL THEN sample END) {valued}"
        f" GROUP BY slice ORDER BY slice LIMIT {MAX_SLICES + 1}",
    )
    if len(sizes) > MAX_SLICES:
        raise UsageError(
            "BAT-061",
            f"the column '{column}' has more than {MAX_SLICES} values.",
            fix="Choose a column with few values, such as a language or a team.",
        )
    scores: dict[str, Counter[int]] = {}
    inconclusive = Counter[str]()
    rows = ask(
        engine,
        f"{runs} SELECT slice, score, COUNT(*), {_inconclusive_runs(query)} {valued}"
        " GROUP BY slice, score",
    )
    for value, score, times, absent in rows:
        scores.setdefault(value, Counter())[int(score)] = int(times)
        inconclusive[value] += int(absent)
    passed, sums = (
        _by_slice(
            engine,
            f"{runs}, samples AS (SELECT slice, sample, SUM({column}) AS v, COUNT(*) AS m {valued}"
            " GROUP BY slice, sample)",
        )
        for column in ("p", "score")
    )
    slices = {}
    for value, size, samples, clusters in sizes:
        counts = Counts(0.01)
        counts.counts = scores[value]
        coverage = {"scored": size - inconclusive[value], "inconclusive": inconclusive[value]}
        # within one group the samples are independent draws
        shared = column != GROUP and clusters < samples
        slices[value] = SliceSummary(
            n=size,
            coverage={kind: coverage.get(kind, 0) for kind in COVERAGE},
            pass_rate=value_interval(sampled_share(passed[value])),
            weighted_score=_distribution(
                counts, SCORES, shared=shared, sums=sums[value] if samples < size else None
            ),
        )
    return slices


def _by_slice(engine: BatchEngine, samples: str) -> dict[str, Counter[tuple[int, int]]]:
    """The samples of each slice by their sum of a value and their number of runs."""
    rows = ask(engine, f"{samples} SELECT slice, v, m, COUNT(*) FROM samples GROUP BY slice, v, m")
    found: dict[str, Counter[tuple[int, int]]] = {}
    for value, v, m, times in rows:
        found.setdefault(value, Counter())[int(v), int(m)] = int(times)
    return found
