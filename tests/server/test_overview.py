"""The overview: a card for each workflow with its evaluations, trend, baseline and decision; what
runs now, and who may cancel it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.records.evaluation import graded_by
from assay.records.summary import ValueInterval
from assay.server.pages import overview
from assay.server.pages.running import state_text
from assay.services import samples as compared
from assay.store import executions
from assay.views import drawing
from assay.views.charts.evaluations import EvaluationPoint, pass_rates
from documents import run
from serving import Api, runs, serving
from test_named_baseline import spoil
from test_pages import HTML, SCRIPT, Markup, graded, send, show
from test_server_run import ask, asked, executing, finished, until


@pytest.fixture
def api(tmp_path: Path) -> Any:
    with serving(f"sqlite:///{tmp_path}/ledger.db") as made:
        yield made


def evaluated(
    api: Api, name: str, *, failed: int = 0, n: int = 20, version: str = "1", **more: Any
) -> dict[str, Any]:
    """A stored evaluation of which so many runs end in an error."""
    made = []
    for index, one in enumerate(runs(n, family="rag")):
        one["run_id"] = f"{name}-{index}"
        one["workflow"] |= {"id": "faq", "version": version, **more}
        made.append(one | ({"status": "failed"} if index < failed else {}))
    answer = api.post("/evaluations", {"name": name, "runs": made})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()["evaluation"]
    return found


def card(source: str, name: str) -> str:
    """The text of one card."""
    parts = source.split('<section class="card">')
    found = next(part for part in parts[1:] if f">{name}</a></h2>" in part)
    return Markup(f"<div>{found.partition('</section>')[0]}</div>").text


# --- cards


def test_a_card_shows_evaluations_trend_baseline_decision_and_what_fails(api: Api) -> None:
    first = evaluated(api, "good")
    evaluated(api, "poor", failed=15, version="2")
    api.post(
        "/decisions",
        {
            side: [
                {**one, "run_id": f"{side}-{index}", "status": status}
                | {"workflow": {**one["workflow"], "id": "faq", "version": version}}
                for index, one in enumerate(runs(40, family="rag"))
            ]
            for side, status, version in (
                ("candidate", "failed", "2"),
                ("baseline", "success", "1"),
            )
        },
    )
    answer = api.client.get("/", headers=HTML)
    text = card(answer.text, "faq")
    for words in (
        "Pass rate 25.0% 11.2% to 46.9% (95%), n 20",
        "Compared with an earlier evaluation ✗ Worse -75.0 percentage points, -88.8 to -47.8 (95%)",
        "Compare with good, version 1",
        "Last decision ✗ reject version 2, under release@1",
        "gate overall_status_success: 15 of 20 runs",
        "2 evaluations, oldest first; the newest has 25.0%.",
    ):
        assert words in text, (words, text)
    assert 'class="sign">✗ </span>reject' in answer.text, "the underline starts at the word"
    found = Markup(answer.text)
    line = "faq: the newest evaluation is worse than an earlier evaluation: pass rate 25.0%, was 100.0%."
    assert line in found.text
    assert "Nothing:" not in found.text
    links = found.links()
    assert f"/compare?of={first['id']}&of=" in " ".join(links)
    assert any(one.endswith("?gate=overall_status_success") for one in links)
    picture = next(one for one in links if one.endswith("/pass-rates.svg"))
    assert api.client.get(picture).status_code == 200
    assert api.client.get(picture.replace("pass-rates", "other")).status_code == 404


def test_a_card_lists_missed_floors_where_the_evaluation_is_small(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = runs(4, family="rag")
    for one in made[:3]:
        one["scores"] = {**one["scores"], "safety": {"raw": 0}}
    assert api.post("/evaluations", {"name": "unsafe", "runs": made}).status_code == 201
    name = made[0]["workflow"]["id"]
    text = card(api.client.get("/", headers=HTML).text, name)
    assert "below the floor of safety: 3 of 4 runs" in text, text
    monkeypatch.setattr(overview, "FLOORS", 3)
    text = card(api.client.get("/", headers=HTML).text, name)
    assert "below the floor" not in text
    assert "Every reason, floors included" in text


def test_a_decision_between_runs_of_one_version_says_which_is_which(api: Api) -> None:
    for name in ("before", "after"):
        evaluated(api, name, n=30)
    made = api.post(
        "/decisions", {"candidate": {"evaluation": "after"}, "baseline": {"evaluation": "before"}}
    )
    assert made.status_code == 201, made.text
    assert "faq 1: candidate against baseline" in api.client.get("/decisions", headers=HTML).text
    link = next(
        one
        for one in Markup(api.client.get("/decisions", headers=HTML).text).links()
        if one.startswith("/decisions/")
    )
    page = api.client.get(link, headers=HTML).text
    assert "<h1>after against before, faq 1</h1>" in page
    assert "<small>no minimum is set</small>" in page


def test_attention_is_nothing_only_where_every_newest_evaluation_holds(api: Api) -> None:
    """No decision is stored: the evaluations alone say it."""
    evaluated(api, "first")
    found = show(api, "/").text
    assert "Nothing: every run of the newest evaluation passed, no decision" in found
    stored = evaluated(api, "second", failed=1, version="2")
    found = show(api, "/")
    line = "faq: 1 of 20 runs of the newest evaluation did not pass; 1 by gate overall_status"
    assert line in found.text
    assert "Nothing:" not in found.text
    assert f"/evaluations/{stored['id']}?show=failed" in found.links()


@pytest.mark.parametrize(("status", "undetermined"), [("error", False), ("failed", True)])
def test_runs_that_ended_in_an_error_are_not_listed_by_their_gates_too(
    api: Api, status: str, undetermined: bool
) -> None:
    made = [one | {"status": status} for one in runs(3, family="rag")]
    for one in made:
        del one["claims"]
    assert api.post("/evaluations", {"name": "bad", "runs": made}).status_code == 201
    text = show(api, "/").text
    assert ("are undetermined in 3 runs" in text) is undetermined
    assert ("3 runs ended in an error" in text) is not undetermined


def test_the_named_baseline_is_named_and_marked_and_is_not_compared_with_itself(api: Api) -> None:
    stored = evaluated(api, "old")
    ledger = api.services.ledger
    found = ledger.get_many([one["digest"] for one in stored["runs"]], project="default")
    evidence = [json.loads(found[one["digest"]].body) for one in stored["runs"]]
    kept = api.post("/baselines", {"name": "production", "evidence": evidence})
    assert kept.status_code == 201, kept.text
    alone = card(api.client.get("/", headers=HTML).text, "faq")
    assert "Compared with" not in alone
    evaluated(api, "same", version="2", failed=1)
    text = card(api.client.get("/", headers=HTML).text, "faq")
    assert (
        "Compared with the baseline production ? No difference shown -5.0 percentage points" in text
    )
    assert "old baseline production" in text


def test_a_baseline_of_other_runs_is_not_taken_for_an_evaluation(api: Api) -> None:
    old, new = (evaluated(api, name, n=2)["runs"] for name in ("old", "new"))
    digests = [old[0]["digest"], new[1]["digest"]]  # as many as "old" has, and its first
    kept = api.post("/baselines", {"name": "mixed", "evidence": {"digests": digests}})
    assert kept.status_code == 201, kept.text
    text = card(api.client.get("/", headers=HTML).text, "faq")
    assert "it was not made of one stored evaluation" in text
    assert "old baseline mixed" not in text


def test_evaluations_that_cannot_be_compared_say_why(api: Api) -> None:
    evaluated(api, "before")
    later = runs(3, family="rag")
    for one in later:
        one["run_id"] += "-later"
        one["workflow"] |= {"id": "faq", "version": "1"}
        one["dataset"]["version"] = "another"
    assert api.post("/evaluations", {"name": "later", "runs": later}).status_code == 201
    text = card(api.client.get("/", headers=HTML).text, "faq")
    assert "not compared : they are on different versions of the dataset" in text


def test_samples_that_were_left_out_count_as_failed_and_need_attention(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving failures out, forgetting them or drowning them in easy samples is no progress."""

    def stored(name: str, version: str, samples: range) -> dict[str, Any]:
        made = []
        for one in runs(max(samples) + 1, family="rag")[samples.start :]:
            failed = int(one["dataset"]["sample_id"].removeprefix("s-")) < 6
            one["run_id"] = f"{name}-{one['run_id']}"
            one["workflow"] |= {"id": "faq", "version": version}
            made.append(one | ({"status": "failed"} if failed else {}))
        answer = api.post("/evaluations", {"name": name, "runs": made})
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()["evaluation"]
        return found

    before = stored("before", "1", range(16))
    fewer = stored("fewer", "2", range(6, 16))
    found = show(api, "/")
    line = "faq: 6 samples of an earlier evaluation are missing in the newest evaluation."
    assert line in found.text
    assert f"/compare?of={before['id']}&of={fewer['id']}&show=missing" in found.links()
    text = card(api.client.get("/", headers=HTML).text, "faq")
    assert "No difference shown +0.0 percentage points" in text
    assert "6 samples missing, counted as failed" in text
    monkeypatch.setattr(compared, "PAIRED", 10)  # too many to pair
    text = card(api.client.get("/", headers=HTML).text, "faq")
    assert "not compared : one of them has more than 10 runs" in text
    assert "6 samples missing" in text
    assert "Compare with before, version 1" in text
    monkeypatch.undo()
    # Storing the reduced evaluation again doesn't make it its own baseline.
    same = stored("same", "2", range(6, 16))
    found = show(api, "/")
    assert line in found.text
    assert f"/compare?of={before['id']}&of={same['id']}&show=missing" in found.links()
    page = show(api, f"/evaluations/{same['id']}").text
    assert "6 samples of the baseline are missing here" in page
    assert "an earlier evaluation, before (faq@1)" in page
    stored("again", "1", range(16))
    stored("easy", "3", range(6, 48))  # as many more as there could be
    text = show(api, "/").text
    assert line in text
    assert "No difference shown +0.0 percentage points" in text
    stored("last", "4", range(6, 48))
    assert line in show(api, "/").text
    whole = stored("whole", "5", range(48))
    assert "missing in the newest" not in show(api, "/").text
    api.services.ledger.forget(whole["runs"][9]["grade"], author="me", reason="it failed")
    assert "1 sample of an earlier evaluation is missing" in show(api, "/").text
    # What the baseline forgot is no loss of the next one.
    stored("next", "6", range(48))
    assert "missing in the newest" not in show(api, "/").text


