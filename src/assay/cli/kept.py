"""What a ledger keeps of the results that only commands make: gates on exams, judgements, audits and cards of judges, trees of tool schemas, measures.

Each function gives drafts, what others rest on first; none stores them. What the API makes too is made in `server.keeping`, for both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.files import parse_json, read_json
from assay.server.keeping import exam_record
from assay.store.drafts import Draft, Link, draft
from assay.store.results import schema_of

if TYPE_CHECKING:
    from assay.flowmcp.tree import Tree

SCHEMA_GATE = "assay.schema-gate/1"


def exam_gate_drafts(document: Mapping[str, Any], candidates: Iterable[Mapping[str, Any]], baseline: Mapping[str, Any] | None) -> list[Draft]:
    """The decision of an exam gate, after the results it decides on."""
    made = draft(document, kind="decision")
    ours = [draft(exam_record(one), kind="exam") for one in candidates]
    theirs = [] if baseline is None else [draft(exam_record(baseline), kind="exam")]
    links = [Link("candidate_of", made.name, one.name) for one in ours] + [Link("baseline_of", made.name, one.name) for one in theirs]
    return [*ours, *theirs, made._replace(links=tuple(links))]


def exam_baseline_drafts(record: Mapping[str, Any], result: Mapping[str, Any]) -> list[Draft]:
    """A graded exam as a baseline, in the form that a ledger has for baselines of runs: it names its evidence by digest."""
    evidence = draft(exam_record(result), kind="exam")
    shared = {name: record[name] for name in ("schema", "name", "made_at", "runs", "samples", "fingerprint", "summary")}
    made = draft({**shared, "kind": "exam", "evidence_digests": [evidence.name]}, kind="baseline")
    return [evidence, made._replace(links=(Link("baseline_of", made.name, evidence.name),))]


# --- judges -------------------------------------------------------------------------------------------------------------------------------


def judgement_draft(document: Mapping[str, Any]) -> Draft:
    """What a judge said. What it cost, and what came out of the journal, is left out: the same answers are the same judgement."""
    return draft(_said({key: value for key, value in document.items() if key != "usage"}), kind="judgement")


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _said(item) for key, item in value.items() if key != "cached"}
    return [_said(item) for item in value] if isinstance(value, list | tuple) else value


def card_drafts(card: Mapping[str, Any], *, audit: Mapping[str, Any] | None, calibration: Mapping[str, Any] | None) -> list[Draft]:
    """The card of a judge, after the audit and the calibration it was made of."""
    made = draft(card, kind="card")
    given = [draft(document, kind=kind) for kind, document in (("audit", audit), ("calibration", calibration)) if document is not None]
    return [*given, made._replace(links=tuple(Link("evidence_of", made.name, one.name) for one in given))]


# --- what only computes -------------------------------------------------------------------------------------------------------------------


def result_draft(document: Mapping[str, Any], verb: str, made_of: Iterable[str]) -> Draft:
    """What a verb said, with its schema, and links to the records that it was made of; those must be in the ledger."""
    made = draft({"schema": schema_of(verb), **document}, kind="result")
    return made._replace(links=tuple([Link("evidence_of", made.name, digest) for digest in made_of]))


# --- tool schemas -------------------------------------------------------------------------------------------------------------------------


def report_drafts(report: Mapping[str, Any], scores: Mapping[str, Any]) -> list[Draft]:
    """A report of the file protocol, after the scores it was made of."""
    evidence = draft(scores, kind="event")
    made = draft(report, kind="entry")
    return [evidence, made._replace(links=(Link("evidence_of", made.name, evidence.name),))]


def tree_drafts(tree: Tree, kind: str, name: str) -> list[Draft]:
    """Every entry of a namespace or selection, and its index as it stands, linked to them. An entry that grades again says which one it supersedes."""
    home = tree.home(kind, name)
    with tree.locked(kind, name):
        index = read_json(os.path.join(home, "index.json"), lone_surrogates=True).tree
        entries = [_entry(os.path.join(home, path)) for path in tree.entry_paths(kind, name)]
    drafts = [draft(entry, kind="entry") for entry in entries]
    of_id = {(str(entry.get("area")), str(entry.get("gradingId"))): one.name for entry, one in zip(entries, drafts, strict=True)}
    linked = [one._replace(links=_superseded(entry, one.name, of_id)) for entry, one in zip(entries, drafts, strict=True)]
    made = draft(index, kind="index")
    return [*linked, made._replace(links=tuple(Link("evidence_of", made.name, one.name) for one in drafts))]


def _entry(path: str) -> dict[str, Any]:
    with open(path, "rb") as stream:
        try:
            found = parse_json(stream.read())
        except ValueError as error:
            raise InputError("IDX-004", f"the entry cannot be read: {error}.", where=path) from None
    if not isinstance(found, dict):
        raise InputError("IDX-004", "the entry is no object.", where=path)
    return found


def _superseded(entry: Mapping[str, Any], own: str, of_id: Mapping[tuple[str, str], str]) -> tuple[Link, ...]:
    trigger = entry.get("regradingTrigger")
    before = of_id.get((str(entry.get("area")), str(trigger.get("previousGradingId")))) if isinstance(trigger, dict) else None
    return (Link("supersedes", before),) if before is not None and before != own else ()


def schema_gate_drafts(document: Mapping[str, Any], indexes: Sequence[Mapping[str, Any]]) -> list[Draft]:
    """The decision of the production gate, after the indexes it decides on."""
    given = [draft(index, kind="index") for index in indexes]
    made = draft({"schema": SCHEMA_GATE, **document}, kind="decision")
    return [*given, made._replace(links=tuple(Link("candidate_of", made.name, one.name) for one in given))]
