"""`assay ledger export`: stored grades as Parquet that a batch reads."""

from __future__ import annotations

import json
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pytest

import assay as package
from assay.store.ledger import open_ledger
from documents import FAMILIES, run, scorecard
from postgres import ledger_url, postgres_url

__all__ = ["ledger_url", "postgres_url"]

EXAMPLES = Path(package.__file__).parent / "cli" / "examples"
SECRET = "sk-live-51Hq2eZvKYlo2C"


def write(path: Path, *documents: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(document, default=float) + "\n" for document in documents))
    return path.name


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query over the table `lake`."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        connection.read_parquet(f"{folder}/**/*.parquet", hive_partitioning=True).create_view(
            "lake"
        )
        found: list[tuple[Any, ...]] = connection.sql(query).fetchall()
        return found


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)  # the others use SQLite
def test_an_export_has_every_stored_number(assay: Any, tmp_path: Path, ledger_url: str) -> None:
    lake = tmp_path / "lake"
    first = [run(family, run_id=f"r-{family}", outputs={"key": SECRET}) for family in FAMILIES]
    assay("grade", write(tmp_path / "first.jsonl", *first), "--store", ledger_url)
    done = assay("ledger", "export", "-o", "lake", "--db", ledger_url, "--json")
    assert (done.code, done.json()["grades"]) == (0, 4)
    assert len(files(lake)) == 4
    assert not any(SECRET.encode() in data for data in files(lake).values())

    with open_ledger(ledger_url) as ledger:
        stored = {
            f"default:{item.seq}": (item.digest, item.tree()) for item in ledger.find("grade").items
        }
    heads = rows(
        lake,
        "select distinct run, record, run_id, stored_grade, stored_score, stored_passed, sample,"
        " workflow, version, dataset, policy, profile, project from lake",
    )
    assert len(heads) == 4
    for name, record, run_id, letter, score, passed, sample, *rest in heads:
        digest, tree = stored[name]
        assert (record, run_id, letter, score, passed) == (
            digest,
            tree["run_id"],
            tree["grade"],
            tree["weighted_score"],
            tree["passed"],
        )
        dataset, workflow = tree["dataset"], tree["workflow"]
        assert sample == f"{dataset['id']}/{dataset['sample_id']}"
        assert rest == [
            workflow["id"],
            workflow["version"],
            dataset["id"],
            tree["policy"],
            tree["profile"],
            "default",
        ]
    cells = rows(
        lake,
        "select run, criterion, raw, n, passed, total, gate, verdict from lake",
    )
    assert len(cells) == sum(
        len(tree["criteria"]) + len(tree["hard_gates"]) for _, tree in stored.values()
    )
    for name, criterion, raw, n, passed, total, gate, verdict in cells:
        tree = stored[name][1]
        if criterion is None:
            status = tree["hard_gates"][gate]["status"]
            assert verdict is {"pass": True, "fail": False, "undetermined": None}[status]
            continue
        item = next(one for one in tree["criteria"] if one["name"] == criterion)
        given = item["raw_score"]
        counts = isinstance(given, dict)
        assert (raw, n) == (None if counts or given is None else float(given), item["n"])
        assert {"passed": passed, "total": total} == (
            given if counts else {"passed": None, "total": None}
        )

    second = write(tmp_path / "second.jsonl", run("rag", run_id="r-new"))
    assay("grade", second, "--store", ledger_url)
    assay("grade", second, "--store", ledger_url, "--project", "other")
    more = assay("ledger", "export", "-o", "more", "--db", ledger_url, "--json").json()
    assert {name: done["grades"] for name, done in more["projects"].items()} == {
        "default": 5,
        "other": 1,
    }
    # the same grade in two projects is two runs, so that a batch over both refuses neither
    assert rows(
        tmp_path / "more", "select count(distinct run), count(distinct record) from lake"
    ) == [(6, 5)]


def test_hostile_names_stay_text_and_numbers_that_no_double_has_are_left_out(
    assay: Any, tmp_path: Path
) -> None:
    hostile = 'r\x00\n"; drop table lake; -- \u202e\U0001f600'
    cards = [
        scorecard({"norm": 1}, run_id=hostile, sample_id="../../etc", group="a'b"),
        scorecard({"norm": "0.1234567890123456789"}, run_id="r-long"),
    ]
    text = "".join(json.dumps(card, default=str) + "\n" for card in cards)
    (tmp_path / "cards.jsonl").write_text(
        text.replace('"0.1234567890123456789"', "0.1234567890123456789")
    )
    assert assay("grade", "cards.jsonl", "--store").code in (0, 1)
    done = assay("ledger", "export", "-o", "lake")
    assert done.code == 1
    assert "1 left out: a raw score that no double or 64-bit integer has exactly" in done.out
    assert rows(
        tmp_path / "lake", 'select distinct run_id, sample, "group", profile from lake'
    ) == [(hostile, "../../etc", "a'b", None)]


