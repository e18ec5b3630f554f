"""What `assay init` finds in a folder, by reading alone: Python files as syntax trees, result files
by their first bytes. Nothing is imported or executed, no link is followed, and everything has a
limit: the folder is not trusted.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from assay.files.tables import table_columns

MAX_FILES, MAX_DEPTH, MAX_BYTES = 3000, 5, 512 * 1024
MAX_RESULTS, MAX_LINE = 200, 64 * 1024
IS_EXPECTED = re.compile(r"(?i)(expected|gold)([_.-].|$)")
"""The name of a column that says what is expected."""
_SKIPPED = {"node_modules", "venv", "env", "site-packages", "build", "dist", "target", "tests"}
_SKIPPED |= {"assay-runs"}  # what `assay run` wrote
_RESULTS = (".json", ".jsonl", ".eval", ".xml", ".csv")
_INPUTS = (
    "question",
    "query",
    "prompt",
    "message",
    "inputs",
    "task",
    "text",
    "user_input",
    "input",
)
_VERBS = (
    "answer",
    "ask",
    "respond",
    "reply",
    "chat",
    "run",
    "invoke",
    "generate",
    "handle",
    "solve",
)


class Gradable(NamedTuple):
    """Something in the folder that can be graded."""

    kind: str
    """langgraph, agent_framework, python, http or mcp."""
    file: str
    line: int
    target: str
    """`module:name`, a URL, or the command of a server."""
    why: str
    input: str = "question"
    is_async: bool = False
    takes_record: bool = False
    """Whether a function's second parameter is the recorder."""


class ResultFile(NamedTuple):
    """A file that `assay import` reads."""

    file: str
    importer: str
    title: str


class DataFile(NamedTuple):
    """A file with samples: one of its columns says what is expected."""

    file: str
    columns: list[str]


class FolderSearch(NamedTuple):
    """Everything that was found, best first, and what could not be read."""

    subjects: list[Gradable]
    results: list[ResultFile]
    data: list[DataFile]
    tables: list[str]
    """Other tables, which may have samples under other names."""
    unread: list[str]


ORDER = ("langgraph", "agent_framework", "mcp", "http", "python")


def search(folder: str) -> FolderSearch:
    """Look at a folder."""
    subjects: list[Gradable] = []
    results: list[ResultFile] = []
    data: list[DataFile] = []
    tables: list[str] = []
    unread: list[str] = []
    for path in _files(folder):
        name = os.path.relpath(path, folder)
        if name.endswith(".py") and not os.path.basename(name).startswith(("test_", "conftest")):
            tree = _tree(path)
            if tree is None:
                unread.append(name)
            else:
                subjects += _subjects(tree, name)
        elif os.path.basename(name) in ("mcp.json", ".mcp.json"):
            subjects += _servers(path, name)
        elif name.endswith(_RESULTS) and len(results) < MAX_RESULTS:
            results += (known := list(_results(path, name)))
            columns = [] if known else _columns(path)
            if any(map(IS_EXPECTED.match, columns)):
                data.append(DataFile(name, columns))
            elif len(columns) > 1:
                tables.append(name)
    subjects.sort(
        key=lambda subject: (ORDER.index(subject.kind), _rank(subject), subject.file, subject.line)
    )
    return FolderSearch(subjects, results, data, tables, unread)


def _rank(subject: Gradable) -> int:
    """Functions named like a bot's come first."""
    name = subject.target.rpartition(":")[2]
    return next((at for at, verb in enumerate(_VERBS) if name.startswith(verb)), len(_VERBS))


