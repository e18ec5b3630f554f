"""Grading entries and reports of tool schemas: what was asked and answered, and the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from assay.records.tool_entry import GradedAnswer, GradeReport, GradingEntry, document
from assay.views.blocks import (
    Block,
    Column,
    Facts,
    Group,
    Note,
    Paragraph,
    Section,
    Sentences,
    Table,
    section,
)
from assay.views.pieces import (
    absent,
    address,
    clip,
    code,
    letter,
    line,
    link,
    moment,
    number,
    phrase,
    short_digest,
    shown,
    small,
    verdict,
    words,
)
from assay.views.tool_findings import finding_of, finding_table

FAMILY = "tool schemas"
MAX_ROWS = 200
MAX_TEXT = 2000
_RELATIONS = {
    "supersedes": ("supersedes", "is superseded by"),
    "evidence_of": ("is part of the index", "was made from"),
}
"""How records belong together, seen from the first and from the second."""


def graded(grade: str | None, system: str | None, raw: Any = None, *, why: str = "") -> str:
    """A letter of this family with its grading system, and the raw one where it differs. Anything
    else is described in words.
    """
    if grade in (None, "", "n/a"):
        return absent("n/a: too small to be graded" if grade == "n/a" else "no grade")
    made = letter(grade, f"{FAMILY}, {system or 'grading system not stated'}")
    return (
        made if raw in (None, UNSET, grade) else phrase(made, line(small(f"raw grade {raw}{why}")))
    )


def graded_at(entry: GradingEntry) -> str:
    """When an entry was made, by its id."""
    return stamped(entry.grading_id.partition("--")[2])


def stamped(stamp: str | None, absent_as: str = "not stated") -> str:
    """A time as file names write it.

    >>> stamped("2026-05-30T10-15-00Z"), stamped("never", "never")
    ('2026-05-30 10:15:00 UTC', 'never')
    """
    date, has_time, time = (stamp or "").partition("T")
    return moment(f"{date}T{time.replace('-', ':')}" if has_time else None, absent_as)


def subject(entry: GradingEntry) -> str:
    """What an entry grades."""
    persona = entry.persona
    parts = [entry.schema_id, entry.skill_id, entry.selection_id]
    parts += [f"{persona.base_persona_id} / {persona.lens_id}"] if persona else []
    return " · ".join(part for part in parts if part)


def lines(parts: Sequence[str], absent_as: str) -> str:
    """Texts below each other in a cell."""
    return phrase(*map(line, parts)) if parts else absent(absent_as)


# --- the history of a node

HISTORY = (
    Column("Graded"),
    Column("Of"),
    Column("Grade"),
    Column("Mode"),
    Column("Tier and cap"),
    Column("Bound to"),
    Column("Why", "wide"),
)


def history_row(entry: GradingEntry, own: str) -> list[str]:
    """An entry in the history; `own` is its digest."""
    return [
        link(graded_at(entry), address("schemas", own)),
        phrase(subject(entry), " ", small(entry.area)),
        graded(entry.aggregate_grade, entry.grading_system, entry.raw_grade),
        entry.grading_mode,
        phrase(entry.grading_tier, small(f", at best {entry.max_attainable_grade}")),
        short_digest(entry.schema_hash),
        _why(entry),
    ]


def _why(entry: GradingEntry) -> str:
    trigger, veto = entry.regrading_trigger, entry.categorical_veto
    previous = code(trigger.previous_grading_id) if trigger else ""
    issue = trigger and trigger.reported_issue
    reasons = (
        phrase(trigger.triggered_by, ", supersedes ", previous) if trigger else "",
        f"reported by {trigger.requested_by}: {issue}" if trigger and issue else "",
        phrase(verdict("veto"), f" {veto.triggered_by}: {veto.evidence}") if veto else "",
        phrase(verdict("blocked"), " ", shown(entry.blocked_reason)) if entry.blocked else "",
    )
    return lines([*filter(None, reasons), *(entry.notes or ())], "a first grading")


# --- one entry

_ANSWERS = (
    Column("Question"),
    Column("Score", "n"),
    Column("Weight", "n"),
    Column("Kind"),
    Column("Grader"),
    Column("Answered"),
    Column("Reasoning and evidence", "wide"),
)


def entry_view(
    entry: GradingEntry, record: Section, links: Sequence[tuple[str, bool, str]]
) -> list[Block]:
    """One entry. `links` are its relations: which, whether it is on the first side, and to which
    record.
    """
    raw = None if entry.raw_grade is UNSET else entry.raw_grade
    related = [
        [_RELATIONS[relation][not first], short_digest(other, address("schemas", other))]
        for relation, first, other in links
        if relation in _RELATIONS
    ]
    return [
        _decided(graded(entry.aggregate_grade, entry.grading_system), _why(entry)),
        Facts(
            [
                ("Area", entry.area),
                ("Tier", entry.grading_tier),
                ("At best", entry.max_attainable_grade),
                ("Raw grade", shown(raw, "as the grade, or not stated")),
                ("Mode", entry.grading_mode),
                ("Graded", graded_at(entry)),
            ],
            "figures",
        ),
        section(
            "Answers",
            Table(
                "Answers",
                _ANSWERS,
                [_answer(answer) for answer in entry.gradings[:MAX_ROWS]],
                absent="There are no answers.",
            ),
            id="answers",
        ),
        record,
        section(
            "Related records",
            Table("Related records", ("It", "Record"), related, absent="Nothing is linked to it."),
            id="related",
        ),
    ]


def _answer(answer: GradedAnswer) -> list[str]:
    grader = answer.grader_identity
    who = " ".join(part for part in (grader.kind, grader.name, grader.version) if part)
    basis = [clip(answer.reasoning, MAX_TEXT)] if answer.reasoning else []
    if answer.evidence:
        basis.append(phrase(small("evidence "), clip(answer.evidence, MAX_TEXT)))
    return [
        code(answer.question_id),
        phrase(shown(answer.score), *([small(f" {answer.na_reason}")] if answer.na_reason else [])),
        shown(answer.weight),
        answer.determinism,
        phrase(who, *([small(f" {answer.llm_model}")] if answer.llm_model else [])),
        moment(answer.timestamp),
        lines(basis, "none"),
    ]


def _decided(outcome: str, reason: str) -> Group:
    return Group([Paragraph(outcome, "outcome"), Paragraph(reason, "verdict")], "decided")


ENTRY_KEYS = (
    "gradingId",
    "version",
    "schemaHash",
    "aboutHash",
    "harness",
    "scoringSystem",
    "gradingSystem",
    "form",
)
REPORT_KEYS = (
    "schemaId",
    "schemaPath",
    "schemaHash",
    "canonicalHash8",
    "scoringProtocol",
    "creator",
    "harness",
    "timestamps",
    "scoringSystem",
    "gradingSystem",
)


def record_section(
    record: GradingEntry | GradeReport,
    keys: Sequence[str],
    *,
    own: str,
    stored: str,
    author: str | None,
) -> Section:
    """Where a record comes from."""
    values: Mapping[str, Any] = document(record)
    pairs = [
        (
            words(key),
            short_digest(values[key]) if isinstance(values[key], str) else shown(values[key]),
        )
        for key in keys
        if values.get(key)
    ]
    return section(
        "Record",
        Facts([*pairs, *provenance(own, stored, author)], "small"),
        id="record",
    )


def provenance(own: str, stored: str, author: str | None) -> list[tuple[str, str]]:
    """The record itself, when it was stored, and by whom."""
    whole = link("the whole record", address("api", "v1", "records", own))
    return [
        ("Record", phrase(short_digest(own), " ", whole)),
        ("Stored", moment(stored)),
        ("By", shown(author)),
    ]


# --- reports


def report_table(reports: Sequence[tuple[GradeReport, str]]) -> Table:
    """Reports in a list, each with its digest."""
    return Table(
        "Reports of the file protocol",
        ("Schema", "Grade", "Score, 1 to 5", "Validation", "Graded"),
        [
            [
                link(report.schema_id, address("schemas", own)),
                _report_letter(report),
                _score(report),
                _valid(report),
                moment(report.timestamps.get("gradedAt")),
            ]
            for report, own in reports
        ],
        kind="stack runs",
    )


def _report_letter(report: GradeReport) -> str:
    return graded(report.grade, report.policy, report.raw_grade, why=", capped")


def _score(report: GradeReport) -> str:
    return number(report.score, n=len(report.dimensions), digits=3, absent_as="no score")


def _valid(report: GradeReport) -> str:
    return verdict("passed", "valid") if report.validation_passed else verdict("fails", "not valid")


def report_view(report: GradeReport, record: Section) -> list[Any]:
    """One report."""
    findings = [finding_of(finding) for finding in report.findings]
    veto = report.categorical_veto or {}
    return [
        _decided(
            phrase(_report_letter(report), " ", _valid(report)),
            shown(report.reason, "No reason given."),
        ),
        Facts(
            [
                ("Score, 1 to 5", _score(report)),
                ("Raw grade", shown(report.raw_grade)),
                ("Tier", shown(report.grading_tier)),
                ("At best", shown(report.max_attainable_grade)),
                ("Policy", shown(report.policy)),
            ],
            "figures",
        ),
        *(
            [Note(f"Veto {veto.get('triggeredBy')}: {clip(veto.get('evidence'))}", "bad")]
            if veto
            else []
        ),
        section(
            "Dimensions",
            Table(
                "Dimensions",
                ("Dimension", Column("Score", "n"), Column("Reasoning", "wide")),
                [
                    [
                        code(item.dimension),
                        shown(item.score),
                        clip(item.reasoning, MAX_TEXT, absent_as="none"),
                    ]
                    for item in report.dimensions
                ],
                kind="stack",
            ),
            id="dimensions",
        ),
        section(
            "Validation",
            Sentences(report.validation_errors, absent="No errors."),
            id="validation",
        ),
        section(
            "Checks",
            Table(
                "Checks",
                ("Check", "Outcome", Column("Why", "wide")),
                [
                    [
                        code(check.id),
                        verdict("passed" if check.outcome == "clean" else check.outcome),
                        shown(check.reason),
                    ]
                    for check in report.checks
                ],
                absent="No check was made.",
                kind="stack",
            ),
            id="checks",
        ),
        section("Findings", finding_table("Findings", findings), id="findings"),
        record,
    ]
