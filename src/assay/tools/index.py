"""index.json: what the entries of a namespace or a selection come to. Made from the tree alone, the
same bytes for the same tree.

It is the one file that is overwritten. Its times are those of the tree, never the time of the
rebuild. The frozen `lockSnapshot` of a selection is carried over byte for byte, and so is what the
index remembers of entries that are gone: see `memory`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import InputError
from assay.files.atomic import atomic_write
from assay.files.json_files import parse_json
from assay.records.systems import version_key
from assay.tools.catalogue import of_server, read_catalogue
from assay.tools.documents import document_bytes
from assay.tools.hashing import namespace_hash
from assay.tools.manifest import Manifest, read_manifest, snapshot_of
from assay.tools.memory import ENTRIES, Memory
from assay.tools.names import GRADINGS, LETTERS, REJECTED, stamp
from assay.tools.node import CHANGED, Home, Node, judge, node_document, read_entries
from assay.tools.policy import better
from assay.tools.selection import is_member_id, member_ids, namespaces_of, size_outcome
from assay.tools.status import (
    BLOCKED,
    GRADED,
    NODE_REJECTED,
    NODE_STATUSES,
    PENDING,
    ROLLUP_STATUSES,
    STABLE,
    rollup_grade,
    rollup_status,
    schema_status,
)
from assay.tools.versions import Systems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from assay.tools.policy import SchemaRules

INDEX = "index.json"
INDEX_VERSION = 2
MIN_TESTS = 3
FEW_TESTS = "fewer-than-three-tests"
_LOCK_SLOT = "@lock@"


# --- checking an index


def _nodes(index: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in ("about", "description", "namespaceAggregate", "selectionAggregate"):
        if key in index:
            yield key, index[key]
    for group in ("skills", "members", "schemas"):
        nodes = index.get(group)
        for name, node in nodes.items() if isinstance(nodes, dict) else ():
            yield f"{group}.{name}", node
            if group == "schemas" and isinstance(node, dict):
                if "toolsAggregate" in node:
                    yield f"{group}.{name}.toolsAggregate", node["toolsAggregate"]
                tools = node.get("tools")
                for tool, inner in tools.items() if isinstance(tools, dict) else ():
                    yield f"{group}.{name}.tools.{tool}", inner
    lock = index.get("lockSnapshot")
    members = lock.get("members") if isinstance(lock, dict) else None
    for member in members if isinstance(members, list) else ():
        if isinstance(member, dict) and "gradingStatus" in member:
            yield f"lockSnapshot.{member.get('schemaId')}", {"status": member["gradingStatus"]}


def index_fault(index: object) -> InputError | None:
    """The first thing wrong with an index: its version, a status outside its list, something
    missing, then something of the wrong kind.
    """
    if not isinstance(index, dict):
        return InputError("IDX-002", "an index is an object.")
    version = index.get("indexVersion")
    if version != INDEX_VERSION or isinstance(version, bool):
        return InputError("IDX-003", f"indexVersion is {version!r}, not {INDEX_VERSION}.")
    if "status" in index and index["status"] not in ROLLUP_STATUSES:
        return InputError(
            "IDX-007", f"status is {index['status']!r}; a rollup is {', '.join(ROLLUP_STATUSES)}."
        )
    for path, node in _nodes(index):
        if isinstance(node, dict) and "status" in node and node["status"] not in NODE_STATUSES:
            return InputError(
                "IDX-007",
                f"{path}.status is {node['status']!r}; a node is {', '.join(NODE_STATUSES)}.",
            )
    if index.get("namespace") is None and index.get("selectionId") is None:
        return InputError("IDX-001", "neither namespace nor selectionId is there.")
    needed = [
        "updatedAt",
        "status",
        *(["description", "skills"] if index.get("namespace") is not None else []),
    ]
    for key in needed:
        if key not in index:
            return InputError("IDX-001", f"{key} is missing.")
    for key in ("namespace", "selectionId", "updatedAt"):
        if key in index and not isinstance(index[key], str):
            return InputError("IDX-002", f"{key} is no text.")
    for path, node in _nodes(index):
        if not isinstance(node, dict):
            return InputError("IDX-002", f"{path} is no object.")
        if "status" not in node:
            return InputError("IDX-001", f"{path}.status is missing.")
        grade = node.get("grade")
        if grade is not None and grade not in (*LETTERS, REJECTED):
            return InputError("IDX-007", f"{path}.grade is {grade!r}.")
    return None


# --- a namespace


class _Collected(NamedTuple):
    """What is gathered while the nodes of one index are visited."""

    statuses: list[str]
    grades: list[str]
    blockers: list[dict[str, str]]
    moments: list[datetime]
    versions: set[tuple[str, str]]

    def take(self, path: str, node: Node, shown: dict[str, Any]) -> None:
        self.statuses.append(node.status)
        if "grade" in shown:
            self.grades.append(shown["grade"])
        if node.status == BLOCKED:
            self.blockers.append({"node": path, "reason": node.reason or "blocked"})
        if node.newest is not None:
            self.moments.append(node.newest)
        self.versions.update(node.versions)

    def remember(
        self, memory: Memory, rules: SchemaRules, systems: Systems | None
    ) -> dict[str, Any]:
        """What the index remembers; what is lost outside of its nodes blocks or rejects the
        whole.
        """
        for place, lost in memory.rest(rules, systems):
            self.statuses.append(NODE_REJECTED if any(item.veto for item in lost) else BLOCKED)
            self.blockers.extend({"node": place, "reason": item.reason} for item in lost)
        return {ENTRIES: memory.document()}


def _visible(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted(
                item.name
                for item in found
                if not item.name.startswith((".", "_")) and item.is_dir(follow_symlinks=False)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


def namespace_index(
    root: str,
    namespace: str,
    rules: SchemaRules,
    *,
    systems: Systems | None = None,
    also: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The index of a namespace, from its folder in the tree and what older indexes of it remember
    (`also`, from a ledger).
    """
    home = os.path.join(root, "providers", namespace)
    gathered, memory, catalogue = (
        _Collected([], [], [], [], set()),
        Memory(home, also=also),
        read_catalogue(root),
    )
    schemas: dict[str, Any] = {}
    skills: dict[str, Any] = {}
    abouts: list[tuple[Node, dict[str, Any]]] = []
    members: dict[str, str] = {}
    about_hash: str | None = None
    tools_total = tools_stable = 0

    def node(
        folder: str,
        area: str,
        live: str | None,
        tool: str | None = None,
        skill: str | None = None,
        questions: Mapping[str, Any] = catalogue,
    ) -> tuple[Node, dict[str, Any]]:
        place = Home(folder, (area,), namespace, tool, skill=skill)
        stored = read_entries(place, rules, systems=systems)
        found = judge(
            stored,
            live,
            rules,
            systems=systems,
            lost=memory.take(place, stored),
            catalogue=questions,
        )
        return found, node_document(found, home, live_hash=live)

    for name in _visible(home):
        folder = os.path.join(home, name)
        snapshot = snapshot_of(folder, name)
        live = snapshot.hash8 if snapshot else None
        if snapshot is not None:
            members[name] = snapshot.hash8
            gathered.moments.append(snapshot.moment)
        manifest, unread = None, None
        try:
            manifest = read_manifest(folder, snapshot) if snapshot else None
        except InputError as error:
            unread = error.message
        questions = (
            of_server(catalogue)
            if manifest and any(tool["tests"] is None for tool in manifest.tools.values())
            else catalogue
        )
        whole, shown = node(folder, "tools-aggregate-schema", live, questions=questions)
        if unread is not None:
            whole, shown = Node(BLOCKED, reason=unread), {"status": BLOCKED, "reason": unread}
        gone = snapshot is None and _was_imported(folder)
        if gone:
            whole = whole._replace(
                status=BLOCKED if whole.status != NODE_REJECTED else whole.status,
                reason="its snapshot is gone",
            )
            shown = node_document(whole, home, live_hash=None)
        tools: dict[str, Any] = {}
        statuses = []
        for tool in sorted(manifest.tools) if manifest else _visible(os.path.join(folder, "tools")):
            inside = os.path.join(folder, "tools", tool)
            one, document = node(inside, "single-test", live, tool)
            if one.status != NODE_REJECTED and (gone or (manifest and lacks_tests(manifest, tool))):
                one = one._replace(
                    status=BLOCKED, reason="its snapshot is gone" if gone else FEW_TESTS
                )
                document = node_document(one, home, live_hash=live)
            gathered.take(f"schemas.{name}.tools.{tool}", one, document)
            tools[tool] = document
            statuses.append(one.status)
            tools_total += 1
            tools_stable += one.status == STABLE
        status = schema_status(statuses, whole.status)
        made: dict[str, Any] = {"status": status}
        if whole.status == BLOCKED and status != NODE_REJECTED:
            made["status"] = status = BLOCKED
        if whole.reason == CHANGED and status not in (BLOCKED, NODE_REJECTED):
            made["status"] = status = PENDING
            made["reason"] = CHANGED
        elif snapshot is None and whole.entry is None and not tools:
            made["reason"] = "not yet imported"
        elif whole.reason is not None:
            made["reason"] = whole.reason
        if "grade" in shown:
            made["grade"] = shown["grade"]
        if snapshot is not None:
            made["snapshot"] = {"file": snapshot.file, "hash": snapshot.hash8}
        made["toolsAggregate"] = shown
        made["tools"] = tools
        gathered.take(f"schemas.{name}.toolsAggregate", whole, shown)
        gathered.statuses[-1] = status  # the schema stands for its aggregate in the rollup
        schemas[name] = made
        for skill in _visible(os.path.join(folder, "skills")):
            one, document = node(
                os.path.join(folder, "skills", skill), "namespace-skills", live, skill=skill
            )
            gathered.take(f"skills.{name}.{skill}", one, document)
            skills[f"{name}.{skill}"] = document
        about_folder = os.path.join(folder, "resources", "about")
        page = snapshot_of(about_folder, "about")
        declared = manifest.about_hash if manifest else page.hash8 if page else None
        if declared is not None or (
            manifest is None and os.path.isdir(os.path.join(about_folder, GRADINGS))
        ):
            about_hash = declared or about_hash
            abouts.append(node(about_folder, "about-namespace", live))

    bound = namespace_hash(members, about_hash) if members else None
    description, description_shown = node(home, "namespace-description", bound)
    whole, whole_shown = node(home, "tools-aggregate-namespace", bound)
    if abouts:
        worst = (NODE_REJECTED, BLOCKED, PENDING, GRADED, STABLE)
        for one, document in abouts:
            gathered.take("about", one, document)
        about, about_shown = min(
            abouts, key=lambda pair: (worst.index(pair[0].status), pair[1].get("ref", ""))
        )
    else:
        about = Node(BLOCKED, reason="no-about") if members else Node(PENDING)
        about_shown = node_document(about, home, live_hash=None)
        gathered.take("about", about, about_shown)
    for path, one, document in (
        ("description", description, description_shown),
        ("namespaceAggregate", whole, whole_shown),
    ):
        gathered.take(path, one, document)
    graded = sum(item["status"] in (GRADED, STABLE) for item in skills.values())
    summary = {
        "schemas": len(schemas),
        "tools": tools_total,
        "toolsStable": tools_stable,
        "about": about.status,
        "description": description.status,
        "skills": graded,
        **gathered.remember(memory, rules, systems),
    }
    return _finish(
        {"namespace": namespace},
        gathered,
        summary,
        {
            "about": about_shown,
            "description": description_shown,
            "skills": skills,
            "namespaceAggregate": whole_shown,
            "schemas": schemas,
        },
    )


