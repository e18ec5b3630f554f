"""Joining a declaration to the tools of a server: one document, one hash.

The tree, the gate and a replay read the declaration from the source that was kept, so a changed
declaration is a changed schema and is graded again. What is known of how the server is started is
held against the declaration here, because the source does not keep it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from assay.errors import Fault, raise_faults
from assay.families.tools import ecma
from assay.families.tools.checks import package_name, same_package
from assay.families.tools.declaration import CODE, Declaration
from assay.families.tools.key_owners import is_credential
from assay.families.tools.reading.files import schema_of
from assay.families.tools.source import ToolSchema

_RUNNERS = {"npx": 1, "bunx": 1, "uvx": 1, "pipx": 2, "pnpx": 1}
"""Programs that fetch a package and run it, and where in the command it can be."""
_WITH_VALUE = ("-p", "--package", "--from", "--python", "--with", "-c", "--call", "--spec")


class Launch(NamedTuple):
    """How a live server is reached; empty for a file."""

    command: Sequence[str] = ()
    host: str = ""
    env: Sequence[str] = ()
    """The variables of the environment that it is handed, or that a header holds."""


def declare(
    schema: ToolSchema, declaration: Declaration, launch: Launch, *, where: str
) -> ToolSchema:
    """The tools of a server with their declaration. Raises FMC-017 with everything that contradicts
    it.
    """
    faults = [
        Fault(message, code=CODE, file=where, path=path, fix=fix)
        for path, message, fix in _contradictions(schema, declaration, launch)
    ]
    raise_faults(faults, where=where)
    main = schema.main
    page = {
        "serverInfo": {"name": main["name"], "version": main["version"]},
        "instructions": main["description"] or None,
        "tools": [{"name": name, **tool} for name, tool in main["tools"].items()],
    }
    about = {"about": declaration.about} if isinstance(declaration.about, str) else {}
    stated = {"declaration": {**declaration.document(), **about}}
    source = ecma.stringify([stated, page]).encode()
    return schema_of("tools.json", source)._replace(path=schema.path)


def launched_package(command: Sequence[str]) -> str | None:
    """The package that a command fetches and runs; None if it runs a program that is here.

    >>> launched_package(["npx", "-y", "@scope/pkg@1.2", "--port", "3"])
    '@scope/pkg'
    >>> launched_package(["uvx", "--from", "x", "mcp-server-time"]), launched_package(["./server"])
    ('x', None)
    """
    program = os.path.basename(command[0]) if command else ""
    if program not in _RUNNERS:
        return None
    words = list(command[_RUNNERS[program] :])
    while words:
        word = words.pop(0)
        option, equals, value = word.partition("=")
        if option in _WITH_VALUE:
            value = value if equals else words.pop(0) if words else ""
            if option in ("-p", "--package", "--from", "--spec") and value:
                return _package(value)
        elif not word.startswith("-"):
            return _package(word)
    return None


def _package(text: str) -> str:
    return re.split(r"[=<>~\[; ]", package_name(text), maxsplit=1)[0]


def _contradictions(
    schema: ToolSchema, declaration: Declaration, launch: Launch
) -> Iterator[tuple[str, str, str]]:
    """What does not fit the server: a path in the declaration, what is wrong, what to do."""
    if schema.kind != "mcp":
        yield (
            "",
            "this is a FlowMCP schema, which states its modules and keys itself.",
            "Leave out --declare.",
        )
        return
    name, version = schema.main["name"], schema.main["version"]
    if declaration.server not in (name, schema.namespace):
        yield (
            "server",
            f"the declaration is for {declaration.server!r}, but this server is {name!r}.",
            "Use the declaration of this server.",
        )
    if declaration.version != version:
        yield (
            "version",
            f"the declaration is for version {declaration.version!r}, not for {version!r}.",
            f"Check what changed, then write version: {version!r}.",
        )
    if launch.command and declaration.reason("modules") is not None:
        yield (
            "notApplicable.modules",
            "the server is started here, so its modules run here.",
            "List its modules.",
        )
    package = launched_package(launch.command)
    known = {same_package(module) for module in declaration.modules or ()}
    unknown = package is not None and same_package(package) not in known
    if unknown and isinstance(declaration.modules, list):
        yield "modules", f"the command runs the package {package!r}.", "Add it to modules."
    named = declaration.keys if isinstance(declaration.keys, list) else None
    if named is not None or declaration.reason("keys") is not None:
        for key in launch.env:
            if is_credential(key) and key not in (named or ()):
                yield "keys", f"the server is handed the key {key}.", "Add its name to keys."
    hosts = [host.lower() for host in declaration.hosts or ()]
    if launch.host and isinstance(declaration.hosts, list) and launch.host.lower() not in hosts:
        yield "hosts", f"the server itself is on {launch.host}.", "Add it to hosts."
