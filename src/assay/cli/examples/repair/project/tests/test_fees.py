"""Fees."""
# mypy: ignore-errors
# ruff: noqa: D102, PT009

import unittest

from shed.fees import late_fee


class Fees(unittest.TestCase):
    """What late days cost."""

    def test_grace_is_free(self) -> None:
        self.assertEqual(late_fee(2), 0)

    def test_only_days_after_grace_cost(self) -> None:
        self.assertEqual(late_fee(3), 50)

    def test_each_day_costs(self) -> None:
        self.assertEqual(late_fee(7, cents_per_day=10), 50)

    def test_cap(self) -> None:
        self.assertEqual(late_fee(1000), 1000)
