"""Databases, SQLite and PostgreSQL: opens them with settings under which acknowledged data is safe,
turns their errors into ours, and has the statements that differ between the two.

SQLite: write-ahead log, every commit synced to disk, foreign keys on, and a writer takes the lock
when it begins. PostgreSQL: psycopg, with a lock timeout. Transient errors (a lock, a lost
connection) are retried for a limited time; a record is identified by its digest, so trying twice
can't store it twice.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, QueuePool, Table, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from assay.errors import AssayError, InputError, UsageError
from assay.files.atomic import refuse_links_out
from assay.installing import install_hint

R = TypeVar("R")

DEFAULT_URL = "sqlite:///.assay/ledger.db"
PATIENCE = 10.0
"""Seconds to wait for another writer."""
_WRITES = "assay_writes"
_LOOK_AGAIN_S = 0.001
"""How long a writer waits between two attempts to lock an SQLite file."""


class Database(NamedTuple):
    """An engine, and how to name it to a person without its password."""

    engine: Engine
    where: str
    path: str | None
    """The file, on SQLite."""
    patience: float

    def reading(self) -> Connection:
        """A connection whose transactions only read."""
        return self.engine.connect()

    def writing(self) -> Connection:
        """A connection whose transactions take the lock at once."""
        return self.engine.connect().execution_options(**{_WRITES: True})

    def snapshot(self) -> Connection:
        """A connection whose queries all see the same moment."""
        connection = self.engine.connect()
        return (
            connection
            if self.path is not None
            else connection.execution_options(isolation_level="REPEATABLE READ")
        )

    def read(self, work: Callable[[Connection], R]) -> R:
        """Run something that only reads, in one transaction."""

        def once() -> R:
            with self.reading() as connection, connection.begin():
                return work(connection)

        return self.patiently(once)

    def write(self, work: Callable[[Connection], R]) -> R:
        """Run something in one transaction, and retry after a transient error."""

        def once() -> R:
            with self.writing() as connection, connection.begin():
                return work(connection)

        return self.patiently(once)

    def patiently(self, work: Callable[[], R]) -> R:
        """Run a whole transaction, and retry after transient errors."""
        end = time.monotonic() + self.patience
        pause = 0.01
        while True:
            try:
                return work()
            except DBAPIError as error:
                if not may_pass(error) or time.monotonic() >= end:
                    raise self.worded(error) from error
            except (PoolTimeout, SQLAlchemyError) as error:
                raise self.worded(error) from error
            time.sleep(pause)
            pause = min(0.25, 2 * pause)

    def worded(self, error: Exception) -> AssayError:
        """What went wrong and what to do, for the user."""
        return worded(error, self.where, self.patience)


def open_database(url: str, *, patience: float = PATIENCE, read_only: bool = False) -> Database:
    """The database behind a URL, or behind the path of an SQLite file."""
    if "://" not in url:
        url = f"sqlite:///{url}"
    if url.startswith("sqlite:"):
        return _sqlite(url, patience, read_only)
    return _postgresql(url, patience, read_only)


# --- SQLite

# The write-ahead log may grow to 16 MiB before a checkpoint: every commit changes the same index
# pages, which are then written once instead of many times.
_PRAGMAS = (
    "synchronous = FULL",
    "foreign_keys = ON",
    "recursive_triggers = ON",
    "secure_delete = ON",
    "cache_size = -16384",
    "wal_autocheckpoint = 4000",
)


def _sqlite(url: str, patience: float, read_only: bool) -> Database:
    match = re.fullmatch(r"sqlite(?:\+pysqlite)?:///([^?]+)", url)
    if match is None or match[1] == ":memory:":
        raise UsageError(
            "STO-005",
            f"{url!r} names no file.",
            fix=f"Write it as {DEFAULT_URL}; a ledger in memory would keep nothing.",
        )
    path = match[1]
    if read_only and not os.path.exists(path):
        raise InputError(
            "STO-001",
            "there is no ledger.",
            where=path,
            fix="`assay run` and `assay import` make one. Name another with --db.",
        )
    if os.path.isdir(path):
        raise UsageError("STO-002", "is a directory.", where=path, fix="Name a file.")
    if not read_only:
        for end in ("", "-wal", "-shm", "-journal"):
            refuse_links_out(f"{path}{end}", follow=True)
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        except OSError as error:
            raise UsageError(
                "STO-002", f"cannot be written: {error.strerror}.", where=path
            ) from None
    is_frozen = _is_frozen(path)
    target = f"file:{quote(os.path.abspath(path))}?mode={'ro' if read_only or is_frozen else 'rwc'}"
    if is_frozen and not _has_pending(path):
        target += "&immutable=1"  # SQLite could not make the files next to it that readers share

    known: list[tuple[int, int] | None] = []
    """The file's identity when it was first opened."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            target,
            uri=True,
            timeout=min(1.0, patience),
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if not (read_only or is_frozen):
                connection.execute("PRAGMA journal_mode = WAL")
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        if not known:
            known.append(_identity(path))
        return connection

    engine = create_engine(
        URL.create("sqlite+pysqlite"),  # to parse a text, SQLAlchemy compiles a slow pattern
        creator=connect,
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=24,
    )

    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get(_WRITES):
            _check_place(path, known)
            _take_lock(connection, min(1.0, patience))
        else:
            connection.exec_driver_sql("BEGIN")

    event.listen(engine, "begin", begin)
    return Database(engine, path, path, patience)


