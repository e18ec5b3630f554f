"""Grading a table on DuckDB, Parquet to Parquet: rows sorted by run, shuffled, and on rounding ties
just under a band.

Each contender runs in its own process, in turns; a time is its best round without the start. The
floor reads the same rows and writes the same columns as the grades, and computes nothing. The
hand-written SQL gives four columns (run, score, gate, letter) in whole numbers; `assay: 4 columns`
is our relation cut down to those, `assay` all of them; `assay batch` is the command as a process,
start, digests and counts included. Polars is a contender where it is installed.
Then every run is graded again by the Python engine: not one column may differ. With `--full` it
also grades 100,000,000 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from timing import ENVIRONMENT, table

PROFILE = """
profile: bench
version: 1
title: Four criteria
family: bench
gates: []
criteria:
  - {id: correct, label: Correct, weight: 0.40, layer: 1, formula: binary, role: correctness}
  - {id: helpful, label: Helpful, weight: 0.25, layer: 2, formula: likert_1_5}
  - {id: latency_ms, label: Latency, weight: 0.15, layer: 3, formula: lower_is_better, params: {slo_good: 800, slo_bad: 4000}}
  - {id: grounded, label: Grounded, weight: 0.20, layer: 2, formula: zero_one, critical_floor: {norm: 0.5}}
"""
GATES = (
    "required_outputs_present",
    "overall_status_success",
    "no_critical_step_failures",
    "dataset_workflow_compatible",
)
"""Gates that every run passes; `schema_contract_valid` fails for one run in fifty."""
VERDICTS = ", ".join(
    f"CASE WHEN criterion = 'correct' THEN {verdict} END AS {name}"
    for name, verdict in (
        *((name, "true") for name in GATES),
        ("schema_contract_valid", "hash(run) % 50 > 0"),
    )
)
RANDOM = """
SELECT i // 4 AS run, ['correct', 'helpful', 'latency_ms', 'grounded'][i % 4 + 1] AS criterion,
  CASE i % 4 WHEN 0 THEN (hash(i) % 100 < 93)::INT WHEN 1 THEN 1 + hash(i) % 5
    WHEN 2 THEN 50 + hash(i) % 4500 ELSE (4000 + hash(i) % 6001) / 10000 END::DOUBLE AS raw
FROM range({rows}) AS t(i) {order}
"""
TIES = """
WITH ties AS (  -- in billionths: 40 + 6.25 * likert + 15 * m / 3200 + 20 * g is an edge less 0.005
  SELECT likert, m, 50000000::BIGINT * edge - 2000250000 - 312500000 * likert - 234375 * m AS g
  FROM (VALUES (70), (80), (90)) AS e(edge), range(5) AS l(likert), range(0, 3201) AS k(m)),
numbered AS (
  SELECT row_number() OVER (ORDER BY likert, m, g) - 1 AS k, count(*) OVER () AS size, likert, m, g
  FROM ties WHERE g BETWEEN 500000000 AND 1000000000)
SELECT i AS run, unnest(['correct', 'helpful', 'latency_ms', 'grounded']) AS criterion,
  unnest([1.0::DOUBLE, 1.0::DOUBLE + likert, 4000.0::DOUBLE - m, g::DOUBLE / 1e9::DOUBLE]) AS raw
