"""ZIP archives that others wrote, read in place: nothing is unpacked to disk.

Each entry is read as a stream, so that only the list of entries is in memory, and its length is
limited. An entry yields no more bytes than it states, and that number is limited too, so that a
small archive can't exhaust memory. Stored, Deflate and Zstandard entries are read, the last with
the extra `inspect`; encrypted ones are refused.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any
from zipfile import BadZipFile, ZipFile, ZipInfo

from assay.errors import InputError
from assay.files.inputs import open_input
from assay.installing import install_hint

MAX_LIST = 64 * 1024**2
"""Bytes of the list of entries: enough for half a million of them."""
MAX_NAME = 4096
MAX_ENTRY = 8 * 1024**3
"""Bytes of one entry, unpacked."""
MAX_TOTAL = 256 * 1024**3
"""Bytes of all entries, unpacked."""
MAX_RATIO = 400
"""How many bytes may come out of one, in an entry of more than `FREE` bytes: logs shrink to a
tenth, long runs of one letter to a hundredth.
"""
FREE = 16 * 1024**2
CHUNK = 64 * 1024
STORED, DEFLATE, ZSTANDARD = 0, 8, 93

_LOCAL = struct.Struct("<4s22x2H")
_ENDS = {b"PK\5\6": struct.Struct("<10xH"), b"PK\6\6": struct.Struct("<32xQ")}
"""How many entries the end of the list states, by its signature."""


class Archive:
    """A ZIP archive that is open for reading."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream, self._path = stream, path
        self._length = stream.seek(0, os.SEEK_END)
        try:
            self._listed = ZipFile(_ListStream(stream, self)).infolist()
        except (BadZipFile, NotImplementedError, OSError, OverflowError, ValueError, struct.error):
            raise self._broken("its list of entries is damaged or missing") from None
        end = stream.read(40)  # it follows the list, where ZipFile stopped
        stated = _ENDS.get(end[:4])
        if stated is None or len(self._listed) != stated.unpack_from(end)[0]:
            raise self._broken("its list doesn't have the number of entries that it states")
        for entry in self._listed:
            self._check(entry)
        if sum(entry.file_size for entry in self._listed) > MAX_TOTAL:
            raise self.fault(
                "FIL-004", f"its entries unpack to more than {MAX_TOTAL // 1024**3} GiB."
            )
        if sum(entry.compress_size for entry in self._listed) > self._length:
            raise self.fault("FIL-004", "its entries overlap, as in a ZIP bomb.")
        self.count = len(self._listed)

    def entries(self) -> list[ZipInfo]:
        """The entries in the order of the archive's list, the last one of each name: a tool may
        append a new version of an entry after the old one.
        """
        last = {entry.filename: entry for entry in self._listed}
        return [entry for entry in self._listed if last[entry.filename] is entry]

    @contextmanager
    def open(self, entry: ZipInfo) -> Iterator[IO[bytes]]:
        """The bytes of an entry, as a stream that is checked to the end."""
        at, head = entry.header_offset, b""
        if 0 <= at < self._length:
            self._stream.seek(at)
            head = self._stream.read(_LOCAL.size)
        signature, name_length, more_length = _LOCAL.unpack(head.ljust(_LOCAL.size))
        begin = at + _LOCAL.size + name_length + more_length
        if signature != b"PK\x03\x04" or begin + entry.compress_size > self._length:
            raise self.broken(entry, "is not where the list places it")
        packed = _Packed(self._stream, begin, entry.compress_size)
        yield _Unpacked(self._unpacker(packed, entry), entry, self)  # type: ignore[misc]

    def read(self, entry: ZipInfo, limit: int) -> bytes:
        """A whole small entry."""
        if entry.file_size > limit:
            raise self.fault(
                "FIL-004", f"the entry {entry.filename!r} has more than {limit // 1024**2} MiB."
            )
        with self.open(entry) as stream:
            data = bytearray()
            while piece := stream.read(CHUNK):
                data += piece
        return bytes(data)

    def _check(self, entry: ZipInfo) -> None:
        name = entry.orig_filename
        parts = name.split("/")
        if (
            not name
            or len(name) > MAX_NAME
            or not name.isprintable()
            or "\\" in name
            or ".." in parts
            or name.startswith("/")
            or name[1:2] == ":"
        ):
            raise self.fault(
                "FIL-002", f"an entry is named {name[:80]!r}, which isn't a plain relative path."
            )
        if entry.flag_bits & 0x2041:
            raise self.fault(
                "FIL-002", f"the entry {name!r} is encrypted.", "Save it without a password."
            )
        if entry.compress_type not in (STORED, DEFLATE, ZSTANDARD):
            raise self.fault(
                "FIL-002",
                f"the entry {name!r} is packed by method {entry.compress_type}.",
                "Pack it again with Deflate, or with Zstandard (method 93).",
            )
        if entry.file_size > MAX_ENTRY:
            raise self.fault(
                "FIL-004", f"the entry {name!r} has more than {MAX_ENTRY // 1024**3} GiB."
            )
        packed = max(1, entry.compress_size)
        if entry.file_size > FREE and entry.file_size > MAX_RATIO * packed:
            raise self.fault(
                "FIL-004",
                f"the entry {name!r} unpacks to {entry.file_size // packed:,} times its size, as in"
                " a ZIP bomb.",
            )

    def _unpacker(self, packed: _Packed, entry: ZipInfo) -> Any:
        if entry.compress_type == STORED:
            return packed
        if entry.compress_type == DEFLATE:
            return _Inflated(packed)
        try:
            import zstandard  # an optional extra
        except ImportError:
            raise self.fault(
                "FIL-001",
                f"the entry {entry.filename!r} is packed with Zstandard, which needs a package that"
                " is not installed.",
                f"Run: {install_hint('inspect')}",
            ) from None
        return zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(
            packed,  # type: ignore[arg-type]
            read_across_frames=True,
        )

    def broken(self, entry: ZipInfo, what: str) -> InputError:
        """The error for an entry whose bytes are not what the list states."""
        return self._broken(f"the entry {entry.filename!r} {what}")

    def _broken(self, what: str) -> InputError:
        return self.fault(
            "FIL-002",
            f"is a damaged ZIP archive: {what}.",
            "The file may be cut off, or still being written. Copy it again.",
        )

    def fault(self, code: str, message: str, fix: str = "") -> InputError:
        """An error of this archive."""
        return InputError(code, message, where=self._path, fix=fix)


