"""Times as a reader wants them: in UTC, and how long ago. Nothing here asks for the clock."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(time: str) -> datetime | None:
    """A time of a record in UTC; None where it has no zone, or is no time."""
    try:
        at = datetime.fromisoformat(time)
        return at.astimezone(UTC) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def ago(time: str, now: datetime | None) -> str:
    """How long before `now` a time was; empty where that is longer than a month, in the future, or
    not known.

    >>> now = datetime(2026, 11, 15, 10, tzinfo=UTC)
    >>> [ago(f"2026-11-15T{clock}Z", now) for clock in ("09:59:58", "09:57:00", "07:30:00")]
    ['just now', '3 min ago', '2 h ago']
    >>> ago("2026-11-14T09:00:00Z", now), ago("2026-11-15T11:00:00Z", now), ago("soon", now)
    ('yesterday', '', '')
    """
    at = instant(time) if now is not None else None
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
