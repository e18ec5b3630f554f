"""What families measure after a run, each where the workflow file asks for it by its own key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.family import shipped
from assay.registry import home_value
from assay.running.workflow import LoadedWorkflow

if TYPE_CHECKING:
    from assay.running.runner import PostRun


class RunStep(NamedTuple):
    """A step after each run of a workflow. A run that it measured stays valid while its files are
    the same.
    """

    measure: Callable[[LoadedWorkflow], PostRun]
    """Makes the step. Raises `InputError` if the file asks for something impossible."""
    lacking: Callable[[], str]
    """Why it can't be done on this machine; empty if it can."""
    digest: Callable[[LoadedWorkflow], str | None]
    """A digest of the files it measures with, as they are now; None if they may change."""
    measured: Callable[[Mapping[str, Any]], str | None]
    """The digest in the metadata of a finished run; None if that one can't become outdated."""


def steps_of(workflow: LoadedWorkflow) -> list[RunStep]:
    """The steps that a workflow file asks for."""
    return [
        home_value(home)
        for family in shipped()
        for key, home in family.steps.items()
        if getattr(workflow.spec, key) is not None
    ]
