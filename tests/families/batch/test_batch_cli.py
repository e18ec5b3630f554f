"""`assay batch`: real files of every kind in, grades, rejects and a record out."""

from __future__ import annotations

import gzip
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.feather
import pytest

from assay import library as assay_library
from assay.cli.process import INTERRUPTED
from assay.errors import AssayError
from assay.families.batch.batching import plan_batch
from assay.families.batch.records import read_batch_record
from assay.families.batch.sources import find_sources
from assay.families.batch.targets import open_workplace, target_of, tidy_up
from assay.files.json_files import read_json
from assay.library.shelf import Shelf
from examples import CAMPAIGN

PROFILE = str(Path(__file__).parent / "fixtures" / "short-answers@1.yaml")
PLAN = plan_batch(Shelf(), profile=PROFILE, policy="workflow")
GATES = ", ".join(f'true AS "{gate}"' for gate in PLAN.gates)
WIDE = (
    "'r-' || i AS run, 9 AS answer_correctness_passed, 10 AS answer_correctness_total,"
    f" CASE WHEN i = 3 THEN 0.5 ELSE 0.95 END AS lexical_support, {GATES}"
)


def rows(where: str = "range(5) t(i)") -> str:
    return f"SELECT {WIDE} FROM {where}"


def write(path: Path, sql: str, form: str = "parquet") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY ({sql}) TO '{path}' (FORMAT {form})")


def grades(path: Path) -> list[tuple[Any, ...]]:
    return duckdb.sql(
        f"SELECT run, grade, passed, reason, score FROM read_parquet('{path}') ORDER BY run"
    ).fetchall()


def test_every_kind_of_input_gives_the_same_grades_and_a_record_of_itself(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "s.parquet", rows())
    write(tmp_path / "s.csv", rows(), "csv")
    write(tmp_path / "s.jsonl", rows(), "json")
    write(tmp_path / "z.csv.gz", rows(), "csv")
    write(tmp_path / "z.jsonl.gz", rows(), "json")
    shutil.copy(tmp_path / "z.jsonl.gz", tmp_path / "z.ndjson.gz")
    write(tmp_path / "z.tsv.gz", rows(), r"csv, DELIMITER '\t'")
    assert (tmp_path / "z.csv.gz").read_bytes()[:2] == b"\x1f\x8b"
    pyarrow.feather.write_feather(duckdb.sql(rows()).to_arrow_table(), tmp_path / "s.arrow")
    made = {}
    files = ["s.parquet", "s.arrow", "z.tsv.gz", "z.ndjson.gz"]
    if CAMPAIGN:
        files += ["s.csv", "s.jsonl", "z.csv.gz", "z.jsonl.gz"]
    for name in files:
        out = f"{name}.graded.parquet"
        done = assay("batch", name, "-o", out, "--profile", PROFILE)
        assert done.code == 1, (name, done.err)
        assert "✗ 4 of 5 runs passed (80.0%)" in done.out
        assert "lexical_support 1" in done.out
        made[name] = grades(tmp_path / out)
        record = read_batch_record(read_json(str(tmp_path / f"{out[:-8]}.batch.json")))
        assert (record.counts.runs, record.counts.passed, record.counts.rows) == (5, 4, 5)
        assert record.inputs[0].digest is not None
        assert not record.rejects
    first = made["s.parquet"]
    assert [row[3] for row in first].count("critical_floor_failure") == 1
    assert all(rest == first for rest in made.values())
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")], "nothing is left"


def test_csv_and_jsonl_outputs_hold_the_same_rows(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "s.parquet", rows())
    for form in ("csv", "jsonl") if CAMPAIGN else ("csv",):
        done = assay("batch", "s.parquet", "-o", f"g.{form}", "--profile", PROFILE, "--json")
        assert done.code == 1
        assert done.json()["failed"]["floors"] == {"lexical_support": 1}
        found = duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/g.{form}'").fetchall()
        assert found == [(5,)]
        (tmp_path / "g.batch.json").unlink()


