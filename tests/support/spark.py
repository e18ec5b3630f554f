"""One Spark for the tests of `make campaign`: a Spark Connect server, started by the first test that
needs it. A session on it costs little; the Java that it runs on takes seconds to start.

    def test_something(spark_address: str) -> None: ...   # sc://127.0.0.1:PORT

Where there is no Java the test is skipped with the line to run; with CI=true it fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.families.batch.java import INSTALL, java_fault
from once import once

SERVER = Path(__file__).parent / "servers" / "spark_connect.py"


def need_java() -> None:
    """Skip, or fail with CI=true, where Spark can't run."""
    fault = java_fault()
    if fault:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{fault}. {INSTALL}")


def _start(folder: Path) -> None:
    """The server lives as long as the process that leads the test run."""
    leader = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(
            [sys.executable, SERVER, folder / "address", str(leader)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert server.stdout is not None
    with server.stdout:
        server.stdout.read()  # until it is ready, or gone
    assert (folder / "address").exists(), (folder / "log").read_text()
    server.returncode = 0  # nobody waits for it: it ends after this process


@pytest.fixture(scope="session")
def spark_address(_one_test_run: None) -> str:
    need_java()
    return (once("spark", _start) / "address").read_text()
