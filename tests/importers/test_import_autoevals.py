"""Scores of autoevals: the scores of one answer are one sample, a skipped scorer is missing."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from assay.errors import InputError
from peer_files import RECORDED, SHARED, broken, imported, needs_shared, survives, takers

FOLDER = RECORDED / "autoevals"


@pytest.mark.parametrize("made", json.loads((FOLDER / "made.json").read_text()))
def test_the_means_are_those_of_the_scorers(made: Any) -> None:
    paths = [FOLDER / name for name in made["files"]]
    assert [takers(path) for path in paths] == [["autoevals"]] * len(paths)
    runs, tally = imported("autoevals", *paths)
    totals = dict(made["totals"])
    assert totals.pop("samples") == len(runs) == tally.samples
    for label, mean in totals.items():
        assert float(tally.metrics[tally.metric(label)].mean) == pytest.approx(mean, abs=1e-12)


def test_one_answer_by_several_scorers_is_one_sample() -> None:
    runs, tally = imported("autoevals", FOLDER / "scores.json")
    assert list(runs[0]["scores"]) == ["Levenshtein", "ExactMatch"]
    assert runs[0]["inputs"] == {"input": "Capital of France?"}
    assert runs[0]["expected"] == {"answer": "Paris"}
    assert tally.read == {"scores": 8}
    assert [metric.missing for metric in tally.metrics.values()] == [0, 0]


@needs_shared
def test_records_of_different_scorers_are_separate_checks() -> None:
    runs, tally = imported("autoevals", SHARED / "autoevals" / "scores.json")
    values = [run["scores"]["score"]["raw"] for run in runs]
    assert values[:3] == [Decimal("0.8"), 1, Decimal("0.9090909090909091")]
    assert len(runs) == 4
    assert runs[0]["tags"] == ["scorer:Levenshtein"]
    assert any("each score is a sample" in note for note in tally.notes)


def test_a_skipped_or_failed_scorer_is_missing_and_repeats_are_attempts(tmp_path) -> None:
    given = {"input": "q", "output": "a", "metadata": {}}
    records = [
        {"name": "A", "score": 1, **given},
        {"name": "B", "score": None, **given},
        {"name": "A", "score": 1, "error": "boom", **given},
        {"name": "B", "score": 0, **given},
        {"name": "A", "score": 0, **given, "output": "b"},
        {"name": "A", "score": 1, **given},
        {"name": "B", "score": 1, "error": "boom", **given},
    ]
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(records))
    runs, tally = imported("autoevals", path)
    assert [run["attempt"] for run in runs] == [1, 2, 3, 4]
    assert len({run["dataset"]["sample_id"] for run in runs}) == 1
    raw = [{name: one["raw"] for name, one in run["scores"].items()} for run in runs]
    lost = {"A": None, "B": None}
    assert raw == [{"A": 1, "B": None}, lost, {"A": 0, "B": None}, lost]
    assert tally.errors == 2


def test_added_keys_are_listed_and_a_further_result_is_never_dropped(tmp_path) -> None:
    given = {"score": 1, "metadata": {}, "input": "q", "output": "a", "tags": ["x"]}
    path = tmp_path / "scores.jsonl"
    path.write_text("\n".join(json.dumps({"name": name, **given}) for name in "AB"))
    assert takers(path) == ["autoevals"]
    runs, tally = imported("autoevals", path)
    assert [list(run["scores"]) for run in runs] == [["A", "B"]]
    assert "keys that are not used: tags" in tally.notes
    for key in ("passed", "error_type", "f1", "status"):
        added = {"name": "A", **given, "run_id": 1, key: False}
        path.write_text(json.dumps(added))
        assert "autoevals" not in takers(path)
        with pytest.raises(InputError, match=f"'{key}'.* may be a result"):
            imported("autoevals", path)


def test_what_is_not_a_score_is_refused(tmp_path) -> None:
    path = tmp_path / "scores.json"
    for text in ('[{"score": 1}]', '[{"name": "A", "score": "high"}]', "[1]", '[{"name": "A"'):
        path.write_text(text)
        with pytest.raises(InputError):
            imported("autoevals", path)
    tree = json.loads((FOLDER / "scores.json").read_text())[:3]
    results = []
    for made in broken(tree, 120):
        path.write_text(json.dumps(made))
        results.append(survives("autoevals", path))
    assert {True, False} <= set(results)
