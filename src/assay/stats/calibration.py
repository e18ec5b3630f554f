"""Estimates what people would have said on average, from few human labels and many verdicts of a
judge.

A row has a verdict of the judge, or None if it could not be read, and a human label, or None if
nobody looked. The labelled rows must be a random part of all rows: labels of hard cases alone say
nothing about the rest. Scores of kind "rate" are from 0 to 1 and take few values (a pass is 1, a
tie a half); those of kind "number" are on any scale. `naive` uses the judge alone, and its interval
is of the judge's own mean, not of the truth. `ppi` and the corrections for
error rates estimate the truth. Their coverage is simulated in
tests/campaign/campaign_calibration.py; where a method does not reach its level, it gives no
interval.

With `groups` (a topic, a conversation, a pair seen in both orders) rows of one group are not taken
as independent: an interval grows by the design effect that the groups show, and by Student's t with
the number of groups that have labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import fsum, sqrt
from typing import Literal, NamedTuple

from assay.errors import count
from assay.grouping import grouped
from assay.stats.clusters import Design, design, quantile
from assay.stats.intervals import Interval

Kind = Literal["rate", "number"]

LEAST_LABELS = 10
"""Below this no interval from labels holds its level over the grid of the simulation."""
LEAST_APART = 5
"""The number of labels on a scale of numbers that must differ from the commonest one; with fewer,
the observed spread says too little about the true one.
"""


class Labelled(NamedTuple):
    """A row that a person has labelled: its place among all rows, the label, and the judge's
    score.
    """

    at: int
    human: float
    judge: float


def naive(
    judge: Sequence[float | None],
    *,
    kind: Kind,
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
) -> Interval:
    """The judge's own mean over the verdicts that could be read. However narrow its interval, it
    says nothing about the true mean.

    >>> [round(end, 4) for end in naive([1, 1, 1, 0, None], kind="rate")[:3]]
    [0.75, 0.3006, 0.9544]
    """
    at = [index for index, score in enumerate(judge) if score is not None]
    scores = [score for score in judge if score is not None]
    name = f"{'wilson' if kind == 'rate' else 'student-t'}, of the judge's own mean"
    if not scores:
        return Interval.unknown(None, level, name, "no verdict could be read")
    mean = fsum(scores) / len(scores)
    if len(scores) < 2:
        return Interval.unknown(mean, level, name, "one sample has no spread to estimate from")
    cluster = design(
        [(score - mean) / len(scores) for score in scores], _pick(groups, at), level=level
    )
    if cluster.reason:
        return Interval.unknown(mean, level, name, cluster.reason)
    variance = fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1)
    if kind == "rate":
        low, high = _share_limits(mean, variance, len(scores) / cluster.effect, cluster.z)
        return Interval(mean, low, high, level, name)
    if variance == 0:
        return Interval.unknown(
            mean,
            level,
            name,
            "every score is the same: there is no spread to estimate from",
        )
    factor = cluster.z if groups is not None else quantile(level, len(scores) - 1)
    low, high = _skewed(
        mean,
        sqrt(variance * cluster.effect / len(scores)),
        factor,
        [score - mean for score in scores],
    )
    return Interval(mean, low, high, level, name)


def mean_difference(
    human: Sequence[float | None],
    judge: Sequence[float | None],
    *,
    kind: Kind,
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
) -> Interval:
    """How much higher the judge scores than people do, over the rows that both scored; below 0 if
    the judge is stricter.

    For a rate the interval is that of Bonett and Price for paired proportions: one pair more on
    either side, so that "no difference seen" keeps a width.

    >>> [round(end, 4) for end in mean_difference([1, 0] * 10, [1, 1] * 10, kind="rate")[:3]]
    [0.5, 0.2113, 0.6978]
    """
    at, differences = [], []
    for index, (truth, score) in enumerate(zip(human, judge, strict=True)):
        if truth is not None and score is not None:
            at.append(index)
            differences.append(score - truth)
    n = len(differences)
    name = "bonett-price" if kind == "rate" else "student-t"
    if n < LEAST_LABELS:
        return Interval.unknown(fsum(differences) / n if n else None, level, name, _too_few(n))
    mean = fsum(differences) / n
    cluster = design([(value - mean) / n for value in differences], _pick(groups, at), level=level)
    if cluster.reason:
        return Interval.unknown(mean, level, name, cluster.reason)
    squares = fsum((value - mean) ** 2 for value in differences)
    if kind == "rate":
        centre = fsum(differences) / (n + 2)
        spread = fsum(value * value for value in differences) + 2
        half = cluster.z * sqrt(
            max(0.0, spread / (n + 2) - centre * centre) * cluster.effect / (n + 2)
        )
        return Interval(
            mean,
            max(-1.0, min(mean, centre - half)),
            min(1.0, max(mean, centre + half)),
            level,
            name,
        )
    if _apart(differences) < LEAST_APART:
        return Interval.unknown(
            mean,
            level,
            name,
            f"fewer than {LEAST_APART} differences are unlike the commonest one: too little spread"
            " to estimate from",
        )
    factor = cluster.z if groups is not None else quantile(level, n - 1)
    low, high = _skewed(
        mean,
        sqrt(squares / (n - 1) * cluster.effect / n),
        factor,
        [value - mean for value in differences],
    )
    return Interval(mean, low, high, level, name)


def ppi(
    human: Sequence[float | None],
    judge: Sequence[float | None],
    *,
    kind: Kind,
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
) -> Interval:
    """The mean of what people would say: the labels' mean, moved by how the judge scores the
    labelled rows compared with all rows (PPI++).

    The weight of the judge's scores depends on how well they predict the labels (`tuned_weight`),
    so that neither a useless judge nor an unread verdict does any harm; an unread verdict counts as
    the judge's mean. For a rate the interval stratifies the labels by verdict and
    joins Wilson's limits of the strata; for a number it is Student's t on what the judge leaves
    unexplained. Sources: Angelopoulos, Duchi and Zrnic, PPI++, 2023; Zou and Donner, 2008, for the
    joining.

    >>> [
    ...     round(end, 3)
    ...     for end in ppi([1, 0, 1, 1, 0] * 6 + [None] * 90, [1, 0, 1, 1, 1] * 24, kind="rate")[:3]
    ... ]
    [0.6, 0.432, 0.741]
    """
    name = "ppi++, stratified wilson" if kind == "rate" else "ppi++, student-t"
    filled, labelled = _joined(human, judge)
    n, total = len(labelled), len(filled)
    if n < 2:
        return Interval.unknown(labelled[0].human if labelled else None, level, name, _too_few(n))
    weight = tuned_weight(human, judge)
    mean = fsum(row.human for row in labelled) / n
    seen = fsum(row.judge for row in labelled) / n
    others = total - n
    rest = (fsum(filled) - seen * n) / others if others else seen
    value = mean + weight * (rest - seen)
    if kind == "rate":
        value = min(1.0, max(0.0, value))
    if n < LEAST_LABELS:
        return Interval.unknown(value, level, name, _too_few(n))
    slope = weight * total / others if others else 0.0
    influence = _influence(filled, labelled, slope=slope, mean=mean, seen=seen)
    cluster = design(influence, groups, level=level, labelled=[row.at for row in labelled])
    if cluster.reason:
        return Interval.unknown(value, level, name, cluster.reason)
    if kind == "rate":
        low, high = _stratified(human, judge, cluster)
        return Interval(value, min(low, value), max(high, value), level, name)
    if _apart([row.human for row in labelled]) < LEAST_APART:
        reason = (
            f"fewer than {LEAST_APART} labels are unlike the commonest one: too little spread to"
            " estimate from"
        )
        return Interval.unknown(value, level, name, reason)
    lost = 2 if weight > 0 else 1
    residual = (
        fsum((row.human - mean - weight * (row.judge - seen)) ** 2 for row in labelled)
        / (n - lost)
        / n
    )
    around = fsum((row.judge - seen) ** 2 for row in labelled)
    # the weight is an estimate too, and matters more, the more labelled rows differ from the others
    if weight > 0 and around > 0:
        residual *= 1 + n * (weight / slope * (rest - seen)) ** 2 / around
    carried = weight * weight * _variance(filled) / others if others else 0.0
    if residual + carried <= 0:
        return Interval.unknown(
            value,
            level,
            name,
            "the scores differ by less than numbers of this size can show",
        )
    # Satterthwaite: few labels and many verdicts contribute different degrees of freedom
    part = residual / (residual + carried)
    df = 1 / (part**2 / (n - lost) + (1 - part) ** 2 / max(1, others - 1))
    factor = cluster.z if groups is not None else quantile(level, max(1.0, df))
    low, high = _skewed(value, sqrt((residual + carried) * cluster.effect), factor, influence)
    return Interval(value, low, high, level, name)


def tuned_weight(human: Sequence[float | None], judge: Sequence[float | None]) -> float:
    """The weight of the judge's scores, from 0 (useless, or nothing unlabelled) to 1, that makes
    the estimate vary least: PPI++'s tuned lambda.

    >>> tuned_weight([1, 0, 1, 0, None, None, None, None], [1, 0, 1, 0, 1, 0, 1, 0])
    0.4375
    """
    filled, labelled = _joined(human, judge)
    n, total = len(labelled), len(filled)
    variance = _variance(filled)
    if n < 2 or total == n or variance <= 0:
        return 0.0
    mean = fsum(row.human for row in labelled) / n
    seen = fsum(row.judge for row in labelled) / n
    covariance = fsum((row.human - mean) * (row.judge - seen) for row in labelled) / n
    return min(1.0, max(0.0, covariance / ((1 + n / (total - n)) * variance)))


def _stratified(
    human: Sequence[float | None], judge: Sequence[float | None], cluster: Design
) -> tuple[float, float]:
    """Limits for a rate: Wilson's limits of the labels of each verdict, weighted by how common the
    verdict is over all rows, joined as independent distances.
    """
    sizes = Counter(judge)
    labels = grouped(
        (verdict, truth) for truth, verdict in zip(human, judge, strict=True) if truth is not None
    )
    total = len(judge)
    everyone = [truth for truths in labels.values() for truth in truths]
    overall = fsum(everyone) / len(everyone)
    centre, below, above, moved = 0.0, 0.0, 0.0, 0.0
    means: list[tuple[float, float]] = []
    for verdict, size in sizes.items():
        share = size / total
        truths = labels.get(verdict, [])
        mean = fsum(truths) / len(truths) if truths else overall
        if truths:
            low, high = _share_limits(
                mean, _variance(truths), len(truths) / cluster.effect, cluster.z
            )
        else:
            low, high = 0.0, 1.0  # no row with this verdict has a label, so anything is possible
        centre += share * mean
        below += (share * (mean - low)) ** 2
        above += (share * (high - mean)) ** 2
        means.append((share, mean))
    moved = (
        fsum(share * (mean - centre) ** 2 for share, mean in means)
        / total
        * cluster.effect
        * cluster.z**2
    )
    return max(0.0, centre - sqrt(below + moved)), min(1.0, centre + sqrt(above + moved))


def _influence(
    filled: list[float], labelled: list[Labelled], *, slope: float, mean: float, seen: float
) -> list[float]:
    """How much each row moves the estimate, for the design effect of groups."""
    total, n = len(filled), len(labelled)
    everyone = fsum(filled) / total
    influence = [slope * (score - everyone) / total for score in filled]
    for row in labelled:
        influence[row.at] += (row.human - mean - slope * (row.judge - seen)) / n
    return influence


def _share_limits(mean: float, variance: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's limits for the mean of scores from 0 to 1. With ties, scores vary less than passes
    and fails do, so n is raised accordingly.
    """
    most = mean * (1 - mean)
    if most > 0 and 0 < variance < most:
        n = n * (n + z * z) / (n * variance / most + z * z)
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(most / n + z * z / (4 * n * n))
    return (0.0 if mean <= 0 else max(0.0, min(mean, centre - half))), (
        1.0 if mean >= 1 else min(1.0, max(mean, centre + half))
    )


