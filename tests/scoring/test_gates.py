"""The hard gates: what each looks at, what it answers and why, and that nothing buys one off."""

from __future__ import annotations

import json
import threading
from decimal import Decimal
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import assay
from assay.errors import EvidenceError, ShelfError
from assay.files.json_files import Document, parse_json
from assay.files.yaml_files import parse_yaml
from assay.library.shelf import Shelf
from assay.records.contract import check as contract_fault
from assay.scoring.gates import GATES, REQUIRED, Gate, is_absent
from assay.scoring.profile import load_profile
from assay.services.grading import Grader
from documents import FAMILIES, run, scorecard

if TYPE_CHECKING:
    from pathlib import Path

FIVE = (
    "required_outputs_present",
    "overall_status_success",
    "no_critical_step_failures",
    "schema_contract_valid",
    "dataset_workflow_compatible",
)


def said(gate: str, family: str, **changes: Any) -> tuple[bool | None, str]:
    """What a gate says of the family's good run with these changes, and why."""
    card = assay.score(run(family, **changes))
    return card.hard_gates[gate], card.gate_reasons[gate]


def graded(tree: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return Grader(Shelf(), **choice).grade(Document(tree, "test")).payload()


def assert_says(
    gate: str, family: str, changes: dict[str, Any], verdict: bool | None, culprit: str
) -> None:
    passed, reason = said(gate, family, **changes)
    assert passed is verdict, reason
    assert culprit in reason


# --- what must be there


def test_the_good_run_of_each_family_opens_every_gate() -> None:
    for family in FAMILIES:
        card = assay.score(run(family))
        assert set(card.hard_gates.values()) == {True}, (family, card.gate_reasons)


@pytest.mark.req("W-010", "W-011", "W-012", "W-013", "W-014")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_five_required_gates_stand_in_every_plan(family: str) -> None:
    assert set(REQUIRED) == set(FIVE)
    bare = {key: run(family)[key] for key in ("schema", "run_id", "workflow", "dataset", "status")}
    card = assay.score(bare)
    assert set(FIVE) <= set(card.hard_gates)
    assert {name for name in FIVE if card.hard_gates[name] is None} == set(FIVE) - {
        "overall_status_success"
    }


@pytest.mark.req("X-64")
def test_a_profile_that_names_no_gate_still_demands_the_five(tmp_path: Path) -> None:
    file = tmp_path / "bare.yaml"
    file.write_text(
        "profile: bare\nversion: 1\ntitle: Bare\nfamily: bare\ngates: []\n"
        "criteria:\n  - {id: quality, label: Quality, weight: 1, layer: 2, formula: zero_one}\n"
    )
    card = assay.score(run("rag", scores={"quality": {"raw": 1}}), profile=str(file))
    assert set(card.hard_gates) == set(FIVE)


@pytest.mark.req("X-64")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_gates_of_a_run_are_the_required_the_profiles_and_the_declared(family: str) -> None:
    declared = {"no_policy_violation": {"passed": True}, "tool_call_schema_valid": {"passed": True}}
    tree = run(family)
    tree["gates"] = {**tree.get("gates", {}), **declared}
    demanded = {ref.id for ref in Shelf().profile(family).gates}
    assert set(assay.score(tree).hard_gates) == set(FIVE) | demanded | set(declared)


# --- required outputs

ABSENT = [
    None,
    "",
    "  ",
    "\t\n",
    "\u200b\u2060 \u00a0\ufeff",
    "\u3164\u115f\u1160\uffa0\u2800",
    "\ufe0f\u034f",
    [],
    {},
    "${x}",
    "${steps.plan.output}",
    "{{ x }}",
    "  {{x}}\n",
    "{% include x %}",
    [None],
    [[], ""],
    "${a} ${b}",
    "{{a}}{{b}}",
]
PRESENT = [
    0,
    False,
    0.0,
    "0",
    "false",
    "null",
    "a {{x}} b",
    "costs $5",
    [0],
    [None, "x"],
    {"a": None},
    "${",
    "{{ x",
    "x",
]


@pytest.mark.req("W-010", "W-078")
@pytest.mark.parametrize("value", ABSENT)
def test_an_output_that_stands_for_nothing_is_absent_and_named(value: Any) -> None:
    outputs = {"answer": value, "note": "fine"}
    assert_says(
        "required_outputs_present",
        "rag",
        {"outputs": outputs, "required_outputs": ["note", "answer"]},
        False,
        "answer",
    )
    assert (
        "note"
        not in said(
            "required_outputs_present", "rag", outputs=outputs, required_outputs=["note", "answer"]
        )[1]
    )


@pytest.mark.req("W-010")
@pytest.mark.parametrize("value", PRESENT)
def test_an_output_that_says_something_is_present_also_when_it_is_zero_or_false(value: Any) -> None:
    assert_says(
        "required_outputs_present",
        "rag",
        {"outputs": {"answer": value}, "output_schema": {}},
        True,
        "present",
    )


@pytest.mark.req("W-010")
@pytest.mark.parametrize(
    ("changes", "verdict", "culprit"),
    [
        ({"outputs": {}, "required_outputs": ["patch", "notes"]}, False, "patch, notes"),
        ({"outputs": None, "required_outputs": ["patch"]}, False, "patch"),
        (
            {"outputs": {"report": {"summary": "s"}}, "required_outputs": ["report.summary"]},
            True,
            "present",
        ),
        (
            {"outputs": {"report": {"summary": ""}}, "required_outputs": ["report.summary"]},
            False,
            "report.summary",
        ),
        (
            {"outputs": {"report": "text"}, "required_outputs": ["report.summary"]},
            False,
            "report.summary",
        ),
        (
            {"outputs": {"report.summary": "s"}, "required_outputs": ["report.summary"]},
            True,
            "present",
        ),
        ({"outputs": {}, "required_outputs": []}, True, "present"),
        ({"required_outputs": None}, None, "no evidence"),
    ],
)
def test_required_outputs_are_found_by_name_or_dotted_path(
    changes: dict[str, Any], verdict: bool | None, culprit: str
) -> None:
    assert_says(
        "required_outputs_present", "rag", {"output_schema": {}, **changes}, verdict, culprit
    )


def test_a_hostile_output_is_told_apart_from_a_template_in_no_time() -> None:
    for text in (
        "{{a}}" * 50_000 + "x",
        "${" * 50_000,
        "{{" * 50_000,
        " " * 200_000 + "x",
        "{% " * 50_000,
        "${a} " * 50_000 + "{{",
    ):
        assert not is_absent(text)


# --- status and steps


@pytest.mark.req("W-011")
@pytest.mark.parametrize("status", ["success", "failed", "error", "cancelled", "timeout"])
def test_only_the_status_success_opens_the_status_gate(status: str) -> None:
    assert_says(
        "overall_status_success", "rag", {"status": status}, status == "success", f"'{status}'"
    )


@pytest.mark.req("W-011")
@pytest.mark.parametrize(
    "status", ["Success", "SUCCESS", "succes", "ok", "skipped", "", True, 1, None]
)
def test_a_status_outside_the_list_is_refused_and_never_read_as_success(status: Any) -> None:
    tree = run("rag")
    tree["status"] = status
    with pytest.raises(EvidenceError) as caught:
        assay.score(tree)
    assert caught.value.code == "SCO-011"
    assert caught.value.faults[0].path == "status"


def step(name: str, status: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "status": status, **more}


@pytest.mark.req("W-012")
@pytest.mark.parametrize(
    ("steps", "verdict", "culprit"),
    [
        ([step("plan", "success"), step("edit", "success")], True, "no critical step failed"),
        ([], True, "no critical step failed"),
        (None, None, "no evidence"),
        ([step("plan", "success"), step("edit", "failed")], False, "edit (failed)"),
        ([step("plan", "error"), step("edit", "timeout")], False, "plan (error), edit (timeout)"),
        ([step("edit", "cancelled", critical=True)], False, "edit (cancelled)"),
        (
            [step("lint", "failed", critical=False), step("edit", "success")],
            True,
            "no critical step failed",
        ),
        ([step("lint", "failed", critical=False), step("edit", "error")], False, "edit (error)"),
        ([step("edit", "skipped")], None, "skipped: edit"),
        ([step("edit", "skipped", critical=False)], True, "no critical step failed"),
        ([step("plan", "skipped"), step("edit", "failed")], False, "edit (failed)"),
    ],
)
def test_a_step_is_critical_unless_it_says_otherwise_and_a_skipped_one_is_undetermined(
    steps: Any, verdict: bool | None, culprit: str
) -> None:
    assert_says("no_critical_step_failures", "rag", {"steps": steps}, verdict, culprit)


# --- the schema contract

DRAFT = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.req("W-013")
@pytest.mark.parametrize(
    ("schema", "outputs", "verdict", "culprit"),
    [
        ({}, {"answer": 1}, True, "keep their schema"),
        (True, {"answer": 1}, True, "keep their schema"),
        (False, {"answer": 1}, False, "break their schema"),
        ({"$schema": DRAFT, "required": ["answer"]}, {"answer": 1}, True, "keep their schema"),
        ({"required": ["score"]}, {"answer": 1}, False, "score"),
        ({"properties": {"answer": {"type": "string"}}}, {"answer": 1}, False, "answer"),
        (
            {"properties": {"a": {"properties": {"b": {"items": {"type": "integer"}}}}}},
            {"a": {"b": [1, "x"]}},
            False,
            "a.b.1",
        ),
        ({"properties": {"answer": {"minItems": 2}}}, {"answer": [1]}, False, "answer"),
        (
            {"properties": {"p": {"prefixItems": [{"type": "string"}], "items": False}}},
            {"p": ["x", 1]},
            False,
            "p",
        ),
        (
            {"$defs": {"s": {"type": "string"}}, "properties": {"answer": {"$ref": "#/$defs/s"}}},
            {"answer": 1},
            False,
            "answer",
        ),
        (
            {"unevaluatedProperties": False, "properties": {"answer": True}},
            {"answer": 1, "more": 1},
            False,
            "more",
        ),
        ({"type": "nope"}, {"answer": 1}, None, "not a usable JSON Schema"),
        ({"properties": 5}, {"answer": 1}, None, "not a usable JSON Schema"),
        (
            {"properties": {"answer": {"pattern": "("}}},
            {"answer": "x"},
            None,
            "not a usable JSON Schema",
        ),
        ({"$ref": "#/$defs/none"}, {"answer": 1}, None, "not a usable JSON Schema"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, {"answer": 1}, None, "draft-07"),
        (
            {"$schema": "https://json-schema.org/draft/2019-09/schema"},
            {"answer": 1},
            None,
            "2019-09",
        ),
        ({"$schema": "https://example.org/own"}, {"answer": 1}, None, "example.org"),
        ({"$schema": None}, {"answer": 1}, None, "2020-12"),
    ],
)
def test_outputs_are_held_against_their_schema_of_2020_12(
    schema: Any, outputs: dict[str, Any], verdict: bool | None, culprit: str
) -> None:
    assert_says(
        "schema_contract_valid",
        "rag",
        {"output_schema": schema, "outputs": outputs, "required_outputs": []},
        verdict,
        culprit,
    )


@pytest.mark.req("W-013")
def test_without_a_schema_or_without_outputs_the_contract_is_undetermined() -> None:
    assert_says(
        "schema_contract_valid",
        "rag",
        {"output_schema": None},
        None,
        "no evidence: the run has no `output_schema`",
    )
    assert_says(
        "schema_contract_valid",
        "rag",
        {"outputs": None},
        None,
        "no evidence: the run has no `outputs`",
    )


@pytest.mark.parametrize(
    ("schema", "outputs", "verdict"),
    [
        ('{"properties":{"x":{"multipleOf":0.1}}}', '{"x":0.3}', True),
        ('{"properties":{"x":{"multipleOf":0.1}}}', '{"x":0.35}', False),
        ('{"properties":{"x":{"type":"integer"}}}', '{"x":3.0}', True),
        ('{"properties":{"x":{"type":"integer"}}}', '{"x":3.5}', False),
        ('{"properties":{"x":{"type":"number"}}}', '{"x":0.10}', True),
        ('{"properties":{"x":{"type":"string"}}}', '{"x":0.10}', False),
        ('{"properties":{"x":{"const":1.10}}}', '{"x":1.1}', True),
        ('{"properties":{"x":{"maximum":0.1}}}', '{"x":0.11}', False),
        ('{"properties":{"x":{"minimum":0.5,"maximum":1e3}}}', '{"x":999.99}', True),
    ],
)
def test_decimal_numbers_are_numbers_to_the_contract(
    schema: str, outputs: str, verdict: bool
) -> None:
    tree = parse_json(json.dumps(run("rag", required_outputs=[])).encode())
    tree["output_schema"], tree["outputs"] = (
        parse_json(schema.encode()),
        parse_json(outputs.encode()),
    )
    card = assay.score(tree)
    assert card.hard_gates["schema_contract_valid"] is verdict, card.gate_reasons[
        "schema_contract_valid"
    ]


@pytest.mark.parametrize("place", ["top", "inner", "dynamic", "id"])
def test_a_remote_reference_is_never_fetched(place: str) -> None:
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_port}/schema.json"
        schema: Any = {
            "top": {"$ref": base},
            "inner": {"properties": {"answer": {"$ref": base}}},
            "dynamic": {"$dynamicRef": base + "#x"},
            "id": {"$id": base, "properties": {"answer": {"$ref": "other.json"}}},
        }[place]
        passed, reason = said("schema_contract_valid", "rag", output_schema=schema)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert passed is None, reason
    assert asked == []


