"""One item of a label set at a time: what was asked and answered, and the form for the rater's own
verdict. Also the results of a set's labels.

The page shows no score, no grade, no version and no other rater's label. It hides the names of a
pair, and each rater gets a different order. Every form stores its label, so a reload or the end of
a session loses at most what is being typed, which the page's script keeps too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from assay.archive.label_results import results_of
from assay.archive.label_saving import set_label
from assay.archive.label_sets import find_set, order_for, side_order
from assay.archive.labels import current, labels_of_set
from assay.errors import UsageError
from assay.records.label import LabelItem, Rater
from assay.server.auth import READ, WRITE, Principal
from assay.server.lookup import absent
from assay.server.pages.label_rater import ask_name, rater_of, save_label, sentence
from assay.server.pages.layout import page
from assay.server.pages.routing import SENT, PageRoute
from assay.server.problems import Problem
from assay.server.state import SERVICES, Services
from assay.store.drafts import digest_bytes
from assay.store.reading import stored_of
from assay.views.blocks import Note, Paragraph
from assay.views.label_texts import shown_run
from assay.views.label_use import use_section
from assay.views.labels import StoredLabel, StoredSet, drawn_from, results_view
from assay.views.pieces import link, listed, moment, phrase

router = APIRouter(route_class=PageRoute, include_in_schema=False)
NAV = "/label"
SIDES = {"ab": {"first": "a", "second": "b"}, "ba": {"first": "b", "second": "a"}}
"""Which answers of a pair are the first and the second on the page."""


class RaterPlace(NamedTuple):
    """Where a rater is in a set."""

    stored: StoredSet
    rater: Rater
    order: list[LabelItem]
    own: dict[str, StoredLabel]
    """The rater's labels, by run."""
    gone: frozenset[str]
    """Items that can't be labelled, because a run was forgotten."""

    def at(self, number: int) -> int | None:
        """The place of an item in the rater's order, by its number in the set."""
        items = self.stored.set.items
        return self.order.index(items[number - 1]) if 1 <= number <= len(items) else None

    def address(self, place: int) -> str:
        """The address of an item, by its place in the rater's order."""
        number = self.stored.set.items.index(self.order[place]) + 1
        return f"/label/{self.stored.set.id}?item={number}"

    def open_after(self, place: int) -> int | None:
        """The next place without a label, wrapping around to the beginning."""
        whole = len(self.order)
        places = [(place + step) % whole for step in range(1, whole + 1)]
        done = self.own.keys() | self.gone
        return next((place for place in places if self.order[place].run not in done), None)


def _set(services: Services, project: str, name: str) -> StoredSet:
    stored = find_set(services.ledger, name, project=project)
    if stored is None:
        raise absent("label set", name)
    return stored


def _place(services: Services, project: str, stored: StoredSet, rater: Rater) -> RaterPlace:
    labels = labels_of_set(services.ledger, stored.digest, project=project)
    own = {stored.label.run: stored for stored in current(labels) if stored.label.rater == rater}
    wanted = {
        item.run: [item.run, *([item.other] if item.other else [])] for item in stored.set.items
    }
    digests = [digest_bytes(digest) for runs in wanted.values() for digest in runs]
    there = set(stored_of(services.ledger.database, project, digests))
    gone = frozenset(run for run, runs in wanted.items() if not there.issuperset(runs))
    return RaterPlace(stored, rater, order_for(stored, rater), own, gone)


@router.get("/label/{name}")
def show_item(
    request: Request,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    item: Annotated[int | None, Query(ge=1)] = None,
    saved: str = "",
) -> Response:
    """The requested item, or the first one without a label."""
    stored = _set(services, principal.project, name)
    rater = rater_of(request, principal)
    if rater is None:
        return ask_name(request)
    place = _place(services, principal.project, stored, rater)
    at = place.open_after(-1) if item is None else place.at(item)
    if at is None:
        if item is not None:
            raise absent("item", f"{name}, item {item}")
        return RedirectResponse(f"/label/{stored.set.id}/results?done=yes", 303)
    return _item_page(request, services, principal, place, at, saved=saved)


