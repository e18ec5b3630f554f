"""Executions: the server runs a workflow that its operator offers, on a dataset, and grades every
run.

A client names a workflow and a dataset by id and version, or sends the samples; it can't name a
file, a module, a command or an address to run. Before anything runs, every sample is checked
against the workflow. The runs can be watched live under `/runs/{id}/events`.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.canon import encode
from assay.errors import AssayError, InputError
from assay.records.evidence import Dataset as Sample
from assay.records.evidence import Run
from assay.records.evidence import Workflow as Subject
from assay.running.catalogue import Ambiguous, NotOffered, Offered
from assay.running.compatibility import Misfit, prepare
from assay.running.dataset import LoadedDataset, from_rows
from assay.running.post_run import code_of
from assay.running.runner import RunSettings, work_of
from assay.running.workflow import LoadedWorkflow
from assay.server import bodies, lookup, openapi
from assay.server.auth import READ, WRITE, Principal
from assay.server.executing import Executor, ended
from assay.server.posted_runs import grader_of, rules_digest
from assay.server.problems import Problem, misfit
from assay.server.requests import ExecutionRequest, NamedDataset, NamedVersion
from assay.server.routing import Route
from assay.server.state import SERVICES, Services
from assay.services.evaluations import check_name
from assay.store import executions as stored
from assay.store.events import DONE, FAILED
from assay.store.executions import Job, Placed, Planned
from assay.store.reading import grades_of

SCHEMA = "assay.execution/1"
ADDRESS = "/api/v1/executions"
SHOWN = 1000
"""How many runs the answer to a request lists."""
router = APIRouter(route_class=Route, prefix=ADDRESS, tags=["executions"], responses=openapi.EVERY)

ACCEPTED: dict[int | str, dict[str, Any]] = {
    202: {"description": "The execution is queued; `Location` shows its progress."}
}


class ExecutionPlan(NamedTuple):
    """An accepted execution: the request as it is stored, and its runs."""

    kept: dict[str, Any]
    runs: list[Planned]


async def accept(request: Request, services: Services, principal: Principal, tree: Any) -> Response:
    """Check a request and queue its execution."""
    executor: Executor = request.app.state.executor
    if executor.offered is None:
        raise Problem(
            403,
            "this server runs no workflows.",
            where="schema",
            fix="Its operator may start it with `assay serve --workflows DIR`.",
        )
    name = secrets.token_hex(8)
    plan = await asyncio.to_thread(
        _execution_plan, services, executor.offered, principal.project, tree, name
    )
    database = services.ledger.database
    waiting = await asyncio.to_thread(stored.waiting, database, principal.project)
    if waiting >= services.settings.run_queue:
        raise Problem(
            429,
            f"{waiting} executions of this project are waiting.",
            fix="Wait for one of them, or cancel it.",
            headers={"Retry-After": "30"},
        )
    job = stored.new(name, principal.project, encode(plan.kept), author=principal.author)
    try:
        await asyncio.to_thread(stored.create, database, job, plan.runs)
    except stored.RunTaken as taken:
        raise Problem(
            409,
            f"a run {taken.run_id[:80]!r} was started before.",
            where="name",
            fix="Give the execution another name, or none.",
        ) from None
    executor.wake()
    address = f"{ADDRESS}/{name}"
    listed = [{"run_id": run.run_id, "events": _events(run.run_id)} for run in plan.runs[:SHOWN]]
    answer = {
        **_brief(job),
        "count": len(plan.runs),
        "runs": listed,
        "location": address,
    }
    return bodies.answer(request, answer, status=202, headers={"Location": address})


def _execution_plan(
    services: Services, offered: Offered, project: str, tree: Any, execution: str
) -> ExecutionPlan:
    body = bodies.shaped(tree, ExecutionRequest)
    named = NamedVersion(id=body.workflow) if isinstance(body.workflow, str) else body.workflow
    workflow = _workflow(offered, named.id, _version(named))
    dataset = _dataset(offered, body.dataset)
    repeat = body.repeat
    limit = services.settings.run_samples
    if len(dataset.samples) * repeat > limit:
        fix = "Send the samples in several requests, or lower `repeat`."
        raise Problem(
            413,
            f"these are {len(dataset.samples) * repeat:,} runs; the limit is {limit:,}.",
            where="dataset",
            fix=fix,
        )
    try:
        prepared = prepare(workflow, dataset)
    except Misfit as error:
        raise misfit(error.reasons) from None
    rules = _can_be_graded(services, project, workflow)
    settings = _settings(body, workflow, execution, services.settings.run_concurrency)
    runs = [
        stored.Planned(run.run_id, run.sample.sample_id, run.attempt)
        for run in work_of(prepared, settings)
    ]
    samples = {} if body.dataset.samples is None else {"samples": body.dataset.samples}
    kept = {
        "workflow": {"id": workflow.id, "version": workflow.version, "digest": workflow.digest},
        "dataset": {
            "id": dataset.id,
            "version": dataset.version,
            "digest": dataset.digest,
            **samples,
        },
        "code": code_of(workflow, services.settings.release.placed_scorers),
        "rules": rules,
        **{
            field: getattr(settings, field)
            for field in ("name", "repeat", "concurrency", "timeout_s", "retries")
        },
    }
    return ExecutionPlan(kept, runs)


def _version(body: NamedVersion) -> str | None:
    return None if body.version is None else str(body.version)


def _workflow(offered: Offered, name: str, version: str | None) -> LoadedWorkflow:
    try:
        return offered.workflow(name, version)
    except AssayError as error:
        raise _not_there(error, f"the file of the workflow {name[:80]!r}") from None


def _dataset(offered: Offered, body: NamedDataset) -> LoadedDataset:
    name, version = body.id, _version(body)
    if body.samples is not None:
        return from_rows(body.samples, id=name, version=version, where="dataset.samples")
    try:
        return offered.dataset(name, version)
    except AssayError as error:
        raise _not_there(error, f"the file of the dataset {name[:80]!r}") from None


def _not_there(error: AssayError, what: str) -> Problem:
    """The problem for a workflow or dataset that can't be read. An unknown one is a 404; an invalid
    file of the operator is not the client's fault, and its path is not shown.
    """
    if isinstance(error, NotOffered | Ambiguous):
        return Problem(
            404 if isinstance(error, NotOffered) else 422,
            error.message,
            code=error.code,
            where=error.where,
            fix=error.fix,
        )
    return Problem(
        500,
        f"{what} is invalid: {error.message}",
        code=error.code,
        fix="Its operator has to fix it.",
    )


def _can_be_graded(services: Services, project: str, workflow: LoadedWorkflow) -> str:
    """Check that the profile and rubric exist before anything runs: a typo must not waste a night
    of calls. Returns the digest of the rules.
    """
    sample, subject = Sample(id="x", version="1", sample_id="x"), Subject(**workflow.subject())
    run = Run("assay.run/1", run_id="x", workflow=subject, dataset=sample, status="cancelled")
    grader = grader_of(services, project)
    try:
        grader.scorecard(run)
        return rules_digest(grader, subject)
    except InputError as error:
        raise _not_there(error, f"the file of the workflow {workflow.id!r}") from None


def _settings(
    body: ExecutionRequest, workflow: LoadedWorkflow, execution: str, most: int
) -> RunSettings:
    name = (
        body.name
        or f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', workflow.id).lstrip('_.-')[:60] or 'run'}-{execution}"  # noqa: E501
    )
    check_name(name)  # it names the evaluation too
    timeout, longest = body.timeout_s, float(workflow.spec.limits.timeout_s)
    if timeout is not None and timeout > longest:
        raise Problem(
            422,
            f"timeout_s is {timeout:g}; the workflow allows at most {longest:g}.",
            where="timeout_s",
        )
    return RunSettings(
        name,
        concurrency=min(body.concurrency or most, most),
        repeat=body.repeat,
        timeout_s=timeout,
        retries=body.retries,
    )


def _events(run_id: str) -> str:
    return f"/api/v1/runs/{quote(run_id, safe=':@')}/events"


# --- progress


@router.get("", summary="The newest executions")
def list_executions(
    request: Request, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """The last fifty."""
    newest = stored.newest(services.ledger.database, principal.project)
    return bodies.answer(request, {"items": [_brief(job) for job in newest]})


@router.get("/{execution_id}", summary="Progress of an execution, and its runs")
async def get_execution(
    request: Request,
    execution_id: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    wait: Annotated[
        float, Query(ge=0, le=60, description="seconds to wait for the end of the execution")
    ] = 0,
    state: Annotated[
        str | None,
        Query(pattern=f"^({'|'.join(stored.STATES)})$", description="only runs in this state"),
    ] = None,
    after: Annotated[
        str | None, Query(max_length=20, description="the `next` of the previous page")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Its state, counts and faults, and its runs in order with their grades, page by page."""
    job = await ended(services, lambda: _find(services, principal, execution_id), wait)
    states = stored.STATES if state is None else (state,)
    shown = await asyncio.to_thread(_progress, services, job, states, lookup.cursor(after), limit)
    return bodies.answer(request, {**_brief(job), **shown})


