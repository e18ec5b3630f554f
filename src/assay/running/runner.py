"""Running a workflow on every sample, several at a time, and recording what happened as evidence.

One finished sample is one `assay.run/1`, however it ended: a crash, a timeout or malformed output
is a run with that status, never a missing sample. Failed calls are retried as often as the workflow
allows; earlier tries and their usage are counted. The order in which samples finish changes
nothing: evidence depends on the sample alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from assay.canon import canonical, digest, time_text
from assay.errors import AssayError
from assay.files.json_files import Document, parse_json
from assay.records.reading import read_run
from assay.running.adapters import WorkflowTask
from assay.running.compatibility import PreparedSample
from assay.running.dataset import LoadedDataset
from assay.running.strategies import CallPlan, Unfinished
from assay.running.workflow import LoadedWorkflow
from assay.scoring.gates import may_be_forbidden
from assay.tracing.failures import MAX_ERROR, CallFailed, describe, ending
from assay.tracing.recorder import Recorder, ToolCheck, elapsed_ms
from assay.tracing.rules import keeps, listed_tools

Keep = Callable[[dict[str, Any]], None]
RunNotify = Callable[[str, str, dict[str, Any]], None]
"""Called with the run's id, the kind of event, and its fields."""
PostRun = Callable[[PreparedSample, dict[str, Any]], dict[str, Any]]
"""What is measured after a run: from the sample and its evidence to more evidence."""

BACKOFF_S = 0.2
"""The wait before the second try; each further one waits twice as long."""
END_FIELDS = ("status", "latency_ms", "cost_usd", "tokens", "retries")
"""What the event `workflow_end` carries."""
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


class RunSettings(NamedTuple):
    """How to run. `now` fixes the clock; then no time is measured."""

    name: str
    concurrency: int = 8
    repeat: int = 1
    timeout_s: float | None = None
    retries: int | None = None
    now: str | None = None


class SampleWork(NamedTuple):
    """One sample, one attempt."""

    sample: PreparedSample
    attempt: int
    run_id: str


def work_of(samples: Iterable[PreparedSample], settings: RunSettings) -> list[SampleWork]:
    """All the work, in the order of the samples."""
    return [
        SampleWork(
            sample,
            attempt,
            f"{settings.name}:{sample.sample_id}" + (f":{attempt}" if settings.repeat > 1 else ""),
        )
        for sample in samples
        for attempt in range(1, settings.repeat + 1)
    ]


def utc_now() -> str:
    """Now in UTC, to the millisecond."""
    return time_text(datetime.now(UTC), "milliseconds")


class _Tried(NamedTuple):
    """How one try ended."""

    record: Recorder
    status: str
    outputs: dict[str, Any] | None
    error: str
    again: bool


