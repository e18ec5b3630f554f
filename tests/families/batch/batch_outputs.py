"""Outputs of `assay batch` for tests, and the scorecards of the same runs.

All sides are graded in one query: a batch costs much the same for any number of runs.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import json as msgjson
from msgspec import to_builtins

from assay import grade_table
from assay.families.batch.batching import plan_batch, scoring_plan
from assay.families.batch.records import BatchCounts, BatchEngineUsed, BatchFile, BatchRecord
from assay.families.batch.summary import MAX_SLICES
from assay.files.inputs import file_digest
from assay.files.own_files import is_batch_output
from assay.library.shelf import Shelf
from examples import CAMPAIGN
from once import once

duckdb = pytest.importorskip("duckdb")
PROFILE = str(Path(__file__).parent / "fixtures" / "two-criteria@1.yaml")
PLAN = plan_batch(Shelf(), profile=PROFILE, policy="workflow")
SCORING = scoring_plan(Shelf(), profile=PROFILE)
SHARES = {"likert_1_5": 1, "zero_one": 5}
KEPT = ("sample", "attempt", "group", "tag")


Rows = list[dict[str, Any]]


def runs(seed: int, *, drop: float, groups: int = 0, tags: int = 0) -> list[dict[str, Any]]:
    """Runs of fifty samples, with what each criterion and gate came to; some samples have no
    tag, and some no group.
    """
    found = []
    for n in range(50):
        drawn = random.Random(f"{n}")
        own = random.Random(f"{seed} {n}")
        raws = {
            one.spec.id: (drawn.choice([4, 5, 5]) - (own.random() < drop))
            / SHARES[one.spec.formula]
            for one in SCORING.criteria
        }
        gates = {one.id: own.random() > drop / 20 for one in SCORING.gates}
        group = f"g{n % groups}" if groups and not (tags and n > 46) else None
        found.append(
            {
                "run": f"{seed}-{n}",
                "sample": f"s{n:02}",
                "group": group,
                "tag": f"t{n % tags}" if tags and n % 7 else None,
                "raws": raws,
                "gates": gates,
            }
        )
    return found


def cards(path: Path, side: str | Rows) -> Path:
    lines = []
    for row in SIDES[side] if isinstance(side, str) else side:
        card = {
            "schema": "assay.scorecard/1",
            "run_id": row["run"],
            "sample_id": row["sample"],
            "hard_gates": row["gates"],
            "criteria": [
                to_builtins(one.spec.scored(raw := row["raws"][one.spec.id], n=1))
                | ({"missing": "nobody scored it"} if raw is None else {})
                for one in SCORING.criteria
            ],
        }
        if row["group"] is not None:
            card["group"] = row["group"]
        if row["tag"] is not None:
            card["tags"] = [row["tag"]]
        if row.get("attempt") is not None:
            card["attempt"] = row["attempt"]
        lines.append(json.dumps(card, default=float))
    path.write_text("\n".join(lines) + "\n")
    return path


def evidence(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The same runs as rows: scores and the profile's gates wide, other gates long."""
    known = {one.id for one in SCORING.gates}
    lines: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for row in rows:
        gates = {gate: row["gates"].get(gate) for gate in known}
        lines.append({name: row.get(name) for name in ("run", *KEPT)} | row["raws"] | gates)
        others += [
            {"run": row["run"], "gate": gate, "verdict": row["gates"][gate]}
            for gate in row["gates"].keys() - known
        ]
    tables = [pa.Table.from_pylist(found) for found in (lines, others) if found]
    pq.write_table(pa.concat_tables(tables, promote_options="default"), path)
    return path


