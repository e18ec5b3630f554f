"""How many examples a property gets: few in the suite, many in `make campaign`."""

from __future__ import annotations

from hypothesis import settings


def share(hundredths: int) -> int:
    """The part of the profile's number, at least five."""
    return max(5, settings.default.max_examples * hundredths // 100)
