"""`make test-peers`: what real tools write, imported by Assay, with the totals of both.

Each `tests/peers/TOOL.py` lets a tool write its results (see `making.py`). They must be recognised
as that tool's, become valid runs, and give the totals that the tool printed. The table goes to
docs/reference/peers.md. `run.py TOOL...` tries some tools and leaves the table alone;
`--record` keeps what the tools wrote in tests/importers/fixtures/ for the other tests.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from assay.errors import AssayError
from assay.files.json_files import Document
from assay.importers.head import HEAD, Head
from assay.importers.importer import Wanted
from assay.importers.known import KNOWN, fitting
from assay.importers.tally import ImportTally
from assay.records.reading import read_run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
ASSAY = Path(sys.executable).with_name("assay")
PAGE = ROOT / "docs" / "reference" / "peers.md"
RECORDED = ROOT / "tests" / "importers" / "fixtures"
TOOLS = sorted(
    path.stem
    for path in HERE.glob("*.py")
    if path.stem not in ("__init__", "exporting", "making", "run")
)
CLOSE = Fraction(1, 10**9)
HEADING = """# Result files of other tools

<!-- Made by `make test-peers`; do not edit. -->

Each tool ran on a few samples of ours, without a real model, and Assay imported what it wrote.
*Their total* is what the tool itself reported (autoevals and the SDK of Langfuse report none: there
it is the mean of the scores), *our total* what Assay counts in the same file. `passed` is the
tool's own verdict; the other numbers are means of its metrics.

| tool | version tried | file | items | their total | our total |
|---|---|---|---:|---|---|
"""


class Row:
    """One import: what the tool said, what we count, and whether they agree."""

    def __init__(self, tool: str, made: dict[str, Any], folder: Path) -> None:
        self.tool, self.made = tool, made
        paths = [str(folder / name) for name in made["files"]]
        name = made.get("importer", tool)
        self.faults: list[str] = []
        tally = ImportTally()
        for path in paths:
            with open(path, "rb") as stream:
                fits = [one.name for one in fitting(Head(path, stream.read(HEAD)))]
            if fits != [name]:
                self.faults.append(f"{Path(path).name} is taken for {fits or 'nothing'}")
        try:
            for run in KNOWN[name].read(paths, Wanted(), tally):
                read_run(Document(run, name))
        except AssayError as error:
            self.faults.append(str(error))
        self._command(paths, folder)
        self.ours: dict[str, Any] = {one.label: one.mean for one in tally.metrics.values()}
        self.ours |= {"samples": tally.samples, "passed": tally.passed}
        self.theirs = made["totals"]
        for key, value in self.theirs.items():
            if not agree(value, self.ours.get(key)):
                self.faults.append(f"{key} {value}, we have {shown(self.ours.get(key))}")

    def _command(self, paths: list[str], folder: Path) -> None:
        """The command itself refuses a file whose counts contradict what it finds in it."""
        ended = subprocess.run(
            [str(ASSAY), "import", "--no-store", "-o", str(folder / "runs.jsonl"), *paths],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if ended.returncode:
            self.faults.append(f"`assay import` ends with {ended.returncode}: {ended.stderr[:500]}")

    def line(self) -> str:
        """The row of the table."""
        what = self.made.get("what") or ", ".join(
            sorted({Path(f).suffix for f in self.made["files"]})
        )
        shown_keys = [key for key in self.theirs if key != "samples"] or ["samples"]
        theirs, ours = (
            "; ".join(f"{key} {shown(side.get(key))}" for key in shown_keys)
            for side in (self.theirs, self.ours)
        )
        items = str(self.theirs["samples"])
        cells = (self.tool, self.made["version"], what, items, theirs, ours)
        return f"| {' | '.join(cells)} |"


def agree(theirs: Any, ours: Any) -> bool:
    if theirs is None or ours is None:
        return theirs is ours
    return abs(Fraction(Decimal(str(theirs))) - Fraction(ours)) <= CLOSE


def shown(value: Any) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, int) else f"{float(value):.6g}"


def tried(tool: str, folder: Path, *, record: bool) -> list[Row] | str:
    """The rows of a tool, or why it could not run."""
    ended = subprocess.run(
        [str(PYTHON), "-P", str(HERE / "making.py"), tool, str(folder)],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    if ended.returncode:
        tail = ended.stderr.strip().splitlines()[-1:]
        if tail and tail[0].startswith("ModuleNotFoundError"):
            return f"{tail[0].partition(': ')[2]}; tests/peers/requirements.txt has what is needed"
        raise SystemExit(f"{tool}: it ended with {ended.returncode}\n{ended.stderr[-4000:]}")
    made = json.loads((folder / "made.json").read_text())
    if isinstance(made, str):
        return made
    if record:
        kept = RECORDED / tool
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for one in made:
            for name in one["files"]:
                (kept / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, kept / name)
        (kept / "made.json").write_text(json.dumps(made, indent=1) + "\n")
    return [Row(tool, one, folder) for one in made]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=", ".join(TOOLS))
    parser.add_argument("--record", action="store_true", help="keep the files as fixtures")
    options = parser.parse_args()
    lines: list[str] = []
    failed = skipped = 0
    for tool in options.tools or TOOLS:
        with tempfile.TemporaryDirectory(prefix="peers-") as folder:
            rows = tried(tool, Path(folder), record=options.record)
        if isinstance(rows, str):
            skipped += 1
            sys.stdout.write(f"{tool}: skipped: {rows}\n")
            continue
        for row in rows:
            lines.append(row.line())
            failed += bool(row.faults)
            sys.stdout.write(f"{row.line()}\n")
            for fault in row.faults:
                sys.stdout.write(f"  differs: {fault}\n")
    if not options.tools and not failed and not skipped:
        PAGE.write_text(HEADING + "\n".join(lines) + "\n")
        sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
    elif not options.tools:
        sys.stdout.write(f"{PAGE.relative_to(ROOT)} stays as it is: not every tool agreed\n")
    return 1 if failed or (skipped and os.environ.get("CI") == "true") else 0


if __name__ == "__main__":
    sys.exit(main())
