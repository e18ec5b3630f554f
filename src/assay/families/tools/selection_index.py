"""The index of a selection: its members as their own namespaces have them now, its About page, its
skills and the grading of the whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from assay.families.tools.ecma import hash8
from assay.families.tools.index import IndexBuilder, SeenNode, namespace_index, visible_folders
from assay.families.tools.manifest import snapshot_of
from assay.families.tools.names import REJECTED
from assay.families.tools.node import Home
from assay.families.tools.policy import SchemaRules, better
from assay.families.tools.records import Blocker, MemberNode, NamespaceIndex, SelectionIndex
from assay.families.tools.selection import is_member_id, member_ids, namespaces_of, size_outcome
from assay.families.tools.status import BLOCKED, PENDING, STABLE
from assay.files.json_files import parse_json


def selection_index(
    root: str,
    selection_id: str,
    rules: SchemaRules,
    *,
    namespaces: dict[str, NamespaceIndex | None] | None = None,
) -> SelectionIndex:
    """The index of a selection: its members as they are now in their own namespaces, its About
    page, its skills and the grading of the whole.
    """
    home = os.path.join(root, "selections", selection_id)
    build = IndexBuilder(root, home, rules)
    snapshot = snapshot_of(home, "selection")
    definition: Any = {}
    live = None
    if snapshot is not None:
        build.moments.append(snapshot.moment)
        try:
            with open(os.path.join(home, snapshot.file), "rb") as stream:
                definition = parse_json(stream.read())
            live = hash8(definition)
            fault = f"was changed: its hash is {live}" if live != snapshot.hash8 else ""
        except (OSError, ValueError) as error:
            fault = f"cannot be read: {error}"
        if fault:
            build.blockers.append(
                Blocker(node="selection", reason=f"{snapshot.file} {fault}", broken=True)
            )
            build.statuses.append(BLOCKED)
    listed = member_ids(definition) if isinstance(definition, dict) else []
    known = {} if namespaces is None else namespaces
    members = {member: read_member(root, member, known, rules) for member in listed}
    build.statuses.extend(member.status for member in members.values())
    build.blockers.extend(member_blockers(members))

    def read(folder: str, *areas: str, skill: str | None = None) -> SeenNode:
        place = Home(os.path.join(home, folder), areas, selection=selection_id, skill=skill)
        return build.read(place, live)

    about = read(os.path.join("resources", "about"), "about-selection")
    whole = read("", "selection-aggregate")
    count = len(namespaces_of(listed))
    size = size_outcome(count, rules)
    too_small = _too_small(count, size, whole.shown.grade, rules)
    if too_small is not None:
        whole = build.block(whole, too_small, live)
    levels = ("selection-skills-L1", "selection-skills-L2", "selection-skills-L3")
    skills = {
        skill: build.take(
            f"skills.{skill}", read(os.path.join("skills", skill), *levels, skill=skill)
        )
        for skill in visible_folders(home, "skills")
    }
    build.take("about", about)
    build.take("selectionAggregate", whole)
    build.grades = [whole.shown.grade] if whole.shown.grade else []
    summary = {
        "members": len(members),
        "membersStable": sum(member.status == STABLE for member in members.values()),
        "about": about.node.status,
        "skills": len(skills),
        "skillsStable": sum(node.status == STABLE for node in skills.values()),
        "namespaces": count,
        "size": size,
    }
    head = build.head(summary)
    head["grade"] = head["grade"] or ("n/a" if size == "n/a" else None)
    return SelectionIndex(
        **head,
        selection_id=selection_id,
        about=about.shown,
        selection_aggregate=whole.shown,
        skills=skills,
        members=members,
    )


def _too_small(count: int, size: str, grade: str | None, rules: SchemaRules) -> str | None:
    """Why a selection of that many namespaces cannot have its grade."""
    sizes = rules.policy.selection
    if size == "n/a":
        return (
            f"{count} namespaces are fewer than {sizes.graded_from}: a selection of this size has"
            " no grade"
        )
    if (
        count < sizes.uncapped_from
        and grade not in (None, REJECTED)
        and better(str(grade), sizes.capped_at)
    ):
        return (
            f"{count} namespaces are fewer than {sizes.uncapped_from}: a selection of this size"
            f" cannot be {grade}"
        )
    return None


def member_blockers(members: Mapping[str, MemberNode]) -> list[Blocker]:
    """The members that keep their selection from being graded."""
    return [
        Blocker(node=f"members.{name}", reason=member.reason or "not graded yet")
        for name, member in members.items()
        if member.status in (BLOCKED, PENDING)
    ]


def read_member(
    root: str, member: object, known: dict[str, NamespaceIndex | None], rules: SchemaRules
) -> MemberNode:
    """A member as the index of its namespace has it; `known` are the indexes read so far."""
    if not is_member_id(member):
        return MemberNode(
            status=BLOCKED,
            resolved_artifact=None,
            reason=f"{member!r} is not of the form <namespace>.<schema>",
        )
    namespace, _, schema = str(member).partition(".")
    if namespace not in known:
        there = os.path.isdir(os.path.join(root, "providers", namespace))
        known[namespace] = namespace_index(root, namespace, rules) if there else None
    index = known[namespace]
    node = index.schemas.get(schema) if index else None
    if node is None:
        return MemberNode(status=PENDING, resolved_artifact=None, reason="not imported")
    home, ref = f"providers/{namespace}", node.tools_aggregate.ref
    return MemberNode(
        status=node.status,
        resolved_artifact=f"{home}/{schema}/{node.snapshot.file}" if node.snapshot else None,
        grade=node.grade,
        reason=node.reason,
        changed=node.changed,
        ref=f"{home}/{ref}" if ref else None,
    )
