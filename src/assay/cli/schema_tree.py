"""`assay tools import`, `record`, `index`, `status` and `regrade`: the grading tree."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli import schema_input as inp
from assay.cli.ledger import add_store, storing
from assay.errors import ExitCode, InputError, UsageError, printable
from assay.files.json_files import parse_json, read_json
from assay.registry import near_miss
from assay.tools import index as idx
from assay.tools.entry import TRIGGERS
from assay.tools.names import FULL, PARTIAL
from assay.tools.selection import check_selection

if TYPE_CHECKING:
    import argparse

    from assay.archive.store import Store
    from assay.tools.tree import Tree

KINDS = {"providers": "namespace", "selections": "selection"}


def run(action: str, argv: list[str]) -> int:
    """Run one of the actions of this file."""
    return {
        "import": _import,
        "record": _record,
        "index": _index,
        "status": _status,
        "regrade": _regrade,
    }[action](argv)


def owners(tree: Tree, names: list[str]) -> list[tuple[str, str]]:
    """The namespaces and selections of those names; all of the tree where none is named."""
    known = [(kind, name) for kind in KINDS for name in tree.names(kind)]
    if not names:
        if not known:
            raise InputError(
                "IDX-006",
                "the tree is empty.",
                where=tree.root,
                fix="Import something first: `assay tools import`.",
            )
        return known
    found = []
    for name in names:
        hits = [pair for pair in known if pair[1] == name]
        if not hits:
            raise InputError(
                "IDX-006",
                "there is no namespace or selection"
                f" '{name}'.{near_miss(name, [pair[1] for pair in known])}",
                where=tree.root,
            )
        found += hits
    return found


def keep(store: Store | None, tree: Tree, pairs: list[tuple[str, str]]) -> None:
    """Store the entries and the index of these namespaces and selections; nothing where no store
    was asked for. What is there already is not stored again.
    """
    if store is not None:
        from assay.archive.records import tree_drafts

        store.put(*(tree_drafts(tree, kind, name) for kind, name in pairs))


# --- import


def _import(argv: list[str]) -> int:
    made = opt.parser(
        "tools import",
        "Put schemas, or a selection .json, into a grading tree: what is new is created, what"
        " changed is added beside the old, the rest is skipped.",
        "assay tools import schemas/openmeteo --data grading-data",
    )
    inp.add_source(made)
    made.add_argument(
        "--strict-2",
        action="store_true",
        help="abort when a folder holds several namespaces, as gradingSpec 2.0 does",
    )
    inp.add_tree(made)
    inp.add_rules(made)
    inp.add_clock(made)
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _imported(options, store)


def _imported(options: argparse.Namespace, store: Store | None) -> int:
    tree, now = inp.tree_of(options, must_exist=False), inp.now_of(options)
    if options.path and options.path.endswith(".json") and os.path.isfile(options.path):
        document = read_json(options.path, lone_surrogates=True).tree
        if isinstance(document, dict) and "selectionId" in document:
            check_selection(document, options.path)
            with tree.locked("selections", str(document["selectionId"])):
                written = [tree.import_selection(document, options.path, now=now)]
                tree.rebuild("selections", str(document["selectionId"]))
            keep(store, tree, [("selections", str(document["selectionId"]))])
            return _print_import(options, written, [], several=False)
    from assay.tools.assess import assess
    from assay.tools.intake import import_one

    sources = inp.read_sources(options)
    namespaces = sorted({schema.namespace for schema in sources.schemas})
    if len(namespaces) > 1 and options.strict_2:
        raise InputError(
            "FMC-008",
            f"the folder holds {len(namespaces)} namespaces: {', '.join(namespaces)}.",
            where=str(options.path),
            fix="One folder, one namespace.",
        )
    written = [import_one(tree, schema, assess(schema), now=now) for schema in sources.schemas]
    keep(store, tree, [("providers", namespace) for namespace in namespaces])
    return _print_import(
        options, written, sources.unread, several=len(namespaces) > 1 and sources.folder
    )


def _print_import(
    options: argparse.Namespace, written: list[Any], unread: list[InputError], *, several: bool
) -> int:
    blocked = [item for item in written if item.action == "blocked"]
    if options.json:
        opt.print_json(
            {
                "imported": [item._asdict() for item in written],
                "refused": [
                    {
                        "file": error.where,
                        "code": error.code,
                        "message": error.message,
                        "fix": error.fix,
                    }
                    for error in unread
                ],
                "severalNamespaces": several,
            }
        )
    else:
        for item in written:
            sys.stdout.write(
                f"{item.action:<11}  {item.schema} "
                f" {item.path}{f'  {item.reason}' if item.reason else ''}\n"
            )
        for error in unread:
            sys.stdout.write(f"refused      {error} [{error.code}]\n")
        if several:
            sys.stdout.write(
                "warning: the folder holds several namespaces; each went into its own. One folder"
                " should hold one.\n"
            )
    if unread:
        return ExitCode.MALFORMED
    return ExitCode.FAILED if blocked or several else ExitCode.PASSED


# --- record


def _record(argv: list[str]) -> int:
    made = opt.parser(
        "tools record",
        "Write a grading entry from an evaluator's answers. Several files of one area (a"
        " deterministic and a judged block) become one entry.",
        "assay tools record answers.json --namespace openmeteo --schema air --tool getCurrent",
    )
    made.add_argument(
        "files",
        nargs="+",
        metavar="ENVELOPE",
        help=(
            "answers to the questions of one area, as JSON or YAML;"
            " docs/how-to/grade-tool-schemas.md shows one"
        ),
    )
    for name in ("namespace", "schema", "tool", "skill", "selection"):
        made.add_argument(
            f"--{name}",
            metavar="NAME",
            help=f"the {name} that is graded, where the envelope does not say",
        )
    made.add_argument(
        "--questions",
        metavar="FILE",
        help=(
            'a catalogue of questions, kept in the tree: {"Q-...": {"area", "weight",'
            ' "determinism", "scoreType", "dimension", "naReasons"}}'
        ),
    )
    made.add_argument(
        "--mode",
        choices=(FULL, PARTIAL),
        default=FULL,
        help=(
            "full computes a new grade; partial answers some questions and keeps the last one"
            " (default: full)"
        ),
    )
    made.add_argument(
        "--harness",
        metavar="NAME",
        help="what drove the evaluation, where the envelope does not say",
    )
    _add_trigger(made, required=False)
    inp.add_tree(made)
    inp.add_rules(made)
    inp.add_clock(made)
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _recorded(options, store)


def _recorded(options: argparse.Namespace, store: Store | None) -> int:
    from assay.tools.record import PLACE, Trigger, record
    from assay.tools.regrade import Place

    tree = inp.tree_of(options)
    envelopes = [_object(path) for path in options.files]
    catalogue = _object(options.questions) if options.questions else {}
    if (options.issue or options.by) and not options.trigger:
        raise UsageError(
            "CLI-001",
            "--issue and --by say why something is graded again.",
            fix="Give --trigger user-report with them.",
        )
    trigger = Trigger(options.trigger, options.issue, options.by) if options.trigger else None
    place = {name: getattr(options, name) for name in PLACE if getattr(options, name)}
    path, names, built = record(
        tree,
        envelopes,
        place,
        now=inp.now_of(options),
        catalogue=catalogue,
        mode=options.mode,
        trigger=trigger,
        harness=options.harness,
    )
    entry = parse_json(_bytes(path))
    grade = entry["aggregateGrade"]
    status = tree.shown_status(entry["area"], names)
    inp.progress(
        entry["area"],
        Place("", "", entry["area"], names).primitive,
        status,
        valid=True,
        written=True,
    )
    inp.progress_count(1, 1)
    owner = (
        ("selections", names["selection"])
        if "selection" in names
        else ("providers", names["namespace"])
    )
    keep(store, tree, [owner])
    if options.json:
        opt.print_json(
            {
                "path": path,
                "entry": entry,
                "notes": [*built.result.notes, *built.result.warnings] if built else [],
            }
        )
    else:
        sys.stdout.write(f"{grade or status}  {path}\n")
        for note in (*built.result.notes, *built.result.warnings) if built else ():
            sys.stdout.write(f"  {note}\n")
    return ExitCode.PASSED


def _bytes(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _object(path: str) -> dict[str, Any]:
    tree = inp.read_data(path)
    if not isinstance(tree, dict):
        raise InputError("FMC-012", "is no JSON object.", where=path)
    return tree


def _add_trigger(made: argparse.ArgumentParser, *, required: bool) -> None:
    made.add_argument(
        "--trigger", choices=TRIGGERS, required=required, help="why it is graded again"
    )
    made.add_argument("--issue", metavar="TEXT", help="with user-report: what was reported")
    made.add_argument("--by", metavar="NAME", help="with user-report: by whom")


# --- index and status


def _index(argv: list[str]) -> int:
    made = opt.parser(
        "tools index",
        "Make index.json anew from the entries of a tree: the same bytes for the same tree. The"
        " frozen lock of a selection stays as it is.",
        "assay tools index --data grading-data",
    )
    made.add_argument(
        "names", nargs="*", metavar="NAME", help="namespaces or selections (default: all)"
    )
    made.add_argument(
        "--lock",
        action="store_true",
        help="freeze the members of the named selections as they stand, before they are graded",
    )
    inp.add_tree(made)
    inp.add_rules(made)
    inp.add_clock(made)
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _indexed(options, store)


def _indexed(options: argparse.Namespace, store: Store | None) -> int:
    tree = inp.tree_of(options)
    known: dict[str, dict[str, Any]] = {}
    listed: list[dict[str, Any]] = []
    named = owners(tree, options.names)
    for kind, name in named:
        with tree.locked(kind, name):
            if options.lock and kind == "selections":
                tree.take_lock(name, now=inp.now_of(options))
            found = tree.rebuild(kind, name, known=known if kind == "selections" else None)
        row = {
            "name": name,
            "path": os.path.join(tree.home(kind, name), idx.INDEX),
            "status": found["status"],
            "grade": found.get("grade"),
            "blockers": found["blockers"],
        }
        if options.json:
            listed.append(row)
        else:
            sys.stdout.write(
                f"{name}  {found['status']}  {found.get('grade', 'no grade')} "
                f" {_counted(found['blockers'])}\n"
            )
    keep(store, tree, named)
    if options.json:
        opt.print_json({"indexes": listed})
    return ExitCode.PASSED


def _counted(blockers: list[Any]) -> str:
    return f"{len(blockers)} blocker{'s' if len(blockers) != 1 else ''}"


_MARK = {
    "stable": ("●", "green"),
    "graded": ("◐", "yellow"),
    "pending": ("○", "dim"),
    "blocked": ("■", "yellow"),
    "rejected": ("✗", "red"),
}


def _status(argv: list[str]) -> int:
    made = opt.parser(
        "tools status",
        "The nodes of a tree: status, grade, what it is bound to, and what stands in the way.",
        "assay tools status openmeteo",
    )
    made.add_argument(
        "names", nargs="*", metavar="NAME", help="namespaces or selections (default: all)"
    )
    inp.add_tree(made)
    inp.add_rules(made)
    options = made.parse_args(argv)
    tree = inp.tree_of(options)
    known: dict[str, dict[str, Any]] = {}
    found = []
    for kind, name in owners(tree, options.names):
        tree.home(kind, name)
        if kind == "providers":
            found.append(idx.namespace_index(tree.root, name, tree.rules, systems=tree.systems))
        else:
            found.append(
                idx.selection_index(
                    tree.root, name, tree.rules, systems=tree.systems, namespaces=known
                )
            )
    if options.json:
        opt.print_json(
            {
                "trees": found,
                "next": [idx.next_ungraded(index) for index in found],
                "policy": tree.rules.id,
                "scoringSystem": tree.systems.scoring,
                "gradingSystem": tree.systems.grading,
            }
        )
        return ExitCode.PASSED
    for index in found:
        _print_tree(index)
        following = idx.next_ungraded(index)
        if following is not None:
            sys.stdout.write(f"   next to grade: {following}\n")
    sys.stdout.write(f"policy {tree.rules.id} · {tree.systems.scoring} · {tree.systems.grading}\n")
    return ExitCode.PASSED


def _print_tree(index: dict[str, Any]) -> None:
    on = opt.colour()
    head = index.get("namespace") or index.get("selectionId")
    versions = (
        f"  {index['scoringSystem']} · {index['gradingSystem']}" if "scoringSystem" in index else ""
    )
    sys.stdout.write(
        f"{opt.paint(str(head), 'bold', on=on)}  {index['status']} "
        f" {index.get('grade', 'no grade')}{versions}\n"
    )
    rows: list[tuple[int, str, dict[str, Any]]] = []
    for key in ("about", "description", "namespaceAggregate", "selectionAggregate"):
        if key in index:
            rows.append((1, key, index[key]))
    for name, schema in index.get("schemas", {}).items():
        rows.append((1, name, schema))
        rows += [(2, tool, node) for tool, node in schema["tools"].items()]
    rows += [(1, f"skill {name}", node) for name, node in index.get("skills", {}).items()]
    rows += [(1, name, node) for name, node in index.get("members", {}).items()]
    for position, (depth, name, node) in enumerate(rows):
        below = rows[position + 1 :]
        last = not any(
            row[0] == depth
            for row in below[
                : next((n for n, row in enumerate(below) if row[0] < depth), len(below))
            ]
        )
        stem = "" if depth == 1 else "│  " if any(row[0] == 1 for row in below) else "   "
        mark, colour = _MARK[node["status"]]
        name = printable(name)
        raw = (
            f" (raw {node['rawGrade']})"
            if node.get("rawGrade") not in (None, node.get("grade"))
            else ""
        )
        reason = f"  {printable(node['reason'])}" if node.get("reason") else ""
        sys.stdout.write(
            f"{stem}{'└─' if last else '├─'} {opt.paint(mark, colour, on=on)} {name} "
            f" {node['status']}  {node.get('grade', '-')}{raw}{reason}\n"
        )
    for blocker in index["blockers"]:
        sys.stdout.write(f"   blocked: {blocker['node']}: {blocker['reason']}\n")


# --- regrade


def _regrade(argv: list[str]) -> int:
    made = opt.parser(
        "tools regrade",
        "Grade again after a trigger. What stored answers allow is done; what needs a grader is"
        " listed as due. Superseded entries stay.",
        "assay tools regrade openmeteo --trigger scheduled",
    )
    made.add_argument(
        "names", nargs="*", metavar="NAME", help="namespaces or selections (default: all)"
    )
    _add_trigger(made, required=True)
    inp.add_tree(made)
    inp.add_rules(made)
    inp.add_clock(made)
    add_store(made)
    options = made.parse_args(argv)
    with storing(options) as store:
        return _regraded(options, store)


def _regraded(options: argparse.Namespace, store: Store | None) -> int:
    from assay.tools.regrade import regrade

    tree, now = inp.tree_of(options), inp.now_of(options)
    named = owners(tree, options.names)
    outcomes = [
        outcome
        for kind, name in named
        for outcome in regrade(
            tree, kind, name, options.trigger, now=now, issue=options.issue, requested_by=options.by
        )
    ]
    for count, outcome in enumerate(outcomes, 1):
        place = outcome.place
        inp.progress(
            place.area,
            place.primitive,
            tree.shown_status(place.area, place.names),
            valid=True,
            written=outcome.action == "regraded",
        )
        inp.progress_count(count, len(outcomes))
    keep(store, tree, named)
    due = [outcome for outcome in outcomes if outcome.action == "due"]
    if options.json:
        opt.print_json(
            {
                "outcomes": [
                    {
                        "area": item.place.area,
                        "names": item.place.names,
                        "action": item.action,
                        "reason": item.reason,
                        "questions": list(item.questions),
                        "path": item.path,
                        "grade": item.grade,
                        "before": item.before,
                    }
                    for item in outcomes
                ]
            }
        )
    else:
        for item in outcomes:
            change = (
                f"{item.before or '-'} -> {item.grade or 'pending'}"
                if item.action == "regraded"
                else ""
            )
            sys.stdout.write(
                "  ".join(
                    part
                    for part in (
                        f"{item.action:<9}",
                        item.place.owner,
                        item.place.label,
                        change,
                        printable(item.reason),
                    )
                    if part
                )
                + "\n"
            )
            if item.questions:
                sys.stdout.write(f"          ask again: {', '.join(item.questions)}\n")
        if not outcomes:
            sys.stdout.write("nothing has been graded yet\n")
        if due:
            sys.stdout.write(
                f"{len(due)} due: answer them and run `assay tools record ... --trigger"
                f" {options.trigger}`\n"
            )
    return (
        ExitCode.FAILED
        if due or any(item.action == "blocked" for item in outcomes)
        else ExitCode.PASSED
    )
