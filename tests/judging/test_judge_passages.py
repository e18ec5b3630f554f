"""Context precision and recall through a judge: which passages help, and what of the expected answer
they contain.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.files.json_files import Document
from assay.judging.claims_task import passages_of, statements_of
from assay.judging.endpoints import Reply
from assay.judging.items import item_of
from assay.judging.questions import PassageQuestion
from assay.judging.replies import read_verdict
from assay.records.evidence import Run
from assay.records.reading import read_run
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.measure import Undetermined
from judges import reading_judge


def tree_of(**changes: Any) -> dict[str, Any]:
    made = {
        "schema": "assay.run/1",
        "run_id": "r-1",
        "status": "success",
        "workflow": {"id": "w", "version": "1", "family": "rag"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s"},
        "inputs": {"question": "When does it close?"},
        "outputs": {"answer": "At nine."},
        "required_outputs": ["answer"],
        "expected": {"answer": "It closes at nine. On Sundays at six!"},
        "retrieval": [
            {"id": "a", "text": "The shop closes at nine.", "rank": 1},
            {"id": "b", "text": "WRONG shop.", "rank": 2},
        ],
        **changes,
    }
    return {key: value for key, value in made.items() if value is not None}


def run_of(**changes: Any) -> Run:
    return read_run(Document(tree_of(**changes), "run"))


def taken(measure: str, **changes: Any) -> Any:
    return MEASURES[measure].take(run_of(**changes), MEASURES[measure].params)


@pytest.mark.parametrize(
    ("expected", "statements"),
    [
        ({"answer": "One. Two!\nThree"}, ["One.", "Two!", "Three"]),
        ({"answer": ["One.", "Two."], "relevant_ids": ["a"]}, ["One.", "Two."]),
        ({"other": "One."}, []),
        ({"answer": 3}, []),
        ({"answer": " . ?"}, []),
        ("One. Two.", ["One.", "Two."]),
        (None, []),
    ],
)
def test_the_statements_are_the_sentences_of_the_answer_expected_of_the_workflow(
    expected: Any, statements: list[str]
) -> None:
    assert statements_of(run_of(expected=expected)) == statements


def test_what_the_dataset_knows_and_what_was_decided_is_not_asked() -> None:
    def asked(again: bool = False, **changes: Any) -> list[tuple[str, int]]:
        items = [item_of(run_of(**changes))]
        return [(one.what, one.place) for one in passages_of(items, again=again)]

    both = [("statement", 0), ("statement", 1)]
    assert asked() == [("passage", 0), ("passage", 1), *both]
    assert asked(expected={"answer": "x", "relevant_ids": ["a"]}) == []
    assert asked(retrieval=[]) == asked(retrieval=None) == []
    decided = [{"id": "a", "text": "t", "relevant": False}, {"id": "b", "text": "u"}]
    assert asked(retrieval=decided) == [("passage", 1), *both]
    assert asked(again=True, retrieval=decided)[:2] == [("passage", 0), ("passage", 1)]
    claims = [{"text": "It closes at nine.", "supported": True}]
    assert asked(expected_claims=claims) == [("passage", 0), ("passage", 1)]
    assert asked(retrieval=[{"id": "a"}], expected=None) == []


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ({"reason": "r", "quotes": ["at nine"], "relevant": True}, "scored"),
        ({"reason": "r", "quotes": [], "relevant": False}, "scored"),
        ({"reason": "r", "quotes": [], "relevant": True}, "unparsable"),
        ({"reason": "r", "quotes": ["When does it"], "relevant": True}, "unparsable"),
        ({"reason": "r", "quotes": ["at nine"], "supported": True}, "unparsable"),
    ],
)
def test_a_passage_is_relevant_only_with_a_quote_from_it(
    reply: dict[str, Any], outcome: str
) -> None:
    question = PassageQuestion("When does it close?", "The shop closes at nine.")
    made = Reply(json.dumps(reply), None, "stop", 1, 1, None)
    assert read_verdict(made, question, question.schema()).outcome == outcome


def test_the_command_decides_passages_and_statements_and_the_measures_read_them(
    assay: Any, tmp_path: Path
) -> None:
    known = tree_of(run_id="r-2", expected={"answer": "x", "relevant_ids": ["a"]})
    empty = tree_of(run_id="r-3", retrieval=[])
    (tmp_path / "runs.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in (tree_of(), known, empty))
    )
    with reading_judge() as judge:
        choice = ("--model", "m", "--base-url", judge.url, "--no-journal")
        done = assay("judge", "passages", "runs.jsonl", *choice, "-o", "out.jsonl")
        assert done.code == 0, done.err
        assert len(judge.seen) == 4
        assert "1 of 2 passages are relevant, 1 are not, 0 have no verdict" in done.out
        again = assay("judge", "passages", "out.jsonl", *choice)
        assert again.code == 4
        assert "no undecided passage" in again.err
    first, second, third = (
        json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()
    )
    assert [passage["relevant"] for passage in first["retrieval"]] == [True, False]
    assert first["judge"]["prompt_version"] == "passage/1"
    assert [claim["text"] for claim in first["expected_claims"]] == [
        "It closes at nine.",
        "On Sundays at six!",
    ]
    assert second == known
    assert [claim["supported"] for claim in third["expected_claims"]] == [False, False]
    found = {
        item["name"]: item["raw_score"]
        for item in assay("grade", "out.jsonl", "--json").json()["results"][0]["criteria"]
    }
    assert found["context_precision"] == 1.0
    assert found["context_recall"] in (0, 0.0)  # the judge finds WRONG in the context


# --- the measures


def test_claims_supported_counts_verdicts_and_never_guesses_one() -> None:
    def claims(*verdicts: Any) -> list[dict[str, Any]]:
        return [{"text": "t", "citations": ["a"], "supported": one} for one in verdicts]

    assert taken("claims_supported", claims=claims(True, True, False)) == 0.666666667
    assert isinstance(taken("claims_supported", claims=claims(True, None)), Undetermined)
    assert isinstance(taken("claims_supported", claims=[]), Undetermined)
    assert isinstance(taken("claims_supported", claims=claims(True), retrieval=None), Undetermined)
    bare = [{"text": "t", "supported": True}]
    assert taken("claims_supported", claims=bare) == 0


def test_context_coverage_takes_the_ids_of_the_dataset_before_any_verdict() -> None:
    judged = [{"text": "t", "supported": True}, {"text": "u", "supported": True}]
    ids = {"relevant_ids": ["a", "z"]}
    assert taken("context_coverage", expected=ids, expected_claims=judged) == 0.5
    assert taken("context_coverage", expected_claims=judged) == 1
    assert taken("context_coverage", expected_claims=judged, retrieval=[]) == 0
    for changes in (
        {},
        {"expected_claims": []},
        {"expected_claims": [{"text": "t"}]},
        {"expected_claims": judged, "retrieval": None},
    ):
        assert isinstance(taken("context_coverage", **changes), Undetermined)


def test_an_evaluation_is_judged_by_its_name(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(tree_of()))
    assert assay("import", "runs.jsonl", "--name", "first").code == 0
    endpoint = ("--model", "m-1", "--base-url", "http://127.0.0.1:9/v1")
    done = assay("judge", "passages", "first", *endpoint, "--dry-run")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "Nothing was asked."
