"""The smallest single-criterion change that would gain the next letter, and the smallest that would lose this one. Exact, in billionths.

A gate is not a criterion: while one fails, no change of a score moves the letter, and the moves are those the letter would have with the gates open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.exact import NORM_ONE
from assay.formulas import formula, raw_of
from assay.grading.rules import worse

if TYPE_CHECKING:
    from assay.records.grade import Grade, GradedCriterion


class Move(NamedTuple):
    """One criterion moved from a norm to another, and the letter that this gives. `raw` is the raw score that reaches it, where there is a single one."""

    criterion: str
    grade: str
    before: int
    after: int
    raw: Any

    @property
    def size(self) -> int:
        """How far, in billionths."""
        return abs(self.after - self.before)

    def shown(self) -> dict[str, Any]:
        """The move as it stands in a JSON document."""
        return {
            "criterion": self.criterion,
            "grade": self.grade,
            "norm": exact.shown(self.before, exact.NORM_DIGITS),
            "needed_norm": exact.shown(self.after, exact.NORM_DIGITS),
            "needed_raw": self.raw,
        }


def standing(grade: Grade) -> str:
    """The letter with the gates left aside: the band, capped by missed floors."""
    if not grade.hard_gate_failures:
        return grade.grade
    return worse(grade.provisional_grade, grade.floor_cap, grade.bands) if grade.floor_failures else grade.provisional_grade


def to_gain(grade: Grade) -> Move | None:
    """The smallest single change that gives the next better letter, or None where there is none to gain or no single criterion can."""
    letters = [band.grade for band in grade.bands]
    at = letters.index(standing(grade))
    if at == 0:
        return None
    target = grade.bands[at - 1]
    weights = grade.weights
    missing = exact.total_needed(target.edge, sum(weights)) - sum(w * item.norm_units for w, item in zip(weights, grade.criteria, strict=True))
    best: Move | None = None
    for weight, item in zip(weights, grade.criteria, strict=True):
        # Another criterion below its floor keeps the cap on, whatever this one does.
        if any(name != item.name for name in grade.floor_failures) and letters.index(target.grade) < _cap_index(grade, letters):
            continue
        needed = item.norm_units
        if missing > 0:
            if weight == 0:
                continue
            needed += -(-missing // weight)
        if item.floor_failed and item.floor_units is not None:
            needed = max(needed, item.floor_units)
        if needed > NORM_ONE or needed == item.norm_units:
            continue
        raw, after = _reach_up(item, needed)
        gained = _letter_after(grade, item, weight * (after - item.norm_units))
        move = Move(item.name, gained, item.norm_units, after, raw)
        if best is None or (move.size, move.criterion) < (best.size, best.criterion):
            best = move
    return best


def to_lose(grade: Grade) -> Move | None:
    """The smallest single change that costs the letter, or None for the last letter."""
    letters = [band.grade for band in grade.bands]
    letter = standing(grade)
    at = letters.index(letter)
    if at == len(letters) - 1:
        return None
    weights = grade.weights
    total = sum(weights)
    have = sum(w * item.norm_units for w, item in zip(weights, grade.criteria, strict=True))
    spare = have - exact.total_needed(grade.bands[at].edge, total)
    best: Move | None = None
    for weight, item in zip(weights, grade.criteria, strict=True):
        options = []
        if weight > 0 and item.norm_units - (spare // weight + 1) >= 0:
            options.append(item.norm_units - (spare // weight + 1))
        if item.floor_units is not None and not item.floor_failed and item.floor_units > 0 and at < _cap_index(grade, letters):
            options.append(item.floor_units - 1)
        if not options:
            continue
        raw, after = _reach_down(item, max(options))
        left = have - weight * (item.norm_units - after)
        lower = next(band.grade for band in grade.bands if exact.total_needed(band.edge, total) <= left)
        if item.floor_units is not None and after < item.floor_units and letters.index(lower) < _cap_index(grade, letters):
            lower = letters[_cap_index(grade, letters)]
        move = Move(item.name, lower, item.norm_units, after, raw)
        if best is None or (move.size, move.criterion) < (best.size, best.criterion):
            best = move
    return best


def _letter_after(grade: Grade, item: GradedCriterion, more: int) -> str:
    """The letter once this criterion has risen, which mends its own floor and leaves the others as they are."""
    total = sum(grade.weights)
    have = sum(w * other.norm_units for w, other in zip(grade.weights, grade.criteria, strict=True)) + more
    letter = next(band.grade for band in grade.bands if exact.total_needed(band.edge, total) <= have)
    return worse(letter, grade.floor_cap, grade.bands) if any(name != item.name for name in grade.floor_failures) else letter


def _cap_index(grade: Grade, letters: list[str]) -> int:
    return letters.index(grade.floor_cap)


def _reach_up(item: GradedCriterion, needed: int) -> tuple[Any, int]:
    """The raw score that reaches at least a norm, and the norm it then has: a yes-or-no score cannot stop at 0.65."""
    criterion = item.criterion
    raw = raw_of(needed, criterion.formula_id, criterion.raw_score, criterion.params)
    if raw is not None and formula(criterion.formula_id).steps:
        return raw, formula(criterion.formula_id).apply(raw, criterion.params)
    return raw, needed


def _reach_down(item: GradedCriterion, limit: int) -> tuple[Any, int]:
    """The best raw score whose norm is at most the limit, and the norm it then has."""
    criterion = item.criterion
    found = formula(criterion.formula_id)
    if criterion.raw_score is None or not found.steps:
        return raw_of(limit, criterion.formula_id, criterion.raw_score, criterion.params), limit
    above = found.invert(limit + 1, criterion.raw_score, criterion.params)
    if found.id == "binary":
        raw: Any = 0
    elif found.id == "ratio":
        raw = {"passed": above["passed"] - 1, "total": above["total"]}
    else:
        halves = 2 * above["wins"] + above["ties"] - 1
        total = above["wins"] + above["losses"] + above["ties"]
        raw = {"wins": halves // 2, "losses": total - halves // 2 - halves % 2, "ties": halves % 2}
    return raw, found.apply(raw, criterion.params)
