"""The catalogue."""
# mypy: ignore-errors

import unittest

from shed.catalogue import Catalogue


def filled() -> Catalogue:
    """A catalogue with three tools."""
    found = Catalogue()
    for name in ("Hedge trimmer", "saw", "Band saw"):
        found.add(name)
    return found


class Finding(unittest.TestCase):
    """Looking for tools."""

    def test_text_within_a_name(self) -> None:  # noqa: D102
        self.assertEqual(filled().find("saw"), ["Band saw", "saw"])  # noqa: PT009

    def test_case_does_not_matter(self) -> None:  # noqa: D102
        self.assertEqual(filled().find("hedge"), ["Hedge trimmer"])  # noqa: PT009


class Names(unittest.TestCase):
    """What the owners wrote."""

    def test_as_written(self) -> None:  # noqa: D102
        self.assertEqual(filled().names(), ["Band saw", "Hedge trimmer", "saw"])  # noqa: PT009

    def test_once(self) -> None:  # noqa: D102
        found = filled()
        found.add("saw")
        self.assertEqual(len(found.names()), 3)  # noqa: PT009
