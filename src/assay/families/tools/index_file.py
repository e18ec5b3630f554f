"""index.json as a file: what is wrong with one, and writing it.

It is the one file of a tree that is overwritten. The frozen `lockSnapshot` of a selection is
carried over byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from assay.errors import InputError
from assay.families.tools.ecma import document_bytes
from assay.families.tools.index import INDEX_VERSION, WORST_FIRST
from assay.families.tools.names import AUTONOMOUS, LETTERS, REJECTED
from assay.families.tools.policy import SchemaRules, better
from assay.families.tools.records import NamespaceIndex, SelectionIndex
from assay.families.tools.status import (
    BLOCKED,
    NODE_REJECTED,
    NODE_STATUSES,
    OPERATIONAL,
    ROLLUP_STATUSES,
    STABLE,
    letter_status,
    rollup_grade,
    rollup_status,
    schema_status,
)
from assay.files.atomic import atomic_write

INDEX = "index.json"


def _nodes(index: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key in ("about", "description", "namespaceAggregate", "selectionAggregate"):
        if key in index:
            yield key, index[key]
    for group in ("skills", "members", "schemas"):
        for name, node in _mapping(index.get(group)).items():
            path = f"{group}.{name}"
            yield path, node
            if group == "schemas" and "toolsAggregate" in _mapping(node):
                yield f"{path}.toolsAggregate", node["toolsAggregate"]
            if group == "schemas":
                for tool, inner in _mapping(_mapping(node).get("tools")).items():
                    yield f"{path}.tools.{tool}", inner
    members = _mapping(index.get("lockSnapshot")).get("members")
    for member in members if isinstance(members, list) else ():
        if "gradingStatus" in _mapping(member):
            yield f"lockSnapshot.{member.get('schemaId')}", {"status": member["gradingStatus"]}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def index_fault(index: object) -> InputError | None:
    """The first thing wrong with an index: its version, a status outside its list, something
    missing, then something of the wrong kind.
    """
    if not isinstance(index, dict):
        return InputError("IDX-002", "an index is an object.")
    version = index.get("indexVersion")
    if version != INDEX_VERSION or isinstance(version, bool):
        return InputError("IDX-003", f"indexVersion is {version!r}, not {INDEX_VERSION}.")
    statuses = [("", index, ROLLUP_STATUSES, "a rollup")]
    statuses += [(f"{path}.", node, NODE_STATUSES, "a node") for path, node in _nodes(index)]
    for path, node, allowed, what in statuses:
        if isinstance(node, dict) and node.get("status", allowed[0]) not in allowed:
            return InputError(
                "IDX-007", f"{path}status is {node['status']!r}; {what} is {', '.join(allowed)}."
            )
    of_namespace = index.get("namespace") is not None
    if not of_namespace and index.get("selectionId") is None:
        return InputError("IDX-001", "there is neither a namespace nor a selectionId.")
    for key in ("updatedAt", "status", *(("description", "skills") if of_namespace else ())):
        if key not in index:
            return InputError("IDX-001", f"{key} is missing.")
    for key in ("namespace", "selectionId", "updatedAt"):
        if not isinstance(index.get(key, ""), str):
            return InputError("IDX-002", f"{key} must be a string.")
    for path, node in _nodes(index):
        if not isinstance(node, dict):
            return InputError("IDX-002", f"{path} must be an object.")
        if "status" not in node:
            return InputError("IDX-001", f"{path}.status is missing.")
        if node.get("grade") not in (None, *LETTERS, REJECTED):
            return InputError("IDX-007", f"{path}.grade is {node['grade']!r}.")
    return None


def contradictions(index: dict[str, Any], rules: SchemaRules) -> Iterator[str]:
    """What a sound index claims and its own nodes deny: a status or a grade better than what it
    sums up, a grade beyond the tier, a block without its reason.
    """
    nodes = {path: node for path, node in _nodes(index) if not path.startswith("lockSnapshot.")}
    of_namespace = index.get("namespace") is not None
    for path, node in nodes.items():
        yield from _denied(path, node, rules, autonomous=of_namespace)
    for name, schema in _mapping(index.get("schemas")).items():
        if "toolsAggregate" in schema:
            tools = [tool["status"] for tool in _mapping(schema.get("tools")).values()]
            due = schema_status(tools, schema["toolsAggregate"]["status"])
            if WORST_FIRST.index(schema["status"]) > WORST_FIRST.index(due):
                yield f"schemas.{name} is {schema['status']}, but its parts make it {due}."
    status, due = index["status"], rollup_status(node["status"] for node in nodes.values())
    if status != due and (status == OPERATIONAL or due == NODE_REJECTED):
        yield f"status is {status}, but the nodes make it {due}."
    graded = nodes.values() if of_namespace else [_mapping(index.get("selectionAggregate"))]
    worst = rollup_grade(node["grade"] for node in graded if node.get("grade") is not None)
    grade = index.get("grade")
    if grade in LETTERS and worst is not None and (worst == REJECTED or better(grade, worst)):
        yield f"grade is {grade}, but the nodes make it {worst}."


def _denied(
    path: str, node: dict[str, Any], rules: SchemaRules, *, autonomous: bool
) -> Iterator[str]:
    status, grade = node["status"], node.get("grade")
    if status == BLOCKED and not node.get("reason"):
        yield f"{path} is blocked without a reason."
    if grade is None:
        return
    due = letter_status(grade, stable_from=rules.policy.stable_from)
    member = path.startswith("members.")
    # a schema shows the grade of its aggregate, and one of its tools may be rejected
    of_schema = member or "tools" in node
    if (
        due == NODE_REJECTED != status
        or status == STABLE != due
        or (status == NODE_REJECTED != due and not of_schema)
    ):
        yield f"{path} is {status} with the grade {grade}."
    best = rules.caps[AUTONOMOUS]
    if due != NODE_REJECTED and (autonomous or member) and better(grade, best):
        yield f"{path} has the grade {grade}, and the best of the tier {AUTONOMOUS} is {best}."


def index_bytes(
    index: NamespaceIndex | SelectionIndex | dict[str, Any], lock: bytes | None = None
) -> bytes:
    """An index as its file holds it; `lock` is the frozen part, put in as the bytes it is."""
    text = document_bytes(index)
    return text if lock is None else text[: -len(b"\n}\n")] + _LOCK + lock + b"\n}\n"


_LOCK = b',\n  "lockSnapshot": '


class _Frozen(msgspec.Struct, rename="camel"):
    lock_snapshot: msgspec.Raw = msgspec.Raw(b"")


def frozen_lock(data: bytes) -> bytes | None:
    """The bytes of `lockSnapshot` in an index file, exactly as written; None if there is none.
    Raises ValueError.
    """
    try:
        return bytes(msgspec.json.decode(data, type=_Frozen).lock_snapshot) or None
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


def write_index(
    path: str, index: NamespaceIndex | SelectionIndex, lock: bytes | None = None
) -> None:
    """Write an index if it differs from the file."""
    data = index_bytes(index, lock)
    with suppress(FileNotFoundError), open(path, "rb") as stream:
        if stream.read() == data:
            return
    with atomic_write(path) as stream:
        stream.write(data)


def strict(index: dict[str, Any]) -> dict[str, Any]:
    """An index that the published schema accepts: without the two version keys at the top, which it
    has no room for; they stay in `summary`.
    """
    return {
        key: value for key, value in index.items() if key not in ("scoringSystem", "gradingSystem")
    }
