"""What a batch reads: files and folders of files, named as on a command line.

    scores.parquet  gates.csv  more.jsonl  scores.arrow      a file; .gz for CSV and JSON Lines
    scores/                                                  every file below a folder
    lake/scores                                              a Delta or Iceberg table, by its log
    lake/scores/metadata/00002-f69b.metadata.json            one version of an Iceberg table
    s3a://lake/scores    table:lake.scores                   what Spark reads, and no other engine

Nothing is opened here but folders and the heads of CSV files: an engine attaches what this module
resolved. A name with a pattern character is refused, because DuckDB would read other files than the
one that was named.
"""

from __future__ import annotations

import csv
import glob
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from assay.errors import InputError, UsageError, count

KINDS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson.gz": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""Which kind a file is, by the end of its name."""
LOGGED = ("delta", "iceberg", "hudi")
"""The formats of folders whose log says which of their files and rows count."""
TABLE = "table:"
"""The prefix of a table in Spark's catalog."""
MAX_FILES = 100_000
_MAX_HEAD = 1024 * 1024
_METADATA = ".metadata.json"
_PATTERN = "*?["


class BatchSource(NamedTuple):
    """One input of a batch."""

    name: str
    """As it was given."""
    kind: str
    """`parquet`, `csv`, `jsonl`, `arrow`, `delta`, `iceberg`, `hudi` or `table`."""
    files: tuple[str, ...] = ()
    """The files to read, in order of their names; of a table with a log, its folder, or a version's
    metadata.
    """
    table: str = ""
    """The table of Spark's catalog."""
    folder: str = ""
    """The folder that was given, where one was."""


class CsvHead(NamedTuple):
    """The names in the first line of a CSV file, and what separates them."""

    names: tuple[str, ...]
    delimiter: str
    """A comma, a tab or a semicolon."""


class Partition(NamedTuple):
    """The part of a folder under one `key=value` path, which a batch grades by itself."""

    name: str
    """Its path below the folder, such as `project=support/day=2026-11-16`."""
    source: BatchSource


def find_sources(names: Iterable[str]) -> list[BatchSource]:
    """The sources behind the names on a command line. Raises `UsageError` for one that no engine
    reads, and `InputError` if there is nothing to read.
    """
    sources = [source for name in names for source in _resolved(name)]
    seen: set[str] = set()
    for source in sources:
        for file in source.files:
            real = os.path.realpath(file)
            if real in seen:
                raise UsageError(
                    "CLI-001",
                    f"'{file}' is given twice.",
                    fix="Its rows would count twice. Name it once.",
                )
            seen.add(real)
    return sources


def find_partitions(sources: list[BatchSource]) -> list[Partition]:
    """The partitions of a single folder, in order of their names; empty if the input is something
    else, or if some of its files are outside any partition.
    """
    if len(sources) != 1 or not sources[0].folder or sources[0].kind in LOGGED:
        return []
    (source,) = sources
    parts: dict[str, list[str]] = {}
    for file in source.files:
        path = os.path.relpath(os.path.dirname(file), source.folder)
        if not all("=" in name for name in path.split(os.sep)):
            return []
        parts.setdefault(path.replace(os.sep, "/"), []).append(file)
    return [
        Partition(name, source._replace(files=tuple(files)))
        for name, files in sorted(parts.items())
    ]


def _resolved(name: str) -> Iterator[BatchSource]:
    if name.startswith(TABLE):
        yield BatchSource(name, "table", table=name.removeprefix(TABLE))
    elif is_uri(name):
        yield BatchSource(name, kind_of(name) or "parquet", (name,))
    elif name.endswith(_METADATA) and _table_kind(table_folder := _table_of(name)) == "iceberg":
        _check_exists(name)
        yield BatchSource(name, "iceberg", (_checked(name),), folder=table_folder)
    elif os.path.isdir(name):
        _check_outside_tables(name)
        yield from _folder(name)
    else:
        _check_exists(name)
        _check_outside_tables(name)
        kind = kind_of(name)
        if kind is None:
            raise UsageError(
                "BAT-020",
                f"can't read '{name}' as a batch.",
                fix=f"A batch reads {_LISTED}.",
            )
        if kind == "csv":
            csv_head(name)
        yield BatchSource(name, kind, (_checked(name),))


_LISTED = ", ".join(KINDS)


def is_uri(path: str) -> bool:
    """Whether a path names its file system.

    >>> is_uri("s3a://lake/scores"), is_uri("scores/day=1")
    (True, False)
    """
    return "://" in path


def kind_of(path: str) -> str | None:
    """The kind of a file by the end of its name; None for one that no engine reads."""
    lower = path.lower()
    return next((kind for end, kind in KINDS.items() if lower.endswith(end)), None)


