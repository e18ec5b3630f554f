"""The worst samples in a pull-request comment: what was asked, answered and expected, and why it
did not pass. Every text of a run is in a code span: see `markdown`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from assay.records.evidence import Run
from assay.views.markdown_code import code
from assay.views.pieces import points
from assay.views.report_rows import kept_row

WORST = 3
TEXT = 400
"""Characters of a question, an answer or an expected value."""


class WorstSample(Struct, order=True, frozen=True):
    """A sample that did not pass."""

    score: float
    sample: str
    letter: str
    why: str
    question: str
    answer: str
    expected: str


def worst_sample(result: Mapping[str, Any], run: Run | None) -> WorstSample | None:
    """What a comment shows of a run; None for one that passed, or whose texts are not known."""
    if run is None or result.get("passed") is True:
        return None
    row = kept_row(result, run).row
    texts = (" ".join(one[: 4 * TEXT].split()) for one in (row.question, row.answer, row.expected))
    return WorstSample(row.score, row.name, row.letter, row.why, *texts)


def keep_worst_sample(found: list[WorstSample], one: WorstSample) -> None:
    """Put a sample in its place among the worst; of its repeats the worst counts."""
    same = next((kept for kept in found if kept.sample == one.sample), None)
    if same is not None:
        if same <= one:
            return
        found.remove(same)
    insort(found, one)
    del found[WORST:]


def worst_samples(found: Sequence[WorstSample]) -> str:
    """The samples as a part of a page; empty if there are none."""
    if not found:
        return ""
    lines = ["### Worst samples\n\n"]
    for one in found:
        lines.append(
            f"- {code(one.sample)}: {code(one.letter)} {points(one.score)}, {code(one.why)}\n"
        )
        for name in ("question", "answer", "expected"):
            text = getattr(one, name)
            if text:
                lines.append(f"  - {name}: {code(text, most=TEXT)}\n")
    return "".join(lines)
