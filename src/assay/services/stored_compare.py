"""A release decision on stored evidence: an evaluation against another one, or against a stored
baseline. It is the decision that `assay gate` makes, and it is refused for the same reasons.

Nothing is stored here; `take` gets the records that a stored decision depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from assay.archive.evaluation_choice import (
    EvaluationChoice,
    ToolProfile,
    baseline_settings,
    choose,
    refuse_other_scale,
)
from assay.archive.evaluations import StoredEvaluation, first_grade, stored_runs
from assay.archive.grades import NO_BASIS, Basis
from assay.archive.named_baselines import as_stored
from assay.archive.sides import KeptSide, Take, keep_side
from assay.errors import InputError
from assay.files.json_files import Document
from assay.pipeline.grading import Grader
from assay.pipeline.regraded import regraded_in
from assay.pipeline.sides import severe_of
from assay.records.decision import Decision
from assay.release.baseline import refuse_exam
from assay.release.comparability import check_kept_rules
from assay.release.policy import ReleaseRules
from assay.services.compare import Asked, check_kept_age, compare
from assay.store.baselines import KeptBaseline, evidence_of_baseline
from assay.store.drafts import EVIDENCE, Body, Item
from assay.store.ledger import Ledger


class ReleaseSide(NamedTuple):
    """One side of a decision: an evaluation, or a named baseline."""

    name: str
    stored: StoredEvaluation | None = None
    kept: KeptBaseline | None = None

    @property
    def digest(self) -> str:
        """The digest of its record."""
        if self.stored is not None:
            return self.stored.digest
        return "" if self.kept is None else self.kept.digest

    @property
    def settings(self) -> Mapping[str, Any] | None:
        """What it was evaluated with; None for a baseline, unless another tool made it."""
        if self.stored is not None:
            return self.stored.evaluation.settings
        return None if self.kept is None else baseline_settings(self.kept.record)

    @property
    def evidence(self) -> list[str]:
        """The digests of its runs."""
        if self.stored is not None:
            return [run.digest for run in self.stored.evaluation.runs]
        return [] if self.kept is None else list(map(str, self.kept.record["evidence_digests"]))


class DecidedSides(NamedTuple):
    """A decision and its two sides."""

    decision: Decision
    candidate: KeptSide
    baseline: KeptSide
    regraded: bool = False
    """Whether a side was stored with grades by other rules."""
    made: ToolProfile | None = None
    """The profile made from the metrics of the baseline, if they were graded by one."""


def choose_for(
    candidate: ReleaseSide,
    baseline: ReleaseSide,
    *,
    policy: str = "workflow",
    configured: Mapping[str, str] = MappingProxyType({}),
) -> EvaluationChoice:
    """What to grade both sides by; `policy` is for evaluations that name none, and `configured` has
    the settings of an assay.yaml. An evaluation is never its own baseline, not even under another
    name.
    """
    ours, theirs = candidate.evidence, baseline.evidence
    if candidate.digest == baseline.digest or set(ours) == set(theirs):
        raise InputError(
            "REL-002",
            f"{candidate.name} would be compared with its own runs, which shows nothing.",
            fix="Choose another evaluation as the baseline.",
        )
    return choose(
        {candidate.name: candidate.settings or {}},
        {baseline.name: baseline.settings},
        policy=policy,
        configured=configured,
    )


def decide_stored(
    ledger: Ledger,
    candidate: ReleaseSide,
    baseline: ReleaseSide,
    rules: ReleaseRules,
    grader: Grader,
    *,
    choice: EvaluationChoice,
    project: str,
    quarantine: tuple[str, ...] = (),
    slices: tuple[str, ...] = (),
    take: Take | None = None,
    basis: Basis = NO_BASIS,
    author: str | None = None,
) -> DecidedSides:
    """Decide. A missing run, a baseline that is too old and sides that were made differently are
    errors.
    """
    label = "baseline"
    if baseline.kept is not None:
        refuse_exam(baseline.kept.record.get("kind", "runs"), baseline.name)
        check_kept_age(baseline.kept.record, rules, where=baseline.name)
        label = f"baseline {as_stored(baseline.kept, ledger.where).name}"
    elif baseline.stored is not None:
        made = {"name": baseline.name, "made_at": baseline.stored.evaluation.started}
        check_kept_age(made, rules, where=baseline.name)
    sides: list[KeptSide] = []
    notes: list[str] = []
    for side, name in ((candidate, "candidate"), (baseline, label)):
        items = _evidence(ledger, side, project)
        documents = [Document(item.tree(), item.digest) for item in items]
        if choice.made is not None and name == "candidate":
            refuse_other_scale(side.name, documents, choice.made)
        notes += regraded_notes(ledger, side.stored, side.name, documents, grader, project=project)
        sides.append(
            keep_side(
                partial(iter, documents),
                grader,
                take,
                name=name,
                severe=severe_of(rules),
                where=side.name,
                basis=basis,
                author=author,
                stored={item.digest: Body(item.body or b"") for item in items},
            )
        )
    if baseline.kept is not None:
        check_kept_rules(baseline.kept.record, sides[1].side, name=baseline.name)
    asked = Asked(quarantine=quarantine, slices=slices, regraded=tuple(notes))
    decision = compare(sides[0], sides[1], rules, grader, asked)
    return DecidedSides(decision, sides[0], sides[1], bool(notes), choice.made)


def _evidence(ledger: Ledger, side: ReleaseSide, project: str) -> list[Item]:
    if side.stored is not None:
        return list(stored_runs(ledger, side.stored, project=project))
    assert side.kept is not None
    return list(evidence_of_baseline(ledger, side.kept, kinds=EVIDENCE, project=project))


def regraded_notes(
    ledger: Ledger,
    stored: StoredEvaluation | None,
    name: str,
    documents: list[Document],
    grader: Grader,
    *,
    project: str,
) -> list[str]:
    """Notes that an evaluation was stored with grades by other rules, judging by its first
    grade.
    """
    before = None if stored is None else first_grade(ledger, stored, project=project)
    sentence = "" if before is None else regraded_in(name, before, documents, grader)
    return [sentence] if sentence else []
