"""People's labels in a ledger: the sets that are drawn, labels as they are stored, and what they
say about raters, runs and judges.

Everything is read from the labels themselves; nothing is stored twice.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from math import fsum
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw, Struct, ValidationError, structs, to_builtins

from assay.canon import digest
from assay.errors import (
    AssayError,
    InputError,
    NotEnoughEvidence,
    ShelfError,
    UsageError,
    count,
    few,
)
from assay.families.judges.label_rows import Label, drawn_sentence, own_labels
from assay.families.judges.pairwise import DEFINITION
from assay.families.judges.records import (
    DRAWS,
    MAX_COMMENT,
    Disagreed,
    Draw,
    HumanLabel,
    LabelCriterion,
    LabelDraw,
    LabelItem,
    LabelledEvaluation,
    LabelResults,
    LabelRubric,
    LabelSet,
    Order,
    Override,
    PairLabel,
    Rater,
    RaterAgreement,
    RaterProgress,
    StoredLabel,
    StoredSet,
    changed_sentence,
    compare_commands,
    rater_names,
    typed_sentence,
)
from assay.grouping import grouped
from assay.judging.identity import definition_name, rubric_name
from assay.library.shelf import Shelf
from assay.records.evidence import Source
from assay.records.samples import sample_evidence
from assay.records.summary import ValueInterval, value_interval
from assay.records.typed import convert
from assay.registry import near_miss
from assay.services.evaluations import (
    LATEST,
    StoredEvaluation,
    check_name,
    read_evaluation,
    stored_items,
)
from assay.stats.agreement import (
    Level,
    agreement,
    cohen_kappa,
    count_pairs,
    krippendorff_alpha,
    weighted_kappa,
)
from assay.stats.pairwise import half_wilson
from assay.store.drafts import Draft, Item, Link, draft

if TYPE_CHECKING:
    from assay.store.ledger import Ledger

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


FORGOTTEN, NO_ANSWER, UNGRADED = "forgotten", "no answer", "not graded"
NO_JUDGE, AGREE = "no judge's score", "judge and rules agree"
ONE_SIDE, OTHER_INPUT, SAME_ANSWER = "only in one evaluation", "different inputs", "same answer"


class _ScoreSource(Struct):
    kind: str = ""
    rubric: str | None = None


class _FloorNorm(Struct):
    norm: float | None = None


class _DrawnCriterion(Struct):
    norm: float | None = None
    missing: Any = None
    critical_floor: _FloorNorm | None = None
    source: _ScoreSource | None = None


class _DrawnGrade(Struct):
    sample_id: str | None = None
    weighted_score: float | None = None
    pass_threshold: float | None = None
    profile: str | None = None
    hard_gate_failures: list[str] = []
    criteria: list[_DrawnCriterion] = []


class RunToLabel(NamedTuple):
    """A run that may be drawn."""

    run_id: str
    digest: str
    sample: str
    inputs: str
    answer: str
    """Digests of the question and the answer; '' if there was none."""
    graded: bool
    gap: float | None
    """How far the judge's scores are from the rules', on 0..1; None without a judge's score."""
    edge: float
    """How far the run is from the nearest floor or the pass line, on 0..1."""


class LabelPool:
    """The runs of an evaluation that may be drawn: one of each sample, chosen by the seed."""

    def __init__(
        self, ledger: Ledger, stored: StoredEvaluation, *, project: str, seed: int
    ) -> None:
        self.left_out: Counter[str] = Counter()
        self.rubrics: Counter[str] = Counter()
        """Rubrics that judges scored by, as the scores name them."""
        self.profiles: Counter[str] = Counter()
        by_sample = grouped((run.sample, run) for run in self._runs(ledger, stored, project))
        self.runs = {
            sample: min(repeats, key=lambda run: place(seed, run.run_id))
            for sample, repeats in by_sample.items()
        }

    def _runs(self, ledger: Ledger, stored: StoredEvaluation, project: str) -> Iterator[RunToLabel]:
        for run, body, graded in stored_items(ledger, stored.evaluation, project=project):
            if body is None or body.body is None:
                self.left_out[FORGOTTEN] += 1
                continue
            evidence = sample_evidence(body.checked())
            if not evidence.outputs:
                self.left_out[NO_ANSWER] += 1
                continue
            grade = None if graded is None or graded.body is None else _read_grade(graded.checked())
            self._note(grade)
            yield RunToLabel(
                run.run_id,
                run.digest,
                (grade.sample_id if grade else None) or run.run_id,
                digest(evidence.inputs),
                digest(evidence.outputs),
                grade is not None,
                None if grade is None else _gap(grade),
                1.0 if grade is None else _edge(grade),
            )

    def _note(self, grade: _DrawnGrade | None) -> None:
        if grade is None:
            return
        if grade.profile:
            self.profiles[grade.profile] += 1
        for criterion in grade.criteria:
            if (
                criterion.source is not None
                and criterion.source.kind == "llm"
                and criterion.source.rubric
            ):
                self.rubrics[criterion.source.rubric] += 1


