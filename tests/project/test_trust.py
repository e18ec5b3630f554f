"""What an `assay.yaml` that somebody else wrote may set: one rule for every option, and the ways
in which a checked-out folder could use it against the person who runs a command there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from assay.cli.configured import verb_names
from assay.cli.demo import EXAMPLES
from assay.cli.frame import Argument, arg, load_command
from assay.cli.init import CI_FILE
from assay.errors import AssayError, InputError
from assay.files import trust
from assay.files.yaml_files import read_yaml
from assay.mcp.server import project_of
from serving import Started, free_port, until

COMMANDS = {verb: load_command(verb) for verb in verb_names()}
CONFIGURED = {verb: command for verb, command in COMMANDS.items() if command.configured}


class Case(NamedTuple):
    """An option of a verb."""

    verb: str
    argument: Argument


def options(trust: str, *kinds: str) -> list[Any]:
    """Every option of every verb that a file could name, of this trust and these kinds."""
    return [
        pytest.param(Case(verb, argument), id=f"{verb} {argument.names[-1]}")
        for verb, command in CONFIGURED.items()
        for argument in command.declared.values()
        if argument.names[0].startswith("-")
        and argument.trust == trust
        and (not kinds or argument.kind in kinds)
    ]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checked-out folder that is the working folder, and settings that trust nothing."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    for name in ("ASSAY_DB", "ASSAY_LIBRARY"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    return home


def parse(verb: str, *words: str) -> Any:
    """The options of a verb whose arguments may all be missing."""
    command = CONFIGURED[verb]
    action = ("list",) if verb == "library" else ()
    return command.parse(verb, [*action, *words], optional=set(command.declared))


def action_of(case: Case) -> argparse.Action:
    parser = CONFIGURED[case.verb].parser(case.verb)
    return next(one for one in parser._actions if one.dest == case.argument.dest)


def value_of(case: Case, text: str = "1") -> Any:
    """A value that the option takes."""
    action = action_of(case)
    if isinstance(action, argparse._StoreTrueAction):
        return True
    if action.choices is not None:
        return next(str(choice) for choice in action.choices)
    return action.type(1) if action.type in (int, float) else text


def write(case: Case, value: Any) -> None:
    name = case.argument.dest.replace("_", "-")
    tree = {"commands": {case.verb: {name: value}}}
    Path("assay.yaml").write_text(json.dumps(tree))


def refused(case: Case, *words: str) -> AssayError:
    with pytest.raises(AssayError) as caught:
        parse(case.verb, *words)
    return caught.value


# --- one rule for every option


def test_every_option_declares_its_kind_and_its_trust() -> None:
    for verb, command in COMMANDS.items():
        for argument in command.declared.values():
            settings, kind = argument.settings, argument.kind
            assert argument.trust in ("freely", "trusted", "never"), (verb, argument.names)
            if settings.get("type") in (int, float):
                assert kind == "number", (verb, argument.names)
            if settings.get("metavar") in ("FILE", "DIR") and argument.names[0].startswith("-"):
                assert kind == "path", (verb, argument.names)
            if settings.get("metavar") == "URL":
                remote = kind in ("address", "ledger") or argument.trust == "trusted"
                assert remote, (verb, argument.names)
    with pytest.raises(TypeError, match="declares no trust"):
        arg("--text", metavar="TEXT")


@pytest.mark.parametrize("case", options("never"))
def test_what_only_a_person_gives_is_refused_even_from_a_trusted_file(case: Case) -> None:
    write(case, value_of(case))
    for words in ((), ("--trust",)):
        error = refused(case, *words)
        assert (error.code, error.exit_code) == ("CFG-001", 3)
        assert "can only be given on the command line" in str(error)


@pytest.mark.parametrize("case", options("trusted"))
def test_what_needs_trust_is_refused_until_the_file_is_trusted(case: Case) -> None:
    write(case, value_of(case))
    error = refused(case)
    assert (error.code, error.exit_code) == ("CFG-002", 3)
    assert "`assay trust assay.yaml`" in str(error)
    assert getattr(parse(case.verb, "--trust"), case.argument.dest)


@pytest.mark.parametrize("case", options("freely", "path", "name", "ledger", "address"))
def test_a_place_outside_the_folder_or_the_machine_needs_trust(case: Case) -> None:
    option, kind = case.argument.dest, case.argument.kind
    outside = {
        "ledger": "postgresql://db.example/x",
        "address": "https://judge.example/v1",
    }.get(kind, "../other/file.yaml")
    write(case, value_of(case, outside))
    error = refused(case)
    assert (error.code, error.exit_code) == ("CFG-002", 3)
    assert "`assay trust assay.yaml`" in str(error)
    assert getattr(parse(case.verb, "--trust"), option)
    os.symlink("..", "up")
    for link in ("up/file.yaml", "/etc/hosts") if kind in ("path", "name") else ():
        write(case, link)
        assert refused(case).code == "CFG-002"
    inside = {"ledger": "sqlite:///own.db", "address": "http://127.0.0.1:8080/v1"}
    own = inside.get(kind, "folder/file.yaml")
    write(case, own)
    shown = getattr(parse(case.verb), option)
    assert shown in (own, [own])


@pytest.mark.parametrize("case", options("freely", "flag"))
def test_a_flag_that_a_file_sets_freely_can_be_taken_back(case: Case) -> None:
    write(case, True)
    assert getattr(parse(case.verb), case.argument.dest) is True
    name = max(case.argument.names, key=len).removeprefix("--")
    if not name.startswith("no-"):
        assert getattr(parse(case.verb, f"--no-{name}"), case.argument.dest) is False


@pytest.mark.parametrize("verb", CONFIGURED)
@pytest.mark.parametrize(
    "name",
    [
        "trust",
        "json",
        "no-config",
        "config",
    ],
)
def test_what_every_verb_has_is_never_set_by_a_file(verb: str, name: Any) -> None:
    Path("assay.yaml").write_text(json.dumps({"commands": {verb: {name: True}}}))
    with pytest.raises(InputError, match="can only be given on the command line"):
        parse(verb, "--trust")


def test_what_the_command_line_replaces_needs_no_trust() -> None:
    Path("assay.yaml").write_text("ledger: {url: 'postgresql://db.example/x'}\n")
    assert parse("evals", "--db", "sqlite:///own.db").db == "sqlite:///own.db"
    with pytest.raises(InputError, match="connects to a database server"):
        parse("evals")
    with pytest.raises(InputError, match="connects to a database server"):
        parse("run", "w.yaml", "--dataset", "d.jsonl")
    assert parse("run", "w.yaml", "--dataset", "d.jsonl", "--no-store").store is None
    assert parse("evals", "--no-config").db == ""


def test_the_default_ledger_needs_no_trust() -> None:
    Path("assay.yaml").write_text("ledger: {store: true}\n")
    assert parse("grade").store == ""


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///../up.db",
        "sqlite:////var/lib/other.db",
        "sqlite:///own.db?mode=memory",
        "sqlite+pysqlite:///own.db",
        "sqlite://own.db",
        "postgresql:///name",
        "POSTGRESQL://h/x",
    ],
)
@pytest.mark.parametrize(
    "verb",
    [
        "evals",
        "grade",
        "measure text",
        "import",
        "run",
    ],
)
def test_only_a_plain_file_of_the_folder_is_a_ledger_without_trust(url: str, verb: Any) -> None:
    Path("assay.yaml").write_text(json.dumps({"ledger": {"url": url, "store": True}}))
    with pytest.raises(InputError) as caught:
        parse(verb, *(["w.yaml", "--dataset", "d.jsonl"] if verb == "run" else []))
    assert caught.value.code == "CFG-002"


@pytest.mark.parametrize(
    ("judge", "key"),
    [
        ({"base_url": "https://judge.example/v1"}, "base_url"),
        ({"base_url": "http://localhost.example/v1"}, "base_url"),
        ({"base_url": "http://localhost@judge.example/v1"}, None),
        ({"base_url": "http://127.0.0.1:1/v1", "key_env": "AWS_SECRET_ACCESS_KEY"}, "key_env"),
        ({"base_url": "http://127.0.0.1:1/v1", "api": "litellm"}, "api"),
        (
            {"base_url": "http://127.0.0.1:1/v1", "proxy_from_environment": True},
            "proxy_from_environment",
        ),
    ],
)
def test_a_judge_on_another_machine_or_with_a_key_needs_trust(
    judge: dict[str, Any], key: str | None
) -> None:
    Path("assay.yaml").write_text(json.dumps({"judges": {"j": {"model": "m", **judge}}}))
    for words in ((), ("--judge", "j"), ("--judge", "assay.yaml#judges.j")):
        with pytest.raises(InputError) as caught:
            parse("judge claims", *words)
        assert caught.value.code == ("CFG-001" if key is None else "CFG-002")
        if key is not None:
            assert caught.value.faults[0].path == f"judges.j.{key}"
    if key is not None:
        assert parse("judge claims", "--trust").judge == ["assay.yaml#judges.j"]
    assert parse("judge claims", "--no-config", "--judge", "own.yaml").judge == ["own.yaml"]


@pytest.mark.parametrize("place", ["judge", "judges"])
def test_a_judge_in_a_file_that_the_file_names_needs_the_same_trust(place: str) -> None:
    Path("j.yaml").write_text("judge: j\nmodel: m\nbase_url: https://judge.example/v1\n")
    tree = {"judge": "./j.yaml"} if place == "judge" else {"judges": {"j": "./j.yaml"}}
    Path("assay.yaml").write_text(json.dumps(tree))
    with pytest.raises(InputError, match="is on another machine"):
        parse("judge claims")
    assert parse("judge claims", "--judge", "j.yaml").judge == ["j.yaml"], "somebody typed it"


def test_a_judge_on_this_machine_without_a_key_needs_none() -> None:
    Path("assay.yaml").write_text("judges: {j: {model: m, base_url: 'http://localhost:8080/v1'}}\n")
    assert parse("judge claims").judge == ["assay.yaml#judges.j"]


@pytest.mark.parametrize(
    "dataset",
    [
        "../d.jsonl",
        {"file": "../d.jsonl"},
        {"table": {"url": "postgresql://db.example/x", "name": "t"}},
        "d.yaml",
    ],
)
def test_a_dataset_elsewhere_needs_trust(dataset: Any) -> None:
    Path("d.yaml").write_text("dataset: d\nfile: /etc/hosts\n")
    Path("assay.yaml").write_text(json.dumps({"dataset": dataset}))
    with pytest.raises(InputError) as caught:
        parse("run", "w.yaml")
    assert caught.value.code == "CFG-002"
    assert parse("run", "w.yaml", "--trust").dataset
    assert parse("run", "w.yaml", "--dataset", "../d.jsonl").dataset == "../d.jsonl"


@pytest.mark.parametrize(
    ("adapter", "key"),
    [
        ({"kind": "http", "url": "https://bot.example/"}, "workflow.adapter.url"),
        (
            {"kind": "http", "url": "http://localhost:1/", "headers_from_env": {"A": "BOT_KEY"}},
            "workflow.adapter.headers_from_env",
        ),
    ],
)
def test_an_endpoint_elsewhere_or_with_a_key_needs_trust(adapter: Any, key: str) -> None:
    tree = {"workflow": {"version": 1, "adapter": adapter}, "dataset": "d.jsonl"}
    Path("assay.yaml").write_text(json.dumps(tree))
    with pytest.raises(InputError) as caught:
        parse("run")
    assert [fault.path for fault in caught.value.faults] == [key]
    assert parse("run", "--trust").workflow == "assay.yaml#workflow"


def test_the_tools_of_an_agent_need_the_same_trust(folder: Path) -> None:
    (folder / "assay.yaml").write_text("ledger: {url: 'postgresql://db.example/x'}\n")
    served = [
        project_of(COMMANDS["mcp"].parse("mcp", ["--root", str(folder), *words]))
        for words in ((), ("--trust",))
    ]
    with pytest.raises(InputError, match="connects to a database server"):
        served[0].options("evals")
    assert served[1].options("evals").db == "postgresql://db.example/x"


# --- trust is remembered, by folder and content


@pytest.fixture
def remote(folder: Path) -> Path:
    path = folder / "assay.yaml"
    (folder.parent / "lib").mkdir()
    path.write_text("library: ../lib\njudge: ./j.yaml\n")
    (folder / "j.yaml").write_text("judge: j\nmodel: m\nbase_url: https://judge.example/v1\n")
    return path


def test_a_file_is_trusted_until_it_or_a_file_that_it_names_changes(
    remote: Path, assay: Any, tmp_path: Path
) -> None:
    listed = ("library", "list", "policies", "--config", "home/assay.yaml")
    assert assay(*listed).code == 3
    done = assay("trust", "home/assay.yaml")
    assert done.code == 0
    assert "line 1  library: 'lib' is outside its folder." in done.out
    assert "line 2  judge.base_url: 'https://judge.example/v1' is on another machine." in done.out
    assert assay(*listed).code == 0
    settings = tmp_path / "settings" / "assay" / "trust.json"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    text = remote.read_text()
    remote.write_text(f"# a comment changes no setting\n{text}")
    assert assay(*listed).code == 0
    remote.write_text(text.replace("../lib", "../lib2"))
    assert assay(*listed).code == 3, "it is asked for again"
    remote.write_text(text)
    (remote.parent / "j.yaml").write_text(
        "judge: j\nmodel: n\nbase_url: https://other.example/v1\n"
    )
    assert assay(*listed).code == 3
    assert assay(*listed, "--trust").code == 0
    assert assay(*listed).code == 3, "--trust is for one command"


def test_a_copy_in_another_folder_is_not_trusted(remote: Path, assay: Any, tmp_path: Path) -> None:
    assert assay("trust", "home/assay.yaml").code == 0
    (tmp_path / "copy").mkdir()
    for name in ("assay.yaml", "j.yaml"):
        (tmp_path / "copy" / name).write_bytes((remote.parent / name).read_bytes())
    assert assay("library", "list", "policies", "--config", "copy/assay.yaml").code == 3
    assert assay("trust", "home/assay.yaml", "--forget").code == 0
    assert assay("library", "list", "policies", "--config", "home/assay.yaml").code == 3


def _link(path: Path) -> None:
    path.rename(path.with_name("real.json"))
    path.symlink_to("real.json")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o622), "writable by others"),
        (lambda path: path.parent.chmod(0o777), "in a folder that is writable by others"),
        (_link, "is a link"),
        (lambda path: path.write_text("{}"), "is not readable"),
        (lambda path: path.write_text("not JSON"), "is not readable"),
        (lambda path: path.write_text('{"files": []}'), "is not readable"),
    ],
)
def test_settings_that_somebody_else_may_have_written_say_nothing(
    remote: Path, assay: Any, tmp_path: Path, spoil: Any, why: str
) -> None:
    assert assay("trust", "home/assay.yaml").code == 0
    spoil(tmp_path / "settings" / "assay" / "trust.json")
    for words in (("library", "list", "policies", "--config"), ("trust",)):
        done = assay(*words, "home/assay.yaml")
        assert (done.code, why in done.err) == (2, True), done.err
        assert "CFG-004" in done.err


def test_the_settings_are_where_the_xdg_specification_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for base in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CONFIG_HOME", base)
        assert trust.settings_file() == str(tmp_path / ".config" / "assay" / "trust.json")


def test_there_is_nothing_to_trust_without_a_file(assay: Any) -> None:
    done = assay("trust")
    assert (done.code, "there is no assay.yaml" in done.err) == (2, True)


# --- nothing is written through a link that leads out


RUN = {
    "schema": "assay.run/1",
    "run_id": "r-1",
    "workflow": {"id": "w", "version": "1", "family": "rag"},
    "dataset": {"id": "d", "version": "1", "sample_id": "s-1"},
    "status": "success",
    "outputs": {"answer": "a"},
    "claims": [{"text": "a"}],
    "retrieval": [{"id": "p", "text": "a", "rank": 1}],
}
TABLE = "id,question,answer,correct\n1,q,a,1\n"
PLAIN = """\
workflow:
  version: 1
  inputs: [question]
  outputs: [answer]
  output_schema: true
  adapter: {kind: python, target: "bot:answer"}
