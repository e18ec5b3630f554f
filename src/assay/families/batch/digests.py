"""The digests of the files that a batch reads and writes, and whether files changed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from assay.errors import InputError
from assay.files.inputs import file_digest

_THREADS = 4


class DigestedFile(NamedTuple):
    """A file as it was at one moment."""

    path: str
    size: int
    digest: str
    """`sha256:` and the SHA-256 of its bytes."""
    modified_ns: int


def digest_files(paths: Iterable[str]) -> list[DigestedFile]:
    """Each file with its digest, in the order given."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(_digested, paths))


def check_unchanged(files: Iterable[DigestedFile]) -> None:
    """Refuse files that changed while they were being read: the digests would not fit the rows."""
    for file in files:
        now = _stat(file.path)
        if (now.st_size, now.st_mtime_ns) != (file.size, file.modified_ns):
            raise InputError(
                "BAT-023",
                "changed while it was being read.",
                where=file.path,
                fix="Run the batch again when nothing writes to it.",
            )


def _digested(path: str) -> DigestedFile:
    before = _stat(path)
    return DigestedFile(path, before.st_size, f"sha256:{file_digest(path)}", before.st_mtime_ns)


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise InputError("FIL-001", f"can't be read: {error.strerror}.", where=path) from None
