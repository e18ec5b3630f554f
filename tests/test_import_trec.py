"""TREC files: each query is a sample, measured as `assay measure retrieval` measures it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from assay.cli.main import run as assay
from assay.errors import AssayError, ExitCode
from assay.files.json_files import Document
from assay.files.trec_files import read_qrels, read_run
from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.scoring.metrics.retrieval import evaluate
from assay.views.documents import plain
from peer_files import imported, survives, takers

RUN = """q1 Q0 d1 1 3.0 bm25
q1 Q0 d2 2 2.0 bm25
q1 Q0 d9 7 2.0 bm25
q2\tQ0\td4\t1\t-1.5e0\tbm25
q7 Q0 d4 1 1.0 bm25
"""
QRELS = "q1 0 d1 1\nq1 0 d2 0\nq1 0 d3 1\nq2 0 d4 1\nq3 0 d5 1\nq4 0 d5 0\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    run, qrels = tmp_path / "bm25.run", tmp_path / "trec-small.qrels"
    run.write_text(RUN)
    qrels.write_text(QRELS)
    return run, qrels


def test_each_query_has_its_ranking_and_every_relevant_document(files: Any) -> None:
    run, qrels = files
    assert takers(run) == takers(qrels) == ["trec"]
    runs, tally = imported("trec", qrels, run)
    assert [one["dataset"]["sample_id"] for one in runs] == ["q1", "q2", "q3"]
    # equal scores: the higher id first, whatever the file says of ranks
    assert [(one["id"], one["relevant"]) for one in runs[0]["retrieval"]] == [
        ("d1", True),
        ("d9", False),
        ("d2", False),
    ]
    assert runs[0]["expected"] == {"relevant_ids": ["d1", "d3"]}
    assert runs[0]["workflow"] == {"id": "retrieval", "version": "bm25"}
    assert runs[0]["dataset"]["id"] == "trec-small"
    assert runs[2]["status"] == "cancelled"
    assert "retrieval" not in runs[2]
    assert tally.read == {"judgements": 6, "results": 5}
    assert tally.dropped == {
        "queries without a relevant document": 1,
        "queries without judgements": 1,
    }


def test_a_byte_order_mark_is_no_part_of_the_first_query(files: Any) -> None:
    plainly = imported("trec", *files)[0]
    for path in files:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    runs, tally = imported("trec", *files)
    assert [one["retrieval"] for one in runs[:2]] == [one["retrieval"] for one in plainly[:2]]
    assert tally.dropped["queries without judgements"] == 1


def test_the_shelf_measures_what_trec_eval_measures(tmp_path: Path) -> None:
    chance = random.Random(5)
    queries = [f"q{n}" for n in range(12)]
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    documents = [f"d{n}" for n in range(40)]
    run.write_text(
        "".join(
            f"{query} Q0 {document} 1 {chance.randrange(9) / 3} sys\n"
            for query in queries
            for document in chance.sample(documents, 25)
        )
    )
    qrels.write_text(
        "".join(
            f"{query} 0 {document} {chance.choice((0, 1, 1))}\n"
            for query in queries
            for document in [*chance.sample(documents[:-1], 8)]
        )
    )
    theirs = evaluate(
        read_qrels(str(qrels)), read_run(str(run)), ["ndcg_cut_10", "map", "recall_100"]
    )
    runs, _ = imported("trec", run, qrels)
    assert len(runs) == len(theirs.queries) == 12
    grader = Grader(Shelf(), profile="retrieval")
    for one in runs:
        grade: Any = plain(grader.grade(Document(one, "run")).payload())
        ours = {item["name"]: item["norm"] for item in grade["criteria"]}
        query = theirs.queries[one["dataset"]["sample_id"]]
        assert float(ours["ndcg"]) == pytest.approx(query["ndcg_cut_10"], abs=1e-9)
        assert float(ours["average_precision"]) == pytest.approx(query["map"], abs=1e-9)
        assert float(ours["recall"]) == pytest.approx(query["recall_100"], abs=1e-9)


def test_grades_above_one_are_noted_with_the_command_that_uses_them(files: Any) -> None:
    run, qrels = files
    qrels.write_text(QRELS.replace("d1 1", "d1 3"))
    _, tally = imported("trec", run, qrels)
    assert any("several grades" in note for note in tally.notes)


def test_one_file_alone_or_a_broken_one_is_refused(files: Any, tmp_path: Path) -> None:
    run, qrels = files
    other = tmp_path / "other.qrels"
    other.write_text(QRELS)
    for paths, words in (
        ([run], "the judgements (qrels) that measure this run are missing"),
        ([qrels], "the run that these judgements measure is missing"),
        ([run, qrels, other], "several files of judgements"),
    ):
        with pytest.raises(AssayError) as caught:
            imported("trec", *paths)
        assert words in str(caught.value)
    chance, survived = random.Random(1), 0
    for _ in range(60):
        at = chance.randrange(len(RUN))
        run.write_text(RUN[:at] + chance.choice((" ", "\n", "x", "nan", "é")) + RUN[at + 1 :])
        try:
            imported("trec", run, qrels)
            survived += 1
        except AssayError:
            pass
    assert 0 < survived < 60
    run.write_bytes(RUN.encode() + "q8 Q0 dü 1 1 x\n".encode("latin-1"))
    assert not survives("trec", run)


def test_other_texts_are_not_taken_for_trec_files(tmp_path: Path) -> None:
    for text in (
        "a,b,c\n1,2,3\n",
        "the first line of a text\n",
        json.dumps({"a": 1}),
        "1 2 3 4.5\n",
    ):
        path = tmp_path / "x"
        path.write_text(text)
        assert "trec" not in takers(path)


def test_the_command_grades_both_files_together(
    files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run, qrels = (path.name for path in files)
    assert assay(["grade", run, qrels]) == ExitCode.FAILED
    shown = capsys.readouterr()
    assert "1 passed, 2 failed" in shown.out


def test_a_profile_of_the_candidates_tool_never_judges_a_baseline_of_another(
    files: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "old.csv"
    rows = "".join(f"q{index},x,1.0\n" for index in range(1, 5))
    table.write_text("id,answer,score\n" + rows)
    code = assay(["gate", *map(str, files), "--baseline", str(table)])
    assert code == ExitCode.MALFORMED
    assert "results of two tools can't be compared: trec, table" in capsys.readouterr().err