dataset: d.jsonl
profile: rag-measured
"""


class Planted(NamedTuple):
    """A link in a checked-out folder, and a command that would write through it."""

    link: str
    command: str
    target: str = ""
    """The file outside that the link names; empty for a folder."""


PLANTED = {
    "init-job": Planted(".github", "init"),
    "init-job-below": Planted(".github/workflows", "init"),
    "init-schema": Planted(".assay", "init"),
    "init-example": Planted("a", "init --example rag a/b"),
    "import-ledger-folder": Planted(".assay", "import table.csv"),
    "import-ledger": Planted(".assay/ledger.db", "import table.csv", "ledger.db"),
    "import-ledger-log": Planted(".assay/ledger.db-wal", "import table.csv", "log"),
    "import-outputs": Planted("out", "import table.csv -o out/runs.jsonl --no-store"),
    "grade-outputs": Planted("out", "grade run.json -o out/grades.json"),
    "grade-charts": Planted("out", "grade run.json --charts out/charts"),
    "grade-store": Planted(".assay", "grade run.json --store"),
    "grade-named-ledger": Planted("own.db", "grade run.json --store sqlite:///own.db", "own.db"),
    "baseline": Planted(".assay/baselines", "baseline set production run.json --no-store"),
    "run-work": Planted("assay-runs", "run --no-store"),
    "run-events": Planted("events.jsonl", "run --no-store --events events.jsonl", "events.jsonl"),
    "batch": Planted("out", "batch rows.jsonl -o out/g.parquet --profile rag-measured"),
    "report": Planted("out", "report summary run.json -o out/s.json"),
    "journal": Planted(
        "j.journal",
        "judge claims run.json --model m --base-url http://127.0.0.1:9/v1 --journal j.journal"
        " -o judged.jsonl",
        "j.journal",
    ),
}


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_no_command_writes_through_a_link_that_leads_out(
    planted: Planted, assay: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "rows.jsonl").write_text("{}\n")
    (tmp_path / "table.csv").write_text(TABLE)
    if planted.command.startswith("run"):
        (tmp_path / "assay.yaml").write_text(PLAIN)
        (tmp_path / "bot.py").write_text("def answer(inputs): return {'answer': 'a'}\n")
        (tmp_path / "d.jsonl").write_text(
            '{"id": 1, "question": "q", "expected": {"answer": "a"}}\n'
        )
    link = tmp_path / planted.link
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / planted.target)
    if planted.target:
        (outside / planted.target).write_bytes(b"")
    done = assay(*planted.command.split())
    said = done.out + done.err
    assert f"a link leads to {os.path.realpath(outside)}" in said, said
    if "nothing is stored in a ledger" not in said:
        assert (done.code, "FIL-008" in said) == (2, True), said
    kept = [path for path in outside.rglob("*") if path.is_dir() or path.read_bytes()]
    assert kept == []


def test_a_place_that_somebody_names_itself_is_written(
    assay: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "here").mkdir()
    (tmp_path / "in").symlink_to("here")
    for path in (outside / "g.json", "in/g.json", "new/g.json", f"../{tmp_path.name}/g.json"):
        assert assay("grade", "run.json", "-o", path).code == 1
    assert (outside / "g.json").is_file()
    assert (tmp_path / "here" / "g.json").is_file()
    (tmp_path / "own.json").symlink_to(outside / "kept.json")
    assert assay("grade", "run.json", "-o", "own.json").code == 1
    assert not (outside / "kept.json").exists(), "the link was replaced, not followed"


@pytest.mark.parametrize("path", ["../out.json", "/tmp/assay-out.json", "up/out.json"])
def test_outputs_of_a_file_never_overwrite_anything_outside(
    path: str, assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "assay.yaml").write_text(json.dumps({"outputs": {"grade": [path]}}))
    done = assay("grade", "run.json")
    assert (done.code, "CFG-002" in done.err) == (3, True)
    assert not os.path.exists(tmp_path / path)


# --- code of the folder runs only where a command runs code


MODULES = ("json", "pickle", "multiprocessing", "uvicorn", "assay", "sqlalchemy", "bot", "checks")
MARK = "import os\nopen(os.environ['MARK'], 'a').write(__name__ + ' ')\nraise ImportError\n"


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with modules of well-known names, and the file where each says that it was run."""
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(MARK)
    return tmp_path / "mark"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_runs_no_module_of_the_folder_it_is_started_in(
    workers: int, marked: Path, tmp_path: Path
) -> None:
    port = free_port()
    command = [Path(sys.executable).with_name("assay"), "serve", "--port", port, "--quiet"]
    started = Started(
        [*map(str, command), "--workers", str(workers), "--db", f"sqlite:///{tmp_path}/l.db"],
        cwd=tmp_path,
        env=dict(os.environ),
    )
    try:

        def is_ready() -> bool:
            with (
                suppress(OSError),
                urlopen(f"http://127.0.0.1:{port}/api/v1/health", timeout=5) as answer,
            ):
                return bool(answer.status == 200)
            return started.poll() is not None or marked.exists()

        until(is_ready)
        assert not marked.exists(), marked.read_text()
        assert started.poll() is None
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        started.close()


