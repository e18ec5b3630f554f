"""Every grade of a ledger as Parquet, partitioned by project, profile and day, for `assay batch`
and any other engine.

    lake/_export.json
    lake/project=default/profile=rag@1/day=2026-11-16/part-000000000001.parquet

An export continues where the last one ended and only adds files. Files wait in `.staging` until all
of them are complete. Then `_export.json` lists them as pending, they are renamed, and
`_export.json` records how far the export came: if it is killed in between, the next export first
removes the pending files. Memory is bounded: one page of records at a time, with rows waiting on
disk.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct

from assay.archive.export_rows import (
    COLUMNS,
    FORGOTTEN,
    GONE,
    ROWS,
    ExportedGrade,
    exported,
)
from assay.errors import InputError, UsageError
from assay.files.atomic import put_in_place, write_file
from assay.files.json_files import parse_json
from assay.records.typed import convert
from assay.store.drafts import Item
from assay.store.ledger import Ledger
from assay.store.listing import evidence_of
from assay.views.parquet import encode_row, load_duckdb, write_parquet

SCHEMA = "assay.ledger-export/1"
MANIFEST, STAGING = "_export.json", ".staging"
NO_PROFILE = "__HIVE_DEFAULT_PARTITION__"
"""How Hive, DuckDB and Spark name a partition without a value."""
PAGE = 100
ROWS_IN_FILE = 1_000_000
OPEN_PARTITIONS = 64


class ProjectExport(Struct):
    """How far a project is exported."""

    seq: int = 0
    """The last record that was examined."""
    grades: int = 0
    rows: int = 0
    left_out: dict[str, int] = {}
    """How many grades have no rows, by the reason."""
    forgotten: int = 0
    """How many grades were forgotten in the ledger after they were exported."""
    last: str | None = None
    """The digest of the last grade that was exported."""
    last_seq: int = 0
    files: dict[str, int] = {}
    """Every file of it, with its rows."""


class ExportManifest(Struct):
    """The contents of `_export.json`."""

    schema: str = SCHEMA
    projects: dict[str, ProjectExport] = {}
    pending: list[str] = []
    """Files of an export that has not ended."""


class ExportResult(NamedTuple):
    """The result of an export."""

    manifest: ExportManifest
    grades: int
    rows: int
    files: int


def export_ledger(
    ledger: Ledger,
    folder: str,
    projects: list[str],
    progress: Callable[[int], None] = lambda _: None,
) -> ExportResult:
    """Add every new grade of these projects to a folder of Parquet files."""
    load_duckdb()
    with _locked(folder):
        manifest = _manifest(folder)
        _remove(folder, manifest.pending)
        staging = os.path.join(folder, STAGING)
        shutil.rmtree(staging, ignore_errors=True)
        os.mkdir(staging)
        try:
            reached: dict[str, ProjectExport] = {}
            for project in projects:
                state = manifest.projects.get(project, ProjectExport())
                _check(ledger, folder, project, state)
                reached[project] = _export_project(ledger, project, state, staging, progress)
            return _finish(folder, manifest, reached)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _export_project(
    ledger: Ledger,
    project: str,
    before: ProjectExport,
    staging: str,
    progress: Callable[[int], None],
) -> ProjectExport:
    """The new grades of one project, as files in the staging folder."""
    head, _ = ledger.head(project=project)
    state = msgspec.structs.replace(
        before,
        seq=head,
        left_out=dict(before.left_out),
        forgotten=before.forgotten + _forgotten_since(ledger, project, before),
        files=dict(before.files),
    )
    writer = _Writer(staging, project)
    forgotten: set[str] = set()
    try:
        for item, runs in _graded(ledger, project, after=before.seq, to=head):
            rows = exported(item, runs)
            if rows == FORGOTTEN and item.digest not in forgotten:
                forgotten.update(_tombstones(ledger, project))
                rows = FORGOTTEN if item.digest in forgotten else GONE
            if isinstance(rows, str):
                state.left_out[rows] = state.left_out.get(rows, 0) + 1
            else:
                writer.add(item.seq, rows)
                state.grades += 1
                state.rows += rows.rows
                state.last, state.last_seq = item.digest, item.seq
            progress(1)
        writer.flush()
    finally:
        writer.close()
    state.files.update(writer.files)
    return state


def _items(ledger: Ledger, kind: str, project: str, *, after: int, to: int) -> Iterator[Item]:
    cursor: int | None = after
    while cursor is not None:
        page = ledger.find(kind, project=project, after=cursor, limit=PAGE)
        for item in page.items:
            if item.seq > to:  # stored while the export runs: the next export takes it
                return
            yield item
        cursor = page.next_cursor


def _graded(
    ledger: Ledger, project: str, *, after: int, to: int
) -> Iterator[tuple[Item, list[Item]]]:
    """Each grade with its run; with several if they share their scorecard."""
    grades = _items(ledger, "grade", project, after=after, to=to)
    while items := [*islice(grades, PAGE)]:
        named = evidence_of(ledger.database, project, [item.digest for item in items])
        found = ledger.get_many({*chain.from_iterable(named.values())}, project=project)
        for item in items:
            evidence = [found[name] for name in named.get(item.digest, ()) if name in found]
            yield item, [item for item in evidence if item.kind == "run" and item.body is not None]


def _forgotten_since(ledger: Ledger, project: str, before: ProjectExport) -> int:
    """How many grades have been forgotten since an earlier export wrote them."""
    count = 0
    for digest in _tombstones(ledger, project, after=before.seq):
        record = ledger.get(digest, project=project)
        count += record is not None and record.kind == "grade" and record.seq <= before.seq
    return count


def _tombstones(ledger: Ledger, project: str, *, after: int = 0) -> Iterator[str]:
    """The digests of the records that were forgotten, by the tombstones in the chain."""
    head, _ = ledger.head(project=project)
    for stone in _items(ledger, "tombstone", project, after=after, to=head):
        yield stone.tree()["digest"]


class _Waiting:
    """The lines of one file that is not written yet."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.lines = open(path, "wb")  # noqa: SIM115  `_Writer` closes it
        self.rows = 0


