"""The four strategies of workflows, and how each is run: once, in rounds, as a graph of steps, or
from agent to agent.

Each is a function from a task to outputs, over the adapters that the workflow file names. They
record steps and handoffs; an adapter that records its own steps (a graph of LangGraph, say) is
called once and its steps are kept. A critical step that fails ends the run; what was to come after
it is recorded as skipped, so that nothing is missing from the evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from assay.running.adapters import Adapter, WorkflowTask, make_adapter
from assay.running.dataset import lookup
from assay.running.workflow import LoadedWorkflow, Stage
from assay.tracing.failures import CallFailed, describe, ending
from assay.tracing.recorder import Recorder

Outputs = Mapping[str, Any]


class CallPlan:
    """A workflow with its adapters made, ready to be run many times."""

    def __init__(self, workflow: LoadedWorkflow) -> None:
        self.workflow = workflow
        spec = workflow.spec
        self.adapters: dict[str, Adapter] = {
            name: make_adapter(adapter, workflow.folder, where=workflow.where)
            for name, adapter in spec.adapters.items()
        }
        alone = spec.adapter is not None and spec.strategy != "iterative"
        self._strategy = _single if alone else STRATEGIES[spec.strategy]

    async def run(self, task: WorkflowTask, record: Recorder) -> Any:
        """The outputs of one call of the workflow."""
        return await self._strategy(self, task, record)

    async def close(self) -> None:
        """Close every adapter."""
        for adapter in self.adapters.values():
            await adapter.close()


class Unfinished(CallFailed):
    """The workflow ended without reaching its goal; its output is what it had by then."""

    def __init__(self, message: str, outputs: Outputs) -> None:
        super().__init__(message, again=False, status="failed")
        self.outputs = outputs


async def _called(adapter: Adapter, task: WorkflowTask, record: Recorder) -> Any:
    """The adapter's answer. A coroutine that tries to end the process or its task fails like a
    plain function; otherwise it would end the whole evaluation.
    """
    try:
        return await adapter.call(task, record)
    except (SystemExit, GeneratorExit, asyncio.CancelledError) as error:
        current = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and current and current.cancelling():
            raise  # it took too long, or the run is interrupted
        raise RuntimeError(describe(error)) from None


async def _as_step(
    adapter: Adapter, task: WorkflowTask, record: Recorder, name: str, *, agent: str | None = None
) -> Any:
    """One call as one step, unless the adapter records the steps inside it."""
    before = len(record.steps)
    began_ns = record.clock() if record.clock is not None else 0
    status, error = "success", None
    try:
        return await _called(adapter, task, record)
    except asyncio.CancelledError:
        status, error = "timeout", "cut off"
        raise
    except Exception as failure:
        status, error = ending(failure)
        raise
    finally:
        if len(record.steps) == before:
            step = record.begin(name, agent=agent)
            step.began_ns = began_ns
            step.end(status, error=error)


async def _single(plan: CallPlan, task: WorkflowTask, record: Recorder) -> Any:
    return await _as_step(plan.adapters[""], task, record, plan.workflow.id)


async def _iterative(plan: CallPlan, task: WorkflowTask, record: Recorder) -> Any:
    """Rounds: each gets the outputs of the one before as `previous`, until an output reports that
    it is done.
    """
    rounds = plan.workflow.spec.iterations
    outputs: Outputs = {}
    for number in range(1, rounds.maximum + 1):
        inputs = {**task.inputs, "iteration": number, "previous": dict(outputs)}
        result = await _as_step(
            plan.adapters[""], task._replace(inputs=inputs), record, f"iteration-{number}"
        )
        if not isinstance(result, Mapping):
            return result  # the runner reports what is wrong with it
        outputs = result
        if rounds.until is not None and lookup(outputs, rounds.until)[1] is True:
            return outputs
    if rounds.until is not None:
        raise Unfinished(f"'{rounds.until}' was not true after {rounds.maximum} rounds.", outputs)
    return outputs


async def _dag(plan: CallPlan, task: WorkflowTask, record: Recorder) -> Any:
    """Steps in the order of their needs; those that are ready run at the same time."""
    stages = {stage.name: stage for stage in plan.workflow.spec.steps or ()}
    results: dict[str, Outputs | None] = {}
    running: dict[asyncio.Task[Outputs | None], str] = {}
    failure: BaseException | None = None
    try:
        while True:
            for stage in stages.values() if failure is None else ():
                begun = stage.name in results or stage.name in running.values()
                if not begun and all(need in results for need in stage.needs):
                    started = asyncio.ensure_future(_stage(plan, stage, task, results, record))
                    running[started] = stage.name
            if not running:
                break
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                error = ended.exception()
                results[running.pop(ended)] = None if error is not None else ended.result()
                failure = failure or error
    finally:
        for unended in running:
            unended.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for name, stage in stages.items():
        if name not in results:
            _skip(stage, record, "a step before it failed")
    if failure is not None:
        raise failure
    return _collected(plan.workflow, results)


def _skip(stage: Stage, record: Recorder, reason: str) -> None:
    step = record.begin(stage.name, agent=stage.agent, critical=stage.critical)
    step.end("skipped", error=reason)


async def _stage(
    plan: CallPlan,
    stage: Stage,
    task: WorkflowTask,
    results: Mapping[str, Outputs | None],
    record: Recorder,
) -> Outputs | None:
    """One step of a graph. If an uncritical step fails, its outputs are absent."""
    if any(results[need] is None for need in stage.needs):
        _skip(stage, record, "a step that it needs failed")
        if stage.critical:
            raise CallFailed(
                f"the step '{stage.name}' needs one that failed.", again=False, status="failed"
            )
        return None
    step = record.begin(stage.name, agent=stage.agent, critical=stage.critical)
    inner = task._replace(inputs=_stage_inputs(stage, task.inputs, results))
    while True:
        try:
            outputs = await _called(plan.adapters[stage.name], inner, record)
            if not isinstance(outputs, Mapping):
                raise CallFailed(
                    f"the step '{stage.name}' returned {type(outputs).__name__}, not outputs by"
                    " name.",
                    again=False,
                )
        except asyncio.CancelledError:
            step.end("cancelled", error="cut off")
            raise
        except Exception as error:
            if step.retries < stage.retries and getattr(error, "again", True):
                step.retry()
                continue
            status, reason = ending(error)
            step.end(status, error=reason)
            if stage.critical:
                raise
            return None
        step.end()
        return outputs


def _stage_inputs(
    stage: Stage, inputs: Outputs, results: Mapping[str, Outputs | None]
) -> dict[str, Any]:
    """The inputs of a step: those it maps, else the workflow's inputs and the outputs of the steps
    it needs.
    """
    if stage.inputs is None:
        merged = dict(inputs)
        for need in stage.needs:
            merged.update(results[need] or {})
        return merged
    known = {"inputs": dict(inputs), **{name: dict(made or {}) for name, made in results.items()}}
    return {name: lookup(known, path)[1] for name, path in stage.inputs.items()}


def _collected(workflow: LoadedWorkflow, results: Mapping[str, Outputs | None]) -> dict[str, Any]:
    """The outputs of a graph: as the file maps them, or by name from the last step that has them.
    An output that no step gave stays absent.
    """
    known = {name: dict(made) for name, made in results.items() if made is not None}
    outputs: dict[str, Any] = {}
    for name, path in workflow.outputs.items():
        names = [stage.name for stage in reversed(workflow.spec.steps or ())]
        holders = [known[stage] for stage in names if name in known.get(stage, {})]
        present, value = lookup(known, path) if path is not None else (False, None)
        if present:
            outputs[name] = value
        elif path is None and holders:
            outputs[name] = holders[0][name]
    return outputs


async def _multi_agent(plan: CallPlan, task: WorkflowTask, record: Recorder) -> Any:
    """From agent to agent: each gets the inputs and all outputs so far, and names the next one by
    its output `handoff`.
    """
    spec = plan.workflow.spec
    agent = str(spec.start)
    outputs: dict[str, Any] = {}
    turns: dict[str, int] = {}
    record.watched("handoffs")
    for _ in range(spec.max_handoffs + 1):
        turns[agent] = turns.get(agent, 0) + 1
        result = await _as_step(
            plan.adapters[agent],
            task._replace(inputs={**task.inputs, **outputs}),
            record,
            agent if turns[agent] == 1 else f"{agent}-{turns[agent]}",
            agent=agent,
        )
        if not isinstance(result, Mapping):
            return result
        outputs.update(result)
        following = outputs.pop("handoff", None)
        if following is None:
            return outputs
        record.handoff(agent, str(following))
        if following not in (spec.agents or {}):
            raise Unfinished(
                f"the agent '{agent}' hands over to {following!r}, an unknown agent.", outputs
            )
        agent = following
    raise Unfinished(f"the agents handed over more than {spec.max_handoffs} times.", outputs)


STRATEGIES: dict[str, Callable[[CallPlan, WorkflowTask, Recorder], Awaitable[Any]]] = {
    "single": _single,
    "iterative": _iterative,
    "dag": _dag,
    "multi_agent": _multi_agent,
}
