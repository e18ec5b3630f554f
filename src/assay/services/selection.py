"""Select the profile and the rubric that evidence is scored by: the user's choice, else the one
that the evidence names, else the one for its family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from assay.errors import ShelfError
from assay.files.yaml_files import is_yaml_name
from assay.library.shelf import Shelf

if TYPE_CHECKING:
    from assay.scoring.profile import Profile, ProfileCriterion, ScoringPlan
    from assay.scoring.rubric import Rubric


WORKFLOW = "the run's workflow"


class WorkflowPlan(Struct, frozen=True):
    """How the runs of a workflow are scored."""

    profile: Profile
    plan: ScoringPlan
    rubric: Rubric | None
    """The rubric that a judge scores them by."""

    @property
    def criteria(self) -> tuple[ProfileCriterion, ...]:
        """The criteria of the profile, with the scales that a rubric gives them."""
        return tuple(item.spec for item in self.plan.criteria)

    @property
    def reported(self) -> tuple[str, ...]:
        """The gates and criteria that Assay can't compute, so that the run must report them."""
        plan = self.plan
        gates = (item.id for item in plan.gates if item.gate is None or not item.gate.is_computed)
        criteria = (item.spec.id for item in plan.criteria)
        return (*gates, *(name for name in criteria if name not in plan.measured))


def select_profile(
    shelf: Shelf,
    chosen: str | Profile | None,
    family: str | None,
    named: str | None,
    *,
    named_by: str,
) -> tuple[Profile, str]:
    """The profile, and why it was selected."""
    if chosen is not None:
        profile = shelf.profile(chosen)
        made = profile.made_from
        return profile, "asked for with --profile" if made is None else f"made from {made}"
    if named is not None:
        return shelf.profile(shelf_name(named, "profile")), f"named by {named_by}"
    if family is not None:
        return shelf.profile_for_family(family), f"for the workflow's family '{family}'"
    raise ShelfError(
        "SCO-010",
        "the run's workflow names no family.",
        fix="Add workflow.family, or choose a profile with --profile; `assay library list profiles`"
        " lists them.",
    )


def select_rubric(
    shelf: Shelf, chosen: str | None, named: str | None, *, named_by: str
) -> tuple[Rubric | None, str]:
    """The rubric, and why it was selected; None if neither the user nor the evidence names one.

    With a chosen profile, callers don't pass the run's rubric: the run must not choose weights and
    floors then.
    """
    if chosen is not None:
        return shelf.rubric(chosen), "asked for with --rubric"
    if named is not None:
        return shelf.rubric(shelf_name(named, "rubric")), f"named by {named_by}"
    return None, ""


def shelf_name(name: str, kind: str) -> str:
    """A name that evidence gives, which must not be a path: evidence is untrusted and may not open
    files.
    """
    if is_yaml_name(name) or "/" in name or "\\" in name or name.startswith("."):
        raise ShelfError(
            "LIB-001",
            f"a run names its {kind} by its name in the library, not by a path: {name!r}.",
            fix=f"Use --{kind} for a file.",
        )
    return name
