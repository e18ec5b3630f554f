"""A value of a record as text under its name, cut where it is long."""

from __future__ import annotations

from typing import Any

from assay.views.blocks import Group, Heading, Paragraph, Part, Verbatim
from assay.views.pieces import link, phrase
from assay.views.values import json_text as text

MAX_TEXT = 8_000
"""Characters of one text on a page; the record itself has them all."""
__all__ = ["MAX_TEXT", "block", "text"]


def block(title: str, value: Any, whole: str) -> Part:
    """A value under its name. A long one is cut, with a note on where the rest is."""
    found = text(value)
    parts: list[Part] = [Heading(title), Verbatim(found[:MAX_TEXT], title)]
    if len(found) > MAX_TEXT:
        cut = f"The first {MAX_TEXT:,} of {len(found):,} characters. "
        parts.append(Paragraph(phrase(cut, link("The whole record", whole)), "hint"))
    return Group(parts, "text")
