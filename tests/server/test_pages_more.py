"""The pages of decisions, comparisons, exams, judges and tool schemas, asked for as a browser asks:
what they say, and that whatever is stored is text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from assay.canon import digest as digest_of
from assay.errors import InputError
from assay.judging.card import make_card
from assay.records.decision import read_decision
from assay.server.pages import decisions
from assay.services.stored_sides import evidence_of_decision
from assay.store.drafts import draft
from assay.views import drawing
from commands import in_folder, run_here
from examples import CAMPAIGN, repeats
from postgres import ledger_url, postgres_url
from serving import Api, serving
from stocked import Stock, answers, card, exam, faq, newest, stocked_copy, write
from test_evaluation_page import evaluate
from test_evaluation_page import version as runs_of
from test_named_baseline import spoil
from test_pages import HTML, SCRIPT, Markup, kind_of_link
from test_tools_cli import IMPORTED, LATER, WEIGHT, envelope, record
from test_tools_protocol import put, schema, tool

__all__ = ["ledger_url", "postgres_url"]


class Shop(Api):
    """A server with something on every page."""

    stock: Stock
    folder: Path


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    found = stocked_copy(folder)
    with serving(f"{folder}/l.db") as api:
        made = Shop(api.client, api.log)
        made.stock = found
        made.folder = folder
        yield made


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Api]:
    with serving(f"{tmp_path}/l.db") as api:
        yield api


def get(api: Api, path: str, *, status: int = 200, **more: Any) -> Markup:
    answer = api.client.get(path, headers={**HTML, **more.pop("headers", {})}, **more)
    assert answer.status_code == status, (path, Markup(answer.text).text[-600:])
    return Markup(answer.text)


def stored(api: Api, kind: str, document: dict[str, Any], **more: Any) -> str:
    made = draft(document, kind=kind, **more)
    api.services.ledger.put_many([made])
    return made.name


def record_of(api: Api, digest: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/records/{digest}").json()["record"]
    return found


def pages_of(shop: Shop) -> list[str]:
    found = shop.stock
    return [
        *(
            f"/decisions/{digest}"
            for digest in (
                found.promoted,
                found.rejected,
                found.too_few,
                found.exam_gate,
                found.schema_gate,
            )
        ),
        *(f"/exams/{digest}" for digest in (found.exam, found.regression)),
        *(f"/judges/{digest}" for digest in (found.card, found.old_card)),
        *(
            "/decisions",
            "/exams",
            "/judges",
            "/schemas",
            "/compare",
            "/schemas/beewatch",
            "/schemas/poison",
            "/schemas/city-bees?kind=selection",
        ),
        f"/schemas/{found.report}",
    ]


@cache
def answers_of(shop: Shop) -> dict[str, Any]:
    """Each page, asked for once."""
    return {path: shop.client.get(path, headers=HTML) for path in pages_of(shop)}


@cache
def markup_of(shop: Shop) -> dict[str, Markup]:
    """Each page, read once; every tag is closed."""
    return {path: Markup(answer.text) for path, answer in answers_of(shop).items()}


# --- all of them


def test_every_page_is_whole_small_and_has_its_place_in_the_menu(shop: Shop) -> None:
    for path, answer in answers_of(shop).items():
        found = markup_of(shop)[path]
        assert answer.status_code == 200, path
        assert len(answer.content) < 500_000
        assert [
            dict(attributes).get("href")
            for tag, attributes in found.tags
            if tag == "a" and attributes.get("aria-current") == "page"
        ] == [
            next(
                name
                for name in ("/decisions", "/exams", "/judges", "/schemas", "/compare")
                if path.startswith(name)
            )
        ]
        assert sum(tag == "h1" for tag, _ in found.tags) == 1
        assert "script" not in answer.headers["content-security-policy"].partition("script-src")[0]


def test_every_link_of_these_pages_leads_somewhere(shop: Shop) -> None:
    """In the suite the first link of each kind on each page, in a campaign all of them."""
    seen: set[str] = set()
    followed: Counter[str] = Counter()
    for path, found in markup_of(shop).items():
        ids = {str(attributes["id"]) for _, attributes in found.tags if attributes.get("id")}
        for href in found.links():
            if href.startswith("#"):
                assert href[1:] in ids, (path, href)
            elif href not in seen and not href.startswith("/charts/"):
                kind = kind_of_link(path, href)
                followed[kind] += 1
                if followed[kind] > repeats(1, 10**6):
                    continue
                seen.add(href)
                assert shop.client.get(href, headers=HTML).status_code == 200, (path, href)
    assert len(seen) > 40


def test_no_letter_stands_without_what_gave_it(shop: Shop) -> None:
    letters = re.compile(r'<b class="grade-[A-Za-z]+">([^<]+)</b> <small>([^<]*)</small>')
    for path, page in answers_of(shop).items():
        text = page.text
        assert text.count('<b class="grade-') == len(letters.findall(text))
        said = {policy for _, policy in letters.findall(text)}
        if "/schemas" in path:
            assert all(one.startswith("tool schemas, ") for one in said), (path, said)
        elif said:
            assert said == {"workflow@1"}, (path, said)


def test_every_picture_of_these_pages_is_there_and_is_kept_by_the_browser(shop: Shop) -> None:
    drawn: set[str] = set()
    for found in markup_of(shop).values():
        for tag, attributes in found.tags:
            source = str(attributes.get("src"))
            if tag == "img" and source.startswith("/charts/"):
                assert attributes["alt"]
                drawn.add(source)
    kinds = {source.split("/")[2] + "/" + source.rpartition("/")[2] for source in drawn}
    assert {
        "decisions/difference.svg",
        "decisions/paired-scatter.svg",
        "exams/axes.svg",
        "exams/heatmap.svg",
        "exams/exam-history.svg",
    } <= kinds
    assert {
        "judges/calibration.svg",
        "judges/confusion.svg",
        "judges/bias.svg",
        "judges/drift.svg",
    } <= kinds
    one_of_each = {re.sub(r"sha256:[0-9a-f]{64}", "", source): source for source in sorted(drawn)}
    for source in sorted(drawn) if CAMPAIGN else one_of_each.values():
        answer = shop.client.get(source)
        assert (answer.status_code, answer.headers["content-type"]) == (
            200,
            "image/svg+xml",
        ), source
        assert answer.content.startswith(b"<svg ")
        assert (
            shop.client.get(source, headers={"If-None-Match": answer.headers["etag"]}).status_code
            == 304
        )
    one = next(iter(drawn)).removesuffix("svg")
    assert shop.client.get(f"{one}png").content.startswith(b"\x89PNG")
    for wrong in (
        f"/charts/decisions/{shop.stock.promoted}/none.svg",
        f"/charts/none/{shop.stock.promoted}/rules.svg",
        f"/charts/exams/{shop.stock.promoted}/axes.svg",
    ):
        assert shop.client.get(wrong).status_code == 404


def test_without_what_draws_the_tables_are_open_and_a_line_says_what_to_install(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Pass rate by evaluation" in get(shop, "/").text
    monkeypatch.setattr(drawing, "available", lambda: False)
    assert "Pass rate by evaluation" not in get(shop, "/").text, "it lists the evaluations anyway"
    found = get(shop, f"/decisions/{shop.stock.promoted}")
    assert drawing.MISSING in found.text
    assert not any(
        tag == "img" and "chart" in str(attributes.get("src")) for tag, attributes in found.tags
    )
    assert any(tag == "details" and "open" in attributes for tag, attributes in found.tags)


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/decisions", "assay gate latest --baseline latest~1"),
        ("/exams", "assay exam grade exam/exam.yaml --command"),
        ("/judges", "assay judge card --calibration calibration.json"),
        ("/schemas", 'assay tools check --mcp "python server.py" --store'),
        ("/compare", "assay run"),
    ],
)
def test_an_empty_page_says_which_command_fills_it(empty: Api, path: str, command: str) -> None:
    shown = get(empty, path).text
    assert command in shown
    assert "--project" not in shown
    elsewhere = get(empty, path, headers=empty.token("ferry-bot")).text
    assert re.search(rf"{re.escape(command)}[^`]* --project ferry-bot\b", elsewhere), elsewhere


def test_the_first_decision_is_between_two_evaluations_that_there_are(empty: Api) -> None:
    for name, workflow in (("old", "w"), ("new", "w"), ("other", "v")):
        runs = runs_of(1, 2, workflow=workflow)
        for one in runs:
            one["run_id"] += name
        evaluate(empty, name, runs)
    assert "assay gate latest --baseline latest~1" in get(empty, "/decisions").text
    evaluate(empty, "last", runs_of(2, 2))
    assert "assay gate last --baseline new" in get(empty, "/decisions").text
    evaluate(empty, "last", runs_of(3, 2))
    assert re.search(r"gate last --baseline ev-\w+", get(empty, "/decisions").text)


@pytest.mark.parametrize("plural", ["decisions", "exams", "judges", "schemas"])
def test_what_is_not_there_is_told_and_what_is_of_another_project_is_not_there(
    shop: Shop, plural: str
) -> None:
    digest = {
        "decisions": shop.stock.promoted,
        "exams": shop.stock.exam,
        "judges": shop.stock.card,
        "schemas": shop.stock.report,
    }[plural]
    elsewhere = shop.token("elsewhere")
    assert "no" in get(shop, f"/{plural}/none", status=404).text
    for path in (
        f"/{plural}/sha256:{'0' * 64}",
        f"/{plural}/{shop.get('/runs').json()['items'][0]['digest']}",
    ):
        found = get(shop, path, status=404)
        assert "in this project" in found.text
    assert get(shop, f"/{plural}/{digest}").text
    assert digest not in get(
        shop, f"/{plural}/{digest}", status=404, headers=elsewhere
    ).text.replace(digest, "", 2)
    listed = get(shop, f"/{plural}", headers=elsewhere)
    assert "assay" in listed.text
    assert not any(digest in href for href in listed.links())
    chart = {"decisions": "difference", "exams": "axes", "judges": "bias"}.get(plural)
    if chart is not None:
        assert (
            shop.client.get(f"/charts/{plural}/{digest}/{chart}.svg", headers=elsewhere).status_code
            == 404
        )
    assert "No evaluation is stored" in get(shop, "/compare", headers=elsewhere).text
    refused = get(shop, "/compare?of=faq-1&of=faq-2", headers=elsewhere, status=422)
    assert "There is no evaluation 'faq-1'" in refused.text


def test_whoever_has_no_token_is_sent_to_log_in_and_back(tmp_path: Path) -> None:
    with serving(f"{tmp_path}/l.db", allow_anonymous=False) as api:
        for path in (
            "/decisions",
            "/compare?of=a",
            "/exams",
            "/judges",
            "/schemas",
            "/schemas/x",
            f"/charts/exams/sha256:{'0' * 64}/axes.svg",
        ):
            answer = api.client.get(path, headers=HTML, follow_redirects=False)
            assert (answer.status_code, answer.headers["location"]) == (
                303,
                f"/login?next={quote(path, safe='/')}",
            )


# --- decisions


def test_a_decision_shows_question_and_both_answers_of_what_newly_fails(empty: Api) -> None:
    sides = {}
    for version, name in ((1, "baseline"), (3, "candidate")):
        sides[name] = [
            {
                **one,
                "inputs": {"question": f"What of {place}?"},
                "outputs": {"answer": f"{name} says {place}"},
                "metadata": {"description": f"title {place}"},
            }
            for place, one in enumerate(faq(version))
        ]
    posted = empty.post("/decisions", sides).json()
    found = get(empty, f"/decisions/{posted['digest']}").text
    part = found[found.rindex("What newly fails") : found.rindex("Promotion rules")]
    for words in ("title 8", "What of 8?", "baseline says 8", "candidate"):
        assert words in part
    assert part.count("✗ newly fails ") == 8


def test_the_list_of_decisions_says_what_was_decided_on_what_and_why(shop: Shop) -> None:
    found = get(shop, "/decisions")
    for words in (
        "faq 2 against faq 1",
        "faq 3 against faq 1",
        "promote",
        "reject",
        "not enough evidence",
        "new_failures",
        "release@1",
    ):
        assert words in found.text
    assert "5 paired samples; the policy asks for at least 30" in found.text
    assert "Exam gate, score 0.525 of 12 items" in found.text
    assert "the capstone score 0.525 is below the hard gate of 0.92" in found.text
    assert "Production gate of beewatch.scales and 1 more" in found.text


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("outcome=promote", ["promoted"]),
        ("outcome=reject", ["rejected"]),
        ("outcome=not_enough_evidence", ["too_few"]),
        ("outcome=gate-not-passed", ["schema_gate", "exam_gate"]),
        ("outcome=gate-not-passed&policy=exam%401", ["exam_gate"]),
        ("policy=release%401", ["too_few", "rejected", "promoted"]),
        ("outcome=gate-passed", []),
        ("outcome=nonsense", []),
    ],
)
def test_decisions_are_filtered_by_outcome_and_policy(
    shop: Shop, query: str, names: list[str]
) -> None:
    found = get(shop, f"/decisions?{query}")
    shown = [href.rpartition("/")[2] for href in found.links() if href.startswith("/decisions/")]
    assert shown == [getattr(shop.stock, name) for name in names]
    assert bool(names) is ("No decision matches this filter." not in found.text)


def test_a_long_list_is_paged_from_both_ends_without_a_gap(empty: Api) -> None:
    documents = [
        {
            "schema": "assay.decision/1",
            "outcome": "hold",
            "reason": f"reason {index}",
            "policy": "release@1",
        }
        for index in range(120)
    ]
    empty.services.ledger.put_many([draft(one, kind="decision") for one in documents])
    seen: list[str] = []
    path = "/decisions?policy=release%401"
    while path:
        found = get(empty, path)
        seen += re.findall(r"reason (\d+)", found.text)
        last, path = (
            path,
            next((href for href, text in links_with(empty, path) if text.startswith("Older")), ""),
        )
    assert seen == [str(index) for index in reversed(range(120))]
    newer = next(href for href, text in links_with(empty, last) if "Newer" in text)
    assert re.findall(r"reason (\d+)", get(empty, newer).text) == [
        str(index) for index in range(69, 19, -1)
    ]
    assert get(empty, "/decisions?after=x", status=422)


def links_with(api: Api, path: str) -> list[tuple[str, str]]:
    text = api.client.get(path, headers=HTML).text
    return [
        (href.replace("&amp;", "&"), words)
        for href, words in re.findall(r'<a href="([^"]+)"[^>]*>([^<]*)</a>', text)
    ]


def test_a_decision_begins_with_its_outcome_and_reason_and_shows_each_rule_with_its_evidence(
    shop: Shop,
) -> None:
    decision = record_of(shop, shop.stock.rejected)
    found = get(shop, f"/decisions/{shop.stock.rejected}")
    first = found.text.index("Reject")
    assert (
        first
        < found.text.index(decision["reason"])
        < found.text.rindex("What newly fails")
        < found.text.rindex("Promotion rules")
        < found.text.rindex("Samples that got worse")
    )
    for rule in decision["rules"]:
        assert rule["reason"] in found.text
        assert rule["id"] in found.text
    high, margin = decision["comparison"]["difference"]["high"], decision["comparison"]["margin"]
    assert ("✗ worse by more than the margin" in found.text) == (high < -margin)
    assert "✗ violated" in found.text
    assert "? open" in found.text
    assert "✓ holds" in found.text
    assert "Mean rise 0.1333" in found.text  # of the evidence
    for sentence in decision["would_change"]:
        assert sentence.replace("`", "") in found.text
    for name in decision["criteria"]:
        assert name in found.text
    assert decision["fingerprint"]["digest"] in str(found.tags)
    assert decision["digests"]["decision"] in str(found.tags)
    for words in (
        "none was declared",
        "Min pairs",
        "Mean score",
        "Pass rate",
        "tests_fail_to_pass_all_green",
        "release@1",
    ):
        assert words in found.text


def test_a_rule_that_could_not_be_judged_says_so(shop: Shop, empty: Api) -> None:
    decision = record_of(shop, shop.stock.too_few)
    rules = [{**rule, "holds": None, "violated": False} for rule in decision["rules"]]
    digest = stored(empty, "decision", {**decision, "rules": rules, "would_change": []})
    found = get(empty, f"/decisions/{digest}")
    assert found.text.count("? open") >= len(rules)
    assert "Not enough evidence" in found.text
    assert "There is not enough evidence to decide, so the gate stays closed." in found.text


def test_the_items_that_got_worse_come_worst_first_and_lead_to_their_runs(shop: Shop) -> None:
    decision = record_of(shop, shop.stock.rejected)
    text = shop.client.get(f"/decisions/{shop.stock.rejected}", headers=HTML).text
    part = text[text.index('id="worse"') : text.index('id="pairs"')]
    table = part[: part.index("</table>")]
    assert re.findall(r">(tickets/s-\d+)</a>", table) == [
        one["sample"] for one in decision["worse"]
    ]
    assert "tests_fail_to_pass_all_green" in part
    assert f"The 10 that fell most of {decision['comparison']['losses']} that got worse." in part
    first = re.search(r'href="(/runs/[^"]+)"', part)
    assert first is not None
    assert f"faq-3-{decision['worse'][0]['sample'].rpartition('-')[2]}" in get(shop, first[1]).text


def test_the_pairs_come_from_the_stored_grades_and_are_all_there_are(shop: Shop) -> None:
    item = shop.services.ledger.get(shop.stock.rejected)
    decision = read_decision(item.body)
    evidence = evidence_of_decision(shop.services.ledger, item.digest, project="default")
    found = decisions.pairs_of(shop.services, "default", evidence, decision)
    assert len(found.pairs) == 60
    worst = {one.sample: one for one in decision.worse}
    for one in found.pairs:
        if one.sample in worst:
            assert one.candidate == pytest.approx(worst[one.sample].candidate)
            assert one.baseline == pytest.approx(worst[one.sample].baseline)
    mean = sum(one.candidate - one.baseline for one in found.pairs) / 60
    assert mean == pytest.approx(decision.comparison.difference.estimate)
    assert "60 pairs: 40 got worse" in get(shop, f"/decisions/{shop.stock.rejected}").text


def test_of_too_many_pairs_only_those_that_fell_most_are_drawn_and_it_is_said(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "MOST", 59)
    assert (
        "This is not all: the decision is based on 60 pairs"
        in get(shop, f"/decisions/{shop.stock.rejected}").text
    )


def test_a_sample_that_a_side_lost_is_named_and_what_it_counts_as(empty: Api) -> None:
    posted = empty.post("/decisions", {"candidate": faq(2, 34), "baseline": faq(1, 36)}).json()
    found = get(empty, f"/decisions/{posted['digest']}")
    assert "Missing in the candidate, each counted as failed (2)" in found.text
    assert "tickets/s-35" in found.text


def test_a_failed_gate_reads_as_failed_on_every_page_that_names_it(shop: Shop) -> None:
    found = get(shop, "/")
    for words in ("The last exam gate failed", "The last tool gate failed"):
        assert words in found.text
    assert f"/decisions/{shop.stock.exam_gate}" in found.links()
    assert "no outcome" not in found.text
    row = get(shop, "/decisions").text.partition("Exam gate, score")[2]
    assert "✗ failed" in row


def test_the_gates_of_exams_and_schemas_are_decisions_with_their_own_rules(shop: Shop) -> None:
    found = get(shop, f"/decisions/{shop.stock.exam_gate}")
    for words in (
        "Failed under exam@1",
        "Hard gate on the capstone exam",
        "Drop against the baseline",
        "blocks",
        "warning",
        "p50_latency_ms",
        "a drop of 0.15",
    ):
        assert words in found.text
    assert sum(href.startswith("/exams/sha256:") for href in found.links()) == 3
    found = get(shop, f"/decisions/{shop.stock.schema_gate}")
    for words in (
        "failed under flowmcp@1",
        "beewatch.scales",
        "beewatch (namespaceAggregate)",
        "primitives",
        "✗ violated",
        "? undetermined",
    ):
        assert words in found.text
    assert any(href.startswith("/schemas/sha256:") for href in found.links())


@pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
def test_decisions_and_comparisons_read_the_same_on_postgresql(ledger_url: str) -> None:
    with serving(ledger_url) as api:
        api.post("/runs", faq(1, 50))
        api.post("/runs", faq(2, 50))
        sides = {
            name: {"filter": {"workflow": "faq", "workflow_version": version}}
            for name, version in (("candidate", "2"), ("baseline", "1"))
        }
        posted = api.post("/decisions", sides).json()
        assert "faq 2 against faq 1" in get(api, "/decisions?outcome=promote").text
        assert "50 pairs" in get(api, f"/decisions/{posted['digest']}").text
        api.post("/evaluations", {"name": "next", "runs": sides["candidate"]})
        api.post("/baselines", {"name": "kept", "evidence": sides["baseline"]})
        assert "✓ Promote under" in get(api, "/compare?of=baseline:kept&of=next").text
        graded = api.post("/exams/grade", {"exam": exam(), "answers": answers()}).json()["digest"]
        assert "The hard gate passed" in get(api, f"/exams/{graded}").text


# --- exams


@pytest.mark.parametrize(
    "words",
    [
        "0.5250 n 12",
        "0.9875 n 12",
        "✓ passed",
        "✗ failed",
        "– not for a regression set",
        "tutor@1",
        "exam@1",
        "capstone 1",
        "regression 1",
    ],
)
def test_the_list_of_exams_says_score_n_and_whether_the_gate_passed(shop: Shop, words: str) -> None:
    found = get(shop, "/exams")
    assert words in found.text


@pytest.mark.parametrize("least", [0.9, 0.999])
def test_an_exam_is_held_to_its_own_pass_score(empty: Api, least: float) -> None:
    body = {"exam": {**exam(), "pass_score": least}, "answers": answers()}
    graded = empty.post("/exams/grade", body).json()
    score, holds = graded["result"]["score"], least == 0.9
    assert 0.92 < score < 0.999
    assert graded["result"]["pass_line"] == {"holds": holds, "limit": least}
    found = get(empty, f"/exams/{graded['digest']}").text
    assert ("The hard gate passed" in found, "0.999" in found) == (holds, not holds)
    assert ("✓ passed" if holds else "✗ failed") in get(empty, "/exams").text
    chart = empty.client.get(f"/charts/exams/{graded['digest']}/exam-history.json").text
    assert ("0.999" in chart) is not holds


def test_an_exam_without_its_questions_is_not_said_to_pass(empty: Api) -> None:
    """Each may have its own pass score."""
    graded = empty.post("/exams/grade", {"exam": exam(), "answers": answers()}).json()
    sources = empty.services.ledger.made_of(graded["digest"], project="default")
    assert "The hard gate passed" in get(empty, f"/exams/{graded['digest']}").text
    empty.services.ledger.forget(sources[0], author="me", reason="private")
    found = get(empty, f"/exams/{graded['digest']}").text
    assert "The hard gate can't be judged" in found
    assert "pass score is unknown, because its questions are not stored" in found
    assert "? can't be judged" in get(empty, "/exams").text


def test_an_exam_says_that_results_of_its_name_have_other_questions(empty: Api) -> None:
    whole = {"exam": exam(), "answers": answers()}
    first = empty.post("/exams/grade", whole).json()["digest"]
    assert "other questions" not in get(empty, f"/exams/{first}").text
    items = exam()["items"][:1]
    given = [one for one in answers() if one["item"] == items[0]["id"]]
    easy = {"exam": {**exam(), "items": items}, "answers": given}
    second = empty.post("/exams/grade", easy).json()["digest"]
    for digest in (first, second):
        found = get(empty, f"/exams/{digest}").text
        assert "1 result of this name has other questions." in found


def test_an_exam_shows_its_score_with_n_and_every_gate(shop: Shop) -> None:
    found = get(shop, f"/exams/{shop.stock.exam}")
    assert "The hard gate failed under exam@1" in found.text
    assert "0.5250 n 12" in found.text
    for words in (
        "score 0.525, at least 0.92",
        "Production target",
        "p50_latency_ms",
        "blocks",
        "informational",
        "warning",
    ):
        assert words in found.text
    for sentence in record_of(shop, shop.stock.exam)["diagnosis"]:
        assert sentence in found.text


@pytest.mark.req("C-016")
def test_each_item_is_a_stacked_bar_of_its_four_axes_weighted_and_a_link_makes_it_raw(
    shop: Shop,
) -> None:
    digest = shop.stock.exam
    text = shop.client.get(f"/exams/{digest}", headers=HTML).text
    assert f'src="/charts/exams/{digest}/axes.svg"' in text
    assert f'href="/exams/{digest}?bars=raw"' in text
    raw = shop.client.get(f"/exams/{digest}?bars=raw", headers=HTML).text
    assert f'src="/charts/exams/{digest}/axes-raw.svg"' in raw
    assert f'href="/exams/{digest}"' in raw
    rows = table_of(text, "Items by axis, weighted, as a table")
    assert rows[0] == [
        "Item",
        "Score",
        "correctness",
        "spanish_gloss",
        "schema",
        "conciseness",
        "Lost",
        "Pattern",
    ]
    assert next(row for row in rows if row[0] == "i-1")[1:6] == [
        "0.75",
        "0.6",
        "0",
        "0.1",
        "0.05",
    ]  # the parts sum to the score
    assert len(rows) == 13
    of_raw = table_of(raw, "Items by axis, each with the same length, as a table")
    assert next(row for row in of_raw if row[0] == "i-1")[1:6] == ["0.75", "1", "0", "1", "1"]


@pytest.mark.req("C-017")
def test_the_four_patterns_are_named_and_those_that_are_seen_are_marked(shop: Shop) -> None:
    text = shop.client.get(f"/exams/{shop.stock.exam}", headers=HTML).text
    rows = {row[0]: row[1] for row in table_of(text, "Patterns looked for")}
    assert {
        name: rows[name] for name in ("axis_zero", "verb_zero", "conciseness_trend", "outlier_item")
    } == {
        "axis_zero": "? found",
        "verb_zero": "? found",
        "conciseness_trend": "– not found",
        "outlier_item": "– not found",
    }
    assert "every item of &#39;go&#39; is wrong" in text
    assert f'src="/charts/exams/{shop.stock.exam}/heatmap.svg"' in text
    assert "spanish_gloss on 12" in text


def table_of(text: str, caption: str) -> list[list[str]]:
    part = re.search(rf"<caption>{re.escape(caption)}</caption>(.*?)</table>", text, re.DOTALL)
    assert part is not None, caption
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", part[1], re.DOTALL)
    return [
        [
            re.sub(r"<[^>]+>", "", cell).strip()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in rows
    ]


def test_an_exam_stands_in_its_history_against_the_stored_distribution(shop: Shop) -> None:
    found = get(shop, f"/exams/{shop.stock.exam}")
    assert re.search(
        r"3 exams; the last scored 0.525. The stored distribution has 12 items with a mean of"
        r" 0.98[78]. The hard gate is 0.92.",
        found.text,
    )
    assert "tutor-capstone" in found.text
    text = shop.client.get(f"/exams/{shop.stock.exam}", headers=HTML).text
    assert [row[1] for row in table_of(text, "Results of this exam")[1:]] == [
        "0.525",
        "0.8375",
        "0.9875",
    ]


def test_a_regression_set_is_held_against_its_baseline(
    shop: Shop, empty: Api, tmp_path: Path
) -> None:
    found = get(shop, f"/exams/{shop.stock.regression}")
    assert "The regression gate failed under exam@1" in found.text
    assert "from 0.9875 to 0.8375, a drop of 0.15, at most 0.02" in found.text
    put(tmp_path / "r.json", exam("regression"))
    write(tmp_path / "a.jsonl", *answers())
    assert (
        in_folder(tmp_path, run_here)(
            "exam", "grade", "r.json", "--answers", "a.jsonl", "--store", f"{tmp_path}/l.db"
        ).code
        == 0
    )
    found = get(empty, f"/exams/{newest(empty, 'exams')}")
    assert "The regression gate can't be judged" in found.text
    assert "no baseline of this exam is stored" in found.text
    assert "No distribution is stored to compare it with." in found.text


def test_the_items_come_with_the_parts_of_their_answers_the_lowest_first(shop: Shop) -> None:
    text = shop.client.get(f"/exams/{shop.stock.exam}", headers=HTML).text
    rows = table_of(text, "Items, the lowest score first")
    assert [row[1] for row in rows[1:]] == sorted((row[1] for row in rows[1:]), key=float)
    assert rows[1][0] == "i-3"
    assert "no answer" in rows[1][-1]
    goed = next(row for row in rows if row[0] == "i-4")
    assert "correction He goed there." in goed[-1]
    assert "gloss empty" in goed[-1]
    assert "explanation The past of go is went." in goed[-1]


def test_a_result_that_does_not_add_up_opens_no_gate(shop: Shop, empty: Api) -> None:
    document = record_of(shop, shop.stock.exam)
    digest = stored(empty, "exam", {**document, "score": 0.99})
    found = get(empty, f"/exams/{digest}")
    assert "The hard gate can't be judged" in found.text
    assert "the mean of the items is 0.525" in found.text
    assert "? can't be judged" in get(empty, "/exams").text
    other = stored(
        empty, "exam", {**document, "rubric": "../../secret.yaml", "policy": "../../secret.yaml"}
    )
    assert "is not in this server's library" in get(empty, f"/exams/{other}").text


# --- judges


def test_a_judge_may_gate_under_a_named_policy_or_the_page_says_why_not(shop: Shop) -> None:
    found = get(shop, "/judges")
    assert "✓ may gate under workflow-judged@1" in found.text
    assert (
        "✗ may not gate under workflow-judged@1: its oldest answer is 45.0 days old, at most 30"
        " allowed" in found.text
    )
    assert "the lower end of its kappa with people: 0.300, at least 0.4 needed" in found.text
    good = get(shop, f"/judges/{shop.stock.card}")
    assert "✓ May gate under workflow-judged@1 Every term of the policy holds." in good.text
    assert "0.780 0.660 to 0.900 (95%), n 60" in good.text
    old = get(shop, f"/judges/{shop.stock.old_card}")
    assert "✗ May not gate under workflow-judged@1" in old.text
    assert "There is a newer card of this judge" in old.text
    assert "45 days" in old.text


def test_a_good_card_that_a_bad_one_has_replaced_lets_nobody_gate(empty: Api) -> None:
    good = empty.post("/cards", card(days=5)).json()["digest"]
    assert "✓ May gate under workflow-judged@1" in get(empty, f"/judges/{good}").text
    empty.post("/cards", card(good=False, days=2))
    assert "✓ may gate" not in get(empty, "/judges").text
    found = get(empty, f"/judges/{good}").text
    assert "✗ May not gate under workflow-judged@1 A newer card of this judge counts" in found


def test_a_card_shows_calibration_confusion_biases_and_drift(shop: Shop) -> None:
    found = get(shop, f"/judges/{shop.stock.card}")
    for words in (
        "The judge agrees with people on 55 of 60 labelled items",
        "The judge and people agree 85% of the time on 60 labelled items.",
        "No bias is shown: every interval contains 0. 5 of 7 probes were run.",
        "No drift found",
        "2 points",
    ):
        assert words in found.text, words
    assert re.search(r"items since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: ", found.text)
    assert (
        "There is no older card of this judge" in get(shop, f"/judges/{shop.stock.old_card}").text
    )


def test_the_cards_of_a_judge_are_in_the_order_of_their_moments(empty: Api) -> None:
    newer, older = card(days=2), card(days=2)
    del older["digest"]
    ago = datetime.fromisoformat(newer["made_at"]) - timedelta(hours=1)
    older["made_at"] = ago.astimezone(timezone(timedelta(hours=14))).isoformat()
    assert older["made_at"] > newer["made_at"], "as text"
    digests = [
        empty.post("/cards", one).json()["digest"]
        for one in (newer, {**older, "digest": digest_of(older)})
    ]
    found = [get(empty, f"/judges/{one}").text for one in digests]
    assert ["There is a newer card" in text for text in found] == [False, True]
    assert ["There is no older card" in text for text in found] == [False, True]


def test_an_audit_and_a_calibration_are_shown_as_far_as_they_go(empty: Api) -> None:
    whole = card()
    audit = stored(
        empty,
        "audit",
        {
            "schema": "assay.judge-audit/1",
            "judge": {"model": "m-1"},
            "biases": whole["biases"],
            "items": whole["audit_items"],
        },
    )
    found = get(empty, f"/judges/{audit}")
    assert "Audit of m-1" in found.text
    assert "it lets no judge gate" in found.text
    assert "5 of 7 probes" in found.text
    calibration = stored(empty, "calibration", whole["calibration"])
    assert "60 labels" in get(empty, f"/judges/{calibration}").text
    assert (
        "There is no judge"
        in get(empty, f"/judges/{stored(empty, 'event', {'schema': 'x'})}", status=404).text
    )


def test_a_card_of_another_shape_is_refused_and_breaks_no_page(empty: Api) -> None:
    made = card()
    body = {name: value for name, value in made.items() if name not in ("digest", "admission")}
    for field in ("agreement", "biases", "calibration", "verdicts", "inconsistency_rate"):
        for bad in ("x", [], 7, {"value": "1"}):
            if field == "verdicts" and isinstance(bad, dict):
                continue
            changed = {**body, field: bad}
            posted = empty.post("/cards", {**changed, "digest": digest_of(changed)})
            assert posted.status_code in (400, 422), (field, bad)
            assert posted.json()["code"] == "JDG-009"
    get(empty, "/judges")


# --- tool schemas


def test_the_list_of_schemas_has_each_namespace_and_selection_once_as_it_stands_now(
    shop: Shop,
) -> None:
    found = get(shop, "/schemas")
    text = shop.client.get("/schemas", headers=HTML).text
    assert [row[0] for row in table_of(text, "Namespaces")[1:]] == [
        "beewatch",
        *(f"hive{number}" for number in range(5)),
        "poison",
    ]
    assert [row[0] for row in table_of(text, "Selections")[1:]] == ["city-bees"]
    for words in (
        "◐ partial",
        "✗ rejected",
        "Reports of the file protocol",
        "beewatch/scales",
        "raw grade A, capped",
        "tool schemas, flowmcp@1",
    ):
        assert words in found.text


def test_a_namespace_is_a_tree_with_status_grades_caps_blockers_and_history(shop: Shop) -> None:
    text = shop.client.get("/schemas/beewatch", headers=HTML).text
    rows = {row[0]: row[1:] for row in table_of(text, "Nodes")}
    aggregate = rows["All its tools together aggregate"]
    assert aggregate[0] == "✓ stable"
    assert aggregate[1] == "B tool schemas, gradingSystem/1.0.0raw grade A, capped"
    assert aggregate[2:4] == ["5.000", "autonomous, at best B"]
    assert rows["getWeight tool"][0:2] == ["◐ graded", "D tool schemas, gradingSystem/1.0.0"]
    assert rows["getWeight tool"][-1] == "2 gradings"
    assert rows["getHeat tool"][0] == "✗ blocked"
    assert rows["scales schema, with its tools"][0] == "✗ blocked"
    found = Markup(text)
    assert "The namespace is partial: some nodes are graded, not all are stable." in found.text
    assert [
        "schemas.scales.tools.getHeat",
        "fewer than three tests: add tests to the tool",
    ] in table_of(text, "Blockers")
    entries = table_of(text, "Grading entries, the newest first")
    assert [row[1] for row in entries[1:]] == [
        "beewatch.getWeight single-test",
        "beewatch.getWeight single-test",
        "beewatch.scales tools-aggregate-schema",
    ]
    assert entries[1][-1].startswith("scheduled, supersedes ")
    assert len(table_of(text, "Other stored indexes")) == 4


def test_an_entry_shows_its_answers_and_what_it_supersedes(shop: Shop) -> None:
    href = next(
        href for href, words in links_with(shop, "/schemas/beewatch") if words == "2 gradings"
    )
    found = get(shop, href)
    for words in (
        "Grading of beewatch.getWeight",
        "Q-clarity",
        "It says what it returns.",
        "non-deterministic",
        "llm a-grader 1.0.0",
        "a-model",
        "supersedes",
    ):
        assert words in found.text
    report = get(shop, f"/schemas/{shop.stock.report}")
    for words in (
        "Report on beewatch/scales",
        "whenToUse",
        "Says what and how often.",
        "flowmcp@1",
        "Raw grade A",
        "✓ valid",
    ):
        assert words in report.text


def test_a_veto_is_shown_with_what_raised_it(shop: Shop) -> None:
    found = get(shop, "/schemas/poison")
    assert "The namespace is rejected: a node is rejected by a veto." in found.text
    assert "illegal-content" in found.text
    assert "REJECTED tool schemas, gradingSystem/1.0.0" in found.text


def test_a_selection_shows_its_members_which_lead_to_their_namespaces(shop: Shop) -> None:
    found = get(shop, "/schemas/city-bees?kind=selection")
    assert "Selection city-bees" in found.text
    assert found.links().count("/schemas/hive0") == 1
    unnamed = get(shop, "/schemas/city-bees")  # no namespace has that name
    assert "Selection city-bees" in unnamed.text
    assert unnamed.links() == found.links()


def test_a_node_whose_schema_has_changed_is_stale(empty: Api, tmp_path: Path) -> None:
    assay, store = in_folder(tmp_path, run_here), ("--store", f"{tmp_path}/l.db")
    put(tmp_path / "scales.json", schema())
    assert assay("tools", "import", "scales.json", "--now", IMPORTED, *store).code == 0
    assert record(assay, tmp_path, envelope("single-test", 5.0), *WEIGHT, *store).code == 0
    put(
        tmp_path / "scales.json",
        schema(tools={"getWeight": tool(description="Returns the weight of one hive in pounds.")}),
    )
    assert assay("tools", "import", "scales.json", "--now", LATER, *store).code == 0
    text = empty.client.get("/schemas/beewatch", headers=HTML).text
    row = next(row for row in table_of(text, "Nodes") if row[0] == "getWeight tool")
    assert row[1] == "… pending"
    assert "? schema changed, regrade required" in row[6]
    assert row[2] == "no grade", "a grade that no longer holds is not shown as one"
    older = next(
        href
        for href, _ in links_with(empty, "/schemas/beewatch")
        if "sha256" in href and href.startswith("/schemas/")
    )
    assert older


# --- hostile


def hostile(value: Any) -> Any:
    """The same document with a script in every text but those that carry its form."""
    if isinstance(value, dict):
        return {
            (f"{key}{SCRIPT}" if key not in KEPT and not key.isidentifier() else key): (
                value[key] if key in KEPT else hostile(value[key])
            )
            for key in value
        }
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return f"{value}{SCRIPT}" if isinstance(value, str) else value


KEPT = (
    "schema",
    "outcome",
    "set",
    "area",
    "status",
    "gradingMode",
    "digest",
    "digests",
    "made_at",
    "kind",
    "gradingId",
    "selectionId",
    "axis_names",
)


def test_whatever_is_stored_is_shown_as_text_on_every_page(shop: Shop, empty: Api) -> None:
    found = shop.stock
    pages = []
    for kind, plural, digest in (
        ("decision", "decisions", found.rejected),
        ("decision", "decisions", found.exam_gate),
        ("decision", "decisions", found.schema_gate),
        ("exam", "exams", found.exam),
        ("card", "judges", found.card),
        ("entry", "schemas", found.report),
    ):
        document = hostile(record_of(shop, digest))
        pages.append(f"/{plural}/{stored(empty, kind, document, author='me')}")
    for item in shop.get("/indexes").json()["items"][: repeats(4, 12)]:
        pages.append(f"/schemas/{stored(empty, 'index', hostile(record_of(shop, item['digest'])))}")
    for item in shop.get("/entries").json()["items"][:3]:
        pages.append(f"/schemas/{stored(empty, 'entry', hostile(record_of(shop, item['digest'])))}")
    empty.post(
        "/runs",
        [
            {
                **one,
                "workflow": {**one["workflow"], "id": SCRIPT},
                "dataset": {**one["dataset"], "id": SCRIPT},
                "tags": [SCRIPT],
            }
            for one in (*faq(1, 31), *faq(2, 31))
        ],
    )
    for version in ("1", "2"):
        chosen = {"workflow": SCRIPT, "workflow_version": version}
        empty.post("/evaluations", {"name": f"v{version}", "runs": {"filter": chosen}})
    pages += [
        "/decisions",
        "/exams",
        "/judges",
        "/schemas",
        "/compare",
        "/compare?of=v1&of=v2",
        f"/compare?of={quote(SCRIPT)}&of=x",
    ]
    for path in pages:
        answer = empty.client.get(path, headers=HTML)
        assert answer.status_code == (422 if path.endswith("=x") else 200), path
        shown = Markup(answer.text)
        scripts = [str(found.get("src")) for tag, found in shown.tags if tag == "script"]
        assert all(source.startswith("/static/") for source in scripts), path
        assert not any(
            name.startswith("on") for _, attributes in shown.tags for name in attributes
        ), path
        assert "<script>alert(1)" in shown.text, path
        images = [str(attributes.get("src")) for tag, attributes in shown.tags if tag == "img"]
        assert all(
            source.startswith(("/charts/", "/static/", "data:image/svg+xml;base64,"))
            for source in images
        ), path
        for source in images:
            if source.startswith("/charts/"):
                drawn = empty.client.get(source)
                assert drawn.status_code == 200
                assert b"<script" not in drawn.content


def test_a_namespace_with_any_name_is_found_by_it(empty: Api) -> None:
    index = {
        "indexVersion": 2,
        "status": "pending",
        "updatedAt": "never",
        "summary": {},
        "blockers": [],
        "schemas": {},
    }
    for name in ("a/b", "ä ?#%", SCRIPT, "..", "sha256:x"):
        stored(empty, "index", {**index, "namespace": name})
    for href in [href for href in get(empty, "/schemas").links() if href.startswith("/schemas/")]:
        assert "is pending" in get(empty, href).text


def test_what_was_forgotten_is_said_to_be_so(empty: Api) -> None:
    posted = empty.post("/decisions", {"candidate": faq(2, 5), "baseline": faq(1, 5)}).json()[
        "digest"
    ]
    graded = empty.post("/exams/grade", {"exam": exam(), "answers": answers()}).json()["digest"]
    known = empty.post("/cards", card()).json()["digest"]
    for digest, path in ((posted, "/decisions"), (graded, "/exams"), (known, "/judges")):
        assert empty.post(f"/records/{digest}/forget", {"reason": "asked for"}).status_code == 200
        assert "forgotten" in get(empty, path).text
        assert "was forgotten" in get(empty, f"{path}/{digest}", status=404).text


def test_a_decision_that_was_changed_behind_the_ledger_is_shown_nowhere(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path}/ledger.db") as api:
        body = {"candidate": faq(3, 30), "baseline": faq(1, 30)}
        digest = api.post("/decisions", body).json()["digest"]
        run_id = faq(3, 1)[0]["run_id"]
        for kind in ("decision", "grade"):
            spoil(tmp_path / "ledger.db", kind)
        assert "does not match its digest" in get(api, "/decisions", status=500).text
        assert "does not match its digest" in get(api, f"/decisions/{digest}", status=500).text
        for path in (f"/decisions/{digest}", f"/records/{digest}", f"/runs/{run_id}/grade"):
            answer = api.get(path)
            assert (answer.status_code, answer.json()["code"]) == (500, "STO-007"), path
        assert [one["digest"] for one in api.get("/decisions").json()["items"]] == [digest]


def test_the_cards_that_the_server_was_started_with_are_shown_too(tmp_path: Path) -> None:
    put(tmp_path / "card.json", card(model="from a file"))
    with serving(f"{tmp_path}/l.db", cards=(str(tmp_path / "card.json"),)) as api:
        found = get(api, "/judges")
        assert "Cards that this server was started with" in found.text
        assert "from a file" in found.text


def test_a_card_from_the_future_is_refused_on_every_way_into_the_server(tmp_path: Path) -> None:
    coming = card(days=-2)
    with serving(f"{tmp_path}/l.db") as api:
        refused = api.post("/cards", coming)
        assert (refused.status_code, "in the future" in refused.text) == (422, True)
        assert api.get("/cards").json()["items"] == []
    put(tmp_path / "card.json", coming)
    with (
        pytest.raises(InputError, match="in the future"),
        serving(f"{tmp_path}/l.db", cards=(str(tmp_path / "card.json"),)),
    ):
        pass


@pytest.mark.parametrize(
    "words",
    [
        "not measured",
        "This judge was never compared with human labels.",
        "No bias of this judge was measured.",
    ],
)
def test_a_card_without_a_calibration_says_what_was_not_measured(empty: Api, words: str) -> None:
    bare = json.loads(
        json.dumps(
            make_card(
                judge={"judge": "j", "model": "m"},
                audit=None,
                calibration=None,
                verdicts={},
                now=datetime.now(UTC),
            )
        )
    )
    digest = empty.post("/cards", bare).json()["digest"]
    found = get(empty, f"/judges/{digest}")
    assert words in found.text
