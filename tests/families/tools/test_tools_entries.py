"""Grading entries: the published form wherever it can say the truth, an extended form where it
cannot, and what is read of older ones.
"""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from assay.errors import InputError
from assay.families.tools.answers import LEGAL_DISCLAIMER, NA_REASONS
from assay.families.tools.ecma import document_bytes
from assay.families.tools.entry import (
    BLOCKED_REASONS,
    EXTENDED_FORM,
    TRIGGERS,
    EntrySubject,
    extended_schema,
    published_schema,
    read_form,
    schema_faults,
    schema_valid,
    upgrade,
)
from assay.families.tools.index import index_fault
from assay.families.tools.manifest import flowmcp_version
from assay.families.tools.names import (
    AREAS,
    AUTONOMOUS,
    BASE_PERSONAS,
    GROUP_BOUND,
    REJECTED,
    area_of,
)
from assay.families.tools.node import Home, judge, read_entries
from assay.families.tools.policy import CURRENT, SchemaRules
from assay.families.tools.tree import Tree
from assay.library.shelf import Shelf
from tool_records import (
    aggregate_answers,
    blocked_entry,
    build_entry,
    consistency_faults,
    make_veto,
    recomputed,
    regrading_trigger,
    semantic_faults,
)

if TYPE_CHECKING:
    from pathlib import Path

RULES = SchemaRules(Shelf().policy_of("flowmcp", "flowmcp"))
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LLM = {"kind": "llm", "name": "judge", "version": "1"}
SCRIPT = {"kind": "script", "name": "probe", "version": "1"}
PERSONA = {"basePersonaId": "decision-maker", "lensId": "crypto-trader"}