def test_what_was_forgotten_is_not_exported(assay: Any, tmp_path: Path) -> None:
    runs = [run("rag", run_id=f"r-{number}") for number in range(3)]
    assay("grade", write(tmp_path / "runs.jsonl", *runs), "--store")

    with open_ledger(f"sqlite:///{tmp_path}/.assay/ledger.db") as ledger:
        (item,) = ledger.find("grade", {"run_id": "r-0"}).items
        ledger.forget(item.digest, author="ann", reason="asked to")
    done = assay("ledger", "export", "-o", "lake", "--json")
    assert (done.code, done.json()["left_out"], done.json()["grades"]) == (
        0,
        {"forgotten in the ledger": 1},
        2,
    )
    found = rows(tmp_path / "lake", "select distinct run_id from lake order by 1")
    assert found == [("r-1",), ("r-2",)]


def test_an_export_is_a_new_folder_or_none(assay: Any, tmp_path: Path) -> None:
    empty = assay("ledger", "export", "-o", "lake")
    assert (empty.code, "there is no ledger" in empty.err) == (3, True)
    assay("grade", write(tmp_path / "run.jsonl", run("rag", run_id="r-1")), "--store")
    assert assay("ledger", "export", "-o", "lake", "--project", "none").code == 4
    assert not (tmp_path / "lake").exists()
    (tmp_path / "notes.txt").write_text("mine")
    below = assay("ledger", "export", "-o", "notes.txt/lake")
    assert (below.code, "notes.txt" in below.err) == (2, True)
    assert assay("ledger", "export", "-o", "lake").code == 0
    before = files(tmp_path / "lake")
    for name in ("lake", "notes.txt"):
        refused = assay("ledger", "export", "-o", name)
        assert (refused.code, f"{name}: already exists." in refused.err) == (2, True)
    assert files(tmp_path / "lake") == before
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_changed_record_is_never_exported(assay: Any, tmp_path: Path) -> None:
    assay("grade", write(tmp_path / "run.jsonl", run("rag", run_id="r-1")), "--store")
    with sqlite3.connect(tmp_path / ".assay" / "ledger.db") as database:
        triggers = database.execute("select name from sqlite_master where type = 'trigger'")
        for (name,) in triggers.fetchall():
            database.execute(f'drop trigger "{name}"')
        database.execute(
            'update records set body = cast(replace(cast(body as text), \'"grade":"F"\','
            " '\"grade\":\"A\"') || ' ' as blob) where kind = 'grade'"
        )
    done = assay("ledger", "export", "-o", "lake")
    assert (done.code, "does not match its digest" in done.err) == (3, True)
    assert files(tmp_path / "lake") == {}


def test_an_export_of_a_ledger_that_lost_a_grade_fails(assay: Any, tmp_path: Path) -> None:
    runs = [run("rag", run_id=f"r-{number}") for number in range(3)]
    assay("grade", write(tmp_path / "runs.jsonl", *runs), "--store")
    assert assay("ledger", "export", "-o", "whole").code == 0
    with sqlite3.connect(tmp_path / ".assay" / "ledger.db") as database:
        triggers = database.execute("select name from sqlite_master where type = 'trigger'")
        for (name,) in triggers.fetchall():
            database.execute(f'drop trigger "{name}"')
        database.execute("delete from records where kind = 'grade' and run_id = 'r-1'")
    done = assay("ledger", "export", "-o", "lake")
    assert (done.code, "1 left out: missing from the ledger" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ("update records set body = null where kind = 'grade'", 1, "without content, and no"),
        ("update heads set seq = 'abc'", 3, "STO-007"),
        ("update heads set chain = 'abc'", 3, "STO-007"),
        ("update records set seq = 'x' where kind = 'grade'", 3, "STO-007"),
    ],
)
def test_an_export_reports_what_another_program_wrote_into_the_ledger(
    assay: Any, tmp_path: Path, change: str, code: int, words: str
) -> None:
    assay("grade", write(tmp_path / "runs.jsonl", run(run_id="r-1")), "--store")
    with closing(sqlite3.connect(tmp_path / ".assay" / "ledger.db")) as database, database:
        triggers = "select name from sqlite_master where type = 'trigger'"
        for (name,) in database.execute(triggers).fetchall():
            database.execute(f'drop trigger "{name}"')
        database.execute(change)
    done = assay("ledger", "export", "-o", "lake")
    assert done.code == code, done.err
    assert words in done.out + done.err
    assert assay("ledger", "verify").code == 1


