"""Reading the tools of a live MCP server, over a child process or over HTTP, with the official SDK.

The server is untrusted. It gets no more of the environment than PATH, HOME, LANG and what the
caller names; it is stopped with its whole process group when it is done, late or wrong; pages,
tools and bytes are counted; what it prints never reaches the terminal but in an error, shortened
and without the caller's secrets. No tool is ever called.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.families.tools import ecma
from assay.families.tools.reading.child import MAX_BYTES, ByteBudget, ServerFault, ServerProcess
from assay.families.tools.reading.files import from_tools_list
from assay.families.tools.reading.masking import (
    command_shown,
    masked,
    secret_parts,
    split_url,
    url_shown,
)
from assay.installing import install_hint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from mcp import ClientSession
    from mcp.client import Transport

    from assay.families.tools.source import ToolSchema

CLIENT_VERSION = "1"
"""The version the client reports. It is not the product's version: a server whose answer depends on
it would change its hash with every release.
"""
MAX_PAGES = 200
"""Pages of one listing. Servers of thousands of tools need fewer."""
MAX_TOOLS = 5_000
_INHERITED = ("PATH", "HOME", "LANG")


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
