"""The bodies that clients post. Each is declared once, for reading and for the OpenAPI document. An
unknown key is refused with its near miss.

Runs, scorecards and judge cards are records and have their own published schemas.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

MAX_REPEAT, MAX_RETRIES = 1000, 20
NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}"
Text = Annotated[str, Meta(min_length=1, max_length=200)]
Objects = Annotated[list[Any], Meta(extra_json_schema={"items": {"type": "object"}})]
"""Documents that are read one by one, so that each fault names its document."""
Filters = dict[str, str | bool]


class RequestBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A JSON object that a route reads."""


class StoredSide(RequestBody, frozen=True):
    """Stored runs by digest, by filter or by the evaluation they belong to, or a stored baseline by
    name: one of them.
    """

    digests: Annotated[list[str], Meta(min_length=1)] | None = None
    filter: Filters | None = None
    baseline: Text | None = None
    evaluation: (
        Annotated[Text, Meta(description="its id or name, `latest` or `latest~1`")] | None
    ) = None


SIDE = (
    'a list of documents (runs, scorecards or grades), {"evaluation": NAME}, {"baseline": NAME},'
    ' {"digests": [DIGEST, ...]} or {"filter": {KEY: VALUE}}'
)
SideBody = Annotated[Objects | StoredSide, Meta(description=SIDE)]


class DecisionRequest(RequestBody, frozen=True):
    """Whether a candidate may replace a baseline."""

    candidate: SideBody
    baseline: SideBody
    policy: Text | None = None
    """Default: the project's release policy."""
    grading_policy: Text | None = None
    profile: Text | None = None
    rubric: Text | None = None
    quarantine: list[str] = []
    fresh: SideBody | None = None
    """Fresh runs of the candidate, for the samples that seem to fail newly."""
    fresh_baseline: SideBody | None = None
    """Fresh runs of the baseline, for the same samples."""
    slices: list[Literal["tag", "group", "family"]] = []
    plan: (
        Annotated[
            dict[str, Any],
            Meta(description="a plan made earlier with `assay gate --plan -o plan.json`"),
        ]
        | None
    ) = None


class BaselineRequest(RequestBody, frozen=True):
    """Evidence to keep under a name."""

    name: Text
    evidence: SideBody
    grading_policy: Text | None = None
    profile: Text | None = None


class EvaluationRequest(RequestBody, frozen=True):
    """Runs of one version of a workflow on one version of a dataset. Totals are never sent: they
    are computed from the grades.
    """

    name: Text
    runs: SideBody
    profile: Text | None = None
    policy: Text | None = None
    rubric: Text | None = None
    labels: Annotated[list[Text], Meta(max_length=50)] = []
    settings: Annotated[
        dict[str, Any], Meta(description="other settings of the runs; stored as given")
    ] = {}


class ExamRequest(RequestBody, frozen=True):
    """An exam and the answers to it."""

    exam: dict[str, Any] | Annotated[Objects, Meta(min_length=1)]
    answers: Objects
    rubric: Text | None = None
    policy: Text = "exam@1"


class ForgetRequest(RequestBody, frozen=True):
    """Why to forget a record."""

    reason: Annotated[str, Meta(min_length=1, max_length=2000, pattern=r"\S")]


class EventRequest(RequestBody, frozen=True):
    """What happened in a run in progress."""

    event: Literal["step_start", "step_end", "workflow_end", "error"]
    at: str | None = None
    step: dict[str, Any] | None = None
    tool_calls: Objects | None = None
    run: dict[str, Any] | None = None
    message: str | None = None


class StepStart(RequestBody, frozen=True):
    """The step of a `step_start`."""

    name: str
    agent: str | None = None


class NamedVersion(RequestBody, frozen=True):
    """A workflow that is offered."""

    id: Text
    version: Text | int | None = None


class NamedDataset(NamedVersion, frozen=True):
    """A dataset that is offered, or one whose samples come along."""

    samples: Objects | None = None


class ExecutionRequest(RequestBody, frozen=True):
    """A workflow to run on a dataset."""

    schema_: Literal["assay.execution/1"] = field(name="schema")
    workflow: Text | NamedVersion
    dataset: NamedDataset
    repeat: Annotated[int, Meta(ge=1, le=MAX_REPEAT)] = 1
    concurrency: Annotated[int, Meta(ge=1)] | None = None
    timeout_s: Annotated[float, Meta(gt=0)] | None = None
    retries: Annotated[int, Meta(ge=0, le=MAX_RETRIES)] | None = None
    name: Annotated[str, Meta(pattern=f"^{NAME}$")] | None = None
