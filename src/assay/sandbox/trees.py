"""Reading a folder for a run, without following anything that leads out of it.

A run never works on the caller's folder: it gets a copy, in memory, that is gone afterwards.
Symbolic links are copied as links: inside, what they point to outside is not there.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from assay.errors import Fault, InputError
from assay.sandbox.box import Entry
from assay.sandbox.limits import MAX_TREE_FILES, MAX_TREE_MB

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

_SHOWN = 20


def read_tree(folder: str, *, leave_out: Container[str] = ()) -> list[Entry]:
    """Every file, link and folder below a folder, but those named `leave_out` directly below it.

    Raises InputError SBX-003 for a folder that is too large or holds a device, socket or pipe.
    """
    if not os.path.isdir(folder):
        raise InputError(
            "SBX-003", "is no folder.", where=folder, fix="A working tree is a folder."
        )
    found: list[Entry] = []
    size = 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(os.path.join(folder, below)) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if not below and entry.name in leave_out:
                    continue
                path = f"{below}/{entry.name}" if below else entry.name
                info = entry.stat(follow_symlinks=False)
                if entry.is_symlink():
                    found.append(Entry(path, 0o777, os.readlink(entry.path)))
                elif entry.is_dir(follow_symlinks=False):
                    found.append(Entry(path, 0o755, None))
                    waiting.append(path)
                elif stat.S_ISREG(info.st_mode):
                    size += info.st_size
                    _check_size(folder, size, len(found))
                    found.append(
                        Entry(path, 0o755 if info.st_mode & 0o111 else 0o644, _read(entry.path))
                    )
                else:
                    raise InputError(
                        "SBX-003",
                        f"{path} is a device, a socket or a pipe.",
                        where=folder,
                        fix="A working tree holds files, folders and links.",
                    )
    _check_size(folder, size, len(found))
    return found


def make_entries(files: Mapping[str, bytes]) -> list[Entry]:
    """The files a caller hands over. Raises InputError SBX-003 with every name that is not a
    relative path below the working folder.
    """
    check_paths(files)
    _check_size("", sum(len(data) for data in files.values()), len(files))
    return [Entry(path, 0o644, bytes(data)) for path, data in files.items()]


def check_paths(paths: Iterable[str]) -> None:
    """Raise InputError SBX-003 for paths that lead out of a folder, or are none."""
    faults = []
    for path in paths:
        parts = path.split("/")
        if (
            not path
            or "\0" in path
            or any(part in ("", ".", "..") for part in parts)
            or any(len(os.fsencode(part)) > 255 for part in parts)
        ):
            faults.append(
                Fault(
                    f"{path[:200]!r} is no relative path inside the working folder.",
                    code="SBX-003",
                    fix="Write it like 'tests/test_a.py'.",
                )
            )
    if faults:
        error = InputError(
            "SBX-003", "paths lead out of the working folder, or are none.", faults=faults[:_SHOWN]
        )
        error.fault_count = len(faults)
        raise error


def _read(path: str) -> bytes:
    # Not followed even if the file was swapped for a link since it was listed.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise InputError("SBX-003", f"cannot be read: {error.strerror}.", where=path) from None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_TREE_MB * 2**20 + 1)


def _check_size(where: str, size: int, count: int) -> None:
    if size > MAX_TREE_MB * 2**20:
        raise InputError(
            "SBX-003",
            f"holds more than {MAX_TREE_MB} MB.",
            where=where,
            fix="It is copied into memory: leave out what the command does not need.",
        )
    if count > MAX_TREE_FILES:
        raise InputError(
            "SBX-003",
            f"holds more than {MAX_TREE_FILES:,} files and folders.",
            where=where,
            fix="Leave out what the command does not need.",
        )
