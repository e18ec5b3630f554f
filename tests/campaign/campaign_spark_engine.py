"""Spark as the engine of a batch, over Spark Connect: what it reads, writes and refuses.
`python -m pytest tests/campaign/campaign_spark_engine.py`: this takes too long for the suite.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError, InputError, UsageError
from assay.families.batch.layout import IN_QUOTES
from assay.families.batch.spark_engine import SparkEngine
from assay.families.batch.spark_session import SETTINGS, SparkSource
from spark import spark_address

__all__ = ["spark_address"]

ROWS = (
    "SELECT id AS run, array('a', 'b') AS failed, CAST(id / 100 AS DECIMAL(5,2)) AS score,"
    " if(id = 1, NULL, true) AS passed FROM range(3)"
)


@pytest.fixture(scope="module")
def engine(spark_address: str) -> Iterator[SparkEngine]:
    made = SparkEngine(SparkSource(remote=spark_address))
    yield made
    made.close()


def refused(error: type[AssayError], run: Any, *given: Any, **more: Any) -> str:
    with pytest.raises(error) as caught:
        run(*given, **more)
    return f"{caught.value.code} {caught.value}"


def test_text_that_is_not_utf_8_is_refused_as_on_duckdb(
    engine: SparkEngine, tmp_path: Path
) -> None:
    """Two run ids that differ only in such bytes would become one."""
    (tmp_path / "a.csv").write_bytes(b"run,raw\nr-\xff,1\n")
    (tmp_path / "a.jsonl").write_bytes(b'{"run": "r-\xff", "raw": 1}\n')
    assert "is not UTF-8" in refused(InputError, engine.attach, [str(tmp_path / "a.csv")])
    assert "not one JSON object" in refused(InputError, engine.attach, [str(tmp_path / "a.jsonl")])


def test_sources_become_one_view_whose_columns_are_matched_by_name(
    engine: SparkEngine, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('run,raw,n\nr1,"a, ""x""\ny",3\nr2,b,\n')
    (tmp_path / "b.jsonl").write_text('{"run": "r3", "raw": 0.50, "verdict": true}\n')
    day = tmp_path / "days" / "day=01"
    engine.write("SELECT 'r4' AS run, 1 AS `odd ``name`", str(day / "x.parquet"), kind="parquet")
    engine.write("SELECT 'r5' AS run, 2 AS other", str(day / "y.parquet"), kind="parquet")
    sources = [str(tmp_path / "a.csv"), str(tmp_path / "b.jsonl"), str(tmp_path / "days")]
    view = engine.attach(sources)
    columns = {column.name: column.type for column in engine.columns(view)}
    assert columns["raw"] == columns["n"] == columns["verdict"] == "STRING"
    assert columns["day"] == "STRING"
    rows = engine.rows(f"SELECT run, raw, verdict, `odd ``name`, other, day FROM {view}")
    assert sorted(rows, key=str) == [
        ("r1", 'a, "x"\ny', None, None, None, None),
        ("r2", "b", None, None, None, None),
        ("r3", "0.5", "true", None, None, None),
        ("r4", None, None, 1, None, "01"),
        ("r5", None, None, None, 2, "01"),
    ]
    assert engine.relation(f"SELECT count(*) FROM {view}").collect() == [(5,)]
    values = ("1", '"1"', "true", '"true"', "null", "[1]", "0.1234567890123456789", '"a\\u0031"')
    lines = [f'{{"run": "{index}", "raw": {value}}}\n' for index, value in enumerate(values)]
    (tmp_path / "quotes.jsonl").write_text("".join(lines))
    odd = engine.attach([str(tmp_path / "quotes.jsonl")])
    rows = engine.rows(f"SELECT run, raw, `{IN_QUOTES}raw` FROM {odd} ORDER BY run")
    texts = ("1", "1", "true", "true", None, "[1]", "0.1234567890123456789", "a1")
    assert [row[1] for row in rows] == list(texts)
    assert [bool(row[2]) for row in rows] == [value.startswith('"') for value in values]
    (tmp_path / "z.tsv.gz").write_bytes(gzip.compress(b"run\traw\nr1,1\t0.5\n"))
    (tmp_path / "z.ndjson.gz").write_bytes(gzip.compress(b'{"run": "r1,1", "raw": 0.5}\n'))
    for place in (f"{tmp_path}/z.tsv.gz", f"file://{tmp_path}/z.tsv.gz", f"{tmp_path}/z.ndjson.gz"):
        assert engine.rows(f"SELECT run, raw FROM {engine.attach([place])}") == [("r1,1", "0.5")]
    again = engine.attach_relation(engine.relation(f"SELECT run FROM {view} WHERE run = 'r1'"))
    assert engine.rows(f"SELECT * FROM {engine.define(f'SELECT * FROM {again}')}") == [("r1",)]
    assert engine.rows(f"SELECT * FROM {engine.attach([f'table:{again}'])}") == [("r1",)]


def test_a_name_with_an_extension_is_one_file_and_any_other_a_folder(
    engine: SparkEngine, tmp_path: Path
) -> None:
    for kind in ("parquet", "csv", "jsonl"):
        path = str(tmp_path / f"a é.{kind}")
        shares: list[float] = []
        assert engine.write(ROWS, path, kind=kind, progress=shares.append) == 3
        assert shares == sorted(shares)
        assert set(shares) <= {share for share in shares if 0 < share < 1}
    csv = (tmp_path / "a é.csv").read_text().splitlines()
    assert csv[:3] == [
        "run,failed,score,passed",
        '0,"[""a"",""b""]",0.00,true',
        '1,"[""a"",""b""]",0.01,',
    ]
    assert '{"run":1,"failed":["a","b"],"score":0.01,"passed":null}' in (
        (tmp_path / "a é.jsonl").read_text().splitlines()
    )
    assert engine.write(ROWS, str(tmp_path / "folder"), kind="parquet") == 3
    view = engine.attach([str(tmp_path / "folder")])
    assert engine.rows(f"SELECT count(*), sum(score) FROM {view}")[0][0] == 3
    assert sorted(os.listdir(tmp_path)) == [
        "a é.csv",
        "a é.jsonl",
        "a é.parquet",
        "folder",
    ]
    odd = str(tmp_path / "[b]")
    assert "BAT-021" in refused(UsageError, engine.write, ROWS, odd, kind="csv")
    assert engine.write(ROWS, odd, kind="parquet") == 3


def test_a_query_that_fails_leaves_nothing_and_says_why(
    engine: SparkEngine, tmp_path: Path
) -> None:
    overflow = "SELECT 9223372036854775807 + id AS x FROM range(2)"
    path = str(tmp_path / "out")
    said = refused(AssayError, engine.write, overflow, path, kind="parquet")
    assert said.startswith(f"BAT-033 {path}: Spark did not finish: [ARITHMETIC_OVERFLOW]")
    assert "\n" not in said
    assert os.listdir(tmp_path) == []
    assert "`nope`" in refused(AssayError, engine.rows, "SELECT nope FROM range(1)")


def test_an_input_that_cannot_be_read_stops_the_batch(engine: SparkEngine, tmp_path: Path) -> None:
    good = tmp_path / "good.parquet"
    engine.write("SELECT id AS run FROM range(1000)", str(good), kind="parquet")
    bytes_ = good.read_bytes()
    (tmp_path / "head.parquet").write_bytes(b"PAR1" + bytes(100))
    (tmp_path / "page.parquet").write_bytes(bytes_[:30] + bytes(60) + bytes_[90:])
    (tmp_path / "short.csv").write_text("run,raw\nr1,1\nr2\n")
    (tmp_path / "bad.jsonl").write_text('{"run": 1}\n{bad\n')
    (tmp_path / "two.jsonl").write_text('{"run": 1}{"run": 2}\n')
    (tmp_path / "keys.jsonl").write_text('{"run": 1, "run": 2}\n')
    (tmp_path / "_hidden.parquet").write_bytes(bytes_)
    (tmp_path / "x.arrow").write_bytes(b"")

    def read(name: str) -> None:
        view = engine.attach([str(tmp_path / name)])
        engine.write(f"SELECT * FROM {view}", str(tmp_path / "out"), kind="parquet")

    assert refused(InputError, read, "bad.jsonl").startswith("FIL-006")
    assert refused(InputError, read, "two.jsonl").startswith("FIL-006")
    assert "the key 'run' twice" in refused(InputError, read, "keys.jsonl")
    for name in ("head.parquet", "page.parquet", "short.csv"):
        said = refused(InputError, read, name)
        assert said.startswith("BAT-032")
        assert name in said
    for name in ("_hidden.parquet", "x.arrow"):
        assert refused(UsageError, read, name).startswith("BAT-020")
    assert not (tmp_path / "out").exists()
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    (tmp_path / "lake" / "_delta_log" / "0.json").write_text("{}\n")
    (tmp_path / "lake" / "day=1").mkdir()
    (tmp_path / "lake" / "day=1" / "x.parquet").write_bytes(bytes_)
    for place, what in (("", "is a"), ("/day=1", "is part of a"), ("/day=1/x.parquet", "of a")):
        said = refused(InputError, engine.attach, [f"file://{tmp_path}/lake{place}"])
        assert f"{what} table with a log (_delta_log)" in said
    assert "nope" in refused(InputError, engine.attach, ["table:nope"])
    assert refused(InputError, read, "none.parquet").startswith("FIL-001")


def test_a_session_that_was_given_keeps_its_settings_and_stays_open(
    engine: SparkEngine,
) -> None:
    engine.session.conf.set("spark.sql.ansi.enabled", "false")
    said = refused(UsageError, SparkEngine, SparkSource(session=engine.session))
    assert said.startswith("BAT-031")
    assert 'spark.conf.set("spark.sql.ansi.enabled", "true")' in said
    engine.session.conf.set("spark.sql.ansi.enabled", "true")
    given = SparkEngine(SparkSource(session=engine.session))
    view = given.attach_relation(engine.relation("SELECT 1 AS x"))
    given.close()
    assert engine.rows("SELECT 1") == [(1,)]
    assert view in refused(AssayError, engine.rows, f"SELECT * FROM {view}")
    assert all(engine.session.conf.get(name) == value for name, value in SETTINGS.items())
