"""What a late tool costs, in cents."""

from __future__ import annotations


def late_fee(days_late: int, *, grace_days: int = 2, cents_per_day: int = 50, cap_cents: int = 1000) -> int:
    """The fee for a tool that comes back late. The days of grace cost nothing, and no fee is above the cap."""
    if days_late <= grace_days:
        return 0
    return min(days_late * cents_per_day, cap_cents)
