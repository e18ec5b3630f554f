"""Grading again: what is due after a trigger, and what can be done without asking anybody.

After a new grading system the stored answers are aggregated anew and keep the scoring version they
were made under. After a new scoring system each answer that the change touches is scored anew from
its stored evidence, or it is due; answers that the change does not touch are worth the same under
the new version. An entry is written only when nothing is due: old and new scores are never mixed.
The superseded entry stays, and the new one names it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from assay.errors import InputError
from assay.records.systems import version_key
from assay.tools.aging import age_answers
from assay.tools.entry import STRICT_HARNESS, TRIGGERS, Subject, build_entry, regrading_trigger
from assay.tools.names import AREAS, GRADINGS
from assay.tools.node import Node
from assay.tools.selection import namespaces_of, size_cap
from assay.tools.status import BLOCKED, NODE_REJECTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from assay.tools.tree import Tree


class ScoringChange(Protocol):
    """What one new version of the scoring system changed."""

    version: str

    def touches(self, answer: dict[str, Any]) -> bool:
        """Whether the same evidence may score differently now."""

    def rescore(self, answer: dict[str, Any]) -> dict[str, Any] | None:
        """The answer scored anew from its stored evidence; None where it must be asked anew."""


class Place(NamedTuple):
    """A node in a tree."""

    kind: str
    owner: str
    area: str
    names: dict[str, str]

    @property
    def label(self) -> str:
        """As progress lines name it: `area/primitive`."""
        return f"{self.area}/{self.primitive}"

    @property
    def primitive(self) -> str:
        """The thing itself: the tool, skill or schema, else the namespace or selection."""
        return next(
            (
                self.names[key]
                for key in ("tool", "skill", "schema", "selection", "namespace")
                if key in self.names
            ),
            self.owner,
        )


class Outcome(NamedTuple):
    """What became of one node."""

    place: Place
    action: str
    """`regraded`, `due`, `current`, `rejected` or `blocked`."""
    reason: str
    questions: tuple[str, ...] = ()
    path: str | None = None
    grade: str | None = None
    before: str | None = None


def places(tree: Tree, kind: str, owner: str) -> Iterator[Place]:
    """Every node of a namespace or selection that has entries."""
    seen: set[tuple[str, str]] = set()
    for relative in tree.entry_paths(kind, owner):
        folder, file = os.path.split(relative)
        area = file.partition("--")[0]
        if area not in AREAS or (folder, area) in seen:
            continue
        seen.add((folder, area))
        yield Place(kind, owner, area, _names(kind, owner, folder))


def _names(kind: str, owner: str, folder: str) -> dict[str, str]:
    parts = [part for part in folder.split(os.sep) if part != GRADINGS]
    if kind == "selections":
        return {"selection": owner, **({"skill": parts[1]} if parts[:1] == ["skills"] else {})}
    found = {"namespace": owner}
    if parts:
        found["schema"] = parts[0]
    if parts[1:2] in (["tools"], ["skills"]) and len(parts) > 2:
        found[parts[1][:-1]] = parts[2]
    return found


def regrade(
    tree: Tree,
    kind: str,
    owner: str,
    trigger: str,
    *,
    now: datetime,
    changes: Sequence[ScoringChange] = (),
    issue: str | None = None,
    requested_by: str | None = None,
    areas: Iterable[str] | None = None,
) -> list[Outcome]:
    """Grade again, as far as it goes without a grader, every node of a namespace or selection that
    the trigger concerns.
    """
    if trigger not in TRIGGERS:
        regrading_trigger(trigger, previous="-", now=now)  # refuses it with the near miss
    if trigger == "user-report" and not (issue and requested_by):
        regrading_trigger(trigger, previous="-", now=now)
    wanted = None if areas is None else set(areas)
    outcomes = []
    with tree.locked(kind, owner):
        try:
            for place in list(places(tree, kind, owner)):
                if wanted is None or place.area in wanted:
                    try:
                        outcomes.append(
                            _regrade_node(tree, place, trigger, now, changes, issue, requested_by)
                        )
                    except (
                        InputError
                        # one node that cannot be graded again does not keep the others from it
                    ) as error:
                        outcomes.append(Outcome(place, "blocked", f"{error} [{error.code}]"))
        finally:
            tree.rebuild(kind, owner)
    return outcomes


def _regrade_node(
    tree: Tree,
    place: Place,
    trigger: str,
    now: datetime,
    changes: Sequence[ScoringChange],
    issue: str | None,
    requested_by: str | None,
) -> Outcome:
    live = tree.live_hash(place.area, place.names)
    node = tree.node(place.area, place.names)
    entry = node.entry
    if node.status == BLOCKED or entry is None:
        return Outcome(place, "blocked", node.reason or "there is no full grading")
    if node.status == NODE_REJECTED:
        return Outcome(
            place,
            "rejected",
            "only a new evaluation in full lifts a veto",
            before=entry["aggregateGrade"],
        )
    if live is not None and entry["schemaHash"] != live:
        return Outcome(
            place,
            "due",
            "what was graded has changed",
            _questions(entry),
            before=entry["aggregateGrade"],
        )
    if trigger == "user-report":
        first = [
            question for question in _questions(entry) if question.lower() in str(issue).lower()
        ]
        rest = [question for question in _questions(entry) if question not in first]
        return Outcome(
            place,
            "due",
            f"reported by {requested_by}: {issue}",
            (*first, *rest),
            before=entry["aggregateGrade"],
        )
    systems = tree.systems
    answers = entry["gradings"]
    if trigger == "grading-system-bump":
        if entry["gradingSystem"] == systems.grading:
            return Outcome(
                place,
                "current",
                f"graded under {systems.grading} already",
                grade=entry["aggregateGrade"],
            )
        systems = systems._replace(scoring=entry["scoringSystem"])
        notes: list[str] = [f"aggregated anew under {systems.grading}"]
    elif trigger == "scoring-system-bump":
        if entry["scoringSystem"] == systems.scoring:
            return Outcome(
                place,
                "current",
                f"scored under {systems.scoring} already",
                grade=entry["aggregateGrade"],
            )
        answers, due = _rescored(entry, changes, systems.scoring)
        if due:
            return Outcome(
                place,
                "due",
                f"must be scored anew under {systems.scoring}",
                tuple(due),
                before=entry["aggregateGrade"],
            )
        systems = (
            systems._replace(grading=entry["gradingSystem"])
            if entry["gradingSystem"] != systems.grading
            else systems
        )
        notes = [f"scored anew under {systems.scoring}"]
    else:
        dimensions = {
            question: str(known["dimension"])
            for question, known in tree.catalogue().items()
            if "dimension" in known
        }
        answers, notes = age_answers(entry["gradings"], now, dimensions=dimensions)
        if answers == entry["gradings"]:
            return Outcome(
                place,
                "current",
                notes[0] if notes else "nothing has aged",
                grade=entry["aggregateGrade"],
            )
    return _write(
        tree,
        place,
        node,
        entry,
        answers,
        systems,
        trigger,
        now,
        "; ".join(notes),
        issue,
        requested_by,
    )


def _write(
    tree: Tree,
    place: Place,
    node: Node,
    entry: dict[str, Any],
    answers: list[dict[str, Any]],
    systems: Any,
    trigger: str,
    now: datetime,
    reason: str,
    issue: str | None,
    requested_by: str | None,
) -> Outcome:
    subject = Subject(
        entry["schemaId"],
        entry["area"],
        entry["schemaHash"],
        entry["version"],
        entry.get("aboutHash"),
        entry.get("selectionId"),
        entry.get("persona"),
        entry.get("skillId"),
    )
    if systems.grading != tree.systems.grading:
        raise InputError(
            "SCO-022",
            f"the entry was graded under {entry['gradingSystem']}, whose rules are not these.",
            fix="Run the trigger grading-system-bump first.",
        )
    linked = regrading_trigger(
        trigger, previous=entry["gradingId"], now=now, issue=issue, requested_by=requested_by
    )
    cap = None
    if place.kind == "selections":
        members = [
            str(member.get("schemaId"))
            for member in (tree.lock_of(place.owner) or {}).get("members", [])
        ]
        cap = size_cap(len(namespaces_of(members)), tree.rules)
    built = build_entry(
        subject,
        answers,
        tree.rules,
        now=now,
        harness=entry.get("harness", STRICT_HARNESS),
        trigger=linked,
        systems=systems,
        cap=cap,
    )
    path = tree.write_entry(built.entry, place.names, now=now)
    return Outcome(
        place,
        "regraded",
        reason,
        path=path,
        grade=built.entry["aggregateGrade"],
        before=entry["aggregateGrade"],
    )


def _questions(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(answer.get("questionId")) for answer in entry["gradings"]))


def _rescored(
    entry: dict[str, Any], changes: Sequence[ScoringChange], target: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """The answers under a newer scoring system, and the questions that must be asked anew. Without
    knowledge of what changed, all of them.
    """
    between = [
        change
        for change in changes
        if _newer(change.version, entry["scoringSystem"]) and not _newer(change.version, target)
    ]
    steps = sorted(between, key=lambda change: version_key(change.version))
    if not any(change.version == target for change in steps):
        return [], list(_questions(entry))
    made, due = [], []
    for answer in entry["gradings"]:
        found: dict[str, Any] | None = answer
        for change in steps:
            if found is not None and change.touches(found):
                found = change.rescore(found)
        if found is None:
            due.append(str(answer.get("questionId")))
        else:
            made.append(found)
    return made, due


def _newer(version: str, than: str) -> bool:
    return version_key(version) > version_key(than)
