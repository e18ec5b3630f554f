"""Background work of a server: jobs, executions, traces. Each task polls for the next piece of
work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from assay.server.logs import Log


class Background:
    """One task. `step` does a piece of work and returns whether there was one."""

    def __init__(
        self, name: str, step: Callable[[], Awaitable[bool]], log: Log, *, idle_s: float
    ) -> None:
        self._name = name
        self._step = step
        self._log = log
        self._idle_s = idle_s
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.ending = False

    def start(self) -> None:
        """Start looking for work."""
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Look for work now."""
        self._woken.set()

    async def close(self) -> None:
        """Finish the current piece of work."""
        self.ending = True
        self.wake()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self.ending:
            self._woken.clear()
            try:
                if await self._step():
                    continue
            except Exception as error:  # keep going: the database may come back
                self._log.fault(self._name, error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._idle_s)