def test_the_same_evaluations_in_two_projects_are_told_apart_and_forgotten_ones_are_gone(
    api: Api,
) -> None:
    stored: dict[str, str] = {}
    for project, earlier in (("a", 0), ("b", 3)):
        headers = api.token(project)
        api.post("/runs", runs(1 + earlier, family="rag"), headers=headers)
        for name, version, start in (("before", "1", 0), ("after", "2", 2)):
            made = runs(6, family="rag", start=start)
            for one in made:
                one["workflow"] |= {"id": "faq", "version": version}
                one |= {"started_at": "2026-11-12T10:00:00Z", "finished_at": "2026-11-12T10:00:01Z"}
            answer = api.post("/evaluations", {"name": name, "runs": made}, headers=headers).json()
            assert stored.setdefault(name, answer["digest"]) == answer["digest"]
        text = Markup(api.client.get("/", headers={**HTML, **headers}).text).text
        assert "faq: 2 samples of an earlier evaluation are missing" in text, project
    assert "after · faq 2" in api.client.get("/compare", headers={**HTML, **headers}).text
    api.services.ledger.forget(stored["after"], author="me", reason="private", project="b")
    assert "after · faq 2" not in api.client.get("/compare", headers={**HTML, **headers}).text


def test_a_trend_joins_no_evaluations_that_were_graded_by_different_rules() -> None:
    rate = ValueInterval(value=0.5, low=0.4, high=0.6, level=0.95, method="wilson")
    points = [
        EvaluationPoint(
            f"e-{place}", f"2026-11-0{place + 1}T00:00:00Z", "1", "d", rate, 9, False, by
        )
        for place, by in enumerate(
            graded_by({"profile": "assay.yaml#profile", "project_profile": {"version": version}})
            for version in (1, 1, 2)
        )
    ]
    drawn = pass_rates(points)
    assert "The rules of grading changed at the dashed line" in drawn.sentence
    assert [row[3] for row in drawn.rows] == [one.graded_by for one in points]
    assert drawn.spec is not None
    groups = [row["group"] for row in drawn.spec["data"]["values"]]
    assert groups[0] == groups[1] != groups[2]
    assert "dashed" not in pass_rates(points[:2]).sentence


