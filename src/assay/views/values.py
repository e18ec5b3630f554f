"""Any value of a run as a person reads it: a text as text, messages as a conversation, objects as
names and values, a picture as a picture, and only the rest as JSON.

    parts = ValueView(digest, Room(16_000)).parts(run["outputs"], at="/outputs")

What is shown is bounded by its room, in bytes of the page. What is cut says so and links to the
whole, at the address of that part of the record.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.canon import encode_any
from assay.errors import count
from assay.views.blocks import Block, Entries, Heading, ListEntry, Paragraph, Part, Verbatim
from assay.views.pieces import absent, address, code, link, listed, phrase, shown

# --- pictures and files


_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*", re.ASCII)
_TYPE = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}", re.ASCII)
_TYPE_KEYS = ("media_type", "mime_type", "mimeType", "content_type", "type")
_DATA_KEYS = ("data", "base64", "b64_json", "bytes")
_WRAPPERS = ("source", "image_url", "input_audio", "file", "image", "url")
_ASIDES = {*_TYPE_KEYS, "detail", "id", "name", "filename", "format", "size", "width", "height"}
"""Keys that may accompany a file without being lost when only the file is shown."""
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_NAMES = {
    "application/pdf": "PDF document",
    **{name: f"{name[6:].upper()} image" for name in PICTURES},
}
_SHORTEST = 64
"""Characters below which a text without a type is taken for a text."""


class Media(NamedTuple):
    """A file in a value, still as base64."""

    media_type: str
    """By its first bytes where they are known, else as the value states it; empty for neither."""
    encoded: str

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return len(self.encoded) * 3 // 4

    @property
    def is_picture(self) -> bool:
        """Whether a browser may draw it."""
        return sniffed(_begin(self.encoded)) in PICTURES

    @property
    def name(self) -> str:
        """What it is, in words."""
        return _NAMES.get(self.media_type) or (
            f"File of type {self.media_type}" if self.media_type else "File of unknown type"
        )

    def content(self) -> bytes | None:
        """Its bytes; None if they are not base64."""
        try:
            return b64decode(self.encoded)
        except (Error, ValueError):
            return None


def sniffed(start: bytes) -> str:
    """The type of a file by its first bytes; empty if they are not known.

    >>> sniffed(b"%PDF-1.7"), sniffed(b"<svg")
    ('application/pdf', '')
    """
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), "")


def read_media(value: Any, stated: str = "") -> Media | None:
    """The file in a value: a `data:` address, base64 that begins like a known file, or an object
    with base64 and its type, as the chat APIs write it. None for everything else.

    >>> read_media("data:image/png;base64,iVBORw0KGgo=").media_type
    'image/png'
    >>> read_media({"type": "text", "text": "no file"})
    """
    if isinstance(value, str):
        return _in_text(value, stated)
    if not isinstance(value, Mapping) or len(value.keys() - _ASIDES) != 1:
        return None
    types = (value.get(key) for key in _TYPE_KEYS)
    known = next(
        (kind for kind in types if isinstance(kind, str) and _TYPE.fullmatch(kind)), stated
    )
    for key in _DATA_KEYS:
        if isinstance(value.get(key), str) and (media := _in_text(value[key], known)):
            return media
    return next(
        filter(None, (read_media(value[key], known) for key in _WRAPPERS if key in value)), None
    )


def _in_text(text: str, stated: str) -> Media | None:
    if matched := _DATA.match(text):
        encoded, stated = text[matched.end() :], matched[1] or stated
    elif len(text) >= _SHORTEST and _BASE64.fullmatch(text):
        encoded = text
    else:
        return None
    kind = sniffed(_begin(encoded))
    return Media(kind or stated, encoded) if kind or stated else None


def _begin(encoded: str) -> bytes:
    start = "".join(encoded[:64].split())[:32]
    try:
        return b64decode(start[: len(start) // 4 * 4])
    except (Error, ValueError):
        return b""


# --- any value


DEPTH = 4
"""How deep objects are shown as names and values; what is deeper is JSON."""
MANY = 40
"""Members of an object or items of a list that are shown."""
FIRST = 5
"""Messages shown from the beginning of a long conversation; the others are from its end."""
LARGEST = 20_000_000
_EMPTY: tuple[Any, ...] = (None, "", [], {})


class DocumentText(Block, frozen=True):
    """A text of a document as it is written."""

    text: str
    label: str = "Text"

    @property
    def long(self) -> bool:
        """Whether it may scroll, so that a keyboard must reach it."""
        return len(self.text) > 400 or self.text.count("\n") > 8

    def simpler(self) -> Sequence[Part]:
        """The text as it is."""
        return [Verbatim(self.text, self.label)]


class Fields(Block, frozen=True):
    """Names and values of an object; a value may be any blocks."""

    pairs: Sequence[tuple[str, Sequence[Part]]]

    def simpler(self) -> Sequence[Part]:
        """An entry for each name."""
        return [Entries([ListEntry(name, parts) for name, parts in self.pairs], "Fields")]


class Items(Block, frozen=True):
    """The items of a list."""

    items: Sequence[Sequence[Part]]

    def simpler(self) -> Sequence[Part]:
        """An entry for each item, by its number."""
        items = [ListEntry(f"{place}.", parts) for place, parts in enumerate(self.items, 1)]
        return [Entries(items, "Items")]


class ChatMessage(Block, frozen=True):
    """One message of a conversation."""

    role: str
    parts: Sequence[Part]

    def simpler(self) -> Sequence[Part]:
        """What was said, under who said it."""
        return [Heading(self.role), *self.parts]


class Picture(Block, frozen=True):
    """A picture at an address of this server."""

    source: str
    text: str

    def simpler(self) -> Sequence[Part]:
        """What it is, in words."""
        return [Paragraph(self.text)]


def json_text(value: Any) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    return (
        value
        if isinstance(value, str)
        else msgspec.json.format(encode_any(value), indent=2).decode()
    )


def pointer(at: str, name: str | int) -> str:
    """The JSON pointer to a part of a value.

    >>> pointer("/outputs", "a/b")
    '/outputs/a~1b'
    """
    return f"{at}/{str(name).replace('~', '~0').replace('/', '~1')}"


def part_at(tree: Any, at: str) -> Any:
    """The part of a value that a JSON pointer leads to; KeyError if there is none."""
    for step in at.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(tree, Mapping):
            tree = tree[name]
        elif isinstance(tree, list) and name in map(str, range(len(tree))):
            tree = tree[int(name)]
        else:
            raise KeyError(name)
    return tree


class Room:
    """How many bytes of a page are left for texts. Markup and letters outside ASCII need more than
    one byte each.
    """

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, text: str, most: int = 1_000_000) -> str:
        """The beginning of a text that fits, with no more than so many characters.

        >>> room = Room(10)
        >>> room.take("<b>"), room.left, room.take("more")
        ('<b', 4, 'more')
        """
        kept = text[: max(0, min(self.left, most))]
        while kept and (size := _size(kept)) > self.left:
            kept = kept[: len(kept) * self.left // size]
        self.left -= _size(kept)
        return kept

    def clip(self, value: Any, most: int = 300, *, absent_as: str = "not stated") -> str:
        """A value as a person reads it, cut where it is long or does not fit."""
        text = shown(value, absent_as)
        kept = self.take(text, most)
        return text if len(kept) == len(text) else f"{kept} … ({len(text):,} characters)"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace")) + 4 * sum(map(text.count, "<>&'\""))


class ValueView:
    """Turns values into blocks until their room is used up; of one text no more than `most`
    characters are shown.
    """

    def __init__(self, digest: str, room: Room, *, most: int = 1_000_000) -> None:
        self.digest = digest
        self.room = room
        self.most = most

    def parts(
        self, value: Any, *, at: str = "", first: Sequence[str] = (), depth: int = 0
    ) -> list[Part]:
        """The blocks of a value. `first` are the members that a reader looks for."""
        media = read_media(value) if self.digest else None
        if media is not None:
            return [self._media(media, at)]
        if isinstance(value, str):
            return self._text(value, at)
        if value is None or isinstance(value, bool) or not isinstance(value, Mapping | list):
            return [Paragraph(shown(value, "null"))]
        if not value:
            return [Paragraph(absent("empty list" if isinstance(value, list) else "empty"))]
        if self.room.left <= 0:
            return [self._rest("The rest is left out here. ", at)]
        if isinstance(value, list):
            return self._list(value, at, depth)
        if depth >= DEPTH:
            return self._json(value, at)
        names = [name for name in first if name in value]
        names += [name for name in value if name not in names]
        pairs = []
        for name in names[:MANY]:
            label = self.room.take(name, 200)
            pairs.append((label, self.parts(value[name], at=pointer(at, name), depth=depth + 1)))
        made: list[Part] = [Fields(pairs)]
        if len(names) > MANY:
            made.append(self._rest(f"… and {len(names) - MANY:,} more. ", at))
        return made

    def _list(self, items: Sequence[Any], at: str, depth: int) -> list[Part]:
        if all(map(_is_message, items)):
            return self._conversation(items, at, depth)
        if depth >= DEPTH:
            return self._json(items, at)
        if len(items) <= MANY and all(map(_is_short, items)):
            return [Paragraph(listed(self.room.clip(item, absent_as="null") for item in items))]
        made = [
            self.parts(item, at=pointer(at, place), depth=depth + 1)
            for place, item in enumerate(items[:MANY])
        ]
        more = f"… and {len(items) - MANY:,} more. "
        return [Items(made), *([self._rest(more, at)] if len(items) > MANY else [])]

    def _conversation(self, messages: Sequence[Any], at: str, depth: int) -> list[Part]:
        left_out = max(0, len(messages) - MANY)
        made: list[Part] = []
        for place, message in enumerate(messages):
            if FIRST <= place < FIRST + left_out:
                if place == FIRST:
                    made.append(self._rest(f"… {count(left_out, 'message')} left out. ", at))
                continue
            here = pointer(at, place)
            parts = self._content(message.get("content"), pointer(here, "content"), depth)
            calls = message.get("tool_calls")
            for call in calls[:MANY] if isinstance(calls, list) else ():
                parts.append(self._call(call))
            rest = {
                name: value
                for name, value in message.items()
                if name not in ("role", "content", "tool_calls") and value not in _EMPTY
            }
            if rest:
                parts += self.parts(rest, at=here, depth=depth + 1)
            made.append(ChatMessage(self.room.take(message["role"], 60), parts))
        return made

    def _content(self, content: Any, at: str, depth: int) -> list[Part]:
        """The content of a message: a text, or texts and files one after the other."""
        if content in _EMPTY:
            return []
        if not isinstance(content, list):
            return self.parts(content, at=at, depth=depth + 1)
        made: list[Part] = []
        for place, part in enumerate(content[:MANY]):
            here = pointer(at, place)
            if isinstance(part, Mapping) and isinstance(part.get("text"), str) and len(part) <= 3:
                made += self._text(part["text"], pointer(here, "text"))
            else:
                made += self.parts(part, at=here, depth=depth + 1)
        return made

    def _call(self, call: Any) -> Part:
        """A tool call that a message asks for."""
        function = call.get("function") if isinstance(call, Mapping) else None
        call_fields = function if isinstance(function, Mapping) else call
        if not isinstance(call_fields, Mapping) or not isinstance(call_fields.get("name"), str):
            return Paragraph(self.room.clip(json_text(call)), "words")
        arguments = call_fields.get("arguments", call_fields.get("args", call_fields.get("input")))
        text = self.room.take("" if arguments is None else json_text(arguments), self.most)
        name = self.room.take(call_fields["name"], 120)
        return Paragraph(phrase("calls ", code(name), " ", code(text)), "words")

    def _text(self, text: str, at: str) -> list[Part]:
        kept = self.room.take(text, self.most)
        made: list[Part] = [DocumentText(kept)] if kept else []
        if len(kept) < len(text):
            cut = (
                f"The first {len(kept):,} of {len(text):,} characters. "
                if kept
                else (f"A text of {len(text):,} characters. ")
            )
            made.append(self._rest(cut, at, "Download the whole text"))
        return made or [Paragraph(absent("empty text"))]

    def _json(self, value: Any, at: str) -> list[Part]:
        text = json_text(value)
        kept = self.room.take(text, self.most)
        if len(kept) == len(text):
            return [Verbatim(text)]
        cut = f"The first {len(kept):,} of {len(text):,} characters. "
        return [*([Verbatim(kept)] if kept else []), self._rest(cut, at)]

    def _media(self, media: Media, at: str) -> Part:
        source = address("attachments", self.digest, at=at)
        size = f"{media.size / 1000:,.1f} kB"
        if media.is_picture and media.size <= LARGEST:
            return Picture(source, f"{media.name}, {size}")
        return Paragraph(phrase(f"{media.name}, {size}. ", link("Download", source)), "file")

    def _rest(self, text: str, at: str, name: str = "Download the whole") -> Part:
        href = address("attachments", self.digest, at=at) if self.digest else ""
        return Paragraph(phrase(text, link(name, href)) if href else text.strip(), "hint")


def _is_short(item: Any) -> bool:
    return not isinstance(item, Mapping | list) and len(str(item)) <= 60 and "\n" not in str(item)


def _is_message(item: Any) -> bool:
    return (
        isinstance(item, Mapping)
        and isinstance(item.get("role"), str)
        and bool(item.keys() & {"content", "tool_calls", "parts"})
    )
