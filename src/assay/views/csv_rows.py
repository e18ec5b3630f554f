"""Grades as CSV: one row for each result, with nothing in it that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
from typing import Any

from assay.records.grade import Payload
from assay.views.exporters import Exporter, Format

_COLUMNS = (
    "run_id",
    "passed",
    "grade",
    "provisional_grade",
    "weighted_score",
    "weighted_score_adjusted",
    "pass_threshold",
    "reason",
    "hard_gate_failures",
    "floor_failures",
    "sample_id",
    "group",
    "profile",
    "policy",
    "scoringSystem",
    "gradingSystem",
)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ";".join(map(str, value))
    return str(value)


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What makes a spreadsheet run a cell as a formula; the last four are the wide forms of the first,
which some take for them.
"""


def neutral(text: str) -> str:
    """Text that a spreadsheet shows and never runs: one that begins like a formula gets an
    apostrophe in front.

    >>> neutral("=1+1"), neutral("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


class Csv(Format):
    """One row for each result."""

    def head(self) -> bytes:
        """The column names."""
        return (",".join(_COLUMNS) + "\r\n").encode()

    def piece(self, result: Payload) -> bytes:
        """One row."""
        row = []
        for column in _COLUMNS:
            value = result[column]
            text = _cell(value)
            row.append(neutral(text) if isinstance(value, str | list | tuple) else text)
        line = io.StringIO()
        csv.writer(line).writerow(row)
        return line.getvalue().encode()


EXPORTER = Exporter("csv", "CSV: one row for each result", (".csv",), Csv)
