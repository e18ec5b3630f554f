"""From an evaluator's envelope to a grading entry in the tree.

An envelope answers the questions of one area; a deterministic block and a judged block of the same area become one entry. What an answer lacks (weight, grader,
time) must stand in the envelope or in a catalogue of questions: nothing is defaulted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import InputError
from assay.files import parse_json
from assay.flowmcp.answers import dimension_of
from assay.flowmcp.entry import Built, Subject, blocked_entry, build_entry, regrading_trigger
from assay.flowmcp.index import namespace_index, snapshot_of
from assay.flowmcp.names import DETERMINISTIC, FULL, GROUP_BOUND, NEUTRAL, NON_DETERMINISTIC, area_of, is_hash8, parse_iso
from assay.flowmcp.node import judge, last_full, read_entries
from assay.flowmcp.selection import check_ready, namespaces_of, size_cap, size_outcome
from assay.flowmcp.status import BLOCKED, NODE_REJECTED, STABLE
from assay.flowmcp.veto import make_veto

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from assay.flowmcp.tree import Tree

PLACE = ("namespace", "schema", "tool", "skill", "selection")


class Trigger(NamedTuple):
    """Why a node is graded again."""

    kind: str
    issue: str | None = None
    requested_by: str | None = None


def http_score(status: object) -> str:
    """The score of an HTTP answer: only 200 passes; 401 and 403 are no proof that a key would work.

    >>> http_score(200), http_score(403)
    ('pass', 'fail')
    """
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status <= 599:
        raise InputError("SCO-021", f"{status!r} is no HTTP status.")
    return "pass" if status == 200 else "fail"


def terms_score(status: object) -> str:
    """The score of a link to terms: one that does not answer says nothing about the terms, so it is stale, never fail.

    >>> terms_score(200), terms_score(404)
    ('pass', 'stale')
    """
    return "pass" if http_score(status) == "pass" else "stale"


def complete_answers(envelope: Mapping[str, Any], catalogue: Mapping[str, Any], *, area: str) -> list[dict[str, Any]]:
    """The answers of an envelope with everything an entry needs, or the first thing that is missing."""
    answers = envelope.get("answers", envelope.get("gradings"))
    if not isinstance(answers, list) or not answers or not all(isinstance(item, dict) for item in answers):
        raise InputError("FMC-012", "the envelope has no answers.", fix="No answer is n/a with its reason, never an empty list.")
    made = []
    for answer in answers:
        question = str(answer.get("questionId"))
        known = catalogue.get(question, {})
        whole = {
            "questionId": answer.get("questionId"),
            "score": answer.get("score"),
            "naReason": answer.get("naReason"),
            "weight": answer.get("weight", known.get("weight")),
            "determinism": answer.get("determinism", known.get("determinism", envelope.get("determinism"))),
            "graderIdentity": answer.get("graderIdentity", envelope.get("graderIdentity")),
            "llmModel": answer.get("llmModel", envelope.get("llmModel")),
            "selectionContext": answer.get("selectionContext", envelope.get("selectionContext")),
            "timestamp": answer.get("timestamp", envelope.get("timestamp")),
            "evidence": answer.get("evidence"),
            "reasoning": answer.get("reasoning"),
        }
        evidence = whole["evidence"]
        if isinstance(evidence, dict) and "httpStatus" in evidence:
            due = terms_score(evidence["httpStatus"]) if dimension_of(question) in ("tosMatch", "legalAssessment") else http_score(evidence["httpStatus"])
            if whole["score"] is None:
                whole["score"] = due
            elif whole["score"] == "pass" and due != "pass":
                raise InputError("SCO-021", f"{question}: HTTP {evidence['httpStatus']} is scored pass.", fix="Only 200 passes.")
        for key in ("weight", "determinism", "graderIdentity", "timestamp"):
            if whole[key] is None:
                raise InputError(
                    "FMC-012",
                    f"{question}: no {key}.",
                    fix=f"Give it in the answer, in the envelope{' or in --questions' if key in ('weight', 'determinism') else ''}; it is never guessed.",
                )
        if parse_iso(whole["timestamp"]) is None:
            raise InputError("FMC-012", f"{question}: {whole['timestamp']!r} is no time with a zone.")
        if whole["determinism"] == NON_DETERMINISTIC and whole["selectionContext"] is None and not area_of(area).persona:
            whole["selectionContext"] = {"groupId": area, "personaIds": [NEUTRAL]}
        if whole["determinism"] == DETERMINISTIC:
            whole["selectionContext"] = answer.get("selectionContext")
        made.append({key: value for key, value in whole.items() if value is not None})
    return made


def record(
    tree: Tree,
    envelopes: Sequence[Mapping[str, Any]],
    place: Mapping[str, str],
    *,
    now: datetime,
    catalogue: Mapping[str, Any] | None = None,
    mode: str = FULL,
    trigger: Trigger | None = None,
    harness: str | None = None,
) -> tuple[str, Built | None]:
    """Write one entry from the envelopes of one area, and make the indexes anew. The path of the entry, and what it came to."""
    first = envelopes[0]
    area = area_of(first.get("area"))
    if any(item.get("area") != area.name for item in envelopes):
        raise InputError("FMC-012", "the envelopes are of several areas.", fix="Record one area at a time.")
    for item in envelopes:
        _check_envelope(item, tree)
    names = {key: str(value) for key in PLACE if (value := place.get(key) or first.get(key)) is not None}
    if area.skill:
        names.setdefault("skill", str(first.get("skillId")))
    if area.tier == GROUP_BOUND:
        names.setdefault("selection", str(first.get("selectionId")))
    kind, name = ("selections", names.get("selection", "")) if area.tier == GROUP_BOUND else ("providers", names.get("namespace", ""))
    with tree.locked(kind, name):
        stored = tree.stored(area.name, names)
        live = tree.live_hash(area.name, names)
        given = next((item["schemaHash"] for item in envelopes if item.get("schemaHash") is not None), None)
        if given is not None and live is not None and given != live:
            raise InputError("PRO-006", f"the answers are about {given}, and the tree holds {live}.", fix="Grade what the tree holds now.")
        own = live or given
        if not is_hash8(own):
            raise InputError(
                "IDX-006", "the tree holds no snapshot of what is graded, and the envelope names no schemaHash.", fix="Import it first: `assay schema import`."
            )
        tail = names.get("tool") or names.get("schema") or (names.get("selection") if area.tier == GROUP_BOUND else names.get("namespace"))
        subject = Subject(
            schema_id=str(first.get("schemaId") or f"{names.get('namespace') or names.get('selection')}.{tail}"),
            area=area.name,
            schema_hash=str(own),
            version=str(first.get("version") or "unknown"),
            about_hash=first.get("aboutHash"),
            selection_id=names.get("selection") if area.tier == GROUP_BOUND else None,
            persona=first.get("persona") if isinstance(first.get("persona"), dict) else None,
            skill_id=names.get("skill") if area.skill else None,
        )
        said = harness or first.get("harness")
        if isinstance(said, dict):
            said = said.get("name")
        if not isinstance(said, str) or not said:
            raise InputError("FMC-012", "the envelope names no harness.", fix="Say what drove the evaluation: harness in the envelope, or --harness.")
        if first.get("blocker") is not None:
            entry = blocked_entry(subject, str(first["blocker"]), now=now, harness=said, systems=tree.systems, note=str(first.get("reason", "")))
            path = tree.write_entry(entry, names, now=now)
            _rebuild(tree, kind, name)
            return path, None
        veto = next((item["categoricalVeto"] for item in envelopes if item.get("categoricalVeto")), None)
        if veto is not None:
            veto = make_veto(
                veto.get("triggeredBy"), evidence=veto.get("evidence"), grader=veto.get("graderIdentity"), reasoning=veto.get("reasoning"), now=now
            )
        answers = [answer for item in envelopes for answer in complete_answers(item, catalogue or {}, area=area.name)]
        before = judge(stored, live, tree.rules)
        cap = _check_allowed(tree, area.name, area.tier, names, before.status, mode, trigger)
        previous = last_full(stored)
        linked = None
        if trigger is not None:
            if previous is None:
                raise InputError("GRD-018", "there is nothing to grade again.", fix="Leave --trigger out for a first grading.")
            superseded = before.entry if before.status == NODE_REJECTED and before.entry else previous
            linked = regrading_trigger(trigger.kind, previous=superseded["gradingId"], now=now, issue=trigger.issue, requested_by=trigger.requested_by)
        built = build_entry(
            subject,
            answers,
            tree.rules,
            now=now,
            harness=said,
            mode=mode,
            veto=veto,
            trigger=linked,
            last_full=before.entry or previous,
            systems=tree.systems,
            cap=cap,
        )
        path = tree.write_entry(built.entry, names, now=now)
        _rebuild(tree, kind, name)
    return path, built


def _check_envelope(envelope: Mapping[str, Any], tree: Tree) -> None:
    iteration = envelope.get("iteration")
    if iteration is not None and (not isinstance(iteration, int) or isinstance(iteration, bool) or not 0 <= iteration <= 10):
        raise InputError("GRD-030", f"iteration is {iteration!r}.", fix="It counts from 1 to 5; older programs wrote up to 10.")
    hints = envelope.get("improvementHints", [])
    if not isinstance(hints, list) or not all(isinstance(hint, dict) and hint.get("priority") in ("low", "medium", "high") for hint in hints):
        raise InputError("FMC-012", "improvementHints is no list of hints with the priority low, medium or high.")
    stated = envelope.get("scoringSystem")
    if stated is not None and stated != tree.systems.scoring:
        raise InputError(
            "SCO-022",
            f"the answers were scored under {stated}, and this is {tree.systems.scoring}.",
            fix="Scores of two versions are never mixed: score again.",
        )


def _check_allowed(tree: Tree, area: str, tier: str, names: Mapping[str, str], status: str, mode: str, trigger: Trigger | None) -> str | None:
    """Refuse what may not be graded now; the cap of a small selection."""
    if status == NODE_REJECTED and (mode != FULL or trigger is None):
        raise InputError(
            "FMC-015", "the node is rejected.", fix="Only a full new evaluation lifts a veto: give --mode full and --trigger; the rejected entry stays."
        )
    if tier == GROUP_BOUND:
        home = tree.home("selections", names["selection"])
        if snapshot_of(os.path.join(home, "resources", "about"), "about") is None:
            raise InputError(
                "FMC-015", "the selection has no About page, which is its domain knowledge.", fix="Declare resources.about in the selection and import it."
            )
        _check_level(tree, area, names["selection"])
        listed = [str(item) for item in _members(tree, names)]
        if size_outcome(len(namespaces_of(listed)), tree.rules) == "n/a":
            raise InputError("FMC-015", f"a selection of {len(namespaces_of(listed))} namespaces is too small to be graded.")
        check_ready(_lock(tree, names["selection"]))
        return size_cap(len(namespaces_of(listed)), tree.rules)
    if area == "single-test":
        return None
    found = namespace_index(tree.root, names["namespace"], tree.rules, systems=tree.systems)
    if area == "about-namespace":
        names = {"namespace": names["namespace"]}  # the page speaks for all schemas of the namespace
    schemas = found["schemas"] if "schema" not in names else {names["schema"]: found["schemas"].get(names["schema"], {"tools": {}, "status": BLOCKED})}
    for schema, node in schemas.items():
        rejected = [tool for tool, inner in node["tools"].items() if inner["status"] == NODE_REJECTED]
        if rejected or ("schema" not in names and node["status"] == NODE_REJECTED):
            named = f"{schema}.{rejected[0]}" if rejected else schema
            raise InputError("FMC-015", f"{named} is rejected by a veto; what depends on it is not graded.", fix="Remove it, or evaluate it anew in full.")
        if area == "about-namespace" and node["status"] != STABLE:
            raise InputError("PRE-004", f"{schema} is {node['status']}, not stable.", fix="Grade the schemas of the namespace first.")
    return None


def _check_level(tree: Tree, area: str, selection: str) -> None:
    """A topic is graded after its signposts, a use case after its topics."""
    before = {"selection-skills-L2": "selection-skills-L1", "selection-skills-L3": "selection-skills-L2"}.get(area)
    if before is None:
        return
    folder = os.path.join(tree.home("selections", selection), "skills")
    skills = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    held = [skill for skill in skills if last_full(read_entries(os.path.join(folder, skill), (before,), tree.rules, systems=tree.systems)) is not None]
    if not held:
        raise InputError("FMC-015", f"no {before} of the selection is graded yet.", fix=f"Grade the skills of {before} first.")


def _members(tree: Tree, names: Mapping[str, str]) -> list[str]:
    lock = _lock(tree, names["selection"])
    return [str(member.get("schemaId")) for member in lock.get("members", [])] if lock else []


def _lock(tree: Tree, selection: str) -> dict[str, Any] | None:
    data = tree.frozen(selection)
    return parse_json(data) if data is not None else None


def _rebuild(tree: Tree, kind: str, name: str) -> None:
    tree.rebuild(kind, name)
