"""Every benchmark, one after the other. Ratios in one run mean something; seconds across runs do
not.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    names = (
        "start.py",
        "grade_one.py",
        "stream.py",
        "tool_index.py",
        "tool_calls.py",
        "retrieval.py",
        "items.py",
        "importing.py",
        "exams.py",
        "judge_calls.py",
        "decision.py --quick",  # in full it takes hours
        "runner.py",
        "first_grade.py",
        "server.py",
        "listing.py",
        "pages.py",
        "report.py",
        "batch.py",
    )
    codes = [
        subprocess.run([sys.executable, str(HERE / file), *arguments], check=False).returncode
        for file, *arguments in map(str.split, names)
    ]
    sys.exit(max(codes))
