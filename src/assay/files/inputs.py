"""Opening the files that a command is given, and naming why one cannot be read."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader, FileIO
from typing import Any, cast

from msgspec import Struct

from assay.errors import InputError
from assay.registry import nearest


class Source(Struct, frozen=True):
    """Where documents are read from: a file, or standard input. What is read from somewhere else is
    a kind of source: see `project.inputs`.
    """

    name: str
    """What messages call it."""
    path: str
    """The file that is read; `-` is standard input."""
    numbered: bool = True
    """Whether people know its lines: nobody knows those of a file that a command made for itself.
    """

    def __str__(self) -> str:
        return self.name

    @property
    def is_file(self) -> bool:
        """Whether it is a file that the user named."""
        return type(self) is Source and self.path != "-"


def source_of(given: str | Source) -> Source:
    """A source, of which a plain text is the path."""
    return Source(given, given) if isinstance(given, str) else given


def listed(sources: Iterable[Source]) -> str:
    """The names of sources, for a message."""
    return ", ".join(source.name for source in sources)


@contextmanager
def open_input(given: str | Source) -> Iterator[BufferedReader[Any]]:
    """A file opened for reading, or standard input for `-`."""
    source = source_of(given)
    if source.path == "-":
        yield cast("BufferedReader", sys.stdin.buffer)
        return
    path = source.name
    try:
        stream = BufferedReader(_InputFile(source), 1024 * 1024)
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

    def __init__(self, source: Source) -> None:
        super().__init__(source.path)
        self._path = source.name

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


def file_digest(given: str | Source) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    with open_input(given) as stream:
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
