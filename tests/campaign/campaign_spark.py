"""Spark loses a worker, and the batch goes on; it loses its own Java process, and nothing has the
final name; every formula gives the same cells as on DuckDB, with one exchange of rows.
`python -m pytest tests/campaign/campaign_spark.py`: this takes too long for the suite.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import assay as package
from assay.errors import AssayError
from assay.families.batch.spark_engine import SparkEngine
from assay.families.batch.spark_session import SparkSource
from spark import need_java, spark_address
from test_batch_grades import profile
from test_batch_oddities import ODD, TOO_PRECISE, gates, given, made, row

__all__ = ["gates", "profile", "spark_address"]

SLOW = (  # enough tasks that some are still to come when something dies
    "SELECT id % 1000 AS run, count(*) AS n, max(sha2(CAST(id AS STRING), 512)) AS x"
    " FROM range(0, 4000000, 1, 64) GROUP BY 1"
)

LONG = """run,criterion,raw,n,wins,losses,ties,passed,total,gate,verdict,team
a,correctness,4.00,3,,,,,,,,x
a,tone,-0.123456789,1,,,,,,,,x
a,depth,3.3333333335,2,,,,,,,,x
a,precision,0.9000000005,,,,,,,,,x
a,valid,1,,,,,,,,,x
a,wins,,7,5,1,1,,,,,x
a,tests,,,,,,2,3,,,x
a,latency,1234.5678,4,,,,,,,,x
a,,,,,,,,,own_gate,true,x
b,correctness,0.1000000000000000055511151231257827,,,,,,,,,y
b,tone,nan,,,,,,,,,y
b,tests,,,,,,4,3,,,y
b,odd one,1,,,,,,,,,z
b,,,,,,,,,own_gate,yes,z
b,,,,,,,,,,no,z
"""
WIDE = [
    {"run": "c", "correctness": 5, "tone": 2.0, "depth": 1, "precision": 1e-1, "valid": 0},
    {"run": "c", "own_gate": False, "team": "x", "latency": 4000.25, "latency_n": 2},
    {"run": 'd "é', "correctness": "inf", "wins_wins": 1, "wins_losses": 0, "wins_ties": 1},
    {"run": "e", "correctness": 4, "own_gate": "maybe"},
]


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


def processes(name: str) -> list[int]:
    """The Java processes of a class among our descendants."""
    parents: dict[int, int] = {}
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                status = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(status[1])
            if any(name in word.decode() for word in words) and b"java" in words[0]:
                found.append(int(entry.name))

    def is_ours(pid: int) -> bool:
        while pid > 1 and pid != os.getpid():
            pid = parents.get(pid, 0)
        return pid == os.getpid()

    return [pid for pid in found if is_ours(pid)]


def test_a_worker_that_dies_is_replaced_and_a_driver_that_dies_leaves_nothing(
    tmp_path: Path,
) -> None:
    need_java()
    engine = SparkEngine(SparkSource(master="local-cluster[2,1,1024]"))
    killed: list[int] = []

    def kill(name: str) -> None:
        if not killed:
            (pid, *_) = processes(name)
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    out = tmp_path / "grades"
    rows = engine.write(
        SLOW, str(out), kind="parquet", progress=lambda _: kill("CoarseGrainedExecutorBackend")
    )
    assert killed, "a worker died while it ran"
    assert rows == 1000
    view = engine.attach([str(out)])
    assert engine.rows(f"SELECT count(*), sum(n) FROM {view}") == [(1000, 4_000_000)]
    killed.clear()
    with pytest.raises(AssayError) as caught:
        engine.write(
            SLOW, str(tmp_path / "more"), kind="parquet", progress=lambda _: kill("SparkSubmit")
        )
    assert killed
    assert caught.value.code == "BAT-033"
    assert "its Java process ended" in str(caught.value)
    assert os.listdir(tmp_path) == ["grades"]
    engine.close()


def test_a_table_is_graded_alike_on_both_engines(
    spark_address: str, profile: str, tmp_path: Path
) -> None:
    (tmp_path / "long.csv").write_text(LONG, encoding="utf-8")
    (tmp_path / "wide.jsonl").write_text("".join(json.dumps(row) + "\n" for row in WIDE))
    engine = SparkEngine(SparkSource(remote=spark_address))
    for name in ("long.csv", "wide.jsonl"):
        for rejects in (False, True):
            how: dict[str, Any] = {"profile": profile, "keep": ["team"], "rejects": rejects}
            source = str(tmp_path / name)
            here = package.grade_table(source, **how, connection=duckdb)
            there = package.grade_table(source, **how, engine="spark", session=engine.session)
            assert there.columns == here.columns
            rows = sorted(map(str, here.fetchall()))
            assert rows, (name, rejects)
            assert sorted(str(tuple(row)) for row in there.collect()) == rows
    plan = package.grade_table(
        str(tmp_path / "long.csv"), profile=profile, engine="spark", session=engine.session
    )._explain_string()
    assert plan.count("Exchange") == 1, "rows are sent to other workers once"
    engine.close()


def test_two_runs_that_a_table_takes_for_equal_stay_two(spark_address: str, profile: str) -> None:
    engine = SparkEngine(SparkSource(remote=spark_address))
    values = "VALUES ('a'), ('A') t(run)"
    sql = f"SELECT run COLLATE UTF8_LCASE AS run, 'x' AS criterion, 1 AS raw FROM {values}"
    found = package.grade_table(
        engine.session.sql(sql), profile=profile, engine="spark", session=engine.session
    )
    assert sorted(row.run for row in found.select("run").collect()) == ["A", "a"]
    engine.close()


def test_the_command_writes_the_same_files_and_grades_only_what_is_new(
    assay: Any, spark_address: str, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    head = "run,tone,own\n"
    days = ((1, "r-1,4.0,7\nr-2,x,7\n"), (2, "r-3,5,7\n"))
    for day, text in days:
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
    (tmp_path / "in" / "day=2" / "a.csv").write_text(f"{head}r-3,4,7\n")
    done = batch("there", *on_spark)
    assert done.json()["partitions"] == {"graded": ["day=2"], "kept": ["day=1"]}
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.req("W-074", "W-075")
def test_a_decision_and_a_summary_on_spark_are_those_on_duckdb(
    assay: Any, spark_address: str, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    for name, lost in (("ours", 3), ("theirs", 0)):
        rows = [
            {"run": f"{name}-{n}", "sample": f"s{n}", "group": f"g{n % 9}", "team": "xy"[n % 2]}
            | {"attempt": "1d" if name == "ours" and n == 7 else "1"}  # Java reads it as 1
            | {"right": int(n % 5 > lost), "tone": n % 4 + 1, "own_gate": n % 7 > lost - 1}
            for n in range(lost, 24)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        keep = "sample,group,team"
        for file, kept in ((name, keep), (f"{name}-numbered", f"{keep},attempt")):
            made = ("-o", f"{file}.parquet", "--profile", "own.yaml", "--keep", kept)
            assert assay("batch", f"{name}.jsonl", *made).code == 1
    on_spark = ("--engine", "spark", "--remote", spark_address)
    slices = ("--slice", "team", "--slice", "group")
    verbs = (
        (("gate", "ours.parquet", "--baseline", "theirs.parquet", *slices), 1),
        (("report", "summary", "ours.parquet", "--slice", "team"), 0),
    )
    for verb, code in verbs:
        here, there = (
            assay(*verb, "--profile", "own.yaml", "--json", *more) for more in ((), on_spark)
        )
        assert (there.code, here.code, there.err) == (code, code, "")
        assert there.json() == here.json()
    files = ("ours-numbered.parquet", "--baseline", "theirs-numbered.parquet")
    for more in ((), on_spark):
        done = assay("gate", *files, "--profile", "own.yaml", *more)
        assert (done.code, "1 run whose `attempt` isn't a whole number" in done.err) == (3, True)


@pytest.mark.req("W-033")
def test_spark_gives_the_letters_and_rejects_of_duckdb_and_verifies_them(
    assay: Any, gates: list[str], spark_address: str, tmp_path: Path
) -> None:
    lines = [row(one, gates) for odd in (ODD, TOO_PRECISE) for one in given(odd)]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    on_spark = ("--engine", "spark", "--remote", spark_address)
    for out, more in (("here", ()), ("there", on_spark)):
        own = ("batch", "rows.jsonl", "-o", f"{out}.parquet", "--profile", "own.yaml")
        assert assay(*own, *more).code == 3
    assert made(tmp_path, "there") == made(tmp_path, "here")
    reasons = "SELECT run, criterion, gate, code, reason FROM '{}/{}.rejects.parquet'"
    there, here = (
        sorted(map(str, duckdb.sql(reasons.format(tmp_path, out)).fetchall()))
        for out in ("there", "here")
    )
    assert there == here
    done = assay(*own, "--verify", *on_spark)
    assert done.code == 0, done.out + done.err
    record = json.loads((tmp_path / "there.batch.json").read_text())
    assert sum(record["counts"]["rejects"].values()) == len(there), "also two reasons of one code"
