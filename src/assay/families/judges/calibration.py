"""Compares a judge with human labels: agreement, bias, and an estimate of what people would have
said about everything the judge has seen.

A verdict that could not be read counts against the judge wherever agreement is measured: as the
value farthest from the label where values have an order, and as a separate category where they
have none. Otherwise a judge could raise its agreement by giving no verdict on the hard items. The
estimates of the true mean need no such rule: see `stats.calibration`. The digest of a calibration
set covers only its ids and labels, so that calibrations on different days share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from math import fsum, sqrt
from typing import Any, NamedTuple

from assay.canon import digest
from assay.errors import NotEnoughEvidence, UsageError, count
from assay.families.judges.label_rows import (
    UNREAD,
    Label,
    Scale,
    distinct_labels,
    labels_of,
    match_verdicts,
    read_text,
    scale_of,
    value_text,
)
from assay.judging.answer_times import answered_at
from assay.records.grade import ENGINE
from assay.stats.agreement import (
    agreement,
    cohen_kappa,
    count_pairs,
    krippendorff_alpha,
    weighted_kappa,
)
from assay.stats.calibration import mean_difference, misclassification, naive, ppi, tuned_weight
from assay.stats.correlation import kendall_tau_b, pearson, spearman
from assay.stats.intervals import Interval, wilson

_NOT_RANDOM = (
    "The judge rates the labelled rows differently from the rest, or rates more of them: if they"
    " were not drawn at random, no correction is valid. Unless they are a whole set that `assay"
    " label new` drew at random, no card made from this calibration lets the judge gate."
)


def sentences(calibration: Mapping[str, Any]) -> list[str]:
    """The calibration in plain words, with intervals and counts."""
    total = calibration["n_labelled"] + calibration["n_unlabelled"]
    copies, unread = calibration.get("copies"), calibration["unparsable"]
    ppi, selection = calibration["corrected"]["ppi"], calibration["selection"]
    labelled = calibration["n_labelled"]
    told = (
        f"{labelled:,} of {total:,} rows have a human label.",
        f"{count(copies, 'more row')} left out: copies of another text." if copies else "",
        f"{count(unread['total'], 'verdict')} could not be read, {unread['labelled']:,} of them"
        " on labelled rows; there they count as wrong."
        if unread["total"]
        else "",
        _agreement(calibration["agreement"], calibration["accuracy"]),
        _bias(calibration["bias"]["mean_difference"], labelled - unread["labelled"]),
        *(
            [f"Nothing is estimated: {ppi.get('reason')}."]
            if ppi["value"] is None
            else _estimates(
                calibration["corrected"],
                calibration["n_judged"],
                share=calibration["scale"]["positive"] is not None,
            )
        ),
        "" if selection is None or selection["looks_random"] else _NOT_RANDOM,
        ""
        if calibration["groups"] is None
        else f"Rows come in {calibration['groups']['n']:,} groups: bias and estimates allow for"
        " that, the intervals of agreement do not.",
    )
    return list(filter(None, told))


def _agreement(block: Mapping[str, Any], accuracy: Mapping[str, Any]) -> str:
    kappa, rank = block["cohen_kappa"], block["spearman"]
    if kappa["value"] is not None:
        return (
            f"The judge gives the human label in {shown(accuracy, share=True)};"
            f" Cohen's kappa is {shown(kappa)}."
        )
    if rank["value"] is not None:
        return f"The rank correlation of scores and labels is {shown(rank)}."
    return f"Agreement cannot be determined: {kappa.get('reason') or rank.get('reason')}."


def _bias(bias: Mapping[str, Any], n: int) -> str:
    if bias["low"] is None:
        return ""
    way = "higher than" if bias["low"] > 0 else "lower than" if bias["high"] < 0 else ""
    leans = f"The judge scores {way} people do" if way else "No bias is shown"
    return f"{leans}: judge minus people is {shown(bias)}, over {n:,} rows."


def _estimates(corrected: Mapping[str, Any], judged: int, *, share: bool) -> list[str]:
    alone, ppi_, inverted = corrected["naive"], corrected["ppi"], corrected["misclassification"]
    what = "rate" if share else "mean"
    lines = [
        (
            f"The judge alone gives {shown(alone, share=share)} over {judged:,} rows; that is its own"  # noqa: E501
            f" {what}, not the truth."
        )
    ]
    outside = (
        None not in (alone["value"], ppi_["low"])
        and not ppi_["low"] <= alone["value"] <= ppi_["high"]
    )
    lines.append(
        f"By labels and verdicts together (PPI++) the true {what} is"
        f" {shown(ppi_, share=share)}{': the judge alone is wrong' if outside else ''}."
    )
    if inverted["value"] is not None:
        why = f" ({inverted['reason']})" if "reason" in inverted else ""
        lines.append(
            "Corrected for its errors (misclassification), it is"
            f" {shown(inverted, share=share)}{why}."
        )
    elif share:
        lines.append(f"Its errors can't be corrected for: {inverted.get('reason')}.")
    return lines


def shown(interval: Mapping[str, Any], *, share: bool = False) -> str:
    """A value with its interval, in words.

    >>> shown({"value": 0.5, "low": 0.25, "high": 0.75}, share=True)
    '50.0% (25.0% to 75.0%)'
    """
    if interval["value"] is None:
        return f"unknown ({interval.get('reason')})"
    ends = (interval["value"], interval["low"], interval["high"])
    value, low, high = (
        (
            None
            if end is None
            else f"{100 * end:.1f}%"
            if share
            else f"{round(float(end), 3) + 0.0:.3f}"
        )
        for end in ends
    )
    return (
        f"{value} (no interval: {interval.get('reason')})"
        if low is None
        else f"{value} ({low} to {high})"
    )


CALIBRATION_SCHEMA = "assay.judge-calibration/1"
MINIMUM_LABELS = 30
"""The minimum number of labels with a readable verdict, unless a policy sets another."""
_CONTINUOUS = "the scores are continuous: exact agreement means nothing"
FAR = 2.576
"""From this many standard errors between the judge's means on labelled and other rows, the labels
look hand-picked.
"""


def calibrate(
    rows: Sequence[Mapping[str, Any] | Label],
    *,
    minimum: int = MINIMUM_LABELS,
    level: float = 0.95,
    seed: int = 0,
    set_id: str | None = None,
    set_version: str | None = None,
    positive: str | None = None,
    judgements: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The calibration of one judge on one set of rows; `positive` names the value whose rate is
    wanted, where the values are words.

    `judgements` is the document in which the judge gave the verdicts: it says who the judge is and
    when it answered, and every verdict of the rows must be in it; what else it has on their
    criterion counts as unlabelled. Without it the calibration names no judge, and no card made from
    it lets a judge gate. No statistic here uses the seed; it is stored with the result.
    """
    if not 0.5 < level < 1:
        raise UsageError(
            "STA-001",
            f"the level is {level}; it must be above 0.5 and below 1.",
            fix="0.95 is usual.",
        )
    items = labels_of(rows)
    criteria: dict[str, list[str]] = {}
    if judgements is not None:
        criteria, unlabelled = match_verdicts(items, judgements)
        # otherwise a file without the unlabelled rows would hide that labels were hand-picked
        items = labels_of([*items, *unlabelled])
    given, items = len(items), distinct_labels(items, judgements, criteria)
    copies = given - len(items)
    labelled = [row for row in items if row.human is not None]
    both = [row for row in labelled if row.judge is not None]
    if len(both) < max(1, minimum):
        silent = (
            f" ({len(labelled) - len(both)} more have a label and no verdict that could be read)"
            if len(labelled) > len(both)
            else ""
        )
        once = f", {count(copies, 'copy', 'copies')} left out" if copies else ""
        raise NotEnoughEvidence(
            "JDG-010",
            f"{len(both)} labelled verdicts of {len(items)} rows{silent}{once}; at least"
            f" {max(1, minimum)} are needed.",
            fix="Label more rows, drawn at random, or lower --minimum and trust the result less.",
        )
    scale = scale_of(items, positive=positive)
    unread = sum(row.judge is None for row in items)
    grouped = any(row.group is not None for row in items)
    groups: list[Hashable] | None = (
        [(row.id, None) if row.group is None else row.group for row in items] if grouped else None
    )
    human = [scale.score(row.human) for row in items]
    judge = [scale.score(row.judge) for row in items]
    read = None
    if len(labelled) > len(both):
        read = agreement_block(
            [row.human for row in both], [row.judge for row in both], scale, level=level
        )
    calibration = {
        "schema": CALIBRATION_SCHEMA,
        "judge": None if judgements is None else judgements["judge"],
        "scorer": None if judgements is None else {**judgements["scorer"], **criteria},
        "answered_at": None if judgements is None else answered_at(judgements),
        "n_labelled": len(labelled),
        "n_unlabelled": len(items) - len(labelled),
        "n_judged": len(items) - unread,
        "unparsable": {"total": unread, "labelled": len(labelled) - len(both)},
        "scale": {"name": scale.name, "positive": scale.positive},
        "agreement": agreement_block(
            [row.human for row in labelled], [row.judge for row in labelled], scale, level=level
        ),
        "accuracy": _accuracy(labelled, scale, level).shown(),
        "bias": {"mean_difference": _bias_text(human, judge, scale, level, groups).shown()},
        "corrected": {
            name: value.shown()
            for name, value in _corrected(human, judge, scale, level, groups).items()
        },
        "set": {"id": set_id, "version": set_version, "digest": set_digest(items)},
        "labels": {row.id: row.human for row in labelled},
        "verdicts": {row.id: row.judge for row in items},
        "groups": (
            {"n": len(set(groups)), "corrected": "cluster-robust", "agreement": "ignored"}
            if groups is not None
            else None
        ),
        "selection": _selection(items, scale),
        "ppi_weight": tuned_weight(human, judge) if scale.kind else None,
        "level": level,
        "seed": seed,
        **ENGINE,
        **({"copies": copies} if copies else {}),
        **({} if read is None else {"agreement_of_read": read}),
    }
    return {**calibration, "sentences": sentences(calibration)}


