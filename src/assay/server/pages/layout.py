"""The frame around every page: its title, the menu, who is logged in, and its content.

    return page(request, "Runs", section("Newest", Table("Runs", columns, rows)), nav="/runs")

The content consists of the blocks and pieces of `views`; the markup is in `views/templates`. No
page has an inline style or script: they are files in `server/static`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any

from msgspec import structs
from starlette.requests import Request
from starlette.responses import HTMLResponse

from assay import __version__
from assay.server.problems import Problem
from assay.server.served import served
from assay.store.ledger import DEFAULT_PROJECT
from assay.views.blocks import Column as Column
from assay.views.blocks import Empty, Group, Heading, Paragraph, Part, Verbatim, parts_of
from assay.views.pieces import code, link, phrase, sentence, strong
from assay.views.render import TEMPLATES, html
from assay.views.values import json_text

MAX_TEXT = 8_000
"""How many characters of a text a page shows; the record has all of them."""
STATIC = Path(__file__).parent.parent / "static"
FILES = {
    path.name: path
    for folder in (STATIC, STATIC / "vendor", TEMPLATES)
    for path in folder.iterdir()
    if path.suffix in (".css", ".js", ".svg")
}
"""The files of the pages by name."""
NAV = {
    "/": "Overview",
    "/evaluations": "Evaluations",
    "/compare": "Compare",
    "/decisions": "Decisions",
}
"""The menu at the top of every page, before the entries of families and the library."""


@cache
def _menu() -> dict[str, str]:
    families = {path: name for family in served() for path, name in family.menu.items()}
    return {**NAV, **families, "/library": "Library"}


@cache
def static(name: str) -> str:
    """The address of a static file; it changes whenever the content does."""
    return f"/static/{name}?v={sha256(FILES[name].read_bytes()).hexdigest()[:12]}"


# --- the frame


def page(
    request: Request,
    title: str,
    *parts: Part | None,
    nav: str = "",
    status: int = 200,
    lead: str = "",
    scripts: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
    template: str = "page.html",
    **values: Any,
) -> HTMLResponse:
    """A whole page. `nav` is the entry of the menu it belongs to, `lead` the sentence under
    its title, `scripts` the static files that it loads; `template` extends `page.html`, and takes
    `values`.
    """
    available = getattr(request.app.state, "page_paths", ())
    principal = request.scope.get("assay.principal")
    project = DEFAULT_PROJECT if principal is None else principal.project
    text = html(
        template,
        title=title,
        parts=[_in_project(part, project) for part in parts_of(*parts)],
        nav=nav,
        lead=lead,
        scripts=scripts,
        static=static,
        menu={path: name for path, name in _menu().items() if path in available},
        principal=principal,
        settings=request.app.state.services.settings,
        version=__version__,
        now=datetime.now(UTC),
        **values,
    )
    return HTMLResponse(text.encode(), status, headers=dict(headers or {}))


def _in_project(part: Part, project: str) -> Part:
    """The commands of an empty page store in the default project: name the one that is shown."""
    if not isinstance(part, Empty) or project == DEFAULT_PROJECT:
        return part
    lines = [
        f"{line} --project {project}" if line.startswith("assay ") else line
        for line in part.command.splitlines()
    ]
    return structs.replace(part, command="\n".join(lines))


def problem_page(request: Request, problem: Problem) -> HTMLResponse:
    """What went wrong, where, and what to do; for a person."""
    titles = {
        401: "Log in first",
        403: "Not allowed",
        404: "Not found",
        405: "Not supported here",
        500: "Internal error",
    }
    title = titles.get(problem.status, HTTPStatus(problem.status).phrase)
    fix = problem.fix or _FIXES.get(problem.status, "")
    parts = parts_of(
        Paragraph(sentence(problem.detail), "verdict bad"),
        Paragraph(phrase(strong("What to do: "), fix)) if fix else None,
        Paragraph(phrase(strong("Where: "), code(problem.where))) if problem.where else None,
        Paragraph(f"Error {problem.code}, status {problem.status}.", "hint"),
        Paragraph(phrase(link("Overview", "/"), " · ", link("All runs", "/runs"))),
    )
    return page(
        request,
        title,
        Group(parts, "problem"),
        status=problem.status,
        headers=problem.headers,
    )


_FIXES = {
    404: "Check the address, or find it in the lists. Records of other projects are hidden here.",
    503: "Wait a moment, then load the page again.",
}


def block(title: str, value: Any, whole: str) -> Part:
    """A value under its name. A long one is cut, with a note on where the rest is."""
    text = json_text(value)
    cut = f"The first {MAX_TEXT:,} of {len(text):,} characters. "
    rest = Paragraph(phrase(cut, link("The whole record", whole)), "hint")
    own = (Heading(title), Verbatim(text[:MAX_TEXT], title))
    return Group(parts_of(*own, rest if len(text) > MAX_TEXT else None), "text")
