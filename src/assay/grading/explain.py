"""Explain a grade: sentences that a release manager understands, the placement notes of the scoring
guide, section 5.2, and the smallest change of one criterion that would gain the next letter or lose
this one, in exact billionths.

Everything here is read from the Grade; nothing is decided. The notes never change the letter.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from assay import exact
from assay.canon import number_text
from assay.exact import NORM_ONE, norm_text
from assay.formulas import formula, normalise, raw_of
from assay.grading.policy import disagrees_too_often
from assay.grading.rules import worse
from assay.records.grade import Band, Grade, GradedCriterion
from assay.records.scorecard import STATUS_GATE


class Explanation(NamedTuple):
    """Why a grade is what it is, and the smallest changes that would move it.

    >>> import assay
    >>> card = {
    ...     "schema": "assay.scorecard/1",
    ...     "run_id": "r-1",
    ...     "hard_gates": {"schema_contract_valid": True},
    ...     "criteria": [{"name": "tone", "raw_score": 4, "formula_id": "likert_1_5", "weight": 1}],
    ... }
    >>> assay.explain(assay.grade(card)).margin_to_next_grade
    5.0
    """

    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    margin_to_next_grade: float | None
    """Points to the next better letter; None for the best."""
    to_lose_grade: float | None
    """Points whose loss costs the letter; None for the worst."""
    gain: Move | None
    lose: Move | None


def explain(grade: Grade) -> Explanation:
    """Explain a grade."""
    standing, gain, lose = moves(grade)
    letters = [band.grade for band in grade.bands]
    own = letters.index(grade.provisional_grade)
    margin = exact.shown(grade.bands[own - 1].edge - grade.score_units, 2) if own > 0 else None
    losing = (
        exact.shown(grade.score_units - grade.bands[own].edge + 1, 2)
        if own < len(letters) - 1
        else None
    )
    sentences = (
        _verdict(grade),
        *_gates(grade),
        _score(grade),
        *_floors(grade, standing),
        *_contributions(grade),
        *_moves(grade, standing, gain, lose),
    )
    return Explanation(tuple(sentences), tuple(_notes(grade)), margin, losing, gain, lose)


def _points(units: int) -> str:
    return f"{units / 100:.2f}"


def _threshold(grade: Grade) -> str:
    written = grade.pass_threshold
    return (
        f"{written:.2f}"
        if exact.scaled(written, 2) == grade.threshold_units and written == round(written, 2)
        else f"{written!r}"
    )


def _article(letter: str) -> str:
    return f"{'an' if letter in 'AF' else 'a'} {letter}"


def _verdict(grade: Grade) -> str:
    return f"Grade {grade.grade}, {'passed' if grade.passed else 'not passed'}: {_why(grade)}."


def _why(grade: Grade) -> str:
    reason = grade.reason
    if reason == "hard_gate_failure":
        count = len(grade.hard_gate_failures)
        gates = f"{count} hard gate{'s do' if count > 1 else ' does'}"
        return f"{gates} not pass, and no score can open a gate"
    if reason == "critical_floor_failure":
        return f"{', '.join(grade.floor_failures)} missed the critical floor"
    score, threshold = _points(grade.score_units), _threshold(grade)
    if reason == "below_pass_threshold":
        return f"the score {score} is below the threshold {threshold}"
    reached = f"the score {score} reaches the threshold {threshold}"
    if reason == "passed":
        return f"every gate and floor holds, and {reached}"
    if reason == "below_passing_grade":
        return f"{reached}, but {_article(grade.grade)} doesn't pass under {grade.policy}"
    return f"{reached}, but the scorecard has no hard gate, and {grade.policy} requires one"


def _gates(grade: Grade) -> list[str]:
    card = grade.scorecard
    if not card.hard_gates:
        return ["The scorecard has no hard gate."]
    if not grade.hard_gate_failures:
        count = len(card.hard_gates)
        return ["The one hard gate passes." if count == 1 else f"All {count} hard gates pass."]
    sentences = []
    reasons = card.gate_reasons
    # what ended the run comes first
    for name in sorted(
        grade.hard_gate_failures, key=lambda gate: not grade.cause or gate != STATUS_GATE
    ):
        failed = card.hard_gates[name] is False
        reason = reasons.get(name, "the scorecard gives no reason" if failed else "no evidence")
        verb = "failed" if failed else "is undetermined, which counts as failed"
        sentences.append(f"Gate {name} {verb}: {reason}.")
    return sentences


def _score(grade: Grade) -> str:
    letters = [band.grade for band in grade.bands]
    at = letters.index(grade.provisional_grade)
    low = grade.bands[at].edge
    high = grade.bands[at - 1].edge - 1 if at else exact.SCORE_MAX
    alone = "" if grade.grade == grade.provisional_grade else " on its own"
    return (
        f"The weighted score is {_points(grade.score_units)} of 100, which is"
        f" {_article(grade.provisional_grade)}{alone} ({_points(low)} to {_points(high)})."
    )


def _floors(grade: Grade, standing: str) -> list[str]:
    sentences = []
    for item in grade.criteria:
        if item.floor_units is None:
            continue
        if item.floor_failed:
            effect = (
                f"; a missed floor caps the grade at {grade.floor_cap}"
                if grade.provisional_grade != standing
                else ""
            )
            if item.judge_fault is not None and item.norm_units >= item.floor_units:
                sentences.append(
                    f"{item.name} reaches its floor of {norm_text(item.floor_units)} only through"
                    f" an uncalibrated judge: {item.judge_fault}{effect}."
                )
                continue
            sentences.append(
                f"{item.name} is {norm_text(item.norm_units)},"
                f" {norm_text(item.floor_units - item.norm_units)} below its floor of"
                f" {norm_text(item.floor_units)} ({_floor_origin(item)}){effect}."
            )
        elif item.floor_from == "override":
            sentences.append(
                f"{item.name} meets its floor of"
                f" {norm_text(item.floor_units)} ({_floor_origin(item)})."
            )
    return sentences


def _floor_origin(item: GradedCriterion) -> str:
    if item.floor_from == "role":
        return f"the floor of the role {item.criterion.role}"
    if item.floor_from == "override" and item.criterion.floor_override is not None:
        return f"an override: {item.criterion.floor_override.reason}"
    return "the criterion's own floor"


def _contributions(grade: Grade) -> list[str]:
    weights = grade.weights
    total = sum(weights)
    ordered = []
    for weight, best, item in zip(weights, _bests(weights), grade.criteria, strict=True):
        criterion, norm = item.criterion, item.norm_units
        got = exact.quantise(100 * weight * norm, total * exact.NORM_ONE, 2)
        name = criterion.name
        points = f"{got / 100:.2f} of {best} points" if weight else "no points, only its floor"
        raw = criterion.raw_score
        basis = f" ({_raw(raw)} is {norm_text(norm)} by {criterion.formula_id})"
        if raw is None:
            basis = f": it has no score ({criterion.missing})"
        sentence = f"{name} contributes {points}{basis}."
        ordered.append((weight * (norm - exact.NORM_ONE), name, sentence))
    ordered.sort()
    return [sentence for _, _, sentence in ordered]


@lru_cache(maxsize=256)
def _bests(weights: tuple[int, ...]) -> tuple[str, ...]:
    """The points that each criterion can contribute, as text."""
    total = sum(weights)
    return tuple(_points(exact.quantise(100 * weight, total, 2)) for weight in weights)


def _raw(raw: Any) -> str:
    if isinstance(raw, dict):
        if raw.keys() == {"passed", "total"}:
            return f"{raw['passed']} of {raw['total']}"
        # in one order, because a replay reads the keys back sorted
        return ", ".join(
            f"{raw[key]} {key}"
            for key in sorted(raw, key=lambda key: (_ORDER.get(key, 9), key))
            if raw[key]
        )
    return f"raw {_spelled(raw)}"


_ORDER = {"wins": 0, "losses": 1, "ties": 2}


def _spelled(raw: Any) -> str:
    """A number in one spelling, so that 1.0 and 1, which are the same evidence, look the same."""
    if type(raw) is int and 0 <= raw <= _SMALL:
        return str(raw)
    return number_text(raw) if exact.is_number(raw) else str(raw)


_SMALL = 10**9


def _moves(grade: Grade, now: str, gain: Move | None, lose: Move | None) -> list[str]:
    sentences = []
    if grade.hard_gate_failures:
        still = now == grade.bands[-1].grade
        return [
            (
                f"To get a better grade, make {', '.join(grade.hard_gate_failures)}"
                f" pass{', and raise the score:' if still else ';'} with the gates open, this run"
                f" would {'still get' if still else 'get'} {_article(now)}."
            )
        ]
    if gain is not None:
        sentences.append(
            f"Smallest change for {_article(gain.grade)}: {gain.criterion} from"
            f" {norm_text(gain.before)} to {norm_text(gain.after)}{_raw_target(gain)}."
        )
    elif now != grade.bands[0].grade:
        sentences.append("No single criterion can reach the next letter alone.")
    if lose is not None:
        sentences.append(
            f"Drops below {now} if {lose.criterion} falls from {norm_text(lose.before)} to"
            f" {norm_text(lose.after)}"
            f"{', or if any gate fails' if grade.scorecard.hard_gates else ''}."
        )
    return sentences


def _raw_target(move: Move) -> str:
    return "" if move.raw is None else f" ({_raw(move.raw)})"


def _is_outside(raw: Any) -> bool:
    if raw is None:
        return False
    value = exact.ratio(raw)
    return not 0 <= value.num <= value.den


def _notes(grade: Grade) -> list[str]:
    """The notes of section 5.2: whether the run meets what the guide expects of its letter."""
    notes = []
    letter = grade.grade
    floored = [item for item in grade.criteria if item.floor_units is not None]
    thin = [
        f"{item.name} clears its floor by {norm_text(item.norm_units - (item.floor_units or 0))}"
        for item in floored
        if not item.floor_failed
        and item.norm_units - (item.floor_units or 0) < grade.comfortable_margin
    ]
    if grade.hard_gate_failures:
        notes.append("F: a hard gate does not pass, which blocks a release whatever the score.")
    elif letter == "A":
        notes.append(
            "A: all gates pass"
            + (
                f", but {'; '.join(thin)}, less than the margin of"
                f" {norm_text(grade.comfortable_margin)} that an A should have."
                if thin
                else (
                    " and every floor is cleared with a margin."
                    if floored
                    else "; no criterion has a floor."
                )
            )
        )
        notes += _severe(grade)
    elif letter in _MIDDLE:
        notes.append(
            f"{letter}: {_MIDDLE[letter]}"
            + (f"; {'; '.join(thin)}, close to the boundary." if thin else ".")
        )
    elif letter == grade.floor_cap and grade.floor_failures and grade.provisional_grade != letter:
        notes.append(
            f"{letter}: capped, because a critical floor was missed; the score alone would be"
            f" {_article(grade.provisional_grade)}."
        )
    elif letter == "D":
        notes.append("D: several material gaps; the score itself is in this band.")
    elif letter == "F":
        notes.append("F: the score itself is below every passing band.")
    notes += [
        f"{item.name}: raw {_spelled(item.criterion.raw_score)} is outside 0..1 and was clamped."
        " Is it a percentage?"
        for item in grade.criteria
        if item.criterion.formula_id == "zero_one"
        and item.norm_units in (0, exact.NORM_ONE)
        and _is_outside(item.criterion.raw_score)
    ]
    roles = {item.criterion.role for item in grade.criteria}
    notes += [
        f"No criterion has the role {role}, so its floor doesn't apply."
        for role in grade.floor_roles
        if role not in roles
    ]
    return notes + _disagreements(grade)


_MIDDLE = {
    "B": "gates and floors hold, with limited defects",
    "C": "an acceptable baseline with clear things to improve",
}


def _severe(grade: Grade) -> list[str]:
    """The severe defects that an A should not have: a norm below the policy's floor for the role
    that passes by an override, or a judge that may not gate.
    """
    defects = [
        f"{item.name} is {norm_text(item.norm_units)}, below the floor of"
        f" {norm_text(item.role_floor_units)} for the role {item.criterion.role}"
        for item in grade.criteria
        if item.role_floor_units is not None and item.norm_units < item.role_floor_units
    ]
    defects += [
        f"{item.name} was scored by a judge that may not gate"
        for item in grade.criteria
        if item.judge_fault is not None
    ]
    return [f"An A should have no severe defect: {'; '.join(defects)}."] if defects else []


def _disagreements(grade: Grade) -> list[str]:
    """How far judges disagreed on each judged criterion, compared with the policy's limit; also
    whether that was not measured.
    """
    judged = [
        item
        for item in grade.criteria
        if not item.was_measured
        and (
            item.criterion.layer == 2 or item.criterion.disagreement is not None or _by_model(item)
        )
        and item.criterion.raw_score is not None
    ]
    unmeasured = [item.name for item in judged if item.disagreement_units is None]
    limit = norm_text(grade.disagreement_limit)
    notes = []
    for item in judged:
        units, disagreement = item.disagreement_units, item.criterion.disagreement
        if units is None or disagreement is None:
            continue
        too_often = disagrees_too_often(
            Fraction(units, NORM_ONE), Fraction(grade.disagreement_limit, NORM_ONE)
        )
        whom = {
            "judges": f"{disagreement.n} judges",
            "samples": f"{disagreement.n} answers of one judge",
            "orders": f"the two orders of {disagreement.n} pairs",
        }[disagreement.between]
        far = f"above the {limit} that an A should have" if grade.grade == "A" else f"above {limit}"
        notes.append(
            f"{item.name}: {whom} disagree by {norm_text(units)},"
            f" {far if too_often else f'which is low (at most {limit})'}."
        )
    if unmeasured:
        notes.append(
            "Judge disagreement was not measured for"
            f" {', '.join(unmeasured) if len(unmeasured) < len(judged) else 'this run'}."
        )
    return notes


def _by_model(item: GradedCriterion) -> bool:
    return item.criterion.source is not None and item.criterion.source.kind == "llm"


# --- the smallest changes that move a grade
#
# While a gate fails, no score moves the letter; the moves are then those with all gates passing.


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
