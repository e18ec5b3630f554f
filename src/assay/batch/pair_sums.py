"""The tally of two batches, counted by an engine: what `release.pair_tally` makes of lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from assay.batch.engine import BatchEngine, ask
from assay.batch.pair_query import PairQuery, group_sums, groups_of, middle
from assay.batch.quoting import text
from assay.batch.run_query import any_of, count_if, total
from assay.errors import InputError
from assay.records.decision import WorseSample
from assay.release.policy import ReleaseRules
from assay.release.promotion_rules import SHOWN
from assay.release.required import lost_words
from assay.release.sides import LOST, Stratum
from assay.release.tally import (
    MAX_MISSING,
    MAX_WORSE,
    CertainFailures,
    ComparedSides,
    FloorTally,
    GateTally,
    LostPair,
    LostThings,
    NameList,
    NormSums,
    PairTally,
    PassTally,
    ScoreTally,
    SevereTally,
    SidePoints,
    kept_lost,
)
from assay.stats.clusters import MINIMUM, Groups

MAX_GROUPS = 2_000_000
"""The most groups whose sums are fetched from the engine."""
MAX_LACKING = 200_000
"""The most samples that are fetched because the baseline lacks a score of them."""
_BILLION = 10**9


def count_pairs_of(
    engine: BatchEngine,
    query: PairQuery,
    rules: ReleaseRules,
    *,
    stratum: Stratum,
    roles: dict[str, str],
) -> PairTally:
    """The tally of the pairs of two batches. `roles` has the role of each criterion with one."""
    return _Tally(engine, query, rules, stratum, roles).tally()


class _Wrong(NamedTuple):
    """Something that can be wrong with a sample, on either side."""

    words: str
    ours: str
    theirs: str


class _Tally:
    def __init__(
        self,
        engine: BatchEngine,
        query: PairQuery,
        rules: ReleaseRules,
        stratum: Stratum,
        roles: dict[str, str],
    ) -> None:
        self.engine, self.query, self.rules = engine, query, rules
        self.stratum = stratum
        # as `release.pair_tally.counted` has it
        self.counted = f"(has_t OR CAST(d AS DOUBLE) / 1e9 <= {-rules.margin!r})"
        self.floors = [
            _Wrong(name, f"f{index}_o = 1", f"f{index}_t = 1") for index, name in query.floors
        ]
        severe = sorted((gate, index) for index, gate in query.gates if gate in rules.severe_gates)
        self.severe_gates = [index for _, index in severe]
        self.severe = [_Wrong(gate, f"g{at}_o = 1", f"g{at}_t = 1") for gate, at in severe]
        floored = (name for _, name in query.floors)
        self.severe_criteria = frozenset(n for n in floored if roles.get(n) in rules.severe_roles)
        for role in sorted(rules.severe_roles):
            of_role = [index for index, name in query.floors if roles.get(name) == role]
            if of_role:
                ours, theirs = (
                    any_of(f"f{index}_{side} = 1" for index in of_role) for side in "ot"
                )
                self.severe.append(_Wrong(f"floor of the role {role}", ours, theirs))

    def rows(self, select: str) -> list[Any]:
        return ask(self.engine, self.query.over_pairs(select))

    def tally(self) -> PairTally:
        counts = self._counts()
        gates = {
            gate: {"candidate": counts[f"gate{index}_o"], "baseline": counts[f"gate{index}_t"]}
            for index, gate in sorted(self.query.gates, key=lambda item: item[1])
            if counts.get(f"has{index}", 1)
        }
        new = "{0.ours} AND NOT {0.theirs}"
        return PairTally(
            n_paired=counts["both"],
            missing_candidate=self._samples("NOT has_o OR lost_o > 0", counts["missing_o"]),
            missing_baseline=self._samples("NOT has_t OR lost_t > 0", counts["missing_t"]),
            compared=self._compared(counts),
            gates=GateTally(
                counts["n_gates"],
                counts["fails_o"],
                counts["fails_t"],
                counts["fails_both"],
                gates,
                self._samples("fails_o AND NOT fails_t", counts["newly"]),
                self._samples(self._ungated(), counts["ungated"]),
                self._lost_gates(counts),
                CertainFailures(counts["fails_o"], counts["certain_t"], counts["open_t"]),
            ),
            floors=FloorTally(
                self._items(
                    [(floor.words, new.format(floor)) for floor in sorted(self.floors)],
                    "criterion",
                    counts["floors_new"],
                ),
                counts["floors_mended"],
                None,
            ),
            severe=SevereTally(
                self._items(
                    [(criterion.words, criterion.ours) for criterion in self.severe],
                    "what",
                    counts["severe_o"],
                ),
                counts["severe_t"],
                CertainFailures(
                    counts["severe_o"],
                    counts["severe_t"] - counts["severe_open"],
                    counts["severe_open"],
                ),
                self.severe_criteria,
            ),
            passes=PassTally(
                counts["n"],
                counts["passes"],
                counts["gained"],
                counts["pass_lost"],
                counts["pass_alone"],
            ),
            worse=self._worse(),
        )

    def _counts(self) -> dict[str, int]:
        """Every count of a decision, in one query."""
        columns = {
            "n": "COUNT(*)",
            "both": count_if("has_o AND has_t"),
            "n_gates": count_if("has_t OR fails_o"),
            "n_scores": count_if(self.counted),
            "lost": count_if("lost"),
            "unscored": count_if("unscored AND NOT lost"),
            "missing_o": count_if("NOT has_o OR lost_o > 0"),
            "missing_t": count_if("NOT has_t OR lost_t > 0"),
            "fails_o": count_if("fails_o"),
            "fails_t": count_if("fails_t"),
            "fails_both": count_if("fails_o AND fails_t"),
            "certain_t": count_if("certain_t"),
            "open_t": count_if("open_t"),
            "newly": count_if("fails_o AND NOT fails_t"),
            "passes": count_if("pass_o = 1"),
            "gained": count_if("pass_o = 1 AND pass_t = 0"),
            "pass_lost": count_if("pass_o = 0 AND pass_t = 1"),
            "pass_alone": count_if("pass_o = 1 AND NOT has_t"),
            "ungated": count_if(self._ungated()),
            "groups": "COUNT(DISTINCT grp)",
            "ungrouped": count_if(f"grp IS NULL AND {self.counted}"),
            "floors_new": _added(f"{floor.ours} AND NOT {floor.theirs}" for floor in self.floors),
            "floors_mended": _added(
                f"{floor.theirs} AND NOT {floor.ours}" for floor in self.floors
            ),
            "severe_o": _added(criterion.ours for criterion in self.severe),
            "severe_t": _added(criterion.theirs for criterion in self.severe),
            "severe_open": _added(f"u{index}_t" for index in self.severe_gates),
        }
        for index, _ in self.query.extra:
            columns[f"has{index}"] = count_if(f"h{index} = 1")
            columns[f"lost{index}"] = count_if(f"l{index} = 1")
        for index, _ in self.query.gates:
            columns[f"gate{index}_o"] = count_if(f"g{index}_o = 1")
            columns[f"gate{index}_t"] = count_if(f"g{index}_t = 1")
        (row,) = self.rows(f"SELECT {', '.join(columns.values())} FROM pairs")
        return {name: int(value or 0) for name, value in zip(columns, row, strict=True)}

    def _ungated(self) -> str:
        """Whether a sample has no gate."""
        if self.query.plan.gates:
            return "FALSE"
        return f"NOT {any_of(f'h{index} = 1' for index, _ in self.query.extra)}"

    def _lost_gates(self, counts: dict[str, int]) -> LostThings | None:
        """The gates that the candidate dropped."""
        named = sorted(
            (f"gate {gate}", f"l{index} = 1")
            for index, gate in self.query.extra
            if counts[f"lost{index}"]
        )
        if not named:
            return None
        firsts = [f"MIN(CASE WHEN {condition} THEN sample END)" for _, condition in named]
        some = any_of(condition for _, condition in named)
        (row,) = self.rows(f"SELECT {count_if(some)}, {', '.join(firsts)} FROM pairs")
        ordered = sorted(zip(row[1:], (words for words, _ in named), strict=True))
        total_lost = sum(counts[f"lost{index}"] for index, _ in self.query.extra)
        return LostThings(
            self._items(named, "what", total_lost),
            lost_words([words for _, words in ordered], ordered[0][0], int(row[0])),
        )

    def _compared(self, counts: dict[str, int]) -> ComparedSides:
        """The scores and norms of the pairs that count."""
        values, single = Counter[float](), Counter[float]()
        for units, is_single, times in self.rows(
            f"SELECT d, grp IS NULL, COUNT(*) FROM pairs WHERE {self.counted}"
            " GROUP BY d, grp IS NULL"
        ):
            value = int(units) / _BILLION
            values[value] += times
            if is_single:
                single[value] += times
        n = counts["n_scores"]
        strata = {self.stratum: self._norms()} if n else {}
        return ComparedSides(n, self._scores(values, single, counts), strata, 0, None)

    def _scores(
        self, values: Counter[float], single: Counter[float], counts: dict[str, int]
    ) -> ScoreTally:
        lost_count = counts["lost"]
        lacking, clusters = lost_count + counts["unscored"], counts["groups"] + counts["ungrouped"]
        shares = clusters < counts["n_scores"]
        lost = self._lost_pairs(lost_count) if lacking else ()
        if not shares or clusters < MINIMUM:
            return ScoreTally(values, shares, clusters, None, lost_count, lacking, lost)
        check_group_count(clusters - single.total())
        members: dict[tuple[str | None, str], Counter[float]] = {}
        opened = sorted({pair.group for pair in lost if pair.group is not None})
        listed = ", ".join(map(text, opened))
        if opened:
            for group, units, times in self.rows(
                f"SELECT grp, d, COUNT(*) FROM pairs WHERE grp IN ({listed}) GROUP BY grp, d"
            ):
                members.setdefault((group, ""), Counter())[int(units) / _BILLION] += times
        alone = Counter(single)
        for pair in lost:
            if pair.group is None:
                members[pair.cluster] = Counter() if pair.value is None else Counter([pair.value])
                alone -= members[pair.cluster]
        shut = f"NOT grp IN ({listed})" if opened else "TRUE"
        rows = ask(self.engine, group_sums(self.query, shut))
        groups = groups_of(rows).with_others(Groups.of((), +alone))
        return ScoreTally(values, shares, clusters, groups, lost_count, lacking, lost, members)

    def _lost_pairs(self, lost_count: int) -> tuple[LostPair, ...]:
        sides = ", ".join(f"has_{s}, score_{s}, m_{s}, lost_{s}, absent_{s}" for s in "ot")
        order = f"{middle(sum(self.stratum.weights))} DESC, sample"
        found: set[LostPair] = set()
        for condition in (
            f"lost OR unscored ORDER BY {order} LIMIT {MAX_MISSING}",
            f"absent_t > 0 LIMIT {MAX_LACKING + 1}",
        ):
            rows = self.rows(
                f"SELECT sample, grp, {self.counted}, {sides} FROM pairs WHERE {condition}"
            )
            found.update(map(self._lost, rows))
        if len(found) > MAX_LACKING:
            raise InputError(
                "BAT-060",
                f"the baseline lacks scores in more than {MAX_LACKING:,} samples.",
                fix="Score them, and make the baseline's batch again.",
            )
        return kept_lost(found, lost_count)

    def _lost(self, row: Sequence[Any]) -> LostPair:
        ours, theirs = self._side(*row[3:8]), self._side(*row[8:])
        return LostPair.of(row[0], row[1], ours, theirs, is_counted=bool(row[2]))

    def _side(self, has: bool, score: Any, m: Any, gone: Any, lacks: Any) -> SidePoints:
        unknown = Fraction(int(gone), int(m)) if has else 1
        unscored = Fraction(int(lacks), sum(self.stratum.weights) * int(m))
        return SidePoints.of(_points(score, m), unknown, unscored)

    def _norms(self) -> NormSums:
        """The sums of the pairs that count, counted by the number of repeats, because a sample's
        norm is the mean over its repeats.
        """
        width = len(self.stratum.criteria)
        columns = [total(f"n{index}_{side}") for side in "ot" for index in range(width)]
        rows = self.rows(
            f"SELECT m_o, m_t, COUNT(*), {', '.join(columns)} FROM pairs WHERE {self.counted}"
            " GROUP BY m_o, m_t"
        )
        ours: list[int | Fraction] = [0] * width
        theirs: list[int | Fraction] = [0] * width
        n = 0
        for m_o, m_t, times, *sums in rows:
            n += times
            for index in range(width):
                ours[index] += Fraction(int(sums[index]), int(m_o))
                theirs[index] += Fraction(int(sums[width + index]), int(m_t))
        return NormSums(ours, theirs, n)

    def _samples(self, condition: str, number: int) -> NameList:
        if not number:
            return NameList([], 0)
        rows = self.rows(
            f"SELECT sample FROM pairs WHERE {condition} ORDER BY sample LIMIT {SHOWN}"
        )
        return NameList([row[0] for row in rows], number)

    def _items(self, named: Sequence[tuple[str, str]], key: str, number: int) -> NameList:
        """The first samples and what is wrong with them, in the order of `named`."""
        if not number:
            return NameList([], 0)
        flags = ", ".join(f"({condition})" for _, condition in named)
        some = any_of(condition for _, condition in named)
        rows = self.rows(
            f"SELECT sample, {flags} FROM pairs WHERE {some} ORDER BY sample LIMIT {SHOWN}"
        )
        items = [
            {"sample": row[0], key: words}
            for row in rows
            for (words, _), flag in zip(named, row[1:], strict=True)
            if flag
        ]
        return NameList(items[:SHOWN], number)

    def _worse(self) -> list[WorseSample]:
        points = [f"CAST(score_{side} AS DOUBLE) / m_{side} / 1e2" for side in "ot"]
        flags = "".join(f", g{index}_o, g{index}_t" for index, _ in self.query.gates)
        rows = self.rows(
            f"SELECT sample, score_o, m_o, score_t, m_t, lost_o{flags} FROM pairs"
            f" WHERE has_o AND has_t AND {points[0]} < {points[1]}"
            f" ORDER BY {points[0]} - {points[1]}, sample LIMIT {MAX_WORSE}"
        )
        worse = []
        for sample, score_o, m_o, score_t, m_t, lost_o, *failed in rows:
            ours, theirs = _points(score_o, m_o), _points(score_t, m_t)
            newly = [
                gate
                for index, (_, gate) in enumerate(self.query.gates)
                if failed[2 * index] and not failed[2 * index + 1]
            ]
            worse.append(
                WorseSample(
                    sample=sample,
                    difference=round(ours - theirs, 4),
                    candidate=ours,
                    baseline=theirs,
                    newly_failed_gates=sorted([*newly, *([LOST] if lost_o else [])]),
                )
            )
        return worse


def check_group_count(groups: int) -> None:
    """Refuse more groups than are fetched from the engine."""
    if groups > MAX_GROUPS:
        raise InputError(
            "BAT-060",
            f"the samples come from {groups:,} groups, and a decision over batches takes at most"
            f" {MAX_GROUPS:,}.",
            fix="Keep a coarser `group`, such as the document instead of the page.",
        )


def _points(score: Any, repeats: Any) -> float:
    return float(Fraction(int(score), int(repeats))) / 100


def _added(conditions: Any) -> str:
    counted = [count_if(condition) for condition in conditions]
    return " + ".join(counted) if counted else "0"


def stratum_of(query: PairQuery) -> Stratum:
    """All samples of a plan: they are scored alike."""
    criteria = query.plan.criteria
    return Stratum(
        query.plan.profile,
        tuple(criterion.name for criterion in criteria),
        tuple(criterion.weight for criterion in criteria),
        tuple(criterion.formula for criterion in criteria),
    )
