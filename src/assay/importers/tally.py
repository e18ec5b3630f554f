"""The account of an import: what was read, what was left out and why, the metrics of the samples,
and the totals that the tool itself states.
"""

from __future__ import annotations

import re
from collections import Counter
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from assay.formulas import NOISE

if TYPE_CHECKING:
    from assay.importers.column_map import NamedScale, ScoreScale

_EXACT = Context(prec=500, traps=[Inexact])
"""Adds decimals of up to 500 digits quickly and without rounding."""
_SIGN = re.compile(r"[^A-Za-z0-9_.\-/ ]+")


class Metric:
    """One metric over the samples that have a value for it."""

    def __init__(self, label: str, scale: ScoreScale | None = None) -> None:
        self.label = label
        """Its name in the tool."""
        self.scale = scale
        """Its worst and its best value, where they were given."""
        ends = (Decimal(0), Decimal(1)) if scale is None else (scale.low, scale.high)
        self._ends = (min(ends), max(ends))
        self._noise = NOISE * (self._ends[1] - self._ends[0])
        self.rounded = 0
        """Values just outside the scale because of float rounding."""
        self.outside = 0
        """Values further outside it."""
        self.first_outside: tuple[Decimal, str] | None = None
        """The first of them, and its sample."""
        self.n = 0
        self.missing = 0
        """Samples without a value for it."""
        self._sum = Decimal(0)
        self._long = Fraction(0)
        """The sum of values with too many digits for the other sum."""
        self.low: Decimal | None = None
        self.high: Decimal | None = None
        self.judged = False
        """Whether a model gave the scores."""
        self.words = 0
        """Samples whose value is a word without a place on a scale."""

    def add(self, value: Decimal | int | None, sample_id: str = "") -> None:
        """Count the value of one sample; None if it has none."""
        if value is None:
            self.missing += 1
            return
        number = Decimal(value)
        self.n += 1
        low, high = self._ends
        if not low <= number <= high:
            if low - self._noise <= number <= high + self._noise:
                self.rounded += 1
            else:
                self.outside += 1
                self.first_outside = self.first_outside or (number, sample_id)
        try:
            self._sum = _EXACT.add(self._sum, number)
        except Inexact:
            self._long += Fraction(number)
        if self.low is None or number < self.low:
            self.low = number
        if self.high is None or number > self.high:
            self.high = number

    @property
    def mean(self) -> Fraction | None:
        """The mean over the samples that have a value."""
        return (Fraction(self._sum) + self._long) / self.n if self.n else None

    @property
    def title(self) -> str:
        """Its name, with its scale where one was given."""
        return self.label if self.scale is None else f"{self.label} {self.scale}"


class ImportTally:
    """Counts while an importer reads. `samples.sample_run` fills in samples, metrics and verdicts;
    the importer counts what it reads and leaves out, and states the tool's own totals.
    """

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        """How much of what was read."""
        self.dropped: Counter[str] = Counter()
        """What was left out, by its reason."""
        self.notes: list[str] = []
        """What a reader should know, such as substituted values and incomplete runs."""
        self.samples = 0
        self.errors = 0
        """Samples whose status is anything but success."""
        self.first_error = ""
        """Why the first of them failed, if the tool says so."""
        self.error_key = ""
        """The key of the column of a table that says so."""
        self.passed = 0
        """Samples that passed by the tool's own verdict."""
        self.verdicts = 0
        """Samples with a verdict at all."""
        self.unchecked = 0
        """Samples that the tool passed without checking anything."""
        self.metrics: dict[str, Metric] = {}
        """Metrics by the name of their criterion."""
        self.stated: dict[str, Decimal | int] = {}
        """The tool's own totals: `samples`, `passed`, or the mean of a metric by the name of its
        criterion. Counts that differ from ours are refused; means that differ are noted.
        """
        self.stated_errors = 0
        """Samples without a result by the tool's own count. A file that shows fewer is refused:
        leaving out the field that reports it turns an error into a result.
        """
        self.plain: set[str] = set()
        """Stated means that are plain means over the samples: if every sample has the metric, a
        different mean is refused, as a different count is.
        """
        self.mapping: dict[str, str] = {}
        """The mapping of a table's columns that was used."""
        self.higher_is_better: set[str] = set()
        """Labels of metrics where the tool states that higher is better."""
        self.apart = False
        """Whether two result files of one version on one dataset are two evaluations."""
        self.results: dict[tuple[NamedTuple, NamedTuple], str] = {}
        """The result file that each version and dataset comes from."""
        self.scales: dict[str, NamedScale] = {}
        """Given scales, by the metric's label or the name of its criterion."""
        self.doubts: dict[str, str] = {}
        """Labels of metrics that can't be graded as written, and why."""
        self._names: dict[str, str] = {}

    def read_text(self) -> str:
        """What was read, in words.

        >>> tally = ImportTally()
        >>> tally.read.update(files=1, test_cases=2000)
        >>> tally.read_text()
        '1 file, 2,000 test cases'
        """
        words = {what: what.replace("_", " ") for what in self.read}
        return ", ".join(
            f"{count:,} {words[what].removesuffix('s') if count == 1 else words[what]}"
            for what, count in self.read.items()
        )

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def state(self, total: str, value: Decimal | int, *, is_plain: bool = False) -> None:
        """Add to one of the tool's own totals: several files are counted together."""
        if is_plain:
            self.plain.add(total)
        self.stated[total] = self.stated.get(total, 0) + value

    def in_words(self, label: str, left_out: str = "") -> None:
        """Count a value that can't be graded because it is a word, and what it is left out as. The
        metric stays in the account, because a comparison must not lose it.
        """
        self.metrics[self.metric(label)].words += 1
        if left_out:
            self.dropped[left_out] += 1

    def scale_of(self, label: str) -> NamedScale | None:
        """The scale given for a metric of the tool."""
        return self.scales.get(label) or self.scales.get(_name(label))

    def metric(self, label: str) -> str:
        """The name of the criterion for a metric of the tool; one label always has one name.

        >>> tally = ImportTally()
        >>> tally.metric("exact_match,none"), tally.metric("Täuschung"), tally.metric("a b")
        ('exact_match_none', 'T_uschung', 'a b')
        >>> tally.metric("exact_match;none"), tally.metric("exact_match,none")
        ('exact_match_none-2', 'exact_match_none')
        """
        name = self._names.get(label)
        if name is None:
            base, given = _name(label), self.scale_of(label)
            if given is not None:  # the same stars of 5 and of 10 are two
                base = f"{_name(given.name)} {given.scale}"
            name, count = base, 1
            while name in self.metrics:
                count += 1
                name = f"{base}-{count}"
            self._names[label] = name
            self.metrics[name] = Metric(label, None if given is None else given.scale)
        return name


def _name(label: str) -> str:
    return _SIGN.sub("_", label)[:150].strip(" _.-/") or "metric"
