"""Counters for Prometheus, in its text form. With several workers whoever is asked tells the sums
of all.

Each worker writes what it has counted into a file of the folder that they share, once a second at
most, and before it tells anybody: so that the next one who is asked never tells less. What a worker
counted stays when it dies; a gauge is of those that live. No request waits for any of it.

No label ever holds what a client sent: routes stand by their pattern, so that a stranger cannot
fill memory with names.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from contextlib import suppress
from typing import NamedTuple

import msgspec

from assay import __version__
from assay.server.owners import is_dead, own_name
from assay.server.sharing import touch

EDGES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
PREFIX = "counted-"
EVERY_S = 1.0
"""How often what was counted is written down."""
TOUCH_S = 3600.0
"""How often the folder is shown to be in use."""


class Counted(NamedTuple):
    """What one process has counted so far."""

    owner: str
    requests: list[tuple[str, str, int, int]]
    buckets: list[int]
    seconds: float
    counters: dict[str, int]
    gauges: dict[str, float]
    letters: dict[str, int]


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(Counted).decode


class Metrics:
    """What one process has done so far, and with a folder what all that share it have."""

    def __init__(self, folder: str | None = None) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        self.buckets = [0] * (len(EDGES_S) + 1)
        self.seconds = 0.0
        self.counters: dict[str, int] = {}
        self.gauges: dict[str, float] = {}
        self.letters: dict[str, int] = {}
        self._shared = None if folder is None else Shared(folder, self)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """One answered request."""
        key = (method, route, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        self.buckets[bisect_left(EDGES_S, seconds)] += 1
        self.seconds += seconds

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        self.counters[name] = self.counters.get(name, 0) + by

    def gauge(self, name: str, by: float) -> None:
        """Move a gauge."""
        self.gauges[name] = self.gauges.get(name, 0) + by

    def letter(self, grade: str) -> None:
        """One grade that was stored."""
        self.letters[grade] = self.letters.get(grade, 0) + 1

    def start(self) -> None:
        """Begin to write down what is counted, where others want to know."""
        if self._shared is not None:
            self._shared.start()

    def close(self) -> None:
        """Write it down for the last time."""
        if self._shared is not None:
            self._shared.close()

    def counted(self, owner: str = "") -> Counted:
        """All of it. The copies are made at once: another thread may be counting."""
        requests = [(*key, n) for key, n in self.requests.copy().items()]
        return Counted(
            owner,
            requests,
            self.buckets.copy(),
            self.seconds,
            self.counters.copy(),
            self.gauges.copy(),
            self.letters.copy(),
        )

    def add(self, other: Counted) -> None:
        """Count what another process has counted."""
        for method, route, status, n in other.requests:
            self.requests[method, route, status] = self.requests.get((method, route, status), 0) + n
        self.buckets = [mine + n for mine, n in zip(self.buckets, other.buckets, strict=True)]
        self.seconds += other.seconds
        for name, n in other.counters.items():
            self.count(name, n)
        for name, value in other.gauges.items():
            self.gauge(name, value)
        for grade, n in other.letters.items():
            self.letters[grade] = self.letters.get(grade, 0) + n

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        total = Metrics()
        for one in (self.counted(), *(() if self._shared is None else self._shared.others())):
            total.add(one)
        return total._text()

    def _text(self) -> str:
        found = [
            "# HELP assay_info The version that runs.",
            "# TYPE assay_info gauge",
            f'assay_info{{version="{__version__}"}} 1',
            "# HELP assay_requests_total Requests that were answered.",
            "# TYPE assay_requests_total counter",
        ]
        found += [
            f'assay_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
            for (method, route, status), n in self.requests.items()
        ]
        found += [
            "# HELP assay_request_seconds Time from request to answer.",
            "# TYPE assay_request_seconds histogram",
        ]
        total = 0
        for edge, n in zip((*map(str, EDGES_S), "+Inf"), self.buckets, strict=True):
            total += n
            found.append(f'assay_request_seconds_bucket{{le="{edge}"}} {total}')
        found += [
            f"assay_request_seconds_sum {self.seconds:.6f}",
            f"assay_request_seconds_count {total}",
        ]
        found += [
            "# HELP assay_grades_total Grades that were stored, by letter.",
            "# TYPE assay_grades_total counter",
        ]
        found += [
            f'assay_grades_total{{grade="{grade}"}} {n}'
            for grade, n in sorted(self.letters.items())
        ]
        for name, n in sorted(self.counters.items()):
            found += [f"# TYPE assay_{name}_total counter", f"assay_{name}_total {n}"]
        for name, value in sorted(self.gauges.items()):
            found += [f"# TYPE assay_{name} gauge", f"assay_{name} {value:g}"]
        return "\n".join(found) + "\n"


class Shared:
    """The file of one worker, and those of the others."""

    def __init__(self, folder: str, metrics: Metrics) -> None:
        self._folder = folder
        self._metrics = metrics
        self._owner = own_name()
        self._name = PREFIX + self._owner.rpartition("/")[2]
        self._draft = os.path.join(folder, f"draft-of-{self._name}")
        self._written = _encode(metrics.counted(self._owner))
        self._touched_at = time.monotonic()
        self._writing = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="assay-metrics", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Write for the last time."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        self._write()

    def others(self) -> list[Counted]:
        """What the others have counted, after what this one has is written down."""
        self._write()
        found = []
        for name in sorted(os.listdir(self._folder)) if os.path.isdir(self._folder) else ():
            if name.startswith(PREFIX) and name != self._name:
                with (
                    suppress(OSError, msgspec.MsgspecError),
                    open(os.path.join(self._folder, name), "rb") as file,
                ):
                    one = _decode(file.read())
                    found.append(one._replace(gauges={}) if is_dead(one.owner) else one)
        return found

    def _run(self) -> None:
        while not self._ending.wait(EVERY_S):
            self._write()
            if time.monotonic() - self._touched_at > TOUCH_S:
                self._touched_at = time.monotonic()
                with suppress(OSError):
                    touch(self._folder)

    def _write(self) -> None:
        """Write the file anew where something was counted since. A disk that is full keeps nobody
        from being told.
        """
        with self._writing, suppress(OSError):
            data = _encode(self._metrics.counted(self._owner))
            if data != self._written:
                with open(self._draft, "wb") as file:
                    file.write(data)
                os.replace(self._draft, os.path.join(self._folder, self._name))
                self._written = data
