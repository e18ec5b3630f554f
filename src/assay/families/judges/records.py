"""Human labels on runs (`assay.label/1`), sets of items to label (`assay.label-set/1`), and the
results of a set.

A label never changes a run, a grade or a decision, and opens no gate. A rater who changes their
mind adds a new label, which names the one it supersedes; both are kept. A new score or choice
counts if it comes within ten minutes and before anybody else labels the item: after that, the rater
may have seen what others or the judge decided. For overrides, the newest counts. A label contains
no time, which the ledger adds, so a form that is sent twice is one record.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from assay.records.evidence import ClosedRecord, Count
from assay.records.summary import ValueInterval
from assay.services.documents import DocumentKind

MAX_COMMENT = 10_000
MAX_RATER = 200
DRAWS = ("random", "disagree", "near-floor")

Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
Said = Annotated[str, Meta(pattern=r"\S", max_length=MAX_COMMENT)]
Comment = Annotated[str, Meta(max_length=MAX_COMMENT)]
Draw = Literal["random", "disagree", "near-floor"]
Choice = Literal["a", "b", "tie"]
Order = Literal["ab", "ba"]


class Rater(ClosedRecord, frozen=True, kw_only=True, omit_defaults=False):
    """Who labels. Tokens are identified by their ids, so two with the same name are two raters. A
    token's name and the same name typed by a person are two raters as well.
    """

    name: Annotated[str, Meta(pattern=r"\S", max_length=MAX_RATER)]
    """The rater's name."""
    by: Literal["token", "stated"]
    """Whether a token vouches for the name, or somebody typed it."""
    id: Annotated[str, Meta(max_length=MAX_RATER)] | None = None
    """The token's id; null for a name that was typed."""

    @property
    def shown(self) -> str:
        """The name for people to read, marked if somebody typed it."""
        return self.name if self.by == "token" else f"{self.name} (typed)"


class PairLabel(ClosedRecord, frozen=True, kw_only=True):
    """Which of two answers to one sample is better."""

    a: Digest
    """The run of the set's first evaluation."""
    b: Digest
    """The run of its second."""
    shown: Order
    """Which of them the rater saw first."""
    choice: Choice
    """The better run, or a tie. The letters name the runs, not the order they were shown in."""


class Override(ClosedRecord, frozen=True, kw_only=True):
    """What a person would have decided, and why. Reports show and count it; the grade doesn't
    change.
    """

    verdict: Literal["pass", "fail"]
    """What the person would have decided."""
    reason: Said
    """Why."""


class HumanLabel(ClosedRecord, frozen=True, kw_only=True):
    """One rater's label on one item: `scores`, `pair` or `override`, depending on `kind`."""

    schema: Literal["assay.label/1"]
    """The kind and version of this document."""
    kind: Literal["rubric", "pair", "override"]
    """Scores by a rubric, a choice between two answers, or an override of a grade."""
    rater: Rater
    """Who labelled."""
    run_id: str
    """The run that was labelled."""
    run: Digest
    """The stored run; of a pair, that of `a`."""
    sample_id: str
    """The sample of the run."""
    evaluation: Digest | None = None
    """The stored evaluation; null for an override of a run that was opened without one."""
    set: Digest | None = None
    """The stored set; null for an override."""
    scores: dict[str, int] | None = None
    """By criterion, on its scale."""
    rubric: Digest | None = None
    """The digest of the rubric."""
    pair: PairLabel | None = None
    """The choice between two answers."""
    override: Override | None = None
    """The verdict that the person would have given."""
    comment: Comment = ""
    """What the rater wrote."""
    supersedes: Digest | None = None
    """The rater's previous label of this item."""

    def __post_init__(self) -> None:
        """Refuse a label whose content doesn't match its kind."""
        contents = {"rubric": self.scores, "pair": self.pair, "override": self.override}
        kinds = [kind for kind, value in contents.items() if value]
        if kinds != [self.kind]:
            raise ValueError(
                f"a label of kind '{self.kind}' has {' and '.join(kinds) or 'nothing'}"
            )
        if (self.set is None) is not (self.kind == "override"):
            raise ValueError("a label names its set, and an override has none")
        if self.pair is not None and self.pair.a != self.run:
            raise ValueError("the run of a label of a pair is that of `a`")

    @property
    def item(self) -> tuple[str, str, str]:
        """What it is about; of a rater's labels on the same item, one counts."""
        return self.kind, self.set or "", self.run

    @property
    def value(self) -> tuple[object, ...]:
        """The verdict without the comment."""
        return self.scores, self.pair and self.pair.choice, self.override

    @property
    def content(self) -> tuple[object, ...]:
        """The verdict and the comment; a new label with equal content adds nothing."""
        return *self.value, self.comment


