"""`assay conform`: the published vectors, cases of our own for every operation, and the rules of
comparison.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.conform import OPS, REQUIRED, differs


@pytest.fixture
def conform(assay: Any, tmp_path: Path) -> Any:
    """Run cases through the real command and give back the JSON it prints, with its exit code under
    `code`.
    """

    def run_cases(cases: Any, *options: object) -> dict[str, Any]:
        (tmp_path / "cases.json").write_text(cases if isinstance(cases, str) else json.dumps(cases))
        done = assay("conform", "cases.json", "--json", *options)
        assert "Traceback" not in done.out + done.err
        found: dict[str, Any] = (
            done.json() if done.out else {"error": json.loads(done.err)["error"]}
        )
        return {**found, "code": done.code}

    return run_cases


def case(op: str, given_: Any, expected: Any = ..., name: str = "x") -> dict[str, Any]:
    """One case; without `expected` it is only computed."""
    return {"name": name, "op": op, "input": given_} | (
        {} if expected is ... else {"expected": expected}
    )


# --- the published vectors


@pytest.mark.req(
    "W-032", "W-034", "W-036", "W-037", "W-039", "W-042", "X-55", "X-56", "X-57", "X-58"
)
def test_every_workflow_vector_is_met(shared: Path, assay: Any) -> None:
    done = assay("conform", shared / "vectors" / "workflow.json", "--json")
    found = done.json()
    assert [
        (one["name"], one["difference"]) for one in found["cases"] if one["status"] == "failed"
    ] == []
    assert done.code == 0
    assert (
        found["counts"]["passed"]
        == len(found["cases"])
        == len(json.loads((shared / "vectors" / "workflow.json").read_text()))
    )
    assert found["counts"]["unsupported"] == 0


@pytest.mark.parametrize("name", ["exam.json", "flowmcp.json"])
def test_a_file_of_another_family_is_green_or_names_the_required_operations_it_lacks(
    name: str, shared: Path, assay: Any
) -> None:
    done = assay("conform", shared / "vectors" / name, "--json")
    found = done.json()
    wanted = {one["op"] for one in json.loads((shared / "vectors" / name).read_text())}
    lacking = sorted(op for op in wanted if op in REQUIRED and op not in OPS)
    assert found["unsupported_required"] == lacking
    assert done.code == (1 if lacking or found["counts"]["failed"] else 0)
    assert all(one["actual"] is None for one in found["cases"] if one["status"] == "unsupported")
    assert {one["op"] for one in found["cases"] if one["status"] == "unsupported"} == {
        op for op in wanted if op not in OPS
    }


def test_the_required_operations_are_those_that_the_vectors_name(shared: Path) -> None:
    text = (shared / "vectors" / "README.md").read_text()
    listed = text.split("Ops that must be supported:", 1)[1].split("Other ops", 1)[0]
    assert set(listed.replace("`", "").replace(",", " ").replace(".\n", " ").split()) == REQUIRED


# --- every operation: a value and a refusal

VALUES = [
    ("normalize", {"formula_id": "likert_neg2_2", "raw": -1}, {"norm": 0.25}),
    (
        "normalize",
        {"formula_id": "lower_is_better", "raw": 12, "params": {"slo_good": 8, "slo_bad": 30}},
        {"norm": 0.818181818},
    ),
    ("normalize", {"formula_id": "ratio", "raw": {"passed": 2, "total": 3}}, {"norm": 0.666666667}),
    ("adjusted_norm", {"n": 10, "norm": 0.8}, {"adjusted_norm": 0.6}),
    ("adjusted_norm", {"n": 1, "norm": 1, "k": 1, "prior": 0}, {"adjusted_norm": 0.5}),
    ("floor.convert", {"scale": [-2, 2], "critical_floor": 0}, {"critical_floor_norm": 0.5}),
    (
        "workflow.grade",
        {
            "criteria": [
                {"name": "a", "norm": 0.59995, "weight": 2},
                {"name": "b", "norm": 0.59995, "weight": 3, "critical_floor_norm": 0.7},
            ],
            "hard_gates": {"g": None},
        },
        {
            "weighted_score": 60,
            "provisional_grade": "D",
            "grade": "F",
            "passed": False,
            "hard_gate_failures": ["g"],
            "floor_failed": ["b"],
            "reason": "hard_gate_failure",
        },
    ),
    *(
        (
            "workflow.grade",
            {
                "criteria": [{"name": "a", "norm": norm, "weight": 1}],
                "pass_threshold": threshold,
            },
            {"grade": letter, "passed": passed},
        )
        for norm, threshold, letter, passed in (
            (0.65, 60, "D", True),
            (0.65, 65.01, "D", False),
            (0.85, 85.01, "B", False),
            (0.59, 0, "F", False),
        )
    ),
    (
        "profile",
        {"profile": "B"},
        {
            "weights": {
                "correctness": 0.35,
                "completeness": 0.25,
                "tool_data_precision": 0.2,
                "documentation": 0.1,
                "efficiency": 0.1,
            },
            "sum": 1,
        },
    ),
    (
        "profile.score",
        {
            "profile": "A",
            "norms": {
                "objective_tests": 1,
                "judge_quality": 0.5,
                "patch_similarity": 0,
                "efficiency": 1,
            },
        },
        {"weighted_score": 77.5},
    ),
    (
        "swe.gates",
        {"f2p": [2, 3], "p2p": [19, 20]},
        {
            "fail_to_pass": 0.666666667,
            "pass_to_pass": 0.95,
            "gates": {
                "tests_fail_to_pass_all_green": False,
                "tests_pass_to_pass_threshold_met": True,
            },
        },
    ),
    ("judge.rate", {"rate": 0.10000000001}, {"warn": True}),
    ("judge.rate", {"rate": 0.1}, {"warn": False}),
    ("tiebreak.near", {"a": 84, "b": 85}, {"near_equal": False}),
    ("tiebreak.near", {"a": 84.000000000001, "b": 85}, {"near_equal": True}),
]

REFUSED = [
    (
        "normalize",
        [
            {},
            {"formula_id": "likert_1_5"},
            {"formula_id": "likert_1_5", "raw": 0.5},
            {"formula_id": "likert_1_5", "raw": "3"},
            {"formula_id": "nope", "raw": 1},
            {"formula_id": "binary", "raw": True},
            {"formula_id": "pairwise", "raw": {"wins": 0, "losses": 0, "ties": 0}},
            {"formula_id": "ratio", "raw": {"passed": 1, "total": 0}},
            {"formula_id": "ratio", "raw": {"passed": 4, "total": 3}},
            {"formula_id": "lower_is_better", "raw": 1, "params": {"slo_good": 3, "slo_bad": 3}},
            {"formula_id": "lower_is_better", "raw": 1},
            {"formula_id": "zero_one", "raw": 1, "params": [1]},
            {"formula_id": ["zero_one"], "raw": 1},
            {"formula_id": "zero_one", "raw": None},
        ],
    ),
    (
        "adjusted_norm",
        [
            {},
            {"n": -1, "norm": 1},
            {"n": 1.5, "norm": 1},
            {"n": 1, "norm": 1.1},
            {"n": 0, "norm": 1, "k": 0},
            {"n": 1, "norm": 1, "k": -20},
            {"n": 1, "norm": 1, "prior": 2},
            {"n": "1", "norm": 1},
            {"n": True, "norm": 1},
        ],
    ),
    (
        "floor.convert",
        [
            {},
            {"scale": [1, 5]},
            {"scale": [1, 5], "critical_floor": 6},
            {"scale": [1, 5], "critical_floor": 0},
            {"scale": [5, 5], "critical_floor": 5},
            {"scale": [5], "critical_floor": 5},
            {"scale": "1..5", "critical_floor": 3},
            {"scale": ["1", "5"], "critical_floor": 3},
            {"scale": [1, 5], "critical_floor": "3"},
        ],
    ),
    (
        "workflow.grade",
        [
            {},
            {"criteria": []},
            {"criteria": [{"name": "a", "norm": 2, "weight": 1}]},
            {"criteria": [{"name": "a", "norm": 1}]},
            {"criteria": [{"norm": 1, "weight": 1}]},
            {"criteria": [{"name": "a", "norm": 1, "weight": 0}]},
            {"criteria": [{"name": "a", "norm": 1, "weight": -1}]},
            {"criteria": ["a"]},
            {"criteria": [{"name": "a", "norm": None, "weight": 1}]},
            {"criteria": [{"name": "a", "norm": 1, "weight": 1}], "hard_gates": {"g": 1}},
            {"criteria": [{"name": "a", "norm": 1, "weight": 1}], "hard_gates": []},
            {"criteria": [{"name": "a", "norm": 1, "weight": 1}], "pass_threshold": "70"},
            {"criteria": [{"name": "a", "norm": 1, "weight": 1}], "pass_threshold": 101},
            {"criteria": [{"name": "a", "norm": 1, "weight": 1, "critical_floor_norm": 2}]},
            {
                "criteria": [
                    {"name": "a", "norm": 1, "weight": 1},
                    {"name": "a", "norm": 1, "weight": 1},
                ]
            },
        ],
    ),
    (
        "profile",
        [
            {},
            {"profile": "Z"},
            {"profile": 3},
            {"profile": ""},
            {"profile": "no-such-profile"},
            {"profile": ["A"]},
        ],
    ),
    (
        "profile.score",
        [
            {},
            {"profile": "A"},
            {"profile": "A", "norms": {"objective_tests": 1}},
            {"profile": "A", "norms": []},
            {
                "profile": "A",
                "norms": {
                    "objective_tests": 1,
                    "judge_quality": 2,
                    "patch_similarity": 0,
                    "efficiency": 1,
                },
            },
        ],
    ),
    (
        "swe.gates",
        [
            {},
            {"f2p": [1, 1]},
            {"f2p": [1, 1], "p2p": [0, 0]},
            {"f2p": [0, 0], "p2p": [1, 1]},
            {"f2p": [2, 1], "p2p": [1, 1]},
            {"f2p": [1], "p2p": [1, 1]},
            {"f2p": [-1, 1], "p2p": [1, 1]},
            {"f2p": ["1", 1], "p2p": [1, 1]},
            {"f2p": [0.5, 1], "p2p": [1, 1]},
            {"f2p": [True, 1], "p2p": [1, 1]},
        ],
    ),
    (
        "judge.rate",
        [{}, {"rate": -0.1}, {"rate": 1.1}, {"rate": "0.2"}, {"rate": None}, {"rate": True}],
    ),
    ("tiebreak.near", [{}, {"a": 1}, {"a": "1", "b": 1}, {"a": None, "b": 1}, {"a": True, "b": 1}]),
]


def test_each_supported_operation_has_a_value_and_a_refusal_here() -> None:
    mine = {
        "normalize",
        "adjusted_norm",
        "floor.convert",
        "workflow.grade",
        "profile",
        "profile.score",
        "swe.gates",
        "judge.rate",
        "tiebreak.near",
    }
    assert {op for op, _, _ in VALUES} == {op for op, _ in REFUSED} == mine
    assert mine <= set(OPS) <= REQUIRED | set(OPS)


@pytest.mark.req("W-031", "W-033", "W-035", "W-036", "W-037", "W-044", "W-087", "X-55")
def test_each_operation_gives_what_its_rule_says(conform: Any) -> None:
    found = conform(
        [
            case(op, given_, wanted, f"case {index}")
            for index, (op, given_, wanted) in enumerate(VALUES)
        ]
    )
    assert [
        (one["op"], one.get("difference")) for one in found["cases"] if one["status"] != "passed"
    ] == []
    assert (found["code"], found["counts"]["passed"]) == (0, len(VALUES))


@pytest.mark.req("X-56", "X-57", "X-58")
def test_each_operation_refuses_what_it_cannot_take_with_a_code_and_no_value(conform: Any) -> None:
    cases = [
        case(op, given_, {"error": True}, f"case {index}")
        for op, inputs in REFUSED
        for index, given_ in enumerate(inputs)
    ]
    cases += [
        case(op, given_, {"error": True}, f"not an object {index}")
        for op, _ in REFUSED
        for index, given_ in enumerate(([], None, "x", 3))
    ]
    found = conform(cases)
    assert [
        (one["op"], one["name"], one["actual"])
        for one in found["cases"]
        if one["status"] != "passed"
    ] == []
    assert found["code"] == 0
    for one in found["cases"]:
        assert one["actual"]["error"]
        assert "fault" not in one["actual"], one


def test_a_case_without_an_input_is_refused_and_not_a_fault(conform: Any) -> None:
    found = conform([{"name": "x", "op": op} for op in OPS])
    assert found["counts"]["computed"] == len(OPS)
    assert not any((one["actual"] or {}).get("fault") for one in found["cases"])


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=4),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = sorted({key for _, given_, _ in VALUES for key in given_})


@given(
    st.sampled_from(sorted(OPS)), st.dictionaries(st.sampled_from(KEYS), json_values, max_size=5)
)
def test_no_input_makes_an_operation_fail_by_a_fault_of_ours(
    op: str, given_: dict[str, Any]
) -> None:
    from assay.cli.conform import run_case

    found = run_case({"name": "x", "op": op, "input": given_})
    assert found["status"] == "computed"
    assert isinstance(found["actual"], dict)
    assert not found["actual"].get("fault"), found["actual"]


# --- the file


def test_a_case_without_expected_is_only_computed(conform: Any) -> None:
    found = conform(
        [case("judge.rate", {"rate": 0.5}), case("judge.rate", {"rate": "x"}, name="refused")]
    )
    assert (found["code"], found["counts"]) == (
        0,
        {"passed": 0, "failed": 0, "unsupported": 0, "computed": 2},
    )
    assert found["cases"][0]["actual"] == {"warn": True}
    assert found["cases"][1]["actual"]["error"] == "SCO-003"


def test_a_mismatch_is_exit_1_and_says_where(conform: Any, assay: Any) -> None:
    cases = [
        case("judge.rate", {"rate": 0.5}, {"warn": False}),
        case("normalize", {"formula_id": "binary", "raw": 1}, {"norm": 0}, "y"),
        case("judge.rate", {"rate": 0}, {"warn": False}, "z"),
    ]
    found = conform(cases)
    assert (found["code"], found["counts"]["failed"], found["counts"]["passed"]) == (1, 2, 1)
    assert [one["difference"] for one in found["cases"][:2]] == [
        "warn: expected False, got True",
        "norm: expected 0, got 1.0",
    ]
    assert found["cases"][0]["expected"] == {"warn": False}
    text = assay("conform", "cases.json")
    assert text.code == 1
    assert "FAILED  judge.rate: x" in text.out
    assert "warn: expected False, got True" in text.out


def test_an_unsupported_operation_is_exit_1_only_where_it_is_required(conform: Any) -> None:
    lacking = sorted(REQUIRED - set(OPS))
    optional = conform([case("quirk.of.someone", {"a": 1}, {"b": 2})])
    assert (
        optional["code"],
        optional["unsupported_required"],
        optional["counts"]["unsupported"],
    ) == (0, [], 1)
    assert optional["cases"] == [
        {"name": "x", "op": "quirk.of.someone", "status": "unsupported", "actual": None}
    ]
    if lacking:
        needed = conform([case(lacking[0], {}, {"b": 2})])
        assert (needed["code"], needed["unsupported_required"]) == (1, [lacking[0]])


def test_the_actual_file_lists_name_op_and_actual_of_every_case(
    conform: Any, tmp_path: Path
) -> None:
    conform(
        [
            case("judge.rate", {"rate": 0.5}, {"warn": False}),
            case("quirk", {}, name="q"),
            case("normalize", {"formula_id": "ratio", "raw": {"passed": 1, "total": 3}}, name="n"),
        ],
        "--actual",
        "out.json",
    )
    written = json.loads((tmp_path / "out.json").read_text())
    assert written == [
        {"name": "x", "op": "judge.rate", "actual": {"warn": True}},
        {"name": "q", "op": "quirk", "actual": None},
        {"name": "n", "op": "normalize", "actual": {"norm": 0.333333333}},
    ]


@pytest.mark.parametrize(
    ("content", "code", "word"),
    [
        ([case("judge.rate", {}), case("judge.rate", {})], 3, "CNF-001"),
        ({"name": "x"}, 3, "CNF-001"),
        ([3], 3, "CNF-001"),
        ([{"op": "normalize"}], 3, "CNF-001"),
        ([{"name": "x"}], 3, "CNF-001"),
        ([{"name": 3, "op": "normalize"}], 3, "CNF-001"),
        ([], 4, "CNF-001"),
        ("", 3, "FIL-005"),
        ("[", 3, "FIL-002"),
        ('[{"name": "x", "op": "normalize", "op": "profile"}]', 3, "FIL-003"),
    ],
)
def test_a_file_that_is_no_list_of_distinct_cases_is_refused(
    conform: Any, content: Any, code: int, word: str
) -> None:
    found = conform(content)
    assert (found["code"], found["error"]["code"]) == (code, word)


def test_the_same_name_under_two_operations_is_no_duplicate(conform: Any) -> None:
    assert (
        conform([case("judge.rate", {"rate": 0}), case("tiebreak.near", {"a": 1, "b": 1})])["code"]
        == 0
    )


def test_a_missing_file_is_malformed_input(assay: Any) -> None:
    done = assay("conform", "nowhere.json")
    assert done.code == 3
    assert "Traceback" not in done.err


@pytest.mark.parametrize("number", ["1e305", "-1e305", "1" * 300, "0." + "1" * 400, "1e-310"])
def test_a_number_beyond_all_measure_is_a_refusal_or_a_mismatch_and_never_a_fault(
    conform: Any, number: str
) -> None:
    found = conform(
        f'[{{"name": "in", "op": "judge.rate", "input": {{"rate": {number}}}, "expected":'
        ' {"error": true}}, {"name": "out", "op": "judge.rate", "input": {"rate": 0},'
        f' "expected": {{"warn": {number}}}}}]'
    )
    assert found["code"] == 1
    assert [one["status"] for one in found["cases"]] == ["passed", "failed"]


# --- comparing


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1, 1.0, True),
        (1, Decimal(1), True),
        (Decimal("0.1"), 0.1, True),
        (0.5, 0.5 + 1e-10, True),
        (0.5, 0.5 + 9e-10, True),
        (0.5, 0.5 + 2e-9, False),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        (0, False, False),
        (True, True, True),
        (True, False, False),
        (None, None, True),
        (None, 0, False),
        (None, False, False),
        (None, "", False),
        ("", None, False),
        (0, None, False),
        ({"a": None}, {}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"a": 0}, False),
        ({"a": 1}, {}, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": {"b": 1}}, {"a": None}, False),
        ({}, {"a": 1}, True),
        ({}, None, False),
        ([1, 2], [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([1, 2], [1], False),
        ([], [], True),
        ([], None, False),
        ([{"a": 1}], [{"a": 1, "b": 2}], True),
        ([None], [None], True),
        ([True], [1], False),
        ("a", "a", True),
        ("a", "A", False),
        ("1", 1, False),
        (1, "1", False),
        ([1], {"0": 1}, False),
        ({"a": 1}, [1], False),
        ({"error": True}, {"error": "SCO-001"}, True),
        ({"error": True}, {"error": True}, True),
        ({"error": True}, {"error": ""}, False),
        ({"error": True}, {"norm": 1}, False),
        ({"error": True}, {"error": None}, False),
        ({"warning": True}, {"warning": "stale"}, True),
        ({"error": "SCO-001"}, {"error": "SCO-002"}, False),
        ({"error": "SCO-001"}, {"error": "SCO-001"}, True),
        ({"error": None}, {"norm": 1}, True),
        ({"error": None}, {"error": "SCO-001"}, False),
        ({"passed": True}, {"passed": "yes"}, False),
    ],
)
def test_values_are_compared_by_the_published_rules(expected: Any, actual: Any, same: bool) -> None:
    assert (differs(expected, actual) is None) is same


def test_a_difference_names_its_place() -> None:
    assert (
        differs({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]})
        == "a[1].b: expected 2, got 3"
    )


@given(json_values)
def test_a_value_never_differs_from_itself_and_always_from_what_lacks_a_part(value: Any) -> None:
    assert differs(value, value) is None
    assert differs([value, 1], [value]) is not None
    assert differs({"a": value, "b": 1}, {"a": value}) is not None
