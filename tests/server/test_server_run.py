"""Executions: the server runs what its operator offers, and nothing else; each run is told live,
graded and kept, whatever becomes of it.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

import assay.views.events as published
from assay.cli.main import run as command
from assay.project.release import ReleaseSettings
from assay.running.catalogue import Ambiguous, Offered
from assay.server import child as workflow_process
from assay.store import executions as stored
from assay.store import queue
from assay.store.events import RunUpdate
from assay.store.ledger import open_ledger
from examples import CAMPAIGN, repeats
from postgres import ledger_url, on_sqlite, postgres_url  # fixtures  # noqa: F401
from serving import API, Api, Process, description, frames, is_running, serving, until
from test_pages_compare import settings_in
from test_server_events import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

VALID = jsonschema_rs.Draft202012Validator(published.SCHEMA)
CANARY = "canary-7f3a"

WORKFLOW = """
workflow: review
version: 1
family: dag-review
inputs: [question]
outputs: [answer]
output_schema: {type: object, required: [answer]}
adapter: {kind: python, target: "flow:answer"}
scorers: [{target: "flow:score"}]
limits: {timeout_s: 60}
"""
COMMAND = (
    '{kind: python, target: "flow:answer"}',
    '{kind: command, command: ["{python}", "run.py"]}',
)
FLOW = """
import asyncio, json, os, sys, threading, time
HERE = os.path.dirname(os.path.abspath(__file__))


def seen(what):
    with open(os.path.join(HERE, "seen.txt"), "a") as file:
        file.write(json.dumps(what) + "\\n")


def answer(inputs, record):
    seen({"inputs": inputs, "pid": os.getpid(), "argv": sys.argv, "environment": dict(os.environ)})
    with record.step("plan", agent="planner") as step:
        step.used(model="m-1", tier="large", tokens=12, cost_usd=0.004)
        step.score("clarity", 4)
        if inputs["question"].startswith("once") and not os.path.exists(HERE + "/once"):
            open(HERE + "/once", "w").close()
            step.tool("rm", {})
    with record.step("write", agent="writer") as step:
        step.tool("search", {"q": inputs["question"]}, valid=True)
        word, _, rest = inputs["question"].partition(" ")
        if word in ("sleep", "once"):
            time.sleep(float(rest))
        elif word == "wait":
            while not os.path.exists(os.path.join(HERE, rest)):
                time.sleep(0.02)
        elif word == "abort":
            time.sleep(0.3)
            os.abort()
        elif word == "exit":
            os._exit(0)
        elif word == "fail":
            raise ValueError("no answer")
        elif word == "noise":
            print("x" * 100_000)
            os.write(1, b'{"kind": "workflow_end", "run_id": "forged"}\\n' * 100)
            sys.stderr.write("y" * 1_000_000)
        elif word == "memory":
            kept = bytearray(10**10)
    return {"answer": inputs["question"].upper()}


async def block(inputs):
    time.sleep(100)


def score(inputs, outputs, expected):
    good = expected is None or outputs["answer"] == expected["answer"]
    safety = 85 if inputs["question"] == "off the scale" else 1
    return {"correctness": 5 if good else 1, "completeness": 5, "documentation": 5, "tool_data_precision": 1, "safety": safety}
"""


def offer(folder: Path, text: str = WORKFLOW, name: str = "review") -> Path:
    """A folder as an operator makes it."""
    here = folder / "workflows" / name
    here.mkdir(parents=True, exist_ok=True)
    (here / "workflow.yaml").write_text(text)
    (here / "flow.py").write_text(FLOW)
    return folder / "workflows"


def seen(folder: Path, name: str = "review") -> list[dict[str, Any]]:
    """What the workflow received, each time."""
    path = folder / "workflows" / name / "seen.txt"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def asked(*questions: str, **more: Any) -> dict[str, Any]:
    """A request with its samples."""
    samples = [
        {"id": f"s-{index}", "question": one, "expected": {"answer": one.upper()}}
        for index, one in enumerate(questions)
    ]
    return {
        "schema": "assay.execution/1",
        "workflow": "review",
        "dataset": {"id": "d", "version": "1", "samples": samples},
        **more,
    }


def over(call: Any, made: dict[str, Any], *, timeout: float = 60) -> dict[str, Any]:
    """The execution once it is over. `call` gets a path and returns the document there."""

    def check() -> Any:
        found = call(f"/executions/{made['execution']}?limit=1000&wait=10")
        return found if found["state"] in ("done", "failed", "cancelled") else None

    found: dict[str, Any] = until(check, seconds=timeout)
    return found


def kinds(text: str) -> list[str]:
    return [kind for _, kind, _ in frames(text)]


@contextmanager
def executing(url: str, folder: Path, text: str = WORKFLOW, **changes: Any) -> Iterator[Api]:
    """A server in this process that offers the workflow."""
    with serving(url, workflows=str(offer(folder, text)), **changes) as api:
        yield api


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


def ask(api: Api, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An accepted execution."""
    answer = api.post("/runs", body, **more)
    assert answer.status_code == 202, answer.text
    made: dict[str, Any] = answer.json()
    return made


