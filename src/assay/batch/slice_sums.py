"""The slices of one batch, or of the pairs of two, by a kept column, counted by an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from typing import Any

from assay.batch.engine import BatchEngine, ask
from assay.batch.pair_query import PairQuery, group_sums, groups_of
from assay.batch.pair_sums import check_group_count
from assay.batch.quoting import identifier, text
from assay.batch.run_query import GROUP, BatchRunQuery, BatchView, count_if, total
from assay.batch.side_sums import distribution, inconclusive_runs
from assay.errors import InputError, UsageError, count
from assay.exact import NORM_ONE
from assay.records.summary import SliceSummary, value_interval
from assay.release.looks import CountedSlice, count_slice, slice_name
from assay.release.policy import ReleaseRules
from assay.release.summary import COVERAGE
from assay.stats.clusters import MINIMUM, Groups
from assay.stats.counts import Counts
from assay.stats.estimate import SCORES
from assay.stats.intervals import wilson

MAX_SLICES = 200
"""The most slices of one column: a longer table would be unreadable."""


def slice_pairs(
    engine: BatchEngine, query: PairQuery, rules: ReleaseRules
) -> dict[str, CountedSlice]:
    """The differences in each slice of the baseline's samples, by the columns that the query slices
    by. Samples without a value are one slice.
    """
    return {
        slice_name(column, value): counted
        for column, alias in query.slices.items()
        for value, counted in _pairs_by(engine, query, rules, column, alias).items()
    }


def _pairs_by(
    engine: BatchEngine, query: PairQuery, rules: ReleaseRules, column: str, alias: str
) -> dict[str, CountedSlice]:
    def rows(select: str) -> list[Any]:
        return ask(engine, query.over_pairs(select))

    ((varied,),) = rows(f"SELECT {count_if(f'NOT {alias}_agrees')} FROM joined")
    if varied:
        raise InputError(
            "BAT-060",
            f"the repeats of {count(varied, 'sample')} of the baseline differ in '{column}'.",
            fix="Slice by a column that is the same for all repeats of a sample.",
        )
    sizes = rows(
        f"SELECT {alias}, COUNT(*), COUNT(DISTINCT grp), {count_if('grp IS NULL')},"
        f" {count_if('lost')} FROM pairs WHERE has_t GROUP BY {alias} ORDER BY {alias}"
        f" LIMIT {MAX_SLICES + 1}"
    )
    _check_number(sizes, column)
    differences: dict[str, Counter[float]] = {}
    singles: dict[str, Counter[float]] = {}
    for value, units, is_single, times in rows(
        f"SELECT {alias}, d, grp IS NULL, COUNT(*) FROM pairs WHERE has_t"
        f" GROUP BY {alias}, d, grp IS NULL"
    ):
        difference = int(units) / NORM_ONE
        differences.setdefault(value, Counter())[difference] += int(times)
        if is_single:
            singles.setdefault(value, Counter())[difference] += int(times)
    clustered = {
        value: groups for value, n, groups, single, _ in sizes if MINIMUM <= groups + single < n
    }
    members: dict[str, list[Any]] = {value: [] for value in clustered}
    if clustered:
        check_group_count(sum(clustered.values()))
        listed = ", ".join(map(text, clustered))
        for value, *sums in ask(engine, group_sums(query, f"{alias} IN ({listed})", alias)):
            members[str(value)].append(sums)
    slices = {}
    for value, _, _, _, lost in sizes:
        groups = None
        if value in members:
            alone = Groups.of((), singles.get(value, {}))
            groups = groups_of(members[value]).with_others(alone)
        slices[value] = count_slice(differences[value], int(lost), rules, groups=groups)
    return slices


def _check_number(slices: Sized, column: str) -> None:
    if len(slices) > MAX_SLICES:
        raise UsageError(
            "BAT-061",
            f"the column '{column}' has more than {MAX_SLICES} values.",
            fix="Choose a column with few values, such as a language or a team.",
        )


def slice_sums(
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
        f"{runs} SELECT slice, COUNT(*), COUNT(DISTINCT grp), {count_if('grp IS NULL')} {valued}"
        f" GROUP BY slice ORDER BY slice LIMIT {MAX_SLICES + 1}",
    )
    _check_number(sizes, column)
    scores: dict[str, Counter[int]] = {}
    passed, inconclusive = Counter[str](), Counter[str]()
    rows = ask(
        engine,
        f"{runs} SELECT slice, score, COUNT(*), {total('p')},"
        f" {inconclusive_runs(query)} {valued} GROUP BY slice, score",
    )
    for value, score, times, passes, absent in rows:
        scores.setdefault(value, Counter())[int(score)] = int(times)
        passed[value] += int(passes)
        inconclusive[value] += int(absent)
    slices = {}
    for value, size, groups, single in sizes:
        counts = Counts(0.01)
        counts.counts = scores[value]
        coverage = {"scored": size - inconclusive[value], "inconclusive": inconclusive[value]}
        # within one group the runs are independent draws
        shared = column != GROUP and groups + single < size
        slices[value] = SliceSummary(
            n=size,
            coverage={kind: coverage.get(kind, 0) for kind in COVERAGE},
            pass_rate=value_interval(wilson(passed[value], size)),
            weighted_score=distribution(counts, SCORES, shared=shared),
        )
    return slices
