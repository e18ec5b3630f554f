"""The API: what is posted is graded, kept, listed and given back as it is, on both databases."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from assay.cli.ledger_checks import replayable
from assay.cli.main import run as command
from assay.library.shelf import Shelf
from assay.project.release import ReleaseSettings
from assay.release.policy import Bars
from assay.server import posted_runs
from assay.store.ledger import open_ledger
from assay.store.verify import verify
from documents import run, scorecard
from postgres import ledger_url, on_sqlite, postgres_url  # fixtures  # noqa: F401
from serving import API, Api, runs, serving
from stocked import faq


@pytest.fixture
def api(ledger_url: str) -> Any:  # noqa: F811
    with serving(ledger_url) as made:
        yield made


@pytest.fixture
def lite(tmp_path: Path) -> Any:
    with serving(f"sqlite:///{tmp_path}/ledger.db") as made:
        yield made


def test_a_posted_run_is_graded_as_the_command_grades_it_and_the_answer_says_where_it_is(
    api: Api, assay: Any, tmp_path: Path
) -> None:
    evidence = run("rag")
    posted = api.post("/runs", evidence)
    assert posted.status_code == 201
    (tmp_path / "run.json").write_text(json.dumps(evidence))
    assert (
        json.loads(posted.content)["grade"]
        == assay("grade", "run.json", "--json").json()["results"][0]
    )
    where = posted.headers["location"]
    assert where == f"{API}/runs/{posted.json()['digest']}"
    found = api.client.get(where).json()
    assert found["record"] == evidence
    assert found["grades"][0]["digest"] == posted.json()["grade_digest"]


def test_the_same_run_twice_is_one_run(api: Api) -> None:
    first, second = api.post("/runs", run()), api.post("/runs", run())
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()["new"] is False
    assert second.json()["digest"] == first.json()["digest"]
    assert len(api.get("/runs").json()["items"]) == 1


def test_a_list_is_stored_whole_or_not_at_all(api: Api) -> None:
    good = api.post("/runs", runs(5))
    assert good.status_code == 201
    assert good.json()["counts"] == {"received": 5, "stored": 5, "new": 5, "faults": 0}
    bad = runs(3, start=10)
    bad[1]["status"] = "sucess"
    refused = api.post("/runs", bad)
    assert refused.status_code == 422
    assert refused.json()["where"] == "[1]"
    assert "none was stored" in refused.json()["detail"]
    assert len(api.get("/runs").json()["items"]) == 5


def test_lines_are_stored_as_they_come_and_a_line_at_fault_is_named(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posted_runs, "BLOCK", 20)
    lines = [json.dumps(one).encode() for one in runs(50)]
    headers = {"Content-Type": "application/x-ndjson"}
    good = api.client.post(f"{API}/runs", content=b"\n".join(lines), headers=headers)
    assert good.status_code == 201
    assert good.json()["counts"]["new"] == 50
    assert [one["line"] for one in good.json()["results"]] == list(range(1, 51))
    mixed = [
        json.dumps(runs(1, start=900)[0]).encode(),
        b'{"schema": "assay.run/1", "run_id":',
        b"",
        json.dumps({**run(), "status": "x"}).encode(),
    ]
    bad = api.client.post(f"{API}/runs", content=b"\n".join(mixed), headers=headers)
    assert bad.status_code == 422, (
        "a client that looks at the status alone must not take this for done"
    )
    assert bad.json()["counts"]["stored"] == 1
    assert {fault["line"] for fault in bad.json()["faults"]} == {2, 4}


@on_sqlite
def test_lists_are_filtered_and_paged_without_a_gap_or_a_repeat(api: Api) -> None:
    api.post("/runs", runs(7, tags=["nightly"]))
    api.post("/runs", runs(3, family="rag", start=20, status="failed"))
    other = runs(1, start=40)[0]
    other["workflow"] = {**other["workflow"], "id": "fix", "version": "9"}
    other["started_at"] = "2026-11-15T10:00:00Z"
    api.post("/runs", other)

    def ids(query: str) -> set[str]:
        return {item["run_id"] for item in api.get(f"/runs?{query}").json()["items"]}

    assert len(ids("limit=1000")) == 11
    assert ids("tag=nightly") == {f"r-{index}" for index in range(7)}
    assert ids("workflow=fix&version=9") == {"r-40"}
    assert ids("passed=false") == {"r-20", "r-21", "r-22"} == ids("grade=F")
    assert ids("gate=overall_status_success") == {"r-20", "r-21", "r-22"}
    assert ids("from=2026-11-15T09:00:00Z&to=2026-11-15T11:00:00Z") == {"r-40"}
    assert ids("passed=true&from=2026-11-15T09:00:00Z") == {"r-40"}
    for extra in ("", "&passed=true"):
        seen: list[str] = []
        after = ""
        while True:
            page = api.get(f"/runs?limit=3{extra}{after}").json()
            seen += [item["run_id"] for item in page["items"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert len(seen) == len(set(seen)) == (8 if extra else 11)


def test_an_etag_spares_the_body_and_gzip_shrinks_it(lite: Api) -> None:
    digest = lite.post("/runs", run()).json()["digest"]
    first = lite.get(f"/runs/{digest}/grade", headers={"Accept-Encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    assert int(first.headers["content-length"]) < len(first.content)
    second = lite.get(f"/runs/{digest}/grade", headers={"If-None-Match": first.headers["etag"]})
    assert (second.status_code, second.content) == (304, b"")
    assert (
        lite.get(f"/runs/{digest}/grade", headers={"If-None-Match": '"other"'}).status_code == 200
    )


def test_a_body_may_be_packed(lite: Api) -> None:
    packed = gzip.compress(json.dumps(run()).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert lite.client.post(f"{API}/runs", content=packed, headers=headers).status_code == 201


@on_sqlite
def test_a_scorecard_is_graded_and_kept(api: Api) -> None:
    posted = api.post("/scorecards", scorecard({"norm": 1}))
    assert posted.status_code == 201
    version = posted.json()["grade"]["scoringSystem"]
    assert api.client.get(posted.headers["location"]).json()["record"] == {
        **scorecard({"norm": 1}),
        "scoringSystem": version,
    }
    assert len(api.get("/grades").json()["items"]) == 1


@on_sqlite
def test_a_decision_is_the_one_the_command_makes_and_names_its_evidence(
    api: Api, assay: Any, tmp_path: Path
) -> None:
    ours, theirs = runs(60), runs(60, latency_ms=20000)
    for name, side in (("candidate", ours), ("baseline", theirs)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, side)))
    said = assay("gate", "candidate.jsonl", "--baseline", "baseline.jsonl", "--json").json()
    posted = api.post("/decisions", {"candidate": ours, "baseline": theirs})
    assert posted.status_code == 201
    made = posted.json()["decision"]
    assert made == said
    assert made["outcome"] == "promote"
    links = api.get(f"/records/{posted.json()['digest']}").json()["links"]
    assert (
        sorted(link["relation"] for link in links)
        == ["baseline_of"] * 60 + ["candidate_of"] * 60 + ["decides"] * 120
    )
    digests = [link["source"] for link in links if link["relation"] == "candidate_of"]
    again = api.post("/decisions", {"candidate": {"digests": digests}, "baseline": theirs}).json()[
        "decision"
    ]
    assert again["digests"] == made["digests"]


@on_sqlite
def test_a_decision_against_a_kept_baseline_names_its_version_as_the_command_does(
    api: Api,
    assay: Any,
    tmp_path: Path,
    ledger_url: str,  # noqa: F811
) -> None:
    ours = runs(60)
    (tmp_path / "candidate.jsonl").write_text("\n".join(map(json.dumps, ours)))
    kept = api.post("/baselines", {"name": "production", "evidence": runs(60, latency_ms=20000)})
    asked = ("gate", "candidate.jsonl", "--baseline", "production", "--store", ledger_url, "--json")
    sides = {"candidate": ours, "baseline": {"baseline": "production"}}
    posted = api.post("/decisions", sides).json()
    made = posted["decision"]
    assert made["baseline"]["name"] == f"baseline production ({kept.json()['digest'][:19]})"
    assert made == assay(*asked).json()
    assert assay("ledger", "replay", posted["digest"], "--db", ledger_url).code == 0


@on_sqlite
def test_a_baseline_is_kept_under_its_name_and_used_by_it(api: Api) -> None:
    kept = api.post("/baselines", {"name": "production", "evidence": runs(12)})
    assert kept.status_code == 201
    assert kept.json()["baseline"]["samples"] == 12
    posted = api.post(
        "/decisions",
        {"candidate": {"filter": {"dataset": "d"}}, "baseline": {"baseline": "production"}},
    )
    assert posted.status_code == 201
    assert posted.json()["decision"]["comparison"]["n_paired"] == 12
    missing = api.post("/decisions", {"candidate": runs(1), "baseline": {"baseline": "staging"}})
    assert (missing.status_code, missing.json()["code"]) == (422, "REL-005")


@on_sqlite
def test_an_exam_is_graded_by_the_same_evaluator_as_the_command_and_every_result_stays(
    api: Api, assay: Any, tmp_path: Path
) -> None:
    exam = {
        "exam": "verbs",
        "items": [
            {"id": "i-1", "prompt": "p", "expected_contains": ["went"], "gloss_contains": ["ging"]}
        ],
    }
    answers = [
        {
            "item": "i-1",
            "response": {"correction": "He went.", "gloss": "Er ging.", "explanation": "past"},
        }
    ]
    (tmp_path / "exam.json").write_text(json.dumps(exam))
    (tmp_path / "answers.jsonl").write_text(json.dumps(answers[0]))
    said = assay("exam", "grade", "exam.json", "--answers", "answers.jsonl", "--json").json()
    posted = api.post("/exams/grade", {"exam": exam, "answers": answers})
    assert posted.status_code == 201
    assert posted.json()["result"] == said
    assert api.post("/exams/grade", {"exam": exam, "answers": []}).status_code == 201
    assert len(api.get("/exams").json()["items"]) == 2


@on_sqlite
def test_a_run_posted_again_is_graded_by_the_rules_of_the_last_post(
    ledger_url: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shelf" / "policies"
    folder.mkdir(parents=True)
    text = Path(Shelf().find("policies", "workflow").path).read_text()
    (folder / "strict@2.yaml").write_text(
        text.replace("policy: workflow", "policy: strict")
        .replace("version: 1", "version: 2")
        .replace("threshold: 70", "threshold: 99")
    )
    with serving(ledger_url, library=str(tmp_path / "shelf")) as api:
        before = api.post("/runs", runs(2)).json()["results"]
        at = f"/runs/{before[0]['digest']}"
        for events, policy in enumerate(("strict@2", "workflow@1", "strict@2", "strict@2")):
            again = api.post(f"/runs?policy={policy}", runs(2))
            assert (again.status_code, again.json()["results"][0]["new"]) == (200, False)
            assert api.get(f"{at}/grade").json()["policy"] == policy
            assert api.get(at).json()["grades"][-1]["policy"] == policy
            assert {one["grade"]["policy"] for one in api.get("/runs").json()["items"]} == {policy}
            passing = api.get("/runs?passed=true").json()["items"]
            assert {one["grade"]["policy"] for one in passing} <= {policy}
            links = [one.tree() for one in api.services.ledger.each("event", project="default")]
            assert [one["schema"] for one in links] == ["assay.links/1"] * min(events, 2), (
                "a new grade, or the second post under the same rules, has nothing to put on top"
            )
            with open_ledger(ledger_url) as ledger:
                assert (
                    replayable(ledger, "r-0").digest == again.json()["results"][0]["grade_digest"]
                )
        assert verify(api.services.ledger).clean


def test_the_shelf_the_workflows_and_the_schemas_can_be_read(lite: Api) -> None:
    lite.post("/runs", runs(2))
    assert "workflow@1" in [item["id"] for item in lite.get("/library/policies").json()["items"]]
    assert lite.get("/library/profiles/rag").json()["content"]["family"] == "rag"
    assert lite.get("/library/rubrics").status_code == 200
    assert lite.get("/library/policies/nope").status_code == 404
    assert lite.get("/workflows").json()["items"][0]["runs"] == 2
    assert lite.get("/datasets").json()["items"][0]["id"] == "d"
    assert lite.get("/schema-of/run").json()["properties"]["run_id"]
    assert lite.get("/schema-of/nope").status_code == 404


def test_a_tree_of_tool_schemas_is_shown_and_no_path_leads_out_of_it(tmp_path: Path) -> None:
    tree = tmp_path / "tree" / "acme"
    tree.mkdir(parents=True)
    (tree / "index.json").write_text('{"grade": "A"}')
    (tmp_path / "secret.json").write_text('{"key": 1}')
    (tree / "link.json").symlink_to(tmp_path / "secret.json")
    with serving(f"sqlite:///{tmp_path}/l.db", schemas=str(tmp_path / "tree")) as api:
        assert api.get("/schemas/index").json()["items"] == ["acme/index.json", "acme/link.json"]
        assert api.get("/schemas/index/acme/index.json").json() == {"grade": "A"}
        for path in (
            "../secret.json",
            "%2e%2e/secret.json",
            "acme/../../secret.json",
            "acme/link.json",
            "/etc/passwd",
            "acme\\..\\index.json",
            "acme%00.json",
            "..%2f..%2fsecret.json",
        ):
            assert api.get(f"/schemas/index/{path}").status_code == 404, path


def test_a_forgotten_run_leaves_its_digest_and_does_not_come_back(api: Api) -> None:
    digest = api.post("/runs", run()).json()["digest"]
    assert api.post(f"/records/{digest}/forget", {"reason": "asked to"}).status_code == 200
    found = api.get(f"/runs/{digest}").json()
    assert (found["forgotten"], found["record"]) == (True, None)
    assert api.get(f"/runs/{digest}/events").status_code == 404
    assert api.post("/runs", run()).status_code == 409


def test_health_readiness_and_metrics_answer(lite: Api) -> None:
    lite.post("/runs", run())
    assert lite.get("/health").json()["scoringSystem"].startswith("scoringSystem/")
    assert lite.get("/ready").json() == {"status": "ready"}
    text = lite.get("/metrics").text
    assert 'assay_requests_total{method="POST",route=' in text
    assert "assay_grades_total{grade=" in text


@on_sqlite
def test_a_dataset_that_does_not_fit_is_refused_with_reasons_before_anything_runs(api: Api) -> None:
    head = {
        key: value for key, value in run().items() if key not in ("status", "steps", "tool_calls")
    }
    refused = api.post(
        "/runs/live", {**head, "required_inputs": ["repo", "issue"], "inputs": {"repo": "x"}}
    )
    assert refused.status_code == 422
    assert refused.json()["reasons"] == ["missing: issue"]
    assert refused.json()["message"]
    assert api.get(f"/runs/{head['run_id']}/events").status_code == 404


def test_a_decision_is_made_by_the_release_rules_of_the_project(tmp_path: Path) -> None:
    sides = {"candidate": faq(2, 3), "baseline": faq(1, 3)}
    strict = ReleaseSettings(config="assay.yaml", bars=Bars(min_pass_rate=1.0))
    with serving(f"{tmp_path}/l.db", release=strict) as api:
        made = api.post("/decisions", sides)
        assert made.status_code == 201, made.text
        rules = [one.get("id") or one.get("name") for one in made.json()["decision"]["rules"]]
        assert "pass_rate" in rules, "the bar of assay.yaml is a rule of the decision"
        other = api.post("/decisions", {**sides, "policy": "no-such"})
        assert other.status_code in (404, 422)
        easier = api.post("/decisions", {**sides, "grading_policy": "workflow-judged"})
        assert easier.status_code == 422, "a file that names no policy grades by the default"
        assert api.post("/decisions", {**sides, "grading_policy": "workflow"}).status_code == 201
    graded = ReleaseSettings(
        config="assay.yaml", profile="rag-measured@1", grading_policy="workflow@1"
    )
    with serving(f"{tmp_path}/l.db", release=graded) as api:
        made = api.post("/decisions", sides)
        assert made.status_code == 201, made.text
        grades = api.services.ledger.find("grade", limit=1, newest_first=True).items
        assert grades[0].tree()["profile"] == "rag-measured@1", "not the family's own, as without"
        named = api.post("/decisions", {**sides, "profile": "rag-measured@1"})
        assert named.status_code in (200, 201)
        for name, value in (("profile", "rag@1"), ("grading_policy", "workflow-judged")):
            refused = api.post("/decisions", {**sides, name: value})
            assert refused.status_code == 422, (name, refused.text)
            assert f"Leave `{name}` out." in refused.text


def test_evidence_that_arrives_is_graded_by_the_rules_of_the_project(tmp_path: Path) -> None:
    graded = ReleaseSettings(
        config="assay.yaml", profile="rag-measured@1", grading_policy="workflow@1"
    )
    other = {"profile": "rag@1", "policy": "workflow-judged", "rubric": "rag@1"}
    with serving(f"{tmp_path}/l.db", release=graded) as api:
        one = run("rag")
        made = api.post("/runs", one)
        assert made.json()["grade"]["profile"] == "rag-measured@1", "its family alone means rag@1"
        head = {key: one[key] for key in one if key not in ("status", "steps", "tool_calls")}
        assert api.post("/runs/live", {**head, "run_id": "live"}).status_code == 201
        ended = api.post(
            "/runs/live/events", {"event": "workflow_end", "run": {"status": "success"}}
        )
        assert ended.json()["grade"]["profile"] == "rag-measured@1"
        evaluated = api.post("/evaluations", {"name": "own", "runs": [one]})
        assert evaluated.status_code == 201, evaluated.text
        assert evaluated.json()["evaluation"]["settings"]["profile"] == "rag-measured@1"
        sides = {"candidate": faq(2, 3), "baseline": faq(1, 3)}
        for name, value in other.items():
            refused = {
                "run": api.post(f"/runs?{name}={value}", one),
                "lines": api.post(
                    f"/runs?{name}={value}",
                    content=json.dumps(one),
                    headers={"Content-Type": "application/x-ndjson"},
                ),
                "scorecard": api.post(f"/scorecards?{name}={value}", scorecard()),
                "evaluation": api.post("/evaluations", {"name": "own", "runs": [one], name: value}),
            }
            assert {what: answer.status_code for what, answer in refused.items()} == dict.fromkeys(
                refused, 422
            )
            assert all(f"Leave `{name}` out." in answer.text for answer in refused.values())
        refused = api.post("/decisions", {**sides, "rubric": "rag@1"})
        assert (refused.status_code, "without a rubric" in refused.text) == (422, True)


def test_a_request_may_name_the_rules_of_assay_yaml_that_are_files(tmp_path: Path) -> None:
    shelf = Shelf()
    files = {}
    for kind, name, own in (
        ("profiles", "rag@1", "ours"),
        ("policies", "workflow@1", "bar"),
        ("policies", "release@1", "ship"),
    ):
        text = shelf.read(shelf.find(kind, name).path).decode()
        key = kind.replace("ies", "y").removesuffix("s")
        text = re.sub(rf"^{key}: .*$", f"{key}: {own}", text, flags=re.MULTILINE)
        text = re.sub(r"^(alias|scoring_system): .*\n", "", text, flags=re.MULTILINE)
        files[own] = str(tmp_path / f"{own}.yaml")
        Path(files[own]).write_text(text)
    settings = ReleaseSettings(
        config="assay.yaml",
        profile=files["ours"],
        grading_policy=files["bar"],
        policy=files["ship"],
    )
    sides = {"candidate": faq(2, 3), "baseline": faq(1, 3)}
    with serving(f"{tmp_path}/l.db", release=settings) as api:
        for named in ("profile=ours&policy=bar", "profile=ours@1&policy=bar@1"):
            made = api.post(f"/runs?{named}", run("rag"))
            assert made.status_code in (200, 201), made.text
            grade = made.json()["grade"]
            assert (grade["profile"], grade["policy"]) == ("ours@1", "bar@1")
        for name in ("ship", "ship@1"):
            assert api.post("/decisions", {**sides, "policy": name}).status_code == 201
        refused = api.post("/runs?profile=rag@1", run("rag"))
        assert "the profile of assay.yaml is 'ours@1', not 'rag@1'." in refused.text
        refused = api.post("/decisions", {**sides, "policy": "release"})
        assert "the release policy of assay.yaml is 'ship@1', not 'release'." in refused.text
        assert api.post("/runs?profile=theirs", run("rag")).status_code == 422
    with serving(f"{tmp_path}/l2.db", release=ReleaseSettings(profile=files["ours"])) as api:
        assert api.post("/evaluations", {"name": "posted", "runs": faq(2, 3)}).status_code == 201
    Path(files["ours"]).unlink()  # the ledger has it
    assert command(["ledger", "replay", "posted", "--db", f"{tmp_path}/l2.db"]) == 0
