"""JUnit XML: every result that is not a pass is red, whatever text it carries."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import assay as product
from assay.canon import plain
from assay.families.exams import views as exam_views
from assay.families.exams.records import ExamGate, ExamGateDigests, HardGate, TargetCheck
from assay.records.decision import OperationDifference
from assay.records.samples import SampleAnswer, SampleTexts
from assay.services.payload import payload
from assay.views import junit
from decisions import confirmation, decided, decision, rule, suspect
from documents import run, scorecard
from exported import exported

TIME = re.compile(r"\d+(\.\d{1,3})?")


def check_rules(data: bytes) -> ElementTree.Element:
    """The rules that the schemas of Jenkins and Surefire have in common, by hand: names, order,
    required attributes, and counts that are true.
    """
    root = ElementTree.fromstring(data)
    assert root.tag == "testsuites"
    (suite,) = root
    assert suite.tag == "testsuite"
    assert set(root.attrib) <= {"name", "tests", "failures", "errors", "time", "disabled"}
    assert set(suite.attrib) <= {
        "name",
        "tests",
        "failures",
        "errors",
        "skipped",
        "time",
        "timestamp",
        "hostname",
        "id",
        "package",
    }
    assert {"name", "tests", "failures", "errors", "skipped"} <= set(suite.attrib)
    assert [child.tag for child in suite] == ["properties", *["testcase"] * (len(suite) - 1)]
    for one in suite[0]:
        assert (one.tag, set(one.attrib)) == ("property", {"name", "value"})
    found = {"failure": 0, "error": 0}
    for case in suite[1:]:
        assert {"name", "classname"} <= set(case.attrib) <= {"name", "classname", "time"}
        assert TIME.fullmatch(case.get("time", "0"))
        assert len(case) <= 1
        for child in case:
            assert child.tag in ("failure", "error", "system-out")
            if child.tag != "system-out":
                assert set(child.attrib) == {"type", "message"}
                assert child.get("message")
                found[child.tag] += 1
    for element in (root, suite):
        assert int(element.get("tests", "")) == len(suite) - 1
        assert (int(element.get("failures", "")), int(element.get("errors", ""))) == (
            found["failure"],
            found["error"],
        )
    assert suite.get("skipped") == "0"
    return suite


def cases(data: bytes) -> dict[str, tuple[str, str]]:
    """Each case by name: what it is, and its message."""
    return {
        case.get("name", ""): (
            (case[0].tag, case[0].get("message", ""))
            if len(case) and case[0].tag != "system-out"
            else ("", "")
        )
        for case in check_rules(data)[1:]
    }


def result(card: dict[str, Any]) -> dict[str, Any]:
    return payload(product.grade(card))


def grades(*cards: dict[str, Any], faults: tuple[Any, ...] = ()) -> dict[str, Any]:
    results = [result(card) for card in cards]
    failed = sum(one["passed"] is not True for one in results)
    counts = {"graded": len(results), "failed": failed, "faults": len(faults)}
    return {
        "schema": "assay.grades/1",
        "results": results,
        "faults": list(faults),
        "counts": counts,
    }


# --- grades


def test_each_run_is_a_case_and_each_failure_carries_its_reason_gates_and_floors() -> None:
    found = exported(
        junit.JUnit(),
        grades(
            scorecard({"norm": 0.95}, run_id="good"),
            scorecard({"norm": 0.5}, run_id="low"),
            scorecard({"norm": 0.9, "critical_floor": {"norm": 0.95}}, run_id="floor"),
            scorecard(
                {"norm": 1},
                run_id="gates",
                hard_gates={"a": False, "b": None, "c": True},
                gate_reasons={"a": "it leaked"},
            ),
        ),
    )
    said = cases(found)
    assert said["good"] == ("", "")
    assert said["low"] == ("failure", "50.00 is below 70")
    assert said["floor"] == ("failure", "c0 is 0.9, 0.05 below its floor of 0.95")
    assert said["gates"] == (
        "failure",
        "gate a failed: it leaked; gate b is undetermined: no evidence",
    )
    kinds = [case[0].get("type") for case in check_rules(found)[2:]]
    assert kinds == ["below_pass_threshold", "critical_floor_failure", "hard_gate_failure"]
    assert "gradingSystem/1.0.0" in (check_rules(found)[2][0].text or "")


def test_an_undetermined_gate_is_a_failure_and_never_skipped() -> None:
    data = exported(junit.JUnit(), grades(scorecard({"norm": 1}, hard_gates={"g": None})))
    assert cases(data)["r-1"][0] == "failure"
    assert b"<skipped" not in data


def test_a_fault_of_the_input_is_an_error() -> None:
    fault = {"file": "runs.jsonl", "line": 3, "code": "FIL-002", "path": "", "message": "not JSON."}
    assert cases(exported(junit.JUnit(), grades(scorecard({"norm": 1}), faults=(fault,)))) == {
        "r-1": ("", ""),
        "runs.jsonl line 3": ("error", "not JSON."),
    }


def test_the_command_writes_what_the_document_says(assay: Any, tmp_path: Path) -> None:
    texts = [scorecard({"norm": index / 10}, run_id=f"r-{index}") for index in range(11)]
    lines = [
        *map(json.dumps, texts),
        json.dumps(run(run_id="timed", latency_ms=8123)),
        "{oops",
        '{"schema": 1}',
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    done = assay("grade", "runs.jsonl", "--keep-going", "--json", "-o", "x.xml")
    assert done.code == 3
    data = (tmp_path / "x.xml").read_bytes()
    said = cases(data)
    document = done.json()
    assert {name: kind for name, (kind, _) in said.items()} == {
        **{one["run_id"]: "" if one["passed"] else "failure" for one in document["results"]},
        "runs.jsonl line 13": "error",
        "runs.jsonl line 14": "error",
    }
    assert said == cases(exported(junit.JUnit(), document))
    timed = next(case for case in check_rules(data)[1:] if case.get("name") == "timed")
    assert timed.get("time") == "8.123"
    properties = {one.get("name"): one.get("value") for one in check_rules(data)[0]}
    assert properties == {
        "policy": "workflow@1",
        "scoringSystem": "scoringSystem/1.0.0",
        "gradingSystem": "gradingSystem/1.0.0",
    }


def test_without_keep_going_a_malformed_line_leaves_no_file(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps(scorecard({"norm": 1})) + "\n{oops\n")
    assert assay("grade", "runs.jsonl", "-o", "x.xml").code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["runs.jsonl"]


def test_more_faults_than_are_kept_are_counted_in_one_more_error(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text(
        json.dumps(scorecard({"norm": 1})) + "\n" + "{oops\n" * 250
    )
    assert assay("grade", "runs.jsonl", "--keep-going", "-o", "x.xml").code == 3
    said = cases((tmp_path / "x.xml").read_bytes())
    assert len(said) == 202
    assert said["50 more faults in the input"][0] == "error"


@pytest.mark.campaign
def test_a_large_stream_gives_the_same_file_by_any_number_of_processes(
    assay: Any, tmp_path: Path
) -> None:
    pad = "x" * 3000
    with (tmp_path / "big.jsonl").open("w") as stream:
        for index in range(1500):
            stream.write(
                json.dumps(scorecard({"norm": index % 101 / 100}, run_id=f"r-{index}", notes=[pad]))
                + "\n"
            )
    for jobs in (1, 2):
        assert assay("grade", "big.jsonl", "--jobs", jobs, "-o", f"x{jobs}.xml").code == 1
    one, two = ((tmp_path / f"x{jobs}.xml").read_bytes() for jobs in (1, 2))
    assert one == two
    assert [case.get("name") for case in check_rules(one)[1:]] == [
        f"r-{index}" for index in range(1500)
    ]


# --- hostile text


@given(st.text(st.characters(codec=None), max_size=40))
def test_no_text_makes_the_document_unreadable_or_escapes_its_place(text: str) -> None:
    card = scorecard(
        {"norm": 1, "missing": None},
        run_id=text or "x",
        hard_gates={"g": False},
        gate_reasons={"g": text},
    )
    try:
        made = result(card)
    except product.AssayError:
        made = {**result(scorecard({"norm": 0}, run_id="r")), "run_id": text, "reason": text}
    suite = check_rules(
        exported(
            junit.JUnit(),
            {
                "results": [made],
                "faults": [
                    {
                        "file": text,
                        "line": 1,
                        "code": text,
                        "path": text,
                        "message": text.strip() or "x",
                    }
                ],
                "counts": {"graded": 1, "failed": 1, "faults": 1},
            },
        )
    )
    assert len(suite) == 3


def test_what_xml_forbids_is_shown_as_an_escape() -> None:
    said = cases(
        exported(
            junit.JUnit(),
            grades(scorecard({"norm": 1}, run_id="a\x00b\x1b[2K\ufffe]]>", hard_gates={"g": None})),
        )
    )
    assert list(said) == ["a\\x00b\\x1b[2K\\ufffe]]>"]


def test_a_name_that_is_too_long_for_the_head_does_not_run_over_the_first_case(
    tmp_path: Path,
) -> None:
    form = junit.JUnit()
    counts = {
        "graded": 1,
        "failed": 0,
        "faults": 0,
        "policy": '"' * 4000,
        "scoringSystem": "<" * 400,
        "gradingSystem": "&" * 400,
    }
    with (tmp_path / "x.xml").open("wb") as stream:
        stream.write(form.head())
        stream.write(form.piece(result(scorecard({"norm": 1}))))
        form.finish(stream, [], counts)
    assert list(cases((tmp_path / "x.xml").read_bytes())) == ["r-1"]


# --- decisions


def test_each_rule_of_a_decision_is_a_case() -> None:
    assert cases(junit.decision(decision("reject", True, False, None))) == {
        "rule-0": ("", ""),
        "rule-1": ("failure", "because 1"),
        "rule-2": ("error", "open: because 2"),
    }
    assert set(cases(junit.decision(decision("promote", True, True))).values()) == {("", "")}


def test_an_open_rule_is_not_called_violated() -> None:
    violated = decision("hold", False).rules[0]
    rules = [violated, replace(violated, violated=False)]
    text = junit.decision(decision("hold", rules=rules)).decode()
    assert re.findall(r'type="(\w+)"', text) == ["rule_violated", "rule_open"]


def test_the_evidence_of_a_rule_is_json() -> None:
    evidence = {"lost": [{"sample": "s/1", "what": None}], "n": 3}
    rule = replace(decision("reject", False).rules[0], evidence=evidence)
    text = junit.decision(decision("reject", rules=[rule])).decode()
    assert "lost: [{&quot;sample&quot;:&quot;s/1&quot;,&quot;what&quot;:null}]\nn: 3<" in text


@pytest.mark.parametrize("outcome", ["hold", "reject", "not_enough_evidence"])
def test_a_closed_gate_is_never_all_green(outcome: str) -> None:
    for made in (
        decision(outcome, True, True),
        decision(outcome),
        decision(outcome, None),
        decision(outcome, confirmation=confirmation(suspect("s/1", "flaky"))),
        decision(outcome, confirmation=confirmation(suspect("s/1", "confirmed", accepted="ok"))),
    ):
        assert any(kind for kind, _ in cases(junit.decision(made)).values())


def test_each_sample_that_newly_fails_is_a_case_with_its_question_and_both_answers() -> None:
    made = decision(
        "reject",
        rules=[rule("new_failures", holds=False)],
        titles={"s/2": "the refund window"},
        confirmation=confirmation(
            suspect("s/1"),
            suspect("s/2", "confirmed"),
            suspect("s/2", "confirmed", check="pass"),
            suspect("s/3", "flaky"),
            suspect("s/4", "baseline_fails_too"),
            suspect("s/5", "confirmed", accepted="known (ann)"),
        ),
    )
    asked = SampleTexts(
        "May I?", "yes", SampleAnswer("no <b>", 0, 1), SampleAnswer("yes indeed", 1, 1)
    )
    text = junit.decision(made, {"s/2": asked}).decode()
    found = cases(text.encode())
    assert {name: kind for name, (kind, _) in found.items() if name != "new_failures"} == {
        "the refund window (s/2)": "failure",
        "s/1": "error",
        "s/5": "",
    }
    assert "gate schema" in found["the refund window (s/2)"][1]
    for part in ("question: May I?", "before: yes indeed", "now: no &lt;b&gt;", "0 of 7"):
        assert part in text
    assert "known (ann)" in text


def test_what_a_promoted_candidate_was_allowed_is_green_and_said() -> None:
    made = decision("promote", True, None, confirmation=confirmation(suspect("s/1")))
    text = junit.decision(made).decode()
    assert {kind for kind, _ in cases(text.encode()).values()} == {""}
    assert "open: because 1" in text
    assert {kind for kind, _ in cases(junit.decision(decision("promote", False))).values()} == {
        "failure"
    }


def test_criteria_cost_and_latency_are_properties() -> None:
    used = {"cost_usd": OperationDifference(n=3, candidate=0.004, baseline=0.001, ratio=4.0)}
    text = junit.decision(decision("hold", None, operations=used)).decode()
    assert re.search(r'name="cost" value="\$0\.001 [^"]*\$0\.004 [^"]*4\.0 times', text)
    known = decided()[0]
    text = junit.decision(known).decode()
    assert all(f'name="criterion {name}"' in text for name in known.criteria)


def test_a_decision_without_rules_is_not_green() -> None:
    assert [kind for kind, _ in cases(junit.decision(decision("promote"))).values()] == ["error"]


# --- exams

EXAM = """
exam: verbs
version: "1"
rubric: tutor@1
set: capstone
items:
  - {id: one, prompt: "She go home.", expected_contains: [goes], gloss_contains: [va]}
  - {id: two, prompt: "He have it.", expected_contains: [has], gloss_contains: [tiene]}
  - {id: three, prompt: "I is here.", expected_contains: [am], gloss_contains: [estoy]}