def test_a_reference_to_a_file_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "accepts-all.json"
    target.write_text("true")
    for reference in (target.as_uri(), str(target), "../../../../../../etc/passwd"):
        passed, reason = said("schema_contract_valid", "rag", output_schema={"$ref": reference})
        assert passed is None
        assert "not a usable JSON Schema" in reason


@pytest.mark.parametrize(
    "pattern",
    [
        "^(a+)+$",
        "^(a|aa)+$",
        "^(?=(a+)+b)(a|a)*$",
        r"^((a|aa)+)\1+b$",
        "(.*a){25}b",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        r"(?<=a)((a|aa)+)+\1$",
    ],
)
def test_a_catastrophic_pattern_ends_fast_and_opens_no_gate(pattern: str) -> None:
    passed, _ = said(
        "schema_contract_valid",
        "rag",
        outputs={"answer": "a" * 40 + "!"},
        output_schema={"properties": {"answer": {"pattern": pattern}}},
    )
    assert passed is not True


def test_a_pattern_that_gives_up_does_not_open_the_gate_by_way_of_a_not() -> None:
    schema = {"properties": {"answer": {"not": {"pattern": r"^(?=a)((a|aa)+)b?$(?<=a)\1?"}}}}
    passed, reason = said(
        "schema_contract_valid", "rag", outputs={"answer": "a" * 60 + "!"}, output_schema=schema
    )
    assert passed is not True, reason


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#", "required": ["nothing"]},
        {"allOf": [{"$ref": "#"}], "required": ["nothing"]},
        {"$dynamicRef": "#m", "$dynamicAnchor": "m", "required": ["nothing"]},
    ],
)
def test_a_schema_that_refers_to_itself_ends(schema: dict[str, Any]) -> None:
    assert said("schema_contract_valid", "rag", output_schema=schema)[0] is False


