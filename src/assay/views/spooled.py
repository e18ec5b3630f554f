"""A format whose file can only be written once all results are known: they wait on disk.

A piece is one JSON document on a line. The file takes memory for one result at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from assay.canon import encode_any
from assay.records.evidence import Run
from assay.records.grade import Payload
from assay.views.exporters import Format, ResultSource


class Spooled(Format):
    """Results that wait in a temporary file."""

    def __init__(self) -> None:
        self._waiting: IO[bytes] | None = None

    def row(self, result: Payload, source: ResultSource) -> Any:
        """What is kept of one result; None for nothing."""
        raise NotImplementedError

    def write_all(self, stream: IO[bytes], counts: dict[str, Any]) -> None:
        """Write the file. `rows` has what was kept."""
        raise NotImplementedError

    def piece_of(self, result: Payload, source: ResultSource) -> bytes:
        """One result on one line."""
        row = self.row(result, source)
        return b"" if row is None else encode_any(row) + b"\n"

    def onto(self, stream: IO[bytes]) -> IO[bytes]:
        """Pieces wait."""
        self._waiting = TemporaryFile()  # noqa: SIM115  `close` closes it
        return self._waiting

    def rows(self) -> Iterator[Any]:
        """What was kept, in its order; again with every call."""
        if self._waiting is not None:
            self._waiting.seek(0)
            yield from map(msgspec.json.decode, self._waiting)

    def finish(
        self, stream: IO[bytes], faults: Sequence[dict[str, Any]], counts: dict[str, Any]
    ) -> None:
        """Write the file."""
        self.write_all(stream, {**counts, "unread": faults})

    def close(self) -> None:
        """Drop what waits."""
        if self._waiting is not None:
            self._waiting.close()


# --- texts


def evidence_text(run: Run | None) -> list[str | None]:
    """The texts of a run's inputs, outputs and expected values; None where there is none."""
    values = (None, None, None) if run is None else (run.inputs, run.outputs, run.expected)
    return [as_text(value) for value in values]


def as_text(value: Any) -> str | None:
    """A value as text: the one text of a single field as it is, anything else as JSON.

    >>> as_text({"answer": "42"}), as_text({"a": 1, "b": 2}), as_text({})
    ('42', '{"a":1,"b":2}', None)
    """
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if value is None or value == {}:
        return None
    return value if isinstance(value, str) else encode_any(value).decode()
