"""The pages in a real browser, on a real server: every page is driven as a person drives it, and
none of them complains or asks for anything elsewhere.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from assay.store.access import create_token
from assay.store.ledger import open_ledger
from browsing import (
    ALIKE,
    JOBS,
    RULES_OF_COLOUR,
    Site,
    Window,
    browser,
    check_accessible,
    check_fits,
    chosen,
    draw_all,
    violations,
)
from checkout import ROOT
from documents import FAMILIES, run
from serving import Process

__all__ = ["browser"]

pytestmark = pytest.mark.browser
SEEN = "2026-11-{day:02d}T10:00:00Z"
HOSTILE = "<script>document.title='broken'</script><b>bold</b>"


def demo() -> list[dict[str, Any]]:
    """Runs of every family, good and bad, over ten days; the first is hostile."""
    dice = random.Random(7)
    made = []
    for index in range(110):
        one = run(
            FAMILIES[index % len(FAMILIES)],
            run_id=f"nightly-{index:03d}",
            tags=["nightly", *(["slow"] if index % 5 == 0 else [])],
        )
        one["workflow"].update(
            id=["fix-issue", "answer-faq", "route-mail"][index % 3], version=str(1 + index % 2)
        )
        one["dataset"]["sample_id"] = f"s-{index}"
        one["started_at"] = SEEN.format(day=1 + index // 11)
        for name, score in one["scores"].items():
            one["scores"][name] = {
                "raw": (
                    dice.choice([3, 4, 5]) if score["raw"] == 5 else round(dice.uniform(0.6, 1), 2)
                )
            }
        one["steps"] = [
            {
                "name": "plan",
                "agent": "planner",
                "status": "success",
                "duration_ms": dice.randint(50, 400),
                "tokens": 300,
            },
            {
                "name": "write",
                "agent": "writer",
                "status": "failed" if index % 13 == 0 else "success",
                "duration_ms": dice.randint(400, 5000),
                "critical": False,
            },
        ]
        if index % 29 == 0:
            one["status"] = "error"
        if index % 17 == 0:
            one.pop("output_schema")
        made.append(one)
    made[0].update(run_id=f"first {HOSTILE}", outputs={"answer": HOSTILE}, tags=[HOSTILE])
    return made


def ferries(version: int) -> list[dict[str, Any]]:
    """A version of a workflow on 60 samples; of the second, one answer in ten is missing, and one
    is hostile.
    """
    made = []
    for index in range(60):
        one = run("rag", run_id=f"ferry-{version}-{index:02d}")
        one["workflow"].update(id="ferries", version=str(version))
        one["dataset"].update(id="timetable", sample_id=f"q-{index}")
        one["inputs"] = {"question": f"When does ferry {index} leave?"}
        one["outputs"] = {"answer": f"At {index % 24}:15."}
        if version == 2 and index % 10 == 3:
            one.update(status="error", outputs={}, metadata={"error": "provider answered 429"})
        if version == 2 and index == 30:
            one["outputs"] = {"answer": f"{HOSTILE} \u202eyadot \u05e9\u05dc\u05d5\u05dd"}
        made.append(one)
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("pages")
    with Process(f"sqlite:///{folder}/ledger.db", "--quiet") as started:
        status, answer = started.call("POST", "/runs", demo())
        assert status == 201, answer
        sides = {
            name: [{**one, "run_id": f"{name}-{one['run_id']}", **more} for one in demo()[1:33]]
            for name, more in (("candidate", {"status": "failed"}), ("baseline", {}))
        }
        status, answer = started.call("POST", "/decisions", sides)
        assert status == 201, answer
        for version in ("1", "2"):
            evaluated = [
                {**one, "run_id": f"v{version}-{one['run_id']}"}
                | {"workflow": {**one["workflow"], "id": "answer-faq", "version": version}}
                for one in demo()[1:13]
            ]
            body = {"name": f"faq-{version}", "runs": evaluated}
            status, answer = started.call("POST", "/evaluations", body)
            assert status == 201, answer
        for number in (1, 2):
            asked = {"name": f"ferries-{number}", "runs": ferries(number)}
            status, answer = started.call("POST", "/evaluations", asked)
            assert status == 201, answer
        yield started


@pytest.fixture
def site(server: Process, browser: Window) -> Iterator[Site]:
    made = Site(server, browser)
    yield made
    made.quiet()
    made.close()


def all_pages(site: Site) -> list[str]:
    """One page of each kind."""
    items = site.server.call("GET", "/runs?limit=1000")[1]["items"]
    failed = next(item for item in items if item["grade"]["grade"] == "F")
    hostile = next(item for item in items if HOSTILE in item["run_id"])
    return [
        "/",
        f"/runs{ALIKE}",
        f"/evaluations{ALIKE}",
        "/evaluations/ferries-2",
        f"/runs?grade=F&gate=schema_contract_valid{ALIKE}",
        f"/runs/{failed['digest']}",
        f"/runs/{hostile['digest']}{ALIKE}",
        f"/library{ALIKE}",
        f"/library/rubrics/rag@1{ALIKE}",
        f"/library/profiles/rag@1{ALIKE}",
        f"/library/policies/workflow@1{ALIKE}",
        f"/library/gates/answer_grounded{ALIKE}",
        "/login",
    ]


def test_every_page_is_accessible_and_fits_a_phone_where_only_tables_scroll(site: Site) -> None:
    for _, page in site.walk(chosen(all_pages(site))):
        check_fits(page)
        check_accessible(page)


def test_the_dark_scheme_changes_nothing_but_colours() -> None:
    """So a page whose markup and measures pass in one scheme passes in the other, and only its
    colours are checked twice.
    """
    sheet = (ROOT / "src" / "assay" / "views" / "templates" / "pages.css").read_text(
        encoding="utf-8"
    )
    found = re.findall(r"@media [^{]*prefers-color-scheme[^{]*\{\s*:root\s*\{([^}]*)\}\s*\}", sheet)
    assert len(found) == sheet.count("prefers-color-scheme") == 1
    assert re.fullmatch(r"(\s*--[a-z-]+: #[0-9a-f]{6};)+\s*", found[0])


def test_dark_and_light_differ_also_within_the_charts(site: Site) -> None:
    shots = {}
    page = site.open("/")
    draw_all(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        shots[scheme] = (ground, page.locator(".picture").first.screenshot())
    assert shots["light"][0] != shots["dark"][0]
    assert shots["light"][1] != shots["dark"][1]


@pytest.mark.campaign  # filters, keys and steps back are in the job below and in the last test here
def test_the_filter_is_in_the_address_and_the_back_button_takes_it_back(site: Site) -> None:
    page = site.open("/runs")
    rows = page.locator("table.runs tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_label("Workflow", exact=True).fill("route-mail")
    page.get_by_label("Grade", exact=True).select_option("F")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"workflow=route-mail.*grade=F"))
    expect(rows).not_to_have_count(50)
    few = rows.count()
    assert 0 < few < 50
    assert all("route-mail" in text for text in rows.all_inner_texts())
    assert page.get_by_label("Workflow", exact=True).input_value() == "route-mail"
    page.get_by_label("Tag").fill("slow")
    page.get_by_label("Tag").press("Enter")
    expect(page).to_have_url(re.compile(r"tag=slow"))
    assert rows.count() <= few
    page.go_back()
    expect(rows).to_have_count(few)
    page.wait_for_load_state()  # a step back is heard once the page's script has run
    page.go_back()
    expect(rows).to_have_count(50)
    run = rows.first.get_by_role("rowheader")
    seen = [run.inner_text()]
    for way in ("Older →", "Older →"):
        page.get_by_role("link", name=way).click()
        expect(run).not_to_have_text(seen[-1])  # the list is replaced in place
        seen.append(run.inner_text())
    page.get_by_role("link", name="← Newer").click()
    expect(run).to_have_text(seen[1])
    page.get_by_role("link", name="Newest").click()
    expect(run).to_have_text(seen[0])


@pytest.mark.parametrize("width", JOBS)
def test_the_worst_sample_of_an_evaluation_is_found_by_mouse_and_by_keyboard(
    site: Site, width: int
) -> None:
    page = site.open("/evaluations", width=width)
    page.get_by_role("link", name="ferries-2").click()
    expect(page.get_by_text("6 of 60 samples failed")).to_be_visible()
    rows = page.locator("table.samples tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("provider answered 429")
    page.get_by_role("link", name=re.compile("^Failed")).click()
    expect(rows).to_have_count(6)
    expect(page).to_have_url(re.compile(r"/evaluations/ev-[0-9a-f]+\?show=failed$"))
    page.get_by_role("link", name="Sample", exact=True).click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("Sample")
    expect(rows.nth(1)).to_contain_text("q-13")
    page.go_back()
    expect(page.locator("th[aria-sort]")).to_have_count(0)
    expect(rows).to_have_count(6)
    page.wait_for_load_state()  # a step back is heard once the page's script has run
    page.go_back()
    expect(rows).to_have_count(50)
    page.get_by_role("link", name="the run ended with status error").click()
    expect(rows).to_have_count(6)
    # the rows are there before what listens: the page's script, or htmx to the field it put in
    page.wait_for_load_state()
    expect(page.locator(".htmx-added")).to_have_count(0)
    kept = page.url
    page.keyboard.press("/")
    page.keyboard.type("ferry 43")  # found while it is typed, and the field keeps the focus
    expect(rows).to_have_count(1)
    expect(page.locator("input[name=q]")).to_be_focused()
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    expect(rows.first.locator("mark").first).to_have_text("ferry 43")
    page.emulate_media(color_scheme="dark")
    assert violations(page, rules=RULES_OF_COLOUR) == [], "the dark scheme is legible"
    page.goto(kept)
    expect(rows).to_have_count(6)
    for _ in range(2):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/sha256.*in=ev-[0-9a-f]+.*why="))
    expect(page.get_by_text("When does ferry 13 leave?").first).to_be_visible()


def test_everything_works_without_javascript(site: Site) -> None:
    page = site.open("/runs?grade=F", java_script_enabled=False)
    page.get_by_label("Workflow", exact=True).fill("answer-faq")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("workflow=answer-faq"))
    page.locator("table.runs tbody a").first.click()
    page.get_by_text("Grades, linked records, digests and replay").click()
    page.get_by_role("button", name="Replay this grade").click()
    expect(page.get_by_role("status")).to_contain_text("byte for byte")


def test_a_page_can_be_used_by_keyboard_alone(site: Site) -> None:
    page = site.open("/")
    page.keyboard.press("Tab")
    focus = "document.activeElement"
    assert page.evaluate(f"{focus}.textContent") == "Skip to the content"
    box = page.locator(".skip").bounding_box()
    assert box is not None
    assert box["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate(f"{focus}.id") == "content"
    page.goto(f"{site.base}/runs")
    order = []
    for _ in range(40):
        page.keyboard.press("Tab")
        what = page.evaluate(
            f"[{focus}.tagName, {focus}.name || {focus}.textContent.trim(),"
            f" getComputedStyle({focus}).outlineStyle]"
        )
        order.append(what[1])
        assert what[2] != "none", what
        if what[1] == "Filter" and what[0] == "BUTTON":
            break
    names = [
        "Skip to the content",
        "Overview",
        "Decisions",
        "Library",
        "q",
        "workflow",
        "version",
        "dataset",
        "grade",
        "gate",
        "tag",
        "Filter",
    ]
    places = [
        len(order) - 1 - order[::-1].index(name) if name == "Filter" else order.index(name)
        for name in names
    ]
    assert places == sorted(places), order
    page.get_by_label("Grade", exact=True).focus()
    page.keyboard.press("F")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Filter").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("grade=F"))


@pytest.mark.campaign  # charts are drawn below, and the replay is in the job without JavaScript
def test_the_page_of_a_run_draws_its_charts_and_replays_its_grade(site: Site) -> None:
    page = site.open("/runs?grade=F")
    page.locator("table.runs tbody a").first.click()
    charts = page.locator("figure.chart")
    expect(charts, "steps without times have no axis").to_have_count(2)
    page.wait_for_load_state()
    draw_all(page)
    page.get_by_text("Points and floors as charts").click()
    page.get_by_text("Grades, linked records, digests and replay").click()
    for name in (
        "Input",
        "Answer",
        "Expected",
        "Timeline",
        "Gates",
        "Criteria",
        "What would change the grade",
        "Points",
        "Floors",
        "Provenance",
    ):
        expect(page.get_by_role("heading", name=name, exact=True).first).to_be_visible()
    contents = page.get_by_role("navigation", name="On this page")
    contents.get_by_role("link", name="Provenance").click()
    expect(page.get_by_role("heading", name="Provenance", exact=True)).to_be_in_viewport()
    page.locator("figure details summary").first.click()
    expect(page.locator("figure details table").first).to_be_visible()
    page.get_by_role("button", name="Replay this grade").click()
    expect(page.get_by_role("status")).to_contain_text("byte for byte")
    page.get_by_text("Points and floors as charts").click()
    page.get_by_role("link", name="Where the points came from and where they went as PNG").click()
    expect(page).to_have_url(re.compile(r"/charts/grades/sha256:[0-9a-f]+/contributions\.png$"))


@pytest.mark.campaign  # the links are in test_sample_page.py, and the keys in the jobs here
def test_samples_are_read_one_after_the_other_by_keyboard_and_mouse(site: Site) -> None:
    documents = [
        run(
            "rag", run_id=f"walk-{n}", dataset={"id": "walk", "version": "1", "sample_id": f"w-{n}"}
        )
        for n in range(3)
    ]
    site.server.call("POST", "/evaluations", {"name": "walk", "runs": documents})
    page = site.open("/runs/walk-0?in=walk&sort=sample")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("w-0")
    page.keyboard.press("j")
    expect(heading).to_have_text("w-1")
    page.get_by_role("link", name="Next").click()
    expect(heading).to_have_text("w-2")
    page.wait_for_load_state()  # keys are heard once the page's script has run
    page.keyboard.press("k")
    expect(heading).to_have_text("w-1")
    page.locator("#grounding a[href^='#passage']").first.click()
    expect(page.locator("#passage-1")).to_be_in_viewport()
    page.locator("#passage-1 a[href^='#claim']").first.click()
    expect(page).to_have_url(re.compile(r"#claim-\d+$"))
    page.locator(".walk .home").click()
    expect(page).to_have_url(re.compile(r"/evaluations/ev-[0-9a-f]+\?sort=sample$"))


def test_hostile_text_is_text_in_a_browser_too(site: Site) -> None:
    page = site.open(f"/runs?q={quote('first <')}")
    page.locator("table.runs tbody a").first.click()
    expect(page.locator("h1")).to_contain_text(HOSTILE)
    page.wait_for_load_state()
    assert HOSTILE in page.inner_text("#outputs")
    assert "broken" not in page.title().replace(HOSTILE, "")
    assert page.locator("main b", has_text=re.compile("^bold$")).count() == 0
    page.goto(f"{site.base}/runs?tag={quote(HOSTILE)}")
    assert page.locator("table.runs tbody tr").count() == 1


def test_a_run_is_watched_step_by_step_until_its_grade_comes(site: Site) -> None:
    whole = run("rag", run_id="watched & <b>")
    steps, name = whole.pop("steps"), quote(str(whole["run_id"]), safe="")
    whole.pop("status")

    def tell(*events: dict[str, Any]) -> Any:
        status, answer = site.server.call("POST", f"/runs/{name}/events", list(events))
        assert status in (201, 202), answer
        return answer

    assert (
        site.server.call(
            "POST",
            "/runs/live",
            {
                key: value
                for key, value in whole.items()
                if key not in ("claims", "scores", "outputs")
            },
        )[0]
        == 201
    )
    overview = site.open("/")
    overview.get_by_role("link", name="watched & <b>").click()
    page = overview
    expect(page.locator("#connection")).to_contain_text("Connected")
    rows = page.locator("#steps tbody tr")
    expect(rows).to_have_count(0)
    tell({"event": "step_start", "step": {"name": "think <i>", "agent": "solver", "index": 0}})
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("think <i>")
    expect(rows.first).to_contain_text("running")
    calls = [
        {"name": "search", "arguments": {}, "valid": False},
        {"name": "search", "arguments": {}, "valid": True},
    ]
    tell(
        {
            "event": "step_end",
            "step": {**steps[0], "name": "think <i>", "index": 0, "duration_ms": 40},
            "tool_calls": calls,
        }
    )
    expect(rows.first).to_contain_text("success")
    expect(rows.first).to_contain_text("2, 1 invalid")
    page.reload()  # what was told is on the page, and the stream goes on after it
    expect(rows).to_have_count(1)
    expect(page.locator("#connection")).to_contain_text("Connected")
    tell(
        {"event": "step_start", "step": {"name": "check", "index": 1}},
        {"event": "step_end", "step": {**steps[1], "index": 1}},
    )
    expect(rows).to_have_count(2)
    assert (
        page.locator("#evaluation")
        .inner_text()
        .strip()
        .endswith("Available when the run finishes.")
    )
    assert violations(page) == []
    tell(
        {
            "event": "workflow_end",
            "run": {
                "status": "success",
                **{key: whole[key] for key in ("claims", "scores", "outputs")},
            },
        }
    )
    expect(page.locator("#evaluation")).to_contain_text("workflow@1")
    expect(page.locator("#connection")).to_contain_text("The stream has ended")
    streams = sum("/events" in url for url in site.asked)
    page.wait_for_timeout(2500)
    assert sum("/events" in url for url in site.asked) == streams, (
        "a stream that has ended was asked for again"
    )
    page.get_by_role("link", name="The whole grade").click()
    expect(page.locator("h1")).to_have_text("watched & <b>")


def test_a_live_page_survives_a_server_that_comes_back(browser: Window, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    first = Process(url, "--quiet")
    head = {
        key: value
        for key, value in run("rag", run_id="r").items()
        if key not in ("status", "steps", "tool_calls")
    }
    first.call("POST", "/runs/live", head)
    site = Site(first, browser)
    page = site.open("/runs/r/live", expected=("ERR_", "Failed to load resource"))
    expect(page.locator("#connection")).to_contain_text("Connected")
    first.kill()
    expect(page.locator("#connection")).to_contain_text("trying again")
    with Process(url, "--quiet", port=first.port) as second:
        second.call(
            "POST",
            "/runs/r/events",
            {"event": "step_end", "step": {"name": "after", "status": "success", "index": 0}},
        )
        expect(page.locator("#steps tbody tr")).to_have_count(1, timeout=15_000)
        site.close()
    site.quiet()


def test_without_javascript_a_live_page_says_so_and_can_be_loaded_again(site: Site) -> None:
    head = {
        key: value
        for key, value in run("rag", run_id="still").items()
        if key not in ("status", "steps", "tool_calls")
    }
    site.server.call("POST", "/runs/live", head)
    page = site.open("/runs/still/live", java_script_enabled=False)
    site.server.call(
        "POST", "/runs/still/events", {"event": "step_start", "step": {"name": "first", "index": 0}}
    )
    page.get_by_role("link", name="Reload it").click()
    expect(page.locator("#steps tbody tr")).to_have_count(1)


def test_a_person_logs_in_with_a_token_sees_one_project_and_logs_out(
    browser: Window, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with open_ledger(url) as ledger:
        token = create_token(ledger.database, project="shop", name="me", scopes=("read",)).text
    with Process(url, "--quiet") as server:
        server.call("POST", "/runs", run("rag", run_id="of the default project"))
        site = Site(server, browser)
        page = site.open("/login?next=/runs", expected=("401",))
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("token is not valid")
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{site.base}/runs")
        expect(page.locator(".who")).to_contain_text("Project shop")
        assert "of the default project" not in page.inner_text("main")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(f"{site.base}/login")
        page.goto(f"{site.base}/runs")
        expect(page.locator(".who")).to_contain_text("Project default")
        site.close()
        site.quiet()


def test_a_problem_is_a_page_in_both_schemes_and_passes_the_same_checks(site: Site) -> None:
    page = site.open("/runs/none", expected=("404",))
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    check_accessible(page)


def test_a_chart_is_drawn_in_the_browser_and_tells_its_numbers_to_the_pointer(site: Site) -> None:
    """Under the strict policy: `quiet` sees that no violation was logged."""
    page = site.open("/")
    chart = page.locator(".picture[data-chart]").first
    chart.scroll_into_view_if_needed()
    mark = chart.locator(".drawn .mark-symbol path").first
    expect(mark).to_be_visible()
    expect(chart.locator("img")).to_be_hidden()
    room = page.evaluate("(one) => one.clientWidth", chart.element_handle())
    drawn = chart.locator(".drawn svg").bounding_box()
    assert drawn is not None
    assert room - 12 <= drawn["width"] <= room
    mark.hover()
    expect(page.locator("#tip")).to_be_visible()
    assert re.search(r"[\d.]+%, 95% interval .* n \d+$", page.locator("#tip").inner_text())
    page.mouse.move(0, 0)
    expect(page.locator("#tip")).to_be_hidden()
    assert sum("vega" in url for url in site.asked) == 3


def test_a_page_without_a_chart_loads_no_vega(site: Site) -> None:
    site.open("/library")
    assert not any("vega" in url for url in site.asked)


def test_the_picture_of_the_server_stays_where_vega_does_not_come(site: Site) -> None:
    page = site.open("/login", expected=("vega", "ERR_FAILED"))
    page.route("**/static/vega.min.js*", lambda route: route.abort())
    with page.expect_console_message(lambda message: "stays a picture" in message.text):
        page.goto(f"{site.base}/")
    expect(page.locator(".picture img").first).to_be_visible()
    assert page.locator(".drawn").count() == 0
    page.unroute("**/static/vega.min.js*")


def test_keys_go_through_the_list_and_a_filter_replaces_it_in_place(site: Site) -> None:
    page = site.open("/runs")
    page.evaluate("document.body.dataset.kept = 'yes'")  # gone when a page is loaded
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.locator("table.runs tbody tr").first
    expect(first).to_have_class("here")
    page.keyboard.press("/")
    expect(page.locator("#f-q")).to_be_focused()
    page.keyboard.type("jk")  # letters while something is typed
    page.keyboard.press("Escape")
    page.locator("#f-q").fill("")
    page.get_by_label("Grade", exact=True).select_option("F")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("grade=F"))
    expect(page.locator("table.runs .grade-A")).to_have_count(0)
    assert page.evaluate("document.body.dataset.kept") == "yes"
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/runs/sha256"))
    page.go_back()
    expect(page).to_have_url(re.compile("grade=F"))
    expect(page.locator("table.runs .grade-F").first).to_be_visible()
