"""Login and logout: the token is stored in a cookie that no script can read and no other site can
send.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from assay.server.auth import Gatekeeper, cookie_name
from assay.server.bodies import header
from assay.server.pages.layout import SENT, PageRoute, page
from assay.server.problems import Problem
from assay.views.blocks import (
    Note,
)

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def local(path: str | None) -> str:
    r"""A path on this server to go back to; anything else is the overview.

    >>> (
    ...     local("/runs?grade=F"),
    ...     local("//elsewhere"),
    ...     local("/\\elsewhere"),
    ...     local("https://elsewhere"),
    ...     local(None),
    ... )
    ('/runs?grade=F', '/', '/', '/', '/')
    """
    good = (
        path is not None
        and path.startswith("/")
        and not path.startswith(("//", "/\\"))
        and path.isprintable()
        and not path.startswith("/log")
    )
    return path if good and path is not None else "/"


def _shown(
    request: Request,
    to: str,
    problem: str = "",
    *,
    ended: bool = False,
    unsaved: bool = False,
    status: int = 200,
) -> Response:
    expired = "Log in again: this browser's token expired or was revoked."
    text = "What you sent was not saved. Log in, and send it again from the page that opens."
    return page(
        request,
        "Log in",
        Note(problem, kind="bad") if problem else None,
        Note(expired, kind="open") if ended else None,
        Note(text, kind="open") if unsaved else None,
        lead="Your token decides which project you see and what you may do in it.",
        status=status,
        template="login.html",
        to=to,
    )


@router.get("/login")
async def show_login(
    request: Request,
    to: Annotated[str | None, Query(alias="next", max_length=4000)] = None,
    ended: str = "",
    unsaved: str = "",
) -> Response:
    """The form."""
    return _shown(request, local(to), ended=bool(ended), unsaved=bool(unsaved))


@router.post("/login")
async def log_in(request: Request, sent: Mapping[str, str] = SENT) -> Response:
    """Store a valid token in a cookie of the browser."""
    token, to = sent.get("token", "").strip(), local(sent.get("next"))
    gatekeeper: Gatekeeper = request.app.state.services.gatekeeper
    if await gatekeeper.known(token) is None:
        return _shown(
            request,
            to,
            "This token is not valid: it was mistyped, has expired or was revoked.",
            status=401,
        )
    response = RedirectResponse(to, 303)
    secure = request.url.scheme == "https" or header(request, "x-forwarded-proto") == "https"
    response.set_cookie(
        cookie_name(request), token, httponly=True, samesite="strict", secure=secure, path="/"
    )
    return response


@router.post("/logout", dependencies=[SENT])
async def log_out(request: Request) -> Response:
    """Delete the cookie; the token itself stays valid."""
    response = RedirectResponse("/login", 303)
    response.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict")
    return response


@router.get("/logout")
async def ask_log_out(request: Request) -> Response:
    """Opening this address changes nothing."""
    raise Problem(
        405, "this address doesn't log you out.", fix="Use the button at the top of a page."
    )
