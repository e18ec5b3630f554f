"""The catalogue."""
# mypy: ignore-errors
# ruff: noqa: D102, PT009

import unittest

from shed.catalogue import Catalogue


def filled() -> Catalogue:
    """A catalogue with three tools."""
    found = Catalogue()
    for name in ("Hedge trimmer", "saw", "Band saw"):
        found.add(name)
    return found


class Searching(unittest.TestCase):
    """Looking for tools."""

    def test_text_within_a_name(self) -> None:
        self.assertEqual(filled().find("saw"), ["Band saw", "saw"])

    def test_case_does_not_matter(self) -> None:
        self.assertEqual(filled().find("hedge"), ["Hedge trimmer"])


class Names(unittest.TestCase):
    """What the owners wrote."""

    def test_as_written(self) -> None:
        self.assertEqual(filled().names(), ["Band saw", "Hedge trimmer", "saw"])

    def test_once(self) -> None:
        found = filled()
        found.add("saw")
        self.assertEqual(len(found.names()), 3)
