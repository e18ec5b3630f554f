"""Any table of results: columns by a mapping or by their names, and nothing made up."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assay.cli.main import run as assay
from assay.errors import AssayError, ExitCode, InputError, NotEnoughEvidence, UsageError
from assay.importers.column_map import guess, parse_map
from assay.importers.head import Head
from assay.importers.importer import Wanted
from assay.importers.table import takes
from peer_files import imported, takers

CSV = (
    "id,question,output,gold,faithfulness,stars,passed,latency_ms\n"
    't1,"one, two",a,a,0.9,5,yes,100\n'
    "t2,b?,,b,,3,no,\n"
)


def table(path: Path, text: str | bytes = CSV) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def mapped(path: Path, text: str) -> list[dict[str, Any]]:
    return imported("table", path, wanted=Wanted(mapping=parse_map([text])))[0]


def test_names_of_columns_suggest_what_they_are(tmp_path: Path) -> None:
    path = table(tmp_path / "results.csv", b"\xef\xbb\xbf" + CSV.encode())
    assert takers(path) == ["table"]
    runs, tally = imported("table", path)
    assert [run["dataset"]["sample_id"] for run in runs] == ["t1", "t2"]
    assert runs[0]["inputs"] == {"input": "one, two"}
    assert runs[0]["outputs"] == {"answer": "a"}
    assert runs[0]["scores"]["faithfulness"]["raw"] == Decimal("0.9")
    assert [run["gates"]["table_passed"]["passed"] for run in runs] == [True, False]
    # an empty answer and an empty score are missing, not dropped
    assert (runs[1]["outputs"], runs[1]["required_outputs"]) == ({}, ["answer"])
    assert runs[1]["scores"]["faithfulness"]["raw"] is None
    assert tally.notes[0].startswith("the verdict is a gate and adds no points")
    assert tally.notes[0].endswith("map it: passed=passed,score:passed=passed")
    assert tally.notes[1:] == [
        "columns that are not used: stars (--map score:NAME=COLUMN counts one in the score)",
        "faithfulness has no value in 1 of 2 rows, where it counts as 0",
    ]
    lines = [json.dumps({"id": 1, "score": 0.5, "answer": "x"}), json.dumps({"id": 2, "score": 1})]
    runs, _ = imported("table", table(tmp_path / "results.jsonl", "\n".join(lines)))
    assert [run["scores"]["score"]["raw"] for run in runs] == [Decimal("0.5"), 1]


def test_a_guess_takes_nothing_that_is_open_and_no_verdict_by_chance() -> None:
    camel = guess(["sampleId", "modelOutput", "isCorrect", "answerRelevancy"]).mapping
    assert list(camel) == ["id", "answer", "passed", "score:answer_relevancy"]
    found = guess(["answer", "output", "score"])
    assert "answer" not in found.mapping
    assert found.open == ("answer may be 'answer' or 'output'",)
    assert not takes(Head("x.csv", b"id,label,ok,result"), {})
    taken = guess(["question", "answer", "toxicity_score"]).mapping  # to be named as not graded
    assert taken["score:toxicity_score"] == "toxicity_score"
    assert not takes(Head("x.csv", b"run_id,passed,score,hard_gates"), {})  # a grade of ours


def test_a_mapping_names_columns_and_scales(tmp_path: Path) -> None:
    path = table(tmp_path / "results.csv")
    scales = "score:stars=stars:1..5,score:rank=stars:5..0,score:faithfulness="
    runs = mapped(path, f"id=id,answer=question,{scales}")
    assert [list(map(str, (s["raw"] for s in run["scores"].values()))) for run in runs] == [
        ["1", "0"],
        ["0.5", "0.4"],
    ]
    assert list(runs[0]["scores"]) == ["stars 1..5", "rank 5..0"]
    wrong = {
        "score:stars=stars:1..4": r"outside the scale 1\.\.4\. Correct the value, or widen the scale of 'stars'",
        "score:q=question": "not a number",
        "passed=stars": "has '5', which isn't a verdict",
        "score:x=faithfulnes": "Did you mean 'faithfulness'",
        "attempt=stars,tokens=faithfulness,passed=passed": "is not a count",
    }
    for text, words in wrong.items():
        with pytest.raises(InputError, match=words):
            mapped(path, text)
    with pytest.raises(NotEnoughEvidence, match="no column has a score or a verdict"):
        mapped(path, "score:faithfulness=,passed=")
    for text in ("id", "id=a,id=b", "ident=a", "score:x=a:1..1"):
        with pytest.raises(UsageError):
            parse_map([text])


def test_a_column_where_lower_may_be_better_needs_its_scale_under_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "t.csv", "id,toxicity\na,0.97\nb,0.99\n")
    assert assay(["grade", "t.csv", "--map", "score:tox=toxicity"]) == ExitCode.NOT_ENOUGH
    error = capsys.readouterr().err
    assert "the name of the column 'toxicity' suggests that lower is better" in error
    assert "--map score:tox=toxicity:1..0,id=id" in error
    assert assay(["grade", "t.csv", "--map", "score:tox=toxicity:1..0"]) == ExitCode.FAILED


def test_an_underscore_makes_no_number(tmp_path: Path) -> None:
    """Python reads 0_1 as 1."""
    with pytest.raises(InputError, match="has '0_1', which is not a number"):
        imported("table", table(tmp_path / "results.csv", "id,score\na,0_1\n"))


def test_errors_are_missing_evidence_and_equal_questions_are_repeats(tmp_path: Path) -> None:
    text = "question,answer,score,error\nq1,a,1,\nq1,b,1,timed out\nq2,c,0.5,\n"
    runs, tally = imported("table", table(tmp_path / "results.csv", text))
    assert [(run["attempt"], run["status"]) for run in runs] == [
        (1, "success"),
        (2, "error"),
        (1, "success"),
    ]
    assert runs[1]["scores"]["score"]["raw"] is None
    assert tally.errors == 1
    (repeats,) = tally.notes
    assert repeats.startswith("1 row with the same input as an earlier row, counted as repeats of")


def test_a_verdict_an_error_or_a_status_is_never_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = table(tmp_path / "results.csv", "id,output,passed,success,score\ns,a,no,no,0.9\n")
    assert assay(["grade", "results.csv"]) == ExitCode.MISUSE
    error = capsys.readouterr().err
    assert "passed may be 'passed' or 'success'" in error
    hint = error.partition("for example ")[2].partition(". [")[0].split()
    assert assay(["grade", "results.csv", *hint]) == ExitCode.FAILED
    for columns in (
        "id,score,Score",
        "id,passed,success",
        "id,pass,correct",
        "id,passed,is_correct",
        "id,passed,isCorrect",
    ):  # a second column of better scores
        table(path, f"{columns}\ns{',1' * columns.count(',')}\n")
        assert assay(["grade", "results.csv"]) == ExitCode.MISUSE
    words = {
        "success": "success",
        "Completed": "success",
        "timed out": "timeout",
        "errored": "error",
        "FAILED": "failed",
        "canceled": "cancelled",
        "": "error",
    }
    rows = "".join(f"s{index},1,{word}\n" for index, word in enumerate(words))
    runs, _ = imported("table", table(path, f"id,correct,status\n{rows}"))
    assert [run["status"] for run in runs] == list(words.values())
    assert [run["gates"]["table_passed"]["passed"] for run in runs] == [
        True if status in ("success", "failed") else None for status in words.values()
    ]
    table(path, "id,correct,status\ns,1,pending\n")
    with pytest.raises(InputError, match=r"'pending', which Assay doesn't know as a status.*--map"):
        imported("table", path)
    with pytest.raises(InputError, match="leave it out with `--map status=`"):
        mapped(path, "id=id,passed=correct")  # a status that nobody mapped counts all the same
    assert mapped(path, "status=")[0]["status"] == "success"
    assert mapped(table(path, "i,ok,end\ns,1,error\n"), "passed=ok,status=end")[0]["status"] == (
        "error"
    )


@pytest.mark.parametrize(
    "column",
    [
        *("failed", "skipped", "Error Message", "error_type", "is_error", "errors", "timed_out"),
        *("aborted", "exit_code", "failure_reason", "Skipped?", "errorMessage", "error_count"),
        *("num_errors", "exit_status", "fail", "skip", "invalid", "error_details", "failureMode"),
    ],
)
def test_each_column_that_reports_a_failure_makes_its_row_missing_evidence(
    tmp_path: Path, column: str
) -> None:
    text = f"id,score,error,{column}\na,1,,1\nb,1,,0\nc,1,boom,\nd,1,no,\n"
    path = table(tmp_path / "results.csv", text)
    runs, tally = imported("table", path)
    assert [run["status"] for run in runs] == ["error", "success", "error", "success"]
    assert [run["scores"]["score"]["raw"] for run in runs] == [None, 1, None, 1]
    assert [run["metadata"].get("reason") for run in runs] == [f"{column}: 1", None, "boom", None]
    assert tally.mapping == {
        "id": "id",
        "score:score": "score",
        "error": "error",
        f"error:{column}": column,
    }
    kept = mapped(path, f"error:{column}=")  # left out
    assert [run["status"] for run in kept] == ["success", "success", "error", "success"]
    with pytest.raises(UsageError, match="unknown key 'error:'"):
        parse_map(["error:=x"])


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        ("ok", "true", "false"),
        ("valid", "1", "0"),
        ("Is OK?", "yes", "no"),
        ("outcome", "passed", "Failed"),
        ("state", "completed", "timed out"),
        ("result", "no", "error"),
        ("finish_reason", "stop", "content_filter"),
        ("finishReason", "stop", "content_filter"),
        ("isOK", "true", "false"),
        ("verdict", "pass", "incorrect"),
        ("Verdict", "true", "false"),
        ("completed", "yes", "no"),
        ("run_status", "ok", "Error"),
        ("status_code", "200", "503"),
        ("http_status", "200 OK", "429 Too Many Requests"),
        ("http_code", "204", "HTTP 500"),
        ("error_code", "200", "500"),
        ("judge_error", "0.25", "no JSON in the reply"),  # a number may be a measure of error
        ("err", "0.25", "no JSON in the reply"),
        ("parseError", "false", "true"),
        ("api_error_message", "none", "rate limited"),
        ("timeout", "30", "yes"),
        ("request_timeout", "30s", "after 30s"),
        ("timeout", "1.5 min", "timed out after 90 seconds"),
        ("percent_error", "2.5%", "not a number"),
        ("error_message", "No error", "No answer"),
        ("error_type", "NO_ERROR", "ERROR"),
    ],
)
def test_a_word_for_a_failure_makes_its_row_missing_evidence(
    tmp_path: Path, column: str, good: str, bad: str
) -> None:
    path = table(tmp_path / "results.csv", f"id,score,{column}\na,1,{good}\nb,1,{bad}\nc,1,\n")
    runs, _ = imported("table", path)
    assert [run["status"] for run in runs] == ["success", "error", "success"]
    assert [run["scores"]["score"]["raw"] for run in runs] == [1, None, 1]
    assert runs[1]["metadata"]["reason"] == f"{column}: {bad}"
    for other in (f"error:{column}=", f"group={column}"):  # left out, or something else
        assert [run["status"] for run in mapped(path, other)] == ["success"] * 3


def test_a_column_that_may_be_the_verdict_is_named_with_its_mapping(tmp_path: Path) -> None:
    path = table(tmp_path / "results.csv", "id,my_score,ok\na,0.9,yes\nb,0.4,no\n")
    note = "rows with a word for a failure in 'ok' count as errors, without scores; if it is the verdict, map it:"
    for text, noted in ((None, True), ("passed=ok", False), ("error:ok=ok", False)):
        wanted = Wanted(mapping=None if text is None else parse_map([text]))
        _, tally = imported("table", path, wanted=wanted)
        assert (f"{note} passed=ok" in tally.notes) is noted
    other = table(tmp_path / "other.csv", "id,score,error\na,0.9,\n")
    assert not any("if it is the verdict" in one for one in imported("table", other)[1].notes)


@pytest.mark.parametrize("word", ["ok", "Success", "pass", "passed", "-", "None", "0", "no", "f"])
def test_a_column_for_failures_may_state_that_all_went_well(tmp_path: Path, word: str) -> None:
    text = f"id,score,error,failed,skipped\na,1,{word},{word},{word}\nb,1,{word},yes,{word}\n"
    runs, _ = imported("table", table(tmp_path / "results.csv", text))
    assert [run["status"] for run in runs] == ["success", "error"]


def test_columns_of_the_sample_are_not_about_its_run(tmp_path: Path) -> None:
    text = "id,score,expected_error,order_status,user_error\na,1,ValueError,cancelled,typo\n"
    (run,), tally = imported("table", table(tmp_path / "results.csv", text))
    assert (run["status"], tally.notes[0].partition(":")[0]) == (
        "success",
        "columns that are not used",
    )


@pytest.mark.parametrize(("head", "n"), [("answer", 1), ("id", 0), ("input", 0)])
def test_a_table_without_ids_or_inputs_is_said_to_be_paired_by_its_rows(
    tmp_path: Path, head: str, n: int
) -> None:
    _, tally = imported("table", table(tmp_path / "results.csv", f"{head},score\na,1\n"))
    assert sum("pairs rows by position" in note for note in tally.notes) == n


def test_repeats_in_a_column_of_another_name_are_hinted_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path / "results.csv", "id,score,trial\na,1,1\na,1,2\n")
    assert assay(["grade", str(path)]) == ExitCode.MALFORMED
    assert "--map attempt=COLUMN" in capsys.readouterr().err
    assert assay(["grade", str(path), "--map", "attempt=trial"]) == ExitCode.PASSED
    table(path, "id,score,epoch\na,1,0\n")
    assert assay(["grade", str(path)]) == ExitCode.MALFORMED
    assert "leave the column out with `--map attempt=`" in capsys.readouterr().err


def test_what_nobody_maps_is_guessed(tmp_path: Path) -> None:
    text = "id,Segment,Helpful,f1,error,latency_s\nt1,a,yes,1,,1.5\nt2,b,no,1,timed out,2\n"
    path = table(tmp_path / "results.csv", text)
    one, two = mapped(path, "group=Segment")
    assert (one["group"], one["latency_ms"], list(one["scores"])) == ("a", 1500, ["f1"])
    assert two["status"] == "error"
    one, two = mapped(path, "score:helpful=Helpful,score:f1=,error=")  # left out
    assert [run["scores"]["helpful"]["raw"] for run in (one, two)] == [1, 0]
    assert list(one["scores"]) == ["helpful"]
    assert two["status"] == "success"


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("id,score,error\na,1,\nb,,timed out\n", None),
        ("id,score,error\na,1,\nb,,timed out\nc,,\n", "1 of 2 rows without an error, where"),
    ],
)
def test_rows_that_errored_are_not_counted_as_rows_without_a_value(
    tmp_path: Path, text: str, counted: str | None
) -> None:
    path = tmp_path / "results.csv"
    _, tally = imported("table", table(path, text))
    notes = [note for note in tally.notes if "has no value in" in note]
    assert [counted in note for note in notes] == ([] if counted is None else [True])


def test_a_column_that_only_later_rows_have_counts(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": number, "score": 1} for number in range(3)]
    rows[1]["error"] = "timed out"
    rows[2]["passed"] = False
    text = "\n".join(map(json.dumps, rows))
    for written in (text, json.dumps(rows)):
        runs, _ = imported("table", table(tmp_path / "results.json", written))
        assert [run["status"] for run in runs] == ["success", "error", "success"]
        assert [run["gates"]["table_passed"]["passed"] for run in runs] == [None, None, False]


def test_a_cell_that_says_no_error_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for word, status in (
        ("False", "success"),
        ("None", "success"),
        ("0", "success"),
        ("1", "error"),
    ):
        path = table(tmp_path / "results.csv", f"id,correct,error\ns,1,{word}\nt,1,{word}\n")
        assert [run["status"] for run in imported("table", path)[0]] == [status] * 2
    assert assay(["grade", "results.csv"]) == ExitCode.NOT_ENOUGH
    said = capsys.readouterr().err
    assert "2 of 2 samples errored: 1." in said
    assert "leave it out with `--map error=`" in said
    table(
        tmp_path / "results.csv", "id,correct,finish_reason,timeout\ns,1,stop,soft\nt,1,stop,soft\n"
    )
    assert assay(["grade", "results.csv"]) == ExitCode.NOT_ENOUGH
    assert "leave it out with `--map error:timeout=`" in capsys.readouterr().err, "as printed"
    assert assay(["grade", "results.csv", "--map", "error:timeout="]) == ExitCode.PASSED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,score\n1\n", "1 instead of 2 columns"),
        (b"id,score\n\xe9,1\n", "not UTF-8"),
        ("id,score,score\n1,2,3\n", "same name"),
        ('id,score\n"1,2\n', "CSV"),
        ("id,score\n", "no rows"),
        ("id,score\n1,nothing\n", "line 2"),
    ],
)
def test_broken_tables_are_refused_with_their_place(tmp_path: Path, text: Any, words: str) -> None:
    with pytest.raises(AssayError, match=words):
        imported("table", table(tmp_path / "results.csv", text))


def test_a_saved_mapping_serves_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    header, *rows = CSV.splitlines()
    table(tmp_path / "odd.csv", "\n".join([header.replace("faithfulness", "wert"), *rows[:1]]))
    Path("assay.yaml").write_text("project: bot\nmap:\n  id: old\n\nlibrary: .\n")
    words = ["import", "odd.csv", "--no-store", "-o", "runs.jsonl", "--save-map"]
    assert assay([*words, "--map", "id=id,score:value=wert,latency_ms="]) == ExitCode.PASSED
    saved = Path("assay.yaml").read_text()
    assert saved.startswith('project: bot\nmap:\n  id: "id"\n  "score:value": "wert"\n  answer: "o')
    assert saved.endswith('  latency_ms: ""\nlibrary: .\n')
    shown = capsys.readouterr()
    assert "  samples              1\n" in shown.out + shown.err
    assert "theirs" not in shown.out + shown.err
    assert assay(["grade", "odd.csv"]) == ExitCode.PASSED
    assert "columns: id=id, score:value=wert, answer=output" in capsys.readouterr().err
    table(tmp_path / "x.csv", "a,b\n1,2\n")
    assert assay(["grade", "x.csv"]) == ExitCode.MALFORMED
    assert "text with the columns a, b" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["grade", "import"])
def test_a_column_that_was_renamed_is_named_with_the_line_of_the_mapping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("assay.yaml").write_text("map:\n  id: ticket\n  answer: Bot Said\n  score:a: a\n")
    table(tmp_path / "new.csv", "ticket,Bot said,a\n1,x,1\n")
    assert assay([verb, "new.csv"]) == ExitCode.MALFORMED
    said = capsys.readouterr().err
    assert "assay.yaml:3: maps answer to 'Bot Said', which new.csv lacks." in said
    assert "Did you mean 'Bot said'?" in said


def test_saving_a_mapping_does_not_begin_another_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = tmp_path / "results"
    inner.mkdir()
    (tmp_path / ".assay").mkdir()
    monkeypatch.chdir(inner)
    table(inner / "odd.csv", "id,wert\n1,1\n")
    words = ["import", "odd.csv", "--map", "id=id,score:a=wert", "--save-map"]
    assert assay(words) == ExitCode.PASSED
    out, err = capsys.readouterr()
    assert (tmp_path / "assay.yaml").exists()
    assert not (inner / "assay.yaml").exists()
    assert "--save-map writes it" not in out
    assert "wrote ../assay.yaml\n" in err
    assert assay(["import", "odd.csv"]) == ExitCode.PASSED
    assert "--save-map writes it" not in capsys.readouterr().out


def test_an_unknown_table_gets_a_mapping_to_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for text, words in (
        ("id,answer,quality\n1,x,0.5\n", "--map id=id,answer=answer,score:quality=quality."),
        ('{"case_id": 1, "rating": 4}\n', "--map id=case_id,score:rating=rating:0..5. Check"),
        (
            "Ticket No,Helpful?\n1,Y\n",
            "--map 'id=Ticket No,passed=Helpful?'. You can add answer,",
        ),
        ("kind,ticket,stars\nx,t-1,4\nx,t-2,5\n", "--map id=ticket,score:stars=stars:0..5. Check"),
    ):
        table(tmp_path / "home.csv", text)
        assert assay(["grade", "home.csv"]) == ExitCode.MALFORMED
        said = capsys.readouterr().err
        assert words in said
        assert "pydantic-evals" not in said
        assert assay(["grade", "home.csv", *shlex.split(words.partition(". ")[0].rstrip("."))]) in (
            0,
            1,
        )
    rows = "select 't-1' as ticket, 4 as stars union all select 't-2', 5"
    duckdb.sql(rows).write_parquet("home.parquet")
    assert assay(["gate", "home.parquet", "--baseline", "home.parquet"]) == ExitCode.MALFORMED
    said = capsys.readouterr().err
    assert "a Parquet file with the columns ticket, stars." in said
    assert "--map id=ticket,score:stars=stars:0..5. Check" in said
    table(tmp_path / "stars.csv", "id,score\n1,7\n")
    assert assay(["grade", "stars.csv"]) == ExitCode.NOT_ENOUGH
    assert "--map id=id,score:score=score:LOW..HIGH" in capsys.readouterr().err


def test_a_word_that_is_no_verdict_is_shown_as_written(tmp_path: Path) -> None:
    runs, _ = imported("table", table(tmp_path / "a.csv", "id,passed\n1,Y\n2,n\n"))
    assert [run["gates"]["table_passed"]["passed"] for run in runs] == [True, False]
    with pytest.raises(AssayError, match=r"has 'Maybe', which isn't a verdict.* yes, y, 1"):
        imported("table", table(tmp_path / "b.csv", "id,passed\n1,Maybe\n"))
