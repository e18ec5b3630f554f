"""The documentation site: whole, without dead links, and usable from a folder without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from browsing import Window, browser

__all__ = ["browser"]

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a dead link, a lost anchor and a page outside the menu fail."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": ""},
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//")
    assert [page.name for page in pages if loads.search(page.read_text())] == []


@pytest.mark.browser
def test_the_search_works_from_a_folder(site: Path, browser: Window) -> None:
    page = browser.tab()
    outside: list[str] = []
    page.on("request", lambda request: outside.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("critical floor")
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url("**/*.html?h=*")
    assert "floor" in page.locator("article").inner_text()
    assert [url for url in outside if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.browser
def test_the_copy_button_takes_commands_without_their_output(site: Path, browser: Window) -> None:
    page = browser.tab()
    page.goto((site / "tutorials" / "rag.html").as_uri())
    block = page.locator(".highlight code", has_text="$ assay baseline set").first
    block.evaluate("code => code.setAttribute('data-md-copying', '')")  # as the theme does
    assert block.inner_text().strip() == "assay baseline set production fixed"
