"""The page that lists runs, with its filter. Its address is its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.errors import count
from assay.records.grade import LETTERS
from assay.scoring.gates import GATES
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.layout import page
from assay.server.pages.paging import Cursor, Text
from assay.server.pages.routing import PageRoute
from assay.server.pages.run_rows import COLUMNS, rows_of_runs
from assay.server.pages.run_search import ON_A_PAGE, RunQuery, found_runs
from assay.server.state import SERVICES, Services
from assay.store.names import seen
from assay.views.blocks import Empty, Field, Filters, Pager, Part, Region, Table
from assay.views.pieces import address

router = APIRouter(route_class=PageRoute, include_in_schema=False)
OFFERED = 200
"""How many names of workflows and datasets a field offers."""
STATUSES = ("success", "failed", "error", "timeout", "cancelled")
POST = "curl -d @run.json -H 'Content-Type: application/json' http://127.0.0.1:8321/api/v1/runs"
FIRST = f"assay run\n{POST}"
"""How to get a first run into a ledger."""


@router.get("/runs")
def list_runs(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    q: Text = None,
    workflow: Text = None,
    version: Text = None,
    dataset: Text = None,
    grade: Text = None,
    passed: Text = None,
    gate: Text = None,
    status: Text = None,
    tag: Text = None,
    began: Annotated[str | None, Query(alias="from", max_length=40)] = None,
    ended: Annotated[str | None, Query(alias="to", max_length=40)] = None,
    after: Cursor = None,
    before: Cursor = None,
) -> Response:
    """Runs, the newest first."""
    query = RunQuery(
        *(
            (one or "").strip() or None
            for one in (
                q,
                workflow,
                version,
                dataset,
                grade,
                passed,
                gate,
                status,
                tag,
                began,
                ended,
            )
        )
    )
    matches = found_runs(
        services,
        principal.project,
        query,
        lookup.cursor(after or None),
        lookup.cursor(before or None),
    )
    form = Filters("/runs", _fields(services, principal.project), query.query())
    items: list[dict[str, Any]] = matches["items"]
    if not items and not any(query) and not after and not before:
        return page(
            request,
            "Runs",
            Empty("This project has no runs yet. Run a workflow, or send runs to the API:", FIRST),
            nav="/runs",
        )
    rows = Table(
        "Runs, the newest first",
        COLUMNS,
        rows_of_runs(services, principal.project, items),
        kind="stack sheet runs",
        absent=_nothing(matches["next"]),
    )
    ways = _ways(query, matches, paged=bool(after or before))
    return page(
        request,
        "Runs",
        Region("list", [form, rows, ways]),
        nav="/runs",
        lead=_lead(services, principal.project, query),
    )


def _fields(services: Services, project: str) -> list[Field]:
    workflows = seen(services.ledger.database, project, "workflow", limit=OFFERED)
    datasets = seen(services.ledger.database, project, "dataset", limit=OFFERED)
    versions = sorted({one.version for one in workflows if one.version})[:OFFERED]
    return [
        Field("q", "Run id contains", "search"),
        Field("workflow", "Workflow", choices=list(dict.fromkeys(one.id for one in workflows))),
        Field("version", "Version", choices=versions),
        Field("dataset", "Dataset", choices=list(dict.fromkeys(one.id for one in datasets))),
        Field("grade", "Grade", "select", LETTERS),
        Field("passed", "Verdict", "select", (("yes", "passed"), ("no", "not passed"))),
        Field("gate", "Failed gate", choices=list(GATES)),
        Field("status", "Run status", "select", STATUSES),
        Field("tag", "Tag"),
        Field("from", "Started from", "date"),
        Field("to", "Started until", "date"),
    ]


def _lead(services: Services, project: str, query: RunQuery) -> str:
    stored = f"{count(services.ledger.count('run', project=project).n, 'run')} stored"
    return f"{stored}{'; the filter applies' if any(query) else ''}, newest first."


def _nothing(more: str | None) -> str:
    if more is None:
        return "No run matches this filter."
    return "None of the runs searched so far matches; there are more."


def _ways(search: RunQuery, matches: Mapping[str, Any], *, paged: bool) -> Part:
    query = search.query()
    items = matches["items"]
    summary = f"{count(len(items), 'run')} on this page" if items else ""
    short_page = matches["next"] is not None and len(items) < ON_A_PAGE
    if short_page:
        summary = f"{summary or 'No run on this page'}; older runs may match"
    return Pager(
        newest=address("runs", **query) if paged else "",
        newer=address("runs", **query, before=matches["newer"]) if matches["newer"] else "",
        older=address("runs", **query, after=matches["next"]) if matches["next"] else "",
        summary=f"{summary}." if summary else "",
        look_further=short_page,
    )
