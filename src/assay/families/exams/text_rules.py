"""Rules on text: contains, word, exact, regex and length.

Both sides of a comparison go through the rubric's normalization. A regular expression runs where
schemas run, in linear time or in a process with a budget; one that is over budget gives no mark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from assay.errors import count
from assay.families.exams.normal import MATCHES, Normaliser
from assay.families.exams.rule import (
    Check,
    ExpectingItem,
    ExpectingRule,
    MarkingRule,
    MarkingSetting,
    Match,
    Response,
    entries_of,
)
from assay.records.contract import Contract, contract_of, encode

MAX_PATTERN = 1000
Limit = Annotated[int, Meta(ge=1)]


class TextRule(ExpectingRule, frozen=True):
    """A rule whose expectation is one text or a list of texts; `of` says whether all or any of them
    must be there.
    """

    verb: ClassVar[str] = "contains"
    of: Literal["all", "any"] = "all"

    def read(self, response: Response) -> str | None:
        """The text of the field; a field that is not text counts as nothing."""
        tree = response.tree
        text = response.whole if tree is None or self.reads is None else tree.get(self.reads)
        return text if type(text) is str else None

    def faults(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> list[str]:
        """An expectation is one or more texts, and no text of it is found in every answer."""
        entries = entries_of(want)
        if not entries:
            return ["nothing is expected, so every answer would be right."]
        if not all(isinstance(entry, str) for entry in entries):
            return ["must be a string or a list of strings."]
        # only spaces and periods: nothing is left of it after normalization
        return [
            f"{entry!r} is found in every answer."
            for entry in entries
            if not entry.strip().strip(".").strip() or not setting.normal(entry)
        ]

    def asks(self, want: Any) -> str:
        """Which texts must be there, and how many of them."""
        return f"{self.verb} {_joined(self.shows(want), self.of)}"

    def match_of(self, item: ExpectingItem, default: Match) -> Match:
        """How an entry is looked for."""
        raise NotImplementedError

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
        """Look for the normalized entries in the normalized text."""
        match_entry = MATCHES[self.match_of(item, setting.match)]
        entries = tuple(map(setting.form, want if type(want) is list else [want]))
        return partial(_finds, setting.normal, match_entry, entries, self.of == "any")

    def contradicts(self, got: str | None, expected: list[str], normal: Normaliser) -> bool:
        """Checked with the most lenient way of matching: the others find nothing that it
        doesn't.
        """
        if got is None:
            return True
        whole, enough = normal(got), all if self.of == "all" else any
        return not enough([MATCHES["substring"](whole, normal(entry)) for entry in expected])


def _joined(texts: list[str], of: str) -> str:
    """Expected texts in words.

    >>> _joined(["has", "eaten"], "all"), _joined(["A"], "any")
    ('“has” and “eaten”', '“A”')
    """
    return (" and " if of == "all" else " or ").join(f"“{text}”" for text in texts)


def _finds(
    normal: Callable[[str], str],
    match_entry: Callable[[str, str], bool],
    entries: tuple[str, ...],
    is_enough: bool,
    text: str | None,
) -> bool:
    """Whether a text has all entries; where one `is_enough`, any of them."""
    if text is None:
        return False
    whole = normal(text)
    for entry in entries:
        if match_entry(whole, entry) is is_enough:
            return is_enough
    return not is_enough


class Contains(TextRule, frozen=True):
    """Every expected text is in the answer. An item's own `match` wins over `match` here, and that
    over the rubric's.
    """

    kind: ClassVar[str] = "contains"
    match: Match | None = None

    def match_of(self, item: ExpectingItem, default: Match) -> Match:
        """The item's way, else the rule's, else the rubric's."""
        return item.match or self.match or default


class Word(TextRule, frozen=True):
    """Every expected text is in the answer as whole words."""

    kind: ClassVar[str] = "word"
    verb: ClassVar[str] = "contains as whole words"

    def match_of(self, item: ExpectingItem, default: Match) -> Match:
        """Always by words."""
        return "word"


class Exact(TextRule, frozen=True):
    """The answer is one of the expected texts."""

    kind: ClassVar[str] = "exact"
    verb: ClassVar[str] = "is"
    of: Literal["all", "any"] = "any"

    def match_of(self, item: ExpectingItem, default: Match) -> Match:
        """Always the whole text."""
        return "exact"


class Regex(ExpectingRule, frozen=True):
    """The answer matches every expected regular expression (ECMA 262, anywhere in the text unless
    anchored). The text is not normalized.
    """

    kind: ClassVar[str] = "regex"
    of: Literal["all", "any"] = "all"

    def read(self, response: Response) -> str | None:
        """The text of the field; a field that is not text counts as nothing."""
        text = super().read(response)
        return text if isinstance(text, str) else None

    def faults(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> list[str]:
        """Each pattern is short enough, can be compiled, and doesn't match an empty answer."""
        faults = []
        for pattern in entries_of(want) or [None]:
            if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN:
                faults.append(f"must be a pattern of at most {MAX_PATTERN:,} characters.")
            elif problem := _pattern(pattern).problem:
                faults.append(f"{pattern[:60]!r} is not a usable regular expression: {problem}.")
            elif _pattern(pattern).check("").valid:
                faults.append(f"{pattern[:60]!r} matches an empty answer.")
        return faults

    def shows(self, want: Any) -> list[str]:
        """The patterns between slashes."""
        return [f"/{pattern}/" for pattern in entries_of(want)]

    def asks(self, want: Any) -> str:
        """Which patterns must match."""
        return f"matches {(' and ' if self.of == 'all' else ' or ').join(self.shows(want))}"

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
        """Match within the budget; over it there is no mark."""
        patterns = [_pattern(pattern) for pattern in entries_of(want)]
        enough = all if self.of == "all" else any

        def check(text: str | None) -> bool:
            return text is not None and enough(
                [pattern.check(text).valid is True for pattern in patterns]
            )

        return check


def _pattern(pattern: str) -> Contract:
    return contract_of(encode({"type": "string", "pattern": pattern}))


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

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
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
