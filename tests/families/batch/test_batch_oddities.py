"""Odd JSON values: `assay grade` and `assay batch` give the same letter for each of them, or both
refuse it. `campaign_spark` compares Spark with DuckDB on them.
"""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from assay.families.batch.batching import plan_batch
from assay.library.shelf import Shelf

OWN = """
profile: own
version: 1
title: Own
family: own
gates: [{id: own_gate, verdict: true}]
criteria:
  - {id: right, label: Right, weight: 1, layer: 1, formula: binary, role: correctness}
  - {id: speed, label: Speed, weight: 1, layer: 3, formula: lower_is_better,
     params: {slo_good: 2, slo_bad: 10}}
  - {id: tests, label: Tests, weight: 1, layer: 1, formula: ratio}
"""
USUAL = {"right": "1", "n": "1", "speed": "2", "passed": "3", "total": "4", "gate": "true"}
TYPES = ("[1]", "{}", "true", "false", '"1"', '""', '"one"')
ODD = {
    "n": (*TYPES, "1.0", "1e3", "10e-1", "1.5", "0", "0.0", "-0", "-1", "1e400", "1e999999999"),
    "right": (
        *TYPES,
        "null",
        "1.0",
        "0.1e1",
        "1E0",
        "-0.0",
        "2",
        "1e400",
        "1e-310",
        "1e-400",
        "1.00000000000000000",
    ),
    "speed": (
        *TYPES,
        "null",
        "3.14159265358979",
        "3.141592653589793",
        "12345678901234567890",
        "5e-1",
        "1e20",
        "-1e300",
        "1e301",
        "1e-400",
        "1e-310",
        "8.41E21",
        "0.0000000000000000005e19",
        "4.50000000000000000000",
        "4500000000000000000000e-21",
        '"NaN"',
    ),
    "passed": (*TYPES, "null", "3.0", "3e0", "3.5", "-1", "5", "0", "1e10"),
    "total": (*TYPES, "null", "4.0", "0", "-4", "2000000000"),
    "gate": (*TYPES, "null", "1", "0", "1.0", '"true"', '"T"', '{"passed": true}'),
    "run": (
        '"é"',
        '"a\\nb"',
        '" "',
        '"😀"',
        '""',
        "null",
        "true",
        "1.0",
        "1e0",
        '["a"]',
        '{"a": 1}',
        f'"{"x" * 500}"',
        f'"{"y" * 501}"',
        '"twice"',
        '"twice"',
    ),
}
TOO_PRECISE = {
    "speed": ("2.30000000000000001", "2.2999999999999999999", "1.00000000000000000000000001"),
    "total": ("2000000001",),
    "n": ("99999999999999999999",),
}
"""What a batch refuses by name, because it can't compute it exactly; `assay grade` can."""


def given(values: dict[str, tuple[str, ...]]) -> list[dict[str, str]]:
    odd = [{column: value} for column, texts in values.items() for value in texts]
    return [{"run": f'"r-{index}"', **USUAL, **one} for index, one in enumerate(odd)]


def card(one: dict[str, str], gates: list[str]) -> str:
    """The scorecard of a run."""

    def criterion(name: str, formula: str, raw: str, more: str) -> str:
        missing = ', "missing": "nobody scored it"' * (raw == "null")
        return (
            f'{{"name": "{name}", "raw_score": {raw}, "formula_id": "{formula}", "weight": 1,'
            f" {more}{missing}}}"
        )

    verdicts = "".join(f', "{gate}": true' for gate in gates)
    counts = f'{{"passed": {one["passed"]}, "total": {one["total"]}}}'
    criteria = (
        criterion("right", "binary", one["right"], f'"role": "correctness", "n": {one["n"]}'),
        criterion(
            "speed", "lower_is_better", one["speed"], '"params": {"slo_good":2,"slo_bad":10}'
        ),
        criterion("tests", "ratio", counts, '"layer": 1'),
    )
    return (
        f'{{"schema": "assay.scorecard/1", "run_id": {one["run"]}, "hard_gates": {{"own_gate":'
        f' {one["gate"]}{verdicts}}}, "criteria": [{", ".join(criteria)}]}}\n'
    )


def row(one: dict[str, str], gates: list[str]) -> str:
    """The row of a run."""
    verdicts = "".join(f', "{gate}": true' for gate in gates)
    return (
        f'{{"run": {one["run"]}, "right": {one["right"]}, "right_n": {one["n"]}, "speed":'
        f' {one["speed"]}, "tests_passed": {one["passed"]}, "tests_total": {one["total"]},'
        f' "own_gate": {one["gate"]}{verdicts}}}\n'
    )


@pytest.fixture
def gates(tmp_path: Path) -> list[str]:
    """The gates that every profile has, and the profile in the folder of the test."""
    (tmp_path / "own.yaml").write_text(OWN)
    plan = plan_batch(Shelf(), profile=str(tmp_path / "own.yaml"))
    return [gate for gate in plan.gates if gate != "own_gate"]


def made(path: Path, name: str = "g") -> dict[str, Any]:
    """The letters and scores of an output."""
    columns = "run, grade, passed, CAST(score AS DOUBLE), CAST(adjusted_score AS DOUBLE)"
    found = duckdb.sql(f"SELECT {columns} FROM '{path}/{name}.parquet' WHERE grade IS NOT NULL")
    return {run: rest for run, *rest in found.fetchall()}


