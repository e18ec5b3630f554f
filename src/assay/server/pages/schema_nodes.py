"""The tree of a namespace or selection as rows, and the grading entries behind each of them.

A node and a whole have words of their own for how they stand, which are never mixed. A letter
stands with the grading system that the index names.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import AssayError
from assay.server.pages.layout import address, letter, link, number, short, verdict, when
from assay.server.pages.paging import mapped, rows_of
from assay.tools.aging import age_answers
from assay.tools.names import AREAS, file_stamp, iso, parse_stamp, stamp
from assay.tools.node import CHANGED
from assay.views.markup import Html, join, say, tag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from assay.store.drafts import Item

Tree = dict[str, Any]
FAMILY = "tool schemas"
_LOOKS = {
    **dict.fromkeys(("operational", "stable"), ("✓", "good")),
    **dict.fromkeys(("partial", "graded"), ("◐", "open")),
    "pending": ("…", "busy"),
}
MEANING = {
    "operational": "every node is stable",
    "partial": "some nodes are graded, not all are stable",
    "blocked": "nothing is graded, and something cannot be",
    "pending": "nothing is graded yet",
    "rejected": "a node is rejected by a veto",
}
"""What the words for a whole mean."""


class Row(NamedTuple):
    """A node of the tree: how deep it stands, what it is, and which gradings are its own."""

    depth: int
    name: str
    what: str
    node: Tree
    areas: tuple[str, ...] = ()
    subject: str | None = None
    """The schemaId of its entries, where that tells them apart."""
    skill: str | None = None
    href: str = ""


class Entry(NamedTuple):
    """A grading entry in the ledger."""

    item: Item
    tree: Tree


def standing(word: Any) -> Html:
    """The status of a node or a whole, as a sign and its word. One that is unknown looks bad."""
    sign, look = _LOOKS.get(str(word), ("✗", "bad"))
    return tag(
        "span",
        tag("span", sign, aria_hidden="true", class_="sign"),
        f" {word or 'not stated'}",
        class_=look,
    )


def graded(grade: Any, system: Any) -> Html:
    """A letter of this family with its grading system; what is no letter is said in words."""
    if grade in (None, "", "n/a"):
        return tag(
            "span", "no grade" if grade != "n/a" else "n/a: too small to be graded", class_="absent"
        )
    return letter(grade, f"{FAMILY}, {system or 'grading system not stated'}")


def rows_in(index: Tree) -> Iterator[Row]:
    """The nodes in the order of the tree."""
    owner = str(index.get("namespace") or index.get("selectionId"))
    if index.get("selectionId") is not None:
        yield Row(
            0,
            "Selection as a whole",
            "aggregate",
            mapped(index.get("selectionAggregate")),
            ("selection-aggregate",),
        )
        yield Row(0, "About page", "about", mapped(index.get("about")), ("about-selection",))
        for name, node in mapped(index.get("skills")).items():
            yield Row(
                0,
                str(name),
                "skill",
                mapped(node),
                ("selection-skills-L1", "selection-skills-L2", "selection-skills-L3"),
                skill=str(name),
            )
        for name, node in mapped(index.get("members")).items():
            yield Row(
                0,
                str(name),
                "member",
                mapped(node),
                href=address("schemas", str(name).partition(".")[0]),
            )
        return
    yield Row(
        0,
        "Namespace as a whole",
        "aggregate",
        mapped(index.get("namespaceAggregate")),
        ("tools-aggregate-namespace",),
    )
    yield Row(
        0,
        "Description",
        "description",
        mapped(index.get("description")),
        ("namespace-description",),
    )
    yield Row(0, "About page", "about", mapped(index.get("about")), ("about-namespace",))
    for name, schema in mapped(index.get("schemas")).items():
        node = mapped(schema)
        yield Row(
            0,
            str(name),
            "schema, with its tools",
            {key: value for key, value in node.items() if key not in ("tools", "toolsAggregate")},
        )
        yield Row(
            1,
            "All its tools together",
            "aggregate",
            mapped(node.get("toolsAggregate")),
            ("tools-aggregate-schema",),
            f"{owner}.{name}",
        )
        for tool, inner in mapped(node.get("tools")).items():
            yield Row(1, str(tool), "tool", mapped(inner), ("single-test",), f"{owner}.{tool}")
    for name, node in mapped(index.get("skills")).items():
        yield Row(
            0,
            str(name),
            "skill",
            mapped(node),
            ("namespace-skills",),
            skill=str(name).partition(".")[2],
        )


def own(row: Row, entries: Sequence[Entry]) -> list[Entry]:
    """The entries of a node, the newest first."""
    return [
        one
        for one in entries
        if one.tree.get("area") in row.areas
        and (row.subject is None or one.tree.get("schemaId") == row.subject)
        and (row.skill is None or one.tree.get("skillId") == row.skill)
    ]


def deciding(row: Row, entries: Sequence[Entry]) -> Entry | None:
    """The entry that a node goes by: the one its reference names, else its newest full one."""
    moment = file_stamp(str(row.node.get("ref") or "").rpartition("/")[2])
    wanted = f"{row.node.get('boundTo')}--{stamp(moment)}" if moment is not None else None
    full = [one for one in entries if one.tree.get("gradingMode") == "full"]
    return next(
        (one for one in full if one.tree.get("gradingId") == wanted), full[0] if full else None
    )


def tier(row: Row, entry: Entry | None) -> str:
    """The tier of a node and the best letter there is for it."""
    known = entry.tree if entry is not None else {}
    area = AREAS.get(row.areas[0]) if row.areas else None
    name = known.get("gradingTier") or (area.tier if area is not None else None)
    if name is None:
        return tag("span", "of its nodes", class_="absent")
    cap = known.get("maxAttainableGrade")
    return join([say(name), tag("small", f", at best {cap}" if cap else "")])


def capped(node: Mapping[str, Any], system: Any) -> Html:
    """The letter, and the raw one where a cap took something away."""
    found = graded(node.get("grade"), system)
    raw = node.get("rawGrade")
    if raw in (None, node.get("grade")):
        return found
    return join([found, tag("span", tag("small", f"raw grade {raw}, capped"), class_="line")])


def stale(row: Row, entry: Entry | None, now: datetime) -> list[Html]:
    """What has grown old: what was graded has changed since, or answers about the outside world are
    too old by now.
    """
    said = []
    if row.node.get("reason") == CHANGED:
        said.append(verdict("stale", CHANGED))
    answers = rows_of(entry.tree.get("gradings")) if entry is not None else []
    try:
        old = age_answers(answers, now)[1]
    except (AssayError, ValueError, TypeError):
        said.append(verdict("undetermined", "the age of its answers cannot be told"))
        old = []
    if old:
        n = len(
            {one.partition(":")[0].rpartition(" ")[2] for one in old}
        )  # the questions that the notes name
        said.append(
            join(
                [
                    verdict("stale", f"{n} answer{'s' if n != 1 else ''} too old by now"),
                    tag("small", f": {old[0]}"),
                ]
            )
        )
    return said


def cells(row: Row, entries: Sequence[Entry], system: Any, now: datetime) -> list[str]:
    """A node as a line of the table."""
    mine = own(row, entries)
    entry = deciding(row, mine)
    node = row.node
    reason = node.get("reason") if node.get("reason") != CHANGED else None
    told = [
        *stale(row, entry, now),
        *([str(reason)] if reason else []),
        *([str(node["note"])] if node.get("note") else []),
    ]
    name = link(row.name, row.href) if row.href else row.name
    bound = [short(node["boundTo"])] if node.get("boundTo") else []
    live = mapped(node.get("snapshot")).get("hash")
    if live:
        bound.append(join([tag("small", "source "), tag("code", str(live))]))
    past = tag("span", "none stored" if row.areas else "of its nodes", class_="absent")
    if mine and entry is not None:
        past = link(
            f"{len(mine)} grading{'s' if len(mine) != 1 else ''}",
            address("schemas", entry.item.digest),
        )
    return [
        tag("span", name, " ", tag("small", row.what), class_=f"depth depth-{row.depth}"),
        standing(node.get("status")),
        capped(node, node.get("gradingSystem") or system),
        number(
            node.get("normalizedScore"), digits=3, absent="no mean" if row.areas else "of its nodes"
        ),
        tier(row, entry),
        (
            join(part for one in bound for part in (one, " "))
            if bound
            else tag("span", "nothing", class_="absent")
        ),
        (
            join(tag("span", one, class_="line") for one in told)
            if told
            else tag("span", "nothing", class_="absent")
        ),
        past,
    ]


def graded_at(entry: Mapping[str, Any]) -> Html:
    """When an entry was made: its id says so."""
    moment = parse_stamp(str(entry.get("gradingId")).partition("--")[2])
    return when(iso(moment) if moment is not None else None)


def updated(index: Mapping[str, Any]) -> Html:
    """When the tree last changed."""
    moment = parse_stamp(str(index.get("updatedAt")))
    return when(iso(moment) if moment is not None else None, "never")
