"""HTTP as uvicorn and httptools speak it, with limits for all that is not a body.

httptools keeps a header, an address or a trailer in memory until it is complete, however long it
is. So bytes that bring a request no further are
counted as they arrive. uvicorn waits without end
for a head, and keeps all requests that a client sends without reading an answer.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.server.problems import MEDIA_TYPE, Problem, safe

MAX_HEAD = 64 * 1024
MAX_WAITING = 100
"""How many requests of a connection may wait for the answers before theirs."""
CONNECTION = "assay.connection"
"""Where a request names its connection, in its scope."""
HEAD_S = 30.0
"""How long a connection may take to send the head of a request."""


class _Refused(Exception):
    """A request is over a limit."""


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _pending = 0
    """Bytes that arrived since the last head, part of a body, or end of a request."""
    _moved = False
    _refused = False
    _head_end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._head_came()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_came()
        self._head_end = self.loop.call_later(HEAD_S, self.transport.close)

    def _head_came(self) -> None:
        if self._head_end is not None:
            self._head_end.cancel()
            self._head_end = None

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and give up on a head that is too large."""
        if self._refused:
            return
        self._moved = False
        super().data_received(data)
        self._pending = 0 if self._moved else self._pending + len(data)
        if self._pending > MAX_HEAD and not self._refused:
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """The head of another request begins."""
        if self._head_end is None:
            self._expect_head()
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)[CONNECTION] = self.transport

    def on_headers_complete(self) -> None:
        """Check a head that arrived in few parts."""
        self._moved = True
        self._head_came()
        if len(self.pipeline) >= MAX_WAITING:
            raise _Refused
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD:
            self._pending = MAX_HEAD + 1
            raise _Refused
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body arrived."""
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._moved = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what can't be parsed, or is too large."""
        self._refused = True
        if self.pipeline:  # this would be read as the answer to an earlier request
            self.transport.close()
            return
        if self._pending <= MAX_HEAD:
            super().send_400_response(msg)
            return
        status, what = (414, "address") if len(self.url) > MAX_HEAD else (431, "head")
        problem = Problem(
            status,
            f"the {what} of the request is larger than {MAX_HEAD // 1024} KiB.",
            code="SRV-431",
        )
        body = safe(problem.document())
        self.transport.write(
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
            + body
        )
        self.transport.close()
