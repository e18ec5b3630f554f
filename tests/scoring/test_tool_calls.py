"""Tool calls: the leaderboard's verdicts, exact pairing, paths, handoffs, and what a hostile answer
cannot gain.
"""

from __future__ import annotations

import itertools
import json
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError, UsageError
from assay.files.json_files import parse_json
from assay.formulas import normalise
from assay.records.evidence import Run
from assay.scoring.checks import key, same
from assay.scoring.metrics import bfcl
from assay.scoring.metrics.call_schema import check_call, standard_schema
from assay.scoring.metrics.calls import (
    Expected,
    WrittenCall,
    assign,
    match,
    trajectory_match,
)
from assay.scoring.metrics.measure import Undetermined
from assay.scoring.metrics.tool_calls import measure_tool_calls
from assay.scoring.metrics.tool_use import TOOL_USE, handoff_accuracy
from documents import run

if TYPE_CHECKING:
    from pathlib import Path

MEASURES = {measure.id: measure for measure in TOOL_USE}


def line(calls: Any, expected: Any, *, tools: Any = (), id: str = "a") -> dict[str, Any]:
    return {"id": id, "tools": list(tools), "calls": calls, "expected": expected}


def verdict(calls: Any, expected: Any, rules: str = "plain", *, tools: Any = ()) -> dict[str, Any]:
    return measure_tool_calls([line(calls, expected, tools=tools)], rules)["items"]["a"]


def wish(name: str, **accepted: list[Any]) -> Expected:
    return Expected(name, accepted, len(accepted))


def made(name: str, **arguments: Any) -> WrittenCall:
    return WrittenCall(name, arguments)


# --- the leaderboard

CATEGORIES = ("simple", "multiple_function", "parallel_function", "parallel_multiple_function")
MODELS = ("gpt-4o-2024-05-13-FC", "claude-3-haiku-20240307-FC")


def leaderboard_lines(folder: Path, model: str, category: str) -> list[dict[str, Any]]:
    """The stored answers as the lines that `assay measure tool-calls` reads."""
    asked, right, given = (
        {item["id"]: item for item in parse_json((folder / name).read_bytes())}
        for name in (
            f"questions/{category}.json",
            f"possible_answer/{category}.json",
            f"outputs/{model}__{category}.json",
        )
    )
    lines = []
    for id, answer in given.items():
        tools = asked[id]["function"]
        calls = answer["calls"] and [
            {"name": name, "arguments": arguments}
            for call in answer["calls"]
            for name, arguments in call.items()
        ]
        expected = [
            {"name": name, "arguments": accepted}
            for name, accepted in right[id]["ground_truth"].items()
        ]
        lines.append(
            line(calls, expected, tools=tools if isinstance(tools, list) else [tools], id=id)
        )
    return lines


@pytest.mark.req("W-020")
@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("model", MODELS)
def test_every_verdict_of_the_leaderboard_is_reproduced(
    shared: Path, model: str, category: str
) -> None:
    folder = shared / "data" / "bfcl"
    published = json.loads((folder / "expected.json").read_text())[model][category]
    found = measure_tool_calls(leaderboard_lines(folder, model, category), "bfcl")
    ours = {id: [item["correct"], item["error"]] for id, item in found["items"].items()}
    assert {
        id: (said, ours[id]) for id, said in published["per_item"].items() if said != ours[id]
    } == {}
    assert found["n"] == published["n"]
    assert found["accuracy"] == pytest.approx(published["accuracy"], abs=1e-12)
    for item in found["items"].values():
        assert 0 <= item["argument_f1"] <= 1
        assert 0 <= item["selection"] <= 1
        assert item["correct"] == (item["argument_f1"] == 1 == item["selection"])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("category", CATEGORIES)
def test_floats_read_as_floats_or_as_decimals_give_the_same_verdicts(
    shared: Path, model: str, category: Any
) -> None:
    folder = shared / "data" / "bfcl"
    exact = leaderboard_lines(folder, model, category)
    floats = json.loads(json.dumps(exact, default=float))
    assert measure_tool_calls(floats, "bfcl") == measure_tool_calls(exact, "bfcl")


TEMPERATURE = {
    "name": "climate.read",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "depth": {"type": "float"},
            "at": {"type": "tuple", "items": {"type": "float"}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "box": {"type": "dict", "properties": {}},
            "rows": {"type": "array", "items": {"type": "dict"}},
            "dry": {"type": "boolean"},
            "unit": {"type": "any"},
        },
        "required": ["city"],
    },
}


