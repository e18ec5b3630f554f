"""`assay tools check`: findings of schemas, servers and grading files; and how findings are
shown and written.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from assay import __version__
from assay.cli import options as opt
from assay.cli import schema_input as inp
from assay.errors import ExitCode, printable
from assay.files.atomic import atomic_write
from assay.files.json_files import read_json
from assay.tools.assess import RULES, assess
from assay.tools.checks import run_checks
from assay.tools.documents import document_bytes
from assay.tools.rules.rule import Rule
from assay.tools.rules.rule import table as rule_table
from assay.tools.source import SchemaFinding

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from assay.tools.checks import Check
    from assay.tools.policy import SchemaRules
    from assay.tools.source import ToolSchema

Found = dict[str, tuple["ToolSchema", "list[SchemaFinding]", "list[Check]"]]
"""Each schema by its path, with its findings and its veto checks."""

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
_ARTEFACT_RULES = rule_table(
    [
        Rule(
            "grading-entry",
            "error",
            "A grading entry is of its published form, its grade that of its answers.",
            "Write it with `assay tools record`.",
        ),
        Rule(
            "index",
            "error",
            "An index is of its published form, and its status follows from its nodes.",
            "Write it with `assay tools index`.",
        ),
    ]
)

_PAINT = {"error": "red", "warning": "yellow", "note": "dim"}


def run(action: str, argv: list[str]) -> int:
    """Validate what the command line names."""
    return _validate(argv)


def _validate(argv: list[str]) -> int:
    made = opt.parser(
        "tools check",
        "What is wrong with a schema, the tools of a server, a grading entry or an index, each"
        " finding with a fix. Asks no model.",
        "assay tools check schemas/ -o findings.sarif",
    )
    inp.add_source(made)
    made.add_argument("--rules", action="store_true", help="list the rules instead")
    inp.add_checks(made)
    inp.add_rules(made)
    opt.add_output(made, (".sarif", ".json"))
    options = made.parse_args(argv)
    outputs = opt.outputs(options)
    if options.rules:
        return _list_rules(options, outputs)
    if options.path and options.path.endswith(".json") and os.path.isfile(options.path):
        tree = read_json(options.path, lone_surrogates=True).tree
        kind = _artefact(tree)
        if kind is not None:
            return _validate_artefact(kind, tree, options, outputs)
    lists = inp.lists_of(options)
    sources = inp.read_sources(options)
    found: Found = {
        schema.path: (
            schema,
            assess(schema),
            run_checks(schema, lists=lists.modules, aliases=lists.aliases),
        )
        for schema in sources.schemas
    }
    rules = inp.rules_of(options)
    write_findings(outputs, found, rules)
    errors = sum(
        finding.level == "error" for _, findings, _ in found.values() for finding in findings
    )
    vetoes = sum(check.outcome == "veto" for _, _, checks in found.values() for check in checks)
    if options.json:
        opt.print_json(
            {
                "passed": not errors and not vetoes and not sources.unread,
                "files": [
                    {
                        "file": schema.path,
                        "schemaId": schema.schema_id,
                        "kind": schema.kind,
                        "findings": [finding._asdict() for finding in findings],
                        "checks": [check.document() for check in checks],
                        "handlers": list(schema.handlers),
                    }
                    for schema, findings, checks in found.values()
                ],
                "refused": [fault.as_dict() for fault in sources.faults()],
                "skipped": [{"path": item.path, "reason": item.reason} for item in sources.skipped],
                **rules.systems.document(),
            }
        )
    else:
        for schema, findings, checks in found.values():
            sys.stdout.write(f"{schema.schema_id}  {schema.path}\n")
            print_findings(findings, checks)
        print_left(sources)
    if sources.unread:
        return ExitCode.MALFORMED
    return ExitCode.FAILED if errors or vetoes else ExitCode.PASSED


def _artefact(tree: object) -> str | None:
    """Which grading file a document is, told by any of its own keys: one that lacks its id or
    version is still one. None for anything else.
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


def _list_rules(options: argparse.Namespace, outputs: list[str]) -> int:
    _write(outputs, [], RULES, inp.rules_of(options), listed=True)
    if options.json:
        opt.print_json({"rules": [rule._asdict() for rule in RULES.values()]})
    else:
        for rule in RULES.values():
            sys.stdout.write(
                f"{rule.level:<8} {rule.id:<34} {rule.holds}{f' ({rule.spec})' if rule.spec else ''}\n"  # noqa: E501
            )
    return ExitCode.PASSED