def test_evaluations_of_the_same_minute_are_labelled_with_their_seconds() -> None:
    rate = ValueInterval(value=0.5, low=0.4, high=0.6, level=0.95, method="wilson")
    times = ("2026-11-01T23:53:07Z", "2026-11-01T23:53:41Z", "2026-11-02T00:10:00Z")
    points = [EvaluationPoint(at, at, "1", "d", rate, 9) for at in times]
    shown = [pass_rates(some).spec for some in (points, points[1:])]
    assert [[row["place"] for row in spec["data"]["values"]] for spec in shown if spec] == [
        ["1 Nov 23:53:07", "1 Nov 23:53:41", "2 Nov 00:10:00"],
        ["1 Nov 23:53", "2 Nov 00:10"],
    ]


def test_repeats_of_samples_that_pass_make_nothing_better(api: Api) -> None:
    evaluated(api, "before", failed=5)
    made = []
    for index, one in enumerate([*runs(20, family="rag"), *runs(20, family="rag")[5:] * 9]):
        one = {**one, "run_id": f"often-{index}"}
        one["workflow"] = one["workflow"] | {"id": "faq", "version": "2"}
        made.append(one | ({"status": "failed"} if index < 5 else {}))
    assert api.post("/evaluations", {"name": "often", "runs": made}).status_code == 201
    text = card(api.client.get("/", headers=HTML).text, "faq")
    assert "they repeat their samples a different number of times" in text
    assert "Better" not in text


