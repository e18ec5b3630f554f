"""What is made once for all processes of a test run."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

_shared: list[Path] = []


def share(folder: Path) -> None:
    """Make the things of this test run in this folder."""
    folder.mkdir(exist_ok=True)
    _shared[:] = [folder]


def once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder that the first process of this test run to ask for it fills, for all of them."""
    folder = _shared[0] / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = folder.with_suffix(".part")
            part.mkdir()
            make(part)
            part.rename(folder)
    return folder
