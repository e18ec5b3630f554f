"""How answers are marked: the closed table of marking rules, what an item expects of each, and how
a rubric's text becomes a rule.

An axis has one rule: a record of its parameters that reads a part of a response and prepares the
check of one item. A rubric picks from the table and adds no code. Answers are compared by
`scoring.checks`, texts after the rubric's normalization. A check that can't be carried out gives no
mark and leaves a note, so that a fault of the exam is not taken for a fault of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

from assay import exact
from assay.canon import canonical, number_text
from assay.errors import EvidenceError, InputError, count
from assay.files.json_files import Document, Path, parse_json, show_path
from assay.records.evidence import Number
from assay.records.plain import beyond_json
from assay.records.reading import read_record
from assay.records.shape import Text
from assay.registry import near_miss
from assay.scoring.checks import (
    MAX_PATTERN,
    MAX_TEXT,
    Match,
    Normaliser,
    contract,
    found,
    holds,
    is_close,
    keeps,
    misread_number,
    number_of,
    pattern_problem,
    schema_problem,
)

if TYPE_CHECKING:
    from assay.records.contract import Contract
    from assay.sandbox.outcome import SandboxVerdict

# --- what an item expects

SHORT = {"correctness": "expected_contains", "spanish_gloss": "gloss_contains"}
"""The keys in which items of the verb exam say what they expect, by axis."""


class ExamItem(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One question. `expect` says for each axis what the answer is compared with, and `tags` let a
    diagnosis say what the lost items share.

    The verb exam has its own keys: `expected_contains` (or `expected`) and `gloss_contains` for
    `expect`, `verb` and `tense` for `tags`.
    """

    id: str
    """The item's id."""
    prompt: Text
    """The question."""
    gloss_contains: list[str] | None = None
    """What the gloss must contain."""
    expected_contains: list[str] | None = None
    """What the correction must contain."""
    expected: list[str] | None = None
    """Another name of `expected_contains`."""
    match: Match | None = None
    """How texts are compared: as a substring, a word, or exactly."""
    verb: str | None = None
    """The verb that the item is about."""
    tense: str | None = None
    """The tense that the item is about."""
    expect: dict[str, Any] | UnsetType = UNSET
    """What the answer is compared with, by axis."""
    options: dict[str, Any] | list[Any] | UnsetType = UNSET
    """The options of a multiple-choice question."""
    tags: dict[str, str | int] | UnsetType = UNSET
    """What the item is about, for the diagnosis."""

    @property
    def wanted(self) -> list[str] | None:
        """The forms that the English answer of a verb exam must hold."""
        return self.expected_contains if self.expected_contains is not None else self.expected

    @property
    def expectations(self) -> dict[str, Any]:
        """What is expected, by axis."""
        if isinstance(self.expect, dict):
            return self.expect
        given = {"correctness": self.wanted, "spanish_gloss": self.gloss_contains}
        return {axis: value for axis, value in given.items() if value is not None}

    @property
    def labels(self) -> dict[str, str]:
        """The tags, `verb` and `tense` among them."""
        own = {"verb": self.verb, "tense": self.tense}
        tags = {} if self.tags is UNSET else self.tags
        return {key: str(value) for key, value in (own | tags).items() if value is not None}


# --- what every rule has

Check = Callable[[Any], bool]
"""Whether what a rule has read of a response earns the mark."""


class Response(NamedTuple):
    """A response, parsed once for all axes. `tree` is the object it is or contains, or None."""

    raw: Any
    tree: dict[str, Any] | None
    latency_ms: Any = None

    @property
    def whole(self) -> str:
        """All of it as text."""
        return self.raw if isinstance(self.raw, str) else canonical(self.raw).decode()


def parsed(response: Any, latency_ms: Any = None) -> Response:
    """A response: an object, a text that is a JSON object, or anything else as text."""
    if isinstance(response, dict):
        return Response(response, response, latency_ms)
    tree = None
    if isinstance(response, str) and response.lstrip()[:1] == "{":
        with suppress(ValueError):
            tree = parse_json(response.encode("utf-8", "surrogatepass"))
    return Response(response, tree if isinstance(tree, dict) else None, latency_ms)


