"""Atomic writes: a new file takes its name only when it is complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from assay.errors import UsageError


@contextmanager
def atomic_write(path: str, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name only when the block ends without an error: a reader
    sees the old file or the whole new one.
    """
    with _part(path, mode) as (stream, temporary):
        yield stream
        _keep(stream)
        os.replace(temporary, path)


@contextmanager
def atomic_create(path: str) -> Iterator[IO[bytes]]:
    """Like `atomic_write`, but never replaces a file: it raises FileExistsError, even if two
    processes write at once.

    For evidence that can't be made again: the name, too, is on disk before the block ends.
    """
    with _part(path) as (stream, temporary):
        yield stream
        _keep(stream)
        os.link(temporary, path)
        sync_folder_of(path)


def make_folder(path: str) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise UsageError(
            "FIL-008", f"the folder cannot be made: {error.strerror}.", where=path
        ) from None


@contextmanager
def _part(path: str, mode: int = 0o666) -> Iterator[tuple[IO[bytes], str]]:
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(8).hex()}.part")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=path) from None
    _unfinished.add(temporary)
    try:
        with os.fdopen(handle, "wb", buffering=1024 * 1024) as stream:
            yield stream, temporary
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in DISK:
            raise
        raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=path) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        _unfinished.discard(temporary)


_unfinished: set[str] = set()


def drop_unfinished() -> bool:
    """Delete unfinished files before the process ends without unwinding; returns whether there
    were any.
    """
    is_dropped = False
    for temporary in tuple(_unfinished):
        with suppress(OSError):
            os.unlink(temporary)
            is_dropped = True
    return is_dropped


DISK = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EROFS)
"""Errors of a full or failing disk."""


def _keep(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def sync_tree(folder: str) -> None:
    """Make a folder and everything in it survive a power cut."""
    for place, _, names in os.walk(folder):
        for name in names:
            _sync(os.path.join(place, name))
        _sync(place)


def sync_folder_of(path: str) -> None:
    """Make a new name survive a power cut."""
    _sync(os.path.dirname(os.path.abspath(path)))


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_file(path: str, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file completely or not at all."""
    with atomic_write(path, mode=mode) as stream:
        stream.write(data)
