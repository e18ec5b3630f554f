"""The grading algorithm of the scoring guide, section 5.1, held against a second one written in
fractions.
"""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.canon import plain
from assay.errors import EvidenceError, InputError
from assay.files.json_files import Document
from assay.grading.grade import grade as grade_card
from assay.grading.policy import CardTerms, make_rules
from assay.library.shelf import Shelf
from assay.records.reading import read_scorecard
from assay.records.scorecard import Criterion, Scorecard
from cards import BILLION, LETTERS, decimals, expected, fraction, graded, scorecards
from documents import scorecard


def grade(*criteria: dict[str, Any], **changes: Any) -> Any:
    """The grade of a bare scorecard."""
    return graded(scorecard(*criteria, **changes)).grade


def payload(*criteria: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same as a reader of the JSON gets it."""
    made: dict[str, Any] = plain(graded(scorecard(*criteria, **changes)).payload())
    return made


def faults(*criteria: dict[str, Any], **changes: Any) -> list[tuple[str, str]]:
    """Code and place of every fault of a card that is refused."""
    with pytest.raises(EvidenceError) as caught:
        grade(*criteria, **changes)
    return [(fault.code, fault.path) for fault in caught.value.faults]


# --- the whole algorithm


@pytest.mark.req(
    "W-002",
    "W-019",
    "W-040",
    "W-042",
    "W-044",
    "W-045",
    "W-046",
    "W-047",
    "W-048",
    "W-049",
    "W-050",
    "W-084",
    "X-50",
    "X-51",
    "X-55",
)
@given(scorecards())
def test_the_grade_is_what_the_guide_says_in_fractions(card: dict[str, Any]) -> None:
    found, wanted = graded(card).grade, expected(card)
    assert [Fraction(item.norm_units, BILLION) for item in found.criteria] == wanted.norms
    assert [Fraction(item.adjusted_units, BILLION) for item in found.criteria] == wanted.adjusted
    assert Fraction(found.score_units, 100) == wanted.score
    assert Fraction(found.adjusted_score_units, 100) == wanted.score_adjusted
    assert found.provisional_grade == wanted.provisional
    assert found.grade == wanted.letter
    assert found.passed is wanted.passed
    assert found.reason == wanted.reason
    assert list(found.hard_gate_failures) == wanted.failed_gates
    assert list(found.floor_failures) == wanted.missed_floors


@pytest.mark.req("W-024", "W-026", "W-038")
@given(scorecards())
def test_raw_norm_and_adjusted_norm_stand_in_every_result_on_their_scales(
    card: dict[str, Any],
) -> None:
    found, wanted = plain(graded(card).payload()), expected(card)
    assert fraction(found["weighted_score"]) == wanted.score
    assert fraction(found["weighted_score_adjusted"]) == wanted.score_adjusted
    assert 0 <= wanted.score <= 100
    for given_, shown, norm, adjusted in zip(
        card["criteria"], found["criteria"], wanted.norms, wanted.adjusted, strict=True
    ):
        assert shown["raw_score"] == plain(given_["raw_score"])
        assert shown["formula_id"] == given_["formula_id"]
        assert fraction(shown["norm"]) == norm
        assert 0 <= norm <= 1
        assert fraction(shown["adjusted_norm"]) == adjusted


@given(scorecards(), st.sampled_from((3, 7, 10, Decimal("0.1"), Decimal("0.01"))))
@pytest.mark.req("W-047")
def test_weights_are_relative(card: dict[str, Any], factor: Any) -> None:
    scaled = {
        **card,
        "criteria": [{**item, "weight": item["weight"] * factor} for item in card["criteria"]],
    }
    one, other = graded(card).grade, graded(scaled).grade
    assert (one.grade, one.score_units, one.adjusted_score_units, one.passed) == (
        other.grade,
        other.score_units,
        other.adjusted_score_units,
        other.passed,
    )
    assert [item.contribution_units for item in one.criteria] == [
        item.contribution_units for item in other.criteria
    ]


@given(scorecards(), st.data())
def test_a_criterion_of_weight_zero_moves_no_score_but_its_floor_counts(
    card: dict[str, Any], data: st.DataObject
) -> None:
    raw = data.draw(decimals(0, 1, 3))
    extra = {
        "name": "extra",
        "raw_score": raw,
        "formula_id": "zero_one",
        "weight": 0,
        "critical_floor": {"norm": Decimal("0.5")},
    }
    before, after = (
        graded(card).grade,
        graded({**card, "criteria": [*card["criteria"], extra]}).grade,
    )
    assert after.score_units == before.score_units
    assert ("extra" in after.floor_failures) is (raw < Decimal("0.5"))
    assert after.passed is (before.passed and raw >= Decimal("0.5"))


# --- score and bands


@pytest.mark.req("W-039", "W-048", "X-55")
@pytest.mark.parametrize(
    ("norm", "score", "letter"),
    [
        ("1", 100.0, "A"),
        ("0.9", 90.0, "A"),
        ("0.89995", 90.0, "A"),
        ("0.899949999", 89.99, "B"),
        ("0.8999", 89.99, "B"),
        ("0.8", 80.0, "B"),
        ("0.79995", 80.0, "B"),
        ("0.799949999", 79.99, "C"),
        ("0.7", 70.0, "C"),
        ("0.69995", 70.0, "C"),
        ("0.699949999", 69.99, "D"),
        ("0.6", 60.0, "D"),
        ("0.59995", 60.0, "D"),
        ("0.599949999", 59.99, "F"),
        ("0.00005", 0.01, "F"),
        ("0.000049999", 0.0, "F"),
        ("0", 0.0, "F"),
    ],
)
def test_the_score_is_rounded_half_up_to_cents_and_the_band_reads_that_value(
    norm: str, score: float, letter: str
) -> None:
    found = grade({"norm": Decimal(norm)})
    assert (found.weighted_score, found.provisional_grade, found.grade) == (score, letter, letter)


@pytest.mark.req("W-047", "X-55")
def test_a_sum_that_binary_floats_get_wrong_is_rounded_up_to_an_a() -> None:
    criteria = [("0.94", "0.4"), ("0.88", "0.35"), ("0.8638", "0.25")]
    assert (
        round(100 * sum(float(norm) * float(weight) for norm, weight in criteria), 2) == 89.99
    )  # what floating point makes of it
    found = grade(
        *({"norm": Decimal(norm), "weight": Decimal(weight)} for norm, weight in criteria)
    )
    assert (found.weighted_score, found.grade) == (90.0, "A")


def test_a_float_counts_as_the_decimal_it_prints() -> None:
    written = grade(
        {"norm": Decimal("0.94"), "weight": Decimal("0.4")},
        {"norm": Decimal("0.88"), "weight": Decimal("0.35")},
        {"norm": Decimal("0.8638"), "weight": Decimal("0.25")},
    )
    binary = grade(
        {"norm": 0.94, "weight": 0.4},
        {"norm": 0.88, "weight": 0.35},
        {"norm": 0.8638, "weight": 0.25},
    )
    assert (binary.score_units, binary.grade) == (written.score_units, written.grade) == (9000, "A")


@pytest.mark.req("W-039")
def test_the_bands_stand_in_every_result() -> None:
    found = payload({"norm": 1})["bands"]
    assert found == [
        {"grade": "A", "min": 90},
        {"grade": "B", "min": 80},
        {"grade": "C", "min": 70},
        {"grade": "D", "min": 60},
        {"grade": "F", "min": 0},
    ]


@pytest.mark.req("W-004")
@given(scorecards())
def test_a_result_is_never_one_number_its_layers_add_up_to_the_score(card: dict[str, Any]) -> None:
    found = plain(graded(card).payload())
    layers = found["layers"]
    assert {"1", "2", "3"} <= set(layers)
    assert {str(c.get("layer", "none")) for c in card["criteria"]} == {
        layer for layer, subtotal in layers.items() if subtotal is not None
    }
    assert abs(
        sum(fraction(x) for x in layers.values() if x is not None) - expected(card).score
    ) <= Fraction(len(layers) + 1, 200)
    assert {"hard_gates", "criteria", "operations"} <= set(found)


# --- threshold and passing


@pytest.mark.req("W-019", "W-050", "X-51")
@pytest.mark.parametrize(("gate", "floor", "score"), list(product((True, False), repeat=3)))
def test_passed_is_the_conjunction_of_gates_floors_and_threshold(
    gate: bool, floor: bool, score: bool
) -> None:
    found = grade(
        {
            "name": "guarded",
            "norm": Decimal("0.9") if floor else Decimal("0.5"),
            "critical_floor": {"norm": Decimal("0.6")},
            "weight": 1,
        },
        {"name": "rest", "norm": Decimal("0.9") if score else Decimal("0.1"), "weight": 9},
        hard_gates={"g": gate},
    )
    assert found.passed is (gate and floor and score)
    wanted = (
        "hard_gate_failure"
        if not gate
        else (
            "critical_floor_failure"
            if not floor
            else "below_pass_threshold"
            if not score
            else "passed"
        )
    )
    assert found.reason == wanted


@pytest.mark.req("W-044", "W-087")
@pytest.mark.parametrize(
    ("norm", "passed"), [("0.7", True), ("0.69995", True), ("0.699949999", False)]
)
def test_the_threshold_is_70_unless_the_card_says_otherwise_and_reads_the_rounded_score(
    norm: str, passed: bool
) -> None:
    found = grade({"norm": Decimal(norm)})
    assert (found.pass_threshold, found.passed) == (70.0, passed)


@pytest.mark.req("W-044")
def test_a_card_may_raise_the_threshold_and_never_lower_it() -> None:
    strict, lax = (
        payload({"norm": Decimal("0.85")}, pass_threshold=Decimal("85.01")),
        payload({"norm": Decimal("0.55")}, pass_threshold=55),
    )
    assert (strict["passed"], strict["pass_threshold"], strict["reason"]) == (
        False,
        85.01,
        "below_pass_threshold",
    )
    assert (lax["passed"], lax["pass_threshold"], lax["grade"], lax["reason"]) == (
        False,
        70,
        "F",
        "below_pass_threshold",
    )
    assert [f["text"] for f in lax["findings"] if f["rule"] == "pass_threshold" and f["fired"]] == [
        "the score is below the threshold",
        (
            "the scorecard asks for a threshold of 55; the policy's 70 holds, because a card may"
            " only raise it"
        ),
    ]


def under(terms: CardTerms, norm: str, **changes: Any) -> Any:
    """A card graded by the shipped rules, but for what a card may decide for itself."""
    card = read_scorecard(
        Document(scorecard({"norm": Decimal(norm), "role": "correctness"}, **changes), "card")
    )
    return grade_card(card, make_rules(Shelf().policy("workflow"))._replace(cards=terms))


@pytest.mark.req("W-055")
def test_a_letter_below_the_lowest_passing_one_never_passes_even_where_the_policy_lets_cards_lower_their_threshold() -> (
    None
):
    allowed = CardTerms(lower_threshold=True, floor_override=True)
    override = {"value": {"norm": 0}, "reason": "tuned"}
    for norm, letter in (("0.69", "D"), ("0.5", "F"), ("0.1", "F")):
        card = read_scorecard(
            Document(
                scorecard({"norm": Decimal(norm), "floor_override": override}, pass_threshold=0),
                "card",
            )
        )
        found = grade_card(card, make_rules(Shelf().policy("workflow"))._replace(cards=allowed))
        assert (found.grade, found.passed, found.reason) == (letter, False, "below_passing_grade")
        assert f"{letter} doesn't pass under workflow@1" in assay.explain(found).sentences[0]
    stricter = make_rules(Shelf().policy("workflow"))._replace(threshold=7500, cards=allowed)
    lower = read_scorecard(
        Document(scorecard({"norm": Decimal("0.72")}, pass_threshold=71), "card")
    )
    assert grade_card(lower, stricter).passed
    assert not grade_card(lower, stricter._replace(cards=CardTerms())).passed


def test_a_card_without_a_gate_passes_only_where_the_policy_says_so() -> None:
    bare = payload({"norm": 1}, hard_gates={})
    assert (bare["passed"], bare["grade"], bare["reason"]) == (False, "A", "no_hard_gates")
    assert "has no hard gate" in bare["explanation"][0]
    assert under(CardTerms(), "1", hard_gates={}).passed is False
    assert under(CardTerms(without_gates=True), "1", hard_gates={}).passed is True


@pytest.mark.req("W-050")
@pytest.mark.parametrize("threshold", ["69.991", "69.994", "69.9901"])
def test_a_score_just_below_a_threshold_with_three_decimals_does_not_pass(threshold: str) -> None:
    assert grade({"norm": Decimal("0.6999")}, pass_threshold=Decimal(threshold)).passed is False


@pytest.mark.parametrize("threshold", ["100.001", "-0.001", "101", "-1", "1e30"])
def test_a_threshold_outside_0_to_100_is_refused(threshold: str) -> None:
    assert faults({"norm": 1}, pass_threshold=Decimal(threshold)) == [("GRD-105", "pass_threshold")]


# --- gates


@pytest.mark.req("W-002", "W-040", "W-045", "X-50")
@pytest.mark.parametrize("verdict", [False, None])
def test_a_failed_gate_gives_f_and_keeps_score_and_provisional_grade(verdict: bool | None) -> None:
    found = payload({"norm": 1}, hard_gates={"fine": True, "shut": verdict})
    assert (found["grade"], found["passed"], found["reason"], found["grade_reason"]) == (
        "F",
        False,
        "hard_gate_failure",
        "hard_gate_failure",
    )
    assert (found["weighted_score"], found["provisional_grade"], found["hard_gate_failures"]) == (
        100,
        "A",
        ["shut"],
    )


@pytest.mark.req("W-043", "X-58")
def test_each_gate_says_why_and_a_null_gate_fails_for_want_of_evidence() -> None:
    found = payload(
        {"norm": 1},
        hard_gates={"ok": True, "leak": False, "silent": None, "bare": False},
        gate_reasons={"leak": "an address in the answer"},
    )
    gates = found["hard_gates"]
    assert {name: gate["status"] for name, gate in gates.items()} == {
        "ok": "pass",
        "leak": "fail",
        "silent": "undetermined",
        "bare": "fail",
    }
    assert gates["leak"]["reason"] == "an address in the answer"
    assert gates["silent"]["reason"] == "no evidence"
    assert all(gate["reason"] for gate in gates.values())
    fired = {f["subject"] for f in found["findings"] if f["rule"] == "hard_gates" and f["fired"]}
    assert fired == {"leak", "silent", "bare"} == set(found["hard_gate_failures"])


@pytest.mark.req("W-003", "W-002")
def test_the_command_does_not_exit_0_for_a_perfect_score_with_a_failed_gate(
    assay: Any, tmp_path: Any
) -> None:
    for name, gates, code in (
        ("open", {"g": True}, 0),
        ("shut", {"g": False}, 1),
        ("silent", {"g": None}, 1),
    ):
        (tmp_path / f"{name}.json").write_text(
            json.dumps(scorecard({"norm": 1}, run_id=name, hard_gates=gates))
        )
        assert assay("grade", f"{name}.json").code == code
    assert assay("grade", "open.json", "shut.json", "silent.json").code == 1


@pytest.mark.req("W-003")
def test_the_command_does_not_exit_0_below_the_threshold_or_under_a_floor(
    assay: Any, tmp_path: Any
) -> None:
    (tmp_path / "low.json").write_text(json.dumps(scorecard({"norm": 0.6999})))
    (tmp_path / "floor.json").write_text(
        json.dumps(scorecard({"norm": 0.95, "critical_floor": {"norm": 0.96}}))
    )
    assert [assay("grade", name).code for name in ("low.json", "floor.json")] == [1, 1]


@pytest.mark.parametrize("verdict", [1, 0, "true", "pass", {"passed": True, "weight": 3}, [True]])
def test_a_gate_that_is_not_true_false_or_null_is_refused(verdict: Any) -> None:
    assert [path for _, path in faults({"norm": 1}, hard_gates={"g": verdict})] == ["hard_gates.g"]


# --- floors


@pytest.mark.req("W-046")
@pytest.mark.parametrize(
    ("norm", "missed"), [("0.7", False), ("0.700000001", False), ("0.699999999", True)]
)
def test_a_norm_equal_to_its_floor_passes_and_a_billionth_less_does_not(
    norm: str, missed: bool
) -> None:
    found = grade(
        {"norm": Decimal(norm), "critical_floor": {"norm": Decimal("0.7")}},
        {"norm": 1, "weight": 9},
    )
    assert (found.criteria[0].floor_failed, found.passed, list(found.floor_failures)) == (
        missed,
        not missed,
        ["c0"] if missed else [],
    )


@pytest.mark.req("W-042", "W-049")
@pytest.mark.parametrize(
    ("provisional", "letter"), [("A", "D"), ("B", "D"), ("C", "D"), ("D", "D"), ("F", "F")]
)
def test_a_missed_floor_caps_the_grade_at_d_and_never_raises_it(
    provisional: str, letter: str
) -> None:
    rest = {"A": "0.95", "B": "0.85", "C": "0.75", "D": "0.65", "F": "0.3"}[provisional]
    found = payload(
        {"name": "rest", "norm": Decimal(rest)},
        {"name": "guarded", "norm": 0, "weight": 0, "critical_floor": {"norm": Decimal("0.1")}},
    )
    assert (found["provisional_grade"], found["grade"], found["passed"], found["reason"]) == (
        provisional,
        letter,
        False,
        "critical_floor_failure",
    )
    assert found["weighted_score"] == pytest.approx(100 * float(rest))
    assert found["floor_failures"] == ["guarded"]


@pytest.mark.req("W-041", "W-087")
@pytest.mark.parametrize(
    ("role", "norm", "missed"),
    [
        ("correctness", "0.7", False),
        ("correctness", "0.699999999", True),
        ("safety", "0.8", False),
        ("safety", "0.799999999", True),
        ("style", "0", False),
        (None, "0", False),
    ],
)
def test_role_floors_are_70_for_correctness_and_80_for_safety(
    role: str | None, norm: str, missed: bool
) -> None:
    found = grade(
        {"norm": Decimal(norm), "role": role} if role else {"norm": Decimal(norm)},
        {"norm": 1, "weight": 99},
    )
    assert found.criteria[0].floor_failed is missed
    assert found.passed is not missed


def test_a_role_is_declared_and_never_guessed_from_a_name() -> None:
    assert (
        grade(
            {"name": "correctness", "norm": 0},
            {"name": "safety", "norm": 0},
            {"norm": 1, "weight": 99},
        ).floor_failures
        == ()
    )


@pytest.mark.req("X-53")
@pytest.mark.parametrize(
    ("own", "override", "floor", "origin"),
    [
        (None, None, 0.7, "role"),
        ({"norm": Decimal("0.9")}, None, 0.9, "criterion"),
        ({"norm": Decimal("0.7")}, None, 0.7, "criterion"),
        ({"norm": Decimal("0.2")}, None, 0.7, "role"),
        (None, {"norm": Decimal("0.2")}, 0.7, "role"),
        ({"norm": Decimal("0.9")}, {"norm": Decimal("0.2")}, 0.9, "criterion"),
    ],
)
def test_a_floor_of_its_own_raises_the_roles_and_a_cards_own_override_does_not_lower_it(
    own: Any, override: Any, floor: float, origin: str
) -> None:
    criterion: dict[str, Any] = {"norm": Decimal("0.5"), "role": "correctness"}
    if own is not None:
        criterion["critical_floor"] = own
    if override is not None:
        criterion["floor_override"] = {
            "value": override,
            "reason": "calibrated on 200 human labels",
        }
    found = payload(criterion, {"norm": 1, "weight": 99})
    shown = found["criteria"][0]
    assert (shown["critical_floor"]["norm"], shown["critical_floor"]["from"]) == (floor, origin)
    assert shown["floor_failed"] is (floor > 0.5)
    said = [f["text"] for f in found["findings"] if f["rule"] == "floor_override"]
    assert (len(said) == 1 and "does not count" in said[0]) is (override is not None)


def test_a_card_can_not_lower_its_floor_by_naming_a_profile() -> None:
    override = {"value": {"norm": 0}, "reason": "not needed here"}
    correctness = {"name": "correctness", "role": "correctness", "norm": 0.1, "weight": 0.01}
    card = scorecard({**correctness, "floor_override": override}, {"norm": 1})
    assert assay.grade(card).floor_failures == ("correctness",)
    for name in ("dag-review@1", "unknown@1"):
        with pytest.raises(InputError):
            assay.grade({**card, "profile": {"id": name, "why": "named by the card"}})


@pytest.mark.req("X-53")
def test_where_the_policy_lets_cards_override_a_floor_the_result_shows_the_reason() -> None:
    override = {"value": {"norm": Decimal("0.2")}, "reason": "calibrated on 200 human labels"}
    card = read_scorecard(
        Document(
            scorecard({"norm": Decimal("0.5"), "role": "correctness", "floor_override": override}),
            "card",
        )
    )
    found = grade_card(
        card, make_rules(Shelf().policy("workflow"))._replace(cards=CardTerms(floor_override=True))
    )
    assert (found.criteria[0].floor_from, found.floor_failures) == ("override", ())
    assert any("calibrated on 200 human labels" in line for line in assay.explain(found).sentences)
    assert any(
        f.rule == "floor_override" and f.fired and "calibrated on 200 human labels" in f.text
        for f in found.findings
    )


@pytest.mark.req("X-53")
@pytest.mark.parametrize(
    "override", [{"value": {"norm": 0.2}}, {"value": {"norm": 0.2}, "reason": ""}]
)
def test_an_override_without_a_reason_is_refused(override: Any) -> None:
    with pytest.raises(EvidenceError):
        grade({"norm": 1, "role": "correctness", "floor_override": override})


@pytest.mark.req("X-52")
@pytest.mark.parametrize(
    ("formula", "raw", "floor", "norm"),
    [
        ("likert_1_5", 5, {"raw": 3}, 0.5),
        ("likert_1_5", 5, {"norm": Decimal("0.7")}, 0.7),
        ("likert_1_5", 5, 3, 0.5),
        ("likert_1_5", 5, Decimal("0.7"), 0.7),
        ("likert_neg2_2", 2, -1, 0.25),
        ("likert_0_5", 5, 3, 0.6),
        ("likert_0_5", 5, 0, 0),
        ("zero_one", 1, Decimal("0.7"), 0.7),
    ],
)
def test_a_floor_says_its_unit_or_can_only_be_read_one_way_and_both_readings_are_shown(
    formula: str, raw: int, floor: Any, norm: float
) -> None:
    shown = payload({"raw_score": raw, "formula_id": formula, "critical_floor": floor})["criteria"][
        0
    ]["critical_floor"]
    assert shown["norm"] == norm
    assert shown["raw"] is not None


@pytest.mark.req("X-52")
@pytest.mark.parametrize(
    ("formula", "floor", "readings"),
    [
        ("likert_1_5", 1, ("0,", "1.")),
        ("likert_0_5", Decimal("0.5"), ("0.1", "0.5")),
        ("likert_neg2_2", 0, ("0.5", "0.")),
    ],
)
def test_a_bare_floor_that_two_readings_fit_is_refused_with_both(
    formula: str, floor: Any, readings: tuple[str, str]
) -> None:
    with pytest.raises(EvidenceError) as caught:
        grade({"raw_score": 2, "formula_id": formula, "critical_floor": floor})
    assert [(fault.code, fault.path) for fault in caught.value.faults] == [
        ("GRD-104", "criteria[0].critical_floor")
    ]
    assert all(reading in caught.value.faults[0].message for reading in readings)
    assert '{"raw": ' in caught.value.faults[0].fix
    assert '{"norm": ' in caught.value.faults[0].fix


@pytest.mark.parametrize(
    "floor",
    [
        {"raw": 6},
        {"norm": Decimal("1.5")},
        {"norm": -1},
        7,
        {"raw": 3, "norm": 0},
        {"percent": 70},
        "0.7",
        True,
    ],
)
def test_a_floor_outside_its_scale_or_of_no_unit_is_refused(floor: Any) -> None:
    assert {
        path
        for _, path in faults({"raw_score": 4, "formula_id": "likert_1_5", "critical_floor": floor})
    } == {"criteria[0].critical_floor"}


# --- missing scores


@pytest.mark.req("X-58")
def test_a_missing_score_is_an_error_in_a_scorecard() -> None:
    assert faults({"raw_score": None}, {"norm": 1}) == [("GRD-103", "criteria[0].raw_score")]


def test_a_missing_score_that_says_why_counts_as_zero_and_leaves_a_finding() -> None:
    found = payload(
        {"name": "judged", "raw_score": None, "missing": "the judge timed out", "n": 50},
        {"name": "tested", "norm": 1},
    )
    judged = found["criteria"][0]
    assert (
        judged["raw_score"],
        judged["norm"],
        judged["adjusted_norm"],
        judged["contribution"],
    ) == (None, 0, 0, 0)
    assert (found["weighted_score"], found["grade"], found["passed"]) == (50, "F", False)
    assert [
        (f["subject"], "the judge timed out" in f["text"])
        for f in found["findings"]
        if f["rule"] == "missing_score" and f["fired"]
    ] == [("judged", True)]
    assert any(
        line.startswith("judged contributes 0.00 of ") and "no score (the judge timed out" in line
        for line in found["explanation"]
    )


@given(scorecards(missing=False), st.data())
def test_leaving_a_score_out_never_helps(card: dict[str, Any], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(card["criteria"]) - 1))
    silent = {
        **card,
        "criteria": [
            {**c, "raw_score": None, "missing": "lost"} if i == index else c
            for i, c in enumerate(card["criteria"])
        ],
    }
    before, after = graded(card).grade, graded(silent).grade
    assert after.score_units <= before.score_units
    assert after.adjusted_score_units <= before.adjusted_score_units
    assert LETTERS.index(after.grade) >= LETTERS.index(before.grade)
    assert after.passed <= before.passed


# --- the adjusted score


@pytest.mark.req("W-037", "X-59")
@pytest.mark.parametrize(
    ("n", "norm", "adjusted"),
    [
        (0, "1", 0.5),
        (5, "1", 0.6),
        (20, "1", 0.75),
        (20, "0", 0.25),
        (10, "0.8", 0.6),
        (1, "0.123456789", 0.482069371),
    ],
)
def test_the_adjusted_norm_pulls_small_samples_to_one_half_with_the_weight_of_20(
    n: int, norm: str, adjusted: float
) -> None:
    assert payload({"norm": Decimal(norm), "n": n})["criteria"][0]["adjusted_norm"] == adjusted


@pytest.mark.req("X-59", "W-038")
def test_both_scores_are_always_there_and_the_letter_reads_the_unadjusted_one() -> None:
    found = payload({"norm": 1})
    assert (
        found["weighted_score"],
        found["weighted_score_adjusted"],
        found["grade"],
        found["passed"],
    ) == (100, 52.38, "A", True)


# --- faults


def test_every_fault_of_a_card_is_told_at_once() -> None:
    found = faults(
        {"name": "off", "raw_score": 6, "formula_id": "likert_1_5"},
        {"name": "gone", "raw_score": None},
        {"name": "odd", "norm": 1, "formula_id": "likrt_1_5"},
        {"name": "odd", "norm": 1, "weight": -1},
        {"name": "heavy", "norm": 1, "critical_floor": {"norm": 2}},
        {"name": "none", "raw_score": {"passed": 0, "total": 0}, "formula_id": "ratio"},
        {"name": "more", "raw_score": {"passed": 3, "total": 2}, "formula_id": "ratio"},
        pass_threshold=200,
    )
    assert set(found) == {
        ("SCO-001", "criteria[0].raw_score"),
        ("GRD-103", "criteria[1].raw_score"),
        ("SCO-002", "criteria[2].raw_score"),
        ("GRD-102", "criteria[3].name"),
        ("SCO-004", "criteria[3].weight"),
        ("GRD-104", "criteria[4].critical_floor"),
        ("SCO-006", "criteria[5].raw_score"),
        ("SCO-007", "criteria[6].raw_score"),
        ("GRD-105", "pass_threshold"),
    }
    assert len(found) == len(set(found))


@pytest.mark.req("X-58")
@pytest.mark.parametrize(
    ("criteria", "fault"),
    [
        ([], ("GRD-106", "criteria")),
        ([{"norm": 1, "weight": 0}, {"norm": 1, "weight": 0}], ("SCO-004", "criteria")),
        ([{"norm": 1, "weight": -1}], ("SCO-004", "criteria[0].weight")),
        ([{"norm": 1, "weight": True}], ("SCO-004", "criteria[0].weight")),
        ([{"norm": 1, "weight": float("nan")}], ("SCO-004", "criteria[0].weight")),
        ([{"norm": 1, "weight": float("inf")}], ("SCO-004", "criteria[0].weight")),
        ([{"norm": 1, "weight": "1"}], ("SCO-004", "criteria[0].weight")),
        ([{"norm": float("nan")}], ("SCO-003", "criteria[0].raw_score")),
        ([{"norm": True}], ("SCO-003", "criteria[0].raw_score")),
        ([{"norm": "1"}], ("SCO-003", "criteria[0].raw_score")),
        ([{"name": "a", "norm": 1}, {"name": "a", "norm": 1}], ("GRD-102", "criteria[1].name")),
        ([{"norm": 1, "params": {"slo_good": 1}}], ("SCO-005", "criteria[0].raw_score")),
    ],
)
def test_a_card_that_cannot_be_graded_is_refused_at_the_right_place(
    criteria: list[dict[str, Any]], fault: tuple[str, str]
) -> None:
    assert fault in faults(*criteria)


def test_a_faulty_card_is_refused_as_it_stands_even_when_a_valid_twin_was_graded_before() -> None:
    # weights are cached by value, and true equals 1
    assert grade({"norm": 1, "weight": 1}, {"norm": 1, "weight": 2}).grade == "A"
    assert faults({"norm": 1, "weight": True}, {"norm": 1, "weight": 2}) == [
        ("SCO-004", "criteria[0].weight")
    ]


# --- the public functions


@pytest.mark.req("W-044")
def test_the_public_function_grades_the_inputs_that_the_guide_names() -> None:
    card = {
        "schema": "assay.scorecard/1",
        "run_id": "r",
        "hard_gates": {"schema_contract_valid": True, "no_leak": True},
        "criteria": [
            {
                "name": "correctness",
                "raw_score": 4,
                "formula_id": "likert_1_5",
                "weight": 0.35,
                "critical_floor": {"raw": 3},
            },
            {
                "name": "tests",
                "raw_score": {"passed": 9, "total": 10},
                "formula_id": "ratio",
                "weight": 0.65,
            },
        ],
    }
    found = assay.grade(card)
    assert (found.grade, found.weighted_score, found.passed, found.pass_threshold) == (
        "B",
        84.75,
        True,
        70.0,
    )
    with pytest.raises(assay.AssayError):
        assay.grade({**card, "hard_gate": {}})


def test_a_policy_without_a_floor_for_a_known_role_grades_its_criteria() -> None:
    rules = make_rules(Shelf().policy("workflow"))._replace(role_floors={})
    criterion = Criterion(
        name="harmless", raw_score=1, formula_id="likert_1_5", weight=1, role="safety"
    )
    found = grade_card(
        Scorecard(schema="assay.scorecard/1", run_id="r", hard_gates={}, criteria=[criterion]),
        rules,
    )
    assert found.floor_failures == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"critical_floor": float("nan")},
        {"critical_floor": {"norm": float("nan")}},
        {"critical_floor": "0.5"},
        {"weight": True},
        {"weight": "1"},
        {"params": {"slo_good": True, "slo_bad": 5}},
    ],
    ids=str,
)
def test_criteria_that_only_look_like_graded_ones_are_refused_all_the_same(
    changes: dict[str, Any],
) -> None:
    """The plan for a card's criteria is kept, and must not serve others."""

    def card(**own: Any) -> Scorecard:
        timed = "params" in changes
        given = {
            "name": "tone",
            "raw_score": 1,
            "formula_id": "lower_is_better" if timed else "zero_one",
            "weight": 1,
            **({"params": {"slo_good": 1, "slo_bad": 5}} if timed else {}),
        }
        return Scorecard(
            schema="assay.scorecard/1",
            run_id="r-1",
            hard_gates={"clean": True},
            criteria=[Criterion(**{**given, **own})],
        )

    for floor in ({}, {"critical_floor": {"norm": None}}, {"critical_floor": Decimal("0.5")}):
        try:
            assert assay.grade(card(**floor)).passed
        except EvidenceError:
            assert floor == {"critical_floor": {"norm": None}}
    with pytest.raises(EvidenceError):
        assay.grade(card(**changes))
