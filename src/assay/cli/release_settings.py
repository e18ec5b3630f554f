"""The release rules that a server decides by: those of `assay gate` under the same assay.yaml."""

from __future__ import annotations

from assay.cli import options as opt
from assay.cli.configured import COMMAND_LINE
from assay.cli.parsing import Options
from assay.project import release
from assay.project.release import ReleaseSettings


def release_settings(options: Options) -> ReleaseSettings:
    """The release rules of the assay.yaml that the options come from. An error in them is reported
    at the start.
    """
    if options.config is None:
        return ReleaseSettings()
    is_typed = options.sources.get("policy") == COMMAND_LINE  # it wins over the file
    return release.release_settings(
        options.config,
        opt.shelf_of(options),
        policy=options.policy if is_typed else None,
        scratch=options.scratch,
    )
