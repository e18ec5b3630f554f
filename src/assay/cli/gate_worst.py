"""The worst samples of a candidate, kept while it is read, for the pages of a decision; and the
command that explains one.
"""

from __future__ import annotations

from assay.cli.hints import GRADED_BY, command, given, is_one_file
from assay.cli.ledger import baselines_folder, ledger_options
from assay.cli.parsing import Options
from assay.files.inputs import StoredInput
from assay.files.json_files import Document
from assay.files.own_files import is_batch_output
from assay.pipeline.grading import Graded
from assay.records.decision import Decision
from assay.release.baseline import names
from assay.views.blocks import Part, section
from assay.views.documents import plain
from assay.views.report_evidence import evidence_block, kept_evidence
from assay.views.report_rows import kept_row
from assay.views.worst_samples import WorstSample, keep_worst, worst_samples


class CandidateWorst:
    """The worst runs of a candidate that did not pass, of different samples."""

    def __init__(self) -> None:
        self._worst: list[WorstSample] = []
        self._graded: dict[str, Graded] = {}
        """The runs of these samples."""

    @classmethod
    def of(cls, options: Options) -> CandidateWorst | None:
        """What the outputs of a command show; None if none of them shows any."""
        pages = any(path.endswith((".md", ".html")) for path in options.output)
        return cls() if pages or options.step_summary else None

    def add(self, _document: Document, graded: Graded) -> None:
        """Take a grade as it is made."""
        if not graded.grade.passed and graded.run is not None:
            keep_worst(self._worst, plain(graded.payload()), graded.run)
            known = {**self._graded, graded.grade.run_id: graded}
            self._graded = {sample.run_id: known[sample.run_id] for sample in self._worst}

    def markdown(self) -> str:
        """For a pull request."""
        return worst_samples(self._worst)

    def parts(self) -> list[Part]:
        """For a page."""
        folds = []
        for place, sample in enumerate(self._worst, 1):
            run, result = (
                self._graded[sample.run_id].run,
                plain(self._graded[sample.run_id].payload()),
            )
            row, kept = kept_row(result, run).row, kept_evidence(run)
            folds.append(evidence_block(row, kept, result, place, opened=place == 1))
        title = "Worst samples of the candidate"
        return [section(title, *folds, id="worst")] if folds else []


def next_command(options: Options, document: Decision) -> list[str]:
    """The command that makes a promoted candidate the new baseline, or that explains the sample on
    which a rejected one fell most.
    """
    if document.outcome == "promote":
        return _baseline_command(options)
    fell = next((item for item in document.worse if item.candidate is not None), None)
    if document.outcome != "reject" or fell is None or len(options.files) > 1:
        return []
    file = options.files[0]
    if not is_one_file(file) or is_batch_output(file):
        return []
    policy = given(options, "--grading-policy")[1:]
    words = ("explain", file, "--run", fell.sample, *(("--policy", *policy) if policy else ()))
    ledger = ledger_options(options) if isinstance(file, StoredInput) else ""
    return [f"{command(*words, options=options, carry=GRADED_BY)}{ledger}  # why"]


def _baseline_command(options: Options) -> list[str]:
    replaced = [name for name in options.baseline if name in names(options.baselines)]
    if len(options.baseline) != 1 or not replaced or not all(map(is_one_file, options.files)):
        return []
    ledger = ledger_options(options) if isinstance(options.files[0], StoredInput) else ""
    typed = options.baselines != baselines_folder()
    carry = (*GRADED_BY, "--grading-policy", *(("--baselines",) if typed else ()))
    words = command("baseline", "set", *replaced, *options.files, options=options, carry=carry)
    return [f"{words}{ledger}  # once it is released"]
