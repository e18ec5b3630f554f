"""How a connection reads a request and writes an answer: the head of a request must come within a
time, and an answer goes out in one piece.

The web server waits for ever for the head of a request, and only afterwards is there anybody who
could lose patience (see `bodies`). A timer runs from the moment a connection is made, or from the
first byte of a further request, until the head is whole. A request that comes in one piece starts
none.

The web server writes the head of an answer, and then its body. Each would be a call to the system,
and wake the client; what is written in one turn of the event loop goes out together.

A plain request that comes in one piece does not go through h11, where that is the parser (see
`whole_requests`). What comes behind it waits for its answer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from assay.server.bodies import WHOLE
from assay.server.problems import MEDIA_TYPE, Problem, safe
from assay.server.whole_requests import Whole, WholeCycle, whole_request

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle, Transport

HEAD_S = 10.0
"""How long the head of a request may take."""


def _too_late() -> bytes:
    body = safe(
        Problem(408, "the head of the request comes too slowly.", fix="Send it faster.").document()
    )
    head = (
        f"HTTP/1.1 408 Request Timeout\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length:"
        f" {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


class Gathered:
    """A transport that writes once in a turn of the event loop."""

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Write, at the end of this turn."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def close(self) -> None:
        """Write what is left, and close."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Write what is left."""
        if self._parts:
            parts, self._parts = self._parts, []
            self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


# one of two, whichever parser is installed
class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection whose request heads have a time limit."""

    head_s: float = HEAD_S
    _head_timer: TimerHandle | None = None
    _is_owed = False
    """With httptools, whether a request has begun and its last byte has not come."""
    _behind: bytes = b""
    """What came behind a request that is not answered yet."""

    def connection_made(self, transport: Transport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(Gathered(transport, self.loop))
        self._head_timer = self.loop.call_later(self.head_s, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Read on; a head that is whole stops the clock, one that is not starts it."""
        cycle: Any = self.cycle
        if isinstance(cycle, WholeCycle) and not cycle.response_complete:
            self._behind += data
            self.flow.pause_reading()
            return
        found = whole_request(data) if self._is_fresh() else None
        if found is not None:
            self._answer(found)
            return
        super().data_received(data)
        timer, cycle = self._head_timer, self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:
                cycle.scope[WHOLE] = True
            if timer is not None:
                timer.cancel()
                self._head_timer = None
        elif not self._is_half_way():
            if timer is not None:
                timer.cancel()
                self._head_timer = None
        elif timer is None:
            self._head_timer = self.loop.call_later(self.head_s, self._give_up)

    def _is_fresh(self) -> bool:
        """Whether a request may begin here, and its parser is one that is slower than ours."""
        parser = getattr(self, "conn", None)
        return (
            parser is not None
            and parser.their_state is h11.IDLE
            and parser.our_state is h11.IDLE
            and not parser.trailing_data[0]
        )

    def _answer(self, request: Whole) -> None:
        """Begin to answer a request that has come whole."""
        self._unset_keepalive_if_required()
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        path = self.root_path + request.path
        scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": "POST",
            "root_path": self.root_path,
            "path": path,
            "raw_path": path.encode("ascii"),
            "query_string": b"",
            "headers": request.headers,
            "state": self.app_state.copy(),
            WHOLE: True,
        }
        self.cycle = cycle = WholeCycle(
            scope,
            self.conn,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            False,
            self.server_state.default_headers,
            asyncio.Event(),
            self._answered,
        )
        cycle.begin(request.body)
        task = self.loop.create_task(cycle.run_asgi(self.app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _answered(self) -> None:
        """Go on with what came behind the request."""
        self.on_response_complete()
        behind, self._behind = self._behind, b""
        if behind and not self.transport.is_closing():
            self.data_received(behind)

    def on_message_begin(self) -> None:
        """Of httptools: the first byte of a request."""
        self._is_owed = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Of httptools: its last byte."""
        self._is_owed = False
        super().on_message_complete()

    def _is_half_way(self) -> bool:
        """Whether the client owes the rest of a head, or of a body that was refused: it may be
        slow, and not for ever.
        """
        parser = getattr(self, "conn", None)
        if parser is None:
            return self._is_owed
        return bool(
            parser.their_state is h11.SEND_BODY
            or (parser.their_state is h11.IDLE and parser.trailing_data[0])
        )

    def eof_received(self) -> bool:
        """The client says nothing more. What it has asked for is answered; whoever went away in the
        middle of a stream is let go.
        """
        cycle: Any = self.cycle
        if cycle is not None and not cycle.more_body and not cycle.response_started:
            cycle.keep_alive = False
            return True
        self.transport.flush()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self._head_timer = None
        cycle: Any = self.cycle
        if (cycle is None or cycle.response_complete) and not self.transport.is_closing():
            self.transport.write(_too_late())
            self.transport.close()
