"""Two parts of the demo: two decisions, and another tool's results.

Of the two candidates one is better on average, but held until
fresh runs show whether two samples newly fail; a fixed one may ship. The results are a file of
promptfoo, graded as it is.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

from assay.canon import plain
from assay.cli import options as opt
from assay.cli.gate_sides import read_side
from assay.files.json_files import read_documents
from assay.library.shelf import Shelf
from assay.records.decision import Decision
from assay.records.grade_line import as_line
from assay.release.policy import make_release_rules
from assay.services.compare import compare
from assay.services.grading import Grader
from assay.services.importing import import_runs, totals
from assay.views.decision import outcome_word, rule_word

STORIES = {
    "candidate": "Version 8 of a support assistant against version 7, on the same 60 tickets",
    "fixed": "Version 8.1, which fixes what the decision named",
}


def decided(folder: str) -> list[Decision]:
    """The decisions on the bundled candidates."""
    grader = Grader(Shelf())
    rules = make_release_rules(Shelf().policy_of("release", "release"))
    baseline = read_side(
        [os.path.join(folder, "baseline.jsonl")], grader, name="baseline", rules=rules
    )
    decisions = []
    for name in STORIES:
        file = os.path.join(folder, f"{name}.jsonl")
        candidate = read_side([file], grader, name=name, rules=rules)
        decisions.append(compare(candidate, baseline, rules, grader))
    return decisions


def decision_lines(decisions: list[Decision]) -> Iterator[str]:
    """Both decisions in a few lines."""
    yield opt.paint(
        "\nMay this version replace that one? (scores a team took, one run of each ticket)", "bold"
    )
    for story, document in zip(STORIES.values(), decisions, strict=True):
        style = "green" if document.outcome == "promote" else "red"
        yield opt.paint(f"  {outcome_word(document).upper()}  {story}", style)
        held = [rule.id for rule in document.rules if rule.holds]
        for rule in document.rules:
            if rule.holds is not True:
                yield f"       {rule_word(rule):<6} {rule.id}: {rule.reason}"
        yield f"       holds  {', '.join(held)}"
        yield from (f"       {line}" for line in document.would_change)
    first = decisions[0]
    yield f"  policy {first.policy} · {first.scoring_system} · {first.grading_system}"


def imported(file: str) -> dict[str, Any]:
    """The tool's totals next to ours, and the grades under the profile made from its metrics."""
    with tempfile.TemporaryDirectory() as folder:
        imported_runs = import_runs([file], folder)
        profile = imported_runs.made_profile()
        assert profile is not None
        grader = Grader(Shelf(), profile=profile)
        graded = [grader.grade(document) for document in read_documents(imported_runs.spool)]
    return {
        "tool": imported_runs.importer.name,
        "profile": profile.id,
        "totals": totals(imported_runs.tally),
        "results": [plain(graded_run.payload()) for graded_run in graded],
        "failed": [
            as_line(graded_run.grade).text for graded_run in graded if not graded_run.grade.passed
        ],
    }


def import_lines(imported_part: dict[str, Any]) -> Iterator[str]:
    """The totals and the first samples that fail, in a few lines."""
    yield opt.paint("\nAnother tool's results, as promptfoo wrote them", "bold")
    theirs = next(row["ours"] for row in imported_part["totals"] if row["total"] == "passed")
    n, failed = len(imported_part["results"]), imported_part["failed"]
    yield (
        f"  promptfoo passed {theirs} of {n} samples, Assay passes {n - len(failed)}; errors are"
        " missing evidence"
    )
    yield from (opt.paint(f"  {line}", "red") for line in failed[:2])
    yield f"       ... and {len(failed) - 2} more"
    yield f"  profile {imported_part['profile']}, made from the file's metrics"
