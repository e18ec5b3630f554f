"""The recorded walks show what the commands print today."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import walks


@pytest.mark.parametrize("name", walks.WALKS)
def test_a_recorded_walk_is_current(assay: Any, tmp_path: Path, name: str) -> None:
    def run(words: list[str]) -> walks.Printed:
        done = assay(*words)
        return walks.Printed(done.code, done.out, done.err)

    made = walks.page(walks.WALKS[name], run)
    assert made == (walks.PAGES / f"{name}.md").read_text("utf-8"), "run `python docs/walks.py`"


@pytest.mark.parametrize("name", walks.WALKS)
def test_a_walk_passes_then_rejects_a_worse_version_and_names_a_sample(name: str) -> None:
    text = (walks.PAGES / f"{name}.md").read_text("utf-8")
    first = text.split("$ assay run --name current")[1].split("$ assay run next")[0]
    assert "(exit" not in first
    assert "✓" in first
    decided = text.split("$ assay gate")[1]
    assert "REJECT" in decided
    assert "(exit 1)" in decided
