"""The samples of a stored evaluation, and what they are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.records.samples import SampleQuery
from assay.services import samples
from assay.services.evaluations import StoredEvaluation, find_evaluation
from assay.services.samples import (
    ComparedWith,
    SampleView,
    compared_with,
    evaluations_of,
    view_samples,
)
from assay.services.stored_sides import baseline_draft
from assay.store.ledger import Ledger
from serving import Api, runs, serving


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serving(f"sqlite:///{tmp_path}/ledger.db") as made:
        yield made


def evaluate(api: Api, name: str, documents: list[dict[str, Any]], **more: Any) -> StoredEvaluation:
    """An evaluation, made by the server."""
    answer = api.post("/evaluations", {"name": name, "runs": documents, **more})
    assert answer.status_code == 201, answer.text
    stored = find_evaluation(api.services.ledger, name, project="default")
    assert stored is not None
    return stored


def version(number: int, **more: Any) -> list[dict[str, Any]]:
    """Four runs of a version; the ids are its own."""
    made = runs(4, workflow={"id": "w", "version": str(number), "family": "code-repair"}, **more)
    return [{**one, "run_id": f"v{number}-{one['run_id']}"} for one in made]


def set_baseline(ledger: Ledger, name: str, digests: list[str]) -> None:
    record = {"schema": "assay.baseline/1", "name": name, "evidence_digests": digests}
    ledger.put_many([baseline_draft(record)])


def compared(api: Api, stored: StoredEvaluation) -> ComparedWith | None:
    return compared_with(api.services.ledger, stored, project="default")


def view(api: Api, stored: StoredEvaluation, query: SampleQuery) -> SampleView:
    return view_samples(api.services.ledger, stored, query, project="default")


def test_an_evaluation_is_compared_with_the_named_baseline_else_with_the_one_before(
    api: Api,
) -> None:
    ledger = api.services.ledger
    first = evaluate(api, "one", version(1))
    assert compared(api, first) is None
    other = [{**one, "dataset": {**one["dataset"], "id": "e"}} for one in version(9)]
    evaluate(api, "elsewhere", other)
    second, third = evaluate(api, "two", version(2)), evaluate(api, "three", version(3))
    before = compared(api, third)
    assert before is not None
    assert (before.baseline, before.evaluation) == ("", second)
    set_baseline(ledger, "production", [run.digest for run in first.evaluation.runs])
    named = compared(api, third)
    assert named is not None
    assert (named.baseline, named.evaluation) == ("production", first)
    assert compared(api, first) is None, "the baseline itself is compared with the one before it"
    part = [run.digest for run in first.evaluation.runs[:2]]
    set_baseline(ledger, "part", part)
    by_hand = compared(api, third)
    assert by_hand is not None
    assert (by_hand.baseline, by_hand.evaluation, len(by_hand.runs)) == ("part", None, 2)
    assert {run.grade for run in by_hand.runs} <= {run.grade for run in first.evaluation.runs}
    run = first.evaluation.runs[0].digest
    assert list(evaluations_of(ledger, run, project="default")) == [first]
    assert list(evaluations_of(ledger, run, project="other")) == []


def test_a_view_counts_what_differs_from_the_baseline(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(api, "one", version(1))
    worse = version(2)
    worse[2]["status"] = "error"
    worse[3]["inputs"] = {"question": "Ship at 9"}
    second = evaluate(api, "two", worse)
    found = view(api, second, SampleQuery(show=("worse",)))
    assert [row.sample for row in found.chosen] == ["s-2"]
    assert (len(found.rows), found.chosen[0].question) == (4, ""), "no text was needed"
    searched = view(api, second, SampleQuery(q="ship AT"))
    assert [(row.sample, row.question) for row in searched.chosen] == [("s-3", "Ship at 9")]
    monkeypatch.setattr(samples, "ALWAYS_COMPARED", 3)
    assert view(api, second, SampleQuery()).baseline is None
    assert view(api, second, SampleQuery(sort="change")).chosen[0].sample == "s-2"


def test_grades_of_two_policies_are_not_compared(api: Api) -> None:
    evaluate(api, "one", version(1))
    second = evaluate(api, "two", version(2), policy="workflow-judged")
    found = view(api, second, SampleQuery(show=("differs",)))
    assert (found.baseline, found.chosen) == (None, [])
    assert "it was graded by workflow@" in found.incomparable


def test_a_run_that_was_forgotten_keeps_its_verdict(api: Api) -> None:
    stored = evaluate(api, "one", version(1))
    api.services.ledger.forget(stored.evaluation.runs[0].digest, author="me", reason="privacy")
    rows = view(api, stored, SampleQuery(sort="answer")).rows
    gone = next(row for row in rows if row.forgotten)
    assert (gone.question, gone.answer) == ("", "")
    assert len(rows) == 4