def _item_page(
    request: Request,
    services: Services,
    principal: Principal,
    place: RaterPlace,
    at: int,
    *,
    sent: Mapping[str, str] | None = None,
    problem: str = "",
    saved: str = "",
) -> Response:
    label_set, item = place.stored.set, place.order[at]
    wanted = [item.run, *([item.other] if item.other else [])]
    records = services.ledger.get_many(wanted, project=principal.project)
    runs = [
        shown_run(record.checked())
        for digest in wanted
        if (record := records.get(digest)) is not None and record.body is not None
    ]
    is_gone = len(runs) < len(wanted)
    order = side_order(place.stored, place.rater, item)
    if order == "ba":
        runs.reverse()
    known = place.own.get(item.run)
    number = label_set.items.index(item) + 1
    rule = (
        "A correction counts for 10 minutes, unless somebody else labels the item first. Later"
        " changes are kept but don't count."
    )
    before = known and Note(phrase("You labelled this ", moment(known.at), ". ", rule), kind="good")
    return page(
        request,
        f"Item {at + 1:,} of {len(place.order):,}",
        Note(problem, kind="bad") if problem else before,
        nav=NAV,
        status=422 if problem else 200,
        scripts=("label.js",),
        template="label_item.html",
        set=label_set,
        number=number,
        saved=saved if saved.isascii() and saved.isdigit() else "",
        runs=[] if is_gone else runs,
        is_gone=is_gone,
        # Only pairs with equal inputs are drawn: the question is the same on both sides.
        shared=None if is_gone else runs[0],
        values=_values(place, item, known) if sent is None else sent,
        done=len(place.own),
        rater=place.rater,
        drafts=f"{label_set.id}/{place.rater.by}/{place.rater.id or place.rater.name}",
        previous=place.address(at - 1) if at else "",
        following=place.address(at + 1) if at + 1 < len(place.order) else "",
        can_write="write" in principal.scopes,
        choices=(
            ("first", "First answer"),
            ("second", "Second answer"),
            ("tie", "Tie"),
        ),
    )


def _values(place: RaterPlace, item: LabelItem, known: StoredLabel | None) -> dict[str, str]:
    """The rater's label as the fields of its form."""
    if known is None:
        return {}
    values = {"comment": known.label.comment}
    if known.label.pair is not None:
        sides = SIDES[side_order(place.stored, place.rater, item)]
        values["choice"] = next(
            (side for side, which in sides.items() if which == known.label.pair.choice), "tie"
        )
    rubric = place.stored.set.rubric
    for index, criterion in enumerate(rubric.criteria if rubric else ()):
        if criterion.name in (known.label.scores or {}):
            values[f"c{index}"] = str((known.label.scores or {})[criterion.name])
    return values


@router.post("/label/{name}")
async def save_item(
    request: Request,
    name: str,
    sent: Mapping[str, str] = SENT,
    principal: Principal = WRITE,
    services: Services = SERVICES,
) -> Response:
    """Store the label of an item, and go on to the next one without a label."""
    stored = await asyncio.to_thread(_set, services, principal.project, name)
    rater = rater_of(request, principal)
    if rater is None:
        raise Problem(
            409, "the rater's name is missing.", fix="Open the set and type your name first."
        )
    place = await asyncio.to_thread(_place, services, principal.project, stored, rater)
    number = sent.get("item", "")
    at = (
        place.at(int(number)) if number.isascii() and number.isdigit() and len(number) < 6 else None
    )
    if at is None:
        raise Problem(422, "the form names no item of this set.", where="item")
    item = place.order[at]
    order = side_order(stored, rater, item)
    rubric = stored.set.rubric
    try:
        label = set_label(
            stored,
            item,
            rater,
            scores={
                criterion.name: sent.get(f"c{index}", "")
                for index, criterion in enumerate(rubric.criteria if rubric else ())
            },
            choice=SIDES[order].get(sent.get("choice", ""), sent.get("choice", "")),
            order=order,
            comment=sent.get("comment", ""),
        )
    except UsageError as error:
        return await asyncio.to_thread(
            _item_page, request, services, principal, place, at, sent=sent, problem=sentence(error)
        )
    await save_label(services, principal, label)
    following = place._replace(gone=place.gone | {item.run}).open_after(at)
    to = (
        f"/label/{stored.set.id}/results?done=yes"
        if following is None
        else f"{place.address(following)}&saved={number}"
    )
    return RedirectResponse(to, 303)


@router.get("/label/{name}/results")
def show_results(
    request: Request,
    name: str,
    principal: Principal = READ,
    services: Services = SERVICES,
    done: str = "",
) -> Response:
    """The results of a set's labels. For an item that the reader has not labelled, no label is
    shown.
    """
    stored = _set(services, principal.project, name)
    labels = labels_of_set(services.ledger, stored.digest, project=principal.project)
    rater = rater_of(request, principal)
    seen = {stored.label.run for stored in labels if stored.label.rater == rater}
    label_set = stored.set
    numbers = {item.run: number for number, item in enumerate(label_set.items, 1)}
    parts = results_view(
        results_of(stored, labels),
        seen=seen,
        href=lambda item: f"/label/{label_set.id}?item={numbers[item.run]}",
    )
    left = len(label_set.items) - len(seen)
    thanks = Note("You have labelled every item of this set. Thank you.", kind="good")
    more = link(f"Label ({left:,} left for you)", f"/label/{label_set.id}") if left else ""
    ways = filter(None, (more, link("Label sets", "/label")))
    return page(
        request,
        label_set.name,
        Paragraph(listed(ways, " · ")),
        thanks if done and left <= 0 else None,
        *parts,
        use_section(label_set),
        nav=NAV,
        lead=f"{'Pairs' if label_set.other else 'Scores'} of {drawn_from(label_set)}",
    )
