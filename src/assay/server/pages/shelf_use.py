"""Where an item of the library came from, and what used it recently."""

from __future__ import annotations

from typing import Any

from assay.archive.workflows import LOOKED_AT, evaluations_graded_by
from assay.library.lock import BUILTIN
from assay.library.shelf import ShelfFile
from assay.records.evaluation import Evaluation
from assay.scoring.gates import REQUIRED
from assay.scoring.profile import Profile
from assay.server.state import Services
from assay.store.reading import GradedBy
from assay.views.blocks import Column, Section, Table, section
from assay.views.evaluations import versioned
from assay.views.pieces import absent, address, clip, link, listed, moment, number, verdict

SHOWN = 10
COLUMNS = ("Evaluation", "Workflow", Column("Pass rate", "n"), "Started")


def origin_of(services: Services, entry: ShelfFile) -> str:
    """Who made a file of the shelf, and whether it can still change."""
    if entry.root == BUILTIN:
        return verdict("passed", "shipped")
    if entry.key in services.shelf.lock(entry.root).published:
        return verdict("passed", "your own, published")
    return verdict("undetermined", "your own, may still change")


def origin_of_name(name: str) -> str:
    """The origin of a gate, measure or formula: the name of one from a plugin begins with its
    package.
    """
    package, dot, _ = name.partition(".")
    return f"plugin {package}" if dot else "shipped"


def used_by(services: Services, project: str, entry: ShelfFile) -> Section:
    """The last evaluations whose grades were made with an item."""
    shelf = services.shelf

    def matches(graded: GradedBy, evaluation: Evaluation) -> bool:
        if entry.kind == "policies":
            return graded.policy == entry.id
        if entry.kind == "profiles":
            return graded.profile == entry.id
        return _rubric_of(services, graded.profile, evaluation.settings.get("rubric")) == entry.id

    known = {evaluation.id for evaluation in shelf.entries(entry.kind)}
    evaluations = (
        evaluations_graded_by(services.ledger, project, matches) if entry.id in known else []
    )
    rows = [
        [
            link(clip(evaluation.name, 80), address("evaluations", evaluation.id)),
            clip(versioned(evaluation.workflow), 80),
            number(
                evaluation.totals.pass_rate.value,
                interval=evaluation.totals.pass_rate,
                percent=True,
            )
            if evaluation.totals.ungraded < evaluation.totals.n
            else absent("not graded"),
            moment(evaluation.started),
        ]
        for evaluation in [stored.evaluation for stored in evaluations[:SHOWN]]
    ]
    return section(
        "Used by",
        Table(
            "Evaluations that used it",
            COLUMNS,
            rows,
            kind="stack",
            absent=f"None of the last {LOOKED_AT} evaluations was graded with it.",
        ),
        id="used",
        hint=f"Of the last {LOOKED_AT} evaluations of this project, the newest first."
        if rows
        else "",
    )


def _rubric_of(services: Services, profile: str | None, named: Any) -> str | None:
    """The rubric of an evaluation: the one that it names, else that of its profile."""
    names = {entry.id for entry in services.shelf.entries("profiles")}
    loaded: Profile | None = (
        services.shelf.load("profiles", profile)
        if profile is not None and profile in names
        else None
    )
    wanted = named if isinstance(named, str) else getattr(loaded, "rubric", None)
    known = {
        name for rubric in services.shelf.entries("rubrics") for name in (rubric.id, rubric.name)
    }
    return services.shelf.find("rubrics", wanted).id if wanted in known else None


def profiles_with(services: Services, kind: str, name: str) -> str:
    """The profiles that use a gate, a measure or a formula, as links."""
    if kind == "gates" and name in REQUIRED:
        return "every profile"
    links = []
    for entry in services.shelf.entries("profiles"):
        profile: Profile = services.shelf.load("profiles", entry)
        used: dict[str, set[str | None]] = {
            "gates": {ref.id for ref in profile.gates},
            "measures": {item.measure for item in profile.criteria},
            "formulas": {item.formula for item in profile.criteria},
        }
        if name in used[kind]:
            links.append(link(entry.id, address("library", "profiles", entry.id)))
    return listed(links) if links else absent("no profile in this library")
