"""Which profile and which rubric evidence is scored by: what a person asked for, else what the
evidence names, else what serves its family.
"""

from __future__ import annotations

from typing import NamedTuple

from assay.errors import ShelfError
from assay.files.yaml_files import is_yaml_name
from assay.library.shelf import Shelf
from assay.scoring.profile import Profile, ScoringPlan
from assay.scoring.rubric import Rubric

WORKFLOW = "the run's workflow"


class WorkflowPlan(NamedTuple):
    """How the runs of a workflow are scored."""

    profile: Profile
    plan: ScoringPlan
    rubric: Rubric | None
    """What a judge scores them by."""

    @property
    def reported(self) -> tuple[str, ...]:
        """The gates and criteria that only a verdict or a score in the run fills."""
        plan = self.plan
        gates = (one.id for one in plan.gates if one.gate is None or not one.gate.is_computed)
        return (*gates, *(one.spec.id for one in plan.criteria if one.spec.id not in plan.measured))


def select_profile(
    shelf: Shelf, asked: str | None, family: str | None, named: str | None, *, said_by: str
) -> tuple[Profile, str]:
    """The profile, and why it is that one."""
    if asked is not None:
        profile = shelf.profile(asked)
        made = profile.made_from
        return profile, "asked for with --profile" if made is None else f"made from {made}"
    if named is not None:
        return shelf.profile(shelf_name(named, "profile")), f"named by {said_by}"
    if family is not None:
        return shelf.profile_for_family(family), f"serves the workflow's family '{family}'"
    raise ShelfError(
        "SCO-010",
        "the run's workflow names no family.",
        fix="Add workflow.family, or choose a profile with --profile; `assay library list profiles`"
        " lists them.",
    )


def select_rubric(
    shelf: Shelf, asked: str | None, named: str | None, *, said_by: str
) -> tuple[Rubric | None, str]:
    """The rubric, and why it is that one; None if neither a person nor the evidence names one.

    A run's rubric is not passed here where a profile was asked for: with an explicit profile, the
    run doesn't choose the weights and floors.
    """
    if asked is not None:
        return shelf.rubric(asked), "asked for with --rubric"
    if named is not None:
        return shelf.rubric(shelf_name(named, "rubric")), f"named by {said_by}"
    return None, ""


def shelf_name(name: str, kind: str) -> str:
    """A name on the shelf. Evidence is untrusted: it may name an item there, but never a file to
    open.
    """
    if is_yaml_name(name) or "/" in name or "\\" in name or name.startswith("."):
        raise ShelfError(
            "LIB-001",
            f"a run names its {kind} by its name on the shelf, not by a path: {name!r}.",
            fix=f"Use --{kind} for a file.",
        )
    return name
