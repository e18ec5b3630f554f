"""`assay tools`: check, grade, score, import, record, index, status, regrade, gate and export."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import structs, to_builtins

from assay import __version__
from assay.canon import canonical, time_of, time_text
from assay.cli import options as opt
from assay.cli.frame import STORE, Bounds, Command, Options, arg, flag, policy_option, repeated
from assay.cli.ledger import stored, storing
from assay.errors import ExitCode, Fault, InputError, UsageError, count, printable
from assay.families.tools import protocol
from assay.families.tools import views as view
from assay.families.tools.checks import (
    ModuleLists,
    VetoCheck,
    read_module_lists,
    run_checks,
    veto_of,
)
from assay.families.tools.declaration import read_declaration
from assay.families.tools.ecma import document_bytes, hash8, script_bytes
from assay.families.tools.entry import (
    TRIGGERS,
    Trigger,
    consistency_faults,
    faults_by,
    recomputed,
    schema_faults,
    semantic_faults,
)
from assay.families.tools.gate import (
    GateEvidence,
    SchemaSource,
    decide,
    schemas_named,
    unread_reason,
)
from assay.families.tools.index import (
    INDEX_VERSION,
    contradictions,
    index_fault,
    namespace_index,
    next_ungraded,
    nodes_of,
)
from assay.families.tools.intake import (
    AREA,
    Written,
    check_open,
    export,
    import_one,
    import_selection,
    record_scores,
)
from assay.families.tools.key_owners import read_aliases
from assay.families.tools.legibility import ALL_RULES, assess
from assay.families.tools.legibility_score import BEST, report_of, scale, score_schema
from assay.families.tools.names import (
    FULL,
    GRADINGS,
    INDEX,
    PARTIAL,
    parse_stamp,
    report_name,
    segment,
    slug,
)
from assay.families.tools.policy import SchemaRules, at_least
from assay.families.tools.reading import read_folder, read_schema, source_of
from assay.families.tools.record import PLACE, record
from assay.families.tools.records import (
    GradingEntry,
    IndexNode,
    LegibilityReport,
    MemberNode,
    NamespaceIndex,
    SchemaFinding,
    SchemaLegibility,
    SchemaNode,
    SchemaRule,
    SelectionIndex,
    ToolGateResult,
    document,
    plain_check,
)
from assay.families.tools.regrade import RegradeOutcome, primitive, regrade, stale_nodes
from assay.families.tools.report import report_document, shown_text_of
from assay.families.tools.sarif import sarif
from assay.families.tools.scorer import PromptJudge, command_judge, endpoint_judge, score_prompts
from assay.families.tools.source import ToolSchema
from assay.families.tools.status import letter_status
from assay.families.tools.tree import OWNERS, Tree, next_moment, owner_of
from assay.files.atomic import atomic_create, write_file
from assay.files.inputs import open_input
from assay.files.json_files import parse_json, read_json
from assay.files.yaml_files import is_yaml_name, parse_yaml, read_entry
from assay.grouping import grouped
from assay.judging.config import load_judge
from assay.records.typed import convert
from assay.registry import near_miss

if TYPE_CHECKING:
    from assay.families.tools.server import Launch
    from assay.services.storing import Store
    from assay.store.drafts import Draft


SOURCE = (
    arg(
        "path",
        nargs="?",
        metavar="PATH",
        help="a schema (.mjs .js .json .yaml), a tools/list snapshot (.json), or a folder of them",
    ),
    arg(
        "--mcp",
        kind="text",
        trust="trusted",
        metavar="COMMAND",
        help='a live MCP server over stdio, such as "python server.py"',
    ),
    arg("--mcp-url", kind="address", metavar="URL", help="a live MCP server over streamable HTTP"),
    arg(
        "--snapshot",
        kind="path",
        metavar="FILE",
        help="what an MCP server answered to tools/list, as JSON",
    ),
    arg(
        "--declare",
        kind="path",
        metavar="FILE",
        help=(
            "YAML with what an MCP server does not show: its modules, keys and hosts (`assay"
            " schema-of tool-declaration`)"
        ),
    ),
    repeated(
        "--header",
        "'NAME: VALUE'",
        "with --mcp-url: a header to send; $NAME in it is taken from the environment",
        kind="text",
        trust="trusted",
    ),
    repeated(
        "--env",
        "NAME",
        "with --mcp: pass this environment variable to the server",
        kind="text",
        trust="trusted",
    ),
    arg(
        "--timeout",
        metavar="S",
        type=float,
        default=30.0,
        help="seconds to wait for the server (default: 30)",
    ),
)
"""Where schemas come from."""
RULES = (policy_option("flowmcp"), "--library")
CHECKS = (
    arg(
        "--bad-modules",
        kind="path",
        metavar="FILE",
        help=(
            'known bad modules: {"bad": {"name": "why"}, "telemetry": ["name"]}; without it imports'
            " stay undetermined"
        ),
    ),
    arg(
        "--aliases",
        kind="path",
        metavar="FILE",
        help='which key names belong to which company: {"brand": ["domain"]}',
    ),
)
"""The lists that the veto checks hold a schema against."""
DATA = arg(
    "--data",
    kind="path",
    metavar="DIR",
    default="grading-data",
    help="the grading tree (default: grading-data)",
)
NAMES = arg(
    "names",
    kind="text",
    nargs="*",
    metavar="NAME",
    help="namespaces or selections (default: all)",
)


def rules_of(options: Options) -> SchemaRules:
    """The rules that the options ask for."""
    return SchemaRules(opt.shelf_of(options).policy_of("flowmcp", options.policy))


def now_of(options: Options) -> datetime:
    """The present: the clock, or what --now says."""
    if options.now is None:
        return datetime.now(UTC).replace(microsecond=0)
    moment = time_of(options.now) or parse_stamp(options.now)
    if moment is None or not 1971 <= moment.year <= 9998:
        raise UsageError(
            "CLI-001", f"--now {options.now!r} is not a time.", fix="Write 2026-05-18T03:16:00Z."
        )
    return moment.astimezone(UTC)


def read_data(path: str) -> Any:
    """A JSON or YAML file."""
    if path.endswith((".yaml", ".yml")):
        with open_input(path) as stream:
            return parse_yaml(stream.read(), path).tree
    return read_json(path).tree


def read_object(path: str) -> dict[str, Any]:
    """A JSON or YAML file that holds an object."""
    tree = read_data(path)
    if not isinstance(tree, dict):
        raise InputError("FMC-012", "must be a JSON object.", where=path)
    return tree


def tree_of(options: Options, *, must_exist: bool = True) -> Tree:
    """The grading tree that the options name."""
    if must_exist and not os.path.isdir(options.data):
        raise InputError(
            "FIL-001",
            "there is no such folder.",
            where=options.data,
            fix="Make a tree with `assay tools import`, or name one with --data.",
        )
    return Tree(options.data, rules_of(options))


def policy_line(tree: Tree) -> str:
    """The rules behind the letters that a command prints: a letter says nothing without them."""
    return f"policy {tree.rules.id} · {tree.rules.systems.scoring} · {tree.rules.systems.grading}"


def owners(tree: Tree, names: list[str]) -> list[tuple[str, str]]:
    """The namespaces and selections of those names; all of the tree where none is named."""
    known = [(kind, name) for kind in OWNERS for name in tree.names(kind)]
    if not known and not names:
        raise InputError(
            "IDX-006",
            "the tree is empty.",
            where=shown_path(tree.root),
            fix="Import something first: `assay tools import`.",
        )
    for name in names:
        if name not in [pair[1] for pair in known]:
            near = near_miss(name, [pair[1] for pair in known])
            raise InputError(
                "IDX-006",
                f"there is no namespace or selection '{name}'.{near}",
                where=shown_path(tree.root),
            )
    return [pair for name in names for pair in known if pair[1] == name] if names else known


def keep(store: Store | None, tree: Tree, pairs: list[tuple[str, str]]) -> None:
    """Store the entries and the index of these namespaces and selections; nothing if no store was
    asked for. What is there already is not stored again.
    """
    if store is not None:
        from assay.families.tools.stored import tree_drafts

        store.put(*(tree_drafts(tree, kind, name) for kind, name in pairs))


class Lists(NamedTuple):
    """What the veto checks hold a schema against."""

    modules: ModuleLists
    aliases: dict[str, list[str]]


def lists_of(options: Options) -> Lists:
    """The lists that the options name."""
    bad, aliases = options.bad_modules, options.aliases
    return Lists(
        read_module_lists(read_data(bad), bad) if bad else ModuleLists(),
        read_aliases(read_data(aliases), aliases) if aliases else {},
    )


class Sources(NamedTuple):
    """The schemas that were read, and what was not."""

    schemas: list[ToolSchema]
    unread: list[InputError] = []
    skipped: list[Any] = []
    folder: bool = False

    def faults(self) -> list[Fault]:
        """What could not be read, as faults."""
        return [
            Fault(error.message, code=error.code, file=error.where, fix=error.fix)
            for error in self.unread
        ]

    def document(self) -> dict[str, Any]:
        """What was not read, as JSON shows it."""
        return {
            "refused": [fault.as_dict() for fault in self.faults()],
            "skipped": [{"path": item.path, "reason": item.reason} for item in self.skipped],
        }


class Assessed(NamedTuple):
    """A schema with its findings and its veto checks."""

    schema: ToolSchema
    findings: list[SchemaFinding]
    checks: list[VetoCheck]


def assess_all(sources: Sources, lists: Lists) -> list[Assessed]:
    """Every schema with its findings and its veto checks."""
    return [
        Assessed(
            schema,
            assess(schema),
            run_checks(schema, lists=lists.modules, aliases=lists.aliases),
        )
        for schema in sources.schemas
    ]


def read_sources(options: Options) -> Sources:
    """The schemas that the options name; exactly one source."""
    given, options = opt.given_of(options, "path", "mcp", "mcp_url", "snapshot")
    if len(given) != 1:
        raise UsageError(
            "CLI-001",
            "name only one source."
            if given
            else "name one source: a PATH, --mcp, --mcp-url or --snapshot.",
        )
    if options.mcp or options.mcp_url:
        return Sources([_read_server(options)])
    if options.path and os.path.isdir(options.path):
        if options.declare:
            raise UsageError(
                "CLI-001",
                f"--declare is about one server, and {options.path} is a folder.",
                fix="Name the snapshot of the server.",
            )
        folder = read_folder(options.path)
        for schema in folder.schemas:
            _refuse_own_declaration(schema)
        return Sources(list(folder.schemas), list(folder.unread), list(folder.skipped), True)
    schema = read_schema(options.snapshot or options.path)
    _refuse_own_declaration(schema)
    return Sources([_declared(options, schema)])


def _refuse_own_declaration(schema: ToolSchema) -> None:
    """Refuse a file of a server that contains its own declaration: the user who relies on one gives
    it with --declare.
    """
    if schema.kind == "mcp" and "declaration" in schema.main:
        raise InputError(
            "FMC-017",
            "contains the server's tools and a declaration.",
            where=schema.path,
            fix="Put the declaration into a separate file and pass it with --declare.",
        )


def _declared(options: Options, schema: ToolSchema, launch: Launch | None = None) -> ToolSchema:
    """The tools of a server with the declaration that the options name, if they name one."""
    if not options.declare:
        return schema
    from assay.families.tools.server import Launch, declare

    declaration = read_declaration(options.declare)
    return declare(schema, declaration, launch or Launch(), where=options.declare)


def _read_server(options: Options) -> ToolSchema:
    from assay.families.tools.server import Launch, read_http, read_stdio

    if options.mcp_url:
        headers, names = {}, []
        for text in options.header:
            name, colon, value = text.partition(":")
            if not colon or not name.strip():
                raise UsageError("CLI-001", "a header is 'NAME: VALUE'.")
            headers[name.strip()] = os.path.expandvars(value.strip())
            names += re.findall(r"\$\{?(\w+)", value)
        schema = read_http(options.mcp_url, timeout_s=options.timeout, headers=headers)
        host = urlsplit(options.mcp_url).hostname or ""
        return _declared(options, schema, Launch(host=host, env=names))
    try:
        command = shlex.split(options.mcp)
    except ValueError as error:
        raise UsageError("CLI-001", f"--mcp {options.mcp!r} is not a command: {error}.") from None
    missing = [name for name in options.env if name not in os.environ]
    if missing:
        raise UsageError("CLI-001", f"the environment has no {', '.join(missing)}.")
    env = {name: os.environ[name] for name in options.env}
    schema = read_stdio(command, timeout_s=options.timeout, env=env)
    return _declared(options, schema, Launch(command=command, env=options.env))


def shown_source(path: str) -> str:
    """A path as people below this folder write it, so that a code host finds the file in the
    repository.
    """
    if "://" in path or not os.path.isfile(path):
        return path if "://" in path else f"stdio://{path}"  # a live server has no file
    return shown_path(path)


def shown_path(path: str) -> str:
    """A path from this folder on where it is below it; a live server's name as it is."""
    return path.removeprefix(os.path.join(os.getcwd(), ""))


