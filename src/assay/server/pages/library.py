"""The shelf: profiles, policies and rubrics with their versions and digests, and the gates,
measures and formulas they use.

A profile, a rubric or a policy for runs can be tried on a run that is pasted into the page: it is
scored and graded as if it had been posted, and nothing is stored. What is wrong with it is said
with its line.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.errors import AssayError, Fault, InputError, ShelfError
from assay.files.json_files import Document, json_fault, parse_json
from assay.formulas import FORMULAS
from assay.grading.policy import Policy
from assay.library.shelf import KINDS
from assay.scoring.gates import GATES
from assay.scoring.metrics import MEASURES
from assay.scoring.profile import Profile
from assay.scoring.rubric import Rubric
from assay.server import lookup
from assay.server.auth import Principal, admit
from assay.server.pages import shelf_parts
from assay.server.pages.evidence import text
from assay.server.pages.layout import page
from assay.server.pages.routing import READER, PageRoute, form
from assay.server.pages.sample import sample_for
from assay.server.state import check_name, on_shelf
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
from assay.views.pieces import (
    address,
    code,
    count,
    link,
    verdict,
)
from assay.views.pieces import digest as short
from assay.views.pieces import shown as say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.library.shelf import ShelfFile
    from assay.server.state import Services

router = APIRouter(route_class=PageRoute, include_in_schema=False)
REGISTRIES: dict[str, Any] = {"gates": GATES, "measures": MEASURES, "formulas": FORMULAS}
TITLES = {
    "profiles": ("Profiles", "How a family of workflows is scored."),
    "policies": ("Policies", "How scores become letters and releases."),
    "rubrics": ("Rubrics", "What a judge is told to look for, with an anchor for each point."),
    "gates": ("Gates", "Hard conditions on the evidence. No score opens one."),
    "measures": ("Measures", "Raw scores that are read off the evidence itself."),
    "formulas": ("Formulas", "How a raw score becomes a number from 0 to 1."),
}
MAX_SAMPLE = 200_000
"""Signs of a sample that the page gives back."""


def _singular(kind: str) -> str:
    return "policy" if kind == "policies" else kind[:-1]


def _loaded(services: Services, kind: str, name: str) -> tuple[ShelfFile, Any]:
    try:
        check_name(name)
        return services.shelf.find(kind, name), services.shelf.load(kind, name)
    except ShelfError as error:
        raise on_shelf(error) from None


@router.get("/library")
def list_library(request: Request, principal: Principal = READER) -> Response:
    """Everything on the shelf."""
    services: Services = request.app.state.services
    parts = []
    for kind, (title, hint) in TITLES.items():
        if kind in KINDS:
            rows = [_shelf_row(services, entry) for entry in services.shelf.entries(kind)]
            listed = Table(
                title,
                ("Name", Column("Title", "wide"), "Family", "Published", "Digest"),
                rows,
                absent="None is on the shelf.",
            )
        else:
            registry = REGISTRIES[kind]
            names = [
                [link(code(name), address("library", kind, name)), registry[name].title]
                for name in registry
            ]
            listed = Table(title, ("Name", Column("Title", "wide")), names)
        parts.append(section(title, listed, id=kind, hint=hint))
    return page(
        request,
        "Library",
        contents(parts),
        *parts,
        nav="/library",
        lead="Every rule that grades, by name and version. What is published never changes.",
    )


def _shelf_row(services: Services, entry: ShelfFile) -> list[str]:
    loaded = services.shelf.load(entry.kind, entry.id)
    return [
        link(entry.id, address("library", entry.kind, entry.id)),
        say(getattr(loaded, "title", None), "no title"),
        say(getattr(loaded, "family", None), "none"),
        (
            verdict("passed", "published")
            if entry.key in services.shelf.lock(entry.root).published
            else verdict("undetermined", "not published")
        ),
        short(_digest(services, entry)),
    ]


def _digest(services: Services, entry: ShelfFile) -> str:
    return f"sha256:{sha256(services.shelf.read(entry.path)).hexdigest()}"


@router.get("/library/{kind}/{name}")
def show_item(request: Request, kind: str, name: str, principal: Principal = READER) -> Response:
    """One item of the shelf, or of what it is made with."""
    services: Services = request.app.state.services
    if kind in REGISTRIES:
        return _sheet(request, kind, name)
    if kind not in KINDS:
        raise lookup.absent("kind of library item", kind)
    entry, loaded = _loaded(services, kind, name)
    return _item(request, services, entry, loaded)


def _sheet(request: Request, kind: str, name: str) -> Response:
    found = REGISTRIES[kind].get(name)
    if found is None:
        raise lookup.absent(_singular(kind), name)
    sheet: dict[str, Any] = found.sheet()
    short_ones = [
        (key.replace("_", " ").capitalize(), say(value, "none"))
        for key, value in sheet.items()
        if key not in ("id", "title", "example")
    ]
    example = (
        [section("Example", Verbatim(text(plain(sheet["example"])), "Example"))]
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
                one.id,
                address("library", entry.kind, one.id),
                aria_current="true" if one.id == entry.id else "",
            ),
            _state(services, one),
            code(_digest(services, one)),
        ]
        for one in services.shelf.entries(entry.kind)
        if one.name == entry.name
    ]
    source = services.shelf.read(entry.path).decode("utf-8", "replace")
    parts = [*tried, shelf_parts.content(loaded), *_try_form(services, entry, loaded, sample)]
    parts.append(
        section(
            "Versions",
            Table("Versions", ("Name", "State", "Digest of the file"), versions),
            id="versions",
        )
    )
    parts.append(
        section(
            "File",
            Details("As it is written", [Verbatim(source, "The file")]),
            id="file",
        )
    )
    title = getattr(loaded, "title", None) or ""
    said = (
        f"{_singular(entry.kind).capitalize()}: {title}."
        if title
        else _singular(entry.kind).capitalize()
    )
    more = [Paragraph(loaded.description)] if getattr(loaded, "description", None) else []
    crumb = Paragraph(link(f"All {entry.kind}", f"/library#{entry.kind}"), "hint")
    return page(request, entry.id, crumb, *more, *parts, nav="/library", lead=said, status=status)


def _state(services: Services, entry: ShelfFile) -> str:
    return (
        verdict("passed", "published: it cannot change")
        if entry.key in services.shelf.lock(entry.root).published
        else verdict("undetermined", "not published: it may change")
    )


# --- trying it out


def _try_form(services: Services, entry: ShelfFile, loaded: Any, sample: str) -> list[Part]:
    if not isinstance(loaded, Profile | Rubric | Policy):
        return []
    given = sample or sample_for(services.shelf, loaded)
    action = f"{address('library', entry.kind, entry.id)}#tried"
    return [section("Try it on a sample", TryForm(action, given[:MAX_SAMPLE]), id="try")]


@router.post("/library/{kind}/{name}")
async def try_item(request: Request, kind: str, name: str) -> Response:
    """Score and grade a run that stands in the form. Nothing is stored."""
    sent = await form(request)
    principal = await admit(request, "read")
    services: Services = request.app.state.services
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
        _item, request, services, entry, loaded, tried=[tried], sample=data or " ", status=status
    )


def _tried(services: Services, project: str, entry: ShelfFile, data: str) -> Part:
    raw = data.encode("utf-8", "replace")
    if not data.strip():
        raise InputError("FIL-005", "the field is empty.", fix="Paste a run as JSON.")
    try:
        tree = parse_json(raw)
    except (ValueError, RecursionError) as error:
        shown = error if isinstance(error, ValueError) else ValueError("recursion limit exceeded")
        fault = json_fault(shown, raw, file="the sample", line=None)
        raise InputError(fault.code, fault.message, fix=fault.fix, faults=[fault]) from None
    chosen: dict[str, Any] = {_singular(entry.kind): entry.id}
    graded = services.grader(project, **chosen).grade(Document(tree, "the sample", source=raw))
    result: dict[str, Any] = plain(graded.payload())
    card = text(plain(graded.grade.scorecard))[:20_000]
    return section(
        "Tried on the sample",
        *grade_head(result),
        *grade_sections(result, ids=False, level=3),
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
"""What to do about a fault that does not say it itself."""


def _wrong(error: AssayError) -> Part:
    """What is wrong with the sample, line by line, and what to do."""
    faults = list(getattr(error, "faults", ())) or [
        Fault(error.message, code=error.code, fix=error.fix)
    ]
    rows = [
        [
            f"line {fault.line}" if fault.line is not None else "no line",
            say(fault.path, "the whole"),
            fault.message,
            say(fault.fix or _FIXES.get(fault.code), "fix what the message names"),
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