def _files(folder: str) -> Iterator[str]:
    """The files of a folder, nearest first, without links, hidden folders and other people's
    packages.
    """
    level, seen = [folder], 0
    for _ in range(MAX_DEPTH):
        below: list[str] = []
        for place in level:
            try:
                entries = sorted(os.scandir(place), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if entry.is_symlink():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    hidden = entry.name.startswith((".", "__")) or entry.name in _SKIPPED
                    if not hidden and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                        below.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    seen += 1
                    if seen > MAX_FILES:
                        return
                    yield entry.path
        level = below


def _tree(path: str) -> ast.Module | None:
    try:
        if os.path.getsize(path) > MAX_BYTES:
            return None
        with open(path, "rb") as stream:
            return ast.parse(stream.read(MAX_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _results(path: str, name: str) -> Iterator[ResultFile]:
    from assay.importers.head import HEAD, Head
    from assay.importers.known import fitting

    try:
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
    except OSError:
        return
    for importer in fitting(Head(path, head))[:1]:
        yield ResultFile(name, importer.name, importer.title)


def _columns(path: str) -> list[str]:
    """The columns of a table, or the keys in the first line of a JSON Lines file."""
    try:
        with open(path, "rb") as stream:
            line = stream.readline(MAX_LINE)
        if path.endswith(".csv"):
            return table_columns(line, path)
        row = json.loads(line)
        return list(row) if isinstance(row, dict) else []
    except (OSError, ValueError, RecursionError):
        return []


def _servers(path: str, name: str) -> Iterator[Gradable]:
    """The servers of an MCP client's settings."""
    try:
        with open(path, "rb") as stream:
            servers = json.loads(stream.read(MAX_BYTES)).get("mcpServers")
        for server in servers.values():
            words = [str(server["command"]), *map(str, server.get("args", ()))]
            command = " ".join(f'"{word}"' if " " in word else word for word in words)
            yield Gradable("mcp", name, 1, command, f"an MCP server in {name}")
    except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return


# --- syntax trees


def _subjects(tree: ast.Module, file: str) -> Iterator[Gradable]:
    imported = {name.split(".")[0] for name in _imports(tree)}
    module = file.removesuffix(".py").replace(os.sep, ".").removesuffix(".__init__")
    named = [
        (name, node)
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for name in _names(node)
    ]
    for name, node in named:
        made = _made_by(node.value)
        if "langgraph" in imported and made in ("compile", "create_react_agent"):
            why = f"{file}:{node.lineno} compiles a LangGraph graph"
            yield Gradable("langgraph", file, node.lineno, f"{module}:{name}", why)
        elif "agent_framework" in imported and made in ("build", "ChatAgent", "Agent", "as_agent"):
            why = f"{file}:{node.lineno} builds an Agent Framework workflow"
            yield Gradable("agent_framework", file, node.lineno, f"{module}:{name}", why)
        elif made in ("FastMCP", "MCPServer") and imported & {"mcp", "fastmcp"}:
            why = f"{file}:{node.lineno} makes an MCP server"
            yield Gradable("mcp", file, node.lineno, f"python3 {file}", why)
        elif made in ("FastAPI", "Flask") and imported & {"fastapi", "flask"}:
            yield _endpoint(tree, file, node.lineno, name, made)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function(function, file, module, imported)


def _function(
    function: ast.FunctionDef | ast.AsyncFunctionDef, file: str, module: str, imported: set[str]
) -> Iterator[Gradable]:
    """A function that builds a graph, or one that takes a question."""
    if function.name.startswith("_"):
        return
    arguments = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    required = len(arguments) - len(function.args.defaults)
    place = f"{file}:{function.lineno}"
    target = f"{module}:{function.name}"
    is_async = isinstance(function, ast.AsyncFunctionDef)
    returned = {
        _made_by(node.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None
    }
    for kind, what, makers in (
        ("langgraph", "a LangGraph graph", {"compile", "create_react_agent"}),
        ("agent_framework", "an Agent Framework workflow", {"build", "ChatAgent", "Agent"}),
    ):
        if kind in imported and returned & makers and required == 0:
            yield Gradable(kind, file, function.lineno, target, f"{place} returns {what}")
            return
    if not arguments or function.decorator_list:
        return
    first, takes_record = arguments[0], arguments[1:2] == ["record"]
    if required > 1 + takes_record:
        return
    if first in _INPUTS and any(isinstance(node, ast.Return) for node in ast.walk(function)):
        taken = f"{first}, record" if takes_record else first
        why = f"{place} has a function {function.name}({taken})"
        yield Gradable("python", file, function.lineno, target, why, first, is_async, takes_record)


def _endpoint(tree: ast.Module, file: str, line: int, app: str, made: str) -> Gradable:
    """The first route of an app that takes a POST."""
    route = next((path for path in _routes(tree, app)), "/")
    port = 8000 if made == "FastAPI" else 5000
    why = f"{file}:{line} is a {made} app" + (f" with POST {route}" if route != "/" else "")
    return Gradable("http", file, line, f"http://127.0.0.1:{port}{route}", why)


def _routes(tree: ast.Module, app: str) -> Iterator[str]:
    for function in tree.body:
        for call in getattr(function, "decorator_list", ()):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            owner, path = call.func.value, call.args[0] if call.args else None
            if not (isinstance(owner, ast.Name) and owner.id == app):
                continue
            if not (isinstance(path, ast.Constant) and isinstance(path.value, str)):
                continue
            posts = any(
                isinstance(node, ast.Constant) and node.value == "POST"
                for keyword in call.keywords
                for node in ast.walk(keyword.value)
            )
            if call.func.attr == "post" or (call.func.attr == "route" and posts):
                yield path.value


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _made_by(value: ast.expr | None) -> str:
    """The name of what is called last: `compile` in `StateGraph(S).add(...).compile()`."""
    if not isinstance(value, ast.Call):
        return ""
    function = value.func
    return (
        function.attr
        if isinstance(function, ast.Attribute)
        else function.id
        if isinstance(function, ast.Name)
        else ""
    )
