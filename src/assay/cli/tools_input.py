"""What the actions of `assay tools` share: where schemas come from, the clock, the rules, the tree,
progress lines.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from assay.canon import time_of
from assay.cli import options as opt
from assay.cli.frame import Options, arg, policy_option, repeated
from assay.errors import Fault, InputError, UsageError
from assay.files.inputs import open_input
from assay.files.json_files import read_json
from assay.files.yaml_files import parse_yaml
from assay.records.tool_finding import SchemaFinding
from assay.registry import near_miss
from assay.tools.checks import ModuleLists, VetoCheck, read_module_lists
from assay.tools.key_owners import read_aliases
from assay.tools.names import parse_stamp
from assay.tools.policy import SchemaRules
from assay.tools.server_checks import run_checks
from assay.tools.source import ToolSchema
from assay.tools.tree import OWNERS, Tree
from assay.tools.validation import assess

if TYPE_CHECKING:
    from assay.archive.store import Store
    from assay.tools.reading.declared import Launch

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


# --- the tree


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
        from assay.archive.records import tree_drafts

        store.put(*(tree_drafts(tree, kind, name) for kind, name in pairs))


# --- schemas


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
    from assay.tools.reading import files, folders

    if options.path and os.path.isdir(options.path):
        if options.declare:
            raise UsageError(
                "CLI-001",
                f"--declare is about one server, and {options.path} is a folder.",
                fix="Name the snapshot of the server.",
            )
        folder = folders.read_folder(options.path)
        for schema in folder.schemas:
            _refuse_own_declaration(schema)
        return Sources(list(folder.schemas), list(folder.unread), list(folder.skipped), True)
    schema = files.read_schema(options.snapshot or options.path)
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
    from assay.tools.declaration import read_declaration
    from assay.tools.reading.declared import Launch, declare

    declaration = read_declaration(options.declare)
    return declare(schema, declaration, launch or Launch(), where=options.declare)


def _read_server(options: Options) -> ToolSchema:
    from assay.tools.reading import server
    from assay.tools.reading.declared import Launch

    if options.mcp_url:
        headers, names = {}, []
        for text in options.header:
            name, colon, value = text.partition(":")
            if not colon or not name.strip():
                raise UsageError("CLI-001", "a header is 'NAME: VALUE'.")
            headers[name.strip()] = os.path.expandvars(value.strip())
            names += re.findall(r"\$\{?(\w+)", value)
        schema = server.read_http(options.mcp_url, timeout_s=options.timeout, headers=headers)
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
    schema = server.read_stdio(command, timeout_s=options.timeout, env=env)
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


# --- progress

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
