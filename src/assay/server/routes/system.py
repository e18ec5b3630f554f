"""Health, readiness and metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay import __version__
from assay.errors import AssayError
from assay.records.grade import ENGINE
from assay.server import bodies, openapi
from assay.server.auth import ADMIN, READ, Principal
from assay.server.problems import Problem
from assay.server.routing import Route
from assay.server.state import SERVICES, Services

router = APIRouter(route_class=Route, prefix="/api/v1", tags=["system"])


@router.get("/health", summary="Check that the process is alive")
async def health(request: Request) -> Response:
    """Needs no token, and queries nothing else."""
    return bodies.answer(request, {"status": "ok", "version": __version__, **ENGINE})


@router.get("/ready", summary="Check that it can take requests", responses=openapi.problems(503))
async def ready(request: Request, services: Services = SERVICES) -> Response:
    """Needs no token. Checks that the database answers and the server is not shutting down."""
    if services.stopping:
        raise Problem(503, "the server is shutting down.")
    try:
        async with asyncio.timeout(5):
            there = await asyncio.to_thread(services.ledger.is_there)
    except (AssayError, TimeoutError):
        there = False
    if not there:
        raise Problem(503, "the database does not answer.", headers={"Retry-After": "1"})
    return bodies.answer(request, {"status": "ready"})


@router.get("/openapi.json", include_in_schema=False)
def description(request: Request, principal: Principal = READ) -> Response:
    """The OpenAPI document."""
    return bodies.answer(request, request.app.openapi())


@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses={
        **openapi.EVERY,
        200: {
            "description": "Prometheus text.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
    },
)
async def metrics(
    request: Request, principal: Principal = ADMIN, services: Services = SERVICES
) -> Response:
    """Of all workers of this server; no project is named."""
    return Response(services.metrics.text(), media_type="text/plain; version=0.0.4")
