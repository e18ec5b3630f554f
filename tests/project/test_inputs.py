"""What a name means where runs are taken, without a command line: one grammar for every door."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.errors import NotEnoughEvidence, UsageError
from assay.files.inputs import Source
from assay.files.json_files import read_documents
from assay.project.imports import Reading, ToolRuns
from assay.project.inputs import BaselineName, InputResolver, Lookup, StoredRuns
from documents import run


@pytest.fixture
def resolver(assay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Names of a project with an evaluation, a baseline and another tool's file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_DB", raising=False)
    Path("runs.jsonl").write_text(json.dumps(run("rag")) + "\n")
    Path("table.csv").write_text("id,answer,tone\nq1,hello,0.5\n")
    made = assay("import", "runs.jsonl", "--name", "nightly")
    assert made.code == 0, made.err
    assert assay("baseline", "set", "production", "runs.jsonl").code == 0
    notes: list[str] = []
    reading = Reading(columns=["id=id,answer=answer,score:tone=tone"])
    lookup = Lookup(notes.append, "default", ".assay/baselines", reading=reading)
    (tmp_path / "waiting").mkdir()
    with InputResolver(lookup, str(tmp_path / "waiting")) as made_resolver:
        made_resolver.notes = notes  # type: ignore[attr-defined]
        yield made_resolver


def test_a_path_is_a_file_whether_or_not_it_exists(resolver: Any) -> None:
    assert resolver.inputs(["runs.jsonl", "./nightly"], baseline=False) == [
        Source("runs.jsonl", "runs.jsonl"),
        Source("./nightly", "./nightly"),
    ]


def test_a_name_is_an_evaluation_with_its_runs_and_what_it_was_asked_by(resolver: Any) -> None:
    (latest,) = resolver.inputs(["latest"], baseline=False)
    assert isinstance(latest, StoredRuns)
    assert (latest.name, latest.asked, latest.numbered) == ("nightly", "latest", False)
    (document,) = read_documents(latest)
    assert document.tree["run_id"] == run("rag")["run_id"]
    assert (document.file, document.line) == ("nightly", None), "nobody knows lines of this file"
    assert latest.graded["run_id"] == document.tree["run_id"]
    assert "latest is nightly" in resolver.notes[0]


def test_another_tools_file_is_imported_and_says_what_scored_it(resolver: Any) -> None:
    (table,) = resolver.inputs(["table.csv"], baseline=False)
    assert isinstance(table, ToolRuns)
    resolver.baselines.append(table)
    chosen = resolver.rules(given={}, configured={}, is_named=False)
    assert chosen.made is not None
    assert [item["id"] for item in chosen.made.profile["criteria"]] == ["tone"]


def test_the_name_of_a_stored_baseline_is_left_to_what_compares(resolver: Any) -> None:
    kept = BaselineName("production", "production")
    assert resolver.inputs(["production"], baseline=True) == [kept]
    with pytest.raises(UsageError, match="no evaluation or run is named 'production'"):
        resolver.inputs(["production"], baseline=False)


def test_a_name_that_means_nothing_names_what_is_near(resolver: Any) -> None:
    with pytest.raises(UsageError, match="Did you mean 'nightly'"):
        resolver.inputs(["nightl"], baseline=False)
    with pytest.raises(NotEnoughEvidence, match="there is no latest~1"):
        resolver.inputs(["latest~1"], baseline=False)


def test_a_source_is_frozen(resolver: Any) -> None:
    (latest,) = resolver.inputs(["latest"], baseline=False)
    with pytest.raises(AttributeError):
        latest.path = "other.jsonl"
