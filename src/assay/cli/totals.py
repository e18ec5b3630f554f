"""What a stream of grades counts, and how it ends: the bar on the pass rate, the exit code that
follows from it, and its faults as one error.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.errors import ExitCode, Fault, InputError
from assay.records.grade import ENGINE, LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from assay.cli.parsing import Options
    from assay.release.pass_rate import BarResult, PassBar

MAX_FAULTS = 200
"""Faults kept to be shown; all are counted."""


class GradedPiece(Struct, frozen=True):
    """One graded document: what each output gets, and what the parent counts."""

    digest: bytes
    run_id: str
    file: str
    line: int | None
    grade: str
    score: int
    """In the units of `exact`; only the order of scores counts here."""
    passed: bool
    scoring: str
    sample: bytes
    """A key for the sample, the same for all its repeats."""
    outputs: tuple[bytes, ...]


class Totals:
    """What was counted over the whole stream."""

    def __init__(
        self, policy: str, grading: str = ENGINE["gradingSystem"], *, bar: PassBar | None = None
    ) -> None:
        self.policy = policy
        self.grading = grading
        self.bar = bar
        self.samples: dict[bytes, bool] = {}
        """Whether every repeat of a sample passed; counted only where there is a bar."""
        self.scoring: set[str] = set()
        self.documents = 0
        self.empty: list[Fault] = []
        """The files without a single document. Nothing passes while there is one."""
        self.passed = 0
        self.worst_failed: GradedPiece | None = None
        self.letters: Counter[str] = Counter()
        self.shown: Counter[bool] = Counter()
        """How many that passed, and that failed, standard output shows."""
        self.fault_count = 0
        self.faults: list[Fault] = []

    def add_faults(self, faults: Iterable[Fault]) -> None:
        """Count faults and keep the first of them."""
        for fault in faults:
            self.fault_count += 1
            if len(self.faults) < MAX_FAULTS:
                self.faults.append(fault)

    @property
    def graded(self) -> int:
        """How many documents have a grade."""
        return sum(self.letters.values())

    def listed(self) -> list[dict[str, Any]]:
        """What documents list as faults: the kept ones, and the empty files."""
        return [fault.as_dict() for fault in (*self.faults, *self.empty)]

    def counts(self, *, stopped: bool = False) -> dict[str, Any]:
        """The counts in the form of `assay.grades/1`. A stream that failed as a whole has graded
        nothing.
        """
        graded, passed = (0, 0) if stopped else (self.graded, self.passed)
        result = None if stopped else self.check_bar()
        return {
            "documents": self.documents,
            "graded": graded,
            "passed": passed,
            "failed": graded - passed,
            "faults": self.fault_count + len(self.empty),
            "grades": {letter: 0 if stopped else self.letters.get(letter, 0) for letter in LETTERS},
            "policy": self.policy,
            "scoringSystem": ", ".join(sorted(self.scoring)) or ENGINE["scoringSystem"],
            "gradingSystem": self.grading,
            **({} if result is None else {"bar": result.shown()}),
        }

    def check_bar(self) -> BarResult | None:
        """Whether enough samples passed; None if no bar is set."""
        if self.bar is None:
            return None
        from assay.release.pass_rate import check_pass_rate  # only where a bar is set

        return check_pass_rate(sum(self.samples.values()), len(self.samples), self.bar)


def exit_code(totals: Totals) -> int:
    """PASSED if all runs pass, or as many samples as the bar requires."""
    result = totals.check_bar()
    return ExitCode.of(totals.passed == totals.graded if result is None else result.holds)


def pass_bar(options: Options) -> PassBar | None:
    """The bar on the pass rate that the options set; None if there is none."""
    least, confidence = (getattr(options, name, None) for name in ("min_pass_rate", "confidence"))
    if least is None and confidence is None:
        return None
    from assay.release.pass_rate import PassBar

    return PassBar.of(least, confidence)


def faults_error(totals: Totals, *, stopped: bool) -> InputError:
    """One error for all the faults of the stream; the first twenty are shown, all are counted."""
    files = list(dict.fromkeys(fault.file for fault in totals.faults))
    first = totals.faults[0]
    shown = totals.faults[:20]
    if len(files) > 1:
        for fault in shown:
            fault.path = f"{fault.file} {fault.path}".rstrip()
    error = InputError(
        first.code,
        first.text(),
        where=files[0] if len(files) == 1 else f"{len(files)} files",
        fix=first.fix,
        faults=shown,
    )
    error.fault_count = totals.fault_count
    profile = f"{os.path.splitext(files[0] or '')[0]}.profile.yaml"
    if first.code == "SCO-010" and len(files) == 1 and os.path.isfile(profile):
        error.advice = (
            f"There is a profile next to the runs: give --profile {shlex.quote(profile)}."
        )
        return error
    if stopped and totals.graded:
        error.advice = "Nothing was graded; --keep-going grades the rest and still exits 3."
    elif totals.graded:
        error.advice = "The rest was graded."
    return error
