"""Grades as OpenTelemetry events in a file: one OTLP log request in JSON on each line, the form of
the Collector's file exporter and receiver. Events on the wire: `exporting`.
"""

from __future__ import annotations

import time

from assay.records.grade import Payload
from assay.views.documents import encode
from assay.views.exporters import Exporter, Format, ResultSource
from assay.views.telemetry import document, events, origin_of


class TelemetryFile(Format):
    """The events of one result on each line."""

    def piece(self, result: Payload) -> bytes:
        """The events of a result of which nothing else is known."""
        return self.piece_of(result, ResultSource())

    def piece_of(self, result: Payload, source: ResultSource) -> bytes:
        """The events of one result, on the trace that its run came from."""
        origin = origin_of(result if source.run is None else source.run)
        found = [(event, origin) for event in events(result, origin=origin)]
        return encode(document(found, now_ns=time.time_ns())) + b"\n"


EXPORTER = Exporter(
    "otel", "OpenTelemetry: evaluation events as lines of OTLP JSON", (".jsonl",), TelemetryFile
)
