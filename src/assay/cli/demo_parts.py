"""Three parts of the demo: a judge with its card, two decisions, and another tool's results.

The judge is a real small model that was audited once, its replies kept in a journal; asking again
costs nothing and needs no server. Of the two candidates one is better on average, but held until
fresh runs show whether two samples newly fail; a fixed one may ship. The results are a file of
promptfoo, graded as it is.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from assay.cli import options as opt
from assay.cli.gate_sides import read_side
from assay.cli.judge_card import audit_document
from assay.files.inputs import Source
from assay.files.json_files import read_documents
from assay.files.yaml_files import read_yaml
from assay.grading.policy import make_rules
from assay.judging.audit import audit
from assay.judging.budget import Usage
from assay.judging.card import admit_tree, make_card
from assay.judging.client import Client
from assay.judging.config import load_judge
from assay.judging.injection_probe import MeasuredBias
from assay.judging.journal import Journal
from assay.judging.probes import audit_pairs, audit_rubric, paddings
from assay.library.shelf import Shelf
from assay.pipeline.grading import Grader
from assay.pipeline.importing import import_runs, totals
from assay.records.decision import Decision
from assay.records.judge_card import CardAdmission, JudgeCard
from assay.release.policy import make_release_rules
from assay.services.compare import compare
from assay.views.decision import outcome_word, rule_word
from assay.views.documents import plain
from assay.views.grade_line import as_line

PAIRS = 12
PROBES = ("position", "padding")
STORIES = {
    "candidate": "Version 8 of a support assistant against version 7, on the same 60 tickets",
    "fixed": "Version 8.1, which fixes what the decision named",
}


def carded(folder: str, *, now: datetime) -> dict[str, Any]:
    """The card of the recorded judge."""
    spec = load_judge(read_yaml(os.path.join(folder, "smollm2.yaml")))
    pairs = audit_pairs()[:PAIRS]
    with tempfile.TemporaryDirectory(prefix="assay-demo-") as work:
        # a journal is opened for writing, and an installed package may not be
        path = os.path.join(work, "journal")
        shutil.copyfile(os.path.join(folder, "smollm2.journal"), path)
        with Journal(path) as journal:

            async def ask() -> tuple[dict[str, MeasuredBias], Usage]:
                async with Client(spec, journal) as client:
                    biases = await audit(
                        client,
                        pairs=pairs,
                        paddings=paddings(),
                        criterion=audit_rubric().criteria[0],
                        injections=(),
                        family=spec.family,
                        probes=PROBES,
                    )
                    return biases, client.usage

            biases, usage = asyncio.run(ask())
    document = plain(
        audit_document(biases, spec=spec, pairs=pairs, source="bundled", injections=0, usage=usage)
    )
    rules = make_rules(Shelf().policy("workflow-judged"))
    assert rules.judge_terms is not None
    card = make_card(
        judge=document["judge"], audit=document, calibration=None, verdicts={}, now=now
    )
    admission = admit_tree(card, rules.judge_terms, now=now).shown()
    return {**card, "admission": {"policy": rules.policy, **admission}}


def judge_lines(card: JudgeCard) -> Iterator[str]:
    """The card in a few lines."""
    yield opt.paint(
        "\nMay this judge gate? (a real model of 135 million parameters; its replies were"
        " recorded)",
        "bold",
    )
    admission = card.admission or CardAdmission(may_gate=False)
    word = "may gate" if admission.may_gate else "MAY NOT GATE"
    yield opt.paint(f"  {word}  {card.model}", "green" if admission.may_gate else "red")
    yield from (f"       {bias.sentence}" for bias in card.biases.values() if bias is not None)
    for term in admission.terms:
        if term.holds is not True:
            yield f"       {term.sentence}"
    yield f"  policy {admission.policy}"


def decided(folder: str) -> list[Decision]:
    """The decisions on the bundled candidates."""
    grader = Grader(Shelf())
    rules = make_release_rules(Shelf().policy_of("release", "release"))
    file = os.path.join(folder, "baseline.jsonl")
    baseline = read_side([Source(file, file)], grader, name="baseline", rules=rules)
    decisions = []
    for name in STORIES:
        file = os.path.join(folder, f"{name}.jsonl")
        candidate = read_side([Source(file, file)], grader, name=name, rules=rules)
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
