"""The page that lists evaluations, the newest first, with its filter. Its address is its state."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.archive.evaluations import read_brief
from assay.errors import count
from assay.server.auth import READ, Principal
from assay.server.pages.layout import page
from assay.server.pages.paging import Cursor, Text, listed, ways
from assay.server.pages.routing import PageRoute
from assay.server.state import SERVICES, Services
from assay.store.listing import tags_with
from assay.store.names import seen
from assay.views.blocks import Empty, Field, Filters
from assay.views.evaluations import evaluations_list
from assay.views.pieces import address

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ON_A_PAGE = 25
OFFERED = 200
"""How many names a field offers."""
FIRST = "assay init --example rag && assay run\nassay import results.json"
"""How to get a first evaluation into a ledger."""


@router.get("/evaluations")
def get_evaluations(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    workflow: Text = None,
    dataset: Text = None,
    label: Text = None,
    after: Cursor = None,
    before: Cursor = None,
) -> Response:
    """Evaluations, the newest first."""
    project = principal.project
    query = {
        name: (value or "").strip() or None
        for name, value in (("workflow", workflow), ("dataset", dataset), ("label", label))
    }
    filters = {name: value for name, value in query.items() if value and name != "label"}
    if query["label"]:
        filters["tag"] = f"label:{query['label']}"
    records = listed(
        services, project, "evaluation", filters, after=after, before=before, limit=ON_A_PAGE
    )
    stored = [read_brief(item) for item in records.items if item.body is not None]
    if not records.items and not filters and not after and not before:
        empty = Empty(
            "No evaluation is stored in this project yet. Run your workflow or the"
            " example, or import results of another tool:",
            FIRST,
        )
        return page(request, "Evaluations", empty, nav="/evaluations")
    table = evaluations_list(
        [(one.evaluation, address("evaluations", one.evaluation.id)) for one in stored],
        absent_as="No evaluation matches this filter.",
    )
    tally = services.ledger.count("evaluation", project=project)
    return page(
        request,
        "Evaluations",
        Filters("/evaluations", _fields(services, project), query),
        table,
        ways("evaluations", query, records, what="evaluation", paged=bool(after or before)),
        nav="/evaluations",
        lead=f"{count(tally.n, 'evaluation')} stored, the newest first.",
    )


def _fields(services: Services, project: str) -> list[Field]:
    database = services.ledger.database
    named = {
        what: list(dict.fromkeys(one.id for one in seen(database, project, what, limit=OFFERED)))
        for what in ("workflow", "dataset")
    }
    return [
        Field("workflow", "Workflow", choices=named["workflow"]),
        Field("dataset", "Dataset", choices=named["dataset"]),
        Field("label", "Label", choices=tags_with(database, project, "evaluation", "label:")),
    ]
