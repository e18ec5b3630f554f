"""Reads a folder for a run, without following links out of it.

A run never works on the caller's folder: it gets a copy in memory, which is discarded afterwards.
Symbolic links are copied as links; a target outside the folder doesn't exist in the sandbox.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable

from assay.errors import Fault, InputError
from assay.sandbox.box_setup import TreeEntry
from assay.sandbox.limits import MAX_TREE_FILES, MAX_TREE_MB

_SHOWN = 20


def read_tree(folder: str, *, leave_out: Container[str] = ()) -> list[TreeEntry]:
    """Every file, link and folder in a folder, without the entries of `leave_out` at its top level.

    Raises InputError SBX-003 for a folder that is too large, can't be read, or contains a device,
    socket or pipe.
    """
    if not os.path.isdir(folder):
        raise InputError(
            "SBX-003", "is not a folder.", where=folder, fix="A working tree is a folder."
        )
    try:
        return _tree_entries(folder, leave_out)
    except OSError as error:
        where = str(error.filename or folder)
        raise InputError("SBX-003", f"cannot be read: {error.strerror}.", where=where) from None


def _tree_entries(folder: str, leave_out: Container[str]) -> list[TreeEntry]:
    listed: list[TreeEntry] = []
    size = 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(os.path.join(folder, below)) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if not below and entry.name in leave_out:
                    continue
                path = f"{below}/{entry.name}" if below else entry.name
                info = entry.stat(follow_symlinks=False)
                mode = 0o755 if info.st_mode & 0o111 else 0o644
                data: bytes | str | None = None
                if entry.is_symlink():
                    mode, data = 0o777, os.readlink(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    mode = 0o755
                    waiting.append(path)
                elif stat.S_ISREG(info.st_mode):
                    size += info.st_size
                    _check_size(folder, size, len(listed))
                    data = _read(entry.path)
                else:
                    raise InputError(
                        "SBX-003",
                        f"{path} is a device, a socket or a pipe.",
                        where=folder,
                        fix="A working tree may contain only files, folders and links.",
                    )
                listed.append(TreeEntry(path, mode, data))
    _check_size(folder, size, len(listed))
    return listed


def check_paths(paths: Iterable[str]) -> None:
    """Raise InputError SBX-003 for invalid paths and paths out of a folder."""
    faults = [
        Fault(
            f"{path[:200]!r} is not a relative path inside the working folder.",
            code="SBX-003",
            fix="Write it like 'tests/test_a.py'.",
        )
        for path in paths
        if not _is_inside(path)
    ]
    if faults:
        error = InputError(
            "SBX-003",
            "some paths are invalid or lead out of the working folder.",
            faults=faults[:_SHOWN],
        )
        error.fault_count = len(faults)
        raise error


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and all(
        part not in ("", ".", "..") and len(os.fsencode(part)) <= 255 for part in parts
    )


def _read(path: str) -> bytes:
    # No link is followed, even if the file was replaced by one after it was listed.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_TREE_MB * 2**20 + 1)


def _check_size(where: str, size: int, count: int) -> None:
    for much, what in (
        (size > MAX_TREE_MB * 2**20, f"{MAX_TREE_MB} MB"),
        (count > MAX_TREE_FILES, f"{MAX_TREE_FILES:,} files and folders"),
    ):
        if much:
            raise InputError(
                "SBX-003",
                f"has more than {what}.",
                where=where,
                fix="It is copied into memory: leave out what the command does not need.",
            )
