"""Counters for Prometheus. With several workers, any one of them reports the sums of all.

prometheus-client keeps the counters of each worker in a file of the folder that the parent made
(see `workers`), so they survive the worker's death. A gauge counts living workers only: each holds
a lock until it ends. Its pid can't show that: it stays until the parent has noticed, and another
process may get it later.

No label ever contains text from a client: routes appear as their pattern, so that requests can't
fill the memory with names.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import time
from contextlib import suppress

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    multiprocess,
)

from assay import __version__
from assay.server.workers import COUNTERS

EDGES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
HELP = {
    "commits": "Transactions committed.",
    "records_sent": "Records handed to the ledger, whether new or known.",
    "decisions_promote": "Decisions to promote.",
    "decisions_hold": "Decisions to hold.",
    "decisions_reject": "Decisions to reject.",
    "decisions_not_enough_evidence": "Decisions that lacked evidence.",
    "otlp_spans": "Spans received.",
    "otlp_spans_refused": "Spans rejected.",
    "otlp_spans_late": "Spans that came too late to be used.",
    "otlp_spans_forgotten": "Spans deleted because their trace made no run.",
    "otlp_runs": "Runs built from traces.",
    "otlp_traces_failed": "Traces that made no run.",
    "otlp_grades_sent": "Grades exported as OpenTelemetry events.",
    "otlp_grades_dropped": "Grades that could not be exported.",
}
_TRIES, _PAUSE_S = 50, 0.01
_GAUGE_FILE = re.compile(r"gauge_live\w+_(\d+)\.db")

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The counters of this process, and their sums over all workers of its server."""

    def __init__(self) -> None:
        if (folder := os.environ.get(COUNTERS)) is not None:
            self._alive = _locked(folder, os.getpid(), fcntl.LOCK_EX)
            _forget_gauges(folder, os.getpid())  # of a dead worker that had the same pid
        self._registry = own = CollectorRegistry()
        self._requests = Counter(
            "assay_requests", "Requests answered.", ("method", "route", "status"), registry=own
        )
        self._seconds = Histogram(
            "assay_request_seconds", "Seconds per request.", buckets=EDGES_S, registry=own
        )
        self._grades = Counter(
            "assay_grades", "Grades stored, by letter.", ("grade",), registry=own
        )
        self._counters = {
            name: Counter(f"assay_{name}", text, registry=own) for name, text in HELP.items()
        }
        self.watchers = Gauge(
            "assay_watchers", "Open event streams.", registry=own, multiprocess_mode="livesum"
        )
        info = Gauge(
            "assay_info",
            "The running version.",
            ("version",),
            registry=own,
            multiprocess_mode="max",
        )
        info.labels(__version__).set(1)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(method, route, status).inc()
        self._seconds.observe(seconds)

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter of `HELP`."""
        self._counters[name].inc(by)

    def letter(self, grade: str) -> None:
        """Count a stored grade."""
        self._grades.labels(grade).inc()

    def text(self) -> bytes:
        """Everything in the text format of Prometheus."""
        folder = os.environ.get(COUNTERS)
        if folder is None:
            return generate_latest(self._registry)
        for _ in range(_TRIES):
            # The file of a starting worker is empty for a moment, and another scrape may have
            # removed the file of a dead worker.
            with suppress(FileNotFoundError, struct.error):
                return self._of_all(folder)
            time.sleep(_PAUSE_S)
        return self._of_all(folder)

    def _of_all(self, folder: str) -> bytes:
        """The sums of all workers."""
        for name in os.listdir(folder):
            match = _GAUGE_FILE.fullmatch(name)
            if match is None:
                continue
            with (
                suppress(BlockingIOError),  # this worker is alive
                open(_locked(folder, int(match[1]), fcntl.LOCK_SH | fcntl.LOCK_NB)),
            ):
                _forget_gauges(folder, int(match[1]))
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together, folder)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def _locked(folder: str, pid: int, how: int) -> int:
    """The descriptor of a worker's lock, which the worker takes before it creates its gauges."""
    lock = os.open(os.path.join(folder, f"{pid}.lock"), os.O_RDONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, how)
    except OSError:
        os.close(lock)
        raise
    return lock


def _forget_gauges(folder: str, pid: int) -> None:
    multiprocess.mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]
