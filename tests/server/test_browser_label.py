"""A person labels pairs by keyboard, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from assay.families.judges.labelling import (
    SetRequest,
    labels_of_set,
    list_sets,
    make_set,
    results_of,
    set_draft,
)
from assay.library.shelf import Shelf
from assay.store.ledger import open_ledger
from browsing import ALIKE, JOBS, Site, Window, browser, check_accessible, check_fits, chosen
from examples import repeats
from labelling import judged, stored
from serving import Process

__all__ = ["browser"]
PAIRS = repeats(4, 10)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('label')}/l.db"


@pytest.fixture(scope="module")
def server(url: str) -> Iterator[Process]:
    with open_ledger(url) as ledger:
        first, second = (
            stored(ledger, judged(12, version), f"v{version}") for version in ("1", "2")
        )
        for other, asked in ((second, SetRequest(n=PAIRS)), (None, SetRequest(n=3))):
            made = make_set(ledger, Shelf(), first, other, asked, project="default")
            ledger.put_many([set_draft(made)])
    with Process(url, "--quiet") as process:
        yield process


@pytest.fixture
def site(server: Process, browser: Window) -> Iterator[Site]:
    made = Site(server, browser)
    yield made
    made.quiet()
    made.close()


def shown(page: Any, item: int) -> None:
    """Wait until the page of an item is shown and its script listens to keys."""
    page.get_by_role("heading", name=f"Item {item} of {PAIRS}").wait_for()
    page.wait_for_load_state()


@pytest.mark.parametrize("width", JOBS)
def test_pairs_are_labelled_by_keyboard_and_a_draft_survives_a_reload(
    site: Site, url: str, width: int
) -> None:
    page = site.open("/label", width=width)
    page.get_by_role("link", name="v1-pairs-random").click()
    page.get_by_label("Your name").fill(f"anna at {width}")
    page.keyboard.press("Enter")
    shown(page, 1)
    page.keyboard.press("2")
    page.keyboard.press("c")
    page.keyboard.type("the second one j k 1")
    page.reload()
    assert page.get_by_label("Comment").input_value() == "the second one j k 1"
    assert page.get_by_role("radio", name="Second answer").is_checked()
    page.keyboard.press("j")
    shown(page, 2)
    page.keyboard.press("k")
    shown(page, 1)
    for number in range(1, PAIRS + 1):
        shown(page, number)
        page.keyboard.press(str(1 + number % 3))
        page.keyboard.press("Enter")
    page.get_by_text("You have labelled every item").wait_for()
    with open_ledger(url) as ledger:
        pairs = next(one for one in list_sets(ledger, project="default") if one.set.other)
        labels = labels_of_set(ledger, pairs.digest, project="default")
    labels = [one for one in labels if one.label.rater.name == f"anna at {width}"]
    assert len(labels) == len(results_of(pairs, labels).labels) == PAIRS
    assert [one.label.comment for one in labels if one.label.comment] == ["the second one j k 1"]


@pytest.mark.campaign  # by keyboard above
@pytest.mark.parametrize("width", JOBS)
def test_pairs_are_labelled_by_mouse(site: Site, width: int) -> None:
    page = site.open("/label", width=width)
    page.get_by_role("link", name="v1-pairs-random").click()
    page.get_by_label("Your name").fill(f"ben at {width}")
    page.get_by_role("button", name="Continue").click()
    for number, choice in ((1, "First answer"), (2, "Second answer"), (3, "Tie")):
        shown(page, number)
        page.get_by_role("radio", name=choice).check()
        page.get_by_role("button", name="Save").click()
    shown(page, 4)


def test_the_labelling_pages_are_accessible_and_fit_a_phone(site: Site, url: str) -> None:
    with open_ledger(url) as ledger:
        sets = list(list_sets(ledger, project="default"))
    pairs = next(one.set.id for one in sets if one.set.other)
    single = next(one.set.id for one in sets if not one.set.other)
    page = site.open("/label/override?run=hush-1-1")
    page.get_by_label("Your name").fill("ben")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Override").wait_for()
    pages = [
        f"/label{ALIKE}",
        f"/label/{pairs}?item=1",
        f"/label/{single}?item=1{ALIKE}",
        f"/label/{pairs}/results{ALIKE}",
        f"/label/{single}/results{ALIKE}",
        "/label/override?run=hush-1-1",
    ]
    for address in chosen(pages):
        page.goto(site.base + address)
        check_fits(page)
        check_accessible(page)
