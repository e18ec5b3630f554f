"""Judges: which of them may gate, under which policy, and why not. A card holds measurements and
grows old: whether it admits its judge is told as of now.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from assay.server import lookup
from assay.server.auth import Principal
from assay.server.pages import judge_parts as parts
from assay.server.pages.decision_parts import contents
from assay.server.pages.layout import (
    Column,
    address,
    empty,
    link,
    note,
    number,
    page,
    section,
    short,
    table,
    verdict,
    when,
)
from assay.server.pages.paging import Cursor, listed, mapped, ways
from assay.server.pages.routing import READER, PageRoute
from assay.views.charts import judges as charts
from assay.views.markup import Html, join, say, tag

if TYPE_CHECKING:
    from assay.grading.policy import JudgeTerms
    from assay.server.state import Services
    from assay.store.drafts import Item
    from assay.views.charts import Chart

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ON_A_PAGE = 50
FIRST = (
    "assay judge calibrate --labels labels.jsonl -o calibration.json\nassay judge card"
    " --calibration calibration.json --model MODEL --store .assay/ledger.db"
)
COLUMNS = (
    Column("Judge"),
    Column("May it gate"),
    Column("Kappa with people"),
    Column("Labels", "n"),
    Column("Age"),
    Column("Made"),
)
SECTIONS = (
    ("terms", "Terms"),
    ("agreement", "Agreement"),
    ("biases", "Biases"),
    ("drift", "Drift"),
    ("origin", "What it is about"),
)
KINDS = ("card", "audit", "calibration")


@router.get("/judges")
def list_judges(
    request: Request, principal: Principal = READER, after: Cursor = None, before: Cursor = None
) -> Response:
    """The cards of judges, the newest first."""
    services: Services = request.app.state.services
    now = datetime.now(UTC)
    terms = parts.policies(services)
    found = listed(
        services, principal.project, "card", {}, after=after, before=before, limit=ON_A_PAGE
    )
    given = (
        _given(services, terms, now) if services.cards and not after and not before else Html("")
    )
    if not found.items and not after and not before and not given:
        more = (
            "`assay judge audit` adds the biases. Without a card no judge gates under a policy that"
            " asks for one."
        )
        return page(
            request,
            "Judges",
            empty(
                "No judge has a card in this project yet. Hold its verdicts against people's"
                " labels, and make one:",
                FIRST,
                more=more,
            ),
            nav="/judges",
        )
    cards = [(item, mapped(item.tree()) if item.body is not None else None) for item in found.items]
    newest: dict[str, str] = {}
    for _, card in cards:
        if card is not None:
            newest[str(card.get("model"))] = max(
                newest.get(str(card.get("model")), ""), str(card.get("made_at"))
            )
    rows = [
        _row(
            item,
            card,
            terms,
            now,
            old=card is not None and str(card.get("made_at")) < newest[str(card.get("model"))],
        )
        for item, card in cards
    ]
    shown = table(
        "Cards of judges, the newest first",
        COLUMNS,
        rows,
        kind="stack runs",
        absent="No card is stored.",
    )
    tally = services.ledger.count("card", project=principal.project)
    lead = f"{tally.n:,} card{'' if tally.n == 1 else 's'} stored. {_asked(terms)}"
    return page(
        request,
        "Judges",
        shown,
        given,
        ways("judges", {}, found, what="card", paged=bool(after or before)),
        nav="/judges",
        lead=lead,
    )


def _asked(terms: dict[str, JudgeTerms]) -> str:
    if not terms:
        return "No policy on this shelf asks anything of a judge, so none gates here."
    return (
        f"Whether a judge may gate is told as of now, by {', '.join(terms)}; by any other policy no"
        " card is asked for."
    )


def _row(
    item: Item,
    card: dict[str, Any] | None,
    terms: dict[str, JudgeTerms],
    now: datetime,
    *,
    old: bool,
) -> list[str]:
    if card is None:
        return [
            link("forgotten card", address("judges", item.digest)),
            *[say(None, "forgotten")] * 4,
            when(item.created_at),
        ]
    name = join(
        [
            link(str(card.get("model")), address("judges", item.digest)),
            *([tag("small", " older card")] if old else []),
        ]
    )
    return [name, *_told(card, terms, now), when(card.get("made_at"))]


def _told(card: dict[str, Any], terms: dict[str, JudgeTerms], now: datetime) -> list[str]:
    lines = []
    for policy, asked in terms.items():
        found = parts.admitted(card, asked, now)
        said = verdict("passed", "may gate") if found.may_gate else verdict("fails", "may not gate")
        why = [] if found.may_gate else [tag("small", f": {found.reason}")]
        lines.append(tag("span", said, " ", tag("small", f"under {policy}"), *why, class_="line"))
    agreed = parts.kappa(card)
    return [
        join(lines) if lines else verdict("none", "no policy asks"),
        number(agreed.get("value"), interval=agreed or None, digits=3, absent="not measured"),
        say(mapped(card.get("calibration")).get("n_labelled"), "none"),
        parts.age_text(card, now),
    ]


def _given(services: Services, terms: dict[str, JudgeTerms], now: datetime) -> Html:
    """Cards that the server was started with; they are in no ledger."""
    rows = [
        [str(card.get("model")), *_told(card, terms, now), when(card.get("made_at"))]
        for card in services.cards
    ]
    return section(
        "Cards that this server was started with",
        table("Cards that this server was started with", COLUMNS, rows, kind="stack runs"),
        id="given",
    )


# --- one judge


@router.get("/judges/{digest}")
def show_judge(request: Request, digest: str, principal: Principal = READER) -> Response:
    """One card; an audit or a calibration by itself is shown as far as it goes."""
    services: Services = request.app.state.services
    item, card = _found(services, principal.project, digest)
    now = datetime.now(UTC)
    url = address("charts", "judges", digest)
    if item.kind != "card":
        said = (
            f"This is {'an audit' if item.kind == 'audit' else 'a calibration'}, not a card: it"
            " admits nobody. `assay judge card` makes a card of it."
        )
        body = [
            note(said),
            parts.agreement(card, url) if item.kind == "calibration" else parts.bias(card, url),
        ]
        record = section(
            "Record",
            tag(
                "p",
                short(digest),
                " stored ",
                when(item.created_at),
                ". ",
                link("The whole record", address("api", "v1", "records", digest)),
            ),
            id="record",
        )
        title = (
            f"Audit of {card.get('model')}" if item.kind == "audit" else "Calibration of a judge"
        )
        return page(request, title[:200], *body, record, nav="/judges")
    terms = parts.policies(services)
    cards = parts.cards_of(services, principal.project, card.get("model"))
    newer = [told for told in cards if str(told.card.get("made_at")) > str(card.get("made_at"))]
    last = max(newer, key=lambda told: str(told.card.get("made_at"))) if newer else None
    older = (
        [
            note(
                join(
                    [
                        "There is a newer card of this judge: ",
                        short(last.item.digest, address("judges", last.item.digest)),
                        ".",
                    ]
                )
            )
        ]
        if last is not None
        else []
    )
    body = [
        parts.head(card, terms, now),
        *older,
        parts.figures(card, now),
        contents(SECTIONS),
        parts.term_tables(card, terms, now),
        parts.agreement(card, url),
        parts.bias(card, url),
        parts.drift(card, cards, url, digest),
        parts.origin(card, item, services, principal.project),
    ]
    return page(request, f"Judge {card.get('model')}"[:200], *body, nav="/judges")


def _found(services: Services, project: str, digest: str) -> tuple[Item, dict[str, Any]]:
    """A card, or an audit or calibration in the place that it has on a card."""
    item = lookup.record(services, project, None, digest)
    if item.kind not in KINDS:
        raise lookup.absent("judge", digest)
    tree = mapped(item.tree())
    if item.kind == "audit":
        return item, {
            "biases": tree.get("biases"),
            "model": mapped(tree.get("judge")).get("model"),
            "audit_items": tree.get("items"),
        }
    return item, (
        tree
        if item.kind == "card"
        else {
            "calibration": tree,
            "agreement": tree.get("agreement"),
        }
    )


def judge_chart(services: Services, project: str, digest: str, name: str) -> Chart | None:
    """A chart of a card by its name; None where there is none of that name."""
    item, card = _found(services, project, digest)
    if name == "drift":
        return charts.drift(
            parts.drift_points(parts.cards_of(services, project, card.get("model")))
            if item.kind == "card"
            else []
        )
    return (
        {"calibration": charts.calibration, "confusion": charts.confusion, "bias": charts.bias}[
            name
        ](card)
        if name in ("calibration", "confusion", "bias")
        else None
    )
