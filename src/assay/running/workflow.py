"""A workflow file: what the workflow is, its inputs and outputs, how it is called, and how it is
scored.

The file says everything the runner needs; nothing is guessed from the code it names. `strategy`
sets how it proceeds (see `strategies`) and, where the file names neither profile nor family, which
profile scores it. `inputs` is the complete list of what the workflow sees of a sample.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, field

from assay.canon import digest
from assay.errors import InputError
from assay.files.json_files import Document
from assay.files.yaml_files import read_entry
from assay.records.evidence import ClosedRecord
from assay.records.reading import read_record
from assay.registry import identifier_fault, near_miss
from assay.running.adapters import ADAPTERS
from assay.running.assertions import AssertionTerms
from assay.running.scorer_results import Scorer as Scorer

Strategy = Literal["single", "iterative", "dag", "multi_agent"]
PROFILE_OF: dict[str, str] = {
    "single": "rag",
    "iterative": "code-repair",
    "dag": "dag-review",
    "multi_agent": "tool-use",
}
"""The profile of each strategy, where a workflow names neither a profile nor a family: one question
and its answer, a loop of tries, a graph of steps, agents that hand work on.
"""
Positive = Annotated[int, Meta(ge=1)]


class Input(ClosedRecord, frozen=True):
    """One input: the field of the sample it comes from (its own name where none is given), and
    whether a sample may lack it.
    """

    source: str | None = field(name="from", default=None)
    """The field of the sample; without one, the input's own name."""
    required: bool = True
    """Whether a sample must have it."""
    default: Any | UnsetType = UNSET
    """The value where a sample lacks it."""


class CallLimits(ClosedRecord, frozen=True):
    """The limits of one call. `retries` is how often a failed call is repeated."""

    timeout_s: Annotated[float, Meta(gt=0)] = 300
    """Seconds for one call."""
    retries: Annotated[int, Meta(ge=0, le=20)] = 0
    """How often a failed call is made again."""
    max_output_bytes: Positive = 16 * 1024 * 1024
    """The largest output that is accepted."""


class DeclaredTool(ClosedRecord, frozen=True):
    """A tool that the workflow may call; the arguments of its calls must match `parameters`, a JSON
    Schema.
    """

    name: str
    """The tool's name."""
    parameters: dict[str, Any] | bool = True
    """The JSON Schema of its arguments."""
    description: str = ""
    """What it does."""


class Stage(ClosedRecord, frozen=True):
    """A step of a `dag`: the steps that must finish before it, and how it is called. `inputs` maps
    its inputs to `inputs.NAME` or `STEP.OUTPUT`.
    """

    name: str
    """The step's name."""
    adapter: dict[str, Any]
    """How the step is called."""
    agent: str | None = None
    """The agent that the step belongs to."""
    needs: list[str] = []
    """Steps that must finish first."""
    inputs: dict[str, str] | None = None
    """The step's inputs: `inputs.NAME`, or `STEP.OUTPUT`."""
    critical: bool = True
    """Whether a failure of this step fails the run."""
    retries: Annotated[int, Meta(ge=0, le=20)] = 0
    """How often the step is tried again."""


class Agent(ClosedRecord, frozen=True):
    """An agent of a `multi_agent` workflow. It hands on by an output `handoff` that names the next
    one.
    """

    adapter: dict[str, Any]
    """How the agent is called."""


class Iterations(ClosedRecord, frozen=True):
    """How an `iterative` workflow goes on: at most this many rounds, until an output is true."""

    maximum: Annotated[int, Meta(ge=1, le=1000)] = 3
    """The maximum number of rounds."""
    until: str | None = None
    """The output that ends the loop once it is true."""


