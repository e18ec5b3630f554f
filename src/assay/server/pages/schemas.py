"""Tool schemas: namespaces and selections as they are now, the tree of each, and the history of its
grading entries.

An address names a namespace or selection, of which the newest stored index is shown, or the digest
of a stored index, entry or report. What a page shows is worded in `views.tool_index` and
`views.tool_entry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.errors import AssayError
from assay.records.tool_entry import GradedAnswer, GradeReport, GradingEntry, StoredIndex
from assay.records.typed import convert
from assay.server import lookup
from assay.server.auth import Principal
from assay.server.pages.evidence import block
from assay.server.pages.layout import page
from assay.server.pages.paging import Cursor, Text
from assay.server.pages.routing import READER, PageRoute
from assay.server.problems import Problem
from assay.tools.aging import age_answers
from assay.tools.forms import upgrade
from assay.tools.names import AREAS, FULL, file_stamp, stamp
from assay.tools.node import CHANGED
from assay.views import tool_entry, tool_index, tool_list
from assay.views.blocks import Pager, Section, contents, section
from assay.views.pieces import address
from assay.views.tool_index import OLDER, RowHistory, TreeRow
from assay.views.tool_list import SELECTION, IndexVersion

if TYPE_CHECKING:
    from assay.server.state import Services
    from assay.store.drafts import Item

router = APIRouter(route_class=PageRoute, include_in_schema=False)
LOOKED_AT = 300
"""Stored indexes that are looked through for one page."""
SEARCHED = 2000
"""Stored indexes that are looked through for one name."""
AT_ONCE = 100
REPORTS = 20
REPORTS_LOOKED_AT = 200
MAX_LINKS = 1000
R = TypeVar("R")


class StoredGrading(NamedTuple):
    """A grading entry in the ledger."""

    item: Item
    entry: GradingEntry


def _read(item: Item, kind: type[R]) -> R:
    """The record of an item, or a problem that leads to its bytes."""
    try:
        return msgspec.json.decode(item.body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise Problem(
            422,
            f"this record does not have the form of its kind: {error}.",
            where=item.digest,
            fix=f"The API has it as it is: {address('api', 'v1', 'records', item.digest)}.",
        ) from None


def _version(item: Item) -> IndexVersion:
    return IndexVersion(_read(item, StoredIndex), item.digest, item.created_at)


@router.get("/schemas")
def list_schemas(request: Request, principal: Principal = READER, after: Cursor = None) -> Response:
    """Namespaces and selections, each as its newest index has it."""
    services: Services = request.app.state.services
    place = lookup.cursor(after or None)
    found = services.ledger.find(
        "index", project=principal.project, after=place, limit=LOOKED_AT, newest_first=True
    )
    reports = _reports(services, principal.project) if place is None else []
    if not found.items and place is None and not reports:
        return page(request, "Tool schemas", tool_list.NOTHING_YET, nav="/schemas")
    newest: dict[tuple[str, str], IndexVersion] = {}
    for item in found.items:
        if item.body is not None:
            version = _version(item)
            newest.setdefault((version.index.kind, version.index.name), version)
    versions = [version for _, version in sorted(newest.items())]
    parts: list[Any] = list(tool_list.list_view(versions))
    if reports:
        parts.append(
            section(
                "Reports of the file protocol",
                tool_entry.report_table(reports),
                id="reports",
                hint="The newest; each is the grade of one schema by itself.",
            )
        )
    follows = found.next_cursor is not None
    if follows or place is not None:
        looked = (
            f"Of {len(found.items):,} stored indexes; a namespace on this page may have a newer"
            " one."
        )
        parts.append(
            Pager(
                newest="/schemas" if place is not None else "",
                older=address("schemas", after=str(found.next_cursor)) if follows else "",
                summary=looked
                if place is not None
                else f"Of the last {LOOKED_AT:,} stored indexes.",
                look_further=True,
            )
        )
    lead = tool_list.lead(versions)
    return page(request, "Tool schemas", *parts, nav="/schemas", lead=lead)


def _reports(services: Services, project: str) -> list[tuple[GradeReport, str]]:
    """The newest reports of the file protocol."""
    found = services.ledger.find(
        "entry", project=project, limit=REPORTS_LOOKED_AT, newest_first=True
    )
    return [
        (_read(item, GradeReport), item.digest)
        for item in found.items
        if item.body is not None and _is_report(item)
    ][:REPORTS]


def _is_report(item: Item) -> bool:
    return b'"dimensions"' in (item.body or b"") and "dimensions" in item.tree()


@router.get("/schemas/{name:path}")
def show_schema(
    request: Request, name: str, principal: Principal = READER, kind: Text = None
) -> Response:
    """A namespace, a selection, or one stored index, entry or report."""
    services: Services = request.app.state.services
    project = principal.project
    if not lookup.DIGEST.fullmatch(name):
        item = _newest(services, project, name, selection=kind == SELECTION)
        return _index_page(request, services, project, item, newest=True)
    item = lookup.record(services, project, None, name)
    if item.kind == "index":
        return _index_page(request, services, project, item, newest=False)
    if item.kind != "entry":
        raise lookup.absent("tool schema", name)
    return (
        _report_page(request, item)
        if _is_report(item)
        else _entry_page(request, services, project, item)
    )


# --- one namespace or selection


def _versions(services: Services, project: str) -> Iterator[tuple[Item, IndexVersion]]:
    """The stored indexes, the newest first."""
    cursor: int | None = None
    for _ in range(0, SEARCHED, AT_ONCE):
        found = services.ledger.find(
            "index", project=project, after=cursor, limit=AT_ONCE, newest_first=True
        )
        for item in found.items:
            if item.body is not None:
                yield item, _version(item)
        cursor = found.next_cursor
        if cursor is None:
            return


def _newest(services: Services, project: str, name: str, *, selection: bool) -> Item:
    """The newest index of a name: of a namespace, unless a selection is asked for or there is no
    other.
    """
    other: Item | None = None
    for item, version in _versions(services, project):
        if version.index.name == name:
            if (version.index.kind == SELECTION) == selection:
                return item
            other = other or (None if selection else item)
    if other is not None:
        return other
    raise Problem(
        404,
        f"there is no namespace or selection {name[:100]!r} among the stored indexes of this"
        " project.",
        where=name[:100],
        fix=(
            "Store it with `assay tools index NAME --store`, or look for it in the list of tool"
            " schemas."
        ),
    )


def _index_page(
    request: Request, services: Services, project: str, item: Item, *, newest: bool
) -> Response:
    version = _version(item)
    index = version.index
    entries = _entries_of(services, project, item)
    now = datetime.now(UTC)
    others: list[IndexVersion] = []
    newer = False
    for other, found in _versions(services, project):
        same = (found.index.kind, found.index.name) == (index.kind, index.name)
        if same and other.digest != item.digest:
            others.append(found)
            newer = newer or other.seq > item.seq
        if len(others) > OLDER:
            break
    policies = [
        entry.id
        for entry in services.shelf.entries("policies")
        if getattr(services.shelf.load("policies", entry.id), "family", None) == "flowmcp"
    ]
    body = tool_index.index_view(
        version,
        [(row, _row_history(row, entries, now)) for row in tool_index.rows_in(index)],
        [(stored.entry, stored.item.digest) for stored in entries],
        others,
        newer=newer and not newest,
        policies=policies,
        author=item.author,
    )
    title = f"{index.kind.capitalize()} {index.name}"[:200]
    first = next(place for place, part in enumerate(body) if isinstance(part, Section))
    return page(request, title, *body[:first], contents(body), *body[first:], nav="/schemas")


def _entries_of(services: Services, project: str, index: Item) -> list[StoredGrading]:
    """The entries that an index was made from, the newest first."""
    links = services.ledger.links_of(
        index.digest, project=project, relation="evidence_of", limit=MAX_LINKS
    )
    found = services.ledger.get_many(
        [link.source for link in links if link.source is not None and link.target == index.digest],
        project=project,
    )
    entries = [
        StoredGrading(item, _entry(item))
        for item in found.values()
        if item.kind == "entry" and item.body is not None
    ]
    return sorted(
        entries,
        key=lambda stored: (stored.entry.grading_id.partition("--")[2], stored.item.seq),
        reverse=True,
    )


def _entry(item: Item) -> GradingEntry:
    """An entry, also of the older form of the reference program."""
    try:
        return convert(item.tree(), GradingEntry)
    except msgspec.ValidationError:
        pass
    try:
        return convert(upgrade(item.tree())[0], GradingEntry)
    except (AssayError, ValueError, TypeError):
        return _read(item, GradingEntry)  # for its error


def _row_history(row: TreeRow, entries: Sequence[StoredGrading], now: datetime) -> RowHistory:
    """The gradings of a node: those of its areas, and the one it goes by."""
    own = [
        stored
        for stored in entries
        if stored.entry.area in row.areas
        and row.subject in (None, stored.entry.schema_id)
        and row.skill in (None, stored.entry.skill_id)
    ]
    tier = AREAS[row.areas[0]].tier if row.areas else None
    changed = row.node is not None and row.node.reason == CHANGED
    deciding = _deciding(row, own)
    if deciding is None:
        return RowHistory(tier, changed=changed)
    return RowHistory(
        tier,
        len(own),
        deciding.entry,
        deciding.item.digest,
        changed,
        _old_answers(deciding.entry.gradings, now),
    )


def _deciding(row: TreeRow, own: Sequence[StoredGrading]) -> StoredGrading | None:
    """The entry that a node goes by: the one its reference names, else its newest full one."""
    ref, bound = getattr(row.node, "ref", None), getattr(row.node, "bound_to", None)
    moment = file_stamp((ref or "").rpartition("/")[2])
    wanted = f"{bound}--{stamp(moment)}" if moment is not None else None
    full = [stored for stored in own if stored.entry.grading_mode == FULL]
    return next(
        (stored for stored in full if stored.entry.grading_id == wanted), full[0] if full else None
    )


def _old_answers(answers: Sequence[GradedAnswer], now: datetime) -> list[str] | None:
    try:
        return age_answers(answers, now)[1]
    except (AssayError, ValueError, TypeError):
        return None


# --- one entry, one report


def _entry_page(request: Request, services: Services, project: str, item: Item) -> Response:
    entry = _entry(item)
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
    report = _read(item, GradeReport)
    whole = address("api", "v1", "records", item.digest)
    findings = [block("What was found", report.findings, whole)] if report.findings else []
    record = _record_section(report, tool_entry.REPORT_KEYS, item)
    title = f"Report on {report.schema_id}"[:200]
    return page(request, title, *tool_entry.report_view(report, record, findings), nav="/schemas")


def _record_section(record: GradingEntry | GradeReport, keys: Sequence[str], item: Item) -> Any:
    return tool_entry.record_section(
        record, keys, own=item.digest, stored=item.created_at, author=item.author
    )
