"""Who labels: the owner of a token, or a person who typed a name on this machine. A typed name and
a token with the same name are different raters, so nobody can pose as the token's owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from assay.archive.label_saving import saving
from assay.errors import UsageError
from assay.records.label import MAX_RATER, HumanLabel, Rater
from assay.server.auth import WRITE, Principal, cookie_name
from assay.server.pages.layout import page
from assay.server.pages.login import local
from assay.server.pages.routing import SENT, PageRoute
from assay.server.problems import Problem
from assay.server.state import Services

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _cookie(request: Request) -> str:
    return cookie_name(request).replace("token", "rater")


def rater_of(request: Request, principal: Principal) -> Rater | None:
    """Who labels; None if no name has been given yet."""
    if principal.token:
        name = principal.name or f"token {principal.token}"
        return Rater(name=name, by="token", id=principal.token)
    name = _tidy(unquote(request.cookies.get(_cookie(request), "")))
    return Rater(name=name, by="stated") if name else None


def ask_name(request: Request) -> Response:
    """The form for the name of a person without a token; it leads back to this page."""
    query = f"?{request.url.query}" if request.url.query else ""
    return page(
        request,
        "Who is labelling?",
        nav="/label",
        lead="Your verdicts are stored under this name.",
        template="label_rater.html",
        to=f"{request.url.path}{query}",
    )


async def save_label(services: Services, principal: Principal, label: HumanLabel) -> None:
    """Store a label, unless the rater has already given the same one."""
    drafts = await asyncio.to_thread(saving, services.ledger, label, project=principal.project)
    if drafts:
        drafts = [draft._replace(author=principal.author) for draft in drafts]
        await services.writer.put(principal.project, drafts)


def sentence(error: UsageError) -> str:
    """An error as a sentence on a form."""
    return f"{error.message[:1].upper()}{error.message[1:]} {error.fix}".strip()


def _tidy(name: str) -> str:
    kept = " ".join("".join(char if char.isprintable() else " " for char in name).split())
    return kept[:MAX_RATER]


@router.post("/label/rater")
async def name_rater(
    request: Request, sent: Mapping[str, str] = SENT, principal: Principal = WRITE
) -> Response:
    """Store the name of a person without a token in a cookie of their browser."""
    if principal.token:
        raise Problem(409, "your token carries your name.", fix="Labels are stored under it.")
    name = _tidy(sent.get("name", ""))
    if not name:
        raise Problem(422, "a name is missing.", where="name", fix="Go back and type yours.")
    response = RedirectResponse(local(sent.get("next")), 303)
    response.set_cookie(
        _cookie(request), quote(name), httponly=True, samesite="strict", path="/", max_age=31536000
    )
    return response
