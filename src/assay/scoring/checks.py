"""Compare an answer with what was expected: texts, numbers, JSON values, patterns and schemas.

Assertions make a reason of a comparison, exams a mark, measures a number; all three compare here
and nowhere else. Where an answer may be written differently and still be right, a step with a name
says how (`STEPS`), and both sides take it. Patterns and schemas are untrusted: `records.contract`
limits what they cost. One that is over budget has no result, which never counts as right.
"""

from __future__ import annotations

import operator
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from assay import exact
from assay.errors import InputError
from assay.exact import Ratio
from assay.records.plain import MAX_DEPTH, beyond_json
from assay.registry import near_miss

if TYPE_CHECKING:
    from assay.records.contract import Contract

# --- texts

_MINUS = str.maketrans("\u2212\u2013", "--")


class Step(NamedTuple):
    """A way in which two texts may differ and still be the same."""

    title: str
    apply: Callable[[str], str]


def _strip_punctuation(text: str) -> str:
    return "".join(x for x in text if not unicodedata.category(x).startswith("P"))


STEPS: dict[str, Step] = {
    "nfc": Step(
        "compose accents (Unicode NFC)",
        lambda text: text if text.isascii() else unicodedata.normalize("NFC", text),
    ),
    "strip": Step("strip whitespace at both ends", str.strip),
    "case-fold": Step("lowercase", str.casefold),
    "trailing-period": Step("drop one trailing period", lambda text: text.removesuffix(".")),
    "collapse-whitespace": Step("collapse whitespace", lambda text: " ".join(text.split())),
    "strip-punctuation": Step("drop punctuation", _strip_punctuation),
    "hyphen-minus": Step("write a minus as a hyphen", lambda text: text.translate(_MINUS)),
}
"""Every step of normalization. None drops accents: `comio` is not `comió`."""
_NAMES = {
    **{spelt: name for name in STEPS for spelt in (name, name.replace("-", "_"))},
    **dict.fromkeys(("lower", "lowercase", "casefold"), "case-fold"),
    **dict.fromkeys(("period", "drop-period", "drop_period"), "trailing-period"),
}


def step_name(name: object) -> str | None:
    """The step that a name means, or None.

    >>> step_name("lower"), step_name("collapse_whitespace"), step_name("stem")
    ('case-fold', 'collapse-whitespace', None)
    """
    return _NAMES.get(name) if isinstance(name, str) else None


def unknown_step(name: object) -> str:
    """The message for a name that no step has."""
    steps = ", ".join(f"{name} ({step.title})" for name, step in STEPS.items())
    return f"there is no step '{name}'.{near_miss(str(name), _NAMES)} The steps are {steps}."


class Normaliser:
    """Steps, taken one after another. Raises for an unknown step: without it, the comparison would
    be a different one.

    >>> plain = Normaliser(["nfc", "strip", "case-fold", "trailing-period"])
    >>> plain("  Ate. "), plain("ate.."), plain.without("case-fold")("Ate.")
    ('ate', 'ate.', 'Ate')
    """

    def __init__(self, names: Iterable[object]) -> None:
        taken = []
        for name in names:
            step = step_name(name)
            if step is None:
                raise InputError("SCO-035", unknown_step(name))
            taken.append(step)
        self.names = tuple(taken)
        self._steps = [STEPS[step].apply for step in taken]

    def __call__(self, text: str) -> str:
        """The text after every step."""
        for step in self._steps:
            text = step(text)
        return text

    def without(self, name: str) -> Normaliser:
        """The same steps but one."""
        return Normaliser(step for step in self.names if step != name)


def expected_text(expected: str, normal: Normaliser) -> str:
    """An expected text after the steps. Raises if it is empty."""
    wanted = normal(expected)
    if not wanted:
        raise InputError(
            "SCO-035",
            "the expected text is empty, and every text contains it.",
            fix="Say what must be there.",
        )
    return wanted


