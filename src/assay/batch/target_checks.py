"""Whether a batch may write its output: never over its input, and over other files on request."""

from __future__ import annotations

import os

from assay.batch.postgresql_tables import check_postgresql
from assay.batch.sources import DATABASES, is_uri, kind_of
from assay.batch.table_output import check_tables
from assay.batch.targets import FORMS, REJECTS, BatchTarget, already_exists
from assay.errors import UsageError


def check_target(target: BatchTarget, inputs: list[str], *, overwrite: bool) -> None:
    """Refuse an output that exists, unless it may be overwritten, and one that is also read."""
    if not target.path or os.path.basename(target.path) in ("", ".", ".."):
        raise UsageError("CLI-001", f"-o '{target.path}' names no file or folder.")
    if target.path.lower().endswith(DATABASES):
        raise UsageError(
            "BAT-020",
            "is a database and names no table.",
            where=target.path,
            fix=f"Write -o {target.path}#grades.",
        )
    if target.table:
        tables = [target.table, f"{target.table}_{REJECTS}"]
        if target.url:
            check_postgresql(target.url, tables, where=target.path, overwrite=overwrite)
        else:
            check_tables(target.database, tables, overwrite=overwrite)
    if target.is_folder and kind_of(target.path) is not None:
        raise UsageError(
            "BAT-020",
            "can't be written: a batch reads such files and doesn't write them.",
            where=target.path,
            fix=f"It writes {', '.join(FORMS)}, or a folder.",
        )
    if is_uri(target.path) and not target.url:
        raise UsageError(
            "CLI-001",
            f"-o '{target.path}' is a URI, and a batch publishes only on this machine.",
            fix="Name a local path. From Python, `assay.grade_table` gives a DataFrame to write"
            " anywhere.",
        )
    own = _identity(target.path)
    for name in inputs:
        read = _identity(name)
        if own == read or _is_below(own, read) or (target.is_folder and _is_below(read, own)):
            raise UsageError(
                "CLI-001",
                f"the output '{target.path}' and the input '{name}' overlap.",
                fix="Write to a place outside the input.",
            )
    present = [p for p in (target.path, target.rejects, target.record) if os.path.lexists(p)]
    if not present:
        return
    is_output = os.path.isdir(target.path) and (os.path.exists(target.record) or _is_empty(target))
    if target.is_folder and not is_output:
        raise UsageError(
            "BAT-021",
            "already exists and isn't the output of a batch, so it is never overwritten.",
            where=target.path,
            fix="Write to another folder.",
        )
    for path in present if not target.is_folder else ():
        if os.path.isdir(path):
            raise UsageError("FIL-008", "is a directory.", where=path)
    if not overwrite and not (target.is_folder and present == [target.path] and _is_empty(target)):
        raise already_exists(present[0])


def _identity(path: str) -> str:
    """A path or a table in a form that is the same for two names of one thing."""
    database, _, table = path.rpartition("#")
    if not database.lower().endswith(DATABASES):
        return os.path.realpath(path)
    return f"{os.path.realpath(database)}#{table.rpartition('.')[2].lower()}"


def _is_empty(target: BatchTarget) -> bool:
    return not os.listdir(target.path)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
