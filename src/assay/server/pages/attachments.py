"""Parts of a stored run as files: a picture to show on a page, or a download. Pictures are
recognised by their first bytes; a browser opens nothing else in place.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.routing import PageRoute
from assay.server.problems import Problem
from assay.server.state import SERVICES, Services
from assay.views.values import PICTURES, json_text, part_at, read_media, sniffed

router = APIRouter(route_class=PageRoute, include_in_schema=False)
POLICY = "default-src 'none'; sandbox"
_ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
}


@router.get("/attachments/{digest}")
def get_attachment(
    request: Request,
    digest: str,
    at: str = "",
    principal: Principal = READ,
    services: Services = SERVICES,
) -> Response:
    """The part of a run that a JSON pointer names; without one, the whole record as JSON."""
    item = lookup.record(services, principal.project, None, digest)
    if item.kind not in ("run", "scorecard", "grade"):
        raise lookup.absent("run", digest)
    name = item.digest.removeprefix("sha256:")[:12]
    if not at:
        return _file(item.checked(), f"{item.kind}-{name}.json", "application/json")
    try:
        value = part_at(item.tree(), at[:2000])
    except KeyError:
        raise Problem(404, "this run doesn't have that part.", where=at[:100]) from None
    media = read_media(value)
    content = media.content() if media is not None else None
    if content is not None:
        kind = sniffed(content)
        return _file(
            content,
            f"{item.kind}-{name}.{_ENDINGS.get(kind, 'bin')}",
            kind if kind in PICTURES else "application/octet-stream",
            shown=kind in PICTURES,
        )
    ending = "txt" if isinstance(value, str) else "json"
    text = json_text(value).encode("utf-8", "replace")
    return _file(text, f"{item.kind}-{name}.{ending}", "text/plain; charset=utf-8")


def _file(data: bytes, name: str, media_type: str, *, shown: bool = False) -> Response:
    place = "inline" if shown else "attachment"
    return Response(
        data,
        headers={
            "Content-Disposition": f'{place}; filename="{name}"',
            "Content-Security-Policy": POLICY,
            "Cache-Control": "private, no-cache",
            "Vary": "Authorization, Cookie",
        },
        media_type=media_type,
    )
