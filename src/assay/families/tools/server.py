"""Reading the tools of a live MCP server, over a child process or over HTTP, with the official SDK;
and joining them with a declaration.

The server is untrusted. It gets no more of the environment than PATH, HOME, LANG and what the
caller names; it is stopped with its whole process group when it is done, late or wrong; pages,
tools and bytes are counted; what it prints never reaches the terminal but in an error, shortened
and without the caller's secrets. No tool is ever called.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from assay.errors import Fault, InputError, count, raise_faults
from assay.families.tools import ecma
from assay.families.tools.checks import package_name, same_package
from assay.families.tools.declaration import CODE, Declaration
from assay.families.tools.key_owners import is_credential
from assay.families.tools.reading import from_tools_list, schema_of
from assay.families.tools.source import ToolSchema
from assay.files.json_files import json_fault, parse_json
from assay.installing import install_hint
from assay.sandbox.commands import kill_group
from assay.sandbox.worker import exit_words
from assay.secrets import names_a_secret, secret_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio.abc import ByteReceiveStream, ByteSendStream, ObjectSendStream, Process
    from mcp import ClientSession
    from mcp.client import Transport
    from mcp.shared.message import SessionMessage

CLIENT_VERSION = "1"
"""The version the client reports. It is not the product's version: a server whose answer depends on
it would change its hash with every release.
"""
MAX_PAGES = 200
"""Pages of one listing. Servers of thousands of tools need fewer."""
MAX_TOOLS = 5_000
_INHERITED = ("PATH", "HOME", "LANG")
MAX_BYTES = 4 * 1024 * 1024
"""All that a server may send in one reading: about a million tokens, more than a model can read."""
MAX_NOISE = 200
"""The limit of lines on stdout that are not messages. Some servers print a greeting there, against
the protocol; one that floods it is stopped.
"""
GRACE_S = 1.0
"""How long a server may take to end by itself once its input is closed."""

_KEPT_ERRORS = 8 * 1024
_SHOWN_LINES = 6


def read_stdio(
    command: list[str], *, timeout_s: float, env: dict[str, str] | None = None
) -> ToolSchema:
    """The tools of a server that is started as a child process and talks over its stdin and stdout.

    Raises InputError: FMC-010 if it does not start or answer within the time, FMC-011 if it answers
    wrongly or beyond the limits, FMC-006 without the SDK. The child has ended when this returns,
    however it returns.
    """
    _require_sdk()
    shown = command_shown(command)
    if not command:
        raise InputError(
            "FMC-010",
            "the command is empty.",
            fix="Name the program of the server and its arguments.",
        )
    child = ServerProcess(
        command, {name: os.environ[name] for name in _INHERITED if name in os.environ} | (env or {})
    )
    secrets = [*(env or {}).values(), *secret_parts(command)]
    try:
        answer = _converse(child.transport, child.budget, timeout_s)
    except ServerFault as fault:
        raise InputError(
            fault.code,
            masked(f"{fault.message}{child.last_words()}", secrets),
            where=shown,
            fix=_fix(fault.code, "stdio" if child.exit_code is None else "ended"),
        ) from None
    finally:
        # the second lock on the door: also where the event loop was torn down half-way
        child.kill()
    return _schema(answer, shown, os.path.basename(command[0]))


def read_http(url: str, *, timeout_s: float, headers: dict[str, str] | None = None) -> ToolSchema:
    """The tools of a server that talks streamable HTTP at an address. Raises as `read_stdio`.

    What the address or the headers carry of secrets goes to the server and nowhere else; redirects
    to other hosts are not followed.
    """
    _require_sdk()
    shown = url_shown(url)
    parts = split_url(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            "FMC-010",
            "this is not a web address.",
            where=shown,
            fix="Give an address that begins with https:// or http://.",
        )
    budget = ByteBudget()
    secrets = [
        *(headers or {}).values(),
        *(value.partition(" ")[2] for value in (headers or {}).values()),
        parts.query,
        parts.password or "",
        parts.username or "",
    ]
    try:
        answer = _converse(lambda: _http(url, headers, timeout_s, budget), budget, timeout_s)
    except ServerFault as fault:
        raise InputError(
            fault.code, masked(fault.message, secrets), where=shown, fix=_fix(fault.code, "http")
        ) from None
    return _schema(answer, shown, parts.hostname)


def _fix(code: str, way: str) -> str:
    if code == "FMC-010":
        return {
            "ended": "Run the command by hand to see why.",
            "stdio": "Run the command by hand, or give it more time with --timeout.",
            "http": "Check the address and the headers, or give it more time with --timeout.",
        }[way]
    return "The server has to keep to the Model Context Protocol; report it to its makers."


def _schema(answer: dict[str, Any], path: str, name: str) -> ToolSchema:
    """The schema of a server from its `serverInfo`, `instructions` and `tools`."""
    tools = sorted(answer["tools"], key=lambda tool: str(tool["name"]))
    named, version = (answer["serverInfo"].get(key) for key in ("name", "version"))
    try:
        source = ecma.canonical({**answer, "tools": tools}).encode()
        return from_tools_list(
            tools,
            name=named if isinstance(named, str) and re.search(r"[A-Za-z0-9]", named) else name,
            version=version if isinstance(version, str) else "",
            instructions=answer["instructions"],
            path=path,
            source=source,
        )
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(
            "FMC-011",
            f"the server sends a value that JSON can't express: {str(error)[:200]}.",
            where=path,
            fix=_fix("FMC-011", ""),
        ) from None


# --- the conversation


def _require_sdk() -> None:
    try:
        from mcp import Client  # an optional extra  # noqa: F401
    except ImportError:
        raise InputError(
            "FMC-006",
            "reading a live server needs the MCP SDK 2.",
            fix=f"Run: {install_hint('mcp')}",
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """The SDK writes what a server does wrong to its logger, which would end on the terminal; here
    it becomes an error instead.
    """
    logger = logging.getLogger("mcp")
    silent, propagates = logging.NullHandler(), logger.propagate
    logger.addHandler(silent)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = propagates
        logger.removeHandler(silent)


def _converse(
    connect: Callable[[], Transport], budget: ByteBudget, timeout_s: float
) -> dict[str, Any]:
    """Shake hands and list all tools. Every way in which that fails becomes a ServerFault."""
    import anyio  # comes with the optional extra

    async def within_time() -> dict[str, Any] | None:
        with anyio.move_on_after(timeout_s):
            return await _ask(connect())
        return None

    try:
        with _quiet():
            answer = anyio.run(within_time)
    except BaseException as error:
        leaf = _leaf(error)
        if not isinstance(leaf, Exception):
            raise  # Ctrl-C and the like
        raise budget.fault or _explained(leaf, budget) from None
    if answer is None:
        raise budget.fault or ServerFault(
            "FMC-010", f"the server does not answer within {timeout_s:g} s."
        )
    return answer


async def _ask(transport: Transport) -> dict[str, Any]:
    from mcp import Client  # an optional extra
    from mcp_types import Implementation

    async with Client(
        transport, cache=None, client_info=Implementation(name="assay", version=CLIENT_VERSION)
    ) as client:
        info = (
            client.server_info.model_dump(by_alias=True, mode="json", exclude_none=True)
            if client.server_info is not None
            else {}
        )
        return {
            "serverInfo": info,
            "instructions": client.instructions,
            "tools": await _all_tools(client.session),
        }


async def _all_tools(session: ClientSession) -> list[dict[str, Any]]:
    """The tools of all pages as the server sent them: the SDK's own listing leaves some out, and a
    gate must see what others would be shown.
    """
    from mcp_types import ListToolsRequest, PaginatedRequestParams  # an optional extra
    from pydantic import BaseModel

    class RawPage(BaseModel):
        tools: list[dict[str, Any]]
        nextCursor: str | None = None  # as the protocol spells it  # noqa: N815

    tools: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    cursor: str | None = None
    first: RawPage | None = None
    for _ in range(MAX_PAGES):
        page = await session.send_request(
            ListToolsRequest(params=PaginatedRequestParams(cursor=cursor)), RawPage
        )
        # An empty cursor is one like any other: tools behind it are read, as other clients do. Some
        # servers mean the end by it, and start again when it is sent back.
        if cursor == "" and page == first:
            return list(tools.values())
        first = first or page
        for tool in page.tools:
            if tool["name"] in tools:
                raise ServerFault(
                    "FMC-011", f"the server offers two tools named {tool['name'][:80]!r}."
                )
            tools[tool["name"]] = tool
        if len(tools) > MAX_TOOLS:
            raise ServerFault("FMC-011", f"the server offers more than {MAX_TOOLS:,} tools.")
        cursor = page.nextCursor
        if cursor is None:
            return list(tools.values())
        if cursor in seen:
            raise ServerFault(
                "FMC-011", f"its list of tools never ends: the cursor {cursor[:40]!r} was repeated."
            )
        seen.add(cursor)
    raise ServerFault("FMC-011", f"its list of tools does not end after {MAX_PAGES} pages.")


def _leaf(error: BaseException) -> BaseException:
    """The exception of a group that matters: our own first, then any that isn't just a
    cancellation.
    """
    leaves: list[BaseException] = []
    stack = [error]
    while stack:
        item = stack.pop()
        if isinstance(item, BaseExceptionGroup):
            stack += item.exceptions
        else:
            leaves.append(item)
    return min(
        leaves,
        key=lambda leaf: (
            not isinstance(leaf, KeyboardInterrupt | SystemExit),
            not isinstance(leaf, ServerFault),
            not isinstance(leaf, Exception),
        ),
    )


def _explained(error: Exception, budget: ByteBudget) -> ServerFault:
    import httpx2  # comes with the optional extra
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED
    from pydantic import ValidationError

    if isinstance(error, ServerFault):
        return error
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return ServerFault(
            "FMC-011",
            f"its answer breaks the protocol: {where or 'the whole'}: {first['msg'][:200]}.",
        )
    if isinstance(error, MCPError):
        if budget.status >= 400:
            return ServerFault(
                "FMC-010",
                f"the server answers with HTTP {budget.status}: {error.error.message[:200]}.",
            )
        if error.error.code == CONNECTION_CLOSED:
            return ServerFault("FMC-010", "the server closed the connection without answering.")
        return ServerFault(
            "FMC-011",
            f"the server answers with the error {error.error.code}: {error.error.message[:200]}.",
        )
    if isinstance(error, httpx2.HTTPError | OSError):
        return ServerFault(
            "FMC-010", f"the server cannot be reached: {str(error)[:200] or type(error).__name__}."
        )
    return ServerFault(
        "FMC-011", f"the server breaks the protocol: {str(error)[:200] or type(error).__name__}."
    )


@asynccontextmanager
async def _http(
    url: str, headers: dict[str, str] | None, timeout_s: float, budget: ByteBudget
) -> AsyncIterator[Any]:
    import httpx2  # comes with the optional extra
    from mcp.client.streamable_http import streamable_http_client

    bodies: list[tuple[bytearray, bool]] = []

    class Counted(httpx2.AsyncByteStream):
        def __init__(self, stream: Any, body: bytearray) -> None:
            self._stream, self._body = stream, body

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self._stream:
                budget.take(len(chunk))
                self._body += chunk
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def count(response: httpx2.Response) -> None:
        if (
            response.request.method == "POST"
        ):  # the stream a client may GET is refused by many servers, rightly
            budget.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            budget.fail(
                "FMC-011",
                "the server compresses its answers although it was asked not to; their unpacked"
                " size cannot be limited.",
            )
        is_stream = "event-stream" in response.headers.get("content-type", "").lower()
        bodies.append((bytearray(), is_stream))
        response.stream = Counted(response.stream, bodies[-1][0])

    sent_headers = {**(headers or {}), "accept-encoding": "identity"}
    async with (
        httpx2.AsyncClient(
            headers=sent_headers, timeout=timeout_s, event_hooks={"response": [count]}
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_BYTES) as streams,
    ):
        yield streams
        for body, is_stream in bodies:
            for message in _events(bytes(body)) if is_stream else [bytes(body)]:
                budget.check_keys(message)


def _events(body: bytes) -> Iterator[bytes]:
    r"""The data of each event of a stream.

    >>> list(_events(b"event: message\r\ndata: {}\r\n\r\ndata: [1,\ndata: 2]\n"))
    [b'{}', b'[1,\n2]']
    """
    data: list[bytes] = []
    for line in (*body.splitlines(), b""):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []


# --- the child process
#
# The SDK's own transport is not used because it passes on more of the environment, reads a line of
# any length and leaves the server's stderr on the terminal.


class ServerFault(InputError):
    """A server broke a rule. `server` adds where, what it printed and what to do."""


class ByteBudget:
    """What was received, and the fault that ended it. The SDK turns an exception in a transport
    into a closed connection; the reason is kept here.
    """

    def __init__(self) -> None:
        self.received = 0
        self.status = 0
        self.fault: ServerFault | None = None

    def take(self, size: int) -> None:
        """Count bytes; raise when there are too many."""
        self.received += size
        if self.received > MAX_BYTES:
            self.fail("FMC-011", f"the server sends more than {MAX_BYTES // 1024 // 1024} MiB.")

    def fail(self, code: str, message: str) -> None:
        """Keep the fault and raise it."""
        self.fault = ServerFault(code, message)
        raise self.fault

    def check_keys(self, message: bytes) -> None:
        """Refuse a message that has a key twice: another client may read the one that isn't read
        here.
        """
        try:
            parse_json(message)
        except ValueError as error:
            fault = json_fault(error, message, file="", line=None)
            if fault.code == "FIL-003":
                self.fail("FMC-011", f"in an answer of the server, {fault.message[:120]}")


class ServerProcess:
    """A server as a child process: its pipes, what it printed, its end."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.budget = ByteBudget()
        self._command = command
        self._env = env
        self._process: Process | None = None
        self._errors = b""
        self._ended = False
        self._fell_silent = False
        self.exit_code: int | None = None
        self._noise = 0
        self._first_noise = ""

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Any]:
        """Start the child, hand out the streams of its messages, end it."""
        import asyncio

        import anyio  # comes with the optional extra

        starting = asyncio.ensure_future(
            anyio.open_process(
                self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._env,
                start_new_session=True,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:  # what it has started by now would stay
            with suppress(OSError, ValueError):
                kill_group((await starting).pid)
            raise
        except (OSError, ValueError) as error:
            self.budget.fail(
                "FMC-010",
                f"the server does not start: {getattr(error, 'strerror', None) or error}.",
            )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        incoming, received = anyio.create_memory_object_stream[Any](0)
        sending, outgoing = anyio.create_memory_object_stream[Any](0)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_errors, process.stderr)
                tasks.start_soon(self._read_messages, process.stdout, incoming)
                tasks.start_soon(self._write_messages, process.stdin, outgoing)
                try:
                    yield received, sending
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._end(process)
                    tasks.cancel_scope.cancel()
        finally:
            for stream in (incoming, received, sending, outgoing):
                stream.close()

    async def _read_messages(
        self, stdout: ByteReceiveStream, incoming: ObjectSendStream[Any]
    ) -> None:
        import anyio  # comes with the optional extra

        rest = bytearray()
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ServerFault):
            async with incoming:
                async for chunk in stdout:
                    self.budget.take(len(chunk))
                    searched = len(rest)
                    rest += chunk
                    while (end := rest.find(b"\n", searched)) >= 0:
                        line = bytes(rest[:end])
                        del rest[: end + 1]
                        searched = 0
                        if (message := self._message(line)) is not None:
                            await incoming.send(message)
                self._fell_silent = True

    def _message(self, line: bytes) -> SessionMessage | None:
        from mcp.shared.message import SessionMessage  # an optional extra
        from mcp_types import jsonrpc_message_adapter

        if not line.strip():
            return None
        try:
            message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except (ValueError, RecursionError):
            self._noise += 1
            self._first_noise = self._first_noise or line[:80].decode("utf-8", "replace")
            if self._noise > MAX_NOISE:
                self.budget.fail(
                    "FMC-011",
                    f"the server prints more than {MAX_NOISE} lines that are not messages.",
                )
            return None
        self.budget.check_keys(line)
        return message

    async def _write_messages(self, stdin: ByteSendStream, outgoing: Any) -> None:
        import anyio  # comes with the optional extra

        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async with outgoing:
                async for message in outgoing:
                    await stdin.send(
                        message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
                        + b"\n"
                    )

    async def _read_errors(self, stderr: ByteReceiveStream) -> None:
        import anyio  # comes with the optional extra

        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in stderr:
                self._errors = (self._errors + chunk)[-_KEPT_ERRORS:]

    async def _end(self, process: Process) -> None:
        """Close the child's input, wait a little, then end its whole group."""
        # a pipe closes a moment before its process is known to be gone
        await _wait(process, GRACE_S if self._fell_silent else 0)
        self.exit_code = process.returncode
        await _close(process.stdin)
        await _wait(process, GRACE_S if self.budget.fault is None else 0)
        self.kill()
        await _wait(process, GRACE_S)
        self._ended = process.returncode is not None
        await _close(process.stdout)
        await _close(process.stderr)
        # A grandchild that left the group may hold a pipe open forever; the transport would wait
        # for it and warn.
        transport = getattr(getattr(process, "_process", None), "_transport", None)
        if transport is not None:
            transport.close()

    def kill(self) -> None:
        """End the child and everything it started in its group. Does nothing if they are gone."""
        if (
            self._process is not None and not self._ended
        ):  # its number may belong to another process by then
            kill_group(self._process.pid)

    def last_words(self) -> str:
        """How the child ended by itself and its last output, for an error."""
        sentences = []
        if self.exit_code is not None:
            sentences.append(f" It ended with {exit_words(self.exit_code)}.")
        if self._noise:
            sentences.append(
                f" It wrote {count(self._noise, 'stray line')} to stdout, where only messages"
                f" belong; the first is {self._first_noise!r}."
            )
        lines = [
            line.strip()
            for line in self._errors.decode("utf-8", "replace").splitlines()
            if line.strip()
        ]
        if lines:
            sentences.append(
                f" Its last output was: {' | '.join(line[:200] for line in lines[-_SHOWN_LINES:])}."
            )
        return "".join(sentences)


