"""The grade of one scorecard: every number that decided it, as exact integers, and the findings of
the rules.

Norms are counts of billionths and scores are counts of hundredths (see `exact`); the properties
return them as floats. A Grade carries its band edges and its scorecard, so that code that explains
or draws it needs no rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct

from assay import exact
from assay.errors import printable
from assay.records.scorecard import SCORING_SYSTEM, Criterion, Scorecard

GRADES_SCHEMA = "assay.grades/1"
GRADING_SYSTEM = "gradingSystem/1.0.0"
ENGINE = {"scoringSystem": SCORING_SYSTEM, "gradingSystem": GRADING_SYSTEM}
"""The systems that this code implements, for results without a profile or policy. Any other result
names the systems that its profile and policy state.
"""
LETTERS = ("A", "B", "C", "D", "F")


def is_graded(tree: Any) -> bool:
    """Whether a document contains grades: `assay.grades/1`, or one result of it."""
    if not isinstance(tree, dict):
        return False
    return tree.get("schema") == GRADES_SCHEMA or (
        "schema" not in tree and "hard_gates" in tree and "grade" in tree
    )


class Band(NamedTuple):
    """A letter and the lowest score, in hundredths, that earns it."""

    grade: str
    edge: int


class Finding(NamedTuple):
    """One rule that was checked: whether it fired, on what, and why it matters."""

    rule: str
    fired: bool
    subject: str
    text: str


class GradedCriterion(Struct, frozen=True, kw_only=True):
    """One criterion with its norm, its part of the score and its floor."""

    criterion: Criterion
    norm_units: int
    adjusted_units: int
    contribution_units: int
    """Points on 0..100 that this criterion contributes, in millionths."""
    floor_units: int | None = None
    floor_from: str | None = None
    """Where the floor comes from: `criterion`, `role` or `override`."""
    floor_failed: bool = False
    judge_fault: str | None = None
    """Why the judge that scored it may not gate; None if it may."""
    role_floor_units: int | None = None
    """The policy's floor for its role, even if an override replaces it."""
    disagreement_units: int | None = None
    """How far apart its judges were, on 0..1; None if that was not measured."""
    was_measured: bool = False
    """Whether Assay computed it from the evidence."""

    @property
    def name(self) -> str:
        """The criterion's name."""
        return self.criterion.name

    @property
    def norm(self) -> float:
        """The norm on 0..1."""
        return exact.shown(self.norm_units, exact.NORM_DIGITS)

    @property
    def adjusted_norm(self) -> float:
        """The norm pulled towards the prior, on 0..1."""
        return exact.shown(self.adjusted_units, exact.NORM_DIGITS)

    @property
    def contribution(self) -> float:
        """Points this criterion contributes to the weighted score."""
        return exact.shown(self.contribution_units, 6)


class Grade(Struct, frozen=True, kw_only=True):
    """The letter, the letter without gates and floors, and whether the run passed.

    >>> import assay
    >>> card = {
    ...     "schema": "assay.scorecard/1",
    ...     "run_id": "r-1",
    ...     "hard_gates": {"schema_contract_valid": True},
    ...     "criteria": [{"name": "tone", "raw_score": 4, "formula_id": "likert_1_5", "weight": 1}],
    ... }
    >>> result = assay.grade(card)
    >>> result.grade, result.passed, result.reason
    ('C', True, 'passed')
    """

    run_id: str
    passed: bool
    grade: str
    provisional_grade: str
    score_units: int
    adjusted_score_units: int
    threshold_units: int
    """The passing score, in hundredths."""
    threshold: Any
    """The passing score as it was written."""
    reason: str
    hard_gate_failures: tuple[str, ...]
    floor_failures: tuple[str, ...]
    criteria: tuple[GradedCriterion, ...]
    weights: tuple[int, ...]
    """The criteria's weights over a common denominator."""
    bands: tuple[Band, ...]
    floor_cap: str
    comfortable_margin: int
    floor_roles: tuple[str, ...]
    """The roles for which the policy has a floor."""
    disagreement_limit: int
    """The largest disagreement of judges, on 0..1, that the placement notes call low."""
    scorecard: Scorecard
    policy: str
    policy_digest: str
    findings: tuple[Finding, ...]
    grading_system: str

    def __bool__(self) -> bool:
        """Whether the run passed, so that `assert assay.grade(run)` fails where it did not."""
        return self.passed

    def __repr__(self) -> str:
        """What a failed `assert assay.grade(run)` shows: the verdict, and each rule that fired."""
        verdict = "passed" if self.passed else "not passed"
        head = f"{self.run_id}: {self.grade}, {self.weighted_score:.2f}, {verdict}"
        fired = (finding.text for finding in self.findings if finding.fired)
        return printable(f"<Grade {'; '.join([head, *fired])}>")

    @property
    def sample(self) -> str:
        """The sample of the run, within its dataset, which repeats share; the run's id if it names
        no sample.
        """
        card = self.scorecard
        if card.dataset is not None:
            return f"{card.dataset.id}/{card.dataset.sample_id}"
        return card.sample_id if card.sample_id is not None else self.run_id

    @property
    def weighted_score(self) -> float:
        """The weighted score on 0..100, rounded half-up to 2 decimals; it decides the letter."""
        return exact.shown(self.score_units, exact.SCORE_DIGITS)

    @property
    def weighted_score_adjusted(self) -> float:
        """The weighted score of the adjusted norms."""
        return exact.shown(self.adjusted_score_units, exact.SCORE_DIGITS)

    @property
    def cause(self) -> str:
        """What ended a run that did not succeed; empty if that isn't stated."""
        return self.scorecard.ended_by or ""

    @property
    def pass_threshold(self) -> float:
        """The lowest score that passes."""
        return float(self.threshold)

    @property
    def scoring_system(self) -> str:
        """The version of the scoring system that made the scorecard."""
        return self.scorecard.scoring_system


Payload = dict[str, Any]
"""A grade as it appears in `results[]` of `assay.grades/1`."""