# --- the dataset fits the workflow


@pytest.mark.req("W-014", "W-093")
@pytest.mark.parametrize(
    ("changes", "verdict", "culprit"),
    [
        (
            {"inputs": {"question": "why"}, "required_inputs": ["question"]},
            True,
            "every required input",
        ),
        (
            {"inputs": {"question": "why"}, "required_inputs": ["question", "context"]},
            False,
            "missing: context",
        ),
        ({"inputs": {"question": ""}, "required_inputs": ["question"]}, False, "missing: question"),
        ({"inputs": {"q": "${question}"}, "required_inputs": ["q"]}, False, "missing: q"),
        ({"inputs": None, "required_inputs": ["b", "a"]}, False, "missing: a; missing: b"),
        (
            {"inputs": {"case": {"text": "x"}}, "required_inputs": ["case.text"]},
            True,
            "every required input",
        ),
        (
            {"inputs": {"zero": 0, "no": False}, "required_inputs": ["zero", "no"]},
            True,
            "every required input",
        ),
        ({"inputs": None, "required_inputs": []}, True, "every required input"),
        ({"required_inputs": None}, None, "no evidence"),
    ],
)
def test_a_sample_that_lacks_a_required_input_does_not_fit_the_workflow(
    changes: dict[str, Any], verdict: bool | None, culprit: str
) -> None:
    assert_says("dataset_workflow_compatible", "rag", changes, verdict, culprit)


# --- tests, patch, sandbox


def tally_of(fail: tuple[int, int] | None, keep: tuple[int, int] | None) -> dict[str, Any]:
    found = {"fail_to_pass": fail, "pass_to_pass": keep}
    return {
        name: {"passed": pair[0], "total": pair[1]}
        for name, pair in found.items()
        if pair is not None
    }


@pytest.mark.req("W-015", "W-036")
@pytest.mark.parametrize(
    ("fail", "verdict", "culprit"),
    [
        ((1, 1), True, "the only"),
        ((3, 3), True, "all 3"),
        ((2, 3), False, "1 of 3"),
        ((0, 3), False, "3 of 3"),
        ((10**20 - 1, 10**20), False, "1 of"),
        ((0, 0), None, "counts no tests"),
        (None, None, "no evidence"),
    ],
)
def test_every_fail_to_pass_test_must_pass(fail: Any, verdict: bool | None, culprit: str) -> None:
    assert_says(
        "tests_fail_to_pass_all_green",
        "code-repair",
        {"tests": tally_of(fail, (20, 20))},
        verdict,
        culprit,
    )


