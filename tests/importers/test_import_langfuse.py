"""Exports of Langfuse: traces, observations and scores, alone and joined."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import AssayError, NotEnoughEvidence
from peer_files import broken, imported, survives, takers


def _score(trace: str, name: str, value: Any, kind: str = "NUMERIC", **more: Any) -> dict[str, Any]:
    return {
        "id": f"s-{trace}-{name}",
        "traceId": trace,
        "name": name,
        "value": value,
        "dataType": kind,
        "source": "API",
        "timestamp": "2026-01-02T03:04:05.000Z",
        **more,
    }


SCORES = [
    _score("t1", "accuracy", 0.5, source="EVAL"),
    _score("t1", "accuracy", 1, observationId="o1"),
    _score("t1", "polite", 1, "BOOLEAN", stringValue="True"),
    _score("t1", "tone", 0, "CATEGORICAL", stringValue="warm"),
    _score("t2", "accuracy", 0.25),
]
TRACES: list[dict[str, Any]] = [
    {
        "id": "t1",
        "timestamp": "2026-01-02T03:04:05.000Z",
        "name": "chat",
        "release": "v7",
        "sessionId": None,
        "bookmarked": False,
        "input": {"question": "Ferry?"},
        "output": "At 9:30.",
        "latency": 1.5,
        "totalCost": 0.002,
        "level": "DEFAULT",
        "observationCount": 3,
        "totalTokens": "12",
        "tags": ["prod"],
        "accuracy": [0.5, 1],
        "polite": [1],
        "tone": ["warm"],
        "unrelated": None,
    },
    {
        "id": "t2",
        "timestamp": "2026-01-02T03:05:05.000Z",
        "name": "chat",
        "bookmarked": False,
        "input": {"question": "Bus?"},
        "output": None,
        "level": "ERROR",
        "observationCount": 1,
        "tags": [],
        "accuracy": [0.25],
        "polite": None,
        "tone": None,
        "unrelated": None,
    },
    {
        "id": "t3",
        "timestamp": "2026-01-02T03:06:05.000Z",
        "name": "chat",
        "bookmarked": False,
        "input": {"question": "Taxi?"},
        "output": "No.",
        "tags": [],
        "accuracy": None,
    },
]


def _file(folder: Path, tree: Any, name: str = "export.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(tree))
    return path


def _values(run: dict[str, Any]) -> dict[str, Any]:
    return {name: one["raw"] for name, one in run.get("scores", {}).items()}


def test_a_category_that_is_a_verdict_is_a_score(tmp_path: Path) -> None:
    scores = [
        _score("t1", "right", None, "CATEGORICAL", stringValue="fail"),
        _score("t2", "right", 1, "CATEGORICAL", stringValue="Pass"),
        _score("t2", "tone", 0, "CATEGORICAL", stringValue="warm"),
    ]
    runs, tally = imported("langfuse", _file(tmp_path, scores))
    assert [_values(run) for run in runs] == [{"right": 0}, {"right": 1}]
    assert tally.metrics["tone"].words == 1


def test_an_export_of_traces_has_its_scores_as_columns(tmp_path: Path) -> None:
    import pandas as pd

    path = _file(tmp_path, TRACES)
    frame = pd.DataFrame(TRACES)
    for name in ("input", "tags", "accuracy", "polite", "tone"):
        frame[name] = [None if isinstance(one, float) else json.dumps(one) for one in frame[name]]
    frame.to_csv(tmp_path / "export.csv", index=False)
    for one in (path, tmp_path / "export.csv"):
        assert takers(one) == ["langfuse"]
        runs, tally = imported("langfuse", one)
        assert _values(runs[0]) == {"accuracy": Decimal("0.75"), "polite": 1}
        assert _values(runs[1]) == {"accuracy": None}
        assert _values(runs[2]) == {}
        assert [run["status"] for run in runs] == ["success", "error", "success"]
        assert runs[0]["workflow"] == {"id": "chat", "version": "v7"}
        assert runs[0]["inputs"] == {"question": "Ferry?"}
        assert runs[0]["outputs"] == {"answer": "At 9:30."}
        assert runs[0]["latency_ms"] == 1500
        assert runs[0]["cost_usd"] == Decimal("0.002")
        assert tally.read == {"traces": 3}
        assert tally.dropped == {"categorical scores, which are not graded": 1}


def test_a_page_of_the_api_has_scores_with_each_trace(tmp_path: Path) -> None:
    page = {
        "data": [
            {
                "id": "t1",
                "timestamp": "2026-01-02T03:04:05.000Z",
                "name": "chat",
                "htmlPath": "/project/p/traces/t1",
                "input": "Ferry?",
                "output": "At 9:30.",
                "scores": SCORES[:4],
                "observations": [],
            }
        ],
        "meta": {"page": 1, "totalItems": 1},
    }
    path = _file(tmp_path, page)
    assert takers(path) == ["langfuse"]
    runs, _ = imported("langfuse", path)
    assert _values(runs[0]) == {"accuracy": Decimal("0.75"), "polite": 1}
    assert runs[0]["scores"]["accuracy"]["source"]["kind"] == "llm"
    assert runs[0]["inputs"] == {"input": "Ferry?"}
    single = {"trace": page["data"][0], "observations": [], "scores": []}
    path = _file(tmp_path, single)
    assert takers(path) == ["langfuse"]
    assert _values(imported("langfuse", path)[0][0]) == _values(runs[0])


def test_pages_of_the_api_are_refused_where_some_are_missing(tmp_path: Path) -> None:
    def page(name: str, traces: list[Any], **meta: Any) -> Path:
        return _file(tmp_path, {"data": traces, "meta": meta}, name)

    rows = [{**TRACES[0], "id": f"t{index}", "scores": SCORES[:1]} for index in range(4)]
    one, two = (page(f"{at}.json", rows[at : at + 2], page=1, totalItems=4) for at in (0, 2))
    assert len(imported("langfuse", one, two)[0]) == 4
    for some in ([one], [one, one]):
        with pytest.raises(NotEnoughEvidence, match="only 2 of 4 traces: Langfuse has more"):
            imported("langfuse", *some)
    first, last = page("a.json", rows[:2], cursor="x"), page("b.json", rows[2:])
    assert len(imported("langfuse", first, last)[0]) == 4
    with pytest.raises(NotEnoughEvidence, match="only 2 traces: Langfuse has more"):
        imported("langfuse", first)


def test_scores_alone_and_scores_of_traces_are_joined_by_the_trace(tmp_path: Path) -> None:
    snake = [
        {
            "id": one["id"],
            "trace_id": one["traceId"],
            "name": one["name"],
            "value": one["value"],
            "data_type": one["dataType"],
            "string_value": one.get("stringValue"),
        }
        for one in SCORES
    ]
    for index, rows in enumerate((SCORES, snake)):
        path = tmp_path / f"scores{index}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert takers(path) == ["langfuse"]
        runs, tally = imported("langfuse", path)
        assert [run["dataset"]["sample_id"] for run in runs] == ["t1", "t2"]
        assert _values(runs[0]) == {"accuracy": Decimal("0.75"), "polite": 1}
        assert runs[0]["required_outputs"] == []
        assert tally.dropped == {"categorical scores, which are not graded": 1}
    bare = [
        {key: row[key] for key in ("id", "timestamp", "name", "bookmarked", "input", "output")}
        for row in TRACES
    ]
    runs, tally = imported("langfuse", _file(tmp_path, bare, "traces.json"), path)
    assert [_values(run) for run in runs] == [
        {"accuracy": Decimal("0.75"), "polite": 1},
        {"accuracy": Decimal("0.25")},
        {},
    ]
    assert tally.read == {"scores": 5, "traces": 3}
    _, tally = imported("langfuse", _file(tmp_path, bare[:1], "traces.json"), path)
    assert tally.dropped["scores of traces that are not in the files"] == 1


def test_observations_belong_to_their_trace(tmp_path: Path) -> None:
    def observed(name: str, trace: str, parent: str | None, **more: Any) -> dict[str, Any]:
        return {
            "id": name,
            "traceId": trace,
            "traceName": "chat",
            "type": "SPAN",
            "startTime": "2026-01-02T03:04:05.000Z",
            "parentObservationId": parent,
            "input": name,
            "output": "out",
            **more,
        }

    rows = [
        observed("o2", "t1", "o1", accuracy=[0.5]),
        observed("o1", "t1", None, accuracy=None),
        observed("o3", "t2", None, accuracy=None),
    ]
    path = _file(tmp_path, rows)
    assert takers(path) == ["langfuse"]
    runs, tally = imported("langfuse", path)
    assert [(run["inputs"], _values(run)) for run in runs] == [
        ({"input": "o1"}, {"accuracy": Decimal("0.5")}),
        ({"input": "o3"}, {}),
    ]
    assert tally.read == {"observations": 3}
    rows[0]["level"] = "ERROR"
    runs, _ = imported("langfuse", _file(tmp_path, rows))
    assert [run["status"] for run in runs] == ["error", "success"]


def test_an_error_of_an_observation_is_one_of_its_trace_however_it_was_exported(
    tmp_path: Path,
) -> None:
    observation = {
        "id": "o1",
        "traceId": "t1",
        "type": "SPAN",
        "startTime": "2026-01-02T03:04:05.000Z",
        "parentObservationId": "o0",
        "level": "ERROR",
    }
    plain = {key: value for key, value in TRACES[0].items() if key != "level"}
    traces, apart = _file(tmp_path, [plain], "t.json"), _file(tmp_path, [observation], "o.json")
    inside = _file(tmp_path, [plain | {"observations": [observation]}])
    counted = _file(tmp_path, [plain | {"errorCount": 1}], "counted.json")
    assert [run["status"] for run in imported("langfuse", traces)[0]] == ["success"]
    for paths in ((traces, apart), (inside,), (counted,)):
        (run,), _ = imported("langfuse", *paths)
        assert run["status"] == "error"
        assert set(_values(run).values()) == {None}


def test_a_candidate_brings_no_other_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(name: str, **by: Any) -> str:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps([_score(f"t{index}", "good", 1, **by) for index in range(60)]))
        return str(path)

    old = judged("old", source="EVAL", metadata={"model": "m-1"})
    same = judged("same", source="EVAL", metadata={"model": "m-1", "seconds": 3})
    assert assay(["gate", same, "--baseline", old]) == 0
    other = judged("other", source="EVAL", metadata={"model": "always-yes"})
    assert assay(["gate", other, "--baseline", old]) == 4
    assert "checked for different things" in capsys.readouterr().out
    unnamed = judged("unnamed", source="EVAL")
    more = judged("more", source="EVAL", metadata={"model": "m-1", "prompt_version": 2})
    for candidate, baseline in ((old, unnamed), (more, old)):
        assert assay(["gate", candidate, "--baseline", baseline]) == 4
    assert assay(["gate", unnamed, "--baseline", old]) == 4


def test_a_damaged_export_is_refused_in_words_or_read(tmp_path: Path) -> None:
    survived = count = 0
    for tree in (TRACES, SCORES):
        for made in broken(tree, 90):
            survived += survives("langfuse", _file(tmp_path, made))
            count += 1
    assert 0 < survived < count
    with pytest.raises(AssayError, match="'high', not a number"):
        imported("langfuse", _file(tmp_path, [_score("t1", "accuracy", "high")]))
