"""The reporting bundle: its numbers against scipy and numpy, every run counted once, and no number
where nothing is known.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.canon import encode, plain
from assay.release.summary import EvaluationTally, Summary
from assay.stats.intervals import Counts, student, t_quantile, wilson
from cards import expected, graded, scorecards
from documents import FAMILIES, run, scorecard


def summed(cards: list[dict[str, Any]]) -> dict[str, Any]:
    """The block over some documents, as a reader of its JSON gets it."""
    summary = Summary()
    for index, card in enumerate(cards):
        summary.add(graded({**card, "run_id": card.get("run_id", "r") + f"-{index}"}).grade)
    made: dict[str, Any] = plain(summary.block())
    return made


many = st.lists(scorecards(), min_size=1, max_size=6)
fewer = settings(max_examples=settings.default.max_examples * 2 // 5)


# --- intervals


@given(
    st.integers(1, 2000).flatmap(
        lambda n: st.tuples(st.one_of(st.just(0), st.just(n), st.integers(0, n)), st.just(n))
    ),
    st.sampled_from((0.8, 0.9, 0.95, 0.99)),
)
def test_the_interval_of_a_share_is_wilsons(counts: tuple[int, int], level: float) -> None:
    successes, n = counts
    found = wilson(successes, n, level=level)
    wanted = scipy.stats.binomtest(successes, n).proportion_ci(
        confidence_level=level, method="wilson"
    )
    assert found.value == successes / n
    assert found.low == pytest.approx(wanted.low, abs=1e-12)
    assert found.high == pytest.approx(wanted.high, abs=1e-12)
    assert (found.method, found.level, found.reason) == ("wilson", level, None)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= successes / n <= found.high <= 1


@given(
    st.floats(-1000, 1000),
    st.floats(0, 500),
    st.integers(2, 5000),
    st.sampled_from((0.8, 0.95, 0.99)),
)
def test_the_interval_of_a_mean_is_students(mean: float, sd: float, n: int, level: float) -> None:
    found = student(mean, sd, n, level=level)
    half = float(scipy.stats.t.ppf(0.5 + level / 2, n - 1)) * sd / n**0.5
    assert found.low == pytest.approx(mean - half, rel=1e-9, abs=1e-9)
    assert found.high == pytest.approx(mean + half, rel=1e-9, abs=1e-9)
    assert (found.value, found.method) == (mean, "student-t")


@pytest.mark.parametrize("df", [1, 2, 3, 5, 10, 29, 100, 1000, 100_000])
@pytest.mark.parametrize("p", [0.55, 0.75, 0.9, 0.975, 0.995, 0.9999])
def test_the_quantile_of_students_t_agrees_with_scipy(p: float, df: int) -> None:
    assert t_quantile(p, df) == pytest.approx(float(scipy.stats.t.ppf(p, df)), rel=1e-9)


# --- distributions


@given(
    st.lists(st.integers(0, 10000), min_size=1, max_size=60), st.sampled_from((5, 25, 50, 75, 95))
)
def test_mean_deviation_and_quantiles_agree_with_numpy(values: list[int], percent: int) -> None:
    counts = Counts(0.01)
    for value in values:
        counts.add(value)
    shown = np.array(values) / 100
    assert counts.n == len(values)
    assert counts.mean() == pytest.approx(float(shown.mean()), abs=1e-9)
    assert counts.quantile(percent) == pytest.approx(
        float(np.quantile(shown, percent / 100, method="linear")), abs=1e-9
    )
    if len(values) == 1:
        assert counts.sd() is None  # one value shows no spread
    else:
        assert counts.sd() == pytest.approx(float(shown.std(ddof=1)), abs=1e-9)


def test_a_deviation_of_nearly_equal_large_numbers_is_not_lost() -> None:
    counts = Counts(1e-9)
    for value in (999_999_998, 999_999_999, 1_000_000_000):
        counts.add(value)
    assert counts.sd() == 1e-9


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60))
def test_a_histogram_counts_every_value_once_and_a_value_on_an_edge_belongs_to_the_bin_above(
    values: list[int],
) -> None:
    counts = Counts(1e-9)
    for value in values:
        counts.add(value)
    bins = counts.histogram(0, 10**9, 10)
    wanted = Counter(min(9, int(Fraction(value, 10**8))) for value in values)
    assert [item["count"] for item in bins] == [wanted[index] for index in range(10)]
    assert [(item["low"], item["high"]) for item in bins] == [
        (pytest.approx(index / 10), pytest.approx((index + 1) / 10)) for index in range(10)
    ]


# --- the block


@pytest.mark.req("W-074")
@fewer
@given(many)
def test_the_block_says_of_the_runs_what_an_oracle_says_of_each(
    cards: list[dict[str, Any]],
) -> None:
    found, wanted = summed(cards), [expected(card) for card in cards]
    n, passed = len(cards), sum(one.passed for one in wanted)
    interval = scipy.stats.binomtest(passed, n).proportion_ci(method="wilson")
    assert found["n"] == n
    assert found["pass_rate"]["value"] == passed / n
    assert (found["pass_rate"]["low"], found["pass_rate"]["high"]) == (
        pytest.approx(interval.low, abs=1e-9),
        pytest.approx(interval.high, abs=1e-9),
    )
    assert (found["pass_rate"]["level"], found["pass_rate"]["method"]) == (0.95, "wilson")
    scores = np.array([float(one.score) for one in wanted])
    score = found["weighted_score"]
    assert score["mean"]["value"] == pytest.approx(scores.mean())
    for name, value in score["quantiles"].items():
        assert value == pytest.approx(np.quantile(scores, int(name[1:]) / 100), abs=1e-9)
    assert list(score["quantiles"]) == ["p5", "p25", "p50", "p75", "p95"]
    if n > 1:
        assert score["sd"] == pytest.approx(scores.std(ddof=1), abs=1e-9)
        half = scipy.stats.t.ppf(0.975, n - 1) * scores.std(ddof=1) / n**0.5
        assert (score["mean"]["low"], score["mean"]["high"]) == (
            pytest.approx(max(0, scores.mean() - half), abs=1e-6),
            pytest.approx(min(100, scores.mean() + half), abs=1e-6),
        )
    assert found["grades"] == {
        letter: sum(one.letter == letter for one in wanted) for letter in "ABCDF"
    }


@pytest.mark.req("W-074")
@fewer
@given(many)
def test_each_gate_has_its_failure_rate_over_the_runs_that_have_it(
    cards: list[dict[str, Any]],
) -> None:
    found = summed(cards)["gates"]
    for name in {name for card in cards for name in card["hard_gates"]}:
        verdicts = [card["hard_gates"][name] for card in cards if name in card["hard_gates"]]
        failed = sum(verdict is not True for verdict in verdicts)
        interval = scipy.stats.binomtest(failed, len(verdicts)).proportion_ci(method="wilson")
        assert (found[name]["failed"], found[name]["undetermined"], found[name]["n"]) == (
            failed,
            verdicts.count(None),
            len(verdicts),
        )
        assert found[name]["rate"]["value"] == failed / len(verdicts)
        assert found[name]["rate"]["high"] == pytest.approx(interval.high, abs=1e-9)
    assert list(found) == sorted({name for card in cards for name in card["hard_gates"]})


@pytest.mark.req("W-074")
@fewer
@given(many)
def test_each_criterion_has_its_distribution_in_which_a_missing_score_is_a_zero_and_is_counted(
    cards: list[dict[str, Any]],
) -> None:
    found = summed(cards)["criteria"]
    seen: dict[str, list[tuple[Fraction, bool, bool]]] = {}
    for card in cards:
        wanted = expected(card)
        for criterion, norm in zip(card["criteria"], wanted.norms, strict=True):
            seen.setdefault(criterion["name"], []).append(
                (norm, criterion["raw_score"] is None, criterion["name"] in wanted.missed_floors)
            )
    assert list(found) == sorted(seen)
    for name, values in seen.items():
        norms = np.array([float(norm) for norm, _, _ in values])
        one = found[name]
        assert (one["n"], one["missing"], one["floor_failures"]) == (
            len(values),
            sum(gone for _, gone, _ in values),
            sum(below for _, _, below in values),
        )
        assert one["mean"]["value"] == pytest.approx(norms.mean(), abs=1e-9)
        assert one["quantiles"]["p25"] == pytest.approx(np.quantile(norms, 0.25), abs=1e-9)
        assert (one["sd"] is None) is (len(values) == 1)
        assert sum(item["count"] for item in one["histogram"]) == len(values)
        assert all(low["high"] == high["low"] for low, high in pairwise(one["histogram"]))


def test_one_sample_has_no_interval_and_no_deviation_and_says_why() -> None:
    found = summed([scorecard({"norm": 1})])
    for mean in (found["weighted_score"]["mean"], found["criteria"]["c0"]["mean"]):
        assert (mean["low"], mean["high"]) == (None, None)
        assert mean["reason"] == "one sample has no spread to estimate from"
    assert (found["weighted_score"]["sd"], found["weighted_score"]["mean"]["value"]) == (None, 100)
    assert found["pass_rate"]["low"] == pytest.approx(
        scipy.stats.binomtest(1, 1).proportion_ci(method="wilson").low
    )
    two = summed([scorecard({"norm": 1}), scorecard({"norm": 1})])["weighted_score"]
    assert (two["sd"], two["mean"]["low"], two["mean"]["high"]) == (0, 100, 100)
    assert "reason" not in two["mean"]


def test_of_no_samples_nothing_is_known_and_no_mean_is_made_up() -> None:
    found = plain(Summary().block())
    assert found["pass_rate"]["value"] is None
    mean = found["weighted_score"]["mean"]
    assert (mean["value"], mean["low"], mean["high"]) == (None, None, None)
    assert mean["reason"] == "no samples"


# --- coverage


@fewer
@given(many)
def test_the_coverage_counts_every_run_once(cards: list[dict[str, Any]]) -> None:
    found = summed(cards)["coverage"]
    assert list(found) == ["scored", "failed", "inconclusive", "errored", "not_applicable"]
    assert sum(found.values()) == len(cards)


@pytest.mark.parametrize(
    ("changes", "where", "rate"),
    [
        ({}, "scored", 1),
        ({"status": "failed"}, "failed", 0.5),
        ({"status": "error"}, "errored", 0.5),
        ({"status": "timeout"}, "errored", 0.5),
        ({"status": "cancelled"}, "errored", 0.5),
        ({"latency_ms": None, "cost_usd": None}, "inconclusive", 1),
        ({"scores": {}}, "inconclusive", 0.5),
        ({"steps": None}, "inconclusive", 0.5),
        ({"status": "timeout", "steps": None}, "errored", 0.5),
    ],
)
def test_a_run_that_did_not_end_well_stays_in_the_denominator(
    changes: dict[str, Any], where: str, rate: float
) -> None:
    found = summed([run("rag"), run("rag", **changes)])
    assert found["n"] == 2
    assert found["coverage"][where] == (2 if where == "scored" else 1)
    assert found["pass_rate"]["value"] == rate
    assert found["criteria"]["efficiency"]["n"] == 2
    assert found["criteria"]["efficiency"]["missing"] == ("latency_ms" in changes)


# --- slices, reasons, operations


def test_slices_by_family_and_tag_are_summaries_of_their_runs() -> None:
    cards = [
        run(family, tags=["nightly"] if family == "rag" else ["nightly", "nightly", "small"])
        for family in FAMILIES
    ]
    cards.append(run("rag", tags=["small"], status="failed"))
    found = summed(cards)["slices"]
    assert {name: one["n"] for name, one in found["family"].items()} == {
        "code-repair": 1,
        "dag-review": 1,
        "rag": 2,
        "tool-use": 1,
    }
    assert {name: one["n"] for name, one in found["tag"].items()} == {"nightly": 4, "small": 4}
    assert found["family"]["rag"]["pass_rate"]["value"] == 0.5
    assert found["tag"]["small"]["pass_rate"]["value"] == 0.75
    assert found["family"]["rag"]["weighted_score"]["mean"]["value"] == 100


@pytest.mark.req("W-074")
def test_the_top_failure_reasons_come_most_frequent_first_each_with_an_example() -> None:
    found = summed(
        [
            scorecard({"norm": 1}, run_id="z", hard_gates={"leak": False, "seal": None}),
            scorecard({"norm": 1}, run_id="a", hard_gates={"leak": False}),
            scorecard(
                {"norm": Decimal("0.5"), "critical_floor": {"norm": Decimal("0.6")}}, run_id="m"
            ),
            scorecard({"raw_score": None, "missing": "lost"}, run_id="k"),
            scorecard({"norm": 1}, run_id="fine"),
        ]
    )["top_failure_reasons"]
    assert found == [
        {"reason": "gate leak failed", "count": 2, "example": "a-1"},
        {"reason": "the score is below the threshold", "count": 2, "example": "k-3"},
        {"reason": "c0 has no score", "count": 1, "example": "k-3"},
        {"reason": "c0 is below its critical floor", "count": 1, "example": "m-2"},
        {"reason": "gate seal is undetermined", "count": 1, "example": "z-0"},
    ]


def test_no_more_than_ten_reasons_are_listed() -> None:
    cards = [scorecard({"norm": 1}, hard_gates={f"gate-{index:02}": False for index in range(12)})]
    found = summed(cards)["top_failure_reasons"]
    assert [item["reason"] for item in found] == [
        f"gate gate-{index:02} failed" for index in range(10)
    ]


def test_latency_and_cost_are_summed_up_and_what_is_unreported_is_counted() -> None:
    latencies, costs = [100, 250.5, 1000, 40, 7], ["0.1", "0.2", "0.3"]
    cards = [scorecard({"norm": 1}, latency_ms=value) for value in latencies]
    cards = [
        {**card, "cost_usd": Decimal(costs[index])} if index < 3 else card
        for index, card in enumerate(cards)
    ]
    found = summed([*cards, scorecard({"norm": 1})])["operations"]
    assert found["latency_ms"] == {
        "p50": np.quantile(latencies, 0.5),
        "p95": pytest.approx(np.quantile(latencies, 0.95)),
        "n": 5,
        "unreported": 1,
    }
    assert found["cost_usd"] == {"total": 0.6, "mean": 0.2, "n": 3, "unreported": 3}


@fewer
@given(many, st.randoms(use_true_random=False))
def test_the_order_of_the_runs_changes_no_byte(
    cards: list[dict[str, Any]], order: random.Random
) -> None:
    grades = [
        graded(
            {
                **card,
                "run_id": f"r-{index}",
                "tags": [f"t{index % 2}"],
                "latency_ms": index,
                "cost_usd": Decimal(index) / 7,
            }
        ).grade
        for index, card in enumerate(cards)
    ]
    blocks = []
    for _ in range(2):
        summary = Summary()
        for grade in grades:
            summary.add(grade)
        blocks.append(encode(summary.block()))
        order.shuffle(grades)
    assert blocks[0] == blocks[1]


# --- the command


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Draft202012Validator:
    done = subprocess.run(
        [sys.executable, "-m", "assay", "schema-of", "summary"], capture_output=True, check=True
    )
    return jsonschema_rs.Draft202012Validator(json.loads(done.stdout))


@fewer
@given(cards=many)
def test_every_block_keeps_the_published_schema(
    validator: jsonschema_rs.Draft202012Validator, cards: list[dict[str, Any]]
) -> None:
    assert [error.message for error in validator.iter_errors(summed(cards))] == []


@pytest.mark.req("W-074")
def test_the_summary_command_prints_and_writes_the_block(
    validator: jsonschema_rs.Draft202012Validator, assay: Any, tmp_path: Any
) -> None:
    lines = [
        json.dumps(run(family, run_id=f"{family}-{status}", status=status))
        for family in FAMILIES
        for status in ("success", "failed", "timeout")
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    done = assay("report", "summary", "runs.jsonl", "--json", "-o", "block.json")
    assert done.code == 0  # it reports; it does not judge
    block = done.json()
    assert [error.message for error in validator.iter_errors(block)] == []
    assert json.loads((tmp_path / "block.json").read_text()) == block
    assert (block["n"], block["pass_rate"]["value"], block["coverage"]) == (
        12,
        4 / 12,
        {"scored": 4, "failed": 4, "inconclusive": 0, "errored": 4, "not_applicable": 0},
    )
    assert (block["scoringSystem"], block["gradingSystem"], block["policies"]) == (
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
        ["workflow@1"],
    )
    assert block["profiles"] == ["code-repair@1", "dag-review@1", "rag@1", "tool-use@1"]
    assert (
        block["gates"]["overall_status_success"]["failed"],
        block["gates"]["overall_status_success"]["n"],
    ) == (8, 12)
    text = assay("report", "summary", "runs.jsonl").out
    assert "12 runs: 4 scored, 4 failed, 4 errored" in text
    assert re.search(r"gate overall_status_success failed +8 +code-repair-failed", text)


@pytest.mark.parametrize(
    ("content", "code", "word"),
    [("", 4, "FIL-005"), ('{"schema": "assay.run/1"}', 3, "SCO-011"), ("[", 3, "FIL-002")],
)
@pytest.mark.parametrize("verb", ["summary", "rank"])
def test_the_summary_command_refuses_what_it_cannot_sum_up(
    assay: Any, tmp_path: Any, content: str, code: int, word: str, verb: str
) -> None:
    (tmp_path / "x.json").write_text(content)
    (tmp_path / "good.json").write_text(json.dumps(run("rag")))
    for files in (["x.json"], ["good.json", "x.json"]):  # nor does another file make up for it
        done = assay("report", verb, *files, "--json")
        assert (done.code, done.out) == (code, "")
        assert json.loads(done.err)["error"]["code"] == word


def test_the_totals_of_an_evaluation_are_those_of_its_grades() -> None:
    cards = [
        scorecard({"norm": 1}, hard_gates={"g": True}),
        scorecard({"norm": 0, "missing": "no answer"}, hard_gates={"g": False}),
    ]
    tally = EvaluationTally()
    for card in cards:
        tally.add(graded(card).payload())
    made = tally.totals()
    block = summed(cards)
    assert (made.n, made.passed, made.gate_failures) == (2, 1, {"g": 1})
    assert made.missing == {name: one["missing"] for name, one in block["criteria"].items()}
    assert plain(made.pass_rate) == block["pass_rate"]
    mean = block["weighted_score"]["mean"]
    assert plain(made.score) == mean
    assert (mean["low"], mean["high"]) == (0.0, 100.0)  # no mean score is beyond it