@pytest.mark.req("W-016", "W-036")
@pytest.mark.parametrize(
    ("keep", "verdict", "culprit"),
    [
        ((19, 20), True, "19 of 20"),
        ((95, 100), True, "95 of 100"),
        ((94, 100), False, "94 of 100"),
        ((18, 19), False, "18 of 19"),
        ((949_999_999_999, 10**12), False, "0.95"),
        ((950_000_000_000, 10**12), True, "950000000000"),
        ((20, 20), True, "20 of 20"),
        ((0, 0), None, "counts no tests"),
        (None, None, "no evidence"),
    ],
)
def test_the_pass_to_pass_threshold_is_exactly_0_95(
    keep: Any, verdict: bool | None, culprit: str
) -> None:
    assert_says(
        "tests_pass_to_pass_threshold_met",
        "code-repair",
        {"tests": tally_of((1, 1), keep)},
        verdict,
        culprit,
    )


@pytest.mark.req("W-015", "W-016")
def test_no_tests_at_all_leaves_both_test_gates_undetermined() -> None:
    card = assay.score(run("code-repair", tests=None))
    assert card.hard_gates["tests_fail_to_pass_all_green"] is None
    assert card.hard_gates["tests_pass_to_pass_threshold_met"] is None


@pytest.mark.parametrize(
    ("applies", "verdict", "culprit"),
    [
        (True, True, "applies cleanly"),
        (False, False, "does not apply"),
        (None, None, "no evidence"),
    ],
)
def test_the_patch_gate_looks_at_patch_applies(
    applies: bool | None, verdict: bool | None, culprit: str
) -> None:
    assert_says(
        "patch_applies_cleanly", "code-repair", {"patch_applies": applies}, verdict, culprit
    )


@pytest.mark.parametrize(
    ("verdict", "expected", "culprit"),
    [
        ({"passed": True, "reason": "traced all calls"}, True, "traced all calls"),
        ({"passed": False, "reason": "wrote to /etc"}, False, "wrote to /etc"),
        ({"passed": None, "reason": "the tracer crashed"}, None, "the tracer crashed"),
        ({"passed": None}, None, "no evidence"),
        (None, None, "no evidence"),
    ],
)
def test_the_sandbox_verdict_comes_only_with_the_run(
    verdict: Any, expected: bool | None, culprit: str
) -> None:
    gates = {"no_sandbox_violation": verdict} if verdict is not None else {}
    assert_says("no_sandbox_violation", "code-repair", {"gates": gates}, expected, culprit)


# --- outputs that parse


@pytest.mark.parametrize(
    ("value", "kind", "verdict"),
    [
        ('{"a": 1}', "object", True),
        ('{"a": 1', "object", False),
        ("[1]", "object", False),
        ("[1, 2]", "array", True),
        ("{}", "array", False),
        ("1.5", "number", True),
        ("true", "number", False),
        ("NaN", "number", False),
        ("3", "integer", True),
        ("true", "boolean", True),
        ("yes", "boolean", False),
        ("plain words", "string", True),
        ("plain words", ["string", "null"], True),
        ("plain words", ["object", "null"], False),
        ("{}", ["object", "array"], True),
        ({"a": 1}, "object", True),
        ("plain words", None, True),
    ],
)
def test_an_output_that_should_be_structured_and_is_text_must_parse(
    value: Any, kind: Any, verdict: bool
) -> None:
    schema = {"properties": {"answer": {} if kind is None else {"type": kind}}}
    culprit = "present and parses" if verdict else "answer"
    assert_says(
        "outputs_parseable",
        "dag-review",
        {"outputs": {"answer": value}, "output_schema": schema},
        verdict,
        culprit,
    )


@pytest.mark.parametrize(
    ("changes", "verdict", "culprit"),
    [
        ({"outputs": {}}, False, "answer"),
        ({"outputs": {"answer": "{{ x }}"}}, False, "answer"),
        ({"required_outputs": None}, None, "no evidence"),
        ({"output_schema": None}, None, "no evidence"),
        ({"output_schema": True}, None, "no evidence"),
        ({"output_schema": {"properties": {"answer": True}}}, True, "parses"),
        ({"output_schema": {"properties": []}}, True, "parses"),
        ({"output_schema": {"properties": {"answer": {"type": {"odd": 1}}}}}, True, "parses"),
    ],
)
def test_parseable_outputs_must_first_be_there_and_declared(
    changes: dict[str, Any], verdict: bool | None, culprit: str
) -> None:
    assert_says("outputs_parseable", "dag-review", changes, verdict, culprit)


# --- claims


def claim(text: str = "It rains.", **more: Any) -> dict[str, Any]:
    return {"text": text, **more}


GOOD = claim("It is so.", citations=["doc-1"], supported=True, severity="low")


@pytest.mark.parametrize(
    ("claims", "verdict", "culprit"),
    [
        ([GOOD, GOOD], True, "2 of 2"),
        ([GOOD, claim(supported=False)], False, "1 of 2 claims are not supported"),
        ([GOOD, claim()], None, "1 of 2 claims were not judged"),
        ([claim(supported=False), claim()], False, "1 of 2 claims are not supported"),
        ([GOOD, claim(supported=True)], False, "1 of 2 claims cite no retrieved passage"),
        (
            [GOOD, claim(citations=["doc-2"], supported=True)],
            False,
            "1 of 2 claims cite no retrieved passage",
        ),
        ([], None, "no evidence"),
        (None, None, "no evidence"),
    ],
)
def test_an_answer_is_grounded_only_when_every_claim_is_supported(
    claims: Any, verdict: bool | None, culprit: str
) -> None:
    assert_says("answer_grounded", "rag", {"claims": claims}, verdict, culprit)


