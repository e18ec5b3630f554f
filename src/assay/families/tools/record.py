"""From an evaluator's envelope to a grading entry in the tree.

A deterministic block and a judged block of the same area become one entry, if the node may be
graded now: what a rejected node needs, what must be graded before it, how large a selection must
be. What an answer lacks (weight, grader, time) must be in the envelope or in a catalogue of
questions: nothing is defaulted. Several envelopes must agree.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from assay.canon import time_of, time_text
from assay.errors import Fault, InputError
from assay.families.tools.aggregate import Aggregate
from assay.families.tools.answers import EXCLUDED, http_score, read_answers, terms_score
from assay.families.tools.catalogue import (
    QUESTIONS,
    TERMS,
    answer_faults,
    dimension,
    given_catalogue,
    has_evidence,
    joined,
    refuse_slips,
)
from assay.families.tools.entry import (
    VALIDATION_FAILED,
    EntrySubject,
    Trigger,
    blocked_entry,
    build_entry,
    regrading_trigger,
)
from assay.families.tools.index import lacks_tests, namespace_index
from assay.families.tools.manifest import about_text, snapshot_of
from assay.families.tools.names import (
    BASE_PERSONAS,
    DETERMINISTIC,
    FULL,
    GROUP_BOUND,
    NEUTRAL,
    NON_DETERMINISTIC,
    SKEW,
    Area,
    area_of,
    segment,
)
from assay.families.tools.node import Home, last_full, read_entries
from assay.families.tools.records import GradedAnswer, GradingEntry, Persona, SchemaNode
from assay.families.tools.selection import (
    TAKE_LOCK,
    check_ready,
    namespaces_of,
    size_cap,
    size_outcome,
)
from assay.families.tools.status import IMPORTED, NODE_REJECTED, STABLE, STRUCTURAL_VALID, meets
from assay.families.tools.tree import Tree, owner_of
from assay.families.tools.validation import MIN_TESTS
from assay.families.tools.veto import make_veto
from assay.files.json_files import parse_json
from assay.records.systems import Systems, version_key
from assay.records.typed import convert

_GRADED = ("answers", "gradings", "categoricalVeto")


def _version(tree: Tree, area: Area, names: Mapping[str, str]) -> str | None:
    """The FlowMCP version of what is graded, as its manifest has it; of a whole namespace the
    highest.
    """
    if area.tier == GROUP_BOUND:
        return None
    manifests = tree.manifests(names["namespace"])
    own = manifests.get(names.get("schema", ""))
    if own is not None:
        return own.version
    versions = {item.version for item in manifests.values() if item} - {"unknown"}
    return max(versions, key=version_key, default=None)


def _check_backed(answers: Sequence[GradedAnswer], faults: list[str]) -> None:
    """Refuse answers that do not fit their questions, and scores that rest on nothing: without
    evidence the answer is n/a.
    """
    bare = [
        f"{answer.question_id} is scored {answer.score} without evidence."
        for answer in answers
        if answer.score not in EXCLUDED and not has_evidence(answer)
    ]
    if faults or bare:
        fix = "" if faults else "Give evidence or a reasoning, or answer n/a with its naReason."
        listed = [Fault(text, code="SCO-023") for text in (*faults, *bare)]
        raise InputError("SCO-023", listed[0].message, fix=fix, faults=listed)


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
) -> tuple[str, dict[str, str], Aggregate | None]:
    """Write one entry from the envelopes of one area, and rebuild the index. The path of the
    entry, its place, and what it came to.
    """

    def agreed(key: str) -> Any:
        return agreed_value([item.get(key) for item in envelopes], key)

    area = area_of(agreed("area"))
    for item in envelopes:
        check_envelope(item, tree.rules.systems)
    names = place_of(envelopes, place, area)
    tree.check_place(area.name, names)
    kind, owner = owner_of(area.name, names)
    driver, persona = harness_of(envelopes, harness), persona_of(envelopes)
    hash8, blocker, raised = agreed("schemaHash"), agreed("blocker"), agreed("categoricalVeto")
    lost = [key for item in envelopes for key in _GRADED if item.get(key) is not None]
    if blocker is not None and lost:
        raise InputError(
            "FMC-016",
            f"there is a blocker, and {lost[0]} too.",
            fix="Give the blocker alone: a blocked node has neither answers nor a veto.",
        )
    if raised is not None and not isinstance(raised, dict):
        raise InputError(
            "VET-002",
            "a veto is an object.",
            fix="Give triggeredBy, evidence, graderIdentity and, for ai-security-veto, reasoning.",
        )
    with tree.locked(kind, owner):
        live = tree.live_hash(area.name, names)
        if live is None:
            raise InputError(
                "IDX-006",
                f"the tree has no snapshot of {owner}.",
                where=tree.root,
                fix="Import it first: `assay tools import`.",
            )
        if hash8 not in (None, live):
            raise InputError(
                "PRO-006",
                f"the answers are about {hash8}, and the tree contains {live}.",
                fix="Grade what is in the tree now.",
            )
        single = area.name == "single-test"
        subject = EntrySubject(
            f"{owner}.{names['tool'] if single else names.get('schema', owner)}",
            area.name,
            live,
            _version(tree, area, names) or agreed("version") or "unknown",
            about_hash=agreed("aboutHash"),
            selection_id=names["selection"] if area.tier == GROUP_BOUND else None,
            persona=persona,
            skill_id=names["skill"] if area.skill else None,
        )
        result = None
        if blocker is not None:
            reason = next((str(item["reason"]) for item in envelopes if item.get("reason")), "")
            entry = blocked_entry(
                subject,
                str(blocker),
                now=now,
                harness=driver,
                systems=tree.rules.systems,
                note=reason,
            )
        else:
            questions = joined(
                tree.catalogue(),
                given_catalogue(catalogue or {}),
                os.path.join(tree.root, QUESTIONS),
            )
            entry, result = _build(
                tree, subject, area, names, envelopes, raised, questions, driver, mode, trigger, now
            )
        path = tree.write_entry(entry, names, now=now)
        if result is not None:
            tree.keep_catalogue(questions)
        tree.rebuild(kind, owner)
    return path, names, result


def _build(
    tree: Tree,
    subject: EntrySubject,
    area: Area,
    names: dict[str, str],
    envelopes: Sequence[Mapping[str, Any]],
    raised: dict[str, Any] | None,
    questions: dict[str, dict[str, Any]],
    harness: str,
    mode: str,
    trigger: Trigger | None,
    now: datetime,
) -> tuple[GradingEntry, Aggregate]:
    veto = None
    if raised is not None:
        veto = make_veto(
            raised.get("triggeredBy"),
            evidence=raised.get("evidence"),
            grader=raised.get("graderIdentity"),
            reasoning=raised.get("reasoning"),
            now=now,
        )
    given = [
        answer
        for item in envelopes
        for answer in complete_answers(item, questions, area=area.name, now=now)
    ]
    if veto is None:
        answers = read_answers(given)
        _check_backed(answers, answer_faults(answers, area.name, questions, mode=mode))
    before = tree.node(area.name, names)
    cap = None
    if veto is None:  # a veto waits for nothing
        cap = check_allowed(tree, area, names, before.status, mode=mode, again=trigger is not None)
    previous = last_full(tree.stored(area.name, names))
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
        linked = regrading_trigger(
            trigger,
            previous=(before.vetoes[-1] if before.vetoes else previous).grading_id,
            now=now,
        )
    return build_entry(
        subject,
        given,
        tree.rules,
        now=now,
        harness=harness,
        mode=mode,
        veto=veto,
        trigger=linked,
        last_full=before.entry or previous,
        cap=cap,
    )


# --- whether a node may be graded now

_LEVEL_BEFORE = {
    "selection-skills-L2": "selection-skills-L1",
    "selection-skills-L3": "selection-skills-L2",
}
"""A topic is graded after its signposts, a use case after its topics."""
_NEEDED = {
    "about-namespace": STABLE,
    "tools-aggregate-schema": STRUCTURAL_VALID,
    "tools-aggregate-namespace": STRUCTURAL_VALID,
    "namespace-description": STRUCTURAL_VALID,
    "namespace-skills": STRUCTURAL_VALID,
}
"""How ready the schemas must be that an area speaks for."""
_OF_SCHEMA = ("single-test", "tools-aggregate-schema", "namespace-skills")


def check_allowed(
    tree: Tree, area: Area, names: Mapping[str, str], status: str, *, mode: str, again: bool
) -> str | None:
    """Refuse what may not be graded now; the cap of a small selection. `again` says that a trigger
    is given.
    """
    if status == NODE_REJECTED and (mode != FULL or not again):
        raise InputError(
            "FMC-015",
            "the node is rejected.",
            fix=(
                "Only a full new evaluation lifts a veto: give --mode full and --trigger; the"
                " rejected entry stays."
            ),
        )
    if area.tier == GROUP_BOUND:
        return _check_selection(tree, area, names["selection"])
    if mode == FULL and area.name == "single-test":
        manifest = tree.manifests(names["namespace"]).get(names["schema"])
        if manifest is not None and lacks_tests(manifest, names["tool"]):
            raise InputError(
                "FMC-015",
                f"the tool has fewer than {MIN_TESTS} tests.",
                fix="Add tests and import it again; or record a partial grading.",
            )
    _check_namespace(tree, area.name, names)
    return None


def _check_namespace(tree: Tree, area: str, names: Mapping[str, str]) -> None:
    """Refuse to grade what depends on something rejected, or on schemas that are not ready."""
    own = {
        "single-test": f"{names.get('schema')}.{names.get('tool')}",
        "tools-aggregate-schema": names.get("schema"),
    }.get(area)
    index = namespace_index(tree.root, names["namespace"], tree.rules)
    for schema, node in index.schemas.items():
        if area in _OF_SCHEMA and schema != names["schema"]:
            continue
        parts = {f"{schema}.{tool}": inner for tool, inner in node.tools.items()}
        for name, part in {**parts, schema: node.tools_aggregate}.items():
            if part.status == NODE_REJECTED and name != own:
                raise InputError(
                    "FMC-015",
                    f"{name} is rejected by a veto; what depends on it is not graded.",
                    fix="Remove it, or evaluate it again in full.",
                )
        needed = _NEEDED.get(area)
        if needed is None or meets(_readiness(node), needed):
            continue
        if needed == STABLE:
            raise InputError(
                "PRE-004",
                f"{schema} is {node.status}, not stable.",
                fix="Grade the schemas of the namespace first.",
            )
        raise InputError(
            "PRE-004",
            f"{schema} does not pass its validation.",
            fix=(
                "Fix and import it first, or remove it. If it passes by now, grade it:"
                " `assay tools grade PATH --consume-scores FILE --data DIR`."
            ),
        )


def _readiness(node: SchemaNode) -> str:
    """How far a schema has come."""
    if node.status == STABLE:
        return STABLE
    return (
        IMPORTED if node.tools_aggregate.blocked_reason == VALIDATION_FAILED else STRUCTURAL_VALID
    )


def _check_selection(tree: Tree, area: Area, selection: str) -> str | None:
    """Refuse to grade a selection that is not ready; the cap of a small one."""
    home = tree.home("selections", selection)
    snapshot = snapshot_of(home, "selection")
    about = None
    if snapshot is not None:
        with open(os.path.join(home, snapshot.file), "rb") as stream:
            about = about_text(parse_json(stream.read()))
    if about is None:
        raise InputError(
            "FMC-015",
            "the selection has no About page, which is its domain knowledge.",
            fix="Declare resources.about in the selection and import it.",
        )
    before = _LEVEL_BEFORE.get(area.name)
    if before is not None and not _graded_skill(tree, home, selection, before):
        raise InputError(
            "FMC-015",
            f"no {before} of the selection is graded yet.",
            fix=f"Grade the skills of {before} first.",
        )
    lock = tree.lock_of(selection)
    count = len(namespaces_of(check_ready(lock)))
    if snapshot is not None and lock is not None and lock.selection_hash != snapshot.hash8:
        raise InputError(
            "PRE-004", "the lock is of another version of the selection.", fix=TAKE_LOCK
        )
    if size_outcome(count, tree.rules) == "n/a":
        raise InputError("FMC-015", f"a selection of {count} namespaces is too small to be graded.")
    return size_cap(count, tree.rules)


def _graded_skill(tree: Tree, home: str, selection: str, level: str) -> bool:
    """Whether any skill of a level has a full grading."""
    folder = os.path.join(home, "skills")
    return any(
        last_full(
            read_entries(
                Home(os.path.join(folder, skill), (level,), selection=selection, skill=skill),
                tree.rules,
            )
        )
        for skill in (sorted(os.listdir(folder)) if os.path.isdir(folder) else ())
    )


# --- what an evaluator submits

PLACE = ("namespace", "schema", "tool", "skill", "selection")
_BINDING = ("categoricalVeto", "schemaHash", "scoringSystem", "answers", "gradings", "blocker")
"""Keys of an envelope that must not get lost by a slip of the pen."""
_AGREE = "Envelopes and options must agree."


# --- its answers


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
    answers = agreed_value((envelope.get(key) for key in ("answers", "gradings")), "answers")
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
    return [_complete(answer, envelope, catalogue, area_of(area), now) for answer in answers]


def _complete(
    answer: Mapping[str, Any],
    envelope: Mapping[str, Any],
    catalogue: Mapping[str, Any],
    area: Area,
    now: datetime | None,
) -> dict[str, Any]:
    question = str(answer.get("questionId"))
    if answer.get("isVeto") or answer.get("categoricalVeto"):
        # Other programs mark a veto so and leave the answer out of the mean. Read as a plain score,
        # the veto would be lost.
        raise InputError(
            "VET-002",
            f"{question} is marked as a veto, and an answer is not a veto.",
            fix="Give `categoricalVeto` next to the answers, with its evidence.",
        )
    known = catalogue.get(question, {})
    shared = ("graderIdentity", "llmModel", "selectionContext", "timestamp")
    whole = {
        **{key: answer.get(key) for key in ("questionId", "score", "naReason")},
        "weight": answer.get("weight", known.get("weight")),
        "determinism": answer.get(
            "determinism", known.get("determinism", envelope.get("determinism"))
        ),
        **{key: answer.get(key, envelope.get(key)) for key in shared},
        **{key: answer.get(key) for key in ("evidence", "reasoning")},
    }
    evidence = whole["evidence"]
    if isinstance(evidence, dict) and "httpStatus" in evidence:
        of_terms = dimension(question, catalogue) in TERMS
        due = (terms_score if of_terms else http_score)(evidence["httpStatus"])
        if whole["score"] is None:
            whole["score"] = due
        elif due != "pass" and whole["score"] not in ("fail", due, 1):
            raise InputError(
                "SCO-021",
                f"{question}: HTTP {evidence['httpStatus']} is scored {whole['score']}.",
                fix=f"Only 200 passes. Score it {due}, or leave out the score.",
            )
    for key in ("weight", "determinism", "graderIdentity", "timestamp"):
        if whole[key] is None:
            options = " or in --questions" if key in ("weight", "determinism") else ""
            raise InputError(
                "FMC-012",
                f"{question}: no {key}.",
                fix=f"Give it in the answer, in the envelope{options}; it is never guessed.",
            )
    moment = time_of(whole["timestamp"])
    if moment is None:
        raise InputError(
            "FMC-012", f"{question}: {whole['timestamp']!r} is not a time with a zone."
        )
    if now is not None and moment > now + SKEW:
        raise InputError(
            "FMC-013",
            f"{question} was answered at {whole['timestamp']}, in the future (now:"
            f" {time_text(now)}).",
            fix="Correct the clock, or pass --now.",
        )
    if whole["determinism"] == DETERMINISTIC:
        whole["selectionContext"] = answer.get("selectionContext")
    elif (
        whole["determinism"] == NON_DETERMINISTIC
        and whole["selectionContext"] is None
        and not area.persona
    ):
        whole["selectionContext"] = {"groupId": area.name, "personaIds": [NEUTRAL]}
    elif (
        area.persona
        and isinstance(whole["selectionContext"], dict)
        and whole["selectionContext"].get("personaIds") == [NEUTRAL]
    ):
        raise InputError(
            "GRD-005",
            f"{question} answers for the persona {NEUTRAL}, and {area.name} is bound to a persona.",
            fix=f"Name one of {', '.join(BASE_PERSONAS)} in selectionContext.personaIds.",
        )
    return {key: value for key, value in whole.items() if value is not None}


# --- the envelope


def agreed_value(values: Iterable[Any], what: str) -> Any:
    """The one value that all who give it agree on; None if nobody gives it. Two answers to one
    question are refused, not chosen from.
    """
    given: list[Any] = []
    for value in values:
        if value is not None and value not in given:
            given.append(value)
    if len(given) > 1:
        raise InputError("FMC-016", f"the {what} is {' and '.join(map(repr, given))}.", fix=_AGREE)
    return given[0] if given else None


def place_of(
    envelopes: Sequence[Mapping[str, Any]], given: Mapping[str, str], area: Area
) -> dict[str, str]:
    """The names of the node, from the options and the envelopes, which must agree."""
    also = {"skill": "skillId", "selection": "selectionId"}
    names = {}
    for key in PLACE:
        spellings = {key, also.get(key, key)}
        value = agreed_value(
            [given.get(key), *(item.get(name) for name in spellings for item in envelopes)], key
        )
        if value is not None:
            names[key] = segment(value, key)
    schema_id = agreed_value([item.get("schemaId") for item in envelopes], "schemaId")
    if area.tier != GROUP_BOUND and isinstance(schema_id, str):
        namespace, _, tail = schema_id.partition(".")
        for key, value in (
            ("namespace", namespace),
            ("tool", tail if area.name == "single-test" else None),
        ):
            if value and names.setdefault(key, segment(value, key)) != value:
                raise InputError(
                    "FMC-016",
                    f"the {key} is {names[key]!r} and the schemaId says {value!r}.",
                    fix=_AGREE,
                )
    needed = [part[1:-1] for part in area.folder.split("/") if part.startswith("{")]
    missing = [key for key in needed if key not in names]
    if missing:
        raise InputError(
            "FMC-012",
            f"the area {area.name} needs a {' and a '.join(missing)}.",
            fix=f"Give {', '.join('--' + key for key in missing)}, or name it in the envelope.",
        )
    return names


def check_envelope(envelope: Mapping[str, Any], systems: Systems) -> None:
    """Refuse an envelope with a misspelt key, a wrong count, wrong hints, or scores of another
    version.
    """
    given = [key for key, value in envelope.items() if value not in (None, [], {}, "")]
    refuse_slips(given, _BINDING, "the envelope")
    iteration = envelope.get("iteration", 0)
    if (
        not isinstance(iteration, int | None)
        or isinstance(iteration, bool)
        or not 0 <= (iteration or 0) <= 10
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
            "FMC-012",
            "improvementHints must be a list of hints with the priority low, medium or high.",
        )
    if envelope.get("scoringSystem") not in (None, systems.scoring):
        raise InputError(
            "SCO-022",
            f"the answers were scored under {envelope['scoringSystem']}, and this is"
            f" {systems.scoring}.",
            fix="Scores of two versions are never mixed: score again.",
        )


def persona_of(envelopes: Sequence[Mapping[str, Any]]) -> Persona | None:
    """The persona that the envelopes name."""
    given = [item["persona"] for item in envelopes if isinstance(item.get("persona"), dict)]
    persona = agreed_value(given, "persona")
    try:
        return None if persona is None else convert(persona, Persona)
    except msgspec.ValidationError as error:
        raise InputError("GRD-020", f"persona: {error}.") from None


def harness_of(envelopes: Sequence[Mapping[str, Any]], given: str | None) -> str:
    """What drove the evaluation."""
    stated = [item.get("harness") for item in envelopes]
    names = [item.get("name") if isinstance(item, dict) else item for item in stated]
    harness = agreed_value([given, *names], "harness")
    if not isinstance(harness, str) or not harness:
        raise InputError(
            "FMC-012",
            "the envelope names no harness.",
            fix="Name what drove the evaluation: harness in the envelope, or --harness.",
        )
    return harness
