"""Scorers and gates of a team's own, and the assertions of a dataset: what they return counts, and
what they fail to return fails closed.
"""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import assay
from assay.errors import InputError, ShelfError
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.records.evidence import Verdict
from assay.records.reading import read_run
from assay.running.compatibility import prepare
from assay.running.dataset import from_rows
from assay.running.post_run import additions_of, after_of, idle_scorers
from assay.running.runner import Runner, RunSettings, work_of
from assay.running.scorer_results import Scorer
from assay.running.scorers import PlacedScorer
from assay.running.workflow import LoadedWorkflow, make_workflow
from assay.scoring.extension import Additions, extended
from assay.scoring.profile import ProfileCriterion, make_plan
from assay.scoring.scorecard import score
from documents import run as document

NOW = "2026-11-15T10:00:00Z"
ROWS = [{"id": "s1", "q": "why", "expected": {"answer": "nine"}}]
ANSWER = "def answer(inputs): return {'answer': 'At nine.'}\n"
_count = iter(range(10_000))


def flow_of(folder: Path, code: str, **spec: Any) -> LoadedWorkflow:
    name = f"checks_{next(_count)}"
    (folder / f"{name}.py").write_text(ANSWER + code)
    tree = {
        "workflow": "w",
        "version": "1",
        "profile": "rag-measured@1",
        "inputs": ["q"],
        "outputs": ["answer"],
        "output_schema": {"type": "object"},
        "adapter": {"kind": "python", "target": f"{name}:answer"},
        **spec,
    }
    text = json.dumps(tree).replace("CHECKS", name)
    return make_workflow(Document(json.loads(text), "workflow.yaml"), folder)


def ran(flow: LoadedWorkflow, rows: list[dict[str, Any]]) -> list[Any]:
    data = from_rows(rows, id="d", version="1", where="d.jsonl")
    kept: list[Any] = []
    settings = RunSettings("x", concurrency=1, timeout_s=30, now=NOW)
    runner = Runner(flow, data, settings, keep=kept.append, after=after_of(flow, criteria=()))
    asyncio.run(runner.run(work_of(prepare(flow, data), settings)))
    return kept


def run_of(
    folder: Path, code: str, *, rows: list[dict[str, Any]] | None = None, **scorer: Any
) -> Any:
    """The one run of a workflow with one scorer, `check`."""
    flow = flow_of(folder, code, scorers=[{"target": "CHECKS:check", **scorer}])
    (run,) = ran(flow, rows or ROWS)
    return run


# --- what a scorer sees


