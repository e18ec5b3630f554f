"""The samples of a stored evaluation as a query shows them, with what they are compared with.

Texts are read only of the samples that are shown, unless a query searches or sorts by them. The
baseline of a large evaluation is read only if a query needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from assay.archive.compared import ComparedWith, compared_with
from assay.archive.evaluations import StoredEvaluation
from assay.archive.samples import run_rows, sample_rows
from assay.records.samples import Baseline, SampleQuery, SampleRow, missing_samples, select_samples
from assay.store.ledger import Ledger

ALWAYS_COMPARED = 2_000
"""Up to this many runs, differences from the baseline are counted on every page."""


class SampleView(NamedTuple):
    """Every sample of an evaluation, and those that a query shows in its order."""

    rows: Sequence[SampleRow]
    chosen: Sequence[SampleRow]
    """They have texts only if the query needs the texts of all samples."""
    compared: ComparedWith | None
    baseline: Baseline | None
    """None if nothing is compared; `incomparable` has the reason if `compared` has runs."""
    incomparable: str = ""
    missing: Sequence[SampleRow] = ()
    """The baseline's rows of samples that only it has. If a large evaluation has at least as many
    runs as the baseline, they are not looked for unless a query needs the baseline.
    """


def view_samples(
    ledger: Ledger, stored: StoredEvaluation, query: SampleQuery, *, project: str
) -> SampleView:
    """The samples of an evaluation as a query shows them."""
    rows = sample_rows(ledger, stored, project=project, texts=query.needs_texts)
    compared = compared_with(ledger, stored, project=project)
    baseline: Baseline | None = None
    incomparable = ""
    missing: Sequence[SampleRow] = ()
    n = len(stored.evaluation.runs)
    if compared is not None and (
        n <= ALWAYS_COMPARED or query.needs_baseline or n < len(compared.runs)
    ):
        before = run_rows(ledger, compared.runs, project=project)
        missing = missing_samples(rows, before)
        ours, theirs = policies_of(rows), policies_of(before)
        if ours == theirs:
            baseline = {row.sample: row for row in before}
        else:
            incomparable = f"it was graded by {_named(theirs)}, this evaluation by {_named(ours)}"
    chosen = select_samples(rows, query, baseline)
    return SampleView(rows, chosen, compared, baseline, incomparable, missing)


def policies_of(rows: Iterable[SampleRow]) -> list[str]:
    """The policies that graded the rows: grades of two are not compared."""
    return sorted({run.grade.policy or "" for row in rows for run in row.runs if run.grade})


def _named(policies: Sequence[str]) -> str:
    return " and ".join(policies) or "no policy"