def answer(question: str = "Q-personaUseCaseFit", score: Any = 4, **changes: Any) -> dict[str, Any]:
    made = {
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


def subject_of(area: str = "single-test", **changes: Any) -> EntrySubject:
    known = AREAS[area]
    made = EntrySubject(
        "alpha.getPrice",
        area,
        "0a1b2c3d",
        "flowmcp/4.0.0",
        selection_id="defi" if known.tier == GROUP_BOUND else None,
        persona=PERSONA if known.persona else None,
        skill_id="signpost" if known.skill else None,
    )
    return made._replace(**changes)


def built(area: str = "single-test", answers: Any = None, **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"now": NOW, "harness": "claude-code", **changes}
    subject = options.pop("subject", None) or subject_of(area)
    return build_entry(
        subject, answers if answers is not None else [probe(), answer()], RULES, **options
    ).entry


def code_of(take: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(InputError) as caught:
        take(*arguments, **named)
    return caught.value.code


def without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}


@pytest.fixture
def annex(shared: Path) -> jsonschema_rs.Draft202012Validator:
    """The published schema as it lies beside the checkout, with its formats checked."""
    schema = json.loads((shared / "spec" / "grading-entry.schema.json").read_text())
    return jsonschema_rs.Draft202012Validator(schema, offline=True, validate_formats=True)


# --- the published form


@pytest.mark.req("F-059")
@pytest.mark.parametrize("name", ["grading-entry", "index"])
def test_the_published_schemas_ship_as_they_were_published(shared: Path, name: str) -> None:
    assert published_schema(name) == json.loads(
        (shared / "spec" / f"{name}.schema.json").read_text()
    )


@pytest.mark.req("F-054", "F-055", "F-056", "F-057", "F-058", "F-059")
@pytest.mark.parametrize("area", AREAS)
def test_an_entry_of_every_area_has_the_published_form(
    area: str, annex: jsonschema_rs.Draft202012Validator
) -> None:
    entry = built(area)
    annex.validate(json.loads(json.dumps(entry)))
    assert entry["gradingTier"] == AREAS[area].tier
    assert ("selectionId" in entry, "persona" in entry, "skillId" in entry) == (
        AREAS[area].tier == GROUP_BOUND,
        AREAS[area].persona,
        AREAS[area].skill,
    )
    assert "form" not in entry


@pytest.mark.req("F-054", "F-057")
def test_the_areas_and_personas_are_exactly_the_published_ones() -> None:
    properties = published_schema("grading-entry")["properties"]
    assert properties["area"]["enum"] == list(AREAS)
    assert properties["persona"]["properties"]["basePersonaId"]["enum"] == list(BASE_PERSONAS)
    assert properties["gradings"]["items"]["properties"]["naReason"]["enum"] == list(NA_REASONS)
    assert properties["regradingTrigger"]["properties"]["triggeredBy"]["enum"] == list(TRIGGERS)


ELEVEN = (
    "single-test",
    "tools-aggregate-schema",
    "tools-aggregate-namespace",
    "namespace-description",
    "namespace-skills",
    "about-namespace",
    "about-selection",
    "selection-skills-L1",
    "selection-skills-L2",
    "selection-skills-L3",
    "selection-aggregate",
)


@pytest.mark.req("F-062")
def test_the_areas_are_the_eleven_of_the_specification_and_no_other() -> None:
    assert tuple(AREAS) == ELEVEN
    assert tuple(published_schema("grading-entry")["properties"]["area"]["enum"]) == ELEVEN
    assert all(schema_valid(built(area)) for area in ELEVEN)


@pytest.mark.req("F-062")
@pytest.mark.parametrize(
    "area",
    [
        "single-tests",
        "Single-test",
        " single-test",
        "selection-skills-L4",
        "whenToUse",
        "*",
        "",
        None,
        1,
        [],
    ],
)
def test_an_entry_of_an_unknown_area_is_invalid_wherever_it_is_made_or_read(
    area: Any, tmp_path: Path
) -> None:
    assert code_of(built, subject=subject_of()._replace(area=area)) == "GRD-043"
    assert code_of(area_of, area) == "GRD-043"
    entry = {**built(), "area": area}
    assert not schema_valid(entry)
    assert any(fault.startswith("area") for fault in schema_faults(entry))
    extended = {**entry, "form": EXTENDED_FORM, "notes": []}
    assert not schema_valid(extended)
    file = tmp_path / "_gradings" / "single-test--2026-05-01T12-00-00Z.json"
    file.parent.mkdir()
    file.write_bytes(document_bytes(entry))
    (stored,) = read_entries(
        Home(str(tmp_path), ("single-test",), namespace="alpha", tool="getPrice"), RULES
    )
    assert stored.entry is None
    assert stored.fault


@pytest.mark.req("F-008", "F-054")
@pytest.mark.parametrize("key", published_schema("grading-entry")["required"])
def test_an_entry_without_any_one_required_key_is_invalid(key: str) -> None:
    assert schema_valid(built())
    assert not schema_valid(without(built(), key))
    assert any(key in fault for fault in schema_faults(without(built(), key)))


@pytest.mark.req("F-008")
@pytest.mark.parametrize("key", ["scoringSystem", "gradingSystem"])
def test_no_reading_makes_up_a_version_that_an_entry_lacks(key: str) -> None:
    read = upgrade(without(built(), key))
    assert key not in read
    assert not schema_valid(read)


@pytest.mark.req("F-055")
@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize(
    ("key", "code"), [("selection_id", "GRD-004"), ("persona", "GRD-042"), ("skill_id", "GRD-015")]
)
def test_what_an_area_is_bound_to_must_be_named(area: str, key: str, code: str) -> None:
    whole = subject_of(area)
    if getattr(whole, key) is not None:
        assert code_of(built, subject=whole._replace(**{key: None})) == code


@pytest.mark.req("F-056", "F-057")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gradingId", "0A1B2C3D--x"),
        ("gradingId", "0a1b2c3d"),
        ("gradingId", "0a1b2c3d--"),
        ("schemaId", "alpha/getPrice"),
        ("schemaId", "alpha"),
        ("schemaId", "alpha.b.c"),
        ("version", "flowmcp/3.0.0"),
        ("version", "4.0.0"),
        ("schemaHash", "0A1B2C3D"),
        ("schemaHash", "0a1b2c3"),
        ("schemaHash", "0a1b2c3d\n"),
        ("aboutHash", "aboutxyz"),
        ("gradingMode", "half"),
        ("harness", "assay"),
        ("aggregateGrade", "E"),
        ("aggregateGrade", None),
        ("maxAttainableGrade", "A"),
        ("scoringSystem", "scoringSystem/1.0"),
        ("gradingSystem", "scoringSystem/1.0.0"),
        ("gradings", []),
        ("rawGrade", "A"),
        ("persona", {"basePersonaId": "trader", "lensId": "x"}),
    ],
)
def test_a_value_outside_its_pattern_or_list_breaks_the_form(key: str, value: Any) -> None:
    assert not schema_valid({**built(), key: value})


