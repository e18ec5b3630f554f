"""Plain values as bytes and back, so that a solution and its tests can communicate without sharing
an interpreter.

Only these cross: None, booleans, integers, floats, complex numbers, text, bytes, and lists, tuples,
dicts, sets, frozensets and ranges of them. A subclass crosses as its base, so that an `int` that
claims to equal everything arrives as a plain int. A function or an iterator crosses as a handle;
any other object as its type's name. Decoding creates nothing else, so bytes written by hostile code
can at worst be wrong values.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MAX_DEPTH = 100
MAX_BYTES = 16 * 1024 * 1024
_LENGTH = 8
_COLLECTIONS: dict[Any, bytes] = {list: b"l", tuple: b"t", set: b"S", frozenset: b"Z"}


class CannotCross(Exception):
    """A value that has no plain form, or is too deep or too large."""


class Gone(Exception):
    """The other side closed the pipe."""


class Handle:
    """A reference to an object that stays on its own side. `kind` is f (function), g (iterator), o
    (any other object) or r (an object of the receiver's own side).
    """

    __slots__ = ("kind", "name", "number")

    def __init__(self, kind: str, number: int, name: str) -> None:
        self.kind = kind
        self.number = number
        self.name = name


def encode(value: object, hold: Callable[[object], Handle]) -> bytes:
    r"""The bytes of a value. `hold` turns what is not plain into a Handle, or raises CannotCross.

    >>> encode([1, "é", (2.5, None)], hold=lambda _: Handle("o", 0, ""))
    b'l3:i1;s2:\xc3\xa9t2:f0x1.4000000000000p+1;N'
    """
    parts: list[bytes] = []
    _write(value, parts, hold, 0)
    data = b"".join(parts)
    if len(data) > MAX_BYTES:
        raise CannotCross(f"a value of more than {MAX_BYTES // 2**20} MiB")
    return data


def _write(value: object, parts: list[bytes], hold: Callable[[object], Handle], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise CannotCross(f"a value that nests more than {MAX_DEPTH} deep")
    if len(parts) > MAX_BYTES // 4:
        raise CannotCross("a value of too many parts")
    if value is None:
        parts.append(b"N")
    elif value is True or value is False:
        parts.append(b"T" if value else b"F")
    elif isinstance(value, int):
        parts.append(b"i%x;" % int.__add__(value, 0))
    elif isinstance(value, float):
        parts.append(b"f%s;" % float.hex(value).encode())
    elif isinstance(value, complex):
        parts.append(b"c%s,%s;" % (value.real.hex().encode(), value.imag.hex().encode()))
    elif isinstance(value, str):
        text = str.encode(value, "utf-8", "surrogatepass")
        parts.append(b"s%d:" % len(text) + text)
    elif isinstance(value, bytes | bytearray):
        plain = bytes(memoryview(value))
        parts.append((b"b%d:" if isinstance(value, bytes) else b"a%d:") % len(plain) + plain)
    elif type(value) is range:
        _write_all(b"R", (value.start, value.stop, value.step), parts, hold, depth)
    elif kind := next((kind for kind in _COLLECTIONS if isinstance(value, kind)), None):
        # the base's own iterator: a subclass may lie about its items
        _write_all(_COLLECTIONS[kind], kind.__iter__(value), parts, hold, depth)
    elif isinstance(value, dict):
        _write_all(b"d", [item for pair in dict.items(value) for item in pair], parts, hold, depth)
    else:
        handle = hold(value)
        _write_all(b"h", (handle.kind, handle.number, handle.name), parts, hold, depth)


def _write_all(
    tag: bytes,
    items: Iterable[object],
    parts: list[bytes],
    hold: Callable[[object], Handle],
    depth: int,
) -> None:
    items = list(items)
    parts.append(b"%s%d:" % (tag, len(items)))
    for item in items:
        _write(item, parts, hold, depth + 1)


def decode(data: bytes, release: Callable[[Handle], object]) -> object:
    """The value of these bytes. `release` turns a Handle into an object. Raises ValueError or
    TypeError for bytes that are not a value.
    """
    value, end = _read(data, 0, release, 0)
    if end != len(data):
        raise ValueError("something follows the value")
    return value


def _read(
    data: bytes, at: int, release: Callable[[Handle], object], depth: int
) -> tuple[object, int]:
    if depth > MAX_DEPTH + 4:
        raise ValueError("too deep")
    tag = data[at : at + 1]
    at += 1
    if tag in (b"N", b"T", b"F"):
        return {b"N": None, b"T": True, b"F": False}[tag], at
    if tag in (b"i", b"f", b"c"):
        end = data.index(b";", at)
        return _number(tag, data[at:end].decode("ascii")), end + 1
    if not tag or tag not in b"sbaltSZdRh":
        raise ValueError("no such kind of value")
    colon = data.index(b":", at)
    count = int(data[at:colon])
    at = colon + 1
    if count < 0 or count > len(data) - at:
        raise ValueError("longer than the message")
    if tag in b"sba":
        raw = data[at : at + count]
        text = raw.decode("utf-8", "surrogatepass") if tag == b"s" else None
        return text if text is not None else raw if tag == b"b" else bytearray(raw), at + count
    items: list[object] = []
    for _ in range(count):
        item, at = _read(data, at, release, depth + 1)
        items.append(item)
    return _gather(tag, items, release), at


def _number(tag: bytes, text: str) -> object:
    if tag == b"i":
        return int(text, 16)
    if tag == b"f":
        return float.fromhex(text)
    real, imaginary = text.split(",")
    return complex(float.fromhex(real), float.fromhex(imaginary))


def _gather(tag: bytes, items: list[object], release: Callable[[Handle], object]) -> object:
    for kind, name in _COLLECTIONS.items():
        if tag == name:
            return kind(items)
    if tag == b"d":
        return dict(zip(items[::2], items[1::2], strict=True))
    first, second, third = items
    if tag == b"R":
        if type(first) is int and type(second) is int and type(third) is int:
            return range(first, second, third)
    elif type(first) is str and type(second) is int and type(third) is str:
        return release(Handle(first, second, third))
    raise ValueError("parts of the wrong kind")


# --- pipes


def send(pipe: int, body: bytes) -> None:
    """Write one message: its length, then its bytes."""
    left = memoryview(len(body).to_bytes(_LENGTH, "big") + body)
    while left:
        try:
            left = left[os.write(pipe, left) :]
        except BrokenPipeError:
            raise Gone from None


def receive(pipe: int) -> bytes:
    """Read one message. Raises Gone at the end, and ValueError for a message beyond the size
    limit.
    """
    length = int.from_bytes(_exactly(pipe, _LENGTH), "big")
    if length > MAX_BYTES + 1024 * 1024:
        raise ValueError("a message beyond the limit")
    return _exactly(pipe, length)


def _exactly(pipe: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = os.read(pipe, min(count - len(data), 1024 * 1024))
        if not part:
            raise Gone
        data += part
    return bytes(data)
