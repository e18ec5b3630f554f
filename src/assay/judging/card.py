"""A judge's card: what is known about one judge, and whether that is enough for it to gate.

A card has measurements only: what was not measured is null, and a term that needs it then does not
hold. Impossible figures are refused. A card belongs to one judge: a model with its version, prompt,
rubric and settings. Whether that judge may gate is decided by the terms of a policy at a given
moment. A card is as old as the oldest answer behind it. Of several cards, the worst of those with
the newest answers counts, whenever the cards were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from operator import ge
from typing import Any, NamedTuple

from assay import exact
from assay.canon import digest, time_of, time_text
from assay.errors import InputError
from assay.files.json_files import Document
from assay.grading.policy import JudgeTerms
from assay.grouping import grouped
from assay.judging.answer_times import answered_at, oldest
from assay.judging.identity import is_definition, others_answered
from assay.records.evidence import IDENTITY, JudgeOn, Source
from assay.records.grade import ENGINE
from assay.records.judge_card import CARD_SCHEMA, Estimate, JudgeCard
from assay.records.reading import read_record

_RATES = frozenset({"inconsistency_rate", "injection", "accuracy", "self_agreement"})
_SHARES = frozenset({"position", "padding", "verbosity", "sycophancy", "self_preference"})
_KAPPAS = ("cohen_kappa", "linear", "quadratic", "fleiss_kappa", "krippendorff_alpha")
_CORRELATIONS = frozenset({*_KAPPAS, "spearman", "kendall_tau_b", "pearson"})
_COUNTS = frozenset(
    {
        "n",
        "n_labelled",
        "n_unlabelled",
        "n_judged",
        "answers",
        "lost",
        "items",
        "injections",
        "of",
        "total",
        "labelled",
    }
)
_SLACK = Decimal("1e-9")
"""How far rounding may exceed a bound."""


def impossible(document: Mapping[str, Any]) -> str | None:
    """The first impossible figure of a card or calibration, and why; None if there is none."""
    body = {
        name: value
        for name, value in document.items()
        if name not in ("verdicts", "admission", "identity")
    }
    impossible_number: str | None = next(_walk(body, ""), None)
    calibration = document.get("calibration")
    return (
        impossible_number
        if impossible_number is not None
        else _counts(calibration if isinstance(calibration, Mapping) else document)
    )


def _walk(value: Any, path: str) -> Any:
    name = path.rpartition(".")[2]
    if isinstance(value, Mapping):
        if name != "labels":  # people's labels have their own scale
            low, high = (
                (-1, 1)
                if name in _CORRELATIONS | _SHARES
                else (
                    (0, 1)
                    if name in _RATES or path.endswith("agreement.agreement")
                    else (None, None)
                )
            )
            yield from _interval(value, path, low, high)
            if name == "confusion" and not _is_table(value):
                yield f"{path} lacks a row for each label and a column for each verdict"
            if (
                exact.is_number(value.get("lost"))
                and exact.is_number(value.get("answers"))
                and value["lost"] > value["answers"]
            ):
                yield f"{path} has {value['lost']} answers without a verdict of {value['answers']}"
            for key, part in value.items():
                yield from _walk(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, part in enumerate(value):
            yield from _walk(part, f"{path}[{index}]")
    elif isinstance(value, float | Decimal) and not isfinite(value):
        yield f"{path} is {value}"
    elif (
        name in _COUNTS
        and value is not None
        and not isinstance(value, str)
        and (not exact.is_number(value) or value != int(value) or value < 0)
    ):
        yield f"{path} is {value}, and it counts something"


def _interval(interval: Mapping[str, Any], path: str, low: int | None, high: int | None) -> Any:
    """The faults of an interval: a value that isn't a number, or is outside the range of its
    statistic, and ends that are not in order.
    """
    ends = {
        key: interval[key]
        for key in ("value", "low", "high")
        if exact.is_number(interval.get(key)) and isfinite(interval[key])
    }
    for key in ("value", "low", "high", "level"):
        if interval.get(key) is not None and not exact.is_number(interval[key]):
            yield f"{path}.{key} is not a number"
    for key, value in ends.items():
        if (
            low is not None
            and high is not None
            and not low - _SLACK <= Decimal(str(value)) <= high + _SLACK
        ):
            yield f"{path}.{key} is {value}, outside {low}..{high}"
    if (
        "low" in ends
        and "high" in ends
        and Decimal(str(ends["low"])) > Decimal(str(ends["high"])) + _SLACK
    ):
        yield f"{path} runs from {ends['low']} to {ends['high']}"
    if (
        path.rpartition(".")[2] in _CORRELATIONS
        and "low" in ends
        and "value" in ends
        and Decimal(str(ends["low"])) > Decimal(str(ends["value"])) + _SLACK
    ):
        yield f"{path}.value is {ends['value']}, below its own lower end {ends['low']}"


def _is_table(confusion: Mapping[str, Any]) -> bool:
    """Whether a confusion matrix has a row for each label and a column for each verdict. One of the
    wrong type is left to the reader of the record.
    """
    rows, columns, counts = (confusion.get(key) for key in ("human", "judge", "counts"))
    if not (isinstance(rows, list) and isinstance(columns, list) and isinstance(counts, list)):
        return True
    return len(counts) == len(rows) and all(
        len(row) == len(columns) for row in counts if isinstance(row, list)
    )


def _counts(calibration: Mapping[str, Any]) -> str | None:
    """Why the counts of a calibration contradict each other; None if they don't."""
    n = calibration.get("n_labelled")
    labels, block = calibration.get("labels"), calibration.get("agreement")
    if isinstance(labels, Mapping) and exact.is_number(n) and len(labels) != n:
        return f"n_labelled is {n}, and there are {len(labels)} labels"
    if (
        isinstance(block, Mapping)
        and exact.is_number(block.get("n"))
        and exact.is_number(n)
        and block["n"] != n
    ):
        return f"n_labelled is {n}, and agreement was measured on {block['n']}"
    return None


