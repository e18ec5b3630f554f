"""ZIP archives of others: read in place, within limits, and refused when they are not whole."""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.files import archives
from assay.files.archives import DEFLATE, STORED, ZSTANDARD, Archive, open_archive

TEXT = b'{"id": 1, "text": "' + b"abc " * 5000 + b'"}'


def packed(*entries: tuple[str, bytes, int], **lies: int) -> bytes:
    """An archive with entries by any method; `lies` replace what it states of each."""
    made, listed = io.BytesIO(), io.BytesIO()
    for name, data, method in entries:
        if method == DEFLATE:
            squeezed = zlib.compressobj(9, zlib.DEFLATED, -15)
            body = squeezed.compress(data) + squeezed.flush()
        else:
            body = zstandard.compress(data) if method == ZSTANDARD else data
        crc, size = lies.get("crc", zlib.crc32(data)), lies.get("size", len(data))
        flags, length = 0x800 | lies.get("flags", 0), lies.get("packed", len(body))
        at = lies.get("at", made.tell())
        encoded = name.encode()
        common = struct.pack("<4H3L2H", flags, method, 0, 33, crc, length, size, len(encoded), 0)
        made.write(struct.pack("<4sH", b"PK\x03\x04", 20) + common + encoded + body)
        more = struct.pack("<3H2L", 0, 0, 0, 0, at)
        listed.write(struct.pack("<4s2H", b"PK\x01\x02", 20, 20) + common + more + encoded)
    begin, size = made.tell(), listed.tell()
    count = lies.get("count", len(entries))
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, size, begin, 0)
    return made.getvalue() + listed.getvalue() + end


def unpacked(data: bytes) -> dict[str, bytes]:
    archive = Archive(io.BytesIO(data), "x.eval")
    return {entry.filename: archive.read(entry, 2**24) for entry in archive.entries()}


def test_entries_of_every_method_come_out_as_they_were() -> None:
    entries = [("a.json", TEXT, DEFLATE), ("b.json", TEXT, STORED), ("ü/c.json", TEXT, ZSTANDARD)]
    assert unpacked(packed(*entries, ("empty", b"", DEFLATE))) == {
        **{name: data for name, data, _ in entries},
        "empty": b"",
    }


def test_archives_of_python_come_in_also_when_streamed_or_of_64_bits(tmp_path) -> None:
    class Pipe(io.RawIOBase):
        """Can't go back, so that sizes follow the data."""

        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data) -> int:
            self.data += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(3000):
            archive.writestr(f"samples/{index}.json", f"{index}" * 9)
        with archive.open("wide.json", "w", force_zip64=True) as stream:
            stream.write(TEXT)
    path = tmp_path / "x.eval"
    path.write_bytes(bytes(pipe.data))
    with open_archive(str(path)) as archive:
        found = {entry.filename: archive.read(entry, 2**20) for entry in archive.entries()}
    assert len(found) == 3001
    assert found["samples/2999.json"] == b"2999" * 9
    assert found["wide.json"] == TEXT


def test_more_entries_than_16_bits_count_are_read() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for index in range(2**16):
            archive.writestr(zipfile.ZipInfo(f"{index}"), b"x")
    assert b"PK\x06\x06" in made.getvalue()
    assert unpacked(made.getvalue()) == {f"{index}": b"x" for index in range(2**16)}


def test_an_entry_is_read_while_another_is_open() -> None:
    archive = Archive(io.BytesIO(packed(("a", TEXT, DEFLATE), ("b", TEXT, ZSTANDARD))), "x")
    a, b = archive.entries()
    with archive.open(a) as first, archive.open(b) as second:
        assert first.read(10) + second.read(10) == TEXT[:10] * 2
        assert first.read() == second.read() == TEXT[10:]


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../b", "C:/x", "a\\b", "a\nb", "a\x00b", ""]
)
def test_names_that_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="plain relative path"):
        unpacked(packed((name, b"x", STORED)))


def test_the_last_entry_of_a_name_holds_where_the_tool_writes_so() -> None:
    data = packed(("a", b"old", STORED), ("b", b"x", STORED), ("a", b"new", STORED))
    archive = Archive(io.BytesIO(data), "x")
    found = [archive.read(entry, 100) for entry in archive.entries()]
    assert found == [b"x", b"new"]


def test_bombs_are_refused_before_they_unpack(monkeypatch) -> None:
    bomb = b"\0" * (archives.FREE + 1)
    for method in (DEFLATE, ZSTANDARD):
        with pytest.raises(InputError, match="ZIP bomb"):
            unpacked(packed(("a", bomb, method)))
    with pytest.raises(InputError, match="longer than it states"):
        unpacked(packed(("a", bomb, DEFLATE), size=100))
    lapping = [(str(n), TEXT, STORED) for n in range(3)]
    with pytest.raises(InputError, match="overlap"):
        list(Archive(io.BytesIO(packed(*lapping, packed=len(TEXT) * 2)), "x").entries())
    monkeypatch.setattr(archives, "MAX_TOTAL", 30_000)
    with pytest.raises(InputError, match="unpack to more"):
        unpacked(packed(("a", TEXT, STORED), ("b", TEXT, STORED)))
    monkeypatch.setattr(archives, "MAX_LIST", 50)
    with pytest.raises(InputError, match="list of entries has more than"):
        unpacked(packed(("a", b"", STORED), ("b", b"", STORED)))
    monkeypatch.setattr(archives, "MAX_ENTRY", 100)
    with pytest.raises(InputError, match="GiB"):
        unpacked(packed(("a", TEXT, STORED)))


def test_encrypted_and_oddly_packed_entries_are_refused() -> None:
    with pytest.raises(InputError, match="encrypted"):
        unpacked(packed(("a", b"x", STORED), flags=1))
    with pytest.raises(InputError, match="method 14"):
        unpacked(packed(("a", b"x", 14)))


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"crc": 1}, "checksum"),
        ({"size": len(TEXT) + 1}, "ends too early"),
        ({"at": 7}, "not where the list places it"),
        ({"at": 2**32 - 2}, "not where the list places it"),
        ({"count": 2}, "the number of entries that it states"),
    ],
)
def test_an_entry_that_is_not_what_the_list_says_is_refused(lie: Any, words: str) -> None:
    for method in (DEFLATE, ZSTANDARD):
        with pytest.raises(InputError, match=words):
            unpacked(packed(("a", TEXT, method), **lie))


def test_an_entry_whose_comment_covers_the_next_one_is_not_left_out() -> None:
    data = bytearray(packed(("a", b"x", STORED), ("b", b"y", STORED)))
    data[data.index(b"PK\x01\x02") + 33] = 255  # the length of its comment
    with pytest.raises(InputError, match="the number of entries that it states"):
        unpacked(bytes(data))


@given(st.data())
def test_a_truncated_or_scratched_archive_is_refused_or_the_same(data) -> None:
    whole = packed(("a", TEXT, DEFLATE), ("b", TEXT, ZSTANDARD), ("c", b"short", STORED))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(InputError):
        unpacked(whole[:cut])
    scratched = bytearray(whole)
    scratched[cut] ^= data.draw(st.integers(1, 255))
    try:
        found = unpacked(bytes(scratched))
    except InputError:
        return
    assert set(found.values()) <= {TEXT, b"short"}


def test_a_missing_package_is_named_with_its_install_line(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match="Zstandard") as caught:
        unpacked(packed(("a", TEXT, ZSTANDARD)))
    assert "[inspect]" in caught.value.fix