def _progress(
    services: Services, job: Job, states: tuple[str, ...], place: int | None, limit: int
) -> dict[str, Any]:
    database = services.ledger.database
    page = stored.runs(
        database, job.id, states=states, after=-1 if place is None else place, limit=limit
    )
    numbers = stored.counts(database, job.id)
    by_state = {name: numbers.get(name, 0) for name in stored.STATES}
    return {
        "counts": {"runs": sum(numbers.values()), **by_state},
        "runs": _shown(services, job.project, page),
        "next": str(page[-1].place) if len(page) == limit else None,
    }


@router.post(
    "/{execution_id}/cancel",
    status_code=202,
    summary="Cancel an execution",
    responses=openapi.problems(409),
)
async def cancel_execution(
    request: Request, execution_id: str, principal: Principal = WRITE
) -> Response:
    """Ends its process. Runs that had begun are recorded as cancelled; the others are only counted
    as cancelled.
    """
    job = await cancel(request, principal, execution_id)
    return bodies.answer(
        request, _brief(job), status=202, headers={"Location": f"{ADDRESS}/{job.id}"}
    )


async def cancel(request: Request, principal: Principal, execution_id: str) -> Job:
    """Cancel an execution. A finished one is refused; cancelling twice is the same as once."""
    services: Services = request.app.state.services
    job = await asyncio.to_thread(_find, services, principal, execution_id)
    if job.state in (DONE, FAILED):
        raise Problem(
            409,
            f"this execution is {job.state}.",
            where="execution_id",
            fix="Only an execution that is queued or running can be cancelled.",
        )
    after = await asyncio.to_thread(stored.cancel, services.ledger.database, job)
    executor: Executor = request.app.state.executor
    executor.wake()
    return after or job


