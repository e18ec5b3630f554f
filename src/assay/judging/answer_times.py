"""When a judge answered. The age of its card counts from the oldest answer behind the card: neither
a new card of old answers nor a job that takes them from the journal makes it younger.

A time is a text in UTC, to the second. If the time of one answer is unknown, so is the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from assay.canon import time_of, time_text


def oldest(times: Iterable[Any]) -> str | None:
    """The oldest of some times; None if one of them is unknown, or if there are none.

    >>> new, old = "2026-11-02T00:00:00Z", "2026-10-02T00:00:00Z"
    >>> oldest([new, old]), oldest([new, None]), oldest([])
    ('2026-10-02T00:00:00Z', None, None)
    """
    moments = [time_of(time) for time in times]
    known = [moment for moment in moments if moment is not None]
    return time_text(min(known)) if known and len(known) == len(moments) else None


def answered_at(document: Mapping[str, Any]) -> str | None:
    """When the oldest answer of an audit or of judgements came, according to its `usage`."""
    usage = document.get("usage")
    return oldest([usage.get("answered_at")]) if isinstance(usage, Mapping) else None
