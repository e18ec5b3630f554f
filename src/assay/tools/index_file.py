"""index.json as a file: what is wrong with one, and writing it.

It is the one file of a tree that is overwritten. The frozen `lockSnapshot` of a selection is
carried over byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from assay.errors import InputError
from assay.files.atomic import atomic_write
from assay.records.tool_entry import NamespaceIndex, SelectionIndex
from assay.tools.ecma import document_bytes
from assay.tools.index import INDEX_VERSION
from assay.tools.names import LETTERS, REJECTED
from assay.tools.status import NODE_STATUSES, ROLLUP_STATUSES

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
) -> bool:
    """Write an index if it differs from the file; whether it did."""
    data = index_bytes(index, lock)
    try:
        with open(path, "rb") as stream:
            if stream.read() == data:
                return False
    except FileNotFoundError:
        pass
    with atomic_write(path) as stream:
        stream.write(data)
    return True


def strict(index: dict[str, Any]) -> dict[str, Any]:
    """An index that the published schema accepts: without the two version keys at the top, which it
    has no room for; they stay in `summary`.
    """
    return {
        key: value for key, value in index.items() if key not in ("scoringSystem", "gradingSystem")
    }
