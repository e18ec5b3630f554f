"""The profile with the criteria and gates that scorers and assertions add. For a run it is written
next to the evidence, so that anyone can grade the same runs again; for a configuration, into its
`.assay` folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from assay.cli import options as opt
from assay.cli.parsing import Options
from assay.running.compatibility import PreparedSample
from assay.running.config import Config
from assay.running.config_trust import rules
from assay.running.post_run import additions_of, required_profile, write_profile
from assay.running.scorers import PlacedScorer, placed_scorers
from assay.running.workflow import LoadedWorkflow
from assay.scoring.extension import extended
from assay.scoring.profile import Profile


def extend_profile(
    options: Options,
    base: Profile,
    workflow: LoadedWorkflow,
    samples: Sequence[PreparedSample],
    folder: str,
    scorers: Sequence[PlacedScorer] = (),
) -> Profile | None:
    """Make the options grade by the profile with what scorers and assertions fill, and give it;
    None if they add nothing. It is kept in `FOLDER/profiles`, which makes the folder a library.
    """
    profile = extended(base, additions_of(workflow, samples, scorers=scorers))
    if "+" not in str(profile.version):  # it is the base itself, which stays where it is
        return None
    path = write_profile(profile, folder)
    if options.profile is None and options.rubric is None:
        # a profile that is asked for leaves nothing to the run: its rubric is asked for too
        options.rubric = workflow.spec.rubric
    options.profile = path
    if options.sources:  # so that printed commands name it
        options.sources = {**options.sources, "profile": "command line"}
    return profile


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
    if scratch := getattr(options, "scratch", None):
        return write_profile(made, scratch)
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
