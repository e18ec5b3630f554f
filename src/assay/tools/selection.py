"""Selections: groups of schemas of several namespaces, graded as a whole only when each member
stands on its own.

A member is referenced by `<namespace>.<schema>`, never copied and never graded again. The lock
freezes what was graded together.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from assay import exact
from assay.errors import Fault, InputError
from assay.tools.hashing import hash8
from assay.tools.names import iso
from assay.tools.status import check_node_status, precondition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from assay.tools.policy import SchemaRules

MAX_SKILLS = 4
OVERRIDABLE = ("name", "description")
_SELECTION_ID = re.compile(r"[a-z0-9-]+")
_NAMESPACE = re.compile(r"[a-z0-9_-]+")
_MEMBER = re.compile(r"[a-zA-Z0-9_-]+\.[a-zA-Z0-9_-]+")
_VERSION = re.compile(r"flowmcp/4\.[0-9]+\.[0-9]+")


def size_outcome(namespaces: object, rules: SchemaRules) -> str:
    """What a selection of that many distinct namespaces may reach: `n/a`, `max B` or `A
    allowed`.
    """
    try:
        count = exact.ratio(namespaces)
    except ValueError as error:
        raise InputError("FMC-012", f"the number of namespaces must be one; {error}.") from None
    if count.den != 1 or count.num < 0:
        raise InputError("FMC-012", f"{namespaces} is no number of namespaces.")
    namespaces = count.num
    sizes = rules.policy.selection
    if namespaces < sizes.graded_from:
        return "n/a"
    return f"max {sizes.capped_at}" if namespaces < sizes.uncapped_from else "A allowed"


def size_cap(namespaces: int, rules: SchemaRules) -> str | None:
    """The best grade of a selection of that size, where it is less than the tier's best."""
    return (
        rules.policy.selection.capped_at
        if namespaces < rules.policy.selection.uncapped_from
        else None
    )


def namespaces_of(members: Iterable[str]) -> set[str]:
    """The distinct namespaces of the members: they count, not the members."""
    return {member.partition(".")[0] for member in members}


def member_ids(selection: Mapping[str, Any]) -> list[str]:
    """The members of a selection, in its order."""
    members = selection.get("members")
    return (
        [str(item.get("schemaId", "")) if isinstance(item, dict) else str(item) for item in members]
        if isinstance(members, list)
        else []
    )


def is_member_id(text: object) -> bool:
    """Whether a text is `<namespace>.<schema>`."""
    return isinstance(text, str) and _MEMBER.fullmatch(text) is not None


def check_selection(document: object, where: str = "") -> dict[str, Any]:
    """A selection as the specification's text describes it, or every fault it has."""
    if not isinstance(document, dict):
        raise InputError("SEL-001", "is no JSON object.", where=where)
    faults: list[tuple[str, str, str]] = []

    def need(key: str, holds: bool, message: str, code: str = "SEL-001") -> None:
        if not holds:
            faults.append((code, key, message))

    def text(key: str, pattern: re.Pattern[str] | None = None, least: int = 1) -> bool:
        value = document.get(key)
        return (
            isinstance(value, str)
            and len(value.strip()) >= least
            and (pattern is None or pattern.fullmatch(value) is not None)
        )

    need(
        "selectionId",
        text("selectionId", _SELECTION_ID),
        "must be lower-case letters, digits and '-'.",
    )
    need(
        "namespace",
        text("namespace", _NAMESPACE),
        "must be lower-case letters, digits, '_' and '-'.",
    )
    need("name", text("name"), "must be a text.")
    need("version", text("version", _VERSION), "must be flowmcp/4.x.y.")
    need("description", text("description", least=10), "must be a text of at least 10 signs.")
    need("whenToUse", text("whenToUse"), "must say when to use the selection.")
    personas = document.get("personaIds")
    need(
        "personaIds",
        isinstance(personas, list)
        and bool(personas)
        and all(isinstance(name, str) and name for name in personas),
        "must name at least one persona.",
        "SEL-S4",
    )
    members = member_ids(document)
    need("members", bool(members), "must hold at least one {schemaId}.", "SEL-002")
    for index, member in enumerate(members):
        need(
            f"members[{index}].schemaId",
            is_member_id(member),
            f"{member!r} is no <namespace>.<schema>.",
            "SEL-003",
        )
        need(
            f"members[{index}].schemaId",
            member not in members[:index],
            f"'{member}' is a member twice.",
            "SEL-S1",
        )
    skills = document.get("skills", [])
    need(
        "skills",
        isinstance(skills, list) and len(skills) <= MAX_SKILLS,
        f"must be a list of at most {MAX_SKILLS} skills.",
        "SEL-S3",
    )
    if faults:
        listed = [
            Fault(message, code=code, file=where, path=path) for code, path, message in faults
        ]
        raise InputError(faults[0][0], faults[0][2], where=where, faults=listed)
    return document