@pytest.mark.parametrize(
    "command",
    [
        "grade run.json",
        "gate run.json --baseline run.json",
        "explain run.json",
        "report summary run.json",
        "import table.csv",
        "evals",
        "library list policies",
        "config gate",
        "trust",
        "init",
    ],
)
def test_no_command_but_those_that_run_code_runs_what_the_file_declares(
    command: str, marked: Path, assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "table.csv").write_text(TABLE)
    if command != "init":
        text = f"{PLAIN}scorers: [{{target: 'checks:score', weight: 0.2}}]\n"
        (tmp_path / "assay.yaml").write_text(f"{text}gates: [{{target: 'checks:polite'}}]\n")
    assay(*command.split())
    assert not marked.exists(), marked.read_text()


# --- what belongs to the user never reaches an address that only the file chose


class Listener:
    """A server of somebody else: it keeps what it is sent, and asks a database client for its
    password.
    """

    def __init__(self) -> None:
        self.heard = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return
            with link, suppress(OSError):
                link.settimeout(5)
                self._answer(link)

    def _answer(self, link: socket.socket) -> None:
        data = link.recv(65536)
        self.heard += data
        if b"HTTP/1" in data:
            link.sendall(
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            return
        if data[4:8] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):  # TLS, GSS: neither
            link.sendall(b"N")
            self._answer(link)
            return
        link.sendall(b"R\0\0\0\x08\0\0\0\x03")
        self.heard += link.recv(65536)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


