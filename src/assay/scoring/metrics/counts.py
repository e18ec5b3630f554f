"""Shares of things that came out right: the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.scoring.metrics.measure import Measure, Undetermined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.records.evidence import Run


def _tests(run: Run, _params: Mapping[str, Any]) -> Any:
    if run.tests is None or run.tests.fail_to_pass is None or run.tests.pass_to_pass is None:
        return Undetermined(
            "the run does not carry both `tests.fail_to_pass` and `tests.pass_to_pass`"
        )
    total = run.tests.fail_to_pass.total + run.tests.pass_to_pass.total
    if total == 0:
        return Undetermined("`tests` counts no tests")
    return {"passed": run.tests.fail_to_pass.passed + run.tests.pass_to_pass.passed, "total": total}


COUNTS = (
    Measure(
        "tests_passed",
        "1",
        "Tests that pass, of all that should",
        "share",
        "higher is better",
        "ratio",
        "tests",
        "undetermined",
        _tests,
    ),
)
