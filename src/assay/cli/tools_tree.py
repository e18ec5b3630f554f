"""`assay tools import`, `record` and `regrade`: what changes a grading tree."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli import tools_input as inp
from assay.cli import tools_legibility as leg
from assay.cli.frame import STORE, Command, Options, arg, flag
from assay.cli.ledger import stored, storing
from assay.errors import ExitCode, InputError, UsageError, printable
from assay.files.json_files import parse_json, read_json
from assay.tools.checks import ModuleLists
from assay.tools.entry import TRIGGERS, Trigger
from assay.tools.intake import Written, import_one, import_selection
from assay.tools.names import FULL, PARTIAL
from assay.tools.record import PLACE, record
from assay.tools.regrade import RegradeOutcome, primitive, regrade
from assay.tools.tree import owner_of

if TYPE_CHECKING:
    from assay.archive.store import Store


def _import(options: Options, store: Store | None) -> int:
    tree, now = inp.tree_of(options, must_exist=False), inp.now_of(options)
    selection = _selection(options.path)
    if selection is not None:
        written = [import_selection(tree, selection, options.path, now=now)]
        inp.keep(store, tree, [("selections", str(selection["selectionId"]))])
        return _give_import(options, written, inp.Sources([]), several=False)
    sources = inp.read_sources(options)
    namespaces = sorted({schema.namespace for schema in sources.schemas})
    if len(namespaces) > 1 and options.strict_2:
        raise InputError(
            "FMC-008",
            f"the folder contains {len(namespaces)} namespaces: {', '.join(namespaces)}.",
            where=str(options.path),
            fix="One folder, one namespace.",
        )
    assessed = inp.assess_all(sources, inp.Lists(ModuleLists(), {}))
    written = [import_one(tree, item.schema, item.findings, now=now) for item in assessed]
    if store is not None:
        report = leg.legibility_of(assessed, sources, None)
        store.add(leg.check_drafts(assessed, report.schemas, now=now))
    inp.keep(store, tree, [("providers", namespace) for namespace in namespaces])
    return _give_import(options, written, sources, several=len(namespaces) > 1 and sources.folder)


def _selection(path: str | None) -> dict[str, Any] | None:
    """The selection that a file holds; None if it holds something else."""
    if not path or not path.endswith(".json") or not os.path.isfile(path):
        return None
    tree = read_json(path, lone_surrogates=True).tree
    return tree if isinstance(tree, dict) and "selectionId" in tree else None


def _give_import(
    options: Options, written: list[Written], sources: inp.Sources, *, several: bool
) -> int:
    document = {
        "imported": [item._asdict() for item in written],
        "refused": [
            {
                "file": error.where,
                "code": error.code,
                "message": error.message,
                "fix": error.fix,
            }
            for error in sources.unread
        ],
        "severalNamespaces": several,
    }
    lines = [
        f"{item.action:<11}  {item.schema}  {inp.shown_path(item.path)}"
        f"{f'  {item.reason}' if item.reason else ''}"
        for item in written
    ]
    lines += [f"refused      {error} [{error.code}]" for error in sources.unread]
    if several:
        lines.append(
            "warning: the folder contains several namespaces; each got its own folder. Use"
            " one folder for each."
        )
    blocked = any(item.action == "blocked" for item in written)
    code = ExitCode.FAILED if blocked or several else ExitCode.PASSED
    return opt.give(options, document, lines, ExitCode.MALFORMED if sources.unread else code)


def _record(options: Options) -> int:
    if (options.issue or options.by) and not options.trigger:
        raise UsageError(
            "CLI-001",
            "--issue and --by belong to a re-grading.",
            fix="Give --trigger user-report with them.",
        )
    with storing(options) as store:
        tree = inp.tree_of(options)
        path, names, result = record(
            tree,
            [inp.read_object(file) for file in options.files],
            {name: getattr(options, name) for name in PLACE if getattr(options, name)},
            now=inp.now_of(options),
            catalogue=inp.read_object(options.questions) if options.questions else {},
            mode=options.mode,
            trigger=Trigger(options.trigger, options.issue, options.by)
            if options.trigger
            else None,
            harness=options.harness,
        )
        with open(path, "rb") as stream:
            entry = parse_json(stream.read())
        status = tree.shown_status(entry["area"], names)
        inp.progress(entry["area"], primitive(names), status, valid=True, written=True)
        inp.progress_count(1, 1)
        inp.keep(store, tree, [owner_of(entry["area"], names)])
    notes = [*result.notes, *result.warnings] if result else []
    lines = [f"{entry['aggregateGrade'] or status}  {path}", *(f"  {note}" for note in notes)]
    shown = {"path": path, "entry": entry, "notes": notes, "policy": tree.rules.id}
    return opt.give(options, shown, [*lines, inp.policy_line(tree)])


def _regrade(options: Options, store: Store | None) -> int:
    tree, now = inp.tree_of(options), inp.now_of(options)
    named = inp.owners(tree, options.names)
    outcomes = [
        outcome
        for kind, name in named
        for outcome in regrade(
            tree,
            kind,
            name,
            options.trigger,
            now=now,
            issue=options.issue,
            requested_by=options.by,
        )
    ]
    for count, outcome in enumerate(outcomes, 1):
        area, names = outcome.place.area, outcome.place.names
        written = outcome.action == "regraded"
        status = tree.shown_status(area, names)
        inp.progress(area, primitive(names), status, valid=True, written=written)
        inp.progress_count(count, len(outcomes))
    inp.keep(store, tree, named)
    due = sum(outcome.action == "due" for outcome in outcomes)
    lines = [*map(_outcome_line, outcomes)] or ["nothing has been graded yet"]
    if due:
        lines.append(
            f"{due} due: answer them and run `assay tools record ... --trigger {options.trigger}`"
        )
    lines.append(inp.policy_line(tree))
    failed = due or any(outcome.action == "blocked" for outcome in outcomes)
    return opt.give(
        options,
        {
            "outcomes": [
                {
                    "area": outcome.place.area,
                    "names": outcome.place.names,
                    **{key: value for key, value in outcome._asdict().items() if key != "place"},
                }
                for outcome in outcomes
            ],
            "policy": tree.rules.id,
            **tree.rules.systems.document(),
        },
        lines,
        ExitCode.FAILED if failed else ExitCode.PASSED,
    )


def _outcome_line(outcome: RegradeOutcome) -> str:
    change = f"{outcome.before or '-'} -> {outcome.grade or 'pending'}"
    parts = (
        f"{outcome.action:<9}",
        outcome.place.owner,
        outcome.place.label,
        change if outcome.action == "regraded" else "",
        printable(outcome.reason),
    )
    again = f"\n          ask again: {', '.join(outcome.questions)}" if outcome.questions else ""
    return "  ".join(part for part in parts if part) + again


_REPORTED = (
    arg(
        "--issue",
        kind="text",
        trust="freely",
        metavar="TEXT",
        help="with user-report: what was reported",
    ),
    arg("--by", kind="text", trust="freely", metavar="NAME", help="with user-report: by whom"),
)
_TREE = (inp.DATA, *inp.RULES, "--now", *STORE)
COMMANDS = {
    "tools import": Command(
        stored(_import),
        "Put schemas, or a selection .json, into a grading tree: new entries are created, changed"
        " ones are added next to the old, the rest is skipped.",
        "assay tools import schemas/openmeteo --data grading-data",
        (
            *inp.SOURCE,
            flag(
                "--strict-2",
                "abort if a folder contains several namespaces, as gradingSpec 2.0 does",
            ),
            *_TREE,
        ),
    ),
    "tools record": Command(
        _record,
        "Write a grading entry from an evaluator's answers. Several files of one area (a"
        " deterministic and a judged block) become one entry.",
        "assay tools record answers.json --namespace openmeteo --schema air --tool getCurrent",
        (
            arg(
                "files",
                nargs="+",
                metavar="ENVELOPE",
                help=(
                    "answers to the questions of one area, as JSON or YAML;"
                    " docs/how-to/grade-tool-schemas.md shows one"
                ),
            ),
            *(
                arg(
                    f"--{name}",
                    kind="text",
                    trust="freely",
                    metavar="NAME",
                    help=f"the {name} that is graded, if the envelope doesn't name it",
                )
                for name in PLACE
            ),
            arg(
                "--questions",
                kind="path",
                metavar="FILE",
                help=(
                    'a catalogue of questions, kept in the tree: {"Q-...": {"area", "weight",'
                    ' "determinism", "scoreType", "dimension", "naReasons"}}'
                ),
            ),
            arg(
                "--mode",
                choices=(FULL, PARTIAL),
                default=FULL,
                help=(
                    "full computes a new grade; partial answers some questions and keeps the last"
                    " one (default: full)"
                ),
            ),
            arg(
                "--harness",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="what drove the evaluation, if the envelope doesn't name it",
            ),
            arg("--trigger", choices=TRIGGERS, help="why it is graded again"),
            *_REPORTED,
            *_TREE,
        ),
    ),
    "tools regrade": Command(
        stored(_regrade),
        "Grade again after a trigger, from stored answers where they suffice; the rest is listed"
        " as due for a grader. Superseded entries stay.",
        "assay tools regrade openmeteo --trigger scheduled",
        (
            inp.NAMES,
            arg("--trigger", choices=TRIGGERS, required=True, help="why it is graded again"),
            *_REPORTED,
            *_TREE,
        ),
    ),
}
