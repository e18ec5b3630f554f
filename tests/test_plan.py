"""Plans: how many samples a decision takes, what is declared before, what changed after, and
simulations that hold promotion to its word.
"""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import campaign_release as campaign
from assay.errors import InputError
from assay.release.pairs import pair_up
from assay.release.plan import (
    changes,
    failures_for,
    make_plan,
    needed_samples,
    rates_of,
    read_plan,
    spread_of,
    spread_of_pairs,
)
from documents import run
from examples import repeats
from sides import RULES, STRICT, cards, drawn, side, write

NOW = datetime(2026, 11, 15, 10, tzinfo=UTC)
BASE = drawn(60, seed=7, low=75)


# --- numbers


@pytest.mark.parametrize(
    ("effect", "sd", "power", "by_statsmodels"),
    [(0.0, 4.0, 0.8, 128), (1.0, 4.0, 0.9, 44), (0.5, 10.0, 0.8, 351)],
)
def test_the_number_of_pairs_agrees_with_statsmodels(
    effect: float, sd: float, power: float, by_statsmodels: int
) -> None:
    found = needed_samples(RULES, effect=effect, power=power, sd=sd)
    assert found == pytest.approx(by_statsmodels, abs=1)


def test_no_number_of_samples_shows_what_is_not_there_and_none_is_below_the_minimum() -> None:
    assert needed_samples(RULES, effect=-1.0, power=0.8, sd=4.0) is None
    assert needed_samples(RULES, effect=5.0, power=0.8, sd=1.0) == RULES.min_pairs
    # without a spread, and where nothing is assumed, as many as exclude a rare total loss
    assert needed_samples(RULES, effect=0.0, power=0.8, sd=None) == 368
    assert needed_samples(STRICT, effect=5.0, power=0.8, sd=1.0) == 368
    assert needed_samples(STRICT, effect=0.0, power=0.8, sd=0.0) == 368
    assert needed_samples(RULES, effect=0.0, power=0.8, sd=0.0) == RULES.min_pairs


def test_more_looks_ask_for_more_samples() -> None:
    one, several = (
        needed_samples(RULES, effect=0.0, power=0.8, sd=3.0, looks=looks) for looks in (1, 3)
    )
    assert one is not None
    assert several is not None
    assert several > 5 * one
    seen = campaign.simulate(
        "two values, 3 down or up", several, effect=0.0, repeats=repeats(12, 60), looks=3
    )
    assert seen.promoted >= 0.65


def test_the_spread_comes_from_repeats_and_without_them_is_taken_too_large() -> None:
    def repeated(noise: float) -> list[dict[str, Any]]:
        drawn = random.Random(5)
        return [
            run(
                "rag",
                run_id=f"{index}-{attempt}",
                dataset={"id": "d", "version": "1", "sample_id": f"s{index}"},
                attempt=attempt,
                scores={
                    name: {"raw": round(0.6 + 0.005 * index + drawn.uniform(-noise, noise), 4)}
                    for name in (
                        "faithfulness",
                        "response_relevance",
                        "context_precision",
                        "context_recall",
                    )
                },
            )
            for index in range(30)
            for attempt in (1, 2, 3)
        ]

    found = side(repeated(0.02))
    scores = np.array(
        [[float(one.score) / 100 for one in found.repeats[name]] for name in found.rows]
    )
    within = math.sqrt(scores.var(axis=1, ddof=1).mean())
    assert spread_of(found).sd == pytest.approx(math.sqrt(2) * within)
    assert "repeats" in spread_of(found).source
    plain = side(cards(BASE))
    assert spread_of(plain).sd == pytest.approx(math.sqrt(2) * np.std(BASE, ddof=1))
    assert "nothing in common" in spread_of(plain).source
    assert spread_of(side(cards([80.0] * 5))).sd is None
    assert spread_of(side(cards([80.0]))).sd is None
    other = [score + index % 4 for index, score in enumerate(BASE)]
    assert spread_of_pairs(pair_up(side(cards(other)), plain)).sd == pytest.approx(
        np.std(np.array(other) - np.array(BASE), ddof=1)
    )


def test_what_a_set_can_see_of_failures() -> None:
    found = rates_of(200, failure_rate=0.1, power=0.8, level=0.95)
    assert found["seen_once"] == pytest.approx(1 - 0.2 ** (1 / 200))
    assert 0.05 < found["detectable_increase"] < 0.12
    nothing = rates_of(200, failure_rate=0.0, power=0.8, level=0.95)
    assert 0.02 < nothing["detectable_increase"] < 0.06
    assert failures_for(0.01, power=0.95) == 299
    assert 1 - 0.99**299 >= 0.95 > 1 - 0.99**298


