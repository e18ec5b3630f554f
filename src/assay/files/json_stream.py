"""JSON of other tools, read piece by piece: a document of any size in the memory of one element.

Numbers are read exactly as written. NaN and Infinity, which Python programs write for missing
values, are read as None. A duplicate key in an object is refused, and so is a number that no double
holds.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from decimal import Decimal
from io import BytesIO
from typing import IO, Any

import msgspec

from assay.canon import encode
from assay.errors import InputError
from assay.files.inputs import open_input
from assay.files.json_files import (
    CHUNK,
    MAX_LINE,
    DuplicateKey,
    OutOfRange,
    in_range,
    read_lines,
    unique_keys,
)

_BLANKS = " \t\n\r"
_BLANK = re.compile(r"[ \t\n\r]*")
_NUMERIC = re.compile(r"[-+.eE0-9]*")
_LAST = re.compile(r"[-+.\\\w]*\s*")
"""What a file may end with that is cut off: part of a number, a word or an escape."""
_HALF = re.compile("[\ud800-\udfff]")

Place = tuple[str | int, ...]


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:  # the exponent has more than 18 digits
        raise OutOfRange(Decimal("Infinity"), ()) from None


_parse = msgspec.json.Decoder(float_hook=_number).decode
_decode = json.JSONDecoder(
    parse_float=_number, parse_constant=lambda _: None, object_pairs_hook=unique_keys
).raw_decode


def stream_json(
    path: str, each: Collection[tuple[str, ...]], *, opened: IO[bytes] | None = None
) -> Iterator[tuple[Place, Any]]:
    """The values of a JSON document with the keys that lead to them, in the order of the file.

    `each` has the places of lists (or of objects, by a last key `*`) whose elements come one by
    one; every other value comes whole. Where the list is the document itself, its place is `()`.
    `opened` is read in place of the file, such as an entry of an archive; `path` then names it.
    """
    with open_input(path) if opened is None else nullcontext(opened) as stream:
        yield from _StreamReader(stream, path).document(frozenset(each))


def stream_lines(path: str, *, opened: IO[bytes] | None = None) -> Iterator[tuple[int, Any]]:
    """The documents of a .jsonl file with their line numbers."""
    with open_input(path) if opened is None else nullcontext(opened) as stream:
        for number, line in read_lines(stream):
            if len(line) > MAX_LINE:
                raise _large(path, number)
            yield number, loads(line, path, number)


def loads(data: bytes, path: str, line: int | None = None) -> Any:
    """One document, read as `stream_json` reads."""
    try:
        value = _parse(data)  # the same result, faster
        # of two equal keys one is lost, and its quotation marks with it
        if encode(value).count(b'"') == data.count(b'"') and b"\\u0022" not in data:
            return in_range(value)
    except (ValueError, RecursionError):
        pass
    reader = _StreamReader(BytesIO(), path, _text(data, path, line), line or 1)
    values = [value for _, value in reader.document(frozenset())]
    return values[0]


class _StreamReader:
    def __init__(self, stream: Any, path: str, text: str = "", line: int = 1) -> None:
        self._stream, self._path = stream, "<stdin>" if path == "-" else path
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._line = text, 0, line
        self._ended = False

    def document(self, each: frozenset[tuple[str, ...]]) -> Iterator[tuple[Place, Any]]:
        if self._peek() == "":
            raise InputError("FIL-005", "the file is empty.", where=self._path)
        yield from self._walk((), each)
        if self._peek() != "":
            raise self._fault("there is more after the end of the document.")

    def _walk(self, place: Place, each: frozenset[tuple[str, ...]]) -> Iterator[tuple[Place, Any]]:
        char = self._peek()
        if char == "[" and place in each:
            for index in self._list("]"):
                yield (*place, index), self._value()
        elif char == "{" and any(_leads(place, pattern) for pattern in each):
            seen: set[str] = set()
            for _ in self._list("}"):
                key = self._value()
                if not isinstance(key, str) or self._peek() != ":":
                    raise self._fault("a key and a colon are expected here.")
                if key in seen:
                    raise self._twice(key)
                self._at += 1
                inner = (*place, key)
                if (*place, "*") in each:
                    yield inner, self._value()
                else:
                    seen.add(key)
                    yield from self._walk(inner, each)
        else:
            yield place, self._value()

    def _list(self, end: str) -> Iterator[int]:
        """Yields at each element of the list or object that begins here."""
        self._at += 1
        index = 0
        if self._peek() != end:
            while True:
                yield index
                index += 1
                char = self._peek()
                if char == end:
                    break
                if char != ",":
                    raise self._fault(f"a comma or {end!r} is expected here.")
                self._at += 1
        self._at += 1

    def _peek(self) -> str:
        """The next character that isn't blank; empty at the end of the file."""
        while True:
            char = self._text[self._at : self._at + 1]
            if char in _BLANKS:  # or at the end of what was read
                blank = _BLANK.match(self._text, self._at)
                assert blank is not None
                self._at = blank.end()
                char = self._text[self._at : self._at + 1]
            if char:
                return char
            if not self._fill():
                return ""

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except json.JSONDecodeError as error:
                ahead = error.pos - self._at
                if not self._fill(double=True):
                    words = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
                    # the parser has no field for it
                    is_open = error.msg.startswith("Unterminated string")
                    raise self._fault(f"{words}.", self._at + ahead, is_open=is_open) from None
            except DuplicateKey as error:
                raise self._twice(error.key) from None
            except OutOfRange as error:
                raise self._too_large(error) from None
            except ValueError:  # an integer of thousands of digits
                raise self._fault("a number has too many digits.") from None
            except RecursionError:
                raise self._fault("nests too deep.") from None
            else:
                if _NUMERIC.fullmatch(self._text, end) and self._fill():
                    continue  # the number may continue in the next piece, also after its point
                try:
                    in_range(value)
                except OutOfRange as error:
                    raise self._too_large(error) from None
                part, self._at = self._text[self._at : end], end
                return _writable(value) if "\\ud" in part or "\\uD" in part else value

    def _fill(self, *, double: bool = False) -> bool:
        """Read on; False at the end of the file."""
        if self._ended:
            return False
        pending = len(self._text) - self._at
        if pending > MAX_LINE:
            raise _large(self._path, self._line)
        data = self._stream.read(max(CHUNK, pending if double else 0))
        self._line += self._text.count("\n", 0, self._at)
        try:
            more = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise _not_text(f"{self._path}:{self._line}") from None
        self._text, self._at = self._text[self._at :] + more, 0
        self._ended = not data
        return bool(data)

    def _too_large(self, error: OutOfRange) -> InputError:
        line = self._line + self._text.count("\n", 0, self._at)
        return InputError("FIL-002", f"{error}.", where=f"{self._path}:{line}")

    def _twice(self, key: str) -> InputError:
        return self._fault(f"the key {key!r} appears twice in one object.", code="FIL-003")

    def _fault(
        self,
        message: str,
        at: int | None = None,
        *,
        code: str = "FIL-002",
        is_open: bool = False,
    ) -> InputError:
        at = self._at if at is None else at
        line = self._line + self._text.count("\n", 0, at)
        cut = self._ended and (is_open or _LAST.fullmatch(self._text, at) is not None)
        words = "it ends in the middle of a value." if cut else message
        fix = "The file is cut off." if cut else ""
        return InputError(code, f"not JSON: {words}", where=f"{self._path}:{line}", fix=fix)


def _leads(place: Place, pattern: tuple[str, ...]) -> bool:
    return len(pattern) > len(place) and all(
        key in ("*", there) for key, there in zip(pattern, place, strict=False)
    )


def _writable(value: Any) -> Any:
    """The value with lone surrogates replaced, because they can't be encoded."""
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [_writable(item) for item in value]
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    return value


def _text(data: bytes, path: str, line: int | None) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        where = path if line is None else f"{path}:{line}"
        raise _not_text(where) from None


def _not_text(where: str) -> InputError:
    return InputError("FIL-002", "is not UTF-8 text.", where=where, fix="Save it as UTF-8.")


def _large(path: str, line: int) -> InputError:
    return InputError(
        "FIL-004", f"one value is larger than {MAX_LINE // 2**20} MiB.", where=f"{path}:{line}"
    )