@pytest.mark.req("F-059")
@pytest.mark.parametrize(
    "when", ["2026-02-30T00:00:00Z", "2026-05-01", "yesterday", "2026-05-01T12:00:00", ""]
)
def test_the_formats_of_times_are_checked(when: str) -> None:
    entry = built()
    entry["gradings"] = [{**entry["gradings"][0], "timestamp": when}, *entry["gradings"][1:]]
    assert not schema_valid(entry)


@pytest.mark.req("F-056")
def test_the_id_is_the_hash_and_the_time() -> None:
    assert built()["gradingId"] == "0a1b2c3d--2026-05-01T12-00-00Z"
    assert code_of(built, subject=subject_of(schema_hash="0A1B2C3D")) == "GRD-016"
    moved = {**built(), "schemaHash": "ffffffff"}
    assert any(
        "gradingId" in fault for fault in consistency_faults(moved, RULES, recomputed(moved, RULES))
    )


@pytest.mark.req("F-056", "F-081")
@pytest.mark.parametrize("when", ["x", "2026-05-01", "2026-13-01T12-00-00Z", "2026-05-01T12-00-00"])
def test_an_id_without_a_time_is_a_fault(when: str) -> None:
    timeless = {**built(), "gradingId": f"0a1b2c3d--{when}"}
    assert consistency_faults(timeless, RULES, recomputed(timeless, RULES)) == [
        f"gradingId is 0a1b2c3d--{when} and does not end with a time."
    ]


@pytest.mark.req("F-020")
@pytest.mark.parametrize("status", [401, 403, 404, 500, 201, "403", 200.5])
def test_a_score_that_its_own_http_status_denies_is_a_fault_also_when_it_is_read(
    status: Any,
) -> None:
    def faults(score: Any, status: Any, **changes: Any) -> list[str]:
        entry = {**built(), **changes}
        seen = {**entry["gradings"][0], "score": score, "evidence": {"httpStatus": status}}
        entry["gradings"] = [seen]
        return consistency_faults(entry, RULES, None)

    for score in ("pass", 5, Decimal("1.1"), "n/a"):
        (fault,) = faults(score, status)
        assert f"HTTP {status} is scored {score}" in fault
        assert faults(score, 200) == []
    assert [faults(score, status) for score in ("fail", "stale", 1)] == [[], [], []]
    # another scoring system has other rules: there 429 may be a transient defect
    assert faults("pass", status, scoringSystem="scoringSystem/1.1.0") == []


@pytest.mark.req("F-057", "F-040")
@pytest.mark.parametrize(("area", "best"), [("single-test", "B"), ("selection-aggregate", "A")])
def test_the_best_attainable_grade_is_fixed_by_the_tier(area: str, best: str) -> None:
    assert built(area)["maxAttainableGrade"] == best
    assert not schema_valid({**built(area), "maxAttainableGrade": "B" if best == "A" else "A"})


@pytest.mark.req("F-058")
@pytest.mark.parametrize("area", AREAS)
def test_one_shape_serves_both_families_of_areas(area: Any) -> None:
    shared_keys = set(published_schema("grading-entry")["properties"])
    assert set(built(area)) <= shared_keys


@pytest.mark.req("F-060", "F-085", "F-093")
def test_a_hash_lives_in_the_entry_and_not_in_what_it_is_a_hash_of(tmp_path: Path) -> None:
    from assay.families.tools.ecma import hash8

    source = {"namespace": "alpha", "tools": {}}
    assert (
        hash8(source)
        == hash8({**source, "schemaHash": "ffffffff"})
        == hash8({**source, "selectionHash": "x"})
    )
    assert hash8(source) != hash8({**source, "aboutHash": "x"})
    assert hash8({"inner": source}) != hash8({"inner": {**source, "schemaHash": "ffffffff"}})


# --- the extended form


@pytest.mark.req("X-28")
def test_another_harness_is_written_in_the_extended_form_and_never_disguised() -> None:
    entry = built(harness="my-harness")
    assert (entry["form"], entry["harness"]) == (EXTENDED_FORM, "my-harness")
    assert schema_valid(entry)
    assert not jsonschema_rs.Draft202012Validator(
        published_schema("grading-entry"), offline=True
    ).is_valid(entry)


