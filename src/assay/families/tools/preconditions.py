"""Whether a node may be graded now: what a rejected node needs, what must be graded before it, and
how large a selection must be.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from assay.errors import InputError
from assay.families.tools.forms import VALIDATION_FAILED
from assay.families.tools.index import lacks_tests, namespace_index
from assay.families.tools.manifest import about_text, snapshot_of
from assay.families.tools.names import FULL, GROUP_BOUND, Area
from assay.families.tools.node import Home, last_full, read_entries
from assay.families.tools.records import SchemaNode
from assay.families.tools.rules.main_block import MIN_TESTS
from assay.families.tools.selection import (
    TAKE_LOCK,
    check_ready,
    namespaces_of,
    size_cap,
    size_outcome,
)
from assay.families.tools.status import IMPORTED, NODE_REJECTED, STABLE, STRUCTURAL_VALID, meets
from assay.families.tools.tree import Tree
from assay.files.json_files import parse_json

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
