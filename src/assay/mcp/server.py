"""`assay mcp`: evaluations, grades and decisions for coding agents, over the Model Context Protocol
on standard input and output.

Read-only unless it is started with `--write`. One call is answered at a time, in a thread, so that
the protocol keeps running; a call in progress is finished even if the client disconnects.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import __version__
from assay.canon import plain
from assay.cli import options as opt
from assay.cli.frame import Command, Options, arg, flag
from assay.errors import AssayError, ExitCode, FaultList, UsageError, count
from assay.files.upwards import find_config
from assay.installing import install_hint
from assay.mcp.project import BoundedAnswer, ServedProject, shown_text
from assay.mcp.tools import INSTRUCTIONS, AgentTool, offered
from assay.records.schemas import engine
from assay.registry import near_miss

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.shared.message import SessionMessage


NAME = "assay"


def _serve(options: Options) -> int:
    tools = offered(write=options.write, commands=options.allow_commands)
    if options.json:
        info = {"name": NAME, "version": __version__}
        listed = [tool.listed() for tool in tools.values()]
        document = {"serverInfo": info, "instructions": INSTRUCTIONS, "tools": listed}
        return opt.give(options, document, [])
    project = project_of(options)
    try:
        import anyio  # comes with the extra
        import mcp.server.stdio  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(
            "CLI-001",
            f"`assay mcp` needs {error.name}, which is not installed.",
            fix=f"Run: {install_hint('mcp')}",
        ) from None
    if sys.stdin.isatty():
        opt.note(
            f"serving {project.root} to an MCP client on standard input, {len(tools)} tools,"
            f" {'with --write' if options.write else 'read-only'}. Ctrl-C ends it."
        )
    try:
        anyio.run(_serve_stdio, make_server(project, tools))
    except BaseExceptionGroup as group:
        if group.split((BrokenPipeError, ConnectionError))[1] is not None:
            raise
        # the client went away while it was answered: nobody is left to tell
    return ExitCode.PASSED


def project_of(options: Options) -> ServedProject:
    """The project that the options name; its folder becomes the working folder."""
    given: list[tuple[str, str | None]] = []
    for name in ("config_file", "library"):
        if value := getattr(options, name):
            given.append((f"--{name.removesuffix('_file')}", os.path.abspath(value)))
    if options.db:
        scheme, separator, file = options.db.partition(":///")
        relative = scheme == "sqlite" and separator and file
        given.append(("--db", f"sqlite:///{os.path.abspath(file)}" if relative else options.db))
    if options.trust:
        given.append(("--trust", None))
    if options.project:
        given.append(("--project", options.project))
    folder = options.root
    if folder is None:
        config = options.config_file or find_config()
        folder = os.curdir if config is None else os.path.dirname(os.path.abspath(config))
    if not os.path.isdir(folder):
        raise UsageError("FIL-001", "there is no such folder.", where=folder)
    os.chdir(folder)
    return ServedProject(os.path.realpath(os.curdir), tuple(given))


def make_server(project: ServedProject, tools: Mapping[str, AgentTool]) -> Server[Any]:
    """The server of these tools, with the official SDK."""
    import mcp_types as types  # an optional extra
    from anyio import CapacityLimiter, to_thread
    from mcp import MCPError
    from mcp.server.lowlevel import Server

    one_at_a_time = CapacityLimiter(1)
    listed = [types.Tool.model_validate(tool.listed()) for tool in tools.values()]

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            raise MCPError(
                types.INVALID_PARAMS,
                f"There is no tool {params.name[:80]!r}.{near_miss(params.name[:80], tools)}",
            )
        made = await to_thread.run_sync(
            answer_call, project, tool, params.arguments or {}, limiter=one_at_a_time
        )
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=made.text)],
            structured_content=made.document,
            is_error=made.is_error,
        )

    return Server(
        NAME,
        version=__version__,
        title="Assay",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


_NOTIFYING = "notifications/"
"""How the name of a message begins that isn't answered."""


async def _serve_stdio(server: Server[Any]) -> None:
    import anyio  # an optional extra
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as tasks:
        readable, messages = anyio.create_memory_object_stream[Any]()

        async def relay() -> None:
            async with readable:
                async for message in incoming:
                    if (refusal := _refusal(message)) is not None:
                        await outgoing.send(refusal)
                    else:
                        await readable.send(message)

        tasks.start_soon(relay)
        await server.run(messages, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


def _refusal(given: Exception | SessionMessage) -> SessionMessage | None:
    """The answer to a line that the SDK can't read, such as one with a lone surrogate, and to a
    request that it takes for a notification because of its id: without it, the client would wait
    forever. Its id is null if the request's can't be read or repeated. None for a notification, a
    response or an empty line, which aren't answered.
    """
    import mcp_types as types  # an optional extra
    from mcp.shared.message import SessionMessage
    from pydantic import ValidationError

    if isinstance(given, SessionMessage):
        sent = given.message
        if not isinstance(sent, types.JSONRPCNotification) or sent.method.startswith(_NOTIFYING):
            return None
        text = f"Invalid request: {sent.method[:80]!r} needs an id, a string or a whole number."
        fault = types.ErrorData(code=types.INVALID_REQUEST, message=text)
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=fault))
    if not isinstance(given, ValidationError):
        return None
    first, message = given.errors()[0], given.errors()[-1]["input"]
    if first["type"] == "json_invalid":
        fault = types.ErrorData(code=types.PARSE_ERROR, message=first["msg"])
        if not message.strip():
            return None
        try:
            message = json.loads(message)
        except (ValueError, RecursionError):
            message = None
    else:
        where = "".join(f"{part}: " for part in first["loc"][1:])
        fault = types.ErrorData(
            code=types.INVALID_REQUEST, message=f"Invalid request: {where}{first['msg']}"
        )
    fields = message if isinstance(message, dict) else {"id": None}
    if "id" not in fields or "result" in fields or "error" in fields:
        return None
    try:
        answer = types.JSONRPCError(jsonrpc="2.0", id=fields["id"], error=fault)
        answer.model_dump_json()  # fails on an id with a lone surrogate
    except ValueError:
        answer = types.JSONRPCError(jsonrpc="2.0", id=None, error=fault)
    return SessionMessage(answer)


