"""A real browser on a real server: what the tests of the pages share. The browser lives for one
module: its loop would hinder tests that start their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, sync_playwright

from serving import Process

RULES_OF_COLOUR = (
    "color-contrast",
    "link-in-text-block",
)  # all that axe checks by colour; nothing else of a page differs in the other scheme
CAMPAIGN = os.environ.get("HYPOTHESIS_PROFILE") == "campaign"
"""Both schemes and every width; the suite has one of each."""
WIDTHS = (360, 768) if CAMPAIGN else (360,)
SCHEMES: tuple[tuple[Literal["light", "dark"], tuple[str, ...]], ...] = (
    ("light", ()),
    ("dark", RULES_OF_COLOUR),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if path is None:
        reason = "no chromium here: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()


class Site:
    """A server with demo data, and what its pages asked for and said in the browser."""

    def __init__(self, server: Process, browser: Any) -> None:
        self.server = server
        self.base = f"http://127.0.0.1:{server.port}"
        self._browser = browser
        self._opened: list[Page] = []
        self.asked: list[str] = []
        self.said: list[str] = []

    def open(self, path: str, *, expected: tuple[str, ...] = (), **options: Any) -> Page:
        """A page; what it says on the console is remembered, but for what is expected."""
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        page: Page = self._browser.new_context(**options).new_page()
        page.on(
            "console",
            lambda message: (
                None
                if any(word in message.text for word in expected)
                else self.said.append(message.text)
            ),
        )
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        self._opened.append(page)
        page.goto(self.base + path)
        return page

    def walk(self, paths: Iterable[str], **options: Any) -> Iterator[tuple[str, Page]]:
        """One page after the other in one tab, each with all that it can show: what is folded is
        open, and every picture is drawn.
        """
        page = self.open("/", **options)
        for path in paths:
            page.goto(self.base + path)
            page.evaluate(
                "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
            )
            draw_all(page)
            yield path, page

    def close(self) -> None:
        """Every page that was opened: one that stays open keeps its streams and its share of the
        machine.
        """
        for page in self._opened:
            page.context.close()

    def quiet(self) -> None:
        """Nothing was said, and nothing was asked of anybody else."""
        assert self.said == [], self.said
        elsewhere = [url for url in self.asked if not url.startswith((self.base, "data:"))]
        assert elsewhere == [], elsewhere


def draw_all(page: Page) -> None:
    """Have the pictures below the fold drawn too."""
    page.evaluate(
        "document.querySelectorAll('img').forEach((image) => { image.loading = 'eager'; })"
    )
    for _ in range(1000):  # a page forbids the evaluation that waiting by a function would need
        if page.evaluate(
            "[...document.images].every((image) => image.complete && image.naturalWidth > 0)"
        ):
            return
        page.wait_for_timeout(10)
    raise AssertionError("a picture does not come")


def violations(page: Page, *, rules: tuple[str, ...] = ()) -> list[Any]:
    """What axe finds on a page as it stands: by every rule, or only by these."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate(
        "(options) => axe.run(options).then((found) => [found.violations, found.passes.length])",
        options,
    )
    assert found[1] > 0, "axe has checked nothing"
    return [
        (one["id"], one["impact"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in found[0]
    ]


def check_accessible(page: Page) -> None:
    """In the light scheme by every rule; in a campaign also in the dark one, which changes nothing
    but colours, by every rule of colour.
    """
    for scheme, rules in SCHEMES if CAMPAIGN else SCHEMES[:1]:
        page.emulate_media(color_scheme=scheme)
        found = violations(page, rules=rules)
        assert found == [], (page.url, scheme, found)


def check_fits(page: Page) -> None:
    """The page is no wider than a phone or a tablet, with everything open."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        window, wide = page.evaluate("[innerWidth, document.scrollingElement.scrollWidth]")
        assert window == width, (page.url, window)
        assert wide <= width, (page.url, width, wide)
    page.set_viewport_size({"width": 1280, "height": 900})
