"""Dates."""
# mypy: ignore-errors
# ruff: noqa: D102, PT009

import unittest
from datetime import date

from shed.dates import add_months, add_weeks


class Dates(unittest.TestCase):
    """When a tool is due."""

    def test_weeks(self) -> None:
        self.assertEqual(add_weeks(date(2027, 1, 31), 2), date(2027, 2, 14))

    def test_months(self) -> None:
        self.assertEqual(add_months(date(2027, 11, 15), 3), date(2028, 2, 15))

    def test_shorter_month(self) -> None:
        self.assertEqual(add_months(date(2027, 1, 31), 1), date(2027, 2, 28))

    def test_leap_year(self) -> None:
        self.assertEqual(add_months(date(2027, 12, 30), 2), date(2028, 2, 29))
