"""The exporters: every format for grades, by name and by file extension.

`-o FILE` picks one by its extension, `assay report export --to NAME` by its name. A format is
written as a stream, so that a million results need no memory: a head, one piece for each result,
and a foot with the counts and faults. Pieces may be made in other processes; what has to know all
of them is made by `onto` and `finish`, in one. The content of a result is decided elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from assay.files.json_files import Document, member
from assay.files.yaml_files import locate
from assay.records.evidence import IMPORTED, Run, Workflow
from assay.records.grade import Payload
from assay.registry import Registry, is_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.records.grade import Payload
    from assay.records.summary import ValueInterval


class ResultSource(Struct, frozen=True):
    """What a result was made of: the document, and the run in it. Either may be unknown."""

    document: Document | None = None
    run: Run | None = None

    @property
    def file(self) -> str | None:
        """The file of the document; None for standard input and for runs from the ledger."""
        if self.document is None or self.document.file in ("-", "<stdin>"):
            return None
        return self.document.file if is_path(self.document.file) else None

    @property
    def line(self) -> int | None:
        """The line on which the document begins, where it is known: of an imported run, its line in
        the file that it was imported from.
        """
        document = self.document
        if document is None or document.line is not None:
            return None if document is None else document.line
        if document.source is None:
            return _imported_line(document.tree if self.run is None else self.run.metadata)
        return _lines(document.source).get(document.at) if document.at else 1


def _imported_line(metadata: Any) -> int | None:
    line = member(metadata, IMPORTED, "line")
    return line if type(line) is int and line > 0 else None


@lru_cache(maxsize=1)  # the runs of one list come one after the other
def _lines(source: bytes) -> dict[str, int]:
    return locate(source)


class ReportTitle(Struct, frozen=True):
    """What a report is about."""

    name: str
    """The evaluation; empty if the runs are of none."""
    lead: str
    """What ran on what, and when."""
    rate: Callable[[int, int], ValueInterval]
    """The interval of a share, from those that passed and all."""
    notes: Sequence[str] = ()
    """What was noted when the runs were imported, and what they are graded by."""
    unchecked: bool = False
    """Whether the tool they come from passed answers without a check."""


class Sink(Protocol):
    """What takes the pieces of a format: a file, or the format itself where it must know all of
    them first.
    """

    def write(self, data: bytes, /) -> object:
        """Take one piece."""


class Format:
    """How grades are written in one format. Only `piece` has no default, and a format that defines
    `piece_of` needs none.
    """

    def prepare(
        self,
        *,
        path: str,
        graded_by: Sequence[str] | None,
        reported: Callable[[Workflow], Sequence[str]],
    ) -> None:
        """Learn, before anything else, which file is written and which options of `assay grade`
        grade the runs in the same way; None if no options do. `reported` names the gates and
        criteria of a workflow that only somebody's report fills. Few formats care.
        """

    def about(self, title: ReportTitle) -> None:
        """Learn what is graded, before anything else. Few formats care."""

    def head(self) -> bytes:
        """The bytes before the first result."""
        return b""

    def piece(self, result: Payload) -> bytes:
        """One result."""
        raise NotImplementedError

    def piece_of(self, result: Payload, source: ResultSource) -> bytes:
        """One result, in a format that also shows what it was made of."""
        return self.piece(result)

    def joint(self) -> bytes:
        """The bytes between two results."""
        return b""

    def foot(self, faults: Sequence[dict[str, Any]], counts: dict[str, Any]) -> bytes:
        """The bytes after the last result."""
        return b""

    def onto(self, stream: IO[bytes]) -> Sink:
        """Where pieces and joints go."""
        return stream

    def finish(
        self, stream: IO[bytes], faults: Sequence[dict[str, Any]], counts: dict[str, Any]
    ) -> None:
        """Write what remains once the last result is known."""
        stream.write(self.foot(faults, counts))

    def close(self) -> None:
        """Release all resources, even if the file was never finished."""


class Exporter(NamedTuple):
    """One format of grades. A plugin provides one in the group `assay.exporters`."""

    id: str
    title: str
    extensions: tuple[str, ...]
    """The extensions of its files, the usual one first."""
    make: Callable[[], Format]
    """A format for one file."""


EXPORTERS: Registry[Exporter] = Registry(
    "exporter",
    homes={
        "assay.views.documents:EXPORTERS": ("json", "jsonl"),
        "assay.views.documents:EXPORTER": ("csv",),
        "assay.views.markdown:EXPORTER": ("markdown",),
        "assay.views.junit:EXPORTER": ("junit",),
        "assay.views.report:EXPORTER": ("html",),
        "assay.views.sarif:EXPORTER": ("sarif",),
        "assay.views.parquet:EXPORTER": ("parquet",),
        "assay.views.inspect_log:EXPORTER": ("inspect",),
        "assay.views.mlflow_table:EXPORTER": ("mlflow",),
        "assay.views.otel_export:EXPORTER": ("otel",),
        "assay.views.promptfoo:EXPORTER": ("promptfoo",),
    },
    group="assay.exporters",
)
FORMATS = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".md": "markdown",
    ".xml": "junit",
    ".html": "html",
    ".sarif": "sarif",
    ".parquet": "parquet",
}
"""The exporter that `-o` picks for each extension."""


def format_of(path: str) -> Format:
    """The format that a file's extension picks."""
    return EXPORTERS[FORMATS[os.path.splitext(path)[1]]].make()
