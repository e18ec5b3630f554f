"""The query of a batch gives the letters and cents of the Python engine, and refuses what it refuses."""

from __future__ import annotations

import random
import subprocess
import sys
from decimal import Decimal
from math import inf, nan, nextafter
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot

import assay
from assay.errors import InputError, ShelfError
from assay.families.batch.batching import plan_batch
from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.plan import BatchPlan
from assay.families.batch.quoting import identifier, text
from assay.families.batch.relational import batch_queries
from assay.library.shelf import Shelf
from assay.records.scorecard import Criterion, Scorecard
from assay.services.grading import Grader
from examples import repeats

PROFILE = """
profile: every-formula
version: 1
title: Every formula
family: every-formula
gates: [{id: own_gate, verdict: true}]
criteria:
  - {id: correctness, label: c, weight: 0.3, role: correctness, layer: 2, formula: likert_1_5}
  - {id: tone, label: t, weight: 0.1, layer: 2, formula: likert_neg2_2}
  - {id: depth, label: d, weight: 0.1, layer: 2, formula: likert_0_5, critical_floor: {raw: 2}}
  - {id: precision, label: p, weight: 0.15, layer: 1, formula: zero_one, critical_floor: {norm: 0.25}}
  - {id: valid, label: v, weight: 0.05, layer: 1, formula: binary}
  - {id: wins, label: w, weight: 0.1, layer: 2, formula: pairwise}
  - {id: tests, label: r, weight: 0.1, layer: 1, formula: ratio}
  - {id: latency, label: l, weight: 0.1, layer: 3, formula: lower_is_better, params: {slo_good: 800, slo_bad: 4000.5}}
"""
COUNTS = {"pairwise": ("wins", "losses", "ties"), "ratio": ("passed", "total")}


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("shelf") / "every-formula.yaml"
    path.write_text(PROFILE, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def plan(profile: str) -> BatchPlan:
    return plan_batch(Shelf(), profile=profile)


@pytest.fixture(scope="module")
def grader(profile: str) -> Grader:
    return Grader(Shelf(), profile=profile)


Card = dict[str, Any]
"""`scores`: (criterion, raw, n) of a run; `gates`: (gate, verdict)."""


def by_python(grader: Grader, plan: BatchPlan, run: str, card: Card) -> dict[str, Any]:
    """The row that the Python engine stands for; `InputError` where it refuses the card."""
    formulas = {item.name: item for item in plan.criteria}
    gates = dict(card["gates"])
    if len(gates) != len(card["gates"]):
        raise InputError("GRD-102", "a gate twice")
    order = [name for name in plan.gates if name in gates]
    order += sorted(set(gates) - set(order))
    criteria = [
        Criterion(
            name=name,
            raw_score=raw,
            missing="none" if raw is None else None,
            formula_id=formulas[name].formula,
            weight=formulas[name].weight,
            n=n,
        )
        for name, raw, n in sorted(card["scores"], key=lambda one: list(formulas).index(one[0]))
    ]
    names = [*formulas]
    given = Scorecard(
        schema="assay.scorecard/1",
        run_id=run,
        hard_gates={name: gates[name] for name in order},
        criteria=criteria,
    )
    grade = grader.grade_card(grader.required(given))
    failed = grade.hard_gate_failures
    return {
        "run": run,
        "grade": grade.grade,
        "provisional_grade": grade.provisional_grade,
        "passed": grade.passed,
        "reason": grade.reason,
        "score": grade.weighted_score,
        "adjusted_score": grade.weighted_score_adjusted,
        "failed_gates": sorted(
            failed, key=lambda one: (plan.gates.index(one) if one in plan.gates else 99, one)
        ),
        "extra_gates": sorted(set(gates) - set(plan.gates)),
        "failed_floors": sorted(grade.floor_failures, key=names.index),
        "missing": sorted(
            (one.name for one in grade.criteria if one.criterion.raw_score is None), key=names.index
        ),
        **{
            f"{kind}_{one.name}": value
            for one in grade.criteria
            for kind, value in (
                ("norm", one.norm),
                ("adjusted", one.adjusted_norm),
                ("contribution", one.contribution),
            )
        },
        "faults": 0,
        "profile": plan.profile,
        "policy": plan.policy,
        "scoring_system": grade.scoring_system,
        "grading_system": grade.grading_system,
    }


def random_raw(chance: random.Random, formula: str) -> Any:
    if chance.random() < 0.05:
        return None
    kind = chance.random()
    if formula in COUNTS:
        numbers = [chance.randrange(0, 50) for _ in COUNTS[formula]]
        numbers[-1] += 50
        return dict(zip(COUNTS[formula], numbers, strict=True))
    if formula == "binary":
        return chance.choice([0.0, 1.0])
    low, high = {
        "likert_1_5": (1, 5),
        "likert_neg2_2": (-2, 2),
        "likert_0_5": (0, 5),
        "zero_one": (0, 1),
    }.get(formula, (800, Decimal("4000.5")))
    if kind < 0.3:
        return float(chance.randint(low, int(high)))
    units = chance.randrange(0, 10**9)
    tie = float(Decimal(low) + (Decimal(high) - low) * (2 * units + 1) / Decimal(2 * 10**9))
    if kind < 0.6:
        return tie
    if kind < 0.7:
        return min(max(nextafter(tie, chance.choice([-1e9, 1e9])), low), float(high))
    return min(
        max(round(chance.uniform(low, float(high)), chance.randrange(0, 15)), low), float(high)
    )


def random_card(chance: random.Random, plan: BatchPlan) -> Card:
    scores = [
        (item.name, random_raw(chance, item.formula), chance.choice([1, 1, 0, 3, 7, 1000]))
        for item in plan.criteria
        if chance.random() > 0.04
    ]
    good = chance.random() < 0.8
    gates = [
        (name, good or chance.choice([True, False, None]))
        for name in plan.gates
        if good or chance.random() > 0.1
    ]
    if chance.random() < 0.2:
        gates.append(("an extra gate", chance.random() < 0.7))
    chance.shuffle(scores)
    return {"scores": scores, "gates": gates}


LONG = "run VARCHAR, criterion VARCHAR, raw DOUBLE, n BIGINT, wins BIGINT, losses BIGINT, ties BIGINT, passed BIGINT, total BIGINT, gate VARCHAR, verdict BOOLEAN"


def long_rows(run: str | None, card: Card) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for name, raw, n in card["scores"]:
        counts = raw if isinstance(raw, dict) else {}
        number = None if isinstance(raw, dict) else raw
        rows.append(
            (
                run,
                name,
                number,
                n,
                *(counts.get(key) for key in (*COUNTS["pairwise"], *COUNTS["ratio"])),
                None,
                None,
            )
        )
    rows += [(run, *[None] * 8, name, verdict) for name, verdict in card["gates"]]
    return rows


class Batch:
    def __init__(
        self, plan: BatchPlan, table: str, rows: list[tuple[Any, ...]], **choices: Any
    ) -> None:
        self.engine = DuckDBEngine()
        self.engine.connection.execute(f"CREATE TABLE t ({table})")
        for start in range(0, len(rows), 200):
            some = rows[start : start + 200]
            marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(some))
            self.engine.connection.execute(
                f"INSERT INTO t VALUES {marks}", [value for row in some for value in row]
            )
        self.queries = batch_queries(plan, "t", self.engine.columns("t"), **choices)

    def grades(self) -> dict[Any, dict[str, Any]]:
        relation = self.engine.relation(self.queries.grades)
        return {
            row[0]: dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()
        }

    def rejects(self) -> list[dict[str, Any]]:
        relation = self.engine.relation(self.queries.rejects)
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def test_long_rows_get_the_grades_of_the_python_engine(plan: BatchPlan, grader: Grader) -> None:
    chance = random.Random(7)
    cards = {f"r-{index}": random_card(chance, plan) for index in range(repeats(120, 400))}
    rows = [row for run, card in cards.items() for row in long_rows(run, card)]
    chance.shuffle(rows)
    batch = Batch(plan, LONG, rows)
    found = batch.grades()
    assert found.keys() == cards.keys()
    for run, card in cards.items():
        expected = by_python(grader, plan, run, card)
        assert {key: found[run][key] for key in expected} == expected, card
    assert len({row["grade"] for row in found.values()}) > 2
    assert batch.rejects() == []


