"""One node of a grading tree: its entries in order, and what they say it is.

Every entry of the node is read and checked. One that cannot be read, breaks its form or does not
add up blocks the node, and so does one that is remembered and that is gone: otherwise
spoiling or deleting a veto would lift it. A rejected node is lifted only by a new full grading that
names the rejecting entry as the one it supersedes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from errno import ENAMETOOLONG, ENOENT, ENOTDIR
from typing import Any, NamedTuple

from assay.canon import digest
from assay.errors import InputError
from assay.families.tools.aggregate import Aggregate
from assay.families.tools.answers import shown
from assay.families.tools.catalogue import shortfall
from assay.families.tools.entry import (
    consistency_faults,
    read_form,
    recomputed,
    schema_faults,
    semantic_faults,
    upgrade,
)
from assay.families.tools.names import (
    FULL,
    GRADINGS,
    PARTIAL,
    RECORD,
    REJECTED,
    file_stamp,
    id_moment,
)
from assay.families.tools.policy import SchemaRules
from assay.families.tools.records import GradingEntry, IndexNode
from assay.families.tools.status import (
    BLOCKED,
    GRADED,
    NODE_REJECTED,
    PENDING,
    STABLE,
    letter_status,
    order_fault,
)
from assay.files.json_files import parse_json

MAX_ENTRY = 8 * 1024 * 1024


class StoredEntry(NamedTuple):
    """An entry in its file, or why it can't be read."""

    path: str
    moment: datetime
    entry: GradingEntry | None
    fault: str | None
    result: Aggregate | None = None
    """The recomputed result of its answers."""
    digest: str = ""
    """The digest of the file's content, whatever its spaces and line endings."""


class LostEntry(NamedTuple):
    """An entry that the record remembers and that is not there as it was."""

    grading_id: str
    label: str
    veto: str | None
    changed: bool

    @property
    def reason(self) -> str:
        """What is wrong, and what to do."""
        kind = f"the veto {self.label} ({self.veto})" if self.veto else self.label
        return (
            f"{kind}, which {'was changed' if self.changed else 'is gone'}, is named in {RECORD}:"
            " restore it"
        )


class Home(NamedTuple):
    """Where a node is stored, which determines what its entries must be about."""

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
    try:
        names = os.listdir(os.path.join(folder, GRADINGS))
    except ValueError:  # a NUL in the path, as an edited index can name it
        return []
    except OSError as error:
        if error.errno in (ENOENT, ENOTDIR, ENAMETOOLONG):
            return []
        raise
    return sorted(
        (moment, name)
        for name in names
        if name.endswith(".json")
        and not name.startswith(".")
        and name.partition("--")[0] in areas
        and (moment := file_stamp(name)) is not None
    )


def entry_paths(home: str) -> Iterator[str]:
    """The grading files of a namespace or selection, relative to its folder."""
    for folder, folders, files in os.walk(home):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if os.path.basename(folder) == GRADINGS:
            for file in sorted(files):
                if file.endswith(".json") and not file.startswith("."):
                    yield os.path.relpath(os.path.join(folder, file), home)


def read_entries(home: Home, rules: SchemaRules) -> list[StoredEntry]:
    """The entries of a node, each checked, oldest first by the time in their own ids: renaming a
    file does not make it newer.
    """
    inside = os.path.join(home.folder, GRADINGS)
    if os.path.islink(inside):
        return [StoredEntry(inside, datetime.min.replace(tzinfo=UTC), None, _LINK)]
    stored = [
        _read_entry(os.path.join(inside, name), moment, home, rules)
        for moment, name in entry_files(home.folder, home.areas)
    ]
    return sorted(stored, key=lambda item: (item.moment, item.path))


_LINK = "is a link; a grading tree has none"


def _read_entry(path: str, moment: datetime, home: Home, rules: SchemaRules) -> StoredEntry:
    try:
        if os.path.islink(path):
            return StoredEntry(path, moment, None, _LINK)
        if os.path.getsize(path) > MAX_ENTRY:
            return StoredEntry(path, moment, None, f"is larger than {MAX_ENTRY // 2**20} MiB")
        with open(path, "rb") as stream:
            tree = parse_json(stream.read())
    except (OSError, ValueError) as error:
        return StoredEntry(path, moment, None, f"IDX-004 cannot be read: {error}")
    if not isinstance(tree, dict):
        return StoredEntry(path, moment, None, "IDX-004 is not an object")
    entry = read_form(tree)
    if entry is None:
        form = "does not have the published form of an entry"
        return StoredEntry(path, moment, None, f"{form}: {schema_faults(upgrade(tree))[0]}")
    again = None
    try:
        again = recomputed(entry, rules)
        wrong = (
            _misplaced(entry, path, home)
            or semantic_faults(entry)
            or consistency_faults(entry, rules, again)
        )
    except InputError as error:
        wrong = [str(error)]
    moment = id_moment(entry.grading_id) or moment
    return StoredEntry(path, moment, entry, wrong[0] if wrong else None, again, digest(tree))


