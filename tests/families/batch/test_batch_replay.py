"""The reference of a batch: the rows of one run are the scorecard that `assay grade` would grade."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import batches
from assay.errors import InputError
from assay.families.batch.engine import SourceColumn
from assay.families.batch.layout import find_layout
from assay.families.batch.plan import make_batch_plan
from assay.families.batch.replay import (
    ReplayedRun,
    RowScore,
    RowVerdict,
    RunRows,
    read_rows,
    replay_run,
)
from assay.files.json_files import Document
from assay.grading.plan import GradingPlans
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.records.reading import read_scorecard
from assay.scoring.profile import make_plan
from assay.services.grading import Grader
from examples import share

SHELF = Shelf()
PLAN = make_plan(SHELF.profile("code-repair-measured@1"), why="asked for")
RULES = make_rules(SHELF.policy("workflow"))
GATES = [RowVerdict(planned.id, True) for planned in PLAN.gates]
SPECS = {planned.spec.id: planned.spec for planned in PLAN.criteria}


def best(formula: str) -> Any:
    """The raw score of a run without a fault."""
    return {
        "pairwise": {"wins": 3, "losses": 0, "ties": 0},
        "ratio": {"passed": 7, "total": 7},
        "likert_1_5": 5,
        "likert_neg2_2": 2,
        "likert_0_5": 5,
        "lower_is_better": 0,
    }.get(formula, 1)


SCORES = [RowScore(name, best(spec.formula)) for name, spec in SPECS.items()]


def replayed(run: Any, scores: list[RowScore], verdicts: list[RowVerdict]) -> ReplayedRun:
    return replay_run(run, RunRows(scores, verdicts, len(scores) + len(verdicts)), PLAN, RULES)


def test_a_run_with_all_its_evidence_is_an_a() -> None:
    made = replayed("r-1", SCORES, GATES)
    assert (made.row["grade"], made.row["passed"], made.row["score"]) == ("A", True, Decimal(100))
    assert made.rejects == ()
    assert made.row["failed_gates"] == made.row["failed_floors"] == made.row["missing"] == []


@settings(max_examples=share(30))
@given(batches.graded(), st.integers(0, 2**32))
def test_a_row_has_the_letter_and_cents_of_the_scorecard_that_it_is(
    by: batches.Graded, seed: int
) -> None:
    """Each run is also written as `assay.scorecard/1`, read and graded the way a file is."""
    grader = _given(by)
    for run in batches.runs(by, seed, 60):
        specs = {planned.spec.id: planned.spec for planned in by.plan.criteria}
        tree = {
            "schema": "assay.scorecard/1",
            "run_id": run.run,
            "hard_gates": {one.gate: one.verdict for one in run.verdicts},
            "criteria": [
                {
                    "name": one.criterion,
                    "raw_score": one.raw,
                    "formula_id": specs[one.criterion].formula,
                    "weight": specs[one.criterion].weight,
                    "n": 1 if one.n is None else one.n,
                    **({"missing": "no score"} if one.raw is None else {}),
                }
                for one in run.scores
                if one.criterion in specs
            ],
        }
        twice = len({one.gate for one in run.verdicts}) != len(run.verdicts)
        row, rejects = replay_run(run.run, RunRows(run.scores, run.verdicts), by.plan, by.rules)
        try:
            made = grader.grade_card(grader.required(read_scorecard(Document(tree, "card.json"))))
        except InputError:
            assert row["reason"] == "invalid_evidence"
            assert not row["passed"]
            continue
        if row["reason"] == "invalid_evidence":  # JSON can't give a gate twice, and reads more
            assert twice or {one.code for one in rejects} & {"BAT-010", "BAT-011"}
            continue
        assert row["grade"] == made.grade
        assert row["provisional_grade"] == made.provisional_grade
        assert row["passed"] is made.passed
        assert row["reason"] == made.reason
        assert row["score"] == Decimal(repr(made.weighted_score))
        assert row["adjusted_score"] == Decimal(repr(made.weighted_score_adjusted))
        assert set(row["failed_gates"]) == set(made.hard_gate_failures)
        assert set(row["failed_floors"]) == set(made.floor_failures)
        for one in made.criteria:
            assert row[f"norm_{one.name}"] == Decimal(repr(one.norm))
            assert row[f"adjusted_{one.name}"] == Decimal(repr(one.adjusted_norm))
            assert row[f"contribution_{one.name}"] == Decimal(repr(one.contribution))
        assert row["scoring_system"] == made.scoring_system
        assert row["grading_system"] == made.grading_system


def _given(by: batches.Graded) -> Grader:
    """A grader that holds every card to a plan that isn't on the shelf."""
    grader = Grader(SHELF)
    grader._of_cards, grader._required = GradingPlans(by.rules), by.plan
    grader._by_profile[by.plan.profile.id] = by.plan
    return grader


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (math.nan, "SCO-003"),
        (math.inf, "SCO-003"),
        (1e308, "SCO-003"),
        (5e-324, "SCO-003"),
        (True, "SCO-003"),
        ("1", "SCO-003"),
        (Decimal("0.1234567890123456"), "BAT-010"),
        (2**53 + 1, "BAT-010"),
    ],
)
def test_a_number_that_is_none_or_too_long_fails_the_run(raw: Any, code: str) -> None:
    name = next(name for name, spec in SPECS.items() if spec.formula == "lower_is_better")
    scores = [one._replace(raw=raw) if one.criterion == name else one for one in SCORES]
    row, rejects = replayed("r-1", scores, GATES)
    assert [one.code for one in rejects] == [code]
    assert (row["passed"], row["grade"], row["score"]) == (False, None, None)
    assert row["reason"] == "invalid_evidence"


