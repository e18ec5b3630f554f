"""What the tests share."""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from hypothesis.internal import charmap
from hypothesis.internal.conjecture import providers
from hypothesis.internal.intervalsets import IntervalSet
from sqlalchemy import Connection, Engine, event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from assay.batch.duckdb_engine import DuckDBEngine
from assay.store import databases, migrating
from assay.tools.reading import files, folders
from assay.tools.reading.engine import Engine as ModuleReader
from examples import CAMPAIGN
from forking import PYTHON, Commands, Result, once, program, run_anew, share_firsts

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
collect_ignore = ["servers"]  # programs that tests start, some of them broken on purpose

settings.register_profile("suite", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("campaign", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
if not CAMPAIGN:
    # Each process would read all our source for literals to draw, try a million characters to learn
    # which of them UTF-8 has, and draw other examples depending on what it has loaded.
    providers._get_local_constants = lambda: providers._local_constants
    utf_8 = IntervalSet([(0, 0xD7FF), (0xE000, sys.maxunicode)]), IntervalSet([])
    tried = charmap.intervals_from_codec
    charmap.intervals_from_codec = lambda codec: utf_8 if codec == "utf-8" else tried(codec)

# The modules and tests that are collected stay until the end: looking for garbage among them, again
# and again, would only cost time.
gc.disable()

# A shell lets what it starts in the background ignore interrupts, and so would every command that a
# test means to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """How many processes `-n auto` is: two more than there are cores, because many tests wait for a
    clock, a kill or a stream, and leave theirs to others. On two cores, a third process leaves a
    fifth of the time unused and a fourth nothing.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # pytest-xdist reads it
    return 2 + (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def pytest_collection(session: pytest.Session) -> None:
    """Where the processes of a test run all load the same test files, each begins at another one:
    what has not been compiled yet is compiled once, not once in each process.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker or len(session.config.args) != len(session.config.getini("testpaths")):
        return  # alone, or with files of its choice
    names = sorted(path.stem for path in Path(__file__).parent.glob("test_*.py"))
    first = len(names) * int(worker[2:]) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for name in names[first:] + names[:first]:
        with suppress(Exception, pytest.skip.Exception):  # the collection says what is wrong
            import_module(name)


class Examples:
    """Reads for doctests only the files that have one."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Any:
        collectors = yield
        others = [made for made in collectors if not isinstance(made, DoctestModule)]
        has_none = len(others) < len(collectors) and b">>>" not in file_path.read_bytes()
        return others if has_none else collectors


_end = os._exit  # `assay run` in a test replaces the one in `os`


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Examples())
    if is_worker(config):
        atexit.register(end_at_once, os.getpid())


def is_worker(config: pytest.Config) -> bool:
    """Whether this process runs tests for another one, which ignores its exit code."""
    return hasattr(config, "workerinput")


def end_at_once(pid: int) -> None:
    """Leave out the last step of an exit, after every other function that was registered for it:
    taking apart all that a worker has loaded takes seconds.
    """
    if os.getpid() == pid:  # and not a fork, whose exit code a test may read
        _end(0)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)  # what tests load later stays as well
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not is_worker(config):
        gc.unfreeze()  # a module that counts what it made complains at the end about what is left


@pytest.fixture
def shared() -> Path:
    """The folder with vectors and data beside the checkout; absent for a newcomer."""
    if not SHARED.is_dir():
        pytest.skip(
            "../shared is not beside this checkout: the conformance vectors and reference data are"
            " read in place"
        )
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def _one_test_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What its processes need to know of each other."""
    folder = tmp_path_factory.getbasetemp()
    share_firsts((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "firsts")


@pytest.fixture(scope="session", autouse=True)
def _nobody_waits_for_the_disk() -> Iterator[None]:
    """What tests write need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        assert databases._PRAGMAS[0] == "synchronous = FULL"
        patch.setattr(databases, "_PRAGMAS", ("synchronous = OFF", *databases._PRAGMAS[1:]))
        yield


@pytest.fixture(scope="session", autouse=True)
def _tables_are_made_as_the_first_were() -> Iterator[None]:
    """Alembic makes the tables of the first ledger of each kind. Those of the ledgers that come
    after it are made by the statements that it gave, which takes a tenth of the time.
    """
    made: dict[str, list[tuple[str, Any]]] = {}
    by_alembic = migrating.run_alembic

    def run(connection: Connection) -> None:
        name = connection.dialect.name
        if migrating.current(connection) is None:
            if name in made:
                for statement, parameters in made[name]:
                    connection.exec_driver_sql(statement, parameters)
                return
            given: list[tuple[str, Any]] = []

            def keep(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
                if not statement.startswith(("SELECT", "PRAGMA")):
                    given.append((statement, parameters))

            event.listen(connection, "before_cursor_execute", keep)
            by_alembic(connection)
            event.remove(connection, "before_cursor_execute", keep)
            made[name] = given
        else:
            by_alembic(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrating, "run_alembic", run)
        yield


@pytest.fixture(scope="session", autouse=True)
def _statements_are_compiled_once() -> Iterator[None]:
    """The ledgers on SQLite of a test run share the statements that SQLAlchemy has compiled. A
    command has one ledger and compiles each once; a test run has thousands of ledgers.
    """
    kept: LRUCache[Any, Any] = LRUCache(500)
    create = databases.create_engine

    def create_sharing(*arguments: Any, **options: Any) -> Engine:
        engine = create(*arguments, **options)
        if isinstance(engine.dialect, SQLiteDialect_pysqlite):
            engine._compiled_cache = kept
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(databases, "create_engine", create_sharing)
        patch.setattr(SQLiteDialect_pysqlite, "__hash__", lambda self: hash(type(self)))
        patch.setattr(
            SQLiteDialect_pysqlite, "__eq__", lambda self, other: type(self) is type(other)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _batches_share_one_duckdb() -> Iterator[None]:
    """Opening DuckDB costs more than a query over a few rows. The first command of a process that
    grades a batch opens its own, and so does each with limits; the others connect to one that
    stays.
    """
    stays: list[DuckDBEngine] = []
    connected: list[DuckDBEngine] = []
    was_opened, was_closed = DuckDBEngine.__init__, DuckDBEngine.close

    def open_engine(engine: DuckDBEngine, connection: Any = None, **settings: Any) -> None:
        names = {name for name, value in settings.items() if value is not None}
        if connection is not None or names != {"scratch"} or not stays:  # a command has a scratch
            was_opened(engine, connection, **settings)
            if names == {"scratch"}:
                stays.append(DuckDBEngine())
                stays[0].connection.execute("SET enable_external_file_cache = false")
        else:
            was_opened(engine, stays[0].connection.cursor())
            engine._own = True
            connected.append(engine)

    def close_engine(engine: DuckDBEngine) -> None:
        if engine in connected:
            connected.remove(engine)
        was_closed(engine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DuckDBEngine, "__init__", open_engine)
        patch.setattr(DuckDBEngine, "close", close_engine)
        yield
    for engine in stays:
        engine.close()


@pytest.fixture(scope="session", autouse=True)
def _commands_share_one_reader_of_modules() -> Iterator[None]:
    """Starting the process that evaluates JavaScript costs more than the modules of a test. The
    first command of a process that reads one starts its own; the others share one that stays.
    """
    first, kept = [ModuleReader()], ModuleReader()
    with pytest.MonkeyPatch.context() as patch, kept:
        for module in (files, folders):
            patch.setattr(module, "Engine", lambda: first.pop() if first else nullcontext(kept))
        yield


@pytest.fixture(scope="session", autouse=True)
def _own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Settings of a user who trusts nothing yet, in place of those of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("settings")))
        yield


@pytest.fixture(scope="session")
def commands() -> Commands:
    return Commands()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an `assay` and a `python` that are forked, for servers and for what programs
    start.
    """
    folder = tmp_path_factory.mktemp("programs")
    with program(folder / "assay"), program(folder / "python", PYTHON):
        yield folder


def _running(run: Any, folder: Path) -> Any:
    def run_in_folder(
        *arguments: object,
        stdin: str | bytes | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin or b""
        found: Result = run(
            list(map(str, arguments)),
            stdin=data,
            cwd=folder,
            env={"NO_COLOR": "1", **(env or {})},
            timeout=timeout,
        )
        return found

    return run_in_folder


@pytest.fixture(scope="session")
def demo() -> tuple[Result, Path]:
    """What the demo says where there is no key and no setting, and the folder it wrote; made once,
    to be read.
    """

    def make(folder: Path) -> None:
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "NO_COLOR": "1"}
        command = [sys.executable, "-m", "assay", "demo", "--out", "out"]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=env, check=False
        )
        said = [done.returncode, done.stdout, done.stderr]
        (folder / "said.json").write_text(json.dumps(said), encoding="utf-8")

    folder = once("demo", make)
    code, out, err = json.loads((folder / "said.json").read_text(encoding="utf-8"))
    return Result(code, out.encode(), err.encode()), folder / "out"


@pytest.fixture
def assay(commands: Commands, tmp_path: Path) -> Any:
    """Run the real command in an empty folder: `assay("grade", "x.json", stdin="...")`. See
    forking.py.
    """
    return _running(commands.run, tmp_path)


@pytest.fixture
def assay_anew(tmp_path: Path) -> Any:
    """The same in a Python that is started for it."""
    return _running(run_anew, tmp_path)
