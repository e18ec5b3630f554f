"""A grading tree on disk: snapshots of schemas, entries next to what they grade, an index for each
namespace and selection.

Nothing is ever overwritten or deleted but index.json, which can be rebuilt; to the record of the
entries, lines are only added. Each namespace and
selection has a lock, so that two processes that write at once both see what the other wrote. A kill
at any moment leaves whole files and, at worst, a hidden part file that nothing reads. The tree has
no links. `intake` reads and writes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec

from assay.canon import time_text
from assay.errors import InputError, UsageError
from assay.families.tools.catalogue import QUESTIONS, read_catalogue
from assay.families.tools.ecma import document_bytes, namespace_hash
from assay.families.tools.index import (
    EntryRecord,
    declared_about,
    namespace_index,
    selection_index,
    status_in,
    write_index,
)
from assay.families.tools.manifest import Manifest, Snapshot, read_manifest, snapshot_of
from assay.families.tools.names import (
    GRADINGS,
    INDEX,
    area_of,
    file_stamp,
    grading_file,
    gradings_dir,
    latest,
    segment,
    stamp,
)
from assay.families.tools.node import (
    MAX_ENTRY,
    Home,
    Node,
    StoredEntry,
    entry_files,
    entry_paths,
    judge,
    read_entries,
)
from assay.families.tools.policy import SchemaRules
from assay.families.tools.records import (
    GradingEntry,
    LockedMember,
    NamespaceIndex,
    SelectionIndex,
    SelectionLock,
)
from assay.families.tools.selection import (
    check_selection,
    frozen_bytes,
    make_lock,
    member_ids,
    read_lock,
)
from assay.files.atomic import atomic_create, atomic_write, refuse_links_out
from assay.files.json_files import parse_json
from assay.registry import near_miss

MAX_SAME_MOMENT = 60
OWNERS = {"providers": "namespace", "selections": "selection"}
"""The two folders of a tree, and what each folder in them is."""


class Tree:
    """A folder `grading-data/` with providers/, selections/ and shared-lists/."""

    def __init__(self, root: str, rules: SchemaRules) -> None:
        self._given = root
        self.root = os.path.abspath(root)
        self.rules = rules

    # --- places

    def home(self, kind: str, name: str) -> str:
        """The folder of a namespace (`providers`) or a selection (`selections`)."""
        return self.inside(os.path.join(self.root, kind, segment(name, OWNERS[kind])))

    def inside(self, path: str) -> str:
        """The path, or an error if a link leads elsewhere: what is written there would not be in
        the tree.
        """
        relative = os.path.relpath(path, self.root)
        real = os.path.join(os.path.realpath(self.root), relative)
        if relative.startswith("..") or os.path.realpath(path) != real:
            raise InputError(
                "FMC-009",
                "leads out of the tree.",
                where=path,
                fix="A grading tree has no links.",
            )
        return path

    def names(self, kind: str) -> list[str]:
        """The namespaces or selections of the tree."""
        folder = os.path.join(self.root, kind)
        return sorted(
            name
            for name in (os.listdir(folder) if os.path.isdir(folder) else ())
            if not name.startswith(".") and os.path.isdir(os.path.join(folder, name))
        )

    @contextmanager
    def locked(self, kind: str, name: str) -> Iterator[None]:
        """Hold the lock of a namespace or selection; it is released when the process ends, however
        it ends.
        """
        import fcntl  # not on every system; only where a tree is written

        home = self.home(kind, name)
        refuse_links_out(self._given, follow=True)
        try:
            os.makedirs(home, exist_ok=True)
            handle = os.open(
                os.path.join(home, ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666
            )
        except OSError as error:
            raise UsageError(
                "FIL-008", f"cannot be written: {error.strerror}.", where=home
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def check_place(self, area: str, names: Mapping[str, str]) -> None:
        """Refuse a node that the tree does not hold, with the near miss; nothing is created."""
        where = area_of(area).folder
        gradings_dir(area, names)
        kind, owner = owner_of(area, names)
        if owner not in self.names(kind):
            near = near_miss(owner, self.names(kind))
            raise self._absent(f"the tree has no {OWNERS[kind]} '{owner}'.{near}")
        self.home(kind, owner)
        if "{schema}" not in where:
            return
        manifests, schema = self.manifests(owner), names["schema"]
        if schema not in manifests:
            raise self._absent(f"'{owner}' has no schema '{schema}'.{near_miss(schema, manifests)}")
        manifest = manifests[schema]
        if "{tool}" in where and manifest is not None and names["tool"] not in manifest.tools:
            near = near_miss(names["tool"], manifest.tools)
            raise self._absent(f"'{owner}.{schema}' has no tool '{names['tool']}'.{near}")

    def _absent(self, message: str) -> InputError:
        return InputError(
            "IDX-006", message, where=self.root, fix="Import it: `assay tools import`."
        )

    # --- entries

    def node_home(self, area: str, names: Mapping[str, str]) -> Home:
        """Where a node lies."""
        known = area_of(area)
        folder = os.path.join(self.root, *gradings_dir(area, names).split("/")[:-1])
        of_selection = "{selection}" in known.folder
        return Home(
            folder,
            (known.name,),
            namespace=None if of_selection else names["namespace"],
            tool=names["tool"] if "{tool}" in known.folder else None,
            selection=names["selection"] if of_selection else None,
            skill=names["skill"] if known.skill else None,
        )

    def stored(self, area: str, names: Mapping[str, str]) -> list[StoredEntry]:
        """The entries of a node, oldest first."""
        return read_entries(self.node_home(area, names), self.rules)

    def write_entry(self, entry: GradingEntry, names: Mapping[str, str], *, now: datetime) -> str:
        """Add an entry to its node. The caller holds the lock.

        Two entries of one node and one second would have one name: the later one gets the next free
        second in its id. A clock before the newest entry is refused, because the new entry would
        not be the newest.
        """
        home = self.node_home(entry.area, names)
        folder = self.inside(os.path.join(home.folder, GRADINGS))
        held = [
            *(moment for moment, _ in entry_files(home.folder, home.areas)),
            *(item.moment for item in read_entries(home, self.rules)),
        ]  # by name and by id: the new entry must come last by both
        first = next_moment(max(held, default=None), now, folder)
        persona = entry.persona
        for shift in range(MAX_SAME_MOMENT + 1):
            when = stamp(first + timedelta(seconds=shift))
            data = document_bytes(
                msgspec.structs.replace(entry, grading_id=f"{entry.schema_hash}--{when}")
            )
            name = grading_file(
                entry.area,
                when,
                base_persona=persona.base_persona_id if persona else None,
                lens=persona.lens_id if persona else None,
            )
            path = os.path.join(folder, name)
            if len(data) > MAX_ENTRY:
                raise InputError(
                    "FMC-004",
                    f"the entry is larger than {MAX_ENTRY // 2**20} MiB.",
                    where=path,
                    fix="Shorten its evidence; name a file instead.",
                )
            try:
                with atomic_create(path) as stream:
                    stream.write(data)
            except FileExistsError:
                continue
            return path
        raise InputError(
            "FMC-014",
            "there is an entry for each of these seconds.",
            where=folder,
            fix="Try again in a minute.",
        )

    def entry_paths(self, kind: str, name: str) -> list[str]:
        """The grading files of a namespace or selection, relative to its folder."""
        return list(entry_paths(self.home(kind, name)))

    def node(self, area: str, names: Mapping[str, str], *, live: str | None = None) -> Node:
        """What a node is, bound to what the tree holds now, or to the hash of what it is about to
        hold.
        """
        home, stored = self.node_home(area, names), self.stored(area, names)
        return judge(
            stored,
            live or self.live_hash(area, names),
            self.rules,
            lost=EntryRecord(self.home(*owner_of(area, names))).take(home, stored),
            catalogue=self.catalogue(),
        )

    # --- what is graded

    def _snapshots(self, namespace: str) -> dict[str, Snapshot]:
        home = self.home("providers", namespace)
        snapshots = {
            name: snapshot_of(os.path.join(home, name), name)
            for name in (sorted(os.listdir(home)) if os.path.isdir(home) else ())
        }
        return {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}

    def manifests(self, namespace: str) -> dict[str, Manifest | None]:
        """The schemas of a namespace that have a snapshot, each with what it holds; None if another
        program made it.
        """
        home = self.home("providers", namespace)
        return {
            name: read_manifest(os.path.join(home, name), snapshot)
            for name, snapshot in self._snapshots(namespace).items()
        }

    def live_hash(self, area: str, names: Mapping[str, str]) -> str | None:
        """The hash of what an area grades, from the newest snapshot in the tree."""
        where = area_of(area).folder
        home = self.home(*owner_of(area, names))
        if "{selection}" in where or "{schema}" in where:
            folder, name = (
                (home, "selection")
                if "{selection}" in where
                else (os.path.join(home, segment(names["schema"], "schema")), names["schema"])
            )
            snapshot = snapshot_of(folder, name)
            return snapshot.hash8 if snapshot else None
        about = None
        for name, manifest in self.manifests(names["namespace"]).items():
            about = declared_about(os.path.join(home, name), manifest) or about
        members = {name: item.hash8 for name, item in self._snapshots(names["namespace"]).items()}
        return namespace_hash(members, about) if members else None

    def catalogue(self) -> dict[str, dict[str, Any]]:
        """What the questions of this tree ask, where a catalogue has them."""
        return read_catalogue(self.root)

    def keep_catalogue(self, questions: dict[str, dict[str, Any]]) -> None:
        """Keep the catalogue that gradings were held against, so that later ones are held against
        it too.
        """
        if questions != self.catalogue():
            with atomic_write(os.path.join(self.root, QUESTIONS)) as stream:
                stream.write(document_bytes(dict(sorted(questions.items()))))

    # --- the index

    def index(
        self,
        kind: str,
        name: str,
        *,
        known: dict[str, NamespaceIndex | None] | None = None,
    ) -> NamespaceIndex | SelectionIndex:
        """The index of a namespace or selection, made from the entries. `known` holds the indexes
        of namespaces that were made already.
        """
        self.home(kind, name)
        if kind == "providers":
            return namespace_index(self.root, name, self.rules)
        return selection_index(self.root, name, self.rules, namespaces=known)

    def shown_status(self, area: str, names: Mapping[str, str]) -> str:
        """The status of a node as the index shows it."""
        return status_in(self.index(*owner_of(area, names)), area, names)

    def rebuild(
        self,
        kind: str,
        name: str,
        *,
        known: dict[str, NamespaceIndex | None] | None = None,
    ) -> NamespaceIndex | SelectionIndex:
        """Rebuild the index of a namespace or selection, and write it if it changed."""
        index = self.index(kind, name, known=known)
        home = self.home(kind, name)
        EntryRecord(home).keep(index)
        lock = frozen_bytes(home) if kind == "selections" else None
        write_index(os.path.join(home, INDEX), index, lock)
        return index

    # --- the lock of a selection

    def lock_of(self, selection: str) -> SelectionLock | None:
        """The lock of a selection to rely on."""
        return read_lock(self.home("selections", selection))

    def take_lock(self, selection: str, *, now: datetime) -> SelectionLock:
        """Freeze the members of a selection as they are. An older lock stays next to it in its own
        file. The caller holds the lock of the selection.
        """
        home = self.home("selections", selection)
        snapshot = snapshot_of(home, "selection")
        if snapshot is None:
            raise self._absent(f"the tree has no selection '{selection}'.")
        file = os.path.join(home, snapshot.file)
        with open(file, "rb") as stream:
            definition = check_selection(parse_json(stream.read()), file)
        live = selection_index(self.root, selection, self.rules)
        members = []
        for listed, member in zip(definition["members"], member_ids(definition), strict=True):
            node = live.members[member]
            artifact = os.path.basename(node.resolved_artifact or "")
            moment, own = file_stamp(artifact), artifact.rsplit(".", 1)[0].rsplit("--", 1)[-1]
            override = listed.get("override") if isinstance(listed, dict) else None
            members.append(
                LockedMember(
                    schema_id=member,
                    schema_version=stamp(moment) if moment else None,
                    schema_hash=own or None,
                    grading_status=node.status,
                    override=override,
                )
            )
        lock = make_lock(
            selection, members, version=stamp(snapshot.moment), selection=definition, now=now
        )
        before = latest(os.listdir(home), "lock")
        when = next_moment(file_stamp(before) if before else None, now, home)
        path = os.path.join(home, f"lock--{stamp(when)}.json")
        data = document_bytes(lock)
        try:
            with atomic_create(path) as stream:
                stream.write(data)
        except FileExistsError:
            raise InputError(
                "FMC-014", "there is a lock of this second.", where=path, fix="Try again."
            ) from None
        write_index(os.path.join(home, INDEX), live, data.rstrip(b"\n"))
        return lock


def owner_of(area: str, names: Mapping[str, str]) -> tuple[str, str]:
    """The folder and the name of the namespace or selection that an area belongs to."""
    kind = "selections" if "{selection}" in area_of(area).folder else "providers"
    return kind, names[OWNERS[kind]]


def next_moment(newest: datetime | None, now: datetime, where: str) -> datetime:
    """Now, or the second after the newest thing there; a clock far before it is refused."""
    if newest is None or newest < now:
        return now
    if newest > now + timedelta(seconds=MAX_SAME_MOMENT):
        raise InputError(
            "FMC-013",
            f"the newest one is from {time_text(newest)}, in the future (now: {time_text(now)}).",
            where=where,
            fix="Correct the clock, or pass --now.",
        )
    return newest + timedelta(seconds=1)
