"""HTTP as uvicorn and httptools speak it, with a limit for all that is not a body.

httptools keeps a header, an address or a trailer in memory until it is complete, however long it
is. So bytes that bring a request no further are counted as they arrive.
"""

from __future__ import annotations

from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from assay.server.problems import MEDIA_TYPE, Problem, safe

MAX_HEAD = 64 * 1024


class _HeadTooLarge(Exception):
    """The head of a request is over the limit."""


class HttpProtocol(HttpToolsProtocol):
    """One connection."""

    _pending = 0
    """Bytes that arrived since the last head, part of a body, or end of a request."""
    _moved = False
    _refused = False

    def data_received(self, data: bytes) -> None:
        """Feed the parser, and give up on a head that is too large."""
        if self._refused:
            return
        self._moved = False
        super().data_received(data)
        self._pending = 0 if self._moved else self._pending + len(data)
        if self._pending > MAX_HEAD and not self._refused:
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        """Check a head that arrived in few parts."""
        self._moved = True
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD:
            self._pending = MAX_HEAD + 1
            raise _HeadTooLarge
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