@pytest.mark.req("F-031", "X-05")
def test_a_set_of_answers_of_which_none_counts_is_no_published_entry() -> None:
    entry = built(answers=[answer(score="n/a", naReason=NA_REASONS[0])])
    assert (
        entry["form"],
        entry["aggregateGrade"],
        entry["rawGrade"],
        entry["normalizedScore"],
    ) == (EXTENDED_FORM, None, None, None)
    assert entry["notes"] == ["no scorable answers"]
    assert schema_valid(entry)
    assert not schema_valid(without(entry, "form"))


@pytest.mark.req("X-04")
def test_the_raw_grade_is_in_the_extended_form_alone() -> None:
    assert "rawGrade" not in built(answers=[answer(score=5)])
    extended = built(answers=[answer(score=5)], harness="mine")
    assert (extended["rawGrade"], extended["aggregateGrade"], extended["normalizedScore"]) == (
        "A",
        "B",
        5,
    )


@pytest.mark.req("F-005")
@pytest.mark.parametrize("version", ["unknown", "flowmcp/3.0.0", "4.0.0"])
def test_a_version_off_the_axis_is_told_as_it_is(version: str) -> None:
    entry = built(subject=subject_of(version=version))
    assert (entry["version"], entry["form"]) == (version, EXTENDED_FORM)


@pytest.mark.req("F-005")
@pytest.mark.parametrize(
    ("stated", "found"),
    [
        ("4.2.0", "flowmcp/4.2.0"),
        ("3.0.0", "unknown"),
        ("4.0", "unknown"),
        (4, "unknown"),
        (None, "unknown"),
        ("4.x.0", "unknown"),
    ],
)
def test_a_schema_that_states_no_version_of_four_is_unknown_and_not_guessed(
    stated: Any, found: str
) -> None:
    assert flowmcp_version({"version": stated}) == found


@pytest.mark.req("F-056")
@pytest.mark.parametrize("stated", ["4.².0", "4.٣.0"])
def test_a_version_in_other_digits_is_no_version(stated: str) -> None:
    assert flowmcp_version({"version": stated}) == "unknown"


@pytest.mark.req("F-159")
@pytest.mark.parametrize("reason", BLOCKED_REASONS)
def test_a_blocked_node_has_a_record_of_the_extended_form(reason: str) -> None:
    entry = blocked_entry(subject_of(), reason, now=NOW, harness="assay", note="line 3")
    assert schema_valid(entry)
    assert (
        entry["gradings"],
        entry["aggregateGrade"],
        entry["blocked"],
        entry["blockedReason"],
    ) == ([], None, True, reason)


@pytest.mark.req("F-068", "F-159")
def test_a_block_has_one_of_the_known_reasons() -> None:
    with pytest.raises(InputError, match="no-about") as caught:
        blocked_entry(subject_of(), "no-abut", now=NOW, harness="assay")
    assert caught.value.code == "GRD-039"


@pytest.mark.req("F-107", "F-159")
@pytest.mark.parametrize(
    "area",
    [
        name
        for name, area in AREAS.items()
        if area.persona or area.skill or area.tier == GROUP_BOUND
    ],
)
def test_a_node_of_every_area_can_be_blocked(area: str) -> None:
    assert (
        schema_faults(blocked_entry(subject_of(area), "no-about", now=NOW, harness="assay")) == []
    )


@pytest.mark.req("X-04", "X-05", "X-28")
def test_the_extended_form_opens_only_what_it_must() -> None:
    strict, extended = published_schema("grading-entry"), extended_schema()
    assert extended["$id"] != strict["$id"]
    assert extended["additionalProperties"] is False
    assert set(extended["required"]) == {*strict["required"], "form"}
    opened = {
        key
        for key in strict["properties"]
        if extended["properties"][key] != strict["properties"][key]
    }
    assert opened == {
        "harness",
        "version",
        "aggregateGrade",
        "gradings",
        "scoringSystem",
        "gradingSystem",
    }
    for key in ("gradings", "categoricalVeto", "scoringSystem", "gradingSystem"):
        assert not schema_valid(without(built(harness="mine"), key))


# --- what the form allows and the rules do not


