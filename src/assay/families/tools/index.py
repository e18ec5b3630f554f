"""The index of a namespace or selection, which sums up its entries. It is made from the tree
alone: the same tree gives the same bytes, and its times are those of the tree.

index.json is the one file of a tree that is overwritten. Nothing reads it but for the frozen
`lockSnapshot` of a selection, which is carried over byte for byte.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.families.tools.catalogue import (
    QUESTIONS,
    Catalogue,
    joined,
    of_server,
    read_catalogue,
    stated,
)
from assay.families.tools.ecma import document_bytes, hash8, namespace_hash
from assay.families.tools.entry import FEW_TESTS, NO_ABOUT
from assay.families.tools.manifest import Manifest, Snapshot, read_manifest, snapshot_of
from assay.families.tools.names import AREAS, AUTONOMOUS, GRADINGS, LETTERS, RECORD, REJECTED, stamp
from assay.families.tools.node import (
    Home,
    LostEntry,
    Node,
    StoredEntry,
    entry_paths,
    index_node,
    judge,
    read_entries,
)
from assay.families.tools.policy import SchemaRules, better
from assay.families.tools.records import (
    Blocker,
    IndexNode,
    MemberNode,
    NamespaceIndex,
    SchemaNode,
    SelectionIndex,
    SnapshotRef,
)
from assay.families.tools.selection import is_member_id, member_ids, namespaces_of, size_outcome
from assay.families.tools.status import (
    BLOCKED,
    GRADED,
    NODE_REJECTED,
    NODE_STATUSES,
    OPERATIONAL,
    PENDING,
    ROLLUP_STATUSES,
    STABLE,
    letter_status,
    rollup_grade,
    rollup_status,
    schema_status,
)
from assay.families.tools.validation import MIN_TESTS
from assay.files.atomic import atomic_write
from assay.files.json_files import parse_json
from assay.files.line_log import checked, line_of
from assay.records.systems import version_key

INDEX_VERSION = 2
SNAPSHOT_GONE = "its snapshot is gone"
WORST_FIRST = (NODE_REJECTED, BLOCKED, PENDING, GRADED, STABLE)
ENTRIES, CATALOGUE = "entries", "catalogue"
"""Keys in a line of the record, and in the summary of an index, which is open to further keys."""


# --- what is remembered of the entries


class _EntryGroup(NamedTuple):
    """The entries of one area in one folder."""

    folder: str
    area: str


class EntryRecord:
    """The entries that a namespace or selection has had, and the questions that they answered: a
    file to which lines are only added.

    An entry may never be deleted or changed. If one that is remembered is missing or changed, its
    node is closed, and a remembered veto keeps rejecting it.
    """

    def __init__(self, home: str, *, also: Iterable[Mapping[str, Any]] = ()) -> None:
        """`also` are indexes of the same namespace or selection, as a ledger keeps them: where the
        tree has lost its record too, they remember.
        """
        self.home = home
        self._held: dict[_EntryGroup, dict[str, dict[str, str]]] = defaultdict(dict)
        self._found: dict[_EntryGroup, dict[str, dict[str, str]]] = defaultdict(dict)
        self._catalogue: dict[str, dict[str, Any]] = {}
        for line in (*_recorded(home), *(index.get("summary") for index in also)):
            known = line if isinstance(line, dict) else {}
            listed = known.get(ENTRIES)
            for key, entry in listed.items() if isinstance(listed, dict) else ():
                folder, area, own = ["", "", *key.rsplit("/", 2)][-3:]
                if isinstance(entry, dict) and area in AREAS:
                    self._held[_EntryGroup(folder, area)].setdefault(
                        own, {name: str(value) for name, value in entry.items()}
                    )
            if isinstance(catalogue := known.get(CATALOGUE), dict):
                self._catalogue = joined(self._catalogue, stated(catalogue), home)

    def check_catalogue(self, catalogue: Catalogue, root: str) -> None:
        """Refuse a catalogue that lacks anything that entries were held against."""
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
            group = _EntryGroup(folder, area)
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
        return lost

    def rest(self, rules: SchemaRules) -> Iterator[tuple[str, list[LostEntry]]]:
        """What is lost outside of the nodes that were taken, by its folder: of a tool that was
        removed, or of a schema whose folder is gone.
        """
        for group in sorted({*self._held, *self._on_disk()} - {*self._found}):
            home = Home(os.path.join(self.home, group.folder), (group.area,))
            lost = self.take(home, read_entries(home, rules))
            if lost:
                yield f"{group.folder}/{GRADINGS}", lost

    def _on_disk(self) -> Iterator[_EntryGroup]:
        for path in entry_paths(self.home):
            folder, file = os.path.split(path)
            area = file.partition("--")[0]
            if area in AREAS:
                yield _EntryGroup(os.path.dirname(folder).replace(os.sep, "/") or ".", area)

    def document(self) -> dict[str, dict[str, str]]:
        """All that was remembered, and all that was found."""
        return {
            f"{group.folder}/{group.area}/{own}": entry
            for group in sorted({*self._held, *self._found})
            for own, entry in sorted(
                {**self._found.get(group, {}), **self._held.get(group, {})}.items()
            )
        }

    def keep(self, index: NamespaceIndex | SelectionIndex) -> None:
        """Add what an index shows and the file does not have yet. The caller holds the lock."""
        known = self.document()
        new = {key: item for key, item in index.summary[ENTRIES].items() if key not in known}
        line: dict[str, Any] = {ENTRIES: new} if new else {}
        catalogue = index.summary.get(CATALOGUE, {})
        if joined(self._catalogue, catalogue, self.home) != self._catalogue:
            line[CATALOGUE] = catalogue
        if line:
            _append(self.home, line_of(line))


def _recorded(home: str) -> list[dict[str, Any]]:
    """The lines of a record; none if there is none. Raises InputError where one cannot be read."""
    path = os.path.join(home, RECORD)
    lines = []
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as stream:
            for number, text in enumerate(stream, 1):
                if checked(text) is not None:
                    lines.append(parse_json(text)["entry"])  # with its exact numbers
                elif text.endswith(b"\n"):
                    raise ValueError(f"line {number} is damaged or was changed")
    except (FileNotFoundError, NotADirectoryError):
        return []  # it begins with the entries that are there
    except (OSError, ValueError) as error:
        raise InputError(
            "FIL-002",
            f"cannot be read, and with it the vetoes that it remembers: {error}.",
            where=path,
            fix=(
                "Restore it. Only where no entry was ever deleted, delete it and run `assay tools"
                " index`."
            ),
        ) from None
    return lines


def _append(home: str, line: bytes) -> None:
    handle = os.open(
        os.path.join(home, RECORD), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
    )
    with os.fdopen(handle, "r+b") as stream:
        good = stream.read().rfind(b"\n") + 1  # what a kill has torn is written over
        try:
            stream.seek(good)
            stream.write(line)
            stream.truncate()
            stream.flush()
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, good)
            raise


class SeenNode(NamedTuple):
    """A node, and how the index shows it."""

    node: Node
    shown: IndexNode


class IndexBuilder:
    """Visits the nodes of one index and collects what they come to."""

    def __init__(
        self, root: str, home: str, rules: SchemaRules, also: Iterable[Mapping[str, Any]] = ()
    ) -> None:
        self.home = home
        self.rules = rules
        self.record = EntryRecord(home, also=also)
        self.catalogue = read_catalogue(root)
        self.record.check_catalogue(self.catalogue, root)
        self.statuses: list[str] = []
        self.grades: list[str] = []
        self.blockers: list[Blocker] = []
        self.moments: list[datetime] = []
        self.versions: set[tuple[str, str]] = set()

    def read(
        self, place: Home, live: str | None, catalogue: Mapping[str, Any] | None = None
    ) -> SeenNode:
        """A node from its entries."""
        stored = read_entries(place, self.rules)
        node = judge(
            stored,
            live,
            self.rules,
            lost=self.record.take(place, stored),
            catalogue=self.catalogue if catalogue is None else catalogue,
        )
        return self.show(node, live)

    def show(self, node: Node, live: str | None) -> SeenNode:
        """A node with how the index shows it."""
        return SeenNode(node, index_node(node, self.home, live_hash=live))

    def block(
        self,
        seen: SeenNode,
        reason: str,
        live: str | None,
        *,
        code: str | None = None,
        broken: bool = False,
    ) -> SeenNode:
        """The node blocked for a reason; a rejected one stays rejected."""
        if seen.node.status == NODE_REJECTED:
            return seen
        blocked = seen.node._replace(
            status=BLOCKED, reason=reason, changed=False, blocked_reason=code, broken=broken
        )
        return self.show(blocked, live)

    def take(self, path: str, seen: SeenNode) -> IndexNode:
        """Count a node; how the index shows it."""
        node = seen.node
        self.statuses.append(node.status)
        if seen.shown.grade is not None:
            self.grades.append(seen.shown.grade)
        if node.status == BLOCKED:
            reason = node.reason or "blocked"
            self.blockers.append(Blocker(node=path, reason=reason, broken=node.broken))
        if node.newest is not None:
            self.moments.append(node.newest)
        self.versions.update(node.versions)
        return seen.shown

    def head(self, summary: dict[str, Any]) -> dict[str, Any]:
        """The fields that every index has. What is lost outside of its nodes blocks or rejects the
        whole.
        """
        for place, lost in self.record.rest(self.rules):
            self.statuses.append(NODE_REJECTED if any(item.veto for item in lost) else BLOCKED)
            self.blockers.extend(
                Blocker(node=place, reason=item.reason, broken=True) for item in lost
            )
        summary[ENTRIES] = self.record.document()
        if self.catalogue:
            summary[CATALOGUE] = self.catalogue
        newest: dict[str, str] = {}
        if self.versions:
            scoring, grading = (
                sorted(set(texts), key=lambda text: (version_key(text), text))
                for texts in zip(*self.versions, strict=True)
            )
            newest = {"scoringSystem": scoring[-1], "gradingSystem": grading[-1]}
            summary |= newest
            if len(scoring) > 1 or len(grading) > 1:
                # scores of two versions side by side must be seen
                summary["mixedVersions"] = {"scoringSystem": scoring, "gradingSystem": grading}
        return {
            "index_version": INDEX_VERSION,
            "updated_at": stamp(max(self.moments)) if self.moments else "never",
            "status": rollup_status(self.statuses),
            "grade": rollup_grade(self.grades),
            "scoring_system": newest.get("scoringSystem"),
            "grading_system": newest.get("gradingSystem"),
            "summary": summary,
            "blockers": self.blockers,
        }


def visible_folders(*folder: str) -> list[str]:
    """The folders in a folder, without hidden ones, ours and links."""
    try:
        with os.scandir(os.path.join(*folder)) as entries:
            return sorted(
                item.name
                for item in entries
                if not item.name.startswith((".", "_")) and item.is_dir(follow_symlinks=False)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


# --- a namespace


class _SchemaState(NamedTuple):
    """What the folder of a schema holds."""

    folder: str
    snapshot: Snapshot | None
    manifest: Manifest | None
    unread: str | None
    """Why the manifest cannot be read."""

    @property
    def live(self) -> str | None:
        return self.snapshot.hash8 if self.snapshot else None

    @property
    def gone(self) -> bool:
        """Whether a schema without a snapshot once had one: a grade that cannot be held against
        its source is not valid.
        """
        return self.snapshot is None and any(
            name.startswith("_manifest--") for name in os.listdir(self.folder)
        )


def _schema_state(home: str, name: str) -> _SchemaState:
    folder = os.path.join(home, name)
    snapshot = snapshot_of(folder, name)
    try:
        manifest = read_manifest(folder, snapshot) if snapshot else None
    except InputError as error:
        return _SchemaState(folder, snapshot, None, error.message)
    return _SchemaState(folder, snapshot, manifest, None)


def namespace_index(
    root: str, namespace: str, rules: SchemaRules, *, also: Iterable[Mapping[str, Any]] = ()
) -> NamespaceIndex:
    """The index of a namespace, from its folder in the tree and what older indexes of it remember
    (`also`, from a ledger).
    """
    home = os.path.join(root, "providers", namespace)
    build = IndexBuilder(root, home, rules, also)
    schemas: dict[str, SchemaNode] = {}
    skills: dict[str, IndexNode] = {}
    abouts: list[SeenNode] = []
    members: dict[str, str] = {}
    about_hash: str | None = None
    for name in visible_folders(home):
        state = _schema_state(home, name)
        if state.snapshot is not None:
            members[name] = state.snapshot.hash8
            build.moments.append(state.snapshot.moment)
        schemas[name] = _schema_node(build, namespace, name, state)
        for skill in visible_folders(state.folder, "skills"):
            place = Home(
                os.path.join(state.folder, "skills", skill),
                ("namespace-skills",),
                namespace,
                skill=skill,
            )
            skills[f"{name}.{skill}"] = build.take(
                f"skills.{name}.{skill}", build.read(place, state.live)
            )
        folder = os.path.join(state.folder, "resources", "about")
        declared = declared_about(state.folder, state.manifest)
        if declared is not None or (
            state.manifest is None and os.path.isdir(os.path.join(folder, GRADINGS))
        ):
            about_hash = declared or about_hash
            abouts.append(build.read(Home(folder, ("about-namespace",), namespace), state.live))
    bound = namespace_hash(members, about_hash) if members else None
    if not abouts:
        missing = (
            Node(BLOCKED, reason=NO_ABOUT, blocked_reason=NO_ABOUT) if members else Node(PENDING)
        )
        abouts = [build.show(missing, None)]
    description = build.read(Home(home, ("namespace-description",), namespace), bound)
    whole = build.read(Home(home, ("tools-aggregate-namespace",), namespace), bound)
    for seen in abouts:
        build.take("about", seen)
    about = min(
        abouts, key=lambda seen: (WORST_FIRST.index(seen.node.status), seen.shown.ref or "")
    )
    build.take("description", description)
    build.take("namespaceAggregate", whole)
    tools = [tool.status for schema in schemas.values() for tool in schema.tools.values()]
    summary = {
        "schemas": len(schemas),
        "tools": len(tools),
        "toolsStable": tools.count(STABLE),
        "about": about.node.status,
        "description": description.node.status,
        "skills": sum(node.status in (GRADED, STABLE) for node in skills.values()),
    }
    return NamespaceIndex(
        **build.head(summary),
        namespace=namespace,
        about=about.shown,
        description=description.shown,
        skills=skills,
        namespace_aggregate=whole.shown,
        schemas=schemas,
    )


def _schema_node(build: IndexBuilder, namespace: str, name: str, state: _SchemaState) -> SchemaNode:
    live, manifest = state.live, state.manifest
    of_tools = manifest is not None and any(tool.tests is None for tool in manifest.tools.values())
    whole = build.read(
        Home(state.folder, ("tools-aggregate-schema",), namespace),
        live,
        of_server(build.catalogue) if of_tools else None,
    )
    fault = SNAPSHOT_GONE if state.gone else state.unread
    if fault is not None:
        whole = build.block(whole, fault, live, broken=True)
    tools: dict[str, IndexNode] = {}
    for tool in sorted(manifest.tools) if manifest else visible_folders(state.folder, "tools"):
        place = Home(os.path.join(state.folder, "tools", tool), ("single-test",), namespace, tool)
        seen = build.read(place, live)
        if state.gone:
            seen = build.block(seen, SNAPSHOT_GONE, live, broken=True)
        elif manifest and lacks_tests(manifest, tool):
            seen = build.block(seen, FEW_TESTS, live, code=FEW_TESTS)
        tools[tool] = build.take(f"schemas.{name}.tools.{tool}", seen)
    aggregate, reason, changed = whole.node.status, whole.node.reason, whole.node.changed
    status = schema_status([node.status for node in tools.values()], aggregate)
    if aggregate == BLOCKED and status != NODE_REJECTED:
        status = BLOCKED
    if changed and status not in (BLOCKED, NODE_REJECTED):
        status = PENDING
    elif state.snapshot is None and whole.node.entry is None and not tools:
        reason = "not yet imported"
    if status == BLOCKED != aggregate:
        changed = False
        reason = next(
            f"{tool}: {node.reason}" for tool, node in tools.items() if node.status == BLOCKED
        )
    build.take(f"schemas.{name}.toolsAggregate", whole)
    build.statuses[-1] = status  # the schema stands for its aggregate in the rollup
    return SchemaNode(
        status=status,
        reason=reason,
        changed=changed,
        grade=whole.shown.grade,
        snapshot=SnapshotRef(file=state.snapshot.file, hash=state.snapshot.hash8)
        if state.snapshot
        else None,
        tools_aggregate=whole.shown,
        tools=tools,
    )


def declared_about(folder: str, manifest: Manifest | None) -> str | None:
    """The hash of the About page that a schema declares; where another program made the snapshot,
    of the page that lies there.
    """
    if manifest is not None:
        return manifest.about_hash
    page = snapshot_of(os.path.join(folder, "resources", "about"), "about")
    return page.hash8 if page else None


def lacks_tests(manifest: Manifest, tool: str) -> bool:
    """Whether a tool has too few tests to be graded in full. The tools of a server have none to
    count.
    """
    tests = manifest.tools[tool].tests
    return tests is not None and tests < MIN_TESTS


# --- a selection


def selection_index(
    root: str,
    selection_id: str,
    rules: SchemaRules,
    *,
    namespaces: dict[str, NamespaceIndex | None] | None = None,
) -> SelectionIndex:
    """The index of a selection: its members as they are now in their own namespaces, its About
    page, its skills and the grading of the whole.
    """
    home = os.path.join(root, "selections", selection_id)
    build = IndexBuilder(root, home, rules)
    snapshot = snapshot_of(home, "selection")
    definition: Any = {}
    live = None
    if snapshot is not None:
        build.moments.append(snapshot.moment)
        try:
            with open(os.path.join(home, snapshot.file), "rb") as stream:
                definition = parse_json(stream.read())
            live = hash8(definition)
            fault = f"was changed: its hash is {live}" if live != snapshot.hash8 else ""
        except (OSError, ValueError) as error:
            fault = f"cannot be read: {error}"
        if fault:
            build.blockers.append(
                Blocker(node="selection", reason=f"{snapshot.file} {fault}", broken=True)
            )
            build.statuses.append(BLOCKED)
    listed = member_ids(definition) if isinstance(definition, dict) else []
    known = {} if namespaces is None else namespaces
    members = {member: read_member(root, member, known, rules) for member in listed}
    build.statuses.extend(member.status for member in members.values())
    build.blockers.extend(member_blockers(members))

    def read(folder: str, *areas: str, skill: str | None = None) -> SeenNode:
        place = Home(os.path.join(home, folder), areas, selection=selection_id, skill=skill)
        return build.read(place, live)

    about = read(os.path.join("resources", "about"), "about-selection")
    whole = read("", "selection-aggregate")
    count = len(namespaces_of(listed))
    size = size_outcome(count, rules)
    too_small = _too_small(count, size, whole.shown.grade, rules)
    if too_small is not None:
        whole = build.block(whole, too_small, live)
    levels = ("selection-skills-L1", "selection-skills-L2", "selection-skills-L3")
    skills = {
        skill: build.take(
            f"skills.{skill}", read(os.path.join("skills", skill), *levels, skill=skill)
        )
        for skill in visible_folders(home, "skills")
    }
    build.take("about", about)
    build.take("selectionAggregate", whole)
    build.grades = [whole.shown.grade] if whole.shown.grade else []
    summary = {
        "members": len(members),
        "membersStable": sum(member.status == STABLE for member in members.values()),
        "about": about.node.status,
        "skills": len(skills),
        "skillsStable": sum(node.status == STABLE for node in skills.values()),
        "namespaces": count,
        "size": size,
    }
    head = build.head(summary)
    head["grade"] = head["grade"] or ("n/a" if size == "n/a" else None)
    return SelectionIndex(
        **head,
        selection_id=selection_id,
        about=about.shown,
        selection_aggregate=whole.shown,
        skills=skills,
        members=members,
    )


def _too_small(count: int, size: str, grade: str | None, rules: SchemaRules) -> str | None:
    """Why a selection of that many namespaces cannot have its grade."""
    sizes = rules.policy.selection
    if size == "n/a":
        return (
            f"{count} namespaces are fewer than {sizes.graded_from}: a selection of this size has"
            " no grade"
        )
    if (
        count < sizes.uncapped_from
        and grade not in (None, REJECTED)
        and better(str(grade), sizes.capped_at)
    ):
        return (
            f"{count} namespaces are fewer than {sizes.uncapped_from}: a selection of this size"
            f" cannot be {grade}"
        )
    return None


def member_blockers(members: Mapping[str, MemberNode]) -> list[Blocker]:
    """The members that keep their selection from being graded."""
    return [
        Blocker(node=f"members.{name}", reason=member.reason or "not graded yet")
        for name, member in members.items()
        if member.status in (BLOCKED, PENDING)
    ]


def read_member(
    root: str, member: object, known: dict[str, NamespaceIndex | None], rules: SchemaRules
) -> MemberNode:
    """A member as the index of its namespace has it; `known` are the indexes read so far."""
    if not is_member_id(member):
        return MemberNode(
            status=BLOCKED,
            resolved_artifact=None,
            reason=f"{member!r} is not of the form <namespace>.<schema>",
        )
    namespace, _, schema = str(member).partition(".")
    if namespace not in known:
        there = os.path.isdir(os.path.join(root, "providers", namespace))
        known[namespace] = namespace_index(root, namespace, rules) if there else None
    index = known[namespace]
    node = index.schemas.get(schema) if index else None
    if node is None:
        return MemberNode(status=PENDING, resolved_artifact=None, reason="not imported")
    home, ref = f"providers/{namespace}", node.tools_aggregate.ref
    return MemberNode(
        status=node.status,
        resolved_artifact=f"{home}/{schema}/{node.snapshot.file}" if node.snapshot else None,
        grade=node.grade,
        reason=node.reason,
        changed=node.changed,
        ref=f"{home}/{ref}" if ref else None,
    )


# --- looking into an index


def nodes_of(
    index: NamespaceIndex | SelectionIndex,
) -> Iterator[tuple[str, IndexNode | MemberNode | SchemaNode]]:
    """Every node of an index with its path, in the order in which they are listed."""
    yield "about", index.about
    if isinstance(index, NamespaceIndex):
        yield "description", index.description
        yield "namespaceAggregate", index.namespace_aggregate
    else:
        yield "selectionAggregate", index.selection_aggregate
    yield from ((f"skills.{name}", node) for name, node in index.skills.items())
    if isinstance(index, SelectionIndex):
        yield from ((f"members.{name}", member) for name, member in index.members.items())
        return
    for name, schema in index.schemas.items():
        yield f"schemas.{name}", schema
        yield f"schemas.{name}.toolsAggregate", schema.tools_aggregate
        yield from ((f"schemas.{name}.tools.{tool}", node) for tool, node in schema.tools.items())


def next_ungraded(index: NamespaceIndex | SelectionIndex) -> str | None:
    """The next node to grade: tools before what sums them up, members before their selection. None
    if nothing is pending.
    """
    order = sorted(nodes_of(index), key=lambda pair: -pair[0].count("."))
    return next((path for path, node in order if node.status == PENDING), None)


def status_in(index: NamespaceIndex | SelectionIndex, area: str, names: Mapping[str, str]) -> str:
    """The status that an index shows for the node of an area."""
    schema = f"schemas.{names.get('schema')}"
    path = {
        "single-test": f"{schema}.tools.{names.get('tool')}",
        "tools-aggregate-schema": f"{schema}.toolsAggregate",
        "namespace-skills": f"skills.{names.get('schema')}.{names.get('skill')}",
        "tools-aggregate-namespace": "namespaceAggregate",
        "namespace-description": "description",
        "about-namespace": "about",
        "about-selection": "about",
        "selection-aggregate": "selectionAggregate",
    }.get(area, f"skills.{names.get('skill')}")
    node = dict(nodes_of(index)).get(path)
    return node.status if node else PENDING


# --- index.json


def _nodes(index: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in ("about", "description", "namespaceAggregate", "selectionAggregate"):
        if key in index:
            yield key, index[key]
    for group in ("skills", "members", "schemas"):
        for name, node in _mapping(index.get(group)).items():
            path = f"{group}.{name}"
            yield path, node
            if group == "schemas" and "toolsAggregate" in _mapping(node):
                yield f"{path}.toolsAggregate", node["toolsAggregate"]
            if group == "schemas":
                for tool, inner in _mapping(_mapping(node).get("tools")).items():
                    yield f"{path}.tools.{tool}", inner
    members = _mapping(index.get("lockSnapshot")).get("members")
    for member in members if isinstance(members, list) else ():
        if "gradingStatus" in _mapping(member):
            yield f"lockSnapshot.{member.get('schemaId')}", {"status": member["gradingStatus"]}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def index_fault(index: object) -> InputError | None:
    """The first thing wrong with an index: its version, a status outside its list, something
    missing, then something of the wrong kind.
    """
    if not isinstance(index, dict):
        return InputError("IDX-002", "an index is an object.")
    version = index.get("indexVersion")
    if version != INDEX_VERSION or isinstance(version, bool):
        return InputError("IDX-003", f"indexVersion is {version!r}, not {INDEX_VERSION}.")
    statuses = [("", index, ROLLUP_STATUSES, "a rollup")]
    statuses += [(f"{path}.", node, NODE_STATUSES, "a node") for path, node in _nodes(index)]
    for path, node, allowed, what in statuses:
        if isinstance(node, dict) and node.get("status", allowed[0]) not in allowed:
            return InputError(
                "IDX-007", f"{path}status is {node['status']!r}; {what} is {', '.join(allowed)}."
            )
    of_namespace = index.get("namespace") is not None
    if not of_namespace and index.get("selectionId") is None:
        return InputError("IDX-001", "there is neither a namespace nor a selectionId.")
    for key in ("updatedAt", "status", *(("description", "skills") if of_namespace else ())):
        if key not in index:
            return InputError("IDX-001", f"{key} is missing.")
    for key in ("namespace", "selectionId", "updatedAt"):
        if not isinstance(index.get(key, ""), str):
            return InputError("IDX-002", f"{key} must be a string.")
    for path, node in _nodes(index):
        if not isinstance(node, dict):
            return InputError("IDX-002", f"{path} must be an object.")
        if "status" not in node:
            return InputError("IDX-001", f"{path}.status is missing.")
        if node.get("grade") not in (None, *LETTERS, REJECTED):
            return InputError("IDX-007", f"{path}.grade is {node['grade']!r}.")
    return None


def contradictions(index: dict[str, Any], rules: SchemaRules) -> Iterator[str]:
    """What a sound index claims and its own nodes deny: a status or a grade better than what it
    sums up, a grade beyond the tier, a block without its reason.
    """
    nodes = {path: node for path, node in _nodes(index) if not path.startswith("lockSnapshot.")}
    of_namespace = index.get("namespace") is not None
    for path, node in nodes.items():
        yield from _denied(path, node, rules, autonomous=of_namespace)
    for name, schema in _mapping(index.get("schemas")).items():
        if "toolsAggregate" in schema:
            tools = [tool["status"] for tool in _mapping(schema.get("tools")).values()]
            due = schema_status(tools, schema["toolsAggregate"]["status"])
            if WORST_FIRST.index(schema["status"]) > WORST_FIRST.index(due):
                yield f"schemas.{name} is {schema['status']}, but its parts make it {due}."
    status, due = index["status"], rollup_status(node["status"] for node in nodes.values())
    if status != due and (status == OPERATIONAL or due == NODE_REJECTED):
        yield f"status is {status}, but the nodes make it {due}."
    graded = nodes.values() if of_namespace else [_mapping(index.get("selectionAggregate"))]
    worst = rollup_grade(node["grade"] for node in graded if node.get("grade") is not None)
    grade = index.get("grade")
    if grade in LETTERS and worst is not None and (worst == REJECTED or better(grade, worst)):
        yield f"grade is {grade}, but the nodes make it {worst}."


def _denied(
    path: str, node: dict[str, Any], rules: SchemaRules, *, autonomous: bool
) -> Iterator[str]:
    status, grade = node["status"], node.get("grade")
    if status == BLOCKED and not node.get("reason"):
        yield f"{path} is blocked without a reason."
    if grade is None:
        return
    due = letter_status(grade, stable_from=rules.policy.stable_from)
    member = path.startswith("members.")
    # a schema shows the grade of its aggregate, and one of its tools may be rejected
    of_schema = member or "tools" in node
    if (
        due == NODE_REJECTED != status
        or status == STABLE != due
        or (status == NODE_REJECTED != due and not of_schema)
    ):
        yield f"{path} is {status} with the grade {grade}."
    best = rules.caps[AUTONOMOUS]
    if due != NODE_REJECTED and (autonomous or member) and better(grade, best):
        yield f"{path} has the grade {grade}, and the best of the tier {AUTONOMOUS} is {best}."


def index_bytes(
    index: NamespaceIndex | SelectionIndex | dict[str, Any], lock: bytes | None = None
) -> bytes:
    """An index as its file holds it; `lock` is the frozen part, put in as the bytes it is."""
    text = document_bytes(index)
    return text if lock is None else text[: -len(b"\n}\n")] + _LOCK + lock + b"\n}\n"


_LOCK = b',\n  "lockSnapshot": '


def write_index(
    path: str, index: NamespaceIndex | SelectionIndex, lock: bytes | None = None
) -> None:
    """Write an index if it differs from the file."""
    data = index_bytes(index, lock)
    with suppress(FileNotFoundError), open(path, "rb") as stream:
        if stream.read() == data:
            return
    with atomic_write(path) as stream:
        stream.write(data)


def strict(index: dict[str, Any]) -> dict[str, Any]:
    """An index that the published schema accepts: without the two version keys at the top, which it
    has no room for; they stay in `summary`.
    """
    return {
        key: value for key, value in index.items() if key not in ("scoringSystem", "gradingSystem")
    }
