"""What the pages of tools read from the ledger: indexes, grading entries, reports and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from assay.errors import AssayError
from assay.records.tool_check import ToolCheck
from assay.records.tool_entry import GradedAnswer, GradeReport, GradingEntry, StoredIndex
from assay.records.typed import convert
from assay.server.problems import Problem
from assay.server.state import Services
from assay.store.drafts import Item
from assay.tools.aging import age_answers
from assay.tools.entry import upgrade
from assay.tools.names import AREAS, FULL, file_stamp, stamp
from assay.views.pieces import address
from assay.views.tool_index import RowHistory, TreeRow
from assay.views.tool_list import SELECTION, IndexVersion
from assay.views.tool_page import MAX_HISTORY, StoredCheck

SEARCHED = 2000
"""How many stored indexes or checks are searched for one page."""
AT_ONCE = 100
REPORTS = 20
REPORTS_LOOKED_AT = 200
MAX_LINKS = 1000
R = TypeVar("R")


class _CheckName(msgspec.Struct, rename="camel"):
    schema_id: str = ""


_name_of = msgspec.json.Decoder(_CheckName).decode


class StoredGrading(NamedTuple):
    """A grading entry in the ledger."""

    item: Item
    entry: GradingEntry


def read(item: Item, kind: type[R]) -> R:
    """The record of an item, or a problem that leads to its bytes."""
    try:
        return msgspec.json.decode(item.checked(), type=kind)
    except msgspec.ValidationError as error:
        raise Problem(
            422,
            f"this record does not have the form of its kind: {error}.",
            where=item.digest,
            fix=f"The API has it as it is: {address('api', 'v1', 'records', item.digest)}.",
        ) from None


def version_of(item: Item) -> IndexVersion:
    """A stored index."""
    return IndexVersion(read(item, StoredIndex), item.digest, item.created_at)


def check_of(item: Item) -> StoredCheck:
    """A stored check."""
    return StoredCheck(read(item, ToolCheck), item.digest, item.created_at, item.author)


def _newest_first(services: Services, project: str, kind: str) -> Iterator[Item]:
    items = services.ledger.each(kind, project=project, at_once=AT_ONCE, newest_first=True)
    return islice(items, SEARCHED)


def versions(services: Services, project: str) -> Iterator[tuple[Item, IndexVersion]]:
    """The stored indexes, the newest first."""
    for item in _newest_first(services, project, "index"):
        yield item, version_of(item)


def newest_versions(services: Services, project: str) -> list[IndexVersion]:
    """The newest index of each namespace and selection, by name."""
    newest: dict[tuple[str, str], IndexVersion] = {}
    for _, version in versions(services, project):
        newest.setdefault((version.index.kind, version.index.name), version)
    return [version for _, version in sorted(newest.items())]


def checks_of(services: Services, project: str, schema_id: str) -> list[StoredCheck]:
    """The stored checks of a schema or server, the newest first."""
    items = _newest_first(services, project, "check")
    own = (item for item in items if _name_of(item.body or b"{}").schema_id == schema_id)
    return [check_of(item) for item in islice(own, MAX_HISTORY)]


def is_searched(services: Services, project: str) -> bool:
    """Whether every stored index and check is searched."""
    counts = [services.ledger.count(kind, project=project).n for kind in ("index", "check")]
    return max(counts) <= SEARCHED


def newest_checks(services: Services, project: str) -> list[StoredCheck]:
    """The newest check of each schema or server."""
    newest: dict[str, Item] = {}
    for item in _newest_first(services, project, "check"):
        newest.setdefault(_name_of(item.body or b"{}").schema_id, item)
    return list(map(check_of, newest.values()))


def newest_index(
    services: Services, project: str, name: str, *, selection: bool = False
) -> Item | None:
    """The newest index with a name: of a namespace, or of a selection if that is requested or no
    namespace has the name.
    """
    other: Item | None = None
    for item, version in versions(services, project):
        if version.index.name == name:
            if (version.index.kind == SELECTION) == selection:
                return item
            other = other or (None if selection else item)
    return other


def reports(services: Services, project: str) -> list[tuple[GradeReport, str]]:
    """The newest reports of the file protocol."""
    page = services.ledger.find(
        "entry", project=project, limit=REPORTS_LOOKED_AT, newest_first=True
    )
    return [
        (read(item, GradeReport), item.digest)
        for item in page.items
        if item.body is not None and is_report(item)
    ][:REPORTS]


def is_report(item: Item) -> bool:
    """Whether an entry is a report of the file protocol."""
    return b'"dimensions"' in item.checked() and "dimensions" in item.tree()


def entries_of(services: Services, project: str, index: Item) -> list[StoredGrading]:
    """The entries that an index was made from, the newest first."""
    sources = services.ledger.made_of(index.digest, project=project)
    items = services.ledger.get_many(sources[:MAX_LINKS], project=project)
    entries = [
        StoredGrading(item, entry_of(item))
        for item in items.values()
        if item.kind == "entry" and item.body is not None
    ]
    return sorted(
        entries,
        key=lambda stored: (stored.entry.grading_id.partition("--")[2], stored.item.seq),
        reverse=True,
    )


def entry_of(item: Item) -> GradingEntry:
    """An entry, possibly in the older form of the reference program."""
    try:
        return convert(item.tree(), GradingEntry)
    except msgspec.ValidationError:
        pass
    try:
        return convert(upgrade(item.tree()), GradingEntry)
    except (AssayError, ValueError, TypeError):
        return read(item, GradingEntry)  # for its error


def row_history(row: TreeRow, entries: Sequence[StoredGrading], now: datetime) -> RowHistory:
    """The gradings of a node: those of its areas, and the one that decides its grade."""
    own = [
        stored
        for stored in entries
        if stored.entry.area in row.areas
        and row.subject in (None, stored.entry.schema_id)
        and row.skill in (None, stored.entry.skill_id)
    ]
    tier = AREAS[row.areas[0]].tier if row.areas else None
    changed = row.node is not None and row.node.changed
    deciding = _deciding(row, own)
    if deciding is None:
        return RowHistory(tier, changed=changed)
    return RowHistory(
        tier,
        len(own),
        deciding.entry,
        deciding.item.digest,
        changed,
        _old_answers(deciding.entry.gradings, now),
    )


def _deciding(row: TreeRow, own: Sequence[StoredGrading]) -> StoredGrading | None:
    """The entry that decides a node's grade: the one it references, else its newest full one."""
    ref, bound = getattr(row.node, "ref", None), getattr(row.node, "bound_to", None)
    moment = file_stamp((ref or "").rpartition("/")[2])
    wanted = f"{bound}--{stamp(moment)}" if moment is not None else None
    full = [stored for stored in own if stored.entry.grading_mode == FULL]
    return next(
        (stored for stored in full if stored.entry.grading_id == wanted), full[0] if full else None
    )


def _old_answers(answers: Sequence[GradedAnswer], now: datetime) -> dict[str, str] | None:
    """The questions whose answers are too old, and why; None if their age is unknown."""
    old: dict[str, str] = {}
    try:
        for answer in answers:
            for note in age_answers([answer], now)[1]:
                old.setdefault(answer.question_id, note)
    except (AssayError, ValueError, TypeError):
        return None
    return old
