"""Running a workflow on every sample, so many at a time, and writing down what happened as
evidence.

One finished sample is one `assay.run/1`, whatever became of it: a crash, a timeout or nonsense for
outputs is a run with that status, never a sample that is missing. A call that failed is made again
as often as the workflow allows; what the earlier tries used is counted, and so are they. The order
in which samples finish changes nothing: evidence depends on the sample alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.canon import canonical
from assay.errors import AssayError
from assay.files.json_files import Document, parse_json
from assay.records.reading import read_run
from assay.running.adapters import CallFailed, Task
from assay.running.checks import MAX_TEXT, said
from assay.running.recorder import Recorder, milliseconds
from assay.running.strategies import Plan, Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from assay.running.compatibility import Prepared
    from assay.running.dataset import Dataset
    from assay.running.recorder import Check
    from assay.running.workflow import Workflow

    Keep = Callable[[dict[str, Any]], None]
    Told = Callable[[str, str, dict[str, Any]], None]
    """Whoever watches: the run's id, the kind of event, and what it says."""
    After = Callable[[Prepared, dict[str, Any]], dict[str, Any]]
    """What is measured of a run after it: from the sample and its evidence to more evidence."""

BACKOFF_S = 0.2
"""Before the second try; each further one waits twice as long."""
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


class Settings(NamedTuple):
    """How to run. `now` fixes the clock: then no time is measured, because a clock that stands
    still measures nothing.
    """

    name: str
    concurrency: int = 8
    repeat: int = 1
    timeout_s: float | None = None
    retries: int | None = None
    now: str | None = None


class Work(NamedTuple):
    """One sample, one attempt."""

    sample: Prepared
    attempt: int
    run_id: str


def work_of(samples: Iterable[Prepared], settings: Settings) -> list[Work]:
    """All that is to be run, in the order of the samples."""
    attempts = range(1, settings.repeat + 1)
    if settings.repeat == 1:
        return [Work(sample, 1, f"{settings.name}:{sample.sample_id}") for sample in samples]
    return [
        Work(sample, attempt, f"{settings.name}:{sample.sample_id}:{attempt}")
        for sample in samples
        for attempt in attempts
    ]


