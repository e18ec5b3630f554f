"""Which tools there are."""

from __future__ import annotations


class Catalogue:
    """Tools by the name that their owner wrote."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def add(self, name: str) -> None:
        """Enter a tool. The same name is entered once."""
        if name not in self._names:
            self._names.append(name)

    def names(self) -> list[str]:
        """All names as they were written, in the order of the alphabet."""
        return sorted(self._names)

    def find(self, text: str) -> list[str]:
        """The names that hold a text."""
        return [name for name in self.names() if text in name]
