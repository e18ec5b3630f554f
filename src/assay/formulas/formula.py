"""What a formula is: data with a sheet, and one function from a raw score to a norm.

A formula refuses what it does not accept; only `zero_one` and `lower_is_better` clamp. It never
sees a weight, a floor or a letter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from assay import exact
from assay.errors import FormulaError


class Formula(NamedTuple):
    """One way to bring a raw score onto 0..1, with its data sheet."""

    id: str
    version: str
    title: str
    raw: str
    """The raw shape accepted, in words."""
    low: exact.Ratio | None
    high: exact.Ratio | None
    """The ends of the raw range, where the raw score is a number with a range."""
    direction: str
    clamps: bool
    params: tuple[str, ...]
    text: str
    source: str
    apply: Callable[[Any, Mapping[str, Any]], int]
    """Raw score and parameters to a norm in billionths; raises `FormulaError`."""
    invert: Callable[[int, Any, Mapping[str, Any]], Any]
    """The nearest raw score whose norm is at least the given one (for `lower_is_better`: the
    largest); None when there is no single one.
    """
    check_params: Callable[[Mapping[str, Any]], object] = dict
    """Raises `FormulaError` for parameters this formula cannot work with."""
    steps: bool = False
    """True if only whole steps exist between two norms, so that a change has to land on one."""

    def sheet(self) -> dict[str, Any]:
        """The data sheet, as `assay library show formula ID` prints it."""
        from assay.formulas.examples import EXAMPLES  # nothing but a sheet needs them

        example = EXAMPLES.get(self.id)
        return {
            "id": self.id,
            "version": self.version,
            "title": self.title,
            "raw": self.raw,
            "range": (
                None
                if self.low is None or self.high is None
                else [_plain(self.low), _plain(self.high)]
            ),
            "norm_range": [0, 1],
            "direction": self.direction,
            "clamps": self.clamps,
            "params": list(self.params),
            "formula": self.text,
            "source": self.source,
            "example": None if example is None else self._worked(example.raw, example.params),
        }

    def _worked(self, raw: Any, params: Mapping[str, Any]) -> dict[str, Any]:
        norm = self.apply(raw, params) / exact.NORM_ONE
        return {"raw": raw, **({"params": dict(params)} if params else {}), "norm": norm}


def _plain(value: exact.Ratio) -> int | float:
    return value.num if value.den == 1 else value.num / value.den


def number(raw: Any, formula: str, what: str = "raw score") -> exact.Ratio:
    """The exact value of a raw number, or an error that names the formula."""
    try:
        return exact.ratio(raw)
    except ValueError as error:
        raise FormulaError("SCO-003", f"{formula}: the {what} must be a number; {error}.") from None


def refuse_params(params: Mapping[str, Any], formula: str, known: tuple[str, ...] = ()) -> None:
    """Refuse parameters that a formula does not have: a misspelt one would silently do nothing."""
    for name in params:
        if name not in known:
            expected = f"it takes {', '.join(known)}" if known else "it takes none"
            raise FormulaError("SCO-005", f"{formula}: unknown parameter {name!r}; {expected}.")
