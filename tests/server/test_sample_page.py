"""The page of a sample: what comes first, the way through an evaluation, other versions, and odd or
hostile content.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from assay.families.judges.labelling import override_label, saving
from assay.families.judges.records import Rater
from assay.views.sample import grade_section
from documents import run
from serving import Api, serving
from stocked import card
from test_evaluation_page import evaluate, text, version
from test_pages import HTML, SCRIPT, Markup, assert_harmless, graded, show

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 60


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Three versions of a workflow; the third has repeats and a run that fails."""
    with serving(f"sqlite:///{tmp_path_factory.mktemp('sample')}/ledger.db") as made:
        for number in (1, 2):
            documents = version(number)
            for one in documents:
                one["outputs"] = {"answer": f"It leaves at {'nine' if number == 1 else 'ten'}."}
            evaluate(made, f"v{number}", documents)
        third = version(3)
        again = [{**one, "run_id": f"{one['run_id']}-again"} for one in third[:1]]
        third[2].update(status="error", metadata={"error": "the provider answered 500"})
        third[2].pop("outputs")
        evaluate(made, "v3", third + again)
        yield made


def ids(api: Api, name: str) -> list[str]:
    return [one["digest"] for one in record(api, name)["runs"]]


def record(api: Api, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/evaluations/{name}").json()
    return found.get("record", found)


def page(api: Api, path: str) -> str:
    answer = api.client.get(path, headers=HTML)
    assert answer.status_code == 200, answer.text[:500]
    Markup(answer.text)
    return answer.text


def test_the_answer_comes_before_the_grade_and_the_grade_before_provenance(api: Api) -> None:
    found = text(page(api, f"/runs/{ids(api, 'v1')[0]}"))
    order = ("of 100, passing score", "Input", "It leaves at nine.", "Expected", "Claims and")
    places = [
        found.index(one) for one in (*order, "Gates", "Criteria", "What would", "Grades, linked")
    ]
    assert places == sorted(places)


def test_previous_and_next_follow_the_view_of_the_evaluation(api: Api) -> None:
    digests = ids(api, "v1")
    walked = []
    path = f"/runs/{digests[0]}?in=v1&sort=sample"
    for _ in digests:
        found = Markup(page(api, path))
        walked.append(path.partition("?")[0].rpartition("/")[2])
        ways = [attributes for tag, attributes in found.tags if tag == "a"]
        following = [str(one["href"]) for one in ways if one.get("rel") == "next"]
        assert any(one.get("rel") == "prev" for one in ways) is (len(walked) > 1)
        assert any(
            "/evaluations/" in str(one["href"]) and "sort=sample" in str(one["href"])
            for one in ways
        )
        if not following:
            break
        path = following[0]
    assert walked == digests
    failed = text(page(api, f"/runs/{ids(api, 'v3')[2]}?in=v3&show=failed"))
    assert "1 of 1 in this view" in failed
    assert "No answer; the run ended with status error: the provider answered 500" in failed
    assert "not among the 1 in this view" in text(
        page(api, f"/runs/{ids(api, 'v3')[1]}?in=v3&show=failed")
    )


def test_a_run_shows_its_evaluation_also_where_the_address_names_none_or_a_wrong_one(
    api: Api,
) -> None:
    digest = ids(api, "v2")[0]
    assert "← Previous" not in page(api, f"/runs/{digest}?in=v2&sort=sample")
    assert ">v2</a>" in page(api, f"/runs/{digest}")
    missing = text(page(api, f"/runs/{digest}?in=nothing"))
    assert "This project has no evaluation 'nothing'." in missing
    assert "The evaluation v1 does not contain this run." in text(
        page(api, f"/runs/{digest}?in=v1")
    )


def test_runs_with_the_same_scorecard_keep_their_own_answers_and_evaluations(api: Api) -> None:
    """The same ids, samples and scores night after night, with other texts."""
    for night in ("monday", "tuesday"):
        documents = version(1, 2, workflow="nightly")
        for one in documents:
            one |= {"outputs": {"answer": f"It leaves {night}."}, "tags": ["nightly"]}
        evaluate(api, night, documents)
    for night in ("monday", "tuesday"):
        for place, one in enumerate(record(api, night)["runs"], 1):
            for name in (one["digest"], one["grade"]):
                for address in (f"/runs/{name}", f"/runs/{name}?in={night}"):
                    found = text(page(api, address))
                    assert f"It leaves {night}." in found.partition("Expected")[0], address
                    assert f" {night} {place} of 2" in found.replace("← Previous ", ""), address
    for query in ("tag=nightly&passed=true", "tag=nightly&grade=A", "tag=nightly"):
        items = api.get(f"/runs?{query}").json()["items"]
        assert len({one["digest"] for one in items}) == 4, query


def test_runs_that_judges_cards_took_part_in_are_found_by_their_grades(api: Api) -> None:
    headers = api.token("judged")
    assert api.post("/cards", card(), headers=headers).status_code == 201
    sent = api.post("/runs?policy=workflow-judged", run("rag"), headers=headers).json()
    assert not sent["grade"]["passed"]
    shown = api.client.get(f"/runs/{sent['grade_digest']}", headers={**HTML, **headers})
    assert "not passed" in text(shown.text)
    items = api.get("/runs?passed=false", headers=headers).json()["items"]
    assert [one["digest"] for one in items] == [sent["digest"]]


def test_repeats_are_one_click_away(api: Api) -> None:
    found = page(api, f"/runs/{ids(api, 'v3')[0]}?in=v3")
    assert "Repeats, 2 of 2 passed" in found
    assert found.count('class="chip"') == 2
    assert found.count('class="chip" aria-current="true"') == 1


def test_other_versions_show_what_changed_in_the_answer(api: Api) -> None:
    found = page(api, f"/runs/{ids(api, 'v2')[0]}?in=v2")
    versions = found[found.index('id="versions"') :]
    assert "It leaves at <del>nine</del><ins>ten</ins>." in versions
    assert "older" in text(versions)
    assert "newer" in text(versions)
    older, newer = (record(api, name)["id"] for name in ("v1", "v2"))
    assert f"/compare?of={older}&amp;of={newer}" in versions
    broken = text(page(api, f"/runs/{ids(api, 'v3')[2]}?in=v3"))
    assert "This run did not answer. That one did: It leaves at ten." in broken
    assert "That run did not answer. This one did" in text(page(api, f"/runs/{ids(api, 'v1')[2]}"))


def test_claims_and_passages_point_at_each_other_and_what_is_wrong_stands_out(api: Api) -> None:
    stored = graded(
        api,
        run(
            "rag",
            run_id="claims",
            retrieval=[{"id": "p1", "text": "At nine."}, {"id": "p2", "text": "At ten."}],
            claims=[
                {"text": "It leaves.", "citations": ["p1"], "supported": True},
                {"text": "At six.", "citations": ["p9"], "supported": False, "severity": "high"},
                {"text": "It is late.", "supported": True},
            ],
        ),
    )
    found = page(api, f"/runs/{stored['digest']}")
    assert '<li id="claim-1"><p' in found
    assert '<li id="claim-2" class="bad">' in found
    assert '<li id="claim-3" class="bad">' in found
    assert 'Cites <a href="#passage-1"><code>p1</code></a>' in found
    assert 'Cited by claim <a href="#claim-1">1</a>' in found
    for words in ("not retrieved", "cites nothing", "No claim cites it.", "high severity"):
        assert words in found
    assert "2 of 3 claims supported, 1 without a citation." in text(found)


def test_hostile_odd_and_huge_content_is_text_and_the_page_stays_small(api: Api) -> None:
    odd = f"{SCRIPT}\x07\u202e"
    made = run("rag", run_id="a/b % ?#", inputs={odd: {odd: [odd, {odd: odd}]}})
    made["outputs"] = {"answer": odd, "deep": [[[[[odd]]]]]}
    made["tool_calls"] = [
        {
            "name": odd,
            "arguments": {odd: "<" * 600},
            "valid": n % 2 == 0,
            "error": odd,
            "metadata": {"result": {odd: odd}},
        }
        for n in range(300)
    ]
    made["claims"] = [{"text": "<" * 3000, "citations": [odd], "supported": None}] * 100
    made["retrieval"] = [{"id": f"p{n}", "text": "&" * 9000} for n in range(60)]
    made["handoffs"] = [{"from": odd, "to": odd, "expected": "x"}] * 200
    made["metadata"] = {"error": odd}
    stored = graded(api, made)
    answer = api.client.get(f"/runs/{stored['digest']}", headers=HTML)
    assert len(answer.content) < 200_000
    assert_harmless(Markup(answer.text))
    assert "\x07" not in answer.text
    assert "\u202e" not in answer.text
    assert "passing score" in show(api, f"/runs/{quote('a/b % ?#', safe='')}").text
    huge = graded(api, run("rag", run_id="huge", outputs={"answer": "word " * 200_000}))
    found = page(api, f"/runs/{huge['digest']}")
    assert len(found) < 200_000
    assert "of 1,000,000 characters." in found
    whole = api.client.get(f"/attachments/{huge['digest']}?at=%2Foutputs%2Fanswer", headers=HTML)
    assert whole.text == "word " * 200_000


def test_a_run_without_texts_grade_or_evaluation_says_so(api: Api) -> None:
    bare = run("rag", run_id="bare", inputs=None, outputs=None, steps=None, claims=None)
    bare.pop("retrieval", None)
    assert api.services.ledger.put(bare, kind="run").new
    found = text(page(api, "/runs/bare"))
    for words in ("there is no verdict", "states no inputs", "No answer; the run ended"):
        assert words in found
    stored = graded(api, run("rag", run_id="to-forget"))
    api.services.ledger.forget(stored["digest"], author="me", reason="asked for")
    assert "was forgotten" in text(page(api, f"/runs/{stored['digest']}"))
    assert api.client.get(f"/attachments/{stored['digest']}", headers=HTML).status_code != 200


def test_parts_are_downloads_and_only_real_pictures_are_shown(api: Api) -> None:
    outputs: dict[str, Any] = {
        "image": {"media_type": "image/png", "data": b64encode(PNG).decode()},
        "drawing": "data:image/svg+xml;base64," + b64encode(b"<svg onload=alert(1)/>").decode(),
        "paper": "data:application/pdf;base64," + b64encode(b"%PDF-1.7 text").decode(),
        "page": "<script>alert(1)</script>",
        "answer": "see the files",
    }
    digest = graded(api, run("rag", run_id="files", outputs=outputs))["digest"]
    found = page(api, f"/runs/{digest}")
    source = f"/attachments/{digest}?at=%2Foutputs%2F"
    assert found.count(f'<img src="{source}') == 1
    assert "PDF document" in found
    assert "File of type image/svg+xml" in found
    for name, kind, place in (
        ("image", "image/png", "inline"),
        ("drawing", "application/octet-stream", "attachment"),
        ("paper", "application/octet-stream", "attachment"),
        ("page", "text/plain; charset=utf-8", "attachment"),
    ):
        answer = api.client.get(f"{source}{name}", headers=HTML)
        assert answer.headers["content-type"] == kind
        assert answer.headers["content-disposition"].startswith(place)
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert api.client.get(f"{source}image", headers=HTML).content == PNG
    for wrong in ("/nothing", "outputs", "/outputs/answer/0", "x" * 3000):
        path = f"/attachments/{digest}?at={quote(wrong, safe='')}"
        assert api.client.get(path, headers=HTML).status_code in (200, 404)
    assert api.client.get("/attachments/sha256:0", headers=HTML).status_code == 404


def test_a_persons_verdict_stands_next_to_the_grade_and_opens_nothing(api: Api) -> None:
    digest = ids(api, "v3")[2]
    before = page(api, f"/runs/{digest}?in=v3")
    assert "No verdicts on this run yet." in before
    within = record(api, "v3")["id"]
    assert f'href="/label/override?run={quote(digest, safe="")}&amp;in={within}"' in before
    item = api.services.ledger.get(digest)
    assert item is not None
    label = override_label(
        item, None, Rater(name=SCRIPT, by="stated"), verdict="pass", reason=f"fine {SCRIPT}"
    )
    api.services.ledger.put_many(saving(api.services.ledger, label, project="default"))
    after = page(api, f"/runs/{digest}?in=v3")
    assert_harmless(Markup(after))
    assert "fine <script>alert(1)" in text(after)
    assert "✗ not passed" in text(after)


def test_two_hundred_criteria_fit_on_a_page() -> None:
    item = {"norm": 0.5, "raw_score": 0.5, "contribution": 0.2, "maximum": 0.5, "weight": 1}
    floor = {"critical_floor": {"norm": 0.6, "from": "role"}, "floor_failed": True}
    criteria = [
        {"name": f"criterion_{n}", "label": f"Label {n}", **item, **floor} for n in range(200)
    ]
    grade = {"grade": "C", "policy": "p@1", "weighted_score": 50, "criteria": criteria}
    found = grade_section(grade, "/charts/grades/x").__html__()
    assert len(found) < 90_000
    assert "The 100 of 200 criteria that lost the most points." in found


def test_a_judges_score_shows_its_name_and_reason() -> None:
    source = {"kind": "llm", "name": "m-1"}
    item = {"name": "clear", "norm": 0.75, "raw_score": 4, "contribution": 75, "maximum": 100}
    grade = {"grade": "C", "policy": "p@1", "weighted_score": 75}
    given = {**grade, "criteria": [{**item, "source": source}]}
    found = grade_section(given, metadata={"judge_reasons": {"clear": "<b>Plain."}})
    assert "4 by m-1: &lt;b&gt;Plain." in found.__html__()
    for metadata in ({}, {"judge_reasons": "x"}, {"judge_reasons": {"clear": 1}}):
        assert "4 by m-1</td>" in grade_section(given, metadata=metadata).__html__()
    measured = grade_section({**grade, "criteria": [item]}, metadata={}).__html__()
    assert "m-1" not in measured


def test_scores_of_a_scorecards_steps_are_shown_in_any_form(api: Api) -> None:
    scores = {"depth": 0.25, "tone": {"raw": 4}, "facts": {"n": 2}}
    made = {
        "schema": "assay.scorecard/1",
        "run_id": "steps-of-another-tool",
        "hard_gates": {"kept": True},
        "criteria": [{"name": "right", "raw_score": 1, "formula_id": "binary", "weight": 1}],
        "step_scores": [{"name": "plan", "status": "success", "critical": True, "scores": scores}],
    }
    found = text(page(api, f"/runs/{api.post('/scorecards', made).json()['digest']}"))
    assert all(shown in found for shown in ("depth 0.25", "tone 4", "facts n 2"))
