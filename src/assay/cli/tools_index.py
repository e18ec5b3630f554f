"""`assay tools index` and `status`: the indexes of a grading tree, written and shown."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from assay.cli import options as opt
from assay.cli import tools_input as inp
from assay.cli.frame import STORE, Command, flag
from assay.cli.ledger import storing
from assay.errors import ExitCode, printable
from assay.records.tool_entry import (
    IndexNode,
    MemberNode,
    NamespaceIndex,
    SchemaNode,
    SelectionIndex,
    document,
)
from assay.tools.index import next_ungraded, nodes_of
from assay.tools.index_file import INDEX

_MARK = {
    "stable": ("●", "green"),
    "graded": ("◐", "yellow"),
    "pending": ("○", "dim"),
    "blocked": ("■", "yellow"),
    "rejected": ("✗", "red"),
}


def _index(options: argparse.Namespace) -> int:
    listed: list[dict[str, Any]] = []
    known: dict[str, NamespaceIndex | None] = {}
    with storing(options) as store:
        tree = inp.tree_of(options)
        named = inp.owners(tree, options.names)
        for kind, name in named:
            with tree.locked(kind, name):
                if options.lock and kind == "selections":
                    tree.take_lock(name, now=inp.now_of(options))
                index = tree.rebuild(kind, name, known=known)
            listed.append(
                {
                    "name": name,
                    "path": os.path.join(tree.home(kind, name), INDEX),
                    "status": index.status,
                    "grade": index.grade,
                    "blockers": document(index.blockers),
                }
            )
            if not options.json:
                count = len(index.blockers)
                sys.stdout.write(
                    f"{name}  {index.status}  {index.grade or 'no grade'}  {count}"
                    f" blocker{'s' if count != 1 else ''}\n"
                )
        inp.keep(store, tree, named)
    if options.json:
        opt.print_json({"indexes": listed})
    return ExitCode.PASSED


def _status(options: argparse.Namespace) -> int:
    tree = inp.tree_of(options)
    known: dict[str, NamespaceIndex | None] = {}
    indexes = [
        tree.index(kind, name, known=known) for kind, name in inp.owners(tree, options.names)
    ]
    if options.json:
        opt.print_json(
            {
                "trees": document(indexes),
                "next": [next_ungraded(index) for index in indexes],
                "policy": tree.rules.id,
                **tree.systems.document(),
            }
        )
        return ExitCode.PASSED
    for index in indexes:
        _print_tree(index)
        following = next_ungraded(index)
        if following is not None:
            sys.stdout.write(f"   next to grade: {following}\n")
    sys.stdout.write(f"policy {tree.rules.id} · {tree.systems.scoring} · {tree.systems.grading}\n")
    return ExitCode.PASSED


def _print_tree(index: NamespaceIndex | SelectionIndex) -> None:
    head = index.namespace if isinstance(index, NamespaceIndex) else index.selection_id
    versions = f"  {index.scoring_system} · {index.grading_system}" if index.scoring_system else ""
    sys.stdout.write(
        f"{opt.paint(head, 'bold', on=opt.colour())}  {index.status} "
        f" {index.grade or 'no grade'}{versions}\n"
    )
    rows = _rows(index)
    for position, (depth, name, node) in enumerate(rows):
        depths = [row[0] for row in rows[position + 1 :]]
        stem = "" if depth == 1 else "│  " if 1 in depths else "   "
        inside = depths[: depths.index(1)] if depth == 2 and 1 in depths else depths
        _print_node(f"{stem}{'├─' if depth in inside else '└─'}", name, node)
    for blocker in index.blockers:
        sys.stdout.write(f"   blocked: {blocker.node}: {blocker.reason}\n")


def _rows(
    index: NamespaceIndex | SelectionIndex,
) -> list[tuple[int, str, IndexNode | MemberNode | SchemaNode]]:
    """The nodes with their depth and name: first the wholes, then schemas with their tools, then
    skills and members.
    """
    order = {"schemas": 1, "skills": 2, "members": 3}
    rows: list[tuple[int, str, IndexNode | MemberNode | SchemaNode]] = []
    for path, node in sorted(nodes_of(index), key=lambda pair: order.get(_group(pair[0]), 0)):
        group, _, name = path.partition(".")
        if path.count(".") == 2 and path.endswith(".toolsAggregate"):
            continue
        if group == "schemas" and not isinstance(node, SchemaNode):
            rows.append((2, name.partition(".tools.")[2], node))
        else:
            label = {"skills": f"skill {name}", "schemas": name, "members": name}
            rows.append((1, label.get(group, group), node))
    return rows


def _group(path: str) -> str:
    return path.partition(".")[0]


def _print_node(stem: str, name: str, node: IndexNode | MemberNode | SchemaNode) -> None:
    mark, colour = _MARK[node.status]
    raw = node.raw_grade if isinstance(node, IndexNode) else None
    capped = f" (raw {raw})" if raw not in (None, node.grade) else ""
    reason = f"  {printable(node.reason)}" if node.reason else ""
    sys.stdout.write(
        f"{stem} {opt.paint(mark, colour, on=opt.colour())} {printable(name)}  {node.status} "
        f" {node.grade or '-'}{capped}{reason}\n"
    )


COMMANDS = {
    "tools index": Command(
        _index,
        "Rebuild index.json from the entries of a tree: the same bytes for the same tree. The"
        " frozen lock of a selection does not change.",
        "assay tools index --data grading-data",
        (
            inp.NAMES,
            flag(
                "--lock",
                "freeze the members of the named selections as they are, before they are graded",
            ),
            inp.DATA,
            *inp.RULES,
            "--now",
            *STORE,
        ),
    ),
    "tools status": Command(
        _status,
        "Show the nodes of a tree: status, grade, bindings, and what blocks each.",
        "assay tools status openmeteo",
        (inp.NAMES, inp.DATA, *inp.RULES),
    ),
}