def wide_table(plan: BatchPlan) -> tuple[str, list[str]]:
    columns = ["run VARCHAR"]
    for item in plan.criteria:
        names = [f"{item.name}_{key}" for key in COUNTS.get(item.formula, ())] or [item.name]
        columns += [f'"{name}" DOUBLE' for name in names] + [f'"{item.name}_n" INTEGER']
    columns += [f'"{gate}" BOOLEAN' for gate in plan.gates]
    return ", ".join(columns), [column.rpartition(" ")[0].strip('"') for column in columns]


def wide_row(run: str, card: Card, names: list[str]) -> tuple[Any, ...]:
    values: dict[str, Any] = {"run": run, **dict(card["gates"])}
    for name, raw, n in card["scores"]:
        values |= (
            {f"{name}_{key}": count for key, count in raw.items()}
            if isinstance(raw, dict)
            else {name: raw}
        )
        values[f"{name}_n"] = n
    return tuple(values.get(name) for name in names)


def test_wide_rows_get_the_same_grades(plan: BatchPlan, grader: Grader) -> None:
    chance = random.Random(8)
    cards = {f"r-{index}": random_card(chance, plan) for index in range(repeats(60, 200))}
    for card in cards.values():
        card["gates"] = [one for one in card["gates"] if one[0] in plan.gates]
    table, names = wide_table(plan)
    batch = Batch(plan, table, [wide_row(run, card, names) for run, card in cards.items()])
    found = batch.grades()
    for run, card in cards.items():
        expected = by_python(grader, plan, run, card)
        assert {key: found[run][key] for key in expected} == expected, card
    assert batch.rejects() == []


