"""Trust in a file that somebody else may have written: what stays in its folder, and which files
this user trusts, remembered by folder and content in the user's own settings.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from assay.canon import encode
from assay.errors import AssayError, UsageError
from assay.files.atomic import write_file
from assay.files.json_files import parse_json

_MAX = 1 << 20


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is in a folder once every link is followed."""
    home, real = os.path.realpath(folder or os.curdir), os.path.realpath(path)
    return real == home or real.startswith(os.path.join(home, ""))


def settings_file() -> str:
    """Where trust is remembered: in $XDG_CONFIG_HOME, else in ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # as the XDG specification says
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "assay", "trust.json")


def is_remembered(path: str, content: str) -> bool:
    """Whether the user trusts the file at this path with content of this digest."""
    return _read().get(_place(path)) == content


def remember(path: str, content: str | None) -> str:
    """Trust this content of a file, and no other; None forgets the file. Gives the settings
    file.
    """
    known = {name: digest for name, digest in _read().items() if name != _place(path)}
    if content is not None:
        known[_place(path)] = content
    settings = settings_file()
    with suppress(OSError):  # `write_file` reports it
        os.makedirs(os.path.dirname(settings), mode=0o700, exist_ok=True)
    write_file(settings, encode({"schema": "assay.trust/1", "files": known}) + b"\n", mode=0o600)
    return settings


def _place(path: str) -> str:
    """A file by its folder's real path: a copy elsewhere is another file."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder or os.curdir), name)


def _read() -> Mapping[str, Any]:
    """The trusted files, from settings that nobody else can have written."""
    path = settings_file()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return {}
    except OSError:
        raise _unsafe(path, "is a link, or can't be read") from None
    with os.fdopen(handle, "rb") as stream:
        for status, what in (
            (os.fstat(handle), "is"),
            (os.stat(os.path.dirname(path)), "is in a folder that is"),
        ):
            if hasattr(os, "getuid") and status.st_uid not in (os.getuid(), 0):
                raise _unsafe(path, f"{what} another user's")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise _unsafe(path, f"{what} writable by others")
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _unsafe(path, "is not a file")
        data = stream.read(_MAX)
    try:
        tree = parse_json(data)
        files = tree["files"]
    except (AssayError, ValueError, TypeError, KeyError):
        raise _unsafe(path, "is not readable") from None
    if not isinstance(files, dict):
        raise _unsafe(path, "is not readable")
    return files


def _unsafe(path: str, what: str) -> UsageError:
    return UsageError(
        "CFG-004",
        f"{what}, so it can't say which files you trust.",
        where=path,
        fix="Remove it, look at the files again, and run `assay trust` for each.",
    )
