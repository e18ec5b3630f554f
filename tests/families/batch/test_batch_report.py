"""`assay report summary` of a batch gives what it gives of the same scorecards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batch_outputs import NOISY, PLAN, PROFILE, SIDES, batch, cards, project

__all__ = ["project"]


@pytest.mark.req("W-074")
def test_a_batch_is_summed_up_as_its_scorecards(tmp_path: Path, assay: Any) -> None:
    number = "CAST(regexp_extract(run, '[0-9]+$') AS INTEGER)"
    for name, groups in (("plain", 0), ("lonely", 50), ("shared", 3)):
        given = [
            {**row, "group": f"g{n % groups}"} if groups else row
            for n, row in enumerate(SIDES["summed"])
        ]
        sql = {"group": f"'g' || ({number} % {groups})"} if groups else None
        slices = ("--slice", "group") if groups else ()
        files = (
            cards(tmp_path / f"{name}-cards.jsonl", given),
            batch(tmp_path / f"{name}.parquet", "summed", columns_sql=sql),
        )
        cardwise, batched = (
            assay("report", "summary", file, "--profile", PROFILE, "--json", *slices).json()
            for file in files
        )
        assert batched["profiles"] == [PLAN.profile]
        for field in cardwise.keys() - {"profiles", "operations"}:
            if name == "shared" and field in ("weighted_score", "criteria"):
                continue  # a batch has no interval over groups
            assert batched[field] == cardwise[field], (name, field)
        if name == "lonely":
            shown = [
                assay("report", "summary", file, "--profile", PROFILE, *slices).out
                for file in files
            ]
            assert shown[1] == shown[0]
            assert "g0" in shown[1]
    assert batched["weighted_score"]["mean"]["low"] is None
    assert "runs share groups" in batched["weighted_score"]["mean"]["reason"]


@pytest.mark.parametrize("side", [f"theirs r{seed}" for seed in range(NOISY)])
def test_repeats_of_a_sample_are_not_independent_in_a_batch(
    tmp_path: Path, assay: Any, side: str
) -> None:
    files = (cards(tmp_path / "cards.jsonl", side), batch(tmp_path / "batch.parquet", side))
    cardwise, batched = (
        assay("report", "summary", file, "--profile", PROFILE, "--json", "--slice", "tag").json()
        for file in files
    )
    for field in ("n", "coverage", "pass_rate", "gates", "grades", "top_failure_reasons"):
        assert batched[field] == cardwise[field], field
    for tag, found in batched["slices"]["tag"].items():
        expected = cardwise["slices"]["tag"][tag]
        assert found["pass_rate"] == expected["pass_rate"]
        if found["weighted_score"]["mean"]["low"] is not None:
            assert found["weighted_score"] == expected["weighted_score"]
    for name, found in batched["criteria"].items():
        mean, expected = found["mean"]["value"], cardwise["criteria"][name]["mean"]["value"]
        if batched["weighted_score"]["mean"]["low"] is not None:
            assert mean == pytest.approx(expected, abs=1e-12)
    if batched["weighted_score"]["mean"]["low"] is not None:
        assert batched["weighted_score"] == cardwise["weighted_score"]


def test_a_verb_that_reads_no_batch_names_those_that_do(tmp_path: Path, assay: Any) -> None:
    file = batch(tmp_path / "one.parquet", "good")
    explained = assay("explain", file)
    assert (explained.code, "is a Parquet file" in explained.err) == (3, True), explained.err
    assert "`assay report summary` and `assay gate` read it" in explained.err


def test_what_a_batch_cannot_be_asked_is_refused_by_name(tmp_path: Path, assay: Any) -> None:
    file = batch(tmp_path / "one.parquet", "good")
    for words, message in (
        ((file, "--slice", "team"), "has no kept column 'team'"),
        ((file, file), "takes one output"),
        ((file, "--store"), "--store can't be used on a batch"),
        ((cards(tmp_path / "c.jsonl", "good"), "--slice", "team"), "Runs have tag, group, family"),
        ((tmp_path / "c.jsonl", "--threads", "1"), "--threads is for outputs of `assay batch`"),
        (
            (batch(tmp_path / "many.parquet", "many groups"), "--slice", "group"),
            "more than 200 values",
        ),
        ((batch(tmp_path / "bad.parquet", "invalid"),), "couldn't be graded"),
        ((batch(tmp_path / "drawn.parquet", "good", sample=40),), "drawn with --sample"),
        ((batch(tmp_path / "o.parquet", "good", plan="sha256:" + 64 * "1"),), "--profile FILE"),
    ):
        done = assay("report", "summary", *words)
        assert done.code in (2, 3)
        assert message in done.err, (words, done.err)
