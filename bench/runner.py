"""The runner: what `assay run` costs a sample, and how near 1,000 samples of 50 ms at 64 in flight
come to the ideal; beside pydantic-evals and inspect_ai.

python bench/runner.py                # all that is installed

The task is the same for all: an async function of three steps. Assay has events and evidence on:
every step is recorded, each finished sample is written to its journal, and every event goes to a
file. Overhead is CPU of the whole process over samples that do nothing, less that of its start. The
ideal wall time is 1,000 x 50 ms / 64. "running alone" is what `assay run` does until the last
sample is in the journal; the rest of the command grades, explains and writes each result. Limits: 2
ms of CPU a sample with everything, 1.2 times the ideal for the running.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SAMPLES = 1000
IDEAL = SAMPLES * 0.05 / 64
FLOW = """
import asyncio
async def answer(inputs, record):
    with record.step("plan", agent="planner"):
        pass
    with record.step("search", agent="searcher") as step:
        step.tool("find", {"q": inputs["question"]}, valid=True)
        if inputs["wait"]:
            await asyncio.sleep(0.05)
    with record.step("write", agent="writer") as step:
        step.used(model="m-1", tokens=12)
    return {"answer": inputs["question"]}
"""
WORKFLOW = """
workflow: bench
version: 1
family: tool-use
inputs: [question, wait]
outputs: [answer]
output_schema: {type: object}
forbidden_tools: []
handoff_rules: []
adapter: {kind: python, target: "flow:answer"}
"""
PYDANTIC = """
import asyncio, sys
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected
wait = sys.argv[1] == "wait"
async def task(question: str) -> str:
    if wait:
        await asyncio.sleep(0.05)
    return question
count = int(sys.argv[2])
dataset = Dataset(name="bench", cases=[Case(name=f"s{i}", inputs=f"q{i}", expected_output=f"q{i}") for i in range(count)], evaluators=[EqualsExpected()])
report = asyncio.run(dataset.evaluate(task, max_concurrency=64, progress=False))
assert len(report.cases) == count
"""
INSPECT = """
import asyncio, os, sys, tempfile
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import exact
from inspect_ai.solver import solver
wait = sys.argv[1] == "wait"
@solver
def answer():
    async def solve(state, generate):
        if wait:
            await asyncio.sleep(0.05)
        state.output.completion = state.input_text
        return state
    return solve
count = int(sys.argv[2])
task = Task(dataset=MemoryDataset([Sample(id=f"s{i}", input=f"q{i}", target=f"q{i}") for i in range(count)]), solver=answer(), scorer=exact())
logs = eval(task, model="mockllm/model", max_samples=64, log_dir=tempfile.mkdtemp(), display="none", log_realtime=False)
assert logs[0].status == "success" and logs[0].results.completed_samples == count
"""


ALONE = """
import asyncio, sys, time
from assay.cli.run import EventFile
from assay.running.compatibility import prepare
from assay.running.dataset import read_dataset
from assay.running.journal import Header, RunJournal
from assay.running.runner import Runner, RunSettings, work_of
from assay.running.workflow import read_workflow
flow, data, settings = read_workflow("workflow.yaml"), read_dataset(sys.argv[1]), RunSettings("x", concurrency=64)
with RunJournal(sys.argv[2] + "/journal.jsonl", Header.of(flow, data, settings)) as journal, EventFile(sys.argv[2] + "/events.jsonl") as events:
    started = time.perf_counter()
    asyncio.run(Runner(flow, data, settings, keep=journal.put, tell=events.tell).run(work_of(prepare(flow, data), settings)))
    print(time.perf_counter() - started)
"""


def alone(folder: str) -> float:
    """Wall seconds of the running without the grading."""
    data = Path(folder, f"d-True-{SAMPLES}.jsonl")
    found = subprocess.run(
        [sys.executable, "-c", ALONE, str(data), tempfile.mkdtemp(dir=folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(found.stdout)


def timed(command: list[str], folder: str) -> tuple[float, float]:
    """Wall and CPU seconds of a command."""
    environment = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"{command[:4]} ended with {done.returncode}: {done.stderr.decode()[-500:]}"
        )
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(folder: str, name: str, *, wait: bool, count: int) -> list[str]:
    """The command of a contender."""
    if name == "assay":
        data = Path(folder, f"d-{wait}-{count}.jsonl")
        data.write_text(
            "".join(
                json.dumps({"id": f"s{i}", "question": f"q{i}", "wait": wait}) + "\n"
                for i in range(count)
            )
        )
        work = tempfile.mkdtemp(dir=folder)
        return [
            sys.executable,
            "-m",
            "assay",
            "run",
            "workflow.yaml",
            "--dataset",
            str(data),
            "--concurrency",
            "64",
            "--work",
            work,
            "--events",
            f"{work}.events",
            "--json",
        ]
    source = {"pydantic-evals": PYDANTIC, "inspect_ai": INSPECT}[name]
    return [sys.executable, "-c", source, "wait" if wait else "go", str(count)]


def main() -> int:
    """Print both tables; say whether the limits hold."""
    from importlib.util import find_spec

    names = ["assay"] + [
        name
        for name, module in (("pydantic-evals", "pydantic_evals"), ("inspect_ai", "inspect_ai"))
        if find_spec(module)
    ]
    good = True
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "flow.py").write_text(FLOW)
        Path(folder, "workflow.yaml").write_text(WORKFLOW)
        print(
            "| runner | CPU a sample, ms | 1,000 samples of 50 ms at 64, s | times the ideal of"
            " 0.78 s | less its start |\n|---|---:|---:|---:|---:|"
        )
        for name in names:
            found = []
            for _ in range(3):
                start_wall, start = timed(commands(folder, name, wait=False, count=1), folder)
                _, cpu = timed(commands(folder, name, wait=False, count=SAMPLES + 1), folder)
                wall, _ = timed(commands(folder, name, wait=True, count=SAMPLES), folder)
                found.append(((cpu - start) / SAMPLES * 1000, wall, (wall - start_wall) / IDEAL))
            each, wall, ratio = (min(column) for column in zip(*found, strict=True))
            print(f"| {name} | {each:.2f} | {wall:.2f} | {wall / IDEAL:.2f} | {ratio:.2f} |")
            if name == "assay":
                running = min(alone(folder) for _ in range(3)) / IDEAL
                print(f"| assay, running alone | | {running * IDEAL:.2f} | {running:.2f} | |")
                good = each <= 2 and running <= 1.2
    print(
        "\nlimits (2 ms a sample, 1.2 times the ideal for the running):"
        f" {'hold' if good else 'DO NOT HOLD'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
