"""What a script can see of a patch besides its tests: four house rules.

The rules stand in for a judge's word on quality: each that holds is a point above 1. They are counted, not felt; a judge with a card sees more.
"""

from __future__ import annotations

import os
from typing import Any

from assay.scoring.metrics.applying import apply_patch
from assay.scoring.metrics.patches import parse_patch

PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "project")
MOST_LINES = 12


def score(inputs: dict[str, Any], outputs: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """The raw score of a patch: `judge_quality` from 1 to 5."""
    return {"judge_quality": 1 + sum(rules(outputs["patch"]).values())}


def rules(patch: str) -> dict[str, bool]:
    """Which rules of the house a patch keeps."""
    files = parse_patch(patch)
    lines = sum(len(hunk) for file in files if file.path.startswith("shed/") for hunk in file.hunks)
    return {
        "small": lines <= MOST_LINES,
        "in place": all(file.path == "CHANGES.md" or file.path.startswith(("shed/", "tests/")) for file in files),
        "compiles": compiles(patch),
        "written down": any(file.path == "CHANGES.md" or file.path.startswith("tests/") for file in files),
    }


def compiles(patch: str) -> bool:
    """Whether every Python file that the patch leaves can be compiled; a patch that does not apply leaves none."""
    made = apply_patch(patch, PROJECT)
    try:
        for path, file in made.files.items():
            if path.endswith(".py") and file is not None and isinstance(file.data, bytes):
                compile(file.data, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return made.applies.clean
