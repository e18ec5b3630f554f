"""One relational plan for a batch: a norm for each row, one group by run, a grade for each run.

The query is text in DuckDB's dialect; `quoting.in_dialect` writes it for an engine. Every decision
compares 64-bit integers: norms in billionths, scores in hundredths. Doubles appear where a raw
score meets an edge (see `norms`) and where a number leaves. LEAST and GREATEST, which ignore NULL,
appear nowhere: a missing score must not become a perfect one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.exact import NORM_ONE, SCORE_MAX
from assay.families.batch.engine import SourceColumn
from assay.families.batch.layout import find_layout
from assay.families.batch.norms import adjusted, quotient
from assay.families.batch.plan import BatchPlan
from assay.families.batch.quoting import identifier, text
from assay.families.batch.rejects import rejects_query
from assay.families.batch.source_rows import IDENTIFIER, RowExpressions, index_of, is_bad_verdict
from assay.families.batch.task import Queries

NO_NAMES = "CAST([] AS VARCHAR[])"


def batch_queries(
    plan: BatchPlan,
    view: str,
    columns: Sequence[SourceColumn],
    *,
    names: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
) -> Queries:
    """The queries of a plan over a view."""
    layout = find_layout(plan, columns, names=names, keep=keep)
    rows = RowExpressions(plan, layout, view)
    return Queries(_Grades(rows).query(), rejects_query(rows), layout.unused)


def _pivot(index: int, value: str, wide: str, *, is_long: bool) -> str:
    """The one value of a criterion that a run has, out of its long rows and its own column; `wide`
    is empty if it has none.
    """
    if not is_long:
        return f"MAX({wide})" if wide else "CAST(NULL AS BIGINT)"
    otherwise = f" ELSE {wide}" if wide else ""
    return f"MAX(CASE WHEN k = {index} THEN {value}{otherwise} END)"


def _names(none: str, names: list[str], more: str = "") -> str:
    """A list of names, from expressions that are NULL for the names that don't belong to it."""
    names_list = (
        f"LIST_FILTER([{', '.join(names)}], LAMBDA x : NOT x IS NULL)" if names else NO_NAMES
    )
    if more:
        names_list = f"LIST_CONCAT({names_list}, COALESCE(LIST_SORT({more}), {NO_NAMES}))"
    return f"CASE WHEN invalid THEN NULL WHEN {none} THEN {NO_NAMES} ELSE {names_list} END"


def weighted_score(plan: BatchPlan, name: str) -> str:
    """`exact.weighted_score` as SQL, over norms in columns that are called so and numbered."""
    total = plan.total_weight
    top = " + ".join(f"{item.weight} * {name}{i}" for i, item in enumerate(plan.criteria))
    return quotient(f"({top})", 2 * SCORE_MAX, total * NORM_ONE, 2 * total * NORM_ONE)


def band_cases(plan: BatchPlan, score: str) -> str:
    """The letter of a score by the bands alone, as the branches of a CASE."""
    whens = " ".join(
        f"WHEN {score} >= {edge} THEN {text(letter)}" for letter, edge in plan.bands[:-1]
    )
    return f"{whens} ELSE {text(plan.bands[-1].grade)}"


def letter_cases(plan: BatchPlan, *, score: str, gates: str, floor_missed: str) -> str:
    """The letter of a run, as the branches of a CASE."""
    cap = [band.grade for band in plan.bands].index(plan.cap)
    capped = ""
    if cap > 0:  # a cap never raises: it holds for scores of a better band
        above = f"{floor_missed} AND {score} >= {plan.bands[cap - 1].edge}"
        capped = f"WHEN {above} THEN {text(plan.cap)}"
    last = text(plan.bands[-1].grade)
    return f"WHEN NOT {gates} THEN {last} {capped} {band_cases(plan, score)}"


