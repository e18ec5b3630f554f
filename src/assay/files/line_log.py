"""An append-only file with one checked JSON object per line: a job that was killed continues from
what it had finished.

Each entry is appended with one write, so that a kill loses at most the line being written; a torn
line at the end is cut off when the file is opened again. Each line has a checksum: a changed line
is refused. The file is locked, so only one job writes to it at a time.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from assay.errors import InputError, UsageError
from assay.files.atomic import refuse_links_out

Take = Callable[[dict[str, Any], "LogPlace", int], None]

SYNC_BYTES = 1024 * 1024
"""How much may be unsynced: a killed process loses none of it, a power cut may."""
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder().decode


class LogPlace(NamedTuple):
    """Where an entry is in the file."""

    offset: int
    length: int


class LogErrors(NamedTuple):
    """The code and the fixes of a log's errors."""

    code: str
    regular: str = "Name a regular file."
    busy: str = "Wait for the other job, or give this one its own file."
    damaged: str = "Restore the file, or remove it and begin again."
    full: str = "Everything before is kept: make room and run again."


class LineLog:
    """An append-only file of entries. `open` passes on the entries in it; `append` adds one."""

    def __init__(self, path: str, errors: LogErrors) -> None:
        self.path = path
        self.errors = errors
        self.cut = 0
        """Bytes of a torn line that were cut off on opening."""
        self.empty = True
        """Whether nothing was in it on opening."""
        self._handle = -1
        self._end = 0
        self._unsynced = 0

    def open(self, take: Take) -> None:
        """Open and lock the file, and give each entry to `take` with its place and its line's
        number.
        """
        refuse_links_out(self.path, follow=True)
        try:
            os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
            # what judges and workflows answer is private
            self._handle = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise UsageError(
                self.errors.code, f"cannot be opened: {error.strerror}.", where=self.path
            ) from None
        try:
            # reading a device may never end, and it keeps nothing
            if not stat.S_ISREG(os.fstat(self._handle).st_mode):
                raise UsageError(
                    self.errors.code,
                    "is not a regular file.",
                    where=self.path,
                    fix=self.errors.regular,
                )
            self._lock()
            self._load(take)
        except BaseException:
            os.close(self._handle)
            self._handle = -1
            raise

    def append(self, tree: object) -> LogPlace:
        """Add an entry. When this returns, a killed process has not lost it."""
        line = line_of(tree)
        done = 0
        try:
            while done < len(line):
                done += os.write(self._handle, line[done:])
            self._unsynced += done
            if self._unsynced >= SYNC_BYTES:
                os.fsync(self._handle)
                self._unsynced = 0
        except OSError as error:
            with suppress(OSError):  # otherwise opening the file again cuts off the torn line
                os.ftruncate(self._handle, self._end)
            raise self._unwritable(error) from None
        self._end += len(line)
        return LogPlace(self._end - len(line), len(line))

    def read(self, place: LogPlace) -> dict[str, Any]:
        """The entry at a place."""
        tree = checked(os.pread(self._handle, place.length, place.offset))
        if tree is None:
            raise self._changed(place)
        return tree

    def raw(self, place: LogPlace) -> bytes:
        """The entry at a place as the bytes that were written, every number unchanged."""
        line = os.pread(self._handle, place.length, place.offset)
        if line[:_HEAD] != _head(line[_HEAD:-2]):
            raise self._changed(place)
        return line[_HEAD:-2]

    def close(self, *, failing: bool = False) -> None:
        """Sync the file to disk and unlock it. With `failing`, another error is being raised, which
        must not be hidden.
        """
        if self._handle < 0:
            return
        try:
            os.fsync(self._handle)
        except OSError as failure:
            if not failing:
                raise self._unwritable(failure) from None
        finally:
            os.close(self._handle)
            self._handle = -1

    def _changed(self, place: LogPlace) -> InputError:
        return InputError(
            self.errors.code,
            f"the entry at byte {place.offset} changed while the job ran.",
            where=self.path,
        )

    def _unwritable(self, error: OSError) -> UsageError:
        return UsageError(
            self.errors.code,
            f"cannot be written: {error.strerror}.",
            where=self.path,
            fix=self.errors.full,
        )

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                self.errors.code,
                "another job is writing to this journal.",
                where=self.path,
                fix=self.errors.busy,
            ) from None
        except OSError as error:
            raise UsageError(
                self.errors.code,
                f"cannot be locked: {error.strerror}.",
                where=self.path,
                fix="Put it on a local disk.",
            ) from None

    def _load(self, take: Take) -> None:
        size = os.fstat(self._handle).st_size
        offset = good = number = 0
        with os.fdopen(os.dup(self._handle), "rb") as stream:
            for line in stream:
                number += 1
                tree = checked(line)
                last = offset + len(line) == size
                offset += len(line)
                if tree is None:
                    if last and not line.endswith(b"\n") and (number > 1 or _is_start(line)):
                        break  # torn by a kill
                    raise InputError(
                        self.errors.code,
                        f"line {number} is damaged or was changed.",
                        where=self.path,
                        fix=self.errors.damaged,
                    )
                take(tree, LogPlace(offset - len(line), len(line)), number)
                good = offset
        if good < size:
            self.cut = size - good
            os.ftruncate(self._handle, good)
        self._end = good
        self.empty = good == 0


def line_of(tree: object) -> bytes:
    """The line of an entry, with its checksum."""
    body = _encode(tree)
    return b"%b%b}\n" % (_head(body), body)


def _head(body: bytes) -> bytes:
    return b'{"crc":"%08x","entry":' % crc32(body)


_HEAD = len(b'{"crc":"00000000","entry":')


def checked(line: bytes) -> dict[str, Any] | None:
    """The entry of a line, or None if the line is damaged."""
    body = line[_HEAD:-2]
    if not line.endswith(b"}\n") or line[:_HEAD] != _head(body):
        return None
    try:
        tree = _decode(body)
    except msgspec.DecodeError:
        return None
    return tree if isinstance(tree, dict) else None


def _is_start(line: bytes) -> bool:
    """Whether a torn first line may be the beginning of a journal, not some other
    file.
    """
    head = b'{"crc":"'
    return line.startswith(head) or head.startswith(line)