def test_rows_that_count_for_nothing_are_shown_and_fail_the_exit_code(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "s.parquet", f"{rows()} UNION ALL {rows('range(4, 5) t(i)')}")
    (tmp_path / "more.csv").write_text(
        f"run,lexical_support,{PLAN.gates[0]},note,team\nx-1,abc,true,a,b\n"
        "x-2,0.80000000000000001,,a,b\nx-3,nan,,a,b\nx-4,1,yes,a,b\n",
        encoding="utf-8",
    )
    done = assay("batch", "s.parquet", "-o", "g.parquet", "--profile", PROFILE)
    assert done.code == 3
    assert "GRD-102" in done.out
    assert "r-4" in done.out
    assert "g.rejects.parquet" in done.out
    assert ("r-4", None, False, "invalid_evidence", None) in grades(tmp_path / "g.parquet")
    assert "versions of the same runs" not in done.out
    for version in ("v1", "v2"):
        write(tmp_path / "versions" / f"{version}.parquet", rows())
    done = assay("batch", "versions", "-o", "v.parquet", "--profile", PROFILE)
    assert done.code == 3
    assert "If the 2 inputs are versions of the same runs, grade each into its own" in done.out
    done = assay("batch", "more.csv", "-o", "m.parquet", "--profile", PROFILE, "--json")
    assert done.code == 3
    assert {(one["code"], one["examples"][-1]) for one in done.json()["rejected"]} == {
        ("SCO-003", "x-3 lexical_support = nan"),
        ("BAT-010", "x-2 lexical_support = 0.80000000000000001"),
        ("BAT-025", f"x-4 {PLAN.gates[0]} = yes"),
    }
    assert "x-1 lexical_support = abc" in done.out
    assert done.json()["record"]["counts"]["invalid"] == 4
    assert done.json()["unused"] == ["note", "team"]
    done = assay("batch", "more.csv", "-o", "n.parquet", "--profile", PROFILE, "--keep", "note")
    assert "not used    team\n" in done.out


