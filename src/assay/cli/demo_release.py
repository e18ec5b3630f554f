"""The release part of the demo: a candidate that is better on average but must not ship, and a
fixed one that may.
"""

from __future__ import annotations

import os
import sys

from assay.cli import options as opt
from assay.cli.gate_sides import read_side
from assay.library.shelf import Shelf
from assay.pipeline.deciding import Terms, decide
from assay.pipeline.grading import Grader
from assay.records.decision import Decision
from assay.release.policy import make_release_rules
from assay.views.decision import outcome_word, rule_word

STORIES = {
    "candidate": "Version 8 of a support assistant against version 7, on the same 60 tickets",
    "fixed": "Version 8.1, which fixes what the decision named",
}


def decided(folder: str) -> list[Decision]:
    """The decisions on the bundled candidates."""
    grader = Grader(Shelf())
    rules = make_release_rules(Shelf().policy_of("release", "release"))
    baseline = read_side([os.path.join(folder, "baseline.jsonl")], grader, name="baseline")
    found = []
    for name in STORIES:
        candidate = read_side([os.path.join(folder, f"{name}.jsonl")], grader, name=name)
        found.append(decide(candidate, baseline, rules, grader, terms=Terms()))
    return found


def tell(decisions: list[Decision], *, on: bool) -> None:
    """Both decisions in a few lines."""
    out = sys.stdout
    out.write(opt.paint("\nMay this version replace that one?\n", "bold", on=on))
    for story, document in zip(STORIES.values(), decisions, strict=True):
        style = "green" if document.outcome == "promote" else "red"
        out.write(opt.paint(f"  {outcome_word(document).upper()}  {story}", style, on=on) + "\n")
        for rule in document.rules:
            out.write(f"       {rule_word(rule):<12} {rule.id}: {rule.reason}\n")
        for line in document.would_change:
            out.write(f"       {line}\n")
    first = decisions[0]
    out.write(f"  policy {first.policy} · {first.scoring_system} · {first.grading_system}\n")
