"""The choice of profile, policy, rubric and library that runs are graded by, as values that can be
sent to a worker process.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from assay.files.json_files import read_json
from assay.library.shelf import Shelf
from assay.services.grading import Grader

if TYPE_CHECKING:
    from assay.scoring.profile import Profile


class Choice(Struct, frozen=True):
    """What the user chose to grade by."""

    policy: str
    profile: str | Profile | None
    """A name or a file; or a profile that was made for this choice."""
    rubric: str | None
    library: str | None
    cards: tuple[str, ...] = ()
    """Files with judge cards."""
    now: datetime | None = None
    stored: bool = False
    """Whether the grades go into a ledger; then evidence is read as a replay reads it."""

    def grader(self) -> Grader:
        """A grader for this choice."""
        return Grader(
            Shelf(self.library) if self.library else Shelf(),
            policy=self.policy,
            profile=self.profile,
            rubric=self.rubric,
            cards=self.read_cards(),
            now=self.now,
        )

    def read_cards(self) -> list[dict[str, Any]]:
        """The judge cards."""
        return read_cards(self.cards, now=self.now)

    def dated(self) -> Choice:
        """The choice with the time at which the age of cards is measured, which is stored with the
        grades so that they can be replayed.
        """
        return structs.replace(self, now=self.now or (datetime.now(UTC) if self.cards else None))


def read_cards(paths: Iterable[str], *, now: datetime | None = None) -> list[dict[str, Any]]:
    """Judge cards from files. Each must be complete and not made after `now`."""
    if not paths:
        return []
    from assay.judging.card import check_card

    return [
        check_card(read_json(path).tree, where=path, now=now or datetime.now(UTC)) for path in paths
    ]
