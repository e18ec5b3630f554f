"""The reference implementation of a batch: the rows of one run, graded by the Python engine.

Every engine must return exactly the same row. Property tests compare DuckDB and Spark with this
module, and `--verify` recomputes rows of a batch with it. Nothing here uses SQL. Values that an
engine can't compute exactly are refused here too, so that no number is rounded on input.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from assay import exact
from assay.errors import FormulaError
from assay.families.batch import row_faults as fault
from assay.families.batch.layout import COUNTS, Cell, RowLayout, ScoreCells
from assay.families.batch.norms import EXACT, MAX_COUNT, MAX_DIGITS, NUMBER, largest_n
from assay.families.batch.source_rows import MAX_RUN_ID
from assay.formulas import normalise
from assay.grading.grade import grade
from assay.grading.policy import Rules
from assay.records.grade import Grade
from assay.records.scorecard import SCORECARD_SCHEMA, SCORING_SYSTEM, Scorecard
from assay.records.systems import scored_under
from assay.registry import identifier_fault
from assay.scoring.profile import ProfileCriterion, ScoringPlan
from assay.scoring.requirements import hold_to

INVALID = "invalid_evidence"
_NONE: frozenset[str] = frozenset()
_NUMBER = re.compile(NUMBER.replace(r"\z", r"\Z"))
_TOO_LONG = Decimal("1e-99")
"""Stands for a number in a text that a double has too few digits for."""
_MISSING = "the batch has no score for it"


class RowScore(NamedTuple):
    """A score as a row gives it; counts are an object, as on a scorecard."""

    criterion: str
    raw: Any
    n: Any = None


class RowVerdict(NamedTuple):
    """A gate's verdict as a row gives it."""

    gate: str
    verdict: bool | str | None
    """A text is what was written where a verdict should be."""


class RowReject(NamedTuple):
    """Why a row doesn't count."""

    subject: str | None
    """The criterion or the gate; None for a row as a whole."""
    code: str


class RunRows(NamedTuple):
    """The scores and verdicts in the rows of one run."""

    scores: Sequence[RowScore]
    verdicts: Sequence[RowVerdict]
    size: int = 0
    """How many rows the run has."""
    strays: int = 0
    """Rows with a score or a verdict that belongs to nothing."""
    wide: int = 0
    """How many rows give scores in columns named after them."""
    bad_verdicts: Sequence[str] = ()
    """The gates whose columns have a text that isn't a verdict, once for each cell."""
    kept: Mapping[str, Any] = {}
    """The columns to carry through; None if there are several values."""
    conflicts: int = 0
    """How many of them have several values."""


class ReplayedRun(NamedTuple):
    """The output row of a run, by column, and the rows of it that are rejected."""

    row: dict[str, Any]
    rejects: tuple[RowReject, ...]


def read_rows(rows: Sequence[Mapping[str, Any]], layout: RowLayout, plan: ScoringPlan) -> RunRows:
    """The scores and verdicts in the rows of a run, long and wide.

    When files are combined, a file that lacks a column has NULL there. So NULL in a wide column is
    ignored, but NULL in a long row means that the score is missing. A wide verdict may repeat in
    every row of the run, as in a joined table: it counts once.
    """
    specs = {planned.spec.id: planned.spec for planned in plan.criteria}
    scores: list[RowScore] = []
    verdicts: list[RowVerdict] = []
    wide_verdicts: dict[RowVerdict, None] = {}
    bad_verdicts: list[str] = []
    strays = wide_scores = 0
    for row in rows:
        is_stray = False
        if layout.criterion is not None:
            name, cells = row[layout.criterion.name], layout.score
            given = [cell for cell in (cells.raw, *cells.counts.values()) if cell is not None]
            if name is not None:
                formula = specs[name].formula if name in specs else ""
                scores.append(_score(row, name, cells, formula))
            else:
                is_stray = any(row[cell.name] is not None for cell in given)
        if layout.gate is not None and layout.verdict is not None:
            gate, verdict = row[layout.gate.name], _verdict(row, layout.verdict)
            if gate is not None:
                verdicts.append(RowVerdict(gate, verdict))
            else:
                is_stray = is_stray or verdict is not None
        strays += is_stray
        scores_found = [
            _score(row, name, cells, specs[name].formula) for name, cells in layout.wide.items()
        ]
        scores_found = [score for score in scores_found if score.raw is not None]
        wide_scores += bool(scores_found)
        scores += scores_found
        for gate, cell in layout.wide_gates.items():
            verdict = _verdict(row, cell)
            if isinstance(verdict, str):
                bad_verdicts.append(gate)
            elif verdict is not None:
                wide_verdicts[RowVerdict(gate, verdict)] = None
    values = {cell.name: {row[cell.name] for row in rows} - {None} for cell in layout.keep}
    return RunRows(
        scores,
        [*verdicts, *wide_verdicts],
        len(rows),
        strays,
        wide_scores,
        bad_verdicts,
        {
            name: next(iter(verdicts)) if len(verdicts) == 1 else None
            for name, verdicts in values.items()
        },
        sum(len(verdicts) > 1 for verdicts in values.values()),
    )


