"""The SQL of marks: one verdict per sitting, and the rejects.

Marks come long (a row for each axis of an item) or wide (a row for each item, a column for each
axis). A row about an item, an axis or a set that the exam lacks doesn't count; a mark that is
neither 0 nor 1, or that is there twice, leaves its sitting without a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.batch.engine import SourceColumn
from assay.batch.exam_marks import BatchRegression, ExamBatchPlan
from assay.batch.layout import ColumnFinder
from assay.batch.quoting import identifier, text
from assay.batch.row_faults import NO_RUN, STRAY, TWO_VALUES, RowFault
from assay.batch.typed_columns import (
    NO_TEXT,
    decimal_of,
    find_columns,
    listed,
    lookup,
    no_id,
    text_of,
)
from assay.errors import InputError
from assay.exact import NORM_ONE

UNKNOWN_SET = RowFault(-70, "EXM-013", "the batch has no exam for this set")
UNKNOWN_ITEM = RowFault(-71, "EXM-008", "the exam has no such item")
UNKNOWN_AXIS = RowFault(-72, "EXM-010", "the rubric has no such axis")
BAD_MARK = RowFault(-73, "EXM-009", "a mark is 0 or 1")
MARKED_TWICE = RowFault(-74, "EXM-002", "the item has this mark more than once")
FAULTS = (
    NO_RUN,
    STRAY,
    UNKNOWN_SET,
    UNKNOWN_ITEM,
    UNKNOWN_AXIS,
    BAD_MARK,
    MARKED_TWICE,
    TWO_VALUES,
)
_HARMLESS = (UNKNOWN_SET, UNKNOWN_ITEM, UNKNOWN_AXIS)
"""These rows don't count, and the sitting is judged by the others."""


