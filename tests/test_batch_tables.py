"""Grades as a table of a DuckDB file or of PostgreSQL: whole or not at all, and never over somebody's own table."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from assay.batch.postgresql_tables import load_postgresql
from forking import parent
from postgres import postgres_url

__all__ = ["postgres_url"]

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


def killed(code: str, folder: Path, *arguments: str) -> bool:
    """Whether this code, in a separate process, killed itself."""
    done = parent().run([*arguments], stdin=b"", cwd=folder, env={}, timeout=60, code=code)
    return done.code == -signal.SIGKILL


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
    assert killed(KILLED, tmp_path)
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
    refused = assay("batch", "s.csv", "--profile", "p.yaml", "-o", "lake.duckdb")
    assert refused.code == 2
    assert "#grades" in refused.err


KILLED_WITHIN = """
import os, signal, sys
from assay.batch.postgresql_tables import load_postgresql

class Killing(dict):
    def items(self):
        yield "g", "grades.parquet"
        os.kill(os.getpid(), signal.SIGKILL)

load_postgresql(
    sys.argv[1], Killing(g="grades.parquet"), where="here", overwrite=True, scratch="."
)
"""
ODD = (None, "", "\\N", "\\.", 'a "b", {c}', "two\nlines", "ü,;\t'", "NULL")


def test_grades_go_to_postgresql_whole_or_not_at_all(
    assay: Any, tmp_path: Path, postgres_url: str
) -> None:
    def asked(statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(postgres_url, autocommit=True) as database:
            found = database.execute(statement)
            return found.fetchall() if found.description else []

    def tables() -> list[str]:
        return [
            row[0]
            for row in asked(
                "SELECT relname FROM pg_class WHERE relkind = 'r'"
                " AND relnamespace = 'public'::regnamespace ORDER BY 1"
            )
        ]

    (tmp_path / "p.yaml").write_text(PROFILE, encoding="utf-8")
    odd = [{"i": place, "note": value} for place, value in enumerate(ODD)]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in odd))
    kinds = "i AS whole, i / 8 AS part, DATE '2026-11-17' AS day, i::DECIMAL(9, 3) AS exact"
    duckdb.sql(
        f"SELECT *, {kinds} FROM ({ROWS.replace('1 AS right', '1 AS right, i')})"
        f" LEFT JOIN '{tmp_path}/notes.jsonl' USING (i)"
    ).write_parquet(str(tmp_path / "s.parquet"))
    keep = ("--keep", "note,whole,part,day,exact")
    grade = ("batch", "s.parquet", "--profile", "p.yaml", *keep)
    target = ("-o", f"{postgres_url}#g")
    files = assay(*grade, "-o", "grades.parquet")
    done = assay(*grade, *target, "--json")
    assert done.code == files.code == 0, (done.err, files.err)
    (record,) = tmp_path.glob("*.g.batch.json")
    (output,) = done.json()["record"]["outputs"]
    assert output["name"].startswith("postgresql://postgres@/")
    assert "host=" not in record.read_text()
    written = duckdb.sql(f"FROM '{tmp_path}/grades.parquet' ORDER BY run")
    assert asked('SELECT * FROM g ORDER BY run COLLATE "C"') == written.fetchall()
    assert {row[0] for row in asked("SELECT note FROM g")} == set(ODD)
    typed = dict(
        asked(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 'g'::regclass AND attnum > 0"
        )
    )
    assert typed["score"] == "double precision"
    assert (typed["passed"], typed["failed_gates"]) == ("boolean", "text[]")
    assert (typed["whole"], typed["day"], typed["exact"]) == ("bigint", "date", "numeric(9,3)")
    # a table that exists, of a batch or not
    refused = assay(*grade, *target)
    assert (refused.code, "--overwrite" in refused.err) == (2, True)
    asked("CREATE TABLE mine (x int); CREATE VIEW seen AS SELECT 1 AS x; CREATE SCHEMA lake")
    for name in ("mine", "seen", "a b", "g" * 56):
        kept = assay(*grade, "-o", f"{postgres_url}#{name}", "--overwrite")
        assert kept.code == 2, (name, kept.out)
    same = assay("batch", f"{postgres_url}#g", *target, "--overwrite", "--profile", "p.yaml")
    assert same.code == 2, same.err
    assert assay(*grade, "-o", f"{postgres_url}#lake.g").code == 0
    assert asked("SELECT count(*) FROM lake.g") == [(20,)]
    # rejected rows are a table next to it, and go with the next batch that has none
    both = f"FROM '{tmp_path}/s.parquet' UNION ALL FROM '{tmp_path}/s.parquet' WHERE run = 'r-1'"
    duckdb.sql(both).write_parquet(str(tmp_path / "bad.parquet"))
    bad = ("batch", "bad.parquet", "--profile", "p.yaml", *keep, *target, "--overwrite")
    assert assay(*bad).code == 3
    assert tables() == ["g", "g_rejects", "mine"]
    assert assay(*grade, *target, "--overwrite").code == 0
    assert tables() == ["g", "mine"]
    assert asked("SELECT count(*) FROM g") == [(20,)]
    assert assay(*grade, *target, "--verify").code == 2
    # killed within the transaction, or refused by the database, the tables are those of before
    asked("DELETE FROM g WHERE run <> 'r-1'")
    assert killed(KILLED_WITHIN, tmp_path, postgres_url)
    asked("CREATE VIEW depends AS SELECT run FROM g")
    before = {path.name for path in tmp_path.iterdir()}
    failed = assay(*grade, *target, "--overwrite")
    assert (failed.code, "depend" in failed.err) == (3, True)
    assert asked("SELECT run FROM g") == [("r-1",)]
    # an output without a record is one that was interrupted
    assert before - {path.name for path in tmp_path.iterdir()} == {record.name}


def test_lists_and_other_types_are_read_back_from_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    listed = ['a "b"', "", "x,{y}", "\\", "NULL", "two\nlines"]
    duckdb.execute(
        f"COPY (SELECT ? AS tags, []::VARCHAR[] AS none, NULL::VARCHAR[] AS null, 1e-300 AS small,"
        " 0.1 + 0.2::DOUBLE AS sum, 'inf'::DOUBLE AS far, {'a': 1} AS other)"
        f" TO '{tmp_path}/t.parquet'",
        [listed],
    )
    file = str(tmp_path / "t.parquet")
    load_postgresql(postgres_url, {"t": file}, where="t", overwrite=False, scratch=str(tmp_path))
    with psycopg.connect(postgres_url) as database:
        (row,) = database.execute("SELECT * FROM t").fetchall()
    assert row == (listed, [], None, 1e-300, 0.1 + 0.2, float("inf"), "{'a': 1}")
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_columns_of_postgresql_that_differ_only_in_case_are_named_with_their_table(
    assay: Any, tmp_path: Path, postgres_url: str
) -> None:
    (tmp_path / "p.yaml").write_text(PROFILE, encoding="utf-8")
    with psycopg.connect(postgres_url, autocommit=True) as database:
        database.execute('CREATE TABLE cased (run text, correct int, "Correct" int)')
    refused = assay("batch", f"{postgres_url}#cased", "--profile", "p.yaml", "-o", "g.parquet")
    assert (refused.code, "table-0" in refused.err) == (3, False)
    assert "#cased: the columns 'correct' and 'Correct' differ only in case" in refused.err


def test_no_password_of_an_output_is_shown(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PROFILE, encoding="utf-8")
    duckdb.sql(ROWS).write_csv(str(tmp_path / "s.csv"))
    shown: tuple[tuple[str, ...], ...] = ((), ("--json",), ("--debug",))
    for url, code in (
        ("postgresql://me:secret@127.0.0.1:1/d?password=secret#t", 3),
        ("postgresql://me:sec@ret@h/secret#t", 2),
        ("postgresql://me:secret@h/d", 2),
        ("postgresql://me:secret@127.0.0.1:1/d?connect_timeout=secret#t", 3),
    ):
        for more in shown if "?password" in url else shown[1:2]:
            refused = assay("batch", "s.csv", "--profile", "p.yaml", "-o", url, *more)
            assert refused.code == code, refused.err
            assert "secret" not in refused.err + refused.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.yaml", "s.csv"]
