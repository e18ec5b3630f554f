"""The shelf: profiles, policies and rubrics with their versions and digests, and the gates,
measures and formulas they use.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay import exact
from assay.errors import ShelfError, count
from assay.formulas import FORMULAS
from assay.grading.policy import Policy, Rules, make_rules
from assay.grading.rules import effective_floor
from assay.judging.card import WITHOUT_TERMS
from assay.library.families import FAMILIES, WORKFLOW
from assay.library.lock import BUILTIN
from assay.library.shelf import KINDS, ShelfFile, version_key
from assay.records.evaluation import Evaluation
from assay.records.scorecard import Criterion
from assay.scoring.gates import GATES, REQUIRED
from assay.scoring.metrics import MEASURES
from assay.scoring.profile import Profile, make_plan
from assay.scoring.rubric import Rubric
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.layout import PageRoute, page
from assay.server.routes.library import plain
from assay.server.state import SERVICES, Services, check_name, on_shelf
from assay.services.samples import NEWEST_LOOKED_AT as LOOKED_AT
from assay.services.samples import evaluations_graded_by
from assay.store.reading import GradedBy
from assay.views.blocks import (
    Column,
    Details,
    Facts,
    Group,
    Heading,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    Verbatim,
    contents,
    section,
)
from assay.views.evaluation import versioned
from assay.views.events import plain as plain_event
from assay.views.pieces import (
    absent,
    address,
    clip,
    code,
    letter,
    link,
    listed,
    moment,
    number,
    phrase,
    shown,
    small,
    strong,
    verdict,
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


SHOWN = 10
COLUMNS = ("Evaluation", "Workflow", Column("Pass rate", "n"), "Started")


def origin_of(services: Services, entry: ShelfFile) -> str:
    """Who made a file of the shelf, and whether it can still change."""
    if entry.root == BUILTIN:
        return verdict("passed", "shipped")
    if entry.key in services.shelf.lock(entry.root).published:
        return verdict("passed", "your own, published")
    return verdict("undetermined", "your own, may still change")


def origin_of_name(name: str) -> str:
    """The origin of a gate, measure or formula: the name of one from a plugin begins with its
    package.
    """
    package, dot, _ = name.partition(".")
    return f"plugin {package}" if dot else "shipped"


def used_by(services: Services, project: str, entry: ShelfFile) -> Section:
    """The last evaluations whose grades were made with an item."""
    shelf = services.shelf

    def matches(graded: GradedBy, evaluation: Evaluation) -> bool:
        if entry.kind == "policies":
            return graded.policy == entry.id
        if entry.kind == "profiles":
            return graded.profile == entry.id
        return _rubric_of(services, graded.profile, evaluation.settings.get("rubric")) == entry.id

    known = {evaluation.id for evaluation in shelf.entries(entry.kind)}
    evaluations = (
        evaluations_graded_by(services.ledger, project, matches) if entry.id in known else []
    )
    rows = [
        [
            link(clip(evaluation.name, 80), address("evaluations", evaluation.id)),
            clip(versioned(evaluation.workflow), 80),
            number(
                evaluation.totals.pass_rate.value,
                interval=evaluation.totals.pass_rate,
                percent=True,
            )
            if evaluation.totals.ungraded < evaluation.totals.n
            else absent("not graded"),
            moment(evaluation.started),
        ]
        for evaluation in [stored.evaluation for stored in evaluations[:SHOWN]]
    ]
    return section(
        "Used by",
        Table(
            "Evaluations that used it",
            COLUMNS,
            rows,
            kind="stack",
            absent=f"None of the last {LOOKED_AT} evaluations was graded with it.",
        ),
        id="used",
        hint=f"Of the last {LOOKED_AT} evaluations of this project, the newest first."
        if rows
        else "",
    )


def _rubric_of(services: Services, profile: str | None, named: Any) -> str | None:
    """The rubric of an evaluation: the one that it names, else that of its profile."""
    names = {entry.id for entry in services.shelf.entries("profiles")}
    loaded: Profile | None = (
        services.shelf.load("profiles", profile)
        if profile is not None and profile in names
        else None
    )
    wanted = named if isinstance(named, str) else getattr(loaded, "rubric", None)
    known = {
        name for rubric in services.shelf.entries("rubrics") for name in (rubric.id, rubric.name)
    }
    return services.shelf.find("rubrics", wanted).id if wanted in known else None


def profiles_with(services: Services, kind: str, name: str) -> str:
    """The profiles that use a gate, a measure or a formula, as links."""
    if kind == "gates" and name in REQUIRED:
        return "every profile"
    links = []
    for entry in services.shelf.entries("profiles"):
        profile: Profile = services.shelf.load("profiles", entry)
        used: dict[str, set[str | None]] = {
            "gates": {ref.id for ref in profile.gates},
            "measures": {item.measure for item in profile.criteria},
            "formulas": {item.formula for item in profile.criteria},
        }
        if name in used[kind]:
            links.append(link(entry.id, address("library", "profiles", entry.id)))
    return listed(links) if links else absent("no profile in this library")


router = APIRouter(route_class=PageRoute, include_in_schema=False)
REGISTRIES: dict[str, Any] = {"gates": GATES, "measures": MEASURES, "formulas": FORMULAS}
TITLES = {
    "profiles": ("Profiles", "How a family of workflows is scored."),
    "policies": ("Policies", "How scores become letters and releases."),
    "rubrics": ("Rubrics", "What a judge looks for, with an anchor for each point."),
    "gates": ("Gates", "Hard conditions on the evidence. No score opens one."),
    "measures": ("Measures", "Raw scores that are read off the evidence itself."),
    "formulas": ("Formulas", "How a raw score becomes a number from 0 to 1."),
}


def _singular(kind: str) -> str:
    return "policy" if kind == "policies" else kind[:-1]


def _loaded(services: Services, kind: str, name: str) -> tuple[ShelfFile, Any]:
    try:
        check_name(name)
        return services.shelf.find(kind, name), services.shelf.load(kind, name)
    except ShelfError as error:
        raise on_shelf(error) from None


@router.get("/library")
def list_library(
    request: Request, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """Everything on the shelf."""
    parts = [
        section(
            title,
            *(_on_shelf(services, kind) if kind in KINDS else [_sheets(kind)]),
            id=kind,
            hint=hint,
        )
        for kind, (title, hint) in TITLES.items()
    ]
    return page(
        request,
        "Library",
        contents(parts),
        *parts,
        nav="/library",
        lead="The rules that score and grade, by name and version. Published ones never change.",
    )


def _on_shelf(services: Services, kind: str) -> list[Part]:
    """The items of a kind by their family: the newest version of each name, with older ones
    folded.
    """
    names: dict[tuple[str, str], list[ShelfFile]] = {}
    for entry in services.shelf.entries(kind):
        family = getattr(services.shelf.load(entry.kind, entry), "family", None) or WORKFLOW
        names.setdefault((family, entry.name), []).append(entry)
    newest, older = [], []
    for (family, _), entries in sorted(names.items()):
        entries.sort(key=lambda entry: version_key(entry.version), reverse=True)
        rows = [_shelf_row(services, entry, family) for entry in entries]
        newest.append(rows[0])
        older += rows[1:]
    columns = ("Name", "For", Column("Title", "wide"), "From")
    listed = Table(kind.capitalize(), columns, newest, absent="None in the library.")
    folded = Details(count(len(older), "older version"), [Table(f"Older {kind}", columns, older)])
    return [listed, *([folded] if older else [])]


def _shelf_row(services: Services, entry: ShelfFile, family: str) -> list[str]:
    return [
        link(entry.id, address("library", entry.kind, entry.id)),
        FAMILIES[family].meant_for if family in FAMILIES else family,
        shown(getattr(services.shelf.load(entry.kind, entry), "title", None), "no title"),
        origin_of(services, entry),
    ]


def _sheets(kind: str) -> Part:
    registry = REGISTRIES[kind]
    rows = [
        [
            link(code(name), address("library", kind, name)),
            registry[name].title,
            origin_of_name(name),
        ]
        for name in registry
    ]
    listed = Table(kind.capitalize(), ("Name", Column("Title", "wide"), "From"), rows)
    return Details(count(len(rows), kind[:-1]), [listed])


@router.get("/library/{kind}/{name}")
def show_item(
    request: Request,
    kind: str,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
) -> Response:
    """One item of the shelf, or a gate, measure or formula that it uses."""
    if kind in REGISTRIES:
        return _sheet(request, services, kind, name)
    if kind not in KINDS:
        raise lookup.absent("kind of library item", kind)
    entry, loaded = _loaded(services, kind, name)
    return _item(request, services, principal.project, entry, loaded)


def _sheet(request: Request, services: Services, kind: str, name: str) -> Response:
    item = REGISTRIES[kind].get(name)
    if item is None:
        raise lookup.absent(_singular(kind), name)
    sheet: dict[str, Any] = item.sheet()
    short_ones = [
        (key.replace("_", " ").capitalize(), shown(value, "none"))
        for key, value in sheet.items()
        if key not in ("id", "title", "example")
    ]
    short_ones += [
        ("From", origin_of_name(name)),
        ("Used by", profiles_with(services, kind, name)),
    ]
    example = (
        [section("Example", Verbatim(json_text(plain_event(sheet["example"])), "Example"))]
        if sheet.get("example")
        else []
    )
    crumb = Paragraph(link(f"All {kind}", f"/library#{kind}"), "hint")
    return page(
        request,
        name,
        Facts(short_ones, kind="pairs"),
        *example,
        crumb,
        nav="/library",
        lead=f"{_singular(kind).capitalize()}: {sheet['title']}.",
    )


def _item(
    request: Request, services: Services, project: str, entry: ShelfFile, loaded: Any
) -> Response:
    versions = [
        [
            link(
                other.id,
                address("library", entry.kind, other.id),
                aria_current="true" if other.id == entry.id else "",
            ),
            origin_of(services, other),
            code(f"sha256:{sha256(services.shelf.read(other.path)).hexdigest()}"),
        ]
        for other in sorted(
            services.shelf.entries(entry.kind),
            key=lambda other: version_key(other.version),
            reverse=True,
        )
        if other.name == entry.name
    ]
    source = services.shelf.read(entry.path).decode("utf-8", "replace")
    grading = services.shelf.policy(services.settings.policy)
    floors = FloorPolicy(grading.id, make_rules(grading))
    rubric = getattr(loaded, "rubric", None)
    parts = [
        content(
            loaded,
            floors,
            services.shelf.rubric(rubric) if isinstance(loaded, Profile) and rubric else None,
        ),
        used_by(services, project, entry),
        section(
            "Versions",
            Table("Versions", ("Name", "From", "Digest of the file"), versions),
            id="versions",
        ),
        section("File", Details("Source", [Verbatim(source, "The file")]), id="file"),
    ]
    title = getattr(loaded, "title", None) or ""
    lead = (
        f"{_singular(entry.kind).capitalize()}: {title}."
        if title
        else _singular(entry.kind).capitalize()
    )
    more = [Paragraph(loaded.description)] if getattr(loaded, "description", None) else []
    crumb = Paragraph(link(f"All {entry.kind}", f"/library#{entry.kind}"), "hint")
    return page(request, entry.id, crumb, *more, *parts, nav="/library", lead=lead)
