"""Profiles, which define how a family of workflows is scored, and the plan that a profile and a
rubric make together.

A profile names gates (besides the five that every run needs) and weighted criteria. A rubric that
overrides it changes the scale, weight, floor and label of the criteria it names, adds those that
the profile lacks, and removes none; it never touches gates. Scoring runs a `ScoringPlan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from msgspec import Meta, structs

from assay import exact
from assay.canon import digest
from assay.errors import FormulaError, ShelfError
from assay.formulas import FORMULAS, floor_norm, formula
from assay.formulas.formula import Formula
from assay.records.evidence import ClosedRecord, Number
from assay.records.scorecard import SCORING_SYSTEM, Criterion, Floor, FloorOverride, Selection
from assay.records.shape import Faults, read_shelf_record
from assay.records.systems import FIRST, Version, is_published, system_of
from assay.registry import near_miss
from assay.scoring.gates import GATES, REQUIRED, Gate
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.measure import Measure, fields_text
from assay.scoring.metrics.params import param_faults
from assay.scoring.metrics.similarity import ADVISORY

if TYPE_CHECKING:
    from assay.files.json_files import Document
    from assay.scoring.rubric import Rubric

Text = Annotated[str, Meta(min_length=1)]


class GateRef(ClosedRecord, frozen=True):
    """A gate that a profile requires."""

    id: str
    """The gate."""
    params: dict[str, Any] = {}
    """Parameters that differ from the gate's defaults."""
    verdict: bool = False
    """Whether its verdict always comes with the run."""
    title: str | None = None
    """The name that people see."""


class ProfileCriterion(ClosedRecord, frozen=True):
    """One weighted criterion of a profile."""

    id: str
    """The criterion's name."""
    label: Text
    """The name that people see."""
    weight: Number
    """Its share of the weighted score, relative to the other weights."""
    layer: Literal[1, 2, 3]
    """1 objective, 2 rubric or judge, 3 operations."""
    formula: str
    """The formula that maps the raw score to 0..1."""
    params: dict[str, Any] = {}
    """The parameters of the formula."""
    measure: str | None = None
    """The measure that computes the raw score from the evidence; without one, the score comes with
    the run.
    """
    measure_params: dict[str, Any] = {}
    """The parameters of the measure."""
    role: str | None = None
    """What it measures, such as `correctness`; policies set floors by role."""
    critical_floor: Floor = None
    """The score below which the run fails, as `{raw: x}` or `{norm: x}`."""
    floor_override: FloorOverride | None = None
    """A floor below the one that the role demands, with its reason."""

    def scored(self, raw_score: Any, **known: Any) -> Criterion:
        """The criterion on a scorecard, with its raw score and what is known of it."""
        return Criterion(
            name=self.id,
            raw_score=raw_score,
            formula_id=self.formula,
            params=self.params,
            weight=self.weight,
            critical_floor=self.critical_floor,
            floor_override=self.floor_override,
            role=self.role,
            layer=self.layer,
            label=self.label,
            **known,
        )


class ProfileJudgeTerms(ClosedRecord, frozen=True):
    """What is required of the judges behind scores that the profile doesn't measure.

    With `calibration: required`, no score passes a floor without an admitted card of its judge,
    under any policy; `by_policy` leaves that to the policy's terms. With `order: both`, a pairwise
    score passes no floor unless the evidence has how often the two orders disagreed.
    """

    calibration: Literal["required", "by_policy"]
    """Whether every judge needs a card, or the policy decides."""
    order: Literal["both"] | None = None
    """`both`: pairs must be judged in both orders."""


