"""Canonical JSON and digests: when are two records the same.

The canonical text has keys in UTF-16 order, no whitespace, and one spelling for each number (4.0 is 4; 1E-7 is 1e-7), as ECMAScript writes it;
a decimal that no double holds keeps all its digits instead of losing some. Two documents with the same canonical text are the same.
"""

from __future__ import annotations

import re
from decimal import Decimal
from hashlib import sha256

import msgspec

from assay.errors import InputError

_encode = msgspec.json.Encoder(order="sorted", decimal_format="number").encode
_plain = msgspec.json.Encoder(decimal_format="number").encode
# A number that the encoder may have spelled its own way: a zero after the point at the end, an exponent, minus zero, more digits than fit before one.
# Each pattern begins with one sign, which makes the search quick; text that only looks like such a number costs time, nothing else.
_SUSPECTS = tuple(map(re.compile, (rb"\.\d*0(?:[,\]}]|\Z)", rb"e[-+]?\d+(?:[,\]}]|\Z)", rb"E[-+]?\d+(?:[,\]}]|\Z)", rb"-0(?:[,\]}]|\Z)")))
_ZEROS = re.compile(rb'\.0+(?=[,\]}"]|\Z)')
_TAIL = re.compile(rb'(\.\d*[1-9])0+(?=[,\]}"]|\Z)')
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
_pack = msgspec.msgpack.Encoder().encode
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*')
_ASTRAL = re.compile(rb"[\xf0-\xf4]")


def canonical(value: object) -> bytes:
    """The canonical JSON of a tree of plain values or of a record.

    >>> canonical({"b": 4.0, "a": [1e21, Decimal("0.10"), -0.0]})
    b'{"a":[1e+21,0.1,0],"b":4}'
    """
    try:
        fast = _encode(value)
    except (UnicodeEncodeError, TypeError) as error:
        raise InputError("API-001", f"what JSON cannot say has no digest: {error}.") from None
    if b"NaN" in fast or b"Inf" in fast or (b"null" in fast and _may_be_infinite(value)):
        _refuse_infinite(msgspec.to_builtins(value, builtin_types=(Decimal,)))  # the encoder would write NaN as null, which says something else
    if not fast.isascii() and _ASTRAL.search(fast):  # only then do UTF-8 and UTF-16 sort keys differently
        return _canonical(value).encode("utf-8", "surrogatepass")
    if _SUSPECTS[0].search(fast):
        fast = _trimmed(fast)
    if any(pattern.search(fast) for pattern in _SUSPECTS[1:]) or b"0" * 21 in fast.translate(_DIGITS):
        return _TOKENS.sub(_spell, fast)
    return fast


def _may_be_infinite(value: object) -> bool:
    """Whether a float among the values may be NaN or infinite: as MessagePack they begin with bytes that no text holds."""
    try:
        return _NOT_FINITE.search(_pack(value)) is not None
    except (OverflowError, TypeError, ValueError):
        return True


def _trimmed(data: bytes) -> bytes:
    """Zeros after the point at the end of numbers, taken away; texts stay as they are. Every second part between quotation marks is a text."""
    escaped = b"\\" in data
    if escaped:  # JSON never holds a bare NUL
        data = data.replace(b"\\\\", b"\0\0").replace(b'\\"', b"\0\1")
    parts = data.split(b'"')
    parts[::2] = _TAIL.sub(rb"\1", _ZEROS.sub(b"", b'"'.join(parts[::2]))).split(b'"')
    data = b'"'.join(parts)
    return data.replace(b"\0\1", b'\\"').replace(b"\0\0", b"\\\\") if escaped else data


def _refuse_infinite(value: object) -> None:
    if isinstance(value, dict):
        for item in value.values():
            _refuse_infinite(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_infinite(item)
    elif isinstance(value, float | Decimal):
        number_text(value)


def _spell(token: re.Match[bytes]) -> bytes:
    text = token[0]
    return text if text[0] == 34 else number_text(Decimal(text.decode())).encode()


def digest(value: object) -> str:
    """`sha256:` and the hex digest of the canonical JSON.

    >>> digest({"a": 1}) == digest({"a": 1.0})
    True
    """
    return "sha256:" + sha256(canonical(value)).hexdigest()


def sort_canonically(values: list[object]) -> list[object]:
    """A list whose order means nothing, in an order that depends only on its members."""
    return sorted(values, key=canonical) if len(values) > 1 else values


def _canonical(value: object) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return _plain(value).decode()
    if isinstance(value, int | float | Decimal):
        return number_text(value)
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_plain(key).decode()}:{_canonical(value[key])}" for key in keys) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _canonical(msgspec.to_builtins(value, builtin_types=(Decimal,)))


def number_text(value: int | float | Decimal) -> str:
    """One spelling for each number.

    >>> [number_text(x) for x in (4.0, Decimal("1E+2"), 1e-7, Decimal("0.12345678901234567890"))]
    ['4', '100', '1e-7', '0.1234567890123456789']
    """
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError(f"{number} is not a finite number")
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "0"
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    point = len(stripped) + exponent  # position of the decimal point, counted from the first digit
    minus = "-" if sign else ""
    if 0 < point <= 21:
        body = stripped.ljust(point, "0") if len(stripped) <= point else f"{stripped[:point]}.{stripped[point:]}"
    elif -6 < point <= 0:
        body = f"0.{'0' * -point}{stripped}"
    else:
        power = point - 1
        mantissa = stripped[0] + (f".{stripped[1:]}" if len(stripped) > 1 else "")
        body = f"{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"
    return minus + body
