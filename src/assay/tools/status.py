"""Status of nodes and of rollups: two lists of words that are never mixed, and the order in which
gradings may follow each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from assay.errors import InputError
from assay.tools.names import FULL, LETTERS, PARTIAL, REJECTED
from assay.tools.policy import at_least

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
READINESS = ("imported", "structural-valid", "deterministic-green", "stable")


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


def node_status(entries: Sequence[dict[str, Any]]) -> str:
    """The status of a node from its gradings, oldest first: the last full one decides, partial ones
    never do.

    A rejected node stays rejected whatever changes; any other is pending once what was graded has
    changed.
    """
    full = [entry for entry in entries if entry.get("gradingMode") == FULL]
    if not full:
        return PENDING
    last = full[-1]
    status_now = letter_status(last.get("aggregateGrade"))
    if status_now == NODE_REJECTED:
        return status_now
    return status_now if last.get("schemaHashMatchesCurrent", True) is True else PENDING


def sequence_fault(entries: Sequence[dict[str, Any]]) -> InputError | None:
    """What is wrong with the order of gradings, oldest first; None if nothing is."""
    before: dict[str, Any] | None = None
    for index, entry in enumerate(entries):
        mode = entry.get("gradingMode") if isinstance(entry, dict) else None
        if mode not in (FULL, PARTIAL):
            return InputError(
                "PRT-002",
                f"entry {index}: {mode!r} is not a grading mode.",
                fix="It is full or partial.",
            )
        if before is None and mode != FULL:
            return InputError(
                "PRT-003", "the first grading is partial.", fix="Begin with a full one."
            )
        if (
            before is not None
            and mode == PARTIAL
            and entry.get("aggregateGrade") != before.get("aggregateGrade")
        ):
            return InputError(
                "PRT-004",
                f"entry {index}: a partial grading changed the aggregate grade.",
                fix="Keep the grade of the grading before it.",
            )
        before = entry
    return None


def stable_eligibility(
    entries: Sequence[dict[str, Any]], threshold: object = STABLE_FROM
) -> tuple[bool, str, str]:
    """Whether the gradings, oldest first, make a node stable; why or why not; and what it is."""
    if threshold not in LETTERS:
        raise InputError(
            "FMC-012",
            f"{threshold!r} is not a threshold.",
            fix=f"Give one of {', '.join(LETTERS)}.",
        )
    if not entries:
        return False, "no-gradings", PENDING
    if sequence_fault(entries) is not None:
        return False, "sequence-invalid", BLOCKED
    last_full = [entry for entry in entries if entry["gradingMode"] == FULL][-1]
    held = letter_status(last_full.get("aggregateGrade"), stable_from=str(threshold))
    if entries[-1]["gradingMode"] != FULL:
        return False, "last-not-full", held
    return (True, "ok", STABLE) if held == STABLE else (False, "below-threshold", held)


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


def precondition(members: object) -> InputError | None:
    """Why what sums up its members may not be graded yet; None if it may. An empty group is not
    ready either.
    """
    if not isinstance(members, list) or not members:
        return InputError(
            "PRE-004", "there are no members.", fix="Freeze a lock with at least one member first."
        )
    open_ = [f"{index}: {status}" for index, status in enumerate(members) if status != STABLE]
    if open_:
        return InputError(
            "PRE-004",
            f"{len(open_)} of {len(members)} members are not stable ({', '.join(open_[:20])}).",
            fix="Grade them first.",
        )
    return None


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
