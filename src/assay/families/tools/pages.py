"""The pages of tool schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from fastapi import APIRouter, Query, Request
from msgspec import structs
from starlette.responses import Response

from assay.errors import AssayError
from assay.families.tools import views
from assay.families.tools.aging import age_answers
from assay.families.tools.entry import upgrade
from assay.families.tools.legibility_score import scale
from assay.families.tools.names import AREAS, FULL, file_stamp, stamp
from assay.families.tools.records import (
    SCHEMA_GATE,
    GradedAnswer,
    GradeReport,
    GradingEntry,
    StoredIndex,
    ToolCheck,
    ToolGate,
)
from assay.families.tools.views import (
    MAX_HISTORY,
    OLDER,
    SELECTION,
    IndexVersion,
    RowHistory,
    StoredCheck,
    ToolQuery,
    ToolRow,
    TreeRow,
    first_reason,
    gate_outcome,
    gate_title,
    gate_view,
    tool_rows,
)
from assay.records.typed import convert
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages.gate_parts import rests_on
from assay.server.pages.layout import PageRoute, Text, page
from assay.server.problems import Problem
from assay.server.served import GatePage, Line, Served
from assay.server.state import SERVICES, Services
from assay.store.drafts import Item
from assay.views.blocks import Paragraph, Part, Section, contents, section
from assay.views.pieces import address

SEARCHED = 2000
"""How many stored indexes or checks are searched for one page."""
AT_ONCE = 100
REPORTS = 20
REPORTS_LOOKED_AT = 200
MAX_LINKS = 1000
R = TypeVar("R")


class _CheckName(msgspec.Struct, rename="camel"):
    schema_id: str = ""


_name_of = msgspec.json.Decoder(_CheckName).decode


class StoredGrading(NamedTuple):
    """A grading entry in the ledger."""

    item: Item
    entry: GradingEntry


def read(item: Item, kind: type[R]) -> R:
    """The record of an item, or a problem that leads to its bytes."""
    try:
        return msgspec.json.decode(item.checked(), type=kind)
    except msgspec.ValidationError as error:
        raise Problem(
            422,
            f"this record does not have the form of its kind: {error}.",
            where=item.digest,
            fix=f"The API has it as it is: {address('api', 'v1', 'records', item.digest)}.",
        ) from None


def version_of(item: Item) -> IndexVersion:
    """A stored index."""
    return IndexVersion(read(item, StoredIndex), item.digest, item.created_at)


def check_of(item: Item) -> StoredCheck:
    """A stored check."""
    return StoredCheck(read(item, ToolCheck), item.digest, item.created_at, item.author)


def _newest_first(services: Services, project: str, kind: str) -> Iterator[Item]:
    items = services.ledger.each(kind, project=project, at_once=AT_ONCE, newest_first=True)
    return islice(items, SEARCHED)


def versions(services: Services, project: str) -> Iterator[tuple[Item, IndexVersion]]:
    """The stored indexes, the newest first."""
    for item in _newest_first(services, project, "index"):
        yield item, version_of(item)


def newest_versions(services: Services, project: str) -> list[IndexVersion]:
    """The newest index of each namespace and selection, by name."""
    newest: dict[tuple[str, str], IndexVersion] = {}
    for _, version in versions(services, project):
        newest.setdefault((version.index.kind, version.index.name), version)
    return [version for _, version in sorted(newest.items())]


def checks_of(services: Services, project: str, schema_id: str) -> list[StoredCheck]:
    """The stored checks of a schema or server, the newest first."""
    items = _newest_first(services, project, "check")
    own = (item for item in items if _name_of(item.body or b"{}").schema_id == schema_id)
    return [check_of(item) for item in islice(own, MAX_HISTORY)]


def is_searched(services: Services, project: str) -> bool:
    """Whether every stored index and check is searched."""
    counts = [services.ledger.count(kind, project=project).n for kind in ("index", "check")]
    return max(counts) <= SEARCHED


def newest_checks(services: Services, project: str) -> list[StoredCheck]:
    """The newest check of each schema or server."""
    newest: dict[str, Item] = {}
    for item in _newest_first(services, project, "check"):
        newest.setdefault(_name_of(item.body or b"{}").schema_id, item)
    return list(map(check_of, newest.values()))


def newest_index(
    services: Services, project: str, name: str, *, selection: bool = False
) -> Item | None:
    """The newest index with a name: of a namespace, or of a selection if that is requested or no
    namespace has the name.
    """
    other: Item | None = None
    for item, version in versions(services, project):
        if version.index.name == name:
            if (version.index.kind == SELECTION) == selection:
                return item
            other = other or (None if selection else item)
    return other


def stored_reports(services: Services, project: str) -> list[tuple[GradeReport, str]]:
    """The newest reports of the file protocol."""
    page = services.ledger.find(
        "entry", project=project, limit=REPORTS_LOOKED_AT, newest_first=True
    )
    return [
        (read(item, GradeReport), item.digest)
        for item in page.items
        if item.body is not None and is_report(item)
    ][:REPORTS]


def is_report(item: Item) -> bool:
    """Whether an entry is a report of the file protocol."""
    return b'"dimensions"' in item.checked() and "dimensions" in item.tree()


def entries_of(services: Services, project: str, index: Item) -> list[StoredGrading]:
    """The entries that an index was made from, the newest first."""
    sources = services.ledger.made_of(index.digest, project=project)
    items = services.ledger.get_many(sources[:MAX_LINKS], project=project)
    entries = [
        StoredGrading(item, entry_of(item))
        for item in items.values()
        if item.kind == "entry" and item.body is not None
    ]
    return sorted(
        entries,
        key=lambda stored: (stored.entry.grading_id.partition("--")[2], stored.item.seq),
        reverse=True,
    )


def entry_of(item: Item) -> GradingEntry:
    """An entry, possibly in the older form of the reference program."""
    try:
        return convert(item.tree(), GradingEntry)
    except msgspec.ValidationError:
        pass
    try:
        return convert(upgrade(item.tree()), GradingEntry)
    except (AssayError, ValueError, TypeError):
        return read(item, GradingEntry)  # for its error


def row_history(row: TreeRow, entries: Sequence[StoredGrading], now: datetime) -> RowHistory:
    """The gradings of a node: those of its areas, and the one that decides its grade."""
    own = [
        stored
        for stored in entries
        if stored.entry.area in row.areas
        and row.subject in (None, stored.entry.schema_id)
        and row.skill in (None, stored.entry.skill_id)
    ]
    tier = AREAS[row.areas[0]].tier if row.areas else None
    changed = row.node is not None and row.node.changed
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
    """The entry that decides a node's grade: the one it references, else its newest full one."""
    ref, bound = getattr(row.node, "ref", None), getattr(row.node, "bound_to", None)
    moment = file_stamp((ref or "").rpartition("/")[2])
    wanted = f"{bound}--{stamp(moment)}" if moment is not None else None
    full = [stored for stored in own if stored.entry.grading_mode == FULL]
    return next(
        (stored for stored in full if stored.entry.grading_id == wanted), full[0] if full else None
    )