# --- declared and changed


def test_a_plan_is_read_as_it_was_written_and_a_changed_one_is_refused(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "base.jsonl", cards(BASE))
    done = assay(
        "gate",
        "--plan",
        "--baseline",
        "base.jsonl",
        "--now",
        "2026-11-15T10:00:00Z",
        "--looks",
        "2",
        "--slice",
        "tag",
        "-o",
        "plan.json",
        "--json",
    )
    assert done.code == 0
    plan = read_plan(str(tmp_path / "plan.json"))
    assert done.json() == json.loads((tmp_path / "plan.json").read_text())
    assert set(plan) >= {
        "schema",
        "policy",
        "policy_digest",
        "margin",
        "level",
        "min_pairs",
        "interval",
        "looks",
        "slices",
        "samples",
        "effect",
        "power",
        "needed",
        "made_at",
        "digest",
    }
    assert (plan["schema"], plan["looks"], plan["slices"], plan["made_at"]) == (
        "assay.plan/1",
        2,
        ["tag"],
        "2026-11-15T10:00:00Z",
    )
    assert plan["samples"] == [f"s-{index:04}" for index in range(60)]
    for change in ({"margin": 5}, {"samples": plan["samples"][:40]}, {"digest": "0"}):
        (tmp_path / "forged.json").write_text(
            json.dumps({**json.loads((tmp_path / "plan.json").read_text()), **change})
        )
        with pytest.raises(InputError, match="was changed later") as error:
            read_plan(str(tmp_path / "forged.json"))
        assert error.value.code == "REL-001"
    odd = {**plan, "margin": {}, "looks": [[]]}  # anyone who writes a plan can compute its digest
    assert changes(odd, plan)[0].startswith("the margin was declared as {} and is ")
    for text in ("{}", "[]", '{"schema": "assay.plan/1"}', '{"schema": "assay.grades/1"}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(InputError) as error:
            read_plan(str(tmp_path / "other.json"))
        assert error.value.code == "REL-001"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("margin", 2.0, "the margin was declared as 1 and is 2"),
        ("level", 0.9, "the level was declared as 0.95 and is 0.9"),
        ("min_pairs", 20, "the minimum of pairs was declared as 30 and is 20"),
        (
            "policy",
            "release-strict@1",
            "the policy was declared as release@1 and is release-strict@1",
        ),
        ("policy_digest", "sha256:0", "the content of the policy changed, and its name did not"),
        ("interval", "bounded", "the kind of interval was declared as student and is bounded"),
        ("looks", 3, "the number of looks was declared as 1 and is 3"),
        ("slices", ["tag"], "the slices were declared as none and are tag"),
    ],
)
def test_each_field_that_changed_is_named(field: str, value: Any, words: str) -> None:
    declared = {**RULES.declared(), "looks": 1, "slices": []}
    assert changes(declared, declared) == []
    assert changes(declared, {**declared, field: value}) == [words]


@pytest.mark.req("W-075")
def test_a_decision_says_whether_its_plan_was_kept(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "base.jsonl", cards(BASE))
    write(
        tmp_path / "cand.jsonl",
        cards([min(100, score + 2 + index % 2) for index, score in enumerate(BASE)]),
    )
    assert assay("gate", "--plan", "--baseline", "base.jsonl", "-o", "plan.json").code == 0
    kept = assay(
        "gate", "cand.jsonl", "--baseline", "base.jsonl", "--with-plan", "plan.json", "--json"
    ).json()
    assert (kept["outcome"], kept["plan"]["declared"], kept["plan"]["changed"]) == (
        "promote",
        True,
        [],
    )
    assert kept["plan"]["digest"] == json.loads((tmp_path / "plan.json").read_text())["digest"]
    arguments = (
        "gate",
        "cand.jsonl",
        "--baseline",
        "base.jsonl",
        "--with-plan",
        "plan.json",
        "--release-policy",
        "release-strict",
        "--slice",
        "tag",
    )
    done = assay(*arguments, "--json", "-o", "d.md")
    changed = done.json()["plan"]["changed"]
    assert len(changed) == 3
    assert any("release-strict@1" in one for one in changed)
    page, text = (tmp_path / "d.md").read_text(), assay(*arguments).out
    for one in changed:
        assert one in page
        assert one in text
    assert "CHANGED" in text
    undeclared = assay("gate", "cand.jsonl", "--baseline", "base.jsonl", "--json").json()["plan"]
    assert (undeclared["declared"], undeclared["changed"]) == (False, [])


