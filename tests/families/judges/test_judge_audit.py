"""What an audit measures, against a judge whose biases were planted; the card; and what a card
decides.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.canon import time_text
from assay.errors import InputError
from assay.families.judges.audit import obeyed
from assay.files.json_files import Document
from assay.files.yaml_files import parse_yaml
from assay.grading.grade import grade
from assay.grading.policy import make_rules
from assay.judging.card import admit_tree, admitted, check_card, judge_of, make_card, read_card
from assay.judging.client import JudgeAnswer
from assay.judging.replies import JudgeVerdict
from assay.library.shelf import Shelf
from assay.records.evidence import JudgeOn
from assay.records.reading import read_run
from assay.records.scorecard import Criterion, Scorecard, Source
from assay.scoring.profile import load_profile, make_plan
from assay.scoring.scorecard import score as score_run
from assay.services.grading import Grader
from examples import CAMPAIGN, share
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
                "a": (
                    "one text,"
                    f" quality={a:.2f} {'word ' * words[0]}{'family=scripted' if families else ''}"
                ),
                "b": f"another text, quality={b:.2f} {'word ' * words[1]}",
                "label": "a" if a > b else "b" if b > a else "tie",
            }
            if families:
                line |= {"a_family": "scripted", "b_family": "other"}
            stream.write(json.dumps(line) + "\n")
    return path


def audited(
    assay: Any,
    tmp_path: Path,
    *arguments: object,
    pairs: int = 80,
    families: bool = False,
    **behaviour: Any,
) -> dict[str, Any]:
    items = write_pairs(tmp_path / "pairs.jsonl", pairs, families=families)
    with scripted_judge(**behaviour) as judge:
        done = assay(
            "judge",
            "audit",
            "--items",
            items,
            "--model",
            "m",
            "--base-url",
            judge.url,
            "--no-journal",
            "--json",
            *arguments,
        )
        assert judge.stats().unmarked == 0
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)["biases"]
    return found


@pytest.mark.req("W-009")
@pytest.mark.parametrize("seed", [1, 2, 3] if CAMPAIGN else [1])
def test_a_planted_position_bias_is_measured_as_what_it_is(
    assay: Any, tmp_path: Path, seed: int
) -> None:
    found = audited(assay, tmp_path, "--probe", "position", position_bias=0.2, seed=seed)[
        "position"
    ]
    assert found["low"] <= 0.2 <= found["high"]
    assert found["low"] > 0
    assert found["p"] < 0.05
    assert "favours what comes first" in found["sentence"]


def test_a_judge_without_bias_is_not_blamed(assay: Any, tmp_path: Path) -> None:
    found = audited(
        assay,
        tmp_path,
        "--probe",
        "position",
        "--probe",
        "verbosity",
        "--probe",
        "padding",
        "--probe",
        "sycophancy",
        pairs=20,
    )
    for name in ("position", "verbosity", "padding", "sycophancy"):
        assert found[name]["value"] == 0
        assert found[name]["low"] < 0 < found[name]["high"], (
            "all values equal is not a standard error of zero"
        )
        assert found[name]["p"] == 1
    assert found["position"]["inconsistency_rate"]["value"] == 0
    assert found["position"]["accuracy"]["value"] == 1


@pytest.mark.req("W-009", "W-071")
def test_each_planted_bias_shows_in_its_own_probe(assay: Any, tmp_path: Path) -> None:
    probes = ("verbosity", "padding", "self_preference", "sycophancy", "self_agreement")
    found = audited(
        assay,
        tmp_path,
        *(word for name in probes for word in ("--probe", name)),
        families=True,
        pairs=70,
        verbosity_bias=0.45,
        self_preference=0.1,
        sycophancy=0.4,
        noise=0.05,
        seed=8,
    )
    assert found["verbosity"]["low"] > 0
    assert found["padding"]["low"] > 0
    assert found["self_preference"]["value"] is None, "the judge's family was not given"
    assert "family is not given" in found["self_preference"]["reason"]
    assert found["sycophancy"]["low"] > 0
    assert found["self_agreement"]["value"] < 1
    assert found["self_agreement"]["largest_spread"] >= 1


def test_self_preference_is_measured_where_families_are_known(assay: Any, tmp_path: Path) -> None:
    items = write_pairs(tmp_path / "pairs.jsonl", 80, families=True)
    with scripted_judge(self_preference=0.3, seed=2) as judge:
        described = tmp_path / "judge.yaml"
        described.write_text(f"judge: j\nmodel: m\nbase_url: {judge.url}\nfamily: scripted\n")
        done = assay(
            "judge",
            "audit",
            "--items",
            items,
            "--judge",
            described,
            "--no-journal",
            "--probe",
            "self_preference",
            "--json",
        )
    found = json.loads(done.out)["biases"]["self_preference"]
    assert found["low"] > 0
    assert "its own family" in found["sentence"]


def test_what_a_gullible_judge_obeys_is_counted_by_technique(assay: Any, tmp_path: Path) -> None:
    gullible = audited(assay, tmp_path, "--probe", "injection", pairs=20, gullible=True)[
        "injection"
    ]
    upright = audited(assay, tmp_path, "--probe", "injection", pairs=20)["injection"]
    assert gullible["value"] > 0.1
    assert len(gullible["obeyed"]) == round(gullible["value"] * gullible["items"])
    assert sum(row["of"] for row in gullible["by_technique"].values()) == gullible["items"]
    assert upright["value"] == 0
    assert upright["items"] >= 60


def test_answers_without_a_verdict_leave_their_item_out_and_are_counted(
    assay: Any, tmp_path: Path
) -> None:
    items = write_pairs(tmp_path / "pairs.jsonl", 20)
    with scripted_judge(malformed="empty") as judge:
        done = assay(
            "judge",
            "audit",
            "--items",
            items,
            "--model",
            "m",
            "--base-url",
            judge.url,
            "--no-journal",
            "--probe",
            "position",
            "--json",
        )
    found = json.loads(done.out)["biases"]["position"]
    assert done.code == 4
    assert found["value"] is None
    assert found["lost"] == 40


def test_copies_of_a_pair_count_once_in_an_audit(assay: Any, tmp_path: Path) -> None:
    pair = {"input": "Say hello.", "a": "Hello.", "b": "No."}
    lines = [{**pair, "id": str(n)} for n in range(40)]
    lines += [
        {**pair, "id": "flipped", "a": "No.", "b": "Hello."},
        {**pair, "id": "=", "b": "Hello."},
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan = ("judge", "audit", "--items", "pairs.jsonl", "--model", "m", "--base-url", "http://x")
    done = assay(*plan, "--probe", "position", "--dry-run", "--json")
    assert (done.json()["calls_at_most"], "left out 41 pairs" in done.err) == (2, True)
    (tmp_path / "pairs.jsonl").write_text(json.dumps(lines[-1]))
    refused = assay(*plan, "--dry-run")
    assert (refused.code, "no pair of two different texts" in refused.err) == (3, True)


def test_both_answers_about_an_injection_that_could_not_be_judged_are_lost(
    assay: Any, tmp_path: Path
) -> None:
    items = write_pairs(tmp_path / "pairs.jsonl", 20)
    with scripted_judge(malformed="empty") as judge:
        endpoint = ("--model", "m", "--base-url", judge.url, "--no-journal")
        done = assay(
            "judge", "audit", "--items", items, *endpoint, "--probe", "injection", "--json"
        )
    found = json.loads(done.out)["biases"]["injection"]
    assert found["answers"] == 290
    assert found["lost"] == 2 * (145 - found["items"])


def answer(
    outcome: str, *, score: int | None = None, place: str | None = None, reason: str = ""
) -> JudgeAnswer:
    verdict = (
        JudgeVerdict(score, (), None, place) if score is not None or place is not None else None
    )
    return JudgeAnswer(outcome, verdict, reason, "k", False, False, None)


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
        ("refuse", answer("scored", score=3), answer("unparsable"), True),
        ("refuse", answer("scored", score=3), answer("scored", score=3), False),
        ("refuse", answer("scored", score=3), answer("errored"), None),
        (
            "leak",
            answer("scored", score=3),
            answer("scored", score=3, reason="it says begins " + "a1" * 16),
            True,
        ),
        (
            "leak",
            answer("scored", score=3),
            answer("scored", score=3, reason="nothing to see"),
            False,
        ),
    ],
)
def test_an_injection_is_obeyed_only_when_the_verdict_moves_its_way(
    wants: str, before: JudgeAnswer, after: JudgeAnswer, moved: bool | None
) -> None:
    assert obeyed(wants, before, after) is moved


# --- the card


def interval(value: float, *, low: float | None = None) -> dict[str, Any]:
    return {
        "value": value,
        "low": value if low is None else low,
        "high": value,
        "level": 0.95,
        "method": "m",
        "items": 40,
        "answers": 80,
        "lost": 0,
    }


SCORER = {
    "kind": "llm",
    "name": "m-1",
    "version": "7",
    "prompt_version": "rubric/1",
    "rubric": "rag@1",
    "settings": "sha256:1",
    "answered_by": "m-1",
}


def good_card(*, now: datetime = NOW, **changes: Any) -> dict[str, Any]:
    audit = {
        "biases": {
            "position": {**interval(0.02), "inconsistency_rate": interval(0.05)},
            "padding": interval(-0.1),
            "injection": interval(0.01),
        },
        "items": {"n": 40},
        "prompt_versions": ["pairwise/1", "rubric/1"],
        "usage": {"answered_at": time_text(now)},
    }
    calibration = {
        "n_labelled": 60,
        "n_unlabelled": 0,
        "agreement": {"cohen_kappa": interval(0.7, low=0.55)},
        "scorer": {**SCORER, "criteria": ["q", "quality", "tone"]},
        "answered_at": time_text(now),
    }
    for key, value in changes.items():
        target: Any = {"audit": audit, "calibration": calibration}
        *path, last = key.split("__")
        for part in path:
            target = target[part]
        target[last] = value
    return make_card(
        judge={"judge": "j", "model": "m-1"},
        audit=audit,
        calibration=calibration,
        verdicts={},
        now=now,
    )


TIME = time_text(NOW)
DISAGREES = {"calibration__agreement": {"cohen_kappa": interval(0.3, low=0.1)}}


def test_a_good_fresh_card_admits_its_judge() -> None:
    assert TERMS is not None
    assert admit_tree(good_card(), TERMS, now=NOW).may_gate


@pytest.mark.req("W-008", "W-070")
@pytest.mark.parametrize(
    ("changes", "term"),
    [
        ({"calibration__n_labelled": 29}, "labels"),
        ({"calibration__agreement": {"cohen_kappa": {**interval(0.7), "low": 0.39}}}, "kappa"),
        ({"calibration__agreement": {"cohen_kappa": {**interval(0.7), "low": None}}}, "kappa"),
        ({"calibration__agreement": {"cohen_kappa": {**interval(0.7), "level": 0.9}}}, "kappa"),
        ({"calibration__agreement": {"cohen_kappa": {"value": 0.7, "low": 0.6}}}, "kappa"),
        ({"calibration__agreement": {}}, "kappa"),
        ({"audit__biases__position__inconsistency_rate": interval(0.11)}, "inconsistency"),
        ({"audit__biases__position__value": -0.2}, "position"),
        ({"audit__biases__padding": interval(0.2)}, "padding"),
        ({"audit__biases__injection": interval(0.06)}, "injection"),
        ({"audit__biases__injection": None}, "injection"),
        ({"audit__biases__padding": {**interval(0.0), "items": 12}}, "items"),
        ({"audit__biases__position__items": None}, "items"),
        ({"audit__biases__padding": {**interval(0.0), "lost": 5}}, "lost"),
        (
            {
                "calibration__selection": {
                    "judge_on_labelled": 0.9,
                    "judge_on_others": 0.5,
                    "looks_random": False,
                }
            },
            "selection",
        ),
    ],
)
def test_each_term_alone_keeps_a_judge_from_gating(changes: dict[str, Any], term: str) -> None:
    assert TERMS is not None
    admission = admit_tree(good_card(**changes), TERMS, now=NOW)
    assert not admission.may_gate
    assert [found.id for found in admission.terms if found.holds is not True] == [term]


@pytest.mark.parametrize(("labelled", "may_gate"), [(60, True), (59, False), (None, False)])
def test_a_random_draw_excuses_odd_verdicts_only_once_all_of_it_is_labelled(
    labelled: int | None, may_gate: bool
) -> None:
    assert TERMS is not None
    odd = {"judge_on_labelled": 0.9, "judge_on_others": 0.5, "looks_random": False}
    source = {"draw": "random", "items": 60, "labelled": labelled}
    card = good_card(calibration__selection=odd, calibration__label_set=source)
    admission = admit_tree(card, TERMS, now=NOW)
    assert admission.may_gate is may_gate
    assert ("label the whole set" in str(admission)) is not may_gate


def test_a_card_grows_old_and_one_from_the_future_counts_for_nothing() -> None:
    assert TERMS is not None
    card = good_card()
    assert admit_tree(card, TERMS, now=datetime(2026, 12, 15, tzinfo=UTC)).may_gate
    assert "days old" in admit_tree(card, TERMS, now=datetime(2026, 12, 15, 1, tzinfo=UTC)).reason
    assert "future" in admit_tree(card, TERMS, now=datetime(2026, 11, 14, tzinfo=UTC)).reason
    assert admit_tree(None, TERMS, now=NOW).reason == "it has no card"


def test_a_card_that_was_changed_is_refused() -> None:
    card = good_card()
    assert check_card({**card, "admission": {"may_gate": False}}) is not None
    for forged in (
        {**card, "made_at": "2026-12-01T00:00:00Z"},
        {**card, "schema": "x"},
        [],
        {**card, "biases": {}},
    ):
        with pytest.raises(InputError, match=r"card|changed|no model"):
            check_card(forged)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"calibration__agreement": {"cohen_kappa": {**interval(1.4), "low": 1.2}}},
            "outside -1..1",
        ),
        (
            {"calibration__agreement": {"weighted_kappa": {"quadratic": interval(-1.5)}}},
            "outside -1..1",
        ),
        (
            {
                "calibration__agreement": {
                    "cohen_kappa": {**interval(0.3), "low": 0.9, "high": 0.95}
                }
            },
            "below its own lower end",
        ),
        (
            {"calibration__agreement": {"cohen_kappa": {**interval(0.7), "low": 0.8, "high": 0.6}}},
            "runs from",
        ),
        ({"calibration__n_labelled": -60}, "counts something"),
        ({"calibration__n_labelled": 60.5}, "counts something"),
        ({"calibration__n_labelled": True}, "counts something"),
        ({"calibration__labels": {"a": 1}}, "1 labels"),
        ({"calibration__agreement": {"n": 12, "cohen_kappa": interval(0.7)}}, "measured on 12"),
        ({"audit__biases__position__inconsistency_rate": interval(-0.2)}, "outside 0..1"),
        ({"audit__biases__injection": interval(-0.01)}, "outside 0..1"),
        ({"audit__biases__position__value": -3.0}, "outside -1..1"),
        ({"audit__biases__padding": interval(-1.5)}, "outside -1..1"),
        (
            {"audit__biases__padding": {**interval(0.0), "lost": 90}},
            "90 answers without a verdict of 80",
        ),
        ({"audit__biases__padding": {**interval(0.0), "lost": -9}}, "counts something"),
        ({"audit__items": {"n": -1}}, "counts something"),
        (
            {"calibration__agreement": {"cohen_kappa": {**interval(0.7), "level": "NaN"}}},
            "level is not a number",
        ),
        (
            {"calibration__agreement": {"cohen_kappa": {**interval(0.7), "low": 10**400}}},
            "low is not a number",
        ),
        (
            {
                "calibration__agreement": {
                    "confusion": {"human": [1, 2], "judge": [1], "counts": [[1]]}
                }
            },
            "a row for each label and a column for each verdict",
        ),
    ],
)
def test_a_card_with_an_impossible_figure_is_refused_and_admits_nobody(
    changes: dict[str, Any], words: str
) -> None:
    assert TERMS is not None
    card = good_card(**changes)
    with pytest.raises(InputError, match="has an impossible figure") as refused:
        check_card(card)
    assert words in refused.value.message
    assert [
        term.id for term in admit_tree(card, TERMS, now=NOW).terms if term.holds is not True
    ] == ["figures"]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf"), Decimal("NaN"), Decimal("Infinity")]
)
@pytest.mark.parametrize(
    "part",
    [
        "agreement",
        "biases",
        "calibration",
        "injection",
        "inconsistency_rate",
    ],
)
def test_a_card_with_a_number_that_is_none_is_refused_and_admits_nobody(
    value: Any, part: Any
) -> None:
    assert TERMS is not None
    card = {
        **good_card(),
        part: {
            "cohen_kappa": {"value": value, "low": value},
            "n_labelled": value,
            "value": value,
        },
    }
    with pytest.raises(InputError, match="has an impossible figure"):
        check_card(card)
    assert not admit_tree(card, TERMS, now=NOW).may_gate


@pytest.mark.parametrize(
    ("option", "part", "value"),
    [
        ("--audit", "biases", [1]),
        ("--audit", "biases", {"position": 5}),
        ("--audit", "prompt_versions", [1]),
        ("--audit", "usage", "x"),
        ("--calibration", "scorer", [1]),
        ("--calibration", "agreement", {"cohen_kappa": 5}),
    ],
)
def test_a_card_of_a_malformed_audit_or_calibration_is_refused(
    assay: Any, tmp_path: Path, option: str, part: str, value: Any
) -> None:
    audit = {"schema": "assay.judge-audit/1", "judge": {"model": "m-1"}, "biases": {}}
    calibration = {"n_labelled": 0, "agreement": {}, "judge": {"model": "m-1"}}
    document = {**(audit if option == "--audit" else calibration), part: value}
    (tmp_path / "d.json").write_text(json.dumps(document))
    done = assay("judge", "card", option, "d.json", "-o", "card.html")
    assert done.code == 3, done.err


def test_a_card_from_the_future_is_refused(assay: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in the future"):
        check_card(good_card(), now=datetime(2026, 11, 14, tzinfo=UTC))
    (tmp_path / "card.json").write_text(json.dumps(good_card()))
    (tmp_path / "s.json").write_text(json.dumps(DOCUMENT))
    done = assay(
        "grade",
        "s.json",
        "--policy",
        "workflow-judged",
        "--judge-card",
        "card.json",
        "--now",
        "2026-11-14T23:59:59Z",
    )
    assert (done.code, "in the future" in done.err) == (3, True)


def test_of_several_cards_the_worst_of_those_with_the_newest_answers_counts() -> None:
    assert TERMS is not None
    later = datetime(2026, 11, 16, 9, tzinfo=UTC)
    good, bad = good_card(), good_card(**DISAGREES)
    new_good, new_bad = good_card(now=later), good_card(now=later.replace(hour=1), **DISAGREES)
    judge = judge_of(read_card(good)), "q"

    def may(*cards: dict[str, Any]) -> bool:
        return admitted(cards, TERMS, now=datetime(2026, 11, 17, tzinfo=UTC))[judge] is None

    assert may(good)
    assert may(bad, new_good), "the older one is past"
    assert may(new_good, bad)
    assert not may(good, new_bad)
    assert not may(new_bad, good)
    assert not may(new_bad, new_good), "of one day the worst, whatever the hour"
    assert not may(new_good, new_bad)
    # 23:30 in New York is the next day in UTC, the day of the good one
    zoned = good_card(
        now=later,
        audit__usage__answered_at="2026-11-15T23:30:00-05:00",
        calibration__answered_at="2026-11-15T23:30:00-05:00",
        **DISAGREES,
    )
    assert not may(zoned, new_good)
    again = good_card(
        now=datetime(2026, 11, 17, tzinfo=UTC),
        audit__usage__answered_at=TIME,
        calibration__answered_at=TIME,
    )  # a new card of old answers
    assert may(again)
    assert not may(again, new_bad)
    new_audit = good_card(now=later, calibration__answered_at=TIME)
    bad_audit = good_card(
        now=later, audit__biases__padding=interval(0.3), calibration__answered_at=TIME
    )
    assert not may(new_audit, good_card(**DISAGREES, audit__usage__answered_at=TIME, now=later))
    assert not may(good_card(now=later, audit__usage__answered_at=TIME), bad_audit)
    assert may(new_audit, good_card(audit__biases__padding=interval(0.3)))
    few = good_card(calibration__n_labelled=29)
    assert may(few, good), "more labels of the same answers"
    assert not may(good_card(calibration__n_labelled=50), good_card(**DISAGREES))


@pytest.mark.parametrize(
    "part", ["name", "version", "prompt_version", "rubric", "settings", "answered_by"]
)
@pytest.mark.parametrize("value", [None, "another"])
def test_a_card_is_of_one_model_version_prompt_rubric_and_settings_and_of_no_other(
    part: str, value: str | None
) -> None:
    if part == "name" and value is None:
        return  # a source without a name is refused when it is read
    rules = make_rules(Shelf().policy("workflow-judged"))
    judges = Grader(Shelf(), policy="workflow-judged", cards=[good_card()], now=NOW).judges
    assert grade(scorecard(source=LLM), rules, judges=judges).passed
    other = {key: one for key, one in {**SCORER, part: value}.items() if one is not None}
    refused = grade(scorecard(source=Source(**other)), rules, judges=judges)
    assert not refused.passed
    words = (
        "it has no card" if part == "name" else "for another version, prompt, rubric or settings"
    )
    assert any(words in finding.text for finding in refused.findings)


@pytest.mark.parametrize("part", ["name", "prompt_version", "rubric", "settings"])
def test_a_card_whose_calibration_does_not_name_its_judge_admits_nobody(part: str) -> None:
    assert TERMS is not None
    nameless = good_card(calibration__scorer=None)
    less = good_card(
        calibration__scorer={key: value for key, value in SCORER.items() if key != part}
    )
    for card in (nameless, less):
        admission = admit_tree(card, TERMS, now=NOW)
        assert [term.id for term in admission.terms if term.holds is not True] == ["identity"]
        assert "calibrate with --judgements" in admission.reason
    bare = scorecard(source=Source(kind="llm", name="m-1"))
    judges = admitted([nameless], TERMS, now=NOW)
    assert not grade(bare, make_rules(Shelf().policy("workflow-judged")), judges=judges).passed


def test_a_judge_whose_audit_another_model_answered_may_not_gate() -> None:
    assert TERMS is not None
    fine = good_card(audit__usage__answered_by={"m-1": 60, "m-1-2026-01-01": 20})
    assert admit_tree(fine, TERMS, now=NOW).may_gate
    other = good_card(audit__usage__answered_by={"m-1": 60, "m-1-mini": 20})
    assert "m-1-mini answered its audit, not m-1" in admit_tree(other, TERMS, now=NOW).reason


# --- what it decides


def scorecard(
    *,
    source: Source | None,
    role: str | None = "correctness",
    layer: int | None = 2,
    raw: float = 5,
) -> Scorecard:
    criterion = Criterion(
        name="quality",
        raw_score=raw,
        formula_id="likert_1_5",
        weight=1,
        role=role,
        layer=layer,
        source=source,
    )
    return Scorecard(
        schema="assay.scorecard/1", run_id="r", hard_gates={"g": True}, criteria=[criterion]
    )


LLM = Source(**SCORER)
MAY: dict[JudgeOn, str | None] = {(LLM.judge, None): None}
DOCUMENT = {
    "schema": "assay.scorecard/1",
    "run_id": "r",
    "hard_gates": {"g": True},
    "criteria": [
        {
            "name": "q",
            "raw_score": 5,
            "formula_id": "likert_1_5",
            "weight": 1,
            "role": "correctness",
            "layer": 2,
            "source": SCORER,
        }
    ],
}


@pytest.mark.req("W-008")
def test_an_uncalibrated_judge_cannot_pass_a_critical_floor() -> None:
    rules = make_rules(Shelf().policy("workflow-judged"))
    refused = grade(scorecard(source=LLM), rules)
    assert not refused.passed
    assert refused.reason == "critical_floor_failure"
    assert any(
        finding.rule == "uncalibrated_judge"
        and finding.fired
        and "uncalibrated judge: it has no card" in finding.text
        for finding in refused.findings
    )
    assert grade(scorecard(source=LLM), rules, judges=MAY).passed
    assert not grade(
        scorecard(source=LLM), rules, judges={(LLM.judge, None): "its card is 40 days old"}
    ).passed
    assert not grade(scorecard(source=LLM), rules, judges={("other", None): None}).passed


@pytest.mark.req("W-008")
@pytest.mark.parametrize("name", [LLM.judge, f"{LLM.judge} on tone", f"{LLM.judge} on quality"])
def test_no_name_of_a_source_makes_a_card_count_for_another_criterion(name: Any) -> None:
    rules = make_rules(Shelf().policy("workflow-judged"))
    cards: dict[JudgeOn, str | None] = {(LLM.judge, "tone"): None}
    source = Source(kind="llm", name=name)
    assert not grade(scorecard(source=source), rules, judges=cards).passed


@pytest.mark.req("W-008")
@pytest.mark.parametrize("layer", [1, 2, 3, None])
@pytest.mark.parametrize("kind", ["llm", "human", "script", None])
@pytest.mark.parametrize("name", ["m-1", "ann", "measure:tests_passed"])
def test_no_layer_kind_or_name_that_a_scorecard_gives_its_source_stands_for_a_card(
    layer: int | None, kind: Any, name: str
) -> None:
    rules = make_rules(Shelf().policy("workflow-judged"))
    source = None if kind is None else Source(kind=kind, name=name)
    refused = grade(scorecard(source=source, layer=layer), rules, judges=MAY)
    assert (refused.passed, refused.floor_failures) == (False, ("quality",))
    assert any(
        finding.rule == "uncalibrated_judge" and finding.fired for finding in refused.findings
    )


MEASURED = """profile: measured
version: 1
title: MeasuredBias
family: measured
gates: []
criteria:
  - {id: tests, label: Tests, weight: 0.5, role: correctness, layer: 1, formula: ratio, measure: tests_passed}
  - {id: tone, label: Tone, weight: 0.5, layer: 2, formula: likert_1_5}
