"""When a tool is due."""

from __future__ import annotations

from datetime import date, timedelta


def add_weeks(day: date, weeks: int) -> date:
    """The same weekday, so many weeks on."""
    return day + timedelta(weeks=weeks)


def add_months(day: date, months: int) -> date:
    """The same day of the month, so many months on; the last one where that month is shorter."""
    years, month = divmod(day.month - 1 + months, 12)
    return day.replace(year=day.year + years, month=month + 1)
