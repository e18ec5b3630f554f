"""The pages, asked for as a browser asks: what they say, who may see them, and that whatever is
stored is shown as text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from assay.canon import canonical
from assay.store.access import revoke_token
from assay.store.drafts import Link, draft
from assay.views import drawing
from documents import FAMILIES, run, scorecard
from examples import repeats
from serving import Api, description, runs, serving

HTML = {"Accept": "text/html,application/xhtml+xml"}
OURS = {**HTML, "Sec-Fetch-Site": "same-origin"}
FORM = {**OURS, "Content-Type": "application/x-www-form-urlencoded"}
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;"
VOID = {"meta", "link", "img", "input"}


class Markup(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def updatepos(self, i: int, j: int) -> int:
        """Lines aren't counted: nobody asks for a position."""
        return j

    @cached_property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.said))

    def links(self) -> list[str]:
        return [
            str(attributes["href"])
            for tag, attributes in self.tags
            if tag == "a" and "href" in attributes
        ]


@pytest.fixture
def api(tmp_path: Path) -> Any:
    with serving(f"sqlite:///{tmp_path}/ledger.db") as made:
        yield made


def show(
    api: Api, path: str, *, status: int = 200, headers: dict[str, str] | None = None
) -> Markup:
    answer = api.client.get(path, headers={**HTML, **(headers or {})}, follow_redirects=False)
    assert answer.status_code == status, (path, answer.status_code, answer.text[:2000])
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Markup(answer.text)


def send(api: Api, path: str, headers: dict[str, str] | None = None, **fields: str) -> Any:
    body = "&".join(f"{key}={quote(value, safe='')}" for key, value in fields.items())
    return api.client.post(
        path, content=body, headers={**FORM, **(headers or {})}, follow_redirects=False
    )


