"""A batch matches its record, or the difference is named."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb

from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.plan import make_batch_plan
from assay.families.batch.records import BatchFile
from assay.families.batch.relational import batch_queries
from assay.families.batch.verification import changed_files, row_differences
from assay.files.yaml_files import parse_yaml
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.scoring.profile import load_profile, make_plan
from examples import CAMPAIGN

SHELF = Shelf()
PROFILE = """
profile: mine
version: 1
title: Two criteria
family: mine
gates: []
criteria:
  - {id: correct, label: Correct, weight: 0.7, layer: 1, formula: zero_one}
  - {id: brief, label: Brief, weight: 0.3, layer: 1, formula: zero_one}
"""
PLAN = make_plan(load_profile(parse_yaml(PROFILE.encode(), "mine.yaml")), why="a test")
RULES = make_rules(SHELF.policy("workflow"))


def test_a_file_that_changed_or_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"run,")
    whole = BatchFile(name="a.csv", size=4, digest=f"sha256:{sha256(b'run,').hexdigest()}")
    gone = BatchFile(name="b.csv", size=4, digest=whole.digest)
    table = BatchFile(name="a.csv", undigested="a table")
    assert changed_files([whole, gone, table], str(tmp_path)) == ["b.csv", "a.csv"]
    (tmp_path / "a.csv").write_bytes(b"run!")
    assert changed_files([whole], str(tmp_path)) == ["a.csv"]


def test_a_stored_row_is_made_again_and_a_changed_one_is_found() -> None:
    engine = DuckDBEngine(threads=1)
    names = ", ".join(f"('{planned.spec.id}')" for planned in PLAN.criteria)
    engine.connection.execute(
        "CREATE TABLE given AS SELECT 'r' || i AS run, criterion, 0.7::DOUBLE AS raw"
        f" FROM range(3) AS t(i), (VALUES {names}) AS c(criterion)"
    )
    plan = make_batch_plan(PLAN, RULES)
    queries = batch_queries(plan, "given", engine.columns("given"))
    engine.connection.execute(f"CREATE TABLE grades AS {queries.grades}")
    runs = ["r0", "r1", "r2"]
    assert row_differences(engine, "given", "grades", runs, PLAN, RULES) == []
    engine.connection.execute("UPDATE grades SET passed = true WHERE run = 'r0'")
    engine.connection.execute("DELETE FROM grades WHERE run = 'r1'")
    engine.connection.execute("UPDATE given SET raw = 0.71 WHERE run = 'r2'")
    found = row_differences(engine, "given", "grades", [*runs, "no'ne"], PLAN, RULES)
    assert [(one.run, one.column) for one in found[:2]] == [("r0", "passed"), ("r1", "")]
    assert [one.run for one in found] == ["r0", "r1", "r2", "no'ne"]
    engine.close()


GATES = ", ".join(f'true AS "{gate.id}"' for gate in PLAN.gates)
SCORES = ", ".join(f"0.9 AS {one.spec.id}" for one in PLAN.criteria)
ROWS = f"SELECT 'r-' || i AS run, i AS sample, {SCORES}, {GATES} FROM range(5) t(i)"


def write(path: Path, sql: str, form: str = "parquet") -> None:
    duckdb.sql(f"COPY ({sql}) TO '{path}' (FORMAT {form})")


def write_profile(folder: Path) -> Path:
    path = folder / "mine.yaml"
    path.write_text(PROFILE, encoding="utf-8")
    return path


def test_an_output_with_the_record_of_another_one_is_not_verified(
    assay: Any, tmp_path: Path
) -> None:
    write_profile(tmp_path)
    write(tmp_path / "in.parquet", ROWS)
    given = ("batch", "in.parquet", "--profile", "mine.yaml", "-o")
    for out in ("g.csv", "bad.csv"):
        assert assay(*given, out).code == 0
    assert assay(*given, "bad.csv", "--verify").code == 0
    (tmp_path / "bad.batch.json").write_bytes((tmp_path / "g.batch.json").read_bytes())
    done = assay(*given, "bad.csv", "--verify")
    assert (done.code, "the record doesn't name bad.csv" in done.out) == (1, True), done.out


def test_an_output_is_verified_and_every_change_to_it_is_found(assay: Any, tmp_path: Path) -> None:
    profile = write_profile(tmp_path)
    write(tmp_path / "in.parquet", ROWS)
    by = ("--profile", "mine.yaml")
    for out in ("g.parquet", "g.csv", "g.jsonl", "folder") if CAMPAIGN else ("g.csv", "folder"):
        made = assay("batch", "in.parquet", "-o", out, *by, "--keep", "sample", "--overwrite")
        assert made.code in (0, 1), made.err
        done = assay("batch", "in.parquet", "-o", out, *by, "--verify")
        assert done.code == 0, (out, done.out, done.err)
        assert "rows        ✓ 5 rows recomputed in Python" in done.out
        assert f"verified    ✓ {out} matches its record" in done.out
        (tmp_path / "g.batch.json").unlink(missing_ok=True)
    grades, record = tmp_path / "folder/grades/part-0.parquet", tmp_path / "folder/batch.json"
    verify = ("batch", "in.parquet", "-o", "folder", *by, "--verify", "--json")

    def faults(*more: str) -> dict[str, list[str]]:
        done = assay(*verify, *more)
        found = {one["name"]: one["faults"] for one in done.json()["checks"] if one["faults"]}
        assert done.code == bool(found)
        return found

    def digest(path: Path) -> str:
        return f"sha256:{sha256(path.read_bytes()).hexdigest()}"

    assert faults("--run", "r-3") == {}
    assert faults("--run", "r-9") == {"rows": ["the input has no run 'r-9'"]}
    # one byte
    whole, written = grades.read_bytes(), record.read_text(encoding="utf-8")
    grades.write_bytes(whole[:10] + bytes([whole[10] ^ 1]) + whole[11:])
    assert "grades/part-0.parquet is missing" in faults()["output"][0]
    grades.unlink()
    assert {"output", "rows"} == faults().keys()
    # one letter, and a record that was changed with it
    grades.write_bytes(whole)
    before = digest(grades)
    forged = "CASE WHEN run = 'r-2' THEN 'A+' ELSE grade END AS grade"
    write(tmp_path / "new.parquet", f"SELECT * REPLACE ({forged}) FROM '{grades}'")
    os.replace(tmp_path / "new.parquet", grades)
    assert {"output", "counts", "rows"} == faults().keys()
    record.write_text(written.replace(before, digest(grades)), encoding="utf-8")
    found = faults()
    assert "output" not in found
    assert found["rows"][0].startswith("r-2: grade is A+, and Python makes it ")
    assert faults("--run", "r-1").keys() == {"counts"}
    # a run that was taken out, with a record that says so
    write(tmp_path / "new.parquet", f"SELECT * FROM '{grades}' WHERE run <> 'r-2'")
    os.replace(tmp_path / "new.parquet", grades)
    record.write_text(written.replace(before, digest(grades)), encoding="utf-8")
    assert faults()["runs"] == ["the run 'r-2' has no row"]
    # the same, called a sample
    sample = written.replace('"sample": null', '"sample": 4')
    record.write_text(sample.replace(before, digest(grades)), encoding="utf-8")
    assert any("has no row" in fault for fault in faults()["runs"])
    # a run that counts twice
    grades.write_bytes(whole)
    twice = f"SELECT * FROM '{grades}' UNION ALL SELECT * FROM '{grades}' WHERE run = 'r-1'"
    write(tmp_path / "new.parquet", twice)
    os.replace(tmp_path / "new.parquet", grades)
    record.write_text(written.replace(before, digest(grades)), encoding="utf-8")
    assert faults("--run", "r-3")["runs"] == ["the run 'r-1' has several rows"]
    # a column that isn't what a batch writes
    grades.write_bytes(whole)
    write(tmp_path / "new.parquet", f"SELECT * REPLACE (5 AS failed_gates) FROM '{grades}'")
    os.replace(tmp_path / "new.parquet", grades)
    record.write_text(written.replace(before, digest(grades)), encoding="utf-8")
    assert "'failed_gates' has values other than names" in faults()["rows"][0]
    grades.write_bytes(whole)
    write(tmp_path / "new.parquet", f"SELECT * EXCLUDE (undetermined_gates) FROM '{grades}'")
    os.replace(tmp_path / "new.parquet", grades)
    record.write_text(written.replace(before, digest(grades)), encoding="utf-8")
    (lacks,) = faults()["rows"]
    assert lacks == "the output lacks the column 'undetermined_gates'"
    grades.write_bytes(whole)
    record.write_text(written, encoding="utf-8")
    assert faults() == {}
    # the profile
    text = profile.read_text(encoding="utf-8")
    profile.write_text(text.replace("weight: ", "weight: 1", 1), encoding="utf-8")
    assert faults() == {"plan": ["the profile isn't the one that the batch was graded by"]}
    profile.write_text(text, encoding="utf-8")
    # one row of the input
    write(
        tmp_path / "in.parquet",
        f"SELECT * REPLACE (CASE WHEN run = 'r-4' THEN 0.1 ELSE {PLAN.criteria[0].spec.id} END"
        f" AS {PLAN.criteria[0].spec.id}) FROM ({ROWS})",
    )
    found = faults()
    assert found["input"] == [
        "in.parquet isn't a file that was graded, or was changed since",
        "in.parquet was graded, and no input has its bytes",
    ]
    assert [fault.partition(":")[0] for fault in found["rows"]] == ["r-4"]


def test_verifying_is_refused_where_it_would_prove_nothing(assay: Any, tmp_path: Path) -> None:
    write_profile(tmp_path)
    write(tmp_path / "in.parquet", ROWS)
    run = ("batch", "in.parquet", "-o", "g.parquet", "--profile", "mine.yaml")
    none = assay(*run, "--verify")
    assert none.code == 3
    assert "there is no record of a batch next to this output" in none.err
    assert assay(*run, "--run", "r-1").code == 2
    assert assay(*run, "--verify", "--map", "run=id").code == 2
    assert assay(*run).code in (0, 1)
    assert assay("batch", "g.parquet", "-o", "again.parquet", *run[-2:]).code in (0, 1)
    norms = assay("batch", "g.parquet", "-o", "again.parquet", *run[-2:], "--verify")
    assert norms.code == 2
    assert "from evidence, not norms" in norms.err
