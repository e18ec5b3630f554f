"""`make test-peers`, second half: what Assay exports, read by the tools it is for.

inspect_ai reads a log with its own reader and must find the totals that Assay printed; promptfoo
runs a generated assertion on two answers, of which one is right. A tool that isn't installed is
skipped, and says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv-peers"
ASSAY = Path(sys.executable).with_name("assay")
PROFILE = """\
profile: short
version: 1
title: Short answers
family: short
gates: []
criteria:
  - {id: right, label: Right, weight: 1, layer: 1, formula: ratio, measure: exact_match}
"""
CONFIG = """\
prompts: ["{{question}}"]
providers: [echo]
defaultTest:
  assert:
    - type: python
      value: file://assay_assertion.py
tests:
  - vars: {question: because, expected: because}
  - vars: {question: no idea, expected: because}
"""
READ = """\
import json, sys
from inspect_ai.log import read_eval_log
log = read_eval_log(sys.argv[1])
print(json.dumps([log.status, [[s.id, s.epoch, s.scores["assay"].value] for s in log.samples],
    {s.name: [m.value for m in s.metrics.values()] for s in log.results.scores}]))
"""


def runs() -> list[dict[str, Any]]:
    return [
        {
            "schema": "assay.run/1",
            "run_id": f"r-{index}",
            "workflow": {"id": "w", "version": "1"},
            "dataset": {"id": "d", "version": "1", "sample_id": sample},
            "status": "success",
            "inputs": {"question": "why"},
            "required_inputs": ["question"],
            "outputs": {"answer": answer},
            "required_outputs": ["answer"],
            "output_schema": {"type": "object", "required": ["answer"]},
            "steps": [],
            "expected": {"answer": "because"},
        }
        for index, (sample, answer) in enumerate(
            (("s-1", "because"), ("s-2", "no idea"), ("s-1", "because"))
        )
    ]


def run(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, timeout=300, check=False, **more
    )


def inspect_ai(folder: Path) -> str:
    """Read a log with inspect_ai."""
    words = ("runs.jsonl", "--profile", "short.yaml", "--to", "inspect", "-o", "log.json")
    run(ASSAY, "report", "export", *words, cwd=folder)
    read = run(PEERS / "bin" / "python", "-c", READ, folder / "log.json", cwd=folder)
    if "ModuleNotFoundError" in read.stderr:
        return "skipped: inspect_ai is not installed"
    status, samples, totals = json.loads(read.stdout)
    assert status == "success"
    assert samples == [["s-1", 1, "C"], ["s-2", 1, "I"], ["s-1", 2, "C"]], samples
    assert totals == {"assay": [2 / 3], "assay_score": [2 / 3], "right": [2 / 3]}, totals
    return "a log with 3 samples, accuracy 0.666667 in both"


def promptfoo(folder: Path) -> str:
    """Let promptfoo call an assertion."""
    command = PEERS / "node" / "node_modules" / ".bin" / "promptfoo"
    if not command.exists():
        return "skipped: promptfoo is not installed"
    words = ("runs.jsonl", "--profile", "short.yaml", "--to", "promptfoo")
    run(ASSAY, "report", "export", *words, "-o", "assay_assertion.py", cwd=folder)
    (folder / "promptfooconfig.yaml").write_text(CONFIG)
    env = {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",  # its node first
        "ASSAY_COMMAND": str(ASSAY),
        "PROMPTFOO_CONFIG_DIR": str(folder / "config"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
    }
    done = run(command, "eval", "--no-cache", "-o", "out.json", cwd=folder, env=env)
    assert (folder / "out.json").exists(), done.stderr
    results = json.loads((folder / "out.json").read_text())["results"]["results"]
    found = sorted((one["vars"]["question"], one["success"], one["score"]) for one in results)
    assert found == [("because", True, 1), ("no idea", False, 0)], found
    return "an assertion on 2 answers, 1 passed in both"


def main() -> int:
    for tool in (inspect_ai, promptfoo):
        with tempfile.TemporaryDirectory(prefix="peers-") as name:
            folder = Path(name)
            (folder / "short.yaml").write_text(PROFILE)
            (folder / "runs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in runs()))
            sys.stdout.write(f"exported to {tool.__name__}: {tool(folder)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
