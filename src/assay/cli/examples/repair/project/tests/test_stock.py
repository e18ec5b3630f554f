"""The stock."""
# mypy: ignore-errors

import unittest

from shed.stock import Stock


class Lending(unittest.TestCase):
    """Lending and taking back."""

    def test_lend(self) -> None:  # noqa: D102
        stock = Stock(3)
        stock.lend(2)
        self.assertEqual(stock.here, 1)  # noqa: PT009

    def test_too_many(self) -> None:  # noqa: D102
        with self.assertRaises(ValueError):  # noqa: PT027
            Stock(1).lend(2)

    def test_back(self) -> None:  # noqa: D102
        stock = Stock(3)
        stock.lend(2)
        stock.take_back()
        self.assertEqual(stock.here, 2)  # noqa: PT009

    def test_never_more_than_owned(self) -> None:  # noqa: D102
        stock = Stock(1)
        with self.assertRaises(ValueError):  # noqa: PT027
            stock.take_back()
