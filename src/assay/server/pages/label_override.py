"""The form for a person's own verdict on a run, with the reason. The grade doesn't change, and no
gate reads the verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from assay.archive.evaluations import StoredEvaluation
from assay.archive.label_saving import override_label, run_named
from assay.archive.labels import RunLabels, labels_of_run
from assay.errors import AssayError, UsageError
from assay.server import lookup
from assay.server.auth import READ, WRITE, Principal
from assay.server.pages.label_rater import ask_name, rater_of, save_label, sentence
from assay.server.pages.layout import page
from assay.server.pages.routing import SENT, PageRoute
from assay.server.problems import Problem
from assay.server.state import SERVICES, Services
from assay.store.drafts import Item
from assay.views.blocks import Column, Note, Table
from assay.views.labels import rater_names, says
from assay.views.pieces import clip, moment

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Given = Annotated[str, Query(max_length=2000)]


def people_table(labels: RunLabels) -> Table:
    """The verdicts people gave on a run, for its page."""
    names = rater_names(stored.label.rater for stored in (*labels.overrides, *labels.labels))
    rows = [
        [
            names[stored.label.rater],
            says(stored.label),
            clip(stored.label.comment, 1000, absent_as="none"),
            moment(stored.at),
        ]
        for stored in (*labels.overrides, *labels.labels)
    ]
    columns = ("Rater", Column("Says", "wide"), Column("Comment", "wide"), "When")
    return Table("People's verdicts", columns, rows, absent="No verdicts yet.", kind="stack")


def _run(
    services: Services, project: str, run: str, evaluation: str
) -> tuple[Item, StoredEvaluation | None]:
    within = lookup.evaluation(services, project, evaluation) if evaluation else None
    try:
        return run_named(services.ledger, run, within, project=project), within
    except AssayError:
        raise lookup.absent("run", run) from None


@router.get("/label/override")
def ask_override(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    run: Given = "",
    within: Annotated[str, Query(alias="in", max_length=200)] = "",
) -> Response:
    """The form."""
    if rater_of(request, principal) is None:
        return ask_name(request)
    return _form(request, services, principal, run, within)


def _form(
    request: Request,
    services: Services,
    principal: Principal,
    run: str,
    within: str,
    *,
    problem: str = "",
    reason: str = "",
    verdict: str = "",
) -> Response:
    item, _ = _run(services, principal.project, run, within)
    labels = labels_of_run(services.ledger, item.digest, project=principal.project)
    return page(
        request,
        f"Override {item.tree()['run_id']}",
        Note(problem, kind="bad") if problem else None,
        people_table(labels._replace(labels=())) if labels.overrides else None,
        nav="/label",
        status=422 if problem else 200,
        lead="Your verdict is shown next to the grade and counted. It doesn't change the grade,"
        " and no gate reads it.",
        template="label_override.html",
        run=run,
        within=within,
        rater=rater_of(request, principal),
        reason=reason,
        verdict=verdict,
        can_write="write" in principal.scopes,
    )


@router.post("/label/override")
async def save_override(
    request: Request,
    sent: Mapping[str, str] = SENT,
    principal: Principal = WRITE,
    services: Services = SERVICES,
) -> Response:
    """Store the override, and go back to the run."""
    run, within = sent.get("run", ""), sent.get("in", "")
    rater = rater_of(request, principal)
    if rater is None:
        raise Problem(409, "your name is missing.", fix="Type your name on the form first.")
    item, evaluation = await asyncio.to_thread(_run, services, principal.project, run, within)
    reason, verdict = sent.get("reason", ""), sent.get("verdict", "")
    try:
        label = override_label(
            item, evaluation and evaluation.digest, rater, verdict=verdict, reason=reason
        )
    except UsageError as error:
        return await asyncio.to_thread(
            _form,
            request,
            services,
            principal,
            run,
            within,
            problem=sentence(error),
            reason=reason,
            verdict=verdict,
        )
    await save_label(services, principal, label)
    back = f"/runs/{quote(run, safe='')}" + (f"?in={quote(within, safe='')}" if within else "")
    return RedirectResponse(back, 303)