def graded(api: Api, evidence: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = api.post("/runs", evidence, **more)
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


# --- every page


def pages(api: Api) -> list[str]:
    """The address of every page, on a ledger with a few runs."""
    stored = [
        graded(api, one)
        for family in FAMILIES
        for one in runs(2, family=family, start=10 * FAMILIES.index(family))
    ]
    api.post(
        "/runs/live",
        {
            key: value
            for key, value in run("rag", run_id="live-1").items()
            if key not in ("status", "steps", "tool_calls")
        },
    )
    shelf = [
        f"/library/{kind}/{name}"
        for kind, name in (
            ("profiles", "rag@1"),
            ("rubrics", "rag@1"),
            ("policies", "workflow@1"),
            ("gates", "answer_grounded"),
        )
    ]
    shelf += [
        "/library/policies/release@1",
        "/library/rubrics/tutor@1",
        "/library/measures/bleu",
        "/library/formulas/ratio",
    ]
    return [
        "/",
        "/runs",
        f"/runs/{stored[0]['digest']}",
        f"/runs/{stored[0]['grade_digest']}",
        "/runs/r-10",
        "/runs/live-1/live",
        "/library",
        *shelf,
        "/login",
    ]


def test_every_page_is_whole_and_forbids_everything_that_is_not_its_own(api: Api) -> None:
    for path in pages(api):
        answer = api.client.get(path, headers=HTML)
        found = Markup(answer.text)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        names = [tag for tag, _ in found.tags]
        assert names.count("h1") == names.count("main") == 1
        assert ("html", {"lang": "en"}) in found.tags
        for tag, attributes in found.tags:
            assert "style" not in attributes, path
            assert not [name for name in attributes if name.startswith("on")], path
            if tag in ("script", "img", "link"):
                assert str(attributes.get("src") or attributes.get("href")).startswith(
                    ("/static/", "/charts/")
                ), (path, attributes)
        assert found.tags[names.index("a")][1]["href"] == "#content"


def kind_of_link(path: str, href: str) -> str:
    """The link without what differs between records of the same page."""
    return f"{path} {re.sub(r'sha256(:|%3A)[0-9a-f]{64}|[0-9]+', '0', href)}"


def test_links_lead_somewhere_ids_are_given_once_and_no_letter_is_without_its_policy(
    api: Api,
) -> None:
    """In the suite the first link of each kind on each page, in a campaign all of them."""
    asked = pages(api)
    seen = set(asked)
    followed: Counter[str] = Counter()
    for path in asked:
        source = api.client.get(path, headers=HTML).text
        for after in re.findall(r'<b class="grade-[A-Za-z]+">[^<]+</b>(.{0,40})', source):
            assert re.match(r" <small>[\w-]+@\d", after), (path, after)
        found = Markup(source)
        given = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len(given) == len(set(given)), path
        assert {href[1:] for href in found.links() if href.startswith("#")} <= set(given), path
        for href in found.links():
            target = href.partition("#")[0]
            if target and target not in seen:
                followed[kind := kind_of_link(path, target)] += 1
                if followed[kind] > repeats(1, 10**6):
                    continue
                seen.add(target)
                assert api.client.get(target, headers=HTML).status_code == 200, (path, href)
    assert len(seen) > 60


def test_pages_are_not_in_the_description_of_the_api() -> None:
    assert all(path.startswith(("/api/", "/v1/")) for path in description()["paths"])


# --- hostile content


def hostile() -> dict[str, Any]:
    """A run with markup in every field that takes a text."""
    made = run("rag", run_id=f"r {SCRIPT}", tags=[SCRIPT], group=SCRIPT)
    made["workflow"].update(id=SCRIPT, version=SCRIPT)
    made["dataset"].update(id=SCRIPT, version=SCRIPT, sample_id=SCRIPT)
    made.update(
        inputs={"question": SCRIPT, SCRIPT: SCRIPT},
        outputs={"answer": SCRIPT, SCRIPT: [SCRIPT]},
        expected={SCRIPT: SCRIPT},
        metadata={SCRIPT: SCRIPT},
    )
    made["steps"] = [
        {
            "name": SCRIPT,
            "agent": SCRIPT,
            "status": "failed",
            "model": SCRIPT,
            "tier": SCRIPT,
            "error": SCRIPT,
            "duration_ms": 5,
            "scores": {SCRIPT: {"raw": 1}},
        }
    ]
    made["tool_calls"] = [
        {
            "name": SCRIPT,
            "step": SCRIPT,
            "arguments": {SCRIPT: SCRIPT},
            "valid": False,
            "error": SCRIPT,
        }
    ]
    made["claims"] = [
        {"text": SCRIPT, "citations": [SCRIPT], "supported": False, "severity": "high"}
    ]
    made["retrieval"] = [{"id": SCRIPT, "text": SCRIPT, "rank": 1, "relevant": None}]
    made["handoffs"] = [{"from": SCRIPT, "to": SCRIPT, "expected": SCRIPT}]
    made["gates"] = {"answer_grounded": {"passed": False, "reason": SCRIPT}}
    made["judge"] = {"model": SCRIPT, "version": SCRIPT, "prompt_version": SCRIPT}
    made["started_at"] = "2026-11-15T10:00:00Z"
    return made


def assert_harmless(found: Markup) -> None:
    names = ("live", "page", "charts", "keys", "htmx.min")
    known = {*(f"/static/{name}.js" for name in names), "/static/pages.css", "/static/assay.svg"}
    for tag, attributes in found.tags:
        assert tag not in ("iframe", "object", "embed", "svg", "style", "base"), tag
        assert not [name for name in attributes if name.startswith("on")], attributes
        if tag in ("script", "img"):
            source = str(attributes["src"])
            assert source.partition("?")[0] in known or source.startswith(
                ("/charts/", "data:image/svg+xml;base64,")
            ), source
        if tag == "a":
            assert str(attributes["href"]).startswith(("/", "#")), attributes


def test_stored_markup_is_shown_as_text_in_every_field_of_every_page(api: Api) -> None:
    stored = graded(api, hostile())
    api.post(
        "/runs/live",
        {
            key: value
            for key, value in hostile().items()
            if key not in ("status", "steps", "tool_calls")
        }
        | {"run_id": "live-1"},
    )
    event = {
        "event": "step_end",
        "step": {**hostile()["steps"][0], "index": 0},
        "tool_calls": hostile()["tool_calls"],
    }
    assert api.post("/runs/live-1/events", event).status_code == 202
    query = quote(SCRIPT, safe="")
    shown = 0
    for path in (
        "/",
        "/runs",
        f"/runs?q={query}&workflow={query}&tag={query}&gate={query}&from=&to=",
        f"/runs?tag={query}",
        f"/runs/{stored['digest']}",
        f"/runs/{quote(hostile()['run_id'], safe='')}",
        "/runs/live-1/live",
        f"/decisions?policy={query}&outcome={query}",
        "/library",
    ):
        found = show(api, path)
        assert_harmless(found)
        shown += found.text.count("<script>alert(1)</script>")
    assert shown > 40
    for path in (
        f"/runs/{query}",
        f"/library/profiles/{query}",
        f"/library/{query}/x",
        f"/{query}",
        f"/runs?after={query[:20]}",
        f"/login?next=/{query}",
    ):
        assert_harmless(Markup(api.client.get(path, headers=HTML).text))


@pytest.mark.parametrize("name", ["contributions", "floors", "timeline"])
def test_a_chart_of_hostile_names_is_a_picture_and_nothing_else(api: Api, name: str) -> None:
    digest = graded(api, hostile())["grade_digest"]
    answer = api.client.get(f"/charts/grades/{digest}/{name}.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert b"<script" not in answer.content
    assert b"onerror=" not in re.sub(rb'="[^"]*"|>[^<]*<', b"", answer.content)
    assert (
        answer.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    )


@pytest.mark.parametrize(
    "name", ["a/b", "ä?#& 'x\"`", "..a", "live/live", "x/replay", "𝔘\u202enwod"]
)
def test_a_run_is_found_by_whatever_id_it_has(api: Api, name: str) -> None:
    seen: set[str] = set()
    graded(api, run("rag", run_id=name))
    links = show(api, "/runs").links()
    (way,) = {href for href in links if href.startswith("/runs/sha256:")} - seen
    seen.add(way)
    assert "passed" in show(api, way).text
    if not name.endswith(("/live", "/replay")):
        assert "passed" in show(api, f"/runs/{quote(name, safe='')}").text


# --- access


@pytest.fixture
def closed(tmp_path: Path) -> Any:
    with serving(f"sqlite:///{tmp_path}/ledger.db", allow_anonymous=False) as made:
        yield made


def token_of(api: Api, **more: Any) -> str:
    return api.token(**more)["Authorization"].removeprefix("Bearer ")


def test_whoever_has_no_token_is_asked_for_one_and_brought_back(closed: Api) -> None:
    for path in (
        "/",
        "/runs?grade=F&tag=a%26b",
        "/runs/x",
        "/library",
    ):
        answer = closed.client.get(path, headers=HTML, follow_redirects=False)
        assert answer.status_code == 303, path
        assert answer.headers["location"] == (
            "/login" if path == "/" else f"/login?next={quote(path, safe='/')}"
        )
    back = send(closed, "/login", token=token_of(closed), next="/runs?grade=F")
    assert (back.status_code, back.headers["location"]) == (303, "/runs?grade=F")


def test_the_cookie_of_a_login_cannot_be_read_by_a_script_nor_sent_by_another_site(
    closed: Api,
) -> None:
    token = token_of(closed)
    made = send(closed, "/login", token=f" {token} ").headers["set-cookie"]
    assert made == f"assay_token={token}; HttpOnly; Path=/; SameSite=strict"
    secure = send(closed, "/login", headers={"X-Forwarded-Proto": "https"}, token=token).headers[
        "set-cookie"
    ]
    assert "; Secure" in secure
    assert (
        "Project <b>default</b>"
        in closed.client.get("/", headers={**HTML, "Cookie": f"assay_token={token}"}).text
    )


def test_a_wrong_token_is_not_kept_and_is_never_shown(closed: Api) -> None:
    answer = send(closed, "/login", token="assay_wrong_token")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "assay_wrong_token" not in answer.text
    assert "token is not valid" in answer.text


@pytest.mark.parametrize(
    "to",
    [
        "https://elsewhere.example/",
        "//elsewhere.example",
        "/\\elsewhere.example",
        "javascript:alert(1)",
        "/\n/x",
        "runs",
        "",
    ],
)
def test_a_login_leads_nowhere_but_here(closed: Api, to: str) -> None:
    closed.client.cookies.clear()
    assert send(closed, "/login", token=token_of(closed), next=to).headers["location"] == "/"


def test_a_token_that_is_revoked_ends_the_session(closed: Api) -> None:
    token = token_of(closed)
    cookie = {"Cookie": f"assay_token={token}"}
    assert closed.client.get("/runs", headers={**HTML, **cookie}).status_code == 200
    revoke_token(closed.services.ledger.database, token.split("_")[1])
    answer = closed.client.get("/runs", headers={**HTML, **cookie}, follow_redirects=False)
    assert answer.headers["location"] == "/login?ended=yes&next=/runs"
    assert 'assay_token=""' in answer.headers["set-cookie"]
    assert "expired or was revoked" in show(closed, answer.headers["location"]).text


def test_a_cookie_of_a_server_on_another_port_of_this_machine_is_not_ours(closed: Api) -> None:
    token = token_of(closed)
    here = {**HTML, "Host": "127.0.0.1:8321"}
    assert (
        closed.client.get(
            "/runs", headers={**here, "Cookie": f"assay_token_8321={token}"}
        ).status_code
        == 200
    )
    assert (
        closed.client.get(
            "/runs", headers={**here, "Cookie": f"assay_token_9999={token}"}, follow_redirects=False
        ).status_code
        == 303
    )
    made = closed.client.post(
        "/login",
        content=f"token={token}",
        headers={**FORM, "Host": "127.0.0.1:8321"},
        follow_redirects=False,
    )
    assert made.headers["set-cookie"].startswith("assay_token_8321=")


def test_logging_out_takes_the_cookie_away_and_cannot_be_done_by_a_link(closed: Api) -> None:
    answer = send(closed, "/logout")
    assert answer.headers["location"] == "/login"
    assert 'assay_token=""' in answer.headers["set-cookie"]
    assert show(closed, "/logout", status=405)


def test_a_cookie_counts_for_a_change_only_from_our_own_page(closed: Api) -> None:
    cookie = {"Cookie": f"assay_token={token_of(closed)}"}
    assert closed.get("/runs", headers=cookie).status_code == 200
    assert (
        closed.get("/runs/none/events", headers=cookie).status_code == 404
    )  # known, and there is none: a stream takes the cookie too
    for origin in (
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
    ):
        assert closed.post("/runs", run(), headers={**cookie, **origin}).status_code == 401, origin
    assert (
        closed.post("/runs", run(), headers={**cookie, "Sec-Fetch-Site": "same-origin"}).status_code
        == 201
    )
    assert (
        closed.post(
            "/runs", run("rag"), headers={**cookie, "Origin": "http://127.0.0.1"}
        ).status_code
        == 201
    )


def test_a_form_from_another_site_is_refused_also_where_no_token_is_needed(api: Api) -> None:
    digest = graded(api, run())["grade_digest"]
    for path in ("/login", "/logout", f"/runs/{digest}/replay"):
        for origin in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "none"},
            {"Origin": "http://evil.example"},
        ):
            answer = api.client.post(
                path,
                content="run=1",
                headers={**HTML, "Content-Type": "application/x-www-form-urlencoded", **origin},
            )
            assert answer.status_code == 403, (path, origin)
            assert "another site" in Markup(answer.text).text


