"""Importing 100,000 items of each format that another tool writes, against json.loads on the same
content; with the memory it took, which must not grow with the file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from import_files import FORMATS, write_lines
from stream import ASSAY, READ
from timing import ENVIRONMENT, table

MEMORY = 150
"""Megabytes that importing may take, however large the file is."""
SLOWER = 3.0
"""How many times as long as json.loads it may take."""

WHOLE = "import json,sys\nwith open(sys.argv[1]) as f: json.loads(f.read())\n"


def measure(command: list[str]) -> tuple[float, float]:
    """Seconds of CPU and peak resident megabytes of one process, which has one thread: other work
    on the machine doesn't count.
    """
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{command} ended with {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="100000 for the full measurement")
    parser.add_argument("--only", choices=list(FORMATS), help="one format")
    options = parser.parse_args()
    good = True
    for kind, (name, write) in FORMATS.items():
        if options.only not in (None, kind):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            given = write(path, options.items)
            same = path
            if given is not None:  # not JSON: json.loads reads the same content as JSON Lines
                same = Path(folder) / "same.jsonl"
                write_lines(same, given)
            print(f"\n{kind}: {options.items:,} items, {path.stat().st_size / 1e6:.0f} MB")
            out = str(Path(folder) / "runs.jsonl")
            importing = [ASSAY, "import", str(path), "--no-store", "-o", out]
            importing += ["--from", kind.split()[0]]
            done, peak = measure(importing)
            is_lines = same.suffix == ".jsonl" or kind == "bfcl"  # which calls its lines .json
            read, _ = measure([sys.executable, "-c", READ if is_lines else WHOLE, str(same)])
            print(f"peak memory {peak:.0f} MB, limit {MEMORY} MB")
            good = good and peak <= MEMORY
        times = {"json.loads": read, "assay import": done}
        good = (
            table(
                f"Importing {kind}",
                times,
                base="json.loads",
                limits={"assay import": SLOWER},
                unit="s",
            )
            and good
        )
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
