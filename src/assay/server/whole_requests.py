"""A request that has come whole, in its plainest shape: read and answered without the machinery for
all the other shapes.

Most of what is sent to a server is one POST in one piece: a head of plain lines, and a body as long
as `Content-Length` says. What is not exactly that (a body in chunks or in parts, a name that may
stand once and stands twice, an `Expect`, an `Upgrade`, a sign that is not plain ASCII, a second
request behind the first) is not judged here, but left to the general parser, which accepts or
refuses it. So nothing is accepted here that is refused there, and what is accepted says the same in
both: a test holds one against the other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, RequestResponseCycle

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_HEAD = 8192
_START = re.compile(rb"POST (/[0-9A-Za-z/_.~-]*) HTTP/1\.1\r\n")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*((?:[!-~]+(?:[ \t]+[!-~]+)*)?)[ \t]*\r\n")
_LENGTH = re.compile(rb"[0-9]{1,9}")
_ONCE = frozenset((b"host", b"content-length"))
_OTHERS = frozenset(
    (
        b"transfer-encoding",
        b"expect",
        b"upgrade",
        b"te",
        b"trailer",
        b"http2-settings",
        b"proxy-connection",
    )
)
"""Names that change how the rest is read, or how it is answered."""


class Whole(NamedTuple):
    """A request of that shape."""

    path: str
    headers: list[tuple[bytes, bytes]]
    """Names in small letters."""
    body: bytes


def whole_request(data: bytes) -> Whole | None:
    r"""The one request that these bytes are; None where they are anything else, or may be.

    >>> whole_request(b"POST /runs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}")
    Whole(path='/runs', headers=[(b'host', b'a'), (b'content-length', b'2')], body=b'{}')
    >>> whole_request(b"POST /runs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{")
    """
    start = _START.match(data)
    if start is None:
        return None
    at = start.end()
    headers: list[tuple[bytes, bytes]] = []
    once: dict[bytes, bytes] = {}
    while (line := _LINE.match(data, at)) is not None:
        name, value = line.groups()
        name = name.lower()
        if name in _ONCE:
            if name in once:
                return None
            once[name] = value
        elif name in _OTHERS or (name == b"connection" and value.lower() != b"keep-alive"):
            return None
        headers.append((name, value))
        at = line.end()
    length = once.get(b"content-length", b"")
    if (
        at > MAX_HEAD
        or data[at : at + 2] != b"\r\n"
        or len(once) != len(_ONCE)
        or _LENGTH.fullmatch(length) is None
        or len(data) != at + 2 + int(length)
    ):
        return None
    return Whole(start[1].decode(), headers, data[at + 2 :])


class WholeCycle(RequestResponseCycle):
    """The life of such a request. The general parser never hears of it, and is as ready for the
    next one as before.
    """

    _given: bytes | None = None
    _chunked = False

    def begin(self, body: bytes) -> None:
        """Give it its body."""
        self._given = body
        self.more_body = False

    async def receive(self) -> Any:
        """The body, and after it the end."""
        body, self._given = self._given, None
        if body is None:
            return await super().receive()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        """Write the head of the answer, or its body."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = "http.response.body" if self.response_started else "http.response.start"
        if self.response_complete or message["type"] != kind:
            raise RuntimeError(
                f"the application says {message['type']!r} where"
                f" {'nothing' if self.response_complete else kind!r} is due"
            )
        if not self.response_started:
            self.response_started = True
            self.transport.write(self._head(message))
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (
                b"" if more else b"0\r\n\r\n"
            )
        if body:
            self.transport.write(body)
        if not more:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _head(self, message: Mapping[str, Any]) -> bytes:
        status = message["status"]
        parts = [b"HTTP/1.1 %d %b" % (status, STATUS_PHRASES[status])]
        framed = status in (204, 304)
        for name, value in (*self.default_headers, *message.get("headers", ())):
            if b"\n" in value or b"\r" in value or b"\n" in name:
                raise RuntimeError(f"the header {name!r} of the answer holds a line break")
            if name == b"content-length":
                framed = True
            elif name == b"connection" and value.lower() == b"close":
                self.keep_alive = False
            parts.append(b"%b: %b" % (name, value))
        if not framed:
            self._chunked = True
            parts.append(b"transfer-encoding: chunked")
        parts.append(b"\r\n")
        return b"\r\n".join(parts)
