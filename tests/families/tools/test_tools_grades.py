"""Letters of tool schemas: two systems kept apart, bands at their edges, caps that never raise,
vetoes that beat everything.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError, InputError
from assay.families import tools
from assay.families.tools import behaviour, policy
from assay.families.tools.aggregate import aggregate
from assay.families.tools.answers import AUTONOMOUS_DIMENSIONS, DIMENSIONS
from assay.families.tools.entry import EntrySubject, extended_schema
from assay.families.tools.names import AREAS, AUTONOMOUS, GROUP_BOUND, LETTERS, REJECTED, TIERS
from assay.families.tools.policy import (
    CURRENT,
    SchemaPolicy,
    SchemaRules,
    at_least,
    better,
    capped,
    load_schema_policy,
)
from assay.families.tools.report import grade_scores
from assay.families.tools.veto import TRIGGERS, check_trigger
from assay.files.json_files import Document
from assay.library import fingerprint
from assay.library.lock import RecordedSystem, lock_of
from assay.library.shelf import Shelf
from assay.records.systems import Systems
from tool_records import aggregate_answers, as_veto, build_entry, make_veto

POLICY = Shelf().policy_of("flowmcp", "flowmcp")
RULES = SchemaRules(POLICY)
TREE: dict[str, Any] = msgspec.to_builtins(POLICY, builtin_types=(Decimal,))
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LLM = {"kind": "llm", "name": "judge", "version": "1"}
SCRIPT = {"kind": "script", "name": "probe", "version": "1"}
SUBJECT = EntrySubject("alpha.getPrice", "single-test", "aaaaaaaa", "flowmcp/4.0.0")

scores = st.one_of(st.decimals(1, 5, places=3), st.sampled_from(["pass", "fail"]))
weights = st.decimals("0.01", 100, places=2)
pairs = st.lists(st.tuples(scores, weights), min_size=1, max_size=8)
RANK = {letter: rank for rank, letter in enumerate(reversed(LETTERS))}


def answer(question: str = "Q-whenToUse", score: Any = 4, **changes: Any) -> dict[str, Any]:
    return {
        "questionId": question,
        "score": score,
        "weight": 1,
        "determinism": "non-deterministic",
        "graderIdentity": LLM,
        "llmModel": "m-1",
        "selectionContext": {"groupId": "g", "personaIds": ["neutral"]},
        "timestamp": "2026-05-01T12:00:00Z",
        **changes,
    }


def probe(
    question: str = "Q-api-availability", score: Any = "pass", **changes: Any
) -> dict[str, Any]:
    return {
        "questionId": question,
        "score": score,
        "weight": 1,
        "determinism": "deterministic",
        "graderIdentity": SCRIPT,
        "timestamp": "2026-05-01T12:00:00Z",
        **changes,
    }


def veto_of(trigger: str) -> dict[str, Any]:
    return make_veto(
        trigger,
        evidence="seen in line 3",
        grader=SCRIPT,
        reasoning="it sends the key away",
        now=NOW,
    )


def changed(**changes: Any) -> SchemaRules:
    return SchemaRules(msgspec.structs.replace(POLICY, **changes))


def refused(take: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(AssayError) as caught:
        take(*arguments, **named)
    return caught.value.code


# --- two systems


@pytest.mark.req("F-001", "F-003", "F-004", "F-005")
def test_the_systems_the_specification_and_the_protocol_have_four_names_of_their_own() -> None:
    assert (policy.SCORING_SYSTEM, policy.GRADING_SYSTEM) == (
        "scoringSystem/1.0.0",
        "gradingSystem/1.0.0",
    )
    assert policy.GRADING_SPEC == "gradingSpec/2.0.1"
    assert policy.SCORING_PROTOCOL == "v1"
    assert tuple(CURRENT) == (policy.SCORING_SYSTEM, policy.GRADING_SYSTEM)


@pytest.mark.req("F-001", "F-003", "F-004")
def test_a_version_is_three_numbers_in_ascii_under_the_name_of_its_system() -> None:
    properties = extended_schema()["properties"]
    scoring, grading = (
        properties["scoringSystem"]["pattern"],
        properties["gradingSystem"]["pattern"],
    )
    for text in (
        "scoringSystem/1.0",
        "scoringSystem/1.0.0.0",
        "scoringSystem/v1.0.0",
        "scoringSystem/1.0.0 ",
        "ScoringSystem/1.0.0",
        "scoringSystem/١.٠.٠",
        "1.0.0",
        "",
    ):
        assert not re.search(scoring, text, re.ASCII), text
    assert re.search(scoring, "scoringSystem/10.0.3")
    assert not re.search(grading, "scoringSystem/10.0.3")
    assert re.search(grading, "gradingSystem/0.1.12")


@pytest.mark.req("F-006", "F-008")
@pytest.mark.parametrize(
    "systems",
    [
        CURRENT._replace(scoring="scoringSystem/1.1.0"),
        CURRENT._replace(grading="gradingSystem/2.0.0"),
        Systems("scoringSystem/3.0.0", "gradingSystem/0.1.0"),
    ],
)
def test_an_entry_carries_both_versions_as_given_and_moving_one_moves_no_other(
    systems: Systems,
) -> None:
    entry = build_entry(
        SUBJECT, [answer()], RULES, now=NOW, harness="claude-code", systems=systems
    ).entry
    assert (entry["scoringSystem"], entry["gradingSystem"]) == tuple(systems)


@pytest.mark.req("F-001")
def test_faults_of_a_score_and_faults_of_a_grade_have_codes_of_their_own_system() -> None:
    assert refused(aggregate, [(6, 1)], AUTONOMOUS, RULES).startswith("SCO-")
    assert refused(aggregate, [(4, -1)], AUTONOMOUS, RULES).startswith("SCO-")
    assert refused(aggregate, [(4, 1)], "solo", RULES).startswith("GRD-")
    assert refused(aggregate, [(4, 1)], AUTONOMOUS, RULES, veto="x").startswith("VET-")


@pytest.mark.req("F-002")
@given(pairs, st.sampled_from(TIERS))
def test_scoring_gives_a_number_from_one_to_five_and_grading_one_of_five_letters(
    given_pairs: Any, tier: str
) -> None:
    found = aggregate(given_pairs, tier, RULES)
    assert found.mean is not None
    assert 1 <= found.mean <= 5
    assert found.grade in LETTERS
    assert found.raw_grade in LETTERS


GRADING_CHANGES: dict[str, dict[str, Any]] = {
    "a threshold": {
        "bands": [
            msgspec.structs.replace(band, min=Decimal("4.4")) if band.grade == "A" else band
            for band in POLICY.bands
        ]
    },
    "the numeric mapping": {"worth": msgspec.structs.replace(POLICY.worth, passed=Decimal("4.9"))},
    "the tier trim": {"tier_caps": {"autonomous": "C", "group-bound": "A"}},
}


@pytest.fixture(scope="module")
def before() -> dict[tuple[str, str], str]:
    """As the lock records them, which is how they are: see test_library.py."""
    return {
        (family, name): held.fingerprint
        for family, systems in lock_of().systems.items()
        for name, held in systems.items()
    }


@pytest.mark.req("F-006", "F-007", "F-033")
def test_changing_the_rules_of_grading_shows_in_the_fingerprint_of_grading_and_in_no_other(
    monkeypatch: pytest.MonkeyPatch, before: dict[tuple[str, str], str]
) -> None:
    kept, scoring, grading = Shelf.policy_of, behaviour.scoring(), behaviour.grading()
    for changes in GRADING_CHANGES.values():
        policy = msgspec.structs.replace(POLICY, **changes)
        monkeypatch.setattr(
            Shelf,
            "policy_of",
            lambda self, family, name, policy=policy: (
                policy if family == "flowmcp" else kept(self, family, name)
            ),
        )
        assert behaviour.grading() != grading
        assert behaviour.scoring() == scoring
    current = fingerprint.current()
    after = {(item.family, item.name): item.fingerprint for item in current}
    assert {key for key in before if before[key] != after[key]} == {("flowmcp", "grading")}
    system = RecordedSystem(CURRENT.grading, before["flowmcp", "grading"])
    recorded = {"flowmcp": {"grading": system}}
    assert any(
        "flowmcp grading: behaviour changed and the version is still" in text
        for text in fingerprint.check(current, recorded)
    )


@pytest.mark.req("F-006", "F-007")
def test_changing_a_rule_of_scoring_shows_in_the_fingerprint_of_scoring_and_in_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scoring, grading = behaviour.scoring(), behaviour.grading()
    monkeypatch.setattr(
        behaviour, "http_score", lambda status: "pass" if status in (200, 429) else "fail"
    )
    assert behaviour.scoring() != scoring
    assert behaviour.grading() == grading


# --- bands


@pytest.mark.req("F-030")
@pytest.mark.parametrize(
    ("mean", "letter"),
    [
        ("5", "A"),
        ("4.5", "A"),
        ("4.49", "B"),
        ("3.5", "B"),
        ("3.49", "C"),
        ("2.5", "C"),
        ("2.49", "D"),
        ("1.5", "D"),
        ("1.49", "F"),
        ("1", "F"),
    ],
)
def test_the_lower_edge_belongs_to_its_band(mean: str, letter: str) -> None:
    assert aggregate([(Decimal(mean), 1)], GROUP_BOUND, RULES).grade == letter
    assert RULES.letter(Fraction(mean)) == letter


@pytest.mark.req("F-030", "X-12")
@pytest.mark.parametrize(
    ("edge", "at", "below"),
    [("4.5", "A", "B"), ("3.5", "B", "C"), ("2.5", "C", "D"), ("1.5", "D", "F")],
)
def test_a_mean_is_compared_unrounded(edge: str, at: str, below: str) -> None:
    assert RULES.letter(Fraction(edge)) == at
    assert RULES.letter(Fraction(edge) - Fraction(1, 10**40)) == below
    assert aggregate([(Decimal(f"{edge[0]}.4{'9' * 40}"), 1)], GROUP_BOUND, RULES).grade == below


WEIGHTS = [
    (".1", ".2", ".34"),
    (".1", ".1", ".1"),
    (".34", ".33", ".33"),
    (".2",) * 5,
    (".25",) * 4,
    (".1",) * 7,
    ("0.07", "0.7", "7"),
    ("1e-9", "3", "1e9"),
    (".6", ".3", ".1"),
]


@pytest.mark.req("F-030", "X-12")
@pytest.mark.parametrize("edge", ["4.5", "3.5", "2.5", "1.5"])
@pytest.mark.parametrize("weights_", WEIGHTS)
@pytest.mark.parametrize("kind", [Decimal, float])
def test_equal_scores_on_an_edge_reach_it_whatever_their_weights(
    edge: str, weights_: tuple[str, ...], kind: Any
) -> None:
    found = aggregate([(kind(edge), kind(weight)) for weight in weights_], GROUP_BOUND, RULES)
    assert (found.mean, found.grade) == (Fraction(edge), RULES.letter(Fraction(edge)))


@pytest.mark.req("F-029", "F-030")
@given(pairs)
def test_the_letter_is_that_of_the_exact_mean(given_pairs: Any) -> None:
    found = aggregate(given_pairs, GROUP_BOUND, RULES)
    assert found.mean is not None
    edges = [("A", "4.5"), ("B", "3.5"), ("C", "2.5"), ("D", "1.5"), ("F", "0")]
    assert found.grade == next(letter for letter, edge in edges if found.mean >= Fraction(edge))


@pytest.mark.req("F-030")
@given(pairs, st.data())
def test_no_score_that_rises_lowers_the_grade(given_pairs: Any, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(given_pairs) - 1))
    score, weight = given_pairs[place]
    held = {"pass": Decimal(5), "fail": Decimal(1)}[score] if isinstance(score, str) else score
    raised = data.draw(st.decimals(held, 5, places=3))
    for tier in TIERS:
        before = aggregate(given_pairs, tier, RULES)
        after = aggregate(
            [*given_pairs[:place], (raised, weight), *given_pairs[place + 1 :]], tier, RULES
        )
        assert RANK[after.grade or ""] >= RANK[before.grade or ""]
        assert RANK[after.raw_grade or ""] >= RANK[before.raw_grade or ""]


# --- caps


@pytest.mark.req("F-032", "F-040")
@given(pairs)
def test_the_autonomous_tier_never_goes_beyond_b_and_keeps_what_it_would_have_been(
    given_pairs: Any,
) -> None:
    found, free = (
        aggregate(given_pairs, AUTONOMOUS, RULES),
        aggregate(given_pairs, GROUP_BOUND, RULES),
    )
    assert found.raw_grade == free.grade == free.raw_grade
    assert found.grade == ("B" if free.grade == "A" else free.grade)
    assert (found.max_attainable, free.max_attainable) == ("B", "A")


@pytest.mark.req("F-032")
@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("cap", LETTERS)
def test_a_cap_never_raises_a_letter(letter: str, cap: str) -> None:
    found = capped(letter, cap)
    assert not better(found, letter)
    assert not better(found, cap)
    assert found in (letter, cap)


@pytest.mark.req("F-039", "F-040")
@pytest.mark.parametrize("tier", [None, "", "Autonomous", "group", 1, [], {}, True])
def test_there_are_two_tiers_and_an_unknown_one_is_refused(tier: Any) -> None:
    assert refused(aggregate, [(4, 1)], tier, RULES) == "GRD-003"
    assert TIERS == ("autonomous", "group-bound")


@pytest.mark.req("F-040")
@pytest.mark.parametrize("given_pairs", [[(5, 1)], [("n/a", 1)], []])
@pytest.mark.parametrize("trigger", [None, TRIGGERS[0]])
def test_the_best_attainable_letter_is_always_told(given_pairs: Any, trigger: str | None) -> None:
    for tier, best in (("autonomous", "B"), ("group-bound", "A")):
        assert aggregate(given_pairs, tier, RULES, veto=trigger).max_attainable == best


@pytest.mark.req("F-035", "F-041")
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_an_a_needs_an_answer_that_is_bound_to_the_group(dimension: str) -> None:
    found = aggregate_answers([answer(f"Q-{dimension}", 5)], GROUP_BOUND, RULES)
    bound = dimension in (
        "personaUseCaseFit",
        "domainConformance",
        "selectionSkillL1",
        "selectionSkillL2",
        "selectionSkillL3",
    )
    assert (dimension not in AUTONOMOUS_DIMENSIONS) == bound
    assert (found.grade, found.raw_grade) == ("A" if bound else "B", "A")


@pytest.mark.req("F-035")
@pytest.mark.parametrize(
    "change",
    [
        {"score": "n/a", "naReason": "requires-private-data"},
        {"score": "stale"},
        {"weight": 0},
        {"weight": Decimal("0.0")},
    ],
)
def test_an_answer_that_does_not_count_is_no_group_bound_contribution(
    change: dict[str, Any],
) -> None:
    listed = [answer("Q-whenToUse", 5), answer("Q-personaUseCaseFit", 5)]
    assert aggregate_answers(listed, GROUP_BOUND, RULES).grade == "A"
    assert aggregate_answers([listed[0], {**listed[1], **change}], GROUP_BOUND, RULES).grade == "B"


@pytest.mark.req("F-034")
def test_a_b_without_a_judged_answer_is_a_warning_and_no_other_letter() -> None:
    found = aggregate_answers([probe()], AUTONOMOUS, RULES)
    assert (found.grade, found.warnings) == ("B", ("B without any judged answer",))
    assert aggregate_answers([probe(), answer()], AUTONOMOUS, RULES).warnings == ()
    assert aggregate_answers([probe(score=3)], AUTONOMOUS, RULES).warnings == ()
    assert (
        aggregate_answers([probe(), answer(score="stale")], AUTONOMOUS, RULES).warnings[-1]
        == "B without any judged answer"
    )


@pytest.mark.req("F-044")
def test_areas_one_to_six_are_autonomous_and_seven_to_eleven_bound_to_a_group() -> None:
    assert [area.tier for area in AREAS.values()] == ["autonomous"] * 6 + ["group-bound"] * 5


@pytest.mark.req("F-044", "F-035")
@pytest.mark.parametrize("area", [area.name for area in AREAS.values() if area.tier == AUTONOMOUS])
def test_no_autonomous_area_is_ever_an_a(area: str) -> None:
    subject = SUBJECT._replace(
        area=area,
        persona={"basePersonaId": "ai-engineer", "lensId": "x"} if AREAS[area].persona else None,
    )
    subject = subject._replace(skill_id="s" if AREAS[area].skill else None)
    entry = build_entry(
        subject, [answer("Q-personaUseCaseFit", 5)], RULES, now=NOW, harness="claude-code"
    ).entry
    assert (entry["gradingTier"], entry["aggregateGrade"], entry["maxAttainableGrade"]) == (
        "autonomous",
        "B",
        "B",
    )


# --- vetoes


@pytest.mark.parametrize(
    "trigger",
    [
        None,
        "",
        "Malicious-module",
        "copyright",
        1,
        True,
        [],
        {},
        ["malicious-module"],
    ],
)
def test_four_things_trigger_a_veto_and_nothing_else_does(trigger: Any) -> None:
    assert TRIGGERS == (
        "malicious-module",
        "api-key-domain-mismatch",
        "illegal-content",
        "ai-security-veto",
    )
    assert isinstance(TRIGGERS, tuple)
    assert refused(make_veto, trigger, evidence="e", grader=SCRIPT, now=NOW) == "VET-001"
    assert refused(check_trigger, trigger) == "VET-001"


@pytest.mark.req("F-028", "F-036", "F-045")
@given(
    st.lists(st.tuples(st.one_of(scores, st.sampled_from(["n/a", "stale"])), weights), max_size=5),
    st.sampled_from(TIERS),
    st.sampled_from(TRIGGERS),
)
def test_a_veto_beats_everything_and_nothing_is_aggregated(
    given_pairs: Any, tier: str, trigger: str
) -> None:
    found = aggregate(given_pairs, tier, RULES, veto=trigger)
    assert (found.grade, found.raw_grade, found.mean, found.status) == (
        REJECTED,
        None,
        None,
        "rejected",
    )


@pytest.mark.req("F-028")
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_veto_comes_before_any_look_at_the_scores(trigger: str) -> None:
    assert aggregate([("nonsense", -1)], AUTONOMOUS, RULES, veto=trigger).grade == REJECTED


@pytest.mark.req("F-036")
@given(pairs, st.sampled_from(TIERS))
def test_without_a_veto_no_scores_are_bad_enough_to_be_rejected(
    given_pairs: Any, tier: str
) -> None:
    assert aggregate(given_pairs, tier, RULES).grade != REJECTED


@pytest.mark.req("F-047", "F-053")
def test_a_veto_says_what_triggered_it_who_saw_what_and_when() -> None:
    made = make_veto("ai-security-veto", evidence="seen", grader=LLM, reasoning="it leaks", now=NOW)
    assert made == {
        "triggeredBy": "ai-security-veto",
        "graderIdentity": LLM,
        "evidence": "seen",
        "timestamp": "2026-05-01T12:00:00Z",
        "reasoning": "it leaks",
    }
    assert "reasoning" not in make_veto("illegal-content", evidence="seen", grader=SCRIPT, now=NOW)


@pytest.mark.req("F-047", "F-053")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"triggered_by": "x", "evidence": None, "reasoning": None, "grader": None}, "VET-001"),
        ({"evidence": None, "reasoning": None, "grader": None}, "VET-002"),
        ({"evidence": ""}, "VET-002"),
        ({"evidence": {}}, "VET-002"),
        ({"evidence": 5}, "VET-002"),
        ({"evidence": ["x"]}, "VET-002"),
        ({"reasoning": None, "grader": None}, "VET-003"),
        ({"reasoning": " \n"}, "VET-003"),
        ({"reasoning": 5}, "VET-003"),
        ({"grader": None}, "VET-004"),
        ({"grader": {}}, "VET-004"),
        ({"grader": {"kind": "llm", "name": "x"}}, "VET-004"),
        ({"grader": {**LLM, "kind": "robot"}}, "VET-004"),
        ({"grader": {**LLM, "name": ""}}, "VET-004"),
        ({"grader": {**LLM, "version": 1}}, "VET-004"),
    ],
)
def test_the_first_thing_a_veto_lacks_is_told_in_a_fixed_order(
    change: dict[str, Any], code: str
) -> None:
    whole = {
        "triggered_by": "ai-security-veto",
        "evidence": "seen",
        "reasoning": "it leaks",
        "grader": LLM,
        "now": NOW,
    }
    assert refused(make_veto, **{**whole, **change}) == code


@pytest.mark.req("F-047", "F-053")
def test_blanks_are_no_evidence() -> None:
    assert (
        refused(make_veto, "illegal-content", evidence=" \n\t", grader=SCRIPT, now=NOW) == "VET-002"
    )


@pytest.mark.req("X-41")
def test_evidence_given_as_an_object_is_written_as_a_text() -> None:
    assert (
        make_veto("malicious-module", evidence={"b": 1, "a": [2]}, grader=SCRIPT, now=NOW)[
            "evidence"
        ]
        == '{"a":[2],"b":1}'
    )


@pytest.mark.req("F-036", "F-045")
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_an_entry_with_a_veto_is_rejected_and_one_without_never_is(trigger: str) -> None:
    made = build_entry(
        SUBJECT, [answer(score=5)], RULES, now=NOW, harness="claude-code", veto=veto_of(trigger)
    )
    assert (made.entry["aggregateGrade"], made.entry["categoricalVeto"]["triggeredBy"]) == (
        REJECTED,
        trigger,
    )
    assert (
        build_entry(SUBJECT, [answer(score=1)], RULES, now=NOW, harness="claude-code").entry[
            "aggregateGrade"
        ]
        == "F"
    )


@pytest.mark.req("F-045", "F-024")
def test_a_veto_needs_no_judged_answer_to_stand() -> None:
    assert (
        build_entry(
            SUBJECT,
            [probe(score="fail")],
            RULES,
            now=NOW,
            harness="claude-code",
            veto=veto_of("malicious-module"),
        ).entry["aggregateGrade"]
        == REJECTED
    )


@pytest.mark.req("F-071")
def test_a_veto_is_no_part_of_a_partial_grading() -> None:
    last = build_entry(SUBJECT, [answer()], RULES, now=NOW, harness="claude-code").entry
    code = refused(
        build_entry,
        SUBJECT,
        [answer()],
        RULES,
        now=NOW,
        harness="claude-code",
        mode="partial",
        last_full=last,
        veto=veto_of("illegal-content"),
    )
    assert code == "PRT-005"


@pytest.mark.req("F-028", "F-135", "X-10", "X-11")
def test_a_report_is_capped_like_any_autonomous_grade_and_shows_what_it_would_have_been() -> None:
    verdict = grade_scores([5, Decimal("4.5")], RULES, validation_passed=True)
    assert (verdict.grade, verdict.raw_grade, verdict.score) == ("B", "A", Fraction(19, 4))
    assert grade_scores([5, 5], RULES, validation_passed=False).grade == "F"
    assert (
        grade_scores(
            [5, 5], RULES, validation_passed=True, veto=as_veto(veto_of("illegal-content"))
        ).grade
        == REJECTED
    )
    assert (
        grade_scores(
            [5, 5], RULES, validation_passed=False, veto=as_veto(veto_of("illegal-content"))
        ).grade
        == REJECTED
    )


# --- the policy


@pytest.mark.req("F-030", "F-032", "F-033")
def test_the_published_policy_holds_the_published_numbers() -> None:
    assert RULES.bands == (
        ("A", Fraction(9, 2)),
        ("B", Fraction(7, 2)),
        ("C", Fraction(5, 2)),
        ("D", Fraction(3, 2)),
        ("F", Fraction(1)),
    )
    assert RULES.caps == {"autonomous": "B", "group-bound": "A"}
    assert (
        RULES.policy.stable_from,
        RULES.policy.production_from,
        RULES.policy.group_bound_from,
        RULES.policy.judged_from,
    ) == ("B", "B", "A", "B")


@pytest.mark.req("F-033")
def test_two_policies_with_other_rules_never_have_one_digest() -> None:
    assert len(
        {RULES.digest, *(changed(**change).digest for change in GRADING_CHANGES.values())}
    ) == 1 + len(GRADING_CHANGES)


@pytest.mark.req("F-030")
@pytest.mark.parametrize(
    "change",
    [
        {
            "bands": [
                {"grade": "A", "min": 4.5},
                {"grade": "B", "min": 4.6},
                {"grade": "C", "min": 2.5},
                {"grade": "D", "min": 1.5},
                {"grade": "F", "min": 1},
            ]
        },
        {"bands": [{"grade": "A", "min": 4.5}, {"grade": "F", "min": 1}]},
        {
            "bands": [
                {"grade": "A", "min": 4.5},
                {"grade": "B", "min": 3.5},
                {"grade": "C", "min": 2.5},
                {"grade": "D", "min": 1.5},
                {"grade": "F", "min": 1.2},
            ]
        },
        {"worth": {"passed": 6, "failed": 1}},
        {"tier_caps": {"autonomous": "B"}},
        {"tier_caps": {"autonomous": "B", "group-bound": "S"}},
        {"stable_from": "E"},
        {"selection": {"graded_from": 7, "uncapped_from": 5, "capped_at": "B"}},
        {"family": "workflow"},
        {"extra": 1},
    ],
)
def test_a_policy_that_would_leave_a_mean_without_a_letter_is_refused(
    change: dict[str, Any],
) -> None:
    tree = {**TREE, **change}
    assert refused(load_schema_policy, Document(tree, "p.yaml")) in ("LIB-002", "LIB-005")


def test_the_published_policy_reads_back_as_itself() -> None:
    again = load_schema_policy(Document(TREE, "p.json"))
    assert isinstance(again, SchemaPolicy)
    assert SchemaRules(again).bands == RULES.bands


@pytest.mark.req("F-136")
def test_a_missing_letter_and_a_rejection_are_never_good_enough() -> None:
    for letter in (None, REJECTED, "E", "", "n/a"):
        assert not any(at_least(letter, wanted) for wanted in LETTERS)
    assert [letter for letter in LETTERS if at_least(letter, "B")] == ["A", "B"]


@pytest.mark.req("F-151", "F-158")
def test_every_code_of_this_family_is_a_prefix_and_a_number() -> None:
    sources = [path.read_text() for path in Path(tools.__file__).parent.rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r'"([A-Z]{2,5}-[A-Z0-9-]+)"', text)}
    odd = {code for code in codes if not re.fullmatch(r"[A-Z]{2,3}-(WARN-)?\d{3}", code)}
    assert odd == {"SEL-S1", "SEL-S3", "SEL-S4"}, "these are named so by the reference program"
    assert len(codes) > 50
    assert not any("FlowMCP accepts" in text for text in sources)


def test_an_unknown_tier_is_refused_with_the_near_miss() -> None:
    with pytest.raises(InputError, match="autonomous"):
        aggregate([], "autonomus", RULES)


@pytest.mark.req("F-037")
def test_an_entry_says_all_that_an_aggregation_found() -> None:
    built = build_entry(
        SUBJECT,
        [answer(score=5, reasoning="clear"), answer("Q-parameters", "stale")],
        RULES,
        now=NOW,
        harness="another",
    )
    entry = built.entry
    assert (entry["aggregateGrade"], entry["rawGrade"]) == ("B", "A")
    assert (entry["maxAttainableGrade"], entry["normalizedScore"]) == ("B", 5)
    assert any("capped at B" in note for note in entry["notes"])
    assert any("stale" in note for note in built.result.warnings), "a warning is not an error"
