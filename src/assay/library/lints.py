"""Finds the anti-patterns of the scoring guide, section 14, in profiles, policies and rubrics.

A lint reads the file as it is written, so it also checks files that don't load. It names the
pattern, the place, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import UNSET

from assay import exact
from assay.canon import digest
from assay.errors import Fault, ShelfError
from assay.files.json_files import Document, Path
from assay.library.lock import BUILTIN
from assay.library.shelf import Shelf
from assay.records.scorecard import ROLES
from assay.scoring.gates import GATES, REQUIRED
from assay.scoring.sources import criterion_sources, without_source

_OVERLAP = re.compile(
    r"(?<![a-z])(bleu|rouge|meteor|chrf|ter|bertscore)(?![a-z])|(text|token|word|n-?gram)["
    r" _-]?(overlap|similarity)",
    re.IGNORECASE,
)
_ANY = {"*", "any", "all", "default", "generic", "general", "universal", "everything"}


class Lint(NamedTuple):
    """An anti-pattern and where it is."""

    pattern: str
    path: Path
    message: str
    fix: str


def lint(kind: str, document: Document, shelf: Shelf) -> list[Fault]:
    """The anti-patterns of one shelf file."""
    tree = document.tree
    if not isinstance(tree, dict):
        return []
    lints = (
        list(_profile(tree, shelf))
        if kind == "profiles"
        else list(_rubric(tree))
        if kind == "rubrics"
        else list(_policy(tree))
    )
    return [
        document.fault(f"[{item.pattern}] {item.message}", item.path, code="LIB-004", fix=item.fix)
        for item in lints
    ]


def _dicts(value: Any) -> list[tuple[int, dict[str, Any]]]:
    """The objects of a list whose `id` is a text or absent; the others are malformed, and the
    loader reports them.
    """
    listed = value if isinstance(value, list) else []
    return [
        (index, item)
        for index, item in enumerate(listed)
        if isinstance(item, dict) and isinstance(item.get("id", ""), str)
    ]


def _profile(tree: dict[str, Any], shelf: Shelf) -> Iterator[Lint]:
    criteria = _dicts(tree.get("criteria"))
    gates = _dicts(tree.get("gates"))
    yield from _one_score(tree, criteria)
    for index, gate in gates:
        if "weight" in gate:
            yield Lint(
                "score-over-gate",
                ("gates", index, "weight"),
                "a gate with a weight can be outweighed.",
                "Remove the weight; a gate is passed or not.",
            )
        if gate.get("id") in REQUIRED and gate.get("verdict"):
            yield Lint(
                (
                    "no-compatibility-guard"
                    if gate["id"] == "dataset_workflow_compatible"
                    else "score-over-gate"
                ),
                ("gates", index, "verdict"),
                f"'{gate['id']}' relies on the run's own claim.",
                "Remove the entry: every profile computes this gate from the evidence.",
            )
    for index, item in criteria:
        if item.get("id") in GATES:
            yield Lint(
                "score-over-gate",
                ("criteria", index, "id"),
                f"'{item['id']}' is a gate but is weighted like a score.",
                "Name it under `gates`.",
            )
    quality = [item for _, item in criteria if item.get("layer") != 3]
    if quality and all(_is_overlap(item) for item in quality):
        yield Lint(
            "overlap-only",
            ("criteria",),
            "word overlap with a reference is the only signal of quality.",
            "Add a criterion that tests or judges the answer itself.",
        )
    judge = tree.get("judge") if isinstance(tree.get("judge"), dict) else {}
    assert isinstance(judge, dict)
    if any(item.get("layer") == 2 for _, item in criteria) and judge.get("calibration") not in (
        "required",
        "by_policy",
    ):
        yield Lint(
            "uncalibrated-judge",
            ("criteria",),
            "a judge scores here, but no setting requires that it agrees with people.",
            "Add `judge: {calibration: required}`, so that no score passes a floor without a card"
            " for its judge; `by_policy` leaves that to the policy's terms.",
        )
    if (
        any(item.get("formula") == "pairwise" for _, item in criteria)
        and judge.get("order") != "both"
    ):
        yield Lint(
            "order-bias",
            ("criteria",),
            "pairs are judged here, but nothing requires both orders.",
            "Add `judge: {order: both}`, and no such score passes a floor unless it says how often"
            " the two orders disagreed.",
        )
    yield from _weights(criteria)
    yield from _rubric_agrees(tree, criteria, shelf)


def _one_score(tree: dict[str, Any], criteria: list[tuple[int, dict[str, Any]]]) -> Iterator[Lint]:
    if str(tree.get("family", "")).lower() in _ANY:
        yield Lint(
            "one-score-for-all",
            ("family",),
            f"the family '{tree['family']}' covers every kind of workflow.",
            "Write one profile for each family.",
        )
    if len(criteria) == 1:
        yield Lint(
            "one-score-for-all",
            ("criteria",),
            "a single criterion is the whole score.",
            "Split it into parts that can be measured separately.",
        )


def _is_overlap(item: dict[str, Any]) -> bool:
    return any(
        _OVERLAP.search(str(item.get(key, ""))) for key in ("id", "name", "label", "measure")
    )


def _weights(criteria: list[tuple[int, dict[str, Any]]]) -> Iterator[Lint]:
    for index, item in criteria:
        # a floor counts even without a weight
        has_floor = item.get("role") in ROLES or item.get("critical_floor") is not None
        if (
            exact.is_number(item.get("weight"))
            and exact.ratio(item["weight"]).num == 0
            and not has_floor
        ):
            yield Lint(
                "no-weight",
                ("criteria", index, "weight"),
                "a weight of 0 counts for nothing.",
                "Give it a weight or a floor, or make it a gate.",
            )


def _rubric_agrees(
    tree: dict[str, Any], criteria: list[tuple[int, dict[str, Any]]], shelf: Shelf
) -> Iterator[Lint]:
    if tree.get("rubric") is None:
        return
    try:
        rubric = shelf.rubric(str(tree["rubric"]))
    except ShelfError as error:
        yield Lint("rubric-unknown", ("rubric",), error.message, error.fix)
        return
    own = {item.get("id"): (index, item) for index, item in criteria}
    for criterion in rubric.criteria:
        index, item = own.get(criterion.name, (None, None))
        if item is None or index is None:
            yield Lint(
                "rubric-disagrees",
                ("rubric",),
                f"{rubric.id} has the criterion '{criterion.name}', but this profile doesn't.",
                "Change one of them.",
            )
        elif item.get("formula") != criterion.formula_id:
            yield Lint(
                "rubric-disagrees",
                ("criteria", index, "formula"),
                f"{rubric.id} scores it by {criterion.formula_id}.",
                "Change one of them.",
            )
        elif not exact.is_number(item.get("weight")) or exact.ratio(item["weight"]) != exact.ratio(
            criterion.weight
        ):
            yield Lint(
                "rubric-disagrees",
                ("criteria", index, "weight"),
                f"{rubric.id} gives it the weight {criterion.weight}.",
                "Change one of them.",
            )


def _rubric(tree: dict[str, Any]) -> Iterator[Lint]:
    criteria = _dicts(tree.get("criteria"))
    if criteria and all(_is_overlap(item) for _, item in criteria):
        yield Lint(
            "overlap-only",
            ("criteria",),
            "word overlap with a reference is the only signal of quality.",
            "Add a criterion that judges the answer itself.",
        )
    yield from _weights(criteria)


def _policy(tree: dict[str, Any]) -> Iterator[Lint]:
    if exact.is_number(tree.get("pass_threshold")) and exact.ratio(tree["pass_threshold"]).num == 0:
        yield Lint(
            "score-over-gate",
            ("pass_threshold",),
            "a threshold of 0 lets every score pass.",
            "Set the lowest score that passes.",
        )
    judge = tree.get("judge")
    gate = judge.get("gate") if isinstance(judge, dict) else None
    if isinstance(gate, dict):
        for pattern, names, idle in (
            ("uncalibrated-judge", ("min_labels", "min_kappa"), 0),
            ("order-bias", ("max_inconsistency", "max_position_bias"), 1),
        ):
            for name in names:
                if exact.is_number(gate.get(name)) and exact.ratio(gate[name]) == exact.ratio(idle):
                    yield Lint(
                        pattern,
                        ("judge", "gate", name),
                        f"a limit of {idle} lets every judge gate.",
                        "Set what a judge must reach.",
                    )
    roles = tree.get("role_floors")
    if isinstance(roles, dict) and "correctness" not in roles:
        yield Lint(
            "no-floor",
            ("role_floors",),
            "no floor guards correctness, so other criteria can make up for a wrong answer.",
            "Add `correctness`.",
        )


_NOT_RULES = (
    "policy",
    "profile",
    "rubric_id",
    "version",
    "title",
    "description",
    "alias",
    "grading_system",
    "scoring_system",
)


def clashes(shelf: Shelf) -> list[Fault]:
    """Published items of one family that state one version of their system and have different
    rules: their results could not be told apart.
    """
    seen: dict[tuple[str, str, str], tuple[str, str]] = {}
    faults = []
    for key in sorted(shelf.lock(BUILTIN).published):
        kind, _, name = key.partition("/")
        record = shelf.load(kind, name)
        system = "scoring_system" if kind != "policies" else "grading_system"
        version = getattr(record, system, None)
        if version is None:
            continue
        rules = digest(
            {
                field: getattr(record, field)
                for field in record.__struct_fields__
                if field not in _NOT_RULES and getattr(record, field) is not UNSET
            }
        )
        other, same = seen.setdefault((kind, record.family, version), (key, rules))
        if same != rules:
            message = (
                f"states {system} {version}, as {other} does, and has other rules: results under"
                " the two could not be told apart."
            )
            faults.append(
                Fault(
                    message,
                    code="LIB-003",
                    file=key,
                    fix="State a version that no other published file of the family has.",
                )
            )
    return faults


def sourceless(shelf: Shelf) -> list[Fault]:
    """Criteria and gates of the newest shipped profiles that no run of our own runner can fill: a
    workflow scored by such a profile could never reach its full score, or never pass.

    A profile that doesn't mention judges must do without one.
    """
    faults = []
    for name in dict.fromkeys(entry.name for entry in shelf.entries("profiles")):
        entry = shelf.find("profiles", name)
        if entry.root != BUILTIN:
            continue
        profile = shelf.profile(entry.id)
        rubric = shelf.rubric(profile.rubric) if profile.rubric is not None else None
        sources = criterion_sources(profile, judge=profile.judge is not None, rubric=rubric)
        faults += [
            Fault(
                f"[no-source] {source.of} {source.id} has no source: {source.lacks}.",
                code="LIB-004",
                file=entry.path,
                fix="Name a measure, or a rubric that has it.",
            )
            for source in without_source(sources)
        ]
    return faults
