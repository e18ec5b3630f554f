"""Reads what a client sends, checking media type, size, pace, encoding and nesting, and writes what
the client gets back.

A body is refused as soon as it is known to be wrong, and never takes more memory than its limit,
compressed or not. It is read in small steps, and other requests are answered between them.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from assay.canon import encode
from assay.errors import InputError
from assay.files import json_files
from assay.files.json_files import Document, LineSplitter
from assay.records.reading import read_record
from assay.server.problems import Problem, problem_of
from assay.server.settings import ServerSettings
from assay.store.drafts import Stored

B = TypeVar("B")

JSON = "application/json"
LINES = "application/x-ndjson"
GZIP_FROM = 1024
STEP = 16 * 1024
"""How many bytes of a body are unpacked or split at once."""
LARGE, LARGE_VALUES = 1024 * 1024, 10_000
"""Documents with more bytes or values are read and graded in a thread."""
MAX_VALUES = 250_000
"""How many values one document may have: its parser keeps every other thread waiting."""
MAX_KEYS = 10_000
"""How many keys one object may have: in some orders, sorting them takes the square of the time."""
MAX_LINES = 1_000_000
"""How many lines one body may have, blank ones included."""
BODY_READ = "assay.body_read"
"""The key that marks a request's scope once its body was read completely."""
_NAME = "body"
_PLAIN = "Send it plain or as gzip."


def header(request: Request, name: str) -> str | None:
    """A header by its lower-case name; the first, if it was sent twice. Headers are read once for
    each request, because searching the list is slow.
    """
    headers: dict[str, str] | None = request.scope.get("assay.headers")
    if headers is None:
        headers = {
            key.decode("latin-1"): value.decode("latin-1")
            for key, value in reversed(request.scope["headers"])
        }
        request.scope["assay.headers"] = headers
    return headers.get(name)


def media_type(request: Request, *allowed: str) -> str:
    """The media type of the body, one of those allowed."""
    stated = header(request, "content-type") or ""
    if stated == allowed[0]:
        return stated
    name, _, rest = stated.partition(";")
    name = name.strip().lower()
    if name not in allowed:
        raise Problem(
            415,
            f"can't read the media type {name[:80]!r} here.",
            where="Content-Type",
            fix=f"Send {' or '.join(allowed)}.",
        )
    charset = rest.partition("charset=")[2].strip().strip('"').lower()
    if charset and charset not in ("utf-8", "utf8"):
        raise Problem(
            400,
            f"the encoding {charset[:40]!r} is not UTF-8.",
            where="Content-Type",
            fix="Send JSON as UTF-8.",
        )
    return name


async def chunks(request: Request, settings: ServerSettings, *, limit: int) -> AsyncIterator[bytes]:
    """The body part by part: decompressed, within its size limit and its time limit."""
    length = header(request, "content-length") or ""
    if length.isascii() and length.isdigit() and len(length) < 20 and int(length) > limit:
        raise _too_large(limit)
    coding = (header(request, "content-encoding") or "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise Problem(
            415,
            f"can't read the content encoding {coding[:40]!r}.",
            where="Content-Encoding",
            fix=_PLAIN,
        )
    unpack = zlib.decompressobj(31) if coding == "gzip" else None
    seen = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + 10 * settings.body_timeout_s
    more = True
    while more:
        try:
            async with asyncio.timeout(min(settings.body_timeout_s, max(0.0, end - loop.time()))):
                message = await request.receive()
        except TimeoutError:
            fix = "Send it faster, or in smaller requests."
            raise Problem(408, "the body arrives too slowly.", fix=fix) from None
        if message["type"] == "http.disconnect":
            raise Problem(400, "the client disconnected in the middle of the body.")
        more = message.get("more_body", False)
        if not more:
            request.scope[BODY_READ] = True
        for plain in _unpacked(unpack, message.get("body", b"")):
            seen += len(plain)
            if seen > limit:
                raise _too_large(limit)
            yield plain
            await asyncio.sleep(0)
    if unpack is not None and not unpack.eof:
        raise Problem(
            400, "the gzip stream of the body is cut off.", where="Content-Encoding", fix=_PLAIN
        )


def _unpacked(unpack: Any, part: bytes) -> Iterator[bytes]:
    """A part of a body in steps, decompressed."""
    if unpack is None:
        for start in range(0, len(part), STEP):
            yield part[start : start + STEP]
        return
    more = True
    while more:
        try:
            plain = unpack.decompress(part, STEP)
        except zlib.error:
            raise Problem(
                400, "the body is not a gzip stream.", where="Content-Encoding", fix=_PLAIN
            ) from None
        if unpack.unused_data:
            raise Problem(
                400, "there is data after the gzip stream.", where="Content-Encoding", fix=_PLAIN
            )
        part = unpack.unconsumed_tail
        more = bool(part) or len(plain) == STEP
        if plain:
            yield plain


def _too_large(limit: int) -> Problem:
    return Problem(
        413,
        f"the body is larger than {limit:,} bytes.",
        fix="Send it in parts, or as lines (application/x-ndjson).",
    )