_read_grade = msgspec.json.Decoder(_DrawnGrade, strict=False).decode


def place(seed: int | str, name: str) -> bytes:
    """The sort key of a name in the order of a seed."""
    return sha256(f"{seed}\n{name}".encode("utf-8", "surrogatepass")).digest()


def _gap(grade: _DrawnGrade) -> float | None:
    known = [
        criterion
        for criterion in grade.criteria
        if criterion.norm is not None and not criterion.missing
    ]
    by_judge = [
        criterion.norm
        for criterion in known
        if criterion.source is not None and criterion.source.kind == "llm"
    ]
    by_rule = [
        criterion.norm
        for criterion in known
        if criterion.source is None or criterion.source.kind != "llm"
    ]
    if not by_judge:
        return None
    rules = 0.0 if grade.hard_gate_failures else _mean(by_rule, 1.0)
    return abs(_mean(by_judge, 0.0) - rules)


def _mean(norms: list[float | None], default: float) -> float:
    return fsum(norm or 0.0 for norm in norms) / len(norms) if norms else default


def _edge(grade: _DrawnGrade) -> float:
    away = [
        abs(criterion.norm - criterion.critical_floor.norm)
        for criterion in grade.criteria
        if criterion.norm is not None
        and criterion.critical_floor
        and criterion.critical_floor.norm is not None
    ]
    if grade.weighted_score is not None and grade.pass_threshold is not None:
        away.append(abs(grade.weighted_score - grade.pass_threshold) / 100)
    return min(away, default=1.0)


class _Drawable(NamedTuple):
    item: LabelItem
    runs: tuple[RunToLabel, ...]


def draw_items(
    pool: LabelPool, other: LabelPool | None, *, how: Draw, n: int, seed: int
) -> tuple[list[LabelItem], LabelDraw]:
    """Draw items: runs of one pool, or pairs of the same sample from two. Returns them, and how
    they were drawn.
    """
    left_out = Counter(pool.left_out)
    if other is None:
        drawable = [
            _Drawable(LabelItem(sample=run.sample, run_id=run.run_id, run=run.digest), (run,))
            for run in pool.runs.values()
        ]
    else:
        left_out.update(other.left_out)
        drawable = list(_pairs(pool, other, left_out))
    drawable = [run for run in drawable if _fits(run, how, left_out)]
    drawable.sort(key=lambda run: (_urgency(run, how), place(seed, run.item.sample)))
    draw = LabelDraw(
        how=how, asked=n, seed=seed, pool=len(drawable), left_out=dict(sorted(left_out.items()))
    )
    return [run.item for run in drawable[:n]], draw


def _pairs(pool: LabelPool, other: LabelPool, left_out: Counter[str]) -> Iterator[_Drawable]:
    left_out[ONE_SIDE] += len(pool.runs.keys() ^ other.runs.keys())
    for sample, a in pool.runs.items():
        b = other.runs.get(sample)
        if b is None:
            continue
        if a.inputs != b.inputs:
            left_out[OTHER_INPUT] += 1
        elif a.answer == b.answer:
            left_out[SAME_ANSWER] += 1
        else:
            item = LabelItem(
                sample=sample,
                run_id=a.run_id,
                run=a.digest,
                other_run_id=b.run_id,
                other=b.digest,
            )
            yield _Drawable(item, (a, b))
    left_out += Counter()  # drops the reasons with a count of zero


def _fits(drawable: _Drawable, how: Draw, left_out: Counter[str]) -> bool:
    """Whether an item fits the draw; if not, the reason is counted."""
    gaps = [run.gap for run in drawable.runs if run.gap is not None]
    reason = (
        None
        if how == "random"
        else UNGRADED
        if not any(run.graded for run in drawable.runs)
        else None
        if how == "near-floor"
        else NO_JUDGE
        if not gaps
        else AGREE
        if not max(gaps)
        else None
    )
    if reason is not None:
        left_out[reason] += 1
    return reason is None


