"""The files of a library as they were at one moment. A server and its workers grade by this copy,
whatever happens to the files meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from assay.errors import InputError


class HeldLibrary(NamedTuple):
    """Files as they were. It can be sent to another process."""

    roots: tuple[str, ...]
    files: dict[str, bytes | None]
    """Their bytes by path; None for one that could not be read: it stays listed, so that no older
    version is used in its place.
    """

    def names(self, folder: str) -> list[str]:
        """The files of a folder."""
        return sorted(
            os.path.basename(path) for path in self.files if os.path.dirname(path) == folder
        )

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        data = self.files.get(path)
        if data is None:
            raise InputError(
                "FIL-001",
                "could not be read when the server started.",
                where=path,
                fix="Fix the file and restart the server.",
            )
        return data


def read_now(roots: tuple[str, ...], paths: Iterable[str]) -> HeldLibrary:
    """These files as they are now. Nothing is parsed: a malformed file is an error only when it is
    used.
    """
    files: dict[str, bytes | None] = {}
    for path in paths:
        files[path] = None
        with suppress(OSError):
            if os.path.isfile(path):  # opening a pipe would wait for a writer
                with open(path, "rb") as stream:
                    files[path] = stream.read()
    return HeldLibrary(roots, files)
