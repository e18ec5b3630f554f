"""Amounts in cents."""


def split_bill(cents, people):
    """The amount each person pays; the amounts differ by at most one cent."""
    return [cents // people] * people
