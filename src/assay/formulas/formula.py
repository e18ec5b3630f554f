"""The definition of a formula: a data sheet and a function from a raw score to a norm.

A formula refuses raw scores that it doesn't accept; only `zero_one` and `lower_is_better` clamp. It
knows no weight, floor or letter.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from assay import exact
from assay.errors import FormulaError


class Formula(NamedTuple):
    """One way to map a raw score to 0..1, with its data sheet."""

    id: str
    version: str
    title: str
    raw: str
    """The accepted raw scores, in words."""
    low: exact.Ratio | None
    high: exact.Ratio | None
    """The ends of the raw range, if the raw score is a number with a range."""
    direction: str
    clamps: bool
    params: tuple[str, ...]
    text: str
    source: str
    apply: Callable[[Any, Mapping[str, Any]], int]
    """Raw score and parameters to a norm in billionths; raises `FormulaError`."""
    invert: Callable[[int, Any, Mapping[str, Any]], Any]
    """The nearest raw score whose norm is at least the given one (for `lower_is_better`, the
    largest); None if there is no single one.
    """
    check_params: Callable[[Mapping[str, Any]], object] = dict
    """Raises `FormulaError` for invalid parameters."""
    steps: bool = False
    """Whether norms only change in whole steps, so that a change has to land on one."""

    def sheet(self) -> dict[str, Any]:
        """The data sheet, as `assay library show formula ID` prints it."""
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
    """The exact value of a raw number. Raises an error that names the formula."""
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


class FormulaExample(NamedTuple):
    """A raw score and its parameters."""

    raw: Any
    params: dict[str, Any] = {}  # read only


EXAMPLES: dict[str, FormulaExample] = {
    "binary": FormulaExample(1),
    "likert_1_5": FormulaExample(4),
    "likert_neg2_2": FormulaExample(1),
    "likert_0_5": FormulaExample(4),
    "zero_one": FormulaExample(1.2),
    "pairwise": FormulaExample({"wins": 6, "losses": 3, "ties": 1}),
    "lower_is_better": FormulaExample(12, {"slo_good": 8, "slo_bad": 30}),
    "ratio": FormulaExample({"passed": 9, "total": 12}),
}
"""An example raw score for each formula, with its parameters. The data sheet shows it with its
norm.
"""
