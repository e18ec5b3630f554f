"""A judge on loopback that does as it is told: right, biased, noisy, slow, hanging, rate-limited,
malformed, gullible or dead.

    with scripted_judge(position_bias=0.2, seed=7) as judge:
        ...  # judge.url is the base URL of OpenAI's style (ends in /v1), judge.root the one of Anthropic's
        assert judge.stats().requests == 400 and judge.requests()[0]["headers"]["authorization"] == "Bearer k"
        judge.become(fail_first=3)

What it can be told is in `judge_script.Behaviour`. It runs in a thread, or with `own_process=True`
in a process that ends with its parent. A second port answers for `stats`, `requests`, `become` and
`forget`, so that a hanging or dead judge can still be asked.
"""

from __future__ import annotations

import asyncio
import dataclasses
import http.client
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

from servers.judge_script import (
    CONTENT,
    CUTS,
    ENVELOPE,
    HANGS,
    MALFORMED,
    WIRE,
    Behaviour,
    Question,
    Reply,
    answer,
    anthropic_reply,
    draws,
    failure,
    openai_reply,
    read_question,
    think,
)

__all__ = [
    "CONTENT",
    "ENVELOPE",
    "MALFORMED",
    "WIRE",
    "Behaviour",
    "Endpoint",
    "Stats",
    "scripted_judge",
]


class Stats(NamedTuple):
    """What was seen so far. `answered` counts whole replies with status 200, malformed ones among
    them.
    """

    requests: int
    answered: int
    malformed: int
    unmarked: int
    """Questions in which fewer items than needed carried a mark: the test shows the wrong text, or
    the product lost it.
    """
    in_flight: int
    peak: int
    connections: int
    prompt_tokens: int
    completion_tokens: int
    statuses: dict[str, int]
    """By status, and by manner (silent, reset ...) for replies that are not whole."""
    cpu_s: float
    """Of the whole process: only of use with own_process=True."""


