"""The reference of a batch: the rows of one run, graded by the Python engine.

Engines must give the same row, to the letter and the cent. Property tests hold DuckDB and Spark to
this module, and a verified batch has rows made again by it. Nothing here knows SQL. What an engine
can't compute exactly is refused here too, so that a number is never rounded on the way in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from assay import exact
from assay.errors import FormulaError
from assay.formulas import normalise
from assay.grading.grade import grade
from assay.grading.policy import Rules
from assay.records.grade import Grade
from assay.records.scorecard import SCORECARD_SCHEMA, SCORING_SYSTEM, Scorecard
from assay.records.systems import scored_under
from assay.scoring.profile import ProfileCriterion, ScoringPlan
from assay.scoring.requirements import hold_to

MAX_COUNT = 2_000_000_000
MAX_WHOLE = 2**53
MAX_DIGITS = 15
COUNTS = {"pairwise": ("wins", "losses", "ties"), "ratio": ("passed", "total")}
INVALID = "invalid_evidence"
_MISSING = "the batch has no score for it"


class RowScore(NamedTuple):
    """A score as a row gives it; counts are an object, as on a scorecard."""

    criterion: str
    raw: Any
    n: Any = None


class RowVerdict(NamedTuple):
    """A gate's verdict as a row gives it."""

    gate: str
    verdict: bool | None


class RowReject(NamedTuple):
    """Why a row doesn't count."""

    subject: str | None
    """The criterion or the gate."""
    code: str


class RunRows(NamedTuple):
    """What the rows of one run say."""

    scores: list[RowScore]
    verdicts: list[RowVerdict]


class ReplayedRun(NamedTuple):
    """The output row of a run, by column, and the rows of it that are rejected."""

    row: dict[str, Any]
    rejects: tuple[RowReject, ...]


def read_rows(rows: Iterable[Mapping[str, Any]], plan: ScoringPlan) -> RunRows:
    """The scores and verdicts in the rows of a run, long and wide.

    Each row has a value for each column, under the name that a batch knows it by; files that lack a
    column have NULL there. So NULL in a wide column says nothing, and NULL in a long row says that
    the score is missing.
    """
    found = RunRows([], [])
    specs = {planned.spec.id: planned.spec for planned in plan.criteria}
    for row in rows:
        name, gate = row.get("criterion"), row.get("gate")
        if name is not None:
            formula = specs[name].formula if name in specs else ""
            found.scores.append(RowScore(name, _raw(row, "raw", "", formula), row.get("n")))
        if gate is not None:
            found.verdicts.append(RowVerdict(gate, row.get("verdict")))
        for name, spec in specs.items():
            raw, n = _raw(row, name, f"{name}_", spec.formula), row.get(f"{name}_n")
            if raw is not None or n is not None:
                found.scores.append(RowScore(name, raw, n))
        found.verdicts.extend(
            RowVerdict(planned.id, row[planned.id])
            for planned in plan.gates
            if row.get(planned.id) is not None
        )
    return found


def _raw(row: Mapping[str, Any], column: str, prefix: str, formula: str) -> Any:
    """The raw score in a row: the number, or an object of the counts that its formula takes."""
    counts = {key: row.get(prefix + key) for key in COUNTS.get(formula, ())}
    given = row.get(column)
    if all(count is None for count in counts.values()):
        return given
    return counts if given is None else {"raw": given, **counts}


def replay_run(
    run: str | None,
    scores: Sequence[RowScore],
    verdicts: Sequence[RowVerdict],
    plan: ScoringPlan,
    rules: Rules,
) -> ReplayedRun:
    """The output row of a run, by the Python engine."""
    specs = {planned.spec.id: planned.spec for planned in plan.criteria}
    unknown = [RowReject(one.criterion, "BAT-012") for one in scores if one.criterion not in specs]
    known = [one for one in scores if one.criterion in specs]
    faults = list(_faults(run, known, verdicts, specs, largest_n(rules.shrinkage)))
    rejects = (*unknown, *faults)
    if faults:
        return ReplayedRun(_invalid_row(run, plan, rules, len(rejects)), rejects)
    given = {one.criterion: one for one in known}
    assert run is not None
    card = Scorecard(
        schema=SCORECARD_SCHEMA,
        run_id=run,
        hard_gates=_gates(verdicts, plan),
        criteria=[
            spec.scored(None, n=0, missing=_MISSING)
            if name not in given or given[name].raw is None
            else spec.scored(given[name].raw, n=_n(given[name].n))
            for name, spec in specs.items()
        ],
        scoring_system=scored_under(SCORING_SYSTEM, plan.scoring_system),
    )
    terms = plan.judge
    made = grade(
        hold_to(card, plan),
        rules,
        judges={},
        calibrated=terms is not None and terms.calibration == "required",
        both_orders=terms is not None and terms.order == "both",
    )
    return ReplayedRun(_row(made, given, len(rejects)), rejects)


