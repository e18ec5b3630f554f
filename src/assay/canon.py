"""Canonical JSON and digests: when are two records the same.

The canonical text has keys in UTF-16 order, no whitespace, and one spelling for each number (4.0 is
4; 1E-7 is 1e-7), as ECMAScript writes it; a decimal that no double holds keeps all its digits
instead of losing some. Two documents with the same canonical text are the same.
"""

from __future__ import annotations

import re
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from struct import Struct

import msgspec

from assay.errors import InputError

_encode = msgspec.json.Encoder(order="sorted", decimal_format="number").encode
_plain = msgspec.json.Encoder(decimal_format="number").encode
_pack = msgspec.msgpack.Encoder(decimal_format="number").encode
# What the encoder spells its own way: zeros after the point at the end, an exponent, minus zero,
# more digits than fit before one.
_WHOLE = re.compile(rb"\.0(?=[,\]}])")
# The same after a key. Without a backslash a quotation mark only begins or ends a text, and one
# that begins it follows a sign of the structure: the number after a mark that does not, and a
# colon, is no part of a text.
_WHOLE_OF_KEY = re.compile(
    rb"""\.0(?=[,}])(?:(?<=[^:,[{]":[0-9]\.0)|(?<=[^:,[{]":[0-9]{2}\.0)|(?<=[^:,[{]":[0-9]{3}\.0))"""
)
_TRAILING = re.compile(rb"\.\d*0(?:[,\]}]|\Z)")
_EXPONENT = re.compile(rb"E[-+]\d+(?:[,\]}]|\Z)")
_NEGATIVE = re.compile(rb"-(?:(?<=\d[eE]-)|(?<=[:,[]-)0)")
"""A negative exponent, or minus and zero."""
_MINUS_ZERO = re.compile(rb"-0(?:\.0*)?(?:[,\]}]|\Z)")
_ZEROS = re.compile(rb"\.0+(?=[,\]}]|\Z)")
_TAIL = re.compile(rb"(\.\d*[1-9])0+(?=[,\]}]|\Z)")
# A float in MessagePack that is neither zero nor between 2**-10 and 2**48: it may be none that is
# finite, or be written with an exponent.
_STRANGE = re.compile(rb"\xcb(?![\x3f\xbf][\x50-\xff]|[\x40-\x42\xc0-\xc2]|\x00{8})")
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
_double = Struct(">d").unpack
_PLAIN = re.compile(r"-?\d{1,21}\.\d*[1-9]")
"""A decimal as Python writes it, which is its one spelling."""
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*')
_ASTRAL = re.compile(rb"[\xf0-\xf4]")
_LONG = b"0" * 17
LARGE_FLOAT = 1e16
"""From here on a float is written with an exponent."""
_PLAIN_BELOW = 10**21
"""Whole numbers below this are written with all their digits."""
_SHORT = (0.0001, LARGE_FLOAT)
"""Between these Python itself writes a float without an exponent."""


def canonical(value: object, *, settled: bool = False) -> bytes:
    """The canonical JSON of a tree of plain values or of a record.

    `settled` says that every float is finite and below `LARGE_FLOAT`, and every decimal finite, as
    in what was read from JSON: that leaves less to look for.

    >>> canonical({"b": 4.0, "a": [1e21, Decimal("0.10"), -0.0]})
    b'{"a":[1e+21,0.1,0],"b":4}'
    """
    try:
        fast = _encode(value)
    except (UnicodeEncodeError, TypeError) as error:
        raise InputError("API-001", f"what JSON cannot say has no digest: {error}.") from None
    return _quick(value, fast, settled) or _careful(value, fast)


def _quick(value: object, fast: bytes, settled: bool) -> bytes | None:
    """The canonical text where no number but floats as whole as 4.0 needs another spelling; None
    where that cannot be told at a glance.

    What looks like a number in a text only costs time: it sends the document the careful way.
    """
    if b"\\" in fast or not fast.isascii():
        return None
    if settled:
        if b"+" in fast or _NEGATIVE.search(fast) or _LONG in fast.translate(_DIGITS):
            return None
    elif b"E" in fast and _EXPONENT.search(fast):
        return None
    fast = _WHOLE_OF_KEY.sub(b"", fast)
    if _TRAILING.search(fast) is None:
        return None if not settled and _is_strange(value, fast) else fast
    parts = _WHOLE.split(fast)
    if len(parts) > 1:
        quotes = 0
        for part in parts[:-1]:
            quotes += part.count(b'"')
            if quotes & 1:  # it stands in a text, and that stays as it is
                return None
        fast = b"".join(parts)
    return None if _TRAILING.search(fast) or (not settled and _is_strange(value, fast)) else fast


