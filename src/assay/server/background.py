"""Background work of a server: jobs, executions, traces. Each task polls for the next piece of
work.

A job has an owner, a server that holds a lock as long as it lives. A server of the same user on the
same machine sees that the lock is free and takes the job over at once. Elsewhere a job is free when
its owner has been silent for long enough.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import tempfile
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


class Owner:
    """The name under which a server owns work, and a lock that it holds until it ends, however it
    ends.
    """

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        self._file: int | None = None

    def hold(self) -> None:
        """Take the lock. Without a folder for it, this owner counts as dead only by its silence."""
        with suppress(OSError):
            self._file = os.open(_lock_of(self.name), os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            with suppress(OSError):
                os.unlink(_lock_of(self.name))
            os.close(self._file)
            self._file = None


def is_dead(owner: str) -> bool:
    """Whether the process of an owner was killed; False if unknown.

    >>> is_dead(Owner().name), is_dead("../../etc/passwd")
    (False, False)
    """
    if len(owner) != 16 or not set(owner) <= set("0123456789abcdef"):
        return False
    try:
        file = os.open(_lock_of(owner), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:  # of another machine or user, or ended in order
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _lock_of(owner: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"assay-server-{owner}.lock")
