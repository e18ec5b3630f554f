"""The four ways a workflow goes on, and how each is run: once, in rounds, as a graph of steps, or
from agent to agent.

Each is a function from a task to outputs, over the adapters that the workflow file names. They
write steps and handoffs into the recorder; an adapter that records steps of its own (a graph of
LangGraph, say) is asked once and its steps stand. A step that fails and is critical ends the run;
what was to come after it is recorded as skipped, so that nothing is missing from the evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from assay.running.adapters import CallFailed, Task, make_adapter
from assay.running.checks import said
from assay.running.dataset import lookup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from assay.running.adapters import Adapter
    from assay.running.recorder import OpenStep, Recorder
    from assay.running.workflow import Stage, Workflow

    Run = Callable[["Plan", Task, Recorder], Awaitable[Any]]


class Plan:
    """A workflow with its adapters made, ready to be run many times."""

    def __init__(self, workflow: Workflow) -> None:
        self.workflow = workflow
        spec = workflow.spec
        specs: dict[str, dict[str, Any]] = {}
        if spec.adapter is not None:
            specs[""] = spec.adapter
        specs.update({step.name: step.adapter for step in spec.steps or ()})
        specs.update({name: agent.adapter for name, agent in (spec.agents or {}).items()})
        self.adapters: dict[str, Adapter] = {
            name: make_adapter(one, workflow.folder, where=workflow.where)
            for name, one in specs.items()
        }
        self.run: Run = (
            _single
            if spec.adapter is not None and spec.strategy != "iterative"
            else RUNNERS[spec.strategy]
        )

    async def close(self) -> None:
        """Let go of every adapter."""
        for adapter in self.adapters.values():
            await adapter.close()


async def _alone(
    adapter: Adapter, task: Task, record: Recorder, name: str, *, agent: str | None = None
) -> Any:
    """One call as one step, unless the adapter records the steps inside it."""
    before = len(record.steps)
    began = record.clock() if record.clock is not None else 0

    def whole() -> OpenStep | None:
        if len(record.steps) > before:
            return None
        step = record.begin(name, agent=agent)
        step.began(began)
        return step

    try:
        outputs = await adapter.call(task, record)
    except asyncio.CancelledError:
        step = whole()
        if step is not None:
            step.end("timeout", error="cut off")
        raise
    except Exception as error:
        step = whole()
        if step is not None:
            step.end(
                error.status if isinstance(error, CallFailed) else "error",
                error=said(error) if not isinstance(error, CallFailed) else str(error),
            )
        raise
    step = whole()
    if step is not None:
        step.end()
    return outputs


async def _single(plan: Plan, task: Task, record: Recorder) -> Any:
    return await _alone(plan.adapters[""], task, record, plan.workflow.id)


async def _iterative(plan: Plan, task: Task, record: Recorder) -> Any:
    """Rounds: each gets the outputs of the one before as `previous`, until an output says that it
    is done.
    """
    rounds = plan.workflow.spec.iterations
    outputs: Mapping[str, Any] = {}
    for number in range(1, rounds.maximum + 1):
        inputs = {**task.inputs, "iteration": number, "previous": dict(outputs)}
        found = await _alone(
            plan.adapters[""], task._replace(inputs=inputs), record, f"iteration-{number}"
        )
        if not isinstance(found, Mapping):
            return found  # the runner says what is wrong with it
        outputs = found
        if rounds.until is not None and lookup(outputs, rounds.until)[1] is True:
            return outputs
    if rounds.until is not None:
        raise Unfinished(f"'{rounds.until}' was not true after {rounds.maximum} rounds.", outputs)
    return outputs


class Unfinished(CallFailed):
    """The workflow ended without reaching its own aim; what it had by then is its output."""

    def __init__(self, message: str, outputs: Mapping[str, Any]) -> None:
        super().__init__(message, again=False, status="failed")
        self.outputs = outputs


async def _dag(plan: Plan, task: Task, record: Recorder) -> Any:
    """Steps in the order of their needs, those that are ready at the same time."""
    stages = {stage.name: stage for stage in plan.workflow.spec.steps or ()}
    results: dict[str, Mapping[str, Any] | None] = {}
    running: dict[asyncio.Task[Mapping[str, Any] | None], str] = {}
    failure: BaseException | None = None
    try:
        while len(results) < len(stages):
            if failure is None:
                for stage in stages.values():
                    waiting = stage.name not in results and stage.name not in running.values()
                    if waiting and all(need in results for need in stage.needs):
                        running[
                            asyncio.ensure_future(_stage(plan, stage, task, results, record))
                        ] = stage.name
            if not running:
                break
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                name = running.pop(one)
                error = one.exception()
                results[name] = None if error is not None else one.result()
                failure = failure or error
    finally:
        for one in running:
            one.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)
    for name, stage in stages.items():
        if name not in results:
            record.begin(name, agent=stage.agent, critical=stage.critical).end(
                "skipped", error="a step before it failed"
            )
    if failure is not None:
        raise failure
    return _collected(plan.workflow, results)


async def _stage(
    plan: Plan,
    stage: Stage,
    task: Task,
    results: Mapping[str, Mapping[str, Any] | None],
    record: Recorder,
) -> Mapping[str, Any] | None:
    """One step of a graph. One that may fail does so quietly: its outputs are absent."""
    if any(results[need] is None for need in stage.needs):
        record.begin(stage.name, agent=stage.agent, critical=stage.critical).end(
            "skipped", error="a step that it needs failed"
        )
        if stage.critical:
            raise CallFailed(
                f"the step '{stage.name}' needs one that failed.", again=False, status="failed"
            )
        return None
    step = record.begin(stage.name, agent=stage.agent, critical=stage.critical)
    inner = task._replace(inputs=_stage_inputs(stage, task.inputs, results))
    for tries in range(stage.retries + 1):
        try:
            outputs = await plan.adapters[stage.name].call(inner, record)
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
            if tries < stage.retries and getattr(error, "again", True):
                step.retry()
                continue
            words = str(error) if isinstance(error, CallFailed) else said(error)
            step.end(error.status if isinstance(error, CallFailed) else "error", error=words)
            if stage.critical:
                raise
            return None
        step.end()
        return outputs
    raise AssertionError("unreachable")


def _stage_inputs(
    stage: Stage, inputs: Mapping[str, Any], results: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """What a step gets: what it maps, or else the inputs of the workflow and the outputs of what it
    needs.
    """
    known: dict[str, Any] = {
        "inputs": dict(inputs),
        **{name: dict(found or {}) for name, found in results.items()},
    }
    if stage.inputs is not None:
        return {name: lookup(known, path)[1] for name, path in stage.inputs.items()}
    merged = dict(inputs)
    for need in stage.needs:
        merged.update(results[need] or {})
    return merged


def _collected(
    workflow: Workflow, results: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """The outputs of a graph: as the file maps them, or by name from the last step that has them.
    One that nobody gave stays absent.
    """
    known = {name: dict(found) for name, found in results.items() if found is not None}
    outputs: dict[str, Any] = {}
    for name, path in workflow.outputs.items():
        if path is not None:
            found, value = lookup(known, path)
            if found:
                outputs[name] = value
            continue
        for stage in reversed(workflow.spec.steps or ()):
            if name in known.get(stage.name, {}):
                outputs[name] = known[stage.name][name]
                break
    return outputs


async def _multi_agent(plan: Plan, task: Task, record: Recorder) -> Any:
    """From agent to agent: each gets the inputs and all outputs so far, and names the next one by
    its output `handoff`.
    """
    spec = plan.workflow.spec
    agents = spec.agents or {}
    current = str(spec.start)
    outputs: dict[str, Any] = {}
    record.watched("handoffs")
    turns: dict[str, int] = {}
    for _ in range(spec.max_handoffs + 1):
        turns[current] = turns.get(current, 0) + 1
        name = current if turns[current] == 1 else f"{current}-{turns[current]}"
        found = await _alone(
            plan.adapters[current],
            task._replace(inputs={**task.inputs, **outputs}),
            record,
            name,
            agent=current,
        )
        if not isinstance(found, Mapping):
            return found
        step_outputs = dict(found)
        following = step_outputs.pop("handoff", None)
        outputs.update(step_outputs)
        if following is None:
            return outputs
        record.handoff(current, str(following))
        if following not in agents:
            raise Unfinished(
                f"the agent '{current}' hands on to {following!r}, whom nobody knows.", outputs
            )
        current = following
    raise Unfinished(f"the agents handed on more than {spec.max_handoffs} times.", outputs)


RUNNERS: dict[str, Run] = {
    "single": _single,
    "iterative": _iterative,
    "dag": _dag,
    "multi_agent": _multi_agent,
}
