"""The release rules of a project: what `assay gate` takes from its assay.yaml, as plain values that
a server can be started with.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from assay.files.yaml_files import is_yaml_name
from assay.library.shelf import Shelf
from assay.project.config import Config
from assay.project.settings import required_by, settings_of
from assay.release.policy import Bars, make_release_rules
from assay.running.post_run import scorer_additions
from assay.running.scorer_results import Scorer
from assay.running.scorers import PlacedScorer
from assay.scoring.extension import Additions


class ReleaseSettings(Struct, frozen=True, kw_only=True):
    """The default settings for deciding whether a candidate may replace a baseline."""

    config: str | None = None
    """The assay.yaml that they come from; None if there is none."""
    policy: str = "release"
    bars: Bars = Bars()
    profile: str | None = None
    rubric: str | None = None
    grading_policy: str = "workflow"
    scorers: tuple[Scorer, ...] = ()
    """The scorers and gates that the file declares."""
    extended: str | None = None
    """The file of the profile with what the scorers add; None if that is nothing, or without a
    profile.
    """
    quarantine: tuple[str, ...] = ()
    """Samples that the file excludes from decisions."""
    slices: tuple[str, ...] = ()
    """What the file has decisions sliced by."""

    @property
    def source(self) -> str:
        """The name of the file."""
        return os.path.basename(self.config or "")

    @property
    def placed_scorers(self) -> list[PlacedScorer]:
        """The scorers with the folder of the file."""
        folder = Path(os.path.dirname(self.config or "")).resolve()
        return [PlacedScorer(scorer, folder, self.source) for scorer in self.scorers]

    @property
    def additions(self) -> Additions:
        """The gates and criteria that the scorers require of every run."""
        return scorer_additions(self.placed_scorers)

    @property
    def graded_by(self) -> dict[str, str]:
        """What the file sets of the profile, the rubric and the policy."""
        policy = None if self.grading_policy == "workflow" else self.grading_policy
        named = {"profile": self.profile, "rubric": self.rubric, "policy": policy}
        return {name: value for name, value in named.items() if value is not None}

    @property
    def files(self) -> list[str]:
        """The files that it names."""
        named = (self.policy, self.profile, self.rubric, self.grading_policy, self.extended)
        return [name.partition("#")[0] for name in named if name and is_yaml_name(name)]


def release_settings(
    config: Config, shelf: Shelf, *, policy: str | None = None, scratch: str | None = None
) -> ReleaseSettings:
    """The release rules of an assay.yaml. An error in them is reported at once. `policy` is what
    the user grades by instead of the file's; `scratch` takes the profile with what scorers add.
    """
    settings, release = settings_of(config), config.spec.release
    rules = settings.release.policy or "release"
    bars = Bars(release.tolerance, release.min_pass_rate, release.confidence, release.min_overlap)
    make_release_rules(shelf.policy_of("release", rules), bars)
    has_base = settings.profile is not None or config.chosen("workflow") is not None
    adds = any(scorer_additions(list(settings.scorers)))
    extended = (
        required_by(config, settings.profile, shelf, scratch=scratch) if adds and has_base else None
    )
    return ReleaseSettings(
        config=os.path.abspath(config.path),
        policy=_absolute(rules),
        bars=bars,
        profile=None if settings.profile is None else _absolute(settings.profile),
        rubric=None if settings.rubric is None else _absolute(settings.rubric),
        grading_policy=_absolute(policy or settings.policy or "workflow"),
        scorers=tuple(scorer.scorer for scorer in settings.scorers),
        extended=None if extended is None else _absolute(extended),
        quarantine=settings.quarantine,
        slices=settings.slices,
    )


def _absolute(name: str) -> str:
    """A name on the shelf as it is; a file from wherever a command is run."""
    if not is_yaml_name(name):
        return name
    file, separator, key = name.partition("#")
    return f"{os.path.abspath(file)}{separator}{key}"
