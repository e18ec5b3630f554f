"""A JSON Schema that came with evidence is evaluated within a budget, whatever it asks for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from assay.families.exams.rubric import compile_schema
from assay.families.tools.legibility import schema_fault
from assay.records import contract
from assay.records.contract import (
    MAX_WORK,
    OVER_BUDGET,
    NotPlain,
    cheap_only,
    check,
    contract_of,
    encode,
)
from assay.records.schema_weight import weight_of
from assay.sandbox import worker
from assay.scoring.metrics.call_schema import check_call
from assay.scoring.metrics.calls import WrittenCall
from examples import CAMPAIGN


def nested(levels: int, inner: Any, around: Any) -> Any:
    for _ in range(levels):
        inner = around(inner)
    return inner


def doubling(levels: int, keyword: str = "allOf", end: Any = True) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    defs: dict[str, Any] = {
        f"a{i}": {keyword: [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]}
        for i in range(levels)
    }
    defs[f"a{levels}"] = end
    return {"$ref": "#/$defs/a0", "$defs": defs}


CHILDREN = nested(40, {}, lambda inner: {"c": inner})
ENDLESS: dict[str, tuple[Any, Any]] = {
    "doubled references": (doubling(40), {}),
    "doubled references in oneOf": (doubling(40, "oneOf", end=False), {}),
    "recursion in two alternatives": (
        {
            "anyOf": [
                {"required": ["z"], "properties": {"c": {"$ref": "#"}}},
                {"required": ["y"], "properties": {"c": {"$ref": "#"}}},
            ]
        },
        CHILDREN,
    ),
    "unevaluatedProperties": (
        nested(
            40,
            {"properties": {"p": {}}},
            lambda inner: {"allOf": [inner], "unevaluatedProperties": False},
        ),
        {"p": 1},
    ),
    "enum": (
        {
            "properties": {
                "x": {"items": {"enum": [{"a": [0] * 40, "b": number} for number in range(6000)]}}
            }
        },
        {"x": [{"a": [0] * 40, "b": -1}] * 6000},
    ),
}


@pytest.mark.parametrize("name", ENDLESS if CAMPAIGN else ["doubled references"])
def test_a_schema_that_would_take_for_ever_is_undetermined_by_its_budget(
    name: str, request: pytest.FixtureRequest
) -> None:
    if not CAMPAIGN:
        request.getfixturevalue("hasty")
    verdict = check(*ENDLESS[name])
    assert verdict.passed is None
    assert OVER_BUDGET in verdict.reason


@pytest.mark.parametrize(
    "wrap",
    [
        lambda p: p,
        lambda p: {"not": p},
        lambda p: {"if": p, "then": False},
        lambda p: {"not": {"anyOf": [p, p]}},
    ],
)
@pytest.mark.parametrize("pattern", [r"^(?:(?=a)a+)+$", r"^(?:a|a|(?=x)b)*c$"])
def test_a_pattern_that_gives_up_is_undetermined_wherever_it_stands(
    pattern: str, wrap: Any
) -> None:
    verdict = check({"properties": {"text": wrap({"pattern": pattern})}}, {"text": "a" * 60 + "!"})
    assert verdict.passed is None
    assert "backtracking" in verdict.reason


def test_a_pattern_without_look_around_takes_linear_time() -> None:
    schema = {"properties": {"text": {"pattern": "^(a+)+$"}}}
    assert check(schema, {"text": "a" * 5000 + "!"}).passed is False
    assert check(schema, {"text": "a" * 5000}).passed is True


def test_a_schema_without_a_cheap_bound_is_evaluated_all_the_same() -> None:
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
    }
    assert check(tree, {"name": "a", "children": [{"name": "b"}]}).passed is True
    broken = check(tree, {"name": "a", "children": [{}]})
    assert (broken.passed, broken.reason) == (
        False,
        'the outputs break their schema: children.0: "name" is a required property',
    )
    assert check({"properties": {"a": {"pattern": "^(?=.*[0-9]).+$"}}}, {"a": "x1"}).passed is True
    assert (
        check(
            {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"a": 1}
        ).passed
        is True
    )
    assert (
        check(
            {"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"b": 1}
        ).passed
        is False
    )
    large = {"texts": ["x" * 100] * 5000}
    assert (
        check(
            {
                "properties": {
                    "texts": {"uniqueItems": False, "items": {"type": "string", "maxLength": 100}}
                }
            },
            large,
        ).passed
        is True
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/x"},
        {"$ref": "file:///etc/hostname"},
        {"$ref": "#/$defs/none"},
        {"type": 3},
        {"pattern": "("},
    ],
)
def test_what_is_no_usable_schema_is_undetermined(schema: Any) -> None:
    verdict = check(schema, {})
    assert verdict.passed is None
    assert "not a usable JSON Schema" in verdict.reason


def test_the_usual_schema_needs_no_process() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "id": {"$ref": "#/$defs/id"},
            "label": {"enum": ["a", "b"]},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["id"],
        "$defs": {"id": {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}$"}},
    }
    with cheap_only():
        assert (
            check(schema, {"id": "01234567-89ab-0123456789ab", "label": "a", "note": None}).passed
            is True
        )
        assert check(schema, {"id": "no"}).passed is False


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"unevaluatedItems": False},
        {"properties": {"a": {"$id": "x"}}},
        doubling(16),
        {"$ref": "#name"},
    ],
)
def test_a_schema_without_a_bound_has_no_weight(schema: Any) -> None:
    assert weight_of(schema) is None
    with cheap_only(), pytest.raises(NotPlain):
        contract_of(encode(schema)).check({})


def test_a_chain_of_references_is_as_deep_as_written_out() -> None:
    chain = {
        "$ref": "#/$defs/a0",
        "$defs": {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(3000)} | {"a3000": True},
    }
    assert weight_of(chain) is None
    assert check(chain, {}).passed is not False


def test_the_work_grows_with_the_value_and_with_comparisons_among_its_items() -> None:
    with cheap_only():
        assert (
            check({"properties": {"x": {"uniqueItems": True}}}, {"x": list(range(100))}).passed
            is True
        )
        with pytest.raises(NotPlain):
            check(
                {"properties": {"x": {"uniqueItems": True}}},
                {"x": ["x" * 100] * (MAX_WORK // 100_000)},
            )


SOONER = (
    "import sys; sys.path.extend(sys.argv[2:]); from importlib import import_module;"
    " asked = import_module(sys.argv[1]); asked.CPU_S = 0.1; asked.main()"
)
"""As `worker._START`, with as little computing as the system can limit: for tests of who keeps to
the budget, and not of how long it is.
"""


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    assert SOONER.replace("asked = ", "").replace("; asked.CPU_S = 0.1; asked", "") == worker._START
    monkeypatch.setattr(worker, "_START", SOONER)
    contract._processes.drop()
    yield
    contract._processes.drop()


@pytest.mark.parametrize("text", ["tools", "answer", "lint"])
@pytest.mark.usefixtures("hasty")
def test_every_schema_from_outside_has_the_budget(text: str) -> None:
    schema = {"type": "object", **doubling(40)}
    if text == "tools":
        found = check_call(WrittenCall("add", {}), [{"name": "add", "parameters": schema}])
        assert found.valid is None
        assert OVER_BUDGET in found.reason
    elif text == "answer":
        assert compile_schema(schema).check({}).valid is None
    else:
        assert schema_fault({**schema, "$ref": "http://127.0.0.1:9/x"}) is not None


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_the_process_dies_with_the_one_that_asks_in_the_middle_of_its_work() -> None:
    code = (
        "import sys, threading\nfrom assay.records import contract\nfrom test_contract import"
        " doubling\ncontract.check({'$ref': '#'},"
        " {})\nprint(contract._processes.worker._process.pid,"
        " flush=True)\ncontract.check(doubling(60), {})\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    before = _cpu(worker)
    while _cpu(worker) < before + 20:  # ticks: it computes
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(3000):
        if _cpu(worker) < 0:
            return
        time.sleep(0.01)
    raise AssertionError("the process is still there")


def _cpu(pid: int) -> int:
    """Ticks of computing; below zero when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stream:
            fields = stream.read().rsplit(")", 1)[1].split()
    except OSError:
        return -1
    return -1 if fields[0] in "ZX" else int(fields[11]) + int(fields[12])


def test_threads_do_not_wait_for_each_other_and_leave_no_process() -> None:
    found: list[Any] = []

    def work() -> None:
        found.append(check({"$ref": "#"}, {}))
        found.append(contract._processes.worker)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    workers = [one for one in found if not isinstance(one, contract.ContractVerdict)]
    assert len({one._process.pid for one in workers}) == 2
    for one in workers:
        one._process.wait()
    check({"$ref": "#"}, {})
    contract._processes.drop()
    assert not contract._started & set(workers)
