"""Access to `assay view`: one browser of one user gets in, through an address that works once.

Everything else is refused before the application sees it: another host name, which a page elsewhere
could point to this machine; a request without the session's cookie; a form that no page of this
server sent; and, if the kernel shows who owns a connection, any other user of this machine. A
browser sends a cookie to every port of a machine, so the cookie alone would not keep them out.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from html import escape

from starlette.datastructures import Address
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
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_MAPPED = bytes(10) + b"\xff\xff"  # IPv4 through a socket of IPv6
_OPENED = "01"
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
        if request.headers.get("host") != self._host or not _is_own(request.client, self._port):
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


def _is_own(client: Address | None, port: int) -> bool:
    """Whether a connection to `port` is this user's or root's. If the kernel lists connections, one
    that it doesn't list is refused; if there is no list, the secret decides.
    """
    try:
        owner = None if client is None else _owner_of(client.host, client.port, port)
    except (FileNotFoundError, PermissionError):
        return True
    except OSError:  # such as too many open files, which another user can cause
        return False
    return owner in (os.getuid(), 0)


def _owner_of(host: str, port: int, to_port: int) -> int | None:
    """The user whose open socket has this address and is connected to `to_port` here; None if there
    is none.
    """
    ends = {
        (f"{_hex(prefix, host)}:{port:04X}", f"{_hex(prefix, HOST)}:{to_port:04X}")
        for prefix in (b"", _MAPPED)
    }
    for path in _TABLES * 2:  # a table that changes while it is read can miss a line
        try:
            with open(path, encoding="ascii") as table:
                for line in table:
                    fields = line.split(maxsplit=8)
                    if len(fields) > 7 and fields[3] == _OPENED and (fields[1], fields[2]) in ends:
                        return int(fields[7])
        except FileNotFoundError:
            if path == _TABLES[0]:
                raise
    return None


def _hex(prefix: bytes, host: str) -> str:
    """An address as the kernel's tables have it: words of four bytes in the machine's order."""
    packed = prefix + socket.inet_aton(host)
    return "".join(
        f"{int.from_bytes(packed[at : at + 4], sys.byteorder):08X}"
        for at in range(0, len(packed), 4)
    )
