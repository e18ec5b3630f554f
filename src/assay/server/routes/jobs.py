"""Jobs: score or grade again what is in the ledger, after a version was published."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from msgspec.structs import asdict
from starlette.responses import Response

from assay.canon import encode
from assay.server import bodies, lookup, openapi
from assay.server.auth import READ, WRITE, Principal
from assay.server.graded_by import grader_of, library_digest
from assay.server.problems import Problem
from assay.server.requests import JobRequest
from assay.server.state import SERVICES, Services
from assay.store import jobs as stored_jobs
from assay.store.reading import FILTERS

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"], responses=openapi.EVERY)


@router.post(
    "",
    status_code=202,
    summary="Score or grade again",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(JobRequest),
)
async def post_job(
    request: Request, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """`rescore` goes from the runs, `regrade` from the scorecards. New grades are new records that
    say which ones they supersede; so do grades that are stored already, if earlier rules apply
    again.
    """
    body = await bodies.read(request, services.settings, JobRequest)
    if body.kind == "regrade" and (body.profile or body.rubric):
        raise Problem(
            422,
            "a regrade job takes only a policy: it grades scorecards, which are scored already.",
            where="profile" if body.profile else "rubric",
            fix="Use `rescore` for another profile or rubric.",
        )
    named = {"policy": body.policy, "profile": body.profile, "rubric": body.rubric}
    grader_of(services, principal.project, named)  # refuses other rules than those of assay.yaml
    # an invalid filter is reported now, not by a job that fails later
    kind = "run" if body.kind == "rescore" else "scorecard"
    await asyncio.to_thread(
        services.ledger.find, kind, body.filters or {}, project=principal.project, limit=1
    )
    kept = {name: value for name, value in asdict(body).items() if value is not None}
    kept["rules"] = library_digest(services, named)
    queued = stored_jobs.new(
        stored_jobs.AGAIN, principal.project, encode(kept), author=principal.author
    )
    job = await asyncio.to_thread(stored_jobs.create, services.ledger.database, queued)
    address = f"/api/v1/jobs/{job.id}"
    return bodies.answer(
        request,
        {**job.document(), "location": address, "filters_known": list(FILTERS)},
        status=202,
        headers={"Location": address},
    )


@router.get("", summary="The newest jobs")
def list_jobs(
    request: Request, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """The last fifty."""
    newest = stored_jobs.newest(services.ledger.database, stored_jobs.AGAIN, principal.project)
    return bodies.answer(request, {"items": [job.document() for job in newest]})


@router.get("/{job_id}", summary="Progress of a job")
def get_job(
    request: Request, job_id: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """State, progress and faults."""
    job = (
        stored_jobs.find(services.ledger.database, stored_jobs.AGAIN, principal.project, job_id)
        if job_id.isalnum()
        else None
    )
    if job is None:
        raise lookup.absent("job", job_id)
    return bodies.answer(request, job.document())