def test_the_rows_of_an_export_give_the_stored_letters_again(assay: Any, tmp_path: Path) -> None:
    runs = []
    for family in FAMILIES:
        runs += [
            run(family, run_id=f"{family}-good"),
            run(family, run_id=f"{family}-failed", status="failed"),
            run(family, run_id=f"{family}-slow", latency_ms=17123.4567),
            run(family, run_id=f"{family}-bare", latency_ms=None, steps=None),
        ]
    examples = [EXAMPLES / f"{family}.jsonl" for family in FAMILIES]
    assay("grade", write(tmp_path / "runs.jsonl", *runs), *examples, "--store")
    assert assay("ledger", "export", "-o", "lake").code == 0
    (part, *_) = (tmp_path / "lake").glob("**/*.parquet")
    refused = assay("gate", part, "--baseline", part, "--map", "passed=stored_passed")
    assert (refused.code, "each score and verdict" in refused.err) == (3, True), refused.err
    seen = set()
    for folder in (tmp_path / "lake" / "project=default").iterdir():
        grades = package.grade_table(
            str(folder),
            profile=unquote(folder.name.removeprefix("profile=")),
            keep=["stored_grade", "stored_score"],
        )
        by_engine = grades.select("grade", "stored_grade", "score", "stored_score").fetchall()
        assert len(by_engine) == 7
        for letter, stored, score, stored_score in by_engine:
            assert (letter, f"{score:.2f}") == (stored, f"{stored_score:.2f}")
            seen.add(letter)
    assert seen == {*"ABCDF"}


def test_exported_grades_by_another_judge_are_not_compared(assay: Any, tmp_path: Path) -> None:
    for name, judge in (("old", "strict"), ("same", "strict"), ("kinder", "kind")):
        given = {"raw": 1, "source": {"kind": "llm", "name": judge, "version": "1"}}
        runs = [
            run("rag", run_id=f"r-{n}", dataset={"id": "d", "version": "1", "sample_id": f"s-{n}"})
            | {"scores": {"response_relevance": given, "safety": given}}
            for n in range(50)
        ]
        if name == "same":
            del runs[2]["scores"]  # the judge gave no answer
        ledger = f"{name}.db"
        assay("grade", write(tmp_path / f"{name}.jsonl", *runs), "--store", f"sqlite:///{ledger}")
        done = assay("ledger", "export", "-o", name, "--db", f"sqlite:///{ledger}")
        hint = done.out.splitlines()[-1].replace("graded-1.parquet", f"graded-{name}.parquet")
        assert assay(*shlex.split(hint)[1:]).code in (0, 1), hint
    other = assay("gate", "graded-kinder.parquet", "--baseline", "graded-old.parquet")
    assert other.code == 3, other.out
    assert "judge: kind (version 1) here, strict (version 1) in the baseline" in other.err
    same = assay("gate", "graded-same.parquet", "--baseline", "graded-old.parquet")
    assert same.code == 1, same.err  # compared, and worse by the missing score


def test_repeats_of_a_sample_go_through_an_export_and_a_batch(assay: Any, tmp_path: Path) -> None:
    runs = [
        run(
            "rag",
            run_id=f"r-{n}-{attempt}",
            attempt=attempt,
            dataset={"id": "d", "version": "1", "sample_id": f"s-{n}"},
        )
        for n in range(50)
        for attempt in (1, 2)
    ]
    assay("grade", write(tmp_path / "runs.jsonl", *runs), "--store")
    hint = assay("ledger", "export", "-o", "lake").out.splitlines()[-1]
    assert assay(*shlex.split(hint)[1:]).code in (0, 1), hint
    made = assay("gate", "graded-1.parquet", "--baseline", "graded-1.parquet", "--json")
    assert (made.code, made.json()["comparison"]["n_paired"]) == (0, 50), made.err
    by_files = assay("gate", "runs.jsonl", "--baseline", "runs.jsonl", "--json").json()
    assert made.json()["comparison"]["difference"] == by_files["comparison"]["difference"]


def test_the_hint_after_an_export_asks_for_the_file_of_an_own_profile(
    assay: Any, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(
        "profile: own\nversion: 1\ntitle: Own\nfamily: rag\ngates: []\ncriteria:\n"
        "  - {id: q, label: Q, weight: 1, role: correctness, layer: 2, formula: zero_one}\n"
    )
    evidence = write(tmp_path / "runs.jsonl", run("rag", run_id="r-1"))
    assay("grade", evidence, "--store", "l.db", "--profile", "own.yaml")
    done = assay("ledger", "export", "-o", "lake", "--db", "l.db")
    place, commands = "lake/project=default/profile=own%401", done.out.count("assay batch lake")
    assert (done.code, commands, f"{place} needs the file of its profile" in done.out) == (
        0,
        0,
        True,
    ), done.out
