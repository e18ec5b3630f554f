"""The page that lists runs, with its filter. Its address is its state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.errors import count
from assay.records.grade import LETTERS
from assay.scoring.gates import GATES
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.layout import Cursor, PageRoute, Text, page
from assay.server.pages.run import COLUMNS, brief_runs, part_of, reasons, rows_of_runs
from assay.server.run_pages import is_within, read_span, run_page
from assay.server.state import SERVICES, Services
from assay.store import reading
from assay.store.reading import seen
from assay.views.blocks import Empty, Field, Filters, Pager, Part, Region, Table
from assay.views.pieces import address

router = APIRouter(route_class=PageRoute, include_in_schema=False)
RunQuery = Mapping[str, str | None]
"""The filters in the address by name; None doesn't filter."""
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
    given = {
        "q": q,
        "workflow": workflow,
        "version": version,
        "dataset": dataset,
        "grade": grade,
        "passed": passed,
        "gate": gate,
        "status": status,
        "tag": tag,
        "from": began,
        "to": ended,
    }
    query = {name: (value or "").strip() or None for name, value in given.items()}
    matches = found_runs(
        services,
        principal.project,
        query,
        lookup.cursor(after or None),
        lookup.cursor(before or None),
    )
    form = Filters("/runs", _fields(services, principal.project), query)
    items: list[dict[str, Any]] = matches["items"]
    if not items and not any(query.values()) and not after and not before:
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
    versions = sorted({workflow.version for workflow in workflows if workflow.version})[:OFFERED]
    return [
        Field("q", "Run id contains", "search"),
        Field(
            "workflow",
            "Workflow",
            choices=list(dict.fromkeys(workflow.id for workflow in workflows)),
        ),
        Field("version", "Version", choices=versions),
        Field(
            "dataset", "Dataset", choices=list(dict.fromkeys(dataset.id for dataset in datasets))
        ),
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
    return f"{stored}{'; the filter applies' if any(query.values()) else ''}, newest first."


def _nothing(more: str | None) -> str:
    if more is None:
        return "No run matches this filter."
    return "None of the runs searched so far matches; there are more."


def _ways(query: RunQuery, matches: Mapping[str, Any], *, paged: bool) -> Part:
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


ON_A_PAGE = 50
LOOKED_AT = 10_000
"""How many ids of runs are searched for one page, if there is a search text."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def found_runs(
    services: Services, project: str, query: RunQuery, after: int | None, before: int | None
) -> dict[str, Any]:
    """A page: the runs after a place in the list, or with `before` those just before it."""
    filters = {
        "workflow": query["workflow"],
        "workflow_version": query["version"],
        "dataset": query["dataset"],
        "tag": query["tag"],
        "status": query["status"],
        "started_from": query["from"],
        "started_before": _until(query["to"]),
        "grade": query["grade"],
        "passed": None if query["passed"] is None else query["passed"] == "yes",
    }
    if query["q"]:
        return _by_text(services, project, query, read_span(filters), after)
    newest_first = before is None
    page = run_page(
        services,
        project,
        filters,
        gate=query["gate"],
        after=after if newest_first else before,
        limit=ON_A_PAGE,
        newest_first=newest_first,
    )
    if newest_first:
        return {
            **page,
            "newer": (
                str(page["items"][0]["seq"]) if after is not None and page["items"] else None
            ),
        }
    items = page["items"][::-1]
    return {
        "items": items,
        "newer": page["next"],
        "next": str(items[-1]["seq"]) if items else None,
    }


def _until(text: str | None) -> str | None:
    """The end of a span: of a day, the day after.

    >>> _until("2026-11-15"), _until("2026-11-15T10:00:00Z"), _until("2026-13-99")
    ('2026-11-16', '2026-11-15T10:00:00Z', '2026-13-99')
    """
    if text is None or not _DAY.fullmatch(text):
        return text
    try:
        return str(date.fromisoformat(text) + timedelta(days=1))
    except (ValueError, OverflowError):
        return text


def _by_text(
    services: Services, project: str, query: RunQuery, span: Mapping[str, str], after: int | None
) -> dict[str, Any]:
    """Runs whose id contains a text, among the next LOOKED_AT, that match the other filters."""
    search = reading.containing(
        services.ledger.database,
        project,
        query["q"] or "",
        after=after,
        look_at=LOOKED_AT,
        limit=ON_A_PAGE,
    )
    newest = brief_runs(services, project, search.digests)
    items = [item for item in newest if _fits(item, query) and is_within(item["started_at"], span)]
    if query["gate"]:
        grades = reasons(services, project, items)
        items = [
            item
            for item in items
            if item["grade"]
            and item["grade"]["digest"] in grades
            and query["gate"] in grades[item["grade"]["digest"]].hard_gate_failures
        ]
    return {
        "items": items,
        "next": None if search.next_cursor is None else str(search.next_cursor),
        "newer": None,
    }


def _fits(item: Mapping[str, Any], query: RunQuery) -> bool:
    grade = item["grade"] or {}
    workflow, dataset = part_of(item, "workflow"), part_of(item, "dataset")
    pairs = (
        (query["workflow"], workflow.get("id")),
        (query["version"], workflow.get("version")),
        (query["dataset"], dataset.get("id")),
        (query["grade"], grade.get("grade")),
        (query["status"], item["status"]),
        (query["passed"], {None: None, True: "yes", False: "no"}[grade.get("passed")]),
    )
    return all(wanted is None or wanted == value for wanted, value in pairs) and (
        query["tag"] is None or query["tag"] in (item["tags"] or ())
    )
