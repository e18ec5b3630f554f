"""The worst samples of a candidate, kept while it is read, for the pages of a decision."""

from __future__ import annotations

import argparse
import os

from assay.errors import UsageError
from assay.files.json_files import Document
from assay.pipeline.grading import Graded
from assay.views.blocks import Part, section
from assay.views.documents import plain
from assay.views.evaluation import WorstRun, keep_worst
from assay.views.report_evidence import evidence_block, kept_evidence
from assay.views.report_rows import kept_row
from assay.views.worst_samples import worst_sample, worst_samples


class CandidateWorst:
    """The worst runs of a candidate that did not pass, of different samples."""

    def __init__(self) -> None:
        self._found: list[WorstRun] = []

    @classmethod
    def of(cls, options: argparse.Namespace) -> CandidateWorst | None:
        """What the outputs of a command show; None if none of them shows any."""
        pages = any(path.endswith((".md", ".html")) for path in options.output)
        return cls() if pages or options.step_summary else None

    def add(self, _document: Document, graded: Graded) -> None:
        """Take a grade as it is made."""
        if not graded.grade.passed and graded.run is not None:
            keep_worst(self._found, plain(graded.payload()), graded.run)

    def markdown(self) -> str:
        """For a pull request."""
        listed = [worst_sample(one.result, one.run) for one in self._found]
        return worst_samples([one for one in listed if one is not None])

    def parts(self) -> list[Part]:
        """For a page."""
        folds = [
            evidence_block(
                kept_row(one.result, one.run).row,
                kept_evidence(one.run),
                one.result,
                place,
                opened=place == 1,
            )
            for place, one in enumerate(self._found, 1)
        ]
        title = "Worst samples of the candidate"
        return [section(title, *folds, id="worst")] if folds else []


def write_step_summary(text: str) -> None:
    """Add a page to the summary of a step of GitHub Actions."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        raise UsageError(
            "CLI-001",
            "--step-summary needs the file that $GITHUB_STEP_SUMMARY names, and it is not set.",
        )
    try:
        with open(path, "a", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
    except OSError as error:
        raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=path) from None
