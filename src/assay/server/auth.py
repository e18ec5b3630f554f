"""Authentication and authorisation.

A bearer token names one project and some scopes. It comes in a header, or in the cookie of a
browser that logged in; for a request that changes something, the cookie counts only if a page of
this server sent it. Every request needs a token, unless the server was started to let this machine
in and the request comes from this machine, addresses it as the loopback host, and did not come
through a proxy or, if it changes something, from a page of another site.
"""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from fastapi import Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import URL

from assay.errors import AssayError
from assay.server.bodies import header
from assay.server.problems import Problem
from assay.server.settings import ServerSettings, is_loopback
from assay.store.access import SCOPES, find_token
from assay.store.databases import Database

MAX_CACHED = 10_000
COOKIE = "assay_token"
"""The cookie with the user's token."""


class Principal(NamedTuple):
    """Who sends a request."""

    token: str
    project: str
    scopes: frozenset[str]
    name: str = ""
    """The name that the token's creator gave it."""

    @property
    def author(self) -> str:
        """The author as stored in the ledger."""
        return f"token {self.token}" if self.token else "anonymous"


class Gatekeeper:
    """Checks tokens, with a cache in front of the database."""

    def __init__(self, settings: ServerSettings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._known: dict[bytes, tuple[Principal | None, float]] = {}

    async def principal(self, request: Request) -> Principal:
        """The principal of a request. Raises a problem without a valid token."""
        credentials = header(request, "authorization")
        credentials = _of_cookie(request) if credentials is None else credentials
        principal = (
            self._anonymous(request) if credentials is None else await self._of_token(credentials)
        )
        if principal is None:
            what = "a token is needed." if credentials is None else "this token is not valid."
            raise Problem(
                401,
                what,
                where="Authorization",
                fix="Send `Authorization: Bearer TOKEN`; `assay token create` makes one.",
                headers=_CHALLENGE,
            )
        return principal

    async def known(self, token: str) -> Principal | None:
        """The principal of a token; None if the token is not valid."""
        return await self._of_token(f"Bearer {token}")

    def _anonymous(self, request: Request) -> Principal | None:
        settings, client = self._settings, request.scope.get("client")
        here = (
            settings.allow_anonymous
            and is_loopback(settings.host)
            and client is not None
            and is_loopback(client[0])
        )
        if (
            not here
            or not is_loopback(_asked_for(request))
            or any(header(request, name) is not None for name in _FORWARDED)
            or (_is_from_browser(request) and not _browser_may_send(request))
        ):
            return None
        return Principal("", settings.anonymous_project, frozenset(SCOPES))

    async def _of_token(self, credentials: str) -> Principal | None:
        scheme, _, text = credentials.partition(" ")
        text = text.strip()
        if scheme.lower() != "bearer" or not text.isascii() or len(text) > 200:
            return None
        # look up a digest: the time it takes reveals nothing about the token
        mark = sha256(text.encode()).digest()
        known = self._known.get(mark)
        now = time.monotonic()
        if known is not None and known[1] > now:
            return known[0]
        token = await asyncio.to_thread(find_token, self._database, text)
        principal = (
            None
            if token is None
            else Principal(token.id, token.project, frozenset(token.scopes), token.name)
        )
        if len(self._known) > MAX_CACHED:
            self._known.clear()
        self._known[mark] = (principal, now + self._settings.token_cache_s)
        return principal


def _of_cookie(request: Request) -> str | None:
    """The token from a logged-in browser's cookie, as an Authorization header would have it."""
    cookies = header(request, "cookie")
    if cookies is None or COOKIE not in cookies or not _browser_may_send(request):
        return None
    wanted = cookie_name(request)
    for cookie in cookies.split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == wanted and value:
            return f"Bearer {value}"
    return None


def cookie_name(request: Request) -> str:
    """The cookie's name, different for each server: a browser sends a cookie to every port of a
    machine.
    """
    port = (header(request, "host") or "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isascii() and port.isdigit() and len(port) < 6 else COOKIE


def is_same_origin(request: Request) -> bool:
    """Whether the browser reports that a page of this server sent the request. Another port of this
    machine is another origin, but the same site to a cookie.
    """
    site, origin = header(request, "sec-fetch-site"), header(request, "origin")
    if site is not None:
        return site == "same-origin"
    return origin is not None and origin.partition("://")[2] == (header(request, "host") or "")


def _browser_may_send(request: Request) -> bool:
    """Whether a browser may send this request: one that changes something comes from our pages."""
    return request.method in ("GET", "HEAD") or is_same_origin(request)


def _is_from_browser(request: Request) -> bool:
    return any(header(request, name) is not None for name in ("sec-fetch-site", "origin"))


def _asked_for(request: Request) -> str | None:
    """The host name that the request addresses."""
    host = header(request, "host")
    return request.url.hostname if host is None else host_name(host)


@lru_cache(maxsize=256)
def host_name(host: str) -> str | None:
    """The name in a Host header. Raises ValueError for a malformed one."""
    return URL(f"http://{host}/").hostname


_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="assay"'}
_FORWARDED = ("x-forwarded-for", "x-forwarded-host", "forwarded", "x-real-ip", "via")


class _Needs(HTTPBearer):
    """A dependency that returns the principal of a request if it has the scope."""

    def __init__(self, scope: str) -> None:
        super().__init__(scheme_name="token", description="A token made by `assay token create`.")
        self._scope = scope

    async def __call__(self, request: Request) -> Principal:  # type: ignore[override]
        return await admit(request, self._scope)


async def admit(request: Request, scope: str) -> Principal:
    """The principal of a request, or a problem."""
    gatekeeper: Gatekeeper = request.app.state.services.gatekeeper
    principal = await gatekeeper.principal(request)
    if scope not in principal.scopes:
        # a token that posts results must not also change what they are judged by
        others = principal.scopes if scope in ("read", "write") else ("read",)
        scopes = " ".join(
            f"--scope {scope_named}" for scope_named in SCOPES if scope_named in {*others, scope}
        )
        raise Problem(
            403,
            f"this token lacks the scope '{scope}'.",
            where="Authorization",
            fix=f"Make one with `assay token create --project {principal.project} {scopes}`.",
        )
    request.scope["assay.principal"] = principal
    return principal


async def still_admitted(request: Request, scope: str) -> bool:
    """Whether the token of a request that goes on is still valid; True while nobody knows."""
    try:
        await admit(request, scope)
    except Problem:
        return False
    except AssayError:  # the database is unavailable
        return True
    return True


READ, WRITE, JUDGE, BASELINE, ADMIN = (Security(_Needs(scope), scopes=[scope]) for scope in SCOPES)
