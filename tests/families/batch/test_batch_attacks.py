"""Inputs of `assay batch` that try to hide a failing row or to pass for a better one."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from assay import grade_table
from assay.errors import UsageError
from assay.families.batch.batching import plan_batch
from assay.library.shelf import Shelf
from examples import CAMPAIGN

PROFILE = str(Path(__file__).parent / "fixtures" / "two-criteria@1.yaml")
PLAN = plan_batch(Shelf(), profile=PROFILE, policy="workflow")
FIRST = PLAN.criteria[0].name
OWN = """
profile: own
version: 1
title: Own
family: own
gates: []
criteria: [{id: tests, label: Tests, weight: 1, layer: 1, formula: ratio, role: correctness}]
"""
BEST = {"likert_1_5": 5, "zero_one": 1, "binary": 1, "likert_0_5": 5, "likert_neg2_2": 2}


def evidence(run: str, gate: bool = True) -> list[dict[str, Any]]:
    """A run with the best of scores, and one gate that may fail."""
    assert all(item.formula in BEST for item in PLAN.criteria)
    scores = [
        {"run": run, "criterion": item.name, "raw": BEST[item.formula]} for item in PLAN.criteria
    ]
    return scores + [
        {"run": run, "gate": name, "verdict": gate or name != PLAN.gates[0]} for name in PLAN.gates
    ]


def write(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_a_number_inside_a_nested_value_is_never_the_score(assay: Any, tmp_path: Path) -> None:
    rows = evidence("r-1")
    write(tmp_path / "honest.jsonl", rows)
    done = assay("batch", "honest.jsonl", "-o", "honest.parquet", "--profile", PROFILE)
    assert done.code == 0, done.err
    best = f"0.00000000000000{BEST[PLAN.criteria[0].formula]}e15"
    for name, line in (
        ("before", f'{{"run":"r-1","criterion":"{FIRST}","m":{{"raw":{best}}},"raw":1}}'),
        ("after", f'{{"run":"r-1","criterion":"{FIRST}","raw":1,"m":[{{"raw":{best}}}]}}'),
    ):
        write(tmp_path / f"{name}.jsonl", [line, *rows[1:]])
        done = assay("batch", f"{name}.jsonl", "-o", f"{name}.parquet", "--profile", PROFILE)
        assert done.code == 1, name
        (norm,) = duckdb.sql(f"SELECT norm_{FIRST} FROM '{tmp_path}/{name}.parquet'").fetchall()
        assert norm == (0,)
    precise = (
        f'{{"m":{{"raw":{best}}},"run":"r-1","criterion":"{FIRST}","raw":4.00000000000000001}}'
    )
    write(tmp_path / "precise.jsonl", [precise, *rows[1:]])
    done = assay("batch", "precise.jsonl", "-o", "precise.parquet", "--profile", PROFILE)
    assert done.code == 3, "digits that a double doesn't have are rejected, nested value or not"


def test_nan_in_parquet_is_never_a_score(assay: Any, tmp_path: Path) -> None:
    """Statistics of Parquet leave out NaN, and DuckDB took it for the best score by them."""
    criteria = {"share": "zero_one", "stars": "likert_1_5", "errors": "lower_is_better"}
    items = "".join(
        f"  - {{id: {name}, label: {name}, weight: 1, layer: 1, formula: {formula}"
        f"{', params: {slo_good: 1, slo_bad: 5}' if name == 'errors' else ''}}}\n"
        for name, formula in criteria.items()
    )
    head = OWN.replace("\ncriteria: [{", "\n#")
    (tmp_path / "own.yaml").write_text(f"{head}criteria:\n{items}")
    good = {"share": 1.0, "stars": 5.0, "errors": 1.0}
    bad = [{"run": name, **good, name: float("nan")} for name in criteria]
    parquet.write_table(
        pa.Table.from_pylist([{"run": "good", **good}, *bad]), tmp_path / "in.parquet"
    )
    done = assay("batch", "in.parquet", "-o", "g.parquet", "--profile", "own.yaml", "--json")
    assert done.code == 3, done.err
    assert done.json()["record"]["counts"]["invalid"] == len(criteria)
    assert done.json()["record"]["counts"]["rejects"] == {"SCO-003": len(criteria)}


def test_nan_in_parquet_is_neither_a_sample_size_nor_the_value_to_keep(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(OWN.replace("formula: ratio", "formula: zero_one"))
    nan = float("nan")
    scores = [
        {"run": "good", "criterion": "tests", "raw": 1.0, "n": 9.0, "share": 0.5},
        {"run": "no n", "criterion": "tests", "raw": 1.0, "n": nan, "share": 0.5},
        {"run": "two", "criterion": "tests", "raw": 1.0, "n": 9.0, "share": 0.5},
        {"run": "two", "gate": "safe", "verdict": True, "share": nan},
    ]
    columns = dict.fromkeys(("run", "criterion", "raw", "n", "share", "gate", "verdict"))
    table = pa.Table.from_pylist([columns | row for row in scores])
    parquet.write_table(table, tmp_path / "in.parquet")
    options = ("--profile", "own.yaml", "--keep", "share", "--json")
    done = assay("batch", "in.parquet", "-o", "g.parquet", *options)
    assert done.code == 3, done.err
    assert done.json()["record"]["counts"]["rejects"] == {"BAT-011": 1, "BAT-015": 1}


def test_nan_in_parquet_is_not_the_value_to_keep_on_a_callers_connection(tmp_path: Path) -> None:
    """The caller's DuckDB may use statistics, which leave out NaN."""
    path, connection = str(tmp_path / "in.parquet"), duckdb.connect()
    rows = [{"share": 0.5} | row for row in evidence("one") + evidence("two")]
    rows[-1]["share"] = float("nan")
    columns = dict.fromkeys(("run", "criterion", "raw", "gate", "verdict"))
    parquet.write_table(pa.Table.from_pylist([columns | row for row in rows]), path)
    for source in (path, connection.read_parquet(path)):
        found = grade_table(source, profile=PROFILE, keep=("share",), connection=connection)
        shown = dict(found.select("run", "reason").fetchall())
        assert shown == {"one": "passed", "two": "invalid_evidence"}