def _urgency(drawable: _Drawable, how: Draw) -> float:
    if how == "disagree":
        return -max(run.gap for run in drawable.runs if run.gap is not None)
    return min(run.edge for run in drawable.runs) if how == "near-floor" else 0.0


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


def order_for(stored: StoredSet, rater: Rater) -> list[LabelItem]:
    """Every item once, in an order specific to the rater."""
    seed = f"{stored.digest}\n{rater.by}\n{rater.id or rater.name}"
    return sorted(stored.set.items, key=lambda item: place(seed, item.run))


def side_order(stored: StoredSet, rater: Rater, item: LabelItem) -> Order:
    """Which answer of a pair a rater sees first."""
    seed = f"{stored.digest}\n{rater.by}\n{rater.id or rater.name}\norder"
    return "ab" if place(seed, item.run)[0] % 2 else "ba"


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
        return _checked_verdict({**shared, "kind": "pair", "pair": pair})
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
    return _checked_verdict({**shared, "kind": "rubric", "scores": points, "rubric": rubric.digest})


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
    return _checked_verdict(
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


def _checked_verdict(fields: dict[str, Any]) -> HumanLabel:
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


_FLIPPED = {"a": "b", "b": "a"}


class _KnownVerdicts(NamedTuple):
    """The runs of each side that the judge may have been asked about, by digest."""

    first: Mapping[str, str]
    second: Mapping[str, str]
    pairs: Mapping[tuple[str, str | None], str]
    """The items of the set, by their runs."""


def judged_rows(
    ledger: Ledger,
    label_set: LabelSet,
    people: Mapping[str, Any],
    judgements: Mapping[str, Any],
    criterion: str,
    *,
    project: str,
) -> tuple[list[Label], dict[str, Any]]:
    """Every item that was judged or labelled, and the judgements as they count for this set."""
    _check_rubric(label_set, judgements["scorer"].get("rubric"))
    verdicts = _of_criterion(label_set, judgements["items"], criterion)
    known = _known(ledger, label_set, project)
    keys = ("run",) if label_set.other is None else ("a_run", "b_run")
    named = {"criterion": criterion} if label_set.other is None else {}
    rows: dict[str, Label] = {}
    counted, unnamed, strange, double = [], [], [], []
    for judgement in verdicts:
        name = str(judgement.get("id"))
        runs = [run for key in keys if isinstance(run := judgement.get(key), str)]
        if len(runs) < len(keys):
            unnamed.append(name)
        elif (place := _place(known, runs)) is None:
            strange.append(name)
        else:
            row_id, run, is_flipped = place
            verdict = judgement.get("raw" if label_set.other is None else "winner")
            if is_flipped and isinstance(verdict, str):
                verdict = _FLIPPED.get(verdict, verdict)
            if row_id in rows:
                double.append(row_id)
            rows[row_id] = Label(row_id, people.get(run), verdict, judgement.get("group"))
            counted.append({**judgement, "id": row_id, **named, "raw": verdict})
    _refuse(label_set, len(verdicts), unnamed, strange, double)
    for item in label_set.items:
        name = item.run_id if label_set.other is None else item.sample
        if people.get(item.run) is not None and name not in rows:
            rows[name] = Label(name, people[item.run], None)
    return list(rows.values()), {**judgements, "items": counted}


def _check_rubric(label_set: LabelSet, by: Any) -> None:
    """Refuse verdicts that were given by another rubric, or as an answer to another question."""
    if label_set.rubric is None:
        if by != definition_name(label_set.question):
            raise _problem(label_set, "the judge was not asked the question of this set.")
        return
    if not isinstance(by, str) or not by:
        raise _problem(
            label_set, f"the judgements name no rubric; people scored by {label_set.rubric.id}."
        )
    name, _, content = by.partition("+")
    wanted, _, known = label_set.rubric.id.partition("+")
    if name != wanted or (content and content != known):
        raise InputError(
            "JDG-009",
            f"the judge scored by the rubric {by[:120]}, people by {label_set.rubric.id}.",
            fix="Make a set with the judge's rubric: `assay label new EVALUATION --rubric R`.",
        )


def _of_criterion(
    label_set: LabelSet, items: Sequence[Any], criterion: str
) -> list[Mapping[str, Any]]:
    """The judgements of a criterion; of pairs, all of them."""
    judgements = [item for item in items if isinstance(item, Mapping)]
    if label_set.other is None:
        judgements = [
            judgement for judgement in judgements if judgement.get("criterion") == criterion
        ]
    if not judgements:
        about = "pairs" if label_set.other else f"the criterion '{criterion}'"
        raise _problem(label_set, f"the judgements have no verdict on {about}.")
    return judgements


def _known(ledger: Ledger, label_set: LabelSet, project: str) -> _KnownVerdicts:
    first = {item.run: item.run_id for item in label_set.items}
    second = {item.other: str(item.other_run_id) for item in label_set.items if item.other}
    first.update(_runs_of(ledger, label_set.evaluation, project))
    second.update(_runs_of(ledger, label_set.other, project) if label_set.other else ())
    pairs = {(item.run, item.other): item.sample for item in label_set.items}
    return _KnownVerdicts(first, second, pairs)


def _runs_of(ledger: Ledger, named: LabelledEvaluation, project: str) -> Iterator[tuple[str, str]]:
    """The runs of an evaluation; none if it was forgotten."""
    item = ledger.get(named.digest, project=project)
    if item is not None and item.body is not None:
        for run in read_evaluation(item).evaluation.runs:
            yield run.digest, run.run_id


def _place(known: _KnownVerdicts, runs: Sequence[str]) -> tuple[str, str, bool] | None:
    """A judgement's row, its run as labelled, and whether its pair is reversed; None if unknown."""
    if len(runs) == 1:
        name = known.first.get(runs[0])
        return None if name is None else (name, runs[0], False)
    for is_flipped, (a, b) in ((False, runs), (True, runs[::-1])):
        if (a, b) in known.pairs:
            return known.pairs[a, b], a, is_flipped
    for is_flipped, (a, b) in ((False, runs), (True, runs[::-1])):
        if a in known.first and b in known.second:
            return f"{known.first[a]} and {known.second[b]}", "", is_flipped
    return None


def _refuse(
    label_set: LabelSet,
    n: int,
    unnamed: Sequence[str],
    strange: Sequence[str],
    double: Sequence[str],
) -> None:
    if unnamed:
        raise _problem(
            label_set,
            f"{len(unnamed):,} of {n:,} judgements don't say which"
            f" {'runs' if label_set.other else 'run'} they are about, such as {unnamed[0][:80]!r}.",
        )
    if strange:
        names = [
            repr(evaluation.name)
            for evaluation in (label_set.evaluation, label_set.other)
            if evaluation is not None
        ]
        raise _problem(
            label_set,
            f"{len(strange):,} of {n:,} judgements are about runs that {' and '.join(names)}"
            f" {'do' if label_set.other else 'does'} not have, such as {strange[0][:80]!r}.",
        )
    if double:
        raise InputError(
            "JDG-008",
            f"the judgements have several verdicts on {double[0][:80]!r}.",
            fix="Keep one verdict on each item.",
        )


def _problem(label_set: LabelSet, message: str) -> InputError:
    commands = compare_commands(label_set)[:-1]
    if label_set.rubric is not None:
        rubric = shlex.quote(label_set.rubric.id.partition("+")[0])
        command = f"assay judge rubric {shlex.quote(label_set.evaluation.id)} --rubric {rubric}"
        commands = [f"{command} --judge judge.yaml -o judgements.json"]
    listed = ", then ".join(f"`{command}`" for command in commands)
    return InputError(
        "JDG-009",
        message,
        fix=f"Ask the judge about the runs of this set: {listed}. Answers in its journal are free.",
    )


CHOICE = "choice"
"""The name of the one criterion of pairs."""
HOW = {
    "rubric": "median of the raters' scores, the lower of two in the middle",
    "pairs": "the choice of most raters; level votes count as unlabelled",
}
Value = int | str


def criteria_of(stored: StoredSet) -> list[str]:
    """What raters of a set give values for."""
    rubric = stored.set.rubric
    return [CHOICE] if rubric is None else [criterion.name for criterion in rubric.criteria]


def value_of(label: HumanLabel, criterion: str) -> Value | None:
    """A label's value for a criterion; None if it has none."""
    if label.pair is not None:
        return label.pair.choice
    return (label.scores or {}).get(criterion)


def results_of(stored: StoredSet, labels: Sequence[StoredLabel]) -> LabelResults:
    """The results of all labels of a set."""
    wanted = {item.run for item in stored.set.items}
    of_items = [stored for stored in labels if stored.label.run in wanted]
    kept = counted(of_items)
    raters = raters_of(kept)
    people = list(dict.fromkeys(map(_person, raters)))
    given = {
        rater: [stored.at for stored in kept if stored.label.rater == rater] for rater in raters
    }
    changed, late = _changed(kept, of_items)
    return LabelResults(
        stored,
        tuple(kept),
        len(labels) - len(kept),
        tuple(RaterProgress(rater, len(times), max(times)) for rater, times in given.items()),
        tuple(_agreement(stored, kept, people, name) for name in criteria_of(stored))
        if len(people) > 1
        else (),
        tuple(_disagreed(stored, kept)),
        tuple(current(of_items)),
        changed,
        late,
        *_preferred(kept),
    )


def _preferred(kept: Sequence[StoredLabel]) -> tuple[ValueInterval | None, int]:
    """How often the first version of a pair is preferred, one vote for each pair."""
    if not any(stored.label.pair for stored in kept):
        return None, 0
    votes = [_one_value(list(given.values())) for given in _by_person(kept, CHOICE).values()]
    chosen = Counter(votes)
    halves = chosen["tie"] + chosen[None]
    return value_interval(half_wilson(chosen["a"], halves, len(votes))), len(votes)


def _person(rater: Rater) -> Rater | None:
    """The rater, if a token identifies them; None for anybody who only typed a name."""
    return rater if rater.by == "token" else None


def _changed(kept: Sequence[StoredLabel], labels: Sequence[StoredLabel]) -> tuple[int, int]:
    """How many labels were changed later, and how many of them after another rater had labelled
    the item.
    """
    first = {(stored.label.rater, stored.label.item): stored for stored in kept}
    of_item = grouped((one.label.item, one) for one in labels)
    changed, late = set(), set()
    for stored in labels:
        key = (stored.label.rater, stored.label.item)
        if stored.label.value == first[key].label.value:
            continue
        changed.add(key)
        if any(
            other.label.rater != stored.label.rater and other.seq < stored.seq
            for other in of_item[stored.label.item]
        ):
            late.add(key)
    return len(changed), len(late)


def _agreement(
    stored: StoredSet, kept: Sequence[StoredLabel], people: Sequence[Rater | None], criterion: str
) -> RaterAgreement:
    values = _by_person(kept, criterion)
    rows = [
        [values.get(item.run, {}).get(person) for person in people] for item in stored.set.items
    ]
    twice = [row for row in rows if sum(value is not None for value in row) > 1]
    ordered = stored.set.task == "rubric"
    same = agreement([[value for value in row if value is not None] for row in twice])
    if len(people) > 2:
        level: Level = "ordinal" if ordered else "nominal"
        name, statistic = f"Krippendorff's alpha, {level}", krippendorff_alpha(twice, level=level)
    else:
        pairs = count_pairs([row[0] for row in twice], [row[1] for row in twice])
        if ordered:
            name = "Cohen's kappa, quadratic weights"
            statistic = weighted_kappa(pairs, "quadratic", by_value=True)
        else:
            name, statistic = "Cohen's kappa", cohen_kappa(pairs)
    return RaterAgreement(
        criterion, len(twice), value_interval(same), name, value_interval(statistic)
    )


def _disagreed(stored: StoredSet, kept: Sequence[StoredLabel]) -> list[Disagreed]:
    """The items with different labels, those furthest apart first."""
    disagreed: list[tuple[float, Disagreed]] = []
    by_run = grouped((one.label.run, one.label) for one in kept)
    for item in stored.set.items:
        of_item = by_run.get(item.run, [])
        if len(of_item) < 2:
            continue
        for criterion in criteria_of(stored):
            values = [
                (label.rater, value)
                for label in of_item
                if (value := value_of(label, criterion)) is not None
            ]
            if len({value for _, value in values}) > 1:
                numbers = [value for _, value in values if isinstance(value, int)]
                wide = float(max(numbers) - min(numbers)) if numbers else 1.0
                disagreed.append((wide, Disagreed(item, criterion, tuple(values))))
    disagreed.sort(key=lambda pair: -pair[0])
    return [item for _, item in disagreed]


def people_say(results: LabelResults, criterion: str) -> dict[str, Value | None]:
    """One value for each labelled item of the set, by the digest of its run; None if votes are
    tied.
    """
    values = _by_person(results.labels, criterion)
    return {run: _one_value(list(given.values())) for run, given in values.items()}


def _by_person(
    labels: Sequence[StoredLabel], criterion: str
) -> dict[str, dict[Rater | None, Value | None]]:
    """Each person's value for each run; all typed names together are one person."""
    by_run: dict[str, dict[Rater | None, list[Value | None]]] = {}
    for stored in labels:
        value = value_of(stored.label, criterion)
        if value is not None:
            of_run = by_run.setdefault(stored.label.run, {})
            of_run.setdefault(_person(stored.label.rater), []).append(value)
    return {
        run: {who: _one_value(values) for who, values in of_run.items()}
        for run, of_run in by_run.items()
    }


def _one_value(given: Sequence[Value | None]) -> Value | None:
    values = [value for value in given if value is not None]
    if not values:
        return None
    numbers = [value for value in values if isinstance(value, int)]
    if numbers:
        return median_low(numbers)
    (first, most), *others = Counter(values).most_common()
    return None if others and others[0][1] == most else first


class LabelledRows(NamedTuple):
    """The input of a calibration."""

    rows: list[Label]
    judgements: dict[str, Any] | None
    """The judge and its verdicts; None if the labels can't qualify a judge."""
    about: dict[str, Any]
    """The set, its draw, and how several raters became one value."""
    sentences: list[str]


class _JudgedScore(Struct):
    raw: Any = None
    source: Source | None = None


class _JudgedRun(Struct):
    scores: dict[str, _JudgedScore] = {}
    group: str | None = None
    inputs: Raw = Raw()
    outputs: Raw = Raw()


_read_run = msgspec.json.Decoder(_JudgedRun).decode


def labelled_rows(
    ledger: Ledger,
    results: LabelResults,
    *,
    project: str,
    criterion: str | None = None,
    judgements: Mapping[str, Any] | None = None,
) -> LabelledRows:
    """The rows for a criterion of a set; without one, for its only criterion."""
    name = _criterion(results, criterion)
    people = people_say(results, name)
    label_set = results.stored.set
    rows, judged = (
        _of_runs(ledger, results, people, name, project)
        if judgements is None
        else judged_rows(ledger, label_set, people, judgements, name, project=project)
    )
    verdicts: dict[str, Any] | None = judged
    about = {
        "name": label_set.name,
        "id": label_set.id,
        "digest": results.stored.digest,
        "criterion": None if name == CHOICE else name,
        "draw": label_set.draw.how,
        "seed": label_set.draw.seed,
        "items": len(label_set.items),
        "labelled": sum(value is not None for value in people.values()),
        "raters": list(rater_names(progress.rater for progress in results.progress).values()),
        "typed_raters": results.typed,
        "independent_raters": results.independent,
        "changed": results.changed,
        "changed_after_others": results.changed_late,
        "aggregated": HOW[label_set.task],
    }
    raters = len(results.progress)
    by = f"by {count(raters, 'rater')}; {HOW[label_set.task]}" if raters > 1 else "by 1 rater"
    whole = f"{results.labelled:,} of {count(len(label_set.items), 'item')}"
    sentences = [f"Labels from the set {label_set.name} ({label_set.id}): {whole}, {by}."]
    sentences += [
        sentence for sentence in (typed_sentence(results), changed_sentence(results)) if sentence
    ]
    names = _raters(results)
    if own := own_labels(names, judged):
        verdicts = None
        sentences.append(own)
    if label_set.draw.how != "random":
        verdicts = None
        sentences.append(drawn_sentence(label_set.draw.how))
        rows = [row._replace(draw=label_set.draw.how) for row in rows]
    rows = [row if row.human is None else row._replace(raters=names) for row in rows]
    return LabelledRows(rows, verdicts, about, sentences)


def _raters(results: LabelResults) -> list[str]:
    return sorted({progress.rater.name for progress in results.progress})


def unjudged_rows(results: LabelResults, *, criterion: str | None) -> list[Label]:
    """The rows of a criterion of a set without a judge."""
    people = people_say(results, _criterion(results, criterion))
    drawn = results.stored.set
    draw = None if drawn.draw.how == "random" else drawn.draw.how
    names = _raters(results)
    return [
        Label(item.run_id, value, None, draw=draw, raters=None if value is None else names)
        for item in drawn.items
        for value in [people.get(item.run)]
    ]


def _criterion(results: LabelResults, wanted: str | None) -> str:
    known = criteria_of(results.stored)
    if wanted is None and len(known) == 1:
        return known[0]
    if wanted in known and wanted is not None:
        return wanted
    problem = (
        f"the set {results.stored.set.name} has {len(known)} criteria; a calibration is about one."
        if wanted is None
        else f"the set has no criterion {wanted[:80]!r}.{near_miss(wanted, known)}"
    )
    raise UsageError("CLI-001", problem, fix=f"Choose with --criterion: {', '.join(known)}.")


def _of_runs(
    ledger: Ledger, results: LabelResults, people: Mapping[str, Any], criterion: str, project: str
) -> tuple[list[Label], dict[str, Any]]:
    label_set = results.stored.set
    if label_set.rubric is None:
        raise UsageError(
            "CLI-001",
            "runs carry no judge's choice between two answers.",
            fix=f"{', then '.join(f'`{command}`' for command in compare_commands(label_set))}.",
        )
    item = ledger.get(label_set.evaluation.digest, project=project)
    if item is None or item.body is None:
        raise NotEnoughEvidence(
            "STO-008",
            f"the evaluation {label_set.evaluation.name!r} of this set was forgotten.",
            where=label_set.evaluation.digest,
            fix="Give the judge's verdicts with --judgements FILE.",
        )
    stored = read_evaluation(item)
    pool = LabelPool(ledger, stored, project=project, seed=label_set.draw.seed)
    runs = {run.digest: run.run_id for run in pool.runs.values()}
    rows: list[Label] = []
    items: list[dict[str, Any]] = []
    sources: Counter[Source] = Counter()
    for run, stored_run in zip(runs, ledger.in_order(runs, project=project), strict=True):
        assert stored_run is not None, "the pool has only runs that are there"
        read, raw = _read_run(stored_run.checked()), None
        score = read.scores.get(criterion)
        if score is not None and score.source is not None and score.source.kind == "llm":
            raw = score.raw
            sources[score.source] += raw is not None
        rows.append(Label(runs[run], people.get(run), raw, read.group))
        # what a judge is shown, so that copies count once
        key = digest([bytes(read.inputs).decode(), bytes(read.outputs).decode()])
        items.append(
            {"id": runs[run], "criterion": criterion, "raw": raw, "samples": [{"key": key}]}
        )
    judged = _judged(stored, +sources, label_set.rubric.id, criterion)
    return rows, {**judged, "items": items}


def _judged(
    stored: StoredEvaluation,
    sources: Counter[Source],
    rubric: str,
    criterion: str,
) -> dict[str, Any]:
    """What the runs state about their judge, as in a judgements document."""
    name = stored.evaluation.name
    if not sources:
        raise NotEnoughEvidence(
            "JDG-010",
            f"no run of {name!r} has a judge's score for '{criterion}'.",
            fix="Run it with --judge, or give the judge's verdicts with --judgements FILE.",
        )
    if len(sources) > 1:
        raise UsageError(
            "JDG-009",
            f"the runs of {name!r} were scored by {len(sources)} judges:"
            f" {'; '.join(sorted(source.judge for source in sources))}.",
            fix="A calibration is of one judge. Give its verdicts with --judgements FILE.",
        )
    source = next(iter(sources))
    if source.rubric is not None and source.rubric != rubric:
        raise UsageError(
            "JDG-009",
            f"the judge scored by the rubric {source.rubric}, people by {rubric}.",
            fix="Make a set with the judge's rubric: `assay label new EVALUATION --rubric R`.",
        )
    identity = dict(stored.evaluation.settings.get("judge") or {})
    described = identity.pop("name", source.name)
    judge, asked_from = {"judge": source.name, "model": source.name}, None
    if identity.get("model") == source.name:  # as `assay run` described the judge that it asked
        judge = {"judge": described, **identity, "digest": digest(identity)}
        if stored.evaluation.source == "run":  # none of its answers is older than the evaluation
            asked_from = f"{stored.evaluation.started[:19]}Z"
    return {
        "schema": "assay.judgements/1",
        "judge": judge,
        "scorer": to_builtins(source),
        "usage": {"answered_at": asked_from},
    }


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
