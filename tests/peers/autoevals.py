"""autoevals: three scorers on four answers, and one scorer for each of four answers."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

ANSWERS = [
    ("Capital of France?", "Paris", "Paris"),
    ("Capital of Spain?", "madrid", "Madrid"),
    ("Capital of Peru?", "Quito", "Lima"),
    ("Capital of Norway?", "Oslo ", "Oslo"),
]


def make(folder: Path) -> list[dict[str, Any]]:
    from autoevals import ExactMatch, JSONDiff, Levenshtein, NumericDiff

    scorers = (Levenshtein(), ExactMatch())
    records: list[dict[str, Any]] = []
    for scorer in scorers:
        for question, output, expected in ANSWERS:
            score = scorer(output, expected)
            given = {"input": question, "output": output, "expected": expected}
            records.append({**score.as_dict(), **given})
    (folder / "scores.json").write_text(json.dumps(records, indent=1))
    means = {
        name: sum(one["score"] for one in records if one["name"] == name) / len(ANSWERS)
        for name in ("Levenshtein", "ExactMatch")
    }
    apart = [
        {**scorer(output, expected).as_dict(), "output": output, "expected": expected}
        for scorer, output, expected in (
            (NumericDiff(), 10, 12),
            (JSONDiff(), {"a": 1, "b": [1]}, {"a": 1, "b": [2]}),
            (ExactMatch(), "Paris", "Paris"),
        )
    ]
    (folder / "checks.jsonl").write_text("".join(json.dumps(one) + "\n" for one in apart))
    mean = sum(one["score"] for one in apart) / len(apart)
    tool = {"version": version("autoevals")}
    return [
        {**tool, "files": ["scores.json"], "totals": {"samples": len(ANSWERS), **means}},
        {**tool, "files": ["checks.jsonl"], "totals": {"samples": len(apart), "score": mean}},
    ]
