"""The Python interface: run, evaluate, load, summary and gate, as a script or a notebook uses them."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.api.evaluating import as_workflow, named
from assay.cli.main import run as main
from assay.errors import AssayError, InputError, NotEnoughEvidence, UsageError
from checkout import ROOT
from judges import RUBRIC_YAML, reading_judge

ROWS = [
    {"id": f"s{n}", "question": f"why {n}", "expected": {"answer": f"WHY {n}"}} for n in range(4)
]
PROFILE = """
profile: echo
version: 1
title: Echo
description: Whether an answer is what was expected.
family: echo
gates: [{id: overall_status_success}]
criteria:
  - {id: correctness, label: Right answer, weight: 1, layer: 1, formula: binary, role: correctness}
"""


def right(inputs: Any, outputs: Any, expected: Any) -> dict[str, int]:
    return {"correctness": int(outputs["answer"] == expected["answer"])}


def upper(question: str) -> str:
    return question.upper()


@pytest.fixture
def profile(tmp_path: Path) -> str:
    path = tmp_path / "echo.yaml"
    path.write_text(PROFILE)
    return str(path)


def test_a_function_is_evaluated_and_the_result_prints_on_one_screen(profile: str) -> None:
    found = assay.evaluate(upper, ROWS, scorers=[right], profile=profile)
    assert (found.passed, found.pass_rate, found.failed, len(found)) == (True, 1.0, [], 4)
    assert [one["grade"] for one in found] == ["A"] * 4
    text = str(found)
    assert "4 of 4 runs passed" in text
    assert "Graded by " in text
    assert "`" not in text
    assert "#" not in text
    assert len(text.splitlines()) <= 40
    assert found.evaluation is not None
    assert found.evaluation.totals.n == 4
    assert found.runs[0]["workflow"]["profile"] == "echo@1"
    failed = str(assay.evaluate(lambda question: "no", ROWS, scorers=[right], profile=profile))
    assert "criterion below its floor  runs  of\n  correctness                4     4\n" in failed


def test_it_works_where_an_event_loop_is_running_already(profile: str) -> None:
    async def bot(question: str) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"answer": question.upper()}

    async def notebook() -> Any:
        return assay.evaluate(bot, ROWS, scorers=[right], profile=profile)

    assert asyncio.run(notebook()).passed


def test_a_function_that_raises_or_a_scorer_that_does_fails_closed(profile: str) -> None:
    def broken(question: str) -> str:
        if question == "why 1":
            raise ValueError("no")
        return question.upper()

    def scorer(inputs: Any, outputs: Any, expected: Any) -> dict[str, int]:
        if inputs["question"] == "why 2":
            raise KeyError("lost")
        return right(inputs, outputs, expected)

    found = assay.evaluate(broken, ROWS, scorers=[scorer], profile=profile, name="nightly")
    assert found.failed == ["nightly:s1", "nightly:s2"]
    assert not found.passed
    assert assay.evaluate(upper, ROWS, profile=profile).pass_rate == 0
    with pytest.raises(InputError, match="a scorer is a function"):
        assay.evaluate(upper, ROWS, scorers=["right"], profile=profile)


def test_gates_of_scorers_and_assertions_of_samples_are_required(
    profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(outputs: Any) -> tuple[bool, str]:
        return len(outputs["answer"]) < 5, "the answer has fewer than five characters"

    gated = {"target": short, "gate": True}
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = assay.evaluate(upper, ROWS, scorers=[right, gated], profile=profile)
    assert not list(tmp_path.glob("assay-*")), "the profile that was made is not a file"
    assert found.pass_rate == 0
    assert found.grades[0]["hard_gates"]["short"]["status"] == "fail"
    assert assay.gate(found, found).outcome == "not_enough_evidence"
    rows = [{**ROWS[0], "assert": [{"contains": "nothing"}]}, ROWS[1]]
    held = assay.evaluate(upper, rows, scorers=[right], profile=profile)
    assert [one.rpartition(":")[2] for one in held.failed] == ["s0"]


def test_an_expected_value_never_reaches_the_function(profile: str) -> None:
    seen: list[Any] = []

    def spy(inputs: Any) -> str:
        seen.append(dict(inputs))
        return "x"

    assay.evaluate(spy, [{"id": "a", "q": 1, "expected": {"answer": "x"}}], profile=profile)
    assert seen == [{"q": 1}]


def test_html_escapes_what_a_run_says(profile: str) -> None:
    poison = "<script>alert(1)</script>"
    found = assay.evaluate(lambda question: poison, ROWS, scorers=[right], profile=profile)
    html = found._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    for other in (assay.summary(found), assay.gate(found, found)):
        assert other._repr_html_().startswith("<div")


def test_two_evaluations_are_summarized_and_gated(profile: str, tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "question": f"q {n}", "expected": {"answer": f"Q {n}"}} for n in range(60)
    ]
    good = assay.evaluate(upper, rows, scorers=[right], profile=profile)
    bad = assay.evaluate(
        lambda question: question, rows, scorers=[right], profile=profile, version="2"
    )
    assert assay.summary(good, bad).block.n == 120
    assert [bool(assay.summary(*one)) for one in ([good], [good, bad], [])] == [True, False, False]
    gate = assay.gate(bad, good)
    assert (gate.outcome, bool(gate)) == ("reject", False)
    assert "reject" in str(gate).lower()
    assert json.loads(gate.document())["outcome"] == "reject"
    others = [
        {"id": f"new {n}", "question": f"r {n}", "expected": {"answer": f"R {n}"}}
        for n in range(60)
    ]
    elsewhere = assay.evaluate(upper, others, scorers=[right], profile=profile, version="2")
    unpaired = assay.gate(elsewhere, good)
    assert unpaired.outcome == "not_enough_evidence"
    assert "the two sides share no sample" in str(unpaired.decision.notes)
    good.save(str(tmp_path / "good.jsonl"))
    again = assay.load(str(tmp_path / "good.jsonl"), profile=profile)
    assert (len(again), again.passed) == (60, True)
    assert "60 runs" in str(again)
    same = assay.gate(str(tmp_path / "good.jsonl"), good)
    assert same.outcome != "reject"
    assert [bool(one) for one in (good, bad, again)] == [True, False, True]


def test_a_run_counts_once_and_samples_may_come_from_a_generator(
    profile: str, tmp_path: Path
) -> None:
    found = assay.evaluate(upper, (row for row in ROWS), scorers=[right], profile=profile)
    assert len(found) == len(ROWS)
    file = tmp_path / "runs.jsonl"
    found.save(str(file))
    with pytest.raises(InputError, match="appears more than once"):
        assay.summary(str(file), str(file), profile=profile)
    with pytest.raises(InputError, match="appears more than once"):
        assay.summary(found, found)
    (empty := file.with_name("empty.jsonl")).write_text("")
    with pytest.raises(NotEnoughEvidence, match="contains no runs"):
        assay.summary(str(file), str(empty), profile=profile)
    file.write_text(file.read_text() * 2)
    rows: Any = [found.runs[0]]
    for call in (
        lambda: assay.load(rows),
        lambda: assay.summary(rows),
        lambda: assay.gate(rows, found),
        lambda: assay.gate(found, rows),
    ):
        with pytest.raises(AssayError, match=r"^runs can't be read from list\."):
            call()
    for read in (assay.load, assay.summary):
        with pytest.raises(InputError, match="appears more than once"):
            read(str(file), profile=profile)


def test_a_candidate_brings_no_rules_into_a_comparison(profile: str, tmp_path: Path) -> None:
    rows = [{"id": str(n), "question": "q", "expected": {"answer": "Q"}} for n in range(60)]
    good = assay.evaluate(upper, rows, scorers=[right], profile=profile)
    file = str(tmp_path / "good.jsonl")
    good.save(file)
    assert assay.gate(good, assay.load(file, profile=profile)).outcome == "promote"
    with pytest.raises(InputError, match="the candidate would set the bar"):
        assay.gate(good, file)  # runs alone don't say what they are graded by
    assert assay.gate(good, file, profile=profile).outcome == "promote"
    easy = tmp_path / "easy.yaml"
    easy.write_text(PROFILE.replace("version: 1", "version: 2"))
    eased = assay.evaluate(upper, rows, scorers=[right], profile=str(easy))
    by = assay.gate(eased, good).decision.fingerprint.fields["profile"]
    assert [str(name).partition("+")[0] for name in by] == ["echo@1"]  # the baseline's


def test_the_projects_release_rules_hold_for_python_too(
    profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(n), "question": "q", "expected": {"answer": "Q"}} for n in range(60)]
    good = assay.evaluate(upper, rows, scorers=[right], profile=profile)
    (tmp_path / "assay.yaml").write_text(
        "project: p\nrelease: {min_pass_rate: 0.99, confidence: 0.95}\n"
    )
    held = assay.gate(good, good)  # 60 of 60 don't show 99 %
    assert (held.outcome, bool(held)) == ("hold", False)
    (tmp_path / "assay.yaml").write_text("project: p\nrelease: {policy: release-strict}\n")
    assert assay.gate(good, good).decision.policy == "release-strict@1"
    assert assay.gate(good, good, release_policy="release").decision.policy == "release@1"


def test_numbers_that_would_leave_out_samples_are_refused(profile: str) -> None:
    for wrong in ({"repeats": 0}, {"repeats": 1.5}, {"concurrency": 0}, {"timeout_s": 0}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            assay.evaluate(upper, ROWS, profile=profile, **wrong)
    for wrong in ({"limit": -1}, {"limit": 0}, {"repeats": True}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            assay.run(**wrong)


def test_a_stored_baseline_is_found_by_its_name(
    profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"id": str(n), "question": f"q {n}", "expected": {"answer": f"Q {n}"}} for n in range(60)
    ]
    good = assay.evaluate(upper, rows, scorers=[right], profile=profile)
    monkeypatch.chdir(tmp_path)
    good.save("good.jsonl")
    command = ["baseline", "set", "production", "good.jsonl", "--profile", profile]
    assert main(command) == 0
    assert assay.gate(good, "production").outcome == "promote"
    assert assay.gate(good, "production@1").outcome == "promote"
    easy = tmp_path / "easy.yaml"
    easy.write_text(PROFILE.replace("version: 1", "version: 2").replace("layer: 1", "layer: 2"))
    eased = assay.evaluate(upper, rows, scorers=[right], profile=str(easy))
    with pytest.raises(InputError, match="was stored under profile"):
        assay.gate(eased, "production")  # the candidate's rules are not the baseline's
    with pytest.raises(NotEnoughEvidence):
        assay.gate(good, "prodution")


def stored(assay_command: Any, runs: list[Any], name: str, *words: str) -> None:
    """The runs, stored as an evaluation of this name."""
    Path(f"{name}.jsonl").write_text("".join(json.dumps(run, default=float) + "\n" for run in runs))
    assert assay_command("import", f"{name}.jsonl", "--name", name, *words).code == 0


def test_stored_evaluations_are_decided_in_python_by_the_rules_of_the_command(
    assay_command: Any, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"id": str(n), "question": f"q {n}", "expected": {"answer": f"Q {n}"}} for n in range(60)
    ]
    good = assay.evaluate(upper, rows, scorers=[right], profile=profile)
    strict = tmp_path / "strict.yaml"
    tone = "  - {id: tone, label: Tone, weight: 1, layer: 1, formula: binary}\n"
    strict.write_text(PROFILE.replace("profile: echo", "profile: strict") + tone)
    for name, value in (("old", 1), ("new", 0)):
        runs = [
            {**run, "run_id": f"{name}-{run['run_id']}"}
            | {"workflow": {"id": "bot", "version": name, "family": "rag"}}
            | {"scores": {**run["scores"], "tone": {"raw": value}}}
            for run in good.runs
        ]
        stored(assay_command, runs, name, "--profile", str(strict))
    assert assay_command("gate", "new", "--baseline", "old").code == 2
    with pytest.raises(UsageError, match=r"graded by a profile from a file.*`profile=`"):
        assay.gate("new", "old")  # by another profile, it was promoted
    with pytest.raises(UsageError, match="graded by a profile from a file"):
        assay.load("new")
    assert assay.gate("new", "old", profile=str(strict)).outcome == "reject"
    assert assay.load("old", profile=str(strict)).passed
    (tmp_path / "assay.yaml").write_text("profile: strict.yaml\n")
    assert assay.gate("new", "old").outcome == "reject"


def test_an_old_evaluation_and_a_name_of_two_things_are_no_baseline_in_python(
    assay_command: Any, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = assay.evaluate(upper, ROWS, scorers=[right], profile=profile)
    long_ago = {"started_at": "2020-01-01T00:00:00Z", "finished_at": "2020-01-01T00:00:01Z"}
    stored(assay_command, [{**run, **long_ago} for run in good.runs], "aged", "--profile", profile)
    for baseline in ("aged", assay.load("aged", profile=profile)):
        with pytest.raises(NotEnoughEvidence, match="days old; release@1 allows 90"):
            assay.gate(good, baseline, profile=profile)
    stored(assay_command, good.runs, "twice", "--profile", profile)
    words = ("--profile", profile, "--dir", ".assay/baselines")
    assert assay_command("baseline", "set", "twice", "twice.jsonl", *words).code == 0
    with pytest.raises(UsageError, match="is both a stored baseline and the evaluation"):
        assay.gate(good, "twice", profile=profile)


def test_a_part_of_a_file_of_the_project_is_read_from_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ROOT / "src/assay/cli/examples/rag.jsonl"
    shipped = ROOT / "src/assay/library/policies/workflow@1.yaml"
    (tmp_path / "inner").mkdir()
    for folder, least in ((tmp_path, 100), (tmp_path / "inner", 1)):
        text = shipped.read_text().replace("pass_threshold: 70", f"pass_threshold: {least}")
        text = text.replace("policy: workflow", "policy: own")
        (folder / "rules.yaml").write_text("bar:\n" + textwrap.indent(text, "  "))
    (tmp_path / "assay.yaml").write_text("policy: rules.yaml#bar\n")
    monkeypatch.chdir(tmp_path / "inner")
    assert {grade["pass_threshold"] for grade in assay.load(str(run))} == {100}


def test_judge_cards_of_the_project_count_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ROOT / "src/assay/cli/examples/rag.jsonl"
    assert len(assay.load(str(run))) == 3
    (tmp_path / "inner").mkdir()
    (tmp_path / "assay.yaml").write_text("judge_cards: [cards/main.json]\n")
    monkeypatch.chdir("inner")
    with pytest.raises(InputError, match=r"^\.\./cards/main\.json"):
        assay.load(str(run))
    with pytest.raises(InputError, match=r"^\.\./cards/main\.json"):
        assay.gate(str(run), str(run))


def test_imported_results_are_decided_in_python_by_the_metrics_of_the_baseline(
    assay_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, score in (("old", 0.9), ("new", 0.5)):
        rows = [f"q{n},a,{score}" for n in range(60)]
        Path(f"{name}.csv").write_text("\n".join(["id,answer,score", *rows]))
        words = ("--workflow", f"bot@{name}", "--name", name)
        assert assay_command("import", f"{name}.csv", *words).code == 0
    assert assay.gate("new", "old").outcome == "reject"
    assert assay.gate("old", "new").outcome == "promote"
    assert assay.load("old").passed


def test_a_workflow_file_runs_on_a_dataset(profile: str, tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(
        "def ask(inputs):\n    return {'answer': inputs['q'].upper()}\n"
    )
    (tmp_path / "w.yaml").write_text(
        f"workflow: bot\nversion: 1\nprofile: {profile}\n"
        "adapter: {kind: python, target: 'bot:ask'}\ninputs: [q]\noutputs: [answer]\n"
    )
    (tmp_path / "d.jsonl").write_text('{"id": "a", "q": "x", "expected": {"answer": "X"}}\n')
    found = assay.run(str(tmp_path / "w.yaml"), str(tmp_path / "d.jsonl"), profile=profile)
    assert len(found) == 1
    assert found.runs[0]["outputs"] == {"answer": "X"}
    assert found.failed  # nothing scores it: missing evidence fails closed
    twice = assay.run(str(tmp_path / "w.yaml"), [{"id": "b", "q": "y"}], profile=profile, repeats=2)
    assert (len(twice), bool(twice)) == (2, False)  # true only if every run passed


def test_a_run_can_be_judged_as_on_the_command_line(
    assay_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text("def answer(inputs):\n    return inputs['q'] + ' right'\n")
    (tmp_path / "w.yaml").write_text(
        "workflow: bot\nversion: 1\nprofile: judged\ninputs: [q]\noutputs: [answer]\n"
        "output_schema: {type: object}\nadapter: {kind: python, target: 'bot:answer'}\n"
    )
    (tmp_path / "d.jsonl").write_text('{"id": "a", "q": "one"}\n{"id": "b", "q": "bad"}\n')
    clarity = "  - {id: clarity, label: Clarity, weight: 1, layer: 2, formula: likert_1_5}\n"
    judged = PROFILE.replace("echo", "judged").replace("formula: binary", "formula: likert_1_5")
    for kind, text in (
        ("profiles/judged@1", judged.replace("gates:", "rubric: plain@1\ngates:") + clarity),
        ("rubrics/plain@1", RUBRIC_YAML),
    ):
        path = tmp_path / "lib" / f"{kind}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    with reading_judge() as endpoint:
        spec = {"judge": "scripted", "model": "m-1", "base_url": endpoint.url}
        (tmp_path / "judge.yaml").write_text(json.dumps(spec))
        found = assay.run("w.yaml", "d.jsonl", library="lib", judge="judge.yaml")
        assert len(endpoint.seen) == 2 * 2
        shown = assay_command(
            *("run", "w.yaml", "--dataset", "d.jsonl", "--library", "lib", "--no-store"),
            *("--judge", "judge.yaml", "--json"),
        ).json()["results"]
    assert found.notes == ()
    assert [run["scores"]["correctness"]["raw"] for run in found.runs] == [5, 5]
    for one, same in zip(found.grades, shown, strict=True):
        assert (one["grade"], float(one["weighted_score"])) == (
            same["grade"],
            same["weighted_score"],
        )
    assert found.evaluation is not None
    assert found.evaluation.settings["judge"]["name"] == "scripted"
    alone = assay.run("w.yaml", "d.jsonl", library="lib")
    assert not alone.passed  # what only a judge can score is missing, which fails closed
    assert any("a judge scores it, and none is configured" in note for note in alone.notes)


@pytest.fixture
def assay_command(request: pytest.FixtureRequest) -> Any:
    """The command of the same name as the package."""
    return request.getfixturevalue("assay")


def test_a_configuration_is_run_and_its_stored_evaluations_are_found_by_name(
    assay_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text("def answer(inputs):\n    return {'answer': 'Paris'}\n")
    assert assay_command("init").code == 0
    sample = {"id": "f", "question": "France", "expected": {"answer": "Paris"}}
    (tmp_path / "samples.jsonl").write_text(json.dumps(sample))
    found = assay.run(name="first")
    assert (len(found), found.passed) == (1, True)
    assert len(assay.run("assay.yaml", [sample], repeats=2)) == 2
    assert assay_command("run").code == 0
    again = assay.load("latest")
    assert (len(again), again.passed) == (1, True)
    assert assay.summary("latest", found).block.n == 2
    assert assay.gate("latest", found).outcome == "not_enough_evidence"
    (tmp_path / "own.py").write_text(
        "def polite(outputs):\n    return 'please' in outputs['answer']\n"
    )
    with (tmp_path / "assay.yaml").open("a") as stream:
        stream.write("gates:\n  - {target: 'own:polite'}\n")
    assert not assay.run().passed
    with pytest.raises(NotEnoughEvidence, match="there is no evaluation 'lates'"):
        assay.load("lates")


def test_a_workflow_and_a_dataset_are_found_by_name_and_held_to_the_projects_gates(
    assay_command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bot.py").write_text("def answer(inputs):\n    return 'Paris'\n")
    (tmp_path / "own.py").write_text("def polite(outputs):\n    return 'please' in outputs\n")
    (tmp_path / "echo.yaml").write_text(PROFILE)
    entry = "{version: 1, inputs: [q], outputs: [answer], adapter: {kind: python, target: 'bot:answer'}}"
    (tmp_path / "assay.yaml").write_text(
        f"project: p\nprofile: echo.yaml\nworkflows:\n  now: {entry}\n  next: {entry}\n"
        "dataset: first\ndatasets: {first: one.jsonl, second: two.jsonl}\n"
        "gates: [{target: 'own:polite'}]\n"
    )
    for name, n in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(f'{{"id": "{i}", "q": "x"}}\n' for i in range(n))
        )
    found = assay.run("next")
    assert (len(found), found.runs[0]["workflow"]["id"]) == (1, "next")
    assert found.runs[0]["outputs"] == {
        "answer": "Paris"
    }  # one answer is an output, as in evaluate
    assert len(assay.run("now", "second")) == 2
    (tmp_path / "w.yaml").write_text(f"workflow: own\n{entry[1:-1].replace(', ', chr(10), 3)}\n")
    for one in (found, assay.run("w.yaml")):  # a workflow's own file doesn't leave the gates behind
        assert "polite" in one.grades[0]["hard_gate_failures"]
    for names in (["nxt"], ["next", "secnd"]):
        with pytest.raises(UsageError, match=r"Did you mean '(next|second)'"):
            assay.run(*names)
    shown = assay_command("run", "next", "--no-store", "--json").json()["results"][0]
    assert tuple(shown["hard_gate_failures"]) == found.grades[0]["hard_gate_failures"]
    bare = {**found.runs[0], "gates": {}, "output_schema": {"type": "object"}}
    bare["scores"] = {"correctness": {"raw": 1}}
    (tmp_path / "bare.jsonl").write_text(json.dumps(bare, default=float))
    for one in (assay.load("bare.jsonl"), assay.load("bare.jsonl", profile="echo.yaml")):
        assert one.grades[0]["hard_gate_failures"] == ("polite",)  # required, with no evidence
    assert "polite" in assay.gate("bare.jsonl", "bare.jsonl").decision.candidate.gates


def test_a_reference_that_nothing_has_is_an_error_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotEnoughEvidence, match=r"there is no \.assay/ledger\.db here or above"):
        assay.load("latest")
    with pytest.raises(AssayError):
        assay.load("./none.jsonl")


@pytest.mark.parametrize("wrong", ["samples.jsonl", ["a"], {"id": "a"}])
def test_samples_that_are_no_list_of_mappings_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="must be a list of mappings"):
        assay.evaluate(upper, wrong)


def test_functions_of_any_shape_are_called_with_the_inputs() -> None:
    assert as_workflow(lambda a, b: a + b, ["a", "b"])({"a": 1, "b": 2}) == 3
    assert as_workflow(lambda inputs: {"n": len(inputs)}, ["a"])({"a": 1}) == {"n": 1}
    with named([upper]) as (target,):
        assert target.startswith("assay_given_functions:upper_")
    with pytest.raises(InputError, match="can't be called"):
        as_workflow("x", [])


def test_a_misspelt_assert_is_refused_and_never_an_input() -> None:
    rows = [{"id": "a", "question": "why", "asert": [{"contains": "x"}]}]
    with pytest.raises(InputError, match="Did you mean 'assert'"):
        assay.evaluate(lambda question: question, rows, profile="rag-measured")


def test_a_scorer_that_raises_is_in_the_printed_result() -> None:
    def broken(run: Any) -> float:
        raise ValueError("boom")

    found = assay.evaluate(
        lambda question: question,
        [{"question": "why", "expected": "why"}],
        scorers=[{"target": broken, "weight": 1}],
        profile="rag-measured",
    )
    assert "scorer broken raised in 1 of 1 run: ValueError: boom; its score is missing" in str(
        found
    )
    assert found.runs[0]["dataset"]["sample_id"].startswith("sha-")
    assert found.runs[0]["expected"] == {"answer": "why"}


def test_a_table_is_refused_with_the_commands_that_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("old", "new"):
        rows = "".join(f"s{n},{n % 2}\n" for n in range(30))
        (tmp_path / f"{name}.csv").write_text(f"id,score\n{rows}")
        with pytest.raises(InputError) as refused:
            assay.gate(f"{name}.csv", "old.csv")
        command, given, profile, *_ = re.findall(
            r"`(.+?)`|pass (\S+) |profile='(.+?)'", refused.value.fix
        )
        assert main(command[0].split()[1:]) == 0
    assert (given[1], profile[2]) == ("new.runs.jsonl", "new.runs.profile.yaml")
    assert assay.gate(given[1], "old.runs.jsonl", profile="old.runs.profile.yaml").outcome
