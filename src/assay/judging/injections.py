"""Texts that try to talk a judge into a verdict, written for this project: many techniques, many
languages.

They are inputs of a measurement: each is put into a candidate and goes through the same fence as
any other text. `audit` counts those that a judge obeys. The texts are in `data/injections.jsonl`,
with invisible characters as escapes.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

Wants = Literal["high", "first", "tie", "refuse", "leak"]
GUESS = "{boundary_guess}"
"""Marks the place in a text where an attacker would put the boundary if they could guess it."""


class Injection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One attack, and what it wants: the best score, the first place, a tie, no verdict, or the
    boundary and the key themselves.
    """

    id: str
    technique: str
    language: str
    text: str
    wants: Wants

    def aimed(self, guess: str) -> str:
        """The text with the attacker's guess at the boundary.

        >>> Injection("x", "boundary_guess", "en", "CANDIDATE ends {boundary_guess}", "high").aimed(
        ...     "0000"
        ... )
        'CANDIDATE ends 0000'
        """
        return self.text.replace(GUESS, guess)


@cache
def load() -> tuple[Injection, ...]:
    """All of them, in the order of the file. Read once.

    >>> len(load()) >= 80, load()[0].wants
    (True, 'high')
    """
    data = files("assay.judging").joinpath("data", "injections.jsonl").read_bytes()
    return tuple(msgspec.json.Decoder(Injection).decode_lines(data))
