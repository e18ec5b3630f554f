"""How many requests may be in flight at once: one more after each full round of successes, half as
many when the endpoint reports overload.

Waiting is measured with a monotonic clock. A pause that the endpoint asks for applies to every
request, not just to the one that was refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime


class Limiter:
    """Additive increase, multiplicative decrease, between 1 and a ceiling. It begins at the
    ceiling, which the user chose.
    """

    def __init__(self, ceiling: int, *, clock: Callable[[], float]) -> None:
        self.ceiling = ceiling
        self.limit = float(ceiling)
        self.in_flight = 0
        self.slowed = 0
        """How often the endpoint slowed us down."""
        self._clock = clock
        self._resume_at = float("-inf")
        self._pause_s = 0.0
        self._slowed_at = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Wait for a place, and for the end of any pause."""
        while True:
            now = self._clock()
            if self._resume_at > now:
                # a clock that was set back must not make the pause longer
                self._resume_at = min(self._resume_at, now + self._pause_s)
                await asyncio.sleep(self._resume_at - now)
                continue
            if self.in_flight < max(1, int(self.limit)):
                self.in_flight += 1
                return
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._wake()  # pass the place on
                raise

    def release(self) -> None:
        """Release a place."""
        self.in_flight -= 1
        self._wake()

    def succeeded(self) -> None:
        """After an answer, allow a little more."""
        if self.limit < self.ceiling:
            self.limit = min(float(self.ceiling), self.limit + 1 / self.limit)
            self._wake()

    def refused(self, *, started: float, retry_after_s: float | None) -> None:
        """The endpoint reported overload. Requests that were already in flight when we slowed down
        do not slow us down again.
        """
        now = self._clock()
        if started >= self._slowed_at:
            self.limit = max(1.0, self.limit / 2)
            self._slowed_at = now
            self.slowed += 1
        if retry_after_s is not None:
            self._pause_s = max(retry_after_s, min(self._resume_at - now, self._pause_s))
            self._resume_at = now + self._pause_s

    def _wake(self) -> None:
        free = max(1, int(self.limit)) - self.in_flight
        while free > 0 and self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                free -= 1


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the endpoint asks us to wait, in seconds.

    A date is read against the endpoint's own clock, its Date header: ours may be wrong. Without
    that header a date says nothing.

    >>> retry_after({"Retry-After": "2.5"})
    2.5
    >>> retry_after(
    ...     {
    ...         "Retry-After": "Sun, 15 Nov 2026 10:00:07 GMT",
    ...         "Date": "Sun, 15 Nov 2026 10:00:00 GMT",
    ...     }
    ... )
    7.0
    """
    text = headers.get("Retry-After", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = (
                parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("Date", ""))
            ).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 <= seconds < 1e9 else None
