"""The gates of exams and tool schemas, shown as decisions: which rules hold, and what was decided
on.
"""

from __future__ import annotations

from typing import Any

from assay.families.exams.records import ExamGate
from assay.families.exams.views import check_row, gate_rows, gate_table
from assay.families.tools.records import ToolGate
from assay.families.tools.views import gate_view
from assay.records.typed import convert
from assay.server.state import Services
from assay.store.drafts import Item
from assay.views.blocks import (
    Decided,
    Facts,
    Part,
    Section,
    Sentences,
    Table,
    section,
)
from assay.views.pieces import Piece, address, sentence, short_digest, shown, verdict, words

Tree = dict[str, Any]
MAX_ROWS = 200


def passed(value: Any) -> Piece:
    """Whether a gate passed; without a statement, it failed."""
    return verdict("passed" if value is True else "failed")


# --- exams


def exam(services: Services, project: str, item: Item, decision: Tree) -> list[Part]:
    """The gate of an exam: what blocks, what only warns, and the results it was decided on."""
    gate = convert(decision, ExamGate)
    moved = {} if gate.regression is None else gate.regression.axes
    changes = [(words(axis), shown(change)) for axis, change in moved.items()]
    outcome = verdict("passed", "Passed") if gate.passed else verdict("failed", "Failed")
    checked = [] if gate.verify_rubric is None else [gate.verify_rubric]
    title = "Change of each axis against the baseline"
    return [
        Decided(
            outcome,
            shown(gate.policy, "no policy"),
            " ".join(map(sentence, gate.reasons)) or "No reason given.",
        ),
        section("Gates", gate_table([*gate_rows(gate), *map(check_row, checked)]), id="rules"),
        *([section(title, Facts(changes), id="axes")] if changes else []),
        *([section("Notes", Sentences(gate.notes), id="notes")] if gate.notes else []),
        _rests_on(services, project, item, "exams", decision),
    ]


# --- tool schemas


def schemas(services: Services, project: str, item: Item, decision: Tree) -> list[Part]:
    """The production gate: each subject with its rules."""
    return [
        *gate_view(convert(decision, ToolGate)),
        _rests_on(services, project, item, "schemas", decision),
    ]


def _rests_on(services: Services, project: str, item: Item, path: str, decision: Tree) -> Section:
    relations = {"candidate_of": "decided on", "baseline_of": "compared with"}
    rows = [
        [short_digest(link.source, address(path, link.source)), relations[link.relation]]
        for link in services.ledger.links_of(item.digest, project=project, limit=MAX_ROWS)
        if link.relation in relations and link.source and link.target == item.digest
    ]
    facts = [
        ("Scoring system", shown(decision.get("scoringSystem"))),
        ("Grading system", shown(decision.get("gradingSystem"))),
        ("Rubric", shown(decision.get("rubric"), "none")),
        *(
            (f"Digest of the {words(key).lower()}", short_digest(value))
            for key, value in (decision.get("digests") or {}).items()
        ),
    ]
    return section(
        "Provenance",
        Table(
            "What was decided on",
            ("Record", "Role"),
            rows,
            absent="What it was decided on is not stored.",
        ),
        Facts(facts, "small"),
        id="origin",
    )
