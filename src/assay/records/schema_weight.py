"""A cheap upper bound on the work that a JSON Schema can cause for one byte of a value.

The weight is the size of the schema with every `$ref` written out. Each part of that tree looks at
each place in a value once at most, so weight times size bounds the work. There is no bound for
recursion, for keywords that evaluate their neighbours again (`unevaluated...`), for dynamic
references, or for identifiers that change what a reference means.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from assay.records.plain import MAX_DEPTH

MAX_WEIGHT = 200_000
"""Compiling a heavier schema would already take long."""
_WITHOUT_BOUND = {"$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"}
_ELSEWHERE = {"$id", "$schema"}
"""Below the root these start another resource, with separate references or another dialect."""
_NOTES = {"description", "title", "$comment"}
_VALUES = {"const", "enum"}
_COUNTED = re.compile(r"(.)\{(\d+)(?:,(\d*))?\}")
_STATES = 8
"""Automaton states for one character of a pattern: `.` and a negated class need several in UTF-8.
"""
_CLASS = 2_000
"""Automaton states for a Unicode class."""


class _NoBound(Exception):
    pass


def without_notes(schema: Any) -> Any:
    """A JSON Schema without the descriptions, titles and comments, which check nothing.

    >>> without_notes({"title": "Q", "properties": {"title": {"description": "a", "const": "b"}}})
    {'properties': {'title': {'const': 'b'}}}
    """
    if isinstance(schema, list | tuple):
        return [without_notes(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: part if name in _VALUES else without_notes(part)
        for name, part in schema.items()
        if not (name in _NOTES and isinstance(part, str))
    }


def weight_of(schema: Any) -> int | None:
    """The weight; None if there is no bound or it exceeds `MAX_WEIGHT`.

    >>> weight_of({"type": "object"}), weight_of({"$ref": "#"})
    (18, None)
    """
    try:
        return _Weighing(schema).node(schema, 0, root=True)[0]
    except _NoBound:
        return None


class _Weighing:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[str, tuple[int, int]] = {}
        self._open: set[str] = set()

    def node(self, node: Any, depth: int, *, root: bool = False) -> tuple[int, int]:
        """The weight and the height of a part of the schema."""
        if depth > MAX_DEPTH:
            raise _NoBound
        if isinstance(node, str):
            return len(node) + 2, 0
        if isinstance(node, list | tuple):
            parts = [self.node(part, depth + 1) for part in node]
        elif isinstance(node, dict):
            parts = [
                self._member(name, value, depth + 1, root=root) for name, value in node.items()
            ]
        else:
            return 8, 0
        weight = 2 + sum(part[0] for part in parts)
        height = 1 + max((part[1] for part in parts), default=0)
        if weight > MAX_WEIGHT or depth + height > MAX_DEPTH:
            raise _NoBound
        return weight, height

    def _member(self, name: str, value: Any, depth: int, *, root: bool) -> tuple[int, int]:
        if name in _WITHOUT_BOUND or (name in _ELSEWHERE and not root):
            raise _NoBound
        if name in _NOTES and isinstance(value, str):
            return 0, 0
        weight, height = self.node(value, depth)
        if name == "$ref" and isinstance(value, str):
            weight, height = self._reference(value, depth)
        elif name == "pattern" and isinstance(value, str):
            weight += pattern_weight(value)
        elif name == "patternProperties" and isinstance(value, dict):
            weight += sum(map(pattern_weight, value))
        return weight + len(name) + 4, height

    def _reference(self, reference: str, depth: int) -> tuple[int, int]:
        known = self._known.get(reference)
        if known is None:
            if reference in self._open or not reference.startswith("#"):
                raise _NoBound
            self._open.add(reference)
            known = self._known[reference] = self.node(self._target(reference), depth)
            self._open.discard(reference)
        if depth + known[1] > MAX_DEPTH:
            raise _NoBound
        return known[0] + 4, known[1] + 1

    def _target(self, reference: str) -> Any:
        at = self._root
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            raise _NoBound
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            try:
                at = at[int(name)] if isinstance(at, list) else at[name]
            except (KeyError, IndexError, ValueError, TypeError):
                raise _NoBound from None
        return at


def pattern_weight(pattern: str) -> int:
    """The weight of a pattern: its length with counted repetitions written out, and repeated groups
    multiplied as if all were nested.

    >>> pattern_weight("^a{3}$") < pattern_weight("^(a{30}){30}$") < pattern_weight(
    ...     "^(a{300}){300}$"
    ... )
    True
    """
    length, times = len(pattern), 1
    for before, low, high in _COUNTED.findall(pattern):
        count = max(int(low[:9]), int(high[:9] or 0), 1)
        if before in ")}":
            times *= count
        else:
            length += count
        if times > MAX_WEIGHT:
            break
    length += _CLASS * (
        pattern.count("\\p")
        + pattern.count("\\P")
        + len(pattern.encode("utf-8", "replace"))
        - len(pattern)
    )
    return length * times * _STATES
