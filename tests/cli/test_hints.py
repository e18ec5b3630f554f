"""Every command that a command prints works as printed, with the options that were given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from assay.cli.frame import Options
from assay.cli.hints import GRADED_BY, command
from viewing import viewing

PRINTED = re.compile(r"^\s*(?:next\s+|head\s+)?(assay [a-z].*?)(?:\s+#.*|  [a-z][a-z ]+\.)?$")
VERB = re.compile(r"assay [a-z-]+(?: [a-z-]+)?")
"""A verb by its name, in a sentence."""
FORM = re.compile(r"\.\.\.|\b[A-Z]{3,}\b")
"""What shows the form of a command, and is not a command to paste."""


def commands_in(text: str) -> list[str]:
    """The commands in what was printed."""
    quoted = [one for one in re.findall(r"`(assay [^`]+)`", text) if not VERB.fullmatch(one)]
    lines = [found[1] for line in text.splitlines() if (found := PRINTED.match(line))]
    return [one for one in dict.fromkeys([*quoted, *lines]) if not FORM.search(one)]


def test_the_collector_sees_commands_in_lines_and_in_sentences() -> None:
    text = "x `assay run --resume d` goes on\n  assay evals  # all\nnext    assay run\nassay: no.\n"
    assert commands_in(text) == ["assay run --resume d", "assay evals", "assay run"]
    assert commands_in("`assay baseline set NAME FILE...` stores one") == []


SCENES: dict[str, list[tuple[str, ...]]] = {
    "a run that fails": [("run", "next", "--name", "n1"), ("evals",), ("explain", "n1")],
    "another ledger and project": [
        ("run", "next", "--name", "n1", "--store", "sqlite:///other/l.db", "--project", "p-1"),
        ("evals", "--db", "sqlite:///other/l.db", "--project", "p-1"),
        ("explain", "n1", "--db", "sqlite:///other/l.db", "--project", "p-1"),
    ],
    "no ledger, a policy and a profile": [
        (
            "run",
            "next",
            "--name",
            "n1",
            "--no-store",
            "--work",
            "my work",
            "--profile",
            "tool-use-measured@1",
            "--policy",
            "workflow@1",
        ),
        ("grade", "my work/runs.jsonl", "--profile", "tool-use-measured@1"),
    ],
    "another configuration": [("run", "next", "--name", "n1", "--config", "my.yaml")],
    "the folder is in use": [
        ("run", "--name", "n1", "-o", "g.json"),
        ("run", "--name", "n1", "-o", "g.json"),
    ],
    "slips": [
        ("grad", "x.json"),
        ("library", "show", "profiles", "tool-us"),
        ("explain", "nothing"),
        ("run", "--profile", "no-such"),
        ("evals",),
    ],
}


@pytest.mark.parametrize("scene", SCENES)
def test_printed_commands_work_as_printed(assay: Any, tmp_path: Path, scene: str) -> None:
    printed = assay("init", "--example", "agent").out
    samples = (tmp_path / "samples.jsonl").read_text().splitlines()[11:14]
    (tmp_path / "samples.jsonl").write_text("\n".join(samples))
    if "configuration" in scene:
        (tmp_path / "assay.yaml").rename(tmp_path / "my.yaml")
        printed = ""
    said = [assay(*words) for words in SCENES[scene]]
    found = commands_in(printed + "\n".join(f"{one.out}\n{one.err}" for one in said))
    assert found or scene == "slips"
    for one in found:
        if one.startswith("assay view "):  # it runs until it is stopped
            with viewing(tmp_path, *shlex.split(one)[2:]) as viewer:
                _, _, headers = viewer.get(viewer.address.path)
                cookie = headers["Set-Cookie"].partition(";")[0]
                assert viewer.get(viewer.said["page"], Cookie=cookie)[0] == 200, one
            continue
        # drawing a page takes seconds, so one scene does it for all
        written = one if "fails" in scene else one.replace("report.html", "report.json")
        done = assay(*shlex.split(written)[1:])
        assert done.code in (0, 1, 4), f"{one}\nexit {done.code}\n{done.err}"


def test_options_are_repeated_only_where_they_were_given() -> None:
    options = Options(profile="rag", policy="workflow", judge_card=["a b"], library=None)
    assert command("grade", "x", options=options, carry=GRADED_BY) == (
        "assay grade x --profile rag --judge-card 'a b'"
    )
    options = options.with_values(sources={"profile": "assay.yaml:3", "judge_card": "command line"})
    assert command("grade", "x", options=options, carry=GRADED_BY) == (
        "assay grade x --judge-card 'a b'"
    )


def test_the_printed_explanation_is_of_the_grade_that_was_printed(assay: Any) -> None:
    assay("init", "--example", "agent")  # its assay.yaml names another profile
    run = assay("run", "next", "--name", "n1", "--profile", "tool-use")
    (explain,) = (one for one in commands_in(run.out) if "explain" in one)
    done = assay(*shlex.split(explain)[1:])
    assert "profile tool-use@" in done.out
    assert "graded by" not in done.err, done.err


def test_the_first_pass_leads_to_a_baseline_and_the_next_run_to_the_gate(
    assay: Any, tmp_path: Path
) -> None:
    assay("init", "--example", "agent")
    shown = assay("library", "show", "profiles", "tool-use-measured@1").out
    (tmp_path / "own.yaml").write_text(shown.replace("profile: tool-use-measured", "profile: ours"))
    rules = ("--profile", "own.yaml", "--policy", "workflow@1")
    run = ("run", "--name", "v1", "--no-store", "--work", "w1", *rules)
    chosen = "--grading-policy workflow@1 --profile own.yaml"
    wanted = f"assay baseline set production w1/runs.jsonl {chosen}"
    assert wanted in commands_in(assay(*run).out)
    assert wanted in commands_in(assay("grade", "w1/runs.jsonl", *rules).out)
    failing = assay("grade", "w1/runs.jsonl", "--profile", "rag")
    assert (failing.code, "baseline set" in failing.out) == (1, False), "it did not pass"
    piped = assay("grade", "-", *rules, stdin=(tmp_path / "w1/runs.jsonl").read_text())
    assert (piped.code, "baseline set" in piped.out) == (0, False), "a pipe can't be read again"
    assert assay(*shlex.split(wanted)[1:]).code == 0
    second = assay("run", "next", "--name", "v2", "--no-store", "--work", "w2", *rules)
    (gate,) = (one for one in commands_in(second.out) if "gate" in one)
    assert gate == f"assay gate w2/runs.jsonl --baseline production {chosen}"
    done = assay(*shlex.split(gate)[1:])
    assert (done.code, "REJECT" in done.out) == (1, True), done.err
    better = assay(*shlex.split(gate.replace("w2/", "w1/"))[1:])
    (keep,) = (one for one in commands_in(better.out) if "baseline" in one)
    own = "--profile own.yaml --grading-policy workflow@1"
    assert keep == f"assay baseline set production w1/runs.jsonl {own}"
    assert "production@2" in assay(*shlex.split(keep)[1:]).out


def test_the_gate_that_is_printed_keeps_the_bar_and_guesses_no_baseline(
    assay: Any, tmp_path: Path
) -> None:
    rows = "".join(f"q{n},{int(n > 0)}\n" for n in range(60))
    (tmp_path / "runs.csv").write_text(f"question,score\n{rows}")
    graded = ("grade", "runs.csv", "--min-pass-rate", "0.9", "--confidence", "0.5")
    (keep,) = (one for one in commands_in(assay(*graded).out) if "baseline" in one)
    assert keep == "assay baseline set production runs.csv"
    assert assay(*shlex.split(keep.replace("production", "bees"))[1:]).code == 0
    (gate,) = (one for one in commands_in(assay(*graded).out) if "gate" in one)
    assert gate == "assay gate runs.csv --baseline bees --min-pass-rate 0.9 --confidence 0.5"
    assert assay(*shlex.split(gate)[1:]).code == 0
    assert assay(*shlex.split(keep.replace("production", "ants"))[1:]).code == 0
    assert not [one for one in commands_in(assay(*graded).out) if "gate" in one]


def test_no_command_names_standard_input_or_files_that_were_imported_together(
    assay: Any, tmp_path: Path
) -> None:
    suite = '<testsuite name="s" tests="30" failures="0" errors="0" skipped="0">{}</testsuite>'
    for part in "ab":
        cases = "".join(f'<testcase classname="{part}" name="t{n}"/>' for n in range(30))
        (tmp_path / f"{part}.xml").write_text(suite.format(cases))
    whole = ("a.xml", "b.xml")
    assert assay("baseline", "set", "bees", *whole).code == 0
    failing = (tmp_path / "a.xml").read_text().replace("/><", "><failure/></testcase><")
    for code in (0, 1):
        done = assay("gate", *whole, "--baseline", "bees")
        assert (done.code, commands_in(done.out)) == (code, [])
        (tmp_path / "a.xml").write_text(failing.replace('failures="0"', 'failures="29"'))
    piped = assay("gate", "-", "--from", "junit", "--baseline", "bees", stdin=failing)
    assert (piped.code, commands_in(piped.out)) == (1, [])