AGAIN = "Make it again with `assay judge card`."
REQUIRED = ("name", "prompt_version", "rubric", "settings")
"""What a calibration must state about its judge. Many models have no version, and not every
endpoint names the model that answered.
"""

LEVEL = Decimal("0.95")
"""The lowest confidence level at which the interval of kappa counts: at a lower one, its lower end
would rise with no further label.
"""
WITHOUT_TERMS = (
    "A policy without terms for judges accepts the scores of any judge, with or without a card,"
    " unless the profile requires calibration: then no judge may gate."
)


class Term(NamedTuple):
    """One thing that a policy asks of a judge."""

    id: str
    holds: bool | None
    """None if it was not measured; that does not hold either."""
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
        """As it appears on a card."""
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
    """A card made from an audit and a calibration, with the judge's verdicts by item."""
    known = audit or {}
    biases = known.get("biases", {})
    prompts = known.get("prompt_versions") or []
    times = [answered_at(audit)] if audit is not None else []
    times += [calibration.get("answered_at")] if calibration is not None else []
    card = {
        "schema": CARD_SCHEMA,
        "judge": judge.get("judge"),
        "model": judge.get("model"),
        "family": judge.get("family"),
        "identity": dict(judge),
        "scorer": None if calibration is None else calibration.get("scorer"),
        "answered_by": (known.get("usage") or {}).get("answered_by"),
        "warnings": known.get("warnings") or [],
        "prompt_version": "+".join(prompts) if prompts else None,
        "made_at": time_text(now),
        "agreement": None if calibration is None else calibration.get("agreement"),
        "biases": biases,
        "inconsistency_rate": (biases.get("position") or {}).get("inconsistency_rate"),
        "injection": biases.get("injection"),
        "price": known.get("price"),
        "usage": {
            **(known.get("usage") or {}),
            "answered_at": oldest(times),
            "audit_answered_at": None if audit is None else answered_at(audit),
        },
        "calibration": (
            None
            if calibration is None
            else {name: part for name, part in calibration.items() if name != "verdicts"}
        ),
        "verdicts": dict(verdicts),
        "audit_items": known.get("items"),
        **ENGINE,
    }
    return {**card, "digest": digest(card)}


