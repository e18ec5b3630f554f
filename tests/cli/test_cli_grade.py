"""The real command: what it prints, what it writes, and what it answers to input that is wrong in
every way we know.
"""

from __future__ import annotations

import copy
import csv
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.cli.verbs import VERBS
from assay.errors import EXIT_CODES_TEXT
from assay.errors.codes import CODES as CODES
from assay.files.json_files import parse_json
from assay.library import shelf
from documents import FAMILIES, run, scorecard
from examples import repeats
from once import once
from serving import is_running, until

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD = scorecard({"norm": 0.95})
POOR = scorecard({"norm": 0.5}, run_id="r-poor")
COMMAND = [sys.executable, "-m", "assay"]


def text(document: Any) -> str:
    """A document, or text that stands for one, on one line."""
    return document if isinstance(document, str) else json.dumps(document)


def lines(*documents: Any) -> str:
    return "".join(f"{text(document)}\n" for document in documents)


def ids(result: Any) -> list[str]:
    return [graded["run_id"] for graded in result.json()["results"]]


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


# --- exit codes


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_of_every_family_that_passes_exits_0(assay: Any, tmp_path: Path, family: str) -> None:
    (tmp_path / "runs.jsonl").write_text(lines(run(family)))
    done = assay("grade", "runs.jsonl")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("A  100.00  passed  r-1\n")
    assert "workflow@1 · scoringSystem/1.0.0 · gradingSystem/1.0.0" in done.out


def test_one_failure_among_passes_exits_1(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "cards.jsonl").write_text(lines(GOOD, POOR))
    done = assay("grade", "cards.jsonl")
    assert (done.code, done.err) == (1, "")
    assert "A   95.00  passed  r-1\nF   50.00  FAILED  r-poor" in done.out
    assert "2 graded: 1 passed, 1 failed" in done.out


def test_the_lines_of_a_long_result_show_its_failures(assay: Any, tmp_path: Path) -> None:
    made = [{**(POOR if n == 70 else GOOD), "run_id": f"r-{n}"} for n in range(80)]
    (tmp_path / "cards.jsonl").write_text(lines(*made))
    shown = assay("grade", "cards.jsonl").out
    assert (shown.count("  passed  "), shown.count("FAILED  r-70")) == (10, 1)
    assert "... and 69 more; -o grades.jsonl writes them all." in shown


def test_a_failed_gate_exits_1_whatever_the_score(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(text({**GOOD, "hard_gates": {"clean": False}}))
    done = assay("grade", "card.json")
    assert done.code == 1
    assert "F   95.00  FAILED  r-1  gate clean does not pass" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "FILE"),
        (["card.json", "--nonsense"], "--nonsense"),
        (["card.json", "--jobs", "0"], "--jobs"),
        (["card.json", "--jobs", "two"], "--jobs"),
        (["card.json", "-o"], "-o"),
        (["card.json", "-o", "out.pdf"], "'out.pdf'"),
        (["card.json", "-o", "out"], "'out'"),
        (["card.json", "-o", "out.json", "-o", "out.json"], "given twice"),
        (["card.json", "-o", "out.json", "-o", "./out.json"], "given twice"),
        (["card.json", "-o", "folder.json"], "is a directory"),
        (["card.json", "-o", "card.json/out.json"], "cannot be written"),
    ],
    ids=" ".join,
)
def test_a_misused_command_line_exits_2_and_writes_nothing(
    assay: Any, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "card.json").write_text(text(GOOD))
    (tmp_path / "folder.json").mkdir()
    done = assay("grade", *arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert "Traceback" not in done.err
    assert sorted(os.listdir(tmp_path)) == ["card.json", "folder.json"]


@pytest.mark.parametrize(
    "line",
    [
        "grade --json",
        "grade --json card.json --nonsense",
        "grade --json card.json -o out.pdf",
        "grad card.json --json",
    ],
)
def test_with_json_a_misuse_too_is_told_as_json(assay: Any, tmp_path: Path, line: str) -> None:
    (tmp_path / "card.json").write_text(text(GOOD))
    done = assay(*line.split())
    assert (done.code, done.out) == (2, "")
    error = json.loads(done.err)["error"]
    assert list(error) == ["code", "message", "where", "fix"]
    assert error["code"] in CODES


def test_evidence_is_never_overwritten_by_its_own_grades(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(lines(GOOD))
    done = assay("grade", "runs.jsonl", "-o", "./runs.jsonl")
    assert done.code == 2
    assert (tmp_path / "runs.jsonl").read_text() == lines(GOOD)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("runs.jsonl", ""),
        ("runs.jsonl", "\n \n\t\n"),
        ("runs.json", ""),
        ("runs.json", " \n"),
        ("runs.json", "[]"),
    ],
)
def test_nothing_to_grade_exits_4_and_leaves_no_output(
    assay: Any, tmp_path: Path, name: str, data: str
) -> None:
    (tmp_path / name).write_text(data)
    done = assay("grade", name, "-o", "out.json", "--json")
    assert done.code == 4
    assert done.json()["results"] == []
    error = json.loads(done.err)["error"]
    assert (error["code"], error["where"]) == ("FIL-005", name)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("nothing", ["", "\n", "[]"])
def test_an_empty_file_beside_a_good_one_does_not_hide_it_and_never_passes(
    assay: Any, tmp_path: Path, nothing: str
) -> None:
    empty = "a.json" if nothing == "[]" else "a.jsonl"
    (tmp_path / empty).write_text(nothing)
    (tmp_path / "b.jsonl").write_text(lines(GOOD))
    outputs = ("-o", "o.md", "-o", "o.xml", "-o", "o.html", "-o", "o.sarif")
    done = assay("grade", empty, "b.jsonl", "--json", *outputs)
    assert (done.code, ids(done)) == (4, ["r-1"])
    assert json.loads(done.err)["error"]["where"] == empty
    assert [fault["file"] for fault in done.json()["faults"]] == [empty]
    assert done.json()["counts"]["faults"] == 1
    # no file reads as a pass either
    assert (tmp_path / "o.md").read_text().startswith("## Assay: not passed\n")
    assert "Not passed." in (tmp_path / "o.html").read_text()
    assert 'tests="2" failures="0" errors="1"' in (tmp_path / "o.xml").read_text()
    assert len(json.loads((tmp_path / "o.sarif").read_text())["runs"][0]["results"]) == 1


