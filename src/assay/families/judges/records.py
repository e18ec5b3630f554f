"""Human labels on runs (`assay.label/1`), and sets of items to label (`assay.label-set/1`).

A label never changes a run, a grade or a decision, and opens no gate. A rater who changes their
mind adds a new label, which names the one it supersedes; both are kept. A new score or choice
counts if it comes within ten minutes and before anybody else labels the item: after that, the rater
may have seen what others or the judge decided. For overrides, the newest counts. A label contains
no time, which the ledger adds, so a form that is sent twice is one record.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from assay.records.evidence import ClosedRecord, Count
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
