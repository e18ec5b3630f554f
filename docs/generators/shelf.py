"""The profiles, policies and rubrics that ship with Assay, with every number in them."""

from __future__ import annotations

from typing import Any

import yaml

from assay.library.shelf import Shelf, ShelfFile, version_key
from generators import release_costs
from generators.markdown import block, code, page, table

_KEYS = ("profile", "policy", "rubric_id", "version", "title", "family", "description")


def pages() -> dict[str, str]:
    """The pages of profiles, policies and rubrics."""
    shelf = Shelf()
    return {
        "profiles.md": _page(
            shelf,
            "profiles",
            "Profiles",
            "A profile defines how runs of a workflow family are scored: the gates it adds to the"
            " five that every run must pass, and its criteria with their weights. A run's"
            " `workflow.family` selects the profile of that family; `--profile` overrides"
            " it. Released versions never change. [Write a profile](../how-to/write-a-profile.md)"
            " explains how to make your own; [Formulas, gates and measures](sheets.md) describes"
            " the parts.",
            _profile,
        ),
        "policies.md": _page(
            shelf,
            "policies",
            "Policies",
            "A policy defines how scores become letters, or when a candidate may replace a"
            " baseline. Released versions never change; `assay library show policy NAME` prints"
            " one.",
            _policy,
        ),
        "rubrics.md": _page(
            shelf,
            "rubrics",
            "Rubrics",
            "A rubric is what a judge or a person looks for: the definition of each"
            " criterion, its scale, and a text for each score.",
            _rubric,
        ),
    }


def _page(shelf: Shelf, kind: str, title: str, intro: str, shown: Any) -> str:
    entries = sorted(
        shelf.entries(kind), key=lambda entry: (entry.name, version_key(entry.version))
    )
    trees = {entry.id: yaml.safe_load(shelf.read(entry.path)) for entry in entries}
    index = [(f"[`{name}`](#{_anchor(name)})", tree["title"]) for name, tree in trees.items()]
    parts = [intro, table((kind[:-1] if kind != "policies" else "policy", "title"), index)]
    for entry in entries:
        parts += [f"## {entry.id}", *_about(entry, trees[entry.id])]
        parts += shown(trees[entry.id])
    return page(title, *parts)


def _anchor(name: str) -> str:
    return name.replace("@", "").replace(".", "")


def _about(entry: ShelfFile, tree: dict[str, Any]) -> list[str]:
    with open(entry.path, encoding="utf-8") as stream:
        head = [line[1:].strip() for line in stream if line.startswith("#")]
    return [f"{tree['title']}.", str(tree.get("description", "")) or " ".join(head)]


def _profile(tree: dict[str, Any]) -> list[str]:
    facts = [f"Family `{tree['family']}`"]
    facts += [f"alias `{tree['alias']}`"] if "alias" in tree else []
    if "rubric" in tree:
        facts.append(f"rubric [`{tree['rubric']}`](rubrics.md#{_anchor(tree['rubric'])})")
    facts += [f"scoring system {tree['scoring_system']}"] if "scoring_system" in tree else []
    gates = [
        (_linked(gate["id"]), _params(gate.get("params")))
        for gate in (one if isinstance(one, dict) else {"id": one} for one in tree["gates"])
    ]
    criteria = [
        (
            f"`{one['id']}`: {one['label']}",
            one["weight"],
            one["layer"],
            _linked(one["formula"]) + _params(one.get("params"), before=" "),
            (_linked(one["measure"]) + _params(one.get("measure_params"), before=" "))
            if "measure" in one
            else "a judge, person or script",
            "; ".join(
                f"{name.replace('critical_', '')} {_short(one[name])}"
                for name in ("role", "critical_floor", "floor_override")
                if name in one
            ),
        )
        for one in tree["criteria"]
    ]
    head = ("criterion", "weight", "layer", "formula", "score from", "role and floor")
    return [
        f"{', '.join(facts)}.",
        table(("gate besides the required ones", "parameters"), gates),
        table(head, criteria),
    ]


def _linked(name: str) -> str:
    return f"[`{name}`](sheets.md#{name})"


def _params(params: dict[str, Any] | None, *, before: str = "") -> str:
    listed = ", ".join(f"`{name}` {value}" for name, value in (params or {}).items())
    return f"{before}{listed}" if listed else ""


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_short(item)}" for name, item in value.items())
    return str(value)


def _policy(tree: dict[str, Any]) -> list[str]:
    facts = [
        f"Family `{tree['family']}`",
        f"grading system {tree['grading_system']}",
        *([f"passing score {tree['pass_threshold']}"] if "pass_threshold" in tree else []),
    ]
    parts = [f"{', '.join(facts)}."]
    if "bands" in tree:
        rows = [(one["grade"], one["min"]) for one in tree["bands"]]
        parts.append(table(("letter", "from"), rows))
    if "role_floors" in tree:
        parts += [
            f"A missed floor caps the grade at {tree['floor_cap']} and fails the run.",
            table(("role", "floor (norm)"), [(code(k), v) for k, v in tree["role_floors"].items()]),
        ]
    hidden = (*_KEYS, "bands", "role_floors", "floor_cap", "pass_threshold", "grading_system")
    rest = {key: value for key, value in tree.items() if key not in hidden}
    if rest:
        parts.append(block(yaml.safe_dump(rest, sort_keys=False, width=76), "yaml"))
    if tree["family"] == "release":
        name = f"{tree['policy']}@{tree['version']}"
        parts += release_costs.section(Shelf().policy_of("release", name))
    return parts


def _rubric(tree: dict[str, Any]) -> list[str]:
    if "axes" in tree:
        rows = [
            (code(name), axis["weight"], axis.get("definition", ""))
            for name, axis in tree["axes"].items()
        ]
        return [table(("axis", "weight", "definition"), rows)]
    parts = []
    for one in tree["criteria"]:
        anchors = one.get("anchors") or {}
        scale = one.get("scale")
        parts += [
            f"**`{one['name']}`**: {one['definition']}"
            + (f" Scale {scale}." if scale else "")
            + (f" Weight {one['weight']}." if "weight" in one else ""),
            table(("score", "means"), anchors.items()),
        ]
    return parts
