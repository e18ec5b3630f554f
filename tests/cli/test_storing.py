"""`--store` on every verb that has results: the record is the one the API would keep, it is kept
once, and what cannot be kept never passes.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from assay.store.ledger import open_ledger
from commands import Running, run_here
from documents import run, scorecard
from examples import CAMPAIGN, repeats
from judges import Run, here, judged, put_items
from postgres import ledger_url, on_sqlite, postgres_url
from servers.scripted_judge import scripted_judge
from serving import Api, runs, serving
from test_tools_cli import IMPORTED, LATER, RECORDED, WEIGHT, envelope, record
from test_tools_protocol import GRADED, put, schema, scores

__all__ = ["here", "ledger_url", "postgres_url"]

EXAM = {
    "exam": "verbs",
    "items": [
        {"id": "i-1", "prompt": "p", "expected_contains": ["went"], "gloss_contains": ["ging"]}
    ],
}
ANSWER = {
    "item": "i-1",
    "response": {"correction": "He went.", "gloss": "Er ging.", "explanation": "past"},
    "latency_ms": 12,
}
GATE = ("gate", "candidate.jsonl", "--baseline", "baseline.jsonl")


def write(path: Path, *documents: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(document, default=float) + "\n" for document in documents))


def put_sides(folder: Path, n: int = 60) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    ours, theirs = runs(n), runs(n, latency_ms=20000)
    write(folder / "candidate.jsonl", *ours)
    write(folder / "baseline.jsonl", *theirs)
    return ours, theirs


def put_exam(folder: Path) -> None:
    (folder / "exam.json").write_text(json.dumps(EXAM))
    write(folder / "answers.jsonl", ANSWER)


def put_labels(folder: Path, n: int = 40) -> None:
    write(
        folder / "labels.jsonl",
        *({"id": f"l-{index}", "human": index % 2, "judge": index % 2} for index in range(n)),
    )


def newest(url: str, kind: str) -> str:
    with open_ledger(url) as ledger:
        return ledger.find(kind, newest_first=True, limit=1).items[0].digest


def count(url: str) -> int:
    with open_ledger(url) as ledger:
        return ledger.count().n


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Api]:
    with serving(f"{tmp_path}/l.db") as found:
        yield found


# --- the record is the one of the API


@on_sqlite
def test_a_decision_that_the_command_stores_is_the_very_record_of_the_api(
    assay: Any, tmp_path: Path, ledger_url: str
) -> None:
    ours, theirs = put_sides(tmp_path, 3)
    done = assay(*GATE, "--json", "--store", ledger_url)
    assert (done.code, done.json()["outcome"]) == (4, "not_enough_evidence")
    assert "19 records stored" in done.err  # three for each run of both sides, and the decision
    assert done.out == assay(*GATE, "--json").out  # storing changes no result
    before = count(ledger_url)
    with serving(ledger_url) as api:
        posted = api.post("/decisions", {"candidate": ours, "baseline": theirs}).json()
        assert (posted["digest"], posted["new"]) == (newest(ledger_url, "decision"), False)
        assert count(ledger_url) == before, "nothing of it is new"
        shown = api.get(f"/records/{posted['digest']}").json()
        assert api.get("/decisions").json()["items"][0]["digest"] == posted["digest"]
    assert shown["record"] == done.json()
    assert (
        sorted(link["relation"] for link in shown["links"])
        == ["baseline_of"] * 3 + ["candidate_of"] * 3 + ["decides"] * 6
    )
    assert "0 records stored" in assay(*GATE, "--store", ledger_url).err
    assert assay("ledger", "verify", "--db", ledger_url).code == 0
    played = assay("ledger", "replay", posted["digest"], "--db", ledger_url, "--json")
    assert (played.code, played.json()["same"]) == (0, True)
    assert played.json()["outcome"] == "not_enough_evidence"


def test_a_grade_of_a_stored_decision_is_replayed_from_its_own_run(
    assay: Any, tmp_path: Path, lite: Api
) -> None:
    """Two runs that differ only in what nobody scores come to one scorecard; each grade still finds
    its own run.
    """
    write(tmp_path / "candidate.jsonl", *runs(1, metadata={"side": "ours"}))
    write(tmp_path / "baseline.jsonl", *runs(1, metadata={"side": "theirs"}))
    assert assay(*GATE, "--store", "l.db").code == 4  # too few
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        grades = [item.digest for item in ledger.find("grade").items]
        assert (len(grades), ledger.count("scorecard").n, ledger.count("run").n) == (2, 1, 2)
    for digest in (*grades, newest(f"{tmp_path}/l.db", "decision")):
        assert assay("ledger", "replay", digest, "--db", "l.db").code == 0
    for path in ("candidate.jsonl", "baseline.jsonl"):
        tree = json.loads((tmp_path / path).read_text())
        posted = lite.post("/runs", tree).json()
        assert lite.get(f"/runs/{posted['digest']}/grade").json() == posted["grade"]


def test_a_declared_plan_counts_in_the_api_as_it_does_in_the_command(
    assay: Any, tmp_path: Path, lite: Api
) -> None:
    ours, theirs = put_sides(tmp_path, 12)
    assert (
        assay(
            "gate", "--plan", "--baseline", "baseline.jsonl", "--slice", "tag", "-o", "plan.json"
        ).code
        == 0
    )
    plan = json.loads((tmp_path / "plan.json").read_text())
    said = assay(*GATE, "--with-plan", "plan.json", "--json", "--store", "l.db").json()
    assert said["plan"]["changed"] == ["the slices were declared as tag and are none"]
    posted = lite.post("/decisions", {"candidate": ours, "baseline": theirs, "plan": plan}).json()
    assert (posted["new"], posted["decision"]) == (False, said)
    assert posted["decision"]["plan"]["digest"] == plan["digest"]
    assert assay("ledger", "replay", posted["digest"], "--db", "l.db").code == 0
    kept = lite.post(
        "/decisions", {"candidate": ours, "baseline": theirs, "plan": plan, "slices": ["tag"]}
    ).json()["decision"]
    assert (kept["plan"]["declared"], kept["plan"]["changed"]) == (True, [])
    fewer = lite.post(
        "/decisions",
        {"candidate": ours[:5], "baseline": theirs[:5], "plan": plan, "slices": ["tag"]},
    ).json()["decision"]
    assert len(fewer["missing"]["candidate"]) == 7, (
        "a sample of the plan that is missing on both sides is missed"
    )
    forged = lite.post(
        "/decisions", {"candidate": ours, "baseline": theirs, "plan": {**plan, "margin": 50}}
    )
    assert (
        forged.status_code,
        forged.json()["code"],
        "it was changed later" in forged.json()["detail"],
    ) == (422, "REL-001", True)
    assert (
        lite.post(
            "/decisions", {"candidate": ours, "baseline": theirs, "plan": {"margin": 1}}
        ).status_code
        == 422
    )
    assert (
        lite.post(
            "/decisions", {"candidate": ours, "baseline": theirs, "plan": "plan.json"}
        ).status_code
        == 422
    )


def test_terms_and_odd_spellings_survive_the_replay_of_a_decision(
    assay: Any, tmp_path: Path
) -> None:
    ours, theirs = put_sides(tmp_path, 10)
    for one in (*ours, *theirs):
        one["tags"] = ["zebra" if one["run_id"] < "r-2" else "ape"]
        one["latency_ms"] = float(one["latency_ms"])
    write(tmp_path / "candidate.jsonl", *(dict(reversed(one.items())) for one in ours))
    write(tmp_path / "baseline.jsonl", *theirs)
    done = assay(*GATE, "--slice", "tag", "--quarantine", "d/s-7", "--store", "--json")
    assert done.code == 4, done.err
    assert assay("ledger", "replay", newest(f"{tmp_path}/.assay/ledger.db", "decision")).code == 0
    write(
        tmp_path / "baseline.jsonl",
        *(
            run(
                run_id=f"o-{index}",
                dataset={"id": "other", "version": "1", "sample_id": f"o-{index}"},
            )
            for index in range(10)
        ),
    )
    assert assay(*GATE, "--store").code == 4
    assert assay("ledger", "replay", newest(f"{tmp_path}/.assay/ledger.db", "decision")).code == 0


def test_a_decision_on_bare_grades_is_kept_without_them_and_says_so(
    assay: Any, tmp_path: Path
) -> None:
    put_sides(tmp_path, 4)
    assert assay("grade", "candidate.jsonl", "-o", "grades.json").code == 0
    done = assay("gate", "grades.json", "--baseline", "baseline.jsonl", "--store", "l.db")
    without = "not stored, because they came without their evidence: 4 grades"
    assert (done.code, without in done.err) == (4, True), done.err
    played = assay("ledger", "replay", newest(f"{tmp_path}/l.db", "decision"), "--db", "l.db")
    assert (played.code, "stored without their evidence" in played.err) == (4, True)
    assert assay("ledger", "verify", "--db", "l.db").code == 0
    refused = assay("baseline", "set", "production", "grades.json", "--store", "l.db")
    assert (refused.code, "needs runs or scorecards" in refused.err) == (3, True)
    assert not (tmp_path / ".assay/baselines").exists()


def test_the_cards_of_judges_that_a_decision_rests_on_are_kept_with_it(
    assay: Any, tmp_path: Path
) -> None:
    from test_judge_audit import SCORER, good_card

    (tmp_path / "card.json").write_text(json.dumps(good_card()))
    criteria = [
        {
            "name": "q",
            "raw_score": 5,
            "formula_id": "likert_1_5",
            "weight": 1,
            "role": "correctness",
            "layer": 2,
            "source": SCORER,
        }
    ]
    cards = [
        scorecard({"norm": 1}, run_id=f"r-{index}", sample_id=f"s-{index}", criteria=criteria)
        for index in range(3)
    ]
    write(tmp_path / "candidate.jsonl", *cards)
    write(tmp_path / "baseline.jsonl", *cards)
    judged = (
        "--grading-policy",
        "workflow-judged",
        "--judge-card",
        "card.json",
        "--now",
        "2026-11-16T00:00:00Z",
    )
    assert assay(*GATE, *judged, "--store", "l.db").code == 4
    with open_ledger(f"{tmp_path}/l.db") as ledger:
        assert [ledger.count(kind).n for kind in ("card", "scorecard", "grade", "decision")] == [
            1,
            3,
            3,
            1,
        ]
    assert (
        assay("ledger", "replay", newest(f"{tmp_path}/l.db", "decision"), "--db", "l.db").code == 0
    )


def test_a_baseline_that_the_command_keeps_is_the_one_of_the_api(
    assay: Any, tmp_path: Path, lite: Api
) -> None:
    ours, theirs = put_sides(tmp_path, 4)
    posted = lite.post("/baselines", {"name": "production", "evidence": theirs}).json()
    before = count(f"{tmp_path}/l.db")
    done = assay(
        "baseline",
        "set",
        "production",
        "baseline.jsonl",
        "--store",
        "l.db",
        "--now",
        posted["baseline"]["made_at"],
    )
    assert (done.code, "0 records stored" in done.err, count(f"{tmp_path}/l.db")) == (
        0,
        True,
        before,
    ), done.err
    assert assay("baseline", "set", "staging", "baseline.jsonl", "--store", "l.db").code == 0
    assert assay("baseline", "show", "staging").code == 0
    used = lite.post("/decisions", {"candidate": ours, "baseline": {"baseline": "staging"}})
    assert used.status_code == 201, used.text
    assert used.json()["decision"]["comparison"]["n_paired"] == 4
    assert [one["digest"] for one in lite.get("/baselines").json()["items"]][1] == posted["digest"]
    assert assay("ledger", "verify", "--db", "l.db").code == 0


def test_a_baseline_that_is_too_old_is_refused_by_the_api_as_by_the_command(
    assay: Any, tmp_path: Path, lite: Api
) -> None:
    ours, _ = put_sides(tmp_path, 4)
    assert (
        assay(
            "baseline",
            "set",
            "old",
            "baseline.jsonl",
            "--store",
            "l.db",
            "--now",
            "2020-01-01T00:00:00Z",
        ).code
        == 0
    )
    assert (
        assay(
            "baseline",
            "set",
            "coming",
            "baseline.jsonl",
            "--store",
            "l.db",
            "--now",
            "2999-01-01T00:00:00Z",
        ).code
        == 0
    )
    for name, words in (("old", "days old; release@1 allows"), ("coming", "is from the future")):
        said = assay("gate", "candidate.jsonl", "--baseline", name, "--store", "l.db")
        assert (said.code, words in said.err) == (4, True), said.err
        refused = lite.post("/decisions", {"candidate": ours, "baseline": {"baseline": name}})
        assert (refused.status_code, refused.json()["code"], words in refused.json()["detail"]) == (
            422,
            "REL-005",
            True,
        )
    digest = next(one["digest"] for one in lite.get("/baselines").json()["items"])
    assert (
        lite.post("/decisions", {"candidate": ours, "baseline": {"baseline": digest}}).status_code
        == 422
    ), "its digest makes it no younger"
    assert not lite.get("/decisions").json()["items"]


@on_sqlite
def test_an_exam_that_the_command_stores_is_the_very_record_of_the_api_and_its_history_stays(
    assay: Any, tmp_path: Path, ledger_url: str
) -> None:
    put_exam(tmp_path)
    (tmp_path / "exam-extra.json").write_text(
        json.dumps(EXAM)
    )  # which the command notes, and the ledger does not
    grade = ("exam", "grade", "exam.json", "--answers", "answers.jsonl")
    done = assay(
        *grade, "--break", "case-fold", "--json", "-o", "result.json", "--store", ledger_url
    )
    assert (done.code, "2 records stored" in done.err) == (0, True), done.err
    with serving(ledger_url) as api:
        posted = api.post("/exams/grade", {"exam": EXAM, "answers": [ANSWER]}).json()
        assert (posted["new"], count(ledger_url)) == (False, 2)
        links = api.get(f"/records/{posted['digest']}").json()["links"]
        [evidence] = [link["source"] for link in links if link["relation"] == "evidence_of"]
        kept = api.get(f"/records/{evidence}").json()["record"]
        assert (kept["answers"][0]["response"], kept["exam"][0]["items"][0]["id"]) == (
            ANSWER["response"],
            "i-1",
        )
        (tmp_path / "regression.json").write_text(json.dumps({**EXAM, "set": "regression"}))
        again = (
            "exam",
            "grade",
            "regression.json",
            "--answers",
            "answers.jsonl",
            "--store",
            ledger_url,
        )
        assert assay(*again, "-o", "before.json").code == 0
        before = newest(ledger_url, "exam")
        write(tmp_path / "answers.jsonl", {**ANSWER, "response": "no"})
        assert assay(*again, "-o", "worse.json").code == 0
        assert [one["digest"] for one in api.get("/exams").json()["items"]][1:] == [
            before,
            posted["digest"],
        ]
        gate = assay(
            "exam",
            "gate",
            "result.json",
            "--regression",
            "worse.json",
            "--baseline",
            "before.json",
            "--store",
            ledger_url,
            "--json",
        )
        assert (gate.code, "1 record stored" in gate.err) == (
            1,
            True,
        ), gate.err  # the results are there already
        shown = api.get(f"/records/{newest(ledger_url, 'decision')}").json()
    evidence = shown["record"].pop("evidence")
    assert shown["record"] == gate.json()
    assert sorted(link["relation"] for link in shown["links"]) == [
        "baseline_of",
        "candidate_of",
        "candidate_of",
    ]
    assert (evidence["capstone"], evidence["baseline"]) == (
        {"digest": posted["digest"]},
        {"digest": before},
    ), "it names what it was decided on"
    assert assay("baseline", "set", "tutor", "result.json", "--store", ledger_url).code == 0
    assert assay("ledger", "verify", "--db", ledger_url).code == 0
    played = assay("ledger", "replay", shown["digest"], "--db", ledger_url, "--json")
    assert (played.code, played.json()["same"], played.json()["passed"]) == (
        0,
        True,
        False,
    ), played.err


def test_a_card_that_the_command_stores_is_the_very_record_of_the_api(
    assay: Any, tmp_path: Path, lite: Api
) -> None:
    put_labels(tmp_path)
    calibrate = (
        "judge",
        "calibrate",
        "--labels",
        "labels.jsonl",
        "-o",
        "calibration.json",
        "--store",
        "l.db",
    )
    assert assay(*calibrate).code == 0
    assert "0 records stored" in assay(*calibrate).err
    made = assay(
        "judge",
        "card",
        "--calibration",
        "calibration.json",
        "--model",
        "m-1",
        "-o",
        "card.json",
        "--store",
        "l.db",
    )
    assert (made.code, "1 record stored" in made.err) == (
        1,
        True,
    ), made.err  # it may not gate: no audit
    posted = lite.post("/cards", json.loads((tmp_path / "card.json").read_text())).json()
    assert (posted["digest"], posted["new"]) == (newest(f"{tmp_path}/l.db", "card"), False)
    links = lite.get(f"/records/{posted['digest']}").json()["links"]
    assert [(link["relation"], link["source"]) for link in links] == [
        ("evidence_of", lite.get("/calibrations").json()["items"][0]["digest"])
    ]
    assert assay("ledger", "verify", "--db", "l.db").code == 0


def test_what_judges_say_is_kept_once_however_often_it_is_asked(
    here: Run, tmp_path: Path, lite: Api
) -> None:
    put_items(tmp_path, 3)
    with scripted_judge() as judge:
        asked = (
            "judge",
            "rubric",
            "items.jsonl",
            "--rubric",
            "plain.yaml",
            "--model",
            "m-1",
            "--base-url",
            judge.url,
            "--retries",
            "0",
        )
        first = here(*asked, "--store", "l.db", "--json")
        again = here(*asked, "--store", "l.db")
    assert ("1 record stored" in first.err, "0 records stored" in again.err) == (True, True)
    [item] = lite.get("/judgements").json()["items"]
    kept = lite.get(f"/judgements/{item['digest']}").json()["record"]
    assert kept == judged(first.json())
    assert (item["schema"], kept["items"][0]["raw"]) == (
        "assay.judgements/1",
        first.json()["items"][0]["raw"],
    )


def test_an_audit_is_kept_and_goes_behind_the_card_that_is_made_of_it(
    here: Run, tmp_path: Path, lite: Api
) -> None:
    with scripted_judge() as judge:
        asked = (
            "--model",
            "m-1",
            "--base-url",
            judge.url,
            "--retries",
            "0",
            "--first",
            "3",
            "--no-journal",
        )
        assert here("judge", "audit", *asked, "-o", "audit.json", "--store", "l.db").code in (0, 4)
    assert here("judge", "card", "--audit", "audit.json", "--store", "l.db").code == 1
    [audit] = lite.get("/audits").json()["items"]
    links = lite.get(f"/records/{newest(f'{tmp_path}/l.db', 'card')}").json()["links"]
    assert [link["source"] for link in links] == [audit["digest"]]


def test_the_tree_of_tool_schemas_is_kept_entry_by_entry_with_its_index(
    assay: Any, tmp_path: Path, lite: Api
) -> None:
    store = ("--store", "l.db")
    put(tmp_path / "scales.json", schema())
    assert assay("tools", "import", "scales.json", "--now", IMPORTED, *store).code == 0
    assert (
        len(lite.get("/entries").json()["items"]),
        len(lite.get("/indexes").json()["items"]),
    ) == (0, 1)
    assert record(assay, tmp_path, envelope("single-test"), *WEIGHT, *store).code == 0
    put(tmp_path / "s.json", scores())
    graded = assay(
        "tools",
        "grade",
        "scales.json",
        "--consume-scores",
        "s.json",
        "--data",
        "grading-data",
        "--now",
        GRADED,
        *store,
        "--json",
    )
    assert graded.code == 0, graded.err
    listed = [
        lite.get(f"/entries/{one['digest']}").json()["record"]
        for one in lite.get("/entries").json()["items"]
    ]
    assert len(listed) == 3  # the tool, the schema, and the report
    assert graded.json()["reports"][0]["report"] in listed
    again = record(
        assay,
        tmp_path,
        envelope("single-test", 5.0),
        *WEIGHT,
        "--trigger",
        "scheduled",
        *store,
        now=LATER,
    )
    assert again.code == 0, again.err
    newer = lite.get(f"/records/{newest(f'{tmp_path}/l.db', 'entry')}").json()
    assert "supersedes" in {link["relation"] for link in newer["links"]}
    assert assay(
        "tools", "regrade", "--trigger", "grading-system-bump", "--now", LATER, *store
    ).code in (0, 1)
    assert "0 records stored" in assay("tools", "index", *store).err
    gate = assay("tools", "gate", "beewatch.scales", *store, "--json")
    shown = lite.get(f"/records/{newest(f'{tmp_path}/l.db', 'decision')}").json()
    evidence = shown["record"].pop("evidence")
    assert shown["record"] == {"schema": "assay.schema-gate/1", **gate.json()}
    index = json.loads((tmp_path / "grading-data/providers/beewatch/index.json").read_text())
    assert lite.get(f"/indexes/{shown['links'][0]['source']}").json()["record"] == index
    assert evidence["indexes"] == {"beewatch": shown["links"][0]["source"]}
    source = lite.get(f"/records/{evidence['sources']['beewatch.scales']['digest']}").json()[
        "record"
    ]
    assert json.loads(source["text"]) == schema()
    assert assay("ledger", "verify", "--db", "l.db").code == 0


def test_a_report_without_a_tree_is_kept_with_its_scores(
    assay: Any, tmp_path: Path, lite: Api
) -> None:
    put(tmp_path / "scales.json", schema())
    put(tmp_path / "s.json", scores())
    for _ in range(2):
        assert (
            assay(
                "tools",
                "grade",
                "scales.json",
                "--consume-scores",
                "s.json",
                "--now",
                GRADED,
                "--store",
                "l.db",
            ).code
            == 0
        )
    [report] = lite.get("/entries").json()["items"]
    [link] = lite.get(f"/records/{report['digest']}").json()["links"]
    assert lite.get(f"/records/{link['source']}").json()["record"] == scores()


# --- what goes wrong


VERBS: dict[str, tuple[str, ...]] = {
    "grade": ("grade", "candidate.jsonl"),
    "gate": GATE,
    "exam grade": ("exam", "grade", "exam.json", "--answers", "answers.jsonl"),
    "exam gate": ("exam", "gate", "result.json"),
    "judge calibrate": ("judge", "calibrate", "--labels", "labels.jsonl"),
    "judge card": ("judge", "card", "--calibration", "calibration.json", "--model", "m-1"),
    "baseline set": ("baseline", "set", "production", "baseline.jsonl"),
    "schema import": ("tools", "import", "scales.json", "--now", IMPORTED),
    "schema grade": (
        "tools",
        "grade",
        "scales.json",
        "--consume-scores",
        "s.json",
        "--now",
        RECORDED,
    ),
}


@pytest.fixture(scope="module")
def inputs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    put_sides(folder, 3)
    put_exam(folder)
    put_labels(folder)
    put(folder / "scales.json", schema())
    put(folder / "s.json", scores())
    for verb, out in (("exam grade", "result.json"), ("judge calibrate", "calibration.json")):
        done = run_here([*VERBS[verb], "-o", out], cwd=folder, env={})
        assert done.code == 0, done.err
    return folder


@pytest.fixture
def inputs(inputs_folder: Path, tmp_path: Path) -> Path:
    """What every verb with a result reads."""
    shutil.copytree(inputs_folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_verb_that_cannot_store_does_not_pass_and_says_why(assay: Any, inputs: Path) -> None:
    (inputs / "garbage.db").write_bytes(b"no database" * 500)
    with open_ledger(f"{inputs}/newer.db"):
        pass
    raw = sqlite3.connect(inputs / "newer.db")
    raw.execute("UPDATE assay_version SET version_num = 'v9999'")
    raw.commit()
    raw.close()
    urls = {
        "garbage.db": "is not a ledger, or is damaged",
        "mysql://x/y": "sqlite:/// or postgresql://",
        "newer.db": "tables of version v9999",
        "/proc/none/l.db": "cannot be written",
    }
    for verb, words in VERBS.items():
        every = CAMPAIGN or verb == "grade"
        for url, message in [*urls.items()] if every else [*urls.items()][:1]:
            done = assay(*words, "--store", url, "--json")
            assert done.code in (2, 3, 5), (verb, url, done.err)
            assert (message in done.err, "Traceback" in done.err, done.out) == (True, False, "")
            assert json.loads(done.err.splitlines()[-1])["error"]["code"].startswith("STO-"), verb
        assert assay(*words, "--store", "l.db", "--project", "../x").code == 3, verb


@pytest.mark.parametrize("verb", ["gate", "exam grade"])
def test_a_ledger_that_is_locked_or_read_only_keeps_every_output_back(
    assay: Any, here: Run, inputs: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_ledger(f"{inputs}/l.db"):
        pass
    holder = sqlite3.connect(inputs / "l.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setitem(open_ledger.__kwdefaults__, "patience", 0.2)  # as without it, only sooner
    held = here(*VERBS[verb], "--store", "l.db", "--json", "-o", "out.json")
    holder.execute("ROLLBACK")
    holder.close()
    assert (
        held.code,
        "has been locked by another writer" in held.err,
        held.out,
        (inputs / "out.json").exists(),
    ) == (2, True, "", False)
    if os.getuid() != 0:
        (inputs / "l.db").chmod(0o444)
        assert "may only be read" in assay(*VERBS[verb], "--store", "l.db").err
        (inputs / "l.db").chmod(0o644)
    assert assay(*VERBS[verb], "--store", "l.db", "--json", "-o", "out.json").code in (0, 4)
    assert assay("ledger", "verify", "--db", "l.db").code == 0


def test_what_has_no_result_cannot_be_stored(assay: Any, inputs: Path) -> None:
    done = assay("tools", "grade", "scales.json", "--emit-prompts", "--store", "l.db")
    assert (done.code, "nothing to store" in done.err, (inputs / "l.db").exists()) == (
        2,
        True,
        False,
    )


def test_an_input_at_fault_stores_nothing(assay: Any, inputs: Path) -> None:
    with (inputs / "baseline.jsonl").open("a") as stream:
        stream.write("{broken\n")
    assert assay(*GATE, "--store", "l.db").code == 3
    assert assay("baseline", "set", "production", "baseline.jsonl", "--store", "l.db").code == 3
    assert count(f"{inputs}/l.db") == 0


def test_a_count_with_a_decimal_point_is_refused_whether_it_is_stored_or_not(
    assay: Any, tmp_path: Path, lite: Api
) -> None:
    """Its canonical spelling, which is stored, has none."""
    one = run(attempt=1.0)
    write(tmp_path / "run.jsonl", one)
    for more in ((), ("--store", "own.db")):
        for verb in (("grade", "run.jsonl"), ("gate", "./run.jsonl", "--baseline", "./run.jsonl")):
            done = assay(*verb, *more)
            assert (done.code, "whole number without a decimal" in done.err) == (3, True), verb
    assert lite.post("/runs", one).status_code == 422
    assert lite.post("/decisions", {"candidate": [one], "baseline": [one]}).status_code == 422


def committed(path: Path) -> int:
    """How many records another process sees in a ledger while one is writing it."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
            return int(reader.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.OperationalError:  # there is no such file or table yet
        return 0


SMALL_PARTS = (
    "import runpy\nfrom assay.services import storing\nstoring.BATCH = 5\n"
    "runpy.run_module('assay', run_name='__main__', alter_sys=True)\n"
)
"""The command, which stores as few as that at once: there is more to interrupt."""


def test_a_verb_that_is_killed_while_it_stores_leaves_a_ledger_that_verifies(
    assay: Any, tmp_path: Path
) -> None:
    n = repeats(60, 600)
    whole = 6 * n + 1
    put_sides(tmp_path, n)
    draw = random.Random(7)
    ledger, waiting = tmp_path / "l.db", tmp_path / "l.db-wal"
    found, halves = 0, 0
    for number in range(repeats(2, 10)):
        started = Running(*GATE, "--store", "l.db", code=SMALL_PARTS, cwd=tmp_path)
        if (
            number % 2 == 0
        ):  # in the middle: a part is stored for good, and the next has begun or is about to
            while started.poll() is None and committed(ledger) == found:
                time.sleep(0.002)
        else:  # at any moment: what a transaction writes goes there first
            while (
                started.poll() is None
                and (waiting.stat().st_size if waiting.exists() else 0) < 200_000
            ):
                time.sleep(0.002)
            time.sleep(draw.uniform(0, 0.1))
        started.end_at_once()
        if ledger.exists():
            checked = assay("ledger", "verify", "--db", "l.db", "--json")
            assert (
                checked.code,
                checked.json()["clean"] if checked.code == 0 else checked.err,
            ) == (0, True)
            found = checked.json()["records"]
            halves += 0 < found < whole
            if (
                found == whole
            ):  # the kill came too late, and the next one is to have something to interrupt
                for path in tmp_path.glob("l.db*"):
                    path.unlink()
                found = 0
    assert assay(*GATE, "--store", "l.db").code == 0
    assert assay("ledger", "verify", "--db", "l.db", "--json").json()["records"] == whole
    assert halves, "no kill came while it stored"


# --- beside it


def test_the_schema_of_events_is_printed_as_the_server_publishes_it(assay: Any, lite: Api) -> None:
    from assay.views.events import SCHEMA

    assert assay("schema-of", "event").json() == SCHEMA == lite.get("/schema-of/event").json()


def test_tokens_and_the_store_mean_the_same_ledger(assay: Any, tmp_path: Path) -> None:
    env = {"ASSAY_DB": f"sqlite:///{tmp_path}/team.db"}
    assert assay("token", "create", env=env).code == 0
    put_sides(tmp_path, 4)
    assert assay(*GATE, "--store", env=env).code == 4  # too few
    assert (assay("ledger", "verify", env=env).code, (tmp_path / ".assay").exists()) == (0, False)


def test_every_code_of_the_store_and_the_server_is_raised_somewhere() -> None:
    import assay
    from assay.errors.codes import CODES as CODES
    from assay.server.problems import CODE_OF

    root = Path(assay.__file__).parent
    text = "".join(
        path.read_text(encoding="utf-8") for path in root.rglob("*.py") if path.name != "codes.py"
    )
    codes = [code for code in CODES if code.startswith(("STO-", "SRV-"))]
    assert [code for code in codes if f'"{code}"' not in text] == []
    assert (
        {code for code in codes if code.startswith("SRV-")}
        == {f"SRV-{status}" for status in CODE_OF}
        == set(CODE_OF.values())
    )
    for folder in ("store", "server"):
        said = "".join(path.read_text(encoding="utf-8") for path in (root / folder).rglob("*.py"))
        assert "API-001" not in said, f"{folder} uses the code of another system"


def test_errors_of_the_api_carry_the_code_of_their_status(lite: Api) -> None:
    for status, answer in (
        (404, lite.get("/nothing")),
        (404, lite.get("/runs/nobody")),
        (405, lite.client.delete("/api/v1/runs")),
        (
            415,
            lite.client.post("/api/v1/runs", content=b"x", headers={"Content-Type": "text/plain"}),
        ),
        (422, lite.get("/runs?limit=0")),
        (422, lite.post("/decisions", {"candidate": []})),
    ):
        assert (answer.status_code, answer.json()["code"], answer.json()["type"]) == (
            status,
            f"SRV-{status}",
            f"urn:assay:error:SRV-{status}",
        )