_TICK = {True: "✓", False: "✗"}


def progress(area: str, primitive: str, status: str, *, valid: bool, written: bool) -> None:
    """One line of progress, as the specification words it."""
    sys.stderr.write(
        f"[GRADING] area={area}/{primitive} schema-valid={_TICK[valid]} status={status}"
        f" written={_TICK[written]}\n"
    )


def progress_count(done: int, total: int) -> None:
    """How far it got."""
    sys.stderr.write(
        f"[GRADING] PROGRESS {done}/{total}\n" + ("[GRADING] DONE\n" if done == total else "")
    )


FORMATS = (".html", ".md", ".svg")
"""The formats that show the scores."""
MIN_SCORE = arg(
    "--min-score",
    within=Bounds(1, BEST),
    metavar="N",
    type=int,
    help="exit 1 unless every schema and every tool has a legibility score of N or more (1 to 100)",
)
_NAMED = 10


def legibility_of(
    assessed: Sequence[Assessed], sources: Sources, minimum: int | None
) -> LegibilityReport:
    """The score of every schema, and of all together."""
    scores = [
        score_schema(item.schema, item.findings, item.checks)._replace(
            path=shown_source(item.schema.path)
        )
        for item in assessed
    ]
    return report_of(scores, [error.where for error in sources.unread], minimum=minimum)


