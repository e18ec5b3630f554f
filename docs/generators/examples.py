"""Bundled examples, graded for real: what the pages show is what the program made."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import assay
from assay.canon import digest
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.contract import encode
from assay.records.evidence import Run
from assay.services.grading import Grader

BUNDLED = Path(assay.__file__).parent / "cli" / "examples"


def bundled_run(family: str = "tool-use", place: int = 0) -> dict[str, Any]:
    """A run of the bundled examples."""
    lines = (BUNDLED / f"{family}.jsonl").read_text().splitlines()
    run: dict[str, Any] = json.loads(lines[place])
    return run


@cache
def graded_example() -> tuple[Run, dict[str, Any], str]:
    """A bundled run, its grade, and the digest that the grade is stored under."""
    graded = Grader(Shelf()).grade(Document(bundled_run(), "runs.jsonl", 1))
    payload = json.loads(encode(graded.payload()))
    assert graded.run is not None
    return graded.run, payload, digest(graded.payload())
