"""The record of a batch: its shape, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import to_builtins

from assay.canon import canonical
from assay.errors import EvidenceError, InputError
from assay.families.batch.records import (
    BatchCounts,
    BatchEngineUsed,
    BatchFile,
    BatchRecord,
    read_batch_record,
)
from assay.files.json_files import Document, parse_json

DIGEST = "sha256:" + "0" * 64
RECORD = BatchRecord(
    profile="rag@1",
    policy="workflow@1",
    scoring_system="scoringSystem/1.0.0",
    grading_system="gradingSystem/1.0.0",
    plan=DIGEST,
    digests={"profile": DIGEST, "policy": DIGEST},
    engine=BatchEngineUsed(name="duckdb", version="1.0.0"),
    sql=DIGEST,
    inputs=[
        BatchFile(name="scores.parquet", size=10, digest=DIGEST),
        BatchFile(name="lake/scores", undigested="a table, which has no file to digest"),
    ],
    outputs=[BatchFile(name="grades.parquet", size=20, digest=DIGEST)],
    counts=BatchCounts(
        rows=12, runs=3, passed=1, invalid=1, grades={"A": 1, "F": 1}, rejects={"GRD-102": 2}
    ),
)


def test_a_record_is_read_back_as_it_was_written() -> None:
    text = canonical(RECORD)
    assert b'"schema":"assay.batch/1"' in text
    assert read_batch_record(Document(parse_json(text), "grades.batch.json")) == RECORD
    assert RECORD.counts.rejected == 2
    tree = {**to_builtins(RECORD), "outputs": [{"name": "a\0b"}]}
    with pytest.raises(InputError, match="NUL"):
        read_batch_record(Document(tree, "grades.batch.json"))


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"plan": "sha256:12"}, "sha256"),
        ({"schema": "assay.batch/2"}, "assay.batch"),
        ({"engine": {"name": "excel", "version": "1"}}, "excel"),
        ({"gradingSystem": "2"}, "gradingSystem"),
        ({"letters": {}}, "unknown key 'letters'"),
        ({"counts": {"rows": -1}}, "counts"),
    ],
)
def test_a_record_that_says_something_else_is_refused(changes: dict[str, Any], part: str) -> None:
    tree = {**to_builtins(RECORD), **changes}
    with pytest.raises(EvidenceError) as caught:
        read_batch_record(Document(tree, "grades.batch.json"))
    assert caught.value.code == "BAT-050"
    assert any(part in fault.text() for fault in caught.value.faults), caught.value.faults