class Runner:
    """A workflow on a dataset."""

    def __init__(
        self,
        workflow: LoadedWorkflow,
        dataset: LoadedDataset,
        settings: RunSettings,
        *,
        keep: Keep,
        notify: RunNotify | None = None,
        after: Sequence[PostRun] = (),
    ) -> None:
        self.workflow = workflow
        self.dataset = dataset
        self.settings = settings
        self._keep = keep
        self._notify = notify
        self._after = after
        self._plan = CallPlan(workflow)
        limits = workflow.spec.limits
        self._timeout = (
            settings.timeout_s if settings.timeout_s is not None else float(limits.timeout_s)
        )
        self._tries = 1 + (settings.retries if settings.retries is not None else limits.retries)
        self._check = _tool_check(workflow)
        tools = workflow.spec.tools
        self._tools = (
            None
            if tools is None
            else listed_tools([{tool.name: tool.parameters for tool in tools}])
        )

    async def run(self, work: Iterable[SampleWork]) -> None:
        """Run everything. Each finished run is recorded before the next one starts."""
        queue = iter(work)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.settings.concurrency):
                    group.create_task(self._worker(queue))
        except BaseExceptionGroup as several:  # one worker's error has ended the others
            raise _first(several) from None
        finally:
            await self._plan.close()

    async def _worker(self, queue: Iterator[SampleWork]) -> None:
        for work in queue:
            self._keep(await self.run_sample(work))

    async def run_sample(self, work: SampleWork) -> dict[str, Any]:
        """The evidence of one run."""
        head = self._head(work, self._wall())
        self._tell(
            work.run_id,
            "workflow_start",
            {"workflow": head["workflow"], "dataset": head["dataset"]},
        )
        clock = time.perf_counter_ns if self.settings.now is None else None
        began = clock() if clock is not None else 0
        *spent, last = [tried async for tried in self._attempts(work, clock)]
        run = {
            **head,
            "status": last.status,
            "outputs": last.outputs,
            **last.record.evidence(),
            **({} if clock is None else {"latency_ms": elapsed_ms(clock() - began)}),
            "finished_at": self._wall(),
        }
        _count_earlier(run, [tried.record for tried in spent])
        keep_forbidden(run, [tried.record.evidence() for tried in spent])
        _add_declared(run, self._tools)
        if last.error:
            run["metadata"] = head["metadata"] | {"error": last.error}
        run = _valid({key: value for key, value in run.items() if value is not None}, head)
        for measure in self._after:
            more = await asyncio.to_thread(measure, work.sample, run)
            metadata = {**run.get("metadata", {}), **more.get("metadata", {})}
            run = _valid({**run, **more, "metadata": metadata}, head)
        self._tell(work.run_id, "workflow_end", {name: run.get(name) for name in END_FIELDS})
        return run

    async def _attempts(
        self, work: SampleWork, clock: Callable[[], int] | None
    ) -> AsyncIterator[_Tried]:
        """Each try, until one needs no other."""
        for number in range(self._tries):
            if number:
                await asyncio.sleep(BACKOFF_S * 2 ** (number - 1))
            tried = await self._try(work, clock)
            yield tried
            if not tried.again:
                return

    async def _try(self, work: SampleWork, clock: Callable[[], int] | None) -> _Tried:
        record = Recorder(
            clock=clock,
            notify=(
                None
                if self._notify is None
                else lambda kind, fields: self._tell(work.run_id, kind, fields)
            ),
            check=self._check,
        )
        task = WorkflowTask(work.run_id, work.attempt, _decode(canonical(work.sample.inputs)))
        outputs: dict[str, Any] | None = None
        status, error, again = "success", "", False
        limit = asyncio.timeout(self._timeout)
        try:
            try:
                async with limit:
                    result = await self._plan.run(task, record)
            except Unfinished as failure:
                result, status, error = failure.outputs, failure.status, str(failure)
            if limit.expired():  # a coroutine may swallow its cancellation and answer anyway
                raise TimeoutError
            outputs = self._checked(result)
        except Exception as failure:  # whatever a workflow raises is evidence
            status, error = ending(failure)
            again = (
                failure.again
                if isinstance(failure, CallFailed)
                else not isinstance(failure, AssayError)
            )
            # a workflow may raise a TimeoutError itself
            if isinstance(failure, TimeoutError) and limit.expired():
                status, error = "timeout", f"it did not finish within {self._timeout:g} s"
            elif isinstance(failure, AssayError):
                error = str(failure)
        record.close(status if status != "success" else "cancelled", "the run ended before it")
        return _Tried(record, status, outputs, error[:MAX_ERROR], again)

    def _checked(self, result: Any) -> dict[str, Any]:
        """The outputs by name, as JSON values. Raises `CallFailed` if they are not, or too
        large.
        """
        if not isinstance(result, Mapping):
            raise CallFailed(
                f"the workflow returned {type(result).__name__}, not outputs by name.", again=False
            )
        try:
            data = canonical(dict(result))
        except (AssayError, TypeError, ValueError, RecursionError) as error:
            raise CallFailed(
                f"the outputs can't be written as JSON: {describe(error)}.", again=False
            ) from None
        limit = self.workflow.spec.limits.max_output_bytes
        if len(data) > limit:
            raise CallFailed(
                f"the outputs are {len(data):,} bytes; the limit is"
                f" {limit:,} (limits.max_output_bytes).",
                again=False,
            )
        return dict(parse_json(data))

    def _head(self, work: SampleWork, started: str) -> dict[str, Any]:
        """What is known about a run before it begins."""
        spec, sample = self.workflow.spec, work.sample
        head = {
            "schema": "assay.run/1",
            "run_id": work.run_id,
            "workflow": self.workflow.subject(),
            "dataset": {
                "id": self.dataset.id,
                "version": self.dataset.version,
                "sample_id": sample.sample_id,
                "row": digest(sample.row),
            },
            "inputs": sample.inputs,
            "required_inputs": self.workflow.required_inputs,
            "required_outputs": self.workflow.required_outputs,
            "output_schema": spec.output_schema,
            "expected": sample.expected,
            "forbidden_tools": spec.forbidden_tools,
            "tools": self._tools,
            "handoff_rules": spec.handoff_rules,
            "testing": None if spec.repository is None else spec.repository.testing,
            "assertions": list(sample.assertions) if sample.assertions else None,
            "tags": [*spec.tags, *sample.tags] or None,
            "group": sample.group,
            "attempt": work.attempt,
            "attempts": self.settings.repeat,
            "started_at": started,
            "metadata": {
                "workflow_digest": self.workflow.digest,
                "dataset_digest": self.dataset.digest,
                "strategy": spec.strategy,
                **self.workflow.plugins,
            },
        }
        return {key: value for key, value in head.items() if value is not None}

    def _wall(self) -> str:
        return self.settings.now if self.settings.now is not None else utc_now()

    def _tell(self, run_id: str, kind: str, fields: dict[str, Any]) -> None:
        if self._notify is not None:
            self._notify(run_id, kind, fields)


