"""The profile of a run with scorers or assertions of its own: written beside the evidence, so that
anybody can grade the same runs by it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assay.running.post_run import additions_of, write_profile
from assay.running.scorers import PlacedScorer, placed_scorers
from assay.scoring.extension import extended

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from assay.running.compatibility import PreparedSample
    from assay.running.workflow import LoadedWorkflow
    from assay.scoring.profile import Profile


def extend_profile(
    options: argparse.Namespace,
    base: Profile,
    workflow: LoadedWorkflow,
    samples: Sequence[PreparedSample],
    folder: str,
    scorers: Sequence[PlacedScorer] = (),
) -> Profile | None:
    """Make the options grade by the profile with what scorers and assertions fill, and give it;
    None where they add nothing. It is kept in `FOLDER/profiles`, which makes the folder a library.
    """
    profile = extended(base, additions_of(workflow, samples, scorers=scorers))
    if profile is base:
        return None
    path = write_profile(profile, folder)
    if options.profile is None and options.rubric is None:
        # a profile that is asked for leaves nothing to the run: its rubric is asked for too
        options.rubric = workflow.spec.rubric
    options.profile = path
    if hasattr(options, "sources"):
        options.sources["profile"] = "command line"  # so that printed commands name it
    return profile


def configured_scorers(options: argparse.Namespace) -> list[PlacedScorer]:
    """The scorers and gates of `assay.yaml`, where there is one."""
    config = getattr(options, "config", None)
    if config is None:
        return []
    return placed_scorers(
        config.spec.scorers,
        config.spec.gates,
        folder=Path(config.folder).resolve(),
        where=config.path,
    )
