"""Tool schemas: namespaces and selections as they stand, the tree of each, its blockers and what is
stale, and the history of its grading entries.

An address names a namespace or selection, of which the newest stored index is shown, or the digest
of a stored index, entry or report.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.server import lookup
from assay.server.auth import Principal
from assay.server.pages import schema_entries
from assay.server.pages.decision_parts import contents
from assay.server.pages.layout import (
    Column,
    address,
    clip,
    empty,
    facts,
    link,
    note,
    page,
    pager,
    section,
    short,
    table,
    when,
)
from assay.server.pages.paging import Cursor, Text, mapped, plain, rows_of, texts, words
from assay.server.pages.routing import READER, PageRoute
from assay.server.pages.schema_nodes import (
    MEANING,
    Entry,
    cells,
    graded,
    rows_in,
    standing,
    updated,
)
from assay.server.problems import Problem
from assay.views.markup import Html, join, say, tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.server.state import Services
    from assay.store.drafts import Item

router = APIRouter(route_class=PageRoute, include_in_schema=False)
LOOKED_AT = 300
"""Stored indexes that are looked through for one page."""
SEARCHED = 2000
"""Stored indexes that are looked through for one name."""
AT_ONCE = 100
REPORTS = 20
ENTRIES = 60
OLDER = 20
MAX_NODES = 400
FIRST = (
    "assay tools import schemas/ --store .assay/ledger.db\nassay tools record answers.json"
    " --namespace NAME --store .assay/ledger.db"
)
COLUMNS = (
    Column("Name"),
    Column("Status"),
    Column("Grade"),
    Column("Holds", "wide"),
    Column("Blocked", "n"),
    Column("Changed"),
    Column("Stored"),
)
NODES = (
    Column("Node"),
    Column("Status"),
    Column("Grade"),
    Column("Mean, 1 to 5", "n"),
    Column("Tier and cap"),
    Column("Bound to"),
    Column("To be known", "wide"),
    Column("History"),
)
SECTIONS = (
    ("blockers", "Blockers"),
    ("tree", "Tree"),
    ("entries", "Entries"),
    ("versions", "Older indexes"),
    ("origin", "Record"),
)
SELECTION = "selection"


class _Brief(msgspec.Struct):
    namespace: Any = None
    selectionId: Any = None  # the name in the document  # noqa: N815
    status: Any = None
    grade: Any = None
    updatedAt: Any = None  # noqa: N815
    gradingSystem: Any = None  # noqa: N815
    summary: Any = None
    blockers: Any = None

    @property
    def owner(self) -> tuple[str, str]:
        """Whether it is of a selection or a namespace, and its name."""
        return (
            (SELECTION, str(self.selectionId))
            if self.selectionId is not None
            else ("namespace", str(self.namespace))
        )


_brief = msgspec.json.Decoder(_Brief).decode


class Version(NamedTuple):
    """A stored index."""

    item: Item
    brief: _Brief


@router.get("/schemas")
def list_schemas(request: Request, principal: Principal = READER, after: Cursor = None) -> Response:
    """Namespaces and selections, each as its newest index has it."""
    services: Services = request.app.state.services
    place = lookup.cursor(after or None)
    found = services.ledger.find(
        "index", project=principal.project, after=place, limit=LOOKED_AT, newest_first=True
    )
    reports = schema_entries.reports(services, principal.project, REPORTS) if place is None else []
    if not found.items and place is None and not reports:
        more = "`assay tools record`, `index`, `regrade` and `gate` take --store too."
        return page(
            request,
            "Tool schemas",
            empty(
                "No grading of tool schemas is stored in this project yet. Import and grade some:",
                FIRST,
                more=more,
            ),
            nav="/schemas",
        )
    newest: dict[tuple[str, str], Version] = {}
    for item in found.items:
        if item.body is not None:
            version = Version(item, _brief(item.body))
            newest.setdefault(version.brief.owner, version)
    parts = []
    for kind, title in (("namespace", "Namespaces"), (SELECTION, "Selections")):
        rows = [_row(version) for owner, version in sorted(newest.items()) if owner[0] == kind]
        if rows:
            parts.append(
                section(title, table(title, COLUMNS, rows, kind="stack runs"), id=f"{kind}s")
            )
    if reports:
        parts.append(
            section(
                "Reports of the file protocol",
                schema_entries.report_table(reports),
                id="reports",
                hint="The newest; each is the grade of one schema by itself.",
            )
        )
    follows = found.next_cursor is not None
    if follows or place is not None:
        said = (
            f"Of {len(found.items):,} stored indexes; a namespace on this page may have a newer"
            " one."
            if place is not None
            else f"Of the last {LOOKED_AT:,} stored indexes."
        )
        parts.append(
            pager(
                newest="/schemas" if place is not None else "",
                older=address("schemas", after=str(found.next_cursor)) if follows else "",
                said=said,
                look_further=True,
            )
        )
    return page(request, "Tool schemas", *parts, nav="/schemas", lead=_lead(newest))


def _lead(newest: dict[tuple[str, str], Version]) -> str:
    kinds = [kind for kind, _ in newest]
    counted = [
        f"{kinds.count(kind):,} {kind}{'' if kinds.count(kind) == 1 else 's'}"
        for kind in ("namespace", SELECTION)
        if kind in kinds
    ]
    return (
        f"{' and '.join(counted)}. Letters here are of tool schemas; they say nothing about"
        " workflows or exams."
        if counted
        else ""
    )


def _row(version: Version) -> list[str]:
    item, one = version
    kind, name = one.owner
    held = {
        key: value
        for key, value in mapped(one.summary).items()
        if key not in ("scoringSystem", "gradingSystem", "mixedVersions")
    }
    return [
        link(clip(name, 120), _at(kind, name, item.digest)),
        standing(one.status),
        graded(one.grade, one.gradingSystem),
        ", ".join(f"{words(key).lower()} {plain(value)}" for key, value in held.items())
        or say(None, "nothing"),
        f"{len(rows_of(one.blockers)):,}",
        updated({"updatedAt": one.updatedAt}),
        when(item.created_at),
    ]


def _at(kind: str, name: str, digest: str) -> str:
    """The address of a namespace or selection. A name that a browser would take for a step up goes
    by its index.
    """
    return (
        address("schemas", name, kind=SELECTION if kind == SELECTION else None)
        if name.strip(".")
        else address("schemas", digest)
    )


# --- one namespace or selection


@router.get("/schemas/{name:path}")
def show_schema(
    request: Request, name: str, principal: Principal = READER, kind: Text = None
) -> Response:
    """A namespace, a selection, or one stored index, entry or report."""
    services: Services = request.app.state.services
    project = principal.project
    if not lookup.DIGEST.fullmatch(name):
        return _page(
            request,
            services,
            project,
            _newest(services, project, name, selection=kind == SELECTION),
            shown_is_newest=True,
        )
    item = lookup.record(services, project, None, name)
    if item.kind == "entry":
        return schema_entries.entry_page(request, services, project, item)
    if item.kind != "index":
        raise lookup.absent("tool schema", name)
    return _page(request, services, project, item, shown_is_newest=False)


def _versions(services: Services, project: str) -> Iterator[Version]:
    cursor: int | None = None
    looked = 0
    while looked < SEARCHED:
        found = services.ledger.find(
            "index", project=project, after=cursor, limit=AT_ONCE, newest_first=True
        )
        for item in found.items:
            if item.body is not None:
                yield Version(item, _brief(item.body))
        looked += AT_ONCE
        cursor = found.next_cursor
        if cursor is None:
            return


def _newest(services: Services, project: str, name: str, *, selection: bool) -> Item:
    """The newest index of a name: of a namespace, unless a selection is asked for or there is no
    other.
    """
    other: Item | None = None
    for version in _versions(services, project):
        kind, owner = version.brief.owner
        if owner == name and (kind == SELECTION) == selection:
            return version.item
        if owner == name and other is None and not selection:
            other = version.item
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


def _page(
    request: Request, services: Services, project: str, item: Item, *, shown_is_newest: bool
) -> Response:
    index: dict[str, Any] = mapped(item.tree())
    kind, name = _brief(item.body or b"{}").owner
    entries = schema_entries.entries_of(services, project, item)
    system = index.get("gradingSystem")
    now = datetime.now(UTC)
    nodes = list(rows_in(index))
    rows = [cells(row, entries, system, now) for row in nodes[:MAX_NODES]]
    older = [
        version
        for version in _of(services, project, (kind, name))
        if version.item.digest != item.digest
    ]
    newer = [version for version in older if version.item.seq > item.seq]
    body = [
        _head(index, kind, item),
        *(
            [
                note(
                    join(
                        [
                            "This is an older index; ",
                            link(
                                "the newest is here",
                                address("schemas", name, kind=kind if kind == SELECTION else None),
                            ),
                            ".",
                        ]
                    )
                )
            ]
            if newer and not shown_is_newest
            else []
        ),
        contents(SECTIONS),
        _blockers(index),
        section(
            "Tree",
            table("Nodes", NODES, rows, absent="The index has no nodes.", kind="stack tree"),
            *(
                [tag("p", f"The first {MAX_NODES} of {len(nodes):,} nodes.", class_="hint")]
                if len(nodes) > MAX_NODES
                else []
            ),
            id="tree",
            hint=(
                "A node is pending, blocked, graded, stable or rejected. The raw grade is the one"
                " before the tier's cap."
            ),
        ),
        _lock(index),
        _history(entries, system),
        _older(older),
        _origin(index, item, services),
    ]
    return page(request, f"{kind.capitalize()} {name}"[:200], *body, nav="/schemas")


def _of(services: Services, project: str, owner: tuple[str, str]) -> list[Version]:
    found = []
    for version in _versions(services, project):
        if version.brief.owner == owner:
            found.append(version)
        if len(found) > OLDER:
            break
    return found


def _head(index: dict[str, Any], kind: str, item: Item) -> Html:
    status = str(index.get("status"))
    letter = tag(
        "p",
        standing(status),
        " ",
        graded(index.get("grade"), index.get("gradingSystem")),
        class_="outcome",
    )
    said = tag(
        "p",
        f"The {kind} is {status}: {MEANING.get(status, 'no status that is known here')}.",
        class_="verdict",
    )
    summary = {
        key: value
        for key, value in mapped(index.get("summary")).items()
        if key not in ("scoringSystem", "gradingSystem", "mixedVersions")
    }
    figures = [(words(key), say(value)) for key, value in summary.items()]
    mixed = mapped(mapped(index.get("summary")).get("mixedVersions"))
    warned = (
        [
            note(
                join(["Scores of more than one version stand side by side: ", say(mixed), "."]),
                kind="bad",
            )
        ]
        if mixed
        else []
    )
    return join(
        [
            tag("div", letter, said, class_="decided"),
            *warned,
            facts(
                [*figures, ("Changed", updated(index)), ("Stored", when(item.created_at))],
                kind="figures",
            ),
        ]
    )


def _blockers(index: dict[str, Any]) -> Html:
    rows = [
        [tag("code", say(one.get("node"))), say(one.get("reason"))]
        for one in rows_of(index.get("blockers"))
    ]
    listed = table(
        "Blockers",
        ("Node", Column("Why", "wide")),
        rows[:MAX_NODES],
        absent="Nothing is blocked.",
        kind="stack",
    )
    return section("Blockers", listed, id="blockers")


def _lock(index: dict[str, Any]) -> Html:
    lock = mapped(index.get("lockSnapshot"))
    if not lock:
        return Html("")
    rows = [
        [
            say(one.get("schemaId")),
            standing(one.get("gradingStatus")),
            say(
                {
                    key: value
                    for key, value in one.items()
                    if key not in ("schemaId", "gradingStatus")
                }
            ),
        ]
        for one in rows_of(lock.get("members"))
    ]
    listed = table(
        "Frozen members",
        ("Member", "Status when it was frozen", Column("As it was", "wide")),
        rows[:MAX_NODES],
        absent="It lists no members.",
    )
    return section(
        "Frozen members",
        listed,
        id="lock",
        hint="The selection as it was locked; the tree above says how its members stand now.",
    )


def _history(entries: list[Entry], system: Any) -> Html:
    rows = [schema_entries.line(entry, system) for entry in entries[:ENTRIES]]
    listed = table(
        "Grading entries, the newest first",
        schema_entries.COLUMNS,
        rows,
        absent="No entry is stored with this index: nothing is graded yet.",
        kind="stack",
    )
    more = (
        f"The newest {ENTRIES} of {len(entries):,}."
        if len(entries) > ENTRIES
        else "Nothing is overwritten: an entry that is superseded stays."
    )
    return section("Entry history", listed, id="entries", hint=more)


def _older(versions: list[Version]) -> Html:
    rows = [
        [
            short(version.item.digest, address("schemas", version.item.digest)),
            standing(version.brief.status),
            graded(version.brief.grade, version.brief.gradingSystem),
            when(version.item.created_at),
        ]
        for version in versions[:OLDER]
    ]
    return section(
        "Other stored indexes of it",
        table(
            "Other stored indexes",
            ("Index", "Status", "Grade", "Stored"),
            rows,
            absent="This is the only one that is stored.",
            kind="stack",
        ),
        id="versions",
    )


def _origin(index: dict[str, Any], item: Item, services: Services) -> Html:
    known = [
        entry.id
        for entry in services.shelf.entries("policies")
        if getattr(services.shelf.load("policies", entry.id), "family", None) == "flowmcp"
    ]
    pairs = [
        ("Scoring system", say(index.get("scoringSystem"))),
        ("Grading system", say(index.get("gradingSystem"))),
        (
            "Policy",
            f"an index names none; of this family the shelf has {', '.join(known) or 'none'}",
        ),
        (
            "Record",
            join(
                [
                    short(item.digest),
                    " ",
                    link("the whole record", address("api", "v1", "records", item.digest)),
                ]
            ),
        ),
        ("By", say(item.author, "not stated")),
    ]
    notes = texts(index.get("notes"))
    return section(
        "Record",
        facts(pairs, kind="small"),
        *([tag("ul", *(tag("li", one) for one in notes))] if notes else []),
        id="origin",
    )
