"""Requests that come in one piece: read as the general parser reads them, and answered as HTTP
wants it, whatever comes behind them.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import h11
import pytest
import uvicorn
from hypothesis import example, given
from hypothesis import strategies as st

from assay.server.connections import Connection
from assay.server.whole_requests import MAX_HEAD, whole_request

if not hasattr(Connection, "handle_events"):
    pytest.skip(
        "another parser than h11 is installed, which needs no help", allow_module_level=True
    )

PLAIN = (
    b"POST /a/b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length:"
    b" 2\r\n\r\n{}"
)


def as_h11_reads_it(data: bytes) -> tuple[str, list[tuple[bytes, bytes]], bytes] | None:
    """Path, headers and body of the one whole request that h11 finds; None where it finds a fault,
    something else or something more.
    """
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(data)
    body = b""
    try:
        request: Any = parser.next_event()
        if type(request) is not h11.Request:
            return None
        while type(event := parser.next_event()) is h11.Data:
            body += event.data
    except h11.RemoteProtocolError:
        return None
    if (
        type(event) is not h11.EndOfMessage
        or parser.trailing_data[0]
        or parser.their_state is not h11.DONE
        or parser.they_are_waiting_for_100_continue
    ):
        return None
    if (request.method, request.http_version) != (b"POST", b"1.1"):
        return None
    return request.target.decode(), [(name.lower(), value) for name, value in request.headers], body


NAMES = (
    b"Host",
    b"host",
    b"Content-Length",
    b"content-length",
    b"Transfer-Encoding",
    b"Connection",
    b"Expect",
    b"Upgrade",
    b"X-A",
    b"Content-Type",
    b"Te",
)
VALUES = (
    b"x",
    b"2",
    b"02",
    b"+2",
    b"0x2",
    b"2, 2",
    b"chunked",
    b"identity",
    b"keep-alive",
    b"close",
    b"100-continue",
    b"a b\tc",
    b"",
    b" x ",
    b"\xe9",
    b"\x00",
)
lines = st.tuples(
    st.sampled_from(NAMES),
    st.sampled_from((b":", b": ", b" : ", b":\t", b"")),
    st.sampled_from(VALUES),
    st.sampled_from((b"\r\n", b"\n", b"\r\n ")),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Requests that are nearly plain."""
    start = draw(
        st.sampled_from(
            (
                b"POST /a HTTP/1.1\r\n",
                b"POST /a HTTP/1.0\r\n",
                b"POST /a?b HTTP/1.1\r\n",
                b"GET /a HTTP/1.1\r\n",
                b"POST * HTTP/1.1\r\n",
            )
        )
    )
    listed = [
        b"Host: x\r\n",
        b"Content-Length: 2\r\n",
        *(b"".join(line) for line in draw(st.lists(lines, max_size=3))),
    ]
    data = bytearray(
        start
        + b"".join(draw(st.permutations(listed)))
        + b"\r\n"
        + draw(st.sampled_from((b"{}", b"{}{", b"{", b"2\r\n{}\r\n0\r\n\r\n")))
    )
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data) - 1))
        data[at : at + draw(st.integers(0, 2))] = draw(
            st.sampled_from((b"", b"\r", b"\n", b" ", b":", b"\x00", b"\x7f", b"\xff", b"9", b"\t"))
        )
    return bytes(data)


@given(requests())
@example(PLAIN)
@example(PLAIN.replace(b"Host", b"Content-Length: 2\r\nHost"))
@example(PLAIN.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"))
@example(PLAIN.replace(b": 2\r\n", b" : 2\r\n"))
def test_what_is_taken_as_a_whole_request_is_one_for_the_general_parser_too_and_says_the_same(
    data: bytes,
) -> None:
    found = whole_request(data)
    if found is not None:
        assert tuple(found) == as_h11_reads_it(data)


@pytest.mark.parametrize(
    "more",
    [
        b"",
        b"Connection: keep-alive\r\n",
        (
            b"Authorization: Bearer abc.def\r\nAccept: */*\r\nAccept-Encoding: gzip,"
            b" deflate\r\nUser-Agent: a/1 (b; c)\r\n"
        ),
        b"X-Empty:\r\n",
    ],
)
def test_what_clients_usually_send_is_taken(more: bytes) -> None:
    data = PLAIN.replace(b"Content-Type", more + b"Content-Type")
    assert whole_request(data) is not None
    assert tuple(whole_request(data) or ()) == as_h11_reads_it(data)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN[:-1],
        PLAIN + b"x",
        PLAIN + PLAIN,
        PLAIN.replace(b"Host: x\r\n", b""),
        PLAIN.replace(b"Host", b"Host: x\r\nHost"),
        PLAIN.replace(b"Host", b"Connection: close\r\nHost"),
        PLAIN.replace(b"Host", b"Connection: upgrade\r\nUpgrade: websocket\r\nHost"),
        PLAIN.replace(b"Host", b"Expect: 100-continue\r\nHost"),
        PLAIN.replace(b"/a/b", b"/a%2fb"),
        PLAIN.replace(b"/a/b", b"/a?b=1"),
        PLAIN.replace(b"/a/b", b"http://x/a"),
        PLAIN.replace(b"Host", b"X: " + b"y" * MAX_HEAD + b"\r\nHost"),
        PLAIN.replace(b": 2\r\n", b": 9999999999\r\n"),
        b"",
    ],
)
def test_everything_else_is_left_to_the_general_parser(data: bytes) -> None:
    assert whole_request(data) is None