def _folder(folder: str) -> Iterator[BatchSource]:
    """A Delta, Iceberg or Hudi table as one source, any other folder as one source for each kind of
    file in it. The files of such a table include rows that were deleted: they are never read as
    plain Parquet.
    """
    kind = _table_kind(folder)
    if kind is not None:
        yield BatchSource(folder, kind, (_checked(folder),), folder=folder)
        return
    by_kind: dict[str, list[str]] = {}
    others: list[str] = []
    for file in _files_below(folder):
        own = kind_of(file)
        if own is None:
            others.append(file)
        else:
            by_kind.setdefault(own, []).append(_checked(file))
            if own == "csv":
                csv_head(file)
    if others:
        raise InputError(
            "BAT-020",
            f"can't read {len(others)} of the files in it, such as '{others[0]}'.",
            where=folder,
            fix=f"A batch reads {_LISTED}. Move other files out of the folder.",
        )
    if not by_kind:
        raise InputError("FIL-005", "there is no file in this folder.", where=folder)
    for kind, files in sorted(by_kind.items()):
        yield BatchSource(folder, kind, tuple(files), folder=folder)


def _table_kind(folder: str) -> str | None:
    """The format of a folder that is a table with a log next to its files; None for any other."""
    if os.path.isdir(os.path.join(folder, "_delta_log")):
        return "delta"
    if os.path.isdir(os.path.join(folder, ".hoodie")):
        return "hudi"
    metadata = os.path.join(glob.escape(folder), "metadata", f"*{_METADATA}")
    return "iceberg" if glob.glob(metadata) else None


def _table_of(metadata: str) -> str:
    """The Iceberg table that a file of metadata is part of."""
    return os.path.dirname(os.path.dirname(metadata)) or os.curdir


def _check_outside_tables(path: str) -> None:
    """Refuse a part of a table with a log: only the log says which files and rows still count."""
    folder = os.path.dirname(os.path.realpath(path))
    while True:
        kind = _table_kind(folder)
        if kind is not None:
            raise InputError(
                "BAT-020",
                f"is part of the {kind.title()} table {folder}, and may contain deleted rows.",
                where=path,
                fix="Name the table itself, or export it to Parquet.",
            )
        if folder == os.path.dirname(folder):
            return
        folder = os.path.dirname(folder)


def _files_below(folder: str) -> list[str]:
    """Every file below a folder, except those that writers keep for themselves: names that begin
    with a dot, or with an underscore unless it is a partition such as `_day=1`. A link to a folder
    is refused: its rows must neither be left out nor come from elsewhere unnoticed.
    """
    paths: list[str] = []
    for place, folders, files in os.walk(folder, onerror=_raise):
        kind = _table_kind(place)
        folders[:] = sorted(name for name in folders if not _is_private(name))
        for name in folders:
            if os.path.islink(os.path.join(place, name)):
                raise InputError(
                    "BAT-020",
                    "is a link to a folder.",
                    where=os.path.join(place, name),
                    fix="Name the folder itself, or move it here.",
                )
        if kind is not None:
            raise InputError(
                "BAT-020",
                f"this is a table in {kind.title()} format inside the folder that was named.",
                where=place,
                fix="Name the table itself.",
            )
        paths += [os.path.join(place, name) for name in sorted(files) if not _is_private(name)]
        if len(paths) > MAX_FILES:
            raise InputError(
                "FIL-004",
                f"there are more than {MAX_FILES:,} files in this folder.",
                where=folder,
                fix="Grade its subfolders one by one.",
            )
    return paths


def _is_private(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _raise(error: OSError) -> None:
    raise InputError(
        "FIL-001", f"can't be read: {error.strerror}.", where=str(error.filename)
    ) from None


def _check_exists(path: str) -> None:
    if not os.path.exists(path):
        raise InputError("FIL-001", "no such file or folder.", where=path)


def check_encoding(path: str) -> None:
    """Refuse a name that isn't UTF-8, which no engine takes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError("BAT-020", f"the name {path!a} is not UTF-8.", fix="Rename it.") from None


def _checked(path: str) -> str:
    check_encoding(path)
    if any(character in path for character in _PATTERN):
        raise UsageError(
            "BAT-020",
            f"'{path}' has a character that engines read as a pattern: * ? or [.",
            fix="Rename it.",
        )
    return path


def csv_head(path: str) -> CsvHead:
    """The columns of a CSV file. One that names a column twice is refused: an engine would rename
    one of them.
    """
    opened = gzip.open if path.endswith(".gz") else open
    try:
        with opened(path, "rb") as stream:
            line = stream.readline(_MAX_HEAD)
            head = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            "FIL-001", "is not UTF-8.", where=path, fix="Convert it to UTF-8."
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("FIL-001", f"can't be read: {reason}.", where=path) from None
    if not head.strip():
        raise InputError("FIL-005", "there is nothing in the file.", where=path)
    if "\r" in head.rstrip("\r\n") or head.count('"') % 2:
        raise InputError(
            "BAT-020",
            "has a line break within the first line, or lines that end with CR alone.",
            where=path,
            fix="End lines with LF or CRLF, and leave line breaks out of column names.",
        )
    delimiter = max(",\t;", key=head.count)
    names = tuple(name.strip() for name in next(csv.reader([head], delimiter=delimiter)))
    counted = Counter(name.lower() for name in names)
    twice = sorted(name for name, count in counted.items() if count > 1)
    if twice or "" in counted:
        raise InputError(
            "BAT-020",
            f"the first line has {count(len(names), 'column')}, and "
            + (f"'{twice[0]}' is there twice." if twice and twice[0] else "one has no name."),
            where=path,
            fix="Give each column its own name.",
        )
    return CsvHead(names, delimiter)
