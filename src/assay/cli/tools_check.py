"""`assay tools check`: findings of schemas, servers and grading files; and how findings are shown
and written. `assay tools validate` is its older name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs, to_builtins

from assay import __version__
from assay.cli import options as opt
from assay.cli import tools_input as inp
from assay.cli import tools_legibility as leg
from assay.cli.frame import STORE, Command, Options, flag
from assay.cli.ledger import storing
from assay.errors import ExitCode, count, printable
from assay.files.atomic import write_file
from assay.files.json_files import read_json
from assay.grouping import grouped
from assay.records.tool_entry import GradingEntry
from assay.records.tool_finding import SchemaFinding, SchemaRule
from assay.records.typed import convert
from assay.tools.ecma import document_bytes
from assay.tools.entry import (
    consistency_faults,
    faults_by,
    recomputed,
    schema_faults,
    semantic_faults,
)
from assay.tools.index import INDEX_VERSION, contradictions, index_fault
from assay.tools.legibility import ALL_RULES
from assay.tools.policy import SchemaRules

_ARTEFACTS = {
    "grading entry": ("gradingId", "gradingMode", "gradings", "aggregateGrade", "gradingTier"),
    "index": (
        "indexVersion",
        "proofVersion",
        "namespaceAggregate",
        "selectionAggregate",
        "lockSnapshot",
        "blockers",
    ),
}
"""The grading files by the keys that only they have; an id or version first."""
_ARTEFACT_RULES = {
    "grading entry": SchemaRule(
        "grading-entry",
        "error",
        "A grading entry has its published form, and its grade follows from its answers.",
        "Write it with `assay tools record`.",
    ),
    "index": SchemaRule(
        "index",
        "error",
        "An index has its published form, and its status follows from its nodes.",
        "Write it with `assay tools index`.",
    ),
}
_PAINT = {"error": "red", "warning": "yellow", "note": "dim"}


def _check(options: Options) -> int:
    outputs, rules = opt.outputs(options), inp.rules_of(options)
    if options.rules:
        leg.refuse_scores(options, outputs, "The list of rules")
        return _list_rules(options, outputs, rules)
    if options.path and options.path.endswith(".json") and os.path.isfile(options.path):
        tree = read_json(options.path, lone_surrogates=True).tree
        kind = _artefact(tree)
        if kind is not None:
            leg.refuse_scores(options, outputs, f"{options.path} is a {kind}: it")
            return _check_artefact(kind, tree, options, outputs, rules)
    lists, now = inp.lists_of(options), inp.now_of(options)
    with storing(options) as store:
        sources = inp.read_sources(options)
        assessed = inp.assess_all(sources, lists)
        report = leg.legibility_of(assessed, sources, options.min_score)
        if store is not None:
            store.put(leg.check_drafts(assessed, report.schemas, now=now))
    plain = [path for path in outputs if not path.endswith(leg.FORMATS)]
    write_findings(plain, assessed, rules, more={"legibility": leg.document(report)})
    leg.write_scores([path for path in outputs if path not in plain], report)
    below = report.below()
    failed = bool(below) or any(
        any(finding.level == "error" for finding in item.findings)
        or any(check.outcome == "veto" for check in item.checks)
        for item in assessed
    )
    document = {
        "passed": not failed and not sources.unread,
        "files": [
            {
                "file": item.schema.path,
                "schemaId": item.schema.schema_id,
                "kind": item.schema.kind,
                "findings": to_builtins(item.findings),
                "checks": [check._asdict() for check in item.checks],
                "handlers": list(item.schema.handlers),
                "legibility": score.document(),
            }
            for item, score in zip(assessed, report.schemas, strict=True)
        ],
        "legibility": report.document(),
        **sources.document(),
        **rules.systems.document(),
    }
    lines = [
        line
        for item, score in zip(assessed, report.schemas, strict=True)
        for line in (
            f"{item.schema.schema_id}  {inp.shown_path(item.schema.path)}",
            *leg.score_lines(score),
            *finding_lines(item),
        )
    ]
    lines += [*left_lines(sources), *leg.whole_lines(report, below)]
    code = ExitCode.FAILED if failed else ExitCode.PASSED
    code = ExitCode.MALFORMED if sources.unread else code
    return opt.give(options, document, lines, code, written=outputs)


def _artefact(tree: object) -> str | None:
    """The kind of grading file, recognised by any key that only this kind has: a file without its
    id or version is still recognised. None for anything else.
    """
    if not isinstance(tree, dict):
        return None
    return next(
        (
            kind
            for kind, keys in _ARTEFACTS.items()
            if any(key in tree for key in (keys[:1] if "tools" in tree else keys))
        ),
        None,
    )


def _list_rules(options: Options, outputs: list[str], rules: SchemaRules) -> int:
    listed = [rule._asdict() for rule in ALL_RULES.values()]
    _write(outputs, {"rules": listed}, [], ALL_RULES.values(), rules)
    lines = [
        f"{rule.level:<8} {rule.id:<34} {rule.holds}{f' ({rule.spec})' if rule.spec else ''}"
        for rule in ALL_RULES.values()
    ]
    return opt.give(options, {"rules": listed}, lines, written=outputs)


def _check_artefact(
    kind: str,
    tree: dict[str, Any],
    options: Options,
    outputs: list[str],
    rules: SchemaRules,
) -> int:
    faults = (_entry_faults if kind == "grading entry" else _index_faults)(tree, rules)
    rule = _ARTEFACT_RULES[kind]
    findings = [SchemaFinding(rule.id, rule.level, "", fault, rule.fix) for fault in faults]
    _write_all(
        outputs, [(os.path.abspath(options.path), findings)], _ARTEFACT_RULES.values(), rules
    )
    document = {"passed": not faults, "kind": kind, "file": options.path, "faults": faults}
    verdict = f"{count(len(faults), 'fault')} in this {kind}" if faults else f"a sound {kind}"
    lines = [f"{options.path}: {verdict}", *(f"  {fault}" for fault in faults)]
    code = ExitCode.FAILED if faults else ExitCode.PASSED
    return opt.give(options, document, lines, code, written=outputs)


def _entry_faults(tree: dict[str, Any], rules: SchemaRules) -> list[str]:
    faults = schema_faults(tree)
    if faults:
        return faults
    entry = convert(tree, GradingEntry)
    return semantic_faults(entry) + consistency_faults(entry, rules, recomputed(entry, rules))


def _index_faults(tree: dict[str, Any], rules: SchemaRules) -> list[str]:
    if "proofVersion" in tree:
        # the exported proof of newer versions of the specification is an index by another name
        tree = {key: value for key, value in tree.items() if key != "proofVersion"}
        tree["indexVersion"] = INDEX_VERSION
    faults = faults_by("index-extended", tree, "the index")
    wrong = index_fault(tree)
    if wrong is not None:
        return [*faults, f"{wrong.code} {wrong.message}"]
    return faults or list(contradictions(tree, rules))


# --- findings


def write_findings(
    outputs: list[str],
    assessed: Sequence[inp.Assessed],
    rules: SchemaRules,
    *,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write the findings to each output file, as SARIF or JSON; `more` goes into the JSON."""
    findings = [(item.schema.path, item.findings) for item in assessed]
    _write_all(outputs, findings, ALL_RULES.values(), rules, more)


