"""The part of the demo with another tool's results: a file of promptfoo, graded as it is."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from assay.cli import options as opt
from assay.files.json_files import read_documents
from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.pipeline.importing import import_runs, totals
from assay.running.post_run import write_profile
from assay.views.documents import plain
from assay.views.grade_line import as_line


def imported(file: str) -> dict[str, Any]:
    """The tool's totals next to ours, and the grades under the profile made from its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        found = import_runs([file], folder)
        profile = found.made_profile()
        assert profile is not None
        grader = Grader(Shelf(), profile=write_profile(profile, folder))
        graded = [grader.grade(document) for document in read_documents(found.spool)]
    return {
        "tool": found.importer.name,
        "profile": profile.id,
        "totals": totals(found.tally),
        "results": [plain(one.payload()) for one in graded],
        "failed": [as_line(one.grade).text for one in graded if not one.grade.passed],
    }


def tell(found: dict[str, Any], *, on: bool) -> None:
    """The totals and the first samples that fail, in a few lines."""
    out = sys.stdout
    out.write(opt.paint("\nAnother tool's results, as promptfoo wrote them\n", "bold", on=on))
    theirs = next(row["ours"] for row in found["totals"] if row["total"] == "passed")
    n, failed = len(found["results"]), found["failed"]
    out.write(
        f"  promptfoo passed {theirs} of {n} samples, Assay passes {n - len(failed)}; errors are"
        " missing evidence\n"
    )
    for line in failed[:2]:
        out.write(opt.paint(f"  {line}", "red", on=on) + "\n")
    out.write(f"       ... and {len(failed) - 2} more\n")
    out.write(f"  profile {found['profile']}, made from the file's metrics\n")
