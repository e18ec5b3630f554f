"""A page of a list over a million stored runs, through the API: the same time wherever it stands
and whatever it is filtered by.

python bench/listing.py                          # on SQLite and on PostgreSQL
python bench/listing.py --rows 100000 --on sqlite

The rows go in by plain SQL. They are valid as far as listing is concerned: a run and its grade,
linked; their digests are counted, not computed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

from assay.store.ledger import open_ledger
from postgres import new_database
from serving import Process

LIMIT = 3.0
"""How many times the first page any other may cost."""
REPEATS = 15
BLOCK = 100_000
RARE = 400_000
"""One run in so many is of the rare workflow."""


class Dialect(NamedTuple):
    """What the two databases say differently."""

    numbers: str
    source: str
    digest: str
    body: str
    micros: str


DIALECTS = {
    "sqlite": Dialect(
        "WITH RECURSIVE n(i) AS (SELECT {low} UNION ALL SELECT i + 1 FROM n WHERE i < {high}) ",
        "FROM n",
        "CAST(printf('%032d', {seq}) AS BLOB)",
        "CAST({text} AS BLOB)",
        "printf('%02d.%06d', i / 1000000, i % 1000000)",
    ),
    "postgresql": Dialect(
        "",
        "FROM generate_series({low}, {high}) AS n(i)",
        "convert_to(lpad(({seq})::text, 32, '0'), 'UTF8')",
        "convert_to({text}, 'UTF8')",
        "lpad((i / 1000000)::text, 2, '0') || '.' || lpad((i % 1000000)::text, 6, '0')",
    ),
}
COLUMNS = (
    "project, seq, digest, chain, kind, schema, created_at, run_id, workflow, workflow_version,"
    " family, dataset, dataset_version, sample_id, grade, passed, policy, profile, status,"
    " started_at, body"
)
WORKFLOW = f"CASE WHEN i % {RARE} = 7 THEN 'rare' ELSE 'w-' || (i % 40) END"
VERSION = "'' || (i % 3 + 1)"
STATUS = "CASE WHEN i % 50 = 0 THEN 'failed' ELSE 'success' END"
LETTER = "CASE WHEN i % 10 = 0 THEN 'F' WHEN i % 10 = 1 THEN 'B' ELSE 'A' END"
SHARED = (
    f"'2026-11-15T10:00:00.000000Z', 'r-' || i, {WORKFLOW}, {VERSION}, 'rag', 'd-' || (i % 20),"
    " '1', 's-' || (i % 1000)"
)
RUN = f"""'{{"run_id":"r-' || i || '","workflow":{{"id":"' || {WORKFLOW} || '","version":"' || {VERSION} || '"}},"status":"' || {STATUS} || '"}}'"""
GRADE = """'{"run_id":"r-' || i || '","hard_gate_failures":[' || CASE WHEN i % 10 = 0 THEN '"overall_status_success"' ELSE '' END || ']}'"""


def statements(dialect: Dialect, low: int, high: int) -> list[str]:
    """What stores the runs from one number to another: each with a grade, every tenth with a
    tag.
    """
    numbers, source = (
        part.format(low=low, high=high) for part in (dialect.numbers, dialect.source)
    )
    of_run, of_grade = (dialect.digest.format(seq=seq) for seq in ("2 * i - 1", "2 * i"))
    started = f"'2026-11-15T10:00:' || {dialect.micros} || 'Z'"
    of_run_text, of_grade_text = (dialect.body.format(text=body) for body in (RUN, GRADE))
    run = (
        f"'default', 2 * i - 1, {of_run}, {of_run}, 'run', 'assay.run/1', {SHARED}, NULL, NULL,"
        f" NULL, NULL, {STATUS}, {started}, {of_run_text}"
    )
    given = f"{LETTER}, i % 10 <> 0, 'workflow@1', 'rag@1', {STATUS}, NULL"
    grade = (
        f"'default', 2 * i, {of_grade}, {of_grade}, 'grade', NULL, {SHARED}, {given},"
        f" {of_grade_text}"
    )
    link = "'default', 2 * i, 0, 2 * i, 'graded_from', 2 * i - 1"
    return [
        f"{numbers}INSERT INTO records ({COLUMNS}) SELECT {run} {source}",
        f"{numbers}INSERT INTO records ({COLUMNS}) SELECT {grade} {source}",
        (
            f"{numbers}INSERT INTO links (project, seq, position, source_seq, relation, target_seq)"
            f" SELECT {link} {source}"
        ),
        (
            f"{numbers}INSERT INTO tags (project, seq, position, kind, tag) SELECT 'default', 2 * i"
            f" - 1, 0, 'run', 'tenth' {source} WHERE i % 10 = 0"
        ),
    ]


def fill(url: str, rows: int) -> float:
    """Store so many runs; the seconds it took."""
    began = time.perf_counter()
    with open_ledger(url) as ledger:
        engine = ledger.database.engine
        raw: Any = engine.raw_connection()
        try:
            driver = raw.driver_connection
            if engine.dialect.name == "sqlite":
                driver.execute("PRAGMA synchronous = OFF")
                driver.execute("PRAGMA cache_size = -1000000")
                driver.execute("PRAGMA foreign_keys = OFF")
            else:
                driver.execute(
                    "SET session_replication_role = replica"
                )  # no check of what is right by construction
            for low in range(1, rows + 1, BLOCK):
                for statement in statements(
                    DIALECTS[engine.dialect.name], low, min(rows, low + BLOCK - 1)
                ):
                    driver.execute(statement)
                driver.commit()
            last = DIALECTS[engine.dialect.name].digest.format(seq=2 * rows)
            driver.execute(
                f"INSERT INTO heads (project, seq, chain) VALUES ('default', {2 * rows}, {last})"
            )
            for what in ("workflow", "dataset"):
                driver.execute(
                    "INSERT INTO seen (project, what, id, version, runs, newest_seq) SELECT"
                    f" project, '{what}', {what}, {what}_version, COUNT(*), MAX(seq) FROM records"
                    f" WHERE kind = 'run' GROUP BY project, {what}, {what}_version"
                )
            driver.execute(
                f"INSERT INTO counts (project, kind, n) VALUES ('default', 'run', {rows}),"
                f" ('default', 'grade', {rows})"
            )
            driver.commit()
        finally:
            raw.close()
    return time.perf_counter() - began


def pages(rows: int) -> dict[str, str]:
    """The pages that are asked for, by name."""
    far = 2 * rows // 20
    return {
        "first page": "/runs?limit=100",
        "page in the middle": f"/runs?limit=100&after={rows}",
        "far page": f"/runs?limit=100&after={far}",
        "far page, oldest first": f"/runs?limit=100&newest_first=false&after={2 * rows - far}",
        "of one workflow": "/runs?limit=100&workflow=w-7",
        "of one workflow, far": f"/runs?limit=100&workflow=w-7&after={far}",
        "of a rare workflow": "/runs?limit=100&workflow=rare",
        "of a workflow that is not there": "/runs?limit=100&workflow=none",
        "of one dataset and version": "/runs?limit=100&dataset=d-3&version=2",
        "of a version that is not there": "/runs?limit=100&version=none",
        "of a workflow and a dataset that never met": "/runs?limit=100&workflow=w-7&dataset=d-3",
        "failed": "/runs?limit=100&status=failed",
        "failed and of a rare workflow": "/runs?limit=100&status=failed&workflow=rare",
        "with a tag": "/runs?limit=100&tag=tenth",
        "with a tag, far": f"/runs?limit=100&tag=tenth&after={far}",
        "in a span of time": (
            "/runs?limit=100&from=2026-11-15T10:00:00.100000Z&to=2026-11-15T10:00:00.100500Z"
        ),
        "in a wide span of time": "/runs?limit=100&from=2026-11-15T10:00:00.000500Z",
        "in a span of time, of a rare workflow": (
            "/runs?limit=100&from=2026-11-15T10:00:00.000500Z&workflow=rare"
        ),
        "graded F": "/runs?limit=100&grade=F",
        "graded F, far": f"/runs?limit=100&grade=F&after={far}",
        "graded C, which none is": "/runs?limit=100&grade=C",
        "graded B, with a gate that failed": "/runs?limit=100&grade=B&gate=overall_status_success",
        "grades": "/grades?limit=100",
        "workflows": "/workflows",
        "datasets": "/datasets",
    }


def measure(url: str, rows: int) -> bool:
    """Ask for every page in turn; print the table."""
    times: dict[str, list[float]] = {name: [] for name in pages(rows)}
    sizes: dict[str, int] = {}
    with Process(url, "--quiet") as server:
        for turn in range(REPEATS + 2):
            for name, path in pages(rows).items():
                began = time.perf_counter()
                with urllib.request.urlopen(server.address + path, timeout=300) as answer:
                    data = answer.read()
                if turn > 1:  # the first rounds fill the caches
                    times[name].append(time.perf_counter() - began)
                sizes[name] = len(json.loads(data)["items"])
        server.end()
    first = statistics.median(times["first page"])
    print("| page | items | median ms | times first | limit | |\n|---|---:|---:|---:|---:|---|")
    worst = 0.0
    for name, took in times.items():
        ratio = statistics.median(took) / first
        worst = max(worst, ratio)
        print(
            f"| {name} | {sizes[name]} | {1000 * statistics.median(took):.1f} | {ratio:.2f} |"
            f" {LIMIT:g} | {'holds' if ratio <= LIMIT else 'OVER'} |"
        )
    sys.stdout.flush()
    return worst <= LIMIT


def main(argv: list[str]) -> bool:
    """Fill and measure on each database."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--rows", type=int, default=1_000_000)
    made.add_argument("--on", choices=["sqlite", "postgresql"], action="append")
    made.add_argument(
        "--keep", metavar="FILE", help="an SQLite file that is used again where it is there"
    )
    options = made.parse_args(argv)
    good = True
    for name in options.on or ("sqlite", "postgresql"):
        folder = tempfile.mkdtemp(prefix="bench-listing-")
        try:
            url = (
                f"sqlite:///{options.keep or folder + '/ledger.db'}"
                if name == "sqlite"
                else new_database()
            )
            took = 0.0 if options.keep and Path(options.keep).exists() else fill(url, options.rows)
            print(
                f"\nPages of 100 out of {options.rows:,} runs with their grades, {name} (filled in"
                f" {took:.0f} s)\n",
                flush=True,
            )
            good = measure(url, options.rows) and good
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
