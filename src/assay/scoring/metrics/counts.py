"""Shares of things that came out right: tests, claims, passages, handoffs.

Once anything of a kind was judged, what was left unjudged counts as not right: leaving the hard cases unjudged must not raise a share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.scoring.metrics.measure import Measure, Undetermined

if TYPE_CHECKING:
    from assay.records.evidence import Run


def _tests(run: Run) -> Any:
    if run.tests is None or run.tests.fail_to_pass is None or run.tests.pass_to_pass is None:
        return Undetermined("the run does not carry both `tests.fail_to_pass` and `tests.pass_to_pass`")
    total = run.tests.fail_to_pass.total + run.tests.pass_to_pass.total
    if total == 0:
        return Undetermined("`tests` counts no tests")
    return {"passed": run.tests.fail_to_pass.passed + run.tests.pass_to_pass.passed, "total": total}


def _claims(run: Run) -> Any:
    if not run.claims or all(claim.supported is None for claim in run.claims):
        return Undetermined("the run lists no judged `claims`")
    return {"passed": sum(claim.supported is True for claim in run.claims), "total": len(run.claims)}


def _passages(run: Run) -> Any:
    if not run.retrieval or all(passage.relevant is None for passage in run.retrieval):
        return Undetermined("the run lists no judged `retrieval`")
    return {"passed": sum(passage.relevant is True for passage in run.retrieval), "total": len(run.retrieval)}


def _handoffs(run: Run) -> Any:
    if not run.handoffs or all(handoff.expected is None for handoff in run.handoffs):
        return Undetermined("the run lists no `handoffs` with an `expected` agent")
    return {"passed": sum(handoff.to == handoff.expected for handoff in run.handoffs), "total": len(run.handoffs)}


def _share(id: str, title: str, evidence: str, take: Any) -> Measure:
    return Measure(
        id=id, version="1", title=title, unit="share", direction="higher is better", formula="ratio", evidence=evidence,
        absence="undetermined; once one is judged, an unjudged one counts as not right", take=take,
    )  # fmt: skip


COUNTS = (
    _share("tests_passed", "Tests that pass, of all that should", "tests", _tests),
    _share("claims_supported", "Claims that the retrieved context supports", "claims[].supported", _claims),
    _share("passages_relevant", "Retrieved passages that are relevant", "retrieval[].relevant", _passages),
    _share("handoffs_expected", "Handoffs that went to the expected agent", "handoffs[].expected", _handoffs),
)