def check_card(tree: Any, *, where: str = "", now: datetime | None = None) -> dict[str, Any]:
    """A card from outside, checked to be complete, unchanged and free of impossible figures; with
    `now`, also not from the future.
    """
    card = read_card(tree, where=where)  # first: an infinity has no digest
    for name, text in (("made_at", card.made_at), ("answered_at", answered_at_of(card))):
        moment = time_of(text)
        if now is not None and moment is not None and moment > now:
            raise _impossible(f"{name} is {text}, in the future", where)
    body = {name: value for name, value in tree.items() if name not in ("digest", "admission")}
    if digest(body) != card.digest:
        message = "was changed after it was made: its digest does not fit."
        raise InputError("JDG-009", message, where=where, fix=AGAIN)
    return dict(tree)


def read_card(tree: Any, *, where: str = "") -> JudgeCard:
    """A card as its record: of the right shape, with possible figures."""
    if not isinstance(tree, dict) or tree.get("schema") != CARD_SCHEMA:
        raise InputError(
            "JDG-009", f"not a judge's card: its schema is not {CARD_SCHEMA}.", where=where
        )
    wrong = impossible(tree)
    if wrong is not None:
        raise _impossible(wrong, where)
    return read_record(Document(tree, where), JudgeCard, "JDG-009")


def _impossible(wrong: str, where: str) -> InputError:
    message = f"has an impossible figure: {wrong}."
    return InputError("JDG-009", message, where=where, fix=AGAIN)


def judge_of(card: JudgeCard) -> str:
    """The judge that a card belongs to, as the text that identifies it in a score's source."""
    known = {name: (card.scorer or {}).get(name) for name in IDENTITY}
    return Source(kind="llm", name=card.model, **known).judge


def criteria_of(card: JudgeCard) -> list[str]:
    """The criteria that a card counts for; none if its calibration names none."""
    names = (card.scorer or {}).get("criteria")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def newest(cards: Iterable[JudgeCard]) -> dict[JudgeOn, list[JudgeCard]]:
    """The cards of each judge on each criterion that no other one replaces. A card that names no
    criterion, such as one without a calibration, counts for each.
    """
    found: dict[JudgeOn, list[JudgeCard]] = {}
    for judge, listed in grouped((judge_of(card), card) for card in cards).items():
        names = sorted({name for card in listed for name in criteria_of(card)})
        for name in [*names, None]:
            own = [card for card in listed if name in criteria_of(card) or not criteria_of(card)]
            if own:
                found[judge, name] = [
                    card for card in own if not any(_replaces(other, card) for other in own)
                ]
    return found


def _replaces(card: JudgeCard, other: JudgeCard) -> bool:
    """Whether one part of a card is newer than that of another and the other part not older."""
    ours, theirs = _parts(card), _parts(other)
    return ours != theirs and all(map(ge, ours, theirs))


def _parts(card: JudgeCard) -> tuple[tuple[str, int], tuple[str, int]]:
    """The day of the answers in a card's audit and in its calibration, and how much each covers.

    The day that the card was made counts only if that of the answers is unknown: otherwise a new
    card of an old calibration would replace a newer calibration that the judge failed.
    """
    audit, calibration = card.audit_items, card.calibration
    audited = (card.usage or {}).get("audit_answered_at")
    return (
        ("", 0)
        if audit is None
        else (_day(audited or answered_at_of(card) or card.made_at), audit.n or 0),
        ("", 0)
        if calibration is None
        else (_day(calibration.answered_at or card.made_at), calibration.n_labelled),
    )


