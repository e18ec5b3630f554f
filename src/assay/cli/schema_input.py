"""What the actions of `assay tools` share: where schemas come from, the clock, the rules, progress
lines.
"""

from __future__ import annotations

import os
import shlex
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.cli import options as opt
from assay.errors import Fault, InputError, UsageError
from assay.files.json_files import read_json
from assay.files.yaml_files import parse_yaml
from assay.tools.checks import ModuleLists, read_aliases, read_module_lists
from assay.tools.names import parse_iso, parse_stamp
from assay.tools.policy import SchemaRules
from assay.tools.tree import Tree

if TYPE_CHECKING:
    import argparse

    from assay.tools.source import ToolSchema

TIMEOUT_S = 30.0


def add_source(made: argparse.ArgumentParser) -> None:
    """The options that say where schemas come from."""
    made.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="a schema (.mjs .js .json .yaml), a tools/list snapshot (.json), or a folder of them",
    )
    made.add_argument(
        "--mcp", metavar="COMMAND", help='a live MCP server over stdio, as "python server.py"'
    )
    made.add_argument("--mcp-url", metavar="URL", help="a live MCP server over streamable HTTP")
    made.add_argument(
        "--snapshot", metavar="FILE", help="what an MCP server answered to tools/list, as JSON"
    )
    made.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        help="with --mcp-url: a header to send; $NAME in it is taken from the environment",
    )
    made.add_argument(
        "--env",
        metavar="NAME",
        action="append",
        default=[],
        help="with --mcp: hand this variable of the environment to the server",
    )
    made.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=TIMEOUT_S,
        help=f"seconds to wait for a server or a judge (default: {TIMEOUT_S:g})",
    )


def add_clock(made: argparse.ArgumentParser) -> None:
    """The option that fixes the clock."""
    made.add_argument(
        "--now",
        metavar="TIME",
        help="take this as the present, as 2026-05-18T03:16:00Z (default: the clock)",
    )


def add_rules(made: argparse.ArgumentParser) -> None:
    """The options that choose the policy and the lists of the checks."""
    made.add_argument(
        "--policy",
        metavar="Q",
        default="flowmcp",
        help="policy by name, name@version or YAML file (default: flowmcp)",
    )
    opt.add_library(made)


def add_checks(made: argparse.ArgumentParser) -> None:
    """The options with the lists that the veto checks hold a schema against."""
    made.add_argument(
        "--bad-modules",
        metavar="FILE",
        help=(
            'known bad modules: {"bad": {"name": "why"}, "telemetry": ["name"]}; without it imports'
            " stay undetermined"
        ),
    )
    made.add_argument(
        "--aliases",
        metavar="FILE",
        help='which key names belong to which company: {"brand": ["domain"]}',
    )


def add_tree(made: argparse.ArgumentParser) -> None:
    """The option for the grading tree."""
    made.add_argument(
        "--data",
        metavar="DIR",
        default="grading-data",
        help="the grading tree (default: grading-data)",
    )


def rules_of(options: argparse.Namespace) -> SchemaRules:
    """The rules that the options ask for."""
    return SchemaRules(opt.shelf_of(options).policy_of("flowmcp", options.policy))


def tree_of(options: argparse.Namespace, *, must_exist: bool = True) -> Tree:
    """The grading tree that the options name."""
    if must_exist and not os.path.isdir(options.data):
        raise InputError(
            "FIL-001",
            "there is no such folder.",
            where=options.data,
            fix="Make a tree with `assay tools import`, or name one with --data.",
        )
    return Tree(options.data, rules_of(options))


def now_of(options: argparse.Namespace) -> datetime:
    """The present: the clock, or what --now says."""
    if options.now is None:
        return datetime.now(UTC).replace(microsecond=0)
    found = parse_iso(options.now) or parse_stamp(options.now)
    if found is None or not 1971 <= found.year <= 9998:
        raise UsageError(
            "CLI-001", f"--now {options.now!r} is no time.", fix="Write 2026-05-18T03:16:00Z."
        )
    return found.astimezone(UTC)


class Lists(NamedTuple):
    """What the veto checks hold a schema against."""

    modules: ModuleLists
    aliases: dict[str, list[str]]


def lists_of(options: argparse.Namespace) -> Lists:
    """The lists that the options name."""
    modules = (
        read_module_lists(read_data(options.bad_modules), options.bad_modules)
        if options.bad_modules
        else ModuleLists()
    )
    aliases = read_aliases(read_data(options.aliases), options.aliases) if options.aliases else {}
    return Lists(modules, aliases)


def read_data(path: str) -> Any:
    """A JSON or YAML file."""
    if path.endswith((".yaml", ".yml")):
        from assay.files.json_files import open_input

        with open_input(path) as stream:
            return parse_yaml(stream.read(), path).tree
    return read_json(path).tree


class Sources(NamedTuple):
    """The schemas that were read, and what was not."""

    schemas: list[ToolSchema]
    unread: list[InputError]
    skipped: list[Any]
    folder: bool

    def faults(self) -> list[Fault]:
        """What could not be read, as faults."""
        return [
            Fault(error.message, code=error.code, file=error.where, fix=error.fix)
            for error in self.unread
        ]


def read_sources(options: argparse.Namespace) -> Sources:
    """The schemas that the options name; exactly one source."""
    given = [name for name in ("path", "mcp", "mcp_url", "snapshot") if getattr(options, name)]
    if len(given) != 1:
        raise UsageError(
            "CLI-001",
            (
                "name one source: a PATH, --mcp, --mcp-url or --snapshot."
                if not given
                else "name only one source."
            ),
        )
    if options.mcp or options.mcp_url:
        from assay.tools.reading import server

        if options.mcp:
            try:
                command = shlex.split(options.mcp)
            except ValueError as error:
                raise UsageError(
                    "CLI-001", f"--mcp {options.mcp!r} is no command: {error}."
                ) from None
            missing = [name for name in options.env if name not in os.environ]
            if missing:
                raise UsageError("CLI-001", f"the environment has no {', '.join(missing)}.")
            return Sources(
                [
                    server.read_stdio(
                        command,
                        timeout_s=options.timeout,
                        env={name: os.environ[name] for name in options.env},
                    )
                ],
                [],
                [],
                False,
            )
        return Sources(
            [
                server.read_http(
                    options.mcp_url, timeout_s=options.timeout, headers=_headers(options.header)
                )
            ],
            [],
            [],
            False,
        )
    from assay.tools.reading import files

    path = options.snapshot or options.path
    if options.path and os.path.isdir(path):
        found = files.read_folder(path)
        return Sources(list(found.schemas), list(found.unread), list(found.skipped), True)
    return Sources([files.read_schema(path)], [], [], False)


def _headers(given: list[str]) -> dict[str, str]:
    made = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise UsageError("CLI-001", "a header is 'NAME: VALUE'.")
        made[name.strip()] = os.path.expandvars(value.strip())
    return made


def progress(area: str, primitive: str, status: str, *, valid: bool, written: bool) -> None:
    """One line of progress, as the specification words it."""
    tick = {True: "✓", False: "✗"}
    sys.stderr.write(
        "[GRADING]"
        f" area={area}/{primitive} schema-valid={tick[valid]} status={status} written={tick[written]}\n"  # noqa: E501
    )


def progress_count(done: int, total: int) -> None:
    """How far it got."""
    sys.stderr.write(
        f"[GRADING] PROGRESS {done}/{total}\n" + ("[GRADING] DONE\n" if done == total else "")
    )
