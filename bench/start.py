"""The CPU time that a command takes to start, as a multiple of `python -c pass`. Peers: --peer
'inspect=inspect --help'.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from timing import commands, table

ASSAY = str(Path(sys.executable).with_name("assay"))
SCORECARD = {
    "schema": "assay.scorecard/1",
    "run_id": "r-1",
    "hard_gates": {"schema_contract_valid": True},
    "criteria": [
        {"name": f"c{i}", "raw_score": 4, "formula_id": "likert_1_5", "weight": 0.2}
        for i in range(5)
    ],
}


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder) / "one.json"
        card.write_text(json.dumps(SCORECARD))
        run = Path(folder) / "run.jsonl"
        example = (
            Path(__file__).resolve().parent.parent / "src/assay/cli/examples/code-repair.jsonl"
        )
        run.write_text(example.read_text().splitlines()[0] + "\n")
        contenders: dict[str, Sequence[str]] = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "assay --version": [ASSAY, "--version"],
            "assay --help": [ASSAY, "--help"],
            "assay grade one.json (scorecard)": [ASSAY, "grade", str(card)],
            "assay grade one.jsonl (run with an output schema)": [ASSAY, "grade", str(run)],
        }
        for peer in options.peer:
            name, _, command = peer.partition("=")
            contenders[name] = shlex.split(command)
        times = commands(contenders, rounds=options.rounds)
    limits = {"assay --version": 3.0, "assay --help": 4.0, "assay grade one.json (scorecard)": 8.0}
    return table("Start, CPU time", times, base="python -c pass", limits=limits)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