def test_a_changed_evaluation_is_left_out_and_said(api: Api, tmp_path: Path) -> None:
    evaluated(api, "first")
    spoil(tmp_path / "ledger.db", "evaluation")
    text = card(api.client.get("/", headers=HTML).text, "faq")
    assert "1 evaluation was changed after being stored" in text
    assert "assay ledger verify" in text


def test_workflows_with_runs_alone_have_a_card_with_the_next_command(api: Api) -> None:
    for one in runs(3, family="rag"):
        graded(api, one | {"status": "error"} if one["run_id"] == "r-1" else one)
    text = show(api, "/").text
    assert "1 workflow. Needs attention" in text
    assert "3 of 1 version, in no evaluation" in text
    assert "Pass rate 66.7% 20.8% to 93.9% (95%), n 3" in text
    assert "assay run assay import results.json" in text


def test_hundreds_of_workflows_are_paged_and_hostile_names_stay_text(api: Api) -> None:
    many = runs(30, family="rag")
    for index, one in enumerate(many):
        one["workflow"]["id"] = f"flow-{index}" if index < 28 else (SCRIPT, "y" * 5000)[index - 28]
        graded(api, one)
    first = api.client.get("/", headers=HTML)
    assert len(first.content) < 200_000
    found = Markup(first.text)
    assert "30 workflows" in found.text
    assert SCRIPT in found.text
    assert not any(tag == "img" and given.get("src") == "x" for tag, given in found.tags)
    assert "Workflows 1 to 8 of 30" in found.text
    assert "Workflows 9 to 16 of 30" in show(api, "/?from=8").text
    assert "Workflows 25 to 30 of 30" in show(api, "/?from=24").text
    assert "No workflow" in show(api, "/?from=99").text
    show(api, "/?from=-1", status=422)


