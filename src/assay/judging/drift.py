"""Drift: a judge's latest card against its own past. The same name may answer otherwise tomorrow;
only the same items can show it.

A card, as far as it is read here, is a dict with `model`, `prompt_version`, `made_at`,
`calibration` (what `calibrate` gives: its `set.digest`, `labels` and `scale` are used) and
`verdicts` (id to the judge's value, null where it could not be read). Two cards are comparable when
model, prompt version and calibration set are the same; anything else is another instrument, or
another thing measured. Any change is drift, also one for the better: a card describes the judge it
was made of.

The latest card is held against the newest comparable one, and against the oldest, because a judge
that moves a little each month never differs from last month.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import InputError
from assay.judging.calibration import shown
from assay.judging.labels import Label, Scale, scale_of, value_text
from assay.records.grade import ENGINE
from assay.stats.calibration import mean_difference
from assay.stats.changes import kappa_change, more_than
from assay.stats.comparison import holm
from assay.stats.intervals import Interval, wilson
from assay.stats.rates import mcnemar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DRIFT_SCHEMA = "assay.judge-drift/1"
UNREAD = "(unparsable)"


class DriftLimits(NamedTuple):
    """What counts as drift."""

    minimum: int = 30
    """Items with verdicts on both cards below which nothing is said."""
    max_flipped: float = 0.1
    """The share of items whose verdict may change; a judge that is asked twice does not say
    everything twice.
    """
    alpha: float = 0.05
    """The chance of a false alarm over all tests together."""
    level: float = 0.95


class _Pair(NamedTuple):
    """The verdicts of two cards on the items that both have."""

    ids: list[str]
    before: list[Any]
    now: list[Any]
    labels: dict[str, Any]
    scale: Scale


def compare_cards(
    past: Sequence[Mapping[str, Any]],
    latest: Mapping[str, Any],
    *,
    limits: DriftLimits | None = None,
) -> dict[str, Any]:
    """Whether a judge has drifted: `alarm` true, false, or null where that cannot be told."""
    chosen = limits or DriftLimits()
    for card in (*past, latest):
        _check(card)
    left_out = []
    comparable = []
    for card in sorted(past, key=lambda card: str(card["made_at"])):
        reason = _unlike(card, latest)
        if reason:
            left_out.append({"made_at": card["made_at"], "reason": reason})
        else:
            comparable.append(card)
    ends = [comparable[-1], comparable[0]] if len(comparable) > 1 else comparable
    comparisons = [_compare(card, latest, chosen) for card in ends]
    told = [found for found in comparisons if found["enough"]]
    adjusted = holm(
        {
            f"{place}.{test['id']}": test["p"]
            for place, found in enumerate(told)
            for test in found["tests"]
        }
    )
    for place, found in enumerate(told):
        for test in found["tests"]:
            test["p_holm"] = adjusted[f"{place}.{test['id']}"]
            test["alarm"] = test["p_holm"] is not None and test["p_holm"] <= chosen.alpha
    alarms = [(found, test) for found in told for test in found["tests"] if test["alarm"]]
    alarm = bool(alarms) if told else None
    return {
        "schema": DRIFT_SCHEMA,
        "alarm": alarm,
        "reason": _reason(alarms, told, comparisons, left_out, past),
        "model": latest["model"],
        "prompt_version": latest["prompt_version"],
        "set": dict(latest["calibration"]["set"]),
        "made_at": latest["made_at"],
        "comparisons": comparisons,
        "left_out": left_out,
        "limits": chosen._asdict(),
        **ENGINE,
    }


def _check(card: Mapping[str, Any]) -> None:
    missing = [
        key
        for key in ("model", "prompt_version", "made_at", "calibration", "verdicts")
        if key not in card
    ]
    calibration = card.get("calibration")
    if not missing and not (
        isinstance(calibration, dict)
        and isinstance(calibration.get("set"), dict)
        and isinstance(calibration.get("labels"), dict)
    ):
        missing = ["a calibration with its set and labels"]
    if not missing and not isinstance(card["verdicts"], dict):
        missing = ["verdicts by item"]
    if missing:
        where = f"the card of {card.get('made_at')}" if card.get("made_at") else ""
        raise InputError(
            "JDG-009",
            f"a card lacks {', '.join(missing)}.",
            where=where,
            fix="Make it with `assay judge card` from a calibration.",
        )


def _unlike(card: Mapping[str, Any], latest: Mapping[str, Any]) -> str:
    """Why two cards are not of one judge on one set; nothing where they are."""
    for key, what in (("model", "model"), ("prompt_version", "prompt version")):
        if card[key] != latest[key]:
            return f"another {what}: {card[key]} then, {latest[key]} now"
    digests = [one["calibration"]["set"].get("digest") for one in (card, latest)]
    if digests[0] is None or digests[0] != digests[1]:
        return "another calibration set: other items or other labels"
    if str(card["made_at"]) >= str(latest["made_at"]):
        return f"it was made at {card['made_at']}, not before the latest card"
    return ""


def _compare(
    card: Mapping[str, Any], latest: Mapping[str, Any], limits: DriftLimits
) -> dict[str, Any]:
    pair = _pair(card, latest)
    n = len(pair.ids)
    found: dict[str, Any] = {
        "with": card["made_at"],
        "n": n,
        "enough": n >= limits.minimum,
        "tests": [],
    }
    if n < limits.minimum:
        found["reason"] = (
            f"{n} items have verdicts on both cards; at least {limits.minimum} are needed"
        )
        return found
    before, now = [_text(value) for value in pair.before], [_text(value) for value in pair.now]
    flipped = sum(one != other for one, other in zip(before, now, strict=True))
    found["flipped"] = wilson(flipped, n, level=limits.level).shown()
    found["flipped_items"] = [
        name for name, one, other in zip(pair.ids, before, now, strict=True) if one != other
    ][:20]
    found["unparsable"] = {"before": before.count(UNREAD), "now": now.count(UNREAD)}
    tests: dict[str, float] = {}
    said: dict[str, str] = {}
    if (
        pair.scale.name != "continuous"
    ):  # there a verdict changes in some digit whenever it is asked for
        tests["flipped"] = more_than(flipped, n, limits.max_flipped)
        said["flipped"] = (
            f"{flipped} of {n} verdicts on the same items changed,"
            f" {shown(found['flipped'], share=True)}; up to {limits.max_flipped:.0%} is allowed"
        )
    _unparsable(found, tests, said, before, now)
    if pair.scale.kind is not None:
        _direction(found, tests, said, pair, limits)
    if pair.scale.name != "continuous":
        _correctness(found, tests, said, pair, before, now, limits)
    found["tests"] = [{"id": name, "p": p, "sentence": said[name]} for name, p in tests.items()]
    return found


def _pair(card: Mapping[str, Any], latest: Mapping[str, Any]) -> _Pair:
    labels = latest["calibration"]["labels"]
    ids = sorted(set(card["verdicts"]) & set(latest["verdicts"]))
    before, now = (
        [card["verdicts"][name] for name in ids],
        [latest["verdicts"][name] for name in ids],
    )
    rows = [
        Label(name, labels.get(name), value)
        for name, value in [*zip(ids, before, strict=True), *zip(ids, now, strict=True)]
    ]
    positive = (latest["calibration"].get("scale") or {}).get("positive")
    known = {
        value_text(value) for row in rows for value in (row.human, row.judge) if value is not None
    }
    scale = scale_of(rows)
    if scale.name == "categories" and positive in known:
        scale = scale_of(rows, positive=positive)
    return _Pair(ids, before, now, labels, scale)


def _text(value: Any) -> str:
    return UNREAD if value is None else value_text(value)


def _unparsable(
    found: dict[str, Any],
    tests: dict[str, float],
    said: dict[str, str],
    before: list[str],
    now: list[str],
) -> None:
    lost = sum(one != UNREAD and other == UNREAD for one, other in zip(before, now, strict=True))
    gained = sum(one == UNREAD and other != UNREAD for one, other in zip(before, now, strict=True))
    if lost + gained:
        tests["unparsable"] = mcnemar(lost, gained).p
        said["unparsable"] = (
            f"{found['unparsable']['now']} verdicts cannot be read now,"
            f" {found['unparsable']['before']} could not then"
        )


def _direction(
    found: dict[str, Any],
    tests: dict[str, float],
    said: dict[str, str],
    pair: _Pair,
    limits: DriftLimits,
) -> None:
    """Whether verdicts moved one way."""
    before, now = (
        [pair.scale.score(value) for value in pair.before],
        [pair.scale.score(value) for value in pair.now],
    )
    both = [
        (one, other)
        for one, other in zip(before, now, strict=True)
        if one is not None and other is not None
    ]
    up, down = sum(other > one for one, other in both), sum(other < one for one, other in both)
    assert pair.scale.kind is not None
    change = mean_difference(before, now, kind=pair.scale.kind, level=limits.level)
    found["mean_change"] = change.shown()
    tests["direction"] = mcnemar(up, down).p
    said["direction"] = (
        f"{up} verdicts went up and {down} down; the mean changed by {shown(found['mean_change'])}"
    )


def _correctness(
    found: dict[str, Any],
    tests: dict[str, float],
    said: dict[str, str],
    pair: _Pair,
    before: list[str],
    now: list[str],
    limits: DriftLimits,
) -> None:
    """Whether it agrees with people more or less than it did."""
    places = [place for place, name in enumerate(pair.ids) if pair.labels.get(name) is not None]
    truth = [_text(pair.labels[pair.ids[place]]) for place in places]
    then, later = [before[place] for place in places], [now[place] for place in places]
    right_then = [float(one == label) for one, label in zip(then, truth, strict=True)]
    right_now = [float(one == label) for one, label in zip(later, truth, strict=True)]
    worse = sum(one > other for one, other in zip(right_then, right_now, strict=True))
    better = sum(one < other for one, other in zip(right_then, right_now, strict=True))
    change: Interval = mean_difference(right_then, right_now, kind="rate", level=limits.level)
    found["accuracy_change"] = change.shown()
    found["kappa_change"] = kappa_change(truth, then, later, level=limits.level).shown()
    tests["agreement"] = mcnemar(better, worse).p
    said["agreement"] = (
        f"{worse} items went from right to wrong and {better} from wrong to right; accuracy changed"
        f" by {shown(found['accuracy_change'])}, kappa by {shown(found['kappa_change'])}"
    )


def _reason(
    alarms: list[tuple[dict[str, Any], dict[str, Any]]],
    told: list[dict[str, Any]],
    comparisons: list[dict[str, Any]],
    left_out: list[dict[str, Any]],
    past: Sequence[Mapping[str, Any]],
) -> str:
    if alarms:
        return "; ".join(
            f"since {found['with']}: {test['sentence']} (p {test['p_holm']:.2g} after Holm)"
            for found, test in alarms
        )
    if told:
        flips = told[0]["flipped"]
        return (
            f"no change is shown on {told[0]['n']} items since {told[0]['with']}:"
            f" {shown(flips, share=True)} of verdicts changed"
        )
    if comparisons:
        return f"not enough evidence: {comparisons[0]['reason']}"
    if past:
        return (
            "not enough evidence: no past card is of this judge on this set"
            f" ({left_out[-1]['reason']})"
        )
    return "not enough evidence: there is no past card"
