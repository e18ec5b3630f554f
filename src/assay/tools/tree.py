"""A grading tree on disk: snapshots of schemas, entries beside what they grade, an index for each
namespace and selection.

Nothing is ever overwritten or deleted but index.json, which can be made anew. Each namespace and
selection has a lock, so that two processes that write at once both see what the other wrote. A kill
at any moment leaves whole files and, at worst, a hidden part file that nothing reads. The tree
holds no links.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import Fault, InputError, UsageError
from assay.files.atomic import atomic_create, atomic_write
from assay.files.json_files import parse_json
from assay.registry import near_miss
from assay.tools import index as idx
from assay.tools.catalogue import QUESTIONS, read_catalogue
from assay.tools.documents import document_bytes
from assay.tools.entry import Subject, blocked_entry, is_extended, schema_faults, semantic_faults
from assay.tools.hashing import about_hash, hash8, namespace_hash
from assay.tools.manifest import (
    Manifest,
    about_text,
    manifest_document,
    manifest_name,
    read_manifest,
    snapshot_of,
    tools_of,
)
from assay.tools.memory import Memory
from assay.tools.names import (
    GRADINGS,
    area_of,
    file_stamp,
    grading_file,
    gradings_dir,
    iso,
    latest,
    primitive_file,
    segment,
    stamp,
)
from assay.tools.node import MAX_ENTRY, Home, Node, Stored, entry_files, judge, read_entries
from assay.tools.selection import Member, check_selection, make_lock, member_ids
from assay.tools.versions import Systems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from assay.tools.policy import SchemaRules
    from assay.tools.source import SchemaFinding, ToolSchema

OWN_HARNESS = "assay"
MAX_SAME_MOMENT = 60
_ENTRY_NAME = re.compile(r"[a-zA-Z0-9_-]+")
"""What the id in an entry can name: it has a dot between namespace and name, so neither may hold
one.
"""


class Written(NamedTuple):
    """What an import did with one schema."""

    schema: str
    action: str
    """`created`, `new version`, `unchanged` or `blocked`."""
    path: str
    reason: str = ""


class Tree:
    """A folder `grading-data/` with providers/, selections/ and shared-lists/."""

    def __init__(self, root: str, rules: SchemaRules, *, systems: Systems | None = None) -> None:
        self.root = os.path.abspath(root)
        self.rules = rules
        self.systems = systems or rules.systems

    # --- places

    def home(self, kind: str, name: str) -> str:
        """The folder of a namespace (`providers`) or a selection (`selections`)."""
        path = os.path.join(
            self.root,
            kind,
            segment(name, {"providers": "namespace", "selections": "selection"}[kind]),
        )
        self._inside(path)
        return path

    def _inside(self, path: str) -> None:
        """Refuse a path that a link leads elsewhere: what is written there would not be in the
        tree.
        """
        relative = os.path.relpath(path, self.root)
        if relative.startswith("..") or os.path.realpath(path) != os.path.join(
            os.path.realpath(self.root), relative
        ):
            raise InputError(
                "FMC-009",
                "leads out of the tree.",
                where=path,
                fix="A grading tree holds no links.",
            )

    def names(self, kind: str) -> list[str]:
        """The namespaces or selections of the tree."""
        folder = os.path.join(self.root, kind)
        if not os.path.isdir(folder):
            return []
        return sorted(
            name
            for name in os.listdir(folder)
            if not name.startswith(".") and os.path.isdir(os.path.join(folder, name))
        )

    @contextmanager
    def locked(self, kind: str, name: str) -> Iterator[None]:
        """Hold the lock of a namespace or selection; it is let go when the process ends, however it
        ends.
        """
        import fcntl  # not on every system; only where a tree is written

        home = self.home(kind, name)
        try:
            os.makedirs(home, exist_ok=True)
            handle = os.open(os.path.join(home, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UsageError(
                "FIL-008", f"cannot be written: {error.strerror}.", where=home
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    # --- entries

    def node_home(self, area: str, names: dict[str, str]) -> Home:
        """Where a node lies."""
        known = area_of(area)
        folder = os.path.join(self.root, *gradings_dir(area, names).split("/")[:-1])
        if "{selection}" in known.folder:
            return Home(
                folder,
                (known.name,),
                selection=names["selection"],
                skill=names["skill"] if known.skill else None,
            )
        return Home(
            folder,
            (known.name,),
            names["namespace"],
            names["tool"] if "{tool}" in known.folder else None,
            skill=names["skill"] if known.skill else None,
        )

    def stored(self, area: str, names: dict[str, str]) -> list[Stored]:
        """The entries of a node, oldest first."""
        return read_entries(self.node_home(area, names), self.rules, systems=self.systems)

    def write_entry(self, entry: dict[str, Any], names: dict[str, str], *, now: datetime) -> str:
        """Add an entry to its node and make the index anew. The caller holds the lock.

        Two entries of one node and one second would have one name: the later one gets the next free
        second in its id. A clock that stands before the newest entry is refused, because the new
        entry would not be the newest.
        """
        home = self.node_home(entry["area"], names)
        folder = os.path.join(home.folder, GRADINGS)
        self._inside(folder)
        held = [
            *(moment for moment, _ in entry_files(home.folder, home.areas)),
            *(item.moment for item in read_entries(home, self.rules, systems=self.systems)),
        ]
        newest = max(held, default=None)  # by name and by id: the new entry must come last by both
        first = self._after(newest, now, folder)
        persona = entry.get("persona") or {}
        for shift in range(MAX_SAME_MOMENT + 1):
            moment = first + timedelta(seconds=shift)
            made = {**entry, "gradingId": f"{entry['schemaHash']}--{stamp(moment)}"}
            path = os.path.join(
                folder,
                grading_file(
                    entry["area"],
                    stamp(moment),
                    base_persona=persona.get("basePersonaId"),
                    lens=persona.get("lensId"),
                ),
            )
            faults = schema_faults(made) or semantic_faults(made)
            if faults:
                raise InputError(
                    "GRD-020",
                    faults[0],
                    where=path,
                    faults=[Fault(text, code="GRD-020", file=path) for text in faults],
                )
            data = document_bytes(made)
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

    def _after(self, newest: datetime | None, now: datetime, where: str) -> datetime:
        """Now, or the second after the newest thing there; a clock far before it is refused."""
        if newest is None or newest < now:
            return now
        if newest > now + timedelta(seconds=MAX_SAME_MOMENT):
            raise InputError(
                "FMC-013",
                f"the newest one is from {iso(newest)}, after now ({iso(now)}).",
                where=where,
                fix="Set the clock right, or pass --now.",
            )
        return newest + timedelta(seconds=1)

    def node(self, area: str, names: dict[str, str]) -> Node:
        """What a node is, bound to what the tree holds now."""
        home, stored = self.node_home(area, names), self.stored(area, names)
        kind = "selections" if home.selection is not None else "providers"
        memory = Memory(
            self.home(kind, names["selection" if kind == "selections" else "namespace"])
        )
        return judge(
            stored,
            self.live_hash(area, names),
            self.rules,
            systems=self.systems,
            lost=memory.take(home, stored),
            catalogue=self.catalogue(),
        )

    def shown_status(self, area: str, names: dict[str, str]) -> str:
        """The status of a node as the index shows it."""
        if "selection" in names and area_of(area).folder.startswith("selections"):
            return idx.status_in(
                idx.selection_index(
                    self.root, names["selection"], self.rules, systems=self.systems
                ),
                area,
                names,
            )
        return idx.status_in(
            idx.namespace_index(self.root, names["namespace"], self.rules, systems=self.systems),
            area,
            names,
        )

    def check_place(self, area: str, names: dict[str, str]) -> None:
        """Refuse a node that the tree does not hold, with the near miss; nothing is created."""
        where = area_of(area).folder
        gradings_dir(area, names)
        kind = "selections" if "{selection}" in where else "providers"
        owner = names["selection" if kind == "selections" else "namespace"]
        if owner not in self.names(kind):
            what = "selection" if kind == "selections" else "namespace"
            raise InputError(
                "IDX-006",
                f"the tree holds no {what} '{owner}'.{near_miss(owner, self.names(kind))}",
                where=self.root,
                fix="Import it: `assay tools import`.",
            )
        self.home(kind, owner)
        if "{schema}" not in where:
            return
        manifests = self.manifests(owner)
        if names["schema"] not in manifests:
            raise InputError(
                "IDX-006",
                f"'{owner}' has no schema"
                f" '{names['schema']}'.{near_miss(names['schema'], manifests)}",
                where=self.root,
                fix="Import it first.",
            )
        found = manifests[names["schema"]]
        if "{tool}" in where and found is not None and names["tool"] not in found.tools:
            raise InputError(
                "IDX-006",
                f"'{owner}.{names['schema']}' has no tool"
                f" '{names['tool']}'.{near_miss(names['tool'], found.tools)}",
                where=self.root,
            )

    def manifests(self, namespace: str) -> dict[str, Manifest | None]:
        """The schemas of a namespace that have a snapshot, each with what it holds; None where
        another program made it.
        """
        home = self.home("providers", namespace)
        found: dict[str, Manifest | None] = {}
        for name in sorted(os.listdir(home)) if os.path.isdir(home) else ():
            snapshot = snapshot_of(os.path.join(home, name), name)
            if snapshot is not None:
                found[name] = read_manifest(os.path.join(home, name), snapshot)
        return found

    def live_hash(self, area: str, names: dict[str, str]) -> str | None:
        """The hash of what an area grades, from the newest snapshot in the tree."""
        where = area_of(area).folder
        if "{selection}" in where:
            found = snapshot_of(self.home("selections", names["selection"]), "selection")
            return found.hash8 if found else None
        home = self.home("providers", names["namespace"])
        if "{schema}" in where:
            found = snapshot_of(
                os.path.join(home, segment(names["schema"], "schema")), names["schema"]
            )
            return found.hash8 if found else None
        members, about = {}, None
        for name in sorted(os.listdir(home)) if os.path.isdir(home) else ():
            found = snapshot_of(os.path.join(home, name), name)
            if found is not None:
                members[name] = found.hash8
                manifest = read_manifest(os.path.join(home, name), found)
                page = snapshot_of(os.path.join(home, name, "resources", "about"), "about")
                about = (manifest.about_hash if manifest else page.hash8 if page else None) or about
        return namespace_hash(members, about) if members else None

    def catalogue(self) -> dict[str, dict[str, Any]]:
        """What the questions of this tree ask, where a catalogue said so."""
        return read_catalogue(self.root)

    def keep_catalogue(self, found: dict[str, dict[str, Any]]) -> None:
        """Keep the catalogue that gradings were held against, so that later ones are held against
        it too.
        """
        if found != self.catalogue():
            with atomic_write(os.path.join(self.root, QUESTIONS)) as stream:
                stream.write(document_bytes(dict(sorted(found.items()))))

    # --- the index

    def rebuild(
        self, kind: str, name: str, *, known: dict[str, dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Make the index of a namespace or selection anew, and write it if it changed."""
        home = self.home(kind, name)
        path = os.path.join(home, idx.INDEX)
        if kind == "providers":
            found = idx.namespace_index(self.root, name, self.rules, systems=self.systems)
            idx.write_index(path, found)
            return found
        found = idx.selection_index(
            self.root, name, self.rules, systems=self.systems, namespaces=known
        )
        idx.write_index(path, found, self.frozen(name))
        return found

    def frozen(self, selection: str) -> bytes | None:
        """The frozen lock of a selection as the bytes that an index carries over: those in the
        index, else those of the newest lock file.
        """
        home = self.home("selections", selection)
        path = os.path.join(home, idx.INDEX)
        if os.path.exists(path):
            with open(path, "rb") as stream:
                try:
                    held = idx.frozen_lock(stream.read())
                except ValueError:
                    held = None
            if held is not None:
                return held
        data = self._lock_file(selection)
        if data is None:
            return None
        try:
            parse_json(data)
        except ValueError:
            return None  # a torn file is not carried into an index; who needs the lock is told
        return data.rstrip(b"\n")

    def _lock_file(self, selection: str) -> bytes | None:
        home = self.home("selections", selection)
        newest = latest(os.listdir(home), "lock") if os.path.isdir(home) else None
        if newest is None:
            return None
        with open(os.path.join(home, newest), "rb") as stream:
            return stream.read()

    def lock_of(self, selection: str) -> dict[str, Any] | None:
        """The lock of a selection to rely on. Its own file is the truth; an index that says
        something else was changed.
        """
        home = self.home("selections", selection)
        held, own = self.frozen(selection), self._lock_file(selection)
        try:
            found = (
                parse_json(own)
                if own is not None
                else parse_json(held)
                if held is not None
                else None
            )
            if own is not None and held is not None and parse_json(held) != found:
                raise InputError(
                    "LCK-006",
                    "the lock in index.json is not the one that was taken.",
                    where=home,
                    fix="Take a lock anew: `assay tools index --lock`.",
                )
        except ValueError as error:
            raise InputError(
                "LCK-006",
                f"the lock cannot be read: {error}.",
                where=home,
                fix="Take a lock anew: `assay tools index --lock`.",
            ) from None
        if found is not None and not isinstance(found, dict):
            raise InputError(
                "LCK-006",
                "the lock is no object.",
                where=home,
                fix="Take a lock anew: `assay tools index --lock`.",
            )
        return found

    def take_lock(self, selection: str, *, now: datetime) -> dict[str, Any]:
        """Freeze the members of a selection as they stand. An older lock stays beside it in its own
        file. The caller holds the lock of the selection.
        """
        home = self.home("selections", selection)
        snapshot = snapshot_of(home, "selection")
        if snapshot is None:
            raise InputError(
                "IDX-006",
                f"there is no selection '{selection}' in the tree.",
                fix="Import it first: `assay tools import`.",
            )
        with open(os.path.join(home, snapshot.file), "rb") as stream:
            definition = check_selection(
                parse_json(stream.read()), os.path.join(home, snapshot.file)
            )
        live = idx.selection_index(self.root, selection, self.rules, systems=self.systems)
        members = []
        for listed, member in zip(definition["members"], member_ids(definition), strict=True):
            found = live["members"][member]
            file = os.path.basename(found["resolvedArtifact"] or "")
            moment, own = file_stamp(file), file.rsplit(".", 1)[0].rsplit("--", 1)[-1]
            override = listed.get("override") if isinstance(listed, dict) else None
            members.append(
                Member(
                    member,
                    stamp(moment) if moment else None,
                    own or None,
                    found["status"],
                    override,
                )
            )
        lock = make_lock(
            selection, members, version=stamp(snapshot.moment), selection=definition, now=now
        )
        before = latest(os.listdir(home), "lock")
        path = os.path.join(
            home,
            f"lock--{stamp(self._after(file_stamp(before) if before else None, now, home))}.json",
        )
        data = document_bytes(lock)
        try:
            with atomic_create(path) as stream:
                stream.write(data)
        except FileExistsError:
            raise InputError(
                "FMC-014", "there is a lock of this second.", where=path, fix="Try again."
            ) from None
        idx.write_index(os.path.join(home, idx.INDEX), live, data.rstrip(b"\n"))
        return lock

    # --- import and export

    def check_import(self, schema: ToolSchema) -> None:
        """Refuse a schema whose names the tree cannot hold, before anything is created."""
        self.home("providers", schema.namespace)
        segment(schema.base, "schema")
        for what, name in (("namespace", schema.namespace), ("schema", schema.base)):
            if not _ENTRY_NAME.fullmatch(name):
                raise InputError(
                    "FMC-007",
                    f"the {what} '{name}' cannot stand in the id of an entry.",
                    where=schema.path,
                    fix="Rename it: letters, digits, '_' and '-'.",
                )
        manifest_document(schema)

    def import_schema(
        self, schema: ToolSchema, findings: Sequence[SchemaFinding], *, now: datetime
    ) -> Written:
        """Put a schema into the tree: created, a new version beside the old, or unchanged. One that
        fails its validation is kept and blocked.
        """
        self.check_import(schema)
        extension = (
            "json"
            if schema.kind == "mcp"
            else os.path.splitext(schema.path)[1].lstrip(".") or "json"
        )
        base, name = schema.base, f"{schema.namespace}.{schema.base}"
        home = os.path.join(self.home("providers", schema.namespace), base)
        self._inside(home)
        own = hash8(schema.main)
        held = snapshot_of(home, base)
        errors = [finding for finding in findings if finding.level == "error"]
        if held is not None and held.hash8 == own:
            manifest = read_manifest(home, held)
            if (
                manifest is None or manifest.file_sha256 == schema.file_sha256
            ):  # the same bytes, or nothing to compare them with
                action = "blocked" if errors else "unchanged"
                return Written(
                    name, action, os.path.join(home, held.file), errors[0].text() if errors else ""
                )
        when = stamp(self._after(held.moment if held else None, now, home))
        path = os.path.join(home, primitive_file(base, when, own, extension))
        for tool, definition in tools_of(schema.main).items():
            self._snapshot(os.path.join(home, "tools", tool), tool, definition, when)
        about = about_text(schema.main)
        if about is not None:
            self._snapshot_about(os.path.join(home, "resources", "about"), about, when)
        self._create(
            os.path.join(home, manifest_name(os.path.basename(path))),
            document_bytes(manifest_document(schema)),
        )
        self._create(path, schema.source)  # last: until it is there, the schema is not imported
        if errors:
            subject = Subject(
                name, "tools-aggregate-schema", own, manifest_document(schema)["version"]
            )
            entry = blocked_entry(
                subject,
                "validation-failed",
                now=now,
                harness=OWN_HARNESS,
                systems=self.systems,
                note=errors[0].text(),
            )
            self.write_entry(entry, {"namespace": schema.namespace, "schema": base}, now=now)
            return Written(name, "blocked", path, errors[0].text())
        return Written(name, "new version" if held else "created", path)

    def import_selection(self, document: dict[str, Any], where: str, *, now: datetime) -> Written:
        """Put a selection into the tree, next to its older versions."""
        selection = check_selection(document, where)
        name = selection["selectionId"]
        home = self.home("selections", name)
        own = hash8(selection)
        held = snapshot_of(home, "selection")
        if held is not None and held.hash8 == own:
            return Written(name, "unchanged", os.path.join(home, held.file))
        when = stamp(self._after(held.moment if held else None, now, home))
        about = about_text(selection)
        if about is not None:
            self._snapshot_about(os.path.join(home, "resources", "about"), about, when)
        path = os.path.join(home, primitive_file("selection", when, own, "json"))
        self._create(path, document_bytes(selection))
        return Written(name, "new version" if held else "created", path)

    def _snapshot(self, folder: str, name: str, value: Any, when: str) -> None:
        own = hash8(value)
        held = snapshot_of(folder, name)
        if held is None or held.hash8 != own:
            self._create(
                os.path.join(folder, primitive_file(name, when, own, "json")), document_bytes(value)
            )

    def _snapshot_about(self, folder: str, page: bytes, when: str) -> None:
        digest = about_hash(page)
        held = snapshot_of(folder, "about")
        if held is None or held.hash8 != digest:
            self._create(os.path.join(folder, primitive_file("about", when, digest, "md")), page)

    def _create(self, path: str, data: bytes) -> None:
        self._inside(os.path.dirname(path))
        try:
            with atomic_create(path) as stream:
                stream.write(data)
        except FileExistsError:
            with open(path, "rb") as stream:
                if stream.read() != data:
                    raise InputError(
                        "FMC-014",
                        "is there already and says something else.",
                        where=path,
                        fix="Try again in a second.",
                    ) from None

    def export(self, kind: str, name: str, target: str) -> list[str]:
        """Write a namespace or selection into a fresh folder: its index first, then the newest
        version of each source under its plain name.
        """
        home = self.home(kind, name)
        if not os.path.isdir(home):
            raise InputError("IDX-006", f"there is no '{name}' in the tree.", where=home)
        if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
            raise UsageError(
                "FIL-008",
                "is there and not empty.",
                where=target,
                fix="Export into a fresh folder.",
            )
        found = idx.strict(self.rebuild(kind, name))
        written = []

        def put(relative: str, data: bytes) -> None:
            path = os.path.join(target, relative)
            with atomic_create(path) as stream:
                stream.write(data)
            written.append(path)

        put(idx.INDEX, idx.index_bytes(found, self.frozen(name) if kind == "selections" else None))
        sources = (
            [(schema, schema) for schema in found.get("schemas", {})]
            if kind == "providers"
            else [("", "selection")]
        )
        for folder, logical in sources:
            snapshot = snapshot_of(os.path.join(home, folder), logical)
            if snapshot is not None:
                with open(os.path.join(home, folder, snapshot.file), "rb") as stream:
                    put(f"{logical}.{snapshot.file.rsplit('.', 1)[1]}", stream.read())
        for relative in self.entry_paths(kind, name):
            with open(os.path.join(home, relative), "rb") as stream:
                data = stream.read()
            try:
                entry = parse_json(data)
            except ValueError:
                continue  # it blocks its node in the index; what cannot be read is not handed on
            if not is_extended(entry):
                put(relative, data)
        return written

    def entry_paths(self, kind: str, name: str) -> list[str]:
        """The grading files of a namespace or selection, relative to its folder."""
        home = self.home(kind, name)
        found = []
        for folder, folders, files in os.walk(home):
            folders[:] = sorted(item for item in folders if not item.startswith("."))
            if os.path.basename(folder) == GRADINGS:
                found += [
                    os.path.relpath(os.path.join(folder, file), home)
                    for file in sorted(files)
                    if file.endswith(".json") and not file.startswith(".")
                ]
        return found
