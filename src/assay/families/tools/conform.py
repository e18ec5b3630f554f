"""The operations of the tool-schema vectors, each run through the function that the verbs call: no
rule is duplicated here.

A case names only what its rule looks at. The rest of a record (ids, times, answers, who graded) is
made here, always sound.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from assay.canon import time_text
from assay.errors import AssayError, InputError
from assay.families.tools import selection as sel
from assay.families.tools import status as st
from assay.families.tools.aggregate import aggregate
from assay.families.tools.aging import age_score
from assay.families.tools.answers import (
    NA_REASONS,
    TRANSPORT_DIMENSIONS,
    check_answer,
    check_na,
    check_score,
    read_answers,
    shown,
    weighted_mean,
)
from assay.families.tools.ecma import canonical_text, hash8, stringify
from assay.families.tools.entry import aggregate_partial, schema_valid, semantic_faults
from assay.families.tools.index import index_fault, member_blockers, read_member
from assay.families.tools.names import (
    FULL,
    GROUP_BOUND,
    PARTIAL,
    REJECTED,
    grading_file,
    gradings_dir,
    is_schema_id,
    latest,
    report_name,
    slug,
    stamp,
)
from assay.families.tools.node import Node, StoredEntry, judge, last_full, sequence_fault
from assay.families.tools.policy import SchemaRules, load_schema_policy
from assay.families.tools.protocol import check_scores, prompts_document, score_faults
from assay.families.tools.records import (
    GradingEntry,
    LockedMember,
    NamespaceIndex,
    RegradingTrigger,
    SelectionLock,
    document,
)
from assay.families.tools.report import grade_scores
from assay.families.tools.source import ToolSchema
from assay.families.tools.veto import TRIGGERS, check_trigger, make_veto
from assay.files.json_files import Document, parse_json
from assay.library.shelf import Shelf
from assay.records.typed import convert

Input = dict[str, Any]
Output = dict[str, Any]

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _rules() -> SchemaRules:
    return SchemaRules(Shelf().policy_of("flowmcp", "flowmcp"))


def _verdict(check: Callable[[], object]) -> Output:
    try:
        check()
    except InputError as error:
        return {"valid": False, "error": error.code, "message": error.message}
    return {"valid": True, "error": None}


def _need(given: Input, key: str) -> Any:
    if key not in given:
        raise InputError("FMC-012", f"the input has no '{key}'.")
    return given[key]


def _list(given: Input, key: str) -> list[Any]:
    items = given.get(key)
    if not isinstance(items, list):
        raise InputError("FMC-012", f"'{key}' must be a list.")
    return items


def _objects(given: Input, key: str) -> list[dict[str, Any]]:
    objects = _list(given, key)
    if not all(isinstance(item, dict) for item in objects):
        raise InputError("FMC-012", f"each of '{key}' must be an object.")
    return objects


def _weighted_sum(given: Input) -> Output:
    answers = _objects(given, "answers")
    mean = weighted_mean(
        [(answer.get("score"), answer.get("weight")) for answer in answers], _rules()
    )
    warning = f"{mean.stale} stale" if mean.stale else None
    return {
        "sum": shown(mean.total),
        "weightSum": shown(mean.weight),
        "normalizedScore": shown(mean.value),
        "warning": warning,
        "error": None,
    }


def _aggregate(given: Input) -> Output:
    scores, weights = _list(given, "scores"), given.get("weights")
    if weights is None:
        weights = [1] * len(scores)
    if not isinstance(weights, list) or len(weights) != len(scores):
        raise InputError("SCO-004", "there must be one weight for each score.")
    veto = given.get("categoricalVeto")
    aggregated = aggregate(
        list(zip(scores, weights, strict=True)),
        given.get("gradingTier"),
        _rules(),
        veto=veto
        if veto is None
        else check_trigger(veto.get("triggeredBy") if isinstance(veto, dict) else None),
    )
    return {
        "aggregateGrade": aggregated.grade,
        "rawGrade": aggregated.raw_grade,
        "status": aggregated.status,
        "normalizedScore": shown(aggregated.mean),
        "maxAttainableGrade": aggregated.max_attainable,
    }


def _veto_apply(given: Input) -> Output:
    veto = make_veto(
        given.get("triggeredBy"),
        evidence=given.get("evidence"),
        grader=given.get("graderIdentity"),
        reasoning=given.get("reasoning"),
        now=_NOW,
    )
    return {
        "aggregateGrade": aggregate([], "autonomous", _rules(), veto=veto.triggered_by).grade,
        "categoricalVeto": document(veto),
    }


_HASH, _OTHER_HASH = "00000001", "00000002"


def _answer(question: str, score: Any) -> dict[str, Any]:
    """An answer with everything that an answer must have."""
    return {
        "questionId": question,
        "score": score,
        "naReason": NA_REASONS[0] if score == "n/a" else None,
        "weight": 1,
        "determinism": "non-deterministic",
        "graderIdentity": {"kind": "human", "name": "conform", "version": "1"},
        "selectionContext": {"groupId": "g", "personaIds": ["neutral"]},
        "timestamp": time_text(_NOW),
        "evidence": "a case",
    }


def _stored(entries: list[Any], rules: SchemaRules) -> list[StoredEntry]:
    """The entries of a case as a tree keeps them, oldest first.

    A full grading after a rejection names it as the one it supersedes, as a new evaluation must.
    All are of one content, and their answers would be worth any grade.
    """
    stored: list[StoredEntry] = []
    rejected = None
    for index, item in enumerate(entries):
        entry: dict[str, Any] = item if isinstance(item, dict) else {}
        moment = _NOW + timedelta(hours=index)
        mode, grade = entry.get("gradingMode"), entry.get("aggregateGrade")
        supersedes = rejected if mode == FULL else None
        made = GradingEntry(
            grading_id=f"{_HASH}--{stamp(moment)}",
            schema_id="n.s",
            area="selection-aggregate",
            version="flowmcp/4.0.0",
            schema_hash=_HASH,
            grading_mode=mode,  # type: ignore[arg-type]
            grading_tier=GROUP_BOUND,
            harness="conform",
            scoring_system=rules.systems.scoring,
            grading_system=rules.systems.grading,
            gradings=read_answers([_answer(f"Q-{index}", 5)]),
            categorical_veto=None,
            regrading_trigger=RegradingTrigger(
                triggered_by="scheduled",
                previous_grading_id=supersedes,
                timestamp=time_text(moment),
            )
            if supersedes
            else None,
            aggregate_grade=grade,
            max_attainable_grade="A",
        )
        if mode == FULL:
            rejected = made.grading_id if grade == REJECTED else None
        stored.append(StoredEntry(made.grading_id, moment, made, None))
    return stored


def _judged(entries: list[Any], rules: SchemaRules, *, changed: bool = False) -> Node:
    """The node that the entries of a case make, under a catalogue that asks what they answer."""
    catalogue = {f"Q-{index}": {"weight": 1} for index in range(len(entries))}
    live = _OTHER_HASH if changed else _HASH
    return judge(_stored(entries, rules), live, rules, catalogue=catalogue)


def _node_status(given: Input) -> Output:
    # the sequence is not judged here
    full = [entry for entry in _objects(given, "entries") if entry.get("gradingMode") == FULL]
    changed = bool(full) and full[-1].get("schemaHashMatchesCurrent", True) is not True
    return {"status": _judged(full, _rules(), changed=changed).status}


def _eligibility(given: Input) -> Output:
    policy = _rules().policy
    stable_from = given.get("threshold", policy.stable_from)
    rules = SchemaRules(
        load_schema_policy(Document({**document(policy), "stable_from": stable_from}, "threshold"))
    )
    entries = _list(given, "entries")
    node = _judged(entries, rules)
    if not entries:
        reason = "no-gradings"
    elif node.broken:
        reason = "sequence-invalid"
    elif entries[-1]["gradingMode"] != FULL:
        reason = "last-not-full"
    else:
        reason = "ok" if node.status == st.STABLE else "below-threshold"
    return {"eligible": reason == "ok", "reason": reason, "nodeStatus": node.status}


def _sequence(given: Input) -> Output:
    entries = given.get("entries")
    if not isinstance(entries, list):
        return {"valid": False, "error": "FMC-012"}
    stored = _stored(entries, _rules())
    broken = sequence_fault((item, item.entry) for item in stored if item.entry is not None)
    return {"valid": broken is None, "error": broken.code if broken else None}


def _partial_build(given: Input) -> Output:
    base, answers = given.get("base"), given.get("answers")
    if not isinstance(base, dict):
        raise InputError("FMC-012", "'base' must be an object.")
    scores = [
        answer.get("score") if isinstance(answer, dict) else answer
        for answer in (answers if isinstance(answers, list) else [])
    ]
    st.letter_status(base.get("aggregateGrade"))
    result = aggregate_partial(
        read_answers([_answer(f"Q-{index}", score) for index, score in enumerate(scores)]),
        GROUP_BOUND,
        _rules(),
        mode=PARTIAL,
        last_full=last_full(_stored([{"gradingMode": FULL, **base}], _rules())),
    )
    return {"gradingMode": PARTIAL, "aggregateGrade": result.grade}


def _resolve(given: Input) -> Output:
    files, name = _list(given, "files"), _need(given, "logicalName")
    if not isinstance(name, str) or not all(isinstance(file, str) for file in files):
        raise InputError("FMC-012", "names must be strings.")
    found = latest(files, name)
    return {"file": found, "reason": None if found else "no-version"}


def _index_validate(given: Input) -> Output:
    fault = index_fault(given)
    return {"valid": fault is None, "error": fault.code if fault else None}


def _precondition(given: Input) -> Output:
    members = given.get("members")
    locked = [
        LockedMember(schema_id=f"n.s{index}", grading_status=status)
        for index, status in enumerate(members if isinstance(members, list) else [])
    ]
    try:
        sel.check_ready(SelectionLock(members=locked))
    except InputError as error:
        return {"passed": False, "error": error.code, "message": error.message}
    return {"passed": True, "error": None}


def _aging(given: Input) -> Output:
    score, warning = age_score(given.get("dimension"), given.get("ageDays"), given.get("score"))
    return {"score": score, "warning": warning}


def _hash8(given: Input) -> Output:
    value = _need(given, "value")
    return {"canonical": canonical_text(value), "hash8": hash8(value)}


def _schemahash(given: Input) -> Output:
    text = given.get("fileBytesUtf8")
    if not isinstance(text, str):
        raise InputError("FMC-012", "'fileBytesUtf8' must be a string.")
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("FMC-012", "half of a surrogate pair has no UTF-8 bytes.") from None
    return {"schemaHash": _schema({}, "{}", data).file_sha256}


def _schema(main: dict[str, Any], tools_text: str, source: bytes = b"") -> ToolSchema:
    return ToolSchema("flowmcp", "/s.mjs", "n", "s", main, tools_text, source)


def _prompts(given: Input) -> Output:
    schema, skill = given.get("schema"), given.get("skill")
    if not isinstance(schema, dict):
        raise InputError("FMC-002", "the schema is not an object.")
    tools = schema.get("tools")
    try:
        text = stringify({} if tools is None else tools)
    except ValueError as error:
        raise InputError("HSH-003", f"the tools cannot be written as JSON: {error}.") from None
    sentence = skill.get("whenToUse") if isinstance(skill, dict) else None
    made = prompts_document(
        _schema(schema, text), when_to_use=sentence if isinstance(sentence, str) else None
    )
    return {
        "dimensions": [prompt["dimension"] for prompt in made["prompts"]],
        "prompts": made["prompts"],
        "scoringInstructions": made["scoringInstructions"],
    }


def _consume(given: Input) -> Output:
    try:
        body, dimensions = _scores_body(given)
        scores = check_scores(body, expected_slug="n_s", dimensions=dimensions)
        passed = given.get("validationPassed") is True  # a missing validation has not passed
        verdict = grade_scores(
            [item["score"] for item in scores["scores"]], _rules(), validation_passed=passed
        )
    except AssayError as error:
        refused: Output = {"status": False, "reportWritten": False, "grade": None}
        return {**refused, "error": error.code, "message": error.message}
    return {
        "status": True,
        "grade": verdict.grade,
        "rawGrade": verdict.raw_grade,
        "score": shown(verdict.score),
        "scoringProtocol": scores["scoringProtocol"],
        "validationPassed": passed,
        "reportWritten": True,
        "error": None,
    }


def _scores_body(given: Input) -> tuple[Any, tuple[str, ...]]:
    """The scores.json of a case, and the dimensions that were asked: one for each bare number."""
    asked: tuple[str, ...] = TRANSPORT_DIMENSIONS
    if "file" in given:
        try:
            body = parse_json(str(given["file"]).encode())
        except ValueError as error:
            raise InputError("FIL-002", f"cannot be read: {error}.") from None
    elif "scoresDoc" in given:
        body = given["scoresDoc"]
    else:
        scores = given.get("scores")
        if isinstance(scores, list):
            if len(scores) != len(asked):
                asked = tuple(f"dimension {index}" for index in range(len(scores)))
            scores = [{"score": score} for score in scores]
        body = {"scoringProtocol": given.get("scoringProtocol"), "scores": scores}
    if isinstance(body, dict):
        sound = {"schemaIdSlug": "n_s", "creator": {"n": 1}, "harness": {"n": 1}}
        body = {**sound, "timestamp": time_text(_NOW), **body}
    return body, asked


def _add_answer(given: Input) -> Output:
    check_answer(given)
    return {"error": None}


def _annex(given: Input) -> Output:
    entry = given.get("entry")
    if entry is None:
        base = given.get("$base")
        if not isinstance(base, dict):
            raise InputError(
                "CNF-001", "annex-base.json is missing from the folder of the vectors."
            )
        change = given.get("change")
        if change is not None and not isinstance(change, dict):
            raise InputError("FMC-012", "'change' must be an object.")
        entry = {**base, **(change or {})}
    try:
        valid = isinstance(entry, dict) and "form" not in entry and schema_valid(entry)
    except (ValueError, UnicodeEncodeError):  # a value that JSON can't express has no form
        valid = False
    sound = valid and not semantic_faults(convert(entry, GradingEntry))
    return {"schemaValid": valid, "semanticallyValid": sound}


def _selection_validate(given: Input) -> Output:
    sound = {
        "selectionId": "s",
        "namespace": "n",
        "name": "n",
        "version": "flowmcp/4.0.0",
        "description": "long enough",
        "whenToUse": "w",
        "personaIds": ["p"],
        "members": [{"schemaId": "n.s"}],
        "skills": [],
    }
    sel.check_selection({**sound, **given})
    return {"error": None}


def _lock_build(given: Input) -> Output:
    override = given.get("override")
    member = LockedMember(schema_id="n.s", grading_status="stable", override=override)
    return {"lock": document(sel.make_lock("s", [member], version=None, selection={}, now=_NOW))}


def _index_selection(given: Input) -> Output:
    name = given.get("member")
    nowhere: dict[str, NamespaceIndex | None] = {str(name).partition(".")[0]: None}
    member = read_member("", name, nowhere, _rules())
    blockers = member_blockers({str(name): member})
    return {"status": member.status, "blocker": blockers[0].node}


def _crossref(given: Input) -> Output:
    """Each signpost (L1) names every topic (L2) as a whole word, some topic names each
    use case (L3), and nothing named is missing. No verb needs it: a tree holds the
    gradings of skills, not their texts.
    """
    signposts, topics = _need(given, "L1"), _need(given, "L2")
    cases = [str(name) for name in _list(given, "L3")]
    if not all(
        isinstance(level, dict) and all(isinstance(body, str) for body in level.values())
        for level in (signposts, topics)
    ):
        raise InputError("FMC-012", "L1 and L2 map names to texts.")

    def names(body: str, word: str) -> bool:
        return re.search(rf"(?<![A-Za-z0-9_-]){re.escape(word)}(?![A-Za-z0-9_-])", body) is not None

    bodies = [*signposts.values(), *topics.values()]
    named = {word for body in bodies for word in re.findall(r"\bl[23]-[a-z0-9-]+", body)}
    return {
        "ruleA": all(names(body, topic) for body in signposts.values() for topic in topics),
        "ruleB": all(any(names(body, case) for body in topics.values()) for case in cases),
        "dangling": sorted(named - {*topics, *cases}),
    }


OPS: dict[str, Callable[[Input], Output]] = {
    "score.validate": lambda given: _verdict(lambda: check_score(given.get("score"))),
    "score.weighted_sum": _weighted_sum,
    "na.validate": lambda given: _verdict(
        lambda: check_na(given.get("score"), given.get("naReason"))
    ),
    "grade.aggregate": _aggregate,
    "veto.apply": _veto_apply,
    "veto.triggers": lambda given: {"triggers": list(TRIGGERS)},
    "stable.eligibility": _eligibility,
    "node.status": _node_status,
    "partial.sequence": _sequence,
    "partial.build": _partial_build,
    "resolve.latest": _resolve,
    "index.node_status": lambda given: {"status": st.letter_status(given.get("aggregateGrade"))},
    "index.rollup_status": lambda given: {"status": st.rollup_status(_list(given, "nodeStatuses"))},
    "index.rollup_grade": lambda given: {"grade": st.rollup_grade(_list(given, "grades"))},
    "index.schema_status": lambda given: {
        "status": st.schema_status(_list(given, "toolStatuses"), given.get("aggregateStatus"))
    },
    "index.validate": _index_validate,
    "index.selection": _index_selection,
    "precondition": _precondition,
    "selection.size": lambda given: {
        "outcome": sel.size_outcome(given.get("distinctNamespaces"), _rules())
    },
    "selection.validate": _selection_validate,
    "skills.crossref": _crossref,
    "level.meets": lambda given: {"ok": st.meets(given.get("level"), given.get("required"))},
    "lock.build": _lock_build,
    "aging": _aging,
    "hash8": _hash8,
    "hash8.compare": lambda given: {"equal": hash8(_need(given, "a")) == hash8(_need(given, "b"))},
    "slug": lambda given: {"slug": slug(given.get("schemaId"))},
    "filename.grading": lambda given: {
        "filename": grading_file(
            given.get("area"),
            given.get("timestamp"),
            base_persona=given.get("basePersona"),
            lens=given.get("lens"),
        )
    },
    "path.gradings": lambda given: {"dir": gradings_dir(given.get("area"), given)},
    "report.schema_id": lambda given: {"valid": is_schema_id(given.get("schemaId"))},
    "report.filename": lambda given: {
        "filename": report_name(given.get("schemaId"), given.get("date"))
    },
    "report.scores_shape": lambda given: {"valid": not score_faults(given.get("scores"))},
    "schemahash.report": _schemahash,
    "prompts.build": _prompts,
    "cli.consume": _consume,
    "entry.add_answer": _add_answer,
    "annex.validate": _annex,
}
