"""The faults of a stream of documents as one error."""

from __future__ import annotations

import os
import shlex

from assay.cli.stream import Totals
from assay.errors import InputError


def faults_error(totals: Totals, *, stopped: bool) -> InputError:
    """One error for all the faults of the stream; the first twenty are shown, all are counted."""
    files = list(dict.fromkeys(fault.file for fault in totals.faults))
    first = totals.faults[0]
    shown = totals.faults[:20]
    if len(files) > 1:
        for fault in shown:
            fault.path = f"{fault.file} {fault.path}".rstrip()
    error = InputError(
        first.code,
        first.text(),
        where=files[0] if len(files) == 1 else f"{len(files)} files",
        fix=first.fix,
        faults=shown,
    )
    error.fault_count = totals.fault_count
    beside = f"{os.path.splitext(files[0] or '')[0]}.profile.yaml"
    if first.code == "SCO-010" and len(files) == 1 and os.path.isfile(beside):
        error.advice = f"There is a profile next to the runs: give --profile {shlex.quote(beside)}."
        return error
    if stopped and totals.graded:
        error.advice = "Nothing was graded; --keep-going grades the rest and still exits 3."
    elif not stopped:
        error.advice = f"The other {totals.graded:,} were graded."
    return error
