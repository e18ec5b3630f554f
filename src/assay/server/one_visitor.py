"""The door of `assay view`: one browser of one user gets in, by an address that works once.

Everything else is refused before the application sees it: another name of this machine, which a
page elsewhere could point here; a request without the session's cookie; a form that no page of this
server sent; and, where the kernel says whose a connection is, any other user of this machine. A
browser sends a cookie to every port of a machine, so the cookie alone would not keep them out.
"""

from __future__ import annotations

import os
import secrets
from html import escape
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HOST = "127.0.0.1"
_OPEN = "/open/"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_REFUSED = (
    "This server belongs to the browser that opened the address `assay view` printed.\n"
    "That address works once. Run `assay view` again for a new one.\n"
)


class OneVisitor:
    """An application that answers one browser only. `page` is what it shows first."""

    def __init__(self, app: ASGIApp, *, port: int, page: str) -> None:
        self._app = app
        self._page = page
        self._host = f"{HOST}:{port}"
        self._cookie = f"assay_view_{port}"  # two of them must not take each other's
        self._session = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._is_new = True
        self.address = f"http://{self._host}{_OPEN}{self._secret}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            refusal = self._answer(Request(scope))
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _answer(self, request: Request) -> Response | None:
        """What is answered here; None for a request that may pass."""
        if request.headers.get("host") != self._host or not _is_own(request.client):
            return PlainTextResponse(_REFUSED, 403, headers=_HEADERS)
        path = request.url.path
        is_known = secrets.compare_digest(
            request.cookies.get(self._cookie, "").encode(), self._session.encode()
        )
        if path.startswith(_OPEN) and request.method == "GET":
            is_right = secrets.compare_digest(path[len(_OPEN) :].encode(), self._secret.encode())
            if is_right and (self._is_new or is_known):
                self._is_new = False
                return self._welcome()
        if not is_known or not (request.method in ("GET", "HEAD") or self._is_same(request)):
            return PlainTextResponse(_REFUSED, 403, headers=_HEADERS)
        return None

    def _welcome(self) -> Response:
        """A page that leads on. A redirect would not do: after a click elsewhere the browser would
        follow it without the cookie.
        """
        page = escape(self._page)
        made = HTMLResponse(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Assay</title>'
            f'<meta http-equiv="refresh" content="0; url={page}">'
            f'<p><a href="{page}">Open the results</a></p></html>',
            headers=_HEADERS,
        )
        made.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return made

    def _is_same(self, request: Request) -> bool:
        """Whether a page of this server sent a request."""
        site = request.headers.get("sec-fetch-site")
        if site is not None:
            return site == "same-origin"
        return request.headers.get("origin") == f"http://{self._host}"


def _is_own(client: object) -> bool:
    """Whether a connection is this user's; where the kernel does not say, the secret decides."""
    port = getattr(client, "port", None)
    owner = None if port is None else _owner_of(port)
    return owner is None or owner in (os.getuid(), 0)


def _owner_of(port: int) -> int | None:
    """The user whose socket on this machine has a port; None where that can't be told."""
    wanted = f"0100007F:{port:04X}"
    try:
        with open("/proc/net/tcp", encoding="ascii") as table:
            for line in table:
                fields = line.split(maxsplit=8)
                if len(fields) > 7 and fields[1] == wanted and fields[3] == "01":
                    return int(fields[7])
    except (OSError, ValueError):
        return None
    return None
