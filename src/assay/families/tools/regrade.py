"""Grading again: what is due after a trigger, and what can be done without asking anybody.

After a new grading system the stored answers are aggregated again and keep the scoring version they
were made under. After a new scoring system every answer is due: old and new scores are never mixed.
The superseded entry stays, and the new one names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from assay.errors import InputError
from assay.families.tools.aggregate import latest_answers
from assay.families.tools.aging import age_answers, stale_answers
from assay.families.tools.entry import (
    EntrySubject,
    Trigger,
    build_entry,
    read_form,
    regrading_trigger,
)
from assay.families.tools.index import nodes_of
from assay.families.tools.names import AREAS, GRADINGS
from assay.families.tools.records import (
    GradedAnswer,
    GradingEntry,
    IndexNode,
    NamespaceIndex,
    document,
)
from assay.families.tools.selection import namespaces_of, size_cap
from assay.families.tools.status import BLOCKED, NODE_REJECTED, STABLE
from assay.families.tools.tree import Tree
from assay.files.json_files import parse_json
from assay.records.systems import Systems


class NodePlace(NamedTuple):
    """A node in a tree."""

    kind: str
    owner: str
    area: str
    names: dict[str, str]

    @property
    def label(self) -> str:
        """As progress lines name it: `area/primitive`."""
        return f"{self.area}/{primitive(self.names)}"


def primitive(names: dict[str, str]) -> str:
    """The thing itself: the tool, skill or schema, else the namespace or selection."""
    order = ("tool", "skill", "schema", "selection", "namespace")
    return next(names[key] for key in order if key in names)


class RegradeOutcome(NamedTuple):
    """What became of one node."""

    place: NodePlace
    action: str
    """`regraded`, `due`, `current`, `rejected` or `blocked`."""
    reason: str
    questions: tuple[str, ...] = ()
    path: str | None = None
    grade: str | None = None
    before: str | None = None


def places(tree: Tree, kind: str, owner: str) -> Iterator[NodePlace]:
    """Every node of a namespace or selection that has entries."""
    nodes = dict.fromkeys(
        (os.path.dirname(path), os.path.basename(path).partition("--")[0])
        for path in tree.entry_paths(kind, owner)
    )
    for folder, area in nodes:
        if area in AREAS:
            yield NodePlace(kind, owner, area, _names(kind, owner, folder))


def _names(kind: str, owner: str, folder: str) -> dict[str, str]:
    parts = [part for part in folder.split(os.sep) if part != GRADINGS]
    if kind == "selections":
        return {"selection": owner, **({"skill": parts[1]} if parts[:1] == ["skills"] else {})}
    names = {"namespace": owner}
    if parts:
        names["schema"] = parts[0]
    if parts[1:2] in (["tools"], ["skills"]) and len(parts) > 2:
        names[parts[1][:-1]] = parts[2]
    return names


def regrade(
    tree: Tree,
    kind: str,
    owner: str,
    trigger: str,
    *,
    now: datetime,
    issue: str | None = None,
    requested_by: str | None = None,
) -> list[RegradeOutcome]:
    """Grade again, as far as it goes without a grader, every node of a namespace or selection that
    the trigger concerns.
    """
    why = Trigger(trigger, issue, requested_by)
    regrading_trigger(
        why, previous="-", now=now
    )  # refuses an incomplete trigger before anything is read
    outcomes = []
    with tree.locked(kind, owner):
        try:
            for place in list(places(tree, kind, owner)):
                try:
                    outcomes.append(_regrade_node(tree, place, why, now))
                except InputError as error:
                    # one node that cannot be graded again does not keep the others from it
                    outcomes.append(RegradeOutcome(place, "blocked", f"{error} [{error.code}]"))
        finally:
            tree.rebuild(kind, owner)
    return outcomes


def _regrade_node(tree: Tree, place: NodePlace, trigger: Trigger, now: datetime) -> RegradeOutcome:
    node = tree.node(place.area, place.names)
    entry = node.entry
    if node.status == BLOCKED or entry is None:
        return RegradeOutcome(place, "blocked", node.reason or "there is no full grading")

    def outcome(action: str, reason: str, questions: Iterable[str] = ()) -> RegradeOutcome:
        if action == "current":
            return RegradeOutcome(place, action, reason, grade=entry.aggregate_grade)
        return RegradeOutcome(place, action, reason, tuple(questions), before=entry.aggregate_grade)

    questions = tuple(dict.fromkeys(answer.question_id for answer in entry.gradings))
    if node.status == NODE_REJECTED:
        return outcome("rejected", "only a new evaluation in full lifts a veto")
    if tree.live_hash(place.area, place.names) not in (None, entry.schema_hash):
        return outcome("due", "what was graded has changed", questions)
    if trigger.kind == "user-report":
        named = [
            question for question in questions if question.lower() in str(trigger.issue).lower()
        ]
        reason = f"reported by {trigger.requested_by}: {trigger.issue}"
        return outcome("due", reason, dict.fromkeys((*named, *questions)))
    systems, answers = tree.rules.systems, entry.gradings
    if trigger.kind == "grading-system-bump":
        if entry.grading_system == systems.grading:
            return outcome("current", f"graded under {systems.grading} already")
        systems = systems._replace(scoring=entry.scoring_system)
        notes = [f"aggregated again under {systems.grading}"]
    elif trigger.kind == "scoring-system-bump":
        if entry.scoring_system == systems.scoring:
            return outcome("current", f"scored under {systems.scoring} already")
        return outcome("due", f"must be scored again under {systems.scoring}", questions)
    else:
        answers, notes = age_answers(entry.gradings, now, dimensions=_dimensions(tree))
        if answers == entry.gradings:
            return outcome("current", notes[0] if notes else "nothing has aged")
    path, grade = _write(tree, place, entry, answers, systems, trigger, now)
    return RegradeOutcome(
        place, "regraded", "; ".join(notes), path=path, grade=grade, before=entry.aggregate_grade
    )


def _dimensions(tree: Tree) -> dict[str, str]:
    """What each question of a tree's catalogue asks about, where the catalogue has it."""
    return {
        question: str(known["dimension"])
        for question, known in tree.catalogue().items()
        if "dimension" in known
    }