async def content(request: Request, settings: ServerSettings) -> bytes:
    """The whole body."""
    parts = [part async for part in chunks(request, settings, limit=settings.max_body_bytes)]
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def lines(request: Request, settings: ServerSettings) -> AsyncIterator[tuple[int, bytes]]:
    """The lines of a body that aren't blank, with their numbers."""
    splitter, limit = LineSplitter(), settings.max_body_bytes
    async for part in chunks(request, settings, limit=settings.max_stream_bytes):
        found = splitter.feed(part)
        if splitter.number > MAX_LINES:
            raise Problem(
                413, f"the body has more than {MAX_LINES:,} lines.", fix="Send it in parts."
            )
        for line in found:
            yield line
        if splitter.held > limit:
            raise Problem(413, f"a line is longer than {limit:,} bytes.")
    for line in splitter.last():
        yield line


_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[,\[{]', re.DOTALL)


def _most_values(data: bytes) -> int:
    """How many values a document has at most: a text may have commas and brackets too."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def is_large(data: bytes) -> bool:
    """Whether others would have to wait for reading and grading a document."""
    return len(data) > LARGE or _most_values(data) > LARGE_VALUES


def _check_values(data: bytes) -> None:
    """Refuse a document with too many values before it is parsed."""
    if _most_values(data) < MAX_VALUES:
        return
    values = 0
    for token in _TOKEN.finditer(data):  # those outside of strings
        values += token[0][:1] != b'"'
        if values >= MAX_VALUES:
            raise Problem(
                413,
                f"the document has more than {MAX_VALUES:,} values.",
                fix="Send it in parts, or as lines (application/x-ndjson).",
            )


def _check_keys(tree: Any) -> None:
    left = [tree]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            if len(value) > MAX_KEYS:
                raise Problem(413, f"an object has more than {MAX_KEYS:,} keys.", fix="Use a list.")
            left += value.values()


def parsed(data: bytes, *, line: int | None = None) -> Any:
    """A body, or a line of one, as a tree, every number exact. Invalid JSON is a 400 with its
    position.
    """
    if not data.strip():
        raise Problem(400, "the body is empty.", code="FIL-005", where=_NAME, fix="Send JSON.")
    _check_values(data)
    try:
        tree = json_files.parsed(data, file=_NAME, line=line)
    except InputError as error:
        raise problem_of(error) from None
    if _most_values(data) > MAX_KEYS:
        _check_keys(tree)
    return tree


async def tree_of(data: bytes) -> Any:
    """A body as a tree; a large one is parsed in a thread."""
    return await asyncio.to_thread(parsed, data) if is_large(data) else parsed(data)


async def tree(request: Request, settings: ServerSettings) -> Any:
    """A JSON body as a tree."""
    media_type(request, JSON)
    return await tree_of(await content(request, settings))


def document(tree: Any, *, at: str = "") -> Document:
    """A part of a body, ready to be read as a record."""
    return Document(tree, _NAME, at=at)


async def read(request: Request, settings: ServerSettings, kind: type[B]) -> B:
    """A JSON body of the shape that `requests` declares; a key that is null is a key left out."""
    return shaped(await tree(request, settings), kind)


def shaped(tree: Any, kind: type[B]) -> B:
    """A tree as what `requests` declares."""
    if isinstance(tree, dict):
        tree = {name: value for name, value in tree.items() if value is not None}
    return read_record(document(tree), kind, "SRV-422")


# --- and back


def reply(
    request: Request,
    body: bytes,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    tag: str | None = None,
) -> Response:
    """A JSON response with its ETag: `304` if the client has it, gzip if the client accepts it and
    it saves bytes.
    """
    more = dict(headers or {})
    if request.method in ("GET", "HEAD") and status == 200:
        etag = f'"{tag or sha256(body).hexdigest()[:32]}"'
        more["ETag"] = etag
        more["Cache-Control"] = "private, no-cache"
        more["Vary"] = "Authorization, Accept-Encoding"
        wanted = header(request, "if-none-match")
        if wanted is not None and (
            wanted.strip() == "*"
            or etag in [tag.strip().removeprefix("W/") for tag in wanted.split(",")]
        ):
            return Response(None, 304, headers=more)
    if len(body) >= GZIP_FROM and takes_gzip(header(request, "accept-encoding") or ""):
        body = zlib.compress(body, 1, wbits=31)
        more["Content-Encoding"] = "gzip"
    return Response(body, status, headers=more, media_type=JSON)


def takes_gzip(accepted: str) -> bool:
    """Whether a client takes gzip.

    >>> takes_gzip("br, gzip;q=0.5"), takes_gzip("gzip;q=0"), takes_gzip("")
    (True, False, False)
    """
    for coding in accepted.split(","):
        name, _, weight = coding.partition(";")
        if name.strip().lower() == "gzip":
            return weight.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def answer(
    request: Request,
    value: Any,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """A document as a response."""
    return reply(request, encode(value), status=status, headers=headers)


def created(request: Request, stored: Stored, path: str, **more: Any) -> Response:
    """The response for a stored record: where it is, whether it is new, and more about it."""
    address = f"/api/v1/{path}/{stored.digest}"
    body = {**stored._asdict(), "location": address, **more}
    return answer(request, body, status=201, headers={"Location": address})
