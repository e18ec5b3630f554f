"""A sample of another tool as a run: what it lacks is missing, what its format lacks is not."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from assay import grade, score
from assay.errors import InputError
from assay.files.json_files import Document
from assay.importers.importer import NameVersion, Wanted
from assay.importers.samples import UNVERSIONED, ResultOrigin, gate_name, sample_run
from assay.importers.tally import ImportTally
from assay.records.reading import read_run

ORIGIN = ResultOrigin(
    "promptfoo",
    NameVersion("bot", "2"),
    NameVersion("faq", UNVERSIONED),
    "eval-1",
    verdicts=True,
)


def made(tally: ImportTally, origin: ResultOrigin = ORIGIN, **parts) -> dict:
    run = sample_run(origin, Wanted(), tally, **{"sample_id": "s1", **parts})
    read_run(Document(run, "x"))
    return run


def test_samples_metrics_and_verdicts_are_counted() -> None:
    tally = ImportTally()
    made(tally, scores={"f1": Decimal("0.5")}, verdict=True, outputs={"answer": "x"})
    made(tally, scores={"f1": None}, verdict=None, status="error", reason="timed out")
    run = made(tally, scores={"f1": True}, verdict=False, attempt=2)
    assert run["run_id"] == "eval-1/s1/2"
    metric = tally.metrics["f1"]
    assert (tally.samples, tally.errors, tally.verdicts, tally.passed) == (3, 1, 2, 1)
    assert (metric.n, metric.missing, metric.mean, metric.outside) == (2, 1, Fraction(3, 4), 0)


def test_a_sample_without_answer_or_verdict_fails_the_gates_that_every_run_needs() -> None:
    whole = made(ImportTally(), verdict=True, outputs={"answer": "x"}, inputs={"q": "?"})
    names = ["required_outputs_present", gate_name("promptfoo"), "overall_status_success"]
    lacking = [
        made(ImportTally(), verdict=True, outputs={"answer": None}, inputs={"q": "?"}),
        made(ImportTally(), verdict=None, outputs={"answer": "x"}, inputs={"q": "?"}),
        made(
            ImportTally(), verdict=True, outputs={"answer": "x"}, inputs={"q": "?"}, status="error"
        ),
    ]
    good = grade(score(whole, profile="dag-review")).hard_gate_failures
    assert not set(names) & set(good)
    for name, run in zip(names, lacking, strict=True):
        assert name in grade(score(run, profile="dag-review")).hard_gate_failures


@pytest.mark.parametrize("value", ["high", float("nan"), float("inf"), Decimal("NaN")])
def test_what_is_no_number_is_no_score(value: Any) -> None:
    with pytest.raises(InputError, match="a score is a number"):
        made(ImportTally(), scores={"f1": value})


def test_a_float_is_the_decimal_that_python_prints() -> None:
    """Readers of files give decimals; a plugin may well call `float`."""
    run = made(ImportTally(), scores={"f1": 0.1})
    assert run["scores"]["f1"]["raw"] == Decimal("0.1")


@pytest.mark.parametrize("value", [Decimal("1e999999999"), Decimal("1e-999999999"), 10**400])
def test_a_score_beyond_all_measure_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="too large or too small"):
        made(ImportTally(), scores={"f1": value})
