"""Pictures of charts, each at its own address: `.svg` for pages, `.png` for download, and `.json`,
the specification that Vega draws in a browser with scripts.

A page shows the sentence and the table at once and leaves the picture to a second request, so that
drawing never delays it. A browser asks again each time and gets a 304 if nothing has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.bodies import header
from assay.server.pages.decisions import decision_chart
from assay.server.pages.overview import workflow_chart
from assay.server.pages.routing import PageRoute
from assay.server.problems import Problem
from assay.server.served import served
from assay.server.state import SERVICES, Services
from assay.views import drawing
from assay.views.charts import Chart, grades, steps

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Ending = Literal["svg", "png", "json"]
MEDIA = {"svg": "image/svg+xml", "png": "image/png", "json": "application/json"}
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
    return Response(_DATA[ending](chart), headers=headers, media_type=MEDIA[ending])


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
