"""The files of the pages: style, script and logo, each under an address that changes with its
content.
"""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter
from starlette.responses import Response

from assay.server.pages.layout import FILES, static
from assay.server.pages.routing import PageRoute
from assay.server.problems import Problem

router = APIRouter(route_class=PageRoute, include_in_schema=False)
MEDIA = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def _content(name: str) -> bytes:
    return FILES[name].read_bytes()


@router.get("/static/{name}")
async def get_file(name: str, v: str = "") -> Response:
    """A static file; it contains no data of a project, so it needs no token."""
    if name not in FILES:
        raise Problem(404, "there is no such file.", where=name[:100])
    is_current = static(name) == f"/static/{name}?v={v}"
    kept = "public, max-age=31536000, immutable" if is_current else "no-cache"
    return Response(
        _content(name), headers={"Cache-Control": kept}, media_type=MEDIA[name.rpartition(".")[2]]
    )
