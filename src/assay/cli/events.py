"""The events of a run as a file that grows: `assay run --events FILE`, one `assay.event/1` a line,
each run numbered from 1.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, BinaryIO

from assay.canon import digest
from assay.errors import Fault, UsageError
from assay.pipeline.grading import Graded
from assay.views import events


class EventFile:
    """Writes every event as it happens, and each run's evaluation when the run is over. A killed
    run leaves complete lines and at most one torn line.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._positions: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stream: BinaryIO | None = None

    def __enter__(self) -> EventFile:
        try:
            self._stream = open(self.path, "ab", buffering=0)
        except OSError as error:
            raise UsageError(
                "FIL-008", f"cannot be written: {error.strerror}.", where=self.path
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def tell(self, run_id: str, kind: str, fields: dict[str, Any]) -> None:
        """One event."""
        with self._lock:
            position = self._positions[run_id] = (
                1 if kind == "workflow_start" else self._positions.get(run_id, 0) + 1
            )
            if self._stream is not None and not self._stream.closed:
                self._stream.write(events.event(kind, run_id, _now(), fields)(position) + b"\n")

    def judged(self, graded: Graded) -> bytes:
        """The evaluation of a finished run."""
        payload = graded.payload()
        run_id = payload["run_id"]
        self.tell(
            run_id,
            "evaluation_start",
            {"policy": payload["policy"], "profile": payload.get("profile")},
        )
        self.tell(run_id, "evaluation_complete", {**payload, "digest": digest(payload)})
        self._positions.pop(run_id, None)
        return b""

    def refused(self, run_id: str, faults: list[Fault]) -> None:
        """A run that could not be evaluated."""
        first = faults[0]
        self.tell(
            run_id,
            "error",
            {"message": first.message, "code": first.code, "where": first.path, "fix": first.fix},
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"
