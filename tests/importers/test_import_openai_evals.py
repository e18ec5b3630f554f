"""Logs of OpenAI evals and output items of its API: their accuracy, and no error that passes."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import InputError, NotEnoughEvidence
from assay.services.importing import import_runs
from peer_files import RECORDED, broken, imported, survives, takers

FOLDER = RECORDED / "openai_evals"
MATCH, FUZZY, ITEMS = (FOLDER / name for name in ("match.jsonl", "fuzzy.jsonl", "items.json"))
LINES = [json.loads(line) for line in MATCH.read_text().splitlines()]
PAGE = json.loads(ITEMS.read_text())


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verdicts(runs):
    return [run["gates"]["openai_evals_passed"]["passed"] for run in runs]


def test_each_file_is_taken_for_its_own() -> None:
    assert [takers(path) for path in (MATCH, FUZZY, ITEMS)] == [["openai_evals"]] * 3


def test_the_means_of_a_log_are_those_of_its_final_report() -> None:
    runs, tally = imported("openai_evals", MATCH)
    assert (len(runs), tally.passed, tally.stated) == (4, 2, {"correct": Decimal("0.5")})
    assert tally.metrics["correct"].mean == Decimal("0.5")
    assert runs[0]["workflow"] == {"id": "capitals.dev.match-v0", "version": "scripted-1"}
    assert runs[1]["gates"]["openai_evals_passed"]["reason"] == "expected 'Oslo'"
    assert runs[1]["outputs"] == {"answer": "The answer is Oslo"}
    runs, tally = imported("openai_evals", FUZZY)
    assert tally.stated == {"accuracy": Decimal("0.75"), "f1_score": Decimal("0.625")}
    assert {name: tally.metrics[name].mean for name in tally.stated} == tally.stated


def test_an_accuracy_that_the_verdicts_do_not_have_is_refused(tmp_path) -> None:
    better = [
        {"final_report": {"accuracy": 0.9}} if "final_report" in row else row for row in LINES
    ]
    (tmp_path / "made").mkdir()
    with pytest.raises(InputError, match=r"states a mean correct of 0\.9.* is 0\.5000"):
        import_runs([str(written(tmp_path / "x.jsonl", better))], str(tmp_path / "made"))


def test_a_sample_with_an_error_or_without_a_verdict_is_missing(tmp_path) -> None:
    error = {**LINES[2], "type": "error", "data": {"type": "ValueError", "message": "boom"}}
    rows = [line for line in LINES if line.get("event_id") != 3]
    runs, tally = imported("openai_evals", written(tmp_path / "x.jsonl", [*rows, error]))
    assert verdicts(runs) == [None, None, False, True]
    assert [run["status"] for run in runs] == ["error", "success", "success", "success"]
    assert runs[0]["scores"]["correct"]["raw"] is None
    assert runs[0]["gates"]["openai_evals_passed"]["reason"] == "boom"
    assert tally.verdicts == 2


def test_several_verdicts_of_a_sample_are_attempts(tmp_path) -> None:
    again = {**LINES[3], "event_id": 9, "data": {**LINES[3]["data"], "correct": False}}
    runs, tally = imported("openai_evals", written(tmp_path / "x.jsonl", [*LINES, again]))
    assert [run["attempt"] for run in runs] == [1, 2, 1, 1, 1]
    assert (len(runs), tally.passed) == (5, 2)


def test_a_log_without_a_final_report_did_not_finish(tmp_path) -> None:
    runs, tally = imported("openai_evals", written(tmp_path / "x.jsonl", [LINES[0], *LINES[2:]]))
    assert (runs[-1]["status"], runs[-1]["dataset"]["sample_id"]) == ("cancelled", "missing-1")
    assert "did not finish" in tally.notes[0]
    assert verdicts(runs)[-1] is None


def test_metrics_alone_need_no_verdict_and_texts_are_no_scores(tmp_path) -> None:
    data = {"choice": "A", "score": 0.5, "tries": None}
    event = {**LINES[3], "type": "metrics", "data": data}
    runs, tally = imported("openai_evals", written(tmp_path / "x.jsonl", [*LINES[:2], event]))
    assert "gates" not in runs[0]
    assert runs[0]["scores"]["score"]["source"]["kind"] == "llm"
    assert runs[0]["scores"]["tries"]["raw"] is None
    assert tally.dropped == {"metrics_that_are_no_number": 1}


def test_a_candidate_brings_no_eval_of_another_class_or_with_other_arguments(
    tmp_path, capsys
) -> None:
    def log(name: str, cls: str, **args: str) -> str:
        made = {"cls": cls, "args": {"samples_jsonl": f"/tmp/{name}.jsonl", **args}}
        spec = {"completion_fns": ["m"], "eval_name": "e.dev.v0", "run_id": "r"}
        event = {"run_id": "r", "type": "match", "data": {"correct": True, "sampled": "a"}}
        rows = [{"spec": {**spec, "run_config": {"eval_spec": made}}}]
        rows += [{**event, "sample_id": f"e.dev.{index}"} for index in range(60)]
        return str(written(tmp_path / f"{name}.jsonl", [*rows, {"final_report": {"accuracy": 1}}]))

    old = log("old", "basic.match:Match")
    assert assay(["gate", log("same", "basic.match:Match"), "--baseline", old]) == 0
    others = (
        log("loose", "basic.includes:Includes"),
        log("eased", "basic.match:Match", trim="yes"),
    )
    for other in others:
        capsys.readouterr()
        assert assay(["gate", other, "--baseline", old]) == 4
        assert "checked for different things" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([*LINES, LINES[0]], "a log has only one spec and one report"),
        ([*LINES, {**LINES[3], "run_id": "other"}], "belongs to the run 'other'"),
        (LINES[1:], "neither a log of `oaieval`"),
        ([*LINES[:2], {**LINES[3], "data": {"correct": 1}}], "`correct` must be true or false"),
    ],
)
def test_two_logs_in_one_file_are_refused(tmp_path, rows: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        imported("openai_evals", written(tmp_path / "x.jsonl", rows))


def test_items_of_the_api_pass_where_all_graders_pass() -> None:
    runs, tally = imported("openai_evals", ITEMS)
    assert verdicts(runs) == [True, False, None]
    assert [run["status"] for run in runs] == ["success", "success", "error"]
    assert runs[0]["scores"]["tone"] == {
        "raw": Decimal("0.8"),
        "source": {"kind": "llm", "name": "openai_evals:tone"},
    }
    assert runs[2]["scores"]["exact"]["raw"] is None
    assert runs[2]["gates"]["openai_evals_passed"]["reason"].endswith("Rate limit reached.")
    assert (runs[0]["workflow"]["id"], runs[0]["tokens"]) == ("eval_capitals", 21)
    assert tally.read == {"items": 3}


def test_items_come_as_pages_a_list_or_lines_and_a_missing_page_is_refused(tmp_path) -> None:
    lines = written(tmp_path / "items.jsonl", PAGE["data"])
    listed = tmp_path / "items.json"
    listed.write_text(json.dumps(PAGE["data"]))
    for path in (lines, listed):
        assert takers(path) == ["openai_evals"]
        assert verdicts(imported("openai_evals", path)[0]) == [True, False, None]
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    first.write_text(json.dumps({**PAGE, "data": PAGE["data"][:2], "has_more": True}))
    second.write_text(json.dumps({**PAGE, "data": PAGE["data"][2:]}))
    assert len(imported("openai_evals", first, second)[0]) == 3
    with pytest.raises(NotEnoughEvidence, match=r"only 2 items of the run .*: OpenAI has more"):
        imported("openai_evals", first)
    other = [{**item, "run_id": "other"} for item in PAGE["data"]]
    second.write_text(json.dumps({**PAGE, "data": other}))
    with pytest.raises(NotEnoughEvidence, match="only 2 items"):  # of one run all pages are here
        imported("openai_evals", first, second)


def test_an_item_that_contradicts_itself_is_refused_or_fails(tmp_path) -> None:
    path = tmp_path / "items.jsonl"
    with pytest.raises(InputError, match="status is 'pass', and 'exact' did not pass"):
        imported("openai_evals", written(path, [{**PAGE["data"][1], "status": "pass"}]))
    runs, _ = imported("openai_evals", written(path, [{**PAGE["data"][0], "status": "fail"}]))
    assert verdicts(runs) == [False]

    runs, _ = imported("openai_evals", written(path, [{**PAGE["data"][0], "results": []}]))
    assert verdicts(runs) == [None]
    for status in ("error", "canceled", "in_progress"):
        runs, _ = imported("openai_evals", written(path, [{**PAGE["data"][0], "status": status}]))
        assert (verdicts(runs), runs[0]["status"]) == ([None], "error")


def test_an_item_gains_nothing_by_losing_a_grader_or_its_score(tmp_path) -> None:
    first, second = (json.loads(json.dumps(one)) for one in PAGE["data"][:2])
    del first["results"][1]["score"]
    runs, _ = imported("openai_evals", written(tmp_path / "x.jsonl", [first, second]))
    assert verdicts(runs) == [True, False]
    assert runs[0]["scores"]["tone"]["raw"] is None
    del first["results"][1]
    runs, _ = imported("openai_evals", written(tmp_path / "x.jsonl", [first, second]))
    assert verdicts(runs) == [None, False]
    assert "tone (missing)" in runs[0]["gates"]["openai_evals_passed"]["reason"]


def test_damaged_files_are_refused_or_read_and_nothing_else(tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    results = [survives("openai_evals", written(path, one)) for one in broken(LINES[:5], 80)]
    for made in broken(PAGE, 100):
        path.write_text(json.dumps(made))
        results.append(survives("openai_evals", path))
    assert {True, False} <= set(results)