class _Writer:
    """Files of one project, each with grades of one profile and one day."""

    def __init__(self, staging: str, project: str) -> None:
        self.files: dict[str, int] = {}
        self._staging = staging
        self._project = project
        self._waiting: dict[tuple[str | None, str], _Waiting] = {}

    def add(self, seq: int, grade: ExportedGrade) -> None:
        """Add a grade to the file of its partition."""
        key = (grade.profile, grade.day)
        waiting = self._waiting.get(key)
        if waiting is None:
            if len(self._waiting) == OPEN_PARTITIONS:
                self.flush()
            waiting = self._waiting[key] = self._begin(seq, *key)
        waiting.lines.write(encode_row(grade.line))
        waiting.rows += grade.rows
        if waiting.rows >= ROWS_IN_FILE:
            self._write(self._waiting.pop(key))

    def _begin(self, seq: int, profile: str | None, day: str) -> _Waiting:
        label = NO_PROFILE if profile is None else quote(profile, safe="@ ")
        name = f"project={self._project}/profile={label}/day={day}/part-{seq:012d}.parquet"
        return _Waiting(name, os.path.join(self._staging, f"{seq:012d}.jsonl"))

    def flush(self) -> None:
        """Write every waiting file."""
        while self._waiting:
            self._write(self._waiting.pop(next(iter(self._waiting))))

    def _write(self, waiting: _Waiting) -> None:
        waiting.lines.close()
        path = _staged(self._staging, waiting.name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_parquet(waiting.lines.name, COLUMNS, path, projection=ROWS)
        os.unlink(waiting.lines.name)
        self.files[waiting.name] = waiting.rows

    def close(self) -> None:
        """Close the files that were not written."""
        for waiting in self._waiting.values():
            waiting.lines.close()


# --- the folder


def _staged(staging: str, name: str) -> str:
    """Where a file waits, under a name that no reader of `**/*.parquet` takes."""
    return os.path.join(staging, f"{name}.part")


def _finish(
    folder: str, manifest: ExportManifest, reached: dict[str, ProjectExport]
) -> ExportResult:
    """Give the new files their names, and note how far the export came."""
    known = {name for state in manifest.projects.values() for name in state.files}
    new = {
        name: rows
        for state in reached.values()
        for name, rows in state.files.items()
        if name not in known
    }
    grades = sum(
        state.grades - manifest.projects.get(name, ProjectExport()).grades
        for name, state in reached.items()
    )
    if new:
        _note(folder, msgspec.structs.replace(manifest, pending=sorted(new)))
    for name in new:
        put_in_place(_staged(os.path.join(folder, STAGING), name), os.path.join(folder, name))
    ended = ExportManifest(projects={**manifest.projects, **reached})
    _note(folder, ended)
    return ExportResult(ended, grades, sum(new.values()), len(new))


def _note(folder: str, manifest: ExportManifest) -> None:
    write_file(os.path.join(folder, MANIFEST), msgspec.json.format(msgspec.json.encode(manifest)))


def _manifest(folder: str) -> ExportManifest:
    """The manifest of earlier exports; an empty one for a new folder."""
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, "rb") as stream:
            return convert(parse_json(stream.read()), ExportManifest)
    except FileNotFoundError:
        if {*os.listdir(folder)} <= {STAGING}:
            return ExportManifest()
        raise UsageError(
            "FIL-008",
            "this folder has files that no `assay ledger export` wrote.",
            where=folder,
            fix="Export to a new folder.",
        ) from None
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(
            "FIL-002", f"can't be read: {error}.", where=path, fix=_start_over(folder)
        ) from None


def _start_over(folder: str) -> str:
    return f"Delete {folder} and export again, or export to a new folder."


def _check(ledger: Ledger, folder: str, project: str, state: ProjectExport) -> None:
    """Refuse to continue an export of another ledger, or one that lacks files or columns."""
    if state.last is not None:
        last = ledger.get(state.last, project=project)
        if last is None or last.seq != state.last_seq:
            raise UsageError(
                "STO-019",
                f"the project '{project}' in this folder was exported from another ledger.",
                where=folder,
                fix="Export to a new folder.",
            )
    lost = [name for name in state.files if not os.path.exists(os.path.join(folder, name))]
    if lost:
        raise InputError(
            "STO-019",
            f"{len(lost)} exported file{'s are' if len(lost) > 1 else ' is'} gone, such as"
            f" {lost[0]}.",
            where=folder,
            fix=_start_over(folder),
        )


def _remove(folder: str, names: list[str]) -> None:
    """Remove what an export that was killed left behind."""
    for name in names:
        if _is_own(name):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def _is_own(name: str) -> bool:
    """Whether a file is where an export writes: a manifest may come from anywhere."""
    parts = name.split("/")
    return len(parts) == 4 and all(
        part.startswith(start)
        for part, start in zip(parts, ("project=", "profile=", "day=", "part-"), strict=True)
    )


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Lock a folder during an export: two at once would write the same grades twice."""
    import fcntl  # not available on every system

    try:
        os.makedirs(folder, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=folder) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(
            "FIL-008",
            "another export is writing to this folder.",
            where=folder,
            fix="Wait until it finishes.",
        ) from None
    except OSError as error:
        raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=folder) from None
    finally:
        os.close(handle)