class _ListStream:
    """What the list of entries is read from; one that is too long is refused before it is read."""

    def __init__(self, stream: IO[bytes], archive: Archive) -> None:
        self.seek, self.tell = stream.seek, stream.tell
        self._stream, self._archive = stream, archive

    def read(self, size: int = -1) -> bytes:
        if size > MAX_LIST:
            most = f"{MAX_LIST // 1024**2} MiB"
            raise self._archive.fault("FIL-004", f"its list of entries has more than {most}.")
        return self._stream.read(size)


class _Packed:
    """The bytes of an entry as they are in the archive. Reading elsewhere in between is allowed."""

    def __init__(self, stream: IO[bytes], begin: int, size: int) -> None:
        self._stream, self._at, self._end = stream, begin, begin + size

    def read(self, size: int = -1) -> bytes:
        left = self._end - self._at
        self._stream.seek(self._at)
        data = self._stream.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data


class _Inflated:
    def __init__(self, packed: _Packed) -> None:
        self._packed, self._zlib, self._rest = packed, zlib.decompressobj(-15), b""

    def read(self, size: int) -> bytes:
        while not self._zlib.eof:
            data = self._rest or self._packed.read(CHUNK)
            made = self._zlib.decompress(data, size)
            self._rest = self._zlib.unconsumed_tail
            if made or not data:
                return made
        return b""


class _Unpacked:
    """The bytes of an entry, counted and checksummed as they are read."""

    def __init__(self, source: Any, entry: ZipInfo, archive: Archive) -> None:
        self._source, self._entry, self._archive = source, entry, archive
        self._left, self._crc = entry.file_size, 0

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        pieces = []
        while wanted > 0:
            piece = self._piece(wanted)
            if not piece:
                raise self._archive.broken(self._entry, "ends too early")
            pieces.append(piece)
            wanted -= len(piece)
            self._left -= len(piece)
            self._crc = zlib.crc32(piece, self._crc)
        if not self._left:
            if self._piece(1):
                raise self._archive.broken(self._entry, "is longer than it states")
            if self._crc != self._entry.CRC:
                raise self._archive.broken(self._entry, "does not have the checksum it states")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, size: int) -> bytes:
        try:
            return self._source.read(size)  # type: ignore[no-any-return]
        except Exception as error:  # zlib.error, or an error of Zstandard
            if isinstance(error, OSError | MemoryError):
                raise
            raise self._archive.broken(self._entry, "can't be unpacked") from None


@contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """A ZIP archive, opened for reading."""
    with open_input(path) as stream:
        if not stream.seekable():
            raise InputError(
                "FIL-001",
                "a ZIP archive can't be read from a pipe.",
                where=path,
                fix="Save it to a file and name that.",
            )
        yield Archive(stream, path)