def _is_strange(value: object, fast: bytes) -> bool:
    """Whether a number may be none that is finite, or very large, or very small, or minus zero.
    Decimals are packed as floats.
    """
    try:
        packed = _pack(value)
    except (OverflowError, TypeError, ValueError):
        return True
    for match in _STRANGE.finditer(packed):
        # the digits of a quite usual float may look like the beginning of a strange one: then the
        # text does not have that number
        eight = packed[match.end() : match.end() + 8]
        number = _double(eight)[0] if len(eight) == 8 else 1.0
        if (
            not isfinite(number)
            or (number == 0 and _MINUS_ZERO.search(fast))
            or _plain(number) in fast
        ):
            return True
        if abs(number) >= _PLAIN_BELOW and b"0" * 21 in fast.translate(
            _DIGITS
        ):  # a decimal with all its digits
            return True
    return False


def _careful(value: object, fast: bytes) -> bytes:
    escaped = b"\\" in fast
    # Every second part between quotation marks is a text. What is left are signs, words and
    # numbers, and is short. JSON never holds a bare NUL.
    parts = (fast.replace(b"\\\\", b"\0\0").replace(b'\\"', b"\0\1") if escaped else fast).split(
        b'"'
    )
    bare = b'"'.join(parts[::2])
    if b"N" in bare or b"I" in bare or (b"n" in bare and _may_be_infinite(value)):
        _refuse_infinite(
            msgspec.to_builtins(value, builtin_types=(Decimal,))
        )  # the encoder would write NaN as null, which says something else
    if not fast.isascii() and _ASTRAL.search(
        fast
    ):  # only then do UTF-8 and UTF-16 sort keys differently
        return _canonical(value).encode("utf-8", "surrogatepass")
    if _has_long_numbers(bare):
        return _TOKENS.sub(_spell, fast)
    if _TRAILING.search(bare) is None:
        return fast
    parts[::2] = _TAIL.sub(rb"\1", _ZEROS.sub(b"", bare)).split(b'"')
    fast = b'"'.join(parts)
    return fast.replace(b"\0\1", b'\\"').replace(b"\0\0", b"\\\\") if escaped else fast


def _has_long_numbers(bare: bytes) -> bool:
    """Whether a number may have an exponent, or need one, or be minus zero. `e` stands in `true`
    and `false` too.
    """
    if b"E" in bare or bare.count(b"e") != bare.count(b"true") + bare.count(b"false"):
        return True
    return (b"-0" in bare and _MINUS_ZERO.search(bare) is not None) or b"0" * 21 in bare.translate(
        _DIGITS
    )


def _may_be_infinite(value: object) -> bool:
    """Whether a float among the values may be NaN or infinite: as MessagePack they begin with bytes
    that no text holds.
    """
    try:
        return _NOT_FINITE.search(_pack(value)) is not None
    except (OverflowError, TypeError, ValueError):
        return True


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


def digest(value: object, *, settled: bool = False) -> str:
    """`sha256:` and the hex digest of the canonical JSON; `settled` as for that.

    >>> digest({"a": 1}) == digest({"a": 1.0})
    True
    """
    return "sha256:" + sha256(canonical(value, settled=settled)).hexdigest()


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
        return (
            "{" + ",".join(f"{_plain(key).decode()}:{_canonical(value[key])}" for key in keys) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _canonical(msgspec.to_builtins(value, builtin_types=(Decimal,)))


def number_text(value: int | float | Decimal) -> str:
    """One spelling for each number.

    >>> [number_text(x) for x in (4.0, Decimal("1E+2"), 1e-7, Decimal("0.12345678901234567890"))]
    ['4', '100', '1e-7', '0.1234567890123456789']
    """
    if type(value) is int and -_PLAIN_BELOW < value < _PLAIN_BELOW:
        return str(value)
    if type(value) is float and _SHORT[0] <= value < _SHORT[1]:
        return repr(value).removesuffix(".0")
    if type(value) is Decimal and _PLAIN.fullmatch(written := str(value)):
        return written
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
        body = (
            stripped.ljust(point, "0")
            if len(stripped) <= point
            else f"{stripped[:point]}.{stripped[point:]}"
        )
    elif -6 < point <= 0:
        body = f"0.{'0' * -point}{stripped}"
    else:
        power = point - 1
        mantissa = stripped[0] + (f".{stripped[1:]}" if len(stripped) > 1 else "")
        body = f"{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"
    return minus + body
