"""Values kept on disk between two passes. An importer that needs the whole file before its first
run reads the file once, and then its rows from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any

import msgspec

from assay.errors import InputError
from assay.files.json_files import parse_json

_encode = msgspec.json.Encoder(decimal_format="number").encode


def json_line(value: Any) -> bytes:
    """A value as one line of JSON, numbers as they were written."""
    return _encode(value) + b"\n"


class Spool:
    """Plain values on disk, in order. The file is private and is deleted when the spool is closed.
    `path` is the file that the values come from, for error messages.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = TemporaryFile(buffering=1024 * 1024)  # noqa: SIM115 (see __exit__)

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()

    def add(self, value: Any) -> None:
        """Keep one more value."""
        try:
            self._file.write(json_line(value))
        except RecursionError:
            raise self._deep() from None

    def __iter__(self) -> Iterator[Any]:
        """The values, from the first."""
        self._file.seek(0)
        for line in self._file:
            try:
                yield parse_json(line, is_own=True)
            except ValueError:
                raise self._deep() from None

    def _deep(self) -> InputError:
        return InputError("FIL-004", "a value nests more than 200 deep.", where=self._path)