def _skewed(
    value: float, error: float, factor: float, influence: Sequence[float]
) -> tuple[float, float]:
    """Student's limits, with the one on the side of the longer tail moved out by its first
    Edgeworth term; the other is never moved in.
    """
    squares = fsum(part * part for part in influence)
    skew = fsum(part**3 for part in influence) / squares**1.5 if squares > 0 else 0.0
    moved = error * (2 * factor * factor + 1) / 6 * skew
    return value - factor * error + min(0.0, moved), value + factor * error + max(0.0, moved)


def _joined(
    human: Sequence[float | None], judge: Sequence[float | None]
) -> tuple[list[float], list[Labelled]]:
    """The judge's scores, with unread ones as the mean of the others, and the labelled rows."""
    read = [score for score in judge if score is not None]
    mean = fsum(read) / len(read) if read else 0.0
    filled = [mean if score is None else score for score in judge]
    return filled, [
        Labelled(at, truth, score)
        for at, (truth, score) in enumerate(zip(human, filled, strict=True))
        if truth is not None
    ]


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = fsum(values) / len(values)
    return fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _apart(values: Sequence[float]) -> int:
    return len(values) - max(Counter(values).values())


def _pick(groups: Sequence[Hashable] | None, at: list[int]) -> list[Hashable] | None:
    return None if groups is None else [groups[index] for index in at]


