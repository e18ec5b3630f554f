"""A Python function as a workflow: `target: module:name`, called with the inputs, and with a
recorder if it takes a second argument.

A plain function gets a thread of its own: one that never returns is left behind when its time is
over, and costs nobody else a place. A coroutine function runs in the event loop and is cancelled.
What they return is checked by the runner.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.running.adapters.loading import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from assay.running.adapters import Task
    from assay.running.recorder import Recorder

KEYS = ("target",)


def make(spec: Mapping[str, Any], folder: Path, where: str) -> Callable_:
    """The adapter for a function."""
    unknown = sorted(set(spec) - set(KEYS))
    if unknown:
        raise InputError(
            "RUN-001",
            f"adapter has the key {unknown[0]!r}; a python adapter has {', '.join(KEYS)}.",
            where=where,
        )
    function = load(spec.get("target"), folder, where)
    if not callable(function):
        raise InputError(
            "RUN-004",
            f"{spec['target']!r} is {type(function).__name__}, which cannot be called.",
            where=where,
        )
    return Callable_(function, where)


class Callable_:  # noqa: N801
    """A function, called with the inputs of a task."""

    def __init__(self, function: Callable[..., Any], where: str) -> None:
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004
        )
        self._takes_record = _takes_two(function, where)

    async def call(self, task: Task, record: Recorder) -> Any:
        """What the function returns."""
        arguments: tuple[Any, ...] = (task.inputs, record) if self._takes_record else (task.inputs,)
        found = await (
            self._function(*arguments) if self._is_async else in_thread(self._function, *arguments)
        )
        return await found if inspect.isawaitable(found) else found

    async def close(self) -> None:
        """Nothing to let go of."""


def _takes_two(function: Callable[..., Any], where: str) -> bool:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [
        one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    needed = [
        one
        for one in parameters
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if len(needed) > 2 or not (
        positional or any(one.kind == one.VAR_POSITIONAL for one in parameters)
    ):
        raise InputError(
            "RUN-004",
            "a workflow function takes the inputs, and a recorder if it likes; this one takes"
            " something else.",
            where=where,
        )
    return len(positional) >= 2 and (
        positional[1].default is inspect.Parameter.empty
        or positional[1].name in ("record", "recorder")
    )


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a plain function in a thread that the process does not wait for at its end."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[Any] = loop.create_future()

    def settle(kind: Callable[[Any], None], value: Any) -> None:
        if not told.done():
            kind(value)

    def work() -> None:
        try:
            value = function(*arguments)
        except BaseException as error:  # whatever a workflow raises is evidence, `SystemExit` too
            caught = (
                error
                if isinstance(error, Exception)
                else RuntimeError(f"{type(error).__name__}: {error}")
            )
            _post(loop, settle, told.set_exception, caught)
        else:
            _post(loop, settle, told.set_result, value)

    threading.Thread(target=work, daemon=True, name="assay-workflow").start()
    return await told


def _post(loop: asyncio.AbstractEventLoop, *call: Any) -> None:
    with suppress(RuntimeError):  # the loop has ended: nobody waits any more
        loop.call_soon_threadsafe(*call)
