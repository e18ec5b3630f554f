"""The SQL that pairs two batches by sample: one full outer join, and the counts and sums over it.

A lost sample or repeat counts as in `release.pairs` and `release.sides`. All numbers are integers:
scores in hundredths, norms and differences in billionths. The queries are written in DuckDB's
dialect; `sqlglot` translates them for the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.batch.engine import BatchEngine, ask
from assay.batch.plan import BatchPlan
from assay.batch.quoting import identifier, in_dialect, text
from assay.batch.run_query import (
    ATTEMPT,
    BatchRunQuery,
    BatchView,
    any_of,
    extra_gate_names,
    has_item,
    total,
)
from assay.exact import NORM_ONE
from assay.stats.clusters import Groups

PLACES = (20, 52, 84, 116)
"""Binary places at which a double is split into whole numbers, which add up without rounding."""


class PairQuery(BatchRunQuery):
    """Two batches under one plan."""

    def __init__(
        self,
        plan: BatchPlan,
        candidate: BatchView,
        baseline: BatchView,
        *,
        extra_gates: Mapping[str, bool] | None = None,
        left_out: Sequence[str] = (),
        slices: Sequence[str] = (),
        unscored: bool = False,
    ) -> None:
        """`unscored` says whether runs lack scores, so that pairs must show which."""
        extra = extra_gates or {}
        super().__init__(plan, extra_gates=list(extra))
        # whether a candidate's sample must have the gate: where the baseline has it, and where the
        # baseline lacks the sample, if any other sample has it
        self._required = {
            index: f"COALESCE(t_h{index} = 1, {'TRUE' if extra[gate] else 'FALSE'})"
            for index, gate in self.extra
        }
        self.repeated = ATTEMPT in candidate.columns or ATTEMPT in baseline.columns
        self.slices = {column: f"s{index}" for index, column in enumerate(slices)}
        self.unscored = range(len(plan.criteria)) if unscored else range(0)
        absent = [
            f"{has_item('missing', plan.criteria[index].name)} AS a{index}"
            for index in self.unscored
        ]
        ours = self.runs(candidate, *absent)
        theirs = self.runs(
            baseline,
            *absent,
            *(
                f"COALESCE(CAST({identifier(column)} AS VARCHAR), '') AS {alias}"
                for column, alias in self.slices.items()
            ),
        )
        self._with = f"WITH o_runs AS ({ours}), t_runs AS ({theirs}), o AS ({self._samples('o')})"
        self._with += f", t AS ({self._samples('t')})"
        if self.repeated:
            matched = (
                "SELECT a.sample AS sample, COUNT(*) AS n FROM o_runs AS a JOIN t_runs AS b ON"
                " a.sample = b.sample AND a.attempt = b.attempt GROUP BY a.sample"
            )
            self._with += f", matched AS ({matched})"
        self._with += f", joined AS ({self._joined()})"
        self._paired = f", pairs AS ({self._pairs(left_out)})"

    def materialise(self, engine: BatchEngine) -> None:
        """Join the two sides once for all queries that follow."""
        table = engine.materialise(in_dialect(f"{self._with} SELECT * FROM joined", engine.dialect))
        self._with = f"WITH joined AS (SELECT * FROM {identifier(table)})"

    def over_pairs(self, select: str) -> str:
        """A query that reads `pairs`."""
        return f"{self._with}{self._paired} {select}"

    def _samples(self, side: str) -> str:
        """Repeats of one sample as one: sums, and every failure of any of them."""
        columns = ["sample", "COUNT(*) AS m", "COUNT(attempt) AS numbered", "MAX(grp) AS grp"]
        columns += [f"{_flag('MIN(p)')} AS p", f"{_sum('score')} AS score"]
        columns += [f"{_flag(f'MAX(g{index})')} AS g{index}" for index, _ in self.gates]
        columns += [
            f"CASE WHEN MAX(u{index}) = 1 AND MAX(g{index} - u{index}) = 0 THEN {_flag('1')}"
            f" ELSE {_flag('0')} END AS u{index}"
            for index, _ in self.gates
        ]
        # a repeat doesn't vouch for a gate that another one lacks
        columns += [
            f"CASE WHEN MAX(g{index}) = 1 OR MIN(h{index}) = 1 THEN {_flag('1')} ELSE {_flag('0')}"
            f" END AS h{index}"
            for index, _ in self.extra
        ]
        columns += [f"{_flag(f'MAX(f{index})')} AS f{index}" for index, _ in self.floors]
        columns += [f"{_sum(f'n{index}')} AS n{index}" for index in range(len(self.plan.criteria))]
        columns += [f"{_sum(f'a{index}')} AS a{index}" for index in self.unscored]
        if side == "t":
            for alias in self.slices.values():
                columns.append(f"MAX({alias}) AS {alias}")
                columns.append(f"MIN({alias}) = MAX({alias}) AS {alias}_agrees")
        return f"SELECT {', '.join(columns)} FROM {side}_runs GROUP BY sample"

    def _joined(self) -> str:
        both = "o.sample IS NOT NULL AND t.sample IS NOT NULL"
        columns = [
            "COALESCE(o.sample, t.sample) AS sample",
            "t.grp AS grp",
            "o.sample IS NOT NULL AS has_o",
            "t.sample IS NOT NULL AS has_t",
            *(f"t.{alias}, t.{alias}_agrees" for alias in self.slices.values()),
        ]
        lost = ["0 AS lost_o", "0 AS lost_t"]
        join = ""
        if self.repeated:
            # a single run without a number is the first repeat of the other side
            shared = (
                "CASE WHEN o.numbered = 0 OR t.numbered = 0 THEN 1 ELSE COALESCE(matched.n, 0) END"
            )
            lost = [
                f"CASE WHEN {both} THEN {side}.m - {shared} ELSE 0 END AS lost_{other}"
                for side, other in (("t", "o"), ("o", "t"))
            ]
            join = " LEFT JOIN matched ON matched.sample = o.sample"
        columns += lost
        for side in ("o", "t"):
            fields = ["m", "p", "score"]
            kinds = "g" if side == "o" else "gu"
            fields += [f"{kind}{index}" for kind in kinds for index, _ in self.gates]
            fields += [f"h{index}" for index, _ in self.extra]
            fields += [f"f{index}" for index, _ in self.floors]
            fields += [f"n{index}" for index in range(len(self.plan.criteria))]
            fields += [f"a{index}" for index in self.unscored]
            columns += [f"{side}.{field} AS {side}_{field}" for field in fields]
        joined = f"o FULL OUTER JOIN t ON o.sample = t.sample{join}"
        return f"SELECT {', '.join(columns)} FROM {joined}"

    def _pairs(self, left_out: Sequence[str]) -> str:
        """Each pair as it counts: what the candidate lost as the worst, what the baseline lost as
        the best.
        """
        gone, best = "(NOT has_o OR lost_o > 0)", NORM_ONE
        lacks = {
            index: f"(o_h{index} = 0 AND {required})" for index, required in self._required.items()
        }
        columns = [
            "sample",
            "grp",
            "has_o",
            "has_t",
            "lost_o",
            "lost_t",
            *self.slices.values(),
            "CASE WHEN has_o THEN o_score ELSE 0 END AS score_o",
            "CASE WHEN has_o THEN o_m + lost_o ELSE 1 END AS m_o",
            "CASE WHEN has_t THEN t_score + 10000 * lost_t ELSE 10000 END AS score_t",
            "CASE WHEN has_t THEN t_m + lost_t ELSE 1 END AS m_t",
            f"CASE WHEN {gone} OR o_p = 0 OR {any_of(lacks.values())} THEN 0 ELSE 1 END AS pass_o",
            "CASE WHEN has_t AND t_p = 0 THEN 0 ELSE 1 END AS pass_t",
        ]
        for index, _ in self.extra:
            columns += [
                (
                    f"CASE WHEN NOT has_o THEN t_h{index} WHEN {lacks[index]} THEN 1"
                    f" WHEN lost_o > 0 THEN o_h{index} ELSE o_g{index} END AS g{index}_o"
                ),
                f"CASE WHEN has_t THEN t_g{index} ELSE 0 END AS g{index}_t",
                f"CASE WHEN has_o AND {lacks[index]} THEN 1 ELSE 0 END AS l{index}",
                (
                    f"CASE WHEN NOT has_o THEN t_h{index} WHEN {self._required[index]} THEN 1"
                    f" ELSE o_h{index} END AS h{index}"
                ),
            ]
        required = self.gates[: len(self.plan.gates)]
        for kind, numbered in (("g", required), ("f", self.floors)):
            for index, _ in numbered:
                columns += [
                    f"CASE WHEN {gone} THEN 1 ELSE o_{kind}{index} END AS {kind}{index}_o",
                    f"CASE WHEN has_t THEN t_{kind}{index} ELSE 0 END AS {kind}{index}_t",
                ]
        for index, _ in self.gates:
            columns.append(f"COALESCE(t_u{index} = 1, FALSE) AS u{index}_t")
        for index in range(len(self.plan.criteria)):
            columns += [
                f"CASE WHEN has_o THEN o_n{index} ELSE 0 END AS n{index}_o",
                f"CASE WHEN has_t THEN t_n{index} + {best} * lost_t ELSE {best} END AS n{index}_t",
            ]
        for side in ("o", "t"):
            weighed = [
                f"CASE WHEN o_a{index} < o_m OR t_a{index} < t_m"
                f" THEN {self.plan.criteria[index].weight} * {side}_a{index} ELSE 0 END"
                for index in self.unscored
            ]
            summed = f"COALESCE({' + '.join(weighed) or '0'}, 0)"
            columns.append(f"CASE WHEN has_o AND has_t THEN {summed} ELSE 0 END AS absent_{side}")
        kept = f" WHERE NOT sample IN ({', '.join(map(text, left_out))})" if left_out else ""
        counted = f"SELECT {', '.join(columns)} FROM joined{kept}"
        points = [f"(20000000 * score_{side} + m_{side}) // (2 * m_{side})" for side in ("o", "t")]
        sure = any_of(f"(g{index}_t = 1 AND NOT u{index}_t)" for index, _ in self.gates)
        fails = [
            f"({gone} OR {any_of(f'g{index}_o = 1' for index, _ in self.gates)}) AS fails_o",
            f"(has_t AND {any_of(f'g{index}_t = 1' for index, _ in self.gates)}) AS fails_t",
            f"(has_t AND {sure}) AS certain_t",
            f"{any_of(f'u{index}_t' for index, _ in self.gates)} AS open_t",
        ]
        return (
            f"SELECT *, {points[0]} - {points[1]} AS d,"
            f" ({gone} OR NOT has_t OR lost_t > 0) AS lost,"
            " absent_o + absent_t > 0 AS unscored,"
            f" {', '.join(fails)} FROM ({counted}) AS counted"
        )


def middle(weights: int) -> str:
    """Twice the middle of what a pair could come to, as `LostPair.order` has it. `weights` is the
    sum of the criteria's weights.
    """
    parts = ["CAST(d AS DOUBLE) / 5e8"]
    for side, sign in ("o", ""), ("t", "-"):
        parts.append(f"1e2 * (lost_{side} + CASE WHEN has_{side} THEN 0 ELSE 1 END) / m_{side}")
        parts.append(f"{sign}1e-2 * CEIL(1e4 * absent_{side} / ({weights} * m_{side}))")
    return f"ROUND({' + '.join(parts)}, 6)"


def group_sums(query: PairQuery, where: str, *keys: str) -> str:
    """The size of each group, and the exact sums of its differences and of their squares: a double
    is split at `PLACES` into whole numbers. Groups are separated by `keys`, the first columns.
    """
    listed = "".join(f"{key}, " for key in keys)
    inner = (
        f"SELECT {listed}grp, CAST(d AS DOUBLE) / 1e9 AS r0 FROM pairs"
        f" WHERE grp IS NOT NULL AND {where}"
    )
    split = f"SELECT {listed}grp, r0 AS v0, r0 * r0 AS q0 FROM ({inner}) AS cut0"
    for step, places in enumerate(PLACES):
        power = f"{2**places}e0"
        parts = [f"FLOOR({kind}{step} * {power}) AS {kind}p{step}" for kind in "vq"]
        split = f"SELECT *, {', '.join(parts)} FROM ({split}) AS floor{step}"
        rest = [f"{kind}{step} - {kind}p{step} / {power} AS {kind}{step + 1}" for kind in "vq"]
        split = f"SELECT *, {', '.join(rest)} FROM ({split}) AS rest{step}"
    sums = [
        f"{total(f'CAST({kind}p{step} AS BIGINT)')}" for kind in "vq" for step in range(len(PLACES))
    ]
    return query.over_pairs(
        f"SELECT {listed}COUNT(*), {', '.join(sums)} FROM ({split}) AS cut GROUP BY {listed}grp"
    )


def groups_of(rows: Iterable[Sequence[Any]]) -> Groups:
    """The groups that `group_sums` counted, without their keys."""
    steps = len(PLACES)
    return Groups.in_order(
        (int(row[0]), _double(row[1 : 1 + steps]), _double(row[1 + steps :]), 1) for row in rows
    )


def _double(parts: Sequence[Any]) -> float:
    """The sum of doubles that were cut at `PLACES`, rounded once."""
    shifted = zip(parts, PLACES, strict=True)
    whole = sum(int(part) << (PLACES[-1] - places) for part, places in shifted)
    return whole / (1 << PLACES[-1])


def extra_gates(engine: BatchEngine, plan: BatchPlan, *sides: BatchView) -> dict[str, bool]:
    """The gates beyond the plan's that runs of either side have, and whether a sample has them in
    all of its repeats, or fails them.
    """
    gates = extra_gate_names(engine, plan, *sides)
    if not gates:
        return {}
    query = PairQuery(plan, sides[0], sides[-1], extra_gates=dict.fromkeys(gates, True))
    flags = ", ".join(f"h{index}" for index, _ in query.extra)
    held = ", ".join(f"MAX(h{index})" for index, _ in query.extra)
    samples = f"SELECT {flags} FROM o UNION ALL SELECT {flags} FROM t"
    (row,) = ask(engine, query.over_pairs(f"SELECT {held} FROM ({samples}) AS samples"))
    return {gate: bool(flag) for gate, flag in zip(gates, row, strict=True)}


def _sum(column: str) -> str:
    return f"CAST(SUM({column}) AS BIGINT)"


def _flag(expression: str) -> str:
    """1 or 0 in one byte: the joined rows of 100,000,000 samples need disk space."""
    return f"CAST({expression} AS TINYINT)"