def _too_few(n: int) -> str:
    return f"{count(n, 'label')}; at least {LEAST_LABELS} are needed"


LEAST_IN_CLASS = 5
"""The number of labels that each of three classes needs."""


class _LabelGroup(NamedTuple):
    """The judge's scores on rows of one human class, with one 0 and one 1 added."""

    n: int
    plain: float
    mean: float
    variance: float


def misclassification(
    human: Sequence[float | None],
    judge: Sequence[float | None],
    *,
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
) -> Interval:
    """The corrected rate. Labels are 0, 1 or, for a tie, a half; a verdict that could not be read
    counts as 0, and with ties as a tie.

    >>> human = [1] * 30 + [0] * 30 + [None] * 440
    >>> judge = [1] * 27 + [0] * 3 + [1] * 6 + [0] * 24 + [1] * 220 + [0] * 220
    >>> [round(end, 3) for end in misclassification(human, judge)[:3]]
    [0.437, 0.276, 0.573]
    """
    ties = any(label == 0.5 for label in human)
    name = "confusion matrix, delta" if ties else "rogan-gladen, fieller"
    unread = 0.5 if ties or any(verdict == 0.5 for verdict in judge) else 0.0
    verdicts = [unread if verdict is None else verdict for verdict in judge]
    labelled = [(at, truth) for at, truth in enumerate(human) if truth is not None]
    if len(labelled) < LEAST_LABELS:
        return Interval.unknown(
            None,
            level,
            name,
            f"{count(len(labelled), 'label')}; at least {LEAST_LABELS} are needed",
        )
    if ties:
        return _three_classes(labelled, verdicts, level, name, groups)
    ones = [verdicts[at] for at, truth in labelled if truth == 1]
    zeros = [verdicts[at] for at, truth in labelled if truth == 0]
    if not ones or not zeros:
        return Interval.unknown(
            None,
            level,
            name,
            f"no label is {'0' if ones else '1'}: how often the judge errs there cannot be"
            " estimated",
        )
    hit, miss = _group(ones), _group(zeros)
    total = len(verdicts)
    rate = fsum(verdicts) / total
    value = (
        min(1.0, max(0.0, (rate - miss.plain) / (hit.plain - miss.plain)))
        if hit.plain > miss.plain
        else None
    )
    at_value = 0.5 if value is None else value
    cluster = design(
        _influence_of_errors(labelled, verdicts, at_value, (hit.plain, miss.plain), rate),
        groups,
        level=level,
        labelled=[at for at, _ in labelled],
    )
    if cluster.reason:
        return Interval.unknown(value, level, name, cluster.reason)
    z = cluster.z
    more = z * z
    moved = (fsum(verdicts) + more / 2) / (total + more)
    spread = (fsum(score * score for score in verdicts) + more / 2) / (total + more) - moved * moved
    square = more * cluster.effect
    # (a - theta * gap)^2 <= square * (constant + linear * theta + quadratic * theta^2); labelled
    # rows are among all rows, hence the terms over `total`
    gap, a = hit.mean - miss.mean, moved - miss.mean
    constant = spread / (total + more) + miss.variance / (miss.n + 2) - 2 * miss.variance / total
    linear = -2 * miss.variance / (miss.n + 2) + 2 * (miss.variance - hit.variance) / total
    quadratic = hit.variance / (hit.n + 2) + miss.variance / (miss.n + 2)
    low, high = _where_below(
        gap * gap - square * quadratic, -2 * a * gap - square * linear, a * a - square * constant
    )
    reason = None
    if value is None:
        reason = (
            "on these labels the judge does not give 1 more often where people do: there is"
            " nothing to correct with"
        )
    elif (low, high) == (0.0, 1.0):
        reason = (
            "the judge hardly distinguishes the classes, so its errors can't be corrected for: the"
            " rate may be anything"
        )
    if value is not None:
        low, high = min(low, value), max(high, value)
    return Interval(value, low, high, level, name, reason)


