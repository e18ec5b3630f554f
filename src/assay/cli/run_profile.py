"""The profile with the criteria and gates that scorers and assertions add. For a run it is written
next to the evidence, so that anyone can grade the same runs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from assay.cli.parsing import Options
from assay.running.compatibility import PreparedSample
from assay.running.post_run import additions_of, write_profile
from assay.running.scorers import PlacedScorer
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
