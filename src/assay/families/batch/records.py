"""The record of a batch (`assay.batch/1`): what was graded, by what, and what came out.

It is written next to the output. It contains no time: the same inputs under the same plan on the
same engine give the same record. From it the Python engine can recompute any row.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, field

from assay.errors import InputError
from assay.files.json_files import Document
from assay.records.evidence import ClosedRecord, Count
from assay.records.reading import read_record
from assay.records.systems import GRADING_PATTERN, SCORING_PATTERN
from assay.services.documents import DocumentKind

BATCH_SCHEMA: Final = "assay.batch/1"
BATCH_RECORD = ".batch.json"
"""The suffix of the record's file name, next to an output that is one file; see `batch.targets`."""

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
Text = Annotated[str, Meta(min_length=1)]


class BatchFile(ClosedRecord, frozen=True, kw_only=True):
    """A file or a table that a batch read or wrote."""

    name: Text
    """The path: of an input as the command named it, with one entry for each file of a folder; of
    an output relative to the record's folder.
    """
    size: Count | None = None
    """In bytes; null for a table."""
    digest: Digest | None = None
    """The SHA-256 of its bytes; null where there is none, for the reason in `undigested`."""
    undigested: Text | None = None
    """Why it has no digest."""
    partition: str | None = None
    """The partition of the input that it is or comes from, such as `day=2026-11-16`."""

    @property
    def is_inside(self) -> bool:
        """Whether an output is in its record's folder or below it, where a batch writes it."""
        return not self.name.startswith("/") and ".." not in self.name.split("/")


class BatchEngineUsed(ClosedRecord, frozen=True, kw_only=True):
    """The engine that ran the query."""

    name: Literal["duckdb", "spark"]
    """The engine."""
    version: Text
    """Its version."""


class BatchCounts(ClosedRecord, frozen=True, kw_only=True):
    """The totals of a batch."""

    rows: Count
    """Rows that were read, including rejected ones."""
    runs: Count
    """Runs that the rows belong to, one row of the output each."""
    passed: Count
    """Runs that passed."""
    invalid: Count
    """Runs that couldn't be graded. They are in the output and count as failed."""
    grades: dict[str, Count]
    """Runs by letter."""
    rejects: dict[str, Count]
    """Rejected rows by code."""

    @property
    def rejected(self) -> int:
        """All rejected rows."""
        return sum(self.rejects.values())


class BatchRecord(ClosedRecord, frozen=True, kw_only=True, omit_defaults=False):
    """The inputs, the rules, the engine and the totals of a batch."""

    schema: Literal["assay.batch/1"] = BATCH_SCHEMA
    """The kind and version of this document."""
    profile: Text
    """The profile, as name@version."""
    policy: Text
    """The policy, as name@version."""
    scoring_system: Annotated[str, Meta(pattern=SCORING_PATTERN)] = field(name="scoringSystem")
    """The version of the scoring system."""
    grading_system: Annotated[str, Meta(pattern=GRADING_PATTERN)] = field(name="gradingSystem")
    """The version of the grading system."""
    plan: Digest
    """The digest of the numbers that the engine compares: equal plans give equal letters."""
    digests: dict[str, Digest]
    """The digests of the profile, the rubric and the policy."""
    engine: BatchEngineUsed
    """The engine that graded."""
    sql: Digest
    """The digest of the query, as `--explain-sql` prints it."""
    columns: dict[str, str] = {}
    """The input's column names that `--map` set, by what each column means."""
    keep: list[str] = []
    """The columns that `--keep` copied to the output."""
    sample: Count | None = None
    """The number of runs that `--sample` asked for; null where all were graded."""
    inputs: list[BatchFile]
    """The files and tables that were read."""
    outputs: list[BatchFile]
    """The files that were written."""
    rejects: list[BatchFile] = []
    """The files with rejected rows."""
    counts: BatchCounts
    """The totals."""


def read_batch_record(document: Document) -> BatchRecord:
    """The record of a batch. Raises an error that lists every fault."""
    record = read_record(document, BatchRecord, "BAT-050")
    if any("\0" in file.name for file in (*record.outputs, *record.rejects)):
        raise InputError("BAT-050", "a file's name has a NUL character.", where=document.file)
    return record


DOCUMENTS = {
    "batch": DocumentKind(
        "assay.families.batch.records:BatchRecord",
        "The inputs, the rules, the engine and the totals of a batch.",
        "`assay batch` writes it next to its output.",
        is_input=False,
    ),
}
"""The documents of this family, by the name that `assay schema-of` takes."""