class MarkingSetting(NamedTuple):
    """What the axes of one exam file share: normalization, how text matches, the answer schema, and
    where a check leaves a note.
    """

    normal: Callable[[str], str]
    form: Callable[[str], str]
    """The same, remembered: expected forms repeat over an exam."""
    match: Match
    contract: Contract | None
    note: Callable[[str], None] = lambda text: None


class MarkingRule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How an axis is marked. `reads` names a field of the response; without it the rule reads the
    whole response.
    """

    kind: ClassVar[str] = ""
    wants: ClassVar[bool] = False
    """Whether each item must say what it expects."""
    reads: str | None = None

    def read(self, response: Response) -> Any:
        """The part of a response that the rule looks at. A text without fields is read whole."""
        tree = response.tree
        return response.whole if tree is None or self.reads is None else tree.get(self.reads)

    def wanted(self, axis: str, expectations: Mapping[str, Any]) -> Any:
        """What an item expects of the rule of an axis; UNSET where it says nothing."""
        return None

    def faults(self, want: Any, item: ExamItem, setting: MarkingSetting) -> list[str]:
        """What is wrong with an item's expectation."""
        return []

    def shows(self, want: Any) -> list[str]:
        """An expectation as people read it."""
        return []

    def asks(self, want: Any) -> str:
        """What earns the mark, in words."""
        return ", ".join(self.shows(want))

    def gives(self, response: Response, setting: MarkingSetting) -> str:
        """What the response gives the rule to look at, in words; empty for nothing."""
        return shown_text(self.read(response)) or ""

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """The check of one item."""
        raise NotImplementedError

    def contradicts(self, got: str | None, expected: list[str], normal: Normaliser) -> bool:
        """Whether a result that shows this answer and this expectation can't have the mark."""
        return False

    def problem(self) -> str:
        """What is wrong with the parameters themselves, or nothing."""
        return ""


class ExpectingRule(MarkingRule, frozen=True):
    """A rule that compares with what an item expects: the entry of the item's `expect` that
    `expects` names (default: the axis's own name), or `value`, the same for every item.
    """

    wants: ClassVar[bool] = True
    expects: str | None = None
    value: Any = UNSET

    def wanted(self, axis: str, expectations: Mapping[str, Any]) -> Any:
        """The rubric's own value, else what the item expects."""
        if self.value is not UNSET:
            return self.value
        return expectations.get(self.expects or axis, UNSET)

    def shows(self, want: Any) -> list[str]:
        """The texts or options that are expected."""
        return [str(entry) for entry in entries_of(want)]


def entries_of(want: Any) -> list[Any]:
    """One expectation or several, as a list."""
    return want if isinstance(want, list) else [want]


def matches_everything(text: str) -> bool:
    """Whether a text is only spaces and periods: nothing is left of it after normalization."""
    return not text.strip().strip(".").strip()


def shown_text(value: Any) -> str | None:
    """What a rule has read, as text; None for nothing."""
    if value is None or isinstance(value, str):
        return value
    return canonical(value).decode()


# --- texts


class TextReading(ExpectingRule, frozen=True):
    """A rule on text that expects one or several; `of` says whether all or any of them must be
    there.
    """

    of: Literal["all", "any"] = "all"

    def read(self, response: Response) -> str | None:
        """The text of the field; a field that is not text counts as nothing."""
        tree = response.tree  # not super(): this runs for every mark
        text = response.whole if tree is None or self.reads is None else tree.get(self.reads)
        return text if type(text) is str else None

    def together(self, texts: list[str]) -> str:
        """Expected texts in words."""
        return (" and " if self.of == "all" else " or ").join(texts)


