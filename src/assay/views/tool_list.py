"""The list of namespaces and selections of tool schemas, each as its newest index has it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from assay.records.tool_entry import StoredIndex
from assay.views.blocks import Column, Empty, Section, Table, section
from assay.views.pieces import (
    absent,
    address,
    clip,
    count,
    link,
    listed,
    moment,
    phrase,
    shown,
    verdict,
    words,
)
from assay.views.tool_entry import graded, stamped

SELECTION = "selection"
NOTHING_YET = Empty(
    "No grading of tool schemas is stored in this project yet. Import and grade some:",
    "assay tools import schemas/ --store .assay/ledger.db\nassay tools record answers.json"
    " --namespace NAME --store .assay/ledger.db",
    "`assay tools record`, `index`, `regrade` and `gate` take --store too.",
)
_VERSIONS = ("scoringSystem", "gradingSystem", "mixedVersions")
"""Keys of a summary that are shown elsewhere."""


class IndexVersion(Struct, frozen=True):
    """A stored index."""

    index: StoredIndex
    digest: str
    stored: str
    """When."""

    @property
    def href(self) -> str:
        """The address of its namespace or selection. A name that a browser would take for a step up
        goes by its index.
        """
        index = self.index
        if not index.name.strip("."):
            return address("schemas", self.digest)
        return address("schemas", index.name, kind=SELECTION if index.kind == SELECTION else None)


_LIST = (
    Column("Name"),
    Column("Status"),
    Column("Grade"),
    Column("Holds", "wide"),
    Column("Blocked", "n"),
    Column("Changed"),
    Column("Stored"),
)


def list_view(newest: Sequence[IndexVersion]) -> Iterator[Section]:
    """Namespaces and selections, each as its newest index has it."""
    for kind, title in (("namespace", "Namespaces"), (SELECTION, "Selections")):
        rows = [_list_row(version) for version in newest if version.index.kind == kind]
        if rows:
            yield section(title, Table(title, _LIST, rows, kind="stack runs"), id=f"{kind}s")


def lead(newest: Sequence[IndexVersion]) -> str:
    """The sentence under the title of the list."""
    kinds = [version.index.kind for version in newest]
    counted = [count(kinds.count(kind), kind) for kind in ("namespace", SELECTION) if kind in kinds]
    if not counted:
        return ""
    return (
        f"{' and '.join(counted)}. Letters here are of tool schemas; they say nothing about"
        " workflows or exams."
    )


def _list_row(version: IndexVersion) -> list[str]:
    index = version.index
    held = [phrase(f"{words(key).lower()} ", shown(value)) for key, value in summary_of(index)]
    return [
        link(clip(index.name, 120), version.href),
        verdict(index.status),
        graded(index.grade, index.grading_system),
        listed(held) if held else absent("nothing"),
        f"{len(index.blockers):,}",
        stamped(index.updated_at, "never"),
        moment(version.stored),
    ]


def summary_of(index: StoredIndex) -> list[tuple[str, Any]]:
    """What an index sums up; of the entries it remembers, their number."""
    return [
        (key, len(value) if key == "entries" and isinstance(value, dict) else value)
        for key, value in index.summary.items()
        if key not in _VERSIONS
    ]
