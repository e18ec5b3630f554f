"""lm-evaluation-harness: its dummy model on a task with two filters and a multiple-choice task."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

TASK = """
task: {task}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {task}.jsonl}}}}
test_split: test
doc_to_text: "{{{{q}}}}"
"""
WORDS = """
output_type: generate_until
doc_to_target: "{{a}}"
generation_kwargs: {until: ["\\n"], max_gen_toks: 8}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list:
  - {name: strict, filter: [{function: regex, regex_pattern: "^(lol)$"}, {function: take_first}]}
  - {name: letter, filter: [{function: regex, regex_pattern: "(l)"}, {function: take_first}]}
metadata: {version: 1.0}
"""
COLOURS = """
output_type: multiple_choice
doc_to_choice: "{{choices}}"
doc_to_target: "{{gold}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
metadata: {version: 2.0}
"""
ROWS: dict[str, list[dict[str, Any]]] = {
    "assay_words": [
        {"q": "What does the dummy model say?", "a": "lol"},
        {"q": "Name the capital of France.", "a": "Paris"},
        {"q": "Say it in three letters.", "a": "lol"},
    ],
    "assay_colours": [
        {"q": "The sky is", "choices": ["blue", "green"], "gold": 0},
        {"q": "Grass is", "choices": ["blue", "green"], "gold": 1},
    ],
}


def make(folder: Path) -> list[dict[str, Any]]:
    for (task, rows), text in zip(ROWS.items(), (WORDS, COLOURS), strict=True):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{task}.jsonl").write_text(lines)
        (folder / f"{task}.yaml").write_text(TASK.format(task=task) + text)
    group = "group: assay_both\ntask: [assay_words, assay_colours]\n"
    (folder / "assay_both.yaml").write_text(group)
    command = "-m lm_eval --model dummy --tasks assay_both --include_path . --log_samples --seed 1"
    subprocess.run(
        [sys.executable, *command.split(), "--output_path", "out"],
        cwd=folder,
        check=True,
        stdout=sys.stderr,
    )
    written = sorted((folder / "out").rglob("*.json*"))
    files = []
    for path in written:
        path.rename(folder / path.name)
        files.append(path.name)
    results = next(name for name in files if name.startswith("results_"))
    printed = json.loads((folder / results).read_text())
    made = []
    for task, rows in ROWS.items():
        samples = next(name for name in files if name.startswith(f"samples_{task}_"))
        totals = {
            key: value
            for key, value in printed["results"][task].items()
            if "," in key and "_stderr" not in key
        }
        made.append({"files": [samples], "what": task, "totals": {"samples": len(rows), **totals}})
    both = sum(len(rows) for rows in ROWS.values())
    made.append({"files": files, "what": "results and samples", "totals": {"samples": both}})
    made.append({"files": [results], "what": "results alone", "totals": {"samples": 2}})
    return [{"version": version("lm_eval"), **one} for one in made]