@lru_cache(maxsize=1024)
def as_words(wanted: str) -> re.Pattern[str]:
    """What finds the text with no letter or digit directly before or after it. A number at its edge
    is a whole number, with its sign: 8 is not in 1.8, in 8,000 or in -8.

    >>> [bool(as_words("8").search(text)) for text in ("8, or 9", "1.8", "8,000", "-8", "7-8")]
    [True, False, False, False, True]
    """
    before = r"(?<!\d[.,])(?<!(?<!\w)[-−])" if wanted[:1].isdigit() else ""
    after = r"(?![.,]\d)" if wanted[-1:].isdigit() else ""
    # no repetition in it: it reads any text once
    return re.compile(rf"(?<!\w){before}{re.escape(wanted)}{after}(?!\w)")


Match = Literal["substring", "word", "exact"]
MATCHES: dict[str, Callable[[str, str], bool]] = {
    "substring": operator.contains,
    "word": lambda text, wanted: as_words(wanted).search(text) is not None,
    "exact": operator.eq,
}
"""Whether a text has the expected one; both are normalized. With `substring`, 'ate' is found in
'eaten'.
"""


def holds(text: str, entries: Iterable[str], match: str, of: str = "all") -> bool:
    """Whether a text has all entries, or `any` of them; text and entries are normalized.

    >>> [holds("eaten", ["ate"], match) for match in MATCHES], holds("a", ["a", "b"], "word", "any")
    ([True, False, False], True)
    """
    match_entry, is_enough = MATCHES[match], of == "any"
    for entry in entries:
        if match_entry(text, entry) is is_enough:
            return is_enough
    return not is_enough


# --- numbers

MAX_TEXT = 10_000
"""Characters of a text that are searched for a number or an option."""
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d{1,100})(?:\.\d{1,100})?|\.\d{1,100})"
    r"(?:[eE][-+]?\d{1,3})?"
)
_PART_OF_MORE = re.compile(
    r"(?:[-/,^]|\d:|\d[^\S\n]*|\w[+*×·÷]+|[\d)\]][^\S\n]*[-+*/^×·÷—]+[^\S\n]*)$"
)
"""What comes before a number that is only a part: of `7/5`, `10-5`, `1,5`, `5:30`, `1 500`."""
_MARKUP = "*_`"
_CLOSES = ".,;:!?…)]}”»\\—"
_BLANK = " \t\r\u00a0\u202f"
_GOES_ON = re.compile(r"[^\S\n]+[/*^×·÷]")
_ANY_UNIT = re.compile(r"(?:[^\W\d_]|[%‰°€£¥$])[^\s,;:!?)\]}*`]*")


def number_of(
    value: Any, unit: str = "", *, any_unit: bool = False, last: bool = False
) -> Ratio | None:
    """The exact value of a number, or of a text that is a number with its unit and nothing else;
    `last` takes the last number of a text. None for everything else: a unit that is missing, or one
    that wasn't asked for.

    >>> [number_of(text) for text in (" 1.50 ", "1,000", "1,5", "5 km", True, "1e999")]
    [Ratio(num=3, den=2), Ratio(num=1000, den=1), None, None, None, None]
    >>> number_of("5 km", "km"), number_of("So it is **5** m.", "m", last=True)
    (Ratio(num=5, den=1), Ratio(num=5, den=1))
    """
    if not isinstance(value, str):
        return exact.ratio(value) if not unit and exact.is_number(value) else None
    if len(value) > MAX_TEXT and not last:
        return None
    text = value[:MAX_TEXT].translate(_MINUS).strip()
    numbers = list(_NUMBER.finditer(text))
    if not numbers or (not last and (len(numbers) > 1 or numbers[0].start() > 0)):
        return None
    number = numbers[-1]
    before, rest = text[: number.start()], text[number.end() :]
    any_unit = any_unit and not unit
    if any_unit and (spelt := _ANY_UNIT.match(rest.lstrip())):
        unit = spelt.group().rstrip(".")
    unit = unit.translate(_MINUS)
    if not last:
        is_named = rest.strip().removesuffix(".").rstrip() == unit
    else:
        is_named = (any_unit or not _is_price(before, rest)) and _stands_alone(before, rest, unit)
    decimal = Decimal(number.group().replace(",", ""))
    return exact.ratio(decimal) if is_named and exact.is_number(decimal) else None