class Profile(ClosedRecord, frozen=True):
    """How one family of workflows is scored."""

    profile: Text
    """The profile's name."""
    version: int | str
    """Its version. A published version never changes."""
    title: Text
    """The name that people see."""
    family: Text
    """The workflow family that it serves."""
    gates: list[GateRef]
    """The gates besides the five that every run must pass."""
    criteria: Annotated[list[ProfileCriterion], Meta(min_length=1)]
    """The criteria, each with its weight."""
    alias: str | None = None
    """A short name, such as `A`."""
    rubric: str | None = None
    """The rubric that a judge scores by."""
    judge: ProfileJudgeTerms | None = None
    """What is required of judges."""
    scoring_system: Version = FIRST
    """The version of the scoring system that it needs."""
    description: str | None = None
    """What it is for."""
    made_from: str | None = None
    """What Assay made the profile from, such as the metrics of a result file; null if somebody
    wrote it.
    """
    not_graded: list[str] = []
    """The metrics that a made profile leaves out, because their scale or direction is unknown."""

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.profile}@{self.version}"


# --- reading

_VERDICT = "; one whose verdict comes with the run says `verdict: true`"


def load_profile(document: Document) -> Profile:
    """A profile from its file. Raises an error that lists every fault with its line."""
    faults = Faults(document)
    profile = read_shelf_record(document, Profile, faults)
    faults.check_names(
        ("criteria",), ((index, item.id) for index, item in enumerate(profile.criteria))
    )
    faults.check_names(("gates",), ((index, item.id) for index, item in enumerate(profile.gates)))
    faults.check_weights(("criteria",), [item.weight for item in profile.criteria])
    for index, ref in enumerate(profile.gates):
        gate = GATES.get(ref.id)
        if gate is None and not ref.verdict:
            faults.add(
                ("gates", index),
                f"no gate is named '{ref.id}'.{GATES.near(ref.id)}",
                f"`assay library list gates` shows them{'' if '.' in ref.id else _VERDICT}.",
            )
        elif gate is not None and ref.verdict and gate.is_computed:
            faults.add(
                ("gates", index, "verdict"),
                f"'{ref.id}' is computed from evidence and cannot be left to a verdict.",
                "Remove the key.",
            )
        if "minimum" in ref.params and not _is_share(ref.params["minimum"]):
            faults.add(
                ("gates", index, "params", "minimum"),
                f"the share is {ref.params['minimum']!r}; it must be a number above 0 and at"
                " most 1.",
            )
        for name in ref.params:
            known = dict(gate.params) if gate is not None else {}
            if name not in known:
                faults.add(
                    ("gates", index, "params", name),
                    f"'{ref.id}' has no parameter '{name}'.{near_miss(name, known)}",
                )
    for index, item in enumerate(profile.criteria):
        at = ("criteria", index)
        faults.check_role(at, item.role)
        if item.id in GATES:
            faults.add(
                (*at, "id"),
                f"'{item.id}' is a gate; a gate carries no weight.",
                "Name it under `gates`.",
            )
        scale = FORMULAS.get(item.formula)
        if scale is None:
            faults.add(
                (*at, "formula"),
                f"no formula is named '{item.formula}'.{FORMULAS.near(item.formula)}",
            )
            continue
        if set(item.params) != set(scale.params):
            faults.add(
                (*at, "params"),
                f"{scale.id} takes the parameters {', '.join(scale.params) or 'none'}, not"
                f" {', '.join(item.params) or 'none'}.",
            )
        else:
            try:
                scale.check_params(item.params)
            except FormulaError as error:
                faults.add((*at, "params"), error.message)
                continue
        measure = MEASURES.get(item.measure) if item.measure is not None else None
        if measure is None and item.measure is not None:
            faults.add(
                (*at, "measure"),
                f"no measure is named '{item.measure}'.{MEASURES.near(item.measure)}",
            )
        elif measure is not None and measure.formula != item.formula:
            faults.add(
                (*at, "formula"),
                f"the measure '{measure.id}' is read by {measure.formula}, not by {item.formula}.",
            )
        for fault in param_faults(measure, item.measure_params) if measure is not None else ():
            place = () if fault.name is None else (fault.name,)
            faults.add((*at, "measure_params", *place), fault.message)
        if item.measure is None and item.measure_params:
            faults.add(
                (*at, "measure_params"),
                "there is no measure that takes them.",
                "Name one under `measure`, or remove them.",
            )
        _check_floors(item, at, faults)
    faults.raise_if_any()
    return profile


