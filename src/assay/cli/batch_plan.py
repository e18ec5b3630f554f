"""What a batch was graded by: the profile and policy of the options, else those of its record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from assay.batch.plan import make_batch_plan
from assay.cli import options as opt
from assay.cli.configured import DEFAULT
from assay.cli.grade import asked_profile
from assay.cli.hints import command
from assay.cli.parsing import Options
from assay.errors import AssayError, InputError
from assay.library.shelf import Shelf
from assay.pipeline.batch_sides import BatchOutput
from assay.pipeline.batching import scoring_plan
from assay.pipeline.grading import DEFAULT_POLICY, Grader
from assay.scoring.profile import ScoringPlan
from assay.services.batch_compare import BatchGrading


def asks_to_store(options: Options) -> bool:
    """Whether the command line has `--store`, also without a URL."""
    sources = options.sources
    return options.store is not None and (not sources or sources["store"] == "command line")


def required(options: Options, profile: str | None) -> str | None:
    """A profile with what the scorers and gates of `assay.yaml` add to it: a batch needs them as
    columns or rows.
    """
    return None if profile is None else asked_profile(options, profile)


def chosen_policy(options: Options, option: str = "policy") -> str | None:
    """The policy that the command line or `assay.yaml` names; None if neither does."""
    named: str = getattr(options, option)
    chosen = options.sources.get(option, DEFAULT) != DEFAULT or named != DEFAULT_POLICY
    return named if chosen else None


def graded_by(options: Options, output: BatchOutput, *, policy: str) -> BatchGrading:
    """What the options name, from the command line or `assay.yaml`, else what the record of a batch
    names; `policy` is the name of the option with the policy.
    """
    shelf = opt.shelf_of(options)
    scoring = _scoring(options, output, shelf)
    grader = Grader(shelf, policy=chosen_policy(options, policy) or output.record.policy)
    roles = {
        planned.spec.id: planned.spec.role
        for planned in scoring.criteria
        if planned.spec.role is not None
    }
    return BatchGrading(make_batch_plan(scoring, grader.rules), grader, roles)


def _scoring(options: Options, output: BatchOutput, shelf: Shelf) -> ScoringPlan:
    named = options.profile or output.record.profile
    sides = getattr(options, "baseline", ())
    against = [word for side in sides for word in ("--baseline", side.name)]
    files = (side.name for side in options.files)
    words = (*(["gate"] if against else ["report", "summary"]), *files, *against)
    with from_record(options, named, output.path, words):
        return scoring_plan(shelf, profile=required(options, named) or named, rubric=options.rubric)


@contextmanager
def from_record(options: Options, profile: str, where: str, words: Sequence[str]) -> Iterator[None]:
    """Ask for the file of a profile that only the record of a batch names, if the library lacks it;
    `words` are the command to repeat.
    """
    try:
        yield
    except AssayError as error:
        if options.profile or not error.code.startswith("LIB-"):
            raise
        again = command(*words, "--profile", "FILE", options=options)
        raise InputError(
            "BAT-060",
            f"was graded by {profile}, which the library lacks.",
            where=where,
            fix=f"Name the file of that profile: `{again}`. Or name the folder that it is in with"
            " `--library DIR`.",
        ) from None
