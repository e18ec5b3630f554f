"""`versions --check` fails for every change of a rule, list or constant that can move a verdict:
each is planted in turn, found by walking the modules.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Context, Decimal
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import Any

import pytest
from msgspec import Struct, structs

from assay.canon import digest
from assay.exams import gate as exam_gate
from assay.exams import patterns
from assay.exams.normal import MATCHES, STEPS
from assay.grading import rules as grading_rules
from assay.library import tables
from assay.library.behaviour import measure_fingerprints
from assay.library.fingerprint import System, moved_tables, recorded_tables
from assay.library.lock import lock_of
from assay.library.shelf import Shelf
from assay.registry import home_value
from assay.release import promotion
from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.measure import Undetermined
from assay.tools import behaviour as tool_behaviour
from assay.tools import checks, status
from assay.tools import gate as tool_gate
from examples import each

SYSTEMS = tuple(tables.systems())


# --- tables, lists, patterns, constants, defaults


class Unplantable(Exception):
    """There is no other value of this kind."""


def other(value: Any) -> Any:
    """A value that differs from this one, by as little as can be."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, bytes):
        return value + b"x"
    if isinstance(value, int | float | Decimal | Fraction):
        return value + 1
    if isinstance(value, timedelta | date):
        return value + timedelta(days=1)
    if value is None:
        return 1
    if isinstance(value, type):
        return complex
    if isinstance(value, re.Pattern):
        return re.compile(
            value.pattern + (b"x" if isinstance(value.pattern, bytes) else "x"), value.flags
        )
    if isinstance(value, Context):
        made = value.copy()
        made.prec -= 1
        return made
    if isinstance(value, Mapping):
        try:
            return (
                dict(zip(value, _changed_one(tuple(value.values())), strict=True))
                if value
                else {"planted": 1}
            )
        except Unplantable:  # a table of functions loses one
            return dict(list(value.items())[1:])
    if isinstance(value, set | frozenset):
        return type(value)([*value, "planted"])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._replace(**dict([_part(value, value._fields)]))
    if isinstance(value, list | tuple):
        try:
            return type(value)(_changed_one(tuple(value)) if value else ["planted"])
        except Unplantable:
            return type(value)(value[1:])
    if isinstance(value, Struct):
        return structs.replace(value, **dict([_part(value, value.__struct_fields__)]))
    fields = tables._fields(value)
    if fields:
        made = copy.copy(value)
        name, new = _part(value, [name for name, _ in fields])
        object.__setattr__(made, name, new)
        return made
    if tables.plain(value) not in (None, tables._OPAQUE):
        return "planted"
    raise Unplantable


def _part(value: Any, names: Any) -> tuple[str, Any]:
    for name in names:
        if name not in tables._WORDS:
            try:
                return name, other(getattr(value, name))
            except Unplantable:
                continue
    raise Unplantable


def plant(monkeypatch: pytest.MonkeyPatch, table: tables.ModuleValue) -> None:
    """Change what a module holds."""
    module = import_module(table.module)
    owner, _, part = table.name.partition(".")
    if table.name.endswith("()"):
        held = getattr(module, owner.removesuffix("()"))
        function = inspect.unwrap(held if not part else _function(held, part.removesuffix("()")))
        if getattr(function, "__defaults__", None):
            monkeypatch.setattr(function, "__defaults__", _changed_one(function.__defaults__))
        else:
            names = function.__kwdefaults__
            monkeypatch.setattr(
                function,
                "__kwdefaults__",
                dict(zip(names, _changed_one(tuple(names.values())), strict=True)),
            )
    elif not part:
        monkeypatch.setattr(module, owner, other(table.value))
    else:
        kind = getattr(module, owner)
        if part == "members" and issubclass(kind, Enum):
            monkeypatch.setattr(next(iter(kind)), "_value_", "planted")
        elif part == "fields":
            fields = kind.__annotations__ if issubclass(kind, Struct) else kind._field_defaults
            monkeypatch.setitem(fields, next(iter(fields)), "planted")
        else:
            monkeypatch.setattr(kind, part, other(table.value))


def _function(kind: type, name: str) -> Any:
    found = vars(kind)[name]
    return getattr(found, "__func__", found)


