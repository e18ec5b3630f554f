"""Panels: several judges on the same question, by mean or by majority, with their disagreement in
the result.

A member without a verdict is not left out. The mean needs every member; a majority is more than
half of all members, present or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from assay.judging.rubric_task import Judged, exact_mean

Vote = Literal["mean", "majority"]


class Seat(NamedTuple):
    """One member's verdict on one criterion of one item."""

    judge: str
    raw: Any
    why: str | None


class Voted(NamedTuple):
    """One criterion of one item after the vote."""

    item: str
    criterion: str
    raw: Any
    why: str | None
    seats: tuple[Seat, ...]
    spread: Any
    """Highest minus lowest; None below two verdicts."""
    unanimous: bool | None

    def shown(self) -> dict[str, Any]:
        """As it appears in `assay.judgements/1`."""
        return {
            "id": self.item,
            "criterion": self.criterion,
            "raw": self.raw,
            "why": self.why,
            "spread": self.spread,
            "unanimous": self.unanimous,
            "judges": {seat.judge: {"raw": seat.raw, "why": seat.why} for seat in self.seats},
        }


def vote(item: str, criterion: str, seats: Sequence[Seat], *, by: Vote) -> Voted:
    """The panel's score of one criterion.

    >>> seats = [Seat("x", 4, None), Seat("y", 4, None), Seat("z", None, "refused")]
    >>> vote("i", "c", seats, by="majority").raw, vote("i", "c", seats, by="mean").raw
    (4, None)
    """
    present = [seat.raw for seat in seats if seat.raw is not None]
    spread = max(present) - min(present) if len(present) > 1 else None
    unanimous = None if len(present) < 2 else len(set(present)) == 1 and len(present) == len(seats)
    raw, why = _mean(seats, present) if by == "mean" else _majority(seats, present)
    return Voted(item, criterion, raw, why, tuple(seats), spread, unanimous)


def _mean(seats: Sequence[Seat], present: list[Any]) -> tuple[Any, str | None]:
    if len(present) < len(seats):
        absent = next(seat for seat in seats if seat.raw is None)
        return (
            None,
            (
                f"{len(seats) - len(present)} of {len(seats)} judges gave no score; {absent.judge}:"
                f" {absent.why}"
            ),
        )
    return exact_mean(present), None


def _majority(seats: Sequence[Seat], present: list[Any]) -> tuple[Any, str | None]:
    score, votes = Counter(present).most_common(1)[0] if present else (None, 0)
    if 2 * votes > len(seats):
        return score, None
    cast = ", ".join(f"{seat.judge}: {'none' if seat.raw is None else seat.raw}" for seat in seats)
    return None, f"no score has more than half of the {len(seats)} judges ({cast})"


def convene(members: Mapping[str, Sequence[Judged]], *, by: Vote) -> list[Voted]:
    """The votes on everything that the members judged; all were asked the same questions."""
    names = list(members)
    return [
        vote(
            rows[0].item,
            rows[0].criterion,
            [Seat(name, row.raw, row.why) for name, row in zip(names, rows, strict=True)],
            by=by,
        )
        for rows in zip(*members.values(), strict=True)
    ]
