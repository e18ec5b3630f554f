"""The norm of a score as SQL: billionths, rounded half-up exactly as `formulas` does.

A double means the decimal of its shortest repr. Its norm in billionths is m or m + 1, with m from
ordinary arithmetic; m + 1 iff the raw value reaches T, the value whose norm lies exactly between
the two. T is a decimal of at most 15 digits and is computed as one division of two whole numbers
below 2^53, so it is the double nearest to that decimal: a raw value equals it iff it was written as
that decimal, and otherwise doubles compare as the decimals do. A wrong m at a whole boundary does
no harm, because both sides of it round to the same norm. Neither text nor 128-bit numbers are used.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from assay import exact
from assay.errors import ShelfError
from assay.exact import NORM_ONE, Pull
from assay.families.batch import row_faults as fault
from assay.families.batch.layout import COUNTS, Cell, ScoreCells
from assay.families.batch.plan import BatchCriterion
from assay.families.batch.quoting import double, identifier, text

EXACT = 2**53
"""Whole numbers up to this are doubles."""
MAX_DIGITS = 15
"""A decimal of up to this many digits is the shortest repr of the double nearest to it."""
MAX_COUNT = 2_000_000_000
"""The largest number of comparisons whose norm fits into 64 bits."""
NUMBER = r"^[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,3})?\z"
"""A text that is a number."""
_LIKERT = {"likert_1_5": (1, 4), "likert_neg2_2": (-2, 4), "likert_0_5": (0, 5)}


class Branch(NamedTuple):
    """A WHEN of a CASE."""

    condition: str
    value: str | int


def case(branches: list[Branch], otherwise: str) -> str:
    """A CASE, or its ELSE alone if there are no branches."""
    if not branches:
        return otherwise
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
    return f"CASE {whens} ELSE {otherwise} END"


def score_code(criterion: BatchCriterion, cells: ScoreCells, max_n: int) -> str:
    """The norm of a row, or the number of what is wrong with it, as an INTEGER."""
    checks = []
    if cells.n is not None:
        checks.append(Branch(f"NOT ({is_count(cells.n, max_n)})", fault.BAD_N.number))
    more, norm = (
        _counted(criterion.formula, cells)
        if criterion.formula in COUNTS
        else _scored(criterion, cells.raw)
    )
    return f"CAST({case(checks + more, norm)} AS INTEGER)"


def is_count(cell: Cell, limit: int) -> str:
    """Whether it is a whole number from 0 to a limit, or NULL."""
    name = identifier(cell.name)
    whole = "" if cell.kind in ("whole", "long") else f" AND {name} = FLOOR({name})"
    largest = _comparable(cell, limit)
    return f"{name} IS NULL OR ({name} BETWEEN 0 AND {largest}{whole})"


def _comparable(cell: Cell, limit: int) -> int:
    """A limit of whole numbers, or the largest of a decimal's type: an engine can't compare it with
    a number that doesn't fit there.
    """
    return min(limit, 10 ** (cell.digits - cell.scale) - 1) if cell.kind == "decimal" else limit


def _read(cell: Cell) -> tuple[str, list[Branch]]:
    """A number as a double, and the checks before it is used."""
    name = identifier(cell.name)
    if cell.kind == "long":
        bad = f"NOT {name} BETWEEN -{EXACT} AND {EXACT}"
        return f"CAST({name} AS DOUBLE)", [Branch(bad, fault.TOO_PRECISE.number)]
    if cell.kind == "decimal" and cell.digits > MAX_DIGITS:
        # the most decimals that leave 15 digits in all, by the size of the number
        whole = max(cell.digits - cell.scale, 0)
        steps = []
        for size in range(max(MAX_DIGITS - cell.scale, 0), min(whole, MAX_DIGITS) + 1):
            narrow = f"CAST({name} AS DECIMAL(18, {MAX_DIGITS - size}))"
            fits = f"ABS({name}) < 1{'0' * size} AND " if size < whole else ""  # else all do
            steps.append(Branch(f"{fits}{narrow} = {name}", f"CAST({narrow} AS DOUBLE)"))
        value = case(steps, "NULL")
        return value, [Branch(f"({value}) IS NULL", fault.TOO_PRECISE.number)]
    if cell.kind == "float":
        # as `exact.ratio` reads numbers; NaN is greater than any number to an engine
        in_range = f"({name} = 0 OR (ABS({name}) >= 1e-300 AND ABS({name}) < 1e301))"
        checks = [Branch(f"NOT {in_range}", fault.NOT_A_NUMBER.number)]
        if cell.written:  # it was a number, but too long for a double
            long = f"REGEXP_MATCHES({identifier(cell.written)}, {text(NUMBER)})"
            checks.insert(0, Branch(f"ISNAN({name}) AND {long}", fault.TOO_PRECISE.number))
        return f"CAST({name} AS DOUBLE)", checks
    return f"CAST({name} AS DOUBLE)", []


def _scored(criterion: BatchCriterion, cell: Cell | None) -> tuple[list[Branch], str]:
    """The norm of a number. The branch for most rows comes first: an engine tries a branch only on
    rows that none before it took.
    """
    if cell is None:
        return [], str(fault.NO_SCORE)
    v, checks = _read(cell)
    refused = [Branch(f"{identifier(cell.name)} IS NULL", fault.NO_SCORE), *checks]
    name, off_scale = criterion.formula, str(fault.OFF_SCALE.number)
    if name == "binary":
        return [Branch(f"{v} = 1e0", NORM_ONE), Branch(f"{v} = 0e0", 0), *refused], off_scale
    if name == "zero_one":
        scored = Branch(_inside(v, 0, 1), _rising(v, 0, 1))
        return [scored, *refused, Branch(f"{v} < 0e0", 0)], str(NORM_ONE)
    if name in _LIKERT:
        low, span = _LIKERT[name]
        return [Branch(_inside(v, low, low + span), _rising(v, low, span)), *refused], off_scale
    good, bad = (
        float(Fraction(*exact.ratio(criterion.params[key]))) for key in ("slo_good", "slo_bad")
    )
    scored = Branch(_inside(v, good, bad), _falling(v, criterion))
    return [scored, *refused, Branch(f"{v} < {double(good)}", NORM_ONE)], "0"


def _inside(v: str, low: float, high: float) -> str:
    """Whether a number is on a scale; one next to 0 isn't a number to `exact.ratio`."""
    inside = f"{v} BETWEEN {double(low)} AND {double(high)}"
    if low > 0:
        return inside
    return f"{inside} AND ({v} >= 1e-300 OR {v} = 0e0 OR {v} <= -1e-300)"


