"""The judge part of the demo: a real small model that was audited once, its replies kept in a
journal; asking again costs nothing and needs no server.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from datetime import datetime
from typing import Any

from assay.cli import options as opt
from assay.cli.judge import usage_shown
from assay.cli.judge_audit import audit_document
from assay.files.yaml_files import read_yaml
from assay.grading.policy import make_rules
from assay.judging.audit import audit
from assay.judging.card import admit_tree, make_card
from assay.judging.client import Client
from assay.judging.config import load_judge
from assay.judging.injection_probe import MeasuredBias
from assay.judging.journal import Journal
from assay.judging.probes import audit_pairs, audit_rubric, paddings
from assay.library.shelf import Shelf

PAIRS = 12
PROBES = ("position", "padding")


def carded(folder: str, *, now: datetime) -> dict[str, Any]:
    """The card of the recorded judge."""
    spec = load_judge(read_yaml(os.path.join(folder, "smollm2.yaml")))
    pairs = audit_pairs()[:PAIRS]
    with tempfile.TemporaryDirectory(prefix="assay-demo-") as work:
        path = os.path.join(
            work, "journal"
        )  # a journal is opened for writing, and an installed package may not be
        shutil.copyfile(os.path.join(folder, "smollm2.journal"), path)
        with Journal(path) as journal:

            async def ask() -> tuple[dict[str, MeasuredBias], dict[str, Any]]:
                async with Client(spec, journal) as client:
                    found = await audit(
                        client,
                        pairs=pairs,
                        paddings=paddings(),
                        criterion=audit_rubric().criteria[0],
                        injections=(),
                        family=spec.family,
                        probes=PROBES,
                    )
                    return found, usage_shown(client)

            found, usage = asyncio.run(ask())
    document = audit_document(
        found,
        spec=spec,
        pairs=pairs,
        source="bundled",
        injections=0,
        usage=usage,
    )
    rules = make_rules(Shelf().policy("workflow-judged"))
    assert rules.judge_terms is not None
    card = make_card(
        judge=document["judge"], audit=document, calibration=None, verdicts={}, now=now
    )
    return {
        **card,
        "admission": {
            "policy": rules.policy,
            **admit_tree(card, rules.judge_terms, now=now).shown(),
        },
    }


def tell(card: dict[str, Any], *, on: bool) -> None:
    """The card in a few lines."""
    out = sys.stdout
    out.write(
        opt.paint(
            "\nMay this judge gate? (a real model of 135 million parameters; its replies were"
            " recorded)\n",
            "bold",
            on=on,
        )
    )
    may = card["admission"]["may_gate"]
    out.write(
        opt.paint(
            f"  {'may gate' if may else 'MAY NOT GATE'}  {card['model']}",
            "green" if may else "red",
            on=on,
        )
        + "\n"
    )
    for found in card["biases"].values():
        out.write(f"       {found['sentence']}\n")
    for term in card["admission"]["terms"]:
        if term["holds"] is not True:
            out.write(f"       {term['sentence']}\n")
    out.write(f"  policy {card['admission']['policy']}\n")