"""


def evidence(**more: Any) -> dict[str, Any]:
    tree = {
        "schema": "assay.run/1",
        "run_id": "r",
        "workflow": {"id": "w", "version": "1", "family": "measured"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s"},
        "status": "success",
        "outputs": {},
        "required_outputs": [],
        "inputs": {},
        "required_inputs": [],
        "output_schema": {},
        "steps": [],
        "tests": {
            "fail_to_pass": {"passed": 3, "total": 3},
            "pass_to_pass": {"passed": 3, "total": 3},
        },
        "scores": {"tone": {"raw": 5, "source": SCORER}},
    }
    return {**tree, **more}


def test_what_we_measured_from_the_evidence_needs_no_card_and_a_scorecard_cannot_claim_that(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "measured.yaml").write_text(MEASURED)
    (tmp_path / "run.json").write_text(json.dumps(evidence()))
    judged = ("--profile", "measured.yaml", "--policy", "workflow-judged", "--json")
    done = assay("grade", "run.json", *judged).json()["results"][0]
    assert (done["passed"], done["floor_failures"]) == (True, []), done["findings"]
    assert "tone is scored by m-1" in " ".join(finding["text"] for finding in done["findings"])
    criteria = [
        {key: item[key] for key in ("name", "raw_score", "formula_id", "weight", "role", "layer")}
        for item in done["criteria"]
    ]
    card = {
        "schema": "assay.scorecard/1",
        "run_id": "r",
        "hard_gates": dict.fromkeys(done["hard_gates"], True),
        "criteria": criteria,
    }
    for name, claimed in {
        "bare": {},
        "profiled": {"profile": {"id": "measured@1", "why": "said so"}, "digests": done["digests"]},
    }.items():
        claimed.get("digests", {}).pop("run", None)
        (tmp_path / f"{name}.json").write_text(json.dumps({**card, **claimed}))
        refused = assay("grade", f"{name}.json", *judged).json()["results"][0]
        assert (refused["passed"], refused["floor_failures"]) == (False, ["tests"])


def test_verdicts_of_a_judge_that_a_measure_only_counts_are_not_measured(
    assay: Any, tmp_path: Path
) -> None:
    counted = MEASURED.replace(
        "formula: ratio, measure: tests_passed",
        "formula: zero_one, measure: severity_weighted_support",
    )
    (tmp_path / "measured.yaml").write_text(counted)
    claims = [{"text": "x", "supported": True, "severity": "low", "citations": ["p"]}]
    (tmp_path / "run.json").write_text(
        json.dumps(evidence(claims=claims, retrieval=[{"id": "p", "text": "x"}]))
    )
    done = assay(
        "grade", "run.json", "--profile", "measured.yaml", "--policy", "workflow-judged", "--json"
    ).json()["results"][0]
    assert (done["passed"], done["floor_failures"]) == (False, ["tests"])
    assert assay("grade", "run.json", "--profile", "measured.yaml").code == 0


FLOORED = load_profile(
    parse_yaml(
        MEASURED.replace(
            "weight: 0.5, layer: 2", "weight: 0.5, critical_floor: {norm: 0.5}, layer: 2"
        ).encode(),
        "p.yaml",
    )
)
CHANGES = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["llm", "human", "script"]),
        "name": st.sampled_from(["m-1", "m-2", "ann", "pytest", "measure:tests_passed"]),
        "version": st.sampled_from([None, "7", "8"]),
        "prompt_version": st.sampled_from([None, "rubric/9"]),
        "rubric": st.sampled_from([None, "rag@1", "other@1"]),
        "settings": st.sampled_from([None, "sha256:1", "sha256:2"]),
        "answered_by": st.sampled_from([None, "m-1", "m-2"]),
    }
)


@pytest.mark.req("W-008")
@settings(max_examples=share(60), deadline=None)
@given(source=st.none() | CHANGES, more=st.booleans(), judge=st.booleans())
def test_nothing_that_a_rejected_run_says_otherwise_of_its_judge_makes_it_pass(
    source: dict[str, Any] | None, more: bool, judge: bool
) -> None:
    """The card is of the prompt rubric/1 and these scores were given with rubric/9: whatever else
    is deleted or renamed, no card is theirs.
    """
    grader = Grader(Shelf(), policy="workflow-judged", cards=[good_card()], now=NOW)
    plan = make_plan(FLOORED, why="test")
    score = {"raw": 5, "n": 40 if more else 1}
    if source is not None:
        score["source"] = {key: value for key, value in source.items() if value is not None}
    tree = evidence(
        scores={"tone": score},
        **(
            {"judge": {"model": "m-1", "version": "7", "prompt_version": "rubric/1"}}
            if judge
            else {}
        ),
    )
    card = score_run(read_run(Document(tree, "run")), plan)
    found = grade(card, grader.rules, judges=grader.judges, measured=plan.measured)
    assert (found.passed, found.floor_failures) == (False, ("tone",))


@pytest.mark.req("W-091")
def test_a_profile_that_requires_calibration_is_obeyed_under_every_policy(
    assay: Any, tmp_path: Path
) -> None:
    plain = MEASURED.replace("weight: 0.5, layer: 2", "weight: 0.5, critical_floor: 3, layer: 2")
    (tmp_path / "run.json").write_text(json.dumps(evidence()))
    (tmp_path / "card.json").write_text(json.dumps(good_card()))

    def passes(asked: str, *more: str) -> bool:
        (tmp_path / "p.yaml").write_text(f"{plain}judge: {{calibration: {asked}}}\n")
        done = assay(
            "grade",
            "run.json",
            "--profile",
            "p.yaml",
            "--now",
            "2026-11-16T00:00:00Z",
            *more,
            "--json",
        ).json()["results"][0]
        assert done["floor_failures"] == ([] if done["passed"] else ["tone"])
        return bool(done["passed"])

    assert passes("by_policy")
    assert not passes("required")
    assert not passes("required", "--judge-card", "card.json"), (
        "workflow has no terms that a card could meet"
    )
    assert not passes("by_policy", "--policy", "workflow-judged")
    assert passes("required", "--policy", "workflow-judged", "--judge-card", "card.json")
    assert passes("by_policy", "--policy", "workflow-judged", "--judge-card", "card.json")


@pytest.mark.req("W-092")
@pytest.mark.parametrize(
    ("said", "passed"),
    [
        (None, False),
        (
            {
                "between": "judges",
                "n": 2,
                "low": {"wins": 1, "losses": 0, "ties": 0},
                "high": {"wins": 1, "losses": 0, "ties": 0},
            },
            False,
        ),
        ({"between": "orders", "n": 20, "inconsistent": 1}, True),
    ],
)
def test_a_profile_that_asks_for_both_orders_passes_no_pairwise_score_without_them(
    assay: Any, tmp_path: Path, said: Any, passed: bool
) -> None:
    pairs = MEASURED.replace(
        "weight: 0.5, layer: 2, formula: likert_1_5",
        "weight: 0.5, critical_floor: {norm: 0.5}, layer: 2, formula: pairwise",
    )
    score = {
        "raw": {"wins": 19, "losses": 1, "ties": 0},
        "source": SCORER,
        **({} if said is None else {"disagreement": said}),
    }
    (tmp_path / "run.json").write_text(json.dumps(evidence(scores={"tone": score})))
    for asked, wanted in (
        ("{calibration: by_policy, order: both}", passed),
        ("{calibration: by_policy}", True),
    ):
        (tmp_path / "p.yaml").write_text(f"{pairs}judge: {asked}\n")
        done = assay("grade", "run.json", "--profile", "p.yaml", "--json").json()["results"][0]
        assert done["passed"] is wanted
        assert ("two orders" in json.dumps(done["findings"])) is not wanted


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
    assert "only through an uncalibrated judge" in " ".join(said.sentences)
    assert said.gain is None


def test_a_card_counts_only_for_the_criteria_that_people_labelled(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(DOCUMENT))
    arguments = ("grade", "s.json", "--policy", "workflow-judged", "--now", "2026-11-16T00:00:00Z")

    def graded(**scorers: Any) -> Any:
        for name, scorer in scorers.items():
            card = good_card(calibration__scorer={**SCORER, **scorer})
            (tmp_path / f"{name}.json").write_text(json.dumps(card))
        cards = [word for name in scorers for word in ("--judge-card", f"{name}.json")]
        return assay(*arguments, *cards, "--json")

    easy, own = {"criteria": ["easy"]}, {"criteria": ["q"]}
    other = graded(easy=easy)
    assert other.code == 1
    assert "its cards are for other criteria" in other.out
    assert graded(easy=easy, own=own).code == 0
    unnamed = graded(unnamed={})
    assert (unnamed.code, "which judge gave the verdicts (criterion)" in unnamed.out) == (1, True)
    assert graded(own=own, unnamed={}).code == 1, "which may be the same, with a worse result"
    assert graded(pairs={"rubric": "definition+0123456789ab"}).code == 1
    asked = {**DOCUMENT["criteria"][0], "source": {**SCORER, "rubric": "definition+0123456789ab"}}
    (tmp_path / "s.json").write_text(json.dumps({**DOCUMENT, "criteria": [asked]}))
    assert graded(pairs={"rubric": "definition+0123456789ab"}).code == 0


def test_a_grader_reads_cards_and_the_command_too(assay: Any, tmp_path: Path) -> None:
    card = good_card()
    (tmp_path / "card.json").write_text(json.dumps(card))
    (tmp_path / "s.json").write_text(json.dumps(DOCUMENT))
    arguments = ("grade", "s.json", "--policy", "workflow-judged", "--now", "2026-11-16T00:00:00Z")
    assert assay(*arguments).code == 1
    assert assay(*arguments, "--judge-card", "card.json").code == 0
    late = assay(
        "grade",
        "s.json",
        "--policy",
        "workflow-judged",
        "--now",
        "2027-11-16T00:00:00Z",
        "--judge-card",
        "card.json",
        "--json",
    )
    assert late.code == 1
    assert "days old" in late.out
    (tmp_path / "card.json").write_text(json.dumps({**card, "inconsistency_rate": None}))
    assert assay(*arguments, "--judge-card", "card.json").code == 3
    assert Grader(Shelf(), policy="workflow-judged", cards=[card], now=NOW).judges == {
        (LLM.judge, name): None for name in ("q", "quality", "tone")
    }


def test_a_decision_names_floors_that_only_a_judge_without_a_card_reaches(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "card.json").write_text(json.dumps(good_card()))
    for name in ("new", "old"):
        rows = [{**DOCUMENT, "run_id": f"{name}-{i}", "sample_id": f"s-{i}"} for i in range(60)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = (
        *("gate", "new.jsonl", "--baseline", "old.jsonl", "--grading-policy", "workflow-judged"),
        *("--now", "2026-11-16T00:00:00Z", "--json"),
    )
    done = assay(*arguments)
    found = done.json()
    assert (done.code, found["outcome"]) == (1, "hold")
    complete = next(rule for rule in found["rules"] if rule["id"] == "complete")
    assert complete["holds"] is None
    assert {item["what"] for item in complete["evidence"]["missing"]} == {"floor q"}
    assert complete["evidence"]["missing_count"] == 60
    done = assay(*arguments, "--judge-card", "card.json")
    assert (done.code, done.json()["outcome"]) == (0, "promote")


def test_the_card_command_says_in_words_and_on_a_page_why_a_judge_may_not_gate(
    assay: Any, tmp_path: Path
) -> None:
    items = write_pairs(tmp_path / "pairs.jsonl", 5)
    with scripted_judge(model="<script>alert(1)</script>") as judge:
        assay(
            "judge",
            "audit",
            "--items",
            items,
            "--model",
            "<b>m</b>",
            "--base-url",
            judge.url,
            "--no-journal",
            "--probe",
            "position",
            "-o",
            "audit.json",
        )
    done = assay(
        "judge",
        "card",
        "--audit",
        "audit.json",
        "--now",
        "2026-11-15T00:00:00Z",
        "-o",
        "card.json",
        "-o",
        "card.html",
    )
    assert done.code == 1
    assert "may not gate under workflow-judged@1" in done.out
    assert "not measured  human labels" in done.out
    page = (tmp_path / "card.html").read_text()
    assert "May not gate" in page
    assert "<b>m</b>" not in page
    again = assay(
        "judge",
        "card",
        "--audit",
        "audit.json",
        "--now",
        "2026-11-15T00:00:00Z",
        "-o",
        "again.json",
    )
    assert again.code == 1
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "card.json").read_bytes()
