"""Access to `assay view`: one browser of one user gets in, through an address that works once.

Everything else is refused before the application sees it: another host name, which a page elsewhere
could point to this machine; a request without the session's cookie; and a form that no page of this
server sent.
"""

from __future__ import annotations

import secrets
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from assay.server.auth import is_same_origin

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
        self._port = port
        self._host = f"{HOST}:{port}"
        self._cookie = f"assay_view_{port}"  # by port: several may run at once
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
        """The response for a request that is answered here; None for one that may pass."""
        if request.headers.get("host") != self._host:
            return PlainTextResponse(_REFUSED, 403, headers=_HEADERS)
        path = request.url.path
        is_known = secrets.compare_digest(
            request.cookies.get(self._cookie, "").encode(), self._session.encode()
        )
        if path.startswith(_OPEN) and request.method == "GET":
            is_right = secrets.compare_digest(path[len(_OPEN) :].encode(), self._secret.encode())
            if is_right and (self._is_new or is_known):
                self._is_new = False
                return self._welcome(request)
        if not is_known or not (request.method in ("GET", "HEAD") or is_same_origin(request)):
            return PlainTextResponse(_REFUSED, 403, headers=_HEADERS)
        return None

    def _welcome(self, request: Request) -> Response:
        """Go to the first page. After a click on another site, the browser would follow a redirect
        without the cookie, so a page with a link is sent instead.
        """
        response: Response
        if request.headers.get("sec-fetch-site") in ("none", "same-origin"):
            response = RedirectResponse(self._page, 303, headers=_HEADERS)
        else:
            page = escape(self._page)
            response = HTMLResponse(
                f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Assay</title>'
                f'<meta http-equiv="refresh" content="0; url={page}">'
                f'<p><a href="{page}">Open the results</a></p></html>',
                headers=_HEADERS,
            )
        response.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
        return response
