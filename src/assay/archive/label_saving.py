"""Stores one label: checks it against its set, and stores it once however often it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError, structs

from assay.archive.labels import every_label_of_run, label_draft, replacing
from assay.errors import InputError, UsageError, few
from assay.records.label import (
    MAX_COMMENT,
    HumanLabel,
    LabelItem,
    Order,
    Override,
    PairLabel,
    Rater,
)
from assay.records.typed import convert

if TYPE_CHECKING:
    from assay.archive.evaluations import StoredEvaluation
    from assay.store.drafts import Draft, Item
    from assay.store.ledger import Ledger
    from assay.views.labels import StoredSet


def set_label(
    stored: StoredSet,
    item: LabelItem,
    rater: Rater,
    *,
    scores: Mapping[str, str] | None = None,
    choice: str = "",
    order: Order = "ab",
    comment: str = "",
) -> HumanLabel:
    """A rater's label of an item of a set, from what a form sends: every criterion has a point of
    its scale, or a pair has a choice.
    """
    shared = {
        "schema": "assay.label/1",
        "rater": rater,
        "run_id": item.run_id,
        "run": item.run,
        "sample_id": item.sample,
        "evaluation": stored.set.evaluation.digest,
        "set": stored.digest,
        "comment": _comment(comment),
    }
    rubric = stored.set.rubric
    if rubric is None:
        if choice not in ("a", "b", "tie") or item.other is None:
            raise UsageError(
                "CLI-001", "choose an answer first.", fix="Choose A, B or tie, then save."
            )
        pair = PairLabel(a=item.run, b=item.other, shown=order, choice=choice)  # type: ignore[arg-type]
        return _checked({**shared, "kind": "pair", "pair": pair})
    points: dict[str, int] = {}
    missing = []
    for criterion in rubric.criteria:
        text = (scores or {}).get(criterion.name, "")
        if text in map(str, criterion.points):
            points[criterion.name] = int(text)
        else:
            missing.append(criterion.label or criterion.name)
    if missing:
        raise UsageError(
            "CLI-001",
            f"no score yet for {few(missing)}.",
            fix="Choose a point for every criterion, then save.",
        )
    return _checked({**shared, "kind": "rubric", "scores": points, "rubric": rubric.digest})


def override_label(
    run: Item, evaluation: str | None, rater: Rater, *, verdict: str, reason: str
) -> HumanLabel:
    """A person's verdict on a run."""
    if not reason.strip():
        raise UsageError("CLI-001", "an override needs a reason.", fix="Say why in a sentence.")
    if verdict not in ("pass", "fail"):
        raise UsageError("CLI-001", f"an override is pass or fail, not {verdict[:40]!r}.")
    tree = run.tree()
    override = Override(verdict=verdict, reason=_comment(reason))  # type: ignore[arg-type]
    return _checked(
        {
            "schema": "assay.label/1",
            "kind": "override",
            "rater": rater,
            "run_id": str(tree["run_id"]),
            "run": run.digest,
            "sample_id": str(tree["dataset"]["sample_id"]),
            "evaluation": evaluation,
            "override": override,
        }
    )


def _comment(text: str) -> str:
    kept = text.strip().replace("\r\n", "\n")
    if len(kept) > MAX_COMMENT:
        raise UsageError(
            "CLI-001",
            f"the text has {len(kept):,} characters; the limit is {MAX_COMMENT:,}.",
            fix="Shorten it.",
        )
    return kept


def _checked(fields: dict[str, Any]) -> HumanLabel:
    try:
        label = HumanLabel(**fields)
        return convert(structs.asdict(label), HumanLabel, from_attributes=True)
    except (ValidationError, ValueError) as error:
        raise InputError("STO-010", f"the label can't be stored: {error}.") from None


def run_named(
    ledger: Ledger, wanted: str, evaluation: StoredEvaluation | None, *, project: str
) -> Item:
    """The stored run that an id or a digest means; with an evaluation, the one that it names."""
    item = None
    if evaluation is not None:
        digests = [
            run.digest for run in evaluation.evaluation.runs if wanted in (run.run_id, run.digest)
        ]
        item = ledger.get(digests[0], project=project) if digests else None
    elif wanted.startswith("sha256:"):
        item = ledger.get(wanted, project=project)
    else:
        page = ledger.find("run", {"run_id": wanted}, project=project, limit=1, newest_first=True)
        item = next(iter(page.items), None)
    if item is None or item.kind != "run" or item.body is None:
        within = f" in {evaluation.evaluation.name!r}" if evaluation else ""
        raise InputError(
            "STO-012",
            f"there is no run {wanted[:120]!r}{within} in the project '{project}'.",
            where=ledger.where,
            fix="Give a run's id or digest, as `assay explain EVALUATION` lists them.",
        )
    return item


def saving(ledger: Ledger, label: HumanLabel, *, project: str) -> list[Draft]:
    """The records to store for a label: none if the rater gave the same label before."""
    kept = replacing(label, every_label_of_run(ledger, label.run, project=project))
    return [] if kept is None else [label_draft(kept)]
