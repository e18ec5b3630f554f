"""Database errors: which of them are transient, and what the user reads."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from typing import Any, NamedTuple

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from assay.errors import AssayError, InputError, UsageError

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
