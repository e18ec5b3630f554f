"""Reading a tool schema from a file: a FlowMCP module, the same as data, or what an MCP server
answered to `tools/list`.

What a module may do while it is read: `engine`. Folders: `folders`. Whether a schema is valid:
`validation`.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any

from assay.errors import InputError
from assay.families.tools import ecma
from assay.families.tools.declaration import check_declaration
from assay.families.tools.reading import limits
from assay.families.tools.reading.engine import Engine, NoSchema, required_libraries, too_large
from assay.families.tools.source import ToolSchema
from assay.files.inputs import open_input
from assay.files.json_files import Document, json_fault
from assay.files.yaml_files import parse_yaml

MODULES = (".mjs", ".js")
DATA = (".json", ".yaml", ".yml")
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_BASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def read_schema(path: str) -> ToolSchema:
    """The tool schema in one file.

    Raises InputError: `FMC-00n` for what the file holds, `FIL-00n` where it cannot be opened or
    isn't JSON or YAML.
    """
    return schema_of(path, source_of(path))


def source_of(path: str) -> bytes:
    """The bytes of one file, as a schema is made of them; none of them where there are too many."""
    try:
        return file_bytes(path, os.path.realpath(path))
    except ValueError:  # a NUL or a lone surrogate: no system has such a name
        raise InputError("FIL-001", "cannot be the name of a file.", where=path) from None


def from_tools_list(
    tools: list[dict[str, Any]],
    *,
    name: str,
    version: str,
    instructions: str | None,
    path: str,
    source: bytes,
    declaration: Any = None,
) -> ToolSchema:
    """The schema of an MCP server from what it answered to `tools/list`, all pages together.

    >>> from_tools_list(
    ...     [{"name": "add", "inputSchema": {"type": "object"}}],
    ...     name="My Sums",
    ...     version="1",
    ...     instructions=None,
    ...     path="sums",
    ...     source=b"",
    ... ).schema_id
    'my-sums/tools'
    """
    by_name: dict[str, Any] = {}
    for index, tool in enumerate(tools):
        tool_name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(tool_name, str) or not tool_name:
            raise InputError(
                "FMC-008",
                f"tools[{index}] has no name.",
                where=path,
                fix="Every tool of a `tools/list` answer is an object with a name.",
            )
        if tool_name in by_name:
            # Which of the two a client would call is open, so neither can be graded.
            raise InputError(
                "FMC-008",
                f"two tools are named '{tool_name[:100]}'.",
                where=path,
                fix="Tool names are unique in one server.",
            )
        by_name[tool_name] = {key: value for key, value in tool.items() if key != "name"}
    namespace = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not namespace:
        raise InputError(
            "FMC-007",
            f"the server's name {name[:100]!r} has no letter or digit to make a folder's name of.",
            where=path,
            fix="Name it in `serverInfo`.",
        )
    namespace = f"mcp-{namespace}" if namespace[0].isdigit() else namespace
    main = {
        "namespace": namespace,
        "name": name,
        "version": version,
        "description": instructions or "",
        "tools": by_name,
    }
    if declaration is not None:
        stated = check_declaration(Document(declaration, path, None, None))
        main["declaration"] = stated.document()
        if isinstance(stated.about, str):
            main["resources"] = {"about": stated.about}
    plain = _plain(main, path)
    return ToolSchema(
        "mcp", path, namespace, "tools", plain, ecma.stringify(plain["tools"]), source
    )


# --- one file


def schema_of(path: str, source: bytes, engine: Engine | None = None) -> ToolSchema:
    """The tool schema that the bytes of a file hold; raises NoSchema where they hold another.
    Nothing is opened: the path says what the file is called, and in which folders it lies. Without
    an engine, one is started for a module and ended again.
    """
    base, extension = os.path.splitext(os.path.basename(path))
    extension = extension.lower()
    if extension in MODULES:
        return _from_module(path, base, source, engine)
    if extension not in DATA:
        known = ", ".join((*MODULES, *DATA))
        raise InputError(
            "FMC-008",
            f"a file named *{extension} is not a tool schema.",
            where=path,
            fix=f"These are read: {known}.",
        )
    tree = _json(source, path) if extension == ".json" else parse_yaml(source, path).tree
    declaration = None
    # `reading.declared` puts a declaration before the pages. An answer of a server is an object, so
    # no server declares itself.
    if (
        isinstance(tree, list)
        and len(tree) > 1
        and isinstance(tree[0], dict)
        and tree[0].keys() == {"declaration"}
    ):
        declaration, tree = tree[0]["declaration"], tree[1:]
    pages = _pages(tree, path)
    if pages is not None:
        tools, about = pages
        stated = about.get("serverInfo")
        info: dict[str, Any] = stated if isinstance(stated, dict) else {}
        name, version, instructions = (
            info.get("name"),
            info.get("version"),
            about.get("instructions"),
        )
        return from_tools_list(
            tools,
            name=name if isinstance(name, str) else base,
            version=version if isinstance(version, str) else "",
            instructions=instructions if isinstance(instructions, str) else None,
            path=os.path.abspath(path),
            source=source,
            declaration=declaration,
        )
    main = _plain(_main_of(tree, path), path)
    return ToolSchema(
        "flowmcp",
        os.path.abspath(path),
        _namespace(main, path),
        _base(base, path),
        main,
        ecma.stringify(main["tools"]),
        source,
        required_libraries(main),
    )


def _from_module(path: str, base: str, source: bytes, engine: Engine | None) -> ToolSchema:
    if engine is None:
        with Engine() as own:
            return _from_module(path, base, source, own)
    module = engine.read(source, file=path)
    namespace = _namespace(module.main, path)
    where = os.path.abspath(path)
    return ToolSchema(
        "flowmcp",
        where,
        namespace,
        _base(base, path),
        module.main,
        module.tools_text,
        source,
        module.modules,
        module.handlers,
        module.addresses,
        module.not_data,
    )


def _namespace(main: dict[str, Any], path: str) -> str:
    stated = main.get("namespace")
    if isinstance(stated, str):
        if not _NAMESPACE.fullmatch(stated):
            message = f"the namespace {stated[:100]!r} cannot be the name of a folder."
            raise InputError(
                "FMC-007",
                message,
                where=path,
                fix="Use letters, digits, - and _, beginning with a letter or digit.",
            )
        return stated
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    if not _NAMESPACE.fullmatch(folder):
        message = f"it states no namespace, and its folder's name {folder[:100]!r} cannot be one."
        raise InputError("FMC-007", message, where=path, fix="State one: namespace: '...'")
    return folder


def _base(base: str, path: str) -> str:
    if not _BASE.fullmatch(base) or ".." in base:
        message = f"the file's name {base[:100]!r} cannot be part of a schema's id."
        raise InputError(
            "FMC-007",
            message,
            where=path,
            fix="Use letters, digits, single dots, - and _, beginning with a letter or digit.",
        )
    return base


def _json(source: bytes, path: str) -> Any:
    if not source.strip():
        raise InputError("FIL-005", "the file is empty.", where=path)
    try:
        return ecma.parse(source.decode())
    except UnicodeDecodeError:
        raise InputError(
            "FIL-002", "is not UTF-8 text.", where=path, fix="JSON here is UTF-8."
        ) from None
    except ValueError as error:
        fault = json_fault(error, source, file=path, line=None)
        raise InputError(
            fault.code, fault.message, where=path, fix=fault.fix, faults=[fault]
        ) from None


def _plain(tree: Any, path: str) -> Any:
    """The data as a JavaScript engine holds it: numbers are doubles, keys that are list indexes
    come first.
    """
    try:
        return ecma.parse(ecma.stringify(tree))
    except ValueError as error:
        raise InputError(
            "FMC-001",
            f"contains a value that no JavaScript engine can represent: {error}.",
            where=path,
        ) from None


def _main_of(tree: Any, path: str) -> Any:
    for candidate in (
        tree,
        *((tree.get("main"), tree.get("schema")) if isinstance(tree, dict) else ()),
    ):
        if isinstance(candidate, dict) and isinstance(candidate.get("tools"), dict):
            return candidate
    raise NoSchema(
        "FMC-008",
        "has no `tools`, so it is not a tool schema.",
        where=path,
        fix="A FlowMCP schema has `tools` as an object, a `tools/list` answer as a list.",
    )


def _pages(tree: Any, path: str) -> tuple[list[dict[str, Any]], dict[str, Any]] | None:
    """The tools of all pages of a `tools/list` answer and the rest of it; None for
    anything else.
    """
    parts = tree if isinstance(tree, list) else [tree]
    tools: list[dict[str, Any]] = []
    about: dict[str, Any] = {}
    seen, cursor, broken = 0, None, False
    for part in parts:
        page = part.get("result", part) if isinstance(part, dict) else None
        if not isinstance(page, dict):
            return None
        if isinstance(part.get("error"), dict) and "jsonrpc" in part:
            raise InputError(
                "FMC-008",
                f"contains an error from the server: {str(part['error'].get('message'))[:200]}.",
                where=path,
                fix="Ask it again.",
            )
        if isinstance(page.get("tools"), list):
            tools += page["tools"]
            seen, cursor = seen + 1, page.get("nextCursor")
        elif "tools" in page:
            broken = True
        about |= {
            key: value
            for page_part in (part, page)
            for key, value in page_part.items()
            if key in ("serverInfo", "instructions")
        }
    if not seen:
        return None
    if broken:
        raise InputError(
            "FMC-008",
            "contains a page whose `tools` is not a list.",
            where=path,
            fix="Fetch that page again.",
        )
    if cursor:
        # Grading the first page would pass a server whose other tools nobody has seen.
        raise InputError(
            "FMC-008",
            "ends in the middle: the last page names a `nextCursor`.",
            where=path,
            fix="Fetch the other pages and put all in a list.",
        )
    return tools, about


def file_bytes(path: str, real: str) -> bytes:
    """The bytes of a regular file, none of them where there are too many. A link in the place of
    the last name is not followed: `real` has none.
    """
    limit = (
        limits.MAX_DATA
        if real.lower().endswith(DATA) and path.lower().endswith(DATA)
        else limits.MAX_SOURCE
    )
    try:
        handle = os.open(
            real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
        )
    except FileNotFoundError:
        with open_input(path):  # its error knows the near miss
            raise InputError("FIL-001", "cannot be read.", where=path) from None
    except OSError as error:
        raise InputError("FIL-001", f"cannot be read: {error.strerror}.", where=path) from None
    try:
        state = os.fstat(handle)
        if stat.S_ISDIR(state.st_mode):
            raise InputError(
                "FIL-001",
                "is a directory.",
                where=path,
                fix="Name a file in it, or read it as a folder.",
            )
        if not stat.S_ISREG(state.st_mode):
            raise InputError("FIL-001", "is not a regular file.", where=path)
        if state.st_size > limit:
            raise too_large(path, limit)
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise InputError("FIL-001", f"cannot be read: {error.strerror}.", where=path) from None
    finally:
        os.close(handle)
    if len(data) > limit:  # it grew while it was read, or its size is not known
        raise too_large(path, limit)
    return data