def test_a_profile_may_ask_for_a_share_of_supported_claims(tmp_path: Path) -> None:
    text = (
        Shelf().find("profiles", "rag@1").path,
        "params: {minimum: 1}",
        "params: {minimum: 0.75}",
    )
    file = tmp_path / "lenient.yaml"
    with open(text[0]) as stream:
        file.write_text(
            stream.read().replace(text[1], text[2]).replace("profile: rag", "profile: lenient")
        )
    bad = claim(supported=False)
    for claims, verdict in (
        ([GOOD] * 3 + [bad], True),
        ([GOOD] * 2 + [bad], False),
        ([GOOD] * 2 + [claim()], None),
    ):
        card = assay.score(run("rag", claims=claims), profile=str(file))
        assert card.hard_gates["answer_grounded"] is verdict, card.gate_reasons["answer_grounded"]


@pytest.mark.req("W-017")
@pytest.mark.parametrize(
    ("claims", "verdict", "culprit"),
    [
        ([GOOD], True, "the only claim cites"),
        ([GOOD, claim("The moon is cheese.", citations=[])], False, "'The moon is cheese.'"),
        ([claim("Bare."), claim("Bare too.")], False, "2 of 2"),
        ([claim("Blank.", citations=["", "  "])], False, "'Blank.'"),
        ([claim("Second counts.", citations=["", "doc-1"])], True, "the only"),
        ([claim("Elsewhere.", citations=["doc-2"])], False, "'Elsewhere.' cites 'doc-2'"),
        ([GOOD, claim(" ", citations=["doc-1"])], False, "1 of 2"),
        ([], None, "no evidence"),
        (None, None, "no evidence"),
    ],
)
def test_every_claim_must_cite_a_source(claims: Any, verdict: bool | None, culprit: str) -> None:
    assert_says("citations_present_for_claims", "rag", {"claims": claims}, verdict, culprit)


@pytest.mark.parametrize(
    ("claims", "verdict", "culprit"),
    [
        ([GOOD], True, "no unsupported claim"),
        ([claim("Wild.", supported=False, severity="high")], False, "'Wild.'"),
        ([claim("Worse.", supported=False, severity="critical"), GOOD], False, "'Worse.'"),
        ([claim("Slight.", supported=False, severity="medium")], True, "no unsupported claim"),
        ([claim("Unrated.", supported=False)], None, "'Unrated.'"),
        ([claim("Unjudged.", severity="high")], None, "'Unjudged.'"),
        ([claim("Unknown.")], None, "'Unknown.'"),
        ([claim("Fine.", citations=["doc-1"], supported=True)], True, "no unsupported claim"),
        ([claim("Said.", supported=True)], None, "'Said.'"),
        ([claim("Said.", citations=["doc-2"], supported=True, severity="high")], None, "'Said.'"),
        ([], None, "no evidence"),
        (None, None, "no evidence"),
    ],
)
def test_an_unsupported_claim_of_high_severity_fails(
    claims: Any, verdict: bool | None, culprit: str
) -> None:
    assert_says("no_high_severity_hallucination", "rag", {"claims": claims}, verdict, culprit)


UNRETRIEVED = {
    "nothing was retrieved": [],
    "another passage": [{"id": "doc-2", "text": "It is so."}],
    "no text": [{"id": "doc-1"}],
    "blank text": [{"id": "doc-1", "text": " \u200b\n"}],
    "an id that looks the same": [{"id": "DOC-1", "text": "It is so."}],
    "two texts under one id": [
        {"id": "doc-1", "text": "It is so."},
        {"id": "doc-1", "text": "It is not so."},
    ],
    "a text and none under one id": [{"id": "doc-1", "text": "It is so."}, {"id": "doc-1"}],
    "no text and one under one id": [{"id": "doc-1"}, {"id": "doc-1", "text": "It is so."}],
}


@pytest.mark.req("W-017", "W-060")
@pytest.mark.parametrize(
    "retrieval", [pytest.param(value, id=name) for name, value in UNRETRIEVED.items()]
)
def test_a_citation_counts_only_if_it_points_to_a_passage_that_was_retrieved(
    retrieval: list[dict[str, Any]],
) -> None:
    result = graded(
        run(
            "rag",
            retrieval=retrieval,
            gates={
                gate: {"passed": True}
                for gate in ("answer_grounded", "citations_present_for_claims")
            },
        )
    )
    assert {"answer_grounded", "citations_present_for_claims"} <= set(result["hard_gate_failures"])
    assert result["passed"] is False


@pytest.mark.req("W-017", "W-060")
def test_an_empty_id_cites_nothing_even_if_a_passage_has_it() -> None:
    made = run(
        "rag",
        claims=[claim(citations=[""], supported=True)],
        retrieval=[{"id": "", "text": "It rains."}],
    )
    assert {"answer_grounded", "citations_present_for_claims"} <= set(
        graded(made)["hard_gate_failures"]
    )


def test_a_passage_retrieved_twice_can_be_cited() -> None:
    assert (
        graded(run("rag", retrieval=[{"id": "doc-1", "text": "It is so.", "relevant": True}] * 2))[
            "hard_gate_failures"
        ]
        == ()
    )


@pytest.mark.parametrize(
    "gate", ["answer_grounded", "citations_present_for_claims", "no_high_severity_hallucination"]
)
def test_without_retrieval_no_claim_can_be_checked(gate: str) -> None:
    assert_says(gate, "rag", {"retrieval": None}, None, "lists no `retrieval`")


@pytest.mark.req("W-017", "W-060")
@given(st.data())
def test_weakening_what_a_rejected_answer_declares_never_grounds_it(data: st.DataObject) -> None:
    bad = data.draw(
        st.sampled_from(
            [
                claim(citations=["doc-2"], supported=True),
                claim(citations=["doc-1"], supported=False, severity="high"),
                claim(supported=True),
            ]
        )
    )
    made = run("rag", claims=[GOOD, bad])
    for key in data.draw(st.sets(st.sampled_from(["citations", "supported", "severity", "text"]))):
        made["claims"][1] = (
            {name: value for name, value in made["claims"][1].items() if name != key}
            if key != "text"
            else {**made["claims"][1], "text": ""}
        )
    for key in data.draw(st.sets(st.sampled_from(["claims", "retrieval", "gates", "expected"]))):
        made.pop(key, None)
    assert graded(made)["passed"] is False


