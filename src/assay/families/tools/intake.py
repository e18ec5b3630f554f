"""What comes into a grading tree from a file, and what goes out: schemas, selections, the scores of
the file protocol as an entry, and the export.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from assay.canon import time_text
from assay.errors import InputError, UsageError
from assay.families.tools.checks import GRADER, VetoCheck
from assay.families.tools.ecma import about_hash, document_bytes, hash8
from assay.families.tools.entry import (
    VALIDATION_FAILED,
    EntrySubject,
    Trigger,
    blocked_entry,
    build_entry,
    is_extended,
    regrading_trigger,
)
from assay.families.tools.index import index_bytes, strict
from assay.families.tools.manifest import (
    about_text,
    manifest_name,
    manifest_of,
    read_manifest,
    schema_version,
    snapshot_of,
    tools_of,
)
from assay.families.tools.names import (
    DETERMINISTIC,
    INDEX,
    NEUTRAL,
    NON_DETERMINISTIC,
    primitive_file,
    segment,
    stamp,
)
from assay.families.tools.records import CategoricalVeto, NamespaceIndex, SchemaFinding, document
from assay.families.tools.selection import check_selection, frozen_bytes
from assay.families.tools.source import ToolSchema
from assay.families.tools.tree import Tree, next_moment
from assay.families.tools.veto import CLEAN, VETO
from assay.files.atomic import atomic_create
from assay.files.json_files import parse_json

AREA = "tools-aggregate-schema"
OWN_HARNESS = "assay"
VALIDATION_GRADER = {"kind": "script", "name": "assay-schema-validation", "version": "1.0.0"}
_ENTRY_NAME = re.compile(r"[a-zA-Z0-9_-]+")
"""What the id in an entry can name: it has a dot between namespace and name, so neither may hold
one.
"""


class Written(NamedTuple):
    """What an import did with one schema."""

    schema: str
    action: str
    """`created`, `new version`, `unchanged` or `blocked`."""
    path: str
    reason: str = ""


# --- import


def check_import(tree: Tree, schema: ToolSchema) -> None:
    """Refuse a schema whose names the tree cannot hold, before anything is created."""
    tree.home("providers", schema.namespace)
    segment(schema.base, "schema")
    for what, name in (("namespace", schema.namespace), ("schema", schema.base)):
        if not _ENTRY_NAME.fullmatch(name):
            raise InputError(
                "FMC-007",
                f"the {what} '{name}' cannot be part of an entry's id.",
                where=schema.path,
                fix="Rename it: letters, digits, '_' and '-'.",
            )
    manifest_of(schema)


def import_one(
    tree: Tree, schema: ToolSchema, findings: Sequence[SchemaFinding], *, now: datetime
) -> Written:
    """Put one schema into the tree (created, a new version next to the old, or unchanged) and make
    the index of its namespace again. One that fails its validation is kept and blocked.
    """
    check_import(tree, schema)
    with tree.locked("providers", schema.namespace):
        written = _import_schema(tree, schema, findings, now)
        tree.rebuild("providers", schema.namespace)
    return written


def _import_schema(
    tree: Tree, schema: ToolSchema, findings: Sequence[SchemaFinding], now: datetime
) -> Written:
    base, name = schema.base, f"{schema.namespace}.{schema.base}"
    home = tree.inside(os.path.join(tree.home("providers", schema.namespace), base))
    errors = [finding.text() for finding in findings if finding.level == "error"]
    own, held = hash8(schema.main), snapshot_of(home, base)
    if held is not None and held.hash8 == own:
        before = read_manifest(home, held)
        if before is None or before.file_sha256 == schema.file_sha256:
            # the same bytes, or nothing to compare them with
            action = "blocked" if errors else "unchanged"
            return Written(name, action, os.path.join(home, held.file), "".join(errors[:1]))
    when = stamp(next_moment(held.moment if held else None, now, home))
    extension = os.path.splitext(schema.path)[1].lstrip(".") or "json"
    extension = "json" if schema.kind == "mcp" else extension
    path = os.path.join(home, primitive_file(base, when, own, extension))
    for tool, definition in tools_of(schema.main).items():
        data = document_bytes(definition, where=schema.path)
        _snapshot(tree, os.path.join(home, "tools", tool), tool, hash8(definition), data, when)
    _snapshot_about(tree, home, schema.main, when)
    manifest = manifest_of(schema)
    _create(
        tree,
        os.path.join(home, manifest_name(os.path.basename(path))),
        document_bytes(manifest),
    )
    _create(tree, path, schema.source)  # last: until it is there, the schema is not imported
    if errors:
        entry = blocked_entry(
            EntrySubject(name, AREA, own, manifest.version),
            VALIDATION_FAILED,
            now=now,
            harness=OWN_HARNESS,
            systems=tree.rules.systems,
            note=errors[0],
        )
        tree.write_entry(entry, {"namespace": schema.namespace, "schema": base}, now=now)
        return Written(name, "blocked", path, errors[0])
    return Written(name, "new version" if held else "created", path)


def import_selection(
    tree: Tree, definition: dict[str, Any], where: str, *, now: datetime
) -> Written:
    """Put a selection into the tree, next to its older versions, and rebuild its index."""
    name = check_selection(definition, where)["selectionId"]
    with tree.locked("selections", name):
        home = tree.home("selections", name)
        own, held = hash8(definition), snapshot_of(home, "selection")
        if held is not None and held.hash8 == own:
            written = Written(name, "unchanged", os.path.join(home, held.file))
        else:
            when = stamp(next_moment(held.moment if held else None, now, home))
            _snapshot_about(tree, home, definition, when)
            path = os.path.join(home, primitive_file("selection", when, own, "json"))
            _create(tree, path, document_bytes(definition))
            written = Written(name, "new version" if held else "created", path)
        tree.rebuild("selections", name)
    return written


def _snapshot_about(tree: Tree, home: str, main: dict[str, Any], when: str) -> None:
    page = about_text(main)
    if page is not None:
        folder = os.path.join(home, "resources", "about")
        _snapshot(tree, folder, "about", about_hash(page), page, when, extension="md")


def _snapshot(
    tree: Tree,
    folder: str,
    name: str,
    own: str,
    data: bytes,
    when: str,
    *,
    extension: str = "json",
) -> None:
    held = snapshot_of(folder, name)
    if held is None or held.hash8 != own:
        _create(tree, os.path.join(folder, primitive_file(name, when, own, extension)), data)


def _create(tree: Tree, path: str, data: bytes) -> None:
    tree.inside(os.path.dirname(path))
    try:
        with atomic_create(path) as stream:
            stream.write(data)
    except FileExistsError:
        with open(path, "rb") as stream:
            if stream.read() != data:
                raise InputError(
                    "FMC-014",
                    "exists already with other content.",
                    where=path,
                    fix="Try again in a second.",
                ) from None


# --- scores of the file protocol


def check_open(tree: Tree, schema: ToolSchema, checks: Sequence[VetoCheck]) -> None:
    """Refuse to grade a rejected schema, unless every check that rejected it is determined now. A
    veto of a person or a model is lifted only by `record`, and so is every veto of a server: what
    its checks rest on is declared, and a new declaration must not undo what the old one showed.
    """
    check_import(tree, schema)
    determined = {
        check.id for check in checks if schema.kind != "mcp" and check.outcome in (CLEAN, VETO)
    }
    names = {"namespace": schema.namespace, "schema": schema.base}
    for entry in tree.node(AREA, names, live=hash8(schema.main)).vetoes:
        veto = entry.categorical_veto
        assert veto is not None
        if veto.grader_identity != GRADER or veto.triggered_by not in determined:
            raise InputError(
                "FMC-015",
                f"{schema.schema_id} is rejected ({veto.triggered_by}).",
                fix=(
                    "Only a whole new evaluation lifts a veto: `assay tools record --mode full"
                    " --trigger ...`."
                ),
            )


def record_scores(
    tree: Tree,
    schema: ToolSchema,
    findings: Sequence[SchemaFinding],
    scores: dict[str, Any],
    *,
    veto: CategoricalVeto | None,
    now: datetime,
) -> str:
    """The scores of the file protocol as an entry: the two judged answers, and the validation as
    the deterministic one.

    The validation has the weight 0: a failed one blocks or vetoes, a passed one earns nothing, so
    that the entry's grade is the report's.
    """
    names = {"namespace": schema.namespace, "schema": schema.base}
    if veto is None and any(finding.level == "error" for finding in findings):
        # the import has just blocked it: a schema that fails its validation is not graded
        with tree.locked("providers", schema.namespace):
            return tree.stored(AREA, names)[-1].path
    harness, creator = scores["harness"], scores["creator"]
    grader = {
        "kind": "llm",
        "name": str(creator.get("skill") or harness.get("name") or "not stated"),
        "version": str(creator.get("skillVersion") or "not stated"),
    }
    passed = "the deterministic validation has no errors"
    answers: list[dict[str, Any]] = [
        {
            "questionId": "Q-schemaStructure",
            "score": "pass" if veto is None else "fail",
            "weight": 0,
            "determinism": DETERMINISTIC,
            "graderIdentity": VALIDATION_GRADER,
            "timestamp": time_text(now),
            "evidence": passed if veto is None else "see categoricalVeto",
        }
    ]
    answers += [
        {
            "questionId": f"Q-{item['dimension']}",
            "score": item["score"],
            "weight": 1,
            "determinism": NON_DETERMINISTIC,
            "graderIdentity": grader,
            "llmModel": str(harness.get("model") or "not stated"),
            "selectionContext": {"groupId": AREA, "personaIds": [NEUTRAL]},
            "timestamp": scores["timestamp"],
            **{key: item[key] for key in ("naReason", "reasoning") if item.get(key)},
        }
        for item in scores["scores"]
    ]
    with tree.locked("providers", schema.namespace):
        node = tree.node(AREA, names)
        trigger = None
        if node.vetoes and veto is None:  # a whole new evaluation, which names what it lifts
            trigger = regrading_trigger(
                Trigger("scheduled"), previous=node.vetoes[-1].grading_id, now=now
            )
        entry, _ = build_entry(
            EntrySubject(
                f"{schema.namespace}.{schema.base}",
                AREA,
                hash8(schema.main),
                schema_version(schema),
            ),
            answers,
            tree.rules,
            now=now,
            harness=str(harness.get("name") or OWN_HARNESS),
            veto=veto,
            trigger=trigger,
        )
        path = tree.write_entry(entry, names, now=now)
        tree.rebuild("providers", schema.namespace)
    return path


# --- export


def export(tree: Tree, kind: str, name: str, target: str) -> list[str]:
    """Write a namespace or selection into a fresh folder: its index first, then the newest version
    of each source under its plain name, then its strict entries.
    """
    home = tree.home(kind, name)
    if not os.path.isdir(home):
        raise InputError("IDX-006", f"the tree has no '{name}'.", where=home)
    if os.path.exists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise UsageError(
            "FIL-008", "exists and is not empty.", where=target, fix="Export into a fresh folder."
        )
    index = tree.rebuild(kind, name)
    of_namespace = isinstance(index, NamespaceIndex)
    lock = None if of_namespace else frozen_bytes(home)
    files = {INDEX: index_bytes(strict(document(index)), lock)}
    sources = (
        [(schema, schema) for schema in index.schemas]
        if isinstance(index, NamespaceIndex)
        else [("", "selection")]
    )
    for folder, logical in sources:
        snapshot = snapshot_of(os.path.join(home, folder), logical)
        if snapshot is not None:
            plain = f"{logical}.{snapshot.file.rsplit('.', 1)[1]}"
            files[plain] = _bytes(home, folder, snapshot.file)
    for relative in tree.entry_paths(kind, name):
        data = _bytes(home, relative)
        try:
            entry = parse_json(data)
        except ValueError:
            continue  # it blocks its node in the index; what cannot be read is not handed on
        if not is_extended(entry):
            files[relative] = data
    for relative, data in files.items():
        with atomic_create(os.path.join(target, relative)) as stream:
            stream.write(data)
    return [os.path.join(target, relative) for relative in files]


def _bytes(*path: str) -> bytes:
    with open(os.path.join(*path), "rb") as stream:
        return stream.read()
