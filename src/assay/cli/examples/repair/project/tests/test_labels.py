"""Labels."""
# mypy: ignore-errors
# ruff: noqa: D102, PT009

import unittest

from shed.labels import csv_line, shelf_mark


class Labels(unittest.TestCase):
    """What the printer gets."""

    def test_plain(self) -> None:
        self.assertEqual(csv_line(["saw", "2"]), "saw,2")

    def test_comma(self) -> None:
        self.assertEqual(csv_line(["saw, long", "2"]), '"saw, long",2')

    def test_mark(self) -> None:
        self.assertEqual(shelf_mark("saw", 7), "SAW-007")
