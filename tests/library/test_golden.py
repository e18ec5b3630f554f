"""The golden inputs notice a change of a rule, a threshold or a closed list: each is planted in
turn, and `versions --check` fails.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from msgspec import Struct, structs

from assay.canon import digest
from assay.families.exams import gate as exam_gate
from assay.families.exams import results
from assay.families.tools import aging, answers, checks, names, status, veto
from assay.families.tools import behaviour as tool_behaviour
from assay.families.tools import gate as tool_gate
from assay.grading import rules as grading_rules
from assay.library.behaviour import measure_fingerprints
from assay.library.families import FAMILIES
from assay.library.lock import lock_of
from assay.library.shelf import Shelf
from assay.registry import home_value
from assay.release import rules as release_rules
from assay.scoring import profile
from assay.scoring.checks import MATCHES, STEPS
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.measure import Undetermined

SYSTEMS = {
    (family.id, system.name): system
    for family in map(FAMILIES.__getitem__, FAMILIES)
    for system in family.systems
}


def has_moved(owner: tuple[str, str]) -> bool:
    """Whether a system behaves otherwise than the lock records."""
    recorded = lock_of().systems[owner[0]][owner[1]].fingerprint
    return bool(digest(home_value(SYSTEMS[owner].behaviour)()) != recorded)


def test_every_system_behaves_as_the_lock_records() -> None:
    assert [owner for owner in SYSTEMS if has_moved(owner)] == []


# --- rules that are code


def _upside_down(found: Any) -> Any:
    """What a rule says, turned round."""
    if isinstance(found, bool):
        return not found
    if isinstance(found, Struct) or (isinstance(found, tuple) and hasattr(found, "_fields")):
        changes: dict[str, Any] = (
            {"holds": getattr(found, "holds", None) is not True} if hasattr(found, "holds") else {}
        )
        if hasattr(found, "passed") and not isinstance(
            getattr(type(found), "passed", None), property
        ):
            changes["passed"] = found.passed is not True
        if hasattr(found, "warn"):
            changes["warn"] = not found.warn
        if hasattr(found, "outcome"):
            changes["outcome"] = "veto" if found.outcome != "veto" else "clean"
        if hasattr(found, "rules"):
            changes["rules"] = tuple(_upside_down(rule) for rule in found.rules)
        return _with(found, **changes)
    if isinstance(found, str):
        return {"stable": "draft"}.get(found, "stable")
    return None


CODE: dict[str, tuple[Any, tuple[str, ...], tuple[str, str]]] = {
    "release": (
        release_rules,
        (
            "complete",
            "new_failures",
            "gate_failure_rate",
            "score_non_inferiority",
            "severe_failures",
        ),
        ("release", "grading"),
    ),
    "tool gates": (
        tool_gate,
        ("schema_gate", "namespace_gate", "_primitives"),
        ("flowmcp", "grading"),
    ),
    "tool statuses": (
        status,
        ("letter_status", "rollup_status", "rollup_grade"),
        ("flowmcp", "grading"),
    ),
    "tool checks": (
        checks,
        ("check_modules", "check_key_domain", "check_terms"),
        ("flowmcp", "scoring"),
    ),
    "exam gates": (
        exam_gate,
        ("opens", "reaches", "drop_holds", "soft_latency", "schema_failures", "soft_score"),
        ("exam", "grading"),
    ),
}


def _functions() -> Iterator[Any]:
    for name, (module, functions, owner) in CODE.items():
        for function in functions:
            yield pytest.param(module, function, owner, id=f"{name}: {function}")


@pytest.mark.parametrize(("module", "name", "owner"), list(_functions()))
def test_each_rule_that_is_code_is_red_when_it_says_the_opposite(
    module: Any, name: str, owner: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given, **named: _upside_down(kept(*given, **named)))
    assert has_moved(owner)


def test_the_terms_for_judges_are_red_when_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading_rules, "judge_fault", lambda *given, **named: None)
    assert has_moved(("workflow", "grading"))


@pytest.mark.parametrize("name", list(results.FINDERS))
def test_each_detector_of_a_pattern_is_red_when_it_sees_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(results.FINDERS, name, lambda *given: iter(()))
    assert has_moved(("exam", "grading"))


@pytest.mark.parametrize("name", list(MATCHES))
def test_each_way_to_match_an_exam_is_red_when_it_says_the_opposite(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = MATCHES[name]
    monkeypatch.setitem(MATCHES, name, lambda text, entry: not kept(text, entry))
    assert has_moved(("exam", "scoring"))


@pytest.mark.parametrize("name", ["nfc", "strip", "case-fold", "trailing-period"])
def test_each_step_of_normalisation_is_red_when_it_does_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = list(Shelf().rubric_of("exam", "tutor@1").normalisation)
    assert name in taken, "a step that no published rubric takes has no golden answers"
    monkeypatch.setitem(STEPS, name, STEPS[name]._replace(apply=lambda text: text))
    assert has_moved(("exam", "scoring"))


def test_each_measure_is_red_when_it_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = measure_fingerprints()
    for name in MEASURES:
        monkeypatch.setitem(
            MEASURES._entries,
            name,
            _with(MEASURES[name], read=lambda run, params: Undetermined("planted")),
        )
    after = measure_fingerprints()
    assert [name for name in before if before[name] == after[name]] == []


def _with(record: Any, **changes: Any) -> Any:
    if isinstance(record, Struct):
        return structs.replace(record, **changes)
    if hasattr(record, "_replace"):
        return record._replace(**changes)
    made = copy.copy(record)
    for name, value in changes.items():
        object.__setattr__(made, name, value)
    return made


# --- what F-007 names

POLICY = Shelf().policy_of("flowmcp", "flowmcp@1")


@pytest.mark.parametrize(
    "change",
    [
        *(
            {
                "bands": [
                    structs.replace(
                        band, min=band.min + (Decimal("0.01") if band.grade == letter else 0)
                    )
                    for band in POLICY.bands
                ]
            }
            for letter in "ABCD"
        ),
        {"worth": structs.replace(POLICY.worth, passed=4)},
        {"worth": structs.replace(POLICY.worth, failed=2)},
        {"tier_caps": {**POLICY.tier_caps, "autonomous": "C"}},
        {"tier_caps": {**POLICY.tier_caps, "group-bound": "B"}},
        {"production_from": "C"},
    ],
    ids=["A", "B", "C", "D", "pass", "fail", "autonomous", "group-bound", "production"],
)
@pytest.mark.req("F-007", "F-033")
def test_a_threshold_a_mapping_or_a_tier_moves_grading_and_leaves_scoring(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tool_behaviour.SchemaRules
    monkeypatch.setattr(
        tool_behaviour, "SchemaRules", lambda policy: made(structs.replace(policy, **change))
    )
    owners = (
        SYSTEMS if "production_from" in change else [("flowmcp", "scoring"), ("flowmcp", "grading")]
    )
    moved = [owner for owner in owners if has_moved(owner)]
    assert moved == [("flowmcp", "grading")]


def _without_one(values: Any) -> Any:
    kept = list(values.items() if isinstance(values, dict) else values)[:-1]
    return type(values)(kept)


@pytest.mark.parametrize(
    ("module", "name", "owner"),
    [
        (veto, "TRIGGERS", ("flowmcp", "grading")),
        (names, "AREAS", ("flowmcp", "grading")),
        (answers, "NA_REASONS", ("flowmcp", "scoring")),
        (aging, "LIMITS", ("flowmcp", "scoring")),
        (profile, "REQUIRED", ("workflow", "scoring")),
    ],
)
@pytest.mark.req("F-007", "F-046", "F-062")
def test_a_closed_list_that_loses_an_entry_moves_its_own_system_alone(
    module: Any, name: str, owner: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, _without_one(getattr(module, name)))
    assert [moved for moved in SYSTEMS if has_moved(moved)] == [owner]


@pytest.mark.parametrize(
    ("module", "name", "more", "owner"),
    [
        (veto, "TRIGGERS", ("planted",), ("flowmcp", "grading")),
        (
            names,
            "AREAS",
            {"planted": names.Area("planted", "autonomous", "")},
            ("flowmcp", "grading"),
        ),
        (answers, "NA_REASONS", ("planted",), ("flowmcp", "scoring")),
        (aging, "LIMITS", {"planted": 1}, ("flowmcp", "scoring")),
    ],
)
@pytest.mark.req("F-007", "F-046", "F-062")
def test_a_closed_list_with_a_new_entry_moves_its_own_system_alone(
    module: Any, name: str, more: Any, owner: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = getattr(module, name)
    monkeypatch.setattr(module, name, held | more if isinstance(held, dict) else held + more)
    assert [moved for moved in SYSTEMS if has_moved(moved)] == [owner]
