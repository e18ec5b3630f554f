"""Background work of a server: jobs, executions, traces. Each task polls for the next piece of
work.

A job has an owner, the name of a process. On the same machine a dead process can be detected, so a
restarted server takes its jobs over at once. On other machines a job is free when its owner has
been silent for long enough.
"""

from __future__ import annotations

import asyncio
import os
import secrets
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


def own_name() -> str:
    """A unique name for this process."""
    pid = os.getpid()
    return f"{_place()}/{pid}/{_began(pid) or ''}/{secrets.token_hex(4)}"


def is_dead(owner: str) -> bool:
    """Whether the process of a name is known to be gone; False if unknown.

    >>> is_dead(own_name()), is_dead("elsewhere/1/1/x")
    (False, False)
    """
    place, pid, began, *_ = [*owner.split("/"), "", "", ""]
    if not place or place != _place() or not pid.isdigit() or not began:
        return False
    return _began(int(pid)) != began


def _place() -> str:
    """The machine's boot id and the PID namespace; '' if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """When a process began, since process ids are reused; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
