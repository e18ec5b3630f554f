"""`assay run` as a user runs it: exit codes, folders, resuming after a kill, repeats, events, and
what it refuses.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from assay.running.local_code import code_digest
from assay.views.events import SCHEMA
from commands import Running
from documents import scorecard
from examples import repeats

FLOW = """
import json, sys, time
def answer(inputs, record):
    print("noise on standard output")
    time.sleep(inputs.get("wait", 0))
    with record.step("find", agent="finder") as step:
        step.tool("search", {"q": inputs["question"]})
        step.used(model="m-1", tokens=7, cost_usd=0.001)
    record.handoff("finder", "writer")
    with record.step("write", agent="writer"):
        if inputs["question"] == "boom":
            raise ValueError("boom")
    return {"answer": inputs["question"].upper()}
"""
WORKFLOW: dict[str, Any] = {
    "workflow": "faq",
    "version": "3",
    "family": "tool-use",
    "profile": "tool-use-measured",
    "inputs": {"question": None, "wait": {"default": 0}},
    "outputs": ["answer"],
    "output_schema": {"type": "object"},
    "tools": [{"name": "search", "parameters": {"type": "object", "required": ["q"]}}],
    "forbidden_tools": [],
    "handoff_rules": [["finder", "writer"]],
    "adapter": {"kind": "python", "target": "flow:answer"},
}
NOW = "2026-11-15T10:00:00Z"


def sample(name: str, question: str, **more: Any) -> dict[str, Any]:
    expected = {
        "answer": question.upper(),
        "tool_calls": [{"name": "search", "arguments": {"q": [question]}}],
        "handoffs": [{"from": "finder", "to": "writer"}],
    }
    return {"id": name, "question": question, "expected": expected, **more}


def project(folder: Path, rows: list[dict[str, Any]], **changes: Any) -> None:
    (folder / "flow.py").write_text(FLOW)
    (folder / "workflow.yaml").write_text(json.dumps({**WORKFLOW, **changes}))
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_workflow_is_run_on_a_dataset_and_graded(assay: Any, tmp_path: Path) -> None:
    project(tmp_path, [sample("a", "one"), sample("b", "boom")])
    done = assay(
        "run",
        "--dataset",
        "samples.jsonl",
        "--work",
        "w",
        "-o",
        "grades.json",
        "-o",
        "report.md",
        "--now",
        NOW,
    )
    assert done.code == 1, done.err
    assert "noise" not in done.out
    assert "noise" in done.err
    results = {
        one["sample_id"]: one
        for one in json.loads((tmp_path / "grades.json").read_text())["results"]
    }
    assert results["b"]["hard_gates"]["overall_status_success"]["status"] == "fail"
    assert results["a"]["hard_gates"]["handoff_graph_respected"]["status"] == "pass"
    assert results["a"]["agent_scores"]
    assert (tmp_path / "report.md").read_text().count("faq") > 0
    runs = [json.loads(line) for line in (tmp_path / "w" / "runs.jsonl").read_text().splitlines()]
    assert [run["run_id"] for run in runs] == ["faq-20261115T100000Z:a", "faq-20261115T100000Z:b"]
    assert runs[1]["metadata"]["error"] == "ValueError: boom"


def test_json_is_one_document_on_standard_output_whatever_the_workflow_prints(
    assay: Any, tmp_path: Path
) -> None:
    project(tmp_path, [sample("a", "one")])
    (tmp_path / "flow.py").write_text(
        FLOW.replace(
            'print("noise on standard output")',
            'import os; os.write(1, b"raw noise"); os.system("echo child noise")',
        )
    )
    done = assay("run", "--dataset", "samples.jsonl", "--json")
    assert done.json()["schema"] == "assay.grades/1"
    assert "raw noise" in done.err
    assert "child noise" in done.err


def test_what_is_run_and_why_it_is_scored_so_is_said_at_the_start(
    assay: Any, tmp_path: Path
) -> None:
    project(tmp_path, [sample("a", "one")], family=None, profile=None, strategy="multi_agent")
    done = assay("run", "--dataset", "samples.jsonl", "--work", "w")
    assert "profile tool-use, the default of the strategy 'multi_agent'" in done.err
    assert (
        json.loads((tmp_path / "w" / "runs.jsonl").read_text())["workflow"]["profile"] == "tool-use"
    )


@pytest.mark.parametrize(
    ("options", "words"), [((), "--limit left out 2 of 3 samples"), (("--limit", "3"), "")]
)
def test_samples_that_a_limit_leaves_out_are_counted(
    assay: Any, tmp_path: Path, options: Any, words: str
) -> None:
    project(tmp_path, [sample("a", "one"), sample("b", "two"), sample("c", "three")])
    (tmp_path / "assay.yaml").write_text("commands: {run: {limit: 1}}\n")
    done = assay("run", "--dataset", "samples.jsonl", "--no-store", *options)
    assert words in done.err
    assert ("left out" in done.err) is bool(words)


def test_a_workflow_without_rules_on_tools_is_told_how_to_declare_that_there_are_none(
    assay: Any, tmp_path: Path
) -> None:
    run = ("run", "workflow.yaml", "--dataset", "samples.jsonl", "--no-store")
    project(tmp_path, [sample("s-1", "why")], forbidden_tools=None, handoff_rules=None)
    line = "declare that in the workflow: `forbidden_tools: []`, `handoff_rules: []`."
    assert line in assay(*run).err
    project(tmp_path, [sample("s-1", "why")], forbidden_tools=[], handoff_rules=[])
    assert "If there are none" not in assay(*run).err


def test_a_dataset_without_expected_answers_is_told_before_anything_runs(
    assay: Any, tmp_path: Path
) -> None:
    said = (
        "criterion final_task_correctness has no source in this configuration: it needs"
        " `expected.answer`, which the dataset doesn't have."
    )
    rows = [sample("s-1", "why")]
    project(tmp_path, rows)
    assert said not in assay("run", "workflow.yaml", "--dataset", "samples.jsonl").err
    del rows[0]["expected"]["answer"]
    project(tmp_path, rows)
    done = assay("run", "workflow.yaml", "--dataset", "samples.jsonl")
    assert done.code == 1
    assert said in done.err


def test_a_dataset_that_does_not_fit_is_exit_3_with_reasons_and_nothing_runs(
    assay: Any, tmp_path: Path
) -> None:
    project(tmp_path, [sample("a", "one"), {"id": "b", "query": "two"}])
    (tmp_path / "flow.py").write_text("raise SystemExit('this module must not be loaded')")
    done = assay("run", "--dataset", "samples.jsonl", "--json")
    assert done.code == 3
    error = json.loads(done.err.splitlines()[-1])["error"]
    assert error["code"] == "RUN-003"
    assert "missing: question" in error["message"]
    assert not (tmp_path / "assay-runs").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run",), 2, "--dataset is missing. `assay init` writes"),
        (("run", "--dataset", "samples.jsonl", "--repeat", "0"), 2, "--repeat"),
        (("run", "--dataset", "samples.jsonl", "--concurrency", "0"), 2, "--concurrency"),
        (("run", "--dataset", "samples.jsonl", "--timeout", "-1"), 2, "--timeout"),
        (("run", "--dataset", "samples.jsonl", "--name", "../x"), 2, "--name"),
        (("run", "--dataset", "absent.jsonl"), 3, "absent.jsonl"),
        (("run", "absent.yaml", "--dataset", "samples.jsonl"), 3, "absent.yaml"),
        (("run", "--dataset", "samples.jsonl", "--profile", "tool-us"), 3, "tool-us"),
        (("run", "--resume", "nowhere"), 3, "nowhere"),
        (("run", "--resume", "nowhere", "--name", "x"), 2, "--resume"),
        (("run", "--dataset", "samples.jsonl", "--work", "flow.py/w"), 2, "work folder"),
        (("run", "--dataset", "samples.jsonl", "--events", "no/such/place"), 2, "no/such/place"),
    ],
)
def test_misuse_is_said_in_words_and_costs_no_call(
    assay: Any, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    project(tmp_path, [sample("a", "one")])
    (tmp_path / "flow.py").write_text("def answer(i):\n  open('called', 'w').close()\n  return {}")
    done = assay(*arguments)
    assert done.code == code, done.err
    assert words in done.err
    assert not (tmp_path / "called").exists()


def test_a_run_in_a_folder_without_a_workflow_says_how_to_name_one(assay: Any) -> None:
    done = assay("run", "--dataset", "samples.jsonl")
    words = "no workflow is named, and there is no workflow.yaml here. `assay init` writes"
    assert (done.code, words in done.err) == (2, True), done.err


def test_a_module_that_ends_the_process_never_ends_the_gate_with_0(
    assay: Any, tmp_path: Path
) -> None:
    project(tmp_path, [sample("a", "one")])
    (tmp_path / "flow.py").write_text(FLOW + "sys.exit(0)\n")
    done = assay("run", "workflow.yaml", "--dataset", "samples.jsonl")
    assert done.code == 3
    assert "ends the process when it is loaded" in done.err


@pytest.mark.parametrize(
    "ending", ["asyncio.get_running_loop().stop()", "[t.cancel() for t in asyncio.all_tasks()]"]
)
def test_a_workflow_that_stops_the_event_loop_is_refused(
    assay: Any, tmp_path: Path, ending: str
) -> None:
    project(tmp_path, [sample("a", "one")])
    (tmp_path / "flow.py").write_text(
        f"import asyncio\nasync def answer(inputs):\n    {ending}\n    await asyncio.sleep(1)\n"
    )
    done = assay("run", "workflow.yaml", "--dataset", "samples.jsonl")
    assert (done.code, "stopped the event loop" in done.err) == (3, True), done.err


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.execvp('true', ['true'])"])
def test_a_workflow_that_ends_or_replaces_the_process_fails_its_run(
    assay: Any, tmp_path: Path, ending: str
) -> None:
    project(tmp_path, [sample("a", "one"), sample("b", "boom")])
    forks = "pid = os.fork()\n    if not pid: os._exit(0)\n    os.waitpid(pid, 0)\n"
    when = f"    if inputs['question'] == 'boom': {ending}\n    return start(inputs, record)\n"
    flow = FLOW.replace("def answer", "def start")
    (tmp_path / "flow.py").write_text(
        f"import os\n{flow}def answer(inputs, record):\n    {forks}{when}"
    )
    done = assay("run", "workflow.yaml", "--dataset", "samples.jsonl", "--work", "w", "--json")
    assert done.code == 1, done.err
    kept = map(json.loads, (tmp_path / "w" / "runs.jsonl").read_text().splitlines())
    assert {one["dataset"]["sample_id"]: one["status"] for one in kept} == {
        "a": "success",
        "b": "error",
    }


@pytest.mark.parametrize(
    "later",
    [
        "atexit.register(lambda: os._exit(0))",
        "Thread(target=lambda: (main_thread().join(), os._exit(0))).start()",
    ],
    ids=["handler", "thread"],
)
def test_a_workflow_that_ends_the_process_later_never_ends_the_gate_with_0(
    assay_process: Any, tmp_path: Path, later: str
) -> None:
    project(tmp_path, [sample("b", "boom")])
    imports = "import atexit\nimport os\nfrom threading import Thread, main_thread\n"
    (tmp_path / "flow.py").write_text(f"{imports}{later}\n{FLOW}")
    done = assay_process("run", "workflow.yaml", "--dataset", "samples.jsonl")
    assert done.code == 1, done.err


def test_a_family_that_no_profile_serves_is_found_before_anything_runs(
    assay: Any, tmp_path: Path
) -> None:
    project(tmp_path, [sample("a", "one")], profile=None, family="tool-usee")
    done = assay("run", "--dataset", "samples.jsonl")
    assert done.code == 3
    assert "tool-use" in done.err
    assert "noise" not in done.err


def test_repeats_give_pass_at_k_and_name_the_samples_that_sometimes_pass(
    assay: Any, tmp_path: Path
) -> None:
    project(tmp_path, [sample("steady", "one"), sample("flaky", "two")])
    (tmp_path / "flow.py").write_text(
        FLOW.replace(
            "time.sleep(", "inputs['question'] == 'two' and record_turn() and 1/0\n    time.sleep("
        )
        + "\nturns = []\ndef record_turn():\n    turns.append(1)\n    return len(turns) % 2\n"
    )
    done = assay(
        "run", "--dataset", "samples.jsonl", "--repeat", "4", "--work", "w", "--concurrency", "1"
    )
    assert done.code == 1
    found = json.loads((tmp_path / "w" / "repeats.json").read_text())
    assert (found["repeat"], found["samples"], found["flaky"]) == (4, 2, ["flaky"])
    assert found["pass@1"] == pytest.approx(0.75)
    assert found["pass@4"] == 1.0
    assert found["pass^4"] == 0.5
    assert "flaky" in done.err


@pytest.mark.req("W-077", "W-085")
def test_events_are_written_as_they_happen_and_end_in_the_evaluation(
    assay: Any, tmp_path: Path
) -> None:
    project(tmp_path, [sample("a", "one"), sample("b", "boom")])
    assay("run", "--dataset", "samples.jsonl", "--events", "events.jsonl")
    validator = jsonschema_rs.Draft202012Validator(SCHEMA)
    stories: dict[str, list[Any]] = {}
    for line in (tmp_path / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        validator.validate(event)
        stories.setdefault(event["run_id"], []).append(event)
    for story in stories.values():
        kinds = [event["event"] for event in story]
        assert kinds == [
            "workflow_start",
            *["step_start", "step_end"] * 2,
            "workflow_end",
            "evaluation_start",
            "evaluation_complete",
        ]
        assert [event["id"] for event in story] == list(range(1, len(story) + 1))
        assert story[-1]["hard_gates"]["overall_status_success"]["status"] in ("pass", "fail")
        assert story[-1]["step_scores"]


def test_grades_by_a_projects_own_profile_replay_after_it_was_changed(
    assay: Any, tmp_path: Path
) -> None:
    criteria = [
        {"id": "right", "label": "Right", "weight": 1, "layer": 1, "role": "correctness",
         "formula": "ratio", "measure": "contains_expected"},
        {"id": "fast", "label": "Fast", "weight": 1, "layer": 3, "formula": "lower_is_better",
         "params": {"slo_good": 8000, "slo_bad": 30000}, "measure": "latency"},
    ]  # fmt: skip
    profile = {"profile": "mine", "version": 1, "title": "Mine", "family": "f", "gates": []}
    project(tmp_path, [sample("a", "one")], inputs=["question"], profile=None, family=None)
    for name, weight in (("before", 1), ("after", 3)):
        criteria[0]["weight"] = weight
        config = {"dataset": "samples.jsonl", "profile": {**profile, "criteria": criteria}}
        (tmp_path / "assay.yaml").write_text(json.dumps(config))
        assert assay("run", "--name", name).code in (0, 1)
    for name in ("before", "after", "before:a", "after:a"):
        again = assay("ledger", "replay", name)
        assert (again.code, ": the same, " in again.out) == (0, True), again.err


def test_a_run_can_be_stored_and_replayed(assay: Any, tmp_path: Path) -> None:
    project(tmp_path, [sample("a", "one")])
    done = assay(
        "run", "--dataset", "samples.jsonl", "--store", "sqlite:///ledger.db", "--name", "n"
    )
    assert done.code in (0, 1), done.err
    assert assay("ledger", "verify", "--db", "sqlite:///ledger.db").code == 0
    assert assay("ledger", "replay", "n:a", "--db", "sqlite:///ledger.db").code == 0


# --- resuming


def finished(folder: Path) -> int:
    try:
        return (folder / "w" / "journal.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def test_killed_at_random_points_and_resumed_gives_the_bytes_of_an_undisturbed_run(
    assay: Any, tmp_path: Path
) -> None:
    wanted = repeats(2, 10)
    count = 12 + 6 * wanted
    rows = [sample(f"s{i}", f"q{i}" if i % 7 else "boom", wait=0.05) for i in range(count)]
    calm = tmp_path / "calm"
    calm.mkdir()
    project(calm, rows)
    project(tmp_path, rows)
    options = (
        "--dataset",
        "samples.jsonl",
        "--work",
        "w",
        "--concurrency",
        "2",
        "--name",
        "n",
        "--now",
        NOW,
    )
    Running("run", *options, "-o", "grades.json", cwd=calm).communicate()
    dice = random.Random(7)
    kills, begun = 0, finished(tmp_path)
    for turn in range(40):
        process = Running(
            "run",
            *(options if turn == 0 else ("--resume", "w", "--concurrency", "2")),
            cwd=tmp_path,
        )
        target = finished(tmp_path) + dice.randrange(0, 5)
        deadline = time.monotonic() + 30
        while (
            finished(tmp_path) < target and process.poll() is None and time.monotonic() < deadline
        ):
            time.sleep(0.005)
        time.sleep(dice.random() * 0.2)
        process.end_at_once()
        kills += process.returncode == -signal.SIGKILL
        if kills >= wanted or (tmp_path / "w" / "runs.jsonl").exists():
            break
    assert kills >= wanted
    assert begun <= finished(tmp_path) < count + 1
    done = assay("run", "--resume", "w", "-o", "grades.json")
    assert done.code == 1, done.err
    assert "not repeated" in done.err
    for name in ("w/runs.jsonl", "grades.json"):
        assert (tmp_path / name).read_bytes() == (calm / name).read_bytes(), name


@pytest.mark.parametrize("named", [(), ("--no-config",)])
def test_a_resumed_run_refuses_rules_that_it_would_ignore(
    assay: Any, tmp_path: Path, named: tuple[str, ...]
) -> None:
    project(tmp_path, [sample("a", "one")])
    (tmp_path / "assay.yaml").write_text("profile: dag-review\n")
    rules = ("--profile", "dag-review", "--timeout", "5.5", "--no-store")
    start = ("--dataset", "samples.jsonl", "--name", "n", *rules, *named)
    begun = assay("run", *start)
    for option, value in (("--profile", "rag"), ("--policy", "workflow-judged"), ("--limit", "1")):
        done = assay("run", "--resume", "assay-runs/n", option, value, *named)
        assert done.code == 2
        assert f"{option} can't change when a run is resumed" in done.err
    assert assay("run", "--resume", "assay-runs/n", *rules, *named).code == begun.code


def test_a_polite_end_says_how_to_go_on(tmp_path: Path) -> None:
    project(tmp_path, [sample(f"s{i}", "one", wait=0.1) for i in range(50)])
    options = ("--dataset", "samples.jsonl", "--work", "w", "--concurrency", "2")
    process = Running("run", *options, cwd=tmp_path)
    while finished(tmp_path) < 4:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGTERM)
    _, words = process.communicate()
    assert process.returncode == 130
    assert "assay run --resume w" in words
    assert not (tmp_path / "w" / "runs.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("data", "another dataset"),
        ("code", "another version of the workflow's code"),
        ("workflow", "another workflow digest"),
        ("damage", "damaged"),
        ("busy", "another job"),
    ],
)
def test_a_run_is_not_gone_on_with_when_what_it_runs_has_changed(
    assay: Any, tmp_path: Path, change: str, words: str
) -> None:
    project(tmp_path, [sample("a", "one"), sample("b", "two")])
    assert assay("run", "--dataset", "samples.jsonl", "--work", "w").code in (0, 1)
    journal = tmp_path / "w" / "journal.jsonl"
    lock = None
    if change == "data":
        project(tmp_path, [sample("a", "one"), sample("b", "another")])
    elif change == "workflow":
        project(tmp_path, [sample("a", "one"), sample("b", "two")], required_outputs=[])
    elif change == "code":
        (tmp_path / "flow.py").write_text(FLOW.replace(".upper()", ".lower()"))
    elif change == "damage":
        lines = journal.read_bytes().splitlines(keepends=True)
        journal.write_bytes(lines[0] + lines[1].replace(b"success", b"sucess!", 1) + lines[2])
    else:
        import fcntl

        lock = journal.open("rb")
        fcntl.flock(lock, fcntl.LOCK_EX)
    done = assay("run", "--resume", "w")
    if lock is not None:
        lock.close()
    assert done.code in (2, 3)
    assert words in done.err


def test_the_code_of_a_workflow_is_what_its_adapter_names_and_imports_from_its_folder(
    tmp_path: Path,
) -> None:
    files = {
        "flow.py": "import json, near\nfrom pack import part\n",
        "near.py": "def f():\n    from far import late\n",
        "far/__init__.py": "",
        "far/late.py": "from .. import up\nfrom . import side\n",
        "far/side.py": "",
        "pack/__init__.py": "",
        "pack/part.py": "import flow\n",
        "run.py": "import near\n",
        "prompt.txt": "Answer.",
        "unused.py": "",
        "wrong.py": "def",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def changes(*names: str) -> set[str]:
        """The files whose change changes the digest of the code that these names lead to."""
        places = [(name, tmp_path) for name in names]
        before, found = code_digest(places), set()
        for name, text in files.items():
            (tmp_path / name).write_text(text + "#")
            if code_digest(places) != before:
                found.add(name)
            (tmp_path / name).write_text(text)
        return found

    near = {"near.py", "far/__init__.py", "far/late.py", "far/side.py"}
    assert changes("flow:answer") == {"flow.py", "pack/__init__.py", "pack/part.py", *near}
    assert changes("python", "-u", "run.py", "prompt.txt") == {"run.py", "prompt.txt", *near}
    assert changes("wrong:answer") == {"wrong.py"}
    same = [("part:f", tmp_path / "pack"), ("part:f", tmp_path / "far")]  # one name in two folders
    (tmp_path / "far" / "part.py").write_text("")
    before = code_digest(same)
    (tmp_path / "far" / "part.py").write_text("#")
    assert code_digest(same) != before
    assert code_digest([("json:loads", tmp_path), (sys.executable, tmp_path)]) is None


def test_a_reordered_dataset_is_the_same_dataset(assay: Any, tmp_path: Path) -> None:
    rows = [sample("a", "one"), sample("b", "two")]
    project(tmp_path, rows)
    assay("run", "--dataset", "samples.jsonl", "--work", "w")
    project(tmp_path, rows[::-1])
    done = assay("run", "--resume", "w")
    assert "2 already finished; not repeated" in done.err
    assert "noise" not in done.err


def test_a_new_run_does_not_write_into_the_folder_of_an_old_one(assay: Any, tmp_path: Path) -> None:
    project(tmp_path, [sample("a", "one")])
    assay("run", "--dataset", "samples.jsonl", "--work", "w")
    done = assay("run", "--dataset", "samples.jsonl", "--work", "w")
    assert done.code == 2
    assert "w is finished. Choose another --work folder, or delete the folder to run" in done.err
    (tmp_path / "w" / "runs.jsonl").unlink()  # as after a kill
    done = assay("run", "--dataset", "samples.jsonl", "--work", "w")
    assert done.code == 2
    assert "--resume w" in done.err
    named = ("run", "--dataset", "samples.jsonl", "--name", "nightly")
    assert "on samples@" in (begun := assay(*named)).err
    assert ": 1 run, " in begun.err
    done = assay(*named)
    assert "assay-runs/nightly is finished. Choose another --name, or delete" in done.err


def test_a_file_name_that_is_not_utf_8_is_refused_in_words_or_written_as_its_bytes(
    assay: Any, tmp_path: Path
) -> None:
    project(tmp_path, [sample("a", "one")])
    name = os.fsdecode(b"s\xe9.jsonl")
    (tmp_path / "samples.jsonl").rename(tmp_path / name)
    done = assay("run", "--dataset", name)
    assert done.code == 2
    assert done.err.endswith(
        "s\\udce9.jsonl' is not UTF-8, and no document can contain it. Rename the file or folder."
        " [CLI-001]\n"
    )
    (tmp_path / name).write_text(json.dumps(scorecard({"norm": 0})))
    for ending in ("json", "md", "xml", "sarif", "csv", "html"):
        out = os.fsdecode(b"o\xfe.") + ending
        done = assay("grade", name, "-o", out)
        assert done.code == 1, done.err
        assert "ERR-001" not in done.err
        assert (tmp_path / out).exists()
    assert "s%E9.jsonl" in (tmp_path / os.fsdecode(b"o\xfe.sarif")).read_text()


@pytest.mark.parametrize(
    "option", [("-o", "taken/grades.json"), ("--charts", "taken"), ("--work", "taken/w")]
)
def test_a_file_in_the_place_of_a_folder_is_named(
    assay: Any, tmp_path: Path, option: tuple[str, str]
) -> None:
    project(tmp_path, [sample("a", "one")])
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "card.json").write_text(json.dumps(scorecard({"norm": 1})))
    verb = (
        ("run", "--dataset", "samples.jsonl") if option[0] == "--work" else ("grade", "card.json")
    )
    done = assay(*verb, *option)
    assert (done.code, "[FIL-008]" in done.err) == (2, True), done.err
    assert (tmp_path / "taken").read_text() == "a file"