def lacks_tests(manifest: Manifest, tool: str) -> bool:
    """Whether a tool has too few tests to be graded in full. The tools of a server have none to
    count.
    """
    tests = manifest.tools[tool]["tests"]
    return tests is not None and tests < MIN_TESTS


def status_in(index: dict[str, Any], area: str, names: Mapping[str, str]) -> str:
    """The status that an index shows for the node of an area."""
    schema = index.get("schemas", {}).get(names.get("schema"), {})
    node = {
        "single-test": schema.get("tools", {}).get(names.get("tool")),
        "tools-aggregate-schema": schema.get("toolsAggregate"),
        "namespace-skills": (
            index.get("skills", {}).get(f"{names.get('schema')}.{names.get('skill')}")
        ),
        "tools-aggregate-namespace": index.get("namespaceAggregate"),
        "namespace-description": index.get("description"),
        "about-namespace": index.get("about"),
        "about-selection": index.get("about"),
        "selection-aggregate": index.get("selectionAggregate"),
    }.get(area, index.get("skills", {}).get(names.get("skill")))
    return str(node["status"]) if node else PENDING


def _was_imported(folder: str) -> bool:
    """Whether a schema without a snapshot once had one: a grade that cannot be held against its
    source does not stand.
    """
    return any(name.startswith("_manifest--") for name in os.listdir(folder))