@pytest.mark.req("X-63")
def test_the_samples_of_the_plan_are_the_set_that_is_decided_on(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "base.jsonl", cards(BASE))
    assay("gate", "--plan", "--baseline", "base.jsonl", "-o", "plan.json")
    write(tmp_path / "less.jsonl", cards(BASE)[:-1])
    # without the plan nobody would know that a sample was left away on both sides
    assert assay("gate", "less.jsonl", "--baseline", "less.jsonl").code == 0
    done = assay(
        "gate", "less.jsonl", "--baseline", "less.jsonl", "--with-plan", "plan.json", "--json"
    )
    assert (done.code, done.json()["outcome"], done.json()["missing"]["candidate"]) == (
        1,
        "reject",
        ["s-0059"],
    )
    write(tmp_path / "more.jsonl", cards([*BASE, 50.0]))
    more = assay(
        "gate", "more.jsonl", "--baseline", "base.jsonl", "--with-plan", "plan.json", "--json"
    ).json()
    assert (more["outcome"], more["unplanned"]) == ("promote", ["s-0060"])


def test_the_plan_says_in_words_what_it_takes(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "base.jsonl", cards(BASE))
    text = assay("gate", "--plan", "--sd", "4").out
    assert "needed      128 paired samples, if the true difference is +0" in text
    assert "161 samples show a failure that happens in 1% of cases" in text
    assert "which is NOT enough" in assay("gate", "--plan", "--baseline", "base.jsonl").out
    assert "which is enough" in assay("gate", "--plan", "--baseline", "base.jsonl", "--sd", "2").out
    assert (
        "no number of samples is enough"
        in assay("gate", "--plan", "--sd", "4", "--effect", "-2").out
    )
    assert "not known" in assay("gate", "--plan").out
    equal = ("base.jsonl", "--baseline", "base.jsonl")
    assert assay("gate", *equal).code == 0
    text = assay("gate", "--plan", *equal).out
    assert "0.00 points: from 60 paired samples, whose differences are all equal" in text
    assert "30 paired samples, if the true difference is +0\n            the policy's min" in text
    assert "60 samples, which is enough" in text
    assert assay("gate", "--plan", "--sd", "3", "--looks", "2").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("--sd", "0"),
        ("--sd", "200"),
        ("--power", "1"),
        ("--power", "0.1"),
        ("--effect", "300"),
        ("-o", "plan.md"),
        ("x.jsonl",),
        ("--sd", "nan"),
        ("--effect", "nan"),
    ],
)
def test_a_plan_for_nothing_possible_is_refused(assay: Any, arguments: tuple[str, ...]) -> None:
    done = assay("gate", "--plan", *arguments, "--json")
    assert (done.code, done.out) == (2, "")


def test_the_same_plan_has_the_same_digest() -> None:
    one, other = (
        make_plan(
            RULES,
            effect=0.0,
            power=0.8,
            spread=spread_of(side(cards(BASE))),
            looks=1,
            slices=slices,
            now=NOW,
            samples=names,
        )
        for slices, names in ((["tag", "family"], ["b", "a"]), (["family", "tag"], ["a", "b"]))
    )
    assert one == other


# --- simulations


@pytest.mark.req("X-63")
def test_a_candidate_that_is_worse_by_the_margin_is_promoted_in_at_most_five_of_a_hundred() -> None:
    import scipy

    rates = []
    for kind in campaign.KINDS:
        for n, often in ((30, repeats(20, 150)), (100, repeats(10, 60))):
            seen = campaign.simulate(kind, n, effect=-1.0, repeats=often)
            rates.append(seen.promoted)
            # so few repeats cannot tell 5% from 6%: no cell may be shown to be above, and the
            # campaign measures the ones that come near
            low, _ = scipy.stats.binomtest(round(seen.promoted * often), often).proportion_ci()
            assert low <= 0.05, seen
    assert sum(rates) / len(rates) <= 0.05


def test_one_that_is_as_good_is_rejected_hardly_ever() -> None:
    for kind in campaign.KINDS:
        assert campaign.simulate(kind, 50, effect=0.0, repeats=repeats(25, 100)).rejected <= 0.01


def test_the_power_is_as_planned() -> None:
    (plan, *_) = campaign.planned(repeats(150, 300), kinds=("normal, sd 2",), effects=(0.0,))
    assert (plan.needed, plan.promised) == (34, 0.8)
    assert plan.seen == pytest.approx(0.8, abs=0.07)


def test_with_looks_too_one_that_is_worse_by_the_margin_is_hardly_promoted() -> None:
    seen = campaign.simulate("normal, sd 2", 700, effect=-1.0, repeats=repeats(4, 20), looks=3)
    assert seen.promoted <= 0.1
