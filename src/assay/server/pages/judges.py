"""Judges: which of them may gate, under which policy, and why not. A card contains measurements and
expires, so whether it admits its judge is decided at the time of viewing.
"""

from __future__ import annotations

from collections.abc import Container
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.grading.policy import JudgeTerms
from assay.judging.card import read_card
from assay.records.judge_card import AuditRecord, CalibrationRecord, JudgeCard
from assay.records.typed import convert
from assay.server import lookup
from assay.server.auth import READ, Principal
from assay.server.pages import judge_parts as parts
from assay.server.pages.judge_parts import StoredCard
from assay.server.pages.layout import page
from assay.server.pages.paging import Cursor, RecordList, record_page
from assay.server.pages.routing import PageRoute
from assay.server.state import SERVICES, Services
from assay.store.drafts import Item
from assay.views.blocks import Column, Empty, Note, Paragraph, Section, Table, section
from assay.views.charts import Chart
from assay.views.charts import judges as charts
from assay.views.charts.agreement import reliability
from assay.views.judge_card import (
    NO_TERMS,
    WITHOUT_TERMS,
    admission_lines,
    agreement_section,
    bias_section,
    estimate,
    judge_charts,
    judge_view,
)
from assay.views.pieces import absent, address, link, moment, phrase, short_digest, shown, small

router = APIRouter(route_class=PageRoute, include_in_schema=False)
FIRST = (
    "assay label new latest\nassay judge calibrate --from-ledger latest --criterion NAME -o"
    " calibration.json\nassay judge card --calibration calibration.json --model MODEL --store"
)
COLUMNS = (
    Column("Judge"),
    Column("May it gate"),
    Column("Agreement with people (kappa)"),
    Column("Labels", "n"),
    Column("Age", "n"),
    Column("Made"),
)
KINDS = ("card", "audit", "calibration")


@router.get("/judges")
def list_judges(
    request: Request,
    principal: Principal = READ,
    services: Services = SERVICES,
    after: Cursor = None,
    before: Cursor = None,
) -> Response:
    """The cards of judges, the newest first."""
    now = datetime.now(UTC)
    terms, current = parts.policies(services), parts.current_cards(services, principal.project)
    return record_page(
        request,
        services,
        principal.project,
        RecordList("card", "Judges", "/judges", lead=f"stored. {_terms_text(terms)}"),
        lambda items: Table(
            "Cards of judges, the newest first",
            COLUMNS,
            [_row(item, terms, now, current) for item in items],
            kind="stack runs",
            absent="No card is stored.",
        ),
        after=after,
        before=before,
        empty=lambda: Empty(
            "No judge has a card in this project yet. Label samples, compare its verdicts with the"
            " labels, and make one:",
            FIRST,
            f"`assay judge audit` adds the biases. {WITHOUT_TERMS}",
        ),
        foot=[_started_with(services, terms, now, current)]
        if services.cards and not after and not before
        else [],
    )


def _terms_text(terms: dict[str, JudgeTerms]) -> str:
    if not terms:
        return NO_TERMS
    return f"Whether a judge may gate is decided as of now, by {', '.join(terms)}. {WITHOUT_TERMS}"


def _row(
    item: Item, terms: dict[str, JudgeTerms], now: datetime, current: Container[str]
) -> list[str]:
    here, stored = address("judges", item.digest), parts.stored_card(item)
    if stored is None:
        return [link("forgotten card", here), *[absent("forgotten")] * 4, moment(item.created_at)]
    card = stored.card
    older = [] if card.digest in current else [small(" older card")]
    return [phrase(link(card.model, here), *older), *_cells(card, terms, now, current)]


def _cells(
    card: JudgeCard, terms: dict[str, JudgeTerms], now: datetime, current: Container[str]
) -> list[str]:
    is_current = card.digest in current
    return [
        admission_lines(parts.admissions(card, terms, now, is_current=is_current)),
        estimate(card.kappa),
        shown(card.n_labelled, "none"),
        parts.age_of(card, now),
        moment(card.made_at),
    ]


