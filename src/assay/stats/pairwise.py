"""Verdicts on pairs of candidates, each pair judged in both orders: consistency, win rate,
accuracy, preference for a position.

The unit is the pair, not the single verdict: two verdicts on one pair are not independent, so every
interval is over pairs. A pair whose two verdicts differ is inconsistent and counts as a tie. A
verdict that could not be read is None: neither a tie nor a loss. A pair judged in one order only
has a verdict, but no consistency.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

from assay.stats.intervals import Interval, wilson

Winner = Literal["a", "b", "tie"]
WINNERS: tuple[Winner, ...] = ("a", "b", "tie")
ORDERS = ("ab", "ba")
WARN_ABOVE = 0.10
"""The rate of inconsistent pairs from which a judge is warned about."""
_NAMED = 20
_ONE_ORDER = "every pair was judged in one order only"
_WORTH: dict[str, float] = {"a": 1.0, "tie": 0.5, "b": 0.0}
_SIDE: dict[str | None, int] = {"a": 1, "tie": 0, "b": -1, None: 0}


class JudgedPair(NamedTuple):
    """A pair of candidates: the verdict by order ("ab": a came first), None if it could not be
    read, and which is known to be better.
    """

    id: str
    verdicts: dict[str, Winner | None]
    label: Winner | None = None


def merge(pair: JudgedPair) -> Winner | None:
    """The one verdict on a pair: that of both orders; a tie if they differ, even if only one of
    them could be read.

    >>> (
    ...     merge(JudgedPair("1", {"ab": "a", "ba": "b"})),
    ...     merge(JudgedPair("2", {"ab": "b", "ba": "b"})),
    ...     merge(JudgedPair("3", {"ba": "a"})),
    ... )
    ('tie', 'b', 'a')
    """
    winners = set(pair.verdicts.values())
    return winners.pop() if len(winners) == 1 else "tie"


def half_wilson(wins: int, halves: int, n: int, *, level: float = 0.95) -> Interval:
    """The interval of a mean of n values that are 1 (`wins` of them), 1/2 (`halves`) or 0:
    Wilson's, with the smaller variance that halves give.

    Without halves it is Wilson's interval.

    >>> half_wilson(8, 0, 10) == wilson(8, 10)._replace(method="wilson-halves")
    True
    """
    method = "wilson-halves"
    if n == 0:
        return Interval.unknown(None, level, method, "no pairs")
    value = (wins + halves / 2) / n
    if not halves:
        return wilson(wins, n, level=level)._replace(method=method)
    z2 = NormalDist().inv_cdf(0.5 + level / 2) ** 2
    # with halves alone there would be no variance: their share is taken as if z * z more pairs were
    # not halves
    share = halves / (n + z2)
    centre = value + z2 / (2 * n)
    root = sqrt(max(0.0, centre * centre - (1 + z2 / n) * (value * value + z2 * share / (4 * n))))
    low, high = (centre - root) / (1 + z2 / n), (centre + root) / (1 + z2 / n)
    return Interval(value, max(0.0, min(value, low)), min(1.0, max(value, high)), level, method)


def mean_shift(shifts: Sequence[float], *, level: float = 0.95) -> Interval:
    """The interval of a mean of paired differences from -1 to 1, with one imagined pair at each end
    of the range.

    >>> found = mean_shift([0.0] * 10)
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.0, -0.231, 0.231)

    Source: Bonett and Price, 2012, for differences of -1, 0 and 1.
    """
    n = len(shifts)
    if n == 0:
        return Interval.unknown(
            None, level, "bonett-price", "no pair has a readable verdict in both orders"
        )
    centre = sum(shifts) / (n + 2)
    variance = (sum(shift * shift for shift in shifts) + 2) / (n + 2) - centre * centre
    half = NormalDist().inv_cdf(0.5 + level / 2) * sqrt(variance / (n + 2))
    value = sum(shifts) / n
    return Interval(
        value,
        max(-1.0, min(value, centre - half)),
        min(1.0, max(value, centre + half)),
        level,
        "bonett-price",
    )


def measure(pairs: Sequence[JudgedPair], *, level: float = 0.95) -> dict[str, Any]:
    """All of `assay measure pairwise`, as its JSON document.

    >>> found = measure(
    ...     [
    ...         JudgedPair("1", {"ab": "a", "ba": "a"}, "a"),
    ...         JudgedPair("2", {"ab": "a", "ba": "b"}, "a"),
    ...     ]
    ... )
    >>> (
    ...     found["consistent"],
    ...     found["inconsistent"],
    ...     found["win_rate"]["value"],
    ...     found["accuracy"]["both"]["value"],
    ... )
    (1, 1, 0.75, 0.5)
    """
    both = [pair for pair in pairs if len(pair.verdicts) == 2]
    single = [pair.id for pair in pairs if len(pair.verdicts) == 1]
    unequal = sum(pair.verdicts["ab"] != pair.verdicts["ba"] for pair in both)
    merged = [merge(pair) for pair in pairs]
    scores = [_WORTH[winner] for winner in merged if winner is not None]
    unread = sum(pair.verdicts["ab"] is None and pair.verdicts["ba"] is None for pair in both)
    flips, verdicts = wilson(unequal, len(both), level=level), _verdicts(pairs)
    return {
        "pairs": len(pairs),
        "consistent": len(both) - unequal,
        "inconsistent": unequal,
        "inconsistency_rate": (
            (flips if both else flips._replace(reason=_ONE_ORDER if pairs else "no pairs")).shown()
        ),
        "win_rate": (
            half_wilson(merged.count("a"), merged.count("tie"), len(scores), level=level).shown()
        ),
        "standard_error": _standard_error(scores),
        "wins": merged.count("a"),
        "losses": merged.count("b"),
        "ties": merged.count("tie"),
        "unparsable": merged.count(None),
        "accuracy": _accuracy([pair for pair in pairs if pair.label is not None], level=level),
        "position_bias": _position(pairs, both, level=level),
        "both_orders": len(both),
        "both_unparsable": unread,
        "single_order": {"count": len(single), "ids": single[:_NAMED]},
        "verdicts": verdicts,
        "notes": _notes(flips.value, len(single), len(pairs), unread, verdicts["unparsable"]),
    }


def _standard_error(scores: Sequence[float]) -> float | None:
    """Of the mean, with n - 1; None for fewer than two scores, because one shows no spread."""
    n = len(scores)
    if n < 2:
        return None
    mean = sum(scores) / n
    return sqrt(fsum((score - mean) ** 2 for score in scores) / (n - 1) / n)


def _verdicts(pairs: Sequence[JudgedPair]) -> dict[str, Any]:
    """The single verdicts, with each order counted separately."""
    winners = [winner for pair in pairs for winner in pair.verdicts.values()]
    read = [_WORTH[winner] for winner in winners if winner is not None]
    return {
        "n": len(winners),
        **{winner: winners.count(winner) for winner in WINNERS},
        "unparsable": winners.count(None),
        "win_rate": sum(read) / len(read) if read else None,
    }


def _accuracy(labelled: Sequence[JudgedPair], *, level: float) -> dict[str, Any]:
    """How often the verdict is the label. A verdict that could not be read is wrong: leaving it out
    would reward a judge that gives none when in doubt.

    `judgebench` counts a pair as right where more verdicts name the label than the other side: a
    win and a tie are right, a win and a loss are not. Source: Tan et al., 2024, JudgeBench.
    """
    shares: dict[str, Interval] = {}
    for order in ORDERS:
        right = [pair.verdicts[order] == pair.label for pair in labelled if order in pair.verdicts]
        share = wilson(sum(right), len(right), level=level)
        shares[order] = (
            share
            if right
            else share._replace(reason=f"no labelled pair was judged in the order {order}")
        )
    both = [pair for pair in labelled if len(pair.verdicts) == 2]
    agreeing = [sum(verdict == pair.label for verdict in pair.verdicts.values()) for pair in both]
    average = half_wilson(agreeing.count(2), agreeing.count(1), len(both), level=level)
    first, second = (share.value for share in shares.values())
    if first is None or second is None:
        average = Interval.unknown(
            None,
            level,
            average.method,
            "no labelled pair was judged in one of the orders",
        )
    elif len(both) < len(labelled):
        average = Interval.unknown(
            (first + second) / 2,
            level,
            average.method,
            "some labelled pairs were judged in one order only",
        )
    twice = wilson(agreeing.count(2), len(both), level=level)
    merged = [(merge(pair), pair.label) for pair in labelled]
    hits = sum(winner == label for winner, label in merged)
    ties = sum(winner == "tie" and label != "tie" for winner, label in merged)
    halved = half_wilson(hits, ties, len(merged), level=level)
    decided = [pair for pair in both if pair.label != "tie"]
    balance = [
        sum(_SIDE[verdict] * _SIDE[pair.label] for verdict in pair.verdicts.values())
        for pair in decided
    ]
    more = wilson(sum(side > 0 for side in balance), len(decided), level=level)
    return {
        **{order: share.shown() for order, share in shares.items()},
        "average": average.shown(),
        "both": (
            twice if both else twice._replace(reason="no labelled pair was judged in both orders")
        ).shown(),
        "judgebench": (
            more
            if decided
            else more._replace(reason="no pair labelled a or b was judged in both orders")
        ).shown(),
        "merged_ties_half": (
            halved if merged else halved._replace(reason="no pair has a label")
        ).shown(),
        "labelled": len(labelled),
    }


def _position(
    pairs: Sequence[JudgedPair], both: Sequence[JudgedPair], *, level: float
) -> dict[str, Any]:
    """How much more a candidate scores when it comes first: its mean score in first place less
    that in second, over pairs read in both orders.
    """
    shifts = []
    for pair in both:
        first, second = pair.verdicts["ab"], pair.verdicts["ba"]
        if first is not None and second is not None:
            shifts.append(_WORTH[first] - _WORTH[second])
    bias = mean_shift(shifts, level=level)
    if not both:
        bias = bias._replace(
            reason=(
                f"{_ONE_ORDER}: a preference for the first place cannot be told from a better"
                " candidate"
                if pairs
                else "no pairs"
            )
        )
    rate = (
        bias
        if bias.value is None or bias.low is None or bias.high is None
        else bias._replace(
            value=(1 + bias.value) / 2, low=(1 + bias.low) / 2, high=(1 + bias.high) / 2
        )
    )
    places = [
        (order == "ab") == (winner == "a")
        for pair in pairs
        for order, winner in pair.verdicts.items()
        if winner in ("a", "b")
    ]
    return {
        **bias.shown(),
        "pairs": len(shifts),
        "first_rate": rate.shown(),
        "first_position_picks": places.count(True),
        "second_position_picks": places.count(False),
        "always_first": sum(pair.verdicts == {"ab": "a", "ba": "b"} for pair in both),
        "always_second": sum(pair.verdicts == {"ab": "b", "ba": "a"} for pair in both),
    }


def _notes(rate: float | None, single: int, pairs: int, both_unread: int, unread: int) -> list[str]:
    notes = []
    if rate is not None and rate > WARN_ABOVE:
        notes.append(
            f"{rate:.1%} of the pairs judged in both orders are inconsistent, more than"
            f" {WARN_ABOVE:.0%}"
        )
    if single:
        notes.append(
            f"pairs judged in one order only: {single:,} of {pairs:,}; they count for the win rate,"
            " not for consistency"
        )
    if both_unread:
        notes.append(
            f"pairs that could be read in neither order: {both_unread:,}; their verdict did not"
            " change, so they are not inconsistent"
        )
    if unread:
        notes.append(
            f"verdicts that could not be read: {unread:,}; where there is a label, they count as"
            " wrong"
        )
    return notes
