"""The evidence of one run: `assay.run/1`.

Records are frozen and closed: an unknown key is an error, because evidence under a misspelt key
would silently not count. Only `metadata` takes any key. An absent list means that nobody looked; an
empty one means that there were none. Nothing here scores; see `scoring`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

RUN_SCHEMA = "assay.run/1"
IMPORTED = "imported"
"""The key in a run's metadata for the tool that it was imported from, its place in that tool's
file, and what the import left out.
"""
DESCRIPTION = "description"
"""The key in a run's metadata for the sample's title in the tool that it was imported from."""
MAX_TITLE = 200


def title_of(metadata: Mapping[str, Any]) -> str:
    """What the tool that made a sample calls it; empty if it has no title."""
    title = metadata.get(DESCRIPTION)
    return " ".join(title[:MAX_TITLE].split()) if isinstance(title, str) else ""


Count = Annotated[int, Meta(ge=0)]
Number = Annotated[Any, Meta(extra_json_schema={"type": "number"})]
"""A number kept as it was written; `records.reading` checks it. msgspec's number types would
convert it to a float.
"""
OptionalNumber = Annotated[Any, Meta(extra_json_schema={"type": ["number", "null"]})]
Status = Literal["success", "failed", "error", "cancelled", "timeout"]
StepStatus = Literal["success", "failed", "error", "cancelled", "timeout", "skipped"]
Severity = Literal["none", "low", "medium", "high", "critical"]


class ClosedRecord(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """A record that is frozen, refuses unknown keys and leaves out defaults when written."""


class Workflow(ClosedRecord, frozen=True):
    """Which workflow ran. `family` selects the profile; `profile` and `rubric` name others on the
    shelf, never a path.
    """

    id: str
    """The workflow's name."""
    version: str
    """The version that ran."""
    family: str | None = None
    """The workflow family, which selects the profile."""
    profile: str | None = None
    """A profile in the library, instead of the family's."""
    rubric: str | None = None
    """A rubric in the library that overrides criteria of the profile."""


class Dataset(ClosedRecord, frozen=True):
    """Which sample of which dataset it ran on."""

    id: str
    """The dataset's name."""
    version: str
    """The version of the dataset."""
    sample_id: str
    """The sample that the run is about."""
    row: str | None = None
    """A digest of the sample's row in the dataset."""


class Source(ClosedRecord, frozen=True):
    """Who gave a score. A judge is a model with its version, prompt, rubric and settings; if one of
    these differs, it is another judge.
    """

    kind: Literal["llm", "human", "script"]
    """Whether a model, a person or a script gave the score."""
    name: str
    """The model, the person or the script."""
    version: str | None = None
    """The version of the model or script."""
    prompt_version: str | None = None
    """The version of the prompt that a judge was asked with."""
    rubric: str | None = None
    """The rubric that a judge was asked with."""
    settings: str | None = None
    """A digest of the settings that a judge was asked with."""
    answered_by: str | None = None
    """The model that the endpoint named in its replies."""

    @property
    def judge(self) -> str:
        """The whole identity as one text, by which its judge card is found.

        >>> Source(kind="llm", name="m-1", rubric="rag@1").judge
        'm-1 (rubric rag@1)'
        """
        parts = [f"{key} {value}" for key in IDENTITY if (value := getattr(self, key)) is not None]
        return f"{self.name} ({', '.join(parts)})" if parts else self.name


JudgeOn = tuple[str, str | None]
"""The identity of a judge, and the criterion that its card counts for; None for every criterion."""

IDENTITY = ("version", "prompt_version", "rubric", "settings", "answered_by")
"""The fields that identify a judge besides its name."""


class Disagreement(ClosedRecord, frozen=True):
    """How far several verdicts on the same thing disagreed: the lowest and highest raw score, or,
    for pairs in two orders, how many came out differently.
    """

    between: Literal["judges", "samples", "orders"]
    """Who disagreed: several judges, several samples of one judge, or the two orders of a pair."""
    n: Annotated[int, Meta(ge=1)]
    """Scores that were compared, or pairs."""
    low: Any = None
    """The lowest raw score."""
    high: Any = None
    """The highest raw score."""
    inconsistent: Count | None = None
    """Pairs that came out differently in the two orders."""


