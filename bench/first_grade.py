"""From an empty folder to the first grade of your own: commands, files written by hand, and seconds,
beside inspect_ai and promptfoo in the same run.

Everyone starts with the same two things: a function that answers questions (one of ten wrongly) and
ten samples. A walk is what its tool's own guide asks for from there. Commands are typed; files by
hand are those that somebody must write besides the function and the samples; seconds are the wall
time of the commands, the best of three, without installing. Each walk must find nine of ten right,
or the run stops. The peers live in a folder of their own, `--peers DIR`, made with `--install`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROUNDS = 3
CAPITALS = {
    "France": "Paris",
    "Italy": "Rome",
    "Spain": "Madrid",
    "Japan": "Tokyo",
    "Kenya": "Nairobi",
    "Peru": "Lima",
    "Egypt": "Cairo",
    "Norway": "Oslo",
    "Cuba": "Havana",
    "Australia": "Canberra",
}
BOT = f"""CAPITALS = {CAPITALS | {"Australia": "Sydney"}}


def answer(inputs):
    return {{"answer": CAPITALS[inputs["question"]]}}
"""
INSPECT = """from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import exact
from inspect_ai.solver import solver

from bot import answer


@solver
def ask():
    async def solve(state, generate):
        state.output.completion = answer({"question": state.input_text})["answer"]
        return state

    return solve


@task
def capitals():
    fields = FieldSpec(input="question", target="answer", id="id")
    return Task(dataset=json_dataset("flat.jsonl", fields), solver=ask(), scorer=exact())
"""
PROMPTFOO = """prompts: ['{{question}}']
providers: ['file://provider.py']
tests: file://tests.csv
"""
PROVIDER = """from bot import answer


def call_api(prompt, options, context):
    return {"output": answer({"question": prompt})["answer"]}
