"""Amounts in cents."""


def split_bill(cents, people):
    """What each of them pays; nobody pays more than a cent more than another."""
    return [cents // people] * people