@pytest.mark.parametrize("arguments", [["card.json"], ["card.json", "--json"]])
def test_output_that_cannot_be_printed_never_opens_the_gate(tmp_path: Path, arguments: Any) -> None:
    (tmp_path / "card.json").write_text(text(GOOD))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "grade", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode != 0
    assert b"Traceback" not in done.stderr


def test_a_reader_that_goes_away_never_opens_the_gate(tmp_path: Path) -> None:
    (tmp_path / "cards.jsonl").write_text(
        lines(*(scorecard({"norm": 1}, run_id=f"r-{index}") for index in range(300)))
    )
    with subprocess.Popen(
        [*COMMAND, "grade", "cards.jsonl", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(60) not in (0, 1)
        assert b"Traceback" not in process.stderr.read()


# --- standard output and standard input


def test_json_is_exactly_one_document_and_nothing_else(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "cards.jsonl").write_text(lines(GOOD, POOR, run(run_id="r-run")))
    done = assay("grade", "cards.jsonl", "--json")
    assert (done.code, done.err) == (1, "")
    document = json.loads(done.out)
    assert list(document) == ["schema", "results", "faults", "counts"]
    assert document["schema"] == "assay.grades/1"
    assert [
        (graded["run_id"], graded["grade"], graded["passed"]) for graded in document["results"]
    ] == [
        ("r-1", "A", True),
        ("r-poor", "F", False),
        ("r-run", "A", True),
    ]
    assert document["faults"] == []
    counts = document["counts"]
    assert (
        counts["documents"],
        counts["graded"],
        counts["passed"],
        counts["failed"],
        counts["faults"],
    ) == (3, 3, 2, 1, 0)
    assert counts["grades"] == {"A": 2, "B": 0, "C": 0, "D": 0, "F": 1}
    for carrier in (counts, *document["results"]):
        assert (carrier["policy"], carrier["scoringSystem"], carrier["gradingSystem"]) == (
            "workflow@1",
            "scoringSystem/1.0.0",
            "gradingSystem/1.0.0",
        )


def test_the_same_input_prints_the_same_bytes_twice(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(
        lines(*(run(family, run_id=family) for family in FAMILIES))
    )
    first, second = (
        assay("grade", "runs.jsonl", "--json", env=env) for env in ({}, {"PYTHONHASHSEED": "2"})
    )
    assert first.out == second.out
    assert first.code == second.code == 0


@pytest.mark.parametrize(
    "data",
    [text(GOOD), json.dumps(GOOD, indent=2), lines(GOOD), f"\n{text(GOOD)}\n", f"[{text(GOOD)}]"],
    ids=["one line", "pretty", "line", "blank", "list"],
)
def test_one_document_on_standard_input_is_graded(assay: Any, data: str) -> None:
    done = assay("grade", "-", "--json", stdin=data)
    assert (done.code, ids(done)) == (0, ["r-1"])


def test_lines_on_standard_input_are_graded_and_a_bad_one_has_its_number(assay: Any) -> None:
    done = assay("grade", "-", "--json", stdin=lines(GOOD, POOR))
    assert (done.code, ids(done)) == (1, ["r-1", "r-poor"])
    done = assay("grade", "-", "--json", stdin=lines(GOOD, "", '{"schema"', POOR))
    assert done.code == 3
    assert [(fault["file"], fault["line"]) for fault in done.json()["faults"]] == [("<stdin>", 3)]


def test_a_run_id_cannot_forge_a_line_of_the_result_or_move_the_cursor(
    assay: Any, tmp_path: Path
) -> None:
    forged = "r\nA  100.00  passed  innocent\x1b[1A\x1b[2K\r\x9b2J"
    (tmp_path / "cards.jsonl").write_text(lines({**POOR, "run_id": forged}))
    done = assay("grade", "cards.jsonl")
    assert done.code == 1
    assert not [line for line in done.out.splitlines() if line.startswith("A  100.00  passed")]
    assert not set("\x1b\x9b\r") & set(done.out)


def test_a_key_cannot_forge_a_line_of_the_error_or_move_the_cursor(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "cards.jsonl").write_text(lines({**GOOD, "x\n0 faults\x1b[2K": 1}))
    done = assay("grade", "cards.jsonl")
    assert done.code == 3
    assert "0 faults" not in done.err.splitlines()
    assert "\x1b" not in done.err


# --- bad input


def with_raw(raw: str) -> str:
    """The good scorecard with this text where its raw score stands."""
    made = text(scorecard({"norm": 0.95}, run_id="r-bad"))
    assert made.count("0.95") == 1
    return made.replace("0.95", raw)


STEPS = [
    {"name": name, "status": "success", "agent": "solver", "duration_ms": took}
    for name, took in (("a", "@"), ("b", 5))
]

BAD: list[tuple[str, str | bytes, str, str]] = [
    ("truncated", text(run(run_id="r-bad"))[:-20], "FIL-002", "ends in the middle"),
    ("half a key", '{"sche', "FIL-002", "ends in the middle"),
    ("no JSON", "run_id,grade", "FIL-002", "not JSON"),
    ("a list", "[]", "FIL-006", "must be a JSON object, not a list"),
    ("a number", "5", "FIL-006", "must be a JSON object"),
    ("null", "null", "FIL-006", "must be a JSON object"),
    ("no schema", "{}", "FIL-006", "'schema' is missing"),
    ("an exam", '{"schema": "assay.exam/1"}', "FIL-006", "Gate it with `assay exam gate`"),
    ("an exponent", '{"a": 1e9999999999999999999}', "FIL-002", "out of range"),
    (
        "another schema",
        text({**GOOD, "schema": "assay.scorecard/2"}),
        "FIL-006",
        "Did you mean 'assay.scorecard/1'?",
    ),
    ("a schema that is a list", text({**GOOD, "schema": []}), "FIL-006", "this command can't read"),
    ("a wrong type", text({**GOOD, "run_id": 7}), "GRD-101", "run_id"),
    ("an empty run id", text({**GOOD, "run_id": ""}), "GRD-101", "run_id"),
    ("criteria that are not a list", text({**GOOD, "criteria": {}}), "GRD-101", "criteria"),
    ("no criteria", text({**GOOD, "criteria": []}), "GRD-106", "no criteria"),
    (
        "a gate that is a number",
        text({**GOOD, "hard_gates": {"x": 1}}),
        "GRD-101",
        "true, false or null",
    ),
    (
        "a missing key",
        text({key: value for key, value in GOOD.items() if key != "hard_gates"}),
        "GRD-101",
        "'hard_gates' is missing",
    ),
    (
        "an unknown key",
        text({**GOOD, "pass_treshold": 70}),
        "GRD-101",
        "Did you mean 'pass_threshold'?",
    ),
    (
        "an unknown key inside",
        text(scorecard({"norm": 1, "wieght": 2})),
        "GRD-101",
        "Did you mean 'weight'?",
    ),
    (
        "an unknown key of a run",
        text({**run(), "latncy_ms": 1}),
        "SCO-011",
        "Did you mean 'latency_ms'?",
    ),
    ("an unknown status", text(run(status="sucess")), "SCO-011", "Did you mean 'success'?"),
    (
        "a wrong type in a run",
        text(run(tests={"fail_to_pass": 3})),
        "SCO-011",
        "tests.fail_to_pass",
    ),
    (
        "more passed than there are",
        text(run(tests={"fail_to_pass": {"passed": 3, "total": 2}})),
        "SCO-007",
        "3 passed of 2",
    ),
    ("a negative latency", text(run(latency_ms=-1)), "SCO-001", "below zero"),
    (
        "a negative duration",
        text(run(steps=[{"name": "a", "status": "success", "duration_ms": -1}])),
        "SCO-001",
        "steps[0].duration_ms",
    ),
    (
        "a duration of 1e-310",
        text(run(steps=STEPS)).replace('"@"', "1e-310"),
        "SCO-003",
        "steps[0].duration_ms",
    ),
    ("a duplicate key", text(GOOD)[:-1] + ', "run_id": "r-2"}', "FIL-003", "appears twice"),
    (
        "a duplicate key deep inside",
        text(GOOD).replace('"weight": 1', '"weight": 1, "weight": 2'),
        "FIL-003",
        "appears twice",
    ),
    ("a byte-order mark", b"\xef\xbb\xbf" + text(GOOD).encode(), "FIL-002", "byte-order mark"),
    ("UTF-16", text(GOOD).encode("utf-16-be").replace(b"\n", b""), "FIL-002", "not UTF-8"),
    ("invalid UTF-8", text(GOOD).encode().replace(b"r-1", b"r-\xff"), "FIL-002", "not JSON"),
    ("NUL bytes", b"\x00" * 40, "FIL-002", "not UTF-8"),
    ("a lone surrogate", text(GOOD).replace("r-1", "\\ud800"), "FIL-002", "not JSON"),
    ("1e305", with_raw("1e305"), "SCO-003", "beyond the range"),
    (
        "1e400",
        with_raw("1e400"),
        "FIL-002",
        "criteria[0].raw_scorethe number 1E+400 is out of range",
    ),
    ("a score of 200 digits", with_raw("9" * 200), "SCO-003", "more than 100 digits"),
    ("a score of 5000 digits", with_raw("9" * 5000), "FIL-002", "not JSON"),
    ("NaN", with_raw("NaN"), "FIL-002", "NaN is not a JSON number"),
    ("-Infinity", with_raw("-Infinity"), "FIL-002", "-Infinity is not a JSON number"),
    ("a numeric string", with_raw('"0.95"'), "SCO-003", "string"),
    ("true as a score", with_raw("true"), "SCO-003", "true or false"),
    ("null as a score", with_raw("null"), "GRD-103", "raw score is missing"),
    (
        "a list as level",
        text(
            scorecard(
                {
                    "formula_id": "lower_is_better",
                    "raw_score": 5,
                    "params": {"slo_good": [], "slo_bad": 9},
                }
            )
        ),
        "SCO-005",
        "list",
    ),
    (
        "an unknown formula",
        with_raw("1").replace("zero_one", "zero_on"),
        "SCO-002",
        "Did you mean 'zero_one'?",
    ),
    (
        "a floor read in two ways",
        text(scorecard({"formula_id": "likert_1_5", "raw_score": 4, "critical_floor": 1})),
        "GRD-104",
        "two ways",
    ),
    ("no weight", text(scorecard({"norm": 1, "weight": 0})), "SCO-004", "all weights are zero"),
    (
        "two criteria of one name",
        text(scorecard({"norm": 1, "name": "a"}, {"norm": 1, "name": "a"})),
        "GRD-102",
        "second criterion",
    ),
    (
        "deep nesting",
        text(run()).replace('"why"', "[" * 300 + "]" * 300),
        "FIL-004",
        "nests more than 200 deep",
    ),
    (
        "a family nobody serves",
        text(run(workflow={"id": "w", "version": "1", "family": "code-repiar"})),
        "SCO-010",
        "Did you mean 'code-repair'?",
    ),
    ("no family", text(run(workflow={"id": "w", "version": "1"})), "SCO-010", "names no family"),
    (
        "a path as profile",
        text(run(workflow={"id": "w", "version": "1", "profile": "../evil.yaml"})),
        "LIB-001",
        "not by a path",
    ),
    (
        "an absolute path as rubric",
        text(run(workflow={"id": "w", "version": "1", "family": "rag", "rubric": "/etc/passwd"})),
        "LIB-001",
        "not by a path",
    ),
    (
        "a name with a foreign letter",
        text({**GOOD, "hard_gates": {"schem\u0430_valid": True}}),
        "SCO-013",
        "CYRILLIC",
    ),
]


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("blank", [b"\n", b" \r\n"])
def test_millions_of_blank_lines_cost_no_work_and_count_as_lines(
    assay: Any, tmp_path: Path, blank: bytes, jobs: str
) -> None:
    many = 10_000_000 // len(blank)
    (tmp_path / "blank.jsonl").write_bytes(blank * many)
    done = assay("grade", "blank.jsonl", "--jobs", jobs)
    assert (done.code, "there is nothing to grade" in done.err) == (4, True)
    (tmp_path / "mixed.jsonl").write_bytes(lines(GOOD).encode() + blank * many + b"{x")
    done = assay("grade", "mixed.jsonl", "--jobs", jobs, "--json")
    document = done.json()
    assert (done.code, document["counts"]["documents"]) == (3, 2)
    assert [fault["line"] for fault in document["faults"]] == [many + 2]


def test_a_document_of_countless_faults_lists_the_first(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text({**run(), **{f"k{n}": 1 for n in range(50_000)}}))
    done = assay("grade", "run.json", "--json")
    assert (done.code, done.json()["counts"]["faults"]) == (3, 1001)


@pytest.mark.parametrize(
    ("data", "code", "words"), [pytest.param(*case[1:], id=case[0]) for case in BAD]
)
def test_a_bad_line_fails_the_whole_with_its_file_its_line_and_the_reason(
    assay: Any, tmp_path: Path, data: str | bytes, code: str, words: str
) -> None:
    line = data if isinstance(data, bytes) else data.encode()
    (tmp_path / "mixed.jsonl").write_bytes(
        lines(scorecard({"norm": 1}, run_id="r-first"), "").encode()
        + line
        + b"\n"
        + lines(POOR).encode()
    )
    (tmp_path / "out.json").write_text("old")
    done = assay("grade", "mixed.jsonl", "-o", "out.json", "-o", "out.csv", "--json")
    assert done.code == 3
    assert "Traceback" not in done.err
    document = done.json()
    assert document["results"] == []
    assert document["counts"]["documents"] == 3
    assert [(fault["file"], fault["line"], fault["code"]) for fault in document["faults"]] == [
        ("mixed.jsonl", 3, code)
    ]
    assert words in document["faults"][0]["path"] + document["faults"][0]["message"]
    error = json.loads(done.err)["error"]
    assert list(error) == ["code", "message", "where", "fix"]
    assert (error["code"], error["where"]) == (code, "mixed.jsonl")
    assert "line 3" in error["message"]
    assert (tmp_path / "out.json").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["mixed.jsonl", "out.json"]


@pytest.mark.parametrize(
    "spelled",
    [
        "mine.yaml",
        "./mine.yaml",
        "{folder}/mine.yaml",
        "{folder}/mine",
        "../../mine.yaml",
        "profiles/mine.yaml",
    ],
)
def test_a_run_cannot_make_the_command_open_a_profile_of_its_own(
    assay: Any, tmp_path: Path, spelled: str
) -> None:
    shipped = Path(shelf.__file__).parent / "profiles" / "code-repair@1.yaml"
    (tmp_path / "profiles").mkdir()
    for place in (tmp_path, tmp_path / "profiles"):
        (place / "mine.yaml").write_bytes(shipped.read_bytes())
    named = spelled.format(folder=tmp_path)
    (tmp_path / "runs.jsonl").write_text(
        lines(run(workflow={"id": "w", "version": "1", "profile": named}))
    )
    assert assay("grade", "runs.jsonl", "--profile", "mine.yaml").code == 0, (
        "the person at the command line may"
    )
    done = assay("grade", "runs.jsonl", "--json")
    assert done.code == 3
    assert [(fault["line"], fault["code"]) for fault in done.json()["faults"]] == [(1, "LIB-001")]
    assert "not by a path" in done.json()["faults"][0]["message"]


def test_a_person_is_told_file_line_reason_and_code_and_nothing_on_standard_output(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "mixed.jsonl").write_text(lines(GOOD, {**POOR, "pass_treshold": 70}, "{oops"))
    done = assay("grade", "mixed.jsonl")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("assay: mixed.jsonl: 2 faults\n")
    assert re.search(
        r"^  line 2  pass_treshold: unknown key 'pass_treshold'\. Did you mean 'pass_threshold'\?$",
        done.err,
        re.M,
    )
    assert re.search(
        r"^  line 3 not JSON at column 2: .*\[FIL-002\]$|^  line 3 not JSON at column 2: ",
        done.err,
        re.M,
    )
    assert re.search(r"\[[A-Z]{3}-\d{3}\]$", done.err)


def test_all_faults_of_one_document_are_told_at_once(assay: Any, tmp_path: Path) -> None:
    card = scorecard(
        {"raw_score": 6, "formula_id": "likert_1_5"},
        {"norm": "1"},
        {"norm": 1, "weight": -1},
        pass_threshold=101,
    )
    (tmp_path / "card.jsonl").write_text(lines(card))
    done = assay("grade", "card.jsonl", "--json")
    assert done.code == 3
    assert [fault["path"] for fault in done.json()["faults"]] == [
        "criteria[0].raw_score",
        "criteria[1].raw_score",
        "criteria[2].weight",
        "pass_threshold",
    ]
    assert {fault["line"] for fault in done.json()["faults"]} == {1}


@pytest.mark.parametrize("threshold", ["70", "1e30", "0.5"])
def test_a_fault_in_a_json_file_of_many_lines_names_its_line(
    assay: Any, tmp_path: Path, threshold: str
) -> None:
    pretty = json.dumps({**GOOD, "pass_treshold": "@"}, indent=2).replace('"@"', threshold)
    (tmp_path / "card.json").write_text(pretty)
    done = assay("grade", "card.json", "--json")
    assert done.code == 3
    line = 1 + next(
        index for index, row in enumerate(pretty.splitlines()) if "pass_treshold" in row
    )
    assert [(fault["file"], fault["line"]) for fault in done.json()["faults"]] == [
        ("card.json", line)
    ]


def test_a_truncated_json_file_names_the_line_where_it_ends(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(json.dumps(GOOD, indent=2)[:-3])
    done = assay("grade", "card.json", "--json")
    assert done.code == 3
    assert [(fault["file"], fault["code"]) for fault in done.json()["faults"]] == [
        ("card.json", "FIL-002")
    ]
    assert done.json()["faults"][0]["line"] == json.dumps(GOOD, indent=2)[:-3].count("\n") + 1


def test_a_fault_in_a_list_says_which_element_has_it(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "cards.json").write_text(json.dumps([GOOD, {**POOR, "run_id": 5}], indent=1))
    done = assay("grade", "cards.json", "--json")
    assert done.code == 3
    assert [(fault["file"], fault["path"]) for fault in done.json()["faults"]] == [
        ("cards.json", "[1].run_id")
    ]


def test_a_missing_file_is_named_with_its_near_miss(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(lines(GOOD))
    done = assay("grade", "rnus.jsonl", "-o", "out.json", "--json")
    assert done.code == 3
    assert [(fault["file"], fault["code"]) for fault in done.json()["faults"]] == [
        ("rnus.jsonl", "FIL-001")
    ]
    assert "Did you mean 'runs.jsonl'?" in done.json()["faults"][0]["message"]
    assert os.listdir(tmp_path) == ["runs.jsonl"]


def test_a_directory_is_no_evidence(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").mkdir()
    done = assay("grade", "runs.jsonl", "-o", "out.json")
    assert (done.code, done.out) == (3, "")
    assert "runs.jsonl" in done.err
    assert "is a directory" in done.err
    assert os.listdir(tmp_path) == ["runs.jsonl"]


def test_a_missing_file_fails_the_whole_also_beside_a_good_one(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text(lines(GOOD))
    done = assay("grade", "runs.jsonl", "gone.jsonl", "-o", "out.json", "--json")
    assert (done.code, done.json()["results"]) == (3, [])
    assert os.listdir(tmp_path) == ["runs.jsonl"]


@pytest.mark.parametrize(
    ("option", "wrong", "near"),
    [
        ("--profile", "code-repiar", "code-repair"),
        ("--policy", "worklow", "workflow"),
        ("--rubric", "rga", ""),
        ("--policy", "gone.yaml", ""),
    ],
)
def test_a_name_that_is_not_on_the_shelf_exits_3_with_the_near_miss(
    assay: Any, tmp_path: Path, option: str, wrong: str, near: str
) -> None:
    (tmp_path / "runs.jsonl").write_text(lines(run()))
    done = assay("grade", "runs.jsonl", option, wrong, "-o", "out.json")
    assert (done.code, done.out) == (3, "")
    assert wrong in done.err
    assert f"Did you mean '{near}'?" in done.err or not near
    assert "Traceback" not in done.err
    assert os.listdir(tmp_path) == ["runs.jsonl"]


def test_keep_going_grades_the_rest_and_still_exits_3(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "mixed.jsonl").write_text(
        lines(GOOD, "{oops", scorecard({"norm": 1}, run_id="r-3"), {**POOR, "x": 1})
    )
    done = assay(
        "grade",
        "mixed.jsonl",
        "--keep-going",
        "--json",
        "-o",
        "out.json",
        "-o",
        "out.jsonl",
        "-o",
        "out.csv",
        "-o",
        "out.md",
    )
    assert (done.code, ids(done)) == (3, ["r-1", "r-3"])
    assert [fault["line"] for fault in done.json()["faults"]] == [2, 4]
    assert "The rest was graded." in assay("grade", "mixed.jsonl", "--keep-going").err
    assert json.loads((tmp_path / "out.json").read_text()) == done.json()
    assert [
        json.loads(row)["run_id"] for row in (tmp_path / "out.jsonl").read_text().splitlines()
    ] == ["r-1", "r-3"]
    assert [row["run_id"] for row in csv_rows(tmp_path / "out.csv")] == ["r-1", "r-3"]
    assert "line 2" in (tmp_path / "out.md").read_text()


def test_keep_going_with_nothing_good_writes_nothing(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "mixed.jsonl").write_text(lines("{oops", "[]"))
    done = assay("grade", "mixed.jsonl", "--keep-going", "-o", "out.json", "--json")
    assert (done.code, done.json()["results"]) == (3, [])
    assert "were graded" not in assay("grade", "mixed.jsonl", "--keep-going").err
    assert os.listdir(tmp_path) == ["mixed.jsonl"]


def test_a_run_id_that_comes_twice_in_one_file_is_refused_at_its_second_line(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text(lines(GOOD, POOR, run()))
    done = assay("grade", "runs.jsonl", "-o", "out.json", "--json")
    assert (done.code, done.json()["results"]) == (3, [])
    assert [(fault["file"], fault["line"], fault["code"]) for fault in done.json()["faults"]] == [
        ("runs.jsonl", 3, "FIL-007")
    ]
    assert "'r-1'" in done.json()["faults"][0]["message"]
    assert os.listdir(tmp_path) == ["runs.jsonl"]


def test_a_run_id_that_comes_twice_over_two_files_is_refused_in_the_second(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(lines(POOR, GOOD))
    (tmp_path / "b.json").write_text(text(GOOD))
    done = assay("grade", "a.jsonl", "b.json", "--json")
    assert (done.code, done.json()["results"]) == (3, [])
    assert [(fault["file"], fault["code"]) for fault in done.json()["faults"]] == [
        ("b.json", "FIL-007")
    ]
    assert assay("grade", "a.jsonl", "a.jsonl").code == 3


def test_keep_going_grades_the_first_of_two_runs_with_one_id_and_still_exits_3(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text(
        lines(
            scorecard({"norm": 0.5}), scorecard({"norm": 1}), scorecard({"norm": 1}, run_id="r-2")
        )
    )
    done = assay("grade", "runs.jsonl", "--keep-going", "--json")
    assert done.code == 3
    assert [(graded["run_id"], graded["weighted_score"]) for graded in done.json()["results"]] == [
        ("r-1", 50.0),
        ("r-2", 100.0),
    ]
    assert [fault["line"] for fault in done.json()["faults"]] == [2]


def test_a_file_that_gives_nothing_keeps_the_others_from_passing(
    assay: Any, tmp_path: Path
) -> None:
    good = json.dumps(scorecard({"formula_id": "zero_one", "raw_score": 1}))
    (tmp_path / "good.jsonl").write_text(good + "\n")
    (tmp_path / "blank.jsonl").write_text("\n" * 300)
    (tmp_path / "list.json").write_text(f"[{' ' * 300}]")
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert assay("grade", "good.jsonl").code == 0
    for name in ("blank.jsonl", "list.json", "-"):
        refused = assay("grade", "good.jsonl", name)
        assert (refused.code, "the file is empty" in refused.err) == (4, True), refused.err
    writer = threading.Thread(target=(tmp_path / "pipe.jsonl").write_bytes, args=(b"",))
    writer.start()
    refused = assay("grade", "good.jsonl", "pipe.jsonl")
    writer.join()
    assert (refused.code, "pipe.jsonl: the file is empty" in refused.err) == (4, True), refused.err


def test_a_fault_of_many_lines_is_shown_once_and_a_key_is_sent_to_its_place(
    assay: Any, tmp_path: Path
) -> None:
    lines = []
    for number in range(9):
        made = run(run_id=f"r-{number}")
        made["sample_id"] = made["dataset"].pop("sample_id")
        lines.append(json.dumps(made))
    lines[4] = json.dumps({**run(run_id="r-4"), "colour": 1})
    (tmp_path / "runs.jsonl").write_text("\n".join(lines))
    refused = assay("grade", "runs.jsonl")
    assert (refused.code, refused.err.splitlines()) == (
        3,
        [
            "assay: runs.jsonl: 17 faults",
            "  line 1  dataset: the key 'sample_id' is missing. (and in 7 more places)",
            (
                "  line 1  sample_id: unknown key 'sample_id'. It belongs in `dataset`. (and in 7 more"
                " places)"
            ),
            "  line 5  colour: unknown key 'colour'. [SCO-011]",
        ],
    )


def test_with_a_thousand_faults_all_are_counted_and_a_few_are_shown(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "runs.jsonl").write_text("{oops\n" * 1000)
    done = assay("grade", "runs.jsonl", "--json")
    assert done.code == 3
    assert done.json()["counts"]["faults"] == 1000
    assert 0 < len(done.json()["faults"]) <= 1000
    refused = assay("grade", "runs.jsonl")
    assert refused.code == 3
    assert len(refused.err.splitlines()) < 50
    assert re.search(r"1,?000 faults|980 more", refused.err)


def test_an_answer_does_not_depend_on_what_is_printed(assay: Any, tmp_path: Path) -> None:
    """Counts of 300 digits are numbers; whether they are graded may not depend on the format asked
    for.
    """
    (tmp_path / "card.json").write_text(
        text(scorecard({"formula_id": "ratio", "raw_score": "?"})).replace(
            '"?"', '{"passed": 1, "total": 1e300}'
        )
    )
    codes = {
        assay("grade", "card.json", *arguments).code
        for arguments in ([], ["--json"], ["-o", "out.jsonl"])
    }
    assert len(codes) == 1


VALUES = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "0.5",
    "5",
    "1e400",
    "-1e400",
    "1e-400",
    "1e300",
    "99999999999999999999999999",
    "9" * 120,
    '""',
    '"x"',
    '"0.5"',
    '"=1+1"',
    '"\\u0000"',
    '"\\ud83d\\ude00"',
    '"a\\nb|c"',
    '"likert_1_5"',
    '"ratio"',
    '"lower_is_better"',
    '"pairwise"',
    '"code-repair"',
    '"correctness"',
    "[]",
    "[[]]",
    "[null]",
    '["a", "b"]',
    "{}",
    '{"a": 1}',
    '{"raw": 1}',
    '{"norm": 0.5}',
    '{"raw": null}',
    '{"passed": true}',
    '{"$ref": "#"}',
    '{"type": 5}',
    '{"wins": 1, "losses": 0, "ties": 0}',
    '{"passed": 1, "total": 0}',
    '{"slo_good": [1], "slo_bad": 2}',
    '{"slo_good": 1, "slo_bad": 2}',
    '{"value": {"norm": 0.1}, "reason": "x"}',
]
KEYS = [
    "critical_floor",
    "floor_override",
    "role",
    "layer",
    "n",
    "label",
    "source",
    "missing",
    "params",
    "pass_threshold",
    "judge",
    "gates",
    "scores",
    "tests",
    "claims",
    "retrieval",
    "tool_calls",
    "handoffs",
    "handoff_rules",
    "output_schema",
    "outputs",
    "inputs",
    "latency_ms",
    "cost_usd",
    "tokens",
    "retries",
    "group",
    "tags",
    "step_scores",
    "gate_reasons",
    "notes",
    "profile",
    "rubric",
    "duration_ms",
    "metadata",
    "expected",
    "attempt",
    "digests",
]


def mutants(count: int, seed: int) -> list[str]:
    """Good documents with one to three places changed to something that may not belong there."""
    random_ = random.Random(seed)
    bases = [run(family) for family in FAMILIES]
    bases.append(
        scorecard(
            {"norm": 0.9, "n": 3, "critical_floor": {"norm": 0.5}},
            {"raw_score": 4, "formula_id": "likert_1_5", "role": "correctness"},
            {
                "raw_score": 12,
                "formula_id": "lower_is_better",
                "params": {"slo_good": 8, "slo_bad": 30},
            },
            {"raw_score": {"passed": 1, "total": 2}, "formula_id": "ratio"},
            {"raw_score": {"wins": 1, "losses": 2, "ties": 3}, "formula_id": "pairwise"},
            hard_gates={"x": True, "y": None},
        )
    )
    made = []
    for index in range(count):
        tree = copy.deepcopy(random_.choice(bases))
        tree["run_id"] = f"r-{index}"
        for _ in range(random_.choice((1, 1, 2, 3))):
            spots = list(_spots(tree))
            node, key = random_.choice(spots)
            # a marker, so that numbers such as 1e400 reach the command as they are written
            value = f"@@{random_.randrange(len(VALUES))}@@"
            if isinstance(node[key], dict) and random_.random() < 0.5:
                node[key][random_.choice(KEYS)] = value
            elif isinstance(node, dict) and random_.random() < 0.1:
                del node[key]
            else:
                node[key] = value
        made.append(re.sub(r'"@@(\d+)@@"', lambda match: VALUES[int(match[1])], json.dumps(tree)))
    return made


def _spots(tree: Any) -> Any:
    for key in (
        list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    ):
        yield tree, key
        yield from _spots(tree[key])


@pytest.mark.parametrize("seed", range(1, repeats(2, 9)))
def test_no_document_however_mutated_is_a_fault_of_ours(
    assay: Any, tmp_path: Path, seed: int
) -> None:
    made = mutants(repeats(400, 1500), seed)
    (tmp_path / "mutants.jsonl").write_text("".join(f"{line}\n" for line in made))
    done = assay(
        "grade", "mutants.jsonl", "--keep-going", "--json", "-o", "out.csv", "-o", "out.md"
    )
    assert done.code == 3, done.err[:2000]
    document = parse_json(done.out.encode())
    assert document["counts"]["documents"] == len(made)
    assert len(made) // 8 < len(document["results"]) < len(made) * 7 // 8, (
        "the mutants must be of both kinds, or this proves little"
    )
    assert all(
        fault["line"] is not None and fault["code"] in CODES and fault["message"]
        for fault in document["faults"]
    )
    assert len(csv_rows(tmp_path / "out.csv")) == len(document["results"])


# --- outputs


def test_every_format_holds_the_same_results(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "cards.jsonl").write_text(lines(GOOD, POOR, run(run_id="r-run")))
    done = assay(
        "grade",
        "cards.jsonl",
        "--json",
        "-o",
        "o/out.json",
        "-o",
        "o/out.jsonl",
        "-o",
        "o/out.csv",
        "-o",
        "o/out.md",
    )
    assert (done.code, done.err) == (1, "")
    document = done.json()
    folder = tmp_path / "o"
    assert sorted(os.listdir(folder)) == ["out.csv", "out.json", "out.jsonl", "out.md"]
    assert (folder / "out.json").read_text() == done.out
    assert [json.loads(row) for row in (folder / "out.jsonl").read_text().splitlines()] == document[
        "results"
    ]
    rows = csv_rows(folder / "out.csv")
    for row, result in zip(rows, document["results"], strict=True):
        assert row["run_id"] == result["run_id"]
        assert row["passed"] == str(result["passed"]).lower()
        assert (row["grade"], float(row["weighted_score"]), row["reason"]) == (
            result["grade"],
            result["weighted_score"],
            result["reason"],
        )
        assert (row["policy"], row["scoringSystem"], row["gradingSystem"]) == (
            result["policy"],
            result["scoringSystem"],
            result["gradingSystem"],
        )
    table = markdown_rows((folder / "out.md").read_text())
    assert [row[:3] for row in table] == [["`r-poor`", "F", "50.00"]], "a comment lists failures"


def test_without_results_in_json_the_terminal_says_what_was_written(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "cards.jsonl").write_text(lines(GOOD))
    done = assay("grade", "cards.jsonl", "-o", "out.json", "-o", "out.csv")
    assert (done.code, done.err) == (0, "wrote out.json\nwrote out.csv\n")


def test_a_cell_that_a_spreadsheet_would_run_is_made_text(assay: Any, tmp_path: Path) -> None:
    hostile = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", '=HYPERLINK("http://x","y")']
    (tmp_path / "cards.jsonl").write_text(
        lines(
            *(
                scorecard({"norm": 1}, run_id=f"{sign}", group=sign, sample_id=sign)
                for sign in hostile
            )
        )
    )
    assert assay("grade", "cards.jsonl", "-o", "out.csv").code == 0
    rows = csv_rows(tmp_path / "out.csv")
    assert [(row["run_id"], row["group"], row["sample_id"]) for row in rows] == [
        (f"'{sign}",) * 3 for sign in hostile
    ]


def test_quotes_commas_and_line_ends_stay_inside_their_csv_cell(assay: Any, tmp_path: Path) -> None:
    odd = ['a,b"c', "line\nend", "line\r\nend", "semi;colon", "é😀", "\x00nul"]
    (tmp_path / "cards.jsonl").write_text(
        lines(*(scorecard({"norm": 1}, run_id=sign) for sign in odd))
    )
    assert assay("grade", "cards.jsonl", "-o", "out.csv").code == 0
    assert [row["run_id"] for row in csv_rows(tmp_path / "out.csv")] == odd


def markdown_rows(page: str) -> list[list[str]]:
    """The cells of the rows of a Markdown table; test_markdown.py reads them with a real
    renderer.
    """
    rows = [line for line in page.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.findall(r"((?:\\.|[^|\\])*)\|", row[1:])] for row in rows]


# --- many lines, many processes

PAD = "x" * 12_000


def big_cards(count: int) -> list[str]:
    """Scorecards with a long note, so that few of them make a large file."""
    made = [text(scorecard({"norm": norm / 100}, run_id="@", notes=[PAD])) for norm in range(101)]
    return [made[index % 101].replace('"@"', f'"r-{index}"', 1) for index in range(count)]


def test_the_answer_does_not_depend_on_the_number_of_processes(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "big.jsonl").write_text(lines(*big_cards(400)))
    assert (tmp_path / "big.jsonl").stat().st_size > 4 * 1024**2
    said = []
    for jobs in (1, 2):
        names = [f"out.{jobs}{extension}" for extension in (".json", ".jsonl", ".csv", ".md")]
        done = assay(
            "grade",
            "big.jsonl",
            "--jobs",
            jobs,
            "--json",
            *(part for name in names for part in ("-o", name)),
        )
        assert (done.code, done.err) == (1, "")
        said.append([done.out.encode(), *((tmp_path / name).read_bytes() for name in names)])
    assert said[0] == said[1]
    assert ids_of(said[0][0]) == [f"r-{index}" for index in range(400)]


def ids_of(data: bytes) -> list[str]:
    return [graded["run_id"] for graded in json.loads(data)["results"]]


def test_a_bad_line_deep_inside_is_reported_at_its_line_by_any_number_of_processes(
    assay: Any, tmp_path: Path
) -> None:
    cards = big_cards(400)
    cards[303] = '{"schema": "assay.scorecard/1", "run_id": '
    cards[304] = ""
    cards[370] = cards[7]  # the same run id, many blocks later
    (tmp_path / "big.jsonl").write_text(lines(*cards))
    one, two = (
        assay("grade", "big.jsonl", "--jobs", jobs, "-o", "out.json", "--json") for jobs in (1, 2)
    )
    assert one.code == two.code == 3
    assert [(fault["line"], fault["code"]) for fault in two.json()["faults"]] == [
        (304, "FIL-002"),
        (371, "FIL-007"),
    ]
    assert (one.out, one.err) == (two.out, two.err)
    assert os.listdir(tmp_path) == ["big.jsonl"]
    kept = [
        assay("grade", "big.jsonl", "--jobs", jobs, "--keep-going", "--json") for jobs in (1, 2)
    ]
    assert kept[0].code == kept[1].code == 3
    assert kept[0].out == kept[1].out
    assert len(ids(kept[1])) == 397


def workers_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


needs_proc = pytest.mark.skipif(
    not os.path.exists(f"/proc/self/task/{os.getpid()}/children"),
    reason="looks for worker processes where Linux shows them",
)


@contextmanager
def half_way(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command over a large file with two workers, as far as having written a part of its
    output; in the end nothing of it is left running.
    """

    def make(place: Path) -> None:
        (place / "big.jsonl").write_text(lines(*big_cards(6000)))

    os.link(once("half-way", make) / "big.jsonl", folder / "big.jsonl")
    command = [*COMMAND, "grade", "big.jsonl", "--jobs", "2", "-o", "out.json"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            parts = ".out.json.*.part"
            until(lambda: any(part.stat().st_size for part in folder.glob(parts)), pause_s=0.01)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@needs_proc
def test_killed_half_way_it_leaves_no_output_and_no_process(tmp_path: Path) -> None:
    with half_way(tmp_path) as process:
        workers = workers_of(process.pid)
        assert len(workers) == 2, "large files are graded by worker processes"
        process.kill()
        assert process.wait(30) == -signal.SIGKILL
        assert not (tmp_path / "out.json").exists()
        until(lambda: not any(map(is_running, workers)))


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_half_way_it_says_so_in_one_line_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    with half_way(tmp_path) as process:
        workers = workers_of(process.pid)
        os.killpg(process.pid, number)  # as a terminal does: to the command and its workers
        out, err = process.communicate(timeout=120)
        assert process.returncode not in (0, 1)
        assert out == b""
        assert os.listdir(tmp_path) == ["big.jsonl"]
        assert err.decode().split() == ["assay:", "interrupted;", "nothing", "was", "written."]
        until(lambda: not any(map(is_running, workers)))


@needs_proc
def test_a_worker_that_dies_ends_the_command_without_a_pass_instead_of_hanging_it(
    tmp_path: Path,
) -> None:
    with half_way(tmp_path) as process:
        os.kill(
            workers_of(process.pid)[0], signal.SIGKILL
        )  # as the kernel does when memory runs out
        until(lambda: process.poll() is not None)
        assert process.returncode not in (0, 1)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
        assert os.listdir(tmp_path) == ["big.jsonl"]


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.campaign)])
def test_an_endless_line_is_refused_in_little_memory(tmp_path: Path, jobs: int) -> None:
    path = tmp_path / "big.jsonl"
    path.write_text(lines(GOOD))
    os.truncate(path, 600 * 1024**2)  # a hole in the file: zeros that take no room
    # a process between, because a child's peak begins at that of the process it was forked from,
    # and this one may be large by now
    between = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], capture_output=True)\n"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print(json.dumps([done.returncode, peak, json.loads(done.stdout)]))\n"
    )
    command = [
        sys.executable,
        "-c",
        between,
        *COMMAND,
        "grade",
        "big.jsonl",
        "--jobs",
        str(jobs),
        "--json",
    ]
    code, peak, document = json.loads(
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
    )
    assert code == 3
    assert [(fault["line"], fault["code"]) for fault in document["faults"]] == [(2, "FIL-004")]
    assert peak < 400 * 1024, "the rest of the line was read"


# --- help and colour


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_has_an_example_and_the_exit_codes(assay: Any, verb: str) -> None:
    done = assay(verb, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"assay {verb}" in done.out
    assert re.search(rf"^example: assay {verb}\b", done.out, re.M)
    assert EXIT_CODES_TEXT in " ".join(done.out.split())


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]])
def test_the_help_lists_every_verb_with_an_example_and_the_exit_codes(
    assay: Any, arguments: Any
) -> None:
    done = assay(*arguments)
    assert (done.code, done.err) == (0, "")
    assert all(re.search(rf"^  {verb} ", done.out, re.M) for verb in VERBS)
    assert "example: assay " in done.out
    assert EXIT_CODES_TEXT in done.out


def test_no_verb_at_all_is_a_misuse_that_shows_the_help(assay: Any) -> None:
    done = assay()
    assert (done.code, done.out) == (2, "")
    assert "usage: assay VERB" in done.err


@pytest.mark.parametrize(
    ("wrong", "near"), [("grad", "grade"), ("explian", "explain"), ("verions", "versions")]
)
def test_an_unknown_verb_is_a_misuse_with_its_near_miss(assay: Any, wrong: str, near: str) -> None:
    done = assay(wrong, "x.json")
    assert (done.code, done.out) == (2, "")
    assert f"there is no verb '{wrong}'. Did you mean '{near}'?" in done.err


def on_a_terminal(folder: Path, env: dict[str, str]) -> bytes:
    """What the command prints when standard output is a terminal."""
    ours, theirs = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CI")}
    with subprocess.Popen(
        [*COMMAND, "grade", "cards.jsonl"],
        cwd=folder,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**inherited, **env},
    ) as process:
        os.close(theirs)
        said = b""
        try:
            while block := os.read(ours, 65536):
                said += block
        except OSError:  # how Linux says that the other side is closed
            pass
        process.wait(30)
    os.close(ours)
    return said


def test_colour_is_for_terminals_and_no_color_and_ci_turn_it_off(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "cards.jsonl").write_text(lines(GOOD, POOR))
    shown = on_a_terminal(tmp_path, {"TERM": "xterm"})
    assert "\x1b[32m✓ passed".encode() in shown
    assert b"Verdict" in shown  # a table, with a head
    for env in ({"NO_COLOR": "1"}, {"CI": "true"}):
        said = on_a_terminal(tmp_path, {"TERM": "xterm", **env})
        assert b"95.00" in said
        assert b"r-1" in said
        assert b"\x1b" not in said
    piped = assay("grade", "cards.jsonl", env={"NO_COLOR": ""})
    assert "A   95.00  passed  r-1" in piped.out
    assert "\x1b" not in piped.out


def test_the_run_to_explain_is_the_worst(assay: Any, tmp_path: Path) -> None:
    runs = [run("rag", run_id=name) for name in ("bad", "worse", "good")]
    runs[0]["status"] = runs[1]["status"] = "failed"
    runs[1]["scores"] = {}
    lines = "\n".join(json.dumps(one, default=float) for one in runs)
    (tmp_path / "runs.jsonl").write_text(lines)
    done = assay("grade", "runs.jsonl", "--json")
    scores = {one["run_id"]: one["weighted_score"] for one in json.loads(done.out)["results"]}
    assert scores["worse"] < scores["bad"] <= scores["good"]
    assert "assay explain runs.jsonl --run worse  # why" in assay("grade", "runs.jsonl").out
