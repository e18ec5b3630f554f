"""A baseline by its name: the one in the folder of baselines, else the one in the ledger that `--store` names.

The folder comes first, and what it has under the name is taken or refused: one that was changed or is too old never gives way to another of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from assay.errors import NotEnoughEvidence
from assay.registry import near_miss
from assay.release.baseline import Stored, find, moment_of, names

if TYPE_CHECKING:
    from assay.cli.keeping import Store
    from assay.store.baselines import KeptBaseline

_SHORT = len("sha256:") + 12


class Found(NamedTuple):
    """A baseline that was found by its name."""

    stored: Stored
    """For one in a ledger the path is where the ledger is."""
    kept: KeptBaseline | None
    """The record of the ledger; None for one in the folder."""


def find_named(folder: str, name: str, store: Store | None) -> Found:
    """The baseline of a name. With a store, which one was taken is said once the result is stored. One that is nowhere is not enough evidence."""
    try:
        found = Found(find(folder, name), None)
    except NotEnoughEvidence:
        if store is None:
            raise
        return _in_ledger(folder, name, store)
    if store is not None:
        store.say(f"the baseline {found.stored.name} is the one in the folder {folder}.")
    return found


def _in_ledger(folder: str, name: str, store: Store) -> Found:
    from assay.store.baselines import baseline_names, find_baseline

    ledger, project = store.ledger, store.project
    place = f"the project '{project}' of {ledger.where}"
    kept = find_baseline(ledger, name, project=project)
    if kept is None:
        known = sorted({*names(folder), *baseline_names(ledger, project=project)})
        said = near_miss(name, known) or (f" There are: {', '.join(known[:5])}." if known else " There are none.")
        raise NotEnoughEvidence(
            "REL-005",
            f"there is no baseline '{name}', neither in the folder {folder} nor in {place}.{said}",
            where=folder,
            fix="`assay baseline set NAME FILE... --store` stores one in both.",
        )
    record = kept.record
    label = f"{record.get('name')} ({kept.digest[:_SHORT]})"
    made_at = moment_of(str(record.get("made_at")), kept.digest)
    store.say(f"the baseline {label}, made {record['made_at']}, is the one in {place}.")
    return Found(Stored(label, ledger.where, str(record.get("kind", "runs")), made_at, record), kept)
