"""Times as a reader wants them: in UTC, and how long ago. Nothing here reads the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from assay import exact
from assay.canon import time_of


def ago(time: str, now: datetime | None) -> str:
    """How long before `now` a time was; empty if that is longer than a month, in the future, or not
    known.

    >>> from datetime import UTC
    >>> now = datetime(2026, 11, 15, 10, tzinfo=UTC)
    >>> [ago(f"2026-11-15T{clock}Z", now) for clock in ("09:59:58", "09:57:00", "07:30:00")]
    ['just now', '3 min ago', '2 h ago']
    >>> ago("2026-11-14T09:00:00Z", now), ago("2026-11-15T11:00:00Z", now), ago("soon", now)
    ('yesterday', '', '')
    """
    at = time_of(time) if now is not None else None
    if at is None or now is None:
        return ""
    seconds = int((now - at).total_seconds())
    if seconds < -5 or seconds >= 30 * 86_400:
        return ""
    if seconds < 10:
        return "just now"
    if seconds < 60:
        return f"{seconds} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600} h ago"
    days = seconds // 86_400
    return "yesterday" if days == 1 else f"{days} days ago"


def duration(value: Any) -> str:
    """A time in milliseconds as a person reads it; empty if it is not known.

    >>> duration(340), duration(8120), duration(None)
    ('340 ms', '8.1 s', '')
    >>> duration(4.96), duration(0.48), duration(0.004), duration(0)
    ('5 ms', '0.5 ms', '< 0.01 ms', '0 ms')
    """
    if not exact.is_number(value):
        return ""
    took = float(value)
    if took >= 1000:
        return f"{took / 1000:,.1f} s"
    if took >= 0.95 or not took:
        return f"{took:,.0f} ms"
    return f"{took:.1f} ms" if took >= 0.095 else f"{took:.2f} ms" if took >= 0.01 else "< 0.01 ms"
