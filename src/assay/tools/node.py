"""One node of a grading tree: its entries in order, and what they say it is.

Every entry of the node is read and checked. One that cannot be read, breaks its form or does not
add up blocks the node, and so does one that the index remembers and that is gone: otherwise
spoiling or deleting a veto would lift it. A rejected node is lifted only by a new full grading that
names the rejecting entry as the one it supersedes.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError
from assay.files.json_files import parse_json
from assay.tools.answers import shown
from assay.tools.catalogue import shortfall
from assay.tools.entry import (
    EXTENDED_FORM,
    consistency_faults,
    recomputed,
    schema_valid,
    semantic_faults,
    upgrade,
)
from assay.tools.names import FULL, GRADINGS, PARTIAL, REJECTED, file_stamp, parse_stamp
from assay.tools.status import BLOCKED, GRADED, NODE_REJECTED, PENDING, STABLE, letter_status
from assay.tools.versions import Systems

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.tools.aggregate import Aggregate
    from assay.tools.policy import SchemaRules

CHANGED = "schema changed, regrade required"
MAX_ENTRY = 8 * 1024 * 1024


class Stored(NamedTuple):
    """An entry in its file, or why there is none to be had from it."""

    path: str
    moment: datetime
    entry: dict[str, Any] | None
    fault: str | None
    result: Aggregate | None = None
    """What its answers come to, computed anew."""
    digest: str = ""
    """Of what the file says, whatever its spaces and line ends."""


class Lost(NamedTuple):
    """An entry that an index remembers and that is not there as it was."""

    grading_id: str
    label: str
    veto: str | None
    changed: bool

    @property
    def reason(self) -> str:
        """What is wrong, and what to do."""
        kind = f"the veto {self.label} ({self.veto})" if self.veto else self.label
        return (
            f"{kind}, which {'was changed' if self.changed else 'is gone'}, stands in index.json:"
            " restore it"
        )


class Home(NamedTuple):
    """Where a node lies, and so what its entries must be about."""

    folder: str
    areas: tuple[str, ...]
    namespace: str | None = None
    tool: str | None = None
    selection: str | None = None
    skill: str | None = None


def entry_files(folder: str, areas: Sequence[str]) -> list[tuple[datetime, str]]:
    """The grading files of some areas in the `_gradings` of a folder, oldest first by the time in
    their names.
    """
    found = []
    try:
        names = os.listdir(os.path.join(folder, GRADINGS))
    except (FileNotFoundError, NotADirectoryError):
        return []
    for name in names:
        if name.endswith(".json") and not name.startswith(".") and name.partition("--")[0] in areas:
            moment = file_stamp(name)
            if moment is not None:
                found.append((moment, name))
    return sorted(found)


def read_entries(home: Home, rules: SchemaRules, *, systems: Systems | None = None) -> list[Stored]:
    """The entries of a node, each checked, oldest first by the time in their own ids: renaming a
    file does not make it newer.
    """
    inside = os.path.join(home.folder, GRADINGS)
    if os.path.islink(inside):
        return [
            Stored(
                inside,
                datetime.min.replace(tzinfo=UTC),
                None,
                "is a link; a grading tree holds none",
            )
        ]
    stored = [
        read_entry(os.path.join(inside, name), moment, home, rules, systems=systems)
        for moment, name in entry_files(home.folder, home.areas)
    ]
    return sorted(stored, key=lambda item: (item.moment, item.path))


def read_entry(
    path: str, moment: datetime, home: Home, rules: SchemaRules, *, systems: Systems | None = None
) -> Stored:
    """One entry: of the published form, of the extended one, or of the older form of the reference
    program.
    """
    try:
        if os.path.islink(path):
            return Stored(path, moment, None, "is a link; a grading tree holds none")
        if os.path.getsize(path) > MAX_ENTRY:
            return Stored(path, moment, None, f"is larger than {MAX_ENTRY // 2**20} MiB")
        with open(path, "rb") as stream:
            tree = parse_json(stream.read())
    except (OSError, ValueError) as error:
        return Stored(path, moment, None, f"IDX-004 cannot be read: {error}")
    if not isinstance(tree, dict):
        return Stored(path, moment, None, "IDX-004 is no object")
    own = digest(tree)
    if (
        tree.get("blocked") is True and "form" not in tree
    ):  # as newer versions of the specification write it
        tree = {"notes": [], **tree, "form": EXTENDED_FORM}
    if not schema_valid(tree):
        tree, _ = upgrade(tree)
        if not schema_valid(tree):
            return Stored(path, moment, None, "does not have the published form of an entry")
    moment = parse_stamp(str(tree["gradingId"]).partition("--")[2]) or moment
    again = None
    try:
        again = recomputed(tree, rules, systems)
        wrong = (
            _misplaced(tree, path, home)
            or semantic_faults(tree)
            or consistency_faults(tree, rules, again, systems)
        )
    except InputError as error:
        wrong = [str(error)]
    return Stored(path, moment, tree, wrong[0] if wrong else None, again, own)


def _misplaced(entry: dict[str, Any], path: str, home: Home) -> list[str]:
    """Whether an entry lies where it does not belong: a good entry must not be worth anything in
    another node's folder.
    """
    if entry["area"] != os.path.basename(path).partition("--")[0]:
        return [f"grades the area {entry['area']}"]
    namespace, _, tail = str(entry["schemaId"]).partition(".")
    if home.namespace is not None and namespace != home.namespace:
        return [f"grades {entry['schemaId']}, another namespace"]
    if home.tool is not None and tail != home.tool:
        return [f"grades {entry['schemaId']}, another tool"]
    if home.skill is not None and entry.get("skillId") != home.skill:
        return [f"grades the skill {entry.get('skillId')}"]
    if home.selection is not None and entry.get("selectionId") != home.selection:
        return [f"grades the selection {entry.get('selectionId')}"]
    return []


class Node(NamedTuple):
    """What the entries of a node come to."""

    status: str
    entry: dict[str, Any] | None = None
    """The full grading that decides."""
    path: str | None = None
    reason: str | None = None
    newest: datetime | None = None
    versions: frozenset[tuple[str, str]] = frozenset()
    """The versions of the entry that decides."""
    result: Aggregate | None = None
    """What the answers of the deciding entry come to."""
    vetoes: tuple[dict[str, Any], ...] = ()
    """The rejecting entries that nothing has lifted."""


def judge(
    stored: Sequence[Stored],
    live_hash: str | None,
    rules: SchemaRules,
    *,
    systems: Systems | None = None,
    lost: Sequence[Lost] = (),
    catalogue: Mapping[str, Mapping[str, Any]] | None = None,
) -> Node:
    """The status of a node from its entries, oldest first, the hash of what it grades now (None
    where that is not known) and the entries it has lost.

    The catalogue says what an entry must answer for its grade to make the node stable.
    """
    newest = stored[-1].moment if stored else None
    versions: frozenset[tuple[str, str]] = frozenset()
    spoiled = next((item for item in stored if item.fault is not None), None)
    if spoiled is not None:
        return Node(
            BLOCKED,
            None,
            spoiled.path,
            f"{os.path.basename(spoiled.path)}: {spoiled.fault}",
            newest,
            versions,
        )
    if lost:
        named = {_previous(item.entry) for item in stored if item.entry is not None}
        rejecting = [
            item for item in lost if item.veto is not None and item.grading_id not in named
        ]
        return Node(
            NODE_REJECTED if rejecting else BLOCKED,
            reason=(rejecting or lost)[0].reason,
            newest=newest,
        )
    if not stored:
        return Node(PENDING)
    known: set[str] = set()
    current: Stored | None = None
    open_vetoes: dict[str, Stored] = {}
    for item in stored:
        entry = item.entry
        assert entry is not None
        previous = _previous(entry)
        if previous is not None and previous not in known:
            return Node(
                BLOCKED,
                entry,
                item.path,
                f"{os.path.basename(item.path)}: supersedes {previous}, which is gone",
                newest,
            )
        own = str(entry["gradingId"])
        if own in known:
            return Node(
                BLOCKED,
                entry,
                item.path,
                f"{os.path.basename(item.path)}: there is another entry with the id {own}",
                newest,
            )
        known.add(own)
        if entry["gradingMode"] == PARTIAL:
            if (
                current is None
                or current.entry is None
                or entry.get("aggregateGrade") != current.entry.get("aggregateGrade")
            ):
                code = (
                    "PRT-003 the first grading is partial"
                    if current is None
                    else "PRT-004 a partial grading changed the grade"
                )
                return Node(
                    BLOCKED, entry, item.path, f"{os.path.basename(item.path)}: {code}", newest
                )
            continue
        if previous in open_vetoes and _is_new(
            entry, open_vetoes[previous].entry
        ):  # each veto is lifted by a grading that names it, and by nothing else
            del open_vetoes[previous]
        if entry.get("aggregateGrade") == REJECTED:
            open_vetoes[own] = item
        current = list(open_vetoes.values())[-1] if open_vetoes else item
    assert current is not None
    assert current.entry is not None
    entry = current.entry
    versions = frozenset([(str(entry.get("scoringSystem")), str(entry.get("gradingSystem")))])
    if entry.get("blocked"):
        return Node(BLOCKED, entry, current.path, str(entry.get("blockedReason")), newest, versions)
    if entry.get("aggregateGrade") is None:
        return Node(PENDING, entry, current.path, "no scorable answers", newest, versions)
    found = letter_status(entry["aggregateGrade"], stable_from=rules.policy.stable_from)
    if found != NODE_REJECTED and live_hash is not None and entry["schemaHash"] != live_hash:
        return Node(PENDING, entry, current.path, CHANGED, newest, versions)
    made_by, own = str(entry["gradingSystem"]), (systems or rules.systems).grading
    if (
        found != NODE_REJECTED and made_by != own and "+" in made_by + own
    ):  # the rules of an unpublished policy say nothing about the letters of another
        return Node(
            PENDING,
            entry,
            current.path,
            f"graded under {made_by}, not under {own}; regrade it with the trigger"
            " grading-system-bump",
            newest,
            versions,
        )
    vetoes = tuple(item.entry for item in open_vetoes.values() if item.entry is not None)
    older = [item.entry for item in stored[: stored.index(current)] if item.entry is not None]
    short = shortfall(entry, older, catalogue or {}, rules) if found == STABLE else None
    if short is not None:
        return Node(GRADED, entry, current.path, short, newest, versions, current.result)
    return Node(found, entry, current.path, None, newest, versions, current.result, vetoes)


def _previous(entry: dict[str, Any]) -> str | None:
    """The entry that another says it supersedes."""
    trigger = entry.get("regradingTrigger")
    return (
        str(trigger["previousGradingId"])
        if isinstance(trigger, dict) and trigger.get("previousGradingId") is not None
        else None
    )


def _is_new(entry: dict[str, Any], vetoed: dict[str, Any] | None) -> bool:
    """Whether an entry is an evaluation after a veto: it has a grade, and more than the answers
    that the rejecting entry gave already.
    """
    return entry.get("aggregateGrade") is not None and not all(
        answer in (vetoed or {}).get("gradings", ()) for answer in entry["gradings"]
    )


def last_full(stored: Sequence[Stored]) -> dict[str, Any] | None:
    """The last full grading among entries, oldest first."""
    return next(
        (
            item.entry
            for item in reversed(stored)
            if item.entry and item.entry.get("gradingMode") == FULL
        ),
        None,
    )


def node_document(node: Node, root: str, *, live_hash: str | None) -> dict[str, Any]:
    """A node as the index shows it. A grade that no longer holds is not shown as one."""
    made: dict[str, Any] = {"status": node.status}
    entry = node.entry
    holds = node.status not in (PENDING, BLOCKED)
    if entry is not None and holds:
        made["grade"] = entry["aggregateGrade"]
        if node.result is not None and node.result.mean is not None:
            made["rawGrade"] = node.result.raw_grade
            made["normalizedScore"] = shown(node.result.mean)
    elif node.status == NODE_REJECTED:
        made["grade"] = REJECTED
    if node.path is not None:
        made["ref"] = node.path.removeprefix(root).lstrip(os.sep).replace(os.sep, "/")
    if node.reason is not None:
        made["reason"] = node.reason
    elif entry is not None and entry.get("aggregateGrade") == REJECTED:
        made["reason"] = f"veto: {entry['categoricalVeto']['triggeredBy']}"
    if entry is not None:
        made["boundTo"] = entry["schemaHash"]
        if live_hash is None and holds:
            made["note"] = "there is no snapshot to compare with"
        made["scoringSystem"] = entry["scoringSystem"]
        made["gradingSystem"] = entry["gradingSystem"]
    return made
