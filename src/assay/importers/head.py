"""The beginning of a file: its first bytes, and the keys of the JSON in them."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from functools import cached_property

from assay.files.own_files import HEAD as HEAD
from assay.files.tables import table_columns

_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(\s*:)?|\\?\Z)|[{}\[\]]', re.DOTALL)
"""A text that is cut off ends with the head, so that nothing is read twice."""
_DEPTH = 4
_LONGEST = 200
"""Characters of a key; the keys of every tool are shorter."""


class Head:
    """The beginning of a file."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data

    @property
    def is_zip(self) -> bool:
        """Whether it is a ZIP archive."""
        return self.data[:4] in (b"PK\x03\x04", b"PK\x05\x06")

    @property
    def is_utf16(self) -> bool:
        """Whether it is UTF-16 text, as some Windows programs save it."""
        start = self.data[:64]
        halves = (start[::2], start[1::2])
        is_plain = len(start) > 3 and any(not half.strip(b"\x00") for half in halves)
        return start[:2] in (BOM_UTF16_LE, BOM_UTF16_BE) or (is_plain and any(start))

    @cached_property
    def text(self) -> str:
        """The bytes as text; empty for a binary file."""
        if self.is_utf16:
            is_big = self.data[:2] == BOM_UTF16_BE or self.data[:1] == b"\x00"
            text = self.data.decode("utf-16-be" if is_big else "utf-16-le", "replace")
            return text.lstrip("\ufeff").lstrip()
        if b"\x00" in self.data[:512]:
            return ""
        return self.data.decode("utf-8-sig", "replace").lstrip()

    @cached_property
    def first_line(self) -> str:
        """The first line that isn't blank."""
        return self.text.partition("\n")[0].rstrip("\r")

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of the first JSON document, as far as the head contains it, each with its path;
        the elements of a list appear as `[]`.

        >>> sorted(Head("x", b'{"a": {"b": [{"c": 1}, {"d').keys)
        ['a', 'a.b', 'a.b[].c']
        >>> sorted(Head("x", b'[{"id": 1}]').keys), Head("x", b"a,b").keys
        (['[].id'], frozenset())
        """
        if not self.text.startswith(("{", "[")):
            return frozenset()
        keys: set[str] = set()
        stack: list[str] = []
        key = ""
        for token in _TOKEN.finditer(self.text):
            text, colon = token.groups()
            if colon:
                key = text[:_LONGEST]
                if len(stack) <= _DEPTH:
                    keys.add(f"{stack[-1]}.{key}" if stack[-1] else key)
                continue
            if text is None:
                sign = token[0]
                if sign == "{" or sign == "[":
                    base = stack[-1] if stack else ""
                    inner = (f"{base}.{key}" if base else key) if key else base
                    is_deep = len(stack) > _DEPTH  # no path from here on is kept
                    stack.append("" if is_deep else f"{inner}[]" if sign == "[" else inner)
                else:
                    stack.pop()
                    if not stack:
                        break
            key = ""
        return frozenset(keys)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of a table's columns: those of CSV, Parquet, or JSON in the layouts of pandas.

        >>> sorted(Head("x", b"id,answer").columns)
        ['answer', 'id']
        >>> (
        ...     sorted(Head("x", b'[{"id": 1}]').columns),
        ...     sorted(Head("x", b'{"id": {"0": 1}}').columns),
        ... )
        (['id'], ['id'])
        """
        listed = table_columns(self.data, self.path)
        if listed:
            return frozenset(listed)
        return frozenset(key for key in self.row_keys if "." not in key and "[]" not in key)

    @property
    def row_keys(self) -> frozenset[str]:
        """The keys of the document, or of the objects of which it is a list."""
        start = "[]." if self.text.startswith("[") else ""
        return frozenset(key.removeprefix(start) for key in self.keys if key.startswith(start))

    def has(self, *keys: str) -> bool:
        """Whether the JSON has all of these keys."""
        return self.keys.issuperset(keys)
