"""The gates of exams and tool schemas, shown as decisions: which rules hold, and what was decided
on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.server.pages.paging import mapped, rows_of, texts
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
from assay.views.grade_line import outcome
from assay.views.pieces import Piece, absent, address, code, digest, phrase, shown, verdict, words

Tree = dict[str, Any]
MAX_ROWS = 200


def _head(outcome: str, policy: Any, reason: str) -> Decided:
    return Decided(outcome, shown(policy, "no policy"), reason or "No reason given.")


def passed(value: Any) -> Piece:
    """Whether a gate passed; without a statement, it failed."""
    return verdict("passed" if value is True else "failed")


# --- exams


def held(limit: Any, absent_as: str) -> Piece:
    """Whether a limit holds; `absent_as` if it was not checked."""
    if not isinstance(limit, dict):
        return verdict("none", absent_as)
    return verdict("holds") if limit.get("holds") is True else verdict("fails", "does not hold")


def exam(services: Services, project: str, item: Item, decision: Tree) -> list[Part]:
    """The gate of an exam: what blocks, what only warns, and the results it was decided on."""
    capstone, target, moved = (
        mapped(decision.get(name)) for name in ("capstone", "target", "regression")
    )
    rows = [
        [
            "Capstone score",
            held(decision.get("capstone"), "not asked for"),
            "blocks",
            f"score {shown(capstone.get('score'))}, at least {shown(capstone.get('limit'))}",
        ],
        [
            "Drop on the regression set",
            held(decision.get("regression"), "no baseline was given"),
            "blocks",
            (
                f"from {shown(moved.get('baseline'))} to {shown(moved.get('candidate'))}, a drop of"
                f" {shown(moved.get('drop'))}, at most {shown(moved.get('limit'))}"
                if moved
                else absent("nothing to compare with")
            ),
        ],
        [
            "Production target",
            held(decision.get("target"), "not asked for"),
            "informational",
            f"score {shown(target.get('score'))}, target {shown(target.get('limit'))}",
        ],
    ]
    for soft in rows_of(decision.get("soft")):
        state = {None: ("undetermined", "not measured"), True: ("stale", "warns")}.get(
            soft.get("warn"), ("holds", "holds")
        )
        reason = f": {soft['reason']}" if soft.get("reason") else ""
        value = (
            f"value {shown(soft.get('value'), 'none')}, limit {shown(soft.get('limit'))}{reason}"
        )
        rows.append([phrase("Soft gate ", code(soft.get("id"))), verdict(*state), "warning", value])
    verify = mapped(decision.get("verify_rubric"))
    if verify:
        sound = mapped(verify.get("self_test")).get("passed") is True
        rows.append(
            [
                "Rise, checked for a fault of the rubric",
                verdict("holds") if sound else verdict("fails", "the rubric fails its own test"),
                "blocks",
                f"rise {shown(verify.get('rise'))}, checked above {shown(verify.get('limit'))}",
            ]
        )
    changes = [(words(axis), shown(change)) for axis, change in mapped(moved.get("axes")).items()]
    notes = texts(decision.get("notes"))
    holds = decision.get("passed") is True
    outcome = verdict("passed", "Passed") if holds else verdict("failed", "Failed")
    columns = ("Gate", "Verdict", "Effect", Column("Found", "wide"))
    reasons = ". ".join(one[:1].upper() + one[1:] for one in texts(decision.get("reasons")))
    parts: list[Part] = [
        _head(outcome, decision.get("policy"), reasons),
        section("Gates", Table("Gates of the exam", columns, rows, kind="stack"), id="rules"),
    ]
    if changes:
        parts.append(section("Change of each axis against the baseline", Facts(changes), id="axes"))
    if notes:
        parts.append(section("Notes", Sentences(notes), id="notes"))
    return [*parts, _rests_on(services, project, item, "exams", decision)]


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
