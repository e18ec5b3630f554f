"""A real HTTP server that takes the events that grades are sent as."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Receiver:
    """A real HTTP server that takes OTLP logs."""

    def __init__(
        self, code: int = 200, headers: dict[str, str] | None = None, *, slow_s: float = 0
    ) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"]))
                time.sleep(slow_s)
                receiver.got.append(
                    (self.path, {key.lower(): value for key, value in self.headers.items()}, data)
                )
                self.send_response(code)
                for key, value in (headers or {}).items():
                    self.send_header(key, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def records(self) -> list[tuple[Any, dict[str, Any]]]:
        """Every log record with its attributes, decoded by opentelemetry-proto."""
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        found = []
        for _, _, data in self.got:
            for held in ExportLogsServiceRequest.FromString(data).resource_logs:
                for scope in held.scope_logs:
                    found += [
                        (record, {one.key: _plain(one.value) for one in record.attributes})
                        for record in scope.log_records
                    ]
        return found

    def grades(self) -> list[str]:
        """The ids of the runs whose whole grade came, in their order."""
        return [
            attributes["assay.run_id"]
            for _, attributes in self.records()
            if attributes["gen_ai.evaluation.name"] == "assay"
        ]


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return (
        [_plain(one) for one in value.array_value.values]
        if kind == "array_value"
        else getattr(value, kind)
    )