def finished(api: Api, made: dict[str, Any]) -> dict[str, Any]:
    return over(lambda path: api.get(path).json(), made)


# --- a run from its start to its grade


@pytest.mark.req("W-073", "W-077", "W-082", "W-085")
@on_sqlite
def test_the_server_runs_a_workflow_and_each_run_is_told_graded_and_kept(
    ledger_url: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    with executing(ledger_url, tmp_path) as api:
        made = ask(api, asked("one", "two", "fail it"))
        assert (made["state"], made["count"], len(made["runs"])) == ("queued", 3, 3)
        at = f"/executions/{made['execution']}"
        assert api.get(f"{at}?wait=60").json()["state"] == "done"
        assert api.get(f"{at}?wait=61").status_code == 422
        found = finished(api, made)
        assert found["counts"] == {
            "runs": 3,
            "queued": 0,
            "executing": 0,
            "evaluating": 0,
            "done": 3,
            "failed": 0,
            "cancelled": 0,
        }
        assert [(one["sample_id"], one["passed"]) for one in found["runs"]] == [
            ("s-0", True),
            ("s-1", True),
            ("s-2", False),
        ]
        for one, listed in zip(found["runs"], made["runs"], strict=True):
            assert one["events"] == listed["events"]
            events = frames(api.client.get(one["events"]).text)
            assert [kind for _, kind, _ in events] == [
                "workflow_start",
                "step_start",
                "step_end",
                "step_start",
                "step_end",
                "workflow_end",
                "evaluation_start",
                "evaluation_complete",
            ]
            for _, _, data in events:
                assert not list(VALID.iter_errors(data)), next(
                    iter(VALID.iter_errors(data))
                ).message
            last = events[-1][2]
            assert last["hard_gates"]["overall_status_success"]["status"] == (
                "pass" if one["passed"] else "fail"
            )
            assert next(
                (step["name"], step["agent"], step["status"]) for step in last["step_scores"]
            ) == ("plan", "planner", "success")
            assert last["step_scores"][0]["scores"]["clarity"]
            assert {one["agent"] for one in last["agent_scores"]} == {"planner", "writer"}
            record = api.get(f"/runs/{one['digest']}").json()["record"]
            assert record["metadata"]["workflow_digest"] == made["workflow"]["digest"]
            assert record["metadata"]["dataset_digest"] == made["dataset"]["digest"]
            assert record["steps"][0]["model"] == "m-1"
            stored_grade = api.get(f"/runs/{one['digest']}/grade").json()
            assert {key: last[key] for key in stored_grade} == stored_grade
        assert found["runs"][2]["grade"] == "F"
        whole = api.get("/evaluations/latest").json()["record"]
        assert (whole["source"], whole["totals"]["n"], whole["totals"]["passed"]) == ("run", 3, 2)
        assert [one["digest"] for one in whole["runs"]] == [one["digest"] for one in found["runs"]]
        assert (
            "ValueError: no answer"
            in api.get(f"/runs/{found['runs'][2]['digest']}").json()["record"]["metadata"]["error"]
        )
        assert (len(api.get("/executions").json()["items"]), len(seen(tmp_path))) == (1, 3), (
            "the same key is the same execution"
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Path]]:
    """A server as a process, and its folder of workflows: `review` and `other`, a command."""
    folder = tmp_path_factory.mktemp("served")
    offered = offer(folder)
    other = WORKFLOW.replace("workflow: review", "workflow: other").replace(*COMMAND)
    offer(folder, other, "other")
    (offered / "other" / "run.py").write_text(
        "import json, os, sys\nfrom flow import seen\ntask = sys.stdin.read()\nseen({'task': task,"
        " 'environment': dict(os.environ), 'argv': sys.argv})\nprint(json.dumps({'outputs':"
        " {'answer': 'x'}}))\n"
    )
    with Process(f"sqlite:///{folder}/ledger.db", "--workflows", str(offered)) as server:
        yield server, offered


