"""The stages in order: evidence, scoring, grading, and the payload of the result. Only this module
knows the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import structs

from assay.canon import canonical
from assay.errors import EvidenceError, Fault, InputError, ShelfError
from assay.files.json_files import Document
from assay.files.yaml_files import locate
from assay.grading.grade import grade_by, plan_of
from assay.grading.plan import GradingPlan, GradingPlans, JudgesOf
from assay.grading.policy import Rules, make_rules
from assay.library.shelf import Shelf
from assay.records.digests import in_one_order, run_digest
from assay.records.evidence import JudgeOn, Run, Workflow
from assay.records.grade import Grade, Payload
from assay.records.reading import read_run, read_scorecard
from assay.records.scorecard import Scorecard
from assay.records.systems import scored_under
from assay.registry import near_miss
from assay.services.selection import (
    WORKFLOW,
    WorkflowPlan,
    select_profile,
    select_rubric,
    shelf_name,
)

if TYPE_CHECKING:
    from assay.scoring.profile import Profile, ScoringPlan


DEFAULT_POLICY = "workflow"


class Grader:
    """Grades runs and scorecards under one choice of profile, rubric and policy."""

    def __init__(
        self,
        shelf: Shelf,
        *,
        policy: str = DEFAULT_POLICY,
        profile: str | Profile | None = None,
        rubric: str | None = None,
        cards: Sequence[Mapping[str, Any]] = (),
        now: datetime | None = None,
    ) -> None:
        self.shelf = shelf
        self._of_cards = GradingPlans(make_rules(shelf.policy(policy)))
        self.judges = _admitted(cards, self.rules, now)
        self._profile = profile
        self.rubric = rubric
        """The rubric that was chosen for all runs, if one was."""
        self._plans: dict[tuple[str | None, ...], ScoringPlan] = {}
        self._of_runs: dict[tuple[str | None, ...], GradingPlan] = {}
        self._by_profile: dict[str, ScoringPlan | None] = {}
        self._required = None if profile is None else self._planned(None, None, None)

    @property
    def rules(self) -> Rules:
        """The policy, as the numbers that grading compares."""
        return self._of_cards.rules

    def grade(self, document: Document) -> Graded:
        """Grade a parsed document. Raises `InputError` for one that is malformed or is neither a
        run nor a scorecard.
        """
        tree = document.tree
        kind = tree.get("schema") if isinstance(tree, dict) else None
        try:
            if kind == "assay.run/1":
                run = read_run(document)
                return Graded(self.grade_run(run), run)
            if kind == "assay.scorecard/1":
                card = read_scorecard(document)
                return Graded(self.grade_card(self.required(card)), None, card)
        except InputError as error:
            if isinstance(error, ShelfError) and error.where:
                error.of_shelf = True
                raise
            raise located(error, document) from None
        raise located(_unknown_kind(document, kind), document)

    def grade_run(self, run: Run) -> Grade:
        """Score and grade a run."""
        from assay.scoring.scorecard import scored

        asked = _asked_by(run)
        plan = self._planned(*asked)
        card, norms = scored(run, plan)
        grading_plan = self._of_runs.get(asked)
        if grading_plan is None:
            terms = _judges_of(self._plan_of(card), card, scored=True)
            grading_plan = self._of_runs[asked] = plan_of(card, self._of_cards, terms)
        return grade_by(card, grading_plan, judges=self.judges, norms=norms)

    def grade_card(self, card: Scorecard, *, scored: bool = False) -> Grade:
        """Grade a scorecard unchanged. If Assay `scored` it from a run, the measured criteria of
        its profile are known not to come from a judge.
        """
        terms = _judges_of(self._plan_of(card), card, scored=scored)
        return grade_by(card, plan_of(card, self._of_cards, terms), judges=self.judges)

    def _plan_of(self, card: Scorecard) -> ScoringPlan | None:
        """The plan of the profile that a card names; None if it names none, or one that is not on
        the shelf.
        """
        if card.profile is None:
            return None
        name = card.profile.id
        if name not in self._by_profile:
            from assay.scoring.profile import make_plan

            try:
                profile = self.shelf.profile(shelf_name(name, "profile"))
                self._by_profile[name] = make_plan(profile, why="named by the scorecard")
            except ShelfError:
                self._by_profile[name] = None
        return self._by_profile[name]

    def scorecard(self, run: Run) -> Scorecard:
        """Score a run by its plan."""
        from assay.scoring.scorecard import score as score_run

        return score_run(run, self._planned(*_asked_by(run)))

    def required(self, scorecard: Scorecard) -> Scorecard:
        """A scorecard, held to its own status, and to the chosen profile or else the one that it
        names, if any.

        Otherwise a card could carry the name of a profile into its result and leave out what the
        profile requires.
        """
        plan = self._required
        if plan is None and scorecard.profile is not None:
            rubric = scorecard.rubric.id if scorecard.rubric is not None else None
            plan = self._planned(None, scorecard.profile.id, rubric, named_by="the scorecard")
        if plan is None and scorecard.status is None:
            return scorecard
        from assay.scoring.requirements import hold_to, hold_to_status

        held = hold_to_status(scorecard, plan)
        if plan is None:
            return held
        system = scored_under(scorecard.scoring_system, plan.scoring_system)
        return hold_to(structs.replace(held, scoring_system=system), plan)

    def _planned(
        self,
        family: str | None,
        profile: str | None,
        rubric: str | None,
        *,
        named_by: str = WORKFLOW,
    ) -> ScoringPlan:
        """The plan for what the evidence names, made once."""
        key = (family, profile, rubric, named_by)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(family, profile, rubric, named_by=named_by)
            self._by_profile.setdefault(plan.profile.id, plan)
        return plan

    def _plan(
        self,
        family: str | None,
        profile: str | None,
        rubric: str | None,
        *,
        named_by: str,
    ) -> ScoringPlan:
        from assay.scoring.profile import make_plan

        chosen, why = select_profile(self.shelf, self._profile, family, profile, named_by=named_by)
        named = rubric if self._profile is None else None
        over, rubric_why = select_rubric(self.shelf, self.rubric, named, named_by=named_by)
        return make_plan(chosen, why=why, rubric=over, rubric_why=rubric_why)

    def plan_for(self, workflow: Workflow) -> WorkflowPlan:
        """The profile of a workflow, the plan that its runs are scored by, and the judge's rubric,
        if there is one.
        """
        profile, _ = select_profile(
            self.shelf, self._profile, workflow.family, workflow.profile, named_by=WORKFLOW
        )
        plan = self._planned(workflow.family, workflow.profile, workflow.rubric)
        rubric, _ = select_rubric(
            self.shelf, self.rubric, workflow.rubric or profile.rubric, named_by=WORKFLOW
        )
        return WorkflowPlan(profile, plan, rubric)


def _asked_by(run: Run) -> tuple[str | None, str | None, str | None]:
    """The family, profile and rubric that a run's workflow names."""
    workflow = run.workflow
    return workflow.family, workflow.profile, workflow.rubric


