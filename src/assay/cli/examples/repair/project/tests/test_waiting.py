"""Who is next."""
# mypy: ignore-errors

import unittest

from shed.waiting import Wish, next_in_line


class Waiting(unittest.TestCase):
    """The line."""

    def test_nobody(self) -> None:  # noqa: D102
        self.assertIsNone(next_in_line([]))  # noqa: PT009

    def test_one(self) -> None:  # noqa: D102
        self.assertEqual(next_in_line([Wish("Ada", 3)]), "Ada")  # noqa: PT009