# --- on the wire


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers in the way that the path names."""
    assert scope["type"] == "http"
    way = scope["path"]
    message = await receive()
    body = message["body"]
    while message.get("more_body"):
        message = await receive()
        body += message["body"]
    if way == "/slow":
        await asyncio.sleep(0.2)
    if way == "/fails":
        raise ValueError("as it was asked to")
    if way == "/silent":
        return
    headers = [(b"x-way", b"a\r\nb" if way == "/breaks" else way.encode())]
    if way not in ("/parts", "/nothing"):
        headers.append((b"content-length", str(len(body)).encode()))
    if way == "/closes":
        headers.append((b"connection", b"close"))
    await send(
        {
            "type": "http.response.start",
            "status": 204 if way == "/nothing" else 200,
            "headers": headers,
        }
    )
    if way == "/parts":
        for part in (body[:1], b"", body[1:]):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})
    elif way == "/half":
        await send({"type": "http.response.body", "body": body[:1], "more_body": True})
        raise ValueError("as it was asked to")
    else:
        await send({"type": "http.response.body", "body": b"" if way == "/nothing" else body})
    if way == "/twice":
        await send({"type": "http.response.body", "body": b"more"})
    if way == "/waits":
        assert (await receive())["type"] == "http.disconnect"


@contextmanager
def listening() -> Iterator[int]:
    config = uvicorn.Config(
        application,
        port=0,
        http=Connection,
        lifespan="off",
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listening() as found:
        yield found


def post(path: str, body: bytes = b"{}", *, more: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n%b" % (
        path.encode(),
        more,
        len(body),
        body,
    )


def answers(
    port: int, *pieces: bytes, n: int, pause_s: float = 0.05, end: bool = False
) -> list[tuple[int, str | None, bytes]]:
    """Status, way and body of n answers to what is sent piece by piece on one connection."""
    with socket.create_connection(("127.0.0.1", port), 10) as wire:
        for place, piece in enumerate(pieces):
            if place:
                time.sleep(pause_s)
            wire.sendall(piece)
        if end:
            wire.shutdown(socket.SHUT_WR)
        return read_answers(wire, n)


def read_answers(wire: socket.socket, n: int) -> list[tuple[int, str | None, bytes]]:
    with wire.makefile("rb") as file:
        return [read_answer(file) for _ in range(n)]


def read_answer(file: BinaryIO) -> tuple[int, str | None, bytes]:
    """One answer, by the length or the chunks that it names; an `EOFError` where it breaks off."""

    def take(n: int) -> bytes:
        found = file.read(n)
        if len(found) < n:
            raise EOFError
        return found

    def line() -> bytes:
        found = file.readline()
        if not found.endswith(b"\r\n"):
            raise EOFError
        return found[:-2]

    status = int(line().split()[1])
    headers = {
        name.lower(): value
        for name, _, value in (found.partition(b": ") for found in iter(line, b""))
    }
    way = headers.get(b"x-way")
    if headers.get(b"transfer-encoding") == b"chunked":
        parts = []
        while size := int(line(), 16):
            parts.append(take(size))
            assert line() == b""
        assert line() == b""
        body = b"".join(parts)
    elif b"content-length" in headers:
        body = take(int(headers[b"content-length"]))
    else:
        body = b"" if status == 204 else file.read()
    return status, None if way is None else way.decode(), body


def test_a_body_comes_back_in_one_piece_in_parts_and_not_at_all(port: int) -> None:
    assert answers(port, post("/whole", b"abc"), n=1) == [(200, "/whole", b"abc")]
    assert answers(port, post("/parts", b"abc"), post("/whole", b"d"), n=2) == [
        (200, "/parts", b"abc"),
        (200, "/whole", b"d"),
    ]
    assert answers(port, post("/nothing"), post("/whole", b"d"), n=2) == [
        (204, "/nothing", b""),
        (200, "/whole", b"d"),
    ]
    assert answers(port, post("/whole", b""), post("/whole", b"d"), n=2) == [
        (200, "/whole", b""),
        (200, "/whole", b"d"),
    ]


def test_requests_that_come_behind_one_are_answered_after_it_and_in_their_order(port: int) -> None:
    slow, other = post("/slow", b"1"), post("/whole", b"2")
    expected = [(200, "/slow", b"1"), (200, "/whole", b"2")]
    assert answers(port, slow, other, n=2) == expected
    assert answers(port, slow + other, n=2) == expected
    assert answers(port, slow, other[:5], other[5:], n=2) == expected
    assert answers(port, slow, other + slow, other[:-1], other[-1:], n=4) == expected * 2
    assert answers(
        port,
        slow,
        b"POST /parts HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n2\r\n0\r\n\r\n",
        n=2,
    ) == [
        (200, "/slow", b"1"),
        (200, "/parts", b"2"),
    ]
    assert answers(port, slow, b"no request at all\r\n\r\n", n=2)[1][0] == 400


def test_both_parsers_take_turns_on_one_connection(port: int) -> None:
    parts = [
        post("/whole", b"1"),
        post("/whole", b"2", more=b"Expect: x\r\n"),
        post("/whole?q", b"3"),
        post("/whole", b"4"),
        post("/whole", b"5"),
    ]
    parts[3:4] = [parts[3][:-1], parts[3][-1:]]
    found = answers(port, *parts, n=5)
    assert [body for _, _, body in found] == [b"1", b"2", b"3", b"4", b"5"]


def test_much_that_comes_behind_a_request_is_not_all_kept_at_once(port: int) -> None:
    one = post("/whole", b"x" * 60_000)
    slow = post("/slow", b"1")
    with socket.create_connection(("127.0.0.1", port), 10) as wire:
        wire.sendall(slow)
        time.sleep(0.05)
        sender = threading.Thread(
            target=wire.sendall, args=(one * 200,)
        )  # 12 MB: it can only be sent while it is read
        sender.start()
        found = read_answers(wire, 201)
        sender.join()
    assert [len(body) for _, _, body in found] == [1] + [60_000] * 200


def test_whoever_says_no_more_after_a_request_gets_the_answer(port: int) -> None:
    assert answers(port, post("/slow", b"1"), n=1, end=True) == [(200, "/slow", b"1")]


@pytest.mark.parametrize(("way", "status"), [("/fails", 500), ("/silent", 500)])
def test_an_application_that_fails_is_a_500_and_the_connection_ends(
    port: int, way: str, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as wire:
        wire.sendall(post(way))
        assert read_answers(wire, 1)[0][0] == status
        assert wire.recv(1) == b""


@pytest.mark.parametrize("way", ["/half", "/breaks"])
def test_an_answer_that_breaks_off_is_never_taken_for_a_whole_one(port: int, way: str) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as wire:
        wire.sendall(post(way, b"abc"))
        with pytest.raises(EOFError):
            read_answers(wire, 1)


def test_an_answer_that_says_close_closes(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as wire:
        wire.sendall(post("/closes", b"abc"))
        assert read_answers(wire, 1) == [(200, "/closes", b"abc")]
        assert wire.recv(1) == b""


def test_more_than_an_answer_is_not_sent(port: int) -> None:
    assert answers(port, post("/twice", b"abc"), n=1) == [(200, "/twice", b"abc")]


def test_an_application_that_waits_for_the_client_to_go_hears_of_it(port: int) -> None:
    assert answers(port, post("/waits", b"abc"), post("/whole", b"d"), n=2) == [
        (200, "/waits", b"abc"),
        (200, "/whole", b"d"),
    ]


def test_a_server_that_ends_answers_what_it_took() -> None:
    with listening() as port:
        wire = socket.create_connection(("127.0.0.1", port), 10)
        wire.sendall(post("/slow", b"1"))
        time.sleep(0.05)
    with wire:
        assert read_answers(wire, 1) == [(200, "/slow", b"1")]
        assert wire.recv(1) == b""