def _find(services: Services, principal: Principal, name: str) -> Job:
    plain = name.isascii() and name.isalnum() and len(name) <= 40
    job = stored.find(services.ledger.database, principal.project, name) if plain else None
    if job is None:
        raise lookup.absent("execution", name)
    return job


def _brief(job: Job) -> dict[str, Any]:
    """An execution without its runs and without the samples that came with it."""
    request = job.request()
    dataset = {key: value for key, value in request["dataset"].items() if key != "samples"}
    return {
        "execution": job.id,
        "state": job.state,
        "workflow": request["workflow"],
        "dataset": dataset,
        **{key: request[key] for key in ("name", "repeat", "concurrency", "timeout_s", "retries")},
        "faults": job.progress["faults"],
        "created_at": job.created_at,
        "author": job.author,
    }


def _shown(services: Services, project: str, page: Sequence[Placed]) -> list[dict[str, Any]]:
    grades = grades_of(
        services.ledger.database, project, [run.digest for run in page if run.digest is not None]
    )
    rows = []
    for run in page:
        known = grades.get(run.digest or "", [])
        rows.append(
            {
                "run_id": run.run_id,
                "sample_id": run.sample_id,
                "attempt": run.attempt,
                "state": run.state,
                "events": _events(run.run_id),
                "digest": run.digest,
                "grade": known[-1].grade if known else None,
                "passed": known[-1].passed if known else None,
            }
        )
    return rows
