"""`--baseline NAME` with a ledger: the folder first, then the ledger, and whatever is found is held
to the same rules.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from assay.store.drafts import draft
from assay.store.ledger import open_ledger
from commands import run_here
from judges import Run, here
from postgres import ledger_url, on_sqlite, postgres_url
from serving import Api, runs, serving
from test_exam_gate import at, put, result
from test_storing import count, newest, put_sides

__all__ = ["here", "ledger_url", "postgres_url"]

SET = ("baseline", "set", "--dir", "elsewhere", "--now", "2026-11-01T00:00:00Z")
NOW = ("--now", "2026-11-15T00:00:00Z")
GATE = ("gate", "candidate.jsonl", *NOW)
FEW = 2
"""Samples where the outcome doesn't matter: too few to decide, which is exit code 4."""


def test_the_default_ledger_is_searched_for_a_baseline_too(here: Run, tmp_path: Path) -> None:
    put_sides(tmp_path, FEW)
    assert here(*SET, "production", "baseline.jsonl", "--store").code == 0
    done = here(*GATE, "--baseline", "production", "--store")
    assert (done.code, "is the one in the project 'default'" in done.err) == (4, True), done.err


def test_an_evaluation_never_takes_the_place_of_a_baseline_of_its_name(
    here: Run, tmp_path: Path
) -> None:
    good = "id,answer,score\n" + "".join(f"s{index},a,1\n" for index in range(3))
    (tmp_path / "good.csv").write_text(good)
    (tmp_path / "bad.csv").write_text(good.replace(",1\n", ",0.1\n"))
    refused = here("import", "bad.csv", "--name", "production")
    assert "production was" not in refused.err
    again = here("import", "bad.csv", "--name", "production").err
    assert "assay: production was ev-" in again
    assert "bad@unversioned on table@unversioned. It is production~1 now." in again
    assert here(*SET, "production", "good.csv", "--store").code == 0
    gate = ("gate", "bad.csv", *NOW, "--baseline", "production")
    for done in (here(*gate, "--store"), here(*gate)):
        assert done.code == 2
        assert "'production' is both a baseline in the ledger and the evaluation ev-" in done.err
    assert here(*SET, "staging", "good.csv", "--store").code == 0
    here("baseline", "set", "local", "good.csv")
    for name in ("staging", "local"):
        done = here("import", "bad.csv", "--name", name)
        assert (done.code, f"'{name}' is the name of a baseline" in done.err) == (2, True)
    assert here("gate", "bad.csv", *NOW, "--baseline", "staging", "--store").code == 1


def spoil(path: Path, kind: str) -> None:
    """Change what a ledger holds of a kind, behind its back."""
    raw = sqlite3.connect(path)
    for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        raw.execute(f"DROP TRIGGER {name}")
    raw.execute(
        "UPDATE records SET body = CAST(replace(CAST(body AS TEXT), '\"1\"', '\"2\"') || ' ' AS"
        " BLOB) WHERE kind = ?",
        (kind,),
    )
    raw.commit()
    raw.close()