def _add_declared(run: dict[str, Any], declared: list[dict[str, Any]] | None) -> None:
    """Add the declared tools to those that the models were shown."""
    shown = run.get("tools")
    if declared and isinstance(shown, list):
        run["tools"] = [*declared, *(tool for tool in shown if tool not in declared)]


def _count_earlier(run: dict[str, Any], spent: list[Recorder]) -> None:
    """Add the usage of earlier tries, which were paid for. If the usage of one is unknown, so is
    the sum.
    """
    if not spent:
        return
    totals = [record.totals() for record in spent]
    run["retries"] = run["retries"] + len(spent) + sum(total["retries"] for total in totals)
    for name in ("tokens", "cost_usd"):
        known = [run.get(name)] + [
            total.get(name)
            for record, total in zip(spent, totals, strict=True)
            if any(step.model is not None for step in record.steps)
        ]
        run[name] = sum(known) if None not in known else None


def keep_forbidden(run: dict[str, Any], earlier: Sequence[Mapping[str, Any]]) -> None:
    """Keep forbidden tool calls and handoffs of earlier tries: another try does not undo them."""
    barred, rules = run.get("forbidden_tools", ()), run.get("handoff_rules")
    kept = {
        "tool_calls": [
            call
            for tried in earlier
            for call in tried.get("tool_calls", ())
            if may_be_forbidden(call["name"], barred)
        ],
        "handoffs": [
            handoff
            for tried in earlier
            for handoff in tried.get("handoffs", ())
            if rules is not None and [handoff["from"], handoff["to"]] not in map(list, rules)
        ],
    }
    for name, calls in kept.items():
        if calls:
            run[name] = [*calls, *run.get(name, ())]


def _valid(run: dict[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """The run if it is valid; else a run with the reason why its evidence was refused."""
    try:
        read_run(Document(run, "the workflow's evidence"))
        _encode(run)
    except (AssayError, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = error.message if isinstance(error, AssayError) else describe(error)
        refused = f"the evidence that the workflow reported is invalid: {reason}"[:MAX_ERROR]
        return {**head, "status": "error", "metadata": {**head["metadata"], "error": refused}}
    return run


def _tool_check(workflow: LoadedWorkflow) -> ToolCheck | None:
    """Whether the arguments of a call match the schema that the workflow declares for the tool;
    False for an undeclared tool.
    """
    tools = workflow.spec.tools
    if tools is None:
        return None
    schemas = {tool.name: tool.parameters for tool in tools}
    return lambda name, arguments: keeps(schemas[name], arguments) if name in schemas else False


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group that isn't just a cancellation."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first(error)
        if not isinstance(error, asyncio.CancelledError):
            return error
    return group
