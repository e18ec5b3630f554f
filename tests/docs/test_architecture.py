"""ARCHITECTURE.md is true: the walk that it describes is the one that a gate takes."""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import assay
from assay.cli.main import run
from checkout import ROOT

SOURCE = Path(assay.__file__).parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WALK = TEXT.partition("## One run, from JSON to exit code")[2].partition("\n## ")[0]
STEP = re.compile(r"`([a-z_/]+\.py)`, `([A-Za-z_.]+)`")
RUNS = SOURCE / "cli" / "examples" / "rag.jsonl"


def test_a_gate_takes_the_walk_of_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = STEP.findall(WALK)
    assert len(steps) >= 8
    monkeypatch.chdir(tmp_path)
    seen: dict[tuple[str, str], int] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            file = Path(code.co_filename).relative_to(SOURCE).as_posix()
            seen.setdefault((file, code.co_qualname), len(seen))

    sides = ["candidate.jsonl", "baseline.jsonl"]
    for side in sides:
        (tmp_path / side).write_bytes(RUNS.read_bytes())
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        with redirect_stdout(io.TextIOWrapper(io.BytesIO())), redirect_stderr(io.StringIO()):
            run(["gate", sides[0], "--baseline", sides[1]])
    finally:
        sys.setprofile(before)
    assert [step for step in steps if step not in seen] == []
    order = [seen[step] for step in steps]
    assert order == sorted(order)


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            name
            for cell in re.findall(r"^\| (.*?) \|", TEXT, re.M)
            for name in re.findall(r"`([a-z_]+/|[a-z_]+\.py)`", cell)
        }
    ),
)
def test_every_folder_of_the_table_exists(name: str) -> None:
    assert (SOURCE / name).exists()


def test_every_folder_is_in_the_table() -> None:
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()}
    assert sorted(name for name in folders if f"`{name}/`" not in TEXT) == []
