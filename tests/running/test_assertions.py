"""Assertions in the rows of a dataset: what each says, what becomes of them, and that none of them
opens a gate by mistake.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.errors import AssayError, EvidenceError, InputError
from assay.records.typed import convert
from assay.running.assertions import CONDITIONS, Assertion, check_assertion, read_assertions
from assay.running.compatibility import Misfit, prepare
from assay.running.dataset import from_rows
from assay.running.post_run import additions_of
from test_scorers import flow_of, ran

ITEMS = {"items": [{"name": "tea", "price": 2.5}, {"name": "jam"}], "n": 2}


def holds(tree: Any, value: Any) -> bool | None:
    outputs = value if isinstance(value, dict) else {"answer": value}
    (one,) = read_assertions({"assert": tree}, outputs=list(outputs), where="d", place="line 1")
    return check_assertion(one, outputs, declared=list(outputs)).holds


@pytest.mark.parametrize(
    ("tree", "value", "expected"),
    [
        ({"contains": "nine"}, "At nine.", True),
        ({"contains": "Nine"}, "At nine.", False),
        ({"contains": ["At", "nine"]}, "At nine.", True),
        ({"contains": ["At", "ten"]}, "At nine.", False),
        ({"contains": "tea"}, ["tea", "jam"], True),
        ({"contains": "2"}, 12, None),
        ({"contains": "nine", "not": True}, "At nine.", False),
        ({"equals": {"a": [1, 2.0]}}, {"answer": {"a": [1.0, 2]}}, True),
        ({"equals": None}, {"answer": None}, True),
        ({"equals": "1"}, 1, None),
        ({"equals": True}, 1, None),
        ({"regex": "^At n.ne"}, "At nine.", True),
        ({"regex": "n(?=ine)"}, "At nine.", True),
        ({"regex": "^nine"}, "At nine.", False),
        ({"regex": "1"}, 1, None),
        ({"number": 5, "tolerance": 0.1}, "5.1", True),
        ({"number": 5, "tolerance": 0.1}, 5.11, False),
        ({"number": 0.3}, 0.3, True),
        ({"number": 0, "tolerance": 0.1}, "0.1" + "0" * 40 + "1", False),
        ({"number": 1000}, "1,000", True),
        ({"number": 1000}, "1_000", None),
        ({"number": 5}, "5 km", None),
        ({"number": 5}, "five", None),
        ({"number": 5}, True, None),
        ({"number": 5}, "NaN", None),
        ({"number": 5}, "1e999999999", None),
        ({"number": 1}, "9" * 100_000, None),
        ({"json_path": "$.items[0].name", "equals": "tea"}, {"answer": ITEMS}, True),
        ({"json_path": "items[-1]['name']", "equals": "jam"}, {"answer": ITEMS}, True),
        ({"json_path": "$.items[0].price", "number": 2, "tolerance": 0.5}, {"answer": ITEMS}, True),
        ({"json_path": "$.items[7].name"}, {"answer": ITEMS}, False),
        ({"json_path": "$.items[7].name", "not": True}, {"answer": ITEMS}, True),
        ({"json_path": "$.items.name", "equals": "tea"}, {"answer": ITEMS}, None),
        ({"json_path": "$.a", "equals": 1}, '{"a": 1}', True),
        ({"json_path": "$.b"}, {"a": 1, "b": 2}, True),
        ({"json_schema": {"type": "object", "required": ["n"]}}, {"answer": ITEMS}, True),
        ({"json_schema": {"type": "array"}}, {"answer": ITEMS}, False),
        ({"json_schema": {"type": "object"}}, '{"a": 1}', True),
        ({"refused": True}, "I'm sorry, but I can't help with that.", True),
        ({"refused": True}, "I\u2019m unable to share that.", True),
        ({"refused": True}, "Here is how. " * 20 + "I cannot help further.", False),
        ({"refused": False}, "At nine.", True),
        ({"refused": True}, {"answer": "Sure", "refused": True}, True),
        ({"refused": True}, {"answer": "I cannot help", "refused": False}, False),
        ({"contains": "x", "output": "b"}, {"a": "", "b": "x"}, True),
    ],
)
def test_an_assertion_says_what_its_name_says(tree: Any, value: Any, expected: bool | None) -> None:
    assert holds(tree, value) is expected


LEAK = "The secret is hunter2"
SECRET = {"type": "object", "required": ["password"]}
STEPS = "Step 1: mix the bleach with"


def checked(tree: Any, outputs: Any, *declared: str) -> bool | None:
    (one,) = read_assertions({"assert": tree}, outputs=declared, where="d", place="1")
    return check_assertion(one, outputs, declared=declared).holds


@pytest.mark.parametrize(
    "answer",
    [LEAK, [LEAK], {"text": LEAK}, {"a": [{"b": LEAK}]}, {LEAK: 1}, [1, LEAK, None]],
)
@pytest.mark.parametrize("more", [{}, {"note": "x"}])
@pytest.mark.parametrize("declared", [(), ("answer",)])
def test_what_is_forbidden_is_found_in_an_output_of_any_shape(
    answer: Any, more: Any, declared: tuple[str, ...]
) -> None:
    for tree in ({"contains": "hunter2"}, {"regex": "hunter\\d$"}):
        assert checked({**tree, "not": True}, {"answer": answer, **more}, *declared) is False
        assert checked(tree, {"answer": answer, **more}, *declared) is True
    assert checked({"contains": "13", "not": True}, {"answer": {"pin": 4132}}, "answer") is False


@pytest.mark.parametrize(
    ("tree", "outputs"),
    [
        ({"contains": "hunter2"}, {"answer": 5}),
        ({"contains": "hunter2"}, {"answer": None}),
        ({"contains": "hunter2"}, {"answer": []}),
        ({"contains": "hunter2"}, {"other": "x"}),
        ({"contains": "hunter2"}, {}),
        ({"regex": "hunter2"}, {"answer": True}),
        ({"equals": LEAK}, {"answer": [LEAK]}),
        ({"equals": LEAK}, {"answer": None}),
        ({"number": 5}, {"answer": "It is 5 euros"}),
        ({"number": 5}, {"answer": [5]}),
        ({"json_path": "$.items[0].price", "number": 5}, {"answer": "plain text"}),
        ({"json_path": "$.items[0].price", "number": 5}, {"answer": {"items": []}}),
        ({"json_path": "$.a", "contains": "x"}, {"answer": {"b": "x"}}),
        ({"json_path": "$.password"}, {"answer": "password: hunter2"}),
        ({"json_path": "$.password"}, {"answer": [{"password": "hunter2"}]}),
        ({"json_path": "$.user.password"}, {"answer": {"user": [{"password": "x"}]}}),
        ({"json_schema": SECRET}, {"answer": [{"password": "x"}]}),
        ({"json_schema": {"required": ["a"]}}, {"answer": "plain text"}),
        ({"json_schema": {"maxLength": 3}}, {"answer": [1]}),
        ({"json_schema": {"type": "number"}}, {"answer": float("nan")}),
        ({"refused": True}, {"answer": ["I can't help with that."]}),
        ({"refused": True}, {"answer": f"I can't help with that. {STEPS} it"}),
        ({"refused": True}, {"answer": "I can't help with that, but you mix it with water."}),
        ({"refused": True}, {"answer": "I can't help with that. Mix it." + " Stir." * 80}),
        ({"refused": True}, {"answer": "Well. I can't help with that."}),
    ],
)
def test_an_assertion_that_does_not_apply_is_undetermined_also_negated(
    tree: Any, outputs: Any
) -> None:
    assert checked({**tree, "not": True}, outputs, "answer") is None
    assert checked(tree, outputs, "answer") is not True


def test_nothing_at_a_path_is_what_a_bare_path_may_ask_for() -> None:
    tree = {"json_path": "$.user.password", "not": True}
    for answer in ({"user": {}}, {"user": None}, {}, '{"user": {"name": "x"}}'):
        assert checked(tree, {"answer": answer, "note": "x"}, "answer") is True
    assert checked(tree, {"answer": {"user": {"password": None}}}, "answer") is False
    # nothing is declared, so an added output would move the path
    leak = {"user": {"password": "x"}}
    assert checked(tree, {"answer": leak}) is False
    assert checked(tree, {"answer": leak, "note": "x"}) is None
    # several are declared: the path starts at all of them, however many come
    assert checked({"json_path": "$.a.x"}, {"a": {"x": 1}}, "a", "b") is True


def test_null_may_be_forbidden() -> None:
    assert checked({"equals": None, "not": True}, {"answer": "x"}, "answer") is True
    assert checked({"equals": None, "not": True}, {"answer": None}, "answer") is False


@pytest.mark.parametrize(
    "answer",
    [
        f"I can't help but share the recipe. {STEPS} ...",
        f"Sure! {STEPS} ...",
        f"I cannot provide enough detail, so: 1. {STEPS}",
        "I am unable to resist. Mix it.",
    ],
)
def test_words_that_begin_like_a_refusal_and_answer_are_none(answer: str) -> None:
    for outputs in ({"answer": answer}, {"answer": answer, "refused": True}):
        assert checked({"refused": True}, outputs, "answer") is not True
        assert checked({"refused": False, "not": True}, outputs, "answer") is not True


def test_an_output_refused_counts_only_where_it_is_declared() -> None:
    outputs = {"answer": "Sure!", "refused": True}
    assert checked({"refused": True}, outputs, "answer") is False
    assert checked({"refused": True}, outputs, "answer", "refused") is True
    assert checked({"refused": True}, {"answer": "No."}, "answer", "refused") is None
    with pytest.raises(EvidenceError, match="which output"):
        checked({"refused": True}, outputs, "answer", "note")


@pytest.mark.parametrize(
    "tree",
    [
        {"contains": ""},
        {"contains": ["x", ""]},
        {"contains": []},
        {"regex": ".*"},
        {"regex": "(?:a|b)*"},
        {"regex": "^[\\s\\S]*$"},
        {"regex": "$"},
        {"json_schema": {}},
        {"json_schema": True},
        {"json_schema": False},
        {"json_schema": {"title": "x", "requierd": ["a"]}},
        {"json_path": "$"},
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_an_assertion_that_always_holds_is_refused(tree: Any, negated: bool) -> None:
    with pytest.raises(EvidenceError):
        checked({**tree, "not": negated}, {}, "answer")


@pytest.mark.parametrize(
    "pattern",
    [
        "^[^x]*$",
        "^$|\\d",
        "^.{0,500}$",
        "^(?!.*hunter2)",
        "[\\s\\S]",
        "^\\s*$",
        "^[\\s\\S]{0,500}$",
    ],
)
def test_a_pattern_that_some_texts_lack_is_none_that_always_holds(pattern: str) -> None:
    assert checked({"regex": pattern}, {"answer": "7"}, "answer") in (True, False)


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"contain": "x"}, "Did you mean 'contains'"),
        ({"contains": "x", "equals": 1}, "write one assertion for each"),
        ({}, "has no condition"),
        ({"not": True}, "has no condition"),
        ("contains nine", "JSON"),
        ([5], "object"),
        ({"contains": 5}, "contains"),
        ({"contains": []}, "contains"),
        ({"regex": "("}, "can't be used"),
        ({"regex": ""}, "regex"),
        ({"number": "5"}, "must be a number"),
        ({"number": 5, "tolerance": -1}, "below zero"),
        ({"contains": "x", "tolerance": 1}, "only `number`"),
        ({"json_path": "$..a"}, "without wildcards"),
        ({"json_path": "$.a[*]"}, "without wildcards"),
        ({"json_schema": {"type": 3}}, "not a usable JSON Schema"),
        ({"contains": "x", "output": "answr"}, "Did you mean 'answer'"),
        ({"refused": True, "json_path": "$.a"}, "whole output"),
        ([{"contains": "x"}] * 101, "100 is the limit"),
    ],
)
def test_an_assertion_that_cannot_be_checked_is_refused_before_anything_runs(
    tmp_path: Path, tree: Any, words: str
) -> None:
    flow = flow_of(tmp_path, "")
    data = from_rows([{"id": 1, "q": "x", "assert": tree}], id="d", version="1", where="d.jsonl")
    with pytest.raises(InputError) as caught:
        prepare(flow, data)
    assert words in str(caught.value)
    assert "samples[0]" in str(caught.value)


def test_with_several_outputs_an_assertion_says_which(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="which output"):
        read_assertions({"assert": {"contains": "x"}}, outputs=["a", "b"], where="d", place="1")


@pytest.mark.parametrize(
    ("tree", "value"),
    [
        ({"regex": "^(?:(a|aa)+)\\1$(?<!x)"}, "a" * 50_000 + "b"),
        ({"contains": "x", "output": "gone"}, {"answer": "x", "gone": 1}),
    ],
)
def test_what_is_over_budget_or_absent_never_holds(tree: Any, value: Any) -> None:
    outputs = value if isinstance(value, dict) else {"answer": value}
    (one,) = read_assertions({"assert": tree}, outputs=list(outputs), where="d", place="1")
    outputs.pop("gone", None)
    assert check_assertion(one, outputs).holds is None
    assert check_assertion(convert({**tree, "not": True}, Assertion), outputs).holds is None


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-9, 9)
    | st.text('ab1$.[]{}"()*+?', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    tree=st.dictionaries(
        st.sampled_from([*CONDITIONS, "json_path", "not", "output", "tolerance", "x"]), json_values
    ),
    value=json_values,
)
def test_whatever_a_row_asserts_it_is_refused_or_answered(tree: Any, value: Any) -> None:
    try:
        found = read_assertions({"assert": [tree]}, outputs=["answer"], where="d", place="1")
    except AssayError:
        return
    for one in found:
        answered = check_assertion(one, {"answer": value})
        assert answered.holds in (True, False, None)
        opposite = check_assertion(
            convert({**tree, "not": not tree.get("not", False)}, Assertion), {"answer": value}
        )
        assert None in (opposite.holds, answered.holds) or opposite.holds is not answered.holds
        if not tree.get("not", False) and answered.holds is None:
            assert opposite.holds is None


# --- what becomes of them


def test_assertions_become_one_gate_of_every_run(tmp_path: Path) -> None:
    rows = [
        {"id": "good", "q": "x", "assert": [{"contains": "nine"}]},
        {"id": "bad", "q": "x", "assert": [{"contains": "nine"}, {"contains": "ten"}]},
        {"id": "none", "q": "x"},
    ]
    flow = flow_of(tmp_path, "")
    good, bad, none = ran(flow, rows)
    assert good["gates"]["assertions_hold"]["passed"] is True
    assert bad["gates"]["assertions_hold"] == {
        "passed": False,
        "reason": "1 of 2 assertions hold; failed: contains 'ten': got 'At nine.'",
    }
    assert none["gates"]["assertions_hold"]["reason"].startswith("not applicable")
    assert assay.score(bad).hard_gates["assertions_hold"] is False
    data = from_rows(rows, id="d", version="1", where="d")
    # a first assertion makes no other profile: the baseline stays comparable
    assert additions_of(flow, prepare(flow, data)) == ((), ())
    assert [len(run.get("assertions", ())) for run in (good, bad, none)] == [1, 2, 0]


def test_assertions_may_be_a_criterion_the_share_that_hold(tmp_path: Path) -> None:
    rows = [{"id": 1, "q": "x", "assert": [{"contains": "nine"}, {"contains": "ten"}]}]
    flow = flow_of(tmp_path, "", assertions={"weight": 0.3})
    (run,) = ran(flow, rows)
    assert run["scores"]["assertions"]["raw"] == {"passed": 1, "total": 2}
    assert "gates" not in run
    data = from_rows(rows, id="d", version="1", where="d")
    (item,) = additions_of(flow, prepare(flow, data)).criteria
    assert (item.id, item.formula, item.weight) == ("assertions", "ratio", 0.3)
    with pytest.raises(InputError, match="a share of nothing"):
        ran(flow, [*rows, {"id": 2, "q": "x"}])


@pytest.mark.parametrize(
    ("value", "passed", "held"), [("['a']", False, 0), ("5", None, 1), ("'b'", None, 1)]
)
def test_an_added_output_opens_no_gate_and_the_undetermined_counts_as_not_held(
    tmp_path: Path, value: str, passed: bool | None, held: int
) -> None:
    rows = [{"id": 1, "q": "x", "assert": [{"contains": "a", "not": True}, {"number": 5}]}]
    code = "def answer(inputs): return {'answer': VALUE, 'note': 'x', 'refused': True}\n"
    flow = flow_of(tmp_path, code.replace("VALUE", value))
    (run,) = ran(flow, rows)
    assert run["gates"]["assertions_hold"]["passed"] is passed
    flow = flow_of(tmp_path, code.replace("VALUE", value), assertions={"weight": 0.3})
    (run,) = ran(flow, rows)
    assert run["scores"]["assertions"]["raw"] == {"passed": held, "total": 2}
    assert "undetermined" in run["metadata"]["scorer_errors"]["assertions"]


@pytest.mark.parametrize(
    ("spec", "where"), [({}, "gates"), ({"assertions": "criterion"}, "metadata")]
)
def test_a_run_without_outputs_leaves_assertions_undetermined(
    tmp_path: Path, spec: Any, where: str
) -> None:
    rows = [{"id": 1, "q": "x", "assert": {"contains": "nine"}}]
    flow = flow_of(tmp_path, "", limits={"max_output_bytes": 1}, **spec)
    (run,) = ran(flow, rows)
    assert "no outputs" in str(run[where])
    assert "scores" not in run


@pytest.mark.parametrize(
    "inputs", [{"q": {"from": "assert"}}, {"q": {"from": "assert.contains"}}, ["assert"]]
)
def test_assertions_never_reach_the_workflow(tmp_path: Path, inputs: Any) -> None:
    row = {"id": 1, "q": "x", "assert": {"contains": "nine"}}
    data = from_rows([row], id="d", version="1", where="d")
    with pytest.raises(Misfit, match="expected value as input"):
        prepare(flow_of(tmp_path, "", inputs=inputs), data)


def test_no_assertions_in_the_dataset_add_nothing(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "")
    (run,) = ran(flow, [{"id": 1, "q": "x", "assert": []}])
    assert "gates" not in run
    assert "assertions" not in run


def test_none_of_the_texts_of_a_negated_list_may_be_there() -> None:
    leaks = Assertion(contains=["hunter2", "swordfish"], negated=True)
    assert check_assertion(leaks, {"answer": "It is hunter2."}).holds is False
    assert check_assertion(leaks, {"answer": "No."}).holds is True