@pytest.mark.req("W-085")
def test_a_watcher_sees_steps_as_they_happen_and_the_stream_stays_open_until_the_evaluation(
    served: tuple[Process, Path],
) -> None:
    server, folder = served
    status, made = server.call(
        "POST", "/runs", asked("wait go", "two", "wait go", "four", concurrency=2)
    )
    assert status == 202
    at = f"/executions/{made['execution']}"
    watcher, early = (Watcher(server, made["runs"][place]["run_id"]) for place in (0, 3))
    until(lambda: len(watcher.kinds()) == 4)
    assert watcher.kinds() == ["workflow_start", "step_start", "step_end", "step_start"]
    assert not watcher.ended.is_set()
    until(lambda: server.call("GET", f"{at}?state=done")[1]["counts"]["done"] == 1)
    until(lambda: server.call("GET", f"{at}?state=done")[1]["counts"]["executing"] == 2)
    waited = server.call("GET", f"{at}?wait=0.1")[1]
    assert (waited["state"], waited["counts"]["queued"]) == ("running", 1)
    assert (early.kinds(), early.ended.is_set()) == ([], False), "its run hasn't begun"
    (folder / "review" / "go").touch()
    for one in (watcher, early):
        assert one.ended.wait(30)
        assert one.kinds()[-3:] == ["workflow_end", "evaluation_start", "evaluation_complete"]


def test_a_repeated_sample_is_as_many_runs_and_ids_may_hold_anything(
    url: str, tmp_path: Path
) -> None:
    with executing(url, tmp_path) as api:
        body = asked("one", repeat=2, name="night")
        body["dataset"]["samples"][0]["id"] = "a/b c?#%ü\x00"
        made = ask(api, body)
        assert [one["run_id"] for one in made["runs"]] == [
            "night:a/b c?#%ü\x00:1",
            "night:a/b c?#%ü\x00:2",
        ]
        assert finished(api, made)["counts"]["done"] == 2
        for one in made["runs"]:
            assert kinds(api.client.get(one["events"]).text)[-1] == "evaluation_complete"
        again = api.post("/runs", asked("one", name="night"))
        assert again.status_code == 202, "another sample is another run"
        taken = api.post("/runs", {**body, "repeat": 2})
        assert (taken.status_code, taken.json()["where"]) == (409, "name")


# --- what is refused before anything runs


@pytest.mark.req("W-079", "W-085")
@on_sqlite
def test_a_dataset_that_does_not_fit_is_a_422_with_every_reason_once_in_order_and_nothing_runs(
    ledger_url: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    text = WORKFLOW.replace(
        "inputs: [question]", "inputs: {question: , context: , answer: {from: expected.answer}}"
    )
    with executing(ledger_url, tmp_path, text) as api:
        body = asked("one", "two", "three")
        del body["dataset"]["samples"][1]["question"]
        body["dataset"]["samples"][2]["question"] = ""
        refused = api.post("/runs", body)
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["reasons"] == [
            "expected value as input: answer",
            "missing: context",
            "missing: question",
        ]
        assert refused.json()["message"]
        assert api.get("/executions").json()["items"] == []
        time.sleep(0.7)
        assert seen(tmp_path) == []
        assert api.get("/runs").json()["items"] == []


def test_a_server_that_offers_nothing_runs_nothing_and_says_how_to(url: str) -> None:
    with serving(url) as api:
        refused = api.post("/runs", asked("one"))
        assert refused.status_code == 403
        assert "assay serve --workflows DIR" in refused.json()["fix"]


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Path]]:
    """A server whose every request here is refused, so that nothing of one stays for the next, and
    its folder.
    """
    folder = tmp_path_factory.mktemp("refusing")
    with executing(f"sqlite:///{folder}/ledger.db", folder) as api:
        yield api, folder


FORGED: list[dict[str, Any]] = [
    *(
        {"workflow": name}
        for name in (
            "reviev",
            "../workflows/review/workflow.yaml",
            "review/workflow.yaml",
            "flow:answer",
            "/etc/passwd",
            "http://x/y",
        )
    ),
    {"workflow": {"id": "review", "version": "2"}},
    *(
        {"dataset": {"id": name, "version": "1"}}
        for name in ("d", "/etc/passwd", "../seen.txt", "sqlite:///x.db")
    ),
]


@pytest.mark.parametrize("change", FORGED)
def test_only_what_is_offered_can_be_named(refusing: tuple[Api, Path], change: Any) -> None:
    api, folder = refusing
    refused = api.post("/runs", {**asked("one"), **change})
    assert refused.status_code == 404, (change, refused.text)
    assert str(folder) not in refused.text
    if change == {"workflow": "reviev"}:
        assert "Did you mean 'review'?" in refused.json()["detail"]


