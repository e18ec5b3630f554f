"""Pictures and files within the values of a run: what they are, and their bytes.

The type that a value states isn't trusted: a picture is shown only if its first bytes are those of
a PNG, JPEG, GIF or WebP. SVG is never a picture here, because it can run scripts.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from typing import Any, NamedTuple

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
