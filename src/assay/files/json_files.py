"""JSON that others wrote, and the documents of a file or stream.

Numbers come in as decimal text, one that no double holds is refused, and so are duplicate keys;
nesting and size are limited. Each document knows its file and line, so that an error can name the
place. It doesn't know what a document means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import IO, Any

import jiter
from msgspec import Struct

from assay.errors import Fault, InputError, raise_faults
from assay.files.inputs import Source, open_input, source_of

MAX_LINE = 64 * 1024 * 1024
CHUNK = 1024 * 1024
MIN_EXPONENT, MAX_EXPONENT, MAX_BITS = -324, 308, 1024
"""What doubles hold. Most programs read every number of a JSON document as one."""

Path = tuple[str | int, ...]

_HALF = re.compile(
    rb"""\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])
    | (?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]""",
    re.VERBOSE,
)
"""An escape of half a surrogate pair."""


class Document(Struct, frozen=True):
    """One parsed document and where it began. `lines` maps a path inside it to a line, where that
    is known.
    """

    tree: Any
    file: str
    line: int | None = None
    lines: dict[Path, int] | None = None
    source: bytes | None = None
    """The whole file, where the document is not one line of it: errors find their lines in it."""
    at: str = ""
    """Where in the file the document is, if it is one of a list."""

    def line_of(self, path: Path) -> int | None:
        """The line of a path, or that of its nearest parent with a line."""
        lines = self.lines or {}
        places = (path[:n] for n in range(len(path), -1, -1))
        return next((lines[place] for place in places if place in lines), self.line)

    def fault(self, message: str, path: Path = (), *, code: str, fix: str = "") -> Fault:
        """A fault at a path of the document."""
        line, at = self.line_of(path), show_path(path)
        return Fault(message, code=code, file=self.file, line=line, path=at, fix=fix)


class Unread(Struct, frozen=True):
    """A line of a stream that cannot be read, with its fault."""

    fault: Fault


# --- JSON


def parse_json(data: bytes, *, is_own: bool = False) -> Any:
    """A JSON document, every number exact. Raises ValueError with the parser's message. In one that
    this process wrote itself (`is_own`), no key appears twice, and every number was checked.

    >>> parse_json(b'{"weight": 0.10}')
    {'weight': Decimal('0.10')}
    >>> parse_json(b"[1e309]")
    Traceback (most recent call last):
        ...
    assay.files.json_files.OutOfRange: the number 1E+309 is out of range
    """
    tree = jiter.from_json(
        data,
        allow_inf_nan=False,
        catch_duplicate_keys=not is_own,
        float_mode="decimal",
        cache_mode="keys",
    )
    if is_own:
        return tree
    # a number can only be out of range with an exponent or hundreds of digits
    shape = data.translate(_SHAPE)
    return in_range(tree) if b"0e" in shape or _LONG in shape else tree


_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_LONG = b"0" * 300


class OutOfRange(ValueError):
    """A number that no double holds: other programs would read it as infinite, as 0 or not at
    all.
    """

    def __init__(self, number: Decimal | int, path: Path) -> None:
        exact = Decimal(number)
        shown = str(exact) if len(exact.as_tuple().digits) < 40 else f"{exact:.3E}"
        super().__init__(f"the number {shown} is out of range")
        self.path = path


def in_range(tree: Any) -> Any:
    """The tree, if a double holds every number in it. Raises OutOfRange."""
    left = [tree]
    while left:
        value = left.pop()
        kind = type(value)
        if kind is dict:
            left += value.values()
        elif kind is list:
            left += value
        elif (kind is Decimal or kind is int) and not _is_in_range(value):
            raise OutOfRange(value, _path_to(value, tree) or ())
    return tree


def _is_in_range(number: Decimal | int) -> bool:
    if isinstance(number, int):
        return number.bit_length() < MAX_BITS or _is_finite(number)
    exponent = number.adjusted()
    return MIN_EXPONENT <= exponent < MAX_EXPONENT or (
        exponent == MAX_EXPONENT and _is_finite(number)
    )


def _is_finite(number: Decimal | int) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _path_to(value: Any, tree: Any) -> Path | None:
    """Where this very object is in the tree."""
    if tree is value:
        return ()
    places: Iterable[tuple[str | int, Any]] = ()
    if isinstance(tree, dict):
        places = tree.items()
    elif isinstance(tree, list):
        places = enumerate(tree)
    for place, inner in places:
        path = _path_to(value, inner)
        if path is not None:
            return (place, *path)
    return None


def json_fault(error: ValueError, data: bytes, *, file: str, line: int | None) -> Fault:
    """The parser's error in our words, with its place."""
    message = str(error)
    if isinstance(error, OutOfRange):
        fix = "Numbers are at most 1.7e308; write a larger one as text."
        at = show_path(error.path)
        return Fault(f"{message}.", code="FIL-002", file=file, line=line, path=at, fix=fix)
    place = re.search(r" at line (\d+) column (\d+)$", message)
    text = message[: place.start()] if place else message
    row, column = (int(place[1]), int(place[2])) if place else (1, 1)
    rows = data.split(b"\n", row)
    before = rows[row - 1] if len(rows) >= row else b""
    here = before[max(0, column - 1) : column + 8]
    word = re.search(rb"-?(NaN|Infinity|nan|inf)", before[max(0, column - 3) : column + 9])
    if data[:4] == b"PAR1":
        fix = "If `assay batch` wrote it, `assay report summary` and `assay gate` read it."
        return Fault("this is a Parquet file, and the command reads JSON.", file=file, fix=fix)
    if file.lower().endswith((".csv", ".tsv")):
        fix = "Save it as JSON Lines (.jsonl)."
        return Fault("this is a table, and the command reads JSON.", file=file, fix=fix)
    code, fix = "FIL-002", ""
    if data[:3] == b"\xef\xbb\xbf":
        message = "the file starts with a byte-order mark (BOM)."
        fix = "Save it as UTF-8 without one."
    elif data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in data[:64]:
        message, fix = "the file is not UTF-8 text.", "JSON here is UTF-8."
    elif text.startswith("Detected duplicate key"):
        key = text[len("Detected duplicate key ") :]
        message = f"the key {key} appears twice in one object (column {column})."
        code, fix = "FIL-003", "Keep one of them."
    elif text.startswith("recursion limit"):
        code, message = "FIL-004", "the JSON nests more than 200 deep."
    elif "InvalidOperation" in text:
        message = f"the number that ends at column {column} is out of range."
    elif word:
        message = f"not JSON at column {column}: {word[0].decode()} is not a JSON number."
        fix = "Write null for a missing value."
    elif text.startswith("EOF"):
        column = len(data.rstrip(b"\r\n")) if line is not None else column
        message = f"not JSON: it ends in the middle of a value (column {column})."
        fix = "The file or line is cut off."
    else:
        seen = f", at {here.decode('utf-8', 'replace')!r}" if here else ""
        message = f"not JSON at column {column}: {text}{seen}."
    return Fault(message, code=code, fix=fix, file=file, line=row if line is None else line)


