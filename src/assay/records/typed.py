"""Convert a tree to a typed value, safely from any thread.

msgspec builds the layout of a Struct on first use and attaches it to the class before the layouts
of nested Structs are complete. A second thread that decodes the same type at that moment follows
dangling pointers, and the process crashes. Here a lock guards the first use of every type.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_known: set[object] = set()
_first = threading.Lock()


def convert(tree: Any, kind: type[T], *, from_attributes: bool = False, strict: bool = True) -> T:
    """The tree as a value of that type; with `from_attributes`, it may also be a record. Unless
    `strict`, a number may be written as text. Raises `msgspec.ValidationError`.
    """
    if kind not in _known:
        with _first:
            msgspec.json.Decoder(kind)
            _known.add(kind)
    return msgspec.convert(tree, kind, from_attributes=from_attributes, strict=strict)
