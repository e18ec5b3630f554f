"""Which runs of an evaluation, or pairs of runs of two, are drawn for people to label.

A draw is repeatable: it orders by a digest of the seed and the sample. Samples that can't be drawn
are counted by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from math import fsum
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.archive.evaluations import StoredEvaluation, stored_items
from assay.canon import digest
from assay.grouping import grouped
from assay.records.label import Draw, LabelDraw, LabelItem
from assay.records.samples import sample_evidence
from assay.store.ledger import Ledger

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


# --- drawing


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
