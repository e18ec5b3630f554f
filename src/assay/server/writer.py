"""Group commit: many requests share one transaction, and none is answered before it is on disk.

One thread takes whatever arrived during the last transaction and stores it in the next. A refused
request doesn't affect the others.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from assay.errors import AssayError, InputError
from assay.server.logs import Log
from assay.server.metrics import Metrics
from assay.server.problems import Problem
from assay.store.drafts import Draft, Stored
from assay.store.ledger import Ledger
from assay.store.writing import append

MAX_WAITING = 30_000
"""Records that may wait to be stored; beyond that, clients have to retry."""
MAX_BATCH = 600
"""Records in one transaction: more would make the others wait too long."""


class WriteOrder(NamedTuple):
    """The records of one request, and the future to resolve."""

    project: str
    drafts: Sequence[Draft]
    stored: asyncio.Future[list[Stored]]


class Writer:
    """Stores drafts in groups."""

    def __init__(self, ledger: Ledger, metrics: Metrics, log: Log) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._log = log
        self._queue: deque[WriteOrder] = deque()
        self._records = 0
        self._ready = threading.Condition()
        self._due = False
        self._ending = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start storing; called on the event loop that requests run on."""
        self._loop = asyncio.get_running_loop()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="assay-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Store what waits, then stop."""
        with self._ready:
            self._ending = True
            self._ready.notify()
        if self._thread is not None:
            self._thread.join()

    async def put(self, project: str, drafts: Sequence[Draft]) -> list[Stored]:
        """Store records; returns when they are durable."""
        assert self._loop is not None
        stored: asyncio.Future[list[Stored]] = self._loop.create_future()
        with self._ready:
            if self._ending or self._records > MAX_WAITING:
                raise Problem(
                    503,
                    "too many records are waiting to be stored.",
                    fix="Try again.",
                    headers={"Retry-After": "1"},
                )
            if not self._queue:
                # After the requests that are ready now, which then share the transaction.
                self._loop.call_soon(self._wake)
            self._queue.append(WriteOrder(project, drafts, stored))
            self._records += len(drafts)
        return await stored

    def _wake(self) -> None:
        with self._ready:
            self._due = bool(self._queue)
            self._ready.notify()

    def _run(self) -> None:
        while batch := self._next():
            results = self._commit(batch)
            assert self._loop is not None
            try:
                self._loop.call_soon_threadsafe(_answer, batch, results)
            except RuntimeError:  # the loop has ended: nobody waits for the result
                return
            self._metrics.count("commits")
            self._metrics.count("records_sent", sum(len(order.drafts) for order in batch))

    def _next(self) -> list[WriteOrder]:
        """The orders of the next transaction; empty at the end."""
        batch: list[WriteOrder] = []
        size = 0
        with self._ready:
            self._ready.wait_for(lambda: self._due or self._ending)
            while self._queue and (not batch or size + len(self._queue[0].drafts) <= MAX_BATCH):
                batch.append(self._queue.popleft())
                size += len(batch[-1].drafts)
            self._records -= size
            self._due = bool(self._queue)
        return batch

    def _commit(self, batch: Sequence[WriteOrder]) -> list[list[Stored] | Exception]:
        try:
            return list(self._together(batch))
        except InputError as error:
            if len(batch) == 1:
                return [error]
            return [result for order in batch for result in self._commit([order])]
        except Exception as error:  # the thread must continue, or requests would hang
            if not isinstance(error, AssayError):
                self._log.fault("store", error)
            return [error] * len(batch)

    def _together(self, batch: Sequence[WriteOrder]) -> list[list[Stored]]:
        # Projects in order, so that two servers that lock the same heads never deadlock.
        drafts: dict[str, list[Draft]] = {
            name: [] for name in sorted(order.project for order in batch)
        }
        for order in batch:
            drafts[order.project] += order.drafts
        database, now = self._ledger.database, datetime.now(UTC)

        def work() -> dict[str, list[Stored]]:
            with database.writing() as connection, connection.begin():
                return {
                    project: append(connection, project, waiting, now=now)
                    for project, waiting in drafts.items()
                }

        stored = {project: iter(rows) for project, rows in database.patiently(work).items()}
        return [[next(stored[order.project]) for _ in order.drafts] for order in batch]


def _answer(batch: list[WriteOrder], results: list[list[Stored] | Exception]) -> None:
    for order, result in zip(batch, results, strict=True):
        if order.stored.done():  # the client went away; its records are stored all the same
            continue
        if isinstance(result, Exception):
            order.stored.set_exception(result)
        else:
            order.stored.set_result(result)
