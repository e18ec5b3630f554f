"""XML of others: streamed, limited, and without any entity of its own."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError
from assay.files.xml_files import MAX_DEPTH, MAX_TEXT, XmlEnd, XmlStart, stream_xml

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE z [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY {b} "&{a};&{a};&{a};&{a};">' for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]><z>&i;</z>"
)


@pytest.mark.parametrize(
    "encoding",
    [
        "utf-16",
        "iso-8859-1",
        "windows-1252",
    ],
)
def test_elements_come_with_attributes_text_and_lines(tmp_path: Path, encoding: Any) -> None:
    path = tmp_path / "a.xml"
    path.write_text('<a>\n <b k="1 &lt;">x &amp; <![CDATA[<y>]]><c/>z</b></a>')
    assert list(stream_xml(str(path))) == [
        XmlStart("a", {}, 1),
        XmlStart("b", {"k": "1 <"}, 2),
        XmlStart("c", {}, 2),
        XmlEnd("c", ""),
        XmlEnd("b", "x & <y>z"),
        XmlEnd("a", "\n "),
    ]
    path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?><a>ü</a>'.encode(encoding))
    assert list(stream_xml(str(path)))[-1] == XmlEnd("a", "ü"), encoding


def test_entities_other_files_and_endless_parts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    for text, words in (
        (BOMB, "document type declaration"),
        (f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]><a>&x;</a>', "DOCTYPE"),
        (f'<!DOCTYPE a SYSTEM "{tmp_path}/secret"><a/>', "DOCTYPE"),
        ("<a>&unknown;</a>", "undefined entity"),
        ("<a>" * (MAX_DEPTH + 1), "nests more than"),
        ("<a " + " ".join(f'k{n}="1"' for n in range(300)) + "/>", "attributes"),
        ('<a k="1" k="2"/>', "duplicate attribute"),
        ("<a><b></a>", "mismatched tag"),
        ("<a><b>text", "cut off"),
        ("<a/><b/>", "junk after"),
        ('<?xml version="1.0" encoding="klingon"?><a/>', "unknown encoding"),
        ("", "empty"),
        ("name,time\n", "not XML"),
    ):
        path = tmp_path / "a.xml"
        path.write_text(text)
        with pytest.raises(AssayError) as caught:
            list(stream_xml(str(path)))
        assert words in str(caught.value), text[:80]
        assert "hidden" not in str(caught.value)
    path.write_bytes("<a>ü</a>".encode("latin-1"))
    with pytest.raises(AssayError, match="not well-formed"):
        list(stream_xml(str(path)))


def test_a_long_text_is_cut_and_an_endless_tag_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(b"<a>" + b"x" * 3_000_000 + b"</a>")
    tracemalloc.start()
    end = list(stream_xml(str(path)))[-1]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(end, XmlEnd)
    assert end.text == "x" * MAX_TEXT + " [cut off]"
    assert peak < 2_500_000
    path.write_bytes(b'<a k="' + b"x" * 8_000_000)
    with pytest.raises(AssayError, match="one tag is larger"):
        list(stream_xml(str(path)))