def test_a_token_that_may_not_read_gets_a_page_that_says_so(closed: Api) -> None:
    found = show(closed, "/runs", status=403, headers=closed.token(scopes=("write",)))
    assert "lacks the scope 'read'" in found.text


def test_projects_cannot_see_each_others_pages(closed: Api) -> None:
    ours, theirs = closed.token("ours"), closed.token("theirs")
    stored = graded(
        closed, run("rag", run_id="only-for-ours", tags=["only-for-ours"]), headers=ours
    )
    closed.post(
        "/runs/live",
        {
            key: value
            for key, value in run("rag", run_id="only-live").items()
            if key not in ("status", "steps", "tool_calls")
        },
        headers=ours,
    )
    assert "only-for-ours" in show(closed, "/runs", headers=ours).text
    for path in ("/", "/runs", "/runs?tag=only-for-ours", "/library"):
        assert "only-" not in show(closed, path, headers=theirs).text.replace(
            "tag=only-for-ours", ""
        ).replace("Filter: tag", "")
    for path in (
        f"/runs/{stored['digest']}",
        f"/runs/{stored['grade_digest']}",
        "/runs/only-for-ours",
        "/runs/only-live/live",
        "/runs/only-live",
    ):
        show(closed, path, status=404, headers=theirs)
    assert (
        closed.client.get(
            f"/charts/grades/{stored['grade_digest']}/floors.svg", headers={**HTML, **theirs}
        ).status_code
        == 404
    )
    assert send(closed, f"/runs/{stored['grade_digest']}/replay", headers=theirs).status_code == 404


