"""The label sets of a project, and the form that makes one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import islice

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from assay.archive.compared import newest_evaluations
from assay.archive.label_results import results_of
from assay.archive.label_sets import (
    DEFAULT_ITEMS,
    SetRequest,
    command_of,
    list_sets,
    make_set,
    set_draft,
)
from assay.archive.labels import labels_of_set
from assay.errors import AssayError, ShelfError
from assay.records.label import LabelSet
from assay.server import lookup
from assay.server.auth import READ, WRITE, Principal
from assay.server.pages.evaluations import FIRST
from assay.server.pages.layout import page
from assay.server.pages.routing import SENT, PageRoute
from assay.server.problems import Problem, problem_of
from assay.server.state import SERVICES, Services, check_name
from assay.views.blocks import Empty, Field, Note, Paragraph, Part
from assay.views.labels import DRAWN, sets_table
from assay.views.pieces import sentence

router = APIRouter(route_class=PageRoute, include_in_schema=False)
SHOWN = 20
RUBRIC = "rubric"
OFFERED = 20
LEAD = "People's own verdicts: blind, stored next to the grades, and used to calibrate judges."


@router.get("/label")
def show_sets(request: Request, principal: Principal = READ) -> Response:
    """The sets, and the form for a new one."""
    return _page(request, principal, {}, problem=None)


def _page(
    request: Request, principal: Principal, values: Mapping[str, str], *, problem: Problem | None
) -> Response:
    services: Services = request.app.state.services
    ledger, project = services.ledger, principal.project
    results = [
        results_of(stored, labels_of_set(ledger, stored.digest, project=project))
        for stored in islice(list_sets(ledger, project=project), SHOWN)
    ]
    total = ledger.count("labelset", project=project).n
    known = [evaluation.evaluation for evaluation in newest_evaluations(ledger, project, OFFERED)]
    names = list(dict.fromkeys(evaluation.name for evaluation in known))
    # an evaluation of one sample was probably only a try
    usual = next(
        (evaluation.name for evaluation in known if evaluation.totals.n > 1),
        names[0] if names else "",
    )
    parts: list[Part] = []
    if problem is not None:
        text = sentence(problem.detail)
        # only the fix for a rubric is about this page; others are for the terminal
        has_fix = problem.where == RUBRIC or problem.status >= 500
        fix = problem.fix if has_fix else "Change the form below."
        parts.append(Note(f"{text} {fix}".strip(), kind="bad"))
    if results:
        parts.append(sets_table(results, _address))
        if total > SHOWN:
            text = f"The newest {SHOWN} of {total:,} are shown; `assay label list` lists all."
            parts.append(Paragraph(text, "hint"))
    elif names:
        parts.append(Paragraph("No label sets yet. Make the first one below.", "hint"))
    else:
        text = "Labels are for samples of an evaluation, and no evaluation is stored yet."
        parts.append(Empty(text, FIRST))
    return page(
        request,
        "Label",
        *parts,
        nav="/label",
        lead=LEAD,
        status=200 if problem is None else problem.status,
        template="label_sets.html",
        fields=_fields(services, names) if names else [],
        values={"evaluation": usual, "n": str(DEFAULT_ITEMS), **values},
        can_write="write" in principal.scopes,
    )


def _fields(services: Services, names: list[str]) -> list[Field]:
    rubrics = sorted({entry.name for entry in services.shelf.entries("rubrics")})
    draws = [(name, text.capitalize()) for name, text in DRAWN.items()]
    return [
        Field("evaluation", "Evaluation", choices=names, hint="name, id or latest"),
        Field("pairs", "Compare with", choices=names, hint="nothing: score by a rubric"),
        Field("draw", "Draw", kind="select", choices=draws[1:], hint=draws[0][1]),
        Field("n", "Items", kind="number"),
        Field("rubric", "Rubric", choices=rubrics, hint="as the samples were graded"),
        Field("name", "Name", hint="from the evaluation"),
    ]


def _address(label_set: LabelSet) -> str:
    return f"/label/{label_set.id}"


@router.post("/label/sets")
async def make_one(
    request: Request,
    sent: Mapping[str, str] = SENT,
    principal: Principal = WRITE,
    services: Services = SERVICES,
) -> Response:
    """Draw a set and go to it; the same form twice makes one set."""
    try:
        label_set = await asyncio.to_thread(_new_set, services, principal.project, sent)
    except (AssayError, Problem) as error:
        return await asyncio.to_thread(_page, request, principal, sent, problem=problem_of(error))
    await services.writer.put(principal.project, [set_draft(label_set, author=principal.author)])
    return RedirectResponse(_address(label_set), 303)


def _new_set(services: Services, project: str, sent: Mapping[str, str]) -> LabelSet:
    fields = {name: value.strip() for name, value in sent.items()}
    n = fields.get("n") or str(DEFAULT_ITEMS)
    if not (n.isascii() and n.isdigit() and len(n) < 6):
        raise Problem(422, f"{n[:40]!r} is not a number of items.", where="n")
    rubric = fields.get("rubric", "")
    evaluation = lookup.evaluation(services, project, fields.get("evaluation", ""))
    other = lookup.evaluation(services, project, fields["pairs"]) if fields.get("pairs") else None
    draw = SetRequest(
        fields.get("draw") or "random",
        int(n),
        rubric=rubric,
        name=fields.get("name", ""),
        expected=bool(fields.get("expected")),
    )
    try:
        if rubric:
            check_name(rubric)
        return make_set(services.ledger, services.shelf, evaluation, other, draw, project=project)
    except (Problem, ShelfError) as error:
        fix = f"Choose one of the list. For one in a file, run {command_of(evaluation, 'FILE')}."
        raise Problem(422, str(error), where=RUBRIC, fix=fix) from None