class Judge:
    """The server's state. Everything runs in one event loop."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.open: set[Connection] = set()
        self.in_flight = self.failures = 0
        self.server: asyncio.Server | None = None
        self.socket = bound(0)
        self.port: int = self.socket.getsockname()[1]
        self.forget()

    def forget(self) -> None:
        self.count = self.answered = self.malformed = self.unmarked = self.connections = 0
        self.peak = self.in_flight
        self.tokens = [0, 0]
        self.statuses: Counter[str] = Counter()
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self.admitted: deque[float] = deque()
        self.records: list[dict[str, Any]] = []
        self.start = time.monotonic()

    async def become(self, behaviour: Behaviour) -> None:
        """A bound socket on which nobody listens refuses, and keeps its port for when the judge
        comes back.
        """
        self.behaviour, self.failures = behaviour, 0
        if behaviour.dead == "refused" and self.server is not None:
            self.server.close()
            self.server = None
            for connection in tuple(self.open):
                if not connection.control:
                    connection.transport.abort()
            self.socket = bound(self.port)
        elif behaviour.dead != "refused" and self.server is None:
            self.server = await asyncio.get_running_loop().create_server(
                lambda: Connection(self, control=False), sock=self.socket, backlog=4096
            )

    def stats(self) -> Stats:
        return Stats(
            self.count,
            self.answered,
            self.malformed,
            self.unmarked,
            self.in_flight,
            self.peak,
            self.connections,
            *self.tokens,
            dict(self.statuses),
            time.process_time(),
        )

    # --- one question

    def serve(
        self, connection: Connection, path: str, headers: dict[str, str], data: bytes
    ) -> None:
        self.count += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        number, now = self.count, time.monotonic()
        try:
            body = json.loads(data)
        except ValueError:
            body = {}
        reply, question, odd = self.reply(path, headers, body, number, now)
        delay = self.behaviour.latency_s
        if self.behaviour.tail_sigma:
            normal = NormalDist().inv_cdf(
                min(1 - 1e-9, max(1e-9, next(draws(self.behaviour.seed, "latency", number))))
            )
            delay *= math.exp(self.behaviour.tail_sigma * normal)
        self.statuses[reply.manner or str(reply.status)] += 1
        if self.behaviour.record:
            qualities = [item.quality for item in question.items] if question else []
            self.records.append(
                {
                    "at": now - self.start,
                    "path": path,
                    "headers": headers,
                    "body": body,
                    "status": reply.status,
                    "manner": reply.manner,
                    "odd": odd,
                    "qualities": qualities,
                    "pairwise": question.pairwise if question else None,
                }
            )
        if delay > 0 and reply.status == 200:
            asyncio.get_running_loop().call_later(delay, connection.send, reply)
        else:
            connection.send(reply)

    def reply(
        self, path: str, headers: dict[str, str], body: dict[str, Any], number: int, now: float
    ) -> tuple[Reply, Question | None, str]:
        script, anthropic = self.behaviour, path.endswith("/messages")
        if script.key and script.key not in (
            headers.get("x-api-key"),
            headers.get("authorization", "").removeprefix("Bearer "),
        ):
            return failure(401, "Incorrect API key provided.", anthropic=anthropic), None, ""
        manner = script.hang or script.dead
        if self.failures < script.fail_first:
            self.failures += 1
            if isinstance(script.fail_with, int):
                return (
                    failure(script.fail_with, "The server is overloaded.", anthropic=anthropic),
                    None,
                    "",
                )
            manner = script.fail_with
        if script.status != 200:
            return (
                failure(script.status, "This is the answer to everything.", anthropic=anthropic),
                None,
                "",
            )
        if script.rate_limit is not None and (refusal := self.limited(now, anthropic)):
            return refusal, None, ""
        for name in script.refuses:
            form = (body.get("response_format") or {}).get("type")
            if name in body or (name == "json_schema" and form == "json_schema"):
                param = "response_format" if name == "json_schema" else name
                message = f"Unsupported parameter: '{param}' is not supported with this model."
                return failure(400, message, anthropic=anthropic, param=param), None, ""
        question = read_question(body)
        self.unmarked += (
            sum(item.quality is not None for item in question.items) < 1 + question.pairwise
        )
        key = (
            body.get("model"),
            body.get("seed"),
            question.pairwise,
            tuple(item.text for item in question.items) or question.text,
        )
        self.seen[key] += 1
        odd = ""
        if script.malformed and (
            script.malformed_times is None or self.seen[key] <= script.malformed_times
        ):
            kinds = (script.malformed,) if isinstance(script.malformed, str) else script.malformed
            odd = kinds[(number - 1) % len(kinds)]
            self.malformed += 1
        reply = self.whole(
            body, question, think(question, script, (*key, self.seen[key])), odd, number, anthropic
        )
        return reply._replace(manner=manner), question, odd

    def whole(
        self,
        body: dict[str, Any],
        question: Question,
        thought: Any,
        odd: str,
        number: int,
        anthropic: bool,
    ) -> Reply:
        if odd == "error_in_200":
            return failure(503, "The provider returned an error.", anthropic=anthropic)._replace(
                status=200
            )
        said = answer(question, thought)
        content: Any = json.dumps(said, ensure_ascii=False)
        if odd in CONTENT:
            content = CONTENT[odd](said, "winner" if question.pairwise else "score")
        last = (body.get("messages") or [{}])[-1]
        if (
            anthropic
            and last.get("role") == "assistant"
            and isinstance(content, str)
            and isinstance(last.get("content"), str)
        ):
            content = content.removeprefix(last["content"])
        if odd == "length":
            content = content[: len(content) // 2]
        shape = "refusal" if thought.refused and not odd else odd if odd in ENVELOPE else ""
        data = (anthropic_reply if anthropic else openai_reply)(
            body, question, content, said, shape, self.behaviour, number
        )
        if self.behaviour.usage == "counted":
            self.tokens[0] += max(1, len(question.text) // 4)
            self.tokens[1] += max(1, len(str(content)) // 4)
        if odd in WIRE:
            kind, wrong = WIRE[odd]
            extra = (("content-encoding", "gzip"),) if odd == "bad_gzip" else ()
            return Reply(200, data[: len(data) // 2] if odd == "cut_body" else wrong, kind, extra)
        return Reply(200, data)

    def limited(self, now: float, anthropic: bool) -> Reply | None:
        """At most `rate_limit` admitted in any second; below one per second, one in that many
        seconds.
        """
        limit = self.behaviour.rate_limit or 0
        window, most = (
            (1.0, int(limit))
            if limit >= 1
            else (1 / limit if limit else math.inf, 1 if limit else 0)
        )
        while self.admitted and self.admitted[0] <= now - window:
            self.admitted.popleft()
        if len(self.admitted) < most:
            self.admitted.append(now)
            return None
        wait = self.behaviour.retry_after_s
        said = {
            "": None,
            "seconds": f"{wait:g}",
            "date": formatdate(math.ceil(time.time() + wait), usegmt=True),
        }
        value = said.get(self.behaviour.retry_after, self.behaviour.retry_after)
        return failure(
            429,
            "Rate limit reached.",
            anthropic=anthropic,
            headers=(("retry-after", value),) if value is not None else (),
        )


def bound(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


class Connection(asyncio.Protocol):
    """As much HTTP/1.1 as a judge needs: kept alive, bodies with a length or in chunks."""

    def __init__(self, judge: Judge, *, control: bool) -> None:
        self.judge = judge
        self.control = control
        self.data = bytearray()
        self.waiting = 0
        self.drip: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.judge.open.add(self)
        self.judge.connections += not self.control

    def connection_lost(self, error: Exception | None) -> None:
        self.judge.open.discard(self)
        self.judge.in_flight -= self.waiting
        self.waiting = 0
        if self.drip:
            self.drip.cancel()

    def data_received(self, data: bytes) -> None:
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            head = self.data[:end].decode("latin-1").split("\r\n")
            headers = {
                name.strip().lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:])
            }
            body = self.body(end + 4, headers)
            if body is None:
                return
            method, path, _ = (head[0] + "  ").split(" ", 2)
            self.take(method, path.partition("?")[0], headers, body)

    def body(self, start: int, headers: dict[str, str]) -> bytes | None:
        """The whole body, taken off the buffer with its head; None while more is to come."""
        if headers.get("transfer-encoding", "").lower() != "chunked":
            end = start + int(headers.get("content-length", 0))
            body = bytes(self.data[start:end]) if len(self.data) >= end else None
        else:
            parts, end = [], start
            while True:
                line = self.data.find(b"\r\n", end)
                size = int(self.data[end:line], 16) if line >= 0 else 0
                if line < 0 or len(self.data) < line + 4 + size:
                    return None
                parts.append(bytes(self.data[line + 2 : line + 2 + size]))
                end = line + 4 + size
                if size == 0:
                    break
            body = b"".join(parts)
        if body is not None:
            del self.data[:end]
        return body

    def take(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        if self.control:
            asyncio.ensure_future(  # noqa: RUF006
                self.answer_control(path, body)
            )  # the loop outlives it: it awaits nothing but a listen
        elif method == "POST" and path.endswith(("/chat/completions", "/messages")):
            self.waiting += 1
            self.judge.serve(self, path, headers, body)
        elif path.endswith("/models"):
            models = {
                "object": "list",
                "data": [
                    {"id": self.judge.behaviour.model, "object": "model", "owned_by": "tests"}
                ],
            }
            self.transport.write(Reply(200, json.dumps(models).encode()).wire())
        else:
            self.transport.write(failure(404, f"no route {method} {path}", anthropic=False).wire())

    async def answer_control(self, path: str, body: bytes) -> None:
        judge, said = self.judge, None
        if path == "/become":
            try:
                await judge.become(Behaviour(**json.loads(body)))
            except (TypeError, ValueError) as error:
                self.transport.write(Reply(400, json.dumps(str(error)).encode()).wire())
                return
        elif path == "/forget":
            judge.forget()
        else:
            said = judge.records if path == "/requests" else judge.stats()._asdict()
        self.transport.write(Reply(200, json.dumps(said).encode()).wire())

    def send(self, reply: Reply) -> None:
        if self.transport.is_closing():
            return
        if reply.manner in HANGS[1:]:
            whole = reply._replace(body=reply.body + b" " * 100_000).wire()
            if reply.manner != "silent":
                self.transport.write(whole[: whole.index(b"\r\n\r\n") + 4])
            if reply.manner == "drip":
                self.drop()
            return
        self.waiting -= 1
        self.judge.in_flight -= 1
        if reply.manner in CUTS:
            if reply.manner == "close":
                self.transport.close()
                return
            self.transport.write(reply.wire()[:-20])
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
            )
            asyncio.get_running_loop().call_later(0.01, self.transport.abort)
            return
        self.judge.answered += reply.status == 200
        self.transport.write(reply.wire())

    def drop(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(b" ")
            self.drip = asyncio.get_running_loop().call_later(0.2, self.drop)


async def serve(behaviour: Behaviour, ready: Any, stop: asyncio.Event) -> None:
    """Until `stop` is set. Calls `ready(port, control port)` once both listen."""
    judge = Judge(behaviour)
    await judge.become(behaviour)
    control = await asyncio.get_running_loop().create_server(
        lambda: Connection(judge, control=True), "127.0.0.1", 0
    )
    ready(judge.port, control.sockets[0].getsockname()[1])
    await stop.wait()
    for server in filter(None, (judge.server, control)):
        server.close()
    if judge.server is None:
        judge.socket.close()
    for connection in tuple(judge.open):
        connection.transport.abort()
    await asyncio.sleep(0)


class Endpoint:
    """A running judge, as a test sees it."""

    def __init__(self, behaviour: Behaviour, port: int, control: int) -> None:
        self.behaviour = behaviour
        self.port = port
        self.root = f"http://127.0.0.1:{port}"
        self.url = f"{self.root}/v1"
        self.control = control

    def _ask(self, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.control, timeout=30)
        try:
            connection.request("POST", path, json.dumps(body))
            reply = connection.getresponse()
            tree = json.loads(reply.read())
        finally:
            connection.close()
        if reply.status != 200:
            raise ValueError(tree)
        return tree

    def stats(self) -> Stats:
        return Stats(**self._ask("/stats"))

    def requests(self) -> list[dict[str, Any]]:
        """Every question so far: at (seconds), path, headers (lower case), body, status, manner,
        odd, qualities in the order shown, pairwise.
        """
        return self._ask("/requests")

    def become(self, **behaviour: Any) -> None:
        """From now on behave like this; what is not named stays. The failures of `fail_first` are
        counted anew.
        """
        self.behaviour = dataclasses.replace(self.behaviour, **behaviour)
        self._ask("/become", dataclasses.asdict(self.behaviour))

    def forget(self) -> None:
        """Stats, records and the counts of repeated questions start anew."""
        self._ask("/forget")


@contextmanager
def scripted_judge(*, own_process: bool = False, **behaviour: Any) -> Iterator[Endpoint]:
    script = Behaviour(**behaviour)
    with (_process if own_process else _thread)(script) as ports:
        yield Endpoint(script, *ports)


@contextmanager
def _thread(script: Behaviour) -> Iterator[tuple[int, int]]:
    started = threading.Event()
    found: dict[str, Any] = {}

    def ready(*ports: int) -> None:
        found["ports"] = ports
        started.set()

    async def main() -> None:
        found["loop"], found["stop"] = asyncio.get_running_loop(), asyncio.Event()
        await serve(script, ready, found["stop"])

    def run() -> None:
        try:
            asyncio.run(main())
        finally:
            started.set()

    thread = threading.Thread(target=run, daemon=True, name="scripted judge")
    thread.start()
    started.wait()
    try:
        yield found["ports"]
    finally:
        found["loop"].call_soon_threadsafe(found["stop"].set)
        thread.join(10)


@contextmanager
def _process(script: Behaviour) -> Iterator[tuple[int, int]]:
    here = Path(__file__).resolve().parent.parent
    command = [
        sys.executable,
        "-m",
        "servers.scripted_judge",
        json.dumps(dataclasses.asdict(script)),
    ]
    child = subprocess.Popen(
        command,
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(here)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield tuple(json.loads(child.stdout.readline()))
    finally:
        child.stdin.close()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


async def main() -> None:
    """Until the standard input ends, which it does with the parent."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 4096) or stop.set())
    await serve(
        Behaviour(**json.loads(sys.argv[1])),
        lambda *ports: print(json.dumps(ports), flush=True),
        stop,
    )


if __name__ == "__main__":
    asyncio.run(main())
