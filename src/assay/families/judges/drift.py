"""Drift: a judge's latest card compared with its earlier ones. A model may change under the same
name, which shows only on the same items.

Two cards are comparable if model, prompt version and calibration set are the same. Any change is
drift, even one for the better: a card describes the judge as it was.

The latest card is compared with the newest comparable one, and with the oldest, because a judge
that moves a little each month never differs much from last month. If its verdicts may be those of
an earlier card, it shows nothing about the judge of today, unless they raise an alarm.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType, field, to_builtins
from msgspec.structs import asdict

from assay.canon import time_of
from assay.errors import InputError, count
from assay.families.judges.calibration import shown
from assay.families.judges.label_rows import (
    UNREAD,
    Label,
    Scale,
    labels_of,
    read_text,
    scale_of,
    value_text,
)
from assay.judging.card import AGAIN, read_card
from assay.records.grade import ENGINE
from assay.records.judge_card import CalibrationRecord, JudgeCard
from assay.records.summary import ValueInterval, value_interval
from assay.stats.calibration import mean_difference
from assay.stats.changes import kappa_change, more_than
from assay.stats.comparison import holm
from assay.stats.intervals import mcnemar, wilson

DRIFT_SCHEMA = "assay.judge-drift/1"


class DriftLimits(NamedTuple):
    """What counts as drift."""

    minimum: int = 30
    """The minimum number of items with verdicts on both cards."""
    max_flipped: float = 0.1
    """The share of items whose verdict may change; a judge doesn't repeat every verdict."""
    alpha: float = 0.05
    """The chance of a false alarm over all tests together."""
    level: float = 0.95


class DriftTest(Struct):
    """One test of two cards; the last two follow from all tests together."""

    id: str
    p: float
    sentence: str
    p_holm: float | None = None
    alarm: bool = False


class CardComparison(Struct):
    """The latest card compared with an earlier one."""

    since: str = field(name="with")
    """When the earlier one was made."""
    n: int
    enough: bool
    tests: list[DriftTest] = []
    reason: str | UnsetType = UNSET
    """Why nothing is tested; the rest is there where something is."""
    flipped: ValueInterval | UnsetType = UNSET
    flipped_items: list[str] | UnsetType = UNSET
    unparsable: dict[str, int] | UnsetType = UNSET
    mean_change: ValueInterval | UnsetType = UNSET
    accuracy_change: ValueInterval | UnsetType = UNSET
    kappa_change: ValueInterval | UnsetType = UNSET


class _Pair(NamedTuple):
    """The verdicts of two cards on the items that both have."""

    ids: list[str]
    before: list[Any]
    now: list[Any]
    labels: dict[str, Any]
    scale: Scale


def compare_cards(
    past: Sequence[Any], latest: Any, *, limits: DriftLimits | None = None
) -> dict[str, Any]:
    """Whether a judge has drifted: `alarm` is true, false, or null if that is unknown. Cards are
    given as parsed JSON.
    """
    chosen = limits or DriftLimits()
    now = _calibrated(latest)
    left_out: list[dict[str, str]] = []
    comparable: list[CalibratedCard] = []
    stale = ""
    for then in sorted(map(_calibrated, past), key=lambda card: moment_of(card.answered)):
        reason = _unlike(then, now)
        if not reason:
            reason = _stale(then, now)
            stale = reason or stale
        if reason:
            left_out.append({"made_at": then.card.made_at, "reason": reason})
        else:
            comparable.append(then)
    ends = [comparable[-1], comparable[0]] if len(comparable) > 1 else comparable
    comparisons = [_compare(then, now, chosen) for then in ends]
    enough = [comparison for comparison in comparisons if comparison.enough]
    adjusted = holm(
        {
            f"{place}.{test.id}": test.p
            for place, comparison in enumerate(enough)
            for test in comparison.tests
        }
    )
    for place, comparison in enumerate(enough):
        for test in comparison.tests:
            test.p_holm = adjusted[f"{place}.{test.id}"]
            test.alarm = test.p_holm is not None and test.p_holm <= chosen.alpha
    alarms = [
        (comparison, test) for comparison in enough for test in comparison.tests if test.alarm
    ]
    return {
        "schema": DRIFT_SCHEMA,
        "alarm": bool(alarms) if alarms or (enough and not stale) else None,
        "reason": _reason(alarms, enough, comparisons, left_out, past, stale),
        "model": now.card.model,
        "prompt_version": now.card.prompt_version,
        "set": asdict(now.calibration.set),
        "made_at": now.card.made_at,
        "comparisons": comparisons,
        "left_out": left_out,
        "limits": chosen._asdict(),
        **ENGINE,
    }


