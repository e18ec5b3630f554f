"""The index of a namespace, which sums up its entries. It is made from the tree alone: the same
tree gives the same bytes.

Its times are those of the tree, never the time of the rebuild. The index carries over what it
remembers of entries that are gone: see `memory`. That of a selection: `selection_index`. How the
file is checked and written: `index_file`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from assay.errors import InputError
from assay.families.tools.catalogue import of_server, read_catalogue
from assay.families.tools.ecma import namespace_hash
from assay.families.tools.forms import FEW_TESTS, NO_ABOUT
from assay.families.tools.manifest import Manifest, Snapshot, read_manifest, snapshot_of
from assay.families.tools.memory import CATALOGUE, ENTRIES, Memory
from assay.families.tools.names import GRADINGS, stamp
from assay.families.tools.node import Home, Node, index_node, judge, read_entries
from assay.families.tools.policy import SchemaRules
from assay.families.tools.records import (
    Blocker,
    IndexNode,
    MemberNode,
    NamespaceIndex,
    SchemaNode,
    SelectionIndex,
    SnapshotRef,
)
from assay.families.tools.rules.main_block import MIN_TESTS
from assay.families.tools.status import (
    BLOCKED,
    GRADED,
    NODE_REJECTED,
    PENDING,
    STABLE,
    rollup_grade,
    rollup_status,
    schema_status,
)
from assay.records.systems import version_key

INDEX_VERSION = 2
SNAPSHOT_GONE = "its snapshot is gone"
WORST_FIRST = (NODE_REJECTED, BLOCKED, PENDING, GRADED, STABLE)


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
        self.memory = Memory(home, also=also)
        self.catalogue = read_catalogue(root)
        self.memory.check_catalogue(self.catalogue, root)
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
            lost=self.memory.take(place, stored),
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
        for place, lost in self.memory.rest(self.rules):
            self.statuses.append(NODE_REJECTED if any(item.veto for item in lost) else BLOCKED)
            self.blockers.extend(
                Blocker(node=place, reason=item.reason, broken=True) for item in lost
            )
        summary[ENTRIES] = self.memory.document()
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