class Runner:
    """A workflow on a dataset."""

    def __init__(
        self,
        workflow: Workflow,
        dataset: Dataset,
        settings: Settings,
        *,
        keep: Keep,
        tell: Told | None = None,
        after: Sequence[After] = (),
    ) -> None:
        self.workflow = workflow
        self.dataset = dataset
        self.settings = settings
        self._keep = keep
        self._tell = tell
        self._after = after
        self._plan = Plan(workflow)
        limits = workflow.spec.limits
        self._timeout = (
            settings.timeout_s if settings.timeout_s is not None else float(limits.timeout_s)
        )
        self._tries = 1 + (settings.retries if settings.retries is not None else limits.retries)
        self._check = _tool_check(workflow)

    async def run(self, work: Iterable[Work]) -> None:
        """Run all of it. Each finished run is kept before the next begins in its place."""
        queue = iter(work)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.settings.concurrency):
                    group.create_task(self._worker(queue))
        except BaseExceptionGroup as several:  # one worker's error has ended the others
            raise _first(several) from None
        finally:
            await self._plan.close()

    async def _worker(self, queue: Any) -> None:
        for one in queue:
            self._keep(await self.one(one))

    async def one(self, work: Work) -> dict[str, Any]:
        """The evidence of one run."""
        started = self._wall()
        head = self._head(work, started)
        self._say(
            work.run_id,
            "workflow_start",
            {"workflow": head["workflow"], "dataset": head["dataset"]},
        )
        clock = time.perf_counter_ns if self.settings.now is None else None
        began = clock() if clock is not None else 0
        spent: list[Recorder] = []
        record, status, outputs, error = await self._tried(work, clock, spent)
        latency = {} if clock is None else {"latency_ms": milliseconds(clock() - began)}
        run = {
            **head,
            "status": status,
            "outputs": outputs,
            **record.evidence(),
            **latency,
            "finished_at": self._wall(),
        }
        _count_earlier(run, spent)
        if error:
            run["metadata"] = {**run.get("metadata", {}), "error": error}
        run = _valid({key: value for key, value in run.items() if value is not None}, head)
        for measure in self._after:
            more = await asyncio.to_thread(measure, work.sample, run)
            run = _valid(
                {
                    **run,
                    **more,
                    "metadata": {**run.get("metadata", {}), **more.get("metadata", {})},
                },
                head,
            )
        said_at_end = {
            name: run.get(name)
            for name in ("status", "latency_ms", "cost_usd", "tokens", "retries")
        }
        self._say(work.run_id, "workflow_end", said_at_end)
        return run

    async def _tried(
        self, work: Work, clock: Callable[[], int] | None, spent: list[Recorder]
    ) -> tuple[Recorder, str, dict[str, Any] | None, str]:
        """The last try: its record, how it ended, its outputs, and what went wrong. The records of
        the tries before it go to `spent`.
        """
        while True:
            record = Recorder(
                clock=clock,
                tell=(
                    None
                    if self._tell is None
                    else lambda kind, fields: self._say(work.run_id, kind, fields)
                ),
                check=self._check,
            )
            task = Task(work.run_id, work.attempt, _decode(canonical(work.sample.inputs)))
            outputs: dict[str, Any] | None = None
            again = True
            limit = asyncio.timeout(self._timeout)
            try:
                try:
                    async with limit:
                        found = await self._plan.run(self._plan, task, record)
                    status, error = "success", ""
                except Unfinished as failed:
                    found, status, error = failed.outputs, failed.status, str(failed)
                outputs, again = self._checked(found), False
            except TimeoutError as failed:
                late = limit.expired()  # the workflow may raise one of its own
                status, error = (
                    ("timeout", f"it was not done after {self._timeout:g} s")
                    if late
                    else ("error", said(failed))
                )
            except CallFailed as failed:
                status, error, again = failed.status, str(failed), failed.again
            except AssayError as failed:
                status, error, again = "error", str(failed), False
            except Exception as failed:  # whatever a workflow raises is evidence
                status, error = "error", said(failed)
            record.close(status if status != "success" else "cancelled", "the run ended before it")
            if not again or len(spent) + 1 >= self._tries:
                return record, status, outputs, error[:MAX_TEXT]
            spent.append(record)
            await asyncio.sleep(BACKOFF_S * 2 ** (len(spent) - 1))

    def _checked(self, found: Any) -> dict[str, Any]:
        """Outputs that are what JSON can say, by name, and not too many bytes; else
        `CallFailed`.
        """
        if not isinstance(found, Mapping):
            raise CallFailed(
                f"the workflow returned {type(found).__name__}, not outputs by name.", again=False
            )
        try:
            data = canonical(found if type(found) is dict else dict(found))
        except (AssayError, TypeError, ValueError, RecursionError) as error:
            raise CallFailed(
                f"the outputs hold what JSON cannot say: {said(error)}.", again=False
            ) from None
        limit = self.workflow.spec.limits.max_output_bytes
        if len(data) > limit:
            raise CallFailed(
                f"the outputs are {len(data):,} bytes; the limit is"
                f" {limit:,} (limits.max_output_bytes).",
                again=False,
            )
        made: dict[str, Any] = parse_json(data)
        return made

    def _head(self, work: Work, started: str) -> dict[str, Any]:
        """What is known of a run before it begins."""
        spec, sample = self.workflow.spec, work.sample
        head: dict[str, Any] = {
            "schema": "assay.run/1",
            "run_id": work.run_id,
            "workflow": self.workflow.subject(),
            "dataset": {
                "id": self.dataset.id,
                "version": self.dataset.version,
                "sample_id": sample.sample_id,
            },
            "inputs": sample.inputs,
            "required_inputs": self.workflow.required_inputs,
            "required_outputs": self.workflow.required_outputs,
            "output_schema": spec.output_schema,
            "expected": sample.expected,
            "forbidden_tools": spec.forbidden_tools,
            "handoff_rules": spec.handoff_rules,
            "tags": [*spec.tags, *sample.tags],
            "group": sample.group,
            "attempt": work.attempt,
            "started_at": started,
            "metadata": {
                "workflow_digest": self.workflow.digest,
                "dataset_digest": self.dataset.digest,
                "strategy": spec.strategy,
            },
        }
        return {
            key: value
            for key, value in head.items()
            if value is not None and not (key == "tags" and not value)
        }

    def _wall(self) -> str:
        if self.settings.now is not None:
            return self.settings.now
        seconds = time.time()
        return (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            + f".{int(seconds * 1000) % 1000:03d}Z"
        )

    def _say(self, run_id: str, kind: str, fields: dict[str, Any]) -> None:
        if self._tell is not None:
            self._tell(run_id, kind, fields)


def _count_earlier(run: dict[str, Any], spent: list[Recorder]) -> None:
    """Add what the tries before the last one used: they were paid for. One whose use is unknown
    makes the sum unknown.
    """
    if not spent:
        return
    run["retries"] = (
        (run.get("retries") or 0) + len(spent) + sum(record.totals()["retries"] for record in spent)
    )
    for name in ("tokens", "cost_usd"):
        known = [run.get(name)] + [
            record.totals().get(name)
            for record in spent
            if record.steps and any(step.model is not None for step in record.steps)
        ]
        run[name] = sum(known) if None not in known else None


def _valid(run: dict[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """The run if it is one; else one that says why its own evidence was refused."""
    try:
        read_run(Document(run, "the workflow's evidence"))
        _encode(run)
    except (AssayError, TypeError, ValueError, OverflowError, RecursionError) as error:
        words = (
            "the workflow says of itself what cannot be:"
            f" {error.message if isinstance(error, AssayError) else said(error)}"
        )
        return {
            **head,
            "status": "error",
            "metadata": {**head.get("metadata", {}), "error": words[:MAX_TEXT]},
        }
    return run


def _tool_check(workflow: Workflow) -> Check | None:
    """Whether the arguments of a call keep the schema that the workflow declares for the tool. A
    tool that is not declared breaks it.
    """
    tools = workflow.spec.tools
    if tools is None:
        return None
    schemas = {tool.name: tool.parameters for tool in tools}

    def check(name: str, arguments: Any) -> bool | None:
        if name not in schemas:
            return False
        from assay.records import contract

        return contract.check(schemas[name], {} if arguments is None else arguments).passed

    return check


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group that is not a mere cancellation."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first(error)
        if not isinstance(error, asyncio.CancelledError):
            return error
    return group