def _validate_artefact(
    kind: str, tree: dict[str, Any], options: argparse.Namespace, outputs: list[str]
) -> int:
    from assay.tools.entry import (
        consistency_faults,
        published_schema,
        recomputed,
        schema_faults,
        semantic_faults,
    )
    from assay.tools.index import INDEX_VERSION, index_fault, strict

    if kind == "grading entry":
        faults = schema_faults(tree)
        if not faults:
            rules = inp.rules_of(options)
            faults = semantic_faults(tree) + consistency_faults(
                tree, rules, recomputed(tree, rules)
            )
    else:
        if (
            "proofVersion" in tree
        ):  # the exported proof of newer versions of the specification is an index by another name
            tree = {
                **{key: value for key, value in tree.items() if key != "proofVersion"},
                "indexVersion": INDEX_VERSION,
            }
        import jsonschema_rs

        validator = jsonschema_rs.Draft202012Validator(published_schema("index"), offline=True)
        faults = [
            f"{'.'.join(map(str, error.instance_path)) or 'the index'}: {error.message}"
            for error in validator.iter_errors(strict(tree))
        ]
        wrong = index_fault(tree)
        faults += [f"{wrong.code} {wrong.message}"] if wrong else []
    rule = _ARTEFACT_RULES[kind.replace(" ", "-")]
    findings = [SchemaFinding(rule.id, rule.level, "", fault, rule.fix) for fault in faults]
    _write(
        outputs, [(os.path.abspath(options.path), findings)], _ARTEFACT_RULES, inp.rules_of(options)
    )
    if options.json:
        opt.print_json({"passed": not faults, "kind": kind, "file": options.path, "faults": faults})
    else:
        sys.stdout.write(
            f"{options.path}: a sound {kind}\n"
            if not faults
            else (
                f"{options.path}: {len(faults)} fault{'s' if len(faults) != 1 else ''} in this"
                f" {kind}\n"
            )
        )
        sys.stdout.writelines(f"  {fault}\n" for fault in faults)
    return ExitCode.PASSED if not faults else ExitCode.FAILED


def write_findings(outputs: list[str], found: Found, rules: SchemaRules) -> None:
    """Write the findings to each output file, as SARIF or JSON."""
    _write(
        outputs, [(schema.path, findings) for schema, findings, _ in found.values()], RULES, rules
    )


def _write(
    outputs: list[str],
    findings: list[tuple[str, list[SchemaFinding]]],
    table: Mapping[str, Rule],
    rules: SchemaRules,
    *,
    listed: bool = False,
) -> None:
    """Write findings, or the table of their rules, to each output file."""
    systems = rules.systems.document()
    rows = [{"file": file, **finding._asdict()} for file, found in findings for finding in found]
    for path in outputs:
        made = (
            {"rules": [rule._asdict() for rule in table.values()], **systems}
            if listed
            else {"findings": rows, **systems}
        )
        if path.endswith(".sarif"):
            from assay.views.sarif import sarif

            made = sarif(
                [(_source(file), found) for file, found in findings],
                table,
                tool_version=__version__,
                systems=systems,
            )
        with atomic_write(path) as stream:
            stream.write(document_bytes(made))


def _source(path: str) -> str:
    """A path as people below this folder write it, so that a code host finds the file in the
    repository.
    """
    if "://" in path or not os.path.isfile(path):
        return path if "://" in path else f"stdio://{path}"  # a live server has no file
    here = os.path.join(os.getcwd(), "")
    return path[len(here) :] if path.startswith(here) else path


def print_findings(findings: list[SchemaFinding], checks: list[Check]) -> None:
    """Print findings and what the veto checks found."""
    on = opt.colour()
    for finding in findings:
        where = f"line {finding.line}  " if finding.line is not None else ""
        level = opt.paint(f"{finding.level:<7}", _PAINT[finding.level], on=on)
        told = f"{where}{finding.path}{': ' if finding.path else ''}{finding.message} {finding.fix}"
        sys.stdout.write(f"  {level} {printable(told)} [{finding.rule}]\n")
    for check in checks:
        if check.outcome != "clean" and not (
            check.id == "tos-attached" and check.evidence.get("link") is None
        ):  # the finding terms-missing says that already
            sys.stdout.write(
                f"  {opt.paint(f'{check.outcome:<7}', 'red' if check.outcome == 'veto' else 'yellow', on=on)} {check.id}:"  # noqa: E501
                f" {printable(check.reason)}\n"
            )


def print_left(sources: inp.Sources) -> None:
    """Print what was left out, and why."""
    for error in sources.unread:
        sys.stdout.write(f"refused  {error} [{error.code}]\n")
    for item in sources.skipped:
        sys.stdout.write(f"skipped  {printable(item.path)}: {printable(item.reason)}\n")
