"""The smallest change of a single criterion that would gain the next letter, and the smallest that
would lose this one, in exact billionths.

While a gate fails, no score moves the letter; the moves are then those with all gates passing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from assay import exact
from assay.exact import NORM_ONE
from assay.formulas import formula, normalise, raw_of
from assay.grading.rules import worse
from assay.records.grade import Band, Grade, GradedCriterion


class Move(NamedTuple):
    """One criterion moved from one norm to another, and the resulting letter. `raw` is the raw
    score that reaches it, if there is a single one.
    """

    criterion: str
    grade: str
    before: int
    after: int
    raw: Any

    @property
    def size(self) -> int:
        """The distance in billionths."""
        return abs(self.after - self.before)

    def shown(self) -> dict[str, Any]:
        """The move as plain data for JSON."""
        return {
            "criterion": self.criterion,
            "grade": self.grade,
            "norm": exact.shown(self.before, exact.NORM_DIGITS),
            "needed_norm": exact.shown(self.after, exact.NORM_DIGITS),
            "needed_raw": self.raw,
        }


class Moves(NamedTuple):
    """The moves that gain the next letter and lose this one; None if no single criterion can."""

    standing: str
    """The letter apart from the gates: the band, capped by missed floors."""
    gain: Move | None
    lose: Move | None


class _Ground(NamedTuple):
    """The numbers that every move is measured from."""

    grade: Grade
    have: int
    """The weighted sum of norms."""
    needed: tuple[int, ...]
    """The smallest weighted sum for each letter, best letter first."""
    at: int
    """The index of its letter, from the best."""
    cap: int
    """The index of the letter at which a missed floor caps."""


def moves(grade: Grade) -> Moves:
    """The smallest changes that would move a grade."""
    standing = grade.grade
    if grade.hard_gate_failures:
        standing = (
            worse(grade.provisional_grade, grade.floor_cap, grade.bands)
            if grade.floor_failures
            else grade.provisional_grade
        )
    letters = [band.grade for band in grade.bands]
    ground = _Ground(
        grade,
        sum(
            [
                weight * item.norm_units
                for weight, item in zip(grade.weights, grade.criteria, strict=True)
            ]
        ),
        _needed(grade.bands, sum(grade.weights)),
        letters.index(standing),
        letters.index(grade.floor_cap),
    )
    return Moves(standing, _gain(ground), _lose(ground))


@lru_cache(maxsize=256)
def _needed(bands: tuple[Band, ...], total: int) -> tuple[int, ...]:
    return tuple(exact.total_needed(band.edge, total) for band in bands)


class _Candidate(NamedTuple):
    """A criterion that could move the letter alone; the nearest wins, then the first by name."""

    distance: int
    name: str
    weight: int
    item: GradedCriterion
    norm: int
    reached: _Reached | None
    """What was reached, if the norm depends on it."""


def _gain(ground: _Ground) -> Move | None:
    if ground.at == 0:
        return None
    grade = ground.grade
    missing = ground.needed[ground.at - 1] - ground.have
    above_cap = ground.at - 1 < ground.cap
    candidates = []
    for weight, item in zip(grade.weights, grade.criteria, strict=True):
        # Another criterion below its floor keeps the cap on, whatever this one does.
        if above_cap and len(grade.floor_failures) > item.floor_failed:
            continue
        if above_cap and item.floor_failed and item.judge_fault is not None:
            continue  # no score from a judge that may not gate passes a floor
        needed = item.norm_units
        if missing > 0:
            if weight == 0:
                continue
            needed += -(-missing // weight)
        if above_cap and item.floor_failed and item.floor_units is not None:
            needed = max(needed, item.floor_units)
        if item.norm_units < needed <= NORM_ONE:
            reached = _reach_up(item, needed) if _has_steps(item) else None
            norm = needed if reached is None else reached.norm
            distance = norm - item.norm_units
            candidates.append(_Candidate(distance, item.name, weight, item, norm, reached))
    if not candidates:
        return None
    chosen = min(candidates)
    return _move(ground, chosen, chosen.reached or _reach_up(chosen.item, chosen.norm))


def _lose(ground: _Ground) -> Move | None:
    grade = ground.grade
    if ground.at == len(grade.bands) - 1:
        return None
    spare = ground.have - ground.needed[ground.at]
    candidates = []
    for weight, item in zip(grade.weights, grade.criteria, strict=True):
        limit = item.norm_units - (spare // weight + 1) if weight > 0 else -1
        if item.floor_units is not None and not item.floor_failed and ground.at < ground.cap:
            limit = max(limit, item.floor_units - 1)
        if limit >= 0:
            reached = _reach_down(item, limit) if _has_steps(item) else None
            norm = limit if reached is None else reached.norm
            distance = item.norm_units - norm
            candidates.append(_Candidate(distance, item.name, weight, item, norm, reached))
    if not candidates:
        return None
    chosen = min(candidates)
    return _move(ground, chosen, chosen.reached or _reach_down(chosen.item, chosen.norm))


def _has_steps(item: GradedCriterion) -> bool:
    return formula(item.criterion.formula_id).steps


def _move(ground: _Ground, chosen: _Candidate, reached: _Reached) -> Move:
    item, after = chosen.item, reached.norm
    fails = item.floor_units is not None and (
        after < item.floor_units or item.judge_fault is not None
    )
    others = len(ground.grade.floor_failures) > item.floor_failed
    letter = _letter(
        ground, ground.have + chosen.weight * (after - item.norm_units), capped=fails or others
    )
    return Move(item.name, letter, item.norm_units, after, reached.raw)


class _Reached(NamedTuple):
    """A norm, and the raw score that has it, if there is a single one."""

    raw: Any
    norm: int


def _letter(ground: _Ground, have: int, *, capped: bool) -> str:
    at = next(index for index, needed in enumerate(ground.needed) if needed <= have)
    return ground.grade.bands[max(at, ground.cap) if capped else at].grade


def _reach_up(item: GradedCriterion, needed: int) -> _Reached:
    """The raw score that reaches at least a norm, and its actual norm: a yes-or-no score can't stop
    at 0.65.
    """
    criterion = item.criterion
    raw = raw_of(needed, criterion.formula_id, criterion.raw_score, criterion.params)
    if raw is None or not _has_steps(item):
        return _Reached(raw, needed)
    return _Reached(raw, normalise(raw, criterion.formula_id, criterion.params))


def _reach_down(item: GradedCriterion, limit: int) -> _Reached:
    """The best raw score whose norm is at most the limit, and its actual norm."""
    criterion = item.criterion
    scale = formula(criterion.formula_id)
    if criterion.raw_score is None or not scale.steps:
        return _Reached(
            raw_of(limit, criterion.formula_id, criterion.raw_score, criterion.params), limit
        )
    above = scale.invert(limit + 1, criterion.raw_score, criterion.params)
    if scale.id == "binary":
        raw: Any = 0
    elif scale.id == "ratio":
        raw = {"passed": above["passed"] - 1, "total": above["total"]}
    elif scale.id != "pairwise":  # a plugin's formula: only whole steps can be undone
        if type(above) is not int:
            return _Reached(None, limit)
        raw = above - 1
    else:
        halves = 2 * above["wins"] + above["ties"] - 1
        total = above["wins"] + above["losses"] + above["ties"]
        raw = {"wins": halves // 2, "losses": total - halves // 2 - halves % 2, "ties": halves % 2}
    return _Reached(raw, scale.apply(raw, criterion.params))
