"""How much a test does: few examples and a short seed in the suite, many in `make campaign`."""

from __future__ import annotations

import os

from hypothesis import settings

CAMPAIGN = os.environ.get("HYPOTHESIS_PROFILE") == "campaign"


def share(hundredths: int) -> int:
    """The part of the profile's number, at least five."""
    return max(5, settings.default.max_examples * hundredths // 100)


def repeats(suite: int, campaign: int) -> int:
    """How often something random is repeated."""
    return campaign if CAMPAIGN else suite
