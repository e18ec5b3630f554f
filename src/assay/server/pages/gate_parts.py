"""The gates of exams and tool schemas, shown as decisions: which rules hold, and what was decided
on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.records.exam import ExamGate
from assay.records.typed import convert
from assay.server.pages.paging import mapped, rows_of
from assay.server.state import Services
from assay.store.drafts import Item
from assay.views.blocks import (
    Column,
    Decided,
    Facts,
    Paragraph,
    Part,
    Section,
    Sentences,
    Table,
    section,
)
from assay.views.exam import check_row, gate_rows
from assay.views.exam_page import gate_table
from assay.views.grade_line import outcome
from assay.views.pieces import Piece, address, code, digest, sentence, shown, verdict, words

Tree = dict[str, Any]
MAX_ROWS = 200


def _head(outcome: str, policy: Any, reason: str) -> Decided:
    return Decided(outcome, shown(policy, "no policy"), reason or "No reason given.")


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
        _head(outcome, gate.policy, " ".join(map(sentence, gate.reasons))),
        section("Gates", gate_table([*gate_rows(gate), *map(check_row, checked)]), id="rules"),
        *([section(title, Facts(changes), id="axes")] if changes else []),
        *([section("Notes", Sentences(gate.notes), id="notes")] if gate.notes else []),
        _rests_on(services, project, item, "exams", decision),
    ]


# --- tool schemas


def schema_outcome(decision: Mapping[str, Any]) -> Piece:
    """Passed, failed, or undetermined."""
    results = rows_of(decision.get("results"))
    if decision.get("passed") is True:
        return verdict("passed")
    failed = any(
        rule.get("holds") is False for result in results for rule in rows_of(result.get("rules"))
    )
    return verdict("failed" if failed or not results else "undetermined")


def first_reason(results: Sequence[Mapping[str, Any]]) -> str:
    """The first rule that does not hold, in words."""
    open_ = [
        (one, rule)
        for one in results
        for rule in rows_of(one.get("rules"))
        if rule.get("holds") is not True
    ]
    if not open_:
        return "every rule holds" if results else "nothing was asked about"
    one, rule = sorted(open_, key=lambda pair: pair[1].get("holds") is None)[0]
    more = f" (and {len(open_) - 1} more)" if len(open_) > 1 else ""
    return f"{one.get('subject')}: {rule.get('id')}: {rule.get('reason')}{more}"


def schemas(services: Services, project: str, item: Item, decision: Tree) -> list[Part]:
    """The production gate: each subject with its rules."""
    verdicts = {True: "holds", False: "violated", None: "undetermined"}
    parts = []
    for result in rows_of(decision.get("results"))[:MAX_ROWS]:
        rows = [
            [code(rule.get("id")), verdict(verdicts[rule.get("holds")]), shown(rule.get("reason"))]
            for rule in rows_of(result.get("rules"))
        ]
        name = str(result.get("subject"))
        columns = ("Rule", "Verdict", Column("Why", "wide"))
        parts.append(
            section(
                name,
                Paragraph(outcome(result.get("passed"))),
                Table(f"Rules for {name}", columns, rows, kind="stack rules"),
            )
        )
    return [
        _head(
            schema_outcome(decision),
            decision.get("policy"),
            first_reason(rows_of(decision.get("results"))),
        ),
        *parts,
        _rests_on(services, project, item, "schemas", decision),
    ]


def _rests_on(services: Services, project: str, item: Item, path: str, decision: Tree) -> Section:
    relations = {"candidate_of": "decided on", "baseline_of": "compared with"}
    rows = [
        [digest(link.source, address(path, link.source)), relations[link.relation]]
        for link in services.ledger.links_of(item.digest, project=project, limit=MAX_ROWS)
        if link.relation in relations and link.source and link.target == item.digest
    ]
    facts = [
        ("Scoring system", shown(decision.get("scoringSystem"))),
        ("Grading system", shown(decision.get("gradingSystem"))),
        ("Rubric", shown(decision.get("rubric"), "none")),
        *(
            (f"Digest of the {words(key).lower()}", digest(value))
            for key, value in mapped(decision.get("digests")).items()
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
