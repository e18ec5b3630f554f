"""`assay tools gate` and `export`: decide what a grading tree may publish, and publish it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import convert

from assay.canon import canonical
from assay.cli import options as opt
from assay.cli import tools_input as inp
from assay.cli.frame import STORE, Command, arg
from assay.cli.ledger import storing
from assay.errors import ExitCode, InputError, UsageError, count
from assay.files.json_files import parse_json
from assay.records.tool_entry import NamespaceIndex
from assay.tools.gate import (
    GateEvidence,
    SchemaSource,
    ToolGateResult,
    decide,
    gate_document,
    schemas_named,
    unread_reason,
)
from assay.tools.index import namespace_index
from assay.tools.intake import export
from assay.tools.names import GRADINGS
from assay.tools.reading.files import source_of
from assay.tools.tree import Tree

if TYPE_CHECKING:
    from assay.archive.store import Store


def _gate(options: argparse.Namespace) -> int:
    with storing(options) as store:
        tree = inp.tree_of(options)
        evidence = _evidence(tree, options.names, inp.lists_of(options), store)
        results = decide(options.names, evidence, tree.rules)
        document = gate_document(results, tree.rules)
        if store is not None:
            from assay.archive.records import schema_gate_drafts

            store.put(schema_gate_drafts(document, options.names, evidence, tree.rules))
    if options.json:
        opt.print_json(document)
    else:
        for result in results:
            _print_result(result)
        sys.stdout.write(
            f"policy {tree.rules.id} · {tree.systems.scoring} · {tree.systems.grading}\n"
        )
    if document["passed"]:
        return ExitCode.PASSED
    shown_violated = any(not (result.passed or result.undetermined) for result in results)
    return ExitCode.FAILED if shown_violated else ExitCode.NOT_ENOUGH


def _print_result(result: ToolGateResult) -> None:
    word = "PASS" if result.passed else "UNDETERMINED" if result.undetermined else "FAIL"
    word = opt.paint(word, "green" if result.passed else "red", on=opt.colour())
    sys.stdout.write(f"{word}  {result.subject}\n")
    for rule in result.rules:
        mark = {True: "✓", False: "✗", None: "?"}[rule.holds]
        sys.stdout.write(f"  {mark} {rule.id}: {rule.reason}\n")


def _evidence(tree: Tree, names: list[str], lists: inp.Lists, store: Store | None) -> GateEvidence:
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
            indexes[namespace] = convert(parse_json(canonical(index)), NamespaceIndex)
        for schema in schemas_named(name, indexes[namespace], where=inp.shown_path(tree.root)):
            snapshot = indexes[namespace].schemas[schema].snapshot
            if snapshot is not None:
                home = os.path.join(tree.home("providers", namespace), schema)
                sources.setdefault(f"{namespace}.{schema}", _source(home, snapshot.file))
    return GateEvidence(indexes, sources, lists.modules, lists.aliases)


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


def _export(options: argparse.Namespace) -> int:
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
    if options.json:
        opt.print_json({"written": written, "extendedEntriesLeftOut": extended})
        return ExitCode.PASSED
    sys.stdout.writelines(f"{inp.shown_path(path)}\n" for path in written)
    if extended:
        sys.stdout.write(
            f"left out {count(extended, 'entry', 'entries')} of the extended form, which the strict"
            " form can't contain\n"
        )
    return ExitCode.PASSED


COMMANDS = {
    "tools gate": Command(
        _gate,
        "The production gate: grade B or better, stable, no veto, a clean validation, no"
        " failing tool. Undetermined does not pass (exit 4).",
        "assay tools gate openmeteo --bad-modules bad.json",
        (
            arg(
                "names",
                nargs="+",
                metavar="NAMESPACE[.SCHEMA]",
                help="a whole namespace, or one of its schemas",
            ),
            inp.DATA,
            *inp.CHECKS,
            *inp.RULES,
            *STORE,
        ),
    ),
    "tools export": Command(
        _export,
        "Write a namespace or selection into a fresh folder in its strict published form: the index"
        " first, sources under their plain names, strict entries.",
        "assay tools export openmeteo -o out/openmeteo",
        (
            arg("name", metavar="NAME", help="a namespace or selection"),
            arg(
                "-o",
                "--output",
                metavar="DIR",
                required=True,
                help="a folder that does not exist yet, or is empty",
            ),
            inp.DATA,
            *inp.RULES,
        ),
    ),
}
