"""What the columns of a dataset are taken for, and Excel workbooks, honest and hostile."""

from __future__ import annotations

import json
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from assay.errors import InputError
from assay.files.json_files import Document
from assay.running import dataset
from assay.running.columns import column_uses, columns_text, unread_expected
from assay.running.compatibility import Misfit, prepare
from assay.running.dataset import from_rows, read_dataset
from assay.running.workflow import LoadedWorkflow, make_workflow


def workflow(**changes: Any) -> LoadedWorkflow:
    tree = {
        "workflow": "faq",
        "version": "1",
        "inputs": ["question"],
        "outputs": ["answer"],
        "adapter": {"kind": "python", "target": "m:f"},
        **changes,
    }
    return make_workflow(Document(tree, "workflow.yaml"), Path())


def prepared(row: dict[str, Any], **changes: Any) -> Any:
    rows = [{"id": "q-1", "question": "When?", **row}]
    (sample,) = prepare(workflow(**changes), from_rows(rows, id="d", version="1", where="d.csv"))
    return sample


@pytest.mark.parametrize(
    "column",
    [
        "expected_answer",
        "expected.answer",
        "Expected-answer",
        "gold_answer",
        "answer",
        "expected_output",
    ],
)
def test_a_column_means_what_its_name_says(column: str) -> None:
    sample = prepared({column: "At nine."})
    assert sample.expected == {"answer": "At nine."}
    assert sample.inputs == {"question": "When?"}


def test_expected_stays_as_it_is_and_takes_in_what_stands_beside_it() -> None:
    assert prepared({"expected": "At nine."}, outputs=[]).expected == "At nine."
    assert prepared({"expected": {"answer": "x"}}).expected == {"answer": "x"}
    both = {"expected": {"answer": "x"}, "expected_sources": "d"}
    assert prepared(both, outputs=["answer", "sources"]).expected == {"answer": "x", "sources": "d"}
    assert prepared(both).expected == {"answer": "x"}
    assert prepared({"expected_relevant_ids": "d1"}).expected == {"relevant_ids": ["d1"]}
    assert prepared({"expected": "x", "answer": "x"}).expected == {"answer": "x"}
    assert prepared({"expected_answer": ""}).expected is None
    assert prepared({"notes": "x"}).expected is None


@pytest.mark.parametrize(
    ("text", "ids"),
    [("d1.md", ["d1.md"]), ('["d1.md", "d2.md"]', ["d1.md", "d2.md"]), ("a, b", ["a, b"])],
)
def test_a_cell_gives_the_ids_of_relevant_passages(text: str, ids: list[str]) -> None:
    for row in ({"expected.relevant_ids": text}, {"expected": {"relevant_ids": text}}):
        assert prepared(row).expected == {"relevant_ids": ids}
    own = {"outputs": ["answer", "relevant_ids"]}
    assert prepared({"relevant_ids": text}, **own).expected == {"relevant_ids": text}


def test_an_empty_text_is_no_list_with_an_empty_entry() -> None:
    assert prepared({"expected": {"answer": "x", "tools": ""}}).expected == {
        "answer": "x",
        "tools": "",
    }


def test_a_cell_that_is_no_list_is_refused() -> None:
    with pytest.raises(InputError, match=r"samples\[0\]: `expected.relevant_ids` is not JSON"):
        prepared({"expected.relevant_ids": "[d1.md]"})


@pytest.mark.parametrize("value", ["140", 140, ["a", "b"], False])
def test_a_bare_expected_value_is_that_of_the_one_required_output(value: Any) -> None:
    for column in ("expected", "Expected", "gold"):
        assert prepared({column: value}).expected == {"answer": value}
    several = {"outputs": ["notes", "answer"], "required_outputs": ["answer"]}
    assert prepared({"expected": value}, **several).expected == {"answer": value}


def test_a_bare_expected_value_is_refused_where_there_are_several_outputs() -> None:
    with pytest.raises(InputError, match=r"samples\[0\].*2 outputs: answer, sources") as found:
        prepared({"expected": "140"}, outputs=["answer", "sources"])
    assert (found.value.code, '"answer": ...' in found.value.fix) == ("RUN-002", True)
    assert prepared({"expected": ""}, outputs=["answer", "sources"]).expected == ""


@pytest.mark.parametrize("column", ["asert", "Assert", "asserts", "assertions", "assret"])
@pytest.mark.parametrize(
    "value", [[{"contains": "x"}], {"contains": "x"}, '[{"contains": "x"}]', [{"contians": "x"}]]
)
def test_a_misspelt_assert_is_refused_before_anything_runs(column: str, value: Any) -> None:
    with pytest.raises(
        InputError, match=rf"samples\[0\]: .*'{column}'.*Did you mean 'assert'"
    ) as e:
        prepared({column: value})
    assert e.value.code == "RUN-002"


def test_what_only_looks_a_little_like_assert_is_left_alone() -> None:
    assert prepared({"assets": [{"url": "x"}], "asserted": "yes"}).assertions is None
    kept = prepared({"asserts": [{"a": 1}]}, inputs=["question", "asserts"])
    assert kept.inputs["asserts"] == [{"a": 1}]