# --- tools and handoffs


def call(name: str = "search", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@pytest.mark.req("W-018")
@pytest.mark.parametrize(
    ("calls", "verdict", "culprit"),
    [
        ([call(valid=True), call("fetch", valid=True)], True, "all 2"),
        (
            [call(valid=True), call("fetch", valid=False)],
            False,
            "1 of 2 tool calls break their schema, first: 'fetch'",
        ),
        ([call(valid=True), call("fetch")], None, "schemas are not declared), first: 'fetch'"),
        ([call("fetch"), call("write", valid=False)], False, "'write'"),
        ([], True, "all 0"),
        (None, None, "no evidence"),
    ],
)
def test_every_tool_call_must_have_been_checked_and_be_valid(
    calls: Any, verdict: bool | None, culprit: str
) -> None:
    assert_says("tool_call_schema_valid", "tool-use", {"tool_calls": calls}, verdict, culprit)


@pytest.mark.parametrize(
    ("calls", "forbidden", "verdict", "culprit"),
    [
        ([call("search")], ["delete_all"], True, "no forbidden tool"),
        ([call("search"), call("delete_all")], ["delete_all"], False, "delete_all"),
        ([call("b"), call("a"), call("b")], ["a", "b"], False, "a, b"),
        ([], ["delete_all"], True, "no forbidden tool"),
        ([call("delete_all")], [], True, "no forbidden tool"),
        ([call("search")], None, None, "no evidence"),
        (None, ["delete_all"], None, "no evidence"),
    ],
)
def test_a_forbidden_tool_that_was_called_is_named(
    calls: Any, forbidden: Any, verdict: bool | None, culprit: str
) -> None:
    assert_says(
        "no_forbidden_tool",
        "tool-use",
        {"tool_calls": calls, "forbidden_tools": forbidden},
        verdict,
        culprit,
    )


@pytest.mark.parametrize(
    "name",
    [
        "DELETE_ALL",
        "Delete_All",
        " delete_all",
        "delete_all ",
        "ｄｅｌｅｔｅ＿ａｌｌ",
        "\U0001d41delete_all",
        "d\u0435lete_all",
        "delete\u200b_all",
        "delete_all\u200d",
        "delete\u00ad_all",
        "\u2066delete_all\u2069",
        "delete_all\u0000",
        "\ufeffdelete_all",
    ],
)
def test_a_forbidden_tool_in_disguise_does_not_open_the_gate(name: str) -> None:
    passed, reason = said(
        "no_forbidden_tool",
        "tool-use",
        tool_calls=[call(name, valid=True)],
        forbidden_tools=["delete_all"],
    )
    assert passed is not True, reason
    disguised = said(
        "no_forbidden_tool",
        "tool-use",
        tool_calls=[call("delete_all", valid=True)],
        forbidden_tools=[name],
    )
    assert disguised[0] is not True, disguised[1]


@pytest.mark.parametrize("name", ["", "  ", "\u200b\u200b\u200b"])
def test_a_call_without_a_name_may_be_of_a_forbidden_tool(name: str) -> None:
    changes = {"tool_calls": [call("search", valid=True), call(name, valid=True)]}
    passed, reason = said("no_forbidden_tool", "tool-use", **changes)
    assert passed is None, reason
    assert "empty" in reason


def test_a_tool_name_of_many_unusual_characters_is_compared_in_bounded_time() -> None:
    passed, reason = said(
        "no_forbidden_tool",
        "tool-use",
        tool_calls=[call("é" * 150 + "x", valid=True)],
        forbidden_tools=["delete_everything_that_can_be_deleted"],
    )
    assert passed is True, reason


def test_a_tool_with_a_foreign_name_of_its_own_is_not_called_forbidden() -> None:
    for name in ("búsqueda", "поиск", "検索", "delete_one", "undelete_all"):
        passed, reason = said(
            "no_forbidden_tool",
            "tool-use",
            tool_calls=[call(name, valid=True)],
            forbidden_tools=["delete_all"],
        )
        assert passed is not False, reason


@pytest.mark.parametrize(
    ("handoffs", "rules", "verdict", "culprit"),
    [
        ([("planner", "coder")], [["planner", "coder"]], True, "follows the rules"),
        ([("coder", "planner")], [["planner", "coder"]], False, "coder to planner"),
        ([("planner", "coder"), ("coder", "root")], [["planner", "coder"]], False, "coder to root"),
        ([("planner", "Coder")], [["planner", "coder"]], False, "planner to Coder"),
        ([], [["planner", "coder"]], True, "follows the rules"),
        ([("planner", "coder")], [], False, "planner to coder"),
        ([], [], True, "follows the rules"),
        ([("planner", "coder")], None, None, "no evidence"),
        (None, [["planner", "coder"]], None, "no evidence"),
    ],
)
def test_a_handoff_outside_the_rules_is_named(
    handoffs: Any, rules: Any, verdict: bool | None, culprit: str
) -> None:
    listed = None if handoffs is None else [{"from": one, "to": other} for one, other in handoffs]
    assert_says(
        "handoff_graph_respected",
        "tool-use",
        {"handoffs": listed, "handoff_rules": rules},
        verdict,
        culprit,
    )


# --- a verdict that comes with a run

STATES: dict[str, tuple[str, dict[bool | None, dict[str, Any]]]] = {
    "required_outputs_present": (
        "rag",
        {True: {}, False: {"outputs": {"answer": ""}}, None: {"required_outputs": None}},
    ),
    "overall_status_success": ("rag", {True: {}, False: {"status": "timeout"}}),
    "no_critical_step_failures": (
        "rag",
        {True: {}, False: {"steps": [step("edit", "failed")]}, None: {"steps": None}},
    ),
    "schema_contract_valid": (
        "rag",
        {True: {}, False: {"output_schema": False}, None: {"output_schema": None}},
    ),
    "dataset_workflow_compatible": (
        "rag",
        {True: {}, False: {"inputs": {}}, None: {"required_inputs": None}},
    ),
    "tests_fail_to_pass_all_green": (
        "code-repair",
        {True: {}, False: {"tests": tally_of((0, 1), (1, 1))}, None: {"tests": None}},
    ),
    "tests_pass_to_pass_threshold_met": (
        "code-repair",
        {True: {}, False: {"tests": tally_of((1, 1), (0, 1))}, None: {"tests": None}},
    ),
    "citations_present_for_claims": (
        "rag",
        {True: {}, False: {"claims": [claim()], "retrieval": []}, None: {"claims": None}},
    ),
    "tool_call_schema_valid": (
        "tool-use",
        {True: {}, False: {"tool_calls": [call(valid=False)]}, None: {"tool_calls": [call()]}},
    ),
    "patch_applies_cleanly": (
        "code-repair",
        {True: {}, False: {"patch_applies": False}, None: {"patch_applies": None}},
    ),
    "outputs_parseable": (
        "dag-review",
        {True: {}, False: {"outputs": {}}, None: {"output_schema": None}},
    ),
    "answer_grounded": (
        "rag",
        {True: {}, False: {"claims": [claim(supported=False)]}, None: {"claims": [claim()]}},
    ),
    "no_high_severity_hallucination": (
        "rag",
        {
            True: {},
            False: {"claims": [claim(supported=False, severity="high")]},
            None: {"claims": [claim()]},
        },
    ),
    "no_contradicted_claim": (
        "rag",
        {
            True: {},
            False: {"claims": [claim(text="It is so 7 times.", citations=["doc-1"])]},
            None: {"retrieval": None},
        },
    ),
    "no_forbidden_tool": (
        "tool-use",
        {True: {}, False: {"tool_calls": [call("delete_all")]}, None: {"forbidden_tools": None}},
    ),
    "handoff_graph_respected": (
        "tool-use",
        {True: {}, False: {"handoff_rules": []}, None: {"handoffs": None}},
    ),
}
"""Each computed gate with changes of its family's good run that make it pass, fail and stay
undetermined. A status is always there.
"""


def of_gate(gate: str, tree: dict[str, Any]) -> dict[str, Any]:
    """The run, to be scored by a profile that has the gate."""
    if gate == "no_contradicted_claim":
        tree["workflow"]["profile"] = "rag-measured"
    return tree


WORSENED: dict[tuple[bool | None, Any], bool | None] = {
    (True, "absent"): True,
    (True, True): True,
    (True, False): False,
    (True, None): None,
    (False, "absent"): False,
    (False, True): False,
    (False, False): False,
    (False, None): False,
    (None, "absent"): None,
    (None, True): None,
    (None, False): False,
    (None, None): None,
}
"""What the gate says, by what it computed and what verdict came with the run."""


def test_no_computed_gate_is_left_out_of_the_tables_here() -> None:
    assert set(STATES) == {name for name in GATES if GATES[name].is_computed}
    assert {name for name in GATES if not GATES[name].is_computed} == {"no_sandbox_violation"}


@pytest.mark.parametrize("gate", STATES)
@pytest.mark.parametrize("computed", [True, False, None])
@pytest.mark.parametrize("supplied", ["absent", True, False, None])
def test_a_supplied_verdict_worsens_a_computed_gate_and_never_improves_it(
    gate: str, computed: bool | None, supplied: Any
) -> None:
    family, states = STATES[gate]
    if computed not in states:
        assert (gate, computed) == ("overall_status_success", None)
        return
    tree = of_gate(gate, run(family, **states[computed]))
    alone = assay.score(tree)
    assert alone.hard_gates[gate] is computed, alone.gate_reasons[gate]
    if supplied != "absent":
        tree["gates"] = {
            **tree.get("gates", {}),
            gate: {"passed": supplied, "reason": "the harness saw it"},
        }
    card = assay.score(tree)
    expected = WORSENED[computed, supplied]
    assert card.hard_gates[gate] is expected
    if expected is computed and computed is not True:
        assert alone.gate_reasons[gate] in card.gate_reasons[gate]
    if expected is not computed:
        assert "the harness saw it" in card.gate_reasons[gate]
    others = {name: passed for name, passed in card.hard_gates.items() if name != gate}
    assert others == {name: passed for name, passed in alone.hard_gates.items() if name != gate}


def test_a_gate_that_only_the_run_knows_counts() -> None:
    for passed, status in ((True, "pass"), (False, "fail"), (None, "undetermined")):
        result = graded(
            run(
                "rag",
                gates={
                    "no_policy_violation": {"passed": passed, "reason": "the legal team read it"}
                },
            )
        )
        assert result["hard_gates"]["no_policy_violation"]["status"] == status
        assert "the legal team read it" in result["hard_gates"]["no_policy_violation"]["reason"]
        assert result["passed"] is (passed is True)
        assert result["hard_gate_failures"] == (() if passed else ("no_policy_violation",))


@pytest.mark.req("W-015", "W-016", "W-017", "W-018")
@pytest.mark.parametrize(
    "gate",
    [
        "tests_fail_to_pass_all_green",
        "tests_pass_to_pass_threshold_met",
        "citations_present_for_claims",
        "tool_call_schema_valid",
    ],
)
def test_an_optional_gate_counts_where_it_is_named_and_only_there(gate: str) -> None:
    assert GATES[gate].group == "optional"
    _, states = STATES[gate]
    bad = run("dag-review", **states[False])
    unnamed = graded(bad)
    assert gate not in unnamed["hard_gates"]
    assert unnamed["passed"] is True
    named = graded({**bad, "gates": {gate: {"passed": True}}})
    assert named["hard_gates"][gate]["status"] == "fail"
    assert named["passed"] is False
    family, _ = STATES[gate]
    good = {
        **run("dag-review"),
        **{
            key: run(family)[key]
            for key in ("tests", "claims", "retrieval", "tool_calls")
            if key in run(family)
        },
    }
    assert (
        graded({**good, "gates": {gate: {"passed": True}}})["hard_gates"][gate]["status"] == "pass"
    )


def test_a_declared_gate_near_a_known_one_is_noted() -> None:
    card = assay.score(run("rag", gates={"answer_grouned": {"passed": True}}))
    assert any("'answer_grouned'" in note and "'answer_grounded'" in note for note in card.notes)


# --- no score opens a gate


@pytest.mark.req("W-002", "W-040", "W-043", "W-045", "W-084", "W-089")
@pytest.mark.parametrize(
    ("gate", "state"),
    [(gate, state) for gate in STATES for state in (False, None) if state in STATES[gate][1]],
)
def test_no_score_opens_a_gate_that_does_not_pass(gate: str, state: bool | None) -> None:
    family, states = STATES[gate]
    result = graded(of_gate(gate, run(family, **states[state])))
    assert (result["passed"], result["grade"], result["reason"]) == (
        False,
        "F",
        "hard_gate_failure",
    )
    assert gate in result["hard_gate_failures"]
    assert result["hard_gates"][gate]["status"] == ("fail" if state is False else "undetermined")
    assert result["hard_gates"][gate]["reason"]
    shared = {"tests", "claims", "retrieval", "tool_calls", "handoffs"}
    if shared.isdisjoint(states[state]):  # those are a gate's evidence and a criterion's
        assert (result["weighted_score"], result["provisional_grade"]) == (100.0, "A")
    assert any(gate in sentence for sentence in result["explanation"])


@pytest.mark.req("W-019", "W-050")
@given(
    gates=st.dictionaries(
        st.sampled_from("abcd"), st.sampled_from([True, True, True, False, None])
    ),
    norms=st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 5)), min_size=1, max_size=5
    ).filter(lambda pairs: any(weight for _, weight in pairs)),
    floor=st.none() | st.integers(0, 100),
    threshold=st.none() | st.integers(0, 100),
)
def test_a_card_passes_when_all_gates_hold_and_the_score_reaches_the_threshold_and_no_floor_is_missed(
    gates: dict[str, bool | None],
    norms: list[tuple[int, int]],
    floor: int | None,
    threshold: int | None,
) -> None:
    criteria: list[dict[str, Any]] = [
        {"norm": norm / 100, "weight": weight} for norm, weight in norms
    ]
    if floor is not None:
        criteria[0]["critical_floor"] = {"norm": floor / 100}
    more = {} if threshold is None else {"pass_threshold": threshold}
    result = assay.grade(scorecard(*criteria, hard_gates=gates, **more))
    score = Fraction(
        sum(norm * weight for norm, weight in norms), sum(weight for _, weight in norms)
    )
    rounded = Fraction((score * 100 + Fraction(1, 2)).__floor__(), 100)
    reached = rounded >= max(70, threshold or 0)  # a card may raise the threshold, not lower it
    kept = floor is None or norms[0][0] >= floor
    assert result.passed is (
        bool(gates) and all(passed is True for passed in gates.values()) and reached and kept
    )


