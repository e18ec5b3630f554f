"""The frame around every page: its title, the menu, who is logged in, and its content.

    return page(request, "Runs", section("Newest", Table("Runs", columns, rows)), nav="/runs")

The content consists of the blocks and pieces of `views`; the markup is in `views/templates`. No
page has an inline style or script: they are files in `server/static`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import Depends, Query
from fastapi.exceptions import RequestValidationError
from msgspec import structs
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from assay import __version__
from assay.errors import AssayError, count
from assay.server import bodies, lookup
from assay.server.auth import cookie_name, is_same_origin
from assay.server.bodies import header
from assay.server.problems import Problem, problem_of
from assay.server.routing import Route
from assay.server.served import served
from assay.server.state import Services
from assay.store.drafts import Item
from assay.store.ledger import DEFAULT_PROJECT
from assay.views.blocks import Column as Column
from assay.views.blocks import (
    Empty,
    Field,
    Filters,
    Group,
    Heading,
    Pager,
    Paragraph,
    Part,
    Verbatim,
    parts_of,
)
from assay.views.pieces import address, code, link, phrase, sentence, strong
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


def _menu() -> dict[str, str]:
    families = {path: name for family in served() for path, name in family.menu.items()}
    return {**NAV, **families, "/library": "Library"}


@cache
def static(name: str) -> str:
    """The address of a static file; it changes whenever the content does."""
    return f"/static/{name}?v={sha256(FILES[name].read_bytes()).hexdigest()[:12]}"


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


LOOKED_AT = 2000
"""How many rows each filter examines for one page."""
Cursor = Annotated[str | None, Query(max_length=20)]
Text = Annotated[str | None, Query(max_length=500)]


class Listed(NamedTuple):
    """Records, the newest first, and the cursors of the pages around them; None at an end."""

    items: tuple[Item, ...]
    newer: str | None
    older: str | None


class RecordList(NamedTuple):
    """What is different from one list of records to the next."""

    kind: str
    title: str
    nav: str
    """The entry of the menu that the list belongs to."""
    on_a_page: int = 50
    lead: str = "stored, the newest first."
    """How the sentence on the number of records goes on."""
    noun: str = ""
    """What one record is called, if not like its kind."""


def record_page(
    request: Request,
    services: Services,
    project: str,
    listing: RecordList,
    table: Callable[[tuple[Item, ...]], Part],
    *,
    after: str | None,
    before: str | None,
    empty: Callable[[], Empty],
    query: Mapping[str, str | None] | None = None,
    filters: Mapping[str, Any] | None = None,
    fields: Callable[[], Sequence[Field]] | None = None,
    head: Sequence[Part] = (),
    foot: Sequence[Part] = (),
) -> Response:
    """The page of a list: its filter and its table, between `head` and `foot`; where nothing is
    stored, what makes a first record.
    """
    records = listed(
        services,
        project,
        listing.kind,
        filters or {},
        after=after,
        before=before,
        limit=listing.on_a_page,
    )
    paged, path = bool(after or before), request.url.path.strip("/")
    if not (records.items or filters or paged or foot):
        return page(request, listing.title, empty(), *head, nav=listing.nav)
    noun = listing.noun or listing.kind
    return page(
        request,
        listing.title,
        *head,
        *([Filters(f"/{path}", fields(), query or {})] if fields is not None else []),
        table(records.items),
        *foot,
        ways(path, query or {}, records, what=listing.kind, paged=paged),
        nav=listing.nav,
        lead=f"{count(services.ledger.count(listing.kind, project=project).n, noun)}"
        f" {listing.lead}",
    )


def listed(
    services: Services,
    project: str,
    kind: str,
    filters: Mapping[str, Any],
    *,
    after: str | None,
    before: str | None,
    limit: int,
) -> Listed:
    """The records after a place in the list, or with `before` those just before it."""
    back, forth = lookup.cursor(after or None), lookup.cursor(before or None)
    newest_first = forth is None
    found = services.ledger.find(
        kind,
        dict(filters),
        project=project,
        after=back if newest_first else forth,
        limit=limit,
        newest_first=newest_first,
        look_at=LOOKED_AT,
    )
    more = None if found.next_cursor is None else str(found.next_cursor)
    if newest_first:
        return Listed(
            found.items, str(found.items[0].seq) if back is not None and found.items else None, more
        )
    items = found.items[::-1]
    return Listed(items, more, str(items[-1].seq) if items else None)


def ways(
    path: str, query: Mapping[str, str | None], listing: Listed, *, what: str, paged: bool
) -> Pager:
    """Links to the pages before and after."""
    n = len(listing.items)
    return Pager(
        newest=address(path, **query) if paged else "",
        newer=address(path, **query, before=listing.newer) if listing.newer else "",
        older=address(path, **query, after=listing.older) if listing.older else "",
        summary=f"{count(n, what)} on this page." if n else "",
        look_further=listing.older is not None and not n,
    )


FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 500


class PageRoute(Route):
    """A route whose answers are pages, even its errors."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with its errors turned into pages."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            mark(request)
            try:
                return await handler(request)
            except (AssayError, Problem, RequestValidationError, HTTPException) as error:
                return refused(request, error)

        return answer