def named(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with run ids that no other side has."""
    return [{**row, "run": f"{name}-{n}"} for n, row in enumerate(rows)]


def with_raw(row: dict[str, Any], raw: float | None, at: int = 0) -> dict[str, Any]:
    return {**row, "raws": {**row["raws"], SCORING.criteria[at].spec.id: raw}}


def with_gates(row: dict[str, Any], places: str, verdict: bool | None = False) -> dict[str, Any]:
    """The run with this verdict on some of the profile's gates."""
    return {
        **row,
        "gates": row["gates"] | {SCORING.gates[int(place)].id: verdict for place in places},
    }


GOOD = runs(1, drop=0.0)
POLITE = [{**row, "gates": {**row["gates"], "polite": True}} for row in GOOD]
TAGGED = [{**row, "attempt": 1} for row in runs(1, drop=0.0, tags=2)]


def noisy(seed: int) -> tuple[Rows, Rows]:
    """Both sides of a random comparison: samples that fail now and then, repeats, groups, gates
    beyond the profile's, and gaps of every kind. One in eight is calm.
    """
    draw = random.Random(f"noisy {seed}")
    if seed % 8 == 0:
        return runs(seed, drop=0.0, tags=2), runs(seed, drop=0.0, tags=2)
    groups, gap = draw.choice((0, 0, 3, 12)), draw.choice((0.0, 0.0, 0.03))
    extra = draw.random() < 0.5
    flaky = [draw.choice((0.0, 0.0, 0.0, 0.3, 1.0)) for _ in range(50)]
    sides: tuple[Rows, Rows] = ([], [])
    for side, worse in zip(sides, (draw.choice((0.0, 0.1, 0.6)), 0.0), strict=True):
        repeats = draw.choice((1, 1, 2, 3))
        for n, share in enumerate(flaky):
            for attempt in range(1, repeats + 1):
                if draw.random() < gap:
                    continue
                fails = draw.random() < max(share, worse)
                raws = {
                    one.spec.id: None
                    if draw.random() < gap
                    else draw.choice((4, 5) if not fails else (1, 3, 5)) / SHARES[one.spec.formula]
                    for one in SCORING.criteria
                }
                names = [one.id for one in SCORING.gates] + ["polite"] * (
                    extra and (worse == 0 or draw.random() > gap)
                )
                gates = {
                    name: None if draw.random() < gap / 2 else not (fails and draw.random() < 0.2)
                    for name in names
                    if draw.random() >= gap / 2
                }
                side.append(
                    {
                        "sample": f"s{n:02}",
                        "attempt": attempt if repeats > 1 else None,
                        "group": f"g{n % groups}" if groups and n < 46 else None,
                        "tag": f"t{n % 2}" if n % 7 else None,
                        "raws": raws,
                        "gates": gates,
                    }
                )
    return sides


NOISY = 60 if CAMPAIGN else 16
SIDES = {
    name: named(name, rows)
    for name, rows in {
        "good": GOOD,
        "also good": runs(2, drop=0.0),
        "bad": runs(2, drop=0.9),
        "twice": [*GOOD, GOOD[0]],
        "half": [with_raw(row, None) if n % 2 else row for n, row in enumerate(GOOD)],
        "invalid": [with_raw(GOOD[0], 99), *GOOD[1:]],
        "grouped": runs(1, drop=0.0, groups=8),
        "regrouped": [*TAGGED, {**TAGGED[0], "attempt": 2, "group": "g1"}],
        "polite": POLITE,
        "their outputs": [
            {**row, "gates": row["gates"] | {"polite": n != 3}}
            for n, row in enumerate(runs(1, drop=0.1))
        ],
        "our outputs": [
            {**row, "gates": row["gates"] | ({"polite": n != 3} if n != 7 else {})}
            for n, row in enumerate(runs(2, drop=0.05))
        ],
        "flaky": [*TAGGED[:2], with_gates({**TAGGED[0], "attempt": 2}, "0")],
        "broken": [with_gates(row, "1") if n == 5 else row for n, row in enumerate(GOOD)],
        **{
            f"fresh {name}": [
                {**(with_gates(GOOD[5], "1") if fails else GOOD[5]), "attempt": attempt}
                for attempt in range(1, 10)
            ]
            for name, fails in (("broken", True), ("good", False), ("fixed", False))
        },
        "summed": [
            with_gates({**row, "gates": {**row["gates"], "own": n % 9 > 0}}, "2" * (n == 4), None)
            for n, row in enumerate(runs(1, drop=0.3))
        ],
        "many groups": [
            {**row, "sample": f"{n}", "group": f"{n}"}
            for n, row in enumerate(GOOD * (MAX_SLICES // len(GOOD) + 1))
        ],
        "strangers": [{**row, "sample": f"x{row['sample']}"} for row in GOOD],
        **{
            f"{side} r{seed}": rows
            for seed in range(NOISY)
            for side, rows in zip(("ours", "theirs"), noisy(seed), strict=True)
        },
    }.items()
}


def grade_all(folder: Path) -> None:
    """The grades of all sides as one table: a batch costs much the same for any number of runs."""
    rows = [row for side in SIDES.values() for row in side]
    path = evidence(folder / "in.parquet", rows)
    with duckdb.connect() as source:
        made = grade_table(str(path), profile=PROFILE, connection=source, keep=list(KEPT))
        made.write_parquet(str(folder / "graded.parquet"))


def batch(
    path: Path, side: str, *, columns_sql: dict[str, str] | None = None, **changes: Any
) -> Path:
    """The runs of a side as the output of a batch, with its record. The columns in SQL are kept
    too, in place of those of the rows.
    """
    rows, graded = SIDES[side], once("batches-to-decide-on", grade_all) / "graded.parquet"
    made = columns_sql or {}
    keep = [name for name in KEPT if name not in made and any(row.get(name) for row in rows)]
    lacks = ", ".join(f'"{name}"' for name in KEPT if name not in keep)
    more = "".join(f', {sql} AS "{name}"' for name, sql in made.items())
    duckdb.execute(
        f"COPY (SELECT *{f' EXCLUDE ({lacks})' * bool(lacks)}{more} FROM '{graded}'"
        f" WHERE regexp_full_match(run, '{side}-[0-9]+')) TO '{path}'"
    )
    keep += made
    record = BatchRecord(
        scoring_system=PLAN.scoring_system,
        grading_system=PLAN.grading_system,
        **{
            "profile": PLAN.profile,
            "policy": PLAN.policy,
            "plan": PLAN.digest,
            "digests": dict(PLAN.digests),
            "engine": BatchEngineUsed(name="duckdb", version="1"),
            "sql": PLAN.digest,
            "keep": keep,
            "inputs": [],
            "outputs": [BatchFile(name=path.name, digest=f"sha256:{file_digest(str(path))}")],
            "counts": BatchCounts(
                rows=1, runs=len(rows), passed=0, invalid=0, grades={}, rejects={}
            ),
            **changes,
        },
    )
    path.with_suffix(".batch.json").write_bytes(msgjson.encode(record))
    assert is_batch_output(str(path))
    return path


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> None:
    """A profile of a file isn't on the shelf, where a decision looks for that of a batch."""
    (tmp_path / "own.yaml").write_bytes(Path(PROFILE).read_bytes())
    (tmp_path / "assay.yaml").write_text("profile: own.yaml\n")
