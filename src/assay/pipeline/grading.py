"""The stages in order: evidence, scoring, grading, and the payload in which a result leaves. The
only module that knows the order.

`Grader` is one configured way through; `score`, `grade` and `explain` are the public functions over
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import structs
from msgspec.json import Encoder

from assay import exact
from assay.errors import EvidenceError, Fault, InputError, ShelfError
from assay.files.json_files import Document
from assay.files.yaml_files import locate
from assay.formulas import raw_of
from assay.grading.explain import Explanation
from assay.grading.explain import explain as _explain
from assay.grading.grade import grade as _grade
from assay.grading.policy import Rules, make_rules
from assay.library.shelf import Shelf
from assay.records.digests import run_digest, scorecard_digest
from assay.records.evidence import Run
from assay.records.grade import Grade, GradedCriterion, Payload
from assay.records.reading import read_run, read_scorecard
from assay.records.scorecard import Scorecard
from assay.records.systems import scored_under
from assay.registry import near_miss
from assay.scoring.profile import Plan, make_plan
from assay.scoring.requirements import hold_to
from assay.scoring.scorecard import score as _score

DEFAULT_POLICY = "workflow"
R = TypeVar("R")


class Grader:
    """Runs and scorecards to grades, under one choice of profile, rubric and policy."""

    def __init__(
        self,
        shelf: Shelf,
        *,
        policy: str = DEFAULT_POLICY,
        profile: str | None = None,
        rubric: str | None = None,
        cards: Sequence[Mapping[str, Any]] = (),
        now: datetime | None = None,
    ) -> None:
        self.shelf = shelf
        self.rules: Rules = make_rules(shelf.policy(policy))
        self.judges = _admitted(cards, self.rules, now)
        self._profile = profile
        self._rubric = rubric
        self._plans: dict[tuple[str | None, str | None, str | None], Plan] = {}
        self._by_profile: dict[str, Plan | None] = {}
        if profile is not None:
            self._required: Plan | None = self._plan(None, None, None)
        else:
            self._required = None

    def grade(self, document: Document) -> Graded:
        """A parsed document, graded. Raises `InputError` for one that is neither a run nor a
        scorecard, or is malformed.
        """
        tree = document.tree
        kind = tree.get("schema") if isinstance(tree, dict) else None
        try:
            if kind == "assay.run/1":
                run = read_run(document)
                return Graded(self.grade_card(self.scorecard(run), scored=True), run)
            if kind == "assay.scorecard/1":
                return Graded(self.grade_card(self.required(read_scorecard(document))), None)
        except InputError as error:
            if isinstance(error, ShelfError) and error.where:
                error.of_shelf = True
                raise
            raise _located(error, document) from None
        raise _located(_unknown_kind(document, kind), document)

    def grade_card(self, card: Scorecard, *, scored: bool = False) -> Grade:
        """A scorecard as it stands, graded. `scored`: our own scoring made it of a run, so what its
        profile measures is known to be no judge's score.
        """
        plan = self._plan_of(card)
        if plan is None:
            return _grade(card, self.rules, judges=self.judges)
        known = scored and plan.digests["profile"] == card.digests.get("profile")
        measured = plan.measured if known else frozenset()
        terms = plan.judge
        calibrated, both_orders = (
            (terms.calibration == "required", terms.order == "both")
            if terms is not None
            else (False, False)
        )
        return _grade(
            card,
            self.rules,
            judges=self.judges,
            measured=measured,
            calibrated=calibrated,
            both_orders=both_orders,
        )

    def _plan_of(self, card: Scorecard) -> Plan | None:
        """The plan of the profile that a card was scored by; None where it names none, or none that
        is on the shelf.
        """
        if card.profile is None:
            return None
        name = card.profile.id
        if name not in self._by_profile:
            known = (self._required, *self._plans.values())
            self._by_profile[name] = next(
                (plan for plan in known if plan is not None and plan.profile.id == name), None
            ) or self._on_shelf(name)
        return self._by_profile[name]

    def _on_shelf(self, name: str) -> Plan | None:
        try:
            return make_plan(
                self.shelf.profile(_shelf_name(name, "profile")), why="named by the scorecard"
            )
        except ShelfError:
            return None

    def scorecard(self, run: Run) -> Scorecard:
        """A run, scored under the plan that fits it."""
        workflow = run.workflow
        key = (workflow.family, workflow.profile, workflow.rubric)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(*key)
        return _score(run, plan)

    def required(self, scorecard: Scorecard) -> Scorecard:
        """A scorecard; where a profile was asked for, or the card itself says it was scored by one,
        the card is held to that profile.

        Otherwise a card could carry the name of a profile into its result and leave out what goes
        with it.
        """
        plan = self._required
        if scorecard.profile is None and plan is None:
            return scorecard
        if plan is None:
            key = (
                None,
                scorecard.profile.id if scorecard.profile is not None else None,
                scorecard.rubric.id if scorecard.rubric is not None else None,
            )
            plan = self._plans.get(key)
            if plan is None:
                plan = self._plans[key] = self._plan(*key, said_by="the scorecard")
        return hold_to(
            structs.replace(
                scorecard,
                scoring_system=scored_under(scorecard.scoring_system, plan.scoring_system),
            ),
            plan,
        )

    def _plan(
        self,
        family: str | None,
        profile: str | None,
        rubric: str | None,
        *,
        said_by: str = "the run's workflow",
    ) -> Plan:
        if self._profile is not None:
            chosen, why = self.shelf.profile(self._profile), "asked for with --profile"
        elif profile is not None:
            chosen, why = self.shelf.profile(_shelf_name(profile, "profile")), f"named by {said_by}"
        elif family is not None:
            chosen, why = (
                self.shelf.profile_for_family(family),
                f"serves the workflow's family '{family}'",
            )
        else:
            raise ShelfError(
                "SCO-010",
                "the run's workflow names no family.",
                fix="Add workflow.family, or give a profile with --profile.",
            )
        if self._rubric is not None:
            return make_plan(
                chosen,
                why=why,
                rubric=self.shelf.rubric(self._rubric),
                rubric_why="asked for with --rubric",
            )
        if (
            rubric is not None and self._profile is None
        ):  # who asks for a profile does not leave its weights and floors to the run
            return make_plan(
                chosen,
                why=why,
                rubric=self.shelf.rubric(_shelf_name(rubric, "rubric")),
                rubric_why=f"named by {said_by}",
            )
        return make_plan(chosen, why=why)


def _admitted(
    cards: Sequence[Mapping[str, Any]], rules: Rules, now: datetime | None
) -> dict[str, str | None]:
    """Of each judge that has a card, why it may not gate under the policy's terms; None where it
    may.
    """
    terms = rules.judge_terms
    if terms is None or not cards:
        return {}
    from assay.judging.card import admitted  # only where a policy has terms for judges

    return admitted(cards, terms, now=now or datetime.now(UTC))


class Graded:
    """A grade and the run it came from, if it came from one."""

    __slots__ = ("grade", "run")

    def __init__(self, grade: Grade, run: Run | None) -> None:
        self.grade = grade
        self.run = run

    def payload(self) -> Payload:
        """The result as it stands in `assay.grades/1`."""
        return payload(self.grade, self.run)


def _shelf_name(name: str, kind: str) -> str:
    # Evidence is hostile: it may name an item on the shelf, never a file to open.
    if name.endswith((".yaml", ".yml")) or "/" in name or "\\" in name or name.startswith("."):
        raise ShelfError(
            "LIB-001",
            f"a run names its {kind} by its name on the shelf, not by a path: {name!r}.",
            fix=f"Use --{kind} for a file.",
        )
    return name


def _located(error: InputError, document: Document) -> InputError:
    """The same error with the file and line of the document it came from."""
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
    """The line of a path, or of the nearest part around it."""
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
            "the key 'schema' is missing; it says what the document"
            f" is.{near.replace('Did you mean', 'Is it') if near else ''}"
        )
    else:
        message = (
            f"the schema {str(kind)!r} is none this command reads.{near_miss(str(kind), known)}"
        )
    fault = Fault(
        message,
        code="FIL-006",
        file=document.file,
        line=document.line,
        fix=f'Write "schema": "{known[0]}" or "{known[1]}".',
    )
    return EvidenceError("FIL-006", message, where=document.file, fix=fault.fix, faults=[fault])


def payload(grade: Grade, run: Run | None = None, *, settled: bool = False) -> Payload:
    """A grade as a JSON-ready document with everything that explains it. `settled` as for
    `canonical`.
    """
    said = _explain(grade)
    card = grade.scorecard
    layers: dict[str, Any] = {"1": None, "2": None, "3": None}
    weights = grade.weights
    total = sum(weights)
    tops: dict[str, int] = {}
    for weight, item in zip(weights, grade.criteria, strict=True):
        layer = "none" if item.criterion.layer is None else str(item.criterion.layer)
        tops[layer] = tops.get(layer, 0) + weight * item.norm_units
    for layer, top in tops.items():
        layers[layer] = exact.shown(
            exact.quantise(100 * top, total * exact.NORM_ONE, exact.SCORE_DIGITS),
            exact.SCORE_DIGITS,
        )
    reasons = card.gate_reasons
    grade_reason = (
        "hard_gate_failure"
        if grade.hard_gate_failures
        else "floor_cap"
        if grade.grade != grade.provisional_grade
        else "band"
    )
    digests = {
        **card.digests,
        "scorecard": scorecard_digest(card, settled=settled),
        "policy": grade.policy_digest,
    }
    if run is not None:
        digests["run"] = run_digest(run, settled=settled)
    found: Payload = {
        "run_id": grade.run_id,
        "passed": grade.passed,
        "grade": grade.grade,
        "provisional_grade": grade.provisional_grade,
        "weighted_score": grade.weighted_score,
        "weighted_score_adjusted": grade.weighted_score_adjusted,
        "pass_threshold": grade.pass_threshold,
        "reason": grade.reason,
        "grade_reason": grade_reason,
        "hard_gates": {
            name: {
                "status": "pass" if passed else "undetermined" if passed is None else "fail",
                "reason": reasons.get(name) or _gate_reason(passed),
            }
            for name, passed in card.hard_gates.items()
        },
        "hard_gate_failures": grade.hard_gate_failures,
        "criteria": [
            {
                "name": item.criterion.name,
                "label": item.criterion.label,
                "role": item.criterion.role,
                "layer": item.criterion.layer,
                "raw_score": item.criterion.raw_score,
                "formula_id": item.criterion.formula_id,
                "params": item.criterion.params,
                "norm": item.norm,
                "adjusted_norm": item.adjusted_norm,
                "n": item.criterion.n,
                "weight": item.criterion.weight,
                "contribution": item.contribution,
                "maximum": maximum,
                "critical_floor": None if item.floor_units is None else _floor(item),
                "floor_failed": item.floor_failed,
                "missing": item.criterion.missing,
                **_judged(item),
            }
            for maximum, item in zip(_maxima(weights), grade.criteria, strict=True)
        ],
        "floor_failures": grade.floor_failures,
        "layers": layers,
        "placement": {
            "notes": said.notes,
            "margin_to_next_grade": said.margin_to_next_grade,
            "to_lose_grade": said.to_lose_grade,
            "smallest_gain": None if said.gain is None else said.gain.shown(),
            "smallest_loss": None if said.lose is None else said.lose.shown(),
        },
        "explanation": said.sentences,
        "findings": [
            {"rule": rule, "fired": fired, "subject": subject, "text": text}
            for rule, fired, subject, text in grade.findings
        ],
        "notes": card.notes,
        "bands": [
            {"grade": band.grade, "min": exact.shown(band.edge, exact.SCORE_DIGITS)}
            for band in grade.bands
        ],
        "policy": grade.policy,
        "profile": None if card.profile is None else card.profile.id,
        "rubric": None if card.rubric is None else card.rubric.id,
        "selection": {"profile": card.profile, "rubric": card.rubric},
        "workflow": card.workflow,
        "dataset": card.dataset,
        "sample_id": card.sample_id,
        "group": card.group,
        "tags": card.tags,
        "status": card.status,
        "judge": card.judge,
        "operations": {
            "latency_ms": card.latency_ms,
            "cost_usd": card.cost_usd,
            "tokens": card.tokens,
            "retries": card.retries,
        },
        "step_scores": card.step_scores,
        "agent_scores": card.agent_scores,
        "scoringSystem": grade.scoring_system,
        "gradingSystem": grade.grading_system,
        "digests": digests,
    }
    return found


@lru_cache(maxsize=256)
def _maxima(weights: tuple[int, ...]) -> tuple[float, ...]:
    """The points that each criterion can bring."""
    total = sum(weights)
    return tuple(
        exact.shown(exact.quantise(100 * weight, total, exact.SCORE_DIGITS), exact.SCORE_DIGITS)
        for weight in weights
    )


def _judged(item: GradedCriterion) -> dict[str, Any]:
    """Who gave a score, how far they disagreed, and why they may not gate; only what there is."""
    found = {
        "source": item.criterion.source,
        "disagreement": item.criterion.disagreement,
        "judge_fault": item.judge_fault,
    }
    return {name: value for name, value in found.items() if value is not None}


def _gate_reason(passed: bool | None) -> str:
    return (
        "passed, as the scorecard says"
        if passed
        else "no evidence"
        if passed is None
        else "failed, as the scorecard says"
    )


def _floor(item: Any) -> dict[str, Any]:
    criterion = item.criterion
    raw = raw_of(item.floor_units, criterion.formula_id, criterion.raw_score, criterion.params)
    return {
        "raw": raw if not isinstance(raw, dict) else None,
        "norm": exact.shown(item.floor_units, exact.NORM_DIGITS),
        "from": item.floor_from,
    }


# --- the public functions


@lru_cache(maxsize=32)
def _grader(policy: str, profile: str | None, rubric: str | None) -> Grader:
    return Grader(Shelf(), policy=policy, profile=profile, rubric=rubric)


def _from_python(value: Any, what: str, read: Callable[[Document], R]) -> R:
    """A mapping as a document. What JSON could not say (other keys than text, half a surrogate
    pair, an object) is refused here, by name.
    """
    if not isinstance(value, Mapping):
        raise EvidenceError(
            "API-001",
            f"a {what} is a mapping of the shape assay.{what}/1, not {type(value).__name__}.",
        )
    try:
        _encode(value)
        return read(Document(value, what))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EvidenceError("API-001", f"the {what} holds what JSON cannot say: {error}.") from None


_encode = Encoder(decimal_format="number").encode


def score(
    run: Run | Mapping[str, Any], *, profile: str | None = None, rubric: str | None = None
) -> Scorecard:
    """Score a run: evaluate its gates and give each criterion its raw score.

    `run` is a `Run` or a mapping of the shape `assay.run/1`. Without `profile` the run's
    `workflow.family` selects one. A gate without evidence is None, which fails when graded; a
    criterion without evidence has a null raw score and the reason.

    >>> import assay
    >>> card = assay.score(
    ...     {
    ...         "schema": "assay.run/1",
    ...         "run_id": "r-1",
    ...         "status": "success",
    ...         "workflow": {"id": "faq", "version": "1", "family": "rag"},
    ...         "dataset": {"id": "d", "version": "1", "sample_id": "s"},
    ...     }
    ... )
    >>> card.hard_gates["overall_status_success"], card.hard_gates["answer_grounded"]
    (True, None)
    """
    record = run if isinstance(run, Run) else _from_python(run, "run", read_run)
    return _grader(DEFAULT_POLICY, profile, rubric).scorecard(record)


def grade(scorecard: Scorecard | Mapping[str, Any], *, policy: str = DEFAULT_POLICY) -> Grade:
    """Grade a scorecard by a policy: gates, floors, bands and threshold, in exact arithmetic.

    `scorecard` is a `Scorecard` or a mapping of the shape `assay.scorecard/1`. Its `hard_gates` is
    the complete list; null fails.

    >>> import assay
    >>> result = assay.grade(
    ...     {
    ...         "schema": "assay.scorecard/1",
    ...         "run_id": "r-1",
    ...         "hard_gates": {"schema_contract_valid": True},
    ...         "criteria": [
    ...             {
    ...                 "name": "correctness",
    ...                 "raw_score": 4,
    ...                 "formula_id": "likert_1_5",
    ...                 "weight": 1,
    ...                 "role": "correctness",
    ...             }
    ...         ],
    ...     }
    ... )
    >>> result.grade, result.passed, result.weighted_score
    ('C', True, 75.0)
    """
    if isinstance(scorecard, Run) or (
        isinstance(scorecard, Mapping) and scorecard.get("schema") == "assay.run/1"
    ):
        raise EvidenceError(
            "API-001", "this is a run, not a scorecard.", fix="Call assay.score(run) first."
        )
    record = (
        scorecard
        if isinstance(scorecard, Scorecard)
        else _from_python(scorecard, "scorecard", read_scorecard)
    )
    # only the caller's own program can hand over a Scorecard; a mapping may have been read from
    # anywhere
    return _grader(policy, None, None).grade_card(record, scored=isinstance(scorecard, Scorecard))


def explain(grade: Grade) -> Explanation:
    """Why a grade is what it is, in sentences, with the smallest changes that would move it.

    >>> import assay
    >>> result = assay.grade(
    ...     {
    ...         "schema": "assay.scorecard/1",
    ...         "run_id": "r-1",
    ...         "hard_gates": {"schema_contract_valid": True},
    ...         "criteria": [
    ...             {"name": "tone", "raw_score": 0.895, "formula_id": "zero_one", "weight": 1}
    ...         ],
    ...     }
    ... )
    >>> assay.explain(result).sentences[-2]
    'A better grade needs one change at the least: tone from 0.895 to 0.89995 (raw 0.89995). That gives an A.'
    """  # noqa: E501
    if not isinstance(grade, Grade):
        raise EvidenceError(
            "API-001",
            f"explain takes a Grade, not {type(grade).__name__}.",
            fix="Call assay.grade(scorecard) first.",
        )
    return _explain(grade)
