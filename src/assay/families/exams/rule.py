"""What a marking rule is: a record of its parameters that reads a part of a response and prepares
the check of one item.

An axis has one rule. The kinds are a closed table, `rules.RULES`; a rubric picks from it and adds
no code. A check that can't be carried out gives no mark and leaves a note, so that a fault of the
exam is not taken for a fault of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from msgspec import UNSET, Struct, UnsetType

from assay.canon import canonical
from assay.families.exams.normal import Normaliser
from assay.files.json_files import parse_json
from assay.records.contract import Contract

Match = Literal["substring", "word", "exact"]
Check = Callable[[Any], bool]
"""Whether what a rule has read of a response earns the mark."""


class ExpectingItem(Protocol):
    """An item of an exam, or a case of a rubric's own test, which is marked as one."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def match(self) -> Match | None:
        """How its expected texts are looked for."""

    @property
    def expect(self) -> dict[str, Any] | UnsetType:
        """What is expected, as written."""

    @property
    def options(self) -> dict[str, Any] | list[Any] | UnsetType:
        """The options to choose from."""

    @property
    def expectations(self) -> dict[str, Any]:
        """What is expected, by axis."""


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

    def faults(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> list[str]:
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

    def prepare(self, want: Any, item: ExpectingItem, setting: MarkingSetting) -> Check:
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

    @property
    def fixed(self) -> bool:
        """Whether the rubric itself says what is expected."""
        return not isinstance(self.value, UnsetType)

    def shows(self, want: Any) -> list[str]:
        """The texts or options that are expected."""
        return [str(entry) for entry in entries_of(want)]


def entries_of(want: Any) -> list[Any]:
    """One expectation or several, as a list."""
    return want if isinstance(want, list) else [want]


def shown_text(value: Any) -> str | None:
    """What a rule has read, as text; None for nothing."""
    if value is None or isinstance(value, str):
        return value
    return canonical(value).decode()
