"""Watches runs in progress: one hub for each process, and streams that stay open until the
evaluation is over.

An idle stream costs one coroutine and one future: no task, timer or queue. Events are read from the
database, so that a runner may post to one server and a watcher listen to another; events of this
process wake its watchers at once, others within the polling time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from sqlalchemy import select
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from assay.errors import AssayError
from assay.server.metrics import Metrics
from assay.server.settings import ServerSettings
from assay.store import events as stored_events
from assay.store.databases import Database
from assay.store.events import StoredEvent
from assay.store.tables import live_runs
from assay.views.events import HEARTBEAT, LAST, frame

KEPT = 200
"""How many events of a watched run are kept in memory."""
AT_ONCE = 400
"""How many runs one query covers; also how many streams get their heartbeat in one go."""
TICK_S = 0.05
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

Key = tuple[str, str]
"""A project and the key of a run."""


class Channel:
    """A run that somebody watches."""

    __slots__ = ("count", "tail", "waiters")

    def __init__(self) -> None:
        self.count = 0
        self.tail: deque[StoredEvent] = deque(maxlen=KEPT)
        self.waiters: set[asyncio.Future[bool]] = set()

    def wake(self) -> None:
        """Wake the watchers: there is something new."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(True)


class Hub:
    """The runs that are watched here."""

    def __init__(self, settings: ServerSettings, database: Database, metrics: Metrics) -> None:
        self._settings = settings
        self._database = database
        self._metrics = metrics
        self._channels: dict[Key, Channel] = {}
        self._watchers: dict[Key, int] = {}
        self._due: deque[tuple[float, asyncio.Future[bool]]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self.closed = False

    def start(self) -> None:
        """Start polling and sending heartbeats."""
        self.closed = False
        self._tasks = [asyncio.create_task(self._poll()), asyncio.create_task(self._beat())]

    def close(self) -> None:
        """End every stream: the server shuts down, and clients resume elsewhere."""
        self.closed = True
        for channel in self._channels.values():
            channel.wake()
        for task in self._tasks:
            task.cancel()
        self._tasks = []

    def enter(self, key: Key) -> Channel:
        """Watch a run."""
        self._watchers[key] = self._watchers.get(key, 0) + 1
        self._metrics.watchers.inc()
        return self._channels.setdefault(key, Channel())

    def leave(self, key: Key) -> None:
        """Stop watching it."""
        self._metrics.watchers.dec()
        self._watchers[key] -= 1
        if not self._watchers[key]:
            del self._watchers[key], self._channels[key]

    def update(self, key: Key, count: int) -> None:
        """Record how many events a run has now, and wake its watchers."""
        channel = self._channels.get(key)
        if channel is not None and count > channel.count:
            channel.count = count
            channel.wake()

    async def after(self, key: Key, channel: Channel, position: int) -> Sequence[StoredEvent]:
        """The events after a position, from memory if they are there."""
        tail = channel.tail
        if (
            tail
            and tail[-1].position >= max(channel.count, position + 1)
            and tail[0].position <= position + 1
        ):
            return [event for event in tail if event.position > position]
        events = await asyncio.to_thread(
            stored_events.after, self._database, key[0], key[1], position
        )
        for event in events:
            if not tail or event.position == tail[-1].position + 1:
                tail.append(event)
        if events:
            channel.count = max(channel.count, events[-1].position)
        return events

    async def wait(self, channel: Channel) -> bool:
        """Wait for something new; False if it is time for a heartbeat."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        channel.waiters.add(waiter)
        self._due.append((time.monotonic() + self._settings.heartbeat_s, waiter))
        try:
            return await waiter
        finally:
            channel.waiters.discard(waiter)

    async def pause(self) -> bool:
        """Wait before querying the database again; True if the server shuts down meanwhile."""
        await asyncio.sleep(self._settings.poll_s)
        return self.closed

    async def _beat(self) -> None:
        due = self._due
        while True:
            now = time.monotonic()
            for _ in range(AT_ONCE):
                if not due or (due[0][0] > now and not due[0][1].done()):
                    break
                waiter = due.popleft()[1]
                if not waiter.done():
                    waiter.set_result(False)
            await asyncio.sleep(TICK_S)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._settings.poll_s)
            keys = list(self._channels)
            for start in range(0, len(keys), AT_ONCE):
                try:
                    counts = await asyncio.to_thread(self._counts, keys[start : start + AT_ONCE])
                except Exception:  # the database is unavailable: the streams wait for it  # noqa: S112
                    continue
                for key, count in counts.items():
                    self.update(key, count)

    def _counts(self, keys: Sequence[Key]) -> dict[Key, int]:
        counts: dict[Key, int] = {}
        for project in {key[0] for key in keys}:
            ids = [key[1] for key in keys if key[0] == project]
            query = select(live_runs.c.run_id, live_runs.c.events).where(
                live_runs.c.project == project, live_runs.c.run_id.in_(ids)
            )
            rows = self._database.read(
                lambda connection, query=query: connection.execute(query).all(),  # type: ignore[misc]
            )
            counts |= {(project, row[0]): row[1] for row in rows}
        return counts


class LiveStream(Response):
    """The events of a run in progress, as long as its watcher may see them."""

    def __init__(
        self, hub: Hub, key: Key, after: int, *, is_allowed: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__()
        self._hub = hub
        self._key = key
        self._after = after
        self._is_allowed = is_allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events in order up to the last one, and a heartbeat when there is none."""
        hub, key, position = self._hub, self._key, self._after
        await receive()  # the request itself, which has no body
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        await send({"type": "http.response.body", "body": b"retry: 2000\n\n", "more_body": True})
        channel = hub.enter(key)
        try:
            fresh = True
            while not hub.closed and await self._is_allowed():
                if fresh or channel.count > position:
                    try:
                        events = await hub.after(key, channel, position)
                    except AssayError:  # the database is unavailable: the watcher waits for it
                        if await hub.pause() or has_left(receive):
                            break
                        await send(
                            {"type": "http.response.body", "body": HEARTBEAT, "more_body": True}
                        )
                        continue
                    fresh = False
                    if events:
                        await send(
                            {
                                "type": "http.response.body",
                                "body": b"".join([frame(*event) for event in events]),
                                "more_body": True,
                            }
                        )
                        position = events[-1].position
                        if events[-1].kind in LAST:
                            break
                        continue
                if not await hub.wait(channel):
                    if has_left(receive):
                        return
                    await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})
        finally:
            hub.leave(key)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def has_left(receive: Receive) -> bool:
    """Whether the client has closed the connection, without waiting for it to."""
    receiving = receive()
    try:
        receiving.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        return bool(stop.value["type"] == "http.disconnect")
    except RuntimeError:
        return False
    receiving.close()  # type: ignore[attr-defined]
    return False
