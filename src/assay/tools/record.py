"""From an evaluator's envelope to a grading entry in the tree.

An envelope answers the questions of one area; a deterministic block and a judged block of the same
area become one entry. What an answer lacks (weight, grader, time) must stand in the envelope or in
a catalogue of questions: nothing is defaulted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.errors import Fault, InputError
from assay.files.json_files import parse_json
from assay.records.systems import version_key
from assay.tools.answers import EXCLUDED
from assay.tools.catalogue import QUESTIONS, answer_faults, dimension, has_evidence, joined, stated
from assay.tools.entry import Built, Subject, blocked_entry, build_entry, regrading_trigger
from assay.tools.index import MIN_TESTS, lacks_tests, namespace_index
from assay.tools.manifest import about_text, snapshot_of
from assay.tools.names import (
    DETERMINISTIC,
    FULL,
    GROUP_BOUND,
    NEUTRAL,
    NON_DETERMINISTIC,
    SKEW,
    area_of,
    iso,
    parse_iso,
    segment,
)
from assay.tools.node import Home, last_full, read_entries
from assay.tools.selection import check_ready, namespaces_of, size_cap, size_outcome
from assay.tools.status import NODE_REJECTED, STABLE
from assay.tools.veto import make_veto

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from assay.tools.tree import Tree

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
    """The score of a link to terms: one that does not answer says nothing about the terms, so it is
    stale, never fail.

    >>> terms_score(200), terms_score(404)
    ('pass', 'stale')
    """
    return "pass" if http_score(status) == "pass" else "stale"


def complete_answers(
    envelope: Mapping[str, Any],
    catalogue: Mapping[str, Any],
    *,
    area: str,
    now: datetime | None = None,
) -> list[dict[str, Any]]:
    """The answers of an envelope with everything an entry needs, or the first thing that is
    missing.
    """
    answers = envelope.get("answers", envelope.get("gradings"))
    if (
        not isinstance(answers, list)
        or not answers
        or not all(isinstance(item, dict) for item in answers)
    ):
        raise InputError(
            "FMC-012",
            "the envelope has no answers.",
            fix="No answer is n/a with its reason, never an empty list.",
        )
    made = []
    for answer in answers:
        question = str(answer.get("questionId"))
        known = catalogue.get(question, {})
        whole = {
            "questionId": answer.get("questionId"),
            "score": answer.get("score"),
            "naReason": answer.get("naReason"),
            "weight": answer.get("weight", known.get("weight")),
            "determinism": answer.get(
                "determinism", known.get("determinism", envelope.get("determinism"))
            ),
            "graderIdentity": answer.get("graderIdentity", envelope.get("graderIdentity")),
            "llmModel": answer.get("llmModel", envelope.get("llmModel")),
            "selectionContext": answer.get("selectionContext", envelope.get("selectionContext")),
            "timestamp": answer.get("timestamp", envelope.get("timestamp")),
            "evidence": answer.get("evidence"),
            "reasoning": answer.get("reasoning"),
        }
        evidence = whole["evidence"]
        if isinstance(evidence, dict) and "httpStatus" in evidence:
            due = (
                terms_score(evidence["httpStatus"])
                if dimension(question, catalogue) in ("tosMatch", "legalAssessment")
                else http_score(evidence["httpStatus"])
            )
            if whole["score"] is None:
                whole["score"] = due
            elif due != "pass" and whole["score"] not in ("fail", "stale", "n/a", 1):
                raise InputError(
                    "SCO-021",
                    f"{question}: HTTP {evidence['httpStatus']} is scored {whole['score']}.",
                    fix="Only 200 passes.",
                )
        for key in ("weight", "determinism", "graderIdentity", "timestamp"):
            if whole[key] is None:
                raise InputError(
                    "FMC-012",
                    f"{question}: no {key}.",
                    fix=(
                        "Give it in the answer, in the"
                        f" envelope{' or in --questions' if key in ('weight', 'determinism') else ''};"  # noqa: E501
                        " it is never guessed."
                    ),
                )
        moment = parse_iso(whole["timestamp"])
        if moment is None:
            raise InputError(
                "FMC-012", f"{question}: {whole['timestamp']!r} is no time with a zone."
            )
        if now is not None and moment > now + SKEW:
            raise InputError(
                "FMC-013",
                f"{question} was answered at {whole['timestamp']}, after now ({iso(now)}).",
                fix="Set the clock right, or pass --now.",
            )
        if (
            whole["determinism"] == NON_DETERMINISTIC
            and whole["selectionContext"] is None
            and not area_of(area).persona
        ):
            whole["selectionContext"] = {"groupId": area, "personaIds": [NEUTRAL]}
        if whole["determinism"] == DETERMINISTIC:
            whole["selectionContext"] = answer.get("selectionContext")
        made.append({key: value for key, value in whole.items() if value is not None})
    return made


def _agreed(values: Iterable[Any], what: str) -> Any:
    """The one value that all who say it agree on; None where nobody says it. Two answers to one
    question are refused, not chosen from.
    """
    found: list[Any] = []
    for value in values:
        if value is not None and value not in found:
            found.append(value)
    if len(found) > 1:
        raise InputError(
            "FMC-016",
            f"the {what} is {' and '.join(map(repr, found))}.",
            fix="Envelopes and options must agree.",
        )
    return found[0] if found else None


def _place(
    envelopes: Sequence[Mapping[str, Any]], given: Mapping[str, str], area: str
) -> dict[str, str]:
    """The names of the node, from the options and the envelopes, which must agree."""
    also = {"skill": "skillId", "selection": "selectionId"}
    names = {}
    for key in PLACE:
        value = _agreed(
            [
                given.get(key),
                *(item.get(key) for item in envelopes),
                *(item.get(also.get(key, key)) for item in envelopes),
            ],
            key,
        )
        if value is not None:
            names[key] = segment(value, key)
    stated = _agreed([item.get("schemaId") for item in envelopes], "schemaId")
    if stated is not None and area_of(area).tier != GROUP_BOUND and isinstance(stated, str):
        namespace, _, tail = stated.partition(".")
        for key, value in (
            ("namespace", namespace),
            ("tool", tail if area == "single-test" else None),
        ):
            if value and names.setdefault(key, segment(value, key)) != value:
                raise InputError(
                    "FMC-016",
                    f"the {key} is {names[key]!r} and the schemaId says {value!r}.",
                    fix="Envelopes and options must agree.",
                )
    needed = [part[1:-1] for part in area_of(area).folder.split("/") if part.startswith("{")]
    missing = [key for key in needed if key not in names]
    if missing:
        raise InputError(
            "FMC-012",
            f"the area {area} needs a {' and a '.join(missing)}.",
            fix=f"Give {', '.join('--' + key for key in missing)}, or say it in the envelope.",
        )
    return names


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
) -> tuple[str, dict[str, str], Built | None]:
    """Write one entry from the envelopes of one area, and make the index anew. The path of the
    entry, its place, and what it came to.
    """
    area = area_of(_agreed([item.get("area") for item in envelopes], "area"))
    for item in envelopes:
        _check_envelope(item, tree)
    names = _place(envelopes, place, area.name)
    tree.check_place(area.name, names)
    kind, owner = (
        ("selections", names["selection"])
        if area.tier == GROUP_BOUND
        else ("providers", names["namespace"])
    )
    said = _agreed([harness, *(_harness(item) for item in envelopes)], "harness")
    if not isinstance(said, str) or not said:
        raise InputError(
            "FMC-012",
            "the envelope names no harness.",
            fix="Say what drove the evaluation: harness in the envelope, or --harness.",
        )
    persona = _agreed(
        [item["persona"] for item in envelopes if isinstance(item.get("persona"), dict)], "persona"
    )
    given = _agreed([item.get("schemaHash") for item in envelopes], "schemaHash")
    blocker = _agreed([item.get("blocker") for item in envelopes], "blocker")
    vetoes = [
        item["categoricalVeto"] for item in envelopes if item.get("categoricalVeto") is not None
    ]
    if not all(isinstance(veto, dict) for veto in vetoes):
        raise InputError(
            "VET-002",
            "a veto is an object.",
            fix="Give triggeredBy, evidence, graderIdentity and, for ai-security-veto, reasoning.",
        )
    with tree.locked(kind, owner):
        stored = tree.stored(area.name, names)
        live = tree.live_hash(area.name, names)
        if live is None:
            raise InputError(
                "IDX-006",
                f"the tree holds no snapshot of {owner}.",
                where=tree.root,
                fix="Import it first: `assay tools import`.",
            )
        if given is not None and given != live:
            raise InputError(
                "PRO-006",
                f"the answers are about {given}, and the tree holds {live}.",
                fix="Grade what the tree holds now.",
            )
        subject = Subject(
            schema_id=_schema_id(area.name, names, owner),
            area=area.name,
            schema_hash=live,
            version=_version(tree, area.tier, names)
            or _agreed([item.get("version") for item in envelopes], "version")
            or "unknown",
            about_hash=_agreed([item.get("aboutHash") for item in envelopes], "aboutHash"),
            selection_id=names["selection"] if area.tier == GROUP_BOUND else None,
            persona=persona,
            skill_id=names["skill"] if area.skill else None,
        )
        if blocker is not None:
            reason = next((str(item["reason"]) for item in envelopes if item.get("reason")), "")
            entry = blocked_entry(
                subject, str(blocker), now=now, harness=said, systems=tree.systems, note=reason
            )
            path = tree.write_entry(entry, names, now=now)
            tree.rebuild(kind, owner)
            return path, names, None
        veto = None
        if vetoes:
            raised = _agreed(vetoes, "veto")
            veto = make_veto(
                raised.get("triggeredBy"),
                evidence=raised.get("evidence"),
                grader=raised.get("graderIdentity"),
                reasoning=raised.get("reasoning"),
                now=now,
            )
        questions = joined(
            tree.catalogue(), stated(catalogue or {}), os.path.join(tree.root, QUESTIONS)
        )
        answers = [
            answer
            for item in envelopes
            for answer in complete_answers(item, questions, area=area.name, now=now)
        ]
        if veto is None:
            _check_backed(answers, answer_faults(answers, area.name, questions, mode=mode))
        before = tree.node(area.name, names)
        cap = _check_allowed(tree, area.name, area.tier, names, before.status, mode, trigger)
        previous = last_full(stored)
        linked = None
        if trigger is not None:
            if before.status == NODE_REJECTED and not before.vetoes:
                raise InputError(
                    "FMC-015",
                    f"{before.reason}.",
                    fix="A veto is lifted by an entry that names it, and both stay.",
                )
            if previous is None:
                raise InputError(
                    "GRD-018",
                    "there is nothing to grade again.",
                    fix="Leave --trigger out for a first grading.",
                )
            superseded = before.vetoes[-1] if before.vetoes else previous
            linked = regrading_trigger(
                trigger.kind,
                previous=superseded["gradingId"],
                now=now,
                issue=trigger.issue,
                requested_by=trigger.requested_by,
            )
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
        tree.keep_catalogue(questions)
        tree.rebuild(kind, owner)
    return path, names, built


def _check_backed(answers: Sequence[Mapping[str, Any]], faults: list[str]) -> None:
    """Refuse answers that do not fit their questions, and scores that rest on nothing: without
    evidence the answer is n/a.
    """
    bare = [
        item
        for item in answers
        if item.get("score") not in (None, *EXCLUDED) and not has_evidence(item)
    ]
    faults = [
        *faults,
        *(f"{item['questionId']} is scored {item['score']} without evidence." for item in bare),
    ]
    if faults:
        fix = (
            "Give evidence or a reasoning, or answer n/a with its naReason."
            if faults[0].endswith("without evidence.")
            else ""
        )
        raise InputError(
            "SCO-023", faults[0], fix=fix, faults=[Fault(text, code="SCO-023") for text in faults]
        )


def _harness(envelope: Mapping[str, Any]) -> Any:
    said = envelope.get("harness")
    return said.get("name") if isinstance(said, dict) else said


def _schema_id(area: str, names: Mapping[str, str], owner: str) -> str:
    return f"{owner}.{names['tool'] if area == 'single-test' else names.get('schema', owner)}"


def _version(tree: Tree, tier: str, names: Mapping[str, str]) -> str | None:
    """The FlowMCP version of what is graded, as its manifest has it; of a whole namespace the
    highest.
    """
    if tier == GROUP_BOUND:
        return None
    found = tree.manifests(names["namespace"])
    one = found.get(names["schema"]) if "schema" in names else None
    if one is not None:
        return one.version
    stated = sorted(
        (
            manifest.version
            for manifest in found.values()
            if manifest and manifest.version != "unknown"
        ),
        key=version_key,
    )
    return stated[-1] if stated else None


def _check_envelope(envelope: Mapping[str, Any], tree: Tree) -> None:
    iteration = envelope.get("iteration")
    if iteration is not None and (
        not isinstance(iteration, int) or isinstance(iteration, bool) or not 0 <= iteration <= 10
    ):
        raise InputError(
            "GRD-030",
            f"iteration is {iteration!r}.",
            fix="It counts from 1 to 5; older programs wrote up to 10.",
        )
    hints = envelope.get("improvementHints", [])
    if not isinstance(hints, list) or not all(
        isinstance(hint, dict) and hint.get("priority") in ("low", "medium", "high")
        for hint in hints
    ):
        raise InputError(
            "FMC-012", "improvementHints is no list of hints with the priority low, medium or high."
        )
    stated = envelope.get("scoringSystem")
    if stated is not None and stated != tree.systems.scoring:
        raise InputError(
            "SCO-022",
            f"the answers were scored under {stated}, and this is {tree.systems.scoring}.",
            fix="Scores of two versions are never mixed: score again.",
        )


def _check_allowed(
    tree: Tree,
    area: str,
    tier: str,
    names: Mapping[str, str],
    status: str,
    mode: str,
    trigger: Trigger | None,
) -> str | None:
    """Refuse what may not be graded now; the cap of a small selection."""
    if status == NODE_REJECTED and (mode != FULL or trigger is None):
        raise InputError(
            "FMC-015",
            "the node is rejected.",
            fix=(
                "Only a full new evaluation lifts a veto: give --mode full and --trigger; the"
                " rejected entry stays."
            ),
        )
    if tier == GROUP_BOUND:
        home = tree.home("selections", names["selection"])
        if not _declares_about(home):
            raise InputError(
                "FMC-015",
                "the selection has no About page, which is its domain knowledge.",
                fix="Declare resources.about in the selection and import it.",
            )
        _check_level(tree, area, names["selection"])
        lock = tree.lock_of(names["selection"])
        check_ready(lock)
        listed = [str(member.get("schemaId")) for member in (lock or {}).get("members", [])]
        if size_outcome(len(namespaces_of(listed)), tree.rules) == "n/a":
            raise InputError(
                "FMC-015",
                f"a selection of {len(namespaces_of(listed))} namespaces is too small to be"
                " graded.",
            )
        return size_cap(len(namespaces_of(listed)), tree.rules)
    if mode == FULL and area == "single-test":
        manifest = tree.manifests(names["namespace"]).get(names["schema"])
        if manifest is not None and lacks_tests(manifest, names["tool"]):
            raise InputError(
                "FMC-015",
                f"the tool has fewer than {MIN_TESTS} tests.",
                fix="Add tests and import it again; or record a partial grading.",
            )
    found = namespace_index(tree.root, names["namespace"], tree.rules, systems=tree.systems)
    own = (
        f"{names['schema']}.{names['tool']}"
        if area == "single-test"
        else names.get("schema")
        if area == "tools-aggregate-schema"
        else None
    )
    for schema, node in found["schemas"].items():
        if (
            area in ("single-test", "tools-aggregate-schema", "namespace-skills")
            and schema != names["schema"]
        ):
            continue
        rejected = [
            f"{schema}.{tool}"
            for tool, inner in node["tools"].items()
            if inner["status"] == NODE_REJECTED
        ]
        rejected += [schema] if node["toolsAggregate"]["status"] == NODE_REJECTED else []
        others = [name for name in rejected if name != own]
        if others:
            raise InputError(
                "FMC-015",
                f"{others[0]} is rejected by a veto; what depends on it is not graded.",
                fix="Remove it, or evaluate it anew in full.",
            )
        if area in ("about-namespace",) and node["status"] != STABLE:
            raise InputError(
                "PRE-004",
                f"{schema} is {node['status']}, not stable.",
                fix="Grade the schemas of the namespace first.",
            )
        if area in _WHOLE and node["toolsAggregate"].get("reason") == "validation-failed":
            raise InputError(
                "PRE-004",
                f"{schema} does not pass its validation.",
                fix="Mend and import it first, or remove it.",
            )
    return None


_WHOLE = ("tools-aggregate-namespace", "namespace-description", "namespace-skills")
"""The areas that speak for schemas that must be sound before."""


def _declares_about(home: str) -> bool:
    """Whether the newest version of a selection has an About page."""
    snapshot = snapshot_of(home, "selection")
    if snapshot is None:
        return False
    with open(os.path.join(home, snapshot.file), "rb") as stream:
        return about_text(parse_json(stream.read())) is not None


def _check_level(tree: Tree, area: str, selection: str) -> None:
    """A topic is graded after its signposts, a use case after its topics."""
    before = {
        "selection-skills-L2": "selection-skills-L1",
        "selection-skills-L3": "selection-skills-L2",
    }.get(area)
    if before is None:
        return
    folder = os.path.join(tree.home("selections", selection), "skills")
    skills = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    homes = [
        Home(os.path.join(folder, skill), (before,), selection=selection, skill=skill)
        for skill in skills
    ]
    held = [
        home
        for home in homes
        if last_full(read_entries(home, tree.rules, systems=tree.systems)) is not None
    ]
    if not held:
        raise InputError(
            "FMC-015",
            f"no {before} of the selection is graded yet.",
            fix=f"Grade the skills of {before} first.",
        )