class LabelledEvaluation(ClosedRecord, frozen=True, kw_only=True):
    """An evaluation that a set was drawn from."""

    id: str
    """The evaluation's id."""
    name: str
    """The evaluation's name."""
    digest: Digest
    """The digest of the stored evaluation."""


class LabelCriterion(ClosedRecord, frozen=True, kw_only=True):
    """A criterion as the rater sees it."""

    name: str
    """The criterion's name."""
    definition: str
    """What it asks."""
    scale: tuple[int, int]
    """The lowest and the highest score."""
    anchors: dict[str, str]
    """What each score means."""
    label: str = ""
    """The name that people see."""

    @property
    def points(self) -> range:
        """Every point of the scale."""
        return range(self.scale[0], self.scale[1] + 1)


class LabelRubric(ClosedRecord, frozen=True, kw_only=True):
    """The rubric of a set, as it was when the set was made."""

    id: str
    """The rubric, as name@version."""
    digest: Digest
    """The digest of the rubric."""
    criteria: list[LabelCriterion]
    """Its criteria."""


class LabelDraw(ClosedRecord, frozen=True, kw_only=True):
    """How the items were drawn."""

    how: Draw
    """How items were drawn."""
    asked: Count
    """How many items were asked for."""
    seed: int
    """The seed of the draw."""
    pool: Count
    """Items it could draw from."""
    left_out: dict[str, Count] = {}
    """Samples that could not be drawn, by reason."""


class LabelItem(ClosedRecord, frozen=True, kw_only=True):
    """One thing to label: a run, or two runs of the same sample."""

    sample: str
    """The sample."""
    run_id: str
    """The run to label."""
    run: Digest
    """The digest of that run."""
    other_run_id: str | None = None
    """The second run of a pair."""
    other: Digest | None = None
    """The digest of the second run."""


class LabelSet(ClosedRecord, frozen=True, kw_only=True):
    """Items that several raters label. Progress is not in it: it follows from the labels."""

    schema: Literal["assay.label-set/1"]
    """The kind and version of this document."""
    id: str
    """`ls-` and the beginning of the digest of everything else in the record."""
    name: str
    """The name of the set."""
    task: Literal["rubric", "pairs"]
    """Scores by a rubric, or choices between two answers."""
    evaluation: LabelledEvaluation
    """The evaluation that the items come from."""
    other: LabelledEvaluation | None = None
    """The second evaluation, for pairs."""
    rubric: LabelRubric | None = None
    """The rubric that raters score by."""
    question: str = ""
    """What raters of pairs are asked."""
    expected: bool = False
    """Whether raters see the expected answer."""
    draw: LabelDraw
    """How the items were drawn."""
    items: list[LabelItem]
    """The items to label."""


class StoredLabel(NamedTuple):
    """A label of a ledger."""

    digest: str
    seq: int
    at: str
    """When it was stored."""
    label: HumanLabel


class StoredSet(NamedTuple):
    """A set of a ledger."""

    digest: str
    seq: int
    stored_at: str
    set: LabelSet


class RaterProgress(NamedTuple):
    """How far a rater is."""

    rater: Rater
    done: int
    newest: str


class RaterAgreement(NamedTuple):
    """How well raters agree on a criterion."""

    criterion: str
    items: int
    """That two raters or more have labelled."""
    same: ValueInterval
    """The share of items that every rater labelled alike."""
    statistic: str
    beyond_chance: ValueInterval


class Disagreed(NamedTuple):
    """An item that raters label differently."""

    item: LabelItem
    criterion: str
    values: tuple[tuple[Rater, int | str], ...]