def _group(scores: Sequence[float]) -> _LabelGroup:
    n = len(scores)
    total = fsum(scores)
    mean = (total + 1) / (n + 2)
    return _LabelGroup(
        n, total / n, mean, (fsum(score * score for score in scores) + 1) / (n + 2) - mean * mean
    )


def _where_below(square: float, linear: float, constant: float) -> tuple[float, float]:
    """The hull of where `square * x^2 + linear * x + constant` is at most 0 between 0 and 1; all of
    it if there is no such place.
    """
    inside = [x for x in (0.0, 1.0) if (square * x + linear) * x + constant <= 0]
    root = linear * linear - 4 * square * constant
    if square != 0 and root >= 0:
        ends = ((-linear - sqrt(root)) / (2 * square), (-linear + sqrt(root)) / (2 * square))
        inside += [x for x in ends if 0 <= x <= 1]
        if square > 0 and not inside:  # every solution is on one side of 0..1: take the nearer end
            return (0.0, 0.0) if max(ends) < 0 else (1.0, 1.0)
    return (min(inside), max(inside)) if inside else (0.0, 1.0)


def _influence_of_errors(
    labelled: list[tuple[int, float]],
    verdicts: list[float],
    theta: float,
    means: tuple[float, float],
    rate: float,
) -> list[float]:
    hit, miss = means
    influence = [(score - rate) / len(verdicts) for score in verdicts]
    ones = sum(truth == 1 for _, truth in labelled)
    for at, truth in labelled:
        influence[at] -= (
            theta * (verdicts[at] - hit) / ones
            if truth == 1
            else (1 - theta) * (verdicts[at] - miss) / (len(labelled) - ones)
        )
    return influence