SECRET = "s3cret-of-the-user"
STOLEN = {
    "ledger": (
        {"ledger": {"url": "postgresql://me@127.0.0.1:PORT/x?connect_timeout=5", "store": True}},
        ("evals", "grade run.json", "explain run.json", "import table.csv", "token list"),
        {"PGPASSWORD": SECRET},
    ),
    "events": (
        {"commands": {"grade": {"otlp-endpoint": "http://127.0.0.1:PORT"}}},
        ("grade run.json",),
        {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization={SECRET}"},
    ),
    "judge": (
        {
            "judges": {
                "j": {
                    "model": "m",
                    "base_url": "http://127.0.0.1:PORT/v1",
                    "key_env": "AWS_SECRET_ACCESS_KEY",
                }
            }
        },
        ("judge claims run.json -o judged.jsonl --no-journal",),
        {"AWS_SECRET_ACCESS_KEY": SECRET},
    ),
}


@pytest.mark.parametrize("name", STOLEN)
def test_a_secret_of_the_environment_goes_nowhere_that_only_the_file_names(
    name: str, listener: Listener, assay: Any, tmp_path: Path
) -> None:
    for package in {"ledger": ["psycopg"], "judge": ["aiohttp"]}.get(name, []):
        pytest.importorskip(package)
    tree, commands, env = STOLEN[name]
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    (tmp_path / "table.csv").write_text(TABLE)
    text = json.dumps(tree).replace("PORT", str(listener.port))
    (tmp_path / "assay.yaml").write_text(text)
    for command in commands:
        done = assay(*command.split(), env=env)
        assert (done.code, "CFG-002" in done.err) == (3, True), done.err
        assert "`assay trust assay.yaml`" in done.err
    assert listener.heard == b""
    for command in commands[:1]:
        assay(*command.split(), "--trust", env=env)
    assert SECRET.encode() in listener.heard, "the user may send it"


def test_an_attestation_by_the_key_that_the_file_names_is_not_enough(
    assay: Any, tmp_path: Path
) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives import serialization as forms  # an optional extra

    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    public = key.public_key().public_bytes(
        forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "theirs.key").write_bytes(private)
    (tmp_path / "theirs.key").chmod(0o600)
    (tmp_path / "theirs.pub").write_bytes(public)
    good = Path(EXAMPLES) / "release"
    made = assay(
        *("gate", good / "fixed.jsonl", "--baseline", good / "baseline.jsonl"),
        *("--attest", "a.json", "--sign", "theirs.key"),
    )
    assert made.code == 0, made.err
    for option in ("{key: theirs.pub}", "{unsigned: true}"):
        (tmp_path / "assay.yaml").write_text(f"commands: {{verify-attestation: {option}}}\n")
        assert assay("verify-attestation", "a.json").code == 4
    assert assay("verify-attestation", "a.json", "--key", "theirs.pub").code == 0


@pytest.mark.parametrize("kind", ["workflow", "tools", "results"])
def test_the_job_that_init_writes_trusts_no_fork(kind: str, assay: Any, tmp_path: Path) -> None:
    if kind == "tools":
        (tmp_path / "server.py").write_text("from mcp.server import Server\nserver = Server('x')\n")
    elif kind == "results":
        (tmp_path / "results.csv").write_text(TABLE)
    assert assay("init").code == 0
    job = read_yaml(str(tmp_path / CI_FILE)).tree["jobs"]["assay"]
    same = "github.event.pull_request.head.repo.full_name == github.repository"
    asked = " ".join(job["env"]["TRUST"].split())
    assert asked == f"${{{{ (github.event_name == 'push' || {same}) && '--trust' || '' }}}}"
    lines = "\n".join(step.get("run", "") for step in job["steps"]).splitlines()
    called = [line for line in lines if line.strip().startswith("assay ")]
    assert called
    assert all(" $TRUST " in line for line in called)
    assert not any("--trust" in line for line in lines)
