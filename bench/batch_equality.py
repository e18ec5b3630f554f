"""Every cell of a batch against the Python engine: grades and rejects of 10,000,000 rows.

    python bench/batch_equality.py [--rows N] [--engine duckdb|spark]

The rows have all eight formulas: decimals, ties at half a billionth and the doubles next to them,
sample sizes, missing scores, what a formula refuses, scores given twice, verdicts that contradict
each other, gates and criteria that the profile lacks. An engine grades them, Parquet to Parquet;
then every run is made again from its rows by `batch/replay.py`, on every core, and every column and
every reject is compared. It ends with 1 if one of them differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from batch import apart, connected

from assay.families.batch.duckdb_engine import DuckDBEngine
from assay.families.batch.engine import BatchEngine
from assay.families.batch.layout import RowLayout, find_layout
from assay.families.batch.plan import make_batch_plan
from assay.families.batch.quoting import in_dialect
from assay.families.batch.relational import batch_queries
from assay.families.batch.replay import replay_rows
from assay.files.json_files import Document
from assay.grading.policy import Rules, make_rules
from assay.library.shelf import Shelf
from assay.scoring.profile import ScoringPlan, load_profile, make_plan

FORMULAS = (
    "binary",
    "likert_1_5",
    "likert_neg2_2",
    "likert_0_5",
    "zero_one",
    "lower_is_better",
    "pairwise",
    "ratio",
)
WEIGHTS = (40, 25, 3, 7, 20, 15, 11, 13)
CHUNK = 20_000
"""Runs that a process makes again at a time."""
SHOWN = 5

ROWS = """
WITH drawn AS (
  SELECT i AS run, j, (hash(8 * i + j) >> 1)::BIGINT AS h,
    (hash(8 * i + j + 0.5) >> 1)::BIGINT AS g, (hash(i) >> 1)::BIGINT AS u
  FROM range({runs}) AS a(i), range(8) AS b(j)),
twice AS (  -- t: twice the billionths of a norm, so that odd ones are ties
  SELECT *, CASE h % 8 WHEN 0 THEN 0 WHEN 1 THEN 2000000000 WHEN 2 THEN 200000 * (g % 10001)
    WHEN 3 THEN 200000 * (9000 + g % 1001) WHEN 4 THEN g % 2000000001
    ELSE 2 * (g % 1000000000) + 1 END::BIGINT AS t FROM drawn),
plain AS (
  SELECT *, CASE j WHEN 0 THEN (t > 100000000)::INT WHEN 1 THEN (2000000000 + 4 * t) / 2e9
    WHEN 2 THEN (4 * t - 4000000000) / 2e9 WHEN 3 THEN (5 * t) / 2e9 WHEN 4 THEN t / 2e9
    WHEN 5 THEN (8000000000000 - 3200 * t) / 2e9 END::DOUBLE AS v,
    [1, 3, 7, 64, 1000, 333333333][1 + g % 6] AS top FROM twice),
