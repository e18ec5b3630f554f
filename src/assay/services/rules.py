"""What grades both sides of a comparison. Every door asks here, so that none accepts a bar that
another refuses.

The user's choice comes first, then the profile that the baseline brings with it, then assay.yaml,
then what the baseline was stored with, then the defaults. A candidate never brings its own rules;
if the baseline doesn't say what graded it, they must be named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from assay.files.json_files import Document
from assay.library.shelf import Shelf
from assay.scoring.profile import load_profile
from assay.services.evaluation_choice import (
    CHOSEN,
    FLAGS,
    MAP,
    OWN,
    ComparedInput,
    EvaluationChoice,
    ToolProfile,
    covers,
    made_profile,
    one_made_profile,
    one_own_profile,
    one_setting,
    own_profile,
    refuse_unknown_bar,
    refuse_unknown_scales,
)


class GradedSide(NamedTuple):
    """One input of a comparison, and what is known of what graded it."""

    name: str
    settings: Mapping[str, Any] | None = None
    """What an evaluation was made with, or a baseline of another tool; None for runs alone."""
    made: ToolProfile | None = None
    """The profile that was made from its metrics."""
    kept: bool = False
    """Whether it is a stored baseline: `compare` checks it against the rules it was stored under.
    """


def graded_side(
    name: str, settings: Mapping[str, Any] | None = None, *, kept: bool = False
) -> GradedSide:
    """An input with the settings that it was evaluated with."""
    known = settings or {}
    return GradedSide(name, settings, made_profile(name, own_profile(known), known.get(MAP)), kept)


class RulesRequest(NamedTuple):
    """Whose rules are asked for, and who says what."""

    candidate: Sequence[GradedSide]
    baseline: Sequence[GradedSide]
    """The inputs that set the bar. Without a comparison these are all inputs."""
    given: Mapping[str, str] = MappingProxyType({})
    """What the user names of profile, rubric and policy."""
    configured: Mapping[str, str] = MappingProxyType({})
    """What assay.yaml sets of them."""
    policy: str = "workflow"
    """The policy of what names none."""
    flags: Mapping[str, str] = FLAGS
    """How the user names each of them, for errors."""
    fix: str = "Name the rules that both sides are graded by."
    """What to do about a baseline that doesn't say what graded it."""
    shelf: Shelf | None = None
    """Where the profile of assay.yaml is. A profile that a baseline brings then counts only if it
    has all of that.
    """


def rules_for(request: RulesRequest) -> EvaluationChoice:
    """What grades both sides."""
    given, configured, baseline = request.given, request.configured, request.baseline
    is_named = "profile" in given
    made = (
        None
        if is_named
        else one_made_profile(
            [ComparedInput(side.name, side.made) for side in baseline],
            [ComparedInput(side.name, side.made) for side in request.candidate],
        )
    )
    if made is not None and request.candidate:
        refuse_unknown_scales(made)
    if made is None and any(side.settings is None and not side.kept for side in baseline):
        named = {*given, *configured}
        for side in request.candidate:
            if side.settings is not None:
                refuse_unknown_bar(side.name, side.settings, given=named, fix=request.fix)
    # a stored baseline is checked against its record; of a candidate's rules it accepts no others
    known = {side.name: side.settings for side in baseline if side.settings is not None} or {
        side.name: side.settings for side in request.candidate if side.settings is not None
    }
    own: Mapping[str, Any] | None = None
    if made is not None:
        own = {"profile": made.profile}
    elif not is_named:
        own = _meets(one_own_profile(list(known.values())), request)
    defaults: dict[str, Any] = {**dict(CHOSEN), "policy": request.policy}
    values: dict[str, Any] = {**defaults, **configured}
    if own is not None:
        rubric = None if made is not None else configured.get("rubric")
        values |= {"profile": OWN, "rubric": rubric or own.get("rubric")}
    values |= given
    for name, default in defaults.items():
        if known and values[name] == default and name not in given:
            values[name] = one_setting(name, default, known, flag=request.flags[name])
    return EvaluationChoice(
        str(values["policy"]),
        values["profile"],
        values["rubric"],
        None if own is None else own["profile"],
        made,
    )


def _meets(own: Mapping[str, Any] | None, request: RulesRequest) -> Mapping[str, Any] | None:
    """A profile that evaluations bring with them, unless it lacks something that the profile of
    assay.yaml requires.
    """
    wanted = request.configured.get("profile")
    if own is None or wanted is None or request.shelf is None:
        return own
    profile = load_profile(Document(dict(own["profile"]), OWN))
    return own if covers(profile, request.shelf.profile(wanted)) else None
