"""Dates."""


def is_leap(year):
    """Whether a year has a 29th of February."""
    return year % 4 == 0
