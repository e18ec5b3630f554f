"""The input of a supervised run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from assay.sandbox.limits import SandboxLimits
from assay.sandbox.outcome import Isolation


class TreeEntry(NamedTuple):
    """A file (bytes), a symbolic link (text) or a folder (None) of the working folder."""

    path: str
    mode: int
    data: bytes | str | None


class BoxSetup(NamedTuple):
    """The input of a run."""

    kind: str
    """The kind of run: see `bootstrap`."""
    limits: SandboxLimits
    isolation: Isolation
    python: str
    job: Mapping[str, Any]
    entries: Sequence[TreeEntry] = ()
    readable: Sequence[str] = ()
    stdin: bytes = b""
    channel: tuple[int, ...] = ()
    """Two open descriptors (read, write) to another box."""
    answers: bool = False
    """Whether the code that runs is trusted to give an answer through its own pipe."""
