"""A grade in one line, and why it did not pass.

Every place that has room for a line makes it of this: the terminal, a pull-request comment, a test
case, a row of a report or of a page. Nothing here decides: see `grading`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from assay.errors import few
from assay.exact import points
from assay.records.grade import Grade
from assay.records.scorecard import STATUS_GATE
from assay.records.typed import convert

NAMED = 3
"""Gates, criteria or causes that a line names; it counts the others."""


LONGEST_REASON = 160


NO_REASON = "no reason given"


class GradeLine(Struct, frozen=True):
    """What a line shows of a grade. Each field is that of `results[]` in `assay.grades/1`."""

    run_id: str | None = None
    grade: str | None = None
    weighted_score: Any = None
    passed: bool = False
    reason: str | None = None
    pass_threshold: Any = None
    hard_gate_failures: Sequence[str] = ()
    floor_failures: Sequence[str] = ()
    explanation: Sequence[str] = ()
    cause: str = ""
    """What ended the run, such as an error of the provider; empty if nothing is stated."""
    status: str | None = None
    """How the run ended."""
    unscored: Sequence[str] = ()
    """The criteria without a score, which count as 0."""
    uncalibrated: Sequence[str] = ()
    """The criteria that reach their floors, but only through a judge that may not gate."""

    @property
    def why(self) -> str:
        """Why it did not pass, in a few words; empty if it passed.

        >>> GradeLine(hard_gate_failures=["clean", "signed"]).why, GradeLine(passed=True).why
        ('gates clean, signed do not pass', '')
        """
        if self.passed is True:
            return ""
        gates, floors = self.hard_gate_failures, self.floor_failures
        if gates:
            one = len(gates) == 1
            shut = (
                f"gate{'' if one else 's'} {few(gates, NAMED)} {'does' if one else 'do'} not pass"
            )
            return f"{self.cause}; {shut}" if self.cause else shut
        if floors:
            missed = [name for name in floors if name not in self.uncalibrated]
            one = len(missed or floors) == 1
            if missed:
                return f"{few(missed, NAMED)} {'misses its floor' if one else 'miss their floors'}"
            reached = "reaches its floor" if one else "reach their floors"
            return f"{few(floors, NAMED)} {reached} {_UNCALIBRATED}"
        if self.reason == "below_pass_threshold":
            short = f"{points(self.weighted_score)} is below {float(self.pass_threshold):g}"
            verb = "is" if len(self.unscored) == 1 else "are"
            lacking = f"; {few(self.unscored, NAMED)} {verb} missing" if self.unscored else ""
            return short + lacking
        return _REASONS.get(str(self.reason), str(self.reason or NO_REASON))

    @property
    def because(self) -> str:
        """Why it did or did not pass: the verdict in a sentence."""
        return next(iter(self.explanation), "") or self.why or NO_REASON

    @property
    def counted(self) -> list[str]:
        """Why it did not pass, in words that can be counted over many runs: how the run ended where
        it did not succeed, else each gate and floor, without numbers.
        """
        if self.cause:
            return [" ".join(self.cause.split("\n", 1)[0].split())[:LONGEST_REASON]]
        # A run that broke off fails most gates; each of them would hide the one reason.
        if STATUS_GATE in self.hard_gate_failures and self.status not in (None, "success"):
            return [f"the run ended with status {self.status}"[:LONGEST_REASON]]
        reasons = [f"gate {name} does not pass" for name in self.hard_gate_failures]
        reasons += [
            f"{name} reaches its floor {_UNCALIBRATED}"
            if name in self.uncalibrated
            else f"{name} misses its floor"
            for name in self.floor_failures
        ]
        reasons = reasons or [_REASONS.get(str(self.reason), str(self.reason or NO_REASON))]
        return [reason[:LONGEST_REASON] for reason in reasons]

    @property
    def head(self) -> str:
        """The letter, the score, the verdict and the run."""
        word = "passed" if self.passed is True else "FAILED"
        return f"{self.grade}  {points(self.weighted_score):>6}  {word}  {self.run_id}"

    @property
    def text(self) -> str:
        """The line of `assay grade`.

        >>> GradeLine("r-1", "F", 50, reason="below_pass_threshold", pass_threshold=70).text
        'F   50.00  FAILED  r-1  50.00 is below 70'
        """
        return f"{self.head}  {self.why}" if self.why else self.head


_UNCALIBRATED = "only through an uncalibrated judge"


_REASONS = {
    "below_pass_threshold": "score below the threshold",
    "below_passing_grade": "the policy does not pass this grade",
    "no_hard_gates": "no hard gate",
}


def as_line(grade: Grade | Mapping[str, Any]) -> GradeLine:
    """The line of a grade, given as a record or as an entry of `results[]`."""
    line = convert(grade, GradeLine, from_attributes=True)
    if line.passed is True:
        return line
    if line.hard_gate_failures:
        return line
    return structs.replace(line, unscored=list(unscored(grade)), uncalibrated=_uncalibrated(grade))


def unscored(grade: Grade | Mapping[str, Any]) -> dict[str, str]:
    """The criteria without a score, with the reason for each."""
    if isinstance(grade, Grade):
        own = [item.criterion for item in grade.criteria]
        return {
            criterion.name: criterion.missing or NO_REASON
            for criterion in own
            if criterion.raw_score is None
        }
    criteria = grade.get("criteria") or ()
    return {
        str(item["name"]): str(item.get("missing") or NO_REASON)
        for item in criteria
        if item.get("raw_score", 0) is None
    }


def _uncalibrated(grade: Grade | Mapping[str, Any]) -> list[str]:
    """The criteria that reach their floors, but only through a judge that may not gate."""
    if isinstance(grade, Grade):
        return [
            item.name
            for item in grade.criteria
            if item.floor_failed and item.norm_units >= (item.floor_units or 0)
        ]
    return [
        str(item["name"])
        for item in grade.get("criteria") or ()
        if item.get("judge_fault")
        and item.get("floor_failed")
        and item["norm"] >= item["critical_floor"]["norm"]
    ]
