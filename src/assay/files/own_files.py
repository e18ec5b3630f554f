"""Whether a file is one of Assay's own, by its beginning: quick, because every command asks."""

from __future__ import annotations

import os
import re

HEAD = 256 * 1024
"""Bytes of a file that are looked at to tell what it is."""
_OWN = re.compile(rb'"schema"\s*:\s*"assay\.')


def looks_own(path: str) -> bool:
    """Whether a file says of itself that Assay wrote it, or can't be read, which its reader
    reports. A pipe can be read once only, so it is left to its reader too.
    """
    if not os.path.isfile(path):
        return True
    try:
        with open(path, "rb") as stream:
            return _OWN.search(stream.read(HEAD)) is not None
    except (OSError, ValueError):
        return True
