"""What an index remembers of what it was made from: the id and the digest of each entry, and
whether it is a veto; and the catalogue of questions.

An entry may never be deleted or changed. If an entry that an index remembers is missing or changed,
its node is closed, and a remembered veto keeps rejecting it. The memory is part of the index, so
that it is rebuilt from a tree that is whole; where both the index and the entry are gone, only a
ledger remembers.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.families.tools.catalogue import QUESTIONS, Catalogue, joined, stated
from assay.families.tools.names import AREAS, GRADINGS
from assay.families.tools.node import Home, LostEntry, StoredEntry, entry_paths, read_entries
from assay.families.tools.policy import SchemaRules
from assay.families.tools.status import NODE_REJECTED
from assay.files.json_files import parse_json

ENTRIES, CATALOGUE = "entries", "catalogue"
"""Keys in the summary of an index, which is open to keys of our own."""


class EntryGroup(NamedTuple):
    """The entries of one area in one folder."""

    folder: str
    area: str


class Memory:
    """The entries that a namespace or selection has had: those that its index remembers, and those
    that are found.
    """

    def __init__(self, home: str, *, also: Iterable[Mapping[str, Any]] = ()) -> None:
        """`also` are older indexes of the same namespace or selection, as a ledger keeps them."""
        self.home = home
        self._held: dict[EntryGroup, dict[str, dict[str, str]]] = defaultdict(dict)
        self._found: dict[EntryGroup, dict[str, dict[str, str]]] = defaultdict(dict)
        self._rejecting: dict[EntryGroup, set[str]] = defaultdict(set)
        self._catalogue: dict[str, dict[str, Any]] = {}
        for index in (_read_index(home), *also):
            for ref in _rejecting(index):
                path, _, file = ref.rpartition("/")
                group = EntryGroup(os.path.dirname(path) or ".", file.partition("--")[0])
                if os.path.basename(path) == GRADINGS and group.area in AREAS:
                    self._rejecting[group].add(file)
            summary = index.get("summary")
            summary = summary if isinstance(summary, dict) else {}
            listed = summary.get(ENTRIES)
            for key, entry in listed.items() if isinstance(listed, dict) else ():
                folder, area, own = ["", "", *key.rsplit("/", 2)][-3:]
                if isinstance(entry, dict) and area in AREAS:
                    self._held[EntryGroup(folder, area)].setdefault(
                        own, {name: str(value) for name, value in entry.items()}
                    )
            if isinstance(catalogue := summary.get(CATALOGUE), dict):
                self._catalogue = joined(self._catalogue, stated(catalogue), home)

    def check_catalogue(self, catalogue: Catalogue, root: str) -> None:
        """Refuse a catalogue that lacks anything that the index was made with."""
        path = os.path.join(root, QUESTIONS)
        if joined(catalogue, self._catalogue, path) != catalogue:
            raise InputError(
                "FMC-012",
                "lacks questions that gradings of this tree were checked against.",
                where=path,
                fix="Restore it: without these questions, the gate would ask for less.",
            )

    def take(self, home: Home, stored: Sequence[StoredEntry]) -> list[LostEntry]:
        """Note the entries that were found in a node; those of it that are gone, or are not what
        they were.
        """
        folder = os.path.relpath(home.folder, self.home).replace(os.sep, "/")
        there = {item.entry.grading_id: item.digest for item in stored if item.entry is not None}
        lost = []
        for area in home.areas:
            group = EntryGroup(folder, area)
            group_entries = self._found[group]
            for item in stored:
                if item.entry is not None and item.fault is None and item.entry.area == area:
                    veto = item.entry.categorical_veto
                    group_entries[item.entry.grading_id] = {
                        "digest": item.digest,
                        **({"veto": veto.triggered_by} if veto else {}),
                    }
            lost += [
                LostEntry(own, f"{area} {own}", entry.get("veto"), changed=own in there)
                for own, entry in self._held.get(group, {}).items()
                if there.get(own) != entry.get("digest")
            ]
            gone = [
                file
                for file in self._rejecting.get(group, ())
                if not os.path.lexists(os.path.join(home.folder, GRADINGS, file))
            ]
            if gone and not any(item.veto for item in lost):
                lost += [LostEntry(file, file, "rejected", changed=False) for file in sorted(gone)]
        return lost

    def rest(self, rules: SchemaRules) -> Iterator[tuple[str, list[LostEntry]]]:
        """What is lost outside of the nodes that were taken, by its folder: of a tool that was
        removed, or of a schema whose folder is gone.
        """
        for group in sorted({*self._held, *self._rejecting, *self._on_disk()} - {*self._found}):
            home = Home(os.path.join(self.home, group.folder), (group.area,))
            lost = self.take(home, read_entries(home, rules))
            if lost:
                yield f"{group.folder}/{GRADINGS}", lost

    def _on_disk(self) -> Iterator[EntryGroup]:
        for path in entry_paths(self.home):
            folder, file = os.path.split(path)
            area = file.partition("--")[0]
            if area in AREAS:
                yield EntryGroup(os.path.dirname(folder).replace(os.sep, "/") or ".", area)

    def document(self) -> dict[str, dict[str, str]]:
        """The memory as the index holds it: all that was remembered, and all that was found."""
        return {
            f"{group.folder}/{group.area}/{own}": entry
            for group in sorted({*self._held, *self._found})
            for own, entry in sorted(
                {**self._found.get(group, {}), **self._held.get(group, {})}.items()
            )
        }


def _rejecting(node: Any) -> Iterator[str]:
    """The entries that the rejected nodes of an index name, also in an index that another program
    made.
    """
    for key, value in node.items() if isinstance(node, dict) else ():
        # members are nodes of other namespaces, which have their own indexes
        if isinstance(value, dict) and key != "members":
            if value.get("status") == NODE_REJECTED and isinstance(value.get("ref"), str):
                yield value["ref"]
            yield from _rejecting(value)


def _read_index(home: str) -> dict[str, Any]:
    """The index of a namespace or selection as its file has it; empty if there is none. Raises
    InputError where it cannot be read.
    """
    path = os.path.join(home, "index.json")
    why: object = "it is not an object"
    try:
        with open(path, "rb") as stream:
            tree = parse_json(stream.read())
        if isinstance(tree, dict):
            return tree
    except (FileNotFoundError, NotADirectoryError):
        return {}  # it is rebuilt from the entries
    except (OSError, ValueError, RecursionError) as error:
        why = error
    raise InputError(
        "FIL-002",
        f"cannot be read, and with it the vetoes that it remembers: {why}.",
        where=path,
        fix=(
            "Restore it. Only where no entry was ever deleted, delete it and run `assay tools"
            " index`."
        ),
    )