class Repository(ClosedRecord, frozen=True):
    """The tree that a code-repair workflow patches, and the tests that judge the patch: see
    `repair`.

    A text instead of a list of tests names the field of the sample that contains the list. No such
    field, nor `test_patch`, is ever an input.
    """

    path: str
    """A folder, relative to the workflow file: a plain tree, or a git repository."""
    path_from: str | None = None
    """The field of the sample that names a folder below `path`, where each sample has its own tree.
    """
    base: str | None = None
    """The revision that is patched, where the folder is a git repository; without one, the files as
    they are.
    """
    base_from: str | None = "base"
    """The field of the sample that names its own revision."""
    patch: str = "patch"
    """The output that contains the patch."""
    fail_to_pass: list[str] | str = "fail_to_pass"  # noqa: S105
    """Tests that must pass after the patch, or the field that lists them."""
    pass_to_pass: list[str] | str = "pass_to_pass"  # noqa: S105
    """Tests that must still pass, or the field that lists them."""
    test_patch: str = "test_patch"
    """The field of the sample with tests that the workflow does not see, as a patch; laid over the
    tree in the sandbox only.
    """
    command: list[str] | Literal["unittest", "pytest"] = "unittest"
    """How one test is run: a runner by its name, or words with `{test}`, and perhaps `{python}` and
    `{report}`, in them.
    """
    restore: list[str] = []
    """Files and folders that a patch can't change: they are restored before the tests run."""
    readable: list[str] = []
    """Folders next to the tree that tests may read, such as a virtual environment; relative to the
    workflow file.
    """
    timeout_s: Annotated[Any, Meta(extra_json_schema={"type": "number", "exclusiveMinimum": 0})] = (
        60
    )
    """Time limit for one run of one test, in seconds."""
    memory_mb: Positive = 1024
    """Memory limit for one run of one test, in megabytes."""

    @property
    def testing(self) -> str:
        """A digest of how a patch is tested, wherever the tree is."""
        tests = (self.fail_to_pass, self.pass_to_pass, self.test_patch)
        return digest([self.patch, self.command, *tests, sorted(self.restore)])

    @property
    def test_fields(self) -> list[str]:
        """The fields of a sample that contain tests; like expected values, they are never
        inputs.
        """
        fields = (self.fail_to_pass, self.pass_to_pass, self.test_patch)
        return [name for name in fields if isinstance(name, str)]


class WorkflowFile(ClosedRecord, frozen=True):
    """A workflow, as written in its YAML file."""

    workflow: Annotated[str, Meta(min_length=1, max_length=200)]
    """The workflow's name."""
    version: str | int
    """The version of the workflow."""
    title: str = ""
    """The name that people see."""
    family: str | None = None
    """The workflow family, which selects the profile."""
    strategy: Strategy = "single"
    """How it runs: one call, a graph of steps, rounds, or agents that hand over."""
    profile: str | None = None
    """The profile, instead of the family's."""
    rubric: str | None = None
    """The rubric that overrides criteria of the profile."""
    inputs: list[str] | dict[str, Input | str | None] = []
    """The inputs, by name; a mapping says where each comes from."""
    outputs: list[str] | dict[str, str] = []
    """The outputs, by name; a mapping says which field of the reply each is."""
    required_outputs: list[str] | None = None
    """The outputs that must be present; all of them by default."""
    output_schema: dict[str, Any] | bool | None = None
    """The JSON Schema that the outputs must match."""
    adapter: dict[str, Any] | None = None
    """How the workflow is called: `python`, `command`, `http`, `langgraph` and others."""
    steps: list[Stage] | None = None
    """The steps of a `dag`."""
    agents: dict[str, Agent] | None = None
    """The agents of a `multi_agent` workflow, by name."""
    start: str | None = None
    """The agent that begins."""
    max_handoffs: Annotated[int, Meta(ge=0, le=1000)] = 20
    """The maximum number of handoffs before the run fails."""
    iterations: Iterations = Iterations()
    """When an `iterative` workflow ends."""
    tools: list[DeclaredTool] | None = None
    """The tools it may call, with the schemas of their arguments."""
    forbidden_tools: list[str] | None = None
    """Tools that must not be called."""
    handoff_rules: list[tuple[str, str]] | None = None
    """The allowed handoffs, as pairs of agents."""
    repository: Repository | None = None
    """The code and the tests of a code-repair workflow."""
    scorers: list[Scorer] = []
    """Functions that score every run."""
    assertions: AssertionTerms = "gate"
    """What the assertions of the samples become: a gate, or a criterion (`{weight: 0.3}` adds it).
    """
    limits: CallLimits = CallLimits()
    """What one call may take."""
    tags: list[str] = []
    """Labels that every run gets."""

    @property
    def adapters(self) -> dict[str, dict[str, Any]]:
        """Every adapter: the workflow's own under an empty name, those of steps and agents by
        theirs.
        """
        return {
            **({} if self.adapter is None else {"": self.adapter}),
            **{step.name: step.adapter for step in self.steps or ()},
            **{name: agent.adapter for name, agent in (self.agents or {}).items()},
        }