def _rising(v: str, low: int, span: int) -> str:
    """(raw - low) / span."""
    at = v if low == 0 else f"({v} - {double(low)})"
    m = f"FLOOR({at} * 1e9)" if span == 1 else f"FLOOR({at} * 1e9 / {double(span)})"
    half = f"2e0 * {m} + 1e0"
    top = half if span == 1 else f"{double(span)} * ({half})"
    top = top if low == 0 else f"{double(low * 2 * NORM_ONE)} + {top}"
    return f"CAST({m} AS INTEGER) + CASE WHEN {v} >= ({top}) / 2e9 THEN 1 ELSE 0 END"


class Slope(NamedTuple):
    """(bad - raw) / (bad - good) on whole numbers: with `bad` and `span` over `scale`, T = (`bad` *
    `parts` - `step` * (2 * m + 1)) / (`scale` * `parts`).
    """

    bad: int
    span: int
    scale: int
    step: int
    parts: int


def slope(criterion: BatchCriterion) -> Slope:
    """The numbers of a `lower_is_better`. Raises `ShelfError` where doubles can't decide every
    tie.
    """
    good, bad = (Fraction(*exact.ratio(criterion.params[key])) for key in ("slo_good", "slo_bad"))
    scale = lcm(good.denominator, bad.denominator)
    low, high = int(good * scale), int(bad * scale)
    share = Fraction(high - low, 2 * NORM_ONE)
    parts = share.denominator
    line = Slope(high, high - low, scale, share.numerator, parts)
    largest = max(abs(low), abs(high))
    if (
        largest * parts >= EXACT
        or scale * parts >= EXACT
        or largest * 10 ** _decimals(scale * parts) >= scale * 10**MAX_DIGITS
        or largest > 100_000 * (high - low)
    ):
        raise ShelfError(
            "BAT-005",
            f"'{criterion.name}' goes from {criterion.params['slo_good']} to"
            f" {criterion.params['slo_bad']}: a batch can't round its norms exactly, because their"
            f" edges have more than {MAX_DIGITS} digits.",
            fix="Choose bounds whose distance is a rounder number, or grade with `assay grade`.",
        )
    return line


def _decimals(denominator: int) -> int:
    """The decimals of the fractions with a denominator of twos and fives."""
    digits = 0
    while 10**digits % denominator:
        digits += 1
    return digits


