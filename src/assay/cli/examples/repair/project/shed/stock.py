"""How many of a tool are in the shed."""

from __future__ import annotations


class Stock:
    """So many are owned; some of them are lent."""

    def __init__(self, owned: int) -> None:
        self.owned = owned
        self.lent = 0

    @property
    def here(self) -> int:
        """How many are in the shed."""
        return self.owned - self.lent

    def lend(self, count: int = 1) -> None:
        """Lend some. Nobody lends what is not here."""
        if count > self.here:
            raise ValueError(f"{count} are asked for, and {self.here} are here")
        self.lent += count

    def take_back(self, count: int = 1) -> None:
        """Take some back."""
        self.lent -= count
