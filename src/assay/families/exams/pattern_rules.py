"""The patterns that a rubric looks for, as data: a condition over axes and items and its meaning.

Four kinds of condition. `axis_zero`: an axis without marks on almost all items. `tag_zero`: an axis
without marks on the items that share a tag. `trend`: one axis alone falls from the first half of
the items to the second. `outlier`: one item alone without its mark. Limits that a pattern doesn't
state are the policy's. How they are found: see `patterns`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from assay import exact
from assay.files.json_files import Path
from assay.records.evidence import OptionalNumber
from assay.registry import identifier_fault, near_miss

Kind = Literal["axis_zero", "tag_zero", "trend", "outlier"]
_LIMITS: dict[str, tuple[str, ...]] = {
    "axis_zero": ("min_items", "min_share"),
    "tag_zero": ("min_items", "min_share"),
    "trend": ("min_items", "min_drop", "max_other_drop", "min_chi_square"),
    "outlier": ("min_items",),
}
_MEANINGS = {
    "axis_zero": "an axis without marks across the items",
    "tag_zero": "every item with a tag is wrong",
    "trend": "one axis alone falls over the exam",
    "outlier": "one item alone without its mark",
}


class PatternRule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One pattern. `{axis}`, `{tag}` and `{value}` in a hint stand for what was found."""

    kind: Kind
    """The detector."""
    name: str | None = None
    """The name of the pattern; without one, its kind."""
    axis: str | None = None
    """The axis that it looks at."""
    axes: list[str] | None = None
    """The axes that it looks at."""
    tag: str | None = None
    """The tag that it groups by."""
    meaning: str | None = None
    """What the pattern means."""
    hint: str | None = None
    """Where to look."""
    hints: dict[str, str] | None = None
    """Where to look, by axis."""
    cause: str | None = None
    """The likely cause."""
    min_items: Annotated[int, Meta(ge=1)] | None = None
    """The minimum number of items."""
    min_share: OptionalNumber = None
    """The minimum share of items."""
    min_drop: OptionalNumber = None
    """How far the axis must fall."""
    max_other_drop: OptionalNumber = None
    """How far the other axes may fall."""
    min_chi_square: OptionalNumber = None
    """The minimum chi-square of the fall."""

    @property
    def id(self) -> str:
        """The name that a result carries."""
        return self.name or self.kind

    @property
    def means(self) -> str:
        """What the pattern is, in words."""
        return self.meaning or _MEANINGS[self.kind]

    def advice(self, default: str, **evidence: str) -> str:
        """The hint with what was found in its places."""
        text = (self.hints or {}).get(evidence.get("axis", "")) or self.hint or default
        for key, value in evidence.items():
            text = text.replace(f"{{{key}}}", value)
        return text

    def faults(self, axes: Collection[str]) -> Iterator[tuple[Path, str]]:
        """What is wrong with it in a rubric with these axes."""
        named = [*([self.axis] if self.axis else []), *(self.axes or []), *(self.hints or {})]
        yield from (
            (("axis",), f"no axis is named '{axis}'.{near_miss(axis, axes)}")
            for axis in named
            if axis not in axes
        )
        problem = identifier_fault(self.id)
        if problem is not None:
            yield ("name",), f"the name {problem}."
        if self.kind in ("tag_zero", "trend") and self.axis is None:
            yield ("axis",), f"'{self.kind}' needs the axis it looks at."
        if (self.kind == "tag_zero") != (self.tag is not None):
            yield ("tag",), "`tag` belongs to 'tag_zero', which needs one."
        allowed = _LIMITS[self.kind]
        for limit in ("min_items", "min_share", "min_drop", "max_other_drop", "min_chi_square"):
            value: Any = getattr(self, limit)
            if value is None:
                continue
            if limit not in allowed:
                yield (limit,), f"'{self.kind}' has no limit of this name."
            elif not exact.is_amount(value) or (limit == "min_share" and not 0 < value <= 1):
                yield (limit,), f"is {str(value)[:40]}, which can't be a limit."


class TagGroup(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tag by which a diagnosis groups the items that lost, and how it is read."""

    tag: str
    """The tag."""
    label: str = "with {tag} '{value}'"
    """How a group is named in sentences."""

    def says(self, value: str) -> str:
        """The label of one value."""
        return self.label.replace("{tag}", self.tag).replace("{value}", value)


def read_patterns(
    patterns: list[PatternRule], axes: Collection[str], add: Callable[[Path, str], None]
) -> None:
    """Report every fault of a rubric's patterns; a name appears once."""
    seen: set[str] = set()
    for index, pattern in enumerate(patterns):
        for path, message in pattern.faults(axes):
            add(("patterns", index, *path), message)
        if pattern.id in seen:
            add(("patterns", index, "name"), f"the pattern '{pattern.id}' appears twice.")
        seen.add(pattern.id)
