"""The bar on the share of samples that pass: `min_pass_rate`, with or without a confidence.

With a confidence the whole interval counts: its lower end must reach the bar, an upper end below it
is a failure, and anything between is too little evidence to tell. Without one the plain share is
compared, exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, NamedTuple

from assay.errors import UsageError
from assay.stats.intervals import wilson
from assay.stats.power import smallest

MOST_SAMPLES = 10_000_000
PassedBy = Literal["all", "mean", "any"]
"""When a sample with repeats passes."""


def passed_share(passed: int, runs: int, by: PassedBy) -> Fraction:
    """How much of a sample passed, of so many runs: all or nothing by `all` and `any`, the share of
    its runs by `mean`.

    >>> [passed_share(2, 3, by) for by in ("all", "mean", "any")]
    [Fraction(0, 1), Fraction(2, 3), Fraction(1, 1)]
    """
    share = Fraction(passed, runs) if runs else Fraction(0)
    if by == "mean":
        return share
    return Fraction(share == 1 if by == "all" else share > 0)


class PassBar(NamedTuple):
    """The minimum share of samples that must pass, and how sure that must be."""

    least: Fraction
    confidence: float | None = None

    @classmethod
    def of(cls, least: Any, confidence: Any = None) -> PassBar | None:
        """The required pass rate, or None. Raises `UsageError` if it is not a share."""
        if least is None:
            if confidence is not None:
                raise UsageError(
                    "CLI-001",
                    "--confidence needs a minimum pass rate.",
                    fix="Add --min-pass-rate, for example --min-pass-rate 0.95.",
                )
            return None
        share = _share("min-pass-rate", least)
        if not 0 < share <= 1:
            raise UsageError(
                "CLI-001", f"--min-pass-rate is {least}; it must be above 0 and at most 1."
            )
        sure = None if confidence is None else _share("confidence", confidence)
        if sure is not None and not Fraction(1, 2) <= sure < 1:
            raise UsageError(
                "CLI-001", f"--confidence is {confidence}; it must be from 0.5 to below 1."
            )
        return cls(share, None if sure is None else float(sure))

    @property
    def words(self) -> str:
        """The bar in words."""
        sure = "" if self.confidence is None else f" with {self.confidence:.4g} confidence"
        return f"{percent(self.least)}{sure}"


class BarResult(NamedTuple):
    """Whether the bar is reached; None if there are too few samples to tell."""

    holds: bool | None
    reason: str
    evidence: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """The result as it appears in a JSON document."""
        return {"holds": self.holds, "reason": self.reason, **self.evidence}


def check_pass_rate(passed: int | Fraction, n: int, bar: PassBar) -> BarResult:
    """Whether enough of n samples passed.

    >>> from fractions import Fraction
    >>> check_pass_rate(19, 20, PassBar(Fraction(95, 100))).holds
    True
    >>> print(check_pass_rate(20, 20, PassBar(Fraction(95, 100), 0.95)).reason)
    20 of 20 passed (100%, interval 83.8% to 100%); too few samples to tell whether that is at \
least 95% with 0.95 confidence; about 73 would be enough at this rate
    """
    evidence: dict[str, Any] = {
        "passed": passed if isinstance(passed, int) else float(passed),
        "n": n,
        "least": float(bar.least),
        "confidence": bar.confidence,
        "interval": None,
        "needed": None,
    }
    counts = (
        f"{f'{passed:,}' if isinstance(passed, int) else f'{float(passed):.4g}'} of {n:,} passed"
    )
    if not n:
        return BarResult(None, "there are no samples", evidence)
    rate = Fraction(passed, n)
    counts += f" ({percent(rate)}"
    if bar.confidence is None:
        holds = rate >= bar.least
        return BarResult(holds, f"{counts}), {bar.words} required", evidence)
    interval = wilson(float(passed), n, level=bar.confidence)
    evidence["interval"] = interval.shown()
    assert interval.low is not None
    assert interval.high is not None
    counts += f", interval {percent(interval.low)} to {percent(interval.high)})"
    if interval.low >= bar.least:
        return BarResult(True, f"{counts}, {bar.words} required", evidence)
    if interval.high < bar.least:
        return BarResult(False, f"{counts}, {bar.words} required", evidence)
    needed = evidence["needed"] = samples_needed(rate, bar)
    more = (
        f"; about {needed:,} would be enough at this rate"
        if needed is not None
        else "; at this rate no number of samples would be enough"
    )
    reason = f"{counts}; too few samples to tell whether that is at least {bar.words}{more}"
    return BarResult(None, reason, evidence)


def samples_needed(rate: Fraction, bar: PassBar) -> int | None:
    """How many samples at this rate would reach the bar; None if none would, or too many.

    >>> samples_needed(Fraction(1), PassBar(Fraction(95, 100), 0.95))
    73
    """
    if rate <= bar.least and rate < 1:
        return None

    def reaches(n: int) -> bool:
        interval = wilson(int(rate * n), n, level=bar.confidence or 0.5)
        return interval.low is not None and interval.low >= bar.least

    return smallest(reaches, start=1, most=MOST_SAMPLES)


def percent(value: Fraction | float) -> str:
    """A share as a percentage, rounded down, so that it never looks better than it is.

    >>> percent(Fraction(1)), percent(0.94999), percent(Fraction(2, 3))
    ('100%', '94.9%', '66.6%')
    """
    tenths = int(Fraction(value) * 1000)
    return f"{tenths // 10}%" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}%"


def _share(name: str, value: Any) -> Fraction:
    try:
        share = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if share < 0 or isinstance(value, bool):
        raise UsageError("CLI-001", f"--{name} is {value!r}; it must be a share, such as 0.95.")
    return share
