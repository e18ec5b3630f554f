"""Judges: which of them may gate, under which policy, and why not. A card contains measurements and
expires, so whether it admits its judge is decided at the time of viewing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.canon import time_of
from assay.errors import AssayError
from assay.families.judges import charts, label_pages
from assay.families.judges.charts import reliability
from assay.families.judges.drift import compare_cards
from assay.families.judges.views import (
    NO_TERMS,
    DriftView,
    admission_lines,
    age_text,
    agreement_section,
    bias_section,
    estimate,
    judge_charts,
    judge_view,
)
from assay.grading.policy import JudgeTerms, Policy, make_rules
from assay.judging.card import WITHOUT_TERMS, admit, age_days, check_card, newest, read_card
from assay.records.judge_card import (
    AuditRecord,
    CalibrationRecord,
    CardAdmission,
    CardTerm,
    JudgeCard,
)
from assay.records.typed import convert
from assay.server import bodies, lookup, openapi
from assay.server.auth import JUDGE, READ, Principal
from assay.server.pages.layout import Cursor, PageRoute, RecordList, page, record_page
from assay.server.routing import Route
from assay.server.served import Alarm, Served
from assay.server.state import SERVICES, Services
from assay.services.samples import newest_evaluations
from assay.store.drafts import Item, draft
from assay.views.blocks import Column, Empty, Note, Paragraph, Section, Table, section
from assay.views.charts import Chart, trends
from assay.views.evaluation import versioned
from assay.views.pieces import (
    absent,
    address,
    link,
    moment,
    number,
    phrase,
    short_digest,
    shown,
    small,
    verdict,
)

CARDS = 200
"""How many cards are searched for those of the same judge."""
REPLACED = "a newer card of this judge counts instead"


class StoredCard(NamedTuple):
    """A card in the ledger."""

    item: Item
    card: JudgeCard

    @property
    def made(self) -> datetime:
        """When the card was made; one that doesn't say so is the oldest."""
        return time_of(self.card.made_at, UTC) or datetime.min.replace(tzinfo=UTC)


def policies(services: Services) -> dict[str, JudgeTerms]:
    """The policies on the shelf that have terms for judges, the server's own first."""
    by_policy: dict[str, JudgeTerms] = {}
    for name in dict.fromkeys(
        [services.settings.policy, *(entry.id for entry in services.shelf.entries("policies"))]
    ):
        loaded = services.shelf.load("policies", name)
        terms = make_rules(loaded).judge_terms if isinstance(loaded, Policy) else None
        if terms is not None:
            by_policy[loaded.id] = terms
    return by_policy


def current_cards(services: Services, project: str) -> dict[str, tuple[JudgeCard, str]]:
    """The cards that count for their judges, by digest, each with the address of its page: those in
    the ledger, and those that the server was started with.
    """
    pages = [(read_card(tree), "/judges") for tree in services.cards]
    items = services.ledger.find("card", project=project, limit=CARDS, newest_first=True).items
    for stored in filter(None, map(stored_card, items)):
        pages.append((stored.card, address("judges", stored.item.digest)))
    page_of = {card.digest: page for card, page in pages}
    counting = newest(card for card, _ in pages).values()
    return {card.digest: (card, page_of[card.digest]) for listed in counting for card in listed}


def admissions(
    card: JudgeCard, terms: dict[str, JudgeTerms], now: datetime, *, is_current: bool
) -> list[CardAdmission]:
    """Whether a judge may gate now, under each policy with terms. A card that others have replaced
    lets nobody gate.
    """
    by_policy = []
    for policy, required in terms.items():
        admission = admit(card, required, now=now)
        listed = [CardTerm(term.id, term.holds, term.sentence) for term in admission.terms]
        reason = admission.reason
        if not is_current:
            listed.append(CardTerm("replaced", False, REPLACED))
            reason = REPLACED if admission.may_gate else f"{reason}; {REPLACED}"
        may_gate = admission.may_gate and is_current
        by_policy.append(CardAdmission(may_gate, policy, reason, listed))
    return by_policy


def age_of(card: JudgeCard, now: datetime) -> str:
    """The age of a card's oldest answer in words."""
    return age_text(age_days(card, now))


def stored_card(item: Item) -> StoredCard | None:
    """A card of the ledger; None if it was forgotten."""
    known = item.body is not None
    return StoredCard(item, read_card(item.tree(), where=item.digest)) if known else None


def cards_of(services: Services, project: str, model: str) -> list[StoredCard]:
    """The stored cards of one judge among the newest, the newest first."""
    items = services.ledger.find("card", project=project, limit=CARDS, newest_first=True).items
    cards = [
        card for card in map(stored_card, items) if card is not None and card.card.model == model
    ]
    return sorted(cards, key=lambda card: card.made, reverse=True)


def drift_chart(cards: Sequence[StoredCard]) -> Chart:
    """The agreement on each card, the oldest first."""
    return trends.drift([card.card for card in reversed(cards)])


