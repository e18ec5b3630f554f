"""What a batch costs by rows, order, engine and cores: DuckDB with 1 and 2 threads, Spark on `local[1]`
and `local[2]`, Parquet to Parquet, all columns.

    python bench/batch_scale.py --rows 100000 1000000 10000000

Each run is a process of its own. The seconds are those of the query, without the start of Python or
Java; the first query of a Spark session also compiles its code. CPU seconds are those of all threads:
they say what a row costs even while other jobs take the cores. The peak is that of the process which
runs the engine. Before that, the plans: how often rows move between threads or machines.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from batch import PROFILE, apart, connected, make
from timing import ENVIRONMENT

CONTENDERS = (("duckdb", 1), ("duckdb", 2), ("spark", 1), ("spark", 2))
SPARK_MIB = 4096


class Cost(NamedTuple):
    """What one run took."""

    seconds: float
    cpu: float
    peak: float
    """MiB."""


def spark_session(cores: int) -> Any:
    """A session on this machine, made as a batch makes one."""
    from assay.families.batch.spark_session import SparkSource, open_session

    return open_session(SparkSource(master=f"local[{cores}]", memory_mib=SPARK_MIB))[0]


def graded(source: str, library: str, *, engine: Any, rejects: bool = False) -> Any:
    """The relation of the grades, by a DuckDB connection or a Spark session."""
    import assay

    given = {"connection": engine} if hasattr(engine, "fetchall") else {"session": engine}
    return assay.grade_table(
        source,
        profile="bench@1",
        library=library,
        engine="duckdb" if "connection" in given else "spark",
        rejects=rejects,
        **given,
    )


def work(engine: str, cores: int, source: str, made: str, library: str) -> None:
    """Grade once; print seconds, CPU seconds and peak MiB."""
    if engine == "duckdb":
        connection = connected()
        connection.execute(f"SET threads = {int(cores)}")
        __import__("assay.api.tables")
        pid, query = (
            os.getpid(),
            lambda: graded(source, library, engine=connection).write_parquet(made),
        )
    else:
        session = spark_session(cores)
        pid, query = (
            session.sparkContext._gateway.proc.pid,
            lambda: graded(source, library, engine=session).write.parquet(made),
        )
    print(*measured(query, pid))


def measured(query: Callable[[], None], pid: int) -> Cost:
    """Run a query in a process that Linux keeps the books of."""
    before, started = cpu_seconds(pid), time.perf_counter()
    query()
    seconds = time.perf_counter() - started
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    return Cost(seconds, cpu_seconds(pid) - before, int(peak[1]) / 1024)


def cpu_seconds(pid: int) -> float:
    """The user and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(engine: str, cores: int, source: str, made: str, library: str) -> Cost:
    """One run, in a process of its own."""
    command = [sys.executable, __file__, "--worker", engine, str(cores), source, made, library]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
    return Cost(*map(float, done.stdout.split()[-3:]))


def plans(source: str, library: str) -> None:
    """Print how often each engine moves rows, for the grades and for the rejects."""
    session = spark_session(1)
    for rejects in (False, True):
        relation = graded(source, library, engine=connected(), rejects=rejects)
        text = relation.explain()
        frame = graded(source, library, engine=session, rejects=rejects)
        physical = frame._jdf.queryExecution().executedPlan().toString()
        print(
            f"{'rejects' if rejects else 'grades'}: DuckDB groups or sorts by window"
            f" {len(re.findall('GROUP_BY|WINDOW|Group By|Window', text, re.IGNORECASE))} times and"
            f" joins {len(re.findall('JOIN', text, re.IGNORECASE))} times; Spark exchanges rows"
            f" {physical.count('Exchange ')} times and scans {physical.count('FileScan')} times"
        )
    session.stop()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**5, 10**6])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--engine", choices=("duckdb", "spark"), help="only this one")
    parser.add_argument("--plans", action="store_true", help="only print the plans")
    parser.add_argument("--dir", help="where to write (default: a temporary folder)")
    parser.add_argument("--worker", nargs=5, metavar=("ENGINE", "CORES", "IN", "OUT", "LIBRARY"))
    options = parser.parse_args()
    if options.worker:
        engine, cores, source, made, library = options.worker
        work(engine, int(cores), source, made, library)
        return
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        library = os.path.join(folder, "library")
        os.makedirs(os.path.join(library, "profiles"))
        Path(library, "profiles", "bench@1.yaml").write_text(PROFILE, encoding="utf-8")
        if options.plans:
            source = os.path.join(folder, "in.parquet")
            apart(make, "shuffled", 10**5, source)
            plans(source, library)
            return
        print("| rows | order | engine | cores | s | CPU s | CPU µs per row | peak MiB |")
        print("|---:|---|---|---:|---:|---:|---:|---:|", flush=True)
        for rows in options.rows:
            for kind in ("sorted", "shuffled"):
                source = os.path.join(folder, f"{rows}-{kind}.parquet")
                apart(make, kind, rows, source)
                for engine, cores in CONTENDERS:
                    if options.engine in (None, engine):
                        costs = [
                            timed(engine, cores, source, f"{source}.{engine}{cores}.{i}", library)
                            for i in range(options.rounds)
                        ]
                        best = min(costs, key=lambda cost: cost.cpu)
                        print(
                            f"| {rows:,} | {kind} | {engine} | {cores} | {best.seconds:.1f} |"
                            f" {best.cpu:.1f} | {best.cpu / rows * 1e6:.1f} | {best.peak:.0f} |",
                            flush=True,
                        )


if __name__ == "__main__":
    main()
