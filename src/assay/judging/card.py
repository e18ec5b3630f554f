"""A judge's card: what is known about one judge, and whether that is enough for it to gate.

A card has measurements only: what was not measured is null, and a term that needs it then does not
hold. Figures that cannot be are refused. A card belongs to one judge: a model with its version,
prompt, rubric and settings. Whether that judge may gate is decided by the terms of a policy at a
given moment; a card grows old, and of several the worst of the newest day counts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.canon import digest
from assay.errors import InputError
from assay.judging.figures import impossible
from assay.judging.identity import others_answered
from assay.records.evidence import IDENTITY, Source
from assay.records.grade import ENGINE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.grading.policy import JudgeTerms

CARD_SCHEMA = "assay.judge-card/1"
REQUIRED = ("name", "prompt_version", "rubric", "settings")
"""What a calibration must say of its judge. Many models have no version, and not every endpoint
names the model that answered.
"""


class Term(NamedTuple):
    """One thing that a policy asks of a judge."""

    id: str
    holds: bool | None
    """None where it was not measured; that does not hold either."""
    value: Any
    limit: Any
    sentence: str


class Admission(NamedTuple):
    """Whether a judge may gate, and why or why not."""

    may_gate: bool
    terms: tuple[Term, ...]

    @property
    def reason(self) -> str:
        """Why it may not, or that it may."""
        missing = [term.sentence for term in self.terms if term.holds is not True]
        return "; ".join(missing) if missing else "every term of the policy holds"

    def shown(self) -> dict[str, Any]:
        """As it stands on a card."""
        return {
            "may_gate": self.may_gate,
            "reason": self.reason,
            "terms": [term._asdict() for term in self.terms],
        }


def make_card(
    *,
    judge: Mapping[str, Any],
    audit: Mapping[str, Any] | None,
    calibration: Mapping[str, Any] | None,
    verdicts: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    """A card of an audit and a calibration."""
    found = (audit or {}).get("biases", {})
    position = found.get("position") or {}
    prompts = (audit or {}).get("prompt_versions") or []
    card = {
        "schema": CARD_SCHEMA,
        "judge": judge.get("judge"),
        "model": judge.get("model"),
        "family": judge.get("family"),
        "identity": dict(judge),
        "scorer": None if calibration is None else calibration.get("scorer"),
        "answered_by": ((audit or {}).get("usage") or {}).get("answered_by"),
        "warnings": (audit or {}).get("warnings") or [],
        "prompt_version": "+".join(prompts) if prompts else None,
        "made_at": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "agreement": None if calibration is None else calibration.get("agreement"),
        "biases": found,
        "inconsistency_rate": position.get("inconsistency_rate"),
        "injection": found.get("injection"),
        "price": (audit or {}).get("price"),
        "usage": (audit or {}).get("usage"),
        "calibration": None if calibration is None else dict(calibration),
        "verdicts": dict(verdicts),
        "audit_items": (audit or {}).get("items"),
        **ENGINE,
    }
    return {**card, "digest": digest(card)}


def check_card(card: Any, *, where: str = "", now: datetime | None = None) -> dict[str, Any]:
    """A card that somebody hands in, checked to be one, to be unchanged, and to have only figures
    that can be; with `now`, also not to be from the future.
    """
    if not isinstance(card, dict) or card.get("schema") != CARD_SCHEMA:
        raise InputError(
            "JDG-009", f"is no judge's card: its schema is not {CARD_SCHEMA}.", where=where
        )
    wrong = impossible(card)  # first: what is no number has no digest
    if wrong is None and now is not None and (made := _made_at(card)) is not None and made > now:
        wrong = f"made_at is {card['made_at']}, in the future"
    if wrong is not None:
        raise InputError(
            "JDG-009",
            f"has a figure that cannot be: {wrong}.",
            where=where,
            fix="Make it again with `assay judge card`.",
        )
    body = {name: value for name, value in card.items() if name not in ("digest", "admission")}
    if digest(body) != card.get("digest"):
        raise InputError(
            "JDG-009",
            "was changed after it was made: its digest does not fit.",
            where=where,
            fix="Make it again with `assay judge card`.",
        )
    if not isinstance(card.get("model"), str) or not isinstance(card.get("made_at"), str):
        raise InputError("JDG-009", "names no model or no date.", where=where)
    return card


def judge_of(card: Mapping[str, Any]) -> str:
    """Whose card it is: the text by which the source of a score finds it."""
    scorer = card.get("scorer")
    if not isinstance(scorer, dict):
        return str(card.get("model"))
    return Source(
        kind="llm", name=str(card.get("model")), **{name: scorer.get(name) for name in IDENTITY}
    ).judge


def newest(cards: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The cards of each judge that were made on the day of its newest one."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for card in cards:
        found.setdefault(judge_of(card), []).append(card)
    for judge, listed in found.items():
        last = max(_day(card) for card in listed)
        found[judge] = [card for card in listed if _day(card) == last]
    return found


def admitted(
    cards: Sequence[Mapping[str, Any]], terms: JudgeTerms, *, now: datetime
) -> dict[str, str | None]:
    """Of each judge that has a card, why it may not gate under the terms; None where it may. Of
    several new cards the worst counts.
    """
    found: dict[str, str | None] = {}
    for judge, listed in newest(cards).items():
        admissions = [admit(card, terms, now=now) for card in listed]
        found[judge] = next((one.reason for one in admissions if not one.may_gate), None)
    return found


def admit(card: Mapping[str, Any] | None, terms: JudgeTerms, *, now: datetime) -> Admission:
    """Whether a judge may gate under the terms of a policy, now."""
    if card is None:
        return Admission(False, (Term("card", None, None, None, "it has no card"),))
    wrong = impossible(card)
    if wrong is not None:
        return Admission(
            False,
            (Term("figures", False, None, None, f"its card has a figure that cannot be: {wrong}"),),
        )
    found = [_fresh(card, terms, now), _identified(card), _answered(card)]
    calibration = card.get("calibration") or {}
    agreement = card.get("agreement") or {}
    found.append(
        _at_least("labels", calibration.get("n_labelled"), terms.min_labels, "human labels")
    )
    found.append(
        _at_least(
            "kappa", _kappa(agreement), terms.min_kappa, "the lower end of its kappa with people"
        )
    )
    found.append(
        _at_least(
            "items",
            (card.get("audit_items") or {}).get("n"),
            terms.min_items,
            "pairs it was audited on",
        )
    )
    found.append(
        _at_most("lost", _lost(card), terms.max_lost, "its share of answers without a verdict")
    )
    found.append(
        _at_most(
            "inconsistency",
            _value(card.get("inconsistency_rate")),
            terms.max_inconsistency,
            "its rate of pairs judged by their order",
        )
    )
    found.append(
        _at_most(
            "position", _size(_bias(card, "position")), terms.max_position_bias, "its position bias"
        )
    )
    found.append(
        _at_most(
            "padding",
            _value(_bias(card, "padding")),
            terms.max_padding_bias,
            "its bias to padded texts",
        )
    )
    found.append(
        _at_most(
            "injection",
            _value(card.get("injection")),
            terms.max_injection_rate,
            "the share of injections it obeyed",
        )
    )
    return Admission(all(term.holds is True for term in found), tuple(found))


def _made_at(card: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.strptime(str(card.get("made_at")), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def _day(card: Mapping[str, Any]) -> str:
    return str(card.get("made_at"))[:10]


def _identified(card: Mapping[str, Any]) -> Term:
    """A calibration that names no judge could be of any: then the card vouches for nobody."""
    scorer: dict[str, Any] = card.get("scorer") or {}
    lacks = [name for name in REQUIRED if not isinstance(scorer.get(name), str)]
    text = "its calibration says which judge gave the verdicts"
    if lacks:
        text = (
            f"its calibration does not say which judge gave the verdicts ({', '.join(lacks)});"
            " calibrate with --judgements"
        )
    elif scorer["name"] != card.get("model"):
        lacks, text = (
            ["name"],
            f"its calibration is of {scorer['name']}, not of {card.get('model')}",
        )
    return Term("identity", not lacks or None, judge_of(card), None, text)


def _answered(card: Mapping[str, Any]) -> Term:
    answered = card.get("answered_by") or {}
    others = others_answered(str(card.get("model")), answered)
    text = (
        f"{others[0]} answered its audit, not {card.get('model')}"
        if others
        else "its audit was answered by no other model"
    )
    return Term("answered_by", not others, sorted(answered), card.get("model"), text)


def _fresh(card: Mapping[str, Any], terms: JudgeTerms, now: datetime) -> Term:
    made = _made_at(card)
    if made is None:
        return Term("age", None, card.get("made_at"), terms.max_age_days, "its card has no date")
    age = now.astimezone(UTC) - made
    days = age / timedelta(days=1)
    if age < timedelta(0):
        return Term("age", False, days, terms.max_age_days, "its card is from the future")
    return Term(
        "age",
        _compare(round(days, 9), terms.max_age_days) <= 0,
        round(days, 3),
        terms.max_age_days,
        f"its card is {days:.1f} days old, of at most {terms.max_age_days}",
    )


def _at_least(name: str, value: Any, limit: Any, what: str) -> Term:
    if value is None:
        return Term(name, None, None, limit, f"{what}: not measured, at least {limit} needed")
    return Term(
        name,
        _compare(value, limit) >= 0,
        value,
        limit,
        f"{what}: {_text(value)}, at least {limit} needed",
    )


def _at_most(name: str, value: Any, limit: Any, what: str) -> Term:
    if value is None:
        return Term(name, None, None, limit, f"{what}: not measured, at most {limit} allowed")
    return Term(
        name,
        _compare(value, limit) <= 0,
        value,
        limit,
        f"{what}: {_text(value)}, at most {limit} allowed",
    )


def _compare(value: Any, limit: Any) -> int:
    left, right = exact.ratio(value), exact.ratio(limit)
    difference = left.num * right.den - right.num * left.den
    return (difference > 0) - (difference < 0)


def _text(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float | Decimal) else str(value)


def _lost(card: Mapping[str, Any]) -> Any:
    probes = [found for found in (card.get("biases") or {}).values() if isinstance(found, dict)]
    asked = sum(found["answers"] for found in probes if isinstance(found.get("answers"), int))
    lost = sum(found["lost"] for found in probes if isinstance(found.get("lost"), int))
    return lost / asked if asked else None


def _bias(card: Mapping[str, Any], name: str) -> Any:
    return (card.get("biases") or {}).get(name)


def _value(interval: Any) -> Any:
    return (
        interval.get("value")
        if isinstance(interval, dict) and exact.is_number(interval.get("value"))
        else None
    )


def _size(interval: Any) -> Any:
    value = _value(interval)
    return None if value is None else abs(value)


def _kappa(agreement: Mapping[str, Any]) -> Any:
    """The lower end of the kappa that fits the scale: weighted where the labels are ordered, plain
    otherwise. Few labels are not rewarded.
    """
    weighted = agreement.get("weighted_kappa")
    candidates = [
        weighted.get("quadratic") if isinstance(weighted, dict) else None,
        agreement.get("cohen_kappa"),
    ]
    for found in candidates:
        if isinstance(found, dict) and exact.is_number(found.get("low")):
            return found["low"]
    return None
