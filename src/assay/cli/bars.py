"""The bar on the pass rate, as options set it, and the exit code that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.errors import ExitCode

if TYPE_CHECKING:
    import argparse

    from assay.cli.stream import Totals
    from assay.release.pass_rate import PassBar


def exit_code(totals: Totals) -> int:
    """PASSED if all runs pass, or as many samples as the bar requires."""
    result = totals.check_bar()
    holds = totals.passed == totals.graded if result is None else result.holds
    if holds is None:
        return ExitCode.NOT_ENOUGH
    return ExitCode.PASSED if holds else ExitCode.FAILED


def pass_bar(options: argparse.Namespace) -> PassBar | None:
    """The bar on the pass rate that the options set; None if there is none."""
    least, confidence = (getattr(options, name, None) for name in ("min_pass_rate", "confidence"))
    if least is None and confidence is None:
        return None
    from assay.release.pass_rate import PassBar

    return PassBar.of(least, confidence)