@pytest.mark.parametrize("area", AREAS)
def test_a_sound_entry_has_no_fault_of_any_kind(area: Any) -> None:
    entry = built(area)
    assert [
        *schema_faults(entry),
        *semantic_faults(entry),
        *consistency_faults(entry, RULES, recomputed(entry, RULES)),
    ] == []


@pytest.mark.req("F-036", "X-18")
def test_rejected_without_a_veto_and_a_veto_without_rejected_are_faults() -> None:
    veto = make_veto("illegal-content", evidence="seen", grader=SCRIPT, now=NOW)
    rejected = built(veto=veto)
    assert semantic_faults(rejected) == []
    assert len(semantic_faults({**rejected, "categoricalVeto": None})) == 1
    assert len(semantic_faults({**built(), "aggregateGrade": REJECTED})) == 1
    assert len(semantic_faults({**built(), "categoricalVeto": veto})) == 1


@pytest.mark.req("F-035", "X-08", "X-18")
def test_an_a_on_the_autonomous_tier_is_a_fault() -> None:
    entry = {**built(), "aggregateGrade": "A"}
    assert schema_valid(entry)
    assert len(semantic_faults(entry)) == 1


@pytest.mark.req("F-044", "X-18")
@pytest.mark.parametrize("area", AREAS)
def test_an_area_on_the_other_tier_is_a_fault(area: str) -> None:
    entry = built(area)
    other = AUTONOMOUS if entry["gradingTier"] == GROUP_BOUND else GROUP_BOUND
    assert any(
        AREAS[area].tier in fault for fault in semantic_faults({**entry, "gradingTier": other})
    )


@pytest.mark.req("F-018", "X-18")
@pytest.mark.parametrize("score", [4, "pass", "fail", "stale"])
def test_a_reason_for_n_a_beside_a_score_is_a_fault(score: Any) -> None:
    entry = {**built(), "gradings": [answer(score=score, naReason=NA_REASONS[0])]}
    assert schema_valid(entry)
    assert len(semantic_faults(entry)) == 1


@pytest.mark.req("F-023", "X-18")
def test_one_grader_answers_a_question_once_and_two_graders_may_answer_it_both() -> None:
    twice = {**built(), "gradings": [answer(), answer(score=5, timestamp="2026-05-01T13:00:00Z")]}
    assert len(semantic_faults(twice)) == 1
    other = {**LLM, "version": "2"}
    assert semantic_faults({**built(), "gradings": [answer(), answer(graderIdentity=other)]}) == []
    assert code_of(built, answers=[answer(), answer()]) == "GRD-020"


@pytest.mark.req("F-030", "F-092")
@pytest.mark.parametrize("letter", ["A", "C", "D", "F"])
def test_a_grade_that_its_own_answers_do_not_give_is_a_fault(letter: str) -> None:
    entry = {**built(), "aggregateGrade": letter}
    assert any(
        "the answers give B" in fault
        for fault in consistency_faults(entry, RULES, recomputed(entry, RULES))
    )


@pytest.mark.req("F-010", "F-013")
def test_an_entry_of_another_grading_system_is_not_judged_by_the_rules_of_this_one() -> None:
    older = built(systems=CURRENT._replace(grading="gradingSystem/0.9.0"))
    assert recomputed(older, RULES) is None
    (fault,) = consistency_faults({**older, "aggregateGrade": "C"}, RULES, recomputed(older, RULES))
    assert "gradingSystem/0.9.0, an unknown grading system" in fault
    newer = built(systems=CURRENT._replace(grading="gradingSystem/2.0.0"))
    assert recomputed(built(), RULES, CURRENT._replace(grading="gradingSystem/2.0.0")) is None
    assert (
        consistency_faults(
            {**built(), "aggregateGrade": "C"},
            RULES,
            None,
            CURRENT._replace(grading="gradingSystem/2.0.0"),
        )
        == []
    )
    assert (
        consistency_faults(newer, RULES, None, CURRENT._replace(grading="gradingSystem/2.0.0"))
        == []
    )