@pytest.mark.parametrize(
    ("arguments", "accepted", "fault"),
    [
        ({"city": "new york"}, {"city": ["New-York"]}, None),
        ({"city": "it's"}, {"city": ['IT"S']}, None),
        ({"city": "Bergen"}, {"city": ["Oslo"]}, "value_error:string"),
        ({}, {"city": ["Oslo"]}, "simple_function_checker:missing_required"),
        ({}, {"city": ["Oslo", ""]}, "simple_function_checker:missing_required"),
        (
            {"city": "Oslo"},
            {"city": ["Oslo"], "days": [3]},
            "simple_function_checker:missing_optional",
        ),
        ({"city": "Oslo"}, {"city": ["Oslo"], "days": [3, ""]}, None),
        (
            {"city": "Oslo", "days": 3},
            {"city": ["Oslo"]},
            "simple_function_checker:unexpected_param",
        ),
        (
            {"city": "Oslo", "size": 3},
            {"city": ["Oslo"], "size": [3]},
            "simple_function_checker:unexpected_param",
        ),
        (
            {"city": "Oslo", "days": Decimal("3.0")},
            {"city": ["Oslo"], "days": [3]},
            "type_error:simple",
        ),
        ({"city": "Oslo", "days": True}, {"city": ["Oslo"], "days": [1]}, "type_error:simple"),
        ({"city": "Oslo", "dry": 1}, {"city": ["Oslo"], "dry": [True]}, "type_error:simple"),
        ({"city": "Oslo", "days": 4}, {"city": ["Oslo"], "days": [3]}, "value_error:others"),
        ({"city": "Oslo", "depth": 3}, {"city": ["Oslo"], "depth": [Decimal("3.0")]}, None),
        (
            {"city": "Oslo", "at": [1, 2]},
            {"city": ["Oslo"], "at": [[1.0, 2.0]]},
            "type_error:nested",
        ),
        ({"city": "Oslo", "at": [1.0, 2.0]}, {"city": ["Oslo"], "at": [[1.0, 2.0]]}, None),
        ({"city": "Oslo", "tags": ["b", "A-"]}, {"city": ["Oslo"], "tags": [["B", "a"]]}, None),
        (
            {"city": "Oslo", "tags": ["a", "b"]},
            {"city": ["Oslo"], "tags": [["b", "a"]]},
            "value_error:list/tuple",
        ),
        ({"city": "Oslo", "tags": []}, {"city": ["Oslo"], "tags": [["b"], ""]}, None),
        ({"city": "Oslo", "tags": "b"}, {"city": ["Oslo"], "tags": ["b"]}, None),
        (
            {"city": "Oslo", "box": {"n": "Up "}},
            {"city": ["Oslo"], "box": [{"n": ["up"], "m": ["", 1]}]},
            None,
        ),
        (
            {"city": "Oslo", "box": {"n": "down"}},
            {"city": ["Oslo"], "box": [{"n": ["up"]}]},
            "value_error:dict_value",
        ),
        (
            {"city": "Oslo", "box": {"x": 1}},
            {"city": ["Oslo"], "box": [{"n": ["up", ""]}]},
            "value_error:dict_key",
        ),
        (
            {"city": "Oslo", "box": {}},
            {"city": ["Oslo"], "box": [{"n": ["up"]}]},
            "value_error:dict_key",
        ),
        (
            {"city": "Oslo", "rows": [{"n": 1}]},
            {"city": ["Oslo"], "rows": [[{"n": [1]}, {"n": [2]}]]},
            "value_error:list_dict_count",
        ),
        ({"city": "Oslo", "rows": [{"n": 1}]}, {"city": ["Oslo"], "rows": [[{"n": [1]}]]}, None),
        ({"city": "Oslo", "unit": "K"}, {"city": ["Oslo"], "unit": ["k"]}, None),
    ],
)
def test_the_leaderboard_names_what_is_wrong_with_an_argument(
    arguments: dict[str, Any], accepted: dict[str, Any], fault: str | None
) -> None:
    found = verdict(
        [{"name": "climate_read", "arguments": arguments}],
        [{"name": "climate.read", "arguments": accepted}],
        "bfcl",
        tools=[TEMPERATURE],
    )
    assert (found["correct"], found["error"]) == (fault is None, fault)