class TextRule(TextReading, frozen=True):
    """A rule whose expectation is one text or a list of texts."""

    way: ClassVar[Match | None] = None
    """How it looks for an entry; None leaves that to the item and the rubric."""
    verb: ClassVar[str] = "contains"

    def faults(self, want: Any, item: ExamItem, setting: MarkingSetting) -> list[str]:
        """An expectation is one or more texts, and no text of it is found in every answer."""
        entries = entries_of(want)
        if not entries:
            return ["nothing is expected, so every answer would be right."]
        if not all(isinstance(entry, str) for entry in entries):
            return ["must be a string or a list of strings."]
        return [
            f"{entry!r} is found in every answer."
            for entry in entries
            if matches_everything(entry) or not setting.normal(entry)
        ]

    def asks(self, want: Any) -> str:
        """Which texts must be there, and how many of them."""
        return f"{self.verb} {self.together([f'“{text}”' for text in self.shows(want)])}"

    def match_of(self, item: ExamItem, default: Match) -> Match:
        """How an entry is looked for: the rule's own way, else the item's, else the rubric's."""
        return self.way or item.match or default

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """Look for the normalized entries in the normalized text."""
        match, normal = self.match_of(item, setting.match), setting.normal
        entries = tuple(map(setting.form, entries_of(want)))
        return lambda text: text is not None and holds(normal(text), entries, match, self.of)

    def contradicts(self, got: str | None, expected: list[str], normal: Normaliser) -> bool:
        """Checked with the most lenient way of matching: the others find nothing that it
        doesn't.
        """
        return got is None or not holds(normal(got), map(normal, expected), "substring", self.of)


class Contains(TextRule, frozen=True):
    """Every expected text is in the answer. An item's own `match` wins over `match` here, and that
    over the rubric's.
    """

    kind: ClassVar[str] = "contains"
    match: Match | None = None

    def match_of(self, item: ExamItem, default: Match) -> Match:
        """The item's way, else the rule's, else the rubric's."""
        return item.match or self.match or default


class Word(TextRule, frozen=True):
    """Every expected text is in the answer as whole words."""

    kind: ClassVar[str] = "word"
    way: ClassVar[Match | None] = "word"
    verb: ClassVar[str] = "contains as whole words"


class Exact(TextRule, frozen=True):
    """The answer is one of the expected texts."""

    kind: ClassVar[str] = "exact"
    way: ClassVar[Match | None] = "exact"
    verb: ClassVar[str] = "is"
    of: Literal["all", "any"] = "any"


class Regex(TextReading, frozen=True):
    """The answer matches every expected regular expression (ECMA 262, anywhere in the text unless
    anchored). The text is not normalized.
    """

    kind: ClassVar[str] = "regex"

    def faults(self, want: Any, item: ExamItem, setting: MarkingSetting) -> list[str]:
        """Each pattern is short enough, can be compiled, and doesn't match an empty answer."""
        faults = []
        for pattern in entries_of(want) or [None]:
            if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN:
                faults.append(f"must be a pattern of at most {MAX_PATTERN:,} characters.")
            elif problem := pattern_problem(pattern):
                faults.append(f"{pattern[:60]!r} is not a usable regular expression: {problem}.")
            elif found(pattern, [""]).holds:
                faults.append(f"{pattern[:60]!r} matches an empty answer.")
        return faults

    def shows(self, want: Any) -> list[str]:
        """The patterns between slashes."""
        return [f"/{pattern}/" for pattern in entries_of(want)]

    def asks(self, want: Any) -> str:
        """Which patterns must match."""
        return f"matches {self.together(self.shows(want))}"

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """Match within the budget; over it there is no mark."""
        enough = all if self.of == "all" else any
        return lambda text: (
            text is not None
            and enough([found(pattern, [text]).holds is True for pattern in entries_of(want)])
        )


Limit = Annotated[int, Meta(ge=1)]


