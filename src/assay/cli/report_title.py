"""What a report says it is about: the evaluation, what ran on what, and when."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from assay.errors import count
from assay.files.inputs import StoredInput
from assay.records.summary import ValueInterval, value_interval
from assay.stats.intervals import wilson
from assay.views.evaluation import import_notes, unchecked, versioned
from assay.views.exporters import ReportTitle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.cli.parsing import Options
    from assay.records.evaluation import VersionedName
    from assay.services.storing import EvaluationBuilder


def report_title(options: Options, builder: EvaluationBuilder | None) -> ReportTitle:
    """The title of a report on the files of a command, or on the evaluation that is being made."""
    if builder is not None:
        lead = _lead(builder.workflow, builder.dataset, builder.started.isoformat())
        return ReportTitle(builder.name, lead, _rate)
    files: Sequence[str] = options.files
    stored = [file for file in files if isinstance(file, StoredInput)]
    noted = partial(ReportTitle, rate=_rate)
    if stored:
        noted = partial(noted, **_import_notes(stored, options))
    if len(files) == 1 and stored and stored[0].evaluation is not None:
        made = stored[0].evaluation.evaluation
        return noted(made.name, _lead(made.workflow, made.dataset, made.started))
    named = [file if isinstance(file, StoredInput) else os.path.basename(file) for file in files]
    if len(named) > 3:
        named = [*named[:3], f"and {count(len(named) - 3, 'other file')}"]
    return noted("", "" if files == ["-"] else ", ".join(named))


def _import_notes(files: Sequence[StoredInput], options: Options) -> dict[str, Any]:
    """What was noted when the files were imported, and whether answers passed without a check."""
    from assay.cli.imported_inputs import MADE, ImportedInput, noted  # not for runs of our own

    notes: dict[str, None] = {}
    warned = False
    for file in files:
        settings: Mapping[str, Any] = {}
        if isinstance(file, ImportedInput):
            tally = file.imported.tally
            settings = noted(tally)
            if tally.errors:
                notes[f"{tally.errors:,} of {count(tally.samples, 'sample')} errored"] = None
        elif file.evaluation is not None:
            settings = file.evaluation.evaluation.settings
        notes |= dict.fromkeys(import_notes(settings))
        warned = warned or bool(unchecked(settings))
    if options.sources.get("profile") == MADE:
        notes[f"the profile is made from {MADE}: equal weights, no floors"] = None
    return {"notes": list(notes), "unchecked": warned}


def _lead(workflow: VersionedName, dataset: VersionedName, started: str) -> str:
    when = f"{started[:16].replace('T', ' ')} UTC"
    return f"{versioned(workflow)} on {versioned(dataset)}, {when}"


def _rate(passed: int, n: int) -> ValueInterval:
    return value_interval(wilson(passed, n))
