"""The profile with the criteria and gates that scorers and assertions add. For a run it is written
next to the evidence, so that anyone can grade the same runs again; for a configuration, into its
`.assay` folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from assay.cli import options as opt
from assay.cli.parsing import Options
from assay.project.config import Config
from assay.project.trust import rules
from assay.running.compatibility import PreparedSample
from assay.running.post_run import additions_of, required_profile, write_profile
from assay.running.scorers import PlacedScorer, placed_scorers
from assay.running.workflow import LoadedWorkflow
from assay.scoring.extension import extended
from assay.scoring.profile import Profile


class ExtendedProfile(NamedTuple):
    """A profile with what scorers and assertions fill, and its file."""

    profile: Profile
    path: str


def extend_profile(
    base: Profile,
    workflow: LoadedWorkflow,
    samples: Sequence[PreparedSample],
    folder: str,
    scorers: Sequence[PlacedScorer] = (),
) -> ExtendedProfile | None:
    """The profile with what scorers and assertions fill; None if they add nothing. It is kept in
    `FOLDER/profiles`, which makes the folder a library.
    """
    profile = extended(base, additions_of(workflow, samples, scorers=scorers))
    if "+" not in str(profile.version):  # it is the base itself, which stays where it is
        return None
    return ExtendedProfile(profile, write_profile(profile, folder))


def graded_by(options: Options, path: str, workflow: LoadedWorkflow) -> Options:
    """The options with the extended profile at this path, as if it was asked for."""
    # a profile that is asked for leaves nothing to the run: its rubric is asked for too
    asks = options.profile is not None or options.rubric is not None
    rubric = options.rubric if asks else workflow.spec.rubric
    # so that printed commands name it
    sources = {**options.sources, "profile": "command line"} if options.sources else {}
    return options.with_values(profile=path, rubric=rubric, sources=sources)


def configured_profile(options: Options, config: Config, profile: str | None) -> str | None:
    """A profile with what the scorers of `assay.yaml` add to it: what a team declares is required
    of every run, also of one that was made without it.
    """
    made = required_profile(
        opt.shelf_of(options),
        profile or rules(config, "profile"),  # an import takes none from the file otherwise
        configured_scorers(options),
        workflow=config.chosen("workflow"),
        where=config.path,
    )
    if made is None or isinstance(made, str):
        return made
    if options.scratch is not None:
        return write_profile(made, options.scratch)
    home = config.folder or os.curdir
    return write_profile(made, os.path.join(config.folder, ".assay"), root=home)


def configured_scorers(options: Options) -> list[PlacedScorer]:
    """The scorers and gates of `assay.yaml`, where there is one."""
    config = options.config
    if config is None:
        return []
    return placed_scorers(
        config.spec.scorers,
        config.spec.gates,
        folder=Path(config.folder).resolve(),
        where=config.path,
    )
