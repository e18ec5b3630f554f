"""The files of the pages: style, script and logo, each under an address that changes with its
content.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.bodies import header
from assay.server.pages.decisions import decision_chart
from assay.server.pages.layout import FILES, PageRoute, static
from assay.server.pages.overview import workflow_chart
from assay.server.problems import Problem
from assay.server.served import served
from assay.server.state import SERVICES, Services
from assay.views import drawing
from assay.views.charts import Chart, grades, steps
from assay.views.values import PICTURES, json_text, part_at, read_media, sniffed

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


Ending = Literal["svg", "png", "json"]
PICTURE_MEDIA = {"svg": "image/svg+xml", "png": "image/png", "json": "application/json"}
OWN_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""A picture may use its own inline styles and nothing else."""
OF_GRADE: dict[str, Callable[[Mapping[str, Any]], Chart]] = {
    "contributions": grades.contributions,
    "floors": grades.floors,
    "timeline": steps.timeline,
}

OF_RECORD: dict[str, Callable[[Services, str, str, str], Chart | None]] = {
    "decisions": decision_chart,
    "workflows": workflow_chart,
}
"""The function for the charts of a stored record, by the first part of its page's address. It takes
the services, the project, the digest and the name of the chart.
"""


_DATA: dict[str, Callable[[Chart], bytes]] = {
    "svg": drawing.svg,
    "png": drawing.png,
    "json": lambda chart: json.dumps(chart.spec).encode(),
}


def picture(request: Request, chart: Chart, ending: str) -> Response:
    """A chart as a picture, unless the browser has it already."""
    if chart.spec is None:
        raise Problem(404, f"there is nothing to draw: {chart.sentence}")
    if ending != "json" and not drawing.available():
        raise Problem(404, "this server can't draw charts.", fix=drawing.MISSING)
    etag = f'"{drawing.digest(chart)}-{ending}"'
    headers = {
        "ETag": etag,
        "Cache-Control": "private, no-cache",
        "Vary": "Authorization, Cookie",
        "Content-Security-Policy": OWN_POLICY,
    }
    if etag in (header(request, "if-none-match") or ""):
        return Response(None, 304, headers=headers)
    return Response(_DATA[ending](chart), headers=headers, media_type=PICTURE_MEDIA[ending])


@router.get("/charts/grades/{digest}/{name}.{ending}")
def get_grade_chart(
    request: Request,
    digest: str,
    name: str,
    ending: Ending,
    principal: Principal = READ,
    services: Services = SERVICES,
) -> Response:
    """A chart of one stored grade."""
    if name not in OF_GRADE:
        raise lookup.absent("chart", name)
    return picture(
        request,
        OF_GRADE[name](lookup.record(services, principal.project, "grade", digest).tree()),
        ending,
    )


@router.get("/charts/{kind}/{digest}/{name}.{ending}")
def get_record_chart(
    request: Request,
    kind: str,
    digest: str,
    name: str,
    ending: Ending,
    principal: Principal = READ,
    services: Services = SERVICES,
) -> Response:
    """A chart of a stored decision, exam or card."""
    drawn = {**OF_RECORD, **{kind: draw for each in served() for kind, draw in each.charts.items()}}
    chart = drawn[kind](services, principal.project, digest, name) if kind in drawn else None
    if chart is None:
        raise lookup.absent("chart", name)
    return picture(request, chart, ending)
