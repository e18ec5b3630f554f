"""Labels."""
# mypy: ignore-errors

import unittest

from shed.labels import csv_line, shelf_mark


class Labels(unittest.TestCase):
    """What the printer gets."""

    def test_plain(self) -> None:  # noqa: D102
        self.assertEqual(csv_line(["saw", "2"]), "saw,2")  # noqa: PT009

    def test_comma(self) -> None:  # noqa: D102
        self.assertEqual(csv_line(["saw, long", "2"]), '"saw, long",2')  # noqa: PT009

    def test_mark(self) -> None:  # noqa: D102
        self.assertEqual(shelf_mark("saw", 7), "SAW-007")  # noqa: PT009
