"""Reading what others wrote, and writing so that nothing is ever half there.

JSON comes in with its numbers as decimal text, duplicate keys refused, nesting and size limited.
YAML comes in through its events: the core schema only (`yes` is a word, `012` is a word), no tags,
no anchors, every key with its line. Writing goes to a temporary file that is renamed when it is
whole. What a document means is not known here.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from contextlib import contextmanager
from decimal import Context, Decimal, InvalidOperation
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import jiter

from assay.errors import Fault, InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_LINE = 64 * 1024 * 1024
MAX_YAML = 1024 * 1024
MAX_YAML_DEPTH = 40

Path = tuple[str | int, ...]


class Document(NamedTuple):
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
    """Where in the file the document stands, if it is one of a list."""


class Unread(NamedTuple):
    """A line of a stream that is no document, with its fault."""

    fault: Fault


# --- JSON


def parse_json(data: bytes) -> Any:
    """A JSON document, every number exact. Raises ValueError with the parser's words.

    >>> parse_json(b'{"weight": 0.10}')
    {'weight': Decimal('0.10')}
    """
    return jiter.from_json(
        data,
        allow_inf_nan=False,
        catch_duplicate_keys=True,
        float_mode="decimal",
        cache_mode="keys",
    )


def json_fault(error: ValueError, data: bytes, *, file: str, line: int | None) -> Fault:
    """What the parser's complaint means, and where."""
    message = str(error)
    place = re.search(r" at line (\d+) column (\d+)$", message)
    text = message[: place.start()] if place else message
    row, column = (int(place[1]), int(place[2])) if place else (1, 1)
    at_line = row if line is None else line
    if data[:3] == b"\xef\xbb\xbf":
        return Fault(
            "starts with a byte-order mark (BOM).",
            fix="Save it as UTF-8 without one.",
            file=file,
            line=at_line,
        )
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in data[:64]:
        return Fault("is not UTF-8 text.", fix="JSON here is UTF-8.", file=file, line=at_line)
    if text.startswith("Detected duplicate key"):
        key = text[len("Detected duplicate key ") :]
        return Fault(
            f"the key {key} stands twice in one object (column {column}).",
            code="FIL-003",
            fix="Which one holds? Keep one.",
            file=file,
            line=at_line,
        )
    if text.startswith("recursion limit"):
        return Fault("nests more than 200 deep.", code="FIL-004", file=file, line=at_line)
    rows = data.split(b"\n", row)
    here = rows[row - 1][max(0, column - 1) : column + 8] if len(rows) >= row else b""
    word = re.search(
        rb"-?(NaN|Infinity|nan|inf)",
        (rows[row - 1][max(0, column - 3) : column + 9] if len(rows) >= row else b""),
    )
    if word:
        return Fault(
            f"not JSON at column {column}: {word[0].decode()} is no number.",
            fix="Write null for a missing value.",
            file=file,
            line=at_line,
        )
    if text.startswith("EOF"):
        column = len(data.rstrip(b"\r\n")) if line is not None else column
        return Fault(
            f"not JSON: it ends in the middle of a value (column {column}).",
            fix="The file or line is cut off.",
            file=file,
            line=at_line,
        )
    seen = f", at {here.decode('utf-8', 'replace')!r}" if here else ""
    return Fault(f"not JSON at column {column}: {text}{seen}.", file=file, line=at_line)


def parse_wide_json(data: bytes) -> Any:
    """Like `parse_json`, for documents of JavaScript programs, whose texts may hold half of a
    surrogate pair.
    """
    try:
        return parse_json(data)
    except ValueError:
        if b"\\ud" not in data and b"\\uD" not in data:
            raise
    import json  # only for such documents; it is a fifth as fast

    return json.loads(
        data, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_unique
    )


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(
            key
            for index, (key, _) in enumerate(pairs)
            if any(key == other for other, _ in pairs[:index])
        )
        raise ValueError(f'Detected duplicate key "{twice}"')
    return made


