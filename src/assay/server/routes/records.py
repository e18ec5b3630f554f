"""Scorecards, exams, judge cards, and every kind of record by its digest."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from assay.server import bodies, lookup, openapi
from assay.server.auth import ADMIN, READ, WRITE, Principal
from assay.server.posted_runs import post_one
from assay.server.requests import ForgetRequest
from assay.server.routes.runs import POSTING, chosen
from assay.server.routing import Route
from assay.server.state import SERVICES, Services

router = APIRouter(route_class=Route, prefix="/api/v1", tags=["records"], responses=openapi.EVERY)
LISTED = {
    "scorecards": "scorecard",
    "grades": "grade",
    "decisions": "decision",
    "exams": "exam",
    "entries": "entry",
    "indexes": "index",
    "checks": "check",
    "cards": "card",
    "audits": "audit",
    "calibrations": "calibration",
    "judgements": "judgement",
    "baselines": "baseline",
    "label-sets": "labelset",
    "labels": "label",
    "results": "result",
}
Digest = Annotated[str, Path(description="sha256: and 64 hexadecimal digits")]


@router.post(
    "/scorecards",
    status_code=201,
    summary="Post a scorecard and get its grade",
    responses={200: {"description": "It was already stored."}, **openapi.POSTED},
    openapi_extra={**openapi.body(openapi.SCORECARD), **POSTING},
)
async def post_scorecard(
    request: Request, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """One scorecard (`assay.scorecard/1`)."""
    bodies.media_type(request, bodies.JSON)
    data = await bodies.content(request, services.settings)
    return await post_one(
        request,
        services,
        principal,
        chosen(services, principal, request),
        data,
        kind="assay.scorecard/1",
        address="/api/v1/scorecards",
    )


def _listing(plural: str, kind: str) -> None:
    """The routes that list a kind of record and return one."""

    def list_records(
        request: Request,
        principal: Principal = READ,
        services: Services = SERVICES,
        after: Annotated[str | None, Query(max_length=20)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        newest_first: bool = True,
    ) -> Response:
        page = services.ledger.find(
            kind,
            project=principal.project,
            after=lookup.cursor(after),
            limit=limit,
            newest_first=newest_first,
        )
        following = None if page.next_cursor is None else str(page.next_cursor)
        items = [lookup.listed(item) for item in page.items]
        return bodies.answer(request, {"items": items, "next": following})

    def get_record(
        request: Request, digest: Digest, principal: Principal = READ, services: Services = SERVICES
    ) -> Response:
        return bodies.answer(
            request, lookup.shown(lookup.record(services, principal.project, kind, digest))
        )

    router.add_api_route(
        f"/{plural}", list_records, methods=["GET"], summary=f"List {plural}", name=f"list_{plural}"
    )
    router.add_api_route(
        f"/{plural}/{{digest}}",
        get_record,
        methods=["GET"],
        summary=f"One of the {plural}",
        name=f"get_{kind}",
    )


for _plural, _kind in LISTED.items():
    _listing(_plural, _kind)


@router.get("/records/{digest}", summary="Any record, with its links")
def get_any(
    request: Request, digest: Digest, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """A record of any kind."""
    item = lookup.record(services, principal.project, None, digest)
    links = [link._asdict() for link in services.ledger.links_of(digest, project=principal.project)]
    return bodies.answer(request, {**lookup.shown(item), "links": links})


@router.post(
    "/records/{digest}/forget",
    summary="Forget the content of a record",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(ForgetRequest),
)
async def forget(
    request: Request, digest: Digest, principal: Principal = ADMIN, services: Services = SERVICES
) -> Response:
    """For privacy. A tombstone with the digest stays, with who did it and why; records made from it
    stay, and are listed.
    """
    body = await bodies.read(request, services.settings, ForgetRequest)
    if not lookup.DIGEST.fullmatch(digest):
        raise lookup.absent("record", digest)
    if await asyncio.to_thread(services.ledger.get, digest, project=principal.project) is None:
        raise lookup.absent("record", digest)
    tombstone = await asyncio.to_thread(
        services.ledger.forget,
        digest,
        author=principal.author,
        reason=body.reason,
        project=principal.project,
    )
    return bodies.answer(request, tombstone._asdict())