# --- the list


def listed(found: Markup) -> list[str]:
    """The ids of the runs on a page of the list."""
    return [href for href in found.links() if href.startswith("/runs/sha256:")]


def seeded(api: Api) -> dict[str, str]:
    """Runs that differ in one thing each: name to the address of its page."""
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "workflow": {"workflow": {"id": "other", "version": "1", "family": "rag"}},
        "version": {"workflow": {"id": "w", "version": "9", "family": "rag"}},
        "dataset": {"dataset": {"id": "e", "version": "1", "sample_id": "s"}},
        "tag": {"tags": ["slow"]},
        "gate": {"output_schema": None},
        "status": {"status": "timeout"},
        "early": {"started_at": "2026-01-03T00:30:00+01:00"},
        "late": {"started_at": "2026-03-04T00:00:00Z"},
    }
    return {
        name: f"/runs/{graded(api, run('rag', run_id=f'run-{name}', **more))['digest']}"
        for name, more in changes.items()
    }


FILTERS: list[tuple[str, set[str]]] = [
    ("workflow=other", {"workflow"}),
    ("version=9", {"version"}),
    ("dataset=e", {"dataset"}),
    ("tag=slow", {"tag"}),
    ("gate=schema_contract_valid", {"gate"}),
    ("gate=overall_status_success", {"status"}),
    ("status=timeout", {"status"}),
    ("grade=F", {"gate", "status"}),
    ("passed=no", {"gate", "status"}),
    ("passed=no&status=timeout", {"status"}),
    ("from=2026-01-01&to=2026-01-02", {"early"}),
    ("from=2026-03-04", {"late"}),
    ("to=2026-03-04", {"early", "late"}),
    ("to=2026-03-03", {"early"}),
    ("q=run-ve", {"version"}),
    ("q=RUN-ve", set()),
    ("q=run-&grade=F&gate=schema_contract_valid", {"gate"}),
    ("q=run-&tag=slow", {"tag"}),
    ("q=run-&from=2026-01-01&to=2026-01-02", {"early"}),
    ("workflow=nobody", set()),
]