def test_dots_become_underscores_only_where_no_other_tool_has_that_name() -> None:
    dotted, plain = {"name": "a.b", "parameters": {}}, {"name": "a_b", "parameters": {}}
    assert bfcl.called_name("a_b", [dotted]) == "a.b"
    assert bfcl.called_name("a_b", [dotted, plain]) == "a_b"
    expected = [{"name": "a.b", "arguments": {}}]
    assert verdict([{"name": "a_b", "arguments": {}}], expected, "bfcl", tools=[dotted])["correct"]
    assert not verdict([{"name": "a_b", "arguments": {}}], expected, "bfcl", tools=[dotted, plain])[
        "correct"
    ]


def test_a_numbered_answer_means_its_tool_and_not_one_whose_name_it_contains() -> None:
    tools = [{"name": "play"}, {"name": "play_next"}]
    assert bfcl.tool_named("play_next", tools) == {"name": "play_next"}
    assert bfcl.tool_named("play_next_2", tools) == {"name": "play_next"}
    assert bfcl.tool_named("play 3", tools) == {"name": "play"}
    assert bfcl.tool_named("stop", tools) is None


def test_an_answer_that_cannot_be_read_is_wrong_and_not_a_fault_of_the_file() -> None:
    expected = [{"name": "climate.read", "arguments": {"city": ["Oslo"]}}]
    for calls in (
        None,
        [{"name": "climate.read", "arguments": "{'city'"}],
        [{"name": "climate.read", "arguments": '["Oslo"]'}],
        ["climate.read"],
    ):
        assert (
            verdict(calls, expected, "bfcl", tools=[TEMPERATURE])["error"]
            == "ast_decoder:decoder_failed"
        )
        assert not verdict(calls, expected)["correct"]
    assert verdict([{"name": "climate.read", "arguments": '{"city": "Oslo"}'}], expected)["correct"]


@given(st.text(), st.sampled_from(" ,./-_*^"), st.integers(0, 20))
def test_folding_ignores_case_spaces_and_the_listed_signs(text: str, sign: str, at: int) -> None:
    assert bfcl.fold(text[:at] + sign + text[at:]) == bfcl.fold(text)
    assert bfcl.fold(bfcl.fold(text)) == bfcl.fold(text)


# --- plain rules


@pytest.mark.parametrize(
    ("given_value", "accepted", "right"),
    [
        (1, [1.0], True),
        (Decimal("1.0"), [1], True),
        (0.1, [Decimal("0.10")], True),
        (True, [1], False),
        (1, [True], False),
        (False, [0, "", None], False),
        (None, [None], True),
        ("1", [1], False),
        ("oslo", ["Oslo"], False),
        ({"b": [1, {"c": 2.0}], "a": None}, [{"a": None, "b": [1.0, {"c": 2}]}], True),
        ([1, 2], [[2, 1]], False),
        (10**400, [10**400], True),
        (10**400 + 1, [10**400], False),
        (float("nan"), [float("nan")], False),
        (Decimal("NaN"), [Decimal("NaN")], False),
        (Decimal("sNaN"), [1], False),
        (float("inf"), [float("inf")], False),
        (Decimal("1e999999"), [1], False),
        ("é", ["e\u0301"], False),
        ("", [""], True),
    ],
)
def test_plain_values_are_equal_as_json(given_value: Any, accepted: list[Any], right: bool) -> None:
    found = verdict(
        [{"name": "f", "arguments": {"x": given_value}}],
        [{"name": "f", "arguments": {"x": accepted}}],
    )
    assert found["correct"] is right
    assert found["error"] == (None if right else "wrong_value: x of f")


def test_without_the_leaderboards_rules_an_empty_text_is_a_value_and_not_leave_to_omit() -> None:
    assert (
        verdict([{"name": "f", "arguments": {}}], [{"name": "f", "arguments": {"x": ["", 1]}}])[
            "error"
        ]
        == "missing_argument: x of f"
    )


@pytest.mark.parametrize(
    ("calls", "error"),
    [
        ([], "wrong_count: 0 called, 2 expected"),
        ([{"name": "f", "arguments": {"x": 1}}] * 2, "wrong_tool: f called, g expected"),
        (
            [{"name": "f", "arguments": {"x": 1, "y": 1}}, {"name": "g"}],
            "unexpected_argument: y of f",
        ),
        ([{"name": "f", "arguments": {}}, {"name": "g"}], "missing_argument: x of f"),
        ([{"name": "f", "arguments": {"x": 3}}, {"name": "g"}], "wrong_value: x of f"),
        ([{"name": "f", "arguments": 7}, {"name": "g"}], "unreadable_arguments: f"),
        ([{"arguments": {}}, {"name": "g"}], "wrong_tool: no name called, f expected"),
        (None, "unreadable_calls"),
        ([{"name": "g", "arguments": {}}, {"name": "f", "arguments": {"x": 2}}], None),
    ],
)
def test_the_first_thing_wrong_is_named(calls: Any, error: str | None) -> None:
    assert (
        verdict(calls, [{"name": "f", "arguments": {"x": [1, 2]}}, {"name": "g", "arguments": {}}])[
            "error"
        ]
        == error
    )


