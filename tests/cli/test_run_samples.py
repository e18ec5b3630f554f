"""`assay run --only` and `--failed-in`: which samples run, and what becomes of such a part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from serving import serving

FLOW = """
def answer(inputs):
    if inputs["q"] == "boom":
        raise ValueError("boom")
    return {"answer": inputs["q"].upper()}
"""
PROFILE = {
    "profile": "own",
    "version": 1,
    "title": "T",
    "family": "own",
    "gates": [{"id": "overall_status_success"}],
    "criteria": [
        {
            "id": "right",
            "label": "R",
            "weight": 1,
            "layer": 1,
            "formula": "ratio",
            "measure": "contains_expected",
        }
    ],
}
NAMES = ["q1", "q2", "q,3", "q4.txt"]


@pytest.fixture
def flow(assay: Any, tmp_path: Path) -> Any:
    """Runs the workflow on four samples, of which q2 fails."""
    (tmp_path / "flow.py").write_text(FLOW)
    workflow = {
        "workflow": "faq",
        "version": 1,
        "family": "own",
        "inputs": ["q"],
        "outputs": ["answer"],
        "output_schema": True,
        "adapter": {"kind": "python", "target": "flow:answer"},
        "limits": {"retries": 0},
    }
    (tmp_path / "workflow.yaml").write_text(json.dumps(workflow))
    (tmp_path / "own.yaml").write_text(json.dumps(PROFILE))
    write(tmp_path / "faq.jsonl", NAMES)
    words = ("run", "--profile", "own.yaml", "--dataset")
    return lambda *more, dataset="faq.jsonl": assay(*words, dataset, *more)


def write(path: Path, names: list[str]) -> None:
    rows = [{"id": name, "q": "boom" if name == "q2" else name} for name in names]
    answered = [{**row, "expected": {"answer": row["q"].upper()}} for row in rows]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in answered))


def ran(folder: Path, name: str) -> list[tuple[str, int, int]]:
    lines = (folder / "assay-runs" / name / "runs.jsonl").read_text().splitlines()
    runs = [json.loads(line) for line in lines]
    return [(run["dataset"]["sample_id"], run["attempt"], run["attempts"]) for run in runs]


SUSPECTS = {"suspects": [{"sample": "faq/q2", "check": "gate"}, {"sample": "q,3"}]}


@pytest.mark.parametrize(
    ("only", "file", "chosen"),
    [
        ("q2", None, ["q2"]),
        ("q2, q1,q2,", None, ["q1", "q2"]),
        ("faq/q1", None, ["q1"]),
        ("q4.txt", None, ["q4.txt"]),
        ("names.txt", "\ufeffq,3\r\n\r\nfaq/q1 \r\n", ["q1", "q,3"]),
        ("suspects.json", json.dumps(SUSPECTS), ["q2", "q,3"]),
        ("list.json", '["q4.txt"]', ["q4.txt"]),
    ],
    ids=["one", "several", "with its dataset", "like a file", "a file", "suspects", "a list"],
)
def test_only_the_named_samples_run_in_the_order_of_the_dataset(
    flow: Any, tmp_path: Path, only: str, file: str | None, chosen: list[str]
) -> None:
    if file is not None:
        (tmp_path / only).write_bytes(file.encode())
    done = flow("--only", only, "--name", "part", "--no-store")
    assert done.code in (0, 1), done.err
    assert ran(tmp_path, "part") == [(name, 1, 1) for name in chosen]


def test_chosen_samples_repeat_and_their_runs_are_numbered(flow: Any, tmp_path: Path) -> None:
    flow("--only", "q1,q2", "--repeat", "2", "--name", "part", "--no-store")
    assert ran(tmp_path, "part") == [("q1", 1, 2), ("q1", 2, 2), ("q2", 1, 2), ("q2", 2, 2)]


@pytest.mark.parametrize(
    ("options", "file", "code", "words"),
    [
        (("--only", "q22"), None, 2, "no sample 'q22'. Did you mean 'q2'?"),
        (("--only", "q1,x,y"), None, 2, "no sample 'x', 'y'"),
        (("--only", "q.txt"), None, 2, "There is no file of that name either."),
        (("--only", "other/q1"), None, 2, "no sample 'other/q1'"),
        (("--only", ""), None, 2, "names no sample"),
        (("--only", " , "), None, 2, "names no sample"),
        (("--only", "names.txt"), b"\n \n", 2, "names no sample"),
        (("--only", "names.txt"), b"q1\nq7\n", 2, "no sample 'q7'"),
        (("--only", "names.txt"), b"q1\n\xff\n", 3, "line 2 is not UTF-8"),
        (("--only", "names.json"), b"{}", 3, "names no samples"),
        (("--only", "names.json"), b"[1]", 3, "names no samples"),
        (("--only", "names.json"), b'{"suspects": [{}]}', 3, "names no samples"),
        (("--only", "names.json"), b"[]", 2, "names no sample"),
        (("--only", "q4.txt"), b"q1", 2, "is both a file and a sample"),
        (("--only", "q1", "--failed-in", "whole"), None, 2, "--only and --failed-in"),
        (("--failed-in", "whoel"), None, 2, "Did you mean 'whole'?"),
        (("--failed-in", "none.json"), None, 3, "no such file"),
        (("--failed-in", "assay-runs/whole/runs.jsonl"), None, 3, "reads grades"),
        (("--failed-in", "whole:q1"), None, 2, "is a run"),
        (("--failed-in", "sound"), None, 2, "every sample passed in sound"),
        (("--failed-in", "other"), None, 2, "is of the dataset other"),
    ],
)
def test_what_chooses_nothing_or_something_unknown_is_refused_before_anything_runs(
    flow: Any, tmp_path: Path, options: Any, file: bytes | None, code: int, words: str
) -> None:
    if "--failed-in" in options:
        write(tmp_path / "other.jsonl", ["q2"])
        codes = [
            flow("--name", "whole").code,
            flow("--name", "sound", "--only", "q1").code,
            flow("--name", "other", dataset="other.jsonl").code,
        ]
        assert codes == [1, 0, 1]
    if file is not None:
        (tmp_path / options[1]).write_bytes(file)
    done = flow(*options, "--name", "part")
    assert (done.code, words in done.err) == (code, True), done.err
    assert not (tmp_path / "assay-runs" / "part").exists()


@pytest.mark.parametrize("named", ["whole", "latest", "grades.json", "grades.jsonl"])
def test_the_samples_that_did_not_pass_run_again(flow: Any, tmp_path: Path, named: str) -> None:
    write(tmp_path / "faq.jsonl", [*NAMES, "gone"])
    (tmp_path / "flow.py").write_text(FLOW.replace('== "boom"', 'in ("boom", "gone", "q4.txt")'))
    assert flow("--name", "whole", "-o", "grades.json", "-o", "grades.jsonl").code == 1
    write(tmp_path / "faq.jsonl", NAMES)
    (tmp_path / "flow.py").write_text(FLOW)
    done = flow("--failed-in", named, "--repeat", "2", "--name", "part")
    assert "no longer has 1 failed sample: gone" in done.err
    assert [run[0] for run in ran(tmp_path, "part")] == ["q2", "q2", "q4.txt", "q4.txt"]


def test_a_sample_that_failed_once_or_could_not_be_graded_did_not_pass(
    flow: Any, tmp_path: Path
) -> None:
    assert flow("--name", "whole", "--repeat", "2", "-o", "grades.json", "--no-store").code == 1
    grades = json.loads((tmp_path / "grades.json").read_text())
    for result in grades["results"]:
        result["passed"] = result["run_id"] != "whole:q1:2"
    (tmp_path / "some.json").write_text(json.dumps(grades))
    flow("--failed-in", "some.json", "--name", "part", "--no-store")
    assert ran(tmp_path, "part") == [("q1", 1, 1)]
    grades["faults"] = [{"file": "runs.jsonl", "message": "a score is text"}]
    (tmp_path / "some.json").write_text(json.dumps(grades))
    done = flow("--failed-in", "some.json", "--name", "again", "--no-store")
    assert (done.code, "the grades are incomplete" in done.err) == (3, True)


def test_an_evaluation_of_chosen_samples_says_so_and_is_never_the_latest(
    flow: Any, assay: Any, tmp_path: Path
) -> None:
    flow("--name", "whole")
    done = flow("--only", "q1,q2", "--limit", "1", "--name", "part")
    assert "--limit left out 1 of 2 samples" in done.err
    assert "faq@" in done.out
    assert "(1 of 4 samples, chosen)" in done.out
    assert "(1 of 4 samples, chosen)" in assay("evals").out
    listed = json.loads(assay("evals", "--json").out)["evaluations"]
    assert [one.get("only") for one in listed] == [{"of": 4, "samples": ["q1"]}, None]
    shown = assay("explain", "latest")
    assert "latest is whole" in shown.err
    absent = assay("explain", "latest~1").err
    assert "has 2 evaluations; those of chosen samples are never the latest" in absent
    assert assay("explain", "part").code == 0
    with serving(f"{tmp_path}/.assay/ledger.db") as api:
        records = [item["record"] for item in api.get("/evaluations").json()["items"]]
        assert [one.get("only") for one in records] == [one.get("only") for one in listed]
        assert api.get("/evaluations/latest").json()["record"]["name"] == "whole"
    assert assay("ledger", "verify").code == 0
    newer = json.loads((tmp_path / "workflow.yaml").read_text()) | {"version": 2}
    (tmp_path / "workflow.yaml").write_text(json.dumps(newer))
    flow("--name", "next", "--only", "q1")
    decided = assay("gate", "next", "--baseline", "latest")
    assert "latest is whole" in decided.err


def test_a_resumed_run_keeps_the_samples_that_it_was_started_with(
    flow: Any, assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "names.txt").write_text("q1\nq,3\n")
    flow("--only", "names.txt", "--name", "part", "--no-store")
    folder = tmp_path / "assay-runs" / "part"
    (folder / "runs.jsonl").unlink()
    journal = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(journal[:2]))
    (tmp_path / "names.txt").write_text("q2\n")
    refused = assay("run", "--resume", str(folder), "--only", "q2")
    assert (refused.code, "--only can't change" in refused.err) == (2, True)
    assert assay("run", "--resume", str(folder)).code == 0
    assert [run[0] for run in ran(tmp_path, "part")] == ["q1", "q,3"]
