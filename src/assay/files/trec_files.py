"""Reading TREC judgements (qrels) and run files.

Fields are separated by spaces or tabs, lines end in LF or CRLF; blank lines and lines that begin
with `#` are skipped, and anything after the run's name is ignored, all as trec_eval does. But
trec_eval reads a grade `x` as 0 and a score `nan` as a number; here a malformed field is a fault.
All faults of a file are reported at once, the first 20 with their lines. The file is read in
blocks, so that an endless line can't fill the memory.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import IO, Generic, NamedTuple, TypeVar

from assay.errors import FaultList, InputError
from assay.files.inputs import open_input

T = TypeVar("T")

MAX_LINE = 64 * 1024
"""A line of a TREC file has six short fields."""
MAX_DIGITS = 6
MAX_GRADE: int = 10**MAX_DIGITS
"""trec_eval keeps a counter for each grade up to the highest; a grade of a million is a slip."""
_BLOCK = 256 * 1024
_SHOWN = 60
_COMMENT = ord("#")


def _text(field: bytes) -> str:
    shown = field[:_SHOWN].decode("utf-8", "backslashreplace")
    return shown + ("..." if len(field) > _SHOWN else "")


def _lines(stream: IO[bytes], faults: FaultList) -> Iterator[list[bytes]]:
    """The lines of a file, a block at a time; the last line needs no end."""
    rest = stream.read(len(BOM_UTF8)).removeprefix(BOM_UTF8)
    number = 0
    while block := stream.read(_BLOCK):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        number += len(lines)
        yield lines
        if len(rest) > MAX_LINE:
            faults.add(
                f"the line is longer than {MAX_LINE // 1024} KiB.",
                line=number + 1,
                fix="The rest of the file was not read.",
            )
            return
    if rest:
        yield [rest]


class _Shape(NamedTuple, Generic[T]):
    """The fields of a line in one kind of file. The document is the third field."""

    fields: int
    splits: int
    """As many as there are fields, where nothing may follow the last; one less, where anything
    may.
    """
    named: str
    place: int
    """Of the value."""
    read: Callable[[bytes], T]
    holds: Callable[[T], bool]
    wrong: str
    fix: str


def _whole(field: bytes) -> int:
    return int(field[: MAX_DIGITS + 4])  # more digits are out of range anyway, and slow to read


_JUDGEMENT = _Shape(
    4,
    4,
    "a judgement has 4: query, iteration, document, grade",
    3,
    _whole,
    lambda value: -MAX_GRADE <= value <= MAX_GRADE,
    "the grade '{}' is not a whole number.",
    "trec_eval would read a part, or 0.",
)
_RESULT = _Shape(
    6,
    5,
    "a result has 6: query, Q0, document, rank, score, name of the run",
    4,
    float,
    isfinite,
    "the score '{}' is not a finite number.",
    "Leave it out.",
)


def read_qrels(path: str) -> dict[str, dict[str, int]]:
    """Grades by query and document, from lines `query iteration document grade`.

    A document judged twice for one query is a fault where the grades differ; the same judgement
    twice is one judgement. A file without judgements is a fault.
    """
    return _read(path, _JUDGEMENT, same_again=True)


def read_run(path: str) -> dict[str, dict[str, float]]:
    """Scores by query and document, from lines `query Q0 document rank score name`. The rank is not
    read: it follows from the scores.

    A document that appears twice for one query is a fault, as for trec_eval, and so is a score that
    is not a finite number. A file without results is a fault.
    """
    return _read(path, _RESULT, same_again=False)


def ranking(scores: Mapping[str, float]) -> list[str]:
    """Document ids in trec_eval's order: by score, then by id, both from high to low.

    >>> ranking({"a": 1.0, "b": 1.0, "c": 2.0})
    ['c', 'b', 'a']
    """
    # ids are compared by code point, which for UTF-8 is the order of strcmp; the second sort keeps
    # it among equals
    return sorted(sorted(scores, reverse=True), key=scores.__getitem__, reverse=True)


def _read(path: str, shape: _Shape[T], *, same_again: bool) -> dict[str, dict[str, T]]:
    values: dict[str, dict[str, T]] = {}
    faults = FaultList(path, code="SCO-031")
    number = 0
    with open_input(path) as stream:
        for lines in _lines(stream, faults):
            _take_lines(lines, shape, values, faults, number, same_again=same_again)
            number += len(lines)
    faults.raise_if_any()
    if not values:
        raise InputError("FIL-005", f"the file has no lines to read; {shape.named}.", where=path)
    return values


def _take_lines(
    lines: list[bytes],
    shape: _Shape[T],
    values: dict[str, dict[str, T]],
    faults: FaultList,
    number: int,
    *,
    same_again: bool,
) -> None:
    """Read the lines of a block, and note every fault; `number` lines come before it."""
    for line, text in enumerate(lines, number + 1):
        fields = text.split(None, shape.splits)
        if not fields or fields[0][0] == _COMMENT:
            continue
        if len(fields) != shape.fields:
            count = f"more than {shape.fields}" if len(fields) > shape.fields else len(fields)
            faults.add(f"{count} fields; {shape.named}.", line=line)
            continue
        written = fields[shape.place]
        try:
            name, document = fields[0].decode(), fields[2].decode()
        except UnicodeDecodeError:
            faults.add(f"'{_text(fields[0])} {_text(fields[2])}' is not UTF-8 text.", line=line)
            continue
        try:
            value = shape.read(written)
        except ValueError:
            value = None
        if value is None or b"_" in written or not shape.holds(value):
            faults.add(shape.wrong.format(_text(written)), line=line, fix=shape.fix)
            continue
        kept = values.setdefault(name, {}).setdefault(document, value)
        if kept is not value and not (same_again and kept == value):
            again = f"judged twice, {kept} and {value}" if same_again else "listed twice"
            faults.add(
                f"query '{_text(fields[0])}': the document '{_text(fields[2])}' is {again}.",
                line=line,
                code="SCO-032",
                fix="Keep one.",
            )