"""


def test_each_item_of_an_exam_is_a_case_that_names_its_lost_axes(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "exam.yaml").write_text(EXAM)
    answer = {
        "correction": "She goes home.",
        "gloss": "Ella va a casa.",
        "explanation": "third person",
    }
    answers = [
        {"item": "one", "response": answer},
        {"item": "two", "response": {**answer, "correction": "He having it."}},
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))
    done = assay(
        "exam",
        "grade",
        "exam.yaml",
        "--answers",
        "answers.jsonl",
        "-o",
        "x.xml",
        "-o",
        "x.json",
        "--json",
    )
    assert done.code == 0, done.err
    document = done.json()
    assert json.loads((tmp_path / "x.json").read_text()) == document
    said = cases((tmp_path / "x.xml").read_bytes())
    assert said["one"] == ("", "")
    assert said["two"][0] == "failure"
    lost = [axis for axis, mark in document["items"][1]["breakdown"].items() if mark != 1]
    assert said["two"][1] == f"lost {', '.join(lost)}"
    assert "correctness" in lost
    assert said["three"] == ("failure", "no answer")
    closed = assay("exam", "gate", "x.json", "-o", "gate.xml", "-o", "gate.json")
    assert closed.code == 1
    gate = cases((tmp_path / "gate.xml").read_bytes())
    assert gate["capstone"][0] == "failure"
    assert {name for name, (kind, _) in gate.items() if kind} == {"capstone"}, (
        "what does not block stays green"
    )


def test_a_gate_on_exams_that_did_not_pass_is_never_all_green() -> None:
    gate = ExamGate(
        passed=False,
        capstone=HardGate(holds=True, score=1, limit=0.9, n=1),
        target=TargetCheck(holds=True, score=1, limit=0.9),
        regression=None,
        soft=[],
        verify_rubric=None,
        reasons=["something else"],
        notes=[],
        rubric="tutor@1",
        policy="exam@1",
        digests=ExamGateDigests(rubric="", policy="", exam=""),
        scoring_system="scoringSystem/1.0.0",
        grading_system="gradingSystem/1.0.0",
    )
    assert cases(exam_views.gate_xml(gate))["outcome"] == ("failure", "something else")


def test_a_document_read_back_gives_the_same_cases() -> None:
    document = grades(
        scorecard({"norm": 0.95}), scorecard({"norm": 0.2}, run_id="r-2", hard_gates={"g": None})
    )
    assert exported(junit.JUnit(), document) == exported(junit.JUnit(), plain(document))