def _started_with(
    services: Services, terms: dict[str, JudgeTerms], now: datetime, current: Container[str]
) -> Section:
    """Cards that the server was started with; they aren't in the ledger."""
    cards = [read_card(tree) for tree in services.cards]
    rows = [[card.model, *_cells(card, terms, now, current)] for card in cards]
    title = "Cards that this server was started with"
    return section(title, Table(title, COLUMNS, rows, kind="stack runs"), id="given")


# --- one judge


@router.get("/judges/{digest}")
def show_judge(
    request: Request, digest: str, principal: Principal = READ, services: Services = SERVICES
) -> Response:
    """One card, or an audit or calibration by itself."""
    item = _record(services, principal.project, digest)
    url = address("charts", "judges", digest)
    whole = link("The whole record", address("api", "v1", "records", digest))
    if item.kind != "card":
        title, part = _measured(item, url)
        kind = "an audit" if item.kind == "audit" else "a calibration"
        note = (
            f"This is {kind}, not a card: it lets no judge gate. `assay judge card` makes a card"
            " of it."
        )
        stored = phrase(short_digest(digest), " stored ", moment(item.created_at), ". ", whole)
        record = section("Record", Paragraph(stored), id="record")
        return page(request, title[:200], Note(note), part, record, nav="/judges")
    kept = StoredCard(item, read_card(item.tree(), where=digest))
    now = datetime.now(UTC)
    cards = parts.cards_of(services, principal.project, kept.card.model)
    is_current = kept.card.digest in parts.current_cards(services, principal.project)
    view = judge_view(
        kept.card,
        parts.admissions(kept.card, parts.policies(services), now, is_current=is_current),
        age=parts.age_of(kept.card, now),
        url=url,
        notes=[_newer(cards[0])] if cards and cards[0].made > kept.made else [],
        drift=parts.drift_view(kept, cards),
        used=[parts.used_section(services, principal.project, kept.card)],
        label_page="/label" if "/label" in request.app.state.page_paths else "",
        more=[
            ("Made of", _made_of(services, principal.project, digest)),
            ("Record", phrase(short_digest(digest), " ", whole)),
            ("Stored", moment(item.created_at)),
            ("By", shown(item.author)),
        ],
    )
    return page(request, f"Judge {kept.card.model}"[:200], *view, nav="/judges")


def _newer(last: StoredCard) -> Note:
    where = short_digest(last.item.digest, address("judges", last.item.digest))
    return Note(phrase("There is a newer card of this judge: ", where, "."))


def _made_of(services: Services, project: str, digest: str) -> str:
    """Links to the audit and the calibration of a card, if they are stored."""
    sources = services.ledger.made_of(digest, project=project)[:20]
    if not sources:
        return absent("not stored")
    return phrase(
        *[
            part
            for digest in sources
            for part in (short_digest(digest, address("judges", digest)), " ")
        ]
    )


def _record(services: Services, project: str, digest: str) -> Item:
    item = lookup.record(services, project, None, digest)
    if item.kind not in KINDS:
        raise lookup.absent("judge", digest)
    return item


def _measured(item: Item, url: str) -> tuple[str, Section]:
    """The title and the one section of an audit or a calibration."""
    if item.kind == "audit":
        audit = convert(item.tree(), AuditRecord)
        return f"Audit of {audit.judge.get('model')}", bias_section(audit.biases, url=url)
    calibration = convert(item.tree(), CalibrationRecord)
    return "Calibration of a judge", agreement_section(calibration.agreement, calibration, url=url)


def judge_chart(services: Services, project: str, digest: str, name: str) -> Chart | None:
    """A chart of a card, an audit or a calibration by its name; None if the name is unknown."""
    item = _record(services, project, digest)
    if item.kind == "audit":
        return charts.bias(convert(item.tree(), AuditRecord).biases) if name == "bias" else None
    if item.kind == "calibration":
        calibration = convert(item.tree(), CalibrationRecord)
        drawn = [
            reliability(calibration.agreement, calibration.n_labelled),
            charts.confusion(calibration.agreement),
        ]
        return next((chart for chart in drawn if chart.name == name), None)
    card = read_card(item.tree(), where=digest)
    if name == "drift":
        return parts.drift_chart(parts.cards_of(services, project, card.model))
    return next((chart for chart in judge_charts(card) if chart.name == name), None)