def test_scores_are_the_ones_worked_out_by_hand() -> None:
    expected = [
        {"name": "f", "arguments": {"x": [1], "y": [2]}},
        {"name": "g", "arguments": {"z": [3]}},
    ]
    calls = [
        {"name": "f", "arguments": {"x": 1, "y": 0}},
        {"name": "h", "arguments": {"q": 1}},
        {"name": "g", "arguments": {"z": 3, "w": 1}},
    ]
    found = verdict(calls, expected)
    assert found["selection"] == pytest.approx(2 / 3, abs=1e-15)
    assert found["argument_f1"] == pytest.approx(2 * 2 / (5 + 3), abs=1e-15)


def test_no_call_where_none_is_expected_is_right_and_one_too_many_is_not() -> None:
    assert verdict([], []) == {"correct": True, "error": None, "selection": 1.0, "argument_f1": 1.0}
    assert verdict([{"name": "f"}], []) == {
        "correct": False,
        "error": "wrong_count: 1 called, 0 expected",
        "selection": 0.0,
        "argument_f1": 0.0,
    }
    assert verdict(None, [])["selection"] is None
    assert measure_tool_calls([]) == {"items": {}, "accuracy": None, "n": 0}


def test_a_broken_file_names_every_fault_with_its_line_and_measures_nothing() -> None:
    good = line([], [], id="a")
    broken = [
        good,
        line([], [], id="a"),
        [],
        {"id": "b", "calls": []},
        line("x", [], id="c"),
        line([], [{"name": "f", "arguments": {"x": 1}}], id="d"),
        line([], [{"name": "", "arguments": {}}], id="e"),
        {"id": "f", "expected": []},
    ]
    with pytest.raises(InputError) as caught:
        measure_tool_calls(broken)
    assert [(fault.line, fault.path) for fault in caught.value.faults] == [
        (2, "id"),
        (3, ""),
        (4, "expected"),
        (5, "calls"),
        (6, "expected[0].arguments.x"),
        (7, "expected[0]"),
        (8, "calls"),
    ]
    with pytest.raises(InputError) as caught:
        measure_tool_calls(
            [
                line([], [{"name": "f", "arguments": {}}]),
                line([], [], id="b", tools=[{"name": ""}]),
            ],
            "bfcl",
        )
    assert [(fault.line, fault.path) for fault in caught.value.faults] == [
        (1, "tools"),
        (2, "tools[0]"),
    ]
    with pytest.raises(UsageError, match="Did you mean 'bfcl'"):
        measure_tool_calls([good], "bfc")


def test_a_forged_second_line_of_an_id_does_not_cover_the_first() -> None:
    failed, forged = (
        line([], [{"name": "f", "arguments": {}}]),
        line([{"name": "f"}], [{"name": "f", "arguments": {}}]),
    )
    with pytest.raises(InputError, match="appears twice"):
        measure_tool_calls([failed, forged])


# --- pairing


@given(
    st.integers(0, 5).flatmap(
        lambda n: st.integers(1, 5).flatmap(
            lambda m: st.lists(
                st.lists(st.integers(-9, 9), min_size=m, max_size=m), min_size=n, max_size=n
            )
        )
    )
)
def test_the_assignment_is_as_good_as_trying_every_one(weights: list[list[int]]) -> None:
    rows, columns = len(weights), len(weights[0]) if weights else 0
    found = assign(weights)
    taken = [column for column in found if column is not None]
    assert len(taken) == len(set(taken)) == min(rows, columns)
    best = max(
        (
            sum(weights[row][column] for row, column in zip(chosen, order, strict=True))
            for chosen in itertools.combinations(range(rows), min(rows, columns))
            for order in itertools.permutations(range(columns), min(rows, columns))
        ),
        default=0,
    )
    assert (
        sum(weights[row][column] for row, column in enumerate(found) if column is not None) == best
    )


