r"""JSON as ECMAScript writes it: what `JSON.stringify` gives, the canonical text that hashes cover,
and the documents of this family as their files hold them.

Every number is a double, because it is one in a JavaScript engine: 4.0 is 4, and an integer beyond
2**53 is rounded. That is why this is not `assay.canon`, which keeps every digit. Strings count in
UTF-16: a surrogate without its partner is written as an escape. A value that JSON cannot express
raises ValueError; nothing is left out.

The hashes here are the first eight hexadecimal digits of sha256. They appear in entries, file names
and the index, never in a source schema. The other hash, `sha256:` over a file's bytes, belongs to
grade reports: see `source.ToolSchema.file_sha256`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec

from assay.canon import number_text
from assay.errors import InputError
from assay.files.json_files import parse_wide_json

OWN_HASHES = ("schemaHash", "selectionHash")
"""Top-level keys that a source must not have and that its hash leaves out."""

MAX_SAFE = 2**53
"""From here on a double no longer holds every integer."""

_ESCAPED = re.compile(r'[\x00-\x1f"\\\ud800-\udfff]')
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX_INDEX = 2**32 - 1
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

Order = Callable[[dict[str, Any]], Iterable[str]]


def stringify(value: Any) -> str:
    r"""The text `JSON.stringify(value)` gives: keys that are list indexes first and ascending, the
    others in their order.

    >>> print(
    ...     stringify({"b": 4.0, "10": Decimal("1E+21"), "9": -0.0, "a": "é\u2028\ud800"}).replace(
    ...         "\u2028", "<2028>"
    ...     )
    ... )
    {"9":0,"10":1e+21,"b":4,"a":"é<2028>\ud800"}
    """
    return _text(value, _by_index)


def canonical(value: Any) -> str:
    """The canonical text: keys sorted by UTF-16 code units at every depth, no whitespace, numbers
    and strings as `JSON.stringify` writes them.

    >>> canonical({"b": [4.0, 1e-7], "10": None, "9": True})
    '{"10":null,"9":true,"b":[4,1e-7]}'
    """
    return _text(value, _by_code_unit)


def parse(text: str) -> Any:
    """Plain data from a JSON text: an integer below 2**53 is an int, any other number a Decimal of
    the digits in the text.

    A surrogate without its partner is accepted, as ECMAScript accepts it; a key that appears twice
    is not. Raises ValueError.

    >>> parse("[7, 0.10, 1e2, 9007199254740993]")
    [7, Decimal('0.10'), Decimal('1E+2'), Decimal('9007199254740993')]
    """
    tree = parse_wide_json(text.encode())
    return _bounded(tree) if re.search(r"[0-9]{16}", text) else tree


def _bounded(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _bounded(item) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_bounded(item) for item in tree]
    if isinstance(tree, int) and abs(tree) >= MAX_SAFE and not isinstance(tree, bool):
        return Decimal(tree)
    return tree


def _text(value: Any, order: Order) -> str:
    parts: list[str] = []
    try:
        _write(value, order, parts.append)
    except RecursionError:
        raise ValueError("nests too deep") from None
    return "".join(parts)


def _write(value: Any, order: Order, put: Callable[[str], None]) -> None:
    if value is None:
        put("null")
    elif isinstance(value, str):
        put(_quote(value))
    elif isinstance(value, bool):
        put("true" if value else "false")
    elif isinstance(value, int | float | Decimal):
        put(_number(value))
    elif isinstance(value, dict):
        lead = "{"
        for key in order(_in_utf16(value)):
            put(f"{lead}{_quote(key)}:")
            _write(value[key], order, put)
            lead = ","
        put("{}" if lead == "{" else "}")
    elif isinstance(value, list | tuple):
        lead = "["
        for item in value:
            put(lead)
            _write(item, order, put)
            lead = ","
        put("[]" if lead == "[" else "]")
    else:
        raise ValueError(f"JSON can't express a {type(value).__name__}")


def _number(value: int | float | Decimal) -> str:
    try:
        return number_text(float(value))
    except (OverflowError, ValueError):
        raise ValueError(f"{str(value)[:40]} doesn't fit into a double") from None


def _quote(text: str) -> str:
    if not _ESCAPED.search(text):
        return f'"{text}"'
    return f'"{_ESCAPED.sub(_escape, _joined(text))}"'


def _escape(sign: re.Match[str]) -> str:
    return _SHORT.get(sign[0]) or f"\\u{ord(sign[0]):04x}"


def _joined(text: str) -> str:
    """The same UTF-16 text with each surrogate pair as one character: Python can keep the halves
    apart, ECMAScript can't.
    """
    return (
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        if _SURROGATE.search(text)
        else text
    )


def _in_utf16(value: dict[Any, Any]) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"a key is text in JSON, not a {type(key).__name__}")
    if any(_SURROGATE.search(key) for key in value) and len({_joined(key) for key in value}) != len(
        value
    ):
        raise ValueError("two keys are one in UTF-16")
    return value


def _by_index(value: dict[str, Any]) -> Iterable[str]:
    indexes = [key for key in value if _INDEX.fullmatch(key) and int(key) < _MAX_INDEX]
    if not indexes:
        return value
    first = set(indexes)
    return [*sorted(indexes, key=int), *(key for key in value if key not in first)]


def _by_code_unit(value: dict[str, Any]) -> Iterable[str]:
    return sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


# --- documents

_encode = msgspec.json.Encoder(decimal_format="number").encode


def document_bytes(document: Any, *, where: str = "") -> bytes:
    """A document as its file contains it: indented. `where` is the file that its texts come from.

    A score is written with the digits it came with: rounded to the nearest double, it could have
    another grade when it is read back.
    """
    try:
        return _indented(_encode(document))
    except UnicodeEncodeError as error:
        text = error.object[max(0, error.start - 30) : error.end]
        raise InputError(
            "FIL-002",
            f"the text {text!r} can't be written as UTF-8.",
            where=where,
            fix="Remove lone surrogates.",
        ) from None


def script_bytes(document: Any, *, where: str = "") -> bytes:
    """A document as a JavaScript program would write it: the same bytes, whichever program writes
    it.
    """
    try:
        return _indented(stringify(document).encode())
    except msgspec.DecodeError:  # JSON can only escape a lone surrogate; not every reader takes it
        document_bytes(document, where=where)
        raise


def _indented(text: bytes) -> bytes:
    return msgspec.json.format(text, indent=2) + b"\n"


# --- hashes


def canonical_text(value: Any) -> str:
    """The canonical text that is hashed: `canonical` without the top-level hash keys."""
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key not in OWN_HASHES}
    try:
        return canonical(value)
    except (ValueError, TypeError) as error:
        raise InputError("HSH-003", f"there is no hash of it: {error}.") from None


def hash8(value: Any) -> str:
    """The hash of plain data.

    >>> hash8({}), hash8({"a": 1.0}) == hash8({"a": 1})
    ('44136fa3', True)
    """
    return about_hash(canonical_text(value).encode("utf-8"))


def about_hash(data: bytes) -> str:
    """The hash of an About page: over its bytes as they are."""
    return sha256(data).hexdigest()[:8]


def namespace_hash(members: Mapping[str, str], about: str | None) -> str:
    """The hash of a namespace: its schemas with their hashes, and its About page."""
    return hash8({"members": dict(members), "aboutHash": about})