class CalibratedCard(NamedTuple):
    """A card with its calibration."""

    card: JudgeCard
    calibration: CalibrationRecord

    @property
    def answered(self) -> str:
        """When the judge gave its verdicts; when the card was made if that is unknown."""
        return self.calibration.answered_at or self.card.made_at


def _calibrated(tree: Any) -> CalibratedCard:
    card = read_card(tree)
    if card.calibration is None or not card.calibration.labels:
        raise InputError(
            "JDG-009",
            "a card lacks a calibration with its set and labels.",
            where=f"the card of {card.made_at}",
            fix="Make it with `assay judge card` from a calibration.",
        )
    return CalibratedCard(card, card.calibration)


def moment_of(text: str) -> datetime:
    """When a card was made."""
    moment = time_of(text)
    if moment is None:
        raise InputError("JDG-009", f"a card is dated {text!r}, which is not a time.")
    return moment


def _unlike(then: CalibratedCard, now: CalibratedCard) -> str:
    """Why two cards are not of one judge on one set; empty if they are."""
    old, new = then.card, now.card
    if old.model != new.model:
        return f"another model: {old.model} then, {new.model} now"
    if old.prompt_version != new.prompt_version:
        return f"another prompt version: {old.prompt_version} then, {new.prompt_version} now"
    sets = then.calibration.set.digest, now.calibration.set.digest
    if sets[0] is None or sets[0] != sets[1]:
        return "another calibration set: other items or other labels"
    if moment_of(old.made_at) >= moment_of(new.made_at):
        return f"it was made at {old.made_at}, not before the latest card"
    return ""


def _stale(then: CalibratedCard, now: CalibratedCard) -> str:
    """Why the verdicts of the latest card may be those of an earlier one; empty if they are new."""
    old, new = then.card.verdicts, now.card.verdicts
    if moment_of(then.answered) >= moment_of(now.answered):
        return (
            f"the verdicts of the latest card date from {now.answered}, not after its own; ask the"
            " judge again with a new --journal"
        )
    if now.calibration.answered_at is None and all(
        old[name] == new[name] for name in old.keys() & new.keys()
    ):
        return (
            "the latest card has the same verdicts and doesn't say when the judge gave them, so"
            " they may be the old ones; ask the judge again with a new --journal, and pass its"
            " document to `assay judge calibrate --judgements`"
        )
    return ""


def _compare(then: CalibratedCard, now: CalibratedCard, limits: DriftLimits) -> CardComparison:
    pair = _pair(then, now)
    n = len(pair.ids)
    if n < limits.minimum:
        reason = f"{n} items have verdicts on both cards; at least {limits.minimum} are needed"
        return CardComparison(then.card.made_at, n, False, reason=reason)
    before, after = list(map(read_text, pair.before)), list(map(read_text, pair.now))
    flips = [
        name
        for name, earlier, other in zip(pair.ids, before, after, strict=True)
        if earlier != other
    ]
    share = wilson(len(flips), n, level=limits.level)
    unread, unread_now = before.count(UNREAD), after.count(UNREAD)
    comparison = CardComparison(
        then.card.made_at,
        n,
        True,
        flipped=value_interval(share),
        flipped_items=flips[:20],
        unparsable={"before": unread, "now": unread_now},
    )
    # on a continuous scale nearly every verdict differs in some digit
    classes = pair.scale.name != "continuous"
    if classes:
        comparison.tests.append(
            DriftTest(
                "flipped",
                more_than(len(flips), n, limits.max_flipped),
                f"{len(flips)} of {n} verdicts on the same items changed,"
                f" {shown(share.shown(), share=True)}; up to {limits.max_flipped:.0%} is allowed",
            )
        )
    changed = list(zip(before, after, strict=True))
    lost = sum(earlier != UNREAD == other for earlier, other in changed)
    gained = sum(other != UNREAD == earlier for earlier, other in changed)
    if lost + gained:
        sentence = f"{count(unread_now, 'verdict')} cannot be read now, {unread} could not then"
        comparison.tests.append(DriftTest("unparsable", mcnemar(lost, gained), sentence))
    if pair.scale.kind is not None:
        _direction(comparison, pair, limits)
    if classes:
        _correctness(comparison, pair, before, after, limits)
    return comparison


