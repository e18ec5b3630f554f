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
    """Files as they were. It can be handed to another process."""

    roots: tuple[str, ...]
    files: dict[str, bytes | None]
    """Their bytes by path; None for one that could not be read. It keeps its place, so that an
    older version is never taken for it.
    """

    def names(self, folder: str) -> list[str]:
        """The files of a folder."""
        return sorted(
            os.path.basename(path) for path in self.files if os.path.dirname(path) == folder
        )

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        found = self.files.get(path)
        if found is None:
            raise InputError(
                "FIL-001",
                "could not be read when the server started.",
                where=path,
                fix="Fix the file and restart the server.",
            )
        return found


def read_now(roots: tuple[str, ...], paths: Iterable[str]) -> HeldLibrary:
    """These files as they are now. Nothing is parsed: a malformed file is an error only when it is
    used.
    """
    found: dict[str, bytes | None] = {}
    for path in paths:
        found[path] = None
        with suppress(OSError):
            if os.path.isfile(path):  # a pipe of that name would be waited for
                with open(path, "rb") as stream:
                    found[path] = stream.read()
    return HeldLibrary(roots, found)
