"""Running a workflow without a door: what is planned, watched, kept in the work folder and resumed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from assay.running.dataset import read_dataset
from assay.running.runner import RunSettings
from assay.running.workflow import read_workflow
from assay.services.choice import Choice
from assay.services.run import Begun, RunRequest, Watch, WorkflowRun, plan_run, run

FLOW = """
def answer(inputs):
    with open("calls.txt", "a") as log:
        log.write(inputs["q"] + "\\n")
    return inputs["q"].upper()
"""


class Stopped(Exception):
    """The door went away."""


class Seen(Watch):
    """Notes what a door is told."""

    def __init__(self, *, stop: bool = False) -> None:
        self.told: list[Any] = []
        self.stop = stop

    def ran(self) -> None:
        if self.stop:
            raise Stopped

    def running(self, left: int) -> None:
        self.told.append(left)

    def complete(self, run: dict[str, Any]) -> None:
        self.told.append(run["outputs"]["answer"])


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    monkeypatch.chdir(tmp_path)
    Path("bot.py").write_text(FLOW)
    Path("w.yaml").write_text(
        "workflow: bot\nversion: 1\nprofile: rag-measured\ninputs: [q]\noutputs: [answer]\n"
        "adapter: {kind: python, target: 'bot:answer'}\n"
    )
    rows = [{"id": name, "q": name} for name in ("one", "two", "three")]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return RunRequest(
        workflow=read_workflow("w.yaml"),
        dataset=read_dataset("d.jsonl"),
        settings=RunSettings("e1", concurrency=1),
        choice=Choice("workflow", None, None, None),
        folder="work",
        started=datetime(2026, 11, 20, tzinfo=UTC),
    )


def test_an_interrupted_run_resumes_with_what_is_left(request_: RunRequest) -> None:
    with pytest.raises(Stopped):
        run(request_, Seen(stop=True))
    with pytest.raises(Begun) as refused:
        plan_run(request_)
    assert not refused.value.finished
    seen = Seen()
    result = run(structs.replace(request_, resume=True), seen)
    assert seen.told == [2, "TWO", "THREE"]
    assert Path("calls.txt").read_text().split() == ["one", "two", "three"]
    assert [graded.grade.run_id for graded in result.graded] == ["e1:one", "e1:two", "e1:three"]
    assert result.evaluation.totals.n == len(Path("work", "runs.jsonl").read_text().splitlines())
    with pytest.raises(Begun) as refused:
        plan_run(request_)
    assert refused.value.finished


def test_a_plan_runs_nothing_and_names_the_samples(request_: RunRequest) -> None:
    asked = structs.replace(request_, chosen=["three", "two"], limit=1, folder=None)
    plan = plan_run(asked)
    assert (plan.samples, plan.left_out) == (2, 1)
    assert plan.only is not None
    assert (plan.only.of, plan.only.samples) == (3, ["two"])
    assert any("no source in this configuration" in sentence for sentence in plan.warnings)
    assert not Path("calls.txt").exists()
    with WorkflowRun(plan) as work:
        work.execute()
        assert [tree["outputs"]["answer"] for tree in work.trees()] == ["TWO"]
    assert not Path("work").exists()
