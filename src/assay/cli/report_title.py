"""What a report says it is about: the evaluation, what ran on what, and when."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from assay.errors import count
from assay.files.json_files import StoredInput
from assay.records.summary import ValueInterval, value_interval
from assay.stats.intervals import wilson
from assay.views.evaluations import versioned
from assay.views.exporters import ReportTitle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.archive.evaluation_builder import EvaluationBuilder
    from assay.records.evaluation import VersionedName


def report_title(files: Sequence[str], builder: EvaluationBuilder | None) -> ReportTitle:
    """The title of a report on these files, or on the evaluation that is being made."""
    if builder is not None:
        lead = _lead(builder.workflow, builder.dataset, builder.started.isoformat())
        return ReportTitle(builder.name, lead, _rate)
    stored = [
        file.evaluation for file in files if isinstance(file, StoredInput) and file.evaluation
    ]
    if len(files) == 1 and stored:
        made = stored[0].evaluation
        return ReportTitle(made.name, _lead(made.workflow, made.dataset, made.started), _rate)
    named = [file if isinstance(file, StoredInput) else os.path.basename(file) for file in files]
    if len(named) > 3:
        named = [*named[:3], f"and {count(len(named) - 3, 'other file')}"]
    lead = "" if files == ["-"] else ", ".join(named)
    return ReportTitle("", lead, _rate)


def _lead(workflow: VersionedName, dataset: VersionedName, started: str) -> str:
    when = f"{started[:16].replace('T', ' ')} UTC"
    return f"{versioned(workflow)} on {versioned(dataset)}, {when}"


def _rate(passed: int, n: int) -> ValueInterval:
    return value_interval(wilson(passed, n))
