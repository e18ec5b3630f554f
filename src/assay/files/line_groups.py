"""The lines of a .jsonl file that belong together, wherever in the file they are.

Only the places of the lines are kept in memory: a first pass looks for the key in the bytes of each
line, a second one reads the lines of one group after the other.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Any, NamedTuple

from assay.errors import InputError
from assay.files.inputs import open_input
from assay.files.json_files import MAX_LINE
from assay.files.json_stream import loads

MAX_LOOSE = 1000
"""Lines without the key that are kept in memory: a header, a summary."""


class JsonLine(NamedTuple):
    """A document of a file and its line number."""

    number: int
    tree: Any


class LineGroups:
    """The lines of a file by the value that the key `name` has in them, a text or a whole number.

    The first key of that name in a line counts; a line where it turns out to be the key of some
    inner object is refused. Use it in a `with`: the file stays open.
    """

    def __init__(self, path: str, name: str, *, opened: IO[bytes] | None = None) -> None:
        self._path, self._name = path, name
        self._opened = opened
        self._stack = ExitStack()
        self._places: dict[bytes, list[int]] = {}
        self.loose: list[JsonLine] = []
        """The lines without the key."""

    def __enter__(self) -> LineGroups:
        """Look through the file once."""
        stream = self._opened or self._stack.enter_context(open_input(self._path))
        if not stream.seekable():
            kept = self._stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(stream, kept)
            stream = kept
        self._stream = stream
        stream.seek(0)
        value = rb'"%s"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]{1,40}(?![0-9.eE]))'
        search = re.compile(value % re.escape(self._name.encode())).search
        number = place = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise InputError(
                    "FIL-004",
                    f"the line is longer than {MAX_LINE // 2**20} MiB.",
                    where=f"{self._path}:{number}",
                )
            match = search(line)
            if match is not None:
                self._places.setdefault(match[1], []).extend((place, number))
            elif len(self.loose) >= MAX_LOOSE:
                raise InputError(
                    "FIL-002",
                    f"more than {MAX_LOOSE:,} lines have no `{self._name}`.",
                    where=f"{self._path}:{number}",
                )
            elif line.strip():
                self.loose.append(JsonLine(number, loads(line, self._path, number)))
            place += len(line)
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self._stack.close()

    def contains(self, mark: bytes) -> bool:
        """Whether these bytes are somewhere in a line."""
        self._stream.seek(0)
        return any(mark in line for line in self._stream)

    def __iter__(self) -> Iterator[list[JsonLine]]:
        """The groups in the order of their first lines, each with its lines in order."""
        for key, places in self._places.items():
            group = []
            wanted = loads(key, self._path) if b"\\" in key else _plain(key)
            for place, number in zip(places[::2], places[1::2], strict=True):
                self._stream.seek(place)
                tree = loads(self._stream.readline(), self._path, number)
                if not isinstance(tree, dict) or tree.get(self._name) != wanted:
                    raise InputError(
                        "FIL-002",
                        f"`{self._name}` isn't a key of this line's own object.",
                        where=f"{self._path}:{number}",
                    )
                group.append(JsonLine(number, tree))
            yield group


def _plain(key: bytes) -> str | int:
    return key[1:-1].decode("utf-8", "replace") if key.startswith(b'"') else int(key)