def test_duplicates_and_rows_without_a_run_are_all_rejected() -> None:
    row, rejects = replayed("r-1", [*SCORES, SCORES[0]], [*GATES, GATES[0]])
    assert [one.code for one in rejects] == ["GRD-102"] * 4
    assert not row["passed"]
    for run in (None, ""):
        row, rejects = replayed(run, SCORES, GATES)
        assert {one.code for one in rejects} == {"BAT-013"}
        assert not row["passed"]


def test_an_unknown_criterion_is_rejected_and_the_run_is_still_graded() -> None:
    row, rejects = replayed("r-1", [*SCORES, RowScore("charm", 1)], GATES)
    assert [(one.subject, one.code) for one in rejects] == [("charm", "BAT-012")]
    assert (row["grade"], row["faults"]) == ("A", 1)


def test_a_look_alike_of_a_gate_opens_nothing() -> None:
    for name, reason in (
        ("No_Sandbox_Violation", "hard_gate_failure"),
        ("no_sandbox_violation ", "invalid_evidence"),
        ("n\u043e_sandbox_violation", "invalid_evidence"),
    ):
        verdicts = [
            one._replace(gate=name) if one.gate == "no_sandbox_violation" else one for one in GATES
        ]
        row, _ = replayed("r-1", SCORES, verdicts)
        assert (row["passed"], row["reason"]) == (False, reason)


def test_long_and_wide_rows_say_the_same() -> None:
    long: list[dict[str, Any]] = [
        *({"criterion": one.criterion, "n": 4, **_parts(one, "raw", "")} for one in SCORES),
        *({"gate": one.gate, "verdict": one.verdict} for one in GATES),
    ]
    wide: dict[str, Any] = {one.gate: one.verdict for one in GATES}
    for one in SCORES:
        wide |= {f"{one.criterion}_n": 4, **_parts(one, one.criterion, f"{one.criterion}_")}
    first, second = (_read(rows) for rows in (long, [wide]))
    assert first[:2] == second[:2]
    for rows in (first, second):
        assert replay_run("r", rows, PLAN, RULES).row["grade"] == "A"


def _read(rows: list[dict[str, Any]]) -> RunRows:
    """The rows in a source that has the columns of all of them."""
    kinds = {bool: "BOOLEAN", str: "VARCHAR", int: "BIGINT"}
    types = {name: kinds[type(value)] for row in rows for name, value in row.items()}
    columns = [
        SourceColumn("run", "VARCHAR"),
        *(SourceColumn(name, kind) for name, kind in types.items()),
    ]
    layout = find_layout(make_batch_plan(PLAN, RULES), columns)
    whole = [{"run": "r", **dict.fromkeys(types), **row} for row in rows]
    return read_rows(whole, layout, PLAN)


def _parts(one: RowScore, column: str, prefix: str) -> dict[str, Any]:
    if isinstance(one.raw, dict):
        return {prefix + key: count for key, count in one.raw.items()}
    return {column: one.raw}


def test_forgetting_a_row_never_helps() -> None:
    whole = replayed("r", SCORES, GATES).row
    for index in range(len(SCORES)):
        row = replayed("r", SCORES[:index] + SCORES[index + 1 :], GATES).row
        assert row["score"] <= whole["score"]
        assert row["missing"] == [SCORES[index].criterion]
    for index in range(len(GATES)):
        row = replayed("r", SCORES, GATES[:index] + GATES[index + 1 :]).row
        assert not row["passed"]
