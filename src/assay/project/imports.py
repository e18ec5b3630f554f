"""Another tool's result file where runs are taken: whether a file is one, by which importer it is
read, and what its columns are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import InputError, UsageError
from assay.files.inputs import Source, file_digest
from assay.files.own_files import looks_own, stdin_start
from assay.importers.column_map import check_map, columns_of, parse_map, scales_of
from assay.importers.head import Head
from assay.importers.importer import Wanted
from assay.importers.known import fitting
from assay.importers.recognition import described, is_foreign, unrecognised
from assay.importers.samples import head_of
from assay.registry import is_path, near_miss
from assay.services.importing import ImportedRuns, import_runs

if TYPE_CHECKING:
    from assay.project.config import Config


class ToolRuns(Source, frozen=True, kw_only=True):
    """Runs imported for one command; named by the files they came from."""

    digest: str
    """The digest of those files."""
    imported: ImportedRuns


class Reading(NamedTuple):
    """How the files of other tools are read."""

    kind: str | None = None
    """The tool that wrote them; None to find out."""
    columns: Sequence[str] = ()
    """What the columns of a table are, as `--map` says it."""
    config: Config | None = None

    @property
    def mapping(self) -> dict[str, str]:
        """What the columns of a table are: as the user says it, else as assay.yaml does."""
        if self.columns:
            return parse_map(self.columns)
        if self.config is None or not self.config.spec.map:
            return {}
        check_map(self.config.spec.map, self.config.place("map"))
        return dict(self.config.spec.map)


def check_saved_map(head: Head, reading: Reading) -> None:
    """Refuse a table that lacks some of the columns that assay.yaml names; one that lacks all of
    them is another table.
    """
    config = reading.config
    if reading.columns or config is None:
        return
    mapping = reading.mapping
    named = dict(zip(filter(mapping.get, mapping), columns_of(mapping), strict=True))
    if head.columns.isdisjoint(named.values()):
        return
    for key, column in named.items():
        if column not in head.columns:
            raise InputError(
                "FIL-006",
                f"maps {key} to {column!r}, which {head.path} lacks."
                f"{near_miss(column, sorted(head.columns))}",
                where=config.place("map", key),
                fix="Correct the line, or give --map for this file.",
            )


def is_importable(text: str, reading: Reading, *, items: bool = False) -> bool:
    """Whether a text is a file that has to be imported first. A file that nobody knows, and that is
    not JSON or has nothing of a run, is refused here, with what it looks like, unless the command
    reads `items` of its own.
    """
    if not is_path(text):
        return False
    if reading.kind is not None or (text == "-" and reading.columns):
        return True
    if looks_own(text) or items:
        return False
    if text == "-":
        raise _unnamed()
    if reading.columns:
        return True
    head = head_of(text)
    if fitting(head, reading.mapping):
        return True
    check_saved_map(head, reading)
    if head.data.strip() and (not head.text.startswith(("{", "[")) or is_foreign(head)):
        raise unrecognised(head)
    return False  # the reader reports what is wrong with it


def _unnamed() -> InputError:
    """The refusal of standard input that is not JSON: it can be read only once, so its kind must
    be named.
    """
    head = Head("<stdin>", stdin_start())
    known = fitting(head) if head.text and not head.data.startswith((b"PK", b"PAR1")) else []
    return InputError(
        "FIL-006",
        f"Assay doesn't recognise this input: it is {described(head)}.",
        where=head.path,
        fix=f"Name its kind with --from {known[0].name if known else 'KIND'}.",
    )


def kind_of(reading: Reading, paths: Sequence[str]) -> str | None:
    """The importer that the command line names: with `--map` it is that of tables, unless it only
    says the scales of metrics that another tool wrote.
    """
    if reading.kind is not None or not reading.columns:
        return reading.kind
    mapping = parse_map(reading.columns)
    is_scales = len(scales_of(mapping)) == len(mapping) and all(map(os.path.isfile, paths))
    if is_scales and any(importer.name != "table" for importer in fitting(head_of(paths[0]))):
        return None
    return "table"


def check_scales(reading: Reading, imported: ImportedRuns) -> None:
    """Refuse a `--map` for another tool's file that says anything but the scales of its metrics."""
    if not reading.columns or imported.importer.name == "table":
        return
    mapping = parse_map(reading.columns)
    other = [key for key, text in mapping.items() if not scales_of({key: text})]
    unused = [key for key in mapping if key not in imported.tally.mapping]
    if not other and not unused:
        return
    names = ", ".join(metric.label for metric in imported.tally.metrics.values()) or "no metrics"
    raise UsageError(
        "CLI-001",
        f"--map has {(other or unused)[0]!r}, but "
        + (
            f"for {imported.importer.name} it can only set the scales of metrics."
            if other
            else f"the file has no metric for {mapping[unused[0]]}."
        ),
        where=", ".join(imported.files),
        fix=f"Write score:NAME=METRIC:LOW..HIGH, once for each. The file has {names}.",
    )


def import_files(texts: Sequence[str], folder: str, reading: Reading) -> ToolRuns:
    """Import files that belong together. Their runs wait in the folder."""
    place = os.path.join(folder, "imported")
    os.makedirs(place, exist_ok=True)
    wanted = Wanted(mapping=reading.mapping)
    imported = import_runs(texts, place, kind=kind_of(reading, texts), wanted=wanted)
    check_scales(reading, imported)
    # of a pipe, which can't be read again, its runs
    named = texts if all(map(os.path.isfile, texts)) else [imported.spool]
    return ToolRuns(
        ", ".join("<stdin>" if text == "-" else text for text in texts),
        imported.spool,
        numbered=False,
        digest=files_digest(named),
        imported=imported,
    )


def files_digest(paths: Sequence[str]) -> str:
    """The digest of a file's bytes; of several files, of the list of theirs."""
    digests = [file_digest(path) for path in paths]
    return digests[0] if len(digests) == 1 else sha256("\n".join(digests).encode()).hexdigest()
