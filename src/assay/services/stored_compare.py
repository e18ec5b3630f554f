"""A release decision on stored evidence: an evaluation against another one, or against a stored
baseline. It is the decision that `assay gate` makes, and it is refused for the same reasons.

Nothing is stored here; `take` gets the records that a stored decision depends on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from assay.files.json_files import Document
from assay.records.decision import Decision
from assay.release.policy import ReleaseRules
from assay.services.compare import Asked, Origin, check_origins, compare
from assay.services.evaluation_choice import EvaluationChoice, ToolProfile, baseline_settings
from assay.services.evaluations import StoredEvaluation, first_grade, stored_runs
from assay.services.grading import Grader
from assay.services.named_baselines import as_stored
from assay.services.rules import RulesRequest, graded_side, rules_for
from assay.services.sides import severe_of
from assay.services.stored_sides import KeptSide, Take, keep_side
from assay.services.storing import NO_BASIS, Basis
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
    the settings of an assay.yaml.
    """
    return rules_for(
        RulesRequest(
            [graded_side(candidate.name, candidate.settings or {})],
            [graded_side(baseline.name, baseline.settings, kept=baseline.kept is not None)],
            configured=configured,
            policy=policy,
        )
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
        label = f"baseline {as_stored(baseline.kept, ledger.where).name}"
    ours, theirs = (origin_of(ledger, side, project=project) for side in (candidate, baseline))
    check_origins(ours, theirs, rules)  # before anything is read
    sides: list[KeptSide] = []
    for side, name in ((candidate, "candidate"), (baseline, label)):
        items = _evidence(ledger, side, project)
        documents = [Document(item.tree(), item.digest) for item in items]
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
    asked = Asked(
        quarantine,
        slices,
        candidate=ours,
        baseline=theirs,
        made=choice.made,
    )
    decision = compare(sides[0], sides[1], rules, grader, asked)
    return DecidedSides(decision, sides[0], sides[1], bool(decision.regraded), choice.made)


def origin_of(ledger: Ledger, side: ReleaseSide, *, project: str) -> Origin:
    """Where a side comes from."""
    if side.kept is not None:
        name = as_stored(side.kept, ledger.where).name
        return Origin(name, digest=side.digest, kept=side.kept.record, where=side.name)
    assert side.stored is not None
    return Origin(
        side.name,
        made_at=side.stored.evaluation.started,
        digest=side.stored.runs_digest,
        graded=first_grade(ledger, side.stored, project=project),
        where=side.name,
    )


def _evidence(ledger: Ledger, side: ReleaseSide, project: str) -> list[Item]:
    if side.stored is not None:
        return list(stored_runs(ledger, side.stored, project=project))
    assert side.kept is not None
    return list(evidence_of_baseline(ledger, side.kept, kinds=EVIDENCE, project=project))
