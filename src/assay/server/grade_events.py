"""Sends grades as OpenTelemetry events in the background: no request waits for that, or fails
because of it.

Grades wait in a bounded queue, and one thread sends them. Those that can't be sent, or find the
queue full, are dropped, counted and logged. Shutdown empties the queue within a time limit. The
grades themselves are always stored.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from assay.errors import count
from assay.files.json_files import parse_json
from assay.server.grading import DraftedGrade
from assay.server.logs import Log
from assay.server.metrics import Metrics
from assay.views.otel_export import Event, OtlpTarget, events_of, origin_of, refusal, send

MAX_WAITING = 10_000
"""Grades that may wait."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of grades that may wait."""
TOGETHER = 100
"""Grades that are sent together."""
PAUSE_S = 1.0
"""How long to wait before trying an unreachable receiver again."""
QUIET_S = 30.0
"""How often the log reports dropped grades; the metrics count all of them."""


class _WaitingEvents(NamedTuple):
    """Events that are made when they are sent, and the bytes that they are made from."""

    make: Callable[[], Iterable[Event]]
    size: int


def _of_grade(body: bytes, run: bytes | None) -> Iterable[Event]:
    return events_of(parse_json(body), None if run is None else parse_json(run))


def _of_refusal(run_id: str, code: str, message: str) -> Iterable[Event]:
    origin = origin_of({"run_id": run_id})
    return [(refusal(run_id, code, message, origin=origin), origin)]


class GradeExporter:
    """The queue and the thread of one process. Without an exporter it does nothing."""

    def __init__(self, exporter: OtlpTarget | None, metrics: Metrics, log: Log) -> None:
        self._exporter = exporter
        self._metrics = metrics
        self._log = log
        self._queue: deque[_WaitingEvents] = deque()
        self._bytes = 0
        self._ready = threading.Condition()
        self._thread: threading.Thread | None = None
        self._until: float | None = None
        """After shutdown has begun: the deadline for sending what waits."""
        self._lost = 0
        """Dropped grades that are not logged yet."""
        self._logged_at = float("-inf")

    def graded(self, grade: DraftedGrade) -> None:
        """Queue a stored grade to be sent, with its run if that names the trace it came from."""
        body, run = grade.grade.body, grade.evidence.body
        named = run if b'"otel"' in run else None
        self._put(_WaitingEvents(partial(_of_grade, body, named), len(body) + len(named or b"")))

    def refused(self, run_id: str, code: str, message: str) -> None:
        """Queue a report that a run could not be graded."""
        self._put(_WaitingEvents(partial(_of_refusal, run_id, code, message), len(message)))

    def close(self, *, within_s: float) -> None:
        """Send as much of the queue as time allows, then stop."""
        with self._ready:
            self._until = time.monotonic() + within_s
            self._ready.notify()
        if self._thread is not None:
            self._thread.join(within_s + 1)
        with self._ready:
            left = len(self._queue)
            self._queue.clear()
        if left:
            self._drop(left, "the server ends")

    # --- the queue

    def _put(self, entry: _WaitingEvents) -> None:
        if self._exporter is None:
            return
        with self._ready:
            full = len(self._queue) >= MAX_WAITING or self._bytes + entry.size > MAX_BYTES
            if not full and self._until is None:
                self._queue.append(entry)
                self._bytes += entry.size
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="assay-exporter", daemon=True
                    )
                    self._thread.start()
                self._ready.notify()
                return
        self._drop(1, "too many are waiting to be sent" if full else "the server ends")

    def _drop(self, n: int, why: str) -> None:
        """Count lost grades, and log them now and then."""
        self._metrics.count("otlp_grades_dropped", n)
        self._lost += n
        now = time.monotonic()
        if now - self._logged_at >= QUIET_S or self._until is not None:
            lost, self._lost, self._logged_at = self._lost, 0, now
            self._log.write(
                "telemetry",
                level="warning",
                dropped=lost,
                message=f"the evaluation events of {count(lost, 'grade')} were not sent: {why}.",
            )

    def _take(self) -> list[_WaitingEvents] | None:
        """The next batch to send; None at the end."""
        with self._ready:
            self._ready.wait_for(lambda: self._queue or self._until is not None)
            if not self._queue or (self._until is not None and time.monotonic() > self._until):
                return None
            batch = [self._queue.popleft() for _ in range(min(TOGETHER, len(self._queue)))]
            self._bytes -= sum(event.size for event in batch)
            return batch

    # --- the thread

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            try:
                warning = self._send(batch)
            except Exception as error:  # the thread must continue
                self._log.fault("telemetry", error)
                warning = "internal error"
            if warning is not None:
                self._drop(len(batch), warning.rstrip("."))
                with self._ready:  # give an unreachable receiver a pause, unless we shut down
                    self._ready.wait_for(lambda: self._until is not None, PAUSE_S)
            else:
                self._metrics.count("otlp_grades_sent", len(batch))

    def _send(self, batch: Sequence[_WaitingEvents]) -> str | None:
        """Send a batch; a warning if part of it did not arrive."""
        to = self._exporter
        assert to is not None
        if self._until is not None:
            to = to._replace(timeout=max(0.1, self._until - time.monotonic()))
        return send((event for entry in batch for event in entry.make()), to).warning
