"""Opening the files that a command is given, and naming why one cannot be read."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from typing import Any, cast

from assay.errors import InputError
from assay.registry import nearest


class StoredInput(str):
    """Runs from a ledger by a name, or from another tool's file. The string itself is that name,
    which messages show; the runs are read from `file`. `digest` is that of the record or the file
    behind the name.
    """

    file: str
    digest: str
    evaluation: Any = None
    """The stored evaluation; None if the name is that of a run."""
    grades: str | None = None
    """A file with the stored grades of the runs, in order, where a command asked for them."""
    asked: str = ""
    """The name of the evaluation as it was given, such as `latest`."""
    graded: Any = None
    """The first stored grade of the evaluation, which names what it was graded by."""

    def __new__(cls, name: str, file: str, digest: str) -> StoredInput:
        """The runs of a name."""
        made = super().__new__(cls, name)
        made.file, made.digest = file, digest
        return made


@contextmanager
def open_input(path: str) -> Iterator[BufferedReader[Any]]:
    """A file opened for reading, or standard input for `-`."""
    if path == "-":
        yield cast("BufferedReader", sys.stdin.buffer)
        return
    try:
        stream = BufferedReader(_InputFile(path), 1024 * 1024)
    except FileNotFoundError:
        raise no_such_file(path) from None
    except IsADirectoryError:
        raise InputError(
            "FIL-001",
            "is a directory.",
            where=path,
            fix="Name the files in it, for example with a wildcard.",
        ) from None
    except (OSError, ValueError) as error:
        raise _cannot_be_read(path, error) from None
    with stream:
        mode = os.fstat(stream.fileno()).st_mode
        if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not stream.isatty()):
            raise InputError("FIL-001", "is a device, not a file.", where=path)
        yield stream


def no_such_file(path: str) -> InputError:
    """The error for a file that doesn't exist."""
    return InputError("FIL-001", f"there is no such file.{_near(path)}", where=path)


def _cannot_be_read(path: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or error
    return InputError("FIL-001", f"cannot be read: {reason}.", where=path)


class _InputFile(FileIO):
    """A file whose read errors, as of a failing disk, are errors of the input."""

    def __init__(self, path: str) -> None:
        super().__init__(path.file if isinstance(path, StoredInput) else path)
        self._path = path

    def readinto(self, buffer: Any) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise _cannot_be_read(self._path, error) from None

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            raise _cannot_be_read(self._path, error) from None


def file_digest(path: str) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with open_input(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _near(path: str) -> str:
    """A question with the file whose name is closest. Its extension doesn't make it close."""
    folder, base = os.path.split(path)
    stem, extension = os.path.splitext(base)
    try:
        others = sorted(os.listdir(folder or "."), key=lambda name: name.endswith(extension))
    except OSError:
        return ""
    stems = {os.path.splitext(name)[0]: name for name in others}
    near = nearest(stem, stems, cutoff=0.7)
    return f" Did you mean '{os.path.join(folder, stems[near])}'?" if near is not None else ""
