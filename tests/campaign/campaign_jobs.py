"""A user's whole job in a real browser: find the worst sample of the last evaluation, see why it
failed, compare with the previous version, label ten pairs, promote. By keyboard and by mouse, at
every width, in both schemes. `make campaign` runs it; the suite has shorter forms of each part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from browsing import Site, Window, browser
from documents import run
from serving import Process

__all__ = ["browser"]

pytestmark = pytest.mark.browser
Way = Literal["keyboard", "mouse"]
MATRIX = list(product(("keyboard", "mouse"), (360, 768, 1280), ("light", "dark")))
WORST = 7


def evaluated(workflow: str, version: int) -> dict[str, Any]:
    """40 answers of a version. One sample ends in an error in both versions, so it is the worst and
    yet no reason to reject the second.
    """
    runs = []
    for index in range(40):
        one = run("rag", run_id=f"{workflow}-{version}-{index}")
        one["workflow"].update(id=workflow, version=str(version))
        one["dataset"].update(id="timetable", sample_id=f"q-{index}")
        one["inputs"] = {"question": f"When does ferry {index} leave?"}
        one["outputs"] = {"answer": f"At {index % 24}:15{', from pier 2' * (version - 1)}."}
        one["started_at"] = f"2026-11-1{version}T10:00:00Z"
        if index == WORST:
            one.update(status="error", outputs={}, metadata={"error": "provider answered 429"})
        runs.append(one)
    return {"name": f"{workflow}-v{version}", "runs": runs}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Process(f"sqlite:///{tmp_path_factory.mktemp('jobs')}/ledger.db", "--quiet") as process:
        yield process


def follow(place: Locator, way: Way) -> None:
    """Use a link or a button, which is visible and within the page."""
    place.scroll_into_view_if_needed()
    expect(place).to_be_in_viewport()
    if way == "mouse":
        place.click()
    else:
        place.focus()
        place.press("Enter")


def find_worst(page: Page, workflow: str, way: Way) -> None:
    """From the overview to the worst sample of the last evaluation, and why it failed."""
    card = page.locator("section.card", has=page.get_by_role("heading", name=workflow, exact=True))
    follow(card.get_by_role("link", name=f"{workflow}-v2", exact=True), way)
    expect(page.get_by_text("1 of 40 samples failed")).to_be_visible()
    if way == "mouse":
        page.locator("table.samples tbody a").first.click()
    else:
        page.keyboard.press("j")
        page.keyboard.press("Enter")
    expect(page.get_by_text(f"When does ferry {WORST} leave?").first).to_be_visible()
    expect(page.get_by_text("provider answered 429").first).to_be_visible()


def compare_and_promote(page: Page, way: Way) -> None:
    """From the sample to the comparison with the previous version, and to the stored decision."""
    follow(page.get_by_role("link", name="Compare the evaluations").first, way)
    expect(page.locator(".outcome").first).to_contain_text("Promote")
    expect(page.get_by_role("table", name="Samples")).to_contain_text(", from pier 2")
    follow(page.get_by_role("button", name="Store this decision"), way)
    expect(page).to_have_url(re.compile(r"/decisions/sha256:"))
    expect(page.locator(".outcome").first).to_contain_text("Promote")


def label_ten(page: Page, workflow: str, way: Way) -> None:
    """Draw ten pairs of the two versions and label each of them."""
    follow(page.get_by_role("navigation", name="Main").get_by_role("link", name="Label"), way)
    for field, value in (
        ("Evaluation", f"{workflow}-v2"),
        ("Compare with", f"{workflow}-v1"),
        ("Items", "10"),
    ):
        page.get_by_label(field, exact=True).fill(value)
    follow(page.get_by_role("button", name="Draw the set"), way)
    name = page.get_by_label("Your name")
    heading = page.get_by_role("heading", level=1)
    expect(name.or_(page.get_by_role("heading", name="Item 1 of 10"))).to_be_visible()
    if name.count():
        name.fill("anna")
        follow(page.get_by_role("button", name="Continue"), way)
    choices = ("First answer", "Second answer", "Tie")
    for number in range(1, 11):
        expect(heading).to_have_text(f"Item {number} of 10")
        if way == "mouse":
            page.get_by_role("radio", name=choices[number % 3]).check()
            page.get_by_role("button", name="Save").click()
        else:
            page.wait_for_load_state()  # keys are heard once the page's script has run
            page.keyboard.press(str(1 + number % 3))
            page.keyboard.press("Enter")
    expect(page.get_by_text("You have labelled every item")).to_be_visible()


@pytest.mark.parametrize(("way", "width", "scheme"), MATRIX)
def test_a_person_finds_the_worst_sample_compares_promotes_and_labels(
    server: Process, browser: Window, way: Way, width: int, scheme: str
) -> None:
    workflow = f"ferries-{way}-{width}-{scheme}"
    for version in (1, 2):
        status, answer = server.call("POST", "/evaluations", evaluated(workflow, version))
        assert status == 201, answer
    site = Site(server, browser)
    page = site.open("/", width=width, color_scheme=scheme)
    find_worst(page, workflow, way)
    compare_and_promote(page, way)
    label_ten(page, workflow, way)
    site.close()
    site.quiet()