def all_good(plan: BatchPlan) -> Card:
    raws: dict[str, Any] = {
        "likert_1_5": 5.0,
        "likert_neg2_2": 2.0,
        "likert_0_5": 5.0,
        "zero_one": 1.0,
        "binary": 1.0,
        "pairwise": {"wins": 5, "losses": 0, "ties": 0},
        "ratio": {"passed": 5, "total": 5},
        "lower_is_better": 1.0,
    }
    return {
        "scores": [(item.name, raws[item.formula], 1) for item in plan.criteria],
        "gates": [(name, True) for name in plan.gates],
    }


def test_what_a_scorecard_refuses_is_refused_and_shown(plan: BatchPlan, grader: Grader) -> None:
    good = all_good(plan)

    def with_score(name: str, raw: Any, n: Any = 1) -> Card:
        return {
            **good,
            "scores": [
                (one, raw, n) if one == name else (one, own, m) for one, own, m in good["scores"]
            ],
        }

    bad = {
        "nan": (with_score("precision", nan), "SCO-003"),
        "infinite": (with_score("precision", inf), "SCO-003"),
        "below all": (with_score("latency", -inf), "SCO-003"),
        "tiny": (with_score("precision", 1e-310), "SCO-003"),
        "off the scale": (with_score("correctness", 5.000000001), "SCO-001"),
        "below the scale": (with_score("tone", -2.5), "SCO-001"),
        "half": (with_score("valid", 0.5), "SCO-001"),
        "contradiction": (with_score("tests", {"passed": 6, "total": 5}), "SCO-007"),
        "nothing": (with_score("tests", {"passed": 0, "total": 0}), "SCO-006"),
        "negative": (with_score("wins", {"wins": -1, "losses": 3, "ties": 0}), "SCO-007"),
        "partial": (with_score("wins", {"wins": 1, "losses": 3}), "SCO-003"),
        "a number": (with_score("wins", 3.0), "SCO-003"),
        "huge": (with_score("wins", {"wins": 3 * 10**9, "losses": 3, "ties": 0}), "BAT-010"),
        "n": (with_score("correctness", 5.0, -1), "BAT-011"),
        "n of nothing": (with_score("correctness", None, -1), "BAT-011"),
        "large n": (with_score("correctness", 5.0, 2**62), "BAT-011"),
        "twice": ({**good, "scores": [*good["scores"], ("tone", 2.0, 1)]}, "GRD-102"),
        "a gate twice": ({**good, "gates": [*good["gates"], ("own_gate", None)]}, "GRD-102"),
        "an extra gate twice": (
            {**good, "gates": [*good["gates"], ("x", True), ("x", True)]},
            "GRD-102",
        ),
        "a bad name": ({**good, "gates": [*good["gates"], ("x\n", True)]}, "SCO-013"),
        "": (good, "BAT-013"),
        "x" * 501: (good, "BAT-013"),
        None: (good, "BAT-013"),
    }
    rows = [row for run, (card, _) in bad.items() for row in long_rows(run, card)]
    rows += long_rows("good", good)
    rows.append(("stray score", None, 4.0, *[None] * 8))
    rows.append(("stray verdict", *[None] * 9, False))
    rows += long_rows("unknown", {**good, "scores": [*good["scores"], ("tome", 2.0, 1)]})
    batch = Batch(plan, LONG, rows)
    found, rejects = batch.grades(), batch.rejects()
    refused = {*bad, "stray score", "stray verdict"}
    for run, row in found.items():
        own = [one for one in rejects if one["run"] == run]
        assert (row["faults"] > 0) == bool(own), run
        if run in refused:
            assert (row["grade"], row["passed"], row["reason"]) == (
                None,
                False,
                "invalid_evidence",
            ), run
            assert row["score"] is None
            assert row["norm_tone"] is None
            assert row["failed_gates"] is None
            assert {one["code"] for one in own} == {bad[run][1] if run in bad else "BAT-014"}, run
            assert all(one["reason"] for one in own)
        else:
            assert row["grade"] == "A"
    assert found["good"] | {"run": "unknown", "faults": 1} == found["unknown"]
    assert [
        (one["run"], one["criterion"], one["raw"], one["code"])
        for one in rejects
        if one["run"] == "unknown"
    ] == [("unknown", "tome", "2.0", "BAT-012")]
    assert sum(one["run"] == "twice" for one in rejects) == 2


