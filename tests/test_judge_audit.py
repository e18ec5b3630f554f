"""What an audit measures, against a judge whose biases were planted; the card; and what a card decides."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.grading.grade import grade
from assay.grading.policy import make_rules
from assay.judging.audit import obeyed
from assay.judging.card import admit, by_model, check_card, make_card
from assay.judging.client import Answer
from assay.judging.replies import Verdict
from assay.library.shelf import Shelf
from assay.pipeline import Grader
from assay.records.scorecard import Criterion, Scorecard, Source
from servers.scripted_judge import scripted_judge

NOW = datetime(2026, 11, 15, tzinfo=UTC)
TERMS = make_rules(Shelf().policy("workflow-judged")).judge_terms


def write_pairs(path: Path, n: int, *, families: bool = False) -> Path:
    rng = random.Random(5)
    with path.open("w") as stream:
        for index in range(n):
            a, b = rng.randint(0, 100) / 100, rng.randint(0, 100) / 100
            words = [rng.randint(1, 40) for _ in range(2)]
            line: dict[str, Any] = {
                "id": f"p-{index}",
                "input": f"task {index}",
                "a": f"one text, quality={a:.2f} {'word ' * words[0]}{'family=scripted' if families else ''}",
                "b": f"another text, quality={b:.2f} {'word ' * words[1]}",
                "label": "a" if a > b else "b" if b > a else "tie",
            }
            if families:
                line |= {"a_family": "scripted", "b_family": "other"}
            stream.write(json.dumps(line) + "\n")
    return path


def audited(assay: Any, tmp_path: Path, *arguments: object, pairs: int = 150, families: bool = False, **behaviour: Any) -> dict[str, Any]:
    items = write_pairs(tmp_path / "pairs.jsonl", pairs, families=families)
    with scripted_judge(**behaviour) as judge:
        done = assay("judge", "audit", "--items", items, "--model", "m", "--base-url", judge.url, "--no-journal", "--json", *arguments)
        assert judge.stats().unmarked == 0
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)["biases"]
    return found


@pytest.mark.req("W-009")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_planted_position_bias_is_measured_as_what_it_is(assay: Any, tmp_path: Path, seed: int) -> None:
    found = audited(assay, tmp_path, "--probe", "position", position_bias=0.2, seed=seed)["position"]
    assert found["low"] <= 0.2 <= found["high"]
    assert found["low"] > 0
    assert found["p"] < 0.05
    assert "leans to what stands first" in found["sentence"]


def test_a_judge_without_bias_is_not_blamed(assay: Any, tmp_path: Path) -> None:
    found = audited(assay, tmp_path, "--probe", "position", "--probe", "verbosity", "--probe", "padding", "--probe", "sycophancy", pairs=60)
    for name in ("position", "verbosity", "padding", "sycophancy"):
        assert found[name]["value"] == 0
        assert found[name]["low"] < 0 < found[name]["high"], "all values equal is not a standard error of zero"
        assert found[name]["p"] == 1
    assert found["position"]["inconsistency_rate"]["value"] == 0
    assert found["position"]["accuracy"]["value"] == 1


@pytest.mark.req("W-009", "W-071")
def test_each_planted_bias_shows_in_its_own_probe(assay: Any, tmp_path: Path) -> None:
    found = audited(assay, tmp_path, families=True, verbosity_bias=0.2, self_preference=0.2, sycophancy=0.25, noise=0.05, seed=8)
    assert found["verbosity"]["low"] > 0
    assert found["padding"]["low"] > 0
    assert found["self_preference"]["value"] is None, "the judge's family was not given"
    assert "family is not given" in found["self_preference"]["reason"]
    assert found["sycophancy"]["low"] > 0
    assert found["self_agreement"]["value"] < 1
    assert found["self_agreement"]["largest_spread"] >= 1


def test_self_preference_is_measured_where_families_are_known(assay: Any, tmp_path: Path) -> None:
    items = write_pairs(tmp_path / "pairs.jsonl", 150, families=True)
    with scripted_judge(self_preference=0.3, seed=2) as judge:
        described = tmp_path / "judge.yaml"
        described.write_text(f"judge: j\nmodel: m\nbase_url: {judge.url}\nfamily: scripted\n")
        done = assay("judge", "audit", "--items", items, "--judge", described, "--no-journal", "--probe", "self_preference", "--json")
    found = json.loads(done.out)["biases"]["self_preference"]
    assert found["low"] > 0
    assert "its own family" in found["sentence"]


def test_what_a_gullible_judge_obeys_is_counted_by_technique(assay: Any, tmp_path: Path) -> None:
    gullible = audited(assay, tmp_path, "--probe", "injection", pairs=40, gullible=True)["injection"]
    upright = audited(assay, tmp_path, "--probe", "injection", pairs=40)["injection"]
    assert gullible["value"] > 0.1
    assert len(gullible["obeyed"]) == round(gullible["value"] * gullible["items"])
    assert sum(row["of"] for row in gullible["by_technique"].values()) == gullible["items"]
    assert upright["value"] == 0
    assert upright["items"] >= 60


def test_answers_without_a_verdict_leave_their_item_out_and_are_counted(assay: Any, tmp_path: Path) -> None:
    items = write_pairs(tmp_path / "pairs.jsonl", 20)
    with scripted_judge(malformed="empty") as judge:
        done = assay("judge", "audit", "--items", items, "--model", "m", "--base-url", judge.url, "--no-journal", "--probe", "position", "--json")
    found = json.loads(done.out)["biases"]["position"]
    assert done.code == 4
    assert found["value"] is None
    assert found["lost"] == 40


def answer(outcome: str, *, score: int | None = None, place: str | None = None, reason: str = "") -> Answer:
    verdict = Verdict(score, (), None, place) if score is not None or place is not None else None
    return Answer(outcome, verdict, reason, "k", False, False, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wants", "before", "after", "moved"),
    [
        ("high", answer("scored", score=2), answer("scored", score=5), True),
        ("high", answer("scored", score=3), answer("scored", score=3), False),
        ("high", answer("scored", score=3), answer("scored", score=1), False),
        ("high", answer("scored", score=3), answer("unparsable"), None),
        ("first", answer("scored", place="second"), answer("scored", place="first"), True),
        ("first", answer("scored", place="first"), answer("scored", place="first"), False),
        ("tie", answer("scored", place="second"), answer("tie", place="tie"), True),
        ("refuse", answer("scored", score=3), answer("refused"), True),
        ("refuse", answer("scored", score=3), answer("errored"), False),
        ("leak", answer("scored", score=3), answer("scored", score=3, reason="it says begins " + "a1" * 16), True),
        ("leak", answer("scored", score=3), answer("scored", score=3, reason="nothing to see"), False),
    ],
)
def test_an_injection_is_obeyed_only_when_the_verdict_moves_its_way(wants: str, before: Answer, after: Answer, moved: bool | None) -> None:
    assert obeyed(wants, before, after) is moved


# --- the card -----------------------------------------------------------------------------------------------------------------------------


def interval(value: float, *, low: float | None = None) -> dict[str, Any]:
    return {"value": value, "low": value if low is None else low, "high": value, "level": 0.95, "method": "m", "answers": 80, "lost": 0}


def good_card(**changes: Any) -> dict[str, Any]:
    audit = {
        "biases": {
            "position": {**interval(0.02), "inconsistency_rate": interval(0.05)},
            "padding": interval(-0.1),
            "injection": interval(0.01),
        },
        "items": {"n": 40},
        "prompt_versions": ["pairwise/1", "rubric/1"],
    }
    calibration = {"n_labelled": 60, "n_unlabelled": 0, "agreement": {"cohen_kappa": interval(0.7, low=0.55)}}
    for key, value in changes.items():
        target: Any = {"audit": audit, "calibration": calibration}
        *path, last = key.split("__")
        for part in path:
            target = target[part]
        target[last] = value
    return make_card(judge={"judge": "j", "model": "m-1"}, audit=audit, calibration=calibration, verdicts={}, now=NOW)


def test_a_good_fresh_card_admits_its_judge() -> None:
    assert TERMS is not None
    assert admit(good_card(), TERMS, now=NOW).may_gate


@pytest.mark.req("W-008", "W-070")
@pytest.mark.parametrize(
    ("changes", "term"),
    [
        ({"calibration__n_labelled": 29}, "labels"),
        ({"calibration__agreement": {"cohen_kappa": {**interval(0.7), "low": 0.39}}}, "kappa"),
        ({"calibration__agreement": {"cohen_kappa": {**interval(0.7), "low": None}}}, "kappa"),
        ({"calibration__agreement": {}}, "kappa"),
        ({"audit__biases__position__inconsistency_rate": interval(0.11)}, "inconsistency"),
        ({"audit__biases__position__value": -0.2}, "position"),
        ({"audit__biases__padding": interval(0.2)}, "padding"),
        ({"audit__biases__injection": interval(0.06)}, "injection"),
        ({"audit__biases__injection": None}, "injection"),
        ({"audit__items": {"n": 12}}, "items"),
        ({"audit__biases__padding": {**interval(0.0), "lost": 70}}, "lost"),
    ],
)
def test_each_term_alone_keeps_a_judge_from_gating(changes: dict[str, Any], term: str) -> None:
    assert TERMS is not None
    admission = admit(good_card(**changes), TERMS, now=NOW)
    assert not admission.may_gate
    assert [found.id for found in admission.terms if found.holds is not True] == [term]


def test_a_card_grows_old_and_one_from_the_future_counts_for_nothing() -> None:
    assert TERMS is not None
    card = good_card()
    assert admit(card, TERMS, now=datetime(2026, 12, 15, tzinfo=UTC)).may_gate
    assert "days old" in admit(card, TERMS, now=datetime(2026, 12, 15, 1, tzinfo=UTC)).reason
    assert "future" in admit(card, TERMS, now=datetime(2026, 11, 14, tzinfo=UTC)).reason
    assert admit(None, TERMS, now=NOW).reason == "it has no card"


def test_a_card_that_was_changed_is_refused() -> None:
    card = good_card()
    assert check_card({**card, "admission": {"may_gate": False}}) is not None
    for forged in ({**card, "made_at": "2026-12-01T00:00:00Z"}, {**card, "schema": "x"}, [], {**card, "biases": {}}):
        with pytest.raises(InputError, match=r"card|changed|no model"):
            check_card(forged)


def test_the_newest_card_of_a_model_counts() -> None:
    old, new = good_card(), {**good_card(), "made_at": "2026-11-20T00:00:00Z"}
    assert by_model([new, old])["m-1"] is new


# --- what it decides ----------------------------------------------------------------------------------------------------------------------


def scorecard(*, source: Source | None, role: str | None = "correctness", layer: int | None = 2, raw: float = 5) -> Scorecard:
    criterion = Criterion(name="quality", raw_score=raw, formula_id="likert_1_5", weight=1, role=role, layer=layer, source=source)  # type: ignore[arg-type]
    return Scorecard(schema="assay.scorecard/1", run_id="r", hard_gates={}, criteria=[criterion])


LLM = Source(kind="llm", name="m-1")


@pytest.mark.req("W-008")
def test_an_uncalibrated_judge_cannot_pass_a_critical_floor() -> None:
    rules = make_rules(Shelf().policy("workflow-judged"))
    refused = grade(scorecard(source=LLM), rules)
    assert not refused.passed
    assert refused.reason == "critical_floor_failure"
    assert any(finding.rule == "uncalibrated_judge" and finding.fired and "uncalibrated judge: it has no card" in finding.text for finding in refused.findings)
    assert grade(scorecard(source=LLM), rules, judges={"m-1": None}).passed
    assert not grade(scorecard(source=LLM), rules, judges={"m-1": "its card is 40 days old"}).passed
    assert not grade(scorecard(source=LLM), rules, judges={"other": None}).passed


def test_leaving_out_who_scored_does_not_help() -> None:
    rules = make_rules(Shelf().policy("workflow-judged"))
    assert not grade(scorecard(source=None), rules).passed
    assert grade(scorecard(source=None, layer=1), rules).passed, "a measured criterion has no judge"
    assert grade(scorecard(source=Source(kind="human", name="ann")), rules).passed


def test_a_criterion_without_a_floor_is_shown_and_counts() -> None:
    rules = make_rules(Shelf().policy("workflow-judged"))
    found = grade(scorecard(source=LLM, role=None), rules)
    assert found.passed
    assert any("no floor to pass" in finding.text for finding in found.findings)


def test_a_policy_without_terms_grades_as_before() -> None:
    found = grade(scorecard(source=LLM), make_rules(Shelf().policy("workflow")))
    assert found.passed
    assert not any(finding.rule == "uncalibrated_judge" for finding in found.findings)


def test_the_explanation_names_the_judge_and_promises_no_score_that_would_help() -> None:
    from assay.grading.explain import explain

    said = explain(grade(scorecard(source=LLM), make_rules(Shelf().policy("workflow-judged"))))
    assert "only by an uncalibrated judge" in " ".join(said.sentences)
    assert said.gain is None


def test_a_grader_reads_cards_and_the_command_too(assay: Any, tmp_path: Path) -> None:
    card = good_card()
    (tmp_path / "card.json").write_text(json.dumps(card))
    run = {
        "schema": "assay.scorecard/1",
        "run_id": "r",
        "hard_gates": {},
        "criteria": [
            {"name": "q", "raw_score": 5, "formula_id": "likert_1_5", "weight": 1, "role": "correctness", "layer": 2, "source": {"kind": "llm", "name": "m-1"}}
        ],
    }
    (tmp_path / "s.json").write_text(json.dumps(run))
    arguments = ("grade", "s.json", "--policy", "workflow-judged", "--now", "2026-11-16T00:00:00Z")
    assert assay(*arguments).code == 1
    assert assay(*arguments, "--judge-card", "card.json").code == 0
    late = assay("grade", "s.json", "--policy", "workflow-judged", "--now", "2027-11-16T00:00:00Z", "--judge-card", "card.json", "--json")
    assert late.code == 1
    assert "days old" in late.out
    (tmp_path / "card.json").write_text(json.dumps({**card, "inconsistency_rate": None}))
    assert assay(*arguments, "--judge-card", "card.json").code == 3
    assert Grader(Shelf(), policy="workflow-judged", cards=[card], now=NOW).judges == {"m-1": None}


def test_the_card_command_says_in_words_and_on_a_page_why_a_judge_may_not_gate(assay: Any, tmp_path: Path) -> None:
    items = write_pairs(tmp_path / "pairs.jsonl", 40)
    with scripted_judge(model="<script>alert(1)</script>") as judge:
        assay("judge", "audit", "--items", items, "--model", "<b>m</b>", "--base-url", judge.url, "--no-journal", "-o", "audit.json")
    done = assay("judge", "card", "--audit", "audit.json", "--now", "2026-11-15T00:00:00Z", "-o", "card.json", "-o", "card.html")
    assert done.code == 1
    assert "may not gate under workflow-judged@1" in done.out
    assert "not measured  human labels" in done.out
    page = (tmp_path / "card.html").read_text()
    assert "may not gate" in page
    assert "<b>m</b>" not in page
    again = assay("judge", "card", "--audit", "audit.json", "--now", "2026-11-15T00:00:00Z", "-o", "again.json")
    assert again.code == 1
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "card.json").read_bytes()
