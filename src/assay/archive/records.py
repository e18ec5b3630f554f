"""Drafts of graded exams, gates on them, judgements, audits and cards of judges, trees of tool
schemas and measures. Decisions and baselines: `sides`.

Each function returns drafts, dependencies first; none stores them.
"""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from assay.errors import InputError
from assay.exams.answers import Answer
from assay.exams.exam import Exam
from assay.files.json_files import Document, parse_json, read_json
from assay.records.tool_entry import document as document_of
from assay.records.tool_gate import SCHEMA_GATE, ToolGate
from assay.store.drafts import Draft, Link, draft

if TYPE_CHECKING:
    from assay.records.exam import ExamGate, ExamResult
    from assay.tools.gate import GateEvidence
    from assay.tools.policy import SchemaRules
    from assay.tools.tree import Tree

EXAM_EVIDENCE_SCHEMA = "assay.exam-evidence/1"
SCHEMA_SOURCE = "assay.schema-source/1"
SCHEMA_LISTS = "assay.schema-lists/1"
EXAM_ROLES = {"capstone": "candidate_of", "regression": "candidate_of", "baseline": "baseline_of"}
"""The graded exams that a gate may be given, and how each is linked to the decision."""


def exam_record(document: Mapping[str, Any]) -> dict[str, Any]:
    """A graded exam without what a command adds: its notes, what a broken step would have done, and
    the pass score it was held to.
    """
    kept = {key: value for key, value in document.items() if key not in ("broken", "pass_line")}
    return {**kept, "notes": []}


def exam_drafts(
    result: ExamResult, exam: Exam, answers: Iterable[Answer], *, author: str | None = None
) -> list[Draft]:
    """A graded exam, after the questions and the answers that it was made of."""
    listed = sorted(
        (answer._asdict() for answer in answers), key=lambda answer: str(answer["item"])
    )
    evidence = draft(
        {"schema": EXAM_EVIDENCE_SCHEMA, "exam": list(exam.files), "answers": listed},
        kind="event",
        author=author,
    )
    made = draft(
        replace(result, broken=UNSET, pass_line=UNSET, notes=[]), kind="exam", author=author
    )
    return [evidence, made.linked("evidence_of", [evidence.name])]


def exam_gate_drafts(
    gate: ExamGate, results: Mapping[str, Document | None], *, pass_score: Any = 0
) -> list[Draft]:
    """The decision of an exam gate, after the results it decides on, which `results` has by their
    role. `pass_score` is that of the regression set.

    The decision names them by digest, so that a replay knows which was which, and so that the same
    verdict on other results is another record. It names no file: the same gate is the same record
    wherever its files are.
    """
    kept = {
        role: draft(exam_record(result.tree), kind="exam")
        for role, result in results.items()
        if result is not None
    }
    evidence: dict[str, dict[str, Any] | None] = {
        role: None if result is None else {"digest": kept[role].name}
        for role, result in results.items()
    }
    if pass_score and evidence["regression"] is not None:
        evidence["regression"]["pass_score"] = pass_score
    document = to_builtins(gate, builtin_types=(Decimal,))
    decision = draft({**document, "evidence": evidence}, kind="decision")
    for role, one in kept.items():
        decision = decision.linked(EXAM_ROLES[role], [one.name])
    return [*kept.values(), decision]


def exam_baseline_drafts(record: Mapping[str, Any], result: Mapping[str, Any]) -> list[Draft]:
    """A graded exam as a baseline. Like a baseline of runs, it names its evidence by digest."""
    evidence = draft(exam_record(result), kind="exam")
    shared = {
        name: record[name]
        for name in ("schema", "name", "made_at", "runs", "samples", "fingerprint", "summary")
    }
    made = draft({**shared, "kind": "exam", "evidence_digests": [evidence.name]}, kind="baseline")
    return [evidence, made.linked("baseline_of", [evidence.name])]


# --- judges


def judgement_draft(document: Mapping[str, Any]) -> Draft:
    """A judge's verdicts, without their cost and without what came from the journal: the same
    answers are the same judgement.
    """
    verdicts = {key: value for key, value in document.items() if key != "usage"}
    return draft(_without_cached(verdicts), kind="judgement")


def _without_cached(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_cached(item) for key, item in value.items() if key != "cached"}
    return [_without_cached(item) for item in value] if isinstance(value, list | tuple) else value


def card_drafts(
    card: Mapping[str, Any],
    *,
    audit: Mapping[str, Any] | None,
    calibration: Mapping[str, Any] | None,
) -> list[Draft]:
    """The card of a judge, after the audit and the calibration it was made of."""
    drafted = draft(card, kind="card")
    evidence = [
        draft(document, kind=kind)
        for kind, document in (("audit", audit), ("calibration", calibration))
        if document is not None
    ]
    return [*evidence, drafted.linked("evidence_of", [draft.name for draft in evidence])]


# --- results of verbs that only compute (`measure`, `report`, `gate --plan`). Nothing is replayed
# from such a record: it contains what was printed, and its links name the inputs in the ledger.

_RESULT_SCHEMA = re.compile(r"assay\.([a-z]+)(?:-([a-z-]+))?/[0-9]+")
_VERBS = {
    "gate plan": "gate --plan",
    "rank": "report rank",
    "rehearsal": "rehearse",
    "summary": "report summary",
}
"""Verbs whose name differs from the schema of their result."""


def schema_of(verb: str) -> str:
    """The schema of a verb's result, for a document that doesn't name one itself.

    >>> schema_of("report rank"), schema_of("measure pass-at-k"), schema_of("gate --plan")
    ('assay.rank/1', 'assay.measure-pass-at-k/1', 'assay.gate-plan/1')
    """
    name = next((name for name, other in _VERBS.items() if other == verb), verb)
    return f"assay.{name.replace(' ', '-')}/1"


def verb_of(schema: str | None) -> str | None:
    """The verb that makes results of a schema; None for a schema that isn't Assay's.

    >>> (
    ...     verb_of("assay.measure-pass-at-k/1"),
    ...     verb_of("assay.rank/1"),
    ...     verb_of("team.rank/1"),
    ...     verb_of("assay.gate-plan/1"),
    ... )
    ('measure pass-at-k', 'report rank', None, 'gate --plan')
    """
    match = _RESULT_SCHEMA.fullmatch(schema or "")
    if match is None:
        return None
    verb = " ".join(filter(None, match.groups()))
    return _VERBS.get(verb, verb)


def result_draft(document: Mapping[str, Any], verb: str, made_of: Iterable[str]) -> Draft:
    """A verb's result with its schema, and links to the records it was made from, which must be in
    the ledger.
    """
    made = draft({"schema": schema_of(verb), **document}, kind="result")
    return made.linked("evidence_of", made_of)


# --- tool schemas


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