def _misplaced(entry: GradingEntry, path: str, home: Home) -> list[str]:
    """Whether an entry lies where it does not belong: a good entry must not be worth anything in
    another node's folder.
    """
    namespace, _, tail = entry.schema_id.partition(".")
    if entry.area != os.path.basename(path).partition("--")[0]:
        return [f"grades the area {entry.area}"]
    if home.namespace not in (None, namespace):
        return [f"grades {entry.schema_id}, another namespace"]
    if home.tool not in (None, tail):
        return [f"grades {entry.schema_id}, another tool"]
    if home.skill not in (None, entry.skill_id):
        return [f"grades the skill {entry.skill_id}"]
    if home.selection not in (None, entry.selection_id):
        return [f"grades the selection {entry.selection_id}"]
    return []


class Node(NamedTuple):
    """A node as its entries describe it."""

    status: str
    entry: GradingEntry | None = None
    """The full grading that decides."""
    path: str | None = None
    reason: str | None = None
    newest: datetime | None = None
    versions: frozenset[tuple[str, str]] = frozenset()
    """The versions of the entry that decides."""
    result: Aggregate | None = None
    """What the answers of the deciding entry come to."""
    vetoes: tuple[GradingEntry, ...] = ()
    """The rejecting entries that nothing has lifted."""
    changed: bool = False
    """Whether what was graded has changed since."""
    blocked_reason: str | None = None
    """Why it is blocked, if for one of the reasons that an entry may state."""
    broken: bool = False
    """Whether files of it are gone, can't be read or contradict each other."""


def judge(
    stored: Sequence[StoredEntry],
    live_hash: str | None,
    rules: SchemaRules,
    *,
    lost: Sequence[LostEntry] = (),
    catalogue: Mapping[str, Mapping[str, Any]] | None = None,
) -> Node:
    """The status of a node from its entries, oldest first, the hash of what it grades now (None if
    that is not known) and the entries it has lost.

    The catalogue says what an entry must answer for its grade to make the node stable.
    """
    newest = stored[-1].moment if stored else None
    spoiled = next((item for item in stored if item.fault is not None), None)
    if spoiled is not None:
        return _blocked(spoiled, str(spoiled.fault), newest, named=False)
    entries = [(item, item.entry) for item in stored if item.entry is not None]
    if lost:
        named = {entry.supersedes for _, entry in entries}
        rejecting = [item for item in lost if item.veto and item.grading_id not in named]
        return Node(
            NODE_REJECTED if rejecting else BLOCKED,
            reason=(rejecting or lost)[0].reason,
            newest=newest,
            broken=True,
        )
    if not entries:
        return Node(PENDING)
    broken = sequence_fault(entries)
    if broken is not None:
        return _blocked(broken.item, broken.reason, newest)
    current = entries[0]
    open_vetoes: dict[str, tuple[StoredEntry, GradingEntry]] = {}
    repaired: dict[str, tuple[StoredEntry, GradingEntry]] = {}
    for item, entry in entries:
        if entry.grading_mode == PARTIAL:
            continue
        lifted = entry.supersedes or ""
        vetoed = open_vetoes.get(lifted) or repaired.get(lifted)
        if vetoed is not None and _is_new(entry, vetoed[1]):
            # each veto is lifted by a grading that names it, and by nothing else
            open_vetoes.pop(lifted, None)
            repaired.pop(lifted, None)
            if entry.schema_hash != vetoed[1].schema_hash:
                repaired[lifted] = vetoed
        if entry.aggregate_grade == REJECTED:
            open_vetoes[entry.grading_id] = (item, entry)
        current = list(open_vetoes.values())[-1] if open_vetoes else (item, entry)
    for own, vetoed in repaired.items():
        if vetoed[1].schema_hash == live_hash:  # what was vetoed is back, not its repair
            open_vetoes[own] = current = vetoed
    item, entry = current
    node = Node(
        PENDING,
        entry,
        item.path,
        None,
        newest,
        frozenset([(entry.scoring_system, entry.grading_system)]),
    )
    outdated = node._replace(changed=True, reason="schema changed, regrade required")
    changed = live_hash not in (None, entry.schema_hash)
    if entry.blocked:
        reason = str(entry.blocked_reason)
        blocked = node._replace(status=BLOCKED, reason=reason, blocked_reason=reason)
        return outdated if changed else blocked
    if entry.aggregate_grade is None:
        return node._replace(reason="no scorable answers")
    status = letter_status(entry.aggregate_grade, stable_from=rules.policy.stable_from)
    if status != NODE_REJECTED:
        made_by, own = entry.grading_system, rules.systems.grading
        if changed:
            return outdated
        if made_by != own and "+" in made_by + own:
            # the rules of an unpublished policy say nothing about the letters of another
            return node._replace(
                reason=f"graded under {made_by}, not under {own}; regrade it with the trigger"
                " grading-system-bump"
            )
    node = node._replace(status=status, result=item.result)
    if status == STABLE:
        older = [entry for _, entry in entries[: entries.index(current)]]
        short = shortfall(entry, older, catalogue or {}, rules)
        if short is not None:
            return node._replace(status=GRADED, reason=short)
    return node._replace(vetoes=tuple(veto for _, veto in open_vetoes.values()))


