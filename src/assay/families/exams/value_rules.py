"""Rules on values: a number with tolerance and unit, multiple choice, the answer schema, latency.

Numbers are compared exactly. A unit that is expected and not there costs the mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from string import ascii_uppercase
from typing import Any, ClassVar, Literal
from unicodedata import normalize

from assay import exact
from assay.canon import number_text
from assay.families.exams.rule import (
    Check,
    ExpectingItem,
    ExpectingRule,
    MarkingRule,
    MarkingSetting,
    Response,
    entries_of,
)
from assay.files.json_files import show_path
from assay.records.contract import Contract, contract_of, encode
from assay.records.evidence import Number as AnyNumber
from assay.records.plain import beyond_json

MAX_TEXT = 10_000
"""Characters of a response that are searched for a number or a choice."""
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d{1,60})(?:\.\d{1,60})?|\.\d{1,60})"
    r"(?:[eE][-+]?\d{1,3})?"
)
_COMMA = re.compile(r"\d,\d")
_MINUS = str.maketrans({"\u2212": "-", "\u2013": "-"})
_PART_OF_MORE = re.compile(
    r"(?:[-/,^]|\d:|\d[^\S\n]*|\w[+*×·÷]+|[\d)\]][^\S\n]*[-+*/^×·÷—]+[^\S\n]*)$"
)
"""What comes before a number that is only a part: of `7/5`, `10-5`, `1,5`, `5:30`, `1 500`."""
_MARKUP = "*_`"
_CLOSES = ".,;:!?…)]}”»\\—"
_BLANK = " \t\r\u00a0\u202f"
_GOES_ON = re.compile(r"[^\S\n]+[/*^×·÷]")
_ANY_UNIT = re.compile(r"(?:[^\W\d_]|[%‰°€£¥$])[^\s,;:!?)\]}*`]*")
MAX_OPTIONS = 100
"""Options of one item. Each is held against every other."""
_EXPECTED = {"value", "unit", "tolerance", "relative"}


class Quantity(ExpectingRule, frozen=True):
    """The answer is the expected number, within the tolerance, which is inclusive.

    An item expects a number, or `{value, unit, tolerance, relative}`. `relative` is a share of the
    expected value. `take: last` reads the last number of a text; otherwise the text must be a
    number and its unit, and nothing else. A unit that no item expects costs the mark too: what
    follows the number, as in "5%" or "5 km", is one, unless `any_unit` is true.
    """

    kind: ClassVar[str] = "number"
    tolerance: AnyNumber = 0
    relative: AnyNumber = 0
    take: Literal["whole", "last"] = "whole"
    any_unit: bool = False
    """Whether an item that names no unit takes every one."""

    def problem(self) -> str:
        """Tolerances are amounts."""
        return _amounts({"tolerance": self.tolerance, "relative": self.relative})

    def faults(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> list[str]:
        """An expectation is a number, or a mapping with one."""
        if not isinstance(want, dict):
            return [] if exact.is_number(want) else ["must be a number, or a mapping with `value`."]
        faults = [f"has no key '{key}'." for key in want if key not in _EXPECTED]
        if not exact.is_number(want.get("value")):
            faults.append("`value` must be a number.")
        if not isinstance(want.get("unit", ""), str):
            faults.append("`unit` must be a string.")
        problem = _amounts({key: want[key] for key in ("tolerance", "relative") if key in want})
        return [*faults, *([problem] if problem else [])]

    def shows(self, want: Any) -> list[str]:
        """The number with its unit and tolerance."""
        parts = want if isinstance(want, dict) else {"value": want}
        text = f"{number_text(parts['value'])} {parts.get('unit', '')}".rstrip()
        absolute, relative = (parts.get(key, getattr(self, key)) for key in _TOLERANCES)
        text += f" ± {number_text(absolute)}" if absolute else ""
        return [text + (f" ± {number_text(relative)} of it" if relative else "")]

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
        """Compare exact quotients."""
        parts = want if isinstance(want, dict) else {"value": want}
        wanted, unit = _exactly(parts["value"]), parts.get("unit", "")
        slack = max(
            _exactly(parts.get("tolerance", self.tolerance)),
            abs(wanted) * _exactly(parts.get("relative", self.relative)),
        )

        def check(got: Any) -> bool:
            quantity = self._found(got, unit)
            if quantity is not None and abs(quantity - wanted) <= slack:
                return True
            if isinstance(got, str) and (note := _unread(got[:MAX_TEXT], unit, wanted, slack)):
                setting.note(note)
            return False

        return check

    def _found(self, got: Any, unit: str) -> Fraction | None:
        """The number that was answered, with the right unit; None if there is none."""
        if isinstance(got, dict):
            given = got.get("unit", "")
            named = given == unit or (self.any_unit and not unit and isinstance(given, str))
            return self._found(got.get("value"), "") if named else None
        if exact.is_number(got):
            return None if unit else _exactly(got)
        if not isinstance(got, str):
            return None
        text = got[:MAX_TEXT].translate(_MINUS).strip()
        numbers = list(_NUMBER.finditer(text))
        if not numbers or (self.take == "whole" and (len(numbers) > 1 or numbers[0].start() > 0)):
            return None
        last = numbers[-1]
        before, rest = text[: last.start()], text[last.end() :]
        any_unit = self.any_unit and not unit
        if any_unit and (spelt := _ANY_UNIT.match(rest.lstrip())):
            unit = spelt.group().rstrip(".")
        unit = unit.translate(_MINUS)
        if self.take == "whole":
            named = rest.strip().removesuffix(".").rstrip() == unit
        else:
            priced = not any_unit and _is_price(before, rest)
            named = not priced and _stands_alone(before, rest, unit)
        if not named:
            return None
        number = Decimal(last.group().replace(",", ""))
        return _exactly(number) if exact.is_number(number) else None


def _unread(text: str, unit: str, wanted: Fraction, slack: Fraction) -> str:
    """Why a text with the expected number earns no mark, if that is its decimal comma or its unit;
    otherwise nothing.
    """
    pointed = text.replace(".", "").replace(",", ".") if _COMMA.search(text) else text
    numbers = _NUMBER.findall(pointed.translate(_MINUS))
    if len(numbers) != 1 or not exact.is_number(number := Decimal(numbers[0].replace(",", ""))):
        return ""
    if abs(_exactly(number) - wanted) > slack:
        return ""
    if pointed != text:
        return "a right number got no mark: it has a decimal comma; 3.5 is read, and 3,5 is not"
    if unit:
        return f"a right number got no mark: its unit isn't written {unit!r}, as in the exam"
    return "a right number got no mark: there is other text around it, and no unit is expected"


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


_TOLERANCES = ("tolerance", "relative")


def _exactly(value: Any) -> Fraction:
    return Fraction(*exact.ratio(value))


def _amounts(values: dict[str, Any]) -> str:
    wrong = [key for key, value in values.items() if not exact.is_amount(value)]
    return f"`{wrong[0]}` must be a number of at least 0." if wrong else ""


class OptionChoice(ExpectingRule, frozen=True):
    """Exactly the right options were chosen. An item has `options` (a mapping of key to text, or a
    list of texts) and expects one of them or a list.

    A text names an option by its key, alone or in front of its text ("B", "(b)", "B. Paris"), or by
    its whole text. The case of letters and a period at the end count only where two options differ
    in nothing else. Several are separated by commas. Options of which one can be read as another
    are refused.
    """

    kind: ClassVar[str] = "choice"

    def faults(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> list[str]:
        """The expected options are among those of the item, and no two of these read alike."""
        options = options_of(item)
        if len(options) < 2:
            return ["the item needs `options`, at least two."]
        if len(options) > MAX_OPTIONS:
            return [f"the item has over {MAX_OPTIONS} options."]
        for text in (*options, *options.values()):
            named = _named(_tidy(text), options)
            if not _tidy(text):
                return ["an option has an empty key or text."]
            if len(named) > 1:
                alike = f"'{text[:60]}' matches the options {' and '.join(named)[:60]}."
                return [f"{alike} Give them different texts, or keys that no text is equal to."]
        unknown = [entry for entry in entries_of(want) if self._key(entry, options) is None]
        if unknown or not entries_of(want):
            return [f"{str(unknown[:1] or want)[:60]} is not one of the item's options."]
        return []

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
        """Compare sets of options."""
        options = options_of(item)
        right = {self._key(entry, options) for entry in entries_of(want)}

        def check(got: Any) -> bool:
            if isinstance(got, str):
                whole = self._key(got[:MAX_TEXT], options)
                given = [got] if whole is not None or len(right) == 1 else got[:MAX_TEXT].split(",")
            else:
                given = got if isinstance(got, list) else [got]
            chosen = [self._key(entry, options) for entry in given]
            return None not in chosen and set(chosen) == right

        return check

    def _key(self, given: Any, options: dict[str, str]) -> str | None:
        """The key of the option that a text names."""
        if exact.is_number(given) and not isinstance(given, Decimal | float):
            given = str(given)
        if not isinstance(given, str):
            return None
        text = _tidy(given[:MAX_TEXT])
        named = _named(text, options) or _by_text(text, options, _loose)
        return named[0] if text and len(named) == 1 else None


def _named(text: str, options: dict[str, str]) -> list[str]:
    """The keys of the options that a text names by their exact text, or by their key."""
    exactly = _by_text(text, options, _tidy)
    return [key for key in options if key in exactly or _has_key(text, key, options)]


def _by_text(text: str, options: dict[str, str], form: Callable[[str], str]) -> list[str]:
    wanted = form(text)
    return [key for key, option in options.items() if form(option) == wanted]


def _has_key(text: str, key: str, options: dict[str, str]) -> bool:
    """Whether a text is an option's key, or the key with the option's own text after it."""
    start = re.match(rf"[(\[]?{re.escape(_tidy(key))}(?!\w)", text, re.IGNORECASE)
    if start is None:
        return False
    rest = text[start.end() :]
    if re.fullmatch(r"[)\].:]*", rest):
        return True
    after = re.match(r"[.:]?[)\]]+[.:]? ?|[.:]? (?:[-–—] )?", rest)
    if after is None:
        return False
    option_text = rest[after.end() :]
    exactly = _by_text(option_text, options, _tidy)
    return (exactly or _by_text(option_text, options, _loose)) == [key]


def _tidy(text: str) -> str:
    return " ".join(normalize("NFC", text).split())


def _loose(text: str) -> str:
    return _tidy(text).translate(_MINUS).lower().removesuffix(".")


def options_of(item: ExpectingItem) -> dict[str, str]:
    """The options of an item by key; those of a list are A to Z, AA, AB and so on."""
    given = item.options or {}
    if isinstance(given, dict):
        return {str(key): str(text) for key, text in given.items()}
    keys = (f"{first}{last}" for first in ("", *ascii_uppercase) for last in ascii_uppercase)
    return dict(zip(keys, map(str, given), strict=False))


class KeepsSchema(MarkingRule, frozen=True):
    """The response is a JSON object that keeps the schema: the rule's, else the exam's, else the
    rubric's.
    """

    kind: ClassVar[str] = "schema"
    schema: dict[str, Any] | None = None

    def read(self, response: Response) -> dict[str, Any] | None:
        """The object, or nothing."""
        return response.tree

    def problem(self) -> str:
        """The schema can be compiled."""
        problem = "" if self.schema is None else contract_of(encode(self.schema)).problem
        return f"`schema` is not a usable JSON Schema: {problem}." if problem else ""

    def asks(self, want: Any) -> str:
        """A JSON object of the right form."""
        return "a JSON object that matches the answer schema"

    def gives(self, response: Response, setting: MarkingSetting) -> str:
        """Where the object breaks the schema."""
        tree, contract = response.tree, self._contract(setting)
        if tree is None:
            return "not a JSON object"
        if beyond_json(tree) or contract is None:
            return "an object that can't be checked"
        check = contract.check(tree)
        broken = [f"{show_path(fault.path)} {fault.message}".strip() for fault in check.broken]
        return "; ".join(broken) or check.problem or "an object"

    def _contract(self, setting: MarkingSetting) -> Contract | None:
        return setting.contract if self.schema is None else contract_of(encode(self.schema))

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
        """Validate. An answer that could not be checked does not keep its schema."""
        contract = self._contract(setting)

        def check(tree: dict[str, Any] | None) -> bool:
            return (
                contract is not None
                and tree is not None
                and not beyond_json(tree)
                and contract.check(tree).valid is True
            )

        return check


class Latency(MarkingRule, frozen=True, kw_only=True):
    """The answer came within the time. An answer whose latency nobody measured loses the mark."""

    kind: ClassVar[str] = "latency"
    max_ms: AnyNumber

    def problem(self) -> str:
        """The limit is an amount."""
        return _amounts({"max_ms": self.max_ms})

    def read(self, response: Response) -> Any:
        """The milliseconds."""
        return response.latency_ms

    def asks(self, want: Any) -> str:
        """The limit."""
        return f"answered within {number_text(self.max_ms)} ms"

    def gives(self, response: Response, setting: MarkingSetting) -> str:
        """How long it took."""
        ms = response.latency_ms
        return f"{number_text(ms)} ms" if exact.is_number(ms) else "latency not measured"

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
        """Compare exactly; the limit itself is kept."""
        limit = _exactly(self.max_ms)
        return lambda ms: exact.is_amount(ms) and _exactly(ms) <= limit