def _changed_one(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same with the first one changed that can be."""
    for index, value in enumerate(values):
        if value is not None:  # an absent default is not a rule
            try:
                return (*values[:index], other(value), *values[index + 1 :])
            except Unplantable:
                continue
    raise Unplantable


def now(owner: tuple[str, str]) -> System:
    """A system with its tables as they are now, and its behaviour as the lock records it."""
    held = lock_of().systems[owner[0]][owner[1]]
    return System(*owner, held.version, held.fingerprint, tables.of_system(*owner))


def has_moved(owner: tuple[str, str]) -> bool:
    """Whether a system behaves otherwise than the lock records."""
    recorded = lock_of().systems[owner[0]][owner[1]].fingerprint
    return bool(digest(home_value(tables.systems()[owner].behaviour)()) != recorded)


def test_every_system_behaves_as_the_lock_records() -> None:
    assert [owner for owner in SYSTEMS if has_moved(owner)] == []


@pytest.mark.parametrize("owner", SYSTEMS, ids=" ".join)
@pytest.mark.req("F-007")
def test_a_change_in_each_table_list_and_constant_in_turn_is_red(
    owner: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    system = now(owner)
    assert moved_tables(system) == []
    missed, planted = [], 0
    for module in [name for name, whose in tables.modules().items() if whose == owner]:
        for table in list(tables.tables(module)):
            with monkeypatch.context() as patch:
                try:
                    plant(patch, table)
                except Unplantable:
                    missed.append(table.key)
                    continue
                found = moved_tables(
                    system._replace(tables={**system.tables, **tables.of_module(module)})
                )
            planted += 1
            if not any(f" {table.key} changed and the version is still " in text for text in found):
                missed.append(table.key)
    assert missed == []
    assert planted > 15
    assert (
        moved_tables(system._replace(tables=tables.of_system(*owner))) == []
    )  # everything is as it was


def test_every_module_belongs_to_one_system_and_a_new_one_is_found_by_itself() -> None:
    found = tables.modules()
    for package in (
        "scoring",
        "grading",
        "tools",
        "exams",
        "release",
        "stats",
        "formulas",
        "records",
    ):
        inside = [name for name in found if name.startswith(f"assay.{package}")]
        assert len(inside) == len([name for name in tables._inside(f"assay.{package}") if name]) + 1
    assert set(found.values()) == set(SYSTEMS)


def test_a_constant_that_is_new_or_gone_is_said_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    system = now(("exam", "grading"))
    some = next(iter(system.tables))
    (gone,) = moved_tables(
        system._replace(tables={key: value for key, value in system.tables.items() if key != some})
    )
    (new,) = moved_tables(
        system._replace(tables={**system.tables, "assay.exams.gate:NEW": "0" * 16})
    )
    assert f"{some} is recorded and gone" in gone
    assert "assay.exams.gate:NEW is not recorded yet" in new


def test_what_a_process_has_done_before_moves_no_table() -> None:
    for owner in SYSTEMS:
        assert tables.of_system(*owner) == dict(recorded_tables()[" ".join(owner)])


def test_each_exclusion_is_of_something_that_exists_and_has_a_reason() -> None:
    for key, reason in tables.EXCLUDED.items():
        module, _, name = key.partition(":")
        assert hasattr(import_module(module), name.partition(".")[0])
        assert reason


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
        promotion,
        ("gate_failures", "scores", "floors", "severe_failures"),
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


@pytest.mark.parametrize("name", list(patterns._FINDERS))
def test_each_detector_of_a_pattern_is_red_when_it_sees_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(patterns._FINDERS, name, lambda *given: iter(()))
    assert has_moved(("exam", "grading"))


@pytest.mark.parametrize("name", list(MATCHES))
def test_each_way_to_match_an_exam_is_red_when_it_says_the_opposite(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = MATCHES[name]
    monkeypatch.setitem(MATCHES, name, lambda text, entry: not kept(text, entry))
    assert has_moved(("exam", "scoring"))


@pytest.mark.parametrize("name", list(STEPS))
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


LISTS = {
    "assay.tools.veto:TRIGGERS": ("flowmcp", "grading"),
    "assay.tools.names:AREAS": ("flowmcp", "grading"),
    "assay.tools.names:LETTERS": ("flowmcp", "grading"),
    "assay.tools.answers:NA_REASONS": ("flowmcp", "scoring"),
    "assay.tools.aging:LIMITS": ("flowmcp", "scoring"),
    "assay.scoring.gates:REQUIRED": ("workflow", "scoring"),
    "assay.records.scorecard:ROLES": ("workflow", "scoring"),
}


@pytest.mark.req("F-007", "F-046", "F-062")
def test_each_veto_area_or_list_moves_its_own_system_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [text for owner in SYSTEMS for text in moved_tables(now(owner))] == []  # loads them all
    for key in LISTS:
        module, _, constant = key.partition(":")
        monkeypatch.setattr(
            import_module(module), constant, other(getattr(import_module(module), constant))
        )
    moved = [
        (text.partition(": ")[2].split()[0], owner)
        for owner in SYSTEMS
        for text in moved_tables(now(owner))
    ]
    assert sorted(moved) == sorted(LISTS.items())


# --- rules that are nothing but code

RULE = '''
def passes(score, limit):
    """Whether it passes."""
    # as the guide says
    return score >= limit, "the score reaches the limit"
'''


def digest_of(source: str) -> str:
    return tables.code_digest(ast.parse(source))


@each(
    "planted",
    [
        ("score >= limit", "score > limit"),
        ("return score >= limit", "return True"),
        ("score, limit", "score, limit=0"),
        (">= limit", ">= limit - 1"),
    ],
)
def test_a_change_of_a_rule_moves_the_digest_of_its_module(planted: tuple[str, str]) -> None:
    assert digest_of(RULE.replace(*planted)) != digest_of(RULE)


@each(
    "planted",
    [
        ("as the guide says", "as agreed"),
        ("Whether it passes.", "True if so."),
        ("reaches the limit", "is high enough"),
    ],
)
def test_other_words_for_a_rule_move_nothing(planted: tuple[str, str]) -> None:
    assert digest_of(RULE.replace(*planted)) == digest_of(RULE)


def test_a_changed_rule_in_any_module_is_red_and_names_it_whether_golden_inputs_reach_it_or_not() -> (
    None
):
    for module, owner in tables.modules().items():
        key = f"{module}{tables.CODE}"
        held = recorded_tables()[" ".join(owner)]
        assert held[key] == tables.of_module(module)[key]
    system = now(tables.modules()["assay.tools.memory"])
    (found,) = moved_tables(
        system._replace(tables={**system.tables, "assay.tools.memory:code": "0" * 16})
    )
    assert "the code of assay.tools.memory changed" in found
