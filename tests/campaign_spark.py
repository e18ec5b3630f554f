"""Spark loses a worker, and the batch goes on; it loses its own Java process, and nothing has the
final name. `python -m pytest tests/campaign_spark.py`: starting a cluster takes too long for the
suite.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from assay.batch.spark_engine import SparkEngine
from assay.batch.spark_session import SparkSource
from assay.errors import AssayError
from spark import need_java

SLOW = (  # enough tasks that some are still to come when something dies
    "SELECT id % 1000 AS run, count(*) AS n, max(sha2(CAST(id AS STRING), 512)) AS x"
    " FROM range(0, 4000000, 1, 64) GROUP BY 1"
)


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
