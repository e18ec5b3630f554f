"""The benchmark of release gates runs."""

from __future__ import annotations

import subprocess
import sys

from checkout import ROOT


def test_the_benchmark_of_gates_prints_a_table_for_each_cell() -> None:
    command = [sys.executable, str(ROOT / "bench" / "decision.py"), "--quick"]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert made.returncode == 0, made.stderr
    assert "nothing to measure" in made.stdout or (
        "promoted/held/rejected" in made.stdout and "McNemar" in made.stdout
    )
