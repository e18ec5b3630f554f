"""`assay measure`: metrics on files, against the answers of the field's own tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.scoring.metrics import MEASURES
from assay.scoring.metrics.params import ACCEPTED


def _lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_retrieval_prints_what_trec_eval_prints(assay: Any, shared: Path) -> None:
    folder = shared / "data" / "trec_eval" / "official"
    wanted = {
        line.split()[0]: float(line.split()[2])
        for line in (folder / "out.test").read_text().splitlines()
        if line.split()[1:2] == ["all"] and "." in line.split()[2]
    }
    names = ["map", "recip_rank", "P_10", "P_100", "recall_100"]
    names = [name for name in names if name in wanted]
    done = assay(
        "measure",
        "retrieval",
        "--qrels",
        folder / "qrels.test",
        "--run",
        folder / "results.test",
        *(part for name in names for part in ("--metric", name)),
        "--json",
    )
    assert done.code == 0, done.err
    assert len(names) >= 3
    for name in names:
        assert done.json()["mean"][name] == pytest.approx(wanted[name], abs=1e-4)
    assert len(done.json()["queries"]) == 3


def test_retrieval_without_a_common_query_is_not_enough_evidence(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "q").write_text("1 0 a 1\n")
    (tmp_path / "r").write_text("2 Q0 a 1 0.5 x\n")
    assert assay("measure", "retrieval", "--qrels", "q", "--run", "r").code == 4
    counted = assay("measure", "retrieval", "--qrels", "q", "--run", "r", "--complete", "--json")
    assert counted.code == 0
    assert counted.json()["mean"]["map"] == 0


def test_pass_at_k_equals_the_reference_also_with_unequal_attempts(
    assay: Any, shared: Path, tmp_path: Path
) -> None:
    folder = shared / "data" / "humaneval_passk"
    tasks = json.loads((folder / "multi_task.json").read_text())[0]
    rows = [
        {"task_id": str(index), "n": n, "c": c}
        for index, (n, c) in enumerate(zip(tasks["n"], tasks["c"], strict=True))
    ]
    done = assay(
        "measure", "pass-at-k", _lines(tmp_path / "t.jsonl", rows), "--k", "1,5,1000", "--json"
    )
    assert done.code == 0, done.err
    from fractions import Fraction
    from math import comb

    for k in (1, 5):
        exact = sum(
            1 - Fraction(comb(row["n"] - row["c"], k), comb(row["n"], k)) for row in rows
        ) / len(rows)
        assert done.json()[f"pass@{k}"] == pytest.approx(float(exact), abs=1e-12)
    assert done.json()["pass@1000"] is None
    assert "fewer than 1000" in done.json()["reasons"]["pass@1000"]
    assert done.json()["tasks"] == len(rows)


def test_tests_tell_full_partial_and_no_apart(assay: Any, tmp_path: Path) -> None:
    def row(
        name: str, f2p: tuple[list[str], list[str]], p2p: tuple[list[str], list[str]]
    ) -> dict[str, Any]:
        return {
            "instance_id": name,
            "fail_to_pass": {"passed": f2p[0], "failed": f2p[1]},
            "pass_to_pass": {"passed": p2p[0], "failed": p2p[1]},
        }

    rows = [
        row("a", (["x"], []), (["y"], [])),
        row("b", (["x"], ["z"]), (["y"], [])),
        row("c", (["x"], []), ([], ["y"])),
    ]
    done = assay("measure", "tests", _lines(tmp_path / "i.jsonl", rows), "--json")
    assert {name: item["status"] for name, item in done.json()["instances"].items()} == {
        "a": "full",
        "b": "partial",
        "c": "no",
    }
    assert done.json()["instances"]["b"]["fail_to_pass"] == 0.5


def test_tool_calls_reproduce_the_verdicts_of_the_leaderboard(assay: Any, tmp_path: Path) -> None:
    tool = {
        "name": "f",
        "parameters": {
            "type": "dict",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
            "required": ["a"],
        },
    }
    expected = [{"name": "f", "arguments": {"a": [1], "b": ["New York", ""]}}]
    rows = [
        {
            "id": "folded",
            "tools": [tool],
            "calls": [{"name": "f", "arguments": {"a": 1, "b": "new-york"}}],
            "expected": expected,
        },
        {
            "id": "left out",
            "tools": [tool],
            "calls": [{"name": "f", "arguments": {"a": 1}}],
            "expected": expected,
        },
        {
            "id": "a text",
            "tools": [tool],
            "calls": [{"name": "f", "arguments": {"a": "1"}}],
            "expected": expected,
        },
        {
            "id": "true",
            "tools": [tool],
            "calls": [{"name": "f", "arguments": {"a": True}}],
            "expected": expected,
        },
    ]
    done = assay(
        "measure", "tool-calls", _lines(tmp_path / "c.jsonl", rows), "--rules", "bfcl", "--json"
    )
    assert done.code == 0, done.err
    assert {name: item["correct"] for name, item in done.json()["items"].items()} == {
        "folded": True,
        "left out": True,
        "a text": False,
        "true": False,
    }
    assert (done.json()["accuracy"], done.json()["n"]) == (0.5, 4)
    assert all(item["error"] is None or item["error"] for item in done.json()["items"].values())


def test_text_compares_after_the_steps_that_are_named(assay: Any, tmp_path: Path) -> None:
    path = _lines(
        tmp_path / "a.jsonl",
        [
            {"id": "1", "actual": " Ate. ", "expected": "ate"},
            {"id": "2", "actual": "goed", "expected": "went"},
        ],
    )
    assert (
        assay(
            "measure", "text", path, "--match", "substring", "--steps", "nfc,strip,lower", "--json"
        ).json()["accuracy"]
        == 0.5
    )
    assert assay("measure", "text", path, "--match", "exact", "--json").json()["accuracy"] == 0
    assert assay("measure", "text", path, "--steps", "lowre").code == 2


@pytest.mark.parametrize(
    ("kind", "content"),
    [("pass-at-k", ""), ("tests", ""), ("tool-calls", ""), ("text", "")],
)
def test_an_empty_file_is_never_a_measurement(
    assay: Any, tmp_path: Path, kind: str, content: str
) -> None:
    (tmp_path / "e.jsonl").write_text(content)
    assert assay("measure", kind, "e.jsonl").code == 4


def test_a_wrong_kind_is_told_the_near_miss(assay: Any) -> None:
    done = assay("measure", "retreival")
    assert done.code == 2
    assert "retrieval" in done.err


def test_a_profile_may_name_a_measure_with_its_parameters_and_needs_no_score(
    assay: Any, tmp_path: Path
) -> None:
    head = (
        "profile: found\nversion: 1\ntitle: Retrieval alone\nfamily: found\ngates: []\ncriteria:\n"
    )
    criterion = (
        "  - {id: ndcg, label: Ranking, weight: 1, layer: 1, formula: ratio, measure:"
        " retrieval_precision, measure_params: {k: 2}, role: correctness}\n"
    )
    (tmp_path / "found.yaml").write_text(head + criterion)
    run = {
        "schema": "assay.run/1",
        "run_id": "r",
        "workflow": {"id": "w", "version": "1", "family": "found"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s"},
        "status": "success",
        "outputs": {"a": "b"},
        "required_outputs": ["a"],
        "steps": [],
        "output_schema": {},
        "inputs": {},
        "required_inputs": [],
        "retrieval": [
            {"id": "x", "rank": 1, "relevant": True},
            {"id": "y", "rank": 2, "relevant": True},
            {"id": "z", "rank": 3, "relevant": False},
        ],
    }
    (tmp_path / "r.json").write_text(json.dumps(run))
    done = assay("grade", "r.json", "--profile", "found.yaml", "--json")
    assert done.code == 0, done.out + done.err
    assert done.json()["results"][0]["criteria"][0]["raw_score"] == {"passed": 2, "total": 2}
    (tmp_path / "found.yaml").write_text(head + criterion.replace("{k: 2}", "{kk: 2}"))
    refused = assay("grade", "r.json", "--profile", "found.yaml")
    assert refused.code == 3
    assert "Did you mean 'k'" in refused.err or "has no parameter 'kk'" in refused.err


def _solution_lines(path: Path) -> Path:
    test = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-3) == 9\n"
    solutions = [
        "def sq(x):\n    return x * x\n",
        "def sq(x):\n    return x + x\n",
        "print('PASSED')\nimport os\nos._exit(0)\n",
    ]
    return _lines(
        path,
        [
            {"task_id": "square", "solution": text, "test": test, "entry_point": "sq"}
            for text in solutions
        ],
    )


def _needs_bubblewrap() -> None:
    import os

    from assay.sandbox.isolation import available

    why = available()["bubblewrap"]
    if why:
        if os.environ.get("CI") == "true":
            pytest.fail(f"bubblewrap is needed: {why}")
        pytest.skip(f"bubblewrap is needed: {why}")


def test_solutions_are_counted_by_what_they_return_never_by_what_they_print(
    assay: Any, tmp_path: Path
) -> None:
    _needs_bubblewrap()
    done = assay(
        "measure", "solutions", _solution_lines(tmp_path / "s.jsonl"), "--k", "1,2", "--json"
    )
    assert done.code == 0, done.err
    document = done.json()
    assert [item["passed"] for item in document["attempts"]] == [True, False, False]
    assert document["pass@1"] == pytest.approx(1 / 3)
    assert document["pass@2"] == pytest.approx(2 / 3)
    assert document["sandbox"] == "bubblewrap"
    assert document["gates"]["no_sandbox_violation"]["passed"] is not None


def test_where_nothing_walls_the_code_off_it_is_not_run(assay: Any, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    done = assay(
        "measure", "solutions", _solution_lines(tmp_path / "s.jsonl"), env={"PATH": str(empty)}
    )
    if done.code == 0:
        pytest.skip("bubblewrap is found at a fixed place here")
    assert done.code == 4
    assert "bubblewrap" in done.err


def test_a_run_with_raw_evidence_is_graded_without_any_score(assay: Any, tmp_path: Path) -> None:
    call = {"name": "search", "arguments": {"q": "ferry"}, "valid": True}
    run = {
        "schema": "assay.run/1",
        "run_id": "r",
        "workflow": {"id": "w", "version": "1", "family": "tool-use"},
        "dataset": {"id": "d", "version": "1", "sample_id": "s"},
        "status": "success",
        "outputs": {"answer": "At 9:30"},
        "required_outputs": ["answer"],
        "steps": [],
        "output_schema": {},
        "inputs": {},
        "required_inputs": [],
        "tool_calls": [call],
        "forbidden_tools": [],
        "handoffs": [{"from": "a", "to": "b", "expected": "b"}],
        "handoff_rules": [["a", "b"]],
        "expected": {
            "answer": "at 9:30",
            "tool_calls": [{"name": "search", "arguments": {"q": "ferry"}}],
        },
        "latency_ms": 900,
    }
    (tmp_path / "r.json").write_text(json.dumps(run))
    done = assay("grade", "r.json", "--profile", "tool-use-measured", "--json")
    assert done.code == 0, done.out + done.err
    (result,) = done.json()["results"]
    assert (result["grade"], result["weighted_score"]) == ("A", 100)
    (tmp_path / "r.json").write_text(
        json.dumps({**run, "tool_calls": [{**call, "arguments": {"q": "train"}}]})
    )
    worse = assay("grade", "r.json", "--profile", "tool-use-measured", "--json").json()["results"][
        0
    ]
    assert worse["weighted_score"] == 75
    del run["expected"]
    (tmp_path / "r.json").write_text(json.dumps(run))
    missing = assay("grade", "r.json", "--profile", "tool-use-measured", "--json")
    assert missing.code == 1
    assert [
        item["name"] for item in missing.json()["results"][0]["criteria"] if item["missing"]
    ] == [
        "tool_selection_accuracy",
        "argument_correctness",
        "final_task_correctness",
    ]


def test_a_measure_does_not_write_over_the_file_that_it_reads(assay: Any, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text('[{"id": "a", "actual": "x", "expected": "x"}]')
    done = assay("measure", "text", str(path), "-o", str(path))
    assert done.code == 2
    assert "is read and would be overwritten" in done.err
    assert "actual" in path.read_text()


HEAD = "profile: found\nversion: 1\ntitle: One measure alone\nfamily: found\ngates: []\ncriteria:\n"
IMPOSSIBLE: list[tuple[str, str, str]] = [
    ("retrieval_precision", "{k: 0}", "whole number from 1"),
    ("retrieval_precision", "{k: ten}", "whole number from 1"),
    ("retrieval_ndcg", "{k: true}", "whole number from 1"),
    ("retrieval_recall", "{relevant: 3}", "name in `expected`"),
    ("trajectory_match", "{mode: strikt}", "Did you mean 'strict'"),
    ("trajectory_match", "{over: everything}", "one of names, arguments"),
    ("tool_call_validity", "{closed: 1}", "true or false"),
    ("contains_expected", "{match: regex}", "one of substring, word, exact"),
    ("exact_match", "{steps: nfc}", "a list of nfc"),
    ("exact_match", "{steps: [nfc, upper]}", "a list of nfc"),
    ("exact_match", "{output: 7}", "name of an output"),
    ("numeric_close", "{absolute: -1}", "number from 0"),
    ("numeric_close", "{relative: .nan}", "number from 0"),
    ("lexical_support", "{threshold: 2}", "number from 0 to 1"),
    ("lexical_support", "{threshold: high}", "number from 0 to 1"),
    ("severity_weighted_support", "{weights: {grave: 1}}", "numbers from 0 to 1 for some of"),
    ("severity_weighted_support", "{weights: {high: 7}}", "numbers from 0 to 1 for some of"),
    ("severity_weighted_support", "{weights: 1}", "numbers from 0 to 1 for some of"),
    ("word_budget", "{words: 0}", "whole number from 1"),
    ("word_budget", "{output: answer}", "needs the parameter 'words'"),
]


@pytest.mark.parametrize(("name", "params", "words"), IMPOSSIBLE)
def test_an_impossible_parameter_of_a_measure_is_a_fault_of_the_profile_with_its_line(
    assay: Any, tmp_path: Path, name: str, params: str, words: str
) -> None:
    criterion = (
        "  - id: one\n    label: One\n    weight: 1\n    layer: 1\n    formula:"
        f" {MEASURES[name].formula}\n    measure: {name}\n"
    )
    (tmp_path / "found.yaml").write_text(
        f"{HEAD}{criterion}    measure_params: {params}\n    role: correctness\n"
    )
    checked = assay("library", "check", "found.yaml")
    assert checked.code != 0
    said = checked.out + checked.err
    assert words in said
    assert "line 13" in said, said
    (tmp_path / "card.json").write_text("{}")
    assert assay("grade", "card.json", "--profile", "found.yaml").code == 3


@pytest.mark.parametrize("name", MEASURES)
def test_every_parameter_of_every_measure_says_what_it_accepts(name: Any) -> None:
    for param, default in MEASURES[name].params.items():
        assert param in ACCEPTED, (name, param)
        assert default is None or ACCEPTED[param].holds(default), (name, param)
