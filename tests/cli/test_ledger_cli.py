"""`assay grade --store`, `assay ledger verify` and `assay ledger replay`, as a person and a CI job use them."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import assay as package
from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.sandbox.isolation import available
from assay.services.grading import Grader
from assay.store.drafts import Link, draft, graded_drafts
from assay.store.ledger import open_ledger
from documents import FAMILIES, POLICY, run, scorecard
from examples import CAMPAIGN
from postgres import ledger_url, on_sqlite, postgres_url

__all__ = ["ledger_url", "postgres_url"]

BUILTIN = Path(package.__file__).parent / "library"


def write(path: Path, *documents: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(document, default=float) + "\n" for document in documents))


@pytest.mark.req("W-072", "W-076")
@on_sqlite
def test_what_was_graded_with_store_can_be_verified_and_replayed(
    assay: Any, tmp_path: Path, ledger_url: str
) -> None:
    write(
        tmp_path / "runs.jsonl",
        *(run(family, run_id=f"r-{family}") for family in FAMILIES),
        run("rag", run_id="r-bad", status="failed"),
    )
    done = assay("grade", "runs.jsonl", "--store", ledger_url, "--json")
    assert (done.code, done.json()["counts"]["graded"]) == (1, 5)
    assert "15 records stored" in done.err
    assert done.out == assay("grade", "runs.jsonl", "--json").out  # storing changes no result
    again = assay("grade", "runs.jsonl", "--store", ledger_url)
    assert "0 records stored" in again.err
    assert "15 already there" in again.err
    checked = assay("ledger", "verify", "--db", ledger_url, "--json")
    assert (
        checked.code,
        checked.json()["clean"],
        checked.json()["records"],
        checked.json()["links"],
    ) == (0, True, 15, 10)
    on_sqlite = ledger_url.startswith("sqlite")
    for family in FAMILIES if CAMPAIGN or on_sqlite else FAMILIES[:1]:
        played = assay("ledger", "replay", f"r-{family}", "--db", ledger_url, "--json")
        assert (played.code, played.json()["same"], played.json()["difference"]) == (0, True, None)
        assert played.json()["gradingSystem"].startswith("gradingSystem/")
    assert "r-bad: the same, F" in assay("ledger", "replay", "r-bad", "--db", ledger_url).out
    with open_ledger(ledger_url) as ledger:
        page = ledger.find("grade", {"passed": False})
        assert [item.tree()["reason"] for item in page.items] == ["hard_gate_failure"]
        assert [
            name
            for name, gate in page.items[0].tree()["hard_gates"].items()
            if gate["status"] != "pass"
        ] == page.items[0].tree()["hard_gate_failures"]
        prefix = page.items[0].digest.removeprefix("sha256:")[:12]
    assert assay("ledger", "replay", prefix, "--db", ledger_url).code == 0


def test_the_default_ledger_is_in_the_folder_of_the_project(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "card.jsonl", scorecard({"norm": 1}))
    assert assay("ledger", "verify").code == 3
    assert not (tmp_path / ".assay").exists()
    assert assay("grade", "card.jsonl", "--store").code == 0
    assert (tmp_path / ".assay" / "ledger.db").exists()
    assert assay("ledger", "verify").code == 0
    assert assay("ledger", "replay", "r-1").code == 0
    env = {"ASSAY_DB": f"sqlite:///{tmp_path}/other.db"}
    assert assay("grade", "card.jsonl", "--store", env=env).code == 0
    assert assay("ledger", "verify", env=env).out.startswith(f"{tmp_path}/other.db: clean")


def test_standard_input_and_scorecards_are_stored_as_they_came(assay: Any, tmp_path: Path) -> None:
    card = scorecard({"norm": 1}, hard_gates={"a": True}, run_id="c-1")
    done = assay("grade", "-", "--store", "l.db", "--profile", "rag", stdin=json.dumps(card) + "\n")
    assert done.code == 1  # the profile's gates are not there
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        kinds = [item.kind for item in ledger.history("c-1").items]
        assert kinds == ["scorecard", "scorecard", "grade"]
        assert ledger.history("c-1").items[0].tree() == {
            **card,
            "scoringSystem": "scoringSystem/1.0.0",
        }  # which would be tomorrow's if it were not noted
    assert assay("ledger", "replay", "c-1", "--db", "l.db").code == 0


def test_a_stream_that_fails_as_a_whole_stores_nothing(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "runs.jsonl", run(), {**run(), "run_id": "r-2", "colour": "red"})
    assert assay("grade", "runs.jsonl", "--store", "l.db").code == 3
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        assert ledger.count().n == 0
    kept = assay("grade", "runs.jsonl", "--store", "l.db", "--keep-going")
    assert (kept.code, "3 records stored" in kept.err) == (3, True)


def test_a_large_stream_goes_through_the_workers_into_the_ledger(
    assay: Any, tmp_path: Path
) -> None:
    pad = {"pad": "x" * 80_000}
    write(
        tmp_path / "runs.jsonl",
        *(run(FAMILIES[index % 4], run_id=f"r-{index}", metadata=pad) for index in range(60)),
    )
    assert (tmp_path / "runs.jsonl").stat().st_size > 4 * 1024 * 1024
    done = assay("grade", "runs.jsonl", "--store", "l.db", "--jobs", "2")
    assert "180 records stored" in done.err
    assert assay("ledger", "verify", "--db", "l.db").code == 0
    assert assay("ledger", "replay", "r-59", "--db", "l.db").code == 0


def test_projects_of_one_ledger_are_kept_apart(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "card.jsonl", scorecard({"norm": 1}))
    assert assay("grade", "card.jsonl", "--store", "l.db", "--project", "mine").code == 0
    assert assay("ledger", "replay", "r-1", "--db", "l.db", "--project", "mine").code == 0
    assert assay("ledger", "replay", "r-1", "--db", "l.db").code == 3
    not_utf8 = assay("ledger", "replay", "r-\udcff", "--db", "l.db")
    assert (not_utf8.code, "STO-012" in not_utf8.err) == (3, True)
    assert assay("grade", "card.jsonl", "--store", "l.db", "--project", "../x").code == 3
    assert set(assay("ledger", "verify", "--db", "l.db", "--json").json()["projects"]) == {"mine"}


# --- versions of the past


def test_a_grade_of_a_past_version_is_replayed_with_that_version(
    assay: Any, tmp_path: Path
) -> None:
    library = tmp_path / "lib"
    (library / "policies").mkdir(parents=True)
    write(tmp_path / "card.jsonl", scorecard({"norm": Decimal("0.92")}))

    def publish(version: str, best: int) -> None:
        (library / "policies" / f"team@{version}.yaml").write_text(
            POLICY.format(version=version, best=best)
        )
        assert assay("library", "publish", "--library", library).code == 0

    def grade(policy: str) -> tuple[str, str]:
        done = assay(
            "grade",
            "card.jsonl",
            "--policy",
            policy,
            "--library",
            library,
            "--store",
            "l.db",
            "--json",
        )
        result = done.json()["results"][0]
        return result["policy"], result["grade"]

    publish("1.0.0", 90)
    assert grade("team") == ("team@1.0.0", "A")
    assert grade("workflow@1") == ("workflow@1", "A")
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        old = {item.tree()["policy"]: item.digest for item in ledger.find("grade").items}
    publish("1.1.0", 95)
    assert grade("team") == ("team@1.1.0", "B")
    for policy, digest in old.items():
        played = assay("ledger", "replay", digest, "--db", "l.db", "--library", library, "--json")
        assert (played.code, played.json()["policy"], played.json()["grade"]) == (0, policy, "A")
    lacking = assay("ledger", "replay", "r-1", "--db", "l.db")
    assert (lacking.code, "made with: --library FOLDER." in lacking.err) == (3, True)
    newest = assay("ledger", "replay", "r-1", "--db", "l.db", "--library", library, "--json").json()
    assert (newest["same"], newest["policy"], newest["grade"]) == (True, "team@1.1.0", "B")
    without = assay("ledger", "replay", old["team@1.0.0"], "--db", "l.db")
    assert (without.code, "no policy is named 'team@1.0.0'" in without.err) == (3, True)


def test_a_newer_profile_of_the_family_does_not_touch_what_was_scored_before(
    assay: Any, tmp_path: Path
) -> None:
    library = tmp_path / "lib"
    (library / "profiles").mkdir(parents=True)
    write(tmp_path / "runs.jsonl", run("rag"))
    assert assay("grade", "runs.jsonl", "--library", library, "--store", "l.db").code == 0
    text = (BUILTIN / "profiles" / "rag@1.yaml").read_text()
    (library / "profiles" / "rag@9.yaml").write_text(
        text.replace("\nversion: 1\n", "\nversion: 9\n")
    )
    assert (
        assay("grade", "runs.jsonl", "--library", library, "--profile", "rag@9", "--json").json()[
            "results"
        ][0]["profile"]
        == "rag@9"
    )
    played = assay("ledger", "replay", "r-1", "--db", "l.db", "--library", library, "--json")
    assert (played.code, played.json()["profile"]) == (0, "rag@1")


def test_a_policy_that_was_changed_under_its_version_is_named_as_the_difference(
    assay: Any, tmp_path: Path
) -> None:
    library = tmp_path / "lib"
    (library / "policies").mkdir(parents=True)
    file = library / "policies" / "team@1.0.0.yaml"
    file.write_text(POLICY.format(version="1.0.0", best=90))
    write(tmp_path / "card.jsonl", scorecard({"norm": Decimal("0.92")}))
    assert (
        assay(
            "grade", "card.jsonl", "--policy", "team", "--library", library, "--store", "l.db"
        ).code
        == 0
    )
    file.write_text(POLICY.format(version="1.0.0", best=95))
    played = assay("ledger", "replay", "r-1", "--db", "l.db", "--library", library)
    assert played.code == 1
    assert "r-1: DIFFERENT" in played.out
    assert "gradingSystem: stored gradingSystem/1.0.0+" in played.out
    document = assay(
        "ledger", "replay", "r-1", "--db", "l.db", "--library", library, "--json"
    ).json()
    assert (document["same"], document["difference"]["path"]) == (False, "gradingSystem")
    assert assay("library", "publish", "--library", library).code == 0
    file.write_text(POLICY.format(version="1.0.0", best=90))
    changed = assay("ledger", "replay", "r-1", "--db", "l.db", "--library", library)
    assert (changed.code, "published and has changed" in changed.err) == (3, True)


def test_a_stored_grade_that_is_not_what_the_evidence_gives_is_different(
    assay: Any, tmp_path: Path
) -> None:
    card = scorecard({"norm": Decimal("0.5")})
    payload = {**Grader(Shelf()).grade(Document(card, "x")).payload(), "grade": "A", "passed": True}
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        ledger.put_many(graded_drafts(card, card, payload))
    played = assay("ledger", "replay", "r-1", "--db", "l.db", "--json")
    assert (played.code, played.json()["difference"]) == (
        1,
        {"path": "grade", "stored": "A", "recomputed": "F"},
    )


# --- what goes wrong


def test_verify_names_what_was_changed_and_exits_1(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "runs.jsonl", *(run(run_id=f"r-{index}") for index in range(3)))
    assay("grade", "runs.jsonl", "--store", "l.db")
    head = assay("ledger", "verify", "--db", "l.db").out.splitlines()[-1].removeprefix("head ")
    assert assay("ledger", "verify", "--db", "l.db", "--head", head).code == 0
    assert assay("ledger", "verify", "--db", "l.db", "--head", head.replace(":9:", ":8:")).code == 1
    assert assay("ledger", "verify", "--db", "l.db", "--head", "nonsense").code == 2
    raw = sqlite3.connect(tmp_path / "l.db")
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(
        "UPDATE records SET body = CAST(replace(CAST(body AS TEXT), 'success', 'timeout') AS BLOB)"
        " WHERE seq = 4"
    )
    raw.commit()
    digest = raw.execute("SELECT hex(digest) FROM records WHERE seq = 4").fetchone()[0].lower()
    raw.close()
    done = assay("ledger", "verify", "--db", "l.db")
    assert done.code == 1
    assert f"default 4 sha256:{digest}: the content does not match its digest." in done.out
    document = assay("ledger", "verify", "--db", "l.db", "--json").json()
    assert (document["clean"], document["fault_count"]) == (False, 1)
    played = assay("ledger", "replay", "r-1", "--db", "l.db")
    assert (played.code, "does not match its digest" in played.err) == (3, True)
    raw = sqlite3.connect(tmp_path / "l.db")
    raw.execute("UPDATE records SET seq = 'nine' WHERE seq = 9")
    raw.commit()
    raw.close()
    done = assay("ledger", "verify", "--db", "l.db")
    assert (done.code, "the position of this record is not a whole number: 'nine'" in done.out) == (
        1,
        True,
    ), done.err


def spoiled(path: Path, *statements: str) -> None:
    """Change a ledger behind its back."""
    raw = sqlite3.connect(path)
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        raw.execute(statement)
    raw.commit()
    raw.close()


OWN = ("records", "links", "tags", "tombstones", "seen", "counts")


def test_a_ledger_that_was_emptied_is_not_clean(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "runs.jsonl", *(run(run_id=f"r-{index}") for index in range(3)))
    stored = assay("grade", "runs.jsonl", "--store", "l.db").err
    head = re.search(r"The head is (default:9:sha256:[0-9a-f]{64})\.", stored)
    assert head is not None, stored
    whole = (tmp_path / "l.db").read_bytes()
    for statements, code in (
        ([f"DELETE FROM {name}" for name in OWN], 1),  # its head says otherwise
        (["DROP TABLE records"], 1),
        (["DROP TABLE heads", "DROP TABLE records"], 1),
        ([f"DELETE FROM {name}" for name in (*OWN, "heads")], 4),  # nothing inside remembers
    ):
        (tmp_path / "l.db").write_bytes(whole)
        spoiled(tmp_path / "l.db", *statements)
        done, document = (
            assay("ledger", "verify", "--db", "l.db"),
            assay("ledger", "verify", "--db", "l.db", "--json"),
        )
        assert (done.code, document.code, ": clean" in done.out, document.json()["clean"]) == (
            code,
            code,
            False,
            False if code == 1 else None,
        ), statements
        assert assay("ledger", "verify", "--db", "l.db", "--head", head[1]).code == 1, statements
    assert "the ledger has no records, so nothing was verified" in done.out
    (tmp_path / "l.db").write_bytes(b"")
    assert assay("ledger", "verify", "--db", "l.db", "--head", head[1]).code == 3


def test_a_live_run_remembers_the_record_that_it_was_stored_as(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "runs.jsonl", run())
    assay("grade", "runs.jsonl", "--store", "l.db")
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        kept = ledger.find("run").items[0].digest
    row = (
        f"INSERT INTO live_runs VALUES ('default', 'r-1', 'done', x'7b7d', 1, '{kept}', NULL,"
        " '2026-11-15T00:00:00Z', NULL, 0)"
    )
    spoiled(tmp_path / "l.db", row)
    assert assay("ledger", "verify", "--db", "l.db").code == 0
    spoiled(tmp_path / "l.db", *(f"DELETE FROM {name}" for name in (*OWN, "heads")))
    done = assay("ledger", "verify", "--db", "l.db")
    assert (
        done.code,
        f"{kept}: a live run was stored as this record, but the record is missing." in done.out,
    ) == (1, True), done.out


def test_a_grade_whose_evidence_was_forgotten_cannot_be_replayed(
    assay: Any, tmp_path: Path
) -> None:
    write(tmp_path / "runs.jsonl", run())
    assay("grade", "runs.jsonl", "--store", "l.db")
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        ledger.forget(ledger.find("run").items[0].digest, author="dpo", reason="asked to")
    done = assay("ledger", "replay", "r-1", "--db", "l.db")
    assert (done.code, "the evidence of this grade was forgotten" in done.err) == (4, True)
    assert assay("ledger", "verify", "--db", "l.db").code == 0


def test_what_cannot_be_replayed_is_told(assay: Any, tmp_path: Path) -> None:
    write(tmp_path / "card.jsonl", scorecard({"norm": 1}))
    assay("grade", "card.jsonl", "--store", "l.db")
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        card = ledger.find("scorecard").items[0].digest
        good = ledger.find("grade").items[0].tree()
        for evil in ("../../../etc/passwd", "x.yaml", "/tmp/a@1", 7):
            ledger.put_many(
                [
                    draft(
                        {**good, "run_id": f"evil-{evil}", "policy": evil},
                        kind="grade",
                        links=[Link("graded_from", card)],
                    )
                ]
            )
        ledger.put_many([draft({"run_id": "odd"}, kind="grade", links=[Link("graded_from", card)])])
    for wanted in (
        "nobody",
        card,
        "odd",
        "evil-../../../etc/passwd",
        "evil-x.yaml",
        "evil-/tmp/a@1",
        "evil-7",
    ):
        done = assay("ledger", "replay", wanted, "--db", "l.db")
        assert done.code == 3, wanted
        assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ledger", "verify", "--db", "none.db"), 3, "there is no ledger"),
        (("ledger", "verify", "--db", "garbage.db"), 3, "is not a ledger, or is damaged"),
        (("ledger", "verify", "--db", "mysql://x/y"), 2, "sqlite:/// or postgresql://"),
        (("ledger", "replay", "x", "--db", "none.db"), 3, "there is no ledger"),
        (("grade", "card.jsonl", "--store", "."), 2, "is a directory"),
        (("grade", "card.jsonl", "--store", "/proc/none/l.db"), 2, "cannot be written"),
        (("grade", "card.jsonl", "--store", "garbage.db"), 3, "is not a ledger, or is damaged"),
    ],
)
def test_a_ledger_that_cannot_be_used_is_told_before_the_work(
    assay: Any, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    write(tmp_path / "card.jsonl", scorecard({"norm": 1}))
    (tmp_path / "garbage.db").write_bytes(b"no database" * 500)
    done = assay(*arguments)
    assert (done.code, words in done.err, "Traceback" in done.err) == (code, True, False), done.err
    printed = assay(*arguments, "--json")
    assert json.loads(printed.err.splitlines()[-1])["error"]["message"]


def test_grading_without_store_loads_no_database(tmp_path: Path) -> None:
    write(tmp_path / "card.jsonl", scorecard({"norm": 1}))
    listed = "[name for name in sys.modules if name.startswith(('sqlalchemy', 'assay.store'))]"
    code = (
        f"import sys; from assay.cli.main import run; run(['grade', 'card.jsonl']); print({listed})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("[]\n")
    assert not (tmp_path / ".assay").exists()


def test_a_grade_replays_whatever_order_and_spelling_its_evidence_was_written_in(
    assay: Any, tmp_path: Path
) -> None:
    """Stored evidence is sorted and has one spelling for each number; the stored grade must be the
    one that this gives.
    """
    card = {
        "schema": "assay.scorecard/1",
        "run_id": "odd-1",
        "hard_gates": {"zeta": False, "alpha": False, "mid": None},
        "pass_threshold": 65.50,
        "criteria": [
            {
                "name": "z",
                "raw_score": {"wins": 1, "ties": 0, "losses": 2},
                "formula_id": "pairwise",
                "weight": 0.50,
            },
            {"name": "a", "raw_score": 80.0, "formula_id": "zero_one", "weight": 0.5},
        ],
    }
    run = {
        "schema": "assay.run/1",
        "run_id": "odd-2",
        "status": "success",
        "workflow": {"version": "1", "id": "w", "family": "rag"},
        "dataset": {"sample_id": "s", "id": "d", "version": "1"},
        "gates": {"zz_own": {"passed": False}, "aa_own": {"passed": False}},
        "scores": {"unknown_z": {"raw": 1}, "unknown_a": {"raw": 1}, "faithfulness": {"raw": 1.0}},
        "steps": [
            {
                "name": "b",
                "status": "success",
                "duration_ms": 10.0,
                "scores": {"z": {"raw": 1.0}, "a": {"raw": 2}},
            }
        ],
    }
    (tmp_path / "odd.jsonl").write_text(json.dumps(card) + "\n" + json.dumps(run) + "\n")
    assert assay("grade", "odd.jsonl", "--store").code == 1
    for name in ("odd-1", "odd-2"):
        done = assay("ledger", "replay", name)
        assert done.code == 0, done.out


WHY_NOT = available()["bubblewrap"]


@pytest.mark.skipif(WHY_NOT != "", reason=f"a read-only mount needs bubblewrap: {WHY_NOT}")
@pytest.mark.parametrize("pending", [False, True], ids=["closed", "with commits in its log"])
def test_a_ledger_on_a_read_only_file_system_can_be_read(
    assay: Any, tmp_path: Path, pending: bool
) -> None:
    written, folder = tmp_path / "written", tmp_path / "mounted"
    written.mkdir()
    write(tmp_path / "runs.jsonl", run("rag", run_id="r-1"))
    url = f"sqlite:///{written}/ledger.db"
    with open_ledger(url) as ledger:
        assay("grade", "runs.jsonl", "--store", url)
        if pending:
            shutil.copytree(written, folder)
        assert ledger.head()[0] == 3
    if not pending:
        shutil.copytree(written, folder)
    assert (folder / "ledger.db-wal").exists() == pending

    def mounted(*arguments: str) -> subprocess.CompletedProcess[str]:
        box = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(folder), str(folder)]
        command = [sys.executable, "-m", "assay", *arguments]
        at = ["--no-config", "--db", f"sqlite:///{folder}/ledger.db"]
        return subprocess.run([*box, *command, *at], text=True, capture_output=True, check=False)

    for arguments in (["ledger", "verify"], ["ledger", "replay", "r-1"], ["explain", "r-1"]):
        done = mounted(*arguments)
        assert done.returncode == 0, done.stderr
    refused = mounted("token", "create", "--project", "p", "--scope", "read")
    assert refused.returncode == 2
    assert "may only be read" in refused.stderr
