"""Selections: groups of schemas of several namespaces, graded as a whole only when each member
passes alone.

A member is referenced by `<namespace>.<schema>`, never copied and never graded again. The lock
freezes what is graded together. Each lock has its own file; the index carries the newest one
over byte for byte, and where both exist and differ, the index was changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from assay import exact
from assay.canon import time_text
from assay.errors import Fault, InputError, raise_faults
from assay.families.tools.answers import TECHNICAL_PERSONAS
from assay.families.tools.ecma import hash8
from assay.families.tools.names import INDEX, latest
from assay.families.tools.policy import SchemaRules
from assay.families.tools.records import LockedMember, SelectionLock
from assay.families.tools.status import STABLE, check_node_status
from assay.files.json_files import parse_json
from assay.records.typed import convert

MAX_SKILLS = 4
_MEMBER = re.compile(r"[a-zA-Z0-9_-]+\.[a-zA-Z0-9_-]+")


def size_outcome(namespaces: object, rules: SchemaRules) -> str:
    """What a selection of that many distinct namespaces may reach: `n/a`, `max B` or `A
    allowed`.
    """
    try:
        count = exact.ratio(namespaces)
    except ValueError as error:
        raise InputError("FMC-012", f"the number of namespaces must be one; {error}.") from None
    if count.den != 1 or count.num < 0:
        raise InputError("FMC-012", f"{namespaces} is not a number of namespaces.")
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


_TEXTS = {
    "selectionId": (r"[a-z0-9-]+", "must be lower-case letters, digits and '-'."),
    "namespace": (r"[a-z0-9_-]+", "must be lower-case letters, digits, '_' and '-'."),
    "name": (r"[\s\S]*\S[\s\S]*", "must be a text."),
    "version": (r"flowmcp/4\.[0-9]+\.[0-9]+", "must be flowmcp/4.x.y."),
    "description": (r"\s*\S[\s\S]{8,}\S\s*", "must be a text of at least 10 characters."),
    "whenToUse": (r"[\s\S]*\S[\s\S]*", "must say when to use the selection."),
}
"""What the texts of a selection must match, and what is said where they do not."""


def check_selection(document: object, where: str = "") -> dict[str, Any]:
    """A selection as the specification's text describes it, or every fault it has."""
    if not isinstance(document, dict):
        raise InputError("SEL-001", "must be a JSON object.", where=where)
    faults = [
        Fault(message, code=code, file=where, path=path)
        for code, path, message in _selection_faults(document)
    ]
    raise_faults(faults, where=where)
    return document


def _selection_faults(document: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for key, (pattern, message) in _TEXTS.items():
        value = document.get(key)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            yield "SEL-001", key, message
    personas = document.get("personaIds")
    if not (
        isinstance(personas, list)
        and personas
        and all(isinstance(name, str) and name for name in personas)
    ):
        yield "SEL-S4", "personaIds", "must name at least one persona."
    elif all(name in TECHNICAL_PERSONAS for name in personas):
        reason = f"{', '.join(personas)} reviews technique and doesn't represent a user."
        yield "SEL-S4", "personaIds", reason
    members = member_ids(document)
    if not members:
        yield "SEL-002", "members", "must have at least one {schemaId}."
    for index, member in enumerate(members):
        path = f"members[{index}].schemaId"
        if not is_member_id(member):
            yield "SEL-003", path, f"{member!r} is not of the form <namespace>.<schema>."
        if member in members[:index]:
            yield "SEL-S1", path, f"'{member}' is a member twice."
    skills = document.get("skills", [])
    if not isinstance(skills, list) or len(skills) > MAX_SKILLS:
        yield "SEL-S3", "skills", f"must be a list of at most {MAX_SKILLS} skills."
        return
    for index, skill in enumerate(skills):
        file = skill.get("file") if isinstance(skill, dict) else skill
        if not isinstance(file, str) or not file.strip():
            yield "SEL-S3", f"skills[{index}]", 'must be {"file": "..."}.'


# --- the lock

OVERRIDABLE = ("name", "description")
TAKE_LOCK = "Take a lock: `assay tools index --lock`."


def make_lock(
    selection_id: str,
    members: Sequence[LockedMember],
    *,
    version: str | None,
    selection: Mapping[str, Any],
    now: datetime,
) -> SelectionLock:
    """The frozen state of a selection's members at the start of a grading."""
    for member in members:
        override = {} if member.override is None else member.override
        wrong = sorted(set(override) - set(OVERRIDABLE)) if isinstance(override, dict) else ["it"]
        if wrong:
            raise InputError(
                "LCK-005",
                f"{member.schema_id}: an override of {', '.join(wrong)} is not allowed.",
                fix=f"Only {' and '.join(OVERRIDABLE)} may be overridden, in an object.",
            )
        check_node_status(member.grading_status)
    return SelectionLock(
        selection_id=selection_id,
        selection_version=version,
        selection_hash=hash8(dict(selection)),
        generated_at=time_text(now),
        members=list(members),
    )


def check_ready(lock: SelectionLock | None) -> list[str]:
    """The ids of the members if every member of the frozen lock is stable; else an error that
    names each one that is not.
    """
    if lock is None or not lock.members:
        raise InputError("PRE-004", "the selection has no frozen members.", fix=TAKE_LOCK)
    faults = [
        Fault(
            f"{member.schema_id} ({member.schema_hash}) is {member.grading_status}.",
            code="PRE-004",
            fix="Grade it first.",
        )
        for member in lock.members
        if member.grading_status != STABLE
    ]
    if faults:
        raise InputError(
            "PRE-004",
            f"{len(faults)} of {len(lock.members)} members are not stable.",
            faults=faults,
        )
    return [member.schema_id for member in lock.members]


class _Frozen(msgspec.Struct, rename="camel"):
    lock_snapshot: msgspec.Raw = msgspec.Raw(b"")


def frozen_bytes(home: str) -> bytes | None:
    """The frozen lock of a selection as the bytes that an index carries over: those in the index,
    else those of the newest lock file.
    """
    path = os.path.join(home, INDEX)
    if os.path.exists(path):
        with open(path, "rb") as stream, suppress(msgspec.DecodeError):
            held = bytes(msgspec.json.decode(stream.read(), type=_Frozen).lock_snapshot)
            if held:
                return held
    data = _newest_file(home)
    try:
        parse_json(data or b"")
    except ValueError:
        return None  # a torn file is not carried into an index; `read_lock` reports it
    return data.rstrip(b"\n") if data else None


def _newest_file(home: str) -> bytes | None:
    newest = latest(os.listdir(home), "lock") if os.path.isdir(home) else None
    if newest is None:
        return None
    with open(os.path.join(home, newest), "rb") as stream:
        return stream.read()


def read_lock(home: str) -> SelectionLock | None:
    """The lock of a selection to rely on. Its own file is the truth; an index that differs was
    changed.
    """
    held, own = frozen_bytes(home), _newest_file(home)
    data = held if own is None else own
    if data is None:
        return None
    try:
        tree = parse_json(data)
        lock = convert(tree, SelectionLock)
        changed = held is not None and parse_json(held) != tree
    except ValueError as error:
        raise InputError(
            "LCK-006", f"the lock cannot be read: {error}.", where=home, fix=TAKE_LOCK
        ) from None
    if changed:
        raise InputError(
            "LCK-006",
            "the lock in index.json is not the one that was taken.",
            where=home,
            fix=TAKE_LOCK,
        )
    return lock
