"""Check that a batch can be a side of a decision, or be summarised: its rows must match what the
plan computes from their norms and gates, and its samples must be distinguishable.
"""

from __future__ import annotations

from typing import NamedTuple

from assay.batch.engine import BatchEngine, ask
from assay.batch.quoting import text
from assay.batch.relational import letter_cases, weighted_score
from assay.batch.run_query import (
    ATTEMPT,
    LIST_TYPES,
    MAX_REPEATS,
    BatchRunQuery,
    BatchView,
    bad_attempt,
    count_if,
    has_item,
)
from assay.errors import InputError, count
from assay.exact import NORM_ONE

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


class SideSampleCounts(NamedTuple):
    """The samples of a batch."""

    samples: int
    flaky: int
    """Samples whose repeats disagree on passing."""
    groups: int
    single: int
    """Runs without a group."""


class SideCheck:
    """Checks one batch; `name` is what errors call it."""

    def __init__(
        self, engine: BatchEngine, query: BatchRunQuery, side: BatchView, where: str, name: str
    ) -> None:
        self.engine, self.query, self.side, self.name = engine, query, side, name
        self.plan, self.where = query.plan, where

    def check(self) -> SideSampleCounts:
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
                " number.",
                "Number the repeats of a sample 1, 2, 3 where the rows are made.",
            )

    def _check_samples(self) -> SideSampleCounts:
        # without a column `attempt` no repeat has a number
        numbers = "COUNT(DISTINCT attempt)" if ATTEMPT in self.side.columns else "0"
        rows = ask(
            self.engine,
            f"WITH runs AS ({self.query.runs(self.side)})"
            f" SELECT COUNT(*), {count_if('m > 1 AND numbers < m')},"
            " MIN(CASE WHEN m > 1 AND numbers < m THEN sample END),"
            f" {count_if('low <> high OR (grouped > 0 AND grouped < m)')}, MAX(m),"
            f" {count_if('m > 1 AND passes > 0 AND passes < m')}, COUNT(DISTINCT low),"
            f" SUM(m - grouped) FROM (SELECT sample, COUNT(*) AS m, {numbers} AS numbers,"
            " MIN(grp) AS low, MAX(grp) AS high, COUNT(grp) AS grouped, SUM(p) AS passes"
            " FROM runs GROUP BY sample) AS samples",
        )
        samples, twice, example, regrouped, most, flaky, groups, single = rows[0]
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
        if most is not None and most > MAX_REPEATS:
            raise self._refused(f"a sample has {most:,} repeats; the limit is {MAX_REPEATS}.")
        return SideSampleCounts(*(int(value or 0) for value in (samples, flaky, groups, single)))