def _is_price(before: str, rest: str) -> bool:
    """Whether a currency comes before a number. `$5$` is a formula."""
    sign = before.rstrip(_BLANK)[-1:]
    formula = sign == "$" and before.count("$") % 2 == 1 and "$" in rest[:40]
    return bool(sign) and sign in "$€£¥" and not formula


def _stands_alone(before: str, rest: str, unit: str) -> bool:
    """Whether a number in a text is all of that number, with its unit and no other."""
    if _PART_OF_MORE.search(before[-100:]):
        return False
    opened = "".join(mark for mark in '$"' if before.count(mark) % 2)
    markup = _MARKUP + opened + ("'" if before.endswith("'") else "")
    if unit:
        rest = rest.lstrip(markup + _BLANK)
        if not rest.startswith(unit):
            return False
        rest = rest[len(unit) :]
        if rest[:1].isspace():
            return _GOES_ON.match(rest) is None
    bare = rest.lstrip(_BLANK)
    if bare[:1] in ("\n", *".!?;:…—"):
        rest = bare
    after = rest.lstrip(_CLOSES + markup)
    closed = rest[: len(rest) - len(after)].strip(markup)
    return (
        not after
        or after[0] == "\n"
        or after.startswith("</")
        or (after[0].isspace() and bool(unit or closed))
    )


def misread_number(text: str, unit: str, is_right: Callable[[Ratio], bool]) -> str:
    """Why the right number in a text was not read: its decimal comma, or its unit; empty if neither
    is the reason.
    """
    text = text[:MAX_TEXT]
    pointed = text.replace(".", "").replace(",", ".") if re.search(r"\d,\d", text) else text
    numbers = _NUMBER.findall(pointed.translate(_MINUS))
    number = number_of(numbers[0]) if len(numbers) == 1 else None
    if number is None or not is_right(number):
        return ""
    if pointed != text:
        return "it has a decimal comma; 3.5 is read, and 3,5 is not"
    if unit:
        return f"its unit isn't written {unit!r}"
    return "there is other text around it, and no unit is expected"


def is_close(actual: Ratio, expected: Ratio, *, absolute: Any = 0, relative: Any = 0) -> bool:
    """Whether the two differ by no more than the wider tolerance; `relative` is a share of the
    expected value.

    >>> (
    ...     is_close(Ratio(1, 3), Ratio(33, 100), absolute=Decimal("0.01")),
    ...     is_close(Ratio(3, 1), Ratio(2, 1), relative=0.1),
    ... )
    (True, False)
    """
    allowed, share = exact.ratio(absolute), exact.ratio(relative)
    if allowed.num < 0 or share.num < 0:
        raise ValueError("a tolerance is below 0")
    apart = Ratio(
        abs(actual.num * expected.den - expected.num * actual.den), actual.den * expected.den
    )
    return (
        apart.num * allowed.den <= allowed.num * apart.den
        or apart.num * share.den * expected.den <= share.num * abs(expected.num) * apart.den
    )


# --- JSON values

_NUMBERS = frozenset((int, float, Decimal))


def _finite(value: Any) -> int | Decimal | None:
    """The number as it was written; None if it is not finite."""
    if type(value) is int:
        return value
    if type(value) is float:
        value = Decimal(repr(value))
    assert isinstance(value, Decimal)
    return value if value.is_finite() else None