def _day(time: Any) -> str:
    """The day in UTC; of a text that names no moment, the day as written."""
    moment = time_of(time)
    return str(time if moment is None else moment.date())[:10]


def admitted(
    cards: Sequence[Any], terms: JudgeTerms, *, now: datetime
) -> dict[JudgeOn, str | None]:
    """Why each judge with a card may not gate on each criterion under the terms; None if it may. Of
    several cards that count the worst decides.
    """
    return {
        judge: next(
            (one.reason for card in listed if not (one := admit(card, terms, now=now)).may_gate),
            None,
        )
        for judge, listed in newest(map(read_card, cards)).items()
    }


def admit_tree(tree: Any, terms: JudgeTerms, *, now: datetime) -> Admission:
    """Whether a judge may gate by a card as written. An invalid card admits no judge."""
    if tree is None:
        return Admission(False, (Term("card", None, None, None, "it has no card"),))
    try:
        card = read_card(tree)
    except InputError as error:
        sentence = f"its card {error.message.rstrip('.')}"
        return Admission(False, (Term("figures", False, None, None, sentence),))
    return admit(card, terms, now=now)


def admit(card: JudgeCard, terms: JudgeTerms, *, now: datetime) -> Admission:
    """Whether a judge may gate under the terms of a policy, now. The lower end of kappa counts, so
    that few labels are not rewarded. The worst share of lost answers and the fewest items of any
    probe count, so that no probe makes up for another.
    """
    position, padding = card.biases.get("position"), card.biases.get("padding")
    leaning = None if position is None or position.value is None else abs(position.value)
    probes = [probe for probe in card.biases.values() if probe is not None]
    lost = max((probe.lost / probe.answers for probe in probes if probe.answers), default=None)
    behind = [probe.items for probe in (position, padding, card.injection) if probe is not None]
    known = [items for items in behind if items is not None]
    n_items = min(known, default=None) if len(known) == len(behind) else None
    weighted = card.agreement is not None and card.kappa is not card.agreement.cohen_kappa
    kappa = f"the lower end of its {'weighted ' if weighted else ''}kappa with people"
    low, level = (card.kappa.low, card.kappa.level) if card.kappa is not None else (None, None)
    if low is not None and (level is None or _compare(level, LEVEL) < 0):
        low, kappa = None, f"{kappa}, at the level {LEVEL} or more"
    results = (
        _fresh(card, terms, now),
        _identified(card),
        _answered(card),
        _limit("labels", card.n_labelled, terms.min_labels, "human labels", least=True),
        _drawn(card),
        _limit("kappa", low, terms.min_kappa, kappa, least=True),
        _limit(
            "items",
            n_items,
            terms.min_items,
            "items judged in its smallest probe",
            least=True,
        ),
        _limit("lost", lost, terms.max_lost, "its share of answers without a verdict"),
        _limit(
            "inconsistency",
            _value(card.inconsistency_rate),
            terms.max_inconsistency,
            "its rate of pairs decided by their order",
        ),
        _limit("position", leaning, terms.max_position_bias, "its position bias"),
        _limit("padding", _value(padding), terms.max_padding_bias, "its bias to padded texts"),
        _limit(
            "injection",
            _value(card.injection),
            terms.max_injection_rate,
            "the share of injections it obeyed",
        ),
    )
    return Admission(all(term.holds is True for term in results), results)


def answered_at_of(card: JudgeCard) -> str | None:
    """When the oldest answer behind a card came; None if that is unknown."""
    return answered_at({"usage": card.usage})


def age_days(card: JudgeCard, now: datetime) -> float | None:
    """The age of the oldest answer behind a card; None if that is unknown."""
    return _days(answered_at_of(card), now)


def _days(time: Any, now: datetime) -> float | None:
    moment = time_of(time)
    return None if moment is None else (now.astimezone(UTC) - moment) / timedelta(days=1)