def test_a_wide_run_given_twice_is_refused(plan: BatchPlan) -> None:
    good = all_good(plan)
    table, names = wide_table(plan)
    half = {**good, "gates": good["gates"][:3]}
    rest = {"scores": [], "gates": good["gates"][3:]}
    rows = [
        wide_row("twice", good, names),
        wide_row("twice", good, names),
        wide_row("parts", half, names),
        wide_row("parts", rest, names),
    ]
    rows += [
        wide_row("two files", {**good, "gates": []}, names),
        wide_row("two files", {"scores": [], "gates": good["gates"]}, names),
        wide_row("two minds", good, names),
        wide_row("two minds", {"scores": [], "gates": [(good["gates"][0][0], False)]}, names),
    ]
    batch = Batch(plan, table, rows)
    found = batch.grades()
    assert {run: row["reason"] for run, row in found.items()} == {
        "twice": "invalid_evidence",
        "parts": "passed",
        "two files": "passed",
        "two minds": "invalid_evidence",
    }
    rejects = batch.rejects()
    assert {one["run"] for one in rejects} == {"twice", "two minds"}
    assert sorted(one["raw"] for one in rejects if one["run"] == "two minds") == ["false", "true"]
    assert found["two minds"]["faults"] == 1


def test_decimals_and_long_integers_are_exact_or_refused(plan: BatchPlan, grader: Grader) -> None:
    good = all_good(plan)
    table = "run VARCHAR, criterion VARCHAR, raw DECIMAL(38,18)"
    numbers = [
        "0.8999499995",
        "0.000000000500000",
        "0.123456789012345",
        "0.1234567890123456",
        "0.9999999999999999",
        "1",
        "7",
        "-0.5",
    ]
    rows = [(number, "precision", Decimal(number)) for number in numbers]
    found = Batch(plan, table, rows).grades()
    for number in numbers:
        refused = number in ("0.1234567890123456", "0.9999999999999999")
        assert (found[number]["reason"] == "invalid_evidence") == refused
        if not refused:
            expected = by_python(
                grader, plan, number, {"scores": [("precision", Decimal(number), 1)], "gates": []}
            )
            assert found[number]["norm_precision"] == expected["norm_precision"]
    del good
    table = "run VARCHAR, criterion VARCHAR, raw BIGINT"
    found = Batch(
        plan, table, [("a", "latency", 2**53), ("b", "latency", 2**53 + 1), ("c", "latency", 900)]
    ).grades()
    assert [found[run]["reason"] for run in "abc"] == [
        "hard_gate_failure",
        "invalid_evidence",
        "hard_gate_failure",
    ]
    assert found["c"]["norm_latency"] == 0.968754882