NONSENSE: list[dict[str, Any]] = [
    *(
        {key: "x"}
        for key in ("adapter", "command", "url", "path", "module", "target", "file", "env")
    ),
    {"workflow": {"id": "review", "adapter": {"kind": "command", "command": ["id"]}}},
    {"dataset": {"id": "d", "version": "1", "file": "/etc/passwd"}},
    {"dataset": {"id": "d", "version": "1", "table": {"url": "sqlite:///x", "name": "t"}}},
    *(
        {"dataset": {"id": "d", "version": "1", "samples": found}}
        for found in ([], [1], [{"id": "", "question": "x"}], [{"id": "1"}, {"id": "1"}])
    ),
    *(
        {"repeat": 0},
        {"repeat": True},
        {"concurrency": 0},
        {"retries": -1},
        {"timeout_s": 0},
        {"timeout_s": 61},
        {"timeout_s": "x"},
        {"name": "../x"},
    ),
    *(
        {"workflow": 3},
        {"workflow": ""},
        {"dataset": []},
        {"dataset": {}},
        {"workflow": {"version": "1"}},
    ),
]


def test_a_request_that_makes_no_sense_is_a_problem(refusing: tuple[Api, Path]) -> None:
    api, _ = refusing
    for change in NONSENSE:
        refused = api.post("/runs", {**asked("one"), **change})
        assert refused.status_code in (400, 404, 422), (change, refused.text)
        assert refused.headers["content-type"] == "application/problem+json"
    assert api.get("/executions").json()["items"] == []


def test_limits_are_kept_and_nobody_else_may_say_what_happens_in_a_run_that_the_server_executes(
    url: str, tmp_path: Path
) -> None:
    with executing(url, tmp_path, run_samples=3, run_queue=1, run_concurrency=2) as api:
        assert api.post("/runs", asked("a", "b", repeat=2)).status_code == 413
        made = ask(api, asked("wait go", concurrency=50))
        assert made["concurrency"] == 2
        refused = api.post("/runs", asked("b"))
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        until(lambda: seen(tmp_path))
        forged = api.post(
            f"/runs/{made['runs'][0]['run_id']}/events",
            {"event": "workflow_end", "run": {"outputs": {"answer": "forged"}}},
        )
        assert forged.status_code == 409
        (tmp_path / "workflows" / "review" / "go").touch()
        digest = finished(api, made)["runs"][0]["digest"]
        assert api.get(f"/runs/{digest}").json()["record"]["outputs"] == {"answer": "WAIT GO"}
        assert api.post("/runs", asked("b")).status_code == 202


def test_a_file_of_the_operators_that_is_at_fault_is_no_fault_of_the_client(
    url: str, tmp_path: Path, assay: Any
) -> None:
    with executing(
        url, tmp_path, WORKFLOW.replace("family: dag-review", "family: dag-reviev")
    ) as api:
        refused = api.post("/runs", asked("one"))
        assert refused.status_code == 500
        assert str(tmp_path) not in refused.text
    offer(
        tmp_path,
        WORKFLOW.replace("strategy", "strategi").replace("version: 1", "version: 1\nstrategi: dag"),
    )
    slip = assay("serve", "--workflows", tmp_path / "workflows")
    assert slip.code == 3
    assert "strategi" in slip.err
    offer(tmp_path, WORKFLOW.replace('"flow:score"', '"flow:score", weight: 0.2'))
    weighted = assay("serve", "--workflows", tmp_path / "workflows")
    assert (weighted.code, "criterion 'score'" in weighted.err) == (3, True)
    assert assay("serve", "--workflows", tmp_path / "nowhere").code == 3
    assert assay("serve", "--datasets", tmp_path).code == 2


# --- datasets in a folder


def test_a_dataset_in_the_folder_is_named_by_its_id_and_its_data_is_not_offered_without_its_description(
    url: str, tmp_path: Path
) -> None:
    data = tmp_path / "datasets"
    data.mkdir()
    (data / "rows.jsonl").write_text(
        "".join(
            json.dumps({"key": number, "q": f"q{number}", "right": CANARY}) + "\n"
            for number in range(3)
        )
    )
    (data / "questions.yaml").write_text(
        "dataset: questions\nversion: 2\nfile: rows.jsonl\nsample_id: key\ninputs: {question:"
        " q}\nexpected: {answer: right}\n"
    )
    (data / "plain.csv").write_text("id,question\n1,one\n2,two\n")
    with executing(url, tmp_path, datasets=str(data)) as api:
        made = ask(
            api,
            {
                "schema": "assay.execution/1",
                "workflow": {"id": "review", "version": 1},
                "dataset": {"id": "questions", "version": "2"},
            },
        )
        assert finished(api, made)["counts"]["done"] == 3
        plain = ask(
            api, {"schema": "assay.execution/1", "workflow": "review", "dataset": {"id": "plain"}}
        )
        assert (plain["dataset"]["version"], plain["count"]) == (
            plain["dataset"]["digest"].removeprefix("sha256:")[:12],
            2,
        )
        assert finished(api, plain)["counts"]["done"] == 2
        hidden = api.post(
            "/runs",
            {"schema": "assay.execution/1", "workflow": "review", "dataset": {"id": "rows"}},
        )
        assert (hidden.status_code, hidden.json()["fix"]) == (404, "Offered: plain, questions.")
        other = api.post(
            "/runs",
            {
                "schema": "assay.execution/1",
                "workflow": "review",
                "dataset": {"id": "questions", "version": "3"},
            },
        )
        assert other.status_code == 404
        (data / "questions.yaml").write_text("dataset: [questions\n")
        unclear = api.post(
            "/runs",
            {"schema": "assay.execution/1", "workflow": "review", "dataset": {"id": "rows"}},
        )
        assert (unclear.status_code, "not YAML" in unclear.text) == (500, True)
        assert CANARY not in json.dumps(seen(tmp_path))