def _check_floors(item: ProfileCriterion, at: tuple[str, int], faults: Faults) -> None:
    for key in ("role", "critical_floor", "floor_override"):
        if item.measure in ADVISORY and getattr(item, key) is not None:
            faults.add(
                (*at, key),
                f"'{item.measure}' counts shared words and is advisory: no floor may rest on it.",
                "Remove the key, or name another measure.",
            )
    for key, floor in (
        ("critical_floor", item.critical_floor),
        ("floor_override", item.floor_override and item.floor_override.value),
    ):
        if floor is not None:
            try:
                floor_norm(floor, item.formula, item.params)
            except FormulaError as error:
                faults.add((*at, key), str(error))


def _is_share(value: Any) -> bool:
    return exact.is_number(value) and 0 < (share := exact.ratio(value)).num <= share.den


class PlannedGate(NamedTuple):
    """A gate to evaluate. `gate` is None if only the run knows the verdict."""

    id: str
    gate: Gate | None
    params: dict[str, Any]


class PlannedCriterion(NamedTuple):
    """A criterion to score, the formula that reads its score, and the measure that computes it from
    the evidence, if any.
    """

    spec: ProfileCriterion
    formula: Formula
    measure: Measure | None
    measure_params: dict[str, Any] = {}
    not_given: str = ""
    """What is noted if a run brings a score for it although it is measured."""


def _planned(item: ProfileCriterion) -> PlannedCriterion:
    scale = formula(item.formula)
    if not item.measure:
        return PlannedCriterion(item, scale, None)
    measure = MEASURES.named(item.measure)
    return PlannedCriterion(
        item,
        scale,
        measure,
        {**measure.params, **item.measure_params},
        f"'{item.id}' is measured from the evidence ({fields_text(measure.evidence)}); the score"
        " that came with the run does not count",
    )


def _planned_gate(ref: GateRef) -> PlannedGate:
    # An unknown gate must not become one whose verdict comes with the run: a profile whose plugin
    # is not installed would then trust the run.
    gate = GATES.get(ref.id) if ref.verdict else GATES.named(ref.id)
    return PlannedGate(ref.id, gate, {**({} if gate is None else gate.params), **ref.params})


class ScoringPlan(NamedTuple):
    """A profile, with a rubric's overrides if there is one, resolved for scoring."""

    profile: Selection
    rubric: Selection | None
    gates: tuple[PlannedGate, ...]
    criteria: tuple[PlannedCriterion, ...]
    known: frozenset[str]
    """The names of the criteria."""
    notes: tuple[str, ...]
    digests: dict[str, str]
    scoring_system: str
    measured: frozenset[str]
    """The criteria that Assay computes from the evidence, without those that only count a judge's
    verdicts.
    """
    judge: ProfileJudgeTerms | None


