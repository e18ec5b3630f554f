"""Removing one piece of the candidate's evidence never improves the decision, over lists and over
batches: a run, the verdict of a gate, a score, or the mark of an error.

A score that the baseline lacks too is the exception: the criterion may not apply to that sample.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from assay.pipeline.batch_gate import BatchSide, decide_batches
from assay.pipeline.deciding import Terms
from assay.pipeline.deciding import decide as decide_sides
from assay.release.unscored import unscored_in
from msgspec import to_builtins

from assay import grade_table
from assay.batch.duckdb_engine import DuckDBEngine
from assay.exact import Ratio
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.records.batch import BatchCounts, BatchEngineUsed, BatchFile, BatchRecord
from assay.records.decision import Decision
from assay.records.grade import Grade
from assay.release.policy import ReleaseRules
from assay.release.sides import Side, SideBuilder
from assay.release.summary import Summary
from examples import repeats
from sides import RULES, STRICT
from test_batch_gate import DECIDED, KEPT, PLAN, PROFILE, SCORING, Rows, evidence

duckdb = pytest.importorskip("duckdb")
GRADER = Grader(Shelf())
GATES = [one.id for one in SCORING.gates[:2]]
RAWS = {one.spec.id: one.spec.formula for one in SCORING.criteria}
ROLES = {"correctness": "correctness", "safety": "safety"}
VALUES = {"likert_1_5": (5, 5, 5, 4, 1, None), "zero_one": (1.0, 1.0, 0.9, 0.0, None)}


@cache
def graded(run: str, sample: str, gates: tuple[Any, ...], raws: tuple[Any, ...]) -> Grade:
    scored = [
        to_builtins(one.spec.scored(raw, n=1), builtin_types=(Decimal,))
        | ({"missing": "nobody scored it"} if raw is None else {})
        for one, (_, raw) in zip(SCORING.criteria, raws, strict=True)
    ]
    card = {
        "schema": "assay.scorecard/1",
        "run_id": run,
        "sample_id": sample,
        "hard_gates": dict(gates),
        "criteria": scored,
    }
    return GRADER.grade(Document(card, run)).grade


def a_side(name: str, rows: Rows) -> Side:
    builder, summary, unscored = SideBuilder(name), Summary(), Counter[tuple[str, str]]()
    for row in rows:
        parts = (tuple(row[part].items()) for part in ("gates", "raws"))
        grade = graded(row["run"], row["sample"], *parts)
        builder.add(grade, attempt=row["attempt"], digest=row["run"], content=row["run"])
        summary.add(grade)
        unscored.update(unscored_in(grade))
    return builder.side(summary.block())._replace(unscored=unscored)


def drawn_rows(draw: random.Random, attempts: int) -> Rows:
    """A few samples, good ones more often."""
    return [
        {
            "sample": f"s{n}",
            "attempt": attempt if attempts > 1 else None,
            "group": None,
            "tag": None,
            "raws": {
                name: values[0] if draw.random() < 0.7 else draw.choice(values)
                for name, values in ((one, VALUES[kind]) for one, kind in RAWS.items())
            },
            "gates": {one.id: True for one in SCORING.gates}
            | {gate: draw.choice((False, None, None)) for gate in GATES if draw.random() < 0.15},
        }
        for n in range(draw.choice((4, 6)))
        for attempt in range(1, attempts + 1)
    ]


def without_a_piece(rows: Rows, baseline: Rows) -> Iterator[Rows]:
    """The rows, each time without one piece of their evidence."""
    scored = {
        (row["sample"], name)
        for row in baseline
        for name, raw in row["raws"].items()
        if raw is not None
    }
    lacking = {(row["sample"], name) for row in baseline for name in RAWS} - scored
    for place, row in enumerate(rows):
        yield [*rows[:place], *rows[place + 1 :]]
        for gate in GATES:
            if row["gates"][gate] is not None:
                changed = {**row, "gates": {**row["gates"], gate: None}}
                yield [*rows[:place], changed, *rows[place + 1 :]]
        for name, raw in row["raws"].items():
            if raw is not None and (row["sample"], name) not in lacking:
                changed = {**row, "raws": {**row["raws"], name: None}}
                yield [*rows[:place], changed, *rows[place + 1 :]]


def a_case(seed: int) -> tuple[ReleaseRules, Rows, Rows]:
    """Rules that let some through, and two sides; the candidate is often like the baseline."""
    draw = random.Random(seed)
    rules = draw.choice((RULES, STRICT))._replace(
        min_pairs=2,
        margin=draw.choice((5.0, 20.0, 60.0, 90.0)),
        gate_failure_increase=draw.choice((Ratio(0, 1), Ratio(0, 1), Ratio(1, 4))),
        new_floor_failures=draw.choice((0, 1)),
        severe_increase=draw.choice((0, 1)),
        severe_gates=frozenset(GATES[: draw.choice((0, 1))]),
    )
    baseline = drawn_rows(draw, draw.choice((1, 1, 2)))
    other = {(row["sample"], row["attempt"]): row for row in drawn_rows(draw, 2)}
    share = draw.choice((0.1, 0.3, 1.0))
    candidate = [
        other.get((row["sample"], row["attempt"] or 1), row) | {"attempt": row["attempt"]}
        if draw.random() < share
        else row
        for row in baseline
    ]
    ours, theirs = (
        [{**row, "run": f"{side}-{row['sample']}-{row['attempt']}"} for row in rows]
        for side, rows in (("ours", candidate), ("theirs", baseline))
    )
    return rules, ours, theirs


def decided(candidate: Rows, baseline: Rows, rules: ReleaseRules) -> Decision:
    sides = a_side("candidate", candidate), a_side("baseline", baseline)
    return decide_sides(*sides, rules, GRADER, terms=Terms())


def improves(before: Decision, after: Decision) -> bool:
    """Whether a decision is promoted, or a rule other than that of the scores is violated no
    more: fewer scores widen the interval, which may no longer show a drop.
    """
    return (before.outcome != "promote" and after.outcome == "promote") or any(
        was.violated and now.holds
        for was, now in zip(before.rules, after.rules, strict=True)
        if was.id != "score_non_inferiority"
    )


@pytest.mark.req("W-075")
@pytest.mark.parametrize("seed", range(repeats(15, 3000)))
def test_removing_a_piece_of_the_candidates_evidence_never_improves_the_decision(seed: int) -> None:
    rules, candidate, baseline = a_case(seed)
    before = decided(candidate, baseline, rules)
    if before.outcome == "promote":
        return
    for left in filter(None, without_a_piece(candidate, baseline)):
        if {row["sample"] for row in left} & {row["sample"] for row in baseline}:
            after = decided(left, baseline, rules)
            assert not improves(before, after), (before.reason, after.reason)


def batches(folder: Path, sides: list[Rows]) -> list[BatchSide]:
    """Lists of runs as outputs of one batch: many cost much the same as one."""
    rows = [{**row, "run": f"{n}-{row['run']}"} for n, side in enumerate(sides) for row in side]
    path = evidence(folder / "in.parquet", rows)
    with duckdb.connect() as source:
        made = grade_table(str(path), profile=PROFILE, connection=source, keep=list(KEPT))
        made.write_parquet(str(folder / "graded.parquet"))
        found = []
        for n, side in enumerate(sides):
            out = folder / f"{n}.parquet"
            graded = f"SELECT * FROM '{folder / 'graded.parquet'}' WHERE starts_with(run, '{n}-')"
            source.execute(f"COPY ({graded}) TO '{out}'")
            record = BatchRecord(
                scoring_system=PLAN.scoring_system,
                grading_system=PLAN.grading_system,
                profile=PLAN.profile,
                policy=PLAN.policy,
                plan=PLAN.digest,
                digests=dict(PLAN.digests),
                engine=BatchEngineUsed(name="duckdb", version="1"),
                sql=PLAN.digest,
                keep=list(KEPT),
                inputs=[],
                outputs=[BatchFile(name=out.name, digest=f"sha256:{n:064}")],
                counts=BatchCounts(
                    rows=1, runs=len(side), passed=0, invalid=0, grades={}, rejects={}
                ),
            )
            found.append(BatchSide(str(out), record, ((str(out), f"{n:064}"),)))
    return found


@pytest.mark.req("W-075")
def test_a_batch_without_a_piece_of_evidence_is_decided_like_the_list_without_it(
    tmp_path: Path,
) -> None:
    for seed in range(repeats(2, 60)):
        rules, candidate, baseline = a_case(seed)
        left = [rows for rows in without_a_piece(candidate, baseline) if rows]
        shown = [candidate, *random.Random(seed).sample(left, min(len(left), 8))]
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        *ours, before = batches(folder, [*shown, baseline])
        with closing(DuckDBEngine()) as engine:
            for rows, side in zip(shown, ours, strict=True):
                made = decide_batches(engine, side, before, PLAN, rules, GRADER.rules, roles=ROLES)
                expected = decided(rows, baseline, rules)
                for field in DECIDED:
                    assert getattr(made, field) == getattr(expected, field), (seed, field)
