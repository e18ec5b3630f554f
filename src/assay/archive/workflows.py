"""The workflows of a project, the most recently active first, each with its last evaluations, what
the newest is compared with, and the last decision about it.

Nothing here grows with the number of runs: evaluations are read without their lists of runs, a
bounded number for each workflow, and what was read is cached by its digest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import NamedTuple

from assay.archive.compared import (
    EARLIER,
    NamedBaseline,
    earlier_evaluation,
    evaluation_of_runs,
    named_baselines,
    shared_samples,
)
from assay.archive.evaluations import StoredEvaluation, brief_evaluations
from assay.errors import AssayError
from assay.records.decision import DECISION_SCHEMA
from assay.records.evaluation import Evaluation
from assay.stats.rates import rate_difference
from assay.store import reading
from assay.store.ledger import Ledger
from assay.store.reading import ActiveWorkflow, active_workflows
from assay.views.evaluations import graded_by
from assay.views.workflow_card import CardBaseline, CardDecision

EVALUATIONS = EARLIER + 1
"""How many evaluations of a workflow are read: the newest, and what it may be compared with."""
LOOKED_AT = 50
"""How many evaluations are searched for what they were graded by."""
DECISIONS = 20
"""How many decisions are searched for the last one about a workflow."""
_REMEMBERED = 2000
_made_of: dict[tuple[str, str, str, bytes], tuple[str, ...]] = {}
"""The evaluation of each baseline, if there is one, by ledger, project, the newest evaluation at
that time, and the baseline's runs.
"""


class WorkflowState(NamedTuple):
    """A workflow with its last evaluations, its baseline and its last decision."""

    workflow: ActiveWorkflow
    evaluations: tuple[StoredEvaluation, ...] = ()
    """The newest first, without their lists of runs."""
    changed: tuple[str, ...] = ()
    """Digests of evaluations that don't match their digests, or can't be read."""
    baseline: CardBaseline | None = None
    decision: CardDecision | None = None

    @property
    def name(self) -> str:
        """The workflow's id; a very long one is known only where an evaluation states it."""
        return self.evaluations[0].evaluation.workflow.id if self.evaluations else self.workflow.id


def listed_workflows(ledger: Ledger, project: str) -> list[ActiveWorkflow]:
    """Every workflow of a project, the one with the newest run or evaluation first."""
    known = {workflow.id: workflow for workflow in active_workflows(ledger.database, project)}
    for evaluation in reading.newest(ledger.database, project, "evaluation", limit=5 * EVALUATIONS):
        if evaluation.workflow is not None:  # graded again, or its runs were forgotten
            before = known.get(evaluation.workflow, ActiveWorkflow(evaluation.workflow, 1, 0, 0))
            known[evaluation.workflow] = before._replace(
                newest_seq=max(before.newest_seq, evaluation.seq)
            )
    return sorted(known.values(), key=lambda workflow: (-workflow.newest_seq, workflow.id))


def workflow_states(
    ledger: Ledger,
    project: str,
    workflows: Sequence[ActiveWorkflow],
    *,
    before: int | None = None,
) -> list[WorkflowState]:
    """The state of each of these workflows; with `before`, from the evaluations before that
    position.
    """
    states = [_with_evaluations(ledger, project, workflow, before) for workflow in workflows]
    subjects = {
        (newest.workflow.id, newest.dataset.id)
        for state in states
        for newest in [stored.evaluation for stored in state.evaluations[:1]]
    }
    named = named_baselines(ledger, subjects, project=project) if subjects else {}
    decided = _decisions(ledger, project, {workflow.id for workflow in workflows})
    return [
        state._replace(
            baseline=_baseline(ledger, project, state, named),
            decision=decided.get(state.workflow.id),
        )
        for state in states
    ]


def evaluations_graded_by(
    ledger: Ledger, project: str, wanted: Callable[[reading.GradedBy, Evaluation], bool]
) -> list[StoredEvaluation]:
    """Those of the last evaluations of a project that were graded by something, the newest first,
    without their runs.
    """
    briefs = reading.newest(ledger.database, project, "evaluation", limit=LOOKED_AT)
    graded = reading.graded_by(ledger.database, project, [brief.seq for brief in briefs])
    evaluations = brief_evaluations(
        ledger, project, [brief.digest for brief in briefs if brief.seq in graded]
    )
    return [
        evaluation
        for evaluation in evaluations
        if wanted(graded[evaluation.seq], evaluation.evaluation)
    ]


