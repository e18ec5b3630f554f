"""Namespaces and selections of tool schemas: the list, and the tree of each with its blockers and
what is stale.

Nodes and whole indexes use different words for their status, which are never mixed. A letter comes
with the grading system that the index names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from assay.errors import count
from assay.records.tool_entry import (
    GradingEntry,
    IndexNode,
    MemberNode,
    SchemaNode,
    SelectionLock,
    StoredIndex,
    document,
)
from assay.views.blocks import Block, Column, Facts, Group, Note, Paragraph, Section, Table, section
from assay.views.pieces import (
    absent,
    address,
    code,
    coded,
    indented,
    link,
    moment,
    number,
    phrase,
    short_digest,
    shown,
    small,
    verdict,
    words,
)
from assay.views.tool_entry import HISTORY, graded, history_row, lines, provenance, stamped
from assay.views.tool_list import SELECTION, IndexVersion, summary_of

MAX_NODES = 400
ENTRIES = 60
OLDER = 20
MEANING = {
    "operational": "every node is stable",
    "partial": "some nodes are graded, not all are stable",
    "blocked": "nothing is graded, and something can't be graded",
    "pending": "nothing is graded yet",
    "rejected": "a node is rejected by a veto",
}
"""What the statuses of a whole mean."""


class TreeRow(NamedTuple):
    """A node of the tree: how deep it is, what it is, and which gradings are its own."""

    depth: int
    name: str
    what: str
    node: IndexNode | MemberNode | SchemaNode | None
    areas: tuple[str, ...] = ()
    subject: str | None = None
    """The schemaId of its entries, where that tells them apart."""
    skill: str | None = None
    href: str = ""


class RowHistory(NamedTuple):
    """The gradings of a node."""

    tier: str | None
    gradings: int = 0
    entry: GradingEntry | None = None
    """The one that decides."""
    digest: str = ""
    changed: bool = False
    """What was graded has changed since."""
    old: Mapping[str, str] | None = MappingProxyType({})
    """The questions whose answers are too old by now, and why; None if their age is unknown."""


# --- one namespace or selection


def rows_in(index: StoredIndex) -> list[TreeRow]:
    """The nodes in the order of the tree."""
    return _of_selection(index) if index.kind == SELECTION else _of_namespace(index)


def _of_selection(index: StoredIndex) -> list[TreeRow]:
    levels = ("selection-skills-L1", "selection-skills-L2", "selection-skills-L3")
    whole = index.selection_aggregate
    return [
        TreeRow(0, "Selection as a whole", "aggregate", whole, ("selection-aggregate",)),
        TreeRow(0, "About page", "about", index.about, ("about-selection",)),
        *(
            TreeRow(0, name, "skill", node, levels, skill=name)
            for name, node in index.skills.items()
        ),
        *(
            TreeRow(0, name, "member", node, href=address("schemas", name.partition(".")[0]))
            for name, node in index.members.items()
        ),
    ]


def _of_namespace(index: StoredIndex) -> list[TreeRow]:
    whole = index.namespace_aggregate
    return [
        TreeRow(0, "Namespace as a whole", "aggregate", whole, ("tools-aggregate-namespace",)),
        TreeRow(0, "Description", "description", index.description, ("namespace-description",)),
        TreeRow(0, "About page", "about", index.about, ("about-namespace",)),
        *(
            row
            for name, schema in index.schemas.items()
            for row in _of_schema(index.name, name, schema)
        ),
        *(
            TreeRow(0, name, "skill", node, ("namespace-skills",), skill=name.partition(".")[2])
            for name, node in index.skills.items()
        ),
    ]


def _of_schema(namespace: str, name: str, schema: SchemaNode) -> list[TreeRow]:
    whole, areas = schema.tools_aggregate, ("tools-aggregate-schema",)
    here = f"{namespace}/{name}"
    return [
        TreeRow(0, name, "schema, with its tools", schema),
        TreeRow(1, "All its tools together", "aggregate", whole, areas, f"{namespace}.{name}"),
        *(
            TreeRow(
                1,
                tool,
                "tool",
                node,
                ("single-test",),
                f"{namespace}.{tool}",
                href=address("schemas", here, tool=tool),
            )
            for tool, node in schema.tools.items()
        ),
    ]


_NODES = (
    Column("Node"),
    Column("Status"),
    Column("Grade"),
    Column("Mean, 1 to 5", "n"),
    Column("Tier and cap"),
    Column("Bound to"),
    Column("Notes", "wide"),
    Column("History"),
)


def _node_row(row: TreeRow, history: RowHistory, system: str | None) -> list[str]:
    node = row.node
    shown_node = node if isinstance(node, IndexNode) else None
    own_system = shown_node.grading_system if shown_node else None
    past: str = absent("none stored" if row.areas else "of its nodes")
    if history.entry is not None:
        past = link(count(history.gradings, "grading"), address("schemas", history.digest))
    return [
        indented(
            row.depth, link(row.name, row.href) if row.href else row.name, " ", small(row.what)
        ),
        verdict(node.status if node else None),
        graded(
            node.grade if node else None,
            own_system or system,
            shown_node.raw_grade if shown_node else None,
            why=", capped",
        ),
        number(
            shown_node.normalized_score if shown_node else None,
            digits=3,
            absent_as="no mean" if row.areas else "of its nodes",
        ),
        _tier(history),
        _bound(node),
        lines(_to_be_known(node, history), "nothing"),
        past,
    ]


def _tier(history: RowHistory) -> str:
    entry = history.entry
    if entry is not None:
        return phrase(entry.grading_tier, small(f", at best {entry.max_attainable_grade}"))
    return shown(history.tier, "of its nodes")


def _bound(node: IndexNode | MemberNode | SchemaNode | None) -> str:
    if isinstance(node, SchemaNode) and node.snapshot is not None:
        return phrase(small("source "), code(node.snapshot.hash))
    bound = node.bound_to if isinstance(node, IndexNode) else None
    return short_digest(bound) if bound else absent("nothing")


_WHY = {
    "validation-failed": "the schema is not valid: `assay tools check` lists what to fix",
    "fewer-than-three-tests": "fewer than three tests: add tests to the tool",
    "fewer-than-two-tests": "fewer than two tests: add tests",
    "no-about": "there is no about page: write one",
    "api-down": "the API did not answer",
    "all-schemas-unparseable": "no schema can be read",
    "not-imported": "not imported: `assay tools import` adds it to the tree",
}
"""Why a node is blocked, in words; the record has the key."""


def _why(reason: str) -> str:
    return coded(_WHY.get(reason, reason))


def _to_be_known(
    node: IndexNode | MemberNode | SchemaNode | None, history: RowHistory
) -> list[str]:
    parts: list[str] = []
    if history.changed and node is not None:
        parts.append(verdict("stale", node.reason or ""))
    if history.old is None:
        parts.append(verdict("undetermined", "the age of its answers is unknown"))
    elif history.old:
        stale = verdict("stale", f"{count(len(history.old), 'answer')} too old by now")
        parts.append(phrase(stale, small(f": {next(iter(history.old.values()))}")))
    if node is not None and node.reason and not history.changed:
        parts.append(_why(node.reason))
    if isinstance(node, IndexNode) and node.note:
        parts.append(node.note)
    return parts


def index_view(
    version: IndexVersion,
    rows: Sequence[tuple[TreeRow, RowHistory]],
    entries: Sequence[tuple[GradingEntry, str]],
    others: Sequence[IndexVersion],
    *,
    newer: bool,
    policies: Sequence[str],
    author: str | None,
) -> list[Block]:
    """One index: its outcome, blockers, tree, entries, and the other indexes of it. `newer` says
    that it is not the newest one.
    """
    index = version.index
    lock = [_lock(index.lock_snapshot)] if index.lock_snapshot else []
    older = (
        [Note(phrase("This is an older index; ", link("the newest is here", version.href), "."))]
        if newer
        else []
    )
    sections = [
        _blockers(index),
        _tree(index, rows),
        *lock,
        section(
            "Entry history",
            Table(
                "Grading entries, the newest first",
                HISTORY,
                [history_row(entry, own) for entry, own in entries[:ENTRIES]],
                absent="No entry is stored with this index: nothing is graded yet.",
                kind="stack",
            ),
            id="entries",
            hint=f"The newest {ENTRIES} of {len(entries):,}."
            if len(entries) > ENTRIES
            else "Nothing is overwritten: superseded entries stay.",
        ),
        _others(others),
        _origin(version, policies, author),
    ]
    return [*_head(version), *older, *sections]


def _head(version: IndexVersion) -> list[Block]:
    index = version.index
    meaning = MEANING.get(str(index.status), "unknown status")
    mixed = index.summary.get("mixedVersions")
    return [
        Group(
            [
                Paragraph(
                    phrase(verdict(index.status), " ", graded(index.grade, index.grading_system)),
                    "outcome",
                ),
                Paragraph(f"The {index.kind} is {index.status}: {meaning}.", "verdict"),
            ],
            "decided",
        ),
        *(
            [Note(phrase("Scores of more than one version are mixed: ", shown(mixed), "."), "bad")]
            if mixed
            else []
        ),
        Facts(
            [
                *((words(key), shown(value)) for key, value in summary_of(index)),
                ("Changed", stamped(index.updated_at, "never")),
                ("Stored", moment(version.stored)),
            ],
            "figures",
        ),
    ]


def _blockers(index: StoredIndex) -> Section:
    rows = [[code(blocker.node), _why(blocker.reason)] for blocker in index.blockers[:MAX_NODES]]
    columns = ("Node", Column("Why", "wide"))
    table = Table("Blockers", columns, rows, absent="Nothing is blocked.", kind="stack")
    return section("Blockers", table, id="blockers")


def _tree(index: StoredIndex, rows: Sequence[tuple[TreeRow, RowHistory]]) -> Section:
    cells = [_node_row(row, past, index.grading_system) for row, past in rows[:MAX_NODES]]
    more = (
        [Paragraph(f"The first {MAX_NODES} of {len(rows):,} nodes.", "hint")]
        if len(rows) > MAX_NODES
        else []
    )
    return section(
        "Tree",
        Table("Nodes", _NODES, cells, absent="The index has no nodes.", kind="stack tree"),
        *more,
        id="tree",
        hint=(
            "A node is pending, blocked, graded, stable or rejected. The raw grade is the one"
            " before the tier's cap."
        ),
    )


def _lock(lock: SelectionLock) -> Section:
    rows = []
    for member in lock.members[:MAX_NODES]:
        rest = {
            key: value
            for key, value in document(member).items()
            if key not in ("schemaId", "gradingStatus")
        }
        rows.append([member.schema_id, verdict(member.grading_status), shown(rest)])
    return section(
        "Frozen members",
        Table(
            "Frozen members",
            ("Member", "Status when it was frozen", Column("As it was", "wide")),
            rows,
            absent="It lists no members.",
        ),
        id="lock",
        hint="The selection as locked. The tree above shows its members as they are now.",
    )


def _others(others: Sequence[IndexVersion]) -> Section:
    rows = [
        [
            short_digest(version.digest, address("schemas", version.digest)),
            verdict(version.index.status),
            graded(version.index.grade, version.index.grading_system),
            moment(version.stored),
        ]
        for version in others[:OLDER]
    ]
    return section(
        "Other stored indexes",
        Table(
            "Other stored indexes",
            ("Index", "Status", "Grade", "Stored"),
            rows,
            absent="This is the only one stored.",
            kind="stack",
        ),
        id="versions",
    )


def _origin(version: IndexVersion, policies: Sequence[str], author: str | None) -> Section:
    index = version.index
    known = ", ".join(policies) or "none"
    stored, _, by = provenance(version.digest, version.stored, author)
    pairs = [
        ("Scoring system", shown(index.scoring_system)),
        ("Grading system", shown(index.grading_system)),
        ("Policy", f"an index names none; the library has {known} for this family"),
        stored,
        by,
    ]
    notes = [Paragraph(note) for note in index.notes]
    return section("Record", Facts(pairs, "small"), *notes, id="origin")