def test_kept_columns_have_one_value_for_each_run(plan: BatchPlan) -> None:
    rows = [
        (run, name, raw, sample)
        for run, sample in (("a", "s-1"), ("b", "s-2"))
        for name, raw, _ in all_good(plan)["scores"]
        if not isinstance(raw, dict)
    ]
    rows += [("b", "unknown", 1.0, "s-3"), ("a", "unknown", 1.0, None)]
    batch = Batch(
        plan, "run VARCHAR, criterion VARCHAR, raw DOUBLE, sample VARCHAR", rows, keep=["sample"]
    )
    found = batch.grades()
    assert [*found["a"]][:3] == ["run", "sample", "grade"]
    assert (found["a"]["sample"], found["b"]["sample"]) == ("s-1", None)
    assert found["b"]["reason"] == "invalid_evidence"
    assert ("b", "BAT-015") in {(one["run"], one["code"]) for one in batch.rejects()}


def test_columns_may_have_other_names_and_hostile_ones(plan: BatchPlan) -> None:
    hostile = 'raw"; DROP TABLE t; --'
    quoted = hostile.replace('"', '""')
    batch = Batch(
        plan,
        f'"run id" VARCHAR, metric VARCHAR, "{quoted}" DOUBLE',
        [("a", "precision", 0.5)],
        names={"run": "run id", "criterion": "metric", "raw": hostile},
    )
    assert batch.grades()["a"]["norm_precision"] == 0.5


