"""Decisions, comparisons, exams, judges and tool schemas in a real browser: driven by mouse and by
keyboard, in both schemes and on a phone, and quiet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from browsing import (
    ALIKE,
    JOBS,
    Site,
    Window,
    browser,
    check_accessible,
    check_fits,
    chosen,
    draw_all,
)
from serving import Process
from stocked import Stock, stocked_copy

__all__ = ["browser"]

pytestmark = pytest.mark.browser


class Shop(Site):
    """A server with something on each of these pages."""

    stock: Stock


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Stock]]:
    folder = tmp_path_factory.mktemp("shop")
    made = stocked_copy(folder)
    with Process(f"{folder}/l.db", "--quiet") as server:
        yield server, made


@pytest.fixture
def shop(stocked: tuple[Process, Stock], browser: Window) -> Iterator[Shop]:
    made = Shop(stocked[0], browser)
    made.stock = stocked[1]
    yield made
    made.quiet()
    made.close()


def all_pages(shop: Shop) -> list[str]:
    found = shop.stock
    return [
        f"/decisions{ALIKE}",
        *(
            f"/decisions/{digest}"
            for digest in (
                found.promoted,
                found.rejected + ALIKE,
                found.too_few + ALIKE,
                found.exam_gate + ALIKE,
                found.schema_gate + ALIKE,
            )
        ),
        f"/compare{ALIKE}",
        "/compare?of=baseline:production&of=faq-2&of=faq-3",
        f"/exams{ALIKE}",
        *(f"/exams/{digest}" for digest in (found.exam + ALIKE, found.regression + ALIKE)),
        f"/judges{ALIKE}",
        *(f"/judges/{digest}" for digest in (found.card + ALIKE, found.old_card + ALIKE)),
        f"/schemas{ALIKE}",
        "/schemas/beewatch%2Fscales?tool=getHeat",
        f"/schemas/beewatch%2Fscales{ALIKE}",
        f"/schemas/beewatch{ALIKE}",
        f"/schemas/poison{ALIKE}",
        f"/schemas/city-bees?kind=selection{ALIKE}",
        f"/schemas/{found.report}{ALIKE}",
    ]


def test_every_page_of_a_record_is_accessible_and_fits_a_phone(shop: Shop) -> None:
    for _, page in shop.walk(chosen(all_pages(shop))):
        check_fits(page)
        check_accessible(page)


@pytest.mark.campaign  # those of the overview do in test_browser_pages.py
def test_the_charts_of_a_decision_follow_the_scheme_also_where_they_stand_in_the_page(
    shop: Shop,
) -> None:
    page = shop.open(f"/decisions/{shop.stock.promoted}")
    draw_all(page)
    shots = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        shots.append(page.locator("#difference .picture").screenshot())
    assert shots[0] != shots[1]


@pytest.mark.campaign  # its pages are in test_pages_more.py, and one is decided and read below
def test_a_decision_is_found_by_its_outcome_read_from_the_top_and_left_by_the_back_button(
    shop: Shop,
) -> None:
    page = shop.open("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Decisions").click()
    page.get_by_label("Outcome").select_option("reject")
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile(r"outcome=reject"))
    rows = page.locator("table.runs tbody tr")
    expect(rows).to_have_count(1)
    rows.first.get_by_role("link").click()
    expect(page.locator(".outcome").first).to_contain_text("Reject")
    expect(page.locator(".outcome").first).to_be_in_viewport()
    expect(page.locator(".verdict").first).to_contain_text("of the runs fail")
    evidence = page.locator("#rules details").first
    evidence.locator("summary").click()
    expect(evidence.get_by_text("Mean rise").first).to_be_visible()
    draw_all(page)
    page.get_by_role("navigation", name="On this page").get_by_role(
        "link", name="Samples that got worse"
    ).click()
    expect(page.get_by_role("heading", name="Samples that got worse")).to_be_in_viewport()
    page.locator("#worse tbody a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("s-")
    page.go_back()
    page.go_back()
    page.go_back()
    expect(page).to_have_url(re.compile(r"outcome=reject"))
    page.get_by_role("link", name="Clear").click()
    expect(rows).to_have_count(5)


@pytest.mark.parametrize("width", JOBS)
def test_what_got_worse_is_found_by_keyboard_and_the_decision_stored_by_mouse(
    shop: Shop, width: int
) -> None:
    page = shop.open("/compare?of=baseline:production&of=faq-2", width=width)
    expect(page.locator(".outcome").first).to_contain_text("Promote")
    outcome = page.locator(".outcome").first.element_handle()
    page.get_by_role("link", name="Better").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"show=better"))
    expect(page.get_by_role("link", name="Better")).to_be_focused()
    assert outcome is not None
    assert outcome.is_visible(), "only the samples were replaced"
    page.get_by_role("searchbox").fill("xyzzy")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No sample matches this filter.")).to_be_visible()
    if width == JOBS[0]:  # a decision is stored once
        page.get_by_role("button", name="Store this decision").click()
        expect(page).to_have_url(re.compile(r"/decisions/sha256:"))
        expect(page.locator(".outcome").first).to_contain_text("Promote")
    page.goto(f"{shop.base}/compare?of=baseline:production&of=faq-2")
    page.get_by_role("link", name="the stored decision").click()
    expect(page).to_have_url(re.compile(r"/decisions/sha256:"))


@pytest.mark.req("C-016", "C-017")
def test_an_exam_is_read_by_its_bars_which_a_link_makes_raw_and_its_patterns(shop: Shop) -> None:
    page = shop.open("/exams")
    page.locator("table.runs tbody tr", has_text="0.5250").get_by_role("link").click()
    expect(page.locator(".outcome").first).to_contain_text("The hard gate failed")
    draw_all(page)
    bars = page.locator("#axes .picture img")
    assert "/axes.svg" in str(bars.get_attribute("src"))
    weighted = bars.screenshot()
    page.get_by_role("link", name="Show raw bars").click()
    expect(page).to_have_url(re.compile(r"bars=raw$"))
    expect(bars).to_have_attribute("src", re.compile("/axes-raw.svg"))  # the new page is there
    draw_all(page)
    assert bars.screenshot() != weighted
    page.get_by_role("link", name="Show weighted bars").click()
    expect(page).not_to_have_url(re.compile("bars"))
    expect(page.get_by_role("row", name=re.compile("verb_zero"))).to_contain_text("found")
    expect(page.get_by_role("row", name=re.compile("outlier_item"))).to_contain_text("not found")
    page.locator("#axes figure summary").click()
    expect(page.locator("#axes figure table")).to_contain_text("spanish_gloss")
    check_fits(page)
    page.get_by_text("Every result of this exam").click()
    page.locator("#history details").last.get_by_role("link").nth(1).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("capstone 1")


@pytest.mark.campaign  # the pages are in test_pages_tools.py
@pytest.mark.parametrize("width", JOBS)
def test_the_least_legible_tool_is_found_by_mouse_and_by_keyboard(shop: Shop, width: int) -> None:
    page = shop.open("/schemas", width=width)
    page.get_by_role("navigation", name="Which tools").get_by_text("With warnings").click()
    expect(page).to_have_url(re.compile("state=warning"))
    expect(page.locator("#tools tbody tr")).to_have_count(2)
    page.get_by_role("link", name="Tokens", exact=True).click()
    expect(page).to_have_url(re.compile("sort=tokens"))
    page.get_by_label("Search", exact=True).fill("getHeat")
    page.keyboard.press("Enter")
    expect(page.locator("#tools tbody tr")).to_have_count(1)
    page.get_by_role("link", name="getHeat").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tool getHeat")
    expect(page.locator("#parameters")).to_contain_text("hive")
    expect(page.locator("#findings")).to_contain_text("Add meta")
    page.go_back()
    expect(page.locator("#tools tbody tr")).to_have_count(1)
