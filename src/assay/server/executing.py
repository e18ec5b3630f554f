"""Runs workflows for those who ask: takes executions from the queue and works on each (see
`execution`).

An execution that its server leaves, by its end or its death, is taken up by another: what is
finished is not repeated, and a run that was under way begins again with another `workflow_start`,
before its one evaluation.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from assay.running.catalogue import Offered
from assay.server.execution import ExecutionWork
from assay.server.owners import is_dead, own_name
from assay.store import executions as stored

if TYPE_CHECKING:
    from assay.server.state import Services
    from assay.store.executions import Execution

AT_ONCE = 2
"""Executions that one process of the server works on at the same time."""
IDLE_S = 0.5


class Executor:
    """The executions of one server. One that offers no workflows still ends what is cancelled."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self.offered = (
            None if settings.workflows is None else Offered(settings.workflows, settings.datasets)
        )
        self._services = services
        self._owner = own_name()
        self._works: dict[asyncio.Task[None], ExecutionWork] = {}
        self._task: asyncio.Task[None] | None = None
        self._ending = False
        self._woken = asyncio.Event()

    def start(self) -> None:
        """Begin to look for executions."""
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    async def close(self) -> None:
        """End the processes and give the executions back."""
        self._ending = True
        self.wake()
        for work in self._works.values():
            work.ask("ending")
        if self._task is not None:
            await self._task
        if self._works:
            await asyncio.wait(self._works, timeout=self._services.settings.shutdown_s)

    async def _run(self) -> None:
        while not self._ending:
            self._woken.clear()
            try:
                while (
                    len(self._works) < AT_ONCE and not self._ending and not self._services.stopping
                ):
                    found = await asyncio.to_thread(
                        stored.claim,
                        self._services.ledger.database,
                        self._owner,
                        able=self.offered is not None,
                        is_dead=is_dead,
                    )
                    if found is None:
                        break
                    self._begin(found)
            except (
                Exception
            ) as error:  # a database that is away comes back; somebody must still be there then
                self._services.log.fault("executions", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), IDLE_S)

    def _begin(self, execution: Execution) -> None:
        work = ExecutionWork(self._services, self.offered, execution, self._owner)
        task = asyncio.create_task(work.run())
        self._works[task] = work
        if self._ending:
            work.ask("ending")

        def over(done: asyncio.Task[None]) -> None:
            del self._works[done]
            self.wake()

        task.add_done_callback(over)