class Score(ClosedRecord, frozen=True):
    """A raw score and the number of samples behind it."""

    raw: Any
    """The score on its own scale; null where nobody could score it."""
    n: Count = 1
    """The number of samples behind the score."""
    source: Source | None = None
    """Who gave the score."""
    disagreement: Disagreement | None = None
    """How far those who scored it disagreed."""


class Step(ClosedRecord, frozen=True):
    """One step of a run, critical by default."""

    name: str
    """The step's name."""
    status: StepStatus
    """How the step ended."""
    agent: str | None = None
    """The agent that did the step."""
    critical: bool = True
    """Whether a failure of this step fails the run."""
    duration_ms: OptionalNumber = None
    """How long it took, in milliseconds."""
    retries: Count | None = None
    """How often it was tried again."""
    model: str | None = None
    """The model it used."""
    tier: str | None = None
    """The size or price class of the model."""
    tokens: Count | None = None
    """Tokens it used."""
    cost_usd: OptionalNumber = None
    """What it cost, in US dollars."""
    scores: dict[str, Score] = {}
    """Scores given to this step, by criterion."""
    error: str | None = None
    """Why it failed."""
    metadata: dict[str, Any] = {}
    """Anything else; it is stored and never read."""


class Tool(ClosedRecord, frozen=True):
    """One tool that a model was shown, or that the workflow declares."""

    name: str
    """The tool's name."""
    schema: dict[str, Any] | bool | None = None
    """The JSON Schema of its arguments; null where it isn't known."""


class ToolCall(ClosedRecord, frozen=True):
    """One tool call."""

    name: str
    """The tool that was called."""
    step: str | None = None
    """The step that called it."""
    arguments: Any = None
    """The arguments, as the model wrote them."""
    valid: bool | None = None
    """Whether the arguments keep the tool's schema; null where nobody checked."""
    checked: bool = False
    """Whether Assay checked the arguments against the schema that the model was shown or that the
    workflow declares; false where only the workflow or a file says that they are valid.
    """
    error: Any = None
    """The error that the tool returned."""
    metadata: dict[str, Any] = {}
    """Anything else; it is stored and never read."""


class Tally(ClosedRecord, frozen=True):
    """A count out of a total."""

    passed: Count
    """How many passed."""
    total: Count
    """How many there are."""


class Tests(ClosedRecord, frozen=True):
    """Tests that failed before and must pass now, and tests that passed before and must still."""

    fail_to_pass: Tally | None = None
    """Tests that failed before the change and must pass now."""
    pass_to_pass: Tally | None = None
    """Tests that passed before the change and must still pass."""


class Retrieved(ClosedRecord, frozen=True):
    """One retrieved passage."""

    id: str
    """The passage's id, which citations name."""
    text: str | None = None
    """The text of the passage."""
    rank: Count | None = None
    """Its place in the ranking, from 1."""
    relevant: bool | None = None
    """Whether it is relevant to the question; null where nobody judged that."""


class Claim(ClosedRecord, frozen=True):
    """One claim of an answer, or of the expected answer."""

    text: str
    """The claim."""
    citations: list[str] = []
    """The ids of the passages that the answer cites for it."""
    supported: bool | None = None
    """Whether the cited passages support it; null where nobody judged that."""
    severity: Severity | None = None
    """How bad it would be if the claim were wrong."""


class Handoff(ClosedRecord, frozen=True):
    """One agent passing the work to another."""

    source: str = field(name="from")
    """The agent that hands over."""
    to: str
    """The agent that takes over."""
    expected: str | None = None
    """The agent that should have taken over."""


class Verdict(ClosedRecord, frozen=True):
    """A gate's verdict, measured elsewhere."""

    passed: bool | None
    """Whether the gate passed; null where that could not be determined, which fails."""
    reason: str = ""
    """Why."""