def _blocked(item: StoredEntry, fault: str, newest: datetime | None, *, named: bool = True) -> Node:
    return Node(
        BLOCKED,
        item.entry if named else None,
        item.path,
        f"{os.path.basename(item.path)}: {fault}",
        newest,
        broken=True,
    )


class BrokenSequence(NamedTuple):
    """The first entry that may not follow those before it."""

    item: StoredEntry
    problem: str
    code: str | None = None
    """Its code, if the order of the modes is wrong."""

    @property
    def reason(self) -> str:
        """What is wrong, with the code."""
        return f"{self.code} {self.problem}" if self.code else self.problem


def sequence_fault(
    entries: Iterable[tuple[StoredEntry, GradingEntry]],
) -> BrokenSequence | None:
    """What is wrong with the order of entries, oldest first; None if nothing is."""
    known: set[str] = set()
    before = None
    for item, entry in entries:
        if entry.supersedes is not None and entry.supersedes not in known:
            return BrokenSequence(item, f"supersedes {entry.supersedes}, which is gone")
        if entry.grading_id in known:
            return BrokenSequence(item, f"there is another entry with the id {entry.grading_id}")
        fault = order_fault(
            entry.grading_mode, entry.aggregate_grade, first=not known, before=before
        )
        if fault is not None:
            return BrokenSequence(item, fault.message, fault.code)
        known.add(entry.grading_id)
        before = entry.aggregate_grade
    return None


def _is_new(entry: GradingEntry, vetoed: GradingEntry) -> bool:
    """Whether an entry is an evaluation after a veto: it has a grade, and more than the answers
    that the rejecting entry gave already.
    """
    return entry.aggregate_grade is not None and not all(
        answer in vetoed.gradings for answer in entry.gradings
    )


def last_full(stored: Sequence[StoredEntry]) -> GradingEntry | None:
    """The last full grading among entries, oldest first."""
    return next(
        (item.entry for item in reversed(stored) if item.entry and item.entry.grading_mode == FULL),
        None,
    )


def index_node(node: Node, root: str, *, live_hash: str | None) -> IndexNode:
    """A node as the index shows it. A grade that no longer holds is not shown as one."""
    entry, result = node.entry, node.result
    holds = node.status not in (PENDING, BLOCKED)
    graded = entry is not None and holds
    reason = node.reason
    if reason is None and entry is not None and entry.categorical_veto is not None:
        reason = f"veto: {entry.categorical_veto.triggered_by}"
    return IndexNode(
        status=node.status,
        grade=entry.aggregate_grade
        if entry is not None and holds
        else REJECTED
        if node.status == NODE_REJECTED
        else None,
        raw_grade=result.raw_grade if graded and result else None,
        normalized_score=shown(result.mean) if graded and result else None,
        ref=node.path.removeprefix(root).lstrip(os.sep).replace(os.sep, "/") if node.path else None,
        reason=reason,
        bound_to=entry.schema_hash if entry else None,
        changed=node.changed,
        blocked_reason=node.blocked_reason,
        note="there is no snapshot to compare with" if graded and live_hash is None else None,
        scoring_system=entry.scoring_system if entry else None,
        grading_system=entry.grading_system if entry else None,
    )