VALUES = st.one_of(st.integers(0, 2), st.sampled_from(["a", "b", True, None, [1], {"k": [1, "a"]}]))
CALLS = st.lists(
    st.builds(
        WrittenCall,
        st.sampled_from("fg"),
        st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3),
    ),
    max_size=4,
)
EXPECTED = st.lists(
    st.builds(
        lambda name, accepted: Expected(name, accepted, len(accepted)),
        st.sampled_from("fg"),
        st.dictionaries(
            st.sampled_from("xyz"), st.lists(VALUES, min_size=1, max_size=2), max_size=3
        ),
    ),
    max_size=4,
)


def best_f1(calls: list[WrittenCall], expected: list[Expected]) -> Fraction:
    """Argument F1 by trying every assignment, in fractions."""
    if not calls and not expected:
        return Fraction(1)
    given = sum(max(1, len(call.arguments or {})) for call in calls)
    wanted = sum(max(1, len(item.accepted or {})) for item in expected)

    def right(call: WrittenCall, item: Expected) -> int:
        if call.name != item.name:
            return 0
        if not call.arguments and not item.accepted:
            return 1
        return sum(
            any(same(value, other) for other in (item.accepted or {}).get(name, ()))
            for name, value in (call.arguments or {}).items()
        )

    short = min(len(calls), len(expected))
    most = max(
        sum(right(call, item) for call, item in zip(chosen, order, strict=True))
        for chosen in itertools.combinations(calls, short)
        for order in itertools.permutations(expected, short)
    )
    return Fraction(2 * most, given + wanted)


@given(CALLS, EXPECTED)
def test_argument_f1_is_the_best_of_all_assignments(
    calls: list[WrittenCall], expected: list[Expected]
) -> None:
    found = match(calls, expected)
    assert Fraction(*found.argument_f1) == best_f1(calls, expected)
    assert found.is_correct == (Fraction(*found.argument_f1) == 1)
    for score in (found.selection, found.argument_f1):
        assert 0 <= Fraction(*score) <= 1


@given(CALLS, EXPECTED, st.randoms(use_true_random=False))
def test_the_order_of_parallel_calls_changes_no_score(
    calls: list[WrittenCall], expected: list[Expected], random: Any
) -> None:
    before = match(calls, expected)
    calls, expected = calls.copy(), expected.copy()
    random.shuffle(calls)
    random.shuffle(expected)
    after = match(calls, expected)
    assert before[:7] == after[:7]


@given(CALLS, EXPECTED, st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=2))
def test_a_call_of_a_wrong_tool_never_raises_a_score(
    calls: list[WrittenCall], expected: list[Expected], arguments: dict[str, Any]
) -> None:
    before, after = (
        match(calls, expected),
        match([*calls, WrittenCall("wrong", arguments)], expected),
    )
    for name in ("selection", "argument_f1"):
        assert Fraction(*getattr(after, name)) <= Fraction(*getattr(before, name))
    assert not after.is_correct


@given(CALLS, st.randoms(use_true_random=False))
def test_the_expected_calls_themselves_score_one_in_any_order(
    calls: list[WrittenCall], random: Any
) -> None:
    expected = [
        {
            "name": call.name,
            "arguments": {name: [value] for name, value in (call.arguments or {}).items()},
        }
        for call in calls
    ]
    random.shuffle(expected)
    given_calls = [{"name": call.name, "arguments": call.arguments} for call in calls]
    assert verdict(given_calls, expected) == {
        "correct": True,
        "error": None,
        "selection": 1.0,
        "argument_f1": 1.0,
    }


@pytest.mark.parametrize("rules", ["plain", "bfcl"])
def test_parallel_calls_are_paired_by_the_best_and_not_by_the_first_that_fits(rules: str) -> None:
    tool = {"name": "f", "parameters": {"type": "dict", "properties": {"x": {"type": "integer"}}}}
    expected = [{"name": "f", "arguments": {"x": [1, 2]}}, {"name": "f", "arguments": {"x": [1]}}]
    calls = [{"name": "f", "arguments": {"x": 1}}, {"name": "f", "arguments": {"x": 2}}]
    for order in itertools.permutations(calls):
        assert verdict(list(order), expected, rules, tools=[tool])["correct"]


@given(
    st.recursive(
        VALUES,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
        ),
        max_leaves=6,
    ),
    VALUES,
)
def test_keys_are_equal_exactly_where_values_are(one: Any, other: Any) -> None:
    assert same(one, one)
    assert key(one) == key(one)
    assert (key(one) == key(other)) == same(one, other) == same(other, one)


# --- attacks


