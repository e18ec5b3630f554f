"""What a judge's card says, part by part: whether it may gate and under which policy, how it agrees
with people, its biases, and how it moved.

Anybody may post a card whose digest fits, so nothing in it is of a shape that can be relied on:
what is not what it should be was not measured.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.errors import AssayError
from assay.grading.policy import Policy, make_rules
from assay.judging.card import Admission, Term, admit
from assay.judging.drift import compare_cards
from assay.server.pages.layout import (
    Column,
    address,
    chart,
    facts,
    link,
    note,
    number,
    section,
    short,
    table,
    verdict,
    when,
)
from assay.server.pages.paging import mapped, words
from assay.views.charts import judges as charts
from assay.views.markup import Html, join, say, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.grading.policy import JudgeTerms
    from assay.server.state import Services
    from assay.store.drafts import Item

Card = dict[str, Any]
CARDS = 200
"""Cards that are looked through for others of the same judge."""
_STATISTICS = {
    "agreement": "Share of equal verdicts",
    "cohen_kappa": "Cohen's kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
    "spearman": "Spearman's rank correlation",
    "kendall_tau_b": "Kendall's tau-b",
    "pearson": "Pearson's correlation",
}
_CORRECTED = {
    "naive": "As the judge says",
    "ppi": "Prediction-powered",
    "misclassification": "Corrected for its mistakes",
}


class Told(NamedTuple):
    """A card in the ledger."""

    item: Item
    card: Card


def policies(services: Services) -> dict[str, JudgeTerms]:
    """The policies on the shelf that have terms for judges, that of the server first."""
    found: dict[str, JudgeTerms] = {}
    for name in dict.fromkeys(
        [services.settings.policy, *(entry.id for entry in services.shelf.entries("policies"))]
    ):
        loaded = services.shelf.load("policies", name)
        terms = make_rules(loaded).judge_terms if isinstance(loaded, Policy) else None
        if terms is not None:
            found[loaded.id] = terms
    return found


def admitted(card: Card, terms: JudgeTerms, now: datetime) -> Admission:
    """Whether a judge may gate now. A card that cannot be read admits nobody."""
    try:
        return admit(card, terms, now=now)
    except (TypeError, ValueError, AttributeError, KeyError):
        return Admission(
            False, (Term("card", None, None, None, "its card is not of the shape it should have"),)
        )


def age_days(card: Card, now: datetime) -> float | None:
    """How old a card is; None where it does not say."""
    try:
        made = datetime.strptime(str(card.get("made_at")), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (now - made).total_seconds() / 86400


def age_text(card: Card, now: datetime) -> str:
    """The age of a card in words."""
    days = age_days(card, now)
    if days is None:
        return "its card has no date"
    return (
        f"{days:.0f} day{'' if round(days) == 1 else 's'}"
        if days >= 1
        else "less than a day"
        if days >= 0
        else "from the future"
    )


def kappa(card: Card) -> dict[str, Any]:
    """The agreement that a policy looks at: weighted where the labels are ordered, plain
    otherwise.
    """
    found = mapped(card.get("agreement")) or mapped(
        mapped(card.get("calibration")).get("agreement")
    )
    for one in (mapped(found.get("weighted_kappa")).get("quadratic"), found.get("cohen_kappa")):
        if exact.is_number(mapped(one).get("low")):
            return mapped(one)
    return mapped(found.get("cohen_kappa"))


# --- parts


def head(card: Card, terms: dict[str, JudgeTerms], now: datetime) -> Html:
    """May it gate, under each policy that asks for something, and why not."""
    if not terms:
        return note(
            "No policy on this shelf has terms for judges, so no judge gates here. `judge.gate` in"
            " a policy states them; workflow-judged has them."
        )
    lines = []
    for name, asked in terms.items():
        found = admitted(card, asked, now)
        said = verdict("passed", "May gate") if found.may_gate else verdict("fails", "May not gate")
        lines.append(tag("p", said, " ", tag("small", f"under {name}"), class_="outcome"))
        lines.append(tag("p", _sentence(found.reason), class_="verdict"))
    return tag("div", *lines, class_="decided")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def figures(card: Card, now: datetime) -> Html:
    """The numbers that decide whether it may."""
    calibration, agreed = mapped(card.get("calibration")), kappa(card)
    order = mapped(card.get("inconsistency_rate"))
    return facts(
        [
            (
                "Kappa with people",
                number(
                    agreed.get("value"),
                    interval=agreed or None,
                    n=_whole(calibration.get("n_labelled")),
                    digits=3,
                    absent="not measured",
                ),
            ),
            (
                "Pairs judged by their order",
                number(
                    order.get("value"),
                    interval=order or None,
                    n=_whole(mapped(card.get("audit_items")).get("n")),
                    percent=True,
                    absent="not measured",
                ),
            ),
            ("Age of the card", age_text(card, now)),
            ("Family", say(card.get("family"))),
        ],
        kind="figures",
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def term_tables(card: Card, terms: dict[str, JudgeTerms], now: datetime) -> Html:
    """Every term of every policy."""
    told = {
        True: verdict("holds"),
        False: verdict("fails", "does not hold"),
        None: verdict("undetermined", "not measured"),
    }
    parts: list[Html] = []
    for name, asked in terms.items():
        rows = [
            [tag("code", term.id), told[term.holds], term.sentence]
            for term in admitted(card, asked, now).terms
        ]
        parts += [
            tag("h3", f"Under {name}"),
            table(
                f"Terms of {name}",
                ("Term", "Verdict", Column("Found", "wide")),
                rows,
                kind="stack rules",
            ),
        ]
    was = mapped(card.get("admission"))
    if was:
        said = "might gate" if was.get("may_gate") is True else "might not gate"
        parts.append(
            tag(
                "p",
                f"When the card was made, it {said} under {was.get('policy', 'no policy')}:"
                f" {was.get('reason', 'no reason is stated')}.",
                class_="hint",
            )
        )
    return section(
        "What a policy asks of it",
        *(parts or [tag("p", "Nothing is asked.", class_="absent")]),
        id="terms",
        hint="Told as of now: a card grows old.",
    )


def agreement(card: Card, url: str) -> Html:
    """Against people: the scatter, the confusion, every statistic with its interval."""
    calibration = mapped(card.get("calibration"))
    found = mapped(calibration.get("agreement")) or mapped(card.get("agreement"))
    n = _whole(calibration.get("n_labelled"))
    rows = [
        [
            label,
            number(
                mapped(found.get(key)).get("value"),
                interval=found.get(key),
                n=n,
                digits=3,
                absent="not measured",
            ),
        ]
        for key, label in _STATISTICS.items()
        if isinstance(found.get(key), dict)
    ]
    for key, one in mapped(found.get("weighted_kappa")).items():
        if isinstance(one, dict):
            rows.append(
                [
                    f"Weighted kappa, {key}",
                    number(one.get("value"), interval=one, n=n, digits=3, absent="not measured"),
                ]
            )
    corrected = [
        [
            label,
            number(
                mapped(mapped(calibration.get("corrected")).get(key)).get("value"),
                interval=mapped(calibration.get("corrected")).get(key),
                digits=3,
                absent="not known",
            ),
        ]
        for key, label in _CORRECTED.items()
        if isinstance(mapped(calibration.get("corrected")).get(key), dict)
    ]
    pictures = [
        chart(made, f"{url}/{made.name}")
        for made in (charts.calibration(card), charts.confusion(card))
    ]
    numbers = table(
        "Agreement with people",
        ("Statistic", "Value"),
        rows,
        absent="No agreement with people was measured.",
    )
    rates = (
        [
            tag("h3", "The mean verdict, corrected for the judge"),
            table("Corrected", ("How", "Value"), corrected),
        ]
        if corrected
        else []
    )
    return section(
        "Agreement with people",
        tag("div", *pictures, class_="columns"),
        numbers,
        *rates,
        id="agreement",
    )


def bias(card: Card, url: str) -> Html:
    """Every bias with its interval."""
    made = charts.bias(card)
    return section("Biases", chart(made, f"{url}/{made.name}"), id="biases")


def drift_points(cards: Sequence[Told]) -> list[dict[str, Any]]:
    """The agreement on each card, the oldest first."""
    points = []
    for told in sorted(cards, key=lambda one: str(one.card.get("made_at"))):
        found = kappa(told.card)
        if found:
            n = _whole(mapped(told.card.get("calibration")).get("n_labelled"))
            points.append(
                {
                    "at": told.card.get("made_at"),
                    "n": n,
                    **{key: found.get(key) for key in ("value", "low", "high", "level")},
                }
            )
    return points


def drift(card: Card, cards: Sequence[Told], url: str, digest: str) -> Html:
    """How the judge moved: its cards over time, and whether it answers otherwise than it did."""
    made = charts.drift(drift_points(cards))
    rows = [
        [
            (
                link(short(told.item.digest), address("judges", told.item.digest))
                if told.item.digest != digest
                else join([short(told.item.digest), " this one"])
            ),
            when(told.card.get("made_at")),
            number(
                kappa(told.card).get("value"),
                interval=kappa(told.card) or None,
                n=_whole(mapped(told.card.get("calibration")).get("n_labelled")),
                digits=3,
                absent="not measured",
            ),
            say(told.card.get("prompt_version"), "none"),
        ]
        for told in sorted(cards, key=lambda one: str(one.card.get("made_at")), reverse=True)
    ]
    listed = table("Cards of this judge", ("Card", "Made", "Kappa with people", "Wording"), rows)
    return section(
        "Drift",
        _drifted(card, [told.card for told in cards if told.item.digest != digest]),
        chart(made, f"{url}/{made.name}"),
        listed,
        id="drift",
    )


def _drifted(card: Card, others: Sequence[Card]) -> Html:
    past = [one for one in others if str(one.get("made_at")) < str(card.get("made_at"))]
    if not past:
        return tag(
            "p", "There is no older card of this judge to hold this one against.", class_="absent"
        )
    try:
        found = compare_cards(past, card)
    except (AssayError, TypeError, ValueError, AttributeError, KeyError) as error:
        said = (
            error.message
            if isinstance(error, AssayError)
            else "a card is not of the shape it should have"
        )
        return tag("p", verdict("undetermined", "Drift cannot be told"), f": {said}")
    alarm = {
        True: verdict("fails", "It has drifted"),
        False: verdict("holds", "No drift is shown"),
        None: verdict("undetermined", "Drift cannot be told"),
    }
    return tag("p", alarm[found["alarm"]], f": {found['reason']}")


def origin(card: Card, item: Item, services: Services, project: str) -> Html:
    """What the card is about, and what it was made of."""
    price, usage = mapped(card.get("price")), mapped(card.get("usage"))
    identity = [(words(key), say(value)) for key, value in mapped(card.get("identity")).items()]
    links = services.ledger.links_of(item.digest, project=project, relation="evidence_of", limit=20)
    made_of = [
        short(one.source, address("judges", one.source))
        for one in links
        if one.source and one.target == item.digest
    ]
    behind = (
        join(part for one in made_of for part in (one, " ")) if made_of else say(None, "not stored")
    )
    pairs = [
        ("Model", say(card.get("model"))),
        ("Wording of the questions", say(card.get("prompt_version"), "not stated")),
        ("Made", when(card.get("made_at"))),
        ("Price for a million tokens", say(price, "not stated")),
        ("Usage of the audit", say(usage, "not stated")),
        ("Audited on", say(mapped(card.get("audit_items")), "no items")),
        ("Made of", behind),
        ("Digest of the card", short(card.get("digest"))),
        (
            "Record",
            join(
                [
                    short(item.digest),
                    " ",
                    link("the whole record", address("api", "v1", "records", item.digest)),
                ]
            ),
        ),
        ("Stored", when(item.created_at)),
        ("By", say(item.author, "not stated")),
    ]
    return section("What it is about", facts([*pairs, *identity], kind="small"), id="origin")


def cards_of(services: Services, project: str, model: Any) -> list[Told]:
    """The stored cards of one judge among the newest."""
    found = services.ledger.find("card", project=project, limit=CARDS, newest_first=True).items
    cards = [Told(item, item.tree()) for item in found if item.body is not None]
    return [
        told for told in cards if isinstance(told.card, dict) and told.card.get("model") == model
    ]
