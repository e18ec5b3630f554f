"""The page that lists evaluations, the newest first, with its filter. Its address is its state."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.server.auth import READ, Principal
from assay.server.pages.layout import Cursor, PageRoute, RecordList, Text, record_page
from assay.server.state import SERVICES, Services
from assay.services.evaluations import read_brief
from assay.store.drafts import Item
from assay.store.reading import evaluation_tags, seen
from assay.views.blocks import Empty, Field, Table
from assay.views.evaluation import evaluations_list
from assay.views.pieces import address

router = APIRouter(route_class=PageRoute, include_in_schema=False)
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
    return record_page(
        request,
        services,
        project,
        RecordList("evaluation", "Evaluations", "/evaluations", 25),
        _table,
        after=after,
        before=before,
        empty=lambda: Empty(
            "No evaluation is stored in this project yet. Run your workflow or the"
            " example, or import results of another tool:",
            FIRST,
        ),
        query=query,
        filters=filters,
        fields=lambda: _fields(services, project),
    )


def _table(items: Sequence[Item]) -> Table:
    stored = [read_brief(item).evaluation for item in items if item.body is not None]
    return evaluations_list([(item, address("evaluations", item.id)) for item in stored])


def _fields(services: Services, project: str) -> list[Field]:
    database = services.ledger.database
    named = {
        what: list(
            dict.fromkeys(named.id for named in seen(database, project, what, limit=OFFERED))
        )
        for what in ("workflow", "dataset")
    }
    return [
        Field("workflow", "Workflow", choices=named["workflow"]),
        Field("dataset", "Dataset", choices=named["dataset"]),
        Field("label", "Label", choices=evaluation_tags(database, project, "label:")),
    ]
