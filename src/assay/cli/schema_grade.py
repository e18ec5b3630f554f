"""`assay tools grade`: the two deterministic stages of the file protocol, prompts out and scores
in.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from assay.cli import options as opt
from assay.cli import schema_input as inp
from assay.cli.ledger import add_store, storing
from assay.cli.schema_validate import Found, print_findings, print_left, write_findings
from assay.errors import ExitCode, Fault, InputError, UsageError, printable
from assay.files.atomic import atomic_create, atomic_write
from assay.files.json_files import read_json
from assay.tools import protocol
from assay.tools.assess import assess
from assay.tools.checks import run_checks, veto_of
from assay.tools.documents import document_bytes, script_bytes
from assay.tools.hashing import hash8
from assay.tools.intake import check_open, import_one, record_scores
from assay.tools.names import iso, parse_iso, report_name, segment, slug
from assay.tools.policy import at_least
from assay.tools.status import letter_status
from assay.tools.tree import Tree

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from assay.archive.store import Store
    from assay.tools.checks import Check
    from assay.tools.policy import SchemaRules
    from assay.tools.source import SchemaFinding, ToolSchema

WORK, REPORTS = os.path.join("proofs", "grade-work"), os.path.join("proofs", "grade-reports")


def run(action: str, argv: list[str]) -> int:
    """Emit prompts or consume scores."""
    return _grade(argv)


def _grade(argv: list[str]) -> int:
    made = opt.parser(
        "tools grade",
        "The deterministic stages of scoring protocol v1: write the prompts, then turn the scores"
        " that a grader made of them into a report.",
        "assay tools grade schemas/prices.mjs --emit-prompts",
    )
    inp.add_source(made)
    made.add_argument(
        "--emit-prompts",
        action="store_true",
        help="write prompts.json for each schema (the default for a live server or a snapshot)",
    )
    made.add_argument(
        "--consume-scores",
        metavar="FILE",
        help=(
            "a scores.json, or a folder with <slug>/scores.json for each schema: write the reports"
        ),
    )
    made.add_argument(
        "--workdir",
        metavar="W",
        default=WORK,
        help=f"where prompts and state lie (default: {WORK})",
    )
    made.add_argument(
        "--reports-dir",
        metavar="R",
        default=REPORTS,
        help=f"where reports are added (default: {REPORTS})",
    )
    made.add_argument(
        "--when-to-use",
        metavar="TEXT",
        help="when a skill says the schema should be used: its sentence in the first prompt",
    )
    made.add_argument(
        "--data",
        metavar="DIR",
        help=(
            "with --consume-scores: also import the schema into this grading tree and add a grading"
            " entry"
        ),
    )
    inp.add_checks(made)
    inp.add_rules(made)
    inp.add_clock(made)
    opt.add_output(made, (".sarif", ".json"))
    add_store(made)
    options = made.parse_args(argv)
    if options.emit_prompts and options.consume_scores:
        raise UsageError(
            "CLI-001",
            "--emit-prompts and --consume-scores are two stages.",
            fix="Give one of them.",
        )
    if not options.emit_prompts and not options.consume_scores and options.path:
        raise UsageError("CLI-001", "say which stage: --emit-prompts or --consume-scores FILE.")
    if options.store is not None and not options.consume_scores:
        raise UsageError(
            "CLI-001",
            "prompts are no results; there is nothing to store.",
            fix="Give --store with --consume-scores.",
        )
    outputs = opt.outputs(options)
    rules, now, lists = inp.rules_of(options), inp.now_of(options), inp.lists_of(options)
    sources = inp.read_sources(options)
    found = {
        schema.schema_id: (
            schema,
            assess(schema),
            run_checks(schema, lists=lists.modules, aliases=lists.aliases),
        )
        for schema in sources.schemas
    }
    _refuse_twins(sources)
    if options.consume_scores:
        with storing(options) as store:
            return _consume(options, sources, found, rules, now, outputs, store)
    return _emit(options, sources, found, rules, now, outputs)


def _refuse_twins(sources: inp.Sources) -> None:
    seen: dict[str, str] = {}
    for schema in sources.schemas:
        segment(schema.namespace, "namespace")
        segment(schema.base, "file name")
        if slug(schema.schema_id) in seen:
            raise InputError(
                "FMC-007",
                f"{schema.path} and {seen[slug(schema.schema_id)]} would have one folder:"
                f" {slug(schema.schema_id)}.",
                fix="Rename one of the files.",
            )
        seen[slug(schema.schema_id)] = schema.path


def _emit(
    options: argparse.Namespace,
    sources: inp.Sources,
    found: Found,
    rules: SchemaRules,
    now: datetime,
    outputs: list[str],
) -> int:
    emitted: list[dict[str, Any]] = []
    for schema, findings, checks in found.values():
        folder = os.path.join(options.workdir, slug(schema.schema_id))
        document = protocol.prompts_document(schema, when_to_use=options.when_to_use)
        path = os.path.join(folder, "prompts.json")
        with atomic_write(path) as stream:
            stream.write(script_bytes(document))
        state = {
            "schemaId": schema.schema_id,
            "schemaIdSlug": slug(schema.schema_id),
            "schemaHash": schema.file_sha256,
            "promptsSha256": protocol.prompts_digest(document),
            "whenToUse": options.when_to_use,
            "scoringProtocol": document["scoringProtocol"],
            "status": "prompts-emitted",
            "phases": {
                "promptsEmitted": iso(now),
                "scoresReceived": None,
                "gradeComputed": None,
                "reportWritten": None,
            },
        }
        _write_state(folder, state)
        emitted.append(
            {
                "schemaId": schema.schema_id,
                "path": path,
                "schemaHash": schema.file_sha256,
                "canonicalHash8": _hash8(schema),
                "findings": findings,
                "checks": checks,
            }
        )
    write_findings(outputs, found, rules)
    if options.json:
        opt.print_json(
            {
                "prompts": [
                    {
                        **item,
                        "findings": [one._asdict() for one in item["findings"]],
                        "checks": [one.document() for one in item["checks"]],
                    }
                    for item in emitted
                ],
                "refused": [fault.as_dict() for fault in sources.faults()],
                "skipped": [{"path": item.path, "reason": item.reason} for item in sources.skipped],
            }
        )
    else:
        for item in emitted:
            sys.stdout.write(f"{item['schemaId']}  {item['path']}\n")
            print_findings(item["findings"], item["checks"])
        print_left(sources)
        if emitted:
            where = options.workdir if len(emitted) > 1 else emitted[0]["path"]
            sys.stdout.write(f"next: assay tools score {where} --judge COMMAND\n")
    return ExitCode.MALFORMED if sources.unread else ExitCode.PASSED


def _hash8(schema: ToolSchema) -> str | None:
    try:
        return hash8(schema.main)
    except InputError:
        return None  # a number beyond what JavaScript holds; the validation says so


def _consume(
    options: argparse.Namespace,
    sources: inp.Sources,
    found: Found,
    rules: SchemaRules,
    now: datetime,
    outputs: list[str],
    store: Store | None,
) -> int:
    if sources.unread:
        raise InputError(
            sources.unread[0].code,
            "not every schema can be read.",
            where=str(options.path),
            faults=sources.faults(),
            fix="Nothing was written.",
        )
    scores, faults = {}, []
    for name, (schema, _, _) in found.items():
        path = _scores_path(options.consume_scores, schema)
        try:
            state = _state(options.workdir, schema)
            when_to_use = options.when_to_use or (state.get("whenToUse") if state else None)
            document = protocol.check_scores(
                read_json(path, lone_surrogates=True).tree,
                expected_slug=slug(name),
                where=path,
                asked=protocol.prompts_digest(
                    protocol.prompts_document(schema, when_to_use=when_to_use)
                ),
                dimensions=protocol.dimensions_of(schema, when_to_use=when_to_use),
                emitted=parse_iso(state["phases"].get("promptsEmitted")) if state else None,
                now=now,
            )
            if state is not None and state.get("schemaHash") != schema.file_sha256:
                raise InputError(
                    "PRO-006",
                    "the schema has changed since its prompts were written.",
                    where=path,
                    fix="Write the prompts anew and score them again.",
                )
            scores[name] = (document, state)
        except InputError as error:
            faults += list(error.faults) or [
                Fault(error.message, code=error.code, file=error.where or path, fix=error.fix)
            ]
    if faults:
        files = {fault.file for fault in faults}
        for fault in faults:
            fault.path = f"{fault.file}  {fault.path}".rstrip() if len(files) > 1 else fault.path
        raise InputError(
            faults[0].code,
            faults[0].message,
            where=faults[0].file if len(files) == 1 else "",
            faults=faults,
            fix="Nothing was written.",
        )
    tree = Tree(options.data, rules) if options.data else None
    if tree is not None:
        for schema, _, checks in found.values():
            check_open(tree, schema, checks)
    reports: list[dict[str, Any]] = []
    passed = True
    for count, (name, (schema, findings, checks)) in enumerate(found.items(), 1):
        document, state = scores[name]
        started = state["phases"].get("promptsEmitted") if state else None
        veto = veto_of(checks, now=now)
        report = protocol.report_document(
            schema,
            document,
            findings,
            rules,
            now=now,
            started_at=started,
            hash8=_hash8(schema),
            veto=veto,
            checks=[check.document() for check in checks],
        )
        entry = None
        if tree is not None:  # first, because it may refuse
            import_one(tree, schema, findings, now=now)
            entry = record_scores(tree, schema, findings, document, veto=veto, now=now)
        path = _add_report(options.reports_dir, report, now)
        phases = {
            "promptsEmitted": started,
            "scoresReceived": document["timestamp"],
            "gradeComputed": iso(now),
            "reportWritten": iso(now),
        }
        _write_state(
            os.path.join(options.workdir, slug(name)),
            {
                "schemaId": name,
                "schemaIdSlug": slug(name),
                "schemaHash": schema.file_sha256,
                "scoringProtocol": document["scoringProtocol"],
                "status": "reported",
                "phases": phases,
                "promptsSha256": state.get("promptsSha256") if state else None,
                "whenToUse": state.get("whenToUse") if state else None,
                "report": os.path.abspath(path),
            },
        )
        good = (
            at_least(report["grade"], rules.policy.production_from)
            and report["validationPassed"]
            and veto is None
        )
        passed = passed and good
        reports.append(
            {"path": path, "passed": good, "report": report, **({"entry": entry} if entry else {})}
        )
        status = letter_status(report["grade"], stable_from=rules.policy.stable_from)
        if tree is not None:
            status = tree.shown_status(
                "tools-aggregate-schema", {"namespace": schema.namespace, "schema": schema.base}
            )
        inp.progress(
            "tools-aggregate-schema",
            schema.base,
            status,
            valid=report["validationPassed"],
            written=True,
        )
        inp.progress_count(count, len(found))
    if store is not None:
        _keep(
            store,
            tree,
            {name: document for name, (document, _) in scores.items()},
            [item["report"] for item in reports],
            found,
        )
    write_findings(outputs, found, rules)
    if options.json:
        opt.print_json(
            {"passed": passed, "reports": reports, "policy": rules.id, **rules.systems.document()}
        )
    else:
        for item in reports:
            _print_report(item, found[item["report"]["schemaId"]])
    return ExitCode.PASSED if passed else ExitCode.FAILED


def _keep(
    store: Store,
    tree: Tree | None,
    scores: dict[str, dict[str, Any]],
    reports: list[dict[str, Any]],
    found: Found,
) -> None:
    """Store the reports with their scores, and what they made of the tree."""
    from assay.archive.records import report_drafts, tree_drafts

    namespaces = (
        sorted({schema.namespace for schema, _, _ in found.values()}) if tree is not None else []
    )
    trees = [tree_drafts(tree, "providers", name) for name in namespaces if tree is not None]
    store.put(*(report_drafts(report, scores[report["schemaId"]]) for report in reports), *trees)


def _scores_path(given: str, schema: ToolSchema) -> str:
    return (
        os.path.join(given, slug(schema.schema_id), "scores.json")
        if os.path.isdir(given)
        else given
    )


def _state(workdir: str, schema: ToolSchema) -> dict[str, Any] | None:
    path = os.path.join(workdir, slug(schema.schema_id), "state.json")
    if not os.path.exists(path):
        return None
    state: Any = read_json(path).tree
    phases = state.get("phases") if isinstance(state, dict) else None
    if not isinstance(phases, dict) or (
        phases.get("promptsEmitted") is not None and parse_iso(phases["promptsEmitted"]) is None
    ):
        raise InputError(
            "PRO-002", "is no state of a grading.", where=path, fix="Write the prompts anew."
        )
    found: dict[str, Any] = state
    return found


def _write_state(folder: str, state: dict[str, Any]) -> None:
    with atomic_write(os.path.join(folder, "state.json")) as stream:
        stream.write(document_bytes(state))


def _add_report(folder: str, report: dict[str, Any], now: datetime) -> str:
    """A new report file: a report that is there is never overwritten and never left out."""
    base = report_name(report["schemaId"], report["date"]).removesuffix(".json")
    clock = now.strftime("%H%M%S")
    for name in (
        base,
        f"{base}-{clock}Z",
        *(f"{base}-{clock}Z-{count}" for count in range(2, 1000)),
    ):
        path = os.path.join(folder, f"{name}.json")
        try:
            with atomic_create(path) as stream:
                stream.write(document_bytes(report))
        except FileExistsError:
            continue
        return path
    raise InputError("FMC-014", "there are a thousand reports of this second.", where=folder)


def _print_report(
    item: dict[str, Any], found: tuple[ToolSchema, list[SchemaFinding], list[Check]]
) -> None:
    report = item["report"]
    on = opt.colour()
    raw = f" (raw {report['rawGrade']})" if report["rawGrade"] != report["grade"] else ""
    grade = opt.paint(
        f"{report['grade']}{raw}", "green" if item["passed"] else "red", "bold", on=on
    )
    sys.stdout.write(
        f"{report['schemaId']}  {grade}  {protocol.shown_text_of(report['score'])} "
        f" {report['reason']}\n"
    )
    for dimension in report["dimensions"]:
        sys.stdout.write(
            f"  {dimension['dimension']:<11} {dimension['score']} "
            f" {printable(str(dimension.get('reasoning', ''))[:120])}\n"
        )
    print_findings([finding for finding in found[1] if finding.level == "error"], found[2])
    sys.stdout.write(
        f"  report {item['path']} · policy {report['policy']} · {report['scoringSystem']} ·"
        f" {report['gradingSystem']}\n"
    )
    if "entry" in item:
        sys.stdout.write(f"  entry  {item['entry']}\n")
