"""Sets of items for people to label: made from an evaluation or two, stored, found, and given to
each rater in a different order.

A set only lists its items. How far each rater is follows from the labels, see `labels`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from msgspec import structs

from assay.archive.evaluations import LATEST, StoredEvaluation, check_name
from assay.archive.label_draws import LabelPool, draw_items, place
from assay.canon import digest
from assay.errors import NotEnoughEvidence, ShelfError, UsageError
from assay.judging.identity import rubric_name
from assay.judging.pairwise_task import DEFINITION
from assay.library.shelf import Shelf
from assay.records.label import (
    DRAWS,
    Draw,
    LabelCriterion,
    LabelItem,
    LabelledEvaluation,
    LabelRubric,
    LabelSet,
    Order,
    Rater,
)
from assay.registry import near_miss
from assay.store.drafts import Draft, Item, draft
from assay.store.ledger import Ledger
from assay.views.labels import StoredSet

MOST_ITEMS = 2000
DEFAULT_ITEMS = 50
_ID = re.compile(r"ls-[0-9a-f]{12}")


class SetRequest(NamedTuple):
    """The settings for a new set."""

    how: str = "random"
    n: int = DEFAULT_ITEMS
    seed: int = 0
    rubric: str = ""
    criteria: Sequence[str] = ()
    name: str = ""
    question: str = ""
    expected: bool = False
    project_rubric: str = ""
    """The rubric in assay.yaml, which may be the judge's without being in the library."""


def make_set(
    ledger: Ledger,
    shelf: Shelf,
    evaluation: StoredEvaluation,
    other: StoredEvaluation | None,
    request: SetRequest,
    *,
    project: str,
) -> LabelSet:
    """Draw a set. With `other`, raters compare its answers with the first one's."""
    how = _checked(request, pairs=other is not None)
    pool = LabelPool(ledger, evaluation, project=project, seed=request.seed)
    second = other and LabelPool(ledger, other, project=project, seed=request.seed)
    items, draw = draw_items(pool, second, how=how, n=request.n, seed=request.seed)
    if not items:
        reasons = ", ".join(f"{reason}: {n:,}" for reason, n in draw.left_out.items() if n)
        raise NotEnoughEvidence(
            "STO-012",
            f"nothing to label in {evaluation.evaluation.name!r} ({reasons or 'no runs'}).",
            fix=_fix_of(how),
        )
    name = request.name or f"{evaluation.evaluation.name[:80]}-{'pairs-' if other else ''}{how}"
    check_name(name)
    return identified_set(
        LabelSet(
            schema="assay.label-set/1",
            id="",
            name=name,
            task="pairs" if other else "rubric",
            evaluation=_named(evaluation),
            other=other and _named(other),
            rubric=None if other else _rubric(shelf, pool, request, evaluation),
            question=(request.question.strip() or DEFINITION) if other else "",
            expected=request.expected,
            draw=draw,
            items=items,
        )
    )


def _fix_of(how: Draw) -> str:
    if how == "disagree":
        return (
            "This draw needs runs that a judge has scored (`assay judge rubric`, or `judge` in"
            " assay.yaml). The draw `random` takes any run."
        )
    return "Run the evaluation again, or choose another one: `assay evals` lists them."


def _checked(request: SetRequest, *, pairs: bool) -> Draw:
    if request.how not in DRAWS:
        raise UsageError(
            "CLI-001",
            f"there is no draw {request.how[:40]!r}.{near_miss(request.how, DRAWS)}",
            fix=f"Draws: {', '.join(DRAWS)}.",
        )
    if not 1 <= request.n <= MOST_ITEMS:
        raise UsageError(
            "CLI-001",
            f"a set of {request.n:,} items can't be drawn; it has 1 to {MOST_ITEMS:,}.",
        )
    if pairs and (request.rubric or request.criteria):
        raise UsageError(
            "CLI-001",
            "pairs are compared as a whole, without a rubric.",
            fix="Leave out the rubric, or don't name a second evaluation.",
        )
    if len(request.question) > 2000:
        raise UsageError("CLI-001", "the question has at most 2,000 characters.")
    return request.how  # type: ignore[return-value]


def _named(stored: StoredEvaluation) -> LabelledEvaluation:
    evaluation = stored.evaluation
    return LabelledEvaluation(id=evaluation.id, name=evaluation.name, digest=stored.digest)


def command_of(evaluation: StoredEvaluation, rubric: str) -> str:
    """The command that draws from an evaluation, for raters who score by this rubric."""
    return f"`assay label new {evaluation.evaluation.name} --rubric {rubric}`"


