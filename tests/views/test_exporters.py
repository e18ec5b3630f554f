"""Grades in the formats of others: what each file contains, and that none of them says pass where
the grade does not.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assay.cli.grade import LARGE
from assay.views import sarif as sarif_grades
from assay.views.documents import FORMULA, neutral
from assay.views.exporters import EXPORTERS, FORMATS
from decisions import confirmation, decision, suspect
from documents import run, scorecard

PASSED = run("rag")
FAILED = run(
    "rag",
    run_id="r-2",
    dataset={"id": "d", "version": "1", "sample_id": "s-2"},
    claims=None,
    scores={"response_relevance": {"raw": 0.2}},
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (PASSED, FAILED)))
    return path


def sarif_results(path: Path) -> list[dict[str, Any]]:
    (run,) = json.loads(path.read_text())["runs"]
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == known
    return run["results"]


def place(result: dict[str, Any]) -> tuple[str, int | None]:
    (location,) = result["locations"]
    physical = location["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical.get("region", {}).get("startLine")


def test_every_exporter_has_one_name_one_title_and_the_extension_that_picks_it() -> None:
    for name in EXPORTERS:
        exporter = EXPORTERS[name]
        assert (exporter.id, bool(exporter.title)) == (name, True)
        assert all(extension.startswith(".") for extension in exporter.extensions)
    assert all(extension in EXPORTERS[name].extensions for extension, name in FORMATS.items())


def test_sarif_has_one_result_for_each_failure_at_the_line_of_its_run(
    assay: Any, tmp_path: Path, runs: Path
) -> None:
    done = assay("grade", "runs.jsonl", "-o", "out.sarif", "-o", "out.json")
    assert done.code == 1
    (_, graded) = json.loads((tmp_path / "out.json").read_text())["results"]
    found = sarif_results(tmp_path / "out.sarif")
    assert {place(one) for one in found} == {("runs.jsonl", 2)}
    named = [one["ruleId"] for one in found]
    assert len(named) == len(set(named))
    gates = [name for name, gate in graded["hard_gates"].items() if gate["status"] != "pass"]
    floors = [item["name"] for item in graded["criteria"] if item["floor_failed"]]
    assert gates
    assert floors
    assert {f"gate/{name}" for name in gates} | {f"floor/{name}" for name in floors} <= {*named}
    assert "threshold" in named
    assert all(one["level"] == "error" and "r-2: " in one["message"]["text"] for one in found)


def test_sarif_finds_the_line_in_indented_json_and_names_files_by_the_repository(
    assay: Any, tmp_path: Path, runs: Path
) -> None:
    (tmp_path / "list.json").write_text(json.dumps([PASSED, FAILED], indent=1))
    second = json.dumps([PASSED], indent=1).count("\n") + 1
    assay("grade", tmp_path / "list.json", "-o", "out.sarif")
    assert {place(one) for one in sarif_results(tmp_path / "out.sarif")} == {("list.json", second)}
    assay("grade", "-", "-o", "out.sarif", stdin=json.dumps(FAILED))
    found = sarif_results(tmp_path / "out.sarif")
    assert found
    assert {place(one) for one in found} == {("assay.yaml", 1)}, "code scanning needs a file"


def test_sarif_shows_what_could_not_be_read(assay: Any, tmp_path: Path, runs: Path) -> None:
    runs.write_text(json.dumps(PASSED) + "\n{broken\n")
    done = assay("grade", "runs.jsonl", "--keep-going", "-o", "out.sarif")
    assert done.code == 3
    (found,) = sarif_results(tmp_path / "out.sarif")
    assert (found["ruleId"], place(found)) == ("input/unreadable", ("runs.jsonl", 2))


def test_a_decision_as_sarif_is_empty_only_for_promote(assay: Any, tmp_path: Path) -> None:
    for name, score in (("good", 0.9), ("bad", 0.3)):
        cards = [
            scorecard({"norm": score + n % 5 / 100}, run_id=f"r-{n}", sample_id=f"s-{n}")
            for n in range(60)
        ]
        text = "".join(json.dumps(one) + "\n" for one in cards)
        (tmp_path / f"{name}.jsonl").write_text(text)
    for name, code in (("good", 0), ("bad", 1)):
        done = assay("gate", f"{name}.jsonl", "--baseline", "good.jsonl", "-o", "out.sarif")
        assert done.code == code, done.err
        found = sarif_results(tmp_path / "out.sarif")
        assert bool(found) == bool(code)
    assert {place(one)[0] for one in found} == {"bad.jsonl"}
    assert any(one.get("relatedLocations") for one in found), "the samples that got worse"
    failing = [one for one in found if one["ruleId"] == "new-failure"]
    assert len(failing) == 60
    for one in failing:
        (name,) = [where["fullyQualifiedName"] for where in one["locations"][0]["logicalLocations"]]
        assert place(one)[1] == int(name.rpartition("-")[2]) + 1, "at the line of its run"


def test_what_a_promoted_candidate_was_allowed_is_a_note_in_sarif() -> None:
    allowed = {"confirmation": confirmation(suspect("s/1")), "titles": {"s/1": "the window"}}
    levels = {}
    for outcome in ("promote", "hold"):
        made = sarif_grades.decision(
            decision(outcome, True, None, **allowed), places={}, file="runs.jsonl"
        )
        results = json.loads(made)["runs"][0]["results"]
        levels[outcome] = {one["level"] for one in results}
        assert any("the window" in one["message"]["text"] for one in results)
    assert levels == {"promote": {"note"}, "hold": {"error"}}


def test_a_cell_is_never_a_formula(assay: Any, tmp_path: Path) -> None:
    cards = [
        scorecard({"norm": 0.9}, run_id=f"{sign}cmd|'/c calc'!A{n}")
        for n, sign in enumerate(FORMULA)
        if sign.isprintable()
    ]
    (tmp_path / "cards.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cards))
    assay("grade", "cards.jsonl", "-o", "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(cards)
    for row, card in zip(rows, cards, strict=True):
        assert row["run_id"] == f"'{card['run_id']}"
        assert not any(cell.startswith(FORMULA) for cell in row.values())
    assert all(neutral(f"{sign}1") == f"'{sign}1" for sign in FORMULA)


def test_parquet_has_a_row_for_each_run_and_null_where_nobody_gave_a_score(
    assay: Any, tmp_path: Path, runs: Path
) -> None:
    assert assay("grade", "runs.jsonl", "-o", "out.parquet", "-o", "out.json").code == 1
    graded = json.loads((tmp_path / "out.json").read_text())["results"]
    rows = duckdb.sql(
        f"select run_id, passed, weighted_score, hard_gates, criteria, tags"
        f" from '{tmp_path}/out.parquet'"
    ).fetchall()
    for row, result in zip(rows, graded, strict=True):
        assert row[:3] == (result["run_id"], result["passed"], result["weighted_score"])
        assert [gate["status"] for gate in row[3]] == [
            gate["status"] for gate in result["hard_gates"].values()
        ]
        assert [item["norm"] for item in row[4]] == [
            None if item["raw_score"] is None else item["norm"] for item in result["criteria"]
        ]
    assert any(item["norm"] is None for item in rows[1][4])
    (relevance,) = [one for one in rows[1][4] if one["name"] == "response_relevance"]
    assert (relevance["raw_score"], relevance["weight"]) == ("0.2", 0.25), "JSON, not its text"


def test_an_mlflow_table_has_every_criterion_as_a_column(
    assay: Any, tmp_path: Path, runs: Path
) -> None:
    done = assay("report", "export", "runs.jsonl", "--to", "mlflow", "-o", "table.json")
    assert (done.code, done.err) == (0, "wrote table.json\n"), "no gate"
    table = json.loads((tmp_path / "table.json").read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["assay/v1/passed"] for row in rows] == [True, False]
    assert (rows[0]["inputs"], rows[0]["outputs"]) == ("why", "because")
    assert rows[1]["faithfulness/v1/score"] is None
    assert rows[1]["faithfulness/v1/justification"]


def test_a_criterion_called_assay_is_not_the_grade_in_an_mlflow_table(
    assay: Any, tmp_path: Path
) -> None:
    raw = {"name": "assay", "raw_score": 0.1, "formula_id": "zero_one", "weight": 1, "n": 1}
    other = {**raw, "name": "other", "raw_score": 0.9}
    card = {"schema": "assay.scorecard/1", "run_id": "r-1", "hard_gates": {"open": True}}
    (tmp_path / "cards.jsonl").write_text(json.dumps({**card, "criteria": [raw, other]}))
    assay("report", "export", "cards.jsonl", "--to", "mlflow", "-o", "table.json")
    table = json.loads((tmp_path / "table.json").read_text())
    row = dict(zip(table["columns"], table["data"][0], strict=True))
    assert (row["assay/v1/score"], row["criterion assay/v1/score"]) == (0.5, 0.1)


def test_an_inspect_log_has_epochs_totals_and_no_score_where_there_is_none(
    assay: Any, tmp_path: Path
) -> None:
    again = {**PASSED, "run_id": "r-3"}
    text = "".join(json.dumps(one) + "\n" for one in (PASSED, FAILED, again))
    (tmp_path / "runs.jsonl").write_text(text)
    done = assay("report", "export", "runs.jsonl", "--to", "inspect", "-o", "log.json")
    assert (done.code, done.err) == (0, "wrote log.json\n")
    log = json.loads((tmp_path / "log.json").read_text())
    assert [(one["id"], one["epoch"]) for one in log["samples"]] == [
        ("s-1", 1),
        ("s-2", 1),
        ("s-1", 2),
    ]
    assert [one["scores"]["assay"]["value"] for one in log["samples"]] == ["C", "I", "C"]
    totals = {one["name"]: one for one in log["results"]["scores"]}
    assert totals["assay"]["metrics"]["accuracy"]["value"] == 2 / 3
    assert "faithfulness" not in log["samples"][1]["scores"]
    assert totals["faithfulness"]["unscored_samples"] == 1
    assert log["eval"]["config"]["epochs"] == 2
    assert log["eval"]["dataset"]["samples"] == 2


def test_opentelemetry_events_are_one_request_on_each_line(
    assay: Any, tmp_path: Path, runs: Path
) -> None:
    assert assay("report", "export", "runs.jsonl", "--to", "otel", "-o", "events.jsonl").code == 0
    requests = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    firsts = [one["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0] for one in requests]
    assert [
        value["value"]["boolValue"]
        for first in firsts
        for value in first["attributes"]
        if value["key"] == "assay.passed"
    ] == [True, False]


PROFILE = """\
profile: short
version: 1
title: Short answers
family: short
gates: []
criteria:
  - {id: right, label: Right, weight: 1, layer: 1, formula: ratio, measure: exact_match}