def _gates(verdicts: Iterable[RowVerdict], plan: ScoringPlan) -> dict[str, bool | None]:
    """The plan's gates in its order, then the others by name."""
    given = {one.gate: one.verdict for one in verdicts}
    required = [planned.id for planned in plan.gates]
    extra = sorted(given.keys() - set(required))
    return {name: given.get(name) for name in (*required, *extra)}


def _faults(
    run: str | None,
    scores: Sequence[RowScore],
    verdicts: Sequence[RowVerdict],
    specs: Mapping[str, ProfileCriterion],
    max_n: int,
) -> Iterable[RowReject]:
    """Every row that makes the run invalid."""
    twice = {name for name, n in Counter(one.criterion for one in scores).items() if n > 1}
    gates_twice = {name for name, n in Counter(one.gate for one in verdicts).items() if n > 1}
    for score in scores:
        code = (
            "BAT-013"
            if run is None or run == ""
            else score_fault(score, specs[score.criterion], max_n)
            or ("GRD-102" if score.criterion in twice else None)
        )
        if code is not None:
            yield RowReject(score.criterion, code)
    for verdict in verdicts:
        if run is None or run == "":
            yield RowReject(verdict.gate, "BAT-013")
        elif verdict.gate in gates_twice:
            yield RowReject(verdict.gate, "GRD-102")


def score_fault(score: RowScore, spec: ProfileCriterion, max_n: int) -> str | None:
    """The code of what is wrong with a score; None for a score that counts, or that is missing."""
    if score.n is not None and not (_is_whole(score.n) and score.n <= max_n):
        return "BAT-011"
    raw = score.raw
    if raw is None:
        return None
    if isinstance(raw, dict):
        too_long = all(map(_is_whole, raw.values())) and sum(raw.values()) > MAX_COUNT
        if spec.formula == "ratio" and too_long:
            too_long = max(raw.values()) > MAX_COUNT
    else:
        too_long = exact.is_number(raw) and _is_too_long(raw)
    if too_long:
        return "BAT-010"
    try:
        normalise(raw, spec.formula, spec.params)
    except FormulaError as error:
        return error.code
    return None


def largest_n(pull: exact.Pull) -> int:
    """The largest sample size whose pull fits into 64 bits."""
    top = 2**63 - 1 - 2 * pull.add - pull.base
    return min(top // (2 * exact.NORM_ONE * pull.per + pull.per), MAX_WHOLE)


def _is_whole(value: Any) -> bool:
    return exact.is_amount(value) and exact.ratio(value).den == 1


def _is_too_long(value: Any) -> bool:
    """Whether a number that isn't a double has more digits than a double keeps."""
    if isinstance(value, Decimal):
        number = value.normalize()
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        return max(number.adjusted() + 1, 0) + max(-exponent, 0) > MAX_DIGITS
    return isinstance(value, int) and abs(value) > MAX_WHOLE


def _n(value: Any) -> int:
    return 1 if value is None else int(value)


def _row(made: Grade, given: Mapping[str, RowScore], faults: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run": made.run_id,
        "grade": made.grade,
        "provisional_grade": made.provisional_grade,
        "passed": made.passed,
        "reason": made.reason,
        "score": _decimal(made.score_units, 2),
        "adjusted_score": _decimal(made.adjusted_score_units, 2),
        "failed_gates": list(made.hard_gate_failures),
        "failed_floors": list(made.floor_failures),
        "missing": [one.name for one in made.criteria if one.criterion.raw_score is None],
    }
    for one in made.criteria:
        row[f"norm_{one.name}"] = _decimal(one.norm_units, 9)
        row[f"adjusted_{one.name}"] = _decimal(one.adjusted_units, 9)
        row[f"contribution_{one.name}"] = _decimal(one.contribution_units, 6)
    profile = made.scorecard.profile
    assert profile is not None
    row["faults"] = faults
    row["profile"] = profile.id
    row["policy"] = made.policy
    row["scoring_system"] = made.scoring_system
    row["grading_system"] = made.grading_system
    return row


def _decimal(units: int, digits: int) -> Decimal:
    return Decimal(units).scaleb(-digits)


def _invalid_row(run: str | None, plan: ScoringPlan, rules: Rules, faults: int) -> dict[str, Any]:
    """The row of a run that can't be graded: it fails, and has no number."""
    names = [planned.spec.id for planned in plan.criteria]
    row: dict[str, Any] = {
        "run": run,
        "grade": None,
        "provisional_grade": None,
        "passed": False,
        "reason": INVALID,
        **dict.fromkeys(("score", "adjusted_score", "failed_gates", "failed_floors", "missing")),
    }
    for name in names:
        row |= dict.fromkeys((f"norm_{name}", f"adjusted_{name}", f"contribution_{name}"))
    return row | {
        "faults": faults,
        "profile": plan.profile.id,
        "policy": rules.policy,
        "scoring_system": plan.scoring_system,
        "grading_system": rules.grading_system,
    }
