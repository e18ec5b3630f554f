"""Tools: all of them in one list, the page of each, the schemas and servers they belong to, and the
namespaces and selections with the history of their grading entries.

An address names a namespace, a selection or a schema, whose newest record is shown; with `tool`,
one of its tools; or the digest of a stored index, check, entry or report. The texts of the pages
are in `views.tool_list`, `tool_page`, `tool_index` and `tool_entry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from assay.records.tool_entry import GradeReport, GradingEntry, StoredIndex
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages import tool_records as records
from assay.server.pages.layout import page
from assay.server.pages.paging import Text
from assay.server.pages.routing import PageRoute
from assay.server.problems import Problem
from assay.server.state import SERVICES, Services
from assay.store.drafts import Item
from assay.families.tools.legibility_score import scale
from assay.views import tool_check_page, tool_entry, tool_index, tool_list, tool_page
from assay.views.blocks import Paragraph, Section, contents, section
from assay.views.tool_index import OLDER
from assay.views.tool_list import SELECTION, IndexVersion
from assay.views.tool_page import StoredCheck
from assay.views.tool_rows import ToolQuery, ToolRow, tool_rows

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Start = Annotated[int, Query(ge=0, le=1_000_000)]


@router.get("/schemas")
def list_schemas(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    q: Text = None,
    of: Text = None,
    state: Text = None,
    sort: Text = None,
    order: Text = None,
    start: Start = 0,
) -> Response:
    """Every tool in a row; then schemas, namespaces and selections."""
    project = principal.project
    versions = records.newest_versions(services, project)
    checks = records.newest_checks(services, project)
    reports = records.reports(services, project)
    if not versions and not checks and not reports:
        return page(request, "Tools", tool_list.NOTHING_YET, nav="/schemas")
    rows = _rows([version.index for version in versions], checks)
    query = ToolQuery(*((value or "").strip() for value in (q, of, state, sort, order)))
    n = f"{records.SEARCHED:,}"
    searched = records.is_searched(services, project)
    return page(
        request,
        "Tools",
        *(tool_list.tools_view(rows, query, start) if rows else []),
        tool_list.schemas_view(checks) if checks else None,
        *tool_list.list_view(versions),
        section(
            "Reports of the file protocol",
            tool_entry.report_table(reports),
            id="reports",
            hint="The newest; each is the grade of one schema by itself.",
        )
        if reports
        else None,
        None
        if searched
        else Paragraph(f"Only the newest {n} indexes and checks are searched.", "hint"),
        nav="/schemas",
        lead=tool_list.lead(rows) if rows else "",
    )


def _rows(indexes: Sequence[StoredIndex], checks: Sequence[StoredCheck]) -> list[ToolRow]:
    return tool_rows(
        [index for index in indexes if index.kind != SELECTION],
        [checked.check for checked in checks],
    )


@router.get("/schemas/{name:path}")
def show_schema(
    request: Request,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    kind: Text = None,
    tool: Text = None,
) -> Response:
    """A tool, a schema, a namespace, a selection, or one stored index, check, entry or report."""
    project = principal.project
    if not lookup.DIGEST.fullmatch(name):
        return _named_page(request, services, project, name, kind=kind, tool=tool)
    item = lookup.record(services, project, None, name)
    if item.kind == "index":
        return _index_page(request, services, project, item, newest=False)
    if item.kind == "check":
        return _check_page(request, services, project, records.check_of(item))
    if item.kind != "entry":
        raise lookup.absent("tool schema", name)
    return (
        _report_page(request, item)
        if records.is_report(item)
        else _entry_page(request, services, project, item)
    )


def _named_page(
    request: Request,
    services: Services,
    project: str,
    name: str,
    *,
    kind: str | None,
    tool: str | None,
) -> Response:
    if tool:
        return _tool_page(request, services, project, name, tool)
    item = records.newest_index(services, project, name, selection=kind == SELECTION)
    if item is not None:
        return _index_page(request, services, project, item, newest=True)
    checks = records.checks_of(services, project, name)
    if checks:
        return _check_page(request, services, project, checks[0])
    raise Problem(
        404,
        f"there is no schema, namespace or selection {name[:100]!r} among what is stored in this"
        " project.",
        where=name[:100],
        fix="Store it with `assay tools check PATH --store`, or look for it in the list of tools.",
    )


# --- one tool, one schema


def _tool_page(
    request: Request, services: Services, project: str, name: str, tool: str
) -> Response:
    namespace = name.rpartition("/")[0]
    checks = records.checks_of(services, project, name)
    index = records.newest_index(services, project, namespace)
    indexes = [records.version_of(index).index] if index is not None else []
    rows = [row for row in _rows(indexes, checks[:1]) if (row.schema_id, row.name) == (name, tool)]
    if not rows:
        raise Problem(
            404,
            f"{name[:100]!r} has no tool {tool[:100]!r} among what is stored in this project.",
            where=tool[:100],
            fix="Look for it in the list of tools.",
        )
    entries = records.entries_of(services, project, index) if index is not None else []
    subject = f"{namespace}.{tool}"
    parts = tool_page.tool_parts(
        rows[0],
        checks[0] if rows[0].tool is not None else None,
        entries=[
            (stored.entry, stored.item.digest)
            for stored in entries
            if (stored.entry.area, stored.entry.schema_id) == ("single-test", subject)
        ],
        past=checks,
        scale=scale(),
    )
    return page(request, f"Tool {tool}"[:200], *parts, nav="/schemas")


def _check_page(
    request: Request, services: Services, project: str, stored: StoredCheck
) -> Response:
    check = stored.check
    past = records.checks_of(services, project, check.schema_id)
    index = records.newest_index(services, project, check.namespace)
    parts = tool_check_page.check_parts(
        stored,
        past=past,
        newer=bool(past) and past[0].digest != stored.digest,
        scale=scale(),
        namespace=records.version_of(index).href if index is not None else "",
    )
    title = f"{'Server' if check.kind == 'mcp' else 'Schema'} {check.schema_id}"[:200]
    return page(request, title, *parts, nav="/schemas")


# --- one namespace or selection


def _index_page(
    request: Request, services: Services, project: str, item: Item, *, newest: bool
) -> Response:
    version = records.version_of(item)
    index = version.index
    entries = records.entries_of(services, project, item)
    now = datetime.now(UTC)
    others: list[IndexVersion] = []
    newer = False
    for other, other_version in records.versions(services, project):
        same = (other_version.index.kind, other_version.index.name) == (index.kind, index.name)
        if same and other.digest != item.digest:
            others.append(other_version)
            newer = newer or other.seq > item.seq
        if len(others) > OLDER:
            break
    policies = [
        entry.id
        for entry in services.shelf.entries("policies")
        if getattr(services.shelf.load("policies", entry), "family", None) == "flowmcp"
    ]
    body = tool_index.index_view(
        version,
        [(row, records.row_history(row, entries, now)) for row in tool_index.rows_in(index)],
        [(stored.entry, stored.item.digest) for stored in entries],
        others,
        newer=newer and not newest,
        policies=policies,
        author=item.author,
    )
    title = f"{index.kind.capitalize()} {index.name}"[:200]
    first = next(place for place, part in enumerate(body) if isinstance(part, Section))
    return page(request, title, *body[:first], contents(body), *body[first:], nav="/schemas")


# --- one entry, one report


def _entry_page(request: Request, services: Services, project: str, item: Item) -> Response:
    entry = records.entry_of(item)
    links = [
        (
            link.relation,
            link.source == item.digest,
            link.target if link.source == item.digest else link.source,
        )
        for link in services.ledger.links_of(
            item.digest, project=project, limit=tool_entry.MAX_ROWS
        )
        if link.source is not None
    ]
    record = _record_section(entry, tool_entry.ENTRY_KEYS, item)
    title = f"Grading of {tool_entry.subject(entry)}"[:200]
    return page(request, title, *tool_entry.entry_view(entry, record, links), nav="/schemas")


def _report_page(request: Request, item: Item) -> Response:
    report = records.read(item, GradeReport)
    record = _record_section(report, tool_entry.REPORT_KEYS, item)
    title = f"Report on {report.schema_id}"[:200]
    return page(request, title, *tool_entry.report_view(report, record), nav="/schemas")


def _record_section(record: GradingEntry | GradeReport, keys: Sequence[str], item: Item) -> Any:
    return tool_entry.record_section(
        record, keys, own=item.digest, stored=item.created_at, author=item.author
    )
