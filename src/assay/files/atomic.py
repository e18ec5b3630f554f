"""Writing: a new file takes its name only when it is complete, and no link leads it elsewhere.

Whatever Assay writes goes through `atomic_write`, `atomic_create` or `make_folder`, or is checked
by `refuse_links_out` first: a folder that somebody else made may have links to the user's files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import IO

from assay.errors import UsageError


@contextmanager
def atomic_write(path: str, *, mode: int = 0o666, root: str | None = None) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name only when the block ends without an error: a reader
    sees the old file or the whole new one. `root` is a folder that it must be in.
    """
    refuse_links_out(path, root=root)
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
    refuse_links_out(path)
    with _part(path) as (stream, temporary):
        yield stream
        _keep(stream)
        os.link(temporary, path)
        sync_folder_of(path)


def make_folder(path: str) -> None:
    """Make a folder, and those above it, unless it is there."""
    refuse_links_out(path, follow=True)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise UsageError(
            "FIL-008", f"the folder cannot be made: {error.strerror}.", where=path
        ) from None


def refuse_links_out(path: str, *, root: str | None = None, follow: bool = False) -> None:
    """Refuse to write where a link leads out of a folder: out of `root`, or else, for a relative
    path, out of the folder that it starts from. An absolute path says itself where it goes.
    `follow` is for what is opened at its place: its own name may be a link, too.
    """
    if root is None:
        if os.path.isabs(path):
            return
        parts = os.path.normpath(path).split(os.sep)
        root = os.path.join(os.curdir, *takewhile(os.pardir.__eq__, parts))
    home = os.path.realpath(root)
    real = os.path.realpath(path if follow else os.path.dirname(path) or os.curdir)
    if real != home and not real.startswith(os.path.join(home, "")):
        raise UsageError(
            "FIL-008",
            f"cannot be written: a link leads to {real}, outside {home}.",
            where=path,
            fix="Remove the link, or name the place itself.",
        )


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


def write_file(path: str, data: bytes, *, mode: int = 0o666, root: str | None = None) -> None:
    """Write a file completely or not at all."""
    with atomic_write(path, mode=mode, root=root) as stream:
        stream.write(data)
