"""Wraps every request: its id, the headers that protect a browser, one log line, and a problem
document for any uncaught error. Plain ASGI: thousands of idle streams go through it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.server.auth import host_name
from assay.server.bodies import BODY_READ
from assay.server.http_protocol import CONNECTION
from assay.server.problems import Problem
from assay.server.state import Services
from assay.server.streams import has_left

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_PAGE_HEADERS = {
    **dict(_HEADERS),
    b"content-security-policy": (
        b"default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self';"
        b" connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # a form must state its origin, which needs a referrer
    b"referrer-policy": b"same-origin",
}
_NO_STORE = (b"cache-control", b"no-store")
_CLOSE = (b"connection", b"close")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self.app = app
        self.services = services
        self._began = secrets.token_hex(6)
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and make sure that it is answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status, gone = 0, False
        request_id = _given_id(scope) or f"{self._began}-{next(self._numbers)}"

        async def sending(message: Message) -> None:
            nonlocal status, gone
            if message["type"] == "http.response.start":
                status = message["status"]
                headers: list[tuple[bytes, bytes]] = message.setdefault("headers", [])
                if all(name != b"cache-control" for name, _ in headers):
                    headers.append(_NO_STORE)
                headers += _HEADERS if page_of(scope) is None else _of_page(headers)
                if status >= 400 and BODY_READ not in scope and _has_body(scope):
                    headers.append(_CLOSE)  # don't wait for a client that trickles the rest
                headers.append((b"x-request-id", request_id.encode()))
            try:
                await send(message)
            except OSError:
                gone = True
                raise
            except RuntimeError:  # uvloop, on a connection that is closed
                connection = scope.get(CONNECTION)
                gone = has_left(receive) if connection is None else connection.is_closing()
                raise

        try:
            if _has_malformed_host(scope):
                problem = Problem(400, "the host can't be read.", where="Host")
                await problem.response()(scope, receive, sending)
                return
            await self.app(scope, receive, sending)
        except Exception as error:
            if gone:  # the client went away, which is not an error
                await asyncio.sleep(0)
                return
            self.services.log.fault("fault", error, request_id=request_id)
            if status:
                raise  # the answer has begun, so it can only be aborted
            problem = Problem(
                500, "internal error.", fix=f"Report it with the request id {request_id}."
            )
            page = page_of(scope)
            await (problem.response() if page is None else page(problem))(scope, receive, sending)
        finally:
            self._record(scope, status, time.perf_counter() - began, request_id)

    def _record(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route: Any = scope.get("route")
        pattern = getattr(route, "path", "none")
        self.services.metrics.request(
            scope["method"] if scope["method"] in _METHODS else "other", pattern, status, seconds
        )
        if self.services.log.requests:
            who = scope.get("assay.principal")
            self.services.log.write(
                "request",
                level="error" if status >= 500 else "info",
                request_id=request_id,
                method=scope["method"][:20],
                route=pattern,
                path=scope["path"][:300],
                status=status,
                ms=round(1000 * seconds, 2),
                project=None if who is None else who.project,
                token=None if who is None else who.token,
            )


def _has_malformed_host(scope: Scope) -> bool:
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    try:
        host_name(host.decode("latin-1"))
    except ValueError:
        return True
    return False


def _has_body(scope: Scope) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def _of_page(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a page, except those that the response sets itself, as pictures do with their
    content security policy.
    """
    own = {name for name, _ in headers}
    return [header for header in _PAGE_HEADERS.items() if header[0] not in own]


def page_of(scope: Scope) -> Callable[[Problem], Response] | None:
    """The function that shows a problem as a page, if the client asked for a page."""
    return scope.get("assay.page")


_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


def _given_id(scope: Scope) -> str | None:
    """The client's id for the request, if it has only plain characters."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and 0 < len(value) <= 64:
            text: str = value.decode("latin-1")
            if _PLAIN.issuperset(text):
                return text
    return None
