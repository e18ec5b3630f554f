"""The worst samples that did not pass: what was asked, answered and expected, and why it failed; on
a terminal, and in a pull-request comment, where every text of a run is in a code span (see
`markdown`).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from assay.records.evidence import Run, title_of
from assay.records.samples import (
    ANSWERS,
    QUESTIONS,
    SampleGrade,
    answer_text,
    flat,
    gate_reason,
    judge_texts,
    main_text,
    sample_evidence,
    sample_grade,
)
from assay.views.blocks import Facts
from assay.views.pieces import clip, phrase, points

WORST = 3
SHORT = 160
"""The same on a terminal."""


class WorstSample(Struct, order=True, frozen=True):
    """A run that did not pass, among the worst of them."""

    score: float
    run_id: str
    key: str
    """What the repeats of a sample share."""
    sample: str
    letter: str
    why: str
    question: str = ""
    answer: str = ""
    expected: str = ""


def worst_sample(result: Mapping[str, Any], run: Run | None) -> WorstSample:
    """What is shown of a run; without the run it has no texts."""
    grade = sample_grade({"weighted_score": 0, **result})
    run_id = str(result.get("run_id"))
    sample = grade.sample_id or run_id
    key = repr((result.get("dataset"), grade.sample_id)) if grade.sample_id else run_id
    score = float(grade.weighted_score or 0)
    made = WorstSample(score, run_id, key, sample, grade.grade or "", _why(grade, result, run))
    return made if run is None else with_texts(made, run)


def _why(grade: SampleGrade, result: Mapping[str, Any], run: Run | None) -> str:
    """Why a run did not pass; if that is one gate, with the gate's reason, or with that of the
    verdict that came with the run.
    """
    reason = "" if grade.cause else gate_reason(grade, result, run)
    return f"{grade.why}: {reason}" if reason else grade.why


def with_texts(sample: WorstSample, run: Run) -> WorstSample:
    """A sample with the texts of its run."""
    title = title_of(run.metadata)
    return structs.replace(
        sample,
        sample=f"{title} ({sample.sample})" if title else sample.sample,
        question=flat(main_text(run.inputs, QUESTIONS)),
        answer=flat(answer_text(sample_evidence(run))),
        expected=flat(main_text(run.expected, ANSWERS)),
    )


def keep_worst(worst: list[WorstSample], result: Mapping[str, Any], run: Run | None) -> None:
    """Put a run in its place among the worst. One that passed has no place there."""
    if result.get("passed") is not True:
        keep_sample(worst, worst_sample(result, run))


def keep_sample(worst: list[WorstSample], sample: WorstSample) -> None:
    """Put a sample in its place, and drop what is then one too many; of its repeats the worst
    counts.
    """
    same = next((kept for kept in worst if kept.key == sample.key), None)
    if same is not None:
        if same <= sample:
            return
        worst.remove(same)
    insort(worst, sample)
    del worst[WORST:]


def worst_facts(sample: WorstSample) -> Facts:
    """A sample on a terminal."""
    head = f"{clip(sample.sample, 80)}: {sample.letter or None} {points(sample.score)}, "
    return Facts(
        [
            ("sample", phrase(head, clip(sample.why, 2 * SHORT))),
            ("question", clip(sample.question, SHORT) if sample.question else ""),
            ("answer", clip(sample.answer, SHORT) if sample.answer else ""),
            ("expected", clip(sample.expected, SHORT) if sample.expected else ""),
        ]
    )


def sample_facts(run: Run) -> Facts:
    """What a run was asked, what it answered or why not, what was expected, why a scorer gave no
    result, and what a judge gave and why, each in short.
    """
    answered = run.outputs or run.metadata.get("error")
    facts = [
        ("question", main_text(run.inputs, QUESTIONS)),
        ("answer", answer_text(sample_evidence(run)) if answered else ""),
        ("expected", main_text(run.expected, ANSWERS)),
    ]
    errors = run.metadata.get("scorer_errors")
    if isinstance(errors, Mapping):
        facts += [("scorer", f"{target}: {reason}") for target, reason in errors.items()]
    facts += [("judge", text) for text in judge_texts(run)]
    return Facts([(label, clip(flat(text), SHORT) if text else "") for label, text in facts])
