"""The stock."""
# mypy: ignore-errors
# ruff: noqa: D102, PT009, PT027

import unittest

from shed.stock import Stock


class Lending(unittest.TestCase):
    """Lending and taking back."""

    def test_lend(self) -> None:
        stock = Stock(3)
        stock.lend(2)
        self.assertEqual(stock.here, 1)

    def test_too_many(self) -> None:
        with self.assertRaises(ValueError):
            Stock(1).lend(2)

    def test_back(self) -> None:
        stock = Stock(3)
        stock.lend(2)
        stock.take_back()
        self.assertEqual(stock.here, 2)

    def test_never_more_than_owned(self) -> None:
        stock = Stock(1)
        with self.assertRaises(ValueError):
            stock.take_back()
