"""The commands that make use of people's labels."""

from __future__ import annotations

import shlex

from assay.records.label import LabelSet
from assay.views.blocks import Paragraph, Section, Verbatim, section


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


def use_section(made: LabelSet) -> Section:
    """The commands that make use of the labels of a set."""
    lines = compare_commands(made)
    text = "Compare a judge with these labels:"
    return section("Use the labels", Paragraph(text), Verbatim("\n".join(lines)), id="use")
