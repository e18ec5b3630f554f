"""An evaluation: one version of a workflow on one dataset, with its runs and their totals
(`assay.evaluation/1`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from assay.canon import digest
from assay.records.summary import ValueInterval

EVALUATION_SCHEMA: Final = "assay.evaluation/1"


class VersionedName(Struct, frozen=True, kw_only=True):
    """A workflow or a dataset, and its version."""

    id: str
    """The id of the workflow or dataset."""
    version: str | None = None
    """The version; null where nobody stated one."""


class EvaluationTotals(Struct, frozen=True, kw_only=True):
    """The totals over the runs of an evaluation."""

    n: int
    """How many runs there are."""
    passed: int
    """How many passed."""
    pass_rate: ValueInterval
    """The share that passed, with its interval."""
    score: ValueInterval
    """The mean of the weighted scores, on 0..100."""
    gate_failures: dict[str, int]
    """By gate, the runs that don't pass it, including undetermined ones."""
    missing: dict[str, int]
    """By criterion, the runs without a score for it; such a score counts as 0."""
    ungraded: int = 0
    """Runs that could not be graded: counted in `n`, not passed, with a score of 0. Where no run
    was graded, the pass rate and the score are null.
    """


class EvaluatedRun(Struct, frozen=True, kw_only=True):
    """A run of an evaluation."""

    run_id: str
    """The run's id."""
    digest: str
    """The digest of the stored run."""
    grade: str | None = None
    """The digest of the stored grade; null for a run that could not be graded."""


class ChosenSamples(Struct, frozen=True, kw_only=True):
    """The part of a dataset that was chosen to run."""

    of: int
    """How many samples the dataset has."""
    samples: list[str]
    """The ids of the samples that ran."""


class Evaluation(Struct, frozen=True, kw_only=True):
    """One version of a workflow on one dataset."""

    schema: Literal["assay.evaluation/1"] = EVALUATION_SCHEMA
    """The kind and version of this document."""
    id: str
    """`ev-` and the beginning of the digest of everything else in the record."""
    name: str
    """The name that commands take, such as `assay evals NAME`."""
    source: Literal["run", "import"]
    """Whether Assay ran the workflow, or the runs came from elsewhere."""
    workflow: VersionedName
    """The workflow that ran."""
    dataset: VersionedName
    """The dataset that it ran on."""
    configuration: str
    """The digest of `settings`."""
    settings: dict[str, Any]
    """What the runs were made and graded with."""
    only: ChosenSamples | UnsetType = UNSET
    """The samples that were chosen by name or because they failed before; absent unless that was
    done. `latest` skips such a part of an evaluation.
    """
    labels: list[str] = []
    """Labels that users gave the evaluation."""
    started: str
    """When the first run started."""
    finished: str | None
    """When the last run ended."""
    totals: EvaluationTotals
    """The totals over the runs."""
    runs: list[EvaluatedRun]
    """The runs, by id and digest."""


def graded_by(settings: Mapping[str, Any]) -> str:
    """What an evaluation was graded by, in words: pass rates by different rules can't be compared.

    >>> graded_by({"policy": "workflow", "profile": "rag@1"})
    'policy workflow, profile rag@1, default rubric'
    """
    named = {name: settings.get(name) for name in ("policy", "profile", "rubric")}
    words = [
        f"{name} {version}" if version else f"default {name}" for name, version in named.items()
    ]
    # Two profiles of one name, or in one file, may ask for different things.
    own = settings.get("own_profile") or settings.get("project_profile")
    return ", ".join([*words, *([f"own profile {digest(own)[7:15]}"] if own else [])])


class LastDecision(NamedTuple):
    """The last decision about a workflow."""

    digest: str
    outcome: str | None
    policy: str | None
    at: str
    version: str | None
    """The version that was decided about, which need not be the newest."""


class WorkflowBaseline(NamedTuple):
    """What the newest evaluation of a workflow is compared with."""

    name: str
    """The name of the baseline; empty for an earlier evaluation."""
    evaluation: Evaluation | None
    """None for a baseline that is not one stored evaluation."""
    difference: Any = None
    """Of the pass rates, newest minus baseline, with its interval; None if they can't be compared.
    """
    reason: str = ""
    """Why they can't be compared."""
    lost: int = 0
    """Samples of the baseline that the newest lacks; in the difference they count as failed."""
