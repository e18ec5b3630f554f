"""Grades as a table of a DuckDB file: whole or not at all, and never over somebody's own table."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb

PROFILE = """
profile: answers
version: 1
title: Answers
family: answers
gates: []
criteria:
  - {id: right, label: Right, weight: 0.7, layer: 1, formula: binary}
  - {id: rated, label: Rated, weight: 0.3, layer: 1, formula: likert_1_5}
"""
GATES = (
    "required_outputs_present",
    "overall_status_success",
    "schema_contract_valid",
    "no_critical_step_failures",
    "dataset_workflow_compatible",
)
ROWS = (
    "SELECT 'r-' || i AS run, 1 AS right, 1 + i % 5 AS rated, "
    + ", ".join(f"true AS {gate}" for gate in GATES)
    + " FROM range(20) t(i)"
)
KILLED = """
import os, signal
from collections.abc import Mapping
from assay.batch.table_output import load_tables

class Killing(dict):
    def items(self):
        yield "g", "grades.parquet"
        os.kill(os.getpid(), signal.SIGKILL)

load_tables("lake.duckdb", Killing(g="grades.parquet"), overwrite=True)
"""


def lake(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path / "lake.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)
        return connection.fetchall()


def tables(path: Path) -> list[str]:
    return [row[0] for row in lake(path, "SELECT table_name FROM duckdb_tables() ORDER BY 1")]


def test_grades_go_to_a_table_whole_or_not_at_all(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROFILE, encoding="utf-8")
    lake(tmp_path, f"CREATE TABLE scores AS {ROWS}", "CREATE TABLE mine AS SELECT 1 AS x")
    grade = ("batch", "lake.duckdb#scores", "--profile", "p.yaml")
    files = assay(*grade, "-o", "grades.parquet")
    done = assay(*grade, "-o", "lake.duckdb#g", "--json")
    assert done.code == files.code == 0, (done.err, files.err)
    assert (tmp_path / "lake.g.batch.json").exists()
    (output,) = done.json()["record"]["outputs"]
    assert output["name"] == "lake.duckdb#g"
    assert "no file to digest" in output["undigested"]
    written = lake(tmp_path, "SELECT * FROM g ORDER BY run")
    assert written == duckdb.sql(f"FROM '{tmp_path}/grades.parquet' ORDER BY run").fetchall()
    assert tables(tmp_path) == ["g", "mine", "scores"]
    # a table that exists, of a batch or not
    again = assay(*grade, "-o", "lake.duckdb#G")
    assert again.code == 2
    assert "--overwrite" in again.err
    for name in ("mine", "scores", "a b"):
        kept = assay(*grade, "-o", f"lake.duckdb#{name}", "--overwrite")
        assert kept.code == 2, (name, kept.out)
    # rejected rows are a table next to it, and go with the next batch that has none
    lake(tmp_path, "CREATE TABLE bad AS FROM scores UNION ALL FROM scores WHERE run = 'r-1'")
    twice = assay("batch", "lake.duckdb#bad", "--profile", "p.yaml", "-o", "lake.duckdb#g")
    assert twice.code == 2
    bad = ("batch", "lake.duckdb#bad", "--profile", "p.yaml", "-o", "lake.duckdb#g", "--overwrite")
    assert assay(*bad).code == 3
    assert tables(tmp_path) == ["bad", "g", "g_rejects", "mine", "scores"]
    assert assay(*grade, "-o", "lake.duckdb#g", "--overwrite").code == 0
    assert tables(tmp_path) == ["bad", "g", "mine", "scores"]
    # a table has no digest, so nothing that needs one believes it
    for verb in (("--verify",), ("--explain-sql", "--sample", "1")):
        assert assay(*grade, "-o", "lake.duckdb#g", *verb).code == 2
    reused = assay("batch", "lake.duckdb#g", "-o", "x.parquet", "--profile", "p.yaml")
    assert reused.code == 2
    assert "isn't Parquet" in reused.err
    # killed within the transaction, the tables are those of before
    lake(tmp_path, "COMMENT ON TABLE g IS 'assay.batch/1'", "DELETE FROM g WHERE run <> 'r-1'")
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert lake(tmp_path, "SELECT run FROM g") == [("r-1",)]


def test_a_new_database_has_its_name_only_when_it_is_whole(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROFILE, encoding="utf-8")
    duckdb.sql(ROWS).write_csv(str(tmp_path / "s.csv"))
    (tmp_path / "empty.csv").write_text("run,right\n", encoding="utf-8")
    grade = ("batch", "--profile", "p.yaml", "-o", "lake.duckdb#g")
    assert assay(*grade, "empty.csv").code == 4
    (tmp_path / "lake.duckdb").write_text("not a database", encoding="utf-8")
    assert assay(*grade, "s.csv").code == 2
    (tmp_path / "lake.duckdb").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.csv", "p.yaml", "s.csv"]
    done = assay(*grade, "s.csv")
    assert done.code == 0, done.err
    assert "lake.duckdb#g" in done.out
    assert tables(tmp_path) == ["g"]
    for name, part in (("lake.duckdb", "#grades"), ("postgresql://me:secret@h/d#t", "PostgreSQL")):
        refused = assay("batch", "s.csv", "--profile", "p.yaml", "-o", name)
        assert refused.code == 2
        assert part in refused.err
        assert "secret" not in refused.err
