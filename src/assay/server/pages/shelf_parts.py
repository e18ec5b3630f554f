"""Readable views of the items on the shelf: a rubric with its anchors, a profile with its gates and
criteria, a policy with its bands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from assay import exact
from assay.families.judges.views import WITHOUT_TERMS
from assay.grading.policy import Policy, Rules
from assay.grading.rules import effective_floor
from assay.records.scorecard import Criterion
from assay.scoring.gates import GATES, REQUIRED
from assay.scoring.profile import Profile, make_plan
from assay.scoring.rubric import Rubric
from assay.server.routes.library import plain
from assay.views.blocks import (
    Column,
    Facts,
    Group,
    Heading,
    Paragraph,
    Part,
    Sentences,
    Table,
    Verbatim,
    section,
)
from assay.views.pieces import (
    address,
    code,
    letter,
    link,
    phrase,
    shown,
    small,
    strong,
)
from assay.views.values import json_text


class FloorPolicy(NamedTuple):
    """The policy whose floors for roles apply, and its rules."""

    id: str
    rules: Rules


def content(loaded: Any, policy: FloorPolicy, rubric: Rubric | None = None) -> Part:
    """The content of one item of the shelf. Floors are those under `policy`; `rubric` is the rubric
    of a profile.
    """
    if isinstance(loaded, Rubric):
        return _rubric(loaded, policy)
    if isinstance(loaded, Profile):
        return _profile(loaded, policy, rubric)
    if isinstance(loaded, Policy):
        return _policy(loaded)
    return section(
        "Content",
        Verbatim(json_text(plain(loaded)), "Content"),
        id="content-of",
    )


def _floor(criterion: Criterion, policy: FloorPolicy) -> str:
    """The floor that applies, as a norm from 0 to 1, and where it comes from."""
    floor, origin = effective_floor(criterion, policy.rules, overrides=True)
    if floor is None:
        return shown(None, "none")
    override = criterion.floor_override
    why = {
        "role": f"role {criterion.role} under {policy.id}",
        "criterion": "its own",
        "override": f"override: {override.reason if override is not None else ''}",
    }[str(origin)]
    return phrase(f"{exact.shown(floor, exact.NORM_DIGITS):g}", small(f" {why}"))


def _rubric(rubric: Rubric, policy: FloorPolicy) -> Part:
    parts = []
    for item in rubric.criteria:
        low, high = item.scale
        criterion = Criterion(
            name=item.name,
            raw_score=None,
            formula_id=item.formula_id,
            weight=item.weight,
            critical_floor=item.floor(),
            floor_override=item.override(),
            role=item.role,
        )
        anchors = [
            [strong(str(point)), shown(item.anchors.get(str(point)), "no anchor")]
            for point in range(high, low - 1, -1)
        ]
        about = Facts(
            [
                ("Weight", shown(item.weight)),
                ("Scale", f"{low} to {high}"),
                (
                    "Formula",
                    link(
                        code(item.formula_id),
                        address("library", "formulas", item.formula_id),
                    ),
                ),
                ("Floor", _floor(criterion, policy)),
                ("Role", shown(item.role, "none")),
            ]
        )
        asks = Sentences(item.evidence_required, "Evidence it asks for")
        title = item.label or item.name
        named = [code(item.name), ". "] if item.label and item.label != item.name else []
        parts.append(
            section(
                title,
                Paragraph(phrase(*named, item.definition)),
                about,
                asks,
                Heading("Anchors"),
                Table(f"Anchors of {title}", ("Score", Column("Description", "wide")), anchors),
            )
        )
    return Group(parts)


def _profile(profile: Profile, policy: FloorPolicy, rubric: Rubric | None) -> Part:
    gates = [
        [
            link(code(name), address("library", "gates", name)),
            "required of every run",
            shown(None, "none"),
        ]
        for name in REQUIRED
    ]
    for ref in profile.gates:
        known = (
            link(code(ref.id), address("library", "gates", ref.id))
            if ref.id in GATES
            else code(ref.id)
        )
        why = "its verdict comes with the run" if ref.verdict else "required by this profile"
        gates.append([known, why, shown(ref.params, "none")])
    rows = []
    for item in [
        criterion.spec for criterion in make_plan(profile, why="", rubric=rubric).criteria
    ]:
        source = (
            link(code(item.measure), address("library", "measures", item.measure))
            if item.measure
            else "a score that comes with the run"
        )
        formula = link(code(item.formula), address("library", "formulas", item.formula))
        title = phrase(*[strong(item.label), " ", small(code(item.id))])
        rows.append(
            [
                title,
                shown(item.weight),
                str(item.layer),
                source,
                formula,
                shown(item.params, "none"),
                _floor(item.scored(None), policy),
                shown(item.role, "none"),
            ]
        )
    columns = (
        "Criterion",
        Column("Weight", "n"),
        Column("Layer", "n"),
        "Raw score from",
        "Formula",
        "Parameters",
        "Floor, as a norm",
        "Role",
    )
    about = [
        ("Family", profile.family),
        ("Alias", shown(profile.alias, "none")),
        ("Rubric", _named("rubrics", profile.rubric)),
        (
            "Judges need",
            "a calibration card" if profile.judge is not None else shown(None, "nothing"),
        ),
    ]
    return Group(
        [
            Facts(about),
            section("Gates", Table("Gates", ("Gate", "Why", "Parameters"), gates), id="gates"),
            section(
                "Criteria",
                Table("Criteria", columns, rows),
                id="criteria",
                hint=f"A floor is the stricter of the criterion's own and its role's under"
                f" {policy.id}, or an override with its reason.",
            ),
        ]
    )


def _named(kind: str, name: str | None) -> str:
    return link(name, address("library", kind, name)) if name else shown(None, "none")


def _policy(policy: Policy) -> Part:
    bands = [
        [letter(band.grade, policy.id), phrase(*["from ", shown(band.min), " points"])]
        for band in policy.bands
    ]
    floors = [
        (f"Floor of the role {role}", shown(value)) for role, value in policy.role_floors.items()
    ]
    about = [
        ("Family", policy.family),
        ("Passing score", phrase(*[shown(policy.pass_threshold), " points"])),
        ("A missed floor caps the grade at", letter(policy.floor_cap, policy.id)),
        *floors,
        (
            "Few samples pull a score towards",
            phrase(
                *[
                    shown(policy.shrinkage.prior),
                    ", as strongly as ",
                    shown(policy.shrinkage.k),
                    " samples",
                ]
            ),
        ),
        ("Score difference that still counts as a tie", shown(policy.ranking.tie_window)),
    ]
    terms: Mapping[str, Any] = plain(policy.judge.gate) if policy.judge.gate is not None else {}
    judge_terms = (
        Facts([(name.replace("_", " "), shown(value)) for name, value in terms.items()])
        if terms
        else Paragraph(WITHOUT_TERMS)
    )
    return Group(
        [
            Facts(about),
            section("Bands", Table("Bands", ("Grade", "Score"), bands), id="bands"),
            section("What a judge needs to gate", judge_terms, id="judges"),
        ]
    )
