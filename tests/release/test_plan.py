"""Plans: what the baseline's noise says about how many samples and runs a decision takes, what is
declared before, and what changed after.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.errors import InputError
from assay.release.plan import changes, expectation_of, make_plan, noise_of, read_plan, shown_by
from assay.release.sides import pair_up
from sides import DETERMINISTIC, RULES, again, cards, decide, drawn, side, write

NOW = datetime(2026, 11, 15, 10, tzinfo=UTC)
BASE = drawn(60, seed=7, low=75)


# --- noise, and what it lets a suite show


def repeated(n: int, times: int, noise: float, *, name: str = "b") -> list[dict[str, Any]]:
    drawn_noise = random.Random(5)
    made = []
    for one in cards([85.0] * n):
        for run in again(one, times, name=name):
            raw = 0.85 + drawn_noise.uniform(-noise, noise)
            run["criteria"] = [{**one["criteria"][0], "raw_score": round(raw, 4)}]
            made.append(run)
    return made


def test_the_noise_comes_from_repeats_of_the_baseline_and_is_assumed_without_them() -> None:
    found = side(repeated(40, 3, 0.05)).samples
    noise = noise_of([sample.observed for sample in found.values()])
    scores = np.array([[run.score / 100 for run in one.attempts] for one in found.values()])
    assert noise is not None
    assert noise.scores == pytest.approx(scores.var(axis=1, ddof=1).mean())
    assert (noise.assumed, noise.samples) == (False, 40)
    plain = noise_of([sample.observed for sample in side(cards(BASE)).samples.values()])
    assert plain is not None
    assert plain.scores == pytest.approx(np.var(BASE, ddof=1), rel=1e-3)
    assert plain.assumed
    assert noise_of([sample.observed for sample in side(cards([80])).samples.values()]) is None


def test_more_runs_and_more_samples_show_more() -> None:
    noise = noise_of([one.observed for one in side(repeated(40, 3, 0.15)).samples.values()])
    assert noise is not None
    by_runs = [shown_by(noise, 60, (k, k), RULES.limits) for k in (1, 2, 5)]
    by_size = [shown_by(noise, n, (1, 1), RULES.limits) for n in (60, 200, 800)]
    banked = [shown_by(noise, 60, (1, k), RULES.limits) for k in (1, 5)]
    for row in (by_runs, by_size, banked):
        promoted = [shown.same_version_promoted for shown in row]
        losses = [shown.smallest_loss for shown in row]
        assert promoted == sorted(promoted)
        assert losses == sorted(losses, reverse=True)


def test_the_noise_of_a_candidate_changes_nothing_of_what_a_suite_can_show() -> None:
    baseline = side(repeated(60, 3, 0.05))
    shown = [
        expectation_of(pair_up(side(repeated(60, 3, noise, name="c")), baseline), RULES.limits)
        for noise in (0.0, 0.05, 0.15)
    ]
    assert shown[0] == shown[1] == shown[2]
    assert not shown[0].assumed


def test_what_a_decision_expects_of_the_same_version_is_what_happens() -> None:
    """Within what few simulated releases can tell."""
    promoted, stated = 0, []
    for seed in range(20):
        noise = random.Random(seed)

        def one_side(name: str, noise: random.Random = noise) -> list[dict[str, Any]]:
            made = repeated(60, 2, 0.0, name=name)
            for run in made:
                raw = round(0.85 + noise.gauss(0, 0.055), 4)
                run["criteria"] = [{**run["criteria"][0], "raw_score": min(1, max(0.71, raw))}]
            return made

        found = decide(one_side("c"), one_side("b"))
        promoted += found.outcome == "promote"
        assert found.expectation.same_version_promoted is not None
        stated.append(found.expectation.same_version_promoted)
    assert promoted / 20 == pytest.approx(sum(stated) / 20, abs=0.35)


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
        "noise",
        "shown",
        "samples_for",
        "confirmation",
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
        ("margin", 2.0, "the margin was declared as 3 and is 2"),
        ("level", 0.9, "the level was declared as 0.95 and is 0.9"),
        ("min_pairs", 20, "the minimum of pairs was declared as 30 and is 20"),
        (
            "policy",
            "release-strict@1",
            "the policy was declared as release@1 and is release-strict@1",
        ),
        ("policy_digest", "sha256:0", "the content of the policy changed, and its name did not"),
        ("interval", "bounded", "the kind of interval was declared as student and is bounded"),
        ("looks", 3, "the number of looks was declared as 2 and is 3"),
        ("slices", ["tag"], "the slices were declared as none and are tag"),
    ],
)
def test_each_field_that_changed_is_named(field: str, value: Any, words: str) -> None:
    declared = {**RULES.declared(), "slices": []}
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
        "hold",
        ["s-0059"],
    )
    write(tmp_path / "more.jsonl", cards([*BASE, 50.0]))
    more = assay(
        "gate", "more.jsonl", "--baseline", "base.jsonl", "--with-plan", "plan.json", "--json"
    ).json()
    assert (more["outcome"], more["unplanned"]) == ("promote", ["s-0060"])


def test_the_plan_says_in_words_what_it_takes(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "base.jsonl", repeated(60, 3, 0.08))
    text = assay("gate", "--plan", "--baseline", "base.jsonl").out
    assert "plan under release@1: margin 3 points, at least 30 pairs, up to 2 looks" in text
    assert "<- enough" in text
    made = assay("gate", "--plan", "--baseline", "base.jsonl", "--json").json()
    rows = {(row["candidate_runs"], row["baseline_runs"]): row for row in made["shown"]}
    assert rows[1, 3]["banked"]
    assert rows[1, 3]["runs"] == 60
    assert rows[1, 1]["same_version_promoted"] < rows[3, 3]["same_version_promoted"]
    assert made["confirmation"]["repeats"] == 3  # the baseline agrees with itself
    assert made["noise"]["assumed"] is False
    assert assay("gate", "--plan").code == 0


@pytest.mark.parametrize(
    "arguments", [("-o", "plan.md"), ("x.jsonl",), ("--sd", "4"), ("--effect", "1")]
)
def test_a_plan_for_nothing_possible_is_refused(assay: Any, arguments: tuple[str, ...]) -> None:
    done = assay("gate", "--plan", *arguments, "--json")
    assert (done.code, done.out) == (2, "")


def test_the_same_plan_has_the_same_digest() -> None:
    baseline = side(cards(BASE))
    names = list(baseline.samples)
    one, other = (
        make_plan(RULES, slices=slices, now=NOW, baseline=baseline, samples=samples)
        for slices, samples in ((["tag", "family"], names), (["family", "tag"], names[::-1]))
    )
    assert one == other
    assert make_plan(DETERMINISTIC, slices=[], now=NOW, baseline=baseline, samples=names)[
        "confirmation"
    ] == {"repeats": 0, "suspects_by_chance": None}
