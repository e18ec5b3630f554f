"""Evaluation tables of MLflow: of `evaluate`, of `genai.evaluate`, and of traces."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import AssayError, ExitCode
from peer_files import RECORDED, broken, imported, survives, takers

TABLE: dict[str, Any] = {
    "columns": [
        "question",
        "targets",
        "outputs",
        "latency",
        "token_count",
        "toxicity/v1/score",
        "answer_similarity/v1/score",
        "answer_similarity/v1/justification",
    ],
    "data": [
        ["Ferry?", "9:30", "At 9:30.", 0.25, 4, 0.001, 5, "same time"],
        ["Bus?", "No", None, 0.5, 0, 0.0, None, None],
    ],
}
GENAI = [
    {
        "request_id": "a1",
        "inputs": {"question": "Ferry?"},
        "outputs": "At 9:30.",
        "expectations": {"expected_response": "9:30"},
        "trace": '{"info": {}}',
        "correctness/value": "yes",
        "correctness/rationale": "It says so.",
        "correctness/error_message": None,
        "correctness/error_code": None,
        "length/value": 0.5,
        "length/rationale": None,
        "tone/value": "friendly",
        "tone/rationale": "polite",
    },
    {
        "request_id": "a2",
        "inputs": {"question": "Bus?"},
        "outputs": "Yes",
        "expectations": {},
        "correctness/value": None,
        "correctness/rationale": None,
        "correctness/error_message": "the judge timed out",
        "correctness/error_code": "JUDGE_ERROR",
        "length/value": True,
        "tone/value": "curt",
    },
    {
        "request_id": "a3",
        "inputs": {"question": "Taxi?"},
        "error_message": "no answer",
        "correctness/value": "no",
        "length/value": 1,
    },
]
TRACES = [
    {
        "trace_id": "tr-1",
        "state": "OK",
        "request": '{"question": "Ferry?"}',
        "response": "At 9:30.",
        "execution_duration": 250,
        "assessments": [
            {
                "assessment_name": "correctness",
                "source": {"source_type": "LLM_JUDGE", "source_id": "m"},
                "feedback": {"value": "yes"},
                "rationale": "right",
            },
            {"assessment_name": "expected_answer", "expectation": {"value": "9:30"}},
        ],
    },
    {
        "trace_id": "tr-2",
        "state": "ERROR",
        "request": '{"question": "Bus?"}',
        "response": None,
        "execution_duration": 10,
        "assessments": [{"name": "correctness", "feedback": {"value": True}, "rationale": None}],
    },
]


def _file(folder: Path, tree: Any, name: str = "table.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(tree))
    return path


def _scores(run: dict[str, Any]) -> dict[str, Any]:
    return {name: one["raw"] for name, one in run["scores"].items()}


def test_a_results_table_has_its_scores_and_answers(tmp_path: Path) -> None:
    path = _file(tmp_path, TABLE, "eval_results_table.json")
    assert takers(path) == ["mlflow"]
    runs, tally = imported("mlflow", path)
    assert _scores(runs[0]) == {"toxicity/v1": Decimal("0.001"), "answer_similarity/v1": 5}
    assert _scores(runs[1]) == {"toxicity/v1": 0, "answer_similarity/v1": None}
    assert runs[0]["inputs"] == {"input": "Ferry?"}
    assert runs[0]["expected"] == {"answer": "9:30"}
    assert runs[0]["latency_ms"] == 250
    assert runs[1]["outputs"] == {}
    assert runs[1]["required_outputs"] == ["answer"]
    assert runs[0]["metadata"]["reasons"] == {"answer_similarity/v1": "same time"}
    assert runs[0]["scores"]["answer_similarity/v1"]["source"]["kind"] == "llm"
    assert tally.read == {"rows": 2}


def test_assessments_of_one_name_count_with_their_mean_and_overridden_ones_do_not(
    tmp_path: Path,
) -> None:
    def scores(*assessments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        listed = [{"assessment_name": "correctness", **one} for one in assessments]
        runs, tally = imported("mlflow", _file(tmp_path, [{**TRACES[0], "assessments": listed}]))
        return _scores(runs[0]), tally.dropped

    no, yes = ({"valid": True, "feedback": {"value": word}} for word in ("no", "yes"))
    assert scores(no, yes) == ({"correctness": Decimal("0.5")}, {})
    assert scores({"feedback": {"value": None, "error": {"error_code": "X"}}}, yes)[0] == {
        "correctness": None
    }
    corrected = {"assessments that others override": 1}
    assert scores({**no, "valid": False}, yes) == ({"correctness": 1}, corrected)
    # an assessment that nothing replaces is missing, not gone
    assert scores({**no, "valid": False}) == ({"correctness": None}, corrected)


def test_a_candidate_brings_no_other_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(name: str, model: str, unjudged: int = 0) -> str:
        source = {"source_type": "LLM_JUDGE", "source_id": model}
        assessment = {"assessment_name": "good", "source": source, "feedback": {"value": "yes"}}
        rows = [
            {
                "trace_id": f"t{index}",
                "state": "OK",
                "request": {"q": index},
                "response": "a",
                "assessments": [assessment] * (index >= unjudged),
            }
            for index in range(60)
        ]
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(rows))
        return str(path)

    old = judged("old", "openai:/gpt-4o")
    assert assay(["gate", judged("same", "openai:/gpt-4o"), "--baseline", old]) == 0
    for name, model, unjudged in (("other", "always-yes", 0), ("part", "openai:/gpt-4o", 1)):
        capsys.readouterr()
        code = 4 if name == "other" else 1
        assert assay(["gate", judged(name, model, unjudged), "--baseline", old]) == code
        is_other = "0 paired samples" in capsys.readouterr().out
        assert is_other is (name == "other")
    # nor people who override the judge
    path = Path(judged("people", "openai:/gpt-4o"))
    tree = json.loads(path.read_text())
    (good,) = tree[-1]["assessments"]
    person = {"source_type": "HUMAN", "source_id": "ann"}
    tree[-1]["assessments"] = [{**good, "valid": False}, {**good, "source": person}]
    path.write_text(json.dumps(tree))
    assert assay(["gate", str(path), "--baseline", old]) == 1
    assert "checked for different things" in capsys.readouterr().out


def test_feedback_of_genai_counts_yes_as_one_and_a_failed_judge_as_missing(tmp_path: Path) -> None:
    path = _file(tmp_path, GENAI)
    assert takers(path) == ["mlflow"]
    runs, tally = imported("mlflow", path)
    assert _scores(runs[0]) == {"correctness": 1, "length": Decimal("0.5")}
    assert _scores(runs[1]) == {"correctness": None, "length": 1}
    assert _scores(runs[2]) == {"correctness": None, "length": None}
    assert [run["status"] for run in runs] == ["success", "success", "error"]
    assert runs[0]["metadata"]["labels"] == {"tone": "friendly"}
    assert runs[0]["expected"] == {"expected_response": "9:30"}
    assert tally.dropped == {"values in words, which are not graded": 2}
    import pandas as pd

    pd.DataFrame(GENAI).to_csv(tmp_path / "t.csv", index=False)
    assert takers(tmp_path / "t.csv") == ["mlflow"]
    again, _ = imported("mlflow", tmp_path / "t.csv")
    assert [_scores(run) for run in again] == [_scores(run) for run in runs]
    assert [run["dataset"] for run in again] == [run["dataset"] for run in runs]


def test_assessments_of_traces_are_scores_and_expectations(tmp_path: Path) -> None:
    path = _file(tmp_path, TRACES)
    assert takers(path) == ["mlflow"]
    runs, _ = imported("mlflow", path)
    assert _scores(runs[0]) == {"correctness": 1}
    assert _scores(runs[1]) == {"correctness": None}
    assert runs[0]["expected"] == {"expected_answer": "9:30"}
    assert runs[0]["latency_ms"] == 250
    assert runs[0]["scores"]["correctness"]["source"]["kind"] == "llm"
    assert runs[1]["status"] == "error"
    for state in ("TraceState.ERROR", "IN_PROGRESS", "TraceState.IN_PROGRESS"):
        unfinished = [{**TRACES[0], "state": state}]
        (run,), _ = imported("mlflow", _file(tmp_path, unfinished, "unfinished.json"))
        assert run["status"] == "error"


def test_a_verdict_in_words_is_graded_and_any_other_word_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def rows(verdict: str) -> list[dict[str, Any]]:
        return [
            {
                "inputs": f"q{number}",
                "outputs": "a",
                "correctness/value": verdict,
                "correctness/rationale": "because",
                "tone/value": 1,
            }
            for number in range(60)
        ]

    _file(tmp_path, rows("pass"), "old.json")
    _file(tmp_path, rows("FAIL"), "new.json")
    assert assay(["gate", "new.json", "--baseline", "old.json"]) == ExitCode.FAILED
    assert assay(["gate", "old.json", "--baseline", "old.json"]) == ExitCode.PASSED
    capsys.readouterr()
    assert assay(["grade", str(_file(tmp_path, rows("superb")))]) == ExitCode.PASSED
    assert "correctness is not graded: its values are not numbers" in capsys.readouterr().err
    assert imported("mlflow", tmp_path / "table.json")[1].metrics["correctness"].words == 60
    # text where MLflow writes only numbers is a value that is missing
    tree = {**TABLE, "data": [[*TABLE["data"][0][:6], "RateLimitError", None]]}
    runs, _ = imported("mlflow", _file(tmp_path, tree))
    assert _scores(runs[0])["answer_similarity/v1"] is None


def test_a_damaged_table_is_refused_in_words_or_read(tmp_path: Path) -> None:
    survived = count = 0
    for tree in (TABLE, GENAI, TRACES):
        for made in broken(tree, 80):
            survived += survives("mlflow", _file(tmp_path, made))
            count += 1
    assert 0 < survived < count
    wrong = [{**TRACES[0], "assessments": "some"}]
    with pytest.raises(AssayError, match="must be a list"):
        imported("mlflow", _file(tmp_path, wrong))


@pytest.mark.parametrize("made", json.loads((RECORDED / "mlflow" / "made.json").read_text()))
def test_the_means_are_those_that_mlflow_reports_and_expectations_are_no_metrics(made: Any) -> None:
    (path,) = [RECORDED / "mlflow" / name for name in made["files"]]
    runs, tally = imported("mlflow", path)
    totals = dict(made["totals"])
    assert totals.pop("samples") == len(runs)
    assert tally.metrics.keys() == totals.keys()
    for label, mean in totals.items():
        assert float(tally.metrics[label].mean) == pytest.approx(mean, abs=1e-12)
    assert not any(metric.judged for metric in tally.metrics.values())
    assert tally.read == {"rows": 4, "failed scorers": 1}
    assert all(run["expected"].keys() == {"expected_response", "length"} for run in runs)


def test_a_column_of_ones_own_that_reports_a_failure_is_missing_evidence(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    for row in (failed := [dict(one) for one in GENAI[:2]]):
        row["judge_error"] = None
    failed[0]["judge_error"] = "no answer"
    path.write_text(json.dumps(failed))
    runs, _ = imported("mlflow", path)
    assert [run["status"] for run in runs] == ["error", "success"]
    assert {one["raw"] for one in runs[0]["scores"].values()} == {None}