class Length(MarkingRule, frozen=True):
    """The text is there and within the limits, which are inclusive. A response without fields has
    none to count, so it loses the mark where the rule reads one.
    """

    kind: ClassVar[str] = "length"
    max_words: Limit | None = None
    min_words: Limit | None = None
    max_characters: Limit | None = None

    def read(self, response: Response) -> str | None:
        """The text of the field, or the whole response where the rule names none."""
        if self.reads is None:
            return response.whole
        text = None if response.tree is None else response.tree.get(self.reads)
        return text if isinstance(text, str) else None

    def problem(self) -> str:
        """A rule without a limit would give every answer the mark."""
        if self.max_words is self.min_words is self.max_characters is None:
            return "needs `max_words`, `min_words` or `max_characters`."
        if self.max_words is not None and (self.min_words or 0) > self.max_words:
            return "`min_words` is above `max_words`."
        return ""

    def asks(self, want: Any) -> str:
        """The limits."""
        limits = [
            f"at least {count(self.min_words, 'word')}" if self.min_words else "",
            f"at most {count(self.max_words, 'word')}" if self.max_words else "",
            f"at most {count(self.max_characters, 'character')}" if self.max_characters else "",
        ]
        return f"{self.reads or 'the answer'} has {', '.join(filter(None, limits))}"

    def gives(self, response: Response, setting: MarkingSetting) -> str:
        """How long the text is."""
        text = self.read(response)
        if not text or not text.split():
            return ""
        n = len(text.split())
        return f"{count(n, 'word')}, {count(len(text), 'character')}"

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """Count words and characters."""
        return self.holds

    def holds(self, text: str | None) -> bool:
        """Whether a text keeps the limits; an empty one does not."""
        words = len(text.split()) if text else 0
        return bool(text and words) and self.fits(words, len(text or ""))

    def fits(self, words: int, characters: int = 0) -> bool:
        """Whether that many words and characters are within the limits."""
        return (
            words >= (self.min_words or 0)
            and (self.max_words is None or words <= self.max_words)
            and (self.max_characters is None or characters <= self.max_characters)
        )


# --- numbers

_TOLERANCES = ("tolerance", "relative")


class Quantity(ExpectingRule, frozen=True):
    """The answer is the expected number, within the tolerance, which is inclusive.

    An item expects a number, or `{value, unit, tolerance, relative}`. `relative` is a share of the
    expected value. `take: last` reads the last number of a text; otherwise the text must be a
    number and its unit, and nothing else. A unit that no item expects costs the mark too: what
    follows the number, as in "5%" or "5 km", is one, unless `any_unit` is true.
    """

    kind: ClassVar[str] = "number"
    tolerance: Number = 0
    relative: Number = 0
    take: Literal["whole", "last"] = "whole"
    any_unit: bool = False
    """Whether an item that names no unit takes every one."""

    def problem(self) -> str:
        """Tolerances are amounts."""
        return _amounts({"tolerance": self.tolerance, "relative": self.relative})

    def faults(self, want: Any, item: ExamItem, setting: MarkingSetting) -> list[str]:
        """An expectation is a number, or a mapping with one."""
        if not isinstance(want, dict):
            return [] if exact.is_number(want) else ["must be a number, or a mapping with `value`."]
        faults = [
            f"has no key '{key}'." for key in want if key not in ("value", "unit", *_TOLERANCES)
        ]
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

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """Compare exact quotients."""
        parts = want if isinstance(want, dict) else {"value": want}
        wanted, unit = exact.ratio(parts["value"]), parts.get("unit", "")
        absolute, relative = (parts.get(key, getattr(self, key)) for key in _TOLERANCES)
        is_right = partial(is_close, expected=wanted, absolute=absolute, relative=relative)

        def check(got: Any) -> bool:
            number = self._number(got, unit)
            if number is not None and is_right(number):
                return True
            if isinstance(got, str) and (why := misread_number(got, unit, is_right)):
                setting.note(f"a right number got no mark: {why}")
            return False

        return check

    def _number(self, got: Any, unit: str) -> exact.Ratio | None:
        """The number that was answered, with the right unit; None if there is none."""
        if isinstance(got, dict):
            given = got.get("unit", "")
            if given != unit and not (self.any_unit and not unit and isinstance(given, str)):
                return None
            got, unit = got.get("value"), ""
        return number_of(got, unit, any_unit=self.any_unit, last=self.take == "last")