def test_a_thousand_repeated_calls_gain_nothing_and_take_no_time() -> None:
    call, expected = (
        {"name": "f", "arguments": {"x": [1, {"y": 2}]}},
        [{"name": "f", "arguments": {"x": [[1, {"y": 2}]]}}],
    )
    flooded = verdict([call] * 1000, expected)
    assert flooded == {
        "correct": False,
        "error": "wrong_count: 1000 called, 1 expected",
        "selection": 0.001,
        "argument_f1": 2 / 1001,
    }
    assert verdict([call] * 1000, expected * 1000)["correct"]
    near = [{"name": "f", "arguments": {"x": [[1, {"y": 2}], 7], "z": [1]}}]
    assert verdict([call] * 1000, near * 400)["selection"] == 0.4


def test_more_different_calls_than_can_be_paired_are_refused_and_not_guessed() -> None:
    calls = [{"name": "f", "arguments": {"x": number}} for number in range(600)]
    expected = [{"name": "f", "arguments": {"x": [-number, -1]}} for number in range(1, 601)]
    with pytest.raises(InputError) as caught:
        measure_tool_calls([line(calls, expected)])
    assert caught.value.faults[0].code == "FIL-004"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_deep_nesting_neither_breaks_nor_passes() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {}}}}
    assert verdict(
        [{"name": "f", "arguments": {"x": nested(150)}}],
        [{"name": "f", "arguments": {"x": [nested(150)]}}],
    )["correct"]
    deep = {"name": "f", "arguments": {"x": nested(30_000)}}
    wished = [{"name": "f", "arguments": {"x": [nested(30_000)]}}]
    assert not verdict([deep], wished)["correct"]
    assert not verdict([deep] * 3, wished * 3)["correct"]
    assert not verdict([deep], wished, "bfcl", tools=[tool])["correct"]
    endless = {
        "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}},
        "properties": {"x": {"$ref": "#/$defs/n"}},
    }
    for depth, valid in ((150, True), (300, False), (100_000, False)):
        assert (
            check_call(made("f", x=nested(depth)), [{"name": "f", "parameters": endless}]).valid
            is valid
        )
    deep_schema: Any = {}
    for _ in range(2000):
        deep_schema = {"not": deep_schema}
    assert check_call(made("f"), [{"name": "f", "parameters": deep_schema}]).valid is None


ODD = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "huge": 10**5000,
    "wide": Decimal("1e400"),
    "lone": "\ud800",
    "lists": [[]],
    "empty": {"": {}},
    "true": True,
}


@pytest.mark.parametrize("value", ODD.values())
def test_odd_values_are_compared_and_checked_without_a_crash(value: Any) -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}
    for rules in ("plain", "bfcl"):
        for accepted in ([value], [1], [[value]], [{"k": [value]}]):
            verdict(
                [{"name": "f", "arguments": {"x": value}}],
                [{"name": "f", "arguments": {"x": accepted}}],
                rules,
                tools=[tool],
            )
    assert check_call(made("f", x=value), [tool]).valid is isinstance(value, str)
    inner = {"items": {"properties": {"z": {"type": "null"}}}}
    assert (
        check_call(
            made("f", y=[{"z": value}]), [{"name": "f", "parameters": {"properties": {"y": inner}}}]
        ).valid
        is not True
    )


# --- validity


@pytest.mark.req("W-020")
def test_a_call_is_valid_exactly_where_its_schema_says_so() -> None:
    tools = [
        TEMPERATURE,
        {"name": "bad", "parameters": {"type": 7}},
        {"name": "far", "parameters": {"$ref": "https://example.com/x.json"}},
        {"name": "bare"},
    ]
    said = {
        True: [
            made("climate.read", city="Oslo", at=[1, 2.5], depth=1, unit=None, box={}),
            made("bare", any=1),
            made("climate.read", city="Oslo", more=1),
        ],
        False: [
            made("climate.read"),
            made("climate.read", city=1),
            made("climate.read", city="a", at=["x"]),
            made("climat.read"),
            WrittenCall("climate.read", None),
        ],
        None: [made("bad"), made("far")],
    }
    for expected, calls in said.items():
        for call in calls:
            found = check_call(call, tools)
            assert found.valid is expected, (call, found)
            assert found.reason
    assert check_call(made("climate.read", city="Oslo", more=1), tools, closed=True).valid is False
    assert check_call(made("f"), [{"name": "f"}, {"name": "f"}]).valid is None


def test_a_parameter_named_type_keeps_its_name() -> None:
    schema = {
        "type": "dict",
        "properties": {"type": {"type": "float"}},
        "enum": [{"type": "float"}],
        "items": [{"type": "tuple"}],
    }
    assert standard_schema(schema) == {
        "type": "object",
        "properties": {"type": {"type": "number"}},
        "enum": [{"type": "float"}],
        "prefixItems": [{"type": "array"}],
    }