def drift_view(shown_card: StoredCard, cards: Sequence[StoredCard]) -> DriftView:
    """How the judge has drifted: its cards over time, and whether its answers have changed."""
    rows = [
        [
            phrase(short_digest(stored.item.digest), " this one")
            if stored.item.digest == shown_card.item.digest
            else link(short_digest(stored.item.digest), address("judges", stored.item.digest)),
            moment(stored.card.made_at),
            estimate(stored.card.kappa, stored.card.n_labelled),
            shown(stored.card.prompt_version, "none"),
        ]
        for stored in cards
    ]
    outcome, reason = _drifted(shown_card, cards)
    for made_at in filter(None, {stored.card.made_at for stored in cards}):
        reason = reason.replace(made_at, str(moment(made_at)))
    return DriftView(outcome, reason, drift_chart(cards), rows)


USED = 20
LOOKED_AT = 200
"""How many evaluations are searched for those of one judge."""


def used_section(services: Services, project: str, card: JudgeCard) -> Section:
    """The newest evaluations that asked this judge."""
    evaluations = newest_evaluations(services.ledger, project, LOOKED_AT)
    rows = []
    for evaluation in [stored.evaluation for stored in evaluations]:
        judge = evaluation.settings.get("judge")
        named = (judge.get("model"), judge.get("name")) if isinstance(judge, dict) else ()
        if card.model not in named:
            continue
        totals = evaluation.totals
        rows.append(
            [
                link(evaluation.name, address("evaluations", evaluation.id)),
                versioned(evaluation.workflow),
                versioned(evaluation.dataset),
                number(totals.pass_rate.value, interval=totals.pass_rate, n=totals.n, percent=True),
                moment(evaluation.started),
            ]
        )
    absent = (
        f"None of the newest {LOOKED_AT} evaluations asked this judge."
        if len(evaluations) == LOOKED_AT
        else "No stored evaluation asked this judge."
    )
    columns = ("Evaluation", "Workflow", "Dataset", Column("Pass rate", "n"), "Started")
    title = "Evaluations that asked it"
    return section(
        title,
        Table(title, columns, rows[:USED], absent=absent, kind="stack runs"),
        id="used",
        hint=f"The newest {USED} of {len(rows)}." if len(rows) > USED else "",
    )


def _drifted(latest: StoredCard, cards: Sequence[StoredCard]) -> tuple[str, str]:
    past = [card.item.tree() for card in cards if card.made < latest.made]
    if not past:
        return "", "There is no older card of this judge to compare this one with."
    try:
        drift = compare_cards(past, latest.item.tree())
    except AssayError as error:
        drift = {"alarm": None, "reason": error.message}
    words = {True: ("fails", "It has drifted"), False: ("holds", "No drift found")}
    return verdict(*words.get(drift["alarm"], ("undetermined", "Drift unknown"))), drift["reason"]


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
    terms, current = policies(services), current_cards(services, principal.project)
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
    here, stored = address("judges", item.digest), stored_card(item)
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
        admission_lines(admissions(card, terms, now, is_current=is_current)),
        estimate(card.kappa),
        shown(card.n_labelled, "none"),
        age_of(card, now),
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
    cards = cards_of(services, principal.project, kept.card.model)
    is_current = kept.card.digest in current_cards(services, principal.project)
    view = judge_view(
        kept.card,
        admissions(kept.card, policies(services), now, is_current=is_current),
        age=age_of(kept.card, now),
        url=url,
        notes=[_newer(cards[0])] if cards and cards[0].made > kept.made else [],
        drift=drift_view(kept, cards),
        used=[used_section(services, principal.project, kept.card)],
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
        return drift_chart(cards_of(services, project, card.model))
    return next((chart for chart in judge_charts(card) if chart.name == name), None)


def _of_cards(services: Services, project: str) -> Iterable[Alarm]:
    """Judges whose newest card is too old to gate, by the first policy on the shelf that has terms
    for judges.
    """
    terms = next(iter(policies(services).values()), None)
    if terms is None:
        return
    for card, href in current_cards(services, project).values():
        stale = [
            term.sentence
            for term in admit(card, terms, now=datetime.now(UTC)).terms
            if term.id == "age" and term.holds is not True
        ]
        if stale:
            yield Alarm("open", f"Judge {card.model} may not gate: {stale[0]}.", href)


routes = APIRouter(route_class=Route, prefix="/api/v1", tags=["records"], responses=openapi.EVERY)


@routes.post(
    "/cards",
    status_code=201,
    summary="Post the card of a judge",
    responses=openapi.POSTED,
    openapi_extra=openapi.body({"type": "object"}),
)
async def post_card(
    request: Request, principal: Principal = JUDGE, services: Services = SERVICES
) -> Response:
    """A card made by `assay judge card`. Policies with terms for judges use the cards of their
    project.
    """
    tree = await bodies.tree(request, services.settings)
    card = check_card(tree, where="body", now=datetime.now(UTC))
    stored = (
        await services.writer.put(
            principal.project, [draft(card, kind="card", author=principal.author)]
        )
    )[0]
    services.forget_cards(principal.project)
    return bodies.created(request, stored, "cards")


SERVED = Served(
    pages=(label_pages.router, router),
    routes=(routes,),
    menu={"/label": "Label", "/judges": "Judges"},
    charts={"judges": judge_chart},
    alarms=_of_cards,
    of_run=label_pages.people_of_run,
    of_evaluation=label_pages.people_of_evaluation,
)
