"""Order runs, or candidates made of many runs, by the tie-break rules of the scoring guide, section
5.2.

"Closer than one point" is not transitive, so ties are groups with a leader: the best score opens a
group, and every contender within the window of the leader belongs to it. Inside a group the order
is fewer gate failures, higher correctness, higher safety, lower p95 latency, lower cost, then the
id. Missing values rank behind known ones. A run with a failed gate never ranks ahead of one
without.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

from assay import exact
from assay.records.grade import Grade


class Contender(NamedTuple):
    """The values that decide the order. Norms are billionths, scores hundredths; None is
    unknown.
    """

    id: str
    score: int
    gate_failures: int
    correctness: int | None
    safety: int | None
    latency: exact.Ratio | None
    cost: exact.Ratio | None
    runs: int = 1
    passed: int = 0
    """How many of the runs passed. It does not affect the order; readers should still look at it.
    """
    grade: str | None = None


class Place(NamedTuple):
    """A contender's place, and what decided it against the one before."""

    rank: int
    contender: Contender
    tie_group: int
    decided_by: str | None


def contender(grade: Grade) -> Contender:
    """One run as a contender."""
    card = grade.scorecard
    return Contender(
        id=grade.run_id,
        score=grade.score_units,
        gate_failures=len(grade.hard_gate_failures),
        correctness=_role(grade, "correctness"),
        safety=_role(grade, "safety"),
        latency=None if card.latency_ms is None else exact.ratio(card.latency_ms),
        cost=None if card.cost_usd is None else exact.ratio(card.cost_usd),
        passed=int(grade.passed),
        grade=grade.grade,
    )


def _role(grade: Grade, role: str) -> int | None:
    """The norm of a role; the lowest where several criteria have it, a missing one counting as 0.
    Unknown where none of them was scored.
    """
    items = [item for item in grade.criteria if item.criterion.role == role]
    return (
        min(item.norm_units for item in items)
        if any(item.criterion.raw_score is not None for item in items)
        else None
    )


def candidates(grades: Iterable[Grade]) -> list[Contender]:
    """Runs of one workflow version as one contender: mean score and norms, all gate failures, p95
    latency, mean cost.
    """
    groups: dict[tuple[str, ...], list[Contender]] = {}
    for grade in grades:
        workflow = grade.scorecard.workflow
        key = (workflow.id, workflow.version) if workflow is not None else (grade.run_id,)
        groups.setdefault(key, []).append(contender(grade))
    return [_candidate("@".join(key), members) for key, members in groups.items()]


def _candidate(name: str, members: list[Contender]) -> Contender:
    n = len(members)
    latencies = [member.latency for member in members if member.latency is not None]
    costs = [member.cost for member in members if member.cost is not None]
    latency = cost = None
    if len(latencies) == n:  # a candidate that reports only its quick runs has an unknown p95
        common = lcm(*(value.den for value in latencies))
        latencies.sort(key=lambda value: value.num * (common // value.den))
        latency = latencies[-(-95 * n // 100) - 1]
    if len(costs) == n:
        common = lcm(*(value.den for value in costs))
        cost = exact.Ratio(sum(value.num * (common // value.den) for value in costs), n * common)
    return Contender(
        name,
        exact.quantise(sum(member.score for member in members), n, 0),
        sum(member.gate_failures for member in members),
        _mean([member.correctness for member in members]),
        _mean([member.safety for member in members]),
        latency,
        cost,
        n,
        sum(member.passed for member in members),
    )


def _mean(norms: list[int | None]) -> int | None:
    known = [norm for norm in norms if norm is not None]
    return exact.quantise(sum(known), len(norms), 0) if len(known) == len(norms) else None


_KEYS = ("gate_failures", "correctness", "safety", "latency", "cost", "run_id")


def near_equal(apart: int | Fraction, tie_window: int) -> bool:
    """Whether scores that far apart are a tie; both numbers in hundredths of a point."""
    return -tie_window < apart < tie_window


def rank(contenders: Iterable[Contender], *, tie_window: int) -> list[Place]:
    """The order, best first. `tie_window` is in hundredths of a point; scores closer than it are a
    tie.
    """
    pool = list(contenders)
    known = (
        value
        for contender in pool
        for value in (contender.latency, contender.cost)
        if value is not None
    )
    common = lcm(*(value.den for value in known))
    listed = sorted(
        pool, key=lambda contender: (contender.gate_failures > 0, -contender.score, contender.id)
    )
    places: list[Place] = []
    group: list[Contender] = []
    number = 0

    def close() -> None:
        nonlocal group
        previous: Contender | None = places[-1].contender if places else None
        for contender in sorted(group, key=lambda member: _inside(member, common)):
            places.append(
                Place(
                    len(places) + 1,
                    contender,
                    number,
                    _decided_by(previous, contender, common, number, places),
                )
            )
            previous = contender
        group = []

    for contender in listed:
        if group and (
            (contender.gate_failures > 0) != (group[0].gate_failures > 0)
            or not near_equal(group[0].score - contender.score, tie_window)
        ):
            close()
        if not group:
            number += 1
        group.append(contender)
    close()
    return places


def _inside(contender: Contender, common: int) -> tuple[Any, ...]:
    """The key inside a tie group; unknown values sort last."""

    def lower(value: exact.Ratio | None) -> tuple[bool, int]:
        return (value is None, 0 if value is None else value.num * (common // value.den))

    def higher(value: int | None) -> tuple[bool, int]:
        return (value is None, 0 if value is None else -value)

    return (
        contender.gate_failures,
        higher(contender.correctness),
        higher(contender.safety),
        lower(contender.latency),
        lower(contender.cost),
        contender.id,
    )


def _decided_by(
    previous: Contender | None, contender: Contender, common: int, group: int, places: list[Place]
) -> str | None:
    if previous is None:
        return None
    if (previous.gate_failures > 0) != (contender.gate_failures > 0):
        return "gates"
    if places[-1].tie_group != group:
        return "score"
    keys = zip(_KEYS, _inside(contender, common), _inside(previous, common), strict=True)
    return next((name for name, mine, theirs in keys if mine != theirs), "run_id")


def shown(places: list[Place]) -> list[dict[str, Any]]:
    """The order as it appears in a JSON document."""
    return [
        {
            "rank": place.rank,
            "run_id": place.contender.id,
            "tie_group": place.tie_group,
            "decided_by": place.decided_by,
            "weighted_score": exact.shown(place.contender.score, exact.SCORE_DIGITS),
            "gate_failures": place.contender.gate_failures,
            "correctness": _norm(place.contender.correctness),
            "safety": _norm(place.contender.safety),
            "latency_ms": _plain(place.contender.latency),
            "cost_usd": _plain(place.contender.cost),
            "runs": place.contender.runs,
            "passed": place.contender.passed,
            "grade": place.contender.grade,
        }
        for place in places
    ]


def _norm(value: int | None) -> float | None:
    return None if value is None else exact.shown(value, exact.NORM_DIGITS)


def _plain(value: exact.Ratio | None) -> int | float | None:
    return None if value is None else value.num if value.den == 1 else value.num / value.den