@pytest.mark.req("F-014", "F-022")
@pytest.mark.parametrize(
    "change", [{"score": Decimal("5.00000000000000000000001")}, {"weight": Decimal("-1e-400")}]
)
def test_a_number_just_outside_its_range_is_outside(tmp_path: Path, change: dict[str, Any]) -> None:
    entry = {**built(), "gradings": [answer(**change)]}
    folder = tmp_path / "_gradings"
    folder.mkdir()
    (folder / "single-test--2026-05-01T12-00-00Z.json").write_bytes(document_bytes(entry))
    (stored,) = read_entries(Home(str(tmp_path), ("single-test",), "alpha", "getPrice"), RULES)
    assert stored.fault is not None
    assert judge([stored], None, RULES).status == "blocked"
    with pytest.raises(InputError):
        built(answers=[answer(**change)])


@pytest.mark.req("F-071", "F-072")
def test_a_partial_entry_keeps_the_grade_of_the_last_full_one_whatever_its_answers_say() -> None:
    last = built()
    for score in (1, 5, "stale"):
        entry = built(mode="partial", last_full=last, answers=[answer(score=score)])
        assert (entry["gradingMode"], entry["aggregateGrade"]) == (
            "partial",
            last["aggregateGrade"],
        )
    assert code_of(built, mode="partial") == "PRT-003"
    assert code_of(built, mode="half") == "PRT-002"


# --- grading again


@pytest.mark.req("F-079")
@pytest.mark.parametrize("kind", TRIGGERS)
def test_a_regrading_says_why_and_what_it_supersedes(kind: str) -> None:
    linked = regrading_trigger(
        kind,
        previous="0a1b2c3d--2026-04-01T00-00-00Z",
        now=NOW,
        issue="wrong unit",
        requested_by="ada",
    )
    assert (linked["triggeredBy"], linked["previousGradingId"], linked["timestamp"]) == (
        kind,
        "0a1b2c3d--2026-04-01T00-00-00Z",
        "2026-05-01T12:00:00Z",
    )
    assert schema_valid(built(trigger=linked))


@pytest.mark.req("F-079")
def test_a_user_report_says_what_was_reported_and_by_whom() -> None:
    for issue, by in ((None, "ada"), ("wrong unit", None), ("", ""), (None, None)):
        assert (
            code_of(
                regrading_trigger,
                "user-report",
                previous="x",
                now=NOW,
                issue=issue,
                requested_by=by,
            )
            == "GRD-019"
        )
    bare = {
        "triggeredBy": "user-report",
        "previousGradingId": "x",
        "timestamp": "2026-05-01T12:00:00Z",
    }
    assert not schema_valid({**built(), "regradingTrigger": bare})


@pytest.mark.req("F-079", "F-080")
def test_an_unknown_trigger_and_a_regrading_of_nothing_are_refused() -> None:
    assert code_of(regrading_trigger, "user-reports", previous="x", now=NOW) == "GRD-017"
    for previous in (None, ""):
        assert code_of(regrading_trigger, "scheduled", previous=previous, now=NOW) == "GRD-018"


# --- legal


@pytest.mark.req("F-061", "X-20")
def test_the_disclaimer_has_the_published_words() -> None:
    assert LEGAL_DISCLAIMER == "grader assessment, not legally binding"


@pytest.mark.req("F-061", "X-20")
@pytest.mark.parametrize("reasoning", [None, "The terms allow it.", "grader assessment"])
def test_an_opinion_on_terms_without_the_disclaimer_is_malformed(reasoning: str | None) -> None:
    with pytest.raises(InputError):
        built(answers=[answer("Q-legalAssessment", 4, reasoning=reasoning)])


@pytest.mark.req("F-061", "X-20")
def test_an_entry_with_an_opinion_on_terms_and_no_disclaimer_is_malformed_also_when_it_is_read() -> (
    None
):
    entry = {**built(), "gradings": [answer("Q-legalAssessment", 4)]}
    (fault,) = consistency_faults(entry, RULES, recomputed(entry, RULES))
    assert LEGAL_DISCLAIMER in fault


@pytest.mark.req("F-061")
def test_no_opinion_on_terms_needs_no_disclaimer() -> None:
    assert built(
        answers=[answer(), answer("Q-legalAssessment", "n/a", naReason="requires-private-data")]
    )


@pytest.mark.req("F-061", "X-20")
@pytest.mark.parametrize("key", ["reasoning", "evidence"])
def test_an_opinion_on_terms_with_the_disclaimer_is_an_answer_like_any_other(key: str) -> None:
    entry = built(
        answers=[answer("Q-legalAssessment", 4, **{key: f"The terms allow it. {LEGAL_DISCLAIMER}"})]
    )
    assert schema_valid(entry)


