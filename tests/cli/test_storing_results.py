"""`--store` on the verbs that only compute: what they say is kept as it is and once, tied to what
of their input is there, listed, never replayed.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import test_storing
from assay.sandbox.isolation import available
from assay.store.drafts import draft
from assay.store.ledger import open_ledger
from documents import scorecard
from examples import CAMPAIGN
from judges import Run, here
from postgres import ledger_url, on_sqlite, postgres_url
from serving import Api, description, runs, serving
from stocked import card
from test_pages import HTML, Markup
from test_storing import inputs, inputs_folder

__all__ = ["here", "inputs", "inputs_folder", "ledger_url", "postgres_url"]

PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"


def write(path: Path, *documents: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(document, default=float) + "\n" for document in documents))


def put_runs(folder: Path) -> None:
    write(folder / "runs.jsonl", *runs(6))


def put_cards(folder: Path) -> None:
    for month in (10, 11):
        (folder / f"card-{month}.json").write_text(
            json.dumps(card(now=datetime(2025, month, 3, tzinfo=UTC)), default=float)
        )


def put_trec(folder: Path) -> None:
    (folder / "qrels.txt").write_text("q1 0 d1 1\nq1 0 d2 0\n")
    (folder / "run.txt").write_text("q1 Q0 d1 1 2.0 x\nq1 Q0 d2 2 1.0 x\n")


def put_patch(folder: Path) -> None:
    if shutil.which("git") is None and os.environ.get("CI") != "true":
        pytest.skip("git is not installed")
    (folder / "tree").mkdir(exist_ok=True)
    (folder / "tree/a.txt").write_text("one\n")
    (folder / "fix.diff").write_text(PATCH)


def lines(*documents: dict[str, Any]) -> Callable[[Path], None]:
    return lambda folder: write(folder / "lines.jsonl", *documents)


VERBS: dict[str, tuple[tuple[str, ...], Callable[[Path], None]]] = {
    "report rank": (("report", "rank", "runs.jsonl"), put_runs),
    "report summary": (("report", "summary", "runs.jsonl"), put_runs),
    "judge drift": (("judge", "drift", "card-10.json", "card-11.json"), put_cards),
    "measure retrieval": (
        ("measure", "retrieval", "--qrels", "qrels.txt", "--run", "run.txt"),
        put_trec,
    ),
    "measure pass-at-k": (
        ("measure", "pass-at-k", "lines.jsonl", "--k", "1,9"),
        lines({"task_id": "t", "n": 3, "c": 1}),
    ),
    "measure tests": (
        ("measure", "tests", "lines.jsonl"),
        lines(
            {
                "instance_id": "i",
                "fail_to_pass": {"passed": ["a"], "failed": []},
                "pass_to_pass": {"passed": [], "failed": []},
            }
        ),
    ),
    "measure tool-calls": (
        ("measure", "tool-calls", "lines.jsonl"),
        lines(
            {
                "id": "c",
                "tools": [
                    {
                        "name": "f",
                        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
                    }
                ],
                "calls": [{"name": "f", "arguments": {"x": 1}}],
                "expected": [{"name": "f", "arguments": {"x": [1]}}],
            }
        ),
    ),
    "measure patch": (("measure", "patch", "--tree", "tree", "fix.diff"), put_patch),
    "measure agreement": (
        ("measure", "agreement", "lines.jsonl", "--raters", "a,b"),
        lines(*({"a": index % 2, "b": index % 3 % 2} for index in range(12))),
    ),
    "measure pairwise": (
        ("measure", "pairwise", "lines.jsonl"),
        lines({"id": "p", "order": "ab", "winner": "a"}, {"id": "p", "order": "ba", "winner": "a"}),
    ),
    "measure text": (
        ("measure", "text", "lines.jsonl"),
        lines({"id": "t", "actual": "a", "expected": "a"}),
    ),
}
"""Every verb that only computes, but for the two that run code: `measure solutions` and `measure
repair` end in the same function as `measure patch`.
"""


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Api]:
    with serving(f"{tmp_path}/l.db") as found:
        yield found


def results(url: str) -> list[Any]:
    with open_ledger(url) as ledger:
        return list(ledger.find("result").items)


def sources(api: Api, digest: str) -> list[str]:
    return sorted(
        link["source"]
        for link in api.get(f"/records/{digest}").json()["links"]
        if link["relation"] == "evidence_of" and link["target"] == digest
    )


# --- what is kept


def test_every_family_of_measures_is_looked_at_here() -> None:
    from assay.cli.verbs import VERBS as TABLE

    assert {f"measure {kind}" for kind in TABLE["measure"].actions} - set(VERBS) == {
        "measure solutions",
        "measure repair",
    }


PLAYED = ("report rank", "judge drift", "measure text")
"""A verb of each kind: the rest of a kind differs by its name."""


def test_what_a_verb_says_is_kept_as_it_is_and_once(here: Run, tmp_path: Path, lite: Api) -> None:
    for verb, (arguments, put) in VERBS.items():
        put(tmp_path)
        first = here(*arguments, "--json", "--store", "l.db")
        assert "1 record stored" in first.err, (verb, first.err)
        listed = lite.get("/results").json()["items"][0]
        schema = f"assay.{verb.removeprefix('report ').replace(' ', '-')}/1"
        assert (listed["kind"], listed["schema"]) == ("result", schema)
        record = lite.get(f"/results/{listed['digest']}").json()["record"]
        assert record == {"schema": schema, **json.loads(first.out)}
        if verb not in PLAYED and not CAMPAIGN:
            continue
        plain = here(*arguments, "--json")
        again = here(*arguments, "--store", "l.db")
        assert (first.out, first.code, again.code) == (plain.out, plain.code, plain.code), verb
        assert "0 records stored" in again.err
        played = here("ledger", "replay", listed["digest"], "--db", "l.db", "--json")
        assert played.code == 3
        error = json.loads(played.err)["error"]
        assert (error["code"], f"`assay {verb}` makes it again" in error["fix"]) == (
            "STO-017",
            True,
        )
    assert here("ledger", "verify", "--db", "l.db").code == 0


def test_results_are_kept_alike_on_every_database(
    assay: Any, tmp_path: Path, ledger_url: str
) -> None:
    put_runs(tmp_path)
    graded = assay("grade", "runs.jsonl", "--store", ledger_url)
    assert graded.code in (0, 1), graded.err
    done = assay("report", "summary", "runs.jsonl", "--store", ledger_url, "--json")
    assert (done.code, "1 record stored" in done.err) == (0, True), done.err
    [item] = results(ledger_url)
    assert json.loads(item.body) == {"schema": "assay.summary/1", **done.json()}
    with serving(ledger_url) as api:
        assert sources(api, item.digest) == sorted(
            one["digest"] for one in api.get("/runs").json()["items"]
        )
        forgotten = api.post(
            f"/records/{sources(api, item.digest)[0]}/forget", {"reason": "asked for"}
        ).json()
        assert item.digest in forgotten["rests_on_it"], (
            "whoever has a run forgotten is told which summary it is still in"
        )
    assert "0 records stored" in assay("report", "summary", "runs.jsonl", "--store", ledger_url).err
    assert assay("ledger", "verify", "--db", ledger_url).code == 0


def test_solutions_that_were_run_are_kept_too(assay: Any, tmp_path: Path) -> None:
    if (why := available()["bubblewrap"]) and os.environ.get("CI") != "true":
        pytest.skip(f"bubblewrap is needed: {why}")
    write(
        tmp_path / "lines.jsonl",
        {
            "task_id": "t",
            "solution": "def f():\n    return 1\n",
            "test": "def check(f):\n    assert f() == 1\n",
            "entry_point": "f",
        },
    )
    done = assay(
        "measure", "solutions", "lines.jsonl", "--store", "l.db", "--json", "-o", "out.json"
    )
    assert done.code == 0, done.err
    again = assay("measure", "solutions", "lines.jsonl", "--store", "l.db", "--json")
    [item] = results(f"{tmp_path}/l.db")
    assert item.schema == "assay.measure-solutions/1"
    assert ("1 record stored" in done.err, "0 records stored" in again.err) == (
        True,
        True,
    ), "the same measurement twice is one record"
    assert done.json()["attempts"][0]["wall_s"] != again.json()["attempts"][0]["wall_s"], (
        "how long it took is still said"
    )
    assert json.loads((tmp_path / "out.json").read_text()) == done.json()
    kept = {
        "schema": "assay.measure-solutions/1",
        **done.json(),
        "attempts": [{**one} for one in done.json()["attempts"]],
    }
    assert kept["attempts"][0].pop("wall_s") > 0
    assert json.loads(item.body) == kept


@pytest.mark.parametrize(("patch", "tests"), [("fix.diff", 2), ("stale.diff", 0)])
def test_a_repair_that_was_measured_twice_is_one_record_whatever_its_tests_are_called(
    assay: Any, tmp_path: Path, patch: str, tests: int
) -> None:
    if (why := available()["bubblewrap"]) and os.environ.get("CI") != "true":
        pytest.skip(f"bubblewrap is needed: {why}")
    put_patch(tmp_path)
    (tmp_path / "stale.diff").write_text(PATCH.replace("-one", "-three"))
    arguments = (
        "--tree",
        "tree",
        "--patch",
        patch,
        "--test-command",
        "{python} -c 1 {test}",
        "--pass-to-pass",
        "wall_s,b",
        "--id",
        "wall_s",
    )
    done, again = (
        assay("measure", "repair", *arguments, "--store", "l.db", "--json") for _ in range(2)
    )
    assert done.code == 0, done.err
    assert ("1 record stored" in done.err, "0 records stored" in again.err) == (
        True,
        True,
    ), again.err
    kept, document = json.loads(results(f"{tmp_path}/l.db")[-1].body), done.json()
    runs_told = [
        run
        for both in (document["instances"]["wall_s"]["tests"] or {}).values()
        for run in both.values()
    ]
    assert [run.pop("wall_s") > 0 for run in runs_told] == [True] * 2 * tests
    assert kept == {
        "schema": "assay.measure-repair/1",
        **document,
    }, "nothing else is left out, whatever it is called"


# --- plans

PLAN = ("gate", "--plan", "--now", "2026-11-10T00:00:00Z")


@on_sqlite
def test_a_plan_is_kept_once_and_found_through_the_ledger(
    here: Run, tmp_path: Path, ledger_url: str
) -> None:
    write(tmp_path / "runs.jsonl", *runs(4))
    write(tmp_path / "some.jsonl", *runs(4)[:2])
    assert here("grade", "some.jsonl", "--store", ledger_url).code in (0, 1)
    plain = here(*PLAN, "--baseline", "runs.jsonl", "--json")
    done = here(
        *PLAN, "--baseline", "runs.jsonl", "--json", "--store", ledger_url, "-o", "plan.json"
    )
    assert (done.code, done.out) == (0, plain.out), "storing changes no result"
    assert "1 record stored" in done.err, done.err
    assert "0 records stored" in here(*PLAN, "--baseline", "runs.jsonl", "--store", ledger_url).err
    [item] = results(ledger_url)
    assert (item.schema, json.loads(item.body)) == (
        "assay.gate-plan/1",
        {"schema": "assay.gate-plan/1", "plan": json.loads(done.out)},
    )
    with serving(ledger_url) as api:
        [listed] = api.get("/results").json()["items"]
        assert (
            api.get(f"/results/{listed['digest']}").json()["record"]["plan"]["digest"]
            == json.loads(done.out)["digest"]
        )
        assert sources(api, item.digest) == sorted(
            one["digest"] for one in api.get("/runs").json()["items"]
        ), "tied to those of its runs that are there"
    played = here("ledger", "replay", item.digest, "--db", ledger_url, "--json")
    assert (
        played.code,
        "`assay gate --plan` makes it again" in json.loads(played.err)["error"]["fix"],
    ) == (3, True)
    assert here("ledger", "verify", "--db", ledger_url).code == 0


def test_a_plan_that_is_kept_is_decided_with_and_both_are_kept(here: Run, tmp_path: Path) -> None:
    write(tmp_path / "candidate.jsonl", *runs(4))
    write(tmp_path / "baseline.jsonl", *runs(4, latency_ms=20000))
    plan = (
        "gate",
        "--plan",
        "--baseline",
        "baseline.jsonl",
        "--now",
        "2026-11-10T00:00:00Z",
        "-o",
        "plan.json",
    )
    gate = ("gate", "candidate.jsonl", "--baseline", "baseline.jsonl", "--with-plan", "plan.json")
    for first, second, url in ((plan, gate, "a.db"), (gate, plan, "b.db")):
        assert here(*plan).code == 0
        for arguments in (first, second):
            done = here(*arguments, "--store", url)
            too_few = 4 if arguments is gate else 0
            assert done.code == too_few, done.err
        with open_ledger(url) as ledger:
            decision = ledger.find("decision").items[0]
            assert (
                decision.tree()["plan"]["digest"]
                == ledger.find("result").items[0].tree()["plan"]["digest"]
            )
        assert here("ledger", "replay", decision.digest, "--db", url).code == 0
        assert here("ledger", "verify", "--db", url).code == 0


def test_a_plan_takes_a_baseline_of_the_ledger_as_what_it_is_made_of(
    here: Run, tmp_path: Path
) -> None:
    write(tmp_path / "baseline.jsonl", *runs(4, latency_ms=20000))
    assert (
        here(
            "baseline",
            "set",
            "production",
            "baseline.jsonl",
            "--dir",
            "elsewhere",
            "--store",
            "l.db",
            "--now",
            "2026-11-01T00:00:00Z",
        ).code
        == 0
    )
    assert (
        here(
            "gate",
            "--plan",
            "--baseline",
            "production",
            "--now",
            "2026-11-10T00:00:00Z",
        ).code
        == 4
    ), "without the ledger there is none"
    done = here(
        "gate",
        "--plan",
        "--baseline",
        "production",
        "--now",
        "2026-11-10T00:00:00Z",
        "--store",
        "l.db",
        "--json",
    )
    assert (done.code, done.json()["n"], "is the one in the project 'default' of" in done.err) == (
        0,
        4,
        True,
    ), done.err
    [item] = results("l.db")
    with open_ledger("l.db") as ledger:
        assert (
            len(
                [
                    link
                    for link in ledger.links_of(item.digest, limit=1000)
                    if link.relation == "evidence_of"
                ]
            )
            == 4
        )
    old = here(
        "gate",
        "--plan",
        "--baseline",
        "production",
        "--now",
        "2029-11-10T00:00:00Z",
        "--store",
        "l.db",
    )
    assert (old.code, "days old" in old.err) == (4, True)
    for arguments, code in (
        (("--power", "2"), 2),
        (("--baseline", "nobody"), 4),
        (("-o", "plan.md"), 2),
    ):
        assert here(*PLAN, *arguments, "--store", "fresh.db").code == code
    assert (tmp_path / "fresh.db").exists(), "a ledger is opened before it is looked into"
    assert results("fresh.db") == []


# --- what it is tied to


@pytest.mark.parametrize("verb", ["rank", *(["summary"] if CAMPAIGN else [])])
def test_a_result_is_tied_to_the_runs_that_are_there_and_stores_none_itself(
    here: Run, tmp_path: Path, lite: Api, verb: str
) -> None:
    given = runs(4)
    for one in given:
        one["latency_ms"] = float(one["latency_ms"])
    cards = [
        scorecard({"norm": 1}, run_id=f"c-{index}", sample_id=f"c-{index}") for index in range(2)
    ]
    write(tmp_path / "runs.jsonl", *(dict(reversed(one.items())) for one in given), *cards)
    write(tmp_path / "some.jsonl", *given[:2], cards[0])
    assert here("report", verb, "runs.jsonl", "--store", "l.db").code == 0
    [item] = lite.get("/results").json()["items"]
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        assert ledger.count().n == 1, "the input is not stored"
    assert sources(lite, item["digest"]) == []
    assert here("grade", "some.jsonl", "--store", "l.db").code in (0, 1)
    assert "0 records stored" in here("report", verb, "runs.jsonl", "--store", "l.db").err
    evidence = [one["digest"] for one in lite.get("/runs").json()["items"]]
    tied = sources(lite, item["digest"])
    assert (len(tied), set(evidence) < set(tied)) == (
        3,
        True,
    ), "two runs, and the scorecard that came as one"
    for digest in evidence:  # a result that a run is part of changes nothing about its grade
        assert (
            f"/api/v1/records/{item['digest']}"
            in Markup(lite.client.get(f"/runs/{digest}", headers=HTML).text).links()
        )
        assert (
            here(
                "ledger",
                "replay",
                lite.get(f"/runs/{digest}/grade").headers["assay-digest"],
                "--db",
                "l.db",
            ).code
            == 0
        )
    assert here("ledger", "verify", "--db", "l.db").code == 0


def test_runs_of_another_project_are_not_tied_to(here: Run, tmp_path: Path, lite: Api) -> None:
    put_runs(tmp_path)
    assert here("grade", "runs.jsonl", "--store", "l.db", "--project", "theirs").code in (0, 1)
    assert here("report", "rank", "runs.jsonl", "--store", "l.db", "--project", "ours").code == 0
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        [item] = ledger.find("result", project="ours").items
        assert ledger.links_of(item.digest, project="ours") == []
        assert (ledger.count(project="ours").n, ledger.count("result", project="theirs").n) == (
            1,
            0,
        )


def test_drift_is_tied_to_the_cards_that_are_there(here: Run, tmp_path: Path, lite: Api) -> None:
    put_cards(tmp_path)
    known = lite.post("/cards", json.loads((tmp_path / "card-10.json").read_text())).json()[
        "digest"
    ]
    done = here(*VERBS["judge drift"][0], "--store", "l.db", "--json")
    assert done.code in (0, 1, 4), done.err
    [item] = lite.get("/results").json()["items"]
    assert sources(lite, item["digest"]) == [known]
    assert lite.client.get(f"/judges/{known}", headers=HTML).status_code == 200


def test_the_cards_that_runs_were_graded_by_are_part_of_what_a_summary_is_made_of(
    here: Run, tmp_path: Path, lite: Api
) -> None:
    put_cards(tmp_path)
    put_runs(tmp_path)
    known = lite.post("/cards", json.loads((tmp_path / "card-11.json").read_text())).json()[
        "digest"
    ]
    judged = (
        "--policy",
        "workflow-judged",
        "--judge-card",
        "card-11.json",
        "--now",
        "2026-11-16T00:00:00Z",
    )
    assert here("report", "summary", "runs.jsonl", *judged, "--store", "l.db").code == 0
    assert sources(lite, lite.get("/results").json()["items"][0]["digest"]) == [known]


# --- what goes wrong


def test_a_verb_that_cannot_store_does_not_pass_and_says_why(here: Run, tmp_path: Path) -> None:
    (tmp_path / "garbage.db").write_bytes(b"no database" * 500)
    urls = {
        "garbage.db": "is not a ledger, or is damaged",
        "mysql://x/y": "sqlite:/// or postgresql://",
        "/proc/none/l.db": "cannot be written",
    }
    for verb, (arguments, put) in VERBS.items():
        put(tmp_path)
        every = CAMPAIGN or verb == "report rank"
        for url, words in [*urls.items()] if every else [*urls.items()][:1]:
            done = here(*arguments, "--store", url, "--json")
            assert done.code in (2, 3, 5), (verb, url, done.err)
            assert (words in done.err, "Traceback" in done.err, done.out) == (True, False, "")
            assert json.loads(done.err.splitlines()[-1])["error"]["code"].startswith("STO-"), verb
        assert here(*arguments, "--store", "l.db", "--project", "../x").code == 3, verb


@pytest.mark.parametrize("verb", ["report summary", *(["measure text"] if CAMPAIGN else [])])
def test_a_ledger_that_is_locked_or_read_only_keeps_every_output_back(
    assay: Any, here: Run, tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, put = VERBS[verb]
    put(tmp_path)
    with open_ledger(f"{tmp_path}/l.db"):
        pass
    holder = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setitem(open_ledger.__kwdefaults__, "patience", 0.2)  # as without it, only sooner
    held = here(*arguments, "--store", "l.db", "--json", "-o", "out.json")
    holder.execute("ROLLBACK")
    holder.close()
    assert (
        held.code,
        "has been locked by another writer" in held.err,
        held.out,
        (tmp_path / "out.json").exists(),
    ) == (2, True, "", False), held.err
    if os.getuid() != 0:
        (tmp_path / "l.db").chmod(0o444)
        assert "may only be read" in assay(*arguments, "--store", "l.db").err
        (tmp_path / "l.db").chmod(0o644)
    assert assay(*arguments, "--store", "l.db", "--json", "-o", "out.json").code == 0
    assert assay("ledger", "verify", "--db", "l.db").code == 0


def test_an_input_at_fault_stores_nothing(here: Run, tmp_path: Path) -> None:
    write(tmp_path / "lines.jsonl", {"id": "t"})
    put_runs(tmp_path)
    with (tmp_path / "runs.jsonl").open("a") as stream:
        stream.write("{broken\n")
    for arguments in (
        ("measure", "text", "lines.jsonl"),
        ("report", "rank", "runs.jsonl"),
        ("report", "summary", "runs.jsonl"),
    ):
        assert here(*arguments, "--store", "l.db").code == 3
    assert here("report", "summary", "runs.jsonl", "-o", "out.txt", "--store", "l.db").code == 2
    assert results(f"{tmp_path}/l.db") == []


def in_one_process(
    folder: Path, *stages: tuple[list[list[str]], tuple[str, ...]], **env: str
) -> list[tuple[list[int], list[str]]]:
    """For each stage, the exit codes of its commands and which of its modules are loaded after
    them. All run one after the other in one new Python.
    """
    code = (
        "import json, sys\nfrom assay.cli.main import run\nfound = [([run(argv) for argv in"
        " commands], [name for name in sys.modules if name.startswith(modules)]) for commands,"
        f" modules in {stages!r}]\nprint(); print(json.dumps(found))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **env},
    )
    return [(codes, loaded) for codes, loaded in json.loads(done.stdout.splitlines()[-1])]


def test_verbs_without_store_load_no_database_and_storing_needs_no_web_framework(
    inputs: Path,
) -> None:
    for _, put in (VERBS["report rank"], VERBS["measure text"], VERBS["judge drift"]):
        put(inputs)
    (inputs / "empty.jsonl").touch()
    results_of = ("report rank", "report summary", "measure text", "judge drift")
    verbs = [*test_storing.VERBS.values(), *(VERBS[verb][0] for verb in results_of)]
    plain = [*map(list, verbs), ["grade", "empty.jsonl"]]
    stored = [*([*verb, "--store", "l.db"] for verb in verbs), ["schema-of", "event"]]
    (codes, database), (again, web) = in_one_process(
        inputs,
        (plain, ("sqlalchemy", "assay.store.ledger", "assay.server", "fastapi")),
        (stored, ("assay.server", "fastapi", "starlette")),
    )
    assert (set(codes) <= {0, 1, 4}, database) == (True, [])
    assert (again[:-1], web) == (codes[:-1], [])
    assert len(results(f"{inputs}/l.db")) == len(results_of)


# --- who sees it


def test_a_project_sees_no_result_of_another(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/l.db", allow_anonymous=False) as api:
        made = draft(
            {"schema": "assay.rank/1", "order": [{"run_id": "only-for-ours"}]}, kind="result"
        )
        api.services.ledger.put_many([made], project="ours")
        ours, theirs = api.token("ours"), api.token("theirs")
        assert [one["digest"] for one in api.get("/results", headers=ours).json()["items"]] == [
            made.name
        ]
        assert api.get(f"/results/{made.name}", headers=ours).json()["record"]["order"] == [
            {"run_id": "only-for-ours"}
        ]
        assert api.get("/results", headers=theirs).json()["items"] == []
        for path in (f"/results/{made.name}", f"/records/{made.name}"):
            answer = api.get(path, headers=theirs)
            assert (answer.status_code, "only-for-ours" in answer.text) == (404, False)
        assert (api.get("/results").status_code, api.get(f"/results/{made.name}").status_code) == (
            401,
            401,
        )
    assert {"/api/v1/results", "/api/v1/results/{digest}"} <= set(description()["paths"])


def test_a_result_that_was_forgotten_is_said_to_be_so_and_does_not_come_back(
    here: Run, tmp_path: Path, lite: Api
) -> None:
    put_runs(tmp_path)
    assert here("report", "rank", "runs.jsonl", "--store", "l.db").code == 0
    digest = lite.get("/results").json()["items"][0]["digest"]
    assert lite.post(f"/records/{digest}/forget", {"reason": "asked for"}).status_code == 200
    answer = lite.get(f"/results/{digest}")
    assert (answer.status_code, answer.json()["record"]) == (200, None)
    refused = here("report", "rank", "runs.jsonl", "--store", "l.db", "--json")
    assert (refused.code, refused.out, "can't be stored again" in refused.err) == (3, "", True)
    assert here("ledger", "verify", "--db", "l.db").code == 0
