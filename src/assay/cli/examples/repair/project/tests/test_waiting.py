"""Who is next."""
# mypy: ignore-errors
# ruff: noqa: D102, PT009

import unittest

from shed.waiting import Wish, next_in_line


class Waiting(unittest.TestCase):
    """The line."""

    def test_nobody(self) -> None:
        self.assertIsNone(next_in_line([]))

    def test_one(self) -> None:
        self.assertEqual(next_in_line([Wish("Ada", 3)]), "Ada")