def stale_nodes(tree: Tree, index: NamespaceIndex, *, now: datetime) -> dict[str, list[str]]:
    """The stale answers that each stable node of a namespace rests on, by the node's path."""
    home, dimensions = tree.home("providers", index.namespace), _dimensions(tree)
    stale_by_path = {}
    for path, node in nodes_of(index):
        if isinstance(node, IndexNode) and node.status == STABLE and node.ref is not None:
            with open(os.path.join(home, *node.ref.split("/")), "rb") as stream:
                entry = read_form(parse_json(stream.read()))
            answers = latest_answers(entry.gradings) if entry else []
            if stale := stale_answers(answers, now, dimensions=dimensions):
                stale_by_path[path] = stale
    return stale_by_path


def _write(
    tree: Tree,
    place: NodePlace,
    entry: GradingEntry,
    answers: Sequence[GradedAnswer],
    systems: Systems,
    trigger: Trigger,
    now: datetime,
) -> tuple[str, str | None]:
    cap = None
    if place.kind == "selections":
        lock = tree.lock_of(place.owner)
        members = [member.schema_id for member in lock.members] if lock else []
        cap = size_cap(len(namespaces_of(members)), tree.rules)
    subject = EntrySubject(
        entry.schema_id,
        entry.area,
        entry.schema_hash,
        entry.version,
        entry.about_hash,
        entry.selection_id,
        entry.persona,
        entry.skill_id,
    )
    made, _ = build_entry(
        subject,
        document(answers),
        tree.rules.under(systems),
        now=now,
        harness=entry.harness,
        trigger=regrading_trigger(trigger, previous=entry.grading_id, now=now),
        cap=cap,
    )
    return tree.write_entry(made, place.names, now=now), made.aggregate_grade
