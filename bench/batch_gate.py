"""What a decision over two batches costs by runs: seconds, CPU seconds of all threads and peak MiB.

    python bench/batch_gate.py --runs 10000 100000

Two evaluations of the same samples are made, graded by `assay batch` with four criteria and five
gates, and compared by `assay gate`, each command in its own process. The candidate scores a little
higher. The processes that a command leaves behind count as its own.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from resource import struct_rusage
from typing import NamedTuple

from batch import GATES, PROFILE, apart, connected
from timing import ENVIRONMENT

WIDE = """
SELECT i AS run, (hash(i) % 100 < {correct})::INT AS correct, 1 + hash(i + 1) % 5 AS helpful,
  50 + hash(i + 2) % 4500 AS latency_ms, (6000 + hash(i + {seed}) % 4001) / 10000 AS grounded,
  hash(i) % 50 > 0 AS schema_contract_valid, {gates} FROM range({runs}) AS t(i)
"""
PR_SET_CHILD_SUBREAPER = 36
SIDES = {"baseline": (93, 3), "candidate": (94, 4)}
"""The percentage of runs that are correct, and the seed of what else differs."""


class CommandCost(NamedTuple):
    """What one command took."""

    seconds: float
    cpu: float
    peak: float
    """MiB."""
    code: int
    text: str


def timed(*words: str) -> CommandCost:
    """Run a command of Assay in its own process."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "assay", *words], env=ENVIRONMENT, stdout=out, stderr=out
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        uses = [used, *uses_of_orphans()]
        out.seek(0)
        text = out.read().decode()
    cpu = sum(use.ru_utime + use.ru_stime for use in uses)
    peak = max(use.ru_maxrss for use in uses) / 1024
    return CommandCost(seconds, cpu, peak, child.returncode, text)


def uses_of_orphans() -> Iterator[struct_rusage]:
    """What the processes used that a command left behind, once they end."""
    while True:
        try:
            yield os.wait4(-1, 0)[2]
        except ChildProcessError:
            return


def make(path: str, runs: int, side: str) -> None:
    """Write the scores and verdicts of one side, one row for each run."""
    correct, seed = SIDES[side]
    gates = ", ".join(f"true AS {gate}" for gate in GATES)
    connection = connected()
    query = WIDE.format(runs=runs, correct=correct, seed=seed, gates=gates)
    connection.sql(query).write_parquet(path)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[10**4, 10**5])
    parser.add_argument("--dir", help="where to write (default: a temporary folder)")
    parser.add_argument("--summary", action="store_true", help="also `assay report summary`")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    print("| runs on each side | command | s | CPU s | CPU µs per run | peak MiB |")
    print("|---:|---|---:|---:|---:|---:|", flush=True)
    for runs in options.runs:
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            ENVIRONMENT["TMPDIR"] = folder
            profile = Path(folder, "bench.yaml")
            profile.write_text(PROFILE, encoding="utf-8")
            made = {side: os.path.join(folder, f"{side}.parquet") for side in SIDES}
            by = ["--profile", str(profile)]
            commands = {"gate": ["gate", made["candidate"], "--baseline", made["baseline"]]}
            if options.summary:
                commands["report summary"] = ["report", "summary", made["candidate"]]
            for side, path in made.items():
                source = os.path.join(folder, "in.parquet")
                apart(make, source, runs, side)
                done = timed("batch", source, "-o", path, *by)
                assert done.code in (0, 1), done.text
                os.remove(source)
                show("batch", done, runs)
            for name, words in commands.items():
                show(name, timed(*words, *by), runs)


def show(name: str, cost: CommandCost, runs: int) -> None:
    """Print a row of the table; an error instead of a result ends the measurement."""
    if cost.code not in (0, 1):
        sys.exit(cost.text)
    print(
        f"| {runs:,} | {name} | {cost.seconds:.1f} | {cost.cpu:.1f} | {cost.cpu / runs * 1e6:.2f} |"
        f" {cost.peak:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
