"""A batch on Spark gives what it gives on DuckDB: the same letters, digits, rejects and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from examples import CAMPAIGN
from spark import spark_address

__all__ = ["spark_address"]

OWN = """
profile: own
version: 1
title: Own
family: own
gates: [{id: own_gate, verdict: true}]
criteria:
  - {id: right, label: Right, weight: 0.5, layer: 1, formula: binary, role: correctness}
  - {id: tone, label: Tone, weight: 0.5, layer: 2, formula: likert_1_5}
"""


def test_the_command_writes_the_same_files_and_grades_only_what_is_new(
    assay: Any, spark_address: str, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    head = "run,tone,own\n"
    days = ((1, "r-1,4.0,7\nr-2,x,7\n"), (2, "r-3,5,7\n"))
    for day, text in days if CAMPAIGN else days[:1]:  # each is a batch, which takes seconds
        (tmp_path / "in" / f"day={day}").mkdir(parents=True)
        (tmp_path / "in" / f"day={day}" / "a.csv").write_text(head + text)

    def batch(out: str, *more: str) -> Any:
        return assay("batch", "in", "-o", out, "--profile", "own.yaml", "--keep", "day", *more)

    def made(out: str, what: str) -> list[Any]:
        found = duckdb.sql(f"SELECT * FROM read_parquet('{tmp_path}/{out}/{what}/**/*.parquet')")
        return sorted(map(str, found.fetchall()))

    on_spark = ("--engine", "spark", "--remote", spark_address, "--json")
    assert batch("here").code == 3
    done = batch("there", *on_spark)
    assert done.code == 3, done.err
    assert done.json()["record"]["engine"]["name"] == "spark"
    for what in ("grades", "rejects"):
        assert made("there", what) == made("here", what)
    files = {
        out: sorted(str(path.relative_to(tmp_path / out)) for path in (tmp_path / out).rglob("*"))
        for out in ("here", "there")
    }
    assert files["there"] == files["here"]
    if CAMPAIGN:
        (tmp_path / "in" / "day=2" / "a.csv").write_text(f"{head}r-3,4,7\n")
        done = batch("there", *on_spark)
        assert done.json()["partitions"] == {"graded": ["day=2"], "kept": ["day=1"]}
    assert not list(tmp_path.glob(".*.part"))


def test_what_belongs_to_one_engine_is_refused_on_the_other(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("run,correctness\nr-1,4\n")
    for given, said in (
        (["s3a://lake/a.parquet", "-o", "o"], "only Spark reads URIs"),
        (["table:lake.scores", "-o", "o"], "only Spark reads URIs"),
        (["a.csv", "-o", "o", "--master", "local[1]"], "Add --engine spark"),
        (["a.csv", "-o", "o", "--engine", "spark", "--threads", "2"], "--master 'local[2]'"),
        (["a.csv", "-o", "s3a://lake/o"], "publishes only on this machine"),
    ):
        done = assay("batch", *given, "--profile", "dag-review@2")
        assert done.code == 2, (given, done.err)
        assert said in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
