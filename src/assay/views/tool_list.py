"""The list of tools, and of the namespaces and selections they belong to, each as its newest index
or check has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from assay.errors import count
from assay.records.tool_entry import StoredIndex
from assay.views.blocks import (
    Block,
    Chip,
    Chips,
    Column,
    Empty,
    Field,
    Filters,
    Pager,
    Region,
    Section,
    Table,
    section,
)
from assay.views.pieces import (
    absent,
    address,
    clip,
    line,
    link,
    listed,
    moment,
    number,
    phrase,
    shown,
    small,
    verdict,
    words,
)
from assay.views.tool_entry import graded, stamped
from assay.views.tool_findings import finding_words
from assay.views.tool_page import StoredCheck, legibility, letter_of
from assay.views.tool_rows import DEFAULT_SORT, STATES, ToolQuery, ToolRow, chosen_rows, counted

SELECTION = "selection"
ON_A_PAGE = 100
NOTHING_YET = Empty(
    "No tool is stored in this project yet. Check the tools of a server or a folder of schemas."
    " This calls no model:",
    'assay tools check --mcp "python server.py" --store\nassay tools check schemas/ --store',
    "`assay tools record`, `index`, `regrade` and `gate` also take --store: they add the grades.",
)
_VERSIONS = ("scoringSystem", "gradingSystem", "mixedVersions")
"""Keys of a summary that are shown elsewhere."""


class IndexVersion(Struct, frozen=True):
    """A stored index."""

    index: StoredIndex
    digest: str
    stored: str
    """When."""

    @property
    def href(self) -> str:
        """The address of its namespace or selection. A name that a browser would take for a step up
        goes by its index.
        """
        index = self.index
        if not index.name.strip("."):
            return address("schemas", self.digest)
        return address("schemas", index.name, kind=SELECTION if index.kind == SELECTION else None)


# --- tools

_HEADS = (
    ("tool", "Tool", ""),
    ("legibility", "Legibility", "n"),
    ("grade", "Grade by the protocol", ""),
    ("findings", "Findings", ""),
    ("tokens", "Tokens", "n"),
)


def tools_view(rows: Sequence[ToolRow], query: ToolQuery, start: int = 0) -> list[Block]:
    """Every tool in a row, as the query asks; `start` is the first row of the page."""
    schemas = sorted({row.schema_id for row in rows})
    fields = [
        Field("q", "Search", hint="name, description, finding"),
        *([Field("of", "Schema", "select", schemas)] if len(schemas) > 1 else []),
        Field(
            "sort", "Sort by", "select", [(key, title) for key, title, _ in _HEADS], "worst first"
        ),
        *(Field(name, name, "hidden") for name in ("state", "order")),
    ]
    chosen = chosen_rows(rows, query)
    page = chosen[start : start + ON_A_PAGE]
    table = Table(
        "Tools",
        _columns(query),
        [_tool_row(row) for row in page],
        absent="No tool matches this filter.",
        kind="stack runs",
    )
    parts: list[Block] = [
        _chips(chosen_rows(rows, query._replace(state="")), query),
        Filters("/schemas", fields, query._asdict(), title="Search and sort", button="Show"),
        table,
        *_pages(len(chosen), start, query),
    ]
    return [Region("tools", parts)]


def _columns(query: ToolQuery) -> list[Column]:
    is_down = query.order == "desc"
    turned = {query.sort or DEFAULT_SORT: "" if is_down else "desc"}
    order = {query.sort or DEFAULT_SORT: "descending" if is_down else "ascending"}
    return [
        *(
            Column(title, kind, query.href(sort=key, order=turned.get(key, "")), order.get(key, ""))
            for key, title, kind in _HEADS
        ),
        Column("What to fix first", "wide"),
    ]


def _chips(rows: Sequence[ToolRow], query: ToolQuery) -> Chips:
    counts = {state: sum(row.is_in(state) for row in rows) for state in STATES}
    return Chips(
        "Which tools",
        [
            Chip("All", query.href(state=""), len(rows), not query.state),
            *(
                Chip(
                    STATES[state],
                    query.href(state="" if query.state == state else state),
                    n,
                    query.state == state,
                )
                for state, n in counts.items()
                if n or query.state == state
            ),
        ],
    )


def _tool_row(row: ToolRow) -> list[str]:
    first = row.findings[0] if row.findings else None
    tokens = number(row.tool.tokens if row.tool else None, digits=0, absent_as="not known")
    return [
        phrase(link(clip(row.name, 120), row.href), line(small(clip(row.schema_id, 120)))),
        legibility(row.tool),
        verdict(row.node.status) if row.node and not row.grade else letter_of(row),
        counted(row.findings) if row.tool else absent("not checked"),
        tokens,
        finding_words(first, alone=True)
        if first
        else absent("nothing" if row.tool else "not checked"),
    ]


def _pages(n: int, start: int, query: ToolQuery) -> list[Block]:
    if n <= ON_A_PAGE and not start:
        return []

    def at(first: int) -> str:
        query_now = {key: value for key, value in query._asdict().items() if value}
        return address("schemas", **query_now, start=str(first) if first else None)

    last = min(n, start + ON_A_PAGE)
    return [
        Pager(
            newest=at(0) if start else "",
            newer=at(max(0, start - ON_A_PAGE)) if start else "",
            older=at(last) if last < n else "",
            summary=f"{start + 1:,} to {last:,} of {n:,} tools.",
            words=("First", "← Previous", "Next →"),
        )
    ]


# --- schemas, namespaces, selections


def schemas_view(checks: Sequence[StoredCheck]) -> Section:
    """Every checked schema or server, the lowest score first."""
    columns = (
        Column("Schema or server"),
        Column("Legibility", "n"),
        Column("Limited by"),
        Column("Tools", "n"),
        Column("Findings"),
        Column("Checked"),
    )
    rows = [
        [
            link(clip(checked.check.schema_id, 120), address("schemas", checked.check.schema_id)),
            number(checked.check.score, digits=0, unit="of 100"),
            checked.check.cap_reason or absent("nothing"),
            f"{len(checked.check.tools):,}",
            counted(checked.check.findings),
            moment(checked.check.checked_at),
        ]
        for checked in sorted(
            checks, key=lambda checked: (checked.check.score, checked.check.schema_id)
        )
    ]
    title = "Schemas and servers"
    return section(title, Table(title, columns, rows, kind="stack runs"), id="checked")


_LIST = (
    Column("Name"),
    Column("Status"),
    Column("Grade"),
    Column("Contains", "wide"),
    Column("Blocked", "n"),
    Column("Changed"),
    Column("Stored"),
)


def list_view(newest: Sequence[IndexVersion]) -> Iterator[Section]:
    """Namespaces and selections, each as its newest index has it."""
    for kind, title in (("namespace", "Namespaces"), (SELECTION, "Selections")):
        rows = [_list_row(version) for version in newest if version.index.kind == kind]
        if rows:
            yield section(title, Table(title, _LIST, rows, kind="stack runs"), id=f"{kind}s")


def lead(rows: Sequence[ToolRow]) -> str:
    """The sentence under the title of the list."""
    schemas = {row.schema_id for row in rows}
    return (
        f"{count(len(rows), 'tool')} in {count(len(schemas), 'schema')}. Legibility, 0 to 100,"
        " comes from fixed rules; the grade comes from judges. Neither is made from the other."
    )


def _list_row(version: IndexVersion) -> list[str]:
    index = version.index
    held = _contents(index)
    return [
        link(clip(index.name, 120), version.href),
        verdict(index.status),
        graded(index.grade, index.grading_system),
        listed(held) if held else absent("nothing"),
        f"{len(index.blockers):,}",
        stamped(index.updated_at, "never"),
        moment(version.stored),
    ]


_ONE = {
    "schemas": "schema",
    "tools": "tool",
    "skills": "skill",
    "members": "member",
    "namespaces": "namespace",
    "entries": "entry",
}


def _contents(index: StoredIndex) -> list[str]:
    """The counts of an index as text: `2 tools (1 stable)`, then states such as `about blocked`.
    Zero counts are omitted.
    """
    known = dict(summary_of(index))
    made = []
    for key, noun in _ONE.items():
        n, stable = known.pop(key, None), known.pop(f"{key}Stable", None)
        if isinstance(n, int) and n:
            many = count(n, noun, key)
            made.append(many if stable is None else f"{many} ({shown(stable)} stable)")
    return [
        *made,
        *(phrase(f"{words(key).lower()} ", shown(value)) for key, value in known.items()),
    ]


def summary_of(index: StoredIndex) -> list[tuple[str, Any]]:
    """What an index sums up; of the entries and questions it remembers, their number."""
    return [
        (key, len(value) if key in ("entries", "catalogue") and isinstance(value, dict) else value)
        for key, value in index.summary.items()
        if key not in _VERSIONS
    ]