def read_json(path: str, *, lone_surrogates: bool = False) -> Document:
    """The one JSON document in a file, with the line of each of its parts."""
    data = _whole(path)
    return _json_document(data, path, parse_wide_json if lone_surrogates else parse_json)


def _json_document(data: bytes, file: str, parse: Callable[[bytes], Any] = parse_json) -> Document:
    if not data.strip():
        raise InputError("FIL-005", "the file is empty.", where=file)
    try:
        return Document(parse(data), file, source=data)
    except (ValueError, RecursionError) as error:
        error = error if isinstance(error, ValueError) else ValueError("recursion limit exceeded")
        fault = json_fault(error, data, file=file, line=None)
        raise InputError(
            fault.code, fault.message, where=file, fix=fault.fix, faults=[fault]
        ) from None


def _whole(path: str) -> bytes:
    with open_input(path) as stream:
        data = stream.read(MAX_LINE + 1)
    if len(data) > MAX_LINE:
        raise InputError(
            "FIL-004",
            f"is larger than {MAX_LINE // 2**20} MiB.",
            where=path,
            fix="Put one document on each line of a .jsonl file.",
        )
    return data


class _Hashed:
    """A stream that hashes every byte as it is read."""

    def __init__(self, stream: IO[bytes], digest: Any) -> None:
        self._stream, self._update = stream, digest.update

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._update(data)
        return data

    def readline(self, size: int = -1) -> bytes:
        data = self._stream.readline(size)
        self._update(data)
        return data


def stream_documents(path: str, *, digest: Any = None) -> Iterator[Document | Unread]:
    """Documents of a file or of standard input (`-`): a .json file holds one or a list of them, a
    .jsonl file one on each line.

    A line that is no JSON comes out as `Unread`, so that the caller decides whether to go on.
    Memory stays at one line. `digest` is a hash from `hashlib` that takes every byte in this same
    read, so that it names what was read, whatever happens to the file afterwards.
    """
    name = "<stdin>" if path == "-" else path
    with open_input(path) as opened:
        stream: Any = opened if digest is None else _Hashed(opened, digest)
        if path.endswith((".jsonl", ".ndjson")):
            yield from _lines(stream, name)
            return
        head = stream.readline(MAX_LINE + 1)
        if not path.endswith(".json") and _is_document(head):
            yield from _lines(stream, name, first=head)
            return
        data = head + stream.read(max(0, MAX_LINE + 1 - len(head)))
    if len(data) > MAX_LINE:
        raise InputError(
            "FIL-004",
            f"is larger than {MAX_LINE // 2**20} MiB.",
            where=name,
            fix="Put one document on each line of a .jsonl file.",
        )
    if not data.strip():
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


def _lines(
    stream: IO[bytes], name: str, *, first: bytes | None = None
) -> Iterator[Document | Unread]:
    number = 0
    while True:
        data = first if first is not None else stream.readline(MAX_LINE + 1)
        first = None
        if not data:
            return
        number += 1
        parsed = parse_line(data, name, number)
        if parsed is not None:
            yield parsed
        if len(data) > MAX_LINE:
            return  # the rest of an endless line is not a line


def parse_line(data: bytes, name: str, number: int) -> Document | Unread | None:
    """One line of a stream: a document, a fault, or None for a blank line."""
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
    try:
        return Document(parse_json(data), name, number)
    except ValueError:
        text = data.rstrip(b"\r\n")
        if not text.strip():
            return None
        try:
            parse_json(
                text
                # again without the line's end, which would be the fault of a line that is cut off
                # inside a text
            )
        except ValueError as worse:
            error = worse
        return Unread(json_fault(error, text, file=name, line=number))


