"""Evaluations: made of posted or stored runs, listed, and shown with their runs.

A client never states totals: they are computed here, from the grades of the runs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from msgspec import UNSET
from msgspec.structs import asdict
from starlette.responses import Response

from assay.files.json_files import Document
from assay.scoring.profile import load_profile
from assay.server import bodies, lookup, openapi
from assay.server.auth import READ, WRITE, Principal
from assay.server.posted_runs import grader_of, own_profile, with_configured
from assay.server.problems import Problem
from assay.server.requests import EvaluationRequest
from assay.server.routes.decisions import read_evidence, store_last
from assay.server.routing import Route
from assay.server.state import SERVICES, Services
from assay.services.evaluations import check_name, read_evaluation
from assay.services.storing import EvaluationBuilder, MadeEvaluation, evaluate_runs, run_groups
from assay.store.drafts import Draft, Item

router = APIRouter(
    route_class=Route, prefix="/api/v1/evaluations", tags=["evaluations"], responses=openapi.EVERY
)
Name = Annotated[str | None, Query(max_length=1000)]
_BRIEF = ("passed", "grade", "weighted_score", "hard_gate_failures", "sample_id")


@router.post(
    "",
    status_code=201,
    summary="Make an evaluation of runs",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(EvaluationRequest),
)
async def post_evaluation(
    request: Request, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """Runs of one version of a workflow on one version of a dataset, posted here or stored earlier.
    They are graded, and the totals are computed from their grades.
    """
    body = await bodies.read(request, services.settings, EvaluationRequest)
    evaluated, drafts = await services.in_turn(
        principal.project, lambda: _evaluated(services, principal.project, principal.author, body)
    )
    stored = await store_last(services, principal.project, drafts)
    return bodies.created(
        request,
        stored,
        "evaluations",
        evaluation=evaluated.evaluation,
        ungraded=dict(evaluated.ungraded),
    )


def _evaluated(
    services: Services, project: str, author: str, body: EvaluationRequest
) -> tuple[MadeEvaluation, list[Draft]]:
    check_name(body.name)
    own = body.settings.get("own_profile")
    if own is not None and not (isinstance(own, dict) and isinstance(own.get("profile"), dict)):
        raise Problem(422, "it must have a `profile`.", where="settings.own_profile")
    if own is not None:  # decisions will be made by it
        load_profile(Document(own["profile"], "settings.own_profile"))
    evidence = read_evidence(services, project, body.runs, "runs")
    trees = [document.tree for document in evidence.documents]
    wrong = [
        index
        for index, tree in enumerate(trees)
        if not isinstance(tree, dict) or tree.get("schema") != "assay.run/1"
    ]
    if wrong or not trees:
        where = f"runs[{wrong[0]}]" if wrong else "runs"
        raise Problem(422, "an evaluation is made of runs (assay.run/1).", where=where)
    named = {"profile": body.profile, "policy": body.policy, "rubric": body.rubric}
    rules = with_configured(services, named, policy="policy")
    grader = grader_of(services, project, named)
    drafts: dict[bytes, Draft] = {draft.digest: draft for draft in grader.basis.drafts}
    for document in evidence.documents:
        _need_names(document.tree, document.at)
    group = run_groups(trees)[0]  # a run of another version is refused by the builder
    started, finished = group.span(datetime.now(UTC))
    builder = EvaluationBuilder(
        name=body.name,
        workflow=group.workflow,
        dataset=group.dataset,
        settings={
            **body.settings,
            **named,
            **rules,
            **own_profile(services),
        },
        started=started,
        source="import",
        labels=body.labels,
    )
    evaluated = evaluate_runs(
        evidence.documents,
        grader,
        builder,
        lambda taken: drafts.update((item.digest, item) for item in taken),
        finished=finished,
        basis=grader.basis,
        author=author,
    )
    return evaluated._replace(evaluation=builder.finish(finished)), list(drafts.values())


def _need_names(tree: Any, at: str) -> None:
    for what in ("workflow", "dataset"):
        named = tree.get(what)
        if not isinstance(named, dict) or not {"id", "version"} <= named.keys():
            raise Problem(422, f"the run names no {what} with its version.", where=at or "runs")


@router.get("", summary="List evaluations")
def list_evaluations(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    workflow: Name = None,
    dataset: Name = None,
    label: Name = None,
    name: Name = None,
    after: Annotated[str | None, Query(max_length=20)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    newest_first: bool = True,
) -> Response:
    """Evaluations with their totals, without their lists of runs."""
    tags = [f"{what}:{text}" for what, text in (("label", label), ("name", name)) if text]
    if len(tags) > 1:
        raise Problem(422, "ask for a label or for a name.", where="label")
    filters = {"workflow": workflow, "dataset": dataset, "tag": tags[0] if tags else None}
    page = services.ledger.find(
        "evaluation",
        {key: value for key, value in filters.items() if value is not None},
        project=principal.project,
        after=lookup.cursor(after),
        limit=limit,
        newest_first=newest_first,
    )
    items = [_brief(item) for item in page.items]
    following = None if page.next_cursor is None else str(page.next_cursor)
    return bodies.answer(request, {"items": items, "next": following})


def _brief(item: Item) -> dict[str, Any]:
    """An evaluation in a list: everything but its runs."""
    document = {**lookup.listed(item), "record": None}
    if item.body is not None:
        record = asdict(read_evaluation(item).evaluation)
        document["record"] = {
            key: value for key, value in record.items() if key != "runs" and value is not UNSET
        }
    return document


@router.get("/{name}", summary="An evaluation")
def get_evaluation(
    request: Request, name: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """An evaluation by its id, digest or name, or as `latest` or `latest~1`; the newest of a
    name.
    """
    stored = lookup.evaluation(services, principal.project, name)
    item = lookup.record(services, principal.project, "evaluation", stored.digest)
    return bodies.answer(request, lookup.shown(item))


@router.get("/{name}/runs", summary="The runs of an evaluation, each with its grade in brief")
def get_runs(
    request: Request,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    after: Annotated[str | None, Query(max_length=20)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """In the order of the evaluation. `grade` is null for a run that could not be graded."""
    runs = lookup.evaluation(services, principal.project, name).evaluation.runs
    start = lookup.cursor(after) or 0
    part = runs[start : start + limit]
    grades = services.ledger.get_many(
        [run.grade for run in part if run.grade is not None], project=principal.project
    )
    items = []
    for run in part:
        grade = grades.get(run.grade) if run.grade is not None else None
        tree = {} if grade is None or grade.body is None else grade.tree()
        items.append(
            {
                "run_id": run.run_id,
                "digest": run.digest,
                "grade_digest": run.grade,
                **{key: tree.get(key) for key in _BRIEF},
            }
        )
    end = start + limit
    return bodies.answer(request, {"items": items, "next": str(end) if end < len(runs) else None})
