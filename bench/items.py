"""Items with five cheap deterministic criteria, scored and graded from a file: Assay against
pydantic-evals and a plain loop, in one run.

The criteria: the answer equals the expected one, contains a needle, keeps a JSON Schema, stays in a
word budget, and came in time. The plain loop computes the five booleans and nothing else; Assay
also evaluates the gates, weighs, grades and explains each item. `right` counts how often each
criterion holds; it is the same for all, or the run stops. Wall time of the whole process, start
included; the largest size tells the rate.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time

SCHEMA = {
    "type": "object",
    "required": ["answer", "confidence", "sources"],
    "additionalProperties": False,
    "properties": {
        "answer": {"type": "string", "minLength": 1},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "sources": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
    },
}
BUDGET, SLO = 40, 800
WORDS = [
    "harbour",
    "tide",
    "ferry",
    "ticket",
    "queue",
    "morning",
    "gate",
    "pier",
    "rope",
    "signal",
    "weather",
    "captain",
    "island",
    "lamp",
    "chart",
]
PROFILE = """
profile: items
version: 1
title: Five cheap criteria
family: items
gates: []
criteria:
  - {id: exact, label: Exact, weight: 0.2, layer: 1, formula: ratio, measure: exact_match, measure_params: {output: exact, steps: []}, role: correctness}
  - {id: needle, label: Needle, weight: 0.2, layer: 1, formula: ratio, measure: contains_expected, measure_params: {output: needle, steps: []}}
  - {id: shape, label: Shape, weight: 0.2, layer: 1, formula: binary, measure: json_schema_valid}
  - {id: budget, label: Budget, weight: 0.2, layer: 1, formula: binary, measure: word_budget, measure_params: {output: needle, words: 40}}
  - {id: time, label: Time, weight: 0.2, layer: 3, formula: lower_is_better, params: {slo_good: 800, slo_bad: 801}, measure: latency}
"""
ENVELOPE = {"type": "object", "required": ["structured"], "properties": {"structured": SCHEMA}}
LOOP = """
import json, sys
import jsonschema_rs
schema = jsonschema_rs.Draft202012Validator(json.loads(sys.argv[2]))
right = 0
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    out, want = item["outputs"], item["expected"]
    right += out["exact"] == want["exact"]
    right += want["needle"] in out["needle"]
    right += schema.is_valid(out["structured"])
    right += len(out["needle"].split()) <= 40
    right += item["latency_ms"] <= 800
print(right)
"""
PEER = """
import json, sys
from dataclasses import dataclass
import jsonschema_rs
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Evaluator, EvaluatorContext
schema = jsonschema_rs.Draft202012Validator(json.loads(sys.argv[2]))
items = {}
@dataclass
class Five(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> dict[str, bool]:
        item = items[ctx.inputs]
        out, want = item["outputs"], item["expected"]
        return {"exact": out["exact"] == want["exact"], "needle": want["needle"] in out["needle"], "shape": schema.is_valid(out["structured"]),
                "budget": len(out["needle"].split()) <= 40, "time": item["latency_ms"] <= 800}
for line in open(sys.argv[1], encoding="utf-8"):
    item = json.loads(line)
    items[item["run_id"]] = item
dataset = Dataset(name="items", cases=[Case(name=name, inputs=name) for name in items], evaluators=[Five()])
report = dataset.evaluate_sync(lambda name: items[name]["outputs"], progress=False)
print(sum(value.value for case in report.cases for value in case.assertions.values()))
"""


def make(path: str, count: int) -> None:
    """A file of runs."""
    draw = random.Random(5)
    with open(path, "w", encoding="utf-8") as stream:
        for number in range(count):
            words = " ".join(draw.choice(WORDS) for _ in range(draw.choice([12, 20, 30, 55])))
            answer = {
                "answer": words,
                "confidence": round(draw.random() * 1.05, 3),
                "sources": [f"doc{draw.randrange(99)}"],
            }
            if draw.random() < 0.1:
                del answer["sources"]
            run = {
                "schema": "assay.run/1",
                "run_id": f"i{number}",
                "workflow": {"id": "w", "version": "1", "family": "items"},
                "dataset": {"id": "d", "version": "1", "sample_id": f"i{number}"},
                "status": "success",
                "outputs": {"exact": words, "needle": words, "structured": answer},
                "expected": {
                    "exact": words if draw.random() < 0.6 else words + " ",
                    "needle": draw.choice(WORDS),
                },
                "required_outputs": ["exact"],
                "steps": [],
                "output_schema": ENVELOPE,
                "inputs": {},
                "required_inputs": [],
                "latency_ms": draw.randrange(100, 1200),
            }
            stream.write(json.dumps(run) + "\n")


def timed(command: list[str]) -> tuple[float, float, str]:
    """Seconds, peak MiB and output of one command, started from a small process so that the peak is
    its own.
    """
    between = (
        "import json,resource,subprocess,sys,time\n"
        "t=time.perf_counter();d=subprocess.run(sys.argv[1:],capture_output=True,text=True)\n"
        "print(json.dumps([time.perf_counter()-t,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024,d.stdout,d.stderr]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", between, *command], capture_output=True, text=True, check=True
    )
    seconds, peak, out, err = json.loads(done.stdout)
    return seconds, peak, out or err


def assay_right(path: str) -> int:
    """How often each criterion holds by Assay's own results."""
    right = 0
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            right += sum(item["norm"] == 1 for item in json.loads(line)["criteria"])
    return right


def main() -> int:
    """Both sizes, interleaved, as a Markdown table."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        profile = os.path.join(folder, "items.yaml")
        with open(profile, "w", encoding="utf-8") as stream:
            stream.write(PROFILE)
        print(
            "| items | what | s | items/s | peak MiB | times the fastest peer"
            " |\n|---:|---|---:|---:|---:|---:|"
        )
        for count in (1_000, 10_000):
            data = os.path.join(folder, f"{count}.jsonl")
            make(data, count)
            schema = json.dumps(SCHEMA)
            grade = [sys.executable, "-m", "assay", "grade", data, "--profile", profile]
            timed([*grade, "-o", os.path.join(folder, "out.jsonl")])
            contenders = {
                "plain loop": [sys.executable, "-c", LOOP, data, schema],
                "assay grade": grade,
            }
            try:
                import pydantic_evals  # the fastest peer; an extra  # noqa: F401

                contenders["pydantic-evals"] = [sys.executable, "-c", PEER, data, schema]
            except ImportError:
                print(
                    "pydantic-evals is not installed: pip install 'assaykit[peers]'",
                    file=sys.stderr,
                )
            best: dict[str, tuple[float, float]] = {}
            counted = {"assay grade": assay_right(os.path.join(folder, "out.jsonl"))}
            for _ in range(3):
                for name, command in contenders.items():
                    seconds, peak, out = timed(command)
                    if name != "assay grade":
                        counted[name] = int(out.strip().splitlines()[-1])
                    if name not in best or seconds < best[name][0]:
                        best[name] = (seconds, peak)
            if len(set(counted.values())) != 1:
                raise SystemExit(f"the criteria do not agree: {counted}")
            peer = best.get("pydantic-evals")
            for name, (seconds, peak) in best.items():
                times = f"{peer[0] / seconds:.1f}" if peer else ""
                print(
                    f"| {count:,} | {name} | {seconds:.2f} | {count / seconds:,.0f} | {peak:.0f} |"
                    f" {times} |"
                )
            if peer:
                good = good and peer[0] / best["assay grade"][0] >= 5
    return 0 if good else 1


if __name__ == "__main__":
    started = time.perf_counter()
    sys.exit(main())
