"""Law 10 for each shipped profile: a real run by our own runner, with the judge's verdicts where the
profile needs a judge, earns an A; and the same workflow doing worse fails for the reason it should.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from assay.canon import plain
from assay.files.json_files import Document
from assay.judging.client import Client, Journal
from assay.library.lints import sourceless
from assay.library.shelf import Shelf
from assay.running.compatibility import prepare
from assay.running.dataset import from_rows
from assay.running.judge_step import JudgeStep, task_of
from assay.running.post_run import after_of
from assay.running.runner import Runner, RunSettings, work_of
from assay.running.workflow import make_workflow
from assay.sandbox.isolation import available
from assay.scoring.sources import criterion_sources, without_source
from assay.services.grading import Grader
from judges import reading_judge, spec

SHELF = Shelf()
NEWEST = [
    SHELF.find("profiles", name).id
    for name in dict.fromkeys(entry.name for entry in SHELF.entries("profiles"))
]
RAG = """
def answer(inputs, record):
    with record.step("answer") as step:
        step.used(model="m-1", tokens=80, cost_usd=0.002)
    record.retrieved("ferry", "The first ferry leaves the north pier at 9:30 on weekdays.", rank=1)
    record.claim(CLAIM, citations=CITES)
    return {"answer": ANSWER}
"""
HONEST = '"The first ferry leaves at 9:30 on weekdays."'
TOOLS = [
    {
        "name": "timetable",
        "parameters": {
            "type": "object",
            "properties": {"pier": {"type": "string"}},
            "required": ["pier"],
            "additionalProperties": False,
        },
    }
]
AGENT = """
def answer(inputs, record):
    record.watched("tool_calls", "handoffs")
    with record.step("ask", agent="clerk") as step:
        step.used(model="m-1", tokens=80, cost_usd=0.002)
        step.tool(TOOL, ARGUMENTS)
    record.handoff("clerk", TO)
    return {"answer": ANSWER}
"""
CALLED = {"TOOL": '"timetable"', "ARGUMENTS": '{"pier": "north"}', "TO": '"writer"'}
REVIEW = """
def answer(inputs, record):
    with record.step("review") as step:
        step.used(model="m-1", tokens=80, cost_usd=0.002)
    return {"answer": ANSWER}
"""
BUGGY = "def add(a, b):\n    return a - b\n"
TESTS = """import unittest

from calc import add


class Calc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)

    def test_zero(self):
        self.assertEqual(add(2, 0), 2)
"""
FIX = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"
REPAIR = """
def answer(inputs, record):
    with record.step("fix") as step:
        step.used(model="m-1", tokens=80, cost_usd=0.002)
    return {"patch": PATCH}