def _write_all(
    outputs: list[str],
    findings: Sequence[tuple[str, list[SchemaFinding]]],
    table: Iterable[SchemaRule],
    rules: SchemaRules,
    more: Mapping[str, Any] | None = None,
) -> None:
    rows = [
        {"file": file, **structs.asdict(finding)}
        for file, file_findings in findings
        for finding in file_findings
    ]
    _write(outputs, {"findings": rows, **(more or {})}, findings, table, rules)


def _write(
    outputs: list[str],
    document: dict[str, Any],
    findings: Sequence[tuple[str, list[SchemaFinding]]],
    table: Iterable[SchemaRule],
    rules: SchemaRules,
) -> None:
    """Write a document to each output file; a SARIF file gets the findings and their rules."""
    systems = rules.systems.document()
    for path in outputs:
        made = {**document, **systems}
        if path.endswith(".sarif"):
            from assay.views.sarif import sarif

            made = sarif(
                [(inp.shown_source(file), file_findings) for file, file_findings in findings],
                {rule.id: rule for rule in table},
                tool_version=__version__,
                systems=systems,
            )
        write_file(path, document_bytes(made))


def finding_lines(item: inp.Assessed, *, levels: Sequence[str] = tuple(_PAINT)) -> Iterator[str]:
    """The findings of these levels, one line for names of one object with the same fault, and what
    the veto checks found.
    """
    alike = grouped((_alike(one), one) for one in item.findings if one.level in levels)
    for finding, *more in alike.values():
        where = f"line {finding.line}  " if finding.line is not None else ""
        path = f"{finding.path}: " if finding.path else ""
        level = opt.paint(f"{finding.level:<7}", _PAINT[finding.level])
        also = f" Also: {', '.join(one.path.rpartition('.')[2] for one in more)}." if more else ""
        text = printable(f"{where}{path}{finding.message} {finding.fix}{also}")
        yield f"  {level} {text} [{finding.rule}]"
    if item.schema.kind == "mcp" and item.schema.main.get("declaration") is None:
        checks = ", ".join(check.id for check in item.checks)
        yield (
            f"  {opt.paint('undetermined', 'yellow')} {checks}: an MCP server doesn't show its"
            " modules, keys and hosts; its gate opens only if you grade it with --declare FILE"
        )
        return
    for check in item.checks:
        # where the schema links no terms, the finding terms-missing says so already
        unlinked = check.id == "tos-attached" and check.evidence.get("link") is None
        if check.outcome != "clean" and not unlinked:
            colour = {"veto": "red", "not applicable": "dim"}.get(check.outcome, "yellow")
            outcome = opt.paint(f"{check.outcome:<7}", colour)
            yield f"  {outcome} {check.id}: {printable(check.reason)}"


def _alike(finding: SchemaFinding) -> tuple[object, ...]:
    """What it shares with findings that differ only in the name of a part of the same object."""
    parent, _, name = finding.path.rpartition(".")
    if not parent:
        return finding.rule, finding.path, finding.message, finding.fix
    return finding.rule, parent, finding.message.replace(f"'{name}'", ""), finding.fix


def left_lines(sources: inp.Sources) -> Iterator[str]:
    """What was left out, and why."""
    yield from (f"refused  {error} [{error.code}]" for error in sources.unread)
    yield from (printable(f"skipped  {item.path}: {item.reason}") for item in sources.skipped)


_CHECK = Command(
    _check,
    "List what is wrong with a schema, the tools of a server, a grading entry or an index,"
    " each finding with a fix, and how legible the tools are from 0 to 100. Asks no model.",
    "assay tools check schemas/ --min-score 80 -o legibility.html",
    (
        *inp.SOURCE,
        flag("--rules", "list the rules instead"),
        leg.MIN_SCORE,
        *inp.CHECKS,
        *inp.RULES,
        "--now",
        *STORE,
    ),
    formats=(".sarif", ".json", *leg.FORMATS),
)
COMMANDS = {
    "tools check": _CHECK,
    "tools validate": _CHECK._replace(
        description="The older name of `assay tools check`.",
        example="assay tools validate schemas/ --min-score 80",
    ),
}
