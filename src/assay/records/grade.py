"""The grade of one scorecard: every number that decided it, as exact integers.

Norms are counts of billionths and scores are counts of hundredths (see `exact`); the properties
return them as floats. A Grade carries its band edges and its scorecard, so that code that explains
or draws it needs no rule. Its findings are sentences on these numbers, made when they are read:
most grades are only counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import Struct

from assay import exact
from assay.canon import number_text
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
    policy_threshold: Any
    """The passing score as the policy writes it."""
    may_lack_gates: bool
    """Whether the policy passes a scorecard without a hard gate."""
    asks_of_judges: bool
    """Whether the policy or the profile requires anything of judges."""
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
    def findings(self) -> tuple[Finding, ...]:
        """What the rules found, also where they found nothing: a report shows what was checked."""
        return (
            *_gate_findings(self),
            *_score_findings(self.criteria),
            *_floor_findings(self.criteria),
            *(_judge_findings(self.criteria) if self.asks_of_judges else ()),
            *_cap_finding(self),
            _ABOVE if self.score_units >= self.threshold_units else _BELOW,
            *_threshold_finding(self),
        )

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


# --- findings


_GATES_CLEAR = Finding("hard_gates", False, "", "every hard gate passes")
_NO_GATES = Finding(
    "hard_gates", True, "", "the scorecard has no hard gate, so nothing in it could fail the run"
)
_GATES_WAIVED = Finding(
    "hard_gates", False, "", "the scorecard has no hard gate, and the policy allows that"
)
FLOORS_CLEAR = Finding("critical_floors", False, "", "every critical floor is met")
_JUDGES_ADMITTED = Finding(
    "uncalibrated_judge", False, "", "no score comes from a judge that may not gate"
)
_SCORES_THERE = Finding("missing_score", False, "", "every criterion has a score")
_ABOVE = Finding("pass_threshold", False, "", "the score reaches the threshold")
_BELOW = Finding("pass_threshold", True, "", "the score is below the threshold")


def _gate_findings(grade: Grade) -> list[Finding]:
    gates = grade.scorecard.hard_gates
    if not grade.hard_gate_failures:
        return [_GATES_CLEAR if gates else _GATES_WAIVED if grade.may_lack_gates else _NO_GATES]
    return [
        Finding(
            "hard_gates",
            True,
            name,
            f"{name} {'failed' if gates[name] is False else _UNDETERMINED}",
        )
        for name in grade.hard_gate_failures
    ]


_UNDETERMINED = "is undetermined, which counts as failed"


def _score_findings(criteria: tuple[GradedCriterion, ...]) -> list[Finding]:
    """The findings on criteria without a score, which count as 0."""
    findings = [
        Finding(
            "missing_score",
            True,
            item.criterion.name,
            f"{item.criterion.name} has no score and counts as 0: {item.criterion.missing}",
        )
        for item in criteria
        if item.criterion.raw_score is None
    ]
    return findings or [_SCORES_THERE]


def _floor_findings(criteria: tuple[GradedCriterion, ...]) -> list[Finding]:
    """The findings on missed floors and on overrides of floors."""
    findings = []
    missed = False
    for item in criteria:
        criterion, floor = item.criterion, item.floor_units
        name, override = criterion.name, criterion.floor_override
        if item.floor_failed and floor is not None:
            missed = True
            text = f"{name} reaches its floor only through an uncalibrated judge"
            if item.norm_units < floor:
                norm, short = map(exact.norm_text, (item.norm_units, floor - item.norm_units))
                text = f"{name} is {norm}, {short} below its floor of {exact.norm_text(floor)}"
            findings.append(Finding("critical_floors", True, name, text))
        if override is not None and item.floor_from == "override":
            text = f"the floor of {name} is set by an override: {override.reason}"
            findings.append(Finding("floor_override", True, name, text))
        elif override is not None:
            text = (
                f"the scorecard's own override of the floor of {name} does not"
                " count: only a profile, rubric or policy may lower a floor"
            )
            findings.append(Finding("floor_override", False, name, text))
    return findings if missed else [*findings, FLOORS_CLEAR]


def _judge_findings(criteria: tuple[GradedCriterion, ...]) -> list[Finding]:
    """The findings on scores from judges that may not gate."""
    findings = []
    for item in criteria:
        if item.judge_fault is not None:
            source = item.criterion.source
            who = f"by {source.name}, " if source is not None else "by "
            effect = (
                "; it cannot pass its floor"
                if item.floor_units is not None
                else "; it is shown, and has no floor to pass"
            )
            text = (
                f"{item.criterion.name} is scored {who}an uncalibrated judge:"
                f" {item.judge_fault}{effect}"
            )
            findings.append(Finding("uncalibrated_judge", True, item.criterion.name, text))
    return findings or [_JUDGES_ADMITTED]


def _cap_finding(grade: Grade) -> list[Finding]:
    if not grade.floor_failures:
        return []
    letters = [band.grade for band in grade.bands]
    bites = letters.index(grade.provisional_grade) < letters.index(grade.floor_cap)
    return [Finding("floor_cap", bites, "", f"a missed floor caps the grade at {grade.floor_cap}")]


def _threshold_finding(grade: Grade) -> list[Finding]:
    """The finding on a scorecard that sets a threshold, unless it is the policy's."""
    own = grade.scorecard.pass_threshold
    if own is None:
        return []
    stated, required = (
        exact.reach(value, exact.SCORE_DIGITS) for value in (own, grade.policy_threshold)
    )
    if stated == required:
        return []
    card, policy = number_text(own), number_text(grade.policy_threshold)
    text = f"the scorecard sets the threshold to {card}; the policy's is {policy}"
    if stated < required == grade.threshold_units:
        text = (
            f"the scorecard asks for a threshold of {card}; the policy's {policy} holds,"
            " because a card may only raise it"
        )
    return [Finding("pass_threshold", True, "", text)]


Payload = dict[str, Any]
"""A grade as it appears in `results[]` of `assay.grades/1`."""