def _amounts(values: dict[str, Any]) -> str:
    wrong = [key for key, value in values.items() if not exact.is_amount(value)]
    return f"`{wrong[0]}` must be a number of at least 0." if wrong else ""


# --- choices

MAX_OPTIONS = 100
"""Options of one item. Each is held against every other."""


class OptionChoice(ExpectingRule, frozen=True):
    """Exactly the right options were chosen. An item has `options` (a mapping of key to text, or a
    list of texts) and expects one of them or a list.

    A text names an option by its key, alone or in front of its text ("B", "(b)", "B. Paris"), or by
    its whole text. The case of letters and a period at the end count only where two options differ
    in nothing else. Several are separated by commas. Options of which one can be read as another
    are refused.
    """

    kind: ClassVar[str] = "choice"

    def faults(self, want: Any, item: ExamItem, setting: MarkingSetting) -> list[str]:
        """The expected options are among those of the item, and no two of these read alike."""
        options = options_of(item)
        if len(options) < 2:
            return ["the item needs `options`, at least two."]
        if len(options) > MAX_OPTIONS:
            return [f"the item has over {MAX_OPTIONS} options."]
        for text in (*options, *options.values()):
            named = _named(_TIDY(text), options)
            if not _TIDY(text):
                return ["an option has an empty key or text."]
            if len(named) > 1:
                alike = f"'{text[:60]}' matches the options {' and '.join(named)[:60]}."
                return [f"{alike} Give them different texts, or keys that no text is equal to."]
        unknown = [entry for entry in entries_of(want) if self._key(entry, options) is None]
        if unknown or not entries_of(want):
            return [f"{str(unknown[:1] or want)[:60]} is not one of the item's options."]
        return []

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """Compare sets of options."""
        options = options_of(item)
        right = {self._key(entry, options) for entry in entries_of(want)}

        def check(got: Any) -> bool:
            given = entries_of(got)
            if isinstance(got, str) and len(right) > 1 and self._key(got, options) is None:
                given = got[:MAX_TEXT].split(",")
            chosen = [self._key(entry, options) for entry in given]
            return None not in chosen and set(chosen) == right

        return check

    def _key(self, given: Any, options: dict[str, str]) -> str | None:
        """The key of the option that a text names."""
        if type(given) is int and exact.is_number(given):
            given = str(given)
        text = _TIDY(given[:MAX_TEXT]) if isinstance(given, str) else ""
        named = _named(text, options) or _by_text(text, options, _LOOSE)
        return named[0] if text and len(named) == 1 else None


_TIDY = Normaliser(["nfc", "collapse-whitespace"])
_LOOSE = Normaliser([*_TIDY.names, "hyphen-minus", "case-fold", "trailing-period"])


def _named(text: str, options: dict[str, str]) -> list[str]:
    """The keys of the options that a text names by their exact text, or by their key."""
    exactly = _by_text(text, options, _TIDY)
    return [key for key in options if key in exactly or _has_key(text, key, options)]


def _by_text(text: str, options: dict[str, str], normal: Normaliser) -> list[str]:
    wanted = normal(text)
    return [key for key, option in options.items() if normal(option) == wanted]


def _has_key(text: str, key: str, options: dict[str, str]) -> bool:
    """Whether a text is an option's key, or the key with the option's own text after it."""
    start = re.match(rf"[(\[]?{re.escape(_TIDY(key))}(?!\w)", text, re.IGNORECASE)
    if start is None:
        return False
    rest = text[start.end() :]
    if re.fullmatch(r"[)\].:]*", rest):
        return True
    after = re.match(r"[.:]?[)\]]+[.:]? ?|[.:]? (?:[-–—] )?", rest)
    if after is None:
        return False
    option_text = rest[after.end() :]
    exactly = _by_text(option_text, options, _TIDY)
    return (exactly or _by_text(option_text, options, _LOOSE)) == [key]


