"""Finding a file in a folder or one above it, as git finds `.git`: a project's configuration, its
ledger.

A file in a folder above counts only if the same user owns both: in a shared place such as /tmp
anybody could put one there.
"""

from __future__ import annotations

import os
import shlex

from assay.errors import UsageError

CONFIG_FILE = "assay.yaml"
_MISSPELT = ("assay.yml", "Assay.yaml", "Assay.yml", ".assay.yaml")
_CI_JOB = os.path.join(os.sep, ".github", "workflows", "assay.yml")
"""The end of the path of the job that `assay init` writes; it isn't a configuration."""


def find_config(start: str = "") -> str | None:
    """The configuration of a project: `assay.yaml` in the working folder or above it; None if there
    is none.
    """
    path = find_upwards(CONFIG_FILE, *_MISSPELT, start=start)
    if path is not None and os.path.abspath(path).endswith(_CI_JOB):
        return find_config(os.path.dirname(os.path.dirname(os.path.abspath(path))))
    if path is not None and (name := os.path.basename(path)) in _MISSPELT:
        # ignored, a misspelt name would drop the settings of a gate
        raise UsageError(
            "CFG-001",
            f"the configuration is named {CONFIG_FILE}, not {name}.",
            where=path,
            fix=f"{shlex.join(['mv', path, os.path.join(os.path.dirname(path), CONFIG_FILE)])};"
            " or ignore it with --no-config.",
        )
    if path is not None and not os.path.isfile(path):  # a pipe of that name would be waited for
        raise UsageError("FIL-001", "is not a file.", where=path, fix="--no-config ignores it.")
    return path


def find_upwards(*names: str, start: str = "") -> str | None:
    """The path of the nearest file of one of these names, from `start` (the working folder)
    upwards; None if there is none. It is relative where that is shorter.
    """
    begin = os.path.abspath(start or os.curdir)
    folder = begin
    while True:
        for path in (os.path.join(folder, name) for name in names):
            if not os.path.lexists(path):
                continue
            if folder != begin:
                _refuse_strangers(path, begin)
            return min(path, os.path.relpath(path), key=len)
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _refuse_strangers(path: str, begin: str) -> None:
    if not hasattr(os, "getuid"):
        return
    owner = os.lstat(path).st_uid
    if owner not in (0, os.getuid(), os.stat(begin).st_uid):
        raise UsageError(
            "FIL-009",
            "belongs to another user, and is above the working folder.",
            where=path,
            fix=f"If you trust it, name it: --config {path}. --no-config ignores it.",
        )
