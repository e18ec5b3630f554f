"""The operations of the tool-schema vectors, each run through the code that grades: no rule is
duplicated here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from assay.errors import AssayError, InputError
from assay.files.json_files import parse_json
from assay.library.shelf import Shelf
from assay.records.tool_entry import GradingEntry, LockedMember, document
from assay.records.typed import convert
from assay.tools import selection as sel
from assay.tools import status as st
from assay.tools.aggregate import aggregate
from assay.tools.aging import age_score
from assay.tools.answers import (
    TRANSPORT_DIMENSIONS,
    check_answer,
    check_na,
    check_score,
    shown,
    weighted_mean,
)
from assay.tools.ecma import canonical_text, hash8, stringify
from assay.tools.entry import semantic_faults
from assay.tools.forms import schema_valid
from assay.tools.index_file import index_fault
from assay.tools.names import grading_file, gradings_dir, is_schema_id, latest, report_name, slug
from assay.tools.policy import SchemaRules
from assay.tools.protocol import INSTRUCTIONS, build_prompts, check_protocol, score_faults
from assay.tools.report import grade_scores
from assay.tools.veto import TRIGGERS, make_veto, trigger_of

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
    aggregated = aggregate(
        list(zip(scores, weights, strict=True)),
        given.get("gradingTier"),
        _rules(),
        veto=trigger_of(given.get("categoricalVeto")),
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


def _eligibility(given: Input) -> Output:
    threshold = given.get("threshold", st.STABLE_FROM)
    eligible, reason, status = st.stable_eligibility(_list(given, "entries"), threshold)
    return {"eligible": eligible, "reason": reason, "nodeStatus": status}


def _sequence(given: Input) -> Output:
    entries = given.get("entries")
    if not isinstance(entries, list):
        return {"valid": False, "error": "FMC-012"}
    fault = st.sequence_fault(entries)
    return {"valid": fault is None, "error": fault.code if fault else None}


def _partial_build(given: Input) -> Output:
    base = given.get("base")
    if not isinstance(base, dict) or base.get("gradingMode", "full") != "full":
        raise InputError("PRT-003", "a partial grading builds on a full one.")
    st.letter_status(base.get("aggregateGrade"))
    return {"gradingMode": "partial", "aggregateGrade": base["aggregateGrade"]}


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
    fault = st.precondition(given.get("members"))
    return {"passed": fault is None, "error": fault.code if fault else None}


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
    return {"schemaHash": "sha256:" + sha256(data).hexdigest()}


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
    prompts = build_prompts(
        schema.get("description"), text, when_to_use=sentence if isinstance(sentence, str) else None
    )
    return {
        "dimensions": [prompt["dimension"] for prompt in prompts],
        "prompts": prompts,
        "scoringInstructions": INSTRUCTIONS,
    }


def _consume(given: Input) -> Output:
    refused: Output = {"status": False, "reportWritten": False, "grade": None}
    try:
        if "file" in given:
            try:
                document = parse_json(str(given["file"]).encode())
            except ValueError as error:
                raise InputError("FIL-002", f"cannot be read: {error}.") from None
        elif "scoresDoc" in given:
            document = given["scoresDoc"]
        else:
            listed = given.get("scores")
            numbered = (
                [
                    {"dimension": name, "score": score}
                    for name, score in zip(TRANSPORT_DIMENSIONS, listed, strict=False)
                ]
                if isinstance(listed, list)
                else listed
            )
            if isinstance(listed, list) and len(listed) != len(TRANSPORT_DIMENSIONS):
                numbered = [{"dimension": "whenToUse", "score": score} for score in listed]
            document = {"scoringProtocol": given.get("scoringProtocol"), "scores": numbered}
        protocol = check_protocol(document)
        faults = score_faults(protocol.get("scores"))
        if (
            "scoresDoc" not in given
            and "file" not in given
            and isinstance(given.get("scores"), list)
            and given["scores"]
        ):
            faults = [
                fault for fault in faults if fault[0] != "PRO-004"
            ]  # bare numbers carry no dimension
        if faults:
            raise InputError(faults[0][0], faults[0][2])
        passed = given.get("validationPassed") is True  # a missing validation has not passed
        verdict = grade_scores(
            [item["score"] for item in protocol["scores"]], _rules(), validation_passed=passed
        )
    except AssayError as error:
        return {**refused, "error": error.code, "message": error.message}
    return {
        "status": True,
        "grade": verdict.grade,
        "rawGrade": verdict.raw_grade,
        "score": shown(verdict.score),
        "scoringProtocol": protocol["scoringProtocol"],
        "validationPassed": passed,
        "reportWritten": True,
        "error": None,
    }


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


def _crossref(given: Input) -> Output:
    signposts, topics = _need(given, "L1"), _need(given, "L2")
    if not all(
        isinstance(level, dict) and all(isinstance(body, str) for body in level.values())
        for level in (signposts, topics)
    ):
        raise InputError("FMC-012", "L1 and L2 map names to texts.")
    references = sel.cross_references(signposts, topics, [str(name) for name in _list(given, "L3")])
    return {
        "ruleA": references.signposts_name_all_topics,
        "ruleB": references.use_cases_are_named,
        "dangling": list(references.dangling),
    }


def _lock_build(given: Input) -> Output:
    override = given.get("override")
    member = LockedMember(schema_id="n.s", grading_status="stable", override=override)
    return {"lock": document(sel.make_lock("s", [member], version=None, selection={}, now=_NOW))}


def _index_selection(given: Input) -> Output:
    member = given.get("member")
    if not sel.is_member_id(member):
        return {"status": st.BLOCKED}
    blocker = {"blocker": f"members.{member}"} if given.get("exists") is False else {}
    return {"status": st.PENDING, **blocker}


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
    "node.status": lambda given: {"status": st.node_status(_objects(given, "entries"))},
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