def _falling(v: str, criterion: BatchCriterion) -> str:
    line = slope(criterion)
    scaled = v if line.scale == 1 else f"{v} * {double(line.scale)}"
    m = f"FLOOR(({double(line.bad)} - {scaled}) * 1e9 / {double(line.span)})"
    edge = (
        f"({double(line.bad * line.parts)} - {double(line.step)} * (2e0 * {m} + 1e0))"
        f" / {double(line.scale * line.parts)}"
    )
    return f"CAST({m} AS INTEGER) + CASE WHEN {v} <= {edge} THEN 1 ELSE 0 END"


def _counted(formula: str, cells: ScoreCells) -> tuple[list[Branch], str]:
    """The norm of counts."""
    keys = COUNTS[formula]
    if any(key not in cells.counts for key in keys):
        # without its columns, whatever a row has instead of counts isn't a score
        given = [] if cells.raw is None else [(cells.raw, fault.NOT_COUNTS)]
        given += [(cell, fault.PARTIAL_COUNTS) for cell in cells.counts.values()]
        refused = [
            Branch(f"NOT {identifier(cell.name)} IS NULL", why.number) for cell, why in given
        ]
        return refused, str(fault.NO_SCORE)
    counts = [cells.counts[key] for key in keys]
    names = [identifier(cell.name) for cell in counts]
    none = " AND ".join(f"{name} IS NULL" for name in names)
    checks = []
    if cells.raw is not None:
        raw = identifier(cells.raw.name)
        checks.append(Branch(f"NOT {raw} IS NULL", fault.NOT_COUNTS.number))
    checks.append(Branch(none, fault.NO_SCORE))
    partial = " OR ".join(f"{name} IS NULL" for name in names)
    checks.append(Branch(partial, fault.PARTIAL_COUNTS.number))
    for cell, name in zip(counts, names, strict=True):
        if cell.kind == "float":
            checks.append(Branch(f"NOT ABS({name}) < 1e301", fault.NOT_A_NUMBER.number))
        if cell.kind in ("float", "decimal"):
            # Spark's FLOOR of a larger double overflows
            near = f"ABS({name}) < {EXACT} AND " if cell.kind == "float" else ""
            checks.append(Branch(f"{near}{name} <> FLOOR({name})", fault.NOT_WHOLE.number))
        checks.append(Branch(f"{name} < 0", fault.BELOW_ZERO.number))
        checks.append(Branch(f"{name} > {_comparable(cell, MAX_COUNT)}", fault.TOO_PRECISE.number))
    whole = [f"CAST({name} AS BIGINT)" for name in names]
    total = f"({' + '.join(whole)})" if formula == "pairwise" else whole[1]
    checks.append(Branch(f"{total} = 0", fault.NOTHING_COUNTED.number))
    if formula == "pairwise":
        checks.append(Branch(f"{total} > {MAX_COUNT}", fault.TOO_PRECISE.number))
        # (2 * wins + ties) / (2 * total)
        top, bottom = f"(2 * {whole[0]} + {whole[2]})", f"(2 * {total})"
    else:
        checks.append(Branch(f"{whole[0]} > {total}", fault.CONTRADICTION.number))
        top, bottom = whole[0], total
    return checks, f"({2 * NORM_ONE} * {top} + {bottom}) // (2 * {bottom})"


def largest_n(pull: Pull) -> int:
    """The largest sample size whose pull fits into 64 bits. Raises `ShelfError` where none does."""
    largest = (2**63 - 1 - 2 * pull.add - pull.base) // (2 * NORM_ONE * pull.per + pull.per)
    if largest < 1:
        raise ShelfError(
            "BAT-005",
            "the policy's shrinkage has too many decimals for a batch.",
            fix="Write `prior` and `k` with fewer decimals, or grade with `assay grade`.",
        )
    return min(largest, EXACT)


def adjusted(norm: str, n: str, pull: Pull) -> str:
    """`exact.shrink` as SQL."""
    if n == "1":
        den = pull.per + pull.base
        return quotient(norm, 2 * pull.per, 2 * pull.add + den, 2 * den)
    size = f"({n} * {pull.per} + {pull.base})"
    return f"(2 * ({n} * {pull.per} * {norm} + {pull.add}) + {size}) // (2 * {size})"


def quotient(number: str, factor: int, more: int, divisor: int) -> str:
    """(`factor` * number + `more`) // `divisor` on whole numbers from 0, without the factors that
    both have in common, which mostly saves the multiplication.

    >>> quotient("norm0", 16, 200, 400)
    '(norm0 + 12) // 25'
    """
    common = gcd(factor, divisor)
    product = number if factor == common else f"{factor // common} * {number}"
    return f"({product} + {more // common}) // {divisor // common}"