@contextmanager
def open_input(path: str) -> Iterator[IO[bytes]]:
    """A file opened for reading, or standard input for `-`; errors say what to do."""
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open(  # noqa: SIM115
            path, "rb", buffering=1024 * 1024
        )  # closed below; the errors of opening are ours to word
    except FileNotFoundError:
        from difflib import get_close_matches  # only on the way to an error

        folder, base = os.path.split(path)
        try:
            near = get_close_matches(base, os.listdir(folder or "."), n=1)
        except OSError:
            near = []
        hint = f" Did you mean '{os.path.join(folder, near[0])}'?" if near else ""
        raise InputError("FIL-001", f"there is no such file.{hint}", where=path) from None
    except IsADirectoryError:
        raise InputError(
            "FIL-001",
            "is a directory.",
            where=path,
            fix="Name the files in it, for example with a wildcard.",
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            "FIL-001", f"cannot be read: {getattr(error, 'strerror', None) or error}.", where=path
        ) from None
    with stream:
        yield stream


# --- YAML

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    "null": None,
    "Null": None,
    "NULL": None,
    "~": None,
    "": None,
    "true": True,
    "True": True,
    "false": False,
    "False": False,
}


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) and len(text) < 1000:
        return int(text)
    if _FLOAT.fullmatch(text) and len(text) < 1000:
        return _decimal(text)
    return text


_EXACTLY = Context(prec=1000)


def _decimal(text: str) -> Decimal | str:
    """A decimal without trailing zeros, so that 0.60 is written as 0.6 ever after. One beyond all
    measure stays as it is, to be refused where it is used.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if abs(number.adjusted()) > 300:
        return number
    return (
        Decimal(int(number))
        if exponent > 0
        else (
            number.normalize(_EXACTLY)
            if number.adjusted() < 0 or number != int(number)
            else Decimal(int(number))
        )
    )


def read_yaml(path: str) -> Document:
    """The YAML document of a file."""
    with open_input(path) as stream:
        return parse_yaml(stream.read(MAX_YAML + 1), path)


def parse_yaml(data: bytes, file: str) -> Document:
    """A YAML document with the line of each of its parts, or an error with every fault found."""
    import yaml  # a third of the cost of starting up, and not every command reads YAML

    if len(data) > MAX_YAML:
        raise InputError("FIL-004", f"is larger than {MAX_YAML // 1024} KiB.", where=file)
    builder = _YamlBuilder(file)
    try:
        for event in yaml.parse(
            data.decode("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        ):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        where = f"line {mark.line + 1}: " if mark else ""
        raise InputError("FIL-002", f"{where}not YAML: {problem}.", where=file) from None
    except UnicodeDecodeError:
        raise InputError("FIL-002", "is not UTF-8 text.", where=file) from None
    return builder.document()


_NO_KEY = object()


class _Open:
    """A mapping or list that is being filled."""

    __slots__ = ("key", "path", "value")

    def __init__(self, value: Any, path: Path) -> None:
        self.value = value
        self.path = path
        self.key: Any = _NO_KEY


class _YamlBuilder:
    """Builds a tree from YAML events, without recursion, and notes the line of everything."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.lines: dict[Path, int] = {}
        self.root: list[Any] = []
        self.stack: list[_Open] = []
        self.documents = 0

    def document(self) -> Document:
        if self.faults:
            raise InputError(
                self.faults[0].code, self.faults[0].message, where=self.file, faults=self.faults
            )
        if not self.root:
            raise InputError("FIL-005", "the file is empty.", where=self.file)
        return Document(self.root[0], self.file, None, self.lines)

    def take(self, event: Any) -> None:
        line = event.start_mark.line + 1
        kind = type(event).__name__
        if kind == "ScalarEvent":
            if event.tag is not None and event.tag != "!":
                self._fault(f"the tag {event.tag} is not allowed.", line)
            if event.anchor is not None:
                self._fault("tags and anchors are not allowed.", line, fix="Write the value out.")
            self._put(_scalar(event.value) if event.implicit[0] else event.value, line)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            if event.tag is not None or event.anchor is not None:
                self._fault("tags and anchors are not allowed.", line, fix="Write the value out.")
            self._open({} if kind == "MappingStartEvent" else [], line)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self.stack.pop()
        elif kind == "AliasEvent":
            raise InputError(
                "FIL-002",
                f"line {line}: aliases are not allowed.",
                where=self.file,
                fix="Write the value out.",
            )
        elif kind == "DocumentStartEvent":
            self.documents += 1
            if self.documents > 1:
                raise InputError(
                    "FIL-002",
                    f"line {line}: a second document begins; one file holds one.",
                    where=self.file,
                )

    def _fault(
        self, message: str, line: int, *, code: str = "FIL-002", path: Path = (), fix: str = ""
    ) -> None:
        self.faults.append(
            Fault(message, code=code, file=self.file, line=line, path=show_path(path), fix=fix)
        )

    def _open(self, value: Any, line: int) -> None:
        if len(self.stack) >= MAX_YAML_DEPTH:
            raise InputError(
                "FIL-004", f"nests more than {MAX_YAML_DEPTH} deep at line {line}.", where=self.file
            )
        path: Path = ()
        if self.stack:
            top = self.stack[-1]
            if isinstance(top.value, dict) and top.key is _NO_KEY:
                raise InputError(
                    "FIL-002", f"line {line}: a key must be a plain word.", where=self.file
                )
            path = (
                (*top.path, len(top.value))
                if isinstance(top.value, list)
                else (*top.path, str(top.key))
            )
        self._put(value, line)
        self.stack.append(_Open(value, path))

    def _put(self, value: Any, line: int) -> None:
        if not self.stack:
            self.lines[()] = line
            self.root.append(value)
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            self.lines[(*top.path, len(top.value))] = line
            top.value.append(value)
        elif top.key is _NO_KEY:
            if not isinstance(value, str):
                value = str(value).lower() if isinstance(value, bool) else str(value)
            if value in top.value:
                self._fault(
                    f"the key '{value}' stands twice.",
                    line,
                    code="FIL-003",
                    path=top.path,
                    fix="Keep one.",
                )
            top.key = value
            self.lines.setdefault((*top.path, value), line)
        else:
            top.value[top.key] = value
            top.key = _NO_KEY


