"""Exact decimal arithmetic: the one definition of score, rounding and band comparison.

A number enters as the decimal text it was written in; a float enters by its shortest repr. Inside,
everything is an integer: a norm is a count of billionths (`NORM_ONE` of them make 1), a score is a
count of hundredths of a point. Leaving, a value is shown as a float: 9 decimals on 0..1 and 2
decimals on 0..100 always survive that, because the shortest repr of the nearest float is the same
decimal again. No float is ever compared with an edge. SQL engines do the same sums on the same
integers and get the same letters.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from math import lcm
from typing import NamedTuple

Number = int | float | Decimal
"""What counts as a number. `True` does not, a numeric string does not, NaN and the infinities do
not.
"""

NORM_DIGITS = 9
NORM_ONE: int = 10**NORM_DIGITS
SCORE_DIGITS = 2
SCORE_ONE: int = 10**SCORE_DIGITS
SCORE_MAX: int = 100 * SCORE_ONE

MAX_DIGITS = 100
"""The longest number that is read. No measurement has more digits, and computing with a longer
number could exhaust time or memory.
"""
MAX_EXPONENT = 300
_LARGE: int = 10**MAX_DIGITS
_POWERS: tuple[int, ...] = tuple(10**digits for digits in range(40))


class Ratio(NamedTuple):
    """An exact quotient with a positive denominator."""

    num: int
    den: int


_new = tuple.__new__  # half the time of Ratio(...), for every number that is read


def ratio(value: object) -> Ratio:
    """The exact value of a number.

    >>> ratio(0.35)
    Ratio(num=7, den=20)
    >>> ratio(Decimal("1.50"))
    Ratio(num=3, den=2)
    >>> ratio("0.35")
    Traceback (most recent call last):
        ...
    ValueError: '0.35' is a string, not a number
    """
    kind = type(value)
    if kind is int:
        if -_LARGE < value < _LARGE:  # type: ignore[operator]
            return _new(Ratio, (value, 1))
        raise ValueError(f"the number has more than {MAX_DIGITS} digits")
    if kind is float:
        number = Decimal(repr(value))
    elif kind is Decimal:
        number = value  # type: ignore[assignment]
    else:
        raise ValueError(_not_a_number(value))
    if not number.is_finite():
        raise ValueError(f"{number} is not a finite number")
    if not -MAX_EXPONENT <= number.adjusted() <= MAX_EXPONENT:
        raise ValueError(
            f"{number} is beyond the range of numbers read here (1e-{MAX_EXPONENT} to"
            f" 1e{MAX_EXPONENT})"
        )
    # the text, which is quick to make, is at least as long as the digits
    if len(str(number)) > MAX_DIGITS and len(number.as_tuple().digits) > MAX_DIGITS:
        raise ValueError(f"the number has more than {MAX_DIGITS} digits")
    return _new(Ratio, number.as_integer_ratio())


def is_number(value: object) -> bool:
    """Whether `ratio` accepts it.

    >>> is_number(3), is_number(True), is_number("3"), is_number(float("nan"))
    (True, False, False, False)
    """
    try:
        ratio(value)
    except ValueError:
        return False
    return True


def _not_a_number(value: object) -> str:
    if isinstance(value, bool):
        return f"{str(value).lower()} is true or false, not a number"
    if isinstance(value, str):
        return f"{value!r} is a string, not a number"
    if value is None:
        return "null is not a number"
    return f"{type(value).__name__} is not a number"


def quantise(num: int, den: int, digits: int) -> int:
    """num/den as a count of 10**-digits, halves away from zero. `den` is positive.

    >>> quantise(59995, 1000, 2), quantise(-1, 8, 2)
    (6000, -13)
    """
    scaled = num * _POWERS[digits]
    if scaled < 0:
        return -((-2 * scaled + den) // (2 * den))
    return (2 * scaled + den) // (2 * den)


def norm_of(value: Ratio) -> int:
    """A quotient as billionths, half-up.

    >>> norm_of(Ratio(18, 22))
    818181818
    """
    return (2 * value.num * NORM_ONE + value.den) // (2 * value.den)


def clamped_norm(value: object) -> int:
    """A number clamped to 0..1, in billionths, half-up.

    >>> clamped_norm(Decimal("0.8999499995")), clamped_norm(7), clamped_norm(-0.1)
    (899950000, 1000000000, 0)
    """
    exact = ratio(value)
    return 0 if exact.num <= 0 else NORM_ONE if exact.num >= exact.den else norm_of(exact)


def scaled(value: object, digits: int) -> int:
    """A number as a count of 10**-digits, half-up.

    >>> scaled(89.995, 2)
    9000
    """
    exact = ratio(value)
    return quantise(exact.num, exact.den, digits)


def reach(value: object, digits: int) -> int:
    """The smallest count of 10**-digits that is at least the number: what a rounded score must
    reach to reach an edge exactly as it is written.

    >>> reach(70.004, 2), reach(70, 2)
    (7001, 7000)
    """
    exact = ratio(value)
    scaled: int = exact.num * 10**digits
    return -(-scaled // exact.den)


def whole_weights(weights: Iterable[Ratio]) -> tuple[int, ...]:
    """Weights over a common denominator, so that sums of them are sums of integers.

    >>> whole_weights([ratio(0.35), ratio(0.25)])
    (7, 5)
    """
    listed = tuple(weights)
    common = lcm(*(weight.den for weight in listed)) if listed else 1
    return tuple(weight.num * (common // weight.den) for weight in listed)


def weighted_score(norms: Sequence[int], weights: Sequence[int]) -> int:
    """Weighted mean of norms in hundredths of a point on 0..100, half-up. The weights are whole and
    their sum is positive.

    >>> weighted_score([899_950_000], [1])
    9000
    """
    total = sum(weights)
    top = sum(map(int.__mul__, weights, norms))
    return (2 * top * SCORE_MAX + total * NORM_ONE) // (2 * total * NORM_ONE)


def total_needed(score: int, weight_sum: int) -> int:
    """Smallest weighted sum of norms whose `weighted_score` is at least `score`.

    The inverse of the rounding in `weighted_score`: what "the next letter needs" is computed from
    it, so that it is exact.

    >>> (
    ...     weighted_score([total_needed(9000, 1)], [1]),
    ...     weighted_score([total_needed(9000, 1) - 1], [1]),
    ... )
    (9000, 8999)
    """
    return -((-(2 * score - 1) * weight_sum * NORM_ONE) // (2 * SCORE_MAX)) if score > 0 else 0


class Pull(NamedTuple):
    """A prior and its strength, over a common denominator: norm, n -> (n * norm * `per` + `add`) /
    (n * `per` + `base`).
    """

    per: int
    add: int
    base: int


def shrinkage(prior: Ratio, k: Ratio) -> Pull:
    """The pull of k samples at the prior. k is positive, or n always is."""
    return Pull(k.den * prior.den, k.num * prior.num * NORM_ONE, k.num * prior.den)


def shrink(norm: int, n: int, pull: Pull) -> int:
    """(n*norm + k*prior) / (n + k) in billionths, half-up: a small sample is pulled towards the
    prior.

    >>> shrink(NORM_ONE, 5, shrinkage(ratio(0.5), ratio(20)))
    600000000
    """
    per, add, base = pull
    den = n * per + base
    return (2 * (n * norm * per + add) + den) // (2 * den)


def is_amount(value: object) -> bool:
    """Whether it is a number of at least 0.

    >>> [is_amount(x) for x in (3, Decimal("0.5"), -1, "3", True, Decimal("1e400"), float("nan"))]
    [True, True, False, False, False, False, False]
    """
    try:
        return ratio(value).num >= 0
    except ValueError:
        return False


def total(values: Iterable[object], digits: int) -> int:
    """The sum of numbers as a count of 10**-digits, half-up: added exactly, rounded once.

    >>> total([0.1, 0.2, Decimal("0.3")], 2)
    60
    """
    parts = [ratio(value) for value in values]
    common = lcm(*(part.den for part in parts))
    return quantise(sum(part.num * (common // part.den) for part in parts), common, digits)


def norm_text(norm: int) -> str:
    """A norm as people write it: all its decimals, no trailing zeros.

    >>> norm_text(818181818), norm_text(500000000), norm_text(1000000000)
    ('0.818181818', '0.5', '1')
    """
    if norm == NORM_ONE:
        return "1"
    return f"{norm // NORM_ONE}.{norm % NORM_ONE:09d}".rstrip("0").rstrip(".")


def shown(value: int, digits: int) -> float:
    """A count of 10**-digits as the float whose shortest repr is that decimal.

    >>> shown(6999, 2)
    69.99
    """
    return value / _POWERS[digits]


def points(value: object, absent_as: str = "no score") -> str:
    """A score on 0..100 with 2 decimals, half-up as everywhere.

    >>> points(90), points(12.345), points(None)
    ('90.00', '12.35', 'no score')
    """
    return f"{shown(scaled(value, 2), 2):.2f}" if is_number(value) else absent_as
