"""A list of things that each have a head, a body and links to each other: claims, passages, tool
calls, steps, versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.views.blocks import Block, Part


class ListEntry(NamedTuple):
    """One thing of a list. The kind is how it looks: `bad` or `open` make it stand out."""

    head: str
    parts: Sequence[Part] = ()
    foot: str = ""
    id: str = ""
    kind: str = ""


class Entries(Block, frozen=True):
    """Things one below the other."""

    entries: Sequence[ListEntry]
    label: str
    kind: str = ""