def same(mine: Any, other: Any, *, depth: int = 0) -> bool:
    """Whether two JSON values are equal.

    >>> (
    ...     same({"a": 1, "b": [0.1]}, {"b": [Decimal("0.10")], "a": 1.0}),
    ...     same(True, 1),
    ...     same(float("nan"), float("nan")),
    ... )
    (True, False, False)
    """
    kind, against = type(mine), type(other)
    if kind is str or against is str:
        return bool(kind is against and mine == other)
    if kind in _NUMBERS:
        if against not in _NUMBERS:
            return False
        if kind is int and against is int:
            return bool(mine == other)
        left, right = _finite(mine), _finite(other)
        return left is not None and right is not None and left == right
    if depth > MAX_DEPTH:
        return False
    if kind is dict:
        if against is not dict or len(mine) != len(other):
            return False
        return all(
            name in other and same(value, other[name], depth=depth + 1)
            for name, value in mine.items()
        )
    if kind is list or kind is tuple:
        if (against is not list and against is not tuple) or len(mine) != len(other):
            return False
        return all(
            same(left, right, depth=depth + 1) for left, right in zip(mine, other, strict=True)
        )
    return mine is other and (mine is None or kind is bool)


def is_among(value: Any, listed: Iterable[Any]) -> bool:
    """Whether a value equals one of a list.

    >>> is_among(1, [True, 1.0]), is_among(1, [True])
    (True, False)
    """
    for other in listed:  # noqa: SIM110 (a generator would cost as much as the comparison)
        if same(value, other):
            return True
    return False


def key(value: Any, *, typed: bool = False, depth: int = 0) -> Hashable:
    """A hashable key: two keys are equal exactly if the values are the `same`; `typed` keeps 1 and
    1.0 apart.

    >>> key({"a": [1, {"b": None}]}) == key({"a": [1.0, {"b": None}]}), key(True) == key(1)
    (True, False)
    """
    kind = type(value)
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return (bool, value)
    if kind in _NUMBERS:
        number = _finite(value)
        if number is None:
            return object()
        return (kind is int, number) if typed else number
    if depth > MAX_DEPTH:
        return object()
    if kind is dict:
        return (
            dict,
            frozenset(
                (name, key(item, typed=typed, depth=depth + 1)) for name, item in value.items()
            ),
        )
    if kind is list or kind is tuple:
        return (list, tuple(key(item, typed=typed, depth=depth + 1) for item in value))
    return object()


# --- patterns and schemas


class Kept(NamedTuple):
    """Whether a value keeps a schema, None if that can't be determined; and why not."""

    holds: bool | None
    reason: str


_KEPT = Kept(True, "")


def contract(schema: Any) -> Contract:
    """A JSON Schema, compiled."""
    # the validator takes as long to load as all the rest, and most comparisons need none
    from assay.records.contract import contract_of, encode

    return contract_of(encode(schema))


def schema_problem(schema: Any) -> str:
    """Why this is not a usable JSON Schema; empty if it is one."""
    try:
        return beyond_json(schema) or contract(schema).problem
    except (ValueError, TypeError, RecursionError) as error:
        return str(error)[:160]


def keeps(schema: Contract, value: Any) -> Kept:
    """Whether a value keeps a schema."""
    if problem := beyond_json(value):
        return Kept(None, f"could not be checked: the outputs {problem}")
    checked = schema.check(value)
    if checked.valid is None:
        return Kept(None, f"could not be checked: {checked.problem}")
    if checked.valid or not checked.broken:
        return _KEPT if checked.valid else Kept(False, "")
    path, message = checked.broken[0]
    return Kept(False, f"{'.'.join(map(str, path)) or 'the output'}: {message[:120]}")


MAX_PATTERN = 2_000


def pattern_problem(pattern: str) -> str:
    """Why this is not a usable regular expression (ECMA 262); empty if it is one."""
    return schema_problem({"pattern": pattern})


def found(pattern: str, texts: list[str], *, in_all: bool = False) -> Kept:
    """Whether a pattern matches anywhere in one of the texts, or `in_all` of them.

    >>> found("n.ne", ["At nine."]).holds, found("^n.ne", ["At nine."]).holds
    (True, False)
    """
    where = "items" if in_all else "contains"
    return keeps(contract({where: {"pattern": pattern}}), texts)
