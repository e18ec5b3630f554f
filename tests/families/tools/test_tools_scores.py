"""Scores of tool schemas: what an answer may be, what it is worth, and what leaves the mean."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.families.tools import answers as ans
from assay.families.tools.aggregate import aggregate
from assay.families.tools.answers import (
    DIMENSIONS,
    EXCLUDED,
    NA_REASONS,
    check_answer,
    check_na,
    check_score,
    check_weight,
    dimension_of,
    http_score,
    weighted_mean,
)
from assay.families.tools.catalogue import dimension, stated
from assay.families.tools.entry import EntrySubject
from assay.families.tools.names import AREAS
from assay.families.tools.policy import SchemaRules
from assay.families.tools.record import complete_answers
from assay.library.shelf import Shelf
from tool_records import aggregate_answers, build_entry, latest_answers

RULES = SchemaRules(Shelf().policy_of("flowmcp", "flowmcp"))
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LLM = {"kind": "llm", "name": "judge", "version": "1"}
SCRIPT = {"kind": "script", "name": "probe", "version": "1"}
HUMAN = {"kind": "human", "name": "ada", "version": "1"}
CONTEXT = {"groupId": "single-test", "personaIds": ["neutral"]}

numbers = st.decimals(1, 5, places=3)
scores = st.one_of(numbers, st.sampled_from(["pass", "fail"]))
weights = st.decimals(0, 1000, places=4)
positive = st.decimals("0.0001", 1000, places=4)
pairs = st.lists(st.tuples(scores, weights), max_size=12)


def answer(question: str = "Q-whenToUse", score: Any = 4, **changes: Any) -> dict[str, Any]:
    made = {
        "questionId": question,
        "score": score,
        "weight": 1,
        "determinism": "non-deterministic",
        "graderIdentity": LLM,
        "llmModel": "m-1",
        "selectionContext": CONTEXT,
        "timestamp": "2026-05-01T12:00:00Z",
        **changes,
    }
    return {key: value for key, value in made.items() if value is not None}


def probe(
    question: str = "Q-api-availability", score: Any = "pass", **changes: Any
) -> dict[str, Any]:
    return answer(
        question,
        score,
        **{
            "determinism": "deterministic",
            "graderIdentity": SCRIPT,
            "llmModel": None,
            "selectionContext": None,
            **changes,
        },
    )


def mean(given_pairs: Any) -> Fraction | None:
    return weighted_mean(given_pairs, RULES).value


def exact(score: Any) -> Fraction:
    return (
        {"pass": Fraction(5), "fail": Fraction(1)}[score]
        if isinstance(score, str)
        else Fraction(score)
    )


def refused(take: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(InputError) as caught:
        take(*arguments, **named)
    return caught.value.code


# --- what a score may be


@pytest.mark.req("F-002", "F-014", "X-01", "X-27")
@pytest.mark.parametrize(
    "score",
    [
        1,
        5,
        1.0,
        5.0,
        Decimal("1.000"),
        Decimal("4.99999999999999999999"),
        "pass",
        "fail",
        "stale",
        "n/a",
    ],
)
def test_a_score_is_a_number_from_one_to_five_or_one_of_four_words(score: Any) -> None:
    check_score(score)


@pytest.mark.req("F-014", "X-27")
@pytest.mark.parametrize(
    ("score", "code"),
    [
        (0, "SCO-001"),
        (6.0, "SCO-001"),
        (0.99, "SCO-001"),
        (Decimal("5.00000000000000000000001"), "SCO-001"),
        (Decimal("0.99999999999999999999999"), "SCO-001"),
        (-1, "SCO-001"),
        (10**150, "SCO-001"),
        (Decimal("1e400"), "SCO-001"),
        (float("nan"), "SCO-001"),
        (float("inf"), "SCO-001"),
        (Decimal("NaN"), "SCO-001"),
        ("3.0", "SCO-003"),
        ("PASS", "SCO-003"),
        ("", "SCO-003"),
        ("N/A", "SCO-003"),
        (" pass", "SCO-003"),
        ("٣", "SCO-003"),
        (None, "SCO-003"),
        (True, "SCO-003"),
        (False, "SCO-003"),
        ([4], "SCO-003"),
        ({"score": 4}, "SCO-003"),
    ],
)
def test_anything_else_is_refused_and_never_clamped_or_read_as_a_number(
    score: Any, code: str
) -> None:
    assert refused(check_score, score) == code
    assert refused(weighted_mean, [(score, 1)], RULES) == code


@pytest.mark.req("F-022", "X-29")
@pytest.mark.parametrize(
    "weight", [-1, Decimal("-0.0001"), float("nan"), float("inf"), True, None, "1", [1]]
)
def test_a_weight_is_a_number_of_at_least_zero(weight: Any) -> None:
    assert refused(check_weight, weight) == "SCO-004"
    assert refused(weighted_mean, [("n/a", weight)], RULES) == "SCO-004"


@pytest.mark.req("F-016")
def test_pass_is_worth_five_and_fail_one_and_a_number_itself() -> None:
    assert [mean([(score, 1)]) for score in ("pass", "fail", Decimal("3.7"))] == [
        5,
        1,
        Fraction(37, 10),
    ]
    assert mean([("pass", 1), ("fail", 1)]) == mean([(5, 1), (1, 1)]) == 3


@pytest.mark.req("F-018")
@pytest.mark.parametrize("reason", NA_REASONS)
def test_n_a_stands_with_each_of_the_six_reasons(reason: str) -> None:
    check_na("n/a", reason)
    assert len(NA_REASONS) == 6


@pytest.mark.req("F-018")
@pytest.mark.parametrize(
    "reason",
    [
        None,
        "",
        "because",
        "Requires-private-data",
        "requires-private-data ",
        1,
        True,
        [],
        ["requires-private-data"],
        {},
    ],
)
def test_n_a_with_no_reason_or_free_text_is_refused(reason: Any) -> None:
    assert refused(check_na, "n/a", reason) == "NA-001"
    assert refused(check_answer, answer(score="n/a", naReason=reason)) == "NA-001"


# --- the mean


@pytest.mark.req("F-013", "F-029", "X-12")
@given(pairs)
def test_the_mean_is_the_exact_quotient_of_the_weighted_sums(
    given_pairs: list[tuple[Any, Decimal]],
) -> None:
    found = weighted_mean(given_pairs, RULES)
    total = sum((Fraction(weight) * exact(score) for score, weight in given_pairs), Fraction(0))
    weight = sum((Fraction(weight) for _, weight in given_pairs), Fraction(0))
    assert (found.total, found.weight) == (total, weight)
    assert found.value == (total / weight if weight else None)


@pytest.mark.req("F-017", "X-06")
@given(
    pairs,
    st.lists(
        st.tuples(st.sampled_from(EXCLUDED), weights, st.integers(0, 12)), min_size=1, max_size=6
    ),
)
def test_n_a_and_stale_never_move_the_mean_wherever_they_stand_and_whatever_they_weigh(
    given_pairs: Any, left_out: Any
) -> None:
    mixed = list(given_pairs)
    for score, weight, position in left_out:
        mixed.insert(min(position, len(mixed)), (score, weight))
    with_, without = weighted_mean(mixed, RULES), weighted_mean(given_pairs, RULES)
    assert (with_.total, with_.weight, with_.value) == (
        without.total,
        without.weight,
        without.value,
    )
    assert with_.stale == sum(score == "stale" for score, _, _ in left_out)


@pytest.mark.req("F-029")
@given(
    st.lists(st.tuples(scores, positive), min_size=1, max_size=8),
    st.decimals("0.001", 999, places=3),
)
def test_weights_scale_freely(given_pairs: Any, factor: Decimal) -> None:
    assert mean(given_pairs) == mean([(score, weight * factor) for score, weight in given_pairs])


@pytest.mark.req("F-029")
@given(
    st.lists(st.tuples(scores, positive), min_size=1, max_size=8), st.randoms(use_true_random=False)
)
def test_the_order_of_the_answers_never_matters(given_pairs: Any, random: Any) -> None:
    mixed = list(given_pairs)
    random.shuffle(mixed)
    assert mean(mixed) == mean(given_pairs)


@pytest.mark.req("F-029")
@given(st.lists(st.tuples(scores, positive), min_size=1, max_size=8))
def test_the_mean_lies_between_the_worst_and_the_best_answer(given_pairs: Any) -> None:
    values = [exact(score) for score, _ in given_pairs]
    found = mean(given_pairs)
    assert found is not None
    assert min(values) <= found <= max(values)


@pytest.mark.req("F-022", "X-29")
@given(pairs, scores)
def test_an_answer_of_weight_zero_contributes_nothing(given_pairs: Any, score: Any) -> None:
    with_, without = (
        weighted_mean([*given_pairs, (score, 0)], RULES),
        weighted_mean(given_pairs, RULES),
    )
    assert (with_.total, with_.weight, with_.value) == (
        without.total,
        without.weight,
        without.value,
    )


@pytest.mark.req("F-031", "X-29")
@pytest.mark.parametrize(
    "left", [[], [("n/a", 1)], [("stale", 1), ("n/a", 5)], [(5, 0)], [("pass", 0), (1, 0)]]
)
def test_without_an_answer_that_counts_there_is_no_mean_and_no_grade(left: Any) -> None:
    assert mean(left) is None
    found = aggregate(left, "autonomous", RULES)
    assert (found.grade, found.raw_grade, found.mean, found.status) == (None, None, None, "pending")
    assert found.notes == ("no scorable answers",)


@pytest.mark.req("F-017", "X-06")
def test_a_stale_answer_is_a_warning_and_stops_nothing() -> None:
    found = aggregate([(4, 1), ("stale", 1)], "autonomous", RULES)
    assert (found.grade, found.status) == ("B", "graded")
    assert found.warnings == ("1 stale answer left out of the mean",)


def test_a_mean_is_shown_with_every_digit_where_a_decimal_ends_and_as_the_nearest_double_where_none_does() -> (
    None
):
    assert [
        ans.shown(value) for value in (None, Fraction(5), Fraction(15, 4), Fraction(11, 3))
    ] == [None, 5, Decimal("3.75"), 11 / 3]


# --- one question, several answers


@pytest.mark.req("F-023")
def test_of_each_question_the_most_recent_answer_counts_and_graders_are_never_averaged() -> None:
    older = answer(score=1, graderIdentity=HUMAN, timestamp="2026-05-01T10:00:00Z")
    newer = answer(score=5, timestamp="2026-05-01T11:00:00Z")
    for order in ([older, newer], [newer, older]):
        assert [item["score"] for item in latest_answers(order)] == [5]
        assert aggregate_answers(order, "autonomous", RULES).mean == 5


@pytest.mark.req("F-023")
def test_recency_is_the_moment_and_not_the_text_of_its_time() -> None:
    morning_in_tokyo = answer(score=1, timestamp="2026-05-01T12:30:00+09:00")
    later_in_utc = answer(score=5, graderIdentity=HUMAN, timestamp="2026-05-01T04:00:00Z")
    assert latest_answers([later_in_utc, morning_in_tokyo])[0]["score"] == 5


@pytest.mark.req("F-023")
@given(st.permutations(range(5)))
def test_the_most_recent_answer_counts_in_whatever_order_the_answers_stand(order: Any) -> None:
    given_answers = [
        answer(score=index + 1, timestamp=f"2026-05-0{index + 1}T00:00:00Z") for index in range(5)
    ]
    assert [
        item["score"] for item in latest_answers([given_answers[index] for index in order])
    ] == [5]


# --- what an answer must carry


def built(*given_answers: dict[str, Any], area: str = "single-test") -> dict[str, Any]:
    return build_entry(
        EntrySubject("alpha.getPrice", area, "aaaaaaaa", "flowmcp/4.0.0"),
        given_answers,
        RULES,
        now=NOW,
        harness="claude-code",
    ).entry


@pytest.mark.req("F-025")
@pytest.mark.parametrize(
    "kind",
    [
        "robot",
        "",
        None,
        1,
    ],
)
def test_a_model_that_answers_is_named(kind: Any) -> None:
    assert built(answer())["gradings"][0]["llmModel"] == "m-1"
    assert refused(built, answer(llmModel=None)) == "GRD-007"
    assert refused(built, answer(graderIdentity={**HUMAN, "kind": kind})) == "GRD-020"


@pytest.mark.req("F-025")
@pytest.mark.parametrize("kind", ["llm", "human", "script"])
def test_a_grader_is_a_model_a_person_or_a_script(kind: str) -> None:
    assert (
        built(answer(graderIdentity={**HUMAN, "kind": kind}))["gradings"][0]["graderIdentity"][
            "kind"
        ]
        == kind
    )


@pytest.mark.req("F-026", "X-24")
@pytest.mark.parametrize(
    "context",
    [
        None,
        {},
        {"groupId": "g"},
        {"groupId": "g", "personaIds": []},
        {"groupId": "g", "personaIds": [""]},
        {"personaIds": "neutral"},
        "x",
    ],
)
def test_a_judged_answer_names_a_persona(context: Any) -> None:
    assert refused(check_answer, answer(selectionContext=context)) == "GRD-005"


@pytest.mark.req("F-026", "X-24")
@pytest.mark.parametrize("group", [None, "", 1])
def test_a_judged_answer_names_a_group(group: Any) -> None:
    assert (
        refused(
            check_answer, answer(selectionContext={"groupId": group, "personaIds": ["neutral"]})
        )
        == "GRD-012"
    )


@pytest.mark.req("F-026")
def test_a_deterministic_answer_needs_neither() -> None:
    check_answer(probe())


@pytest.mark.req("F-039")
@pytest.mark.parametrize("determinism", [None, "", "Deterministic", "mixed", True])
def test_an_answer_says_whether_it_is_deterministic(determinism: Any) -> None:
    assert refused(check_answer, answer(determinism=determinism)) == "GRD-011"


@pytest.mark.req("F-022")
@pytest.mark.parametrize("question", ["whenToUse", "Q-", "q-whenToUse", ""])
def test_a_question_has_an_id_that_begins_with_q(question: str) -> None:
    assert refused(built, answer(question)) == "GRD-020"


@pytest.mark.req("F-024")
@pytest.mark.parametrize("area", [area.name for area in AREAS.values() if not area.persona])
def test_deterministic_answers_alone_are_no_grading_of_an_area(area: str) -> None:
    assert refused(built, probe(), area=area) == "GRD-014"
    assert len(built(probe(), answer(), area=area)["gradings"]) == 2


@pytest.mark.req("F-026", "X-24")
def test_a_neutral_area_answers_for_the_neutral_persona_of_its_own_name() -> None:
    envelope = {
        "area": "single-test",
        "timestamp": "2026-05-01T12:00:00Z",
        "answers": [answer(selectionContext=None)],
    }
    assert complete_answers(envelope, {}, area="single-test")[0]["selectionContext"] == {
        "groupId": "single-test",
        "personaIds": ["neutral"],
    }
    persona_bound = complete_answers(envelope, {}, area="about-namespace")[0]
    assert refused(check_answer, persona_bound) == "GRD-005"
    neutral = {**envelope, "answers": [answer()]}
    assert refused(complete_answers, neutral, {}, area="about-namespace") == "GRD-005"
    engineer = answer(selectionContext={"groupId": "g", "personaIds": ["ai-engineer"]})
    assert complete_answers({**neutral, "answers": [engineer]}, {}, area="about-namespace")


@pytest.mark.req("F-019", "F-148")
@pytest.mark.parametrize("key", ["weight", "determinism", "graderIdentity", "timestamp"])
def test_what_an_answer_lacks_is_reported_and_never_filled_in(key: str) -> None:
    assert (
        refused(complete_answers, {"answers": [answer(**{key: None})]}, {}, area="single-test")
        == "FMC-012"
    )


@pytest.mark.req("F-019")
@pytest.mark.parametrize("listed", [None, [], {}, "pass", [4], [None]])
def test_an_envelope_without_answers_is_refused(listed: Any) -> None:
    assert refused(complete_answers, {"answers": listed}, {}, area="single-test") == "FMC-012"


@pytest.mark.req("F-019")
def test_answers_under_two_names_must_agree() -> None:
    both = {"answers": [answer()], "gradings": [answer()]}
    assert len(complete_answers(both, {}, area="single-test")) == 1
    both["gradings"] = [answer(score=1)]
    assert refused(complete_answers, both, {}, area="single-test") == "FMC-016"


@pytest.mark.req("X-13")
def test_a_weight_comes_from_the_answer_or_the_catalogue_and_is_never_one_by_default() -> None:
    bare = answer(weight=None)
    assert complete_answers(
        {"answers": [bare]}, {"Q-whenToUse": {"weight": Decimal("0.34")}}, area="single-test"
    )[0]["weight"] == Decimal("0.34")
    assert (
        complete_answers(
            {"answers": [answer(weight=2)]}, {"Q-whenToUse": {"weight": 9}}, area="single-test"
        )[0]["weight"]
        == 2
    )
    assert refused(complete_answers, {"answers": [bare]}, {}, area="single-test") == "FMC-012"


@pytest.mark.req("F-027")
def test_evidence_and_reasoning_are_kept_as_they_were_given() -> None:
    kept = built(
        answer(reasoning="clear"), probe(evidence={"httpStatus": 200, "url": "https://a.example"})
    )["gradings"]
    assert (kept[0]["reasoning"], kept[1]["evidence"]) == (
        "clear",
        {"httpStatus": 200, "url": "https://a.example"},
    )


@pytest.mark.req("F-038")
def test_an_answer_that_calls_itself_a_veto_is_neither_left_out_nor_lost() -> None:
    marked = {"answers": [answer(score="fail", isVeto=True), answer("Q-parameters", 5)]}
    assert refused(complete_answers, marked, {}, area="single-test") == "VET-002"
    inside = {"answers": [answer(categoricalVeto={"triggeredBy": "illegal-content"})]}
    assert refused(complete_answers, inside, {}, area="single-test") == "VET-002"
    plain = {"answers": [answer(score="fail", isVeto=False), answer("Q-parameters", 5)]}
    counted = complete_answers(plain, {}, area="single-test")
    assert aggregate_answers(counted, "autonomous", RULES).mean == 3


@pytest.mark.req("F-043")
def test_a_mixed_dimension_is_split_in_two_questions_and_never_answered_as_one() -> None:
    assert refused(check_answer, answer(determinism="mixed")) == "GRD-011"
    halves = [probe("Q-tosMatch-link", "pass", evidence="200"), answer("Q-tosMatch-reading", 3)]
    made = built(*halves)
    assert [item["determinism"] for item in made["gradings"]] == [
        "deterministic",
        "non-deterministic",
    ]


# --- HTTP


@pytest.mark.req("F-020")
def test_of_all_http_answers_only_200_passes() -> None:
    assert [status for status in range(100, 600) if http_score(status) == "pass"] == [200]
    assert {http_score(status) for status in range(100, 600)} == {"pass", "fail"}


@pytest.mark.req("F-020")
@pytest.mark.parametrize(
    "status", [0, 99, 600, -200, 200.0, Decimal(200), "200", True, None, [200]]
)
def test_what_is_no_http_status_is_refused(status: Any) -> None:
    assert refused(http_score, status) == "SCO-021"


def http(score: Any, status: Any, question: str = "Q-api-availability") -> Any:
    return complete_answers(
        {"answers": [probe(question, score, evidence={"httpStatus": status})]},
        {},
        area="single-test",
    )[0].get("score")


@pytest.mark.req("F-020")
@pytest.mark.parametrize("status", [201, 204, 301, 401, 403, 404, 429, 500])
def test_a_pass_that_its_own_http_status_denies_is_refused(status: int) -> None:
    assert refused(http, "pass", status) == "SCO-021"
    assert http(None, status) == "fail"
    assert http(None, 200) == "pass"


@pytest.mark.req("F-020")
@pytest.mark.parametrize(
    ("score", "status"), [(5, 403), (Decimal("4.5"), 401), (5, 500), ("n/a", 401), ("n/a", 500)]
)
def test_a_good_number_or_n_a_is_no_way_around_a_denied_http_status(
    score: Any, status: int
) -> None:
    assert refused(http, score, status) == "SCO-021"


@pytest.mark.req("F-078")
@pytest.mark.parametrize("status", [404, 410, 500])
def test_a_link_to_the_terms_that_does_not_answer_is_stale(status: int) -> None:
    assert http(None, status, "Q-tosMatch") == "stale"


# --- dimensions


@pytest.mark.req("F-063", "F-064", "X-03")
def test_the_dimensions_are_the_seventeen_published_ones_and_begin_with_the_two_of_the_transport() -> (
    None
):
    assert DIMENSIONS == (
        "whenToUse",
        "parameters",
        "apiAvailability",
        "personaUseCaseFit",
        "domainConformance",
        "tosMatch",
        "legalAssessment",
        "securityScore",
        "formattingCompliance",
        "outputSchemaConformance",
        "descriptionNeutrality",
        "completeness",
        "aboutConventionCompliance",
        "namespaceSkillValidity",
        "selectionSkillL1",
        "selectionSkillL2",
        "selectionSkillL3",
    )
    assert DIMENSIONS[:2] == ans.TRANSPORT_DIMENSIONS
    assert ans.LEGACY_DIMENSIONS == (
        "S1-Coverage",
        "S2-PersonaFit",
        "S3-SkillAdequacy",
        "S4-DomainDocAlignment",
    )


@pytest.mark.req("X-03")
@pytest.mark.parametrize("name", [*DIMENSIONS, *ans.LEGACY_DIMENSIONS])
def test_a_question_leads_to_its_dimension_however_its_id_is_spelled(name: str) -> None:
    dashed = "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in name)
    assert (
        dimension_of(f"Q-{name}")
        == dimension_of(f"Q-{dashed}")
        == dimension_of(f"Q-{name.lower()}")
        == name
    )
    assert dimension_of(f"Q-{name}-02") is None


OLD_DIMENSIONS = [
    "apiAvailability",
    "apiResponseValid",
    "schemaStructureValid",
    "tosCompliance",
    "descriptionNeutrality",
    "parametersTyping",
    "whenToUseClarity",
    "aboutConventionCompliance",
    "namespaceSkillValidity",
    "errorCodePattern",
    "tosAvailability",
    "domainConformance",
    "selectionSkillL1",
    "selectionSkillL2",
    "selectionSkillL3",
    "personaUseCaseFit",
    "maintainerResponsiveness",
]
CATALOGUE_DIMENSIONS = [
    "docsUrlReachable",
    "outputSchemaMatch",
    "apiKeyDomainMatch",
    "descriptionClarity",
    "descriptionSpecConformance",
    "paramConsistency",
    "exampleQuality",
    "toolNameSemantic",
    "errorCasesDocumented",
    "verbPrefixConsistent",
    "routesUniqueNames",
    "namingConsistency",
    "tagCoherence",
    "requiredServerParamsConsistent",
    "routesCoherence",
    "descriptionVoice",
    "namespaceDescriptionClarity",
    "domainCoverage",
    "aboutRouteExists",
    "personaReference",
    "valueProposition",
    "useCaseClarity",
    "coverage",
    "personaFit",
    "skillAdequacy",
    "domainAlignment",
]


@pytest.mark.req("F-065", "F-067", "X-03")
def test_dimensions_of_other_lists_come_from_a_catalogue_and_never_from_an_id() -> None:
    for name in (*OLD_DIMENSIONS, *CATALOGUE_DIMENSIONS):
        known = name if name in DIMENSIONS else None
        assert dimension_of(f"Q-{name}") == known, name
        catalogue = stated({"Q-single-test-01": {"dimension": name}})
        assert dimension("Q-single-test-01", catalogue) == name
    assert sum(name in DIMENSIONS for name in OLD_DIMENSIONS) == 9


@pytest.mark.req("X-13")
def test_catalogue_weights_that_do_not_sum_to_one_are_divided_by_their_sum() -> None:
    weights_ = [
        Decimal(text)
        for text in (".34", ".33", ".33", ".34", ".33", ".33", ".25", ".25", ".25", ".25")
    ]
    assert sum(weights_) == 3
    found = aggregate(
        list(zip(["pass"] * 3 + [Decimal("2.75")] * 7, weights_, strict=True)), "group-bound", RULES
    )
    assert (found.mean, found.grade) == (Fraction(7, 2), "B")
    unweighted = aggregate(
        [(score, 1) for score in ["pass"] * 3 + [Decimal("2.75")] * 7], "group-bound", RULES
    )
    assert unweighted.grade == "C"


@pytest.mark.req("F-013")
def test_the_same_answers_come_to_the_same_grade_however_often_and_in_whatever_order() -> None:
    listed = [
        answer("Q-a", 3),
        answer("Q-b", Decimal("4.1")),
        probe(),
        probe("Q-c", "n/a", naReason=NA_REASONS[0]),
    ]
    found = {
        repr(aggregate_answers(list(order), "autonomous", RULES))
        for order in itertools.permutations(listed)
    }
    assert len(found) == 1


def test_an_answer_never_changes_while_it_is_judged() -> None:
    given_answer = answer("Q-b", Decimal("4.10"), timestamp=(NOW - timedelta(days=1)).isoformat())
    before = repr(given_answer)
    built(given_answer)
    aggregate_answers([given_answer], "autonomous", RULES)
    assert repr(given_answer) == before
