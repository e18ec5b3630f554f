"""Where a batch writes: the grades, the rejected rows and the record, which take their names only
when all of them are complete.

    -o grades.parquet    grades.parquet, grades.rejects.parquet and grades.batch.json
    -o graded            graded/grades/, graded/rejects/ and graded/batch.json

Rejects exist only if there are any. A folder takes its name in one step, with everything in it. One
that replaces another first sets it aside as `.graded.old`; the next batch that finds only that one
gives it its name back. Files take theirs one after the other, the record last, and the old record
goes first: an output without a record is one that was interrupted.
"""

from __future__ import annotations

import errno
import glob
import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from assay.errors import UsageError
from assay.families.batch.records import BATCH_RECORD, BatchRecord
from assay.families.batch.sources import check_encoding, is_uri, kind_of
from assay.files.atomic import refuse_links_out, sync_folder_of, sync_tree

FORMS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl"}
"""What a file can be written as, by its extension; a folder has Parquet files."""
RECORD_IN_FOLDER = "batch.json"
GRADES, REJECTS = "grades", "rejects"


class BatchTarget(NamedTuple):
    """An output of a batch: one file, or a folder."""

    path: str
    """As it was given."""
    form: str
    """`parquet`, `csv` or `jsonl`."""
    is_folder: bool

    @property
    def record(self) -> str:
        """Where its record is."""
        if self.is_folder:
            return os.path.join(self.path, RECORD_IN_FOLDER)
        return os.path.splitext(self.path)[0] + BATCH_RECORD

    @property
    def rejects(self) -> str:
        """Where its rejected rows are: a file or a folder."""
        if self.is_folder:
            return os.path.join(self.path, REJECTS)
        stem, extension = os.path.splitext(self.path)
        return f"{stem}.{REJECTS}{extension}"

    @property
    def grades(self) -> str:
        """Where its grades are: a file or a folder."""
        return os.path.join(self.path, GRADES) if self.is_folder else self.path

    def unrecorded(self, record: BatchRecord) -> list[str]:
        """The files of its grades that a record doesn't name: they aren't what was recorded."""
        files = [self.grades]
        if self.is_folder:
            parts = os.path.join(glob.escape(self.grades), "**", "*.parquet")
            files = sorted(glob.glob(parts, recursive=True))
        folder = os.path.dirname(self.record)
        known = {os.path.realpath(os.path.join(folder, output.name)) for output in record.outputs}
        return [file for file in files if os.path.realpath(file) not in known]


class Workplace(NamedTuple):
    """A hidden folder next to the output, in which a batch writes before it publishes."""

    folder: str
    target: BatchTarget

    @property
    def record(self) -> str:
        """The file for the record."""
        return os.path.join(self.folder, RECORD_IN_FOLDER)

    def place(self, kind: str, partition: str = "") -> str:
        """Where the GRADES or the REJECTS of a partition go: a file, or a folder that isn't there
        yet.
        """
        if not self.target.is_folder:
            return os.path.join(self.folder, f"{kind}.{self.target.form}")
        path = os.path.join(self.folder, kind, *filter(None, partition.split("/")))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def files(self) -> tuple[list[str], list[str]]:
        """The files of grades and of rejects that were written, in order of their names."""
        return files_of(self.place(GRADES)), files_of(self.place(REJECTS))

    def final_name(self, path: str) -> str:
        """What a file is called from the folder of the record, once it is published."""
        if self.target.is_folder:
            return os.path.relpath(path, self.folder)
        final = self.target.grades if path == self.place(GRADES) else self.target.rejects
        return os.path.basename(final)

    def partition_of(self, path: str) -> str | None:
        """The partition that a written file belongs to; None if there are none."""
        if not self.target.is_folder:
            return None
        below = os.path.relpath(os.path.dirname(path), self.folder).split(os.sep)[1:]
        return "/".join(below) or None

    def publish(self, *, overwrite: bool) -> None:
        """Give everything its final name."""
        sync_tree(self.folder)
        try:
            if self.target.is_folder:
                self._publish_folder()
            else:
                self._publish_files(overwrite=overwrite)
        except FileExistsError:
            raise _already_exists(self.target.path) from None
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                raise _already_exists(self.target.path) from None
            raise
        sync_folder_of(self.target.path)

    def _publish_folder(self) -> None:
        old = _set_aside(self.target)
        replaced = os.path.exists(self.target.record)
        if replaced:
            shutil.rmtree(old, ignore_errors=True)
            os.rename(self.target.path, old)
        try:
            os.rename(self.folder, self.target.path)
        except OSError:
            if replaced and not os.path.lexists(self.target.path):
                os.rename(old, self.target.path)
            raise
        if replaced:
            shutil.rmtree(old, ignore_errors=True)

    def _publish_files(self, *, overwrite: bool) -> None:
        moves = [
            (self.place(REJECTS), self.target.rejects),
            (self.place(GRADES), self.target.grades),
            (self.record, self.target.record),  # last: it says that the others are whole
        ]
        if overwrite:
            for _, final in reversed(moves):
                if os.path.exists(final) and final != self.target.grades:
                    os.unlink(final)
        for temporary, final in moves:
            if not os.path.exists(temporary):
                continue
            if overwrite:
                os.replace(temporary, final)
            else:
                os.link(temporary, final)  # unlike a rename, never over a file that is there


