"""Group commit: many requests, one transaction, and nobody is answered before it is on the disk.

One thread takes whatever has gathered and stores it in one transaction. It is woken when everybody who is coming is there, or when the first request has
waited long enough: small batches pay for the disk and for the interpreter's lock one by one. Where
one request's records are refused, the batch is taken apart and each request is tried alone, so that a stranger's fault costs nobody else a record.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import AssayError, InputError
from assay.server.problems import Problem
from assay.store.writing import append

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.server.logs import Log
    from assay.server.metrics import Metrics
    from assay.store.drafts import Draft, Stored
    from assay.store.ledger import Ledger

MAX_BATCH = 600
"""Records in one transaction: more would make the others wait too long."""
GATHER_S = 0.006
"""How long the first request of a batch may wait for others."""
MAX_WAITING = 30_000
"""Records that may wait to be stored; then clients are asked to come again."""


class Waiting(NamedTuple):
    """The records of one request, and whom to tell."""

    project: str
    drafts: Sequence[Draft]
    told: asyncio.Future[list[Stored]]


class Writer:
    """Stores drafts in groups."""

    def __init__(self, ledger: Ledger, metrics: Metrics, log: Log) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._log = log
        self._queue: deque[Waiting] = deque()
        self._records = 0
        self._ready = threading.Condition()
        self._ending = False
        self._coming = 0
        self._here = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._go = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to store; called on the event loop that requests run on."""
        self._loop = asyncio.get_running_loop()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="assay-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Store what waits, then end."""
        with self._ready:
            self._ending = True
            self._ready.notify()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def coming(self) -> Iterator[None]:
        """Around a request that will store something soon, so that others are stored together with it."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    async def put(self, project: str, drafts: Sequence[Draft]) -> list[Stored]:
        """Store records; returns when they are durable."""
        assert self._loop is not None
        told: asyncio.Future[list[Stored]] = self._loop.create_future()
        with self._ready:
            if self._ending or self._records > MAX_WAITING:
                raise Problem(503, "too much waits to be stored.", fix="Try again.", headers={"Retry-After": "1"})
            self._queue.append(Waiting(project, drafts, told))
            self._records += len(drafts)
        self._here += 1
        if self._here >= self._coming or self._records >= MAX_BATCH:
            self._wake()
        elif self._gathering is None:
            self._gathering = self._loop.call_later(GATHER_S, self._wake)
        try:
            return await told
        finally:
            self._here -= 1

    def _wake(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        with self._ready:
            self._go = True
            self._ready.notify()

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._go and not self._ending:
                    self._ready.wait()
                if not self._queue:
                    if self._ending:
                        return
                    self._go = False
                    continue
                batch: list[Waiting] = []
                size = 0
                while self._queue and (not batch or size + len(self._queue[0].drafts) <= MAX_BATCH):
                    batch.append(self._queue.popleft())
                    size += len(batch[-1].drafts)
                self._records -= size
                self._go = len(self._queue) > 0 and self._gathering is None
            self._tell(self._store(batch))
            self._metrics.count("commits")
            self._metrics.count("records_sent", size)

    def _store(self, batch: list[Waiting]) -> list[tuple[Waiting, list[Stored] | Exception]]:
        try:
            return list(zip(batch, self._together(batch), strict=True))
        except InputError as error:
            if len(batch) == 1:
                return [(batch[0], error)]
            return [found for one in batch for found in self._store([one])]
        except Exception as error:  # the thread goes on whatever happens: a request without an answer waits for ever
            if not isinstance(error, AssayError):
                self._log.fault("store", error)
            return [(one, error) for one in batch]

    def _together(self, batch: list[Waiting]) -> list[list[Stored]]:
        # projects in order: two servers that lock the heads of the same projects never wait for each other in a circle
        projects = sorted({one.project for one in batch})
        now = datetime.now(UTC)

        def work() -> dict[str, list[Stored]]:
            with self._ledger.database.writing() as connection, connection.begin():
                return {
                    project: append(connection, project, [draft for one in batch if one.project == project for draft in one.drafts], now=now)
                    for project in projects
                }

        stored = {project: iter(found) for project, found in self._ledger.database.patiently(work).items()}
        return [[next(stored[one.project]) for _ in one.drafts] for one in batch]

    def _tell(self, found: list[tuple[Waiting, list[Stored] | Exception]]) -> None:
        assert self._loop is not None

        def tell() -> None:
            for one, result in found:
                if one.told.done():  # the client went away; its records are stored all the same
                    continue
                if isinstance(result, Exception):
                    one.told.set_exception(result)
                else:
                    one.told.set_result(result)

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop has ended: nobody is left to be told
            return
