"""What lies on the shelf, shown for reading: a rubric with its anchors, a profile with its gates
and criteria, a policy with its bands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from assay.grading.policy import Policy
from assay.scoring.gates import GATES, REQUIRED
from assay.scoring.profile import Profile
from assay.scoring.rubric import Rubric
from assay.server.pages.evidence import text
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
    small,
    strong,
)
from assay.views.pieces import shown as say

if TYPE_CHECKING:
    from collections.abc import Mapping


def content(loaded: Any) -> Part:
    """The parts of a page for one item of the shelf."""
    if isinstance(loaded, Rubric):
        return _rubric(loaded)
    if isinstance(loaded, Profile):
        return _profile(loaded)
    if isinstance(loaded, Policy):
        return _policy(loaded)
    return section(
        "Content",
        Verbatim(text(plain(loaded)), "Content"),
        id="content-of",
    )


def plain(value: Any) -> Any:
    """A record as plain values."""
    return msgspec.to_builtins(
        value, enc_hook=lambda one: one._asdict() if hasattr(one, "_asdict") else str(one)
    )


def _floor(value: Any) -> str:
    if value is None:
        return say(None, "none")
    return say(value) if isinstance(value, dict) else phrase(*[say(value), " on its scale"])


def _rubric(rubric: Rubric) -> Part:
    parts = []
    for item in rubric.criteria:
        low, high = item.scale
        anchors = [
            [strong(str(point)), say(item.anchors.get(str(point)), "no anchor")]
            for point in range(high, low - 1, -1)
        ]
        about = Facts(
            [
                ("Weight", say(item.weight)),
                ("Scale", f"{low} to {high}"),
                (
                    "Read by",
                    link(
                        code(item.formula_id),
                        address("library", "formulas", item.formula_id),
                    ),
                ),
                ("Floor", _floor(item.critical_floor)),
                ("Role", say(item.role, "none")),
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
                Table(
                    f"Anchors of {title}", ("Score", Column("What it looks like", "wide")), anchors
                ),
            )
        )
    return Group(parts)


def _profile(profile: Profile) -> Part:
    gates = [
        [
            link(code(name), address("library", "gates", name)),
            "required of every run",
            say(None, "none"),
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
        gates.append([known, why, say(ref.params, "none")])
    rows = []
    for item in profile.criteria:
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
                say(item.weight),
                str(item.layer),
                source,
                formula,
                say(item.params, "none"),
                _floor(item.critical_floor),
                say(item.role, "none"),
            ]
        )
    columns = (
        "Criterion",
        Column("Weight", "n"),
        Column("Layer", "n"),
        "Raw score from",
        "Formula",
        "Parameters",
        "Floor",
        "Role",
    )
    about = [
        ("Family", profile.family),
        ("Alias", say(profile.alias, "none")),
        ("Rubric", _named("rubrics", profile.rubric)),
    ]
    about.append(
        (
            "Judges need",
            "a calibration card" if profile.judge is not None else say(None, "nothing is asked"),
        )
    )
    return Group(
        [
            Facts(about),
            section("Gates", Table("Gates", ("Gate", "Why", "Parameters"), gates), id="gates"),
            section("Criteria", Table("Criteria", columns, rows), id="criteria"),
        ]
    )


def _named(kind: str, name: str | None) -> str:
    return link(name, address("library", kind, name)) if name else say(None, "none")


def _policy(policy: Policy) -> Part:
    bands = [
        [letter(band.grade, policy.id), phrase(*["from ", say(band.min), " points"])]
        for band in policy.bands
    ]
    floors = [
        (f"Floor of the role {role}", say(value)) for role, value in policy.role_floors.items()
    ]
    about = [
        ("Family", policy.family),
        ("Passing score", phrase(*[say(policy.pass_threshold), " points"])),
        ("A missed floor caps the grade at", letter(policy.floor_cap, policy.id)),
        *floors,
        (
            "Few samples pull a score towards",
            phrase(
                *[
                    say(policy.shrinkage.prior),
                    ", as strongly as ",
                    say(policy.shrinkage.k),
                    " samples",
                ]
            ),
        ),
        ("Points apart that are still a tie", say(policy.ranking.tie_window)),
    ]
    terms: Mapping[str, Any] = plain(policy.judge.gate) if policy.judge.gate is not None else {}
    asked = (
        Facts([(name.replace("_", " "), say(value)) for name, value in terms.items()])
        if terms
        else Paragraph("Any judge may gate under this policy.", "absent")
    )
    return Group(
        [
            Facts(about),
            section("Bands", Table("Bands", ("Grade", "Holds"), bands), id="bands"),
            section("What a judge needs to gate", asked, id="judges"),
        ]
    )