def check_target(target: BatchTarget, inputs: list[str], *, overwrite: bool) -> None:
    """Refuse an output that exists, unless it may be overwritten, and one that is also read."""
    if not target.path or os.path.basename(target.path) in ("", ".", ".."):
        raise UsageError("CLI-001", f"-o '{target.path}' names no file or folder.")
    if target.is_folder and kind_of(target.path) is not None:
        raise UsageError(
            "BAT-020",
            "can't be written: a batch reads such files and doesn't write them.",
            where=target.path,
            fix=f"It writes {', '.join(FORMS)}, or a folder.",
        )
    if is_uri(target.path):
        raise UsageError(
            "CLI-001",
            f"-o '{target.path}' is a URI, and a batch publishes only on this machine.",
            fix="Name a local path. From Python, `assay.grade_table` gives a DataFrame to write"
            " anywhere.",
        )
    own = os.path.realpath(target.path)
    for name in inputs:
        read = os.path.realpath(name)
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
        raise _already_exists(present[0])


def _is_empty(target: BatchTarget) -> bool:
    return not os.listdir(target.path)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def _already_exists(path: str) -> UsageError:
    """The error for an output that exists."""
    return UsageError(
        "BAT-021",
        "already exists.",
        where=path,
        fix="Choose another -o, or replace it with --overwrite.",
    )


def tidy_up(target: BatchTarget) -> list[str]:
    """Clean up after a batch that was killed while it wrote the same output: give a folder that was
    set aside its name back, and remove partial output. Returns what was done, in words.
    """
    parent, name = _place_of(target)
    done, old = [], _set_aside(target)
    if target.is_folder and os.path.isdir(old):
        if not os.path.lexists(target.path):
            os.rename(old, target.path)
            done.append(f"restored {target.path}: a batch was killed while it replaced it")
        elif os.path.exists(target.record):  # the new one is whole
            shutil.rmtree(old, ignore_errors=True)
    pattern = re.compile(rf"\.{re.escape(name)}\.([a-z0-9]*)-([0-9]+)-[0-9a-f]{{16}}\.part")
    for entry in sorted(os.listdir(parent)) if os.path.isdir(parent) else ():
        own = pattern.fullmatch(entry)
        if own is None:
            continue
        if own[1] != _host():
            done.append(f"left {entry}: only the machine {own[1]} knows if a batch still writes it")
        elif not _is_alive(int(own[2])):
            shutil.rmtree(os.path.join(parent, entry), ignore_errors=True)
            done.append(f"removed {entry}: a batch was killed while it wrote it")
    return done


def hidden_folder(target: BatchTarget) -> str:
    """A new hidden name next to an output, with the machine and process it belongs to."""
    parent, name = _place_of(target)
    mark = f"{_host()}-{os.getpid()}-{os.urandom(8).hex()}"
    return os.path.join(parent, f".{name}.{mark}.part")


def _place_of(target: BatchTarget) -> tuple[str, str]:
    """The folder of an output, and its name there."""
    parent, name = os.path.split(os.path.abspath(target.path))
    return parent, name


def _host() -> str:
    return re.sub("[^a-z0-9]", "", platform.node().lower())[:40]


def _set_aside(target: BatchTarget) -> str:
    """Where a folder is while another takes its name."""
    parent, name = os.path.split(os.path.abspath(target.path))
    return os.path.join(parent, f".{name}.old")


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it belongs to another user
    return True


@contextmanager
def open_workplace(target: BatchTarget) -> Iterator[Workplace]:
    """A workplace for a target. It is removed when the block ends; published output has its final
    name by then.
    """
    refuse_links_out(target.path)
    folder = hidden_folder(target)
    try:
        os.makedirs(folder)
    except OSError as error:
        raise UsageError(
            "FIL-008", f"can't be written: {error.strerror}.", where=target.path
        ) from None
    try:
        yield Workplace(folder, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def target_of(path: str) -> BatchTarget:
    """The target that an output names: a file by its extension, else a folder."""
    check_encoding(path)
    extension = os.path.splitext(path)[1].lower()
    form = FORMS.get(extension)
    return BatchTarget(path, form or "parquet", form is None)


def files_of(path: str) -> list[str]:
    """A file, or the files of data below a folder; empty if there is nothing."""
    if not os.path.isdir(path):
        return [path] if os.path.exists(path) else []
    return sorted(
        os.path.join(place, name)
        for place, _, names in os.walk(path)
        for name in names
        if not name.startswith((".", "_"))
    )


def record_of(path: str) -> str:
    """The record of a batch output that is named by its file, its folder or the record itself."""
    return path if path.endswith((BATCH_RECORD, RECORD_IN_FOLDER)) else target_of(path).record


def target_at(record: str, made: BatchRecord) -> BatchTarget:
    """The target whose record is at a path."""
    folder, name = os.path.split(record)
    if name == RECORD_IN_FOLDER:
        return BatchTarget(folder or os.curdir, "parquet", True)
    return target_of(os.path.join(folder, made.outputs[0].name))