def test_every_right_answer_of_the_leaderboard_is_a_valid_call(shared: Path) -> None:
    checked = 0
    for category in CATEGORIES:
        lines = leaderboard_lines(shared / "data" / "bfcl", MODELS[0], category)
        items = measure_tool_calls(lines, "bfcl")["items"]
        for line in lines:
            if items[line["id"]]["correct"]:
                for call in line["calls"]:
                    found = check_call(
                        WrittenCall(
                            bfcl.called_name(call["name"], line["tools"]), call["arguments"]
                        ),
                        line["tools"],
                    )
                    checked += 1
                    assert found.valid is not None, found
                    # the leaderboard lets an answer be of another type than the schema where its
                    # list of answers is
                    assert (
                        found.valid
                        or "is not of type" in found.reason
                        or "is not one of" in found.reason
                    ), (line["id"], found)
    assert checked > 600


# --- paths and forbidden tools


@pytest.mark.parametrize(
    ("calls", "expected", "holds"),
    [
        ("ab", "ab", {"strict", "unordered", "subset", "superset"}),
        ("ba", "ab", {"unordered", "subset", "superset"}),
        ("a", "ab", {"subset"}),
        ("abb", "ab", {"superset"}),
        ("aa", "ab", set()),
        ("", "", {"strict", "unordered", "subset", "superset"}),
        ("", "a", {"subset"}),
        ("aab", "aba", {"unordered", "subset", "superset"}),
    ],
)
def test_a_path_matches_in_the_modes_it_should(calls: str, expected: str, holds: set[str]) -> None:
    path, wished = [made(name, x=1) for name in calls], [wish(name, x=[1, 2]) for name in expected]
    modes = ("strict", "unordered", "subset", "superset")
    for over in ("names", "arguments"):
        assert {
            mode for mode in modes if trajectory_match(path, wished, mode=mode, over=over)
        } == holds
    assert not calls or not any(
        trajectory_match(
            path, [wish(name, x=[3]) for name in expected], mode=mode, over="arguments"
        )
        for mode in modes
    )


def test_a_path_over_arguments_finds_the_pairing_that_fits() -> None:
    wished = [wish("f", x=[1, 2]), wish("f", x=[1])]
    assert trajectory_match(
        [made("f", x=1), made("f", x=2)], wished, mode="unordered", over="arguments"
    )
    assert not trajectory_match(
        [made("f", x=2), made("f", x=2)], wished, mode="unordered", over="arguments"
    )


# --- handoffs

AGENTS = st.sampled_from("abcd")
EDGES = st.lists(st.tuples(AGENTS, AGENTS), max_size=8)


@given(EDGES, EDGES)
def test_handoff_accuracy_is_bounded_and_one_only_for_the_same_handoffs(
    made_: list[tuple[str, str]], due: list[tuple[str, str]]
) -> None:
    found = Fraction(*handoff_accuracy(made_, due))
    assert 0 <= found <= 1
    assert (found == 1) == (sorted(made_) == sorted(due))


# --- measures of a run


def taken(name: str, params: dict[str, Any] | None = None, **changes: Any) -> Any:
    measure = MEASURES[name]
    raw = measure.take(
        msgspec.convert(run("tool-use", **changes), Run), {**measure.params, **(params or {})}
    )
    if not isinstance(raw, Undetermined):
        assert 0 <= normalise(raw, measure.formula, {}) <= 10**9
    return raw


DUE = {
    "tool_calls": [
        {"name": "search", "arguments": {"q": "x"}},
        {"name": "open", "acceptable": {"page": [1, 2]}},
    ]
}
CALLED = [{"name": "open", "arguments": {"page": 2}}, {"name": "search", "arguments": {"q": "x"}}]


@pytest.mark.req("W-061")
def test_a_run_with_the_expected_calls_scores_one_on_tools_and_arguments() -> None:
    assert taken("tool_selection_accuracy", tool_calls=CALLED, expected=DUE) == 1
    assert taken("argument_correctness", tool_calls=CALLED, expected=DUE) == 1
    wrong = [
        {"name": "open", "arguments": {"page": 3}},
        {"name": "search", "arguments": '{"q": "x"}'},
        {"name": "search", "arguments": {"q": "y"}},
    ]
    assert taken("tool_selection_accuracy", tool_calls=wrong, expected=DUE) == 0.666666667
    assert taken("argument_correctness", tool_calls=wrong, expected=DUE) == 0.4
    assert taken("tool_selection_accuracy", tool_calls=[], expected={"tool_calls": []}) == 1


