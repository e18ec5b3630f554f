"""Requests for pages: what a form may contain, and how errors are shown.

Every route of a page is a `PageRoute`: its errors are pages too, and users who aren't logged in are
sent to `/login` and back. A page that changes or computes something takes a POST from a page of
this server, which `form` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from assay.errors import AssayError
from assay.server import bodies
from assay.server.auth import cookie_name, is_same_origin
from assay.server.bodies import header
from assay.server.pages.layout import problem_page
from assay.server.problems import Problem, problem_of
from assay.server.routing import Route

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
