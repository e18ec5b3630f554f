"""`assay init`: it reads and never runs, overwrites nothing, and what it writes works as printed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.cli.init import CI_FILE, EXAMPLES, MAX_BYTES, PROJECTS, search
from assay.families.repair.repair import lacking
from assay.files.yaml_files import read_yaml
from assay.project.config import KEYS, ConfigFile, read_config
from assay.records.schemas import schema_faults
from assay.running.workflow import read_workflow


def subjects(folder: Path, **files: str) -> list[tuple[str, str]]:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py").replace("_json", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [(one.kind, one.target) for one in search(str(folder)).subjects]


GRAPH = "from langgraph.graph import StateGraph\nbuilder = StateGraph(dict)\n"
FLOW = "from agent_framework import WorkflowBuilder\n"
API = "from fastapi import FastAPI\napp = FastAPI()\n@app.get('/up')\ndef up(): return 1\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def answer(question): return 1\n", ("python", "bot:answer")),
        ("async def chat(prompt: str): return 1\n", ("python", "bot:chat")),
        (f"{GRAPH}graph = builder.compile()\n", ("langgraph", "bot:graph")),
        (f"{GRAPH}def make():\n    return builder.compile()\n", ("langgraph", "bot:make")),
        (f"{FLOW}def make():\n    return WorkflowBuilder().build()\n", ("agent_framework", "bot:make")),
        (f"{API}@app.post('/ask')\ndef ask(question: str): return 1\n", ("http", "http://127.0.0.1:8000/ask")),
        ("from flask import Flask\napp = Flask('x')\n@app.route('/a', methods=['POST'])\ndef a(): return 1\n", ("http", "http://127.0.0.1:5000/a")),
        ("from mcp.server.fastmcp import FastMCP\nserver = FastMCP('x')\n", ("mcp", "python3 bot.py")),
        ("from mcp.server.mcpserver import MCPServer\nserver = MCPServer('x')\n", ("mcp", "python3 bot.py")),
        ("def helper(a, b, c, question): return 1\ndef _ask(question): return 1\n", None),
        ("def load(question): pass\n", None),
    ],
)  # fmt: skip
def test_a_workflow_is_found_by_reading(tmp_path: Path, text: str, found: Any) -> None:
    assert subjects(tmp_path, bot_py=text)[:1] == ([found] if found else [])


def test_servers_of_an_mcp_client_are_found(tmp_path: Path) -> None:
    text = json.dumps({"mcpServers": {"x": {"command": "node", "args": ["a b.js"]}}})
    assert subjects(tmp_path, mcp_json=text) == [("mcp", 'node "a b.js"')]
    for broken in ("[]", "{", '{"mcpServers": 3}', '{"mcpServers": {"x": {}}}', "[" * 100_000):
        assert subjects(tmp_path, mcp_json=broken) == []


def test_result_files_are_named_with_the_command_that_imports_them(
    tmp_path: Path, assay: Any
) -> None:
    (tmp_path / "spans.json").write_text('{"resourceSpans": [{"scopeSpans": []}]}')
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "assay-runs").mkdir()
    (tmp_path / "assay-runs" / "own.json").write_text('{"resourceSpans": []}')
    done = assay("init", "--json").json()
    assert [one["file"] for one in done["results"]] == ["spans.json"]
    assert done["next"][0] == "assay import spans.json"


@pytest.mark.parametrize("policy", ["regression@1", "release@1"])
def test_a_folder_with_results_alone_gets_a_gate_on_them(
    policy: str, tmp_path: Path, assay: Any
) -> None:
    rows = "".join(f"q {n}?,a {n},1\n" for n in range(60))
    (tmp_path / "last week.csv").write_text(f"question,answer,correct\n{rows}")
    (tmp_path / "${{ x }}.csv").write_text(f"question,answer,correct\n{rows}")
    done = assay("init", "--json").json()
    assert "samples.jsonl" not in done["wrote"]
    job = read_yaml(str(tmp_path / CI_FILE)).tree["jobs"]["assay"]["steps"]
    assert job[-2]["run"] == "exit 1", "an evaluation that nobody has written must not pass"
    gate = job[-1]["run"].splitlines()[-1]
    assert gate == (
        "assay gate 'last week.csv' $TRUST --baseline production --release-policy \"$POLICY\""
        " --step-summary"
    )
    gate = gate.replace("$TRUST ", "")  # as in a fork's pull request
    gate = gate.replace('"$POLICY"', policy)
    for command in done["next"]:
        assert assay(*shlex.split(command)[1:]).code == 0, command
    assert assay(*shlex.split(gate)[1:-1]).code == 0
    (tmp_path / "last week.csv").write_text(f"question,answer,correct\n{rows[:-2]}0\n")
    noise = assay(*shlex.split(gate)[1:-1]).code
    assert noise == (1 if policy == "release@1" else 0), "one failure more may be noise"
    worse = rows.replace(",1\n", ",0\n", 12)
    (tmp_path / "last week.csv").write_text(f"question,answer,correct\n{worse}")
    assert assay(*shlex.split(gate)[1:-1]).code == 1
    (tmp_path / "assay.yaml").unlink()
    (tmp_path / "samples.jsonl").touch()
    assert assay("init", "--json").json()["next"] == ["assay run"]


def test_the_job_asks_less_of_a_pull_request_than_of_a_release(tmp_path: Path, assay: Any) -> None:
    (tmp_path / "bot.py").write_text("def answer(question): return 'It is Oslo.'\n")
    assert assay("init").code == 0
    step = read_yaml(str(tmp_path / CI_FILE)).tree["jobs"]["assay"]["steps"][-1]
    released = (
        "github.ref_type == 'tag' || github.ref_name == github.event.repository.default_branch"
    )
    assert step["env"]["POLICY"] == f"${{{{ ({released}) && 'release@1' || 'regression@1' }}}}"
    assert '--release-policy "$POLICY"' in step["run"]
    why = (tmp_path / CI_FILE).read_text()
    assert "unless it is shown to be worse" in why
    assert "must be shown not to be worse" in why
    for policy in ("release@1", "regression@1"):
        assert assay("library", "show", "policies", policy).code == 0


@pytest.mark.campaign
def test_the_job_confirms_what_seems_to_fail_newly_on_the_version_of_the_baseline(
    tmp_path: Path, assay: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    remote, here = tmp_path, tmp_path_factory.mktemp("clone") / "here"
    bot = "def answer(question):\n    return 'It is ' + ('Oslo' if WRONG in question else 'Rome')\n"
    (remote / "bot.py").write_text(bot.replace("WRONG", "''"))
    assert assay("init").code == 0
    rows = [{"id": n, "question": f"City {n}?", "expected": {"answer": "Oslo"}} for n in range(60)]
    (remote / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    assert assay("run", "--name", "first").code == 0
    assert assay("baseline", "set", "production", "first").code == 0
    for words in (["init", "-qb", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, cwd=remote)
    subprocess.run([*git, "clone", "-q", remote, here], check=True)
    job = read_yaml(str(here / CI_FILE)).tree["jobs"]["assay"]["steps"][-1]["run"]
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"TARGET": "main", "TRUST": "", "GITHUB_STEP_SUMMARY": str(here / "summary.md")}
    for wrong, policy, code in (
        ("''", "release@1", 0),
        ("'?'", "regression@1", 0),
        ("'0'", "regression@1", 1),
    ):
        (here / "bot.py").write_text(bot.replace("WRONG", wrong))
        shutil.rmtree(here / "assay-runs", ignore_errors=True)
        done = subprocess.run(
            ["bash", "-ec", job],
            cwd=here,
            env={**os.environ, **given, "PATH": tools, "POLICY": policy},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
    assert "newly fails" in done.stdout


def test_functions_named_like_a_bot_come_first(tmp_path: Path) -> None:
    text = "def zip_up(text): return 1\ndef answer(question): return 1\n"
    assert subjects(tmp_path, a_py=text)[0] == ("python", "a:answer")
    nested = subjects(tmp_path, a_py="", pkg__bot_py="def ask(query): return 1\n")
    assert nested == [("python", "pkg.bot:ask")]


def test_a_hostile_folder_is_read_within_limits_and_never_run(
    tmp_path: Path, assay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(mark)!r}, 'w')\ndef answer(question): return 1\n")
    (tmp_path / "broken.py").write_text("def answer(question:\n")
    (tmp_path / "nul.py").write_bytes(b"x = 1\0")
    (tmp_path / "huge.py").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "out.py").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.py")
    deep = tmp_path.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    (deep / "far.py").write_text("def answer(question): return 1\n")
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "own.py").write_text("def answer(question): return 1\n")
    found = search(str(tmp_path))
    assert [one.target for one in found.subjects] == ["evil:answer"]
    assert sorted(found.unread) == ["broken.py", "deep.py", "huge.py", "nul.py"]
    done = assay("init")
    assert done.code == 0
    assert "skipped broken.py" in done.out
    assert not mark.exists()


def test_what_is_there_is_kept_and_named(tmp_path: Path, assay: Any) -> None:
    (tmp_path / "samples.jsonl").write_text("mine\n")
    (tmp_path / "assay.yaml").write_text("not: [yaml\n")
    done = assay("init", "--json")
    assert done.code == 0, "a broken assay.yaml is not in the way"
    assert done.json()["left"] == ["assay.yaml", "samples.jsonl"]
    assert (tmp_path / "samples.jsonl").read_text() == "mine\n"
    assert (tmp_path / "assay.yaml").read_text() == "not: [yaml\n"
    assert "!.assay/baselines/\n" in (tmp_path / ".gitignore").read_text()
    again = assay("init")
    assert "wrote" not in again.out
    example = tmp_path / "example"
    example.mkdir()
    (example / ".gitignore").write_text("mine\n")
    assert assay("init", "--example", "rag", "example").code == 0
    assert (example / ".gitignore").read_text() == "mine\n"
    assert ".gitignore" in assay("init", "--example", "rag", "other", "--json").json()["wrote"]
    (tmp_path / "file").write_text("")
    assert assay("init", "file").code == 2


def test_init_then_run_grades_a_function_of_ones_own(tmp_path: Path, assay: Any) -> None:
    (tmp_path / "bot.py").write_text("async def ask(question): return 'It is Oslo.'\n")
    done = assay("init", "--json").json()
    assert done["next"] == ["assay run"]
    assert done["found"][0]["why"] == "bot.py:1 has a function ask(question)"
    config = read_config(str(tmp_path / "assay.yaml"))
    assert config.spec.project is not None
    schema = tmp_path / ".assay" / "config.schema.json"
    assert json.loads(schema.read_text())["properties"].keys() >= {"workflow", "datasets"}
    assert assay("run", "--name", "unedited").code == 1, "samples to edit do not pass"
    rows = [
        json.dumps({"id": n, "question": f"Which city, {n}?", "expected": {"answer": "Oslo"}})
        for n in range(3)
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(rows))
    ran = assay("run", "--name", "v1")
    assert (ran.code, "3 of 3 runs passed" in ran.out) == (0, True), ran.out + ran.err
    assert assay("gate", "v1").code == 4, "nothing is stored"
    assert "assay baseline set production v1  #" in ran.out
    assert assay("baseline", "set", "production", "v1").code == 0
    assert assay("gate", "v1").out.startswith("NOT ENOUGH EVIDENCE: 3 paired"), "no --baseline"


def test_init_takes_the_samples_that_are_there(tmp_path: Path, assay: Any) -> None:
    (tmp_path / "bot.py").write_text("def ask(question): return 'It is Oslo.'\n")
    (tmp_path / "answers.csv").write_text("question,answer\nWhich city?,Oslo\n")  # the bot's own
    (tmp_path / "other.jsonl").write_text('{"prompt": "x", "expected": "y"}\n')
    (tmp_path / "qa: 1.csv").write_text("question,expected_answer,source\nWhich city?,Oslo,a.md\n")
    done = assay("init")
    assert "found   qa: 1.csv: samples  <- used in assay.yaml" in done.out
    assert "samples.jsonl" not in done.out
    assert not (tmp_path / "samples.jsonl").exists()
    assert "1 of 1 run passed" in assay("run", "--name", "first").out
    (tmp_path / "assay.yaml").unlink()
    (tmp_path / "samples.jsonl").write_text("mine\n")
    assert assay("init", "--json").json()["dataset"] is None
    assert read_yaml(str(tmp_path / "assay.yaml")).tree["dataset"] == "samples.jsonl"


def test_init_names_a_table_with_other_columns_and_the_line_that_maps_it(
    tmp_path: Path, assay: Any
) -> None:
    (tmp_path / "bot.py").write_text("def ask(prompt): return 'It is Oslo.'\n")
    (tmp_path / "fälle.csv").write_text("Nr.;Frage (neu);Soll\n7;Wohin?;Oslo\n")
    done = assay("init")
    assert "or use  fälle.csv: say which column is which at `dataset` in assay.yaml" in done.out
    config = tmp_path / "assay.yaml"
    line = "\n# dataset: {file: FILE.csv, inputs: {prompt: COLUMN}, expected: {answer: COLUMN}}\n"
    assert line in config.read_text()
    mine = "\ndataset: {file: fälle.csv, inputs: {prompt: Frage (neu)}, expected: {answer: Soll}}\n"
    text = config.read_text().replace("\ndataset: samples.jsonl", "\n#").replace(line, mine)
    config.write_text(text, "utf-8")
    assert "1 of 1 run passed" in assay("run", "--name", "first").out


def test_what_a_function_returns_beside_its_answer_is_not_taken_for_the_answer(
    tmp_path: Path, assay: Any
) -> None:
    (tmp_path / "bot.py").write_text(
        "def ask(input, record):\n"
        "    record.retrieved('d', 'Oslo is the capital.')\n"
        "    known = 'capital' in input\n"
        "    return {'answer': 'OSLO.' if known else 'No idea.', 'contexts': ['Oslo']}\n"
    )
    assert assay("init").code == 0
    rows = [
        {"id": "right", "input": "Which capital?", "expected": {"answer": "oslo"}},
        {"id": "wrong", "input": "Which city?", "expected": {"answer": "Oslo"}},
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ran = assay("run", "--json")
    passed = {one["run_id"].rpartition(":")[2]: one["passed"] for one in ran.json()["results"]}
    assert passed == {"right": True, "wrong": False}, ran.err


def test_init_without_anything_writes_a_project_to_fill_in(tmp_path: Path, assay: Any) -> None:
    done = assay("init", "new/folder")
    assert done.code == 0
    assert "nothing that looks like a workflow" in done.out
    assert "next    cd new/folder" in done.out
    workflow = read_workflow(str(tmp_path / "new" / "folder" / "assay.yaml#workflow"))
    assert workflow.id == "folder"


@pytest.mark.parametrize(
    "name",
    # README.md shows the commands of `noisy`, and test_blocks.py runs them
    [pytest.param(name, marks=[pytest.mark.campaign] * (name == "noisy")) for name in EXAMPLES],
)
def test_an_example_runs_to_a_pass_and_its_worse_version_is_stopped(
    name: str, tmp_path: Path, assay: Any
) -> None:
    if name == "code-repair" and lacking():
        pytest.skip(lacking())
    done = assay("init", "--example", name, "--json")
    assert done.code == 0, done.err
    printed = done.json()["next"]
    assert printed == list(EXAMPLES[name])
    readme = (tmp_path / "README.md").read_text()
    codes = []
    for command in printed:
        assert command in readme
        result = assay(*shlex.split(command)[1:])
        codes.append(result.code)
        assert result.code in (0, 1), result.out + result.err
    worse = [line for line in readme.splitlines() if line.startswith("assay ")][len(printed) :]
    codes += [assay(*shlex.split(command)[1:]).code for command in worse]
    assert (
        codes
        == {
            "rag": [0, 1, 1],
            "noisy": [1, 1, 0, 1, 1],
            "agent": [0, 1, 1],
            "code-repair": [0, 1, 1],
            "mcp": [0, 0, 0, 0, 0, 0, 1],
            "exam": [0, 0, 0, 1],
        }[name]
    )


def test_code_repair_without_a_sandbox_is_refused_with_the_line_to_install(
    tmp_path: Path, assay: Any
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").symlink_to(shutil.which("git") or "/usr/bin/git")
    assert assay("init", "--example", "code-repair", "bot").code == 0
    done = assay("run", "--config", "bot/assay.yaml", env={"PATH": str(tools)})
    assert done.code == 4
    assert "apt-get install bubblewrap" in done.err
    assert "Nothing was run." in done.err


def test_an_example_is_all_there_or_not_at_all(tmp_path: Path, assay: Any) -> None:
    (tmp_path / "README.md").write_text("mine\n")
    done = assay("init", "--example", "rag")
    assert done.code == 2
    assert "already README.md" in done.err
    assert os.listdir(tmp_path) == ["README.md"]
    assert assay("init", "--example", "rag", "rag-example").code == 0
    assert assay("init", "--example", "rga").code == 2


def test_what_is_written_is_valid_by_the_schema_that_editors_use(
    tmp_path: Path, assay: Any
) -> None:
    schema = assay("schema-of", "config").json()
    assert schema["properties"].keys() == set(KEYS)
    assert assay("init").code == 0
    for folder in (str(tmp_path), *(os.path.join(PROJECTS, name) for name in EXAMPLES)):
        tree = read_yaml(os.path.join(folder, "assay.yaml")).tree
        assert list(schema_faults(ConfigFile, tree)) == [], folder


def test_every_example_is_in_the_package_and_has_a_readme() -> None:
    assert sorted(EXAMPLES) == sorted(os.listdir(PROJECTS))
    for name in EXAMPLES:
        assert os.path.exists(os.path.join(PROJECTS, name, "README.md"))
    assert shutil.which("python3"), "the examples start their own programs with it"
