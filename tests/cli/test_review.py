"""What a newcomer tripped over, held down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay as product
from assay.canon import encode
from assay.errors import AssayError
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.services.grading import Grader
from checkout import ROOT
from documents import run, scorecard

EXAMPLES = ROOT / "src" / "assay" / "cli" / "examples"


@pytest.mark.parametrize(
    ("kind", "name"), [("profile", "rag"), ("policy", "workflow"), ("rubric", "rag")]
)
def test_a_changed_copy_of_a_published_file_is_refused_by_path_too(
    assay: Any, tmp_path: Path, kind: str, name: str
) -> None:
    text = Path(Shelf().find({"policy": "policies"}.get(kind, f"{kind}s"), name).path).read_text()
    (tmp_path / "mine.yaml").write_text(text + "# a remark\n")
    (tmp_path / "run.json").write_text(json.dumps(run("rag")))
    done = assay("grade", "run.json", f"--{kind}", "mine.yaml", "--json")
    assert done.code == 3
    assert json.loads(done.err)["error"]["code"] == "LIB-003"
    (tmp_path / "same.yaml").write_text(text)
    assert assay("grade", "run.json", f"--{kind}", "same.yaml").code == 0


@pytest.mark.parametrize("role", ["correctnes", "Correctness", "safty"])
def test_a_slip_of_a_role_that_has_a_floor_is_refused(role: str) -> None:
    with pytest.raises(AssayError) as refused:
        product.grade(scorecard({"norm": 0.1, "role": role}, {"norm": 1, "weight": 99}))
    assert refused.value.code == "GRD-108"
    assert "Did you mean" in str(refused.value)


def test_a_role_of_ones_own_is_no_slip() -> None:
    assert product.grade(scorecard({"norm": 1, "role": "style"})).passed


def test_a_slip_of_a_role_is_found_in_a_profile_and_in_a_policy(assay: Any, tmp_path: Path) -> None:
    profile = (
        Path(Shelf().find("profiles", "rag").path)
        .read_text()
        .replace("profile: rag", "profile: mine")
        .replace("role: correctness", "role: correctnes")
    )
    policy = (
        Path(Shelf().find("policies", "workflow").path)
        .read_text()
        .replace("policy: workflow", "policy: mine")
        .replace("safety:", "safty:")
    )
    (tmp_path / "profile.yaml").write_text(profile)
    (tmp_path / "policy.yaml").write_text(policy)
    done = assay("library", "check", "profile.yaml", "policy.yaml")
    assert done.code == 3
    assert "Did you mean 'correctness'?" in done.out
    assert "Did you mean 'safety'?" in done.out


def test_a_file_on_the_shelf_must_be_called_what_it_holds(assay: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "profiles"
    folder.mkdir(parents=True)
    text = (
        Path(Shelf().find("profiles", "rag").path)
        .read_text()
        .replace("profile: rag", "profile: other")
        .replace("alias: C\n", "")
    )
    (folder / "support@1.yaml").write_text(text)
    done = assay("library", "check", "--library", "mine")
    assert done.code == 3
    assert "is named 'support@1' but contains 'other@1'" in done.out
    (tmp_path / "run.json").write_text(
        json.dumps(run("rag", workflow={"id": "w", "version": "1", "profile": "support"}))
    )
    graded = assay("grade", "run.json", "--library", "mine")
    assert graded.code == 3
    assert "mine/profiles/support@1.yaml" in graded.err


def test_a_stream_that_failed_as_a_whole_counts_nothing_as_graded(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(run("rag")) + "\n{\n")
    done = assay("grade", "runs.jsonl", "--json")
    assert done.code == 3
    counts = done.json()["counts"]
    assert (
        counts["documents"],
        counts["graded"],
        counts["passed"],
        counts["failed"],
        counts["faults"],
    ) == (2, 0, 0, 0, 1)
    assert set(counts["grades"].values()) == {0}


def test_a_score_that_was_clamped_is_said_to_be(assay: Any, tmp_path: Path) -> None:
    evidence = run("rag")
    evidence["scores"]["response_relevance"] = {"raw": 90}
    (tmp_path / "run.json").write_text(json.dumps(evidence))
    done = assay("explain", "run.json")
    assert (
        "response_relevance: raw 90 is outside 0..1 and was clamped. Is it a percentage?"
        in done.out
    )


def test_rank_shows_who_passed(assay: Any) -> None:
    done = assay("report", "rank", *sorted(EXAMPLES.glob("*.jsonl")), "--json")
    order = {item["run_id"]: item for item in done.json()["order"]}
    assert (
        order["medicine-leaflet-answers"]["grade"],
        order["medicine-leaflet-answers"]["passed"],
    ) == ("D", 0)
    assert (order["tutor-essay-feedback"]["grade"], order["tutor-essay-feedback"]["passed"]) == (
        "A",
        1,
    )


def test_explain_of_a_document_it_does_not_read_says_so_also_with_a_run_named(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "decision.json").write_text('{"schema": "assay.decision/1"}')
    done = assay("explain", "decision.json", "--run", "r-1")
    assert done.code == 3
    assert "FIL-006" in done.err
    (tmp_path / "grades.json").write_text('{"schema": "assay.grades/1", "results": []}')
    done = assay("explain", "grades.json", "--run", "r-1")
    assert done.code == 4  # it reads grades, and there is none
    assert "FIL-005" in done.err


def test_the_python_functions_say_which_one_comes_first() -> None:
    with pytest.raises(AssayError, match=r"assay\.score"):
        product.grade(run("rag"))
    with pytest.raises(AssayError, match=r"assay\.grade"):
        product.explain(product.score(run("rag")))


def test_an_empty_list_of_claims_is_told_apart_from_none_at_all() -> None:
    empty = product.score(run("rag", claims=[])).gate_reasons["answer_grounded"]
    absent = product.score(run("rag", claims=None)).gate_reasons["answer_grounded"]
    assert "at least one claim" in empty
    assert "lists no `claims`" in absent


def test_a_scorecard_that_names_a_profile_must_have_its_gates(assay: Any, tmp_path: Path) -> None:
    said = {"id": "rag@1", "why": "so it says"}
    card = scorecard(
        {"norm": 1},
        hard_gates={"overall_status_success": True},
        profile=said,
        gate_reasons={"answer_grounded": "all is well"},
    )
    (tmp_path / "card.json").write_text(json.dumps(card))
    done = assay("grade", "card.json", "--json")
    assert done.code == 1
    result = done.json()["results"][0]
    assert result["profile"] == "rag@1"
    assert result["hard_gates"]["answer_grounded"]["status"] == "undetermined"
    assert "requires this gate" in result["hard_gates"]["answer_grounded"]["reason"]


def test_a_scorecard_that_a_run_was_scored_to_is_graded_as_the_run_is() -> None:
    card = json.loads(encode(product.score(run("rag"))))
    graded = Grader(Shelf()).grade(Document(card, "card")).grade
    assert (graded.grade, graded.passed, graded.hard_gate_failures) == ("A", True, ())


def test_a_scorecard_that_names_a_profile_nobody_has_is_refused(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(
        json.dumps(scorecard({"norm": 1}, profile={"id": "nobodys@1", "why": "x"}))
    )
    done = assay("grade", "card.json")
    assert done.code == 3
    assert "nobodys@1" in done.err


@pytest.mark.parametrize("lock", ["not json", "[]", "{}", '{"published": []}'])
@pytest.mark.parametrize(
    "choice",
    [
        ["--library", "mine", "--profile", "own"],
        ["--profile", "mine/profiles/own@1.yaml"],
    ],
)
def test_a_lock_that_is_none_is_an_error_and_no_fault_of_ours(
    assay: Any, tmp_path: Path, lock: str, choice: Any
) -> None:
    folder = tmp_path / "mine" / "profiles"
    folder.mkdir(parents=True)
    text = (
        Path(Shelf().find("profiles", "rag").path)
        .read_text()
        .replace("profile: rag", "profile: own")
        .replace("alias: C\n", "")
    )
    (folder / "own@1.yaml").write_text(text)
    (tmp_path / "mine" / "published.lock").write_text(lock)
    (tmp_path / "run.json").write_text(json.dumps(run("rag")))
    done = assay("grade", "run.json", *choice)
    assert done.code == 3
    assert "published.lock" in done.err