def test_the_bar_is_shown_on_a_terminal_and_gone_at_the_end_without_a_report_of_leaks(
    tmp_path: Path,
) -> None:
    write(tmp_path / "s.parquet", rows())
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "assay", "batch", "s.parquet", "-o", "g.parquet"]
    done = subprocess.run(
        [*command, "--profile", PROFILE],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "CI"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=False,
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 1
    assert "\rbatch [##" in shown, "in a terminal it is erased to the end of the line each time"
    assert shown.endswith("\r\x1b[K")
    assert "leaked" not in shown, "DuckDB counts what is left open when the process ends"
    assert b"\r" not in done.stdout


def test_an_input_that_cannot_be_read_leaves_nothing_behind(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "s.parquet", rows())
    whole = (tmp_path / "s.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-40])
    middle = len(whole) // 3
    broken = whole[:middle] + bytes(64) + whole[middle + 64 :]
    (tmp_path / "broken.parquet").write_bytes(broken)
    (tmp_path / "ragged.csv").write_text("run,lexical_support\na,1\nb,1,2\n", encoding="utf-8")
    (tmp_path / "twice.csv").write_text("run,raw,raw\na,1,1\n", encoding="utf-8")
    (tmp_path / "bad.jsonl").write_text('{"run": "a"}\nnot json\n', encoding="utf-8")
    (tmp_path / "keys.jsonl").write_text('{"run": "a", "run": "b"}\n', encoding="utf-8")
    (tmp_path / "bad.arrow").write_bytes(b"ARROW1 no")
    write(tmp_path / "typed.parquet", "SELECT 'a' AS run, [1] AS lexical_support")
    for log in ("delta/_delta_log", "hudi/.hoodie", "ice/metadata"):
        (tmp_path / log).mkdir(parents=True)
        write(tmp_path / log.partition("/")[0] / "data/part.parquet", rows())
    (tmp_path / "ice/metadata/v1.metadata.json").write_text("{}", encoding="utf-8")
    shutil.copytree(tmp_path / "delta", tmp_path / "inside/delta")
    packed = gzip.compress(b"run,lexical_support\n" + b"".join(b"r-%d,1\n" % n for n in range(99)))
    (tmp_path / "cut.csv.gz").write_bytes(packed[:-20])
    (tmp_path / "bad.csv.gz").write_bytes(packed[:12] + bytes(40) + packed[52:])
    (tmp_path / "bad.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "empty.csv").write_text("run,lexical_support\n", encoding="utf-8")
    before = sorted(os.listdir(tmp_path))
    for name, code in {
        "cut.parquet": 3,
        "broken.parquet": 3,
        "ragged.csv": 3,
        "twice.csv": 3,
        "bad.jsonl": 3,
        "keys.jsonl": 3,
        "bad.arrow": 3,
        "typed.parquet": 3,
        "delta": 2,
        "ice": 2,
        "hudi": 2,
        "delta/data": 3,
        "ice/data/part.parquet": 3,
        "hudi/data": 3,
        "inside": 3,
        "cut.csv.gz": 3,
        "bad.csv.gz": 3,
        "bad.jsonl.gz": 3,
        "empty.csv": 4,
        "absent.parquet": 3,
        "s.xlsx": 3,
    }.items():
        done = assay("batch", name, "-o", "g.parquet", "--profile", PROFILE)
        assert done.code == code, (name, done.code, done.err, done.out)
        assert "Traceback" not in done.err
        if name.startswith(("delta", "ice", "hudi")):
            assert "to Parquet" in done.err, "never its files: they may contain deleted rows"
    assert sorted(os.listdir(tmp_path)) == before


def test_an_output_that_exists_stays_unless_overwriting_is_asked_for(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "s.parquet", rows())
    (tmp_path / "g.parquet").write_bytes(b"mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("mine", encoding="utf-8")
    run = ("batch", "s.parquet", "--profile", PROFILE)
    assert assay(*run, "-o", "g.parquet").code == 2
    assert (tmp_path / "g.parquet").read_bytes() == b"mine"
    assert assay(*run, "-o", "g.parquet", "--overwrite").code == 1
    assert len(grades(tmp_path / "g.parquet")) == 5
    assert assay(*run, "-o", "folder", "--overwrite").code == 2, "that isn't a batch's output"
    assert assay(*run, "-o", "s.parquet", "--overwrite").code == 2, "the input is never overwritten"
    assert (tmp_path / "folder" / "mine.txt").exists()
    assert assay(*run, "-o", "out").code == 1
    assert assay(*run, "-o", "out").code == 2
    assert assay(*run, "-o", "out", "--overwrite").code == 1
    assert len(grades(tmp_path / "out" / "grades" / "*.parquet")) == 5


def test_only_new_and_changed_partitions_are_graded_again(assay: Any, tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / f"in/day={day}/a.parquet", rows(f"range({10 * day}, {10 * day + 3}) t(i)"))
    run = ("batch", "in", "-o", "out", "--profile", PROFILE, "--keep", "day", "--json")
    first = assay(*run)
    assert first.code == 0, first.err
    assert first.json()["partitions"] == {"graded": ["day=1", "day=2"], "kept": []}
    os.utime(tmp_path / "in/day=1/a.parquet")
    if CAMPAIGN:
        again = assay(*run).json()
        assert again["partitions"] == {"graded": [], "kept": ["day=1", "day=2"]}
        assert again["record"] == first.json()["record"], "touching a file changes nothing"
    write(tmp_path / "in/day=3/a.parquet", rows("range(3, 4) t(i)"))
    write(tmp_path / "in/day=2/a.parquet", rows("range(20, 25) t(i)"))
    third = assay(*run)
    assert third.code == 1
    assert third.json()["partitions"] == {
        "graded": ["day=2", "day=3"],
        "kept": ["day=1"],
    }
    assert third.json()["record"]["counts"]["runs"] == 9
    written = tmp_path / "out/grades/day=1/part-0.parquet"
    write(written, f"SELECT * REPLACE (true AS passed) FROM '{written}'")
    fourth = assay(*run).json()["partitions"]
    assert fourth["graded"] == ["day=1"], "changed grades don't count"
    record = json.loads((tmp_path / "out/batch.json").read_text())
    for one in record["outputs"]:
        one["name"] = f"../out/{one['name']}"
    (tmp_path / "out/batch.json").write_text(json.dumps(record))
    fifth = assay(*run).json()["partitions"]
    assert fifth["kept"] == [], "a record that names files elsewhere doesn't count"
    shutil.rmtree(tmp_path / "in/day=3")
    forgetful = assay(*run)
    assert forgetful.code == 2, "its runs failed, and what is left would pass"
    assert "has grades of day=3, which the input no longer has." in forgetful.err
    assert assay(*run, "--overwrite").code == 0
    assert assay(*run, "--policy", "workflow", "--keep", "run").code == 2, "graded in another way"
    write(tmp_path / "in/day=4/a.parquet", rows("range(20, 21) t(i)"))
    split = assay(*run)
    assert split.code == 3
    assert json.loads(split.err)["error"]["code"] == "BAT-024"
    assert not (tmp_path / "out/grades/day=4").exists()


def test_a_stricter_policy_grades_norms_again_without_the_evidence(
    assay: Any, tmp_path: Path
) -> None:
    others = (
        "5 AS citation_resolution_passed, 5 AS citation_resolution_total,"
        " 0.9 AS context_precision, 0.9 AS context_recall, 9000 AS efficiency"
    )
    twice = f"{rows()} UNION ALL {rows('range(4, 5) t(i)')}"
    write(tmp_path / "s.parquet", f"SELECT *, {others} FROM ({twice})")
    shipped = ("--profile", "rag-measured@1")  # found by its name when norms are graded
    assert assay("batch", "s.parquet", "-o", "old", *shipped).code == 3
    once = assay("batch", "s.parquet", "-o", "new.parquet", *shipped)
    assert once.code == 3
    (tmp_path / "s.parquet").unlink()
    again = assay("batch", "old", "-o", "again.parquet")
    assert again.code == 3, (again.out, again.err)
    query = "SELECT * FROM '{}' ORDER BY run"
    old = duckdb.sql(query.format(tmp_path / "new.parquet")).fetchall()
    new = duckdb.sql(query.format(tmp_path / "again.parquet")).fetchall()
    assert new == old, "the same policy gives the same rows, faults included"
    policy = Path(assay_library.__file__).parent / "policies" / "workflow@1.yaml"
    strict = policy.read_text(encoding="utf-8").replace("pass_threshold: 70", "pass_threshold: 99")
    (tmp_path / "strict.yaml").write_text(strict.replace("policy: workflow", "policy: strict"))
    done = assay("batch", "old", "-o", "strict", "--policy", "strict.yaml", "--json")
    assert done.code == 3, done.err
    assert done.json()["record"]["counts"]["passed"] == 0
    assert done.json()["failed"]["reasons"]["below_pass_threshold"] == 3
    record = json.loads((tmp_path / "new.batch.json").read_text())
    (tmp_path / "new.batch.json").write_text(json.dumps({**record, "keep": ["no column"]}))
    absent = assay("batch", "new.parquet", "-o", "absent.parquet", "--json")
    assert absent.code == 3, "the record names a column that the grades lack"
    assert json.loads(absent.err)["error"]["code"] == "BAT-008"
    (tmp_path / "new.batch.json").write_text(json.dumps(record))
    written = tmp_path / "old/grades/part-0.parquet"
    write(written, f"SELECT * REPLACE (1.0 AS norm_lexical_support) FROM '{written}'")
    forged = assay("batch", "old", "-o", "forged.parquet", "--json")
    assert forged.code == 3
    assert json.loads(forged.err)["error"]["code"] == "BAT-026"
    other = assay("batch", "new.parquet", "-o", "o.parquet", "--profile", "rag")
    assert other.code == 3
    assert "Grade the evidence again" in other.err
    (tmp_path / "checks.py").write_text("def polite(answer):\n    return True\n")
    (tmp_path / "assay.yaml").write_text("gates:\n  - {target: 'checks:polite'}\n")
    ungated = assay("batch", "new.parquet", "-o", "o.parquet")
    assert (ungated.code, "BAT-027" in ungated.err) == (3, True), "the project asks for a gate more"


def test_a_batch_that_is_killed_leaves_nothing_under_its_name(tmp_path: Path) -> None:
    write(tmp_path / "s.parquet", rows("range(200000) t(i)"))
    command = [sys.executable, "-m", "assay", "batch", "s.parquet", "-o", "g.parquet"]
    with subprocess.Popen([*command, "--profile", PROFILE], cwd=tmp_path) as process:
        while process.poll() is None:
            if list(tmp_path.glob(".g.parquet.*.part")):
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not list(tmp_path.glob("g.*"))


def test_a_batch_that_is_interrupted_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    """DuckDB makes a plain RuntimeError of Ctrl-C."""
    write(tmp_path / "s.parquet", rows("range(300000) t(i)"))
    command = [sys.executable, "-m", "assay", "batch", "s.parquet", "-o", "g.parquet"]
    with subprocess.Popen(
        [*command, "--profile", PROFILE], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not list(tmp_path.glob(".g.parquet.*.part/grades.*")):
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == INTERRUPTED, said
    assert said == "\nassay: interrupted; nothing was written.\n", "nor is anything leaked"
    assert os.listdir(tmp_path) == ["s.parquet"]


def test_the_next_batch_mends_what_a_killed_one_left(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "s.parquet", rows())
    run = ("batch", "s.parquet", "-o", "out", "--profile", PROFILE)
    assert assay(*run).code == 1
    record = (tmp_path / "out/batch.json").read_bytes()
    with open_workplace(target_of(str(tmp_path / "out"))) as alive:
        host, process, _ = Path(alive.folder).name.split(".")[2].split("-")
        dead = tmp_path / f".out.{host}-999999999-{'0' * 16}.part"
        other = tmp_path / f".out.elsewhere-{process}-{'0' * 16}.part"
        for left in (dead, other):
            left.mkdir()
        os.rename(tmp_path / "out", tmp_path / ".out.old")  # between the two renames
        again = assay(*run)
        assert again.code == 2, "the old output is back, and is never replaced by surprise"
        assert "restored out" in again.err
        assert f"removed {dead.name}" in again.err
        assert f"left {other.name}" in again.err
        assert (tmp_path / "out/batch.json").read_bytes() == record
        assert os.path.isdir(alive.folder), "that one is being written"
    other.rmdir()
    (tmp_path / ".out.old").mkdir()  # after both
    assert not tidy_up(target_of(str(tmp_path / "out")))
    assert sorted(os.listdir(tmp_path)) == ["out", "s.parquet"]


def test_a_sample_is_always_the_same_runs(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "s.parquet", rows("range(100) t(i)"))
    write(tmp_path / "t.parquet", f"SELECT * FROM ({rows('range(100) t(i)')}) ORDER BY run DESC")
    found = []
    for name in ("s", "t"):
        done = assay(
            "batch", f"{name}.parquet", "-o", f"{name}-g.parquet", "--profile", PROFILE,
            "--sample", "7", "--json",
        )  # fmt: skip
        assert done.json()["record"]["sample"] == 7
        found.append(grades(tmp_path / f"{name}-g.parquet"))
    assert len(found[0]) == 7
    assert found[0] == found[1]


def test_the_queries_run_as_they_are_printed(
    assay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "s.parquet", rows())
    done = assay("batch", "s.parquet", "--profile", PROFILE, "--explain-sql", "--json")
    assert done.code == 0, done.err
    duckdb.sql(f"CREATE OR REPLACE TEMP VIEW batch_input AS FROM '{tmp_path}/s.parquet'")
    assert len(duckdb.sql(done.json()["grades"]).fetchall()) == 5
    assert duckdb.sql(done.json()["rejects"]).fetchall() == []
    assert sorted(os.listdir(tmp_path)) == ["s.parquet"]
    write(tmp_path / "s.csv", rows(), "csv")
    write(tmp_path / "s.jsonl", rows(), "json")
    done = assay("batch", "s.parquet", "-o", "old", "--profile", PROFILE)
    assert done.code == 1, done.err
    explain = ("--profile", PROFILE, "--explain-sql")
    # the first three differ by the function that reads them
    names = ("s.parquet", "s.jsonl", "s.csv", "old")
    for name in names if CAMPAIGN else names[3:]:
        printed = assay("batch", name, *explain)
        assert printed.code == 0, printed.err
        *_, grades_sql, rejects_sql = statements = duckdb.extract_statements(printed.out)
        with duckdb.connect() as shell:
            for statement in statements[:-2]:
                shell.execute(statement)
            assert len(shell.execute(grades_sql).fetchall()) == 5, name
            assert shell.execute(rejects_sql).fetchall() == []
    pyarrow.feather.write_feather(duckdb.sql(rows()).to_arrow_table(), tmp_path / "s.arrow")
    assert "Make a view of the input first" in assay("batch", "s.arrow", *explain).out
    assert assay("batch", "s.csv", *explain, "--sample", "3").code == 2


def test_names_that_an_engine_reads_as_patterns_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a1.parquet", rows())
    (tmp_path / "a[1].parquet").write_bytes((tmp_path / "a1.parquet").read_bytes())
    for name in ("a[1].parquet", ".", "a1.parquet#x"):
        with pytest.raises(AssayError):
            find_sources([str(tmp_path / name)])
    with pytest.raises(AssayError, match="twice"):
        find_sources([str(tmp_path / "a1.parquet")] * 2)
    odd = os.fsencode(tmp_path) + b"/a\xff.parquet"
    Path(os.fsdecode(odd)).write_bytes((tmp_path / "a1.parquet").read_bytes())
    for reads in (lambda path: find_sources([path]), target_of):
        with pytest.raises(AssayError, match="is not UTF-8"):
            reads(os.fsdecode(odd))


def test_a_batch_needs_the_gates_that_the_project_declares(assay: Any, tmp_path: Path) -> None:
    """As columns, since no scorer runs here; a batch made without them can't be decided on."""
    write(tmp_path / "s.parquet", rows())
    write(tmp_path / "p.parquet", f"SELECT *, true AS polite FROM ({rows()})")
    made = ("-o", "g.parquet", "--overwrite", "--profile", PROFILE)
    before = assay("batch", "s.parquet", *made, "--json").json()
    assert before["record"]["counts"]["passed"] > 0
    assay("batch", "s.parquet", "-o", "b.parquet", *made[2:])
    (tmp_path / "checks.py").write_text("def polite(answer):\n    return True\n")
    text = f"profile: {Path(PROFILE).name}\ngates:\n  - {{target: 'checks:polite'}}\n"
    (tmp_path / "assay.yaml").write_text(text)
    (tmp_path / Path(PROFILE).name).write_bytes(Path(PROFILE).read_bytes())
    refused = assay("gate", "g.parquet", "--baseline", "b.parquet")
    assert (refused.code, "BAT-060" in refused.err) == (3, True), refused.err
    without = assay("batch", "s.parquet", *made)
    assert (without.code, "0 of 5 runs passed" in without.out) == (1, True)
    given = assay("batch", "p.parquet", *made, "--json").json()
    assert given["record"]["counts"]["passed"] == before["record"]["counts"]["passed"]
    verify = ("batch", "p.parquet", "-o", "g.parquet", "--profile", PROFILE, "--verify")
    assert assay(*verify).code == 0
    other = assay("batch", "s.parquet", "-o", "b.parquet", *verify[4:])
    assert (other.code, "the profile isn't the one" in other.out) == (1, True)


def test_the_mistakes_of_a_first_batch_say_what_to_do(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "s.csv", rows(), "csv")
    assert assay("batch", "s.csv", "-o", "g.parquet", "--profile", PROFILE).code == 1
    for line, words in (
        (f"batch s.csv -o g.json --profile {PROFILE}", "can't write 'g.json': .json is not"),
        (f"batch s.csv -o g.parqet --profile {PROFILE}", ".parqet is not supported. It writes"),
        ("batch g.parquet -o h.parquet", "`assay batch g.parquet -o h.parquet --profile FILE`"),
        ("gate g.parquet --baseline nope.parquet", "nope.parquet: there is no such file."),
        ("gate s.csv --baseline s.csv", "has verdicts of gates, which a table of results"),
    ):
        done = assay(*line.split())
        assert (done.code != 0, words in done.err) == (True, True), (line, done.err)
    assert not (tmp_path / "g.json").exists()
