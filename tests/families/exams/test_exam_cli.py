"""`assay exam` from the outside: the shipped exam, its files and answers, the tutors that are
asked, and what a hostile file may not do.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

import assay as package
from assay.families.exams.marking import Marking
from assay.families.exams.records import ExamResult
from assay.families.exams.results import outcomes_of
from assay.families.exams.views import bar, raw_bar
from assay.library.shelf import Shelf
from assay.records.schemas import schema_faults
from examples import repeats
from serving import is_running, until

EXAMS = Path(package.__file__).parent / "cli" / "examples" / "exams"
RIGHT = {"correction": "She ate.", "gloss": "comió", "explanation": "Irregular."}


def item(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "prompt": f"Conjugate 'eat', {name}.",
        "expected_contains": ["ate"],
        "gloss_contains": ["comió"],
        **changes,
    }


def write_exam(
    folder: Path, *items: dict[str, Any], name: str = "exam.yaml", **changes: Any
) -> str:
    tree = {
        "exam": "x",
        "version": 1,
        "rubric": "tutor@1",
        "set": "capstone",
        "items": list(items),
        **changes,
    }
    (folder / name).write_text(yaml.safe_dump(tree, allow_unicode=True, sort_keys=False))
    return name


def write_answers(folder: Path, *answers: Any, name: str = "answers.jsonl") -> str:
    (folder / name).write_text(
        "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in answers)
    )
    return name


def answer(name: str, response: Any = None, **changes: Any) -> dict[str, Any]:
    return {"item": name, "response": RIGHT if response is None else response, **changes}


# --- the exam that is shipped


@pytest.mark.req("C-014")
def test_the_shipped_exam_is_large_enough_clean_and_graded(assay: Any) -> None:
    items = [
        one
        for name in ("verbs.yaml", "verbs-extra.yaml")
        for one in yaml.safe_load((EXAMS / name).read_text())["items"]
    ]
    assert len(items) >= 60
    assert len({one["verb"] for one in items}) >= 20
    assert len({one["tense"] for one in items}) >= 6
    assert assay("exam", "lint", EXAMS / "verbs.yaml", EXAMS / "verbs-extra.yaml").code == 0
    assert assay("exam", "lint", EXAMS / "regression.yaml").code == 0
    done = assay(
        "exam",
        "grade",
        EXAMS / "verbs.yaml",
        EXAMS / "verbs-extra.yaml",
        "--answers",
        EXAMS / "answers.jsonl",
        "--json",
        "-o",
        "result.json",
    )
    found = done.json()
    assert (done.code, found["score"], found["n"], found["missing"]) == (0, 0.948648649, 74, [])
    assert found["diagnosis"][1] == "spanish_gloss lost 0.25 on 6 of 74 items; all past-simple"
    assert found["latency"] == {"p50_ms": 242, "n": 74}
    assert list(schema_faults(ExamResult, found)) == []
    for key in (
        "schema",
        "rubric",
        "score",
        "n",
        "missing",
        "items",
        "axes",
        "patterns",
        "diagnosis",
        "latency",
        "scoringSystem",
        "gradingSystem",
    ):
        assert key in found
    gate = assay("exam", "gate", "result.json", "--json")
    assert (gate.code, gate.json()["target"]["holds"]) == (0, False)


def test_the_same_command_twice_gives_the_same_bytes(assay: Any) -> None:
    command = (
        "exam",
        "grade",
        EXAMS / "regression.yaml",
        "--answers",
        EXAMS / "regression-answers.jsonl",
    )
    assert assay(*command, "--json").out == assay(*command, "--json").out
    assert assay(*command).out == assay(*command).out


@pytest.mark.req("X-94")
def test_the_terminal_shows_a_stacked_bar_for_each_item(assay: Any) -> None:
    done = assay(
        "exam",
        "grade",
        EXAMS / "verbs.yaml",
        EXAMS / "verbs-extra.yaml",
        "--answers",
        EXAMS / "answers.jsonl",
    )
    lines = done.out.splitlines()
    assert any(line.startswith("v-01-01  ████████████▓▓▓▓▓▒▒░  1") for line in lines)
    assert any(
        line.startswith("v-01-10  ████████████▒▒░·····  0.75  -0.25 spanish_gloss")
        for line in lines
    )
    marking = Marking(Shelf().rubric_of("exam", "tutor@1"))
    outcomes = outcomes_of(marking)
    assert raw_bar(outcomes[11].breakdown) == "█████▒▒▒▒▒░░░░░·····"
    assert [len(bar(one.weighted)) for one in outcomes] == [20] * 16


@pytest.mark.req("C-020")
def test_breaking_the_case_step_closes_the_gate(assay: Any) -> None:
    files = (EXAMS / "verbs.yaml", EXAMS / "verbs-extra.yaml", "--answers", EXAMS / "answers.jsonl")
    found = assay("exam", "grade", *files, "--break", "case-fold", "--json").json()
    cascade = found["broken"][0]
    assert (cascade["hard_gate"]["before"], cascade["hard_gate"]["after"]) == (True, False)
    assert len(cascade["false_negatives"]) == 56
    every = assay("exam", "break", *files, "--json").json()["steps"]
    assert [one["step"] for one in every] == ["nfc", "strip", "case-fold", "trailing-period"]
    assert all(one["false_negatives"] and not one["false_positives"] for one in every)
    assert assay("exam", "break", *files, "--step", "lower").code == 0
    wrong = assay("exam", "break", *files, "--step", "casefolt")
    assert wrong.code == 2
    assert "Did you mean 'casefold'" in wrong.err


# --- files


@pytest.mark.req("X-92", "C-014")
def test_a_second_file_is_concatenated_and_one_that_lies_beside_is_pointed_out(
    assay: Any, tmp_path: Path
) -> None:
    write_exam(tmp_path, item("a"), item("b"), name="x.yaml")
    write_exam(tmp_path, item("c"), name="x-extra.yaml")
    write_answers(tmp_path, answer("a"), answer("b"))
    found = assay(
        "exam", "grade", "x.yaml", "x-extra.yaml", "--answers", "answers.jsonl", "--json"
    ).json()
    assert (found["n"], found["score"], found["missing"], found["notes"]) == (
        3,
        0.666666667,
        ["c"],
        [],
    )
    alone = assay("exam", "grade", "x.yaml", "--answers", "answers.jsonl", "--json")
    assert (alone.json()["score"], "x-extra.yaml is next to" in alone.json()["notes"][0]) == (
        1.0,
        True,
    )
    assert "x-extra.yaml" in alone.err


@pytest.mark.req("X-82")
def test_expected_is_another_name_for_expected_contains(assay: Any, tmp_path: Path) -> None:
    one = item("a")
    one["expected"] = one.pop("expected_contains")
    write_exam(tmp_path, one)
    write_answers(tmp_path, answer("a"))
    assert assay("exam", "grade", "exam.yaml", "--answers", "answers.jsonl", "--json").json()[
        "items"
    ][0]["expected"] == ["ate"]


def test_answers_in_a_spreadsheet_get_the_marks_of_the_same_answers_in_json(
    assay: Any, tmp_path: Path
) -> None:
    write_exam(tmp_path, item("a"), item("b"), item("c"))

    def graded(name: str, *lines: Any) -> Any:
        write_answers(tmp_path, *lines, name=name)
        return assay("exam", "grade", "exam.yaml", "--answers", name, "--json")

    fields = ",".join(RIGHT)
    right = ",".join(f'"{value}"' for value in RIGHT.values())
    by_field = graded(
        "f.csv", f"item,{fields},latency_ms", f"a,{right},12.5", "b,,,,", f"c,{right},"
    )
    whole = graded(
        "w.jsonl", answer("a", latency_ms=12.5), {"item": "b", "response": None}, answer("c")
    )
    assert by_field.json() == whole.json()
    text = graded("t.csv", "item,response", "a,ate", "b,")
    plain = graded("t.jsonl", answer("a", "ate"), {"item": "b", "response": None})
    assert text.json() == plain.json()
    assert plain.json()["missing"] == ["b", "c"]
    for row, words in (
        ("a,x,NaN", "must be a number of milliseconds"),
        ("d,x,1", "no item 'd'"),
        ("a,x,1\na,y,1", "answered twice"),
    ):
        refused = graded("bad.csv", "item,response,latency_ms", row)
        assert (refused.code, words in refused.err) == (3, True), refused.err
    assert graded("more.csv", "item,response,note", "a,ate,hm").code == 3


FAULTS: list[tuple[str, str, int, str]] = [
    (
        "duplicate ids",
        (
            "items: [{id: a, prompt: p, expected_contains: [x], gloss_contains: [y]}, {id: a,"
            " prompt: q, expected_contains: [x], gloss_contains: [y]}]"
        ),
        3,
        "EXM-002",
    ),
    (
        "an empty list",
        "items: [{id: a, prompt: p, expected_contains: [], gloss_contains: [y]}]",
        3,
        "EXM-003",
    ),
    ("no expectation", "items: [{id: a, prompt: p, gloss_contains: [y]}]", 3, "EXM-003"),
    ("no gloss", "items: [{id: a, prompt: p, expected_contains: [x]}]", 3, "EXM-001"),
    (
        "an empty gloss",
        "items: [{id: a, prompt: p, expected_contains: [x], gloss_contains: []}]",
        3,
        "EXM-003",
    ),
    (
        "an entry that is always found",
        "items: [{id: a, prompt: p, expected_contains: [' . '], gloss_contains: [y]}]",
        3,
        "EXM-003",
    ),
    (
        "both names",
        "items: [{id: a, prompt: p, expected: [x], expected_contains: [x], gloss_contains: [y]}]",
        3,
        "EXM-001",
    ),
    (
        "a number for an id",
        "items: [{id: 1, prompt: p, expected_contains: [x], gloss_contains: [y]}]",
        3,
        "EXM-001",
    ),
    (
        "an id in another script",
        "items: [{id: е-1, prompt: p, expected_contains: [x], gloss_contains: [y]}]",
        3,
        "EXM-001",
    ),
    (
        "an unknown match",
        "items: [{id: a, prompt: p, expected_contains: [x], gloss_contains: [y], match: fuzzy}]",
        3,
        "EXM-001",
    ),
    (
        "an unknown key",
        "items: [{id: a, prompt: p, expected_contians: [x], gloss_contains: [y]}]",
        3,
        "EXM-001",
    ),
    (
        "a schema that is none",
        (
            "answer_schema: {type: nonsense}\nitems: [{id: a, prompt: p, expected_contains: [x],"
            " gloss_contains: [y]}]"
        ),
        3,
        "EXM-001",
    ),
    (
        "a schema from the network",
        (
            "answer_schema: {$ref: 'http://x.example/s'}\nitems: [{id: a, prompt: p,"
            " expected_contains: [x], gloss_contains: [y]}]"
        ),
        3,
        "EXM-001",
    ),
    (
        "a set that is none",
        "set: final\nitems: [{id: a, prompt: p, expected_contains: [x], gloss_contains: [y]}]",
        3,
        "EXM-001",
    ),
    ("no items", "items: []", 4, "EXM-004"),
    ("an alias", "items: &a [*a]", 3, "FIL-002"),
    ("a tag", "items: !!python/object/apply:os.system ['true']", 3, "FIL-002"),
    ("a key twice", "exam: y\nitems: []", 3, "FIL-003"),
    ("a deep nest", "items: " + "[" * 200, 3, "FIL-004"),
    ("no YAML", "items: [", 3, "FIL-002"),
    (
        "a rubric that is none",
        "rubric: tutro@1\nitems: [{id: a, prompt: p, expected_contains: [x], gloss_contains: [y]}]",
        3,
        "LIB-001",
    ),
    (
        "a rubric of another family",
        "rubric: rag@1\nitems: [{id: a, prompt: p, expected_contains: [x], gloss_contains: [y]}]",
        3,
        "LIB-005",
    ),
]


@pytest.mark.req("X-87", "X-93")
@pytest.mark.parametrize(
    ("text", "code", "error"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_an_exam_that_is_at_fault_is_refused(
    text: str, code: int, error: str, assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "exam.yaml").write_text(f"exam: x\n{text}\n")
    write_answers(tmp_path, answer("a"))
    done = assay("exam", "grade", "exam.yaml", "--answers", "answers.jsonl", "--json")
    assert (done.code, json.loads(done.err)["error"]["code"], done.out) == (code, error, "")


def test_every_fault_of_an_exam_is_told_at_once_with_its_line(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "exam.yaml").write_text(
        "exam: x\nitems:\n"
        "  - id: a\n    prompt: p\n    expected_contains: []\n    gloss_contains: [y]\n"
        "  - id: a\n    prompt: p\n    expected_contains: [x]\n    gloss_contains: ['.']\n"
    )
    done = assay("exam", "grade", "exam.yaml", "--answers", "-")
    assert done.code == 3
    assert [line.split()[1] for line in done.err.splitlines()[1:4]] == ["5", "7", "10"]


def test_two_files_that_contradict_each_other_are_refused(assay: Any, tmp_path: Path) -> None:
    write_exam(tmp_path, item("a"), name="a.yaml")
    write_exam(tmp_path, item("b"), name="b.yaml", set="regression")
    done = assay("exam", "grade", "a.yaml", "b.yaml", "--answers", "-", "--json")
    assert (done.code, json.loads(done.err)["error"]["code"]) == (3, "EXM-005")
    write_exam(tmp_path, item("b"), name="b.yaml", pass_score=0)
    done = assay("exam", "grade", "a.yaml", "b.yaml", "--answers", "-")
    assert "'pass_score' is 0 here and absent in a.yaml" in done.err


ANSWERS: list[tuple[str, Any, str]] = [
    ("an unknown item", answer("z"), "EXM-008"),
    ("a second answer", answer("a"), "EXM-007"),
    ("no object", "[1]", "EXM-006"),
    ("no item", {"response": "x"}, "EXM-006"),
    ("no response", {"item": "b"}, "EXM-006"),
    ("an item that is a list", {"item": ["b"], "response": "x"}, "EXM-006"),
    ("NaN latency", '{"item": "b", "response": "x", "latency_ms": NaN}', "FIL-002"),
    ("infinite latency", '{"item": "b", "response": "x", "latency_ms": 1e999}', "FIL-002"),
    ("a negative latency", answer("b", latency_ms=-1), "EXM-006"),
    ("a latency that is a text", answer("b", latency_ms="12"), "EXM-006"),
    ("a latency that is true", answer("b", latency_ms=True), "EXM-006"),
    ("a slip in a key", answer("b", latency=3), "EXM-006"),
    ("half a line", '{"item": "b", "resp', "FIL-002"),
    ("a key twice", '{"item": "b", "response": "x", "response": "y"}', "FIL-003"),
]


@pytest.mark.parametrize(
    ("line", "error"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
def test_an_answer_that_is_at_fault_is_refused_or_listed_and_never_dropped(
    line: Any, error: str, assay: Any, tmp_path: Path
) -> None:
    write_exam(tmp_path, item("a"), item("b"))
    write_answers(tmp_path, answer("a"), line)
    done = assay("exam", "grade", "exam.yaml", "--answers", "answers.jsonl", "--json")
    assert (done.code, json.loads(done.err)["error"]["code"], done.out) == (3, error, "")
    kept = assay(
        "exam", "grade", "exam.yaml", "--answers", "answers.jsonl", "--json", "--keep-going"
    )
    found = kept.json()
    assert (kept.code, [fault["code"] for fault in found["faults"]]) == (3, [error])
    assert "b" in found["missing"]
    assert found["score"] == (0.0 if error == "EXM-007" else 0.5)
    assert found["unknown"] == (["z"] if error == "EXM-008" else [])


def test_an_answer_of_megabytes_is_graded(assay: Any, tmp_path: Path) -> None:
    write_exam(
        tmp_path,
        item("a", match="word"),
        item("b", match="word", expected_contains=["a" * 200]),
        item("c"),
    )
    long = "x" * 700_000
    write_answers(
        tmp_path,
        answer("a", f"{long} ate comió"),
        answer("b", {**RIGHT, "correction": "a" * 700_000}),
        answer("c", {**RIGHT, "explanation": "w " * 350_000}),
    )
    found = assay("exam", "grade", "exam.yaml", "--answers", "answers.jsonl", "-o", "r.json")
    assert found.code == 0
    assert len(found.out) < 5000
    assert [one["score"] for one in json.loads((tmp_path / "r.json").read_text())["items"]] == [
        0.85,
        0.4,
        0.95,
    ]


def test_text_that_would_move_the_cursor_is_shown_as_an_escape(assay: Any, tmp_path: Path) -> None:
    write_exam(tmp_path, item("a", tense="\x1b[2Jpast"), item("b"))
    write_answers(
        tmp_path,
        answer("a", {**RIGHT, "correction": "\x1b[31mwrong\r\n"}),
        answer("b", "\u202eetA"),
    )
    done = assay("exam", "grade", "exam.yaml", "--answers", "answers.jsonl", "--break", "strip")
    assert done.code == 0
    assert not {"\x1b", "\r", "\u202e"} & set(done.out)


def test_misuse_is_told(assay: Any, tmp_path: Path) -> None:
    write_exam(tmp_path, item("a"))
    write_answers(tmp_path, answer("a"), name="answers.json")
    for command in (
        (),
        ("grad",),
        ("grade",),
        ("grade", "exam.yaml"),
        ("grade", "exam.yaml", "--answers", "a", "--url", "http://x"),
        ("grade", "exam.yaml", "--url", "ftp://x"),
    ):
        assert assay("exam", *command).code == 2
    assert "Did you mean 'grade'" in assay("exam", "grad").err
    assert (
        assay("exam", "grade", "exam.yaml", "--answers", "answers.json", "-o", "answers.json").code
        == 2
    )
    assert assay("exam", "grade", "exam.yaml", "--command", "no-such-tutor-anywhere").code == 2
    assert assay("exam", "grade", "exam.yaml", "--command", "true", "--timeout", "nan").code == 2


@pytest.mark.parametrize(
    "action",
    [
        "grade",
        "gate",
        "lint",
        "break",
        "recalibrate",
        "export-sm2",
    ],
)
def test_the_help_of_each_action_has_an_example(assay: Any, action: str) -> None:
    assert "example: assay exam" in assay("exam", action, "--help").out


# --- lint


@pytest.mark.req("X-83")
def test_lint_finds_a_form_inside_a_wrong_one(assay: Any, tmp_path: Path) -> None:
    write_exam(
        tmp_path,
        item("a", verb="eat", tense="past-simple"),
        item(
            "b",
            verb="eat",
            tense="present-perfect",
            expected_contains=["has eaten"],
            gloss_contains=["ha comido"],
        ),
        item(
            "c",
            verb="work",
            tense="present-simple",
            expected_contains=["work"],
            gloss_contains=["trabajo"],
        ),
    )
    done = assay("exam", "lint", "exam.yaml", "--json")
    found = [(one["rule"], one["path"]) for one in done.json()["findings"]]
    assert done.code == 1
    assert ("contained-form", "items[0].expected_contains") in found
    assert ("contained-form", "items[2].expected_contains") in found
    assert ("contained-form", "items[1].expected_contains") not in found
    write_exam(
        tmp_path,
        item("a", verb="eat", tense="t", match="word"),
        item(
            "b",
            verb="eat",
            tense="u",
            match="word",
            expected_contains=["has eaten"],
            gloss_contains=["ha comido"],
        ),
    )
    assert assay("exam", "lint", "exam.yaml").code == 0


def test_lint_tells_errors_and_traps_together(assay: Any, tmp_path: Path) -> None:
    write_exam(
        tmp_path,
        item("a", expected_contains=[], verb="v", tense="t"),
        item("a", verb="v", tense="t"),
        item("c", verb="v", tense="t", match="exact", expected_contains=["x", "y"]),
        item("d", verb="v", tense="t", prompt="Say ate", gloss_contains=["comió ya", "comió"]),
        item("e", prompt="Say ate", match="exact"),
    )
    done = assay("exam", "lint", "exam.yaml", "--json", "-o", "lint.json")
    rules = {one["rule"] for one in done.json()["findings"]}
    assert done.code == 3
    assert rules >= {
        "empty-expectation",
        "duplicate-id",
        "never-met",
        "answer-in-prompt",
        "redundant",
        "same-prompt",
        "no-verb",
        "no-tense",
    }
    assert all(one["line"] for one in done.json()["findings"])
    assert json.loads((tmp_path / "lint.json").read_text()) == done.json()


# --- asking

TUTOR = """
import sys, time, json
prompt = sys.stdin.read()
if "slow" in prompt: time.sleep(30)
if "fail" in prompt: sys.stderr.write("no model"); sys.exit(3)
if "flood" in prompt:
    while True: sys.stdout.write("ate " * 65536)
