"""A grading tree on disk: snapshots of schemas, entries beside what they grade, an index for each namespace and selection.

Nothing is ever overwritten or deleted but index.json, which can be made anew. Each namespace and selection has a lock, so that two processes that write at
once both see what the other wrote. A kill at any moment leaves whole files and, at worst, a hidden part file that nothing reads.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import Fault, InputError, UsageError
from assay.files import atomic_create, parse_json
from assay.flowmcp import index as idx
from assay.flowmcp.ecma import stringify
from assay.flowmcp.entry import Subject, blocked_entry, is_extended, schema_faults, semantic_faults
from assay.flowmcp.hashing import about_hash, hash8, namespace_hash
from assay.flowmcp.names import GRADINGS, area_of, file_stamp, grading_file, gradings_dir, iso, latest, primitive_file, segment, stamp
from assay.flowmcp.node import Node, Stored, judge, read_entries
from assay.flowmcp.selection import Member, check_selection, make_lock, member_ids
from assay.flowmcp.versions import CURRENT, Systems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from assay.flowmcp.policy import SchemaRules
    from assay.flowmcp.source import SchemaFinding, ToolSchema

OWN_HARNESS = "assay"
MAX_SAME_MOMENT = 60


class Written(NamedTuple):
    """What an import did with one schema."""

    schema: str
    action: str
    """`created`, `new version`, `unchanged` or `blocked`."""
    path: str
    reason: str = ""


class Tree:
    """A folder `grading-data/` with providers/, selections/ and shared-lists/."""

    def __init__(self, root: str, rules: SchemaRules, *, systems: Systems = CURRENT) -> None:
        self.root = os.path.abspath(root)
        self.rules = rules
        self.systems = systems

    # --- places ---------------------------------------------------------------------------------------------------------------------------

    def home(self, kind: str, name: str) -> str:
        """The folder of a namespace (`providers`) or a selection (`selections`)."""
        path = os.path.join(self.root, kind, segment(name, "name"))
        if os.path.islink(path) or os.path.realpath(path) != os.path.join(os.path.realpath(self.root), kind, name):
            raise InputError("FMC-009", f"'{name}' leads out of the tree.", where=path, fix="A grading tree holds no links.")
        return path

    def names(self, kind: str) -> list[str]:
        """The namespaces or selections of the tree."""
        folder = os.path.join(self.root, kind)
        return (
            sorted(name for name in os.listdir(folder) if not name.startswith(".") and os.path.isdir(os.path.join(folder, name)))
            if os.path.isdir(folder)
            else []
        )

    @contextmanager
    def locked(self, kind: str, name: str) -> Iterator[None]:
        """Hold the lock of a namespace or selection; it is let go when the process ends, however it ends."""
        import fcntl  # not on every system; only where a tree is written

        home = self.home(kind, name)
        try:
            os.makedirs(home, exist_ok=True)
            handle = os.open(os.path.join(home, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise UsageError("FIL-008", f"cannot be written: {error.strerror}.", where=home) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    # --- entries --------------------------------------------------------------------------------------------------------------------------

    def stored(self, area: str, names: dict[str, str]) -> list[Stored]:
        """The entries of a node, oldest first."""
        folder = os.path.join(self.root, *gradings_dir(area, names).split("/")[:-1])
        return read_entries(folder, (area_of(area).name,), self.rules, systems=self.systems)

    def write_entry(self, entry: dict[str, Any], names: dict[str, str], *, now: datetime) -> str:
        """Add an entry to its node and make the index anew. The caller holds the lock.

        Two entries of one node and one second would have one name: the later one gets the next free second in its id. A clock that stands before the newest
        entry is refused, because the new entry would not be the newest.
        """
        folder = os.path.join(self.root, *gradings_dir(entry["area"], names).split("/"))
        newest = max((moment for name in (os.listdir(folder) if os.path.isdir(folder) else ()) if (moment := file_stamp(name)) is not None), default=None)
        if newest is not None and newest > now + timedelta(seconds=MAX_SAME_MOMENT):
            raise InputError(
                "FMC-013", f"the newest entry is from {iso(newest)}, after now ({iso(now)}).", where=folder, fix="Set the clock right, or pass --now."
            )
        persona = entry.get("persona") or {}
        for shift in range(MAX_SAME_MOMENT + 1):
            moment = (max(newest, now) if newest is not None else now) + timedelta(seconds=shift)
            made = {**entry, "gradingId": f"{entry['schemaHash']}--{stamp(moment)}"}
            path = os.path.join(folder, grading_file(entry["area"], stamp(moment), base_persona=persona.get("basePersonaId"), lens=persona.get("lensId")))
            self._check(made, path)
            try:
                with atomic_create(path) as stream:
                    stream.write(idx.index_bytes(made))
            except FileExistsError:
                continue
            return path
        raise InputError("FMC-014", "there is an entry for each of these seconds.", where=folder, fix="Try again in a minute.")

    def _check(self, entry: dict[str, Any], path: str) -> None:
        faults = schema_faults(entry) or semantic_faults(entry)
        if faults:
            raise InputError("GRD-020", faults[0], where=path, faults=[Fault(text, code="GRD-020", file=path) for text in faults])

    def node(self, area: str, names: dict[str, str]) -> Node:
        """What a node is, bound to what the tree holds now."""
        return judge(self.stored(area, names), self.live_hash(area, names), self.rules)

    def live_hash(self, area: str, names: dict[str, str]) -> str | None:
        """The hash of what an area grades, from the newest snapshot in the tree."""
        where = area_of(area).folder
        if where.startswith("selections"):
            found = idx.snapshot_of(self.home("selections", names["selection"]), "selection")
            return found.hash8 if found else None
        home = self.home("providers", names["namespace"])
        if "{schema}" in where:
            found = idx.snapshot_of(os.path.join(home, segment(names["schema"], "schema")), names["schema"])
            return found.hash8 if found else None
        members, about = {}, None
        for name in sorted(os.listdir(home)) if os.path.isdir(home) else ():
            found = idx.snapshot_of(os.path.join(home, name), name)
            if found is not None:
                members[name] = found.hash8
                page = idx.snapshot_of(os.path.join(home, name, "resources", "about"), "about")
                about = page.hash8 if page else about
        return namespace_hash(members, about) if members else None

    # --- the index ------------------------------------------------------------------------------------------------------------------------

    def rebuild(self, kind: str, name: str, *, known: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
        """Make the index of a namespace or selection anew, and write it if it changed."""
        home = self.home(kind, name)
        path = os.path.join(home, idx.INDEX)
        if kind == "providers":
            found = idx.namespace_index(self.root, name, self.rules, systems=self.systems)
            idx.write_index(path, found)
            return found
        found = idx.selection_index(self.root, name, self.rules, systems=self.systems, namespaces=known)
        idx.write_index(path, found, self.frozen(name))
        return found

    def frozen(self, selection: str) -> bytes | None:
        """The frozen lock of a selection: the bytes in its index, else those of the newest lock file."""
        home = self.home("selections", selection)
        path = os.path.join(home, idx.INDEX)
        if os.path.exists(path):
            with open(path, "rb") as stream:
                try:
                    held = idx.frozen_lock(stream.read())
                except (ValueError, UnicodeDecodeError):
                    held = None
            if held is not None:
                return held
        newest = latest(os.listdir(home), "lock") if os.path.isdir(home) else None
        if newest is None:
            return None
        with open(os.path.join(home, newest), "rb") as stream:
            return stream.read().rstrip(b"\n")

    def take_lock(self, selection: str, *, now: datetime) -> dict[str, Any]:
        """Freeze the members of a selection as they stand. An older lock stays beside it in its own file. The caller holds the lock of the selection."""
        home = self.home("selections", selection)
        snapshot = idx.snapshot_of(home, "selection")
        if snapshot is None:
            raise InputError("IDX-006", f"there is no selection '{selection}' in the tree.", fix="Import it first: `assay schema import`.")
        with open(os.path.join(home, snapshot.file), "rb") as stream:
            definition = check_selection(parse_json(stream.read()), os.path.join(home, snapshot.file))
        live = idx.selection_index(self.root, selection, self.rules, systems=self.systems)
        members = []
        for listed, member in zip(definition["members"], member_ids(definition), strict=True):
            found = live["members"][member]
            file = os.path.basename(found["resolvedArtifact"] or "")
            moment, own = file_stamp(file), file.rsplit(".", 1)[0].rsplit("--", 1)[-1]
            override = listed.get("override") if isinstance(listed, dict) else None
            members.append(Member(member, stamp(moment) if moment else None, own or None, found["status"], override))
        lock = make_lock(selection, members, version=stamp(snapshot.moment), selection=definition, now=now)
        path = os.path.join(home, f"lock--{stamp(now)}.json")
        data = idx.index_bytes(lock)
        try:
            with atomic_create(path) as stream:
                stream.write(data)
        except FileExistsError:
            raise InputError("FMC-014", "there is a lock of this second.", where=path, fix="Try again.") from None
        idx.write_index(os.path.join(home, idx.INDEX), live, data.rstrip(b"\n"))
        return lock

    # --- import and export ----------------------------------------------------------------------------------------------------------------

    def import_schema(self, schema: ToolSchema, findings: Sequence[SchemaFinding], *, now: datetime) -> Written:
        """Put a schema into the tree: created, a new version beside the old, or unchanged. One that fails its validation is kept and blocked."""
        extension = os.path.splitext(schema.path)[1].lstrip(".") or "json"
        base = segment(schema.base.removesuffix(f".{extension}"), "schema")
        home = os.path.join(self.home("providers", schema.namespace), base)
        own = hash8(schema.main)
        held = idx.snapshot_of(home, base)
        tools = schema.main.get("tools")
        tools = tools if isinstance(tools, dict) else {}
        for tool in tools:
            segment(tool, "tool")
        if held is not None and held.hash8 == own:
            return Written(f"{schema.namespace}.{base}", "unchanged", os.path.join(home, held.file))
        when = stamp(now)
        path = os.path.join(home, primitive_file(base, when, own, extension))
        for tool, definition in tools.items():
            self._snapshot(os.path.join(home, "tools", tool), tool, definition, when)
        about = about_text(schema.main)
        if about is not None:
            self._snapshot_about(os.path.join(home, "resources", "about"), about, when)
        self._create(path, schema.source)  # last: until it is there, the schema is not imported
        errors = [finding for finding in findings if finding.level == "error"]
        if errors:
            subject = Subject(f"{schema.namespace}.{base}", "tools-aggregate-schema", own, flowmcp_version(schema.main))
            entry = blocked_entry(subject, "validation-failed", now=now, harness=OWN_HARNESS, systems=self.systems, note=errors[0].text())
            self.write_entry(entry, {"namespace": schema.namespace, "schema": base}, now=now)
            return Written(f"{schema.namespace}.{base}", "blocked", path, errors[0].text())
        return Written(f"{schema.namespace}.{base}", "new version" if held else "created", path)

    def import_selection(self, document: dict[str, Any], where: str, *, now: datetime) -> Written:
        """Put a selection into the tree, next to its older versions."""
        selection = check_selection(document, where)
        name = selection["selectionId"]
        home = self.home("selections", name)
        own = hash8(selection)
        held = idx.snapshot_of(home, "selection")
        if held is not None and held.hash8 == own:
            return Written(name, "unchanged", os.path.join(home, held.file))
        about = about_text(selection)
        if about is not None:
            self._snapshot_about(os.path.join(home, "resources", "about"), about, stamp(now))
        path = os.path.join(home, primitive_file("selection", stamp(now), own, "json"))
        self._create(path, idx.index_bytes(selection))
        return Written(name, "new version" if held else "created", path)

    def _snapshot(self, folder: str, name: str, value: Any, when: str) -> None:
        own = hash8(value)
        held = idx.snapshot_of(folder, name)
        if held is None or held.hash8 != own:
            self._create(os.path.join(folder, primitive_file(name, when, own, "json")), stringify(value).encode() + b"\n")

    def _snapshot_about(self, folder: str, page: bytes, when: str) -> None:
        digest = about_hash(page)
        held = idx.snapshot_of(folder, "about")
        if held is None or held.hash8 != digest:
            self._create(os.path.join(folder, primitive_file("about", when, digest, "md")), page)

    def _create(self, path: str, data: bytes) -> None:
        try:
            with atomic_create(path) as stream:
                stream.write(data)
        except FileExistsError:
            with open(path, "rb") as stream:
                if stream.read() != data:
                    raise InputError("FMC-014", "is there already and says something else.", where=path, fix="Try again in a second.") from None

    def export(self, kind: str, name: str, target: str) -> list[str]:
        """Write a namespace or selection into a fresh folder: its index first, then the newest version of each source under its plain name."""
        home = self.home(kind, name)
        if not os.path.isdir(home):
            raise InputError("IDX-006", f"there is no '{name}' in the tree.", where=home)
        if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
            raise UsageError("FIL-008", "is there and not empty.", where=target, fix="Export into a fresh folder.")
        found = idx.strict(self.rebuild(kind, name))
        written = []

        def put(relative: str, data: bytes) -> None:
            path = os.path.join(target, relative)
            with atomic_create(path) as stream:
                stream.write(data)
            written.append(path)

        put(idx.INDEX, idx.index_bytes(found, self.frozen(name) if kind == "selections" else None))
        sources = [(f"{schema}", schema) for schema in found.get("schemas", {})] if kind == "providers" else [("", "selection")]
        for folder, logical in sources:
            snapshot = idx.snapshot_of(os.path.join(home, folder), logical)
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
                found += [os.path.relpath(os.path.join(folder, file), home) for file in sorted(files) if file.endswith(".json") and not file.startswith(".")]
        return found


def about_text(main: dict[str, Any]) -> bytes | None:
    """The About page that a schema declares inline, as bytes; None where it declares none."""
    resources = main.get("resources")
    about = resources.get("about") if isinstance(resources, dict) else None
    if isinstance(about, dict):
        about = next((about[key] for key in ("content", "markdown", "text") if isinstance(about.get(key), str)), None)
    return about.encode("utf-8", "surrogatepass") if isinstance(about, str) and about.strip() else None


def flowmcp_version(main: dict[str, Any]) -> str:
    """The schema's version on the axis of the FlowMCP specification; `unknown` where it states none of 4, which only the extended form can say."""
    version = main.get("version")
    parts = version.split(".") if isinstance(version, str) else []
    return f"flowmcp/{version}" if len(parts) == 3 and parts[0] == "4" and all(part.isdigit() for part in parts) else "unknown"