@pytest.mark.parametrize(("query", "expected"), FILTERS)
def test_the_list_is_filtered_by_its_address(api: Api, query: Any, expected: Any) -> None:
    where = seeded(api)
    found = show(api, f"/runs?{query}")
    assert {name for name, href in where.items() if href in listed(found)} == expected, query
    if not expected:
        assert "No run matches this filter." in found.text
    values = {
        attributes.get("name"): attributes.get("value")
        for tag, attributes in found.tags
        if tag == "input"
    }
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        assert (
            values.get(name) == value
            or ("option", {"value": value, "selected": "selected"}) in found.tags
        ), pair


def test_paging_shows_every_run_once_forth_and_back(api: Api) -> None:
    api.post("/runs", runs(120, family="rag"))
    seen: list[str] = []
    path: str | None = "/runs"
    ways = []
    while path is not None:
        ways.append(path)
        found = show(api, path)
        seen += listed(found)
        path = next(
            (str(a["href"]) for tag, a in found.tags if tag == "a" and a.get("rel") == "next"), None
        )
    assert len(ways) == 3
    assert len(seen) == len(set(seen)) == 120
    newer = next(
        str(a["href"])
        for tag, a in show(api, ways[-1]).tags
        if tag == "a" and a.get("rel") == "prev"
    )
    assert listed(show(api, newer)) == seen[50:100]