def _with_evaluations(
    ledger: Ledger, project: str, workflow: ActiveWorkflow, before: int | None
) -> WorkflowState:
    """A workflow with its last evaluations, without those of chosen samples, and the digests of
    those that can't be trusted.
    """
    briefs = reading.newest(
        ledger.database,
        project,
        "evaluation",
        limit=EVALUATIONS,
        workflow=workflow.id,
        before=before,
    )
    digests = [brief.digest for brief in briefs]
    evaluations = brief_evaluations(ledger, project, digests)
    known = {evaluation.digest for evaluation in evaluations}
    changed = (digest for digest in digests if digest not in known)
    whole = tuple(stored for stored in evaluations if not stored.evaluation.only)
    return WorkflowState(workflow, whole, tuple(changed))


def _baseline(
    ledger: Ledger,
    project: str,
    state: WorkflowState,
    named: dict[tuple[str, str], NamedBaseline],
) -> CardBaseline | None:
    """The named baseline of the newest evaluation's workflow and dataset, else the evaluation
    before it on that dataset. The baseline itself is compared with the one before, too.
    """
    if not state.evaluations:
        return None
    newest, *older = state.evaluations
    of = newest.evaluation
    kept = named.get((of.workflow.id, of.dataset.id))
    if kept is not None:
        try:
            evaluation = _evaluation_of(ledger, project, kept, newest)
        except AssayError:  # the page of the evaluation shows what is wrong
            return CardBaseline(kept.name, None, reason="its evaluation can't be read")
        if evaluation is None:
            return CardBaseline(
                kept.name,
                None,
                reason="it was not made of one stored evaluation",
                lost=max(0, len(kept.evidence_digests) - of.totals.n),
            )
        if evaluation.digest != newest.digest:
            return _compared(ledger, project, kept.name, newest, evaluation)
    before = earlier_evaluation(ledger, newest, older, project=project)
    return None if before is None else _compared(ledger, project, "", newest, before)


def _evaluation_of(
    ledger: Ledger, project: str, kept: NamedBaseline, newest: StoredEvaluation
) -> StoredEvaluation | None:
    """The evaluation that a baseline was made of, without its runs. The search reads lists of runs,
    so it is repeated only after a new evaluation.
    """
    runs = kept.evidence_digests
    key = (ledger.where, project, newest.digest, sha256("".join(runs).encode()).digest())
    digests = _made_of.get(key)
    if digests is None:
        evaluation = evaluation_of_runs(ledger, runs, project=project)
        if len(_made_of) > _REMEMBERED:
            _made_of.clear()
        digests = _made_of[key] = () if evaluation is None else (evaluation.digest,)
    return next(iter(brief_evaluations(ledger, project, digests)), None)


def _compared(
    ledger: Ledger, project: str, name: str, newest: StoredEvaluation, baseline: StoredEvaluation
) -> CardBaseline:
    of, other = newest.evaluation, baseline.evaluation
    ours, theirs = of.totals, other.totals
    reason = (
        "one of them has no graded run"
        if ours.ungraded == ours.n or theirs.ungraded == theirs.n
        else "they are on different versions of the dataset"
        if of.dataset != other.dataset
        else "they were graded by different rules"
        if graded_by(of.settings) != graded_by(other.settings)
        else ""
    )
    if of.dataset != other.dataset:
        return CardBaseline(name, other, reason=reason)
    shared = shared_samples(ledger, newest, baseline, project=project)
    reason = reason or shared.reason
    difference = None if reason else rate_difference(*shared[:4])
    return CardBaseline(name, other, difference, reason, shared.lost)


def _decisions(ledger: Ledger, project: str, workflows: Collection[str]) -> dict[str, CardDecision]:
    """The newest release decision about each workflow, among the last few of the project."""
    last = [
        brief
        for brief in reading.newest(ledger.database, project, "decision", limit=DECISIONS)
        if brief.schema == DECISION_SCHEMA and brief.status is not None
    ]
    sides = reading.sides_of(ledger.database, project, [brief.seq for brief in last], look_at=1)
    decisions: dict[str, CardDecision] = {}
    for brief in last:
        for workflow, version in sides.get(brief.seq, {}).get("candidate", ()):
            if workflow in workflows:
                decisions.setdefault(
                    workflow,
                    CardDecision(
                        brief.digest, brief.status, brief.policy, brief.created_at, version
                    ),
                )
    return decisions
