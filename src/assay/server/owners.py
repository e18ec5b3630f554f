"""The owners of jobs: a name for this process, and whether the process of another name is dead.

On the same machine a dead process can be detected, so a restarted server takes its jobs over at
once. On other machines a job is free when its owner has been silent for long enough.
"""

from __future__ import annotations

import os
import secrets


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
    """When a process began, because process ids are reused. None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
