"""The rate that people would give, from a judge whose errors are known from labels: the classical
correction for misclassification.

A judge that passes a share `se` of what people pass and a share `1 - sp` of what they fail passes
`theta * se + (1 - theta) * (1 - sp)` of all; Rogan and Gladen (1978) solve this for theta. The
interval is Fieller's: every theta whose equation the data do not contradict, with the added counts
of Lang and Reiczigel (2014). If a judge can barely distinguish passes from fails, the data
contradict no theta, and the interval is all of 0 to 1.

Only for classes. The labelled rows must be a random part of all rows, as for `calibration.ppi`,
which needs fewer labels for the same width.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum, sqrt
from typing import NamedTuple

from assay.errors import count
from assay.stats.calibration import LEAST_LABELS
from assay.stats.group_design import design
from assay.stats.intervals import Interval

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
        _influence(labelled, verdicts, at_value, (hit.plain, miss.plain), rate),
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


def _influence(
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


# --- ties

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
