"""A baseline by its name: the one in the folder of baselines, else the one in the ledger that
`--store` names.

The folder comes first. If its baseline of that name was changed, is too old, or was replaced in the
ledger, it is refused, and the ledger's baseline of the same name doesn't replace it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import canonical, time_of
from assay.errors import NotEnoughEvidence
from assay.release.baseline import StoredBaseline, find, moment_of, names, no_baseline
from assay.store.baselines import KeptBaseline, baseline_names, find_baseline, list_baselines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.services.storing import Store


_SHORT = len("sha256:") + 12


class FoundBaseline(NamedTuple):
    """A baseline that was found by its name."""

    stored: StoredBaseline
    """The path of a baseline in a ledger is that of the ledger."""
    kept: KeptBaseline | None
    """The ledger's record; None for a baseline in the folder."""


def find_named(folder: str, name: str, store: Store | None) -> FoundBaseline:
    """The baseline of a name. With a store, a note reports which one was used. A missing baseline
    is "not enough evidence".
    """
    try:
        baseline = FoundBaseline(find(folder, name), None)
    except NotEnoughEvidence:
        if store is None:
            raise
        return _in_ledger(folder, name, store)
    if store is not None:
        _refuse_older(baseline.stored, name, store)
        store.note(f"the baseline {baseline.stored.name} is the one in the folder {folder}.")
    return baseline


def _refuse_older(stored: StoredBaseline, name: str, store: Store) -> None:
    """Refuse the folder's newest baseline of a name where the ledger has one of newer evidence, or
    one that replaced it, as after a rollback: with a copy of the folder that lacks it, a candidate
    would be compared with a version that was replaced.
    """
    kept = find_baseline(store.ledger, name, project=store.project)
    if kept is None or _is_same(kept.record, stored):
        return
    newer = as_stored(kept, store.ledger.where)
    # the folder has whole seconds
    is_older = newer.made_at.replace(microsecond=0) > stored.made_at
    if not is_older and not _was_kept(stored, name, store):
        return
    how = "is older than" if is_older else "was replaced by"
    raise NotEnoughEvidence(
        "REL-005",
        f"the baseline {stored.name}, made {stored.record['made_at']}, {how} {newer.name}, made"
        f" {newer.record['made_at']}, in the project '{store.project}' of {store.ledger.where}.",
        where=stored.path,
        fix=f"Name the one that you mean: {stored.name}, or {kept.digest}.",
    )


def _was_kept(stored: StoredBaseline, name: str, store: Store) -> bool:
    listed = list_baselines(store.ledger, project=store.project)
    return any(
        each.kept.record.get("name") == name and _is_same(each.kept.record, stored)
        for each in listed
        if each.kept is not None
    )


def _is_same(record: Mapping[str, Any], stored: StoredBaseline) -> bool:
    """Whether a record of the ledger is of the same evidence as a baseline in the folder, which has
    whole seconds, and other digests.
    """
    made_at = time_of(str(record.get("made_at")))
    return (
        made_at is not None
        and made_at.replace(microsecond=0) == stored.made_at
        and canonical(record.get("summary")) == canonical(stored.record.get("summary"))
    )


def _in_ledger(folder: str, name: str, store: Store) -> FoundBaseline:
    ledger, project = store.ledger, store.project
    place = f"the project '{project}' of {ledger.where}"
    kept = find_baseline(ledger, name, project=project)
    if kept is None:
        known = sorted({*names(folder), *baseline_names(ledger, project=project)})
        fix = "`assay baseline set NAME FILE... --store` stores one in both."
        raise no_baseline(
            name, known, where=folder, fix=fix, neither_in=f"the folder {folder} nor in {place}"
        )
    stored = as_stored(kept, ledger.where)
    store.note(
        f"the baseline {stored.name}, made {stored.record['made_at']}, is the one in {place}."
    )
    return FoundBaseline(stored, kept)


def as_stored(kept: KeptBaseline, where: str) -> StoredBaseline:
    """A baseline of a ledger as one of a folder: its name is followed by the beginning of its
    digest, which tells it from others of that name.
    """
    record = kept.record
    made_at = moment_of(str(record.get("made_at")), kept.digest)
    return StoredBaseline(
        f"{record.get('name')} ({kept.digest[:_SHORT]})",
        where,
        str(record.get("kind", "runs")),
        made_at,
        record,
    )
