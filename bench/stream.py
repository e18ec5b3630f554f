"""Grading a long .jsonl of runs, against reading the same lines with json.loads alone; with the
memory it took.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from timing import ENVIRONMENT, table

ASSAY = str(Path(sys.executable).with_name("assay"))
READ = "import json,sys\nwith open(sys.argv[1]) as f:\n    for line in f: json.loads(line)\n"


def write(path: Path, count: int) -> None:
    """Runs of the size and shape that the contract shows, each with an id and scores of its own."""
    random.seed(7)
    run: dict[str, Any] = {
        "schema": "assay.run/1",
        "run_id": "",
        "workflow": {"id": "fix-issue", "version": "3", "family": "code-repair"},
        "dataset": {"id": "swe-mini", "version": "1", "sample_id": "django-1"},
        "status": "success",
        "outputs": {"patch": "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n" * 3},
        "required_outputs": ["patch"],
        "steps": [
            {
                "name": name,
                "agent": agent,
                "status": "success",
                "critical": True,
                "duration_ms": 120,
                "retries": 0,
                "model": "m-1",
                "tier": "large",
                "tokens": 812,
                "cost_usd": 0.004,
                "scores": {},
            }
            for name, agent in (("plan", "planner"), ("code", "coder"))
        ],
        "tool_calls": [
            {
                "step": "plan",
                "name": "search",
                "arguments": {"q": "x"},
                "valid": True,
                "error": None,
            }
        ],
        "tests": {
            "fail_to_pass": {"passed": 3, "total": 3},
            "pass_to_pass": {"passed": 98, "total": 100},
        },
        "scores": {
            "judge_quality": {
                "raw": 4,
                "n": 1,
                "source": {"kind": "llm", "name": "j", "version": "1"},
            },
            "patch_similarity": {"raw": 0.5},
        },
        "gates": {"no_sandbox_violation": {"passed": True, "reason": ""}},
        "latency_ms": 8120,
        "cost_usd": 0.031,
        "tokens": 5120,
        "retries": 1,
        "inputs": {"issue": "x"},
        "required_inputs": ["issue"],
        "output_schema": {"type": "object", "required": ["patch"]},
        "patch_applies": True,
    }
    with path.open("w") as stream:
        for number in range(count):
            run["run_id"] = f"run-{number}"
            run["latency_ms"] = random.randint(4000, 32000)
            run["scores"]["judge_quality"]["raw"] = random.randint(1, 5)
            run["scores"]["patch_similarity"]["raw"] = round(random.random(), 3)
            stream.write(json.dumps(run) + "\n")


def measure(command: list[str]) -> tuple[float, int]:
    """Wall seconds, and peak resident kilobytes of the largest process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    started = time.perf_counter()
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command} ended with {done.returncode}")
    return time.perf_counter() - started, max(
        before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    )


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50_000, help="1000000 for the full measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        write(path, options.runs)
        print(f"\n{options.runs:,} runs, {path.stat().st_size / 1e6:.0f} MB")
        contenders = {
            "json.loads": [sys.executable, "-c", READ, str(path)],
            "assay grade": [ASSAY, "grade", str(path)],
            "assay grade --jobs 1": [ASSAY, "grade", str(path), "--jobs", "1"],
            "assay grade -o out.csv": [
                ASSAY,
                "grade",
                str(path),
                "-o",
                str(Path(folder) / "out.csv"),
            ],
            "assay grade -o out.jsonl": [
                ASSAY,
                "grade",
                str(path),
                "-o",
                str(Path(folder) / "out.jsonl"),
            ],
        }
        times = {}
        for name, command in contenders.items():
            times[name], peak = measure(command)
            print(f"{name}: {times[name]:.1f} s, peak so far {peak / 1024:.0f} MB")
    return table(
        "A stream of runs", times, base="json.loads", limits={"assay grade": 6.0}, unit="s"
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