def set_digest(rows: Sequence[Label]) -> str:
    """The digest of a calibration set: its ids and human labels, whatever their order."""
    return digest({row.id: row.human for row in rows if row.human is not None})


def agreement_block(
    labels: Sequence[Any], verdicts: Sequence[Any], scale: Scale, *, level: float
) -> dict[str, Any]:
    """Every statistic of agreement that the scale allows, each with its interval; null with a
    reason where it does not.
    """
    ordered = scale.kind is not None
    first: list[Any]
    second: list[Any]
    if ordered:
        people = [scale.worth[value_text(label)] for label in labels]
        low, high = min(scale.worth.values()), max(scale.worth.values())
        first, second = (
            people,
            [
                _read(scale, verdict, label, low, high)
                for verdict, label in zip(verdicts, people, strict=True)
            ],
        )
    else:
        first, second = (
            [value_text(label) for label in labels],
            [read_text(verdict) for verdict in verdicts],
        )
    pairs = count_pairs(first, second)
    classes = scale.name != "continuous"
    no_classes = None if classes else _CONTINUOUS
    no_order = None if ordered else "the categories have no order; name the positive one"
    items = list(zip(first, second, strict=True))
    measured: str = (
        "nominal" if scale.name in ("binary", "comparison", "categories") else "interval"
    )
    # by rank, a 2 and a 5 would be neighbours if nobody gave a 3 or a 4
    by_value = measured == "interval"
    return {
        "n": len(labels),
        "agreement": _or_none(no_classes, level, lambda: agreement(items, confidence=level)),
        "cohen_kappa": _or_none(no_classes, level, lambda: cohen_kappa(pairs, level=level)),
        "weighted_kappa": {
            "linear": _or_none(
                no_order or no_classes,
                level,
                lambda: weighted_kappa(pairs, "linear", by_value=by_value, level=level),
            ),
            "quadratic": _or_none(
                no_order or no_classes,
                level,
                lambda: weighted_kappa(pairs, "quadratic", by_value=by_value, level=level),
            ),
        },
        "krippendorff_alpha": krippendorff_alpha(items, level=measured, confidence=level).shown(),  # type: ignore[arg-type]
        "krippendorff_level": measured,
        "spearman": _or_none(no_order, level, lambda: spearman(first, second, level=level)),
        "kendall_tau_b": _or_none(
            no_order, level, lambda: kendall_tau_b(first, second, level=level)
        ),
        "pearson": _or_none(no_order, level, lambda: pearson(first, second, level=level)),
        "confusion": _confusion(labels, verdicts) if classes else None,
    }


