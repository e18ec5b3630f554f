"""The page of an evaluation. Its address is its state: filters, search, order and page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from assay.records.samples import SampleQuery, count_samples, page_of, read_query
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.compare import BASELINE
from assay.server.pages.decisions import read_brief
from assay.server.pages.layout import PageRoute, page
from assay.server.routing import reads
from assay.server.served import served
from assay.server.state import SERVICES, Services
from assay.services.evaluations import LATEST, StoredEvaluation
from assay.services.samples import SampleView, policies_of, view_samples, with_texts
from assay.services.stored_sides import evidence_of_decision
from assay.views.evaluation import import_notes, unchecked, versioned
from assay.views.evaluation_page import (
    Reference,
    evaluation_figures,
    evaluation_lead,
    samples_region,
)
from assay.views.pieces import address, link, listed, verdict
from assay.views.sample_table import SampleLinks, criterion_columns

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/evaluations/{name}", openapi_extra=reads(*SampleQuery.__struct_fields__))
def get_evaluation(
    request: Request,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    criteria: Annotated[int, Query(ge=1, le=10_000)] = 1,
) -> Response:
    """An evaluation with its samples, by its name, id or digest, or as `latest`."""
    project = principal.project
    stored = lookup.evaluation(services, project, name)
    evaluation = stored.evaluation
    if name.startswith(LATEST) or "~" in name:
        # People share the address of a view, and tomorrow `latest` is another evaluation.
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(address("evaluations", evaluation.id) + query, 303)
    view_query = read_query(request.query_params.getlist)
    view = view_samples(services.ledger, stored, view_query, project=project)
    counts = count_samples(view.rows, view.baseline, missing=len(view.missing))
    shown = page_of(view.chosen, view_query.page)
    if not view_query.needs_texts:
        shown = shown._replace(rows=with_texts(services.ledger, shown.rows, project=project))
    links = SampleLinks(name, criteria)
    region = samples_region(
        shown,
        view_query,
        counts,
        links,
        criterion_columns(view.rows),
        view.baseline,
        can_compare=view.compared is not None and not view.incomparable,
    )
    return page(
        request,
        evaluation.name,
        *evaluation_figures(
            evaluation.totals,
            counts,
            _reference(stored, view, links),
            _decision(services, project, stored),
            listed(
                [
                    family.of_evaluation(services, project, stored, view)
                    for family in served()
                    if family.of_evaluation is not None
                ],
                " ",
            ),
            unchecked=unchecked(evaluation.settings),
            noted=import_notes(evaluation.settings),
        ),
        region,
        nav="/evaluations",
        lead=evaluation_lead(evaluation, policies_of(view.rows)),
    )


def _reference(stored: StoredEvaluation, view: SampleView, links: SampleLinks) -> Reference | None:
    """What the evaluation is compared with."""
    compared = view.compared
    if compared is None:
        return None
    named = f"the baseline {compared.baseline}"
    name = named if compared.baseline else "an earlier evaluation"
    before = None if compared.evaluation is None else compared.evaluation.evaluation
    earlier = f"{BASELINE}{compared.baseline}" if before is None else before.id
    sides = (earlier, stored.evaluation.id)
    reference = Reference(
        name,
        compare=address("compare", of=sides),
        by_change=links.to(SampleQuery(sort="change")),
        missing=address("compare", of=sides, show="missing"),
        incomparable=view.incomparable,
    )
    if before is None:
        return reference
    return reference._replace(
        text=f"{name}, {before.name} ({versioned(before.workflow)})",
        href=address("evaluations", before.id),
    )


def _decision(services: Services, project: str, stored: StoredEvaluation) -> str:
    """The newest decision on all of these runs as candidates, as a link; empty if there is none. A
    decision on some of them says nothing about the others.
    """
    ledger, runs = services.ledger, [run.digest for run in stored.evaluation.runs]
    links = ledger.links_of_many(runs[:1], project=project)
    for decided in reversed(
        [stored_link.target for stored_link in links if stored_link.relation == "candidate_of"]
    ):
        item = ledger.get(decided, project=project)
        if item is None or item.body is None or item.kind != "decision":
            continue
        evidence = evidence_of_decision(ledger, decided, project=project)
        if set(runs) <= set(evidence.candidate):
            outcome = read_brief(item.checked()).outcome
            return link(verdict(outcome), address("decisions", decided))
    return ""