if "plain" in prompt: print("She ate, ella comió"); sys.exit()
print(json.dumps({"correction": "She ate.", "gloss": "comió", "explanation": prompt.strip()}))
"""


def test_a_command_is_asked_each_prompt_and_its_failures_are_missing_answers(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "tutor.py").write_text(TUTOR)
    write_exam(tmp_path, item("a"), item("plain"), item("slow"), item("fail"), item("flood"))
    done = assay(
        "exam",
        "grade",
        "exam.yaml",
        "--command",
        f"{sys.executable} tutor.py",
        "--timeout",
        "2",
        "--save-answers",
        "kept.jsonl",
        "--json",
    )
    found = done.json()
    assert done.code == 0
    assert [one["score"] for one in found["items"]] == [1.0, 0.85, 0.0, 0.0, 0.0]
    assert found["missing"] == ["slow", "fail", "flood"]
    assert found["missing_reasons"]["slow"] == "no answer within 2 s"
    assert found["missing_reasons"]["fail"] == (
        "the command ended with exit code 3; its last output was 'no model'"
    )
    assert 0 < found["latency"]["p50_ms"] < 2000
    assert found["latency"]["n"] == 2
    (tmp_path / "assay.yaml").write_text("commands: {exam grade: {command: 'exit 1'}}\n")
    again = assay("exam", "grade", "exam.yaml", "--answers", "kept.jsonl", "--json", "--trust")
    assert again.json() == found, "the answers on the command line replace the command of the file"


def test_what_a_command_leaves_behind_ends_with_its_turn(assay: Any, tmp_path: Path) -> None:
    script = (
        "import subprocess\nchild = subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL,"
        " stderr=subprocess.DEVNULL)\nopen('pid', 'w').write(str(child.pid))\nprint('ate')\n"
    )
    (tmp_path / "tutor.py").write_text(script)
    write_exam(tmp_path, item("a"))
    assert (
        assay(
            "exam", "grade", "exam.yaml", "--command", f"{sys.executable} tutor.py", "--json"
        ).json()["missing"]
        == []
    )
    left = int((tmp_path / "pid").read_text())
    until(lambda: not is_running(left))


class _Tutor(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        if "slow" in prompt:
            time.sleep(1.5)
        status = 500 if "fail" in prompt else 302 if "away" in prompt else 200
        body = (
            json.dumps({"response": RIGHT} if "wrapped" in prompt else RIGHT).encode()
            if "plain" not in prompt
            else b"She ate, comi\xc3\xb3"
        )
        if "secret" in prompt and self.headers.get("Authorization") != "Bearer s3":
            status = 401
        try:
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:9/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Tutor)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/ask"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_is_asked_each_prompt_and_its_failures_are_missing_answers(
    assay: Any, tmp_path: Path, endpoint: str
) -> None:
    write_exam(
        tmp_path,
        *(item(name) for name in ("a", "wrapped", "plain", "fail", "away", "secret", "slow")),
    )
    env = {"KEY": "s3", "no_proxy": "127.0.0.1"}
    found = assay(
        "exam",
        "grade",
        "exam.yaml",
        "--url",
        endpoint,
        "--timeout",
        "1",
        "--header",
        "Authorization: Bearer $KEY",
        "--json",
        env=env,
    ).json()
    assert [one["score"] for one in found["items"]] == [1.0, 1.0, 0.85, 0.0, 0.0, 1.0, 0.0]
    assert found["missing_reasons"] == {
        "fail": "the endpoint answered with status 500",
        "away": "the endpoint answered with status 302",
        "slow": "no answer within 1 s",
    }
    assert found["latency"]["n"] == 4


def test_an_endpoint_that_is_not_there_leaves_every_item_missing(
    assay: Any, tmp_path: Path
) -> None:
    write_exam(tmp_path, item("a"))
    found = assay(
        "exam",
        "grade",
        "exam.yaml",
        "--url",
        "http://127.0.0.1:9/",
        "--json",
        env={"no_proxy": "127.0.0.1"},
    ).json()
    assert (found["score"], found["missing"]) == (0.0, ["a"])
    refused = "the endpoint cannot be asked: Connection refused"
    assert found["missing_reasons"]["a"] == refused


def test_an_exam_of_thousands_of_items_is_graded_and_gated(assay: Any, tmp_path: Path) -> None:
    n = repeats(1_000, 5_000)
    items = [item(f"e-{k}", match="word", verb=f"v{k % 40}", tense=f"t{k % 8}") for k in range(n)]
    (tmp_path / "exam.json").write_text(
        json.dumps({"exam": "big", "rubric": "tutor@1", "items": items})
    )
    write_answers(
        tmp_path,
        *(answer(f"e-{k}", {**RIGHT, "gloss": "" if k % 10 == 0 else "comió"}) for k in range(n)),
    )
    done = assay("exam", "grade", "exam.json", "--answers", "answers.jsonl", "-o", "r.json")
    assert done.code == 0
    assert f"score 0.975 over {n:,} items" in done.out
    assert assay("exam", "gate", "r.json").code == 0


def test_no_path_of_this_machine_stands_in_a_result(assay: Any, tmp_path: Path) -> None:
    write_exam(tmp_path, item("a"))
    write_answers(tmp_path, answer("a"))
    assert (
        os.fspath(tmp_path)
        not in assay("exam", "grade", "exam.yaml", "--answers", "answers.jsonl", "--json").out
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("grade exam.yaml --answers answers.jsonl", "The keys are item, response, latency_ms"),
        ("grade exam.yaml --answers half.jsonl --keep-going", "assay: half.jsonl: line 2 not"),
        ("grade exam.yaml --answers half.jsonl --break loercase", "case-fold (lowercase)"),
        ("gate exam.yaml", "exam.yaml: is YAML, not a graded exam. Name the file that"),
        ("lint rubric.yaml", "is a rubric, not an exam. Name the file with the items"),
    ],
)
def test_the_mistakes_of_a_first_exam_say_what_to_do(
    assay: Any, tmp_path: Path, line: Any, words: Any
) -> None:
    write_exam(tmp_path, item("a"), item("b"))
    (tmp_path / "rubric.yaml").write_text("rubric_id: mine\nversion: 1\naxes: {}\n")
    (tmp_path / "answers.jsonl").write_text('{"item": "a", "answer": "She ate."}\n')
    write_answers(tmp_path, {"item": "a", "response": RIGHT}, name="half.jsonl")
    with (tmp_path / "half.jsonl").open("a") as stream:
        stream.write('{"item": "b", \n')
    done = assay("exam", *line.split())
    assert words in done.err + done.out, (line, done.err, done.out)
