"""`assay tools index`, `status`, `gate` and `export`: the indexes of a grading tree, written and
shown; what the tree may publish, and its published form.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from assay.canon import canonical
from assay.cli import options as opt
from assay.cli import tools_input as inp
from assay.cli.frame import STORE, Command, Options, arg, flag
from assay.cli.ledger import stored
from assay.errors import ExitCode, InputError, UsageError, count, printable
from assay.files.json_files import parse_json
from assay.records.tool_entry import (
    IndexNode,
    MemberNode,
    NamespaceIndex,
    SchemaNode,
    SelectionIndex,
    document,
)
from assay.records.tool_gate import ToolGateResult
from assay.records.typed import convert
from assay.tools.gate import (
    GateEvidence,
    SchemaSource,
    decide,
    schemas_named,
    unread_reason,
)
from assay.tools.index import namespace_index, next_ungraded, nodes_of
from assay.tools.index_file import INDEX
from assay.tools.intake import export
from assay.tools.names import GRADINGS, parse_stamp
from assay.tools.reading.files import source_of
from assay.tools.regrade import stale_nodes
from assay.tools.tree import Tree, next_moment

if TYPE_CHECKING:
    from datetime import datetime

    from assay.archive.store import Store


def _gate(options: Options, store: Store | None) -> int:
    tree = inp.tree_of(options)
    evidence = _evidence(tree, options.names, inp.lists_of(options), store, now=inp.now_of(options))
    gate = decide(options.names, evidence, tree.rules)
    if store is not None:
        from assay.archive.records import schema_gate_drafts

        store.put(schema_gate_drafts(gate, options.names, evidence, tree.rules))
    failed = ExitCode.FAILED if gate.violated else ExitCode.NOT_ENOUGH
    lines = chain(
        *map(_lines, gate.results),
        [inp.policy_line(tree)],
    )
    return opt.give(options, gate, lines, ExitCode.PASSED if gate.passed else failed)


def _lines(result: ToolGateResult) -> Iterator[str]:
    word = "PASS" if result.passed else "FAIL" if result.violated else "UNDETERMINED"
    yield f"{opt.paint(word, 'green' if result.passed else 'red')}  {result.subject}"
    for rule in result.rules:
        mark = {True: "✓", False: "✗", None: "?"}[rule.holds]
        yield f"  {mark} {rule.id}: {printable(rule.reason)}"


def _evidence(
    tree: Tree, names: list[str], lists: inp.Lists, store: Store | None, *, now: datetime
) -> GateEvidence:
    """What the tree holds of all that is asked for, each thing read once. A replay reads it from a
    ledger, so keys come in the order that it has there.

    A ledger also remembers: an entry that it knows and that the tree has lost closes the gate.
    """
    indexes: dict[str, NamespaceIndex] = {}
    sources: dict[str, SchemaSource] = {}
    for name in names:
        namespace = name.partition(".")[0]
        if namespace not in indexes:
            if all(kind == "selections" for kind, _ in inp.owners(tree, [namespace])):
                raise InputError(
                    "IDX-006",
                    f"'{namespace}' is a selection.",
                    fix="The production gate takes namespaces and their schemas.",
                )
            tree.home("providers", namespace)
            index = namespace_index(
                tree.root, namespace, tree.rules, also=_stored_indexes(store, namespace)
            )
            # an entry from the future would decide over all that are recorded until then
            next_moment(parse_stamp(index.updated_at), now, inp.shown_path(tree.root))
            indexes[namespace] = convert(parse_json(canonical(index)), NamespaceIndex)
        for schema in schemas_named(name, indexes[namespace], where=inp.shown_path(tree.root)):
            snapshot = indexes[namespace].schemas[schema].snapshot
            if snapshot is not None:
                home = os.path.join(tree.home("providers", namespace), schema)
                sources.setdefault(f"{namespace}.{schema}", _source(home, snapshot.file))
    stale = {name: stale_nodes(tree, index, now=now) for name, index in indexes.items()}
    return GateEvidence(indexes, sources, lists.modules, lists.aliases, stale)


def _stored_indexes(store: Store | None, namespace: str) -> Iterator[dict[str, Any]]:
    """Every index of a namespace that a ledger keeps."""
    for item in () if store is None else store.ledger.each("index", project=store.project):
        index = item.tree()
        if index.get("namespace") == namespace:
            yield index


def _source(home: str, file: str) -> SchemaSource:
    try:
        return SchemaSource(file, source_of(os.path.join(home, file)))
    except InputError as error:
        return SchemaSource(file, None, unread_reason(file, error))


def _export(options: Options) -> int:
    tree = inp.tree_of(options)
    kind, name = inp.owners(tree, [options.name])[0]
    target = os.path.abspath(options.output)
    if os.path.commonpath([target, tree.root]) == tree.root:
        raise UsageError(
            "CLI-001",
            "the export folder is inside the tree.",
            fix="Export into a folder outside it.",
        )
    with tree.locked(kind, name):
        written = export(tree, kind, name, target)
        strict = sum(path.endswith(".json") and GRADINGS in path for path in written)
        extended = len(tree.entry_paths(kind, name)) - strict
    lines = [inp.shown_path(path) for path in written]
    if extended:
        lines.append(
            f"left out {count(extended, 'entry', 'entries')} of the extended form, which the strict"
            " form can't contain"
        )
    return opt.give(options, {"written": written, "extendedEntriesLeftOut": extended}, lines)


_MARK = {
    "stable": ("●", "green"),
    "graded": ("◐", "yellow"),
    "pending": ("○", "dim"),
    "blocked": ("■", "yellow"),
    "rejected": ("✗", "red"),
}


def _index(options: Options, store: Store | None) -> int:
    listed: list[dict[str, Any]] = []
    known: dict[str, NamespaceIndex | None] = {}
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
    inp.keep(store, tree, named)
    lines = [
        f"{entry['name']}  {entry['status']}  {entry['grade'] or 'no grade'} "
        f" {count(len(entry['blockers']), 'blocker')}"
        for entry in listed
    ]
    lines.append(inp.policy_line(tree))
    shown = {"indexes": listed, "policy": tree.rules.id, **tree.rules.systems.document()}
    return opt.give(options, shown, lines)


def _status(options: Options) -> int:
    tree = inp.tree_of(options)
    known: dict[str, NamespaceIndex | None] = {}
    indexes = [
        tree.index(kind, name, known=known) for kind, name in inp.owners(tree, options.names)
    ]
    shown = {
        "trees": document(indexes),
        "next": [next_ungraded(index) for index in indexes],
        "policy": tree.rules.id,
        **tree.rules.systems.document(),
    }
    lines = chain(
        *map(_tree_lines, indexes),
        [inp.policy_line(tree)],
    )
    return opt.give(options, shown, lines)


def _tree_lines(index: NamespaceIndex | SelectionIndex) -> Iterator[str]:
    head = index.namespace if isinstance(index, NamespaceIndex) else index.selection_id
    versions = f"  {index.scoring_system} · {index.grading_system}" if index.scoring_system else ""
    yield f"{opt.paint(head, 'bold')}  {index.status}  {index.grade or 'no grade'}{versions}"
    rows = _rows(index)
    for position, (depth, name, node) in enumerate(rows):
        depths = [row[0] for row in rows[position + 1 :]]
        stem = "" if depth == 1 else "│  " if 1 in depths else "   "
        inside = depths[: depths.index(1)] if depth == 2 and 1 in depths else depths
        yield _node_line(f"{stem}{'├─' if depth in inside else '└─'}", name, node)
    yield from (
        printable(f"   blocked: {blocker.node}: {blocker.reason}") for blocker in index.blockers
    )
    if (following := next_ungraded(index)) is not None:
        yield f"   next to grade: {following}"


def _rows(
    index: NamespaceIndex | SelectionIndex,
) -> list[tuple[int, str, IndexNode | MemberNode | SchemaNode]]:
    """The nodes with their depth and name: first the wholes, then schemas with their tools, then
    skills and members.
    """
    order = {"schemas": 1, "skills": 2, "members": 3}
    rows: list[tuple[int, str, IndexNode | MemberNode | SchemaNode]] = []
    for path, node in sorted(
        nodes_of(index), key=lambda pair: order.get(pair[0].partition(".")[0], 0)
    ):
        group, _, name = path.partition(".")
        if path.count(".") == 2 and path.endswith(".toolsAggregate"):
            continue
        if group == "schemas" and not isinstance(node, SchemaNode):
            rows.append((2, name.partition(".tools.")[2], node))
        else:
            label = {"skills": f"skill {name}", "schemas": name, "members": name}
            rows.append((1, label.get(group, group), node))
    return rows


def _node_line(stem: str, name: str, node: IndexNode | MemberNode | SchemaNode) -> str:
    mark, colour = _MARK[node.status]
    raw = node.raw_grade if isinstance(node, IndexNode) else None
    capped = f" (raw {raw})" if raw not in (None, node.grade) else ""
    reason = f"  {printable(node.reason)}" if node.reason else ""
    return (
        f"{stem} {opt.paint(mark, colour)} {printable(name)}  {node.status} "
        f" {node.grade or '-'}{capped}{reason}"
    )


COMMANDS = {
    "tools gate": Command(
        stored(_gate),
        "Decide whether a schema or namespace may go into production: grade B or better, stable,"
        " no veto, a clean validation, no failing tool. Undetermined does not pass (exit 4).",
        "assay tools gate openmeteo --bad-modules bad.json",
        (
            arg(
                "names",
                kind="text",
                nargs="+",
                metavar="NAMESPACE[.SCHEMA]",
                help="a whole namespace, or one of its schemas",
            ),
            inp.DATA,
            *inp.CHECKS,
            *inp.RULES,
            "--now",
            *STORE,
        ),
    ),
    "tools export": Command(
        _export,
        "Write a namespace or selection into a fresh folder in its strict published form: the index"
        " first, sources under their plain names, strict entries.",
        "assay tools export openmeteo -o out/openmeteo",
        (
            arg("name", kind="text", metavar="NAME", help="a namespace or selection"),
            arg(
                "-o",
                "--output",
                kind="path",
                metavar="DIR",
                required=True,
                help="a folder that does not exist yet, or is empty",
            ),
            inp.DATA,
            *inp.RULES,
        ),
    ),
    "tools index": Command(
        stored(_index),
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
