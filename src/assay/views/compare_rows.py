"""Samples of several evaluations side by side: the result of each, what changed from the baseline
to the candidate, and which of them to show.

The first evaluation is the baseline. Rows in, rows out: nothing is read here, and nothing decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from assay.records.samples import SampleQuery, SampleRow, change_of, select_samples, without_doubles

ON_A_PAGE = 25
Movement = Literal["worse", "missing", "same", "better", "new", "neither"]


class ComparedSample(Struct, frozen=True):
    """One sample of every evaluation, in their order; None if one lacks it."""

    sample: str
    rows: tuple[SampleRow | None, ...]
    judged: int
    """The place of the candidate."""

    @property
    def base(self) -> SampleRow | None:
        """The baseline's."""
        return self.rows[0]

    @property
    def ours(self) -> SampleRow | None:
        """The candidate's."""
        return self.rows[self.judged]

    @property
    def any(self) -> SampleRow:
        """Of the candidate, else of the baseline, else of whichever has it."""
        all_rows = (self.ours, self.base, *self.rows)
        return next(row for row in all_rows if row is not None)

    @property
    def movement(self) -> Movement:
        """What changed: by the verdict, else by the score. `missing` is a sample that the candidate
        lost, `neither` one that only another evaluation has.
        """
        if self.ours is None:
            return "neither" if self.base is None else "missing"
        return change_of(self.ours, self.base)

    @property
    def difference(self) -> float | None:
        """The candidate's score less the baseline's; None if one of them is missing."""
        return self.difference_of(self.judged)

    def difference_of(self, place: int) -> float | None:
        """The score of one evaluation less the baseline's; None if that was forgotten."""
        row, base = self.rows[place], self.base
        return (
            None if row is None or base is None or base.grade_forgotten else row.score - base.score
        )

    @property
    def pair(self) -> tuple[SampleRow, SampleRow] | None:
        """The baseline's and the candidate's, where both have their texts."""
        base, ours = self.base, self.ours
        if base is None or ours is None or base.forgotten or ours.forgotten:
            return None
        return base, ours

    @property
    def answer_changed(self) -> bool:
        """Whether the candidate's answer differs from the baseline's; known only for rows with
        texts.
        """
        return self.pair is not None and self.pair[0].answer != self.pair[1].answer

    @property
    def newly_failed(self) -> list[str]:
        """The gates that the candidate fails and the baseline did not; every gate it fails where
        the sample is new.
        """
        before = set() if self.base is None else set(self.base.gates)
        return [] if self.ours is None else [gate for gate in self.ours.gates if gate not in before]


SHOWN = ("worse", "missing", "gates", "better", "same", "answer", "new", "neither")
"""What `show` can be: a movement, `gates` for samples that newly fail one, or `answer` for those
that are answered otherwise.
"""
UNMOVED = {
    "refused": "There is no decision on these two, so no sample is counted as better or worse. The"
    " scores are those stored with each evaluation.",
    "regraded": "These evaluations were not stored with the grades that the decision uses, so"
    " no sample is counted as better or worse. The scores are those stored with each evaluation.",
}
"""Why stored scores are not compared."""
_ORDER = {"worse": 0, "missing": 0, "same": 1, "better": 2, "new": 3, "neither": 4}


class CompareQuery(Struct, frozen=True, kw_only=True):
    """What the address of a comparison asks for."""

    of: tuple[str, ...] = ()
    """The evaluations, the baseline first."""
    candidate: str = ""
    """The one of them that is decided on; the last where it is empty."""
    policy: str = ""
    """The release policy."""
    show: str = ""
    """A name of SHOWN; all samples where it is empty."""
    q: str = ""
    sort: str = ""
    """`sample` or `difference`, with a leading `-` to turn it round; what got worse first where it
    is empty.
    """
    page: int = 1
    unmoved: str = ""
    """A name of UNMOVED, where stored scores say nothing about what moved. A part of the page takes
    it over from the whole, which finds it out.
    """

    @property
    def needs_texts(self) -> bool:
        """Whether the texts of every row are needed, not only of those on the page."""
        return bool(self.q) or self.show == "answer"

    def but(self, **changed: Any) -> dict[str, str | Sequence[str]]:
        """The query of an address with other values, on the first page unless one is given."""
        made = structs.asdict(structs.replace(self, **{"page": 1, **changed}))
        made["page"] = str(made["page"]) if made["page"] > 1 else ""
        return {name: value for name, value in made.items() if value}


def compare_samples(
    evaluations: Sequence[Sequence[SampleRow]], judged: int
) -> list[ComparedSample]:
    """Every sample of any of them, in the order of the baseline, then of the others. A run that
    nobody can name any more is not shown next to the sample that it may be of.
    """
    once = [
        without_doubles(evaluation, evaluations[0 if place else judged])
        for place, evaluation in enumerate(evaluations)
    ]
    known: list[Mapping[str, SampleRow]] = [
        {row.sample: row for row in evaluation_rows} for evaluation_rows in once
    ]
    names = dict.fromkeys(name for by_sample in known for name in by_sample)
    return [
        ComparedSample(name, tuple(by_sample.get(name) for by_sample in known), judged)
        for name in names
    ]


def count_movements(samples: Iterable[ComparedSample]) -> Counter[str]:
    """How many samples each filter would show."""
    counts: Counter[str] = Counter()
    for sample in samples:
        counts[sample.movement] += 1
        counts["gates"] += bool(sample.newly_failed)
        counts["answer"] += sample.answer_changed
    return counts


def select_compared(samples: Sequence[ComparedSample], query: CompareQuery) -> list[ComparedSample]:
    """The samples that a query shows, in its order."""
    chosen = [sample for sample in samples if query.show not in SHOWN or _fits(sample, query.show)]
    if query.q:
        every = [row for sample in chosen for row in sample.rows if row is not None]
        matched = {row.sample for row in select_samples(every, SampleQuery(q=query.q))}
        chosen = [sample for sample in chosen if sample.sample in matched]
    name = query.sort.removeprefix("-")
    if name == "sample":
        by_name = {sample.sample: sample for sample in chosen}
        ordered = select_samples([sample.any for sample in chosen], SampleQuery(sort=query.sort))
        return [by_name[row.sample] for row in ordered]
    chosen.sort(key=_lost if name == "difference" else _worst, reverse=query.sort == "-difference")
    return chosen


def _fits(sample: ComparedSample, show: str) -> bool:
    if show == "gates":
        return bool(sample.newly_failed)
    return sample.answer_changed if show == "answer" else sample.movement == show


def _lost(sample: ComparedSample) -> float:
    """The difference; a sample that the candidate lost falls from its score to 0."""
    if sample.difference is not None:
        return sample.difference
    return 0.0 if sample.base is None else -sample.base.score


def _worst(sample: ComparedSample) -> tuple[int, bool, float]:
    return _ORDER[sample.movement], not sample.newly_failed, _lost(sample)