def _rubric(
    shelf: Shelf, pool: LabelPool, request: SetRequest, evaluation: StoredEvaluation
) -> LabelRubric:
    judged = next((by for by, _ in pool.rubrics.most_common(1)), "")
    name, own = request.rubric, request.project_rubric
    if own and not name and rubric_name(shelf.rubric(own)) == judged:
        name = own
    name = name or judged.partition("+")[0] or own or _profile_rubric(shelf, pool)
    try:
        rubric = shelf.rubric(name)
    except ShelfError as error:
        if request.rubric or not judged:
            raise
        raise UsageError(
            "CLI-001",
            f"the judge scored by the rubric {judged}, which is not in the library.",
            fix=f"Choose another, or give the file of this one: {command_of(evaluation, 'FILE')}.",
        ) from error
    if not request.rubric and "+" in judged and judged != rubric_name(rubric):
        raise UsageError(
            "CLI-001",
            f"the judge scored by the rubric {judged}, which has changed: it is"
            f" {rubric_name(rubric)} now.",
            fix=f"To label by the new text, choose it: {command_of(evaluation, rubric.id)}. Such"
            " labels can't calibrate that judge.",
        )
    known = [criterion.name for criterion in rubric.criteria]
    for wanted in request.criteria:
        if wanted not in known:
            raise UsageError(
                "CLI-001",
                f"the rubric {rubric.id} has no criterion"
                f" {wanted[:80]!r}.{near_miss(wanted, known)}",
                fix=f"Criteria: {', '.join(known)}.",
            )
    return LabelRubric(
        id=rubric_name(rubric),
        digest=digest(rubric),
        criteria=[
            LabelCriterion(
                name=criterion.name,
                label=criterion.label or "",
                definition=criterion.definition,
                scale=criterion.scale,
                anchors=criterion.anchors,
            )
            for criterion in rubric.criteria
            if not request.criteria or criterion.name in request.criteria
        ],
    )


def _profile_rubric(shelf: Shelf, pool: LabelPool) -> str:
    """The rubric that the profile of these runs names, or that of its family."""
    for name, _ in pool.profiles.most_common(1):
        with suppress(ShelfError):  # the profile may be in a folder that isn't on this shelf
            profile = shelf.profile(name)
            if profile.rubric:
                return profile.rubric
            if any(entry.name == profile.family for entry in shelf.entries("rubrics")):
                return profile.family
    raise UsageError(
        "CLI-001",
        "no judge has scored these runs, and their profile names no rubric.",
        fix=(
            "Choose one, such as `quality` (`--rubric quality`); `assay library list rubrics` lists"
            " them."
        ),
    )


def identified_set(label_set: LabelSet) -> LabelSet:
    """A set with the id that follows from everything else in it."""
    rest = digest(structs.replace(label_set, id="")).removeprefix("sha256:")
    return structs.replace(label_set, id=f"ls-{rest[:12]}")


def set_draft(label_set: LabelSet, *, author: str | None = None) -> Draft:
    """A set, linked to the evaluations that it was drawn from."""
    made = draft(label_set, kind="labelset", author=author)
    evaluations = [label_set.evaluation, *([label_set.other] if label_set.other else [])]
    return made.linked("evidence_of", [each.digest for each in evaluations])


# --- in the ledger


def read_set(item: Item) -> StoredSet:
    """A stored set, after checking its content against its digest."""
    label_set = item.read_as(LabelSet, "a label set")
    return StoredSet(item.digest, item.seq, item.created_at, label_set)


def list_sets(ledger: Ledger, *, project: str, tag: str = "") -> Iterator[StoredSet]:
    """The sets of a project, the newest first. What was forgotten is left out."""
    filters = {"tag": tag} if tag else {}
    items = ledger.each("labelset", filters, project=project, at_once=20, newest_first=True)
    return map(read_set, items)


def find_set(ledger: Ledger, reference: str, *, project: str) -> StoredSet | None:
    """The newest set that an id, a name, a digest or `latest` means; None if there is none."""
    if reference.startswith("sha256:"):
        item = ledger.get(reference, project=project)
        return read_set(item) if item is not None and item.kind == "labelset" else None
    kind = "id" if _ID.fullmatch(reference) else "name"
    tag = "" if reference == LATEST else f"{kind}:{reference}"
    return next(list_sets(ledger, project=project, tag=tag), None)


def need_set(ledger: Ledger, reference: str, *, project: str) -> StoredSet:
    """The set that `find_set` finds; if there is none, an error with the near miss."""
    stored = find_set(ledger, reference, project=project)
    if stored is not None:
        return stored
    known = [stored.set.name for stored in list_sets(ledger, project=project)]
    raise NotEnoughEvidence(
        "STO-012",
        f"there is no label set {reference[:120]!r} in the project '{project}'."
        f"{near_miss(reference, known)}",
        where=ledger.where,
        fix="`assay label list` lists them; `assay label new EVALUATION` makes one.",
    )


# --- for a rater


def order_for(stored: StoredSet, rater: Rater) -> list[LabelItem]:
    """Every item once, in an order specific to the rater."""
    seed = f"{stored.digest}\n{rater.by}\n{rater.id or rater.name}"
    return sorted(stored.set.items, key=lambda item: place(seed, item.run))


def side_order(stored: StoredSet, rater: Rater, item: LabelItem) -> Order:
    """Which answer of a pair a rater sees first."""
    seed = f"{stored.digest}\n{rater.by}\n{rater.id or rater.name}\norder"
    return "ab" if place(seed, item.run)[0] % 2 else "ba"
