"""The reporting bundle where runs share groups, and in slices: coverage beside every number."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import scipy

from assay.canon import encode, plain
from assay.release.summary import Summary
from assay.stats.clusters import sampled_share
from cards import graded
from sides import card, cards, drawn, write

SCORES = drawn(60, seed=4)


def summed(documents: list[dict[str, Any]]) -> dict[str, Any]:
    summary = Summary()
    for document in documents:
        summary.add(graded(document).grade)
    made: dict[str, Any] = plain(summary.block())
    return made


def grouped(size: int) -> list[dict[str, Any]]:
    return [{**one, "group": f"g{index // size}"} for index, one in enumerate(cards(SCORES))]


@pytest.mark.req("W-074")
def test_runs_that_share_groups_have_a_cluster_robust_interval() -> None:
    found = summed(grouped(3))
    means = np.array(SCORES).reshape(20, 3).mean(axis=1)
    wanted = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.95)
    for mean, scale in (
        (found["weighted_score"]["mean"], 1),
        (found["criteria"]["c0"]["mean"], 100),
    ):
        assert mean["method"] == "cluster-robust t"
        assert (mean["low"] * scale, mean["high"] * scale) == (
            pytest.approx(wanted.low),
            pytest.approx(wanted.high),
        )
    assert found["weighted_score"]["sd"] == pytest.approx(np.std(SCORES, ddof=1))


@pytest.mark.req("W-074")
def test_groups_of_one_run_change_no_number() -> None:
    alone, none = summed(grouped(1)), summed(cards(SCORES))
    assert {**alone, "slices": None} == {**none, "slices": None}
    assert none["weighted_score"]["mean"]["method"] == "student-t"


def test_fewer_than_five_groups_leave_the_plain_interval_and_its_method_says_so() -> None:
    mean = summed(grouped(20))["weighted_score"]["mean"]
    assert mean["method"] == "student-t, too few groups to count as clusters"
    assert mean["low"] < mean["value"] < mean["high"]


@pytest.mark.req("W-074")
def test_each_slice_has_its_number_and_its_coverage() -> None:
    cases = [
        card(
            index,
            80,
            tags=["a"] if index % 2 else ["a", "b"],
            group=f"g{index % 4}",
            status="error" if index == 0 else "success",
        )
        for index in range(8)
    ]
    found = summed(cases)["slices"]
    assert list(found) == ["family", "tag", "group"]
    assert (found["tag"]["a"]["n"], found["tag"]["b"]["n"], found["group"]["g1"]["n"]) == (8, 4, 2)
    assert found["tag"]["b"]["coverage"] == {
        "scored": 3,
        "failed": 0,
        "inconclusive": 0,
        "errored": 1,
        "not_applicable": 0,
    }
    for kind in found.values():
        for one in kind.values():
            assert sum(one["coverage"].values()) == one["n"]


def test_the_order_of_grouped_runs_changes_no_byte() -> None:
    documents = [
        {**one, "group": f"g{index % 7}" if index % 3 else None}
        for index, one in enumerate(cards(SCORES))
    ]
    blocks = set()
    for seed in range(5):
        random.Random(seed).shuffle(documents)
        blocks.add(encode(summed(documents)))
    assert len(blocks) == 1


def test_the_command_gives_no_interval_that_leaves_the_scale(assay: Any, tmp_path: Any) -> None:
    documents = cards([0.0, 100.0, 50.0])
    write(tmp_path / "runs.jsonl", documents)
    found = assay("report", "summary", "runs.jsonl", "--json").json()
    assert found["weighted_score"]["mean"] == summed(documents)["weighted_score"]["mean"]
    assert (found["weighted_score"]["mean"]["low"], found["weighted_score"]["mean"]["high"]) == (
        0,
        100,
    )
    for criterion in found["criteria"].values():
        assert 0 <= criterion["mean"]["low"] <= criterion["mean"]["high"] <= 1


# --- repeats


def repeated(shares: list[float], times: int) -> list[dict[str, Any]]:
    """Each sample run so often: in that share of its runs it scores 100, in the others 0."""
    return [
        {
            **card(f"r{sample}-{number}", 100.0 if number < round(share * times) else 0.0),
            "sample_id": f"s{sample}",
        }
        for sample, share in enumerate(shares)
        for number in range(times)
    ]


def test_repeats_of_samples_that_agree_with_themselves_add_nothing() -> None:
    once, often = (summed(repeated([1, 1, 1, 0, 0, 0], times)) for times in (1, 30))
    assert (often["n"], once["n"]) == (180, 6)
    assert (often["pass_rate"]["low"], often["pass_rate"]["high"]) == (
        pytest.approx(once["pass_rate"]["low"]),
        pytest.approx(once["pass_rate"]["high"]),
    )
    assert often["pass_rate"]["low"] == pytest.approx(0.188, abs=0.001)
    assert often["weighted_score"]["mean"]["low"] == pytest.approx(
        once["weighted_score"]["mean"]["low"]
    )
    for found in (often["pass_rate"], often["weighted_score"]["mean"]):
        assert found["method"].endswith("over samples")
    gate, before = (next(iter(side["gates"].values())) for side in (often, once))
    assert (gate["rate"]["low"], gate["rate"]["high"]) == (
        pytest.approx(before["rate"]["low"]),
        pytest.approx(before["rate"]["high"]),
    )


def test_repeats_of_samples_that_disagree_with_themselves_narrow_the_interval() -> None:
    widths = [
        found["high"] - found["low"]
        for found in (summed(repeated([0.5] * 20, times))["pass_rate"] for times in (2, 10))
    ]
    assert widths[1] < widths[0] < 0.4


def test_a_sample_counts_once_however_often_it_ran() -> None:
    documents = [*repeated([1.0], 9), {**card("other", 0.0), "sample_id": "other"}]
    found = summed(documents)
    assert (found["pass_rate"]["value"], found["weighted_score"]["mean"]["value"]) == (0.5, 50.0)


def test_the_order_of_repeats_changes_nothing() -> None:
    documents = repeated([0.2, 0.4, 1, 1, 0, 0.6], 5)
    before = encode(summed(documents))
    random.Random(5).shuffle(documents)
    assert encode(summed(documents)) == before


def test_the_interval_covers_the_rate_of_the_population_as_often_as_it_says() -> None:
    covered, times = 0, 300
    for seed in range(times):
        source = random.Random(seed)
        rates = [source.betavariate(0.5, 0.5) for _ in range(25)]
        counts: Counter[tuple[int, int]] = Counter()
        for rate in rates:
            counts[sum(source.random() < rate for _ in range(4)), 4] += 1
        found = sampled_share(counts)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.5 <= found.high
    assert covered / times >= 0.92
