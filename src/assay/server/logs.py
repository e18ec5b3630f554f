"""Structured logs: one JSON object a line, with the versions of both systems. Headers, bodies and
queries are never logged. Tokens, and passwords in addresses, are redacted from every line.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import IO, Any

from assay.canon import encode, time_text
from assay.records.grade import ENGINE

_SECRETS = re.compile(
    r"assay_[0-9a-f]{12}_[A-Za-z0-9_-]+|(?<=://)[^/@\s\"]*:[^/@\s\"]*(?=@)|(?i:bearer)\s+[^\s\"]+"
)


_MARKERS = (b"assay_", b"://", b"bearer")
"""Every secret contains one of these, in lower case; a text without any needs no search."""


def redact(text: str) -> str:
    """A text without tokens and passwords.

    >>> redact("postgresql://me:hunter2@db/x Bearer abc assay_0123456789ab_xyz")
    'postgresql://[secret]@db/x [secret] [secret]'
    """
    return _SECRETS.sub("[secret]", text)


def line(event: str, *, level: str = "info", **fields: Any) -> bytes:
    """One line of the log."""
    at = time_text(datetime.now(UTC), "milliseconds")
    body = {"time": at, "level": level, "event": event, **ENGINE, **fields}
    try:
        data = encode(body)
    except (TypeError, ValueError):
        data = encode(
            {
                key: value if isinstance(value, int | float | None) else ascii(value)
                for key, value in body.items()
            }
        )
    low = data.lower()
    if any(marker in low for marker in _MARKERS):
        data = redact(data.decode()).encode()
    return data + b"\n"


class Log:
    """Writes lines to a stream; a closed stream doesn't stop the server."""

    def __init__(
        self,
        stream: IO[bytes] | None = None,
        *,
        requests: bool = True,
        only_errors: bool = False,
    ) -> None:
        self._stream = stream
        self.requests = requests
        self._only_errors = only_errors

    def write(self, event: str, *, level: str = "info", **fields: Any) -> None:
        """Write one line."""
        if self._only_errors and level != "error":
            return
        stream = self._stream or getattr(sys.stderr, "buffer", None)
        if stream is None:
            return
        try:
            stream.write(line(event, level=level, **fields))
            stream.flush()
        except (OSError, ValueError):
            return

    def fault(self, event: str, error: BaseException, **fields: Any) -> None:
        """Log an internal error: where it happened, and its message without the values passed to
        the database.
        """
        words = str(getattr(error, "orig", None) or error)
        frames = [
            f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)[-8:]
        ]
        self.write(
            event,
            level="error",
            type=type(error).__name__,
            message=words[:500],
            frames=frames,
            **fields,
        )


class JsonFormatter(logging.Formatter):
    """Formats the web server's own messages in the same way."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without the newline."""
        made = line(record.name, level=record.levelname.lower(), message=record.getMessage())
        return made.decode().rstrip("\n")


class WithoutAbandoned(logging.Filter):
    """Drops uvicorn's error about an unfinished response. Its client has gone, and `guard` has
    logged that; every other cause is logged where it happens.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        return record.getMessage() != "ASGI callable returned without completing response."


def uvicorn_config() -> dict[str, Any]:
    """A logging configuration for uvicorn: errors and notices as JSON, and no access log (`guard`
    logs more).
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "assay.server.logs.JsonFormatter"}},
        "filters": {"abandoned": {"()": "assay.server.logs.WithoutAbandoned"}},
        "handlers": {
            "err": {
                "filters": ["abandoned"],
                "class": "logging.StreamHandler",
                "formatter": "json",
                "stream": "ext://sys.stderr",
            }
        },
        "loggers": {
            "uvicorn": {"handlers": ["err"], "level": "INFO", "propagate": False},
            "uvicorn.error": {"level": "INFO"},
            "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
        },
    }