@pytest.mark.parametrize(
    "code",
    [
        "def check(run): return len(run.outputs['answer']) if run.expected['answer'] == 'nine' else 0",
        "def check(anything): return len(anything.outputs['answer'])",
        "def check(outputs, expected, *, retrieved, claims, calls, steps, latency): return 8",
        "def check(i, o, e): return len(o['answer']) if e['answer'] == 'nine' and i['q'] else 0",
        "def check(inputs, outputs, limit=8): return limit",
        "async def check(outputs): return len(outputs['answer'])",
        "class Check:\n  def __call__(self, outputs): return 8\ncheck = Check()",
    ],
)
def test_a_scorer_gets_what_its_parameters_name(tmp_path: Path, code: str) -> None:
    run = run_of(tmp_path, code, version="2")
    assert run["scores"]["check"]["raw"] == 8
    assert run["scores"]["check"]["source"]["version"] == "2"
    assert run["scores"]["check"]["source"]["name"].endswith(":check")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def check(outputs, expcted): return 1", "Did you mean 'expected'"),
        ("def check(): return 1", "takes no parameters"),
        ("check = 5", "cannot be called"),
        ("def other(run): return 1", "has no 'check'"),
    ],
)
def test_a_scorer_that_cannot_be_called_is_refused_before_anything_runs(
    tmp_path: Path, code: str, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        run_of(tmp_path, code)
    assert words in str(caught.value)


def test_what_a_scorer_changes_does_not_change_the_evidence(tmp_path: Path) -> None:
    code = (
        "def check(run):\n  run.outputs['answer'] = 'x'; run.expected.clear(); run.inputs['q'] = 1\n"
        "  return 1"
    )
    run = run_of(tmp_path, code)
    assert run["outputs"] == {"answer": "At nine."}
    assert run["expected"] == {"answer": "nine"}
    assert run["inputs"] == {"q": "why"}


# --- what it returns


@pytest.mark.parametrize(
    ("body", "passed", "reason"),
    [
        ("return True", True, ""),
        ("return False", False, ""),
        ("return False, 'an email'", False, "an email"),
        ("return {'passed': False, 'reason': 'an email'}", False, "an email"),
        ("return {'check': {'passed': True}}", True, ""),
        ("from assay import Verdict; return Verdict(passed=False, reason='r')", False, "r"),
        ("return {'passed': None, 'reason': 'no idea'}", None, "no idea"),
    ],
)
def test_a_gate_of_ones_own_is_a_verdict_with_its_reason(
    tmp_path: Path, body: str, passed: bool | None, reason: str
) -> None:
    run = run_of(tmp_path, f"def check(run): {body}", gate=True)
    assert run["gates"] == {"check": {"passed": passed, "reason": reason}}
    assert "scores" not in run
    assert assay.score(run).hard_gates["check"] is passed


def test_one_function_may_give_scores_and_several_gates(tmp_path: Path) -> None:
    code = (
        "def check(run): return {'tone': 0.5, 'ok': True, 'safe': (False, 'x'),"
        " 'share': {'passed': 1, 'total': 2}, 'n3': {'raw': 4, 'n': 3}}"
    )
    run = run_of(tmp_path, code, gate=["ok", "safe"])
    assert {name: one["raw"] for name, one in run["scores"].items()} == {
        "tone": 0.5,
        "share": {"passed": 1, "total": 2},
        "n3": 4,
    }
    assert run["gates"]["ok"]["passed"] is True
    assert run["gates"]["safe"] == {"passed": False, "reason": "x"}


def test_a_verdict_may_bring_a_score_with_it(tmp_path: Path) -> None:
    code = "def check(run): return {'passed': True, 'reason': 'r', 'score': 0.25}"
    run = run_of(tmp_path, code, name="tone", gate=["tone_ok"], weight=0.5)
    assert run["scores"]["tone"]["raw"] == 0.25
    assert run["gates"]["tone_ok"]["passed"] is True


NONSENSE = [
    "raise ValueError('boom')",
    "raise SystemExit(0)",
    "return None",
    "return 'yes'",
    "return 1",
    "return {}",
    "return {'other': True}",
    "return {'passed': 'yes'}",
    "return {'passed': 1}",
    "return {'passed': True, 'raeson': 'x'}",
    "return (True, 5)",
    "return object()",
    "return {'check': float('nan')}",
    "return {'check': object()}",
    "return {5: {'passed': True}}",
    "return {'check': {'passed': True}, 'surprise': {'passed': True}}",
    "import threading; threading.Event().wait()",
    "return [run] * 3",
]


@pytest.mark.parametrize("body", NONSENSE)
def test_nonsense_errors_and_hanging_leave_the_gate_undetermined(tmp_path: Path, body: str) -> None:
    run = run_of(tmp_path, f"def check(run): {body}", gate=True, timeout_s=0.2)
    assert run["status"] == "success"
    assert run["gates"]["check"]["passed"] is None
    assert run["gates"]["check"]["reason"].startswith("the scorer ")
    assert list(run["metadata"]["scorer_errors"])
    grade = assay.grade(assay.score(run))
    assert not grade.passed
    assert "check" in grade.hard_gate_failures


@pytest.mark.parametrize(
    ("body", "formula", "words"),
    [
        ("85", None, "zero_one: the raw score is 85, above 1."),
        ("{'raw': 1.5}", "zero_one", "zero_one: the raw score is 1.5, above 1."),
        ("6", "likert_1_5", "likert_1_5: the raw score is 6, outside 1..5."),
        ("True", "likert_neg2_2", "true is true or false, not a number."),
        ("[1]", None, "list is not a number."),
        ("{'passed': 3, 'total': 2}", "ratio", "more passed than there are."),
    ],
)
def test_a_score_that_is_off_its_scale_is_missing_evidence(
    tmp_path: Path, body: str, formula: str | None, words: str
) -> None:
    spec = {"name": "tone", "weight": 1, **({"formula": formula} if formula else {})}
    run = run_of(tmp_path, f"def check(run): return {body}\n", **spec)
    assert "tone" not in run.get("scores", {})
    (reason,) = run["metadata"]["scorer_errors"].values()
    assert reason.startswith("it returned no score: ")
    assert reason.endswith(words)


@pytest.mark.parametrize("raw", [85, 1.5, [1]])
def test_a_score_off_the_scale_of_the_profile_is_missing_evidence(raw: Any) -> None:
    outcome = assay.evaluate(
        lambda q: q.upper(),
        ROWS,
        profile="rag",
        scorers=[{"target": lambda run: {"response_relevance": raw}, "name": "own"}],
    )
    (grade,) = outcome.grades
    (found,) = (one for one in grade["criteria"] if one["name"] == "response_relevance")
    assert (found["raw_score"], found["norm"]) == (None, 0)
    assert "zero_one: the raw score" in " ".join(outcome.notes)


def test_a_score_is_held_to_the_scale_that_the_rubric_gives_its_criterion(tmp_path: Path) -> None:
    rubric = tmp_path / "rubrics" / "strict.yaml"
    rubric.parent.mkdir()
    criterion = {
        "name": "response_relevance",
        "definition": "It answers the question.",
        "evidence_required": ["the answer"],
        "scale": [1, 5],
        "anchors": {str(point): f"point {point}" for point in range(1, 6)},
        "weight": 1,
    }
    rubric.write_text(json.dumps({"rubric_id": "strict", "version": 1, "criteria": [criterion]}))
    norms = {}
    for raw in (0.9, 4):
        outcome = assay.evaluate(
            lambda q: q.upper(),
            ROWS,
            profile="rag",
            rubric=str(rubric),
            scorers=[{"target": lambda run, raw=raw: {"response_relevance": raw}, "name": "own"}],
        )
        (grade,) = outcome.grades
        (found,) = (one for one in grade["criteria"] if one["name"] == "response_relevance")
        norms[raw] = (found["raw_score"], found["norm"])
    assert norms == {0.9: (None, 0), 4: (4, 0.75)}


@pytest.mark.parametrize(
    ("body", "raw"),
    [("float64(0.75)", "0.75"), ("int64(1)", "1"), ("bool_(True)", "1"), ("array(0.5)", "0.5")],
)
def test_a_scalar_of_numpy_is_a_score(tmp_path: Path, body: str, raw: str) -> None:
    code = f"import numpy\ndef check(run): return numpy.{body}\n"
    run = run_of(tmp_path, code, name="tone", weight=1)
    assert run["scores"]["tone"]["raw"] == Decimal(raw)


@pytest.mark.parametrize(
    "body", ["numpy.bool_(False)", "(numpy.bool_(False), 'no')", "{'passed': numpy.bool_(False)}"]
)
def test_a_verdict_of_numpy_is_a_verdict(tmp_path: Path, body: str) -> None:
    run = run_of(tmp_path, f"import numpy\ndef check(run): return {body}\n", gate=["kind"])
    assert run["gates"]["kind"]["passed"] is False


def test_a_scorer_that_keeps_hanging_is_no_longer_called(tmp_path: Path) -> None:
    code = "import threading\ndef check(run): threading.Event().wait()"
    scorers = [{"target": "CHECKS:check", "gate": True, "timeout_s": 0.01}]
    runs = ran(flow_of(tmp_path, code, scorers=scorers), [{"id": n, "q": "x"} for n in range(5)])
    reasons = [run["gates"]["check"]["reason"] for run in runs]
    assert sum("did not finish within 0.01 s" in reason for reason in reasons) == 3
    assert sum("no longer called" in reason for reason in reasons) == 2


@pytest.mark.parametrize("how", ["raise ValueError()", "return 'text'"])
def test_a_run_without_outputs_leaves_the_gate_undetermined(tmp_path: Path, how: str) -> None:
    name = f"checks_{next(_count)}"
    (tmp_path / f"{name}.py").write_text(f"def fail(inputs): {how}\ndef check(run): return True")
    flow = flow_of(
        tmp_path,
        "",
        adapter={"kind": "python", "target": f"{name}:fail"},
        scorers=[{"target": f"{name}:check", "gate": True}],
        required_outputs=["other"],
        limits={"max_output_bytes": 1},
    )
    (run,) = ran(flow, ROWS)
    assert run["gates"]["check"]["passed"] is None
    assert "no outputs" in run["gates"]["check"]["reason"]


@pytest.mark.parametrize(
    ("known", "new", "kept"),
    [
        (False, True, False),
        (None, True, None),
        (True, None, None),
        (None, False, False),
        (True, True, True),
    ],
)
def test_of_two_verdicts_on_one_gate_the_worse_stays(
    tmp_path: Path, known: bool | None, new: bool | None, kept: bool | None
) -> None:
    from assay.running.scorers import with_verdicts

    made = with_verdicts({"g": {"passed": known}}, {"g": {"passed": new}})
    assert made["g"]["passed"] is kept


@pytest.mark.parametrize("order", ["low high", "high low", "high low high"])
def test_of_two_scores_for_one_criterion_neither_counts(tmp_path: Path, order: str) -> None:
    code = "def low(run): return {'tone': 0.1}\ndef high(run): return {'tone': 0.9, 'length': 1}"
    scorers = [{"target": f"CHECKS:{name}"} for name in order.split()]
    (run,) = ran(flow_of(tmp_path, code, scorers=scorers), ROWS)
    assert run["scores"]["tone"]["raw"] is None
    assert "another scorer fills" in str(run["metadata"]["scorer_errors"])


@pytest.mark.parametrize(
    ("scorers", "words"),
    [
        ([{"target": "CHECKS:check", "gate": True}] * 2, "two scorers fill the gate 'check'"),
        ([{"target": "CHECKS:check", "timeout_s": 0}], "timeout_s"),
        ([{"target": "CHECKS:check", "timeout_s": True}], "timeout_s"),
        ([{"target": "CHECKS:check", "formula": "ratio"}], "no weight"),
        ([{"target": "CHECKS:check", "gate": True, "weight": 1}], "gate: [check_ok]"),
        ([{"target": "CHECKS:check", "gate": ["n\u043e_pii"]}], "CYRILLIC"),
    ],
)
def test_scorers_that_contradict_each_other_are_refused(
    tmp_path: Path, scorers: Any, words: str
) -> None:
    flow = flow_of(tmp_path, "def check(run): return True", scorers=scorers)
    with pytest.raises(InputError) as caught:
        after_of(flow, criteria=())
    assert words in str(caught.value)


# --- what becomes of the profile


def test_what_scorers_fill_is_required_by_the_profile(tmp_path: Path) -> None:
    code = "def no_pii(run): return True\ndef tone(run): return 0.5"
    scorers = [
        {"target": "CHECKS:no_pii", "gate": True},
        {"target": "CHECKS:tone", "weight": 0.2},
    ]
    flow = flow_of(tmp_path, code, scorers=scorers)
    (run,) = ran(flow, ROWS)
    base = Shelf().profile("rag-measured@1")
    profile = extended(base, additions_of(flow, []))
    assert profile.id.startswith("rag-measured@1+")
    assert len(profile.id) == len("rag-measured@1+0123456789ab")
    assert [ref.id for ref in profile.gates] == [*(ref.id for ref in base.gates), "no_pii"]
    plan = make_plan(profile, why="test")
    whole = score(read_run(Document(run, "r")), plan)
    assert whole.hard_gates["no_pii"] is True
    assert next(one for one in whole.criteria if one.name == "tone").raw_score == 0.5
    forgotten = {key: value for key, value in run.items() if key not in ("gates", "scores")}
    card = score(read_run(Document(forgotten, "r")), plan)
    assert card.hard_gates["no_pii"] is None
    assert next(one for one in card.criteria if one.name == "tone").raw_score is None


def test_another_scorer_is_another_profile_and_nothing_to_add_is_the_same() -> None:
    base = Shelf().profile("rag-measured@1")
    one, two = (extended(base, Additions((name,))) for name in ("a", "b"))
    assert len({base.id, one.id, two.id}) == 3
    assert extended(base, Additions()) is base
    assert extended(one, Additions(("a",))) is one
    assert extended(base, Additions(("a", "b"))).id == extended(base, Additions(("b", "a"))).id


def _criterion(name: str, formula: str = "zero_one") -> ProfileCriterion:
    return ProfileCriterion(id=name, label=name, weight=1, layer=1, formula=formula)


def test_a_scorer_never_takes_the_place_of_what_the_profile_measures() -> None:
    base = Shelf().profile("rag-measured@1")
    measured = next(item.id for item in base.criteria if item.measure is not None)
    for additions, words in [
        (Additions(("answer_grounded",)), "computed from the evidence"),
        (Additions((measured,)), "is a criterion"),
        (Additions((), (_criterion(measured),)), "measures"),
        (Additions((), (_criterion("status_ok", "zero_oen"),)), "Did you mean 'zero_one'"),
        (Additions(("mine",), (_criterion("mine"),)), "is a gate"),
    ]:
        with pytest.raises(ShelfError) as caught:
            extended(base, additions)
        assert words in str(caught.value)


def test_a_verdict_is_the_one_that_evidence_has() -> None:
    assert assay.Verdict is Verdict


# --- the command


@pytest.mark.parametrize(("file", "passed"), [("runs.jsonl", 0), ("table.csv", 1)])
def test_an_import_into_a_project_with_scorers_needs_no_profile_option(
    assay: Any, tmp_path: Path, file: str, passed: int
) -> None:
    """Runs are held to the profile of the project and its gates; what another tool measured is
    graded as that tool measured it.
    """
    (tmp_path / "assay.yaml").write_text("profile: rag@1\ngates: [{target: 'x:no_pii'}]\n")
    (tmp_path / "runs.jsonl").write_text(json.dumps(document("rag")) + "\n")
    (tmp_path / "table.csv").write_text("id,output,score\n1,yes,0.9\n")
    done = assay("import", file)
    assert (done.code, f", {passed} of 1 run passed" in done.out) == (0, True), done.err


def test_a_run_is_graded_by_the_scorers_of_its_files(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(
        "def answer(inputs): return {'answer': inputs['q']}\n"
        "def no_pii(outputs):\n"
        "  return (False, 'an email') if '@' in outputs['answer'] else True\n"
        "def short(outputs): return 1 if len(outputs['answer']) < 9 else 0\n"
    )
    (tmp_path / "plain@1.yaml").write_text(
        "profile: plain\nversion: 1\ntitle: T\nfamily: plain\ngates: []\ncriteria: [{id: base,"
        " label: b, weight: 1, layer: 1, formula: zero_one}]\n"
    )
    (tmp_path / "assay.yaml").write_text(
        "workflow:\n  workflow: w\n  version: 1\n  inputs: [q]\n  outputs: [answer]\n"
        "  output_schema: true\n  adapter: {kind: python, target: 'bot:answer'}\n"
        "  scorers: [{target: 'bot:short', name: base}]\n"
        "dataset: s.jsonl\nprofile: plain@1.yaml\n"
        "scorers: [{target: 'bot:short', weight: 0.5}]\n"
        "gates: [{target: 'bot:no_pii'}]\n"
    )
    (tmp_path / "s.jsonl").write_text(
        '{"id": "a", "q": "nine"}\n{"id": "b", "q": "x@y.z", "assert": {"contains": "x"}}\n'
    )
    found = assay("run", "--name", "one", "-o", "g.json")
    assert found.code == 1, found.err
    good, bad = json.loads((tmp_path / "g.json").read_text())["results"]
    assert good["passed"] is True, good
    assert {one["name"] for one in good["criteria"]} == {"base", "short"}
    gates = bad["hard_gates"]
    assert gates["no_pii"]["reason"] == "reported with the run: an email"
    assert gates["no_pii"]["status"] != gates["assertions_hold"]["status"] == "pass"
    assert bad["hard_gate_failures"] == ["no_pii"]
    (path,) = (tmp_path / "assay-runs" / "one" / "profiles").iterdir()
    assert path.name.startswith("plain@1+")
    assert path.stem in found.err
    again = assay("grade", "assay-runs/one/runs.jsonl", "--profile", str(path), "-o", "h.json")
    assert again.code == 1
    after = json.loads((tmp_path / "h.json").read_text())["results"]
    assert [one["weighted_score"] for one in after] == [100.0, 100.0]
    # without the criterion that a scorer added, these runs are refused, by file and by name
    file = "assay-runs/one/runs.jsonl"
    for source in (file, "one"):
        without = assay("grade", source, "--profile", "plain@1.yaml", "--no-config")
        assert (without.code, "SCO-016" in without.err) == (3, True), without.err
    gated = assay("gate", file, "--baseline", "one", "--profile", "plain@1.yaml", "--no-config")
    assert (gated.code, "SCO-016" in gated.err) == (3, True), gated.err
    stored = assay("grade", "one", "--no-config", "--json")  # by name: its profile is in the ledger
    assert [one["profile"] for one in stored.json()["results"]] == [path.stem, path.stem]
    hint = assay("grade", "one", "--no-config").out
    assert "--profile" not in hint
    assert assay("gate", file, "--baseline", "one", "--no-config").code in (1, 4)
    code = (tmp_path / "bot.py").read_text()
    (tmp_path / "bot.py").write_text(code.replace("'@' in", "'?' in"))
    resumed = assay("run", "--resume", "assay-runs/one")
    assert (resumed.code, "another version of the scorers" in resumed.err) == (2, True), resumed.err
    (tmp_path / "bot.py").write_text(code)
    lenient = assay("run", "--name", "two", "--min-pass-rate", "0.5")
    assert lenient.code == 0, lenient.err
    # what assay.yaml declares is required of every run, also of one that was made without it
    line = (tmp_path / "assay-runs" / "one" / "runs.jsonl").read_text().splitlines()[0]
    bare = {key: value for key, value in json.loads(line).items() if key != "gates"}
    (tmp_path / "bare.jsonl").write_text(json.dumps(bare) + "\n")
    forgotten = assay("grade", "bare.jsonl", "--json")
    assert forgotten.code == 1
    (result,) = json.loads(forgotten.out)["results"]
    assert result["hard_gate_failures"] == ["no_pii"]
    assert result["profile"] == good["profile"]
    # and so is its profile, though the evaluation brings an earlier one
    plain = (tmp_path / "plain@1.yaml").read_text()
    tone = "{id: tone, label: t, weight: 1, layer: 1, formula: zero_one}"
    (tmp_path / "plain@2.yaml").write_text(
        plain.replace("version: 1", "version: 2").replace("zero_one}]", f"zero_one}}, {tone}]")
    )
    # a rubric that is asked for is not replaced by the evaluation's
    assert "nothing" in assay("grade", "one", "--rubric", "nothing").err
    config = (tmp_path / "assay.yaml").read_text()
    (tmp_path / "assay.yaml").write_text(config.replace("plain@1.yaml", "plain@2.yaml"))
    stricter = assay("grade", "one", "--min-pass-rate", "0.01")
    assert stricter.code == 1, stricter.out
    assert "tone is missing" in stricter.out
    assert "one was graded by plain@1+" in stricter.err


def test_a_candidate_with_easier_scorers_is_not_promoted(assay: Any, tmp_path: Path) -> None:
    def version(number: int, answer: str, scorer: str, imported: str = "text") -> str:
        (tmp_path / "bot.py").write_text(
            f"import {imported}\ndef answer(inputs): return {answer}\n"
        )
        (tmp_path / "text.py").write_text(f"SIGN = '@'  # {number}\n")
        (tmp_path / "checks.py").write_text(
            "import colorsys, text\n"
            f"def no_pii(outputs): return {scorer} not in outputs['answer']\n"
        )
        (tmp_path / "assay.yaml").write_text(
            f"workflow:\n  workflow: w\n  version: {number}\n  inputs: [q]\n  outputs: [answer]\n"
            "  output_schema: true\n  adapter: {kind: python, target: 'bot:answer'}\n"
            "dataset: s.jsonl\ngates: [{target: 'checks:no_pii'}]\n"
            "profile:\n  profile: own\n  version: 1\n  title: T\n  family: own\n  gates: []\n"
            "  criteria: [{id: right, label: R, weight: 1, layer: 1, formula: ratio,"
            " measure: contains_expected}]\n"
        )
        name = f"v{number}"
        assert assay("run", "--name", name).code in (0, 1)
        return name

    rows = [{"id": f"s-{n}", "q": "a", "expected": {"answer": "a"}} for n in range(60)]
    (tmp_path / "s.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    good, leaks = "{'answer': inputs['q']}", "{'answer': inputs['q'] + '@b'}"
    first = version(1, good, "text.SIGN")
    # what the workflow runs too may change
    assert assay("gate", version(2, good, "text.SIGN"), "--baseline", first).code == 0
    assert assay("gate", version(3, leaks, "text.SIGN"), "--baseline", first).code == 1
    found = assay("gate", version(4, leaks, "'?'"), "--baseline", first)
    assert (found.code, "checked for different things" in found.out) == (4, True), found.out
    # but not replace a module that the scorers import
    (tmp_path / "colorsys.py").write_text("")
    found = assay("gate", version(5, good, "text.SIGN", "text, colorsys"), "--baseline", first)
    assert (found.code, "checked for different things" in found.out) == (4, True), found.out


def test_a_scorer_that_raises_or_counts_for_nothing_is_told(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(
        "def answer(inputs):\n"
        "  if inputs['q'] == 'down': raise OSError('down')\n"
        "  return {'answer': inputs['q']}\n"
        "def broken(run): raise ValueError('boom')\n"
        "def must(run): raise KeyError('x')\n"
        "def tone(run): return 0.5\n"
    )
    (tmp_path / "assay.yaml").write_text(
        "workflow:\n  workflow: w\n  version: 1\n  inputs: [q]\n  outputs: [answer]\n"
        "  profile: tool-use-measured@1\n  adapter: {kind: python, target: 'bot:answer'}\n"
        "dataset: s.jsonl\nscorers:\n  - {target: 'bot:broken', weight: 0.1}\n"
        "  - {target: 'bot:must', gate: true}\n  - {target: 'bot:tone'}\n"
    )
    (tmp_path / "s.jsonl").write_text('{"q": "nine"}\n{"q": "ten"}\n{"q": "down"}\n')
    found = assay("run", "--name", "one", "--no-store")
    assert "columns: id (made from the content of each row), q (input)" in found.err
    lines = found.err.splitlines()
    warnings = [line for line in lines if line.startswith("warning: scorer")]
    assert "\n".join(warnings) == (
        "warning: scorer bot:tone fills no criterion of tool-use-measured@1 and adds none:"
        " give it a weight or gate: true.\n"
        "warning: scorer bot:broken raised in 2 of 3 runs: ValueError: boom;"
        " its score is missing and counts as 0.\n"
        "warning: scorer bot:must raised in 2 of 3 runs: KeyError: 'x';"
        " its gate is undetermined, so those runs don't pass."
    )


def test_different_reasons_are_shown_by_an_example_and_explained_run_by_run(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "odd_bot.py").write_text(
        "def answer(inputs): return {'answer': inputs['q']}\n"
        "def odd(run): return run.outputs['answer']\n"
    )
    config = (
        "workflow:\n  workflow: w\n  version: 1\n  inputs: [q]\n  outputs: [answer]\n"
        "  profile: tool-use-measured@1\n  adapter: {kind: python, target: 'odd_bot:answer'}\n"
        "dataset: s.jsonl\nscorers:\n  - {target: 'odd_bot:odd', weight: 0.1}\n"
    )
    (tmp_path / "assay.yaml").write_text(config)
    (tmp_path / "s.jsonl").write_text('{"id": "a", "q": "nine"}\n{"id": "b", "q": "ten"}\n')
    found = assay("run", "--name", "one")
    assert (
        "warning: scorer odd_bot:odd gave no result in 2 of 2 runs, for example: 'nine' is"
        " neither a score nor a verdict; its score is missing and counts as 0." in found.err
    )
    explained = assay("explain", "one", "--run", "one:b").out
    assert "scorer      odd_bot:odd: 'ten' is neither a score nor a verdict" in explained
    (tmp_path / "assay.yaml").write_text(config.replace("odd_bot:odd", "odd_bot:od"))
    misspelt = assay("run", "--name", "two")
    assert misspelt.code == 3
    assert "the module 'odd_bot' has no 'od'. Did you mean 'odd'?" in misspelt.err


def test_only_runs_tell_whether_a_scorer_fills_an_open_criterion(tmp_path: Path) -> None:
    open_ = [
        ProfileCriterion(id=name, label=name, weight=1, layer=1, formula="zero_one")
        for name in ("correctness", "style")
    ]
    profile: Any = SimpleNamespace(id="own@1", criteria=open_)
    scorers: Any = [PlacedScorer(Scorer(target="checks:score"), tmp_path, "w.yaml")]
    run = {"scores": {"correctness": {"raw": 1, "source": {"name": "checks:score"}}}}
    other = {"scores": {"tone": {"raw": 1, "source": {"name": "checks:score"}}}}
    assert idle_scorers(profile, scorers) == []
    assert idle_scorers(profile, scorers, [other, run]) == []
    assert "checks:score fills no criterion of own@1" in idle_scorers(profile, scorers, [other])[0]


def test_a_gate_that_the_profile_has_leaves_it_as_it_is(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "bot.py").write_text(
        "def answer(inputs): return {'answer': inputs['q']}\ndef no_sandbox_violation(run): return True\n"
    )
    (tmp_path / "assay.yaml").write_text(
        "workflow:\n  workflow: w\n  version: 1\n  inputs: [q]\n  outputs: [answer]\n"
        "  profile: code-repair@1\n  adapter: {kind: python, target: 'bot:answer'}\n"
        "dataset: s.jsonl\ngates: [{target: 'bot:no_sandbox_violation'}]\n"
    )
    (tmp_path / "s.jsonl").write_text('{"id": "a", "q": "nine"}\n')
    found = assay("run", "--name", "one", "-o", "g.json")
    assert found.code == 1, found.err
    (result,) = json.loads((tmp_path / "g.json").read_text())["results"]
    assert result["profile"] == "code-repair@1"
    assert result["hard_gates"]["no_sandbox_violation"]["status"] == "pass"
