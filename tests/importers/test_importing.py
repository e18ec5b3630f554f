"""`assay import` and the other verbs on another tool's result file: one evaluation, a profile made
from its metrics, and a gate that a candidate can't open by leaving things out.
"""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from assay.api.comparing import gate, load
from assay.cli.main import run as assay
from assay.errors import ExitCode, InputError
from assay.files.archives import open_archive
from assay.importers.known import KNOWN
from assay.services.evaluation_choice import ComparedInput, made_profile, one_made_profile
from assay.store.ledger import open_ledger
from peer_files import RECORDED, ROOT

N = 60


def scores(
    path: Path,
    *,
    drop: int = 0,
    value: Any = None,
    names: tuple[str, ...] = ("F1", "EM"),
    failed: int = 0,
) -> Path:
    """A file of autoevals: N answers, each with a score by each scorer."""
    listed = []
    for index in range(N - drop):
        for name in names:
            score: Any = (0.9 if index % 4 else 0.8) if value is None else value
            listed.append(
                {
                    "name": name,
                    "score": None if index < failed else score,
                    "metadata": {},
                    "input": f"question {index}",
                    "output": f"answer {index} {path.stem}",
                    "expected": f"answer {index}",
                }
            )
    path.write_text(json.dumps(listed))
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *words: Any, code: int = 0) -> Any:
    assert assay([*map(str, words), "--json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_a_file_becomes_one_evaluation_with_its_own_profile(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(here / "old.json")
    done = printed(capsys, "import", "old.json", "-o", "runs.jsonl")
    assert done["counts"]["runs"] == N
    assert [item["label"] for item in done["profile"]["criteria"]] == ["F1", "EM"]
    assert {item["weight"] for item in done["profile"]["criteria"]} == {1}
    assert done["written"] == ["runs.jsonl", "runs.profile.yaml"]
    assert Path("runs.profile.yaml").read_text().startswith("# Made from the metrics")
    assert [one["totals"]["n"] for one in done["evaluations"]] == [N]
    mean = next(row for row in done["totals"] if row["total"] == "mean F1")
    assert (mean["ours"], mean["n"]) == (pytest.approx(0.875), N)
    # the same grades from the files, from the evaluation, and from the result file itself
    name = done["evaluations"][0]["name"]
    again = [
        ("grade", "runs.jsonl", "--profile", "runs.profile.yaml"),
        ("grade", "old.json"),
        ("explain", name),
    ]
    results = [printed(capsys, *words)["results"] for words in again]
    assert results[0][0]["weighted_score"] == results[1][0]["weighted_score"] == 80
    assert [one["grade"] for one in results[1]] == [one["grade"] for one in results[2]]
    for found in results:
        assert (
            found[0]["selection"]["profile"]["why"] == "made from the metrics that autoevals wrote"
        )
    assert assay(["report", "summary", "old.json"]) == ExitCode.PASSED


def test_the_gate_holds_against_a_candidate_that_leaves_things_out(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(here / "old.json")
    assert printed(capsys, "gate", scores(here / "new.json"), "--baseline", "old.json")
    for worse in (
        scores(here / "dropped.json", drop=4),
        scores(here / "lacking.json", names=("F1",)),
        scores(here / "failed.json", failed=10),
        scores(here / "other.json", names=("F1", "Em")),
    ):
        decided = printed(capsys, "gate", worse.name, "--baseline", "old.json", code=1)
        assert decided["outcome"] in ("reject", "hold"), worse
    # values beyond the baseline's scale would count as perfect
    scores(here / "scale.json", value=5)
    assert assay(["gate", "scale.json", "--baseline", "old.json"]) == ExitCode.MALFORMED
    assert "is 5 in scale.json, and from 0 to 1 in the baseline" in capsys.readouterr().err
    # a metric that the baseline lacks neither helps nor hurts
    scores(here / "more.json", names=("F1", "EM", "Extra"))
    assert printed(capsys, "gate", "more.json", "--baseline", "old.json")["outcome"] == "promote"
    assert assay(["gate", "more.json", "--baseline", "old.json"]) == ExitCode.PASSED
    assert "not graded, because the baseline has no such metric: Extra" in capsys.readouterr().err


def _of_langfuse(index: int, values: list[Any]) -> dict[str, Any]:
    made = {"traceId": f"t{index}", "dataType": "NUMERIC", "name": "good", "source": "API"}
    return {
        "id": f"t{index}",
        "timestamp": "2026-01-02T03:04:05.000Z",
        "name": "chat",
        "bookmarked": False,
        "output": "x",
        "scores": [{**made, "value": value} for value in values],
    }


def _of_mlflow(index: int, values: list[Any]) -> dict[str, Any]:
    made = {"assessment_name": "good", "source": {"source_type": "HUMAN", "source_id": "ann"}}
    return {
        "trace_id": f"t{index}",
        "state": "OK",
        "request": f"question {index}",
        "response": "x",
        "assessments": [{**made, "feedback": {"value": value}} for value in values],
    }


def _of_phoenix(index: int, values: list[Any]) -> dict[str, Any]:
    return {
        "example_id": f"e{index}",
        "reference_output": "x",
        "output": "x",
        "annotations": [{"name": "good", "label": None, "score": value} for value in values],
    }


def _of_deepeval(index: int, values: list[Any]) -> dict[str, Any]:
    made = {"name": "good", "threshold": 0.5}
    return {
        "name": f"case {index}",
        "input": f"question {index}",
        "actualOutput": "x",
        "success": all(values),
        "metricsData": [{**made, "score": value, "success": value == 1} for value in values],
    }


@pytest.mark.parametrize(
    ("row", "above"),
    [
        (_of_langfuse, None),
        (_of_mlflow, None),
        (_of_phoenix, None),
        (_of_deepeval, "testCases"),
    ],
)
def test_one_of_several_scores_by_a_name_is_not_dropped(
    here: Path, capsys: pytest.CaptureFixture[str], row: Any, above: str | None
) -> None:
    for name, values in (("old", [1, 1]), ("worse", [1, 0]), ("dropped", [1])):
        rows = [row(index, values if index < 10 else [1, 1]) for index in range(N)]
        tree = rows if above is None else {above: rows}
        (here / f"{name}.json").write_text(json.dumps(tree))
    assert assay(["gate", "old.json", "--baseline", "old.json"]) == ExitCode.PASSED
    capsys.readouterr()
    for name, outcome in (("worse", "reject"), ("dropped", "hold")):
        decided = printed(capsys, "gate", f"{name}.json", "--baseline", "old.json", code=1)
        assert decided["outcome"] == outcome, name
    assert "10 samples can't be compared" in decided["reason"]


@pytest.mark.parametrize(
    ("row", "field", "well"),
    [(_of_langfuse, "level", "DEFAULT"), (_of_mlflow, "state", "OK"), (_of_phoenix, "error", None)],
)
def test_the_field_that_says_how_a_sample_ended_is_not_left_out(
    here: Path, capsys: pytest.CaptureFixture[str], row: Any, field: str, well: str | None
) -> None:
    rows = [{**row(index, [1]), field: well} for index in range(N)]
    for name in ("old", "same", "new"):
        if name == "new":  # a sample that errored would look like any other
            for one in rows:
                del one[field]
        (here / f"{name}.json").write_text(json.dumps(rows))
    assert assay(["gate", "same.json", "--baseline", "old.json"]) == ExitCode.PASSED
    capsys.readouterr()
    decided = printed(capsys, "gate", "new.json", "--baseline", "old.json", code=4)
    assert "60 samples can't be compared" in str(decided["rules"])


@pytest.mark.parametrize(
    ("value", "code"), [("0.9", ExitCode.PASSED), ("", ExitCode.FAILED), ("NaN", ExitCode.FAILED)]
)
def test_a_metric_that_failed_on_every_sample_is_missing_and_not_forgotten(
    here: Path, capsys: pytest.CaptureFixture[str], value: str, code: Any
) -> None:
    rows = "user_input,response,faithfulness,exact_match\nq1,a,{0},1\nq2,b,{0},1\n"
    (here / "table.csv").write_text(rows.format(value))
    assert assay(["grade", "table.csv"]) == code
    missing = "faithfulness has no value on any sample: none is given, or none is a number"
    assert (missing in capsys.readouterr().err) == (code == ExitCode.FAILED)


def test_a_stored_baseline_keeps_the_profile_that_candidates_are_graded_by(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(here / "old.json")
    assert assay(["baseline", "set", "production", "old.json"]) == ExitCode.PASSED
    scores(here / "new.json")
    assert assay(["gate", "new.json", "--baseline", "production"]) == ExitCode.PASSED
    scores(here / "lacking.json", names=("F1",))
    assert assay(["gate", "lacking.json", "--baseline", "production"]) == ExitCode.FAILED
    capsys.readouterr()
    printed(capsys, "import", "old.json", "--workflow", "bot@1", "--name", "first")
    printed(capsys, "import", "new.json", "--workflow", "bot@2")
    assert printed(capsys, "gate", "latest", "--baseline", "latest~1")["outcome"] == "promote"
    assert printed(capsys, "gate", "new.json", "--baseline", "first")["outcome"] == "promote"


def test_a_decision_without_a_candidate_says_what_is_missing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(here / "old.json")
    assert assay(["gate", "--baseline", "old.json"]) == ExitCode.MISUSE
    assert "a decision needs a candidate to compare with" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["gate", "header.csv", "--baseline", "old.json"],
        ["gate", "old.json", "--baseline", "header.csv"],
        ["grade", "header.csv"],
        ["import", "header.csv", "-o", "runs.jsonl"],
        ["import", "empty.jsonl", "-o", "runs.jsonl"],
    ],
)
def test_an_empty_side_is_not_taken_for_the_file_of_another_tool(
    here: Path, capsys: pytest.CaptureFixture[str], words: Any
) -> None:
    scores(here / "old.json")
    (here / "empty.jsonl").write_text("")
    for new, old, side in (
        ("empty.jsonl", "old.json", "candidate"),
        ("old.json", "empty.jsonl", "baseline"),
    ):
        assert assay(["gate", new, "--baseline", old]) == ExitCode.NOT_ENOUGH
        assert f"empty.jsonl: the {side} contains no runs." in capsys.readouterr().err
    (here / "header.csv").write_text("id,score\n")
    assert assay(words) == ExitCode.NOT_ENOUGH, words


def test_nothing_is_half_imported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "cut.json").write_text(scores(here / "old.json").read_text()[:-40])
    twice = json.loads((here / "old.json").read_text())
    (here / "empty.json").write_text("[]")
    (here / "strange.json").write_text('{"verdicts": [1], "model": "m"}')
    (here / "strange.zip").write_bytes(b"PK\x03\x04nothing")
    assert twice
    for name, words in {
        "cut.json": "ends in the middle",
        "empty.json": "",
        "strange.json": "JSON with the keys model, verdicts",
        "strange.zip": "ZIP archive",
    }.items():
        assert assay(["import", name, "-o", "runs.jsonl"]) in (3, 4)
        assert words in capsys.readouterr().err, name
        assert not (here / "runs.jsonl").exists()
        assert not (here / ".assay" / "ledger.db").exists()
    assert assay(["import", "old.json", "--from", "autoeval"]) == ExitCode.MISUSE
    assert "Did you mean 'autoevals'" in capsys.readouterr().err


def test_the_real_command_reads_a_result_file_from_standard_input(here: Path, assay: Any) -> None:
    text = scores(here / "old.json").read_text()
    done = assay("grade", "-", "--from", "autoevals", stdin=text)
    assert done.code == 0, done.err
    assert "60 passed" in done.out
    done = assay("grade", "/dev/stdin", "--from", "autoevals", stdin=text)
    assert "60 passed" in done.out, done.err
    cut = assay("grade", "-", "--from", "autoevals", stdin=text[:-9])
    assert (cut.code, cut.err.startswith("assay: <stdin>")) == (3, True), cut.err


def test_a_file_that_contradicts_itself_and_another_tool_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = json.loads((RECORDED / "promptfoo" / "capitals.json").read_text())
    tree["results"]["stats"]["successes"] += 1
    tree["results"]["stats"]["failures"] -= 1
    (here / "changed.json").write_text(json.dumps(tree))
    assert assay(["import", "changed.json", "-o", "runs.jsonl"]) == ExitCode.MALFORMED
    assert "promptfoo states 11 passed, and the file has 10" in capsys.readouterr().err
    assert not (here / "runs.jsonl").exists()
    good = str(RECORDED / "promptfoo" / "capitals.json")
    scores(here / "old.json")
    assert assay(["gate", good, "--baseline", "old.json"]) == ExitCode.MALFORMED
    said = capsys.readouterr().err
    assert "comes from promptfoo" in said
    assert "comes from autoevals" in said


def test_a_missing_baseline_of_imported_results_is_named_as_missing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = str(RECORDED / "promptfoo" / "capitals.json")
    assert assay(["gate", good, "--baseline", "old.json"]) == ExitCode.MALFORMED
    assert "assay: old.json: there is no such file." in capsys.readouterr().err
    assert assay(["gate", "new.json", "--baseline", good]) == ExitCode.MALFORMED
    assert "assay: new.json: there is no such file." in capsys.readouterr().err
    assert assay(["gate", good, "--baseline", "production"]) == ExitCode.NOT_ENOUGH
    assert "there is no baseline 'production'" in capsys.readouterr().err


def test_a_verdict_alone_can_be_graded_and_an_unknown_scale_cannot(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{index},{2 + index % 4},{'yes' if index else 'no'}\n" for index in range(N))
    (here / "stars.csv").write_text(f"id,stars,passed\n{rows}")
    verdicts = ("--map", "id=id,score:stars=stars,passed=passed")
    done = printed(capsys, "import", "stars.csv", *verdicts, "-o", "runs.jsonl")
    assert [item["id"] for item in done["profile"]["criteria"]] == ["passed"]
    assert any("stars is not graded: its values run from 2 to 5" in one for one in done["notes"])
    totals = done["evaluations"][0]["totals"]
    assert (totals["passed"], totals["n"]) == (N - 1, N)
    # no decision without the stars; by the verdict alone where the mapping leaves them out
    words = ("gate", "stars.csv", "--baseline", "stars.csv", "--map")
    assert assay([*words, verdicts[1]]) == ExitCode.NOT_ENOUGH
    assert "stars can't be graded" in capsys.readouterr().err
    assert printed(capsys, *words, "id=id,passed=passed")["comparison"]["n_paired"] == N
    assert (
        assay(["import", "stars.csv", "--map", "id=id,score:stars=stars,passed=", "-o", "x.jsonl"])
        == 4
    )
    said = capsys.readouterr().err
    assert "there is nothing to grade" in said
    assert "--profile" in said


def test_a_baseline_is_compared_with_files_of_other_tools_and_with_evaluations(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, right in (("old", 20), ("new", 30)):
        rows = "".join(f"{n},{'yes' if n < right else 'no'}\n" for n in range(60))
        (here / f"{name}.csv").write_text(f"id,correct\n{rows}")
    assert assay(["baseline", "set", "prod", "old.csv"]) == ExitCode.PASSED
    assert assay(["import", "new.csv", "--name", "newer"]) == ExitCode.PASSED
    capsys.readouterr()
    for other in ("new.csv", "newer", "latest"):
        found = printed(capsys, "baseline", "diff", "prod", other)
        assert (found["comparison"]["wins"], found["comparison"]["losses"]) == (10, 0)


OTHER_COLUMNS = [
    ("score:score=self_rating", "score:score is the column 'Score' in the baseline, and the"),
    ("error:failed=", "error:failed is the column 'failed' in the baseline, and left out"),
    ("group=failed", "error:failed is the column 'failed' in the baseline, and read as group"),
    ("id=id", ""),
]


def test_a_candidate_that_reads_other_columns_is_not_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("old", "new"):
        rows = "".join(f"{n},0.{n % 5 + 5},0.95,\n" for n in range(60))
        (here / f"{name}.csv").write_text(f"id,score,self_rating,failed\n{rows}")
    (here / "renamed.csv").write_text((here / "old.csv").read_text().replace("id,s", "id,S"))
    assert assay(["import", "renamed.csv", "--workflow", "bot@1", "--name", "old"]) == 0
    assert assay(["baseline", "set", "prod", "old"]) == ExitCode.PASSED
    for number, (mapping, words) in enumerate(OTHER_COLUMNS):
        named = ["--workflow", "bot@2", "--name", f"new{number}"]
        assert assay(["import", "new.csv", *named, "--map", mapping]) == ExitCode.PASSED
        for baseline in ("old", "prod"):
            capsys.readouterr()
            code = ExitCode.MALFORMED if words else ExitCode.PASSED
            assert assay(["gate", f"new{number}", "--baseline", baseline]) == code
            assert words in capsys.readouterr().err
        with pytest.raises(InputError, match=words) if words else nullcontext():
            assert gate(load(f"new{number}"), load("old"))


def test_a_candidate_without_the_status_of_its_rows_is_not_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": n, "score": 1, "status": "success"} for n in range(N)]
    (here / "old.json").write_text(json.dumps(rows))
    for row in rows[:10]:
        row["status"] = "timeout"
    (here / "failed.json").write_text(json.dumps(rows))
    for row in rows:
        del row["status"]
    (here / "new.json").write_text(json.dumps(rows))
    assert assay(["gate", "failed.json", "--baseline", "old.json"]) == ExitCode.FAILED
    capsys.readouterr()
    assert assay(["gate", "new.json", "--baseline", "old.json"]) == ExitCode.MALFORMED
    assert "'status' in the baseline, and missing in new.json" in capsys.readouterr().err


@pytest.mark.parametrize("stored", [None, 5, [1], {"score:a": 5, "error": None, "passed": {}}])
def test_a_malformed_map_in_a_stored_record_is_no_map(stored: Any) -> None:
    tree = {"profile": "imported-table", "version": 1, "made_from": "a table"}
    known = made_profile("old", tree, {"score:a": "x", "error": "e", "passed": "p"})
    posted = made_profile("new", tree, stored)
    found = one_made_profile([ComparedInput("old", known)], [ComparedInput("new", posted)])
    assert found == known


def test_what_was_imported_is_made_again_to_the_byte(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(here / "old.json")
    name = printed(capsys, "import", "old.json", "-o", "runs.jsonl")["evaluations"][0]["name"]
    assert printed(capsys, "ledger", "replay", name)["same"] is True
    run = json.loads((here / "runs.jsonl").read_text().splitlines()[0])["run_id"]
    assert printed(capsys, "ledger", "replay", run)["same"] is True


def test_a_decision_on_result_files_is_made_again_to_the_byte(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("old.json", "new.json"):
        scores(here / name)
    made = printed(capsys, "gate", "new.json", "--baseline", "old.json", "--store")
    with open_ledger(f"sqlite:///{here}/.assay/ledger.db") as ledger:
        decision = ledger.find("decision").items[0]
        grade = ledger.find("grade").items[0]
        assert not ledger.find("evaluation").items, "no evaluation has the profile"
    assert decision.tree()["outcome"] == made["outcome"]
    for item in (decision, grade):
        assert printed(capsys, "ledger", "replay", item.digest)["same"] is True


def test_a_metric_that_may_be_better_the_lower_it_is_gets_no_grade(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "table.csv").write_text(
        "inputs,outputs,match/v1/score,Toxicity/v1/score\nq1,a,1,1\nq2,b,1,0\n"
    )
    assert assay(["grade", "table.csv"]) == ExitCode.PASSED
    assert (
        "Toxicity/v1 is not graded: its name suggests that lower is better"
        in capsys.readouterr().err
    )
    (here / "table.csv").write_text("inputs,outputs,toxicity/v1/score\nq1,a,1\n")
    assert assay(["grade", "table.csv"]) == ExitCode.NOT_ENOUGH


def table(path: Path, columns: str, *values: Any, odd: Any = None) -> None:
    """A table of N rows with an id and an answer; `odd` is the first row's first value."""
    lines = [[f"s{index}", "a", *values] for index in range(N)]
    if odd is not None:
        lines[0][2] = odd
    rows = "".join(",".join(map(str, line)) + "\n" for line in lines)
    path.write_text(f"id,output,{columns}\n{rows}")


def test_no_decision_without_a_metric_that_the_baseline_has_and_nobody_can_grade(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = (("Toxicity", 0.05, 0.95, "1..0"), ("Percent", 95, 5, "0..100"))
    for name, good, bad, scale in named:
        for path, value in (("old.json", good), ("new.json", bad)):
            listed = json.loads(scores(here / path, names=("F1",), value=0.9).read_text())
            for one in list(listed):
                listed.append({**one, "name": name, "score": value})
            (here / path).write_text(json.dumps(listed))
        words = ["gate", "new.json", "--baseline", "old.json"]
        assert assay(words) == ExitCode.NOT_ENOUGH
        said = capsys.readouterr().err
        assert f"{name} can't be graded" in said
        assert f"--map score:{name}={name}:" in said
        assert "--profile" in said
        assert "doesn't count" not in said
        # the rest is graded where nothing is decided
        assert assay(["grade", "old.json"]) == ExitCode.PASSED
        said = capsys.readouterr().err
        assert f"{name} is not graded" in said
        assert "assumed that higher is better: F1" in said
        # stored, the baseline still has it
        assert assay(["baseline", "set", f"b{name}", "old.json"]) == ExitCode.PASSED
        assert assay(["gate", "new.json", "--baseline", f"b{name}"]) == ExitCode.NOT_ENOUGH
        assert "Import it again" in capsys.readouterr().err
        # with its scale it is graded, on both sides
        scaled = ("--map", f"score:{name}={name}:{scale}")
        done = printed(capsys, *words, *scaled, code=1)
        assert done["comparison"]["n_paired"] == N
        assert assay(["gate", "old.json", "--baseline", "old.json", *scaled]) == ExitCode.PASSED
        capsys.readouterr()


def test_the_scale_of_a_tools_metric_keeps_its_values_and_totals(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(here / "old.json", names=("Toxicity",), value=0.05)
    scaled = ("--map", "score:calm=Toxicity:1..0")
    done = printed(capsys, "import", "old.json", *scaled, "-o", "runs.jsonl", "--save-map")
    assert [item["id"] for item in done["profile"]["criteria"]] == ["calm 1..0"]
    assert done["totals"][1]["ours"] == pytest.approx(0.05)
    run = json.loads((here / "runs.jsonl").read_text().splitlines()[0])
    assert run["scores"]["calm 1..0"]["raw"] == 0.95
    assert run["metadata"]["as_written"] == {"Toxicity": 0.05}
    assert done["map"] == {"score:calm": "Toxicity:1..0"}
    assert assay(["grade", "old.json"]) == ExitCode.PASSED  # as assay.yaml says now
    assert "scales: score:calm=Toxicity:1..0" in capsys.readouterr().err
    for given, words in (
        ("score:x=Toxic:1..0", "--map has 'score:x', but the file has no metric for Toxic:1..0"),
        ("id=input", "it can only set the scales of metrics"),
        ("score:x=Toxicity", "it can only set the scales of metrics"),
    ):
        assert assay(["grade", "old.json", "--from", "autoevals", "--map", given]) == 2
        assert words in capsys.readouterr().err
    assert assay(["grade", "old.json", "--map", "score:x=Toxicity:2..1"]) == ExitCode.MALFORMED
    assert "outside the scale 2..1" in capsys.readouterr().err


def test_one_value_beyond_the_scale_removes_no_metric(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(here / "odd.csv", "faithfulness,f1", 0.1, 0.95, odd=1.01)
    table(here / "even.csv", "faithfulness,f1", 0.1, 0.95)
    for words in (["grade", "odd.csv"], ["gate", "even.csv", "--baseline", "odd.csv"]):
        assert assay(words) == ExitCode.MALFORMED
        said = capsys.readouterr().err
        assert "faithfulness is 1.01 on the sample 's0'" in said
        assert "--map" in said
        assert "--profile" in said
    assert assay(["gate", "odd.csv", "--baseline", "even.csv"]) == ExitCode.MALFORMED
    # the noise of floats is no other scale
    table(here / "odd.csv", "faithfulness,f1", 0.9, 0.95, odd="1.0000000000000002")
    done = printed(capsys, "import", "odd.csv", "--no-store")
    assert len(done["profile"]["criteria"]) == 2
    assert any("rounding put beyond its scale" in note for note in done["notes"])
    table(here / "even.csv", "faithfulness,f1", 0.9, 0.95)
    assert assay(["gate", "odd.csv", "--baseline", "even.csv"]) == ExitCode.PASSED


def test_a_guess_of_columns_grades_nothing_where_less_is_better(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(here / "old.csv", "brier_score", 0.05)
    assert assay(["gate", "old.csv", "--baseline", "old.csv"]) == ExitCode.NOT_ENOUGH
    said = capsys.readouterr().err
    option = re.search(r"--map (\S+),", said)
    assert option is not None
    assert option[1] == "id=id,answer=output,score:brier_score=brier_score:1..0"
    assert assay(["grade", "old.csv", "--map", option[1]]) == ExitCode.PASSED
    table(here / "old.csv", "toxicity,f1", 0.05, 0.9)
    assert assay(["gate", "old.csv", "--baseline", "old.csv"]) == ExitCode.NOT_ENOUGH


def test_the_page_lists_every_tool() -> None:
    names = re.findall(
        r':IMPORTER": \("([^"]+)"', (ROOT / "src/assay/importers/known.py").read_text()
    )
    listed = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/how-to/import.md").read_text(), re.M)
    assert set(names) <= set(listed)
    assert set(names) <= set(KNOWN)


def test_runs_are_printed_only_where_they_would_be_lost(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(here / "old.json")
    assert assay(["import", "old.json", "--name", "kept"]) == ExitCode.PASSED
    out = capsys.readouterr().out
    assert "question" not in out, "it is in the ledger"
    assert "kept" in out
    assert assay(["import", "old.json", "--no-store"]) == ExitCode.PASSED
    assert capsys.readouterr().out.count("assay.run/1") == N


@pytest.mark.parametrize("verb", ["grade", "import"])
def test_results_that_all_errored_say_so_and_why(
    here: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (here / "down.csv").write_text("id,score,error\n1,,connection refused\n2,,connection refused\n")
    assert assay([verb, "down.csv"]) == ExitCode.NOT_ENOUGH
    said = capsys.readouterr()
    assert "2 of 2 samples errored: connection refused." in said.err
    assert "assay.run/1" not in said.out


def test_a_file_of_nobody_is_described_wherever_runs_are_taken(assay, tmp_path) -> None:
    (tmp_path / "odd.json").write_text('{"verdicts": [1], "model": "m"}')
    (tmp_path / "odd.jsonl").write_text('{"model": "m", "verdict": 1}\n' * 2)
    for words in (
        ("grade", "odd.json"),
        ("grade", "odd.jsonl"),
        ("explain", "odd.json"),
        ("gate", "odd.json", "--baseline", "odd.json"),
        ("report", "summary", "odd.json"),
    ):
        done = assay(*words)
        assert done.code == 3
        assert "JSON with the keys model, verdict" in done.err, words
        assert "--map" in done.err
    for kept in ('{"run_id": "r", "model": 1}', '{"shema": "assay.run/1"}', "{}"):
        (tmp_path / "odd.json").write_text(kept)
        assert "the key 'schema' is missing" in assay("grade", "odd.json").err


def test_standard_input_that_is_no_json_needs_its_kind(assay) -> None:
    table = b"id,output,score\na,b,1\n"
    for data, kind in ((b"a: 1\n", "KIND"), (table, "table"), (b"PK\x03\x04x", "KIND")):
        done = assay("grade", "-", stdin=data)
        assert done.code == 3
        assert done.err.rstrip().endswith(f"Name its kind with --from {kind}. [FIL-006]")
    for words in (("--from", "table"), ("--map", "id=id,answer=output,score:s=score")):
        assert assay("grade", "-", *words, stdin=table).code == 0
    failed = assay("grade", "-", "--from", "table", stdin=table + b"b,c,0\n")
    assert failed.code == 1
    assert "assay explain" not in failed.out  # there is nothing left to read


def test_the_error_that_ended_a_sample_is_named_first(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "j.xml").write_text(
        '<testsuite name="s" tests="2"><testcase classname="t" name="ok"/><testcase classname="t"'
        ' name="gpu"><skipped message="no GPU"/></testcase></testsuite>'
    )
    assert assay(["grade", "j.xml"]) == ExitCode.FAILED
    line = next(one for one in capsys.readouterr().out.splitlines() if one.endswith("not pass"))
    assert "t::gpu  skipped: no GPU; gates overall_status_success" in line
    assert assay(["grade", "j.xml", "-o", "g.md"]) == ExitCode.FAILED
    page = (here / "g.md").read_text()
    assert (
        "| `gate overall_status_success failed: the run ended with status 'cancelled': skip" in page
    )
    capsys.readouterr()
    assert assay(["explain", "j.xml"]) == ExitCode.FAILED
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, one in enumerate(lines) if "3 hard gates do not pass" in one)
    assert "status 'cancelled': skipped: no GPU" in lines[at + 1]


def test_a_comparison_with_itself_claims_only_what_the_files_say(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{index},answer {index},1,note {index}" for index in range(N)]
    files = {
        "old.csv": rows,
        "renamed.csv": rows,
        "sorted.csv": rows[::-1],
        "other.csv": [row.replace("note", "remark") for row in rows],
    }
    for name, lines in files.items():
        (here / name).write_text("\n".join(["id,answer,score,comment", *lines]) + "\n")
    for name in ("renamed.csv", "sorted.csv"):
        notes = printed(capsys, "gate", name, "--baseline", "old.csv")["notes"]
        assert notes[0].startswith(
            f"SAME EVIDENCE: all {N} shared samples have the same answers, scores and verdicts on"
        )
    # what differs is in a column that nobody grades, and still tells the two apart
    assert "notes" not in printed(capsys, "gate", "other.csv", "--baseline", "old.csv")
    printed(capsys, "import", "old.csv", "-o", "runs.jsonl")
    assert "note 7" not in (here / "runs.jsonl").read_text()


def test_sarif_shows_imported_samples_at_their_lines(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "rows.csv").write_text('id,answer,passed\na,"two\nlines",1\nb,x,0\n')
    (here / "rows.jsonl").write_text(
        '{"id": "a", "score": 1, "passed": true}\n\n{"id": "b", "score": 0, "passed": false}\n'
    )
    (here / "tests.xml").write_text(
        '<testsuite name="s" tests="2" failures="1">\n <testcase name="a"/>\n\n'
        ' <testcase name="b">\n  <failure/></testcase></testsuite>'
    )
    for name, line in (("rows.csv", 4), ("rows.jsonl", 3), ("tests.xml", 4)):
        assert assay(["grade", name, "-o", "out.sarif"]) == ExitCode.FAILED, name
        results = json.loads((here / "out.sarif").read_text())["runs"][0]["results"]
        places = [one["locations"][0]["physicalLocation"] for one in results]
        assert {one["artifactLocation"]["uri"] for one in places} == {name}
        assert {one["region"]["startLine"] for one in places} == {line}
    (here / "new.csv").write_text("id,answer,passed\n" + "a,x,0\n")
    (here / "old.csv").write_text("id,answer,passed\n" + "a,x,1\n")
    assert assay(["gate", "new.csv", "--baseline", "old.csv", "-o", "gate.sarif"]) != 0
    found = json.loads((here / "gate.sarif").read_text())["runs"][0]["results"]
    assert 2 in {
        one["locations"][0]["physicalLocation"].get("region", {}).get("startLine") for one in found
    }
    capsys.readouterr()


def test_a_run_is_explained_by_the_end_of_its_name_with_question_and_answer(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"t::three": ("Capital of France?", "Lyon"), "t::two": ("Capital of Spain?", "Rome")}
    rows = [f"{name},{question},{answer},Paris,0\n" for name, (question, answer) in names.items()]
    (here / "d.csv").write_text("id,input,output,expected,score\n" + "".join(rows))
    assert assay(["import", "d.csv", "--name", "d", "-o", "d.jsonl"]) == 0
    for file in ("d.csv", "d"):
        capsys.readouterr()
        assert assay(["explain", file, "--run", "three"]) == ExitCode.FAILED
        lines = capsys.readouterr().out.splitlines()
        shown = [" ".join(line.split()) for line in lines[1:4]]
        assert shown == ["question Capital of France?", "answer Lyon", "expected Paris"], lines
        assert assay(["explain", file, "--run", "thre"]) == 2
        assert "no run is named 'thre'. Did you mean" in capsys.readouterr().err


def test_runs_without_a_profile_name_the_one_next_to_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(here / "old.json")
    assert assay(["import", "old.json", "--no-store", "-o", "runs.jsonl"]) == ExitCode.PASSED
    assert assay(["grade", "runs.jsonl"]) == ExitCode.MALFORMED
    assert capsys.readouterr().err.count("--profile runs.profile.yaml") == 1


def test_an_error_that_the_tool_counts_is_not_left_out_of_its_sample(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The marks of errors are optional in these files, so that a sample without one is fine."""
    with open_archive(str(RECORDED / "inspect_ai" / "errors.eval")) as packed:
        entries = {
            entry.filename: json.loads(packed.read(entry, 10**7)) for entry in packed.entries()
        }
    log = entries["header.json"]
    log["samples"] = [tree for name, tree in entries.items() if name.startswith("samples/")]
    rows = json.loads((RECORDED / "promptfoo" / "capitals.json").read_text())
    for name, tree, samples in (
        ("inspect_ai", log, log["samples"]),
        ("promptfoo", rows, rows["results"]["results"]),
    ):
        (here / "log.json").write_text(json.dumps(tree))
        assert assay(["import", "log.json", "-o", "runs.jsonl"]) == ExitCode.PASSED
        for sample in samples:
            if sample.pop("error", None) and name == "inspect_ai":
                sample["scores"] = {"includes": {"value": "C"}}
            elif sample.get("failureReason") == 2:
                del sample["failureReason"], sample["response"]["error"]
        (here / "log.json").write_text(json.dumps(tree))
        capsys.readouterr()
        assert assay(["import", "log.json", "-o", "runs.jsonl"]) == ExitCode.MALFORMED, name
        assert "with an error or without a result, and the file shows 0" in capsys.readouterr().err
