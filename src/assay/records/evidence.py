"""The evidence of one run: `assay.run/1`, as the contract writes it.

Frozen, and closed: an unknown key is an error, because a misspelt key is evidence that silently
does not count. `metadata` is free. An absent list and an empty one differ: absent says "nobody
looked", empty says "there were none". Nothing here judges; see `scoring`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

RUN_SCHEMA = "assay.run/1"
CHECKS = "imported_checks"
"""Under `metadata`: what another tool checked of the sample, each with the least that passes. A
comparison requires of the candidate what the baseline has.
"""
IMPORTED = "imported"
"""The key in the metadata of a run that another tool made: which tool, and what the import knows of
its place and of what it leaves out.
"""
DESCRIPTION = "description"
"""The key in the metadata of a run for what the tool that made the sample calls it."""

Count = Annotated[int, Meta(ge=0)]
Number = Annotated[Any, Meta(extra_json_schema={"type": "number"})]
"""A number kept as it was written; `records.reading` checks it. msgspec's own number types would
pass it through a float.
"""
OptionalNumber = Annotated[Any, Meta(extra_json_schema={"type": ["number", "null"]})]
Status = Literal["success", "failed", "error", "cancelled", "timeout"]
StepStatus = Literal["success", "failed", "error", "cancelled", "timeout", "skipped"]
Severity = Literal["none", "low", "medium", "high", "critical"]


class ClosedRecord(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """What all records share: frozen, closed, and without the keys that say nothing."""


class Workflow(ClosedRecord, frozen=True):
    """Which workflow ran. `family` selects the profile; `profile` and `rubric` name others on the
    shelf, never a path.
    """

    id: str
    version: str
    family: str | None = None
    profile: str | None = None
    rubric: str | None = None


class Dataset(ClosedRecord, frozen=True):
    """Which sample of which dataset it ran on."""

    id: str
    version: str
    sample_id: str


class Source(ClosedRecord, frozen=True):
    """Who gave a score. A judge is a model with its version, its prompt, the rubric and the
    settings it was asked with; another of these is another judge.
    """

    kind: Literal["llm", "human", "script"]
    name: str
    version: str | None = None
    prompt_version: str | None = None
    rubric: str | None = None
    settings: str | None = None
    answered_by: str | None = None
    """The model that the endpoint named in its replies."""

    @property
    def judge(self) -> str:
        """The whole identity as one text: what a judge's card is found by.

        >>> Source(kind="llm", name="m-1", rubric="rag@1").judge
        'm-1 (rubric rag@1)'
        """
        parts = [f"{key} {value}" for key in IDENTITY if (value := getattr(self, key)) is not None]
        return f"{self.name} ({', '.join(parts)})" if parts else self.name


IDENTITY = ("version", "prompt_version", "rubric", "settings", "answered_by")
"""What besides its name makes a judge the one it is."""


class Disagreement(ClosedRecord, frozen=True):
    """How far those who judged the same thing disagreed: the lowest and highest raw score, or for
    pairs in two orders how many came out differently.
    """

    between: Literal["judges", "samples", "orders"]
    n: Annotated[int, Meta(ge=1)]
    """Scores that were compared, or pairs."""
    low: Any = None
    high: Any = None
    inconsistent: Count | None = None


class Score(ClosedRecord, frozen=True):
    """A raw score and the number of samples behind it. `raw` null means that nobody could score
    it.
    """

    raw: Any
    n: Count = 1
    source: Source | None = None
    disagreement: Disagreement | None = None


class Step(ClosedRecord, frozen=True):
    """One step of a run. It is critical unless it says otherwise."""

    name: str
    status: StepStatus
    agent: str | None = None
    critical: bool = True
    duration_ms: OptionalNumber = None
    retries: Count | None = None
    model: str | None = None
    tier: str | None = None
    tokens: Count | None = None
    cost_usd: OptionalNumber = None
    scores: dict[str, Score] = {}
    error: str | None = None
    metadata: dict[str, Any] = {}


class ToolCall(ClosedRecord, frozen=True):
    """One call of a tool. `valid` null means that nobody checked its arguments."""

    name: str
    step: str | None = None
    arguments: Any = None
    valid: bool | None = None
    error: Any = None
    metadata: dict[str, Any] = {}


class Tally(ClosedRecord, frozen=True):
    """How many of how many."""

    passed: Count
    total: Count


class Tests(ClosedRecord, frozen=True):
    """Tests that failed before and must pass now, and tests that passed before and must still."""

    fail_to_pass: Tally | None = None
    pass_to_pass: Tally | None = None


class Retrieved(ClosedRecord, frozen=True):
    """One retrieved passage."""

    id: str
    text: str | None = None
    rank: Count | None = None
    relevant: bool | None = None


class Claim(ClosedRecord, frozen=True):
    """One claim of an answer, or of the expected answer; `supported` says whether the retrieved
    context supports it.
    """

    text: str
    citations: list[str] = []
    supported: bool | None = None
    severity: Severity | None = None


class Handoff(ClosedRecord, frozen=True):
    """One agent passing the work to another; `expected` is the agent it should have gone to."""

    source: str = field(name="from")
    to: str
    expected: str | None = None


class Verdict(ClosedRecord, frozen=True):
    """A gate's verdict, measured elsewhere."""

    passed: bool | None
    reason: str = ""


class Judge(ClosedRecord, frozen=True):
    """Which judge scored, so that two runs can be compared."""

    model: str
    version: str | None = None
    prompt_version: str | None = None


class Run(ClosedRecord, frozen=True):
    """Everything that was seen of one run of a workflow on one sample."""

    schema: Literal["assay.run/1"]
    run_id: Annotated[str, Meta(min_length=1, max_length=500)]
    workflow: Workflow
    dataset: Dataset
    status: Status
    outputs: dict[str, Any] | None = None
    required_outputs: list[str] | None = None
    steps: list[Step] | None = None
    tool_calls: list[ToolCall] | None = None
    tests: Tests | None = None
    retrieval: list[Retrieved] | None = None
    claims: list[Claim] | None = None
    expected_claims: list[Claim] | None = None
    handoffs: list[Handoff] | None = None
    scores: dict[str, Score] = {}
    gates: dict[str, Verdict] = {}
    latency_ms: OptionalNumber = None
    cost_usd: OptionalNumber = None
    tokens: Count | None = None
    retries: Count | None = None
    judge: Judge | None = None
    started_at: str | None = None
    finished_at: str | None = None
    inputs: dict[str, Any] | None = None
    required_inputs: list[str] | None = None
    output_schema: dict[str, Any] | bool | None = None
    expected: Any = None
    forbidden_tools: list[str] | None = None
    handoff_rules: list[tuple[str, str]] | None = None
    patch_applies: bool | None = None
    tags: list[str] = []
    group: str | None = None
    attempt: Annotated[int, Meta(ge=1)] | None = None
    metadata: dict[str, Any] = {}