class _Grades:
    """Writes the query of grades, stage by stage."""

    def __init__(self, rows: RowExpressions) -> None:
        self.rows = rows
        self.plan = rows.plan
        self.layout = rows.layout

    def query(self) -> str:
        """All stages."""
        stages = {
            "source_rows": self._rows(),
            "by_run": self._runs(),
            "checked": self._checked(),
            "normed": self._normed(),
            "scored": self._scored(),
            "lettered": self._lettered(),
            "reasoned": f"SELECT *, {self._reason()} AS reason FROM lettered",
        }
        named = ", ".join(f"{name} AS ({sql})" for name, sql in stages.items())
        return f"WITH {named} SELECT {', '.join(self._columns())} FROM reasoned"

    def _rows(self) -> str:
        """One row for each row of the source, with what it gives."""
        rows, layout = self.rows, self.layout
        columns = [f"{rows.run} AS r"]
        if layout.criterion is not None:
            name = identifier(layout.criterion.name)
            columns += [
                f"{index_of(name, (item.name for item in self.plan.criteria))} AS k",
                f"{rows.long_code(name)} AS c",
                f"NOT {name} IS NULL AS named",
            ]
            if layout.score.n is not None:
                columns.append(f"{rows.sample_size(layout.score.n)} AS n")
        if layout.gate is not None and layout.verdict is not None:
            gate, verdict = identifier(layout.gate.name), identifier(layout.verdict.name)
            columns += [
                f"{index_of(gate, self.plan.gates)} AS g",
                f"CASE WHEN {verdict} THEN 1 WHEN NOT {verdict} THEN 0 ELSE -1 END AS v",
                f"{gate} AS gate",
            ]
            if layout.verdict.written:
                columns.append(f"{is_bad_verdict(layout.verdict)} AS bad_verdict")
        for index in rows.wide:
            columns.append(f"{rows.wide_code(index)} AS w{index}")
            if self._has_n(index):
                n = rows.wide_n(index)
                size = "CAST(1 AS BIGINT)" if n is None else rows.sample_size(n)
                # an empty cell has no sample size: its row may be another file's
                given = f"NOT ({rows.wide_code(index)}) IS NULL"
                columns.append(f"CASE WHEN {given} THEN {size} END AS wn{index}")
        columns += [f"{bits} AS wg{word}" for word, bits in enumerate(rows.wide_verdicts())]
        bad = rows.bad_wide_verdicts()
        if bad is not None:
            columns.append(f"{bad} AS bad_cells")
        stray = rows.stray()
        if stray is not None:
            columns.append(f"{stray} AS stray")
        columns += [f"{identifier(cell.name)} AS kept{i}" for i, cell in enumerate(layout.keep)]
        return f"SELECT {', '.join(columns)} FROM {rows.view}"

    def _runs(self) -> str:
        """One row for each run: a code for each criterion and gate, and what is wrong with it."""
        rows, layout = self.rows, self.layout
        columns = ["r"]
        for index, item in enumerate(self.plan.criteria):
            is_long, is_wide = layout.criterion is not None, item.name in layout.wide
            code = _pivot(index, "c", f"w{index}" if is_wide else "", is_long=is_long)
            columns.append(f"{code} AS c{index}")
            if self._has_n(index):
                size = "CAST(1 AS BIGINT)" if layout.score.n is None else "n"
                column = _pivot(index, size, f"wn{index}" if is_wide else "", is_long=is_long)
                columns.append(f"{column} AS n{index}")
        columns += [f"{self._verdict(i)} AS g{i}" for i in range(len(self.plan.gates))]
        times = [f"COUNT(w{index})" for index in rows.wide]
        # a verdict that rows repeat is one; true and false are two
        times += [f"BIT_COUNT(BIT_OR(wg{word}))" for word in range(len(rows.wide_verdicts()))]
        faults = [f"COUNT(CASE WHEN w{index} < -1 THEN 1 END)" for index in rows.wide]
        if layout.criterion is not None:
            times.append("COUNT(k)")
            faults.append("COUNT(CASE WHEN c < -1 OR (named AND k IS NULL) THEN 1 END)")
        if layout.gate is not None:
            times.append("COUNT(g)")
            extra = "NOT gate IS NULL AND g IS NULL"
            is_name = f"REGEXP_MATCHES(gate, {text(IDENTIFIER)})"
            columns += [
                f"ARRAY_AGG(gate) FILTER (WHERE {extra}) AS extras",
                f"ARRAY_AGG(gate) FILTER (WHERE {extra} AND v <> 1) AS extra_failures",
                f"ARRAY_AGG(gate) FILTER (WHERE {extra} AND v = -1) AS extra_undetermined",
                f"COUNT(CASE WHEN {extra} THEN 1 END) AS extra_count",
                f"COUNT(CASE WHEN {extra} AND NOT {is_name} THEN 1 END) AS misnamed",
            ]
            if layout.verdict is not None and layout.verdict.written:
                bad = f"bad_verdict AND NOT gate IS NULL AND {is_name}"
                columns.append(f"COUNT(CASE WHEN {bad} THEN 1 END) AS bad_verdicts")
        if rows.bad_wide_verdicts() is not None:
            columns.append("CAST(SUM(bad_cells) AS BIGINT) AS bad_cells")
        if rows.stray() is not None:
            columns.append("COUNT(CASE WHEN stray THEN 1 END) AS strays")
        if rows.wide:
            any_of = " OR ".join(f"NOT w{index} IS NULL" for index in rows.wide)
            columns.append(f"COUNT(CASE WHEN {any_of} THEN 1 END) AS wide_rows")
        columns += [
            f"{' + '.join(times)} AS times",
            f"{' + '.join(faults)} AS row_faults",
            "COUNT(*) AS size",
        ]
        for index in range(len(layout.keep)):
            columns += [f"MIN(kept{index}) AS kept{index}", f"MAX(kept{index}) AS other{index}"]
        return f"SELECT {', '.join(columns)} FROM source_rows GROUP BY r"

    def _verdict(self, index: int) -> str:
        """The verdict that a run has on a gate: 1, 0, -1 for an undetermined one, or NULL."""
        verdicts = []
        if self.layout.gate is not None:
            verdicts.append(f"MAX(CASE WHEN g = {index} THEN v END)")
        if index in self.rows.wide_gates:
            word, bit = self.rows.verdict_bit(index)
            seen = f"BIT_OR(wg{word})"
            verdicts.append(
                f"CASE WHEN ({seen} & {bit}) > 0 THEN 1 WHEN ({seen} & {2 * bit}) > 0 THEN 0 END"
            )
        if len(verdicts) == 2:
            return f"COALESCE({', '.join(verdicts)})"
        return verdicts[0] if verdicts else "CAST(NULL AS BIGINT)"

    def _has_n(self, index: int) -> bool:
        return self.layout.score.n is not None or self.rows.wide_n(index) is not None

    def _checked(self) -> str:
        """The runs with the number of their faults, and whether they must be refused."""
        layout, plan = self.layout, self.plan
        names = [*(f"c{i}" for i in range(len(plan.criteria)))]
        names += [f"g{i}" for i in range(len(plan.gates))]
        named = " + ".join(f"CAST(NOT {name} IS NULL AS INTEGER)" for name in names)
        # what a run has more than once: its rows are more than the values they leave
        surplus = [f"times - ({named})"]
        refused = [f"c{index} < -1" for index in range(len(plan.criteria))]
        faults = ["row_faults"]
        if layout.gate is not None:
            surplus.append(
                "CASE WHEN extra_count = 0 THEN 0"
                " ELSE extra_count - ARRAY_LENGTH(LIST_DISTINCT(extras)) END"
            )
            faults.append("misnamed")
            refused.append("misnamed > 0")
            if layout.verdict is not None and layout.verdict.written:
                faults.append("bad_verdicts")
                refused.append("bad_verdicts > 0")
        if self.rows.bad_wide_verdicts() is not None:
            faults.append("bad_cells")
            refused.append("bad_cells > 0")
        if self.rows.wide:
            surplus.append("CASE WHEN wide_rows > 1 THEN wide_rows - 1 ELSE 0 END")
        if self.rows.stray() is not None:
            faults.append("strays")
            refused.append("strays > 0")
        for index in range(len(layout.keep)):
            differs = f"kept{index} <> other{index}"
            faults.append(f"CASE WHEN {differs} THEN 1 ELSE 0 END")
            refused.append(differs)
        no_run = self.rows.no_run("r")
        more = " + ".join(surplus)
        invalid = " OR ".join([no_run, "surplus > 0", *refused])
        counted = " + ".join([*faults, "surplus"])
        return (
            f"SELECT *, CASE WHEN {no_run} THEN size ELSE {counted} END AS faults,"
            f" COALESCE({invalid}, FALSE) AS invalid FROM (SELECT *, {more} AS surplus FROM by_run)"
        )

    def _normed(self) -> str:
        """Norms and gates. A run that is refused has no numbers."""
        columns = [
            f"CASE WHEN invalid THEN NULL WHEN c{i} > 0 THEN CAST(c{i} AS BIGINT) ELSE 0 END"
            f" AS norm{i}"
            for i in range(len(self.plan.criteria))
        ]
        passed = [f"g{index} = 1" for index in range(len(self.plan.gates))]
        if self.layout.gate is not None:
            passed.append("COALESCE(ARRAY_LENGTH(extra_failures) = 0, TRUE)")
        columns.append(f"COALESCE({' AND '.join(passed) or 'TRUE'}, FALSE) AS gates_pass")
        return f"SELECT *, {', '.join(columns)} FROM checked"

    def _scored(self) -> str:
        plan = self.plan
        columns, floors = [], []
        for index, item in enumerate(plan.criteria):
            n = f"COALESCE(n{index}, 1)" if self._has_n(index) else "1"
            pulled = adjusted(f"norm{index}", n, plan.shrinkage)
            columns.append(  # a missing score isn't pulled up to the prior
                f"CASE WHEN invalid THEN NULL WHEN c{index} >= 0 THEN {pulled} ELSE 0 END"
                f" AS adjusted{index}"
            )
            if item.floor is not None:
                missed = f"norm{index} < {item.floor}"
                if item.distrusted:
                    missed = f"({missed} OR COALESCE(c{index} >= 0, FALSE))"
                columns.append(f"{missed} AS floor{index}")
                floors.append(missed)
        columns.append(f"{' OR '.join(floors) or 'FALSE'} AS floor_missed")
        columns.append(f"{weighted_score(plan, 'norm')} AS score_units")
        return f"SELECT *, {', '.join(columns)} FROM normed"

    def _lettered(self) -> str:
        letter = letter_cases(
            self.plan, score="score_units", gates="gates_pass", floor_missed="floor_missed"
        )
        return (
            f"SELECT *, CASE WHEN invalid THEN NULL {band_cases(self.plan, 'score_units')} END"
            f" AS provisional, CASE WHEN invalid THEN NULL {letter} END AS letter,"
            f" {weighted_score(self.plan, 'adjusted')} AS adjusted_units FROM scored"
        )

    def _reason(self) -> str:
        return (
            "CASE WHEN invalid THEN 'invalid_evidence'"
            " WHEN NOT gates_pass THEN 'hard_gate_failure'"
            " WHEN floor_missed THEN 'critical_floor_failure'"
            f" WHEN score_units < {self.plan.threshold} THEN 'below_pass_threshold'"
            f" WHEN letter = {text(self.plan.bands[-1].grade)} THEN 'below_passing_grade'"
            " ELSE 'passed' END"
        )

    def _columns(self) -> list[str]:
        """The columns of a grade."""
        plan, layout = self.plan, self.layout
        columns = ["r AS run"]
        columns += [
            f"CASE WHEN kept{i} = other{i} THEN kept{i} END AS {identifier(cell.name)}"
            for i, cell in enumerate(layout.keep)
        ]
        columns += [
            "letter AS grade",
            "provisional AS provisional_grade",
            "reason = 'passed' AS passed",
            "reason",
            "score_units / 1e2 AS score",
            "adjusted_units / 1e2 AS adjusted_score",
        ]
        for column, decided, extras in (
            ("failed_gates", "= 1", "extra_failures"),
            ("undetermined_gates", ">= 0", "extra_undetermined"),
        ):
            good = [f"g{i} {decided}" for i in range(len(plan.gates))]
            named = [
                f"CASE WHEN {holds} THEN NULL ELSE {text(gate)} END"
                for holds, gate in zip(good, plan.gates, strict=True)
            ]
            more = extras if layout.gate is not None else ""
            good += [f"COALESCE(ARRAY_LENGTH({more}) = 0, TRUE)"] if more else []
            none = f"gates_pass OR ({' AND '.join(good) or 'TRUE'})"
            columns.append(f"{_names(none, named, more)} AS {column}")
        # a gate that the profile lacks, and that passes, is in no other column: without this one
        # nothing would notice that the next version drops it
        none, more = ("extra_count = 0", "extras") if layout.gate is not None else ("TRUE", "")
        columns.append(f"{_names(none, [], more)} AS extra_gates")
        floors = [
            f"CASE WHEN floor{i} THEN {text(item.name)} END"
            for i, item in enumerate(plan.criteria)
            if item.floor is not None
        ]
        columns.append(f"{_names('NOT floor_missed', floors)} AS failed_floors")
        lacking = [
            f"CASE WHEN c{i} >= 0 THEN NULL ELSE {text(item.name)} END"
            for i, item in enumerate(plan.criteria)
        ]
        complete = " AND ".join(f"c{i} >= 0" for i in range(len(plan.criteria)))
        columns.append(f"{_names(f'({complete})', lacking)} AS missing")
        total = plan.total_weight
        for i, item in enumerate(plan.criteria):
            points = quotient(f"norm{i}", 2 * item.weight, 10 * total, 20 * total)
            columns += [
                f"norm{i} / 1e9 AS {identifier('norm_' + item.name)}",
                f"adjusted{i} / 1e9 AS {identifier('adjusted_' + item.name)}",
                f"({points}) / 1e6 AS {identifier('contribution_' + item.name)}",
            ]
            if self._has_n(i):
                shown = f"CASE WHEN invalid THEN NULL ELSE n{i} END"
                columns.append(f"{shown} AS {identifier('n_' + item.name)}")
        return [
            *columns,
            "faults",
            f"{text(plan.profile)} AS profile",
            f"{text(plan.policy)} AS policy",
            f"{text(plan.scoring_system)} AS scoring_system",
            f"{text(plan.grading_system)} AS grading_system",
        ]
