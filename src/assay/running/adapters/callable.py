"""A Python function as a workflow: `target: module:name`, called with the inputs, and with a
recorder if it takes a second argument. It returns its outputs by name, or one answer.

Each call of a plain function gets its own thread. A function that never returns is abandoned when
it times out, and doesn't block other calls. A coroutine function runs in the event loop and is
cancelled.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.running.adapters import Adapter, AdapterSpec, WorkflowTask, read_spec
from assay.running.adapters.loading import load

if TYPE_CHECKING:
    from pathlib import Path

    from assay.tracing.recorder import Recorder


class PythonSpec(AdapterSpec, frozen=True, kw_only=True):
    """The keys of a python adapter."""

    target: str


def make(given: Mapping[str, Any], folder: Path, where: str) -> FunctionAdapter:
    """A Python function."""
    spec = read_spec(given, PythonSpec, where)
    function = load(spec.target, folder, where)
    if not callable(function):
        raise InputError(
            "RUN-004",
            f"{spec.target!r} is {type(function).__name__}, which isn't callable.",
            where=where,
        )
    return FunctionAdapter(function, where)


class FunctionAdapter(Adapter):
    """A function, called with the inputs of a task."""

    def __init__(self, function: Callable[..., Any], where: str) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004
        )
        self._takes_record = _takes_two(function, where)

    async def call(self, task: WorkflowTask, record: Recorder) -> Any:
        """What the function returns; anything but a mapping is its output `answer`."""
        arguments: tuple[Any, ...] = (task.inputs, record) if self._takes_record else (task.inputs,)
        result = await (
            self._function(*arguments) if self._is_async else in_thread(self._function, *arguments)
        )
        result = await result if inspect.isawaitable(result) else result
        return result if result is None or isinstance(result, Mapping) else {"answer": result}


def _takes_two(function: Callable[..., Any], where: str) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind({})
    except TypeError:
        try:
            signature.bind({}, None)
        except TypeError:
            raise InputError(
                "RUN-004",
                "a workflow function takes the inputs and optionally a recorder; this one takes"
                " something else.",
                where=where,
                fix="Declare it as `def answer(inputs)` or `def answer(inputs, record)`.",
            ) from None
        return True
    # the second argument is optional: only its name shows whether it is meant for the recorder
    names = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return names[1:2] in (["record"], ["recorder"])


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a plain function in a daemon thread, which the process doesn't wait for when it ends."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(kind: Callable[[Any], None], value: Any) -> None:
        if not answer.done():
            kind(value)

    def work() -> None:
        settled: tuple[Callable[[Any], None], Any]
        try:
            settled = answer.set_result, function(*arguments)
        except Exception as error:
            settled = answer.set_exception, error
        except BaseException as error:  # whatever a workflow raises is evidence, `SystemExit` too
            settled = answer.set_exception, RuntimeError(f"{type(error).__name__}: {error}")
        with suppress(RuntimeError):  # the loop has ended: nothing waits for the answer
            loop.call_soon_threadsafe(settle, *settled)

    threading.Thread(target=work, daemon=True, name="assay-workflow").start()
    return await answer