class LabelResults(NamedTuple):
    """What the labels of a set come to."""

    stored: StoredSet
    labels: tuple[StoredLabel, ...]
    """That count: one of each rater for an item."""
    superseded: int
    """Labels that don't count, because another of the rater's does."""
    progress: tuple[RaterProgress, ...]
    agreement: tuple[RaterAgreement, ...]
    disagreed: tuple[Disagreed, ...]
    newest: tuple[StoredLabel, ...] = ()
    """Each rater's latest label of an item, with the comment."""
    changed: int = 0
    """Labels whose rater changed them."""
    changed_late: int = 0
    """Of these, once another rater's label of the item was there to be seen."""
    preferred: ValueInterval | None = None
    """The share of pairs in which the first version is preferred; a tie, and a pair on which raters
    are level, counts half. None if the set has no pairs.
    """
    preferred_n: int = 0
    """The pairs that it rests on."""

    @property
    def typed(self) -> int:
        """Raters who are only a name that somebody typed."""
        return sum(progress.rater.by != "token" for progress in self.progress)

    @property
    def independent(self) -> int:
        """Raters who are certainly different people as far as tokens tell: all typed names are
        one.
        """
        return len(self.progress) - max(0, self.typed - 1)

    @property
    def labelled(self) -> int:
        """Items that anybody has labelled."""
        return len({stored.label.run for stored in self.labels})


def rater_names(raters: Iterable[Rater]) -> dict[Rater, str]:
    """Every rater by name: a typed one says so, and tokens of one name carry their id.

    >>> two = [Rater(name="anna", by="token", id=id) for id in ("t1", "t2")]
    >>> list(rater_names([*two, Rater(name="anna", by="stated")]).values())
    ['anna (token t1)', 'anna (token t2)', 'anna (typed)']
    """
    known = list(raters)
    often = Counter(rater.name for rater in dict.fromkeys(known) if rater.by == "token")
    return {
        rater: f"{rater.name} (token {rater.id or 'unknown'})"
        if rater.by == "token" and often[rater.name] > 1
        else rater.shown
        for rater in known
    }


def typed_sentence(results: LabelResults) -> str:
    """How many raters are only typed names; '' where none is."""
    if not results.typed:
        return ""
    if results.typed == 1:
        return "1 rater is only a typed name, without a token."
    return (
        f"{results.typed:,} raters are only typed names, without a token: 1 person may have typed"
        " all of them, so together they count as one rater."
    )


def changed_sentence(results: LabelResults) -> str:
    """How many labels were changed, and when; '' where none was."""
    if not results.changed:
        return ""
    was = "label was" if results.changed == 1 else "labels were"
    late = "was" if results.changed_late == 1 else "were"
    return (
        f"{results.changed:,} {was} changed later. A change counts within 10 minutes, unless"
        f" somebody else labels the item first. {results.changed_late:,} {late} changed after"
        " others' labels could be seen."
    )


def compare_commands(made: LabelSet) -> list[str]:
    """The commands that compare a judge with the labels of a set."""
    if made.rubric is None:
        arguments = f"--judge judge.yaml --definition {shlex.quote(made.question)}"
        return [
            f"assay label export {made.id} --pairs -o pairs.jsonl",
            f"assay judge pairwise pairs.jsonl {arguments} -o comparisons.json",
            f"assay judge calibrate --from-ledger {made.id} --judgements comparisons.json",
        ]
    criteria = [criterion.name for criterion in made.rubric.criteria]
    option = f" --criterion {shlex.quote(criteria[0])}" if len(criteria) > 1 else ""
    return [f"assay judge calibrate --from-ledger {made.id}{option} -o calibration.json"]


DOCUMENTS = {
    "label": DocumentKind(
        "assay.families.judges.records:HumanLabel",
        "One person's label on one sample.",
        "The label pages of `assay view` store it; `assay label export` writes it.",
        is_input=False,
    ),
    "label-set": DocumentKind(
        "assay.families.judges.records:LabelSet",
        "A set of samples for people to label.",
        "`assay label new` stores it.",
        is_input=False,
    ),
}
"""The documents of this family, by the name that `assay schema-of` takes."""