FROM (SELECT i, (hash(i) % (SELECT max(size) FROM numbered))::BIGINT AS j
  FROM range({rows} // 4) AS t(i)) JOIN numbered ON k = j ORDER BY i
"""
BY_HAND = """
SELECT run, (total + 400) // 800 AS score, gate, CASE WHEN gate THEN 'F' WHEN score >= 9000 THEN 'A'
  WHEN score >= 8000 THEN 'B' WHEN score >= 7000 THEN 'C' WHEN score >= 6000 THEN 'D' ELSE 'F' END
  AS letter
FROM (SELECT run, sum(CASE criterion WHEN 'correct' THEN 320 * e4 WHEN 'helpful' THEN
    50 * (e4 - 10000) WHEN 'latency_ms' THEN 375 * greatest(0, least(3200, 4000 - e4 // 10000))
    ELSE 160 * e4 END)::BIGINT AS total, bool_or((criterion = 'correct' AND e4 < 10000)
    OR (criterion = 'grounded' AND e4 < 5000)) AS gate
  FROM (SELECT run, criterion, round(raw * 10000)::BIGINT AS e4 FROM read_parquet(?)) GROUP BY run)
"""
COMMAND = "assay batch"
"""The command: a whole process, with the start, the digests of every file and the counts."""
FOUR = "run, score, len(failed_floors) > 0 AS gate, grade"
LIMIT_SORTED, LIMIT_LINEAR, LIMIT_PEER = 2.0, 1.3, 1000


def connected() -> Any:
    """A connection that keeps no order, as a batch does."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    connection.execute("SET preserve_insertion_order = false")
    return connection


def make(kind: str, rows: int, path: str) -> None:
    """Write the rows of one kind."""
    order = f"ORDER BY hash(i + {rows})" if kind == "shuffled" else ""
    query = TIES.format(rows=rows) if kind == "ties" else RANDOM.format(rows=rows, order=order)
    connection = connected()
    connection.execute("SET preserve_insertion_order = true")
    connection.sql(f"SELECT *, {VERDICTS} FROM ({query})").write_parquet(path)


def apart(function: Callable[..., None], *arguments: Any) -> None:
    """Call a function in its own process: a child starts with the peak memory of its parent."""
    with ProcessPoolExecutor(1) as pool:
        pool.submit(function, *arguments).result()


def work(name: str, source: str, made: str, library: str) -> None:
    """Do what one contender does; print its seconds."""
    import assay

    connection = connected()
    target = f"{made}.{name.replace(' ', '-')}.parquet"
    if name == "polars":
        import polars  # noqa: F401
    elif name.startswith("assay"):
        __import__("assay.api.tables")
    started = time.perf_counter()
    if name == "scan and write":
        connection.execute("SELECT min(COLUMNS(*)) FROM read_parquet(?)", [source])
        connection.fetchall()
        connection.read_parquet(made).write_parquet(target)
    elif name == "hand-written SQL":
        connection.sql(BY_HAND, params=[source]).write_parquet(target)
    elif name == "polars":
        by_polars(source, target)
    else:
        graded = assay.grade_table(
            source, profile="bench@1", policy="workflow@1", library=library, connection=connection
        )
        whole = name == "assay"
        (graded if whole else graded.project(FOUR)).write_parquet(made if whole else target)
    print(time.perf_counter() - started)


def by_polars(source: str, target: str) -> None:
    """The hand-written SQL, as polars has it."""
    import polars as pl

    e4, criterion = (pl.col("raw") * 10000).round().cast(pl.Int64), pl.col("criterion")
    part = (
        pl.when(criterion == "correct").then(320 * e4)
        .when(criterion == "helpful").then(50 * (e4 - 10000))
        .when(criterion == "latency_ms").then(375 * (4000 - e4 // 10000).clip(0, 3200))
        .otherwise(160 * e4)
    )  # fmt: skip
    low = ((criterion == "correct") & (e4 < 10000)) | ((criterion == "grounded") & (e4 < 5000))
    score = pl.col("score")
    (
        pl.scan_parquet(source)
        .select("run", part.alias("total"), low.alias("gate"))
        .group_by("run")
        .agg((pl.col("total").sum() + 400) // 800, pl.col("gate").any())
        .rename({"total": "score"})
        .with_columns(
            pl.when("gate").then(pl.lit("F")).when(score >= 9000).then(pl.lit("A"))
            .when(score >= 8000).then(pl.lit("B")).when(score >= 7000).then(pl.lit("C"))
            .when(score >= 6000).then(pl.lit("D")).otherwise(pl.lit("F")).alias("letter")
        )
        .sink_parquet(target)
    )  # fmt: skip


def timed(name: str, source: str, made: str, library: str) -> tuple[float, float]:
    """Seconds and peak MiB of one contender."""
    command = [sys.executable, __file__, "--worker", name, source, made, library]
    if name == COMMAND:
        command = [sys.executable, "-m", "assay", "batch", source, "-o", f"{made}.batch.parquet"]
        command += ["--profile", "bench@1", "--library", library, "--overwrite", "--no-config"]
    started = time.perf_counter()
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != (1 if name == COMMAND else 0):  # some runs fail
        raise SystemExit(f"{name} ended with {status}")
    seconds = time.perf_counter() - started if name == COMMAND else float(printed.split()[-1])
    return seconds, usage.ru_maxrss / 1024


def compete(
    names: list[str], source: str, made: str, library: str, *, rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The best seconds and the highest peak of each contender, in turns."""
    best = dict.fromkeys(names, float("inf"))
    peaks = dict.fromkeys(names, 0.0)
    timed("assay", source, made, library)  # the output that the floor copies
    for _ in range(rounds):
        for name in names:
            seconds, peak = timed(name, source, made, library)
            best[name], peaks[name] = min(best[name], seconds), max(peaks[name], peak)
    return best, peaks


def differences(source: str, made: str, library: str, part: int, parts: int) -> tuple[int, int]:
    """How many of the runs of one part were compared with the Python engine, and how many differ in
    any column.
    """
    from assay.families.batch.replay import RowScore, RowVerdict, RunRows, replay_run
    from assay.grading.policy import make_rules
    from assay.library.shelf import Shelf
    from assay.scoring.profile import make_plan

    shelf = Shelf(library)
    plan = make_plan(shelf.profile("bench@1"), why="asked for")
    rules = make_rules(shelf.policy("workflow@1"))
    joined = connected().execute(
        "SELECT out.*, c, v, ok FROM read_parquet(?) out"
        " JOIN (SELECT run AS r, list(criterion) AS c,"
        " list(raw) AS v, bool_and(schema_contract_valid) AS ok FROM read_parquet(?)"
        " WHERE run % ? = ? GROUP BY run) ON r = out.run",
        [made, source, parts, part],
    )
    names = [column[0] for column in joined.description[:-3]]
    passed = [RowVerdict(name, True) for name in GATES]
    compared = wrong = 0
    while rows := joined.fetchmany(10_000):
        for *row, criteria, values, valid in rows:
            given = [*map(RowScore, criteria, values)]
            verdicts = [RowVerdict("schema_contract_valid", valid), *passed]
            wanted = replay_run(row[0], RunRows(given, verdicts, len(given)), plan, rules).row
            own = dict(zip(names, row, strict=True))
            wrong += any(plain(own[name]) != plain(value) for name, value in wanted.items())
            compared += 1
    return compared, wrong


def plain(value: Any) -> Any:
    """A number as its shortest decimal, whatever type it came in."""
    return Decimal(repr(value)).normalize() if isinstance(value, float) else value


def check(source: str, made: str, library: str) -> tuple[int, int]:
    """All runs against the Python engine, on every core."""
    parts = os.cpu_count() or 1
    with ProcessPoolExecutor(parts) as pool:
        found = [
            pool.submit(differences, source, made, library, part, parts) for part in range(parts)
        ]
        counts = [one.result() for one in found]
    return sum(n for n, _ in counts), sum(wrong for _, wrong in counts)


def peer_rate(folder: str) -> float | None:
    """The items that pydantic-evals, the fastest peer tool, scores in a second."""
    import items

    try:
        import pydantic_evals  # noqa: F401
    except ImportError:
        print("pydantic-evals is not installed: pip install 'assaykit[peers]'", file=sys.stderr)
        return None
    data = os.path.join(folder, "items.jsonl")
    items.make(data, 10_000)
    seconds, _, _ = items.timed([sys.executable, "-c", items.PEER, data, json.dumps(items.SCHEMA)])
    return 10_000 / seconds


def main() -> bool:
    """Measure, print, and tell whether every limit holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--full", action="store_true", help="also 100,000,000 rows")
    parser.add_argument("--dir", help="where to write (20 GB for --full; default: a temporary one)")
    parser.add_argument("--worker", nargs=4, metavar=("NAME", "IN", "OUT", "LIBRARY"))
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return True
    good = True
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        library = os.path.join(folder, "library")
        os.makedirs(os.path.join(library, "profiles"))
        Path(library, "profiles", "bench@1.yaml").write_text(PROFILE, encoding="utf-8")
        names = ["scan and write", "assay", COMMAND, "assay: 4 columns", "hand-written SQL"]
        try:
            import polars  # noqa: F401

            names.append("polars")
        except ImportError:
            print("polars is not installed, so it does not take part", file=sys.stderr)
        sorted_seconds = 0.0
        for kind in ("sorted", "shuffled", "ties"):
            source, made = (os.path.join(folder, f"{kind}-{end}.parquet") for end in ("in", "out"))
            apart(make, kind, options.rows, source)
            best, peaks = compete(names, source, made, library, rounds=options.rounds)
            rivals = [best[name] for name in names[4:]]
            limits = (
                {"assay": LIMIT_SORTED}
                if kind == "sorted"
                else {"assay: 4 columns": 1.05 * min(rivals) / best["scan and write"]}
                if kind == "shuffled"
                else {}
            )
            limits = {name: round(limit, 2) for name, limit in limits.items()}
            title = f"{options.rows:,} rows, {kind}"
            good &= table(title, best, base="scan and write", limits=limits, unit="s")
            print("\npeak MiB: " + ", ".join(f"{name} {peak:.0f}" for name, peak in peaks.items()))
            compared, wrong = check(source, made, library)
            print(f"{compared:,} runs compared with the Python engine, {wrong:,} differ")
            good &= compared == options.rows // 4 and not wrong
            if kind == "sorted":
                sorted_seconds = best["assay"]
            os.unlink(source)
        rate = peer_rate(folder)
        if rate is not None:
            own = options.rows / 4 / sorted_seconds
            print(
                f"{own:,.0f} runs/s, {own / rate:,.0f} times pydantic-evals ({rate:,.0f} items/s)"
            )
            good &= own / rate >= LIMIT_PEER
        good &= scale(folder, library, full=options.full)
    return good


def scale(folder: str, library: str, *, full: bool) -> bool:
    """Time and memory by the number of rows, sorted by run."""
    print("\n| rows | s | rows/s | peak MiB |\n|---:|---:|---:|---:|")
    each: list[float] = []
    for rows in (10**5, 10**6, 10**7, *((10**8,) if full else ())):
        source, made = (os.path.join(folder, f"{rows}-{end}.parquet") for end in ("in", "out"))
        apart(make, "sorted", rows, source)
        seconds, peak = min(timed("assay", source, made, library) for _ in range(2))
        print(f"| {rows:,} | {seconds:.2f} | {rows / seconds:,.0f} | {peak:.0f} |", flush=True)
        each.append(seconds / rows)
        os.unlink(source)
        os.unlink(made)
    holds = all(later <= LIMIT_LINEAR * first for first, later in pairwise(each[1:]))
    print(f"time per row {'stays' if holds else 'GROWS'} within {LIMIT_LINEAR} from step to step")
    return holds


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
