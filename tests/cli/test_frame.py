"""The frame of the command line: one table of verbs, options that are declared once, and old names
that lead to the new ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from assay.cli import frame
from assay.cli.demo import EXAMPLES
from assay.cli.frame import COMMON, Command
from assay.cli.main import run
from assay.cli.verbs import GROUPS, VERBS
from assay.errors import ExitCode, InputError, UsageError


def commands() -> dict[str, Command]:
    """Every verb and action that declares its arguments as data."""
    places = {
        f"{name} {action}".strip(): module
        for name, verb in VERBS.items()
        for action, module in (
            {a: m for a, (m, _) in verb.actions.items()} or {"": verb.module}
        ).items()
    }
    found = {
        name: getattr(
            import_module(module if "." in module else f"assay.cli.{module}"), "COMMANDS", {}
        ).get(name)
        for name, module in places.items()
    }
    return {name: command for name, command in found.items() if command is not None}


LABELS = "".join(
    json.dumps({"id": str(n), "human": n % 2, "judge": int(n % 3 > 0)}) + "\n" for n in range(40)
)
WRITING = {
    "grade": "grade {examples}/rag.jsonl",
    "gate": "gate {examples}/release/fixed.jsonl --baseline {examples}/release/baseline.jsonl",
    "judge": "judge calibrate --labels labels.jsonl",
    "exam": "exam lint {examples}/exams/verbs.yaml",
    "report": "report summary {examples}/rag.jsonl",
}


@pytest.mark.parametrize("line", WRITING.values(), ids=WRITING)
def test_every_verb_names_the_files_it_wrote_on_standard_error(
    line: str, assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "labels.jsonl").write_text(LABELS)
    words = [*line.format(examples=EXAMPLES).split(), "-o", "out.json"]
    done = assay(*words)
    assert "wrote" not in done.out
    assert done.err.endswith("wrote out.json\n")
    assert (tmp_path / "out.json").is_file()
    assert "wrote" not in assay(*words, "--json").err


def test_the_help_lists_every_verb_once_under_its_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for group, verbs in GROUPS.items():
        part = text.split(f"\n{group}:\n", 1)[1].split("\n\n", 1)[0]
        assert [line.split()[0] for line in part.splitlines()] == list(verbs)


def test_every_command_has_a_sentence_an_example_that_names_it_and_known_options() -> None:
    for name, command in commands().items():
        assert command.description.endswith("."), name
        assert command.example.startswith(f"assay {name}"), name
        command.parse(name, []) if not command.arguments else None
        for argument in command.arguments:
            assert not isinstance(argument, str) or argument in COMMON, (name, argument)


def test_an_option_that_takes_one_value_is_refused_the_second_time() -> None:
    seen = set()
    for name, command in commands().items():
        parser = command.parser(name)
        for action in parser._actions:
            if not (action.option_strings and isinstance(action, argparse._StoreAction)):
                continue
            option = max(action.option_strings, key=len)
            value = str(next(iter(action.choices or ["1"])))
            with pytest.raises(UsageError, match=f"{option} is given twice") as caught:
                parser.parse_args([option, value, option, value])
            assert caught.value.exit_code == ExitCode.MISUSE
            seen.add(option)
    assert {"--profile", "--config", "--output", "--store"} <= seen
    repeated = commands()["gate"].parse("gate", ["a.jsonl", *("--baseline", "b.jsonl") * 2])
    assert repeated.baseline == ["b.jsonl", "b.jsonl"]


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--min-pass-rate", "95%", "'95%' is not a number, such as 0.95"),
        ("--tolerance", "1,5", "'1,5' is not a number"),
    ],
)
def test_a_value_that_is_not_a_number_is_refused_in_plain_words(
    option: str, value: str, why: str
) -> None:
    with pytest.raises(UsageError, match=f"argument {option}: {why}"):
        commands()["gate"].parse("gate", ["a.jsonl", "--baseline", "b.jsonl", option, value])


def test_a_shared_option_is_declared_once() -> None:
    for name, command in commands().items():
        own = [flag for one in command.arguments if not isinstance(one, str) for flag in one.names]
        shared = {"--library", "--db", "--profile"} & set(own)
        if name == "batch":  # its rows have no workflow.family to go by
            shared -= {"--profile"}
        assert not shared, (name, shared)


def test_a_command_ends_with_its_own_exit_code_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(options: Any) -> int:
        sys.exit(0)

    command = frame.load_command("doctor")
    monkeypatch.setattr(frame, "load_command", lambda name: command._replace(run=leave))
    with pytest.raises(InputError, match="ended the process, with exit code 0") as caught:
        frame.dispatch("doctor", [])
    assert caught.value.exit_code == 3


def test_help_lists_what_many_verbs_share_under_headings(assay: Any) -> None:
    own, *shared = assay("gate", "--help").out.partition("\noptions:")[2].split("\n\n")
    assert "--tolerance" in own
    headings = {text.strip().partition(":\n")[0]: text for text in shared}
    assert "--grading-policy" in headings["grading"]
    assert "--map" in headings["other tools' files"]
    assert "--db" in headings["ledger"]


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("gate a.jsonl --basline b.jsonl", "Did you mean '--baseline'?"),
        ("batch a.csv --thread=2", "Did you mean '--threads'?"),
        ("exam gate a.json b.json", "b.json. `assay exam gate --help`"),
    ],
)
def test_a_mistyped_option_is_answered_with_the_one_that_was_meant(
    line: str, near: str, assay: Any
) -> None:
    done = assay(*line.split())
    assert (done.code, near in done.err) == (2, True), done.err


def test_options_are_frozen_and_a_command_with_others_gets_a_copy() -> None:
    options = commands()["gate"].parse("gate", ["a.jsonl", "--baseline", "b.jsonl"])
    with pytest.raises(AttributeError, match="options are frozen: store"):
        options.store = "sqlite:///other.db"
    with pytest.raises(AttributeError, match="options are frozen: files"):
        del options.files
    other = options.with_values(store="sqlite:///other.db")
    assert (options.store, other.store, other.files) == (None, "sqlite:///other.db", ["a.jsonl"])


def test_no_option_hides_what_options_say_of_themselves() -> None:
    own = {name for name in dir(frame.Options) if not name.startswith("_")}
    for name, command in commands().items():
        assert own.isdisjoint(command.declared), name


def test_what_a_run_remembers_is_what_its_options_declare() -> None:
    declared = commands()["run"].declared
    kept = {name for name, argument in declared.items() if argument.resumed not in (None, "new")}
    # how fast it goes on and where its results go is asked anew; everything else is kept
    asked = {"concurrency", "name", "work", "resume", "events", "output", "now", "step_summary"}
    assert declared.keys() - kept == asked | {"otlp_endpoint"}


def test_an_option_of_several_verbs_says_the_same_of_itself() -> None:
    said: dict[str, set[Any]] = {}
    for command in commands().values():
        for argument in command.declared.values():
            if argument.long in COMMON and argument.heading:
                said.setdefault(argument.long, set()).add((argument.heading, argument.kind))
    assert {name for name, ways in said.items() if len(ways) > 1} <= {"--policy"}
