"""Who gets a tool next."""

from __future__ import annotations

from typing import NamedTuple


class Wish(NamedTuple):
    """A neighbour who waits, and how urgent it is; 1 comes before 2."""

    who: str
    urgency: int


def next_in_line(wishes: list[Wish]) -> str | None:
    """The most urgent wish; of two that are as urgent, the one that came first. None where nobody waits."""
    if not wishes:
        return None
    return max(wishes, key=lambda wish: wish.urgency).who
