"""Tables of ragas: the same samples from every file format, and NaN is missing."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError
from assay.services.importing import reasons_not_to_grade
from peer_files import RECORDED, broken, imported, survives, takers

ROWS: list[dict[str, Any]] = [
    {
        "user_input": "When does the ferry leave?",
        "retrieved_contexts": ["The ferry leaves at 9:30.", "It's free for 'dogs'."],
        "response": "At 9:30.",
        "reference": "9:30",
        "faithfulness": 1.0,
        "answer_relevancy": 0.9312,
        "factual_correctness(mode=f1)": 0.5,
    },
    {
        "user_input": "Is there a bus?",
        "retrieved_contexts": [],
        "response": "No idea.",
        "reference": "No",
        "faithfulness": None,
        "answer_relevancy": 0.0,
        "factual_correctness(mode=f1)": 0.0,
    },
]


def _saved(folder: Path) -> list[Path]:
    """The rows as pandas saves them."""
    import pandas as pd

    frame = pd.DataFrame(ROWS)
    frame.to_csv(folder / "index.csv")
    frame.to_csv(folder / "plain.csv", index=False)
    frame.to_json(folder / "columns.json")
    frame.to_json(folder / "records.json", orient="records")
    frame.to_json(folder / "lines.jsonl", orient="records", lines=True)
    frame.to_json(folder / "split.json", orient="split")
    import duckdb

    source = folder / "records.json"
    duckdb.execute(
        f"copy (from read_json('{source}')) to '{folder / 'table.parquet'}' (format parquet)"
    )
    return sorted(folder.glob("*.*"))


@pytest.mark.parametrize("made", json.loads((RECORDED / "ragas" / "made.json").read_text()))
def test_the_means_are_those_that_ragas_prints(made: Any) -> None:
    (path,) = [RECORDED / "ragas" / name for name in made["files"]]
    runs, tally = imported("ragas", path)
    totals = dict(made["totals"])
    assert totals.pop("samples") == len(runs)
    assert tally.metrics.keys() == totals.keys()
    for label, mean in totals.items():
        assert float(tally.metrics[label].mean) == pytest.approx(mean, abs=1e-12)
    assert tally.metrics["exact_match"].missing == 1, "a metric that failed has no value"


def test_every_file_format_gives_the_same_samples(tmp_path: Path) -> None:
    paths = _saved(tmp_path)
    assert len(paths) == 7
    wanted: Any = None
    for path in paths:
        assert takers(path) == ["ragas"], path.name
        runs, tally = imported("ragas", path)
        ids = [run.pop("run_id") for run in runs]
        lines = [run["metadata"]["imported"].pop("line", None) for run in runs]
        assert lines == {".csv": [2, 3], ".jsonl": [1, 2]}.get(path.suffix, [None, None])
        assert len(set(ids)) == 2
        shown = json.loads(json.dumps(runs, default=float))
        wanted = wanted or shown
        assert shown == wanted, path.name
        assert tally.metrics["faithfulness"].n == tally.metrics["faithfulness"].missing == 1
        assert tally.metrics["answer_relevancy"].mean == Decimal("0.4656")
    assert wanted[0]["outputs"] == {"answer": "At 9:30."}
    assert wanted[0]["expected"] == {"answer": "9:30"}
    assert wanted[0]["retrieval"][1] == {"id": "2", "text": "It's free for 'dogs'.", "rank": 2}
    assert wanted[1]["scores"]["faithfulness"]["raw"] is None
    assert wanted[1]["scores"]["factual_correctness_mode_f1"]["raw"] == 0
    assert wanted[0]["scores"]["faithfulness"]["source"]["kind"] == "llm"


def test_the_old_names_of_columns_are_known(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text(
        "question,answer,contexts,ground_truth,faithfulness,bleu_score,topic\n"
        "q,a,\"['x']\",g,0.5,0.25,boats\nq,,\"['x']\",g,n/a,high,boats\n"
    )
    assert takers(path) == ["ragas"]
    runs, tally = imported("ragas", path)
    assert [run["attempt"] for run in runs] == [1, 2]
    assert runs[0]["scores"]["bleu_score"]["source"]["kind"] == "script"
    assert runs[0]["metadata"] == {"topic": "boats", "imported": {"from": "ragas", "line": 2}}
    assert runs[1]["outputs"] == {}
    assert runs[1]["required_outputs"] == ["answer"]
    assert [one["raw"] for one in runs[1]["scores"].values()] == [None, None]
    assert tally.dropped == {"values of bleu_score that are not numbers": 1}


@pytest.mark.parametrize("column", ["error", "judge_error", "skipped", "status"])
def test_a_column_that_reports_a_failure_makes_its_row_missing_evidence(
    tmp_path: Path, column: str
) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{**ROWS[0], column: "error"}, {**ROWS[1], column: "ok"}]))
    runs, tally = imported("ragas", path)
    assert [run["status"] for run in runs] == ["error", "success"]
    assert {one["raw"] for one in runs[0]["scores"].values()} == {None}
    assert (runs[0]["metadata"]["reason"], tally.errors) == (f"{column}: error", 1)


@pytest.mark.parametrize(
    ("column", "bad", "good"),
    [
        *[("error", 429, None), ("failed", True, False), ("skipped", "yes", "no")],
        *[("exit_code", 1, 0), ("status_code", 503, 200), ("status", 500, 200)],
    ],
)
def test_a_failure_in_numbers_is_no_metric(
    tmp_path: Path, column: str, bad: Any, good: Any
) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{**ROWS[0], column: bad}, {**ROWS[1], column: good}]))
    runs, tally = imported("ragas", path)
    assert [run["status"] for run in runs] == ["error", "success"]
    assert column not in tally.metrics


def test_a_measure_of_error_is_not_dropped_without_a_note(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{**row, "mean_squared_error": 0.04} for row in ROWS]))
    runs, tally = imported("ragas", path)
    assert {run["status"] for run in runs} == {"success"}
    assert "the column mean_squared_error reports failures, so it isn't graded" in tally.notes


def test_text_in_the_column_of_a_metric_is_a_missing_value(tmp_path: Path) -> None:
    columns = ("faithfulness", "factual_correctness(mode=f1)", "note", "verdict")
    texts = dict(zip(columns, ("RateLimitError", "Timeout", "RateLimitError", "fail"), strict=True))
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{**row, **texts} for row in ROWS]))
    runs, tally = imported("ragas", path)
    values = {name: one["raw"] for name, one in runs[0]["scores"].items()}
    assert values == {
        "faithfulness": None,
        "answer_relevancy": Decimal("0.9312"),
        "factual_correctness_mode_f1": None,
        "verdict": 0,
    }
    assert runs[0]["metadata"] == {"note": "RateLimitError", "imported": {"from": "ragas"}}
    assert tally.dropped["values of faithfulness that are not numbers"] == 2


@pytest.mark.parametrize(
    "text", ["[__import__('os')]", "[" * 5000, "{'a': [" + "(" * 300 + "]}", "[1e999]"]
)
def test_text_that_looks_like_code_is_data(tmp_path: Path, text: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f'user_input,response,m\nq,"{text}",1\n')
    runs, _ = imported("ragas", path)
    assert runs[0]["outputs"]["answer"] == text
    path.write_text(f'user_input,retrieved_contexts,m\nq,"{text}",1\n')
    runs, _ = imported("ragas", path)
    assert runs[0]["retrieval"][0]["text"] in (text, "1E+999")


def test_a_damaged_table_is_refused_in_words_or_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    survived = 0
    for made in broken(ROWS, 120):
        path.write_text(json.dumps(made))
        survived += survives("ragas", path)
    assert 0 < survived < 120
    path.write_text('["user_input"]')
    with pytest.raises(AssayError, match="must be an object"):
        imported("ragas", path)


def test_only_columns_of_metrics_are_scores(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    extra = {"latency_s": 0.2, "our_own": 1, "noise_sensitivity(mode=relevant)": 0.1}
    path.write_text(json.dumps([{**row, **extra} for row in ROWS]))
    runs, tally = imported("ragas", path)
    assert "latency_s" not in runs[0]["scores"]
    assert "the column latency_s is not used: by its name it isn't a metric" in tally.notes
    reasons = reasons_not_to_grade("ragas", tally, where="rows.json")
    assert reasons["our_own"] == "ragas has no metric of this name"
    assert "lower is better" in reasons["noise_sensitivity_mode_relevant"]
    assert len(reasons) == 2
