"""`assay run` with a judge: what it asks, what it says before it starts, and what a judge that fails
costs.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from assay.cli.hints import command
from judges import RUBRIC_YAML, http, raw_endpoint, reading_judge

PROFILE = """
profile: mini
version: 1
title: A small profile
family: rag
rubric: plain@1
gates: [{id: answer_grounded}, {id: citations_present_for_claims}]
criteria:
  - {id: correctness, label: Correctness, weight: 0.6, layer: 2, formula: likert_1_5, role: correctness}
  - {id: clarity, label: Clarity, weight: 0.4, layer: 2, formula: likert_1_5}
"""
FLOW = """
import os
def answer(inputs, record):
    with open("calls.txt", "a") as log:
        log.write(inputs["question"] + "\\n")
    with record.step("find"):
        record.retrieved("p", f"It is so in {inputs['question']}", rank=1)
    record.claim("It is so.", citations=["p"])
    return {"answer": inputs["question"] + (" WRONG" if "bad" in inputs["question"] else " right")}
"""
WORKFLOW = {
    "workflow": "faq",
    "version": "3",
    "inputs": ["question"],
    "outputs": ["answer"],
    "output_schema": {"type": "object"},
    "profile": "mini",
    "adapter": {"kind": "python", "target": "flow:answer"},
}
QUESTIONS = ("case one", "case two", "case three", "case four")
RUN = ("run", "--dataset", "samples.jsonl", "--library", "lib", "--name", "e1")


def project(folder: Path, url: str, questions: tuple[str, ...] = QUESTIONS, **judge: Any) -> None:
    (folder / "flow.py").write_text(FLOW)
    (folder / "workflow.yaml").write_text(json.dumps(WORKFLOW))
    rows = [{"id": f"s-{n}", "question": text} for n, text in enumerate(questions, 1)]
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for kind, text in (("profiles/mini@1", PROFILE), ("rubrics/plain@1", RUBRIC_YAML)):
        path = folder / "lib" / f"{kind}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    spec = {"judge": "scripted", "model": "m-1", "base_url": url, **judge}
    limits = {"retries": 0, "timeout_s": 10, "concurrency": 4, **judge.get("limits", {})}
    (folder / "judge.yaml").write_text(json.dumps({**spec, "limits": limits}))


def runs_of(folder: Path, name: str = "e1") -> list[dict[str, Any]]:
    text = (folder / "assay-runs" / name / "runs.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def evaluation(assay: Any, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = assay("evals", "--json", *more).json()["evaluations"][0]
    return found


def test_a_run_is_judged_graded_stored_and_shown(assay: Any, tmp_path: Path) -> None:
    with reading_judge() as endpoint:
        project(tmp_path, endpoint.url, (*QUESTIONS[:3], "a bad case"))
        done = assay(*RUN, "--judge", "judge.yaml", "-o", "grades.json")
        assert done.code == 1, done.err
        assert len(endpoint.seen) == 4 * 3
        assert "judge scripted (m-1): 8 calls plus one for each claim" in done.err
        assert "no source" not in done.err
        assert "3 of 4 runs passed" in done.out
        assert "question    a bad case" in done.out
        assert "answer      a bad case WRONG" in done.out
        runs = runs_of(tmp_path)
        assert [run["claims"][0]["supported"] for run in runs] == [True] * 4
        assert [run["scores"]["correctness"]["raw"] for run in runs] == [5, 5, 5, 1]
        stored = evaluation(assay)
        assert (stored["name"], stored["totals"]["passed"], stored["totals"]["n"]) == ("e1", 3, 4)
        assert stored["totals"]["missing"] == {"clarity": 0, "correctness": 0}
        again = assay("run", "--resume", "assay-runs/e1")
        assert again.code == 1, again.err
        assert len(endpoint.seen) == 4 * 3
        assert (tmp_path / "calls.txt").read_text().count("\n") == 4
        for name in ("journal.jsonl", "runs.jsonl"):
            (tmp_path / "assay-runs" / "e1" / name).unlink()
        refused = assay(*RUN, "--judge", "judge.yaml")
        assert (refused.code, "already contains a run" in refused.err) == (2, True), (
            "the answers in judge.journal are older than a new evaluation"
        )


def test_the_judge_scores_what_a_rubric_adds(assay: Any, tmp_path: Path) -> None:
    with reading_judge() as endpoint:
        project(tmp_path, endpoint.url)
        more = RUBRIC_YAML.replace("rubric_id: plain", "rubric_id: more")
        more = more.replace("name: clarity", "name: tone")
        (tmp_path / "lib" / "rubrics" / "more@1.yaml").write_text(more)
        done = assay(*RUN, "--judge", "judge.yaml", "--rubric", "more")
        scored = [sorted(run["scores"]) for run in runs_of(tmp_path)]
        assert scored == [["correctness", "tone"]] * 4, done.err
        lacks = "criterion clarity has no source in this configuration"
        assert lacks in done.err, "the rubric that was chosen doesn't score it"


def test_without_the_judge_it_says_before_it_starts_what_will_be_missing(
    assay: Any, tmp_path: Path
) -> None:
    project(
        tmp_path, "http://127.0.0.1:9/v1", price={"input_per_million": 1, "output_per_million": 2}
    )
    done = assay(*RUN, "--judge", "judge.yaml", "--no-judge")
    assert done.code == 1
    words = "not judging: correctness, clarity and the verdicts on claims will be missing. scripted"
    assert f"{words} would take 8 calls plus one for each claim, about " in done.err
    assert "US dollars without the claims" in done.err
    lacks = "has no source in this configuration: a judge scores it, and --no-judge skips it."
    assert f"warning: criterion correctness {lacks}" in done.err
    assert "so no run can pass" in done.err
    assert evaluation(assay)["totals"]["missing"] == {"clarity": 4, "correctness": 4}
    scorer = "def score(inputs, outputs, expected):\n    return {'clarity': 4}\n"
    (tmp_path / "flow.py").write_text(FLOW + scorer)
    scored = {**WORKFLOW, "scorers": [{"target": "flow:score"}]}
    (tmp_path / "workflow.yaml").write_text(json.dumps(scored))
    none = assay(*RUN[:-1], "e2")
    assert (
        "no judge: correctness, clarity and the verdicts on claims will be missing unless a scorer"
        " returns them. Name a judge with --judge FILE" in none.err
    )


def test_nonsense_is_missing_stored_and_asked_again_by_the_printed_command(
    assay: Any, tmp_path: Path
) -> None:
    garbled = [True]
    bad = (b"case one", b"case two")
    with reading_judge(lambda body: garbled[0] and any(one in body for one in bad)) as endpoint:
        project(tmp_path, endpoint.url)
        done = assay(*RUN, "--judge", "judge.yaml", "-o", "grades.json")
        assert done.code == 1, done.err
        assert "2 of 4 runs passed" in done.out
        assert "6 of 12 judge verdicts are missing: the reply is not JSON (" in done.out
        assert evaluation(assay)["totals"]["missing"] == {"clarity": 2, "correctness": 2}
        assert "unparsable" in runs_of(tmp_path)[0]["metadata"]["judge_errors"]["clarity"]
        garbled[0] = False
        before = len(endpoint.seen)
        hint = next(part for part in done.out.split("`") if part.startswith("assay run --resume"))
        again = assay(*shlex.split(hint)[1:])
        assert again.code == 0, again.err
        assert len(endpoint.seen) - before == 6
    assert (tmp_path / "calls.txt").read_text().count("\n") == 4
    assert json.loads((tmp_path / "grades.json").read_text())["counts"]["passed"] == 4
    assert evaluation(assay)["totals"]["passed"] == 4


def test_a_judge_that_goes_down_costs_its_verdicts_and_nothing_else(
    assay: Any, tmp_path: Path
) -> None:
    with raw_endpoint(lambda body: http(b"{}", "401 Unauthorized")) as endpoint:
        project(tmp_path, endpoint.url)
        done = assay(*RUN, "--judge", "judge.yaml")
    assert done.code == 1, done.err
    assert "12 of 12 judge verdicts are missing: " in done.out
    assert "the endpoint answered with status 401" in done.out
    assert evaluation(assay)["totals"]["missing"] == {"clarity": 4, "correctness": 4}


@pytest.mark.parametrize(
    ("judge", "code", "words"),
    [
        ({"key_env": "NO_SUCH_KEY"}, 2, "NO_SUCH_KEY is not set"),
        ({}, 4, "the judge's endpoint http://127.0.0.1:9/v1 can't be reached"),
    ],
)
def test_a_missing_key_and_a_dead_endpoint_are_said_before_anything_runs(
    assay: Any, tmp_path: Path, judge: dict[str, Any], code: int, words: str
) -> None:
    project(tmp_path, "http://127.0.0.1:9/v1", **judge)
    done = assay(*RUN, "--judge", "judge.yaml")
    assert done.code == code, done.err
    assert words in done.err
    assert not (tmp_path / "calls.txt").exists()
    assert not (tmp_path / "assay-runs").exists()


def test_a_workflow_whose_endpoint_is_down_is_not_run(assay: Any, tmp_path: Path) -> None:
    project(tmp_path, "http://127.0.0.1:9/v1")
    adapter = {"kind": "http", "url": "http://127.0.0.1:9/bot"}
    (tmp_path / "workflow.yaml").write_text(json.dumps({**WORKFLOW, "adapter": adapter}))
    done = assay(*RUN)
    assert done.code == 4
    assert "RUN-007" in done.err or "endpoint http://127.0.0.1:9/bot can't be reached" in done.err
    assert not (tmp_path / "assay-runs").exists()


def test_repeats_are_counted_after_judging(assay: Any, tmp_path: Path) -> None:
    with reading_judge() as endpoint:
        project(tmp_path, endpoint.url, ("case one", "a bad case"))
        done = assay(*RUN, "--judge", "judge.yaml", "--repeat", "2")
    assert done.code == 1, done.err
    found = json.loads((tmp_path / "assay-runs/e1/repeats.json").read_text())
    assert (found["pass@1"], found["pass^2"], found["flaky"]) == (0.5, 0.5, [])


def test_the_limit_of_questions_is_kept(assay: Any, tmp_path: Path) -> None:
    with reading_judge() as endpoint:
        project(tmp_path, endpoint.url)
        done = assay(*RUN, "--judge", "judge.yaml", "--max-calls", "5")
        assert len(endpoint.seen) == 5
    assert done.code == 1
    assert "the limit of 5 questions was reached" in done.out


def test_a_run_that_is_killed_while_judging_goes_on(assay: Any, tmp_path: Path) -> None:
    stuck, go = threading.Event(), threading.Event()
    count = [0]

    def slow(body: bytes) -> bool:
        count[0] += 1
        if count[0] == 6:
            stuck.set()
            go.wait(60)
        return False

    with reading_judge(slow) as endpoint:
        project(tmp_path, endpoint.url, limits={"concurrency": 1})
        words = [sys.executable, "-m", "assay", *RUN, "--judge", "judge.yaml"]
        child = subprocess.Popen(
            words, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        assert stuck.wait(60)
        os.kill(child.pid, signal.SIGKILL)
        child.wait(30)
        go.set()
        done = assay("run", "--resume", "assay-runs/e1")
        assert done.code == 0, done.err
        assert len(endpoint.seen) == 12 + 1  # the question that was on its way
    assert (tmp_path / "calls.txt").read_text().count("\n") == 4


def test_two_equal_sample_ids_are_refused_before_anything_runs(assay: Any, tmp_path: Path) -> None:
    project(tmp_path, "http://127.0.0.1:9/v1")
    (tmp_path / "samples.jsonl").write_text('{"id": "a", "question": "x"}\n' * 2)
    done = assay(*RUN)
    assert done.code == 3
    assert "'a'" in done.err
    assert not (tmp_path / "calls.txt").exists()


def test_a_command_is_quoted() -> None:
    assert command("explain", "my runs.jsonl", "--run", "a;b") == (
        "assay explain 'my runs.jsonl' --run 'a;b'"
    )


def test_a_scorer_and_a_bar_are_kept_when_a_run_goes_on(assay: Any, tmp_path: Path) -> None:
    garbled = [True]
    with reading_judge(lambda body: garbled[0] and b"case one" in body) as endpoint:
        project(tmp_path, endpoint.url)
        (tmp_path / "checks.py").write_text("def short(outputs):\n    return 1\n")
        scorer = {"target": "checks:short", "weight": 0.1}
        (tmp_path / "workflow.yaml").write_text(json.dumps({**WORKFLOW, "scorers": [scorer]}))
        done = assay(*RUN, "--judge", "judge.yaml", "--min-pass-rate", "0.2", "--confidence", "0.5")
        assert done.code == 0, done.err
        assert "3 of 4 runs passed" in done.out
        garbled[0] = False
        again = assay("run", "--resume", "assay-runs/e1")
        assert again.code == 0, again.err
        assert "4 of 4 runs passed" in again.out
        assert "20% with 0.5 confidence required" in again.out
    stored = assay("evals", "--json").json()["evaluations"]
    assert stored[0]["configuration"] == stored[1]["configuration"]
