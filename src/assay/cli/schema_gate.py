"""`assay schema gate` and `export`: what of a grading tree may go out, and going out."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli import schema_input as inp
from assay.cli.ledger import add_store, storing
from assay.cli.schema_tree import owners
from assay.errors import ExitCode, InputError, UsageError
from assay.flowmcp import gate as gates
from assay.flowmcp import index as idx
from assay.flowmcp.checks import run_checks
from assay.flowmcp.manifest import snapshot_of, tools_of
from assay.flowmcp.versions import CURRENT
from assay.registry import near_miss

if TYPE_CHECKING:
    import argparse

    from assay.cli.keeping import Store
    from assay.flowmcp.tree import Tree


def run(action: str, argv: list[str]) -> int:
    """Run one of the actions of this file."""
    return {"gate": _gate, "export": _export}[action](argv)


def _gate(argv: list[str]) -> int:
    made = opt.parser(
        "schema gate",
        "The production gate: grade B or better, stable, no veto, a clean validation, no failing tool. What cannot be told does not pass (exit 4).",
        "assay schema gate openmeteo --bad-modules bad.json",
    )
    made.add_argument("names", nargs="+", metavar="NAMESPACE[.SCHEMA]", help="a whole namespace, or one of its schemas")
    inp.add_tree(made)
    inp.add_checks(made)
    inp.add_rules(made)
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _gated(options, store)


def _gated(options: argparse.Namespace, store: Store | None) -> int:
    tree, lists = inp.tree_of(options), inp.lists_of(options)
    results: list[gates.GateResult] = []
    indexes = []
    for name in options.names:
        namespace, _, schema = name.partition(".")
        if all(kind == "selections" for kind, _ in owners(tree, [namespace])):
            raise InputError("IDX-006", f"'{namespace}' is a selection.", fix="The production gate is for namespaces and their schemas.")
        tree.home("providers", namespace)
        index = idx.namespace_index(tree.root, namespace, tree.rules, systems=tree.systems)
        indexes.append(index)
        wanted = [schema] if schema else list(index["schemas"])
        if schema and schema not in index["schemas"]:
            raise InputError("IDX-006", f"'{namespace}' has no schema '{schema}'.{near_miss(schema, index['schemas'])}", where=tree.root)
        results += [_gate_schema(tree, namespace, one, index, lists) for one in wanted]
        if not schema:
            results.append(gates.namespace_gate(namespace, index, tree.rules))
    passed = bool(results) and all(result.passed for result in results)
    document = {
        "passed": passed,
        "results": [result.document() for result in results],
        "policy": tree.rules.id,
        "scoringSystem": CURRENT.scoring,
        "gradingSystem": CURRENT.grading,
    }
    if store is not None:
        from assay.cli.kept import schema_gate_drafts

        store.put(schema_gate_drafts(document, indexes))
    if options.json:
        opt.print_json(document)
    else:
        on = opt.colour()
        for result in results:
            word = opt.paint("PASS", "green", on=on) if result.passed else opt.paint("UNDETERMINED" if result.undetermined else "FAIL", "red", on=on)
            sys.stdout.write(f"{word}  {result.subject}\n")
            for rule in result.rules:
                mark = {True: "✓", False: "✗", None: "?"}[rule.holds]
                sys.stdout.write(f"  {mark} {rule.id}: {rule.reason}\n")
        sys.stdout.write(f"policy {tree.rules.id} · {CURRENT.scoring} · {CURRENT.grading}\n")
    if passed:
        return ExitCode.PASSED
    return ExitCode.NOT_ENOUGH if all(result.passed or result.undetermined for result in results) else ExitCode.FAILED


def _gate_schema(tree: Tree, namespace: str, name: str, index: dict[str, Any], lists: inp.Lists) -> gates.GateResult:
    from assay.flowmcp.assess import assess
    from assay.flowmcp.hashing import hash8
    from assay.flowmcp.reading.files import read_schema

    subject, node = f"{namespace}.{name}", index["schemas"].get(name)
    snapshot = snapshot_of(os.path.join(tree.home("providers", namespace), name), name)
    if node is None or snapshot is None:
        return gates.schema_gate(subject, node, tree.rules, findings=None, checks=None)
    path = os.path.join(tree.home("providers", namespace), name, snapshot.file)
    try:
        schema = read_schema(path)
    except InputError as error:
        return gates.schema_gate(subject, node, tree.rules, findings=None, checks=None, unread=str(error))
    if hash8(schema.main) != snapshot.hash8:
        return gates.schema_gate(subject, node, tree.rules, findings=None, checks=None, unread=f"{snapshot.file} was changed: its hash is {hash8(schema.main)}")
    return gates.schema_gate(
        subject,
        node,
        tree.rules,
        findings=assess(schema),
        checks=run_checks(schema, lists=lists.modules, aliases=lists.aliases),
        tools=list(tools_of(schema.main)),
        rejected=gates.rejected_beside(index, name),
    )


def _export(argv: list[str]) -> int:
    made = opt.parser(
        "schema export",
        "Write a namespace or selection into a fresh folder in its strict published form: the index first, sources under their plain names, strict entries.",
        "assay schema export openmeteo -o out/openmeteo",
    )
    made.add_argument("name", metavar="NAME", help="a namespace or selection")
    made.add_argument("-o", "--output", metavar="DIR", required=True, help="a folder that is not there yet, or empty")
    inp.add_tree(made)
    inp.add_rules(made)
    options = made.parse_args(argv)
    tree = inp.tree_of(options)
    kind, name = owners(tree, [options.name])[0]
    target = os.path.abspath(options.output)
    if os.path.commonpath([target, tree.root]) == tree.root:
        raise UsageError("CLI-001", "the export lies inside the tree.", fix="Export into a folder outside it.")
    with tree.locked(kind, name):
        written = tree.export(kind, name, target)
    extended = len(tree.entry_paths(kind, name)) - sum(path.endswith(".json") and "_gradings" in path for path in written)
    if options.json:
        opt.print_json({"written": written, "extendedEntriesLeftOut": extended})
    else:
        sys.stdout.writelines(f"{path}\n" for path in written)
        if extended:
            sys.stdout.write(f"{extended} entries of the extended form were left out: the strict form cannot say what they say\n")
    return ExitCode.PASSED
