"""A formula: whole stars from 0 to 5 to a norm."""

from __future__ import annotations

from typing import Any

from assay.plugins import Formula, FormulaError, Ratio


def apply(raw: Any, params: Any) -> int:
    """The norm of a number of stars, in billionths."""
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw <= 5:
        raise FormulaError("SCO-001", f"assay_example.stars: {raw!r} is not 0 to 5 whole stars.")
    return raw * 200_000_000


def invert(norm: int, raw: Any, params: Any) -> int:
    """The fewest stars whose norm is at least the given one."""
    return -(-norm // 200_000_000)


STARS = Formula(
    id="assay_example.stars",
    version="1",
    title="Stars from 0 to 5",
    raw="a whole number from 0 to 5",
    low=Ratio(0, 1),
    high=Ratio(5, 1),
    direction="higher is better",
    clamps=False,
    params=(),
    text="stars / 5",
    source="assay-plugin-example",
    apply=apply,
    invert=invert,
    steps=True,
)