def test_an_evaluation_without_a_graded_run_is_not_shown_as_nought(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a missing extra for charts hide the numbers."""
    for name in ("a", "b"):
        evaluated(api, name, family="no-such-family", n=2)
    monkeypatch.setattr(drawing, "available", lambda: False)
    answer = api.client.get("/", headers=HTML)
    text = card(answer.text, "faq")
    assert "Pass rate not graded, 2 runs" in text
    assert "could not be graded: 2 of 2 runs" in text
    assert "None of them has a graded run." in text
    evaluated(api, "c", version="2")
    assert "pip install 'assaykit[charts]'" in show(api, "/").text


# --- what runs now


def test_an_evaluation_in_progress_shows_its_progress_and_is_cancelled_once(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with executing(url, tmp_path) as api:
        body = asked("one", "two", "wait go", "four", name="tonight", concurrency=1)
        made = ask(api, body)
        until(lambda: api.get(f"/executions/{made['execution']}").json()["counts"]["done"] == 2)
        answer = api.client.get("/", headers=HTML)
        assert answer.status_code == 200
        found = Markup(answer.text)
        assert "tonight review 1 on d" in found.text
        assert "2 of 4 runs" in found.text
        assert "100.0% 34.2% to 100.0% (95%), n 2" in found.text
        polled = next(given for _, given in found.tags if "hx-get" in given)
        again = api.client.get(str(polled["hx-get"]), headers={**HTML, "HX-Request": "true"})
        assert "HX-Refresh" not in again.headers
        assert 'id="running"' in again.text
        cancel = f"/running/evaluations/{made['execution']}/cancel"
        reader = api.token(scopes=("read",))
        assert cancel in answer.text
        assert cancel not in api.client.get("/", headers={**HTML, **reader}).text
        for headers, status in (
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            (reader, 403),
            ({}, 303),
            ({}, 303),
        ):
            assert send(api, cancel, headers).status_code == status
        assert finished(api, made)["state"] == "cancelled"
        assert send(api, "/running/evaluations/none/cancel").status_code == 404
        over = api.client.get(str(polled["hx-get"]), headers={**HTML, "HX-Request": "true"})
        assert over.headers["HX-Refresh"] == "true"
        done = ask(api, asked("one", name="short"))
        finished(api, done)
        late = send(api, f"/running/evaluations/{done['execution']}/cancel")
        assert late.status_code == 409
        assert "this execution is done" in Markup(late.text).text.lower()


def test_an_execution_whose_server_died_says_so(tmp_path: Path) -> None:
    with executing(f"sqlite:///{tmp_path}/ledger.db", tmp_path) as api:
        made = ask(api, asked("wait go", name="left"))
        until(lambda: api.get(f"/executions/{made['execution']}").json()["state"] == "running")
        row = executions.find(api.services.ledger.database, "default", made["execution"])
        assert row is not None
        assert state_text(row) == "… running"
        assert "its server is gone" in state_text(row._replace(beat_ms=0))
        (tmp_path / "workflows" / "review" / "go").touch()
        finished(api, made)


def test_a_run_posted_live_is_cancelled_as_evidence_and_its_runner_is_refused(api: Api) -> None:
    head = {
        key: value
        for key, value in run("rag", run_id=f"a/b {SCRIPT}").items()
        if key not in ("status", "steps", "tool_calls")
    }
    assert api.post("/runs/live", head).status_code == 201
    found = show(api, "/")
    assert SCRIPT in found.text
    action = next(
        str(given["action"]) for tag, given in found.tags if "/running/runs/" in str(given)
    )
    assert send(api, action, api.token(scopes=("read",))).status_code == 403
    for _ in range(2):
        assert send(api, action).status_code == 303
    stored = api.get("/runs").json()["items"]
    assert [(one["grade"]["passed"], one["run_id"]) for one in stored] == [(False, head["run_id"])]
    late = api.client.post(
        f"/api/v1{action.removeprefix('/running').removesuffix('/cancel')}/events",
        content=json.dumps({"event": "step_start", "step": {"name": "plan"}}),
        headers={"Content-Type": "application/json"},
    )
    assert late.status_code == 409, late.text
    assert "Running now" not in show(api, "/").text
    assert send(api, "/running/runs/none/cancel").status_code == 404