def test_a_column_named_like_a_criterion_next_to_long_rows_never_lets_a_run_pass(
    tmp_path: Path,
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(
        "{profile: odd, version: 1, title: o, family: odd, gates: [], criteria: ["
        "{id: version, label: v, weight: 0.5, layer: 1, formula: binary, role: correctness},"
        "{id: stored_score, label: s, weight: 0.5, layer: 1, formula: zero_one}]}",
        encoding="utf-8",
    )
    gates = ", ".join(
        f"k = 0 OR NULL AS {gate}" for gate in plan_batch(Shelf(), profile=str(path)).gates
    )
    long = duckdb.sql(
        "SELECT 'r-1' AS run, ['version', 'stored_score'][k + 1] AS criterion, 1.0 AS raw,"
        f" {gates} FROM range(2) AS t(k)"
    )
    found = {}
    for name, columns in (
        ("plain", "*"),
        ("text", "*, '7' AS version"),
        ("number", "*, 0.9 AS stored_score"),
    ):
        graded = assay.grade_table(long.project(columns), profile=str(path), connection=duckdb)
        found[name] = graded.select("grade", "passed", "reason").fetchall()
    refused = [(None, False, "invalid_evidence")]
    assert found == {"plain": [("A", True, "passed")], "text": refused, "number": refused}


def test_a_column_that_is_missing_or_of_another_type_is_named(plan: BatchPlan) -> None:
    for table, choices, code, words in (
        (
            "rum VARCHAR, criterion VARCHAR, raw DOUBLE",
            {},
            "BAT-003",
            "'run' is missing. Found: rum",
        ),
        ("run_id VARCHAR, criterion VARCHAR, raw DOUBLE", {}, "BAT-003", "`--map run=run_id`"),
        ("run VARCHAR, criterion VARCHAR, value DOUBLE", {}, "BAT-003", "'raw' is missing"),
        ("run VARCHAR, x DOUBLE", {}, "BAT-003", "no column contains scores"),
        (
            "run VARCHAR, criterion VARCHAR, raw VARCHAR",
            {},
            "BAT-004",
            "'raw' has the type VARCHAR",
        ),
        (
            "run VARCHAR, criterion VARCHAR, raw BOOLEAN",
            {},
            "BAT-004",
            "'raw' has the type BOOLEAN",
        ),
        (
            "run VARCHAR, criterion VARCHAR, raw DOUBLE, gate VARCHAR, verdict VARCHAR",
            {},
            "BAT-004",
            "'verdict' has the type VARCHAR",
        ),
        (
            "run VARCHAR, criterion VARCHAR, raw DOUBLE, gate VARCHAR",
            {},
            "BAT-003",
            "'verdict' is missing",
        ),
        (
            "run VARCHAR[], criterion VARCHAR, raw DOUBLE",
            {},
            "BAT-004",
            "'run' has the type VARCHAR[]",
        ),
        ("run VARCHAR, wins_wins BIGINT", {}, "BAT-003", "'wins_losses' is missing"),
        ("run VARCHAR, precision DOUBLE", {"keep": ["sampel"]}, "BAT-003", "no column 'sampel'"),
        (
            "run VARCHAR, precision DOUBLE",
            {"names": {"rwa": "x"}},
            "BAT-003",
            "'rwa' is not a column that a batch reads",
        ),
        ("run VARCHAR, precision DOUBLE", {"names": {"raw": "x"}}, "BAT-003", "'x' is missing"),
    ):
        with pytest.raises(InputError) as caught:
            Batch(plan, table, [], **choices)
        assert (caught.value.code, words in str(caught.value)) == (code, True), str(caught.value)


def test_bounds_too_precise_for_doubles_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "precise.yaml"
    path.write_text(PROFILE.replace("4000.5", "4000.123456789"), encoding="utf-8")
    plan = plan_batch(Shelf(), profile=str(path))
    with pytest.raises(ShelfError, match=r"'latency' goes from 800 to 4000\.123456789"):
        Batch(plan, "run VARCHAR, latency DOUBLE", [])


def test_criteria_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(PROFILE.replace("id: depth", "id: Tone"), encoding="utf-8")
    plan = plan_batch(Shelf(), profile=str(path))
    with pytest.raises(InputError, match="would be named 'norm_Tone'"):
        Batch(plan, "run VARCHAR, tone DOUBLE", [])


def test_grade_table_returns_a_relation_to_join(
    plan: BatchPlan, profile: str, tmp_path: Path
) -> None:
    connection = duckdb.connect()
    rows = connection.sql("SELECT 'a' AS id, 'precision' AS metric, 0.5 AS value")
    names = {"run": "id", "criterion": "metric", "raw": "value"}
    grades = assay.grade_table(rows, profile=profile, connection=connection, columns=names)
    assert connection.sql("SELECT norm_precision FROM grades").fetchall() == [(0.5,)]
    path = str(tmp_path / "rows.parquet")
    rows.write_parquet(path)
    assert assay.grade_table(path, profile=profile, columns=names).fetchall() == grades.fetchall()
    refused = assay.grade_table([path, path], profile=profile, columns=names, rejects=True)
    assert [row[-2] for row in refused.fetchall()] == ["GRD-102", "GRD-102"]


def test_names_and_texts_are_quoted_as_sqlglot_reads_them() -> None:
    for written in (
        "a",
        "",
        'the "raw" score',
        "it's",
        "\\",
        "\\'",
        "--",
        "/*",
        "a\nb",
        "é`$",
        "{}",
    ):
        assert identifier(written) == sqlglot.exp.to_identifier(written, quoted=True).sql("duckdb")
        assert text(written) == sqlglot.exp.Literal.string(written).sql("duckdb")


def test_grading_on_duckdb_does_not_load_what_translates_queries() -> None:
    code = (
        "import sys, assay, duckdb; scores = duckdb.sql(\"SELECT 'r' AS run, 4 AS correctness\");"
        " assay.grade_table(scores, profile='dag-review@1', connection=duckdb).fetchall();"
        " sys.exit('sqlglot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
