"""An agent or a workflow of Microsoft Agent Framework: `target` is one of them, or a function that
builds one.

The evidence comes from the framework's own OpenTelemetry spans: a span processor gives each span to
the run in whose context it began, so that concurrent runs don't mix. A tracer provider that the
program has set stays in place and keeps its exporters; if there is none, one without exporters is
set. Spans contain tool arguments only if the framework records content; a program with its own
exporters must allow that with `content: true`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.canon import canonical
from assay.errors import InputError
from assay.running.adapters import Adapter, WorkflowTask, read_spec
from assay.running.adapters.agent_framework_spans import following, listen
from assay.running.adapters.targets import Target, TargetSpec, framework, outputs_of, plain
from assay.tracing.failures import CallFailed, describe
from assay.tracing.live import LiveRun
from assay.tracing.live_spans import SpanFollower
from assay.tracing.recorder import Recorder


class AgentFrameworkSpec(TargetSpec, frozen=True, kw_only=True):
    """The keys of an agent_framework adapter."""

    input: str | None = None
    """The input that is the message."""
    content: bool = False


def make(given: Mapping[str, Any], folder: Path, where: str) -> AgentFrameworkAdapter:
    """An agent or a workflow of Microsoft Agent Framework."""
    spec = read_spec(given, AgentFrameworkSpec, where)
    framework("agent_framework", "agent-framework", where)
    framework("opentelemetry.sdk.trace", "agent-framework", where)
    return AgentFrameworkAdapter(
        Target.load(
            spec.target, folder, where, what="an agent or a workflow", is_ready=is_runnable
        ),
        spec,
    )


def is_runnable(target: Any) -> bool:
    """Whether this is an agent or a workflow."""
    return not isinstance(target, type) and callable(getattr(target, "run", None))


class AgentFrameworkAdapter(Adapter):
    """An agent or a workflow, called with a message made of the inputs of a task."""

    def __init__(self, target: Target, spec: AgentFrameworkSpec) -> None:
        self._target = target
        self._spec = spec

    async def call(self, task: WorkflowTask, record: Recorder) -> Mapping[str, Any]:
        """The agent's answer, or the outputs of the workflow."""
        from agent_framework import FunctionalWorkflow, Workflow

        runnable = await self._target.get()
        is_workflow = isinstance(runnable, Workflow | FunctionalWorkflow)
        if is_workflow and not self._target.is_built:
            runnable = self._fresh(runnable)
        listen(content=self._spec.content, where=self._target.where)
        live = LiveRun(record, agents=self._spec.agents)
        follower = SpanFollower(live)
        record.watched("handoffs")
        message = self._message(task.inputs, is_workflow)
        with live.following(), following(follower):
            result = await runnable.run(message)
        if not follower.heard:
            raise CallFailed(
                "no span of the run was recorded, so there is no evidence: a sampler or"
                " OTEL_SDK_DISABLED leaves them out.",
                again=False,
            )
        return outputs_of(plain(_result(result), _known), self._spec.output)

    def _fresh(self, workflow: Any) -> Any:
        """A copy: a workflow keeps its state and its conversations, and the next sample must not
        see them.
        """
        try:
            return copy.deepcopy(workflow)
        except Exception as error:
            raise InputError(
                "RUN-004",
                f"{self._target.name!r} is a workflow, which remembers samples, and cannot be"
                f" copied: {describe(error)}.",
                where=self._target.where,
                fix="Name a function that builds it; it is called for every sample.",
            ) from None

    def _message(self, inputs: Mapping[str, Any], is_workflow: bool) -> Any:
        """One input is the message itself. Several are given together: to a workflow by name, to an
        agent as JSON.
        """
        name = self._spec.input
        if name is not None and name not in inputs:
            raise CallFailed(f"the sample has no input {name!r} for the message.", again=False)
        chosen = inputs if name is None else {name: inputs[name]}
        message = next(iter(chosen.values())) if len(chosen) == 1 else dict(chosen)
        return message if is_workflow or isinstance(message, str) else canonical(message).decode()


def _result(result: Any) -> Any:
    """The answer of an agent, or the outputs of a workflow: the only one, or a list of several."""
    if hasattr(result, "get_outputs"):
        from agent_framework import WorkflowRunState

        if result.get_final_state() == WorkflowRunState.IDLE_WITH_PENDING_REQUESTS:
            raise CallFailed(
                "the workflow waits for a person (request_info), who can't answer here.",
                again=False,
            )
        outputs = result.get_outputs()
        return outputs[0] if len(outputs) == 1 else outputs
    if getattr(result, "user_input_requests", None):
        raise CallFailed(
            "the agent waits for a person's approval, which nobody can give here.", again=False
        )
    return result


def _known(value: Any) -> Any:
    """An answer or a message as its text; a structured answer as its value."""
    from agent_framework import AgentExecutorResponse, AgentResponse, Message

    if isinstance(value, AgentExecutorResponse):
        value = value.agent_response
    if isinstance(value, AgentResponse):
        return value.text if value.value is None else value.value
    return value.text if isinstance(value, Message) else value
