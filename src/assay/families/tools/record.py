"""From an evaluator's envelope to a grading entry in the tree.

A deterministic block and a judged block of the same area become one entry. Reading the envelope:
`envelope`. Whether a node may be graded now: `preconditions`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from assay.errors import Fault, InputError
from assay.families.tools.aggregate import Aggregate
from assay.families.tools.answers import EXCLUDED, read_answers
from assay.families.tools.catalogue import (
    QUESTIONS,
    answer_faults,
    given_catalogue,
    has_evidence,
    joined,
)
from assay.families.tools.entry import (
    EntrySubject,
    Trigger,
    blocked_entry,
    build_entry,
    regrading_trigger,
)
from assay.families.tools.envelope import (
    agreed_value,
    check_envelope,
    complete_answers,
    harness_of,
    persona_of,
    place_of,
)
from assay.families.tools.names import FULL, GROUP_BOUND, Area, area_of
from assay.families.tools.node import last_full
from assay.families.tools.preconditions import check_allowed
from assay.families.tools.records import GradedAnswer, GradingEntry
from assay.families.tools.status import NODE_REJECTED
from assay.families.tools.tree import Tree, owner_of
from assay.families.tools.veto import make_veto
from assay.records.systems import version_key

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
