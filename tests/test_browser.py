"""The report in a real browser: it asks for nothing, complains of nothing, and fits a phone."""

from __future__ import annotations

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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_without_a_complaint_and_asks_for_nothing_else(
    browser: Window, report: Path, scheme: str
) -> None:
    page, said, asked = opened(browser, report, color_scheme=scheme)
    assert said == []
    assert asked == [report.as_uri()]
    assert page.locator("h1").inner_text() == "Assay demo"


def test_every_run_has_a_section_that_the_table_leads_to(browser: Window, report: Path) -> None:
    page, _, _ = opened(browser, report)
    links = page.locator("table a[href^='#']")
    assert links.count() == 15
    for index in range(links.count()):
        target = links.nth(index).get_attribute("href")
        name = links.nth(index).inner_text()
        assert name in page.locator(target).inner_text()


def test_the_report_fits_a_phone(browser: Window, report: Path) -> None:
    page, _, _ = opened(browser, report, width=390)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 390