@pytest.mark.parametrize(
    ("column", "meant"),
    [
        ("anwser", "answer"),
        ("Question", "question"),
        ("expcted", "expected"),
        ("expeced_answer", "expected_answer"),
        ("gruop", "group"),
        ("tag", "tags"),
        ("asert", "assert"),
    ],
)
def test_an_ignored_column_says_what_it_may_have_meant(column: str, meant: str) -> None:
    data = from_rows([{"id": 1, column: "x"}], id="d", version="1", where="d")
    uses = column_uses(workflow(), data)
    assert uses[-1][1] == f"ignored; did you mean {meant}?"
    assert columns_text(uses).endswith(f"{column} (ignored; did you mean {meant}?)")


def test_expected_keys_that_nothing_reads_are_told_with_the_near_miss() -> None:
    expected = [{"anwser": "x", "relevant_ids": []}, {"answer": "x", "extra": 1}, "bare"]
    read = ["relevant_ids"]
    found = unread_expected(workflow(), expected[:1], read=read, scored=False)
    assert " ".join(found) == (
        "expected.anwser (1 of 1 sample) isn't an output of faq, and no measure reads it."
        " Did you mean 'answer'?"
    )
    found = unread_expected(workflow(), expected, read=read, scored=False)
    assert [one.partition(" ")[0] for one in found] == ["expected.anwser", "expected.extra"]
    assert len(unread_expected(workflow(), expected[:1], read=read, scored=True)) == 1
    assert unread_expected(workflow(), expected[1:], read=read, scored=True) == []
    tests = {
        "fail_to_pass": ["t"],
        "pass_to_pass": [],
    }  # the workflow itself says that it reads one
    repair = workflow(repository={"path": ".", "fail_to_pass": "expected.fail_to_pass"})
    found = unread_expected(repair, [tests], read=read, scored=False)
    assert [one.partition(" ")[0] for one in found] == ["expected.pass_to_pass"]


@pytest.mark.parametrize(
    "row",
    [
        {"answer": "x", "expected_answer": "y"},
        {"expected": {"answer": "x"}, "answer": "y"},
        {"expected": "x", "expected_answer": "y"},
    ],
)
def test_two_columns_that_differ_on_one_expected_value_are_refused(row: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="they differ"):
        prepared(row)


def test_an_answer_is_an_input_only_where_the_workflow_says_so() -> None:
    sample = prepared({"answer": "draft"}, inputs=["question", "answer"])
    assert sample.inputs["answer"] == "draft"
    assert sample.expected is None
    mapped = prepared({"answer": "draft"}, inputs={"question": None, "text": {"from": "answer"}})
    assert mapped.inputs["text"] == "draft"
    assert mapped.expected is None
    for inputs in (["question", "expected_answer"], {"q": {"from": "expected.answer"}}):
        with pytest.raises(Misfit, match="expected value as input"):
            prepared({"expected_answer": "x", "expected.answer": "x"}, inputs=inputs)


def test_every_column_is_listed_with_what_it_is_taken_for() -> None:
    row = {
        "id": 1,
        "question": "?",
        "answer": "x",
        "expected_sources": "y",
        "assert": [],
        "group": "g",
        "tags": [],
        "notes": "",
    }
    data = from_rows([row, {"id": 2, "question": "?", "late": 1}], id="d", version="1", where="d")
    assert dict(column_uses(workflow(), data)) == {
        "id": "id",
        "question": "input",
        "answer": "expected answer",
        "expected_sources": "expected sources",
        "assert": "assertions",
        "group": "group",
        "tags": "tag",
        "notes": "ignored",
        "late": "ignored",
    }


def test_the_tests_of_a_repair_are_not_called_ignored() -> None:
    row = {"id": 1, "question": "?", "fail_to_pass": ["t"], "base": "HEAD"}
    data = from_rows([row], id="d", version="1", where="d")
    uses = dict(column_uses(workflow(repository={"path": "."}), data))
    assert (uses["fail_to_pass"], uses["base"]) == ("tests", "repository")


# --- Excel


def book(path: Path, *sheets: tuple[str, list[list[Any]]]) -> str:
    openpyxl = pytest.importorskip("openpyxl", reason="pip install 'assaykit[excel]'")
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets:
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return str(path)


ROWS = [
    ["id", "question", "n", "when", "at", "ok"],
    ["q-1", "When?", 0.1, datetime(2026, 11, 16), datetime(2026, 11, 16, 9, 30), True],
    [None, None, None, None, None, None],
    [2, "Why?", 3],
]