def _finish(
    head: dict[str, Any], gathered: _Collected, summary: dict[str, Any], parts: dict[str, Any]
) -> dict[str, Any]:
    grade = rollup_grade(gathered.grades)
    made: dict[str, Any] = {
        "indexVersion": INDEX_VERSION,
        **head,
        "updatedAt": stamp(max(gathered.moments)) if gathered.moments else "never",
    }
    made["status"] = rollup_status(gathered.statuses)
    if grade is not None:
        made["grade"] = grade
    scoring, grading = (
        sorted(
            {pair[place] for pair in gathered.versions}, key=lambda text: (version_key(text), text)
        )
        for place in (0, 1)
    )
    if gathered.versions:
        made["scoringSystem"], made["gradingSystem"] = scoring[-1], grading[-1]
        summary = {**summary, "scoringSystem": scoring[-1], "gradingSystem": grading[-1]}
        if len(scoring) > 1 or len(grading) > 1:  # scores of two versions side by side must be seen
            summary["mixedVersions"] = {"scoringSystem": scoring, "gradingSystem": grading}
    return {**made, "summary": summary, **parts, "blockers": gathered.blockers}


def next_ungraded(index: dict[str, Any]) -> str | None:
    """The next node to grade: tools before what sums them up, members before their selection. None
    where nothing is pending.
    """
    order = sorted(
        _nodes({key: value for key, value in index.items() if key != "lockSnapshot"}),
        key=lambda pair: -pair[0].count("."),
    )
    return next((path for path, node in order if node["status"] == PENDING), None)


