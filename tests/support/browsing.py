"""A real browser on a real server: what the tests of the pages share. One browser serves all
modules of a process.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect, sync_playwright

from examples import CAMPAIGN
from serving import Process

expect.set_options(timeout=30_000)  # a busy machine can take longer than the usual 5 seconds

RULES_OF_COLOUR = (
    "color-contrast",
    "link-in-text-block",
)  # all that axe checks by colour; nothing else of a page differs in the other scheme
WIDTHS = (360, 768) if CAMPAIGN else (360,)
JOBS = (360, 768, 1280) if CAMPAIGN else (360,)
"""The widths at which a person does a job from beginning to end."""
SCHEMES: tuple[tuple[Literal["light", "dark"], tuple[str, ...]], ...] = (
    ("light", ()),
    ("dark", RULES_OF_COLOUR),
)


class Window:
    """A browser with one tab for each way to open one: a new tab costs more than most tests do in
    it. Nothing of an earlier test stands in it but what the browser keeps of files.
    """

    def __init__(self, path: str) -> None:
        self._playwright = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        self._started = self._playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        self._tabs: dict[str, Page] = {}

    def resume(self) -> None:
        """Make the browser's loop that of this thread."""
        asyncio._set_running_loop(self._loop)

    def pause(self) -> None:
        """Leave every page, and let others run a loop in this thread."""
        for page in self._tabs.values():
            leave(page)
        asyncio._set_running_loop(None)

    def close(self) -> None:
        self.resume()
        self._started.close()
        self._playwright.stop()

    def tab(
        self, *, color_scheme: Literal["light", "dark"] = "light", width: int = 1280, **options: Any
    ) -> Page:
        kind = json.dumps(options, sort_keys=True)
        if kind not in self._tabs:
            self._tabs[kind] = self._started.new_context(**options).new_page()
        page = self._tabs[kind]
        leave(page)
        page.context.clear_cookies()
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=color_scheme)
        return page


@cache
def _window(path: str) -> Window:
    made = Window(path)
    atexit.register(made.close)
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[Window]:
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        reason = "no chromium here: apt-get install chromium-headless-shell"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    window = _window(path)
    window.resume()
    yield window
    window.pause()


class Site:
    """A server with demo data, and what its pages asked for and said in the browser."""

    def __init__(self, server: Process, browser: Window) -> None:
        self.server = server
        self.base = f"http://127.0.0.1:{server.port}"
        self._browser = browser
        self._heard: list[tuple[Page, str, Any]] = []
        self.asked: list[str] = []
        self.said: list[str] = []

    def open(self, path: str, *, expected: tuple[str, ...] = (), **options: Any) -> Page:
        """A page; what it says on the console is remembered, but for what is expected. The page
        that was opened before it in the same way is gone.
        """

        def hear(text: str) -> None:
            if not any(word in text for word in expected):
                self.said.append(text)

        self.close()
        page = self._browser.tab(**options)
        for event, listener in (
            ("console", lambda message: hear(message.text)),
            ("pageerror", lambda error: self.said.append(str(error))),
            ("request", lambda request: self.asked.append(request.url)),
        ):
            page.on(event, listener)
            self._heard.append((page, event, listener))
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
        """Leave the page, which would keep its streams and its share of the machine."""
        for page, event, listener in self._heard:
            page.remove_listener(event, listener)
        for page in {page: None for page, *_ in self._heard}:
            leave(page)
        self._heard = []

    def quiet(self) -> None:
        """Nothing was said, and nothing was asked of anybody else."""
        assert self.said == [], self.said
        elsewhere = [url for url in self.asked if not url.startswith((self.base, "data:"))]
        assert elsewhere == [], elsewhere


def leave(page: Page) -> None:
    """End the page and its streams."""
    if page.url != "about:blank":  # going there again would cost as much as a page does
        page.goto("about:blank")


def draw_all(page: Page) -> None:
    """Have the pictures below the fold drawn too. A click returns before the next page is there,
    so every look asks again for what that page would put off.
    """
    for _ in range(1000):  # a page forbids the evaluation that waiting by a function would need
        if page.evaluate(
            """() => {
                const images = [...document.images];
                images.forEach((image) => { image.loading = 'eager'; });
                return images.every((image) => image.complete && image.naturalWidth > 0);
            }"""
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


ALIKE = "#alike"
"""At the end of an address: a page whose parts others on the list have too."""
ROW_OF_EACH_KIND = """document.querySelectorAll('tbody').forEach((body) => {
  const seen = new Set();
  [...body.rows].forEach((row) => {
    const kind = row.outerHTML.replace(/>[^<]+</g, '><').replace(/ (?!class|style)[a-z-]+="[^"]*"/g, '');
    if (seen.has(kind)) { row.remove(); }
    seen.add(kind);
  });
})"""


def chosen(paths: list[str]) -> list[str]:
    """All of them in a campaign; in the suite those that are not alike to another."""
    return [path for path in paths if CAMPAIGN or not path.endswith(ALIKE)]


def check_accessible(page: Page) -> None:
    """In the light scheme by every rule, with one row of each kind in a table; in a campaign with
    every row, and also in the dark scheme, which changes nothing but colours, by every rule of
    colour.
    """
    if not CAMPAIGN:
        page.evaluate(ROW_OF_EACH_KIND)
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
