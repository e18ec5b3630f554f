"""Tool schemas in the ledger: their drafts, and a gate recomputed from what it names."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import ValidationError, to_builtins

from assay.canon import canonical
from assay.errors import InputError
from assay.families.tools import gate
from assay.families.tools.checks import ModuleLists, read_module_lists
from assay.families.tools.gate import GateEvidence, SchemaSource
from assay.families.tools.key_owners import registrable_domain
from assay.families.tools.policy import SchemaRules
from assay.families.tools.reading import MODULES, schema_of
from assay.families.tools.records import SCHEMA_GATE, NamespaceIndex, ToolGate
from assay.families.tools.records import document as document_of
from assay.families.tools.tree import Tree
from assay.files.json_files import parse_json, read_json
from assay.library.shelf import Shelf
from assay.records.typed import convert
from assay.services.replay import StoredEvidence, StoredGate, on_shelf, part_of
from assay.store.drafts import Draft, Item, Link, draft
from assay.store.ledger import Ledger

SCHEMA_SOURCE = "assay.schema-source/1"


SCHEMA_LISTS = "assay.schema-lists/1"


def report_drafts(report: Mapping[str, Any], scores: Mapping[str, Any]) -> list[Draft]:
    """A report of the file protocol, after the scores it was made of."""
    evidence = draft(scores, kind="event")
    made = draft(report, kind="entry")
    return [evidence, made.linked("evidence_of", [evidence.name])]


def tree_drafts(tree: Tree, kind: str, name: str) -> list[Draft]:
    """Every entry of a namespace or selection, and its current index, linked to them. An entry
    of a later grading links to the one it supersedes.
    """
    home = tree.home(kind, name)
    with tree.locked(kind, name):
        index = read_json(os.path.join(home, "index.json"), lone_surrogates=True).tree
        entries = [_entry(os.path.join(home, path)) for path in tree.entry_paths(kind, name)]
    drafts = [draft(entry, kind="entry") for entry in entries]
    of_id = {
        (str(entry.get("area")), str(entry.get("gradingId"))): draft.name
        for entry, draft in zip(entries, drafts, strict=True)
    }
    linked = [
        draft._replace(links=_superseded(entry, draft.name, of_id))
        for entry, draft in zip(entries, drafts, strict=True)
    ]
    made = draft(index, kind="index")
    return [*linked, made.linked("evidence_of", [draft.name for draft in drafts])]


def _entry(path: str) -> dict[str, Any]:
    with open(path, "rb") as stream:
        try:
            entry = parse_json(stream.read())
        except ValueError as error:
            raise InputError("IDX-004", f"the entry can't be read: {error}.", where=path) from None
    if not isinstance(entry, dict):
        raise InputError("IDX-004", "the entry is not an object.", where=path)
    return entry


def _superseded(
    entry: Mapping[str, Any], own: str, of_id: Mapping[tuple[str, str], str]
) -> tuple[Link, ...]:
    trigger = entry.get("regradingTrigger")
    before = (
        of_id.get((str(entry.get("area")), str(trigger.get("previousGradingId"))))
        if isinstance(trigger, dict)
        else None
    )
    return (Link("supersedes", before),) if before is not None and before != own else ()


def schema_gate_drafts(
    gate: ToolGate, wanted: Sequence[str], held: GateEvidence, rules: SchemaRules
) -> list[Draft]:
    """The decision of the production gate, after everything it depends on: the indexes, the sources
    of the schemas, the lists of the checks.

    The decision names them by digest, as a gate on exams does.
    """
    indexes = {
        name: draft(document_of(index), kind="index") for name, index in held.indexes.items()
    }
    sources = {
        name: draft(_source_record(source.file, source.data), kind="event")
        for name, source in held.sources.items()
        if source.data is not None
    }
    lists = draft(_lists_record(held), kind="event")
    stale = {name: nodes for name, nodes in held.stale.items() if nodes}
    evidence = {
        "asked": list(wanted),
        "policy": rules.digest,
        "indexes": {name: index.name for name, index in indexes.items()},
        "sources": {
            name: {
                "file": source.file,
                **(
                    {"digest": sources[name].name} if name in sources else {"unread": source.unread}
                ),
            }
            for name, source in held.sources.items()
        },
        "lists": lists.name,
        **({"stale": stale} if stale else {}),
    }
    made = draft(
        {"schema": SCHEMA_GATE, **to_builtins(gate), "evidence": evidence}, kind="decision"
    )
    checked = [*sources.values(), lists]
    made = made.linked("candidate_of", [draft.name for draft in indexes.values()])
    made = made.linked("evidence_of", [draft.name for draft in checked])
    return [*indexes.values(), *checked, made]


def _source_record(file: str, data: bytes) -> dict[str, str]:
    try:
        return {"schema": SCHEMA_SOURCE, "file": file, "text": data.decode()}
    except UnicodeDecodeError:
        return {"schema": SCHEMA_SOURCE, "file": file, "base64": b64encode(data).decode()}


def _lists_record(held: GateEvidence) -> dict[str, Any]:
    bad, telemetry = held.modules
    modules = None if bad is None else {"bad": dict(bad), "telemetry": sorted(telemetry)}
    return {
        "schema": SCHEMA_LISTS,
        "modules": modules,
        "aliases": {brand: sorted(domains) for brand, domains in held.aliases.items()},
    }


def source_data(record: Mapping[str, Any]) -> bytes:
    """The bytes of a source that was stored."""
    return (
        str(record["text"]).encode()
        if "text" in record
        else b64decode(record["base64"], validate=True)
    )


def _schema_gate(
    ledger: Ledger, item: Item, stored: Mapping[str, Any], shelf: Shelf, project: str
) -> dict[str, Any]:
    evidence = StoredEvidence(ledger, item, project)
    named = part_of(stored, "evidence", evidence)
    held = _held(evidence, named)
    wanted = named.get("asked")
    if not isinstance(wanted, list) or not all(
        isinstance(name, str) and name.partition(".")[0] in held.indexes for name in wanted
    ):
        raise evidence.unclear("what was asked for")
    rules = SchemaRules(shelf.policy_of("flowmcp", on_shelf(stored.get("policy"), of="gate")))
    decided = to_builtins(gate.decide(wanted, held, rules))
    made = {"schema": SCHEMA_GATE, **decided, "evidence": {**named, "policy": rules.digest}}
    if canonical(made) != item.body:
        _need_readers(held)
    return made


def _held(evidence: StoredEvidence, named: Mapping[str, Any]) -> GateEvidence:
    indexes = {}
    for name, digest in part_of(named, "indexes", evidence).items():
        tree = evidence.tree(digest, f"the index of {name}", "index")
        try:
            indexes[name] = convert(tree, NamespaceIndex)
        except ValidationError:
            raise evidence.unclear(f"the index of {name}") from None
    sources = {}
    for name, source in part_of(named, "sources", evidence).items():
        if not isinstance(source, dict) or not isinstance(source.get("file"), str):
            raise evidence.unclear(f"the source of {name}")
        if "digest" not in source:
            sources[name] = SchemaSource(source["file"], None, str(source.get("unread")))
            continue
        record = evidence.tree(source["digest"], f"the source of {name}", "event", SCHEMA_SOURCE)
        sources[name] = SchemaSource(source["file"], source_data(record))
    lists = evidence.tree(named.get("lists"), "the lists of the checks", "event", SCHEMA_LISTS)
    modules = (
        ModuleLists()
        if lists.get("modules") is None
        else read_module_lists(lists["modules"], evidence.where)
    )
    try:
        stale = convert(named.get("stale", {}), dict[str, dict[str, list[str]]])
    except ValidationError:
        raise evidence.unclear("the stale answers") from None
    return GateEvidence(indexes, sources, modules, part_of(lists, "aliases", evidence), stale)


def _need_readers(held: GateEvidence) -> None:
    """Check that the schema readers are installed. Without them, a difference would be due to this
    machine, not to the gate.
    """
    registrable_domain("example.org")
    if any(source.file.lower().endswith(MODULES) for source in held.sources.values()):
        schema_of("providers/a/a.mjs", b"export const main = { namespace: 'a', tools: {} }")


GATE = StoredGate("schema gate", _schema_gate)