def test_a_dataset_without_a_version_is_found_by_the_one_that_its_content_gives(
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "question": "one"}\n')
    (tmp_path / "first.yaml").write_text("dataset: named\nfile: rows.jsonl\n")
    offered = Offered(str(tmp_path), str(tmp_path))
    made = offered.dataset("named", None).version
    assert offered.dataset("named", made).where == str(tmp_path / "first.yaml")
    (tmp_path / "second.yaml").write_text("dataset: named\nversion: 2\nfile: rows.jsonl\n")
    assert offered.dataset("named", made).where == str(tmp_path / "first.yaml")
    assert offered.dataset("named", "2").where == str(tmp_path / "second.yaml")
    with pytest.raises(Ambiguous, match="offered in 2 versions"):
        offered.dataset("named", None)


def test_what_changes_between_request_and_start_is_refused_by_its_digest(
    url: str, tmp_path: Path
) -> None:
    data = tmp_path / "datasets"
    data.mkdir()
    (data / "plain.jsonl").write_text('{"id": "1", "question": "one"}\n')
    (data / "named.yaml").write_text("dataset: named\nversion: 1\nfile: plain.jsonl\n")
    with executing(url, tmp_path, datasets=str(data)) as api:
        first, second = ask(api, asked("wait go")), ask(api, asked("wait go"))
        assert first["execution"] != second["execution"], "without a key each is another"
        third = ask(
            api, {"schema": "assay.execution/1", "workflow": "review", "dataset": {"id": "named"}}
        )
        fourth = ask(api, asked("five"))
        (data / "plain.jsonl").write_text('{"id": "1", "question": "another"}\n')
        until(lambda: len(seen(tmp_path)) == 2)
        code = tmp_path / "workflows" / "review" / "flow.py"
        code.write_text(code.read_text().replace('correctness": 5', 'correctness": 4'))
        (tmp_path / "workflows" / "review" / "go").touch()
        assert {finished(api, one)["state"] for one in (first, second)} == {"done"}
        for made, what in ((fourth, "code"), (third, "dataset")):
            found = finished(api, made)
            assert (found["state"], found["counts"]["failed"]) == ("failed", 1)
            assert f"the {what} is not the one" in found["faults"][0]["message"]
        events = frames(api.client.get(third["runs"][0]["events"]).text)
        assert [kind for _, kind, _ in events] == ["error"]
        assert not list(VALID.iter_errors(events[0][2]))
        assert len(seen(tmp_path)) == 2


def test_an_execution_is_not_continued_under_other_rules(url: str, tmp_path: Path) -> None:
    with executing(url, tmp_path) as api:
        made = ask(api, asked("wait go"))
        until(lambda: len(seen(tmp_path)) == 1)
    (tmp_path / "workflows" / "review" / "go").touch()
    other = ReleaseSettings(config=str(tmp_path / "assay.yaml"), profile="rag-measured@1")
    with executing(url, tmp_path, release=other) as api:
        found = finished(api, made)
        assert (found["state"], found["counts"]["failed"]) == ("failed", 1)
        assert "would be graded by two sets of rules" in found["faults"][0]["message"]


