"""The rows of samples: texts, repeats folded, and what a stored evaluation gives."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from msgspec import structs

from assay.records.samples import (
    SampleEvidence,
    SampleRun,
    fold_samples,
    sample_evidence,
    sample_grade,
)


def result(run_id: str, score: Any, *, sample: str = "s-1", passed: bool = False) -> dict[str, Any]:
    """A result as in `assay.grades/1`, with what a row reads of it."""
    return {
        "run_id": run_id,
        "sample_id": sample,
        "passed": passed,
        "grade": "A" if passed else "F",
        "weighted_score": score,
        "hard_gate_failures": [] if passed else ["clean"],
        "hard_gates": {"clean": {"status": "pass" if passed else "fail", "reason": "found dirt"}},
        "criteria": [{"name": "speed", "norm": Decimal("0.5"), "floor_failed": False}],
        "extra": {"ignored": True},
    }


def test_repeats_are_one_row_and_the_worst_stands_for_it() -> None:
    good = SampleRun("r-1", grade=sample_grade(result("r-1", Decimal("90"), passed=True)))
    bad = SampleRun("r-2", grade=sample_grade(result("r-2", Decimal("10.5"))))
    other = SampleRun("r-3")
    rows = fold_samples(
        [
            (good, SampleEvidence("r-1", "success", {"question": "When?"}, {"answer": "nine"})),
            (bad, SampleEvidence("r-2", "error", {"question": "When?"}, None, {"answer": "ten"})),
            (other, None),
        ]
    )
    first, second = rows
    assert (first.sample, first.question, first.expected) == ("s-1", "When?", "ten")
    assert first.answer == "no answer; status error"
    assert first.score == 50.25
    assert first.flaky
    assert not first.passed
    assert (first.letter, first.gates, first.causes) == (
        "F",
        ["clean"],
        ["gate clean does not pass"],
    )
    assert first.norm("speed") == 0.5
    assert first.norm("unknown") is None
    assert (second.sample, second.score, second.passed, second.why) == (
        "r-3",
        0,
        False,
        "not graded",
    )


def test_a_row_follows_its_runs() -> None:
    good = SampleRun("r-1", grade=sample_grade(result("r-1", 90, passed=True)))
    bad = SampleRun("r-2", grade=sample_grade(result("r-2", 10)))
    row = fold_samples([(good, None)])[0]
    assert (row.score, row.passed, row.flaky) == (90, True, False)
    row = structs.replace(row, runs=(bad, good))
    assert (row.score, row.passed, row.flaky) == (50, False, True)
    row = structs.replace(row, runs=(bad,), score=99.0, passed=True)
    assert (row.score, row.passed, row.flaky) == (10, False, False)


def test_what_ended_a_run_is_read_from_its_field_and_from_no_sentence() -> None:
    gate = {"status": "fail", "reason": "the run ended with status 'error': 500"}
    made = {**result("r-1", 0), "hard_gates": {"clean": gate}, "explanation": ["long"]}
    assert sample_grade(made).cause == ""
    made["cause"] = "error: 429"
    encode = msgspec.json.Encoder(decimal_format="number").encode
    for one in (made, encode(made)):
        grade = sample_grade(one)
        assert (grade.cause, grade.explanation) == ("error: 429", ())


def test_a_row_reads_stored_bodies() -> None:
    grade = sample_grade(b'{"run_id":"r","passed":true,"weighted_score":99.5,"criteria":[]}')
    assert (grade.passed, grade.weighted_score) == (True, 99.5)
    found = sample_evidence(b'{"run_id":"r","inputs":{"a":1,"b":2},"outputs":"text","steps":[]}')
    row = fold_samples([(SampleRun("r", grade=grade), found)])[0]
    assert (row.question, row.answer, row.expected) == ("a: 1 · b: 2", "text", "")
