"""`assay tools gate` and `export`: what of a grading tree may go out, and going out."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from assay.canon import canonical
from assay.cli import options as opt
from assay.cli import schema_input as inp
from assay.cli.ledger import add_store, storing
from assay.cli.schema_tree import owners
from assay.errors import ExitCode, InputError, UsageError
from assay.files.json_files import parse_json
from assay.tools import index as idx

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from assay.archive.store import Store
    from assay.tools.gating import Held, Source
    from assay.tools.tree import Tree


def run(action: str, argv: list[str]) -> int:
    """Run one of the actions of this file."""
    return {"gate": _gate, "export": _export}[action](argv)


def _gate(argv: list[str]) -> int:
    made = opt.parser(
        "tools gate",
        "The production gate: grade B or better, stable, no veto, a clean validation, no failing"
        " tool. What cannot be told does not pass (exit 4).",
        "assay tools gate openmeteo --bad-modules bad.json",
    )
    made.add_argument(
        "names",
        nargs="+",
        metavar="NAMESPACE[.SCHEMA]",
        help="a whole namespace, or one of its schemas",
    )
    inp.add_tree(made)
    inp.add_checks(made)
    inp.add_rules(made)
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _gated(options, store)


def _gated(options: argparse.Namespace, store: Store | None) -> int:
    from assay.tools.gating import decide, gate_document

    tree = inp.tree_of(options)
    held = _held(tree, options.names, inp.lists_of(options), store)
    results = decide(options.names, held, tree.rules)
    document = gate_document(results, tree.rules)
    if store is not None:
        from assay.archive.records import schema_gate_drafts

        store.put(schema_gate_drafts(document, options.names, held, tree.rules))
    if options.json:
        opt.print_json(document)
    else:
        on = opt.colour()
        for result in results:
            word = (
                opt.paint("PASS", "green", on=on)
                if result.passed
                else opt.paint("UNDETERMINED" if result.undetermined else "FAIL", "red", on=on)
            )
            sys.stdout.write(f"{word}  {result.subject}\n")
            for rule in result.rules:
                mark = {True: "✓", False: "✗", None: "?"}[rule.holds]
                sys.stdout.write(f"  {mark} {rule.id}: {rule.reason}\n")
        sys.stdout.write(
            f"policy {tree.rules.id} · {tree.systems.scoring} · {tree.systems.grading}\n"
        )
    if document["passed"]:
        return ExitCode.PASSED
    return (
        ExitCode.NOT_ENOUGH
        if all(result.passed or result.undetermined for result in results)
        else ExitCode.FAILED
    )


def _held(tree: Tree, asked: list[str], lists: inp.Lists, store: Store | None) -> Held:
    """What the tree holds of all that is asked for, each thing read once. A replay reads it from a
    ledger, so keys come in the order that it has there.

    A ledger also remembers: an entry that it knows and that the tree has lost closes the gate.
    """
    from assay.tools.gating import Held, asked_of

    indexes: dict[str, dict[str, Any]] = {}
    sources: dict[str, Source] = {}
    for name in asked:
        namespace, _, _ = name.partition(".")
        if namespace not in indexes:
            if all(kind == "selections" for kind, _ in owners(tree, [namespace])):
                raise InputError(
                    "IDX-006",
                    f"'{namespace}' is a selection.",
                    fix="The production gate is for namespaces and their schemas.",
                )
            tree.home("providers", namespace)
            found = idx.namespace_index(
                tree.root,
                namespace,
                tree.rules,
                systems=tree.systems,
                also=_stored_indexes(store, namespace),
            )
            indexes[namespace] = parse_json(canonical(found))
        for schema in asked_of(name, indexes[namespace], where=tree.root):
            source = _source(tree, namespace, schema, indexes[namespace])
            if source is not None:
                sources.setdefault(f"{namespace}.{schema}", source)
    return Held(indexes, sources, lists.modules, lists.aliases)


def _stored_indexes(store: Store | None, namespace: str) -> Iterator[dict[str, Any]]:
    """Every index of a namespace that a ledger keeps."""
    after = None
    while store is not None:
        page = store.ledger.find("index", project=store.project, after=after, limit=1000)
        yield from (
            index
            for item in page.items
            if item.body is not None and (index := item.tree()).get("namespace") == namespace
        )
        after = page.next_cursor
        if after is None:
            return


def _source(tree: Tree, namespace: str, schema: str, index: dict[str, Any]) -> Source | None:
    """The snapshot of a schema; None where the tree holds none."""
    from assay.tools.gating import Source, unread_reason
    from assay.tools.reading.files import source_of

    snapshot = index["schemas"][schema].get("snapshot")
    if snapshot is None:
        return None
    try:
        return Source(
            snapshot["file"],
            source_of(os.path.join(tree.home("providers", namespace), schema, snapshot["file"])),
        )
    except InputError as error:
        return Source(snapshot["file"], None, unread_reason(snapshot["file"], error))


def _export(argv: list[str]) -> int:
    made = opt.parser(
        "tools export",
        "Write a namespace or selection into a fresh folder in its strict published form: the index"
        " first, sources under their plain names, strict entries.",
        "assay tools export openmeteo -o out/openmeteo",
    )
    made.add_argument("name", metavar="NAME", help="a namespace or selection")
    made.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        required=True,
        help="a folder that is not there yet, or empty",
    )
    inp.add_tree(made)
    inp.add_rules(made)
    options = made.parse_args(argv)
    tree = inp.tree_of(options)
    kind, name = owners(tree, [options.name])[0]
    target = os.path.abspath(options.output)
    if os.path.commonpath([target, tree.root]) == tree.root:
        raise UsageError(
            "CLI-001", "the export lies inside the tree.", fix="Export into a folder outside it."
        )
    with tree.locked(kind, name):
        written = tree.export(kind, name, target)
    extended = len(tree.entry_paths(kind, name)) - sum(
        path.endswith(".json") and "_gradings" in path for path in written
    )
    if options.json:
        opt.print_json({"written": written, "extendedEntriesLeftOut": extended})
    else:
        sys.stdout.writelines(f"{path}\n" for path in written)
        if extended:
            sys.stdout.write(
                f"{extended} entries of the extended form were left out: the strict form cannot say"
                " what they say\n"
            )
    return ExitCode.PASSED