def test_the_scorers_of_assay_yaml_see_the_runs_that_a_server_executes(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "checks.py").write_text(
        "def brief(outputs):\n    return 1 if len(outputs['answer']) < 9 else 0.5\n\n"
        "def polite(outputs):\n    return outputs['answer'] != 'RUDE', 'a word'\n"
    )
    scorers = "scorers: [{target: 'checks:brief', weight: 0.2}]\ngates: [{target: 'checks:polite'}]"
    settings = settings_in(tmp_path, f"profile: dag-review@1\n{scorers}\n")
    with executing(url, tmp_path, release=settings) as api:
        made = finished(api, ask(api, asked("fine", "rude", "at great length")))
        assert (made["state"], made["counts"]["done"]) == ("done", 3), made["faults"]
        grades = [api.get(f"/runs/{one['digest']}/grade").json() for one in made["runs"]]
        raws = [
            next(item["raw_score"] for item in grade["criteria"] if item["name"] == "brief")
            for grade in grades
        ]
        assert (sorted(raws), len({grade["profile"] for grade in grades})) == ([0.5, 1, 1], 1)
        polite = sorted(grade["hard_gates"]["polite"]["status"] for grade in grades)
        assert polite == ["fail", "pass", "pass"]
        runs = [json.loads(api.services.ledger.get(one["digest"]).body) for one in made["runs"]]
        assert api.post("/evaluations", {"name": "posted", "runs": runs}).status_code == 201
        for name in (made["name"], "posted"):  # the ledger has the profile, which no shelf has
            assert command(["ledger", "replay", name, "--db", url]) == 0
        waiting = ask(api, asked("wait go"))
        (tmp_path / "checks.py").write_text("def brief(outputs):\n    return 1\n")
    (tmp_path / "workflows" / "review" / "go").touch()
    with executing(url, tmp_path, release=settings) as api:
        assert "the code is not the one" in finished(api, waiting)["faults"][0]["message"]
    settings = settings_in(tmp_path, f"{scorers}\n")
    with executing(url, tmp_path, release=settings) as api:
        refused = api.post("/runs", asked("fine"))
        assert (refused.status_code, "no profile to add them to" in refused.text) == (422, True)


# --- gold


@pytest.mark.parametrize("workflow", ["review", "other"])
def test_no_expected_value_reaches_the_workflow_by_any_way(
    served: tuple[Process, Path], workflow: str
) -> None:
    server, folder = served
    body = asked("gold one", "gold two", workflow=workflow)
    for sample in body["dataset"]["samples"]:
        sample |= {
            "expected": {"answer": CANARY, "deep": [{"x": CANARY}]},
            "gold": CANARY,
            "gold_answer": CANARY,
            "Expected-output": CANARY,
        }
        sample["inputs"] = {"question": sample.pop("question"), "expected": CANARY}
    status, made = server.call("POST", "/runs", body)
    assert status == 202, made
    found = over(lambda path: server.call("GET", path)[1], made)
    assert found["counts"]["done"] == 2
    received = (folder / workflow / "seen.txt").read_text()
    assert "gold one" in received
    assert CANARY not in received
    assert "ASSAY_SERVER_SETTINGS" not in received, "it holds the address of the database"
    record = server.call("GET", f"/runs/{found['runs'][0]['digest']}")[1]["record"]
    assert record["expected"]["answer"] == CANARY, "it is evidence all the same"


