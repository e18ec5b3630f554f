"""A tree as a value of a type, from any thread.

msgspec works out how a Struct is read when it is first read. It hangs that on the class before it
has worked out the Structs within, so a second thread that reads the same type at that moment
follows pointers that are not there yet, and the process dies. Here the first reading of every type
waits for the others.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_known: set[object] = set()
_first = threading.Lock()


def convert(tree: Any, kind: type[T], *, from_attributes: bool = False, strict: bool = True) -> T:
    """The tree, or with `from_attributes` also a record, as a value of that type; a
    `msgspec.ValidationError` where it is none. Where not `strict`, a number may be its text.
    """
    if kind not in _known:
        with _first:
            msgspec.json.Decoder(kind)
            _known.add(kind)
    return msgspec.convert(tree, kind, from_attributes=from_attributes, strict=strict)