# --- a gate has no weight


def test_a_gate_with_a_weight_is_refused_in_a_run() -> None:
    with pytest.raises(EvidenceError, match="a gate carries no weight") as caught:
        assay.score(run("rag", gates={"no_policy_violation": {"passed": True, "weight": 0.5}}))
    assert caught.value.code == "SCO-011"
    assert caught.value.faults[0].path == "gates.no_policy_violation.weight"


def test_a_gate_with_a_weight_is_refused_in_a_profile() -> None:
    text = (
        "profile: p\nversion: 1\ntitle: P\nfamily: p\ngates:\n  - id: answer_grounded\n    weight:"
        " 0.5\ncriteria:\n  - {id: quality, label: Quality, weight: 1, layer: 2, formula:"
        " zero_one}\n"
    )
    with pytest.raises(ShelfError, match="a gate carries no weight") as caught:
        load_profile(parse_yaml(text.encode(), "p.yaml"))
    assert (caught.value.code, caught.value.faults[0].line) == ("LIB-002", 7)


@pytest.mark.parametrize(
    "verdict",
    [
        1,
        0,
        0.99,
        "true",
        "pass",
        [True],
        {"passed": True},
        {"passed": True, "weight": 0.5},
        {"weight": 1},
    ],
)
def test_a_gate_with_a_weight_or_a_score_is_refused_in_a_scorecard(verdict: Any) -> None:
    with pytest.raises(EvidenceError, match="carries no weight") as caught:
        assay.grade(scorecard({"norm": 1}, hard_gates={"answer_grounded": verdict}))
    assert caught.value.code == "GRD-101"
    assert caught.value.faults[0].path.startswith("hard_gates.answer_grounded")