class ExamQuery:
    """The queries of a plan over a view."""

    def __init__(
        self,
        plan: ExamBatchPlan,
        view: str,
        columns: Sequence[SourceColumn],
        *,
        names: Mapping[str, str],
        keep: Sequence[str] = (),
    ) -> None:
        self.plan = plan
        self._view = identifier(view)
        axes = [axis.name for axis in plan.axes]
        required, optional = ("run", "item"), ("axis", "mark", "set", *axes)
        finder = ColumnFinder(columns, names, roles=(*required, *optional), taken=self._verdict())
        self._columns = find_columns(finder, required=required, optional=optional)
        self._keep = [finder.kept(name) for name in keep]
        self.unused = finder.unused()
        self._wide = [name for name in axes if name in self._columns]
        if ("axis" in self._columns) != ("mark" in self._columns) or (
            "axis" in self._columns
        ) == bool(self._wide):
            raise InputError(
                "BAT-003",
                "marks are in the columns 'axis' and 'mark', or in a column for each axis; found"
                f" {', '.join(column.name for column in columns)}.",
                fix=f"The axes of {plan.rubric} are {', '.join(axes)}.",
            )
        if plan.regression is not None and "set" not in self._columns:
            raise InputError(
                "BAT-003",
                "with a regression set the column 'set' must say which set a mark belongs to.",
                fix=f"Its values are {' and '.join(plan.sets)}.",
            )

    # --- rows

    def _set(self) -> str:
        given = self._columns.get("set")
        return text(self.plan.sets[0]) if given is None else text_of(given)

    def _mark(self, axis: str | None) -> tuple[str, str]:
        """A mark as text and as SQL that is 0, 1 or NULL for anything else."""
        column = self._columns[axis or "mark"]
        written = text_of(column)
        if column.kind == "boolean":
            return written, f"CASE WHEN {identifier(column.name)} THEN 1 ELSE 0 END"
        value = decimal_of(column).value
        return written, f"CASE WHEN {value} = 1e0 THEN 1 WHEN {value} = 0e0 THEN 0 END"

    def _items(self) -> str:
        """The items of the exams as a small relation, with the marks of the baseline."""
        capstone, regression = map(text, self.plan.sets)
        rows = [f"({capstone}, {text(item)}, 0)" for item in self.plan.capstone]
        if self.plan.regression is not None:
            baseline = self.plan.regression.items.items()
            rows += [f"({regression}, {text(item)}, {bits})" for item, bits in baseline]
        return f"SELECT * FROM (VALUES {listed(rows)}) AS known_items(exam_set, exam_item, base)"

    def _rows(self, axis: str | None = None) -> str:
        """Each row with its fault, which marks it gives, and which of them are 1. With `axis`, only
        the marks of that axis in wide rows.
        """
        bits = {name: 1 << place for place, name in enumerate(self._names)}
        wide = [axis] if axis else self._wide
        run, item = text_of(self._columns["run"]), text_of(self._columns["item"])
        kept = [
            f", {identifier(column.name)} AS kept{place}" for place, column in enumerate(self._keep)
        ]
        if wide:
            marks = {name: self._mark(name) for name in wide}
            given = sum(bits[name] for name in wide)
            seen = " + ".join(
                f"CASE WHEN {written} IS NULL THEN 0 ELSE {bits[name]} END"
                for name, (written, _) in marks.items()
            )
            ones = " + ".join(
                f"CASE WHEN {mark} = 1 THEN {bits[name]} ELSE 0 END"
                for name, (_, mark) in marks.items()
            )
            bad = " + ".join(_is_bad(written, mark) for written, mark in marks.values())
            shown = marks[axis][0] if axis else NO_TEXT
            parts = f"{text(axis) if axis else NO_TEXT} AS axis, {shown} AS mark, {given} AS given"
            stray = "item IS NULL"
        else:
            written, mark = self._mark(None)
            named = text_of(self._columns["axis"])
            bit = lookup(named, {text(name): bit for name, bit in bits.items()})
            seen = f"CASE WHEN {written} IS NULL THEN 0 ELSE {bit} END"
            ones = f"CASE WHEN {mark} = 1 THEN {bit} ELSE 0 END"
            bad = _is_bad(written, mark)
            parts = f"{named} AS axis, {written} AS mark, {bit} AS given"
            stray = "item IS NULL OR axis IS NULL"
        sets = self.plan.sets if self.plan.regression else self.plan.sets[:1]
        return f"""SELECT *, CASE WHEN {no_id("run")} THEN {NO_RUN.number}
    WHEN {stray} THEN {STRAY.number}
    WHEN which IS NULL OR NOT which IN ({listed(map(text, sets))}) THEN {UNKNOWN_SET.number}
    WHEN base IS NULL THEN {UNKNOWN_ITEM.number} WHEN given IS NULL THEN {UNKNOWN_AXIS.number}
    WHEN bad > 0 THEN {BAD_MARK.number} END AS fault
  FROM (
    SELECT {run} AS run, {self._set()} AS which, {item} AS item, {parts}, {seen} AS seen,
      {ones} AS ones, {bad} AS bad{"".join(kept)}
    FROM {self._view}
  ) AS typed LEFT JOIN known ON exam_set = which AND exam_item = item"""

    @property
    def _names(self) -> list[str]:
        return [axis.name for axis in self.plan.axes]

    # --- sittings

    def _sittings(self) -> str:
        """Rows to items to sittings."""
        harmless = listed(str(fault.number) for fault in _HARMLESS)
        kept = range(len(self._keep))
        low = "".join(f", MIN(kept{i}) AS kept{i}, MAX(kept{i}) AS other{i}" for i in kept)
        high = "".join(f", MIN(kept{i}) AS kept{i}, MAX(other{i}) AS other{i}" for i in kept)
        clash = " + ".join(
            ["0", *(f"CASE WHEN kept{i} <> other{i} THEN 1 ELSE 0 END" for i in kept)]
        )
        capstone, regression = map(text, self.plan.sets)
        counts = [_count(f"which = {capstone} AND seen > 0", "answered")]
        sums = []
        for place in range(len(self.plan.axes)):
            has = f"ones & {1 << place} > 0"
            counts.append(_count(f"which = {capstone} AND {has}", f"marks_{place}"))
            if self.plan.regression is not None:
                counts += [
                    _count(f"which = {regression} AND {has}", f"after_{place}"),
                    _count(
                        f"which = {regression} AND {has} AND base & {1 << place} > 0",
                        f"stays_{place}",
                    ),
                ]
        sums.append(self._units("marks", "units"))
        if self.plan.regression is not None:
            counts.append(_count(f"which = {regression} AND seen > 0", "after_answered"))
            sums.append(self._units("after", "after_units"))
        return f"""WITH known AS ({self._items()}),
marks AS ({self._rows()}),
items AS (
  SELECT run, which, item, MAX(base) AS base,
    SUM(CASE WHEN fault = {BAD_MARK.number} THEN bad WHEN fault IS NOT NULL THEN 1 ELSE 0 END)
      AS faults,
    MAX(CASE WHEN NOT fault IN ({harmless}) THEN 1 ELSE 0 END) AS broken,
    COALESCE(BIT_OR(CASE WHEN fault IS NULL THEN ones END), 0) AS ones,
    COALESCE(BIT_OR(CASE WHEN fault IS NULL THEN seen END), 0) AS seen,
    SUM(CASE WHEN fault IS NULL THEN BIT_COUNT(given) ELSE 0 END)
      - COALESCE(BIT_COUNT(BIT_OR(CASE WHEN fault IS NULL THEN given END)), 0) AS surplus{low}
  FROM marks GROUP BY run, which, item
),
counts AS (
  SELECT run, {listed(counts)}, CAST(SUM(faults) AS BIGINT) AS row_faults,
    CAST(SUM(surplus) AS BIGINT) AS surplus, MAX(broken) AS broken{high}
  FROM items GROUP BY run
),
sittings AS (
  SELECT *, {clash} AS clashes, broken = 0 AND surplus = 0 AND {clash} = 0 AS sound, {listed(sums)}
  FROM counts
)"""

    def _units(self, name: str, alias: str) -> str:
        top = " + ".join(
            f"{axis.weight} * {name}_{place}" for place, axis in enumerate(self.plan.axes)
        )
        return f"{top} AS {alias}"

    def grades(self) -> str:
        """One row per sitting."""
        kept = [
            f"CASE WHEN kept{i} = other{i} THEN kept{i} END AS {identifier(column.name)}"
            for i, column in enumerate(self._keep)
        ]
        run, *shown = (f"{value} AS {identifier(name)}" for name, value in self._verdict().items())
        return f"{self._sittings()} SELECT {listed([run, *kept, *shown])} FROM sittings"

    def _verdict(self) -> dict[str, str]:
        """The columns of a verdict."""
        plan, n = self.plan, len(self.plan.capstone)
        rules = {"below_hard_gate": f"units >= {plan.hard_gate}"}
        parts = {
            "score": _mean("units", n, 1),
            "items": f"CAST({n} AS BIGINT)",
            "missing": f"{n} - answered",
            "hard_gate": f"units >= {plan.hard_gate}",
            "target": f"units >= {plan.target}",
        }
        for place, name in enumerate(self._names):
            parts[f"mean_{name}"] = _mean(f"marks_{place}", n, NORM_ONE)
        if plan.regression is not None:
            rules |= _regression_rules(plan.regression)
            parts |= self._regression_parts(plan.regression, rules)
        whens = " ".join(f"WHEN NOT ({rule}) THEN {text(name)}" for name, rule in rules.items())
        return {
            "run": "run",
            "passed": f"sound AND {' AND '.join(f'({rule})' for rule in rules.values())}",
            "reason": f"CASE WHEN NOT sound THEN 'invalid_evidence' {whens} ELSE 'passed' END",
            **{name: f"CASE WHEN sound THEN {part} END" for name, part in parts.items()},
            "faults": "row_faults + surplus + clashes",
            "rubric": text(plan.rubric),
            "policy": text(plan.policy),
            "scoring_system": text(plan.scoring_system),
            "grading_system": text(plan.grading_system),
        }

    def _regression_parts(
        self, regression: BatchRegression, rules: Mapping[str, str]
    ) -> dict[str, str]:
        n = len(regression.items)
        parts = {
            "regression_score": _mean("after_units", n, 1),
            "regression_missing": f"{n} - after_answered",
            "regression_drop": _mean(f"({regression.units} - after_units)", n, 1, signed=True),
            "regression_holds": " AND ".join(
                f"({rules[name]})" for name in ("regression_drop", "axis_drop") if name in rules
            ),
            "regression_low": f"after_units < {regression.warn_below}",
            "verify_rubric": f"after_units - {regression.units} > {regression.verify_above}",
        }
        if regression.schema_axis is not None:
            failures = f"{n} - after_{regression.schema_axis}"
            parts |= {
                "schema_failures": failures,
                "schema_low": f"{failures} > {regression.schema_failures}",
            }
        for place, name in enumerate(self._names):
            fall = f"({regression.marks[place]} - after_{place})"
            parts |= {
                f"drop_{name}": _mean(fall, n, NORM_ONE, signed=True),
                f"lost_{name}": f"{regression.marks[place]} - stays_{place}",
                f"gained_{name}": f"after_{place} - stays_{place}",
            }
        return parts

    # --- rejects

    def rejects(self) -> str:
        """Every row that doesn't count, and why."""
        code = lookup("fault", {str(fault.number): text(fault.code) for fault in FAULTS})
        reason = lookup("fault", {str(fault.number): text(fault.reason) for fault in FAULTS})
        shown = "run, which, item, axis, mark"
        rows = []
        for axis in self._wide or (None,):
            twice = "PARTITION BY run, which, item, axis, fault IS NULL ORDER BY mark"
            seen = (
                f"SELECT {shown}, fault, ROW_NUMBER() OVER ({twice}) AS times"
                f" FROM ({self._rows(axis)}) AS one_axis"
            )
            rows.append(f"SELECT * FROM ({seen}) AS counted WHERE fault IS NOT NULL OR times > 1")
        if self._wide:  # a fault of a whole row is listed once, a fault of a mark for each axis
            whole = listed(str(fault.number) for fault in (NO_RUN, STRAY, *_HARMLESS))
            rows[1:] = [
                f"SELECT * FROM ({row}) AS marks_only WHERE fault IS NULL OR NOT fault IN ({whole})"
                for row in rows[1:]
            ]
        for column in self._keep:
            name, run = identifier(column.name), text_of(self._columns["run"])
            rows.append(
                f"SELECT {run} AS run, {NO_TEXT}, {NO_TEXT}, {NO_TEXT},"
                f" CAST(MIN({name}) AS VARCHAR), {TWO_VALUES.number} AS fault, 1"
                f" FROM {self._view} GROUP BY {run}"
                f" HAVING MIN({name}) <> MAX({name})"
            )
        return (
            f"WITH known AS ({self._items()}), refused AS ({' UNION ALL '.join(rows)}),"
            f" numbered AS (SELECT {shown}, COALESCE(fault, {MARKED_TWICE.number}) AS fault"
            f' FROM refused) SELECT run, which AS "set", item, axis, mark, {code} AS code,'
            f" {reason} AS reason FROM numbered"
        )