def _verdict(row: Mapping[str, Any], cell: Cell) -> Any:
    """The verdict in a row, or the text that isn't one."""
    return row[cell.written] if row[cell.name] is None and cell.written else row[cell.name]


def _score(row: Mapping[str, Any], name: str, cells: ScoreCells, formula: str) -> RowScore:
    """The score in a row: a number, or an object of the counts that the formula takes."""
    raw = None if cells.raw is None else row[cells.raw.name]
    if cells.raw is not None and cells.raw.written and raw is not None and math.isnan(raw):
        written = row[cells.raw.written]
        raw = _TOO_LONG if _NUMBER.match(written) else written
    n = None if cells.n is None else row[cells.n.name]
    keys = [key for key in COUNTS.get(formula, ()) if key in cells.counts]
    counts = {key: row[cells.counts[key].name] for key in keys}
    if raw is not None or all(count is None for count in counts.values()):
        return RowScore(name, raw, n)
    return RowScore(name, counts, n)


def replay_rows(
    run: Any, rows: Sequence[Mapping[str, Any]], layout: RowLayout, plan: ScoringPlan, rules: Rules
) -> ReplayedRun:
    """The output row of a run, by the Python engine, from the rows of a source."""
    shows_n = frozenset(
        planned.spec.id
        for planned in plan.criteria
        if layout.score.n is not None
        or (planned.spec.id in layout.wide and layout.wide[planned.spec.id].n is not None)
    )
    return replay_run(run, read_rows(rows, layout, plan), plan, rules, shows_n=shows_n)


def replay_run(
    run: Any, rows: RunRows, plan: ScoringPlan, rules: Rules, *, shows_n: frozenset[str] = _NONE
) -> ReplayedRun:
    """The output row of a run, by the Python engine, from what its rows say. `shows_n` names the
    criteria whose sample sizes the rows can give.
    """
    specs = {planned.spec.id: planned.spec for planned in plan.criteria}
    rejects = tuple(_rejects(run, rows, specs, largest_n(rules.shrinkage)))
    row = (
        _invalid_row(plan, shows_n)
        if any(reject.code != fault.UNKNOWN_CRITERION.code for reject in rejects)
        else _row(_graded(str(run), rows, plan, rules), rows, plan, shows_n)
    )
    return ReplayedRun(
        {
            "run": run,
            **rows.kept,
            **row,
            "faults": _fault_count(rows, rejects),
            "profile": plan.profile.id,
            "policy": rules.policy,
            "scoring_system": scored_under(SCORING_SYSTEM, plan.scoring_system),
            "grading_system": rules.grading_system,
        },
        rejects,
    )


def _graded(run: str, rows: RunRows, plan: ScoringPlan, rules: Rules) -> Grade:
    """The grade of the scorecard that the rows of a run are."""
    scores = {score.criterion: score for score in rows.scores}
    verdicts = {
        verdict.gate: None if isinstance(verdict.verdict, str) else verdict.verdict
        for verdict in rows.verdicts
    }
    required = [planned.id for planned in plan.gates]
    extra = sorted(verdicts.keys() - set(required))
    criteria = []
    for planned in plan.criteria:
        score = scores.get(planned.spec.id)
        if score is None or score.raw is None:
            criteria.append(planned.spec.scored(None, n=0, missing=_MISSING))
        else:
            criteria.append(planned.spec.scored(score.raw, n=_n(score)))
    card = Scorecard(
        schema=SCORECARD_SCHEMA,
        run_id=run,
        hard_gates={name: verdicts.get(name) for name in (*required, *extra)},
        criteria=criteria,
        scoring_system=scored_under(SCORING_SYSTEM, plan.scoring_system),
    )
    terms = plan.judge
    return grade(
        hold_to(card, plan),
        rules,
        judges={},
        calibrated=terms is not None and terms.calibration == "required",
        both_orders=terms is not None and terms.order == "both",
    )


def _rejects(
    run: Any, rows: RunRows, specs: Mapping[str, ProfileCriterion], max_n: int
) -> Iterable[RowReject]:
    """Every row that doesn't count, and why. All but unknown criteria make the run invalid."""
    if run is None or (isinstance(run, str) and not 0 < len(run) <= MAX_RUN_ID):
        yield from [RowReject(None, fault.NO_RUN.code)] * rows.size
        return
    yield from [RowReject(None, fault.STRAY.code)] * rows.strays
    yield from [RowReject(None, fault.TWO_VALUES.code)] * rows.conflicts
    if rows.wide > 1:
        yield from [RowReject(None, fault.TWICE.code)] * rows.wide
    scored = Counter(score.criterion for score in rows.scores)
    for score in rows.scores:
        spec = specs.get(score.criterion)
        code = fault.UNKNOWN_CRITERION.code if spec is None else score_fault(score, spec, max_n)
        if code is not None or scored[score.criterion] > 1:
            yield RowReject(score.criterion, code or fault.TWICE.code)
    yield from (RowReject(gate, fault.BAD_VERDICT.code) for gate in rows.bad_verdicts)
    judged = Counter(verdict.gate for verdict in rows.verdicts)
    for verdict in rows.verdicts:
        if identifier_fault(verdict.gate) is not None:
            yield RowReject(verdict.gate, fault.BAD_GATE_NAME.code)
        elif isinstance(verdict.verdict, str):
            yield RowReject(verdict.gate, fault.BAD_VERDICT.code)
        elif judged[verdict.gate] > 1:
            yield RowReject(verdict.gate, fault.TWICE.code)


