"""What the pages of judges read from the ledger: cards, policies with terms, and drift."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from assay.archive.compared import newest_evaluations
from assay.canon import time_of
from assay.errors import AssayError
from assay.grading.policy import JudgeTerms, Policy, make_rules
from assay.judging.card import admit, age_days, newest, read_card
from assay.judging.drift import compare_cards
from assay.records.judge_card import CardAdmission, CardTerm, JudgeCard
from assay.server.state import Services
from assay.store.drafts import Item
from assay.views.blocks import Column, Section, Table, section
from assay.views.charts import Chart, trends
from assay.views.evaluation import versioned
from assay.views.judge_card import DriftView, age_text, estimate
from assay.views.pieces import address, link, moment, number, phrase, short_digest, shown, verdict

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
