"""Values of a run as a person reads them, and files within them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from assay.views.values import MANY, Room, ValueView, part_at, pointer, read_media

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 60).decode()
SVG = b64encode(b"<svg onload=alert(1)></svg>").decode()


def html_of(value: Any, *, room: int = 10_000, at: str = "/outputs") -> str:
    parts = ValueView("sha256:0", Room(room)).parts(value, at=at)
    return "".join(part.__html__() for part in parts if not isinstance(part, str))


def test_a_text_is_shown_as_it_is_and_in_its_own_direction() -> None:
    assert html_of("שלום <b>") == '<div class="said" dir="auto">שלום &lt;b&gt;</div>'


def test_shallow_objects_are_names_and_values_and_deep_ones_json() -> None:
    found = html_of({"town": "Arnvik", "stops": [1, 2], "more": {"a": {"b": {"c": {"d": 1}}}}})
    assert '<dt dir="auto">town</dt><dd><div class="said" dir="auto">Arnvik</div></dd>' in found
    assert "<p>1, 2</p>" in found
    assert "<pre" in found
    assert found.count("<pre") == 1


def test_messages_are_a_conversation_with_its_calls_and_pictures() -> None:
    found = html_of(
        [
            {"role": "system", "content": "Be kind."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "look", "arguments": '{"at": 1}'}}],
            },
        ]
    )
    assert found.count('class="message"') == 3
    assert "What is this?" in found
    assert 'src="/attachments/sha256:0?at=%2Foutputs%2F1%2Fcontent%2F1"' in found
    assert "calls <code>look</code> <code>{&#34;at&#34;: 1}</code>" in found
    long = html_of([{"role": "user", "content": f"m{n}"} for n in range(1000)])
    assert "… 960 messages left out." in long
    assert "m999" in long


def test_a_page_has_room_for_so_much_and_says_where_the_rest_is() -> None:
    found = html_of("<" * 5_000_000, room=1_000)
    assert len(found) < 1_500
    assert "The first 200 of 5,000,000 characters." in found
    assert '<a href="/attachments/sha256:0?at=%2Foutputs">Download the whole text</a>' in found
    many = html_of({f"key {n}": "x" * 100 for n in range(10_000)}, room=5_000)
    assert f"… and {10_000 - MANY:,} more." in many
    assert len(many) < 16_000


def test_a_file_is_what_its_first_bytes_are() -> None:
    for value, kind, picture in (
        (f"data:image/png;base64,{PNG}", "image/png", True),
        (f"data:text/html;base64,{PNG}", "image/png", True),
        ({"type": "image", "source": {"media_type": "image/gif", "data": PNG}}, "image/png", True),
        (PNG, "image/png", True),
        (f"data:image/svg+xml;base64,{SVG}", "image/svg+xml", False),
        (f"data:image/png;base64,{SVG}", "image/png", False),
        ("data:application/pdf;base64,JVBERi0xLjc=", "application/pdf", False),
    ):
        media = read_media(value)
        assert media is not None
        assert (media.media_type, media.is_picture) == (kind, picture)
    for value in ("data:,hello", "a text " * 20, {"image": PNG, "caption": "c"}, {"text": "x"}, 1):
        assert read_media(value) is None, value


@pytest.mark.parametrize(
    "wrong",
    [
        "/a",
        "/a~1b/1",
        "/a~1b/x",
        "/a~1b/0/~0/more",
        "/a~1b/00",
        "/a~1b/-1",
    ],
)
def test_a_pointer_leads_to_its_part_or_nowhere(wrong: Any) -> None:
    tree = {"a/b": [{"~": 1}]}
    at = pointer(pointer(pointer("", "a/b"), 0), "~")
    assert part_at(tree, at) == 1
    with pytest.raises(KeyError):
        part_at(tree, wrong)