def _regression_rules(regression: BatchRegression) -> dict[str, str]:
    """What must hold on the regression set, by the reason for failing it."""
    rules = {"regression_drop": f"{regression.units} - after_units <= {regression.max_drop}"}
    axes = []
    for place, limit in enumerate(regression.axis_drops):
        axes.append(f"{regression.marks[place]} - after_{place} <= {limit}")
        if regression.max_lost is not None:
            axes.append(f"{regression.marks[place]} - stays_{place} <= {regression.max_lost}")
    if axes:
        rules["axis_drop"] = " AND ".join(axes)
    if not regression.rubric_passes:
        rules["rubric_fails_its_test"] = (
            f"after_units - {regression.units} <= {regression.verify_above}"
        )
    return rules


def _is_bad(written: str, mark: str) -> str:
    return f"CASE WHEN {written} IS NOT NULL AND {mark} IS NULL THEN 1 ELSE 0 END"


def _count(check: str, alias: str) -> str:
    return f"CAST(SUM(CASE WHEN {check} THEN 1 ELSE 0 END) AS BIGINT) AS {alias}"


def _mean(total: str, n: int, unit: int, *, signed: bool = False) -> str:
    """A sum over n items as a number of nine decimals, halves away from zero; a sum of `one`
    counts items, else billionths.
    """
    up = f"({2 * unit} * {total} + {n}) // {2 * n}"
    if signed:
        up = f"CASE WHEN {total} < 0 THEN -(({-2 * unit} * {total} + {n}) // {2 * n}) ELSE {up} END"
    return f"({up}) / 1e9"