def make_plan(
    profile: Profile, *, why: str, rubric: Rubric | None = None, rubric_why: str = ""
) -> ScoringPlan:
    """Resolve a profile, and a rubric that overrides it, into a plan."""
    refs = {name: GateRef(id=name) for name in REQUIRED} | {ref.id: ref for ref in profile.gates}
    gates = tuple(map(_planned_gate, refs.values()))
    criteria, notes = _overridden(profile, rubric)
    plugins = {
        **GATES.fingerprints(refs),
        **MEASURES.fingerprints(item.measure for item in criteria if item.measure),
        **FORMULAS.fingerprints(item.formula for item in criteria),
    }
    # the order of gates and criteria in the file doesn't count
    digests = {
        "profile": digest(
            structs.replace(
                profile,
                gates=sorted(profile.gates, key=lambda ref: ref.id),
                criteria=sorted(profile.criteria, key=lambda item: item.id),
            )
        )
    }
    if rubric is not None:
        digests["rubric"] = digest(
            structs.replace(rubric, criteria=sorted(rubric.criteria, key=lambda item: item.name))
        )
    published = is_published(digest(profile)) and (rubric is None or is_published(digest(rubric)))
    # a plugin with other behaviour is another system, whatever the profile states
    own = digests["profile"] if rubric is None and not plugins else digest({**digests, **plugins})
    return ScoringPlan(
        Selection(id=profile.id, why=why),
        Selection(id=rubric.id, why=rubric_why) if rubric is not None else None,
        gates,
        tuple(_planned(item) for item in criteria),
        frozenset(item.id for item in criteria),
        notes,
        {**digests, **plugins},
        system_of(SCORING_SYSTEM, profile.scoring_system, own, published=published and not plugins),
        frozenset(
            item.id
            for item in criteria
            if item.measure is not None and not MEASURES[item.measure].reads_verdicts
        ),
        profile.judge,
    )


def _overridden(
    profile: Profile, rubric: Rubric | None
) -> tuple[list[ProfileCriterion], tuple[str, ...]]:
    if rubric is None:
        return list(profile.criteria), ()
    own = {item.id: item for item in profile.criteria}
    changed, added = [], []
    for item in rubric.criteria:
        floor = item.floor()
        if item.name in own:
            before = own[item.name]
            if before.measure is not None:
                raise ShelfError(
                    "SCO-012",
                    f"the rubric {rubric.id} names '{item.name}', which {profile.id} measures from"
                    " the evidence; a judge cannot replace that.",
                )
            # A rubric may raise a floor. It lowers or drops one only by an override with a reason.
            floors = [] if floor is None else [floor_norm(floor, item.formula_id, {})]
            if before.critical_floor is not None:
                floors.append(floor_norm(before.critical_floor, before.formula, before.params))
            highest = {"norm": exact.shown(max(floors), exact.NORM_DIGITS)} if floors else None
            if floor is not None and max(floors) == floor_norm(floor, item.formula_id, {}):
                highest = floor
            override = item.override()
            if override is None and before.floor_override is not None:
                lowered = exact.shown(
                    floor_norm(before.floor_override.value, before.formula, before.params),
                    exact.NORM_DIGITS,
                )
                override = structs.replace(before.floor_override, value={"norm": lowered})
            if None not in (item.role, before.role) and item.role != before.role:
                raise ShelfError(
                    "SCO-012",
                    f"the rubric {rubric.id} gives '{item.name}' the role '{item.role}'; in"
                    f" {profile.id} it is '{before.role}'.",
                )
            own[item.name] = structs.replace(
                before,
                weight=item.weight,
                formula=item.formula_id,
                params={},
                label=item.label or before.label,
                critical_floor=highest,
                floor_override=override,
                role=before.role if item.role is None else item.role,
            )
            changed.append(item.name)
            continue
        hint = near_miss(item.name, [spec.id for spec in profile.criteria])
        if hint:
            raise ShelfError(
                "SCO-012",
                f"the rubric {rubric.id} names '{item.name}', which {profile.id} does not"
                f" have.{hint}",
            )
        own[item.name] = ProfileCriterion(
            id=item.name,
            label=item.label or item.name,
            weight=item.weight,
            layer=2,
            formula=item.formula_id,
            role=item.role,
            critical_floor=floor,
            floor_override=item.override(),
        )
        added.append(item.name)
    kept = [name for name in own if name not in changed and name not in added]
    parts = [
        f"changes {', '.join(changed)}" if changed else "",
        f"adds {', '.join(added)}" if added else "",
        f"leaves {', '.join(kept)}" if kept else "",
    ]
    return list(own.values()), (
        f"rubric {rubric.id} over {profile.id}: " + "; ".join(part for part in parts if part),
    )