def parse_wide_json(data: bytes) -> Any:
    """Like `parse_json`, for documents of JavaScript programs, whose texts may contain
    lone surrogates.
    """
    try:
        return parse_json(data)
    except ValueError as error:
        if not _HALF.search(data):
            raise
        refusal = error
    import json  # only for such documents; it is a fifth as fast

    try:
        return in_range(
            json.loads(
                data, parse_float=Decimal, parse_constant=no_constant, object_pairs_hook=unique_keys
            )
        )
    except json.JSONDecodeError:
        raise refusal from None  # no surrogate was at fault
    except ArithmeticError:
        raise ValueError("a number is out of range") from None
    except RecursionError:
        raise ValueError("recursion limit exceeded") from None


def no_constant(word: str) -> Any:
    """Refuse NaN and the infinities, which JSON does not have."""
    raise ValueError(f"{word} is not a number")


class DuplicateKey(ValueError):
    """A key that appears twice in one object, in the words of `parse_json`."""

    def __init__(self, key: str) -> None:
        super().__init__(f'Detected duplicate key "{key}"')
        self.key = key


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these members; raises DuplicateKey."""
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        raise DuplicateKey(next(key for index, key in enumerate(keys) if key in keys[:index]))
    return made


def read_json(path: str, *, lone_surrogates: bool = False) -> Document:
    """The one JSON document in a file, with the line of each of its parts."""
    data = _whole(path)
    return _json_document(data, path, parse_wide_json if lone_surrogates else parse_json)


def _json_document(data: bytes, file: str, parse: Callable[[bytes], Any] = parse_json) -> Document:
    if not data.strip():
        raise InputError("FIL-005", "the file is empty.", where=file)
    return Document(parsed(data, file=file, parse=parse), file, source=data)


def parsed(
    data: bytes, *, file: str, line: int | None = None, parse: Callable[[bytes], Any] = parse_json
) -> Any:
    """One JSON document of a file, or on one line of it. Raises an error with the place of a
    fault.
    """
    try:
        return parse(data)
    except ValueError as error:
        fault = json_fault(error, data, file=file, line=line)
        raise InputError(
            fault.code, fault.message, where=file, fix=fault.fix, faults=[fault]
        ) from None


def _whole(path: str) -> bytes:
    with open_input(path) as stream:
        return limited(stream.read(MAX_LINE + 1), path)


def limited(data: bytes, file: str) -> bytes:
    """The bytes of one document; an error if they are too many."""
    if len(data) > MAX_LINE:
        raise InputError(
            "FIL-004",
            f"is larger than {MAX_LINE // 2**20} MiB.",
            where=file,
            fix="Put one document on each line of a .jsonl file.",
        )
    return data


class _Hashed:
    """A stream that hashes every byte as it is read."""

    def __init__(self, stream: IO[bytes], digest: Any) -> None:
        self._stream, self._update = stream, digest.update

    def __getattr__(self, name: str) -> Callable[[int], bytes]:
        read = getattr(self._stream, name)

        def hashed(size: int) -> bytes:
            data: bytes = read(size)
            self._update(data)
            return data

        return hashed


def read_documents(path: str | Source) -> Iterator[Document]:
    """The documents of a file or of standard input, as `stream_documents` reads them. The first
    line that is not JSON raises.
    """
    for document in stream_documents(path):
        if isinstance(document, Unread):
            raise_faults([document.fault], where=document.fault.file)
        else:
            yield document


def stream_documents(path: str | Source, *, digest: Any = None) -> Iterator[Document | Unread]:
    """Documents of a file or of standard input (`-`): a .json file contains one or a list of them,
    a .jsonl file one on each line.

    A line that is not JSON comes out as `Unread`, so that the caller decides whether to continue.
    Memory stays at one line. `digest` is a hash from `hashlib` that takes every byte in this same
    read, so that it names what was read, whatever happens to the file afterwards.
    """
    source = source_of(path)
    file, numbered = source.path, source.numbered
    name = "<stdin>" if file == "-" else source.name
    with open_input(source) as opened:
        stream: Any = opened if digest is None else _Hashed(opened, digest)
        if file.endswith((".jsonl", ".ndjson")):
            yield from _lines(stream, name, numbered)
            return
        head = stream.readline(MAX_LINE + 1)
        if not file.endswith(".json") and _is_document(head):
            yield from _lines(stream, name, numbered, begun=head)
            return
        data = head + stream.read(max(0, MAX_LINE + 1 - len(head)))
    if not limited(data, name).strip():
        return
    document = _json_document(data, name)
    if isinstance(document.tree, list):
        for index, tree in enumerate(document.tree):
            yield Document(tree, name, source=data, at=f"[{index}]")
    else:
        yield document


def _is_document(line: bytes) -> bool:
    try:
        return isinstance(parse_json(line), dict)
    except ValueError:
        return False


class LineSplitter:
    """Splits data into lines as it arrives. Blank lines are counted and left out, without work for
    each of them.
    """

    def __init__(self) -> None:
        self.number = 0
        """How many lines have ended."""
        self.held = 0
        """How long the line that has not ended is already."""
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The lines that end in the data, with their numbers."""
        *ended, rest = data.split(b"\n")
        if ended and self._parts:
            ended[0] = b"".join([*self._parts, ended[0]])
            self._parts, self.held = [], 0
        first = self.number + 1
        self.number += len(ended)
        if rest:
            self._parts.append(rest)
            self.held += len(rest)
        return [item for item in enumerate(ended, first) if item[1] and not item[1].isspace()]

    def last(self) -> list[tuple[int, bytes]]:
        """The line after the last line end, unless it is blank."""
        return self.feed(b"\n")


