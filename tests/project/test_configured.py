"""`assay.yaml` as defaults of the command line: who wins, what each key sets, what it can't set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.cli.configured import KEYS_WITHOUT_OPTION, verb_names
from assay.cli.frame import Command
from assay.errors import InputError, UsageError
from assay.project.config import ConfigFile, ReleaseBars, RunLimits
from test_frame import commands

RULES = ("profile", "rubric", "policy")


@pytest.fixture(scope="module")
def known() -> dict[str, Command]:
    return commands()


@pytest.fixture
def parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: dict[str, Command]) -> Any:
    monkeypatch.chdir(tmp_path)
    for name in ("ASSAY_DB", "ASSAY_LIBRARY"):
        monkeypatch.delenv(name, raising=False)

    def parse_with(text: str, line: str) -> Any:
        Path("assay.yaml").write_text(text)
        verb, _, rest = line.partition(" -- ")
        return known[verb].parse(verb, rest.split())

    return parse_with


def test_the_command_line_wins_over_the_file_and_the_file_over_defaults(parse: Any) -> None:
    text = "limits:\n  concurrency: 3\n  timeout_s: 2.5\nproject: desk\n"
    options = parse(text, "run -- --concurrency 5")
    assert (options.concurrency, options.timeout, options.repeat) == (5, 2.5, 1)
    assert options.sources["concurrency"] == "command line"
    assert options.sources["timeout"] == "assay.yaml:3"
    assert options.sources["repeat"] == "default"
    assert options.project == "desk"
    assert options.config.spec.project == "desk"
    assert parse(text, "run -- --no-config").concurrency == 8
    assert parse(text, "run -- --no-config").config is None


def test_a_list_on_the_command_line_replaces_that_of_the_file(parse: Any) -> None:
    text = (
        "baseline: production\noutputs: {gate: [a.json, b.md]}\ncommands: {gate: {slice: [tag]}}\n"
    )
    options = parse(text, "gate -- c.jsonl")
    assert (options.baseline, options.output, options.slice) == (
        ["production"],
        ["a.json", "b.md"],
        ["tag"],
    )
    options = parse(text, "gate -- c.jsonl --baseline other -o c.json")
    assert (options.baseline, options.output) == (["other"], ["c.json"])


@pytest.mark.parametrize("file", ["", " --no-config"])
def test_no_names_are_an_empty_list_with_and_without_a_file(parse: Any, file: str) -> None:
    assert parse("project: desk\n", f"tools status -- {file}").names == []


def test_a_flag_of_the_file_can_be_taken_back(parse: Any) -> None:
    text = "commands: {grade: {step-summary: true}}\n"
    assert parse(text, "grade -- r.json").step_summary is True
    assert parse(text, "grade -- r.json --no-step-summary").step_summary is False


def test_a_required_option_may_come_from_the_file(parse: Any) -> None:
    options = parse("commands: {judge calibrate: {labels: l.jsonl}}\n", "judge calibrate -- ")
    assert options.labels == "l.jsonl"


def test_another_file_is_named_with_config(parse: Any) -> None:
    Path("ci.yaml").write_text("repeats: 4\n")
    assert parse("repeats: 2\n", "run -- --config ci.yaml").repeat == 4
    assert parse("repeats: 2\n", "run -- --config=ci.yaml").repeat == 4
    with pytest.raises(InputError, match=r"nowhere.yaml"):
        parse("repeats: 2\n", "run -- --config nowhere.yaml")


def test_names_on_the_command_line_are_those_of_the_file(parse: Any) -> None:
    text = (
        "workflows: {bot: bot.yaml, old: old.yaml}\n"
        "datasets: {small: {file: s.jsonl}, large: l.jsonl}\n"
        "judges:\n  main: {model: m, base_url: 'http://127.0.0.1:1/v1'}\n"
    )
    options = parse(text, "run -- bot --dataset small")
    assert (options.workflow, options.dataset) == ("bot.yaml", "assay.yaml#datasets.small")
    assert parse(text, "run -- bot --dataset x.jsonl").dataset == "x.jsonl"
    with pytest.raises(
        UsageError, match=r"there is no workflow 'bott' in assay.yaml. Did you mean 'bot'"
    ):
        parse(text, "run -- bott")
    assert parse(text, "judge claims -- q.jsonl").judge == ["assay.yaml#judges.main"]


def test_the_limit_on_a_judges_cost_reaches_every_verb_that_can_spend(
    parse: Any, known: dict[str, Command]
) -> None:
    keys = {
        verb: command.declared["max_usd"].key
        for verb, command in known.items()
        if "max_usd" in command.declared
    }
    assert len(keys) > 5
    assert set(keys.values()) == {"limits.judge_usd"}
    words = "judge panel -- r.jsonl --rubric rag"
    assert parse("limits: {judge_usd: 5}\n", words).max_usd == "5"
    assert parse("limits: {judge_usd: 5}\n", f"{words} --max-usd 7").max_usd == "7"


def test_the_cards_of_judges_reach_every_verb_that_grades(parse: Any) -> None:
    text = "judge_cards: [cards/main.json]\n"
    for words in ("grade -- r.jsonl", "gate -- r.jsonl", "baseline set -- prod r.jsonl"):
        assert parse(text, words).judge_card == ["cards/main.json"]
        assert parse(text, f"{words} --judge-card own.json").judge_card == ["own.json"]
    assert "judge_card" not in parse(text, "evals -- ")


def test_nobody_guesses_which_of_several_is_meant(parse: Any) -> None:
    text = "workflows: {a: a.yaml, b: b.yaml}\ndatasets: {x: x.jsonl, y: y.jsonl}\n"
    with pytest.raises(UsageError, match=r"several workflows: a, b. Name one: assay run a"):
        parse(text, "run -- ")
    with pytest.raises(UsageError, match=r"several datasets: x, y. Name one: assay run --dataset"):
        parse(text, "run -- a")
    assert parse(text, "run -- --resume folder").workflow is None


def test_inline_profiles_are_parts_of_the_file(parse: Any) -> None:
    options = parse("profile: {profile: own}\npolicy: p/own.yaml\n", "grade -- r.json")
    assert (options.profile, options.policy) == ("assay.yaml#profile", "p/own.yaml")
    options = parse("policy: strict\n", "gate -- r.json --baseline b")
    assert (options.grading_policy, options.release_policy) == ("strict", "release")
    assert parse("policy: strict\n", "exam grade -- e.yaml --answers a").policy != "strict"


def test_paths_go_from_the_file_and_names_stay(parse: Any, monkeypatch: Any) -> None:
    text = (
        "profile: rag\nrubric: r/own.yaml\nlibrary: lib\nbaseline: [main, b.jsonl]\n"
        "ledger: {url: 'sqlite:///l.db', store: true}\noutputs: {run: [g.json], gate: [d.json]}\n"
    )
    Path("sub").mkdir()
    parse(text, "run -- ")
    monkeypatch.chdir("sub")
    command = commands()
    gate = command["gate"].parse("gate", ["c.jsonl"])
    assert (gate.profile, gate.rubric, gate.library) == ("rag", "../r/own.yaml", "../lib")
    assert (gate.baseline, gate.output) == (["main", "../b.jsonl"], ["../d.json"])
    assert gate.store == "sqlite:///../l.db"
    assert command["serve"].parse("serve", []).db == "sqlite:///../l.db"


def test_the_environment_comes_before_the_file(parse: Any, monkeypatch: Any) -> None:
    text = "ledger: {url: 'sqlite:///l.db'}\nlibrary: lib\n"
    assert parse(text, "grade -- r.json --store").store == "sqlite:///l.db"
    assert parse(text, "grade -- r.json").store is None
    monkeypatch.setenv("ASSAY_DB", "sqlite:///e.db")
    monkeypatch.setenv("ASSAY_LIBRARY", "elsewhere")
    options = parse(text, "grade -- r.json --store")
    assert (options.store, options.library) == ("", None), "the verb reads the environment"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("commands: {gaet: {}}\n", "there is no verb 'gaet'."),
        ("commands:\n  run: {repeet: 2}\n", "`assay run` has no option 'repeet'. Did you mean 'repeat'?"),
        ("commands: {run: {repeat: two}}\n", "must be a whole number, not 'two'."),
        ("commands: {run: {repeat: [1]}}\n", "takes one value, not a list."),
        ("commands: {run: {step_summary: 1}}\n", "must be true or false, not 1."),
        ("commands: {run: {name: true}}\n", "must be a string, not True."),
        ("commands: {run: {min-pass-rate: }}\n", "the key has no value."),
        ("commands: {gate: {min-overlap: }}\n", "the key has no value."),
        ("commands: {run: {max-usd: 1, max_usd: 9}}\n", "'max_usd' is the same option."),
        ("commands: {run: {trust: true}}\n", "--trust can only be given on the command line."),
        ("commands: {run: {resume: old}}\n", "--resume can only be given on the command line."),
        ("commands: {run: {now: 2026-11-17}}\n", "--now can only be given on the command line."),
        ("commands: {run: {workflow: w.yaml}}\n", "has no option 'workflow'."),
    ],
)  # fmt: skip
def test_an_option_that_does_not_fit_is_refused_with_its_line(
    parse: Any, text: str, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        parse(text, "run -- ")
    fault = refused.value.faults[0]
    assert message in fault.message
    assert fault.line == text.count("\n")


def test_the_file_does_not_turn_a_decision_into_a_plan(parse: Any) -> None:
    with pytest.raises(InputError) as refused:
        parse("commands: {gate: {plan: true}}\n", "gate -- c.jsonl --baseline b.jsonl")
    assert "--plan can only be given on the command line." in refused.value.faults[0].message


def test_a_verb_that_verifies_takes_nothing_from_the_file(parse: Any) -> None:
    text = "commands: {verify-attestation: {unsigned: true}}\n"
    assert parse(text, "verify-attestation -- a.json").unsigned is False
    with pytest.raises(InputError, match="takes its options only on the command line"):
        parse(text, "gate -- c.jsonl --baseline b.jsonl")


def test_help_never_reads_the_file(parse: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(": not yaml [", "run -- --help")
    assert "--no-config" in capsys.readouterr().out


def test_every_key_leads_to_an_option_that_exists(known: dict[str, Command]) -> None:
    assert set(verb_names()) == set(known)
    keys = {
        argument.key
        for command in known.values()
        for argument in command.declared.values()
        if argument.key is not None
    }
    led = {key.partition(".")[0] for key in keys}
    assert led | set(KEYS_WITHOUT_OPTION) == set(ConfigFile.__struct_fields__)
    nested = {key for key in keys if "." in key}
    assert nested == {
        *(f"limits.{name}" for name in RunLimits.__struct_fields__),
        *(f"release.{name}" for name in ReleaseBars.__struct_fields__),
        "ledger.url",
    }


def test_every_verb_that_grades_takes_the_rules_of_the_file(known: dict[str, Command]) -> None:
    forgotten = set()
    for verb, command in known.items():
        if {"profile", "policy"} <= set(command.declared):
            missing = [
                name for name in RULES if (one := command.declared.get(name)) and not one.key
            ]
            forgotten |= {verb} if missing else set()
    assert forgotten == {"import"}, "another tool's file is graded by what that tool measured"