def _is_frozen(path: str) -> bool:
    """Whether the file is on a file system that is mounted read-only."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:  # there is no file yet
        return False


def _has_pending(path: str) -> bool:
    """Whether commits are in the write-ahead log only."""
    try:
        return os.path.getsize(f"{path}-wal") > 0
    except OSError:
        return False


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _check_place(path: str, known: list[tuple[int, int] | None]) -> None:
    """Refuse to write if the file was replaced or removed: the connection would continue with a
    file that no longer has a name.
    """
    if known and _identity(path) != known[0]:
        raise UsageError(
            "STO-001",
            "the ledger's file was removed or replaced.",
            where=path,
            fix="Put it back and start again.",
        )


def _take_lock(connection: Connection, within_s: float) -> None:
    """Take the write lock. Other processes hold it often and briefly, and SQLite itself would retry
    only every tenth of a second.
    """
    end = time.monotonic() + within_s
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                return
            except DBAPIError as error:
                if not may_pass(error) or time.monotonic() >= end:
                    raise
            time.sleep(_LOOK_AGAIN_S)
    finally:
        driver.execute(f"PRAGMA busy_timeout = {int(1000 * within_s)}")


# --- PostgreSQL


def _postgresql(url: str, patience: float, read_only: bool) -> Database:
    head, _, rest = url.partition("://")
    if head not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise UsageError(
            "STO-005", f"a ledger is on sqlite:/// or postgresql://, not on {head}://."
        )
    try:
        parsed = make_url(f"postgresql+psycopg://{rest}")
        where = parsed.set(drivername="postgresql").render_as_string(hide_password=True)
        engine = create_engine(
            parsed,
            pool_pre_ping=True,
            pool_size=8,
            max_overflow=24,
            connect_args={"application_name": "assay", "connect_timeout": 10},
        )
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise UsageError(
            "STO-005",
            "the URL of the database cannot be read.",
            fix="Write it as postgresql://user@host:5432/name.",
        ) from None
    except ModuleNotFoundError:
        raise UsageError(
            "STO-001",
            "psycopg is not installed.",
            where=where,
            fix=f"Run: {install_hint('postgres')}",
        ) from None
    settings = [f"SET lock_timeout = {max(1, int(1000 * min(1.0, patience)))}"]
    if read_only:
        settings.append("SET default_transaction_read_only = on")

    def prepare(connection: Any, _record: Any) -> None:
        before, connection.autocommit = connection.autocommit, True
        with connection.cursor() as cursor:
            for setting in settings:
                cursor.execute(setting)
        connection.autocommit = before

    event.listen(engine, "connect", prepare)
    return Database(engine, where, None, patience)


# --- statements that differ


def _insert(dialect: str, table: Table) -> Any:
    return import_module(f"sqlalchemy.dialects.{dialect}").insert(table)


def insert_or_skip(connection: Connection, table: Table) -> Any:
    """An INSERT that leaves out rows whose key is taken."""
    return _insert(connection.dialect.name, table).on_conflict_do_nothing()


def insert_new(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Add a row; False if its key is taken."""
    key = next(iter(table.primary_key.columns))
    inserting = insert_or_skip(connection, table).values(row).returning(key)
    return connection.execute(inserting).first() is not None


@cache
def adding(dialect: str, table: Table, *sums: str, replacing: tuple[str, ...] = ()) -> Any:
    """An INSERT that updates a row with the same key: it adds to the columns `sums` and replaces
    the columns `replacing`.
    """
    inserting = _insert(dialect, table)
    changes = {
        **{name: table.c[name] + inserting.excluded[name] for name in sums},
        **{name: inserting.excluded[name] for name in replacing},
    }
    return inserting.on_conflict_do_update(
        index_elements=list(table.primary_key.columns), set_=changes
    )


# --- errors

_LOST = ("57P01", "57P02", "57P03")
_BUSY = ("55P03", "40001", "40P01")
_CROWDED = "53300"
_RAISED = "P0001"
"""The state of RAISE EXCEPTION."""
_FULL = (sqlite3.SQLITE_FULL, "53100")
_ROOM = 256 * 1024
"""A disk with fewer free bytes counts as full."""


class NoRoom(UsageError):
    """The disk of a ledger is full: retrying doesn't help until there is room again."""