def _identified(card: JudgeCard) -> Term:
    """Whether the calibration names its judge; if not, the card vouches for none."""
    scorer = card.scorer or {}
    lacks = [name for name in REQUIRED if not isinstance(scorer.get(name), str)]
    criteria = criteria_of(card)
    if not lacks and not criteria and not is_definition(scorer["rubric"]):
        lacks = ["criterion"]
    text = "its calibration says which judge gave the verdicts"
    text += f", on {', '.join(criteria)}" if criteria else ""
    if lacks:
        text = (
            f"its calibration does not say which judge gave the verdicts ({', '.join(lacks)});"
            " calibrate with --judgements"
        )
    elif scorer["name"] != card.model:
        lacks, text = ["name"], f"its calibration is for {scorer['name']}, not {card.model}"
    return Term("identity", not lacks or None, judge_of(card), None, text)


def _answered(card: JudgeCard) -> Term:
    answered = card.answered_by or {}
    others = others_answered(card.model, answered)
    text = (
        f"{others[0]} answered its audit, not {card.model}"
        if others
        else "no other model answered its audit"
    )
    return Term("answered_by", not others, sorted(answered), card.model, text)


def _drawn(card: JudgeCard) -> Term:
    """Whether the labelled items may be a random sample of those that it judged: every item of a
    random draw is labelled, or its verdicts on labelled and other items are alike.
    """
    calibration = card.calibration
    if calibration is None:
        return Term("selection", None, None, None, "the draw of its labelled items: not measured")
    source, look = calibration.label_set, calibration.selection
    drawn = source is not None and source.draw == "random"
    # people may have labelled those on which the judge is right
    part = source is not None and (source.labelled or 0) < (source.items or 1)
    if (drawn and not part) or look is None or look.looks_random:
        text = "nothing suggests that its labelled items were hand-picked"
        return Term("selection", True, None, None, text)
    fix = "label the whole set" if drawn else "label items drawn at random"
    both = (look.judge_on_labelled, look.judge_on_others)
    means = ["unknown" if mean is None else f"{mean:.3f}" for mean in both]
    text = (
        f"its labelled items look hand-picked: its mean verdict is {means[0]}"
        f" on them and {means[1]} on the others, and"
        f" {look.unread_on_labelled:.1%} and {look.unread_on_others:.1%} got none; {fix}"
    )
    return Term("selection", False, None, None, text)


def _fresh(card: JudgeCard, terms: JudgeTerms, now: datetime) -> Term:
    made, days, limit = _days(card.made_at, now), age_days(card, now), terms.max_age_days
    if made is None:
        return Term("age", None, card.made_at, limit, "its card has no date")
    if made < 0:
        return Term("age", False, made, limit, "its card is from the future")
    if days is None:
        text = (
            f"the age of its oldest answer is unknown, at most {limit} days allowed; ask it again"
            " with a new --journal FILE, and calibrate with --judgements"
        )
        return Term("age", None, None, limit, text)
    if days < 0:
        return Term("age", False, days, limit, "its oldest answer is from the future")
    text = f"its oldest answer is {days:.1f} days old, at most {limit} allowed"
    return Term("age", _compare(round(days, 9), limit) <= 0, round(days, 3), limit, text)


def _limit(name: str, value: Any, limit: Any, what: str, *, least: bool = False) -> Term:
    """A value against its limit: at least that, or at most."""
    bound = f"at least {limit} needed" if least else f"at most {limit} allowed"
    if value is None:
        return Term(name, None, None, limit, f"{what}: not measured, {bound}")
    side = _compare(value, limit)
    text = f"{value:.3f}" if isinstance(value, float | Decimal) else str(value)
    return Term(name, side >= 0 if least else side <= 0, value, limit, f"{what}: {text}, {bound}")


def _compare(value: Any, limit: Any) -> int:
    left, right = exact.ratio(value), exact.ratio(limit)
    difference = left.num * right.den - right.num * left.den
    return (difference > 0) - (difference < 0)


def _value(estimate: Estimate | None) -> Any:
    return None if estimate is None else estimate.value
