"""Checks stored labels against what they name: the set with that item and scale, the run, and the
rater's earlier label.
"""

from __future__ import annotations

from collections.abc import Iterator

from assay.archive.label_sets import identified_set, read_set
from assay.archive.labels import read_label
from assay.errors import AssayError
from assay.records.label import HumanLabel, LabelSet
from assay.store.drafts import Item
from assay.store.ledger import Ledger


def label_faults(ledger: Ledger, project: str) -> Iterator[tuple[Item, str]]:
    """Each label and set with a false statement."""
    sets: dict[str, LabelSet] = {}
    for item in ledger.each("labelset", project=project):
        try:
            sets[item.digest] = read_set(item).set
        except AssayError as error:
            yield item, f"the content is not a label set: {error.message}"
            continue
        if identified_set(sets[item.digest]).id != sets[item.digest].id:
            yield item, "the id of the label set is not that of its content."
    for item in ledger.each("label", project=project):
        try:
            label = read_label(item).label
        except AssayError as error:
            yield item, f"the content is not a label: {error.message}"
            continue
        fault = _outside_set(label, sets, ledger, project) or _not_there(label, ledger, project)
        if fault:
            yield item, fault


def _outside_set(
    label: HumanLabel, sets: dict[str, LabelSet], ledger: Ledger, project: str
) -> str | None:
    """Why a label doesn't belong to its set; None if it does, or if the set was forgotten."""
    if label.set is None:
        return None
    label_set = sets.get(label.set)
    if label_set is None:
        stored = ledger.get(label.set, project=project)
        return None if stored is not None and stored.kind == "labelset" else "its set is missing."
    known = next((item for item in label_set.items if item.run == label.run), None)
    if known is None or (label.pair is not None and label.pair.b != known.other):
        return "its set doesn't have this item."
    scales = (
        {criterion.name: criterion.points for criterion in label_set.rubric.criteria}
        if label_set.rubric
        else {}
    )
    if label.scores is not None and (
        label.scores.keys() != scales.keys()
        or any(score not in scales[name] for name, score in label.scores.items())
    ):
        return "its scores are not on the scale of its set."
    return None


def _not_there(label: HumanLabel, ledger: Ledger, project: str) -> str | None:
    """The first false statement of a label about another record; None if all are true."""
    runs = [label.run, *([label.pair.b] if label.pair else [])]
    items = ledger.get_many(
        [*runs, *([label.supersedes] if label.supersedes else [])], project=project
    )
    if any(run not in items or items[run].kind != "run" for run in runs):
        return "its run is missing."
    if label.supersedes is None:
        return None
    before = items.get(label.supersedes)
    if before is None or before.kind != "label":
        return "the label it replaces is missing."
    if before.body is None:
        return None
    earlier = read_label(before).label
    if (earlier.rater, earlier.item) != (label.rater, label.item):
        return "it replaces a label of another rater or item."
    return None
