"""The part of the demo with a judge and its card.

The judge is a real small model that was audited once, its replies kept in a journal; asking again
costs nothing and needs no server.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from assay.canon import plain
from assay.cli import options as opt
from assay.cli.demo import EXAMPLES, DemoPart
from assay.families.judges.audit import MeasuredBias, audit, audit_pairs, audit_rubric, paddings
from assay.families.judges.verbs import audit_document
from assay.families.judges.views import judge_page
from assay.files.yaml_files import read_yaml
from assay.grading.policy import make_rules
from assay.judging.card import admit_tree, make_card, read_card
from assay.judging.client import Client, Journal, Usage
from assay.judging.config import load_judge
from assay.library.shelf import Shelf
from assay.records.judge_card import CardAdmission, JudgeCard

PAIRS = 12
PROBES = ("position", "padding")


def part(_folder: str) -> DemoPart:
    """The recorded judge."""
    tree = carded(os.path.join(EXAMPLES, "judge"), now=datetime(2026, 11, 15, 10, 0, tzinfo=UTC))
    card = read_card(tree)
    return DemoPart(
        30, {"judge": tree}, judge_lines(card), {"judge.html": judge_page(card).encode()}
    )


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