@on_sqlite
def test_a_baseline_of_the_ledger_decides_as_its_files_do_and_the_decision_is_replayed(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    put_sides(tmp_path)
    assert here(*SET, "production", "baseline.jsonl", "--store", ledger_url).code == 0
    before = count(ledger_url)
    done = here(*GATE, "--baseline", "production", "--store", ledger_url, "--json")
    digest = newest(ledger_url, "baseline")
    assert done.code == 0, done.err
    assert (
        f"assay: the baseline production ({digest[:19]}), made 2026-11-01T00:00:00.000Z, is the one"
        " in the project 'default' of " in done.err
    )
    by_file = here(*GATE, "--baseline", "baseline.jsonl", "--json").json()
    found = done.json()
    assert found["baseline"].pop("name") == f"baseline production ({digest[:19]})"
    assert by_file["baseline"].pop("name") == "baseline"
    assert found["digests"].pop("decision") != by_file["digests"].pop(
        "decision"
    )  # it is over the name, too
    assert found == by_file
    assert count(ledger_url) == before + 3 * 60 + 1, (
        "of the baseline nothing is stored a second time"
    )
    assert here("ledger", "replay", newest(ledger_url, "decision"), "--db", ledger_url).code == 0
    assert here("ledger", "verify", "--db", ledger_url).code == 0
    older = here(*GATE, "--baseline", digest, "--store", ledger_url, "--json")
    assert (older.code, older.json()["baseline"]["name"]) == (
        0,
        f"baseline production ({digest[:19]})",
    )


@on_sqlite
def test_a_baseline_that_came_through_the_api_is_found_by_the_command(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    ours, theirs = put_sides(tmp_path, FEW)
    with serving(ledger_url) as api:
        assert (
            api.post("/baselines", {"name": "production", "evidence": theirs[:1]}).status_code
            == 201
        )
        assert api.post("/baselines", {"name": "production", "evidence": theirs}).status_code == 201
        posted = api.post(
            "/decisions", {"candidate": ours, "baseline": {"baseline": "production"}}
        ).json()["decision"]
        assert (
            api.post("/decisions", {"candidate": ours, "baseline": {"baseline": "nobody"}}).json()[
                "code"
            ]
            == "REL-005"
        )
        assert (
            api.post(
                "/decisions", {"candidate": ours, "baseline": {"baseline": "sha256:" + "0" * 64}}
            ).status_code
            == 404
        )
    done = here(
        "gate", "candidate.jsonl", "--baseline", "production", "--store", ledger_url, "--json"
    )
    assert done.code == 4, done.err
    for one in (posted, found := done.json()):
        one["baseline"].pop("name")
        one["digests"].pop("decision")
    assert found["comparison"]["n_baseline"] == FEW, "the newest of a name is meant by it"
    assert found == posted


def test_the_folder_comes_first_and_the_output_says_so(here: Run, tmp_path: Path) -> None:
    put_sides(tmp_path, FEW)
    assert here(*SET, "production", "candidate.jsonl", "--store", "l.db").code == 0
    assert (
        here(
            "baseline", "set", "production", "baseline.jsonl", "--now", "2026-11-01T00:00:00Z"
        ).code
        == 0
    )
    done = here(*GATE, "--baseline", "production", "--store", "l.db", "--json")
    assert (done.code, done.json()["baseline"]["name"]) == (4, "baseline production@1")
    assert (
        "assay: the baseline production@1 is the one in the folder .assay/baselines.\n" in done.err
    )
    alone = here(*GATE, "--baseline", "production", "--json")
    assert (alone.code, alone.err, alone.out) == (4, "", done.out)
    (tmp_path / ".assay/baselines/production@1.jsonl").write_text("{}\n")
    refused = here(*GATE, "--baseline", "production", "--store", "l.db")
    assert (refused.code, "the baseline has changed" in refused.err) == (
        3,
        True,
    ), "one that was changed gives way to no other"


@on_sqlite
def test_a_folder_without_the_newest_baseline_of_the_ledger_is_refused(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    put_sides(tmp_path, FEW)
    store = ("--store", ledger_url)
    keep = ("baseline", "set", "production")
    assert here(*keep, "baseline.jsonl", "--now", "2026-11-01T00:00:00.5Z", *store).code == 0
    assert here(*GATE, "--baseline", "production", *store).out.startswith("NOT ENOUGH EVIDENCE")
    elsewhere = ("--dir", "copy", "--now", "2026-11-03T00:00:00Z")
    assert here(*keep, "candidate.jsonl", *elsewhere, *store).code == 0
    refused = here(*GATE, "--baseline", "production", *store)
    assert (refused.code, "production@1, made 2026-11-01" in refused.err) == (4, True), refused.err
    digest = refused.err.partition("or sha256:")[2][:64]
    chosen = here(*GATE, "--baseline", f"sha256:{digest}", *store, "--json")
    assert chosen.json()["baseline"]["name"].startswith("baseline production (sha256:")
    named = here(*GATE, "--baseline", "production@1", *store, "--json")
    assert (named.code, named.json()["baseline"]["name"]) == (4, "baseline production@1")


@on_sqlite
def test_a_folder_whose_baseline_was_rolled_back_in_the_ledger_is_refused(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    """The one that replaced it has older evidence."""
    put_sides(tmp_path, FEW)
    store, keep = ("--store", ledger_url), ("baseline", "set", "production")
    gate = (*GATE, "--baseline", "production", *store)
    assert here(*keep, "candidate.jsonl", "--now", "2026-11-03T00:00:00.5Z", *store).code == 0
    assert "NOT ENOUGH" in here(*gate).out
    back = ("baseline.jsonl", "--now", "2026-11-01T00:00:00Z")
    assert here(*keep, *back, "--dir", "copy", *store).code == 0
    refused = here(*gate)
    assert "production@1, made 2026-11-03T00:00:00Z, was replaced by production" in refused.err
    assert here(*keep, *back).code == 0  # nor is it refused once the folder is rolled back too
    assert "NOT ENOUGH" in here(*gate).out


@on_sqlite
def test_a_name_in_neither_place_names_both_and_the_near_miss(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    put_sides(tmp_path, FEW)
    none = here(*GATE, "--baseline", "production", "--store", ledger_url)
    assert (none.code, "None is stored." in none.err) == (4, True)
    assert here(*SET, "production", "baseline.jsonl", "--store", ledger_url).code == 0
    done = here(*GATE, "--baseline", "prodution", "--store", ledger_url, "--json")
    said = json.loads(done.err)["error"]
    assert (done.code, done.out, said["code"]) == (4, "", "REL-005")
    assert (
        "neither in the folder .assay/baselines nor in the project 'default' of " in said["message"]
    )
    assert "Did you mean 'production'?" in said["message"]
    for name in ("production@1", "sha256:" + "0" * 64, newest(ledger_url, "run"), "x" * 300):
        assert here(*GATE, "--baseline", name, "--store", ledger_url).code == 4, name
    assert here(*GATE, "--baseline", "../production", "--store", ledger_url).code == 3, (
        "a path, and no file is there"
    )
    without = here(*GATE, "--baseline", "production")
    assert (without.code, "ledger" in without.err) == (4, False)
    with open_ledger(ledger_url) as ledger:
        assert ledger.count("decision").n == 0


def test_a_baseline_of_another_project_is_not_there(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    put_sides(tmp_path, FEW)
    assert (
        here(
            *SET, "production", "baseline.jsonl", "--store", ledger_url, "--project", "theirs"
        ).code
        == 0
    )
    refused = here(*GATE, "--baseline", "production", "--store", ledger_url)
    assert (refused.code, "theirs" in refused.err, "None is stored." in refused.err) == (
        4,
        False,
        True,
    )
    with open_ledger(ledger_url) as ledger:
        digest = ledger.find("baseline", project="theirs").items[0].digest
    assert here(*GATE, "--baseline", digest, "--store", ledger_url).code == 4
    found = here(*GATE, "--baseline", "production", "--store", ledger_url, "--project", "theirs")
    assert found.out.startswith("NOT ENOUGH EVIDENCE"), found.err


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ("2027-11-15T00:00:00Z", "days old; release@1 allows"),
        ("2026-10-01T00:00:00Z", "is from the future"),
    ],
)
def test_a_baseline_of_the_ledger_is_used_only_as_long_as_the_policy_allows(
    here: Run, tmp_path: Path, now: str, words: str
) -> None:
    put_sides(tmp_path, FEW)
    assert here(*SET, "production", "baseline.jsonl", "--store", "l.db").code == 0
    done = here(
        "gate", "candidate.jsonl", "--baseline", "production", "--store", "l.db", "--now", now
    )
    assert (done.code, words in done.err, "REL-005" in done.err) == (4, True, True)
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        assert ledger.count("decision").n == 0


@pytest.mark.parametrize(("kind", "words"), [("baseline", "STO-007"), ("run", "STO-007")])
def test_a_record_that_was_changed_is_refused(
    here: Run, tmp_path: Path, kind: str, words: str
) -> None:
    put_sides(tmp_path, FEW)
    for name in ("production", "staging"):
        assert here(*SET, name, "baseline.jsonl", "--store", "l.db").code == 0
    spoil(tmp_path / "l.db", kind)
    for name in ("production", "staging"):
        done = here(*GATE, "--baseline", name, "--store", "l.db", "--json")
        assert (done.code, words in done.err, done.out) == (3, True, ""), done.err


@on_sqlite
def test_evidence_that_is_gone_is_never_left_out(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    put_sides(tmp_path, FEW)
    assert here(*SET, "production", "baseline.jsonl", "--store", ledger_url).code == 0
    with open_ledger(ledger_url) as ledger:
        item = ledger.find("baseline").items[0]
        record, grade = item.tree(), ledger.find("grade").items[0].digest
        odd = {
            "absent": {"evidence_digests": ["sha256:" + "0" * 64]},
            "grades": {"evidence_digests": [grade]},
            "empty": {"evidence_digests": []},
            "bare": {"evidence_digests": None},
            "numbers": {"evidence_digests": [7]},
            "undated": {"made_at": "yesterday"},
            "first-day": {"made_at": "0001-01-01T00:00:00+14:00"},
        }
        ledger.put_many(
            [
                draft({**record, "name": name, **changes}, kind="baseline")
                for name, changes in odd.items()
            ]
        )
        ledger.forget(record["evidence_digests"][0], author="dpo", reason="asked to")
    codes: dict[str, int] = {}
    for name in ("production", *odd):
        done = here(*GATE, "--baseline", name, "--store", ledger_url, "--json")
        codes[name] = done.code
        assert done.out == ""
    assert codes == {
        "production": 4,
        "absent": 4,
        "grades": 4,
        "empty": 4,
        "bare": 4,
        "numbers": 3,
        "undated": 3,
        "first-day": 3,
    }


def test_a_ledger_that_is_not_there_is_told_before_the_work(here: Run, tmp_path: Path) -> None:
    put_sides(tmp_path, FEW)
    for url in ("/proc/none/l.db", "mysql://x/y"):
        done = here(*GATE, "--baseline", "production", "--store", url, "--json")
        assert (done.code in (2, 3), done.out) == (True, "")
        assert json.loads(done.err)["error"]["code"].startswith("STO-")


# --- show, list and diff


@on_sqlite
def test_a_baseline_of_the_ledger_is_shown_listed_and_compared(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    put_sides(tmp_path, FEW)
    for name, file in (
        ("production", "candidate.jsonl"),
        ("production", "baseline.jsonl"),
        ("alpha", "candidate.jsonl"),
    ):
        assert here(*SET, name, file, "--store", ledger_url).code == 0
    assert (
        here("baseline", "set", "local", "candidate.jsonl", "--now", "2026-11-01T00:00:00Z").code
        == 0
    )
    before = count(ledger_url)
    store = ("--store", ledger_url)
    listed = here("baseline", "list", *store, "--json").json()
    labels = [one["name"].partition(" ")[0] for one in listed["baselines"]]
    assert (labels, listed["broken"]) == (["local@1", "alpha", "production", "production"], [])
    kept = listed["baselines"][-1]
    assert (kept["samples"], kept["runs"], kept["kind"], kept["digest"].startswith("sha256:")) == (
        FEW,
        FEW,
        "runs",
        True,
    )
    assert "alpha (sha256:" in here("baseline", "list", *store).out
    assert [one["name"] for one in here("baseline", "list", "--json").json()["baselines"]] == [
        "local@1"
    ]
    shown = here("baseline", "show", "production", *store, "--json")
    assert (shown.code, shown.json()["digest"], shown.json()["versions"]) == (
        0,
        kept["digest"],
        [],
    ), "the newest of a name is meant by it"
    assert "is the one in the project 'default' of" in shown.err
    older = here("baseline", "show", listed["baselines"][2]["digest"], *store)
    assert (older.code, "2 in 2 runs" in older.out) == (0, True), older.err
    by_name = here("baseline", "diff", "production", "candidate.jsonl", *store, "--json")
    assert (
        here(
            "baseline", "set", "production", "baseline.jsonl", "--now", "2026-11-01T00:00:00Z"
        ).code
        == 0
    )
    in_folder = here("baseline", "diff", "production@1", "candidate.jsonl", "--json").json()
    found = by_name.json()
    assert found.pop("baseline").startswith("baseline production (sha256:")
    in_folder.pop("baseline")
    assert (by_name.code, found) == (0, in_folder), by_name.err
    both = here("baseline", "diff", "alpha", listed["baselines"][2]["digest"], *store, "--json")
    assert (both.code, both.json()["changed"]) == (0, [])
    assert here("baseline", "diff", "production", "alpha", *store, "--json").code == 0
    assert "the one in the folder" in here("baseline", "show", "production", *store).err, (
        "the folder comes first"
    )
    assert count(ledger_url) == before, "who only looks stores nothing"


def test_a_name_that_is_nowhere_is_said_alike_by_every_verb(here: Run, tmp_path: Path) -> None:
    put_sides(tmp_path, FEW)
    assert here(*SET, "production", "baseline.jsonl", "--store", "l.db").code == 0
    refused = here(*GATE, "--baseline", "prodution", "--store", "l.db", "--json")
    for arguments in (
        ("show", "prodution"),
        ("diff", "prodution", "candidate.jsonl"),
        ("diff", "production", "prodution"),
    ):
        done = here("baseline", *arguments, "--store", "l.db", "--json")
        assert done.code == 4
        assert json.loads(done.err)["error"] == json.loads(refused.err)["error"]
        alone = here("baseline", *arguments, "--json")
        assert (alone.code, "ledger" in alone.err) == (4, False)
    other = here("baseline", "show", "production", "--store", "l.db", "--project", "other")
    assert (other.code, "None is stored." in other.err) == (4, True)
    assert (
        "nor in the project 'other' of"
        in here("baseline", "list", "--store", "l.db", "--project", "other").err
    )


def test_who_only_looks_makes_no_ledger(here: Run, tmp_path: Path) -> None:
    put_sides(tmp_path, FEW)
    for arguments in (("list",), ("show", "x"), ("diff", "x", "candidate.jsonl")):
        for url in ("none.db", "mysql://x/y"):
            done = here("baseline", *arguments, "--store", url, "--json")
            assert (done.code in (2, 3), done.out, (tmp_path / "none.db").exists()) == (
                True,
                "",
                False,
            )
            assert json.loads(done.err)["error"]["code"].startswith("STO-")
        assert here("baseline", *arguments, "--store", "none.db", "--project", "../x").code == 3


def test_a_broken_baseline_of_the_ledger_is_listed_as_broken_and_hides_no_other(
    here: Run, tmp_path: Path
) -> None:
    put_sides(tmp_path, FEW)
    assert here(*SET, "production", "baseline.jsonl", "--store", "l.db").code == 0
    with open_ledger("l.db") as ledger:
        record = ledger.find("baseline").items[0].tree()
        odd = [{"made_at": "yesterday"}, {"evidence_digests": None}]
        bare = {key: value for key, value in record.items() if key != "summary"}
        drafts = [
            draft({**record, "name": f"odd-{place}", **changes}, kind="baseline")
            for place, changes in enumerate(odd)
        ]
        ledger.put_many([*drafts, draft({**bare, "name": "bare"}, kind="baseline")])
    done = here("baseline", "list", "--store", "l.db", "--json")
    assert (
        done.code,
        [one["name"].partition(" ")[0] for one in done.json()["baselines"]],
        len(done.json()["broken"]),
    ) == (3, ["production"], 3)
    assert here("baseline", "list", "--store", "l.db").out.count("BROKEN") == 3
    assert [
        here("baseline", "show", name, "--store", "l.db").code
        for name in ("odd-0", "odd-1", "bare", "production")
    ] == [3, 4, 3, 0]
    spoil(tmp_path / "l.db", "run")
    assert here("baseline", "show", "production", "--store", "l.db").code == 3, (
        "its digests are checked"
    )
    spoil(tmp_path / "l.db", "baseline")
    changed = here("baseline", "list", "--store", "l.db", "--json")
    assert (changed.code, len(changed.json()["broken"])) == (3, 4)


def test_evidence_of_a_baseline_that_was_forgotten_is_told_when_it_is_shown(
    here: Run, tmp_path: Path
) -> None:
    put_sides(tmp_path, FEW)
    assert here(*SET, "production", "baseline.jsonl", "--store", "l.db").code == 0
    with open_ledger("l.db") as ledger:
        ledger.forget(
            ledger.find("baseline").items[0].tree()["evidence_digests"][1],
            author="dpo",
            reason="asked to",
        )
    done = here("baseline", "show", "production", "--store", "l.db")
    assert (done.code, "was forgotten" in done.err, done.out) == (4, True, "")


# --- exams


@pytest.fixture
def exams(tmp_path: Path) -> Path:
    put(tmp_path, "good.json", result(at("0.95")))
    put(tmp_path, "before.json", result(at("0.96"), set_="regression"))
    put(tmp_path, "after.json", result(at("0.95"), set_="regression"))
    return tmp_path


EXAM = ("exam", "gate", "good.json", "--regression", "after.json")


@pytest.mark.req("C-029")
@on_sqlite
def test_an_exam_is_held_against_a_baseline_by_its_name(
    here: Run, exams: Path, ledger_url: str
) -> None:
    by_file = here(*EXAM, "--baseline", "before.json", "--json")
    assert (by_file.code, by_file.json()["regression"]["drop"]) == (0, 0.01)
    assert (
        here(
            "baseline", "set", "tutor", "before.json", "--dir", "elsewhere", "--store", ledger_url
        ).code
        == 0
    )
    in_folder = here(*EXAM, "--baseline", "tutor", "--baselines", "elsewhere", "--json")
    assert (in_folder.code, in_folder.out) == (0, by_file.out)
    before = count(ledger_url)
    in_ledger = here(*EXAM, "--baseline", "tutor", "--store", ledger_url, "--json")
    assert (in_ledger.code, in_ledger.out) == (0, by_file.out), in_ledger.err
    assert f"the baseline tutor ({newest(ledger_url, 'baseline')[:19]}), made " in in_ledger.err
    assert count(ledger_url) == before + 3, (
        "the two results and the decision; the baseline is there"
    )
    other = here(
        *EXAM, "--baseline", "tutor", "--store", ledger_url, "--project", "other", "--json"
    )
    assert (other.code, json.loads(other.err)["error"]["code"]) == (4, "EXM-014")
    assert "nor in the project 'other' of" in other.err
    assert here(*EXAM, "--baseline", "tutor").code == 4
    shown = here("baseline", "show", "tutor", "--store", ledger_url)
    assert (shown.code, "exam score 0.96 over 100 items" in " ".join(shown.out.split())) == (
        0,
        True,
    ), shown.err


def test_runs_are_no_baseline_of_an_exam_and_an_exam_is_none_of_runs(
    here: Run, exams: Path
) -> None:
    put_sides(exams, FEW)
    assert here(*SET, "tutor", "before.json", "--store", "l.db").code == 0
    assert here(*SET, "production", "baseline.jsonl", "--store", "l.db").code == 0
    runs: Any = here(*EXAM, "--baseline", "production", "--store", "l.db")
    assert (runs.code, "not a graded exam" in runs.err) == (3, True)
    exam = here(*GATE, "--baseline", "tutor", "--store", "l.db")
    assert (exam.code, "is a graded exam" in exam.err) == (3, True)
    with open_ledger(f"{exams}/l.db") as ledger:
        record = next(
            item.tree() for item in ledger.find("baseline").items if item.tree()["name"] == "tutor"
        )
        ledger.put_many(
            [
                draft(
                    {**record, "name": "two", "evidence_digests": record["evidence_digests"] * 2},
                    kind="baseline",
                )
            ]
        )
        ledger.forget(record["evidence_digests"][0], author="dpo", reason="asked to")
    assert here(*EXAM, "--baseline", "tutor", "--store", "l.db").code == 4
    spoil(exams / "l.db", "baseline")
    assert here(*EXAM, "--baseline", "tutor", "--store", "l.db").code == 3


LAX = {
    "profile": "lax",
    "version": "1+0",
    "scoring_system": "1.1.0",
    "family": "rag",
    "title": "Lax",
    "description": "Requires next to nothing.",
    "gates": [],
    "criteria": [{"id": "quality", "label": "Q", "formula": "zero_one", "weight": 1, "layer": 1}],
}


def rag_runs(name: str, version: str, n: int = 2) -> list[dict[str, Any]]:
    return [
        dict(
            one,
            run_id=f"{name}-{place}",
            workflow={"id": "w", "version": version, "family": "rag"},
            scores={"quality": {"raw": 1}},
        )
        for place, one in enumerate(runs(n))
    ]


@pytest.fixture(scope="module")
def kept_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a baseline kept under rag-measured@1, and candidates with other rules."""
    folder = tmp_path_factory.mktemp("kept")
    with serving(f"{folder}/l.db") as api:
        for name, version, rules in (
            ("base", "1", {"profile": "rag-measured@1"}),
            ("own", "2", {"settings": {"own_profile": {"profile": LAX, "rubric": None}}}),
            ("named", "2", {"profile": "retrieval@1"}),
            ("judged", "2", {"profile": "rag-measured@1", "policy": "workflow-judged"}),
            ("same", "2", {"profile": "rag-measured@1"}),
        ):
            body = {"name": name, "runs": rag_runs(name, version), **rules}
            posted = api.post("/evaluations", body)
            assert posted.status_code == 201, posted.text
    words = ["baseline", "set", "production", "base", "--store", "l.db"]
    done = run_here(words, cwd=folder, env={})
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def kept_url(here: Run, kept_folder: Path, tmp_path: Path) -> str:
    """A copy of that ledger and of the folder with its baseline."""
    shutil.copytree(kept_folder, tmp_path, dirs_exist_ok=True)
    return f"{tmp_path}/l.db"


def test_a_candidate_does_not_set_the_bar_of_a_stored_baseline(here: Run, kept_url: str) -> None:
    ledger = ("--baselines", "nowhere")
    for name, folder, kept, used in (
        ("own", (), "profile rag-measured@1", "profile lax@1+0"),
        ("named", ledger, "profile rag-measured@1", "profile retrieval@1"),
        ("judged", ledger, "policy workflow@1", "policy workflow-judged@1"),
    ):
        gate = ("gate", name, "--baseline", "production", *folder, "--store", kept_url)
        refused = here(*gate)
        assert refused.code == 3, refused
        assert (
            f"was stored under {kept}, and this comparison would grade it by {used}" in refused.err
        )
        assert "--profile, --rubric or --grading-policy" in refused.err
        rules = ("--profile", "rag-measured@1", "--grading-policy", "workflow@1")
        found = here(*gate, *rules, "--json")
        assert not [
            note for note in found.json().get("regraded", ()) if note.startswith("baseline ")
        ]
    one_of_two = here(*gate, "--profile", "retrieval@1")  # the policy is still the candidate's
    assert (one_of_two.code, "stored under policy workflow@1" in one_of_two.err) == (3, True)
    again = "assay baseline set production FILE --profile retrieval@1 --grading-policy"
    assert f"`{again} workflow-judged --baselines nowhere`" in one_of_two.err
    same = here("gate", "same", "--baseline", "production", "--store", kept_url, "--json")
    assert same.json()["notes"][0].startswith("SAME EVIDENCE")


def test_a_candidate_does_not_set_the_bar_of_a_bare_file(here: Run, kept_url: str) -> None:
    old = json.dumps(rag_runs("old", "1"))
    Path(kept_url).with_name("old.json").write_text(old)
    bare = ("--baseline", "./old.json", "--store", kept_url)
    for name in ("own", "named", "judged"):
        refused = here("gate", name, *bare)
        assert (refused.code, "would set the bar" in refused.err) == (3, True), refused
        assert "`assay evals`" in refused.err
    rules = ("--profile", "rag-measured@1", "--grading-policy", "workflow@1")
    assert "would set the bar" not in here("gate", "own", *bare, *rules).err


def test_rules_of_the_command_line_change_those_of_a_baseline_with_a_note(
    here: Run, kept_url: str
) -> None:
    gate = ("gate", "own", "--baseline", "production", "--profile", "retrieval@1")
    found = here(*gate, "--store", kept_url, "--json")
    note = (
        "baseline production@1 was graded by profile rag-measured@1 when it was stored; this"
        " decision grades both sides by profile retrieval@1."
    )
    assert note in found.json()["regraded"]
    assert f"warning: {note}" in found.err
    assert here("ledger", "replay", newest(kept_url, "decision"), "--db", kept_url).code == 0


def test_a_baseline_that_goes_back_to_an_earlier_evaluation_is_that_one_again(
    here: Run, kept_url: str
) -> None:
    def used(api: Any) -> Any:
        sides = {"candidate": {"evaluation": "base"}, "baseline": {"baseline": "back"}}
        return api.post("/decisions", sides).json()["decision"]["digests"]["baseline"]

    with serving(kept_url) as api:
        found = []
        for name in ("base", "same", "base", "base"):
            posted = api.post("/baselines", {"name": "back", "evidence": {"evaluation": name}})
            found.append((posted.json()["new"], used(api)))
        (_, base), (_, same), (is_new, again), last = found
        assert base == again != same
        assert (is_new, last) == (True, (False, base)), "asked for again, it is kept once"
        for name in ("same", "base"):
            assert here("baseline", "set", "back", name, "--store", kept_url).code == 0
            assert used(api) == {"same": same, "base": base}[name]


def test_the_api_grades_evaluations_by_their_rules_and_no_baseline_by_the_candidates(
    kept_url: str,
) -> None:
    with serving(kept_url) as api:

        def decided(candidate: Any, baseline: Any, **more: Any) -> Any:
            return api.post(
                "/decisions", {"candidate": candidate, "baseline": baseline, **more}
            ).json()

        kept = {"baseline": "production"}
        for name, used in (("own", "profile lax@1+0"), ("named", "profile retrieval@1")):
            refused = decided({"evaluation": name}, kept)
            assert (
                f"stored under profile rag-measured@1, and this comparison would grade it by {used}"
                in (refused["detail"])
            )
            assert "`grading_policy`" in refused["fix"]
        bare = {"digests": [run["digest"] for run in evaluation(api, "base")["runs"]]}
        refused = decided({"evaluation": "own"}, bare)
        assert "the candidate own chose its profile, and the baseline is" in refused["detail"]
        own = decided({"evaluation": "judged"}, {"evaluation": "base"})["decision"]
        assert own["policy"] == "release@1"
        assert own["fingerprint"]["fields"]["policy"] == ["workflow@1"], "the baseline's"
        for baseline in (kept, {"evaluation": "base"}):
            found = decided({"evaluation": "same"}, baseline)["decision"]
            assert found["fingerprint"]["fields"]["profile"] == ["rag-measured@1"]
        chosen = decided({"evaluation": "own"}, kept, profile="retrieval@1")["decision"]
        assert [note.split(" was graded by ")[0] for note in chosen["regraded"]] == [
            "evaluation own",
            chosen["baseline"]["name"],
        ]
        assert chosen["baseline"]["name"].startswith("baseline production (sha256:")
        again = api.post("/baselines", {"name": "again", "evidence": {"evaluation": "named"}})
        fields = again.json()["baseline"]["fingerprint"]["fields"]
        assert fields["profile"] == ["retrieval@1"]


def test_a_decision_on_evaluations_by_name_is_attested(here: Run, kept_url: str) -> None:
    gate = ("gate", "same", "--baseline", "base", "--store", kept_url, "--attest", "a.json")
    assert here(*gate).code == 4, "there are few samples"
    verified = here("verify-attestation", "a.json", "--unsigned")
    assert (verified.code, "subject same sha256:" in verified.out) == (1, True), verified.out


@on_sqlite
def test_imported_results_that_only_the_ledger_has_are_a_baseline(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    for name, least in (("old", 80), ("new", 85), ("worse", 30)):
        rows = [f"q{place},{(least + place % 9) / 100}\n" for place in range(60)]
        (tmp_path / f"{name}.csv").write_text("id,faithfulness\n" + "".join(rows))
        assert here("import", f"{name}.csv", "--name", name, "--store", ledger_url).code == 0
    store = ("--store", ledger_url)
    assert here(*SET, "production", "old.csv", *store).code == 0
    for candidate, code in (("new.csv", 0), ("worse", 1)):
        done = here("gate", candidate, "--baseline", "production", *NOW, *store)
        assert (done.code, done.err.count("is the one in the project")) == (code, 1), done.err
    missing = here("gate", "new.csv", "--baseline", "produktion", *NOW, *store)
    assert (missing.code, "Did you mean 'production'?" in missing.err) == (4, True), missing.err
    with serving(ledger_url) as api:
        posted = api.post("/baselines", {"name": "posted", "evidence": {"evaluation": "old"}})
        assert posted.status_code == 201, posted.text
        for baseline, name, outcome in (
            ("production", "new", "promote"),
            ("posted", "worse", "reject"),
        ):
            asked = {"candidate": {"evaluation": name}, "baseline": {"baseline": baseline}}
            made = api.post("/decisions", asked)
            assert made.json()["decision"]["outcome"] == outcome, made.text
    done = here("gate", "worse.csv", "--baseline", "posted", *store)
    assert done.code == 1, done.err
    assert here("ledger", "replay", newest(ledger_url, "decision"), "--db", ledger_url).code == 0


@on_sqlite
def test_storing_old_runs_again_makes_them_no_newer(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    old = [
        {**run, "started_at": f"2024-01-0{place}T00:00:00Z"} for place, run in enumerate(runs(3), 1)
    ]
    (tmp_path / "old.jsonl").write_text("\n".join(map(json.dumps, old)))
    (tmp_path / "undated.jsonl").write_text("\n".join(map(json.dumps, runs(3))))
    for store in ((), ("--store", ledger_url)):
        made = here("baseline", "set", "production", "old.jsonl", *store, "--json").json()
        assert made["made_at"] == "2024-01-01T00:00:00Z"
        late = here("gate", "undated.jsonl", "--baseline", "production", *store)
        assert (late.code, "days old; release@1 allows 90" in late.err) == (4, True), late.err
    undated = ("import", "undated.jsonl", "--name", "undated", "--now", "2024-01-01T00:00:00Z")
    assert here(*undated, "--store", ledger_url).code in (0, 1)
    with serving(ledger_url) as api:
        for evidence in (old, {"evaluation": "undated"}):
            posted = api.post("/baselines", {"name": "posted", "evidence": evidence}).json()
            assert posted["baseline"]["made_at"] == "2024-01-01T00:00:00.000Z"
            (warning,) = posted["warnings"]
            assert "days old; release@1 allows 90. Decisions refuse it. Evaluate" in warning
        fresh = api.post("/baselines", {"name": "posted", "evidence": runs(3)}).json()
        assert fresh["warnings"] == []


def evaluation(api: Api, name: str) -> Any:
    return api.get(f"/evaluations/{name}").json()["record"]
