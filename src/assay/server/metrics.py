"""Counters for Prometheus, in its text form. Each process counts for itself; the label `process` tells them apart.

No label ever holds what a client sent: routes stand by their pattern, so that a stranger cannot fill memory with names.
"""

from __future__ import annotations

import os
from bisect import bisect_left

from assay import __version__

EDGES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """What one process has done so far."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        self.buckets = [0] * (len(EDGES_S) + 1)
        self.seconds = 0.0
        self.counters: dict[str, int] = {}
        self.gauges: dict[str, float] = {}
        self.letters: dict[str, int] = {}

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

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        own = f'process="{os.getpid()}"'
        found = [
            "# HELP assay_info The version that runs.",
            "# TYPE assay_info gauge",
            f'assay_info{{version="{__version__}",{own}}} 1',
            "# HELP assay_requests_total Requests that were answered.",
            "# TYPE assay_requests_total counter",
        ]
        found += [
            f'assay_requests_total{{method="{method}",route="{route}",status="{status}",{own}}} {n}' for (method, route, status), n in self.requests.items()
        ]
        found += ["# HELP assay_request_seconds Time from request to answer.", "# TYPE assay_request_seconds histogram"]
        total = 0
        for edge, n in zip((*map(str, EDGES_S), "+Inf"), self.buckets, strict=True):
            total += n
            found.append(f'assay_request_seconds_bucket{{le="{edge}",{own}}} {total}')
        found += [f"assay_request_seconds_sum{{{own}}} {self.seconds:.6f}", f"assay_request_seconds_count{{{own}}} {total}"]
        found += ["# HELP assay_grades_total Grades that were stored, by letter.", "# TYPE assay_grades_total counter"]
        found += [f'assay_grades_total{{grade="{grade}",{own}}} {n}' for grade, n in sorted(self.letters.items())]
        for name, n in sorted(self.counters.items()):
            found += [f"# TYPE assay_{name}_total counter", f"assay_{name}_total{{{own}}} {n}"]
        for name, value in sorted(self.gauges.items()):
            found += [f"# TYPE assay_{name} gauge", f"assay_{name}{{{own}}} {value:g}"]
        return "\n".join(found) + "\n"