def _judges_of(plan: ScoringPlan | None, card: Scorecard, *, scored: bool) -> JudgesOf:
    """What the profile of a card says of its scores."""
    if plan is None:
        return _NO_TERMS
    known = scored and plan.digests["profile"] == card.digests.get("profile")
    terms = plan.judge
    return JudgesOf(
        plan.measured if known else frozenset(),
        calibrated=terms is not None and terms.calibration == "required",
        both_orders=terms is not None and terms.order == "both",
    )


_NO_TERMS = JudgesOf()


def _admitted(
    cards: Sequence[Mapping[str, Any]], rules: Rules, now: datetime | None
) -> dict[JudgeOn, str | None]:
    """Why each judge with a card may not gate under the policy's terms; None if it may."""
    terms = rules.judge_terms
    if terms is None or not cards:
        return {}
    from assay.judging.card import admitted  # only where a policy has terms for judges

    return admitted(cards, terms, now=now or datetime.now(UTC))


class Graded:
    """A grade with its evidence: a run, or the scorecard as it was read. A recomputed grade has no
    evidence. Readers may set `document`.
    """

    __slots__ = ("_digest", "_text", "document", "evidence", "grade", "run")

    def __init__(self, grade: Grade, run: Run | None, card: Scorecard | None = None) -> None:
        self.grade = grade
        self.run = run
        self.evidence = run or card
        self.document: Document | None = None
        self._text: bytes | None = None
        self._digest: str | None = None

    def run_text(self) -> bytes:
        """The canonical JSON of the run, made once: a ledger stores it, and its digest is in the
        grade.
        """
        if self._text is None:
            self._text = canonical(self.run)
        return self._text

    @property
    def run_digest(self) -> str | None:
        """The digest of the run, computed once; None without a run."""
        if self._digest is None and self.run is not None:
            if in_one_order(self.run) is self.run:
                self._digest = f"sha256:{sha256(self.run_text()).hexdigest()}"
            else:
                self._digest = run_digest(self.run)
        return self._digest

    def payload(self) -> Payload:
        """The result in the form of `assay.grades/1`."""
        from assay.services.payload import payload  # a line on a terminal explains nothing

        return payload(self.grade, self.run_digest)


def located(error: InputError, document: Document) -> InputError:
    """The same error with the file and line of its document."""
    faults = list(error.faults) or [Fault(error.message, code=error.code, fix=error.fix)]
    lines = locate(document.source) if document.source is not None else {}
    for fault in faults:
        fault.file = fault.file or document.file
        if document.at:
            fault.path = f"{document.at}.{fault.path}" if fault.path else document.at
        if fault.line is None:
            fault.line = document.line if document.line is not None else _line(fault.path, lines)
    return type(error)(error.code, error.message, where=document.file, fix=error.fix, faults=faults)


def _line(path: str, lines: dict[str, int]) -> int | None:
    """The line of a path, or of its nearest parent."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return lines.get(path)


def _unknown_kind(document: Document, kind: Any) -> EvidenceError:
    known = ["assay.run/1", "assay.scorecard/1"]
    if not isinstance(document.tree, dict):
        message = (
            "must be a JSON object, not"
            f" {'a list' if isinstance(document.tree, list) else 'a single value'}."
        )
    elif kind is None:
        near = near_miss("schema", [key for key in document.tree if key != "schema"])
        message = (
            "the key 'schema' is missing; it names what the document"
            f" is.{near.replace('Did you mean', 'Is it') if near else ''}"
        )
    else:
        message = f"this command can't read the schema {str(kind)!r}.{near_miss(str(kind), known)}"
    fault = Fault(
        message,
        code="FIL-006",
        file=document.file,
        line=document.line,
        fix=f'Write "schema": "{known[0]}" or "{known[1]}".'
        if kind is None
        else "Gate it with `assay exam gate`."
        if kind == "assay.exam/1"
        else f"It reads {known[0]} and {known[1]}.",
    )
    return EvidenceError("FIL-006", message, where=document.file, fix=fault.fix, faults=[fault])