class CrossReferences(NamedTuple):
    """Whether the skills of a selection lead from signpost to topic to use case."""

    signposts_name_all_topics: bool
    use_cases_are_named: bool
    dangling: tuple[str, ...]


def cross_references(
    signposts: Mapping[str, str], topics: Mapping[str, str], use_cases: Sequence[str]
) -> CrossReferences:
    """Each signpost (L1) names every topic (L2) by its word; each use case (L3) is named by some
    topic; nothing named is missing.

    A name counts as a whole word: `l2-trend` is not named by `l2-trends`.
    """
    known = {*topics, *use_cases}
    dangling = sorted(
        {
            word
            for body in (*signposts.values(), *topics.values())
            for word in re.findall(r"\bl[23]-[a-z0-9-]+", body)
        }
        - known
    )
    return CrossReferences(
        all(_names(body, topic) for body in signposts.values() for topic in topics),
        all(any(_names(body, case) for body in topics.values()) for case in use_cases),
        tuple(dangling),
    )


def _names(body: str, word: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_-]){re.escape(word)}(?![A-Za-z0-9_-])", body) is not None


class Member(NamedTuple):
    """A member as it stands when the lock is taken."""

    schema_id: str
    version: str | None
    hash8: str | None
    status: str
    override: dict[str, Any] | None = None


def make_lock(
    selection_id: str,
    members: Sequence[Member],
    *,
    version: str | None,
    selection: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    """The frozen state of a selection's members at the start of a grading."""
    locked = []
    for member in members:
        if member.override is not None and not isinstance(member.override, dict):
            raise InputError(
                "LCK-005",
                f"{member.schema_id}: the override is no object.",
                fix=f"Only {' and '.join(OVERRIDABLE)} may be overridden.",
            )
        wrong = sorted(set(member.override or {}) - set(OVERRIDABLE))
        if wrong:
            raise InputError(
                "LCK-005",
                f"{member.schema_id}: an override of {', '.join(wrong)} is not allowed.",
                fix=f"Only {' and '.join(OVERRIDABLE)} may be overridden.",
            )
        locked.append(
            {
                "schemaId": member.schema_id,
                "schemaVersion": member.version,
                "schemaHash": member.hash8,
                "gradingStatus": check_node_status(member.status),
                "override": member.override,
            }
        )
    return {
        "selectionId": selection_id,
        "selectionVersion": version,
        "selectionHash": hash8(dict(selection)),
        "generatedAt": iso(now),
        "members": locked,
    }


def check_ready(lock: Mapping[str, Any] | None) -> None:
    """Nothing if every member of the frozen lock is stable; else an error that names each one that
    is not.
    """
    members = lock.get("members") if lock else None
    members = members if isinstance(members, list) else []
    if precondition([member.get("gradingStatus") for member in members]) is None:
        return
    if not members:
        raise InputError(
            "PRE-004",
            "the selection has no frozen members.",
            fix="Take a lock first: `assay tools index --lock`.",
        )
    open_ = [member for member in members if member.get("gradingStatus") != "stable"]
    faults = [
        Fault(
            f"{item.get('schemaId')} ({item.get('schemaHash')}) is {item.get('gradingStatus')}.",
            code="PRE-004",
            fix="Grade it first.",
        )
        for item in open_
    ]
    raise InputError(
        "PRE-004", f"{len(open_)} of {len(members)} members are not stable.", faults=faults
    )