def options_of(item: ExamItem) -> dict[str, str]:
    """The options of an item by key; those of a list are A to Z, AA, AB and so on."""
    given = item.options or {}
    if isinstance(given, dict):
        return {str(key): str(text) for key, text in given.items()}
    keys = (f"{first}{last}" for first in ("", *ascii_uppercase) for last in ascii_uppercase)
    return dict(zip(keys, map(str, given), strict=False))


# --- schema and latency


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
        problem = "" if self.schema is None else schema_problem(self.schema)
        return f"`schema` is not a usable JSON Schema: {problem}." if problem else ""

    def asks(self, want: Any) -> str:
        """A JSON object of the right form."""
        return "a JSON object that matches the answer schema"

    def gives(self, response: Response, setting: MarkingSetting) -> str:
        """Where the object breaks the schema."""
        tree, schema = response.tree, self._schema(setting)
        if tree is None:
            return "not a JSON object"
        if beyond_json(tree) or schema is None:
            return "an object that can't be checked"
        check = schema.check(tree)
        broken = [f"{show_path(fault.path)} {fault.message}".strip() for fault in check.broken]
        return "; ".join(broken) or check.problem or "an object"

    def _schema(self, setting: MarkingSetting) -> Contract | None:
        return setting.contract if self.schema is None else contract(self.schema)

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """Validate. An answer that could not be checked does not keep its schema."""
        schema = self._schema(setting)
        return lambda tree: (
            schema is not None and tree is not None and keeps(schema, tree).holds is True
        )


class Latency(MarkingRule, frozen=True, kw_only=True):
    """The answer came within the time. An answer whose latency nobody measured loses the mark."""

    kind: ClassVar[str] = "latency"
    max_ms: Number

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

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """Compare exactly; the limit itself is kept."""
        return lambda ms: (
            exact.is_amount(ms) and is_close(exact.ratio(ms), exact.ratio(0), absolute=self.max_ms)
        )


# --- code

