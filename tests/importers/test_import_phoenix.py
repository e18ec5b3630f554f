"""Exports of Phoenix: experiments, and tables of spans with their annotations."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import AssayError, ExitCode, InputError
from peer_files import broken, imported, survives, takers


def _annotation(name: str, score: Any, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "annotator_kind": "CODE",
        "label": None,
        "score": score,
        "explanation": None,
        "trace_id": None,
        "error": None,
        "metadata": {},
        **more,
    }


def _run(example: str, annotations: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "example_id": example,
        "repetition_number": 1,
        "input": {"question": "Ferry?"},
        "reference_output": {"answer": "9:30"},
        "output": "At 9:30.",
        "error": None,
        "latency_ms": 120.5,
        "start_time": "2026-01-02T03:04:05+00:00",
        "prompt_token_count": 10,
        "completion_token_count": 5,
        "annotations": annotations,
        **more,
    }


EXPERIMENT = [
    _run(
        "RGF0YToxMQ==",
        [_annotation("exact", 1), _annotation("judge", 0.5, annotator_kind="LLM", label="ok")],
    ),
    _run("RGF0YToxMQ==", [_annotation("exact", 0)], repetition_number=2),
    _run(
        "RGF0YToxMg==",
        [_annotation("exact", None, error="boom"), _annotation("tone", None, label="warm")],
    ),
    _run("RGF0YToxMw==", [_annotation("exact", 1)], output=None, error="timed out"),
]


def _file(folder: Path, tree: Any, name: str = "greedy.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(tree))
    return path


def _values(run: dict[str, Any]) -> dict[str, Any]:
    return {name: one["raw"] for name, one in run.get("scores", {}).items()}


def test_an_experiment_has_one_sample_for_each_run(tmp_path: Path) -> None:
    path = _file(tmp_path, EXPERIMENT)
    assert takers(path) == ["phoenix"]
    runs, tally = imported("phoenix", path)
    assert [_values(run) for run in runs] == [
        {"exact": 1, "judge": Decimal("0.5")},
        {"exact": 0},
        {"exact": None},
        {"exact": None},
    ]
    assert [run["attempt"] for run in runs] == [1, 2, 1, 1]
    assert [run["status"] for run in runs] == ["success"] * 3 + ["error"]
    assert runs[0]["scores"]["judge"]["source"]["kind"] == "llm"
    assert runs[0]["expected"] == {"answer": "9:30"}
    assert runs[0]["latency_ms"] == Decimal("120.5")
    assert runs[0]["tokens"] == 15
    assert runs[0]["workflow"] == {"id": "phoenix", "version": "greedy"}
    assert tally.read == {"experiment runs": 4, "annotators that failed": 1}
    assert tally.dropped == {"labels without a score, which are not graded": 1}


def test_a_label_that_says_which_way_is_better_is_a_score(tmp_path: Path) -> None:
    labels = {"correct": 1, "Incorrect": 0, "relevant": 1, "unrelated": 0, "no": 0, "true": 1}
    tree = [
        _run(f"e{number}", [_annotation("check", None, label=label)])
        for number, label in enumerate([*labels, "warm"])
    ]
    runs, tally = imported("phoenix", _file(tmp_path, tree))
    assert [_values(run).get("check") for run in runs] == [*labels.values(), None]
    assert (tally.metrics["check"].n, tally.metrics["check"].words) == (len(labels), 1)


def test_the_label_counts_where_a_score_may_be_better_when_lower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def experiment(name: str, score: int | None, **labels: str) -> Path:
        runs = [
            _run(f"e{n}", [_annotation(one, score, label=label) for one, label in labels.items()])
            for n in range(60)
        ]
        return _file(tmp_path, runs, name)

    old = experiment("old.json", 0, hallucination="factual", toxicity="non-toxic")
    runs, _ = imported("phoenix", old)
    assert _values(runs[0]) == {"hallucination/factual": 1, "toxicity/non-toxic": 1}
    experiment("new.json", 1, hallucination="hallucinated", toxicity="non-toxic")
    experiment("hidden.json", 1, hallucination="?", toxicity="non-toxic")
    assert assay(["gate", "old.json", "--baseline", "old.json"]) == ExitCode.PASSED
    for name in ("new.json", "hidden.json"):
        assert assay(["gate", name, "--baseline", "old.json"]) == ExitCode.FAILED


def test_a_label_that_contradicts_its_score_is_refused(tmp_path: Path) -> None:
    """Graded by the score alone, `incorrect` with 1 would be the best answer."""
    for label, score in (("incorrect", 1), ("correct", 0), ("fail", 1.0)):
        path = _file(tmp_path, [_run("e1", [_annotation("check", score, label=label)])])
        with pytest.raises(InputError, match=f"label '{label}' and the score {score}") as error:
            imported("phoenix", path)
        assert "--map score:check=check:1..0." in error.value.fix
    path = _file(tmp_path, [_run("e1", [_annotation("check", 0.7, label="incorrect")])])
    assert _values(imported("phoenix", path)[0][0]) == {"check": Decimal("0.7")}


def test_an_experiment_as_csv_is_the_same(tmp_path: Path) -> None:
    import pandas as pd

    records = []
    for run in EXPERIMENT:
        record = {key: value for key, value in run.items() if key != "annotations"}
        record |= {key: json.dumps(run[key]) for key in ("input", "reference_output")}
        for one in run["annotations"]:
            for key in ("label", "score", "explanation", "annotator_kind", "error"):
                record[f"annotation_{one['name']}_{key}"] = one[key]
        records.append(record)
    pd.DataFrame(records).to_csv(tmp_path / "greedy.csv", index=False)
    assert takers(tmp_path / "greedy.csv") == ["phoenix"]
    runs, _ = imported("phoenix", tmp_path / "greedy.csv")
    wanted, _ = imported("phoenix", _file(tmp_path, EXPERIMENT))
    for run in (*runs, *wanted):
        run.pop("run_id")
    assert [run["metadata"]["imported"].pop("line") for run in runs] == [2, 3, 4, 5]
    assert runs == wanted


def test_annotations_are_joined_with_their_spans(tmp_path: Path) -> None:
    spans = tmp_path / "spans.csv"
    spans.write_text(
        "context.span_id,context.trace_id,parent_id,name,span_kind,status_code,attributes.input.value,attributes.output.value\n"
        "s1,t1,,chat,CHAIN,OK,Ferry?,At 9:30.\n"
        "s2,t1,s1,llm,LLM,OK,Ferry?!,At 9:30\n"
        "s3,t2,,chat,CHAIN,OK,Bus?,No\n"
        "s4,t3,,chat,CHAIN,ERROR,Taxi?,\n"
    )
    annotations = tmp_path / "annotations.jsonl"
    rows = [
        {
            "span_id": "s2",
            "annotation_name": "correct",
            "annotator_kind": "LLM",
            "result.label": "yes",
            "result.score": 1,
            "result.explanation": "right",
        },
        {
            "span_id": "s4",
            "annotation_name": "correct",
            "annotator_kind": "LLM",
            "result.label": "yes",
            "result.score": 1,
            "result.explanation": None,
        },
        {
            "span_id": "s9",
            "annotation_name": "correct",
            "annotator_kind": "LLM",
            "result.label": "no",
            "result.score": 0,
            "result.explanation": None,
        },
    ]
    annotations.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert takers(spans) == takers(annotations) == ["phoenix"]
    runs, tally = imported("phoenix", spans, annotations)
    assert [(run["inputs"]["input"], run["status"], _values(run)) for run in runs] == [
        ("Ferry?!", "success", {"correct": 1}),
        ("Bus?", "success", {}),
        ("Taxi?", "error", {"correct": None}),
    ]
    assert tally.dropped == {
        "spans without annotations, in traces that have some": 1,
        "annotations of spans that are not in the files": 1,
    }
    runs, _ = imported("phoenix", annotations)
    assert [run["dataset"]["sample_id"] for run in runs] == ["s2", "s4", "s9"]
    assert runs[0]["required_outputs"] == []


def test_evaluations_without_a_name_are_named_after_their_file(tmp_path: Path) -> None:
    path = tmp_path / "hallucination.csv"
    path.write_text("context.span_id,label,score,explanation\ns1,factual,1,fine\ns2,,,\n")
    assert takers(path) == ["phoenix"]
    runs, _ = imported("phoenix", path)
    assert [_values(run) for run in runs] == [{"hallucination/factual": 1}, {}]


def test_a_candidate_brings_no_other_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(name: str, model: str) -> str:
        by = {"annotator_kind": "LLM", "metadata": {"model": model}}
        runs = [_run(f"e{index}", [_annotation("good", 1, **by)]) for index in range(60)]
        return str(_file(tmp_path, runs, f"{name}.json"))

    def flat(name: str, model: str) -> str:
        row = {**_run("", []), "annotation_good_score": 1, "annotation_good_annotator_kind": "LLM"}
        row["annotation_good_metadata"] = json.dumps({"model": model})
        del row["annotations"]
        runs = [{**row, "example_id": f"e{index}"} for index in range(60)]
        return str(_file(tmp_path, runs, f"{name}.json"))

    old = judged("old", "m-1")
    for same in (judged("same", "m-1"), flat("flat", "m-1")):
        assert assay(["gate", same, "--baseline", old]) == 0
    for other in (judged("other", "yes-2"), flat("flat", "yes-2")):
        capsys.readouterr()
        assert assay(["gate", other, "--baseline", old]) == 4
        assert "checked for different things" in capsys.readouterr().out


def test_a_damaged_export_is_refused_in_words_or_read(tmp_path: Path) -> None:
    survived = 0
    for made in broken(EXPERIMENT, 120):
        survived += survives("phoenix", _file(tmp_path, made))
    assert 0 < survived < 120
    wrong = [_run("a", [_annotation("exact", "high")])]
    with pytest.raises(AssayError, match="'high', not a number"):
        imported("phoenix", _file(tmp_path, wrong))
