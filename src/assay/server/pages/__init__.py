"""The HTML pages. Each is one file; `install` puts them all into the application.

They read through the same store functions as the API, with the same tokens, and are not part of its
description.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from assay.server.bodies import header
from assay.server.pages import (
    compare,
    decisions,
    evaluation,
    evaluations,
    files,
    library,
    login,
    overview,
    run,
    running,
    runs,
)
from assay.server.pages.layout import PageRoute, mark, refused
from assay.server.served import served

PAGES = (
    overview,
    evaluations,
    evaluation,
    running,
    runs,
    run,
    compare,
    decisions,
    library,
    login,
    files,
)
"""Every file with pages of the core. If an address matches two, the first one serves it."""


def routers() -> list[APIRouter]:
    """The pages of the core and of families."""
    own = [module.router for module in PAGES]
    return [*own, *(router for family in served() for router in family.pages)]


def install(app: FastAPI) -> None:
    """Prepare an application for the pages. A browser gets a page for an unknown address too; other
    clients get a problem document.
    """
    app.state.page_paths = frozenset(
        route.path
        for router in routers()
        for route in router.routes
        if isinstance(route, PageRoute)
    )
    plain = app.exception_handlers[HTTPException]

    async def shown(request: Request, error: Exception) -> Response:
        if request.url.path.startswith(("/api/", "/v1/")) or "text/html" not in (
            header(request, "accept") or ""
        ):
            response: Response = await plain(request, error)  # type: ignore[misc]
            return response
        mark(request)
        return refused(request, error)

    app.add_exception_handler(HTTPException, shown)
