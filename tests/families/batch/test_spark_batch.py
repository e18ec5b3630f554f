"""A batch on Spark gives what it gives on DuckDB and in Python: the same letters, digits, rejects
and files. Spark takes seconds to plan a query, however few rows it has: one batch with three
formulas in the suite, every formula, drawn batches, Spark Connect and all else in `make campaign`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import duckdb
import pytest

import batches
from assay.errors import UsageError
from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.spark_session import SparkSource, open_session
from assay.files.json_files import Document
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.scoring.profile import load_profile, make_plan
from examples import CAMPAIGN
from spark import need_java

QUICK = """
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
spark.sql.adaptive.enabled false
spark.sql.constraintPropagation.enabled false
spark.sql.maxPlanStringLength 0
spark.sql.shuffle.partitions 1
spark.log.level OFF
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m -Xmn256m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote
"""
"""Compiling a query and planning it again take longer than running it on a few rows, and so does a
thorough compiler of Java. The campaign does all of it.
"""
FORMULAS = batches.FORMULAS if CAMPAIGN else ("ratio", "lower_is_better", "likert_1_5")
SLO = {"params": {"slo_good": 1, "slo_bad": 5}}
PROFILE = {
    "profile": "all",
    "version": 1,
    "title": "All",
    "family": "all",
    "gates": [{"id": name, "verdict": True} for name in ("no_pii_leak", "g.1")],
    "criteria": [
        {"id": name, "label": name, "weight": 1, "layer": 2, "formula": formula}
        | (SLO if formula == "lower_is_better" else {"critical_floor": {"norm": 0}})
        for name, formula in zip(batches.NAMES, FORMULAS, strict=False)
    ],
}


def test_the_command_gives_the_grades_and_rejects_of_python_and_the_files_of_duckdb(
    assay_process: Any, tmp_path: Path
) -> None:
    need_java()
    (tmp_path / "all.yaml").write_text(json.dumps(PROFILE))
    by = batches.Graded(
        make_plan(load_profile(Document(PROFILE, "all.yaml")), why="all"),
        make_rules(Shelf().policy("workflow@1")),
    )
    (tmp_path / "in").mkdir()
    tables = batches.tables(by, batches.runs(by, 1, 100), "wide gates")
    assert batches.differences(DuckDBEngine(threads=1), tmp_path / "in", tables, by, {}) == []
    ratio = batches.NAMES[FORMULAS.index("ratio")]
    large = f"run,criterion,passed,total\nlarge,{ratio},3,1e19\n"  # FLOOR of it overflows on Spark
    (tmp_path / "in" / "large.csv").write_text(large)
    (tmp_path / "spark-defaults.conf").write_text(QUICK)
    on_spark = ("--engine", "spark", "--master", "local[1]", "--memory", "1GB")
    rejects = "SELECT run, criterion, gate, code, reason FROM"  # each engine prints numbers its way
    found = {}
    for out, more in (("here", ()), ("there", on_spark)):
        made = ("-o", f"{out}/a.parquet", "--profile", "all.yaml", "--policy", "workflow@1")
        done = assay_process(
            "batch", "in", *made, "--json", *more, env={"SPARK_CONF_DIR": str(tmp_path)}
        )
        assert done.code == 3, done.err
        assert done.json()["record"]["engine"]["name"] == ("spark" if more else "duckdb")
        found[out] = [
            sorted(map(str, duckdb.sql(f"{columns} '{tmp_path}/{out}/{name}'").fetchall()))
            for columns, name in (("FROM", "a.parquet"), (rejects, "a.rejects.parquet"))
        ]
    assert found["there"] == found["here"]
    assert all(found["here"]), "some rows are graded and some rejected"
    assert sorted(os.listdir(tmp_path / "there")) == sorted(os.listdir(tmp_path / "here"))


def test_what_belongs_to_one_engine_is_refused_on_the_other(
    assay_process: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("run,correctness\nr-1,4\n")
    for given, said in (
        (["s3a://lake/a.parquet", "-o", "o"], "only Spark reads URIs"),
        (["table:lake.scores", "-o", "o"], "only Spark reads URIs"),
        (["a.csv", "-o", "o", "--master", "local[1]"], "Add --engine spark"),
        (["a.csv", "-o", "o", "--engine", "spark", "--threads", "2"], "--master 'local[2]'"),
        (
            ["a.csv", "-o", "o", "--engine", "spark", "--remote", "sc://x", "--memory", "8GB"],
            "the server has its own settings",
        ),
        (["a.csv", "-o", "o", "--memory", "lots"], "--memory 'lots' is not a size. Write it like"),
        (["a.csv", "-o", "o", "--memory", "0GB", "--engine", "spark"], "--memory '0GB' is not"),
        (["a.csv", "-o", "s3a://lake/o"], "publishes only on this machine"),
    ):
        done = assay_process("batch", *given, "--profile", "dag-review@1")
        assert done.code == 2, (given, done.err)
        assert said in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_spark_that_is_not_there_is_said_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def opened(**how: Any) -> str:
        with pytest.raises(UsageError) as caught:
            open_session(SparkSource(**how))
        return f"{caught.value.code} {caught.value}"

    assert "Give one of them" in opened(master="local[1]", remote="sc://x")
    assert "sc://HOST:PORT" in opened(remote="http://x")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    said = opened(master="local[1]")
    assert said.startswith("BAT-030 Spark can't start")
    assert "apt-get install default-jre-headless" in said
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    assert "is Java 11, and Spark needs 17 or newer" in opened(master="local[1]")