def test_two_runs_that_a_table_takes_for_equal_stay_two() -> None:
    """A column of DuckDB may say that 'a' and 'A' are equal. Each has half of the evidence."""
    names = ("run", "criterion", "raw", "gate", "verdict")
    rows = [row | {"run": "aA"[place % 2]} for place, row in enumerate(evidence("a"))]
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE scores (run VARCHAR COLLATE NOCASE, criterion VARCHAR, raw DOUBLE,"
            " gate VARCHAR, verdict BOOLEAN)"
        )
        for row in rows:
            connection.execute(
                "INSERT INTO scores VALUES (?, ?, ?, ?, ?)", list(map(row.get, names))
            )
        here = {"profile": PROFILE, "connection": connection}
        found = grade_table(connection.table("scores"), **here)
        assert sorted(found.select("run", "passed").fetchall()) == [("A", False), ("a", False)]
        connection.execute("SET default_collation = 'nocase'")
        with pytest.raises(UsageError, match="nocase"):
            grade_table(connection.table("scores"), **here)


def test_a_table_that_an_engine_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't read a Table"):
        grade_table(pa.table({"run": ["a"]}), profile=PROFILE)


def test_no_part_of_a_folder_is_left_out_unseen(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "lake/day=1/x.jsonl", evidence("r-1"))
    write(tmp_path / "lake/_day=2/x.jsonl", evidence("r-2", gate=False))
    done = assay("batch", "lake", "-o", "graded", "--profile", PROFILE)
    assert done.code == 1
    assert "1 of 2 runs passed" in done.out, "a partition may begin with an underscore"
    write(tmp_path / "elsewhere/x.jsonl", evidence("r-3", gate=False))
    os.symlink("../elsewhere", tmp_path / "lake/day=3")
    done = assay("batch", "lake", "-o", "linked", "--profile", PROFILE)
    assert done.code == 3
    assert "day=3: is a link to a folder" in done.err
    assert not (tmp_path / "linked").exists()