def test_an_acceptable_list_adds_to_the_plain_value() -> None:
    due = {"tool_calls": [{"name": "f", "arguments": {"x": 1}, "acceptable": {"x": [2]}}]}
    assert [
        taken(
            "argument_correctness", tool_calls=[{"name": "f", "arguments": {"x": x}}], expected=due
        )
        for x in (1, 2, 3)
    ] == [1, 1, 0]


@pytest.mark.req("W-061")
def test_handoff_accuracy_reads_the_expected_agent_of_each_handoff_or_the_expected_list() -> None:
    went = [{"from": "a", "to": "b", "expected": "b"}, {"from": "b", "to": "c", "expected": "d"}]
    assert taken("handoff_accuracy", handoffs=went, expected={}) == 0.5
    assert (
        taken(
            "handoff_accuracy",
            handoffs=went,
            expected={"handoffs": [{"from": "a", "to": "b"}, ["b", "c"], ["c", "d"]]},
        )
        == 0.666666667
    )
    assert taken("handoff_accuracy", handoffs=[], expected={"handoffs": []}) == 1
    for changes in (
        {"handoffs": None},
        {"handoffs": [], "expected": {}},
        {"handoffs": [*went, {"from": "c", "to": "d"}], "expected": {}},
        {"handoffs": went, "expected": {"handoffs": ["b"]}},
    ):
        assert isinstance(taken("handoff_accuracy", **changes), Undetermined), changes


def test_validity_is_computed_from_the_tools_and_a_reported_verdict_can_only_worsen_it() -> None:
    tools = {"tools": [{"name": "f", "parameters": {"type": "object", "required": ["x"]}}]}
    calls = [
        {"name": "f", "arguments": {"x": 1}},
        {"name": "f", "arguments": {}, "valid": True},
        {"name": "f", "arguments": {"x": 1}, "valid": False},
    ]
    assert taken("tool_call_validity", tool_calls=calls, expected=tools) == {
        "passed": 1,
        "total": 3,
    }
    assert taken(
        "tool_call_validity",
        tool_calls=[{"name": "f", "valid": True}, {"name": "f", "valid": False}],
    ) == {"passed": 1, "total": 2}
    for changes in (
        {"tool_calls": None},
        {"tool_calls": []},
        {"tool_calls": calls},
        {"tool_calls": [{"name": "f"}], "expected": tools},
        {"tool_calls": calls, "expected": {"tools": [{"name": "f", "parameters": {"type": 1}}]}},
        {"tool_calls": calls, "expected": {"tools": "f"}},
    ):
        assert isinstance(taken("tool_call_validity", **changes), Undetermined), changes


def test_a_trajectory_is_yes_or_no_by_its_mode() -> None:
    assert taken("trajectory_match", tool_calls=CALLED, expected=DUE) == 0
    assert (
        taken(
            "trajectory_match",
            {"mode": "unordered", "over": "arguments"},
            tool_calls=CALLED,
            expected=DUE,
        )
        == 1
    )
    assert isinstance(
        taken("trajectory_match", {"over": "arguments"}, tool_calls=[{"name": "f"}], expected=DUE),
        Undetermined,
    )


@pytest.mark.parametrize(
    "name", ["tool_selection_accuracy", "argument_correctness", "trajectory_match"]
)
def test_missing_evidence_of_calls_is_undetermined_and_never_zero(name: str) -> None:
    for changes in (
        {"tool_calls": None, "expected": DUE},
        {"expected": None},
        {"expected": {"tool_calls": None}},
        {"expected": {"tool_calls": [{"name": ""}]}},
        {"expected": {"tool_calls": ["f"]}},
        {"expected": {"tool_calls": [{"name": "f", "acceptable": {"x": 1}}]}},
    ):
        found = taken(name, **changes)
        assert isinstance(found, Undetermined), changes
        assert found.reason
    assert isinstance(
        taken("argument_correctness", tool_calls=[{"name": "search"}], expected=DUE), Undetermined
    )


def test_every_measure_of_tool_use_has_a_whole_sheet() -> None:
    assert len(MEASURES) == len(TOOL_USE)
    for measure in TOOL_USE:
        sheet = measure.sheet()
        assert all(
            sheet[field]
            for field in (
                "title",
                "unit",
                "direction",
                "formula",
                "evidence",
                "absence",
                "range",
                "citation",
                "limits",
            )
        ), measure.id
