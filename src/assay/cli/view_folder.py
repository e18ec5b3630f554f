"""The folder of `assay view FILE`, locked as long as the command runs.

It contains evidence, so a killed command must not leave it behind: the next `assay view`
deletes every such folder of this user that no process has locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

FOLDER = "assay-view-"
"""How the name of a folder begins."""


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A new folder that only this user can read."""
    with tempfile.TemporaryDirectory(prefix=FOLDER, ignore_cleanup_errors=True) as folder:
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)  # before anything is in it: see `sweep`
            yield folder
        finally:
            os.close(lock)


def sweep() -> None:
    """Delete what killed commands of this user left. An empty folder may be one that another
    command has just made and not locked yet, so it stays.
    """
    try:
        with os.scandir(tempfile.gettempdir()) as entries:
            found = [entry.path for entry in entries if entry.name.startswith(FOLDER)]
    except OSError:
        return
    for path in found:
        try:
            _delete(path)
        except OSError:  # another user's, locked, or gone already
            continue


def _delete(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(folder).st_uid != os.getuid():
            return
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.listdir(folder):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(folder)
