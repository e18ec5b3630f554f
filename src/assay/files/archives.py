"""ZIP archives that others wrote, read in place: nothing is unpacked to disk.

The list of entries is read piece by piece and each entry as a stream, so that any archive is read
in constant memory. An entry yields no more bytes than it states, and that number is limited, so
that a small archive can't exhaust memory. Stored, Deflate and Zstandard
entries are read, the last with the extra `inspect`; encrypted ones are refused.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import IO, Any, NamedTuple

from assay.errors import InputError
from assay.files.json_files import open_input
from assay.installing import install_hint

MAX_ENTRIES = 2_000_000
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
WINDOW = 256 * 1024
STORED, DEFLATE, ZSTANDARD = 0, 8, 93

_END = Struct("<4s4H2LH")
_END64 = Struct("<4sQ2H2L4Q")
_LOCATOR64 = Struct("<4sLQL")
_ENTRY = Struct("<4s6H3L5H2L")
_LOCAL = Struct("<4s5H3L2H")
_FIELD = Struct("<2H")
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF


class ArchiveEntry(NamedTuple):
    """One file in an archive."""

    name: str
    method: int
    crc: int
    packed: int
    """Bytes in the archive."""
    size: int
    """Bytes when unpacked, as the archive states them."""
    offset: int


class Archive:
    """A ZIP archive that is open for reading."""

    def __init__(self, stream: IO[bytes], path: str) -> None:
        self._stream, self._path = stream, path
        self._length = stream.seek(0, os.SEEK_END)
        self.count, self._directory, self._at = self._end()
        self._window, self._window_at = b"", 0

    def entries(self, *, superseded: bool = False) -> Iterator[ArchiveEntry]:
        """The entries in the order of the archive's list, each of them checked. Two of one name are
        refused, unless the tool appends a new version of an entry after the old one: with
        `superseded`, the last entry of each name counts.
        """
        last: dict[str, int] = {}
        for index, entry in enumerate(self._entries()):
            if entry.name in last and not superseded:
                raise self._fault("FIL-003", f"two entries are named {entry.name[:80]!r}.")
            last[entry.name] = index
        for index, entry in enumerate(self._entries()):
            if last[entry.name] == index:
                yield entry

    def _entries(self) -> Iterator[ArchiveEntry]:
        total = packed = 0
        at, end = self._at, self._at + self._directory
        for _ in range(self.count):
            entry, at = self._entry(at, end)
            total += entry.size
            packed += entry.packed
            if total > MAX_TOTAL:
                raise self._fault(
                    "FIL-004", f"its entries unpack to more than {MAX_TOTAL // 1024**3} GiB."
                )
            if packed > self._length:
                raise self._fault("FIL-004", "its entries overlap, as in a ZIP bomb.")
            yield entry
        if at != end:
            raise self._broken("its list of entries is longer than it states")

    @contextmanager
    def open(self, entry: ArchiveEntry) -> Iterator[IO[bytes]]:
        """The bytes of an entry, as a stream that is checked to the end."""
        head = self._part(entry.offset, _LOCAL.size)
        signature, *_, name_length, more_length = _LOCAL.unpack(head)
        begin = entry.offset + _LOCAL.size + name_length + more_length
        if signature != b"PK\x03\x04" or begin + entry.packed > self._length:
            raise self._broken(f"the entry {entry.name!r} is not where the list places it")
        packed = _Packed(self._stream, begin, entry.packed)
        yield _Unpacked(self._unpacker(packed, entry), entry, self)  # type: ignore[misc]

    def read(self, entry: ArchiveEntry, limit: int) -> bytes:
        """A whole small entry."""
        if entry.size > limit:
            raise self._fault(
                "FIL-004", f"the entry {entry.name!r} has more than {limit // 1024**2} MiB."
            )
        with self.open(entry) as stream:
            data = bytearray()
            while piece := stream.read(CHUNK):
                data += piece
        return bytes(data)

    # --- the list of entries

    def _end(self) -> tuple[int, int, int]:
        """The number of entries, the size of their list, and where it begins."""
        tail_at = max(0, self._length - _END.size - _FULL16)
        tail = self._part(tail_at, self._length - tail_at)
        found = tail.rfind(b"PK\x05\x06")
        if found < 0 or found + _END.size > len(tail):
            raise self._broken("its list of entries is missing")
        _, disk, first, here, count, size, at, _ = _END.unpack_from(tail, found)
        if (disk, first) not in ((0, 0), (_FULL16, _FULL16)) or here != count:
            raise self._fault("FIL-002", "is one of several parts of a ZIP archive.")
        if count == _FULL16 or _FULL32 in (size, at):
            count, size, at = self._end64(tail_at + found)
        if count > MAX_ENTRIES:
            raise self._fault("FIL-004", f"has more than {MAX_ENTRIES:,} entries.")
        if at + size > tail_at + found:
            raise self._broken("its list of entries is not at the place it names")
        return count, size, at

    def _end64(self, end: int) -> tuple[int, int, int]:
        signature, _, at, _ = _LOCATOR64.unpack(self._part(end - _LOCATOR64.size, _LOCATOR64.size))
        if signature != b"PK\x06\x07":
            raise self._broken("its list of entries is missing")
        signature, *_, count, size, begin = _END64.unpack(self._part(at, _END64.size))
        if signature != b"PK\x06\x06":
            raise self._broken("its list of entries is missing")
        return count, size, begin

    def _entry(self, at: int, end: int) -> tuple[ArchiveEntry, int]:
        """The entry that is listed there, and where the next one is."""
        if at + _ENTRY.size > end:
            raise self._broken("its list of entries is shorter than it states")
        fields = _ENTRY.unpack(self._listed(at, _ENTRY.size))
        signature, _, _, flags, method, _, _, crc, packed, size, names, more, note, *_ = fields
        offset = fields[-1]
        after = at + _ENTRY.size + names + more + note
        if signature != b"PK\x01\x02" or after > end:
            raise self._broken("its list of entries is damaged")
        rest = self._listed(at + _ENTRY.size, names + more)
        try:
            name = rest[:names].decode("utf-8" if flags & 0x800 else "cp437")
        except UnicodeDecodeError:
            raise self._fault("FIL-002", "the name of an entry is not UTF-8.") from None
        size, packed, offset = self._wide(rest[names:], size, packed, offset)
        entry = ArchiveEntry(name, method, crc, packed, size, offset)
        self._check(entry, flags)
        return entry, after

    def _wide(self, more: bytes, *numbers: int) -> list[int]:
        """Sizes and offset; those that don't fit are in a separate field."""
        if _FULL32 not in numbers:
            return list(numbers)
        at = 0
        while at + 4 <= len(more):
            kind, length = _FIELD.unpack_from(more, at)
            if kind == 1:
                field = io.BytesIO(more[at + 4 : at + 4 + length])
                return [
                    int.from_bytes(field.read(8), "little") if number == _FULL32 else number
                    for number in numbers
                ]
            at += 4 + length
        raise self._broken("the size of an entry is missing")

    def _check(self, entry: ArchiveEntry, flags: int) -> None:
        name = entry.name
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
            raise self._fault(
                "FIL-002", f"an entry is named {name[:80]!r}, which isn't a plain relative path."
            )
        if flags & 0x2041:
            raise self._fault(
                "FIL-002", f"the entry {name!r} is encrypted.", "Save it without a password."
            )
        if entry.method not in (STORED, DEFLATE, ZSTANDARD):
            raise self._fault(
                "FIL-002",
                f"the entry {name!r} is packed by method {entry.method}.",
                "Pack it again with Deflate, or with Zstandard (method 93).",
            )
        if entry.size > MAX_ENTRY:
            raise self._fault(
                "FIL-004", f"the entry {name!r} has more than {MAX_ENTRY // 1024**3} GiB."
            )
        if entry.size > FREE and entry.size > MAX_RATIO * max(1, entry.packed):
            raise self._fault(
                "FIL-004",
                f"the entry {name!r} unpacks to {entry.size // max(1, entry.packed):,} times its"
                " size, as in a ZIP bomb.",
            )

    # --- bytes

    def _listed(self, at: int, size: int) -> bytes:
        """A part of the list of entries, read in large pieces: between two entries the stream is
        elsewhere, in the data.
        """
        begin = at - self._window_at
        if begin < 0 or begin + size > len(self._window):
            end = self._at + self._directory
            self._window = self._part(at, max(size, min(WINDOW, end - at)))
            self._window_at, begin = at, 0
        return self._window[begin : begin + size]

    def _part(self, at: int, size: int) -> bytes:
        if at < 0 or size < 0 or at + size > self._length:
            raise self._broken("it ends too early")
        self._stream.seek(at)
        data = self._stream.read(size)
        if len(data) != size:
            raise self._broken("it ends too early")
        return data

    def _unpacker(self, packed: _Packed, entry: ArchiveEntry) -> Any:
        if entry.method == STORED:
            return packed
        if entry.method == DEFLATE:
            return _Inflated(packed)
        try:
            import zstandard  # an optional extra
        except ImportError:
            raise self._fault(
                "FIL-001",
                f"the entry {entry.name!r} is packed with Zstandard, which needs a package that is"
                " not installed.",
                f"Run: {install_hint('inspect')}",
            ) from None
        return zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(
            packed,  # type: ignore[arg-type]
            read_across_frames=True,
        )

    def broken(self, entry: ArchiveEntry, what: str) -> InputError:
        """The error for an entry whose bytes are not what the list states."""
        return self._broken(f"the entry {entry.name!r} {what}")

    def _broken(self, what: str) -> InputError:
        return self._fault(
            "FIL-002",
            f"is a damaged ZIP archive: {what}.",
            "The file may be cut off, or still being written. Copy it again.",
        )

    def _fault(self, code: str, message: str, fix: str = "") -> InputError:
        return InputError(code, message, where=self._path, fix=fix)


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

    def __init__(self, source: Any, entry: ArchiveEntry, archive: Archive) -> None:
        self._source, self._entry, self._archive = source, entry, archive
        self._left, self._crc = entry.size, 0

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
            if self._crc != self._entry.crc:
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