def _read(scale: Scale, verdict: Any, label: float, low: float, high: float) -> float:
    """The value of a verdict; an unreadable one is as wrong as the scale allows."""
    if verdict is None:
        return low if label - low >= high - label else high
    return scale.worth[value_text(verdict)]


def _or_none(reason: str | None, level: float, compute: Any) -> dict[str, Any]:
    interval: Interval = Interval.unknown(None, level, "none", reason) if reason else compute()
    return interval.shown()


def _confusion(labels: Sequence[Any], verdicts: Sequence[Any]) -> dict[str, Any]:
    """The confusion matrix: a row for each human label, a column for each verdict, unreadable ones
    last.
    """
    counts = Counter(
        (value_text(label), read_text(verdict))
        for label, verdict in zip(labels, verdicts, strict=True)
    )
    names = sorted(
        {value_text(value) for value in [*labels, *verdicts] if value is not None}, key=_place
    )
    columns = [*names, *([UNREAD] if any(verdict is None for verdict in verdicts) else [])]
    return {
        "human": names,
        "judge": columns,
        "counts": [[counts[row, column] for column in columns] for row in names],
    }


def _place(name: str) -> tuple[int, float, str]:
    try:
        return (0, float(name), name)
    except ValueError:
        return (1, 0.0, name)


