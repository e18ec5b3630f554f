"""The release rules that a server decides by: those of `assay gate` under the same assay.yaml."""

from __future__ import annotations

import os

from assay.archive.release_settings import ReleaseSettings
from assay.cli import options as opt
from assay.cli.configured import COMMAND_LINE
from assay.cli.parsing import Options
from assay.cli.run_profile import configured_profile
from assay.files.yaml_files import is_yaml_name
from assay.project.settings import settings_of
from assay.release.policy import Bars, make_release_rules
from assay.running.post_run import scorer_additions


def release_settings(options: Options) -> ReleaseSettings:
    """The release rules of the assay.yaml that the options come from. An error in them is reported
    at the start.
    """
    config = options.config
    if config is None:
        return ReleaseSettings()
    settings, release = settings_of(config), config.spec.release
    policy = settings.release.policy or "release"
    bars = Bars(release.tolerance, release.min_pass_rate, release.confidence, release.min_overlap)
    make_release_rules(opt.shelf_of(options).policy_of("release", policy), bars)
    has_base = settings.profile is not None or config.chosen("workflow") is not None
    adds = any(scorer_additions(list(settings.scorers)))
    extended = configured_profile(options, config, settings.profile) if adds and has_base else None
    is_typed = options.sources.get("policy") == COMMAND_LINE  # it wins over the file
    return ReleaseSettings(
        config=os.path.abspath(config.path),
        policy=_absolute(policy),
        bars=bars,
        profile=None if settings.profile is None else _absolute(settings.profile),
        rubric=None if settings.rubric is None else _absolute(settings.rubric),
        grading_policy=_absolute(options.policy if is_typed else settings.policy or "workflow"),
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