_FENCED = re.compile(r"^```[^\n`]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE_KEYS = {"tests", "entry_point", "support", "solution"}
MAX_SECONDS = 600


class PassesTests(ExpectingRule, frozen=True):
    """The code passes the item's tests. An item expects `{tests, entry_point, support, solution}`:
    `tests` are asserts, `check(candidate)`, functions `test_*` or unittest classes; `solution` is a
    reference that `assay exam lint` runs.

    Of a response in Markdown, the one fenced block counts.
    """

    kind: ClassVar[str] = "code"
    timeout_s: Number = 10
    mode: Literal["two-process", "one-process"] = "two-process"

    def problem(self) -> str:
        """The time is limited."""
        if not exact.is_amount(self.timeout_s) or not 0 < self.timeout_s <= MAX_SECONDS:
            return f"`timeout_s` must be a number of seconds up to {MAX_SECONDS}."
        return ""

    def read(self, response: Response) -> str | None:
        """The code."""
        read = super().read(response)
        if not isinstance(read, str):
            return None
        blocks = _FENCED.findall(read)
        return blocks[0] if len(blocks) == 1 else read

    def faults(self, want: Any, item: ExamItem, setting: MarkingSetting) -> list[str]:
        """There are tests, and every key is known."""
        if not isinstance(want, dict):
            return ["must be a mapping with `tests`."]
        faults = [f"has no key '{key}'." for key in want if key not in _CODE_KEYS]
        faults += [
            f"`{key}` must be a string." for key, text in want.items() if type(text) is not str
        ]
        if not str(want.get("tests") or "").strip():
            faults.append("there are no tests, so every answer would be right.")
        entry = want.get("entry_point")
        if isinstance(entry, str) and not entry.isidentifier():
            faults.append(f"`entry_point` is {entry[:60]!r}, which can't be a function's name.")
        return faults

    def shows(self, want: Any) -> list[str]:
        """What is tested; the tests themselves stay in the exam."""
        return [f"{want.get('entry_point') or 'the code'} passes its tests"]

    def prepare(self, want: Any, item: ExamItem, setting: MarkingSetting) -> Check:
        """Run the tests; what a solution is refused for counts as failed."""

        def check(code: str | None) -> bool:
            if not code or not code.strip():
                return False
            try:
                verdict = self.run(code, want)
            except InputError as error:  # too large, or no text: a fault of the answer
                if error.code != "SBX-003":
                    raise
                return False
            if verdict.passed is None:
                setting.note(f"{item.id}: the tests gave no verdict: {verdict.reason}")
            return verdict.passed is True

        return cache(check)

    def run(self, code: str, want: dict[str, Any]) -> SandboxVerdict:
        """The sandbox's result for a solution."""
        # only an exam with code pays for the sandbox
        from assay.sandbox.isolation import require
        from assay.sandbox.limits import SandboxLimits
        from assay.sandbox.solutions import check_solution

        require("bubblewrap")
        return check_solution(
            code,
            want["tests"],
            want.get("entry_point"),
            support=want.get("support", ""),
            limits=SandboxLimits(wall_s=float(self.timeout_s)),
            mode=self.mode,
        )


# --- the table

RULES: dict[str, type[MarkingRule]] = {
    rule.kind: rule
    for rule in (
        Contains,
        Word,
        Exact,
        Regex,
        Quantity,
        OptionChoice,
        KeepsSchema,
        PassesTests,
        Latency,
        Length,
    )
}


def read_rule(
    tree: dict[str, Any], at: Path, add: Callable[[Path, str, str], None]
) -> MarkingRule | None:
    """The rule of an axis; None if it has faults, which go to `add` with their place."""
    kind = tree.get("kind")
    if not isinstance(kind, str) or kind not in RULES:
        known = f"Rules are {', '.join(RULES)}."
        missing = "the rule needs a `kind`."
        message = missing if kind is None else f"there is no rule '{str(kind)[:60]}'."
        near = near_miss(kind, RULES) if isinstance(kind, str) else ""
        add((*at, "kind"), f"{message}{near}", known)
        return None
    parameters = {key: value for key, value in tree.items() if key != "kind"}
    try:
        rule = read_record(Document(parameters, ""), RULES[kind], "LIB-002")
    except EvidenceError as error:
        for fault in error.faults:
            path = f"{fault.path}: " if fault.path else ""
            add(at, f"{kind}: {path}{fault.message}", fault.fix)
        return None
    problem = rule.problem()
    if problem:
        add(at, f"{kind}: {problem}", "")
        return None
    return rule


# --- what is wrong with an item


def item_faults(
    item: ExamItem, rules: Mapping[str, MarkingRule], setting: MarkingSetting
) -> Iterator[tuple[Path, str, str]]:
    """What is wrong with an item's expectations under these rules: where in it, what, and what to
    do.
    """
    given = item.expectations
    used = set()
    for axis, rule in rules.items():
        if not isinstance(rule, ExpectingRule):
            continue
        key = rule.expects or axis
        used.add(key)
        want = rule.wanted(axis, given)
        if want is UNSET:
            message = f"expects nothing on the axis '{axis}' ({rule.kind})."
            fix = (
                f"Every item is marked on every axis: add {key!r}, or move items of another kind to"
                " a separate exam with a rubric for them."
            )
            yield _path(item, key, given), message, fix
            continue
        for message in rule.faults(want, item, setting):
            yield _path(item, key, given), message, ""
    for key in given:
        if key not in used:
            yield (
                _path(item, key, given),
                f"no axis of the rubric expects '{key}'.{near_miss(key, used)}",
                f"The rubric expects {', '.join(sorted(used)) or 'nothing'}.",
            )


def _path(item: ExamItem, key: str, given: Mapping[str, Any]) -> Path:
    if item.expect is UNSET and key in SHORT:
        return (SHORT[key],)
    return ("expect", key) if key in given else ("expect",)