def test_empty_inputs_and_odd_line_ends_are_refused_by_name(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_bytes(b"\n\n")
    done = assay("batch", "none.jsonl", "-o", "o.parquet", "--profile", PROFILE)
    assert (done.code, "An empty input never passes" in done.err) == (4, True)
    for name, text in (("cr", "run,criterion,raw\rr,x,1\r"), ("nl", 'run,criterion,"raw\n"\n')):
        (tmp_path / f"{name}.csv").write_bytes(text.encode())
        done = assay("batch", f"{name}.csv", "-o", "o.parquet", "--profile", PROFILE)
        assert done.code == 3
        assert "line break" in done.err


def test_evidence_is_graded_even_where_an_output_next_to_it_has_its_name(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "scores.jsonl", evidence("r-1"))
    done = assay("batch", "scores.jsonl", "-o", "scores.parquet", "--profile", PROFILE)
    assert done.code == 0, done.err
    write(tmp_path / "scores.jsonl", evidence("r-1", gate=False))
    done = assay("batch", "scores.jsonl", "-o", "again.parquet", "--profile", PROFILE)
    assert done.code == 1, "the rows that are there now, not the norms of an earlier batch"
    done = assay("batch", "scores.parquet", "-o", "norms.parquet", "--profile", PROFILE)
    assert done.code == 0, done.err


def test_a_column_never_counts_as_two_things(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    gates = plan_batch(Shelf(), profile=str(tmp_path / "own.yaml")).gates
    rows: list[Any] = [{"run": "r-1", "criterion": "tests", "passed": 0, "total": 4}]
    write(tmp_path / "s.jsonl", rows + [{"run": "r-1", "gate": g, "verdict": True} for g in gates])

    def batch(names: str) -> Any:
        more = ("--profile", "own.yaml", "--overwrite", "--map", names)
        return assay("batch", "s.jsonl", "-o", "g.parquet", *more)

    done = batch("passed=total")
    assert done.code == 3, "a total is not also what passed"
    assert "some of the counts are missing" in done.out
    done = batch("passed=total,total=total")
    assert done.code == 3
    assert "the column 'total' is mapped to 'passed' and to 'total'." in done.err
    assert "the column 'run' is mapped to another name." in batch("gate=run").err


def test_a_parquet_file_with_a_column_twice_is_refused(assay: Any, tmp_path: Path) -> None:
    scores = [[{"a": 1, "b": 2}], *([value] for value in ("r-1", 4, 4, 0, 4))]
    for name, second in (("same", "tests_passed"), ("case", "Tests_Passed"), ("other", "x_1")):
        columns = ["x", "run", "tests_passed", "tests_total", second, "x_2"]
        parquet.write_table(pa.table(scores, names=columns), tmp_path / f"{name}.parquet")
        (tmp_path / "own.yaml").write_text(OWN)
        done = assay("batch", f"{name}.parquet", "-o", "g.parquet", "--profile", "own.yaml")
        if name == "other":
            assert "not used    x, x_1, x_2" in done.out, done.err
        else:
            assert done.code == 3
            assert f"a file has the column '{second}' twice." in done.err


def test_true_in_one_file_is_not_a_score_because_another_has_numbers(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(OWN.replace("formula: ratio", "formula: zero_one"))
    os.mkdir(tmp_path / "lake")
    for name, raw in (("a", True), ("b", 0.25)):
        table = pa.table({"run": [name], "tests": [raw]})
        parquet.write_table(table, tmp_path / "lake" / f"{name}.parquet")
    for given in (["lake"], ["lake/a.parquet", "lake/b.parquet"]):
        more = ("-o", "g.parquet", "--profile", "own.yaml", "--overwrite")
        assert assay("batch", *given, *more).code == 3
        rows = duckdb.sql(f"SELECT run, norm_tests FROM '{tmp_path}/g.parquet' ORDER BY run")
        assert rows.fetchall() == [("a", None), ("b", 0.25)]
        (reject,) = duckdb.sql(f"SELECT run, raw FROM '{tmp_path}/g.rejects.parquet'").fetchall()
        assert reject == ("a", "true")


def test_long_decimals_in_parquet_are_read_exactly_or_refused(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN.replace("formula: ratio", "formula: zero_one"))
    for kind in (pa.decimal128(38, 37), pa.decimal256(39, 38)):
        numbers = pa.array([Decimal("0.25"), Decimal("0.12345678901234567")], kind)
        sizes = pa.array([Decimal(1), Decimal(9)], kind)
        table = pa.table({"run": ["a", "b"], "tests": numbers, "tests_n": sizes})
        parquet.write_table(table, tmp_path / "in.parquet")
        more = ("-o", "g.parquet", "--profile", "own.yaml", "--overwrite")
        done = assay("batch", "in.parquet", *more)
        assert done.code == 3
    assert "is a decimal of more than 38 digits" in done.err
    rows = duckdb.sql(f"SELECT run, norm_tests FROM '{tmp_path}/g.parquet' ORDER BY run")
    assert rows.fetchall() == [("a", 0.25), ("b", None)]


def test_a_file_without_the_key_of_its_partition_takes_it_from_its_path(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    for day in (1, 2):
        (tmp_path / f"lake/day={day}").mkdir(parents=True)
        columns: dict[str, list[Any]] = {"run": [f"r-{day}"], "tests_passed": [1]}
        columns |= {"tests_total": [1]} | ({"day": ["1"]} if day == 1 else {})
        parquet.write_table(pa.table(columns), tmp_path / f"lake/day={day}/x.parquet")
        rows = {name: values[0] for name, values in columns.items()}
        write(tmp_path / f"lines/day={day}/x.jsonl", [rows])
    for folder in ("lake", "lines"):
        # with a file outside any partition, all are read as one input
        write(tmp_path / folder / "other.jsonl", ['{"run": "r-3", "day": "3"}'])
        more = ("-o", f"{folder}.parquet", "--profile", "own.yaml", "--keep", "day")
        done = assay("batch", folder, *more)
        assert done.code == 1, done.err
        days = duckdb.sql(f"SELECT day FROM '{tmp_path}/{folder}.parquet' ORDER BY run").fetchall()
        assert days == [("1",), ("2",), ("3",)]


def test_a_table_that_assay_wrote_is_never_imported_as_results(assay: Any, tmp_path: Path) -> None:
    """As such it has only a verdict: a score that fell a long way would go unnoticed."""
    worse = {"likert_1_5": 4, "zero_one": 0.85}
    forms = (*(("jsonl",) if CAMPAIGN else ()), "csv", "parquet")
    for side, scale in (("base", BEST), ("worse", {**BEST, **worse})):
        rows = [row for n in range(40) for row in evidence(f"r-{n}")]
        formulas = {item.name: item.formula for item in PLAN.criteria}
        rows = [
            {**row, "raw": scale[formulas[row["criterion"]]]} if "raw" in row else row
            for row in rows
        ]
        write(tmp_path / f"{side}.in.jsonl", rows)
        for form in ("parquet",) if side == "base" else forms:
            made = ("-o", f"{side}.{form}", "--profile", PROFILE, "--overwrite")
            assert assay("batch", f"{side}.in.jsonl", *made).code == 0
    done = assay("gate", "worse.parquet", "--baseline", "base.parquet", "--profile", PROFILE)
    assert (done.code, done.out.startswith("REJECT")) == (1, True), done.out
    (tmp_path / "worse.batch.json").unlink()
    for form in forms:
        options = [("--map", "passed=passed"), ("--profile", PROFILE)]
        for more in options if CAMPAIGN or form == "parquet" else options[:1]:
            done = assay("gate", f"worse.{form}", "--baseline", f"worse.{form}", *more)
            assert (done.code, "an output of `assay batch`" in done.err) == (3, True), done.err
    (tmp_path / "grades.csv").write_text(
        "run_id,passed,grade,provisional_grade,weighted_score,pass_threshold\nr,true,A,A,95,70\n"
    )
    done = assay("gate", "grades.csv", "--baseline", "grades.csv", "--map", "passed=passed")
    assert (done.code, "a table of grades by Assay" in done.err) == (3, True), done.err
