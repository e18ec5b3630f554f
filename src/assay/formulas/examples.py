"""An example raw score for each formula, with its parameters. The data sheet shows it with its
norm.
"""

from __future__ import annotations

from typing import Any, NamedTuple


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