def check_drafts(
    assessed: Sequence[Assessed], scores: Sequence[SchemaLegibility], *, now: datetime
) -> list[Draft]:
    """What a ledger keeps of a check: one record per schema."""
    from assay.families.tools.checked import tool_check
    from assay.store.drafts import draft

    return [
        draft(
            plain_check(
                tool_check(item.schema, score, item.findings, item.checks, file=score.path, now=now)
            ),
            kind="check",
        )
        for item, score in zip(assessed, scores, strict=True)
    ]


def legibility_document(report: LegibilityReport) -> dict[str, Any]:
    """All scores, as `-o findings.json` has them."""
    schemas = [
        {"schemaId": schema.subject, "file": schema.path, **schema.document()}
        for schema in report.schemas
    ]
    return {**report.document(), "schemas": schemas}


def refuse_scores(options: Options, outputs: list[str], what: str) -> None:
    """Refuse to score what has no tools."""
    refused = [f"-o {path}" for path in outputs if path.endswith(FORMATS)]
    refused += ["--min-score"] if options.min_score is not None else []
    refused += ["--store"] if options.store is not None else []
    if refused:
        raise UsageError(
            "CLI-001",
            f"{what} has no legibility score.",
            fix=f"Leave out {' and '.join(refused)}.",
        )