def _pair(then: CalibratedCard, now: CalibratedCard) -> _Pair:
    old, new, labels = then.card.verdicts, now.card.verdicts, now.calibration.labels
    ids = sorted(old.keys() & new.keys())
    rows = [
        Label(f"{when} {name}", labels.get(name), verdicts[name])
        for when, verdicts in (("then", old), ("now", new))
        for name in ids
    ]
    try:
        rows = labels_of(rows)
    except InputError as error:
        raise InputError(
            "JDG-009",
            f"their verdicts and labels can't be compared: {error.faults[0].message}",
            where=f"the cards of {then.card.made_at} and {now.card.made_at}",
            fix=AGAIN,
        ) from None
    scale = scale_of(rows)
    positive = now.calibration.scale.positive
    known = {value_text(x) for row in rows for x in (row.human, row.judge) if x is not None}
    if scale.name == "categories" and positive in known:
        scale = scale_of(rows, positive=positive)
    return _Pair(ids, [old[name] for name in ids], [new[name] for name in ids], labels, scale)


def _direction(comparison: CardComparison, pair: _Pair, limits: DriftLimits) -> None:
    """Whether verdicts moved one way."""
    before = [pair.scale.score(value) for value in pair.before]
    now = [pair.scale.score(value) for value in pair.now]
    moves = [
        other - earlier
        for earlier, other in zip(before, now, strict=True)
        if earlier is not None and other is not None
    ]
    up, down = sum(move > 0 for move in moves), sum(move < 0 for move in moves)
    assert pair.scale.kind is not None
    change = mean_difference(before, now, kind=pair.scale.kind, level=limits.level)
    comparison.mean_change = value_interval(change)
    comparison.tests.append(
        DriftTest(
            "direction",
            mcnemar(up, down),
            f"{count(up, 'verdict')} went up and {down} down; the mean changed by"
            f" {shown(change.shown())}",
        )
    )


def _correctness(
    comparison: CardComparison,
    pair: _Pair,
    before: list[str],
    now: list[str],
    limits: DriftLimits,
) -> None:
    """Whether it agrees with people more or less than it did."""
    labelled = [
        (value_text(pair.labels[name]), earlier, other)
        for name, earlier, other in zip(pair.ids, before, now, strict=True)
        if pair.labels.get(name) is not None
    ]
    truth, then, later = ([row[place] for row in labelled] for place in range(3))
    right_then = [float(earlier == label) for label, earlier, _ in labelled]
    right_now = [float(other == label) for label, _, other in labelled]
    worse = sum(earlier > other for earlier, other in zip(right_then, right_now, strict=True))
    better = sum(earlier < other for earlier, other in zip(right_then, right_now, strict=True))
    change = mean_difference(right_then, right_now, kind="rate", level=limits.level)
    kappa = kappa_change(truth, then, later, level=limits.level)
    comparison.accuracy_change = value_interval(change)
    comparison.kappa_change = value_interval(kappa)
    comparison.tests.append(
        DriftTest(
            "agreement",
            mcnemar(better, worse),
            f"{count(worse, 'item')} went from right to wrong and {better} from wrong to right;"
            f" accuracy changed by {shown(change.shown())}, kappa by"
            f" {shown(kappa.shown())}",
        )
    )


def _reason(
    alarms: list[tuple[CardComparison, DriftTest]],
    enough: list[CardComparison],
    comparisons: list[CardComparison],
    left_out: list[dict[str, str]],
    past: Sequence[Any],
    stale: str,
) -> str:
    if alarms:
        return "; ".join(
            f"since {comparison.since}: {test.sentence} (p {test.p_holm:.2g} after Holm)"
            for comparison, test in alarms
        )
    if stale:
        return f"not enough evidence: {stale}"
    if enough:
        return (
            f"no change is shown on {enough[0].n} items since {enough[0].since}:"
            f" {shown(to_builtins(enough[0].flipped), share=True)} of verdicts changed"
        )
    if comparisons:
        return f"not enough evidence: {comparisons[0].reason}"
    if past:
        return (
            "not enough evidence: no past card is of this judge on this set"
            f" ({left_out[-1]['reason']})"
        )
    return "not enough evidence: there is no past card"
