"""promptfoo with a provider of our own: two prompts, two providers, named metrics, an endpoint that fails, repeats. In
each format that it writes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PROVIDER = """
const TOWNS = {France: 'Paris', Spain: 'The capital is madrid.', Peru: 'Quito', Norway: 'Oslo'};
module.exports = class {
  constructor(options) { this.settings = options.config; }
  id() { return 'towns:' + this.settings.name; }
  async callApi(prompt) {
    const land = Object.keys(TOWNS).find((one) => prompt.includes(one));
    if (this.settings.fails === land) return {error: 'the endpoint answered 503'};
    const answer = (this.settings.wordy ? 'I think: ' : '') + TOWNS[land];
    return {output: answer, tokenUsage: {total: 12, prompt: 9, completion: 3}, cost: 0.0001};
  }
};
"""


def towns(name: str, **settings: Any) -> dict[str, Any]:
    return {"id": "file://provider.js", "label": name, "config": {"name": name, **settings}}


def right(town: str) -> dict[str, Any]:
    return {"type": "icontains", "value": town, "metric": "Right"}


BRIEF = {"type": "javascript", "value": "output.length < 30 ? 1 : 0.5", "metric": "Brevity"}
LANDS = {"France": "Paris", "Spain": "Madrid", "Peru": "Lima", "Norway": "Oslo"}
TESTS = [{"vars": {"land": land}, "assert": [right(town)]} for land, town in LANDS.items()]
CAPITALS = {
    "description": "Capitals",
    "prompts": ["Capital of {{land}}?", "You are brief.\nName the capital of {{land}}."],
    "providers": [towns("short"), towns("wordy", wordy=True, fails="Norway")],
    "defaultTest": {"assert": [{**BRIEF, "threshold": 0.4}]},
    "tests": TESTS,
}
REPEATED = {
    "description": "Repeated",
    "prompts": ["Capital of {{land}}?"],
    "providers": [towns("short")],
    "tests": [TESTS[0], {**TESTS[2], "description": "hard"}],
}


def make(folder: Path) -> list[dict[str, Any]] | str:
    program = Path(sys.executable).parents[1] / "node" / "node_modules" / ".bin" / "promptfoo"
    if not program.exists():
        return "promptfoo is not installed"
    (folder / "provider.js").write_text(PROVIDER)
    home = folder / "home"
    quiet = {
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
        "PROMPTFOO_DISABLE_SHARING": "1",
        "PROMPTFOO_CONFIG_DIR": str(home),
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",  # its node first
    }
    version = json.loads((program.parents[1] / "promptfoo" / "package.json").read_text())["version"]

    def run(config: dict[str, Any], files: list[str], *more: str) -> dict[str, Any]:
        (folder / "config.json").write_text(json.dumps(config))
        outputs = [word for name in files for word in ("-o", name)]
        ended = subprocess.run(
            [
                str(program),
                "eval",
                "-c",
                "config.json",
                "--no-cache",
                "--no-table",
                *outputs,
                *more,
            ],
            cwd=folder,
            env={**os.environ, **quiet},
            capture_output=True,
            text=True,
            timeout=300,
        )
        printed = ended.stdout + ended.stderr
        if ended.returncode not in (0, 100):  # 100: some tests failed
            raise RuntimeError(printed)
        counts = {
            what: int(number)
            for number, what in re.findall(r"(\d+) (passed|failed|errors?)\b", printed)
        }
        return {"samples": sum(counts.values()), "passed": counts["passed"]}

    names = [f"capitals.{kind}" for kind in ("json", "jsonl", "yaml", "csv")]
    totals = run(CAPITALS, names)
    tree = json.loads((folder / "capitals.json").read_text())
    columns = [prompt["metrics"] for prompt in tree["results"]["prompts"]]
    for metric in ("Right", "Brevity"):
        counted = sum(one["namedScoresCount"][metric] for one in columns)
        totals[metric] = sum(one["namedScores"][metric] for one in columns) / counted
    graded = sum(one["testPassCount"] + one["testFailCount"] for one in columns)
    totals["score"] = sum(one["score"] for one in columns) / graded
    made = [
        {"version": version, "files": [name], "totals": totals, "what": Path(name).suffix}
        for name in names
    ]
    repeats = run(REPEATED, ["repeated.json"], "--repeat", "3")
    what = ".json, three repeats"
    made.append({"version": version, "files": ["repeated.json"], "totals": repeats, "what": what})
    return made
