"""Every benchmark, one after the other. Ratios in one run mean something; seconds across runs do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    codes = [subprocess.run([sys.executable, str(HERE / name)], check=False).returncode for name in ("start.py", "grade_one.py", "stream.py", "tool_index.py")]
    sys.exit(max(codes))
