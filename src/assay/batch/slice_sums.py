"""The slices of a batch by a kept column, and of the pairs of two batches by group, counted by an
engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from typing import Any

from assay.batch.engine import BatchEngine
from assay.batch.pair_query import PairQuery
from assay.batch.quoting import identifier
from assay.batch.run_query import GROUP, BatchRunQuery, BatchView, ask, count_if, total
from assay.batch.side_sums import distribution
from assay.errors import UsageError
from assay.exact import NORM_ONE
from assay.records.summary import SliceSummary, value_interval
from assay.release.looks import CountedSlice, count_slice
from assay.release.policy import ReleaseRules
from assay.release.summary import COVERAGE
from assay.stats.counts import Counts
from assay.stats.estimate import SCORES
from assay.stats.intervals import wilson

MAX_SLICES = 200
"""Slices of one column: beyond, a table of them says nothing."""


def slice_pairs(
    engine: BatchEngine, query: PairQuery, rules: ReleaseRules
) -> dict[str, CountedSlice]:
    """The differences in each group of the baseline's samples. Samples without a group are in no
    slice.
    """
    if not query.grouped:
        raise UsageError(
            "BAT-061",
            "the baseline has no column 'group' to slice by.",
            fix="Keep one in both batches: `assay batch ... --keep sample,group`.",
        )
    rows: list[Any] = ask(
        engine,
        query.over_pairs(
            f"SELECT grp, d, COUNT(*), {count_if('lost')} FROM pairs WHERE has_t"
            " AND grp IS NOT NULL AND grp IN (SELECT DISTINCT grp FROM pairs WHERE has_t"
            f" AND grp IS NOT NULL ORDER BY grp LIMIT {MAX_SLICES + 1}) GROUP BY grp, d"
        ),
    )
    differences: dict[str, Counter[float]] = {}
    missing = Counter[str]()
    for group, units, times, lost in rows:
        differences.setdefault(group, Counter())[int(units) / NORM_ONE] += int(times)
        missing[group] += int(lost)
    _check_number(differences, GROUP)
    return {
        f"{GROUP}: {group}": count_slice(counts, missing[group], rules)
        for group, counts in differences.items()
    }


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
    kept = f"CAST({identifier(column)} AS VARCHAR) AS slice"
    runs = f"WITH runs AS ({query.runs(side, kept, 'missing AS absent')})"
    valued = "FROM runs WHERE slice IS NOT NULL"
    sizes: list[Any] = ask(
        engine,
        f"{runs} SELECT slice, COUNT(*), COUNT(DISTINCT grp), {count_if('grp IS NULL')} {valued}"
        f" GROUP BY slice ORDER BY slice LIMIT {MAX_SLICES + 1}",
    )
    _check_number(sizes, column)
    scores: dict[str, Counter[int]] = {}
    passed, inconclusive = Counter[str](), Counter[str]()
    rows: list[Any] = ask(
        engine,
        f"{runs} SELECT slice, score, COUNT(*), {total('p')},"
        f" {count_if('ARRAY_LENGTH(absent) > 0')} {valued} GROUP BY slice, score",
    )
    for value, score, times, passes, absent in rows:
        scores.setdefault(value, Counter())[int(score)] = int(times)
        passed[value] += int(passes)
        inconclusive[value] += int(absent)
    made = {}
    for value, size, groups, single in sizes:
        counts = Counts(0.01)
        counts.counts = scores[value]
        coverage = {"scored": size - inconclusive[value], "inconclusive": inconclusive[value]}
        # of one group by itself, its runs are what is drawn
        shared = column != GROUP and groups + single < size
        made[value] = SliceSummary(
            n=size,
            coverage={kind: coverage.get(kind, 0) for kind in COVERAGE},
            pass_rate=value_interval(wilson(passed[value], size)),
            weighted_score=distribution(counts, SCORES, shared=shared),
        )
    return made