def _fault_count(rows: RunRows, rejects: Sequence[RowReject]) -> int:
    """The number in the column `faults`: of values that are given several times, all but one
    count.
    """
    codes = [reject.code for reject in rejects]
    surplus = max(rows.wide - 1, 0)
    unknown = {reject.subject for reject in rejects if reject.code == fault.UNKNOWN_CRITERION.code}
    known = [score.criterion for score in rows.scores if score.criterion not in unknown]
    for names in (known, [verdict.gate for verdict in rows.verdicts]):
        surplus += len(names) - len(set(names))
    if fault.NO_RUN.code in codes:
        return len(codes)
    return len(codes) - codes.count(fault.TWICE.code) + surplus


def score_fault(score: RowScore, spec: ProfileCriterion, max_n: int) -> str | None:
    """The code of what is wrong with a score; None for a score that counts, or that is missing."""
    if score.n is not None and not (_is_whole(score.n) and score.n <= max_n):
        return fault.BAD_N.code
    if score.raw is None:
        return None
    if _is_too_long(score.raw, spec.formula):
        return fault.TOO_PRECISE.code
    try:
        normalise(score.raw, spec.formula, spec.params)
    except FormulaError as error:
        return error.code
    return None


def _is_whole(value: Any) -> bool:
    return exact.is_amount(value) and exact.ratio(value).den == 1


def _is_too_long(raw: Any, formula: str) -> bool:
    """Whether an engine can't compute with a number exactly, although Python can."""
    if isinstance(raw, dict):
        if not all(map(_is_whole, raw.values())):
            return False
        total = sum(raw.values()) if formula == "pairwise" else max(raw.values())
        return bool(total > MAX_COUNT)
    if formula in COUNTS:
        return False  # a number isn't a count
    if isinstance(raw, Decimal) and raw.is_finite():
        number = raw.normalize()
        exponent = number.as_tuple().exponent
        assert isinstance(exponent, int)
        return max(number.adjusted() + 1, 0) + max(-exponent, 0) > MAX_DIGITS
    return isinstance(raw, int) and abs(raw) > EXACT


def _n(score: RowScore) -> int:
    return 1 if score.n is None else int(score.n)


def _row(
    graded: Grade, rows: RunRows, plan: ScoringPlan, shows_n: frozenset[str]
) -> dict[str, Any]:
    scores = {score.criterion: score for score in rows.scores}
    required = {planned.id for planned in plan.gates}
    row: dict[str, Any] = {
        "grade": graded.grade,
        "provisional_grade": graded.provisional_grade,
        "passed": graded.passed,
        "reason": graded.reason,
        "score": _decimal(graded.score_units, exact.SCORE_DIGITS),
        "adjusted_score": _decimal(graded.adjusted_score_units, exact.SCORE_DIGITS),
        "failed_gates": list(graded.hard_gate_failures),
        "undetermined_gates": [
            name
            for name in graded.hard_gate_failures
            if graded.scorecard.hard_gates.get(name) is None
        ],
        "extra_gates": sorted(graded.scorecard.hard_gates.keys() - required),
        "failed_floors": list(graded.floor_failures),
        "missing": [
            criterion.name for criterion in graded.criteria if criterion.criterion.raw_score is None
        ],
    }
    for criterion in graded.criteria:
        row[f"norm_{criterion.name}"] = _decimal(criterion.norm_units, exact.NORM_DIGITS)
        row[f"adjusted_{criterion.name}"] = _decimal(criterion.adjusted_units, exact.NORM_DIGITS)
        row[f"contribution_{criterion.name}"] = _decimal(criterion.contribution_units, 6)
        if criterion.name in shows_n:
            row[f"n_{criterion.name}"] = (
                _n(scores[criterion.name]) if criterion.name in scores else None
            )
    return row


def _decimal(units: int, digits: int) -> Decimal:
    return Decimal(units).scaleb(-digits)


def _invalid_row(plan: ScoringPlan, shows_n: frozenset[str]) -> dict[str, Any]:
    """The row of a run that can't be graded: it fails, and has no number."""
    names = [planned.spec.id for planned in plan.criteria]
    return {
        "grade": None,
        "provisional_grade": None,
        "passed": False,
        "reason": INVALID,
        **dict.fromkeys(("score", "adjusted_score", "failed_gates", "undetermined_gates")),
        **dict.fromkeys(("extra_gates", "failed_floors", "missing")),
        **{
            f"{part}_{name}": None
            for name in names
            for part in ("norm", "adjusted", "contribution", "n")
            if part != "n" or name in shows_n
        },
    }
