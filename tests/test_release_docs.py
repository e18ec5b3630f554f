"""The how-to on releases shows what the product prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import ROOT


def test_the_worked_example_of_the_how_to_gives_the_output_it_shows(
    assay: Any, tmp_path: Path
) -> None:
    text = (ROOT / "docs/how-to/release.md").read_text()
    script, commands, shown = (
        re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL) for kind in ("python", "sh", "text")
    )
    assert script is not None
    assert commands is not None
    assert shown is not None
    subprocess.run([sys.executable, "-c", script[1]], cwd=tmp_path, check=True)
    done = None
    for line in commands[1].strip().splitlines():
        done = assay(*line.split()[1:])
        assert done.code == 0, done.err
    assert done is not None
    assert done.out == shown[1]