class Judge(ClosedRecord, frozen=True):
    """The judge that scored, so that runs of different judges aren't compared."""

    model: str
    """The model that judged."""
    version: str | None = None
    """Its version."""
    prompt_version: str | None = None
    """The version of the prompt that it was asked with."""


class Run(ClosedRecord, frozen=True):
    """The evidence of one run of a workflow on one sample."""

    schema: Literal["assay.run/1"]
    """The kind and version of this document."""
    run_id: Annotated[str, Meta(min_length=1, max_length=500)]
    """The run's id, unique among the runs that are graded together."""
    workflow: Workflow
    """Which workflow ran."""
    dataset: Dataset
    """Which sample it ran on."""
    status: Status
    """How the run ended. Anything but `success` fails a required gate."""
    outputs: dict[str, Any] | None = None
    """What the workflow returned, by name."""
    required_outputs: list[str] | None = None
    """The outputs that must be present."""
    steps: list[Step] | None = None
    """What the workflow did, in order."""
    tool_calls: list[ToolCall] | None = None
    """The tool calls, in order."""
    tests: Tests | None = None
    """Counts of test results, for code repair."""
    retrieval: list[Retrieved] | None = None
    """The retrieved passages, best first."""
    claims: list[Claim] | None = None
    """The claims of the answer, with the passages they cite."""
    expected_claims: list[Claim] | None = None
    """The claims that a complete answer contains."""
    handoffs: list[Handoff] | None = None
    """Who passed the work to whom."""
    scores: dict[str, Score] = {}
    """Scores given by judges, people or scripts, by criterion."""
    gates: dict[str, Verdict] = {}
    """Verdicts on gates, measured elsewhere, by gate."""
    latency_ms: OptionalNumber = None
    """How long the whole run took, in milliseconds."""
    cost_usd: OptionalNumber = None
    """What the whole run cost, in US dollars."""
    tokens: Count | None = None
    """Tokens of the whole run."""
    retries: Count | None = None
    """Retries of the whole run."""
    judge: Judge | None = None
    """The judge that gave the scores, where one gave all of them."""
    started_at: str | None = None
    """When the run started."""
    finished_at: str | None = None
    """When the run ended."""
    inputs: dict[str, Any] | None = None
    """What the workflow was given, by name."""
    required_inputs: list[str] | None = None
    """The inputs that the workflow requires."""
    output_schema: dict[str, Any] | bool | None = None
    """The JSON Schema that the outputs must match."""
    expected: Any = None
    """What the dataset expects of this sample."""
    forbidden_tools: list[str] | None = None
    """Tools that must not be called."""
    tools: list[Tool] | None = None
    """The tools that its models were shown, and those that its workflow declares. A tool that was
    shown with several schemas is listed once with each.
    """
    handoff_rules: list[tuple[str, str]] | None = None
    """The allowed handoffs, as pairs of agents."""
    patch_applies: bool | None = None
    """Whether the patch applies cleanly."""
    testing: str | None = None
    """A digest of how its patch is tested: the command, the tests, and the files that are restored
    first.
    """
    assertions: list[Any] | None = None
    """What the sample asserts of the outputs, as the dataset states it."""
    checks: dict[str, Number] = {}
    """What another tool, or the project's scorers, checked of the sample: each with its lowest
    passing value, 0 where it has none.
    """
    unchecked: bool = False
    """Whether the tool that it was imported from passed it without checking anything."""
    tags: list[str] = []
    """Labels for slicing results."""
    group: str | None = None
    """Samples of the same group are not independent; intervals respect that."""
    attempt: Annotated[int, Meta(ge=1)] | None = None
    """Which attempt at the sample this is, from 1."""
    attempts: Annotated[int, Meta(ge=1)] | None = None
    """How many attempts at the sample were announced."""
    metadata: dict[str, Any] = {}
    """Anything else, under any keys. Importers and the runner add theirs."""