scored AS (
  SELECT run, [{names}][j + 1] AS criterion,
    CASE WHEN h // 8 % 40 = 0 THEN NULL
      WHEN u % 9 = 0 AND h // 8 % 40 = 1 THEN [{absurd}][1 + g % 10]
      WHEN j BETWEEN 1 AND 5 AND h % 8 = 7
        THEN nextafter(v, CASE WHEN g % 2 = 0 THEN 'inf' ELSE '-inf' END::DOUBLE)
      ELSE v END AS raw,
    CASE WHEN u % 9 = 1 AND h // 8 % 40 = 2 THEN -1
      ELSE [NULL, NULL, 0, 1, 2, 5, 30, 1000][1 + h // 512 % 8] END::BIGINT AS n,
    CASE WHEN j = 6 THEN g % top END::BIGINT AS wins,
    CASE WHEN j = 6 THEN g // 1024 % top END::BIGINT AS losses,
    CASE WHEN j = 6 THEN (u % 9 > 0)::INT + h // 4096 % top END::BIGINT AS ties,
    CASE WHEN j = 7 THEN CASE WHEN h % 8 < 5 THEN top ELSE g // 1024 % (top + 1) END END::BIGINT
      AS passed,
    CASE WHEN j = 7 AND NOT (u % 9 = 2 AND h % 8 = 1) THEN top - (u % 9 = 3 AND h % 8 = 2)::INT
      END::BIGINT AS total, NULL::VARCHAR AS gate, NULL::BOOLEAN AS verdict, {verdicts}, h, u
  FROM plain WHERE h // 4096 % 60 > 0),
given AS (
  SELECT * FROM scored
  UNION ALL SELECT * FROM scored WHERE u % 9 = 4 AND h // 65536 % 50 = 0
  UNION ALL BY NAME SELECT run, 'odd' AS criterion, 1e0 AS raw, h, u FROM scored
    WHERE u % 9 = 5 AND h // 65536 % 50 = 0
  UNION ALL BY NAME SELECT run, ['zeta', 'alpha', 'no identifier!'][1 + h // 64 % 3] AS gate,
    [true, true, false, NULL][1 + h // 4096 % 4] AS verdict, h, u FROM scored
    WHERE u // 16 % 8 = 0 AND h // 65536 % 10 = 0)
SELECT * EXCLUDE (h, u) FROM given ORDER BY hash(h)
"""
ABSURD = "'nan', 'inf', '-inf', 1e308, 1e301, 5e-324, -1, 1.0000000000000002, 6, -0.0"


class Grading(NamedTuple):
    """What the rows are graded by."""

    plan: ScoringPlan
    rules: Rules


class Found(NamedTuple):
    """What the comparison of some runs came to."""

    runs: int
    cells: int
    rejects: int
    reasons: Counter[str]
    differences: list[str]


def grading() -> Grading:
    """All formulas with floors, under the policy of workflows."""
    params = {"lower_is_better": {"params": {"slo_good": 800, "slo_bad": 4000}}}
    criteria = [
        {
            "id": formula,
            "label": formula,
            "weight": weight,
            "layer": 2,
            "formula": formula,
            **({"critical_floor": {"norm": Decimal("0.02")}} if weight % 2 else {}),
            **params.get(formula, {}),
        }
        for formula, weight in zip(FORMULAS, WEIGHTS, strict=True)
    ]
    tree = {
        "profile": "equality",
        "version": 1,
        "title": "All formulas",
        "family": "equality",
        "gates": [],
        "criteria": criteria,
    }
    plan = make_plan(load_profile(Document(tree, "equality.yaml")), why="a benchmark")
    return Grading(plan, make_rules(Shelf().policy("workflow@1")))


def make(rows: int, path: str) -> None:
    """Write about so many rows, in no order."""
    gates = [planned.id for planned in grading().plan.gates]
    # one run in 32 fails a gate; some rows say nothing of it, and a few contradict the rest
    verdicts = ", ".join(
        f"CASE WHEN h // 16 % 11 = {index} THEN NULL WHEN u % 9 = 6 AND h // 1024 % 200 = {index}"
        f" THEN u // 16 % 32 = {index} ELSE u // 16 % 32 <> {index} END AS {gate}"
        for index, gate in enumerate(gates)
    )
    names = ", ".join(f"'{name}'" for name in FORMULAS)
    absurd = ", ".join(f"{value}::DOUBLE" for value in ABSURD.split(", "))
    query = ROWS.format(runs=rows // 8 + rows // 400, names=names, absurd=absurd, verdicts=verdicts)
    connection = connected()
    connection.execute("SET preserve_insertion_order = true")
    connection.sql(query).write_parquet(path)


def grade(engine: BatchEngine, source: str, grades: str, rejects: str) -> float:
    """Grade on an engine; the seconds."""
    plan = make_batch_plan(*grading())
    started = time.perf_counter()
    view = engine.attach([source])
    queries = batch_queries(plan, view, engine.columns(view))
    engine.write(in_dialect(queries.grades, engine.dialect), grades, kind="parquet")
    seconds = time.perf_counter() - started
    engine.write(in_dialect(queries.rejects, engine.dialect), rejects, kind="parquet")
    return seconds


def layout_of(source: str) -> RowLayout:
    """Which column of the rows means what."""
    engine = DuckDBEngine()
    layout = find_layout(make_batch_plan(*grading()), engine.columns(engine.attach([source])))
    engine.close()
    return layout


def compare(source: str, grades: str, rejects: str, first: int, layout: RowLayout) -> Found:
    """Make a chunk of runs again in Python, and compare them with what an engine wrote."""
    plan, rules = grading()
    connection = connected()
    connection.execute("SET threads = 1")

    def read(path: str) -> Iterable[dict[str, Any]]:
        found = connection.execute(
            f"SELECT * FROM read_parquet('{path}') WHERE run BETWEEN ? AND ? ORDER BY run",
            [first, first + CHUNK - 1],
        )
        names = [column[0] for column in found.description]
        while rows := found.fetchmany(10_000):
            for row in rows:
                yield dict(zip(names, row, strict=True))

    refused: dict[int, list[tuple[str, str]]] = {}
    for row in read(rejects):
        subject = row["gate"] if row["criterion"] is None else row["criterion"]
        refused.setdefault(row["run"], []).append((subject or "", row["code"]))
    written: dict[int, list[dict[str, Any]]] = {}
    for row in read(grades):
        written.setdefault(row["run"], []).append(row)
    differences, reasons, cells, rejected = [], Counter[str](), 0, 0
    for run, rows in groupby(read(source), itemgetter("run")):
        made, faults = replay_rows(run, list(rows), layout, plan, rules)
        stored = written.pop(run, [])
        if len(stored) != 1 or stored[0].keys() != made.keys():
            differences.append(f"{run}: {len(stored)} rows")
            continue
        differences += [
            f"{run}: {column} is {stored[0][column]}, and Python makes it {value}"
            for column, value in made.items()
            if stored[0][column] != plain(value)
        ]
        codes = sorted((one.subject or "", one.code) for one in faults)
        if codes != sorted(refused.pop(run, [])):
            differences.append(f"{run}: rejects differ")
        reasons[made["reason"]] += 1
        cells += len(made)
        rejected += len(codes)
    differences += [f"{run}: not in the input" for run in written.keys() | refused.keys()]
    return Found(sum(reasons.values()), cells, rejected, reasons, differences)


def plain(value: Any) -> Any:
    """A decimal as the double that it is written to a file as."""
    return float(value) if isinstance(value, Decimal) else value


def main() -> bool:
    """Make, grade, compare; whether nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engine", choices=("duckdb", "spark"), default="duckdb")
    parser.add_argument("--dir", help="where to write (3 GB; default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        source, grades, rejects = (
            os.path.join(folder, f"{name}.parquet") for name in ("in", "grades", "rejects")
        )
        apart(make, options.rows, source)
        if options.engine == "spark":
            from assay.families.batch.spark_engine import SparkEngine
            from assay.families.batch.spark_session import SparkSource

            engine: BatchEngine = SparkEngine(SparkSource())
        else:
            engine = DuckDBEngine()
        seconds = grade(engine, source, grades, rejects)
        ((rows, last),) = connected().sql(f"SELECT count(*), max(run) FROM '{source}'").fetchall()
        version = f"{engine.name} {engine.version}"
        engine.close()
        print(f"{rows:,} rows graded by {version} in {seconds:.1f} s", flush=True)
        started = time.perf_counter()
        layout = layout_of(source)
        with ProcessPoolExecutor() as pool:
            pending = [
                pool.submit(compare, source, grades, rejects, first, layout)
                for first in range(0, last + 1, CHUNK)
            ]
            chunks = [one.result() for one in pending]
    reasons = sum((chunk.reasons for chunk in chunks), Counter[str]())
    differences = [text for chunk in chunks for text in chunk.differences]
    print(
        f"{sum(chunk.runs for chunk in chunks):,} runs made again by Python in"
        f" {time.perf_counter() - started:.0f} s: {sum(chunk.cells for chunk in chunks):,} cells"
        f" and {sum(chunk.rejects for chunk in chunks):,} rejects compared"
    )
    print(", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common()))
    print(f"{len(differences):,} differences")
    for text in differences[:SHOWN]:
        print(f"  {text}")
    return not differences


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