"""


class Walk(NamedTuple):
    """How one tool gets there."""

    name: str
    install: str
    commands: list[list[str]]
    files: dict[str, str]
    """Written by hand."""
    right: Callable[[Path], int]
    """How many samples it found right."""


def write_samples(folder: Path) -> None:
    """The ten samples, in the form that each tool reads."""
    rows = list(CAPITALS.items())
    own = [
        {"id": name, "question": name, "expected": {"answer": capital}} for name, capital in rows
    ]
    flat = [{"id": name, "question": name, "answer": capital} for name, capital in rows]
    for file, samples in (("samples.jsonl", own), ("flat.jsonl", flat)):
        (folder / file).write_text("".join(json.dumps(one) + "\n" for one in samples))
    table = [f"{name},equals:{capital}" for name, capital in rows]
    (folder / "tests.csv").write_text("\n".join(["question,__expected", *table]) + "\n")


def _assay_right(folder: Path) -> int:
    document = json.loads((folder / "grades.json").read_text())
    return sum(one["passed"] for one in document["results"])


def _inspect_right(folder: Path) -> int:
    (log,) = (folder / "logs").glob("*.json")
    samples = json.loads(log.read_text())["samples"]
    return sum(next(iter(one["scores"].values()))["value"] == "C" for one in samples)


def _promptfoo_right(folder: Path) -> int:
    return int(json.loads((folder / "out.json").read_text())["results"]["stats"]["successes"])


def walks(peers: Path) -> list[Walk]:
    """Every tool that is there."""
    assay = [sys.executable, "-m", "assay"]
    found = [
        Walk(
            "assay",
            "pip install assaykit",
            [[*assay, "init"], [*assay, "run", "-o", "grades.json"]],
            {},
            _assay_right,
        )
    ]
    inspect = peers / "venv" / "bin" / "inspect"
    if inspect.exists():
        command = [str(inspect), "eval", "task.py", "--model", "mockllm/model"]
        more = ["--log-format", "json", "--log-dir", "logs"]
        found.append(
            Walk(
                "inspect_ai",
                "pip install inspect-ai",
                [[*command, *more]],
                {"task.py": INSPECT},
                _inspect_right,
            )
        )
    promptfoo = peers / "npm" / "node_modules" / ".bin" / "promptfoo"
    if promptfoo.exists():
        files = {"promptfooconfig.yaml": PROMPTFOO, "provider.py": PROVIDER}
        found.append(
            Walk(
                "promptfoo",
                "npm install promptfoo",
                [[str(promptfoo), "eval", "--no-cache", "-o", "out.json"]],
                files,
                _promptfoo_right,
            )
        )
    return found


def install(peers: Path) -> None:
    """The peers, in a folder of their own."""
    venv, npm = peers / "venv", peers / "npm"
    npm.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", str(venv)],
        [str(venv / "bin" / "pip"), "install", "--quiet", "inspect-ai"],
        ["npm", "install", "--prefix", str(npm), "--no-audit", "--no-fund", "promptfoo"],
    ):
        if subprocess.run(command, check=False).returncode:
            print(f"could not run: {' '.join(command)}", file=sys.stderr)


def timed(walk: Walk) -> float:
    """The seconds of one walk, from an empty folder."""
    quiet = {
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "NO_COLOR": "1",
        "PROMPTFOO_PYTHON": sys.executable,
    }
    with tempfile.TemporaryDirectory() as name:
        folder, seconds = Path(name), 0.0
        (folder / "bot.py").write_text(BOT)
        environment = {**os.environ, **quiet, "PROMPTFOO_CONFIG_DIR": str(folder / ".promptfoo")}
        for number, command in enumerate(walk.commands):
            if number == len(walk.commands) - 1:
                write_samples(folder)
                for file, text in walk.files.items():
                    (folder / file).write_text(text)
            started = time.perf_counter()
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            seconds += time.perf_counter() - started
        try:
            right = walk.right(folder)
        except (OSError, ValueError, KeyError) as error:
            print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
            raise SystemExit(f"{walk.name} gave no grades: {error!r}") from None
        if right != len(CAPITALS) - 1:
            raise SystemExit(f"{walk.name} found {right} of {len(CAPITALS)} right, not 9")
        return seconds


def main() -> int:
    """Print the table; say whether the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(tempfile.gettempdir()) / "assay-bench-peers"
    parser.add_argument("--peers", type=Path, default=default, metavar="DIR")
    parser.add_argument("--install", action="store_true", help="install the peers there first")
    options = parser.parse_args()
    if options.install:
        install(options.peers)
    found = walks(options.peers)
    for name in {"inspect_ai", "promptfoo"} - {walk.name for walk in found}:
        print(f"{name} is not in {options.peers}; run `{sys.argv[0]} --install` to add it")
    if shutil.which("node") is None:
        found = [walk for walk in found if walk.name != "promptfoo"]
    seconds = {walk.name: float("inf") for walk in found}
    for _ in range(ROUNDS):
        for walk in found:
            seconds[walk.name] = min(seconds[walk.name], timed(walk))
    print(
        "| tool | commands, installing included | files by hand | lines by hand | seconds | times"
        " assay |\n|---|---:|---:|---:|---:|---:|"
    )
    steps = {}
    for walk in found:
        commands = 1 + len(walk.commands)
        lines = sum(len(text.splitlines()) for text in walk.files.values())
        steps[walk.name] = commands + len(walk.files)
        ratio = seconds[walk.name] / seconds["assay"]
        print(
            f"| {walk.name} | {commands} | {len(walk.files)} | {lines} |"
            f" {seconds[walk.name]:.2f} | {ratio:.2f} |"
        )
    fewest = min((count for name, count in steps.items() if name != "assay"), default=None)
    parts = {
        "3 commands": steps["assay"] <= 3,
        "under 15 seconds": seconds["assay"] < 15,
        "fewer steps (commands and files by hand) than either peer": (
            fewest is not None and steps["assay"] < fewest
        ),
    }
    print()
    for goal, holds in parts.items():
        print(f"{'met' if holds else 'NOT MET'}: {goal}")
    return 0 if all(parts.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