# --- what the validator must not see


def nested(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"a": made}
    return made


def test_outputs_that_nest_without_end_or_hold_nan_break_their_contract_and_end_nothing() -> None:
    assert contract_fault({"type": "object"}, nested(199)).passed is True
    for outputs in (nested(201), nested(100_000), {"x": [nested(100_000)]}):
        found = contract_fault({"type": "object"}, outputs)
        assert found.passed is False
        assert "nest more than 200 deep" in found.reason
    for number in (float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity")):
        # the validator would take it for null, and null may be what the schema asks for
        found = contract_fault({"properties": {"x": {"type": "null"}}}, {"x": number})
        assert found.passed is False
        assert "not JSON" in found.reason


def test_a_schema_that_nests_without_end_or_holds_nan_is_undetermined_and_ends_nothing() -> None:
    deep: Any = {"type": "object"}
    for _ in range(100_000):
        deep = {"not": deep}
    for schema in (deep, {"properties": {"x": {"const": float("nan")}}}, {"x": object()}):
        found = contract_fault(schema, {"x": None})
        assert found.passed is None
        assert "not a usable JSON Schema" in found.reason
    assert contract_fault({"properties": {"x": {"const": None}}}, {"x": None}).passed is True


def test_a_gate_of_a_plugin_is_not_credited_to_the_guide() -> None:
    def sheet(name: str) -> str:
        return str(Gate(name, "Clean", "profile", (("outputs",),), None).sheet()["source"])

    assert sheet("acme.clean") == "a plugin"
    assert "Reference Guide" in sheet("clean")
