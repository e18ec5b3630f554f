"""Runs workflows for those who ask: takes executions from the queue and works on each (see
`execution`).

An execution that its server leaves, by its end or its death, is taken up by another: what is
finished is not repeated, and a run that was under way begins again with another `workflow_start`,
before its one evaluation.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from assay.running.catalogue import Offered
from assay.server.background import Background
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
        self._background = Background("executions", self._next, services.log, idle_s=IDLE_S)
        self.start, self.wake = self._background.start, self._background.wake

    async def close(self) -> None:
        """End the processes and give the executions back."""
        self._background.ending = True
        for work in self._works.values():
            work.ask("ending")
        await self._background.close()
        if self._works:
            await asyncio.wait(self._works, timeout=self._services.settings.shutdown_s)

    async def _next(self) -> bool:
        if len(self._works) >= AT_ONCE or self._services.stopping:
            return False
        found = await asyncio.to_thread(
            stored.claim,
            self._services.ledger.database,
            self._owner,
            able=self.offered is not None,
            is_dead=is_dead,
        )
        if found is not None:
            self._begin(found)
        return found is not None

    def _begin(self, execution: Execution) -> None:
        work = ExecutionWork(self._services, self.offered, execution, self._owner)
        task = asyncio.create_task(work.run())
        self._works[task] = work
        if self._background.ending:
            work.ask("ending")

        def over(done: asyncio.Task[None]) -> None:
            del self._works[done]
            self.wake()

        task.add_done_callback(over)
