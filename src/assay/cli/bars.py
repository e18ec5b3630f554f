"""How a stream of grades ends: the bar on the pass rate, the exit code that follows from it, and
the faults of the stream as one error.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from assay.errors import ExitCode, InputError

if TYPE_CHECKING:
    from assay.cli.parsing import Options
    from assay.cli.stream import Totals
    from assay.release.pass_rate import PassBar


def exit_code(totals: Totals) -> int:
    """PASSED if all runs pass, or as many samples as the bar requires."""
    result = totals.check_bar()
    return ExitCode.of(totals.passed == totals.graded if result is None else result.holds)


def pass_bar(options: Options) -> PassBar | None:
    """The bar on the pass rate that the options set; None if there is none."""
    least, confidence = (getattr(options, name, None) for name in ("min_pass_rate", "confidence"))
    if least is None and confidence is None:
        return None
    from assay.release.pass_rate import PassBar

    return PassBar.of(least, confidence)


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
    profile = f"{os.path.splitext(files[0] or '')[0]}.profile.yaml"
    if first.code == "SCO-010" and len(files) == 1 and os.path.isfile(profile):
        error.advice = (
            f"There is a profile next to the runs: give --profile {shlex.quote(profile)}."
        )
        return error
    if stopped and totals.graded:
        error.advice = "Nothing was graded; --keep-going grades the rest and still exits 3."
    elif not stopped:
        error.advice = f"The other {totals.graded:,} were graded."
    return error