def mark(request: Request) -> None:
    """Mark a request as one for a page: `guard` then sends the headers of a page and shows errors
    as pages.
    """
    request.scope["assay.page"] = lambda problem: problem_page(request, problem)


def refused(request: Request, error: Exception) -> Response:
    """An error as a page; without a valid token, the login page."""
    problem = _problem(error)
    if problem.status == 401:
        to = _way_back(request)
        query = [f"next={quote(to, safe='/')}"] if to != "/" else []
        if request.method != "GET":
            query.append("unsaved=yes")
        ended = cookie_name(request) in (header(request, "cookie") or "")
        response = RedirectResponse(
            f"/login{'?' if query or ended else ''}{'&'.join(['ended=yes', *query] if ended else query)}",  # noqa: E501
            303,
        )
        if ended:  # with the cookie, a user who needs no token would be sent here every time
            response.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict")
        return response
    return problem_page(request, problem)


def _way_back(request: Request) -> str:
    """Where a user continues after logging in: here, or on the page of the form."""
    if request.method == "GET":
        return request.url.path + (f"?{request.url.query}" if request.url.query else "")
    try:
        before = urlsplit(header(request, "referer") or "")
    except ValueError:
        return "/"
    if before.netloc != header(request, "host"):
        return "/"
    return (before.path or "/") + (f"?{before.query}" if before.query else "")


def _problem(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, AssayError):
        return problem_of(error)
    if isinstance(error, RequestValidationError):
        first: Mapping[str, Any] = next(iter(error.errors()), {})
        where = str(next(reversed(first.get("loc", ("",)))))
        return Problem(
            422,
            f"'{where}' cannot be read: {first.get('msg', 'it has the wrong form')}.",
            where=where,
        )
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {
        404: "there is nothing at this address.",
        405: "this address doesn't support this method.",
    }
    return Problem(
        status,
        words.get(status, "this request can't be answered."),
        fix="Start again from the overview." if status in words else "",
    )


async def form(request: Request) -> Mapping[str, str]:
    """The fields of a form that a page of this server sent; the first of each name. A form from
    elsewhere is refused.
    """
    if not is_same_origin(request):
        raise Problem(
            403,
            "this form was sent from another site.",
            where="Origin",
            fix="Open the page here and send it again.",
        )
    bodies.media_type(request, FORM)
    data = await bodies.content(request, request.app.state.services.settings)
    try:
        pairs = parse_qsl(
            data.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise Problem(400, "the form cannot be read.", where="body") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields.setdefault(name, value)
    return fields


SENT: Any = Depends(form)
"""The fields of the form. It comes before the principal in a handler, so that a form of another
site is refused regardless of its sender.
"""