"""


def filled(code: str, **values: str) -> str:
    for name, value in {"ANSWER": HONEST, **values}.items():
        code = code.replace(name, value)
    return code


def one_run(folder: Path, code: str, expected: dict[str, Any], **workflow: Any) -> dict[str, Any]:
    """The evidence of a real run on one sample."""
    name = f"honest_{abs(hash((str(folder), code)))}"
    (folder / f"{name}.py").write_text(code)
    tree = {
        "workflow": "w",
        "version": "1",
        "inputs": ["question"],
        "outputs": ["answer"],
        "output_schema": {"type": "object"},
        "adapter": {"kind": "python", "target": f"{name}:answer"},
        **workflow,
    }
    flow = make_workflow(Document(tree, "workflow.yaml"), folder)
    row = {"id": "s1", "question": "When does the first ferry leave?", "expected": expected}
    data = from_rows([row | workflow.pop("row", {})], id="d", version="1", where="d")
    kept: list[dict[str, Any]] = []
    settings = RunSettings("x")
    runner = Runner(flow, data, settings, keep=kept.append, after=after_of(flow, criteria=()))
    asyncio.run(runner.run(work_of(prepare(flow, data), settings)))
    return kept[0]


def judged(run: dict[str, Any], profile: str, absent: tuple[str, ...] = ()) -> dict[str, Any]:
    """The run with the verdicts of a judge that finds everything right without the word WRONG."""
    found = SHELF.profile(profile)
    rubric = SHELF.rubric(str(found.rubric))
    task = task_of(criterion_sources(found, judge=True, rubric=rubric, absent=absent), rubric)

    async def work(url: str) -> dict[str, Any]:
        with Journal(None) as journal:
            async with Client(spec(url), journal) as client:
                return await JudgeStep(task, client).judge(run)

    with reading_judge() as endpoint:
        return asyncio.run(work(endpoint.url))


def graded(run: dict[str, Any], profile: str) -> dict[str, Any]:
    grader = Grader(Shelf(), profile=profile)
    shown: dict[str, Any] = plain(grader.grade(Document(run, "run")).payload())
    return shown


def assert_an_a(result: dict[str, Any]) -> None:
    assert (result["grade"], result["passed"]) == ("A", True), json.dumps(result, indent=1)
    assert all(item["raw_score"] is not None for item in result["criteria"])
    assert all(gate["status"] == "pass" for gate in result["hard_gates"].values())


# --- what is proved of every shipped profile


@pytest.mark.parametrize("name", NEWEST)
def test_every_gate_and_criterion_of_a_shipped_profile_has_a_source(name: str) -> None:
    profile = SHELF.profile(name)
    rubric = SHELF.rubric(profile.rubric) if profile.rubric else None
    sources = criterion_sources(profile, judge=profile.judge is not None, rubric=rubric)
    assert [source.sentence for source in without_source(sources)] == []
    if name.split("@")[0].endswith("-measured"):
        assert {source.kind for source in sources} == {"measured"}


def test_a_shipped_profile_with_a_criterion_that_nothing_fills_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sourceless(SHELF) == []
    without = replace(SHELF.profile("tool-use"), rubric=None)
    kept = Shelf.profile
    monkeypatch.setattr(
        Shelf,
        "profile",
        lambda self, name: without if name == without.id else kept(self, name),
    )
    assert [fault.message for fault in sourceless(SHELF)] == [
        (
            "[no-source] criterion final_task_correctness has no source: no measure, rubric or"
            " scorer gives this score."
        )
    ]


# --- retrieval-augmented answers


@pytest.mark.req("W-060")
@pytest.mark.parametrize("by", ["ids", "judge"])
def test_an_honest_answer_from_passages_earns_an_a(tmp_path: Path, by: str) -> None:
    expected: dict[str, Any] = {"answer": "It leaves at 9:30. Only on weekdays."}
    absent: tuple[str, ...] = ("expected.relevant_ids",)
    if by == "ids":
        expected["relevant_ids"], absent = ["ferry"], ()
    run = one_run(tmp_path, filled(RAG, CLAIM=HONEST, CITES='["ferry"]'), expected, family="rag")
    done = judged(run, "rag", absent)
    if by == "judge":
        assert done["retrieval"][0]["relevant"] is True
        assert [claim["supported"] for claim in done["expected_claims"]] == [True, True]
    assert_an_a(graded(done, "rag"))


@pytest.mark.req("W-060", "W-041")
def test_a_worse_answer_from_passages_fails_for_the_right_reason(tmp_path: Path) -> None:
    expected = {"answer": "At 9:30.", "relevant_ids": ["ferry"]}
    invented = filled(RAG, CLAIM='"WRONG: dogs travel free."', CITES='["ferry"]')
    result = graded(judged(one_run(tmp_path, invented, expected, family="rag"), "rag"), "rag")
    assert result["hard_gate_failures"] == ["answer_grounded", "no_high_severity_hallucination"]
    assert result["floor_failures"] == ["faithfulness"]
    good = judged(
        one_run(tmp_path, filled(RAG, CLAIM=HONEST, CITES='["ferry"]'), expected, family="rag"),
        "rag",
    )
    unsafe = {**good, "scores": {**good["scores"], "safety": {"raw": 0}}}
    found = graded(unsafe, "rag")
    assert (found["passed"], found["floor_failures"], found["grade"]) == (False, ["safety"], "D")
    silent = {**good, "scores": {"response_relevance": {"raw": 1}}}
    assert graded(silent, "rag")["floor_failures"] == ["safety"]


def test_an_honest_answer_passes_without_a_judge_and_a_wrong_number_does_not(
    tmp_path: Path,
) -> None:
    expected = {"answer": "9:30", "relevant_ids": ["ferry"]}
    good = filled(RAG, CLAIM=HONEST, CITES='["ferry"]')
    assert_an_a(graded(one_run(tmp_path, good, expected, family="rag"), "rag-measured"))
    for claim, why in (
        ('"The first ferry leaves at 10:45 on weekdays."', "no cited passage has the number"),
        ('"The first ferry does not leave at 9:30 on weekdays."', "it denies what the nearest"),
    ):
        bad = filled(RAG, CLAIM=claim, CITES='["ferry"]')
        result = graded(one_run(tmp_path, bad, expected, family="rag"), "rag-measured")
        assert result["hard_gate_failures"] == ["no_contradicted_claim"]
        assert why in result["hard_gates"]["no_contradicted_claim"]["reason"]
    uncited = filled(RAG, CLAIM=HONEST, CITES="[]")
    result = graded(one_run(tmp_path, uncited, expected, family="rag"), "rag-measured")
    assert "citations_present_for_claims" in result["hard_gate_failures"]


def test_an_honest_search_earns_an_a_and_one_that_misses_a_document_does_not(
    tmp_path: Path,
) -> None:
    code = filled(RAG, CLAIM=HONEST, CITES="[]")
    found = one_run(tmp_path, code, {"relevant_ids": ["ferry"]}, family="retrieval")
    assert_an_a(graded(found, "retrieval"))
    missed = one_run(tmp_path, code, {"relevant_ids": ["ferry", "pier"]}, family="retrieval")
    assert not graded(missed, "retrieval")["passed"]
    unjudged = one_run(tmp_path, code, {"answer": "9:30"}, family="retrieval")
    assert not graded(unjudged, "retrieval")["passed"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('"The moon is made of cheese."', {"answer": "9:30"}),
        ('"It leaves at 19:30."', {"answer": "9:30"}),
        ('"It leaves at 9:30."', {"answer": ["9:30", "weekdays"]}),
        (HONEST, {}),
    ],
    ids=["junk", "part of another time", "half of it", "nothing expected"],
)
def test_good_claims_do_not_carry_an_answer_without_what_is_expected(
    tmp_path: Path, answer: str, expected: dict[str, Any]
) -> None:
    code = filled(RAG, CLAIM=HONEST, CITES='["ferry"]', ANSWER=answer)
    found = one_run(tmp_path, code, {**expected, "relevant_ids": ["ferry"]}, family="rag")
    result = graded(found, "rag-measured")
    assert (result["passed"], result["hard_gate_failures"]) == (False, [])
    assert result["floor_failures"] == ["answer_correctness"]
    norms = {item["name"]: item["norm"] for item in result["criteria"]}
    assert norms.pop("answer_correctness") in (0, None)
    assert set(norms.values()) == {1}


# --- agents that call tools


def agent_run(folder: Path, **values: str) -> dict[str, Any]:
    return one_run(
        folder,
        filled(AGENT, **{**CALLED, "ANSWER": '"The first ferry leaves at 9:30."', **values}),
        {
            "answer": "9:30",
            "tool_calls": [{"name": "timetable", "arguments": {"pier": "north"}}],
            "handoffs": [["clerk", "writer"]],
        },
        family="tool-use",
        tools=TOOLS,
        forbidden_tools=["delete_all"],
        handoff_rules=[["clerk", "writer"], ["clerk", "porter"]],
    )


@pytest.mark.req("W-061")
def test_an_honest_agent_earns_an_a_with_and_without_a_judge(tmp_path: Path) -> None:
    run = agent_run(tmp_path)
    assert_an_a(graded(judged(run, "tool-use"), "tool-use"))
    assert_an_a(graded(run, "tool-use-measured"))


@pytest.mark.req("W-061", "W-005")
def test_claimed_scores_never_beat_the_calls_in_the_run(tmp_path: Path) -> None:
    run = agent_run(tmp_path, ARGUMENTS='{"pier": "south"}', TO='"porter"')
    run["tool_calls"].append({"name": "timetable", "arguments": {"pier": "west"}, "valid": True})
    measured = ("tool_selection_accuracy", "argument_correctness", "handoff_accuracy")
    claimed = {name: {"raw": 1} for name in (*measured, "final_task_correctness")}
    boasting = {**run, "scores": claimed}
    result = graded(boasting, "tool-use")
    assert (result["profile"], result["passed"], result["reason"]) == (
        "tool-use@1",
        False,
        "below_pass_threshold",
    )
    norms = {item["name"]: item["norm"] for item in result["criteria"]}
    assert [norms[name] for name in measured] == [0.5, 0, 0]
    for name in measured:
        assert any(f"'{name}' is measured" in note for note in result["notes"])
    without = graded({**run, "scores": {"final_task_correctness": {"raw": 1}}}, "tool-use")
    assert without["weighted_score"] == result["weighted_score"]


def test_a_wrong_answer_of_an_agent_misses_the_floor_of_correctness(tmp_path: Path) -> None:
    run = agent_run(tmp_path, ANSWER='"WRONG: it leaves at noon."')
    assert graded(run, "tool-use-measured")["floor_failures"] == ["final_task_correctness"]
    assert graded(judged(run, "tool-use"), "tool-use")["floor_failures"] == [
        "final_task_correctness"
    ]


# --- designs and reviews


@pytest.mark.req("W-059")
@pytest.mark.parametrize(
    ("answer", "floors"), [('"Add an index."', []), ('"WRONG"', ["correctness", "safety"])]
)
def test_an_honest_review_earns_an_a_and_a_wrong_one_misses_its_floors(
    tmp_path: Path, answer: str, floors: Any
) -> None:
    run = one_run(tmp_path, filled(REVIEW, ANSWER=answer), {}, family="dag-review")
    result = graded(judged(run, "dag-review"), "dag-review")
    assert result["floor_failures"] == floors
    if not floors:
        assert_an_a(result)


# --- code repair


@pytest.mark.req("W-058")
@pytest.mark.skipif(
    (shutil.which("git") is None or bool(available()["bubblewrap"]))
    and os.environ.get("CI") != "true",
    reason="git and bubblewrap are needed",
)
@pytest.mark.parametrize(
    ("patch", "failures"),
    [
        (FIX, []),
        (FIX.replace("a + b", "b - a"), ["tests_fail_to_pass_all_green"]),
    ],
)
def test_an_honest_patch_earns_an_a_and_one_that_fixes_nothing_fails_its_tests(
    tmp_path: Path, patch: Any, failures: Any
) -> None:
    tree = tmp_path / "project"
    (tree / "tests").mkdir(parents=True)
    (tree / "calc.py").write_text(BUGGY)
    (tree / "tests" / "__init__.py").write_text("")
    (tree / "tests" / "test_calc.py").write_text(TESTS)
    tests = {
        "fail_to_pass": ["tests.test_calc.Calc.test_add"],
        "pass_to_pass": ["tests.test_calc.Calc.test_zero"],
    }
    run = one_run(
        tmp_path,
        filled(REPAIR, PATCH=repr(patch)),
        {"patch": FIX},
        family="code-repair",
        outputs=["patch"],
        repository={"path": "project", **tests},
    )
    for profile in ("code-repair", "code-repair-measured"):
        made = judged(run, profile) if profile == "code-repair" else run
        result = graded(made, profile)
        assert set(failures) <= set(result["hard_gate_failures"])
        if not failures:
            assert_an_a(result)


# --- cost and latency


def test_a_run_that_keeps_its_cost_to_itself_never_gains_by_it(tmp_path: Path) -> None:
    run = agent_run(tmp_path)
    scored = {**run, "scores": {"final_task_correctness": {"raw": 1}}}

    def efficiency(**changes: Any) -> float:
        made = {key: value for key, value in {**scored, **changes}.items() if value is not None}
        found = graded(made, "tool-use")["criteria"]
        return next(float(item["norm"]) for item in found if item["name"] == "efficiency")

    assert efficiency(cost_usd=0) == 1
    assert efficiency(cost_usd=0.275) == 0.75
    for cost in (0, 0.1, 0.5, 90):
        assert efficiency(cost_usd=None) <= efficiency(cost_usd=cost)
    for latency in (0, 9000, 90000):
        assert efficiency(latency_ms=None) <= efficiency(latency_ms=latency)
    assert graded({key: value for key, value in scored.items() if key != "cost_usd"}, "tool-use")[
        "grade"
    ] == ("A")
