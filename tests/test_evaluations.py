"""Evaluations: totals from graded runs, stored whole or not at all, found by name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from assay.archive.evaluations import (
    EvaluationBuilder,
    check_name,
    evaluation_draft,
    find_evaluation,
    identified,
    list_evaluations,
    stored_grades,
    stored_runs,
)
from assay.archive.grades import drafts_of, settled
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.pipeline.grading import Graded, Grader
from assay.records.evaluation import Evaluation, VersionedName
from assay.store.drafts import body_of
from assay.store.ledger import Ledger, open_ledger
from assay.store.verify import verify
from documents import run
from postgres import ledger_url, postgres_url
from serving import runs

__all__ = ["ledger_url", "postgres_url"]

NOW = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)


def graded(*documents: dict[str, Any]) -> list[Graded]:
    grader = Grader(Shelf())
    return [grader.grade(settled(Document(document, "x"))) for document in documents]


def builder(document: dict[str, Any], name: str = "nightly", **settings: Any) -> EvaluationBuilder:
    workflow, dataset = document["workflow"], document["dataset"]
    return EvaluationBuilder(
        name=name,
        workflow=VersionedName(id=workflow["id"], version=workflow["version"]),
        dataset=VersionedName(id=dataset["id"], version=dataset["version"]),
        settings=settings,
        started=NOW,
    )


def made(documents: list[dict[str, Any]], name: str = "nightly", **settings: Any) -> Evaluation:
    built = builder(documents[0], name, **settings)
    for one in graded(*documents):
        built.add(one)
    return built.finish(NOW)


def keep(ledger: Ledger, documents: list[dict[str, Any]], name: str = "nightly") -> Evaluation:
    ledger.put_many([each for one in graded(*documents) for each in drafts_of(one)])
    evaluation = made(documents, name)
    ledger.put_many([evaluation_draft(evaluation)])
    return evaluation


def test_an_evaluation_is_found_by_latest_by_name_and_by_id(ledger_url: str) -> None:
    with open_ledger(ledger_url) as ledger:
        first = keep(ledger, runs(3), "nightly")
        second = keep(ledger, runs(4), "weekly")
        third = keep(ledger, runs(5), "nightly")

        def found(reference: str) -> str | None:
            stored = find_evaluation(ledger, reference, project="default")
            return None if stored is None else stored.evaluation.id

        assert found("latest") == found("latest~0") == found("nightly") == third.id
        assert found("latest~1") == found("weekly") == found(second.id) == second.id
        assert found("latest~2") == found("nightly~1") == first.id
        for absent in ("latest~3", "weekly~1", "night", "ev-000000000000", "a/b", "latest~x"):
            assert found(absent) is None
        listed = [one.evaluation for one in list_evaluations(ledger, project="default")]
        assert listed == [third, second, first], "what is read is what was stored"
        stored = find_evaluation(ledger, "weekly", project="default")
        assert stored is not None
        kept = [item.tree()["run_id"] for item in stored_runs(ledger, stored, project="default")]
        assert kept == [each["run_id"] for each in runs(4)]
        assert all(
            item.tree()["passed"] for item in stored_grades(ledger, stored, project="default")
        )
        assert verify(ledger).clean


def test_errored_runs_count_and_do_not_pass() -> None:
    documents = [*runs(1), *(dict(one, status="error") for one in runs(100)[1:])]
    totals = made(documents).totals
    assert (totals.n, totals.passed) == (100, 1)
    assert (totals.pass_rate.value, totals.gate_failures["overall_status_success"]) == (0.01, 99)


def test_a_run_that_could_not_be_graded_counts_against_the_evaluation() -> None:
    documents = runs(4)
    built = builder(documents[0])
    for one in graded(*documents[:3]):
        built.add(one)
    built.add_stored(body_of(documents[3]), None)
    totals = built.finish(NOW).totals
    assert (totals.n, totals.passed, totals.ungraded) == (4, 3, 1)
    assert (totals.pass_rate.value, totals.score.value) == (0.75, 75.0)
    alone = builder(documents[0])
    alone.add_stored(body_of(documents[0]), None)
    totals = alone.finish(NOW).totals
    assert (totals.n, totals.passed, totals.pass_rate.value, totals.score.value) == (
        1,
        0,
        None,
        None,
    )
    assert totals.pass_rate.reason == "no run was graded"


def test_an_evaluation_is_of_one_version_and_has_runs() -> None:
    built = builder(runs(1)[0])
    other = run(workflow={"id": "other", "version": "2", "family": "rag"})
    with pytest.raises(InputError, match="other@2"):
        built.add(graded(other)[0])
    with pytest.raises(NotEnoughEvidence, match="has no runs"):
        built.finish(NOW)


def test_the_id_follows_from_the_content() -> None:
    one = made(runs(3), profile=None, limit=0.10)
    assert one == made(runs(3), profile=None, limit=0.1)
    assert one.id == identified(one).id
    others = [made(runs(2)), made(runs(3), "other"), made(runs(3), profile="rag")]
    assert len({one.id, *(other.id for other in others)}) == 4


@pytest.mark.parametrize(
    "name",
    [
        "",
        "latest",
        "latest~1",
        "a/b",
        "runs.jsonl",
        "-",
        ".hidden",
        "ev-0123456789ab",
        "ü",
        "a" * 101,
    ],
)
def test_names_that_could_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="can't be named"):
        check_name(name)
