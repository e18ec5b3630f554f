"""People's labels in a ledger: stored, read, and counted for runs and evaluations.

Everything is read from the labels themselves; nothing is stored twice. Sets of items: `label_sets`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import structs

from assay.records.label import HumanLabel, Rater
from assay.store.drafts import Draft, Item, Link, draft
from assay.store.ledger import Ledger
from assay.views.labels import StoredLabel as StoredLabel

CORRECTABLE = timedelta(minutes=10)
"""How long after their first label of an item a rater can correct it."""


class RunLabels(NamedTuple):
    """People's labels of a run: those that count, oldest first, and how many more there are."""

    labels: tuple[StoredLabel, ...] = ()
    overrides: tuple[StoredLabel, ...] = ()
    superseded: int = 0


class LabelCounts(NamedTuple):
    """How many labels the runs of an evaluation have. None of them affects a gate."""

    labels: int = 0
    """Labels that count: scores and choices, without overrides."""
    items: int = 0
    """Runs with such a label."""
    raters: int = 0
    overrides: int = 0
    """Runs with an override, whether it confirms the grade or not."""
    to_pass: int = 0
    """Overrides with the verdict `pass`."""
    to_fail: int = 0
    overridden: tuple[str, ...] = ()
    """Digests of the runs with an override, the oldest first."""


def label_draft(label: HumanLabel) -> Draft:
    """A label, linked to the runs it is about and to the label it replaces."""
    replaced = [] if label.supersedes is None else [Link("supersedes", label.supersedes)]
    drafted = draft(label, kind="label", links=replaced)
    return drafted.linked("evidence_of", [label.run, *([label.pair.b] if label.pair else [])])


def replacing(label: HumanLabel, before: Iterable[StoredLabel]) -> HumanLabel | None:
    """A label with the digest of the rater's earlier label that it replaces. None if the earlier
    one has the same content, so that a form sent twice is stored once.
    """
    own = [
        stored
        for stored in before
        if stored.label.rater == label.rater and stored.label.item == label.item
    ]
    if not own:
        return label
    newest = max(own, key=lambda stored: stored.seq)
    if newest.label.content == label.content:
        return None
    return structs.replace(label, supersedes=newest.digest)


def read_label(item: Item) -> StoredLabel:
    """A stored label, after checking its content against its digest."""
    label = item.read_as(HumanLabel, "a label")
    return StoredLabel(item.digest, item.seq, item.created_at, label)


def labels_of_set(ledger: Ledger, digest: str, *, project: str) -> list[StoredLabel]:
    """Every label of a set, the oldest first. What was forgotten is left out."""
    return list(_found(ledger, f"set:{digest}", project))


def labels_of_run(ledger: Ledger, digest: str, *, project: str) -> RunLabels:
    """People's labels of a run, by the digest of the stored run."""
    labels = every_label_of_run(ledger, digest, project=project)
    kept = counted(labels)
    return RunLabels(
        tuple(stored for stored in kept if stored.label.kind != "override"),
        tuple(stored for stored in kept if stored.label.kind == "override"),
        len(labels) - len(kept),
    )


def every_label_of_run(ledger: Ledger, digest: str, *, project: str) -> list[StoredLabel]:
    """Every label of a run, whether it counts or not, the oldest first."""
    return list(_found(ledger, f"run:{digest}", project))


def labels_of_evaluation(ledger: Ledger, digest: str, *, project: str) -> LabelCounts:
    """Count the labels of a stored evaluation's runs. A pair counts for its first evaluation."""
    kept = counted(_found(ledger, f"evaluation:{digest}", project))
    overrides = [stored.label for stored in kept if stored.label.override is not None]
    labels = [stored.label for stored in kept if stored.label.override is None]
    verdicts = Counter(override.override.verdict for override in overrides if override.override)
    overridden = tuple(dict.fromkeys(override.run for override in overrides))
    return LabelCounts(
        len(labels),
        len({label.run for label in labels}),
        len({label.rater for label in labels}),
        len(overridden),
        verdicts["pass"],
        verdicts["fail"],
        overridden,
    )


def current(labels: Iterable[StoredLabel]) -> list[StoredLabel]:
    """The newest label of each rater of each item, the oldest first."""
    ordered = sorted(labels, key=lambda stored: stored.seq)
    newest = {(stored.label.rater, stored.label.item): stored for stored in ordered}
    return sorted(newest.values(), key=lambda stored: stored.seq)


def counted(labels: Iterable[StoredLabel]) -> list[StoredLabel]:
    """The labels that count, the oldest first. Of scores and choices, a rater's correction counts
    if it comes soon after the first label and before anybody else's: a later one may be influenced
    by other labels or by the judge. Of overrides the newest counts.
    """
    kept: dict[tuple[Rater, tuple[str, str, str]], StoredLabel] = {}
    first: dict[tuple[Rater, tuple[str, str, str]], str] = {}
    raters: dict[tuple[str, str, str], set[Rater]] = {}
    for stored in sorted(labels, key=lambda stored: stored.seq):
        of_item = raters.setdefault(stored.label.item, set())
        of_item.add(stored.label.rater)
        key = (stored.label.rater, stored.label.item)
        at = first.setdefault(key, stored.at)
        corrects = (
            len(of_item) == 1
            and datetime.fromisoformat(stored.at) - datetime.fromisoformat(at) <= CORRECTABLE
        )
        if key not in kept or corrects or stored.label.override is not None:
            kept[key] = stored
    return sorted(kept.values(), key=lambda stored: stored.seq)


def raters_of(labels: Sequence[StoredLabel]) -> list[Rater]:
    """Who gave labels, in the order of their first one."""
    return list(
        dict.fromkeys(
            stored.label.rater for stored in sorted(labels, key=lambda stored: stored.seq)
        )
    )


def _found(ledger: Ledger, tag: str, project: str) -> Iterator[StoredLabel]:
    return map(read_label, ledger.each("label", {"tag": tag}, project=project))
