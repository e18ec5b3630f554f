"""The documentation site: whole, without dead links, and usable from a folder without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from browsing import Window, browser
from checkout import ROOT
from once import once

sys.path.insert(0, str(ROOT / "docs"))
import versions

__all__ = ["browser"]


@pytest.fixture(scope="module")
def site() -> Path:
    """The site, built strictly: a dead link, a lost anchor and a page outside the menu fail."""

    def build(folder: Path) -> None:
        made = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={"NO_MKDOCS_2_WARNING": "1", "PATH": ""},
        )
        assert made.returncode == 0, made.stdout + made.stderr
        versions.write_versions(folder, "1.0")

    return once("site", build)


ID = re.compile(r"""\s(?:id|name)="?([^"\s>]+)""")
LINK = re.compile(r"""\s(?:href|src)="?([^&"\s>][^"\s>]*)""")
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//")


@pytest.mark.campaign
def test_every_link_and_anchor_leads_somewhere_and_nothing_is_loaded_from_elsewhere(
    site: Path,
) -> None:
    texts = {str(path): path.read_text("utf-8") for path in site.rglob("*.html")}
    assert len(texts) > 50
    ids = {path: set(ID.findall(text)) for path, text in texts.items()}
    faults = {f"{path} loads from elsewhere" for path in texts if LOADED.search(texts[path])}
    for path, text in texts.items():
        folder = os.path.dirname(path)
        for link in set(LINK.findall(text)):
            if re.match(r"[a-z]+:|//", link) or path.endswith("404.html"):
                continue  # the page 404 is for servers: its links begin with a slash
            name, _, anchor = unquote(unescape(link)).partition("#")
            target = os.path.normpath(os.path.join(folder, name)) if name else path
            if target not in texts and not os.path.isfile(target):
                faults.add(f"{path}: no file {link}")
            elif anchor and target in texts and anchor not in ids[target]:
                faults.add(f"{path}: no anchor {link}")
            elif not target.startswith(f"{site}{os.sep}"):
                faults.add(f"{path}: leaves the site by {link}")
    assert not faults, "\n".join(sorted(faults)[:40])
    assert not [path for path in site.rglob("*.css") if "url(http" in path.read_text("utf-8")]


def test_versions_in_folders_are_listed_in_each_version(tmp_path: Path) -> None:
    for folder in ("", "v1", "v2", "images"):
        (tmp_path / folder / "search").mkdir(parents=True)
        if folder != "images":
            (tmp_path / folder / "search" / "search_index.json").touch()
    versions.write_versions(tmp_path, "3 & more")
    assert re.findall(r'href="([^"]+)">([^<]+)', (tmp_path / "versions.html").read_text()) == [
        ("index.html", "3 &amp; more"),
        ("v1/index.html", "v1"),
        ("v2/index.html", "v2"),
    ]
    assert '"../v2/index.html"' in (tmp_path / "v1" / "versions.html").read_text()
    assert not (tmp_path / "images" / "versions.html").exists()


@pytest.mark.campaign
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
    for scheme, dark in (("light", False), ("dark", True)):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_selector(f"body[data-md-color-scheme={'slate' if dark else 'default'}]")
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades = [int(one) for one in re.findall(r"\d+", colour)[:3]]
        assert (max(shades) < 80) is dark, colour
    assert "Version" in page.locator(".md-banner").inner_text()
    assert [url for url in outside if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.mark.campaign
@pytest.mark.browser
def test_the_copy_button_takes_commands_without_their_output(site: Path, browser: Window) -> None:
    page = browser.tab()
    page.goto((site / "tutorials" / "rag.html").as_uri())
    block = page.locator(".highlight code", has_text="$ assay baseline set").first
    block.evaluate("code => code.setAttribute('data-md-copying', '')")  # as the theme does
    assert block.inner_text().strip() == "assay baseline set production fixed"