def read_lines(stream: Any, *, begun: bytes = b"") -> Iterator[tuple[int, bytes]]:
    """The lines of a stream that aren't blank, with their numbers. One that is longer than
    `MAX_LINE` is the last, and may be cut off.
    """
    lines = LineSplitter()
    found = lines.feed(begun)
    while True:
        for number, line in found:
            yield number, line
            if len(line) > MAX_LINE:
                return
        data = b"" if lines.held > MAX_LINE else stream.read1(CHUNK)
        if not data:
            yield from lines.last()
            return
        found = lines.feed(data)


def _lines(
    stream: Any, name: str, numbered: bool, *, begun: bytes = b""
) -> Iterator[Document | Unread]:
    for number, line in read_lines(stream, begun=begun):
        yield parse_line(line, name, number if numbered else None)


def parse_line(data: bytes, name: str, number: int | None) -> Document | Unread:
    """A line of a stream that isn't blank: a document or a fault. The number is None where nobody
    knows the lines of the stream.
    """
    if len(data) > MAX_LINE:
        return Unread(
            Fault(
                f"is longer than {MAX_LINE // 2**20} MiB.",
                code="FIL-004",
                file=name,
                line=number,
                fix="The rest of the file was not read.",
            )
        )
    text = data.rstrip(b"\r\n")  # the end of a line that is cut off would be blamed
    try:
        return Document(parse_json(text), name, number)
    except ValueError as error:
        return Unread(json_fault(error, text, file=name, line=number))


def show_path(path: Path) -> str:
    """A path as people write it: `criteria[1].anchors`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def member(tree: Any, *keys: str) -> Any:
    """What is under these keys, in objects inside each other; None where one of them is missing.

    >>> member({"usage": {"tokens": 7}}, "usage", "tokens"), member({"usage": 7}, "usage", "tokens")
    (7, None)
    """
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