MOST_TEXT = 24_000
"""Characters of the text of an answer."""
FAULTS = 20
_LONG = 200


class CallAnswer(NamedTuple):
    """What a client gets for a call."""

    document: dict[str, Any]
    text: str
    is_error: bool = False


def answer_call(
    project: ServedProject, tool: AgentTool, arguments: Mapping[str, Any]
) -> CallAnswer:
    """Check the arguments of a call and answer it, within the limits of an answer."""
    stderr = io.StringIO()
    try:
        _check(tool, arguments)
        with redirect_stderr(stderr):
            made = tool.answer(project, arguments)
    except AssayError as error:
        return _refused(error)
    except RecursionError:
        return _refused(AssayError("FIL-004", "the input is nested too deeply."))
    except Exception as error:
        fault = AssayError(
            "ERR-001",
            f"internal error: {type(error).__name__}: {error}.",
            where=tool.name,
            fix="Report it together with the call.",
        )
        return _refused(fault)
    lines = [line.strip().removeprefix("assay: ") for line in stderr.getvalue().splitlines()]
    notes = list(dict.fromkeys(filter(None, lines)))
    bounded = BoundedAnswer(text=made.most)
    document = bounded.tree(plain(made.document))
    document["notes"] = BoundedAnswer().tree([*notes, *document.get("notes", ())])
    document["truncated"] = bounded.cuts
    if bounded.more_cuts:
        document["truncated_elsewhere"] = bounded.more_cuts
    return CallAnswer(document, _cut("\n".join([*map(shown_text, notes), made.text])))


def _check(tool: AgentTool, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that the tool's schema does not allow, with every fault of them."""
    faults = FaultList(tool.name, code="MCP-001", limit=FAULTS)
    validator = engine().Draft202012Validator(tool.input_schema)
    for error in validator.iter_errors(dict(arguments)):
        path = ".".join(map(str, error.instance_path))
        message = error.message
        if len(message) > _LONG:  # the value first, and what is wrong with it at the end
            message = f"{message[:40]}…{message[-100:]}"
        faults.add(f"{shown_text(message)}.", path=path)
    if faults.count:
        first = faults.error()
        takes = ", ".join(tool.properties)
        raise UsageError(
            "MCP-001",
            "; ".join(fault.text().rstrip(".") for fault in first.faults) + ".",
            where=tool.name,
            fix=f"It takes {takes}.",
        )


_SHELL = re.compile(r"`assay |(?<![\w-])--[a-z]")


def without_commands(text: str) -> str:
    """A text without the sentences that name a command or an option of a shell: an agent has the
    tools but no shell.

    >>> without_commands("Name a run. `assay evals list` shows them.")
    'Name a run.'
    """
    return " ".join(
        sentence for sentence in re.split(r"(?<=[.!?]) ", text) if not _SHELL.search(sentence)
    )


def _refused(error: AssayError) -> CallAnswer:
    error.fix = without_commands(error.fix)
    error.message = without_commands(error.message) or error.message
    for fault in getattr(error, "faults", ()):
        fault.fix = without_commands(fault.fix)
    document = BoundedAnswer(items=FAULTS).tree(plain(error.as_dict()))
    return CallAnswer(document, _cut(f"{error} [{error.code}]"), is_error=True)


def _cut(text: str) -> str:
    shown = shown_text(text, most=MOST_TEXT)
    left = len(text) - MOST_TEXT
    return shown if left <= 0 else f"{shown}\n{count(left, 'more character')} left out."


COMMANDS = {
    "mcp": Command(
        _serve,
        "Serve evaluations, grades and decisions to coding agents over the Model Context Protocol,"
        " on standard input and output. Read-only unless started with --write; --json prints the"
        " tools and ends.",
        "assay mcp --root ~/projects/support-bot",
        (
            arg(
                "--root",
                kind="path",
                metavar="DIR",
                help=(
                    "the project folder, which clients can't leave (default: the folder of"
                    " assay.yaml here or above, else this folder)"
                ),
            ),
            arg(
                "--config",
                kind="path",
                metavar="FILE",
                dest="config_file",
                help="take defaults from this file (default: assay.yaml of the project folder)",
            ),
            flag(
                "--write",
                "also offer tools that store decisions, import results, set baselines and start"
                " servers",
            ),
            flag("--trust", "trust this assay.yaml (`assay trust` shows why, and remembers it)"),
            flag(
                "--allow-commands",
                "also offer the tool that starts an MCP server to check its tools",
            ),
            "--db",
            arg(
                "--project",
                heading="ledger",
                kind="text",
                trust="freely",
                metavar="NAME",
                help="the project of the ledger (default: assay.yaml's, else default)",
            ),
            "--library",
        ),
        configured=False,
    ),
}
