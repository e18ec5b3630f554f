"""The shelf: profiles, policies and rubrics with their versions and digests, and the gates,
measures and formulas they use.

A profile, a rubric or a policy for runs can be tried on a run that is pasted into the page: the run
is scored and graded as if it had been posted, and nothing is stored. Faults are shown with their
lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.errors import AssayError, Fault, InputError, ShelfError, count
from assay.files.json_files import Document, parsed
from assay.formulas import FORMULAS
from assay.grading.policy import Policy, make_rules
from assay.library.families import FAMILIES, WORKFLOW
from assay.library.shelf import KINDS, ShelfFile, version_key
from assay.scoring.gates import GATES
from assay.scoring.metrics import MEASURES
from assay.scoring.profile import Profile
from assay.scoring.rubric import Rubric
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages import shelf_parts
from assay.server.pages.layout import page
from assay.server.pages.routing import SENT, PageRoute
from assay.server.pages.sample import sample_for
from assay.server.pages.shelf_use import origin_of, origin_of_name, profiles_with, used_by
from assay.server.state import SERVICES, Services, check_name, on_shelf
from assay.views.blocks import (
    Column,
    Details,
    Facts,
    Note,
    Paragraph,
    Part,
    Table,
    TryForm,
    Verbatim,
    contents,
    section,
)
from assay.views.events import plain
from assay.views.grade import grade_head, grade_sections
from assay.views.pieces import address, code, link, shown, verdict
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
MAX_SAMPLE = 200_000
"""How many characters of a sample the page shows again."""


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
    request: Request,
    services: Services,
    project: str,
    entry: ShelfFile,
    loaded: Any,
    *,
    tried: Sequence[Part] = (),
    sample: str = "",
    status: int = 200,
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
        *tried,
        shelf_parts.content(
            loaded,
            floors,
            services.shelf.rubric(rubric) if isinstance(loaded, Profile) and rubric else None,
        ),
        used_by(services, project, entry),
        *_try_form(services, entry, loaded, sample),
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
    return page(request, entry.id, crumb, *more, *parts, nav="/library", lead=lead, status=status)


# --- trying it out


def _try_form(services: Services, entry: ShelfFile, loaded: Any, sample: str) -> list[Part]:
    if not isinstance(loaded, Profile | Rubric | Policy):
        return []
    given = sample or sample_for(services.shelf, loaded)
    action = f"{address('library', entry.kind, entry.id)}#tried"
    return [section("Try it on a sample", TryForm(action, given[:MAX_SAMPLE]), id="try")]


@router.post("/library/{kind}/{name}")
async def try_item(
    request: Request,
    kind: str,
    name: str,
    sent: Mapping[str, str] = SENT,
    principal: Principal = READ,
    services: Services = SERVICES,
) -> Response:
    """Score and grade the run in the form. Nothing is stored."""
    if kind not in KINDS:
        raise lookup.absent("kind of library item", kind)
    entry, loaded = _loaded(services, kind, name)
    if not isinstance(loaded, Profile | Rubric | Policy):
        raise lookup.absent("item that can be tried on a run", name)
    data = sent.get("run", "").replace("\r\n", "\n")
    try:
        tried = await services.in_turn(
            principal.project, lambda: _tried(services, principal.project, entry, data)
        )
        status = 200
    except AssayError as error:
        tried, status = _wrong(error), 422
    return await asyncio.to_thread(
        _item,
        request,
        services,
        principal.project,
        entry,
        loaded,
        tried=[tried],
        sample=data or " ",
        status=status,
    )


def _tried(services: Services, project: str, entry: ShelfFile, data: str) -> Part:
    raw = data.encode("utf-8", "replace")
    if not data.strip():
        raise InputError("FIL-005", "the field is empty.", fix="Paste a run as JSON.")
    tree = parsed(raw, file="the sample")
    chosen: dict[str, Any] = {_singular(entry.kind): entry.id}
    graded = services.grader(project, **chosen).grade(Document(tree, "the sample", source=raw))
    result: dict[str, Any] = plain(graded.payload())
    card = json_text(plain(graded.grade.scorecard))[:20_000]
    return section(
        "Tried on the sample",
        *grade_head(result),
        *grade_sections(result, ids=False),
        Details("Scorecard", [Verbatim(card, "Scorecard")]),
        id="tried",
        hint="Not stored.",
        kind="tried",
    )


_FIXES = {
    "FIL-002": (
        "Fix it there: texts and keys need double quotes, and no comma comes before a closing"
        " bracket."
    )
}
"""What to do about a fault whose message doesn't explain it."""


def _wrong(error: AssayError) -> Part:
    """What is wrong with the sample, line by line, and what to do."""
    faults = list(getattr(error, "faults", ())) or [
        Fault(error.message, code=error.code, fix=error.fix)
    ]
    rows = [
        [
            f"line {fault.line}" if fault.line is not None else "no line",
            shown(fault.path, "the whole"),
            fault.message,
            shown(fault.fix or _FIXES.get(fault.code), "fix what the message names"),
            code(fault.code),
        ]
        for fault in faults[:100]
    ]
    text = f"This sample cannot be graded: {count(len(faults), 'fault')}."
    listed = Table(
        "Faults",
        ("Line", "Where", Column("What is wrong", "wide"), Column("What to do", "wide"), "Code"),
        rows,
    )
    return section(
        "Tried on the sample", Note(verdict("fail", text), "bad"), listed, id="tried", kind="tried"
    )
