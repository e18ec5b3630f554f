"""Whether a file is one of Assay's own, by its beginning: quick, because every command asks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

HEAD = 256 * 1024
"""Bytes of a file that are read to find out what it is."""
_BLANK = b"\xef\xbb\xbf \t\r\n"
_OWN = re.compile(rb'"schema"\s*:\s*"assay\.')


def looks_own(path: str) -> bool:
    """Whether a file states that Assay wrote it, or can't be read, which its reader reports. A pipe
    can be read only once, so it counts too; standard input counts unless its first character shows
    that it is not JSON.
    """
    if path == "-":
        return stdin_start()[:1] in (b"", b"{", b"[")
    if not os.path.isfile(path) or is_batch_output(path):
        return True
    try:
        with open(path, "rb") as stream:
            return _OWN.search(stream.read(HEAD)) is not None
    except (OSError, ValueError):
        return True


def is_batch_output(path: str) -> bool:
    """Whether a path is what `assay batch` writes: a folder or a Parquet file with its record. The
    name of an evaluation isn't one, even if there is a folder of that name.
    """
    if path.endswith(".parquet") and os.path.isfile(path):
        return os.path.isfile(path.removesuffix(".parquet") + ".batch.json")
    return os.path.isfile(os.path.join(path, "batch.json"))


def has_batch_output(paths: Iterable[str]) -> bool:
    """Whether any of the paths is what `assay batch` writes."""
    return any(map(is_batch_output, paths))


def stdin_start() -> bytes:
    """The beginning of standard input, which stays there to be read."""
    peek = getattr(sys.stdin.buffer, "peek", None)
    start: bytes = b"" if peek is None else peek(1)
    return start.lstrip(_BLANK)[:HEAD]
