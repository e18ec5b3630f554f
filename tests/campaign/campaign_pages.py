"""More walks through the pages in a real browser. `make campaign` runs them; the suite drives pages of
the same parts and reads these pages without a browser.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from browsing import Site, Window, browser, draw_all, violations
from documents import run
from serving import Process
from test_browser_pages import server, site
from test_browser_pages_more import Shop, shop, stocked

__all__ = ["browser", "server", "shop", "site", "stocked"]

pytestmark = pytest.mark.browser


def test_the_overview_leads_to_what_needs_attention_and_back(site: Site) -> None:
    page = site.open("/")
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    page.get_by_role("link", name="ended in an error").click()
    expect(page).to_have_url(re.compile(r"/runs\?status=error$"))
    assert page.locator("table.runs tbody tr").count() >= 3
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.get_by_role("heading", name="route-mail").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"/runs\?workflow=route-mail$"))


def test_a_run_is_found_by_an_id_of_any_signs(site: Site) -> None:
    names = ["ä%2F?#&", "a/b", "x y", "%"]
    site.server.call("POST", "/runs", [run("rag", run_id=name) for name in names])
    page = site.open("/login")
    for name in names:
        page.goto(f"{site.base}/runs/{quote(name, safe='')}")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_an_empty_project_is_shown_on_purpose(browser: Window, tmp_path: Path) -> None:
    with Process(f"sqlite:///{tmp_path}/ledger.db", "--quiet") as server:
        site = Site(server, browser)
        for path in ("/", "/runs"):
            page = site.open(path)
            expect(page.locator(".empty")).to_contain_text("assay run")
            assert violations(page) == []
        site.close()
        site.quiet()


def test_two_evaluations_are_chosen_and_compared_without_javascript(shop: Shop) -> None:
    page = shop.open("/compare", java_script_enabled=False)
    page.get_by_label("Baseline", exact=True).select_option("baseline:production")
    page.get_by_label("Candidate", exact=True).select_option("faq-3")
    page.get_by_role("button", name="Compare").click()
    expect(page).to_have_url(re.compile(r"of=baseline%3Aproduction&of=faq-3"))
    expect(page.locator(".outcome").first).to_contain_text("Reject")
    page.get_by_role("link", name="Newly fails a gate").click()
    expect(page.get_by_role("table", name="Samples")).to_contain_text("now fails")
    page.locator("#samples tbody a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("s-")
    page.go_back()
    page.go_back()
    page.get_by_role("link", name="Next →").click()
    expect(page).to_have_url(re.compile(r"page=2"))


def test_a_judge_is_asked_whether_it_may_gate_and_why_not(shop: Shop) -> None:
    page = shop.open("/judges")
    expect(page.locator("table.runs tbody tr", has_text="judge-2")).to_contain_text("may not gate")
    page.get_by_role("link", name="judge-1").first.click()
    expect(page.locator(".outcome")).to_contain_text("May gate under workflow-judged@1")
    draw_all(page)
    assert page.locator(".picture img").count() == 5
    page.locator("#drift table.scroll a, #drift td a, #drift th a").last.click()
    expect(page.locator(".outcome")).to_contain_text("May not gate")
    page.get_by_role("alert").or_(page.locator(".note")).get_by_role("link").click()
    expect(page.locator(".outcome")).to_contain_text("May gate")


def test_a_tree_of_schemas_is_walked_from_the_list_to_an_answer(shop: Shop) -> None:
    page = shop.open("/schemas")
    page.get_by_role("link", name="beewatch", exact=True).click()
    expect(page.locator(".outcome")).to_contain_text("partial")
    row = page.get_by_role("row", name=re.compile("^getWeight"))
    expect(row).to_contain_text("graded")
    row.get_by_role("link", name="2 gradings").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Grading of beewatch.getWeight")
    expect(page.locator("#answers")).to_contain_text("It says what it returns.")
    page.locator("#related a").first.click()
    page.goto(f"{shop.base}/schemas/city-bees?kind=selection")
    page.get_by_role("link", name="hive0.scales").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Namespace hive0")


def test_a_decision_is_read_by_keyboard_alone(shop: Shop) -> None:
    page = shop.open(f"/decisions/{shop.stock.rejected}")
    order = []
    for _ in range(60):
        page.keyboard.press("Tab")
        what = page.evaluate(
            "[document.activeElement.tagName, document.activeElement.textContent.trim(),"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        order.append(what)
        assert what[2] != "none", what
        if what[0] == "SUMMARY" and what[1].startswith("Evidence for"):
            break
    assert order[0][1] == "Skip to the content"
    names = [one[1] for one in order]
    assert names.index("Decisions") < names.index("Promotion rules") < len(names) - 1
    page.keyboard.press("Enter")
    expect(page.locator("#rules details").first).to_have_attribute("open", "")
