"""An agent or a workflow of Microsoft Agent Framework: `target` is one of them, or a function that
builds one.

The evidence comes from the framework's own OpenTelemetry spans, by the rules of `trail`: a span
processor hears every span and gives it to the run in whose context it began, so that runs side by
side do not mix. A tracer provider that the program has set stays in place and keeps its exporters;
where there is none, one without exporters is set. The arguments of tools are in the spans only if
the framework is told to write content: with somebody else's exporter in the process that is theirs
to allow, by `content: true`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.canon import canonical
from assay.errors import InputError
from assay.running.adapters import CallFailed
from assay.running.adapters.agent_framework_spans import Watch, listen, watching
from assay.running.adapters.loading import load
from assay.running.adapters.targets import (
    agents_of,
    built,
    check_keys,
    framework,
    outputs_of,
    plain,
)
from assay.running.adapters.trail import Trail
from assay.running.checks import said

if TYPE_CHECKING:
    from pathlib import Path

    from assay.running.adapters import Task
    from assay.running.recorder import Recorder

KEYS = ("target", "input", "output", "agents", "content")


def make(spec: Mapping[str, Any], folder: Path, where: str) -> AgentFramework:
    """The adapter for an agent or a workflow."""
    check_keys(spec, KEYS, "an agent_framework adapter", where)
    if not isinstance(spec.get("input", ""), str) or not isinstance(
        spec.get("content", False), bool
    ):
        raise InputError(
            "RUN-001",
            "adapter.input names one input, and adapter.content is true or false.",
            where=where,
        )
    framework("agent_framework", "agent-framework", where)
    framework("opentelemetry.sdk.trace", "agent-framework", where)
    target = load(spec.get("target"), folder, where)
    if not (_is_ready(target) or callable(target)):
        raise InputError(
            "RUN-004",
            f"{spec['target']!r} is {type(target).__name__}; it is an agent, a workflow, or builds"
            " one.",
            where=where,
        )
    return AgentFramework(target, spec, where)


def _is_ready(target: Any) -> bool:
    return not isinstance(target, type) and callable(getattr(target, "run", None))


def _is_workflow(target: Any) -> bool:
    from agent_framework import FunctionalWorkflow, Workflow

    return isinstance(target, Workflow | FunctionalWorkflow)


class AgentFramework:
    """An agent or a workflow, called with a message made of the inputs of a task."""

    def __init__(self, target: Any, spec: Mapping[str, Any], where: str) -> None:
        self._target = target
        self._spec = spec
        self._where = where
        self._agents = agents_of(spec)

    async def call(self, task: Task, record: Recorder) -> Mapping[str, Any]:
        """What the agent answers or the workflow puts out."""
        target = await built(self._target, _is_ready)
        if not _is_ready(target):
            raise InputError(
                "RUN-004",
                f"{self._spec['target']!r} gives {type(target).__name__}; it gives an agent or a"
                " workflow.",
                where=self._where,
            )
        is_workflow = _is_workflow(target)
        if is_workflow and target is self._target:
            target = self._fresh(target)
        listen(content=self._spec.get("content", False), where=self._where)
        watch = Watch(Trail(record, agents=self._agents))
        record.watched("handoffs")
        interrupted = True
        try:
            with watching(watch):
                result = await target.run(self._message(task.inputs, is_workflow))
            interrupted = False
        except Exception:
            interrupted = False
            raise
        finally:
            watch.trail.close(interrupted=interrupted)
        if watch.fault is not None:
            raise watch.fault
        if not watch.heard:
            raise CallFailed(
                "no span of the run was recorded, so there is no evidence: a sampler or"
                " OTEL_SDK_DISABLED leaves them out.",
                again=False,
            )
        return outputs_of(plain(_result(result), _known), self._spec.get("output"))

    async def close(self) -> None:
        """Nothing to let go of."""

    def _fresh(self, workflow: Any) -> Any:
        """A copy: a workflow keeps its state and its conversations, and the next sample must not
        find them.
        """
        try:
            return copy.deepcopy(workflow)
        except Exception as error:
            raise InputError(
                "RUN-004",
                f"{self._spec['target']!r} is a workflow, which remembers samples, and cannot be"
                f" copied: {said(error)}.",
                where=self._where,
                fix="Name a function that builds it: it is called for every sample.",
            ) from None

    def _message(self, inputs: Mapping[str, Any], is_workflow: bool) -> Any:
        """One input is the message itself. Several are given together: to a workflow by name, to an
        agent as JSON.
        """
        name = self._spec.get("input")
        if name is not None and name not in inputs:
            raise CallFailed(f"the sample has no input {name!r} for the message.", again=False)
        message = (
            inputs[name]
            if name is not None
            else next(iter(inputs.values()))
            if len(inputs) == 1
            else dict(inputs)
        )
        return message if is_workflow or isinstance(message, str) else canonical(message).decode()


def _result(result: Any) -> Any:
    """The answer of an agent, or what a workflow put out: alone if it is one, a list if they are
    several.
    """
    if hasattr(result, "get_outputs"):
        from agent_framework import WorkflowRunState

        if result.get_final_state() == WorkflowRunState.IDLE_WITH_PENDING_REQUESTS:
            raise CallFailed(
                "the workflow waits for a person (request_info), and there is none.", again=False
            )
        outputs = result.get_outputs()
        return outputs[0] if len(outputs) == 1 else outputs
    if getattr(result, "user_input_requests", None):
        raise CallFailed("the agent waits for a person's approval, and there is none.", again=False)
    return result


def _known(value: Any) -> Any:
    """An answer or a message as its text; a structured answer as what it holds."""
    from agent_framework import AgentExecutorResponse, AgentResponse, Message

    if isinstance(value, AgentExecutorResponse):
        value = value.agent_response
    if isinstance(value, AgentResponse):
        held = value.value
        return value.text if held is None else held
    return value.text if isinstance(value, Message) else value