"""


def test_a_promptfoo_assertion_grades_like_the_runs_it_was_made_from(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "short.yaml").write_text(PROFILE)
    made = run("rag", expected={"answer": "because"}, scores=None, claims=None, retrieval=None)
    made["output_schema"]["properties"]["share"] = {"minimum": 0.5}
    (tmp_path / "runs.jsonl").write_text(json.dumps(made) + "\n")
    (tmp_path / "tests").mkdir()
    target = ("--to", "promptfoo", "-o", "tests/assay_assertion.py")
    done = assay("report", "export", "runs.jsonl", "--profile", "short.yaml", *target)
    assert (done.code, done.err) == (0, "wrote tests/assay_assertion.py\n")
    ask = (
        "import json, sys; from assay_assertion import get_assert;"
        "print(json.dumps([get_assert(*one) for one in json.load(sys.stdin)]))"
    )
    question = {"question": "why", "expected": "because"}
    calls = [
        ("because", {"vars": question}),
        ("because", {"vars": {"question": "why"}}),
        (
            "no idea",
            {
                "vars": question,
                "providerResponse": {"metadata": {"assay": {"scores": {"right": {"raw": 1}}}}},
            },
        ),
    ]
    command = Path(sys.executable).with_name("assay")

    def answers(**env: str) -> list[dict[str, Any]]:
        made = subprocess.run(
            [sys.executable, "-c", ask],
            input=json.dumps(calls),
            capture_output=True,
            text=True,
            cwd=tmp_path / "tests",
            env={**os.environ, **env},
            check=True,
        )
        found: list[dict[str, Any]] = json.loads(made.stdout)
        return found

    right, unknown, boasting = answers(ASSAY_COMMAND=str(command))
    assert (right["pass"], right["score"], right["namedScores"]) == (True, 1.0, {"right": 1.0})
    assert unknown["pass"] is False, "nothing says what is expected"
    assert (boasting["pass"], boasting["score"]) == (False, 0.0), "it does not grade itself"
    assert "right" in boasting["reason"]
    for answer in answers(ASSAY_COMMAND=str(tmp_path / "no-such-command")):
        assert (answer["pass"], answer["score"]) == (False, 0)
        assert "Assay gave no grade" in answer["reason"]


def test_an_export_that_cannot_be_made_says_why_and_leaves_nothing(
    assay: Any, tmp_path: Path, runs: Path
) -> None:
    other = {**PASSED, "run_id": "r-9", "required_outputs": []}
    (tmp_path / "two.jsonl").write_text(json.dumps(PASSED) + "\n" + json.dumps(other) + "\n")
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "bad.jsonl").write_text("{}\n")
    verdict = "gates: [{id: told_passed, verdict: true}]"
    (tmp_path / "told.yaml").write_text(PROFILE.replace("gates: []", verdict))
    for words, code, text in (
        (("runs.jsonl", "--to", "inspec", "-o", "x.json"), 2, "Did you mean 'inspect'?"),
        (("runs.jsonl", "--to", "acme.none", "-o", "x.json"), 2, "assay library list exporters"),
        (("runs.jsonl", "--to", "mlflow", "-o", "x.csv"), 2, ".json"),
        (("runs.jsonl", "--to", "mlflow", "-o", "runs.jsonl"), 2, "overwritten"),
        (("empty.jsonl", "--to", "mlflow", "-o", "x.json"), 4, "nothing to export"),
        (("bad.jsonl", "--to", "mlflow", "-o", "x.json"), 3, "schema"),
        (("two.jsonl", "--to", "promptfoo", "-o", "x.py"), 3, "different 'required_outputs'"),
        (("runs.jsonl", "--to", "promptfoo", "-o", "x.py"), 2, "it doesn't provide faithfulness"),
        (
            ("runs.jsonl", "--to", "promptfoo", "--profile", "told.yaml", "-o", "x.py"),
            2,
            "it doesn't provide told_passed",
        ),
    ):
        done = assay("report", "export", *words)
        assert (done.code, text in done.err) == (code, True), (words, done.err)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(("x.", ".x"))]


@pytest.mark.parametrize(
    ("name", "verdict", "values"),
    [
        ("inspect", "assay", [1, 0]),
        ("mlflow", "assay/v1", [1, 0.45]),
    ],
)
def test_what_was_exported_is_imported_again_with_the_same_totals(
    assay: Any, tmp_path: Path, runs: Path, name: str, verdict: str, values: Any
) -> None:
    assay("report", "export", "runs.jsonl", "--to", name, "-o", "out.json")
    done = assay("import", "out.json", "--no-store", "-o", "again.jsonl")
    assert done.code == 0, done.err
    again = [json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines()]
    assert [one["scores"][verdict]["raw"] for one in again] == values
    lacking = [one for key, one in again[1]["scores"].items() if "faithfulness" in key]
    assert all(one["raw"] is None for one in lacking)
    gates = [gate["passed"] for one in again for gate in one["gates"].values()]
    assert gates == [True, False], "no score can open a failed gate"


def test_an_exported_table_can_be_a_side_of_a_gate(assay: Any, tmp_path: Path) -> None:
    def rows(missing: int) -> list[dict[str, Any]]:
        return [
            run(
                "rag",
                run_id=f"r-{n}",
                dataset={"id": "d", "version": "1", "sample_id": f"s-{n}"},
                inputs={},
                required_inputs=[],
                **({"claims": None} if n < missing else {}),
            )
            for n in range(60)
        ]

    for name, missing in (("old", 0), ("new", 3), ("late", 0)):
        made = rows(missing)
        made = [*made[20:], *made[:20]] if name == "late" else made
        text = "".join(json.dumps(one) + "\n" for one in made)
        (tmp_path / f"{name}.jsonl").write_text(text)
        done = assay("report", "export", f"{name}.jsonl", "--to", "mlflow", "-o", f"{name}.json")
        assert done.code == 0, done.err
    done = assay("gate", "late.json", "--baseline", "old.json", "--json")
    assert (done.code, done.json()["comparison"]["n_paired"]) == (0, 60), done.err
    done = assay("gate", "new.json", "--baseline", "old.json", "--json")
    assert done.code == 1, "a score without a value is missing, not another scorer's"
    sides = files("assay.cli") / "examples" / "release"  # without outputs, with a latency
    for name, code in (("baseline", 0), ("fixed", 0), ("candidate", 1)):
        assay("report", "export", str(sides / f"{name}.jsonl"), "--to", "mlflow", "-o", "x.json")
        shutil.copy(tmp_path / "x.json", tmp_path / f"{name}.json")
        done = assay("gate", f"{name}.json", "--baseline", "baseline.json")
        assert done.code == code, done.err


def test_an_imported_file_has_no_lines_of_runs_and_no_profile_for_an_assertion(
    assay: Any, tmp_path: Path, runs: Path
) -> None:
    assay("report", "export", "runs.jsonl", "--to", "inspect", "-o", "log.json")
    assay("grade", "log.json", "-o", "out.sarif")
    assert {place(one) for one in sarif_results(tmp_path / "out.sarif")} == {("log.json", 1)}
    done = assay("report", "export", "log.json", "--to", "promptfoo", "-o", "x.py")
    assert done.code == 2
    assert "--profile FILE" in done.err
    assert not (tmp_path / "x.py").exists()


def test_pieces_of_a_large_file_keep_their_lines_across_processes(
    assay: Any, tmp_path: Path
) -> None:
    padding = "x" * 2000
    cards = [
        scorecard(
            {"norm": 0.9}, run_id=f"r-{n}", notes=[padding], hard_gates={"clean": n % 500 > 0}
        )
        for n in range(2100)
    ]
    (tmp_path / "big.jsonl").write_text("".join(json.dumps(one) + "\n" for one in cards))
    assert (tmp_path / "big.jsonl").stat().st_size > LARGE
    done = assay("grade", "big.jsonl", "--jobs", "2", "-o", "out.sarif", "-o", "out.parquet")
    assert done.code == 1, done.err
    found = sarif_results(tmp_path / "out.sarif")
    assert [place(one)[1] for one in found] == [1, 501, 1001, 1501, 2001]
    rows = duckdb.sql(f"select run_id from '{tmp_path}/out.parquet'").fetchall()
    assert [name for (name,) in rows] == [card["run_id"] for card in cards]