def write_scores(outputs: Sequence[str], report: LegibilityReport) -> None:
    """Write the page, the table or the badge to each output file."""
    for path in outputs:
        if path.endswith(".svg"):
            data = view.badge(report)
        else:
            page = view.page(report, scale()) if path.endswith(".html") else view.markdown(report)
            data = page.encode("utf-8", "replace")
        write_file(path, data)


def score_lines(score: SchemaLegibility) -> Iterator[str]:
    """The score of one schema, and the tools that lost most."""
    first, *tools = map(printable, view.legibility_lines(score))
    colour = "green" if score.score == BEST else "yellow" if not score.cap_reason else "red"
    yield f"  {opt.paint(first, colour)}"
    yield from (f"  {line}" for line in tools)


def whole_lines(report: LegibilityReport, below: Sequence[str]) -> Iterator[str]:
    """The score of everything, what falls short, and what the score is not."""
    if len(report.schemas) + len(report.unread) > 1:
        unread = f", {len(report.unread):,} unread as 0" if report.unread else ""
        yield f"legibility {report.score}/{BEST} ({count(len(report.schemas), 'schema')}{unread})"
    if below:
        shown = "; ".join(map(printable, below[:_NAMED]))
        more = f"; and {len(below) - _NAMED:,} more" if len(below) > _NAMED else ""
        yield f"below --min-score {report.minimum}: {shown}{more}"
    if report.schemas:
        yield opt.paint("Legibility is not a grade; `assay tools grade` makes grades.", "dim")


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
    outputs, rules = opt.outputs(options), rules_of(options)
    if options.rules:
        refuse_scores(options, outputs, "The list of rules")
        return _list_rules(options, outputs, rules)
    if options.path and options.path.endswith(".json") and os.path.isfile(options.path):
        tree = read_json(options.path, lone_surrogates=True).tree
        kind = _artefact(tree)
        if kind is not None:
            refuse_scores(options, outputs, f"{options.path} is a {kind}: it")
            return _check_artefact(kind, tree, options, outputs, rules)
    lists, now = lists_of(options), now_of(options)
    with storing(options) as store:
        sources = read_sources(options)
        assessed = assess_all(sources, lists)
        report = legibility_of(assessed, sources, options.min_score)
        if store is not None:
            store.put(check_drafts(assessed, report.schemas, now=now))
    plain = [path for path in outputs if not path.endswith(FORMATS)]
    write_findings(plain, assessed, rules, more={"legibility": legibility_document(report)})
    write_scores([path for path in outputs if path not in plain], report)
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
            f"{item.schema.schema_id}  {shown_path(item.schema.path)}",
            *score_lines(score),
            *finding_lines(item),
        )
    ]
    lines += [*left_lines(sources), *whole_lines(report, below)]
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