def test_a_workflow_does_not_get_the_address_of_the_ledger(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_DB", url)
    monkeypatch.setenv("PGPASSWORD", CANARY)
    with executing(url, tmp_path) as api:
        finished(api, ask(api, asked("where")))
    received = (tmp_path / "workflows" / "review" / "seen.txt").read_text()
    assert "where" in received
    assert url not in received
    assert CANARY not in received


# --- workflows that misbehave


def test_a_run_that_takes_its_process_down_is_recorded_as_an_error_and_the_others_are_not(
    url: str, tmp_path: Path
) -> None:
    with executing(url, tmp_path, f"{WORKFLOW}forbidden_tools: [rm]\n") as api:
        found = finished(
            api,
            ask(api, asked("once 1", "abort", "exit", concurrency=2, retries=0)),
        )
        assert found["state"] == "done"
        records = [api.get(f"/runs/{one['digest']}").json()["record"] for one in found["runs"]]
        assert [one["status"] for one in records] == ["success", "error", "error"]
        assert "SIGABRT" in records[1]["metadata"]["error"]
        assert "exit code 0" in records[2]["metadata"]["error"]
        assert [(one["name"], one["status"]) for one in records[1]["steps"]] == [
            ("plan", "success"),
            ("write", "cancelled"),
        ], "the steps that were told are kept, also the one it died in"
        assert (records[0]["retries"], "SIGABRT" in records[0]["metadata"]["begun_again"]) == (
            1,
            True,
        )
        assert [one["name"] for one in records[0]["tool_calls"]] == ["rm", "search"], (
            "another try does not undo a forbidden call"
        )
        assert [one["passed"] for one in found["runs"]][1:3] == [False, False]
        events = kinds(api.client.get(found["runs"][0]["events"]).text)
        assert events.count("workflow_start") == 2
        assert events.count("workflow_end") == events.count("evaluation_complete") == 1


def test_output_memory_a_hanging_run_and_a_score_off_the_scale_harm_no_other_run(
    url: str, tmp_path: Path
) -> None:
    with executing(url, tmp_path, run_memory_bytes=2 * 1024**3) as api:
        made = ask(api, asked("sleep 50", "noise", "memory", "one", "off the scale", timeout_s=3))
        assert api.get("/health").status_code == 200
        found = finished(api, made)
        assert [one["passed"] for one in found["runs"]] == [False, True, False, True, False]
        records = [api.get(f"/runs/{one['digest']}").json()["record"] for one in found["runs"]]
        statuses = ["timeout", "success", "error", "success", "success"]
        assert [one["status"] for one in records] == statuses
        assert "MemoryError" in records[2]["metadata"]["error"]
        assert "safety" not in records[4].get("scores", {})
        assert "the raw score is 85" in records[4]["metadata"]["scorer_errors"]["flow:score"]


def test_a_workflow_that_stops_its_process_from_answering_is_ended_and_recorded_as_a_timeout(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sooner = "from assay.running import child; child.SPARE_S = 1; child.main()"
    if not CAMPAIGN:  # as without it, only sooner
        monkeypatch.setattr(workflow_process, "COMMAND", (sys.executable, "-P", "-c", sooner))
    with executing(url, tmp_path, WORKFLOW.replace("flow:answer", "flow:block")) as api:
        found = finished(api, ask(api, asked("one", timeout_s=1)))
        record = api.get(f"/runs/{found['runs'][0]['digest']}").json()["record"]
        assert (record["status"], found["runs"][0]["passed"]) == ("timeout", False)
        assert "stopped answering" in record["metadata"]["error"]


def test_a_workflow_that_cannot_be_loaded_fails_the_execution_and_every_stream_ends(
    url: str, tmp_path: Path
) -> None:
    with executing(url, tmp_path, WORKFLOW.replace("flow:answer", "flow:nothing")) as api:
        made = ask(api, asked("one", "two"))
        found = finished(api, made)
        assert (found["state"], found["counts"]["failed"]) == ("failed", 2)
        assert "nothing" in found["faults"][0]["message"]
        for one in made["runs"]:
            assert kinds(api.client.get(one["events"]).text) == ["error"]
        assert api.get("/runs").json()["items"] == []


# --- once, whatever happens


@on_sqlite
def test_cancelling_ends_the_process_records_what_had_begun_and_counts_the_rest(
    ledger_url: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder = offer(tmp_path, WORKFLOW.replace(*COMMAND))
    (folder / "review" / "run.py").write_text(
        "import os, time\nfrom flow import seen\nseen({'pid': os.getpid(), 'parent':"
        " os.getppid()})\ntime.sleep(60)\n"
    )
    with serving(ledger_url, workflows=str(folder)) as api:
        made = ask(api, asked("a", "b", "c", concurrency=1))
        until(lambda: seen(tmp_path))
        assert api.post(f"/executions/{made['execution']}/cancel").status_code == 202
        found = finished(api, made)
        assert (found["state"], found["counts"]["done"], found["counts"]["cancelled"]) == (
            "cancelled",
            1,
            2,
        )
        record = api.get(f"/runs/{found['runs'][0]['digest']}").json()["record"]
        assert (record["status"], found["runs"][0]["passed"]) == ("cancelled", False)
        assert [kinds(api.client.get(one["events"]).text)[-1] for one in made["runs"]] == [
            "evaluation_complete",
            "error",
            "error",
        ]
        assert len(api.get("/runs").json()["items"]) == 1
        until(lambda: not any(is_running(pid) for one in seen(tmp_path) for pid in one.values()))
        assert api.post(f"/executions/{made['execution']}/cancel").status_code == 202, (
            "to cancel twice is to cancel"
        )
        done = ask(api, asked("a", workflow="review"))
        api.post(f"/executions/{done['execution']}/cancel")
        assert finished(api, done)["state"] == "cancelled"


def test_a_server_that_ends_gives_the_execution_back_and_its_process_goes_with_it(
    url: str, tmp_path: Path
) -> None:
    folder = offer(tmp_path)
    with Process(url, "--workflows", str(folder)) as server:
        made = server.call("POST", "/runs", asked("one", "wait go", concurrency=1))[1]
        until(lambda: len(seen(tmp_path)) == 2)
        code, _ = server.end()
        assert code in (0, -15)
    until(lambda: not any(is_running(one["pid"]) for one in seen(tmp_path)))
    (folder / "review" / "go").touch()
    with Process(url, "--workflows", str(folder)) as server:
        found = over(lambda path: server.call("GET", path)[1], made)
        assert [one["passed"] for one in found["runs"]] == [True, True]
    assert [one["inputs"]["question"] for one in seen(tmp_path)] == ["one", "wait go", "wait go"]


FINISHED = repeats(4, 20)
"""Runs that are done when the server is killed."""


@on_sqlite
def test_after_a_kill_what_is_finished_is_not_repeated_and_no_stream_tells_two_ends(
    ledger_url: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder = offer(tmp_path)
    questions = [f"q{number}" for number in range(FINISHED)] + ["wait go", "wait go"]
    with Process(ledger_url, "--workflows", str(folder)) as server:
        made = server.call("POST", "/runs", asked(*questions, concurrency=2))[1]
        until(
            lambda: (
                server.call("GET", f"/executions/{made['execution']}")[1]["counts"]["done"]
                == FINISHED
            )
        )
        until(lambda: len(seen(tmp_path)) == FINISHED + 2)
        watcher = Watcher(server, made["runs"][FINISHED]["run_id"])
        watcher.until("step_end")
        server.kill()
        assert watcher.ended.wait(10)
    until(lambda: not any(is_running(one["pid"]) for one in seen(tmp_path)))
    (folder / "review" / "go").touch()
    with Process(ledger_url, "--workflows", str(folder)) as server:
        later = Watcher(server, made["runs"][FINISHED]["run_id"], last=len(watcher.kinds()))
        found = over(lambda path: server.call("GET", path)[1], made)
        assert (found["state"], found["counts"]["done"]) == ("done", FINISHED + 2)
        assert later.ended.wait(20)
        whole = watcher.kinds() + later.kinds()
        assert whole.count("workflow_start") == 2
        assert whole.count("workflow_end") == whole.count("evaluation_complete") == 1
        assert whole[-1] == "evaluation_complete"
        record = server.call("GET", f"/runs/{found['runs'][FINISHED]['digest']}")[1]["record"]
        assert [one["name"] for one in record["steps"]] == ["plan", "write"]
    received = [one["inputs"]["question"] for one in seen(tmp_path)]
    assert all(received.count(one) == 1 for one in questions[:FINISHED])
    assert received.count("wait go") == 4
    with open_ledger(ledger_url) as ledger:
        assert ledger.count("run").n == FINISHED + 2


@on_sqlite
def test_two_servers_on_one_ledger_take_an_execution_once(ledger_url: str, tmp_path: Path) -> None:  # noqa: F811
    folder = offer(tmp_path)
    with (
        Process(ledger_url, "--workflows", str(folder)) as first,
        Process(ledger_url, "--workflows", str(folder)) as second,
    ):
        made = [
            first.call("POST", "/runs", asked("one", "two", name=f"n{number}"))[1]
            for number in range(repeats(2, 6))
        ]
        for one in made:
            assert over(lambda path: second.call("GET", path)[1], one)["counts"]["done"] == 2
    assert len(seen(tmp_path)) == 2 * len(made)


def test_an_owner_that_was_taken_for_dead_writes_nothing_more(
    ledger_url: str,  # noqa: F811
) -> None:
    def made(name: str) -> stored.Job:
        return stored.new(name, "default", b"{}", author=None)

    def claim(owner: str, **more: Any) -> stored.Job | None:
        return stored.claim(database, owner, **more)

    with open_ledger(ledger_url) as ledger:
        database = ledger.database
        planned = [stored.Planned("n:1", "1", 1), stored.Planned("n:2", "2", 1)]
        stored.create(database, made("e1"), planned)
        with pytest.raises(stored.RunTaken, match="n:1"):
            stored.create(database, made("e2"), planned)
        assert stored.find(database, "default", "e2") is None, "nothing is left of what was refused"
        assert stored.find(database, "other", "e1") is None
        assert claim("idle", able=False) is None
        first = claim("a")
        assert first is not None
        assert claim("b") is None
        start = [("workflow_start", lambda _position: b"{}")]
        begun = [RunUpdate("n:1", start, ("queued",), "executing", b"{}")]
        assert stored.record(database, first, "a", begun) == {"n:1": 1}
        second = claim("b", is_dead=lambda name: name == "a")
        assert second is not None
        assert stored.record(database, first, "a", begun) is None
        assert stored.report(database, first, "a") is None
        assert stored.report(database, first, "a", {}, state=stored.DONE) is None
        assert [one.state for one in stored.runs(database, "e1")] == ["executing", "queued"]
        stale = queue.now_ms() + 2 * stored.STALE_MS
        assert claim("c", at_ms=stale) is not None
        cancelled = stored.cancel(database, first)
        assert cancelled is not None
        assert stored.report(database, second, "c", state=stored.QUEUED) == stored.CANCELLING
        ended = claim("d", able=False)
        assert ended is not None
        assert ended.state == stored.CANCELLING


def test_an_execution_is_described_beside_evidence_in_the_published_description() -> None:
    operation = description()["paths"][f"{API}/runs"]["post"]
    forms = operation["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    assert [form.get("properties", {}).get("schema") for form in forms] == [
        {"enum": ["assay.run/1"]},
        None,
        {"enum": ["assay.execution/1"]},
    ]
    assert "202" in operation["responses"]