def _old_answers(answers: Sequence[GradedAnswer], now: datetime) -> dict[str, str] | None:
    """The questions whose answers are too old, and why; None if their age is unknown."""
    old: dict[str, str] = {}
    try:
        for answer in answers:
            for note in age_answers([answer], now)[1]:
                old.setdefault(answer.question_id, note)
    except (AssayError, ValueError, TypeError):
        return None
    return old


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
    versions = newest_versions(services, project)
    checks = newest_checks(services, project)
    reports = stored_reports(services, project)
    if not versions and not checks and not reports:
        return page(request, "Tools", views.NOTHING_YET, nav="/schemas")
    rows = _rows([version.index for version in versions], checks)
    query = ToolQuery(*((value or "").strip() for value in (q, of, state, sort, order)))
    n = f"{SEARCHED:,}"
    searched = is_searched(services, project)
    return page(
        request,
        "Tools",
        *(views.tools_view(rows, query, start) if rows else []),
        views.schemas_view(checks) if checks else None,
        *views.list_view(versions),
        section(
            "Reports of the file protocol",
            views.report_table(reports),
            id="reports",
            hint="The newest; each is the grade of one schema by itself.",
        )
        if reports
        else None,
        None
        if searched
        else Paragraph(f"Only the newest {n} indexes and checks are searched.", "hint"),
        nav="/schemas",
        lead=views.lead(rows) if rows else "",
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
        return _check_page(request, services, project, check_of(item))
    if item.kind != "entry":
        raise lookup.absent("tool schema", name)
    return (
        _report_page(request, item)
        if is_report(item)
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
    item = newest_index(services, project, name, selection=kind == SELECTION)
    if item is not None:
        return _index_page(request, services, project, item, newest=True)
    checks = checks_of(services, project, name)
    if checks:
        return _check_page(request, services, project, checks[0])
    raise Problem(
        404,
        f"there is no schema, namespace or selection {name[:100]!r} among what is stored in this"
        " project.",
        where=name[:100],
        fix="Store it with `assay tools check PATH --store`, or look for it in the list of tools.",
    )


def _tool_page(
    request: Request, services: Services, project: str, name: str, tool: str
) -> Response:
    namespace = name.rpartition("/")[0]
    checks = checks_of(services, project, name)
    index = newest_index(services, project, namespace)
    indexes = [version_of(index).index] if index is not None else []
    rows = [row for row in _rows(indexes, checks[:1]) if (row.schema_id, row.name) == (name, tool)]
    if not rows:
        raise Problem(
            404,
            f"{name[:100]!r} has no tool {tool[:100]!r} among what is stored in this project.",
            where=tool[:100],
            fix="Look for it in the list of tools.",
        )
    entries = entries_of(services, project, index) if index is not None else []
    subject = f"{namespace}.{tool}"
    parts = views.tool_parts(
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
    past = checks_of(services, project, check.schema_id)
    index = newest_index(services, project, check.namespace)
    parts = views.check_parts(
        stored,
        past=past,
        newer=bool(past) and past[0].digest != stored.digest,
        scale=scale(),
        namespace=version_of(index).href if index is not None else "",
    )
    title = f"{'Server' if check.kind == 'mcp' else 'Schema'} {check.schema_id}"[:200]
    return page(request, title, *parts, nav="/schemas")


def _index_page(
    request: Request, services: Services, project: str, item: Item, *, newest: bool
) -> Response:
    version = version_of(item)
    index = version.index
    entries = entries_of(services, project, item)
    now = datetime.now(UTC)
    others: list[IndexVersion] = []
    newer = False
    for other, other_version in versions(services, project):
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
    body = views.index_view(
        version,
        [(row, row_history(row, entries, now)) for row in views.rows_in(index)],
        [(stored.entry, stored.item.digest) for stored in entries],
        others,
        newer=newer and not newest,
        policies=policies,
        author=item.author,
    )
    title = f"{index.kind.capitalize()} {index.name}"[:200]
    first = next(place for place, part in enumerate(body) if isinstance(part, Section))
    return page(request, title, *body[:first], contents(body), *body[first:], nav="/schemas")


def _entry_page(request: Request, services: Services, project: str, item: Item) -> Response:
    entry = entry_of(item)
    links = [
        (
            link.relation,
            link.source == item.digest,
            link.target if link.source == item.digest else link.source,
        )
        for link in services.ledger.links_of(item.digest, project=project, limit=views.MAX_ROWS)
        if link.source is not None
    ]
    record = _record_section(entry, views.ENTRY_KEYS, item)
    title = f"Grading of {views.subject(entry)}"[:200]
    return page(request, title, *views.entry_view(entry, record, links), nav="/schemas")


def _report_page(request: Request, item: Item) -> Response:
    report = read(item, GradeReport)
    record = _record_section(report, views.REPORT_KEYS, item)
    title = f"Report on {report.schema_id}"[:200]
    return page(request, title, *views.report_view(report, record), nav="/schemas")


def _record_section(record: GradingEntry | GradeReport, keys: Sequence[str], item: Item) -> Any:
    return views.record_section(
        record, keys, own=item.digest, stored=item.created_at, author=item.author
    )


class _GateBrief(msgspec.Struct):
    passed: Any = None
    results: Any = None


_read_gate = msgspec.json.Decoder(_GateBrief).decode


def _gate_line(body: bytes) -> Line:
    gate = convert(structs.asdict(_read_gate(body)), ToolGate)
    return Line(gate_title(gate), gate_outcome(gate), first_reason(gate), "tool schemas")


def _gate_page(
    services: Services, project: str, item: Item, decision: dict[str, Any]
) -> list[Part]:
    """The production gate: each subject with its rules."""
    return [
        *gate_view(convert(decision, ToolGate)),
        rests_on(services, project, item, "schemas", decision),
    ]


SERVED = Served(
    pages=(router,),
    menu={"/schemas": "Tools"},
    gates={SCHEMA_GATE: GatePage("tool schemas", "The last tool gate", _gate_line, _gate_page)},
)
