"""Group commit: many requests, one transaction, and nobody is answered before it is on the disk.

One thread takes whatever has come while the last transaction was written, and stores it in the
next.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from assay.server.committing import MAX_BATCH, commit
from assay.server.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.server.logs import Log
    from assay.server.metrics import Metrics
    from assay.store.drafts import Draft, Stored
    from assay.store.ledger import Ledger

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

    async def put(self, project: str, drafts: Sequence[Draft]) -> list[Stored]:
        """Store records; returns when they are durable."""
        assert self._loop is not None
        told: asyncio.Future[list[Stored]] = self._loop.create_future()
        with self._ready:
            if self._ending or self._records > MAX_WAITING:
                raise Problem(
                    503,
                    "too much waits to be stored.",
                    fix="Try again.",
                    headers={"Retry-After": "1"},
                )
            self._queue.append(Waiting(project, drafts, told))
            self._records += len(drafts)
            self._ready.notify()
        return await told

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._queue and not self._ending:
                    self._ready.wait()
                if not self._queue:
                    return
                batch: list[Waiting] = []
                size = 0
                while self._queue and (not batch or size + len(self._queue[0].drafts) <= MAX_BATCH):
                    batch.append(self._queue.popleft())
                    size += len(batch[-1].drafts)
                self._records -= size
            self._tell(
                list(
                    zip(
                        batch,
                        commit(self._ledger, batch, lambda error: self._log.fault("store", error)),
                        strict=True,
                    )
                )
            )
            self._metrics.count("commits")
            self._metrics.count("records_sent", size)

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
