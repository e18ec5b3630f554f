"""`assay tools grade`: the two deterministic stages of the file protocol, prompts out and scores
in.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from assay.canon import time_text
from assay.cli import options as opt
from assay.cli import tools_input as inp
from assay.cli.frame import STORE, Command, Options, arg, flag
from assay.cli.ledger import storing
from assay.cli.tools_check import finding_lines, left_lines, write_findings
from assay.cli.tools_state import ScoredSchema, read_scores, write_state
from assay.errors import ExitCode, InputError, UsageError, printable
from assay.files.atomic import atomic_create, write_file
from assay.families.tools import protocol
from assay.families.tools.checks import veto_of
from assay.families.tools.ecma import document_bytes, hash8, script_bytes
from assay.families.tools.intake import AREA, check_open, import_one, record_scores
from assay.families.tools.names import report_name, segment, slug
from assay.families.tools.policy import SchemaRules, at_least
from assay.families.tools.report import report_document, shown_text_of
from assay.families.tools.source import ToolSchema
from assay.families.tools.status import letter_status
from assay.families.tools.tree import Tree

if TYPE_CHECKING:
    from assay.archive.store import Store

WORK, REPORTS = os.path.join("proofs", "grade-work"), os.path.join("proofs", "grade-reports")


def _grade(options: Options) -> int:
    if options.emit_prompts and options.consume_scores:
        raise UsageError(
            "CLI-001",
            "--emit-prompts and --consume-scores are two stages.",
            fix="Give one of them.",
        )
    if not options.emit_prompts and not options.consume_scores and options.path:
        raise UsageError("CLI-001", "name the stage: --emit-prompts or --consume-scores FILE.")
    if options.store is not None and not options.consume_scores:
        raise UsageError(
            "CLI-001",
            "prompts are not results, so there is nothing to store.",
            fix="Give --store with --consume-scores.",
        )
    outputs = opt.outputs(options)
    rules, now, lists = inp.rules_of(options), inp.now_of(options), inp.lists_of(options)
    sources = inp.read_sources(options)
    assessed = inp.assess_all(sources, lists)
    _refuse_twins(sources)
    if not options.consume_scores:
        write_findings(outputs, assessed, rules)
        return _emit(options, sources, assessed, now)
    with storing(options) as store:
        return _consume(options, sources, assessed, rules, now, outputs, store)


def _refuse_twins(sources: inp.Sources) -> None:
    seen: dict[str, str] = {}
    for schema in sources.schemas:
        segment(schema.namespace, "namespace")
        segment(schema.base, "file name")
        own = slug(schema.schema_id)
        if own in seen:
            raise InputError(
                "FMC-007",
                f"{schema.path} and {seen[own]} would have one folder: {own}.",
                fix="Rename one of the files.",
            )
        seen[own] = schema.path


def _hash8(schema: ToolSchema) -> str | None:
    try:
        return hash8(schema.main)
    except InputError:
        return None  # a number beyond what JavaScript holds; the validation reports it


# --- prompts


def _emit(
    options: Options, sources: inp.Sources, assessed: list[inp.Assessed], now: datetime
) -> int:
    paths = []
    for schema, _, _ in assessed:
        folder = os.path.join(options.workdir, slug(schema.schema_id))
        prompts = protocol.prompts_document(schema, when_to_use=options.when_to_use)
        paths.append(os.path.join(folder, "prompts.json"))
        write_file(paths[-1], script_bytes(prompts, where=schema.path))
        write_state(
            options.workdir,
            schema,
            {
                "promptsSha256": protocol.prompts_digest(prompts),
                "whenToUse": options.when_to_use,
                "scoringProtocol": prompts["scoringProtocol"],
                "status": "prompts-emitted",
            },
            promptsEmitted=time_text(now),
        )
    document = {
        "prompts": [
            {
                "schemaId": schema.schema_id,
                "path": path,
                "schemaHash": schema.file_sha256,
                "canonicalHash8": _hash8(schema),
                "findings": to_builtins(findings),
                "checks": [check._asdict() for check in checks],
            }
            for path, (schema, findings, checks) in zip(paths, assessed, strict=True)
        ],
        **sources.document(),
    }
    lines = [
        line
        for path, item in zip(paths, assessed, strict=True)
        for line in (f"{item.schema.schema_id}  {path}", *finding_lines(item))
    ]
    lines += left_lines(sources)
    if paths:
        where = options.workdir if len(paths) > 1 else paths[0]
        judge = opt.unless_configured(options, "tools score", "judge", "--judge COMMAND")
        lines.append(f"next: assay tools score {where}{judge}")
    code = ExitCode.MALFORMED if sources.unread else ExitCode.PASSED
    return opt.give(options, document, lines, code, written=options.output)


def _consume(
    options: Options,
    sources: inp.Sources,
    assessed: list[inp.Assessed],
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
    scored = read_scores(options, assessed, now)
    tree = Tree(options.data, rules) if options.data else None
    if tree is not None:
        for schema, _, checks in assessed:
            check_open(tree, schema, checks)
    reports: list[dict[str, Any]] = []
    for item, given in zip(assessed, scored, strict=True):
        reports.append(_report(options, item, given, rules, tree, now))
        inp.progress_count(len(reports), len(assessed))
    if store is not None:
        from assay.archive.records import report_drafts, tree_drafts

        namespaces = sorted({schema.namespace for schema, _, _ in assessed}) if tree else []
        store.put(
            *(
                report_drafts(made["report"], given.scores)
                for made, given in zip(reports, scored, strict=True)
            ),
            *(tree_drafts(tree, "providers", name) for name in namespaces if tree is not None),
        )
    write_findings(outputs, assessed, rules)
    passed = all(made["passed"] for made in reports)
    document = {
        "passed": passed,
        "reports": reports,
        "policy": rules.id,
        **rules.systems.document(),
    }
    lines = chain.from_iterable(map(_report_lines, reports, assessed))
    return opt.give(options, document, lines, ExitCode.of(passed), written=outputs)


def _report(
    options: Options,
    item: inp.Assessed,
    given: ScoredSchema,
    rules: SchemaRules,
    tree: Tree | None,
    now: datetime,
) -> dict[str, Any]:
    """Write the report of one schema, and its entry where there is a tree."""
    schema, findings, checks = item
    veto = veto_of(checks, now=now)
    report = report_document(
        schema,
        given.scores,
        findings,
        rules,
        now=now,
        started_at=given.started,
        hash8=_hash8(schema),
        veto=veto,
        checks=[check._asdict() for check in checks],
    )
    made: dict[str, Any] = {}
    if tree is not None:  # first, because it may refuse
        import_one(tree, schema, findings, now=now)
        made = {"entry": record_scores(tree, schema, findings, given.scores, veto=veto, now=now)}
    path = _add_report(options.reports_dir, report, now)
    write_state(
        options.workdir,
        schema,
        {
            "scoringProtocol": given.scores["scoringProtocol"],
            "status": "reported",
            "promptsSha256": given.state.get("promptsSha256"),
            "whenToUse": given.state.get("whenToUse"),
            "report": os.path.abspath(path),
        },
        promptsEmitted=given.started,
        scoresReceived=given.scores["timestamp"],
        gradeComputed=time_text(now),
        reportWritten=time_text(now),
    )
    status = letter_status(report["grade"], stable_from=rules.policy.stable_from)
    if tree is not None:
        names = {"namespace": schema.namespace, "schema": schema.base}
        status = tree.shown_status(AREA, names)
    inp.progress(AREA, schema.base, status, valid=report["validationPassed"], written=True)
    good = at_least(report["grade"], rules.policy.production_from)
    passed = good and report["validationPassed"] and veto is None
    return {"path": path, "passed": passed, "report": report, **made}


def _add_report(folder: str, report: dict[str, Any], now: datetime) -> str:
    """A new report file: an existing report is never overwritten or left out."""
    base = report_name(report["schemaId"], report["date"]).removesuffix(".json")
    timed = f"{base}-{now.strftime('%H%M%S')}Z"
    for name in (base, timed, *(f"{timed}-{count}" for count in range(2, 1000))):
        path = os.path.join(folder, f"{name}.json")
        try:
            with atomic_create(path) as stream:
                stream.write(document_bytes(report))
        except FileExistsError:
            continue
        return path
    raise InputError(
        "FMC-014", "there are already a thousand reports for this second.", where=folder
    )


def _report_lines(made: dict[str, Any], item: inp.Assessed) -> Iterator[str]:
    report = made["report"]
    raw = f" (raw {report['rawGrade']})" if report["rawGrade"] != report["grade"] else ""
    colour = "green" if made["passed"] else "red"
    grade = opt.paint(f"{report['grade']}{raw}", colour, "bold")
    yield f"{report['schemaId']}  {grade}  {shown_text_of(report['score'])}  {report['reason']}"
    for dimension in report["dimensions"]:
        reasoning = printable(str(dimension.get("reasoning", ""))[:120])
        yield f"  {dimension['dimension']:<11} {dimension['score']}  {reasoning}"
    yield from finding_lines(item, levels=("error",))
    yield (
        f"  report {made['path']} · policy {report['policy']} · {report['scoringSystem']} ·"
        f" {report['gradingSystem']}"
    )
    if "entry" in made:
        yield f"  entry  {made['entry']}"


COMMANDS = {
    "tools grade": Command(
        _grade,
        "Write the prompts of scoring protocol v1, and turn the scores that a grader gave them into"
        " a report.",
        "assay tools grade schemas/prices.mjs --emit-prompts",
        (
            *inp.SOURCE,
            flag(
                "--emit-prompts",
                "write prompts.json for each schema (the default for a live server or a snapshot)",
            ),
            arg(
                "--consume-scores",
                kind="path",
                metavar="FILE",
                help=(
                    "a scores.json, or a folder with <slug>/scores.json for each schema: write the"
                    " reports"
                ),
            ),
            arg(
                "--workdir",
                kind="path",
                metavar="W",
                default=WORK,
                help=f"folder of prompts and state (default: {WORK})",
            ),
            arg(
                "--reports-dir",
                kind="path",
                metavar="R",
                default=REPORTS,
                help=f"folder to add reports to (default: {REPORTS})",
            ),
            arg(
                "--when-to-use",
                kind="text",
                trust="freely",
                metavar="TEXT",
                help="one sentence on when to use the schema, for the first prompt",
            ),
            arg(
                "--data",
                kind="path",
                metavar="DIR",
                help=(
                    "with --consume-scores: also import the schema into this grading tree and add a"
                    " grading entry"
                ),
            ),
            *inp.CHECKS,
            *inp.RULES,
            "--now",
            *STORE,
        ),
        formats=(".sarif", ".json"),
    ),
}