def _accuracy(labelled: Sequence[Label], scale: Scale, level: float) -> Interval:
    """The share of labelled rows whose verdict is the label; an unread verdict is wrong. With a
    positive value, all others are one class.
    """
    if scale.name == "continuous":
        return Interval.unknown(None, level, "wilson", _CONTINUOUS)
    right = sum(row.judge is not None and _same(row.human, row.judge, scale) for row in labelled)
    return wilson(right, len(labelled), level=level)


def _same(label: Any, other: Any, scale: Scale) -> bool:
    return (
        scale.score(label) == scale.score(other)
        if scale.kind
        else value_text(label) == value_text(other)
    )


_WORDS = "the values are words; name the one whose rate to estimate with --positive"


def _bias_text(
    human: list[float | None],
    judge: list[float | None],
    scale: Scale,
    level: float,
    groups: list[Hashable] | None,
) -> Interval:
    if scale.kind is None:
        return Interval.unknown(None, level, "none", _WORDS)
    return mean_difference(human, judge, kind=scale.kind, level=level, groups=groups)


def _corrected(
    human: list[float | None],
    judge: list[float | None],
    scale: Scale,
    level: float,
    groups: list[Hashable] | None,
) -> dict[str, Interval]:
    if scale.kind is None:
        unknown = Interval.unknown(None, level, "none", _WORDS)
        return dict.fromkeys(("naive", "ppi", "misclassification"), unknown)
    why = "only for classes: scores on a scale of numbers are not right or wrong; ppi corrects them"
    return {
        "naive": naive(judge, kind=scale.kind, level=level, groups=groups),
        "ppi": ppi(human, judge, kind=scale.kind, level=level, groups=groups),
        "misclassification": (
            misclassification(human, judge, level=level, groups=groups)
            if scale.kind == "rate"
            else Interval.unknown(None, level, "none", why)
        ),
    }


def _selection(items: Sequence[Label], scale: Scale) -> dict[str, Any] | None:
    """Whether the judge sees the labelled rows as it sees the others: its verdicts, and how often
    it gives none. Both corrections need labels of rows drawn at random.
    """
    scores: tuple[list[float], list[float]] = ([], [])
    unread: tuple[list[float], list[float]] = ([], [])
    for row in items:
        unread[row.human is None].append(row.judge is None)
        if (score := scale.score(row.judge)) is not None:
            scores[row.human is None].append(score)
    means, shares = _alike(*scores), _alike(*unread)
    if shares is None:
        return None
    return {
        "judge_on_labelled": means and means.labelled,
        "judge_on_others": means and means.others,
        "unread_on_labelled": shares.labelled,
        "unread_on_others": shares.others,
        "looks_random": shares.alike and (means is None or means.alike),
    }


class _TwoMeans(NamedTuple):
    """Means on labelled and on other rows, and whether chance can have made them differ."""

    labelled: float
    others: float
    alike: bool


def _alike(labelled: Sequence[float], others: Sequence[float]) -> _TwoMeans | None:
    if min(len(labelled), len(others)) < 2:
        return None
    first, second = fsum(labelled) / len(labelled), fsum(others) / len(others)
    every = [*labelled, *others]
    middle, share = fsum(every) / len(every), 1 / len(labelled) + 1 / len(others)
    # less half a row, as for counts: one rare verdict on either side doesn't look hand-picked
    spread = fsum((score - middle) ** 2 for score in every) / (len(every) - 1)
    apart = abs(first - second) - (max(every) - min(every)) * share / 2
    return _TwoMeans(first, second, apart <= FAR * sqrt(spread * share))
