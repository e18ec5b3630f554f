"""Impossible figures: a kappa above 1, a rate beyond 0..1, a negative number of items, more lost
answers than answers, values that aren't numbers.

No such figure comes out of a measurement, so a card or a calibration that has one was written by
hand or damaged, and nothing on it counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from assay import exact

_RATES = frozenset({"inconsistency_rate", "injection", "accuracy", "self_agreement"})
_SHARES = frozenset({"position", "padding", "verbosity", "sycophancy", "self_preference"})
_KAPPAS = ("cohen_kappa", "linear", "quadratic", "fleiss_kappa", "krippendorff_alpha")
_CORRELATIONS = frozenset({*_KAPPAS, "spearman", "kendall_tau_b", "pearson"})
_COUNTS = frozenset(
    {
        "n",
        "n_labelled",
        "n_unlabelled",
        "n_judged",
        "answers",
        "lost",
        "items",
        "injections",
        "of",
        "total",
        "labelled",
    }
)
_SLACK = Decimal("1e-9")
"""How far rounding may exceed a bound."""


def impossible(document: Mapping[str, Any]) -> str | None:
    """The first impossible figure of a card or calibration, and why; None if there is none."""
    body = {
        name: value
        for name, value in document.items()
        if name not in ("verdicts", "admission", "identity")
    }
    impossible_number: str | None = next(_walk(body, ""), None)
    calibration = document.get("calibration")
    return (
        impossible_number
        if impossible_number is not None
        else _counts(calibration if isinstance(calibration, Mapping) else document)
    )


def _walk(value: Any, path: str) -> Any:
    name = path.rpartition(".")[2]
    if isinstance(value, Mapping):
        if name != "labels":  # people's labels have their own scale
            low, high = (
                (-1, 1)
                if name in _CORRELATIONS | _SHARES
                else (
                    (0, 1)
                    if name in _RATES or path.endswith("agreement.agreement")
                    else (None, None)
                )
            )
            yield from _interval(value, path, low, high)
            if name == "confusion" and not _is_table(value):
                yield f"{path} lacks a row for each label and a column for each verdict"
            if (
                exact.is_number(value.get("lost"))
                and exact.is_number(value.get("answers"))
                and value["lost"] > value["answers"]
            ):
                yield f"{path} has {value['lost']} answers without a verdict of {value['answers']}"
            for key, part in value.items():
                yield from _walk(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, part in enumerate(value):
            yield from _walk(part, f"{path}[{index}]")
    elif isinstance(value, float | Decimal) and not isfinite(value):
        yield f"{path} is {value}"
    elif (
        name in _COUNTS
        and value is not None
        and not isinstance(value, str)
        and (not exact.is_number(value) or value != int(value) or value < 0)
    ):
        yield f"{path} is {value}, and it counts something"


def _interval(interval: Mapping[str, Any], path: str, low: int | None, high: int | None) -> Any:
    """The faults of an interval: a value that isn't a number, or is outside the range of its
    statistic, and ends that are not in order.
    """
    ends = {
        key: interval[key]
        for key in ("value", "low", "high")
        if exact.is_number(interval.get(key)) and isfinite(interval[key])
    }
    for key in ("value", "low", "high", "level"):
        if interval.get(key) is not None and not exact.is_number(interval[key]):
            yield f"{path}.{key} is not a number"
    for key, value in ends.items():
        if (
            low is not None
            and high is not None
            and not low - _SLACK <= Decimal(str(value)) <= high + _SLACK
        ):
            yield f"{path}.{key} is {value}, outside {low}..{high}"
    if (
        "low" in ends
        and "high" in ends
        and Decimal(str(ends["low"])) > Decimal(str(ends["high"])) + _SLACK
    ):
        yield f"{path} runs from {ends['low']} to {ends['high']}"
    if (
        path.rpartition(".")[2] in _CORRELATIONS
        and "low" in ends
        and "value" in ends
        and Decimal(str(ends["low"])) > Decimal(str(ends["value"])) + _SLACK
    ):
        yield f"{path}.value is {ends['value']}, below its own lower end {ends['low']}"


def _is_table(confusion: Mapping[str, Any]) -> bool:
    """Whether a confusion matrix has a row for each label and a column for each verdict. One of the
    wrong type is left to the reader of the record.
    """
    rows, columns, counts = (confusion.get(key) for key in ("human", "judge", "counts"))
    if not (isinstance(rows, list) and isinstance(columns, list) and isinstance(counts, list)):
        return True
    return len(counts) == len(rows) and all(
        len(row) == len(columns) for row in counts if isinstance(row, list)
    )


def _counts(calibration: Mapping[str, Any]) -> str | None:
    """Why the counts of a calibration contradict each other; None if they don't."""
    n = calibration.get("n_labelled")
    labels, block = calibration.get("labels"), calibration.get("agreement")
    if isinstance(labels, Mapping) and exact.is_number(n) and len(labels) != n:
        return f"n_labelled is {n}, and there are {len(labels)} labels"
    if (
        isinstance(block, Mapping)
        and exact.is_number(block.get("n"))
        and exact.is_number(n)
        and block["n"] != n
    ):
        return f"n_labelled is {n}, and agreement was measured on {block['n']}"
    return None
