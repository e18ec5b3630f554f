"""Canonical JSON and digests: when are two records the same.

The canonical text has keys in UTF-16 order, no whitespace, and one spelling for each number (4.0 is
4; 1E-7 is 1e-7), as ECMAScript writes it; a decimal that no double holds keeps all its digits
instead of losing some. Two documents with the same canonical text are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec

from assay.errors import InputError

_sorted = msgspec.json.Encoder(order="sorted", decimal_format="number").encode
encode = msgspec.json.Encoder(decimal_format="number").encode
"""Any record or plain tree as JSON, numbers as numbers, keys in their order."""
encode_any = msgspec.json.Encoder(decimal_format="number", enc_hook=str).encode
"""The same; a value that JSON can't express is written as its text."""
_pack = msgspec.msgpack.Encoder(decimal_format="number").encode
_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""NaN or infinity in MessagePack; no text contains these bytes."""
_ASTRAL = re.compile(rb"[\xf0-\xf4]")
"""Beyond the basic plane: only there do UTF-8 and UTF-16 sort keys differently."""
_ZEROS = re.compile(rb"(\.\d*0)(?=[,\]}])")
"""Zeros at the end of a number, or what looks like it in a text."""
_SHAPE = bytes.maketrans(b"123456789E+]}", b"000000000e-,,")
"""One character for everything that can appear in the same place of a number, or after it."""
_exponent, _minus_zero = (re.compile(pattern).search for pattern in (rb"0e-?0++,", rb"-0[,\]}]"))
"""An exponent, in the shape of a text, and minus zero: two searches for a literal are faster than
one for either.
"""
_NUMBER = re.compile(rb"((?<=[:,[])-?\d[\d.eE+-]*)(?=[,\]}])")
_LONG = b"0" * 22
_PLAIN = re.compile(r"-?\d{1,21}\.\d*[1-9]")
"""A decimal as Python writes it, which is its one spelling."""
_PLAIN_BELOW = 10**21
"""Whole numbers below this are written with all their digits."""
_SHORT = (0.0001, 1e16)
"""Between these Python itself writes a float without an exponent."""


def canonical(value: object) -> bytes:
    """The canonical JSON of a tree of plain values or of a record.

    >>> canonical({"b": 4.0, "a": [1e21, Decimal("0.10"), -0.0]})
    b'{"a":[1e+21,0.1,0],"b":4}'
    """
    try:
        text = _sorted(value)
    except (UnicodeEncodeError, TypeError) as error:
        raise InputError(
            "API-001", f"a value that JSON can't express has no digest: {error}."
        ) from None
    # The encoder writes a float that is not finite as null, which means something else, and such a
    # decimal by its name. Texts and absent values have this word and these letters: look closer.
    if (b"N" in text or b"I" in text or b"null" in text) and _may_be_infinite(value):
        _refuse_infinite(_builtins(value))
    if not text.isascii() and _ASTRAL.search(text):
        text = encode(in_order(_builtins(value)))
    escaped = b"\\" in text and b'\\"' in text
    if escaped:  # then not every quotation mark is an end of a string; JSON has no bare NUL
        text = text.replace(b"\\\\", b"\0\0").replace(b'\\"', b"\0\1")
    text = _respelled(b"[" + text + b"]", _ZEROS, _without_zeros)
    shape = text.translate(_SHAPE)
    if _exponent(shape) or _LONG in shape or _minus_zero(text):
        text = _respelled(text, _NUMBER, _spell)
    text = text[1:-1]
    return text.replace(b"\0\1", b'\\"').replace(b"\0\0", b"\\\\") if escaped else text


def _respelled(text: bytes, pattern: re.Pattern[bytes], spell: Callable[[bytes], bytes]) -> bytes:
    """The text with everything that the pattern finds in its numbers respelled. After an odd number
    of quotation marks we are inside a string, which stays as it is.
    """
    parts = pattern.split(text)
    if len(parts) == 1:
        return text
    quotes = 0
    for place in range(1, len(parts), 2):
        quotes += parts[place - 1].count(b'"')
        if not quotes & 1:
            parts[place] = spell(parts[place])
    return b"".join(parts)


def _without_zeros(decimals: bytes) -> bytes:
    return decimals.rstrip(b"0").rstrip(b".")


def _spell(number: bytes) -> bytes:
    return number_text(Decimal(number.decode())).encode()


def _builtins(value: object) -> Any:
    return msgspec.to_builtins(value, builtin_types=(Decimal,))


def _may_be_infinite(value: object) -> bool:
    """Whether a number among the values may be NaN or infinite. Decimals are packed as floats."""
    try:
        return _NOT_FINITE.search(_pack(value)) is not None
    except (OverflowError, TypeError, ValueError):
        return True


def _refuse_infinite(value: object) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            _refuse_infinite(item)
    elif isinstance(value, float | Decimal):
        number_text(value)


def in_order(value: Any) -> Any:
    """Plain values as they are read back from their canonical JSON: keys in its order, each decimal
    as the number that its one spelling reads as.

    >>> in_order({"b": Decimal("4.0"), "a": [Decimal("0.10")]})
    {'a': [Decimal('0.1')], 'b': 4}
    """
    if isinstance(value, dict):
        keys = sorted(value)
        if not "".join(keys).isascii():
            keys.sort(key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return {key: in_order(item) if type(item := value[key]) in _MOVED else item for key in keys}
    if isinstance(value, list | tuple):
        return [in_order(item) if type(item) in _MOVED else item for item in value]
    if isinstance(value, Decimal):
        text = number_text(value)
        return Decimal(text) if "." in text or "e" in text else int(text)
    return value


_MOVED = frozenset((dict, list, tuple, Decimal))
"""The kinds of values that `in_order` changes."""


def digest(value: object) -> str:
    """`sha256:` and the hex digest of the canonical JSON.

    >>> digest({"a": 1}) == digest({"a": 1.0})
    True
    """
    return "sha256:" + sha256(canonical(value)).hexdigest()


def sort_canonically(values: list[object]) -> list[object]:
    """A list whose order means nothing, in an order that depends only on its members."""
    return sorted(values, key=canonical) if len(values) > 1 else values


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


def time_text(moment: datetime, precision: str = "seconds") -> str:
    """A moment in UTC as documents write it.

    >>> time_text(datetime(2026, 5, 30, 10, 15, tzinfo=UTC))
    '2026-05-30T10:15:00Z'
    """
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def time_of(text: object, zone: tzinfo | None = None) -> datetime | None:
    """The moment in UTC that a document's text names; None if it names none. `zone` is for a text
    that states none: without it such a text names no moment.

    >>> time_of("2026-05-30T12:15:00+02:00") == time_of("2026-05-30T10:15:00", UTC)
    True
    >>> time_of("2026-05-30T12:15:00"), time_of("soon")
    (None, None)
    """
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment is None or (moment.tzinfo or zone) is None:
            return None
        return moment.replace(tzinfo=moment.tzinfo or zone).astimezone(UTC)
    except (ValueError, OverflowError):  # the first or last day of the calendar, in another zone
        return None


def pretty(document: Any) -> bytes:
    """JSON for people: two spaces, one final newline."""
    return msgspec.json.format(encode(document), indent=2) + b"\n"


def plain(value: Any) -> Any:
    """A payload as the tree that a reader of its JSON would get."""
    return msgspec.json.decode(encode(value))