def locate(source: bytes) -> dict[str, int]:
    """The line of each part of a JSON text, by its path as people write it; nothing where the text
    is too large or no YAML would read it.
    """
    try:
        lines = parse_yaml(source, "").lines or {}
    except InputError:
        return {}
    return {show_path(path): line for path, line in lines.items()}


def show_path(path: Path) -> str:
    """A path as people write it: `criteria[1].anchors`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


# --- writing


@contextmanager
def atomic_write(path: str) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name only when the block ends well: a reader sees the old
    file or the whole new one.
    """
    with _part(path) as (stream, temporary):
        yield stream
        _keep(stream)
        os.replace(temporary, path)


@contextmanager
def atomic_create(path: str) -> Iterator[IO[bytes]]:
    """Like `atomic_write`, but never over a file that is there: then it raises FileExistsError,
    also when two processes come at once.

    What is created so is evidence that nothing can make anew: its name is on the disk too before
    the block ends.
    """
    with _part(path) as (stream, temporary):
        yield stream
        _keep(stream)
        os.link(temporary, path)
        _sync_folder(path)


@contextmanager
def _part(path: str) -> Iterator[tuple[IO[bytes], str]]:
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(8).hex()}.part")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=path) from None
    try:
        with os.fdopen(handle, "wb", buffering=1024 * 1024) as stream:
            yield stream, temporary
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _DISK:
            raise
        raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=path) from None
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


_DISK = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EROFS)
"""What a disk says when it can take no more."""


def _keep(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _sync_folder(path: str) -> None:
    """Make the new name survive a power cut too."""
    handle = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