@pytest.mark.req("W-033")
def test_a_batch_gives_the_letters_of_scorecards_or_both_refuse(
    assay: Any, gates: list[str], tmp_path: Path
) -> None:
    all_of_them = given(ODD)
    cards = [card(one, gates) for one in all_of_them]
    (tmp_path / "all.jsonl").write_text("".join(cards))
    graded = assay("grade", "all.jsonl", "--json")
    assert graded.code == 3
    refused = {fault["line"] - 1 for fault in graded.json()["faults"]}
    refused.add(next(i for i, one in enumerate(all_of_them) if one["run"] == '"twice"'))
    sound = [text for index, text in enumerate(cards) if index not in refused]
    (tmp_path / "sound.jsonl").write_text("".join(sound))
    letters = {
        one["run_id"]: [
            one[name] for name in ("grade", "passed", "weighted_score", "weighted_score_adjusted")
        ]
        for one in assay("grade", "sound.jsonl", "--json").json()["results"]
    }
    (tmp_path / "rows.jsonl").write_text("".join(row(one, gates) for one in all_of_them))
    done = assay("batch", "rows.jsonl", "-o", "g.parquet", "--profile", "own.yaml", "--json")
    assert done.code == 3, done.err
    assert made(tmp_path) == letters
    assert len(letters) == len(sound) > 25
    examples = [text for one in done.json()["rejected"] for text in one["examples"]]
    assert any(text.endswith('= "1"') for text in examples), "the quotation marks are the reason"


def test_what_a_batch_cannot_compute_exactly_is_refused_by_name(
    assay: Any, gates: list[str], tmp_path: Path
) -> None:
    odd = given(TOO_PRECISE)
    (tmp_path / "cards.jsonl").write_text("".join(card(one, gates) for one in odd))
    assert assay("grade", "cards.jsonl", "--json").json()["faults"] == []
    (tmp_path / "rows.jsonl").write_text("".join(row(one, gates) for one in odd))
    done = assay("batch", "rows.jsonl", "-o", "g.parquet", "--profile", "own.yaml", "--json")
    assert done.code == 3
    assert done.json()["record"]["counts"]["rejects"] == {"BAT-010": 4, "BAT-011": 1}
    assert made(tmp_path) == {}


@pytest.mark.req("W-034")
def test_long_decimals_next_to_a_tie_are_exact_or_refused(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        "profile: one\nversion: 1\ntitle: One\nfamily: one\ngates: []\ncriteria:\n"
        "  - {id: share, label: Share, weight: 1, layer: 1, formula: zero_one}\n"
    )
    random, texts = Random(7), []
    for _ in range(3000):
        tie = Decimal(2 * random.randrange(10**9) + 1) * Decimal("5e-10")
        step = Decimal(random.choice((-1, 1)) * random.randrange(1, 100))
        texts.append(f"{tie + step.scaleb(-random.randrange(13, 22)):f}")
    texts += [repr(random.random()) for _ in range(500)]
    lines = [f"{place},{value}\n" for place, value in enumerate(texts)]
    (tmp_path / "s.csv").write_text("run,share\n" + "".join(lines))
    assert assay("batch", "s.csv", "-o", "g.parquet", "--profile", "one.yaml").code == 3
    found = duckdb.sql(f"SELECT run, norm_share, reason FROM '{tmp_path}/g.parquet'").fetchall()
    refused = {int(run) for run, _, reason in found if reason == "invalid_evidence"}
    for run, norm, _ in found:
        if int(run) not in refused:
            exact = Decimal(texts[int(run)]).quantize(Decimal("1e-9"), ROUND_HALF_UP)
            assert Decimal(repr(norm)) == exact, texts[int(run)]
    assert 100 < len(refused) < 3000
    assert max(refused) < 3000, "the repr of a float is never too long"


def test_a_sample_size_with_a_decimal_point_is_refused_with_what_to_write(
    assay: Any, gates: list[str], tmp_path: Path
) -> None:
    for size, words in (("1.0", "without a decimal point: 1, not 1.0"), ("1.5", "not 1.5")):
        (tmp_path / "card.json").write_text(card({"run": '"r"', **USUAL, "n": size}, gates))
        done = assay("grade", "card.json")
        assert (done.code, ".n: must be a whole number" in done.err) == (3, True)
        assert words in done.err


def test_json_without_a_scorecards_rules_means_the_same_in_every_spelling(
    assay: Any, gates: list[str], tmp_path: Path
) -> None:
    usual = {"run": '"r-0"', **USUAL}
    null = row({**usual, "n": "null"}, gates)  # as an empty cell of a table: nothing was stated
    whole = row({**usual, "run": "7"}, gates)  # as a column of whole numbers
    long = row({**usual, "run": '"long"', "right": "0." + "9" * 60}, gates)
    escaped = long.replace('"right"', '"r\\u0069ght"')
    (tmp_path / "spelled.jsonl").write_text(null + whole + escaped)
    done = assay("batch", "spelled.jsonl", "-o", "s.parquet", "--profile", "own.yaml", "--json")
    assert (done.code, made(tmp_path, "s").keys()) == (3, {"r-0", "7"}), done.out
    (reject,) = done.json()["rejected"]
    assert reject["examples"][0].startswith("long right = 0.99"), "an escaped key hides no digits"
    forged = json.loads(row(usual, gates)) | {"right": "1", "assay_in_quotes:right": False}
    (tmp_path / "forged.jsonl").write_text(json.dumps(forged))
    done = assay("batch", "forged.jsonl", "-o", "f.parquet", "--profile", "own.yaml")
    assert done.code == 3, done.out
    assert "the key 'assay_in_quotes:right' is reserved" in done.err
    (tmp_path / "rows.csv").write_text("run,right,own_gate\nr-1,1,true\nr-2,1,t\n")
    own = assay("batch", "rows.csv", "-o", "c.parquet", "--profile", "own.yaml", "--json").json()
    assert own["record"]["counts"]["rejects"] == {}, "in CSV everything is text"
