"""The lineage of a run on its page: its grades, the records it is linked to, what the shown grade
was made by, every digest, and the button that replays it.
"""

from __future__ import annotations

from typing import Any

from assay.server.lookup import RunWithGrades
from assay.server.state import Services
from assay.store.drafts import Link
from assay.views.blocks import Button, Facts, Heading, Paragraph, Part, Table, section
from assay.views.grade_line import outcome
from assay.views.pieces import (
    Piece,
    address,
    code,
    letter,
    link,
    moment,
    phrase,
    short_digest,
    shown,
)

SHOWN = 20
PAGE_OF = {
    "run": "runs",
    "scorecard": "runs",
    "grade": "runs",
    "decision": "decisions",
    "exam": "exams",
    "card": "judges",
    "audit": "judges",
    "calibration": "judges",
    "index": "schemas",
    "entry": "schemas",
    "check": "schemas",
    "labelset": "label",
}
"""Where records of a kind are shown; others are shown by the API."""
RELATIONS = {
    ("evidence_of", True): "is the evidence of",
    ("evidence_of", False): "was made from",
    ("graded_from", True): "was graded from",
    ("graded_from", False): "was graded as",
    ("decides", True): "decides on",
    ("decides", False): "was decided on by",
    ("supersedes", True): "supersedes",
    ("supersedes", False): "is superseded by",
    ("corrects", True): "corrects",
    ("corrects", False): "is corrected by",
    ("candidate_of", True): "is part of the candidate in",
    ("candidate_of", False): "has as its candidate",
    ("baseline_of", True): "is part of the baseline in",
    ("baseline_of", False): "has as its baseline",
    ("fresh_candidate_of", True): "is a fresh run of the candidate in",
    ("fresh_candidate_of", False): "has as a fresh run of its candidate",
    ("fresh_baseline_of", True): "is a fresh run of the baseline in",
    ("fresh_baseline_of", False): "has as a fresh run of its baseline",
}


def lineage(
    services: Services, project: str, graded_run: RunWithGrades, result: dict[str, Any] | None
) -> Part:
    """What a run and its grade come from, and what was made from them."""
    grades = [
        [
            link(
                short_digest(grade.digest),
                address("runs", grade.digest),
                aria_current=(
                    "true"
                    if graded_run.grade is not None and grade.digest == graded_run.grade.digest
                    else ""
                ),
            ),
            letter(grade.grade, grade.policy),
            outcome(grade.passed),
            shown(grade.profile, "none"),
            (
                "shown here"
                if graded_run.grade is not None and grade.digest == graded_run.grade.digest
                else "the newest"
                if grade is graded_run.grades[-1]
                else "earlier"
            ),
        ]
        for grade in graded_run.grades[::-1][:SHOWN]
    ]
    parts: list[Part] = [
        Heading("Grades of this evidence"),
        Table(
            "Grades of this evidence",
            ("Grade record", "Grade", "Verdict", "Profile", "Which"),
            grades,
            absent="None is stored.",
        ),
        Heading("Linked records"),
        _links(services, project, graded_run),
        *_same_id(services, project, graded_run),
    ]
    if result is not None:
        made_by = [
            (name, shown(result.get(key)))
            for key, name in (
                ("policy", "Policy"),
                ("profile", "Profile"),
                ("rubric", "Rubric"),
                ("scoringSystem", "Scoring system"),
                ("gradingSystem", "Grading system"),
            )
        ]
        why = [
            (f"Why this {kind}", shown((chosen or {}).get("why")))
            for kind, chosen in (result.get("selection") or {}).items()
            if chosen
        ]
        digests = [
            (f"Digest of the {name}", code(shown(value)))
            for name, value in (result.get("digests") or {}).items()
        ]
        parts += [
            Heading("Made by"),
            Facts([*_shelf(made_by), *why]),
            Heading("Digests"),
            Facts(digests, kind="small"),
        ]
    records = [
        (
            f"Record of the {item.kind}",
            phrase(
                *[
                    code(item.digest),
                    " ",
                    link("JSON", address("api", "v1", "records", item.digest)),
                ]
            ),
        )
        for item in (graded_run.item, graded_run.grade)
        if item is not None
    ]
    return section(
        "Lineage", *parts, Facts(records, kind="small"), *_button(graded_run), id="lineage"
    )


def _shelf(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    kinds = {"Policy": "policies", "Profile": "profiles", "Rubric": "rubrics"}
    return [
        (
            name,
            (
                link(value, address("library", kinds[name], value))
                if name in kinds and not isinstance(value, Piece)
                else value
            ),
        )
        for name, value in pairs
    ]


def _button(graded_run: RunWithGrades) -> list[Part]:
    if graded_run.grade is None or graded_run.grade.body is None:
        return []
    text = (
        "Replay recomputes this grade from the stored evidence, with the versions recorded in it,"
        " and compares the bytes. Nothing is stored."
    )
    action = address("runs", graded_run.grade.digest, "replay")
    return [
        Heading("Replay"),
        Paragraph(text, "hint"),
        Button("Replay this grade", action, {"grade": graded_run.grade.digest}),
    ]


def _links(services: Services, project: str, graded_run: RunWithGrades) -> Part:
    """The records that the run and its grade are linked to, with the relation in words."""
    own = {
        item.digest: item.kind for item in (graded_run.item, graded_run.grade) if item is not None
    }
    listed: list[tuple[str, Link]] = [
        (digest, linked)
        for digest in own
        for linked in services.ledger.links_of(digest, project=project, limit=SHOWN)
    ]
    others = {
        linked.target if linked.source == digest else str(linked.source)
        for digest, linked in listed
    }
    kinds = {
        digest: item.kind
        for digest, item in services.ledger.get_many(others, project=project).items()
    }
    rows = []
    for digest, linked in listed:
        other = linked.target if linked.source == digest else str(linked.source)
        where = PAGE_OF.get(kinds.get(other, ""), "")
        href = address(where, other) if where else address("api", "v1", "records", other)
        rows.append(
            [
                f"This {own[digest]}",
                RELATIONS.get((linked.relation, linked.source == digest), linked.relation),
                phrase(*[kinds.get(other, "record"), " ", short_digest(other, href)]),
            ]
        )
    return Table(
        "Linked records",
        ("Record", "Relation", "Other record"),
        rows,
        absent="Nothing is linked to this run.",
    )


def _same_id(services: Services, project: str, graded_run: RunWithGrades) -> list[Part]:
    """Other runs with the same id: ids need not be unique."""
    tree = (
        graded_run.item if graded_run.item.body is not None else graded_run.grade
    ) or graded_run.item
    if tree.body is None:
        return []
    run_id = str(tree.tree().get("run_id"))
    runs = services.ledger.find(
        "run", {"run_id": run_id}, project=project, limit=SHOWN, newest_first=True
    ).items
    rows = [
        [
            short_digest(item.digest, address("runs", item.digest)),
            moment(item.created_at),
            shown(item.author, "not stated"),
            shown(item.reason, "none"),
        ]
        for item in runs
        if item.digest != graded_run.item.digest
    ]
    return (
        [
            Heading("Other runs of this id"),
            Table("Other runs of this id", ("Run", "Stored", "By", "Reason"), rows),
        ]
        if rows
        else []
    )