# --- what other programs wrote


def legacy(**changes: Any) -> dict[str, Any]:
    """An entry as the reference program writes it, with the two versions that it forgets."""
    made = {
        **without(built(), "gradings"),
        "grader": {"kind": "llm", "name": "judge", "version": "1", "llmModel": "m-1"},
        "createdAt": "2026-05-01T12:00:00Z",
        "persona": "decision-maker",
        "regradingTrigger": "scheduled",
        "grade": "B",
        "rawGrade": "B",
        "normalizedScore": 4,
        "options": {},
        "gradings": [
            {
                "dimension": "whenToUse",
                "score": 4,
                "weight": 1,
                "determinism": "non-deterministic",
                "selectionContext": {"groupId": "g", "personaIds": ["neutral"]},
                "recordedAt": "2026-05-01T12:00:00Z",
            }
        ],
    }
    return {**made, **changes}


@pytest.mark.req("F-159")
def test_an_entry_of_the_reference_program_is_read_into_the_published_form() -> None:
    given = legacy()
    before = copy.deepcopy(given)
    read = upgrade(given)
    assert given == before
    assert schema_faults(read) == []
    assert read["gradings"][0]["questionId"] == "Q-whenToUse"
    assert read["gradings"][0]["graderIdentity"] == LLM
    assert read["gradings"][0]["llmModel"] == "m-1"
    assert read["gradings"][0]["timestamp"] == "2026-05-01T12:00:00Z"
    lost = {"options", "rawGrade", "normalizedScore", "persona", "regradingTrigger"}
    assert lost <= given.keys()
    assert not lost & read.keys()


@pytest.mark.parametrize(
    "spoiled", [lambda answers: [*answers, "fail"], lambda answers: {"0": answers[0]}]
)
def test_an_answer_that_is_no_object_is_not_dropped_from_a_legacy_entry(spoiled: Any) -> None:
    given = legacy()
    assert not schema_valid(upgrade({**given, "gradings": spoiled(given["gradings"])}))


@pytest.mark.req("F-018")
def test_a_legacy_n_a_without_a_reason_is_read_with_the_first_one() -> None:
    given = legacy()
    given["gradings"].append({**given["gradings"][0], "dimension": "parameters", "score": "n/a"})
    answer = upgrade(given)["gradings"][1]
    assert (answer["questionId"], answer["naReason"]) == (
        "Q-parameters",
        "not-applicable-to-tool-type",
    )


@pytest.mark.req("F-036")
def test_reading_never_turns_a_rejection_into_a_grade() -> None:
    veto = make_veto("illegal-content", evidence="seen", grader=SCRIPT, now=NOW)
    read = upgrade(legacy(aggregateGrade=REJECTED, categoricalVeto=veto))
    assert (read["aggregateGrade"], read["categoricalVeto"]) == (REJECTED, veto)
    lost = upgrade(without(legacy(aggregateGrade=REJECTED), "categoricalVeto"))
    assert semantic_faults(lost)


@pytest.mark.req("F-038")
@pytest.mark.parametrize("mark", [True, 1, "yes"])
@pytest.mark.parametrize("entry", [built(), legacy()])
def test_an_answer_that_is_marked_as_a_veto_is_not_read_as_a_plain_score(
    mark: Any, entry: Any
) -> None:
    assert read_form(entry) is not None
    entry["gradings"][0]["isVeto"] = False
    assert read_form(entry) is not None
    entry["gradings"][0]["isVeto"] = mark
    assert read_form(entry) is None
    del entry["gradings"][0]["isVeto"]
    for place in (entry, entry["gradings"][0]):
        place["veto"] = mark
        assert read_form(entry) is None
        del place["veto"]


@pytest.mark.req("X-41")
def test_the_evidence_of_an_older_veto_may_be_an_object() -> None:
    veto = {
        **make_veto("illegal-content", evidence="seen", grader=SCRIPT, now=NOW),
        "evidence": {"url": "https://a.example"},
    }
    read = upgrade(legacy(aggregateGrade=REJECTED, categoricalVeto=veto))
    assert schema_valid(read)


@pytest.mark.parametrize("entry", [built(), built(harness="mine")])
def test_an_entry_of_either_form_is_read_as_it_is(entry: dict[str, Any]) -> None:
    assert upgrade(entry) == entry


