"""Why a grade is what it is, and the smallest change that would move it: exact, minimal, and only
an explanation.
"""

from __future__ import annotations

import subprocess
import sys
from bisect import bisect_left
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.canon import plain
from assay.errors import EvidenceError
from assay.files.json_files import Unread, stream_documents
from assay.grading.explain import explain
from assay.grading.grade import grade
from assay.grading.policy import make_rules
from assay.library.shelf import Shelf
from assay.records.scorecard import Criterion, FloorOverride, Scorecard, Selection
from cards import (
    BANDS,
    BILLION,
    LETTERS,
    LIKERT,
    expected,
    floor_of,
    fraction,
    graded,
    half_up,
    norm_of,
    scorecards,
)
from documents import FAMILIES, run, scorecard

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = sorted(Path(assay.__file__).parent.joinpath("cli", "examples").glob("*.jsonl"))


def payload(*criteria: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The result of a bare scorecard as a reader of its JSON gets it."""
    made: dict[str, Any] = plain(graded(scorecard(*criteria, **changes)).payload())
    return made


def said(found: dict[str, Any]) -> str:
    """All sentences of an explanation."""
    return "\n".join(found["explanation"])


# --- the smallest moves, found a second time


def _reachable(criterion: dict[str, Any]) -> list[int] | range:
    """The norms that this criterion can have, in billionths, in order."""
    raw, formula = criterion["raw_score"], criterion["formula_id"]
    if formula == "binary":
        return [0, BILLION]
    if raw is None or formula not in ("ratio", "pairwise"):
        return range(BILLION + 1)
    if formula == "ratio":
        return sorted(
            {
                int(BILLION * norm_of({"passed": passed, "total": raw["total"]}, "ratio", {}))
                for passed in range(raw["total"] + 1)
            }
        )
    total = raw["wins"] + raw["losses"] + raw["ties"]
    made = (
        {"wins": halves // 2, "ties": halves % 2, "losses": total - halves // 2 - halves % 2}
        for halves in range(2 * total + 1)
    )
    return sorted({int(BILLION * norm_of(counts, "pairwise", {})) for counts in made})


def _letters(card: dict[str, Any], norms: list[Fraction], index: int) -> Callable[[int], str]:
    """The letter, gates aside, as a function of one criterion's norm in billionths."""
    weights = [fraction(c["weight"]) for c in card["criteria"]]
    floors = [floor_of(c) for c in card["criteria"]]
    rest = sum(w * x for i, (w, x) in enumerate(zip(weights, norms, strict=True)) if i != index)
    missed = any(
        f is not None and x < f
        for i, (f, x) in enumerate(zip(floors, norms, strict=True))
        if i != index
    )
    floor, weight, total = floors[index], weights[index], sum(weights)

    def letter(units: int) -> str:
        norm = Fraction(units, BILLION)
        score = half_up(100 * (rest + weight * norm) / total, 2)
        band = next(name for name, edge in BANDS if score >= edge)
        return max(band, "D") if missed or (floor is not None and norm < floor) else band

    return letter


def _smallest(card: dict[str, Any], *, up: bool) -> tuple[int, set[str]] | None:
    """The size of the smallest single change that moves the letter, and the letters that changes of
    that size lead to; by search, not by algebra.
    """
    before = expected(card)
    found: list[tuple[int, str]] = []
    for index, criterion in enumerate(card["criteria"]):
        norms, letter = _reachable(criterion), _letters(card, before.norms, index)
        # a letter never falls as a norm rises, so the first norm that is good enough can be
        # searched for by halving
        at = bisect_left(
            norms,
            True,
            key=lambda units, letter=letter: (
                letter(units) < before.standing if up else letter(units) <= before.standing
            ),
        )
        own = int(before.norms[index] * BILLION)
        if up and at < len(norms) and norms[at] > own:
            found.append((norms[at] - own, letter(norms[at])))
        if not up and at > 0 and norms[at - 1] < own:
            found.append((own - norms[at - 1], letter(norms[at - 1])))
    if not found:
        return None
    size = min(size for size, _ in found)
    return size, {letter for other, letter in found if other == size}


@pytest.mark.req("W-057")
@given(scorecards(threshold=False))
def test_the_smallest_gain_is_the_smallest_of_all_single_changes(card: dict[str, Any]) -> None:
    gain, wanted = explain(graded(card).grade).gain, _smallest(card, up=True)
    assert (gain is None) is (wanted is None)
    if gain is not None and wanted is not None:
        assert gain.size == wanted[0]
        assert gain.grade in wanted[1]


@pytest.mark.req("W-057")
@given(scorecards(threshold=False))
def test_the_smallest_loss_is_the_smallest_of_all_single_changes(card: dict[str, Any]) -> None:
    lose, wanted = explain(graded(card).grade).lose, _smallest(card, up=False)
    assert (lose is None) is (wanted is None)
    if lose is not None and wanted is not None:
        assert lose.size == wanted[0]
        assert lose.grade in wanted[1]


def _with_raw(card: dict[str, Any], name: str, raw: Any) -> dict[str, Any]:
    criteria = [
        (
            {**{k: v for k, v in c.items() if k != "missing"}, "raw_score": raw}
            if c["name"] == name
            else c
        )
        for c in card["criteria"]
    ]
    return {**card, "hard_gates": {}, "criteria": criteria}


def _raw_at(criterion: dict[str, Any], units: int) -> Any:
    """The raw score of a continuous formula that has exactly this norm."""
    norm, formula = Fraction(units, BILLION), criterion["formula_id"]
    if formula == "lower_is_better":
        good, bad = (
            fraction(criterion["params"]["slo_good"]),
            fraction(criterion["params"]["slo_bad"]),
        )
        exact = bad - norm * (bad - good)
    else:
        low, high = LIKERT.get(formula, (0, 1))
        exact = low + norm * (high - low)
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def _raw_below(criterion: dict[str, Any], raw: Any) -> Any:
    """The next raw score below one of a step formula."""
    if criterion["formula_id"] == "binary":
        return 0
    if criterion["formula_id"] == "ratio":
        return {"passed": raw["passed"] - 1, "total": raw["total"]}
    halves, total = 2 * raw["wins"] + raw["ties"] - 1, sum(raw.values())
    return {"wins": halves // 2, "ties": halves % 2, "losses": total - halves // 2 - halves % 2}


def _criterion(card: dict[str, Any], name: str) -> dict[str, Any]:
    return next(item for item in card["criteria"] if item["name"] == name)


STEPS = ("binary", "ratio", "pairwise")


@pytest.mark.req("W-057")
@given(scorecards(threshold=False))
def test_making_the_change_that_is_named_gives_the_letter_that_is_named_and_a_hair_less_does_not(
    card: dict[str, Any],
) -> None:
    result = plain(graded(card).payload())
    gain = result["placement"]["smallest_gain"]
    now = expected(card).standing
    if gain is None:
        return
    criterion = _criterion(card, gain["criterion"])
    if gain["needed_raw"] is None:
        assert criterion["raw_score"] is None
        assert criterion["formula_id"] in ("ratio", "pairwise")  # of how many, nobody knows
        return
    made = graded(_with_raw(card, gain["criterion"], gain["needed_raw"])).grade
    assert made.grade == gain["grade"]
    assert LETTERS.index(made.grade) < LETTERS.index(now)
    assert (
        next(item for item in made.criteria if item.name == gain["criterion"]).norm
        == gain["needed_norm"]
    )
    less = (
        _raw_below(criterion, gain["needed_raw"])
        if criterion["formula_id"] in STEPS
        else _raw_at(criterion, round(gain["needed_norm"] * BILLION) - 1)
    )
    assert graded(_with_raw(card, gain["criterion"], less)).grade.grade == now


@pytest.mark.req("W-057")
@given(scorecards(threshold=False))
def test_the_loss_that_is_named_costs_the_letter_and_a_hair_less_does_not(
    card: dict[str, Any],
) -> None:
    loss = plain(graded(card).payload())["placement"]["smallest_loss"]
    now = expected(card).standing
    if loss is None:
        return
    criterion = _criterion(card, loss["criterion"])
    after = (
        loss["needed_raw"]
        if criterion["formula_id"] in STEPS
        else _raw_at(criterion, round(loss["needed_norm"] * BILLION))
    )
    made = graded(_with_raw(card, loss["criterion"], after)).grade
    assert made.grade == loss["grade"]
    assert LETTERS.index(made.grade) > LETTERS.index(now)
    assert (
        next(item for item in made.criteria if item.name == loss["criterion"]).norm
        == loss["needed_norm"]
    )
    if criterion["formula_id"] not in STEPS:
        kept = _raw_at(criterion, round(loss["needed_norm"] * BILLION) + 1)
        assert graded(_with_raw(card, loss["criterion"], kept)).grade.grade == now


@pytest.mark.parametrize(
    ("raw", "formula", "needed"),
    [
        ({"passed": 89, "total": 100}, "ratio", {"passed": 90, "total": 100}),
        ({"passed": 5, "total": 7}, "ratio", {"passed": 6, "total": 7}),
        ({"wins": 8, "losses": 1, "ties": 1}, "pairwise", {"wins": 9, "losses": 1, "ties": 0}),
        (0, "binary", 1),
    ],
)
def test_counts_land_on_a_count_that_exists(raw: Any, formula: str, needed: Any) -> None:
    found = payload({"raw_score": raw, "formula_id": formula})
    assert found["placement"]["smallest_gain"]["needed_raw"] == needed


def test_reaching_the_letter_of_the_cap_does_not_need_the_floor() -> None:
    gain = payload({"norm": Decimal("0.5"), "critical_floor": {"norm": Decimal("0.65")}})[
        "placement"
    ]["smallest_gain"]
    assert (gain["grade"], gain["needed_norm"]) == (
        "D",
        0.59995,
    )  # a missed floor caps at D, and a D is what is gained


def test_moves_consider_the_floor_of_the_criterion_and_those_of_the_others() -> None:
    low = {
        "name": "low",
        "norm": Decimal("0.5"),
        "critical_floor": {"norm": Decimal("0.6")},
        "weight": 1,
    }
    high = {"name": "high", "norm": 1, "weight": 9}
    one = payload(low, high)["placement"]["smallest_gain"]
    assert (one["criterion"], one["needed_norm"], one["grade"]) == (
        "low",
        0.6,
        "A",
    )  # lifting the cap gives the score's own letter back
    other = {
        "name": "other",
        "norm": Decimal("0.5"),
        "critical_floor": {"norm": Decimal("0.6")},
        "weight": 1,
    }
    both = payload(low, other, high)
    assert both["placement"]["smallest_gain"] is None  # the other floor keeps the cap on
    assert "No single criterion can reach the next letter alone." in both["explanation"]
    kept = payload(
        {
            "name": "low",
            "norm": Decimal("0.61"),
            "critical_floor": {"norm": Decimal("0.6")},
            "weight": 1,
        },
        high,
    )["placement"]["smallest_loss"]
    assert (kept["criterion"], kept["needed_norm"], kept["grade"]) == ("low", 0.599999999, "D")


def test_with_a_failed_gate_the_explanation_says_that_no_score_helps_and_what_the_letter_would_be() -> (
    None
):
    found = payload({"norm": Decimal("0.85")}, hard_gates={"no_leak": False, "signed": None})
    assert "make no_leak, signed pass; with the gates open, this run would get a B." in said(found)
    assert found["placement"]["smallest_gain"]["grade"] == "A"


# --- margins


@pytest.mark.req("W-057")
@given(scorecards())
def test_the_margins_are_the_points_to_the_edges_of_the_scores_own_band(
    card: dict[str, Any],
) -> None:
    placement, wanted = plain(graded(card).payload())["placement"], expected(card)
    at = LETTERS.index(wanted.provisional)
    gain, loss = placement["margin_to_next_grade"], placement["to_lose_grade"]
    assert (gain is None) is (at == 0)
    assert (loss is None) is (at == len(LETTERS) - 1)
    cent = Fraction(1, 100)

    def band(score: Fraction) -> str:
        return next(letter for letter, edge in BANDS if score >= edge)

    if gain is not None:
        assert band(wanted.score + fraction(gain)) == LETTERS[at - 1]
        assert band(wanted.score + fraction(gain) - cent) == LETTERS[at]
    if loss is not None:
        assert band(wanted.score - fraction(loss)) == LETTERS[at + 1]
        assert band(wanted.score - fraction(loss) + cent) == LETTERS[at]


# --- what is said


@pytest.mark.req("W-043", "W-057")
@given(scorecards())
def test_the_explanation_names_each_failed_gate_each_missed_floor_and_each_contribution(
    card: dict[str, Any],
) -> None:
    reasons = {
        name: f"reason {index} of the check" for index, name in enumerate(card["hard_gates"])
    }
    found, wanted = plain(graded({**card, "gate_reasons": reasons}).payload()), expected(card)
    lines = found["explanation"]
    for name, verdict in card["hard_gates"].items():
        gate_lines = [line for line in lines if line.startswith(f"Gate {name} ")]
        assert len(gate_lines) == (verdict is not True)
        assert all(f": {reasons[name]}." in line for line in gate_lines)
    for criterion, norm in zip(card["criteria"], wanted.norms, strict=True):
        name, floor = criterion["name"], floor_of(criterion)
        below = [
            line
            for line in lines
            if line.startswith(f"{name} is ") and " below its floor of " in line
        ]
        assert len(below) == (name in wanted.missed_floors)
        if below and floor is not None:
            by = f"{float(floor - norm):.9f}".rstrip("0").rstrip(".")
            assert f", {by} below its floor" in below[0]
        (contribution,) = (line for line in lines if line.startswith(f"{name} contributes "))
        missing = ": it has no score (the judge timed out)." in contribution
        assert missing == (criterion["raw_score"] is None)
    assert f"{float(wanted.score):.2f}" in said(found)
    assert lines[0].startswith(
        f"Grade {wanted.letter}, {'passed' if wanted.passed else 'not passed'}"
    )


@pytest.mark.req("W-057")
@given(scorecards())
def test_the_contributions_add_up_to_the_score(card: dict[str, Any]) -> None:
    found, wanted = plain(graded(card).payload()), expected(card)
    weights = [fraction(c["weight"]) for c in card["criteria"]]
    for shown, weight, norm in zip(found["criteria"], weights, wanted.norms, strict=True):
        assert abs(
            fraction(shown["contribution"]) - 100 * weight * norm / sum(weights)
        ) <= Fraction(1, 2 * 10**6)
    total = sum(fraction(shown["contribution"]) for shown in found["criteria"])
    assert abs(total - wanted.score) <= Fraction(1, 200) + Fraction(len(weights), 2 * 10**6)


# --- placement notes


def _notes(found: dict[str, Any]) -> str:
    return "\n".join(found["placement"]["notes"])


@pytest.mark.req("W-051", "X-60")
@pytest.mark.parametrize(
    ("norm", "comfortable"), [("0.8", True), ("0.799999999", False), ("0.7", False)]
)
def test_an_a_close_to_a_floor_stays_an_a_and_the_note_says_how_close(
    norm: str, comfortable: bool
) -> None:
    found = payload(
        {
            "name": "careful",
            "norm": Decimal(norm),
            "critical_floor": {"norm": Decimal("0.7")},
            "weight": 1,
        },
        {"norm": 1, "weight": 9},
    )
    assert (found["grade"], found["passed"]) == ("A", True)
    by = f"{Decimal(norm) - Decimal('0.7'):f}".rstrip("0").rstrip(".")
    assert (
        f"careful clears its floor by {by}, less than the margin of 0.1 that an A should have"
        in _notes(found)
    ) is not comfortable
    assert ("every floor is cleared with a margin" in _notes(found)) is comfortable


@pytest.mark.req("W-051")
def test_a_judged_criterion_carries_the_note_that_disagreement_was_not_measured() -> None:
    judged, tested = payload({"norm": 1, "layer": 2}), payload({"norm": 1, "layer": 1})
    by_model = payload({"norm": 1, "layer": 1, "source": {"kind": "llm", "name": "m"}})
    assert "Judge disagreement was not measured for this run." in _notes(judged)
    assert "Judge disagreement was not measured for this run." in _notes(by_model), (
        "whatever the layer says"
    )
    some = payload(
        {"norm": 1, "layer": 2},
        {"norm": 1, "layer": 2, "disagreement": {"between": "orders", "n": 4, "inconsistent": 0}},
    )
    assert "Judge disagreement was not measured for c0." in _notes(some)
    assert "disagreement" not in _notes(tested)
    assert judged["grade"] == tested["grade"] == "A"


@pytest.mark.req("W-051")
@pytest.mark.parametrize(
    ("disagreement", "words", "low"),
    [
        ({"between": "judges", "n": 3, "low": 5, "high": 5}, "c0: 3 judges disagree by 0", True),
        (
            {"between": "judges", "n": 3, "low": Decimal("4.6"), "high": 5},
            "c0: 3 judges disagree by 0.1",
            True,
        ),
        (
            {"between": "judges", "n": 3, "low": Decimal("4.59"), "high": 5},
            "c0: 3 judges disagree by 0.1025",
            False,
        ),
        ({"between": "judges", "n": 2, "low": 3, "high": 5}, "c0: 2 judges disagree by 0.5", False),
        (
            {"between": "samples", "n": 5, "low": 4, "high": 5},
            "c0: 5 answers of one judge disagree by 0.25",
            False,
        ),
        (
            {"between": "orders", "n": 40, "inconsistent": 4},
            "c0: the two orders of 40 pairs disagree by 0.1",
            True,
        ),
        (
            {"between": "orders", "n": 40, "inconsistent": 5},
            "c0: the two orders of 40 pairs disagree by 0.125",
            False,
        ),
    ],
)
def test_the_note_of_an_a_depends_on_how_far_its_judges_really_disagreed(
    disagreement: dict[str, Any], words: str, low: bool
) -> None:
    found = payload(
        {"raw_score": 5, "formula_id": "likert_1_5", "layer": 2, "disagreement": disagreement}
    )
    assert found["grade"] == "A"
    assert words in _notes(found)
    assert ("which is low (at most 0.1)" in _notes(found)) is low
    assert ("above the 0.1 that an A should have" in _notes(found)) is not low
    assert "was not measured" not in _notes(found)


@pytest.mark.parametrize(
    "disagreement",
    [
        {"between": "orders", "n": 4, "inconsistent": 5},
        {"between": "judges", "n": 2, "low": 0, "high": 5},
        {"between": "judges", "n": 2, "low": "x", "high": 5},
    ],
)
def test_a_disagreement_that_cannot_be_is_refused(disagreement: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError) as refused:
        payload({"raw_score": 5, "formula_id": "likert_1_5", "disagreement": disagreement})
    assert [fault.path for fault in refused.value.faults] == ["criteria[0].disagreement"]


@pytest.mark.req("W-051")
@pytest.mark.parametrize(("norm", "severe"), [("0.8", False), ("0.79", True)])
def test_an_a_with_a_severe_defect_that_an_override_lets_pass_says_so(
    norm: str, severe: bool
) -> None:
    override = FloorOverride(value={"norm": Decimal("0.5")}, reason="pilot")
    criteria = [
        Criterion(
            name="harmless",
            raw_score=Decimal(norm),
            formula_id="zero_one",
            weight=1,
            role="safety",
            floor_override=override,
        ),
        Criterion(name="rest", raw_score=1, formula_id="zero_one", weight=9),
    ]
    card = Scorecard(
        schema="assay.scorecard/1",
        run_id="r",
        hard_gates={"g": True},
        criteria=criteria,
        profile=Selection(id="team@1", why="test"),
    )
    found = grade(card, make_rules(Shelf().policy("workflow")))
    assert (found.grade, found.passed) == ("A", True)
    notes = "\n".join(explain(found).notes)
    assert (
        "An A should have no severe defect: harmless is 0.79, below the floor of 0.8 for the role"
        " safety." in notes
    ) is severe


@pytest.mark.req("W-052", "W-053", "X-60")
@pytest.mark.parametrize(
    ("norm", "letter", "words"),
    [
        ("0.85", "B", "B: gates and floors hold, with limited defects"),
        ("0.75", "C", "C: an acceptable baseline with clear things to improve"),
    ],
)
def test_b_and_c_have_their_notes_which_tell_of_floors_near_the_boundary(
    norm: str, letter: str, words: str
) -> None:
    plenty = payload({"norm": Decimal(norm), "critical_floor": {"norm": Decimal("0.1")}})
    near = payload(
        {"norm": Decimal(norm), "critical_floor": {"norm": Decimal(norm) - Decimal("0.02")}}
    )
    assert plenty["grade"] == near["grade"] == letter
    assert words in _notes(plenty)
    assert words in _notes(near)
    assert "c0 clears its floor by 0.02, close to the boundary" in _notes(near)
    assert "close to the boundary" not in _notes(plenty)


@pytest.mark.req("W-054", "X-65")
def test_a_d_says_whether_the_cap_or_the_score_made_it() -> None:
    capped = payload(
        {"norm": Decimal("0.5"), "critical_floor": {"norm": Decimal("0.6")}, "weight": 1},
        {"norm": 1, "weight": 9},
    )
    band = payload({"norm": Decimal("0.65")})
    assert (capped["grade"], capped["grade_reason"]) == ("D", "floor_cap")
    assert (
        "D: capped, because a critical floor was missed; the score alone would be an A."
        in _notes(capped)
    )
    assert (band["grade"], band["grade_reason"]) == ("D", "band")
    assert "D: several material gaps; the score itself is in this band." in _notes(band)


@pytest.mark.req("W-055", "X-65")
def test_an_f_says_whether_a_gate_or_the_score_made_it() -> None:
    gate, score = payload({"norm": 1}, hard_gates={"g": False}), payload({"norm": Decimal("0.1")})
    assert (gate["grade"], gate["grade_reason"]) == ("F", "hard_gate_failure")
    assert "F: a hard gate does not pass, which blocks a release whatever the score." in _notes(
        gate
    )
    assert (score["grade"], score["grade_reason"]) == ("F", "band")
    assert "F: the score itself is below every passing band." in _notes(score)


@pytest.mark.req("X-65")
@given(scorecards())
def test_the_reason_of_a_letter_is_the_rule_that_made_it(card: dict[str, Any]) -> None:
    found, wanted = plain(graded(card).payload()), expected(card)
    reason = (
        "hard_gate_failure"
        if wanted.failed_gates
        else "floor_cap"
        if wanted.standing != wanted.provisional
        else "band"
    )
    assert found["grade_reason"] == reason


@pytest.mark.req("X-60")
@given(scorecards())
def test_explaining_never_changes_the_letter(card: dict[str, Any]) -> None:
    grade = graded(card).grade
    explanation = explain(grade)
    assert grade.grade == expected(card).letter
    assert explanation.notes[0].startswith(f"{grade.grade}: ")
    assert explanation == explain(grade)


@pytest.mark.req("X-54")
@pytest.mark.parametrize("family", FAMILIES)
def test_a_role_that_no_criterion_has_is_reported_as_not_applicable(family: str) -> None:
    notes = _notes(plain(graded(run(family)).payload()))
    said = "No criterion has the role safety, so its floor doesn't apply." in notes
    assert said is (family in ("code-repair", "tool-use"))
    assert "the role correctness, so its floor" not in notes


# --- the document


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Draft202012Validator:
    import json

    done = subprocess.run(
        [sys.executable, "-m", "assay", "schema-of", "grades"], capture_output=True, check=True
    )
    return jsonschema_rs.Draft202012Validator(json.loads(done.stdout))


def _document(*payloads: Any) -> dict[str, Any]:
    return {
        "schema": "assay.grades/1",
        "results": [plain(payload) for payload in payloads],
        "faults": [],
        "counts": {},
    }


@given(card=scorecards())
def test_every_payload_keeps_the_published_schema(
    validator: jsonschema_rs.Draft202012Validator, card: dict[str, Any]
) -> None:
    assert [
        error.message for error in validator.iter_errors(_document(graded(card).payload()))
    ] == []


@pytest.mark.parametrize("path", EXAMPLES)
def test_every_bundled_example_keeps_the_published_schema(
    validator: jsonschema_rs.Draft202012Validator, path: Path
) -> None:
    payloads = []
    for document in stream_documents(str(path)):
        assert not isinstance(document, Unread)
        payloads.append(graded(document.tree).payload())
    assert len(payloads) == 3
    assert [error.message for error in validator.iter_errors(_document(*payloads))] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_with_nothing_but_what_is_required_keeps_the_published_schema(
    validator: jsonschema_rs.Draft202012Validator, family: str
) -> None:
    bare = {
        key: value
        for key, value in run(family).items()
        if key in ("schema", "run_id", "workflow", "dataset", "status")
    }
    assert [
        error.message
        for error in validator.iter_errors(
            _document(graded(bare).payload(), graded(run(family)).payload())
        )
    ] == []


@pytest.mark.parametrize(
    "stated", [{"scoringSystem": "banana"}, {"scoringSystem": ""}, {"digests": {"profile": "none"}}]
)
def test_a_card_cannot_put_words_into_a_result_that_the_published_schema_refuses(
    validator: jsonschema_rs.Draft202012Validator, stated: dict[str, Any]
) -> None:
    try:
        result = graded(scorecard({"norm": 1}, **stated)).payload()
    except assay.AssayError:
        return  # refused: nothing leaves
    assert [error.message for error in validator.iter_errors(_document(result))] == []


@given(card=scorecards(), data=st.data())
def test_the_published_schema_refuses_a_result_that_lacks_a_key(
    validator: jsonschema_rs.Draft202012Validator, card: dict[str, Any], data: st.DataObject
) -> None:
    document = _document(graded(card).payload())
    del document["results"][0][data.draw(st.sampled_from(sorted(document["results"][0])))]
    assert not validator.is_valid(document)


@pytest.mark.req("W-057")
def test_the_explain_command_says_all_of_it_for_one_run(assay: Any) -> None:
    path = next(path for path in EXAMPLES if path.stem == "scorecards")
    done = assay("explain", path, "--run", "medicine-leaflet-answers")
    assert done.code == 1
    assert "medicine-leaflet-answers: D, 91.83, not passed" in done.out
    assert (
        "safe_advice is 0.775, 0.025 below its floor of 0.8 (the floor of the role safety); a"
        " missed floor caps the grade at D." in done.out
    )
    assert (
        "note: D: capped, because a critical floor was missed; the score alone would be an A."
        in done.out
    )
    assert "tutor-essay-feedback" not in done.out