# --- a selection


def selection_index(
    root: str,
    selection_id: str,
    rules: SchemaRules,
    *,
    systems: Systems | None = None,
    namespaces: dict[str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The index of a selection: its members as they stand now in their own namespaces, its About
    page, its skills and the grading of the whole.
    """
    home = os.path.join(root, "selections", selection_id)
    gathered, memory, catalogue = (
        _Collected([], [], [], [], set()),
        Memory(home),
        read_catalogue(root),
    )
    snapshot = snapshot_of(home, "selection")
    definition: dict[str, Any] = {}
    if snapshot is not None:
        gathered.moments.append(snapshot.moment)
        try:
            with open(os.path.join(home, snapshot.file), "rb") as stream:
                definition = parse_json(stream.read())
        except (OSError, ValueError) as error:
            gathered.blockers.append(
                {"node": "selection", "reason": f"{snapshot.file} cannot be read: {error}"}
            )
            gathered.statuses.append(BLOCKED)
    live = snapshot.hash8 if snapshot else None
    known = {} if namespaces is None else namespaces
    members: dict[str, Any] = {}
    listed = member_ids(definition) if isinstance(definition, dict) else []
    for member in listed:
        members[member] = _member(root, member, known, rules, systems)
        gathered.statuses.append(members[member]["status"])
        if members[member]["status"] in (BLOCKED, PENDING):
            gathered.blockers.append(
                {
                    "node": f"members.{member}",
                    "reason": members[member].get("reason", "not graded yet"),
                }
            )

    def node(
        folder: str, areas: tuple[str, ...], skill: str | None = None
    ) -> tuple[Node, dict[str, Any]]:
        place = Home(folder, areas, selection=selection_id, skill=skill)
        stored = read_entries(place, rules, systems=systems)
        found = judge(
            stored,
            live,
            rules,
            systems=systems,
            lost=memory.take(place, stored),
            catalogue=catalogue,
        )
        return found, node_document(found, home, live_hash=live)

    about, about_shown = node(os.path.join(home, "resources", "about"), ("about-selection",))
    whole, whole_shown = node(home, ("selection-aggregate",))
    size = size_outcome(len(namespaces_of(listed)), rules)
    count, sizes = len(namespaces_of(listed)), rules.policy.selection
    reason = None
    if size == "n/a":
        reason = (
            f"{count} namespaces are fewer than {sizes.graded_from}: a selection of this size has"
            " no grade"
        )
    elif (
        count < sizes.uncapped_from
        and "grade" in whole_shown
        and whole_shown["grade"] != REJECTED
        and better(whole_shown["grade"], sizes.capped_at)
    ):
        reason = (
            f"{count} namespaces are fewer than {sizes.uncapped_from}: a selection of this size"
            f" cannot be {whole_shown['grade']}"
        )
    if reason is not None and whole.status != NODE_REJECTED:
        whole = whole._replace(status=BLOCKED, reason=reason)
        whole_shown = node_document(whole, home, live_hash=live)
    skills: dict[str, Any] = {}
    for skill in _visible(os.path.join(home, "skills")):
        one, document = node(
            os.path.join(home, "skills", skill),
            ("selection-skills-L1", "selection-skills-L2", "selection-skills-L3"),
            skill,
        )
        gathered.take(f"skills.{skill}", one, document)
        skills[skill] = document
    for path, one, document in (
        ("about", about, about_shown),
        ("selectionAggregate", whole, whole_shown),
    ):
        gathered.take(path, one, document)
    gathered.grades[:] = [whole_shown["grade"]] if "grade" in whole_shown else []
    summary = {
        "members": len(members),
        "membersStable": sum(item["status"] == STABLE for item in members.values()),
        "about": about.status,
        "skills": len(skills),
        "skillsStable": sum(item["status"] == STABLE for item in skills.values()),
        "namespaces": len(namespaces_of(listed)),
        "size": size,
        **gathered.remember(memory, rules, systems),
    }
    made = _finish(
        {"selectionId": selection_id},
        gathered,
        summary,
        {
            "about": about_shown,
            "selectionAggregate": whole_shown,
            "skills": skills,
            "members": members,
        },
    )
    if size == "n/a" and "grade" not in made:
        made["grade"] = "n/a"
    return made


def _member(
    root: str,
    member: str,
    known: dict[str, dict[str, Any]],
    rules: SchemaRules,
    systems: Systems | None,
) -> dict[str, Any]:
    if not is_member_id(member):
        return {
            "status": BLOCKED,
            "resolvedArtifact": None,
            "reason": f"{member!r} is no <namespace>.<schema>",
        }
    namespace, _, schema = member.partition(".")
    if namespace not in known:
        known[namespace] = (
            namespace_index(root, namespace, rules, systems=systems)
            if os.path.isdir(os.path.join(root, "providers", namespace))
            else {}
        )
    found = known[namespace].get("schemas", {}).get(schema)
    if found is None:
        return {"status": PENDING, "resolvedArtifact": None, "reason": "not imported"}
    made = {
        "status": found["status"],
        "resolvedArtifact": (
            f"providers/{namespace}/{schema}/{found['snapshot']['file']}"
            if "snapshot" in found
            else None
        ),
    }
    for key in ("grade", "reason"):
        if key in found:
            made[key] = found[key]
    if "ref" in found["toolsAggregate"]:
        made["ref"] = f"providers/{namespace}/{found['toolsAggregate']['ref']}"
    return made


# --- writing


def index_bytes(index: dict[str, Any], lock: bytes | None = None) -> bytes:
    """An index as its file holds it; `lock` is the frozen part, put in as the bytes it is."""
    if lock is None:
        return document_bytes(index)
    text = document_bytes({**index, "lockSnapshot": _LOCK_SLOT})
    return text.replace(f'"lockSnapshot": "{_LOCK_SLOT}"'.encode(), b'"lockSnapshot": ' + lock)


def frozen_lock(data: bytes) -> bytes | None:
    """The bytes of `lockSnapshot` in an index file, as they stand there; None where there is
    none.
    """
    text = data.decode("utf-8")
    decoder = json.JSONDecoder()
    position = _skip(text, 0)
    if text[position : position + 1] != "{":
        raise ValueError("is no object")
    position = _skip(text, position + 1)
    while text[position : position + 1] == '"':
        key, position = decoder.raw_decode(text, position)
        position = _skip(text, _skip(text, position) + 1)
        start = position
        _, position = decoder.raw_decode(text, position)
        if key == "lockSnapshot":
            return text[start:position].encode()
        position = _skip(text, position)
        if text[position : position + 1] != ",":
            break
        position = _skip(text, position + 1)
    return None


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def write_index(path: str, index: dict[str, Any], lock: bytes | None = None) -> bool:
    """Write an index if it says something new; whether it did."""
    data = index_bytes(index, lock)
    try:
        with open(path, "rb") as stream:
            if stream.read() == data:
                return False
    except FileNotFoundError:
        pass
    with atomic_write(path) as stream:
        stream.write(data)
    return True


def strict(index: dict[str, Any]) -> dict[str, Any]:
    """An index that the published schema accepts: without the two version keys at the top, which it
    has no room for; they stay in `summary`.
    """
    return {
        key: value for key, value in index.items() if key not in ("scoringSystem", "gradingSystem")
    }
