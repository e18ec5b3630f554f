"""The report in a real browser: it asks for nothing, complains of nothing, and fits a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from browsing import Window, browser

__all__ = ["browser"]

pytestmark = pytest.mark.browser


@pytest.fixture
def report(demo: Any) -> Path:
    """The report of the demo."""
    done, folder = demo
    assert done.code == 0, done.err
    return Path(folder / "report.html")


def opened(browser: Window, report: Path, **options: Any) -> tuple[Page, list[str], list[str]]:
    page = browser.tab(**options)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    return page, said, asked


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.campaign)])
def test_the_report_opens_without_a_complaint_and_asks_for_nothing_else(
    browser: Window, report: Path, scheme: str
) -> None:
    page, said, asked = opened(browser, report, color_scheme=scheme)
    assert said == []
    assert asked == [report.as_uri()]
    assert page.locator("h1").inner_text() == "Assay demo"


def test_a_person_finds_the_worst_sample_and_reads_why(browser: Window, report: Path) -> None:
    page, said, _ = opened(browser, report)
    rows = page.locator(".samples tbody tr")
    assert rows.count() == 15
    page.get_by_label("Only failed samples").check()
    assert (rows.count(), page.locator("#found").inner_text()) == (7, "7 of 15 shown")
    page.get_by_label("Search").fill("zzz")
    assert rows.count() == 0
    page.get_by_label("Search").fill("")
    page.get_by_label("Only failed samples").uncheck()
    scores = [float(text.split()[-1]) for text in page.locator(".samples td.n").all_inner_texts()]
    assert scores != sorted(scores), "what failed comes first, whatever its score"
    page.get_by_role("button", name="Score").click()
    found = [float(text.split()[-1]) for text in page.locator(".samples td.n").all_inner_texts()]
    assert found == sorted(scores)
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    link = page.locator(".samples a").last
    place = link.get_attribute("href")
    link.click()
    evidence = page.locator(str(place))
    evidence.wait_for(state="visible")
    assert "What would change the grade" in evidence.inner_text()
    assert said == []


def test_the_report_is_complete_without_its_script(browser: Window, report: Path) -> None:
    page, said, _ = opened(browser, report, java_script_enabled=False)
    assert page.locator(".samples tbody tr").count() == 15
    assert page.locator("#find").is_hidden()
    assert page.locator("details.sample").count() == 7
    assert said == []


def test_the_report_fits_a_phone(browser: Window, report: Path) -> None:
    page, _, _ = opened(browser, report, width=390)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


def test_charts_of_a_report_are_never_scaled_and_letters_stand_on_one_line(
    browser: Window, report: Path
) -> None:
    """Their text is as large as the text around them; a wide one scrolls within its frame."""
    for width in (1280, 360):
        page, _, _ = opened(browser, report, width=width)
        scales = page.locator(".picture img").evaluate_all(
            "found => found.map((one) => one.getBoundingClientRect().width / one.naturalWidth)"
        )
        assert len(scales) > 1
        assert all(abs(scale - 1) < 0.01 for scale in scales), scales
        tops = page.locator(".mix .letter b").evaluate_all(
            "found => [...new Set(found.map((one) => Math.round(one.getBoundingClientRect().top)))]"
        )
        assert len(tops) == 1
    bars = page.locator('.samples td[class*="w-"]').all_text_contents()
    assert all(re.fullmatch(r"[01]\.\d\d|–", bar) for bar in bars), bars


def test_no_column_of_the_samples_is_narrower_than_its_heading(
    browser: Window, report: Path
) -> None:
    """The demo has several workflows, so its table has the most columns there are."""
    page, _, _ = opened(browser, report, width=1280)
    heads = page.locator(".samples thead th")
    assert "Workflow" in heads.all_inner_texts()
    narrow = heads.evaluate_all(
        "found => found.filter((one) => one.offsetWidth < 48 || one.scrollWidth > one.offsetWidth)"
        ".map((one) => one.innerText)"
    )
    assert narrow == []
