"""The labelling pages: blind, stored item by item, nothing lost and nothing twice."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from assay.families.judges.labelling import SetRequest, labels_of_set, make_set, need_set, set_draft
from assay.families.judges.records import StoredSet
from assay.library.shelf import Shelf
from assay.services.evaluation_checks import verify_ledger
from assay.store.access import create_token, revoke_token
from labelling import judged, stored
from serving import Api, serving

SAME = {"Origin": "http://127.0.0.1"}
HOSTILE = "<script>alert(1)</script>\u202e"
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest.fixture
def api(tmp_path: Path) -> Any:
    with serving(f"sqlite:///{tmp_path}/l.db") as made:
        yield made


def drawn(api: Api, *, pairs: bool = False, runs: Any = None, **asked: Any) -> StoredSet:
    ledger = api.services.ledger
    first = stored(ledger, runs or judged(6), "hush-one")
    second = stored(ledger, judged(6, "2"), "hush-two") if pairs else None
    made = make_set(ledger, Shelf(), first, second, SetRequest(**asked), project="default")
    ledger.put_many([set_draft(made)])
    return need_set(ledger, made.id, project="default")


def cookie(api: Api, name: str, scopes: tuple[str, ...] = ("read", "write")) -> dict[str, str]:
    """The headers of a browser that logged in with a token of that name."""
    made = create_token(api.services.ledger.database, project="default", name=name, scopes=scopes)
    return {**SAME, "Cookie": f"assay_token={made.text}"}


def post(api: Api, made: StoredSet, headers: dict[str, str], **fields: Any) -> Any:
    return api.client.post(
        f"/label/{made.set.id}", data=fields, headers=headers, follow_redirects=False
    )


def kept(api: Api, made: StoredSet) -> list[Any]:
    labels = labels_of_set(api.services.ledger, made.digest, project="default")
    return [one.label for one in labels]


@pytest.mark.parametrize("pairs", [False, True])
def test_an_item_shows_no_score_grade_version_or_other_label(api: Api, pairs: bool) -> None:
    made = drawn(api, pairs=pairs)
    anna, ben = cookie(api, "anna"), cookie(api, "ben")
    fields = {"choice": "first"} if pairs else {"c0": "0", "c1": "1"}
    post(api, made, anna, item=1, comment="anna's own words", **fields)
    page = api.client.get(f"/label/{made.set.id}?item=1", headers=ben).text
    assert "ferry" in page
    assert "number 1" in page
    for hidden in ("hush", "anna", "grade-", "sha256:", "checked>", "m-1", "passed"):
        assert hidden not in page, hidden
    results = api.client.get(f"/label/{made.set.id}/results", headers=ben).text
    assert "anna" in results, "who has labelled how many is not a secret"
    assert "own words" not in results
    post(api, made, ben, item=1, **({"choice": "tie"} if pairs else {"c0": "1", "c1": "1"}))
    results = html.unescape(api.client.get(f"/label/{made.set.id}/results", headers=ben).text)
    assert "anna's own words" in results


def test_a_form_sent_twice_is_one_label_and_a_changed_one_is_two(api: Api) -> None:
    made = drawn(api)
    anna = cookie(api, "anna")
    for _ in range(2):
        answer = post(api, made, anna, item=2, c0="1", c1="0", comment=" why \r\n so ")
        assert answer.status_code == 303
        assert re.fullmatch(rf"/label/{made.set.id}\?item=\d&saved=2", answer.headers["location"])
    assert len(kept(api, made)) == 1
    page = api.client.get(f"/label/{made.set.id}?item=2", headers=anna).text
    assert page.count(" checked>") == 2
    assert " why" not in page.split("<textarea")[1][:60]
    post(api, made, anna, item=2, c0="0", c1="0")
    first, second = kept(api, made)
    assert (first.comment, second.comment) == ("why \n so", "")
    assert second.supersedes is not None
    assert verify_ledger(api.services.ledger).clean


def test_the_last_item_leads_to_the_results(api: Api) -> None:
    made = drawn(api, n=2)
    anna = cookie(api, "anna")
    post(api, made, anna, item=1, c0="1", c1="1")
    answer = post(api, made, anna, item=2, c0="1", c1="1")
    assert answer.headers["location"].endswith("/results?done=yes")
    done = api.client.get(f"/label/{made.set.id}", headers=anna, follow_redirects=False)
    assert done.headers["location"] == answer.headers["location"]
    page = api.client.get(done.headers["location"], headers=anna)
    assert "You have labelled every item" in page.text
    assert f"assay judge calibrate --from-ledger {made.set.id} --criterion" in page.text


def test_a_form_that_can_not_be_stored_keeps_what_was_typed(api: Api) -> None:
    made = drawn(api)
    anna = cookie(api, "anna")
    for fields in ({"c0": "1"}, {"c0": "1", "c1": "7"}, {"c0": "1", "c1": "1" * 5000}):
        answer = post(api, made, anna, item=1, comment="kept", **fields)
        assert answer.status_code == 422
        assert "No score yet for" in answer.text
        assert "kept</textarea>" in answer.text
        assert 'name="c0" value="1" data-key="1" required checked' in answer.text
    too_long = post(api, made, anna, item=1, c0="1", c1="1", comment="x" * 10_001)
    assert too_long.status_code == 422
    assert "limit is 10,000" in too_long.text
    for item in ("0", "7", "x", "", "9" * 30):
        assert post(api, made, anna, item=item, c0="1", c1="1").status_code == 422
    assert kept(api, made) == []


def test_a_session_that_ends_while_labelling_leads_back_and_says_so(api: Api) -> None:
    made = drawn(api)
    database = api.services.ledger.database
    token = create_token(database, project="default", name="anna", scopes=("read", "write"))
    headers = {
        **SAME,
        "Cookie": f"assay_token={token.text}",
        "Referer": f"http://127.0.0.1/label/{made.set.id}?item=3",
    }
    revoke_token(database, token.token.id)
    answer = post(api, made, headers, item=3, c0="1", c1="1")
    assert answer.status_code == 303
    assert answer.headers["location"] == (
        f"/login?ended=yes&next=/label/{made.set.id}%3Fitem%3D3&unsaved=yes"
    )
    assert "was not saved" in api.client.get(answer.headers["location"]).text
    elsewhere = post(api, made, {**headers, "Referer": "http://evil.test/x"}, item=3)
    assert elsewhere.headers["location"] == "/login?ended=yes&unsaved=yes"
    malformed = post(api, made, {**headers, "Referer": "http://["}, item=3)
    assert malformed.headers["location"] == "/login?ended=yes&unsaved=yes"
    assert kept(api, made) == []


def test_a_rater_is_a_token_or_a_name_typed_once_and_never_another_token(api: Api) -> None:
    made = drawn(api)
    anna = cookie(api, "anna")
    post(api, made, anna, item=1, c0="1", c1="1")
    asked = api.client.get(f"/label/{made.set.id}?item=1", headers=SAME)
    assert "Who is labelling?" in asked.text
    assert f'value="/label/{made.set.id}?item=1"' in asked.text
    assert post(api, made, SAME, item=1, c0="0", c1="0").status_code == 409
    named = api.client.post(
        "/label/rater",
        data={"name": " anna\u202e ", "next": "//evil.test"},
        headers=SAME,
        follow_redirects=False,
    )
    assert named.headers["location"] == "/"
    assert post(api, made, SAME, item=1, c0="0", c1="0").status_code == 303
    raters = [(one.rater.name, one.rater.by) for one in kept(api, made)]
    assert raters == [("anna", "token"), ("anna", "stated")]
    other = api.client.post("/label/rater", data={"name": "x"}, headers=anna)
    assert other.status_code == 409
    reader = cookie(api, "ben", ("read",))
    assert (
        "needs the <code>write</code> scope"
        in api.client.get(f"/label/{made.set.id}", headers=reader).text
    )
    assert post(api, made, reader, item=1, c0="0", c1="0").status_code == 403
    foreign = post(api, made, {**anna, "Origin": "http://evil.test"}, item=1, c0="0", c1="0")
    assert foreign.status_code in (303, 403)
    assert len(kept(api, made)) == 2


def test_two_tokens_of_one_name_are_two_raters_with_drafts_of_their_own(api: Api) -> None:
    made = drawn(api)
    drafts = set()
    for value in "10":
        anna = cookie(api, "anna")
        assert post(api, made, anna, item=1, c0=value, c1=value).status_code == 303
        page = api.client.get(f"/label/{made.set.id}?item=1&saved=2", headers=anna).text
        drafts.update(re.findall(r'data-(?:draft|saved)="([^"]+)"', page))
        assert "A correction counts for 10 minutes" in page
    first, second = kept(api, made)
    assert first.rater.name == second.rater.name == "anna"
    assert first.rater.id != second.rater.id
    assert second.supersedes is None
    ids = (first.rater.id, second.rater.id)
    assert drafts == {f"{made.set.id}/token/{one}/{n}" for one in ids for n in (1, 2)}
    results = api.client.get(f"/label/{made.set.id}/results", headers=anna).text
    assert all(f"anna (token {one})" in results for one in ids)


def test_hostile_and_huge_texts_pictures_and_forgotten_runs_are_shown_or_said(api: Api) -> None:
    documents = judged(5)
    documents[0]["outputs"] = {"answer": HOSTILE}
    documents[1]["outputs"] = {"answer": "x" * 5_000_000}
    documents[2]["outputs"] = {"picture": PIXEL}
    documents[3]["outputs"] = {"file": "data:application/pdf;base64,JVBERi0="}
    documents[0]["retrieval"] = [{"id": HOSTILE, "text": HOSTILE * 9000}]
    made = drawn(api, runs=documents)
    anna = cookie(api, "anna")
    numbers = {item.sample: number for number, item in enumerate(made.set.items, 1)}
    pages = [
        api.client.get(f"/label/{made.set.id}?item={numbers[f's-{index}']}", headers=anna).text
        for index in range(5)
    ]
    assert "<script>alert" not in pages[0]
    assert "\u202e" not in pages[0]
    assert all(len(page) < 200_000 for page in pages)
    assert "The first 10,000 characters" in pages[1]
    assert f'<img src="{PIXEL}"' in pages[2]
    assert "application/pdf" in pages[3]
    gone = next(item for item in made.set.items if item.sample == "s-4")
    api.services.ledger.forget(gone.run, author="anna", reason="asked for")
    page = api.client.get(f"/label/{made.set.id}?item={numbers['s-4']}", headers=anna)
    assert "its run was forgotten" in page.text
    for number in set(numbers.values()) - {numbers["s-4"]}:
        answer = post(api, made, anna, item=number, c0="1", c1="1")
    assert "results" in answer.headers["location"], "a forgotten item keeps nobody waiting"
    api.services.ledger.forget(made.set.evaluation.digest, author="anna", reason="asked for")
    assert api.client.get(f"/label/{made.set.id}?item=1", headers=anna).status_code == 200
    assert api.client.get("/label", headers=anna).status_code == 200


def test_a_rubric_of_two_hundred_criteria_is_one_form(api: Api, tmp_path: Path) -> None:
    lines = [
        f"- {{name: c{i}, definition: d, evidence_required: [e], scale: [-2, 2], weight: 1, anchors:"
        " {'-2': a, '-1': b, '0': c, '1': d, '2': e}}"
        for i in range(200)
    ]
    path = tmp_path / "many.yaml"
    path.write_text("rubric_id: many\nversion: 1\ncriteria:\n" + "\n".join(lines))
    made = drawn(api, rubric=str(path))
    anna = cookie(api, "anna")
    page = api.client.get(f"/label/{made.set.id}?item=1", headers=anna).text
    assert page.count("<fieldset>") == 200
    assert post(api, made, anna, item=1, **{f"c{i}": "-2" for i in range(200)}).status_code == 303
    assert set(kept(api, made)[0].scores.values()) == {-2}


def test_a_set_is_drawn_by_the_form_and_a_slip_is_said_next_to_it(api: Api) -> None:
    anna = cookie(api, "anna")
    assert "assay run" in api.client.get("/label", headers=anna).text
    stored(api.services.ledger, judged(4), "nightly")

    def send(**fields: str) -> Any:
        return api.client.post("/label/sets", data=fields, headers=anna, follow_redirects=False)

    made = send(evaluation="latest", n="3", expected="yes")
    assert made.status_code == 303
    again = send(evaluation="nightly", n="3", expected="yes", draw="random")
    assert again.headers["location"] == made.headers["location"], "the same form twice is one set"
    page = api.client.get("/label", headers=anna).text
    assert made.headers["location"] in page
    assert "nobody yet" in page
    for fields, words in (
        ({"evaluation": "nope"}, "here is no evaluation"),
        ({"evaluation": "nightly", "n": "many"}, "not a number"),
        ({"evaluation": "nightly", "n": "0"}, "1 to 2,000"),
        ({"evaluation": "nightly", "rubric": "../x.yaml"}, "not a name in the library"),
        ({"evaluation": "nightly", "rubric": "nope"}, "no rubric is named"),
        ({"evaluation": "nightly", "rubric": "./x.yaml"}, "assay label new nightly --rubric FILE"),
        ({"evaluation": "nightly", "pairs": "nightly"}, "same answer: 4"),
    ):
        answer = send(**fields)
        assert answer.status_code >= 400
        assert words in html.unescape(answer.text).replace("No rubric", "no rubric")
        assert "Draw the set" in answer.text
    assert api.client.get("/label/nope", headers=anna).status_code == 404
    assert api.client.get(f"{made.headers['location']}?item=9", headers=anna).status_code == 404


def test_an_override_needs_a_reason_and_leaves_the_grade(api: Api) -> None:
    evaluation = stored(api.services.ledger, judged(3), "nightly")
    run = evaluation.evaluation.runs[0]
    before = api.services.ledger.get_many([run.digest, str(run.grade)])
    anna = cookie(api, "anna")
    address = f"/label/override?run={run.run_id}&in=nightly"
    assert "no gate" in api.client.get(address, headers=anna).text

    def send(**fields: str) -> Any:
        sent = {"run": run.run_id, "in": "nightly", **fields}
        return api.client.post("/label/override", data=sent, headers=anna, follow_redirects=False)

    for fields in ({"verdict": "pass", "reason": " "}, {"verdict": "maybe", "reason": "so"}):
        assert send(**fields).status_code == 422
    for _ in range(2):
        answer = send(verdict="pass", reason=HOSTILE)
        assert answer.headers["location"] == f"/runs/{run.run_id}?in=nightly"
    assert api.services.ledger.count("label").n == 1
    page = api.client.get(address, headers=anna).text
    assert "pass: &lt;script&gt;" in page
    assert api.services.ledger.get_many([run.digest, str(run.grade)]) == before
    assert api.client.get("/label/override?run=nope", headers=anna).status_code == 404
