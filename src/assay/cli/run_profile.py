"""The scorers of `assay.yaml`, and the profile with what they add."""

from __future__ import annotations

import os
from pathlib import Path

from assay.cli import options as opt
from assay.cli.parsing import Options
from assay.running.config import Config
from assay.running.config_trust import rules
from assay.running.post_run import required_profile, write_profile
from assay.running.scorers import PlacedScorer, placed_scorers


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
