"""The shelf: profiles, policies and rubrics with their versions and digests, and the gates,
measures and formulas they use.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.errors import ShelfError, count
from assay.formulas import FORMULAS
from assay.grading.policy import make_rules
from assay.library.families import FAMILIES, WORKFLOW
from assay.library.shelf import KINDS, ShelfFile, version_key
from assay.scoring.gates import GATES
from assay.scoring.metrics import MEASURES
from assay.scoring.profile import Profile
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages import shelf_parts
from assay.server.pages.layout import page
from assay.server.pages.routing import PageRoute
from assay.server.pages.shelf_use import origin_of, origin_of_name, profiles_with, used_by
from assay.server.state import SERVICES, Services, check_name, on_shelf
from assay.views.blocks import (
    Column,
    Details,
    Facts,
    Paragraph,
    Part,
    Table,
    Verbatim,
    contents,
    section,
)
from assay.views.events import plain
from assay.views.pieces import address, code, link, shown
from assay.views.values import json_text

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
        [section("Example", Verbatim(json_text(plain(sheet["example"])), "Example"))]
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
    floors = shelf_parts.FloorPolicy(grading.id, make_rules(grading))
    rubric = getattr(loaded, "rubric", None)
    parts = [
        shelf_parts.content(
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