class LoadedWorkflow:
    """A workflow file that has been checked, and its folder."""

    def __init__(self, spec: WorkflowFile, folder: Path, where: str) -> None:
        self.spec = spec
        self.folder = folder
        self.where = where
        self.id = spec.workflow
        self.version = str(spec.version)
        self.profile = spec.profile
        """The profile that the runs name; callers set it to the one that the user chose."""
        inputs = spec.inputs if isinstance(spec.inputs, dict) else dict.fromkeys(spec.inputs)
        self.inputs: dict[str, Input] = {
            name: given if isinstance(given, Input) else Input(source=given)
            for name, given in inputs.items()
        }
        outputs = spec.outputs if isinstance(spec.outputs, dict) else dict.fromkeys(spec.outputs)
        self.outputs: dict[str, str | None] = dict(outputs)
        self.required_outputs: list[str] = list(
            self.outputs if spec.required_outputs is None else spec.required_outputs
        )
        plugins = ADAPTERS.fingerprints(
            {str(adapter.get("kind")) for adapter in spec.adapters.values()}
        )
        self.plugins = {"plugins": plugins} if plugins else {}
        """A digest of the behaviour of each plugin that calls this workflow."""
        self.digest = digest([spec, plugins]) if plugins else digest(spec)

    @property
    def code(self) -> list[str]:
        """What its adapters call: `module:name`, and the words of commands."""
        names: list[Any] = []
        for adapter in self.spec.adapters.values():
            command = adapter.get("command")
            names += [adapter.get("target"), *(command if isinstance(command, list) else [])]
        return [name for name in names if isinstance(name, str) and name]

    @property
    def required_inputs(self) -> list[str]:
        """The inputs that every sample must give."""
        return sorted(
            name for name, given in self.inputs.items() if given.required and given.default is UNSET
        )

    @property
    def _default_profile(self) -> str | None:
        named = self.spec.profile is not None or self.spec.family is not None
        return None if named else PROFILE_OF[self.spec.strategy]

    def subject(self) -> dict[str, str]:
        """The workflow as a run names it, with the strategy's profile if the file names no other:
        evidence names what it was scored by.
        """
        subject = {
            "id": self.id,
            "version": self.version,
            "family": self.spec.family,
            "profile": self.profile or self._default_profile,
            "rubric": self.spec.rubric,
        }
        return {key: value for key, value in subject.items() if value is not None}

    @property
    def profile_why(self) -> str:
        """Why this profile was chosen."""
        if self.spec.profile is not None:
            return f"profile {self.spec.profile} from the workflow file"
        if self.spec.family is not None:
            return f"the profile of the family '{self.spec.family}'"
        return (
            f"profile {self._default_profile}, the default of the strategy '{self.spec.strategy}'"
        )


def read_workflow(path: str) -> LoadedWorkflow:
    """The workflow of a YAML file, or of a part of one, or every fault of it."""
    document = read_entry(path, "workflow")
    return make_workflow(document, Path(path.partition("#")[0]).resolve().parent)


def make_workflow(document: Document, folder: Path) -> LoadedWorkflow:
    """The workflow that a parsed file describes."""
    spec = read_record(document, WorkflowFile, "RUN-001")
    steps = [step.name for step in spec.steps or ()]
    for name in (spec.workflow, *steps, *(spec.agents or ())):
        problem = identifier_fault(name)
        if problem is not None:
            raise InputError("RUN-001", f"the name {problem}.", where=document.file)
    _fits_strategy(spec, document.file)
    return LoadedWorkflow(spec, folder, document.file)


_CALLED = {
    "single": ("adapter",),
    "iterative": ("adapter",),
    "dag": ("adapter", "steps"),
    "multi_agent": ("adapter", "agents"),
}
"""What a workflow of each strategy may call."""


def _fits_strategy(spec: WorkflowFile, where: str) -> None:
    """Check that the file names exactly what its strategy calls."""
    called = [name for name in ("adapter", "steps", "agents") if getattr(spec, name) is not None]
    allowed = _CALLED[spec.strategy]
    if len(called) != 1 or called[0] not in allowed:
        has = " and ".join(called) or "none of adapter, steps and agents"
        raise InputError(
            "RUN-001",
            f"a workflow of the strategy '{spec.strategy}' has {' or '.join(allowed)}; this one has"
            f" {has}.",
            where=where,
        )
    if spec.steps is not None:
        _ordered(spec.steps, where)
    if spec.agents is not None and spec.start not in spec.agents:
        raise InputError(
            "RUN-001",
            f"start is {spec.start!r}; it must name the agent that begins.",
            where=where,
            fix=f"The agents are {', '.join(spec.agents)}.",
        )
    if spec.agents is None and spec.start is not None:
        raise InputError("RUN-001", "start is given, but there are no agents.", where=where)


def _ordered(steps: list[Stage], where: str) -> None:
    """Refuse a graph with two steps of one name, an unknown need, or a cycle."""
    names = [step.name for step in steps]
    twice = [name for name in names if names.count(name) > 1]
    unknown = sorted({need for step in steps for need in step.needs} - set(names))
    problem = ""
    if not names:
        problem = "steps is empty."
    elif twice:
        problem = f"two steps are named {min(twice)!r}."
    elif "inputs" in names:
        problem = "a step is named 'inputs', which stands for the inputs of the workflow."
    elif unknown:
        near = near_miss(unknown[0], names)
        problem = f"a step needs {unknown[0]!r}, and there is no such step.{near}"
    else:
        try:
            TopologicalSorter({step.name: step.needs for step in steps}).prepare()
        except CycleError as error:
            problem = f"the steps need each other in a cycle: {', '.join(error.args[1][1:])}."
    if problem:
        raise InputError("RUN-001", problem, where=where)
