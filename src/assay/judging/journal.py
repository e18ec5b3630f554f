"""The journal of judge work: every request that was paid for and the reply to it, under the digest of what was asked.

One JSON object a line, appended with one write, so that a killed job loses at most the line it was writing; what is torn at the end is cut off when the
journal is opened again. Each line carries a check sum: a line that was changed is refused, not used. One job at a time: the file is locked. No key is
ever written; the headers of a request are not part of it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec

from assay.errors import InputError, UsageError
from assay.judging.fence import SALT_BYTES, Salt

if TYPE_CHECKING:
    from types import TracebackType

FORMAT = "assay.judge-journal/1"
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode = msgspec.json.Decoder().decode
SYNC_BYTES = 1024 * 1024
"""How much may wait for the disk itself; a killed process loses none of it, a power cut may."""


class Entry(NamedTuple):
    """One stored exchange."""

    key: str
    request: dict[str, Any]
    reply: dict[str, Any]


class Journal:
    """Stored exchanges by key. Use it as a context; without a path it keeps nothing on disk."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path
        self.salt = Salt.fresh()
        self.cut = 0
        """Bytes of a torn line that were cut off on opening."""
        self._places: dict[str, tuple[int, int]] = {}
        self._kept: dict[str, Entry] = {}
        self._handle = -1
        self._end = 0
        self._unsynced = 0

    def __enter__(self) -> Journal:
        if self.path is not None:
            self._open(self.path)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._handle >= 0:
            try:
                os.fsync(self._handle)
            except OSError as failure:
                if error is None:
                    raise self._unwritable(failure) from None
            finally:
                os.close(self._handle)
                self._handle = -1

    def __len__(self) -> int:
        return len(self._places) + len(self._kept)

    def get(self, key: str) -> Entry | None:
        """What was stored under a key."""
        if key in self._kept:
            return self._kept[key]
        place = self._places.get(key)
        if place is None:
            return None
        tree = _checked(os.pread(self._handle, place[1], place[0]))
        if tree is None:
            raise InputError("JDG-004", f"the entry at byte {place[0]} changed while the job ran.", where=self.path or "")
        return Entry(key, tree["request"], tree["reply"])

    def put(self, entry: Entry) -> None:
        """Store an exchange. When this returns, a killed process has not lost it."""
        if self._handle < 0:
            self._kept[entry.key] = entry
            return
        line = _line({"key": entry.key, "request": entry.request, "reply": entry.reply})
        self._write(line)
        self._places[entry.key] = (self._end - len(line), len(line))

    def _write(self, line: bytes) -> None:
        done = 0
        try:
            while done < len(line):
                done += os.write(self._handle, line[done:])
            self._unsynced += done
            if self._unsynced >= SYNC_BYTES:
                os.fsync(self._handle)
                self._unsynced = 0
        except OSError as error:
            with suppress(OSError):  # a torn line is cut off on the next opening, too
                os.ftruncate(self._handle, self._end)  # half a line helps nobody; cutting needs no room
            raise self._unwritable(error) from None
        self._end += len(line)

    def _unwritable(self, error: OSError) -> UsageError:
        fix = "Every reply before this one is kept: make room and run again."
        return UsageError("JDG-004", f"cannot be written: {error.strerror}.", where=self.path or "", fix=fix)

    def _open(self, path: str) -> None:
        try:
            folder = os.path.dirname(os.path.abspath(path))
            os.makedirs(folder, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)  # prompts and replies are the team's own
        except OSError as error:
            raise UsageError("JDG-004", f"cannot be opened: {error.strerror}.", where=path) from None
        try:
            if not stat.S_ISREG(os.fstat(self._handle).st_mode):  # a device may be read for ever, and keeps nothing
                raise UsageError("JDG-004", "is no regular file.", where=path, fix="Name a file, or say --no-journal to keep nothing.")
            self._lock(path)
            self._load(path)
        except BaseException:
            os.close(self._handle)
            self._handle = -1
            raise

    def _lock(self, path: str) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "JDG-004", "another job is writing to this journal.", where=path, fix="Wait for it, or give this job a journal of its own with --journal."
            ) from None
        except OSError as error:
            raise UsageError("JDG-004", f"cannot be locked: {error.strerror}.", where=path, fix="Put the journal on a local disk.") from None

    def _load(self, path: str) -> None:
        size = os.fstat(self._handle).st_size
        offset = good = 0
        number = 0
        with os.fdopen(os.dup(self._handle), "rb") as stream:
            for line in stream:
                number += 1
                tree = _checked(line)
                last = offset + len(line) == size
                offset += len(line)
                if tree is None:
                    if last and number > 1 and not line.endswith(b"\n"):
                        break  # torn by a kill
                    if number == 1 and last and not line.endswith(b"\n") and _is_start(line):
                        break
                    raise InputError(
                        "JDG-004", f"line {number} is damaged or was changed.", where=path, fix="Restore the file, or remove it and pay for its answers again."
                    )
                if number == 1:
                    if tree.get("journal") != FORMAT:
                        raise InputError("JDG-004", f"is no journal of judge work: its first line does not say {FORMAT}.", where=path)
                    self.salt = _salt(tree.get("salt"), path)
                elif isinstance(tree.get("key"), str) and isinstance(tree.get("reply"), dict) and isinstance(tree.get("request"), dict):
                    self._places[tree["key"]] = (offset - len(line), len(line))
                else:
                    raise InputError("JDG-004", f"line {number} holds no exchange.", where=path)
                good = offset
        if good < size:
            self.cut = size - good
            os.ftruncate(self._handle, good)
        self._end = good
        if good == 0:
            self._write(_line({"journal": FORMAT, "salt": self.salt.value.hex()}))


def _line(tree: dict[str, Any]) -> bytes:
    body = _encode(tree)
    return b'{"crc":"%08x","entry":%b}\n' % (crc32(body), body)


_HEAD = len(b'{"crc":"00000000","entry":')


def _checked(line: bytes) -> dict[str, Any] | None:
    """The entry of a line, or None where it is not as it was written."""
    body = line[_HEAD:-2]
    if not line.endswith(b"}\n") or line[:_HEAD] != b'{"crc":"%08x","entry":' % crc32(body):
        return None
    try:
        tree = _decode(body)
    except msgspec.DecodeError:
        return None
    return tree if isinstance(tree, dict) else None


def _salt(text: Any, path: str) -> Salt:
    try:
        value = bytes.fromhex(text)
    except (ValueError, TypeError):
        value = b""
    if len(value) != SALT_BYTES:
        raise InputError("JDG-004", "the first line holds no salt.", where=path)
    return Salt(value)


def _is_start(line: bytes) -> bool:
    """Whether a torn first line may be the beginning of a journal, and not a file of somebody else's."""
    head = b'{"crc":"'
    return line.startswith(head) or head.startswith(line)