def test_a_key_or_a_form_that_is_not_known_is_never_dropped(tmp_path: Path) -> None:
    newer = [{**built(), "expiresAt": "2026-05-02"}, {**built(), "form": "assay.grading-entry/2"}]
    newer.append({**built(harness="mine"), "expiresAt": "2026-05-02"})
    newer.append(built())
    newer[-1]["gradings"] = [{**newer[-1]["gradings"][0], "expired": True}]
    file = tmp_path / "_gradings" / "single-test--2026-05-01T12-00-00Z.json"
    file.parent.mkdir()
    for entry, key in zip(newer, ("expiresAt", "form", "expiresAt", "expired"), strict=True):
        assert read_form(entry) is None
        file.write_bytes(document_bytes(entry))
        home = Home(str(tmp_path), ("single-test",), namespace="alpha", tool="getPrice")
        (stored,) = read_entries(home, RULES)
        assert f"'{key}'" in str(stored.fault)


# --- the examples of the specification


def examples(shared: Path, kind: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    home = shared / "data" / "flowmcp_grading"
    expected = json.loads((home / "expected.json").read_text())
    listed = [
        (version, item)
        for version, items in expected.items()
        for item in items
        if item.get("kind") == kind
    ]
    return [
        (version, item, json.loads((home / "examples" / item["file"]).read_text()))
        for version, item in listed
    ]


@pytest.mark.req("F-059")
def test_each_published_example_is_valid_under_the_schema_of_its_own_version(shared: Path) -> None:
    names = {"grading-entry": "08-grading-model", "index": "index"}
    seen = 0
    for kind, name in names.items():
        for version, item, example in examples(shared, kind):
            schema = json.loads(
                (shared / "data" / "flowmcp_grading" / version / f"{name}.schema.json").read_text()
            )
            assert (
                jsonschema_rs.Draft202012Validator(
                    schema, offline=True, validate_formats=True
                ).is_valid(example)
                == item["valid"]
            )
            seen += 1
    assert seen == 5


@pytest.mark.req("F-054", "F-159")
def test_the_examples_of_1_2_are_entries_of_the_published_form_with_the_grade_they_state(
    shared: Path,
) -> None:
    for version, item, example in examples(shared, "grading-entry"):
        if version == "1.2.0":
            assert schema_faults(example) == []
            assert semantic_faults(example) == []
            assert consistency_faults(example, RULES, recomputed(example, RULES)) == []
            assert upgrade(example) == example
            again = recomputed(example, RULES)
            assert again is not None
            assert (again.grade, again.max_attainable) == (
                item["aggregateGrade"],
                item["maxAttainableGrade"],
            )


@pytest.mark.req("F-054", "F-063")
def test_the_examples_of_1_0_lack_what_places_an_entry_and_their_answers_still_give_their_grade(
    shared: Path,
) -> None:
    for version, item, example in examples(shared, "grading-entry"):
        if version == "1.0.0":
            read = upgrade(example)
            assert not schema_valid(read)
            assert not {
                "gradingId",
                "area",
                "version",
                "schemaHash",
                "gradingMode",
                "harness",
            } & set(read)
            assert [answer_["questionId"] for answer_ in read["gradings"]] == [
                f"Q-{answer_['dimension']}" for answer_ in example["gradings"]
            ]
            found = aggregate_answers(
                read["gradings"], read["gradingTier"], RULES, veto=read["categoricalVeto"]
            )
            assert (found.grade, found.max_attainable) == (
                item["aggregateGrade"],
                item["maxAttainableGrade"],
            )


@pytest.mark.req("F-096", "F-099")
def test_the_example_index_of_1_2_lacks_what_a_namespace_index_needs_today(shared: Path) -> None:
    ((_, _, example),) = examples(shared, "index")
    fault = index_fault(example)
    assert fault is not None
    assert (fault.code, fault.message) == ("IDX-001", "description is missing.")
    assert index_fault({**example, "description": {"status": "pending"}, "skills": {}}) is None


@pytest.mark.req("F-057")
def test_a_harness_is_a_text_in_an_entry(tmp_path: Path) -> None:
    assert not schema_valid({**built(), "harness": {"name": "claude-code"}})
    assert not schema_valid({**built(harness="mine"), "harness": ""})
    assert Tree(str(tmp_path), RULES).names("providers") == []
