"""`assay rehearse`: a release policy on repeats of one version."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import assay as product
from assay.canon import pretty
from assay.errors import InputError, NotEnoughEvidence, UsageError
from assay.library.shelf import Shelf
from assay.records.rehearsal import Outcomes, Rehearsal
from assay.records.schemas import schema_faults
from assay.release.policy import Bars, ReleaseRules, make_release_rules
from assay.release.sides import Side
from assay.services.rehearse import Rehearsing, draw_repeats, rehearse
from deciding import broken, decided, side_of, system
from documents import scorecard

CHEAP = Rehearsing(releases=50)


def rules(name: str = "release", **bars: Any) -> ReleaseRules:
    return make_release_rules(Shelf().policy_of("release", name), Bars(**bars))


@cache
def suite(kind: str, n: int = 60, repeats: int = 5) -> Side:
    drawn = random.Random(f"{kind} {n}")
    return side_of(system(kind, n, drawn), repeats, drawn)


def rejected(outcomes: Outcomes) -> float:
    return outcomes.reject.value or 0.0


def promoted(outcomes: Outcomes) -> float:
    return outcomes.promote.value or 0.0


def planted(made: Rehearsal, kind: str, size: float) -> Outcomes:
    return next(one.outcomes for one in made.power if (one.kind, one.size) == (kind, size))


# --- what it finds


@pytest.mark.parametrize("kind", ["det", "mild", "llm", "agent"])
def test_a_version_against_itself_is_rejected_in_at_most_5_percent(kind: str) -> None:
    made = rehearse(suite(kind), rules(), Rehearsing(releases=80))
    assert rejected(made.same_version) <= 0.05
    assert made.same_version.releases == 80


def test_a_system_that_always_answers_the_same_is_always_promoted() -> None:
    made = rehearse(suite("det"), rules(), CHEAP)
    assert promoted(made.same_version) == 1
    assert made.same_version.fresh_runs.mean == 0


def test_planted_regressions_are_found() -> None:
    made = rehearse(suite("llm", 200), rules(), CHEAP)
    assert rejected(planted(made, "broken", 0.05)) >= 0.95
    assert promoted(planted(made, "broken", 0.05)) == 0
    assert rejected(planted(made, "broken", 0.02)) >= 0.9
    drops = [promoted(planted(made, "drop", points)) for points in (1.0, 3.0, 5.0)]
    assert drops == sorted(drops, reverse=True)
    assert drops[1] <= 0.1
    assert rejected(planted(made, "drop", 5.0)) > rejected(planted(made, "drop", 1.0))


def test_power_stands_next_to_false_alarms_for_each_planted_regression() -> None:
    made = rehearse(suite("llm"), rules(), CHEAP)
    assert [(one.kind, one.size) for one in made.power] == [
        ("broken", 0.02),
        ("broken", 0.05),
        ("drop", 1.0),
        ("drop", 3.0),
        ("drop", 5.0),
    ]
    assert all(one.outcomes.releases >= 50 for one in made.power)


def test_a_drop_of_more_than_the_mean_score_is_not_planted() -> None:
    side = suite("llm")
    low = {
        name: sample._replace(attempts=tuple(run._replace(score=200) for run in sample.attempts))
        for name, sample in side.samples.items()
    }
    made = rehearse(side._replace(samples=low), rules(), CHEAP)
    assert [one.size for one in made.power if one.kind == "drop"] == [1.0]


def test_a_broken_version_is_rejected_over_this_one_and_an_equal_one_is_not() -> None:
    drawn = random.Random(5)
    old = system("llm", 100, drawn)
    before, again = side_of(old, 3, drawn), side_of(old, 3, drawn, version="2")
    worse = side_of(broken(old, 0.1, drawn), 3, drawn, version="3")
    found = rehearse(before, rules(), CHEAP, other=worse)
    assert found.other_version
    assert rejected(found.other_version) >= 0.95
    assert rejected(found.same_version) <= 0.05
    equal = rehearse(before, rules(), CHEAP, other=again)
    assert equal.other_version
    assert rejected(equal.other_version) <= 0.1


def test_a_sample_that_the_other_version_lost_is_never_promoted() -> None:
    drawn = random.Random(6)
    old = system("det", 50, drawn)
    before, after = side_of(old, 3, drawn), side_of(old, 3, drawn, version="2")
    fewer = {name: one for name, one in after.samples.items() if name != "s0007"}
    found = rehearse(before, rules(), CHEAP, other=after._replace(samples=fewer))
    assert found.other_version
    assert promoted(found.other_version) == 0


# --- how releases are drawn


@pytest.mark.parametrize("runs", [(1, 1), (2, 2), (1, 4)])
def test_no_run_is_on_both_sides(runs: tuple[int, int]) -> None:
    drawn = random.Random(1)
    for _ in range(300):
        mine, other = draw_repeats(5, 5, runs, drawn, aligned=True)
        assert (len(mine), len(other)) == runs
        assert len({*mine, *other}) == sum(runs)
        assert {*mine, *other} <= set(range(5))


def test_each_pair_of_repeats_is_as_likely_as_any_other() -> None:
    drawn = random.Random(2)
    counts: dict[tuple[int, int], int] = {}
    for _ in range(6000):
        (mine,), (other,) = draw_repeats(3, 3, (1, 1), drawn, aligned=True)
        counts[mine, other] = counts.get((mine, other), 0) + 1
    assert len(counts) == 6
    assert all(850 < times < 1150 for times in counts.values())


def test_the_promoted_share_is_right_on_average() -> None:
    drawn = random.Random(8)
    one, policy = system("llm", 60, drawn), rules()
    limits = policy.limits._replace(margin=6.0)
    true = rehearsed = 0.0
    for number in range(40):
        for _ in range(4):
            true += decided(one, one, (1, 1), limits, drawn)[0] == "promote"
        side = side_of(one, 3, drawn)
        made = rehearse(side, policy._replace(limits=limits), Rehearsing(releases=4, seed=number))
        rehearsed += 4 * promoted(made.same_version)
    assert 0.2 < true / 160 < 0.9
    assert rehearsed == pytest.approx(true, abs=20)


def test_a_seed_gives_the_same_rehearsal_and_another_seed_another_one() -> None:
    first, again, other = (
        rehearse(suite("llm"), rules(), Rehearsing(releases=40, seed=seed)) for seed in (1, 1, 2)
    )
    assert pretty(first) == pretty(again)
    assert first.digests["rehearsal"] != other.digests["rehearsal"]


def test_confirmation_uses_further_repeats_and_says_how_much_is_modelled() -> None:
    few, many = (
        rehearse(suite("llm", 60, repeats), rules(), CHEAP).same_version.fresh_runs
        for repeats in (2, 20)
    )
    assert few.drawn == 0
    assert few.modelled > 0
    assert many.modelled == 0
    assert many.drawn > 0
    assert 0 < many.mean <= many.p95


def test_fresh_runs_are_not_made_by_a_policy_that_takes_none() -> None:
    base = rules()
    never = base._replace(limits=base.limits._replace(confirm=False))
    assert rehearse(suite("llm"), never, CHEAP).same_version.fresh_runs.p95 == 0


def test_a_minimum_pass_rate_counts_as_it_does_at_the_gate() -> None:
    made = rehearse(suite("llm"), rules(min_pass_rate=0.99), CHEAP)
    assert rejected(made.same_version) == 1
    assert made.same_version.rules["pass_rate"].violated == 1


# --- what else it says


def test_the_spread_between_suites_covers_the_share_and_is_labelled() -> None:
    made = rehearse(suite("llm", 200), rules(), CHEAP)
    assert made.spread.promote is not None
    low, high = made.spread.promote
    assert low < promoted(made.same_version) < high
    assert "halves" in made.spread.method
    assert rehearse(suite("llm"), rules("regression"), CHEAP).spread.promote is None


def _with_severe(side: Side, places: dict[str, list[bool]]) -> Side:
    from deciding import PASS, SEVERE

    samples = dict(side.samples)
    for name, failing in places.items():
        samples[name] = samples[name]._replace(
            attempts=tuple(
                run._replace(failed=run.failed | {SEVERE, PASS}, severe=frozenset((SEVERE,)))
                if fails
                else run
                for run, fails in zip(samples[name].attempts, failing, strict=True)
            )
        )
    return side._replace(samples=samples)


def test_severe_gates_that_fail_at_random_are_named() -> None:
    side = _with_severe(
        suite("det"), {"s0001": [True, False, False, True, False], "s0002": [True] * 5}
    )
    (found,) = rehearse(side, rules(), CHEAP).severe_by_chance
    assert (found.check, found.samples) == ("gate sandbox", 1)
    assert found.failing_runs == pytest.approx(7 / 300)


def test_a_severe_failure_is_planted_where_a_gate_of_the_suite_is_severe() -> None:
    base = rules()
    made = rehearse(suite("llm"), base._replace(severe_gates=frozenset(("sandbox",))), CHEAP)
    severe = [one for one in made.power if one.kind == "severe"]
    assert [one.samples for one in severe] == [1]
    assert rejected(severe[0].outcomes) >= 0.95
    assert any("no gate" in text for text in rehearse(suite("llm"), base, CHEAP).warnings)


def test_repeats_that_are_equal_byte_for_byte_are_called_cached() -> None:
    side = suite("det")
    same = {name: sample._replace(behaviours=(b"x",) * 5) for name, sample in side.samples.items()}
    found = rehearse(side._replace(samples=same), rules(), CHEAP)
    assert any("cache" in text for text in found.warnings)
    assert not any("cache" in text for text in rehearse(side, rules(), CHEAP).warnings)


def test_small_suites_and_samples_with_one_run_are_warned_of() -> None:
    side = suite("llm", 20)
    samples = dict(side.samples)
    one = samples["s0003"]
    samples["s0003"] = one._replace(attempts=one.attempts[:1], announced=1)
    made = rehearse(side._replace(samples=samples), rules(), CHEAP)
    assert made.evaluation.samples == 19
    assert any("19 samples say little" in text for text in made.warnings)
    assert any("1 sample with a single run was left out: s0003" in text for text in made.warnings)
    assert made.same_version.not_enough_evidence.value == pytest.approx(
        1 - rejected(made.same_version)
    )


def test_what_a_rehearsal_cannot_see_is_listed() -> None:
    assert any("Drift" in text for text in rehearse(suite("det"), rules(), CHEAP).unseen)


# --- the recommendation


def test_a_noisy_suite_is_told_how_many_runs_it_takes() -> None:
    made = rehearse(suite("llm", 100), rules(), Rehearsing(releases=60, recommend=True))
    advice = made.recommendation
    assert advice
    enough = [one for one in advice.options if one.promoted >= 0.75]
    assert enough
    assert min(one.candidate_runs + one.baseline_runs for one in enough) > 2
    assert {one.rehearsed for one in advice.options} == {True, False}
    assert advice.margin is not None
    assert advice.margin > 3
    assert any("--tolerance" in command for command in advice.commands)
    assert any("regression@1" in text for text in advice.sentences)


def test_a_quiet_suite_is_told_that_one_run_is_enough() -> None:
    made = rehearse(suite("det"), rules(), Rehearsing(releases=60, recommend=True))
    assert made.recommendation
    assert made.recommendation.policy == "release@1"
    assert any("one run of each sample will do" in text for text in made.recommendation.sentences)


# --- bad input


def test_one_run_of_each_sample_is_refused_with_what_to_run() -> None:
    with pytest.raises(NotEnoughEvidence, match="one run of each") as caught:
        rehearse(suite("llm", 40, 1), rules(), CHEAP)
    assert "assay run --repeat 5" in str(caught.value)


def test_repeats_of_one_sample_are_refused() -> None:
    side = suite("llm")
    one = side._replace(samples={"s0000": side.samples["s0000"]})
    with pytest.raises(NotEnoughEvidence, match="one sample only"):
        rehearse(one, rules(), CHEAP)


def test_runs_of_two_versions_are_refused() -> None:
    mixed = suite("llm")._replace(versions={"bot": frozenset(("1", "2"))})
    with pytest.raises(InputError, match="2 versions of bot"):
        rehearse(mixed, rules(), CHEAP)
    with pytest.raises(InputError, match="2 versions of bot"):
        rehearse(suite("llm"), rules(), CHEAP, other=mixed)


def test_another_version_without_a_shared_sample_is_refused() -> None:
    side = suite("llm")
    other = {f"x{name}": one for name, one in side.samples.items()}
    with pytest.raises(NotEnoughEvidence, match="shares no sample"):
        rehearse(side, rules(), CHEAP, other=side._replace(samples=other))


def test_another_version_that_was_graded_by_something_else_is_refused() -> None:
    side = suite("llm")
    other = side._replace(fingerprint={**side.fingerprint, "profile": ["other@1"]})
    with pytest.raises(InputError, match="cannot be compared"):
        rehearse(side, rules(), CHEAP, other=other)


def test_a_deterministic_policy_is_refused_where_repeats_disagree() -> None:
    base = rules()
    strict = base._replace(limits=base.limits._replace(deterministic=True))
    with pytest.raises(InputError, match="deterministic"):
        rehearse(suite("llm"), strict, CHEAP)
    assert promoted(rehearse(suite("det"), strict, CHEAP).same_version) == 1


@pytest.mark.parametrize("releases", [0, -1, 10**9])
def test_a_number_of_releases_out_of_range_is_refused(releases: int) -> None:
    with pytest.raises(UsageError, match="releases"):
        rehearse(suite("llm"), rules(), Rehearsing(releases=releases))


# --- the command


def _write(path: Path, *, n: int = 40, repeats: int = 4, seed: int = 1, worse: int = 0) -> Path:
    """Scorecards of a bot that is right most of the time; of some samples never."""
    drawn, often = random.Random(seed), random.Random(3)
    lines = []
    for place in range(n):
        p = often.choice((1.0, 1.0, 0.8))
        for number in range(1, repeats + 1):
            right = drawn.random() < p and place >= worse
            card = scorecard(
                {"name": "correct", "raw_score": int(right), "formula_id": "binary"},
                run_id=f"r-{seed}-{place}-{number}",
                sample_id=f"q{place:03}",
                attempt=number,
            )
            lines.append(json.dumps(card, default=float))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_command_prints_a_valid_document_and_exits_0(tmp_path: Path, assay: Any) -> None:
    _write(tmp_path / "runs.jsonl")
    made = assay("rehearse", "runs.jsonl", "--releases", "30", "--recommend", "--json")
    assert made.code == 0, made.err
    tree = made.json()
    assert tree["schema"] == "assay.rehearsal/1"
    assert list(schema_faults(Rehearsal, tree)) == []
    assert tree["evaluation"]["samples"] == 40
    assert tree["digests"].keys() == {"policy", "evidence", "rehearsal"}
    schema = assay("schema-of", "rehearsal")
    assert schema.code == 0
    assert "same_version" in schema.json()["properties"]


def test_every_form_shows_the_shares(tmp_path: Path, assay: Any) -> None:
    _write(tmp_path / "runs.jsonl")
    _write(tmp_path / "next.jsonl", seed=2, worse=8)
    words = ["rehearse", "runs.jsonl", "next.jsonl", "--releases", "20"]
    made = assay(*words, "-o", "r.md", "-o", "r.html", "-o", "r.json")
    assert made.code == 0, made.err
    tree = json.loads((tmp_path / "r.json").read_text())
    share = f"{100 * tree['same_version']['promote']['value']:.1f}%"
    for text in (made.out, (tmp_path / "r.md").read_text(), (tmp_path / "r.html").read_text()):
        assert share in text
        assert "next.jsonl" in text
        assert "Drift between days" in text
    assert tree["other_version"]["reject"]["value"] >= 0.95
    assert "data:image/svg+xml" in (tmp_path / "r.html").read_text()
    assert "░" in made.out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["one.jsonl"], 4, "assay run --repeat 5"),
        (["runs.jsonl", "--release-policy", "relase"], 3, "release"),
        (["runs.jsonl", "--tolerance", "101"], 2, "from 0 to 100"),
        (["runs.jsonl", "--releases", "0"], 2, "at least 1"),
        (["runs.jsonl", "-o", "runs.jsonl"], 2, "overwritten"),
        (["runs.jsonl", "-o", "r.csv"], 2, ".csv"),
        (["absent.jsonl"], 3, "absent.jsonl"),
        ([], 2, "EVALUATION"),
    ],
)
def test_bad_input_is_named(
    tmp_path: Path, assay: Any, arguments: list[str], code: int, says: str
) -> None:
    _write(tmp_path / "runs.jsonl")
    _write(tmp_path / "one.jsonl", repeats=1)
    made = assay("rehearse", *arguments)
    assert made.code == code, made.err
    assert says in made.err
    assert "Traceback" not in made.err


def test_a_rehearsal_can_be_stored(tmp_path: Path, assay: Any) -> None:
    _write(tmp_path / "runs.jsonl")
    db = f"sqlite:///{tmp_path}/ledger.db"
    assert assay("rehearse", "runs.jsonl", "--releases", "10", "--store", db).code == 0
    checked = assay("ledger", "verify", "--db", db)
    assert checked.code == 0, checked.err


def test_python_has_the_same_rehearsal(tmp_path: Path, assay: Any) -> None:
    path = _write(tmp_path / "runs.jsonl")
    found = product.rehearse(str(path), releases=20, seed=4)
    printed = assay("rehearse", str(path), "--releases", "20", "--seed", "4", "--json").json()
    assert json.loads(found.document()) == printed
    assert "promotes this version" in str(found)