async def _wait(process: Process, seconds: float) -> None:
    """Wait for the process alone; `wait()` would also wait for other holders of its pipes."""
    import anyio  # comes with the optional extra

    deadline = anyio.current_time() + seconds
    while process.returncode is None and anyio.current_time() < deadline:
        await anyio.sleep(0.01)


async def _close(stream: Any) -> None:
    import anyio  # comes with the optional extra

    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await stream.aclose()


# --- what messages show: no secrets


def url_shown(url: str) -> str:
    """An address without what may be secret in it: user, password, query and fragment.

    >>> url_shown("https://me:pass@example.com:8443/mcp?key=1#x")
    'https://example.com:8443/mcp'
    """
    parts = split_url(url)
    host = parts.netloc.rpartition("@")[2]
    return (
        urlunsplit((parts.scheme, host, parts.path, "", ""))
        if host
        else "(an address without a host)"
    )


def command_shown(command: list[str]) -> str:
    """A command for a message or a report: what looks like a secret is left out.

    >>> command_shown(["server", "--api-key", "s3cr3t", "--token=abc", "--port", "80"])
    "server --api-key '***' '--token=***' --port 80"
    """
    hidden = secret_parts(command)
    return shlex.join(
        url_shown(part) if "://" in part else masked(part, hidden, least=1) for part in command
    )


def secret_parts(command: list[str]) -> list[str]:
    """The parts of a command that look like secrets."""
    parts = []
    for before, part in zip(["", *command], command, strict=False):
        option, equals, value = part.partition("=")
        if equals and value and _takes_a_secret(option):
            parts.append(value)
        elif (
            before.startswith("-")
            and "=" not in before
            and not part.startswith("-")
            and _takes_a_secret(before)
        ):
            parts.append(part)
        elif (secret := secret_in(part)) is not None:
            parts.append(part[secret.start : secret.end])
    return parts


def _takes_a_secret(option: str) -> bool:
    return names_a_secret(option) or re.search(r"token|key$", option, re.IGNORECASE) is not None


def masked(text: str, secrets: list[str], *, least: int = 4) -> str:
    """A text without the secrets."""
    for secret in sorted(
        {secret for secret in secrets if len(secret) >= least}, key=len, reverse=True
    ):
        text = text.replace(secret, "***")
    return text


def split_url(url: str) -> Any:
    """The parts of an address; empty ones where it is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return urlsplit("")
    return parts


# --- with a declaration
#
# One document, one hash: the tree, the gate and a replay read the declaration from the source that
# was kept, so a changed declaration is a changed schema and is graded again.

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