def test_a_text_is_looked_for_within_limits_and_an_exact_id_is_found_wherever_it_is(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.server.pages.runs.LOOKED_AT", 5)
    api.post("/runs", runs(20, family="rag"))
    first = show(api, "/runs?q=r-1")
    assert len(listed(first)) == 6  # the very id, and five of the last five
    assert "Look further back" in first.text
    path = next(str(a["href"]) for tag, a in first.tags if tag == "a" and a.get("rel") == "next")
    assert len(listed(show(api, path))) == 5
    assert "older runs may match" in show(api, "/runs?q=r-0").text


@pytest.mark.parametrize(
    "query",
    [
        "after=x",
        "from=tomorrow",
        "passed=yes&from=tomorrow",
        "q=r&to=tomorrow",
        "before=-1",
        "tag=" + "x" * 600,
    ],
)
def test_an_address_that_makes_no_sense_is_answered_with_what_to_do(api: Api, query: str) -> None:
    graded(api, run())
    assert show(api, f"/runs?{query}", status=422)


# --- empty, huge, wrong


def test_an_empty_project_says_how_to_begin(api: Api) -> None:
    assert "Nothing is stored in this project yet." in show(api, "/").text
    assert "This project has no runs yet." in show(api, "/runs").text
    for path in ("/", "/runs"):
        assert "assay run" in show(api, path).text


def test_a_run_that_was_graded_again_counts_once_by_its_newest_grade(api: Api) -> None:
    stored = graded(api, run("rag"))
    payload = json.loads(json.dumps(stored["grade"])) | {"grade": "F", "passed": False}
    scorecard_digest = next(
        link.target
        for link in api.services.ledger.links_of(stored["grade_digest"])
        if link.relation == "graded_from"
    )
    api.services.ledger.put_many(
        [
            draft(
                payload,
                kind="grade",
                links=[
                    Link("graded_from", scorecard_digest),
                    Link("supersedes", stored["grade_digest"]),
                ],
            )
        ]
    )
    assert "Pass rate 0.0% 0.0% to 79.3% (95%), n 1" in show(api, "/").text
    page = show(api, f"/runs/{stored['digest']}")
    assert "is superseded by" in show(api, f"/runs/{stored['grade_digest']}").text
    assert "This is an earlier grade." in show(api, f"/runs/{stored['grade_digest']}").text
    assert "supersedes" in page.text


def test_what_needs_attention_is_named_and_linked(api: Api) -> None:
    graded(api, run("rag", run_id="broken", status="error"))
    graded(api, run("rag", run_id="unseen", output_schema=None))
    graded(api, run("rag", run_id="silent", claims=None))
    bad = [
        {**one, "run_id": f"c-{one['run_id']}", "status": "failed"}
        for one in runs(40, family="rag")
    ]
    decided = api.post("/decisions", {"candidate": bad, "baseline": runs(40, family="rag")})
    assert decided.status_code == 201, decided.text
    found = show(api, "/")
    for text, href in (
        ("1 run ended in an error; the newest is broken.", "/runs?status=error"),
        ("Gate schema_contract_valid is undetermined in 1 run", "/runs?gate=schema_contract_valid"),
        (
            (
                "Gates answer_grounded, citations_present_for_claims, no_high_severity_hallucination"
                " are undetermined in 1 run"
            ),
            "/runs?gate=answer_grounded",
        ),
        ("The last release decision: reject", f"/decisions/{decided.json()['digest']}"),
    ):
        assert text in found.text
        assert href in found.links()
    assert "reject" in found.text


def test_a_run_in_progress_is_on_the_overview_and_leads_to_its_live_page(api: Api) -> None:
    api.post(
        "/runs/live",
        {
            key: value
            for key, value in run("rag", run_id="a b").items()
            if key not in ("status", "steps", "tool_calls")
        },
    )
    found = show(api, "/")
    assert "/runs/a%20b/live" in found.links()
    live = show(api, "/runs/a%20b/live")
    assert "Reload it" in live.text
    stream = next(attributes for tag, attributes in live.tags if attributes.get("id") == "live")
    assert stream["data-stream"] == "/api/v1/runs/a%20b/events"
    assert stream["data-seen"] == "1"
    gone = show(api, "/runs/a%20b", status=404)
    assert "it is in progress" in gone.text


def test_a_live_page_of_a_run_that_was_only_stored_leads_to_the_run(api: Api) -> None:
    digest = graded(api, run("rag"))["digest"]
    answer = api.client.get("/runs/r-1/live", headers=HTML, follow_redirects=False)
    assert answer.headers["location"] == f"/runs/{digest}"


def test_pages_of_a_very_large_run_stay_small(api: Api) -> None:
    made = run(
        "rag",
        run_id="large",
        outputs={"answer": "x" * 400_000},
        inputs={"question": "<" * 200_000},
    )
    made["steps"] = [
        {
            "name": f"step {index} {'n' * 200}",
            "agent": f"a-{index}",
            "status": "success",
            "duration_ms": index,
        }
        for index in range(1000)
    ]
    made["tool_calls"] = [
        {"name": "t", "arguments": {"q": "y" * 3000}, "valid": None} for _ in range(200)
    ]
    made["claims"] = [
        {"text": "z" * 3000, "citations": ["doc-1"], "supported": True, "severity": "low"}
        for _ in range(200)
    ]
    digest = graded(api, made)["digest"]
    answer = api.client.get(f"/runs/{digest}", headers=HTML)
    assert answer.status_code == 200
    assert len(answer.content) < 200_000
    assert "The first 16,000 of 400,000 characters." in answer.text
    assert len(api.client.get("/runs", headers=HTML).content) < 500_000
    assert len(api.client.get("/", headers=HTML).content) < 500_000


def test_what_is_not_there_is_a_page_for_a_person_and_a_document_for_a_program(api: Api) -> None:
    for path in (
        "/nothing",
        "/runs/none",
        "/library/none/x",
        "/library/profiles/rgs",
        "/library/gates/none",
        "/static/none.css",
        "/charts/x.svg",
        "/evaluations/a%2Fb",
        "/label/a%2Fb",
    ):
        assert "Not found" in show(api, path, status=404).text
    assert "Did you mean 'rag'?" in show(api, "/library/profiles/ragg", status=404).text
    assert api.client.get("/nothing").headers["content-type"] == "application/problem+json"
    assert api.get("/nothing", headers=HTML).headers["content-type"] == "application/problem+json"
    assert "Not supported here" in Markup(api.client.post("/runs", headers=HTML).text).text


def test_an_internal_error_is_a_page_without_a_trace_of_the_inside(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: Any, **_more: Any) -> Any:
        raise RuntimeError("secret inside")

    monkeypatch.setattr("assay.server.pages.overview.listed_workflows", fail)
    found = show(api, "/", status=500)
    assert "Internal error" in found.text
    assert "request id" in found.text
    assert "secret inside" not in found.text
    assert b"secret inside" in api.log.getvalue()


# --- one run


def test_the_page_of_a_run_begins_with_verdict_and_texts_and_ends_with_provenance(api: Api) -> None:
    stored = graded(api, run("rag", output_schema=None, tags=["x"]))
    found = show(api, f"/runs/{stored['digest']}")
    text = found.text
    assert (
        text.index("not passed")
        < text.index("gate schema_contract_valid does not pass")
        < text.index("because")
        < text.index("1 of 8 did not pass.")
    )
    sections = [
        str(attributes["id"])
        for tag, attributes in found.tags
        if tag == "section" and "id" in attributes
    ]
    assert sections == [
        "inputs",
        "outputs",
        "expected",
        "grounding",
        "timeline",
        "grade",
        "gates",
        "change",
        "why",
        "points",
        "floors",
        "people",
        "provenance",
        "lineage",
    ]
    for one in (
        "schema_contract_valid",
        "undetermined",
        "no evidence",
        "To gain a letter",
        "sha256:",
    ):
        assert one in text


def test_a_bare_scorecard_and_a_run_without_a_grade_are_shown_for_what_they_are(api: Api) -> None:
    card = api.post("/scorecards", scorecard({"norm": 0.95})).json()
    found = show(api, f"/runs/{card['digest']}")
    assert "a bare scorecard" in found.text
    assert api.services.ledger.put(run("rag", run_id="bare"), kind="run").new
    bare = show(api, "/runs/bare")
    assert "there is no verdict. That is not a pass." in bare.text
    assert "passed" not in bare.text.replace("That is not a pass", "")


def test_a_forgotten_run_says_so(api: Api) -> None:
    stored = graded(api, run("rag"))
    api.services.ledger.forget(stored["digest"], author="me", reason="asked for")
    assert "was forgotten; only its digest is left" in show(api, f"/runs/{stored['digest']}").text
    assert "forgotten run" in show(api, "/runs").text
    answer = send(api, f"/runs/{stored['grade_digest']}/replay")
    assert answer.status_code == 200
    assert "cannot be recomputed" in Markup(answer.text).text


def test_replay_says_whether_the_grade_is_the_same_to_the_byte_and_stores_nothing(api: Api) -> None:
    stored = graded(api, run("rag"))
    before = api.services.ledger.head()
    same = Markup(send(api, f"/runs/{stored['grade_digest']}/replay").text)
    assert "the grade is the same, byte for byte" in same.text
    forged = json.loads(json.dumps(stored["grade"])) | {"weighted_score": 12.34}
    source = next(
        link.target
        for link in api.services.ledger.links_of(stored["grade_digest"])
        if link.relation == "graded_from"
    )
    made = draft(forged, kind="grade", links=[Link("graded_from", source)])
    assert api.services.ledger.head() == before
    api.services.ledger.put_many([made])
    other = Markup(send(api, f"/runs/{made.name}/replay").text)
    assert "recomputed, the grade is not the same" in other.text
    assert "weighted_score" in other.text
    assert "12.34" in other.text


# --- charts


def test_a_chart_is_sent_once_and_then_known(api: Api) -> None:
    digest = graded(api, run("rag"))["grade_digest"]
    first = api.client.get(f"/charts/grades/{digest}/contributions.svg")
    assert first.content.startswith(b"<svg")
    assert first.headers["cache-control"] == "private, no-cache"
    again = api.client.get(
        f"/charts/grades/{digest}/contributions.svg",
        headers={"If-None-Match": first.headers["etag"]},
    )
    assert (again.status_code, again.content) == (304, b"")
    assert api.client.get(f"/charts/grades/{digest}/contributions.png").content.startswith(
        b"\x89PNG"
    )
    for path in (
        f"/charts/grades/{digest}/none.svg",
        f"/charts/grades/{digest}/floors.pdf",
        "/charts/grades/sha256:00/floors.svg",
    ):
        assert api.client.get(path, headers=HTML).status_code in (404, 422)


def test_without_the_extra_for_charts_the_tables_are_open_and_say_what_to_install(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = graded(api, run("rag"))["digest"]
    monkeypatch.setattr(drawing, "available", lambda: False)
    for path in (f"/runs/{digest}",):
        found = show(api, path)
        assert "pip install 'assaykit[charts]'" in found.text
        assert not [
            1
            for tag, attributes in found.tags
            if tag == "img" and "charts" in str(attributes["src"])
        ]
        assert ("details", {"open": "open"}) in found.tags


def test_every_chart_of_a_page_has_its_sentence_and_its_table(api: Api) -> None:
    digest = graded(api, run("rag"))["digest"]
    for path, charts in ((f"/runs/{digest}", 2),):
        source = api.client.get(path, headers=HTML).text
        figures = re.findall(r"<figure.*?</figure>", source, re.DOTALL)
        assert len(figures) >= charts
        for figure in figures:
            assert "<figcaption><b>" in figure
            if "<img" in figure:
                assert re.search(r'<img src="/charts/[^"]+\.svg" alt="[^"]{20,}"', figure)
                assert "<summary>Table</summary>" in figure


# --- the library


def test_a_rubric_shows_every_anchor_and_a_published_item_its_digest(api: Api) -> None:
    text = show(api, "/library/rubrics/rag@1").text
    for anchor in api.services.shelf.rubric("rag@1").criteria[0].anchors.values():
        assert anchor in text
    assert "✓ shipped" in text
    assert re.search(r"sha256:[0-9a-f]{64}", text)


def test_a_shelf_is_asked_for_names_never_for_files(api: Api, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("profile: x\n")
    for name in ("..%2Fx.yaml", quote(str(tmp_path / "x.yaml"), safe=""), ".hidden", "x.yaml"):
        assert api.client.get(f"/library/profiles/{name}", headers=HTML).status_code in (404, 422)


def test_a_digest_on_a_page_is_that_of_the_record(api: Api) -> None:
    stored = graded(api, run("rag"))
    text = show(api, f"/runs/{stored['digest']}").text
    assert stored["digest"] in text
    assert stored["grade_digest"] in text
    assert canonical(api.services.ledger.get(stored["digest"]).tree())