def is_away(error: AssayError) -> bool:
    """Whether the database is at fault, not the request, so that the request may succeed later."""
    return error.code in ("STO-001", "STO-002")


def may_pass(error: DBAPIError) -> bool:
    """Whether a retry may succeed in a moment: a lock, a lost connection."""
    state = _state(error)
    if isinstance(error.orig, sqlite3.Error):
        return state in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return (
        error.connection_invalidated
        or state in (*_LOST, *_BUSY, _CROWDED)
        or str(state or "").startswith("08")
        or _cannot_connect(error)
    )


def _state(error: Exception) -> Any:
    if isinstance(orig := getattr(error, "orig", None), sqlite3.Error):
        return getattr(orig, "sqlite_errorcode", 0) & 0xFF  # without the extended part
    return getattr(orig, "sqlstate", None)


def _raised_by_trigger(error: Exception) -> bool:
    """Whether a trigger refused: those of a ledger only guard what is stored."""
    orig = getattr(error, "orig", None)
    if isinstance(orig, sqlite3.Error):
        return getattr(orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_CONSTRAINT_TRIGGER
    return getattr(orig, "sqlstate", None) == _RAISED


def _cannot_connect(error: Exception) -> bool:
    """Whether the server is absent or starting up; False if it answered and refused."""
    text = str(getattr(error, "orig", "")).lower()
    return (
        _state(error) is None
        and type(getattr(error, "orig", None)).__name__ == "OperationalError"
        and not re.search(r"fatal:(?!.*(starting up|shutting down))", text)
    )


def _is_full(path: str) -> bool:
    """Whether the disk of an SQLite file is full: SQLite does not always report that."""
    try:
        return shutil.disk_usage(os.path.dirname(os.path.abspath(path))).free < _ROOM
    except OSError:
        return False


class _Wording(NamedTuple):
    """What the user reads about errors with these states of SQLite or PostgreSQL."""

    states: tuple[int | str, ...]
    kind: type[AssayError]
    code: str
    message: str
    fix: str = ""


_BUSY_STATES = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, *_BUSY)
_WORDINGS = (
    _Wording(
        _BUSY_STATES,
        UsageError,
        "STO-002",
        "has been locked by another writer for more than {patience:g} seconds ({text}).",
        "Nothing was stored. Try again; the lock may belong to a job that hangs.",
    ),
    _Wording(
        (_CROWDED,),
        UsageError,
        "STO-001",
        "the database accepts no more connections: {text}.",
        "Try again; raise max_connections, or run fewer workers.",
    ),
    _Wording(
        (sqlite3.SQLITE_IOERR, *_FULL),
        UsageError,
        "STO-002",
        "cannot be written, the disk is full or fails: {text}.",
        "Everything that was acknowledged is kept; make room and run again.",
    ),
    _Wording(
        (sqlite3.SQLITE_READONLY, "25006", "42501"),
        UsageError,
        "STO-002",
        "may only be read: {text}.",
        "Name a writable ledger, or get write access to this one.",
    ),
    _Wording(
        (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT),
        InputError,
        "STO-003",
        "is not a ledger, or is damaged: {text}.",
        "Name another file, or restore this one from a copy.",
    ),
    _Wording((sqlite3.SQLITE_CANTOPEN,), InputError, "STO-001", "cannot be opened: {text}."),
)
_APPEND_ONLY = _Wording(
    (),
    UsageError,
    "STO-006",
    "a ledger is append-only: nothing in it is changed or deleted.",
    "Store a new record instead.",
)
_UNREACHABLE = _Wording(
    (),
    UsageError,
    "STO-001",
    "the database cannot be reached: {text}.",
    "Is it running, and are the name and the password right?",
)
_REFUSED = _Wording((), AssayError, "STO-015", "the database refused: {text}.")


def _wording(error: Exception) -> _Wording:
    state = _BUSY_STATES[0] if isinstance(error, PoolTimeout) else _state(error)
    if _raised_by_trigger(error):
        return _APPEND_ONLY
    for wording in _WORDINGS:
        if state in wording.states:
            return wording
    if (
        isinstance(error, DBAPIError)
        and not isinstance(error.orig, sqlite3.Error)
        and (may_pass(error) or state is None or str(state)[:2] in ("28", "3D"))
    ):
        return _UNREACHABLE
    return _REFUSED


def worded(error: Exception, where: str, patience: float) -> AssayError:
    """What went wrong and what to do, for the user."""
    text = str(getattr(error, "orig", None) or error).strip().splitlines()[0][:200].rstrip(".")
    wording, state = _wording(error), _state(error)
    disk_is_full = state in _FULL or (state == sqlite3.SQLITE_IOERR and _is_full(where))
    message = wording.message.format(text=text, patience=patience)
    return (NoRoom if disk_is_full else wording.kind)(
        wording.code, message, where=where, fix=wording.fix
    )
