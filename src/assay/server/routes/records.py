"""Scorecards, exams, judge cards, and every kind of record by its digest."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from msgspec.structs import replace
from starlette.responses import Response

from assay.families.exams.answers import collect
from assay.families.exams.document import exam_result, pass_line
from assay.families.exams.exam import make_exam
from assay.families.exams.marking import Marking, grade_exam
from assay.families.exams.policy import ExamRules
from assay.families.exams.records import ExamResult
from assay.judging.card import check_card
from assay.server import bodies, lookup, openapi
from assay.server.auth import ADMIN, JUDGE, READ, WRITE, Principal
from assay.server.posted_runs import post_one
from assay.server.requests import ExamRequest, ForgetRequest
from assay.server.routes.runs import POSTING, chosen
from assay.server.routing import Route
from assay.server.state import SERVICES, Services, check_name
from assay.services.drafts import exam_drafts
from assay.store.drafts import Draft, draft

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


@router.post(
    "/exams/grade",
    status_code=201,
    summary="Grade the answers to an exam",
    responses=openapi.POSTED,
    openapi_extra=openapi.body(ExamRequest),
)
async def grade_an_exam(
    request: Request, principal: Principal = WRITE, services: Services = SERVICES
) -> Response:
    """The same evaluator as `assay exam grade`; the result is stored, and every result of an exam
    stays.
    """
    body = await bodies.read(request, services.settings, ExamRequest)

    def work() -> tuple[ExamResult, list[Draft]]:
        files = body.exam if isinstance(body.exam, list) else [body.exam]
        exam = make_exam(
            [bodies.document(file, at=f"exam[{index}]") for index, file in enumerate(files)]
        )
        rules = ExamRules(services.shelf.policy_of("exam", check_name(body.policy)))
        marking = Marking(
            services.shelf.rubric_of(
                "exam", check_name(body.rubric or exam.rubric or rules.policy.default_rubric)
            )
        )
        lines = [
            bodies.document(line, at=f"answers[{index}]") for index, line in enumerate(body.answers)
        ]
        answers = collect(lines, (item.id for item in exam.items), where="answers")
        graded = grade_exam(exam, answers.by_item, marking)
        result = replace(
            exam_result(graded, rules, unknown=answers.unknown, faults=answers.faults),
            pass_line=pass_line(exam.pass_score, graded.score),
        )
        return result, exam_drafts(result, exam, answers.by_item.values(), author=principal.author)

    document, drafts = await services.in_turn(principal.project, work)
    stored = (await services.writer.put(principal.project, drafts))[-1]
    return bodies.created(request, stored, "exams", result=document)


@router.post(
    "/cards",
    status_code=201,
    summary="Post the card of a judge",
    responses=openapi.POSTED,
    openapi_extra=openapi.body({"type": "object"}),
)
async def post_card(
    request: Request, principal: Principal = JUDGE, services: Services = SERVICES
) -> Response:
    """A card made by `assay judge card`. Policies with terms for judges use the cards of their
    project.
    """
    tree = await bodies.tree(request, services.settings)
    card = check_card(tree, where="body", now=datetime.now(UTC))
    stored = (
        await services.writer.put(
            principal.project, [draft(card, kind="card", author=principal.author)]
        )
    )[0]
    services.forget_cards(principal.project)
    return bodies.created(request, stored, "cards")


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