_CLASSES = (1.0, 0.5, 0.0)


def _three_classes(
    labelled: list[tuple[int, float]],
    verdicts: list[float],
    level: float,
    name: str,
    groups: Sequence[Hashable] | None,
) -> Interval:
    """The win rate with ties as half: scores for the three verdicts whose mean in each human class
    is that class's worth, averaged over all verdicts.
    """
    rows = {truth: [verdicts[at] for at, label in labelled if label == truth] for truth in _CLASSES}
    few = [truth for truth, scores in rows.items() if len(scores) < LEAST_IN_CLASS]
    if few:
        return Interval.unknown(
            None,
            level,
            name,
            f"fewer than {LEAST_IN_CLASS} labels are {few[0]:g}: the confusion of three classes"
            " needs more",
        )
    matrix = [
        [(scores.count(verdict) + 0.5) / (len(scores) + 1.5) for verdict in _CLASSES]
        for scores in rows.values()
    ]
    worth = _solve(matrix, list(_CLASSES))
    total = len(verdicts)
    shares = [verdicts.count(verdict) / total for verdict in _CLASSES]
    prior = _solve([list(column) for column in zip(*matrix, strict=True)], shares)
    if worth is None or prior is None:
        return Interval.unknown(
            None,
            level,
            name,
            "the confusion matrix has no inverse: the judge does not distinguish the three classes",
        )
    mean = fsum(share * score for share, score in zip(shares, worth, strict=True))
    variance = (
        fsum(share * score * score for share, score in zip(shares, worth, strict=True))
        - mean * mean
    ) / total
    for weight, line, scores in zip(prior, matrix, rows.values(), strict=True):
        inner = fsum(part * score for part, score in zip(line, worth, strict=True))
        variance += (
            weight**2
            * (
                fsum(part * score * score for part, score in zip(line, worth, strict=True))
                - inner * inner
            )
            / (len(scores) + 1.5)
        )
    score_of = dict(zip(_CLASSES, worth, strict=True))
    influence = [(score_of[verdict] - mean) / total for verdict in verdicts]
    part_of = dict(zip(_CLASSES, prior, strict=True))
    for at, truth in labelled:
        influence[at] -= part_of[truth] * (score_of[verdicts[at]] - truth) / len(rows[truth])
    cluster = design(influence, groups, level=level, labelled=[at for at, _ in labelled])
    if cluster.reason:
        return Interval(min(1.0, max(0.0, mean)), None, None, level, name, cluster.reason)
    half = cluster.z * sqrt(variance * cluster.effect)
    value = min(1.0, max(0.0, mean))
    return Interval(
        value, min(value, max(0.0, mean - half)), max(value, min(1.0, mean + half)), level, name
    )


def _solve(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """The solution of a small linear system, or None if there is no single one."""
    lines = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(lines)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(lines[row][column]))
        if abs(lines[pivot][column]) < 1e-9:
            return None
        lines[column], lines[pivot] = lines[pivot], lines[column]
        for row in range(size):
            if row != column:
                factor = lines[row][column] / lines[column][column]
                lines[row] = [
                    left - factor * top for left, top in zip(lines[row], lines[column], strict=True)
                ]
    return [line[-1] / line[index] for index, line in enumerate(lines)]
