"""Status of nodes and of rollups: two lists of words that are never mixed, the order in which
gradings may follow each other, and the ladder of readiness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.errors import InputError
from assay.families.tools.names import FULL, LETTERS, PARTIAL, REJECTED
from assay.families.tools.policy import at_least

PENDING, BLOCKED, GRADED, STABLE, NODE_REJECTED = NODE_STATUSES = (
    "pending",
    "blocked",
    "graded",
    "stable",
    "rejected",
)
OPERATIONAL = "operational"
ROLLUP_STATUSES = (OPERATIONAL, "partial", BLOCKED, PENDING, NODE_REJECTED)
STABLE_FROM = "B"
IMPORTED, STRUCTURAL_VALID = "imported", "structural-valid"
READINESS = (IMPORTED, STRUCTURAL_VALID, "deterministic-green", STABLE)


def letter_status(grade: object, *, stable_from: str = STABLE_FROM) -> str:
    """The node status of one current full grading."""
    if grade is None:
        raise InputError("IDX-001", "the entry has no aggregateGrade.")
    if grade == REJECTED:
        return NODE_REJECTED
    if grade not in LETTERS:
        raise InputError(
            "IDX-007",
            f"{grade!r} is not a grade.",
            fix=f"A grade is one of {', '.join(LETTERS)} or {REJECTED}.",
        )
    return STABLE if at_least(str(grade), stable_from) else GRADED


def order_fault(
    mode: object, grade: object, *, first: bool, before: object = None
) -> InputError | None:
    """Why a grading of that mode and grade may not follow the one `before` it, which has that
    grade; None if it may.
    """
    if mode not in (FULL, PARTIAL):
        return InputError(
            "PRT-002", f"{mode!r} is not a grading mode.", fix="It is full or partial."
        )
    if mode == FULL:
        return None
    if first:
        return InputError("PRT-003", "the first grading is partial.", fix="Begin with a full one.")
    if grade != before:
        return InputError(
            "PRT-004",
            f"a partial grading changed the grade from {before} to {grade}.",
            fix="Keep the grade of the grading before it.",
        )
    return None


def check_node_status(status: object) -> str:
    """A node status, or the error that it is none."""
    if status not in NODE_STATUSES:
        raise InputError(
            "IDX-007",
            f"{status!r} is not a node status.",
            fix=f"A node is {', '.join(NODE_STATUSES)}.",
        )
    return str(status)


def rollup_status(statuses: Iterable[object]) -> str:
    """The status of a whole from the statuses of its nodes."""
    node_statuses = [check_node_status(status) for status in statuses]
    if NODE_REJECTED in node_statuses:
        return NODE_REJECTED
    if not any(status in (GRADED, STABLE) for status in node_statuses):
        return BLOCKED if BLOCKED in node_statuses else PENDING
    return OPERATIONAL if all(status == STABLE for status in node_statuses) else PARTIAL


def schema_status(tools: Sequence[object], aggregate: object) -> str:
    """The status of a schema from its tools and from the grading that sums them up."""
    tool_statuses = [check_node_status(status) for status in tools]
    whole = check_node_status(aggregate)
    if NODE_REJECTED in (*tool_statuses, whole):
        return NODE_REJECTED
    if BLOCKED in tool_statuses:
        return BLOCKED
    if not tool_statuses and whole == PENDING:
        return PENDING
    if whole == STABLE and all(status == STABLE for status in tool_statuses):
        return STABLE
    return (
        GRADED if any(status in (GRADED, STABLE) for status in (*tool_statuses, whole)) else PENDING
    )


def rollup_grade(grades: Iterable[object]) -> str | None:
    """The rollup grade: REJECTED if any is, else the worst letter; None if nothing is graded."""
    known_grades = list(grades)
    for grade in known_grades:
        if grade != REJECTED and grade not in LETTERS:
            raise InputError(
                "IDX-007",
                f"{grade!r} is not a grade.",
                fix=f"A grade is one of {', '.join(LETTERS)} or {REJECTED}.",
            )
    if REJECTED in known_grades:
        return REJECTED
    return max(map(str, known_grades), key=LETTERS.index) if known_grades else None


def meets(level: object, required: object) -> bool:
    """Whether a readiness is as far as another."""
    for value in (level, required):
        if value not in READINESS:
            raise InputError(
                "FMC-012",
                f"{value!r} is not a readiness.",
                fix=f"The ladder is {', '.join(READINESS)}.",
            )
    return READINESS.index(str(level)) >= READINESS.index(str(required))