def test_excel_is_read_as_people_see_it(tmp_path: Path) -> None:
    path = book(tmp_path / "s.xlsx", ("first", ROWS), ("second", [["id", "question"], ["z", "?"]]))
    first, second = read_dataset(path).samples
    assert first.row == {
        "id": "q-1",
        "question": "When?",
        "n": 0.1,
        "when": "2026-11-16",
        "at": "2026-11-16T09:30:00",
        "ok": True,
    }
    assert (second.id, second.where, second.row["n"]) == ("2", "row 4", 3)
    assert second.row["ok"] is None
    (tmp_path / "d.yaml").write_text("dataset: d\nversion: 1\nfile: s.xlsx\nsheet: second\n")
    assert [one.id for one in read_dataset(str(tmp_path / "d.yaml")).samples] == ["z"]
    openpyxl = pytest.importorskip("openpyxl")
    hidden = openpyxl.load_workbook(path)
    hidden["first"].sheet_state = "hidden"
    hidden.active = 1
    hidden.save(path)
    assert [one.id for one in read_dataset(path).samples] == ["z"]


def test_a_formula_in_excel_may_leave_a_text_empty(tmp_path: Path) -> None:
    path, edited = (
        book(tmp_path / "s.xlsx", ("x", [["id", "q"], ["a", "=B9"]])),
        tmp_path / "e.xlsx",
    )
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(edited, "w") as new:
        for part in old.namelist():
            cell = old.read(part).replace(b'r="B2"', b'r="B2" t="str"')
            new.writestr(part, cell)
    assert [one.row for one in read_dataset(str(edited)).samples] == [{"id": "a", "q": None}]


def test_blank_cells_to_the_right_of_a_sheet_count_for_nothing(tmp_path: Path) -> None:
    path = book(
        tmp_path / "s.xlsx", ("first", [["id", "q", " "], ["x", "y", " "], [None] * 3 + [" "]])
    )
    assert [one.row for one in read_dataset(path).samples] == [{"id": "x", "q": "y"}]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "no column names"),
        ([[None, "a"], ["x", "y"]], "column 1 has no name"),
        ([["a", "a"], ["x", "y"]], "two columns"),
        ([["id", "q"], ["x", "#REF!"]], "the error #REF!"),
        ([["id", "q"], ["x", "y"], ["=A2", "=B2"]], "row 3: id is a formula without a saved"),
        ([["id", "q"], ["x", "1"], ["x", "2"]], "was used before, at row 2"),
        ([["id", "q"]], "no samples"),
        ([["id", "q"], ["x"], ["y", "?", None, "!"]], "the cell D3 has a value, and its column"),
        ([[f"c{n}" for n in range(501)]], "more than 500 columns"),
    ],
)
def test_a_sheet_that_is_no_dataset_is_refused_in_words(
    tmp_path: Path, rows: list[list[Any]], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_dataset(book(tmp_path / "s.xlsx", ("first", rows)))
    assert words in str(caught.value)


def test_an_unknown_sheet_names_the_near_miss(tmp_path: Path) -> None:
    book(tmp_path / "s.xlsx", ("samples", ROWS))
    (tmp_path / "d.yaml").write_text("dataset: d\nversion: 1\nfile: s.xlsx\nsheet: sample\n")
    with pytest.raises(InputError, match="Did you mean 'samples'"):
        read_dataset(str(tmp_path / "d.yaml"))
    (tmp_path / "s.jsonl").write_text('{"id": 1}\n')
    (tmp_path / "e.yaml").write_text("dataset: d\nversion: 1\nfile: s.jsonl\nsheet: x\n")
    with pytest.raises(InputError, match="has a `sheet`"):
        read_dataset(str(tmp_path / "e.yaml"))


def test_a_hostile_workbook_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dataset.MAX_UNPACKED == 256 * 1024 * 1024
    monkeypatch.setattr(dataset, "MAX_UNPACKED", 256 * 1024)
    honest = book(tmp_path / "s.xlsx", ("first", ROWS))
    bomb = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(5):
            archive.writestr(f"xl/worksheets/sheet{number}.xml", b"\0" * (64 * 1024))
    many = tmp_path / "many.xlsx"
    with zipfile.ZipFile(many, "w") as archive:
        for number in range(2_001):
            archive.writestr(f"{number}", b"")
    entities = tmp_path / "entities.xlsx"
    with zipfile.ZipFile(honest) as old, zipfile.ZipFile(entities, "w") as archive:
        for part in old.namelist():
            data = old.read(part)
            if part == "xl/workbook.xml":
                data = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + data
            archive.writestr(part, data)
    cut = tmp_path / "cut.xlsx"
    cut.write_bytes(Path(honest).read_bytes()[:-200])
    empty = tmp_path / "empty.xlsx"
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("x", b"")
    text = tmp_path / "text.xlsx"
    text.write_text(json.dumps(ROWS[0]))
    for path, words in [
        (bomb, "unpacks to"),
        (many, "unpacks to"),
        (entities, "document type"),
        (cut, "is not an .xlsx workbook"),
        (empty, "can't be read as an Excel workbook"),
        (text, "is not an .xlsx workbook"),
        (tmp_path / "none.xlsx", "none.xlsx"),
    ]:
        with pytest.raises(InputError) as caught:
            read_dataset(str(path))
        assert words in str(caught.value), path


def test_without_the_extra_the_install_line_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "s.xlsx").write_bytes(b"")
    with pytest.raises(InputError, match=r"\[excel\]"):
        read_dataset(str(tmp_path / "s.xlsx"))