def write_findings(
    outputs: list[str],
    assessed: Sequence[Assessed],
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
            made = sarif(
                [(shown_source(file), file_findings) for file, file_findings in findings],
                {rule.id: rule for rule in table},
                tool_version=__version__,
                systems=systems,
            )
        write_file(path, document_bytes(made))


def finding_lines(item: Assessed, *, levels: Sequence[str] = tuple(_PAINT)) -> Iterator[str]:
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


def left_lines(sources: Sources) -> Iterator[str]:
    """What was left out, and why."""
    yield from (f"refused  {error} [{error.code}]" for error in sources.unread)
    yield from (printable(f"skipped  {item.path}: {item.reason}") for item in sources.skipped)


_CHECK = Command(
    _check,
    "List what is wrong with a schema, the tools of a server, a grading entry or an index,"
    " each finding with a fix, and how legible the tools are from 0 to 100. Asks no model.",
    "assay tools check schemas/ --min-score 80 -o legibility.html",
    (
        *SOURCE,
        flag("--rules", "list the rules instead"),
        MIN_SCORE,
        *CHECKS,
        *RULES,
        "--now",
        *STORE,
    ),
    formats=(".sarif", ".json", *FORMATS),
)


def _gate(options: Options, store: Store | None) -> int:
    tree = tree_of(options)
    evidence = _evidence(tree, options.names, lists_of(options), store, now=now_of(options))
    gate = decide(options.names, evidence, tree.rules)
    if store is not None:
        from assay.families.tools.stored import schema_gate_drafts

        store.put(schema_gate_drafts(gate, options.names, evidence, tree.rules))
    failed = ExitCode.FAILED if gate.violated else ExitCode.NOT_ENOUGH
    lines = chain(
        *map(_lines, gate.results),
        [policy_line(tree)],
    )
    return opt.give(options, gate, lines, ExitCode.PASSED if gate.passed else failed)


def _lines(result: ToolGateResult) -> Iterator[str]:
    word = "PASS" if result.passed else "FAIL" if result.violated else "UNDETERMINED"
    yield f"{opt.paint(word, 'green' if result.passed else 'red')}  {result.subject}"
    for rule in result.rules:
        mark = {True: "✓", False: "✗", None: "?"}[rule.holds]
        yield f"  {mark} {rule.id}: {printable(rule.reason)}"


def _evidence(
    tree: Tree, names: list[str], lists: Lists, store: Store | None, *, now: datetime
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
            if all(kind == "selections" for kind, _ in owners(tree, [namespace])):
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
            next_moment(parse_stamp(index.updated_at), now, shown_path(tree.root))
            indexes[namespace] = convert(parse_json(canonical(index)), NamespaceIndex)
        for schema in schemas_named(name, indexes[namespace], where=shown_path(tree.root)):
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
    tree = tree_of(options)
    kind, name = owners(tree, [options.name])[0]
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
    lines = [shown_path(path) for path in written]
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
    tree = tree_of(options)
    named = owners(tree, options.names)
    for kind, name in named:
        with tree.locked(kind, name):
            if options.lock and kind == "selections":
                tree.take_lock(name, now=now_of(options))
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
    keep(store, tree, named)
    lines = [
        f"{entry['name']}  {entry['status']}  {entry['grade'] or 'no grade'} "
        f" {count(len(entry['blockers']), 'blocker')}"
        for entry in listed
    ]
    lines.append(policy_line(tree))
    shown = {"indexes": listed, "policy": tree.rules.id, **tree.rules.systems.document()}
    return opt.give(options, shown, lines)


def _status(options: Options) -> int:
    tree = tree_of(options)
    known: dict[str, NamespaceIndex | None] = {}
    indexes = [tree.index(kind, name, known=known) for kind, name in owners(tree, options.names)]
    shown = {
        "trees": document(indexes),
        "next": [next_ungraded(index) for index in indexes],
        "policy": tree.rules.id,
        **tree.rules.systems.document(),
    }
    lines = chain(
        *map(_tree_lines, indexes),
        [policy_line(tree)],
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


def write_state(
    workdir: str, schema: ToolSchema, state: dict[str, Any], **phases: str | None
) -> None:
    """Write how far the grading of a schema has come."""
    document = {
        "schemaId": schema.schema_id,
        "schemaIdSlug": slug(schema.schema_id),
        "schemaHash": schema.file_sha256,
        **state,
        "phases": {
            "promptsEmitted": None,
            "scoresReceived": None,
            "gradeComputed": None,
            "reportWritten": None,
            **phases,
        },
    }
    path = os.path.join(workdir, slug(schema.schema_id), "state.json")
    write_file(path, document_bytes(document))


class ScoredSchema(NamedTuple):
    """The scores of one schema, and the state of its grading if its prompts were written here."""

    scores: dict[str, Any]
    state: dict[str, Any]

    @property
    def started(self) -> str | None:
        """When its prompts were written."""
        phases: dict[str, str | None] = self.state.get("phases", {})
        return phases.get("promptsEmitted")


def read_scores(options: Options, assessed: list[Assessed], now: datetime) -> list[ScoredSchema]:
    """The scores of every schema, or all faults at once."""
    scored: list[ScoredSchema] = []
    faults: list[Fault] = []
    for schema, _, _ in assessed:
        path = options.consume_scores
        if os.path.isdir(path):
            path = os.path.join(path, slug(schema.schema_id), "scores.json")
        try:
            scored.append(_scored(options, schema, path, now))
        except InputError as error:
            faults += error.listed(path)
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
    return scored


def _scored(options: Options, schema: ToolSchema, path: str, now: datetime) -> ScoredSchema:
    state = _state(options.workdir, schema)
    when_to_use = options.when_to_use or state.get("whenToUse")
    prompts = protocol.prompts_document(schema, when_to_use=when_to_use)
    scores = protocol.check_scores(
        read_json(path, lone_surrogates=True).tree,
        expected_slug=slug(schema.schema_id),
        where=path,
        asked=protocol.prompts_digest(prompts),
        dimensions=protocol.dimensions_of(schema, when_to_use=when_to_use),
        emitted=time_of(state.get("phases", {}).get("promptsEmitted")),
        now=now,
    )
    document_bytes(scores, where=path)  # refuses a lone surrogate before anything is written
    if state and state.get("schemaHash") != schema.file_sha256:
        raise InputError(
            "PRO-006",
            "the schema has changed since its prompts were written.",
            where=path,
            fix="Write the prompts again and score them again."
            + (" Give the same --declare both times." if schema.kind == "mcp" else ""),
        )
    return ScoredSchema(scores, state)


def _state(workdir: str, schema: ToolSchema) -> dict[str, Any]:
    """The state of a grading; empty if its prompts were not written here."""
    path = os.path.join(workdir, slug(schema.schema_id), "state.json")
    if not os.path.exists(path):
        return {}
    state: Any = read_json(path).tree
    phases = state.get("phases") if isinstance(state, dict) else None
    if not isinstance(phases, dict) or (
        phases.get("promptsEmitted") is not None and time_of(phases["promptsEmitted"]) is None
    ):
        raise InputError(
            "PRO-002", "is not a grading state.", where=path, fix="Write the prompts again."
        )
    fields: dict[str, Any] = state
    return fields


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
    rules, now, lists = rules_of(options), now_of(options), lists_of(options)
    sources = read_sources(options)
    assessed = assess_all(sources, lists)
    _refuse_twins(sources)
    if not options.consume_scores:
        write_findings(outputs, assessed, rules)
        return _emit(options, sources, assessed, now)
    with storing(options) as store:
        return _consume(options, sources, assessed, rules, now, outputs, store)


def _refuse_twins(sources: Sources) -> None:
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


def _emit(options: Options, sources: Sources, assessed: list[Assessed], now: datetime) -> int:
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
    sources: Sources,
    assessed: list[Assessed],
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
        progress_count(len(reports), len(assessed))
    if store is not None:
        from assay.families.tools.stored import report_drafts, tree_drafts

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
    item: Assessed,
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
    progress(AREA, schema.base, status, valid=report["validationPassed"], written=True)
    good = at_least(report["grade"], rules.policy.production_from)
    passed = good and report["validationPassed"] and veto is None
    return {"path": path, "passed": passed, "report": report, **made}


def _add_report(folder: str, report: dict[str, Any], now: datetime) -> str:
    """A new report file: an existing report is never overwritten or left out."""
    base = report_name(report["schemaId"], report["date"]).removesuffix(".json")
    timed = f"{base}-{now.strftime('%H%M%S')}Z"
    for name in (base, timed, *(f"{timed}-{number}" for number in range(2, 1000))):
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


def _report_lines(made: dict[str, Any], item: Assessed) -> Iterator[str]:
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


def _score(options: Options) -> int:
    judge, model = _judge(options)
    rules, now = rules_of(options), now_of(options)
    results: list[dict[str, Any]] = []
    unstable = 0
    for source, target in _jobs(options.prompts, options.output):
        scores = score_prompts(
            read_json(source, lone_surrogates=True).tree,
            judge,
            rules,
            now=now,
            repeat=options.repeat,
            model=model,
            harness_version=options.judge_version,
            program_version=__version__,
            where=source,
        )
        write_file(target, document_bytes(scores, where=source))
        results.append({"path": target, "scores": scores})
        for item in scores.get("repeats", ()):
            if not item["reproducible"]:
                unstable += 1
                opt.warn(
                    f"{scores['schemaIdSlug']} {item['dimension']}:"
                    f" {options.repeat} scores are {float(item['spread']):g} apart, more than"
                    f" {float(rules.reproducible_within):g}: {', '.join(map(str, item['scores']))}"
                )
    return opt.give(
        options, {"results": results, "unstable": unstable}, _score_lines(options, results)
    )


def _score_lines(options: Options, results: list[dict[str, Any]]) -> Iterator[str]:
    for result in results:
        scores = result["scores"]
        shown = ", ".join(f"{item['dimension']} {item['score']}" for item in scores["scores"])
        yield f"{scores['schemaIdSlug']}  {shown}  {result['path']}"
    where = options.prompts if os.path.isdir(options.prompts) else results[0]["path"]
    path = opt.unless_configured(options, "tools grade", "mcp", "PATH")
    yield f"next: assay tools grade{path} --consume-scores {options.output or where}"


def _judge(options: Options) -> tuple[PromptJudge, str | None]:
    """The judge, and the model for the record."""
    if not is_yaml_name(options.judge):
        return command_judge(options.judge, timeout_s=options.timeout), options.model

    spec = load_judge(read_entry(options.judge, "judge"))
    return endpoint_judge(spec), options.model or spec.model


def _jobs(prompts: str, output: str | None) -> list[tuple[str, str]]:
    if not os.path.isdir(prompts):
        if output and os.path.isdir(output):
            raise UsageError(
                "FIL-008", "is a directory.", where=output, fix="Name the file, as scores.json."
            )
        return [(prompts, output or os.path.join(os.path.dirname(prompts), "scores.json"))]
    jobs = [
        (
            os.path.join(prompts, name, "prompts.json"),
            os.path.join(output or prompts, name, "scores.json"),
        )
        for name in sorted(os.listdir(prompts))
    ]
    jobs = [job for job in jobs if os.path.isfile(job[0])]
    if not jobs:
        raise InputError(
            "FMC-008",
            "contains no <slug>/prompts.json.",
            where=prompts,
            fix="Write them with `assay tools grade PATH --emit-prompts`.",
        )
    return jobs


def _import(options: Options, store: Store | None) -> int:
    tree, now = tree_of(options, must_exist=False), now_of(options)
    selection = _selection(options.path)
    if selection is not None:
        written = [import_selection(tree, selection, options.path, now=now)]
        keep(store, tree, [("selections", str(selection["selectionId"]))])
        return _give_import(options, written, Sources([]), several=False)
    sources = read_sources(options)
    namespaces = sorted({schema.namespace for schema in sources.schemas})
    if len(namespaces) > 1 and options.strict_2:
        raise InputError(
            "FMC-008",
            f"the folder contains {len(namespaces)} namespaces: {', '.join(namespaces)}.",
            where=str(options.path),
            fix="One folder, one namespace.",
        )
    assessed = assess_all(sources, Lists(ModuleLists(), {}))
    written = [import_one(tree, item.schema, item.findings, now=now) for item in assessed]
    if store is not None:
        report = legibility_of(assessed, sources, None)
        store.add(check_drafts(assessed, report.schemas, now=now))
    keep(store, tree, [("providers", namespace) for namespace in namespaces])
    return _give_import(options, written, sources, several=len(namespaces) > 1 and sources.folder)


def _selection(path: str | None) -> dict[str, Any] | None:
    """The selection that a file holds; None if it holds something else."""
    if not path or not path.endswith(".json") or not os.path.isfile(path):
        return None
    tree = read_json(path, lone_surrogates=True).tree
    return tree if isinstance(tree, dict) and "selectionId" in tree else None


def _give_import(
    options: Options, written: list[Written], sources: Sources, *, several: bool
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
        f"{item.action:<11}  {item.schema}  {shown_path(item.path)}"
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
        tree = tree_of(options)
        path, names, result = record(
            tree,
            [read_object(file) for file in options.files],
            {name: getattr(options, name) for name in PLACE if getattr(options, name)},
            now=now_of(options),
            catalogue=read_object(options.questions) if options.questions else {},
            mode=options.mode,
            trigger=Trigger(options.trigger, options.issue, options.by)
            if options.trigger
            else None,
            harness=options.harness,
        )
        with open(path, "rb") as stream:
            entry = parse_json(stream.read())
        status = tree.shown_status(entry["area"], names)
        progress(entry["area"], primitive(names), status, valid=True, written=True)
        progress_count(1, 1)
        keep(store, tree, [owner_of(entry["area"], names)])
    notes = [*result.notes, *result.warnings] if result else []
    lines = [f"{entry['aggregateGrade'] or status}  {path}", *(f"  {note}" for note in notes)]
    shown = {"path": path, "entry": entry, "notes": notes, "policy": tree.rules.id}
    return opt.give(options, shown, [*lines, policy_line(tree)])


def _regrade(options: Options, store: Store | None) -> int:
    tree, now = tree_of(options), now_of(options)
    named = owners(tree, options.names)
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
    for done, outcome in enumerate(outcomes, 1):
        area, names = outcome.place.area, outcome.place.names
        written = outcome.action == "regraded"
        status = tree.shown_status(area, names)
        progress(area, primitive(names), status, valid=True, written=written)
        progress_count(done, len(outcomes))
    keep(store, tree, named)
    due = sum(outcome.action == "due" for outcome in outcomes)
    lines = [*map(_outcome_line, outcomes)] or ["nothing has been graded yet"]
    if due:
        lines.append(
            f"{due} due: answer them and run `assay tools record ... --trigger {options.trigger}`"
        )
    lines.append(policy_line(tree))
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
_TREE = (DATA, *RULES, "--now", *STORE)


COMMANDS = {
    "tools check": _CHECK,
    "tools validate": _CHECK._replace(
        description="The older name of `assay tools check`.",
        example="assay tools validate schemas/ --min-score 80",
    ),
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
            DATA,
            *CHECKS,
            *RULES,
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
            DATA,
            *RULES,
        ),
    ),
    "tools index": Command(
        stored(_index),
        "Rebuild index.json from the entries of a tree: the same bytes for the same tree. The"
        " frozen lock of a selection does not change.",
        "assay tools index --data grading-data",
        (
            NAMES,
            flag(
                "--lock",
                "freeze the members of the named selections as they are, before they are graded",
            ),
            DATA,
            *RULES,
            "--now",
            *STORE,
        ),
    ),
    "tools status": Command(
        _status,
        "Show the nodes of a tree: status, grade, bindings, and what blocks each.",
        "assay tools status openmeteo",
        (NAMES, DATA, *RULES),
    ),
    "tools grade": Command(
        _grade,
        "Write the prompts of scoring protocol v1, and turn the scores that a grader gave them into"
        " a report.",
        "assay tools grade schemas/prices.mjs --emit-prompts",
        (
            *SOURCE,
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
            *CHECKS,
            *RULES,
            "--now",
            *STORE,
        ),
        formats=(".sarif", ".json"),
    ),
    "tools score": Command(
        _score,
        "Score prompts with a judge: one isolated request for each prompt. A judge is a command"
        " that reads a prompt and writes JSON.",
        "assay tools score proofs/grade-work/openmeteo_air/prompts.json -o scores.json --judge"
        " './judge.sh'",
        (
            arg(
                "prompts",
                metavar="PROMPTS",
                help="a prompts.json, or a work folder with <slug>/prompts.json",
            ),
            arg(
                "-o",
                "--output",
                kind="path",
                metavar="SCORES",
                help=(
                    "where to write scores.json; for a work folder, the folder to write to"
                    " (default: next to the prompts)"
                ),
            ),
            arg(
                "--judge",
                offers="files",
                kind="text",
                trust="trusted",
                metavar="J",
                required=True,
                help=(
                    'a command that reads a prompt on standard input and writes {"score": 1.0-5.0,'
                    ' "reasoning": ...}; or a judge\'s description (.yaml)'
                ),
            ),
            arg(
                "--model",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="the model behind the judge, for the record",
            ),
            arg(
                "--judge-version",
                kind="text",
                trust="freely",
                metavar="V",
                help="the version of the judge, for the record",
            ),
            arg(
                "--repeat",
                within=Bounds(least=1),
                metavar="N",
                type=int,
                default=1,
                help=(
                    "ask N times; the first reply is the score, the others show how consistent it"
                    " is (default: 1)"
                ),
            ),
            arg(
                "--timeout",
                within=Bounds(above=0),
                metavar="S",
                type=float,
                default=120.0,
                help="seconds to wait for one reply (default: 120)",
            ),
            *RULES,
            "--now",
        ),
    ),
    "tools import": Command(
        stored(_import),
        "Put schemas, or a selection .json, into a grading tree: new entries are created, changed"
        " ones are added next to the old, the rest is skipped.",
        "assay tools import schemas/openmeteo --data grading-data",
        (
            *SOURCE,
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
            NAMES,
            arg("--trigger", choices=TRIGGERS, required=True, help="why it is graded again"),
            *_REPORTED,
            *_TREE,
        ),
    ),
}
