"""Workflows and datasets as files, and the check that one fits the other."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError, InputError
from assay.files.json_files import Document
from assay.running.columns import column_uses
from assay.running.compatibility import Misfit, prepare
from assay.running.dataset import LoadedDataset, from_rows, read_dataset
from assay.running.workflow import PROFILE_OF, LoadedWorkflow, make_workflow, read_workflow

BASE: dict[str, Any] = {
    "workflow": "faq",
    "version": "1",
    "inputs": ["question"],
    "outputs": ["answer"],
    "adapter": {"kind": "python", "target": "m:f"},
}


def workflow(**changes: Any) -> LoadedWorkflow:
    tree = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
    return make_workflow(Document(tree, "workflow.yaml"), Path())


def dataset(*rows: Any) -> LoadedDataset:
    return from_rows(list(rows), id="d", version="1", where="d")


# --- workflows


def test_a_workflow_file_is_read_with_everything_it_says(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "workflow: faq\nversion: 3\nfamily: rag\nstrategy: single\nrubric: tutor\ninputs:\n "
        " question: {from: query}\n  context: {required: false}\n  tone: {default: calm}\noutputs:"
        " [answer, sources]\nrequired_outputs: [answer]\noutput_schema: {type: object}\nadapter:"
        " {kind: command, command: [cat]}\n"
    )
    found = read_workflow(str(path))
    assert found.subject() == {"id": "faq", "version": "3", "family": "rag", "rubric": "tutor"}
    assert found.required_inputs == ["question"]
    assert found.required_outputs == ["answer"]
    assert found.folder == tmp_path


@pytest.mark.req("W-081")
@pytest.mark.parametrize(("strategy", "profile"), sorted(PROFILE_OF.items()))
def test_the_strategy_selects_the_profile_where_neither_profile_nor_family_is_named(
    strategy: str, profile: str
) -> None:
    assert workflow(strategy=strategy).subject()["profile"] == profile
    assert "profile" not in workflow(strategy=strategy, family="rag").subject()
    assert (
        workflow(strategy=strategy, profile="tool-use-measured").subject()["profile"]
        == "tool-use-measured"
    )
    assert strategy in workflow(strategy=strategy).profile_why


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strategy": "swarm"}, "strategy"),
        ({"strategi": "dag"}, "strategi"),
        ({"adapter": None}, "adapter"),
        ({"steps": [{"name": "a", "adapter": {}}]}, "adapter"),
        ({"strategy": "dag", "adapter": None, "steps": []}, "empty"),
        (
            {
                "strategy": "dag",
                "adapter": None,
                "steps": [{"name": "a", "adapter": {}, "needs": ["b"]}],
            },
            "no such step",
        ),
        (
            {
                "strategy": "dag",
                "adapter": None,
                "steps": [{"name": "a", "adapter": {}}, {"name": "a", "adapter": {}}],
            },
            "two steps",
        ),
        (
            {"strategy": "dag", "adapter": None, "steps": [{"name": "inputs", "adapter": {}}]},
            "stands for the inputs",
        ),
        (
            {
                "strategy": "dag",
                "adapter": None,
                "steps": [
                    {"name": "a", "adapter": {}, "needs": ["b"]},
                    {"name": "b", "adapter": {}, "needs": ["a"]},
                ],
            },
            "cycle",
        ),
        (
            {
                "strategy": "multi_agent",
                "adapter": None,
                "agents": {"a": {"adapter": {}}},
                "start": "b",
            },
            "begins",
        ),
        ({"start": "a"}, "no agents"),
        ({"limits": {"retries": -1}}, "retries"),
        ({"limits": {"timeout_s": "soon"}}, "timeout_s"),
        ({"limits": {"timeout_s": -1}}, "timeout_s"),
        ({"limits": {"timeout_s": True}}, "timeout_s"),
        ({"version": 1.5}, "version"),
        ({"workflow": ""}, "workflow"),
        ({"workflow": "f\u0430q"}, "CYRILLIC"),
    ],
)
def test_a_workflow_that_does_not_hold_together_is_refused_with_the_place(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        workflow(**change)
    assert words in str(caught.value)
    assert caught.value.exit_code == 3


def test_two_workflow_files_that_say_the_same_have_one_digest() -> None:
    assert workflow().digest == workflow(version="1").digest
    assert workflow().digest != workflow(version="2").digest


# --- datasets


ROWS = [
    {"id": "a", "question": "q1", "expected": {"answer": "x"}},
    {"id": "b", "question": "q2", "expected": {"answer": "y"}},
]


def _written(folder: Path, kind: str) -> str:
    path = folder / f"d.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif kind == "json":
        path.write_text(json.dumps(ROWS))
    elif kind == "csv":
        path.write_text("id,question,gold_answer\na,q1,x\nb,q2,y\n")
    elif kind == "parquet":
        import duckdb

        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        duckdb.sql(f"copy (from read_json('{folder}/rows.jsonl')) to '{path}' (format parquet)")
    else:
        with sqlite3.connect(folder / "d.db") as connection:
            connection.execute(
                "create table samples (id text primary key, question text, gold text)"
            )
            connection.executemany(
                "insert into samples values (?, ?, ?)", [("b", "q2", "y"), ("a", "q1", "x")]
            )
        connection.close()
        path = folder / "table.yaml"
        path.write_text(
            f"dataset: d\nversion: 1\ntable: {{url: 'sqlite:///{folder}/d.db', name:"
            " samples}\nexpected: {answer: gold}\n"
        )
    return str(path)


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "table"])
def test_samples_come_from_lines_documents_columns_and_tables_alike(
    tmp_path: Path, kind: str
) -> None:
    found = read_dataset(_written(tmp_path, kind))
    ready = prepare(workflow(), found)
    assert [(one.sample_id, one.inputs) for one in ready] == [
        ("a", {"question": "q1"}),
        ("b", {"question": "q2"}),
    ]
    if kind not in ("csv",):
        assert [one.expected for one in ready] == [{"answer": "x"}, {"answer": "y"}]


def test_a_dataset_file_maps_fields_splits_groups_and_tags(tmp_path: Path) -> None:
    rows = [
        {
            "key": 1,
            "split": "test",
            "q": {"text": "q1"},
            "gold": {"a": "x"},
            "topic": "t1",
            "lang": "de",
        },
        {
            "key": 2,
            "split": "train",
            "q": {"text": "q2"},
            "gold": {"a": "y"},
            "topic": "t2",
            "lang": "en",
        },
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "d.yaml").write_text(
        "dataset: qa\nversion: 2\nfile: rows.jsonl\nsplit: test\nsample_id: key\n"
        "inputs: {question: q.text}\nexpected: {answer: gold.a}\ngroup: topic\ntags: [lang]\n"
    )
    found = read_dataset(str(tmp_path / "d.yaml"))
    assert (found.id, found.version) == ("qa", "2")
    (ready,) = prepare(workflow(), found)
    assert ready[:5] == ("1", {"question": "q1"}, {"answer": "x"}, "t1", ["de"])


def test_the_digest_of_a_dataset_is_of_its_samples_in_no_order() -> None:
    one, other = dataset(*ROWS), dataset(*reversed(ROWS))
    assert one.digest == other.digest
    assert one.digest != dataset(ROWS[0]).digest
    assert one.digest != dataset(ROWS[0], {**ROWS[1], "question": "q3"}).digest


def test_a_link_to_itself_is_a_workflow_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.symlink_to(path.name)
    with pytest.raises(InputError, match="cannot be read: Too many levels of symbolic links"):
        read_workflow(str(path))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"question": "q"}, {"id": "a", "question": "r"}], r"samples\[0\]: the sample has no id"),
        ([{"question": "q"}, {"question": "q"}], r"samples\[1\].*equal to samples\[0\]"),
        ([{"id": "", "question": "q"}], "no id"),
        ([{"id": None, "question": "q"}], "no id"),
        ([{"id": True, "question": "q"}], "no id"),
        ([{"id": "a", "question": "q"}, {"id": "a", "question": "r"}], "used before"),
        ([{"id": 1, "question": "q"}, {"id": "1", "question": "r"}], "used before"),
        (["text"], "invalid_dataset_sample"),
        ([[1]], "invalid_dataset_sample"),
        ([None], "invalid_dataset_sample"),
        ([], "no samples"),
    ],
)
def test_a_sample_without_an_id_of_its_own_is_refused(rows: list[Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        dataset(*rows)


def test_samples_without_ids_get_some_of_their_content() -> None:
    rows = [{"question": "q"}, {"question": "r"}]
    found = dataset(*rows)
    ids = [sample.id for sample in found.samples]
    assert [len(name) for name in ids] == [14, 14]
    assert all(name.startswith("sha-") for name in ids)
    assert [sample.id for sample in dataset(*reversed(rows)).samples] == ids[::-1]
    assert column_uses(workflow(), found)[0] == ("id", "made from the content of each row")
    assert not dataset(*ROWS).made_ids


def test_a_dataset_file_that_names_the_id_gets_no_other(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"key": 1}\n{"question": "q"}\n')
    (tmp_path / "d.yaml").write_text("dataset: d\nfile: rows.jsonl\nsample_id: key\n")
    with pytest.raises(InputError, match="no id"):
        read_dataset(str(tmp_path / "d.yaml"))


@pytest.mark.parametrize(
    "line",
    [
        *("sample_id: {}", "inputs: {{q: {}}}", "expected: {}", "expected: {{a: {}}}"),
        *("group: {}", "tags: {}", "tags: [id, {}]"),
    ],
)
def test_a_field_that_a_dataset_file_names_and_no_sample_has_is_refused(
    tmp_path: Path, line: str
) -> None:
    (tmp_path / "rows.csv").write_text("id,topic\na,t\nb,u\n")
    file = tmp_path / "d.yaml"
    file.write_text(f"dataset: d\nfile: rows.csv\n{line.format('topic')}\n")
    assert len(read_dataset(str(file)).samples) == 2
    file.write_text(f"dataset: d\nfile: rows.csv\n{line.format('topics')}\n")
    with pytest.raises(InputError, match=r"'topics'. Did you mean 'topic'\?.*'id', 'topic'"):
        read_dataset(str(file))


def test_a_field_that_only_samples_of_another_split_have_is_no_misspelling(tmp_path: Path) -> None:
    rows = '{"id": "a", "split": "smoke"}\n{"id": "b", "split": "full", "topic": "t"}\n'
    (tmp_path / "rows.jsonl").write_text(rows)
    file = tmp_path / "d.yaml"
    file.write_text("dataset: d\nfile: rows.jsonl\nsplit: smoke\ngroup: topic\n")
    assert [sample.id for sample in read_dataset(str(file)).samples] == ["a"]


def test_an_empty_cell_is_neither_a_group_nor_a_tag(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,topic,lang\na,,\nb, ,en\nc,t,\n")
    (tmp_path / "d.yaml").write_text("dataset: d\nfile: rows.csv\ngroup: topic\ntags: [lang]\n")
    found = read_dataset(str(tmp_path / "d.yaml"))
    assert [found.group(sample.row) for sample in found.samples] == [None, None, "t"]
    assert [found.tags(sample.row) for sample in found.samples] == [[], ["en"], []]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("d.jsonl", b'{"id": "a"', "cut off"),
        ("d.jsonl", b"", "no samples"),
        ("d.json", b'{"rows": []}', "list of samples"),
        ("d.csv", b"id,id\na,b\n", "same name"),
        ("d.csv", b"id,question\na\n", "columns"),
        ("d.csv", b"id,question\na,b,c\n", "columns"),
        ("d.csv", b"id,question\na,\xff\xfe\n", "UTF-8"),
        ("d.parquet", b"no parquet", "Parquet"),
        ("d.xlsx", b"", "extension|.xlsx"),
        ("d.yaml", b"dataset: d\nversion: 1\n", "either a file or a table"),
        ("d.yaml", b"dataset: d\nversion: 1\nfile: absent.jsonl\n", "absent.jsonl"),
        ("d.yaml", b"dataset: d\nversion: 1\nfile: a\nfields: {}\n", "fields"),
        (
            "d.yaml",
            b"dataset: d\nversion: 1\ntable: {url: 'sqlite:///:memory:', name: nothing}\n",
            "cannot be read",
        ),
        (
            "d.yaml",
            b"dataset: d\nversion: 1\ntable: {url: 'postgresql://h:port/x', name: nothing}\n",
            "cannot be read",
        ),
    ],
)
def test_a_file_that_is_no_dataset_is_refused_in_words(
    tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(AssayError, match=words):
        read_dataset(str(tmp_path / name))


# --- compatibility


@pytest.mark.req("W-079", "W-085")
def test_every_reason_of_a_misfit_is_said_once_and_sorted_before_anything_runs() -> None:
    flow = workflow(inputs=["topic", "question", "context"])
    with pytest.raises(Misfit) as caught:
        prepare(
            flow,
            dataset(
                {"id": 1, "question": "q"},
                {"id": 2, "question": " ", "context": []},
                {"id": 3, "question": "{{ q }}"},
            ),
        )
    assert caught.value.reasons == ["missing: context", "missing: question", "missing: topic"]
    assert caught.value.code == "RUN-003"
    assert "The samples have 'id', 'question', 'context'." in str(caught.value.listed("")[0].text())


@pytest.mark.req("W-079")
def test_an_input_may_come_from_a_mapping_a_default_or_the_samples_own_inputs() -> None:
    flow = workflow(
        inputs={
            "question": {"from": "q.text"},
            "tone": {"default": "calm"},
            "hint": {"required": False},
            "k": None,
        }
    )
    ready = prepare(flow, dataset({"id": 1, "q": {"text": "why"}, "inputs": {"k": 3}}))
    assert ready[0].inputs == {"question": "why", "tone": "calm", "k": 3}


@pytest.mark.parametrize(
    ("inputs", "row"),
    [
        (["expected"], {"expected": "x"}),
        (["gold_answer"], {"gold_answer": "x"}),
        ({"question": {"from": "expected.answer"}}, {"expected": {"answer": "x"}}),
        ({"question": {"from": "expected"}}, {"expected": {"answer": "x"}}),
        (["expected_output"], {"inputs": {"expected_output": "x"}}),
    ],
)
def test_an_expected_value_never_becomes_an_input(inputs: Any, row: dict[str, Any]) -> None:
    with pytest.raises(Misfit, match="expected value as input"):
        prepare(workflow(inputs=inputs), dataset({"id": 1, **row}))


def test_a_field_that_holds_an_expected_value_inside_is_no_input(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "record": {"question": "q", "answer": "x"}}\n')
    (tmp_path / "d.yaml").write_text(
        "dataset: d\nversion: 1\nfile: rows.jsonl\nexpected: {answer: record.answer}\ninputs:"
        " {question: record}\n"
    )
    with pytest.raises(Misfit, match="expected value as input: question"):
        prepare(workflow(), read_dataset(str(tmp_path / "d.yaml")))
    (tmp_path / "d.yaml").write_text(
        "dataset: d\nversion: 1\nfile: rows.jsonl\nexpected: {answer: record.answer}\ninputs:"
        " {question: record.question}\n"
    )
    assert prepare(workflow(), read_dataset(str(tmp_path / "d.yaml")))[0].inputs == {
        "question": "q"
    }


def test_the_tests_that_judge_a_patch_never_become_an_input() -> None:
    flow = workflow(
        inputs={"question": {"from": "hidden"}}, repository={"path": ".", "test_patch": "hidden"}
    )
    with pytest.raises(Misfit, match="expected value as input: question"):
        prepare(flow, dataset({"id": 1, "hidden": "diff"}))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["question", "topic", "expected", "gold", "inputs", "expected_x", "Gold.y"]
        ),
        VALUES,
        max_size=5,
    ),
    st.lists(
        st.sampled_from(["question", "topic", "expected", "gold", "expected_x"]),
        max_size=3,
        unique=True,
    ),
)
def test_whatever_a_sample_holds_no_gold_reaches_the_inputs(
    row: dict[str, Any], inputs: list[str]
) -> None:
    canary = "CANARY-7f"
    planted = {
        name: {"v": canary} if name.lower().startswith(("expected", "gold")) else value
        for name, value in row.items()
    }
    if isinstance(planted.get("inputs"), dict):
        planted["inputs"] = {**planted["inputs"], "expected_z": canary, "gold": canary}
    try:
        ready = prepare(workflow(inputs=inputs), dataset({"id": 1, **planted}))
    except Misfit:
        return
    assert canary not in json.dumps([one.inputs for one in ready])
